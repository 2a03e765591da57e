"""Laws of places in a program: a kernel whose first instruction waits or loops is told the same as behind a branch."""

import pytest

from smemsim import Gpu

LANES = "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16;"  # p1: the lower half of each warp
WARPS = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;"  # p1: warp 0
WARPS2 = "mov.u32 %r2, %tid.x; setp.lt.u32 %p2, %r2, 32;"  # p2: warp 0
FIRST = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; or.b32 %r1, %r1, %r2; setp.eq.u32 %p2, %r1, 0;"  # p2: thread 0 of CTA 0
POLL = "ld.acquire.gpu.global.u32 %r3, [flag];\nsetp.eq.u32 %p3, %r3, 0;"
LAST = "\nbar.sync 0;\nret;"

# each begins with the label L, to which it comes back
PROGRAMS = {
    "a poll by one warp": f"{POLL}\n{WARPS} and.pred %p3, %p3, %p1;\n@%p3 bra L;{LAST}",
    "a poll that ends": f"{POLL}\n{FIRST} @%p2 st.release.gpu.global.u32 [flag], 1;\n@%p3 bra L;\nret;",
    "a poll of a weak load": "ld.volatile.global.u32 %r3, [flag];\nsetp.eq.u32 %p3, %r3, 0;\n@%p3 bra L;\nret;",
    "a loop of nothing": "bra L;\nret;",
    "a loop of one warp": f"{WARPS}\n@%p1 bra L;{LAST}",
    "a loop of half a warp": f"{LANES}\n@%p1 bra L;{LAST}",
    "a barrier for more": "bar.sync 1, 96;\nret;",
    "a barrier for one warp": f"bar.sync 0;\n{WARPS}\n@%p1 bra L;\nbar.sync 1, 64;\nret;",
    "a barrier by lanes that comes to its end": f"barrier.sync 0;\n{LANES}\n@%p1 bra M;{LAST}\nM: barrier.sync 0;\nret;",
    "lanes at two barriers, by number": f"barrier.arrive 1, 96;\n{LANES}\n@%p1 bra L;\nbarrier.sync 1, 96;\nret;",
    "lanes of one warp at two barriers": f"barrier.sync 1, 64;\n{LANES} {WARPS2} and.pred %p1, %p1, %p2;\n@%p1 bra L;\nbarrier.sync 1, 64;\nret;",
    "lanes that others wait for": f"bar.warp.sync 0xffffffff;\n{LANES}\n@%p1 bra L;{LAST}",
    "lanes of a mask": f"bar.warp.sync 0xffff00ff;\n{LANES}\n@%p1 bra L;{LAST}",
    "lanes that vote": f"vote.sync.ballot.b32 %r4, 1, 0xffffffff;\n{LANES}\n@%p1 bra L;{LAST}",
    "lanes that shuffle": f"shfl.sync.bfly.b32 %r4, 7, 1, 31, 0xffffffff;\n{LANES}\n@%p1 bra L;\nbar.warp.sync 0xffff0000;{LAST}",
    "a vote among those that come back": f"{LANES}\nvote.sync.any.pred %p4, %p1, 0xffffffff;\n{WARPS} and.pred %p4, %p4, %p1;\n@%p4 bra L;{LAST}",
    "a cluster": f"barrier.cluster.arrive;\nbarrier.cluster.wait;\n{WARPS}\n@%p1 bra L;{LAST}",
    "a cluster's wait": f"barrier.cluster.wait;\n{WARPS}\n@%p1 bra L;{LAST}",
    "no mbarrier": f"mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra L;{LAST}",
    "a test of no mbarrier": f"mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra L;{LAST}",
    "registers": "setmaxnreg.inc.sync.aligned.u32 240;\nret;",
    "part of a warpgroup": f"wgmma.fence.sync.aligned;\n{WARPS}\n@%p1 bra L;{LAST}",
    "lanes of a warpgroup": f"wgmma.fence.sync.aligned;\n{LANES}\n@%p1 bra L;{LAST}",
    "columns that nobody frees": f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [words], 512;\nbra L;{LAST}",
    "a launch before": f"griddepcontrol.wait;\n{LANES}\n@%p1 bra L;{LAST}",
}  # fmt: skip
DRAWN = [
    "a loop of one warp",
    "a barrier for one warp",
    "lanes that others wait for",
    "lanes that vote",
    "a cluster",
    "columns that nobody frees",
    "a launch before",
]


def told(program, schedule, *, behind):
    """All that is told; `behind`: behind a branch to the same line."""
    arch = "sm_100a" if "tcgen05" in PROGRAMS[program] else "sm_90a"
    text = f""".version 8.7
.target {arch}
.address_size 64
.global .align 4 .u32 flag = 0;
.visible .entry k() {{ .reg .pred %p<9>; .reg .b32 %r<9>; .shared .align 8 .b64 bar; .shared .align 4 .b32 words[4];
{"bra B; B: " if behind else ""}L: {PROGRAMS[program]} }}"""
    run = Gpu(arch).launch(text, "k", grid=2, block=64, args=[], progress=False, schedule=schedule, limit=20_000)
    return [f"{f.severity} {f.line} {' '.join(str(f).split())}" for f in (*run.findings, *run.remarks)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_begins_a_kernel_is_told_as_what_stands_behind_a_branch(program):
    assert told(program, None, behind=False) == told(program, None, behind=True)


@pytest.mark.parametrize("program", DRAWN)
def test_so_it_is_in_a_drawn_order(program):
    assert told(program, 3, behind=False) == told(program, 3, behind=True)
