"""mma.sync, mma.sp.sync and wmma.mma of many warps at once.

`MmaSync`, `QuadPairs` and `Wmma` are instructions as their names spell them, checked once; `execute` multiplies. The
first two work on registers, uint32 (registers, warps, 32), or uint64 for f64. The layout of wmma registers is not
defined, so `Wmma` has matrices. Layouts are documented: PTX ISA 9.1 §9.7.14.5.1. Measured (H200): trace launches
(kernel mma_hard).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.arithmetic.multiply import Factors, Options, multiply_tiles
from smemsim.core.arithmetic.rounding import NEAREST
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.layout import fragments
from smemsim.core.machine.sparsity import undefined_groups
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.core.spec.mma_sync import MMA_SYNC_SUMS, MMA_SYNC_TYPES, SCALE_VECTORS, SELECTORS, UNITS, WMMA_TYPES, MmaSyncTypes, Shape
from smemsim.core.spec.ptx import WARP_SIZE

__all__ = ["PACKED", "QUAD_PAIR_SHAPE", "MmaSync", "QuadPairs", "Wmma", "mma_sync"]


# ---- `MmaSync`: mma.sync and mma.sp.sync


def mma_sync_types(a_type: str, b_type: str, d_type: str, shape: Shape, *, sparse: bool = False, kind: str = "") -> MmaSyncTypes:
    """The row of spec for an instruction. Raises InputError, with the existing ones, if it does not exist, and
    Unmodelled if its behaviour is not known.

    >>> mma_sync_types("s8", "u8", "s32", (16, 8, 32)).bits
    8
    """
    for row in MMA_SYNC_TYPES:
        if a_type in row.a and b_type in row.a and d_type in row.d and kind in row.kinds:
            if shape not in (row.sparse if sparse else row.shapes):
                known = ", ".join(f"m{m}n{n}k{k}" for m, n, k in (row.sparse if sparse else row.shapes)) or "no shape"
                raise InputError(
                    f"m{shape[0]}n{shape[1]}k{shape[2]}: mma{'.sp' if sparse else ''}.sync with {a_type} has {known} (PTX ISA 9.1 §9.7.14.5)"
                )
            return row
    of_kind = f" with .kind::{kind}" if kind else ""
    raise InputError(f"A {a_type}, B {b_type}, D {d_type}: mma.sync{of_kind} has no such types (PTX ISA 9.1 §9.7.14.5)")


@dataclasses.dataclass(frozen=True)
class MmaSync:
    """An mma.sync as its name spells it. With `is_sparse` it is an mma.sp.sync. Raises InputError if it does not exist.

    With `xor` a b1 instruction has .xor.popc, else .and.popc. The rounding of f64 is `rounding`, the sparsity selector
    is `selector`. The card is `arch`. The text after `.kind::` is `kind`. A block-scaled kind has `factors` scale
    factors of `scale_type` for each row of A and column of B.

    >>> i = MmaSync((16, 8, 16), "f16", "f16", "f16")
    >>> i.registers, i.row.bits
    ((2, 4, 2, 2), 16)
    >>> MmaSync((16, 8, 16), "f16", "f16", "s32")
    Traceback (most recent call last):
    smemsim.base.errors.InputError: A f16, B f16, D s32: mma.sync has no such types (PTX ISA 9.1 §9.7.14.5)
    """

    shape: Shape
    a_type: str
    b_type: str
    d_type: str
    _: dataclasses.KW_ONLY
    is_sparse: bool = False
    selector: int = 0
    satfinite: bool = False
    xor: bool = False
    rounding: int = NEAREST
    arch: str = "sm_90a"
    kind: str = ""
    factors: int = 0
    scale_type: str = ""

    def __post_init__(self) -> None:
        row = self.row
        self._check_scales()
        if row.expanded and self.sum_row is None and {self.a_type, self.b_type} - {"e4m3", "e5m2"}:
            raise InputError(
                f"A {self.a_type}, B {self.b_type}: {self.arch} multiplies e4m3 and e5m2 alone; sm_120a and sm_121a have the others"
            )
        if self.satfinite and not row.satfinite:
            raise InputError(f".satfinite: mma.sync with {self.a_type} has none")
        if self.is_sparse and self.selector not in SELECTORS[self.groups]:
            known = " ".join(map(str, SELECTORS[self.groups]))
            raise InputError(f"sparsity selector {self.selector}: this shape has {known} (PTX ISA 9.1 §9.7.14.6.1)")

    @functools.cached_property
    def row(self) -> MmaSyncTypes:
        """The row of spec that its types and its shape are in."""
        return mma_sync_types(self.a_type, self.b_type, self.d_type, self.shape, sparse=self.is_sparse, kind=self.kind)

    def _check_scales(self) -> None:
        known = SCALE_VECTORS.get(self.kind, ())
        if bool(known) != bool(self.factors):
            raise InputError(f".kind::{self.kind}: {'needs' if known else 'has no'} .block_scale (PTX ISA 9.1 §9.7.14.3)")
        if known and not any(v.factors == self.factors and self.scale_type in v.types for v in known):
            there = ", ".join(f"{v.factors}X of {'/'.join(v.types)}" for v in known)
            raise InputError(f".scale_vec::{self.factors}X of {self.scale_type}: .kind::{self.kind} has {there} (PTX ISA 9.1 §9.7.14.3)")

    @functools.cached_property
    def sum_row(self) -> MmaArithmetic | None:
        """The constants of its sums of floats on its card; None where the card has no unit for them, and for integers
        and f64.
        """
        return sum_of(self.arch, self.kind or ("fp8" if self.row.bits == 8 else self.a_type), self.d_type)

    @property
    def types(self) -> tuple[str, str, str]:
        """The element types of A, B and D."""
        return self.a_type, self.b_type, self.d_type

    @property
    def has_numbers_alone(self) -> bool:
        """Is an element times zero always zero, and is K that of the registers?"""
        return self.d_type == "s32" and not self.xor and not self.is_sparse

    @property
    def bits(self) -> int:
        """Bits of a register: 32, for f64 64."""
        return max(32, self.row.bits)

    @property
    def stored_k(self) -> int:
        """K of A as it is stored."""
        return self.shape[2] // (1 + self.is_sparse)

    @property
    def groups(self) -> int:
        """Sets of four bits of metadata for a row of A."""
        return 2 * self.stored_k // self.row.group

    @property
    def registers(self) -> tuple[int, int, int, int]:
        """Registers of each thread for D, A, B and C."""
        m, n, k = self.shape
        bits = 32 if self.row.bits == 64 else self.row.bits
        of_d = m * n // WARP_SIZE // (2 if self.d_type == "f16" else 1)
        return of_d, m * self.stored_k * bits // 1024, n * k * bits // 1024, of_d

    @property
    def places(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """The places of elements in registers. A (M, stored K) and B (N, K) have the (thread, register) of every
        element. D (elements, 32) has the (row, column) of every thread's elements.

        >>> a, b, d = MmaSync((16, 8, 16), "f16", "f16", "f32").places
        >>> a[0][8, :4].tolist(), a[1][8, :4].tolist(), d[0][:, 5].tolist(), d[1][:, 5].tolist()
        ([0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 9, 9], [2, 3, 2, 3])
        """
        return _register_places(self.shape, self.stored_k, self.row.bits)

    def bytes_of(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """(thread, byte of its registers) in which each element of A ("a", (M, stored K)) or B ("b", (N, K)) begins."""
        m, n, k = self.shape
        rows, width, of = (m, self.stored_k, _a_order) if side == "a" else (n, k, _b_order)
        thread, element = np.divmod(of(rows, width, self.row.bits).reshape(rows, width), rows * width // WARP_SIZE)
        return thread, element * min(32, self.row.bits) // 8

    @property
    def metadata_places(self) -> tuple[np.ndarray, np.ndarray]:
        """(thread, lowest bit) of the metadata of every group of a sparse A, (M, groups)."""
        return _metadata_places(self.shape[0], self.groups, self.selector, self.row.bits)

    @property
    def metadata_threads(self) -> np.ndarray:
        """The thread that has the metadata of every group of a sparse A, (M, groups)."""
        return _metadata_places(self.shape[0], self.groups, self.selector, self.row.bits)[0]

    def execute(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray, metadata: np.ndarray | None = None, scales: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:  # fmt: skip
        """The registers of D from those of A, B and C. The `metadata` of a sparse instruction is uint32 (warps, 32).

        The `scales` of a block-scaled one are the raw bits of two sets of factors, (warps, M, factors) of A and (warps,
        N, factors) of B.
        """
        (m, n, k), stored, bits = self.shape, self.stored_k, self.row.bits
        of_a = _codes(_matrix(a, _a_order(m, stored, bits), bits, self.a_type).reshape(-1, m, stored), bits, self.a_type)
        of_b = _codes(_matrix(b, _b_order(n, k, bits), bits, self.b_type).reshape(-1, n, k), bits, self.b_type)
        factors = None if scales is None else Factors(*scales, self.scale_type, k // self.factors)
        of_c = _matrix(c, _d_order(m, n), 16 if self.d_type == "f16" else max(32, bits), self.d_type).reshape(-1, m, n)
        if bits == 64:
            d = doubles(of_a, of_b, of_c, self.rounding)
        elif metadata is None:
            d = self.product(of_a, of_b, of_c, factors)
        else:
            index = _k_of(np.asarray(metadata), self)
            each = [slice(w, w + 1) for w in range(len(index))]
            own = [None if factors is None else factors.of(factors.a[w], factors.b[w]) for w in each]
            d = np.concatenate([self.product(of_a[w], of_b[w], of_c[w], f, index[w.start]) for w, f in zip(each, own, strict=True)])
        return _registers(d, _d_order(m, n), self.d_type)

    def undefined_groups(self, a: np.ndarray, metadata: np.ndarray, *, is_ordered: bool) -> np.ndarray:
        """Which groups of K (warps, M, groups) of a sparse A have undefined metadata? It is uint32 (warps, 32)."""
        m, stored, bits = self.shape[0], self.stored_k, self.row.bits
        of_a = _codes(_matrix(a, _a_order(m, stored, bits), bits, self.a_type).reshape(-1, m, stored), bits, self.a_type)
        return undefined_groups(self.nibbles(metadata), of_a, self.a_type, group=self.row.group, is_ordered=is_ordered)

    def nibbles(self, metadata: np.ndarray) -> np.ndarray:
        """The metadata of each group of K, (warps, M, groups), from the registers, uint32 (warps, 32)."""
        thread, bit = self.metadata_places
        return np.asarray(metadata.astype(np.int64)[:, thread] >> bit & 0xF)

    def product(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray, factors: Factors | None = None, index: np.ndarray | None = None
    ) -> np.ndarray:  # fmt: skip
        """D (tiles, M, N) from the raw bits of A (tiles, M, stored K), B (tiles, N, K) and C. Not for f64. The K of A's
        elements is `index` (M, stored K).
        """
        if self.sum_row is not None:
            return float_sums(a, b, c, self.types, self.sum_row, index, factors)
        if self.row.expanded:
            return _expanded(a, b, c, self.types, index, self.arch)
        return differing(a, b, c) if self.xor else sums(a, b, c, self.types, index, self.satfinite)


def mma_sync(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    *,
    shape: Shape,
    a_type: str,
    b_type: str,
    d_type: str,
    metadata: np.ndarray | None = None,
    selector: int = 0,
    satfinite: bool = False,
    xor: bool = False,
    rounding: int = NEAREST,
    arch: str = "sm_90a",
    kind: str = "",
    scales: tuple[np.ndarray, np.ndarray] | None = None,
    scale_type: str = "",
) -> np.ndarray:
    """The registers of D of `mma.sync.aligned.mMnNkK.row.col` from those of A, B and C. Registers are uint32
    (registers, warps, 32), or uint64 for f64.

    With `metadata`, uint32 (warps, 32), it is mma.sp.sync. With `xor` a b1 instruction has .xor.popc, else .and.popc.
    The rounding of f64 is `rounding`. The card is `arch`. The text after `.kind::` is `kind`. The factors are `scales`:
    raw bits (warps, M, factors) and (warps, N, factors) of `scale_type`.

    Measured (H200): trace launches (kernels mma_hard*). Raises InputError for an instruction that does not exist.

    >>> ones = np.full((4, 1, 32), 0x3C003C00, np.uint32)  # f16 pairs
    >>> d = mma_sync(ones, ones[:2], np.zeros((4, 1, 32), np.uint32), shape=(16, 8, 16), a_type="f16", b_type="f16", d_type="f32")
    >>> float(d.view(np.float32)[3, 0, 31])
    16.0
    """
    is_sparse = metadata is not None
    i = MmaSync(
        shape, a_type, b_type, d_type, is_sparse=is_sparse, selector=selector, satfinite=satfinite, xor=xor, rounding=rounding, arch=arch, kind=kind,
        factors=0 if scales is None else scales[0].shape[2], scale_type=scale_type,
    )  # fmt: skip
    return i.execute(a, b, c, metadata, scales)


def sum_of(arch: str, what: str, d_type: str) -> MmaArithmetic | None:
    """The constants of a card's sums of floats, by the kind or the type of A; None where
    the card has none of its own.
    """
    row = MMA_SYNC_SUMS.get((UNITS[arch], what, d_type)) if d_type != "s32" else None
    return row if row is None or row.grade is Grade.MEASURED else assumed("mma_sync.row", row, arch)


def float_sums(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], row: MmaArithmetic, index: np.ndarray | None = None, factors: Factors | None = None
) -> np.ndarray:  # fmt: skip
    """D (tiles, M, N) of A (tiles, M, S), B (tiles, N, K) and C. Sums are made one after the other; each takes as many
    elements of A as the card's unit.
    """
    stored = a.shape[2]
    if stored <= row.k:
        return multiply_tiles(a, b, c, row=row, types=types, index=index, factors=factors)
    for first in range(0, stored, row.k):
        part = slice(first, first + row.k)
        some = np.ascontiguousarray(a[:, :, part])
        if index is None:
            c = multiply_tiles(some, np.ascontiguousarray(b[:, :, part]), c, row=row, types=types, factors=_part_of(factors, first, row.k))
        else:
            c = multiply_tiles(some, b, c, row=row, types=types, index=index[:, part], factors=factors)
    return c


def _part_of(factors: Factors | None, first: int, count: int) -> Factors | None:
    """The factors of `count` elements of K from `first` on."""
    if factors is None:
        return None
    each = factors.k_per_factor
    some = slice(first // each, max(first // each + 1, (first + count) // each))
    return Factors(factors.a[..., some], factors.b[..., some], factors.dtype, min(each, count))


def sums(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], index: np.ndarray | None = None, satfinite: bool = False, arch: str = "sm_90a"
) -> np.ndarray:  # fmt: skip
    """D (tiles, M, N) of A (tiles, M, S), B (tiles, N, K) and C: raw bits, of s4, u4 and b1 a byte an element. Not of
    8-bit floats and f64.
    """
    a_type, b_type, d_type = (_BYTES.get(t, t) for t in types)
    if d_type != "s32":
        row = sum_of(arch, a_type, d_type)
        if row is None:
            raise InputError(f"A of {a_type}, D of {d_type}: {arch} has no such sums")
        return float_sums(a, b, c, (a_type, b_type, d_type), row, index)
    row = MMA_SYNC_SUMS[UNITS[arch], "s8", d_type]
    return multiply_tiles(a, b, c, row=row, types=(a_type, b_type, d_type), index=index, options=Options(saturate=satfinite))


def differing(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """.xor.popc of b1, a byte each: |a xor b| = |a| + |b| - 2 |a and b|."""
    both = sums(a, b, np.zeros_like(c), ("b1", "b1", "s32"))
    found: np.ndarray = c + a.sum(2, dtype=np.uint32)[:, :, None] + b.sum(2, dtype=np.uint32)[:, None, :] - np.uint32(2) * both
    return found


_BYTES = {"s4": "s8", "u4": "u8", "b1": "u8"}


def _codes(raw: np.ndarray, bits: int, dtype: str) -> np.ndarray:
    """The raw bits of elements that have a byte each: of 6 bits the low ones, of 4 bits those in the middle."""
    if bits == 8 and dtype == "e2m1":
        return raw >> np.uint8(2) & np.uint8(0xF)
    return raw & np.uint8(0x3F) if dtype in ("e3m2", "e2m3") else raw


def _expanded(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], index: np.ndarray | None, arch: str = "sm_90a"
) -> np.ndarray:  # fmt: skip
    """8-bit floats: as f16, in two sums from zero, each of half the elements of A as it is stored, and C added to
    nearest (SASS of ptxas 13.0.88).
    """
    to, (half_a, half_b) = types[2], (_as_f16(x, t) for x, t in zip((a, b), types, strict=False))
    total = np.zeros_like(c)
    for first in (0, 2):
        of = np.arange(a.shape[2]) % 4 // 2 * 2 == first
        some_b, some_index = (half_b[:, :, of], None) if index is None else (half_b, index[:, of])
        some = (np.ascontiguousarray(half_a[:, :, of]), np.ascontiguousarray(some_b), total)
        total = sums(*some, ("f16", "f16", to), some_index, arch=arch)
    kind, nan = (np.float16, 0x7FFF) if to == "f16" else (np.float32, 0x7FFFFFFF)
    with np.errstate(all="ignore"):
        value = total.view(kind) + c.view(kind)
    d: np.ndarray = np.where(np.isnan(value), c.dtype.type(nan), value.view(c.dtype))
    return d


@functools.cache
def _f16_codes(dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return to_float64(np.arange(256, dtype=np.uint8), dtype).astype(np.float16).view(np.uint16)


def _as_f16(raw: np.ndarray, dtype: str) -> np.ndarray:
    found: np.ndarray = _f16_codes(dtype)[raw]
    return found


def doubles(a: np.ndarray, b: np.ndarray, c: np.ndarray, rounding: int = NEAREST) -> np.ndarray:
    """f64: fused multiply-adds in the order of K, each rounded, in any mode of `arithmetic.rounding`."""
    from smemsim.base.compiling.loop import elementwise as ufunc
    from smemsim.core.arithmetic.results import double_fused

    fused = ufunc(double_fused, "int64(float64,float64,float64,int64)")
    d = c.view(np.float64)
    for k in range(a.shape[2]):
        d = fused(a[:, :, k, None].view(np.float64), b[:, None, :, k].view(np.float64), d, rounding).view(np.float64)
    return d.view(np.uint64)


# ---- registers and matrices


@functools.lru_cache(maxsize=64)
def _register_places(shape: Shape, stored: int, bits: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """`MmaSync.places`, of elements of `bits` each."""
    m, n, k = shape
    places = []
    for order, rows, columns in ((_a_order(m, stored, bits), m, stored), (_b_order(n, k, bits), n, k)):
        thread, element = np.divmod(order.reshape(rows, columns), rows * columns // WARP_SIZE)
        places.append((thread, element // max(1, 32 // bits)))
    element, thread = np.meshgrid(np.arange(m * n // WARP_SIZE), np.arange(WARP_SIZE), indexing="ij")
    return *places, (fragments.d_row(thread, element), fragments.d_column(thread, element))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def _a_order(m: int, k: int, bits: int) -> np.ndarray:
    """For every element of A, row by row, its place among those that the threads hold: thread by thread, element by
    element.
    """
    bits = min(bits, 32)
    thread, element = np.meshgrid(np.arange(WARP_SIZE), np.arange(m * k // WARP_SIZE), indexing="ij")
    return _inverse(fragments.a_row(thread, element, bits), fragments.a_column(thread, element, bits), k)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def _b_order(n: int, k: int, bits: int) -> np.ndarray:
    """For every element of B, column by column, its place among those that the threads hold."""
    bits = min(bits, 32)
    thread, element = np.meshgrid(np.arange(WARP_SIZE), np.arange(n * k // WARP_SIZE), indexing="ij")
    return _inverse(fragments.b_n(thread) + 0 * element, fragments.b_k(thread, element, bits), k)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=8)
def _d_order(m: int, n: int) -> np.ndarray:
    """For every element of C or D, row by row, its place among those that the threads hold."""
    thread, element = np.meshgrid(np.arange(WARP_SIZE), np.arange(m * n // WARP_SIZE), indexing="ij")
    return _inverse(fragments.d_row(thread, element), fragments.d_column(thread, element), n)  # type: ignore[arg-type]


def _inverse(row: np.ndarray, column: np.ndarray, width: int) -> np.ndarray:
    positions = np.empty(row.size, np.int64)
    positions[(row * width + column).ravel()] = np.arange(row.size)
    return positions


def _matrix(registers: np.ndarray, order: np.ndarray, bits: int, dtype: str) -> np.ndarray:
    """Elements (warps, all) in the order of the matrix; integers of 4 bits as bytes."""
    warps = registers.shape[1]
    flat = np.ascontiguousarray(registers.transpose(1, 2, 0))  # (warps, lanes, registers)
    if bits < 8:
        elements = unpacked(flat, dtype)
    elif bits < 32:
        elements = flat.view(np.uint8 if bits == 8 else np.uint16)
    else:
        elements = flat
    return np.ascontiguousarray(elements.reshape(warps, -1)[:, order])


def unpacked(words: np.ndarray, dtype: str) -> np.ndarray:
    """The s4, u4 or b1 elements of 32-bit words, from their low bits up, as bytes along a new last axis.

    >>> unpacked(np.array([0x8F], np.uint32), "s4").view(np.int8)[0, :3].tolist()
    [-1, -8, 0]
    """
    bits = 1 if dtype == "b1" else 4
    elements = (words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)).astype(np.uint8)
    found: np.ndarray = (elements ^ np.uint8(8)) - np.uint8(8) if dtype == "s4" else elements
    return found


def _registers(d: np.ndarray, order: np.ndarray, d_type: str) -> np.ndarray:
    """Registers (registers, warps, 32) of matrices (warps, M, N)."""
    flat = np.empty((len(d), order.size), d.dtype)
    flat[:, order] = d.reshape(len(d), -1)
    by_thread = flat.reshape(len(d), WARP_SIZE, -1)
    if d_type == "f16":
        by_thread = by_thread.view(np.uint32)
    return np.ascontiguousarray(by_thread.transpose(2, 0, 1))


# ---- sparsity


def _k_of(metadata: np.ndarray, i: MmaSync) -> np.ndarray:
    """The K that every stored element of A meets, (warps, M, stored)."""
    row = i.row
    k_of: Any = fragments.sparse_k  # works on arrays as well
    nibbles = i.nibbles(metadata)
    s = np.arange(i.stored_k)
    if row.group == 2:  # tf32: two halves that name the same element
        lower, upper = (k_of(2 * s + half, nibbles[:, :, s]) for half in (0, 1))
        if ((lower % 2 != 0) | (upper != lower + 1)).any():
            raise Unmodelled("metadata of tf32 that is neither 0b0100 nor 0b1110 (undefined: PTX ISA 9.1 §9.7.14.6.1)")
        return np.asarray(upper // 2)
    if row.group == 8:  # of 4 bits: pairs
        return np.asarray(2 * k_of(s // 2, nibbles[:, :, s // 4]) + s % 2)
    return np.asarray(k_of(s, nibbles[:, :, s // 2]))


@functools.lru_cache(maxsize=16)
def _metadata_places(m: int, groups: int, selector: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.array(
        [
            [
                (fragments.metadata_thread(r, g, groups, selector, bits=bits), fragments.metadata_bit(r, g, groups, bits=bits))
                for g in range(groups)
            ]
            for r in range(m)
        ]
    )
    return places[..., 0], places[..., 1]


# ---- `QuadPairs`: mma.sync.m8n8k4 of f16


QUAD_PAIR_SHAPE = (8, 8, 4)
_QUAD_PAIR_REGISTERS = {"f16": 4, "f32": 8}  # of each thread for C or D


@dataclasses.dataclass(frozen=True)
class QuadPairs:
    """mma.sync.m8n8k4 of f16: four products of a warp side by side. Raises InputError for types that do not go
    together.

    Threads 4p to 4p + 3 and 16 + 4p to 19 + 4p are quad pair p. It has its own A, B, C and D, of 8 x 4, 4 x 8 and 8 x 8
    elements. Let thread t of 4 be in half h of the warp, and i be the number of its element.

    A .row and B .col: the element is A[t + 4h, i] or B[i, t + 4h], with i < 4.

    A .col and B .row: the element is A[i + 4h, t] or B[t, i + 4h], with i < 4.

    C and D of f16: the element is [t + 4h, i], with i < 8.

    C and D of f32: the element is [t % 2 + (i & 2) + 4h, (i & 4) + (t & 2) + i % 2], with i < 8.

    From sm_75 on it is not an instruction of the tensor core: ptxas 13.0.88 compiles it to f32 arithmetic, with every
    step rounded to nearest. D of f32 is C + fma(a3, b3, fma(a2, b2, fma(a1, b1, fma(a0, b0, 0)))). D of f16 is C +
    fma(a1, b1, a0 * b0) + fma(a3, b3, a2 * b2), rounded to f16 once more.

    >>> i = QuadPairs("row", "col", "f32", "f32")
    >>> ones = np.full((2, 1, 32), 0x3C003C00, np.uint32)  # f16 pairs
    >>> d = i.execute(ones, ones, np.zeros((8, 1, 32), np.uint32))
    >>> i.registers, float(d.view(np.float32)[7, 0, 31])
    ((8, 2, 2, 8), 4.0)
    """

    a_layout: str
    b_layout: str
    d_type: str
    c_type: str
    is_sparse = False  # as of MmaSync
    bits = 32
    places = None

    def __post_init__(self) -> None:
        if (self.d_type, self.c_type) not in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
            raise InputError(
                f"C of .{self.c_type} and D of .{self.d_type}: m8n8k4 of f16 has f16 and f16, f16 and f32, f32 and f32 (PTX ISA 9.1 §9.7.14.5.14)"
            )

    @property
    def registers(self) -> tuple[int, int, int, int]:
        """Registers of each thread for D, A, B and C."""
        return _QUAD_PAIR_REGISTERS[self.d_type], 2, 2, _QUAD_PAIR_REGISTERS[self.c_type]

    def execute(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, metadata: np.ndarray | None = None) -> np.ndarray:
        """D's registers of those of A, B and C."""
        # of every thread the four elements of A's row and of B's column, in the order of K: (warps, quad pairs, 8, 4)
        of_a, of_b = _lines(a, self.a_layout == "col"), _lines(b, self.b_layout == "row")
        where = _places(self.c_type)
        start = _elements(c, self.c_type)[:, where[0], where[1]]
        rows, columns = of_a[:, :, :, None], of_b[:, :, None]
        d = _added(start, _chain(rows, columns)) if self.d_type == "f32" else _pairs(rows, columns, start)
        held = np.empty((d.shape[0], 32, 8), np.float32)
        thread, element = _places(self.d_type)
        held[:, thread, element] = d
        if self.d_type == "f32":
            return np.ascontiguousarray(_canonical(held).transpose(2, 0, 1))
        return np.ascontiguousarray(_as_halves(held).view(np.uint32).transpose(2, 0, 1))


def _elements(registers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers (warps, 32, elements) of what threads hold."""
    raw = np.ascontiguousarray(registers.transpose(1, 2, 0))
    return raw.view(np.float16).astype(np.float32) if dtype == "f16" else raw.view(np.float32)


def _lines(registers: np.ndarray, across: bool) -> np.ndarray:
    """(warps, quad pairs, row of A or column of B, K); `across`: a thread has four lines at one K."""
    # warp, half of the warp, quad pair, thread of the quad, element
    held = _elements(registers, "f16").reshape(-1, 2, 4, 4, 4)
    held = held.transpose(0, 2, 1, 4, 3) if across else held.transpose(0, 2, 1, 3, 4)
    return held.reshape(-1, 4, 8, 4)


@functools.cache
def _places(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The thread and its element that is [row, column] of each quad pair: two arrays (4, 8, 8)."""
    pair, row, column = np.meshgrid(np.arange(4), np.arange(8), np.arange(8), indexing="ij")
    quad = 4 * pair + 16 * (row // 4)
    if dtype == "f16":
        return quad + row % 4, column
    return quad + row % 2 + (column & 2), (column & 4) + (row & 2) + column % 2


def _chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1], np.float32)
    for k in range(a.shape[-1]):
        total = _fused(a[..., k], b[..., k], total)
    return total


def _pairs(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for k in (0, 2):
        with np.errstate(invalid="ignore"):
            first = a[..., k] * b[..., k]
        c = _added(c, _fused(a[..., k + 1], b[..., k + 1], first))
    return c


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(a + b)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    from smemsim.base.compiling.loop import elementwise as ufunc
    from smemsim.core.arithmetic.results import single_fused

    with np.errstate(all="ignore"):
        found: np.ndarray = ufunc(single_fused, "uint32(float64,float64,float64)")(a, b, c)
    return found.view(np.float32)


def _canonical(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(np.isnan(values), np.uint32(0x7FFFFFFF), values.view(np.uint32))
    return found


def _as_halves(values: np.ndarray) -> np.ndarray:
    """f32 to the bits of f16, to nearest, as F2FP does it."""
    with np.errstate(over="ignore", invalid="ignore"):
        halves: np.ndarray = np.where(np.isnan(values), np.uint16(0x7FFF), values.astype(np.float16).view(np.uint16))
    return halves


# ---- `Wmma`: wmma.mma, from matrices to matrices


PACKED = {"s4": 8, "u4": 8, "b1": 32}  # elements of a word, which are loaded together


@dataclasses.dataclass(frozen=True)
class Wmma:
    """A wmma.mma with A and B of one type. The product is that of mma.sync, to which compilers translate it. Raises
    InputError if it does not exist.

    If one of C and D is f16 and the other f32, the sum is f32, and D is rounded to nearest (SASS of ptxas 13.0).
    Elements of tf32 are multiplied in two steps of k4. With `xor` a b1 instruction has .xor.popc, else .and.popc. The
    rounding of f64 is `rounding`, the card is `arch`.

    >>> ones = np.full((1, 16, 16), 0x3C00, np.uint16)
    >>> d = Wmma((16, 16, 16), "f16", "f16", "f32").execute(ones, ones, np.zeros((1, 16, 16), np.uint16))
    >>> float(d.view(np.float32)[0, 3, 5])
    16.0
    """

    shape: Shape
    a_type: str
    c_type: str
    d_type: str
    _: dataclasses.KW_ONLY
    satfinite: bool = False
    xor: bool = False
    rounding: int = NEAREST
    arch: str = "sm_90a"

    def __post_init__(self) -> None:
        row = WMMA_TYPES.get(self.a_type)
        if row is None or self.shape not in row.shapes or {self.c_type, self.d_type} - set(row.accumulators):
            m, n, k = self.shape
            raise InputError(
                f"A of .{self.a_type}, C of .{self.c_type}, D of .{self.d_type}: wmma has no such types with m{m}n{n}k{k} (PTX ISA 9.1 §9.7.14.4)"
            )
        if self.satfinite and (self.d_type != "s32" or self.a_type == "b1"):
            raise InputError(f".satfinite: wmma with {self.a_type} has none (PTX ISA 9.1 §9.7.14.4)")

    def execute(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """D (warps, M, N) of A (warps, M, K), B (warps, K, N) and C; elements of 4 bits and of one in words of 32 along
        K.
        """
        is_mixed = self.d_type != self.c_type
        b = np.ascontiguousarray(b.transpose(0, 2, 1))
        if is_mixed and self.c_type == "f16":
            c = c.view(np.float16).astype(np.float32).view(np.uint32)
        if self.a_type in PACKED:
            a, b = (unpacked(words, self.a_type).reshape(*words.shape[:2], -1) for words in (a, b))
        k = self.shape[2]
        for part in np.split(np.arange(k), k // (WMMA_TYPES[self.a_type].k_step or k)):
            c = self._sums(np.ascontiguousarray(a[:, :, part]), np.ascontiguousarray(b[:, :, part]), c)
        return _as_halves(c.view(np.float32)) if is_mixed and self.d_type == "f16" else c

    def _sums(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if self.d_type == "f64":
            return doubles(a, b, c, self.rounding)
        summed = "f32" if self.d_type != self.c_type else self.d_type
        return differing(a, b, c) if self.xor else sums(a, b, c, (self.a_type, self.a_type, summed), None, self.satfinite, self.arch)
