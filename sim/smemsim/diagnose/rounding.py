"""Does a D differ by rounding only, and which other rounding makes it?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.arithmetic.values import from_float64, to_float64
from smemsim.diagnose.product import Product, Reference
from smemsim.spec.formats import element_format
from smemsim.spec.mma_arithmetic import MmaArithmetic

__all__ = ["bound", "rivals"]


def bound(product: Product) -> np.ndarray:
    """(M, N): what any sensible rounding can change in D, a few times over: one step of alignment for every term and every conversion."""
    row, to = product.row, element_format(product.types[2])
    if row.kept_bits is None:
        return np.zeros(product.c.shape)
    each = []
    for side, dtype in zip("AB", product.types, strict=False):
        values = np.abs(np.nan_to_num(product.values(side), posinf=0, neginf=0))
        each.append(
            np.where(values > 0, np.maximum(values, 2.0 ** element_format(dtype).smallest_exponent), 0) * np.abs(product.weights(side))
        )
    largest = np.abs(np.nan_to_num(to_float64(product.c, to), posinf=0, neginf=0))
    for k in range(each[0].shape[1]):
        largest = np.maximum(largest, each[0][:, k, None] * each[1][None, :, k])
    steps = len(product.a.bits)
    # 4 because the exponents of products are not normalised, and a chained C may have grown by as much again.
    units = each[0].shape[1] + 2 * steps
    smallest = 2.0 ** (to.smallest_exponent - to.fraction_bits)
    return np.asarray(np.maximum(4 * largest * units * 2.0 ** (1 - min(row.kept_bits, row.fraction_bits)), 2 * smallest))


def rivals(product: Product) -> Iterator[tuple[str, MmaArithmetic | Reference]]:
    """(in words, what `Product.run_as` takes): other constants of the same datapath, and how others sum."""
    row = product.row
    if row.kept_bits is None:
        return
    named: list[tuple[str, dict[str, Any]]] = []
    named += [(f"{kept} bits kept below the largest term", {"kept_bits": kept}) for kept in _near(row.kept_bits, 3, 13, 23, 24, 25, 35)]
    if row.d_type == "f32":
        named += [(f"{n} fraction bits in D", {"fraction_bits": n}) for n in (10, 13, 22, 23)]
        named += [
            (f"{kept} bits kept below the largest term and {n} fraction bits in D", {"kept_bits": kept, "fraction_bits": n})
            for kept, n in ((13, 13), (12, 12), (14, 14), (25, 23), (24, 23), (23, 22))
        ]
    named.append((f"a final conversion {'toward zero' if row.to_nearest else 'to nearest'}", {"to_nearest": not row.to_nearest}))
    named += [
        (f"zeros that count with 2^{zero}" if zero > NEVER else "zeros that do not count", {"zero_exponent": zero})
        for zero in _near(row.zero_exponent, 1, NEVER, -139, -133, -126, -22)
    ]
    for text, change in named:
        other = dataclasses.replace(row, **change)
        if other != row:
            yield text, other
    if row.d_type == "f32" and product.factors is None:
        yield from REFERENCES.items()


NEVER = -1000  # below every product


def _near(number: int, by: int, *more: int) -> list[int]:
    return sorted({*range(number - by, number + by + 1), *more} - {number}, key=lambda x: (abs(x - number), x))


def _in_float64(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    return from_float64(a @ b.T + c, "f32")


def _in_order(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k, None] * b[None, :, k]).astype(np.float32)
    return total.view(np.uint32)


def _by_instruction(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    for of_a, of_b in zip(np.split(a, steps, axis=1), np.split(b, steps, axis=1), strict=True):
        c = (c + of_a @ of_b.T).astype(np.float32).astype(np.float64)
    return c.astype(np.float32).view(np.uint32)


# How sums are made elsewhere: what a reference on the host or in CUDA cores computes, from values (M, K), (N, K) and (M, N).
REFERENCES: dict[str, Reference] = {
    "one sum in float64, rounded to nearest": _in_float64,
    "one fused multiply-add after the other in float32, as CUDA cores compute": _in_order,
    "the exact sum of each instruction, rounded to nearest": _by_instruction,
}
