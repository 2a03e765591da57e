"""The sanitizer's handlers for events of asynchronous operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.core.machine.tmem.layout import ATmemLayout, boxes_of
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.tensor_memory import CELL_BITS
from smemsim.run.async_ops import TensorCoreOp, WarpgroupOp
from smemsim.run.following import Follows, Tell
from smemsim.run.sanitizer.operations import Operation
from smemsim.run.warps import WARP
from smemsim.run.word_ranges import WORD, read_runs

if TYPE_CHECKING:
    from smemsim.run.async_ops import AsyncOp, GlobalSource, GlobalWrite, SharedWrite
    from smemsim.run.views import Mbarrier, Wave

__all__ = ["AsyncEvents"]


@dataclasses.dataclass(eq=False, slots=True)
class _Known:
    """The number under which a sanitizer (`by`) knows an operation: that of each issuer, or of those of the first CTA
    of a cohort.

    The same sanitizer stays responsible, even if another one has replaced it. If `are_told` is set, no reads need a
    report. The flag `are_ordered` says whether each lane of an issuer's warp may read what the operation reads.
    """

    by: Any
    ops: Sequence[Operation]
    are_told: bool = False
    are_ordered: dict[int, bool] = dataclasses.field(default_factory=dict)


class Carried(Follows):
    """A copy to another CTA. The taint of its words moves to the destination; missing order is reported at once."""

    marks: np.ndarray | None = None

    def doubt(self, code: str, places: np.ndarray, tell: Tell) -> None:
        tell(None)

    def read(self, at: np.ndarray, nobody: np.ndarray) -> None:
        if self.taint.shared is not None or nobody.any():
            self.marks = self.taint.of_words(self.i, at)

    def put(self, words: np.ndarray) -> None:
        """The words are written there."""
        if self.marks is not None:
            self.taint.put_words(words, self.marks)


class AsyncEvents:
    """Asynchronous operations, for `Sanitizer` and `SanitizerOfFirst`."""

    # ---- asynchronous operations

    def issued(self: Any, x: Wave, op: AsyncOp) -> None:
        """An operation has a number from now on, and reads and writes shared memory."""
        if isinstance(op, WarpgroupOp):
            self._multiplies(op)
        elif isinstance(op, TensorCoreOp):
            self._uses_tensor_core(x, op)
        elif len(op.issuers) > 1:
            self._issued_alike(op)
        else:
            self._issued_by_one(x, op)

    def _issued_by_one(self: Any, x: Wave, op: AsyncOp) -> None:
        ((_, thread),) = op.issuers
        own = self.begin(x, op.instruction, thread, op.kind)
        op.known = _Known(self, [own])
        for n, write in enumerate(op.writes):
            self._writes_shared(op, own, write, is_first=n == 0)

    def _writes_shared(self: Any, op: AsyncOp, own: Operation, write: SharedWrite, *, is_first: bool) -> None:
        """It writes to one of the CTAs that get its bytes. All writes have one source, which the first one reads."""
        own.barriers[write.cta.index] = write.barrier
        if op.kind in ("st.async", "red.async"):
            self.mbarriers.sends(op.instruction, int(own.warps[0]), write.barrier)
        carried = None
        if write.copied is not None:
            carried = Carried(self.taint, op.instruction)
            own.products.append(cast("Any", carried))
            self.op_reads(own, op.issuers[0][0], write.copied)
        self.op_writes(own, write.cta, write.words, write.lay_there)
        source = write.source
        if source is not None and (source.begin is None or self.reads_what_changes(source.begin)):
            if is_first:
                self.op_reads_global(own, *source.at())
            places = source.places()
            if places is not None:
                self.op_brings(own, write.cta, *source.at(), places)
        if carried is not None:
            carried.put(write.words.words + write.cta.index * self.x.pitch // WORD)

    def _issued_alike(self: Any, op: AsyncOp) -> None:
        """Operations of several CTAs, each in its own window."""
        ops, ctas = self.begin_together(op.instruction, op.threads, op.kind), [cta for cta, _ in op.issuers]
        op.known = _Known(self, ops)
        if op.reads:
            op.known.are_told = self.ops_read(ops, ctas, op.reads[0])
            if not op.known.are_told:
                op.known.ops = self.of_all_ctas(ops)
            self.joins(op.known.ops, "bulk")
            return
        for own, write in zip(ops, op.writes, strict=False):
            own.barriers[write.cta.index] = write.barrier
        self.ops_write(ops, ctas, op.writes[0].words)
        if self.reads_what_changes(cast("GlobalSource", op.writes[0].source).begin):  # all read one array
            op.known.ops = self.of_all_ctas(ops)
            for own, write in zip(op.known.ops, op.writes, strict=True):
                source = cast("GlobalSource", write.source)
                self.op_reads_global(own, *source.at())
                places = source.places()
                if places is not None:
                    self.op_brings(own, write.cta, *source.at(), places)

    def completes_on(self: Any, x: Wave, op: AsyncOp, barriers: Sequence[Mbarrier]) -> None:
        """mbarriers count it."""
        op.known.by.complete_on(op.known.ops, barriers)

    def stores(self: Any, x: Wave, op: AsyncOp, n: int, write: GlobalWrite) -> None:
        """It reads what it stores, and writes global memory."""
        known, (cta, _) = op.known, op.issuers[n]
        by = known.by
        is_alone = len(op.issuers) == 1
        own = known.ops[0] if is_alone else by.of_issuer(known.ops, n)
        if not known.are_told:
            by.op_reads(own, cta, op.reads[n])
        if not write.is_again:
            by.op_writes_global(own, cta, *write.at(), write.stays)
        if is_alone:
            by.joins([own], "bulk", op.lanes)

    def repeated(self: Any, x: Wave, op: AsyncOp, n: int, thread: int) -> None:
        """Only what the lanes read may be ordered for one and not for another."""
        known, by, cta = op.known, op.known.by, op.issuers[n][0]
        own = known.ops[0] if len(op.issuers) == 1 else by.of_issuer(known.ops, n)
        if n not in known.are_ordered:
            known.are_ordered[n] = by.reads_for_all_lanes(own, cta, op.reads[n])
        if not known.are_ordered[n]:
            own.lane = thread % WARP
            by.op_reads(own, cta, op.reads[n])

    # ---- matrix instructions

    def _multiplies(self: Any, op: WarpgroupOp) -> None:
        """Warpgroups multiply."""
        ctas = [cta for cta, _ in op.issuers]
        operations = self.begin_alike(op.instruction, op.threads, "wgmma", op.own)
        for n, own in enumerate(operations):
            own.products.append(op.follow(self.taint, n))
        are_read = True
        for which in op.alike if len(operations) == len(ctas) else op.alike_of_own:
            are_read = are_read and self.ops_read([operations[n] for n in which], [ctas[n] for n in which], op.reads[which[0]])
        if are_read and not self.taint.slots & op.named:  # no product has found anything
            self.accumulate(operations, op.registers, op.sums, op.scale_d)
            return
        for n, (own, cta, goes_on) in enumerate(zip(self.of_all_ctas(operations), ctas, op.scale_d, strict=True)):
            if not are_read:
                self.op_reads(own, cta, op.reads[n])
            product: Any = own.products[-1]
            if product.found or self.taint.slots & op.named:
                is_sum = goes_on and not self.adds_to_nothing(own, op.sums)  # else `accumulate` reports D
                product.finish(product.rows_of_registers(), None, goes_on=is_sum)
            self.accumulate([own], op.registers, op.sums, [goes_on])

    def _uses_tensor_core(self: Any, x: Wave, op: TensorCoreOp) -> None:
        """tcgen05.mma, .cp or .shift."""
        if op.kind == "tcgen05.mma":
            for n, (own, is_told) in enumerate(self._begun(x, op)):
                self._multiplied(op, n, own, is_told=is_told)
            return
        ((_, thread),), (members,) = op.issuers, op.members
        own = self.tensor.begin(op.instruction, thread, op.kind)
        for n, member in enumerate(members if op.follow is not None else ()):
            copied = op.follow(self.taint, self.tensor, n)
            own.products.append(copied)
            self.op_reads(own, member, op.reads[n])
            if copied.found or self.tensor.marks is not None:
                copied.finish()
        self.tensor.op_accesses(own, members, op.boxes_read, op.boxes_written)

    def _begun(self: Any, x: Wave, op: TensorCoreOp) -> list[tuple[Operation, bool]]:
        """The operations by which instructions are known; was it noted that they read what lies in shared memory, and
        is that in order?
        """
        mma, mmas, count = op.mmas[0], op.mmas, len(op.issuers)
        begun = self.tensor.begin_together(op.instruction, op.threads, "tcgen05.mma", [*map(id, mmas)])
        for n, own in enumerate(begun):
            own.products.append(op.follow(self.taint, self.tensor, n))
        are_told = all(other is mma for other in mmas)
        for members in zip(*op.members, strict=True) if are_told else ():
            are_told = are_told and self.ops_read(begun, members[: len(begun)], op.reads[0])
        if len(begun) < count and not (are_told and self._is_clear(op, begun)):
            begun = self.tensor.each(begun)
        elif len(begun) < count:
            return []
        return [(own, are_told) for own in begun]

    def _is_clear(self: Any, op: TensorCoreOp, begun: Sequence[Operation]) -> bool:
        """Do operations of the first CTA of a cohort access tensor memory without a finding? Then they are recorded."""
        mma, tensor = op.mmas[0], self.tensor
        if op.shifts or isinstance(mma.a, ATmemLayout) or any(cast("Any", own.products[-1]).found for own in begun):
            return False
        each = list(zip(begun, op.members, strict=False))
        if mma.only_adds and all(tensor.adds_again(own, members, mma.d) for own, members in each):
            return True
        if len(each) > 1 or not tensor.passes_op(begun[0], op.members[0], mma.reads, mma.writes):
            return False
        if mma.only_adds:
            tensor.added(begun[0], op.members[0], mma.d)
        return True

    def _multiplied(self: Any, op: TensorCoreOp, n: int, own: Operation, *, is_told: bool) -> None:
        """The reads and writes of the n-th issuer's instruction."""
        mma, members, product = op.mmas[n], op.members[n], cast("Any", own.products[-1])
        if not is_told:
            for member in members:
                for operand in mma.shared_operands:
                    self.op_reads(own, member, read_runs((operand,), member.shared))
        if mma.only_adds and not op.shifts and not product.found and self.tensor.adds_again(own, members, mma.d):
            return
        if isinstance(mma.a, ATmemLayout) and element_format(mma.of.i.a_type).bits < CELL_BITS:
            self.tensor.op_reads_as(own, members, boxes_of(mma.a), mma.of.i.a_type)
        is_doubtful = self.tensor.op_reads(own, members, mma.reads, mma.writes)
        if is_doubtful or product.found or self.tensor.marks is not None:
            product.finish(*product.of_tensor_memory(), goes_on=bool(mma.of.enable_input_d))
        self.tensor.op_writes(own, members, mma.writes)
        if op.shifts and isinstance(mma.a, ATmemLayout):
            self.tensor.op_writes(own, members, boxes_of(mma.a), is_product=False)
        elif mma.only_adds:
            self.tensor.added(own, members, mma.d)
