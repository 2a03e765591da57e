"""What is wrong is said with one class: its place, its cause, the changes that mend it."""

import functools
import pickle
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from gpu_faults import FAULTS, launched
from kernels import changed, kernel, word_with
from places import TESTS
from smemsim import Finding, InstrDescriptor, SmemDescriptor, TensorMap, TensorMapError, check
from smemsim.core.finding import Path
from strategies import CHARACTERS, examples

SCENARIOS = sorted((TESTS / "scenarios").glob("**/*.toml"))
K128 = ("sm_90a", "bf16", "K", "128B", 64, 128)
WORD = "step.1.a.word"
NAMES = st.from_regex(r"[A-Za-z_]\w{0,7}", fullmatch=True, alphabet=CHARACTERS)


@functools.cache
def every_finding():
    """Findings of words, of scenarios and of a run."""
    return tuple(_every_finding())


@pytest.fixture(scope="module", autouse=True)
def _shared_findings():
    """The kept facts of a test do not depend on the tests that shared a run with it."""
    every_finding()


def _every_finding():
    yield from SmemDescriptor.decode(0x7FF7_0000_0041_0005, arch="sm_90a").problems(dtype="bf16", major="K", rows=64, k=16)
    yield from InstrDescriptor.decode(0x8A01_4BFF, kind="f16").problems(arch="sm_100a")
    yield from narrow_map().problems("sm_90a")
    for path in SCENARIOS[::5]:
        report = check(path)
        yield from (*report.findings, *report.remarks)
    run = planted("R502")
    yield from (*run.findings, *run.remarks)


def narrow_map():
    return TensorMap.tiled(data_type="bf16", global_address=0, global_dim=(64, 16), global_strides=(128,), box_dim=(32, 8), swizzle="128B")


def planted(code):
    """The run of a golden kernel with a fault planted in it that is found with this code."""
    fault = next(fault for fault in FAULTS if fault.code == code)
    return launched(fault.kernel, fault)[0]


def test_there_is_one_class_of_findings():
    found = every_finding()
    assert {type(f) for f in found} == {Finding}
    assert {type(f.at).__name__ for f in found} == {"InWord", "InScenario", "InLaunch"}
    assert smemsim.CheckFinding is smemsim.RunFinding is Finding


def test_a_finding_of_a_launch_names_its_lines_and_those_of_the_other_access():
    """The line of the source needs a line table; the other access of a race has both lines, and is none for one access."""
    ptx = """.version 8.7
.target sm_90a
.address_size 64
.file 1 "tile.cu"
.shared .align 128 .b8 tile[256];
.visible .entry k()
{
  .reg .b32 %r<8>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; xor.b32 %r4, %r3, 128;
  .loc 1 7 3
  st.shared.u32 [%r3], %r1;
  .loc 1 9 3
  ld.shared.u32 %r5, [%r4];
  st.shared.u32 [%r3], %r5;
  ret;
}
"""
    lines = dict(enumerate(ptx.splitlines(), 1))
    found = [f for f in smemsim.Gpu("sm_90a").launch(ptx, "k", grid=1, block=64).findings if f.code == "X008"]
    f = next(f for f in found if "ld.shared" in lines[f.ptx_line])
    assert (f.source_line, f.ptx_line) == ("tile.cu:9", f.line)
    assert f.other is not None
    assert (f.other.source_line, lines[f.other.ptx_line].split()[0]) == ("tile.cu:7", "st.shared.u32")
    word = next(f for f in every_finding() if type(f.at).__name__ == "InWord")
    assert (word.source_line, word.ptx_line, word.other) == ("", 0, None)


def test_findings_and_refusals_survive_a_copy_to_another_process():
    for f in every_finding():
        again = pickle.loads(pickle.dumps(f))
        assert (again, str(again), again.as_dict()) == (f, str(f), f.as_dict())
        assert hash(again) == hash(f)
    with pytest.raises(TensorMapError) as refused:
        TensorMap.tiled(data_type="bf16", global_address=8, global_dim=(64, 16), global_strides=(127,), box_dim=(32, 300))
    again = pickle.loads(pickle.dumps(refused.value))
    assert again.violations == refused.value.violations
    assert [f.rule for f in again.findings] == ["global_address", "global_strides", "box_dim"]


@examples(40)
@given(st.lists(st.one_of(NAMES, st.integers(0, 999)), max_size=6).filter(lambda keys: not keys or isinstance(keys[0], str)))
def test_a_path_is_read_as_it_is_written(keys):
    path = Path.of(*keys)
    assert Path.parse(str(path)) == path
    assert all(path.startswith(Path.of(*keys[:n])) for n in range(len(keys) + 1))


@examples(30)
@given(st.sampled_from(SCENARIOS))
def test_the_places_and_repairs_of_findings_stand_in_their_scenario(file):
    raw = tomllib.loads(file.read_text())
    for f in check(file).findings:
        assert f.path.table in raw, f.where
        assert Path.parse(f.where) == f.path
        assert (f.fix is None) == (len(f.changes) != 1)
        for change in f.changes:
            assert change.path.parent.within(raw) is not None, change
            assert change.old != change.new


def test_a_path_knows_the_operand_that_it_leads_to():
    assert [Path.parse(text).side for text in ("step[0].a.word", "step[3].b", "step[2].scale_a.tmem")] == ["a", "b", "scale_a"]
    assert [Path.parse(text).side for text in ("step[0].at", "map.a.b", "buffer.b.address", "step[0]")] == [""] * 4
    assert not Path.parse("step[1].at").startswith(Path.parse("step[1].a"))


# ---- what follows from what


def test_a_consequence_names_the_finding_that_is_its_cause():
    first, second = check(changed(kernel(*K128), "map.tm.box_dim", [128, 64])).findings
    assert second.cause is first
    assert second.because == first.code
    assert first.because == ""


def of_codes(a, b):
    """The findings of an MMA whose operands lie with the 128B swizzle, with these layout codes; of B nothing says what
    it was meant to be.
    """
    scenario = kernel("sm_100a", "bf16", "K", "128B", 128, 64)
    step = scenario["step"][1]
    types = {"a_type": "bf16", "b_type": "bf16", "d_type": "f32"}
    step["idesc"] = InstrDescriptor(kind="f16", m=step["m"], n=step["n"], a_major="K", b_major="K", **types).word
    word = step["a"]["word"] & ~(7 << 61)
    step["a"]["word"], step["b"] = word | a << 61, {"dtype": "bf16", "major": "K", "word": word | b << 61}
    return check(scenario).findings


def test_a_wrong_layout_code_explains_what_the_instruction_cannot_read_of_its_own_operand_only():
    """Code 1 is wgmma's 128B, and the swizzle of 32-byte atoms here, which no 16-bit operand has."""
    assert of_codes(2, 2) == ()
    assert [(f.code, f.because) for f in of_codes(1, 2)] == [("D302", ""), ("I602", "D302")]
    assert {(f.code, f.where, f.because) for f in of_codes(2, 1)} == {("I602", "step[1].idesc", ""), ("I602", "step[1].b.word", "")}
    both = [(f.because, f.message[:4]) for f in of_codes(1, 1) if (f.code, f.where) == ("I602", "step[1].idesc")]
    assert sorted(both) == [("", "B is"), ("D302", "A is")]


# ---- findings of a run


def test_a_finding_of_a_run_has_all_that_check_says_of_the_same():
    f = planted("R502").findings[0]
    assert (f.code, f.check.code) == ("R502", "R502")
    assert (f.numbers, f.first, f.wrong, f.of, f.changes, f.grade) == tuple(
        getattr(f.check, name) for name in ("numbers", "first", "wrong", "of", "changes", "grade")
    )
    assert f.message.endswith(f.check.message)
    assert (f.line > 0, f.check.line) == (True, 0)
    assert f.check.at.title.startswith("step")


def test_a_wrong_stride_is_told_with_its_place_its_numbers_and_its_change():
    (f,) = check(changed(kernel(*K128), WORD, word_with("sm_90a", stride_byte_offset=512))).findings
    assert (f.path, f.about) == (Path.parse("step[1].a.word"), Path.parse("step[1].a"))
    (change,) = f.changes
    assert f.fix == (str(change.path), change.old, change.new)
    assert f.as_dict()["repair"] == {"text": f.repair, "path": str(change.path), "old": change.old, "new": change.new}


def test_every_finding_shows_itself_as_a_line():
    word = smemsim.SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=128, swizzle="128B")
    gpu = smemsim.Gpu("sm_90a")
    trap = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { trap; ret; }"
    found = [*word.problems(dtype="bf16", major="K", rows=64, k=16), *gpu.launch(trap, progress=False).findings]
    assert [f.code for f in found][-1] == "X013"
    for f in found:
        assert repr(f).startswith(f"<Finding {f.code} {f.severity} at ")
        assert "\n" not in repr(f)
        assert len(repr(f)) < 200
    assert "line" not in found[-1].message.partition("trap")[0]  # the place says it
    assert repr(gpu) == "Gpu('sm_90a')"
    assert repr(found[-1].severity) == "'trap'"
