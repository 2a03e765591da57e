"""Tiles that threads or cp.async have copied into shared memory: do all rows of an operand have their 16-byte chunks in
one order?

No tensor map describes such a tile. But most of its chunks occur once in global memory, which gives their origin. A
product adds up k by k: whatever the order of the chunks of a row, all rows of both operands need the same one. A row
with another order than row 0's was written with another swizzle than the descriptor's. If each row has the same order
in shared memory as in global memory, the rows may have been swizzled there before: that is a remark.

Tiles that threads have converted or transposed have no such chunks. Their elements are searched in global memory, as
rows and k at fixed strides (`recognised.py`). If they are found only with another swizzle than the descriptor's, that
is the swizzle of the stores. If they are found, the layout is right, and their place in the array gives k: A and B of
one sum must advance by the same k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, at_instruction
from smemsim.core.machine.product import SharedOperand
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.smem_descriptor import START
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.wgmma import WGMMA_THREADS
from smemsim.core.words.operand import swizzled
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.covered import NO_LOAD
from smemsim.diagnosis.operands.chunks import Chunks, all_chunks
from smemsim.diagnosis.operands.copied import SWIZZLES, addresses_of, lines_of, matrix_of, read_otherwise
from smemsim.diagnosis.operands.places import LATER, RECOGNISED
from smemsim.diagnosis.operands.read import OperandRead
from smemsim.diagnosis.operands.thread_sums import Pointers, Sum, found_in, written_at
from smemsim.diagnosis.recognised import RUN, Arrays, Recognised
from smemsim.run.engine.records import Mma
from smemsim.run.engine.wave import Cta, Wave

__all__ = ["ThreadTiles"]


PERIODS = (8, 16)  # rows after which a swizzle, or what was meant to be one, starts again
WIDEST = 8  # chunks of a row that a swizzle reorders
MOST_LOOKS = 8  # operands of a launch
KNOWN = 0.9  # share of an operand's chunks that must lie at one place alone
MOST_TILES = 256  # operands of a launch whose elements are looked for by their values
MOST_WHOLE = 4  # ... anywhere, if others of their form were found; then where the first elements say
MOST_FAILED = 2  # ... of one line, if they are not found
_START = START.mask << START.low  # bits of a descriptor
LAWS: dict[
    str, Callable[[np.ndarray], np.ndarray]
] = {  # XORs of the chunk's number that are no swizzle, by the number of the 128-byte line
    "c ^ (r // 2 % 4)": lambda line: line >> 1 & 3,
    "c ^ (r // 2 % 8)": lambda line: line >> 1 & 7,
    "c ^ (r // 4 % 8)": lambda line: line >> 2 & 7,
}


class ThreadTiles:
    """Collects, for each matrix instruction and side, whether an operand that no tensor load brought lies in shared
    memory as its descriptor reads it.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Finding] = {}
        self._looked: set[tuple[str, int]] = set()
        self._chunks: Chunks | None = None
        self._arrays: Arrays | None = None
        self._tiles = 0
        self._failed: dict[tuple[str, int], int] = {}
        self._addresses: dict[SharedOperand, np.ndarray] = {}
        self._whole = 0  # tiles of which all elements were looked for
        self._forms: dict[
            tuple[str, SharedOperand], Recognised
        ] = {}  # the last tile of each side and form of operand: its word without the start address
        self._now: dict[str, str] = {}  # of the sides that threads wrote of the last instruction: what is known
        self._exact: set[tuple[str, int]] = set()  # sides and lines of which chunks are known to be copies
        self._wrong: set[tuple[str, int]] = set()  # ... of which it is known that they do not lie as they are read
        # the last tile of each side and line that lies as it is read
        self._right: dict[tuple[str, int], Recognised] = {}
        self._sums: dict[tuple[object, ...], Sum] = {}
        self._pointers: Pointers | None = None
        self.is_decided = True  # Do all sums multiply the same k and rows of A and B, or is there a finding?

    def look(self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand, chunks: np.ndarray) -> str:
        """Look at an operand of the instruction that was followed last, of which `chunks` are the places in the window,
        as `_Places` has them. RECOGNISED if it is known whether it lies as it is read, else why that is not known.
        """
        key = side, event.instruction.line
        if event.is_sparse:
            return NO_LOAD
        if key not in self._looked and key not in self._exact and len(self._looked) < MOST_LOOKS:
            self._looked.add(key)
            self._look_at_chunks(x, cta, event, side, what, chunks)
        return self._now.get(side, NO_LOAD)

    def follow(
        self, x: Wave, cta: Cta, event: Mma, reads: dict[str, SharedOperand | OperandRead | None], chunks: dict[str, np.ndarray]
    ) -> None:
        """Search the elements of an instruction's operands that threads wrote, with `chunks` at these places (tensor
        loads brought the others), and the continuation of the sum from the tiles before.
        """
        self._now = {}
        if event.is_sparse:
            return
        key = cta.number, event.thread // WGMMA_THREADS, event.kind, event.d
        if event.begins or key not in self._sums:
            self._close(self._sums.pop(key, None))
            self._sums[key] = Sum(is_whole=event.begins)
        own = self._sums[key]
        now: list[Recognised | OperandRead | None] = [None, None]
        for n, side in enumerate(("a", "b")):
            read = reads[side]
            if isinstance(read, SharedOperand):
                lines = lines_of(chunks[side], read.major)
                at = addresses_of(x, cta, lines)
                now[n] = self._recognised(x, cta, event, side, read) if at is None else self._copied(x, cta, event, side, read, lines, at)
                if now[n] is not None or (at is not None and (side, event.instruction.line) in self._wrong):
                    self._now[side] = RECOGNISED
            else:
                now[n] = read
        first, second = now
        if first is None or second is None or not any(isinstance(read, Recognised) for read in now):
            own.is_whole = False
            return
        if self._pointers is None:
            self._pointers = Pointers(x.launch)
        step, side = own.add(event, (first, second), self._pointers)
        operand = event.operand(side) if side else None
        if operand is not None:
            own.note(step, _writer_of(x, cta, operand))

    def finish(self) -> None:
        """All sums are over."""
        for own in self._sums.values():
            self._close(own)
        self._sums.clear()

    def _close(self, own: Sum | None) -> None:
        """A sum is over. Report where the k of its A and B differ, and note if nothing shows that they do not."""
        if own is None or any(key[0] == "step" for key in self.found):
            return
        fault = own.fault()
        if fault is not None:
            self.found["step", fault.step.event.instruction.line] = found_in(fault)
        else:
            self.is_decided &= own.is_decided

    def _copied(
        self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand, lines: np.ndarray, at: np.ndarray
    ) -> Recognised | None:
        """The place in global memory of an operand whose chunks (lines, chunks) threads have copied from these
        addresses. Reported: only another descriptor reads rows of an array there, or rows have their chunks in other
        orders.
        """
        key = side, event.instruction.line
        self._exact.add(key)
        known = matrix_of(x.launch.memory, at, what)
        if known is not None or key in self.found:
            return known
        odd = _odd_row(at, lines) if len(at) >= 2 * PERIODS[0] and at.shape[1] > 1 else None
        other = read_otherwise(x, cta, what) if odd is None else None
        writer = _last_writer(x, cta, int(lines[0, 0]))
        if odd is not None:
            self.found[key] = _found(event, side, what, odd, writer)
        elif other is not None:
            self.found[key] = _found_otherwise(event, side, what, *other, writer)
        if other is not None or (odd is not None and not odd.lies_as_there):
            self._wrong.add(key)
        return None

    def _recognised(self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand) -> Recognised | None:
        """The place of an operand's elements in global memory, by their values. Reported if only another swizzle has
        them.
        """
        key = side, event.instruction.line
        bits = element_format(what.dtype).bits
        if bits not in (8, 16, 32) or key in self.found or self._failed.get(key, 0) >= MOST_FAILED:
            return None
        if self._tiles >= MOST_TILES:
            self._now[side] = LATER
            x.launch.result.bounds.add(f"operand layouts: tiles that threads write are looked for in global memory {MOST_TILES} times")
            return None
        self._tiles += 1
        if self._arrays is None:
            self._arrays = Arrays(x.launch.memory)
        form = side, dataclasses.replace(what, word=what.number & ~_START)
        like = self._right.get(key) or (self._forms.get(form) if self._whole >= MOST_WHOLE else None)
        known = None
        if like is not None:
            corner = self._addresses_of(cta, dataclasses.replace(what, rows=min(what.rows, RUN), k=min(what.k, RUN)))
            run = None if corner is None else _elements(cta, corner[:1] if like.is_along_k else corner[:, :1], bits // 8)
            known = None if run is None else self._arrays.go_on(run.ravel(), what.dtype, like)
            if known is not None and not self._is_whole(cta, what, known):
                known = None
        elif (address := self._addresses_of(cta, what)) is not None and (tile := _elements(cta, address, bits // 8)) is not None:
            self._whole += 1
            known = self._arrays.find(tile, what.dtype)
            if known is None:
                self._look_for_swizzle(x, cta, event, side, what, address)
        if known is None:
            self._failed[key] = self._failed.get(key, 0) + 1
        else:
            self._right[key] = self._forms[form] = known
        return known

    def _is_whole(self, cta: Cta, what: SharedOperand, known: Recognised) -> bool:
        """Are all elements of a tile those that its first ones say?"""
        assert self._arrays is not None
        address = self._addresses_of(cta, what)
        tile = None if address is None else _elements(cta, address, element_format(what.dtype).bits // 8)
        return tile is not None and self._arrays.has(tile, what.dtype, known)

    def _addresses_of(self, cta: Cta, what: SharedOperand) -> np.ndarray | None:
        """(rows, k) the address of every element of an operand; None if it is not known."""
        if what not in self._addresses:
            try:
                self._addresses[what] = what.addresses(cta.shared.arch).astype(np.int64)
            except SmemsimError:
                return None
        return self._addresses[what]

    def _look_for_swizzle(self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand, address: np.ndarray) -> None:
        assert self._arrays is not None
        decoded = SmemDescriptor.decode(what.number, arch=cta.shared.arch)
        mode = MODES[decoded.swizzle]
        if decoded.swizzle not in SWIZZLES or not mode.mask:
            return
        size = element_format(what.dtype).bits // 8
        plain = swizzled(address, mode, decoded.base_offset)
        laws = {str(name): swizzled(plain, MODES[name]) for name in SWIZZLES if name is not decoded.swizzle}
        laws |= {f"the XOR {name}": plain ^ (law(plain >> 7) << 4) for name, law in LAWS.items()}
        for name, places in laws.items():
            tile = _elements(cta, places, size)
            found = None if tile is None else self._arrays.find(tile, what.dtype)
            if found is None:
                continue
            along = found.is_along_k == (what.major == "K")
            if name == Swizzle.NONE and along and not found.converted:
                return  # as in global memory: it may have been swizzled there before
            writer = _writer_of(x, cta, what)
            self.found[side, event.instruction.line] = _found_written(event, side, what, (name, str(decoded.swizzle)), found, writer)
            return

    def _look_at_chunks(self, x: Wave, cta: Cta, event: Mma, side: str, what: SharedOperand, chunks: np.ndarray) -> None:
        """Look at the order of the 16-byte chunks of each row."""
        rows = chunks if what.major == "K" else chunks.T
        if len(rows) < 2 * PERIODS[0] or rows.shape[1] < 2 or rows.min() < 0:
            return
        if self._chunks is None:
            self._chunks = all_chunks(x.launch.memory.filled())
        values = cta.shared.bytes[rows[..., None] + np.arange(CHUNK)].reshape(*rows.shape, CHUNK).view(np.uint64)
        odd = _odd_row(self._chunks.places(values), rows)
        if odd is not None:
            self.found[side, event.instruction.line] = _found(event, side, what, odd, _last_writer(x, cta, int(rows[odd.row, 0])))


def _elements(cta: Cta, addresses: np.ndarray, size: int) -> np.ndarray | None:
    """The raw bits at addresses (rows, k) of shared memory; None where one lies outside of the window."""
    at = addresses - cta.shared.begin
    if at.min() < 0 or at.max() + size > len(cta.shared.bytes):
        return None
    return np.ascontiguousarray(cta.shared.bytes[at[..., None] + np.arange(size)]).view(f"u{size}")[..., 0]


def _writer_of(x: Wave, cta: Cta, what: SharedOperand) -> Instruction | None:
    """The instruction that wrote the first element of an operand last."""
    return _last_writer(x, cta, int(what.addresses(cta.shared.arch)[0, 0]) - cta.shared.begin)


def _last_writer(x: Wave, cta: Cta, at: int) -> Instruction | None:
    return None if x.checks is None else x.checks.last_writer((at + cta.index * x.pitch) // 4)


@dataclasses.dataclass(frozen=True)
class _Odd:
    """A row whose chunks come in another order than row 0's; which chunk each of the two reads first, counted from the
    lowest; do rows lie as in global memory?
    """

    row: int
    chunk: int
    of_first: int
    lies_as_there: bool


def _odd_row(addresses: np.ndarray, places: np.ndarray) -> _Odd | None:
    """A row whose chunks have another order than row 0's, if only a swizzle explains it.

    Rows are a pitch apart in global memory, and some rows further the order repeats. A tile that was copied unchanged
    may have been swizzled before.
    """
    known = addresses > 0
    if known.mean() < KNOWN or not known[0].all():
        return None
    pitch = next((pitch for period in PERIODS if (pitch := _pitch(addresses, known, period)) is not None), None)
    if pitch is None:
        return None
    apart = (places - addresses)[known]
    start = addresses - np.arange(len(addresses))[:, None] * pitch
    start = start - start[known].min()
    if (apart == apart[0]).all() or (start[known] % CHUNK).any() or start[known].max() >= WIDEST * CHUNK:
        return None
    index = start // CHUNK
    by = index[:, :1] ^ index[0, 0]
    if ((index ^ by) != index[0])[known & known[:, :1]].any():
        return None
    odd = np.flatnonzero(known[:, 0] & (by[:, 0] > 0))
    if not odd.size:
        return None
    by_row = places - addresses
    lies_as_there = bool((by_row == by_row[:, :1])[known & known[:, :1]].all())
    return _Odd(int(odd[0]), int(index[odd[0], 0]), int(index[0, 0]), lies_as_there)


def _pitch(addresses: np.ndarray, known: np.ndarray, period: int) -> int | None:
    """Bytes from row to row, where all chunks lie as far from those of the row that is a period further."""
    steps = (addresses[period:] - addresses[:-period])[known[period:] & known[:-period]]
    return int(steps[0]) // period if steps.size and (steps == steps[0]).all() and not steps[0] % period else None


def _found(event: Mma, side: str, what: SharedOperand, odd: _Odd, writer: Instruction | None) -> Finding:
    swizzle = SmemDescriptor.decode(what.number, arch="sm_100a" if event.kind != "wgmma" else "sm_90a").swizzle
    line = "row" if what.major == "K" else "k"
    before = ", unless the chunks had this order in global memory" if odd.lies_as_there else ""
    return at_instruction(
        "R501", event.instruction, f"{side.upper()} (descriptor {what.number:#x}) is read with swizzle {swizzle}; threads wrote it with another swizzle",
        f"write with swizzle {swizzle}{_law(swizzle)}", because="PTX ISA 9.1 §5.5.6", halves=written_at(writer), kind=side,
        why=f"as the instruction reads them, {line} 0 begins with chunk {odd.of_first} of its row in global memory, and {line} {odd.row} with chunk {odd.chunk}: both must begin with the same 16-byte chunk{before}",
        milder=Severity.LUCK if odd.lies_as_there else None,
    )  # fmt: skip


def _found_written(
    event: Mma, side: str, what: SharedOperand, swizzles: tuple[str, str], found: Recognised, writer: Instruction | None
) -> Finding:
    written, read = swizzles
    as_what = (
        f"converted from {found.converted}"
        if found.converted
        else "transposed"
        if found.is_along_k != (what.major == "K")
        else "as they are"
    )
    named = f"swizzle {written}" if written in {str(name) for name in SWIZZLES} else written
    return at_instruction(
        "R501", event.instruction, f"{side.upper()} (descriptor {what.number:#x}) is read with swizzle {read}; threads wrote it with {named}",
        f"write with swizzle {read}{_law(Swizzle(read))}", because="PTX ISA 9.1 §5.5.6", halves=written_at(writer),
        why=f"the elements are rows and k of the array at {found.begin:#x} ({as_what}) only if they are read with {named}",
        kind=side,
    )  # fmt: skip


def _found_otherwise(
    event: Mma, side: str, what: SharedOperand, other: SmemDescriptor, found: Recognised, writer: Instruction | None
) -> Finding:
    word = SmemDescriptor.decode(what.number, arch=other.arch)
    if other.swizzle is not word.swizzle:
        return at_instruction(
            "R501", event.instruction, f"{side.upper()} (descriptor {what.number:#x}) is read with swizzle {word.swizzle}; threads wrote it with swizzle {other.swizzle}",
            f"swizzle {other.swizzle} in the descriptor, or write with swizzle {word.swizzle}{_law(word.swizzle)}", because="PTX ISA 9.1 §5.5.6",
            why=f"threads have copied the tile from the array at {found.begin:#x}. Only with swizzle {other.swizzle} is each row of {side.upper()} a row of this array",
            halves=written_at(writer), numbers={"side": side}, kind=side,
        )  # fmt: skip
    fields = [
        (name, getattr(word, field), getattr(other, field))
        for name, field in (("LBO", "leading_byte_offset"), ("SBO", "stride_byte_offset"))
        if getattr(word, field) != getattr(other, field)
    ]
    has, meant = (" and ".join(f"{name} {one[n]} B" for name, *one in fields) for n in (0, 1))
    return at_instruction(
        "D308", event.instruction, f"{side.upper()} (descriptor {what.number:#x}) is read with {has}, but threads have stored its tile for {meant}",
        f"write {meant} into the descriptor: {other.word:#018x}. Or store the tile for {has}", because="PTX ISA 9.1 §9.7.15.5.1", halves=written_at(writer),
        why=f"threads have copied the tile from the array at {found.begin:#x}. Only with {meant} is each row of {side.upper()} a row of this array",
        numbers={"side": side}, kind=side,
    )  # fmt: skip


def _law(swizzle: Swizzle) -> str:
    """The new place of a chunk, in rows that are as wide as the swizzle."""
    mode = MODES[swizzle]
    if not mode.mask or 1 << mode.shift != CHUNK:
        return ""
    rows = LINE // mode.width
    return f": chunk c of row r to c ^ (r{f' // {rows}' if rows > 1 else ''} % {mode.mask + 1})"
