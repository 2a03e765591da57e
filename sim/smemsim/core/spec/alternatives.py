"""Alternatives of rules that are not measured on Blackwell. Each can be run (`assuming`, --assume RULE=ALTERNATIVE).

A row names the rule (`smemsim.RULES`), the alternative and the reason for it. Its function applies it at a point of
`smemsim.core.spec.assumptions`. `smemsim.core.spec.refuted` has the programs that refute it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.spec.assumptions import exchange, in_force
from smemsim.core.spec.fields import Word
from smemsim.core.spec.instr_descriptor import BLOCK_SCALED, MXF4, PLAIN
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.core.spec.swizzles import Swizzle

__all__ = ["ALIKE", "ALTERNATIVES", "EXPERIMENTS", "Alternative", "alternative_of", "assuming", "of_rule"]


class Alternative(NamedTuple):
    """One alternative: `change` makes of what passes at `point` what the alternative would have there."""

    rule: str
    name: str
    sentence: str
    source: str  # why one could think so
    point: str
    change: Callable[..., Any]
    only: str = ""  # the one card that has what it is about

    def __str__(self) -> str:
        return f"{self.rule}={self.name}"


# ---- Words: the instruction descriptor and the matrix descriptor


_FORMATS: dict[str, tuple[Word, tuple[str, ...]]] = {
    "plain": (PLAIN, ("f16", "tf32", "f8f6f4", "i8")),
    "scaled": (BLOCK_SCALED, ("mxf8f6f4",)),
    "mxf4": (MXF4, ("mxf4", "mxf4nvf4")),
}
_ALL = tuple(kind for _, kinds in _FORMATS.values() for kind in kinds)
_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")


def _word(change: Callable[[int], int], kinds: tuple[str, ...] = _ALL) -> Callable[..., Any]:
    """A change of the instruction descriptors of some kinds."""
    return lambda word, kind: change(int(word) & 0xFFFFFFFF) if kind in kinds else word


def _moved(low: int, width: int, by: int) -> Callable[[int], int]:
    """A field read `by` bits further up."""
    mask = (1 << width) - 1
    return lambda word: word & ~(mask << low) | (word >> low + by & mask) << low


def _swapped(first: int, second: int, width: int) -> Callable[[int], int]:
    """Two fields in each other's place."""
    mask = (1 << width) - 1
    return lambda word: word & ~(mask << first | mask << second) | (word >> first & mask) << second | (word >> second & mask) << first


def _code_swap(low: int, width: int, one: int, other: int) -> Callable[[int], int]:
    """Two codes of a field with each other's meaning."""
    mask, codes = (1 << width) - 1, {one: other, other: one}
    return lambda word: word & ~(mask << low) | codes.get(word >> low & mask, word >> low & mask) << low


def _refused(bits: int, kinds: tuple[str, ...]) -> Callable[..., Any]:
    def change(word: int, kind: str) -> int:
        if kind in kinds and word & bits:
            raise InputError(f"instruction descriptor {word:#010x}: reserved bits {word & bits:#x} are set, which is assumed to trap")
        return word

    return change


def _reserved(word: Word) -> int:
    fields = [f for name, f in word.fields.items() if name.startswith("_") or name == "sparsity_version"]
    return sum(f.mask << f.low for f in fields)


def _all_reserved(word: int, kind: str) -> int:
    table = next(table for table, kinds in _FORMATS.values() if kind in kinds)
    changed: int = _refused(_reserved(table), (kind,))(word, kind)
    return changed


_UNSEEN = ("sparsity_version", "max_shift")  # no D of one instruction says how they are read


def _bits_named(low: int, high: int) -> str:
    return f"bit {low}" if low == high else f"bits {high}:{low}"


def _idesc() -> Iterator[Alternative]:
    """Every field one bit further up or down. That bit 13 negates B and bit 14 A is none: (-a) b is a (-b)."""
    for form, (table, kinds) in _FORMATS.items():
        for name, field in table.fields.items():
            if name.startswith("_") or name in _UNSEEN:
                continue
            for by, where in ((1, "up"), (-1, "down")):
                if not field.low + by >= 0 or field.high + by > 31:
                    continue
                sentence = f"{name} of {' and '.join(kinds)} is in {_bits_named(field.low + by, field.high + by)}, one bit further {where}"
                yield Alternative(
                    "tcgen05.idesc", f"{form}_{name}_{where}", sentence, f"off by one bit: {field.source} read wrong", "idesc.word",
                    _word(_moved(field.low, field.width, by), kinds),
                )  # fmt: skip


# lowest bits of layout code, base_offset, LBO and SBO in tcgen05's matrix descriptor
_CODE, _BASE, _LBO, _SBO = 61, 49, 16, 32
_14 = (1 << 14) - 1


def _fields(words: np.ndarray, low: int, mask: int) -> np.ndarray:
    found: np.ndarray = words >> np.uint64(low) & np.uint64(mask)
    return found


def _with(words: np.ndarray, low: int, mask: int, value: np.ndarray) -> np.ndarray:
    out: np.ndarray = words & ~np.uint64(mask << low) | (value & np.uint64(mask)) << np.uint64(low)
    return out


def _roles(swizzled: bool | None, k_major: bool) -> Callable[..., Any]:
    """LBO and SBO exchanged in these modes."""

    def change(words: np.ndarray, is_k_major: bool) -> np.ndarray:
        lbo, sbo = _fields(words, _LBO, _14), _fields(words, _SBO, _14)
        other = _with(_with(words, _LBO, _14, sbo), _SBO, _14, lbo)
        chosen = np.ones(words.shape, bool) if swizzled is None else (_fields(words, _CODE, 7) != 0) == swizzled
        return np.where(chosen, other, words) if is_k_major == k_major else words

    return change


def _start(keep: int, swizzled: bool = False) -> Callable[..., Any]:
    """Only these of the 14 bits of the start count."""
    return lambda words, _: np.where((_fields(words, _CODE, 7) != 0) | (not swizzled), _with(words, 0, _14, words & np.uint64(keep)), words)


def _base(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., Any]:
    """Another base_offset: of the words and what they have there."""
    return lambda words, _: _with(words, _BASE, 7, change(words, _fields(words, _BASE, 7)))


def _base_moves(words: np.ndarray, _: bool) -> np.ndarray:
    moved = _with(words, 0, _14, words + _fields(words, _BASE, 7) * np.uint64(8))
    return np.where(_fields(words, _CODE, 7) == 0, moved, words)


def _past_width(words: np.ndarray, k_major: bool) -> np.ndarray:
    return np.where(_fields(words, _CODE, 7) == 6, _with(words, _LBO, _14, np.full_like(words, 2)), words) if k_major else words


def _past_width_sbo(words: np.ndarray, k_major: bool) -> np.ndarray:
    return np.where(_fields(words, _CODE, 7) == 6, _with(words, _LBO, _14, _fields(words, _SBO, _14)), words) if k_major else words


def _constant(words: np.ndarray, _: bool) -> np.ndarray:
    if (_fields(words, 46, 7) != 1).any():
        raise InputError("a matrix descriptor whose bits 48:46 are not 0b001, which is assumed to trap")
    return words


def _field(row: int, column: int, value: int) -> Callable[..., Any]:
    """Another place, mask or unit of a field: rows start, LBO, SBO; columns lowest bit, mask, shift."""

    def change(tables: tuple[np.ndarray, np.ndarray], _: bool) -> tuple[np.ndarray, np.ndarray]:
        fields = tables[0].copy()
        fields[row, column] = value
        return fields, tables[1]

    return change


def _mode(code: int, **changed: int) -> Callable[..., Any]:
    """Another swizzle for a layout code."""

    def change(tables: tuple[np.ndarray, np.ndarray], _: bool) -> tuple[np.ndarray, np.ndarray]:
        modes = tables[1].copy()
        for column, name in enumerate(("width", "mask", "shift", "k_rows")):
            modes[code, column] = changed.get(name, modes[code, column])
        return tables[0], modes

    return change


def _mode_swap(one: int, other: int) -> Callable[..., Any]:
    def change(tables: tuple[np.ndarray, np.ndarray], _: bool) -> tuple[np.ndarray, np.ndarray]:
        modes = tables[1].copy()
        modes[[one, other]] = modes[[other, one]]
        return tables[0], modes

    return change


# ---- Tensor memory


def _path(name: str, **changed: Any) -> Callable[..., Any]:
    return lambda path: path._replace(**changed) if path.name == name else path


def _cell(names: str, place: Callable[..., Any]) -> Callable[..., Any]:
    """Other (lane, column) of D in layouts of these letters: `place` of row in the CTA, n, lane, column counted from
    the address, N.
    """

    def change(cell: tuple[Any, Any, Any], layout: Any, m: Any, n: Any) -> tuple[Any, Any, Any]:
        if layout.name not in names:
            return cell
        cta, lane, column = cell
        lane, column = place(m % (layout.m // layout.cta_group), n, lane, column - layout.column, layout.n)
        return cta, lane, layout.column + column

    return change


def _of_wgmma(row: Any) -> Any:
    """The lane of a row of 128 where each warp has 16 rows of every 64."""
    return row % 64 // 16 * 32 + row // 64 * 16 + row % 16


def _a_bits(change: Callable[..., Any]) -> Callable[..., Any]:
    def changed(cell: tuple[Any, ...], layout: Any, m: Any, k: Any, copy: Any) -> tuple[Any, ...]:
        cta, lane, column, bit = cell
        column, bit = change(layout, k, column, bit)
        return cta, lane, column, bit

    return changed


def _wide(bits: int, of: int) -> Callable[..., Any]:
    """A's elements of `of` bits take `bits`."""

    def change(layout: Any, k: Any, column: Any, bit: Any) -> tuple[Any, Any]:
        return (layout.column + k * bits // 32, k * bits % 32) if layout.bits == of else (column, bit)

    return _a_bits(change)


def _a_lane(change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda cell, layout, m, k, copy: (cell[0], change(cell[1], layout, m, copy), *cell[2:])


def _scale(change: Callable[..., Any]) -> Callable[..., Any]:
    """Another (lane, column, byte) of scale factors."""

    def changed(cell: tuple[Any, ...], layout: Any, row: Any, index: Any, copy: Any) -> tuple[Any, ...]:
        cta, lane, column, byte = cell
        lane, column, byte = change(layout, row, index, copy, lane, column - layout.column, byte)
        return cta, lane, layout.column + column, byte

    return changed


def _unsplit(layout: Any, row: Any, index: Any, copy: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any, Any]:
    """All rows of B in every 64 lanes: a half of N, which is computed in 64 lanes, takes its factors from those, at the
    rows' own numbers.
    """
    if layout.operand != "B" or layout.cta_group != 2 or layout.m != 128:
        return lane, column, byte
    return row % 32 + row // (layout.n // 2) * 64 + copy % 2 * 32, row // 32, byte


def _consecutive(layout: Any, row: Any, index: Any, copy: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any, Any]:
    inside = row % layout.rows if layout.operand == "A" else row
    return lane // 32 * 32 + inside % 128 // 4, inside // 128 * 4 + inside % 4, byte


def _second_cell(layout: Any, row: Any, index: Any, copy: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any, Any]:
    beyond = (layout.scale_id + index) // 4
    return lane, column - beyond * (-(-layout.rows // 128) * 4) + beyond, byte


def _second_cell_4(layout: Any, row: Any, index: Any, copy: Any, lane: Any, column: Any, byte: Any) -> tuple[Any, Any, Any]:
    beyond = (layout.scale_id + index) // 4
    return lane, column - beyond * (-(-layout.rows // 128) * 4) + 4 * beyond, byte


def _meta(change: Callable[..., Any]) -> Callable[..., Any]:
    def changed(cell: tuple[Any, ...], layout: Any, m: Any, k: Any) -> tuple[Any, ...]:
        return (cell[0], *change(layout, m, k, *cell[1:]))

    return changed


def _plain_rows(layout: Any, m: Any, k: Any, lane: Any, column: Any, bit: Any) -> tuple[Any, Any, Any]:
    pair_bits = {"f16": 2, "tf32": 4}.get(layout.kind)
    return (m % layout.rows + 0 * lane, column, k * pair_bits // 2 + 0 * bit) if pair_bits else (lane, column, bit)


def _register(shape: str, cell: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, of, thread, register: cell(thread, register) if of == shape else value


def _copies(name: str, multicast: str, **changed: int) -> Callable[..., Any]:
    return lambda row: row._replace(**changed) if (row.name, row.multicast) == (name, multicast) else row


def _warps_of_64(row: Any) -> Any:
    """.warpx2::02_13 and .warpx2::01_23 exchanged."""
    if row.name != "64x128b":
        return row
    alike = {"run": 32, "run_step": 64, "copy_step": 32} if row.multicast.endswith("02_13") else {"run": 64, "run_step": 0, "copy_step": 64}
    return row._replace(**alike)


def _shifted(name: str, shift: int) -> Callable[..., Any]:
    return lambda row: row._replace(shift=shift) if row.name == name else row


def _dealt(rows: list[np.ndarray], size: int) -> list[np.ndarray]:
    """Rows of two CTAs in turn, `size` at a time."""
    parts = [part.reshape(-1, min(size, len(part)), part.shape[-1]) for part in rows]
    return [np.stack(parts, axis=1).reshape(-1, rows[0].shape[-1])]


def _by_turns(rows: list[np.ndarray]) -> list[np.ndarray]:
    """The order that leaves the even rows of the product in the first CTA and the odd ones in the second."""
    every = np.concatenate(rows)
    return [every[0::2], every[1::2]]


def _pair(side: str, change: Callable[[list[np.ndarray]], list[np.ndarray]]) -> Callable[..., Any]:
    return lambda rows, of: change(list(rows)) if of == side else rows


# ---- Arithmetic


_FLOATS = ("f16", "tf32", "f8f6f4", "mxf8f6f4")
_FOUR_BITS = ("mxf4", "mxf4nvf4")


def _row(kinds: tuple[str, ...], d_type: str = "", **changed: Any) -> Callable[..., Any]:
    def change(row: MmaArithmetic) -> MmaArithmetic:
        is_meant = set(kinds) & set(row.kinds) and row.kept_bits is not None and d_type in ("", row.d_type)
        return row._replace(**changed) if is_meant else row

    return change


def _sync(arches: tuple[str, ...], change: Callable[[MmaArithmetic], MmaArithmetic]) -> Callable[..., Any]:
    """A change of the sums of mma.sync on some cards."""
    return lambda row, arch: change(row) if arch in arches and row.kept_bits is not None else row


_AMPERE, _RTX = ("sm_80", "sm_86", "sm_89"), ("sm_120a", "sm_121a")
_IS_FP8 = frozenset(("e4m3", "e5m2"))


def _bits(kept: int, only_fp8: bool = False) -> Callable[[MmaArithmetic], MmaArithmetic]:
    return lambda row: row._replace(kept_bits=kept) if row.group == 1 and (not only_fp8 or set(row.a_types) >= _IS_FP8) else row


def _ungrouped(row: MmaArithmetic) -> MmaArithmetic:
    return row._replace(group=1, kept_bits=25, zero_exponent=-133) if set(_FOUR_BITS) & set(row.kinds) else row


def _in_parts(count: int, backwards: bool = False) -> Callable[..., Any]:
    """K in `count` parts, one dot product after the other: D of one is C of the next."""

    def change(product: Callable[..., np.ndarray], row: MmaArithmetic) -> Callable[..., np.ndarray]:
        if row.kept_bits is None:
            return product

        def parts(a: np.ndarray, b: np.ndarray, c: np.ndarray, *, index: Any, factors: Any, options: Any, **given: Any) -> np.ndarray:
            k = b.shape[-1]
            size = k // count
            if index is not None or k % count or (factors is not None and size % factors.k_per_factor):
                return product(a, b, c, index=index, factors=factors, options=options, **given)
            steps = [slice(first, first + size) for first in range(0, k, size)]
            for step in steps[::-1] if backwards else steps:
                some = factors
                if factors is not None:
                    of = slice(step.start // factors.k_per_factor, step.stop // factors.k_per_factor)
                    some = factors.of(factors.a[..., of], factors.b[..., of])
                c = product(a[..., step], b[..., step], c, index=None, factors=some, options=options, **given)
                options = options._replace(scale_c=0)
            return c

        return parts

    return change


def _c_last(product: Callable[..., np.ndarray], row: MmaArithmetic) -> Callable[..., np.ndarray]:
    """The products alone, then C to nearest."""
    if row.d_type != "f32":
        return product

    def added(a: np.ndarray, b: np.ndarray, c: np.ndarray, *, options: Any, **given: Any) -> np.ndarray:
        d = product(a, b, np.zeros_like(c), options=options, **given).view(np.float32)
        start = np.ascontiguousarray(c, np.uint32).view(np.float32) * np.float32(2.0**-options.scale_c)
        with np.errstate(all="ignore"):  # infinities that cancel
            return np.asarray(d + start).view(np.uint32)

    return added


def _given(change: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Other A, B, C, factors or options: `change` of them and of the types."""

    def around(product: Callable[..., np.ndarray], row: MmaArithmetic) -> Callable[..., np.ndarray]:
        def changed(a: Any, b: Any, c: Any, *, types: Any, options: Any, factors: Any, **given: Any) -> np.ndarray:
            a, b, c, options, factors = change(a, b, c, options, factors, types)
            return product(a, b, c, types=types, options=options, factors=factors, **given)

        return changed

    return around


_SMALL = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000, "e4m3": 0x78, "e5m2": 0x7C}  # bits of the exponent


def _flushed(x: np.ndarray, dtype: str) -> np.ndarray:
    return np.where(x & np.asarray(_SMALL[dtype], x.dtype), x, 0).astype(x.dtype) if dtype in _SMALL else x


def _rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return (x + np.uint32(0x1000)).astype(np.uint32) if dtype == "tf32" else x


def _factors(change: Callable[[np.ndarray], np.ndarray], dtype: str) -> Callable[..., Any]:
    def changed(a: Any, b: Any, c: Any, options: Any, factors: Any, types: Any) -> tuple[Any, ...]:
        if factors is not None and factors.dtype == dtype:
            factors = factors.of(*(change(x.astype(np.int64)).astype(np.uint8) for x in (factors.a, factors.b)))
        return a, b, c, options, factors

    return _given(changed)


def _result(change: Callable[[np.ndarray], np.ndarray], d_type: str) -> Callable[..., Any]:
    def around(product: Callable[..., np.ndarray], row: MmaArithmetic) -> Callable[..., np.ndarray]:
        return (lambda *args, **given: change(product(*args, **given))) if row.d_type == d_type else product

    return around


def _saturated(always: bool) -> Callable[..., Any]:
    return _given(lambda a, b, c, options, factors, types: (a, b, c, options._replace(saturate=always), factors))


# ---- Allocation


def _highest(column: int | None, count: int, taken: np.ndarray) -> int | None:
    begins = range(len(taken) - count, -1, -count)
    return next((n for n in begins if not taken[n : n + count].any()), None)


def _unaligned(column: int | None, count: int, taken: np.ndarray) -> int | None:
    begins = range(0, len(taken) - count + 1, 32)
    return next((n for n in begins if not taken[n : n + count].any()), None)


def _first_of_largest(column: int | None, count: int, taken: np.ndarray) -> int | None:
    half = len(taken) // 2
    upper = [n for n in range(half, len(taken) - count + 1, count) if not taken[n : n + count].any()]
    return upper[0] if upper else column


_D, _H, _O = "another reading of the document", "Hopper's rule", "the other of two choices that the document leaves open"
_IDESC, _PAIR, _ACC, _OPS, _LDST = "tcgen05.idesc", "tcgen05.pair", "tcgen05.accumulator", "tcgen05.tensor_operands", "tcgen05.ld_st"
_ARITH, _SWIZZLE = "arithmetic.tcgen05", "operand.swizzle"
# fmt: off
ALTERNATIVES: dict[str, Alternative] = {str(a): a for a in (
    *_idesc(),
    Alternative(_IDESC, "majors_exchanged", "bit 15 is B's major-ness and bit 16 A's", _D, "idesc.word", _word(_swapped(15, 16, 1), _ALL[:5])),
    Alternative(_IDESC, "majors_inverted", "0 means MN-major and 1 K-major, as 'transpose' may be read", _D, "idesc.word", _word(lambda w: w ^ 3 << 15, _ALL[:5])),
    Alternative(_IDESC, "types_exchanged", "bits 9:7 are B's type and 12:10 A's", _D, "idesc.word", _word(_swapped(7, 10, 3), _ALL[:5])),
    Alternative(_IDESC, "f16_and_bf16", "type 0 is bf16 and 1 f16", "other order of codes", "idesc.word", _word(lambda w: w ^ (1 << 7 | 1 << 10), ("f16",))),
    Alternative(_IDESC, "e4m3_and_e5m2", "type 0 is e5m2 and 1 e4m3", "other order of codes", "idesc.word", _word(lambda w: _code_swap(7, 3, 0, 1)(_code_swap(10, 3, 0, 1)(w)), ("f8f6f4", "mxf8f6f4"))),
    Alternative(_IDESC, "e2m3_and_e3m2", "type 3 is e3m2 and 4 e2m3", "other order of codes", "idesc.word", _word(lambda w: _code_swap(7, 3, 3, 4)(_code_swap(10, 3, 3, 4)(w)), ("f8f6f4", "mxf8f6f4"))),
    Alternative(_IDESC, "e2m1_is_4", "e2m1 has code 4, and 6-bit types 3 and 5", "other order of codes", "idesc.word", _word(lambda w: _code_swap(7, 3, 4, 5)(_code_swap(10, 3, 4, 5)(w)), ("f8f6f4", "mxf8f6f4"))),
    Alternative(_IDESC, "s8_and_u8", "type 0 is s8 and 1 u8", "other order of codes", "idesc.word", _word(lambda w: w ^ (1 << 7 | 1 << 10), ("i8",))),
    Alternative(_IDESC, "d_f16_and_f32", "D's code 0 is f32 and 1 f16", "other order of codes", "idesc.word", _word(_code_swap(4, 2, 0, 1), ("f16", "f8f6f4"))),
    Alternative(_IDESC, "scale_types_exchanged", "bit 23: 0 is ue8m0 and 1 ue4m3", "other order of codes", "idesc.word", _word(lambda w: w ^ 1 << 23, _SCALED)),
    Alternative(_IDESC, "scale_ids_exchanged", "bits 5:4 are A's scale id and 30:29 B's", _D, "idesc.word", _word(_swapped(4, 29, 2), _SCALED)),
    Alternative("tcgen05.idesc_bits", "trap", "a reserved bit that is set traps", "what sm_100a does with reserved bits is in no document", "idesc.word", _all_reserved),
    Alternative("tcgen05.idesc_bits", "bit_12_is_sparsity", "bit 12 of mxf4 and mxf4nvf4 makes the instruction sparse", "CuTe DSL calls it sparsity_version", "idesc.word", _word(lambda w: w | (w >> 12 & 1) << 2, _FOUR_BITS)),
    Alternative("tcgen05.idesc_bits", "bit_12_is_b_type", "B's type of mxf4 has bit 12 too", "it has in the two other formats", "idesc.word", _refused(1 << 12, _FOUR_BITS)),
    Alternative("tcgen05.idesc_bits", "bit_6_is_d_type", "the field of D's type has bit 6 too", "the bit after the field", "idesc.word", _refused(1 << 6, _ALL[:4])),
    Alternative("tcgen05.idesc_bits", "bit_23_is_n", "the field N has bit 23 too", "the bit after the field", "idesc.word", _refused(1 << 23, _ALL[:4])),
    Alternative("tcgen05.idesc_bits", "bit_29_is_m", "the field M has bit 29 too", "the bit after the field", "idesc.word", _refused(1 << 29, _ALL[:4])),
    Alternative("tcgen05.scale_address", "address_counts", "bits 31:30 of the address are the scale id, not the descriptor's field", "CUTLASS sets both alike", "scales.id", lambda of_descriptor, in_address, ids: in_address),
    Alternative("tcgen05.scale_address", "both_add", "bits 31:30 of the address are added to the descriptor's scale id", _O, "scales.id", lambda of_descriptor, in_address, ids: (of_descriptor + in_address) % 4),
    Alternative("tcgen05.scale_address", "address_first", "bits 31:30 of the address count if they are not 0", _O, "scales.id", lambda of_descriptor, in_address, ids: in_address or of_descriptor),
    Alternative("tcgen05.scale_address", "none", "factors begin at byte 0, whatever the id", "honoured or ignored field", "scales.id", lambda of_descriptor, in_address, ids: 0),
    *(Alternative(_PAIR, f"{side.lower()}_{name}", sentence.format(side), source, "pair.rows", _pair(side, change)) for side in "AB" for name, sentence, source, change in (
        ("interleaved", "the CTAs have the even and the odd rows of {}", "another way to halve", lambda rows: _dealt(rows, 1)),
        ("groups_of_8", "8 rows of {} in each CTA in turn", "core matrices have 8 rows", lambda rows: _dealt(rows, 8)),
        ("groups_of_16", "16 rows of {} in each CTA in turn", "another way to halve", lambda rows: _dealt(rows, 16)),
        ("groups_of_32", "32 rows of {} in each CTA in turn", "another way to halve", lambda rows: _dealt(rows, 32)),
        ("exchanged", "the odd CTA has the first half of {}", "other order of halves", lambda rows: rows[::-1]),
        ("of_leader", "both halves of {} are read in the even CTA", "the CTA that issues the instruction", lambda rows: [rows[0], rows[0]]),
    )),
    # D lies where the CTAs' rows of A come to lie in the product: exchanged halves of D are exchanged halves of A, so
    # there is no alternative d_exchanged.
    Alternative(_PAIR, "d_interleaved", "the CTAs hold the even and the odd rows of D", "another way to halve", "pair.rows", _pair("A", _by_turns)),
    Alternative(_ACC, "a_as_wgmma", "layout A: each warp has 16 rows of every 64", _H, "accumulator.cell", _cell("A", lambda row, n, lane, column, _: (_of_wgmma(row), column))),
    Alternative(_ACC, "d_as_wgmma", "layout D: each warp has 16 rows of every 64", _H, "accumulator.cell", _cell("D", lambda row, n, lane, column, _: (_of_wgmma(row), column))),
    Alternative(_ACC, "a_rows_in_turn", "layout A: rows go to the four warps in turn", "another way to share rows", "accumulator.cell", _cell("A", lambda row, n, lane, column, _: (row % 4 * 32 + row // 4, column))),
    Alternative(_ACC, "d_rows_in_turn", "layout D: rows go to the four warps in turn", "another way to share rows", "accumulator.cell", _cell("D", lambda row, n, lane, column, _: (row % 4 * 32 + row // 4, column))),
    Alternative(_ACC, "b_as_f", "layout B: 16 rows in every 32 lanes, all of N", "other layout letter", "accumulator.path", _path("B", split=1, block=16)),
    Alternative(_ACC, "b_halves_exchanged", "layout B: the upper half of N lies in lanes 0 to 63", "other order of halves", "accumulator.cell", _cell("B", lambda row, n, lane, column, _: (lane ^ 64, column))),
    Alternative(_ACC, "b_columns_in_turn", "layout B: even n lie in lanes 0 to 63, odd ones above", "another way to halve", "accumulator.cell", _cell("B", lambda row, n, lane, column, _: (row + n % 2 * 64, n // 2))),
    Alternative(_ACC, "b_interleaved", "layout B: halves of N 32 lanes apart, rows 32 on in lanes 64 on", "TMEM's other arrangement of 2x2", "accumulator.cell",
                _cell("B", lambda row, n, lane, column, width: (row % 32 + row // 32 * 64 + n // (width // 2) * 32, column))),
    Alternative(_ACC, "c_as_b", "layout C has two bands of 64 lanes, with half of N in each", "CUTLASS uses the 2x2 data path", "accumulator.path", _path("C", split=2, block=32)),
    Alternative(_ACC, "e_as_f", "layout E: 16 rows in every 32 lanes, all of N", "other layout letter", "accumulator.path", _path("E", split=1, block=16)),
    Alternative(_ACC, "e_halves_exchanged", "layout E: the upper half of N lies in lanes 0 to 63", "other order of halves", "accumulator.cell", _cell("E", lambda row, n, lane, column, _: (lane ^ 64, column))),
    Alternative(_ACC, "e_columns_in_turn", "layout E: even n lie in lanes 0 to 63, odd ones above", "another way to halve", "accumulator.cell", _cell("E", lambda row, n, lane, column, _: (row + n % 2 * 64, n // 2))),
    Alternative(_ACC, "f_as_e", "layout F: two bands of 64 lanes, half of N in each", "other layout letter", "accumulator.path", _path("F", split=2, block=32)),
    Alternative(_ACC, "f_dense", "layout F: rows 0 to 63 in lanes 0 to 63", "the simplest reading", "accumulator.path", _path("F", block=32)),
    Alternative(_ACC, "f_upper_lanes", "layout F: the upper 16 lanes of every 32", "other order of halves", "accumulator.cell", _cell("F", lambda row, n, lane, column, _: (lane ^ 16, column))),
    Alternative(_ACC, "f_every_second", "layout F: row r in lane 2 r", "another way to halve", "accumulator.cell", _cell("F", lambda row, n, lane, column, _: (row * 2, column))),
    Alternative(_ACC, "g_dense", "layout G: rows 0 to 31 in lanes 0 to 31, all of N", "the simplest reading", "accumulator.path", _path("G", split=1)),
    Alternative(_ACC, "g_reversed", "layout G: the first quarter of N lies in lanes 96 to 127", "other order of bands", "accumulator.cell", _cell("G", lambda row, n, lane, column, _: (lane ^ 96, column))),
    Alternative(_ACC, "g_columns_in_turn", "layout G: n goes to the four bands in turn", "another way to share columns", "accumulator.cell", _cell("G", lambda row, n, lane, column, _: (row + n % 4 * 32, n // 4))),
    Alternative(_OPS, "a_upper_half_first", "A of 16-bit types: the element with even k has bits 31:16", "other order of halves", "a.cell", _a_bits(lambda layout, k, column, bit: (column, bit ^ 16 if layout.bits == 16 else bit))),
    Alternative(_OPS, "a_bytes_reversed", "A of 8-bit types: the first of four elements has bits 31:24", "other order of bytes", "a.cell", _a_bits(lambda layout, k, column, bit: (column, bit ^ 24 if layout.bits == 8 else bit))),
    Alternative(_OPS, "a_16_bits_in_32", "A of 16-bit types: an element takes a cell, as D does", "D of f16 has a cell for each element", "a.cell", _wide(32, 16)),
    Alternative(_OPS, "a_8_bits_in_16", "A of 8-bit types: an element takes 16 bits", "other width of the container", "a.cell", _wide(16, 8)),
    Alternative(_OPS, "a_4_bits_in_8", "an element of A of mxf4 takes a byte of tensor memory", "as the 8-bit kinds have it", "a.cell", _wide(8, 4)),
    Alternative(_OPS, "a_as_wgmma", "A with 128 rows a CTA: each warp has 16 rows of every 64", _H, "a.cell", _a_lane(lambda lane, layout, m, copy: _of_wgmma(m % 128) if layout.m // layout.cta_group == 128 else lane)),
    Alternative(_OPS, "a_first_band", "A with several bands of N: only the first band's lanes are read", "A once, not in every band", "a.cell", _a_lane(lambda lane, layout, m, copy: lane - copy * (layout.m // layout.cta_group) if layout.copies > 1 else lane)),
    Alternative(_OPS, "scales_bytes_reversed", "scale i lies in byte 3 - i", "other order of bytes", "scales.cell", _scale(lambda layout, row, index, copy, lane, column, byte: (lane, column, 3 - byte))),
    Alternative(_OPS, "scales_rows_in_turn", "four rows that follow each other have one lane", "rows of scales in their natural order", "scales.cell", _scale(_consecutive)),
    Alternative(_OPS, "scales_of_pair_unsplit", "B's scales of pairs with M = 128: every 64 lanes have those of all rows, 32 a column", "PTX ISA 9.1 §9.7.16.10.7 asks for a copy in all four partitions", "scales.cell", _scale(_unsplit)),
    Alternative(_OPS, "scales_columns_reversed", "rows 0 to 31 in the last column", "other order of columns", "scales.cell",
                _scale(lambda layout, row, index, copy, lane, column, byte: (lane, column - column % 4 + 3 - column % 4 if layout.rows % 128 == 0 else column, byte))),
    Alternative(_OPS, "scales_id_ignored", "the first factor is byte 0, whatever the scale id", "honoured or ignored field", "scales.cell", _scale(lambda layout, row, index, copy, lane, column, byte: (lane, column, index % 4))),
    Alternative(_OPS, "scales_next_column", "K = 96: what goes past a cell goes on in the next column", "figures of PTX ISA 9.1 §9.7.16.10.7.2.4", "scales.cell", _scale(_second_cell), "sm_103a"),
    Alternative(_OPS, "scales_four_columns", "K = 96: what goes past a cell goes on 4 columns further, also for more than 128 rows", "figures of PTX ISA 9.1 §9.7.16.10.7.2.4", "scales.cell", _scale(_second_cell_4), "sm_103a"),
    Alternative(_OPS, "metadata_plain", "metadata of f16 and tf32: every row has its own lane", "as the 8-bit kinds have it", "metadata.cell", _meta(_plain_rows)),
    Alternative(_OPS, "metadata_rows_exchanged", "metadata of f16 and tf32: rows m + 8 have the lower half of a cell", "other order of halves", "metadata.cell", _meta(lambda layout, m, k, lane, column, bit: (lane, column, bit ^ 16 if layout.kind in ("f16", "tf32") else bit))),
    Alternative(_OPS, "metadata_k_exchanged", "metadata of f16 and tf32: the first half of K lies 8 lanes further", "other order of halves", "metadata.cell", _meta(lambda layout, m, k, lane, column, bit: (lane ^ 8 if layout.kind in ("f16", "tf32") else lane, column, bit))),
    Alternative(_OPS, "metadata_columns_exchanged", "metadata of 8- and 4-bit kinds: the first half of K lies in the second column", "other order of halves", "metadata.cell", _meta(lambda layout, m, k, lane, column, bit: (lane, column ^ 1 if layout.kind not in ("f16", "tf32") else column, bit))),
    Alternative(_OPS, "metadata_selector_exchanged", "selector 0 picks the odd column of a pair", "other order", "metadata.cell", _meta(lambda layout, m, k, lane, column, bit: (lane, column ^ 1 if layout.kind in ("f16", "tf32") else column, bit))),
    Alternative(_LDST, "16x64b_plain", "16x64b: two threads a lane, lane t / 2, column t mod 2", "the simplest reading", "ld_st.cell", _register("16x64b", lambda t, i: (t // 2, 2 * i + t % 2))),
    Alternative(_LDST, "16x64b_rows_in_turn", "16x64b: lane 2 (t / 4) + t mod 2", "rows 8 apart, or neighbours", "ld_st.cell", _register("16x64b", lambda t, i: (2 * (t // 4) + t % 2, 2 * i + t // 2 % 2))),
    Alternative(_LDST, "16x64b_bits_exchanged", "16x64b: lane 8 (t / 2 mod 2) + t / 4, column t mod 2", "figure 184 read the other way", "ld_st.cell", _register("16x64b", lambda t, i: (8 * (t // 2 % 2) + t // 4, 2 * i + t % 2))),
    Alternative(_LDST, "16x128b_rows_in_turn", "16x128b: lane 2 (t / 4) + h", "rows 8 apart, or neighbours", "ld_st.cell", _register("16x128b", lambda t, i: (2 * (t // 4) + i % 2, i // 2 * 4 + t % 4))),
    Alternative(_LDST, "16x128b_columns_first", "16x128b: two columns of 8 lanes in registers 0 and 1", "figure 185 read the other way", "ld_st.cell", _register("16x128b", lambda t, i: (t // 4 + 8 * (t % 2), i * 2 + t % 4 // 2))),
    Alternative(_LDST, "16x256b_registers_exchanged", "16x256b: register 1 is row + 8, register 2 the next column", "other order of registers", "ld_st.cell", _register("16x256b", lambda t, i: (t // 4 + 8 * (i % 2), i // 4 * 8 + 2 * (t % 4) + i // 2 % 2))),
    Alternative(_LDST, "16x256b_rows_in_turn", "16x256b: lane 2 (t / 4) + h", "rows 8 apart, or neighbours", "ld_st.cell", _register("16x256b", lambda t, i: (2 * (t // 4) + i // 2 % 2, i // 4 * 8 + 2 * (t % 4) + i % 2))),
    Alternative(_LDST, "16x256b_columns_4_apart", "16x256b: columns t mod 4 and t mod 4 + 4", "figure 186 read the other way", "ld_st.cell", _register("16x256b", lambda t, i: (t // 4 + 8 * (i // 2 % 2), i // 4 * 8 + t % 4 + 4 * (i % 2)))),
    Alternative(_LDST, "16x32bx2_in_turn", "16x32bx2: lane t / 2", "figure 187 read the other way", "ld_st.cell", _register("16x32bx2", lambda t, i: (t // 2, i))),
    Alternative(_LDST, "16x32bx2_all_lanes", "16x32bx2: threads 16 to 31 have lanes 16 to 31", "figure 187 read the other way", "ld_st.cell", _register("16x32bx2", lambda t, i: (t, i))),
    Alternative(_LDST, "32x32b_quads", "32x32b: thread t has lane 8 (t mod 4) + t / 4", "as the other shapes share lanes among threads", "ld_st.cell", _register("32x32b", lambda t, i: (8 * (t % 4) + t // 4, i))),
    Alternative("tcgen05.warp_window", "whole_lane", "the lane of the address counts, all 7 bits", "the PTX ISA requires the lane of the warp's window", "ld_st.window", lambda first, warp, lane: lane + 0 * warp),
    Alternative("tcgen05.warp_window", "added", "the warp's window is added to the lane", _O, "ld_st.window", lambda first, warp, lane: (warp % 4 * 32 + lane) % 128),
    Alternative("tcgen05.warp_window", "ored", "the lane in the address and the first lane of the warp are combined by OR", _O, "ld_st.window", lambda first, warp, lane: warp % 4 * 32 | lane),
    Alternative("tcgen05.warp_window", "lane_ignored", "the address has no lane at all: 32 times the warp", "honoured or ignored bits", "ld_st.window", lambda first, warp, lane: warp % 4 * 32 + 0 * lane),
    Alternative("tcgen05.warp_window", "bits_3_0", "bits 3:0 of the lane count", "honoured or ignored bits", "ld_st.window", lambda first, warp, lane: warp % 4 * 32 + lane % 16),
    Alternative("tcgen05.one_address", "own", "each thread's own address counts", "the PTX ISA leaves it undefined", "ld_st.address", lambda first, word, starts: word),
    Alternative("tcgen05.one_address", "last", "that of the warp's last thread counts", "the PTX ISA leaves it undefined", "ld_st.address", lambda first, word, starts: word[np.repeat([*starts[1:], len(word)], np.diff(starts, append=len(word))) - 1]),
    Alternative("tcgen05.one_address", "joined", "the bits of all threads' addresses are joined", "the PTX ISA leaves it undefined", "ld_st.address", lambda first, word, starts: np.repeat(np.bitwise_or.reduceat(word, starts), np.diff(starts, append=len(word)))),
    Alternative("tcgen05.cp", "warpx2_exchanged", ".warpx2::02_13 does what ::01_23 does, and the reverse", "the names read the other way", "cp.shape", _warps_of_64),
    Alternative("tcgen05.cp", "warpx4_once", ".32x128b.warpx4 writes lanes 0 to 31 alone", "multicast to warps, not to lanes", "cp.shape", _copies("32x128b", "warpx4", copies=1)),
    Alternative("tcgen05.cp", "warpx4_twice", ".32x128b.warpx4 writes lanes 0 to 31 and 64 to 95", "2x2 data path", "cp.shape", _copies("32x128b", "warpx4", copies=2, copy_step=64)),
    Alternative("tcgen05.cp", "4x256b_first_lanes", ".4x256b writes lanes 0 to 3", "the simplest reading", "cp.shape", _copies("4x256b", "", run=4)),
    Alternative("tcgen05.cp", "4x256b_all_lanes", ".4x256b writes its rows again in every 32 lanes", "as .warpx4 does", "cp.shape", _copies("4x256b", "", run=4, copies=4, copy_step=32)),
    Alternative("tcgen05.cp", "64x128b_once", ".64x128b writes 64 lanes, without the copies", "multicast to warps, not to lanes", "cp.shape", lambda row: row._replace(copies=1) if row.name == "64x128b" else row),
    Alternative("tcgen05.cp", "of_leader", ".cta_group::2: both CTAs get what the even one's shared memory has", "PTX ISA 9.1 §9.7.16.9.2 says only that both are written", "cp.sources", lambda sources: (sources[0],) * len(sources)),
    Alternative("tcgen05.cp", "exchanged", ".cta_group::2: each CTA gets what the other's shared memory has", "other order", "cp.sources", lambda sources: sources[::-1]),
    *(Alternative("tcgen05.cp", f"{name}_shift_{shift}", f".{name}: elements begin at bit {shift} of their byte", source, "decompression", _shifted(name, shift)) for name, shift, source in (
        ("b4x16_p64", 0, "ldmatrix .b4x16_p64 of sm_120 leaves E2M1 in bits 3:0"), ("b4x16_p64", 4, "at the top of the byte"),
        ("b6x16_p32", 1, "CuTe DSL's cp_narrow_a_to_tmem_mma.py says so"), ("b6x16_p32", 2, "at the top of the byte"))),
    Alternative("tcgen05.alloc", "highest", "allocations get the highest columns that fit", "which columns one gets is in no document", "alloc.column", _highest),
    Alternative("tcgen05.alloc", "unaligned", "an allocation takes the first columns that fit, at any multiple of 32", "which columns one gets is in no document", "alloc.column", _unaligned),
    Alternative("tcgen05.alloc", "upper_half", "the upper 256 columns first", "which columns one gets is in no document", "alloc.column", _first_of_largest),
    Alternative("tcgen05.commit", "twice_in_pairs", "a commit of .cta_group::2 arrives twice", "once for each CTA", "commit.arrivals", lambda count, group: group),
    Alternative("tcgen05.commit", "with_own", "a commit with a mask arrives at the mbarrier of the issuing CTA too, also if its bit is 0", _D, "commit.ranks", lambda ranks, own: sorted({*ranks, own})),
    Alternative("tcgen05.commit", "own_alone", "a commit arrives at the issuing CTA's barrier alone, whatever the mask", "honoured or ignored operand", "commit.ranks", lambda ranks, own: [own]),
    Alternative("tcgen05.shift", "other_way", "lane i + 1 takes lane i, in every 32 lanes", "'down by one row' read the other way", "shift.source", lambda source, lane: lane - (lane % 32 > 0)),
    Alternative("tcgen05.shift", "through_128", "lane i takes lane i + 1, through all 128 lanes", _D, "shift.source", lambda source, lane: lane + (lane < 127)),
    Alternative("tcgen05.shift", "around", "the last lane of 32 takes the first one's", _O, "shift.source", lambda source, lane: lane // 32 * 32 + (lane + 1) % 32),
    Alternative("tcgen05.lane_masks", "enable", "a bit of disable-output-lane that is set lets the lane be written", "the name read the other way", "lanes.disabled", lambda off: ~off),
    Alternative("tcgen05.lane_masks", "ctas_exchanged", "the first four words are of the odd CTA", "other order of halves", "lanes.disabled", lambda off: off[::-1]),
    Alternative("tcgen05.lane_masks", "lanes_reversed", "bit 31 of the first word is lane 0", "other order of bits", "lanes.disabled", lambda off: off.reshape(len(off), 4, 32)[..., ::-1].reshape(off.shape)),
    Alternative("tcgen05.lane_masks", "zero_columns_counts", "skip is the number of used columns, and use the number of masked columns (minus 1)", "table 45 of the PTX ISA exchanges the two", "zero_columns.counts", lambda counts: (*counts[:2], counts[3], counts[2])),
    Alternative("tcgen05.lane_masks", "zero_columns_inverted", "the columns of masked runs are used, and the others count as zero", "CUTLASS inverts non-zero-mask", "zero_columns", lambda zero, width: ~zero),
    Alternative("tcgen05.lane_masks", "zero_columns_first_band", "all bands of lanes have the pattern of the first band", _D, "zero_columns", lambda zero, width: np.tile(zero[:width], len(zero) // width) if len(zero) > width else ~zero),
    # ---- operands in shared memory
    Alternative("operand.k_major", "roles_exchanged", "K-major: LBO steps 8 rows and SBO the chunks of K", "LBO and SBO by their names", "operand.words", _roles(None, True)),
    Alternative("operand.k_major", "sbo_of_32_bytes", "SBO counts units of 32 bytes", "other unit", "operand.tables", _field(2, 2, 5)),
    Alternative("operand.k_major", "lbo_of_32_bytes", "LBO counts units of 32 bytes", "other unit", "operand.tables", _field(1, 2, 5)),
    Alternative("operand.mn_major", "roles_kept_without_swizzle", "MN-major without swizzle: LBO and SBO as with swizzle", "the simplest reading", "operand.words", _roles(False, False)),
    Alternative("operand.mn_major", "roles_exchanged", "MN-major with swizzle: LBO and SBO have each other's role", "LBO and SBO by their names", "operand.words", _roles(True, False)),
    Alternative(_SWIZZLE, "from_start", "the XOR counts lines from the operand's start, not from address 0", "DeepGEMM's and others' question on Hopper", "operand.words", _base(lambda words, base: base + (words >> np.uint64(3)))),
    Alternative(_SWIZZLE, "64_and_32", "layout codes 4 and 6 are 32B and 64B", "other order of codes", "operand.tables", _mode_swap(4, 6)),
    Alternative(_SWIZZLE, "128_and_64", "layout codes 2 and 4 are 64B and 128B", "other order of codes", "operand.tables", _mode_swap(2, 4)),
    Alternative(_SWIZZLE, "128_of_4_lines", "128B takes two bits of the line", "off by one bit", "operand.tables", _mode(2, mask=3)),
    Alternative(_SWIZZLE, "64_of_2_lines", "64B takes one bit of the line", "off by one bit", "operand.tables", _mode(4, mask=1)),
    Alternative(_SWIZZLE, "64_of_8_lines", "64B takes three bits of the line", "off by one bit", "operand.tables", _mode(4, mask=7)),
    Alternative(_SWIZZLE, "32_of_4_lines", "32B takes two bits of the line", "off by one bit", "operand.tables", _mode(6, mask=3)),
    Alternative(_SWIZZLE, "128_of_32_bytes", "128B moves 32 bytes together", "as 32-byte atoms do", "operand.tables", _mode(2, mask=3, shift=5)),
    Alternative("operand.any_start", "start_of_32_bytes", "the start address is a multiple of 32 B: the lowest bit of its field does not count", "kernels move starts in steps of 32 B", "operand.words", _start(_14 - 1)),
    Alternative("operand.any_start", "start_of_atom", "with swizzle the start's bits 9:4 do not count: multiples of 1024 B", "atoms begin there", "operand.words", _start(_14 - 63, swizzled=True)),
    Alternative("operand.any_start", "start_of_line", "with swizzle the start's bits 6:4 do not count: multiples of 128 B", "rows begin there", "operand.words", _start(_14 - 7, swizzled=True)),
    Alternative("operand.any_start", "start_of_13_bits", "the start has 13 bits: 128 KiB", "off by one bit", "operand.tables", _field(0, 1, (1 << 13) - 1)),
    Alternative("operand.base_offset", "ignored", "base offset has no effect", "CUTLASS always writes 0", "operand.words", _base(lambda words, base: 0 * base)),
    Alternative("operand.base_offset", "other_sign", "the XOR key is (sum + 128 b) >> 7", "CUTLASS's comment", "operand.words", _base(lambda words, base: np.uint64(8) - base)),
    Alternative("operand.base_offset", "only_128b", "base offset has an effect only with the 128B swizzle", "PTX ISA 9.1 §9.7.16.4.1", "operand.words", _base(lambda words, base: np.where(_fields(words, _CODE, 7) == 2, base, 0 * base))),
    Alternative("operand.base_offset", "moves_unswizzled", "without a swizzle, base offset b moves the start by 128*b bytes", "honoured or ignored field", "operand.words", _base_moves),
    Alternative("operand.lbo_past_width", "next_bytes", "bytes along K past the swizzle width are the next bytes of the row", "the PTX ISA calls LBO unused there", "operand.words", _past_width),
    Alternative("operand.lbo_past_width", "by_sbo", "bytes along K past the swizzle width are SBO bytes further", "the PTX ISA calls LBO unused there", "operand.words", _past_width_sbo),
    Alternative("operand.atom_32b", "8_rows", "an atom has 8 rows of K", "the PTX ISA's prose", "operand.tables", _mode(1, k_rows=8)),
    Alternative("operand.atom_32b", "as_128b", "the XOR of 128B: 16 bytes, 8 lines", "other swizzle", "operand.tables", _mode(1, mask=7, shift=4, k_rows=8)),
    Alternative("operand.atom_32b", "2_lines", "one bit of the line takes part", "off by one bit", "operand.tables", _mode(1, mask=1)),
    Alternative("operand.atom_32b", "64_bytes", "64 bytes move together", "other atom", "operand.tables", _mode(1, mask=1, shift=6)),
    Alternative("operand.absolute_lbo", "ignored", "bit 52 does nothing", "honoured or ignored bit", "operand.words", lambda words, _: words & ~np.uint64(1 << 52)),
    Alternative("operand.absolute_lbo", "relative", "LBO is counted from the start", "as without the bit", "operand.words", lambda words, _: np.where(words >> np.uint64(52) & np.uint64(1) != 0, _with(words, _LBO, _14, _fields(words, _LBO, _14) + (words & np.uint64(_14))), words)),
    Alternative("descriptor.reserved_bits", "constant_needed", "bits 48:46 other than 0b001 trap", "PTX ISA 9.1 §9.7.16.4.1 calls it constant", "operand.words", _constant),
    Alternative("descriptor.reserved_bits", "start_of_16_bits", "bits 15:14 belong to the start address", "the bits after the field", "operand.tables", _field(0, 1, (1 << 16) - 1)),
    Alternative("descriptor.reserved_bits", "lbo_of_16_bits", "bits 31:30 belong to LBO", "the bits after the field", "operand.tables", _field(1, 1, (1 << 16) - 1)),
    Alternative("descriptor.reserved_bits", "sbo_of_17_bits", "bits 48:46 belong to SBO", "Hopper has no constant there", "operand.tables", _field(2, 1, (1 << 17) - 1)),
    # ---- arithmetic
    *(Alternative(_ARITH, f"{bits}_bits", f"terms are cut {bits} bits below the largest", source, "arithmetic.row", _row(_FLOATS, kept_bits=bits)) for bits, source in (
        (23, "SM70"), (24, "SM80 and SM89"), (26, "one more"), (27, "two more"), (35, "as the 4-bit kinds"))),
    Alternative(_ARITH, "fp8_13_bits", "8-bit types: terms are cut 13 bits below the largest", _H, "arithmetic.row", _row(("f8f6f4", "mxf8f6f4"), kept_bits=13)),
    Alternative(_ARITH, "fp8_13_bits_of_d", "8-bit types: f32 results have 13 fraction bits", _H, "arithmetic.row", _row(("f8f6f4", "mxf8f6f4"), "f32", fraction_bits=13)),
    Alternative(_ARITH, "f32_to_nearest", "f32 results are rounded to nearest even", "other rounding", "arithmetic.row", _row(_FLOATS + _FOUR_BITS, "f32", to_nearest=True)),
    Alternative(_ARITH, "f16_toward_zero", "f16 results are rounded toward zero", "other rounding", "arithmetic.row", _row(_FLOATS, "f16", to_nearest=False)),
    Alternative(_ARITH, "zeros_at_126", "zero terms count with the exponent -126", "MMA-Sim as released", "arithmetic.row", _row(_FLOATS, "f32", zero_exponent=-126)),
    Alternative(_ARITH, "f16_zeros_at_133", "with f16 results, zero terms count with the exponent -133", "earlier MMA-Sim", "arithmetic.row", _row(_FLOATS, "f16", zero_exponent=-133)),
    Alternative(_ARITH, "f16_zeros_at_22", "with f16 results, zero terms count with the exponent -22", "MMA-Sim, of mma.sync", "arithmetic.row", _row(_FLOATS, "f16", zero_exponent=-22)),
    *(Alternative(_ARITH, f"4_bit_{bits}_bits", f"4-bit kinds: groups are cut {bits} bits below the largest", "DeepGEMM issue 176: 34 to 37", "arithmetic.row", _row(_FOUR_BITS, kept_bits=bits)) for bits in (25, 34, 36, 37)),
    Alternative(_ARITH, "4_bit_groups_of_32", "4-bit kinds: groups of 32 are summed exactly", "blocks of 32 have one factor", "arithmetic.row", _row(_FOUR_BITS, group=32)),
    Alternative(_ARITH, "4_bit_ungrouped", "4-bit kinds: every product is a term, cut at 25 bits", "as the other kinds", "arithmetic.row", _ungrouped),
    Alternative(_ARITH, "two_halves", "K is summed in two halves: D of the first half is C of the second", "SM80: K 16 of f16 in two steps", "arithmetic.tiles", _in_parts(2)),
    Alternative(_ARITH, "two_halves_backwards", "K in two halves, the second one first", "other order of halves", "arithmetic.tiles", _in_parts(2, backwards=True)),
    Alternative(_ARITH, "four_quarters", "K in four quarters, one after the other", "SM70: K 4 at once", "arithmetic.tiles", _in_parts(4)),
    Alternative(_ARITH, "c_last", "the products are summed without C, which is added to nearest", "8-bit floats of mma.sync", "arithmetic.tiles", _c_last),
    Alternative(_ARITH, "tf32_rounded", "tf32 operands are rounded from f32, not cut", "TMA rounds so", "arithmetic.tiles", _given(lambda a, b, c, options, factors, types: (_rounded(a, types[0]), _rounded(b, types[1]), c, options, factors))),
    Alternative(_ARITH, "subnormals_of_inputs_lost", "subnormal elements of A and B count as zero", "other units flush", "arithmetic.tiles", _given(lambda a, b, c, options, factors, types: (_flushed(a, types[0]), _flushed(b, types[1]), c, options, factors))),
    Alternative(_ARITH, "subnormal_results_lost", "subnormal f32 results are +0", "other units flush", "arithmetic.tiles", _result(lambda d: np.where(d & 0x7F800000, d, 0).astype(np.uint32), "f32")),
    Alternative(_ARITH, "ue8m0_bias_128", "a ue8m0 factor is 2^(bits - 128)", "off by one", "arithmetic.tiles", _factors(lambda bits: np.maximum(bits - 1, 0), "ue8m0")),
    Alternative(_ARITH, "ue4m3_bias_8", "a ue4m3 factor is half as large", "the bias of e4m3fnuz", "arithmetic.tiles", _factors(lambda bits: np.where(bits & 0x78, np.maximum(bits - 8, 0), bits >> 1), "ue4m3")),
    Alternative(_ARITH, "s32_always_clamps", "s32 results are limited to the range of s32, also without .satfinite", "honoured or ignored bit", "arithmetic.tiles", _saturated(True)),
    Alternative(_ARITH, "s32_always_wraps", "s32 results wrap around, also with .satfinite", "honoured or ignored bit", "arithmetic.tiles", _saturated(False)),
    Alternative(_ARITH, "scale_input_d_ignored", "scale-input-d does nothing", "honoured or ignored operand", "arithmetic.tiles", _given(lambda a, b, c, options, factors, types: (a, b, c, options._replace(scale_c=0), factors))),
    Alternative(_ARITH, "scale_input_d_multiplies", "scale-input-d n multiplies D by 2^n", "the name read the other way", "arithmetic.tiles", _given(lambda a, b, c, options, factors, types: (a, b, c, options._replace(scale_c=-options.scale_c), factors))),
    # ---- mma.sync of cards that were not measured
    Alternative("arithmetic.mma_sync_ampere", "one_sum", "all products of K are one sum", "Hopper", "mma_sync.row", _sync(_AMPERE, lambda row: row._replace(k=2 * row.k))),
    Alternative("arithmetic.mma_sync_ampere", "25_bits", "terms are cut 25 bits below the largest", "Hopper", "mma_sync.row", _sync(_AMPERE, lambda row: row._replace(kept_bits=25) if row.kept_bits == 24 else row)),
    Alternative("arithmetic.mma_sync_ampere", "fp8_full_results", "8-bit floats: f32 results have 23 fraction bits", "other types", "mma_sync.row", _sync(("sm_89",), lambda row: row._replace(fraction_bits=23) if row.fraction_bits == 13 else row), only="sm_89"),
    Alternative("arithmetic.mma_sync_rtx", "24_bits", "terms are cut 24 bits below the largest", "SM80 and SM89", "mma_sync.row", _sync(_RTX, _bits(24))),
    Alternative("arithmetic.mma_sync_rtx", "fp8_13_bits", "8-bit floats: terms are cut 13 bits below the largest", "SM89 and wgmma", "mma_sync.row", _sync(_RTX, _bits(13, only_fp8=True))),
    Alternative("arithmetic.mma_sync_rtx", "two_halves", "K is summed in two halves: D of the first half is C of the second", "SM80 and SM89", "mma_sync.row", _sync(_RTX, lambda row: row._replace(k=row.k // 2) if row.group == 1 else row)),
    Alternative("arithmetic.mma_sync_rtx", "4_bit_25_bits", "4-bit kinds: the sums of groups are cut 25 bits below the largest", "other kinds", "mma_sync.row", _sync(_RTX, lambda row: row._replace(kept_bits=25) if row.group > 1 else row)),
    Alternative("mma_sync.scales", "pair_exchanged", "the even thread has the factors of row g + 8, the odd one those of row g", "PTX ISA 9.1 says it in a figure alone", "mma_sync.scales", lambda thread, chosen: thread ^ 1),
    Alternative("mma_sync.scales", "rows_in_order", "the two threads of quad g have the factors of rows 2 g and 2 g + 1", "other order of rows", "mma_sync.scales", lambda thread, chosen: 4 * (np.arange(len(thread)) // 2) + 2 * chosen + np.arange(len(thread)) % 2),
    # ---- TMA
    Alternative("tma.blackwell", "gathered_reversed", "tile::gather4: the last row first", "other order of rows", "tma.gathered", lambda rows: rows[::-1]),
    Alternative("tma.blackwell", "gathered_consecutive", "tile::gather4: four rows from the first one on", "three of four operands ignored", "tma.gathered", lambda rows: tuple(rows[0] + n for n in range(len(rows)))),
    Alternative("tma.blackwell", "96b_pitch_128", "96B: rows are 128 bytes apart", "the line of the other modes", "tma.pitch", lambda pitch, swizzle, row: 128 if swizzle == Swizzle.B96 else pitch, only="sm_103a"),
    Alternative("tma.blackwell", "96b_dense", "96B: rows narrower than 96 bytes follow each other without gaps", "as without swizzle", "tma.pitch", lambda pitch, swizzle, row: row if swizzle == Swizzle.B96 else pitch, only="sm_103a"),
    Alternative("tma.blackwell", "96b_unswizzled", "96B has no XOR", "other reading of table 9 of the driver's header", "tma.mode", lambda mode: mode._replace(mask=0) if mode.swizzle == Swizzle.B96 else mode, only="sm_103a"),
    Alternative("tma.blackwell", "atom_32b_as_128b", "128B_ATOM_32B: 16 bytes move together, of 8 lines", "other atom", "tma.mode", lambda mode: mode._replace(mask=7, shift=4) if mode.swizzle == Swizzle.B128_ATOM_32B else mode),
    Alternative("tma.blackwell", "atom_32b_flipped", "128B_ATOM_32B changes 8-byte halves too", "other mode", "tma.mode", lambda mode: mode._replace(swizzle=Swizzle.B128_ATOM_32B_FLIP_8B) if mode.swizzle == Swizzle.B128_ATOM_32B else mode),
    Alternative("tma.blackwell", "flip_ignored", "128B_ATOM_32B_FLIP_8B does not exchange halves", "other mode", "tma.mode", lambda mode: mode._replace(swizzle=Swizzle.B128_ATOM_32B) if mode.swizzle == Swizzle.B128_ATOM_32B_FLIP_8B else mode),
    Alternative("tma.blackwell", "atom_64b_as_32b", "128B_ATOM_64B moves 32 bytes at a time, in a pattern of 4 lines", "other atom", "tma.mode", lambda mode: mode._replace(mask=3, shift=5) if mode.swizzle == Swizzle.B128_ATOM_64B else mode),
)}
# fmt: on

_ZERO_BITS = "the documents want these bits 0: a program that keeps to them has the same words in both readings"
# Alternatives that programs cannot tell from the rule while they follow the documents. Only an experiment can refute
# them.
ALIKE: dict[str, str] = {
    "tcgen05.alloc=unaligned": "a program uses the columns that it gets, whichever they are",
    **{f"tcgen05.idesc_bits={name}": _ZERO_BITS for name in ("bit_6_is_d_type", "bit_23_is_n", "bit_29_is_m")},
    **{f"descriptor.reserved_bits={name}": _ZERO_BITS for name in ("start_of_16_bits", "lbo_of_16_bits")},
    "tcgen05.scale_address=address_first": "the PTX ISA has the lane in these bits, which ends below 128: a program leaves them 0, or, as CUTLASS, has the descriptor's own number there",
    "tcgen05.warp_window=ored": "a lane that is 0, or that of the warp's own window, gives the same in both readings; the PTX ISA allows no other",
}

# What an experiment on a card would look at, by the point of the alternative: a kernel that separates it, and what each
# outcome settles.
EXPERIMENTS: dict[str, str] = {
    "idesc.word": "one tcgen05.mma whose descriptor has this field, with operands whose product differs between the two readings",
    "accumulator.path": "one tcgen05.mma of this shape with D[m, n] = 256 m + n, all of tensor memory read back with 32x32b",
    "accumulator.cell": "one tcgen05.mma of this shape with D[m, n] = 256 m + n, all of tensor memory read back with 32x32b",
    "a.cell": "A written by tcgen05.st with a different number in every byte, times a B that is the identity",
    "scales.cell": "a different power of two in every byte of the scales' columns, A and B all ones: D names the byte that each row used",
    "scales.id": "the same MMA with scale ids 0 to 3 in the address and in the descriptor, a different factor in each byte",
    "metadata.cell": "metadata with one group that differs, for each row and group: which rows of D change",
    "ld_st.cell": "tensor memory filled by 32x32b with 512 lane + column, read back with this shape",
    "ld_st.window": "tensor memory filled with its lanes, read by warps 0 to 7 with lanes 0, 16, 32, 48 and 96 in the address",
    "ld_st.address": "a load whose threads give addresses with other lanes",
    "cp.shape": "a copy of rows that hold their numbers, all of tensor memory read back",
    "cp.sources": "a copy of a pair whose CTAs hold different bytes, both tensor memories read back",
    "decompression": "a copy with every 4- or 6-bit pattern, read back as bytes",
    "pair.rows": "an MMA of a pair whose rows of A and B hold their numbers times the identity",
    "operand.words": "an MMA whose shared memory holds a different number in every 16 bytes, times the identity: D says what was read",
    "operand.tables": "an MMA whose shared memory holds a different number in every 16 bytes, times the identity: D says what was read",
    "arithmetic.row": "one MMA of a row with a large term and terms at 2^-22 to 2^-40 beside it: the lowest that shows is the width (smemsim.capture.blackwell.separate)",
    "mma_sync.row": "one mma.sync with a large term, its negative and small ones at chosen places of K, for each type: which of them show",
    "mma_sync.scales": "one block-scaled mma.sync of ones, with another power of two in every byte of every thread's scale register: D names thread and byte",
    "arithmetic.tiles": "one MMA with a large term, its negative and small ones at chosen places of K, with and without C (smemsim.capture.blackwell.separate)",
    "zero_columns.counts": "one .ws MMA of ones with unequal skip and use spans: which columns of D are zero",
    "zero_columns": "one .ws MMA of ones with a mask: which columns of D are zero",
    "lanes.disabled": "one MMA over a D that holds a pattern, one bit of the mask set: which lane keeps it",
    "alloc.column": "allocations of 32 to 256 columns with gaps between them, the addresses printed",
    "commit.arrivals": "a commit of a pair on a barrier that expects 2 arrivals: does test_wait succeed",
    "commit.ranks": "a commit whose mask leaves the issuer out, on barriers of all CTAs: which complete",
    "shift.source": "tensor memory filled with its lanes, shifted once, read back",
    "tma.gathered": "a gather of rows 3, 0, 2, 1 of a tensor that holds its row numbers",
    "tma.pitch": "a load of rows that hold their numbers, with this swizzle, shared memory read back",
    "tma.mode": "a load of 16-byte chunks that hold their numbers, with this swizzle, shared memory read back",
}  # fmt: skip


def of_rule(rule: str) -> tuple[Alternative, ...]:
    """The alternatives of a rule.

    >>> [a.name for a in of_rule("tcgen05.shift")]
    ['other_way', 'through_128', 'around']
    """
    return tuple(a for a in ALTERNATIVES.values() if a.rule == rule)


def alternative_of(text: Any) -> Alternative:
    """The alternative that RULE=ALTERNATIVE names; InputError where there is none.

    >>> alternative_of("tcgen05.shift=around").sentence
    "the last lane of 32 takes the first one's"
    """
    if isinstance(text, str) and text in ALTERNATIVES:
        return ALTERNATIVES[text]
    rules = sorted({a.rule for a in ALTERNATIVES.values()})
    rule, equals, name = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals or rule not in rules:
        raise InputError(
            f"assume = {shown(text)}: needs RULE=ALTERNATIVE; rules with alternatives are {', '.join(rules)}{suggestion(rule, rules)}"
        )
    names = [a.name for a in of_rule(rule)]
    listed = ", ".join(names[:12]) + (
        f" and {len(names) - 12} more, which smemsim evidence --alternatives {rule} lists" if names[12:] else ""
    )
    raise InputError(f"assume = {shown(text)}: {rule} has the alternatives {listed}{suggestion(name, names)}")


@contextlib.contextmanager
def assuming(text: Any) -> Iterator[Alternative | None]:
    """Compute with an alternative instead of its rule, in this process; None or "": whatever is in force stays.

    >>> with assuming("tcgen05.shift=around") as other:
    ...     other.name, in_force()
    ('around', 'tcgen05.shift=around')
    """
    if text is None or text == "":
        yield None
        return
    other, before = alternative_of(text), in_force()
    exchange({other.point: other.change}, str(other))
    try:
        yield other
    finally:
        exchange({ALTERNATIVES[before].point: ALTERNATIVES[before].change} if before else {}, before)
