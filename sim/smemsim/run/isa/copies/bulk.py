"""`cp.async.bulk`, `cp.reduce.async.bulk` and the groups that bulk and tensor stores complete in (PTX ISA 9.1
§9.7.9.25).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from smemsim.base.errors import HardwareTrap
from smemsim.core.machine.bulk import BulkTransfer, bulk_copy, bulk_prefetch, bulk_reduce, fitting_size
from smemsim.core.machine.cluster_memory import Cluster
from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.reductions import REDUCTION_TYPES, ReductionOp
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from smemsim.run.async_ops import AsyncOp, GlobalWrite, SharedWrite
from smemsim.run.engine.records import Bulk
from smemsim.run.engine.traps import MAY_REACH, outside, region_name
from smemsim.run.engine.wave import OFFSET_MASK
from smemsim.run.isa.asynchronous import (
    Issuer,
    check_ranks,
    cluster_of,
    each_issuer,
    issue,
    issued_by,
    member,
    one_cta,
    own_address,
    stop,
    stops,
)
from smemsim.run.isa.barriers.mbarrier import Delivery
from smemsim.run.isa.memory.spaces import global_operand, shared_operand
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Step, implements, unmodelled
from smemsim.run.word_ranges import WORD, WordRanges

if TYPE_CHECKING:
    from smemsim.core.machine.cluster import ClusterAddress
    from smemsim.run.engine.wave import Cta, Wave
    from smemsim.run.lower.program import Linker


_ARRIVES = "mbarrier::complete_tx::bytes"


@implements("cp.async.bulk")
def build_bulk(i: Instruction, c: Linker) -> Step:
    """A copy into shared memory, or out of it: `cp.async.bulk.DST.SRC.COMPLETION… [dst], [src], size {, [mbar]} {,
    mask} {, policy}`.
    """
    return build_out(i, c) if "bulk_group" in i.modifiers else build_in(i, c)


def build_in(i: Instruction, c: Linker) -> Step:
    """From global memory, or from the own shared memory to that of another CTA."""
    words, operands = Modifiers(i, "async", "bulk", _ARRIVES), Operands(i)
    to_space = words.one_of(("shared::cluster",)) or words.need("shared::cta")
    between = words.has("shared::cta")
    if not between:
        words.need("global")
    is_multicast, hinted = words.has("multicast::cluster"), words.has("L2::cache_hint")
    words.end()
    to, source = shared_operand(i, c, operands.next("a destination")), operands.next("a source")
    at = shared_operand(i, c, source) if between else global_operand(c, source)
    size, mbar = c.read(operands.next("a size"), "u32"), shared_operand(i, c, operands.next("an mbarrier"))
    mask = [c.read(operands.next("a CTA mask"), "u16")] if is_multicast else []
    if hinted:
        operands.next("a cache policy")
    operands.end()

    def run(x: Wave) -> None:
        if is_multicast:
            x.launch.result.evidence.add(
                "whom a bulk copy with .multicast::cluster reaches is documented (PTX ISA 9.1 §9.7.9.25.4.1), not measured"
            )
        for (cta, thread), (dst, src, count, barrier, *masks) in each_issuer(x, [to, at, size, mbar, *mask]):
            cluster = cluster_of(x, cta)
            check_ranks(x, i, *((dst, src) if between else (dst,)), mbar=barrier)
            if not between:
                _check_reach(x, i, thread, src, count)
            if not is_multicast:
                one_cta(x, i, cta, dst, barrier)
            if to_space == "shared::cta":
                own_address(i, cta, dst)
            _note_size(x, i, count, None if between else src)
            if x.in_flight is not None:
                x.in_flight.clears(x, _words(dst & OFFSET_MASK, count) - x.window_begin + cta.index * x.pitch >> 2)
            with stops(x, i, _reason):
                if between:
                    given: dict[str, Any] = {"dst_space": "shared::cluster", "src_space": "shared::cta", "shared_end": cta.shared.end}
                    transfers: tuple[BulkTransfer, ...] = (bulk_copy(dst, src, count, mbar=barrier, cta_rank=cta.rank, **given),)
                else:
                    transfers = cluster.bulk_transfers(
                        dst, src, count, mbar=barrier, cta_rank=cta.rank, cta_mask=masks[0] if mask else None
                    )
                op = _arrives(x, i, (cta, thread), cluster, transfers) if transfers else None
            if op is not None:
                issue(x, op)
        x.progress.changes += 1

    return run


def build_out(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.global.shared::cta.bulk_group… [dst], [src], size {, policy} {, byteMask}`."""
    words, operands = Modifiers(i, "async", "bulk", "global", "shared::cta", "bulk_group"), Operands(i)
    hinted, masked = words.has("L2::cache_hint"), words.has("cp_mask")
    words.end()
    to, at = global_operand(c, operands.next("a destination")), shared_operand(i, c, operands.next("a source"))
    size = c.read(operands.next("a size"), "u32")
    if hinted:
        operands.next("a cache policy")
    mask = [c.read(operands.next("a byte mask"), "u16")] if masked else []
    operands.end()

    def run(x: Wave) -> None:
        for issued in issued_by(x, [to, at, size, *mask]):
            (cta, thread), (dst, src, count, *masks) = issued.issuers[0], issued.values
            check_ranks(x, i, src)
            _check_reach(x, i, thread, dst, count)
            own = own_address(i, cta, src)
            _note_size(x, i, count, dst)
            with stops(x, i, _reason):
                transfer = bulk_copy(dst, own, count, dst_space="global", src_space="shared::cta", shared_end=cta.shared.end)
                op = _leaves(x, i, (cta, thread), transfer, is_again=issued.is_again, mask=masks[0] if masks else None)
            issue(x, op)
        x.progress.changes += 1

    return run


@implements("cp.reduce.async.bulk")
def build_reduce(i: Instruction, c: Linker) -> Step:
    """`cp.reduce.async.bulk.DST.shared::cta.COMPLETION.op.type [dst], [src], size {, [mbar]} {, policy}`."""
    words, operands = Modifiers(i, "reduce", "async", "bulk", "shared::cta"), Operands(i)
    is_global = words.need("global", "shared::cluster") == "global"
    words.need("bulk_group" if is_global else _ARRIVES)
    hinted = words.has("L2::cache_hint")
    operation = words.need(*(str(op) for op in ReductionOp))
    words.has("noftz")  # the only f16 and bf16 additions there are
    dtype = words.need(*REDUCTION_TYPES)
    words.end()
    destination = operands.next("a destination")
    to = global_operand(c, destination) if is_global else shared_operand(i, c, destination)
    at, size = shared_operand(i, c, operands.next("a source")), c.read(operands.next("a size"), "u32")
    mbar = [] if is_global else [shared_operand(i, c, operands.next("an mbarrier"))]
    if hinted:
        operands.next("a cache policy")
    operands.end()

    def run(x: Wave) -> None:
        for (cta, thread), (dst, src, count, *barrier) in each_issuer(x, [to, at, size, *mbar]):
            check_ranks(x, i, *((src,) if is_global else (src, dst)), mbar=barrier[0] if barrier else None)
            if barrier:
                one_cta(x, i, cta, dst, barrier[0])
            else:
                _check_reach(x, i, thread, dst, count)
            with stops(x, i, _reason):
                space: dict[str, Any] = {"dst_space": "global" if is_global else "shared::cluster", "shared_end": cta.shared.end}
                counted: dict[str, Any] = {"mbar": barrier[0], "cta_rank": cta.rank} if barrier else {}
                transfer = bulk_reduce(operation, dtype, dst, own_address(i, cta, src) if is_global else src, count, **space, **counted)
                issuer = cta, thread
                op = _leaves(x, i, issuer, transfer) if is_global else _arrives(x, i, issuer, cluster_of(x, cta), (transfer,))
            issue(x, op)
        x.progress.changes += 1

    return run


@implements("cp.async.bulk.prefetch")
def build_prefetch(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.prefetch.L2.global [src], size {, policy}`: nothing that can be seen, but it traps off 16 B."""
    words, operands = Modifiers(i, "async", "bulk", "prefetch", "L2", "global"), Operands(i)
    hinted = words.has("L2::cache_hint")
    words.end()
    at, size = global_operand(c, operands.next("a source")), c.read(operands.next("a size"), "u32")
    if hinted:
        operands.next("a cache policy")
    operands.end()

    def run(x: Wave) -> None:
        for (_, thread), (src, count) in each_issuer(x, [at, size]):
            _check_reach(x, i, thread, src, count)
            with stops(x, i, _reason):
                bulk_prefetch(src, count)

    return run


@implements("cp.async.bulk.commit_group")
def build_commit(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.commit_group`: the stores so far are a group."""
    Modifiers(i, "async", "bulk", "commit_group").end()

    def run(x: Wave) -> None:
        if x.in_flight is not None:
            x.in_flight.commit(x, "bulk")
        if x.events.group_committed:
            x.events.group_committed(x, i, "bulk")

    return run


@implements("cp.async.bulk.wait_group")
def build_wait(i: Instruction, c: Linker) -> Step:
    """`cp.async.bulk.wait_group{.read} N`: until at most N groups are pending; operations complete when they are
    issued, so no thread waits.
    """
    words, operands = Modifiers(i, "async", "bulk", "wait_group"), Operands(i)
    only_read = words.has("read")
    words.end()
    left = operands.next("a number of groups")
    operands.end()
    if not isinstance(left, Immediate):
        raise unmodelled(i, "the number of groups is no immediate")
    count = left.value

    def run(x: Wave) -> None:
        if x.in_flight is not None:
            x.in_flight.wait(x, "bulk", count)
        if x.events.group_waited:
            x.events.group_waited(x, i, "bulk", count, only_read=only_read)

    return run


def _arrives(x: Wave, i: Instruction, issuer: Issuer, cluster: Cluster, transfers: tuple[BulkTransfer, ...]) -> AsyncOp:
    """A copy, or a reduction, into shared memory of CTAs of a cluster. Raises where nothing lies."""
    (cta, thread), reached, writes = issuer, tuple(t.dst_cta or 0 for t in transfers), []
    for t in transfers:
        mbar = cast("ClusterAddress", t.mbar)
        to, begin, is_global = member(x, cta, t.dst_cta or 0), t.dst - cta.shared.begin, t.src_space == "global"
        old, new = (to.shared.peek(t.dst, t.size), to.shared.bulk_source(t, x.launch.memory)) if is_global else cluster.bulk_sides(t)
        writes.append(
            SharedWrite(
                to,
                functools.partial(_word_ranges, begin, t.size),
                t.transaction_bytes,
                (member(x, cta, mbar.cta_rank), mbar.smem_address),
                Delivery(i, cta.rank, t.dst_cta or 0, t.dst, t.transaction_bytes, reached),
                _Source(t, begin) if is_global else None,
                None if t.op else (old == new).reshape(-1, WORD).all(axis=1),
                None if t.src_cta is None else _word_ranges(t.src - cta.shared.begin, t.size),
            )
        )
    bulk = Bulk(cta.number, int(x.tid[thread]), i, transfers)
    brings = functools.partial(_bring, x, cluster, transfers)
    return AsyncOp("bulk", i, [issuer], writes, size=transfers[0].size, brings=brings, is_update=bool(transfers[0].op), records=[bulk])


def _bring(x: Wave, cluster: Cluster, transfers: tuple[BulkTransfer, ...]) -> None:
    """Move the bytes of a copy into shared memory."""
    for transfer in transfers:
        if transfer.src_space == "global":
            cluster[transfer.dst_cta or 0].bulk_arrives(transfer, x.launch.memory)
        else:
            cluster.bulk_moves(transfer)


class _Source(NamedTuple):
    """The bytes that a bulk copy reads (`async_ops.GlobalSource`), and their place in the window."""

    transfer: BulkTransfer
    to: int

    @property
    def begin(self) -> None:
        """Not one array alone."""

    def at(self) -> tuple[np.ndarray, int]:
        """The addresses, and the bytes at each."""
        return _units(self.transfer.src, self.transfer.size), BULK_LIMITS.unit

    def places(self) -> np.ndarray:
        """The places in the window of the words of each."""
        return _words(self.to, self.transfer.size).reshape(-1, BULK_LIMITS.unit // 4)


def _word_ranges(begin: int, size: int) -> WordRanges:
    return WordRanges.of(_words(begin, size) // WORD)


def _stays(x: Wave, cta: Cta, transfer: BulkTransfer, at: np.ndarray) -> np.ndarray:
    """Which bytes of global memory hold what a store writes there, or are not its own (rule order.same_value)."""
    n = at - transfer.dst
    is_own = (n >= 0) & (n < transfer.size)
    n = np.where(is_own, n, 0)
    return np.asarray(~is_own | (x.launch.memory.span(transfer.dst, transfer.size)[n] == cta.shared.peek(transfer.src, transfer.size)[n]))


def _leaves(x: Wave, i: Instruction, issuer: Issuer, transfer: BulkTransfer, *, is_again: bool = False, mask: int | None = None) -> AsyncOp:
    """A copy, or a reduction, to global memory; `is_again`: another lane has written the same there.

    Only the bytes of the mask are written, for each 16 bytes (`.cp_mask`, sm_100a; documented: PTX ISA 9.1
    §9.7.9.25.4.1). Raises if the memory is not allocated.
    """
    cta, thread = issuer
    cta.shared.bulk_target(transfer, x.launch.memory)
    chosen = None if mask is None else (mask >> np.arange(BULK_LIMITS.unit) & 1).astype(bool)
    stays = functools.partial(_stays, x, cta, transfer) if mask is None and not transfer.op else None
    return AsyncOp(
        "bulk", i, [issuer], reads=[_word_ranges(transfer.src - cta.shared.begin, transfer.size)], size=transfer.size,
        stores=[GlobalWrite(functools.partial(_goes_to, transfer), transfer.size, stays, is_again)],
        takes=functools.partial(cta.shared.bulk_leaves, transfer, x.launch.memory, chosen), records=[Bulk(cta.number, int(x.tid[thread]), i, (transfer,))],
    )  # fmt: skip


def _goes_to(transfer: BulkTransfer) -> tuple[np.ndarray, int]:
    return _units(transfer.dst, transfer.size), BULK_LIMITS.unit


def _words(begin: int, size: int) -> np.ndarray:
    return np.arange(begin, begin + size, 4)


def _units(begin: int, size: int) -> np.ndarray:
    return np.arange(begin, begin + size, BULK_LIMITS.unit)


def _note_size(x: Wave, i: Instruction, size: int, address: int | None = None) -> None:
    """A103 for a size that is not a multiple of 16 bytes. If one side of the copy is in the array at the global
    `address`, the size in the fix fits into the array.
    """
    unit = BULK_LIMITS.unit
    if size % unit:
        message = f"the bulk copy has {size} bytes, which is not a multiple of {unit} B"
        more = -(-size // unit) * unit
        array = None if address is None else x.launch.memory.holding(address, address + size)
        repair = f"copy {more} bytes"
        if array is not None and address is not None and address + more > array.end:
            repair = fitting_size(size, array.end - address, is_store="bulk_group" in i.modifiers)
        why = f"hardware moves and counts whole units of {unit} B: the last {size % unit} B stay behind"
        x.launch.find("A103", i, message, repair, why=why)


def _check_reach(x: Wave, i: Instruction, thread: int, address: int, size: int) -> None:
    """X001 for global addresses that no GPU maps."""
    if address + size > LIMITS.address_end:
        place = np.searchsorted(x.threads, [thread])
        outside(x, i, "global", np.array([address], np.uint64), place, np.array([True]), size)
    unit = BULK_LIMITS.unit
    moved, array = size // unit * unit, x.launch.memory.holding(address, address + 1)
    if array is not None and address + moved > array.end and "prefetch" not in i.modifiers:
        name, room = region_name(x.launch, array.begin, array.end), array.end - address
        stop(
            x, i, "X001", f"the copy of global {address:#x} to {address + moved - 1:#x} ends {moved - room} bytes after the end of {name}",
            fitting_size(moved, room, is_store="bulk_group" in i.modifiers),
            ILLEGAL_ADDRESS, (array.begin,), MAY_REACH,
        )  # fmt: skip


def _reason(trap: HardwareTrap) -> tuple[str, str]:
    if trap.cuda_error == MISALIGNED_ADDRESS:
        return "A101", f"addresses that are multiples of {BULK_LIMITS.unit} B, of the mbarrier {BULK_LIMITS.mbarrier_alignment} B"
    return "A107", "check the addresses and the size"
