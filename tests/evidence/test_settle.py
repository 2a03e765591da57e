"""What traces settle: a card that does what an alternative says is found out, a real card refutes what it does not do,
and grades change with that.
"""

import functools
import json
import pathlib
import re
import tempfile
import types

import pytest
from click.testing import CliRunner
from hypothesis import settings

from places import ROOT
from smemsim import RULES, Grade, InputError
from smemsim.cli import main
from smemsim.core.spec.alternatives import ALTERNATIVES, assuming
from smemsim.core.spec.calibration import CALIBRATION
from smemsim.core.spec.targets import target_number
from smemsim.core.spec.touched import touched
from smemsim.evidence import OPEN, REFUTED, SHOWN, Settled, Settlement, load_suite, patch, regraded, replay_suite, settle_suites
from smemsim.run.engine.device import Device

pytest.importorskip("cuda.bindings", reason="the capture kit needs cuda-bindings")
from smemsim.capture import bench, sync_suite
from smemsim.capture.blackwell import suites
from smemsim.capture.plan import PLANS
from test_blackwell_traces import capture

IS_NIGHTLY = settings.get_current_profile_name() == "nightly"
# A suite that meets the alternative, of each family.
SAMPLE = {
    "tcgen05.shift=other_way": "tmem_shifts", "tcgen05.alloc=unaligned": "tcgen05_allocations", "tma.blackwell=flip_ignored": "tma_atoms",
    "tcgen05.commit=with_own": "tcgen05_commits", "tcgen05.warp_window=ored": "tmem_access",
} | ({
    "tcgen05.lane_masks=zero_columns_counts": "tcgen05_modifiers", "tcgen05.idesc=majors_exchanged": "tcgen05_gemm", "tcgen05.accumulator=c_as_b": "tmem_layouts",
    "tcgen05.tensor_operands=a_4_bits_in_8": "tmem_operands",
} if IS_NIGHTLY else {})  # fmt: skip
# What the few cases of each suite do not tell. Types in other bits of an instruction descriptor, and another start, garble
# every case of a suite: such a card differs everywhere, and no alternative explains it.
UNTOLD = {
    "tcgen05.idesc=e2m1_is_4", "tcgen05.idesc=scaled_a_type_up", "tcgen05.idesc=scaled_b_type_up", "tcgen05.idesc=types_exchanged",
    "tcgen05.idesc=scaled_negate_b_up", "tcgen05.idesc=scaled_transpose_b_down",
    "arithmetic.tcgen05=f16_zeros_at_133", "arithmetic.tcgen05=f16_zeros_at_22", "arithmetic.tcgen05=4_bit_36_bits", "arithmetic.tcgen05=4_bit_37_bits",
    "arithmetic.tcgen05=4_bit_groups_of_32", "operand.any_start=start_of_13_bits",
    # D times 2^15 is above 2^24, where the numbers of rows are no longer exact: such a card differs, and "neither
    # explains" it.
    "arithmetic.tcgen05=scale_input_d_multiplies",
}  # fmt: skip


@pytest.fixture(scope="session")
def answers(once):
    """`answers(alternative, suite)`: the trace of a card that does what an alternative says (None: what the rules say),
    few cases of the suite.
    """

    @functools.cache
    def of(alternative, suite):
        with assuming(alternative):
            unknown = once(f"settle/{alternative}/{suite}.json", functools.partial(capture, suite))
        return load_suite(unknown.parent / suite)

    return of


@pytest.mark.parametrize("alternative", SAMPLE)
def test_a_card_that_does_what_an_alternative_says_is_found_out(alternative, answers):
    found = settle_suites([answers(alternative, SAMPLE[alternative])])
    assert [s.alternative for s in found.settled if s.outcome == SHOWN] == [alternative]
    assert found.differing.keys() == {SAMPLE[alternative]}
    assert found.grade(alternative.partition("=")[0]) is None
    assert f"the card does otherwise. It does what {alternative} says" in found.text()


@pytest.mark.skipif(not IS_NIGHTLY, reason="all alternatives: by night")
@pytest.mark.timeout(3000)
def test_every_alternative_that_the_kit_meets_is_found_out(answers):
    left = {}
    for name in suites.SUITES:
        suite = answers(None, name)
        with touched(by_products=False) as meets:
            replay_suite(suite)
        for alternative in meets:
            left.setdefault(alternative, []).append(name)
    missed = {a for a, names in left.items() if not any(SHOWN in _outcomes(a, answers(a, name)) for name in names)}
    assert missed <= UNTOLD


def _outcomes(alternative, suite):
    return {s.outcome for s in settle_suites([suite], only=[alternative]).settled}


@pytest.mark.parametrize("suite", ["tmem_shifts", *(["tcgen05_modifiers"] if IS_NIGHTLY else [])])
def test_a_card_that_keeps_to_the_rules_refutes_alternatives_and_shows_none(suite, answers):
    found = settle_suites([answers(None, suite)])
    assert not found.differing
    assert {s.outcome for s in found.settled} <= {REFUTED, OPEN}
    assert sum(s.outcome == REFUTED for s in found.settled) >= 3


@pytest.fixture(scope="session")
def sums():
    """`sums(arch, alternative)`: the trace of the suite of mma.sync, as a card that does what an alternative says
    (None: the rules) answers it, one tile a case, one style of numbers.
    """

    @functools.cache
    def of(arch, alternative=None):
        folder = pathlib.Path(tempfile.mkdtemp())
        device = Device(arch)
        about = {"gpu": "stand-in: the model", "compute_capability": f"{target_number(arch) / 10}"}
        stand_in = types.SimpleNamespace(device=device)
        stand_in.write = functools.partial(bench.write, stand_in)
        with pytest.MonkeyPatch.context() as patch, assuming(alternative):
            device.describe = lambda: about
            patch.setattr(bench.settings, "arch", arch)
            patch.setattr(sync_suite, "TILES", 1)
            patch.setattr(sync_suite, "STYLES", ("cancel",))
            sync_suite.captured(stand_in, folder)
        return load_suite(folder / sync_suite.SUITE)

    return of


SUMS = {a: "sm_120a" for a in map(str, ALTERNATIVES.values()) if a.startswith(("arithmetic.mma_sync_rtx=", "mma_sync.scales="))} | {
    a: "sm_89" for a in map(str, ALTERNATIVES.values()) if a.startswith("arithmetic.mma_sync_ampere=")
}  # fmt: skip


@pytest.mark.parametrize(
    "alternative", SUMS if IS_NIGHTLY else ["arithmetic.mma_sync_rtx=two_halves", "arithmetic.mma_sync_ampere=25_bits"]
)
def test_a_card_whose_mma_sync_adds_otherwise_is_found_out(alternative, sums):
    found = settle_suites([sums(SUMS[alternative], alternative)], only=[a for a, arch in SUMS.items() if arch == SUMS[alternative]])
    assert [s.alternative for s in found.settled if s.outcome == SHOWN] == [alternative]


@pytest.mark.parametrize(
    ("arch", "rules"), [("sm_120a", {"arithmetic.mma_sync_rtx", "mma_sync.scales"}), ("sm_80", {"arithmetic.mma_sync_ampere"})]
)
def test_a_card_whose_mma_sync_adds_as_the_rules_say_measures_them_and_no_rule_of_other_cards(arch, rules, sums):
    found = settle_suites([sums(arch)])
    assert not found.differing
    assert {rule for rule in found.rules if found.grade(rule) is Grade.MEASURED} == rules
    assert all(arch in RULES[s.rule].grades for s in found.settled)


def test_an_h200_refutes_what_it_does_not_do():
    found = settle_suites([load_suite(ROOT / "golden" / "sm_90a" / "wgmma_reserved_bits")])
    refuted = {s.alternative for s in found.settled if s.outcome == REFUTED}
    assert {str(a) for a in CALIBRATION.values() if a.rule == "descriptor.reserved_bits"} <= refuted
    assert not found.differing
    assert not any(s.outcome == SHOWN for s in found.settled)
    assert found.grade("descriptor.reserved_bits") is None  # measured already


def test_a_rule_is_measured_when_all_its_alternatives_are_refuted_and_not_before():
    own = [a for a in ALTERNATIVES.values() if a.rule == "tcgen05.shift"]
    all_of_them = tuple(Settled(str(a), a.sentence, REFUTED, "case 0 of tmem_shifts") for a in own)
    assert Settlement("sm_100a", "a card", all_of_them, {}, ("tmem_shifts",)).grade("tcgen05.shift") is Grade.MEASURED
    assert Settlement("sm_100a", "a card", all_of_them[1:], {}, ("tmem_shifts",)).grade("tcgen05.shift") is None


@pytest.mark.parametrize(("arch", "kept"), [("sm_100a", "sm_103a"), ("sm_103a", "sm_100a")])
def test_the_patch_changes_the_grade_of_one_card_and_nothing_else(arch, kept):
    own = [a for a in ALTERNATIVES.values() if a.rule == "tcgen05.shift"]
    settlement = Settlement(arch, "a card", tuple(Settled(str(a), a.sentence, REFUTED, "case 0 of x") for a in own), {}, ("tmem_shifts",))
    text = (ROOT / "sim/smemsim/core/spec/evidence.py").read_text()
    names: dict = {"__name__": "changed", "__file__": str(ROOT / "sim/smemsim/core/spec/evidence.py")}
    exec(compile(regraded(text, settlement), "evidence.py", "exec"), names)
    changed = names["RULES"]
    assert changed["tcgen05.shift"].grades[arch] is Grade.MEASURED
    assert changed["tcgen05.shift"].grades[kept] is RULES["tcgen05.shift"].grades[kept]
    assert {n for n in RULES if changed[n].grades != RULES[n].grades} == {"tcgen05.shift"}
    said = patch(settlement)
    assert said.startswith("--- a/sim/smemsim/core/spec/evidence.py")
    assert sum(line.startswith("+ ") for line in said.splitlines()) == 1


@pytest.mark.parametrize(
    ("folder", "says"),
    [("compiled/triton_mma_tmem", "a compiler wrote these"), ("", "needs traces of one card")],
)
def test_traces_that_settle_nothing_are_refused(folder, says):
    done = CliRunner().invoke(main, ["replay", "--settle", *([str(ROOT / "golden" / folder)] if folder else _two_archs())])
    assert done.exit_code == 2
    assert says in done.output


def _two_archs():
    compiled = next(p.parent for p in sorted((ROOT / "golden").rglob("manifest.json")) if json.loads(p.read_text())["arch"] == "sm_100a")
    return [str(compiled), str(ROOT / "golden/sm_90a/heap")]


def test_the_command_settles_and_writes_the_patch(answers, tmp_path):
    folder = pathlib.Path(answers(None, "tmem_shifts").path)
    done = CliRunner().invoke(main, ["replay", "--settle", str(folder), "--patch", str(tmp_path / "p.patch")])
    assert done.exit_code == 0, done.output
    assert "tcgen05.shift: measured now" in done.output
    assert "measured" in (tmp_path / "p.patch").read_text()
    assert CliRunner().invoke(main, ["replay", "--patch", str(tmp_path / "p.patch"), str(folder)]).exit_code == 2


def test_settle_needs_traces():
    with pytest.raises(InputError, match="needs traces of one card"):
        settle_suites([])


def test_the_last_lines_name_what_is_left_whether_traces_agree_and_whose_grade_changes(tmp_path):
    path = tmp_path / "p.patch"
    done = CliRunner().invoke(main, ["replay", str(ROOT / "golden" / "sm_90a" / "wgmma_s32"), "--settle", "--patch", str(path)])
    said = done.stdout.splitlines()
    assert done.exit_code == 0
    assert f"wrote {path} (empty: no grade changes" in done.stderr
    assert "  left: operand.any_start=start_of_13_bits (the start has 13 bits: 128 KiB); these traces cannot tell it from the rule" in said
    assert said[-2:] == ["1 trace of NVIDIA H200 (sm_90a): no modelled case differs from the rules", "grades that change: none"]


def test_an_alternative_that_explains_a_part_of_the_differences_is_not_called_alike():
    one, other = [a for a in ALTERNATIVES.values() if a.rule == "tcgen05.shift"][:2]
    settled = (Settled(str(one), one.sentence, REFUTED, "case 0 of x"), Settled(str(other), other.sentence, "neither", "case 1 of x"))
    said = Settlement("sm_100a", "a card", settled, {"x": (1,)}, ("x",)).text()
    assert f"neither the rule nor {other} explains case 1 of x" in said
    assert f"left: {other}" not in said


def test_without_a_card_each_architecture_is_one_line(monkeypatch):
    monkeypatch.setattr("smemsim.testing.recorder.why_no_gpu", lambda: "no CUDA driver answers here")
    said = CliRunner().invoke(main, ["capture", "--dry-run"]).output.splitlines()
    assert said[0] == "no card was found on this machine: no CUDA driver answers here"
    assert re.search(r"sm_90a +[1-9]\d* of \d+ rules measured already; \d+ suites, about \d+ minutes", said[2])
    assert re.search(r"sm_100a +0 of \d+ rules measured already", said[3])
    assert "  sm_89     0 of 1 rule measured already; 1 suite, about 10 seconds" in said
    assert len(said) == len(PLANS) + 3
