"""`wmma.load`, `wmma.mma` and `wmma.store` (PTX ISA 9.7.14.4): matrices as fragments whose layout nobody may know.

Which thread holds which element is left open by the PTX ISA, and made up here: element e of lane l is number (elements of a lane) * l + e, row after
row. Operands of f16 have 8 registers whatever the shape needs; here those that are left repeat the first. A kernel that looks where an element is
finds another place than on hardware. What a product comes to is that of mma.sync, which compilers make of it: with C or D of f16 and the
other of f32 it is summed up in f32, and D rounded to nearest (SASS of ptxas 13.0). tf32 is multiplied in two steps of k4.

Elements of 4 bits and of one are loaded as words of 32 bits, of which a row of A and a column of B have four.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.alu.floats import MODES
from smemsim.gpu.matrix.fragments import items, whole_warps
from smemsim.gpu.matrix.mma_sync import EVIDENCE, note_inferred
from smemsim.gpu.memory.spaces import locate, note_read, note_write, values_of
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Gate, Step, implements, unmodelled
from smemsim.gpu.wave import WARP
from smemsim.machine.mma_sync import differing, doubles, sums, unpacked
from smemsim.ptx.module import Instruction
from smemsim.spec.mma_sync import WMMA_TYPES, Shape

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.memory.spaces import Locate
    from smemsim.gpu.wave import Wave

__all__: list[str] = []

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s32": 4, "s8": 1, "u8": 1, "f64": 8, "s4": 4, "u4": 4, "b1": 4}  # loaded at once
_PACKED = {"s4": 8, "u4": 8, "b1": 32}  # elements of a word
_LAYOUT = "which thread holds which element of a wmma fragment is made up (the PTX ISA leaves it open)"


def _extent(which: str, shape: Shape, dtype: str) -> tuple[int, int]:
    """Rows and columns of the matrix that is a fragment of A, B, C or D, in elements or, of those that are packed, in words."""
    m, n, k = shape
    k //= _PACKED.get(dtype, 1)
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _registers(which: str, shape: Shape, dtype: str) -> int:
    """Registers of a fragment."""
    if which in "ab" and dtype == "f16":
        return 8
    rows, columns = _extent(which, shape, dtype)
    return rows * columns // WARP // max(1, 4 // _BYTES[dtype])


def _shape(words: Modifiers) -> Shape:
    found = next((m for word in words.left if (m := _SHAPE.fullmatch(word))), None)
    if found is None:
        raise unmodelled(words.instruction, "without a shape")
    words.need(found[0])
    return int(found[1]), int(found[2]), int(found[3])


def _check(i: Instruction, shape: Shape, which: str, dtype: str) -> None:
    """Is there such a fragment?"""
    if which in "ab":
        known = dtype in WMMA_TYPES and shape in WMMA_TYPES[dtype].shapes
    else:
        known = any(dtype in row.accumulators and shape in row.shapes for row in WMMA_TYPES.values())
    if not known:
        raise unmodelled(i, f"{which.upper()} of .{dtype} with this shape")


class _Memory:
    """A fragment in memory: where each element of each lane is."""

    def __init__(self, i: Instruction, c: Linker, words: Modifiers, operands: Operands, which: str, *, address_first: bool) -> None:
        column_major = words.need("row", "col") == "col"
        shape = _shape(words)
        space = words.one_of(("global", "shared", "shared::cta")) or None
        self.dtype = words.need(*_BYTES)
        words.end()
        _check(i, shape, which, self.dtype)
        if self.dtype in _PACKED and column_major != (which == "b"):
            raise unmodelled(i, f".{'col' if column_major else 'row'} of {which.upper()} of .{self.dtype}")
        self.i, self.kind = i, "b64" if self.dtype == "f64" else "b32"
        self.size = _BYTES[self.dtype]
        self.packed = _PACKED.get(self.dtype, 1)
        rows, columns = _extent(which, shape, self.dtype)
        count = _registers(which, shape, self.dtype)
        parts = [operands.next("an address"), operands.next("a fragment")]
        address, fragment = parts if address_first else parts[::-1]
        self.registers = items(fragment, count, f"the fragment of {which.upper()}")
        stride = operands.next("a stride") if operands.left else None
        self.stride = (
            c.read(stride, "u32") if stride is not None else lambda x: np.uint32((rows if column_major else columns) * self.packed)
        )
        operands.end()
        element = np.arange(rows * columns).reshape(WARP, -1)
        row, column = element // columns, element % columns
        self.line, self.place = (column, row) if column_major else (row, column)  # (lanes, elements)
        self.element = 0
        self.where: Locate = locate(i, c, address, space, self.size, beyond=self._beyond)

    def _beyond(self, x: Wave) -> Any:
        """Bytes from the address to the element that is looked for."""
        stride = np.broadcast_to(np.asarray(self.stride(x), np.int64), x.n).reshape(-1, WARP) // self.packed
        return ((self.line[:, self.element] * stride + self.place[:, self.element]) * self.size).reshape(-1)


@implements("wmma.load")
def build_load(i: Instruction, c: Linker) -> Step:
    """`wmma.load.a.sync.aligned.row.m16n16k16{.space}.f16 {...}, [p] {, stride}`."""
    words, operands = Modifiers(i, "load", "sync", "aligned"), Operands(i)
    which = words.need("a", "b", "c")
    operands.left = operands.left[1:2] + operands.left[:1] + operands.left[2:]
    memory = _Memory(i, c, words, operands, which, address_first=True)
    writes = [c.write(item, memory.kind) for item in memory.registers]
    kind = np.dtype(f"u{memory.size}")

    def run(x: Wave) -> None:
        x.launch.evidence.add(_LAYOUT)
        count = memory.line.shape[1]
        values = np.empty((x.n, count), kind)
        for memory.element in range(count):
            for piece in memory.where(x):
                note_read(x, i, piece, memory.size)
                found = piece.memory.view(kind)[piece.at // memory.size]
                values[slice(None) if piece.part is None else piece.part, memory.element] = found
        registers = values.view(np.uint64 if memory.size == 8 else np.uint32)
        for n, write in enumerate(writes):
            write(x, registers[:, n % registers.shape[1]])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.7.14.4"), run)


@implements("wmma.store")
def build_store(i: Instruction, c: Linker) -> Step:
    """`wmma.store.d.sync.aligned.row.m16n16k16{.space}.f32 [p], {...} {, stride}`."""
    words, operands = Modifiers(i, "store", "d", "sync", "aligned"), Operands(i)
    memory = _Memory(i, c, words, operands, "d", address_first=True)
    reads = [c.read(item, memory.kind) for item in memory.registers]
    kind = np.dtype(f"u{memory.size}")

    def run(x: Wave) -> None:
        x.launch.evidence.add(_LAYOUT)
        values = np.ascontiguousarray(np.stack([np.broadcast_to(read(x), x.n) for read in reads], -1)).view(kind)
        for memory.element in range(values.shape[1]):
            for piece in memory.where(x):
                mine = values[slice(None) if piece.part is None else piece.part, memory.element]
                written = values_of(x, piece, memory.size, lambda mine=mine: mine)  # type: ignore[misc]
                piece.memory.view(kind)[piece.at // memory.size] = mine
                note_write(x, i, piece, memory.size, written=written)

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.7.14.4"), run)


@implements("wmma.mma")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 d, a, b, c`, or with four types; `.satfinite` of integers."""
    words, operands = Modifiers(i, "mma", "sync", "aligned"), Operands(i)
    words.need("row", "col")
    words.need("row", "col")
    satfinite = words.has("satfinite")
    rounding = words.one_of(MODES) if "f64" in words.left else ""
    operation = words.one_of(("and", "xor")) if "b1" in words.left else ""
    if operation:
        words.need("popc")
    types = [t for t in words.left if t in _BYTES]
    shape = _shape(words)
    words.left = [t for t in words.left if t not in _BYTES]
    words.end()
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4:
        raise unmodelled(i, "these types")
    d_type, a_type, b_type, c_type = types
    _check(i, shape, "a", a_type)
    row = WMMA_TYPES[a_type]
    if (
        a_type != b_type
        or {c_type, d_type} - set(row.accumulators)
        or (satfinite and (d_type != "s32" or a_type == "b1"))
        or bool(operation) != (a_type == "b1")
    ):
        raise unmodelled(i, f"A of .{a_type}, B of .{b_type}, C of .{c_type}, D of .{d_type}{' with .satfinite' if satfinite else ''}")
    mixed = d_type != c_type
    summed = "f32" if mixed else d_type
    kind = "b64" if d_type == "f64" else "b32"
    d = [c.write(x, kind) for x in items(operands.next("D"), _registers("d", shape, d_type), "D")]
    parts = [("a", a_type), ("b", b_type), ("c", c_type)]
    reads = [[c.read(x, kind) for x in items(operands.next(name), _registers(name, shape, t), name.upper())] for name, t in parts]
    operands.end()

    def matrix(x: Wave, which: int) -> np.ndarray:
        name, dtype = parts[which]
        rows, columns = _extent(name, shape, dtype)
        raw = np.ascontiguousarray(np.stack([np.broadcast_to(read(x), x.n) for read in reads[which]], -1))
        count = rows * columns // WARP
        return raw.view(f"u{_BYTES[dtype]}").reshape(x.n, -1)[:, :count].reshape(-1, rows, columns)

    def run(x: Wave) -> None:
        x.launch.evidence.add(_LAYOUT)
        note_inferred(x, EVIDENCE if d_type != "s32" else {})
        a, b, start = (np.ascontiguousarray(matrix(x, n)) for n in range(3))
        b = np.ascontiguousarray(b.transpose(0, 2, 1))
        if mixed and c_type == "f16":
            start = start.view(np.float16).astype(np.float32).view(np.uint32)
        if a_type in _PACKED:
            a, b = (unpacked(words, a_type).reshape(*words.shape[:2], -1) for words in (a, b))
        product = start
        for part in np.split(np.arange(shape[2]), shape[2] // (row.k_step or shape[2])):
            some = (np.ascontiguousarray(a[:, :, part]), np.ascontiguousarray(b[:, :, part]), product)
            if d_type == "f64":
                product = doubles(*some, MODES[rounding or "rn"])
            else:
                product = differing(*some) if operation == "xor" else sums(*some, (a_type, b_type, summed), None, satfinite)
        if mixed and d_type == "f16":
            product = _halves(product)
        registers = np.ascontiguousarray(product.reshape(x.n, -1)).view(np.uint64 if d_type == "f64" else np.uint32)
        for n, write in enumerate(d):
            write(x, registers[:, n])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.7.14.4"), run)


def _halves(raw: np.ndarray) -> np.ndarray:
    """f32 to f16, to nearest, as F2FP does it."""
    values = raw.view(np.float32)
    found: np.ndarray = np.where(np.isnan(values), np.uint16(0x7FFF), values.astype(np.float16).view(np.uint16))
    return found
