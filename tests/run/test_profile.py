"""Where a launch's time goes, as `smemsim run --profile` says it."""

import json
import sys
import types

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from smemsim.cli import main
from smemsim.run import Observer
from smemsim.run.engine import profile
from smemsim.run.engine.profile import Sampler

KERNEL = """.version 8.0 .target sm_90a .address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %d<4>;
.shared .align 4 .b8 tile[512];
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 4, %r2; mov.u32 %r3, 0;
AGAIN:
st.shared.u32 [%r2], %r3;
bar.sync 0;
ld.shared.u32 %r4, [%r2];
bar.sync 0;
add.u32 %r3, %r4, 1; setp.lt.u32 %p1, %r3, 80; @%p1 bra AGAIN;
st.global.u32 [%d1], %r3; ret; }
"""


def _run(tmp_path, *options, rounds=80):
    (tmp_path / "k.ptx").write_text(KERNEL.replace("%r3, 80;", f"%r3, {rounds};"))
    command = ["run", str(tmp_path / "k.ptx"), "--grid", "4", "--block", "128", "--arg", "zeros:u32:128", *options]
    return CliRunner().invoke(main, command)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    return json.loads(_run(tmp_path_factory.mktemp("profile"), "--profile", "--json", "--no-watch-global", rounds=500).output)["profile"]


def test_parts_are_the_whole_and_lines_a_part_of_it(profiled):
    assert sum(profiled["parts"].values()) == pytest.approx(profiled["seconds"], abs=1e-4)
    assert profiled["samples"] > 1
    for line in profiled["lines"]:
        assert sum(line["parts"].values()) == pytest.approx(line["seconds"], abs=1e-4)
        assert KERNEL.count("\n") >= line["last_line"] >= line["line"] >= 5
    assert sum(line["seconds"] for line in profiled["lines"]) <= profiled["seconds"] + 1e-4
    seconds = [line["seconds"] for line in profiled["lines"]]
    assert seconds == sorted(seconds, reverse=True)


def test_the_loop_is_where_the_time_goes(profiled):
    inside = [line for line in profiled["lines"] if 7 <= line["line"] <= 12]
    assert inside
    assert inside[0] == profiled["lines"][0]
    assert profiled["parts"]["sanitizer"] > 0


def test_without_the_sanitizer_no_time_goes_there_and_text_says_so(tmp_path):
    text = _run(tmp_path, "--profile", "--no-sanitize", rounds=5000).output  # long enough for a sample on any machine
    assert "profile: " in text
    assert "execution: " in text
    assert "sanitizer: " not in text


def test_a_profile_is_of_one_process(tmp_path):
    done = _run(tmp_path, "--profile", "--workers", "2")
    assert done.exit_code == 2
    assert "--profile" in done.output


class Looks(Observer):
    """Takes a sample at each access of memory and at each barrier, and notes the line."""

    def __init__(self, sampler):
        self.sampler, self.lines = sampler, []

    def accessed(self, x, access):
        self.barrier_met(x, access.instruction)

    def barrier_met(self, x, i, *_):
        self.lines.append((i.line, i.name))
        self.sampler.note(sys._getframe())


def test_a_sample_of_the_interpreter_is_of_the_instruction_that_runs(monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", "closures")
    monkeypatch.setattr("smemsim.run.engine.profile.EVERY", 5)  # seconds: no other samples
    gpu = smemsim.Gpu("sm_90a")
    with Sampler() as sampler:
        looks = Looks(sampler)
        text = KERNEL.replace("AGAIN:\nst", "AGAIN: mov.u32 %r4, 0; st").replace(
            "[%r2];", "[%r2]; mov.u32 %r1, %r4;"
        )  # last in a block, and not
        gpu.launch(text, grid=4, block=128, args=[gpu.zeros(128, np.uint32)], progress=False, observers=[looks])
    lines = {(hot.first, hot.last, hot.count, hot.text) for hot in sampler.profile.lines}
    assert lines == {(line, line, 1, name) for line, name in looks.lines}
    assert len(lines) == 5


def stack(*frames):
    """The innermost frame of a stack: (file of the package or "", function, instructions of a block)."""
    outer = None
    for file, name, *instructions in reversed(frames):
        code = types.SimpleNamespace(co_filename=str(profile._PACKAGE / file) if file else "/elsewhere/x.py", co_name=name)
        block = types.SimpleNamespace(instructions=[types.SimpleNamespace(line=n, name=text) for n, text in enumerate(instructions, 7)])
        known = {"block": block, "wave": types.SimpleNamespace(step=1)} if instructions else {}
        outer = types.SimpleNamespace(f_code=code, f_locals=known, f_back=outer)
    return outer


MULTIPLIES, ADDS = (("run/engine/blocks.py", "run_block", "mov.u32", text, "ret") for text in ("wgmma.mma_async", "fma.rn.f32"))
PARTS_OF = [
    ([("core/arithmetic/dots.py", "dot"), MULTIPLIES], "products", "wgmma.mma_async"),
    ([("core/arithmetic/dots.py", "dot"), ADDS], "execution", "fma.rn.f32"),
    ([("core/arithmetic/dots.py", "dot")], "rest", None),
    ([("", "sum"), ADDS], "execution", "fma.rn.f32"),
    ([MULTIPLIES, ("run/engine/wave.py", "go"), ADDS], "execution", "wgmma.mma_async"),  # the innermost block
    ([("core/arithmetic/dots.py", "dot"), ("run/sanitizer/taint.py", "look"), MULTIPLIES], "sanitizer", "wgmma.mma_async"),
    ([("run/jit/stores.py", "look"), ADDS], "sanitizer", "fma.rn.f32"),
    ([("run/jit/segments.py", "build"), ("run/sanitizer/taint.py", "look"), ADDS], "compilation", "fma.rn.f32"),
    ([("diagnosis/check.py", "look"), ADDS], "operand check", "fma.rn.f32"),
    ([("core/ptx/parser.py", "read"), ("diagnosis/gpu.py", "run"), ("diagnosis/check.py", "check")], "compilation", None),
    ([("run/engine/grid.py", "run"), ("diagnosis/gpu.py", "run"), ("diagnosis/check.py", "check")], "rest", None),
]


@pytest.mark.parametrize(("frames", "part", "name"), PARTS_OF)
def test_a_sample_belongs_to_the_part_of_its_stack_and_to_the_instruction_of_its_block(frames, part, name):
    """A block is at its second instruction, line 8; what a launch is called by does not count."""
    assert profile._look(stack(*frames)) == (part, None if name is None else (8, 8, 1, name))
