"""mma.sync and wmma.

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

from smemsim.errors import InputError
from smemsim.machine.mma_sync import (
    QUAD_PAIR_SHAPE,
    differing,
    doubles,
    mma_sync,
    mma_sync_types,
    quad_pair_registers,
    quad_pairs,
    register_counts,
    register_places,
    sums,
    unpacked,
)
from smemsim.program.alu.floats import MODES
from smemsim.program.matrix.ldmatrix import items, whole_warps
from smemsim.program.memory.spaces import locate, note_read, note_write, values_of
from smemsim.program.modifiers import Modifiers, Operands
from smemsim.program.registry import Gate, Step, implements, unmodelled
from smemsim.program.wave import WARP
from smemsim.ptx.module import Immediate, Instruction, Operand
from smemsim.spec.mma_sync import WMMA_TYPES, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smemsim.program.linking.program import Linker
    from smemsim.program.memory.spaces import Locate
    from smemsim.program.registers import Read
    from smemsim.program.wave import Wave


# ---- `mma.sync` and `mma.sp.sync` (PTX ISA 9.7.14.5, 9.7.14.6): the warps of a wave multiply side by side


_SECTION = "PTX ISA 9.7.14.5.14"

# On sm_90a every sum is measured: trace launches, kernels mma_hard*.
STUDIES = "inferred from those of an H200 (trace launches) and public studies of a B200 (Khattak and Mikaitis, MMA-Sim)"
EVIDENCE = dict.fromkeys(("sm_100a", "sm_103a"), f"the sums of mma.sync are {STUDIES}")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@implements("mma")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`mma{.sp}.sync.aligned.mMnNkK.row.col{.satfinite}.D.A.B.C{.OP.popc} d, a, b, c {, metadata, selector}`."""
    words, operands = Modifiers(i, "sync", "aligned"), Operands(i)
    if "block_scale" in words.left or any(word.startswith("kind::") for word in words.left):
        raise unmodelled(i, "only sm_120a has mma.sync with .kind:: and .block_scale")
    sparse = bool(words.one_of(("sp", "sp::ordered_metadata")))
    found = next((m for word in words.left if (m := _SHAPE.fullmatch(word))), None)
    if found is None:
        raise unmodelled(i, "without a shape")
    words.need(found[0])
    layouts = [word for word in words.left if word in ("row", "col")]
    words.left = [word for word in words.left if word not in ("row", "col")]
    satfinite = words.has("satfinite")
    rounding = words.one_of(MODES)
    d_type, a_type, b_type, c_type = (words.left.pop(0) if words.left else "" for _ in range(4))
    shape = (int(found[1]), int(found[2]), int(found[3]))
    if shape == QUAD_PAIR_SHAPE and a_type == "f16" and not sparse:
        return _quad_pairs(i, c, words, operands, layouts, (d_type, b_type, c_type), plain=not (satfinite or rounding))
    if layouts != ["row", "col"]:
        raise unmodelled(i, f"layouts .{'.'.join(layouts)}")
    if c_type != d_type:
        raise unmodelled(i, f"C of .{c_type} and D of .{d_type}")
    xor = False
    if a_type == "b1":
        xor = words.need("xor", "and") == "xor"
        words.need("popc")
    words.end()
    row = mma_sync_types(a_type, b_type, d_type, shape, sparse=sparse)
    if satfinite and not row.satfinite:
        raise InputError(f".satfinite: mma.sync with {a_type} has none")
    if rounding and a_type != "f64":
        raise InputError(f".{rounding}: mma.sync with {a_type} has no rounding")
    counts = register_counts(row, shape, d_type, sparse=sparse)
    kind = "b64" if row.bits == 64 else "b32"
    parts = [items(operands.next(name), count, name) for name, count in zip("DABC", (counts[2], *counts), strict=True)]
    writes = [c.write(x, kind) for x in parts[0]]
    reads = [[c.read(x, kind) for x in part] for part in parts[1:]]
    places = register_places(shape, row.bits, sparse=sparse)
    metadata, selector = None, 0
    if sparse:
        metadata = c.read(operands.next("metadata"), "b32")
        number = operands.next("a selector")
        if not isinstance(number, Immediate):
            raise unmodelled(i, "the sparsity selector is no immediate")
        selector = number.value
    operands.end()
    given: dict[str, Any] = {"shape": shape, "a_type": a_type, "b_type": b_type, "d_type": d_type, "satfinite": satfinite, "xor": xor,
                             "rounding": MODES[rounding or "rn"]}  # fmt: skip

    inferred = EVIDENCE if d_type != "s32" else {}

    def run(x: Wave) -> None:
        note_inferred(x, inferred)
        a, b, start = (_stacked(part, x) for part in reads)
        more: dict[str, Any] = (
            {} if metadata is None else {"metadata": np.broadcast_to(metadata(x), x.n).reshape(-1, WARP), "selector": selector}
        )
        d = mma_sync(a, b, start, **given, **more)
        if x.watch is not None and x.watch.unwritten.slots:
            _follow(x, parts, places)
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, _SECTION), run)


def _follow(x: Wave, parts: Sequence[Sequence[Operand]], places: tuple[tuple[np.ndarray, np.ndarray], ...]) -> None:
    """The registers of D get the doubts of C, and row by row those of A, column by column those of B; `parts` are the registers of D, A, B and C."""
    unwritten, doubts, warps = x.watch.unwritten, x.watch.unwritten.doubts, x.n // WARP
    a, b, c = (unwritten.of_registers(part, x.threads) for part in parts[1:])
    row, column = places[2]
    found = np.zeros((len(row), WARP, warps), np.int32)
    for marks, (thread, register), at in ((a, places[0], row), (b, places[1], column)):
        if marks is not None:
            of_rows = doubts.all(marks.reshape(len(marks), warps, WARP)[register, :, thread], axis=1)
            found = doubts.join(found, of_rows[at])
    of_registers = doubts.all(found.transpose(0, 2, 1).reshape(len(parts[0]), -1, x.n), axis=1)
    unwritten.put_registers(parts[0], x.threads, of_registers if c is None else doubts.join(of_registers, c))


def note_inferred(x: Wave, evidence: Mapping[str, str]) -> None:
    """What is not measured on this architecture."""
    if x.launch.arch in evidence:
        x.launch.evidence.add(evidence[x.launch.arch])


def _quad_pairs(
    i: Instruction, c: Linker, words: Modifiers, operands: Operands, layouts: list[str], types: tuple[str, str, str], *, plain: bool
) -> Step:
    """m8n8k4 of f16: in a warp of quad pairs, with the layouts that are named, and C of f16 for D of f32 as well."""
    d_type, b_type, c_type = types
    words.end()
    if not plain or len(layouts) != 2 or b_type != "f16" or (d_type, c_type) not in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
        raise unmodelled(i, "these types or modifiers")
    counts = (quad_pair_registers(d_type), 2, 2, quad_pair_registers(c_type))
    parts = [items(operands.next(name), n, name) for name, n in zip("DABC", counts, strict=True)]
    writes = [c.write(x, "b32") for x in parts[0]]
    reads = [[c.read(x, "b32") for x in part] for part in parts[1:]]
    operands.end()

    def run(x: Wave) -> None:
        note_inferred(x, EVIDENCE)
        a, b, start = (_stacked(part, x) for part in reads)
        d = quad_pairs(a, b, start, a_layout=layouts[0], b_layout=layouts[1], d_type=d_type, c_type=c_type)
        if x.watch is not None and x.watch.unwritten.slots:
            marks = x.watch.unwritten.of_registers([item for part in parts[1:] for item in part], x.threads)
            of_warps = 0 if marks is None else [x.watch.unwritten.of_warps(list(marks), x.threads)] * len(parts[0])
            x.watch.unwritten.put_registers(parts[0], x.threads, of_warps)
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, _SECTION), run)


def _stacked(reads: list[Read], x: Wave) -> np.ndarray:
    """Registers (registers, warps, 32)."""
    return np.stack([np.broadcast_to(read(x), x.n) for read in reads]).reshape(len(reads), -1, WARP)


# ---- `wmma.load`, `wmma.mma` and `wmma.store` (PTX ISA 9.7.14.4): matrices as fragments whose layout nobody may know


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
def build_wmma_mma(i: Instruction, c: Linker) -> Step:
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
