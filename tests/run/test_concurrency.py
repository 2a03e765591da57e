"""Small kernels of threads that work together, right ones and nearly right ones: the right ones are silent, each fault
is found under its code.

Every kernel gets 4 KiB of shared memory `sm` and eight mbarriers `bar`, arrays of 4 KiB at %rd1 (the result) and %rd2,
its thread in %r1, its warp in %r2, its lane in %r3 and the rank of its CTA in %r4; %p1 says that it is thread 0 and %p2
that it is in warp 0.
"""

import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import smemsim
from asynchronous import Drawn
from facts import facts
from launches import no_such
from strategies import is_night

HEAD = """.version 8.8
.target {arch}
.address_size 64
.shared .align 1024 .b8 sm[4096];
.shared .align 8 .b64 bar[8];
.visible .entry k(.param .u64 out, .param .u64 in) {{
.reg .pred %p<20>; .reg .b16 %h<8>; .reg .b32 %r<60>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0; setp.eq.u32 %p3, %r2, 1; setp.eq.u32 %p4, %r3, 0;
mov.u32 %r5, sm; mad.lo.u32 %r6, %r1, 4, %r5; xor.b32 %r7, %r1, 32; mad.lo.u32 %r7, %r7, 4, %r5; mad.lo.u32 %r8, %r3, 4, %r5; mov.u32 %r9, 0;
"""
# %r6: the thread's own word; %r7: that of the same lane in the neighbouring warp; %r8: the lane's word, the same in all
# warps
RESULT = "mul.wide.u32 %rd10, %r1, 4; add.u64 %rd10, %rd10, %rd1; st.global.u32 [%rd10], %r9;"


ACQ = "fence.acq_rel.cta;"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A body of PTX, what is found in it (a code, or "" where it is right), and the shape of its launch; `remarks` are
    the codes of what is told milder.
    """

    name: str
    body: str
    found: str = ""
    block: int = 64
    cluster: int = 1
    grid: int = 0
    remarks: str = ""
    arch: str = "sm_90a"


def waits(bar: str = "[bar]", parity: str = "0", what: str = "try_wait.parity", label: str = "W") -> str:
    return f"{label}: mbarrier.{what}.shared::cta.b64 %p10, {bar}, {parity}; @!%p10 bra {label};"


def init(count: int = 1, at: str = "[bar]") -> str:
    return f"@%p1 mbarrier.init.shared::cta.b64 {at}, {count};"


MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
LOAD = """@!%p1 bra L; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 256, [bar]; L:"""
READ = f"ld.shared.u32 %r9, [%r6]; {RESULT}"


GIVEN = "st.shared.u32 [%r8], %r3; bar.warp.sync -1; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar]; add.u32 %r3, %r3, 1;"  # a phase of the mbarrier


def handed(before: str, after: str) -> str:
    """Words of shared memory, handed from warp 0 to warp 1 by relaxed arrivals between these fences."""
    return f"""{init(32)} bar.sync 0; @!%p2 bra TAKE; st.shared.u32 [%r8], %r3; {before} mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar]; bra OUT;
TAKE: {RELAXED} {after} ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"""


def handed_to_one(meets: str = "bar.warp.sync -1;") -> str:
    """Words of warp 0, for which one lane of warp 1 waits."""
    return f"""{init(32)} bar.sync 0; @!%p2 bra TAKE; st.shared.u32 [%r8], %r3; mbarrier.arrive.shared::cta.b64 _, [bar]; bra OUT;
TAKE: @!%p4 bra N; {waits()} N: {meets} ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"""


def loaded(wait: str) -> str:
    """A bulk load, and what its readers do before they read."""
    return f"{init()} bar.sync 0; {LOAD} {wait} {READ}"


def expected_apart(order: str, copy_first: bool = False) -> str:
    """Warp 0 expects the bytes of a bulk load by an expect_tx without an arrival; warp 1 makes the only arrival of the
    phase. `order` stands between the two.
    """
    expect = "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256;"
    copy = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 256, [bar];"
    first, second = (copy, expect) if copy_first else (expect, copy)
    return f"""{init()} bar.sync 0; {first} {second} {order} setp.eq.u32 %p14, %r1, 32; @!%p14 bra A; mbarrier.arrive.shared::cta.b64 _, [bar]; A:
    {waits()} {READ}"""


EXPECTED_FIRST = f"""{init()} bar.sync 0; @!%p1 bra L; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256; mbarrier.arrive{{}}.shared::cta.b64 _, [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 256, [bar]; L: {waits()} {READ}"""  # by the thread that arrives


def the_same_value(first: str, second: str = "st.shared.u32 [sm], 5;", then: str = "", other: int = 32) -> str:
    """Thread 0 gives a word a value, and another one stores the same value there, and does more; then all read it."""
    return f"""mov.u16 %h1, 5; mov.u16 %h2, 6; @%p1 st.shared.u32 [sm], 0; bar.sync 0; setp.eq.u32 %p8, %r1, {other};
    @%p1 {first} @%p8 {second} {then} bar.sync 0; ld.shared.u32 %r10, [sm]; add.u32 %r9, %r9, %r10; {RESULT}"""


def seen_before(
    then: str,
    again: str = "and.b32 %r15, %r15, 255; setp.eq.u32 %p10, %r15, 0; @%p10 bra L;",
    look: str = "atom.shared.add.u32 %r15, [sm], 256;",
) -> str:
    """Lane 0 of warp 0 adds until it has seen the sum of warp 1. It adds or stores once more, and reads."""
    return f"""@%p1 st.shared.u32 [sm], 0; bar.sync 0; @%p1 bra L; setp.eq.u32 %p8, %r1, 32; @%p8 red.shared.add.u32 [sm], 1; bra OUT;
    L: {look} {again} {then} ld.shared.u32 %r9, [sm]; {RESULT} OUT:"""


def ring(
    *, full: str = "", free: str = "", arrive: str = "mbarrier.arrive.shared::cta.b64 _, [%r12];", read_first: bool = True, readers: int = 32
) -> str:  # fmt: skip
    """Warp 0 loads six tiles into two stages, warp 1 adds them up; the waits and the arrival can be others."""
    full = full or waits("[%r11]", "%r21", label="FULL")
    free = free or waits("[%r12]", "%r22", label="FREE")
    read = "ld.shared.u32 %r23, [%r13]; add.u32 %r9, %r9, %r23;"
    return f"""{init(1, "[bar]")} {init(1, "[bar+8]")} {init(readers, "[bar+16]")} {init(readers, "[bar+24]")} fence.mbarrier_init.release.cluster; bar.sync 0;
    mov.u32 %r20, 0; mov.u32 %r9, 0; mov.u32 %r10, bar;
    NEXT: and.b32 %r24, %r20, 1; mad.lo.u32 %r11, %r24, 8, %r10; add.u32 %r12, %r11, 16; shr.u32 %r21, %r20, 1; and.b32 %r21, %r21, 1; xor.b32 %r22, %r21, 1;
    mad.lo.u32 %r14, %r24, 128, %r5; mad.lo.u32 %r13, %r3, 4, %r14; @%p3 bra EAT;
    {free}
    @!%p4 bra MORE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 128; mul.wide.u32 %rd5, %r20, 128; add.u64 %rd5, %rd5, %rd2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd5], 128, [%r11]; bra MORE;
    EAT: {full} {f"{read} {arrive}" if read_first else f"{arrive} {read}"}
    MORE: add.u32 %r20, %r20, 1; setp.lt.u32 %p11, %r20, 6; @%p11 bra NEXT; @%p3 bra END; bra OUT; END: {RESULT} OUT:"""


EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 128;"
FREES, PROXY = "mbarrier.arrive.shared::cta.b64 _, [%r12];", "fence.proxy.async.shared::cta;"
EARLY = ring(free=f"@%p4 {EXPECT} {waits('[%r12]', '%r22', label='FREE')}").replace(
    f"bra MORE; {EXPECT}", "bra MORE;"
)  # before the stage's last phase is over


def given(arrive: str = "mbarrier.arrive.shared::cta.b64 _, [bar+8];", *, before: bool = False) -> str:
    """Warp 0 issues a bulk load and writes words; warp 1 waits for the load, or also for its arrival, and reads the
    words.
    """
    give, wait = "@%p2 st.shared.u32 [%r8+512], %r3;", waits("[bar+8]", label="GIVEN") if arrive else ""
    return f"""{init()} {init(32, "[bar+8]")} bar.sync 0; {give if before else ""} bar.warp.sync -1; {LOAD} {"" if before else give} @!%p2 bra TAKE; {arrive} bra OUT;
    TAKE: {waits(label="LOADED")} {wait} ld.shared.u32 %r9, [%r8+512]; {RESULT} OUT:"""


def flagged(store: str, load: str, *, before: str = "", after: str = "", more: str = "") -> str:
    """Warp 0 writes data and raises a flag, warp 1 waits for it and reads them."""
    return f"""@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @%p2 bra GIVE; setp.ne.u32 %p11, %r2, 1; @%p11 bra OTHERS;
    POLL: {load} setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL; {after} ld.shared.u32 %r9, [%r8]; {RESULT} bra OUT;
    GIVE: st.shared.u32 [%r8], %r3; bar.warp.sync -1; {before} @%p1 {store} bra OUT; OTHERS: {more} OUT:"""


def counted(atom: str, *, before: str = "", after: str = "") -> str:
    """Each warp writes its part and counts up; the one that is last reads all parts."""
    return f"""@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; st.shared.u32 [%r6], %r1; bar.warp.sync -1; {before} @!%p4 bra OUT;
    {atom} setp.ne.u32 %p10, %r15, 1; @%p10 bra OUT; {after} ld.shared.u32 %r9, [sm+4]; ld.shared.u32 %r16, [sm+132]; add.u32 %r9, %r9, %r16; {RESULT} OUT:"""


def locked(take: str, give: str) -> str:
    """One lane of each warp adds to a word, one after the other."""
    return f"""@%p1 st.shared.v2.u32 [sm], {{%r4, %r4}}; bar.sync 0; @!%p4 bra OUT;
    TAKE: {take} setp.ne.u32 %p10, %r15, 0; @%p10 bra TAKE; @!%p4 bra IN; IN: {"" if "fence" not in give else "fence.acq_rel.cta;"}
    ld.shared.u32 %r9, [sm+4]; add.u32 %r9, %r9, 1; st.shared.u32 [sm+4], %r9; {give} OUT: bar.sync 0; ld.shared.u32 %r9, [sm+4]; {RESULT}"""


def exchanged(between: str, *, start: str = MEET, end: str = MEET) -> str:
    """Each CTA of a pair writes into the other one's shared memory, and reads what has come."""
    return f"""{start} xor.b32 %r10, %r4, 1; mapa.shared::cluster.u32 %r11, %r6, %r10; st.shared::cluster.u32 [%r11], %r1;
    {between} ld.shared.u32 %r9, [%r6]; {RESULT} {end}"""


def sent(start: str, wait: str, before: str = "") -> str:
    """The same by st.async, which an mbarrier counts."""
    return f"""{before} {init()} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; {start} xor.b32 %r10, %r4, 1; mov.u32 %r12, bar;
    mapa.shared::cluster.u32 %r11, %r6, %r10; mapa.shared::cluster.u32 %r12, %r12, %r10;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r11], %r1, [%r12]; {wait} {READ} {MEET}"""


def copied(before_reading: str) -> str:
    """cp.async of each thread's word; a thread reads its neighbour's."""
    return f"""mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r6], [%rd5], 4; {before_reading}
    ld.shared.u32 %r9, [%r7]; {RESULT}"""


def stored(
    fence: str = "fence.proxy.async.shared::cta;",
    meet: str = "bar.sync 0;",
    read: str = "cp.async.bulk.wait_group.read 0;",
    again: str = "bar.sync 0;",
) -> str:
    """Two rounds of words that a bulk store takes to global memory."""
    return f"""mov.u32 %r20, 0; NEXT: add.u32 %r9, %r1, %r20; st.shared.u32 [%r6], %r9; {fence} {meet} @!%p1 bra L;
    mul.wide.u32 %rd5, %r20, 256; add.u64 %rd5, %rd5, %rd1; cp.async.bulk.global.shared::cta.bulk_group [%rd5], [sm], 256; cp.async.bulk.commit_group; {read} L: {again}
    add.u32 %r20, %r20, 1; setp.lt.u32 %p10, %r20, 2; @%p10 bra NEXT; @%p1 cp.async.bulk.wait_group 0;"""


def loaded_twice(before: str = "") -> str:
    """A bulk load over what threads have read of the one before."""
    again = LOAD.replace("bra L;", "bra M;").replace(" L:", " M:").replace("[%rd2]", "[%rd2+256]")
    return f"{init()} bar.sync 0; {LOAD} {waits()} ld.shared.u32 %r16, [%r6]; {before} bar.sync 0; {again} {waits(parity='1', label='V')} {READ}"


OWN_CELLS = (
    """tcgen05.wait::ld.sync.aligned; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {{%r3}}; {} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r14];
tcgen05.wait::ld.sync.aligned; tcgen05.wait::st.sync.aligned; """
    + RESULT
)
WAITED_LD = "tcgen05.wait::ld.sync.aligned;"
LOADED = f"{{}} tcgen05.st.sync.aligned.32x32b.x4.b32 [%r14], {{{{%r3, %r3, %r3, {{}}}}}}; {WAITED_LD} tcgen05.wait::st.sync.aligned;"
# The address of tensor memory, which threads have read, and two loads over it.
ALLOCATED = f"""@!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sm], 32; {init()} A: bar.sync 0; ld.shared.u32 %r11, [sm]; bar.sync 0; {LOAD} {waits()} bar.sync 0;
{LOAD.replace("bra L;", "bra M;").replace(" L:", " M:").replace("[%rd2]", "[%rd2+256]")} {waits(parity="1", label="V")} @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;"""
LANE_1 = "setp.eq.u32 %p14, %r1, 1;"


def stored_by(commit: str = "@%p1", wait: str = "@%p1", read: str = ".read", issue: str = "@%p1") -> str:
    """A bulk store of what all have written, over which all write again; these threads issue it, commit it, and wait
    for it.
    """
    return f"""{LANE_1} st.shared.u32 [%r6], %r1; fence.proxy.async.shared::cta; bar.sync 0; {issue} cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 256;
    {commit} cp.async.bulk.commit_group; {wait} cp.async.bulk.wait_group{read} 0; bar.sync 0; st.shared.u32 [%r6], %r3;"""


LAST_STORE = "st.shared.u32 [%r6], %r3;"
OVERWRITES = {
    "cp.async": "mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.wait_all;",
    "cp.async of 16 bytes": "setp.lt.u32 %p12, %r1, 16; mad.lo.u32 %r20, %r1, 16, %r5; @%p12 cp.async.cg.shared.global [%r20], [%rd2], 16; cp.async.wait_all;",
    "atomics": "atom.shared.add.u32 %r20, [%r6], 1;",
}


def copied_by(commit: str = "cp.async.commit_group;", wait: str = "cp.async.wait_group 0;", *, who: str = "", begin: str = "") -> str:
    """cp.async of each thread's word, for which some threads wait; `who` reads what it has copied, else each reads its
    neighbour's.
    """
    return f"""{LANE_1} {HALVES} not.pred %p15, %p11; {begin} mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r6], [%rd5], 4; {commit} {wait}
    bar.sync 0; {who} ld.shared.u32 %r9, [{"%r6" if who else "%r7"}]; {RESULT.replace("st.", f"{who} st.")}"""


def copied_for_others(meet: str, wait: str = "@%p11") -> str:
    """cp.async of each thread's word. Lanes 0 to 15 of each warp wait for theirs, and lanes 16 to 31 read these."""
    return f"""{HALVES} not.pred %p15, %p11; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; xor.b32 %r10, %r1, 16; mad.lo.u32 %r10, %r10, 4, %r5;
    cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.commit_group; {wait} cp.async.wait_group 0; {meet}
    @%p15 ld.shared.u32 %r9, [%r10]; {RESULT.replace("st.", "@%p15 st.")}"""


def two_buffers(left: int) -> str:
    """Six rounds of bulk stores out of two buffers in turn; before a buffer is written again at most `left` stores may
    still read.
    """
    return f"""mov.u32 %r20, 0; NEXT: @%p1 cp.async.bulk.wait_group.read {left}; bar.sync 0; and.b32 %r21, %r20, 1; mad.lo.u32 %r22, %r21, 256, %r5;
    mad.lo.u32 %r23, %r1, 4, %r22; add.u32 %r9, %r1, %r20; st.shared.u32 [%r23], %r9; fence.proxy.async.shared::cta; bar.sync 0; @!%p1 bra L;
    mul.wide.u32 %rd5, %r20, 256; add.u64 %rd5, %rd5, %rd1; cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r22], 256; cp.async.bulk.commit_group; L:
    add.u32 %r20, %r20, 1; setp.lt.u32 %p10, %r20, 6; @%p10 bra NEXT; @%p1 cp.async.bulk.wait_group 0;"""


def pushed(
    fence: str = "fence.proxy.async.shared::cta;", wait: str = "", counted: str = "mapa.shared::cluster.u32 %r12, %r12, %r10;"
) -> str:
    """Each CTA of a pair sends a tile to the other one by a bulk copy between their shared memories."""
    return f"""{init()} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; st.shared.u32 [%r6], %r1; {fence} {MEET} @!%p1 bra L;
    xor.b32 %r10, %r4, 1; add.u32 %r11, %r5, 1024; mov.u32 %r12, bar; mapa.shared::cluster.u32 %r11, %r11, %r10; {counted}
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r11], [%r5], 256, [%r12]; L: {wait} ld.shared.u32 %r9, [%r6+1024]; {RESULT} {MEET}"""


def lent(wait: str = "", arrive_first: bool = False) -> str:
    """CTA 1 reads what CTA 0 has, says so at CTA 0's mbarrier, and CTA 0 writes there again."""
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];"
    read = f"ld.shared::cluster.u32 %r9, [%r11]; {RESULT}"
    return f"""{init(64)} st.shared.u32 [%r6], %r1; {MEET} setp.eq.u32 %p11, %r4, 0; mov.u32 %r12, bar; mapa.shared::cluster.u32 %r11, %r6, 0;
    mapa.shared::cluster.u32 %r12, %r12, 0; @%p11 bra A; {arrive + read if arrive_first else read + arrive} bra B; A: {wait} st.shared.u32 [%r6], %r5; B: {MEET}"""


def summed(wait: str = "", begin: str = "@%p2 st.shared.u32 [%r8], 0;") -> str:
    """All threads of a pair add to a word of the other CTA by red.async."""
    return f"""{init()} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; {begin} {MEET} xor.b32 %r10, %r4, 1; mov.u32 %r12, bar;
    mapa.shared::cluster.u32 %r11, %r8, %r10; mapa.shared::cluster.u32 %r12, %r12, %r10;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %r1, [%r12]; {wait} ld.shared.u32 %r9, [%r8]; {RESULT} {MEET}"""


def ticket(before: str = ACQ, after: str = ACQ) -> str:
    """A lock that serves its warps in turn."""
    return f"""@%p1 st.shared.v4.u32 [sm], {{%r4, %r4, %r4, %r4}}; bar.sync 0; @!%p4 bra OUT; atom.shared.add.u32 %r15, [sm], 1;
    POLL: ld.volatile.shared.u32 %r16, [sm+4]; setp.ne.u32 %p10, %r15, %r16; @%p10 bra POLL; {after} ld.shared.u32 %r9, [sm+8]; add.u32 %r9, %r9, 1;
    st.shared.u32 [sm+8], %r9; {before} add.u32 %r15, %r15, 1; st.volatile.shared.u32 [sm+4], %r15; OUT: bar.sync 0; ld.shared.u32 %r9, [sm+8]; {RESULT}"""


ADDS, COPIES, READS = (
    f"cp{how} [{to}], [{at}], 256, [%r12];"
    for how, to, at in (
        (".reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32", "%r11", "%r5"),
        (".async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "%r11", "%r5"),
        (".async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "%r13", "%r14"),
    )
)


def added(first: str = ADDS, second: str = ADDS, *, wait: str = waits()) -> str:
    """CTA 0 and CTA 1 each do something to words of CTA 0, which waits for both and reads them."""
    return f"""{init()} setp.eq.u32 %p11, %r4, 0; and.pred %p12, %p11, %p1; @%p12 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512; st.shared.u32 [%r6], %r1;
    st.shared.u32 [%r6+1024], %r1; fence.proxy.async.shared::cta; {MEET} add.u32 %r14, %r5, 1024; mapa.shared::cluster.u32 %r11, %r14, 0; add.u32 %r13, %r5, 2048; mov.u32 %r12, bar;
    mapa.shared::cluster.u32 %r13, %r13, 0; mapa.shared::cluster.u32 %r12, %r12, 0; @!%p1 bra L; @%p11 bra A; {second} bra L; A: {first} L: @!%p11 bra E; {wait}
    ld.shared.u32 %r9, [%r6+1024]; {RESULT} E: {MEET}"""


def histogram(clear: str = "bar.sync 0;", count: str = "bar.sync 0;", add: str = "red.shared.add.u32 [%r11], 1;") -> str:
    return f"""@%p2 st.shared.u32 [%r8], 0; {clear} and.b32 %r10, %r1, 7; mad.lo.u32 %r11, %r10, 4, %r5; {add} {count} ld.shared.u32 %r9, [%r8]; {RESULT}"""


def flag_to_the_other(store: str, load: str, *, before: str = "", after: str = "", kind: str = "u32") -> str:
    """The same as `flagged` in a pair: CTA 0 writes and raises a flag, CTA 1 waits for it and reads, all in the memory
    of CTA 0.
    """
    store, load = f"st.{store}.shared::cluster.{kind} [%r12+1024], %r19;", f"ld.{load}.shared::cluster.{kind} %r15, [%r12+1024];"
    return f"""@%p1 st.shared.u32 [sm+1024], 0; mov.u32 %r19, 1; {MEET} mapa.shared::cluster.u32 %r11, %r8, 0; mapa.shared::cluster.u32 %r12, %r5, 0; setp.eq.u32 %p11, %r4, 0;
    @%p11 bra GIVE; @!%p2 bra OUT; POLL: {load} setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL; {after} ld.shared::cluster.u32 %r9, [%r11]; {RESULT} bra OUT;
    GIVE: @!%p2 bra OUT; st.shared.u32 [%r8], %r3; bar.warp.sync -1; {before} @%p1 {store} OUT: {MEET}"""


def in_memory_of_one(first: str, second: str, between: str = "") -> str:
    """Thread 0 of CTA 0, and that of CTA 1, each access CTA 0's memory at %r12."""
    return f"""@%p1 st.shared.u32 [sm+1024], 0; mov.u32 %r19, %r1; {MEET} setp.eq.u32 %p11, %r4, 0; mapa.shared::cluster.u32 %r12, %r5, 0; add.u32 %r12, %r12, 1024;
    @!%p1 bra A; @!%p11 bra A; {first} A: {between} @!%p1 bra OUT; @%p11 bra OUT; {second} OUT: {MEET}"""


def store_far(scope: str, kind: str = "u8", at: int = 0) -> str:
    return f"st.relaxed.{scope}.shared::cluster.{kind} [%r12+{at}], %r19;"


def arrived_from_afar(arrive: str = "", wait: str = "", *, before: str = "", after: str = "") -> str:
    """CTA 1 writes into CTA 0's memory and arrives at its mbarrier, CTA 0 waits there and reads."""
    return f"""{init(64)} {MEET} setp.eq.u32 %p11, %r4, 0; mov.u32 %r12, bar; mapa.shared::cluster.u32 %r12, %r12, 0; mapa.shared::cluster.u32 %r11, %r6, 0; @%p11 bra A;
    st.shared::cluster.u32 [%r11], %r1; {before} mbarrier.arrive{arrive}.shared::cluster.b64 _, [%r12]; bra B;
    A: {waits(what=f"try_wait.parity{wait}")} {after} {READ} B: {MEET}"""


def fetched(arrive: str, wait: str, *, fill: str, at: str = "ld.shared::cluster.u32 %r9, [%r11];") -> str:
    """CTA 1 does something to its own memory and arrives at CTA 0's mbarrier, CTA 0 waits there and touches CTA 1's
    memory.
    """
    return f"""{init(64)} mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; mov.u32 %r9, 0; {MEET} setp.eq.u32 %p11, %r4, 0; mov.u32 %r12, bar;
    mapa.shared::cluster.u32 %r12, %r12, 0; mapa.shared::cluster.u32 %r11, %r6, 1; @%p11 bra A; {fill} mbarrier.arrive{arrive}.shared::cluster.b64 _, [%r12]; bra B;
    A: {waits(what=f"try_wait.parity{wait}")} {at} {RESULT} B: {MEET}"""


def to_the_other(end: str, begin: str = "") -> str:
    """Each CTA copies words from its own memory to that of the other CTA."""
    return f"""{init()} {begin} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; {MEET} xor.b32 %r11, %r4, 1; mov.u32 %r13, bar;
    mapa.shared::cluster.u32 %r12, %r5, %r11; mapa.shared::cluster.u32 %r13, %r13, %r11; st.shared.u32 [%r6+1024], %r1; fence.proxy.async.shared::cta; bar.sync 0;
    @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [sm+1024], 256, [%r13]; {waits()} {READ} {end}"""


def through_global(wait: str) -> str:
    """CTA 1 writes global memory and arrives at CTA 0's mbarrier, CTA 0 waits there and reads what it wrote."""
    return f"""{init(64)} mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd1; {MEET} setp.eq.u32 %p11, %r4, 0; mov.u32 %r12, bar;
    mapa.shared::cluster.u32 %r12, %r12, 0; @%p11 bra A; st.global.u32 [%rd5+2048], %r1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12]; bra B;
    A: {waits(what=f"try_wait.parity{wait}")} ld.global.u32 %r9, [%rd5+2048]; st.global.u32 [%rd5], %r9; B: {MEET}"""


def added_by_both(red: str) -> str:
    return f"@%p1 st.shared.u32 [sm], 0; {MEET} mapa.shared::cluster.u32 %r12, %r5, 0; @%p1 {red}.shared::cluster.add.u32 [%r12], 1; {MEET}"


def lanes(between: str = "", apart: int = 1) -> str:
    """Each lane writes its word and reads that of another lane of its warp."""
    return f"st.shared.u32 [%r6], %r1; {between} xor.b32 %r10, %r1, {apart}; mad.lo.u32 %r10, %r10, 4, %r5; ld.shared.u32 %r9, [%r10]; {RESULT}"


def alone(between: str, by: str = "%p1") -> str:
    """The lanes of warp 0 write their words, and one of them has all stored to global memory by a bulk copy."""
    return f"""@!%p2 bra OUT; st.shared.u32 [%r6], %r1; fence.proxy.async.shared::cta; {between}
    @{by} cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:"""


COPIED = "cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.wait_all;"
READ_OWN, OVER_THERE = "ld.shared.u32 %r9, [%r6]; setp.eq.u32 %p19, %r9, 0;", "st.shared::cluster.u32 [%r11], %r1;"
OVER = f"fence.proxy.async.shared::cta; {LOAD.replace('256', '128').replace('%rd2]', '%rd2+256]')}"
HALVES = "and.b32 %r20, %r1, 16; setp.eq.u32 %p11, %r20, 0; "
HALF = HALVES + "selp.b32 %r21, 0xFFFF, 0xFFFF0000, %p11; bar.warp.sync %r21;"
SIDES = HALVES + "@%p11 bra X; bar.warp.sync {}; bra Y; X: bar.warp.sync {}; Y:"
MULTICAST = """@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512; mov.u16 %h1, 3; {} @!%p1 bra L; mad.lo.u32 %r21, %r4, 256, %r5;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r21], [%rd2], 256, [bar], %h1; L:"""


SECOND_LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, [%r14];"
USED_AGAIN = "add.u32 %r9, %r15, 1;"
USED = f"add.u32 %r9, %r20, %r21; {RESULT}"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", " tcgen05.fence::after_thread_sync;"


def tensor(
    wait: str = "", meet: str = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;",
    *, done: str = "tcgen05.wait::ld.sync.aligned;", second: str = "",
) -> str:  # fmt: skip
    """Warp 0 has a tile copied to tensor memory; four warps wait for that and load it; then warp 0 gives the columns
    back.
    """
    return f"""mad.lo.u32 %r9, %r1, 32, %r5; mov.u32 %r10, 3; st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}};
    st.shared.v4.b32 [%r9+16], {{%r10, %r10, %r10, %r10}}; fence.proxy.async.shared::cta; @!%p2 bra A;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 32; {init()} fence.mbarrier_init.release.cluster; A: bar.sync 0;
    ld.shared.u32 %r11, [bar+56]; shr.u32 %r12, %r5, 4; cvt.u64.u32 %rd5, %r12; or.b64 %rd5, %rd5, 0x0000401000080000; elect.sync %r13|%p10, -1;
    and.pred %p11, %p10, %p2; and.pred %p12, %p10, %p3;
    @%p11 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5; {second or "@%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"}
    {wait or waits() + AFTER} shl.b32 %r14, %r2, 21; add.u32 %r14, %r14, %r11;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r20, %r21, %r22, %r23}}, [%r14]; {done}
    {meet} @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;"""


OVERWRITTEN_FIRST = "@%p11 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5;"
OVERWRITTEN_THEN = (
    f"@%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; {WAITED_LD} {waits(parity='1', label='V')} {AFTER}"
)
OVERWRITTEN = f"{OVERWRITTEN_FIRST} {OVERWRITTEN_THEN}"


def in_turn(wait: str, before: str = "", after: str = "") -> str:
    """Four times three warps arrive at one mbarrier, and warp 0, which waits there, has a tile copied to tensor memory,
    for which they wait before they arrive again.
    """
    return f"""mov.u32 %r9, 0; mad.lo.u32 %r10, %r1, 32, %r5; st.shared.v4.b32 [%r10], {{%r9, %r9, %r9, %r9}}; st.shared.v4.b32 [%r10+16], {{%r9, %r9, %r9, %r9}};
    fence.proxy.async.shared::cta; @!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 32;
    {init()} {init(96, "[bar+8]")} fence.mbarrier_init.release.cluster; A: bar.sync 0; ld.shared.u32 %r11, [bar+56]; shr.u32 %r12, %r5, 4; cvt.u64.u32 %rd5, %r12;
    or.b64 %rd5, %rd5, 0x0000401000080000; elect.sync %r13|%p10, -1; and.pred %p12, %p10, %p2; mov.u32 %r20, 0; NEXT: and.b32 %r21, %r20, 1; xor.b32 %r22, %r21, 1;
    setp.eq.u32 %p13, %r20, 0; @!%p2 bra GIVE; {waits("[bar+8]", "%r21", wait, "TAKE")} {after} @%p12 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5;
    @%p12 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; bra MORE;
    GIVE: @%p13 bra FIRST; {waits("[bar]", "%r22", wait, "DONE")} {after} FIRST: {before} mbarrier.arrive.shared::cta.b64 _, [bar+8];
    MORE: add.u32 %r20, %r20, 1; setp.lt.u32 %p11, %r20, 4; @%p11 bra NEXT; {waits(parity="1", label="LAST")} bar.sync 0;
    @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;"""


def by_token(arrive: str = "", wait: str = "") -> str:
    """All threads arrive at an mbarrier four times, and wait by the state that they were given."""
    return f"""{init(64)} bar.sync 0; mov.u32 %r20, 0; NEXT: mbarrier.arrive{arrive}.shared::cta.b64 %rd5, [bar];
    L: mbarrier.try_wait{wait}.shared::cta.b64 %p10, [bar], %rd5; @!%p10 bra L; add.u32 %r20, %r20, 1; setp.lt.u32 %p11, %r20, 4; @%p11 bra NEXT;"""


def neighbours(between: str, again: str = "", *, load: str = "ld", store: str = "st") -> str:
    """Everybody writes a word and reads that of the other warp."""
    return f"{store}.shared.u32 [%r6], %r1; {between} {load}.shared.u32 %r9, [%r7]; {RESULT} {again}"


# Threads 0 and 32 each let a bulk store read a tile; what they wait for; then a third warp overwrites the tile.
STORED = """and.pred %p11, %p3, %p4; st.shared.u32 [%r6], %r1; fence.proxy.async.shared::cta; bar.sync 0; or.pred %p12, %p1, %p11; mul.wide.u32 %rd5, %r2, 256;
add.u64 %rd5, %rd5, %rd1; @%p12 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [sm], 256; @%p12 cp.async.bulk.commit_group; {} bar.sync 0;
setp.eq.u32 %p13, %r2, 2; @%p13 st.shared.u32 [%r8], 1; cp.async.bulk.wait_group 0;"""
READ_BY_STORE = "@%p{} cp.async.bulk.wait_group.read 0;"
# Two threads load the same bytes to one place, each by an mbarrier of its own; what all wait for; then a warp
# overwrites them.
LOADED_TWICE = f"""{init()} {init(at="[bar+8]")} fence.mbarrier_init.release.cluster; bar.sync 0; and.pred %p11, %p3, %p4; or.pred %p12, %p1, %p11;
mov.u32 %r11, bar; mad.lo.u32 %r10, %r2, 8, %r11; @%p12 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 256;
@%p12 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 256, [%r10]; {{}} bar.sync 0; {{}}"""
BOTH_LOADS = f"{waits()} {waits('[bar+8]', label='V')}"
# The same with reductions: two threads add the same tile to another one.
ADDED_TWICE = f"""{init()} {init(at="[bar+8]")} fence.mbarrier_init.release.cluster; st.shared.u32 [%r6], %r1; st.shared.u32 [%r6+256], 0; fence.proxy.async.shared::cta;
bar.sync 0; and.pred %p11, %p3, %p4; or.pred %p12, %p1, %p11; mov.u32 %r11, bar; mad.lo.u32 %r10, %r2, 8, %r11; add.u32 %r12, %r5, 256;
@%p12 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 256; @%p12 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r12], [sm],
256, [%r10]; {{}} {{}}"""
# Threads 0 and 32 multiply, both with the same A of tensor memory; what is waited for; then A is overwritten.
SHARED_A = f"""mad.lo.u32 %r9, %r1, 16, %r5; mov.u32 %r10, 0; st.shared.v4.b32 [%r9], {{{{%r10, %r10, %r10, %r10}}}}; fence.proxy.async.shared::cta;
{init()} {init(at="[bar+8]")} fence.mbarrier_init.release.cluster; @!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 64; A: bar.sync 0;
ld.shared.u32 %r11, [bar+56]; add.u32 %r15, %r11, 32; add.u32 %r16, %r11, 16; shl.b32 %r12, %r2, 21; add.u32 %r12, %r12, %r15; and.pred %p11, %p3, %p4;
setp.ne.u32 %p12, %r5, %r5; shr.u32 %r14, %r5, 4; cvt.u64.u32 %rd5, %r14; or.b64 %rd5, %rd5, 0x0000401000080000;
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {{{{%r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3}}}}; tcgen05.wait::st.sync.aligned; {BEFORE} bar.sync 0; {AFTER}
@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r11], [%r15], %rd5, 0x8040490, %p12;
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; {{}} @%p11 tcgen05.mma.cta_group::1.kind::f16 [%r16], [%r15], %rd5, 0x8040490, %p12;
@%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8]; {{}} {AFTER}
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12], {{{{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}}}}; tcgen05.wait::st.sync.aligned; {waits(label="X")} {waits("[bar+8]", label="Y")}
{AFTER} {BEFORE} bar.sync 0; {AFTER} @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 64;"""
# Thread 32 has A copied to tensor memory, thread 0 multiplies; what is between, before and behind; then thread 0's
# commit is waited for, and the columns are given back.
COPIED_A = f"""mad.lo.u32 %r9, %r1, 32, %r5; mov.u32 %r10, 0; st.shared.v4.b32 [%r9], {{{{%r10, %r10, %r10, %r10}}}};
st.shared.v4.b32 [%r9+16], {{{{%r10, %r10, %r10, %r10}}}}; fence.proxy.async.shared::cta; {init()} {init(at="[bar+8]")} fence.mbarrier_init.release.cluster;
@!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 64; A: bar.sync 0; ld.shared.u32 %r11, [bar+56]; add.u32 %r15, %r11, 32;
and.pred %p11, %p3, %p4; setp.ne.u32 %p12, %r5, %r5; shr.u32 %r14, %r5, 4; cvt.u64.u32 %rd5, %r14; or.b64 %rd5, %rd5, 0x0000401000080000;
{{}} @%p11 tcgen05.cp.cta_group::1.128x256b [%r15], %rd5; {{}} @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r11], [%r15], %rd5, 0x8040490, %p12; {{}}
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; {waits(label="X")} {AFTER} {{}}
{BEFORE} bar.sync 0; {AFTER} @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 64;"""
# Thread 0 multiplies twice by one instruction. All load the first product, and the second one if {} is a later round.
PRODUCTS = f"""mad.lo.u32 %r9, %r1, 16, %r5; mov.u32 %r10, 0; st.shared.v4.b32 [%r9], {{{{%r10, %r10, %r10, %r10}}}}; fence.proxy.async.shared::cta;
{init()} fence.mbarrier_init.release.cluster; @!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 64; A: bar.sync 0;
ld.shared.u32 %r11, [bar+56]; shl.b32 %r12, %r2, 21; add.u32 %r12, %r12, %r11; setp.ne.u32 %p12, %r5, %r5; shr.u32 %r14, %r5, 4; cvt.u64.u32 %rd5, %r14;
cvt.u64.u32 %rd6, %r14; or.b64 %rd5, %rd5, 0x0000401000080000; or.b64 %rd6, %rd6, 0x0000400100080000; mov.u32 %r20, 0;
NEXT: @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd5, %rd6, 0x8020490, %p12; @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
{waits(parity="%r20", label="X")} {AFTER} setp.ge.u32 %p13, %r20, {{}}; @%p13 bra OVER;
tcgen05.ld.sync.aligned.32x32b.x4.b32 {{{{%r21, %r22, %r23, %r24}}}}, [%r12]; tcgen05.wait::ld.sync.aligned; OVER: {BEFORE} bar.sync 0; {AFTER}
add.u32 %r20, %r20, 1; setp.lt.u32 %p13, %r20, 2; @%p13 bra NEXT; @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 64;"""
COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
TAKEN_FLAG = """st.shared.u32 [%r6], %r1; @%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @!%p2 bra OUT; setp.gt.u32 %p11, %r3, 1; @%p11 bra OUT;
    setp.eq.u32 %p12, %r3, 1; @%p12 bra B; st.shared.u32 [sm], 9; atom.release.cta.shared.add.u32 %r15, [sm+1024], 1; bra OUT;
    B: atom.acquire.cta.shared.cas.b32 %r15, [sm+1024], 1, 2; setp.ne.u32 %p10, %r15, 1; @%p10 bra B; ld.shared.u32 %r9, [sm]; st.global.u32 [%rd1], %r9; OUT:"""
LATE_COPY = "add.u32 %r16, %r11, 48; @%p11 tcgen05.cp.cta_group::1.128x256b [%r16], %rd5;"
IN_TURN = f"{BEFORE} bar.sync 0; {AFTER}"
SECOND = """{} @%p12 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5;
@%p12 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"""
TWICE = "{} st.shared.u32 [%r6], %r9;"
TEST = waits(what="test_wait.parity")
ONCE = "mbarrier.test_wait.parity.shared::cta.b64 %p10, [bar], 0;"
RELAXED, RELAXED_TEST = waits(what="try_wait.parity.relaxed.cta"), waits(what="test_wait.parity.relaxed.cta")
VOLATILE, ACQUIRE, LOOSE = (
    "ld.volatile.shared.u32 %r15, [sm+1024];",
    "ld.acquire.cta.shared.u32 %r15, [sm+1024];",
    "ld.relaxed.cta.shared.u32 %r15, [sm+1024];",
)
RAISE, RELEASE, UP = (
    "st.volatile.shared.u32 [sm+1024], 1;",
    "st.release.cta.shared.u32 [sm+1024], 1;",
    "st.relaxed.cta.shared.u32 [sm+1024], 1;",
)
COUNT = "atom.{}.shared.add.u32 %r15, [sm+1024], 1;"
CAS, CAS_ACQUIRE = "atom.relaxed.cta.shared.cas.b32 %r15, [sm], 0, 1;", "atom.acquire.cta.shared.cas.b32 %r15, [sm], 0, 1;"
SLOW = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
BYTES = "cvt.u16.u32 %h1, %r1; mov.b16 %h2, 77; mad.lo.u32 %r10, %r3, 2, %r5; add.u32 %r10, %r10, %r2; st.shared.u8 [%r10], %h1; bar.sync 0;"  # warps share words
BYTE = "@%p1 st.shared.u32 [sm], 0; mov.b16 %h0, 0; mov.b16 %h1, 5; mov.b16 %h3, 9; mov.u32 %r9, 0; bar.sync 0;"


def bytes_at_once(other: str, first: str) -> str:
    """The first warp does one thing to bytes of a word, and each other warp does another, without an order."""
    return f"{BYTE} @%p2 bra A; {other} bra OUT; A: {first} OUT:"


BY_WARP = "@%p2 st.shared.u32 [%r8], {}; @!%p2 st.shared.u32 [%r8], {};"
SHOW = f"bar.sync 0; ld.shared.u32 %r9, [%r8]; {RESULT}"

AGAIN = "@%p4 mbarrier.arrive.shared::cta.b64 _, [bar];"
ACQUIRES = "W: ld.acquire.cta.shared.u32 %r15, [sm+1024]; setp.eq.u32 %p10, %r15, 0; @%p10 bra W;"
POLLS = f"W: ld.volatile.shared.u32 %r15, [sm+1024]; setp.eq.u32 %p10, %r15, 0; @%p10 bra W; {ACQ}"
VOLATILE_UP = "st.volatile.shared.u32 [sm+1024], 1;"
OWN_FLAGS = "xor.b32 %r10, %r3, 5; mad.lo.u32 %r10, %r10, 4, %r5; " + ACQUIRES.replace("[sm+1024]", "[%r10+1024]")


def given_by_one(meets: str, gives: str = AGAIN, takes: str = "", *, count: int = 1, who: int = 32) -> str:
    """Lanes of warp 0 store a word each, and lane 0 says so; warp 1 waits for that and reads them, each lane the word
    of another.
    """
    gives = gives if gives.startswith(("@", "add")) else f"@%p4 {gives}"
    other = "mov.u32 %r10, %r5;" if who == 1 else "xor.b32 %r10, %r3, 5; mad.lo.u32 %r10, %r10, 4, %r5;"
    return f"""{init(count)} mov.u32 %r16, 0; add.u32 %r10, %r8, 1024; @%p2 st.shared.u32 [%r10], %r16; bar.sync 0; @%p3 bra T; setp.lt.u32 %p8, %r3, {who};
    @%p8 st.shared.u32 [%r8], %r3; {meets} {gives} bra OUT; T: {takes or waits()} {other} @%p3 ld.shared.u32 %r9, [%r10]; {RESULT} OUT:"""


STORES = "@%p8 st.shared.u32 [%r8], %r3;"
IN_AN_ARM = "@%p4 st.shared.u32 [%r8], %r3; @%p4 bra N; st.shared.u32 [%r8], %r3; {} bra OUT; N: {} " + AGAIN


def completed_by_one(before: str, *, store: str = "@%p4 st.shared.u32 [sm], %r3;") -> str:
    """Lane 0 of warp 0 says by mbarrier.complete_tx that a word is stored; warp 1 waits for that and reads it."""
    return f"""{init()} bar.sync 0; @%p3 bra T; @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; {store} {before}
    @%p4 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16; bra OUT; T: {waits()} ld.shared.u32 %r9, [sm]; {RESULT} OUT:"""


def stored_by_one(meets: str) -> str:
    """The same where a lane of warp 1 issues a bulk store of the words."""
    return f"""{init(1)} bar.sync 0; @%p3 bra T; st.shared.u32 [%r8], %r3; fence.proxy.async.shared::cta; {meets} {AGAIN} bra OUT;
    T: {waits()} @!%p4 bra OUT; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:"""


PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r3,%r3,%r3,%r3}, {%r3,%r3}, {%f0,%f1,%f2,%f3};"


def freed_by_one(
    meets: str, gives: str = AGAIN, *, count: int = 1, words: str = "%r7", takes: str = "st.shared.u32 [%r6], %r1;", first: str = "", then: str = "",
    guard: str = "", waits_by: str = waits(),
) -> str:  # fmt: skip
    """Lanes of warp 0 read a word each, and lane 0 says so; warp 1 waits for that and overwrites them. `first`, `then`:
    around the reads.
    """
    gives = gives if gives.startswith(("@", "mbar")) else f"@%p4 {gives}"
    zero = "mov.u32 %r16, 0; add.u32 %r10, %r8, 1024; @%p2 st.shared.u32 [%r10], %r16;" if waits_by == ACQUIRES else ""
    return f"""{init(count)} {zero} st.shared.u32 [%r6], %r1; bar.sync 0; @%p3 bra T; {first} {guard} ld.shared.u32 %r9, [{words}]; {RESULT} {then} {meets}
    {gives} bra OUT; T: {waits_by} {takes} OUT:"""


# Behind the words that matter each lane stores a hundred others, or its own word a hundred times.
MANY_STORES, OWN_STORES = (
    f"mov.u32 %r30, 0; mad.lo.u32 %r31, %r3, 4, %r5; N: {step} st.shared.u32 [%r31+{at}], %r3; add.u32 %r30, %r30, 1; setp.lt.u32 %p9, %r30, 100; @%p9 bra N;"
    for step, at in (("xor.b32 %r31, %r31, 256;", 2048), ("", 0))
)
PAIRS_COUNT = "@%p3 bra OUT; shr.u32 %r10, %r3, 1; mad.lo.u32 %r11, %r10, 4, %r5; ld.shared.u32 %r9, [%r11]; add.u32 %r9, %r9, 1; {} st.shared.u32 [%r11], %r9; OUT:"
REFILL = f"fence.proxy.async.shared::cta; {LOAD.replace('%p1', '%p4')} {waits(parity='1', label='V')}"
NEXT_LANE = f"@!%p2 bra OUT; xor.b32 %r10, %r3, 5; mad.lo.u32 %r10, %r10, 4, %r5; {{first}} {{second}} {RESULT} OUT:"
UPDATES = "and.b32 %r10, %r1, {bins}; mul.wide.u32 %rd5, %r10, 4; add.u64 %rd5, %rd5, %rd1; ld.global.u32 %r12, [%rd5]; {made} st.global.u32 [%rd5], %r12;"
SHUFFLED = f"setp.gt.u32 %p8, %r3, {{some}}; @%p8 bra OUT; shfl.sync.idx.b32 %r9, %r1, {{lane}}, 31, {{mask}}; {RESULT} OUT:"

# fmt: off
# each pair of warps stores, meets and reads what the other one has stored; thread 0 lets the second pair begin in front
# of its own barrier, or behind it
GO = "@%p1 mbarrier.arrive.shared::cta.b64 _, [bar];"
GROUPED = f"""shr.u32 %r2, %r1, 6; {init()} bar.sync 0; setp.eq.u32 %p12, %r2, 0; @%p12 bra G; {waits()} G: st.shared.u32 [%r6], %r1; {{number}}
{{before}} bar.sync %r20, 64; {{behind}} ld.shared.u32 %r9, [%r7]; {RESULT}"""
OF_EACH, OF_ALL = "add.u32 %r20, %r2, 1;", "mov.u32 %r20, 1;"
# warp 0 fills two stages and goes on, warp 1 takes them
STAGES = f"""@%p2 bra GIVE; bar.sync 1, 64; ld.shared.u32 %r9, [%r8]; bar.sync {{second}}, 64; ld.shared.u32 %r10, [%r8+128]; add.u32 %r9, %r9, %r10; {RESULT} bra OUT;
GIVE: st.shared.u32 [%r8], %r3; bar.arrive 1, 64; st.shared.u32 [%r8+128], %r3; bar.arrive {{second}}, 64; OUT:"""
# lane 0 waits for an mbarrier of its own, and then for lane 1, which has read by then what all lanes wait for
APART = f"""{init()} {init(1, "[bar+8]")} {init(1, "[bar+16]")} bar.sync 0; {LOAD} @!%p1 bra N; mbarrier.arrive.shared::cta.b64 _, [bar+8];
{waits("[bar+8]", label="W1")} {waits("[bar+16]", label="W2")} N: {{}} ld.shared.u32 %r9, [%r6]; setp.eq.u32 %p12, %r3, 1;
@%p12 mbarrier.arrive.shared::cta.b64 _, [bar+16]; {RESULT}"""


def passed(data: str = "volatile", flag: str = "volatile", *, before: str = "", after: str = "", sets: str = "", reads: str = "", space: str = "shared") -> str:
    """Warp 0 of CTA 0 stores data and raises a flag, both by strong accesses; warp 1, or CTA 1 where they are in global
    memory, waits for the flag and reads the data.
    """
    at, up = ("[%r8]", "[sm+1024]") if space == "shared" else ("[%rd5+1024]", "[%rd1+2048]")
    begin = "@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @!%p2 bra TAKE;" if space == "shared" else "mov.u32 %r16, %ctaid.x; setp.ne.u32 %p12, %r16, 0; @%p12 bra TAKE; @!%p2 bra OUT;"
    return f"""mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd5, %rd1; {begin} st.{data}.{space}.u32 {at}, %r3; bar.warp.sync -1; {before} @%p1 {sets or f"st.{flag}.{space}.u32 {up}, 1;"} bra OUT;
    TAKE: POLL: ld.{flag}.{space}.u32 %r15, {up}; setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL; {after} {reads or f"ld.{data}.{space}.u32 %r9, {at};"} {RESULT} OUT:"""


def counted_parts(before: str = "", after: str = "", data: str = "volatile") -> str:
    """Each CTA stores its part by strong stores and counts up; the CTA that is last reads parts of others."""
    return f"""mov.u32 %r16, %ctaid.x; mad.lo.u32 %r17, %r16, 64, %r1; mul.wide.u32 %rd5, %r17, 4; add.u64 %rd5, %rd5, %rd1; st.{data}.global.u32 [%rd5+1024], %r1; {before} bar.sync 0;
    @!%p1 bra M; atom.global.add.u32 %r15, [%rd2], 1; setp.eq.u32 %p10, %r15, 2; selp.u32 %r18, 1, 0, %p10; st.shared.u32 [sm], %r18; M: bar.sync 0; ld.shared.u32 %r18, [sm];
    setp.eq.u32 %p11, %r18, 0; @%p11 bra OUT; {after} mul.wide.u32 %rd6, %r1, 4; add.u64 %rd6, %rd6, %rd1; ld.{data}.global.u32 %r9, [%rd6+1024]; {RESULT} OUT:"""


GPU_FENCE = "fence.acq_rel.gpu;"


def waited_by_lanes(count: int, word: str, meets: str = "") -> str:
    """Warp 0 loads a word for each of some lanes of warp 1, which waits for it at an mbarrier of its own; then these
    lanes read a word: `%r21` is its own, but the last lane's is that of the lane before it.
    """
    return f"""setp.lt.u32 %p14, %r3, {count}; setp.eq.u32 %p16, %r3, {count - 1}; selp.u32 %r21, {count - 2}, %r3, %p16;
    mad.lo.u32 %r20, %r3, 8, %r5; add.u32 %r20, %r20, 2048; @!%p2 bra I; mbarrier.init.shared::cta.b64 [%r20], 1;
    I: bar.sync 0; mad.lo.u32 %r22, %r3, 16, %r5; @!%p2 bra TAKE; @!%p14 bra OUT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r22], [%rd2], 16, [%r20]; bra OUT;
    TAKE: @!%p14 bra M; mov.u32 %r25, 0; NEXT: setp.ne.u32 %p15, %r25, %r3; @%p15 bra MORE; {waits("[%r20]")} MORE: add.u32 %r25, %r25, 1;
    setp.lt.u32 %p15, %r25, {count}; @%p15 bra NEXT; M: {meets} @!%p14 bra OUT; mad.lo.u32 %r23, {word}, 16, %r5;
    ld.shared.u32 %r9, [%r23]; {RESULT} OUT:"""


def waited_by_two(word: str, fence: str) -> str:
    """The same of two lanes that wait by relaxed waits, and fence."""
    return waited_by_lanes(2, word, fence).replace("try_wait.parity", "try_wait.parity.relaxed.cta")


def heard_by_all(who: str = "") -> str:
    """A lane of warp 1 waits for what warp 0 has written; all of it, or one more lane, hear of that by a flag."""
    return f"""{init(32)} @%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @!%p2 bra TAKE; st.shared.u32 [%r8], %r3; mbarrier.arrive.shared::cta.b64 _, [bar]; bar.warp.sync -1;
    @%p1 st.release.cta.shared.u32 [sm+1024], 1; bra H; TAKE: @!%p4 bra N; {waits()} N: {who} POLL: ld.acquire.cta.shared.u32 %r15, [sm+1024]; setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL;
    ld.shared.u32 %r9, [%r8]; {RESULT} H:"""


def heard_by_one(reads: str, polls: str = "ld.acquire", meets: str = "", later: str = "", hears: int = 1) -> str:
    """Lane 0 of warp 0 waits for a copy (at 0), lane 1 hears by a flag of what warp 1 has written (at 1024); lane 2
    reads.
    """
    return f"""{init()} {init(1, "[bar+8]")} @%p1 st.volatile.shared.u32 [sm+2048], 0; fence.proxy.async.shared::cta; bar.sync 0; @%p2 bra COPIES;
    @!%p4 bra OUT; st.shared.u32 [sm+1024], 7; st.release.cta.shared.u32 [sm+2048], 1; mbarrier.arrive.shared::cta.b64 _, [bar+8]; bra OUT;
    COPIES: {LOAD} @!%p1 bra E; {waits()} E: setp.eq.u32 %p11, %r3, {hears}; @!%p11 bra F;
    POLL: {polls}.cta.shared.u32 %r15, [sm+2048]; setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL; {"" if polls == "ld.acquire" else ACQ} F: {later}
    {meets} setp.eq.u32 %p12, %r3, 2; @!%p12 bra OUT; ld.shared.u32 %r9, [sm+{reads}]; {RESULT} OUT:"""


THIRD = f"setp.eq.u32 %p13, %r3, 3; @!%p13 bra V; {waits('[bar+8]', label='U')} V:"  # lane 3 waits for something else


def copied_apart(reads: str) -> str:
    """Lane 0 waits for a copy; every lane copies two words (256 bytes apart) and waits for the first; lane 3 waits for
    something else; all read a word.
    """
    return f"""{init()} {init(1, "[bar+8]")} bar.sync 0; add.u32 %r8, %r6, 1024; add.u32 %r6, %r6, 2048; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd2;
    {LOAD} @!%p2 bra OUT; @!%p1 bra E; {waits()} E: cp.async.ca.shared.global [%r8], [%rd4], 4; cp.async.commit_group; cp.async.ca.shared.global [%r6], [%rd4], 4;
    cp.async.commit_group; cp.async.wait_group 1; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar+8]; {THIRD} ld.shared.u32 %r9, [{reads}]; {RESULT} cp.async.wait_group 0; OUT:"""


PROXY = "fence.proxy.async.shared::cta;"
READ_BY_TWO = f"""{init()} bar.sync 0; {LOAD} {waits()} @!%p2 bra R; ld.shared.u32 %r16, [sm+4]; {{}} bra S; R: ld.shared.u32 %r17, [sm+4]; {{}} S: bar.sync 0;
{LOAD.replace("bra L;", "bra M;").replace(" L:", " M:").replace("[%rd2]", "[%rd2+256]")} {waits(parity="1", label="V")} {READ}"""
# CTAs add to the same words in turn: thread 0 waits for the flag, and sets it for the next CTA.
TURNS = """mov.u32 %r11, %ctaid.x; @!%p1 bra T; P: ld.acquire.gpu.global.u32 %r12, [%rd2+2048]; sub.u32 %r12, %r12, 512; setp.ne.u32 %p10, %r12, %r11; @%p10 bra P; T: {}
mul.wide.u32 %rd10, %r1, 4; add.u64 %rd10, %rd10, %rd1; ld.global.u32 %r9, [%rd10]; add.u32 %r9, %r9, 1; st.global.u32 [%rd10], %r9; {} add.u32 %r11, %r11, 513; @%p1 st.release.gpu.global.u32 [%rd2+2048], %r11;"""
KERNELS = (
    Kernel("bulk load, try_wait in a loop",            loaded(waits())),
    Kernel("bulk load, test_wait in a loop",           loaded(TEST)),
    Kernel("bulk load, no wait",                       loaded(""), "X004"),
    Kernel("bulk load, test_wait's answer unused",     loaded(ONCE), "X004"),
    Kernel("bulk load, test_wait's answer overwritten after a branch", loaded(f"{ONCE} @%p1 bra G; G: setp.lt.u32 %p10, %r1, 64; @!%p10 bra OUT; OUT:"), "X004"),
    Kernel("bulk load, test_wait's answer used after a branch", loaded(f"AGAIN: {ONCE} @%p1 bra G; G: @!%p10 bra AGAIN;")),
    Kernel("bulk load, test_wait's answer in a word",  loaded(f"{ONCE} selp.u32 %r16, 1, 0, %p10; mov.u32 %r17, %r16;"), "X004"),
    Kernel("bulk load, a loop over such a word",       loaded(f"W: {ONCE} selp.u32 %r16, 1, 0, %p10; setp.eq.u32 %p11, %r16, 0; @%p11 bra W;")),
    Kernel("bulk load, an answer for another wait",    loaded(f"{ONCE} {waits(label='V')}")),
    Kernel("bulk load, one warp waits, then bar.sync", loaded(f"@!%p2 bra B; {waits()} B: bar.sync 0;")),
    Kernel("bulk load, one warp waits for itself",     loaded(f"@!%p2 bra B; {waits()} B:"), "X004"),
    Kernel("bulk load, read by ld.acquire",            loaded(f"{waits()} ld.acquire.cta.shared.u32 %r10, [%r6];")),
    Kernel("bulk load, ld.acquire is no wait",         loaded(f"ld.acquire.cta.shared.u32 %r10, [%r6]; {waits()}"), "X004"),
    Kernel("bulk load, added to",                      loaded(f"{waits()} red.shared.add.u32 [%r6], 1;")),
    Kernel("bulk load, added to in flight",            loaded(f"red.shared.add.u32 [%r6], 1; {waits()}"), "X005"),
    Kernel("bulk load, an mbarrier made in its midst", loaded(f"{init(1, '[sm+128]')} {waits()} setp.lt.u32 %p10, %r1, 32; @!%p10 bra OUT;") + " OUT:", "X005"),
    Kernel("bulk load, an mbarrier made behind it",    loaded(f"{waits()} {init(1, '[sm+128]')} setp.lt.u32 %p10, %r1, 32; @!%p10 bra OUT;") + " OUT:"),
    Kernel("bulk load, relaxed wait",                  loaded(RELAXED), "X004"),
    Kernel("bulk load, relaxed wait and a fence",      loaded(f"{RELAXED} {ACQ}")),
    Kernel("bulk load, relaxed test and a fence",      loaded(f"{RELAXED_TEST} {ACQ}")),
    Kernel("bulk load, relaxed test",                  loaded(RELAXED_TEST), "X004"),
    Kernel("bulk load, the fence before the wait",     loaded(f"{ACQ} {RELAXED}"), "X004"),
    Kernel("bulk load, a wait for the other parity",   loaded(waits(parity="1")), "X006"),
    Kernel("bytes expected apart, no order",           expected_apart(""), "X010"),
    Kernel("bytes expected apart, behind the copy",    expected_apart("", copy_first=True), "X010"),
    Kernel("bytes expected apart, a pair of CTAs",     expected_apart(""), "X010", cluster=2),
    Kernel("bytes expected apart, ordered",            expected_apart("bar.sync 0;")),
    Kernel("bytes expected apart, ordered, a pair",    expected_apart("bar.sync 0;"), cluster=2),
    Kernel("bytes expected, then an arrival",          EXPECTED_FIRST.format("")),
    Kernel("bytes expected, then a relaxed arrival",   EXPECTED_FIRST.format(".relaxed.cta")),
    Kernel("bytes expected, more of them later",       EXPECTED_FIRST.format("").replace("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256; mbarrier.arrive.shared", "mbarrier.arrive.expect_tx.shared").replace("_, [bar];\n", "_, [bar], 128; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 128;\n")),
    Kernel("ring, the next bytes are expected early",  EARLY, "X010"),
    Kernel("four phases, by the state",                by_token()),
    Kernel("four phases, by the state, relaxed waits", by_token(wait=".relaxed.cta")),
    Kernel("four phases, nobody waits",                f"{init(64)} bar.sync 0; " + 4 * "mbarrier.arrive.shared::cta.b64 _, [bar]; ", "X010"),
    Kernel("ring, freed behind a proxy fence",         ring(arrive=f"fence.proxy.async.shared::cta; {FREES}")),
    Kernel("ring, a proxy fence before the load",      ring(free=f"{waits('[%r12]', '%r22', label='FREE')} fence.proxy.async.shared::cta;")),
    Kernel("ring, in each CTA of a pair",              ring(), remarks="X003", cluster=2),
    Kernel("ring, a proxy fence for global memory",    ring(arrive=f"fence.proxy.async.global; {FREES}"), remarks="X003"),
    Kernel("a load over what threads have read",       loaded_twice(), remarks="X003"),
    Kernel("a load over what threads have read, fenced", loaded_twice(PROXY)),
    Kernel("a load over what its own warp has read",   loaded_twice("bar.warp.sync -1;"), block=32, remarks="X003"),
    Kernel("a load over what its own warp has read, fenced", loaded_twice(f"{PROXY} bar.warp.sync -1;"), block=32),
    Kernel("ring of two stages",                       ring(), remarks="X003"),
    Kernel("ring, the consumer does not wait",         ring(full=" "), "X004"),
    Kernel("ring, the producer does not wait",         ring(free=" "), "X008"),
    Kernel("ring, freed by all lanes but one",         ring(readers=31), "X010"),
    Kernel("ring, freed before it is read",            ring(read_first=False), "X008"),
    Kernel("ring, freed relaxed",                      ring(arrive="mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r12];"), "X008"),
    Kernel("ring, freed relaxed behind a fence",       ring(arrive=f"{ACQ} mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r12];"), remarks="X003"),
    Kernel("flag, volatile and fences",                flagged(RAISE, VOLATILE, before="membar.cta;", after="membar.cta;")),
    Kernel("flag, volatile, no fences",                flagged(RAISE, VOLATILE), "X008"),
    Kernel("flag, volatile, the reader has no fence",  flagged(RAISE, VOLATILE, before="membar.cta;"), "X008"),
    Kernel("flag, volatile, the writer has no fence",  flagged(RAISE, VOLATILE, after="membar.cta;"), "X008"),
    Kernel("flag, release and acquire",                flagged(RELEASE, ACQUIRE)),
    Kernel("flag, release and relaxed",                flagged(RELEASE, LOOSE), "X008"),
    Kernel("flag, release and relaxed with a fence",   flagged(RELEASE, LOOSE, after=ACQ)),
    Kernel("flag, relaxed and acquire",                flagged(UP, ACQUIRE), "X008"),
    Kernel("flag, a fence of somebody else",           flagged(UP, ACQUIRE, more=ACQ), "X008", 96),
    Kernel("flag, a fence and relaxed, acquire",       flagged(UP, ACQUIRE, before=ACQ)),
    Kernel("flag, plain stores",                       flagged("st.shared.u32 [sm+1024], 1;", VOLATILE, before=ACQ, after=ACQ), "X008"),
    Kernel("flag by an atomic that releases",          flagged("red.release.cta.shared.add.u32 [sm+1024], 1;", ACQUIRE)),
    Kernel("flag, released and then stored again",     flagged(f"bra R; bra GO; R: @%p1 {RELEASE} @%p1 {UP} GO:", ACQUIRE)),
    Kernel("flag, another warp overwrites it",         f"@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @%p2 st.shared.u32 [%r8], %r3; @%p1 {RELEASE} setp.eq.u32 %p11, %r1, 64; "
                                                       f"bra A; A: @%p11 st.relaxed.cta.shared.u32 [sm+1024], 2; bra B; B: @!%p3 bra OUT; {ACQUIRE} ld.shared.u32 %r9, [%r8]; {RESULT} OUT:", "X008", 96),
    Kernel("the last warp adds, acq_rel",              counted(COUNT.format("acq_rel.cta"))),
    Kernel("the last warp adds, fences",               counted(COUNT.format("relaxed.cta"), before="membar.cta;", after="membar.cta;")),
    Kernel("the last warp adds, no fences",            counted(COUNT.format("relaxed.cta")), "X008"),
    Kernel("the last warp adds, release only",         counted(COUNT.format("release.cta")), "X008"),
    Kernel("lock, acquire and release",                locked(CAS_ACQUIRE, "atom.release.cta.shared.exch.b32 %r16, [sm], 0;")),
    Kernel("lock, relaxed with fences",                locked(CAS, f"{ACQ} atom.relaxed.cta.shared.exch.b32 %r16, [sm], 0;")),
    Kernel("lock, relaxed",                            locked(CAS, "atom.relaxed.cta.shared.exch.b32 %r16, [sm], 0;"), "X008"),
    Kernel("lock, given back by a plain store",        locked(CAS_ACQUIRE, "st.shared.u32 [sm], 0;"), "X008"),
    Kernel("histogram",                                histogram()),
    Kernel("histogram, nothing behind the zeros",      histogram(clear=""), "X008"),
    Kernel("histogram, nothing behind the counts",     histogram(count=""), "X008"),
    Kernel("histogram by plain additions",             histogram(add="ld.shared.u32 %r12, [%r11]; add.u32 %r12, %r12, 1; st.shared.u32 [%r11], %r12;"), "X008"),
    Kernel("pair, barrier of the cluster",             exchanged(MEET), cluster=2),
    Kernel("pair, no barrier behind the stores",       exchanged(""), "X008", cluster=2),
    Kernel("pair, only a barrier of the CTA",          exchanged("bar.sync 0;"), "X008", cluster=2),
    Kernel("pair, relaxed arrival",                    exchanged(SLOW), "", cluster=2, remarks="X008"),
    Kernel("pair, relaxed arrival behind a fence",     exchanged(f"fence.acq_rel.cluster; {SLOW}"), cluster=2),
    Kernel("pair, one meets before it has begun",      exchanged(MEET, start=""), "X008", cluster=2),
    Kernel("pair, met relaxed at the beginning",       exchanged(MEET, start=SLOW), cluster=2),
    Kernel("pair, ends while the other writes",        exchanged("", end=""), "X008", cluster=2),
    Kernel("st.async, waited for",                     sent(f"fence.mbarrier_init.release.cluster; {SLOW}", waits()), cluster=2),
    Kernel("st.async, mbarrier.init behind the last",  sent("", waits(), before=MEET), "X008", cluster=2),
    Kernel("st.async, not waited for",                 sent(MEET, ""), "X004", cluster=2),
    Kernel("st.async, nothing behind mbarrier.init",   sent("bar.sync 0;", waits()), "X008", cluster=2),
    Kernel("neighbours, bar.sync",                     neighbours("bar.sync 0;")),
    Kernel("neighbours, nothing",                      neighbours(""), "X008"),
    Kernel("neighbours, a named barrier of the pair",  neighbours("shr.u32 %r10, %r2, 1; add.u32 %r10, %r10, 1; bar.sync %r10, 64;"), block=128),
    Kernel("neighbours, each its own named barrier",   neighbours("add.u32 %r10, %r2, 1; bar.sync %r10, 32;"), "X008", 128),
    Kernel("neighbours, overwritten behind bar.sync",  neighbours("bar.sync 0;", TWICE.format("bar.sync 0;"))),
    Kernel("neighbours, overwritten too early",        neighbours("bar.sync 0;", TWICE.format("")), "X008"),
    Kernel("neighbours by ld.volatile, bar.sync",      neighbours("bar.sync 0;", TWICE.format("bar.sync 0;"), load="ld.volatile")),
    Kernel("neighbours by ld.volatile, nothing",       neighbours("", load="ld.volatile"), "X008"),
    Kernel("neighbours by ld.volatile, too early",     neighbours("bar.sync 0;", TWICE.format(""), load="ld.volatile"), "X008"),
    Kernel("neighbours by volatile, nothing",          neighbours("", "st.volatile.shared.u32 [%r6], %r9;", load="ld.volatile", store="st.volatile")),
    Kernel("given behind a load, then arrived for",    given()),
    Kernel("given behind a load, not arrived for",     given(""), "X008"),
    Kernel("given in front of a load",                 given("", before=True)),
    Kernel("one warp arrives, one waits",              "@%p3 bra B; st.shared.u32 [%r8], %r3; bar.arrive 1, 64; bra OUT; B: bar.sync 1, 64; ld.shared.u32 %r9, [%r8]; " + RESULT + " OUT:"),
    Kernel("one warp arrives too early",               "@%p3 bra B; bar.arrive 1, 64; st.shared.u32 [%r8], %r3; bra OUT; B: bar.sync 1, 64; ld.shared.u32 %r9, [%r8]; " + RESULT + " OUT:", "X008"),
    Kernel("cp.async, wait_group and bar.sync",        copied("cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;")),
    Kernel("cp.async, no barrier behind wait_group",   copied("cp.async.commit_group; cp.async.wait_group 0;"), "X004"),
    Kernel("cp.async, the barrier too early",          copied("cp.async.commit_group; bar.sync 0; cp.async.wait_group 0;"), "X004"),
    Kernel("cp.async, a group too few",                copied("cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;"), "X004"),
    Kernel("cp.async, counted by an mbarrier",         f"{init(64)} bar.sync 0;" + copied(f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; {waits()}")),
    Kernel("cp.async, committed, then counted",        f"{init(64)} bar.sync 0;" + copied(f"cp.async.commit_group; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; {waits()}")),
    Kernel("cp.async, counted, then committed",        f"{init(64)} bar.sync 0;" + copied("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;")),
    Kernel("cp.async, counted, a group too few",       f"{init(64)} bar.sync 0;" + copied("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;"), "X004"),
    Kernel("cp.async, counted twice, the later seen",  f"{init(64)} {init(64, '[bar+8]')} bar.sync 0;" + copied(f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar+8]; {waits('[bar+8]')}")),
    Kernel("cp.async, arrived for before it",          f"{init(64)} bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [bar];" + copied(waits()), "X004"),
    Kernel("cp.async, two warps copy the same",        f"mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r8], [%rd5], 4; cp.async.wait_all; {SHOW}"),
    Kernel("cp.async, two warps copy to one place",    f"mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r8], [%rd5], 4; cp.async.wait_all; {SHOW}", "X008"),
    Kernel("bulk stores, one lane does it all",        stored_by()),
    Kernel("bulk stores, all lanes wait",              stored_by(wait="")),
    Kernel("bulk stores, all lanes commit and wait",   stored_by("", "")),
    Kernel("bulk stores, another lane waits",          stored_by(wait="@%p14"), "X005"),
    Kernel("bulk stores, another lane waits for all",  stored_by(wait="@%p14", read=""), "X005", cluster=2),
    Kernel("bulk stores, another lane commits",        stored_by("@%p14", ""), "X005"),
    *(Kernel(f"bulk stores, {over} over them, {'another' if found else 'the same'} lane waits", stored_by(wait=wait).replace(LAST_STORE, text), found)
      for over, text in OVERWRITES.items() for wait, found in (("@%p1", ""), ("@%p14", "X005"))),
    Kernel("bulk stores, of whole warps",              stored_by("@%p2", "@%p2", issue="@%p2")),
    Kernel("bulk stores, of whole warps, a lane waits", stored_by("@%p2", "@%p1", issue="@%p2"), "X005"),
    Kernel("cp.async, half of the lanes wait",         copied_by(wait="@%p11 cp.async.wait_group 0;"), "X004"),
    Kernel("cp.async, half of the lanes wait, and read", copied_by(wait="@%p11 cp.async.wait_group 0;", who="@%p11")),
    Kernel("cp.async, half of the lanes wait, the others read", copied_by(wait="@%p11 cp.async.wait_group 0;", who="@%p15"), "X004", cluster=2),
    Kernel("cp.async, half of the lanes wait, for the others", copied_for_others("bar.warp.sync -1;")),
    Kernel("cp.async, half of the lanes wait, then no sync", copied_for_others(""), "X004"),
    Kernel("cp.async, half wait in a branch, then no sync", copied_for_others("N:", "@!%p11 bra N;"), "X004"),
    Kernel("cp.async, half wait in a branch, then sync", copied_for_others("N: bar.warp.sync -1;", "@!%p11 bra N;")),
    Kernel("cp.async, each half waits",                copied_by(wait="@%p11 cp.async.wait_group 0; @%p15 cp.async.wait_group 0;"), cluster=2),
    Kernel("cp.async, half of the lanes commit",       copied_by("@%p11 cp.async.commit_group;"), "X004"),
    Kernel("cp.async, each half commits",              copied_by("@%p11 cp.async.commit_group; @%p15 cp.async.commit_group;")),
    Kernel("cp.async, a lane waits for all",           copied_by("", "@%p14 cp.async.wait_all;"), "X004"),
    Kernel("cp.async, half of the lanes counted",      copied_by("@%p11 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];", waits(), begin=init(32) + "bar.sync 0;"), "X004"),
    Kernel("cp.async, each half counted",              copied_by("@%p11 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; @%p15 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];", waits(),
                                                                 begin=init(64) + "bar.sync 0;")),
    Kernel("bulk stores, two rounds",                  stored()),
    Kernel("bulk stores, no proxy fence",              stored(fence=""), "X003"),
    Kernel("bulk stores, the fence behind bar.sync",   stored(fence="", meet="bar.sync 0; fence.proxy.async.shared::cta;")),
    Kernel("bulk stores, no barrier before",           stored(meet=""), "X008"),
    Kernel("bulk stores, no wait before the next",     stored(read=""), "X005"),
    Kernel("bulk stores, others do not wait",          stored(again=""), "X005"),
    Kernel("bulk stores, two buffers",                 two_buffers(1)),
    Kernel("bulk stores, two buffers, one too late",   two_buffers(2), "X005"),
    Kernel("bulk copy to the other CTA",               pushed(wait=waits()), cluster=2),
    Kernel("bulk copy to the other CTA, own mbarrier", pushed(wait=waits(), counted=""), cluster=2, remarks="X010"),
    Kernel("bulk copy to the other CTA, no wait",      pushed(), "X004", cluster=2),
    Kernel("bulk copy to the other CTA, no fence",     pushed("", waits()), "X003", cluster=2),
    Kernel("lent to the other CTA",                    lent(waits(what="try_wait.parity.acquire.cluster")), cluster=2),
    Kernel("lent to the other CTA, not waited for",    lent(), "X008", cluster=2),
    Kernel("lent to the other CTA, read too late",     lent(waits(what="try_wait.parity.acquire.cluster"), True), "X008", cluster=2),
    Kernel("red.async, waited for",                    summed(waits()), cluster=2),
    Kernel("red.async, to what nobody has written",    summed(waits(), begin=""), "R507", cluster=2),
    Kernel("red.async, not waited for",                summed(), "X004", cluster=2),
    Kernel("two bulk stores, both awaited",            STORED.format(READ_BY_STORE.format(12)), block=96),
    Kernel("two bulk stores, the first awaited",       STORED.format(READ_BY_STORE.format(1)), "X005", 96),
    Kernel("two bulk stores, the second awaited",      STORED.format(READ_BY_STORE.format(11)), "X005", 96),
    Kernel("two loads of the same bytes",              LOADED_TWICE.format(BOTH_LOADS, "st.shared.u32 [%r6], 1;")),
    Kernel("two loads of the same bytes, one awaited", LOADED_TWICE.format(waits("[bar+8]"), f"st.shared.u32 [%r6], 1; {waits(label='V')}"), "X005"),
    Kernel("two loads of the same bytes, read early",  LOADED_TWICE.format(waits("[bar+8]"), f"ld.shared.u32 %r9, [%r6]; {RESULT} {waits(label='V')}")),
    Kernel("two reductions, both awaited",             ADDED_TWICE.format(BOTH_LOADS, f"ld.shared.u32 %r9, [%r6+256]; {RESULT}")),
    Kernel("two reductions, the second awaited",       ADDED_TWICE.format(waits("[bar+8]"), f"ld.shared.u32 %r9, [%r6+256]; {RESULT} {waits(label='V')}"), "X004"),
    Kernel("two readers of A, both awaited",           SHARED_A.format("", BOTH_LOADS), arch="sm_100a", block=128),
    Kernel("two readers of A, the second awaited",     SHARED_A.format("", waits("[bar+8]")), "X012", 128, arch="sm_100a"),
    Kernel("two readers of A, the first awaited",      SHARED_A.format("", waits()), "X012", 128, arch="sm_100a"),
    Kernel("two readers of A in turn, the last await", SHARED_A.format("bar.sync 0;", waits("[bar+8]")), arch="sm_100a", block=128),
    Kernel("bulk reductions of both CTAs",             added(), cluster=2),
    Kernel("bulk reductions, not waited for",          added(wait=""), "X004", cluster=2),
    Kernel("a bulk reduction beside a bulk copy",      added(second=COPIES), "X005", cluster=2),
    Kernel("a bulk reduction over what a copy reads",  added(READS), "X004", cluster=2),
    Kernel("a bulk reduction over what another reads", added(ADDS.replace("%r11", "%r13").replace("%r5", "%r14")), "X004", cluster=2),
    Kernel("ticket lock",                              ticket(), block=128),
    Kernel("ticket lock, no fence before",             ticket(before=""), "X008", 128),
    Kernel("ticket lock, no fence behind",             ticket(after=""), "X008", 128),
    Kernel("atomics, then a bulk store, no fence",     "red.shared.add.u32 [%r8], 1; bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 128;", "X003"),
    Kernel("all warps write the same",                 f"st.shared.u32 [%r8], %r3; {SHOW}"),
    Kernel("all warps write one word",                 f"st.shared.u32 [sm], 7; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}"),
    Kernel("all warps write one word, lane by lane",   f"st.shared.u32 [sm], %r3; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}"),
    Kernel("all warps write one word, other lanes",    f"st.shared.u32 [sm], %r1; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}", "X008"),
    Kernel("all warps write the same bytes",           f"cvt.u16.u32 %h1, %r3; add.u32 %r10, %r5, %r3; st.shared.u8 [%r10], %h1; bar.sync 0; ld.shared.u8 %r9, [%r10]; {RESULT}"),
    Kernel("all warps write other bytes",              f"cvt.u16.u32 %h1, %r1; add.u32 %r10, %r5, %r3; st.shared.u8 [%r10], %h1; bar.sync 0; ld.shared.u8 %r9, [%r10]; {RESULT}", "X008"),
    Kernel("warps write neighbouring bytes",           f"cvt.u16.u32 %h1, %r1; mad.lo.u32 %r10, %r3, 2, %r5; add.u32 %r10, %r10, %r2; st.shared.u8 [%r10], %h1; bar.sync 0; ld.shared.u8 %r9, [%r10]; {RESULT}"),
    Kernel("warps update neighbouring bytes",          f"{BYTES} ld.shared.u8 %h1, [%r10]; add.u16 %h1, %h1, 1; st.shared.u8 [%r10], %h1; bar.sync 0; ld.shared.u8 %r9, [%r10]; {RESULT}"),
    Kernel("warps update bytes that the other reads",  f"{BYTES} xor.b32 %r11, %r10, 1; ld.shared.u8 %r9, [%r11]; add.u16 %h1, %h1, 1; st.shared.u8 [%r10], %h1; {RESULT}", "X008"),
    Kernel("bytes of two warps, the last one reads both",  f"cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; setp.lt.u32 %p10, %r1, 32; @%p10 bra OUT; ld.shared.u16 %h1, [%r11]; cvt.u32.u16 %r9, %h1; {RESULT} OUT:", "X008"),
    Kernel("bytes of two warps, a barrier, the last one reads both",  f"cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; bar.sync 0; setp.lt.u32 %p10, %r1, 32; @%p10 bra OUT; ld.shared.u16 %h1, [%r11]; cvt.u32.u16 %r9, %h1; {RESULT} OUT:"),
    Kernel("bytes of two warps, the first one reads both",  f"cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; setp.lt.u32 %p10, %r1, 32; @!%p10 bra OUT; ld.shared.u16 %h1, [%r11]; cvt.u32.u16 %r9, %h1; {RESULT} OUT:", "X008"),
    Kernel("bytes of two warps, a barrier, the first one reads both",  f"cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; bar.sync 0; setp.lt.u32 %p10, %r1, 32; @!%p10 bra OUT; ld.shared.u16 %h1, [%r11]; cvt.u32.u16 %r9, %h1; {RESULT} OUT:"),
    Kernel("bytes of two warps, one overwrites both",  "cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; setp.lt.u32 %p10, %r1, 32; @%p10 bra OUT; st.shared.u16 [%r11], %h2; OUT:", "X008"),
    Kernel("bytes of two warps, a barrier, one overwrites both",  "cvt.u16.u32 %h1, %r1; mad.lo.u32 %r11, %r3, 2, %r5; add.u32 %r10, %r11, %r2; st.shared.u8 [%r10], %h1; bar.sync 0; setp.lt.u32 %p10, %r1, 32; @%p10 bra OUT; st.shared.u16 [%r11], %h2; OUT:"),
    Kernel("one byte of two warps with one value, one reads",  f"mad.lo.u32 %r11, %r3, 2, %r5; mov.b16 %h1, 7; st.shared.u8 [%r11], %h1; setp.lt.u32 %p10, %r1, 32; @%p10 bra OUT; ld.shared.u8 %r9, [%r11]; {RESULT} OUT:"),
    Kernel("a byte by volatile, a plain load", bytes_at_once("@%p4 st.volatile.shared.u8 [sm+1], %h1;", f"ld.shared.u8 %r9, [sm+1]; {RESULT}"), "X008"),
    Kernel("a byte by volatile, a plain load of its neighbour", bytes_at_once("@%p4 st.volatile.shared.u8 [sm+1], %h1;", f"ld.shared.u8 %r9, [sm+2]; {RESULT}")),
    Kernel("a byte by volatile, a plain load of the word", bytes_at_once("@%p4 st.volatile.shared.u8 [sm+1], %h1;", f"ld.shared.u32 %r9, [sm]; {RESULT}"), "X008"),
    Kernel("a byte by volatile, a barrier, a plain load of the word", f"{BYTE} @%p4 st.volatile.shared.u8 [sm+1], %h1; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}"),
    Kernel("a plain byte, a relaxed load", bytes_at_once("@%p4 st.shared.u8 [sm+1], %h1;", f"ld.relaxed.cta.shared.u8 %r9, [sm+1]; {RESULT}"), "X008"),
    Kernel("a plain byte, a relaxed load of two others", bytes_at_once("@%p4 st.shared.u8 [sm+1], %h1;", f"ld.relaxed.cta.shared.u16 %r9, [sm+2]; {RESULT}")),
    Kernel("a relaxed load of a byte, a plain store of the word", bytes_at_once(f"ld.relaxed.cta.shared.u8 %r9, [sm+3]; {RESULT}", "@%p1 st.shared.u32 [sm], 7;"), "X008"),
    Kernel("a relaxed load of a byte, a plain store of the others", bytes_at_once(f"ld.relaxed.cta.shared.u8 %r9, [sm+3]; {RESULT}", "@%p1 st.shared.u16 [sm], %h3;")),
    Kernel("halves by cas, a plain store of one", bytes_at_once("@%p4 atom.shared.cas.b16 %h2, [sm+2], %h0, %h1;", "@%p1 st.shared.u16 [sm+2], %h3;"), "X008"),
    Kernel("halves by cas, plain stores of the others", bytes_at_once("@%p4 atom.shared.cas.b16 %h2, [sm+2], %h0, %h1;", "@%p1 st.shared.u16 [sm], %h3;")),
    Kernel("halves by cas of two warps, a barrier, read", f"{BYTE} @%p4 atom.shared.cas.b16 %h2, [sm+2], %h0, %h1; bar.sync 0; ld.shared.u32 %r9, [sm]; bar.sync 0; @%p1 st.shared.u32 [sm], 9; {RESULT}"),
    Kernel("a flag of one byte, released and acquired", f"{BYTE} @%p2 bra GIVE; W: ld.acquire.cta.shared.u8 %r15, [sm+1]; setp.eq.u32 %p10, %r15, 0; @%p10 bra W; ld.shared.u8 %r16, [sm+1]; add.u32 %r10, %r8, 1024; ld.shared.u32 %r9, [%r10]; {RESULT} bra OUT; GIVE: add.u32 %r10, %r8, 1024; st.shared.u32 [%r10], %r3; bar.warp.sync -1; @%p1 st.release.cta.shared.u8 [sm+1], %h1; OUT:"),
    Kernel("a flag of one byte, relaxed, and its value read again", f"{BYTE} @%p2 bra GIVE; W: ld.relaxed.cta.shared.u8 %r15, [sm+1]; setp.eq.u32 %p10, %r15, 0; @%p10 bra W; ld.shared.u8 %r9, [sm+1]; {RESULT} bra OUT; GIVE: @%p1 st.relaxed.cta.shared.u8 [sm+1], %h1; OUT:"),
    Kernel("bytes that a bulk store may still read",   f"{BYTES} fence.proxy.async.shared::cta; bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 128; bar.sync 0; @%p3 st.shared.u8 [%r10], %h2;", "X005"),
    Kernel("all warps write their own number",         f"st.shared.u32 [%r8], %r2; {SHOW}", "X008"),
    Kernel("two lines, the same value",                f"{BY_WARP.format('%r3', '%r3')} {SHOW}"),
    Kernel("two lines, other values",                  f"{BY_WARP.format('%r3', '%r1')} {SHOW}", "X008"),
    Kernel("read, then the same written again",        f"@%p2 st.shared.u32 [%r8], 5; bar.sync 0; ld.shared.u32 %r9, [%r8]; @%p3 st.shared.u32 [%r8], 5; {RESULT}"),
    Kernel("read, then something else written",        f"@%p2 st.shared.u32 [%r8], 5; bar.sync 0; ld.shared.u32 %r9, [%r8]; @%p3 st.shared.u32 [%r8], 6; {RESULT}", "X008"),
    Kernel("a sum, and a store of the same value",     the_same_value("red.shared.add.u32 [sm], 5;"), "X008"),
    Kernel("a swap whose result is used, and a store of the same value", the_same_value("atom.shared.exch.b32 %r9, [sm], 5;"), "X008"),
    Kernel("a maximum, and a store of the same value", the_same_value("red.shared.max.u32 [sm], 5;")),
    Kernel("a swap, and a store of the same value",    the_same_value("atom.shared.exch.b32 %r19, [sm], 5;")),
    Kernel("lanes, a sum, and a store of the same value", the_same_value("red.shared.add.u32 [sm], 5;", other=1), "X008"),
    Kernel("lanes, a maximum, and a store of the same value", the_same_value("red.shared.max.u32 [sm], 5;", other=1)),
    Kernel("an atomic that has seen another one's, then its own sum", seen_before("red.shared.add.u32 [sm], 256;")),
    Kernel("an atomic that has seen another one's, then its own store", seen_before("st.relaxed.cta.shared.u32 [sm], 256;")),
    Kernel("an atomic that has seen another one's, then nothing", seen_before("")),
    Kernel("only sums of two warps, then a read",      seen_before("red.shared.add.u32 [sm], 256;", again="", look="red.shared.add.u32 [sm], 256;"), "X008"),
    Kernel("the same value by two warps, then another", the_same_value("st.shared.u32 [sm], 5;", then="@%p8 st.shared.u32 [sm], 6;"), "X008"),
    Kernel("the same value by two warps, then a sum",  the_same_value("st.shared.u32 [sm], 5;", then="@%p8 red.shared.add.u32 [sm], 6;"), "X008"),
    Kernel("the same value by two warps, a barrier, then another", the_same_value("st.shared.u32 [sm], 5;", then="bar.sync 0; @%p8 st.shared.u32 [sm], 6;")),
    Kernel("the same value by two warps, and once more", the_same_value("st.shared.u32 [sm], 5;", then="@%p8 st.shared.u32 [sm], 5;")),
    Kernel("the same value by two warps, then another, read by the second", the_same_value("st.shared.u32 [sm], 5;", then="@%p8 ld.shared.u32 %r9, [sm];")),
    Kernel("the same value by all, then another",      f"st.shared.u32 [sm], 5; @%p3 st.shared.u32 [sm], 6; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}", "X008"),
    Kernel("the same value by all, a barrier, then another", f"st.shared.u32 [sm], 5; bar.sync 0; @%p3 st.shared.u32 [sm], 6; bar.sync 0; ld.shared.u32 %r9, [sm]; {RESULT}"),
    Kernel("the same byte by two warps, then another", the_same_value("st.shared.u8 [sm+1], %h1;", "st.shared.u8 [sm+1], %h1;", then="@%p8 st.shared.u8 [sm+1], %h2;"), "X008"),
    Kernel("the same byte by two warps, then the next one", the_same_value("st.shared.u8 [sm+1], %h1;", "st.shared.u8 [sm+1], %h1;", then="@%p8 st.shared.u8 [sm+2], %h2;")),
    Kernel("a word and the same byte of it, then another", the_same_value("st.shared.u32 [sm], 5;", "st.shared.u8 [sm], %h1;", then="@%p8 st.shared.u8 [sm], %h2;"), "X008"),
    Kernel("a byte and the same word, then the next byte", the_same_value("st.shared.u8 [sm], %h1;", then="@%p8 st.shared.u8 [sm+1], %h2;")),
    Kernel("a byte and the same word, then the byte",  the_same_value("st.shared.u8 [sm], %h1;", then="@%p8 st.shared.u8 [sm], %h2;"), "X008"),
    Kernel("a warp exits before bar.sync",             f"@%p2 st.shared.u32 [%r8], %r3; @%p2 ret; bar.sync 0; ld.shared.u32 %r9, [%r8]; {RESULT}"),
    Kernel("a warp exits, nobody waits for it",        f"@%p2 st.shared.u32 [%r8], %r3; @%p2 ret; ld.shared.u32 %r9, [%r8]; {RESULT}", "X008"),
    Kernel("a warp exits before a barrier for 32",     f"@%p2 st.shared.u32 [%r8], %r3; @%p2 ret; bar.sync 1, 32; ld.shared.u32 %r9, [%r8]; {RESULT}", "X008"),
    Kernel("tensor memory",                            tensor(), arch="sm_100a", block=128),
    Kernel("tensor memory, relaxed wait",              tensor(RELAXED + AFTER), arch="sm_100a", block=128),
    Kernel("tensor memory, relaxed wait, no fence",    tensor(RELAXED), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, relaxed wait, other fence", tensor(f"{RELAXED} {ACQ}"), arch="sm_100a", block=128),
    Kernel("tensor memory, no wait",                   tensor(" "), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, given back too early",      tensor(meet=""), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, met before the load ends",  tensor(done=""), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, the others have exited",    tensor(meet="@!%p2 ret; barrier.cluster.arrive; barrier.cluster.wait;"), arch="sm_100a", block=128),
    Kernel("tensor memory, the others may have",       tensor(meet="@!%p2 ret;"), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, met relaxed",               tensor(meet=SLOW), arch="sm_100a", block=128, remarks="X012"),
    Kernel("tensor memory, registers used",            tensor(done=f"tcgen05.wait::ld.sync.aligned; {USED}"), arch="sm_100a", block=128),
    Kernel("tensor memory, registers used before the wait", tensor(done=f"{USED} tcgen05.wait::ld.sync.aligned;"), arch="sm_100a", block=128),
    Kernel("tensor memory, registers used, no wait follows", tensor(done=USED), arch="sm_100a", block=128, remarks="X007"),
    Kernel("tensor memory, two loads, each waited for", tensor(done=f"{WAITED_LD} {USED} {SECOND_LD} {WAITED_LD} {USED_AGAIN}"), arch="sm_100a", block=128),
    Kernel("tensor memory, two loads, one wait before all uses", tensor(done=f"{SECOND_LD} {WAITED_LD} {USED} {USED_AGAIN}"), arch="sm_100a", block=128),
    Kernel("tensor memory, two loads, one wait after all uses", tensor(done=f"{USED} {SECOND_LD} {USED_AGAIN} {WAITED_LD}"), arch="sm_100a", block=128),
    Kernel("tensor memory, two loads, the first not waited for", tensor(done=f"{USED} {SECOND_LD} {WAITED_LD} {USED_AGAIN}"), arch="sm_100a", block=128, remarks="X007"),
    Kernel("tensor memory, registers used behind a branch, no wait", tensor(done=f"@!%p2 bra U; {USED} U:"), arch="sm_100a", block=32, remarks="X007"),
    Kernel("tensor memory, stored and loaded, waited for", tensor(done=OWN_CELLS.format("tcgen05.wait::st.sync.aligned;")), arch="sm_100a", block=128),
    Kernel("tensor memory, stored and loaded",         tensor(done=OWN_CELLS.format("")), arch="sm_100a", block=128, remarks="X012"),
    Kernel("tensor memory, loaded and stored, waited for", tensor(done=LOADED.format(WAITED_LD, "%r3")), arch="sm_100a", block=128),
    Kernel("tensor memory, loaded and stored, used before", tensor(done=LOADED.format("add.u32 %r9, %r20, 1;", "%r3")), arch="sm_100a", block=128),
    Kernel("tensor memory, loaded and stored, its own values", tensor(done=LOADED.format("", "%r23")), arch="sm_100a", block=128),
    Kernel("tensor memory, loaded and stored, other cells", tensor(done=LOADED.format("add.u32 %r14, %r14, 4;", "%r3")), arch="sm_100a", block=128),
    Kernel("tensor memory, loaded and stored", tensor(done=LOADED.format("", "%r3")), arch="sm_100a", block=128, remarks="X012"),
    Kernel("tensor memory, loaded and stored, behind a branch", tensor(done=LOADED.format("@%p1 bra U; U:", "%r3")), arch="sm_100a", block=128, remarks="X012"),
    Kernel("tensor memory, loaded and stored, waited for behind a branch", tensor(done=LOADED.format(f"@%p1 bra U; U: {WAITED_LD}", "%r3")), arch="sm_100a", block=128),
    Kernel("tensor memory, loaded and stored, used behind it", tensor(done=LOADED.format("", "%r3").replace(WAITED_LD, f"add.u32 %r9, %r20, 1; {WAITED_LD}")), arch="sm_100a", block=128, remarks="X012"),
    Kernel("tensor memory, loaded, used, overwritten by a copy", tensor(done=f"{USED} {OVERWRITTEN}"), arch="sm_100a", block=32),
    Kernel("tensor memory, loaded, overwritten by a copy, used", tensor(done=f"{OVERWRITTEN_FIRST} {USED} {OVERWRITTEN_THEN}"), "X012", arch="sm_100a", block=32),
    Kernel("tensor memory, loaded, a signal, used, overwritten by a copy", tensor(done=f"red.shared.add.u32 [bar+40], 1; {USED} {OVERWRITTEN}"), arch="sm_100a", block=32),
    Kernel("tensor memory, loads over its address",    ALLOCATED, arch="sm_100a", block=64),
    Kernel("tensor memory, two issuers in turn",       tensor(second=SECOND.format("bar.sync 0;")), arch="sm_100a", block=128),
    Kernel("tensor memory, two issuers at once",       tensor(second=SECOND.format("")), "X012", arch="sm_100a", block=128),
    Kernel("tensor memory, in turn",                   in_turn("try_wait.parity"), arch="sm_100a", block=128),
    Kernel("tensor memory, in turn, relaxed waits",    in_turn("try_wait.parity.relaxed.cta", BEFORE, AFTER), arch="sm_100a", block=128),
    Kernel("tensor memory, in turn, no fences",        in_turn("try_wait.parity.relaxed.cta"), "X010", arch="sm_100a", block=128),
    Kernel("shared memory, tcgen05.fence alone",       handed("tcgen05.fence::before_thread_sync;", AFTER), "X008", arch="sm_100a"),
    Kernel("shared memory, a fence of memory",         handed(ACQ, ACQ), arch="sm_100a"),
    Kernel("three phases, one parity",                 f"{init()} bar.sync 0; @%p2 bra GIVE; {waits()} ld.shared.u32 %r9, [%r8]; {RESULT} bra OUT; GIVE: {3 * GIVEN} OUT:", "X008"),
    Kernel("three phases, and a barrier",              f"{init()} bar.sync 0; @%p2 bra GIVE; bar.sync 0; {waits()} ld.shared.u32 %r9, [%r8]; {RESULT} bra OUT; GIVE: {3 * GIVEN} bar.sync 0; OUT:"),
    Kernel("flag, a plain store over it",              f"@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0; @%p2 bra GIVE; POLL: {ACQUIRE} setp.eq.u32 %p10, %r15, 0; @%p10 bra POLL; ld.shared.u32 %r9, [%r8]; {RESULT} bra OUT; "
                                                       f"GIVE: st.shared.u32 [%r8], %r3; bar.warp.sync -1; @%p1 {RELEASE} @%p1 st.shared.u32 [sm+1024], 1; OUT:", "X008"),
    Kernel("lock, a waiting cas that releases",        locked("atom.acq_rel.cta.shared.cas.b32 %r15, [sm], 0, 1;", "atom.relaxed.cta.shared.exch.b32 %r16, [sm], 0;"), "X008"),
    Kernel("volatile counters of two warps",           "@%p1 st.shared.u32 [sm], 0; bar.sync 0; ld.volatile.shared.u32 %r15, [sm]; add.u32 %r15, %r15, 1; st.volatile.shared.u32 [sm], %r15;", "X008"),
    Kernel("volatile counters, a barrier between",     "@%p1 st.shared.u32 [sm], 0; bar.sync 0; @!%p2 bra N; ld.volatile.shared.u32 %r15, [sm]; add.u32 %r15, %r15, 1; st.volatile.shared.u32 [sm], %r15; N: "
                                                       "bar.sync 0; @%p2 bra M; ld.volatile.shared.u32 %r16, [sm]; add.u32 %r16, %r16, 1; st.volatile.shared.u32 [sm], %r16; M:"),
    Kernel("volatile counter of one thread, twice",    "@%p1 st.shared.u32 [sm], 0; bar.sync 0; @!%p1 bra M; ld.volatile.shared.u32 %r15, [sm]; add.u32 %r15, %r15, 1; st.volatile.shared.u32 [sm], %r15; "
                                                       "ld.volatile.shared.u32 %r16, [sm]; add.u32 %r16, %r16, 1; st.volatile.shared.u32 [sm], %r16; M:"),
    Kernel("volatile counter, an atomic before it",    "@%p1 st.shared.u32 [sm], 0; bar.sync 0; @!%p2 bra N; red.shared.add.u32 [sm], 1; N: bar.sync 0; @%p2 bra M; ld.volatile.shared.u32 %r16, [sm]; add.u32 %r16, %r16, 1; "
                                                       "st.volatile.shared.u32 [sm], %r16; M:"),
    Kernel("a volatile turn that is polled",           "@%p1 st.shared.u32 [sm], 0; bar.sync 0; elect.sync %r13|%p10, -1; @!%p10 bra N; L: ld.volatile.shared.u32 %r15, [sm]; setp.ne.u32 %p11, %r15, %r2; @%p11 bra L; "
                                                       "add.u32 %r15, %r15, 1; st.volatile.shared.u32 [sm], %r15; N:"),
    Kernel("two add, one arrives",                     f"@%p1 st.shared.u32 [sm], 0; bar.sync 0; setp.eq.u32 %p5, %r2, 2; @%p5 bra T; @%p4 red.shared.add.u32 [sm], 1; @%p3 bar.arrive 1, 64; bra OUT; "
                                                       f"T: bar.sync 1, 64; ld.shared.u32 %r9, [sm]; {RESULT} OUT:", "X008", 96),
    Kernel("two add, both arrive",                     f"@%p1 st.shared.u32 [sm], 0; bar.sync 0; setp.eq.u32 %p5, %r2, 2; @%p5 bra T; @%p4 red.shared.add.u32 [sm], 1; bar.warp.sync -1; bar.arrive 1, 96; bra OUT; "
                                                       f"T: bar.sync 1, 96; ld.shared.u32 %r9, [sm]; {RESULT} OUT:", block=96),
    Kernel("flag to the other CTA",                    flag_to_the_other("release.cluster", "acquire.cluster"), cluster=2),
    Kernel("flag to the other CTA, .gpu and .sys",     flag_to_the_other("release.gpu", "acquire.sys"), cluster=2),
    Kernel("flag to the other CTA, released to .cta",  flag_to_the_other("release.cta", "acquire.cluster"), "X008", cluster=2),
    Kernel("flag to the other CTA, acquired of .cta",  flag_to_the_other("release.cluster", "acquire.cta"), "X008", cluster=2),
    Kernel("flag to the other CTA, fences",            flag_to_the_other("relaxed.cluster", "relaxed.cluster", before="fence.acq_rel.cluster;", after="fence.acq_rel.gpu;"), cluster=2),
    Kernel("flag to the other CTA, volatile, membar",  flag_to_the_other("volatile", "volatile", before="membar.gl;", after="membar.sys;"), cluster=2),
    Kernel("flag to the other CTA, a narrow fence",    flag_to_the_other("relaxed.cluster", "relaxed.cluster", before="fence.acq_rel.cta;", after="fence.acq_rel.gpu;"), "X008", cluster=2),
    Kernel("flag to the other CTA, a narrow membar",   flag_to_the_other("relaxed.cluster", "relaxed.cluster", before="fence.acq_rel.cluster;", after="membar.cta;"), "X008", cluster=2),
    Kernel("flag to the other CTA, a narrow store",    flag_to_the_other("relaxed.cta", "relaxed.cluster", before="membar.gl;", after="membar.gl;"), "X008", cluster=2),
    Kernel("byte to the other CTA",                    flag_to_the_other("release.cluster", "acquire.cluster", kind="u8"), cluster=2),
    Kernel("byte to the other CTA, acquired of .cta",  flag_to_the_other("release.cluster", "acquire.cta", kind="u8"), "X008", cluster=2),
    Kernel("byte to the other CTA, fences",            flag_to_the_other("relaxed.cluster", "relaxed.cluster", before="membar.gl;", after="membar.gl;", kind="u8"), cluster=2),
    Kernel("half to the other CTA, a narrow store",    flag_to_the_other("relaxed.cta", "relaxed.cluster", before="membar.gl;", after="membar.gl;", kind="u16"), "X008", cluster=2),
    Kernel("half to the other CTA, a narrow load",     flag_to_the_other("relaxed.cluster", "relaxed.cta", before="membar.gl;", after="membar.gl;", kind="u16"), "X008", cluster=2),
    Kernel("bytes of two CTAs side by side, .cta",     in_memory_of_one(store_far("cta"), store_far("cta", at=1)), cluster=2),
    Kernel("a byte of two CTAs, .cta",                 in_memory_of_one(store_far("cta"), store_far("cta")), "X008", cluster=2),
    Kernel("a byte of two CTAs, .cluster",             in_memory_of_one(store_far("cluster"), store_far("cluster")), cluster=2),
    Kernel("a byte of two CTAs, .cta, in turn",        in_memory_of_one(store_far("cta"), store_far("cta"), MEET), cluster=2),
    Kernel("a half of .cta, and its word",             in_memory_of_one(store_far("cta", "u16", 2), store_far("cluster", "u32")), "X008", cluster=2),
    Kernel("a word of .cta, and its half",             in_memory_of_one(store_far("cta", "u32"), "ld.relaxed.cluster.shared::cluster.u16 %r18, [%r12+2];"), "X008", cluster=2),
    Kernel("a byte that both read, .cta",              in_memory_of_one(*["ld.relaxed.cta.shared::cluster.u8 %r18, [%r12];"] * 2), cluster=2),
    Kernel("flag to the other CTA, meeting no fence",  flag_to_the_other("release.cluster", "relaxed.cluster", after="barrier.sync 1, 32;"), "X008", cluster=2),
    Kernel("arrival from the other CTA",               arrived_from_afar(".release.cluster", ".acquire.cluster"), cluster=2),
    Kernel("arrival from the other CTA, no scopes",    arrived_from_afar(), cluster=2, remarks="X008"),
    Kernel("arrival from the other CTA, no scopes, for one", arrived_from_afar(after="@!%p1 bra B;"), cluster=2, remarks="X008"),
    Kernel("arrival from the other CTA, for .cta",     arrived_from_afar(".release.cta", ".acquire.cluster"), "X008", cluster=2),
    Kernel("arrival from the other CTA, seen in .cta", arrived_from_afar(".release.cluster", ".acquire.cta"), cluster=2, remarks="X008"),
    Kernel("arrival from the other CTA, all of .cta",  arrived_from_afar(".release.cta", ".acquire.cta"), "X008", cluster=2),
    Kernel("copies of the other CTA",                  fetched(".release.cluster", ".acquire.cluster", fill=COPIED), cluster=2),
    Kernel("copies of the other CTA, seen in .cta",    fetched(".release.cluster", ".acquire.cta", fill=COPIED), cluster=2, remarks="X004"),
    Kernel("copies of the other CTA, for .cta",        fetched(".release.cta", ".acquire.cluster", fill=COPIED), "X004", cluster=2),
    Kernel("copies of the other CTA, no scopes",       fetched("", "", fill=COPIED), cluster=2, remarks="X008"),
    Kernel("copies of the other CTA, no scope of the wait", fetched(".release.cluster", "", fill=COPIED), cluster=2),
    Kernel("stores of the other CTA, no scopes",       fetched("", "", fill="st.shared.u32 [%r6], %r1;"), cluster=2, remarks="X008"),
    Kernel("stores of the other CTA, no scopes, and a fence", fetched("", "", fill="st.shared.u32 [%r6], %r1; fence.acq_rel.cluster;"), cluster=2, remarks="X008"),
    Kernel("stores before the CTAs meet, no scopes",   fetched("", "", fill="").replace(MEET, f"st.shared.u32 [%r6], %r1; {MEET}", 1), cluster=2),
    Kernel("stores of the own CTA, no scopes",         fetched("", "", fill="st.shared.u32 [%r6], %r1;", at="st.shared.u32 [%r6], %r1; ld.shared.u32 %r9, [%r6];"), cluster=2),
    Kernel("tiles to the other CTA, and all meet",     to_the_other(MEET), cluster=2),
    Kernel("tiles to the other CTA, and an answer",    to_the_other(f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13+8]; {waits('[bar+8]', label='Z')}", init(64, "[bar+8]")), cluster=2),
    Kernel("tiles to the other CTA, and the CTA ends", to_the_other(""), cluster=2, remarks="X005"),
    Kernel("words of the other CTA, freed, no scopes", fetched("", "", fill=READ_OWN, at=OVER_THERE), cluster=2),
    Kernel("copies of the other CTA, nobody waited",   fetched(".release.cluster", ".acquire.cta", fill=COPIED.replace("cp.async.wait_all;", "")), "X004", cluster=2),
    Kernel("stores of the other CTA, for .cta",        fetched(".release.cta", ".acquire.cluster", fill="st.shared.u32 [%r6], %r1;"), "X008", cluster=2),
    Kernel("words of the other CTA, freed",            fetched(".release.cluster", ".acquire.cluster", fill=READ_OWN, at=OVER_THERE), cluster=2),
    Kernel("words of the other CTA, freed for .cta",   fetched(".release.cta", ".acquire.cta", fill=READ_OWN, at=OVER_THERE), cluster=2, remarks="X008"),
    Kernel("words of the other CTA, freed too early",  fetched(".release.cta", ".acquire.cta", fill="", at=OVER_THERE).replace("bra B;\n    A:", f"{READ_OWN} bra B; A:"), "X008", cluster=2),
    Kernel("global memory of the other CTA",           through_global(".acquire.cluster"), cluster=2),
    Kernel("global memory of the other CTA, of .cta",  through_global(".acquire.cta"), "X008", cluster=2),
    Kernel("arrival from the other CTA, fences",       arrived_from_afar(".relaxed.cluster", ".relaxed.cluster", before="fence.acq_rel.cluster;", after="fence.acq_rel.cluster;"), cluster=2),
    Kernel("arrival from the other CTA, one of .cta",  arrived_from_afar(".relaxed.cluster", ".relaxed.cluster", before="fence.acq_rel.cta;", after="fence.acq_rel.cluster;"), "X008", cluster=2),
    Kernel("atomics of two CTAs",                      added_by_both("red"), cluster=2),
    Kernel("atomics of two CTAs, .cta",                added_by_both("red.relaxed.cta"), "X008", cluster=2),
    Kernel("atomics of one CTA, .cta",                 histogram(add="red.relaxed.cta.shared.add.u32 [%r11], 1;")),
    Kernel("lanes, bar.warp.sync",                     lanes("bar.warp.sync -1;")),
    Kernel("lanes, nothing",                           lanes(), "X008"),
    Kernel("lanes, a fence is no meeting",             lanes("membar.cta;"), "X008"),
    Kernel("lanes, bar.sync",                          lanes("bar.sync 0;")),
    Kernel("lanes, shfl.sync",                         lanes("shfl.sync.idx.b32 %r20, %r1, 0, 31, -1;")),
    Kernel("lanes, halves meet",                       lanes(HALF)),
    Kernel("lanes, halves meet, the other half read",  lanes(HALF, 16), "X008"),
    Kernel("lanes, sides of a branch meet",            lanes(SIDES.format("-1", "-1"), 16)),
    Kernel("lanes, each side alone",                   lanes(SIDES.format("0xFFFF0000", "0xFFFF"), 16), "X008"),
    Kernel("lanes, each side within itself",           lanes(SIDES.format("0xFFFF0000", "0xFFFF"))),
    Kernel("lanes, an atomic behind a store",          NEXT_LANE.format(first="st.shared.u32 [%r6], 0; bar.warp.sync -1;", second="atom.shared.add.u32 %r9, [%r10], 1;")),
    Kernel("lanes, an atomic behind a store, unmet",   NEXT_LANE.format(first="st.shared.u32 [%r6], 0;", second="atom.shared.add.u32 %r9, [%r10], 1;"), "X008"),
    Kernel("lanes, volatile, bar.warp.sync",           NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1; bar.warp.sync -1;", second="ld.volatile.shared.u32 %r9, [%r10];")),
    Kernel("lanes, volatile alone (order.warp_synchronous)", NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1;", second="ld.volatile.shared.u32 %r9, [%r10];"), "X008"),
    Kernel("lanes, atomics of all and a load of one",  "@%p1 st.shared.u32 [sm+256], 0; bar.sync 0; setp.lt.u32 %p8, %r3, 22; @%p8 atom.shared.add.u32 %r10, [sm+256], 1; setp.ne.u32 %p9, %r1, 5; @%p9 bra OUT; "
                                                       f"ld.shared.u32 %r9, [sm+256]; {RESULT} OUT:", "X008", 32),
    Kernel("lanes, a volatile flag that one polls",    "@%p1 st.shared.u32 [sm+256], 0; bar.warp.sync -1; @%p1 st.volatile.shared.u32 [sm+256], 1; setp.eq.u32 %p8, %r3, 1; @!%p8 bra OUT; "
                                                       f"L: ld.volatile.shared.u32 %r9, [sm+256]; setp.eq.u32 %p9, %r9, 0; @%p9 bra L; {RESULT} OUT:", block=32),
    Kernel("shuffle, all lanes there (order.shuffles)", SHUFFLED.format(some="31", lane="20", mask="-1")),
    Kernel("shuffle, of a lane that took another way",  SHUFFLED.format(some="16", lane="20", mask="-1"), "X011"),
    Kernel("shuffle, of a lane that the mask leaves out", SHUFFLED.format(some="16", lane="20", mask="0x1FFFF"), "X011"),
    Kernel("shuffle, what is undefined is not used",   SHUFFLED.format(some="16", lane="20", mask="-1").replace("st.global", "@%p1 st.global").replace("20, 31", "0, 31")),
    Kernel("lanes, pairs count in one word",            PAIRS_COUNT.format(""), "X008"),
    Kernel("lanes, pairs count in one word, met",       PAIRS_COUNT.format("bar.warp.sync -1;"), remarks="X008"),
    Kernel("lanes, overwritten behind bar.warp.sync",  f"{lanes('bar.warp.sync -1;')} bar.warp.sync -1; st.shared.u32 [%r6], %r9;"),
    Kernel("lanes, overwritten too early",             f"{lanes('bar.warp.sync -1;')} st.shared.u32 [%r6], %r9;", "X008"),
    Kernel("lanes, by an mbarrier",                    f"{init(32)} bar.sync 0; @!%p2 bra OUT; {lanes('mbarrier.arrive.shared::cta.b64 _, [bar]; ' + waits())} OUT:"),
    Kernel("lanes, each its own word",                 f"@%p4 st.shared.u32 [%r6], %r1; @%p4 ld.shared.u32 %r9, [%r6]; {RESULT}"),
    Kernel("lanes, one stores for all",                alone("bar.warp.sync -1;")),
    Kernel("lanes, one stores for all, unmet",         alone(""), "X008"),
    Kernel("lanes, one is elected and stores",         alone("elect.sync %r20|%p8, -1;", "%p8")),
    Kernel("lanes, one loads over what all read",      f"{lanes('bar.warp.sync -1;')} {init()} fence.proxy.async.shared::cta; bar.warp.sync -1; {OVER} {waits()}", block=32),
    Kernel("lanes, one arrives for all, met",          given_by_one("bar.warp.sync -1;")),
    Kernel("lanes, one arrives for all",               given_by_one(""), "X008"),
    Kernel("bytes completed behind a fence",            completed_by_one("fence.acq_rel.cta;")),
    Kernel("bytes completed behind a restricted fence", completed_by_one("fence.release.sync_restrict::shared::cta.cluster;")),
    Kernel("bytes completed, no fence",                 completed_by_one(""), "X008"),
    Kernel("lanes, all store one word, one completes bytes", completed_by_one("fence.acq_rel.cta;", store="st.shared.u32 [sm], 7;"), remarks="X008"),
    Kernel("lanes, all store one word, one arrives for all", given_by_one("st.shared.u32 [sm], 7;", who=0).replace("ld.shared.u32 %r9, [%r10]", "ld.shared.u32 %r9, [sm]"), remarks="X008"),
    Kernel("lanes, all store one word, one arrives for all, met", given_by_one("st.shared.u32 [sm], 7; bar.warp.sync -1;", who=0).replace("ld.shared.u32 %r9, [%r10]", "ld.shared.u32 %r9, [sm]")),
    Kernel("lanes, one arrives for all, a bulk store",  stored_by_one(""), "X008"),
    Kernel("lanes, one arrives for all, bulk store, met", stored_by_one("bar.warp.sync -1;")),
    Kernel("lanes, one arrives for all, a proxy fence", given_by_one("fence.proxy.async.shared::cta;"), "X008"),
    Kernel("lanes, one arrives for all, behind a vote", given_by_one("vote.sync.ballot.b32 %r20, %p4, -1;"), remarks="X008"),
    Kernel("lanes, one is elected and arrives for all", given_by_one("elect.sync %r20|%p4, -1;"), remarks="X008"),
    Kernel("lanes, one is elected, in a pair",          given_by_one("elect.sync %r20|%p4, -1;"), remarks="X008", cluster=2),
    Kernel("lanes, one is elected, met before",         given_by_one("bar.warp.sync -1; elect.sync %r20|%p4, -1;")),
    Kernel("lanes, one is elected, met behind",         given_by_one("elect.sync %r20|%p4, -1; bar.warp.sync -1;")),
    Kernel("lanes, one is elected, met before in a pair", given_by_one("bar.warp.sync -1; elect.sync %r20|%p4, -1;"), cluster=2),
    Kernel("lanes, one is elected for its own words",   given_by_one("elect.sync %r20|%p4, -1;", who=1)),
    Kernel("lanes, one is elected, each arrives",       given_by_one("elect.sync %r20|%p4, -1;", "add.u32 %r10, %r8, 1024; st.release.cta.shared.u32 [%r10], 1;", OWN_FLAGS)),
    Kernel("lanes, one is elected, and sets a flag",    given_by_one("elect.sync %r20|%p4, -1;", RELEASE, ACQUIRES), remarks="X008"),
    Kernel("lanes, one arrives for all, behind shfl",   given_by_one("shfl.sync.idx.b32 %r20, %r3, 0, 31, -1;"), remarks="X008"),
    Kernel("lanes, one arrives for all, behind redux",  given_by_one("redux.sync.add.u32 %r20, %r3, -1;"), remarks="X008"),
    Kernel("lanes, one arrives for all, behind match",  given_by_one("match.any.sync.b32 %r20, %r3, -1;"), remarks="X008"),
    Kernel("lanes, one arrives for all, behind ldmatrix", given_by_one("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r5];"), remarks="X008"),
    Kernel("lanes, one arrives for all, behind movmatrix", given_by_one("movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r3;"), remarks="X008"),
    Kernel("lanes, one arrives for all, behind mma",   given_by_one(PRODUCT), remarks="X008"),
    Kernel("lanes, one arrives for all, met, behind mma", given_by_one(f"bar.warp.sync -1; {PRODUCT}")),
    Kernel("lanes, half of them elect, one arrives for all", given_by_one("setp.lt.u32 %p8, %r3, 16; @%p8 elect.sync %r20|%p9, 0xffff;"), "X008"),
    Kernel("lanes, one is elected, for a bulk store",   stored_by_one("elect.sync %r20|%p4, -1;"), remarks="X008"),
    Kernel("lanes, 100 stores, one arrives for all",    given_by_one(MANY_STORES), "X008"),
    Kernel("lanes, 100 stores, one arrives for all, met", given_by_one(MANY_STORES + "bar.warp.sync -1;")),
    Kernel("lanes, each overwrites its word 100 times", given_by_one(OWN_STORES), "X008"),
    Kernel("lanes, one arrives for half, met",         given_by_one("setp.lt.u32 %p8, %r3, 16; @%p8 bar.warp.sync 0xffff;"), "X008"),
    Kernel("lanes, one arrives for its own words",     given_by_one("", who=1)),
    Kernel("lanes, one arrives, later for all",        given_by_one(AGAIN + "bar.warp.sync -1;", count=2)),
    Kernel("lanes, one sets a flag for all, met",      given_by_one("bar.warp.sync -1;", RELEASE, ACQUIRES)),
    Kernel("lanes, one sets a flag for all",           given_by_one("", RELEASE, ACQUIRES), "X008"),
    Kernel("lanes, all fence, one sets a flag",        given_by_one(ACQ, VOLATILE_UP, POLLS), "X008"),
    Kernel("lanes, all fence, one sets a flag, met",   given_by_one(ACQ + "bar.warp.sync -1;", VOLATILE_UP, POLLS)),
    Kernel("lanes, one fences for all",                given_by_one("", "@%p4 " + ACQ + VOLATILE_UP.replace("st.", "@%p4 st.", 1), POLLS), "X008"),
    Kernel("lanes, each its own flag",                 given_by_one("", "add.u32 %r10, %r8, 1024; st.release.cta.shared.u32 [%r10], 1;", OWN_FLAGS)),
    Kernel("lanes, one frees for all, met",            freed_by_one("bar.warp.sync -1;")),
    Kernel("lanes, one frees for all",                 freed_by_one(""), remarks="X008"),
    Kernel("lanes, one frees for all, met by shfl",    freed_by_one("shfl.sync.idx.b32 %r20, %r9, 0, 31, -1;")),
    Kernel("lanes, one frees for all, a proxy fence",  freed_by_one("fence.proxy.async.shared::cta;"), remarks="X008"),
    Kernel("lanes, one frees for half, met",           freed_by_one("setp.lt.u32 %p8, %r3, 16; @%p8 bar.warp.sync 0xffff;"), remarks="X008"),
    Kernel("lanes, one frees what the others read",    freed_by_one("", first="@%p4 bra N;", then="N:"), "X008"),
    Kernel("lanes, one frees in the other arm",        freed_by_one("", first="@%p4 bra N;", then="bra OUT; N:"), "X008"),
    Kernel("lanes, one frees in the other arm, met",   freed_by_one("", first="@%p4 bra N;", then="bar.warp.sync -1; bra OUT; N: bar.warp.sync -1;")),
    Kernel("lanes, one tells in the other arm",        given_by_one("", "@%p3 bra T;").replace(STORES, IN_AN_ARM.format("", "")), "X008"),
    Kernel("lanes, one tells in the other arm, met",   given_by_one("", "@%p3 bra T;").replace(STORES, IN_AN_ARM.format(*["bar.warp.sync -1;"] * 2))),
    Kernel("lanes, one frees in the first arm",        freed_by_one("", first=f"@!%p4 bra N; {AGAIN} bra OUT; N:", gives="@%p4 mov.u32 %r20, 0;", takes="st.shared.u32 [%r6], 7;"), "X008"),
    Kernel("lanes, one frees, guarded loads",          freed_by_one("", guard="@!%p4"), "X008"),
    Kernel("lanes, one sets a flag, all have read",    freed_by_one("", RELEASE, waits_by=ACQUIRES), "X008"),
    Kernel("lanes, one frees what it has read",        freed_by_one("", words="%r5", takes="@%p4 st.shared.u32 [sm+4], 1;")),
    Kernel("lanes, each frees",                        freed_by_one("", "mbarrier.arrive.shared::cta.b64 _, [bar];", count=32)),
    Kernel("lanes, one frees, later for all",          freed_by_one(AGAIN + "bar.warp.sync -1;", count=2)),
    Kernel("lanes, one frees for a bulk load, met",    freed_by_one("bar.warp.sync -1;", takes=REFILL)),
    Kernel("lanes, one frees for a bulk load",         freed_by_one("", takes=REFILL), remarks="X008"),
    Kernel("lanes, one frees for atomics, met",        freed_by_one("bar.warp.sync -1;", takes="red.shared.add.u32 [%r6], 1;")),
    Kernel("lanes, one frees for atomics",             freed_by_one("", takes="red.shared.add.u32 [%r6], 1;"), remarks="X008"),
    Kernel("lanes, one waits, then they meet",         loaded(f"@!%p4 bra N; {waits()} N: bar.warp.sync -1;")),
    Kernel("lanes, one waits, the others do not",      loaded(f"@!%p4 bra N; {waits()} N:"), "X004"),
    Kernel("lanes, one waits, they meet by shfl",      loaded(f"@!%p4 bra N; {waits()} N: shfl.sync.idx.b32 %r20, %r1, 0, 31, -1;")),
    Kernel("lanes, one waits, and reads alone",        f"{init()} bar.sync 0; {LOAD} @!%p4 bra N; {waits()} {READ} N:"),
    Kernel("lanes, one waits, and hands on",           f"{init()} {init(1, '[bar+8]')} bar.sync 0; {LOAD} @!%p4 bra N; {waits()} @%p1 mbarrier.arrive.shared::cta.b64 _, [bar+8]; N: {waits('[bar+8]', label='V')} {READ}"),
    Kernel("lanes, each waits for itself",             loaded(f"@!%p4 bra N; {waits()} bra M; N: {waits(label='V')} M:")),
    Kernel("lanes, one waits, others overwrite",       f"{init()} bar.sync 0; {LOAD} @!%p4 bra N; {waits()} N: st.shared.u32 [%r6], %r1;", "X005"),
    Kernel("lanes, one waits for words of threads",    handed_to_one()),
    Kernel("lanes, one waits for words, others read",  handed_to_one(""), "X008"),
    Kernel("lanes, one loads too early",               f"{init()} {lanes('bar.warp.sync -1;')} {OVER} {waits()}", "X008", 32),
    Kernel("multicast, met behind mbarrier.init",      f"{init()} fence.mbarrier_init.release.cluster; {MULTICAST.format(MEET)} {waits()} {READ} {MEET}", cluster=2),
    Kernel("multicast before any meeting",             f"{init()} fence.mbarrier_init.release.cluster; {MULTICAST.format('bar.sync 0;')} {waits()} {READ} {MEET}", "X008", cluster=2),
    Kernel("pair, a store before any meeting",         f"{init()} bar.sync 0; xor.b32 %r10, %r4, 1; mapa.shared::cluster.u32 %r11, %r6, %r10; st.shared::cluster.u32 [%r11+512], %r1; {MEET}", "X008", cluster=2),
    Kernel("multicast, one CTA waits for itself",      f"{init()} fence.mbarrier_init.release.cluster; {MULTICAST.format(MEET)} setp.eq.u32 %p11, %r4, 1; @%p11 bra V; {waits()} {READ} V: {MEET}",
                                                       "X005", cluster=2),
    Kernel("two groups, a barrier each",               GROUPED.format(number=OF_EACH, before=GO, behind=""), block=128),
    Kernel("two groups, one barrier",                  GROUPED.format(number=OF_ALL, before=GO, behind=""), "X010", block=128),
    Kernel("two groups, one barrier, one by one",      GROUPED.format(number=OF_ALL, before="", behind=GO), block=128),
    Kernel("two stages, a barrier each",               STAGES.format(second=2)),
    Kernel("two stages, one barrier",                  STAGES.format(second=1), "X010"),
    Kernel("messages, fences on both sides",           passed(before=ACQ, after=ACQ)),
    Kernel("messages, no fences",                      passed(), remarks="X008"),
    Kernel("messages, no fences, in a pair",           passed(), remarks="X008", cluster=2),
    Kernel("messages, relaxed, no fences",             passed("relaxed.cta", "relaxed.cta"), remarks="X008"),
    Kernel("messages, the writer has no fence",        passed(after=ACQ), remarks="X008"),
    Kernel("messages, the reader has no fence",        passed(before=ACQ)),
    Kernel("messages, a barrier between",              passed(before="bar.sync 1, 64;").replace("POLL: ld", "bar.sync 1, 64; POLL: ld")),
    Kernel("messages, the flag releases and is acquired", passed("relaxed.cta", sets="st.release.cta.shared.u32 [sm+1024], 1;").replace("ld.volatile", "ld.acquire.cta")),
    Kernel("messages, a cas elsewhere",                "@%p1 st.shared.u32 [sm+2048], 0; " + passed() + CAS.replace("%r15", "%r40").replace("[sm]", "[sm+2048]"), remarks="X008"),
    Kernel("messages, a look before an atomic",        passed(reads="ld.volatile.shared.u32 %r9, [%r8]; atom.shared.cas.b32 %r9, [%r8], %r9, 1;")),
    Kernel("messages, a flag alone",                   passed(reads="mov.u32 %r9, 1;")),
    Kernel("messages, data that are polled too",       passed(reads="Q: ld.volatile.shared.u32 %r9, [%r8]; setp.ne.u32 %p12, %r9, %r3; @%p12 bra Q;")),
    Kernel("messages, atomics alone",                  passed(reads="atom.shared.add.u32 %r9, [%r8], 0;").replace("st.volatile.shared.u32 [%r8], %r3", "red.shared.max.u32 [%r8], %r3").replace("bar.sync 0;", "@%p2 st.shared.u32 [%r8], %r4; bar.sync 0;")),
    Kernel("messages, numbers that decide nothing",    passed().replace("setp.ne.u32 %p10, %r15, 1; @%p10 bra POLL;", "")),
    Kernel("messages in global memory, fences",        passed(before=GPU_FENCE, after=GPU_FENCE, space="global"), grid=2),
    Kernel("messages in global memory, no fences",     passed(space="global"), grid=2, remarks="X008"),
    Kernel("messages in global memory, a narrow fence", passed(before=ACQ, after=GPU_FENCE, space="global"), grid=2, remarks="X008"),
    Kernel("messages in global memory, a flag alone",  passed(space="global", reads="mov.u32 %r9, 1;"), grid=2),
    Kernel("the last CTA reads parts, fences",         counted_parts(GPU_FENCE, GPU_FENCE), grid=3),
    Kernel("the last CTA reads parts, no fences",      counted_parts(), grid=3, remarks="X008"),
    Kernel("the last CTA reads parts, its fence alone", counted_parts(after=GPU_FENCE), grid=3, remarks="X008"),
    Kernel("the last CTA reads parts, it has no fence", counted_parts(GPU_FENCE), grid=3),
    *(Kernel(f"lanes, each of {count} waits for its own mbarrier, and reads {what}", waited_by_lanes(count, word, meets), found)
      for count in (3, 9, 32) for what, word, meets, found in (("its word", "%r3", "", ""), ("another's", "%r21", "", "X004"), ("another's, met", "%r21", "bar.warp.sync -1;", ""))),
    Kernel("lanes, two relaxed waits, and fences",     waited_by_two("%r3", ACQ)),
    Kernel("lanes, two relaxed waits, the other's word", waited_by_two("%r21", ACQ), "X004"),
    Kernel("lanes, two relaxed waits, no fence",       waited_by_two("%r3", ""), "X004"),
    Kernel("lanes, one waits, all hear of it by a flag", heard_by_all()),
    Kernel("lanes, one waits, one hears of it by a flag", heard_by_all("setp.eq.u32 %p15, %r3, 9; @!%p15 bra H;")),
    *(Kernel(f"lanes, one waits, {who} hears by {polls}{then}, a third reads {what}", heard_by_one(at, polls, meets, later, number), found)
      for who, number in (("one", 1), ("the same", 0)) for polls in ("ld.acquire", "ld.relaxed")
      for then, meets, later in (("", "", ""), (", a fourth waits", "", THIRD), (", they meet", "bar.warp.sync -1;", ""))
      for what, at, found in (("what it heard of", "1024", "" if meets else "X008"), ("the copy", "0", "" if meets else "X004"))
      if number == 1 or polls == "ld.acquire"),
    *(Kernel(f"lanes, one waits, a third hears by {polls}, and reads", heard_by_one("1024", polls, "", THIRD, 2)) for polls in ("ld.acquire", "ld.relaxed")),
    *(Kernel(f"lanes, one waits, all wait for a group, a fourth waits, {name}", copied_apart(reads), found)
      for name, reads, found in (("each reads its word", "%r8", ""), ("a word that is on its way", "%r6", "X004"))),
    Kernel("lanes, one waits, none hears by a flag", heard_by_one("1024", hears=40), "X008"),
    Kernel("lanes, one waits elsewhere in between",    APART.format(waits()), block=32),
    Kernel("lanes, one waits elsewhere for the others", APART.format(f"@!%p1 bra M; {waits()} M:"), "X004", block=32),
    Kernel("a CTA exits before the pair meets",        f"setp.eq.u32 %p10, %r4, 1; @!%p10 bra B; barrier.cluster.arrive.relaxed; barrier.cluster.wait; mapa.shared::cluster.u32 %r11, %r6, 0; st.shared::cluster.u32 [%r11], %r1; ret; "
                                                       f"B: {SLOW} {MEET} {READ}", cluster=2),
    Kernel("another thread copies A, met",             COPIED_A.format("", IN_TURN, "", "st.shared.u32 [%r6], 1;"), arch="sm_100a", block=128),
    Kernel("another thread copies A",                  COPIED_A.format("", "", "", ""), "X012", 128, arch="sm_100a"),
    Kernel("another thread copies A, and then more",   COPIED_A.format("", IN_TURN, LATE_COPY, ""), "X012", 128, arch="sm_100a"),
    Kernel("another thread copies A, none multiplies", COPIED_A.replace("mma.cta_group::1.kind::f16 [%r11], [%r15], %rd5, 0x8040490, %p12;", "cp.cta_group::1.128x256b [%r11], %rd5;").format("", IN_TURN, "", ""), "X012", 128, arch="sm_100a"),
    Kernel("lanes, volatile, each its own word first", NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1; ld.volatile.shared.u32 %r20, [%r6];", second="ld.volatile.shared.u32 %r9, [%r10];"), "X008"),
    Kernel("lanes, volatile, its own word first, met", NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1; ld.volatile.shared.u32 %r20, [%r6]; bar.warp.sync -1;", second="ld.volatile.shared.u32 %r9, [%r10];")),
    Kernel("lanes, volatile, on one line",             NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1;ld.volatile.shared.u32 %r9, [%r10];", second=""), "X008"),
    Kernel("lanes, volatile, on one line, met",        NEXT_LANE.format(first="st.volatile.shared.u32 [%r6], %r1;bar.warp.sync -1;ld.volatile.shared.u32 %r9, [%r10];", second="")),
    Kernel("lanes, an update in a changed register",   UPDATES.format(bins=7, made="add.u32 %r12, %r12, %r1;"), "X008", 32),
    Kernel("lanes, updates of their own words",        UPDATES.format(bins=31, made="add.u32 %r12, %r12, %r1;"), block=32),
    Kernel("lanes, a register loaded and then set",    UPDATES.format(bins=7, made="mov.u32 %r12, %r1;"), block=32),
    Kernel("lanes, an update of the next bin",         UPDATES.format(bins=7, made="add.u32 %r12, %r12, %r1; add.u64 %rd5, %rd5, 4;"), block=32),
    Kernel("two products, the last one is not loaded", PRODUCTS.format(1), remarks="X017", block=128, arch="sm_100a"),
    Kernel("two products, both are loaded",            PRODUCTS.format(2), block=128, arch="sm_100a"),
    Kernel("two products, none is loaded",             PRODUCTS.format(0), block=128, arch="sm_100a"),
    Kernel("another thread copies A, two commits",     COPIED_A.format("", IN_TURN, "", "st.shared.u32 [%r6], 1;").replace(COMMIT, COMMIT.replace("[bar]", "[bar+8]") + COMMIT), arch="sm_100a", block=128),
    Kernel("another thread copies A, more before the commit", COPIED_A.format("", IN_TURN, f"{LATE_COPY} {IN_TURN}", ""), "X012", 128, arch="sm_100a"),
    Kernel("lanes, one counts, another one takes its flag", TAKEN_FLAG),
    Kernel("a load over what two warps have read, the first one without a fence", READ_BY_TWO.format("", PROXY), remarks="X003"),
    Kernel("a load over what two warps have read, each with a fence", READ_BY_TWO.format(PROXY, PROXY)),
    Kernel("two CTAs load the same bytes of one",      f"{init(1)} {MEET} setp.eq.u32 %p15, %r4, 0; setp.eq.and.u32 %p15, %r1, 0, %p15; @%p15 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512; {MEET} mov.u32 %r17, bar; mul.wide.u32 %rd5, %r4, 256; add.u64 %rd2, %rd2, %rd5; mapa.shared::cluster.u32 %r16, %r5, 0; mapa.shared::cluster.u32 %r17, %r17, 0; @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%rd2], 256, [%r17]; {MEET} @!%p15 bra OUT; {waits()} OUT: {MEET}", "X005", cluster=2),
    Kernel("a thread reads words of its warp and of another one", "st.shared.u32 [%r6], %r1; @%p1 ld.shared.u32 %r10, [sm+8]; @%p1 ld.shared.u32 %r11, [sm+200]; @%p1 st.global.v2.u32 [%rd1], {%r10, %r11};", "X008"),
    Kernel("turns, thread 0 of each CTA waits and sets", TURNS.format("bar.sync 0;", "bar.sync 0;"), grid=2),
    Kernel("turns, no barrier after the wait",         TURNS.format("", "bar.sync 0;"), "X008", grid=2),
    Kernel("turns, no barrier before the flag is set", TURNS.format("bar.sync 0;", ""), "X008", grid=2),
    # a barrier of all threads is the fence after a relaxed wait
    Kernel("bulk load, relaxed wait, all threads meet",  loaded(f"{RELAXED} bar.sync 0;")),
    Kernel("bulk load, one warp waits relaxed, all meet", loaded(f"@!%p2 bra B; {RELAXED} B: bar.sync 0;")),
    Kernel("bulk load, all meet, then a relaxed wait",   loaded(f"bar.sync 0; {RELAXED}"), "X004"),
)
# fmt: on


def run(kernel: Kernel, *, ahead: int = 0, **options: object) -> smemsim.Run:
    gpu = smemsim.Gpu(kernel.arch)
    if ahead:
        gpu.array(np.zeros(ahead, np.uint32))
    arrays = [gpu.array(np.zeros(1024, np.uint32)), gpu.array(np.arange(1024, dtype=np.uint32))]
    text = HEAD.format(arch=kernel.arch) + kernel.body.replace("; ", ";\n") + "\nret;\n}\n"
    grid = kernel.grid or kernel.cluster
    done = gpu.launch(text, "k", grid=grid, block=kernel.block, cluster=kernel.cluster, args=arrays, progress=False, **options)
    for f in (*done.findings, *done.remarks):
        assert no_such(str(f), lines=text.count("\n"), block=kernel.block, grid=grid) == []
    return done


@pytest.mark.parametrize("first", [4, 6], ids=["the third cluster", "none"])
def test_an_mbarrier_of_another_cta_is_named_by_rank_and_by_cta(first):
    """The CTAs of this cluster give the copy their own mbarrier; the others map it to the CTA that gets the bytes."""
    counted = f"mov.u32 %r30, %ctaid.x; setp.lt.u32 %p11, %r30, {first}; @%p11 mapa.shared::cluster.u32 %r12, %r12, %r10;"
    done = run(Kernel("", pushed(counted=counted, wait=waits()), cluster=2, grid=6))
    assert done.findings == []
    assert [(f.code, f.what) for f in done.remarks] == [
        ("X010", "the copy writes to rank 1 of the cluster (CTA 5), and its mbarrier is in rank 0 of the cluster (CTA 4)")
    ] * (first == 4)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not k.found], ids=lambda k: k.name)
def test_a_right_kernel_is_silent(kernel, snapshot):
    done = run(kernel)
    assert [str(f) for f in done.findings] == []
    assert {f.code for f in done.remarks} == set(filter(None, [kernel.remarks]))
    if done.remarks:
        assert facts(done) == snapshot


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.found], ids=lambda k: k.name)
def test_a_fault_is_found(kernel, snapshot):
    """The lines, warps and bytes of both halves, the cause and the repair."""
    done = run(kernel)
    assert done.findings[0].code == kernel.found, [str(f) for f in done.findings]
    assert facts(done) == snapshot


IDLE, FURTHER, AHEAD = 4, 2048, 3072  # warps, bytes of shared memory, and words of global memory, in front of those of a kernel
DISPLACED = HEAD.replace(".shared .align 1024 .b8 sm", f".shared .align 1024 .b8 before[{FURTHER}];\n.shared .align 1024 .b8 sm").replace(
    "%tid.x;",
    f"""%tid.x; mov.u32 %r58, before; mov.u32 %r59, %clusterid.x; setp.lt.u32 %p19, %r59, 2; @%p19 ret;
    setp.lt.u32 %p19, %r1, {32 * IDLE}; @%p19 ret; sub.u32 %r1, %r1, {32 * IDLE};""".replace("\n", " "),
)


def moved_back(text: str, *, warps: int, ctas: int, lines: int, bytes_: int, ahead: int) -> str:
    """What is said, with so much taken off each warp, CTA, line and address."""
    text = re.sub(r"warps? \d+(?:(?:, | to | and )\d+)*", lambda m: re.sub(r"\d+", lambda n: f"{int(n[0]) - warps}", m[0]), text)
    text = re.sub(r"(ptx:|lines? )(\d+)", lambda m: f"{m[1]}{int(m[2]) - lines}", text)
    text = re.sub(r"CTA (\d+)", lambda m: f"CTA {int(m[1]) - ctas}", text)
    text = re.sub(r"\b0x[0-9a-f]{3,4}\b", lambda m: f"{int(m[0], 16) - bytes_:#x}", text)
    return re.sub(r"\b0x7f[0-9a-f]{10}\b", lambda m: f"{int(m[0], 16) - ahead:#x}", text)


def said(done: smemsim.Run, kernel: Kernel) -> str:
    """All findings on one line; of one CTA without its name, which is said where there are several."""
    words = " ".join(" ".join(map(str, (*done.findings, *done.remarks))).split())
    return words if kernel.cluster > 1 else re.sub(r" (of|in) CTA \d+\b", "", words)


def run_elsewhere(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, *, together: bool = False) -> smemsim.Run:
    """In the last wave of a launch, or `together` with idle clusters in one wave; in the last warps of its CTAs, further
    up in shared and in global memory, one line further down.
    """
    block = kernel.block + 32 * IDLE
    if not together:
        for name in ("WAVE_THREADS", "WIDE_WAVE_THREADS", "WATCHED_WAVE_THREADS"):  # each cluster is a wave
            monkeypatch.setattr(f"smemsim.run.engine.grid.{name}", block * kernel.cluster)
    monkeypatch.setattr("test_concurrency.HEAD", DISPLACED)
    return run(dataclasses.replace(kernel, grid=3 * kernel.cluster, block=block), ahead=AHEAD)


SPARSE = 1 if is_night() else 2  # by day half as many of those that are executed in another way, too
FAULTS = [k for k in KERNELS if k.found not in ("", "X006") and not k.grid]
RIGHT = [k for k in KERNELS if not k.found and not k.grid]
SHUFFLES = [k for k in FAULTS if k.name.startswith("shuffle")]


@pytest.mark.parametrize(
    ("kernel", "together"),
    [*((k, False) for k in FAULTS[:: 5 * SPARSE]), *((k, True) for k in dict.fromkeys([*FAULTS[2 :: 5 * SPARSE], *SHUFFLES]))],
    ids=lambda x: x.name if isinstance(x, Kernel) else "together" * x,
)
def test_a_kernel_is_told_the_same_wherever_it_is(kernel, together, monkeypatch):
    wanted = said(run(kernel), kernel)
    done = run_elsewhere(kernel, monkeypatch, together=together)
    moves = {"warps": IDLE, "ctas": 2 * kernel.cluster, "lines": 1, "bytes_": FURTHER, "ahead": (1 << 20) + 4 * AHEAD}  # arrays are apart
    assert moved_back(said(done, kernel), **moves) == wanted


@pytest.mark.parametrize(
    ("kernel", "together"), [*((k, False) for k in RIGHT[:: 6 * SPARSE]), *((k, True) for k in RIGHT[3 :: 6 * SPARSE])],
    ids=lambda x: x.name if isinstance(x, Kernel) else "together" * x,
)  # fmt: skip
def test_a_right_kernel_is_silent_wherever_it_is(kernel, together, monkeypatch):
    done = run_elsewhere(kernel, monkeypatch, together=together)
    assert [str(f) for f in done.findings] == []
    assert {f.code for f in done.remarks} == set(filter(None, [kernel.remarks]))


@pytest.mark.parametrize("kernel", FAULTS[2 :: 7 * SPARSE], ids=lambda k: k.name)
def test_clusters_that_do_the_same_are_told_the_same_together_and_each_alone(kernel, monkeypatch):
    several = dataclasses.replace(kernel, grid=3 * kernel.cluster)
    together = run(several)
    monkeypatch.setenv("SMEMSIM_COHORTS", "off")
    alone = run(several)
    assert [*map(str, (*together.findings, *together.remarks))] == [*map(str, (*alone.findings, *alone.remarks))]


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("sync", "codes"), [("", ["X008"]), ("bar.sync 0;", [])])
def test_who_reads_a_word_that_all_lanes_of_a_warp_have_stored_waits_for_them(sync, codes, tiers, monkeypatch):
    """They store one value in one place, where another value lay."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    body = f"@%p1 st.shared.u32 [sm], 5; bar.sync 0; @%p2 st.shared.u32 [sm], 7; {sync} @%p3 ld.shared.u32 %r9, [sm]; {RESULT}"
    assert [f.code for f in run(Kernel("", body)).findings] == codes


UNREACHED_PRODUCT = """.reg .f32 %w<4>; .reg .b64 %wd; mov.b64 %wd, 0; mov.f32 %w0, 0f00000000; mov.f32 %w1, %w0; mov.f32 %w2, %w0; mov.f32 %w3, %w0; bra P;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%w0, %w1, %w2, %w3}, %wd, %wd, 0, 1, 1, 0, 0; P:"""


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(
    ("name", "codes"), [("lanes, one frees in the other arm", ["X008"]), ("lanes, one frees in the other arm, met", [])]
)
def test_lanes_that_one_arrives_for_are_told_however_many_ctas_do_the_same(name, codes, grid):
    """In kernels with products of warpgroups the first CTA may stand for all."""
    kernel = next(k for k in KERNELS if k.name == name)
    body = f"{UNREACHED_PRODUCT} {kernel.body}"
    assert [f.code for f in run(dataclasses.replace(kernel, body=body, grid=grid)).findings] == codes


# Two bulk loads for which one mbarrier expects the bytes; the second one completes on the mbarrier of this address.
TWO_LOADS = """@!%p1 bra L; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512; mov.u32 %r12, sm;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%rd2], 256, [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12+256], [%rd2], 256, [{}]; L:"""


@pytest.mark.parametrize("is_load_first", [True, False])
@pytest.mark.parametrize("completes_on", ["bar", "bar+8"])
def test_waits_that_hang_for_causes_of_their_own_are_told_in_the_order_of_the_text(completes_on, is_load_first):
    """Warp 0 waits for the loads; warp 1 for a second arrival, which no thread makes."""
    loads, arrival = waits(label="V"), f"@%p4 mbarrier.arrive.shared::cta.b64 _, [bar+16]; {waits('[bar+16]')}"
    first, second = (loads, arrival) if is_load_first else (arrival, loads)
    apart = f"@%p{3 if is_load_first else 2} bra SECOND; {first} bra OUT; SECOND: {second} OUT:"
    done = run(Kernel("", f"{init()} {init(1, '[bar+8]')} {init(2, '[bar+16]')} bar.sync 0; {TWO_LOADS.format(completes_on)} {apart}"))
    lines = [f.line for f in done.findings if f.code == "X006"]
    assert len(lines) == 1 + (completes_on != "bar")
    assert lines == sorted(lines)
    causes = [f.cause and f.cause.code for f in done.findings if f.code == "X006"]
    assert causes == ([None] if completes_on == "bar" else ["T210", None] if is_load_first else [None, "T210"])


EARLY_READS = {
    "ld": "ld.shared.u32 %r20, [%r6];",
    "ld.v2": "and.b32 %r22, %r6, -8; ld.shared.v2.u32 {%r20, %r21}, [%r22];",
    "ldmatrix": "and.b32 %r22, %r6, -16; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r22];",
}


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize("name", EARLY_READS)
def test_a_racing_read_whose_value_no_instruction_uses_is_a_remark(name, tiers, monkeypatch):
    """As in CUTLASS's sparse kernels for sm_120: ldmatrix of tiles past the last one, whose registers nothing names."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    last = "%r21" if name == "ld.v2" else "%r20"
    for use in ("", f"add.u32 %r9, %r9, {last};"):
        done = run(Kernel("", f"{init()} bar.sync 0; {LOAD} {EARLY_READS[name]} {waits()} ld.shared.u32 %r9, [%r6]; {use} {RESULT}"))
        assert [f.code for f in done.findings] == ["X004"] * bool(use)
        assert ["no instruction uses the value" in f.why for f in done.remarks] == [True] * (not use)
    racing = f"st.shared.u32 [%r6], %r1; and.b32 %r6, %r7, -16; {EARLY_READS[name]}"
    assert [f.code for f in run(Kernel("", f"{racing} mov.u32 %r9, 1; {RESULT}")).findings] == []
    assert [f.code for f in run(Kernel("", f"{racing} mov.u32 %r9, {last}; {RESULT}")).findings] == ["X008"]
    overwritten = f"{racing} mov.u32 {last}, 1; mov.u32 %r9, {last}; {RESULT}"
    assert [[f.code for f in told] for told in (run(Kernel("", overwritten)).findings, run(Kernel("", overwritten)).remarks)] == [
        [],
        ["X008"],
    ]
    on_one_path = overwritten.replace(f"mov.u32 {last}, 1;", f"@%p1 mov.u32 {last}, 1;")
    assert [f.code for f in run(Kernel("", on_one_path)).findings] == ["X008"]


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("brx", "st.shared.u32 [%r6], 0; ld.shared.u32 %r20, [%r7]; TO: .branchtargets ONE, ONE; brx.idx %r20, TO; ONE:"),
        Kernel("dealloc", """@!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sm], 32; A: bar.sync 0; @%p3 st.shared.u32 [sm], 0;
                             ld.shared.u32 %r11, [sm]; @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;""", arch="sm_100a"),
    ],
    ids=lambda k: k.name,
)  # fmt: skip
def test_a_racing_read_decides_a_branch_or_what_is_deallocated(kernel):
    assert [f.code for f in run(kernel).findings][:1] == ["X008"]


@pytest.mark.parametrize("argument", ["%r20", "%r1"])
def test_a_racing_read_is_used_as_the_argument_of_a_function_behind_a_pointer(argument, monkeypatch):
    monkeypatch.setitem(globals(), "HEAD", HEAD.replace(
        ".visible", ".func (.reg .b32 %o) f(.reg .b32 %a) {{ add.u32 %o, %a, 1; ret; }} .func (.reg .b32 %o) g(.reg .b32 %a) {{ mov.u32 %o, %a; ret; }} .visible"
    ))  # fmt: skip
    done = run(Kernel("", f"""st.shared.u32 [%r6], %r1; ld.shared.u32 %r20, [%r7]; mov.u64 %rd15, f; mov.u64 %rd16, g; selp.b64 %rd15, %rd15, %rd16, %p4;
        TYPE: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (%r9), %rd15, ({argument}), TYPE; {RESULT}"""))  # fmt: skip
    is_used = argument == "%r20"
    assert [f.code for f in done.findings] == ["X008"] * is_used
    assert [f.code for f in done.remarks] == ["X008"] * (not is_used)


MATRICES = {
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r14]; add.u32 %r9, %r10, %r13;",
    "ldmatrix.trans": "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r10, %r11}, [%r14]; add.u32 %r9, %r10, %r11;",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r14], {%r3, %r3, %r3, %r3}; mov.u32 %r9, 1;",
    "wmma.load": "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%r15]; mov.b32 %r9, %f0;",
    "wmma.store": "mov.b32 %f0, %r3; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r15], {%f0,%f0,%f0,%f0,%f0,%f0,%f0,%f0}; mov.u32 %r9, 1;",
}
MEETINGS = {  # of a warp, and whether they order its memory
    "nothing": ("", False),
    "bar.warp.sync": ("bar.warp.sync -1;", True),
    "bar.sync": ("bar.sync 0;", True),
    "shfl.sync": ("shfl.sync.idx.b32 %r20, %r3, 0, 31, -1;", False),
    "vote.sync": ("vote.sync.ballot.b32 %r20, %p1, -1;", False),
    "half of the lanes": ("@%p4 bar.warp.sync 1;", False),
}


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_of_words_that_lanes_have_just_stored_wants_a_barrier_of_the_warp(name, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    size = 1024 if name.startswith("wmma") else 512
    stores = "".join(f"st.shared.v4.u32 [%r14+{512 * n}], {{%r3, %r3, %r3, %r3}}; " for n in range(size // 512))
    for meets, orders in MEETINGS.values():
        for grid in (1, 3):
            body = f"shl.b32 %r14, %r1, 4; mov.u32 %r15, sm; add.u32 %r14, %r14, %r15; {stores} {meets} {MATRICES[name]} {RESULT}"
            done = run(Kernel("", body, block=32, grid=grid))
            assert done.findings == []
            assert [f.code for f in done.remarks] == ["X008"] * (not orders), (meets, grid)
            assert all("bar.warp.sync" in f.repair for f in done.remarks)


@pytest.mark.parametrize(("stores", "codes"), [("st.shared.v4.u32 [%r14], {%r3, %r3, %r3, %r3};", ["X008"]), (MATRICES["stmatrix"], [])])
@pytest.mark.parametrize("meets", ["", "bar.warp.sync -1;"])
def test_lanes_that_store_a_matrix_together_have_met(stores, codes, meets):
    """The .sync of stmatrix makes the lanes wait for each other. Nothing says more of it, so smemsim says nothing."""
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+1024], [sm], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    done = run(
        Kernel("", f"mad.lo.u32 %r14, %r1, 16, %r5; {stores} fence.proxy.async.shared::cta; {meets} @!%p4 bra B; {copy} B:", block=32)
    )
    assert [f.code for f in done.findings] == codes * (not meets)
    assert done.remarks == []


# What warp 1 does to the words of a stage before its signal, and what lanes of warp 0 do there after it
BEFORE_SIGNAL = {
    "ld": "ld.shared.u32 %r20, [%r8]; add.u32 %r9, %r9, %r20;",
    "ld.u8": "ld.shared.u8 %r20, [%r8]; add.u32 %r9, %r9, %r20;",
    "ld.volatile": "ld.volatile.shared.u32 %r20, [%r8]; add.u32 %r9, %r9, %r20;",
    "ldmatrix": "mad.lo.u32 %r21, %r3, 16, %r5; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r21]; add.u32 %r9, %r9, %r20;",
    "bulk store": "@!%p4 bra B; cp.async.bulk.global.shared::cta.bulk_group [%rd1+2048], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; B:",
    "st": "add.u32 %r20, %r3, 5; st.shared.u32 [%r8], %r20;",
    "st.u8": "add.u32 %r20, %r3, 5; st.shared.u8 [%r8], %r20;",
}
SIGNALS_AND_WAITS = {
    "mbarrier": ("mbarrier.arrive.shared::cta.b64 _, [bar];", waits()),
    "relaxed mbarrier": ("mbarrier.arrive.shared::cta.b64 _, [bar];", f"{RELAXED} {ACQ}"),
    "flag": ("st.release.cta.shared.u32 [sm+2048], 1;", "P: ld.acquire.cta.shared.u32 %r15, [sm+2048]; setp.ne.u32 %p10, %r15, 1; @%p10 bra P;"),
    "relaxed flag": ("st.release.cta.shared.u32 [sm+2048], 1;", f"P: ld.relaxed.cta.shared.u32 %r15, [sm+2048]; setp.ne.u32 %p10, %r15, 1; @%p10 bra P; {ACQ}"),
    "flag in global memory": ("st.release.gpu.global.u32 [%rd2+2048], 99;", "P: ld.acquire.gpu.global.u32 %r15, [%rd2+2048]; setp.ne.u32 %p10, %r15, 99; @%p10 bra P;"),
    "atom": ("red.release.cta.shared.add.u32 [sm+2048], 1;", "P: atom.acquire.cta.shared.add.u32 %r15, [sm+2048], 0; setp.ne.u32 %p10, %r15, 1; @%p10 bra P;"),
}  # fmt: skip
LATE_ACCESSES = {
    "st": "add.u32 %r20, %r3, 70; st.shared.u32 [%r8], %r20;",
    "st.u8": "add.u32 %r20, %r3, 70; st.shared.u8 [%r8], %r20;",
    "red": "red.shared.add.u32 [%r8], 1;",
    "cp.async": "mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd4, %rd2; cp.async.ca.shared.global [%r8], [%rd4+64], 4; cp.async.wait_all;",
    "bulk load": f"setp.eq.u32 %p15, %r3, 1; @!%p15 bra L; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 128, [bar+8]; L: {waits('[bar+8]', label='V')}",
    "ld": f"ld.shared.u32 %r9, [%r8]; {RESULT}",
    "ld.u8": f"ld.shared.u8 %r9, [%r8]; {RESULT}",
    "ld.volatile": f"ld.volatile.shared.u32 %r9, [%r8]; {RESULT}",
    "bulk store": "setp.eq.u32 %p15, %r3, 1; @!%p15 bra L; cp.async.bulk.global.shared::cta.bulk_group [%rd1+2048], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; L:",
}
WAITED_BY_LANE_0 = [
    *(("mbarrier", before, "st") for before in ("ld", "ld.u8", "ld.volatile", "ldmatrix", "bulk store", "st", "st.u8")),
    *(("mbarrier", "ld", after) for after in ("st.u8", "red", "cp.async", "bulk load")),
    *(("mbarrier", "st", after) for after in ("ld", "ld.volatile", "bulk store")),
    ("mbarrier", "st.u8", "ld.u8"),
    *((by, *pair) for by in SIGNALS_AND_WAITS if by != "mbarrier" for pair in (("ld", "st"), ("st", "ld"))),
]


def waited_by_lane_0(by: str, before: str, after: str, meets: str) -> Kernel:
    """Lane 0 of warp 0 waits for warp 1, which comes first in the text: the wait never has to wait."""
    signal, wait = SIGNALS_AND_WAITS[by]
    proxy = "fence.proxy.async.shared::cta;"
    return Kernel("", f"""{init()} {init(1, "[bar+8]")} add.u32 %r22, %r1, 300; st.shared.u32 [%r6], %r22; @%p1 st.volatile.shared.u32 [sm+2048], 0; {proxy} bar.sync 0;
    @%p2 bra TAKE; {BEFORE_SIGNAL[before]} {proxy} bar.warp.sync -1; @%p4 {signal} {RESULT} bra OUT; TAKE: @!%p4 bra N; {wait} N: {meets} {LATE_ACCESSES[after]} OUT:""")  # fmt: skip


@pytest.mark.parametrize(("by", "before", "after"), WAITED_BY_LANE_0)
def test_lanes_that_do_not_meet_the_lane_that_waited_are_found(by, before, after):
    """The access of a lane that has not waited, whether the wait had to wait or not."""
    (found,) = run(waited_by_lane_0(by, before, after, "")).findings
    assert found.code == ("X005" if before == "bulk store" else "X008")
    assert found.why.startswith("only lane 0 waited, at ")
    assert found.repair.startswith("bar.warp.sync (__syncwarp) after the wait")
    right = run(waited_by_lane_0(by, before, after, "bar.warp.sync -1;"))
    assert [*right.findings, *right.remarks] == []


@pytest.mark.parametrize(("fence", "codes"), [(ACQ, []), ("", ["X008"])])
@pytest.mark.parametrize("by", ["relaxed mbarrier", "relaxed flag"])
def test_other_lanes_wait_after_the_fence_of_the_first_ones(by, fence, codes):
    """Their relaxed wait brings nothing new to the warp, and counts from their own fence on."""
    signal, wait = SIGNALS_AND_WAITS[by]
    again = wait.replace("W:", "V:").replace("bra W", "bra V").replace("P:", "Q:").replace("bra P", "bra Q").replace(ACQ, fence)
    body = f"""{init()} @%p1 st.volatile.shared.u32 [sm+2048], 0; setp.lt.u32 %p14, %r3, 16; bar.sync 0; @%p2 bra TAKE;
    st.shared.u32 [%r8], %r3; bar.warp.sync -1; @%p4 {signal} bra OUT; TAKE: @!%p14 bra N; {wait} N: @%p14 bra M; {again} M: ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"""
    done = run(Kernel("", body))
    assert [f.code for f in done.findings] == codes
    assert all(f.why.endswith("is relaxed, and no fence of theirs follows it") for f in done.findings)
    assert done.remarks == []


@pytest.mark.parametrize("meets", ["", "bar.warp.sync -1;"])
def test_lanes_overwrite_what_one_of_them_has_stored_and_waited_for(meets):
    """No other lane can wait for its bulk store: the fix is no such wait."""
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
    body = f"st.shared.u32 [%r8], %r3; fence.proxy.async.shared::cta; bar.warp.sync -1; @!%p4 bra B; {store} B: {meets} st.shared.u32 [%r8], %r5;"
    done = run(Kernel("", body, block=32))
    assert [(f.code, f.repair) for f in done.findings] == [("X005", "bar.warp.sync (__syncwarp) after the wait")] * (not meets)
    assert done.remarks == []


@pytest.mark.parametrize("wait", ["", "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"])
@pytest.mark.parametrize("rows", [1, 2])
def test_two_ctas_store_the_same_bytes_in_bulk(rows, wait):
    """A tile that reaches into the next CTA's rows. A wait that is there is not proposed again."""
    own = f"mov.u32 %r13, %ctaid.x; mul.wide.u32 %rd5, %r13, {rows * 64}; add.u64 %rd5, %rd5, %rd1;"
    store = f"cp.async.bulk.global.shared::cta.bulk_group [%rd5], [sm], 128; cp.async.bulk.commit_group; {wait}"
    body = f"st.shared.u32 [%r8], %r3; fence.proxy.async.shared::cta; {own} bar.sync 0; @!%p4 bra B; {store} B:"
    done = run(Kernel("", body, block=32, grid=2))
    assert [f.code for f in done.findings] == ["X008"] * (rows == 1)
    for f in done.findings:
        assert f.repair.startswith("if the two CTAs should not write the same bytes: correct the address or the size in ")
        assert ("cp.async.bulk.wait_group 0 (without .read) in the thread" in f.repair) == (wait != "cp.async.bulk.wait_group 0;")


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("meets", "found"), [("", "X008"), ("vote.sync.ballot.b32 %r20, %p4, -1;", "remark"), ("bar.warp.sync -1;", "")])
def test_one_lane_arrives_for_stores_without_a_guard(meets, found, tiers, monkeypatch):
    """Stores of whole warps: a compiled block looks at these in tiles, not one by one."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    for grid in (1, 3):
        body = f"""// {tiers}: a program of its own
            {init()} bar.sync 0; @%p3 bra T; st.shared.u32 [%r8], %r3; {meets} {AGAIN} bra OUT;
            T: {waits()} xor.b32 %r10, %r8, 20; ld.shared.u32 %r9, [%r10]; {RESULT} OUT:"""
        done = run(Kernel("", body, grid=grid))
        assert [f.code for f in done.findings] == ["X008"] * (found == "X008")
        assert [f.code for f in done.remarks] == ["X008"] * (found == "remark")


# ---- warpgroups of CTAs whose warps are no multiple of four

GROUPS = """setp.lt.u32 %p11, %r1, 128; @!%p11 bra OUT; shl.b32 %r9, %r1, 4; add.u32 %r9, %r9, %r5; mov.u32 %r10, 0;
st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}}; fence.proxy.async.shared::cta; bar.sync 1, 128; shr.u32 %r11, %r5, 4; cvt.u64.u32 %rd5, %r11;
or.b64 %rd5, %rd5, 0x0000001000080000; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %rd5, %rd5, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; mov.u32 %r13, %ctaid.x; setp.eq.u32 %p12, %r13, 1; {wait} mov.b32 %r12, %f0; add.u32 %r9, %r12, 1; {RESULT} OUT:"""
WAITED = "wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize("block", [128, 160, 224])
def test_the_warps_of_a_warpgroup_are_those_of_its_cta(block):
    """With 160 threads the warpgroup of the second CTA of a wave begins at the wave's sixth warp."""

    def codes(wait: str) -> set[str]:
        done = run(Kernel("", GROUPS.format(wait=wait, RESULT=RESULT), block=block, grid=3))
        return {f.code for f in (*done.findings, *done.remarks)} - {"D310"}  # ptxas puts the wait in: a remark

    assert codes(WAITED) == set()
    assert codes(f"@%p12 bra S; {WAITED} S:") == {"X007"}  # the second CTA does not wait
    assert codes(f"@!%p12 bra S; st.shared.b32 [%r6], 1; S: {WAITED}") == {"X005"}


def test_stores_that_only_a_product_of_their_warpgroup_follows_are_those_of_other_warps():
    """A remark without the barrier. The reader is named by warp 0, whose own stores wgmma does order."""

    def remarks(text: str) -> list[str]:
        done = run(Kernel("", text.format(wait=WAITED, RESULT=RESULT), block=128))
        return [f.message for f in (*done.findings, *done.remarks) if f.code == "X008"]

    assert remarks(GROUPS) == []
    found = remarks(GROUPS.replace("bar.sync 1, 128;", ""))
    assert len(found) == 1
    assert "write: warp 1 (st.shared" in found[0]


def test_a_schedule_shows_that_the_wait_of_another_lane_is_none():
    """The copy may read what is written behind the wait of a lane that has not issued it; behind the wait of its own
    lane it may not.
    """

    def left(wait: str, schedule: str | None) -> bytes:
        gpu = smemsim.Gpu("sm_90a")
        out, other = gpu.array(np.zeros(1024, np.uint32)), gpu.array(np.zeros(1024, np.uint32))
        text = HEAD.format(arch="sm_90a") + stored_by(wait=wait).replace("; ", ";\n") + "\nret;\n}\n"
        gpu.launch(text, "k", block=64, args=[out, other], progress=False, schedule=schedule)
        return out.numpy().tobytes()

    assert left("@%p1", None) == left("@%p1", "latest") == left("@%p14", None)
    assert left("@%p14", "latest") != left("@%p14", None)


def test_there_are_right_kernels_and_wrong_ones():
    wrong = sum(bool(k.found) for k in KERNELS)
    assert len({k.name for k in KERNELS}) == len(KERNELS)
    assert min(wrong, len(KERNELS) - wrong) >= 40


def test_a_line_may_be_wrong_for_two_causes():
    """One load reads what a bulk copy brings, and what a cp.async does; each is told, and once."""
    both = f"""{init()} bar.sync 0; @!%p1 bra L; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 128, [bar]; L:
    mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd5, %rd2; add.u32 %r10, %r8, 128; cp.async.ca.shared.global [%r10], [%rd5], 4; {{}} {READ}"""
    found = [(f.code, f.halves[1].instruction.name.partition(".shared")[0]) for f in run(Kernel("", both.format(""))).findings]
    assert found == [("X004", "cp.async.bulk"), ("X004", "cp.async.ca")]
    waited = both.format(f"{waits()} cp.async.wait_all; bar.sync 0;")
    assert run(Kernel("", waited)).findings == []
    assert len(run(Kernel("", both.format(waits()))).findings) == 1


def test_a_relaxed_arrival_is_named_and_what_to_write_instead():
    (remark,) = run(Kernel("", exchanged(SLOW), cluster=2)).remarks
    assert "barrier.cluster.arrive.relaxed.aligned of line" in remark.message
    assert remark.repair.startswith("to follow the PTX ISA: barrier.cluster.arrive.release in line")
    broken = run(Kernel("", exchanged(f"{SLOW} st.shared.u32 [%r7], 1;"), cluster=2))  # a release there would not help
    assert [f.code for f in broken.findings] == ["X008"]
    assert broken.findings[0].severity == "wrong"


def test_what_rests_on_one_relaxed_arrival_is_told_once():
    twice = exchanged(f"{SLOW} ld.shared.u32 %r9, [%r6]; xor.b32 %r9, %r9, 1;")
    assert [f.code for f in run(Kernel("", twice, cluster=2)).remarks] == ["X008"]


# ---- where an mbarrier object ends (rule order.mbarrier_lives)

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [{at}];"
USES = {
    "arrive": "@%p1 " + ARRIVE,
    "wait": f"@%p1 {ARRIVE} " + waits("[{at}]"),
    "test": f"@%p1 {ARRIVE} mbarrier.test_wait.parity.shared::cta.b64 %p10, [{{at}}], 0; selp.b32 %r9, 1, 0, %p10; {RESULT}",
    "expect_tx": "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{at}], 8; @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [{at}], 8;",
    "cp.async": "@%p1 cp.async.mbarrier.arrive.shared::cta.b64 [{at}];",
}
OVER_THEM = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{at}], [%rd2], 16, [bar+56];"
ENDS = {
    "inval": "@%p8 mbarrier.inval.shared::cta.b64 [{at}];",
    "init": "@%p8 mbarrier.init.shared::cta.b64 [{at}], 1;",
    "store": "@%p8 st.shared.u64 [{at}], %rd2;",
    "half of it": "@%p8 st.shared.u32 [{at}+4], 7;",
    "volatile store": "@%p8 st.volatile.shared.u64 [{at}], %rd2;",
    "atomic": "@%p8 red.shared.add.u32 [{at}], 1;",
    "cp.async": "@%p8 cp.async.ca.shared.global [{at}], [%rd2], 8; cp.async.wait_all;",
    "bulk load": "@!%p8 bra E; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+56], 16; " + OVER_THEM + " E: " + waits("[bar+56]", label="V"),
}  # fmt: skip


def ended(use: str, order: str, end: str, at: str = "bar", ends: str = "") -> str:
    """Warp 0 uses an mbarrier, and the first lane of warp 1 ends it; `ends` stands before that in the same lane."""
    return f"""setp.eq.u32 %p8, %r1, 32; {init(1, "[bar+56]")} {init(1, f"[{at}]")} fence.mbarrier_init.release.cluster; {MEET}
    @!%p2 bra N; {USES[use].format(at=at)} N: {order} {ends.format(at=at)} {ENDS[end].format(at=at)}"""


def codes_of(kernel: Kernel, **options: object) -> list[tuple[str, str]]:
    """The codes and severities of what is found, without the remark that an mbarrier is not invalidated."""
    done = run(kernel, **options)
    return sorted((f.code, str(f.severity)) for f in (*done.findings, *done.remarks) if (f.code, f.severity) != ("X010", "luck"))


SHAPES = {"one CTA": {}, "three CTAs": {"grid": 3}, "a cluster": {"cluster": 2}}


def in_turn_with(cases: Sequence[object]) -> list[tuple[object, str]]:
    """Cases, each in one of SHAPES."""
    return list(zip(cases, itertools.cycle(SHAPES)))


USED_AND_ENDED = [*((use, "inval") for use in USES), *(("wait", end) for end in ENDS if end != "inval")]


@pytest.mark.parametrize(
    ("case", "shape"), [*in_turn_with(USED_AND_ENDED), (("wait", "inval"), "three CTAs"), (("wait", "inval"), "a cluster")]
)
def test_an_mbarrier_ends_after_its_last_use(case: tuple[str, str], shape: str):
    use, end = case
    at = "bar+16" if use == "wait" else "bar"
    copied = {"X010"} if end in ("cp.async", "bulk load") else set()  # which has harmed on cards
    wrong = run(Kernel("", ended(use, "", end, at), **SHAPES[shape]))
    assert {f.code for f in wrong.findings} == {"X008"} | copied
    assert {f.code for f in run(Kernel("", ended(use, "bar.sync 0;", end, at), **SHAPES[shape])).findings} == copied | LATE[use]


@pytest.mark.parametrize(("who", "shape"), in_turn_with(list(itertools.permutations(range(3)))))
def test_who_meets_a_warp_that_has_waited_may_end_an_mbarrier(who: tuple[int, int, int], shape: str):
    """One warp arrives without release, one waits for the phase, one ends the object. It has to meet the one that waited."""
    arrives, waited, ends = who
    arrive = "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar+16];"
    body = f""".reg .pred %z<5>; shr.u32 %r40, %r1, 5; and.b32 %r41, %r1, 31; setp.eq.u32 %z0, %r41, 0; {init(1, "[bar+16]")} {MEET}
    setp.eq.u32 %z1, %r40, {arrives}; setp.eq.u32 %z2, %r40, {waited}; setp.eq.u32 %z3, %r40, {ends}; and.pred %z4, %z0, %z3;
    @!%z1 bra A; @%z0 {arrive} A: @!%z2 bra B; {waits("[bar+16]")} B: {{}} @%z4 mbarrier.inval.shared::cta.b64 [bar+16];"""
    for between, codes in (("@!%z1 bar.sync 1, 64;", []), ("@!%z2 bar.sync 1, 64;", [("X008", "wrong")]), ("", [("X008", "wrong")])):
        assert codes_of(Kernel("", body.format(between), block=96, **SHAPES[shape])) == codes, between


# an arrival that comes later, and that no thread has waited for
LATE = {use: {"X005"} if use == "cp.async" else set() for use in USES}


@pytest.mark.parametrize(("end", "shape"), in_turn_with([end for end in ENDS if end != "inval"]))
def test_the_bytes_of_an_mbarrier_are_free_after_inval(end: str, shape: str):
    """The right kernel has no remark either; a warp that is not ordered after mbarrier.inval has a race."""
    inval = "@%p1 " + ENDS["inval"][5:]
    right = ended("wait", f"bar.sync 0; {inval} bar.sync 0;".format(at="bar+16"), end, "bar+16")
    done = run(Kernel("", right, **SHAPES[shape]))
    assert (done.findings, done.remarks) == ([], [])
    wrong = run(Kernel("", ended("wait", f"bar.sync 0; {inval}".format(at="bar+16"), end, "bar+16"), **SHAPES[shape]))
    assert {f.code for f in wrong.findings} == {"X008"}
    assert "mbarrier.inval" in wrong.findings[0].message


@pytest.mark.parametrize(
    ("before", "shape"), in_turn_with(["st.shared.u32 [bar], 7;", "ld.shared.u32 %r9, [bar];", "st.volatile.shared.u32 [bar+4], 7;"])
)
def test_mbarrier_init_is_ordered_after_what_lay_there(before: str, shape: str):
    """Warp 1 writes or reads bytes that warp 0 makes an mbarrier of."""
    body = f"mov.u32 %r9, 0; @%p1 st.shared.u64 [bar], %rd1; bar.sync 0; @%p3 {before} {RESULT} {{}} {init()}"
    assert codes_of(Kernel("", body.format(""), **SHAPES[shape])) == [("X008", "wrong")]
    assert codes_of(Kernel("", body.format("bar.sync 0;"), **SHAPES[shape])) == []


@pytest.mark.parametrize(("use", "shape"), in_turn_with(list(USES)))
def test_each_use_of_an_mbarrier_is_ordered_after_its_init(use: str, shape: str):
    """Warp 1 uses what warp 0 makes: `bar.sync` orders the two in a CTA."""
    code = USES[use].format(at="bar+16").replace("@%p1 ", "@%p8 ")
    body = f"setp.eq.u32 %p8, %r1, 32; {init(1, '[bar+16]')} {{}} @!%p3 bra N; {code} N: bar.sync 0;"
    assert set(codes_of(Kernel("", body.format(""), **SHAPES[shape]))) == {("X008", "wrong")}
    assert codes_of(Kernel("", body.format("bar.sync 0;"), **SHAPES[shape])) == []


REMOTE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];"
FAR = {
    "arrive": "@%p1 " + REMOTE,
    "arrive and expect": "@%p1 mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r12], 0;",
    "st.async": "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r11], %r1, [%r12];",
}


@pytest.mark.parametrize("far", FAR)
def test_an_mbarrier_that_the_other_cta_uses(far: str):
    """CTA 1 uses the mbarrier of CTA 0 before mbarrier.init is visible, or when CTA 0 ends it."""
    expects = "@%p13 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;" if far == "st.async" else ""
    body = f"""setp.eq.u32 %p11, %r4, 0; and.pred %p13, %p11, %p1; {init()} {{}} {expects} mov.u32 %r12, bar; mapa.shared::cluster.u32 %r12, %r12, 0;
    mapa.shared::cluster.u32 %r11, %r5, 0; @%p11 bra N; {FAR[far]} N: {{}} @%p13 mbarrier.inval.shared::cta.b64 [bar]; {MEET}"""
    for made, waited, codes in (
        ("bar.sync 0;", MEET, {"X008", "X005"} if far == "st.async" else {"X008"}),
        (MEET, "", {"X008", "X005"} if far == "st.async" else {"X008"}),
        (MEET, f"@!%p13 bra O; {waits()} O:", set()),
        (MEET, MEET, {"X005"} if far == "st.async" else set()),
    ):
        assert {f.code for f in run(Kernel("", body.format(made, waited), cluster=2)).findings} == codes, (made, waited)


@pytest.mark.parametrize(("end", "shape"), in_turn_with(["inval", "init", "store", "volatile store"]))
def test_a_copy_may_still_complete(end: str, shape: str):
    """The thread that issues a bulk load ends the mbarrier that counts it, behind a wait for the load or without."""
    body = f"{init(1, '[bar+16]')} fence.mbarrier_init.release.cluster; {MEET} setp.eq.u32 %p8, %r1, 0; {LOAD.replace('[bar]', '[bar+16]')} {{}} {ENDS[end].format(at='bar+16')}"
    assert {f.code for f in run(Kernel("", body.format(""), **SHAPES[shape])).findings} == {"X005"}
    waited = f"@!%p8 bra M; {waits('[bar+16]')} M:"
    assert run(Kernel("", body.format(waited), **SHAPES[shape])).findings == []


@pytest.mark.parametrize(("end", "at"), [("inval", "bar"), ("init", "bar+8"), ("store", "bar+16")])
def test_a_commit_may_still_arrive(end: str, at: str):
    """Who ends an mbarrier waits for the phase that tcgen05.commit completes, or for a later commit of the same thread."""
    done = f"@%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{at}];"
    last = "@%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+40];"
    for wait, codes in (
        (waits(f"[{at}]") + AFTER, set()),
        (waits("[bar+40]") + AFTER, set()),
        ("", {"X005"}),
    ):
        body = tensor(
            second=done + last + f"setp.eq.u32 %p8, %r1, 0; @!%p8 bra O; {wait} O: {ENDS[end].format(at=at)}",
            wait=waits("[bar+40]", label="LAST") + AFTER,
        )
        body = body.replace(
            "fence.mbarrier_init", f"{init(1, '[bar+8]')} {init(1, '[bar+16]')} {init(1, '[bar+40]')} fence.mbarrier_init", 1
        )
        for grid in (1, 3) if end == "inval" else (1,):  # where CTAs do the same, one stands for all
            found = run(Kernel("", body, arch="sm_100a", block=128, grid=grid)).findings
            assert {f.code for f in found} == codes, [str(f) for f in found]


@pytest.mark.parametrize("end", ["inval", "store"])
def test_every_schedule_agrees_on_where_an_mbarrier_ends(end: str):
    assert codes_of(Kernel("", ended("wait", "bar.sync 0;", end)), schedule="all:3") == []
    assert {"X008", "X010", "X006"} & {code for code, _ in codes_of(Kernel("", ended("wait", "", end)), schedule="all:3")}


# ---- tensor memory of pairs (rule order.pair_allocation)

TAKE, GIVE = (
    f"@%p2 tcgen05.{what};"
    for what in ("alloc.cta_group::2.sync.aligned.shared::cta.b32 [{at}], 32", "dealloc.cta_group::2.sync.aligned.b32 {at}, 32")
)
TELL_PEER = f"""bar.sync 0; xor.b32 %r10, %r4, 1; mov.u32 %r12, bar; mapa.shared::cluster.u32 %r12, %r12, %r10;
@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12]; {waits(what="try_wait.parity.acquire.cluster", label="PEER")}"""
LOADS = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r14]; tcgen05.wait::ld.sync.aligned;"
STORES = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {%r3}; tcgen05.wait::st.sync.aligned;"


def paired(
    taken: str = "bar.sync 0;", used: str = "bar.sync 0;", *, begun: str = MEET, use: str = "", again: bool = False, given: str = ""
) -> str:
    """Both CTAs of a pair take columns, once or `again`, CTA 1 may `use` its own, and both give all back, one of them
    may do something else between.
    """
    take, give = TAKE.format(at="bar+48"), GIVE.format(at="%r11")
    more = f"{MEET} {TAKE.format(at='bar+56')}" if again else ""
    back = f"{GIVE.format(at='%r13')}" if again else ""
    return f"""setp.eq.u32 %p11, %r4, 0; {init()} fence.mbarrier_init.release.cluster; {begun} {take} {more} {taken} ld.shared.u32 %r11, [bar+48]; ld.shared.u32 %r13, [bar+56];
    shl.b32 %r14, %r2, 21; add.u32 %r14, %r14, %r11; @%p11 bra N; {use} N: {used} {given or give} {back}"""


SLOWLY = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"


@pytest.mark.parametrize(
    ("body", "found", "remarks"),
    [
        (paired(), "X012", ""),
        (paired(taken=MEET), "", ""),
        (paired(used=MEET), "", ""),
        (paired(taken=TELL_PEER), "", ""),
        (paired(again=True), "X012", ""),
        (paired(again=True, used=MEET), "", ""),
        (paired(used=SLOWLY), "", "X012"),
        (paired(taken=MEET, use=STORES), "X012", ""),
        (paired(taken=MEET, use=STORES, used=MEET), "", ""),
        (paired(taken=MEET, use=STORES + LOADS), "X012", ""),
        (paired(taken=MEET, use=STORES + LOADS, used=TELL_PEER), "", ""),
        (paired(taken=MEET, use=STORES + LOADS + STORES, used=MEET), "", ""),
        (paired(begun="bar.sync 0;", used=MEET), "", "X009"),
        (paired(taken=MEET, given=f"@%p11 bra LATER; {GIVE.format(at='%r11')} {MEET} bra OUT; LATER: {MEET} {GIVE.format(at='%r11')} OUT:"), "X006", ""),
        (paired(taken=MEET, given=f"{GIVE.format(at='%r11')} {MEET}"), "", ""),
    ],
    ids=[
        "nothing after alloc", "a barrier after alloc", "a barrier before dealloc", "arrivals after alloc", "the second allocation", "both ordered", "a relaxed barrier",
        "the other CTA stores", "it stores, then a barrier", "it loads", "it loads, then arrives", "it loads, waits and stores", "before the other CTA has begun", "one waits between", "both meet later",
    ],
)  # fmt: skip
def test_a_pair_gives_its_columns_back_in_order(body: str, found: str, remarks: str):
    done = run(Kernel("", body, cluster=2, arch="sm_100a", block=128))
    assert ({f.code for f in done.findings}, {f.code for f in done.remarks}) == ({*filter(None, [found])}, {*filter(None, [remarks])}), (
        done.text()
    )


def test_pairs_of_a_larger_cluster_are_told_apart():
    """The second pair of a cluster of four alone has no order: CTAs 2 and 3."""
    meets = f"setp.ge.u32 %p12, %r4, 2; @%p12 bra X; {TELL_PEER} X: bar.sync 0;"
    (found,) = run(Kernel("", paired(taken=meets), cluster=4, arch="sm_100a", block=128)).findings
    assert found.code == "X012"
    assert "of CTA 2" in found.message or "of CTA 3" in found.message
    assert run(Kernel("", paired(taken=TELL_PEER), cluster=4, arch="sm_100a", block=128)).findings == []


BEHIND_A_RELAXED_WAIT = {
    "": False,
    "bar.warp.sync -1;": False,  # it orders the lanes of a warp
    "bar.arrive 1, 128;": False,  # nobody waits there
    "bar.sync 0;": True,
    "barrier.sync 3;": True,
    "bar.sync 2, {threads};": True,
    "bar.red.popc.u32 %r40, 0, %p1;": True,
    "membar.cta;": True,
    "fence.acq_rel.cta;": True,
    "fence.sc.cluster;": True,
    MEET: True,
}


@pytest.mark.parametrize("behind", BEHIND_A_RELAXED_WAIT)
@pytest.mark.parametrize("warps", [1, 2, 3])
def test_what_makes_the_bytes_of_a_relaxed_wait_visible(behind, warps):
    """All warps wait; of three the last one has gone to the end, or comes to the barriers of all without a wait."""
    skips = "setp.ge.u32 %p12, %r1, 64; @%p12 bra END;" if warps == 3 else ""
    ends = f"END: {behind}" if behind in ("bar.sync 0;", "barrier.sync 3;", "bar.red.popc.u32 %r40, 0, %p1;", MEET) else "END:"
    threads = 32 * min(warps, 2)
    text = f"{init()} bar.sync 0; {skips} {LOAD} {RELAXED} {behind.format(threads=threads)} {READ} bra DONE; {ends if warps == 3 else ''} DONE:"
    found = codes_of(Kernel("", text, block=32 * warps))
    assert found == [("X004", "wrong")] * (not BEHIND_A_RELAXED_WAIT[behind])


def bulk_groups(seed: int) -> list[tuple[str, int]]:
    """Bulk stores, each a group, and waits for all groups but some, for what they read or for all of it."""
    rng, steps = random.Random(seed), list[tuple[str, int]]()
    for _ in range(rng.randint(4, 9)):
        stores = sum(what == "store" for what, _ in steps)
        steps.append(("store", stores) if stores < 6 and rng.random() < 0.5 else (rng.choice((".read", "")), rng.randint(0, 3)))
    return steps


@pytest.mark.parametrize("seed", [0, 1, 4, 6, 10, 12, 19, 21, 25, 33])
def test_a_source_is_free_again_behind_any_wait_that_counts_its_group(seed):
    steps, free, stores = bulk_groups(seed), set[int](), 0
    lines = ["@%p1 st.shared.u32 [sm], 1; st.shared.u32 [%r6], %r3; fence.proxy.async.shared::cta; bar.warp.sync -1;"]
    for what, n in steps:
        if what == "store":
            lines.append(
                f"@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1+{16 * n}], [%r5+{16 * n}], 16; @%p1 cp.async.bulk.commit_group;"
            )
            stores += 1
        else:
            lines.append(f"@%p1 cp.async.bulk.wait_group{what} {n};")
            free |= set(range(stores - n))
    for n in range(stores):
        found = codes_of(Kernel("", " ".join([*lines, f"@%p1 st.shared.u32 [sm+{16 * n}], 7;"]), block=32))
        assert [one for one in found if one[1] != "note"] == [("X005", "wrong")] * (n not in free), (steps, n)


# ---- multicast pipelines whose consumers arrive at the mbarriers of both CTAs (rule order.sibling_arrivals)

BOTH_AT_ONCE = """setp.lt.u32 %p12, %r3, 2; mapa.shared::cluster.u32 %r26, %r12, %r3; bar.warp.sync -1;
@%p12 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r26];"""
ONE_OF = "mapa.shared::cluster.u32 %r26, %r12, {}; bar.warp.sync -1; @%p4 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r26];"


def multicast_ring(arrive: str = BOTH_AT_ONCE, *, is_early: bool = False, stages: int = 2, tiles: int = 6) -> str:
    """Both CTAs load half of each tile, and CTA 0 the other half for both; one warp of each CTA adds them up and frees
    the stage of both.
    """
    read = f"ld.shared.u32 %r23, [%r13]; ld.shared.u32 %r25, [%r13+128]; add.u32 %r9, %r9, %r23; add.u32 %r9, %r9, %r25; {PROXY}"
    inits = " ".join(init(1 + n // stages, f"[bar+{8 * n}]") for n in range(2 * stages))
    full, free = waits("[%r11]", "%r21", label="FULL"), waits("[%r12]", "%r22", label="FREE")
    return f"""{inits} fence.mbarrier_init.release.cluster; {MEET} setp.eq.u32 %p13, %r4, 0; mov.u16 %h1, 3; mov.u32 %r20, 0; mov.u32 %r9, 0; mov.u32 %r10, bar;
    NEXT: rem.u32 %r24, %r20, {stages}; mad.lo.u32 %r11, %r24, 8, %r10; add.u32 %r12, %r11, {8 * stages}; div.u32 %r21, %r20, {stages}; and.b32 %r21, %r21, 1;
    xor.b32 %r22, %r21, 1; mad.lo.u32 %r14, %r24, 256, %r5; mad.lo.u32 %r13, %r3, 4, %r14; @%p3 bra EAT; {free}
    @!%p4 bra MORE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256; mul.wide.u32 %rd5, %r20, 128; add.u64 %rd5, %rd5, %rd2; add.u32 %r15, %r14, 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd5], 128, [%r11];
    @%p13 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r15], [%rd5], 128, [%r11], %h1; bra MORE;
    EAT: {arrive if is_early else ""} {full} {read} {"" if is_early else arrive}
    MORE: add.u32 %r20, %r20, 1; setp.lt.u32 %p11, %r20, {tiles}; @%p11 bra NEXT; @%p3 bra END; bra OUT; END: {RESULT} OUT: {MEET}"""


@pytest.mark.parametrize(("stages", "tiles"), [(2, 6), (3, 8)])
def test_lanes_that_free_the_stage_of_both_ctas_are_a_remark(stages: int, tiles: int):
    right = Kernel("", multicast_ring(stages=stages, tiles=tiles), cluster=2)
    assert codes_of(right) == [("X010", "note")]
    wrong = Kernel("", multicast_ring(is_early=True, stages=stages, tiles=tiles), cluster=2)
    assert ("X008", "wrong") in codes_of(wrong)


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("rank", ["div.u32 %r28, %r3, {lanes};", "and.b32 %r28, %r3, 1;"], ids=["side by side", "in turn"])
def test_several_lanes_and_arrivals_free_the_stage_of_each_cta(lanes: int, count: int, rank: str):
    """However the arrivals of a phase are shared out among lanes and their counts: with one more expected it hangs."""
    arrive = f"""setp.lt.u32 %p12, %r3, {2 * lanes}; {rank.format(lanes=lanes)} mapa.shared::cluster.u32 %r26, %r12, %r28; bar.warp.sync -1;
@%p12 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r26], {count};"""

    def ring(expected: int) -> str:
        return re.sub(r"(mbarrier\.init\S* \[bar\+(?:16|24)\]), 2", rf"\1, {expected}", multicast_ring(arrive))

    assert codes_of(Kernel("", ring(2 * lanes * count), cluster=2)) == [("X010", "note")]
    assert "X006" in {code for code, _ in codes_of(Kernel("", ring(2 * lanes * count + 1), cluster=2))}


def test_the_lane_that_frees_one_cta_after_the_other():
    """A warp that knows that the first arrival has come knows nothing of the second one; of the first it does where it
    knows the second.
    """
    first_own, first_other = (ONE_OF.format(a) + ONE_OF.format(b) for a, b in (("%r4", "%r27"), ("%r27", "%r4")))
    begin = "xor.b32 %r27, %r4, 1;"
    assert codes_of(Kernel("", begin + multicast_ring(first_own), cluster=2)) == []
    assert codes_of(Kernel("", begin + multicast_ring(first_other), cluster=2)) == [("X010", "trap")]


def test_every_schedule_agrees_on_multicast_pipelines():
    assert {severity for _, severity in codes_of(Kernel("", multicast_ring(), cluster=2), schedule="all:2")} <= {"note"}
    assert "X008" in {code for code, _ in codes_of(Kernel("", multicast_ring(is_early=True), cluster=2), schedule="all:2")}


# ---- many asynchronous readers


SEEDS = (0, 1, 3, 5, 9, 12, 17, 18, 22, 42, 48)


@pytest.mark.parametrize(("seed", "cluster"), [*((seed, 1) for seed in SEEDS), (42, 2), (48, 2)])
def test_every_unfinished_reader_counts(seed, cluster):
    """Random kernels of up to five warpgroups, whose stores, copies and products read one tile: an overwrite is told of
    those that it has not waited for.
    """
    assert Drawn(seed, cluster).disagreement() == ""


def test_the_random_kernels_are_right_and_wrong_ones():
    drawn = [Drawn(seed) for seed in SEEDS]
    assert {len(d.late) for d in drawn} >= {0, 1, 2}
    assert {(d.arch, d.end is None) for d in drawn} == {(arch, right) for arch in ("sm_90a", "sm_100a") for right in (True, False)}
    assert {d.apart >= 0 for d in drawn} == {d.ctas > 1 for d in drawn} == {d.rounds > 1 for d in drawn} == {True, False}


@pytest.mark.parametrize("seed", [9, 12])
def test_other_orders_and_tiers_agree_about_readers(seed, monkeypatch):
    def is_wrong(**how: object) -> bool:
        return any("ends while" not in f.message for f in Drawn(seed).run(**how))

    told = is_wrong()
    assert is_wrong(schedule="latest") == told == is_wrong(schedule=seed)
    monkeypatch.setenv("SMEMSIM_TIERS", "closures")
    assert Drawn(seed).disagreement() == ""


STORED_LATE = f"""{init(32)} bar.sync 0; @!%p2 bra TAKE; mbarrier.arrive.shared::cta.b64 _, [bar]; st.shared.u32 [%r8], %r3; bra OUT;
TAKE: {waits()} ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"""


CLUSTER_LATE = f"""barrier.cluster.arrive.release.aligned; @%p2 st.shared.u32 [%r8], %r3; barrier.cluster.wait.acquire.aligned;
@!%p3 bra OUT; ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"""


def named_late(arrives: str, waits_at: str) -> str:
    """Warp 0 arrives at a named barrier, and stores what warp 1 reads behind it."""
    return f"@!%p2 bra TAKE; {arrives} st.shared.u32 [%r8], %r3; bra OUT; TAKE: {waits_at} ld.shared.u32 %r9, [%r8]; {RESULT} OUT:"


@pytest.mark.parametrize(
    ("body", "repair"),
    [
        (ring(read_first=False), "move mbarrier.arrive of line"),
        (STORED_LATE, "move mbarrier.arrive of line"),
        (named_late("bar.arrive 1, 64;", "bar.sync 1, 64;"), "move bar.arrive of line"),
        (named_late("barrier.arrive.aligned 3, 64;", "barrier.sync.aligned 3, 64;"), "move barrier.arrive.aligned of line"),
        (named_late("bar.arrive 1, 64;", "bar.sync 2, 32;"), "put a barrier"),  # nobody waits for it
        (CLUSTER_LATE, "move barrier.cluster.arrive.release.aligned of line"),
        (ring(free=" "), "put a barrier"),  # the producer has not waited for the arrival
        (
            ring(arrive="mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r12];"),
            ".release in place of .relaxed in the mbarrier.arrive of line",
        ),
        (handed("", ACQ), ".release in place of .relaxed in the mbarrier.arrive of line"),
        (handed(ACQ, ""), ".acquire instead of .relaxed in line"),  # the wait is relaxed too
    ],
)
def test_the_repair_names_the_arrival_that_does_not_release_the_access(body, repair):
    found = next(f for f in run(Kernel("", body)).findings if f.code == "X008")
    assert found.repair.startswith(repair)


LONE = "sub.u32 %r10, 95, %r1; setp.lt.u32 %p9, %r1, 64; @!%p9 bra OUT; mad.lo.u32 %r10, %r10, 4, %r5; ld.shared.u32 %r9, [%r10];"


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(("arrives", "count"), [("", 96), ("@%p4", 3)])
def test_the_repair_names_the_count_of_an_mbarrier_that_counts_too_few(arrives, count, grid):
    """Three warps arrive; with a count of two warps the phase ends before the third one has."""

    def told(first: int) -> list[str]:
        body = f"{init(first)} bar.sync 0; st.shared.u32 [%r6], %r3; bar.warp.sync -1; {arrives} mbarrier.arrive.shared::cta.b64 _, [bar]; {waits()} {LONE} {RESULT} OUT:"
        return [f"{f.code} {f.repair}" for f in run(Kernel("", body, block=96, grid=grid)).findings]

    assert told(count) == []
    (found,) = told(count * 2 // 3)
    assert found.startswith(f"X008 {count} instead of {count * 2 // 3} arrivals in mbarrier.init of line")


TOO_LATE = f"""{tensor(" ")} {waits(label="LATE")}"""
ONE_WAITS = f"{init()} bar.sync 0; {LOAD} @!%p2 bra R; {waits()} R: {READ}"


@pytest.mark.parametrize(
    ("kernel", "why", "repair"),
    [
        (Kernel("", flagged(RAISE, VOLATILE, before="membar.cta;")), r"line \d+ \(ld.volatile.shared.u32\) reads the flag without a fence of a wide", r"fence.acq_rel.cta \(__threadfence_block\) after line \d+, or ld.acquire instead of ld.volatile"),
        (Kernel("", flagged(RAISE, VOLATILE, after="membar.cta;")), r"line \d+ \(st.volatile.shared.u32\) sets the flag", r"before line \d+, or st.release instead of st.volatile"),
        (Kernel("", flagged(RELEASE, LOOSE)), "is .relaxed, not .acquire: so the flag orders nothing", ".acquire instead of .relaxed"),
        (Kernel("", flagged("st.relaxed.cta.shared.u32 [sm+1024], 1;", "ld.acquire.cta.shared.u32 %r15, [sm+1024];")), "nothing orders", r"if line \d+ sets a flag: .release instead of .relaxed there; or put a barrier"),
        (Kernel("", ONE_WAITS), r"warp 0 has waited for it in line (\d+), warp 1 has not, and no barrier after line \1 orders", r"before line (\d+): mbarrier.try_wait.parity on the load's mbarrier bar\[0\] \(0x\w+\) in warp 1 too; or a barrier of both warps .* and line \1"),
        (Kernel("", tensor(" "), block=128, arch="sm_100a"), "no thread has waited for it yet", r"^wait for the mbarrier of tcgen05.commit in line \d+ \(mbarrier.try_wait\) before line \d+$"),
        (Kernel("", TOO_LATE, block=128, arch="sm_100a"), "no thread has waited for it yet", r"of tcgen05.commit in line \d+ \(mbarrier.try_wait\) before line \d+ \(the wait in line \d+ comes too late\)"),
        (Kernel("", tensor(meet=""), block=128, arch="sm_100a"), "nothing orders the two", r"^bar.sync \(__syncthreads\) after tcgen05.wait::ld of line \d+, before line \d+$"),
        (Kernel("", tensor(done="", meet="bar.sync 0;"), block=128, arch="sm_100a"), r"^warps 1 to 3 have not executed tcgen05.wait::ld", "then a barrier"),
    ],
)  # fmt: skip
def test_a_finding_says_what_is_there_and_before_which_line_the_rest_must_stand(kernel, why, repair):
    found = run(kernel, try_fixes=False).findings[0]
    assert found.code in ("X004", "X008", "X012")
    assert re.search(why, found.why), found.why
    assert re.search(repair, found.repair), found.repair


def copied_late(wait: str) -> str:
    """cp.async, `wait`, and then another cp.async into the word that the thread reads next."""
    return f"""mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r6+1024], [%rd5], 4; cp.async.commit_group;
    {wait} ld.shared.u32 %r9, [%r6]; {RESULT}"""


COPY_NEXT = "cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.commit_group;"
PENDING = r"^cp.async.wait_group 1 of line \d+ leaves it pending$"
AFTER_WAIT = (
    r"^its group is committed after cp.async.wait_group {} of line \d+, and no wait comes after that: it writes into the stage that is read"
)


@pytest.mark.parametrize(
    ("wait", "why", "repair"),
    [
        (f"{COPY_NEXT} cp.async.wait_group 0;", "", ""),
        (f"{COPY_NEXT} cp.async.wait_group 1;", PENDING, "^cp.async.wait_group 0 instead of 1"),
        (
            f"cp.async.wait_group 1; {COPY_NEXT}",
            AFTER_WAIT.format(1),
            "^before line .*wait_group 0.*; or if the bytes are for a later round",
        ),
        (
            f"cp.async.wait_group 0; {COPY_NEXT}",
            AFTER_WAIT.format(0),
            "^before line .*wait_group 0.*; or if the bytes are for a later round",
        ),
    ],
)
def test_a_wait_before_a_copy_is_not_its_wait(wait, why, repair):
    found = run(Kernel("", copied_late(wait)), try_fixes=False).findings
    assert [f.code for f in found] == ["X004"] * bool(why)
    assert all(re.search(why, f.why) and re.search(repair, f.repair) for f in found), [(f.why, f.repair) for f in found]


@pytest.mark.parametrize(("block", "others"), [(64, True), (32, False)])
def test_a_source_that_other_warps_overwrite_needs_a_barrier_after_the_wait(block, others):
    """The threads of the copy's warp can wait themselves."""
    found = run(Kernel("", stored_by(wait="@%p14"), block=block), try_fixes=False).findings
    assert ["and then a barrier: other warps" in f.repair for f in found if f.code == "X005"] == [others]


COMMITS = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
TWO_BARRIERS = f"{waits()} @!%p3 bra NOT; {waits('[bar+8]', label='V')} NOT: {AFTER}"


@pytest.mark.parametrize(("first", "is_right"), [(f"{COMMITS} [bar]", True), ("mbarrier.arrive.shared::cta.b64 _, [bar]", False)])
def test_an_arrival_in_place_of_a_commit_is_the_fault_also_if_another_warp_has_waited(first, is_right):
    """Warp 1 waits for a commit, too; the others wait for the arrival."""
    body = tensor(TWO_BARRIERS, second=f"@%p11 {first}; @%p11 {COMMITS} [bar+8];").replace(init(), init() + init(at="[bar+8]"))
    found = run(Kernel("", body, block=128, arch="sm_100a"), try_fixes=False).findings
    assert bool(found) != is_right
    for f in found:
        assert re.search(r"^the wait in line \d+ is for mbarrier.arrive.* in line \d+, which does not wait for the operation", f.why), f.why
        assert f.repair.startswith("tcgen05.commit instead of mbarrier.arrive"), f.repair


COMMIT = f"@%p11 {COMMITS} [bar];"
COPY_AGAIN = f"@%p11 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5; @%p11 {COMMITS} [bar+8];"


@pytest.mark.parametrize("is_right", [True, False])
def test_cells_that_are_written_again_before_they_are_read_may_need_a_wait_for_the_readers(is_right):
    """Four warps wait for a copy, and load it; the second copy into the same columns waits for them, or does not."""
    again, end = (f"{BEFORE} bar.sync 0; {AFTER} {COPY_AGAIN}", "") if is_right else ("", COPY_AGAIN)
    body = tensor(f"{waits()} {AFTER} {end}", f"{again} {waits('[bar+8]', label='V')} {IN_TURN}")
    body = body.replace(init(), init() + init(at="[bar+8]"))
    found = run(Kernel("", body, block=128, arch="sm_100a"), try_fixes=False).findings
    assert bool(found) != is_right
    for f in found[:1]:
        assert f.code == "X012"
        assert re.search(
            r"^wait for the mbarrier of tcgen05.commit in line .*; or if line (\d+) should come before that operation: "
            r"before .*, wait for a barrier at which this warp arrives after line \1$", f.repair
        ), f.repair  # fmt: skip


STAGE_IS_LOADED = """@%p12 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
@%p12 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd2], 1024, [bar];"""
STAGE_IS_FREED = f"@%p11 {COMMITS} [bar+8];"
STAGE_IS_LOADED_AGAIN = f"""@!%p3 bra N; {waits("[bar+8]", label="E")} {STAGE_IS_LOADED.replace("%rd2", "%rd2+16")} @%p12 mbarrier.arrive.shared::cta.b64 _, [bar+16]; N: @!%p2 bra M;
{waits("[bar+16]", label="G")} M:"""


@pytest.mark.parametrize("is_right", [True, False])
def test_a_commit_that_frees_a_stage_before_the_stage_is_read_is_moved(is_right):
    """Warp 1 loads a stage, waits until it is free, and loads it again; warp 0 copies it to tensor memory before."""
    copy, done = "@%p11 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5;", f"@%p11 {COMMITS} [bar+24];"
    parts = (
        (f"{copy}\n{STAGE_IS_FREED}", f"{STAGE_IS_LOADED_AGAIN} {done}")
        if is_right
        else (STAGE_IS_FREED, f"{STAGE_IS_LOADED_AGAIN}\n{copy} {done}")
    )
    body = tensor(f"{waits('[bar+24]', label='V')} {AFTER}", f"@%p2 st.global.u32 [%rd1], %r20; {IN_TURN} {waits(parity='1', label='Q')}")
    assert f"{copy} {COMMIT}" in body
    body = body.replace(f"{copy} {COMMIT}", f"{STAGE_IS_LOADED} {waits()}\n{parts[0]}\n{parts[1]}")
    body = body.replace(init(), init() + "".join(init(at=f"[bar+{at}]") for at in (8, 16, 24)))
    found = run(Kernel("", body, block=128, arch="sm_100a"), try_fixes=False).findings
    assert {f.code for f in found} == (set() if is_right else {"X004"}), found
    for f in found:
        assert re.search(r"^move tcgen05.commit\S* of line \d+ after .*line \d+: it arrives before that access is done; or ", f.repair), (
            f.repair
        )


SOURCE_AGAIN = f"{waits()} {AFTER} st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}};"


@pytest.mark.parametrize("is_right", [True, False])
def test_a_commit_before_its_operation_is_moved_after_it(is_right):
    """All wait for the commit, and then overwrite the source of the copy, and load the cells."""
    body = tensor(SOURCE_AGAIN)
    copy = "@%p11 tcgen05.cp.cta_group::1.128x256b [%r11], %rd5;"
    assert f"{copy} {COMMIT}" in body
    body = body if is_right else body.replace(f"{copy} {COMMIT}", f"{COMMIT} {copy}")
    found = run(Kernel("", body, block=128, arch="sm_100a"), try_fixes=False).findings
    assert {f.code for f in found} == (set() if is_right else {"X005", "X012"}), found
    for f in found:
        assert re.search(r"^move tcgen05.commit of line \d+ after .*: it covers only what is issued before it$", f.repair), f.repair


def turns_of_both(shift: int) -> str:
    """Three rounds: each of two CTAs sends a word to both and waits for both words; one mbarrier for all rounds (`shift`
    0), or two in turn (1). The words have two places in turn.
    """
    return f"""{init()} {init(at="[bar+8]")} fence.mbarrier_init.release.cluster; {MEET} mov.u32 %r20, 0; mov.u32 %r30, bar;
    N: and.b32 %r21, %r20, 1; shr.u32 %r22, %r20, {shift}; and.b32 %r22, %r22, 1; mad.lo.u32 %r23, %r21, {8 * shift}, %r30; mad.lo.u32 %r24, %r21, 8, %r5;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r23], 8; setp.lt.u32 %p12, %r1, 2; @!%p12 bra W; mad.lo.u32 %r25, %r4, 4, %r24;
    mapa.shared::cluster.u32 %r26, %r25, %r1; mapa.shared::cluster.u32 %r27, %r23, %r1;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r26], %r20, [%r27];
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p10, [%r23], %r22; @!%p10 bra W;
    ld.shared.u32 %r28, [%r24]; ld.shared.u32 %r29, [%r24+4]; add.u32 %r9, %r9, %r28; add.u32 %r9, %r9, %r29; bar.sync 0;
    add.u32 %r20, %r20, 1; setp.lt.u32 %p12, %r20, 3; @%p12 bra N; {RESULT} {MEET}"""


@pytest.mark.parametrize("shift", [1, 0])
def test_bytes_for_the_next_round_may_end_the_phase_of_another_cta_before(shift):
    """A CTA that has both words sends the next one, and the other CTA may still wait for its own."""
    found = run(Kernel("", turns_of_both(shift), cluster=2, grid=2), try_fixes=False).findings
    assert [f.code for f in found] == ["X010"] * (not shift)
    for f in found:
        assert "the bytes of st.async may count in phase 0 of the mbarrier" in f.what
        assert f.repair.startswith("two mbarriers in turn")


STORES_BACK = """setp.eq.u32 %p13, %r1, 32; @%p13 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 256;
@%p13 cp.async.bulk.commit_group; @%p13 cp.async.bulk.wait_group 0;"""


def third_load(meet: str) -> str:
    """Warp 0 loads three times and waits each time; warp 1 waits for the third load alone, and stores it."""
    first, second, third = (
        LOAD.replace("L:", f"L{n}:").replace("bra L;", f"bra L{n};") + waits(parity=str(n & 1), label=f"W{n}") for n in range(3)
    )
    return f"{init()} bar.sync 0; @%p3 bra B; {first} {second} {meet} {third} bra OUT; B: {meet} {waits(label='V')} {STORES_BACK} OUT:"


@pytest.mark.parametrize("meet", ["bar.sync 1, 64;", ""])
def test_a_wait_that_may_have_passed_two_phases_ago_needs_the_phase_between(meet):
    found = run(Kernel("", third_load(meet)), try_fixes=False).findings
    assert [f.code for f in found] == ["X004"] * (not meet)
    for f in found:
        assert "may have passed two phases ago, because the parity was the same" in f.why
        assert re.search(
            r"^before line \d+: mbarrier.try_wait.parity on the load's mbarrier bar\S* \(\S+\), for every phase in turn; or let", f.repair
        ), f.repair


def loaded_ring(early: str, late: str) -> str:
    """Warp 1 loads a stage twice, the second time when thread 0 has arrived at its mbarrier; warp 0 reads it."""
    return f"""{init()} {init(at="[bar+8]")} bar.sync 0; mov.u32 %r20, 0; mov.u32 %r21, 0; setp.eq.u32 %p13, %r1, 32; bra S;
    P: mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], 128, [bar];
    add.u32 %r21, %r21, 1; setp.lt.u32 %p12, %r21, 2; @!%p12 bra OUT; {waits("[bar+8]", label="WP")} bra P; S: @%p13 bra P; @%p3 bra OUT;
    C: {waits(parity="%r20", label="WC")} {early} ld.shared.u32 %r22, [%r6]; add.u32 %r9, %r9, %r22; fence.proxy.async.shared::cta; bar.warp.sync -1; {late}
    add.u32 %r20, %r20, 1; setp.lt.u32 %p12, %r20, 2; @%p12 bra C; {RESULT} OUT:"""


FREES = "@!%p1 bra K; mbarrier.arrive.shared::cta.b64 _, [bar+8]; K:"


@pytest.mark.parametrize(("early", "late"), [("", FREES), (FREES, "")])
def test_an_arrival_before_the_reads_of_a_loaded_stage_is_moved_after_them(early, late):
    found = run(Kernel("", loaded_ring(early, late)), try_fixes=False).findings
    assert [f.code for f in found if f.cause is None] == ["X004"] * bool(early)
    for f in found[:1]:
        assert re.search(r"^move mbarrier.arrive of line \d+ after line \d+: it arrives before", f.repair), f.repair


def read_first(meet: str) -> str:
    """Warp 1 reads what thread 0 stores, at once or after `meet`. The load comes first in the text."""
    return f"""bra S; R: ld.shared.u32 %r9, [sm+1024]; {RESULT} bra OUT;
    S: @%p3 bra {"T" if meet else "R"}; @%p1 st.shared.u32 [sm+1024], 7; T: {meet} @%p3 bra R; OUT:"""


@pytest.mark.parametrize("meet", ["bar.sync 0;", ""])
@pytest.mark.parametrize("first", ["", "@%p1 st.shared.u32 [sm+1024], 0; bar.sync 0;"])
def test_who_reads_first_what_nothing_has_written_should_read_later(meet, first):
    """If the word was written before, the store may overwrite it before it is read."""
    found = [f for f in run(Kernel("", first + read_first(meet)), try_fixes=False).findings if f.code == "X008"]
    assert len(found) == (not meet)
    for f in found:
        assert ("may be overwritten before it is read" in f.what, "may be read before it is written" in f.what) == (bool(first), not first)
        lines = re.findall(r"line (\d+)", f.repair)
        assert (int(lines[0]) < int(lines[1])) == bool(first), f.repair  # the read comes first in the text


def cells_in_turn(meet: str) -> str:
    """Warps 4 to 7 load cells; those of warps 0 to 3 store them. The loads come first in the text."""
    return f"""@!%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+56], 32; A: bar.sync 0; ld.shared.u32 %r11, [bar+56];
    and.b32 %r14, %r2, 3; shl.b32 %r14, %r14, 21; add.u32 %r14, %r14, %r11; setp.gt.u32 %p12, %r2, 3; bra.uni S;
    R: tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r14]; tcgen05.wait::ld.sync.aligned; {RESULT} bra END;
    S: @%p12 bra {"T" if meet else "R"}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {{%r3}}; tcgen05.wait::st.sync.aligned; T: {meet} @%p12 bra R;
    END: {BEFORE} bar.sync 1; {AFTER} @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;"""


@pytest.mark.parametrize("meet", [f"{BEFORE} bar.sync 0; {AFTER}", ""])
def test_who_loads_first_cells_that_nothing_has_written_should_load_later(meet):
    found = [f for f in run(Kernel("", cells_in_turn(meet), block=256, arch="sm_100a"), try_fixes=False).findings if f.code == "X012"]
    assert len(found) == (not meet)
    for f in found:
        assert "may be read before it is written" in f.what
        assert re.search(r"after tcgen05.wait::st of line \d+, and wait there before line \d+", f.repair), f.repair


def cells_read_first(issue: str, wait: str) -> str:
    """All load cells after `issue` and `wait`; then thread 0 has a tile copied there, for which all wait."""
    whole = tensor(f"{issue} {wait} {AFTER}", meet=f"{USED} {BEFORE} bar.sync 0; {AFTER} FILL {BEFORE} bar.sync 0; {AFTER}")
    fill = next(part for part in whole.split("\n") if "tcgen05.cp" in part).strip()
    last = fill if not issue else ""
    parity = "0" if not issue else "1"
    whole = whole.replace(fill, "") if not issue else whole
    return whole.replace("FILL", f"{last or fill} {waits(parity=parity, label='LAST')} {AFTER}")


@pytest.mark.parametrize(
    ("issue", "wait", "codes"),
    [(" ", waits(), []), ("", waits(parity="1"), ["R507"]), ("", "", ["R507"])],
    ids=["right", "parity 1", "no wait"],
)
def test_cells_that_a_wait_for_parity_1_does_not_wait_for_are_not_filled_yet(issue, wait, codes):
    """The copy is issued only after the loads: R507. If a wait passes at once, that is the cause."""
    found = run(Kernel("", cells_read_first(issue, wait), block=128, arch="sm_100a"), try_fixes=False).findings
    assert [f.code for f in found] == codes, [str(f) for f in found]
    for f in found:
        assert ("is for parity 1: it passes at once, before phase 0" in f.why, f.repair.startswith("parity 0 in")) == (bool(wait),) * 2, (
            f.why,
            f.repair,
        )


SECOND = "bar.sync 0; " + LOAD.replace("L:", "N:").replace("bra L", "bra N").replace("[sm]", "[sm+256]")


@pytest.mark.parametrize(
    ("kernel", "parity", "why"),
    [
        (lambda parity: Kernel("", f"{init()} bar.sync 0; {LOAD} {waits(parity=parity)} {READ}"), "0", "is for parity 1: it passes at once, before phase 0 of the mbarrier bar"),
        (lambda parity: Kernel("", f"{init()} bar.sync 0; mov.u32 %r20, {parity}; {LOAD} {waits(parity='%r20')} {READ}"), "0", "is for parity 1 in its first round: it passes at once, before phase 0 of"),
        (lambda parity: Kernel("", f"{init()} bar.sync 0; {LOAD} {waits()} {SECOND} {waits(parity=parity, label='V')} {READ.replace('%r6', '%r6+256')}"), "1", "is for parity 0: it passes at once, before the phase of this operation at the mbarrier bar"),
        (lambda parity: Kernel("", tensor(waits(parity=parity) + AFTER), block=128, arch="sm_100a"), "0", "is for parity 1: it passes at once, before phase 0 of"),
    ],
    ids=["a copy", "a parity in a register", "the second phase", "tcgen05.cp"],
)  # fmt: skip
def test_a_wait_for_the_other_parity_is_the_cause_of_an_early_read(kernel, parity, why):
    """If operations are late, such a wait passes at once. The threads have waited, and the fix is in their wait."""
    assert not run(kernel(parity), schedule="latest").findings
    found = run(kernel(str(1 - int(parity))), schedule="latest", try_fixes=False).findings
    found = [f for f in found if f.code in ("X004", "X012") and ".cp." not in f.halves[0].instruction.name]
    assert found
    assert all(re.search(rf"^the wait in line \d+ {why}", f.why) for f in found), found[0].why
    assert all(re.search(rf"^parity {parity} in line \d+", f.repair) for f in found), found[0].repair


@pytest.mark.parametrize(("leaves", "named"), [(4, "0 to 2 of"), (2, "0, 1 of")])
def test_the_row_of_arrivals_names_each_warp(leaves, named):
    """Warps that arrive at once, at a phase for more of them."""
    body = f"{init(128)} bar.sync 0; setp.lt.u32 %p9, %r1, {min(leaves, 3) * 32}; @%p9 mbarrier.arrive.shared::cta.b64 _, [bar]; {waits()}"
    found = next(f for f in run(Kernel("", body, block=128), try_fixes=False).findings if f.code == "X006")
    assert next(half.text for half in found.halves if half.does == "arrived").startswith(f"warps {named}")


@pytest.mark.parametrize(
    ("phases", "parity", "why", "repair"),
    [
        (1, "0", "", ""),
        (1, "1", "but only phase 0 is complete .*, and these threads have not waited for that phase", "wait for parity 0 in"),
        (
            2,
            "0",
            "because phases 0, 1 completed without a wait of these threads",
            "before they arrive again, let the arriving threads wait",
        ),
    ],
)
def test_a_phase_that_only_the_arriving_thread_has_waited_for_is_missed_by_others(phases, parity, why, repair):
    """Lane 0 of warp 0 arrives, and waits for its own phases; warp 1 comes later."""
    own = "".join(f"mbarrier.arrive.shared::cta.b64 _, [bar]; {waits(parity=str(n & 1), label=f'A{n}')}" for n in range(phases))
    body = f"{init()} bar.sync 0; @!%p1 bra N; {own} N: bar.sync 0; @!%p3 bra OUT; {waits(parity=parity, label='B')} OUT:"
    found = [f for f in run(Kernel("", body), try_fixes=False).findings if f.code == "X006"]
    assert len(found) == bool(why)
    for f in found:
        assert re.search(why, f.why), f.why
        assert f.repair.startswith(repair), f.repair


@pytest.mark.parametrize(("parity", "codes"), [("0", set()), ("1", {"X010"})])
def test_a_second_expectation_names_the_wait_that_passes_at_once(parity, codes):
    again = LOAD.replace("L:", "N:").replace("bra L", "bra N")
    body = f"{init()} bar.sync 0; {LOAD} {waits(parity=parity)} {READ} bar.sync 0; {again} {waits(label='V')}"
    found = run(Kernel("", body), schedule="latest", try_fixes=False).findings
    assert {f.code for f in found if f.code == "X010"} == codes
    for f in found:
        assert f.code != "X010" or ("for parity 1, which passes at once" in f.message and f.repair.startswith("parity 0 in line")), f


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (".shared .align 1024 .b8 sm[4096];", "sm (shared 0x400 to 0x4ff)"),
        (".shared .align 1024 .b8 _ZZ4gemmPfE4tile[4096];", "tile (shared 0x400 to 0x4ff)"),
        (".shared .align 1024 .b8 sm[128];\n.shared .b8 more[4096];", "shared 0x400 to 0x4ff"),  # it lies in two
        (".extern .shared .align 1024 .b8 sm[];", "shared 0x400 to 0x4ff"),
    ],
)
def test_a_range_in_one_static_array_has_its_name(declared, named):
    ptx = f""".version 8.8
.target sm_90a
.address_size 64
{declared}
.visible .entry k(.param .u64 out) {{
.reg .b32 %r<9>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, {"_ZZ4gemmPfE4tile" if "gemm" in declared else "sm"}; mov.u32 %r8, {"more" if "more" in declared else 0};
mad.lo.u32 %r3, %r1, 4, %r2; xor.b32 %r4, %r1, 32; mad.lo.u32 %r4, %r4, 4, %r2;
st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r4]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5; ret; }}"""
    gpu = smemsim.Gpu("sm_90a")
    done = gpu.launch(
        ptx, "k", block=64, shared_bytes=4096 * ("extern" in declared), args=[gpu.array(np.zeros(64, np.uint32))], progress=False
    )
    assert [f.what.startswith(f"{named} may be read") for f in done.findings] == [True]


BULK_STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 256;"
COPY = "mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd2; cp.async.ca.shared.global [%r6], [%rd5], 4;"
UNAWAITED = {  # an operation, its commit, what touches its words, and what follows its name in the repair: with the commit, by another thread, and without it
    "bulk": (f"st.shared.u32 [%r6], %r3; fence.proxy.async.shared::cta; bar.sync 0; {BULK_STORE}", "@%p1 cp.async.bulk.commit_group;", "st.shared.u32 [%r6], 1;", "cp.async.bulk.wait_group.read"),
    "cp.async": (COPY, "cp.async.commit_group;", READ.replace("%r6", "%r7"), "cp.async.wait_group"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNAWAITED)
def test_a_repair_proposes_no_commit_that_is_there(name):
    issues, commits, touches, waits_by = UNAWAITED[name]
    commit = commits.split()[-1].rstrip(";")

    def repair(*commits: str) -> str:
        body = f"{issues} {' '.join(commits)} bar.sync 0; {touches}"
        (found,) = (f.repair for f in run(Kernel("", body)).findings if f.code in ("X004", "X005"))
        before, _, said = found.partition(": ")
        assert re.fullmatch(r"before line \d+", before)
        return said

    assert repair(commits).startswith(f"{waits_by} 0")
    assert repair(commits, commits).startswith(f"{waits_by} 1")
    assert re.match(rf"{re.escape(commit)}(,| and) {re.escape(waits_by)} 0", repair())
    by_others = f"{'@%p3' if name == 'bulk' else '@%p2'} {commit};"
    assert f"in the thread that executes {commit} in line" in repair(by_others)


def test_a_finding_names_the_wait_and_not_the_branch_on_the_same_line():
    """Inline assembly has a wait and its branch on one line."""
    gpu = smemsim.Gpu("sm_90a")
    text = f"{init(1)} bar.sync 0; @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];".replace("; ", ";\n") + "\n" + waits()
    text += "\n@%p1 mbarrier.inval.shared::cta.b64 [bar];\nret;\n}\n"
    arrays = [gpu.array(np.zeros(64, np.uint32)) for _ in range(2)]
    (found,) = gpu.launch(HEAD.format(arch="sm_90a") + text, "k", block=64, args=arrays, progress=False).findings
    assert found.code == "X008"
    assert "(mbarrier.try_wait.parity.shared::cta.b64)" in found.message


@pytest.mark.parametrize(("expected", "hangs"), [(128, True), (256, False)])
def test_too_few_expected_bytes_say_what_a_card_does(expected, hangs):
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm{0}], [%rd2], 128, [bar];"
    load = f"@!%p1 bra L; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected}; {copy.format('')} {copy.format('+128')} L:"
    told = [f.message for f in run(Kernel("", f"{init()} bar.sync 0; {load} {waits()} {READ}")).findings if f.code == "T210"]
    assert ["an H200 hung" in message for message in told] == [True] * hangs


@pytest.mark.parametrize("more", ["copy", "complete_tx"])
@pytest.mark.parametrize("is_counted", [False, True])
def test_bytes_that_the_own_cta_brings_too_much_are_not_of_another_one(more, is_counted):
    """The surplus comes to the place of a counted copy, or by mbarrier.complete_tx."""
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], {0}, [bar];"
    first = copy.format(64) if more == "copy" else "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;"
    load = f"@!%p1 bra L; {first} mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {192 if is_counted else 128}; {copy.format(128)} L:"
    told = [f.message for f in run(Kernel("", f"{init()} bar.sync 0; {load} {waits()}")).findings if f.code == "T210"]
    assert ["expects 128 bytes, and 192 arrive" in message for message in told] == [True] * (not is_counted)


@pytest.mark.parametrize(("count", "codes"), [(64, []), (1, ["X010"])])
def test_arrivals_that_a_phase_does_not_expect_take_the_place_of_those_of_copies(count, codes):
    """Each cp.async.mbarrier.arrive adds an arrival, and makes it later. The other arrivals of the phase are `count`."""
    arrive = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;" if count == 1 else "mbarrier.arrive.shared::cta.b64 _, [bar];"
    body = f"{init(count)} bar.sync 0; cp.async.mbarrier.arrive.shared::cta.b64 [bar]; {arrive}"
    for schedule in ("latest", 3):
        assert [f.code for f in run(Kernel("", body), schedule=schedule).findings] == codes


# Each CTA stores words and reads those of the other one; `between` stands between the two.
SWAPPED = """mov.u32 %r30, %ctaid.x; mad.lo.u32 %r31, %r30, 64, %r1; mul.wide.u32 %rd5, %r31, 4; add.u64 %rd6, %rd5, %rd1; xor.b32 %r32, %r31, 64;
mul.wide.u32 %rd7, %r32, 4; add.u64 %rd7, %rd7, %rd1; st.global.u32 [%rd6], %r1; {} ld.global.u32 %r9, [%rd7]; st.global.u32 [%rd6+2048], %r9; {}"""
MEETS = """{} @!%p1 bra N; atom.add.acq_rel.gpu.global.u32 %r40, [%rd2+1024], 1;
W: ld.acquire.gpu.global.u32 %r41, [%rd2+1024]; setp.lt.u32 %p10, %r41, 2; @%p10 bra W; N: {}"""
SETS = """{} {} W: ld.acquire.gpu.global.u32 %r41, [%rd2+1024]; setp.lt.u32 %p10, %r41, 2; @%p10 bra W;"""
ADDS = "atom.add.acq_rel.gpu.global.u32 %r40, [%rd2+1024], 1;"


@pytest.mark.parametrize(
    ("between", "end", "said"),
    [
        ("", "", ""),
        ("@!%p1 bra N; atom.global.add.u32 %r40, [%rd2+1024], 1; N:", "", ""),  # of a histogram: no flag
        (MEETS.format("bar.sync 0;", "bar.sync 0;"), "", None),
        (MEETS.format("bar.sync 0;", ""), "", "read the flag"),
        (SETS.format("bar.sync 0;", f"@%p1 {ADDS}"), "exit;", None),
        (SETS.format("bar.warp.sync -1;", f"@%p1 {ADDS}"), "", "set the flag"),
        (SETS.format("bar.warp.sync -1;", f"@!%p1 bra N; {ADDS} N:"), "exit;", "set the flag"),
    ],
)
def test_threads_that_alone_read_or_set_a_flag_are_named(between, end, said):
    found = run(Kernel("", SWAPPED.format(between, end), grid=2)).findings
    assert [f.code for f in found] == ["X008"] * (said is not None)
    assert all(("only the threads that execute" in f.why) == bool(said) and (said or "") in f.why for f in found), [f.why for f in found]


# Warp 0 reads a word of a tile, and maybe one of another buffer first, without a fence; warp 1 reads the word with a fence.
UNFENCED = READ_BY_TWO.replace("@!%p2 bra R; ld.shared.u32", "@!%p2 bra R; {other} ld.shared.b32").format("", PROXY, other="{other}")


@pytest.mark.parametrize("other", ["", "ld.shared.u32 %r18, [sm+2048];"])
def test_a_load_of_another_buffer_is_not_the_one_without_a_fence(other):
    (found,) = run(Kernel("", f"st.shared.u32 [sm+2048], 1; {UNFENCED.format(other=other)}")).remarks
    named = [half.instruction for half in found.halves if half.does == "read"]
    assert found.code == "X003"
    assert [i and i.name for i in named] == [None if other else "ld.shared.b32"]
    assert ("remove the read" in found.repair) == (not other)


@pytest.mark.parametrize(("read", "beside"), [("sm", ""), ("sm+4", "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32")])
def test_an_asynchronous_writer_is_named_and_not_the_fence_on_its_line(read, beside):
    sends = "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r11], 7, [%r12];fence.proxy.async;"
    done = run(Kernel("", f"""{init()} bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4; mov.u32 %r12, bar; bar.sync 0;
    mapa.shared::cluster.u32 %r11, %r5, %r4; mapa.shared::cluster.u32 %r12, %r12, %r4; {sends} {waits()} ld.shared.u32 %r9, [{read}]; {RESULT}"""))  # fmt: skip
    assert [f.code for f in done.findings] == ["R507"] * bool(beside)
    assert all(f"({beside}) has written only bytes next to them" in f.repair for f in done.findings)


def accesses(f: smemsim.Finding) -> tuple[str, ...]:
    """The instructions of the accesses of a finding."""
    return tuple(half.instruction.text for half in f.halves if half.instruction is not None)


def on_lines(
    kernel: Kernel, text: str, of: Callable[[smemsim.Finding], tuple[str, ...]] = accesses
) -> list[tuple[str, str, tuple[str, ...]]]:
    """What is found in a kernel with this body: codes, instructions, and more of each finding."""
    gpu = smemsim.Gpu(kernel.arch)
    arrays = [gpu.array(np.zeros(1024, np.uint32)), gpu.array(np.arange(1024, dtype=np.uint32))]
    shape = {"grid": kernel.grid or kernel.cluster, "block": kernel.block, "cluster": kernel.cluster}
    done = gpu.launch(f"{HEAD.format(arch=kernel.arch)}{text}\nret;\n}}\n", "k", args=arrays, progress=False, **shape)
    return sorted((f.code, f.instruction, of(f)) for f in (*done.findings, *done.remarks))


@pytest.mark.parametrize(
    "kernel", dict.fromkeys([*(k for k in KERNELS if k.grid or "copies A" in k.name), *KERNELS[:: 5 * SPARSE]]), ids=lambda k: k.name
)
def test_a_kernel_on_one_line_is_told_the_same(kernel):
    """Inline assembly has many instructions on one line of PTX."""
    found = on_lines(kernel, kernel.body.replace("; ", ";\n"))
    assert {code for code, _, _ in found} >= {kernel.found, kernel.remarks} - {""}
    assert on_lines(kernel, kernel.body.replace("\n", " ")) == found


def test_a_relaxed_wait_is_named_among_others_on_its_line():
    ((_, _, found),) = on_lines(Kernel("", ""), loaded(RELAXED).replace("\n", " "), lambda f: (f.why, f.repair))
    assert ".relaxed" in found[0]
    assert ".acquire instead of .relaxed" in found[1]
