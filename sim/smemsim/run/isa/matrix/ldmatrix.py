"""ldmatrix, stmatrix, movmatrix, and fragments in registers.

A lane l holds row l / 4 of a matrix, bytes 4 (l % 4) to 4 (l % 4) + 3 of it. With `.trans` it holds those of the
transposed matrix. Every row is 16 bytes at the address of one lane: lane 8 j + r for row r of matrix j. The forms for
bytes are sm_100a's. Their layouts are documented (PTX ISA 9.1 §9.7.14.5.15 and .16), and agree with what CuTe assumes
(copy_traits_sm100.hpp); they are not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.machine import loops
from smemsim.core.ptx.module import Instruction, Operand, Vector
from smemsim.run.accesses import Piece
from smemsim.run.engine.wave import WARP
from smemsim.run.isa.memory.spaces import Locate, in_windows, locate, note_read, note_write, values_of
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Gate, Step, implements, unmodelled
from smemsim.run.origins import LOADS, followed_rows, origins_of_bytes

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["items", "whole_warps"]


# ---- What instructions of whole warps have in common: the registers of a fragment, and threads that are all there


def items(operand: Operand, count: int, name: str) -> tuple[Operand, ...]:
    """The registers of a fragment, of a vector or alone; InputError unless they are so many."""
    registers = operand.items if isinstance(operand, Vector) else (operand,)
    if len(registers) != count:
        raise InputError(f"{name} has {len(registers)} registers, this shape needs {count}")
    return registers


def whole_warps(i: Instruction, x: Wave, source: str) -> bool:
    """Go on with warps whose threads are all here; Unmodelled where some never can be."""
    if not x.gather():
        return False
    if x.n % WARP:
        raise unmodelled(i, f"in a warp with fewer than 32 threads, or with some that have exited (undefined: {source})")
    return True


# ---- `ldmatrix`, `stmatrix` and `movmatrix`: 8 x 8 matrices of 16 bits between shared memory
# and the registers of a warp


ROW = 16  # bytes of a row of a matrix
_LANE = np.arange(WARP)
_BYTE = np.arange(4)


def _places(form: str) -> tuple[np.ndarray, np.ndarray]:
    """(row, byte of the row) of every byte that a lane's registers of one matrix hold: (registers, lanes, 4)."""
    lane, byte = _LANE[None, :, None], _BYTE[None, None, :]
    if form == "rows":  # row l / 4, four bytes of it
        return np.broadcast_arrays(lane // 4, lane % 4 * 4 + byte)  # type: ignore[return-value]
    if form == "b16 columns":  # elements (2 (l % 4), l / 4) and the one below
        return np.broadcast_arrays(lane % 4 * 2 + byte // 2, lane // 4 * 2 + byte % 2)  # type: ignore[return-value]
    if form == "b8 columns":  # of 16 rows: four below one another; the second register the columns 8 further
        register = np.arange(2)[:, None, None]
        return np.broadcast_arrays(lane % 4 * 4 + byte, lane // 4 + 8 * register)  # type: ignore[return-value]
    # of 8 rows: two below one another, then the two 8 columns further
    return np.broadcast_arrays(lane % 4 * 2 + byte % 2, lane // 4 + 8 * (byte // 2))  # type: ignore[return-value]


def _rows(x: Wave, i: Instruction, where: Locate, count: int) -> Piece:
    """The places of the rows that the first `count` lanes of every warp name."""
    kept, threads = x.sel, x.threads
    if count < WARP:
        x.select(threads.reshape(-1, WARP)[:, :count].ravel())
    try:
        return in_windows(x, i, where)
    finally:
        x.select(kept)


def _byte_places(rows: np.ndarray, matrices: int, form: str, bits: int = 8) -> np.ndarray:
    """The place of every byte, (registers, threads, 4), of rows (warps, matrices * rows of one); of packed elements
    that where they begin.
    """
    row, byte = _places(form)
    by_matrix = rows.reshape(len(rows), matrices, -1)
    found = by_matrix[:, :, row] + byte * bits // 8  # (warps, matrices, registers, lanes, 4)
    return np.ascontiguousarray(found.transpose(1, 2, 0, 3, 4)).reshape(matrices * len(row), -1, 4)


def _shape(words: Modifiers) -> tuple[str, int, bool, str | None]:
    """(shape, matrices, transposed, space) off a name."""
    shape = words.need("m8n8", "m8n16", "m16n16", "m16n8")
    count = int(words.need("x1", "x2", "x4")[1])
    return shape, count, words.has("trans"), words.one_of(("shared::cta", "shared")) or None


_BITS = {"": 8, "b6x16_p32": 6, "b4x16_p64": 4}  # of an element in shared memory


def _load_form(i: Instruction) -> tuple[str, int, str | None, str, int]:
    """(which bytes a lane gets, matrices, space, packing, lanes that name rows) of an ldmatrix."""
    words = Modifiers(i, "sync", "aligned")
    shape, count, trans, space = _shape(words)
    packed = words.need("b6x16_p32", "b4x16_p64") if words.has("b8x16") else ""
    kind = "b8" if packed else words.need("b16", "b8")
    words.end()
    forms = {
        ("m8n8", "b16", False): "rows",
        ("m8n8", "b16", True): "b16 columns",
        ("m16n16", "b8", True): "b8 columns",
        ("m8n16", "b8", False): "rows",
    }
    form = forms.get((shape, kind, trans))
    if form is None or (shape == "m16n16" and count == 4) or (shape == "m8n16" and not packed):
        raise unmodelled(i, "there is no such form")
    return form, count, space or None, packed, count * (16 if shape == "m16n16" else 8)


@implements("ldmatrix")
def build_ldmatrix(i: Instruction, c: Linker) -> Step:
    """`ldmatrix.sync.aligned.m8n8.x4{.trans}{.shared}.b16 {r0, …}, [row]`, and m16n16.trans.b8, m8n16.b8x16.b6x16_p32
    / .b4x16_p64 of sm_100a.
    """
    operands, (form, count, space, packed, lanes) = Operands(i), _load_form(i)
    registers, bits = len(_places(form)[0]) * count, _BITS[packed]
    targets = items(operands.next("registers"), registers, "the vector")
    writes = [c.write(item, "b32") for item in targets]
    where = locate(i, c, operands.next("an address"), space, ROW, only_shared=True)
    operands.end()

    def run(x: Wave) -> None:
        piece = _rows(x, i, where, lanes)
        if x.events.accessed:
            _told(x, i, lanes, lambda: note_read(x, i, piece, ROW, is_joint=True))
        rows = piece.at.reshape(-1, lanes)
        if form == "rows" and not packed:  # whole words
            values = np.empty((count, x.n), np.uint32)
            loops.gather_rows(x.shared.view(np.uint32), np.ascontiguousarray(piece.at, np.int64).reshape(-1), values)
        elif packed:
            values = _unpacked(x.shared[rows[..., None] + np.arange(ROW)], bits, count, form)
        else:
            raw = x.shared[_byte_places(rows, count, form)]
            values = raw.view(np.uint32)[..., 0]
        if x.taint is not None and x.taint.concerns_matrices():
            places = _byte_places(rows, count, form, bits)
            marks = x.taint.of_access(i, places.reshape(-1), 1).reshape(places.shape)
            x.taint.put_parts_of_registers(targets, x.threads, marks)
        for n, write in enumerate(writes):
            write(x, values[n])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.5.15"), run)


def _origins(i: Instruction, c: Linker, width: int) -> Callable[[Wave], np.ndarray]:
    """The origins of the registers' bytes, (threads, bytes). Packed elements have the origin of their first byte."""
    form, count, space, packed, lanes = _load_form(i)
    where = locate(i, c, i.operands[1], space, ROW, only_shared=True)

    def origins(x: Wave) -> np.ndarray:
        places = _byte_places(_rows(x, i, where, lanes).at.reshape(-1, lanes), count, form, _BITS[packed])
        return origins_of_bytes(x, places).swapaxes(0, 1).reshape(x.n, width)

    return origins


LOADS["ldmatrix"] = _origins


def _unpacked(rows: np.ndarray, bits: int, count: int, form: str) -> np.ndarray:
    """Rows (warps, rows, 16 bytes) of 4- or 6-bit elements followed by their gap, as (registers, threads). Each element
    is a byte, in its low bits.

    Kind f8f6f4 needs 4-bit elements in other bits. CUTLASS shifts them (fp4_shift_A).
    """
    element = np.arange(ROW) * bits
    low, high = rows[..., element // 8].astype(np.uint16), rows[..., np.minimum(element // 8 + 1, ROW - 1)].astype(np.uint16)
    value = ((low | high << np.uint16(8)) >> (element % 8).astype(np.uint16) & np.uint16((1 << bits) - 1)).astype(np.uint8)
    row, place = _places(form)
    by_matrix = value.reshape(len(rows), count, -1, ROW)[:, :, row, place]  # (warps, matrices, registers, lanes, 4)
    found: np.ndarray = np.ascontiguousarray(by_matrix.transpose(1, 2, 0, 3, 4)).view(np.uint32).reshape(count * len(row), -1)
    return found


@implements("stmatrix")
def build_stmatrix(i: Instruction, c: Linker) -> Step:
    """`stmatrix.sync.aligned.m8n8.x4{.trans}{.shared}.b16 [row], {r0, …}`, and m16n8.trans.b8 of sm_100a."""
    words, operands = Modifiers(i, "sync", "aligned"), Operands(i)
    shape, count, trans, space = _shape(words)
    kind = words.need("b16", "b8")
    words.end()
    forms = {("m8n8", "b16", False): "rows", ("m8n8", "b16", True): "b16 columns", ("m16n8", "b8", True): "b8 pairs"}
    form = forms.get((shape, kind, trans))
    if form is None:
        raise unmodelled(i, "there is no such form")
    where = locate(i, c, operands.next("an address"), space or None, ROW, only_shared=True)
    sources = items(operands.next("registers"), count, "the vector")
    reads = [c.read(item, "b32") for item in sources]
    operands.end()
    lanes = 8 * count
    follow = followed_rows(i, c, sources, lambda at: _byte_places(at.reshape(-1, lanes), count, form))

    def run(x: Wave) -> None:
        piece = _rows(x, i, where, lanes)
        follow.begins(x, piece)
        values = np.stack([np.broadcast_to(read(x), x.n) for read in reads])
        written = values_of(x, piece, ROW)
        if form == "rows":  # whole words
            loops.scatter_rows(x.shared.view(np.uint32), np.ascontiguousarray(piece.at, np.int64).reshape(-1), values)
        else:
            x.shared[_byte_places(piece.at.reshape(-1, lanes), count, form)] = values[..., None].view(np.uint8)
        _told(x, i, lanes, lambda: note_write(x, i, piece, ROW, written=written, is_joint=True))
        follow.ends(x, piece)
        marks = None if x.taint is None else x.taint.parts_of_registers(sources, x.threads)
        if marks is not None and x.taint is not None:
            x.taint.put_bytes(_byte_places(piece.at.reshape(-1, lanes), count, form), marks)

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.5.15"), run)


def _told(x: Wave, i: Instruction, lanes: int, note: Callable[[], None]) -> None:
    """Note the rows as accessed by the lanes that name them."""
    kept, threads = x.sel, x.threads
    if lanes < WARP:
        x.select(threads.reshape(-1, WARP)[:, :lanes].ravel())
    try:
        note()
    finally:
        x.select(kept)
    if x.events.lanes_met:
        x.events.lanes_met(x, i, are_done=True)


@implements("movmatrix")
def build_movmatrix(i: Instruction, c: Linker) -> Step:
    """`movmatrix.sync.aligned.m8n8.trans.b16 d, a`: a lane gets elements (2 (l % 4), l / 4) and the one below of the
    warp's matrix.
    """
    Modifiers(i, "sync", "aligned", "m8n8", "trans", "b16").end()
    write, read = c.write(i.operands[0], "b32"), c.read(i.operands[1], "b32")
    row, byte = _places("b16 columns")
    at = (row * ROW + byte)[0]  # (lanes, 4)

    def run(x: Wave) -> None:
        raw = np.ascontiguousarray(np.broadcast_to(read(x), x.n)).view(np.uint8).reshape(-1, 8 * ROW)
        write(x, np.ascontiguousarray(raw[:, at]).view(np.uint32).reshape(-1))

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.5.15"), run)
