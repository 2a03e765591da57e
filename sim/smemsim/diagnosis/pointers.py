"""Faults of kernels with pointers in a product: a loop over K that ends early or adds a block twice, strides of another
tensor, tiles that overlap.

They follow from D, A and B alone, for any instruction: loop and pointers know nothing of swizzles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from smemsim.core.arithmetic.values import from_float64
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.numbers import numbers_told

__all__ = ["pointer_faults", "sums"]


BLOCKS = (16, 32, 64, 128, 256)  # rows or k of a block of pointers
PADS = (1, 2, 4, 8, 16, 32, 64)  # elements by which a leading dimension is off
NOBODY = -1
MOST_TIMES = 4  # that an element of K is added
MOST_RUNS = 4  # of K that a loop leaves out or repeats
NEARLY_WHOLE = 0.05  # how far from a whole number a count may be that rounding has moved
SINGULAR = 1e9


# ---- Which k of the sum are missing, or are there twice: D = sum over k of count[k] a[:, k] b[:, k]


def sums(c: Compared) -> list[str]:
    """D with some of K left out or added several times, in words; nothing if these data do not show it."""
    p = c.product
    a, b = p.terms("A"), p.terms("B")
    extent = a.shape[1]
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c.delta).all()):
        return []
    products = (a.T @ a) * (b.T @ b)  # of the outer products of every two k
    right = np.einsum("mk,mn,nk->k", a, c.delta, b, optimize=True)
    for unit in (1, *(x for x in BLOCKS if extent % x == 0 and x < extent)):
        own = products.reshape(extent // unit, unit, extent // unit, unit).sum(axis=(1, 3))
        if np.linalg.cond(own) > SINGULAR:
            continue
        solved = np.linalg.solve(own, right.reshape(-1, unit).sum(axis=1))
        changed = np.repeat(np.rint(solved).astype(int), unit)
        if np.abs(np.repeat(solved, unit) - changed).max() > NEARLY_WHOLE or not changed.any():
            continue
        counts = 1 + changed
        return [_told(counts)] if _is_loop(counts) and _gives(c, counts) else []
    return []


def _is_loop(counts: np.ndarray) -> bool:
    """Could a loop have added each k so often: few runs, and none taken away?"""
    runs = 1 + int(np.count_nonzero(np.diff(counts)))
    return bool(counts.min() >= 0 and counts.max() <= MOST_TIMES and 1 < runs <= MOST_RUNS)


def _gives(c: Compared, counts: np.ndarray) -> bool:
    """Is the product D, with each k as often as that?

    A times 2 or 4 has numbers of A's type. A times 3 may have none: so the product is added once more for these k.
    """
    side, name = c.product.a, c.product.types[0]
    factors = np.where(counts == 3, 2, counts)
    bits = from_float64(c.product.terms("A") * factors, name)
    same = factors == 1
    bits[:, same] = side.flat()[:, same]
    own = side.steps(bits.astype(side.bits.dtype))
    more = np.where(side.steps((counts == 3)[None]), side.bits, 0)  # (steps, M, K), zeros for all other k
    again = np.flatnonzero(more.any(axis=(1, 2)))
    product = c.product.instructions([*range(len(own)), *again.tolist()]) if again.size else c.product
    return c.explained(product.having("A", np.concatenate([own, more[again]]).astype(own.dtype)))


def _told(counts: np.ndarray) -> str:
    """Which k are missing, and which are added several times."""
    said = []
    for times in sorted(set(counts.tolist()) - {1}):
        which = np.flatnonzero(counts == times)
        many = {0: "were missing from the sum", 2: "were added twice"}.get(times, f"were added {times} times")
        said.append(f"k {numbers_told(which.tolist(), len(counts))} {many}")
    missing = np.flatnonzero(counts == 0)
    if len(said) == 1 and missing.size and missing[-1] - missing[0] + 1 == missing.size:
        at = "last" if missing[-1] == len(counts) - 1 else "first" if missing[0] == 0 else ""
        hint = {"last": ": a loop over K that ends too early", "first": ": a loop over K that begins too late, or a sum that begins anew"}
        said[0] += f" (the {at} {missing.size} of {len(counts)}{hint[at]}, or A or B is 0 there)" if at else " (or A or B is 0 there)"
    return " and ".join(said)


# ---- Where the pointers of an operand lead


def pointer_faults(extent: tuple[int, int], sizes: tuple[int, ...]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Faults of pointers and strides for an operand of rows x K that is dense in global memory. Each is (field, the end
    of "the operand were ...", the element row * K + k that is read instead of each one).

    Strides may be confused with `sizes`, the extents of the product. Memory after the operand is unknown.

    >>> field, text, source = next(pointer_faults((32, 64), (32, 16, 64)))
    >>> text, source[1, 0]
    ('read with rows 0 elements apart instead of 64', np.int64(0))
    """
    rows, k = extent
    row, column = np.arange(rows)[:, None], np.arange(k)[None]
    seen = {(row * k + column).tobytes()}
    for field, text, at, is_along_k in itertools.chain(_strides(rows, k, sizes), _blocks(rows, k)):
        inside = (at >= 0) & (at < rows * k)
        source = np.where(inside, at if is_along_k else at % rows * k + at // rows, NOBODY)
        if source.tobytes() not in seen:
            seen.add(source.tobytes())
            yield field, text, source


def _strides(rows: int, k: int, sizes: tuple[int, ...]) -> Iterator[tuple[str, str, np.ndarray, bool]]:
    """Another stride between rows, where K is contiguous, or between k, where rows are."""
    row, column = np.arange(rows)[:, None], np.arange(k)[None]
    for own, is_along_k in ((k, True), (rows, False)):
        pads = [own + sign * pad for pad in PADS for sign in (-1, 1)]
        for stride in dict.fromkeys((0, own // 2, 2 * own, own // 4, 4 * own, *sizes, *pads)):
            if stride == own or stride < 0:
                continue
            what, which = ("rows", "") if is_along_k else ("k", " (where rows are contiguous)")
            overlap = ": they overlap" if 0 < stride < own else ""
            at = row * stride + column if is_along_k else column * stride + row
            yield "the stride of its pointers", f"read with {what} {stride} elements apart instead of {own}{which}{overlap}", at, is_along_k


def _blocks(rows: int, k: int) -> Iterator[tuple[str, str, np.ndarray, bool]]:
    """Another distance between the blocks of K of a loop, or between the tiles of rows of programs."""
    row, column = np.arange(rows)[:, None], np.arange(k)[None]
    for block, step in itertools.product(BLOCKS, (0, 0.5, 2)):
        by = int(block * step)
        how = "all the same" if not step else f"{by} apart: they overlap" if step < 1 else f"{by} apart: every other one is left out"
        if k % block == 0 and block < k:
            at = row * k + column // block * by + column % block
            yield "the advance of its pointers", f"read with blocks of {block} k {how}", at, True
        if rows % block == 0 and block < rows:
            yield (
                "the first row of its tiles",
                f"read with tiles of {block} rows {how}",
                (row // block * by + row % block) * k + column,
                True,
            )
