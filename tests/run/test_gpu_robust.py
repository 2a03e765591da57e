"""What is wrong with a kernel ends in a sentence or a finding: damaged PTX, wrong launches, loops without end. No other
exception, and no hang.
"""

from __future__ import annotations

import dataclasses
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import kernel
from places import ROOT
from smemsim import Gpu, InputError, Run, Unmodelled
from smemsim.evidence import LaunchFile, RecordedLaunches, load_suite
from strategies import examples

RECORDED = RecordedLaunches(load_suite(ROOT / "golden/sm_90a/launches"))
NAMES = ("recursion", "function_pointers", "warp_ops", "diverge_loops", "cp_async", "mbarrier_forms", "tma_ranks", "wmma_tiles", "atomics_shared", "matrices_ldst")  # fmt: skip
FILES = [file for n in range(len(RECORDED)) if (file := RECORDED.launch(n)).name in NAMES]
TOKEN = re.compile(r"%?[A-Za-z_$][\w$]*|\d+|[^\s\w]")
NUMBERS = (0, 1, -1, 7, 16, 32, 255, 1 << 16, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 64, -(1 << 63))


def attempt(file: LaunchFile, ptx: str, **changed: object) -> Run | None:
    """Launch as recorded, or otherwise; None when a sentence refuses it. Every finding can be told."""
    gpu = Gpu("sm_90a")
    _, args = file.placed(gpu)
    config = file.config(args)
    given = {member.name: getattr(config, member.name) for member in dataclasses.fields(config)}
    try:
        run = gpu.launch(ptx, **{**given, "limit": 3000, **changed})
    except (InputError, Unmodelled) as problem:
        return None if str(problem) else pytest.fail("an empty sentence")
    for finding in run.findings:
        assert str(finding)
    return run


def damaged(text: str, rng: random.Random) -> str:
    """PTX with a few statements moved, lost, doubled, or with another operand, number or character in them."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        body = [n for n, line in enumerate(lines) if line.strip().endswith(";") and not line.strip().startswith(".")]
        n, m = rng.choice(body), rng.choice(body)
        tokens = list(TOKEN.finditer(lines[n]))
        token = rng.choice(tokens)
        what = rng.randrange(7)
        if what == 0:
            del lines[n]
        elif what == 1:
            lines.insert(n, lines[m])
        elif what == 2:
            lines[n], lines[m] = lines[m], lines[n]
        elif what in (3, 4):
            others = [t.group() for t in TOKEN.finditer(" ".join(lines[max(0, m - 8) : m + 8])) if t.group()[0] == token.group()[0]]
            if others:
                lines[n] = lines[n][: token.start()] + rng.choice(others) + lines[n][token.end() :]
        elif what == 5:
            numbers = [t for t in tokens if t.group().isdigit()]
            if numbers:
                token = rng.choice(numbers)
                lines[n] = lines[n][: token.start()] + str(rng.choice(NUMBERS)) + lines[n][token.end() :]
        else:
            lines[n] = lines[n][: token.start()] + rng.choice("%;,.[]{}()@!|+-:0a") + lines[n][token.start() :]
    return "\n".join(lines)


def test_all_kernels_are_there() -> None:
    assert {file.name for file in FILES} == set(NAMES)
    assert attempt(FILES[0], FILES[0].ptx) is not None


@given(st.sampled_from(FILES), st.integers(0, 1 << 32))
@examples(60)
def test_a_damaged_kernel_runs_or_is_refused_with_a_sentence(file: LaunchFile, seed: int) -> None:
    attempt(file, damaged(file.ptx, random.Random(seed)))


@given(
    st.sampled_from(FILES),
    st.fixed_dictionaries(
        {},
        optional={
            "grid": st.one_of(st.integers(-1, 3), st.tuples(st.integers(0, 2), st.integers(0, 2)), st.just(1 << 31)),
            "block": st.one_of(st.integers(-1, 200), st.tuples(st.integers(0, 40), st.integers(0, 3)), st.just("all")),
            "cluster": st.one_of(st.integers(0, 4), st.just((2, 2))),
            "shared_bytes": st.sampled_from([0, -4, 1, 4096, 300000, 1.5]),
            "args": st.lists(st.sampled_from([0, 1, -1, None, 1 << 63, 1 << 64, 0x1E00_0000_0400, 1.5, b"\0" * 8, "x"]), max_size=6),
            "limit": st.sampled_from([1, 100, 0]),
        },
    ),
)
@examples(40)
def test_a_wrong_launch_runs_or_is_refused_with_a_sentence(file: LaunchFile, changed: dict[str, object]) -> None:
    attempt(file, file.ptx, **changed)


# ---- loops without end

ENDLESS = {
    "a branch to itself": "L: bra L;",
    "a flag nobody sets": "L: ld.volatile.global.u32 %r2, [%d20]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;",
    "a flag, with pauses": "L: nanosleep.u32 20; ld.volatile.global.u32 %r2, [%d20]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;",
    "two loops side by side": "@%p9 bra M; L: bra L;\nM: nanosleep.u32 20; bra M;",
    "a lock that is taken": "st.relaxed.gpu.global.u32 [%d20], 1; L: ld.acquire.gpu.global.u32 %r2, [%d20]; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;",
}


OF_THE_LOOP = re.compile("no branch leads out of the loop|as one iteration earlier")  # and not of the launch's limit


@pytest.mark.parametrize("what", ENDLESS)
@pytest.mark.parametrize(("block", "grid"), [(1, 1), (96, 1), (128, 4)])
def test_a_loop_that_changes_nothing_ends_as_a_hang(what: str, block: int, grid: int) -> None:
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, ENDLESS[what]), "k", block=block, grid=grid, args=[gpu.array(np.zeros(4, np.uint32))])
    hangs = [f for f in run.findings if f.code.startswith("X")]
    assert [f.code for f in hangs] == ["X006"] * (2 if "two" in what and block > 1 else 1)
    assert all(OF_THE_LOOP.search(f.message) for f in hangs)


CHANGES = {
    "a register": "add.u32 %r2, %r2, 1;",
    "a register and memory": "add.u32 %r2, %r2, 1; st.global.u32 [%d20], %r2;",
    "a counter": "atom.global.add.u32 %r2, [%d20], 1;",
    "a lock": "atom.global.exch.b32 %r3, [%d20], 1; ld.volatile.global.u32 %r2, [%d20+4]; atom.global.exch.b32 %r3, [%d20], 0;",
}


@pytest.mark.parametrize(
    ("block", "grid", "what"), [(1, 1, w) for w in CHANGES] + [(96, 1, w) for w in CHANGES] + [(128, 4, "a register"), (256, 3, "a lock")]
)
def test_a_loop_without_a_way_out_ends_as_a_hang_whatever_it_changes(block: int, grid: int, what: str) -> None:
    gpu = Gpu("sm_90a")
    run = gpu.launch(
        kernel(1, f"mov.u32 %r2, 0; L: {CHANGES[what]} bra L;"), "k", block=block, grid=grid, args=[gpu.array(np.zeros(4, np.uint32))]
    )
    assert {f.code for f in run.findings if f.code.startswith("X0")} == {"X006"}
    assert "no branch leads out of the loop" in run.findings[0].message


def test_two_warps_in_loops_of_their_own_without_a_way_out_are_a_hang() -> None:
    body = "@%p9 bra M; L: atom.global.add.u32 %r2, [%d20], 1; bra L;\nM: atom.global.add.u32 %r3, [%d20+4], 1; bra M;"
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), "k", block=64, args=[gpu.array(np.zeros(4, np.uint32))])
    assert {f.code for f in run.findings if f.code.startswith("X0")} == {"X006"}


WAITS_UNDER_A_LOCK = (
    "L: atom.global.cas.b32 %r3, [%d20], 0, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L; ld.volatile.global.u32 %r2, [%d20+4]; "
    "atom.global.exch.b32 %r3, [%d20], 0; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;"
)


def test_one_warp_that_waits_under_a_lock_for_what_nobody_writes_is_a_hang() -> None:
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, WAITS_UNDER_A_LOCK), "k", args=[gpu.array(np.zeros(4, np.uint32))])
    assert [f.code for f in run.findings] == ["X006"]
    assert "the registers and all memory are the same as one iteration earlier" in run.findings[0].message


def test_one_warp_that_waits_under_a_lock_for_another_warp_is_no_hang() -> None:
    """Thread 32 counts far before it sets the flag that thread 0 looks at under a lock."""
    sets = "L2: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4000; @%p1 bra L2; st.volatile.global.u32 [%d20+4], %r5; bra DONE;"
    body = f"mov.u32 %r5, 0; setp.eq.u32 %p2, %r1, 32; setp.ne.u32 %p3, %r1, 0; @%p2 bra L2; @%p3 bra DONE; {WAITS_UNDER_A_LOCK} bra DONE; {sets} DONE:"
    gpu = Gpu("sm_90a")
    flags = gpu.array(np.zeros(4, np.uint32))
    run = gpu.launch(kernel(1, body), "k", block=64, args=[flags])
    assert run.findings == []
    assert flags.numpy()[:2].tolist() == [0, 4000]


def test_one_warp_that_stores_until_a_clock_has_run_is_no_hang() -> None:
    body = "mov.u64 %d3, %clock64; L: mov.u64 %d4, %clock64; sub.u64 %d4, %d4, %d3; setp.lt.u64 %p1, %d4, 200000; mov.u64 %d4, 0; "
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body + "st.global.u32 [%d20], 1; @%p1 bra L;"), "k", args=[gpu.array(np.zeros(4, np.uint32))])
    assert run.findings == []


@pytest.mark.parametrize("clock", ["clock64", "globaltimer"])
def test_a_wait_for_a_clock_is_no_hang_however_long(clock: str) -> None:
    body = f"mov.u64 %d3, %{clock}; L: mov.u64 %d4, %{clock}; sub.u64 %d4, %d4, %d3; setp.lt.u64 %p1, %d4, 2000000000; @%p1 bra L;"
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), "k", args=[gpu.array(np.zeros(4, np.uint32))], limit=100_000)
    assert run.findings == []


def test_who_polls_with_a_limit_on_the_time_gives_up() -> None:
    """A semaphore that nobody releases: the clock runs ahead where nothing changes for long."""
    body = """mov.u64 %d3, %globaltimer; mov.u32 %r3, 1;
L: nanosleep.u32 20; ld.relaxed.gpu.global.u32 %r2, [%d20]; setp.ne.u32 %p1, %r2, 0; @%p1 bra END; mov.u64 %d4, %globaltimer; sub.u64 %d4, %d4, %d3;
    setp.lt.u64 %p1, %d4, 250000000; @%p1 bra L; mov.u32 %r3, 2; END: st.global.u32 [%d20+4], %r3;"""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(2, np.uint32))
    assert gpu.launch(kernel(1, body), "k", block=1, args=[out]).findings == []
    assert out.numpy().tolist() == [0, 2]


def test_who_waits_for_a_flag_until_a_clock_has_run_sees_the_flag() -> None:
    """Thread 0 gives up, and stores 2, when the clock has run too far; the flag comes from a later CTA."""
    body = """
    mov.u32 %r3, %ctaid.x; setp.ne.u32 %p2, %r3, 0; @%p2 bra SET; mov.u64 %d3, %clock64;
    POLL: ld.volatile.global.u32 %r2, [%d20]; setp.ne.u32 %p1, %r2, 0; @%p1 bra DONE;
    mov.u64 %d4, %clock64; sub.u64 %d4, %d4, %d3; setp.lt.u64 %p1, %d4, 2000000000; @%p1 bra POLL;
    st.global.u32 [%d20+4], 2; bra DONE;
    SET: setp.ne.u32 %p2, %r3, 99; @%p2 bra DONE; st.volatile.global.u32 [%d20], 1;
    DONE:"""
    gpu = Gpu("sm_90a")
    flags = gpu.array(np.zeros(4, np.uint32))
    run = gpu.launch(kernel(1, body), "k", grid=100, args=[flags])
    assert run.findings == []
    assert flags.numpy().tolist() == [1, 0, 0, 0]


def test_a_long_computation_is_no_hang() -> None:
    """More blocks without a store than a loop may have that looks at something (`limit / 20`, a million)."""
    body = "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 1100000; @%p1 bra L; st.global.u32 [%d20], %r2;"
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), "k", args=[gpu.array(np.zeros(4, np.uint32))])
    assert run.findings == []


@pytest.mark.parametrize("what", ["a register", "a register and memory", "a counter"])
def test_a_loop_that_changes_something_ends_at_the_limit_of_the_launch(what: str) -> None:
    body = f"mov.u32 %r2, 0; L: {CHANGES[what]} setp.ne.u32 %p1, %r2, 4000000000; @%p1 bra L;"
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), "k", args=[gpu.array(np.zeros(4, np.uint32))], limit=5000)
    assert [f.code for f in run.findings] == ["X006"]
    assert "5,000 blocks of instructions" in run.findings[0].message


def test_a_long_loop_that_others_poll_for_is_no_hang() -> None:
    """Thread 0 counts far; the others poll a flag that it sets then; so do those of later CTAs."""
    body = """
    mov.u32 %r3, %ctaid.x; add.u32 %r4, %r3, %r1; mov.u32 %r5, 0; setp.eq.u32 %p2, %r4, 0;
    @%p2 bra COUNT;
    POLL: ld.volatile.global.u32 %r2, [%d20]; setp.eq.u32 %p1, %r2, 0; @%p1 bra POLL;
    bra DONE;
    COUNT: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 17500; @%p1 bra COUNT;
    st.volatile.global.u32 [%d20], %r5;
    DONE:"""
    gpu = Gpu("sm_90a")
    flag = gpu.array(np.zeros(4, np.uint32))
    run = gpu.launch(kernel(1, body), "k", block=64, grid=100, args=[flag])
    assert run.findings == []
    assert flag.numpy()[0] == 17500


def test_a_loop_over_local_memory_alone_is_no_hang() -> None:
    """Its registers come back, what it has in memory does not."""
    body = """
    st.local.u32 [x], 0;
    L: ld.local.u32 %r2, [x]; add.u32 %r2, %r2, 1; st.local.u32 [x], %r2; setp.lt.u32 %p1, %r2, 6000; mov.u32 %r2, 0; @%p1 bra L;
    ld.local.u32 %r2, [x]; st.global.u32 [%d20], %r2;"""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(1, np.uint32))
    run = gpu.launch(kernel(1, body, locals_=".local .align 4 .b8 x[4];"), "k", args=[out])
    assert run.findings == []
    assert out.numpy()[0] == 6000


# ---- what is known and refused


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("multimem.st.relaxed.sys.global.b32 [%d1], %r1;", "several GPUs"),
        ("vmad.s32.s32.s32 %r1, %r2, %r3, %r4;", "scalar video instruction"),
    ],
)
def test_what_is_not_modelled_says_why(statement: str, says: str) -> None:
    with pytest.raises(Unmodelled, match=says):
        Gpu("sm_90a").launch(kernel(0, statement), "k")


# ptxas 13.0.88 refuses each of them, for sm_90a and sm_100a
MEMBARS = ("async", "async.global", "async.shared::cta", "tensormap", "tensormap::generic", "tensormap::generic.release.gpu")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("membar;", "membar needs one level: .cta, .gl or .sys"),
        ("membar.cluster;", "membar needs one level: .cta, .gl or .sys"),
        ("fence.acq_rel;", "a fence needs one scope: .cta, .cluster, .gpu or .sys"),
        ("fence.sc.cta.gpu;", "a fence needs one scope: .cta, .cluster, .gpu or .sys"),
        *((f"membar.proxy.{proxy};", "membar.proxy has one form, membar.proxy.alias") for proxy in MEMBARS),
        ("fence.proxy.tensormap;", "write fence.proxy.tensormap::generic.release.gpu"),
        ("fence.proxy.tensormap.release.gpu;", "write fence.proxy.tensormap::generic.release.gpu"),
        (
            "fence.proxy.async::generic.acquire.gpu;",
            "the forms are fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster and",
        ),
        ("fence.mbarrier_init.release.gpu;", "one form: fence.mbarrier_init.release.cluster"),
        ("activemask;", "activemask: without .b32"),
    ],
)
def test_words_that_an_instruction_lacks_are_told_in_a_sentence(statement: str, says: str) -> None:
    with pytest.raises(InputError, match=f"line \\d+: .*{says}"):
        Gpu("sm_90a").launch(kernel(0, statement), "k", progress=False)


@pytest.mark.parametrize(
    "statement",
    [
        "membar.proxy.alias;",
        "fence.proxy.async::generic.sync_restrict::shared::cta.release.cluster;",
        "membar.gl;",
        "membar.sys;",
        "fence.gpu;",
        "fence.acq_rel.cluster;",
        "fence.mbarrier_init.release.cluster;",
    ],
)
def test_fences_that_have_all_their_words_run(statement: str) -> None:
    assert Gpu("sm_90a").launch(kernel(0, statement), "k", progress=False).findings == []


def test_stores_and_reductions_into_global_memory_that_are_asynchronous() -> None:
    body = "st.async.release.gpu.global.u32 [%d20], 5; red.async.mmio.release.sys.global.add.u32 [%d20], 2;"
    gpu = Gpu("sm_100a")
    out = gpu.array(np.zeros(1, np.uint32))
    assert gpu.launch(kernel(1, body, arch="sm_100a"), "k", args=[out]).findings == []
    assert out.numpy()[0] == 7


TWO_LOCKS = """@!%p8 bra DONE; and.b32 %r2, %r1, 1; mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d1, %d20; xor.b32 %r2, %r2, 1; mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %d2, %d20;
L: atom.acquire.gpu.global.cas.b32 %r3, [%d1], 0, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;
M: atom.acquire.gpu.global.cas.b32 %r3, [%d2], 0, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra BOTH; {otherwise}
BOTH: ld.global.u32 %r4, [%d20+8]; add.u32 %r4, %r4, 1; st.global.u32 [%d20+8], %r4; st.release.gpu.global.u32 [%d2], 0; st.release.gpu.global.u32 [%d1], 0; DONE:"""


@pytest.mark.parametrize("schedule", [None, 0])
def test_two_lanes_that_give_a_lock_back_for_each_other_are_no_hang(schedule: int | None) -> None:
    """In step both take one lock, fail at the other's, and begin anew for ever; threads of a warp make progress by
    themselves.
    """
    gpu = Gpu("sm_90a")
    words = gpu.array(np.zeros(4, np.uint32))
    body = "setp.lt.u32 %p8, %r1, 2; " + TWO_LOCKS.format(otherwise="st.release.gpu.global.u32 [%d1], 0; bra L;")
    run = gpu.launch(kernel(1, body), "k", block=32, args=[words], schedule=schedule)
    assert run.findings == []
    assert words.numpy().tolist() == [0, 0, 2, 0]


def test_two_lanes_that_keep_one_lock_each_are_a_hang() -> None:
    gpu = Gpu("sm_90a")
    body = "setp.lt.u32 %p8, %r1, 2; " + TWO_LOCKS.format(otherwise="bra M;")
    run = gpu.launch(kernel(1, body), "k", block=32, args=[gpu.array(np.zeros(4, np.uint32))])
    assert [f.code for f in run.findings] == ["X006"]


def test_turns_that_go_with_loops_are_no_hang() -> None:
    """A warp that stores 1 and swaps it for 0 ends when another one swaps between the two; the one that looks for the 1
    comes too late in each turn.
    """
    body = """setp.ge.u32 %p2, %r1, 32; and.b32 %r2, %r1, 31; setp.ne.u32 %p3, %r2, 0; @%p3 bra DONE; @%p2 bra B;
A: st.relaxed.gpu.global.u32 [%d20], 1; atom.relaxed.gpu.global.exch.b32 %r3, [%d20], 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra DONE;
atom.relaxed.gpu.global.exch.b32 %r3, [%d20], 0; setp.eq.u32 %p1, %r3, 1; @%p1 bra A; bra DONE;
B: atom.relaxed.gpu.global.exch.b32 %r3, [%d20], 0; setp.eq.u32 %p1, %r3, 0; @%p1 bra B; DONE:"""
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(1, body), "k", block=64, args=[gpu.array(np.zeros(4, np.uint32))], limit=10_000)
    assert run.findings == []
