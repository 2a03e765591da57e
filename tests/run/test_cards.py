"""Cards as data: what each one says, where its values come from, which code it runs, and what it refuses."""

import functools
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from messages import one_line
from smemsim import Gpu, InputError, TensorMap, Unmodelled
from smemsim.cli import main
from smemsim.core.arithmetic.values import from_float64
from smemsim.core.spec.architectures import ARCHITECTURES, MACHINES
from smemsim.core.spec.cards import ALL_CARDS, CARDS, OF_PRODUCTS, card_named
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.targets import how_it_runs
from smemsim.virtual import CudaError, Image, NoCode, Policy, VirtualDevice, chosen
from tools.witnesses.kill import running
from tools.witnesses.launches import compiled_launches

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
    assert device.attributes.limits[7] == most
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


# ---- mma.sync of each card


def through(arch: str, name: str, outputs: int, registers: list[np.ndarray], behind: str = "", *, target: str = "", version: str = "9.1"):
    """D (outputs, 32) of one instruction of a warp; `registers` are those of A, B, C and what stands behind them,
    uint32 (count, 32). In `behind` {0} is the first of the last group's registers.
    """
    flat = np.concatenate([np.asarray(x, np.uint32) for x in registers])
    loads = "\n".join(f"ld.global.b32 %a{n}, [%d2 + {128 * n}];" for n in range(len(flat)))
    stores = "\n".join(f"st.global.b32 [%d4 + {128 * n}], %o{n};" for n in range(outputs))
    first, lists = 0, []
    for x in registers[:3]:
        lists.append("{" + ", ".join(f"%a{first + n}" for n in range(len(x))) + "}")
        first += len(x)
    more = behind.format(*(f"%a{first + n}" for n in range(len(flat) - first)))
    text = f""".version {version}
.target {target or arch}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b32 %a<64>; .reg .b32 %o<16>; .reg .b32 %r<4>; .reg .b64 %d<5>; .reg .b16 %h<8>;
ld.param.u64 %d1, [in]; ld.param.u64 %d3, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d4, %d3, %d2; add.u64 %d2, %d1, %d2;
{loads}
mov.u16 %h1, 1; mov.u16 %h2, 2; cvt.u16.u32 %h3, %r1;
{name} {{{", ".join(f"%o{n}" for n in range(outputs))}}}, {", ".join(lists)}{more};
{stores}
ret; }}
"""
    gpu = Gpu(arch)
    held, out = gpu.array(flat), gpu.zeros((outputs, 32), np.uint32)
    run = gpu.launch(text, "k", args=[held, out], block=32, progress=False)
    assert run.findings == []
    return out.numpy(), run


LANE = np.arange(32)
BITS = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4}
FEW = np.array([0.0, 1.0, -1.0, 2.0, 0.5, -1.5, 3.0, -0.5])  # numbers that every type has


def in_bytes(values: np.ndarray, dtype: str) -> np.ndarray:
    """Elements of k32 kinds: a byte each, 4 bits in its middle; what lies beside the element is garbage."""
    raw = from_float64(values, dtype)
    garbage = np.random.default_rng(1).integers(0, 256, raw.shape).astype(np.uint8)
    low, mask = {8: (0, 0xFF), 6: (0, 0x3F), 4: (2, 0x3C)}[BITS[dtype]]
    return raw << low & mask | garbage & ~np.uint8(mask)


def words(elements: np.ndarray, bits: int) -> np.ndarray:
    """Registers (count, 32) of elements (count, 32), from their low bits up."""
    per = 32 // bits
    parts = elements.astype(np.uint32).reshape(-1, per, 32) << (np.arange(per, dtype=np.uint32) * np.uint32(bits))[None, :, None]
    return np.bitwise_or.reduce(parts, axis=1)


def a_fragment(matrix: np.ndarray, bits: int) -> np.ndarray:
    """Registers of A (16, K) as the PTX ISA says it of s8 and s4: element i of lane 4 g + t is in row g or g + 8, by
    eights (by fours of bytes).
    """
    per = 32 // bits
    i = np.arange(matrix.size // 32)[:, None]
    row = LANE // 4 + 8 * (i // per % 2)
    return words(matrix[row, LANE % 4 * per + i % per + 4 * per * (i // (2 * per))], bits)


def b_fragment(matrix: np.ndarray, bits: int) -> np.ndarray:
    """Registers of B, given as (8, K)."""
    per = 32 // bits
    i = np.arange(matrix.size // 32)[:, None]
    return words(matrix[LANE // 4 + 0 * i, LANE % 4 * per + i % per + 4 * per * (i // per)], bits)


def d_matrix(d: np.ndarray, kind: str = "f32") -> np.ndarray:
    """D (16, 8) of its registers."""
    values = d.view(np.float32) if kind == "f32" else d.T.copy().view(np.float16).T.astype(np.float32)
    out = np.empty((16, 8), np.float32)
    for i in range(4):
        out[LANE // 4 + 8 * (i // 2), LANE % 4 * 2 + i % 2] = values[i]
    return out


C0 = np.zeros((4, 32), np.uint32)
SCALES = {"ue8m0": 2.0 ** np.arange(-3, 4), "ue4m3": np.array([0.5, 1.0, 1.5, 2.0, 0.25, 3.0])}


def scale_registers(rng, rows: int, factors: int, dtype: str, byte: int, thread: int):
    """(numbers (rows, factors), the register of every lane): the factors where the selectors say, garbage everywhere
    else.
    """
    numbers = rng.choice(SCALES[dtype], (rows, factors))
    held = rng.integers(0, 256, (32, 4)).astype(np.uint8)
    for row in range(rows):
        lane = 4 * row + thread if rows == 8 else 4 * (row % 8) + 2 * thread + row // 8
        held[lane, byte : byte + factors] = from_float64(numbers[row], dtype)
    return numbers, held.view(np.uint32).T


SCALED = [
    *(("mxf8f6f4", a, b, 32, 1, "ue8m0") for n, a in enumerate(BITS) for m, b in enumerate(BITS) if (n + 2 * m) % 4 == 0), ("mxf4", "e2m1", "e2m1", 64, 2, "ue8m0"), ("mxf4nvf4", "e2m1", "e2m1", 64, 2, "ue8m0"),
    ("mxf4nvf4", "e2m1", "e2m1", 64, 4, "ue4m3"), ("mxf4nvf4", "e2m1", "e2m1", 64, 4, "ue8m0"),
]  # fmt: skip


def sparse_of(rng, a: np.ndarray, pairwise: bool):
    """(stored A, metadata registers) of an A (16, K) whose other elements are set to zero: two of four, pairs of two of
    eight.
    """
    chunk, groups = (8 if pairwise else 4), a.shape[1] // (8 if pairwise else 4)
    nibbles = rng.choice([0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110], (16, groups))
    stored, whole = np.zeros((16, a.shape[1] // 2)), np.zeros_like(a)
    for row in range(16):
        for g in range(groups):
            kept = [nibbles[row, g] & 3, nibbles[row, g] >> 2]
            at = [chunk * g + 2 * x + half for x in kept for half in (0, 1)] if pairwise else [chunk * g + x for x in kept]
            stored[row, len(at) * g : len(at) * (g + 1)] = a[row, at]
            whole[row, at] = a[row, at]
    held = np.zeros(32, np.uint32)
    for row in range(16):
        for g in range(groups):
            held[row % 8 * 4 + g // 8 * 2 + row // 8] |= np.uint32(int(nibbles[row, g]) << 4 * (g % 8))
    return stored, whole, held[None]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("kind", "a", "b", "k", "factors", "scale"), SCALED, ids=str)
def test_block_scaled_products_come_out_exact_with_every_selector(kind, a, b, k, factors, scale, sparse):
    """Small numbers, whose sums need no rounding: the layout of operands, metadata and scale factors, as the PTX ISA
    and CUTLASS have it.
    """
    rng = np.random.default_rng(len(a) + 7 * k + factors + sparse)
    k *= 1 + sparse
    of_a, of_b = rng.choice(FEW, (16, k)), rng.choice(FEW, (8, k))
    stored, of_a, metadata = sparse_of(rng, of_a, kind != "mxf8f6f4") if sparse else (of_a, of_a, np.zeros((0, 32), np.uint32))
    if kind == "mxf8f6f4":
        registers = [a_fragment(in_bytes(stored, a), 8), b_fragment(in_bytes(of_b, b), 8)]
    else:
        registers = [a_fragment(from_float64(stored, a), 4), b_fragment(from_float64(of_b, b), 4)]
    byte, thread_a, thread_b = int(rng.choice({1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[factors])), int(rng.integers(2)), int(rng.integers(4))
    scale_a, held_a = scale_registers(rng, 16, factors, scale, byte, thread_a)
    scale_b, held_b = scale_registers(rng, 8, factors, scale, byte, thread_b)
    name = f"mma{'.sp::ordered_metadata' if sparse else ''}.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{factors}X.f32.{a}.{b}.f32.{scale}"
    behind = (
        ", {{{0}}}, 0" if sparse else ""
    ) + f", {{{{{{{int(sparse)}}}}}}}, {{{{{byte}, {thread_a}}}}}, {{{{{{{sparse + 1}}}}}}}, {{{{{byte}, {thread_b}}}}}"
    d, _ = through("sm_120a", name, 4, [*registers, C0, metadata, held_a, held_b], behind)
    each = k // factors
    wanted = (of_a * scale_a.repeat(each, 1)) @ (of_b * scale_b.repeat(each, 1)).T
    assert (d_matrix(d) == wanted.astype(np.float32)).all()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("d_type", ["f32", "f16"])
@pytest.mark.parametrize(("a", "b"), [("e2m1", "e2m1"), ("e3m2", "e2m3"), ("e4m3", "e2m1"), ("e2m3", "e5m2")])
@pytest.mark.parametrize("arch", ["sm_120a", "sm_121a"])
def test_small_types_lie_in_bytes(arch, a, b, d_type, sparse):
    rng = np.random.default_rng(5)
    k = 64 if sparse else 32
    of_a, of_b = rng.choice(FEW, (16, k)), rng.choice(FEW, (8, k))
    stored, of_a, metadata = sparse_of(rng, of_a, pairwise=False) if sparse else (of_a, of_a, np.zeros((0, 32), np.uint32))
    name = f"mma{'.sp::ordered_metadata' if sparse else ''}.sync.aligned.m16n8k{k}.row.col.kind::f8f6f4.{d_type}.{a}.{b}.{d_type}"
    count = 4 if d_type == "f32" else 2
    registers = [a_fragment(in_bytes(stored, a), 8), b_fragment(in_bytes(of_b, b), 8), C0[:count], metadata]
    d, run = through(arch, name, count, registers, ", {0}, 0" if sparse else "")
    if d_type == "f16":
        d = d.T.copy().view(np.float16).T.astype(np.float32).view(np.uint32)  # halves of a register are neighbours
    assert (d_matrix(d) == (of_a @ of_b.T).astype(np.float32)).all()
    assert any("inferred" in line and "mma.sync" in line for line in run.evidence)


MX = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
ONES = [np.full((4, 32), 0x22222222, np.uint32), np.full((2, 32), 0x22222222, np.uint32), C0, np.full((2, 32), 0x7F7F7F7F, np.uint32)]


@pytest.mark.parametrize(
    ("selectors", "said"),
    [("{{1, 0}}, {{{1}}}, {{0, 0}}", "byte-id 1 of A: 2X has 0 2"), ("{{0, 2}}, {{{1}}}, {{0, 0}}", "thread-id 2 of A: 2X has 0 1"),
     ("{{0, 0}}, {{{1}}}, {{0, 4}}", "thread-id 4 of B: 2X has 0 1 2 3")],
)  # fmt: skip
def test_selectors_that_ptxas_refuses_are_refused(selectors, said):
    with pytest.raises(InputError, match=said):
        through("sm_120a", MX, 4, ONES, ", {{{0}}}, " + selectors)


def test_selectors_may_be_registers_that_are_the_same_everywhere():
    d, _ = through("sm_120a", MX, 4, ONES, ", {{{0}}}, {{%h2, %h1}}, {{{1}}}, {{%h2, %h2}}")
    assert (d_matrix(d) == 64).all()
    with pytest.raises(Unmodelled, match="undefined unless all threads have one of"):
        through("sm_120a", MX, 4, ONES, ", {{{0}}}, {{0, 0}}, {{{1}}}, {{0, %h3}}")
    with pytest.raises(Unmodelled, match="undefined"):
        through("sm_120a", MX, 4, ONES, ", {{{0}}}, {{%h1, 0}}, {{{1}}}, {{0, 0}}")


@pytest.mark.parametrize(
    ("name", "said"),
    [("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0", r"needs \.version 9\.1"),
     ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3", "has 2X of ue8m0, 4X of ue4m3, 4X of ue8m0"),
     ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue4m3", "has 2X of ue8m0"),
     ("mma.sync.aligned.m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "m16n8k32: mma.sync with e2m1 has m16n8k64"),
     ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "needs .scale_vec")],
)  # fmt: skip
def test_combinations_that_do_not_exist_are_refused(name, said):
    with pytest.raises((InputError, Unmodelled), match=said):
        through("sm_120a", name, 4, ONES, ", {{{0}}}, {{0, 0}}, {{{1}}}, {{0, 0}}", version="9.0")


def one_dot(arch: str, types: str, k: int, a: dict[int, float], b: dict[int, float], c: float, target: str = "") -> float:
    """D[0, 0] of row 0 of A and column 0 of B, zeros elsewhere."""
    dtype = types.split(".")[1]
    bits = {"f16": 16, "e4m3": 8, "e5m2": 8, "tf32": 32}[dtype]
    of_a, of_b = np.zeros((16, k)), np.zeros((8, k))
    for held, given in ((of_a, a), (of_b, b)):
        for at, value in given.items():
            held[0, at] = value
    start = C0.copy()
    start[0, 0] = np.float32(c).view(np.uint32)
    d, _ = through(
        arch,
        f"mma.sync.aligned.m16n8k{k}.row.col.{types}",
        4,
        [a_fragment(from_float64(of_a, dtype), bits), b_fragment(from_float64(of_b, dtype), bits), start],
        target=target,
    )
    return float(d_matrix(d)[0, 0])


@pytest.mark.parametrize(
    ("arch", "wanted"), [("sm_80", 0.25), ("sm_86", 0.25), ("sm_89", 0.25), ("sm_90a", 0.0), ("sm_110a", 0.0), ("sm_120a", 0.0)]
)
def test_ampere_and_ada_sum_k_in_two_halves(arch, wanted):
    """2^24 and its negative in the first half leave room for a quarter in the second; in one sum it is cut."""
    big, small = {0: 4096.0, 1: 4096.0, 12: 0.5}, {0: 4096.0, 1: -4096.0, 12: 0.5}
    assert one_dot(arch, "f32.f16.f16.f32", 16, big, small, 0.0, target="sm_80") == wanted


@pytest.mark.parametrize(("arch", "wanted"), [("sm_80", 2.0**24), ("sm_89", 2.0**24), ("sm_90a", 2.0**24 + 2), ("sm_120a", 2.0**24 + 2)])
def test_newer_cards_keep_a_bit_more(arch, wanted):
    """Four halves beside 2^24: cut at 2^0 with 24 bits, kept at 2^-1 with 25."""
    small = dict.fromkeys(range(1, 5), 0.5)
    assert (
        one_dot(arch, "f32.f16.f16.f32", 8, {0: 4096.0, **small}, {0: 4096.0, **dict.fromkeys(small, 1.0)}, 0.0, target="sm_80") == wanted
    )


@pytest.mark.parametrize(
    ("arch", "c", "products", "wanted"),
    [
        ("sm_89", 1.0, {0: 2.0**-7}, 1.0), ("sm_120a", 1.0, {0: 2.0**-7}, 1 + 2.0**-14), ("sm_90a", 1.0, {0: 2.0**-7}, 1 + 2.0**-14),
        ("sm_90a", 2.0**25, {0: 1.0, 1: 1.0, 2: 1.0}, 2.0**25 + 4), ("sm_120a", 2.0**25, {0: 1.0, 1: 1.0, 2: 1.0}, 2.0**25), ("sm_89", 2.0**25, {0: 1.0}, 2.0**25),
    ],
)  # fmt: skip
def test_8_bit_floats_are_summed_by_the_unit_that_the_card_has(arch, c, products, wanted):
    """Ada cuts at 13 bits; sm_90a makes f16 of them and adds C last, to nearest; sm_120a has a unit with 25 bits, which
    cuts the result.
    """
    assert one_dot(arch, "f32.e5m2.e5m2.f32", 32, products, products, c, target="sm_89") == wanted


@pytest.mark.parametrize("arch", ["sm_80", "sm_86"])
def test_ampere_has_no_8_bit_floats(arch):
    with pytest.raises(InputError, match="it needs sm_89 or higher"):
        one_dot(arch, "f32.e4m3.e4m3.f32", 32, {0: 1.0}, {0: 1.0}, 0.0, target=arch)


# ---- TMA of sm_120a, tcgen05 of sm_110a

LOAD = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
.reg .b32 %r<8>; .reg .b64 %d<6>; .reg .pred %p<3>;
.shared .align 1024 .b8 sm[4096]; .shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r3, bar; mov.u64 %d1, map; cvta.param.u64 %d2, %d1; setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {bytes};
cp.async.bulk.tensor.2d.{to}.global.tile.mbarrier::complete_tx::bytes [%r2], [%d2, {{0, 0}}], [%r3];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r1, 4; add.u64 %d3, %d3, %d4; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4]; st.global.u32 [%d3], %r5;
ret; }}
"""


def loaded(arch: str, to: str, data_type: str, swizzle: str = "none") -> np.ndarray:
    gpu = Gpu(arch)
    data = gpu.array(np.arange(4096, dtype=np.uint8))
    width = {"16U4_ALIGN16B": 128, "u8": 128}[data_type]
    tm = TensorMap.tiled(
        data_type=data_type,
        global_address=data.address,
        global_dim=(width, 8),
        global_strides=(128,),
        box_dim=(width, 4),
        swizzle=swizzle,
        arch=arch,
    )
    out = gpu.zeros(32, np.uint32)
    gpu.launch(LOAD.format(target=arch, to=to, bytes=512), "k", args=[tm, out], block=32, progress=False)
    return out.numpy().view(np.uint8)


@pytest.mark.parametrize(("data_type", "swizzle"), [("16U4_ALIGN16B", "none"), ("u8", "128B_ATOM_32B")])
def test_sm_120a_loads_padded_types_and_atoms_to_its_own_cta_alone(data_type, swizzle):
    """The PTX ISA says so of the destination's spelling; CUTLASS writes .shared::cta there."""
    known = loaded("sm_100a", "shared::cluster", data_type, swizzle)
    assert (loaded("sm_120a", "shared::cta", data_type, swizzle) == known).all()
    with pytest.raises(Unmodelled, match=r"write \.shared::cta"):
        loaded("sm_120a", "shared::cluster", data_type, swizzle)
    assert (loaded("sm_120a", "shared::cluster", "u8") == loaded("sm_90a", "shared::cluster", "u8")).all()


@pytest.mark.parametrize("name", ["gluon_written_none_k_k", "triton_two_ctas"])
def test_what_a_b200_runs_a_thor_runs_with_the_same_bytes_and_findings(name):
    ptx, launch = compiled_launches.read()[name]
    thors = re.sub(r"\.target sm_100[af]", ".target sm_110a", re.sub(r"\.version \d\.\d", ".version 9.0", ptx, count=1))
    runs = [
        running.launched(launch, ptx, progress=False),
        running.launched(json.loads(json.dumps(launch).replace("sm_100a", "sm_110a")), thors, progress=False),
    ]
    assert runs[0][0].findings == runs[1][0].findings == []
    for known, found in zip(runs[0][2].values(), runs[1][2].values(), strict=True):
        assert known.numpy().tobytes() == found.numpy().tobytes()


TMEM = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b32 %r<12>; .reg .b64 %d<4>; .reg .f32 %f<8>; .reg .pred %p<2>; .shared .b32 at;
mov.u32 %r1, at; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; bar.warp.sync -1; ld.shared.u32 %r2, [%r1]; mov.u32 %r3, %tid.x;
cvt.rn.f32.u32 %f1, %r3; neg.f32 %f2, %f1; mov.b32 %r4, %f1; mov.b32 %r5, %f2;
tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2], {{%r4, %r5}}; tcgen05.wait::st.sync.aligned;
{body}
ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.f32 [%d1], %f7;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret; }}
"""


def tensor_memory(target: str, body: str) -> np.ndarray:
    gpu = Gpu(target)
    out = gpu.zeros(32, np.float32)
    gpu.launch(TMEM.format(target=target, body=body), "k", args=[out], block=32, progress=False)
    return out.numpy()


def test_a_thor_loads_with_a_reduction_and_lacks_what_ptxas_refuses_there():
    reduced = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%f5, %f6}, %f7, [%r2]; tcgen05.wait::ld.sync.aligned;"
    assert tensor_memory("sm_110a", reduced).tolist() == tensor_memory("sm_103a", reduced).tolist() == (-LANE.astype(np.float32)).tolist()
    with pytest.raises(InputError, match="it needs sm_103f"):
        tensor_memory("sm_100a", reduced)
    for body in (
        "cvt.rs.f16x2.f32 %r6, %f1, %f2, %r3;",
        "redux.sync.min.f32 %f7, %f1, -1;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r2], %d1, %d1, %r3, %p1, 2;",
    ):
        with pytest.raises(InputError, match=r"not supported on \.target sm_110a"):
            tensor_memory("sm_110a", body)


@pytest.mark.parametrize(("arch", "fits"), [("sm_110a", 1), ("sm_100a", 2)])
def test_two_ctas_of_1024_threads_fit_where_there_are_2048(arch, fits):
    device = VirtualDevice(arch, policy=Policy(quiet=True))
    assert device.occupancy.blocks_per_multiprocessor(device.load(small(arch)).function("k"), 1024, 0) == fits


@pytest.mark.parametrize(("arch", "warps"), [("sm_80", 64), ("sm_86", 48), ("sm_90a", 64), ("sm_110a", 48), ("sm_120a", 48)])
def test_nwarpid_is_as_many_warps_as_a_multiprocessor_has(arch, warps):
    gpu = Gpu(arch)
    to = gpu.zeros(32, np.int32)
    gpu.launch(small(arch, "mov.u32 %r1, %nwarpid;"), "k", args=[to], block=32, progress=False)
    assert set(to.numpy().tolist()) == {warps}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_110a", "sm_120a", "sm_121a"])
def test_clusters_of_sixteen_are_known_of_an_h200_alone(arch):
    gpu = Gpu(arch)
    launch = functools.partial(
        gpu.launch, small(arch), "k", args=[gpu.zeros(32, np.int32)], block=32, grid=16, progress=False, sanitize=False
    )
    launch(cluster=8)
    if arch == "sm_90a":
        launch(cluster=16)
    else:
        with pytest.raises(Unmodelled, match=f"whether {arch} has clusters of more than 8 is not known"):
            launch(cluster=16)


def test_a_card_without_clusters_answers_a_program_that_wants_some_with_801():
    device = VirtualDevice("sm_89", policy=Policy(quiet=True))
    f = device.load(small("sm_89")).function("k")
    with pytest.raises(CudaError) as e:
        device.launch(f, 2, 32, [bytes(8)], cluster=2)
    assert e.value.code == 801
    assert device.error == 0


# ---- Reports that owners of sm_120 and sm_121 cards have filed, as small kernels of our own: what a run says of each


EXCHANGE = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 to) {{
.reg .b32 %r<12>; .reg .b64 %d<4>; .shared .align 4 .b32 word;
mov.u32 %r1, word; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
{before}
mapa.shared::cluster.u32 %r4, %r1, %r3; add.u32 %r5, %r2, 40; st.shared::cluster.u32 [%r4], %r5;
{between}
ld.shared.u32 %r6, [%r1]; ld.param.u64 %d1, [to]; mov.u32 %r7, %ctaid.x; mul.wide.u32 %d2, %r7, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r6;
{behind}
ret; }}
"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


@pytest.mark.parametrize("arch", ["sm_120a", "sm_121a"])
def test_report_clusters_and_shared_memory_of_others_work_on_sm_120(arch):
    """Two threads say that they do not, two that they do (triton 10963 and 10973, quack 91): ptxas has native code for
    all of it.
    """
    gpu = Gpu(arch)
    to = gpu.zeros(4, np.int32)
    run = gpu.launch(
        EXCHANGE.format(target=arch, before=MEET, between=MEET, behind=""), "k", args=[to], grid=4, block=1, cluster=2, progress=False
    )
    assert (to.numpy().tolist(), run.findings) == ([41, 40, 41, 40], [])


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
def test_report_the_same_without_its_barrier_is_a_race_there_as_on_hopper(arch):
    gpu = Gpu(arch)
    run = gpu.launch(
        EXCHANGE.format(target=arch, before=MEET, between="", behind=MEET),
        "k",
        args=[gpu.zeros(4, np.int32)],
        grid=4,
        block=1,
        cluster=2,
        progress=False,
    )
    assert {f.code for f in run.findings} == {"X008"}


def test_report_tcgen05_for_a_geforce_is_refused_before_the_launch():
    """cutlass 2513: an example for sm_100a, built for sm_120a, ended with "invalid argument"."""
    with pytest.raises(InputError, match=r"tcgen05\.alloc.*: not supported on \.target sm_120a: it needs sm_100f"):
        tensor_memory("sm_120a", "")
    with pytest.raises(NoCode, match="PTX for sm_100a, which sm_120a does not run"):
        chosen([Image("sm_100a", ".target sm_100a", "PTX")], "sm_120a")


@pytest.mark.parametrize(("arch", "size"), [("sm_120a", 168128), ("sm_121a", 131072)])
def test_report_a_tile_for_a_datacentre_card_does_not_fit(arch, size):
    """tilelang 2201 asked for 168,128 bytes; TensorRT-LLM 12141 has two tiles of 128 x 256 bytes and A's beside them."""
    device = VirtualDevice(arch, policy=Policy(quiet=True))
    f = device.load(small(arch)).function("k")
    with pytest.raises(CudaError, match=f"{size} bytes of dynamic shared memory: k can have 101376 at most"):
        f.set_attribute(8, size)
    gpu = Gpu(arch)
    with pytest.raises(InputError, match=f"needs at most 101376 B: a CTA has 101376 B on {arch}"):
        gpu.launch(small(arch), "k", args=[gpu.zeros(32, np.int32)], block=32, shared_bytes=size, progress=False)


@pytest.mark.parametrize(("offset", "traps"), [(0, False), (16, True), (64, True), (128, False)])
def test_report_a_tma_destination_off_128_bytes_traps(offset, traps):
    """tilelang's test for sm_120: 16 bytes were enough for the compiler, and the card stopped with a misaligned
    address.
    """
    gpu = Gpu("sm_120a")
    data, out = gpu.array(np.arange(4096, dtype=np.uint8)), gpu.zeros(32, np.uint32)
    tm = TensorMap.tiled(
        data_type="u8", global_address=data.address, global_dim=(128, 8), global_strides=(128,), box_dim=(128, 4), arch="sm_120a"
    )
    text = LOAD.format(target="sm_120a", to="shared::cta", bytes=512).replace(
        "mov.u32 %r2, sm;", f"mov.u32 %r2, sm; add.u32 %r2, %r2, {offset};"
    )
    run = gpu.launch(text, "k", args=[tm, out], block=32, progress=False)
    assert ("716" in run.text()) == traps
    assert bool(run.findings) == traps


@pytest.mark.parametrize(
    ("body", "name"),
    [("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, "
      "{%f1, %f2, %f3, %f4}, {%r1}, {0, 0}, {%r1}, {0, 0};", "kind::mxf4.block_scale"), ("cvt.rn.satfinite.e2m1x2.f32 %c1, %f1, %f2;", "e2m1x2")],
)  # fmt: skip
def test_report_fp4_for_the_plain_target_says_which_target_it_needs(body, name):
    """llama.cpp 17906 and 18363, ds4 672, FBGEMM 4975: built for sm_120, where ptxas names the instruction and no way
    out.
    """
    text = small("sm_120", body).replace(".reg .b32 %r<4>;", ".reg .b32 %r<4>; .reg .f32 %f<8>; .reg .b8 %c<2>;")
    gpu = Gpu("sm_120a")
    with pytest.raises(InputError, match=rf"{re.escape(name)}.*: not supported on \.target sm_120: it needs sm_\w*f.* or sm_120a"):
        gpu.launch(text, "k", args=[gpu.zeros(32, np.int32)], block=32, progress=False)


def test_report_scale_factors_that_nobody_wrote_are_found():
    """flashinfer 2577 and TensorRT-LLM 14154 tell of garbage from NVFP4: of scale factors that were never stored,
    results are doubtful, row by row.
    """
    gpu = Gpu("sm_120a")
    ones, scales, out = gpu.array(np.full(32, 0x22222222, np.uint32)), gpu.empty(32, np.uint32), gpu.zeros((4, 32), np.uint32)
    text = SCALED_KERNEL
    run = gpu.launch(text, "k", args=[ones, scales, out], block=32, progress=False)
    assert "R507" in {f.code for f in run.findings}
    run = gpu.launch(text, "k", args=[ones, gpu.array(np.full(32, 0x7F7F7F7F, np.uint32)), out], block=32, progress=False)
    assert run.findings == []
    assert (out.numpy().view(np.float32) == 64).all()


SCALED_KERNEL = """.version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 ones, .param .u64 scales, .param .u64 out) {
.reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<8>;
ld.param.u64 %d1, [ones]; ld.param.u64 %d2, [scales]; ld.param.u64 %d3, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4;
add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4; ld.global.b32 %r2, [%d1]; ld.global.b32 %r3, [%d2];
mov.f32 %f1, 0f00000000;
mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r2, %r2},
{%f1, %f1, %f1, %f1}, {%r3}, {0, 0}, {%r3}, {0, 0};
st.global.f32 [%d3], %f2; st.global.f32 [%d3+128], %f3; st.global.f32 [%d3+256], %f4; st.global.f32 [%d3+384], %f5; ret; }
"""


def test_report_which_matrix_instructions_a_kernel_has_is_told():
    """triton 7550: a product of scaled types ran as bf16, and nothing said so."""
    device = VirtualDevice("sm_120a", policy=Policy(quiet=True))
    assert device.load(SCALED_KERNEL).function("k").families == ("mma.sync kind::mxf4nvf4",)
    plain = SCALED_KERNEL.replace("kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", "f32.bf16.bf16.f32").replace(
        "m16n8k64", "m16n8k16"
    )
    assert device.load(plain.replace(", {%r3}, {0, 0}, {%r3}, {0, 0};", ";")).function("k").families == ("mma.sync",)


@pytest.mark.parametrize("tier", ["closures", "compiled"])
@pytest.mark.parametrize("cohorts", ["", "off"])
def test_block_scaled_products_are_the_same_by_every_tier(tier, cohorts, monkeypatch):
    """A grid of CTAs alike, with a loop around the product, and scale factors of which one lane's were never written."""
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    gpu = Gpu("sm_120a")
    scales = gpu.array(np.full(32, 0x807E7F7F, np.uint32))
    ones, out = gpu.array(np.full(32, 0x22222222, np.uint32)), gpu.zeros((4, 32), np.uint32)
    text = SCALED_KERNEL.replace("mma.sync", "mov.u32 %r4, 0; L: mma.sync").replace(
        "{0, 0};\nst", "{0, 0};\nadd.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra L;\nst"
    )
    text = text.replace(".reg .f32 %f<8>;", ".reg .f32 %f<8>; .reg .pred %p<2>;")
    run = gpu.launch(text, "k", args=[ones, scales, out], block=32, grid=6, progress=False)
    assert run.findings == []
    assert (out.numpy().view(np.float32) == 64).all()


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [("sm_120", (), "sm_120a"), ("sm_110f", (), "sm_110a"), ("sm_89", ("--arch", "sm_89"), "Ada"), ("sm_121a", (), "sm_121a")],
)
def test_the_command_line_runs_a_file_on_the_card_of_its_target(target, options, said, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n")
    result = CliRunner().invoke(main, ["run", str(path), "--block", "32", *options])
    assert (result.exit_code, said in result.output) == (0, True)


@pytest.mark.parametrize("command", ["decode", "plan"])
def test_words_of_matrix_descriptors_are_refused_where_nothing_reads_them(command):
    given = {"decode": ["0x4000404000010040"], "plan": ["128x64", "--dtype", "bf16", "--major", "K"]}[command]
    assert CliRunner().invoke(main, [command, *given, "--arch", "sm_110a"]).exit_code == 0
    result = CliRunner().invoke(main, [command, *given, "--arch", "sm_120a"])
    assert result.exit_code == 2
    assert "not an architecture whose instructions read shared memory through descriptors" in one_line(result.stderr)
