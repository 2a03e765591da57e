"""Processes that are copies of this one: they execute parts of the work from its end, while this process executes it
from its begin.

A copy begins in milliseconds, since it has all that this process has read, linked and compiled. Its changes stay in
the copy. It writes its results to a file in memory. This process does not depend on copies: it does the work of a
copy that has died, or that does not end.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import mmap
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.base import store

__all__ = ["CONNECTION", "PROGRESS", "Forks", "Piece", "are_safe", "not_copied", "shared_ranges", "to_own"]


# names of smemsim's threads: `virtual.server`, `diagnosis.progress`
CONNECTION, PROGRESS = "smemsim connection", "smemsim progress"
MOST_PIECES = 4096
PATIENCE, TIMES = 2.0, 10.0  # how long a copy is waited for: seconds, and times as long as its part takes here
LOOK = 100  # milliseconds after which it is looked whether there is still time
RESULT, STOP = 1, 2  # states of a part: it is there; it has to be done by the first process
# The board: what the first process takes next, where what copies have taken from the end begins, how many parts that
# is.
NEXT, BACK, PIECES, IS_OVER, HEAD = range(5)
FIRST, COUNT, WHO, STATE, BEGIN, END, WIDTH = range(7)  # of each part
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_NORESERVE = 0x4000
_WIPEONFORK, _KEEPONFORK = 18, 19  # of madvise
_NOT_COPIED = ("jax", "jaxlib")  # which have their own names

# (first unit, how many): the buffers that are brought, None where this is not for a copy
Work = Callable[[int, int], Sequence[Any] | None]


class Piece(NamedTuple):
    """A part of the work that a copy has taken."""

    number: int
    first: int  # unit
    units: int


def are_safe(*, asked: bool) -> bool:
    """May this process be copied? Only if other threads run Python on request alone (`asked`): another thread may
    hold a lock that the copy could never release.
    """
    if any(name in sys.modules for name in _NOT_COPIED):
        return False
    threads = threading.enumerate()
    harmless = {threading.get_ident(), *(thread.ident for thread in threads if _only_shows(thread))}
    # those that other languages have started too
    running = {*sys._current_frames(), *(thread.ident for thread in threads)}
    return asked or running <= harmless


def _only_shows(thread: threading.Thread) -> bool:
    """Does a thread wait for a connection to end, or draw a bar? It holds no lock that a copy needs."""
    return thread.name in (CONNECTION, PROGRESS) or type(thread).__module__.startswith("rich.")


# ---- Memory that copies would share with this process


def shared_ranges(places: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]] | None:
    """The file mappings that contain these memory ranges (begin, end), as (begin, bytes, descriptor, offset). A copy of
    the process would write there to memory of this process. None if the file is not open here.
    """
    found: list[tuple[int, int, int, int]] = []
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            mappings = [line.split(maxsplit=5) for line in lines if line.split(maxsplit=2)[1][3] == "s"]
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for span, _, offset, device, inode, *_ in mappings:
        begin, end = (int(number, 16) for number in span.split("-"))
        if not any(first < end and begin < last for first, last in places):
            continue
        descriptor = _descriptor(descriptors, device, int(inode))
        if descriptor is None:
            return None
        found.append((begin, end - begin, descriptor, int(offset, 16)))
    return found


def _descriptor(descriptors: Sequence[str], device: str, inode: int) -> int | None:
    """Which of the descriptors of this process is for a file?"""
    major, minor = (int(number, 16) for number in device.split(":"))
    for name in descriptors:
        with contextlib.suppress(OSError):
            status = os.fstat(int(name))
            if (status.st_ino, os.major(status.st_dev), os.minor(status.st_dev)) == (inode, major, minor):
                return int(name)
    return None


def to_own(ranges: Sequence[tuple[int, int, int, int]]) -> None:
    """Have `shared_ranges` for this process alone from now on, with what is in them; OSError where that cannot be. A
    page is shared until its first write.
    """
    libc = _libc()
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    flags = mmap.MAP_PRIVATE | 0x10 | _NORESERVE  # MAP_FIXED
    for begin, size, descriptor, offset in ranges:
        if libc.mmap(begin, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, offset) != begin:
            raise OSError(ctypes.get_errno(), "mmap")


@contextlib.contextmanager
def not_copied(arrays: Sequence[np.ndarray]) -> Iterator[None]:
    """In copies made inside this context, these arrays are zeros: their contents are not needed, so their pages are not
    copied, neither there nor here.

    Pages at the edges, which contain other data too, are copied. Copies have no freed memory either.
    """
    libc = _libc()
    libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(ctypes.c_size_t(0))
    page, advised = mmap.PAGESIZE, []
    try:
        for array in arrays:
            begin, end = -(-array.ctypes.data // page) * page, (array.ctypes.data + array.nbytes) // page * page
            if begin < end and not libc.madvise(begin, end - begin, _WIPEONFORK):
                advised.append((begin, end - begin))
        yield
    finally:
        for begin, size in advised:
            libc.madvise(begin, size, _KEEPONFORK)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# ---- The copies


class _Child:
    """A process that this one has started. Others may wait for it, and its number may be reused: a descriptor
    identifies it, if the system has them.
    """

    def __init__(self, number: int) -> None:
        self._known: tuple[int, int] = os.P_PID, number
        with contextlib.suppress(AttributeError, OSError):
            self._known = os.P_PIDFD, _apart(os.pidfd_open(number))

    def end(self) -> None:
        """Have it end, whatever it does."""
        kind, named = self._known
        with contextlib.suppress(OSError):
            os.waitid(kind, named, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises where it is not ours
            if kind == os.P_PID:
                os.kill(named, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(named, signal.SIGKILL)

    def close(self) -> None:
        """Wait until it has ended."""
        kind, named = self._known
        with contextlib.suppress(ChildProcessError):  # another thread has
            os.waitid(kind, named, os.WEXITED)
        if kind != os.P_PID:
            os.close(named)


class Forks:
    """`count` copies of this process, which share `units` of work with it. They take no less than `least` at a time,
    and each unit takes about `seconds` here.

    `begin` is called in each copy first. Where there can be no copies, or fewer, there are fewer.
    """

    def __init__(self, units: int, count: int, work: Work, *, least: int, seconds: float, begin: Callable[[], None]) -> None:
        self.units, self.count, self.least, self.seconds = units, count, max(1, least), seconds
        self._children: list[_Child] = []
        self._pipes: list[int] = []
        self._files: list[int] = []
        self._read = 0  # parts that were listed
        self._shared = mmap.mmap(-1, 8 * (HEAD + MOST_PIECES * WIDTH))
        board = np.frombuffer(self._shared, np.int64)
        self._head, self._pieces = board[:HEAD], board[HEAD:].reshape(-1, WIDTH)
        self._head[BACK] = units
        self._lock = _apart(os.memfd_create("smemsim work", os.MFD_CLOEXEC))
        parent = os.getpid()
        try:
            for number in range(count):
                self._fork(number, work, begin, parent)
        except OSError:  # no more processes, descriptors, or memory: those that there are do
            pass
        except BaseException:
            self.close()
            raise

    def _fork(self, number: int, work: Work, begin: Callable[[], None], parent: int) -> None:
        file = _apart(os.memfd_create("smemsim results", os.MFD_CLOEXEC))
        self._files.append(file)
        reads, writes = map(_apart, os.pipe2(os.O_CLOEXEC))
        self._pipes.append(reads)
        taken = self._take(number)  # so that it need not be quick to get some
        child = -1
        # no copy calls a handler of the program's
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads: see `are_safe`
                child = os.fork()
            if not child:
                try:
                    _begin_copy(parent)
                    store.say_nothing()
                    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
                    begin()
                    self._work(number, taken, work, file, writes)
                finally:
                    os._exit(0)
            self._children.append(_Child(child))
        finally:
            os.close(writes)
            if child < 0 and taken is not None:
                taken[STATE] = STOP
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process takes work meanwhile; one that dies gives the lock back."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    # ---- in a copy

    def _work(self, number: int, taken: np.ndarray | None, work: Work, file: int, writes: int) -> None:
        at = 0
        while taken is not None:
            state = STOP
            try:
                buffers = work(int(taken[FIRST]), int(taken[COUNT]))
                if buffers is not None:
                    taken[BEGIN] = at
                    for buffer in buffers:
                        at = _written(file, buffer, at)
                    taken[END], state = at, RESULT
            finally:
                taken[STATE] = state
                if state == STOP:
                    self._head[IS_OVER] = 1
                os.write(writes, b"x")
            taken = self._take(number)

    def _take(self, number: int) -> np.ndarray | None:
        """A part from the end of what is left."""
        head = self._head
        with self._alone():
            left = int(head[BACK] - head[NEXT])
            if left <= 0 or head[IS_OVER] or head[PIECES] == MOST_PIECES:
                return None
            count = min(left, max(self.least, left // (2 * (self.count + 1))))
            head[BACK] -= count
            piece: np.ndarray = self._pieces[head[PIECES]]
            piece[:] = head[BACK], count, number, 0, 0, 0
            head[PIECES] += 1
            return piece

    # ---- in this process

    def next(self) -> int | None:
        """The next unit, which is to be done here now; None where all are taken."""
        head = self._head
        with self._alone():
            if head[NEXT] >= head[BACK]:
                return None
            head[NEXT] += 1
            return int(head[NEXT]) - 1

    def stop(self) -> None:
        """The copies take no more."""
        self._head[IS_OVER] = 1

    def arrived(self) -> list[Piece]:
        """The parts that copies have brought and that were not listed before, in the order in which they were taken."""
        found = []
        while self._read < self._head[PIECES] and self._pieces[self._read, STATE]:
            if self._pieces[self._read, STATE] == RESULT:
                found.append(self._piece(self._read))
            self._read += 1
        return found

    def pieces(self) -> list[Piece]:
        """All parts that copies have taken, in the order of the work; after `next` has returned that none is left, or
        after `stop`.
        """
        return sorted((self._piece(n) for n in range(int(self._head[PIECES]))), key=lambda piece: piece.first)

    def _piece(self, number: int) -> Piece:
        return Piece(number, int(self._pieces[number, FIRST]), int(self._pieces[number, COUNT]))

    def brought(self, piece: Piece, is_over: Callable[[], bool] = lambda: False) -> memoryview | None:
        """The result of a copy, once it is there; None if the work has to be done here, or if the time `is_over`."""
        row = self._pieces[piece.number]
        pipe, patience = self._pipes[row[WHO]], time.monotonic() + PATIENCE + TIMES * self.seconds * piece.units
        ready = select.poll()  # `select.select` knows no descriptors from 1024 on
        ready.register(pipe, select.POLLIN)
        while not row[STATE]:
            if is_over() or time.monotonic() > patience:
                return None
            if ready.poll(LOOK) and not os.read(pipe, 1) and not row[STATE]:
                return None
        if row[STATE] != RESULT:
            return None
        begin, end = int(row[BEGIN]), int(row[END])
        first = begin // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        # so that what is read there may be changed here
        flags, access = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        try:
            held = mmap.mmap(self._files[row[WHO]], end - first, flags, access, offset=first)
        except OSError:  # no memory for it
            return None
        return memoryview(held)[begin - first :]

    def close(self) -> None:
        """End the copies, whatever they do."""
        for child in self._children:
            child.end()
        for child in self._children:
            child.close()
        for descriptor in (*self._pipes, *self._files, self._lock):
            os.close(descriptor)
        self._children, self._pipes, self._files = [], [], []


def _apart(descriptor: int) -> int:
    """The same, and none of the first three, which a program whose streams are closed may take for theirs."""
    if descriptor > 2:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return moved


def _begin_copy(parent: int) -> None:
    """This process ends with the first one, and has nothing to do with its user."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    # garbage of the first process is garbage here too; only the first process may close its files and connections
    gc.freeze()
    with contextlib.suppress(ValueError, OSError):
        signal.set_wakeup_fd(-1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # one that is closed, or no file
            os.dup2(nowhere, stream.fileno())
    for number in signal.valid_signals():  # whatever has a handler: the program's, or one that shows where a fault was
        with contextlib.suppress(OSError, ValueError):  # SIGKILL, SIGSTOP
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")  # where memory is short, the copy goes, and this process does its work


def _written(file: int, buffer: Any, at: int) -> int:
    """Write a buffer at a place of a file; returns the place after it."""
    left = memoryview(buffer).cast("B")
    while len(left):
        count = os.pwrite(file, left, at)
        left, at = left[count:], at + count
    return at
