"""cp.async.bulk.tensor and its relatives: the transfers of tensor tiles."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.errors import HardwareTrap, Unmodelled
from smemsim.core.arithmetic.reduce import tensor_reduction
from smemsim.core.machine.cluster import Delivery as Received
from smemsim.core.machine.cluster_memory import check_nothing_traps, deliveries
from smemsim.core.machine.global_memory import Region
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tma import GATHERS, Boxes, Transfer, are_apart, tma_prefetch
from smemsim.core.ptx.module import Address, Instruction, Operand, Vector
from smemsim.core.spec.reductions import ReductionOp
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLE_ARCHITECTURES, WITHOUT_PADDED_TO_CLUSTER
from smemsim.core.spec.transfers import GATHERED_ROWS, LOAD_MODES, STORE_MODES
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.traps import map_traps
from smemsim.run.async_ops import AsyncOp, GlobalWrite, Lazily, Once, SharedWrite
from smemsim.run.engine.records import Load, Store
from smemsim.run.engine.wave import OFFSET_MASK, WARP
from smemsim.run.isa.asynchronous import (
    Issued,
    check_alone,
    check_ranks,
    described,
    each_issuer,
    in_order,
    issue,
    issued_by,
    member,
    one_by_one,
    one_cta,
    own_address,
    stops,
    touched_runs,
)
from smemsim.run.isa.barriers.mbarrier import Delivery
from smemsim.run.isa.copies.maps import map_at, prepare_maps
from smemsim.run.isa.memory.spaces import shared_operand
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker

# ---- `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor` and the prefetches: tensor transfers, executed when they
# are issued (PTX ISA 9.7.9.27)


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
    """`cp.async.bulk.tensor.2d.DST.global.MODE.mbarrier::complete_tx::bytes… [dst], [map, {…}], [mbar] {, offsets} {,
    mask} {, policy}`.
    """
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
    mask = c.read(operands.next("a CTA mask"), "u16") if is_multicast else lambda x: None
    if hinted:
        operands.next("a cache policy")
    operands.end()
    prepare_maps(c, mode)
    rules: list[_Rule] = [] if own or c.arch not in WITHOUT_PADDED_TO_CLUSTER else [_check_type]
    rules += [_check_addresses] + [_one_cta] * (not is_multicast and group == 1) + [_own_address] * own
    return _Loads(i, mode, [to, at, mbar, mask, *offsets], coordinates, rules, group).run


@dataclasses.dataclass(frozen=True)
class _Loads:
    """A tensor load: its operands (destination, map, mbarrier, CTA mask or None, offsets), and the coordinates of the
    box. `rules` are those that its words ask for.
    """

    i: Instruction
    mode: str
    reads: list[Read]
    coordinates: list[Read]
    rules: list[_Rule]
    group: int

    def run(self, x: Wave) -> None:
        """The running threads issue it."""
        i, every = self.i, issued_by(x, self.reads, self.coordinates)
        _check_alone(x, i, every, "its bytes arrive at the mbarrier")
        for issued in in_order(every, functools.partial(self.precheck, x)):
            _, address, _, _, *offsets = issued.values
            tm = map_at(x, i, address, issued.threads)
            for rule in self.rules:
                rule(x, i, tm, issued)
            stopped = functools.partial(_stopped_by, x, i, tm, address, self.mode)
            for part, moves in described(issued, functools.partial(self.describe, x, tm), stopped):
                if moves.received:
                    issue(x, _load(x, i, part, address, moves, tuple(offsets)))
        x.progress.changes += 1

    def precheck(self, x: Wave, issued: Issued) -> _Moves:
        """The boxes that it will move, before anything else moves. Raises if it traps."""
        return self.describe(x, map_at(x, self.i, issued.values[1], []), issued)

    def describe(self, x: Wave, tm: TensorMap, issued: Issued) -> _Moves:
        """The boxes of each CTA, and their bytes. Raises if it traps."""
        (cta, _), (dst, _, barrier, mask, *moved) = issued.issuers[0], issued.values
        to, offsets, shared = dst & OFFSET_MASK, tuple(moved), cta.shared
        received = deliveries(x.launch.cluster_size, shared.end, dst, barrier, mask, self.group)
        if not received:
            check_nothing_traps(tm, issued.boxes[0], to, arch=shared.arch, end=shared.end, im2col_offsets=offsets, mode=self.mode)
        each = issued.boxes if len(received) < 2 else [box for box in issued.boxes for _ in received]
        return _Moves(*shared.boxes(shared.form(tm, to, offsets, self.mode), each, x.launch.memory), received)


# A rule of loads, asked before anything moves: given the wave, the instruction, the map, and what threads issue.
_Rule = Callable[["Wave", Instruction, TensorMap, Issued], None]


def _check_type(x: Wave, i: Instruction, tm: TensorMap, issued: Issued) -> None:
    """Unmodelled for a map with a sub-byte type, or a swizzle with larger atoms, on cards without such loads."""
    if not tm.type_row.sm90 or tm.swizzle in SWIZZLE_ARCHITECTURES:
        raise Unmodelled(_PADDED_TO_CLUSTER.format(arch=x.launch.arch), line=i.line)


def _check_addresses(x: Wave, i: Instruction, tm: TensorMap, issued: Issued) -> None:
    dst, _, barrier, *_ = issued.values
    check_ranks(x, i, dst, mbar=barrier)


def _one_cta(x: Wave, i: Instruction, tm: TensorMap, issued: Issued) -> None:
    """Loads for one CTA, whose mbarrier counts them."""
    dst, _, barrier, *_ = issued.values
    one_cta(x, i, issued.issuers[0][0], dst, barrier)


def _own_address(x: Wave, i: Instruction, tm: TensorMap, issued: Issued) -> None:
    """Loads to .shared::cta."""
    own_address(i, issued.issuers[0][0], issued.values[0])


class _Moves(NamedTuple):
    """The boxes that tensor transfers move, the array, and the receivers of loads."""

    boxes: Boxes
    array: Region
    received: tuple[Received, ...] = ()


_PADDED_TO_CLUSTER = (
    "on {arch} the PTX ISA has no sub-byte types and no swizzle atomicity for tensor loads to .shared::cluster, "
    "and what such a load does is not known: write .shared::cta (PTX ISA 9.1 §9.7.9.27)"
)


def _load(x: Wave, i: Instruction, issued: Issued, address: int, moves: _Moves, moved: tuple[int, ...]) -> AsyncOp:
    """Loads by the map at an address, each of which may go to several CTAs of its issuer's cluster."""
    boxes, (cta, _), size = moves.boxes, issued.issuers[0], moves.boxes.transaction_bytes
    received = tuple([d.counting(size) for d in moves.received])
    reached = tuple([d.cta_rank for d in received])
    by = [Delivery(i, cta.rank, rank, boxes.form.smem_address, size, reached) for rank in reached]
    begin, count = cta.shared.begin, len(received)
    words = Once(lambda: touched_runs(boxes.transfers[0], begin))

    def write(n: int) -> SharedWrite:
        """The n-th: of each issuer one for each CTA that gets its box."""
        own, d = issued.issuers[n // count][0], received[n % count]
        barrier = member(x, own, d.mbar.cta_rank), d.mbar.smem_address
        return SharedWrite(member(x, own, d.cta_rank), words, size, barrier, by[n % count], _Source(boxes.transfers[n], begin))

    of, tids = (i, address, boxes.form.tensor_map, boxes.form.geometry.mode), x.tid[issued.threads].tolist()
    records = [
        Load(own.number, tid, *of, box, moved, received) for (own, _), tid, box in zip(issued.issuers, tids, issued.boxes, strict=True)
    ]
    if x.launch.cluster_size == 1:
        windows = [own.shared for own, _ in issued.issuers]
    else:
        receivers = x.ctas.those([own.index - own.rank + rank for own, _ in issued.issuers for rank in reached])
        windows = [receiver.shared for receiver in receivers]
    brings, writes = functools.partial(SharedMemory.load, windows, boxes, moves.array), Lazily(len(windows), write)
    return AsyncOp("tma_load", i, issued.issuers, writes, size=size, brings=brings, records=records)


class _Source(NamedTuple):
    """The boxes that a tensor load reads (`async_ops.GlobalSource`), and the begin of the window that gets them."""

    transfer: Transfer
    window: int

    @property
    def begin(self) -> int:
        """The first address that it, or one of those that are moved with it, may read."""
        return self.transfer.boxes.span[0]

    def at(self) -> tuple[np.ndarray, int]:
        """The addresses, and the bytes at each."""
        return _in_global(self.transfer)

    def places(self) -> np.ndarray | None:
        """The places in the window of the words of each. None if elements of 6 bits become bytes."""
        return _in_shared(self.transfer, self.window) if self.transfer.chunk_bytes == CHUNK else None


def _in_global(transfer: Any) -> tuple[np.ndarray, int]:
    """The places in global memory that a tensor transfer reads or writes: addresses, and the number of bytes at
    each.
    """
    chunks, valid = transfer.chunk_global, transfer.chunk_valid
    if transfer.whole:
        return chunks, transfer.chunk_bytes
    unit = int(np.gcd.reduce(valid)) or 1
    at = np.arange(0, transfer.chunk_bytes, unit)
    return (chunks[:, None] + at)[at < valid[:, None]], unit


def _in_shared(transfer: Any, begin: int) -> np.ndarray:
    """The places in the window of the words at each address of `_in_global`: (n, words)."""
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
    prepare_maps(c, mode, is_store=True)
    return _Stores(i, mode, [at, source], coordinates, operation).run


@dataclasses.dataclass(frozen=True)
class _Stores:
    """A tensor store, or a reduction by an operation: the operands that it reads (map, source), and the coordinates
    of the box.
    """

    i: Instruction
    mode: str
    reads: list[Read]
    coordinates: list[Read]
    operation: str

    def run(self, x: Wave) -> None:
        """The running threads issue it."""
        i, every = self.i, issued_by(x, self.reads, self.coordinates, repeats=not self.operation and x.in_flight is None)
        if self.operation in _COUNTED:
            _check_alone(x, i, every, f".{self.operation} is done")
        for issued in in_order(every, functools.partial(self.precheck, x)) if self._are_apart(x, every) else one_by_one(every):
            address, src = issued.values
            tm = map_at(x, i, address, issued.threads)
            check_ranks(x, i, src)
            own_address(i, issued.issuers[0][0], src)
            stopped = functools.partial(_stopped_by, x, i, tm, address, self.mode, is_store=True)
            for part, moves in described(issued, functools.partial(self.describe, x, tm), stopped):
                issue(x, _store(x, i, part, address, moves, self.operation))
        x.progress.changes += 1

    def _are_apart(self, x: Wave, every: Sequence[Issued]) -> bool:
        """May several groups of CTAs store one after the other: does none touch what another one does?"""
        if len(every) == 1 or all(len(issued.issuers) == 1 for issued in every):
            return True
        addresses, boxes = {issued.values[0] for issued in every}, [box for issued in every for box in issued.boxes]
        return len(addresses) == 1 and are_apart(map_at(x, self.i, every[0].values[0], []), boxes)

    def precheck(self, x: Wave, issued: Issued) -> _Moves:
        """The boxes that it will move, before anything else moves. Raises if it traps."""
        return self.describe(x, map_at(x, self.i, issued.values[0], []), issued)

    def describe(self, x: Wave, tm: TensorMap, issued: Issued) -> _Moves:
        """Which bytes go where. Raises where it traps."""
        if self.operation:
            tensor_reduction(self.operation, tm.data_type)
        (cta, _), at = issued.issuers[0], issued.values[1] & OFFSET_MASK
        return _Moves(*cta.shared.boxes(cta.shared.form(tm, at, (), self.mode, is_store=True), issued.boxes, x.launch.memory))


def _store(x: Wave, i: Instruction, issued: Issued, address: int, moves: _Moves, operation: str) -> AsyncOp:
    """Stores, or reductions, by the map at an address. CUTLASS has whole warps issue them: each lane's leaves what
    the first one's has put there; only what the lanes read may be ordered for one and not for another.
    """
    boxes, ctas, is_plain = moves.boxes, [cta for cta, _ in issued.issuers], not operation
    size, read = boxes.transaction_bytes, touched_runs(boxes.transfers[0], ctas[0].shared.begin)
    writes = [
        GlobalWrite(functools.partial(_in_global, transfer), size, functools.partial(_stays, x, cta.shared, transfer) if is_plain else None, is_plain and issued.is_again)
        for cta, transfer in zip(ctas, boxes.transfers, strict=True)
    ]  # fmt: skip
    by = [*zip(ctas, issued.boxes, strict=True), *[(ctas[0], issued.boxes[0])] * len(issued.again)]
    records = [
        Store(cta.number, tid, i, address, boxes.form.tensor_map, boxes.form.geometry.mode, box, boxes.form.smem_address, operation)
        for (cta, box), tid in zip(by, x.tid[issued.threads].tolist(), strict=True)
    ]
    lanes = issued.threads if len(ctas) == 1 and is_plain and x.in_flight is None else []
    takes = functools.partial(SharedMemory.store, [cta.shared for cta in ctas], boxes, moves.array, operation)
    return AsyncOp(
        "tma_store" if is_plain else "tma_reduce", i, issued.issuers, reads=[read] * len(ctas), stores=writes, size=size, takes=takes, lanes=sum(1 << thread % WARP for thread in lanes),
        again=issued.again, records=records,
    )  # fmt: skip


def _stopped_by(
    x: Wave, i: Instruction, tm: TensorMap, address: int, mode: str, issued: Issued, *, is_store: bool = False
) -> contextlib.AbstractContextManager[None]:
    """`stops` for what a thread issues by a map."""
    return stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, issued.boxes[0], is_store), (tm, address, issued.boxes[0]))


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


@implements("cp.async.bulk.prefetch.tensor")
def build_prefetch(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.prefetch.tensor.2d.L2.global.MODE [map, {…}] {, offsets} {, policy}`: nothing that can be seen,
    but it traps as a load does.
    """
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
        for (_, thread), (address, *values) in each_issuer(x, [at, *coordinates, *offsets]):
            tm = map_at(x, i, address, [thread])
            where, moved = values[: len(coordinates)], values[len(coordinates) :]
            with stops(x, i, lambda trap: _reason(trap, tm, x.launch.arch, mode, where, False), (tm, address, where)):  # noqa: B023 (called at once)
                tma_prefetch(tm, where, im2col_offsets=moved, mode=mode, arch=x.launch.arch)

    return run


def _check_alone(x: Wave, i: Instruction, every: list[Issued], times: str) -> None:
    """X016 if several threads of a warp issue the same. Threads of different CTAs, which one
    `Issued` may have, do not.
    """
    same = [(issued.issuers[0][1], (issued.values, issued.boxes[0])) for issued in every]
    check_alone(x, i, same, f"the same {i.name}", times, "PTX ISA 9.1 §9.7.9.27")


def _source(i: Instruction, c: Linker, operand: Operand, rank: str, mode: str) -> tuple[Read, list[Read]]:
    """The address of the map and the coordinates of `[map, {c0, c1}]`."""
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise unmodelled(i, "without the coordinates of the box: [map, {c0, c1}]")
    wanted = 1 + GATHERED_ROWS if mode in GATHERS else int(rank[0])
    if len(operand.coordinates) != wanted:
        raise unmodelled(i, f"{len(operand.coordinates)} coordinates, .{mode}.{rank} has {wanted}")
    return c.address(Address(operand.base, operand.offset)), [c.read(x, "s32") for x in operand.coordinates]


def _offsets(i: Instruction, c: Linker, operands: Operands) -> list[Read]:
    """The im2col offsets, or (wHalo, wOffset)."""
    vector = operands.next("im2col offsets")
    return [c.read(x, "u16") for x in (vector.items if isinstance(vector, Vector) else (vector,))]


def _reason(trap: HardwareTrap, tm: TensorMap, arch: str, mode: str, at: Sequence[int], is_store: bool) -> tuple[str, str]:
    """The finding's code and repair for a transfer at some coordinates that traps."""
    if any(bytes(tm)) and mode not in GATHERS and len(at) != tm.rank:
        return (
            "T205",
            f"pass a map of rank {len(at)}, or use .{tm.rank}d; if the map should have rank {len(at)}: check what has written its bytes",
        )
    for trap_row in map_traps(tm, arch, mode):
        if trap_row.stops(is_store=is_store):
            if not any(bytes(tm)):
                return "T220", "encode the map (check the result of the call), and copy it to where the kernel reads it"
            return "T212", trap_row.repair
    if trap.cuda_error == MISALIGNED_ADDRESS:
        return "A101", f"an address in shared memory that is a multiple of {LIMITS.smem_alignment} B"
    if trap.cuda_error == ILLEGAL_ADDRESS:
        return "A107", "more shared memory, or a smaller box"
    return "T205", "begin the box at coordinates that the copy takes; let it be wider, or let threads move what it leaves out"
