"""A grid on several processes: bytes, findings and their order are those of one process, whatever CTAs do to each
other, and whatever becomes of the processes.
"""

import _thread
import errno
import os
import signal
import struct
import sys
import threading
import time

import numpy as np
import pytest

from launches import kernel
from smemsim import Gpu
from smemsim.run.engine import grid
from smemsim.run.procs import shards
from smemsim.virtual import Policy, VirtualDevice

fcntl, resource = (pytest.importorskip(name) for name in ("fcntl", "resource"))
forks = pytest.importorskip("smemsim.run.procs.forks", reason="copies of a process are made on Linux alone")
pytestmark = pytest.mark.skipif(not shards.can_be_copied(), reason="copies of a process are made on Linux alone")

CTAS, BLOCK = 48, 32
OWN = "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1;"
DOUBLE = f"{OWN} ld.global.u32 %r4, [%d2]; mad.lo.u32 %r4, %r4, 3, %r2; st.global.u32 [%d3], %r4;"
LATE = "setp.ge.u32 %p1, %r2, 46;"  # two CTAs at the end of the grid
MOVED = "add.u32 %r5, %r2, {by}; rem.u32 %r5, %r5, 48; mad.lo.u32 %r5, %r5, 32, %r1; mul.wide.u32 %d4, %r5, 4; add.u64 %d4, %d{of}, %d4;"
RACES = {
    "none": (DOUBLE, True),
    "none, in place": (f"{OWN} ld.global.u32 %r4, [%d2]; mad.lo.u32 %r4, %r4, 3, %r2; st.global.u32 [%d2], %r4;", True),
    "none, bytes of one word": ("mov.u32 %r2, %ctaid.x; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d21, %d1; @%p9 st.global.u8 [%d1], %r2;", True),
    "all write to one word": (f"{DOUBLE} @%p9 st.global.u32 [%d20+4], %r2;", False),
    "all write the same to one word": (f"{DOUBLE} @%p9 st.global.u32 [%d21+4], 7;", False),
    "each reads what another one writes": (f"{DOUBLE} {MOVED.format(by=24, of=21)} ld.global.u32 %r6, [%d4]; st.global.u32 [%d2], %r6;", False),
    "the last one writes what all read": (
        f"{DOUBLE} ld.global.u32 %r6, [%d20+128]; setp.eq.u32 %p2, %r2, 47; @%p2 st.global.u32 [%d20+128], %r2; st.global.u32 [%d3], %r6;", False,
    ),
    "of two in one part": (f"{DOUBLE} {LATE} @%p1 st.global.u32 [%d21+4], %r2;", False),
    "of the first and the last": (f"{DOUBLE} rem.u32 %r6, %r2, 47; setp.eq.u32 %p1, %r6, 0; @%p1 st.global.u32 [%d21+4], %r2;", False),
    "atomics": (f"{DOUBLE} @%p9 red.global.add.u32 [%d20], 1;", None),
    "flags": (f"{DOUBLE} @%p9 st.release.gpu.global.u32 [%d20], 1;", None),
    "the next launch may begin": (f"griddepcontrol.launch_dependents; {DOUBLE}", None),
    "memory that is placed for a late CTA": (
        f"{DOUBLE} setp.ne.u32 %p1, %r2, 45; @%p1 bra END; mov.u32 %r5, %envreg1; mov.u32 %r6, %envreg2; mov.b64 %d4, {{%r6, %r5}}; "
        "st.global.u32 [%d4+8], 1; END:", None,
    ),
    "in shared memory, of each CTA": (f"{DOUBLE} mov.u32 %r40, sm; st.shared.u32 [%r40], %r1; bar.sync 0; ld.shared.u32 %r4, [%r40];", True),
    "in shared memory, of one late CTA": (
        f"{DOUBLE} mov.u32 %r40, sm; {LATE} @%p1 st.shared.u32 [%r40], %r1; bar.sync 0; ld.shared.u32 %r4, [%r40+4]; st.global.u32 [%d3], %r4;", True,
    ),
    "a trap of a late CTA": (f"{DOUBLE} setp.eq.u32 %p2, %r2, 45; @%p2 trap;", False),
    "an address outside of a late CTA": (f"{DOUBLE} setp.eq.u32 %p2, %r2, 45; @%p2 ld.global.u32 %r4, [%d3+1048576]; st.global.u32 [%d3], %r4;", False),
    "a late CTA that does not end": (f"{DOUBLE} AGAIN: setp.eq.u32 %p2, %r2, 45; @%p2 bra AGAIN;", False),
    "an early CTA that does not end": (f"{DOUBLE} AGAIN: setp.eq.u32 %p2, %r2, 1; @%p2 bra AGAIN;", False),
    "CTAs none of which ends": (f"{DOUBLE} AGAIN: bra AGAIN;", False),
    "printed": (
        f"{DOUBLE} cvta.local.u64 %d5, args; @%p9 st.local.u32 [args], %r2; cvta.global.u64 %d6, format; @!%p9 bra END; {{ .param .b64 f; st.param.b64 [f], %d6; "
        ".param .b64 a; st.param.b64 [a], %d5; .param .b32 r; call.uni (r), vprintf, (f, a); } END:", True,
    ),
}  # fmt: skip


VARIABLES = """.shared .align 16 .b8 sm[1024];
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[4] = {37, 100, 10};
"""


def run(body, *, ctas=CTAS, prepare=lambda gpu: None, **options):
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(np.arange(ctas * BLOCK, dtype=np.uint32)), gpu.zeros(ctas * BLOCK, np.uint32)]
    text = kernel(2, body, variables=VARIABLES, locals_=".local .align 8 .b8 args[8];")
    meets = {"cooperative": "%envreg1" in body}  # the address of the grid's workspace
    done = gpu.launch(text, grid=ctas, block=BLOCK, args=arrays, **meets, **({"workers": 1, "progress": False} | options))
    return done, [array.numpy().tobytes() for array in arrays]


def told(done):
    return [(f.code, f.line, f.severity, f.message, f.repair, f.ctas) for f in (*done.findings, *done.remarks)]


def same(one, other):
    assert told(one[0]) == told(other[0])
    assert one[1] == other[1]
    assert (one[0].output, one[0].ctas, one[0].evidence) == (other[0].output, other[0].ctas, other[0].evidence)


@pytest.fixture
def added(monkeypatch):
    """Waves of four CTAs, so that few CTAs are many waves; whether each part that a copy has brought was taken."""
    for module in (shards, grid):
        monkeypatch.setattr(module, "at_once", lambda launch, *, sanitizer=True: 4)
    taken, add = [], shards.Merge.add
    monkeypatch.setattr(shards.Merge, "add", lambda merge, result: taken.append(add(merge, result)) or taken[-1])
    return taken


def children():
    """Processes that this one has started and that are there, or that nobody has waited for."""
    with open(f"/proc/self/task/{threading.get_native_id()}/children", encoding="ascii") as file:
        return file.read().split()


@pytest.mark.parametrize("what", RACES)
def test_processes_find_what_one_process_finds(what, added):
    body, fits = RACES[what]
    one, before = run(body), children()
    same(one, run(body, workers=3 if fits else 2))
    assert children() == before
    if fits is None:
        assert not added, "they meet by design, and stay in one process"
    elif fits:
        assert added
        assert all(added)


@pytest.mark.parametrize("most", [1, 20, 60, 133, 134])
def test_processes_print_no_more_than_one_process(most, added, monkeypatch):
    """The CTAs print 134 characters: 10 of 2, and 38 of 3."""
    monkeypatch.setattr("smemsim.run.engine.launch_result.MOST_OUTPUT", most)
    body = RACES["printed"][0]
    one = run(body)
    same(one, run(body, workers=3))
    assert ("printf wrote more" in one[0].output) == (most < 134)
    assert added


def test_what_more_asynchronous_stores_have_done_than_there_was_room_for_is_known(added, monkeypatch):
    for module in (shards, grid):
        monkeypatch.setattr(module, "at_once", lambda launch, *, sanitizer=True: 32)
    body = (
        f"{OWN} mov.u32 %r40, sm; mad.lo.u32 %r41, %r1, 4, %r40; st.shared.u32 [%r41], %r3; fence.proxy.async.shared::cta; bar.sync 0; @!%p9 bra END; "
        "cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r40], 128; cp.async.bulk.commit_group; {} END:"
    )
    waits, meets = "cp.async.bulk.wait_group 0;", "st.global.u32 [%d21+4], %r2;"
    one, other = (run(body.format(waits), ctas=300, workers=workers) for workers in (1, 2))
    same(one, other)
    assert not one[0].findings
    assert all(added)
    assert added
    same(*(run(body.format(f"{waits} {meets}"), ctas=48, workers=workers) for workers in (1, 2)))


def test_schedules_on_several_processes_show_what_they_show_on_one(monkeypatch):
    brought, read = [], forks.Forks.brought
    monkeypatch.setattr(forks.Forks, "brought", lambda *given: brought.append(read(*given)) or brought[-1])
    body = (
        f"{DOUBLE} @%p9 st.relaxed.gpu.global.u32 [%d20], %r2; @%p9 ld.relaxed.gpu.global.u32 %r5, [%d20]; @%p9 st.global.u32 [%d3], %r5;"
    )
    one, other = (run(body, ctas=2, workers=workers, schedule="all:4") for workers in (1, 2))
    same(one, other)
    assert one[0].schedules.text() == other[0].schedules.text()
    assert one[0].schedules.differing
    assert brought
    assert None not in brought


def test_unwatched_ctas_leave_the_same_and_no_descriptors(added):
    one, other = (run(DOUBLE, workers=workers, sanitize=False) for workers in (1, 2))
    same(one, other)
    assert added
    before = os.listdir("/proc/self/fd")
    same(one, run(DOUBLE, workers=2, sanitize=False))
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def _killed(parent):
    os.kill(os.getpid(), signal.SIGKILL)


def _failing(parent):
    raise MemoryError


def _hung(parent):
    signal.pause()


@pytest.mark.parametrize("fate", [_killed, _failing, _hung])
def test_what_a_process_does_not_bring_is_done_here(fate, added, monkeypatch):
    monkeypatch.setattr(forks, "PATIENCE", 0.0)
    monkeypatch.setattr(forks, "_begin_copy", fate)
    one, before = run(DOUBLE), children()
    same(one, run(DOUBLE, workers=2))
    assert children() == before
    assert not added


def test_where_no_process_can_begin_one_does_all(added, monkeypatch):
    def no_more():
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", no_more)
    same(run(DOUBLE), run(DOUBLE, workers=3))
    assert not added


def test_without_descriptors_for_what_they_share_one_process_does_all(added, monkeypatch):
    def no_more(*given):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", no_more)
    same(run(DOUBLE), run(DOUBLE, workers=2))
    assert not added


def test_streams_may_be_closed(added, monkeypatch):
    """Descriptors of what is opened then are those that streams had."""
    monkeypatch.setattr("sys.stdout", os.fdopen(1, "w", closefd=False, encoding="ascii"))
    one, kept = run(DOUBLE), [os.dup(number) for number in range(3)]
    try:
        for number in range(3):
            os.close(number)
        other = run(DOUBLE, workers=2)
    finally:
        for number, was in enumerate(kept):
            os.dup2(was, number)
            os.close(was)
    same(one, other)
    assert all(added)
    assert added


def test_descriptors_may_be_many(added, monkeypatch):
    pipe, limits = os.pipe2, resource.getrlimit(resource.RLIMIT_NOFILE)

    def high(flags):
        reads, writes = pipe(flags)
        moved = fcntl.fcntl(reads, fcntl.F_DUPFD_CLOEXEC, 1100)
        os.close(reads)
        return moved, writes

    if limits[1] != resource.RLIM_INFINITY and limits[1] < 1200:
        pytest.skip("this system allows fewer")
    monkeypatch.setattr(os, "pipe2", high)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(1200, limits[0]), limits[1]))
    try:
        same(run(DOUBLE), run(DOUBLE, workers=2))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert added


def test_an_interrupt_between_two_copies_leaves_none(added, monkeypatch):
    fork, begun = os.fork, []

    def second_fails():
        begun.append(0)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return fork()

    monkeypatch.setattr(os, "fork", second_fails)
    before = children()
    done, _ = run(DOUBLE, workers=3)
    assert done.interrupted
    assert len(begun) == 2
    assert children() == before


def test_a_copy_calls_no_handler_of_the_program(added, monkeypatch):
    """Its own end, and signals to all processes of a terminal, are none of its business."""
    reads, writes = os.pipe()
    fork = os.fork

    def forked():
        if not (child := fork()):
            for number in (signal.SIGINT, signal.SIGUSR1):
                os.kill(os.getpid(), number)  # before it has begun
        return child

    def handler(number, frame):
        os.write(writes, b"!")

    monkeypatch.setattr(os, "fork", forked)
    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGUSR1)}
    try:
        same(run(DOUBLE), run(DOUBLE, workers=2))
        os.set_blocking(reads, False)
        with pytest.raises(BlockingIOError):
            os.read(reads, 1)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    finally:
        for number, was in old.items():
            signal.signal(number, was)
        os.close(reads)
        os.close(writes)


def test_an_interrupted_launch_leaves_no_process(added, monkeypatch):
    took = []

    def interrupted(copies):
        took.append(children())
        raise KeyboardInterrupt

    before = children()
    monkeypatch.setattr(forks.Forks, "next", interrupted)
    done, _ = run(DOUBLE, workers=2)
    assert done.interrupted
    assert len(took[0]) == len(before) + 1
    assert children() == before


@pytest.fixture
def alone(monkeypatch):
    """Threads of those who run the tests are not looked at: pytest-xdist has some, and so has Dask where tests before
    these have used it.
    """
    frames, listed = sys._current_frames, threading.enumerate
    theirs = {*frames(), *(thread.ident for thread in listed())} - {threading.get_ident()}
    monkeypatch.setattr(sys, "_current_frames", lambda: {thread: frame for thread, frame in frames().items() if thread not in theirs})
    monkeypatch.setattr(threading, "enumerate", lambda: [thread for thread in listed() if thread.ident not in theirs])


def test_a_launch_goes_to_idle_processors_by_itself_where_that_saves_time(added, alone, monkeypatch):
    for name, value in (("processors", lambda: 2), ("idle", lambda: 1), ("START", 0.0), ("NOTED", 0.0)):
        monkeypatch.setattr(shards, name, value)
    one = run(DOUBLE)
    same(one, run(DOUBLE, workers=None))
    assert added
    added.clear()
    monkeypatch.setattr(shards, "idle", lambda: 0)
    same(one, run(DOUBLE, workers=None))
    monkeypatch.setattr(shards, "idle", lambda: 1)
    monkeypatch.setattr(shards, "START", 100.0)
    same(one, run(DOUBLE, workers=None))
    assert not added


def test_beside_other_threads_a_process_is_copied_only_where_that_is_asked_for(added, alone, monkeypatch):
    for name, value in (("processors", lambda: 2), ("idle", lambda: 1), ("START", 0.0), ("NOTED", 0.0)):
        monkeypatch.setattr(shards, name, value)
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        one = run(DOUBLE)
        same(one, run(DOUBLE, workers=None))
        assert not added
        same(one, run(DOUBLE, workers=2))
        assert added
    finally:
        over.set()
        other.join()


def test_beside_threads_that_python_does_not_list_a_process_is_not_copied(added, alone, monkeypatch):
    for name, value in (("processors", lambda: 2), ("idle", lambda: 1), ("START", 0.0), ("NOTED", 0.0)):
        monkeypatch.setattr(shards, name, value)
    over, begun = threading.Event(), threading.Event()
    _thread.start_new_thread(lambda: (begun.set(), over.wait()), ())
    begun.wait()
    try:
        run(DOUBLE, workers=None)
        assert not added
    finally:
        over.set()


def test_beside_a_bar_on_the_terminal_a_process_is_copied(added, alone, monkeypatch):
    for name, value in (("processors", lambda: 2), ("idle", lambda: 1), ("START", 0.0), ("NOTED", 0.0)):
        monkeypatch.setattr(shards, name, value)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(DOUBLE, workers=None, progress=True)
    assert added


def test_memory_of_a_device_is_that_of_a_copy_alone(added):
    """The virtual device's memory is shared with the processes of its program: what a copy writes there comes through
    this process.
    """
    left = []
    for workers in (1, 2):
        device = VirtualDevice("sm_90a", policy=Policy.of(workers=workers))
        function = device.load(kernel(2, f"{DOUBLE} st.global.u32 [%d2], %r4;", variables=VARIABLES)).function("k")
        a, b = (device.allocate(4 * CTAS * BLOCK) for _ in range(2))
        for array in (a, b):
            device.view(array, 4 * CTAS * BLOCK)[:] = 1
        device.launch(function, (CTAS, 1, 1), (BLOCK, 1, 1), [struct.pack("<Q", array) for array in (a, b)])
        left.append([device.view(array, 4 * CTAS * BLOCK).tobytes() for array in (a, b)])
    assert left[0] == left[1]
    assert added


def on_device(body, workers, **policy):
    """The bytes of two arrays of a device behind a launch, of which the first one is as it was allocated, and what was
    found.
    """
    device, told = VirtualDevice("sm_90a", policy=Policy.of(workers=workers, **policy)), []
    device.listeners.ended = told.append
    function = device.load(kernel(2, body, variables=VARIABLES)).function("k")
    a, b = (device.allocate(4 * CTAS * BLOCK) for _ in range(2))
    device.view(b, 4 * CTAS * BLOCK)[:] = 1
    device.launch(function, (CTAS, 1, 1), (BLOCK, 1, 1), [struct.pack("<Q", array) for array in (a, b)])
    run = told[0].run
    return device.view(b, 4 * CTAS * BLOCK).tobytes(), [f["code"] for f in run["findings"]], run["evidence"]


def test_what_the_first_process_stores_meanwhile_counts_as_no_copy_s(added, monkeypatch):
    """Nobody notes who writes: what is left is compared with what was there before."""
    begin = shards.Shard.begin
    monkeypatch.setattr(shards.Shard, "begin", lambda shard, **given: (begin(shard, **given), time.sleep(0.02))[0])
    body = f"{OWN} mov.u32 %r5, 0; AGAIN: add.u32 %r5, %r5, 1; st.global.u32 [%d3], %r5; setp.lt.u32 %p1, %r5, 400; @%p1 bra AGAIN;"
    assert on_device(body, 1, sanitize=False) == on_device(body, 2, sanitize=False)
    assert added


@pytest.mark.parametrize("byte", [2, 3])
def test_a_byte_that_some_ctas_leave_out_is_found_as_in_one_process(byte, added):
    """Each thread writes three bytes of a word, and decides by one of its word."""
    body = (
        f"{OWN} sub.u64 %d5, %d3, %d21; add.u64 %d5, %d5, %d20; st.global.u16 [%d5], %r1; st.global.u8 [%d5+2], %r1; "
        f"ld.global.u8 %r4, [%d5+{byte}]; setp.gt.u32 %p3, %r4, 100; @%p3 st.global.u32 [%d3], 1;"
    )
    one, other = on_device(body, 1), on_device(body, 2)
    assert one == other
    assert one[1] == ["R507"] * (byte == 3)


@pytest.mark.parametrize("writer", [5, 47])
def test_garbage_beside_what_others_write_is_found_as_in_one_process(writer, added):
    """Of 32 bytes of which some are written none counts as unwritten from then on, whoever is first."""
    body = (
        f"{OWN} setp.eq.u32 %p1, %r2, {writer}; setp.eq.and.u32 %p1, %r1, 0, %p1; @%p1 st.global.u32 [%d20+1024], %r1; setp.eq.u32 %p2, %r2, 46; "
        "mov.u32 %r4, 0; @%p2 ld.global.u32 %r4, [%d20+1028]; setp.gt.u32 %p3, %r4, 5; @%p3 st.global.u32 [%d3], 1;"
    )
    one, other = on_device(body, 1), on_device(body, 2)
    assert one == other
