"""Taint: marks of values that may be wrong, because they were read too early or are uninitialised. The marks follow the
value to its use.

A kernel may read values that it discards: the rows below a ragged tile, the lanes without a product, the element past
the end of a row. So a bad read only taints its value, and the finding is reported at a use. Uses are: an address, a
branch that does more than choose between values, a guard, a store to global memory. Moving, converting, multiplying,
and storing to shared or tensor memory are not uses: the result is tainted instead. In D of a matrix instruction a row
has the taint of its row of A, and a column that of its row of B. The PTX ISA has no chapter about this. It leaves the
value, and everything that depends on it, undefined (5.1, 9.7.9: state spaces are not initialised).

Marks are defined in `origins.py`. Values in global memory are followed by `stored.py`, rows of operands by
`overwrites.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import Half
from smemsim.core.machine.padding import pitches, widths
from smemsim.core.ptx.module import Address, Immediate, Instruction, Operand, Pair, Register, Vector, slots_in
from smemsim.core.ptx.origins import origin
from smemsim.core.spec.findings import Severity
from smemsim.run.following import WHOLE, Tell
from smemsim.run.lower.cfg import blank_registers
from smemsim.run.lower.dataflow import accumulations, bit_fields, choices, givers_of
from smemsim.run.lower.fused import COMPUTING
from smemsim.run.lower.sums import ELEMENT, Terms, sums
from smemsim.run.register_types import bits_of
from smemsim.run.sanitizer.byte_masks import Parts
from smemsim.run.sanitizer.flat_copies import FlatCopies
from smemsim.run.sanitizer.origins import WORD, Origins, Words, widened, words_of
from smemsim.run.sanitizer.overwrites import Overwrites
from smemsim.run.sanitizer.settled_bytes import (
    TABLES,
    are_bytes_cut,
    changing,
    is_compared,
    is_highest_known,
    parts_of,
    parts_of_video,
    picked_bits,
    spread,
    trailing_zeros,
    value_of,
)
from smemsim.run.sanitizer.stored import StoredValues
from smemsim.run.sanitizer.uninitialised import register_without_value, uninitialised, uses
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece
    from smemsim.run.views import Wave

__all__ = ["Taint", "is_followed", "is_result"]


# ---- The path of tainted values: through the registers of threads, and through words of shared and local memory.
# Sorts and scans read one element past their tile and discard it: the comparison is masked, a `selp` takes the other
# value. Triton loads the product of an iteration that a causal mask leaves out, reduces it, and drops the result. So
# arithmetic passes the marks on to its result, except `and`, `or`, `selp` and `setp` whose other operands decide the
# result. Exchanges pass them on to the warp, stores to the words that they write, matrix instructions row by row.
# Everything else is a use: a store to global memory, an address, a branch or a guard, an atomic operation.


EXCHANGES = frozenset(("match", "movmatrix", "redux", "vote"))
PACKED = frozenset(("bf16x2", "f16x2", "f32x2", "s16x2", "u16x2"))
# types of two values, each in one half of the register
PAIRS = PACKED | {"e2m3x2", "e3m2x2", "e4m3x2", "e5m2x2", "ue8m0x2"}
INTEGERS = frozenset(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64))
# of packed types
BY_HALVES = frozenset(("abs", "add", "ex2", "fma", "fused", "max", "min", "mul", "neg", "sub", "tanh"))
# whose bytes of a result come of the same bytes of what they read
BITWISE = frozenset(("and", "lop3", "not", "or", "xor"))
CHOOSING = {
    "bfe": 2,
    "bfi": 2,
    "prmt": 1,
    "shf": 1,
    "shl": 1,
    "shr": 1,
}  # that take bits of a register: how many of their last operands are bit numbers
# atomic operations whose result in memory is made of all values that threads give
ADDING = frozenset(("add", "and", "max", "min", "or", "xor"))
RESULTS = frozenset(("bra", "mma", "selp", "tcgen05", "wgmma", "wmma"))
MOVING = BITWISE | frozenset(CHOOSING) | {"mov", "selp"}  # that make values of bits of others, and compute nothing
# of integers: a byte of a result comes of the same and lower bytes of what they read
UPWARD = frozenset(("add", "mad", "mul", "sub"))
PRODUCTS = frozenset(("fma", "fused", "mad", "mul"))
FLOATS = frozenset(("bf16", "f16", "f32", "f64"))
INFINITY = {"bf16": 0x7F80, "f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF0000000000000}  # its bits
MOST_BYTES = 8  # of a register whose parts have marks; more parts than that are its bits
MOST_STRUCTURE = 16  # bytes of a row that a load reads at once
TELLING = frozenset(
    ("clusterlaunchcontrol", "ldmatrix", "mma", "shfl", "stmatrix", "tcgen05", "wgmma", "wmma")
)  # they say themselves where the values go, and so does st.async
METADATA = {"mma": 4, "wgmma": 3}  # which operand a sparse instruction's metadata is


def is_followed(i: Instruction) -> bool:
    """Is what an instruction reads from memory followed to where it is used?"""
    if i.op == "cp":  # from shared memory to that of another CTA
        return i.modifiers[:2] == ("async", "bulk") and {"shared::cta", "shared::cluster"} <= set(i.modifiers)
    if i.op == "atom":  # a value computed from an uninitialised one is uninitialised, too
        return "exch" in i.modifiers
    return i.op in ("ld", "ldmatrix", "wgmma", "wmma", "red") or (i.op == "tcgen05" and i.modifiers[0] in ("ld", "cp", "mma"))


def _adds_up(i: Instruction) -> bool:
    """Does an atomic operation make the word in memory of what is there and of what threads give?"""
    return i.op in ("atom", "red") and not ADDING.isdisjoint(i.modifiers) and "async" not in i.modifiers


def _by_bytes(marks: np.ndarray, size: int) -> np.ndarray:
    """The marks (n, bytes) of accesses of `size` bytes, from those of their bytes or words."""
    return marks if marks.shape[1] == size else marks.repeat(size // marks.shape[1], axis=1)


def _bytes_of(bits: np.ndarray, flat: np.ndarray, size: int) -> np.ndarray:
    """Which bytes of accesses of `size` bytes at `flat` are set in the bits of their words (n, words): (n, bytes)."""
    first = (flat & WORD - 1)[:, None] if size < WORD else 0
    places = np.asarray(first + np.arange(size) % WORD, np.uint8)
    found: np.ndarray = (bits.repeat(min(size, WORD), axis=1) >> places & 1) != 0
    return found


def _joined_if_alike(parts: np.ndarray) -> np.ndarray:
    """Marks of parts (parts, n): a single row if all rows are the same, and those of bytes if the bits of each byte
    have the same.
    """
    if (parts == parts[:1]).all():
        return parts[:1]
    if len(parts) < MOST_BYTES * 2:
        return parts
    bytes_ = parts.reshape(-1, 8, parts.shape[1])
    return bytes_[:, 0] if (bytes_ == bytes_[:, :1]).all() else parts


def is_result(by: Instruction | None) -> bool:
    """Is what an instruction has computed with a value more than the value itself: a matrix product, or one of two
    other values that it decides between? Padding is converted and scaled, and nothing else.
    """
    return by is not None and by.op in RESULTS


def _cancels(i: Instruction, sources: Sequence[Operand]) -> bool:
    """Is the result 0 whatever the register holds that both sources are?"""
    first, second = sources if len(sources) == 2 else (None, None)
    of_one = isinstance(first, Register) and isinstance(second, Register) and first.slot == second.slot
    return of_one and (i.op == "xor" or (i.op == "sub" and INTEGERS.issuperset(i.modifiers)))


class Taint:
    """Marks of one wave's registers, for every thread, and of the words of its memories; what they stand for is in
    `doubts`.
    """

    def __init__(self, x: Wave, blank: Callable[[np.ndarray], np.ndarray], is_used: Callable[..., None]) -> None:
        self.x, self.total, self.words = x, x.total, len(x.shared) // WORD
        self.blank = blank  # which bytes of words of shared memory, by their places, are uninitialised: a bit for each
        self.is_used = is_used  # an instruction uses what a line read from shared memory before it was written
        self.origins = Origins()
        self.stored_values = StoredValues(x, self.origins, weakref.WeakMethod(self._report_stored))
        self.overwrites = Overwrites()
        self.slots = 0  # registers with marks, as a bit set
        self.marks: dict[int, np.ndarray] = {}
        self.parts: dict[
            int, np.ndarray
            # of registers whose halves or bytes have marks of their own, (parts, threads): `marks` has what they make
        ] = {}
        self.shared: Words | None = None  # made when the first doubtful value is stored
        self.local: Words | None = None
        # what the load that runs reads: for every thread a mark for each word of its own
        self.read: np.ndarray | None = None
        self.is_stored = False  # is the present report only about a store to global memory?
        self.is_voted = False  # does the present report come from a vote in which other lanes had a value (`_voted`)?
        self.is_masked = False  # is it about a value that is multiplied by 0?
        self.matrix_is_unwritten = False  # has the running ldmatrix read uninitialised words?
        self._pieces: list[Piece] | None = None  # the destination of the running store
        # by CTA: which bytes of its words were uninitialised, and the pitch of the rows of those that are padding
        self._known_pitches: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.given: np.ndarray | None = None  # which threads give values with marks to the running sum in memory
        self.copies = FlatCopies(x)
        for slot in blank_registers(x.program):
            self._mark(slot, np.arange(self.total), self.origins.of(("register", slot), functools.partial(self._is_blank, slot)))

    def _is_blank(self, slot: int, user: Instruction | None) -> None:
        """R507: a thread uses a value that comes from a register to which it has given none."""
        register = self.x.program.inlined.registers[slot].name
        blank = blank_registers(self.x.program)[slot]
        said = register_without_value(register, blank.reader, blank.givers, user, self._lane_without_value(slot, user))
        self.x.launch.find(
            said.code, user or blank.reader, said.what, f"give {register} a value first, such as 0",
            because="PTX ISA 9.1 §5.1: registers are not initialised", halves=said.halves,
        )  # fmt: skip

    def _lane_without_value(self, slot: int, user: Instruction | None) -> str:
        """The first thread of those running that has given a register no value, and uses what comes of it; "" if no
        thread is known.
        """
        threads = self.x.threads
        if user is None:
            return ""
        if user.guard is not None and self._of(user.guard, threads) is None:
            threads = threads[_value(self.x, user.guard, threads)]
        (number,) = self.origins.numbers(self.origins.known(("register", slot)))
        uses = np.any([self._have(Register(used, "", ""), threads, number) for used in sorted(user.used)], axis=0)
        own = uses & self._have(Register(slot, "", ""), threads, number)
        if not own.any() and uses.any() and self._stays_in_thread(user, slot):  # the register has another value by now
            own = uses
        return self._lane(int(threads[own][0])) if own.any() else ""

    def _stays_in_thread(self, user: Instruction, slot: int) -> bool:
        """Do the values that an instruction uses come from a register by arithmetic alone? Then no other thread has
        given one.
        """
        givers, seen = givers_of(self.x.program), {slot}
        pending = [used for used in user.used if self.slots >> used & 1]
        while pending:
            used = pending.pop()
            if used not in seen:
                seen.add(used)
                if any(by.op not in COMPUTING for by in givers.get(used, ())):
                    return False
                pending += [other for by in givers.get(used, ()) for other in by.used]
        return True

    def _lane(self, thread: int) -> str:
        """A thread of the wave by its lane, its warp in its CTA and, if there are several, its CTA."""
        cta, own = divmod(thread, self.x.stride)
        of = f" of CTA {self.x.ctas[cta].number}" if self.x.launch.ctas > 1 else ""
        return f"lane {own % WARP} of warp {own // WARP}{of}"

    def _have(self, operand: Operand, threads: np.ndarray, number: int) -> np.ndarray:
        """Which threads' values of an operand have this doubt?"""
        marks = self._part(operand, threads)
        has = {mark: number in self.origins.numbers(mark) for mark in distinct(marks).tolist()}
        return np.array([has[mark] for mark in marks.tolist()], bool)

    def concerns(self, slots: int) -> bool:
        """May instructions that name these registers, by their bits, read or get a doubtful value?"""
        return bool(self.slots & slots) or self.local is not None

    # ---- what instructions tell

    def nobody(self, i: Instruction, *, is_whole: bool = False) -> int:
        """The mark of an instruction that reads uninitialised shared memory. `is_whole`: its whole
        result is affected.
        """
        return self.origins.of(("shared", i.site), lambda user: self.is_used(i.site, user, is_voted=self.is_voted), is_whole=is_whole)

    def padding(self, i: Instruction) -> int:
        """The mark of uninitialised bytes of shared memory next to written bytes of the same element. Compilers copy
        the padding of structures.
        """
        return self.origins.of(
            ("shared padding", i.site), lambda user: self.is_used(i.site, user, is_copied=self.is_stored, is_voted=self.is_voted),
            computed=lambda by: lambda user: self.is_used(i.site, user, is_voted=self.is_voted),
        )  # fmt: skip

    def loads(self, threads: np.ndarray, marks: np.ndarray, size: int) -> None:
        """Threads (n,) load `size` bytes with these marks, of each byte or of each word: (n, bytes) or (n, words)."""
        marks = _by_bytes(marks, size)
        if size > WORD and size % WORD:  # of a ragged cp.async, whose last word has zeros after them
            marks, size = np.pad(marks, ((0, 0), (0, -size % WORD))), size + -size % WORD
        if self.read is None:
            self.read = np.zeros((self.total, size), np.int32)
        elif self.read.shape[1] < size:  # of cp.async, threads that copy less
            self.read = np.pad(self.read, ((0, 0), (0, size - self.read.shape[1])))
        marks = np.pad(marks, ((0, 0), (0, self.read.shape[1] - size)))
        self.read[threads] = self.origins.join(self.read[threads], marks)

    def taken(self) -> np.ndarray | None:
        """The values that threads have just loaded and that an instruction passes on: the marks of the bytes of every
        thread; None if nothing is tainted.
        """
        read, self.read = self.read, None
        return read

    def copied(self, threads: np.ndarray, flat: np.ndarray) -> None:
        """Values that threads have just loaded go to places of shared memory (cp.async)."""
        read, self.read = self.read, None
        if read is not None and (self.shared is not None or read.any()):
            self.put_stored(flat, read.shape[1], read[threads])

    def writes(self, piece: Piece, size: int) -> None:
        """Threads write `size` bytes each to a piece of some memory."""
        if piece.space == "local":
            if size >= WORD:
                self.is_written[words_of(piece.at, size)] = WHOLE
            else:
                np.bitwise_or.at(self.is_written, piece.at >> 2, Parts.bits(piece.at, size))
        if self._pieces is not None:
            self._pieces.append(piece)
        elif self.local is not None and piece.space == "local":
            self.local.clear(piece.at, size)

    @functools.cached_property
    def is_written(self) -> np.ndarray:
        """Which bytes of each word of local memory have been written, as bits."""
        return np.zeros(self.x.memories.local.size // WORD, np.uint8)

    def stack_grew(self) -> None:
        """Every thread has more local memory than it had."""
        room = self.x.memories.local.shape[1] // WORD
        self.is_written = widened(self.is_written, self.total, room)
        if self.local is not None:
            self.local.widen(self.total, room)

    def reads_local(self, i: Instruction, piece: Piece, size: int) -> None:
        """Threads load `size` bytes each of a piece of local memory: bytes that they have not written are in doubt."""
        marks = None if self.local is None else _by_bytes(self.local.of(piece.at, size), size)
        if i.op == "ld" and "param" not in i.modifiers[0]:
            blank = _bytes_of(~self.is_written[words_of(piece.at, max(size, WORD))], piece.at, size)
            if blank.any():
                mark = self.origins.of(
                    ("local", i.site), functools.partial(self._say_local, i), computed=self._computed_local(i), only_results=True
                )
                padding = self.origins.of(
                    ("local padding", i.site), functools.partial(self._say_local, i, is_padding=True), computed=self._computed_local(i)
                )
                own = np.where(blank.all(axis=1, keepdims=True), np.int32(mark), np.int32(padding))
                marks = np.where(blank, own, 0 if marks is None else marks)
        if marks is not None:
            self.loads(self.x.threads if piece.part is None else self.x.threads[piece.part], marks, size)

    def _computed_local(self, i: Instruction) -> Callable[[Instruction], Tell]:
        return lambda by: functools.partial(self._say_local, i, by=by)

    def _say_local(self, i: Instruction, user: Instruction | None, *, is_padding: bool = False, by: Instruction | None = None) -> None:
        """R507: a thread uses a word of its local memory that it has not written. A remark if it only copies the word,
        unless it is a result (`by`). Padding next to written bytes may be copied.
        """
        is_made = is_result(by) if is_padding else by is not None
        is_copied = self.is_stored and (self.is_masked or not (id(user) in accumulations(self.x.launch.program) or is_made))
        if is_copied and is_padding:
            return
        said, milder = uninitialised("a variable in local memory", i, user, by, is_copied=is_copied, is_voted=self.is_voted)
        self.x.launch.find(
            said.code, i, said.what, "give each element of the array a value before it is read: T a[N] = {}",
            because="PTX ISA 9.1 §5.1.6: local memory is not initialised", milder=milder, why=said.why, halves=said.halves,
        )  # fmt: skip

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

    def shuffled(self, i: Instruction, threads: np.ndarray, sources: np.ndarray, undefined: np.ndarray | None = None) -> None:
        """Threads (n,) get the value of `sources` (n,). `undefined`: those that get none (rule order.shuffles), which
        is reported at a use.
        """
        result, value = i.operands[:2]
        parts = _joined_if_alike(self._parts_of(value, np.arange(self.total), self._count(value)))[:, sources]
        if undefined is not None:
            n = int(np.argmax(undefined))
            tell = functools.partial(self._took_no_part, i, int(threads[n]), int(sources[n]))
            parts = np.where(undefined, np.int32(self.origins.of(("shuffle", i.site), tell)), parts)
        first, *others = (result.first, result.second) if isinstance(result, Pair) else (result,)
        if isinstance(first, Register):
            self._mark_parts(first.slot, threads, parts)
        self.put_registers(others, threads, 0)

    def _took_no_part(self, i: Instruction, thread: int, source: int, user: Instruction | None) -> None:
        """X011: a value is used that a lane has got by a shuffle from one that gave none."""
        of = source % WARP
        self.x.launch.find(
            "X011", i, f"{self._lane(thread)} gets an undefined value from lane {of}",
            "let every lane that others read execute the instruction, and name it in the mask; or use the value only if its lane took part",
            because="PTX ISA 9.1 §9.7.9.6 (shfl.sync)", milder=Severity.WRONG, why=f"lane {of} takes no part, or is not in the member mask",
            halves=(Half("read", i.name, i), *uses(user)),
        )  # fmt: skip

    def answered(self, i: Instruction, threads: np.ndarray, declined: np.ndarray) -> None:
        """Threads (n,) decode a response. The ctaid of a `declined` request is undefined, which is reported at a use:
        compilers decode before they test. A response with uninitialised bytes is no answer: they are reported (R507).
        """
        blank = self._of(i.operands[1], threads)
        if blank is not None and len(threads):
            declined = declined & ~(blank != 0).reshape(-1, len(threads)).any(axis=0)
        marks: np.ndarray = np.zeros(len(threads), np.int32)
        if "get_first_ctaid" in i.modifiers[1] and declined.any():
            marks = np.where(declined, np.int32(self.origins.of(("answer", i.site), functools.partial(self._was_declined, i))), marks)
        for operand in _items(i.operands[0]):
            if isinstance(operand, Register):
                self._mark(operand.slot, threads, marks)

    def _was_declined(self, i: Instruction, user: Instruction | None) -> None:
        """X020: a value is used that was decoded as the first CTA of a cluster which no request has canceled."""
        self.x.launch.find(
            "X020", i, "the ctaid of a declined request is used", "use it only if query_cancel.is_canceled of this response is true; if not, stop requesting",
            because="PTX ISA 9.1 §9.7.13.18", why="the request got no cluster: query_cancel.is_canceled of the response is false, and get_first_ctaid is undefined",
            halves=(Half("read", i.name, i), *uses(user)),
        )  # fmt: skip

    def of_warps(self, marks: list[np.ndarray], threads: np.ndarray) -> np.ndarray:
        """The marks that each thread gets which may get any of these from any other of its warp."""
        of_threads = np.zeros(self.total, np.int32)
        of_threads[threads] = self._joined(marks)
        found: np.ndarray = self.origins.all(of_threads.reshape(-1, WARP), axis=1).repeat(WARP)[threads]
        return found

    def of_words(self, i: Instruction, words: np.ndarray) -> np.ndarray:
        """The marks of the bytes of words of shared memory, (..., 4), that an instruction reads; uninitialised bytes
        have the mark of the instruction. The last axis of `words` has those of one access.
        """
        bits = self.blank(words)[..., None]
        found = np.zeros((*words.shape, WORD), np.int32) if self.shared is None else self.shared.marks[words]
        if bits.any():
            nobody = (
                self._of_gaps(i, self._pitches(words), words.shape[-1] * WORD) if i.op == "ld" else np.full(1, self.nobody(i), np.int32)
            )
            own = np.where(bits == WHOLE, nobody, np.int32(self.padding(i)))
            found = np.where(bits >> np.arange(WORD, dtype=np.uint8) & 1, own, found)
        return found

    def _of_gaps(self, i: Instruction, pitch: np.ndarray, size: int) -> np.ndarray:
        """The marks of uninitialised bytes that a load of `size` bytes reads, by the pitch of the rows in whose gaps
        they lie, 0 of others. If it reads whole rows at once, they are structures with padding.
        """
        nobody = np.full(1, self.nobody(i), np.int32)
        own = np.where(pitch > 0, self.origins.apart(nobody, "gap"), nobody)
        is_structure = (pitch > 0) & (pitch <= min(size, MOST_STRUCTURE)) & (size % np.maximum(pitch, 1) == 0)
        return np.where(is_structure, np.int32(self.padding(i)), own) if is_structure.any() else own

    def gaps(self, words: np.ndarray) -> np.ndarray:
        """Which bytes of words of shared memory, (..., 4), are the padding of rows?"""
        found: np.ndarray = self._pitches(words) > 0
        return found

    def _pitches(self, words: np.ndarray) -> np.ndarray:
        """The pitch of rows, for each byte of words of shared memory, (..., 4), that is their padding; else 0."""
        per_cta = self.x.pitch // WORD
        found = np.zeros((*words.shape, WORD), np.int64)
        for cta in distinct(words // per_cta).tolist():
            own = words // per_cta == cta
            found[own] = self._pitches_of(cta)[words[own] % per_cta]
        return found

    def _pitches_of(self, cta: int) -> np.ndarray:
        """The same of all words of a CTA, (words, 4). It is known until other bytes are uninitialised."""
        per_cta = self.x.pitch // WORD
        bits = self.blank(np.arange(cta * per_cta, (cta + 1) * per_cta))
        known = self._known_pitches.get(cta)
        if known is None or not np.array_equal(known[0], bits):
            at = np.flatnonzero(np.unpackbits(bits[:, None], axis=1, count=WORD, bitorder="little"))
            of_bytes = np.zeros(per_cta * WORD, np.int64)
            of_bytes[at] = pitches(at, self._widths)
            known = self._known_pitches[cta] = bits, of_bytes.reshape(-1, WORD)
        return known[1]

    @functools.cached_property
    def _widths(self) -> np.ndarray:
        """The arguments of the kernel that may be numbers of columns."""
        memory = self.x.launch.memory
        return widths(self.x.launch.parameters, lambda value: memory.holding(value, value + 1) is not None)

    def of_access(self, i: Instruction, flat: np.ndarray, size: int) -> np.ndarray:
        """The same of accesses of `size` bytes at places of shared memory: (n, bytes)."""
        if i.op == "ld":
            self.copies.loads(i, flat)
        if size >= WORD:
            return self.of_words(i, words_of(flat, size)).reshape(len(flat), size)
        bits = self.blank(flat >> 2)
        found = np.zeros((len(flat), size), np.int32) if self.shared is None else _by_bytes(self.shared.of(flat, size), size)
        blank = _bytes_of(bits[:, None], flat, size)
        if blank.any():
            nobody = np.full(blank.shape, self.nobody(i), np.int32)
            if i.op == "ld":
                pitch = np.take_along_axis(self._pitches(flat >> 2), (flat & WORD - 1)[:, None] + np.arange(size), axis=1)
                nobody = self._of_gaps(i, pitch, size)
            own = np.where(blank.all(axis=1, keepdims=True), nobody, np.int32(self.padding(i)))
            found = np.where(blank, own, found)
        return found

    def put_stored(self, flat: np.ndarray, size: int, marks: np.ndarray) -> None:
        """Values of `size` bytes with these marks, (n,) or of their bytes (n, bytes), are stored at places of shared
        memory.
        """
        self._shared().put(flat, size, marks)

    def put_words(self, words: np.ndarray, marks: np.ndarray) -> None:
        """Words of shared memory, by their places, have got values with these marks, (n,) or of their bytes (n, 4)."""
        if self.shared is not None or marks.any():
            self.put_stored(words * WORD, WORD, marks)

    def put_bytes(self, places: np.ndarray, marks: np.ndarray) -> None:
        """Registers whose bytes have these marks are stored, each to four bytes of shared memory: both (..., 4)."""
        self._shared().put(places.reshape(-1), 1, marks.reshape(-1))

    def parts_of_registers(self, operands: Sequence[Operand], threads: np.ndarray, count: int = WORD) -> np.ndarray | None:
        """The marks of the bytes, or halves, of 32-bit registers (registers, threads, parts); None where there are
        none.
        """
        if self.of_registers(operands, threads) is None:
            return None
        return np.stack([self._parts_of(operand, threads, count).T for operand in operands])

    def put_parts_of_registers(self, operands: Sequence[Operand], threads: np.ndarray, marks: np.ndarray) -> None:
        """32-bit registers have got values whose bytes, or halves, have these marks (registers, threads, parts)."""
        for operand, own in zip(operands, marks, strict=True):
            if isinstance(operand, Register):
                self._mark_parts(operand.slot, threads, _joined_if_alike(own.T))

    # ---- instructions of threads

    def run(self, x: Wave, i: Instruction, step: Callable[[Any], Any]) -> None:
        """Execute a step, and what it does to the marks."""
        if not self.slots:
            step(x)
            self.came(i)
            return
        threads = self._active(x, i)
        if i.op in TELLING or (i.op == "st" and i.modifiers[0] == "async" and "global" not in i.modifiers):
            self._operands_used(i, threads)
            step(x)
        elif i.op == "st" and i.modifiers[0] not in ("async", "bulk"):
            self._operands_used(i, threads)
            self._store(x, i, step, threads, _items(i.operands[1]))
        elif i.op == "atom" and "exch" in i.modifiers:
            self._exchange(x, i, step, threads)
        elif _adds_up(i) and self.stored_values.stay:
            self._add_up(x, i, step, threads)
        else:
            in_parts = self._handed_on_in_parts(i, threads)
            results, sources = _registers(i)
            marks = self._handed_on(x, i, sources, threads) if in_parts is None else 0
            if self.origins.are_changed and (i.op == "redux" or (i.op in COMPUTING and not _moves(i))):
                are_summed, are_pure = self._are_summed(i, threads), self._are_pure(i, threads)
                if self.origins.have_gaps and (are_gaps := self._are_of_gaps(sources, threads)).any():
                    are_summed, are_pure = are_summed | are_gaps, are_pure | are_gaps
                marks = self._computed(i, np.asarray(marks), are_summed, are_pure)
                in_parts = (
                    None if in_parts is None else [(slot, self._computed(i, parts, are_summed, are_pure)) for slot, parts in in_parts]
                )
            decided = self._decided(i, threads)
            step(x)
            for slot in results if in_parts is None else ():
                self._mark(slot, threads, marks if decided is None else self._chosen_by(i, decided, np.broadcast_to(marks, decided.shape)))
            for slot, parts in in_parts or ():
                self._mark_parts(
                    slot, threads, parts if decided is None else self.origins.join(parts, np.broadcast_to(decided, parts.shape))
                )
        if self.read is not None:
            self._loaded(i, threads)

    def _are_summed(self, i: Instruction, threads: np.ndarray) -> np.ndarray | bool:
        """In which threads (n,) is the result made of several elements of an array?"""
        found = sums(self.x.launch.program)
        if i.op == "redux" or id(i) in found.always:
            return True
        if id(i) not in found.of_two:
            return False
        one, other = self._of_terms(found.of_two[id(i)], threads)
        are_summed = one | other
        if not are_summed.any() or found.of_two[id(i)].are_far:
            return np.asarray(are_summed)
        return np.asarray(are_summed & self._are_several(found.of_two[id(i)], threads))

    def _are_of_gaps(self, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray:
        """In which threads (n,) are several registers with marks combined, which all are padding of rows in shared
        memory? So are columns of a product, in a loop that a compiler has unrolled.
        """
        marks = [own for own in (self._of(source, threads) for source in sources) if own is not None]
        if len(marks) < 2:
            return np.zeros(len(threads), bool)
        are_pads = [self.origins.are_padding(own) for own in marks]
        found: np.ndarray = (np.sum(are_pads, axis=0) > 1) & np.all(
            [pads | (own == 0) for pads, own in zip(are_pads, marks, strict=True)], axis=0
        )
        return found

    def _of_terms(self, terms: Terms, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In which threads has each of two terms marks?"""
        one, other = (
            self._joined([self._part(Register(slot, "", ""), threads) for slot in sorted(side)]) != 0 for side in (terms.one, terms.other)
        )
        return one, other

    def _are_several(self, terms: Terms, threads: np.ndarray) -> np.ndarray:
        """The threads whose terms are several elements of an array.

        Such terms are far apart, or another thread takes one of them, too, as in x[i] + x[i + 1]. The parts of a pixel
        belong to one thread alone.
        """
        self.x.materialize()
        at = [(self.x.r[place.base][threads].astype(np.int64), place) for place in terms.places]
        first = np.min([base + place.first for base, place in at], axis=0)
        spans = np.max([base + place.end for base, place in at], axis=0) - first
        steps = np.diff(distinct(first))
        found: np.ndarray = (spans > ELEMENT) | (len(steps) > 0 and bool(steps.min() < spans.max()))
        return found

    def _computed(self, i: Instruction, marks: np.ndarray, are_summed: np.ndarray | bool, are_pure: np.ndarray | bool) -> np.ndarray:
        """The marks of what an instruction has made of values with these marks, (n,) or (parts, n)."""
        plain = self.origins.computed(i, marks)
        if not np.any(are_summed):
            return plain
        summed: np.ndarray = np.where(are_summed, self.origins.computed(i, marks, is_result=True), plain)
        if not np.any(are_pure):
            return summed
        pure: np.ndarray = np.where(are_pure, self.origins.pure(i, marks), summed)
        return pure

    def _are_pure(self, i: Instruction, threads: np.ndarray) -> np.ndarray | bool:
        """In which threads (n,) has a sum over a loop or over lanes no term with a certain value, except for 0 and what
        a maximum begins with? Then it may be padding, like the columns of a product past the last one.
        """
        found = sums(self.x.launch.program)
        if id(i) in found.of_two and id(i) not in found.always:
            one, other = self._of_terms(found.of_two[id(i)], threads)
            return np.asarray(one & other)
        if id(i) not in found.always or not PACKED.isdisjoint(i.modifiers):
            return False
        terms = [i.operands[1:3], i.operands[3:]] if i.op in PRODUCTS and len(i.operands) > 3 else [(source,) for source in i.operands[1:]]
        are_pure = np.ones(len(threads), bool)
        for factors in terms:
            marks = self._joined([self._part(factor, threads) for factor in factors])
            idle = np.any([self._is_idle(i, factor, threads) for factor in factors], axis=0)
            are_pure &= (marks != 0) | idle
        return are_pure

    def _is_idle(self, i: Instruction, operand: Operand, threads: np.ndarray) -> np.ndarray:
        """In which threads is an operand 0, or the smallest or largest number?"""
        kind = next((kind for kind in reversed(i.modifiers) if kind in FLOATS or kind in INTEGERS), "")
        value = value_of(operand, self.x.r, threads, f"b{bits_of(kind)}") if kind else None
        if value is None:
            return np.zeros(len(threads), bool)
        bits = bits_of(kind)
        if kind in FLOATS:
            ends = [INFINITY[kind]]
            value = value << value.dtype.type(1) >> value.dtype.type(1)
        else:
            ends = [(1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1]
        found: np.ndarray = np.isin(value, np.array([0, *ends], value.dtype))
        return found

    def came(self, i: Instruction) -> None:
        """An instruction has run of whose registers none had a mark: what it loaded may have brought some."""
        if self.read is not None:
            self._loaded(i, np.flatnonzero(self.read.any(axis=1)))

    # ---- inside

    def _loaded(self, i: Instruction, threads: np.ndarray) -> None:
        """Registers have got what `read` says."""
        read, self.read = self.read, None
        if read is None:
            return
        if id(i) in bit_fields(self.x.launch.program):
            return
        items = _items(i.operands[0])
        each = read.shape[1] // len(items)
        for n, item in enumerate(items):
            if isinstance(item, Register):
                own = read[threads, n * each : (n + 1) * each].T
                above = bits_of(item.type) // 8 - each
                if above > 0:  # 0, or the sign
                    own = np.concatenate([own, np.repeat(own[-1:] * i.modifiers[-1].startswith("s"), above, axis=0)])
                self._mark_parts(item.slot, threads, _joined_if_alike(own))

    def _exchange(self, x: Wave, i: Instruction, step: Callable[[Any], Any], threads: np.ndarray) -> None:
        """An exchange passes on the marks of its new value like a store. Each of several threads at one place gets the
        value of the previous one.
        """
        self._operands_used(i, threads)
        put = self._part(i.operands[2], threads)
        given = np.zeros(self.total, np.int32)
        for piece in self._store(x, i, step, threads, _items(i.operands[2])):
            own = np.arange(len(threads)) if piece.part is None else np.flatnonzero(piece.part) if piece.part.dtype == bool else piece.part
            order = np.argsort(piece.at, kind="stable")
            follows = np.flatnonzero(piece.at[order][1:] == piece.at[order][:-1])
            given[threads[own[order[follows + 1]]]] = put[own[order[follows]]]
        if isinstance(i.operands[0], Register):
            self._mark(i.operands[0].slot, threads, 0)
        if given.any():
            self.loads(threads, given[threads][:, None], bits_of(i.modifiers[-1]) // 8)

    def _add_up(self, x: Wave, i: Instruction, step: Callable[[Any], Any], threads: np.ndarray) -> None:
        """Threads add values to words of memory: partial sums, with columns of padding. The marks of the values stay
        there, together with those of earlier ones (`given`).
        """
        self._operands_used(i, threads)
        items = _items(i.operands[-1])
        marks = [self._part(item, threads) for item in items]
        self.put_registers(_items(i.operands[0]), threads, 0)
        self.given = np.zeros(self.total, bool)
        self.given[threads] = np.all([own != 0 for own in marks], axis=0)
        self._pieces = []
        try:
            step(x)
            pieces = self._pieces
        finally:
            self._pieces = self.given = None
        size = bits_of(i.modifiers[-1]) // 8
        for piece in pieces:
            for n, own in enumerate(marks):
                put = own if piece.part is None else own[piece.part]
                if put.any() and not (
                    piece.space == "global"
                    and self.stored_values.add(piece._replace(at=piece.at + n * size), size, i, self.origins.added(i, put))
                ):
                    self.origins.tell(i, put)
        if i.op == "atom":
            self.loads(threads, self._joined(marks)[:, None], len(items) * size)

    def _store(self, x: Wave, i: Instruction, step: Callable[[Any], Any], threads: np.ndarray, items: Sequence[Operand]) -> list[Piece]:
        """A store passes the marks of its values to words of shared and local memory. To global memory it is a use.
        Returns the places at which it has stored any.
        """
        size = bits_of(i.modifiers[-1]) // 8
        marks = [self._stored(item, threads, size) for item in items]
        if not any(own.any() for own in marks):
            step(x)
            return []
        self._pieces = []
        try:
            step(x)
            pieces = self._pieces
        finally:
            self._pieces = None
        for piece in pieces:
            each = marks if piece.part is None else [own[:, piece.part] for own in marks]
            if piece.space == "global":
                for n, own in enumerate(each):
                    self._store_global(i, piece._replace(at=piece.at + n * size), size, own[0] if len(own) == 1 else own.T, n)
                continue
            memory = self._shared() if piece.space == "shared" else self._local()
            for n, own in enumerate(each):
                memory.put(piece.at + n * size, size, own[0] if len(own) == 1 else own.T)
        return pieces

    def stored(self, i: Instruction, piece: Piece, size: int, marks: np.ndarray) -> None:
        """Values with these marks (n,) have been stored to a piece of shared or global memory."""
        if piece.space == "global":
            self._store_global(i, piece, size, marks)
        elif piece.space == "shared" and (self.shared is not None or marks.any()):
            self.put_stored(piece.at, size, marks)

    def _store_global(self, i: Instruction, piece: Piece, size: int, marks: np.ndarray, n: int = 0) -> None:
        """The n-th element of a store. Padding of a row in shared memory is padding there, too, if rows are copied."""
        gaps = self.origins.has_gaps(marks)
        moved = [number for number in gaps if not self.copies.are_flat(i, n, self.origins.site_of(number), piece)]
        if moved:
            marks = self.origins.plain(marks, moved)
        if marks.any() and not self.stored_values.put(i, piece, size, marks):
            for number in sorted(frozenset().union(*map(self.origins.numbers, distinct(marks.reshape(-1)).tolist()))):
                self._report_stored(number, i)

    def _report_stored(self, number: int, i: Instruction) -> None:
        self.is_stored = True
        self.origins.tell_one(number, i)
        self.is_stored = False

    def _stored(self, operand: Operand, threads: np.ndarray, size: int) -> np.ndarray:
        """The marks of the lower bytes of an operand, (bytes, n), or (1, n) if all have the same."""
        if self._count(operand) == 1 or not isinstance(operand, Register):
            return self._part(operand, threads)[None]
        return _joined_if_alike(self._parts_of(operand, threads, bits_of(operand.type) // 8)[:size])

    def _shared(self) -> Words:
        if self.shared is None:
            self.shared = Words(self.origins, self.words)
        return self.shared

    def _local(self) -> Words:
        if self.local is None:
            self.local = Words(self.origins, self.x.memories.local.size // WORD)
        return self.local

    def _active(self, x: Wave, i: Instruction) -> np.ndarray:
        """The threads that execute an instruction; a guard with a mark is used, but that of a branch that chooses
        between values.
        """
        threads = x.threads
        if i.guard is None:
            return threads
        marks = self._of(i.guard, threads)
        if marks is not None:
            results = choices(x.launch.program).results.get(id(i)) if i.op == "bra" else None
            if results is None:
                self._tell_guard(i, marks)
            for slot in results or ():
                own = self.marks.get(slot)
                self._mark(slot, threads, self._chosen_by(i, marks, np.zeros_like(marks) if own is None else own[threads]))
        active: np.ndarray = threads[_value(x, i.guard, threads)]
        return active

    def _tell_guard(self, i: Instruction, marks: np.ndarray) -> None:
        """A guard uses values. A new finding names the guard, and what computes it: the instruction itself may use no
        such value.
        """
        findings, guard = self.x.launch.result.findings, i.guard
        before, kept = {id(f) for f in findings.values()}, findings.kept
        self.origins.tell(i, marks)
        if i.op == "bra" or findings.kept == kept or not isinstance(guard, Register):
            return
        inlined = self.x.program.inlined
        made = origin(inlined.body, inlined.labels, i, guard)
        for key, f in list(findings.items()):
            if f.code == "R507" and id(f) not in before:
                halves = [Half("use", f"{guard.name}, the guard of {i.name}", i) if half.does == "use" else half for half in f.halves]
                at = next((n for n, half in enumerate(halves) if half.does in ("compute", "use")), len(halves))
                is_named = made is None or any(half.instruction is made for half in halves)
                rows = () if is_named or made is None else (Half("compute", made.name, made),)
                findings[key] = dataclasses.replace(f, halves=(*halves[:at], *rows, *halves[at:]))

    def _chosen_by(self, i: Instruction, decides: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The marks of values (n,) that a predicate with marks has chosen, which have marks of their `own`, or none:
        then it alone decides what the result is.
        """
        alone = self.origins.computed(i, decides, is_result=True)
        return self.origins.join(own, np.where(own == 0, alone, decides))

    def _decided(self, i: Instruction, threads: np.ndarray) -> np.ndarray | None:
        """The marks of what decided that these threads execute an instruction, by a branch over it."""
        guard = choices(self.x.launch.program).deciding.get(id(i))
        return None if guard is None else self._of(guard, threads)

    def _operands_used(self, i: Instruction, threads: np.ndarray) -> None:
        """Addresses, descriptors and predicates are used: all but the values that are followed."""
        for n, operand in enumerate(i.operands):
            if not _is_value(i, n, operand):
                for slot in slots_in(operand):
                    marks = self._of(Register(slot, "", ""), threads)
                    if marks is not None:
                        self.origins.tell(i, marks)

    def _handed_on(self, x: Wave, i: Instruction, sources: list[Operand], threads: np.ndarray) -> Any:
        """The marks of an instruction's results; those of other instructions are used."""
        marks = [self._of(source, threads) for source in sources]
        known = [m for m in marks if m is not None]
        if not known:
            return 0
        if i.op == "vote" and "ballot" not in i.modifiers:
            return self._voted(i, threads)
        if i.op in EXCHANGES:
            return self.of_warps(known, threads)
        if i.op not in COMPUTING:
            for m in known:
                self.origins.tell(i, m)
            return 0
        if i.op == "setp":
            marks[:2], known = self._compared(i, sources, marks[:2], threads), [m for m in marks[2:] if m is not None]
            known += [m for m in marks[:2] if m is not None]
        handed_on = self._joined(known)
        if i.op in PRODUCTS:
            return self._multiplied(i, threads)
        if i.op == "selp":
            zero = np.zeros(len(threads), np.int32)
            either = [zero if m is None else m for m in marks[:2]]
            if marks[2] is None:
                return np.where(_value(x, sources[2], threads), *either)
            return self._chosen_by(i, marks[2], self._joined(either))
        logic = i.op if i.op in ("and", "or") else next((m for m in i.modifiers if m in ("and", "or")), "") if i.op == "setp" else ""
        settling = (sources if i.op in ("and", "or") else sources[2:]) if logic else []
        for source, mark in zip(settling, marks[len(sources) - len(settling) :], strict=True):
            if mark is None and isinstance(source, Register) and source.type == "pred":
                handed_on = np.where(_value(x, source, threads) == (logic == "or"), 0, handed_on)
        return handed_on

    def _multiplied(self, i: Instruction, threads: np.ndarray) -> np.ndarray:
        """The marks of a product, or of one and a sum: those of a factor are milder if the other one is 0."""
        one, other, *added = (self._part(operand, threads) for operand in i.operands[1:])
        is_zero = [self._is_zero(i, operand, own, threads) for operand, own in zip(i.operands[1:3], (one, other), strict=True)]
        factors = [
            np.where(zero, self.origins.masked(own, self._of_zero), own) if zero.any() else own
            for own, zero in zip((one, other), reversed(is_zero), strict=True)
        ]
        return self._joined([*factors, *added])

    def _of_zero(self, tell: Tell) -> Tell:
        def masked(user: Instruction | None) -> None:
            before, self.is_masked = self.is_masked, True
            tell(user)
            self.is_masked = before

        return masked

    def _is_zero(self, i: Instruction, operand: Operand, own: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """In which threads is a factor known, and 0?"""
        kind = next((kind for kind in reversed(i.modifiers) if kind in FLOATS), "")
        value = value_of(operand, self.x.r, threads, f"b{bits_of(kind)}") if kind else None
        return np.zeros(len(threads), bool) if value is None else (value << value.dtype.type(1) == 0) & (own == 0)

    def _compared(
        self, i: Instruction, sources: Sequence[Operand], marks: list[np.ndarray | None], threads: np.ndarray
    ) -> list[np.ndarray | None]:
        """The marks of what `setp` compares, without those of threads in which the bits that have none decide what it
        gives.
        """
        kind = i.modifiers[-1]
        values = [value_of(source, self.x.r, threads, kind) for source in sources[:2]] if kind in INTEGERS else [None]
        numbers = [value for value in values if value is not None]
        if len(numbers) < 2 or all(m is None for m in marks):
            return marks
        unknown = [self._unknown(source, threads, value.dtype) for source, value in zip(sources, numbers, strict=False)]
        settled = is_compared(i.modifiers[0], kind, numbers, unknown)
        if settled is None or not settled.any():
            return marks
        return [None if m is None else np.where(settled, np.int32(0), m) for m in marks]

    def _voted(self, i: Instruction, threads: np.ndarray) -> np.ndarray:
        """The marks of a vote: none if a lane with a known value decides it. If only some lanes have a value, the vote
        is enough for many kernels, and its use is a remark. (FlashAttention-4 rescales all rows if one of them needs
        it. That row may be past the end.)
        """
        own = self._part(i.operands[1], threads)
        doubtful = own != 0
        warps = threads // WARP
        settling = _value(self.x, i.operands[1], threads) == ("any" in i.modifiers)
        settled = np.zeros(self.total // WARP, bool)
        settled[warps[settling & ~doubtful]] = "uni" not in i.modifiers
        of_warps = self.of_warps([own, self._part(i.operands[2], threads)], threads)
        has_value = np.zeros(self.total // WARP, bool)
        has_value[warps[~doubtful]] = True
        found: np.ndarray = np.where(has_value[warps], self.origins.milder(of_warps, "voted", self._of_vote), of_warps)
        return np.where(settled[warps], np.int32(0), found)

    def _balloted(self, i: Instruction, threads: np.ndarray) -> np.ndarray:
        """The marks (bits, n) of a ballot: each bit has those of its lane, and all have those of the member mask."""
        given = np.zeros(self.total, np.int32)
        given[threads] = self._part(i.operands[1], threads)
        bits = given.reshape(-1, WARP)[threads // WARP].T
        return self.origins.join(bits, np.broadcast_to(self.of_warps([self._part(i.operands[2], threads)], threads), bits.shape))

    def _of_vote(self, tell: Tell) -> Tell:
        def voted(user: Instruction | None) -> None:
            before, self.is_voted = self.is_voted, True
            tell(user)
            self.is_voted = before

        return voted

    def _handed_on_in_parts(self, i: Instruction, threads: np.ndarray) -> list[tuple[int, np.ndarray]] | None:
        """The marks (parts, n) of the results of what packs, unpacks or computes halves, or bytes, of a register;
        None of other instructions.
        """
        is_packed = not PACKED.isdisjoint(i.modifiers)
        result, *sources = i.operands or (None,)
        if i.op == "mov" and isinstance(sources[0], Vector):
            if isinstance(result, Register):
                each = max(self._count(item) for item in sources[0].items)
                return [(result.slot, np.concatenate([self._parts_of(item, threads, each) for item in sources[0].items]))]
        elif i.op == "mov" and isinstance(result, Vector):
            each = max(1, self._count(sources[0]) // len(result.items))
            parts = self._parts_of(sources[0], threads, each * len(result.items))
            return [(item.slot, parts[n * each : (n + 1) * each]) for n, item in enumerate(result.items) if isinstance(item, Register)]
        elif isinstance(result, Register) and i.op == "mov" and isinstance(sources[0], Register) and sources[0].slot in self.parts:
            return [(result.slot, self.parts[sources[0].slot][:, threads])]
        elif isinstance(result, Register) and i.op == "cvt" and len(i.modifiers) > 1 and i.modifiers[-2] in PAIRS:
            return [(result.slot, self._converted_pair(i, sources, threads))]
        elif isinstance(result, Register) and i.op == "cvt" and len(sources) == 1 and self._of(sources[0], threads) is not None:
            return self._converted(i, result, sources[0], threads)
        elif isinstance(result, Register) and i.op == "vote" and "ballot" in i.modifiers:
            return [(result.slot, self._balloted(i, threads))]
        elif isinstance(result, Register) and is_packed and i.op in BY_HALVES:
            return [(result.slot, self._joined([self._parts_of(source, threads, 2) for source in sources]))]
        elif isinstance(result, Register) and _cancels(i, sources):
            return [(result.slot, np.zeros((1, len(threads)), np.int32))]
        elif isinstance(result, Register) and any(self._of(source, threads) is not None for source in sources):
            settled = self._of_values(i, sources, threads)
            return None if settled is None else [(result.slot, settled)]
        return None

    def _of_values(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The marks (parts, n) of a result some parts of which do not depend on some inputs, for the values of the
        others; None if all may depend.
        """
        if i.op in CHOOSING:
            return self._by_numbers(i, sources, threads)
        if i.op == "selp":
            return self._selected(sources, threads)
        if i.op in BITWISE and "pred" not in i.modifiers:
            return self._bitwise(i, sources, threads)
        if i.op == "brev":
            return self._parts_of(sources[0], threads, bits_of(i.modifiers[0]))[::-1]
        if i.op in ("bfind", "clz"):
            return self._highest(i, sources[0], threads)
        if i.op in ("dp2a", "dp4a"):
            return self._dotted(i, sources, threads)
        if i.op in UPWARD and INTEGERS.issuperset(i.modifiers[-1:]):
            return self._carried(i, sources, threads)
        return self._of_video(i, sources, threads) if i.op[0] == "v" and i.op != "vote" else None

    def _by_numbers(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The same of what takes bits by numbers, each for the threads that have it; None if these are in doubt."""
        taken, last = sources[: -CHOOSING[i.op]], sources[-CHOOSING[i.op] :]
        numbers = [value_of(source, self.x.r, threads, "u32") for source in last]
        if any(own is None for own in numbers) or any(self._of(source, threads) is not None for source in last):
            return None
        width = bits_of(i.modifiers[-1] if i.op == "shf" else i.modifiers[0])
        rows = picked_bits(i, width, [own.astype(np.int64) for own in numbers if own is not None])
        own = np.concatenate([*(self._parts_of(source, threads, width) for source in taken), np.zeros((1, len(threads)), np.int32)])
        found: np.ndarray = np.take_along_axis(own, rows, axis=0)
        return found

    def _selected(self, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The same for `selp`, which takes one of two, if a part of them has its own marks."""
        *taken, predicate = sources
        count = max(self._count(source) for source in taken)
        if count == 1 or self._of(predicate, threads) is not None:
            return None
        parts = [self._parts_of(source, threads, count) for source in taken]
        found: np.ndarray = np.where(_value(self.x, predicate, threads), *parts)
        return found

    def _bitwise(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The same for bitwise operations: bytes that cannot change the result, such as masked ones, do
        not taint it.
        """
        kind = i.modifiers[0]
        words, table = (sources[:3], sources[3]) if i.op == "lop3" else (sources, Immediate(TABLES[i.op]))
        values = [value for source in words if (value := value_of(source, self.x.r, threads, kind)) is not None]
        if len(values) < len(words) or not isinstance(table, Immediate):
            return None
        unit = self._unit(words, bits_of(kind))
        parts = [self._parts_of(source, threads, bits_of(kind) // unit) for source in words]
        changes = changing(table.value, values, [own != 0 for own in parts])
        if any(are_bytes_cut(bits & spread(own != 0, bits.dtype)) for bits, own in zip(changes, parts, strict=True)):
            unit, parts = 1, [self._parts_of(source, threads, bits_of(kind)) for source in words]
        which = [parts_of(bits, unit) for bits in changes]
        if all(self._count(source) == 1 for source in words) and all(
            (bits | (own == 0)).all() for bits, own in zip(which, parts, strict=True)
        ):
            return None
        return self._joined([np.where(bits, own, 0) for bits, own in zip(which, parts, strict=True)])

    def _carried(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The same for sums and products of integers: carries go upward, and the bits of a product below those of an
        untainted factor are 0.
        """
        mode, kind = i.modifiers[:-1], i.modifiers[-1]
        if mode not in ((), ("lo",), ("hi",), ("wide",)):
            return None
        factors = sources[:2] if i.op in ("mad", "mul") else ()
        shifts = [np.zeros(len(threads), np.int64) for _ in sources]
        for n, factor in enumerate(factors):
            known = value_of(factor, self.x.r, threads, kind)
            if known is not None and self._of(factor, threads) is None:
                shifts[1 - n] = trailing_zeros(known)
        if all(self._count(source) == 1 for source in sources) and not any((low >= 8).any() for low in shifts):
            return None
        if mode in (("hi",), ("wide",)):
            marks = [np.where(low == 64, 0, self._part(source, threads)) for source, low in zip(sources, shifts, strict=True)]  # fmt: skip
            return self._joined(marks)[None]
        unit = self._unit(sources, bits_of(kind))
        size = bits_of(kind) // unit
        found = [np.zeros((size, len(threads)), np.int32)]
        for source, low in zip(sources, shifts, strict=True):
            below = list(self._parts_of(source, threads, size))
            for n in range(1, size):
                below[n] = self.origins.join(below[n - 1], below[n])
            rows = np.stack([np.zeros_like(below[0]), *below])
            found.append(np.stack([rows[np.maximum(unit * (n + 2) - 1 - low, 0) // unit, np.arange(len(threads))] for n in range(size)]))
        return self._joined(found)

    def _highest(self, i: Instruction, source: Operand, threads: np.ndarray) -> np.ndarray | None:
        """The same of what looks for the highest bit: a known one above all that are in doubt settles it."""
        known = value_of(source, self.x.r, threads, i.modifiers[-1])
        if known is None:
            return None
        settled = is_highest_known(i, known, self._unknown(source, threads, known.dtype))
        return np.where(settled, np.int32(0), self._part(source, threads))[None] if settled.any() else None

    def _unknown(self, operand: Operand, threads: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
        """Words (n,) of that unsigned type in which the bits of an operand are set that have marks."""
        size = kind.itemsize
        parts = self._parts_of(operand, threads, size * (8 if self._count(operand) > size else 1))
        return spread(parts != 0, kind)

    def _dotted(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray | None:
        """The same of `dp4a` and `dp2a`: parts that are multiplied with 0, or with nothing, give no doubt."""
        values = [value_of(source, self.x.r, threads, "u32") for source in sources[:2]]
        size = 1 if i.op == "dp4a" else 2  # of the first one's elements
        first = 2 if "hi" in i.modifiers else 0
        parts = [self._parts_of(source, threads, WORD) for source in sources[:2]]
        found = [self._part(sources[2], threads)]
        for n in range(WORD // size):
            one, other = slice(size * n, size * n + size), slice(first + n, first + n + 1)
            marks = [self._joined(list(own[part])) for own, part in zip(parts, (one, other), strict=True)]
            zero = [
                value is not None and (value.astype(np.uint32).view(np.uint8).reshape(-1, WORD)[:, part] == 0).all(axis=1) & (own == 0)
                for value, part, own in zip(values, (one, other), marks, strict=True)
            ]
            found += [np.where(zero[1 - side], 0, own) for side, own in enumerate(marks)]
        return self._joined(found)[None]

    def _of_video(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray:
        """The same of video instructions: each part of the result has the doubts of the parts that it comes from."""
        found = np.zeros((WORD, len(threads)), np.int32)
        own = [self._parts_of(source, threads, WORD) for source in sources]
        for to, of in parts_of_video(i):
            found[to] = self._joined([self._joined(list(own[n][part])) for n, part in of])
        return found

    def _converted(self, i: Instruction, result: Register, source: Operand, threads: np.ndarray) -> list[tuple[int, np.ndarray]] | None:
        """The same of `cvt` of one number, which looks at the lower bytes of a wider register: an integer keeps them,
        and has its sign, or 0, above.
        """
        if not isinstance(source, Register) or "pred" in (source.type, result.type):
            return None
        to, of = i.modifiers[-2:]
        unit = self._unit([source], bits_of(source.type))
        own = self._parts_of(source, threads, bits_of(source.type) // unit)[: bits_of(of) // unit]
        if "sat" in i.modifiers or not INTEGERS.issuperset((to, of)):
            return [(result.slot, self.origins.all(own, axis=0)[None])]
        for name, bits in ((of, bits_of(to)), (to, bits_of(result.type))):
            own = own[: bits // unit]
            above = own[-1] if name.startswith("s") else np.zeros_like(own[0])
            own = np.stack([*own, *[above] * (bits // unit - len(own))])
        return [(result.slot, own)]

    def _converted_pair(self, i: Instruction, sources: Sequence[Operand], threads: np.ndarray) -> np.ndarray:
        """The marks (2, n) of the halves that `cvt` makes: of two numbers, of which the first one makes the upper
        half, or of another pair.
        """
        numbers = 2 if i.modifiers[-1] == "f32" else 1
        first = [self._part(source, threads) for source in sources]
        if i.modifiers[-1] in PAIRS:
            halves = self._parts_of(sources[0], threads, 2)
        else:
            halves = np.stack([first[numbers - 1], first[0]])
        return self._joined([halves, *first[numbers:]])  # after them scales

    def _part(self, operand: Operand, threads: np.ndarray) -> np.ndarray:
        marks = self._of(operand, threads)
        return np.zeros(len(threads), np.int32) if marks is None else marks

    def _parts_of(self, operand: Operand, threads: np.ndarray, count: int) -> np.ndarray:
        """The marks of the parts of an operand, least significant first: (count, n)."""
        known = self.parts.get(operand.slot) if isinstance(operand, Register) else None
        if known is None:
            return np.broadcast_to(self._part(operand, threads), (count, len(threads)))
        own: np.ndarray = known[:, threads]
        if len(own) > count:
            return self.origins.all(own.reshape(count, len(own) // count, len(threads)), axis=1)
        return own if len(own) == count else own.repeat(count // len(own), axis=0)

    def _count(self, operand: Operand) -> int:
        """How many parts of an operand have marks of their own."""
        return len(self.parts[operand.slot]) if isinstance(operand, Register) and operand.slot in self.parts else 1

    def _unit(self, operands: Sequence[Operand], bits: int) -> int:
        """How many bits of operands of that width have marks of their own: 1, or 8."""
        return 1 if any(self._count(operand) > bits // 8 for operand in operands) else 8

    def _joined(self, marks: list[np.ndarray]) -> np.ndarray:
        joined = marks[0]
        for more in marks[1:]:
            joined = self.origins.join(joined, more)
        return joined

    def _of(self, operand: Operand, threads: np.ndarray) -> np.ndarray | None:
        """The marks that an operand has in these threads; None where it has none."""
        if not isinstance(operand, Register) or not self.slots >> operand.slot & 1:
            return None
        marks: np.ndarray = self.marks[operand.slot][threads]
        return marks if marks.any() else None

    def _mark_parts(self, slot: int, threads: np.ndarray, parts: np.ndarray) -> None:
        """A register has got a value of parts with these marks (parts, n)."""
        parts = _joined_if_alike(parts)
        before = self.parts.get(slot)
        self._mark(slot, threads, parts[0] if len(parts) == 1 else self.origins.all(parts, axis=0))
        if len(parts) < 2 or slot not in self.marks:
            return
        if before is None:
            self.parts[slot] = np.repeat(self.marks[slot][None], len(parts), axis=0)
        elif len(before) < len(parts):
            self.parts[slot] = before.repeat(len(parts) // len(before), axis=0)
        self.parts[slot][:, threads] = parts.repeat(len(self.parts[slot]) // len(parts), axis=0)

    def _mark(self, slot: int, threads: np.ndarray, doubt_marks: Any) -> None:
        if slot in self.parts:
            self.parts[slot][:, threads] = doubt_marks
        if slot not in self.marks:
            if not np.any(doubt_marks):
                return
            self.marks[slot] = np.zeros(self.total, np.int32)
        self.marks[slot][threads] = doubt_marks
        if self.marks[slot].any():
            self.slots |= 1 << slot
        else:
            del self.marks[slot]
            self.parts.pop(slot, None)
            self.slots &= ~(1 << slot)


def _moves(i: Instruction) -> bool:
    """Does an instruction only move bits, and compute nothing with them?"""
    return i.op in MOVING or (i.op == "cvt" and INTEGERS.issuperset(i.modifiers[-2:]))


def _items(operand: Operand) -> Sequence[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _is_value(i: Instruction, n: int, operand: Operand) -> bool:
    """Is an operand a value that is stored, multiplied or a result, and not what decides where or how?"""
    if i.op == "wgmma":
        return n == 0 or (n == 1 and isinstance(operand, Vector)) or (n == METADATA["wgmma"] and "sp" in i.modifiers)
    if i.op == "mma" and n >= METADATA["mma"]:
        is_sparse = any(modifier.startswith("sp") for modifier in i.modifiers)
        # of each side of a block-scaled one: scale factors, and selectors
        factors = range(METADATA["mma"] + 2 * is_sparse, len(i.operands), 2) if "block_scale" in i.modifiers else ()
        return n in factors or (is_sparse and n == METADATA["mma"])
    if i.op == "tcgen05":
        return i.modifiers[0] in ("ld", "st") and not isinstance(operand, Address)
    if i.op == "clusterlaunchcontrol":
        return n == 0 and i.modifiers[0] == "query_cancel"
    if i.op == "wmma":
        return n in {"load": (0,), "mma": (0, 1, 2, 3), "store": (1,)}[i.modifiers[0]]
    return n in {"atom": (0, 2), "ldmatrix": (0,), "mma": (0, 1, 2, 3), "red": (1,), "shfl": (0, 1), "st": (1,), "stmatrix": (1,)}[i.op]


def _registers(i: Instruction) -> tuple[list[int], list[Operand]]:
    """The registers that an instruction gives a value, and what it reads."""
    results = [slot for slot, is_result in i.mentions if is_result]
    if i.op in ("and", "or", "selp", "setp"):  # of which it matters which operand is which
        return results, list(i.operands[1:])
    flat = {slot for slot, is_result in i.mentions if not is_result}
    if i.guard is not None:
        flat.discard(i.guard.slot)
    return results, [Register(slot, "", "") for slot in sorted(flat)]


def _value(x: Wave, operand: Operand, threads: np.ndarray) -> np.ndarray:
    """The values of a predicate."""
    if not isinstance(operand, Register):
        return np.ones(len(threads), bool)
    values: np.ndarray = x.r[operand.slot][threads] ^ operand.negated
    return values
