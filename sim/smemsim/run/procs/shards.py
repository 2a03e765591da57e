"""A grid's CTAs in several processes, and their results merged.

CTAs that do not wait for each other may run anywhere. On Linux, copies of this process take waves from the end of the
grid while this one takes them from its begin (`smemsim.run.procs.forks`). Elsewhere and on a Dask cluster, processes
get plain data (`smemsim.run.procs.workers`). The results are merged in the order of the CTAs' numbers: what they wrote,
and their accesses to global memory (`run/sanitizer/shard_record.py`). If CTAs of two processes have accessed the same
bytes there, or if anything else differs from one process, the CTAs run again, here and in their order. So findings and
bytes are those of one process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from smemsim.base.budget import ask
from smemsim.base.budget import left as left_of_budget
from smemsim.base.floating_point import in_default_state
from smemsim.base.processors import can_be_copied, can_have_children, idle, processors, room
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.machine.uninitialised import Garbage
from smemsim.core.ptx.module import Instruction
from smemsim.run.engine.grid import WAVE_BYTES, at_once, depends, execute, resident, takes_over
from smemsim.run.engine.launch import Launch, LaunchConfig, LinkedKernel, Queue, RunOptions
from smemsim.run.engine.launch_result import LaunchResult
from smemsim.run.engine.register_pool import idle_rooms
from smemsim.run.lower.program import linked, module_of
from smemsim.run.sanitizer.history import MOST_BYTES, may_be_written, may_lack_fence, releases_dependents
from smemsim.run.sanitizer.shard_record import NOTHING_BEFORE, Record, begin
from smemsim.run.sanitizer.stored import Before, Left

if TYPE_CHECKING:
    from smemsim.run.procs.forks import Forks

__all__ = ["Changed", "Merge", "Shard", "ShardResult", "Work", "execute_spread", "packed", "run_shard", "shared_out", "unpacked", "work_of"]


# ---- A part of a launch that another process executes: what it needs, as plain data, and what it gives back


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """The parts of a launch that are passed on, the PTX text of its kernel, and global memory before the launch. Arrays
    are addresses, bytes and names.
    """

    text: str
    arch: str
    config: LaunchConfig  # without arguments: they lie in memory
    options: RunOptions
    addresses: dict[str, int]  # of variables in global memory
    parameter_address: int
    parameter_bytes: int
    arrays: tuple[tuple[int, np.ndarray, str], ...]
    sanitizer: bool
    result: LaunchResult  # that the CTAs begin with


@dataclasses.dataclass(frozen=True, eq=False)
class Changed:
    """The bytes of an array that are others now: `values` of the words (64 bits) at some places, of which the bytes
    in `masks` are others.
    """

    address: int
    at: np.ndarray
    values: np.ndarray
    masks: np.ndarray

    @classmethod
    def between(cls, address: int, before: np.ndarray, after: np.ndarray) -> Changed | None:
        """The bytes that differ between two states of the words of an array; None where none do."""
        at = np.flatnonzero(before != after)
        return cls(address, at, after[at], _bytes_of(before[at] ^ after[at])) if at.size else None

    def write(self, words: np.ndarray) -> None:
        """Leave them in the array."""
        words[self.at] = (words[self.at] & ~self.masks) | (self.values & self.masks)


def _bytes_of(words: np.ndarray) -> np.ndarray:
    """0xff in place of each byte of words that is not 0."""
    found: np.ndarray = (((words & LOWER) + LOWER) | words) >> SEVENTH & ONES
    return found * np.uint64(0xFF)


LOWER, ONES, SEVENTH = np.uint64(0x7F7F_7F7F_7F7F_7F7F), np.uint64(0x0101_0101_0101_0101), np.uint64(7)


@dataclasses.dataclass(frozen=True, eq=False)
class ShardResult:
    """The results of some CTAs. If `is_whole` is False, they have to run again in their order, because of a trap, a
    hang, the end of the time, or a race in global memory.

    If global memory is not checked for races, `record` is None, and `changed` has its bytes.
    """

    is_whole: bool
    ctas: int
    record: Record | None
    changed: tuple[Changed, ...]
    left: LaunchResult
    stored: Left | None = None  # uninitialised values


def work_of(launch: Launch, *, sanitizer: bool) -> Work:
    """The data that another process needs to execute CTAs of a launch."""
    ask("a copy of global memory for other processes", sum(len(region.data) for region in launch.memory.table()[2]))
    arrays = tuple((region.begin, region.data.copy(), region.name) for region in launch.memory.table()[2] if len(region.data))
    left = launch.options.limit_seconds
    if left is not None:
        left = max(SOON, launch.deadline - time.monotonic())  # the clocks of two machines have nothing in common
    options = dataclasses.replace(launch.options, ctas=None, client=None, sources=(), limit_seconds=left)
    return Work(
        text=launch.kernel.text, arch=launch.arch, config=dataclasses.replace(launch.config, args=()), options=options,
        addresses=dict(launch.addresses), parameter_address=launch.parameter_address, parameter_bytes=len(launch.parameters), arrays=arrays,
        sanitizer=sanitizer, result=launch.result.fresh(),
    )  # fmt: skip


class Shard:
    """The executor of CTAs of a launch that change nothing for others. If writers of arrays are not noted, `before` has
    the bytes of these arrays.
    """

    def __init__(self, launch: Launch, *, sanitizer: bool) -> None:
        self.launch, self.sanitizer, self.result = launch, sanitizer, launch.result.fresh()
        self.before: dict[int, np.ndarray] = {}

    def begin(self, *, is_shared: bool = False) -> None:
        """Save the contents of memory, if they are needed."""
        launch = self.launch
        if not (self.sanitizer and launch.options.watch_global):
            written = may_be_written(launch)
            regions = [r for r in launch.memory.filled() if written is None or id(r.words) in written]
            for region in regions:
                self.before[region.begin] = words = region.words.copy()
                # a page of a mapped file is this process's own once it is written: until then stores of the first
                # process are seen, and would count as ours
                if is_shared:
                    region.words[:] = words

    def run(self, clusters: Sequence[int]) -> ShardResult:
        """Execute some clusters."""
        launch = self.launch
        launch.result = result = self.result.fresh()
        littered = [region.blank for region in launch.memory.table()[2] if isinstance(region.blank, Garbage)]
        for blank in littered:
            blank.has_parts = False
        since = None if launch.history is None else begin(launch.history)
        before = Before(launch)
        finished = execute(launch, clusters, sanitizer=self.sanitizer)
        history, record, changed = launch.history, None, []
        if history is not None:
            since = since or NOTHING_BEFORE
            finished = finished and not (history.has_met or history.unused.is_waiting or len(history.told) > since.told)
            record = Record.of(history, since) if finished else None
        for address, words in self.before.items():
            part = Changed.between(address, words, launch.memory.find(address).words)
            if part is not None:
                part.write(words)
                changed.append(part)
        # Without a write, it records the threads that have written in the same line until then.
        depends_on_order = any(blank.has_parts for blank in littered) or (
            bool(littered) and any(f.code == "R507" for f in result.findings.added)
        )
        depends_on_order = depends_on_order or before.are_touched
        is_whole, ctas = finished and not depends_on_order, len(clusters) * launch.cluster_size
        return ShardResult(is_whole, ctas, record, tuple(changed), result.finish(), before.left(result.findings))


@in_default_state
def run_shard(work: Work, clusters: Sequence[int]) -> bytes:
    """Execute some clusters of a launch; a pure function, whose result `unpacked` reads."""
    memory = GlobalMemory()
    for address, data, name in work.arrays:
        memory.place(data, address, name=name)
    module, entry = module_of(work.text), str(work.config.entry)
    kernel = LinkedKernel.of(linked(module, entry, work.arch), work.text, module.functions[entry].directives, work.addresses)
    launch = Launch(
        kernel=kernel, config=work.config, options=work.options, memory=memory,
        parameter_address=work.parameter_address, parameters=memory.span(work.parameter_address, work.parameter_bytes),
        result=work.result.fresh(), taint=memory.taint,
    )  # fmt: skip
    launch.begin()
    shard = Shard(launch, sanitizer=work.sanitizer)
    shard.begin()
    return b"".join(packed(shard.run(clusters), launch))


# ---- Results as bytes: instructions are their places in the program, large arrays lie as they are


LARGE, UNIT = 1 << 14, 16  # bytes of an array that is large; what they begin at a multiple of


def packed(result: ShardResult, launch: Launch) -> list[Any]:
    """The buffers of a result."""
    places = {id(i): n for n, i in enumerate(launch.program.inlined.body)}
    arrays: list[memoryview] = []

    def lies_apart(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= LARGE:
            arrays.append(raw)
        return raw.nbytes < LARGE

    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=5, buffer_callback=lies_apart)
    pickler.dispatch_table = {Instruction: lambda i: (_instruction, (places[id(i)],)) if id(i) in places else i.__reduce_ex__(5)}
    pickler.dump(result)
    buffers = [file.getbuffer(), *arrays]
    header = memoryview(np.array([len(buffers), *(buffer.nbytes for buffer in buffers)], np.int64).tobytes())
    filled: list[Any] = []
    for buffer in (header, *buffers):
        filled += [buffer, bytes(-buffer.nbytes % UNIT)]
    return filled


def unpacked(raw: Any, launch: Launch) -> ShardResult:
    """The result of these bytes, for a launch of the same program."""
    view = memoryview(bytearray(raw) if isinstance(raw, bytes) else raw)
    count = int(np.frombuffer(view[:8], np.int64)[0])
    sizes, buffers = np.frombuffer(view[8 : 8 + 8 * count], np.int64).tolist(), []
    at = -(-8 * (1 + count) // UNIT) * UNIT
    for size in sizes:
        buffers.append(view[at : at + size])
        at += -(-size // UNIT) * UNIT
    result: ShardResult = _Reader(io.BytesIO(buffers[0]), buffers=buffers[1:], launch=launch).load()
    return result


def _instruction(place: int) -> Instruction:
    """Stands for an instruction in results, by its place in the program."""
    raise NotImplementedError


class _Reader(pickle.Unpickler):
    """Reads results of a launch."""

    def __init__(self, file: io.BytesIO, *, buffers: Sequence[memoryview], launch: Launch) -> None:
        super().__init__(file, buffers=buffers)
        self._body = launch.program.inlined.body

    def find_class(self, module: str, name: str) -> Any:
        """Find a class (pickle.Unpickler)."""
        return self._body.__getitem__ if (module, name) == (__name__, _instruction.__name__) else super().find_class(module, name)


class Merge:
    """Puts results into the launch, in the order of the CTAs."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._changed: dict[int, np.ndarray] = {}  # of an array: which bytes earlier shards have changed

    def fits(self, result: ShardResult) -> bool:
        """Is it as if these CTAs had run here?"""
        launch, record = self.launch, result.record
        if not result.is_whole or not launch.result.output.fits(result.left.output):
            return False
        return launch.history is None or (record is not None and not record.meets(launch.history))

    def add(self, result: ShardResult) -> bool:
        """Merge the result of one shard into the launch; False, without an effect, if it does not fit."""
        launch = self.launch
        if not self.fits(result):
            return False
        if result.record is not None:
            result.record.enter(launch.history)
        for part in result.changed:
            self._write(part)
        launch.result.merge(result.left)
        if result.stored is not None:
            result.stored.enter(launch)
        return True

    def _write(self, part: Changed) -> None:
        """Leave changed bytes. Where two shards give a byte different values the later one's stays."""
        region = self.launch.memory.find(part.address)
        changed = self._changed.setdefault(region.begin, np.zeros(len(region.words), np.uint64))
        others = _bytes_of((region.words[part.at] ^ part.values) & changed[part.at] & part.masks)
        if others.any():
            both = np.flatnonzero(others.view(np.uint8))
            first, last = (region.words_begin + 8 * int(part.at[n // 8]) + int(n % 8) for n in (both[0], both[-1]))
            self.launch.result.evidence.add(
                f"CTAs of this launch write different values to the same bytes of global memory ({both.size} of {first:#x} to {last:#x}); "
                "which value stays is not determined, also on hardware"
            )
        changed[part.at] |= part.masks
        part.write(region.words)


# ---- A grid on several cores, or on a Dask cluster: the CTAs after the first ones, if they are independent and large
# enough


START = 0.03  # seconds that copies of this process take to begin and to end
# Seconds for each byte of the arrays that may be written: copies of pages, transfer of the results and of the
# sanitizer's record.
COPIED, NOTED = 2e-9, 1e-8
TWICE = 2  # how many times more has to be saved than that
AGAIN = 0.1  # seconds after which it is looked again
PART = 0.02  # seconds of work that a copy takes at the least
FIRST = 2  # waves before one is a measure, if the program has not run before: the first one also does one-time work
DEATHS = 5  # times that workers may be lost
LONGEST = 10.0  # seconds of a shard, if a wave takes no longer
OBJECTS = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")  # what they read is no array of global memory
MAPS = "tensormap"  # what is made in memory is followed in one process
SOON = 1e-6  # seconds: the least that a part of a launch is given

Done = Callable[[int], None]
Unit = TypeVar("Unit")
Outcome = TypeVar("Outcome")


def execute_spread(
    launch: Launch,
    clusters: Sequence[int] | None = None,
    *,
    sanitizer: bool = True,
    done: Done = lambda ctas: None,
) -> bool:
    """Run clusters of a launch (all of them without `clusters`) like `execute`, with the same results, on the `workers`
    processes or the Dask cluster of its options.

    Without either, copies of this process run on idle processors, if the first waves show that this saves time. CTAs
    run here if they wait for each other, add to the same words, take over each other's work, read %smid, or allocate
    memory. They also run here if they use the grid's workspace, or fill arrays that were declared uninitialised. Raises
    InputError if workers of a Dask cluster are lost again and again.
    """
    workers, client = launch.options.workers, launch.options.client
    given: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    together = min(at_once(launch, sanitizer=sanitizer), resident(launch))
    if len(given) <= together or _is_one(launch, looks=sanitizer and launch.options.watch_global):
        return execute(launch, clusters, sanitizer=sanitizer, done=done)
    count = processors() if workers is None else workers
    if client is None and (count == 1 or not can_have_children()):
        return execute(launch, clusters, sanitizer=sanitizer, done=done)
    queue = _Shared(launch, _Waves(given, together), count, sanitizer=sanitizer, done=done)
    try:
        return execute(launch, queue, sanitizer=sanitizer, done=done)
    finally:
        queue.close()


def _is_one(launch: Launch, *, looks: bool) -> bool:
    """Are there things that CTAs of one process alone can do?"""
    program, regions = launch.program, launch.memory.table()[2]
    if launch.schedule is not None or depends(launch) or takes_over(launch) or program.names_multiprocessors:
        return True
    if program.allocates or program.names_workspace:  # memory that is placed while the launch runs
        return True
    # what runs beside the next launch, or the one before
    if releases_dependents(launch) or launch.options.after is not None:
        return True
    if launch.memory.has_declared or any(region.chunks is not None for region in regions) or not program.uses.isdisjoint((*OBJECTS, MAPS)):
        return True
    # If a fence may be missing, it records the threads that have loaded a line.
    return looks and (may_lack_fence(program) or any(region.words.nbytes > MOST_BYTES for region in regions))


def _worth(units: int, seconds: float, count: int, size: int, *, is_noted: bool) -> int:
    """How many copies of this process save time, of `count` processes: of units of work that take so many seconds
    each and write to `size` bytes?
    """
    copies = min(count - 1, units - 1, idle(), min(room(), left_of_budget()) // (WAVE_BYTES + 3 * size))
    if copies < 1:
        return 0
    saved = seconds * units * copies / (copies + 1)
    return copies if saved > TWICE * (START + (NOTED if is_noted else COPIED) * size) else 0


@contextlib.contextmanager
def _copies(
    memory: GlobalMemory, units: int, count: int, work: Callable[[int, int], list[Any] | None], seconds: float, *, asked: bool,
    begin: Callable[[bool], None] = lambda is_shared: None, idle: Sequence[np.ndarray] = (),
) -> Iterator[Forks | None]:  # fmt: skip
    """`count` copies of this process, with their own memory; None if it cannot be copied.

    `begin` gets whether mapped files are their own too. They need nothing of the `idle` arrays.
    """
    from smemsim.run.procs.forks import Forks, are_safe, not_copied, shared_ranges, to_own

    places = [(r.words.ctypes.data, r.words.ctypes.data + r.words.nbytes) for r in memory.table()[2] if r.words.nbytes]
    shared = shared_ranges(places) if are_safe(asked=asked) else None
    if shared is None:
        yield None
        return

    def begins() -> None:
        to_own(shared)
        begin(bool(shared))

    try:
        with not_copied(idle):
            copies = Forks(units, count, work, least=int(PART / max(seconds, SOON)), seconds=seconds, begin=begins)
    except OSError:  # no memory, or no descriptor, for what they share
        copies = None
    try:
        yield copies
    finally:
        if copies is not None:
            copies.close()


def shared_out(
    units: Sequence[Unit], do: Callable[[Unit], Outcome], memory: GlobalMemory, workers: int | None
) -> Generator[Outcome, None, None]:
    """The results of units of work, in their order; all but the first run in several processes, if that saves time.
    Each unit begins with memory that it fills itself.
    """
    count = processors() if workers is None else workers
    if not units:
        return
    began = time.perf_counter()
    yield do(units[0])
    seconds, rest = time.perf_counter() - began, units[1:]
    size = sum(len(region.data) for region in memory.table()[2])
    copies = min(count - 1, len(rest) - 1) if workers is not None else _worth(len(rest), seconds, count, size, is_noted=False)
    if copies < 1 or not can_be_copied() or not can_have_children():
        yield from map(do, rest)
        return
    work: Callable[[int, int], list[Any]] = lambda first, n: [pickle.dumps([do(unit) for unit in rest[first : first + n]], 5)]  # noqa: E731
    with _copies(memory, len(rest), copies, work, seconds, asked=workers is not None) as beside:
        if beside is None:
            yield from map(do, rest)
            return
        while (unit := beside.next()) is not None:
            yield do(rest[unit])
        for piece in beside.pieces():
            raw = beside.brought(piece)
            yield from map(do, rest[piece.first : piece.first + piece.units]) if raw is None else pickle.loads(raw)


class _Waves(Sequence[Sequence[int]]):
    """Clusters in groups of a fixed number. A wave is made when it is needed: a grid may have 2^47 of them."""

    def __init__(self, clusters: Sequence[int], together: int) -> None:
        self.clusters, self.together = clusters, together

    def __len__(self) -> int:
        return (len(self.clusters) + self.together - 1) // self.together

    @overload
    def __getitem__(self, at: int) -> Sequence[int]: ...

    @overload
    def __getitem__(self, at: slice) -> _Waves: ...

    def __getitem__(self, at: int | slice) -> Sequence[int] | _Waves:
        waves = range(len(self))[at]
        if isinstance(waves, int):
            return self.clusters[waves * self.together : (waves + 1) * self.together]
        return _Waves(self.clusters[waves.start * self.together : waves.stop * self.together], self.together)


class _Shared(Queue):
    """The clusters of a launch, part of which other processes execute. Here run those that are left, and those whose
    results do not fit.
    """

    def __init__(self, launch: Launch, units: _Waves, count: int, *, sanitizer: bool, done: Done) -> None:
        super().__init__((), 0)
        self.launch, self.units, self.count, self.sanitizer, self.done = launch, units, count, sanitizer, done
        self.merge = Merge(launch)
        self._left = len(units.clusters)
        self._least = float("inf")  # seconds that a wave has taken
        self._began: float | None = None  # when the one that runs here did
        self._next: list[int] = []
        self._again = 0.0  # when it is looked again whether copies save time
        self._own = self._all_here()

    def __len__(self) -> int:
        return self._left

    def begin(self, count: int) -> list[int]:
        """The next clusters that begin here; fewer, and none, where others have brought all that was left."""
        while len(self._next) < count and (unit := next(self._own, None)) is not None:
            self._next += unit
        begun, self._next = self._next[:count], self._next[count:]
        self._left = self._left - len(begun) if begun else 0
        return begun

    def close(self) -> None:
        """The launch is over: others need not go on."""
        self._lap()
        self._own.close()
        if self._least < float("inf"):
            self.launch.program.paces[self.sanitizer] = self._least / self.units.together

    def _timed(self, unit: Sequence[int]) -> Iterator[Sequence[int]]:
        """A wave that runs here."""
        self._began = time.perf_counter()
        yield unit
        self._lap()

    def _lap(self) -> None:
        """The wave that began last is over."""
        if self._began is not None:
            self._least, self._began = min(self._least, time.perf_counter() - self._began), None

    def _all_here(self) -> Generator[Sequence[int], None, None]:
        """The waves that run here; others run meanwhile elsewhere, once that saves time."""
        options, known = self.launch.options, self.launch.program.paces.get(self.sanitizer, float("inf")) * self.units.together
        for number, unit in enumerate(self.units):
            rest, copies = self.units[number:], 0
            if self.launch.waves:  # one that does not end, and looks again whenever another one has changed anything
                yield from rest
                return
            is_known = known < float("inf")
            least = known if is_known and number < FIRST else self._least
            if number and options.client is not None:
                yield from self._with_crew(rest, least)
                return
            if options.workers is not None and (number or is_known):
                copies = min(self.count, len(rest)) - 1
            elif options.workers is None and (number >= FIRST or is_known):
                copies = self._worth(least, len(rest))
            if copies:
                yield from self._with_copies(rest, copies, least)
                return
            yield from self._timed(unit)

    @functools.cached_property
    def _written(self) -> int:
        """Bytes of the arrays that the launch may write to."""
        written, regions = may_be_written(self.launch), self.launch.memory.table()[2]
        return sum(len(region.data) for region in regions if written is None or id(region.words) in written)

    def _worth(self, least: float, waves: int) -> int:
        """How many copies save time, where so many waves are left, each of which takes `least` seconds?"""
        if least * waves < TWICE * START or time.monotonic() < self._again:
            return 0
        self._again = time.monotonic() + AGAIN
        is_noted = self.sanitizer and self.launch.options.watch_global
        return _worth(waves, least, self.count, self._written, is_noted=is_noted)

    def _with_copies(self, units: Sequence[Sequence[int]], count: int, least: float) -> Iterator[Sequence[int]]:
        """This process and `count` copies of it; a wave takes about `least` seconds."""
        launch, is_asked = self.launch, self.launch.options.workers is not None
        if not can_be_copied():
            yield from self._with_crew(units, least) if is_asked else units
            return
        shard = Shard(launch, sanitizer=self.sanitizer)

        def work(first: int, count: int) -> list[Any] | None:
            result = shard.run([cluster for unit in units[first : first + count] for cluster in unit])
            return packed(result, launch) if result.is_whole else None

        def begin(is_shared: bool) -> None:
            shard.begin(is_shared=is_shared)

        with _copies(launch.memory, len(units), count, work, least, begin=begin, idle=idle_rooms(launch), asked=is_asked) as copies:
            yield from units if copies is None else self._beside(copies, units)

    def _beside(self, copies: Forks, units: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
        launch, results = self.launch, dict[int, ShardResult]()
        while (unit := copies.next()) is not None:
            yield from self._timed(units[unit])
            copies.seconds = max(copies.seconds, self._least)
            for piece in copies.arrived():
                if (raw := copies.brought(piece)) is not None:
                    results[piece.number] = result = unpacked(raw, launch)
                    if launch.waves or not self.merge.fits(result):
                        copies.stop()
        for piece in copies.pieces():
            is_known = piece.number in results or bool(launch.waves)
            raw = None if is_known else copies.brought(piece, lambda: launch.is_over)
            if launch.is_over:
                launch.result.out_of_time = True
                return
            result_of = results.pop(piece.number, None) if raw is None else unpacked(raw, launch)
            if result_of is None or not self._takes(result_of):
                copies.stop()
                yield from units[piece.first : piece.first + piece.units]

    def _with_crew(self, units: Sequence[Sequence[int]], least: float) -> Iterator[Sequence[int]]:
        """Processes that get plain data: those of a Dask cluster, or fresh ones of this machine."""
        from smemsim.run.procs import workers  # what starts processes takes long to import

        launch, client = self.launch, self.launch.options.client
        if launch.memory.taint:  # which is known here alone
            yield from units
            return
        work = work_of(launch, sanitizer=self.sanitizer)
        crew: workers.Crew
        if client is None:
            crew = workers.Processes(run_shard, work, min(self.count, len(units)), most_deaths=DEATHS)
        else:
            crew = workers.Cluster(run_shard, work, client, most_deaths=DEATHS)
        size = max(1, min(-(-len(units) // (workers.PIECES * crew.count)), int(LONGEST / max(least, SOON))))
        shards = [units[n : n + size] for n in range(0, len(units), size)]
        finished = False
        try:
            for number, raw in workers.results(launch, crew, [[c for unit in shard for c in unit] for shard in shards]):
                if not self._takes(unpacked(raw, launch)):
                    yield from shards[number]
            finished = not launch.result.out_of_time
        finally:
            crew.close(wait=finished)

    def _takes(self, result: ShardResult) -> bool:
        """Take what another process has brought, if it fits, and no wave is there that does not end."""
        if self.launch.waves or not self.merge.add(result):
            return False
        self._left -= result.ctas // self.launch.cluster_size
        self.done(result.ctas)
        return True
