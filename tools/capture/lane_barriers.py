"""Lanes that come to a barrier without their warp, on the card: does the kernel end?

    python -m tools.capture.lane_barriers --out OUT [--seconds 480] [--jobs 14]

Small kernels of one or two warps, alone or in a cluster of two: some lanes of a warp execute a barrier, then the warp
goes on to another instruction. Each kernel runs several times. One that has not ended after `PATIENCE` seconds hangs.
Its process is stopped, and the others go on in a new one. OUT gets `lanes_at_barriers/` (manifest.json, data.npz) and
`lanes_at_barriers.txt`, a line for each kernel.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import itertools
import multiprocessing
import pathlib
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.evidence.format import write_suite
from smemsim.run.engine.launch import LaunchConfig
from tools.capture.launch_suite import assembler, ptxas, ragged

__all__ = ["Kernel", "kernels", "main"]

SUITE = "lanes_at_barriers"
TITLE = "Kernels in which lanes come to a barrier without their warp: which of them end, and what they leave"
PATIENCE = 7.0  # seconds in which a kernel has to end
START = 90.0  # seconds in which a process has to begin
RUNS = 6
BYTES = 4096  # of the array
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a) {
.reg .pred %p<12>; .reg .b32 %r<40>; .reg .b64 %d<24>;
.shared .align 16 .b8 s[1024];
.shared .align 8 .b64 m;
ld.param.u64 %d1, [a]; mov.u32 %r0, %tid.x; and.b32 %r5, %r0, 31; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ntid.x;
mad.lo.u32 %r6, %r6, %r7, %r0; mul.wide.u32 %d2, %r6, 4; add.u64 %d1, %d1, %d2; shr.u32 %r4, %r0, 5; mov.u32 %r23, 0;
mov.u32 %r30, s; mov.u32 %r31, m;
setp.eq.u32 %p0, %r0, 0; setp.ne.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r5, 3; setp.lt.u32 %p3, %r5, 16; setp.ge.u32 %p4, %r5, 16;
setp.eq.u32 %p5, %r4, 0; setp.eq.u32 %p6, %r4, 1;
"""
TAIL = "\nst.global.u32 [%d1], 7;\nret;\n}\n"


class Kernel(NamedTuple):
    """A kernel: its warps, the CTAs of its cluster, and what lies between `HEAD` and `TAIL`."""

    warps: int
    cluster: int
    body: str

    @property
    def ptx(self) -> str:
        """The whole text."""
        return HEAD + self.body + TAIL


LANES = {
    "thread 0": "@%p0 ", "all but thread 0": "@%p1 ", "lane 3": "@%p2 ", "lanes 0-15": "@%p3 ", "lanes 16-31": "@%p4 ", "warp 0": "@%p5 ", "all": "",
}  # fmt: skip
PARTS = ("thread 0", "all but thread 0", "lane 3", "lanes 0-15", "lanes 16-31")
THEN = {"exit": "", "bar.sync": "bar.sync 0;", "warp.sync": "bar.warp.sync -1;", "barrier.sync": "barrier.sync 0;"}
GIVE = "st.global.u32 [%d1+1024], %r20;"  # the result of an instruction
LEADER = "setp.eq.u32 %p9, %r20, 99; @%p9 st.global.u32 [%d1+1024], %r20;"  # a use of one that the PTX ISA leaves open
# what the whole warp comes to
NEXT = {
    "exit": "",
    "barrier.arrive 4": "barrier.arrive 4, 64;",
    "barrier.arrive 4; bar.sync": "barrier.arrive 4, 64; bar.sync 0;",
    "barrier.arrive of the same": "barrier.arrive 3, 64;",
    "barrier.arrive.aligned": "barrier.arrive.aligned 4, 64;",
    "bar.arrive": "bar.arrive 4, 64;",
    "barrier.sync 4": "barrier.sync 4;",
    "barrier.red": f"barrier.red.popc.u32 %r20, 4, %p3; {GIVE}",
    "bar.red": f"bar.red.popc.u32 %r20, 4, %p3; {GIVE}",
    "barrier.cluster.arrive": "barrier.cluster.arrive;",
    "barrier.cluster.arrive.aligned": "barrier.cluster.arrive.aligned;",
    "barrier.cluster.arrive.relaxed": "barrier.cluster.arrive.relaxed;",
    "barrier.cluster.arrive, wait": "barrier.cluster.arrive; barrier.cluster.wait;",
    "barrier.cluster.arrive, wait, aligned": "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "shfl": f"shfl.sync.bfly.b32 %r20, %r0, 1, 31, -1; {GIVE}",
    "shfl of halves": f"selp.b32 %r21, 0xffff, 0xffff0000, %p3; shfl.sync.bfly.b32 %r20, %r0, 1, 31, %r21; {GIVE}",
    "vote.any": f"vote.sync.any.pred %p8, %p3, -1; selp.b32 %r20, 1, 2, %p8; {GIVE}",
    "vote.ballot": f"vote.sync.ballot.b32 %r20, %p3, -1; {GIVE}",
    "match.any": f"match.any.sync.b32 %r20, %r0, -1; {GIVE}",
    "match.all": f"match.all.sync.b32 %r20|%p8, %r0, -1; {GIVE}",
    "redux": f"redux.sync.add.u32 %r20, %r0, -1; {GIVE}",
    "elect": f"elect.sync %r20|%p8, -1; {LEADER}",
    "activemask": f"activemask.b32 %r20; {LEADER}",
    "ldmatrix": f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r20}}, [%r30]; {LEADER}",
    "mbarrier": "@%p0 mbarrier.arrive.shared.b64 _, [%r31]; W: mbarrier.try_wait.parity.shared.b64 %p8, [%r31], 0; @!%p8 bra W;",
    "cp.async": "cp.async.ca.shared.global [%r30], [%d1], 4; cp.async.wait_all;",
    "atom": f"atom.shared.add.u32 %r20, [%r30+512], 1; {LEADER}",
    "fence": "fence.acq_rel.gpu;",
}
MBARRIER = "@%p0 mbarrier.init.shared.b64 [%r31], 1; bar.sync 0;"


def kernels() -> dict[str, Kernel]:
    """All kernels by name."""
    made: dict[str, Kernel] = {}
    for name, kernel in itertools.chain(_before_exits_and_waits(), _completed(), _behind_arrivals(), _next(), _shapes(), _drawn(2026, 160)):
        if name in made:
            raise ValueError(f"two kernels called {name}")
        made[name] = kernel
    return made


def _before_exits_and_waits() -> Iterator[tuple[str, Kernel]]:
    """A barrier of some lanes, then the end of the kernel or a wait of all."""
    for w, (lanes, guard), (then, wait) in itertools.product((1, 2), LANES.items(), THEN.items()):
        if w == 2 or lanes != "warp 0":
            yield f"{w} warps: {lanes}: barrier.arrive 3, {32 * w}; {then}", Kernel(w, 1, f"{guard}barrier.arrive 3, {32 * w};\n{wait}")
    for lanes, then in itertools.product(("thread 0", "lanes 0-15", "all but thread 0"), ("exit", "bar.sync")):
        guard, wait = LANES[lanes], THEN[then]
        yield f"2 warps: {lanes}: bar.arrive 3, 64; {then}", Kernel(2, 1, f"{guard}bar.arrive 3, 64;\n{wait}")
        yield f"1 warps: {lanes}: barrier.arrive 3, 64; {then}", Kernel(1, 1, f"{guard}barrier.arrive 3, 64;\n{wait}")
        around = f"@!{guard[1:].strip()} bra L; barrier.arrive 3, 64; L:\n{wait}"
        yield f"2 warps: {lanes}: branch around barrier.arrive 3, 64; {then}", Kernel(2, 1, around)
        for form in ("", ".aligned", ".relaxed"):
            arrive = f"{guard}barrier.cluster.arrive{form};"
            waits = f"{guard}barrier.cluster.wait{form if form == '.aligned' else ''};"
            yield f"cluster: {lanes}: barrier.cluster.arrive{form}; {then}", Kernel(1, 2, f"{arrive}\n{wait}")
            yield f"cluster: {lanes}: barrier.cluster.arrive{form}, wait; {then}", Kernel(1, 2, f"{arrive}\n{waits}\n{wait}")
    yield "cluster: whole warp arrives, exit", Kernel(1, 2, "barrier.cluster.arrive;")


def _completed() -> Iterator[tuple[str, Kernel]]:
    """Barriers that other lanes or warps complete; barriers that wait."""
    for lanes in ("lane 3", "lanes 0-15", "thread 0"):
        body = f"@%p6 bra B; {LANES[lanes]}barrier.arrive 3, 64; bra E; B: barrier.sync 3, 64; E:"
        yield f"2 warps: warp 0 {lanes} barrier.arrive 3, 64, warp 1 barrier.sync 3, 64", Kernel(2, 1, body)
        yield f"2 warps: warp 0 {lanes} barrier.arrive 3, 64, warp 1 barrier.sync 3, 64; bar.sync 0", Kernel(2, 1, f"{body} bar.sync 0;")
    both = "2 warps: lanes 0-15 then 16-31"
    yield f"{both} barrier.arrive 3, 64; bar.sync", Kernel(2, 1, "@%p3 barrier.arrive 3, 64; @%p4 barrier.arrive 3, 64; bar.sync 0;")
    yield (
        f"{both} in two branches barrier.arrive 3, 128; bar.sync",
        Kernel(2, 1, "@%p4 bra B; barrier.arrive 3, 128; bra E; B: barrier.arrive 3, 128; E: bar.sync 0;"),
    )
    for lanes, barrier in itertools.product(
        ("lanes 0-15", "lanes 16-31", "all but thread 0", "lane 3"), ("barrier.sync 0", "bar.sync 0", "barrier.sync 0, 64")
    ):
        yield f"2 warps: {lanes}: {barrier}; exit", Kernel(2, 1, f"{LANES[lanes]}{barrier};")
        yield f"2 warps: {lanes}: {barrier}; bar.sync 0", Kernel(2, 1, f"{LANES[lanes]}{barrier}; bar.sync 0;")


def _behind_arrivals() -> Iterator[tuple[str, Kernel]]:
    """What lanes do behind the barrier, and what the others do meanwhile."""
    arrive, wait = "barrier.arrive 3, 64;", "bar.sync 0;"
    for lanes in PARTS:
        g = LANES[lanes]
        ballot = f"vote.sync.ballot.b32 %r20, {g.strip()[1:]}, -1; not.b32 %r20, %r20;"
        for name, body in (
            ("around barrier.sync 1, 32; bar.sync 0", f"{g}bra L; barrier.sync 1, 32; L: {wait}"),
            ("barrier.sync 1, 32; bar.sync 0", f"{g}barrier.sync 1, 32; {wait}"),
            ("arrive; shfl", f"{g}{arrive} shfl.sync.bfly.b32 %r20, %r0, 1, 31, -1; st.global.u32 [%d1], %r20;"),
            ("arrive; vote", f"{g}{arrive} vote.sync.ballot.b32 %r20, %p3, -1; st.global.u32 [%d1], %r20;"),
            ("arrive; loop with stores; exit", f"{g}{arrive} mov.u32 %r21, 0; B: st.global.u32 [%d1], %r21; ld.volatile.global.u32 %r22, [%d1]; add.u32 %r21, %r21, 1; setp.lt.u32 %p8, %r21, 50; @%p8 bra B;"),
            ("arrive; shared store, load; exit", f"{g}{arrive} mov.u32 %r20, s; shl.b32 %r21, %r0, 2; add.u32 %r20, %r20, %r21; st.volatile.shared.u32 [%r20], %r0; ld.volatile.shared.u32 %r22, [%r20]; st.global.u32 [%d1], %r22;"),
            ("barrier.red; bar.sync 0", f"{g}barrier.red.popc.u32 %r20, 0, %p3; {wait}"),
            ("arrive; others activemask; bar.sync 0", f"{g}bra A; activemask.b32 %r20; bra E0; A: {arrive} E0: {wait}"),
            ("arrive in a branch, others bar.warp.sync of theirs, bar.sync 0", f"{ballot} {g}bra A; setp.ne.u32 %p9, %r20, 0; bar.warp.sync %r20; bra E0; A: {arrive} E0: {wait}"),
            ("arrive, others bar.sync 1, 64 of their own, bar.sync 0", f"{g}bra A; bar.sync 1, 64; bra E0; A: {arrive} E0: {wait}"),
        ):  # fmt: skip
            yield f"{lanes}: {name}", Kernel(2, 1, body)
        spin = f"{g}bra A; C: ld.volatile.global.u32 %r22, [%d1]; add.u32 %r23, %r23, 1; setp.lt.u32 %p9, %r23, 1000; @%p9 bra C; bra E0;"
        yield f"{lanes}: arrive; others spin for a while", Kernel(1, 1, f"{spin} A: {arrive} E0: st.global.u32 [%d1], 5;")


def _next() -> Iterator[tuple[str, Kernel]]:
    """A barrier of some lanes, then an instruction of the whole warp, then the end."""
    for lanes, first, warps in (
        ("thread 0", "barrier.arrive 3, 64;", 2), ("all but thread 0", "barrier.arrive 3, 64;", 2), ("lanes 16-31", "barrier.arrive 3, 64;", 2),
        ("lanes 0-15", "barrier.arrive 3, 64;", 1), ("lanes 0-15", "barrier.sync 3, 32;", 2), ("lanes 0-15", "barrier.cluster.arrive;", 1),
        ("thread 0", "barrier.red.popc.u32 %r20, 3, 32, %p3;", 2), ("warp 0", "barrier.arrive 3, 64;", 2),
    ):  # fmt: skip
        for then, code in NEXT.items():
            if ("cluster" in first and "cluster" in code) or ("warp 0" in lanes and "same" in then):
                continue  # an arrival twice in one phase
            body = f"{MBARRIER if then == 'mbarrier' else ''}{LANES[lanes]}{first} {code}"
            yield f"next, {warps} warps: {lanes}: {first} {then}", Kernel(warps, 2 if "cluster" in body else 1, body)


def _shapes() -> Iterator[tuple[str, Kernel]]:
    """Other shapes of the same: two barriers, loops, branches of both sides."""
    one, two, cluster = "barrier.arrive 3, 64;", "barrier.arrive 4, 64;", "barrier.cluster.arrive;"
    loop = "mov.u32 %r21, 0; B: {} add.u32 %r21, %r21, 1; setp.lt.u32 %p8, %r21, 2; @%p8 bra B;"
    turn = "and.b32 %r22, %r0, 1; setp.eq.u32 %p9, %r22, %r21;"
    for then, wait in {"exit": "", "bar.sync": "bar.sync 0;", "shfl": NEXT["shfl"], "barrier.arrive 5": "barrier.arrive 5, 64;"}.items():
        for name, body in {
            "some two barriers": f"@%p3 {one} @%p3 {two}",
            "some one, others another": f"@%p3 {one} @%p4 {two}",
            "both sides of a branch, the same barrier": f"@%p3 bra A; {one} bra E; A: {one} E:",
            "both sides of a branch, two barriers": f"@%p3 bra A; {one} bra E; A: {two} E:",
            "some one, others barrier.sync": f"@%p3 {one} @%p4 barrier.sync 4;",
            "some one, others a cluster": f"@%p3 {one} @%p4 {cluster}",
            "one side barrier.sync, one barrier.arrive": f"@%p3 bra A; barrier.sync 3, 32; bra E; A: {two} E:",
            "in turn in a loop": loop.format(f"{turn} @%p9 {one}"),
            "in turn in a loop, with a branch": loop.format(f"{turn} @!%p9 bra O; {one} O:"),
            "in turn in a loop with a warp barrier": loop.format(f"{turn} @%p9 {one} bar.warp.sync -1;"),
            "in turn in a loop with a shuffle": loop.format(f"{turn} @%p9 {one} shfl.sync.bfly.b32 %r20, %r0, 1, 31, -1; st.global.u32 [%d1+1024], %r20;"),
            "some, then others exit early": f"@%p3 bra A; st.global.u32 [%d1], 7; ret; A: {one}",
            "others exit early, some come back": f"@%p4 ret; {one}",
            "some, while others wait for theirs": f"@%p3 bra A; bar.warp.sync 0xffff0000; bra E; A: {one} E:",
            "some, while others shuffle among themselves": f"@%p3 bra A; shfl.sync.bfly.b32 %r20, %r0, 1, 31, 0xffff0000; st.global.u32 [%d1+1024], %r20; bra E; A: {one} E:",
            "some, then a barrier of theirs": f"@%p3 {one} @%p3 bar.warp.sync 0xffff;",
            "a warp that branches as a whole": f"@%p5 bra A; bra E; A: {one} E:",
        }.items():  # fmt: skip
            yield f"shape: {name}; {then}", Kernel(2, 2 if "cluster" in body else 1, f"{body} {wait}")
    for lanes in ("thread 0", "lanes 0-15"):
        guard = LANES[lanes]
        others = f"@!{guard[1:]}"
        for name, body in {
            "some arrive at the cluster's barrier, then the others": f"{guard}{cluster} {others}{cluster} barrier.cluster.wait;",
            "the same in a branch": f"{guard}bra A; {cluster} bra E; A: {cluster} E: barrier.cluster.wait;",
            "all arrive, and some wait": f"{cluster} {guard}barrier.cluster.wait;",
            "all arrive, some wait, then the others": f"{cluster} {guard}barrier.cluster.wait; {others}barrier.cluster.wait;",
            "all arrive, some wait, bar.sync": f"{cluster} {guard}barrier.cluster.wait; bar.sync 0;",
            "all arrive, some wait, shfl": f"{cluster} {guard}barrier.cluster.wait; {NEXT['shfl']}",
            "some wait aligned, bar.sync": f"barrier.cluster.arrive.aligned; {guard}barrier.cluster.wait.aligned; bar.sync 0;",
            "aligned, shfl": f"{guard}barrier.cluster.arrive.aligned; {NEXT['shfl']}",
            "aligned, barrier.arrive": f"{guard}barrier.cluster.arrive.aligned; {two}",
            "relaxed, vote": f"{guard}barrier.cluster.arrive.relaxed; {NEXT['vote.ballot']}",
            "barrier.arrive, a cluster's wait of all": f"{cluster} {guard}{one} barrier.cluster.wait;",
            "barrier.arrive, a cluster's aligned wait of all": f"barrier.cluster.arrive.aligned; {guard}{one} barrier.cluster.wait.aligned;",
        }.items():
            yield f"cluster shape: {lanes}: {name}", Kernel(1, 2, body)


def _drawn(seed: int, count: int) -> Iterator[tuple[str, Kernel]]:
    """Random kernels of three or four steps."""
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        warps, steps, is_of_cluster = rng.choice((1, 2, 2)), [], False
        for n in range(rng.choice((2, 3, 3, 4))):
            lanes = rng.choice(("all", "all", "all", "warp 0", *PARTS))
            guard, is_whole = LANES[lanes], lanes in ("all", "warp 0")
            mask = {"thread 0": "1", "all but thread 0": "", "lane 3": "8", "lanes 0-15": "0xffff", "lanes 16-31": "0xffff0000"}.get(
                lanes, "-1"
            )
            threads = 32 if lanes in ("warp 0", "thread 0") or warps == 1 else 64
            forms = [
                f"barrier.arrive {n + 3}, 64;",
                f"barrier.arrive {n + 3}, 128;",
                f"barrier.sync {n + 3}, {threads};",
                f"barrier.red.popc.u32 %r20, {n + 3}, {threads}, %p3;",
            ]
            forms += [f"barrier.sync {n + 3};", "fence.acq_rel.cta;", f"st.shared.u32 [%r30+{4 * n}], %r0;"]
            if is_whole:
                forms += [f"bar.arrive {n + 3}, 128;", f"bar.sync {n + 3}, {threads};"]
            if mask:
                forms += [
                    f"shfl.sync.bfly.b32 %r20, %r0, 0, 31, {mask};",
                    f"vote.sync.ballot.b32 %r20, %p3, {mask};",
                    f"bar.warp.sync {mask};",
                ]
            if not is_of_cluster:
                forms += ["barrier.cluster.arrive;"]
            form = rng.choice(forms)
            if "shfl" in form or "vote" in form or "red" in form:
                form = f"{form} {guard}st.global.u32 [%d1+{1024 + 512 * (n % 2)}], %r20;"
            steps.append(f"{guard}{form}")
            if "cluster" in form:
                is_of_cluster = True
                steps += [f"{guard}barrier.cluster.wait;"] * rng.choice((0, 1))
        yield f"drawn {number:03}", Kernel(warps, 2 if is_of_cluster else 1, "\n".join(steps))


def cluster_exits() -> dict[str, Kernel]:
    """Kernels with threads that come to their end after barrier.cluster.arrive without a wait, by name."""
    firsts = {
        "all arrive": "barrier.cluster.arrive;", "warp 0 arrives": "@%p5 barrier.cluster.arrive;", "warp 1 arrives": "@%p6 barrier.cluster.arrive;",
        "thread 0 arrives": "@%p0 barrier.cluster.arrive;", "none arrives": "", "warp 0 arrives aligned": "@%p5 barrier.cluster.arrive.aligned;",
        "warp 0 arrives and waits": "@%p5 barrier.cluster.arrive; @%p5 barrier.cluster.wait;", "CTA 0 arrives": "setp.lt.u32 %p9, %r6, 64; @%p9 barrier.cluster.arrive;",
    }  # fmt: skip
    seconds = {
        "all but thread 0 barrier.sync 3, 64": "@%p1 barrier.sync 3, 64;", "all but thread 0 barrier.arrive 3, 128": "@%p1 barrier.arrive 3, 128;",
        "all but thread 0 barrier.sync 3": "@%p1 barrier.sync 3;", "all barrier.sync 3, 64": "barrier.sync 3, 64;", "lanes 0-15 barrier.sync 3, 64": "@%p3 barrier.sync 3, 64;",
        "thread 0 and warp 1 barrier.sync 3, 64": "@%p0 barrier.sync 3, 64; @%p6 barrier.sync 3, 64;", "all but thread 0 barrier.red": "@%p1 barrier.red.popc.u32 %r20, 3, 64, %p3;",
        "warp 1 barrier.sync 3, 32": "@%p6 barrier.sync 3, 32;",
    }  # fmt: skip
    made = {}
    for (a, first), (b, second), (c, wait), ctas in itertools.product(
        firsts.items(), seconds.items(), (*THEN.items(), ("cluster wait", "barrier.cluster.wait;")), (1, 2)
    ):
        if (c == "cluster wait" and a != "all arrive") or "warp.sync" in c or c == "barrier.sync":
            continue
        if (ctas == 1 and a in ("warp 0 arrives aligned", "CTA 0 arrives")) or (ctas == 2 and a == "none arrives"):
            continue
        made[f"{ctas} CTAs: {a}; {b}; {c}"] = Kernel(2, ctas, f"{first} {second} {wait}")
    thens = {
        "bar.sync 0": "bar.sync 0;", "barrier.sync 0": "barrier.sync 0;", "barrier.sync 3, 64": "barrier.sync 3, 64;", "barrier.sync 3, 32": "barrier.sync 3, 32;",
        "bar.warp.sync of the others": "bar.warp.sync 0xfffffffe;", "a vote of the others": f"vote.sync.ballot.b32 %r20, %p3, 0xfffffffe; {GIVE}",
        "arrive, bar.sync 0": "barrier.cluster.arrive; bar.sync 0;", "arrive, wait": "barrier.cluster.arrive; barrier.cluster.wait;", "wait": "barrier.cluster.wait;",
        "bar.sync 0, arrive, wait": "bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;", "nothing": "",
        "bar.red": f"bar.red.popc.u32 %r20, 0, %p3; {GIVE}", "bar.arrive 3, 64": "bar.arrive 3, 64;",
    }  # fmt: skip
    leaves = {"warp 0": "@%p5 ", "warp 1": "@%p6 ", "thread 0": "@%p0 ", "lanes 0-15 of warp 0": "setp.lt.u32 %p10, %r0, 16; @%p10 "}
    for (a, first), (b, leave), (c, then), ctas in itertools.product(firsts.items(), leaves.items(), thens.items(), (1, 2)):
        if a in ("thread 0 arrives", "none arrives", "warp 0 arrives and waits", "warp 0 arrives aligned") or (
            ctas == 1 and a == "CTA 0 arrives"
        ):
            continue
        is_wrong = (
            (a == "all arrive" and "arrive, " in c) or (c == "wait" and a != "all arrive") or ("others" in c and not b.startswith("thread"))
        )
        if is_wrong or (a == "warp 1 arrives" and "arrive, " in c) or (a == "warp 0 arrives" and "arrive, " in c and b != "warp 0"):
            continue  # an arrival twice in one phase, a wait without an arrival, or a mask that is wrong in itself
        made[f"{ctas} CTAs: {a}; {b} exits; {c}"] = Kernel(2, ctas, f"{first} {leave}ret; {then}")
    both, late = (
        "barrier.cluster.arrive; barrier.cluster.wait;",
        "mov.u32 %r21, 0; B: ld.volatile.shared.b32 %r22, [%r30]; add.u32 %r21, %r21, 1; setp.lt.u32 %p8, %r21, 3000; @%p8 bra B;",
    )
    orders = {
        "a whole phase": f"{both} LEAVE bar.sync 0;", "a whole phase, warp 1 arrives": f"{both} @%p6 barrier.cluster.arrive; LEAVE bar.sync 0;",
        "no arrival is executed": "setp.gt.u32 %p9, %r0, 999; @%p9 barrier.cluster.arrive; LEAVE bar.sync 0;",
        "warp 1 arrives late": f"@%p5 bra L; {late} barrier.cluster.arrive; L: LEAVE bar.sync 0;", "warp 1 arrives after bar.sync": "LEAVE bar.sync 0; @%p6 barrier.cluster.arrive;",
        "warp 1 arrives, bar.sync before": "@%p6 barrier.cluster.arrive; bar.sync 0; LEAVE bar.sync 1;", "warp 1 arrives, two barriers after": "@%p6 barrier.cluster.arrive; LEAVE bar.sync 0; bar.sync 1;",
        "warp 1 arrives, bar.warp.sync": "@%p6 barrier.cluster.arrive; LEAVE bar.warp.sync 0xfffffffe;", "warp 1 arrives, the others arrive": "@%p6 barrier.cluster.arrive; LEAVE @%p5 barrier.cluster.arrive; bar.sync 0;",
        "both arrive after it": "LEAVE barrier.cluster.arrive; bar.sync 0;", "both arrive after it and wait": f"LEAVE {both}", "both arrive after bar.sync": f"LEAVE bar.sync 0; {both}",
    }  # fmt: skip
    leaves = {
        "thread 0": "@%p0 ret;",
        "lanes 0-15 of warp 0": "setp.lt.u32 %p10, %r0, 16; @%p10 ret;",
        "warp 0": "@%p5 ret;",
        "lane 3 of both": "@%p2 ret;",
        "none": "",
    }
    for (a, order), (b, leave), ctas in itertools.product(orders.items(), leaves.items(), (1, 2)):
        if "0xfffffffe" not in order or b == "thread 0":
            made[f"{ctas} CTAs: {a}; {b} exits"] = Kernel(2, ctas, order.replace("LEAVE", leave))
    return made


# ---- On the card


SUITES = {
    SUITE: (TITLE, kernels),
    "exits_at_cluster_barriers": ("Kernels in which threads exit after barrier.cluster.arrive: which of them end, and what they leave", cluster_exits),
}  # fmt: skip


def config_of(kernel: Kernel, address: int) -> LaunchConfig:
    """How a kernel is launched."""
    return LaunchConfig(grid=kernel.cluster, block=32 * kernel.warps, cluster=kernel.cluster, args=[address.to_bytes(8, "little")])


def _work(connection: Any) -> None:
    """The process that runs kernels: it gets a text, sends "runs", then the CUDA error and the bytes of each run."""
    from smemsim.testing.recorder import Gpu

    gpu = Gpu()
    address = gpu.allocate(BYTES)
    connection.send("ready")
    while True:
        try:
            kernel = connection.recv()
        except EOFError:
            return  # no kernel is left
        try:
            loaded = gpu.load(ptxas(kernel.ptx)).kernel("k")
        except (SmemsimError, RuntimeError) as e:
            connection.send(f"refused: {e}")
            continue
        connection.send("runs")
        left, code = [], 0
        for _ in range(RUNS):
            gpu.put(address, np.zeros(BYTES, np.uint8))
            code = gpu.execute(loaded, config_of(kernel, address))
            if code:
                break
            left.append(gpu.get(address, BYTES))
        connection.send((code, left))
        if code:
            return  # after a trap no call succeeds


class Process:
    """A process that runs kernels. It is replaced after a kernel that hangs or traps."""

    context: Any = multiprocessing.get_context("spawn")

    def __init__(self) -> None:
        self.process: Any = None

    def run(self, kernel: Kernel) -> dict[str, Any]:
        """Does a kernel end (`hangs`), with which `status`, and what is `left` by each run? Why it was `refused`, if
        it did not run.
        """
        if self.process is None:
            self.ours, theirs = self.context.Pipe()
            self.process = self.context.Process(target=_work, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
            if not self.ours.poll(START):
                self.end()
                return {"refused": "the process does not begin"}
            self.ours.recv()
        try:
            self.ours.send(kernel)
            said = self.ours.recv() if self.ours.poll(START) else "refused: it is not loaded"
            if said != "runs":
                return {"refused": said}
            if not self.ours.poll(PATIENCE):
                self.end()
                return {"hangs": True}
            status, left = self.ours.recv()
        except (EOFError, OSError) as e:
            self.end()
            return {"refused": f"the process died: {e}"}
        if status:
            self.end()
        return {"hangs": False, "status": status, "left": left}

    def end(self) -> None:
        """Stop the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process = None


def measured(made: dict[str, Kernel], jobs: int, until: float) -> dict[str, dict[str, Any]]:
    """What came of each kernel; those that had no time are left out."""
    local, rows = threading.local(), {}

    def one(name: str) -> None:
        if time.monotonic() > until:
            return
        if not hasattr(local, "process"):
            local.process = Process()
        rows[name] = local.process.run(made[name])
        print(f"{_said(rows[name])} | {name}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, made))
    return {name: rows[name] for name in made if name in rows}


def _said(row: dict[str, Any]) -> str:
    if "refused" in row:
        return str(row["refused"])
    if row["hangs"]:
        return "hangs"
    differ = any((left != row["left"][0]).any() for left in row["left"])
    return f"CUDA error {row['status']}" if row["status"] else "ends, other bytes from run to run" if differ else "ends"


def suite_arrays(made: dict[str, Kernel], rows: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """A case a kernel that ran."""
    names = [name for name, row in rows.items() if "refused" not in row]
    kept = [made[name] for name in names]
    left = [rows[name].get("left") or [np.zeros(0, np.uint8)] for name in names]
    return {
        "name": np.array(names),
        "ptx": np.array([kernel.ptx for kernel in kept]),
        "warps": np.array([kernel.warps for kernel in kept], np.uint8),
        "cluster": np.array([kernel.cluster for kernel in kept], np.uint8),
        "hangs": np.array([rows[name]["hangs"] for name in names], np.uint8),
        "status": np.array([rows[name].get("status", 0) for name in names], np.uint16),
        "is_stable": np.array([all((one == runs[0]).all() for one in runs) for runs in left], np.uint8),
        **ragged("bytes", [runs[0] for runs in left], np.uint8),
    }


def main() -> int:
    """The command line; 1 if some kernels did not run."""
    parser = argparse.ArgumentParser(prog="python -m tools.capture.lane_barriers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=480.0, help="begin no kernel after this time")
    parser.add_argument("--jobs", type=int, default=14, metavar="N", help="processes")
    parser.add_argument("--suite", choices=SUITES, default=SUITE)
    given = parser.parse_args()
    (title, make), begin = SUITES[given.suite], time.monotonic()
    made = make()
    rows = measured(made, given.jobs, begin + given.seconds)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{given.suite}.txt").write_text("".join(f"{_said(row)} | {name}\n" for name, row in rows.items()))
    refused = [name for name in made if "refused" in rows.get(name, {"refused": ""})]
    print(
        f"{len(made)} kernels, {sum(row.get('hangs', False) for row in rows.values())} hang, {len(refused)} did not run; {time.monotonic() - begin:.0f} s"
    )
    from smemsim.testing.recorder import Gpu

    gpu, arrays = Gpu(), suite_arrays(made, rows)
    source = {
        "command": f"python -m tools.capture.lane_barriers --suite {given.suite} --out golden/sm_90a",
        "ptxas": assembler(),
        "runs": RUNS,
        "seconds": PATIENCE,
        "files": {pathlib.Path(__file__).name: hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()},
    }
    write_suite(given.out / given.suite, suite=given.suite, kind="hang", arch=gpu.arch, title=title, device=gpu.describe(), source=source,
                cases=len(arrays["name"]), arrays=arrays)  # fmt: skip
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
