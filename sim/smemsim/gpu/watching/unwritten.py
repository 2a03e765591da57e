"""Registers with values that nobody has written: a load of shared or tensor memory that nobody has written is wrong once its value is used.

Sorts and scans read one element past their tile and throw it away: the comparison with it is masked, a `selp` takes the other value. Triton loads the
product of an iteration that a causal mask leaves out, reduces it, and drops the result. So arithmetic hands the mark on to its result, but for `and`,
`or`, `selp` and `setp` whose other operands settle the result, and exchanges hand it on to the warp; everything else is a use: a store, an address, a
branch or a guard, a matrix instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.linking.fused import ARITHMETIC
from smemsim.gpu.linking.mentions import mentions
from smemsim.gpu.registry import Plain
from smemsim.gpu.wave import WARP
from smemsim.ptx.module import Instruction, Operand, Register, Vector

if TYPE_CHECKING:
    from smemsim.gpu.watching.watch import Watch
    from smemsim.gpu.wave import Wave

__all__ = ["Unwritten", "loads_values"]

MORE = frozenset(
    ("bfe", "bfi", "bfind", "brev", "clz", "cvta", "div", "fused", "lop3", "mad24", "mul24", "popc", "rem", "sad", "shf", "slct")
)
EXCHANGES = frozenset(("match", "redux", "shfl", "vote"))


def loads_values(i: Instruction) -> bool:
    """Does it load values into registers that can be followed?"""
    return i.op == "ld" or (i.op == "tcgen05" and i.modifiers[0] == "ld")


class Unwritten:
    """Marks of one wave's registers: for every thread the line of the load that brought what nobody had written, 0 where there is none."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.total = watch, watch.x.total
        self.slots = 0  # registers with marks, as a bit set
        self.marks: dict[int, np.ndarray] = {}
        self.read: np.ndarray | None = None  # what the load that runs reads: for every thread a mark for each word of its own

    def loads(self, i: Instruction, threads: np.ndarray, nobody: np.ndarray) -> None:
        """Threads (n,) read words (n, of each) that `nobody` has written."""
        if self.read is None:
            self.read = np.zeros((self.total, nobody.shape[1]), np.int32)
        self.read[threads] = np.where(nobody, i.line, 0)

    def run(self, x: Wave, i: Instruction, step: Plain) -> None:
        """Execute a step, and what it does to the marks."""
        if not self.slots:
            step(x)
            if self.read is None:
                return
            threads = np.flatnonzero(self.read.any(axis=1))
        else:
            threads = self._active(x, i)
            results, sources = _registers(i)
            found = self._handed_on(x, i, sources, threads)
            step(x)
            for slot in results:
                self._mark(slot, threads, found)
        if self.read is not None:
            target = i.operands[0]
            items = target.items if isinstance(target, Vector) else (target,)
            each = self.read.shape[1]
            for n, item in enumerate(items):
                first, end = n * each // len(items), -(-(n + 1) * each // len(items))
                if isinstance(item, Register):
                    self._mark(item.slot, threads, self.read[threads, first:end].max(axis=1))
            self.read = None

    # ---- inside

    def _active(self, x: Wave, i: Instruction) -> np.ndarray:
        """The threads that execute an instruction; a guard with a mark is used."""
        threads = x.threads
        if i.guard is None:
            return threads
        marks = self._of(i.guard, threads)
        if marks is not None:
            self._tell(i, marks)
        active: np.ndarray = threads[_value(x, i.guard, threads)]
        return active

    def _handed_on(self, x: Wave, i: Instruction, sources: list[Operand], threads: np.ndarray) -> Any:
        """The marks of an instruction's results; those of other instructions are used."""
        marks = [self._of(source, threads) for source in sources]
        known = [m for m in marks if m is not None]
        if not known:
            return 0
        if i.op in EXCHANGES:
            of_threads = np.zeros(self.total, np.int32)
            of_threads[threads] = np.maximum.reduce(known)
            return of_threads.reshape(-1, WARP).max(1).repeat(WARP)[threads]
        if i.op not in ARITHMETIC and i.op not in MORE:
            for m in known:
                self._tell(i, m)
            return 0
        found = np.maximum.reduce(known)
        if i.op == "selp" and marks[2] is None:
            zero = np.zeros(len(threads), np.int32)
            either = [zero if m is None else m for m in marks[:2]]
            return np.where(_value(x, sources[2], threads), *either)
        logic = i.op if i.op in ("and", "or") else next((m for m in i.modifiers if m in ("and", "or")), "") if i.op == "setp" else ""
        settling = (sources if i.op in ("and", "or") else sources[2:]) if logic else []
        for source, mark in zip(settling, marks[len(sources) - len(settling) :], strict=True):
            if mark is None and isinstance(source, Register) and source.type == "pred":
                found = np.where(_value(x, source, threads) == (logic == "or"), 0, found)
        return found

    def _of(self, operand: Operand, threads: np.ndarray) -> np.ndarray | None:
        """The marks of an operand of these threads, None where it has none."""
        if not isinstance(operand, Register) or not self.slots >> operand.slot & 1:
            return None
        marks: np.ndarray = self.marks[operand.slot][threads]
        return marks if marks.any() else None

    def _mark(self, slot: int, threads: np.ndarray, found: Any) -> None:
        if slot not in self.marks:
            if not np.any(found):
                return
            self.marks[slot] = np.zeros(self.total, np.int32)
        self.marks[slot][threads] = found
        if self.marks[slot].any():
            self.slots |= 1 << slot
        else:
            del self.marks[slot]
            self.slots &= ~(1 << slot)

    def _tell(self, user: Instruction, marks: np.ndarray) -> None:
        for line in np.unique(marks[marks != 0]).tolist():
            self.watch.unwritten_is_used(line, user)


def _registers(i: Instruction) -> tuple[list[int], list[Operand]]:
    """The registers that an instruction gives a value, and what it reads."""
    results = [slot for slot, is_result in mentions(i) if is_result]
    if i.op in ("and", "or", "selp", "setp"):  # of which it matters which operand is which
        return results, list(i.operands[1:])
    flat = {slot for slot, is_result in mentions(i) if not is_result}
    if i.guard is not None:
        flat.discard(i.guard.slot)
    return results, [Register(slot, "", "") for slot in sorted(flat)]


def _value(x: Wave, operand: Operand, threads: np.ndarray) -> np.ndarray:
    """The values of a predicate."""
    if not isinstance(operand, Register):
        return np.ones(len(threads), bool)
    values: np.ndarray = x.r[operand.slot][threads] ^ operand.negated
    return values
