"""mma.sync and wmma.

The PTX ISA does not specify which thread holds which element of wmma. The layout here is invented: element e of lane
l is number (elements of a lane) * l + e, row after row. Operands of f16 have 8 registers whatever the shape needs;
here the remaining ones repeat the first. A kernel that depends on the layout finds another one than on hardware.

Elements of 4 bits and of one are loaded as words of 32 bits; a row of A and a column of B have four.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.machine.global_memory import FOREIGN
from smemsim.core.machine.mma_sync import PACKED, QUAD_PAIR_SHAPE, MmaSync, QuadPairs, Wmma
from smemsim.core.ptx.module import Immediate, Instruction, Operand, Register
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_sync import BYTE_IDS, SCALE_VECTORS, THREAD_IDS, WMMA_TYPES, Shape
from smemsim.run.engine.records import Fragments, FragmentScales, Metadata, WarpProducts
from smemsim.run.engine.wave import WARP
from smemsim.run.isa.alu.floats import MODES
from smemsim.run.isa.matrix.ldmatrix import items, whole_warps
from smemsim.run.isa.matrix.sparsity import find_undefined
from smemsim.run.isa.memory.spaces import locate, note_read, note_write, values_of
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Gate, Step, implements, unmodelled
from smemsim.run.origins import CELL, Origin, followed_stores, multiplies, origins_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smemsim.run.checks import Taint
    from smemsim.run.engine.wave import Wave
    from smemsim.run.isa.memory.spaces import Locate
    from smemsim.run.isa.registers import Read
    from smemsim.run.lower.program import Linker


# ---- `mma.sync` and `mma.sp.sync` (PTX ISA 9.1 §9.7.14.5, 9.7.14.6): the warps of a wave multiply side by side


_SECTION = "PTX ISA 9.1 §9.7.14.5.14"

# On sm_90a every sum is measured: trace launches, kernels mma_hard*.
STUDIES = "inferred from those of an H200 (trace launches) and public studies of a B200 (Khattak and Mikaitis, MMA-Sim)"
_STUDIED = "documented by one public study (MMA-Sim), which reports that cards agree"
EVIDENCE = {
    **dict.fromkeys(("sm_100a", "sm_103a", "sm_110a"), f"the sums of mma.sync are {STUDIES}"),
    **dict.fromkeys(("sm_80", "sm_89", "sm_120a"), f"the sums of mma.sync are {_STUDIED}"),
    "sm_86": "the sums of mma.sync are inferred from those of sm_80, which one public study documents (MMA-Sim)",
    "sm_121a": "the sums of mma.sync are inferred from those of sm_120a, which one public study documents (MMA-Sim)",
}
_NEIGHBOURS = "the sums of mma.sync with {} are inferred from those of its neighbours: no card was compared"
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
WHOLE = (8, 16, 32)  # bits of elements of which registers have a whole number


@implements("mma")
def build_mma(i: Instruction, c: Linker) -> Step:
    """`mma{.sp}.sync.aligned.mMnNkK.row.col{.kind}{.block_scale}{.satfinite}.D.A.B.C{.OP.popc}{.S} d, a, b, c {,
    metadata, selector} {, scales}`.
    """
    words, operands = Modifiers(i, "sync", "aligned"), Operands(i)
    of = _named(i, words, c.arch)
    if isinstance(of, MmaSync) and of.factors:
        _check_version(of, c)
    parts = [items(operands.next(name), count, name) for name, count in zip("DABC", of.registers, strict=True)]
    kind = f"b{of.bits}"
    writes = [c.write(item, kind) for item in parts[0]]
    reads = [[c.read(item, kind) for item in part] for part in parts[1:]]
    metadata, where = None, None
    if isinstance(of, MmaSync) and of.is_sparse:
        [operand] = items(operands.next("metadata"), 1, "the metadata")
        metadata = c.read(operand, "b32")
        selector = operands.next("a selector")
        if not isinstance(selector, Immediate):
            raise unmodelled(i, "the sparsity selector is no immediate")
        of = dataclasses.replace(of, selector=selector.value)
        where = operand, of
    scales = [_Scales(i, c, operands, side, of) for side in "AB"] if isinstance(of, MmaSync) and of.factors else []
    operands.end()
    inferred = _evidence(of, c.arch)
    fragments = _FragmentOrigins(i, c, of, parts, where, scales) if isinstance(of, MmaSync) and (scales or where) else None

    # of wholes that a register has one or several of; the K of a sparse A is not in order
    places = {side: of.bytes_of(side) for side in "ab"} if isinstance(of, MmaSync) and of.row.bits in WHOLE and not of.is_sparse else {}
    origins = {side: followed_stores(i, c, part, CELL) for side, part in zip("ab", parts[1:3], strict=True)} if places else {}

    def run(x: Wave) -> None:
        x.launch.result.evidence.update(inferred)
        a, b, start = (_stacked(part, x) for part in reads)
        held = None if metadata is None else np.broadcast_to(metadata(x), x.n).reshape(-1, WARP)
        if fragments is not None and x.events.fragments_multiplied and (found := fragments.of(x, held)) is not None:
            x.events.fragments_multiplied(x, i, found)
        if scales and isinstance(of, MmaSync):
            d = of.execute(a, b, start, held, (scales[0].read(x), scales[1].read(x)))
        else:
            d = of.execute(a, b, start, held)
        if held is not None and isinstance(of, MmaSync):
            undefined = of.undefined_groups(a, held, is_ordered="sp::ordered_metadata" in i.modifiers)
            find_undefined(x, i, undefined, of.nibbles(held), of.row.group)
        if isinstance(of, MmaSync) and places and x.events.warps_multiplied:
            x.events.warps_multiplied(x, i, _warp_products(x, of, {"a": a, "b": b}, (start, d), places, origins))
        if x.taint is not None and x.taint.slots:
            numbers = (a, b) if isinstance(of, MmaSync) and of.has_numbers_alone else None
            _follow(x, i, parts, of.places, where, numbers, scales, (a, b))
        for n, write in enumerate(writes):
            write(x, d[n].reshape(-1))

    return Gate(lambda x: whole_warps(i, x, _SECTION), run)


def _warp_products(
    x: Wave, of: MmaSync, registers: Mapping[str, np.ndarray], sums: tuple[np.ndarray, np.ndarray],
    places: Mapping[str, tuple[np.ndarray, np.ndarray]], origins: Mapping[str, Origin | None],
) -> WarpProducts:  # fmt: skip
    """The products of the running warps, by the registers of A and B. C and D are `sums`."""
    size = of.row.bits // 8

    def tile(side: str, warp: int) -> np.ndarray:
        held = np.ascontiguousarray(registers[side][:, warp].T).view(f"u{size}")
        thread, byte = places[side]
        found: np.ndarray = held[thread, byte // size]
        return found

    @functools.cache
    def sources(side: str) -> np.ndarray:
        (thread, byte), origin = places[side], origins[side]
        assert origin is not None
        held = origin(x).reshape(x.n // WARP, WARP, -1)
        first, last = held[:, thread, byte], held[:, thread, byte + size - 1]
        return np.where((first >= 0) & (last - first == size - 1), first, FOREIGN)

    is_followed = None not in origins.values() and origins_of(x) is not None
    if is_followed:
        multiplies(x, len(x.threads) // WARP)
    return WarpProducts(of.shape, of.types, x.threads[::WARP], sums[0], sums[1], tile, sources if is_followed else None)


def _check_version(of: MmaSync, c: Linker) -> None:
    """InputError for scale factors that the module's version of the PTX ISA does not have."""
    since = next(v.since for v in SCALE_VECTORS[of.kind] if v.factors == of.factors and of.scale_type in v.types)
    if tuple(map(int, c.module.version.split(".")[:2])) < since:
        raise InputError(
            f".scale_vec::{of.factors}X with .{of.scale_type}: needs .version {since[0]}.{since[1]} or later; ptxas refuses it"
        )


def _evidence(of: MmaSync | QuadPairs, arch: str) -> set[str]:
    """How well an instruction's sums are known on a card."""
    if of.d_type == "s32" or arch not in EVIDENCE:
        return set()
    small = isinstance(of, MmaSync) and {of.a_type, of.b_type} & {"e3m2", "e2m3", "e2m1"}
    if (
        isinstance(of, MmaSync)
        and of.sum_row is not None
        and of.sum_row.grade is not Grade.MEASURED
        and (of.is_sparse or (small and not of.kind.startswith("mxf4")))
    ):
        return {EVIDENCE[arch], _NEIGHBOURS.format("sparse operands" if of.is_sparse else "4- and 6-bit types in bytes")}
    return {EVIDENCE[arch]}


class _Scales:
    """The scale factors of one side of a block-scaled instruction: `data, {byte-id, thread-id}`.

    Each row of A has its factors in one thread, each column of B too: `threads`. The low byte has the factor of the
    lowest K.
    """

    def __init__(self, i: Instruction, c: Linker, operands: Operands, side: str, of: MmaSync) -> None:
        [self.operand] = items(operands.next(f"scale factors of {side}"), 1, f"the scale factors of {side}")
        self.i, self.side, self.factors, self.arch = i, side, of.factors, c.arch
        self.data = c.read(self.operand, "b32")
        chosen = items(operands.next("selectors"), 2, "the selectors")
        legal = (BYTE_IDS[of.factors], THREAD_IDS[side])
        for name, one, known in zip(("byte-id", "thread-id"), chosen, legal, strict=True):
            if isinstance(one, Immediate) and one.value not in known:
                raise InputError(
                    f"line {i.line}: {name} {one.value} of {side}: {of.factors}X has {' '.join(map(str, known))} (PTX ISA 9.1 §9.7.14.3, table 37)"
                )
        self.legal, self.selectors = legal, [c.read(one, "b16") for one in chosen]
        self.rows = np.arange(of.shape[0] if side == "A" else of.shape[1])

    def selected(self, x: Wave) -> tuple[int, int]:
        """(byte, thread) that are selected, alike in all threads."""
        found = []
        for read, known in zip(self.selectors, self.legal, strict=True):
            values = np.unique(np.asarray(read(x)))
            if len(values) != 1 or int(values[0]) not in known:
                raise Unmodelled(
                    f"selectors of scale factors {values.tolist()}: undefined unless all threads have one of {known} (PTX ISA 9.1 §9.7.14.3)",
                    line=self.i.line,
                )
            found.append(int(values[0]))
        return found[0], found[1]

    def threads(self, chosen: int) -> np.ndarray:
        """The thread of each row or column, with this thread-id."""
        if self.side == "B":
            return 4 * self.rows + chosen
        found: np.ndarray = assumed("mma_sync.scales", 4 * (self.rows % 8) + 2 * chosen + self.rows // 8, chosen)
        return found

    def registers(self, x: Wave) -> np.ndarray:
        """Those of all threads, (warps, 32)."""
        return np.ascontiguousarray(np.broadcast_to(self.data(x), x.n)).reshape(-1, WARP)

    def read(self, x: Wave) -> np.ndarray:
        """Raw bits (warps, rows, factors)."""
        first, chosen = self.selected(x)
        words = self.registers(x)[:, self.threads(chosen)]
        return np.ascontiguousarray(words)[..., None].view(np.uint8)[..., first : first + self.factors].copy()


class _FragmentOrigins:
    """The sources of the operands of a block-scaled or sparse instruction, if they are followed."""

    def __init__(
        self, i: Instruction, c: Linker, of: MmaSync, parts: Sequence[Sequence[Operand]], metadata: tuple[Operand, MmaSync] | None, scales: Sequence[_Scales],
    ) -> None:  # fmt: skip
        self._of, self._scales = of, scales
        self._operands = [followed_stores(i, c, part, CELL) for part in parts[1:3]]
        self._metadata = None if metadata is None else followed_stores(i, c, [metadata[0]], CELL)
        self._factors = [followed_stores(i, c, [one.operand], CELL) for one in scales]
        places = [of.bytes_of(side) for side in "ab"]
        self._places = [(thread[:, half], byte[:, half]) for thread, byte in places for half in [[0, thread.shape[1] // 2]]]

    def of(self, x: Wave, metadata: np.ndarray | None) -> Fragments | None:
        """The origins of the running warps' operands, with the metadata's registers (warps, 32)."""
        if origins_of(x) is None or None in self._operands:
            return None
        a, b = (
            origin(x).reshape(x.n // WARP, WARP, -1)[:, thread, byte]
            for origin, (thread, byte) in zip(cast("list[Origin]", self._operands), self._places, strict=True)
        )
        scales = []
        for one, origin in zip(self._scales, self._factors, strict=True):
            byte, chosen = one.selected(x)
            origins = np.full((x.n // WARP, WARP, CELL), FOREIGN, np.int64) if origin is None else origin(x).reshape(-1, WARP, CELL)
            scales.append(FragmentScales(one.registers(x), origins, one.threads(chosen), slice(byte, byte + one.factors)))
        of_metadata = None
        if metadata is not None:
            of_metadata = Metadata(
                self._of.metadata_places, metadata, None if self._metadata is None else self._metadata(x).reshape(-1, WARP, CELL)
            )
        first = x.threads[::WARP]
        warps = list(zip(x.numbers[x.cta_of[first]].tolist(), x.tid[first].tolist(), strict=True))
        return Fragments(warps, self._of, a, b, (scales[0], scales[1]) if scales else None, of_metadata)


def _kind_of(i: Instruction, words: Modifiers) -> tuple[str, int]:
    """(the word after `.kind::`, scale factors of a row) of a name; "" and 0 without."""
    kind = next((word.removeprefix("kind::") for word in words.left if word.startswith("kind::")), "")
    if not kind:
        return "", 0
    words.need(f"kind::{kind}")
    size = words.one_of(("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"))
    if not words.has("block_scale"):
        return kind, 0
    default = next((v.factors for v in SCALE_VECTORS.get(kind, ()) if v.is_default), 0)
    factors = int(size[-2]) if size else default
    if not factors:
        raise unmodelled(i, f".kind::{kind} needs .scale_vec")
    return kind, factors


def _named(i: Instruction, words: Modifiers, arch: str) -> MmaSync | QuadPairs:
    """The instruction that the name says."""
    kind, factors = _kind_of(i, words)
    is_sparse = bool(words.one_of(("sp", "sp::ordered_metadata")))
    shape = _shape(words)
    layouts = [word for word in words.left if word in ("row", "col")]
    words.left = [word for word in words.left if word not in ("row", "col")]
    satfinite, rounding = words.has("satfinite"), words.one_of(MODES)
    d_type, a_type, b_type, c_type = (words.left.pop(0) if words.left else "" for _ in range(4))
    scale_type = words.left.pop(0) if factors and words.left else ""
    xor = a_type == "b1" and words.need("xor", "and") == "xor"
    if a_type == "b1":
        words.need("popc")
    words.end()
    if shape == QUAD_PAIR_SHAPE and a_type == "f16" and not is_sparse:
        if satfinite or rounding or len(layouts) != 2 or b_type != "f16":
            raise unmodelled(i, "these types or modifiers")
        return QuadPairs(layouts[0], layouts[1], d_type, c_type)
    if layouts != ["row", "col"]:
        raise unmodelled(i, f"layouts .{'.'.join(layouts)}")
    if c_type != d_type:
        raise unmodelled(i, f"C of .{c_type} and D of .{d_type}")
    of = MmaSync(
        shape, a_type, b_type, d_type, is_sparse=is_sparse, satfinite=satfinite, xor=xor, rounding=MODES[rounding or "rn"], arch=arch, kind=kind, factors=factors,
        scale_type=scale_type,
    )  # fmt: skip
    if rounding and a_type != "f64":
        raise InputError(f".{rounding}: mma.sync with {a_type} has no rounding")
    return of


def _follow(
    x: Wave, i: Instruction, parts: Sequence[Sequence[Operand]], places: tuple[tuple[np.ndarray, np.ndarray], ...] | None,
    metadata: tuple[Operand, MmaSync] | None, values: tuple[np.ndarray, np.ndarray] | None, scales: Sequence[_Scales] = (),
    held: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:  # fmt: skip
    """The registers of D get the marks of C. They also get those of A and its metadata row by row, and those of B
    column by column. `parts` are the registers of D, A, B and C.

    Without `places`, as `MmaSync` has them, all of them get the marks of all registers of the warp. If the elements of
    A and B are always numbers, `values` has their registers. Then a factor of zeros has no effect. `held` has these
    registers in any case: a column of garbage may end with zeros.
    """
    taint, origins, warps = _taint(x), _taint(x).origins, x.n // WARP
    if places is None:
        marks = taint.of_registers([item for part in parts[1:] for item in part], x.threads)
        of_warps = 0 if marks is None else [origins.computed(i, taint.of_warps(list(marks), x.threads), is_result=True)] * len(parts[0])
        taint.put_registers(parts[0], x.threads, of_warps)
        return
    a, b, c = (taint.of_registers(part, x.threads) for part in parts[1:])
    row, column = places[2]
    of_elements = np.zeros((len(row), WARP, warps), np.int32)
    idle = (None, None) if values is None else [_are_zeros(*one) for one in zip(values[::-1], (b, a), places[1::-1], strict=True)]
    operands = ((a, places[0], row, idle[0]), (b, places[1], column, idle[1]))
    for side, (marks, (thread, register), at, nothing) in enumerate(operands):
        if marks is not None:
            of_operand = marks.reshape(len(marks), warps, WARP)[register, :, thread]
            of_rows = origins.all(of_operand if nothing is None else np.where(nothing, np.int32(0), of_operand), axis=1)
            is_zero = False if held is None else (held[side] == 0)[register, :, thread]
            is_pure = (of_operand != 0).any(axis=1) & ((of_operand != 0) | is_zero).all(axis=1)
            of_rows = np.where(is_pure, origins.pure(i, of_rows), origins.computed(i, of_rows, is_result=True))
            of_elements = origins.join(of_elements, of_rows[at])
    if metadata is not None and (marks := taint.of_registers([metadata[0]], x.threads)) is not None:
        of_rows = origins.all(marks.reshape(warps, WARP)[:, metadata[1].metadata_threads], axis=2).T
        of_elements = origins.join(of_elements, origins.computed(i, of_rows, is_result=True)[row])
    for one, at in zip(scales, (row, column), strict=False):
        if (marks := taint.parts_of_registers([one.operand], x.threads)) is not None:
            byte, chosen = one.selected(x)
            of_factors = origins.all(marks[0, :, byte : byte + one.factors], axis=1)
            of_lines = of_factors.reshape(warps, WARP)[:, one.threads(chosen)].T
            of_elements = origins.join(of_elements, origins.computed(i, of_lines, is_result=True)[at])
    of_registers = origins.all(of_elements.transpose(0, 2, 1).reshape(len(parts[0]), -1, x.n), axis=1)
    of_c = np.zeros_like(of_registers) if c is None else c
    is_added = np.stack([_is_value(x, register) for register in parts[3]]) & (of_c == 0)
    of_registers = np.where(is_added, origins.computed(i, of_registers, is_result=True), of_registers)
    of_c = np.where(of_registers != 0, of_c, origins.computed(i, of_c, is_result=True))
    taint.put_registers(parts[0], x.threads, origins.join(of_registers, of_c))


def _is_value(x: Wave, register: Operand) -> np.ndarray:
    """In which threads does a register of C hold something else than 0?"""
    if not isinstance(register, Register):
        return np.zeros(x.n, bool)
    found: np.ndarray = x.r[register.slot][x.threads] != 0
    return found


def _are_zeros(values: np.ndarray, marks: np.ndarray | None, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(k, warps) are all elements at a k zero, in registers (registers, warps, 32) whose values are certain?"""
    thread, register = places
    are_zero = values == 0 if marks is None else (values == 0) & (marks.reshape(values.shape) == 0)
    found: np.ndarray = are_zero[register, :, thread].all(axis=0)
    return found


def note_inferred(x: Wave, evidence: Mapping[str, str]) -> None:
    """Note the instructions that are not measured on this architecture."""
    if x.launch.arch in evidence:
        x.launch.result.evidence.add(evidence[x.launch.arch])


def _stacked(reads: list[Read], x: Wave) -> np.ndarray:
    """Registers (registers, warps, 32)."""
    return np.stack([np.broadcast_to(read(x), x.n) for read in reads]).reshape(len(reads), -1, WARP)


# ---- `wmma.load`, `wmma.mma` and `wmma.store` (PTX ISA 9.1 §9.7.14.4): matrices as fragments with an unspecified
# layout


# loaded at once
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s32": 4, "s8": 1, "u8": 1, "f64": 8, "s4": 4, "u4": 4, "b1": 4}
_LAYOUT = "which thread holds which element of a wmma fragment is made up (the PTX ISA leaves it open)"


def _extent(which: str, shape: Shape, dtype: str) -> tuple[int, int]:
    """Rows and columns of the matrix that is a fragment of A, B, C or D, in elements or, of those that are packed, in
    words.
    """
    m, n, k = shape
    k //= PACKED.get(dtype, 1)
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _registers(which: str, shape: Shape, dtype: str) -> int:
    """Registers of a fragment."""
    if which in "ab" and dtype == "f16":
        return 8
    rows, columns = _extent(which, shape, dtype)
    return rows * columns // WARP // max(1, 4 // _BYTES[dtype])


def _shape(words: Modifiers) -> Shape:
    shape = next((m for word in words.left if (m := _SHAPE.fullmatch(word))), None)
    if shape is None:
        raise unmodelled(words.instruction, "without a shape")
    words.need(shape[0])
    return int(shape[1]), int(shape[2]), int(shape[3])


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
        if self.dtype in PACKED and column_major != (which == "b"):
            raise unmodelled(i, f".{'col' if column_major else 'row'} of {which.upper()} of .{self.dtype}")
        self.i, self.kind = i, "b64" if self.dtype == "f64" else "b32"
        self.size = _BYTES[self.dtype]
        self.packed = PACKED.get(self.dtype, 1)
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
        x.launch.result.evidence.add(_LAYOUT)
        count = memory.line.shape[1]
        values = np.empty((x.n, count), kind)
        marks: dict[int, np.ndarray] = {}  # by element those of its bytes, (threads, bytes)
        for memory.element in range(count):
            for piece in memory.where(x):
                note_read(x, i, piece, memory.size, is_joint=True)
                found = piece.memory.view(kind)[piece.at // memory.size]
                values[slice(None) if piece.part is None else piece.part, memory.element] = found
            if x.taint is not None and (read := x.taint.taken()) is not None:
                marks[memory.element] = read[x.threads, : memory.size]
        if x.taint is not None and (marks or x.taint.slots):
            _mark_fragment(x, memory.registers, marks, count, memory.size)
        registers = values.view(np.uint64 if memory.size == 8 else np.uint32)
        for n, write in enumerate(writes):
            write(x, registers[:, n % registers.shape[1]])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.4"), run)


@implements("wmma.store")
def build_store(i: Instruction, c: Linker) -> Step:
    """`wmma.store.d.sync.aligned.row.m16n16k16{.space}.f32 [p], {...} {, stride}`."""
    words, operands = Modifiers(i, "store", "d", "sync", "aligned"), Operands(i)
    memory = _Memory(i, c, words, operands, "d", address_first=True)
    reads = [c.read(item, memory.kind) for item in memory.registers]
    kind = np.dtype(f"u{memory.size}")

    def run(x: Wave) -> None:
        x.launch.result.evidence.add(_LAYOUT)
        values = np.ascontiguousarray(np.stack([np.broadcast_to(read(x), x.n) for read in reads], -1)).view(kind)
        marks = None if x.taint is None else _marks_of(x, memory.registers, memory.size)
        for memory.element in range(values.shape[1]):
            for piece in memory.where(x):
                mine = values[slice(None) if piece.part is None else piece.part, memory.element]
                written = values_of(x, piece, memory.size, lambda mine=mine: mine)  # type: ignore[misc]
                piece.memory.view(kind)[piece.at // memory.size] = mine
                note_write(x, i, piece, memory.size, written=written, is_joint=True)
                if marks is not None:
                    mine_of_marks = marks[:, memory.element]
                    _taint(x).stored(i, piece, memory.size, mine_of_marks if piece.part is None else mine_of_marks[piece.part])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.4"), run)


@implements("wmma.mma")
def build_wmma_mma(i: Instruction, c: Linker) -> Step:
    """`wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 d, a, b, c`, or with four types; `.satfinite` of integers."""
    operands, of = Operands(i), dataclasses.replace(_wmma_named(i), arch=c.arch)
    kind = "b64" if of.d_type == "f64" else "b32"
    targets = items(operands.next("D"), _registers("d", of.shape, of.d_type), "D")
    d = [c.write(item, kind) for item in targets]
    parts = [("a", of.a_type), ("b", of.a_type), ("c", of.c_type)]
    fragments = [items(operands.next(name), _registers(name, of.shape, t), name.upper()) for name, t in parts]
    reads = [[c.read(item, kind) for item in fragment] for fragment in fragments]
    operands.end()

    def matrix(x: Wave, which: int) -> np.ndarray:
        name, dtype = parts[which]
        rows, columns = _extent(name, of.shape, dtype)
        raw = np.ascontiguousarray(np.stack([np.broadcast_to(read(x), x.n) for read in reads[which]], -1))
        count = rows * columns // WARP
        return np.ascontiguousarray(raw.view(f"u{_BYTES[dtype]}").reshape(x.n, -1)[:, :count].reshape(-1, rows, columns))

    def run(x: Wave) -> None:
        x.launch.result.evidence.add(_LAYOUT)
        note_inferred(x, EVIDENCE if of.d_type != "s32" else {})
        a, b, c = (matrix(x, n) for n in range(3))
        product = of.execute(a, b, c)
        if x.events.warps_multiplied and of.a_type in ("f16", "bf16", "tf32", "s8", "u8"):
            of_c, of_d = (held.reshape(len(held), -1, WARP).swapaxes(0, 1) for held in (c, product))
            sides = {"a": a, "b": b.swapaxes(1, 2)}
            types = (of.a_type, of.a_type, of.d_type)
            products_of = WarpProducts(of.shape, types, x.threads[::WARP], of_c, of_d, lambda side, warp: sides[side][warp])
            x.events.warps_multiplied(x, i, products_of)
        if x.taint is not None and x.taint.slots:
            _follow_fragments(x, i, targets, fragments, parts, of)
        registers = np.ascontiguousarray(product.reshape(x.n, -1)).view(np.uint64 if of.d_type == "f64" else np.uint32)
        for n, write in enumerate(d):
            write(x, registers[:, n])

    return Gate(lambda x: whole_warps(i, x, "PTX ISA 9.1 §9.7.14.4"), run)


def _mark_fragment(x: Wave, registers: Sequence[Operand], marks: Mapping[int, np.ndarray], count: int, size: int) -> None:
    """The registers of a fragment have got elements of `size` bytes with these marks; other elements have none."""
    each = np.zeros((len(x.threads), count, size), np.int32)
    for element, own in marks.items():
        each[:, element, : own.shape[1]] = own
    _put_fragment(x, registers, each.reshape(len(x.threads), count * size))


def _taint(x: Wave) -> Taint:
    """The taint that follows values in doubt, if any exist."""
    return cast("Taint", x.taint)


def _put_fragment(x: Wave, registers: Sequence[Operand], marks: np.ndarray) -> None:
    """Registers have got values whose bytes have these marks (threads, bytes): those that are left repeat the first."""
    size = 8 if marks.shape[1] * WARP > len(registers) * WARP * 4 else 4
    of_registers = marks.reshape(len(marks), -1, size).transpose(1, 0, 2)
    _taint(x).put_parts_of_registers(registers, x.threads, of_registers[np.arange(len(registers)) % len(of_registers)])


def _marks_of(x: Wave, registers: Sequence[Operand], size: int) -> np.ndarray | None:
    """The marks of the elements of a fragment, of `size` bytes each: (threads, elements); None where there are none."""
    taint = _taint(x)
    found = taint.parts_of_registers(registers, x.threads, max(4, size)) if taint.slots else None
    return None if found is None else taint.origins.all(found.transpose(1, 0, 2).reshape(len(x.threads), -1, size), axis=2)


def _follow_fragments(
    x: Wave, i: Instruction, targets: Sequence[Operand], fragments: Sequence[Sequence[Operand]], parts: Sequence[tuple[str, str]], of: Wmma
) -> None:
    """D has the marks of C, row by row those of A, and column by column those of B."""
    origins, rows, columns = _taint(x).origins, of.shape[0], of.shape[1]
    found = np.zeros((x.n // WARP, rows, columns), np.int32)
    for (name, dtype), fragment in zip(parts, fragments, strict=True):
        marks = _marks_of(x, fragment, _BYTES[dtype])
        if marks is None:
            continue
        high, wide = _extent(name, of.shape, dtype)
        matrices = marks[:, : high * wide // WARP].reshape(-1, high, wide)
        if name != "c":
            matrices = np.expand_dims(origins.all(matrices, axis=2 if name == "a" else 1), 2 if name == "a" else 1)
        found = origins.join(found, np.broadcast_to(origins.computed(i, matrices, is_result=True), found.shape))
    _put_fragment(x, targets, found.reshape(x.n, -1).repeat(_BYTES[of.d_type], axis=1))


def _wmma_named(i: Instruction) -> Wmma:
    """The instruction that the name says."""
    words = Modifiers(i, "mma", "sync", "aligned")
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
    if a_type != b_type or bool(operation) != (a_type == "b1"):
        raise unmodelled(i, f"A of .{a_type}, B of .{b_type}{f' with .{operation}' if operation else ''}")
    return Wmma(shape, a_type, c_type, d_type, satfinite=satfinite, xor=operation == "xor", rounding=MODES[rounding or "rn"])
