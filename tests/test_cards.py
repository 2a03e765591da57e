"""Cards as data: what each one says, where its values come from, which code it runs, and what it refuses."""

import numpy as np
import pytest
from click.testing import CliRunner

from smemsim import Gpu, InputError
from smemsim.cli import main
from smemsim.spec.architectures import ARCHITECTURES, MACHINES
from smemsim.spec.cards import ALL_CARDS, CARDS, OF_PRODUCTS, card_named
from smemsim.spec.grades import Grade
from smemsim.spec.targets import how_it_runs
from smemsim.virtual import CudaError, Image, NoCode, Policy, VirtualDevice, chosen

SMALL = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 to) {{
  .reg .b32 %r<4>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
  {body}
  st.global.u32 [%d1], %r1;
  ret;
}}
"""


def small(target: str, body: str = "") -> str:
    return SMALL.format(target=target, body=body)


# ---- The table


def test_every_architecture_has_a_card_and_every_card_an_architecture():
    assert {card.arch for card in ALL_CARDS} == set(MACHINES) == set(CARDS)
    assert [CARDS[arch].names[0] for arch in ARCHITECTURES] == ["H200", "B200", "B300"]


@pytest.mark.parametrize("card", ALL_CARDS, ids=lambda card: card.names[0])
def test_every_value_of_a_card_has_a_source_or_is_unknown(card):
    for name in OF_PRODUCTS | {"max_threads_per_multiprocessor", "max_shared_memory_per_block_optin", "max_grid_dim_x"}:
        known = card.known(name)
        assert known.source
        assert (known.value is None) == (known.grade is None) == (name in card.unknown)
        assert card.named(name) == (known.value or 0)
        assert known.grade is not Grade.MEASURED or card.names[0] == "H200"


def test_a_card_goes_by_its_names_and_no_two_share_one():
    for card in ALL_CARDS:
        for name in (card.name, *card.names, card.names[0].lower().replace(" ", "")):
            assert card_named(name) is card


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RTX 5070", "no record of this card. It has"),
        ("Tor", "did you mean 'Thor'"),
        ("", "no record"),
        ("H20", "no record of this card. It"),
    ],
)
def test_an_unknown_card_is_a_sentence_and_never_another_number(name, said):
    with pytest.raises(InputError, match="--multiprocessors and --device-memory") as e:
        card_named(name)
    assert said in str(e.value)


@pytest.mark.parametrize(
    ("name", "threads", "ctas", "most"),
    [("A100", 2048, 32, 166912), ("RTX 3090", 1536, 16, 101376), ("RTX 4090", 1536, 24, 101376), ("H100 PCIe", 2048, 32, 232448),
     ("Thor", 1536, 24, 232448), ("RTX 5090", 1536, 24, 101376), ("GB10", 1536, 24, 101376)],
)  # fmt: skip
def test_limits_are_those_of_the_capability(name, threads, ctas, most):
    card = card_named(name)
    device = VirtualDevice(card.arch, policy=Policy(quiet=True), card=name)
    assert [device.attribute(n) for n in (39, 106, 97, 16)] == [threads, ctas, most, card.named("multiprocessor_count")]
    assert device.limits[7] == most
    f = device.load(small(card.arch)).function("k")
    assert device.occupancy.blocks_per_multiprocessor(f, 32, 0) == ctas
    assert device.occupancy.blocks_per_multiprocessor(f, 1024, 0) == threads // 1024
    f.set_attribute(8, most)
    with pytest.raises(CudaError):
        f.set_attribute(8, most + 1)


def test_what_is_unknown_is_0_and_said_once():
    device, told = VirtualDevice("sm_120a", policy=Policy(), card="RTX 5080"), []
    device.tell = told.append
    assert (device.attribute(38), told) == (64 << 20, [])
    assert [device.attribute(13), device.attribute(36)] == [0, 0]
    device.properties(13)
    assert len(told) == 1
    assert "have no known source" in told[0]


def test_a_card_is_of_its_architecture():
    with pytest.raises(InputError, match="is an sm_120a, and arch is sm_90a"):
        VirtualDevice("sm_90a", card="RTX 5090")


def test_clusters_that_one_reported_and_the_most_of_cards_of_which_nobody_did():
    assert [card_named("RTX 5090").clusters_at_once(size, 1) for size in (1, 2, 4, 8)] == [170, 85, 41, 19]
    assert card_named("RTX 5080").clusters_at_once(4, 1) == 21


# ---- The command line


def test_the_list_of_cards_has_them_all():
    result = CliRunner().invoke(main, ["exec", "--list-cards"])
    assert result.exit_code == 0
    assert all(card.name in result.stdout for card in ALL_CARDS)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--card", "RTX 5070"], "no record of this card"), (["--card", "GB10", "--arch", "sm_90a"], "is an sm_121a, and --arch says sm_90a"),
     (["--arch", "sm_120"], "did you mean 'sm_120a'"), ([], "--list-cards")],
)  # fmt: skip
def test_the_command_line_refuses_cards_with_a_sentence(options, said, monkeypatch):
    for name in ("SMEMSIM_ARCH", "SMEMSIM_CARD"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(main, ["exec", *options, "--", "true"])
    assert result.exit_code == 2
    assert said in result.stderr


# ---- Which code a card runs


@pytest.mark.parametrize(
    ("targets", "arch", "taken", "why"),
    [
        (("sm_80", "sm_120", "sm_120a"), "sm_120a", "sm_120a", "exact"),
        (("sm_80", "sm_120", "sm_120a"), "sm_121a", "sm_120", "older"),
        (("sm_120", "sm_120f"), "sm_121a", "sm_120f", "family"),
        (("sm_100f", "sm_90"), "sm_110a", "sm_90", "older"),
        (("sm_80", "sm_86", "sm_89"), "sm_89", "sm_89", "exact"),
        (("sm_80", "sm_86"), "sm_89", "sm_86", "older"),
        (("sm_121", "sm_90a"), "sm_120a", None, ""),
        (("sm_90a",), "sm_89", None, ""),
    ],
)
def test_code_is_chosen_as_the_driver_does_and_the_reason_is_told(targets, arch, taken, why):
    found = [Image(target, f".target {target}", "PTX") for target in targets]
    if taken is None:
        with pytest.raises(NoCode, match=f"which {arch} does not run"):
            chosen(found, arch)
        return
    image, reason = chosen(found, arch)
    assert image.target == taken
    assert how_it_runs(taken, arch) == why
    assert {"exact": f"PTX for {taken}", "family": "of the card's family", "older": "every later card runs it"}[why] in reason


@pytest.mark.parametrize(
    ("target", "arch"), [("sm_80", "sm_80"), ("sm_80", "sm_121a"), ("sm_120f", "sm_121a"), ("sm_110", "sm_110a"), ("sm_89", "sm_90a")]
)
def test_ptx_runs_where_the_driver_takes_it(target, arch):
    gpu = Gpu(arch)
    to = gpu.zeros(32, np.int32)
    assert gpu.launch(small(target), "k", args=[to], block=32, progress=False).findings == []
    assert to.numpy().tolist() == list(range(32))


@pytest.mark.parametrize(
    ("target", "arch"), [("sm_120a", "sm_121a"), ("sm_100f", "sm_120a"), ("sm_121", "sm_120a"), ("sm_90a", "sm_120a"), ("sm_89", "sm_86")]
)
def test_ptx_is_refused_where_the_driver_refuses_it(target, arch):
    with pytest.raises(InputError, match=r"\.target"):
        Gpu(arch).load(small(target))


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_cards_without_clusters_refuse_their_launch(arch):
    gpu = Gpu(arch)
    with pytest.raises(InputError, match=f"{arch} has no clusters"):
        gpu.launch(small(arch), "k", args=[gpu.zeros(64, np.int32)], block=32, grid=2, cluster=2, progress=False)
