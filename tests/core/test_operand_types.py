"""Operands that ptxas takes and refuses: this package takes and refuses the same ones (PTX ISA 9.1 §9.4)."""

import dataclasses
import re
import shutil
import subprocess

import pytest

from places import ROOT
from smemsim import Gpu, InputError, Unmodelled
from smemsim.core.ptx import Immediate, read_module
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.run.lower import link
from strategies import is_night

LETTERS = {
    "pred": "p",
    "b16": "h",
    "b32": "r",
    "u32": "a",
    "b64": "d",
    "u64": "e",
    "f32": "f",
    "f64": "g",
    "f16": "j",
    "f16x2": "k",
    "b128": "q",
}
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.global .align 8 .b8 gv[16];
.const .align 8 .b8 cv[16];
.shared .align 8 .b8 sv[16];
.visible .entry k()
{
"""
DECLARED = "".join(f".reg .{kind} %{letter}<4>;" for kind, letter in LETTERS.items())
FIRST = HEAD.count("\n") + 2  # the line of the first instruction

TAKEN = """
add.s32 %r1, %a1, %r2            add.s32 %r1, %k1, %r2             and.b32 %f1, %r1, %a1            lop3.b32 %r1, %f1, 0f3F800000, %a1, 8
mov.b32 %r1, 0f3F800000          mov.f32 %f1, 0d3FF0000000000000   add.f64 %g1, %g2, 0f3F800000     setp.gt.f32 %p1, %r1, 1.5
add.f16 %h1, %j1, %h2            add.f16x2 %r1, %k1, %r2           add.bf16x2 %r1, %r2, %r3         max.s16x2 %r1, %k1, %r2
ld.global.u8 %r1, [%d1]          ld.global.b16 %f1, [%d1]          ld.global.f32 %d1, [%d2]         ld.global.b32 %g1, [%d1]
st.shared.u8 [%r1], %d1          st.shared.f32 [%r1], %d1          st.shared.b32 [%r1], %f1         st.shared.b32 [%a1], 0f3F800000
ld.global.v2.u32 {%r1, %f1}, [%d1]    st.global.v2.f32 [%d1], {%r1, %a1}    ld.global.v4.b8 {%h1, %h2, %h3, %h0}, [%d1]
cvt.u32.u16 %d1, %r1             cvt.rn.f32.u16 %f1, %d1           cvt.rn.f32.s32 %d1, %r1          cvt.f32.f16 %f1, %r1
cvt.rni.u16.f32 %r1, %f1         cvt.rn.f32.s32 %f1, 5             selp.b32 %r1, %r2, 0f3F800000, %p1    ld.local.u32 %r1, [16]
cvt.rn.bf16x2.f32 %r1, %f1, 0f3F800000    min.f64 %g1, %d1, %g2    abs.f64 %d1, %g1                 shl.b64 %d1, %d2, %r1
mov.u64 %d1, %clock64            mov.u64 %d1, %gridid              mov.u32 %r1, %gridid             mov.u64 %d1, WARP_SZ
mov.b16 %h1, %tid.x              ld.global.u32 %r1, gv[1]          st.global.u32 gv[1], %r1
cvt.u32.u16 %r1, %tid.x          cvt.u64.u32 %d1, %clock64         st.global.v2.u32 [%d1], {%tid.x, %r1}    add.u32 %r1, %r2, WARP_SZ
mov.u64 %d1, gv+8                cvta.shared.u64 %d1, sv           mapa.u64 %d1, sv, 1              mul.hi.s32 %r1, %r2, %a1
ld.u32 %r1, [sv]                 ld.u32 %r1, [gv+4]                ld.const.u32 %r1, [cv]           atom.add.u32 %r1, [sv], 1
ld.shared.u32 %r1, [%r2]         ld.shared.u32 %r1, [%d1]          redux.sync.add.s32 %r1, %a1, 15  mbarrier.init.shared::cta.b64 [%d1], %a1
st.shared.v2.b32 [%r1], {0.5, %f1}    mov.b64 %d1, {0.5, %f1}
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%f0, 0., 0.0, %f1}
"""
REFUSED = """
add.u32 %r1, %f1, 1              add.u32 %r1, %d1, %r2             mul.lo.u32 %d1, %r1, %r2         add.f32 %f1, %a1, %f2
mul.rn.f32 %f1, %f2, 0           setp.gt.f32 %p1, %f1, 0           mov.u32 %r1, 0f3F800000          mov.b32 %r1, 1.5
add.f16x2 %r1, %r2, 5            fma.rn.f16 %h1, %h2, %h3, 1.5     add.f16x2 %r1, %a1, %r2          mov.b64 %d1, 0f3F800000
ld.global.u32 %f1, [%d1]         ld.global.f32 %e1, [%d1]          ld.global.f64 %e1, [%d1]         ld.global.u64 %r1, [%d1]
st.global.f32 [%d1], %a1         st.global.u32 [%d1], %h1          ld.global.u32 %r1, [%f1]         ld.shared.u32 %r1, [%g1]
ld.global.v2.u32 {%r1, %d1}, [%d1]    ld.global.v2.u32 {%f1, %f2}, [%d1]    st.global.v2.f32 [%d1], {%f1, 0}    st.global.v2.f32 [%d1], {%f1, %a1}
cvt.rn.f32.s32 %f1, %g1          cvt.rn.bf16.f32 %r1, %f1          cvt.rn.satfinite.e4m3x2.f32 %r1, %f1, %f2    cvt.rzi.s32.f32 %r1, 5
selp.f32 %f1, 0, %f2, %p1        selp.b32 %r1, %r2, %r3, %r0       st.shared.u32 %r1, %r2           ld.shared.u32 %r1, [16]
min.f64 %g1, %e1, %g2            abs.f32 %f1, %a1                  bar.sync %f1                     shfl.sync.bfly.b32 %d1, %r1, 1, 31, -1
mov.u64 %d1, %tid.x              mov.u32 %r1, %clock64             mov.f32 %f1, %tid.x              mov.b64 %d1, %lanemask_lt
add.u32 %r1, %tid.x, 1           setp.eq.u32 %p1, %tid.x, 0        st.global.u32 [%d1], %laneid     cvt.rn.f32.u32 %f1, %tid.x
bar.sync 0, %ntid.x              shfl.sync.idx.b32 %r1, %r2, %laneid, 31, -1    add.u64 %d1, gv, 8  cvta.to.shared.u64 %d1, sv
ld.u32 %r1, [cv]                 ld.global.u32 %r1, [sv]           ld.const.u32 %r1, [gv]           st.local.u32 [sv], %r1
atom.shared.add.u32 %r1, [gv], 1    mbarrier.init.shared.b64 [gv], 1    mul.s32.hi %r1, %r2, %a1    mad.u32.lo %r1, %r2, %a1, %r3
mul24.u32.hi %r1, %r2, %a1      dp2a.s32.s32.lo %r1, %r2, %a1, %r3    ld.param.u32 %r1, [sv]          st.shared.u32 [gv], %r1
atom.global.add.f32 %f1, [%d1], %a1    atom.global.min.u32 %r1, [%d1], %f1    mbarrier.arrive.shared::cta.b64 %d1, [%g1]    bfe.u32 %r1, %g1, %r2, %r3
"""


def _lines(text):
    return [f"{line.strip()};" for line in re.split(r"\n|  +", text) if line.strip()]


def _program(lines):
    return HEAD + DECLARED + "\n" + "\n".join(lines) + "\nret;\n}\n"


def _load(line):
    return Gpu("sm_90a").kernel(_program([line]))


@pytest.mark.parametrize("line", _lines(TAKEN))
def test_what_ptxas_takes_is_taken(line):
    assert _load(line).name == "k"


@pytest.mark.parametrize("line", _lines(REFUSED))
def test_what_ptxas_refuses_is_refused_with_its_line(line):
    with pytest.raises(InputError, match=rf"line {FIRST}: "):
        _load(line)


def _refused_by_ptxas(lines, tmp_path):
    """The lines that ptxas refuses; it stops behind some, and is asked again for the others."""
    found, left = set(), list(lines)
    for _ in lines:
        (tmp_path / "k.ptx").write_text(_program(left))
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        wrong = {int(n) - FIRST for n in re.findall(r"line (\d+)[;:] (?:error|fatal)", done.stderr)}
        if done.returncode == 0:
            break
        assert wrong <= set(range(len(left))), done.stderr
        assert wrong, done.stderr
        found |= {left[n] for n in wrong}
        left = [line for n, line in enumerate(left) if n not in wrong]
    return [line for line in lines if line in found]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not there")
def test_ptxas_says_the_same(tmp_path):
    assert _refused_by_ptxas([*_lines(TAKEN), *_lines(REFUSED)], tmp_path) == _lines(REFUSED)


# ---- one operand too many

ONES = (Immediate(1),) * 5
# Instructions that the recorded kernels do not have.
RARE = """
griddepcontrol.wait  nanosleep.u32 %r1  brkpt  stacksave.u64 %rd1  stackrestore.u64 %rd1  alloca.u64 %rd1, 16
st.bulk.weak.shared::cta [%rd1], %rd2, 0  vadd.u32.u32.u32 %r1, %r2, %r3
cp.async.bulk.prefetch.tensor.1d.L2.global [%rd1, {%r1}]  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32
tcgen05.fence::before_thread_sync  tcgen05.fence::after_thread_sync  tcgen05.cp.cta_group::1.128x256b [%r1], %rd1  tcgen05.shift.cta_group::1.down [%r1]
tcgen05.st.sync.aligned.16x64b.x1.b32 [%r1], {%r2}  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2]
"""


def _forms_of_recorded_kernels():
    """(module, entry, instruction, architecture): one of each operation with its first two words."""
    seen = set()
    for path in sorted((ROOT / "golden").rglob("*.ptx")):
        module = read_module(path.read_text(encoding="utf-8"))
        for name, function in module.functions.items():
            for i in function.body or () if function.is_entry else ():
                # how many operands a call has the reader knows
                if i.op != "call" and (form := (i.op, *i.modifiers[:2])) not in seen:
                    seen.add(form)
                    yield module, name, i, module.target[0] if module.target[0] in ARCHITECTURES else "sm_90a"


def _alone(module, name, i):
    """The module, with this instruction alone in its entry."""
    function = module.functions[name]
    ends = [x for x in function.body if x.op in ("ret", "exit")]
    return dataclasses.replace(module, functions=module.functions | {name: dataclasses.replace(function, body=(i, *ends[-1:]))})


OVERLOOKED = """
activemask.b32.noinc %r1  activemask.u32 %r1  activemask %r1  activemask.b32 _  exit.noinc  exit.uni  ret.noinc  trap.noinc  brkpt.noinc
shfl.sync.idx.b32 _, %r1, 0, 31, -1  shfl.sync.idx.b32 _|%p1, %r1, 0, 31, -1  vote.sync.ballot.b32 _, %p1, -1  match.any.sync.b32 _, %r1, -1
redux.sync.add.u32 _, %r1, -1  mov.u32 _, %r1  ld.shared.u32 _, [%r1]  setp.eq.u32 _|_, %r1, 1  mbarrier.test_wait.parity.shared.b64 _, [%r1], 0
tcgen05.ld.sync.aligned.32x32b.x2.b32 {_, %r1}, [%r1]  createpolicy.fractional.L2::evict_last.b64 _, 0.5
createpolicy.fractional.L2::evict_last.b64 %rd1, 2.0  createpolicy.fractional.L2::evict_last.b64 %rd1, 0.0
mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1]  mbarrier.arrive_drop.noComplete.shared.b64 %rd1, [%r1]
mbarrier.arrive.expect_tx.noComplete.shared.b64 %rd1, [%r1], 1  mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r1], 1
"""
DISCARDED = """
activemask.b32 %r1  ret.uni  shfl.sync.idx.b32 %r2|_, %r1, 0, 31, -1  match.all.sync.b32 _|%p1, %r1, -1  lop3.and.b32 _|%p1, %r1, %r1, %r1, 1, %p2
elect.sync _|%p1, -1  atom.shared.add.u32 _, [%r1], 1  setp.eq.u32 _|%p1, %r1, 1  setp.eq.u32 _, %r1, 1  mov.b64 {_, %r1}, %rd1
mbarrier.arrive.shared.b64 _, [%r1]  mbarrier.arrive_drop.noComplete.shared.b64 _, [%r1], 1  createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0
"""


def _one_line(line):
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .b128 %q<2>;\n"
    return f"{head}{line};\nret;\n}}\n"


def _of_one_line(lines):
    return [line.strip() for line in re.split(r"\n|  +", lines) if line.strip()]


@pytest.mark.parametrize("line", _of_one_line(OVERLOOKED))
def test_words_and_results_that_ptxas_refuses(line):
    with pytest.raises(InputError):
        link(read_module(_one_line(line)), "k", "sm_100a")


@pytest.mark.parametrize("line", _of_one_line(DISCARDED))
def test_words_and_results_that_ptxas_takes(line):
    assert link(read_module(_one_line(line)), "k", "sm_100a").name == "k"


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not there")
def test_ptxas_agrees_about_words_and_results(tmp_path):
    def is_taken(line):
        (tmp_path / "k.ptx").write_text(_one_line(line))
        return not subprocess.run(
            ["ptxas", "-arch=sm_100a", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert [line for line in _of_one_line(OVERLOOKED) if is_taken(line)] == []
    assert [line for line in _of_one_line(DISCARDED) if not is_taken(line)] == []


def test_no_instruction_takes_operands_or_words_that_it_has_not():
    """A word that another instruction has, behind all others."""
    count, taken = 0, []
    for module, name, i, arch in _forms_of_recorded_kernels():
        changes = {"operands": (*i.operands, *ONES)}, {"modifiers": (*i.modifiers, "noinc")}
        for change in changes if is_night() else changes[count % 2 :][:1]:  # by day one of them in turn
            count += 1
            try:
                link(_alone(module, name, dataclasses.replace(i, **change)), name, arch)
            except (InputError, Unmodelled):
                continue
            taken.append(f"{i.op}.{'.'.join(i.modifiers)} {next(iter(change))}")
    assert (count > 300, taken) == (True, [])


@pytest.mark.parametrize("line", _of_one_line(RARE))
def test_no_rare_instruction_takes_operands_that_it_has_not(line):
    assert link(read_module(_one_line(line)), "k", "sm_100a").name == "k"
    more = " 1, 1, 1, 1, 1" if " " not in line else ", 1, 1, 1, 1, 1"
    with pytest.raises((InputError, Unmodelled)):
        link(read_module(_one_line(f"{line}{more}")), "k", "sm_100a")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("add.u32 %r1, %r2, {%r3, %r4}", "a vector"),
        ("mad.lo.u32 %r1, %r2, %r3, [%rd1+4]", "an address"),
        ("setp.eq.u32 %p1, %r1, _", "a sink"),
    ],
)
def test_an_operand_that_has_no_value_is_named_by_its_kind(line, told):
    with pytest.raises(InputError, match=re.escape(f"{line}: {told}: needs a register, a number or a name, as .u32")):
        link(read_module(_one_line(line)), "k", "sm_100a")
