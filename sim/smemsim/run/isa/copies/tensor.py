"""cp.async.bulk.tensor and its relatives: the transfers of tensor tiles."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
from smemsim.run.async_ops import AsyncOp, GlobalWrite, SharedWrite
from smemsim.run.engine.in_flight import Undo
from smemsim.run.engine.records import Load, Store
from smemsim.run.engine.wave import RANK_SHIFT, WARP
from smemsim.run.isa.asynchronous import (
    Issuer,
    check_alone,
    check_ranks,
    cluster_of,
    each,
    each_store,
    issue,
    leaves,
    member,
    one_cta,
    own_address,
    record,
    stops,
    touched_runs,
)
from smemsim.run.isa.barriers.mbarrier import Delivery
from smemsim.run.isa.copies.maps import map_at
from smemsim.run.isa.memory.spaces import shared_operand
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker
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
            hidden = None if x.in_flight is None else Undo(x, cta)
            given: dict[str, Any] = {"smem_address": dst, "mbar": barrier, "source": x.launch.memory, "im2col_offsets": moved, "mode": mode}
            with stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, False), (tm, address, where)):  # noqa: B023 (called at once)
                deliveries = cluster.tma_load(tm, where, cta_rank=cta.rank, cta_mask=values[3] if mask else None, cta_group=group, **given)
            load = Load(cta.number, int(x.tid[thread]), i, address, tm, mode, where, moved, deliveries)
            issue(x, _load(x, i, cta, thread, deliveries, load), hidden)
        x.progress.changes += 1

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
    if len(threads) < 2 or x.in_flight is not None or x.cohort is None or not x.cohort.is_apart:
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
        if (index[1:] == index[:-1]).any() or (x.observer is not None and is_made):
            return []
        found.append(_Alike([x.ctas[n] for n in index.tolist()], own, others, boxes[which], address, map_at(x, i, address, int(own[0]))))
    return found


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
    issue(x, _alike_load(x, i, issued, boxes, to))
    x.progress.changes += 1
    return True


def _alike_load(x: Wave, i: Instruction, issued: _Alike, boxes: Boxes, to: Received) -> AsyncOp:
    """Loads that threads of different CTAs issue alike, but for their boxes: to one address of their windows, and counted by the mbarriers at one."""
    ctas, begin, size, offset = issued.ctas, issued.ctas[0].shared.begin, to.transaction_bytes, to.mbar.smem_address
    by = Delivery(i, 0, 0, to.smem_address, size, (0,))
    words = functools.cache(lambda: touched_runs(boxes.transfers[0], begin))
    writes = [
        SharedWrite(cta, words, size, (cta, offset), by, _Source(transfer, begin))
        for cta, transfer in zip(ctas, boxes.transfers, strict=True)
    ]
    each = zip(ctas, x.tid[issued.threads].tolist(), boxes.coordinates, strict=True)
    map_ = issued.map_address, issued.tensor_map
    records = [Load(cta.number, tid, i, *map_, "tile", where, (), (to,)) for cta, tid, where in each]
    return AsyncOp("tma_load", i, list(zip(ctas, issued.threads.tolist(), strict=True)), writes, size=size, records=records)


def _load(x: Wave, i: Instruction, cta: Cta, thread: int, deliveries: tuple[Received, ...], load: Load) -> AsyncOp:
    """A load by one thread, which may go to several CTAs of its cluster."""
    reached, writes = tuple(d.cta_rank for d in deliveries), []
    for d in deliveries:
        to, mbar = member(x, cta, d.cta_rank), d.mbar
        transfer, begin = cast("Transfer", to.shared.writers[-1]), to.shared.begin
        by = Delivery(i, cta.rank, to.rank, d.smem_address, d.transaction_bytes, reached)
        words = functools.cache(functools.partial(touched_runs, transfer, begin))
        barrier = member(x, cta, mbar.cta_rank), mbar.smem_address
        writes.append(SharedWrite(to, words, d.transaction_bytes, barrier, by, _Source(transfer, begin)))
    return AsyncOp("tma_load", i, [(cta, thread)], writes, size=deliveries[0].transaction_bytes, records=[load])


class _Source(NamedTuple):
    """What a tensor load reads (`async_ops.GlobalSource`), and the begin of the window that it goes to."""

    transfer: Transfer
    window: int

    @property
    def begin(self) -> int:
        """The first address that it may read."""
        return self.transfer.global_span[0]

    def at(self) -> tuple[np.ndarray, int]:
        """The addresses, and the bytes at each."""
        return _in_global(self.transfer)

    def places(self) -> np.ndarray | None:
        """Where in the window the words of each go; None where elements of 6 bits become bytes."""
        return _in_shared(self.transfer, self.window) if self.transfer.chunk_bytes == CHUNK else None


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
        together: dict[tuple[int, int], AsyncOp | None] = {}  # by map and source: see `_told_together`
        for (cta, thread), (address, src, *values), is_again in issued:
            tm, where, shared = map_at(x, i, address, thread), tuple(values), cta.shared
            does = thread // WARP, cta.index, address, src, where
            if before is not None and before.does == does and not operation and x.in_flight is None:
                before.is_read_again(x, thread)
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
        x.progress.changes += 1

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
    if x.observer is not None:
        told = [((cta, thread), [issued.map_address, src, *transfer.coordinates], False) for thread, _, cta, src, issued, transfer in each]
        _tell_all(x, i, told, [transfer for *_, transfer in each])
    for *_, store in found:
        store()
    for _, tid, cta, src, issued, transfer in each:
        record(x, Store(cta.number, tid, i, issued.map_address, issued.tensor_map, "tile", transfer.coordinates, src))
    x.progress.changes += 1
    return True


def _are_apart(tm: TensorMap, alike: Sequence[_Alike]) -> bool:
    """Are boxes apart, as those of one grid are in a tensor whose elements share no bytes?"""
    boxes = np.concatenate([issued.boxes for issued in alike])
    if boxes.shape[1] != tm.rank or any(short_strides(tm)):
        return False
    steps, rest = np.divmod(boxes - boxes[0], np.array(tm.box_dim))
    return not rest.any() and len({*map(tuple, steps.tolist())}) == len(boxes)


def _tell_all(x: Wave, i: Instruction, issued: list[tuple[Issuer, list[int], bool]], transfers: Sequence[Transfer]) -> None:
    """Report stores, before they write."""
    together: dict[tuple[int, int], AsyncOp | None] = {}
    for ((cta, thread), (address, src, *where), _), transfer in zip(issued, transfers, strict=True):
        stored = _Stored((thread // WARP, cta.index, address, src, tuple(where)), src)
        _tell(x, i, "tma_store", stored, issued, together, (cta, thread), True, transfer)


def _tell(
    x: Wave, i: Instruction, kind: str, stored: _Stored, issued: list[tuple[Issuer, list[int], bool]],
    together: dict[tuple[int, int], AsyncOp | None], issuer: Issuer, writes: bool, transfer: Transfer,
) -> None:  # fmt: skip
    """Report a transfer, once: a store before it writes. `writes`: nobody else of its CTA writes the same."""
    if x.observer is None or stored.op is not None:
        return
    (cta, thread), (address, src) = issuer, stored.does[2:4]
    read = touched_runs(transfer, cta.shared.begin)
    if (address, src) not in together:
        together[address, src] = _told_together(x, i, kind, issued, [address, src], transfer, read)
    op = together[address, src]
    if op is None:
        does, is_shared = [address, src, *stored.does[4]], kind == "tma_store" and x.in_flight is None  # see `_Stored`
        warps_too = (
            [other % WARP for (_, other), values, _ in issued if other // WARP == thread // WARP and values == does] if is_shared else []
        )
        op = AsyncOp(kind, i, [issuer], reads=[read], size=transfer.transaction_bytes, lanes=sum(1 << lane for lane in warps_too))
        x.observer.issued(x, op)
    stored.op, stored.n = op, op.issuers.index(issuer)
    stays = functools.partial(_stays, x, cta.shared, transfer) if kind == "tma_store" else None
    x.observer.stores(x, op, stored.n, GlobalWrite(functools.partial(_in_global, transfer), transfer.transaction_bytes, stays, not writes))


def _told_together(
    x: Wave, i: Instruction, kind: str, issued: list[tuple[Issuer, list[int], bool]], by: list[int], first: Transfer, read: WordRanges
) -> AsyncOp | None:
    """Report stores `by` one map from one place of threads' windows, each of a CTA of its own, whose boxes lie inside the tensor. None where each is to be reported
    by itself."""
    alike = [one for one in issued if one[1][:2] == by]
    ctas, bank, tm = [cta for (cta, _), *_ in alike], x.launch.parameter_address, first.tensor_map
    if len(alike) < 2 or x.in_flight is not None or x.launch.cluster_size > 1 or len({cta.index for cta in ctas}) < len(ctas):
        return None
    if first.geometry.mode != "tile" or not first.whole or not bank <= by[0] < bank + len(x.launch.parameters):
        return None
    sizes = list(zip(tm.box_dim, tm.global_dim, strict=True))
    if not all(0 <= at <= dim - box for _, (_, _, *where), _ in alike for at, (box, dim) in zip(where, sizes, strict=True)):
        return None
    op = AsyncOp(kind, i, [issuer for issuer, *_ in alike], reads=[read] * len(alike), size=first.transaction_bytes)
    x.observer.issued(x, op)
    return op


@dataclasses.dataclass(eq=False)
class _Stored:
    """A store that lanes of one warp issue together, one after the other: what it does, and which issuer's part of which operation it is.

    CUTLASS has whole warps issue them. Each lane's leaves what the first one's has put there; only what the lanes read may be ordered for one and not for another.
    """

    does: tuple[Any, ...]
    smem_address: int
    op: AsyncOp | None = None
    n: int = 0

    def is_read_again(self, x: Wave, thread: int) -> None:
        """Another lane issues it."""
        if self.op is not None:
            x.observer.repeated(x, self.op, self.n, thread)


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
