"""cp.async.bulk.tensor and its relatives: the transfers of tensor tiles."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.errors import HardwareTrap, Unmodelled
from smemsim.core.machine.cluster import ClusterAddress
from smemsim.core.machine.cluster import Delivery as Received
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tma import Boxes, Transfer, tma_prefetch, tma_store
from smemsim.core.ptx.module import Address, Instruction, Operand, Vector
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.reductions import ReductionOp
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLE_ARCHITECTURES, WITHOUT_PADDED_TO_CLUSTER
from smemsim.core.spec.transfers import GATHERED_ROWS, LOAD_MODES, STORE_MODES
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.problems import short_strides
from smemsim.core.words.tensor_map.traps import map_traps
from smemsim.run.engine.in_flight import Undo
from smemsim.run.engine.records import Load, Store
from smemsim.run.engine.wave import RANK_SHIFT, WARP
from smemsim.run.isa.asynchronous import (
    Issuer,
    check_alone,
    check_ranks,
    cluster_of,
    credit,
    each,
    each_store,
    leaves,
    member,
    one_cta,
    own_address,
    record,
    record_alike,
    stops,
    touched,
    touched_runs,
)
from smemsim.run.isa.barriers.mbarrier import Delivery, bring, each_of, states_of
from smemsim.run.isa.copies.maps import map_at
from smemsim.run.isa.memory.spaces import shared_operand
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker
    from smemsim.run.sanitizer.operations import Operation
    from smemsim.run.word_ranges import WordRanges

# ---- `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor` and the prefetches: tensor transfers, executed when they are issued (PTX ISA
# 9.7.9.27)


_COUNTED = ("add", "inc", "dec", "xor")  # reductions of which it matters how often they are done
_RANKS = ("1d", "2d", "3d", "4d", "5d")


@implements("cp.async.bulk.tensor")
def build_tensor(i: Instruction, c: Linker) -> Step:
    """A tensor load, or a store, which has its shared operand last."""
    return build_store(i, c, "") if "bulk_group" in i.modifiers else build_load(i, c)


@implements("cp.reduce.async.bulk.tensor")
def build_reduce(i: Instruction, c: Linker) -> Step:
    """`cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {…}], [src]`."""
    operation = next((str(op) for op in ReductionOp if op in i.modifiers), "")
    if not operation:
        raise unmodelled(i, "without an operation")
    return build_store(i, c, operation)


def build_load(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.tensor.2d.DST.global.MODE.mbarrier::complete_tx::bytes… [dst], [map, {…}], [mbar] {, offsets} {, mask} {, policy}`."""
    words, operands = Modifiers(i, "async", "bulk", "tensor", "global", "mbarrier::complete_tx::bytes"), Operands(i)
    rank = words.need(*_RANKS)
    own = words.need("shared::cluster", "shared::cta") == "shared::cta"
    mode = words.one_of(LOAD_MODES, "tile")
    is_multicast, hinted, group = words.has("multicast::cluster"), words.has("L2::cache_hint"), 2 if words.has("cta_group::2") else 1
    words.has("cta_group::1")
    words.end()
    if own and is_multicast:
        raise unmodelled(i, ".multicast::cluster to .shared::cta")
    to = shared_operand(i, c, operands.next("a destination"))
    at, coordinates = _source(i, c, operands.next("a tensor map"), rank, mode)
    mbar = shared_operand(i, c, operands.next("an mbarrier"))
    offsets = _offsets(i, c, operands) if mode.startswith("im2col") else []
    mask = [c.read(operands.next("a CTA mask"), "u16")] if is_multicast else []
    if hinted:
        operands.next("a cache policy")
    operands.end()
    reads = [to, at, mbar, *mask, *coordinates, *offsets]
    first, is_narrow = 3 + len(mask), not own and c.arch in WITHOUT_PADDED_TO_CLUSTER
    is_plain = not is_multicast and group == 1 and mode == "tile"

    def run(x: Wave) -> None:
        if is_plain and _load_together(x, i, [at, to, mbar], coordinates, is_narrow=is_narrow):
            return
        issued = list(each(x, reads))
        _check_alone(x, i, issued, "its bytes arrive at the mbarrier")
        for (cta, thread), values in issued:
            dst, address, barrier = values[:3]
            where, moved = tuple(values[first : first + len(coordinates)]), tuple(values[first + len(coordinates) :])
            tm, cluster = (_map_to_cluster if is_narrow else map_at)(x, i, address, thread), cluster_of(x, cta)
            check_ranks(x, i, dst, mbar=barrier)
            if not is_multicast and group == 1:
                one_cta(x, i, dst, barrier)
            if own:
                own_address(i, cta, dst)
            hidden = None if x.late is None else Undo(x, cta)
            given: dict[str, Any] = {"smem_address": dst, "mbar": barrier, "source": x.launch.memory, "im2col_offsets": moved, "mode": mode}
            with stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, False), (tm, address, where)):  # noqa: B023 (called at once)
                deliveries = cluster.tma_load(tm, where, cta_rank=cta.rank, cta_mask=values[3] if mask else None, cta_group=group, **given)
            _deliver(x, i, cta, thread, deliveries, hidden)
            record(x, Load(cta.number, int(x.tid[thread]), i, address, tm, mode, where, moved, deliveries))
        x.changes += 1

    return run


@dataclasses.dataclass(eq=False)
class _Alike:
    """What running threads, one of each of some CTAs, issue alike but for their `boxes` (threads, rank), by one map."""

    ctas: list[Cta]
    threads: np.ndarray  # of the wave
    values: list[int]  # of the other operands
    boxes: np.ndarray
    map_address: int
    tensor_map: TensorMap

    @property
    def windows(self) -> list[SharedMemory]:
        """The shared memory of each."""
        return [cta.shared for cta in self.ctas]


def _alike(x: Wave, i: Instruction, reads: Sequence[Read], coordinates: Sequence[Read]) -> list[_Alike]:
    """What the running threads issue, by the values of operands: `reads` are those, a map's address the first one. Nothing where each is to be looked at by itself."""
    threads = x.threads
    if len(threads) < 2 or x.late is not None or x.launch.cluster_size > 1 or not x.launch.has_cohorts:
        return []
    values, boxes = np.empty((len(threads), len(reads)), np.int64), np.empty((len(threads), len(coordinates)), np.int64)
    for to, several in ((values, reads), (boxes, coordinates)):
        for n, read in enumerate(several):
            to[:, n] = read(x)
    if values.min() < 0:
        return []
    groups: dict[tuple[int, ...], Any] = {}
    if (values == values[0]).all():
        groups[tuple(values[0].tolist())] = slice(None)
    else:
        for n, its in enumerate(map(tuple, values.tolist())):
            groups.setdefault(its, []).append(n)
    bank, size, found = x.launch.parameter_address, len(x.launch.parameters), []
    for (address, *others), which in groups.items():
        own, index = threads[which], x.cta_of[threads[which]]
        is_made = not bank <= address < bank + size  # by whom, the watch asks for each
        if (index[1:] == index[:-1]).any() or (x.sanitizer is not None and is_made):
            return []
        found.append(_Alike([x.ctas[n] for n in index.tolist()], own, others, boxes[which], address, map_at(x, i, address, int(own[0]))))
    return found


@dataclasses.dataclass(eq=False)
class _AlikeLoads:
    """Loads that threads of different CTAs issue alike, but for their boxes: to one address of their windows, and counted by the mbarriers at one."""

    issued: _Alike
    boxes: Boxes
    to: Received

    def deliver(self, x: Wave, i: Instruction) -> None:
        """`_deliver` of all, and what is recorded of each."""
        sanitizer, to, deliveries, ops = x.sanitizer, self.to, (self.to,), self._tell(x, i)
        begin, size, offset = to.smem_address, to.transaction_bytes, to.mbar.smem_address
        issued, mode = self.issued, "tile"
        states = states_of(x, issued.ctas, offset, i)
        if ops:
            sanitizer.complete_on(ops, each_of(states))
        bring(x, states, size, [Delivery(i, 0, 0, begin, size, (0,)) for _ in states])
        address, tm = issued.map_address, issued.tensor_map
        each = zip(issued.ctas, x.tid[issued.threads].tolist(), self.boxes.coordinates, strict=True)
        record_alike(x, [Load(cta.number, tid, i, address, tm, mode, where, (), deliveries) for cta, tid, where in each])

    def _tell(self, x: Wave, i: Instruction) -> Sequence[Operation]:
        """Tell the watch what they write; without one there is none."""
        sanitizer = x.sanitizer
        if sanitizer is None:
            return []
        ops: Sequence[Operation]
        ops, ctas = sanitizer.begin_together(i, self.issued.threads.tolist(), "tma_load"), self.issued.ctas
        for op, cta in zip(ops, ctas, strict=False):
            op.barriers[cta.index] = cta, self.to.mbar.smem_address
        begin = ctas[0].shared.begin
        sanitizer.ops_write(ops, ctas, touched_runs(self.boxes.transfers[0], begin))
        do_change = [sanitizer.reads_what_changes(transfer.global_span[0]) for transfer in self.boxes.transfers]
        if any(do_change):
            ops = sanitizer.of_each(ops)
            for op, cta, transfer, changes in zip(ops, ctas, self.boxes.transfers, do_change, strict=True):
                if changes:
                    sanitizer.op_reads_global(op, *_in_global(transfer))
                    sanitizer.op_brings(op, cta, *_in_global(transfer), _in_shared(transfer, begin))
        return ops


_PADDED_TO_CLUSTER = (
    "line {line}: on {arch} the PTX ISA has no sub-byte types and no swizzle atomicity for tensor loads to .shared::cluster, and what such a load does is not known: "
    "write .shared::cta (PTX ISA 9.1 §9.7.9.27)"
)


def _is_padded(tm: TensorMap) -> bool:
    """Has a map a sub-byte type, or a swizzle with larger atoms?"""
    return not tm.type_row.sm90 or tm.swizzle in SWIZZLE_ARCHITECTURES


def _map_to_cluster(x: Wave, i: Instruction, address: int, thread: int) -> TensorMap:
    """`map_at` for a load to .shared::cluster on a card that has not every map there."""
    tm = map_at(x, i, address, thread)
    if _is_padded(tm):
        raise Unmodelled(_PADDED_TO_CLUSTER.format(line=i.line, arch=x.launch.arch))
    return tm


def _load_together(x: Wave, i: Instruction, reads: Sequence[Read], coordinates: Sequence[Read], *, is_narrow: bool = False) -> bool:
    """Execute loads of boxes that lie inside their tensor; False, and nothing has happened, where each has to be executed by itself."""
    alike = _alike(x, i, reads, coordinates)
    if len(alike) != 1:
        return False
    (issued,) = alike
    dst, barrier = issued.values
    if is_narrow and _is_padded(issued.tensor_map):
        return False
    is_aligned = barrier % BULK_LIMITS.mbarrier_alignment == 0
    if dst >> RANK_SHIFT or not is_aligned or barrier + BULK_LIMITS.mbarrier_alignment > issued.ctas[0].shared.end:
        return False
    given: dict[str, Any] = {"smem_address": dst, "source": x.launch.memory, "mode": "tile"}
    boxes = SharedMemory.tma_loads(issued.windows, issued.tensor_map, issued.boxes, **given)
    if boxes is None:
        return False
    to = Received(0, dst, ClusterAddress(0, barrier), boxes.transfers[0].transaction_bytes)
    _AlikeLoads(issued, boxes, to).deliver(x, i)
    x.changes += 1
    return True


def _deliver(x: Wave, i: Instruction, cta: Cta, thread: int, deliveries: tuple[Received, ...], hidden: Undo | None) -> None:
    """Credit the mbarriers of a load's destinations, and tell the watch which bytes of their windows it writes; what is `hidden` comes later."""
    op = x.sanitizer.begin(x, i, thread, "tma_load") if x.sanitizer is not None else None
    reached = tuple(d.cta_rank for d in deliveries)
    for d in deliveries:
        to, mbar = member(x, cta, d.cta_rank), d.mbar
        if op is not None:
            transfer: Any = to.shared.writers[-1]
            op.barriers[to.index] = member(x, cta, mbar.cta_rank), mbar.smem_address
            x.sanitizer.op_writes(op, to, touched_runs(transfer, to.shared.begin))
            if x.sanitizer.reads_what_changes(transfer.global_span[0]):
                if d is deliveries[0]:
                    x.sanitizer.op_reads_global(op, *_in_global(transfer))
                if transfer.chunk_bytes == CHUNK:
                    x.sanitizer.op_brings(op, to, *_in_global(transfer), _in_shared(transfer, to.shared.begin))
        places = None if hidden is None else touched(to.shared.writers[-1], to.shared.begin) + to.index * x.pitch
        by = Delivery(i, cta.rank, to.rank, d.smem_address, d.transaction_bytes, reached)
        credit(x, cta, mbar.cta_rank, mbar.smem_address, d.transaction_bytes, op, by, hidden=hidden, places=places)


def _in_global(transfer: Any) -> tuple[np.ndarray, int]:
    """Where in global memory a tensor transfer reads or writes: addresses, and how many bytes at each."""
    chunks, valid = transfer.chunk_global, transfer.chunk_valid
    if transfer.whole:
        return chunks, transfer.chunk_bytes
    unit = int(np.gcd.reduce(valid)) or 1
    at = np.arange(0, transfer.chunk_bytes, unit)
    return (chunks[:, None] + at)[at < valid[:, None]], unit


def _in_shared(transfer: Any, begin: int) -> np.ndarray:
    """Where in the window the words lie that are at each address of `_in_global`: (n, words)."""
    chunks, valid = transfer.chunk_shared.astype(np.int64), transfer.chunk_valid
    if transfer.whole:
        found: np.ndarray = (chunks[:, None] ^ np.arange(0, CHUNK, 4)) - begin
        return found
    unit = int(np.gcd.reduce(valid)) or 1
    at = np.arange(0, CHUNK, unit)
    first = (chunks[:, None] ^ at)[at < valid[:, None]]
    return np.asarray((first[:, None] ^ np.arange(0, unit, 4)) - begin)


def build_store(i: Instruction, c: Linker, operation: str) -> Step:
    """`cp.async.bulk.tensor.2d.global.shared::cta.MODE.bulk_group… [map, {…}], [src] {, policy}`, and reductions."""
    known = ("reduce", operation) if operation else ()
    words, operands = Modifiers(i, *known, "async", "bulk", "tensor", "global", "shared::cta", "bulk_group"), Operands(i)
    rank = words.need(*_RANKS)
    mode = words.one_of(STORE_MODES, "tile")
    hinted = words.has("L2::cache_hint")
    words.end()
    at, coordinates = _source(i, c, operands.next("a tensor map"), rank, mode)
    source = shared_operand(i, c, operands.next("a source"))
    if hinted:
        operands.next("a cache policy")
    operands.end()
    kind = "tma_reduce" if operation else "tma_store"

    def run(x: Wave) -> None:
        if not operation and mode == "tile" and _store_together(x, i, at, source, coordinates):
            return
        issued = list(each_store(x, [at, source, *coordinates]))
        if operation in _COUNTED:
            _check_alone(x, i, [one[:2] for one in issued], f".{operation} is done")
        before: _Stored | None = None
        together: dict[tuple[int, int], _Together | None] = {}  # by map and source: see `_told_together`
        for (cta, thread), (address, src, *values), is_again in issued:
            tm, where, shared = map_at(x, i, address, thread), tuple(values), cta.shared
            does = thread // WARP, cta.index, address, src, where
            if before is not None and before.does == does and not operation and x.late is None:
                before.is_read_again(x, cta, thread)
            else:
                check_ranks(x, i, src)
                place: dict[str, Any] = {"smem_address": own_address(i, cta, src), "to": x.launch.memory, "mode": mode}
                with stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, True), (tm, address, where)):  # noqa: B023 (called at once)
                    before = _Stored(does, place["smem_address"])
                    tell = functools.partial(_tell, x, i, kind, before, issued, together, (cta, thread), bool(operation) or not is_again)
                    make: Any = (
                        functools.partial(shared.tma_reduce, operation, tm, where, **place)
                        if operation
                        else functools.partial(shared.tma_store, tm, where, before=tell, **place)
                    )
                    transfer = leaves(x, make, functools.partial(_span, shared, tm, where, place), thread)
                if operation:
                    tell(transfer)
            record(x, Store(cta.number, int(x.tid[thread]), i, address, tm, mode, where, before.smem_address, operation))
        x.changes += 1

    return run


def _store_together(x: Wave, i: Instruction, at: Read, source: Read, coordinates: Sequence[Read]) -> bool:
    """Execute stores of boxes that lie inside one tensor, apart from each other; False, and nothing has happened, where each has to be executed by itself."""
    alike = _alike(x, i, [at, source], coordinates)
    if not alike or len({issued.map_address for issued in alike}) > 1 or not _are_apart(alike[0].tensor_map, alike):
        return False
    found = []
    for issued in alike:
        (src,) = issued.values
        is_here = not src >> RANK_SHIFT
        given: dict[str, Any] = {"smem_address": src, "to": x.launch.memory, "mode": "tile"}
        stores = SharedMemory.tma_stores(issued.windows, issued.tensor_map, issued.boxes, **given) if is_here else None
        if stores is None:
            return False
        found.append((issued, src, stores[0].transfers, stores[1]))
    each = sorted(
        (
            (thread, tid, cta, src, issued, transfer)
            for issued, src, transfers, _ in found
            for thread, tid, cta, transfer in zip(
                issued.threads.tolist(), x.tid[issued.threads].tolist(), issued.ctas, transfers, strict=True
            )
        ),
        key=lambda one: one[0],
    )
    if x.sanitizer is not None:
        told = [((cta, thread), [issued.map_address, src, *transfer.coordinates], False) for thread, _, cta, src, issued, transfer in each]
        _tell_all(x, i, told, [transfer for *_, transfer in each])
    for *_, store in found:
        store()
    for _, tid, cta, src, issued, transfer in each:
        record(x, Store(cta.number, tid, i, issued.map_address, issued.tensor_map, "tile", transfer.coordinates, src))
    x.changes += 1
    return True


def _are_apart(tm: TensorMap, alike: Sequence[_Alike]) -> bool:
    """Are boxes apart, as those of one grid are in a tensor whose elements share no bytes?"""
    boxes = np.concatenate([issued.boxes for issued in alike])
    if boxes.shape[1] != tm.rank or any(short_strides(tm)):
        return False
    steps, rest = np.divmod(boxes - boxes[0], np.array(tm.box_dim))
    return not rest.any() and len({*map(tuple, steps.tolist())}) == len(boxes)


def _tell_all(x: Wave, i: Instruction, issued: list[tuple[Issuer, list[int], bool]], transfers: Sequence[Transfer]) -> None:
    """Tell the watch of stores, before they write."""
    together: dict[tuple[int, int], _Together | None] = {}
    for ((cta, thread), (address, src, *where), _), transfer in zip(issued, transfers, strict=True):
        stored = _Stored((thread // WARP, cta.index, address, src, tuple(where)), src)
        _tell(x, i, "tma_store", stored, issued, together, (cta, thread), True, transfer)


def _tell(
    x: Wave, i: Instruction, kind: str, stored: _Stored, issued: list[tuple[Issuer, list[int], bool]],
    together: dict[tuple[int, int], _Together | None], issuer: Issuer, writes: bool, transfer: Transfer,
) -> None:  # fmt: skip
    """Tell the watch of a transfer, once: of a store before it writes. `writes`: nobody else of its CTA writes the same."""
    if x.sanitizer is None or stored.op is not None:
        return
    (cta, thread), (address, src) = issuer, stored.does[2:4]
    stored.read = touched_runs(transfer, cta.shared.begin)
    if (address, src) not in together:
        together[address, src] = _told_together(x, i, kind, issued, [address, src], transfer, stored.read)
    its = together[address, src]
    op = stored.op = x.sanitizer.begin(x, i, thread, kind) if its is None else its.operation(thread)
    if its is None or not its.are_told:
        x.sanitizer.op_reads(op, cta, stored.read)
    if writes:
        stays = functools.partial(_stays, x, cta.shared, transfer) if kind == "tma_store" else None
        x.sanitizer.op_writes_global(op, cta, *_in_global(transfer), stays)
    if its is None:
        does, is_shared = [address, src, *stored.does[4]], kind == "tma_store" and x.late is None  # see `_Stored`
        warps_too = (
            [other % WARP for (_, other), values, _ in issued if other // WARP == thread // WARP and values == does] if is_shared else []
        )
        x.sanitizer.joins([op], "bulk", sum(1 << lane for lane in warps_too))


@dataclasses.dataclass(eq=False)
class _Together:
    """Stores that the watch was told of together, by their threads: the operations that it has given for them, and whether nothing is to be said of what any reads; else
    each is to be told."""

    sanitizer: Any
    threads: dict[int, int]  # which of them each is
    ops: Sequence[Operation]
    are_told: bool

    def operation(self, thread: int) -> Operation:
        """That of a thread, or which stands for it."""
        op: Operation = self.sanitizer.one_of(self.ops, self.threads[thread])
        return op


def _told_together(
    x: Wave, i: Instruction, kind: str, issued: list[tuple[Issuer, list[int], bool]], by: list[int], first: Transfer, read: WordRanges
) -> _Together | None:
    """Tell the watch of stores `by` one map from one place of threads' windows, each of a CTA of its own, whose boxes lie inside the tensor. None where each is to be told
    by itself."""
    alike = [one for one in issued if one[1][:2] == by]
    ctas, bank, tm = [cta for (cta, _), *_ in alike], x.launch.parameter_address, first.tensor_map
    if len(alike) < 2 or x.late is not None or x.launch.cluster_size > 1 or len({cta.index for cta in ctas}) < len(ctas):
        return None
    if first.geometry.mode != "tile" or not first.whole or not bank <= by[0] < bank + len(x.launch.parameters):
        return None
    sizes = list(zip(tm.box_dim, tm.global_dim, strict=True))
    if not all(0 <= at <= dim - box for _, (_, _, *where), _ in alike for at, (box, dim) in zip(where, sizes, strict=True)):
        return None
    sanitizer, threads = x.sanitizer, [thread for (_, thread), *_ in alike]
    ops: Sequence[Operation] = sanitizer.begin_together(i, threads, kind)
    are_told = sanitizer.ops_read(ops, ctas, read)
    if not are_told:
        ops = sanitizer.of_each(ops)
    sanitizer.joins(ops, "bulk")
    return _Together(sanitizer, {thread: n for n, thread in enumerate(threads)}, ops, are_told)


@dataclasses.dataclass(eq=False)
class _Stored:
    """A store that lanes of one warp issue together, one after the other: what it does, the operation that the watch knows it by, the words that it reads.

    CUTLASS has whole warps issue them. Each lane's leaves what the first one's has put there; only what the lanes read may be ordered for one and not for another.
    """

    does: tuple[Any, ...]
    smem_address: int
    op: Operation | None = None
    read: WordRanges | None = None
    is_ordered: bool | None = None  # for whichever lane

    def is_read_again(self, x: Wave, cta: Cta, thread: int) -> None:
        """Another lane issues it."""
        if self.op is None or self.read is None:
            return
        if self.is_ordered is None:
            self.is_ordered = x.sanitizer.reads_for_all_lanes(self.op, cta, self.read)
        if not self.is_ordered:
            self.op.lane = thread % WARP
            x.sanitizer.op_reads(self.op, cta, self.read)


def _stays(x: Wave, shared: SharedMemory, transfer: Transfer, at: np.ndarray) -> np.ndarray:
    """Which bytes of global memory hold what a store writes there, or are not its own (rule order.same_value)."""
    order = np.argsort(transfer.global_address)
    known = transfer.global_address[order]
    region = x.launch.memory.holding(int(known[0]), int(known[-1]) + 1)
    if transfer.stored_bits != 8 or region is None:
        return np.zeros(at.shape, bool)
    n = np.minimum(np.searchsorted(known, at), len(known) - 1)
    there = np.where(known[n] == at, at - region.begin, 0)
    new = shared.bytes[transfer.shared_address[order[n]].astype(np.int64) - shared.begin]
    return np.asarray((known[n] != at) | (region.data[there] == new))


def _span(shared: SharedMemory, tm: TensorMap, where: tuple[int, ...], place: dict[str, Any]) -> tuple[int, int]:
    """The global addresses that a store writes."""
    return tma_store(tm, where, smem_address=place["smem_address"], mode=place["mode"], arch=shared.arch, shared_end=shared.end).global_span


@implements("cp.async.bulk.prefetch.tensor")
def build_prefetch(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.prefetch.tensor.2d.L2.global.MODE [map, {…}] {, offsets} {, policy}`: nothing that can be seen, but it traps as a load does."""
    words, operands = Modifiers(i, "async", "bulk", "prefetch", "tensor", "L2", "global"), Operands(i)
    rank = words.need(*_RANKS)
    mode = words.one_of(LOAD_MODES, "tile")
    hinted = words.has("L2::cache_hint")
    words.end()
    at, coordinates = _source(i, c, operands.next("a tensor map"), rank, mode)
    offsets = _offsets(i, c, operands) if mode.startswith("im2col") else []
    if hinted:
        operands.next("a cache policy")
    operands.end()

    def run(x: Wave) -> None:
        for (_, thread), (address, *values) in each(x, [at, *coordinates, *offsets]):
            tm = map_at(x, i, address, thread)
            where, moved = values[: len(coordinates)], values[len(coordinates) :]
            with stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, False), (tm, address, where)):  # noqa: B023 (called at once)
                tma_prefetch(tm, where, im2col_offsets=moved, mode=mode, arch=x.launch.arch)

    return run


def _check_alone(x: Wave, i: Instruction, issued: list[tuple[Issuer, list[int]]], times: str) -> None:
    same = ((thread, tuple(values)) for (_, thread), values in issued)
    check_alone(x, i, same, f"the same {i.name}", times, "PTX ISA 9.1 §9.7.9.27")


def _source(i: Instruction, c: Linker, operand: Operand, rank: str, mode: str) -> tuple[Read, list[Read]]:
    """The address of the map and the coordinates of `[map, {c0, c1}]`."""
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise unmodelled(i, "without the coordinates of the box: [map, {c0, c1}]")
    wanted = 1 + GATHERED_ROWS if mode in ("tile::gather4", "tile::scatter4") else int(rank[0])
    if len(operand.coordinates) != wanted:
        raise unmodelled(i, f"{len(operand.coordinates)} coordinates, .{mode}.{rank} has {wanted}")
    return c.address(Address(operand.base, operand.offset)), [c.read(x, "s32") for x in operand.coordinates]


def _offsets(i: Instruction, c: Linker, operands: Operands) -> list[Read]:
    """The im2col offsets, or (wHalo, wOffset)."""
    vector = operands.next("im2col offsets")
    return [c.read(x, "u16") for x in (vector.items if isinstance(vector, Vector) else (vector,))]


def _reason(trap: HardwareTrap, tm: TensorMap, arch: str, mode: str, is_store: bool) -> tuple[str, str]:
    """The finding's code and repair for a transfer that traps."""
    for trap_row in map_traps(tm, arch, mode):
        if trap_row.stops(is_store=is_store):
            if not any(bytes(tm)):
                return "T220", "check that the map was encoded, and copied to where the kernel reads it"
            return "T212", trap_row.repair
    if trap.cuda_error == MISALIGNED_ADDRESS:
        return "A101", f"an address in shared memory that is a multiple of {LIMITS.smem_alignment} B"
    if trap.cuda_error == ILLEGAL_ADDRESS:
        return "A107", "more shared memory, or a smaller box"
    return "T205", ""
