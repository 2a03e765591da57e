"""Other roundings of the same terms: other constants of the datapath, and how sums are made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.core.arithmetic.values import from_float64
from smemsim.core.spec.mma_arithmetic import ARITHMETIC, OTHER_KEPT_BITS, OTHER_ZERO_EXPONENTS, MmaArithmetic
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.difference.sides import Product, Reference

__all__ = ["other_roundings"]


NEVER = -300  # below every product


def other_roundings(c: Compared) -> list[str]:
    """The roundings that give all of hardware's D."""
    return [] if c.integer or not c.exact else [text for text, how in rivals(c.product) if c.explained(c.product, how)]


def rivals(product: Product) -> Iterator[tuple[str, MmaArithmetic | Reference]]:
    """(what were otherwise, what `Product.run_as` takes)."""
    row = product.row
    kept, fraction = "{} bits were kept below the largest term", "D had {} fraction bits"
    named: list[tuple[str, dict[str, Any]]] = [
        (kept.format(n), {"kept_bits": n})
        for n in _near(row.kept_bits or 0, 3, *OTHER_KEPT_BITS, *(r.kept_bits for r in ARITHMETIC if r.kept_bits))
    ]
    if row.d_type == "f32":
        named += [(fraction.format(n), {"fraction_bits": n}) for n in (10, 13, 22, 23)]
        named += [
            (f"{kept.format(n)} and {fraction.format(bits)}", {"kept_bits": n, "fraction_bits": bits})
            for n, bits in ((13, 13), (12, 12), (14, 14), (25, 23), (24, 23), (23, 22))
            if n != row.kept_bits and bits != row.fraction_bits
        ]
    named.append((f"the last conversion were {'toward zero' if row.to_nearest else 'to nearest'}", {"to_nearest": not row.to_nearest}))
    named += [
        (f"zeros counted with 2^{zero}" if zero > NEVER else "zeros did not count", {"zero_exponent": zero})
        for zero in _near(row.zero_exponent, 1, NEVER, *OTHER_ZERO_EXPONENTS, *(r.zero_exponent for r in ARITHMETIC))
    ]
    yield from ((text, other) for text, change in named if (other := row._replace(**change)) != row)
    if row.d_type == "f32":
        yield from REFERENCES.items()


def _near(number: int, by: int, *more: int) -> list[int]:
    return sorted({*range(number - by, number + by + 1), *more} - {number}, key=lambda x: (abs(x - number), x))


def _in_float64(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    return from_float64(a @ b.T + c, "f32")


def _in_order(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k, None] * b[None, :, k]).astype(np.float32)
    return from_float64(total, "f32")


def _by_instruction(a: np.ndarray, b: np.ndarray, c: np.ndarray, steps: int) -> np.ndarray:
    for of_a, of_b in zip(np.split(a, steps, axis=1), np.split(b, steps, axis=1), strict=True):
        c = (c + of_a @ of_b.T).astype(np.float32).astype(np.float64)
    return from_float64(c, "f32")


# How sums are made elsewhere: what a reference on the host or in CUDA cores computes, from values (M, K), (N, K) and
# (M, N).
REFERENCES: dict[str, Reference] = {
    "it were one sum in float64, rounded to nearest": _in_float64,
    "it were one fused multiply-add after the other in float32, as CUDA cores compute": _in_order,
    "each instruction rounded its exact sum to nearest": _by_instruction,
}
