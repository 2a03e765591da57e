"""How a grid is executed: in waves, several of them where CTAs wait for each other, and in shards for other processes."""

import dataclasses
import itertools
import multiprocessing
import os
import pickle
import signal
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device, kernel, refused, results
from smemsim import InputError
from smemsim.core.spec.cards import CARDS, residency_of
from smemsim.run import LaunchConfig, LaunchResult, RunOptions
from smemsim.run.engine import grid
from smemsim.run.engine.grid import execute
from smemsim.run.engine.wave import FIRST
from smemsim.run.isa.registry import ON_EXIT
from smemsim.run.procs import shards
from smemsim.run.procs.shards import Changed, Merge, run_shard, unpacked, work_of
from smemsim.run.sanitizer.operations import ROOM
from smemsim.run.sanitizer.sanitizer import Sanitizer
from strategies import examples

WARPS = 1024  # threads of the CTAs of grids that fill the card: two of them on a multiprocessor
AT_ONCE = CARDS["sm_90a"].named("multiprocessor_count") * residency_of("sm_90a").threads // WARPS

ENDS = """
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; sub.u32 %r4, %r3, 1;
setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, %r4;
"""


def run(body, *arrays, multiprocessors=None, **given):
    device = Device()
    placed = [device.array(a) for a in arrays]
    variables = {} if "sm" in body else {"variables": ""}  # nothing to watch without shared memory
    done = device.launch(
        kernel(len(arrays), body, **variables), "k", args=placed, **{"watch_global": False, "multiprocessors": multiprocessors} | given
    )
    return done, [p.numpy() for p in placed]


# Thread 0 of CTA 0 polls until the last CTA has stored, the others of CTA 0 wait for it at a barrier.
WAITS_FOR_THE_LAST = (
    ENDS
    + """
@!%p1 bra NOTFIRST;
@!%p9 bra MEET;
AGAIN: {poll}
setp.ne.u32 %p3, %r5, 7;
@%p3 bra AGAIN;
MEET: bar.sync 0;
@%p9 st.global.u32 [%d20+4], 1;
bra END;
NOTFIRST: @!%p2 bra END;
@%p9 st.release.gpu.global.u32 [%d20], 7;
END:
"""
)
POLLS = {
    "acquire": "ld.acquire.gpu.global.u32 %r5, [%d20];",
    "volatile": "ld.volatile.global.u32 %r5, [%d20];",
    "add of nothing": "atom.global.add.u32 %r5, [%d20], 0;",
    "cas": "atom.global.cas.b32 %r5, [%d20], 7, 7;",
    "asleep": "nanosleep.u32 20; ld.relaxed.gpu.global.u32 %r5, [%d20];",
}


@pytest.mark.parametrize("poll", POLLS.values(), ids=POLLS.keys())
def test_the_first_cta_may_wait_for_the_last_of_a_grid_that_fits(poll):
    done, (words,) = run(WAITS_FOR_THE_LAST.format(poll=poll), np.zeros(2, np.uint32), grid=AT_ONCE, block=WARPS)
    assert (words.tolist(), done.result.findings) == ([7, 1], {})


EVERYBODY = """
@!%p9 bra MEET;
red.release.gpu.global.add.u32 [%d20], 1;
mov.u32 %r3, %nctaid.x;
AGAIN: ld.acquire.gpu.global.u32 %r5, [%d20];
setp.ne.u32 %p3, %r5, %r3;
@%p3 bra AGAIN;
MEET: bar.sync 0;
"""


def test_a_whole_card_of_ctas_meets():
    done, (words,) = run(EVERYBODY, np.zeros(1, np.uint32), grid=AT_ONCE, block=WARPS)
    assert (words.tolist(), done.result.findings) == ([AT_ONCE], {})


def test_a_grid_that_does_not_fit_hangs_and_the_report_says_that():
    """On a card of three multiprocessors, for the sake of time."""
    fits = 3 * residency_of("sm_90a").threads // WARPS
    done, (words,) = run(
        WAITS_FOR_THE_LAST.format(poll=POLLS["acquire"]), np.zeros(2, np.uint32), grid=3 * fits, block=WARPS, multiprocessors=3
    )
    assert (words.tolist(), done.result.findings) == ([7, 1], {}), "all but CTA 0 end, so that the last one finds room"
    done, (words,) = run(EVERYBODY, np.zeros(1, np.uint32), grid=fits, block=WARPS, multiprocessors=3)
    assert (words.tolist(), done.result.findings) == ([fits], {})
    done, (words,) = run(EVERYBODY, np.zeros(1, np.uint32), grid=fits + 5, block=WARPS, multiprocessors=3)
    assert words.tolist() == [fits]
    hangs = [f for f in done.result.findings.values() if f.code == "X006"]
    assert hangs
    assert all(f"5 of {fits + 5} CTAs have not begun, because the {fits} waiting CTAs fill the card" in f.message for f in hangs)
    assert all("on the card at once" in f.repair for f in hangs)


def test_a_poll_of_what_nobody_writes_is_a_hang_at_once():
    done, _ = run("AGAIN: ld.volatile.global.u32 %r5, [%d20]; setp.eq.u32 %p3, %r5, 0; @%p3 bra AGAIN;", np.zeros(1, np.uint32), grid=3)
    assert {f.code for f in done.result.findings.values()} == {"X006"}
    # not at the launch's limit
    assert all("as one iteration earlier" in f.message for f in done.result.findings.values())


@pytest.mark.parametrize("grid", [1, 7, 300])
def test_a_spin_lock_lets_one_at_a_time_in(grid):
    locked = """
    @!%p9 bra END;
    SPIN: atom.acquire.gpu.global.cas.b32 %r5, [%d20], 0, 1;
    setp.ne.u32 %p3, %r5, 0;
    @%p3 bra SPIN;
    ld.volatile.global.u32 %r6, [%d20+4];
    add.u32 %r6, %r6, 3;
    st.volatile.global.u32 [%d20+4], %r6;
    atom.release.gpu.global.exch.b32 %r5, [%d20], 0;
    END:
    """
    done, (words,) = run(locked, np.zeros(2, np.uint32), grid=grid, block=64)
    assert (words.tolist(), done.result.findings) == ([0, 3 * grid], {})


def test_warps_of_a_cta_take_turns_at_a_lock_in_shared_memory():
    locked = """
    mov.u32 %r40, sm; and.b32 %r41, %r1, 31; setp.ne.u32 %p4, %r41, 0;
    @%p9 st.shared.u32 [%r40], 0; @%p9 st.shared.u32 [%r40+4], 0;
    bar.sync 0;
    @%p4 bra END;
    SPIN: atom.shared.cas.b32 %r5, [%r40], 0, 1; setp.ne.u32 %p3, %r5, 0; @%p3 bra SPIN;
    ld.volatile.shared.u32 %r6, [%r40+4]; add.u32 %r6, %r6, 1; st.volatile.shared.u32 [%r40+4], %r6;
    membar.cta; atom.shared.exch.b32 %r5, [%r40], 0;
    END: bar.sync 0;
    ld.shared.u32 %r6, [%r40+4];
    @%p9 st.global.u32 [%d20], %r6;
    """
    done, (words,) = run(locked, np.zeros(1, np.uint32), block=1024)
    assert (words.tolist(), {f.code for f in done.result.findings.values()} - {"X008"}) == ([32], set())


@pytest.mark.parametrize("ctas", [5, 200])
def test_a_scan_looks_back_at_the_ctas_before(ctas):
    """Each CTA adds its number to the prefix that the one before publishes with a flag, the last CTA first in memory
    order of nothing.
    """
    scan = """
    @!%p9 bra END;
    mov.u32 %r2, %ctaid.x; mul.wide.u32 %d1, %r2, 8; add.u64 %d1, %d20, %d1;
    mov.u32 %r6, 0; setp.eq.u32 %p1, %r2, 0; @%p1 bra MINE;
    LOOK: ld.acquire.gpu.global.u32 %r5, [%d1+-8]; setp.eq.u32 %p3, %r5, 0; @%p3 bra LOOK;
    ld.global.u32 %r6, [%d1+-4];
    MINE: add.u32 %r6, %r6, %r2; st.global.u32 [%d1+4], %r6;
    st.release.gpu.global.u32 [%d1], 1;
    END:
    """
    done, (words,) = run(scan, np.zeros(2 * ctas, np.uint32), grid=ctas, block=32)
    assert done.result.findings == {}
    assert words[1::2].tolist() == np.cumsum(np.arange(ctas)).tolist()


def test_the_last_one_to_come_adds_up():
    """Split-K: every CTA stores its part, the one that finds all others done adds them, and a loop of tiles follows a
    counter.
    """
    split = """
    mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d21, %d1;
    add.u32 %r4, %r3, 1; st.global.u32 [%d1], %r4;
    membar.gl; bar.sync 0; mov.u32 %r40, sm;
    @%p9 atom.global.add.u32 %r5, [%d20], 1; @%p9 st.shared.u32 [%r40], %r5; bar.sync 0;
    ld.shared.u32 %r5, [%r40]; mov.u32 %r6, %nctaid.x; sub.u32 %r7, %r6, 1; setp.ne.u32 %p3, %r5, %r7; @%p3 bra END;
    mov.u32 %r8, 0; mov.u32 %r9, 0;
    SUM: mad.lo.u32 %r3, %r9, 64, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d21, %d1; ld.global.u32 %r4, [%d1]; add.u32 %r8, %r8, %r4;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p4, %r9, %r6; @%p4 bra SUM;
    mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d22, %d1; st.global.u32 [%d1], %r8;
    END:
    """
    parts = 150
    done, (_, stored, out) = run(
        split, np.zeros(1, np.uint32), np.zeros(64 * parts, np.uint32), np.zeros(64, np.uint32), grid=parts, block=64
    )
    assert done.result.findings == {}
    assert (out == stored.reshape(parts, 64).sum(axis=0)).all()
    assert (stored == np.arange(64 * parts) + 1).all()


def test_ctas_that_fetch_their_tiles_from_a_counter_do_each_once():
    persistent = """
    mov.u32 %r40, sm;
    NEXT: bar.sync 0;
    @%p9 atom.global.add.u32 %r5, [%d20], 1; @%p9 st.shared.u32 [%r40], %r5;
    bar.sync 0;
    ld.shared.u32 %r5, [%r40]; setp.ge.u32 %p3, %r5, 100; @%p3 bra END;
    mad.lo.u32 %r3, %r5, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d21, %d1;
    red.global.add.u32 [%d1], 1; bra NEXT;
    END:
    """
    done, (count, tiles) = run(persistent, np.zeros(1, np.uint32), np.zeros(3200, np.uint32), grid=12, block=32)
    assert done.result.findings == {}
    assert (tiles == 1).all()
    assert count.tolist() == [112]


@pytest.mark.parametrize("where", ["register", "local memory"])
def test_a_poll_that_counts_its_tries_gives_up_and_is_no_hang(where):
    """What is proven to stand still is not merely slow: the same loop with a counter goes on."""
    count = {
        "register": "add.u32 %r6, %r6, 1;",
        "local memory": "ld.local.u32 %r6, [tries]; add.u32 %r6, %r6, 1; st.local.u32 [tries], %r6; mov.u32 %r7, %r6; mov.u32 %r6, 0;",
    }[where]
    limit = {"register": "%r6", "local memory": "%r7"}[where]
    tries = 5 * FIRST
    body = f"""
    mov.u32 %r6, 0; mov.u32 %r7, 0; st.local.u32 [tries], %r6;
    AGAIN: ld.volatile.global.u32 %r5, [%d20]; {count}
    setp.lt.u32 %p3, {limit}, {tries}; mov.u32 %r7, 0;
    @%p3 bra AGAIN;
    st.global.u32 [%d20+4], 1;
    """
    device = Device()
    words = device.array(np.zeros(2, np.uint32))
    done = device.launch(kernel(1, body, locals_=".local .align 4 .b8 tries[4];"), "k", args=[words])
    assert (words.numpy().tolist(), done.result.findings) == ([0, 1], {})


# ---- shards

# out[n] = 3 * in[n] + CTA, after a loop; a CTA whose number stands in the launch's last parameter traps, and prints
# before it does.
SCALE = """
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r3, %r2, %r3, %r1; mul.wide.u32 %d1, %r3, 4;
add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1; ld.global.u32 %r4, [%d2];
mov.u32 %r5, 0; mov.u32 %r6, %r2;
ADD: add.u32 %r6, %r6, %r4; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3; @%p1 bra ADD;
st.global.u32 [%d3], %r6;
cvt.u64.u32 %d4, %r2; setp.eq.u64 %p2, %d4, %d22; @%p2 trap;
"""
CTAS, BLOCK = 96, 256
NEVER = 1 << 40


def prepared(body, *arrays, numbers=(), options=MappingProxyType({}), **given):
    device = Device()
    placed = [device.array(a) for a in arrays]
    config = LaunchConfig(args=[*placed, *numbers], **given)
    return device.prepare(kernel(len(arrays) + len(numbers), body), config, RunOptions(**options)), placed


def scaled(trap=NEVER, ctas=CTAS, **options):
    data = np.arange(ctas * BLOCK, dtype=np.uint32)
    return prepared(SCALE, data, np.zeros_like(data), numbers=[trap], options=options, grid=ctas, block=BLOCK)


def same_launch(one, other):
    assert {key: (f.message, f.repair) for key, f in one.result.findings.items()} == {
        key: (f.message, f.repair) for key, f in other.result.findings.items()
    }
    assert (one.result.output, one.result.evidence) == (other.result.output, other.result.evidence)


@pytest.mark.parametrize("trap", [NEVER, 40, 95])
@pytest.mark.parametrize("cuts", [(), (32,), (16, 48, 80)])
def test_shards_put_together_are_the_launch(trap, cuts):
    whole, (_, out) = scaled(trap)
    assert execute(whole) == (trap == NEVER)
    parted, (_, parts) = scaled(trap)
    execute(parted, [])
    work, merge = pickle.loads(pickle.dumps(work_of(parted, sanitizer=True))), Merge(parted)
    for begin, end in itertools.pairwise((0, *cuts, CTAS)):
        is_there = merge.add(unpacked(run_shard(work, range(begin, end)), parted))
        assert is_there == (not begin <= trap < end), "what has trapped runs again, here"
        if not is_there:
            assert not execute(parted, range(begin, end))
            break
    # how far CTAs behind one that traps have come is that of its wave, here of a shard
    certain = CTAS if trap == NEVER else trap + 1
    assert (parts.numpy() == out.numpy())[: certain * BLOCK].all()
    same_launch(whole, parted)
    if trap == NEVER:
        assert (out.numpy() == 3 * np.arange(CTAS * BLOCK) + np.repeat(np.arange(CTAS), BLOCK)).all()


def read_by_all(released: int) -> str:
    """All CTAs but the last one read a word; the last `released` of them say so, and the last CTA overwrites it then."""
    given = "".join(
        f"add.u64 %d4, %d3, {-4 * n}; ld.acquire.gpu.global.u32 %r4, [%d4]; setp.eq.u32 %p3, %r4, 0; @%p3 bra OUT;\n"
        for n in range(1, released + 1)
    )
    return f"""
    mov.u32 %r2, %ctaid.x; mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d21, %d1; add.u64 %d3, %d22, %d1; @!%p9 bra OUT; setp.eq.u32 %p1, %r2, 11; @%p1 bra LAST;
    ld.global.u32 %r3, [%d20]; st.global.u32 [%d2], %r3; setp.lt.u32 %p2, %r2, {11 - released}; @%p2 bra OUT; st.release.gpu.global.u32 [%d3], 1; bra OUT;
    LAST: {given} st.global.u32 [%d20], 5; OUT:"""


@pytest.mark.parametrize("released", [4, 11])  # by all, in the right kernel
def test_a_launch_whose_ctas_say_that_they_have_read_stays_in_one_process(released, monkeypatch):
    """So the writer hears of every reader that says so: it races with the others alone."""
    monkeypatch.setattr(shards, "_Shared", lambda *_, **__: pytest.fail("a shard"))
    monkeypatch.setattr(shards, "at_once", lambda launch, *, sanitizer=True: 1)
    words = np.zeros(4, np.uint32), np.zeros(12, np.uint32), np.zeros(12, np.uint32)
    launch, _ = prepared(read_by_all(released), *words, options={"workers": 2}, grid=12, block=32)
    assert shards.execute_spread(launch)
    assert [f.code for f in launch.result.findings.values()] == ["X008"] * (released < 11)


# Reads of a word by each CTA but the last, of several kinds and lines: by a thread, and by copies that may go on.
LOAD, COPY = "ld.global.u32 %r3, [%d20]; st.global.u32 [%d2], %r3;", "cp.async.ca.shared.global [%r40], [%d20], 16;"
READS = {
    "loads": (LOAD, LOAD), "copies": (COPY, COPY), "a copy, then a load": (COPY, LOAD), "a load, then copies": (LOAD, COPY, COPY.replace("16;", "4;")),
    "a copy that is waited for": (COPY, "cp.async.wait_all;", COPY),
}  # fmt: skip


@pytest.mark.parametrize("cuts", [(1, 3)])
@pytest.mark.parametrize("reads", READS)
def test_further_readers_come_from_every_process(reads, cuts):
    """A word has many readers, which the writer does not hear of: it races with those of every process as in one, and
    with each copy of a warp.
    """
    ctas, lines = 5, "\n".join(READS[reads])
    body = f"""mov.u32 %r2, %ctaid.x; mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d21, %d1; mov.u32 %r40, sm; @!%p9 bra OUT; setp.eq.u32 %p1, %r2, {ctas - 1}; @%p1 bra LAST;
    {lines}
    bra OUT; LAST: st.global.u32 [%d20], 5; OUT:"""
    one, parted = (prepared(body, np.zeros(4, np.uint32), np.zeros(ctas, np.uint32), grid=ctas, block=32)[0] for _ in range(2))
    execute(parted, [])
    work, merge = pickle.loads(pickle.dumps(work_of(parted, sanitizer=True))), Merge(parted)
    for begin, end in itertools.pairwise((0, *cuts, ctas - 1)):
        execute(one, range(begin, end))
        assert merge.add(unpacked(run_shard(work, range(begin, end)), parted))
    for launch in (one, parted):
        execute(launch, [ctas - 1])
    assert {f.code for f in parted.result.findings.values()} == {"X008"}
    same_launch(one, parted)
    assert not parted.result.bounds


@dataclasses.dataclass(eq=False, kw_only=True)
class Widened(LaunchResult):
    """A result with one kind more."""

    # by the number of a CTA: the process that executed it
    ended: dict[int, int] = dataclasses.field(default_factory=dict)


@pytest.mark.skipif(not shards.can_be_copied(), reason="copies of a process are made on Linux alone")
@pytest.mark.parametrize("workers", [1, 3])
def test_a_field_that_is_added_to_the_result_comes_from_every_process(workers, monkeypatch):
    def note(wave, threads):
        wave.launch.result.ended.update(dict.fromkeys(wave.numbers[wave.cta_of[threads]].tolist(), os.getpid()))

    for module in (shards, grid):
        monkeypatch.setattr(module, "at_once", lambda launch, *, sanitizer=True: 4)
    monkeypatch.setattr("smemsim.run.engine.launch.ON_EXIT", [*ON_EXIT, note])
    launch, _ = scaled(workers=workers)
    launch.result = Widened()
    assert shards.execute_spread(launch)
    assert sorted(launch.result.ended) == list(range(CTAS))
    assert (len(set(launch.result.ended.values())) > 1) == (workers > 1)


def test_what_two_parts_of_a_launch_leave_is_what_one_leaves():
    body = "cvt.u64.u32 %d4, %ctaid.x; setp.lt.u64 %p2, %d4, 8; @%p2 trap;"
    one, two = (prepared(body, np.zeros(1, np.uint32), grid=9, block=32)[0] for _ in range(2))
    for launch, cta in ((one, 0), (two, 1)):
        assert not execute(launch, [cta])
        launch.result.output.write(f"CTA {cta}\n")
        launch.result.mapped.note(7, [cta], crossed=bool(cta))
    left, again = one.result, pickle.loads(pickle.dumps(two.result.fresh()))
    assert (list(again.findings), again.status, again.output) == ([], 0, [])
    (found,) = left.findings.values()
    left.merge(two.result)
    assert left.status == two.status
    assert list(left.findings.values()) == [found], "one finding for a code at a line"
    assert (left.output, left.output.size) == (["CTA 0\n", "CTA 1\n"], 12)
    assert left.mapped == {7: ({0, 1}, True)}


@given(st.data())
@examples(40)
def test_what_changed_is_every_byte_that_differs(data):
    before = data.draw(st.binary(min_size=40, max_size=40))
    after = data.draw(st.lists(st.sampled_from(before) | st.integers(0, 255), min_size=len(before), max_size=len(before)))
    old, new = np.frombuffer(before, np.uint8).copy(), np.array(after, np.uint8)
    changed = Changed.between(256, old.view(np.uint64), new.view(np.uint64))
    differ, other = old != new, np.arange(40, dtype=np.uint8)
    assert (changed is None) == (not differ.any())
    if changed is not None:
        wanted = np.where(differ, new, other)
        changed.write(other.view(np.uint64))
        assert (other == wanted).all()


@pytest.mark.parametrize("sanitizer", [True, False])
def test_ctas_that_write_the_same_word_differently_are_told_of(sanitizer):
    """Under the watch by running them again, in one process."""
    launch, (word,) = prepared(
        "mov.u32 %r2, %ctaid.x; add.u32 %r2, %r2, 1; st.global.u32 [%d20], %r2;", np.zeros(1, np.uint32), grid=4, block=1
    )
    assert execute(launch, [0], sanitizer=sanitizer)
    work, merge = work_of(launch, sanitizer=sanitizer), Merge(launch)
    taken = [merge.add(unpacked(run_shard(work, clusters), launch)) for clusters in ([1], [2], [3])]
    assert taken == [not sanitizer] * 3
    if not sanitizer:
        assert word.numpy().tolist() == [4]
        (sentence,) = launch.result.evidence
        assert f"{word.address:#x}" in sentence
        assert "not determined" in sentence


def test_ctas_that_add_to_one_word_stay_in_one_process(monkeypatch):
    monkeypatch.setattr(shards, "_Shared", lambda *_, **__: pytest.fail("a shard"))
    launch, (word,) = prepared("red.global.add.u32 [%d20], 1;", np.zeros(1, np.uint32), grid=500, block=32, options={"workers": 2})
    assert shards.execute_spread(launch)
    assert word.numpy().tolist() == [500 * 32]


def killing(pids):
    """A `done` that kills one worker when the first shard is back, and the CTAs that it was told of."""
    told = []

    def done(ctas):
        told.append(ctas)
        if len(told) == 2:
            os.kill(pids()[0], signal.SIGKILL)

    return done, told


@pytest.fixture
def fresh_processes(monkeypatch):
    """As where a process is not copied: others begin anew."""
    monkeypatch.setattr(shards, "can_be_copied", lambda: False)


def test_two_processes_give_what_one_gives_also_when_one_dies(fresh_processes):
    ctas = 1024
    one, (_, expected) = scaled(ctas=ctas)
    execute(one)
    two, (_, out) = scaled(ctas=ctas, workers=2)
    done, told = killing(lambda: [child.pid for child in multiprocessing.active_children()])
    assert shards.execute_spread(two, done=done)
    assert sum(told) == ctas
    assert (out.numpy() == expected.numpy()).all()
    same_launch(one, two)


def test_workers_that_die_again_and_again_are_a_sentence(monkeypatch, fresh_processes):
    monkeypatch.setattr(shards, "DEATHS", 0)
    launch, _ = scaled(ctas=1024, workers=2)
    with pytest.raises(InputError, match="workers=1"):
        shards.execute_spread(launch, done=killing(lambda: [child.pid for child in multiprocessing.active_children()])[0])


# ---- the watch in long loops

COPY_LOOP = """
mov.u32 %r40, sm; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; mad.lo.u32 %r41, %r1, 4, %r40; mov.u32 %r5, 0;
AGAIN: cp.async.ca.shared.global [%r41], [%d1], 4; cp.async.commit_group; cp.async.wait_group 0;
bar.sync 0; ld.shared.u32 %r6, [%r41]; bar.sync 0;
add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 1000; @%p1 bra AGAIN;
cp.async.ca.shared.global [%r41], [%d1], 4; cp.async.commit_group;
"""


@pytest.mark.parametrize(("wait", "codes"), [("cp.async.wait_group 0;", set()), ("", {"X004"})])
def test_a_thousand_copies_are_forgotten_and_the_last_one_is_not(monkeypatch, wait, codes):
    tables = []

    def watched(x, history):
        sanitizer = Sanitizer(x, history)
        tables.append((sanitizer.operations, sanitizer.clocks))
        return sanitizer

    monkeypatch.setattr("smemsim.run.engine.grid.sanitizer_of", watched)
    done, _ = run(COPY_LOOP + wait + "ld.shared.u32 %r6, [%r41];", np.zeros(64, np.uint32), block=64)
    assert {f.code for f in done.result.findings.values()} == codes
    ((operations, order),) = tables
    assert operations.room == order.done.shape[1] == ROOM


@pytest.mark.parametrize(("low", "high", "whole"), [("clock", "clock_hi", "clock64"), ("globaltimer_lo", "globaltimer_hi", "globaltimer")])
def test_two_halves_of_a_clock_are_the_clock(low, high, whole):
    body = f"mov.u32 %r3, %{low}; mov.u32 %r4, %{high}; mov.b64 %d3, {{%r3, %r4}}; mov.u64 %d2, %{whole}; sub.u64 %d2, %d2, %d3;"
    assert (results(body, kind=np.uint64) < 1000).all()


# Each of them is refused by ptxas 13.0.88 for sm_100a.
NO_INSTRUCTION = """
barrier.cluster.wait.release; barrier.cluster.arrive.acquire; mbarrier.pending_count.b32 %r1,%d1; mbarrier.pending_count.shared.b64 %r1,%d1;
mbarrier.arrive.shared.b64 [%r1]; mbarrier.arrive.shared::cluster.b64 [%r1]; mbarrier.arrive.shared.b64 [%r1],2; mbarrier.arrive.shared.b64 _; mbarrier.arrive.b64 [%d1];
mbarrier.arrive.expect_tx.shared.b64 [%r1],16; mbarrier.arrive.noComplete.shared.b64 [%r1],16; mbarrier.arrive_drop.shared.b64 [%r1]; mbarrier.arrive_drop.expect_tx.shared.b64 [%r1],3;
mbarrier.arrive.shared.b64 %d1,[%r1],2,3; mbarrier.arrive.shared::cluster.b64 %d1,[%r1]; cp.async.bulk.wait_group %r1; cp.async.wait_group %r1;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1],[%d1],16,[%r2]; cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d1],[%r1],16;
cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d1],16; cp.async.mbarrier.arrive.noinc.shared [%r1]; cp.async.mbarrier.arrive.noinc.global.b64 [%d1];
tensormap.replace.tile.box_dim.global.b1024.b32 [%d1],%r1,%r2; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1],[%r1],64;
fence.proxy.tensormap::generic.acquire.gpu [%d1],64; fence.proxy.tensormap::generic.acquire.gpu [%d1],%r1; st.async.shared::cluster.mbarrier::complete_tx::bytes.u16 [%r1],%h2,[%r3];
st.async.shared::cluster.u32 [%r1],%r2,[%r3]; red.async.relaxed.cluster.shared::cluster.add.u32 [%r1],%r2,[%r3]; st.async.relaxed.gpu.global.u32 [%d1],%r2;
red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u16 [%r1],%h2,[%r3]; red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cta.add.u32 [%r1],%r2,[%r3];
cp.reduce.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1,{%r1,%r2}],[%r3]; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1],[%d1],[%r3];
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1],[%d1,{%r1,%r2}],[%r3],%h1;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1],[%d1,{%r1}],[%r3]; cvta.global %d1,%d2; isspacep %p1,%d1; isspacep.global.u64 %p1,%d1;
mapa.shared::cta.u32 %r1,%r2,%r3; getctarank.shared::cta.u32 %r1,%r2; getctarank.shared::cluster %r1,%r2; ld.global.v2.b128 {%q1,%q2},[%d1]; griddepcontrol; brx.idx %r1,%d1;
discard.global.L2 [%d1],64; discard.global.L2 [%d1],%r1; applypriority.global.L2::evict_normal [%d1],64; alloca.u64 %d1,%d2,3; alloca.u64 %d1,%d2,0; alloca.u64 %d1,%d2,%r1;
vote.sync.all.b32 %r1,%p1,-1; vote.sync.ballot.pred %p1,%p2,-1; redux.sync.add.f32 %f1,%f2,-1; redux.sync.min.b32 %r1,%r2,-1; redux.sync.min.abs.u32 %r1,%r2,-1; elect %r1|%p1,-1;
elect.sync %r1,-1; elect.sync %r1|_,-1; match.any.sync.b32 %r1|%p1,%r2,-1; clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128 {%r1,%r2,%r3,%r4},%q1;
tex.2d.v4.f64.s32 {%f1,%f2,%f3,%f4},[%d1,{%r1,%r2}]; tex.2d.v4.f32.s32 {%f1,%f2},[%d1,{%r1,%r2}]; suld.b.2d.v2.b32.trap {%r1},[%d1,{%r1,%r2}]; sust.b.2d.v2.b32.trap [%d1,{%r1,%r2}],{%r1};
sured.p.2d.min.s32.trap [%d1,{%r1,%r2}],%r1; tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1},[%r2],%r3; tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1},[%r2];
tcgen05.mma.cta_group::1.kind::f16.ashift [%r1],%d1,%d2,%r2,%p1; tcgen05.mma.cta_group::1.kind::f16 [%r1],%d1,%d2,%r2,%p1,%r3; prefetch.global.L3 [%d1]; nanosleep.b32 5;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {_},[%r1]; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {_,_},[%r1]; ld.global.v2.b32 {_,_},[%d1]
"""
INSTRUCTIONS = """
barrier.cluster.wait.aligned.acquire; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1],[%d1],16,[%r2],%d3; cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d1],16,%d3;
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d1],[%r1],16,%d3; cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.u32 [%d1],[%r1],16,%d3;
cp.async.ca.shared.global.L2::cache_hint [%r1],[%d1],16,%d3; cp.async.ca.shared.global.L2::cache_hint [%r1],[%d1],16,8,%d3; cp.async.mbarrier.arrive.b64 [%r1];
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%r1],[%d1,{%r1,%r2}],[%r3],%d3; cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [%d1,{%r1,%r2}],%d3;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%d1,{%r1,%r2}],[%r3],%d3; mbarrier.arrive.noComplete.shared.b64 _,[%r1],16; mbarrier.arrive.expect_tx.shared.b64 _,[%r1],16;
discard.global.L2 [%d1],128; applypriority.global.L2::evict_normal [%d1],128; match.all.sync.b32 %r1,%r2,-1; match.all.sync.b32 %r1|_,%r2,-1; shfl.sync.bfly.b32 %r1|_,%r2,1,31,-1; elect.sync _|%p1,-1;
redux.sync.min.abs.NaN.f32 %f1,%f2,-1; alloca.u64 %d1,%d2,32; getctarank.u32 %r1,%r2; clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1,%r2,%r3,%r4},%q1; mov.u32 %r1,%tid.w;
set.lt.and.f16x2.f16x2 %r0,%r1,%r2,%p1; max.f32 %f0,%f1,%f2,%f3; min.abs.f32 %f0,%f1,%f2,%f3;
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {_,%r1},[%r2]; ld.global.v2.b32 {_,%r1},[%d1]
"""


def test_what_ptxas_refuses_is_refused_and_the_rest_is_not():
    wrong, right = ([text.strip() + ";" for text in lines.split(";")] for lines in (NO_INSTRUCTION, INSTRUCTIONS))
    assert [line for line in wrong if not refused([line])] == []
    assert refused(right) == {}


def test_the_fourth_part_of_special_registers_is_zero():
    for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "cluster_ctaid"):
        assert set(results(f"mov.u32 %r2, %{name}.w;", grid=2).ravel().tolist()) == {0}


def test_an_operand_too_many_is_refused():
    lines = ["bra ON, ON;", "bra.v4 ON;", "cvta.to.global.u64 %d1, %d2, %d2;", "shfl.sync.down.b32 %r1, %r2, 1, 31, -1, -1;", "activemask.b32 %r1, %r1;",
             "mapa.shared::cluster.u32 %r1, %r2, %r3, %r3;", "bar.warp.sync -1, -1;", "redux.sync.add.u32 %r1, %r2, -1, -1;", "trap 1;"]  # fmt: skip
    assert all(refused(["ON:" + line]) for line in lines)
    assert refused(["ON: bra.uni ON;", "nanosleep.u32 1;", "elect.sync %r1|%p1, -1;", "fence.proxy.async;"]) == {}
