"""Where doubtful values go (`doubts`): through the registers of threads, and through words of shared and local memory.

Sorts and scans read one element past their tile and throw it away: the comparison with it is masked, a `selp` takes the other value. Triton loads the
product of an iteration that a causal mask leaves out, reduces it, and drops the result. So arithmetic hands the marks on to its result, but for `and`,
`or`, `selp` and `setp` whose other operands settle the result; exchanges hand them on to the warp, stores to the words that they write, matrix
instructions row by row. Everything else is a use: a store to global memory, an address, a branch or a guard, an atomic operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.program.linking.fused import ARITHMETIC
from smemsim.program.linking.inline import mentions, slots_in
from smemsim.program.registers import bits_of
from smemsim.program.registry import Plain
from smemsim.program.watch.bytes import WHOLE, Parts
from smemsim.program.watch.doubts import Doubts
from smemsim.program.wave import WARP
from smemsim.ptx.module import Address, Instruction, Operand, Pair, Register, Vector

if TYPE_CHECKING:
    from smemsim.program.memory.spaces import Piece
    from smemsim.program.watch.watch import Watch
    from smemsim.program.wave import Wave

__all__ = ["WORD", "Unwritten", "Words", "is_followed"]


WORD = 4
MORE = frozenset(
    ("bfe", "bfi", "bfind", "brev", "clz", "cvta", "div", "fused", "lop3", "mad24", "mul24", "popc", "rem", "sad", "shf", "slct")
)
EXCHANGES = frozenset(("match", "movmatrix", "redux", "vote"))
TELLING = frozenset(
    ("ldmatrix", "mma", "shfl", "stmatrix", "tcgen05", "wgmma")
)  # they say themselves where the values go, and so does st.async


def is_followed(i: Instruction) -> bool:
    """Is what an instruction reads from memory followed to where it is used?"""
    if i.op == "cp":  # from shared memory to that of another CTA
        return i.modifiers[:2] == ("async", "bulk") and {"shared::cta", "shared::cluster"} <= set(i.modifiers)
    return i.op in ("ld", "ldmatrix", "wgmma") or (i.op == "tcgen05" and i.modifiers[0] in ("ld", "cp", "mma"))


class Words:
    """The marks of the words of a memory, and of each word the bytes that have its mark.

    >>> words = Words(Doubts(), 2)
    >>> words.put(np.array([4, 6]), 2, np.array([0, 3], np.int32))
    >>> words.of(np.array([4, 6, 4]), 2).tolist(), words.of(np.array([0]), 8).tolist()
    ([[0], [3], [0]], [[0, 3]])
    >>> words.clear(np.array([4]), 4)
    >>> words.marks.tolist()
    [0, 0]
    """

    def __init__(self, doubts: Doubts, words: int) -> None:
        self.doubts = doubts
        self.marks, self.bytes = np.zeros(words, np.int32), np.zeros(words, np.uint8)

    def of(self, flat: np.ndarray, size: int) -> np.ndarray:
        """The marks of accesses of `size` bytes at `flat`: (n, words of one)."""
        if size < WORD:
            at = flat >> 2
            found: np.ndarray = np.where(self.bytes[at] & Parts.bits(flat, size), self.marks[at], 0)
            return found[:, None]
        whole: np.ndarray = self.marks[_words(flat, size)]
        return whole

    def put(self, flat: np.ndarray, size: int, marks: np.ndarray) -> None:
        """Values with these marks (n,) are written."""
        if size >= WORD:
            at = _words(flat, size)
            self.marks[at], self.bytes[at] = marks[:, None], np.where(marks[:, None] != 0, WHOLE, 0)
            return
        self.clear(flat, size)
        some = marks != 0
        at = flat[some] >> 2
        np.bitwise_or.at(self.bytes, at, Parts.bits(flat[some], size))
        self.marks[at] = self.doubts.join(self.marks[at], marks[some])

    def clear(self, flat: np.ndarray, size: int) -> None:
        """Values without a doubt are written."""
        if size >= WORD:
            at = _words(flat, size)
            self.marks[at] = self.bytes[at] = 0
            return
        at = flat >> 2
        np.bitwise_and.at(self.bytes, at, ~Parts.bits(flat, size) & np.uint8(WHOLE))
        self.marks[at[self.bytes[at] == 0]] = 0


def _words(flat: np.ndarray, size: int) -> np.ndarray:
    found: np.ndarray = (flat >> 2)[:, None] + np.arange(size // WORD)
    return found


class Unwritten:
    """Marks of one wave's registers, for every thread, and of the words of its memories."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.total = watch, watch.x.total
        self.doubts = Doubts()
        self.slots = 0  # registers with marks, as a bit set
        self.marks: dict[int, np.ndarray] = {}
        self.shared: Words | None = None  # made when the first doubtful value is stored
        self.local: Words | None = None
        self.read: np.ndarray | None = None  # what the load that runs reads: for every thread a mark for each word of its own
        self.matrix_is_unwritten = False  # has the ldmatrix that runs read words that nobody has written?
        self._pieces: list[Piece] | None = None  # where the store that runs writes

    def concerns(self, slots: int) -> bool:
        """May instructions that name these registers, by their bits, read or get a doubtful value?"""
        return bool(self.slots & slots) or self.local is not None

    # ---- what instructions tell

    def nobody(self, i: Instruction, *, is_whole: bool = False) -> int:
        """The mark of what an instruction reads from shared memory that nobody has written; `is_whole`: nothing of what it makes is without."""
        return self.doubts.of(("shared", i.line), lambda user: self.watch.unwritten_is_used(i.line, user), is_whole=is_whole)

    def loads(self, threads: np.ndarray, marks: np.ndarray) -> None:
        """Threads (n,) load words with these marks (n, of each)."""
        if self.read is None:
            self.read = np.zeros((self.total, marks.shape[1]), np.int32)
        self.read[threads] = self.doubts.join(self.read[threads], marks)

    def writes(self, piece: Piece, size: int) -> None:
        """Threads write `size` bytes each to a piece of some memory."""
        if self._pieces is not None:
            self._pieces.append(piece)
        elif self.local is not None and piece.space == "local":
            self.local.clear(piece.at, size)

    def of_registers(self, operands: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The marks of registers (registers, threads); None where there are none."""
        marks = [self._of(operand, threads) for operand in operands]
        if all(m is None for m in marks):
            return None
        return np.stack([np.zeros(len(threads), np.int32) if m is None else m for m in marks])

    def put_registers(self, operands: Sequence[Operand], threads: np.ndarray, marks: Any) -> None:
        """Registers have got values with these marks (registers, threads), or without any (0)."""
        for n, operand in enumerate(operands):
            if isinstance(operand, Register):
                self._mark(operand.slot, threads, marks if np.ndim(marks) == 0 else marks[n])

    def concerns_matrices(self) -> bool:
        """May registers that matrices have just been loaded into get marks, or lose some?"""
        read, self.matrix_is_unwritten = self.matrix_is_unwritten, False
        return read or bool(self.slots) or self.shared is not None

    def shuffled(self, i: Instruction, threads: np.ndarray, sources: np.ndarray) -> None:
        """Threads (n,) get the value that `sources` (n,) have."""
        result, value = i.operands[:2]
        marks = self._of(value, np.arange(self.total))
        first, *others = (result.first, result.second) if isinstance(result, Pair) else (result,)
        self.put_registers([first], threads, 0 if marks is None else marks[sources][None])
        self.put_registers(others, threads, 0)

    def of_warps(self, marks: list[np.ndarray], threads: np.ndarray) -> np.ndarray:
        """The marks that each thread gets which may get any of these from any other of its warp."""
        of_threads = np.zeros(self.total, np.int32)
        of_threads[threads] = self._joined(marks)
        found: np.ndarray = self.doubts.all(of_threads.reshape(-1, WARP), axis=1).repeat(WARP)[threads]
        return found

    def of_words(self, i: Instruction, words: np.ndarray) -> np.ndarray:
        """The marks of words of shared memory, by their place, that an instruction reads; those that nobody has written have the instruction's own."""
        found: np.ndarray = np.where(self.watch.nobody_wrote(words), self.nobody(i), np.zeros(words.shape, np.int32)).astype(np.int32)
        return found if self.shared is None else self.doubts.join(found, self.shared.marks[words])

    def put_stored(self, flat: np.ndarray, size: int, marks: np.ndarray) -> None:
        """Values of `size` bytes with these marks (n,) are stored at places of shared memory."""
        self._shared().put(flat, size, marks)

    def put_words(self, words: np.ndarray, marks: np.ndarray) -> None:
        """Words of shared memory, by their place, have got values with these marks."""
        if self.shared is not None or marks.any():
            self.put_stored(words * WORD, WORD, marks)

    def put_bytes(self, places: np.ndarray, marks: np.ndarray) -> None:
        """Words of registers with these marks are stored, each to four bytes of shared memory: (..., 4) and (...)."""
        flat = places.reshape(-1)
        self._shared().put(flat, 1, np.repeat(marks.reshape(-1), places.shape[-1]))

    # ---- instructions of threads

    def run(self, x: Wave, i: Instruction, step: Plain) -> None:
        """Execute a step, and what it does to the marks."""
        if not self.slots:
            step(x)
            if self.read is not None:
                self._loaded(i, np.flatnonzero(self.read.any(axis=1)))
            return
        threads = self._active(x, i)
        if i.op in TELLING or (i.op == "st" and i.modifiers[0] == "async" and "global" not in i.modifiers):
            self._operands_used(i, threads)
            step(x)
        elif i.op == "st" and i.modifiers[0] not in ("async", "bulk"):
            self._store(x, i, step, threads)
        else:
            results, sources = _registers(i)
            found = self._handed_on(x, i, sources, threads)
            step(x)
            for slot in results:
                self._mark(slot, threads, found)
        if self.read is not None:
            self._loaded(i, threads)

    # ---- inside

    def _loaded(self, i: Instruction, threads: np.ndarray) -> None:
        """Registers have got what `read` says."""
        read, self.read = self.read, None
        if read is None:
            return
        items = _items(i.operands[0])
        each = read.shape[1]
        for n, item in enumerate(items):
            first, end = n * each // len(items), -(-(n + 1) * each // len(items))
            if isinstance(item, Register):
                self._mark(item.slot, threads, self.doubts.all(read[threads, first:end], axis=1))

    def _store(self, x: Wave, i: Instruction, step: Plain, threads: np.ndarray) -> None:
        """A store hands on the marks to words of shared and local memory; to global memory it is a use."""
        self._operands_used(i, threads)
        items = _items(i.operands[1])
        marks = self.of_registers(items, threads)
        if marks is None:
            step(x)
            return
        self._pieces = []
        try:
            step(x)
            pieces = self._pieces
        finally:
            self._pieces = None
        size = bits_of(i.modifiers[-1]) // 8
        for piece in pieces:
            own = marks if piece.part is None else marks[:, piece.part]
            if piece.space == "global":
                self.doubts.tell(i, own)
                continue
            memory = self._shared() if piece.space == "shared" else self._local()
            for n, values in enumerate(own):
                memory.put(piece.at + n * size, size, values)

    def _shared(self) -> Words:
        if self.shared is None:
            self.shared = Words(self.doubts, len(self.watch.who))
        return self.shared

    def _local(self) -> Words:
        if self.local is None:
            self.local = Words(self.doubts, -(-self.watch.x.local.size // WORD))
        return self.local

    def _active(self, x: Wave, i: Instruction) -> np.ndarray:
        """The threads that execute an instruction; a guard with a mark is used."""
        threads = x.threads
        if i.guard is None:
            return threads
        marks = self._of(i.guard, threads)
        if marks is not None:
            self.doubts.tell(i, marks)
        active: np.ndarray = threads[_value(x, i.guard, threads)]
        return active

    def _operands_used(self, i: Instruction, threads: np.ndarray) -> None:
        """Addresses, descriptors and predicates are used: all but the values that are followed."""
        for n, operand in enumerate(i.operands):
            if not _is_value(i, n, operand):
                for slot in slots_in(operand):
                    marks = self._of(Register(slot, "", ""), threads)
                    if marks is not None:
                        self.doubts.tell(i, marks)

    def _handed_on(self, x: Wave, i: Instruction, sources: list[Operand], threads: np.ndarray) -> Any:
        """The marks of an instruction's results; those of other instructions are used."""
        marks = [self._of(source, threads) for source in sources]
        known = [m for m in marks if m is not None]
        if not known:
            return 0
        if i.op in EXCHANGES:
            return self.of_warps(known, threads)
        if i.op not in ARITHMETIC and i.op not in MORE:
            for m in known:
                self.doubts.tell(i, m)
            return 0
        found = self._joined(known)
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

    def _joined(self, marks: list[np.ndarray]) -> np.ndarray:
        found = marks[0]
        for more in marks[1:]:
            found = self.doubts.join(found, more)
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


def _items(operand: Operand) -> Sequence[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _is_value(i: Instruction, n: int, operand: Operand) -> bool:
    """Is an operand a value that is stored, multiplied or a result, and not what decides where or how?"""
    if i.op == "wgmma":
        return n == 0 or (n == 1 and isinstance(operand, Vector))
    if i.op == "tcgen05":
        return i.modifiers[0] in ("ld", "st") and not isinstance(operand, Address)
    return n in {"ldmatrix": (0,), "mma": (0, 1, 2, 3), "shfl": (0, 1), "st": (1,), "stmatrix": (1,)}[i.op]


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
