"""The common part of asynchronous copies: which threads issue them, what stops them, and which mbarriers count them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import numpy as np

from smemsim.base.errors import HardwareTrap, OutsideError, SmemsimError
from smemsim.core.machine.cluster import ClusterAddress
from smemsim.core.machine.cluster_memory import Cluster
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.shared_memory import LINE
from smemsim.core.spec.traps import ILLEGAL_ADDRESS
from smemsim.run.async_ops import BY_ONE_THREAD, AsyncOp, SharedWrite, facts_of
from smemsim.run.engine.in_flight import Undo, defer
from smemsim.run.engine.map_names import beyond_array
from smemsim.run.engine.traps import no_rank, shared_error, warp_name
from smemsim.run.engine.wave import OFFSET_MASK, RANK_SHIFT, WARP
from smemsim.run.isa.barriers.mbarrier import State, bring, each_of, mbarrier_of, states_of
from smemsim.run.isa.registry import unmodelled
from smemsim.run.slots import Slot
from smemsim.run.word_ranges import WORD, WordRanges

if TYPE_CHECKING:
    from smemsim.core.machine.tma import Boxes
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Read

__all__ = [
    "Issued",
    "Issuer",
    "check_alone",
    "check_ranks",
    "cluster_of",
    "described",
    "each_issuer",
    "in_order",
    "issue",
    "issued_by",
    "listed",
    "member",
    "one_by_one",
    "one_cta",
    "own_address",
    "stop",
    "stops",
    "touched",
    "touched_runs",
]


Issuer = tuple["Cta", int]  # the CTA and the thread's number in the wave


class HasBoxes(Protocol):
    """The boxes that a tensor instruction moves."""

    @property
    def boxes(self) -> Boxes: ...


D = TypeVar("D", bound=HasBoxes)


def each_issuer(x: Wave, reads: list[Read]) -> Iterator[tuple[Issuer, list[int]]]:
    """The running threads one after the other, each with its values of the operands."""
    threads = x.threads
    columns = _columns(x, reads, len(threads))
    for thread, cta, *values in zip(threads.tolist(), x.cta_of[threads].tolist(), *columns, strict=True):
        yield (x.ctas[cta], thread), values


@dataclasses.dataclass(eq=False)
class Issued:
    """An operation that a thread issues, or threads of several CTAs at once. It has the operands, equal for all, and
    the coordinates of each box, if there are boxes.

    Later lanes of its warp that issue the same operation are `again`. If `is_again` is set, another thread of the CTA
    has issued the same operation (rule order.same_value).
    """

    issuers: list[Issuer]
    values: tuple[int, ...]
    boxes: list[tuple[int, ...]]
    again: list[int] = dataclasses.field(default_factory=list)
    is_again: bool = False

    def each(self) -> list[Issued]:
        """The same, of each issuer by itself."""
        return [Issued([issuer], self.values, [box]) for issuer, box in zip(self.issuers, self.boxes, strict=True)]

    @property
    def threads(self) -> list[int]:
        """All that issue it."""
        return [thread for _, thread in self.issuers] + self.again


def issued_by(x: Wave, reads: Sequence[Read], boxes: Sequence[Read] = (), *, repeats: bool = False) -> list[Issued]:
    """The operations that the running threads issue, grouped by their operands and the coordinates of boxes.
    Independent CTAs issue operations that differ only in their boxes at once, but not under a schedule. If lanes of a
    warp issue the same operation (`repeats`), the first lane issues it.

    If the CTAs issue different operations, those are taken in the order of the CTAs. A trap then ends the kernel at the
    same place as one by one, and the same CTA is named.
    """
    threads, ctas = x.threads.tolist(), x.cta_of[x.threads].tolist()
    issuers = list(zip(x.ctas.those(ctas), threads, strict=True))
    operands, at = (list(zip(*_columns(x, some, len(threads)), strict=True)) or [()] * len(threads) for some in (reads, boxes))
    if boxes and x.in_flight is None and x.cohort is not None and x.cohort.is_apart:
        if operands.count(operands[0]) == len(operands) and len(set(ctas)) == len(ctas):
            return [Issued(issuers, operands[0], at)]
        by_operands: dict[tuple[Any, ...], list[int]] = {}
        for n, values in enumerate(operands):
            by_operands.setdefault(values, []).append(n)
        groups = list(by_operands.values())
        if len({tuple([ctas[n] for n in which]) for which in groups}) > 1:
            groups = [list(run) for _, run in itertools.groupby(range(len(threads)), operands.__getitem__)]
        if all(len({ctas[n] for n in which}) == len(which) for which in groups):
            return [Issued([issuers[n] for n in which], operands[which[0]], [at[n] for n in which]) for which in groups]
    found: list[Issued] = []
    seen: set[Any] = set()
    for (_, *what), lanes in itertools.groupby(range(len(threads)), lambda n: (threads[n] // (WARP if repeats else 1), operands[n], at[n])):
        first, *again = lanes
        key = issuers[first][0].index, *what
        found.append(Issued([issuers[first]], operands[first], [at[first]], [threads[n] for n in again], key in seen))
        seen.add(key)
    return found


def _columns(x: Wave, reads: Sequence[Read], count: int) -> Iterator[list[Any]]:
    """The values of operands, of each for so many running threads."""
    for read in reads:
        yield listed(np.asarray(read(x)), count)


def listed(values: np.ndarray, count: int) -> list[Any]:
    """The values of an operand, of each of so many running threads."""
    found: list[Any] = values.tolist() if values.ndim else [values.item()] * count
    return found


def one_by_one(every: Sequence[Issued]) -> list[Issued]:
    """The operations that threads issue, each by itself, in their order."""
    return sorted((one for issued in every for one in issued.each()), key=lambda one: one.threads[0])


def in_order(every: list[Issued], describe: Callable[[Issued], HasBoxes]) -> list[Issued]:
    """The operations that threads issue. If one of them traps, each operation is issued by itself in the order of the
    threads. Then the kernel ends with the same operations done as one by one.
    """
    if len(every) > 1 and any(len(issued.issuers) > 1 for issued in every):
        try:
            for issued in every:
                describe(issued)
        except SmemsimError:  # it is raised again for the thread that it is of
            return one_by_one(every)
    return every


def described(
    issued: Issued, describe: Callable[[Issued], D], stops_by: Callable[[Issued], contextlib.AbstractContextManager[None]]
) -> Iterator[tuple[Issued, D]]:
    """The data that the operations move: computed for all at once if they are alike; else for each by itself, so that a
    trap ends the kernel.
    """
    found = None
    with contextlib.suppress(SmemsimError):  # it is raised again for the thread that it is of
        found = describe(issued)
    if found is not None and found.boxes.are_alike:
        yield issued, found
        return
    for one in issued.each():
        with stops_by(one):
            found = describe(one)
        yield one, found


def check_alone(x: Wave, i: Instruction, issued: Iterable[tuple[int, Any]], what: str, times: str, source: str) -> None:
    """X016 if several threads of one warp issue one operation. Each of `issued` is (thread in the wave, a key of the
    operation). Equal keys are one operation.

    In the message, `what` names the operation, and `times` what happens several times.
    """
    each = [(thread // WARP, same) for thread, same in issued]
    if len(set(each)) == len(each):
        return
    for (warp, _), count in collections.Counter(each).items():
        if count > 1:
            x.launch.find(
                "X016", i, f"{count} threads of {warp_name(x, warp)} issue {what}: {times} {count} times",
                BY_ONE_THREAD,
                why="the instruction is issued once by each thread that executes it", because=source,
            )  # fmt: skip
            return


def cluster_of(x: Wave, cta: Cta) -> Cluster:
    """The shared memories of a CTA's cluster; those of a CTA alone without clusters."""
    made = _CLUSTER.peek(cta)
    if made is None:
        first = cta.index - cta.rank
        made = _CLUSTER.put(cta, Cluster.of([x.ctas[first + rank].shared for rank in range(x.launch.cluster_size)]))
    return made


_CLUSTER: Slot[Cluster] = Slot(lambda cta: Cluster.of([cta.shared]))


def member(x: Wave, cta: Cta, rank: int) -> Cta:
    """Another CTA of the cluster."""
    return x.ctas[cta.index - cta.rank + rank]


def issue(x: Wave, op: AsyncOp) -> None:
    """Issue an operation, in one order: its bytes to shared memory, events to observers, counts of mbarriers, its
    writes to global memory or registers, its record.

    Under a schedule its reads and writes may happen later.
    """
    arrives = (_AtOnce if x.in_flight is None or not op.writes else _Later)(op, x)
    if x.events.issued:
        x.events.issued(x, op)
    for write, ctas in op.counted:
        states = states_of(x, ctas, write.barrier[1], op.instruction, because=_because(op, write))
        if x.events.completes_on:
            x.events.completes_on(x, op, each_of(states))
        arrives(x, states, write)
    if op.takes is not None:
        _take(x, op, op.takes)
    if op.records and x.events.transferred:
        x.events.transferred(x, op.instruction, op.records)


class _AtOnce:
    """An operation brings its bytes when it is issued."""

    def __init__(self, op: AsyncOp, x: Wave) -> None:
        op.brings()

    def __call__(self, x: Wave, states: Sequence[State], write: SharedWrite) -> None:
        """mbarriers count the bytes of a write."""
        bring(x, states, write.size, write.by)


class _Later:
    """An operation moves its bytes when the schedule says. Until then they are in shared memory in part or not at all.
    The bytes of an update are computed then, from the bytes that are there by then.
    """

    def __init__(self, op: AsyncOp, x: Wave) -> None:
        self.op, self.hidden = op, None
        if not op.is_update:
            self.hidden = Undo(x, op.issuers[0][0])
            op.brings()

    def __call__(self, x: Wave, states: Sequence[State], write: SharedWrite) -> None:
        """mbarriers count the bytes of a write, then. Under a schedule an operation has one issuer."""
        (cta, offset), size, i, because = write.barrier, write.size, self.op.instruction, _because(self.op, write)
        places = write.words.words * WORD + write.cta.index * x.pitch
        come = self.op.brings if self.hidden is None else self.hidden.take_back(places)

        def arrive() -> None:
            come()
            mbarrier_of(x, cta, offset, i, because=because).alone().complete_tx(x, size, i=i, by=write.by)

        defer(x, arrive, words=places >> 2)


def _take(x: Wave, op: AsyncOp, takes: Callable[[], object]) -> None:
    """The writes of an operation to global memory, or to registers, take place now, or when the schedule says."""
    for n, store in enumerate(op.stores) if x.events.stores else ():
        x.events.stores(x, op, n, store)
    if x.in_flight is None:
        takes()
    else:
        facts = facts_of(op.kind)
        defer(x, takes, stream=op.kind if facts.is_in_order else None, kind=facts.group, threads=op.committed_by, slots=op.brought)
    for thread in op.again if x.events.repeated else ():
        x.events.repeated(x, op, 0, thread)


def _because(op: AsyncOp, write: SharedWrite) -> str:
    """The relation of the issuing CTA to an mbarrier in another one."""
    (cta, _), by = op.issuers[0], write.by
    if by is None or len(by.reached) == 1 or write.barrier[0] is cta:
        return ""
    return f", which the mask {by.mask:#x} of CTA {cta.number} reaches"


def own_address(i: Instruction, cta: Cta, address: int) -> int:
    """The address without rank of an operand in `.shared::cta`."""
    rank = address >> RANK_SHIFT
    if rank != cta.rank:
        rank = ClusterAddress.decode(address).cta_rank
        raise unmodelled(
            i, f"{address:#x} is in rank {rank} of the cluster, and .shared::cta is the executing CTA's own memory (rank {cta.rank})"
        )
    return address & OFFSET_MASK


def check_ranks(x: Wave, i: Instruction, *addresses: int, mbar: int | None = None) -> None:
    """X001 for a `.shared` address in a CTA that the cluster does not have: `mapa` makes one of any rank.

    That it is an error is inferred from multicasts, which end in 719 if the mask names such a CTA (trace
    multicast_traps). Hardware ignores the rank of the barrier of a copy if the cluster has that CTA (same trace);
    without such a CTA the behaviour is not known.
    """
    for address in addresses:
        if (rank := (address & 0xFFFFFFFF) >> RANK_SHIFT) >= x.launch.cluster_size:
            stop(
                x,
                i,
                "X001",
                f"bits 31:24 of shared address {address:#x} {no_rank(x, rank)}",
                "give mapa a rank of the cluster",
                shared_error(x, address),
            )
    if mbar is not None and (rank := (mbar & 0xFFFFFFFF) >> RANK_SHIFT) >= x.launch.cluster_size:
        raise unmodelled(i, f"an mbarrier in rank {rank} of a cluster of {x.launch.cluster_size}")


def _rank_name(x: Wave, cta: Cta, rank: int) -> str:
    """A CTA of the cluster of another one, by its rank."""
    return f"rank {rank} of the cluster (CTA {member(x, cta, rank).number})"


def one_cta(x: Wave, i: Instruction, cta: Cta, dst: int, mbar: int) -> None:
    """X010, a remark, if the mbarrier that counts a copy of a CTA is in another CTA than its destination."""
    to, counted = (dst & 0xFFFFFFFF) >> RANK_SHIFT, (mbar & 0xFFFFFFFF) >> RANK_SHIFT
    if to != counted:
        x.launch.find(
            "X010", i, f"the copy writes to {_rank_name(x, cta, to)}, and its mbarrier is in {_rank_name(x, cta, counted)}",
            why=f"the PTX ISA requires one CTA for both; hardware ignores the rank of the mbarrier: the one at {mbar & OFFSET_MASK:#x} of rank {to} counts the bytes", repair=f"mapa for the mbarrier too, with rank {to}",
            because="PTX ISA 9.1 §9.7.9.25.4.1; trace multicast_traps", milder=Severity.NOTE,
        )  # fmt: skip


def touched(transfer: Any, begin: int) -> np.ndarray:
    """The places in the window, in steps of 4 bytes, that a tensor transfer reads or writes."""
    chunks = transfer.chunk_shared[transfer.chunk_valid > 0] if transfer.is_store else transfer.chunk_shared
    found: np.ndarray = (chunks[:, None] ^ np.arange(0, 16, 4, dtype=np.uint32)).ravel().astype(np.int64) - begin
    return found


def touched_runs(transfer: Any, begin: int) -> WordRanges:
    """`touched` as runs of words."""
    form, lines = transfer.boxes.form, transfer.boxes.lines
    if form.geometry.is_whole_lines and (transfer.whole or not form.is_store):
        at, size = form.smem_address - begin, LINE * lines.shape[1]
        return WordRanges(np.array([at // WORD], np.int64), size // WORD, lambda: touched(transfer, begin) // WORD)
    return WordRanges.of(touched(transfer, begin) // WORD)


def stop(
    x: Wave, i: Instruction, code: str, message: str, repair: str, cuda_error: int, arrays: tuple[int, ...] = (), why: str = ""
) -> NoReturn:
    """A finding that ends the kernel."""
    x.launch.find(code, i, message, repair, arrays=arrays, why=why or f"it traps: CUDA error {cuda_error}")
    raise HardwareTrap(message, cuda_error=cuda_error)


@contextlib.contextmanager
def stops(
    x: Wave, i: Instruction, code_of: Callable[[HardwareTrap], tuple[str, str]], by: tuple[TensorMap, int, Sequence[int]] | None = None
) -> Iterator[None]:
    """Give traps of the machine a finding, with its code and repair. Transfers of memory that is not allocated become
    such a trap.

    `by` has the map of a tensor transfer, the map's address and the coordinates.
    """
    try:
        yield
    except HardwareTrap as trap:
        code, repair = code_of(trap)
        x.launch.find(code, i, trap.reason, repair, why=f"it traps: CUDA error {trap.cuda_error}")
        raise
    except OutsideError as problem:
        message, repair = str(problem), "check the address"
        arrays: tuple[int, ...] = ()
        if by is not None and not x.launch.memory.holds(by[0].global_address):
            message += f"; the map's global_address {by[0].global_address:#x} is in no array of this GPU"
            repair = "build the map with global_address=array.address, of an array of this GPU"
        elif by is not None:
            why, repair = beyond_array(x.launch, by[1], by[0], by[2])
            message, arrays = f"{message}; {why}", (by[0].global_address,)
        stop(x, i, "X001", message, repair, ILLEGAL_ADDRESS, arrays)
