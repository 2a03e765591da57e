"""Hardware's D and the model's: the places of differences, their sizes, and the part that rounding could cause."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from smemsim.core.arithmetic.values import to_float64
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.diagnosis.difference.sides import Product, Reference

__all__ = ["SEVERAL", "Compared"]


CORNER = 8  # rows and columns of D that are looked at first
# elements that rounding cannot explain and that another explanation must, before it counts as right except for rounding
SEVERAL = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Compared:
    """`room` (M, N) is the difference that rounding may make. Without `exact`, elements within it agree.

    `extra` (M, N) is the part of it that a conversion of D after the instruction makes.
    """

    product: Product
    hardware: np.ndarray
    model: np.ndarray
    room: np.ndarray
    exact: bool = True
    extra: np.ndarray | None = None

    @classmethod
    def of(cls, product: Product, hardware: np.ndarray, extra: np.ndarray | None = None) -> Compared:
        """Raw bits of hardware next to those of the model."""
        steps = product.partial()
        room = bound(product, steps)
        return cls(product, hardware.astype(steps[-1].dtype), steps[-1], room if extra is None else room + extra, extra=extra)

    @functools.cached_property
    def wrong(self) -> np.ndarray:
        """(M, N): other bits, not counting those of NaNs."""
        return ~self._same(self.model)

    @functools.cached_property
    def delta(self) -> np.ndarray:
        """(M, N): hardware's values minus the model's; NaN where one of them is no number."""
        if self.integer:
            return np.asarray((self.hardware - self.model).view(np.int32), np.float64)
        with np.errstate(invalid="ignore"):
            found = self.values(self.hardware) - self.values(self.model)
        return np.where(np.isfinite(found), found, np.nan)

    @functools.cached_property
    def beyond(self) -> np.ndarray:
        """(M, N): differences that are no rounding."""
        return np.asarray(self.wrong & ~(np.abs(self.delta) <= self.room))

    @property
    def differs(self) -> np.ndarray:
        """(M, N): what another idea must explain."""
        return self.wrong if self.exact else self.beyond

    @property
    def integer(self) -> bool:
        """Are these sums of integers, which wrap?"""
        return self.product.row.kept_bits is None

    @property
    def said(self) -> str:
        """How the agreeing elements of D agree: "bit for bit" or "except for rounding"."""
        return "bit for bit" if self.exact else "but for rounding"

    def values(self, bits: np.ndarray) -> np.ndarray:
        """Values of raw bits of the type of D."""
        return to_float64(bits, self.product.types[2])

    def agrees(self, d: np.ndarray, room: np.ndarray) -> np.ndarray:
        """Which raw bits are hardware's, or near enough to them."""
        same = self._same(d)
        if self.exact or self.integer:
            return same
        with np.errstate(invalid="ignore"):
            return np.asarray(same | (np.abs(self.values(d) - self.values(self.hardware)) <= room))

    def fits(self, product: Product, how: MmaArithmetic | Reference | None = None) -> np.ndarray:
        """Which elements of D agree with hardware's, for another product or another datapath."""
        if how is not None:
            return self.agrees(product.run_as(how), self.room)
        steps = product.partial()
        return self.agrees(steps[-1], self.room if self.exact else bound(product, steps) + (0 if self.extra is None else self.extra))

    def explained(self, product: Product, how: MmaArithmetic | Reference | None = None) -> bool:
        """Does all of it? A corner of what differs is looked at first."""
        corner = self.part(*self.corner)
        first = corner.agrees(product.part(*self.corner).run_as(how or product.row), corner.loose)
        return bool(first.all() and self.fits(product, how).all())

    def _same(self, d: np.ndarray) -> np.ndarray:
        """Which elements of `d` have the bits that hardware left; all NaNs count as equal."""
        same = d == self.hardware
        if not self.integer:
            to = element_format(self.product.types[2])
            nan = [x & to.magnitude > to.largest + 1 for x in (d, self.hardware)]
            same |= nan[0] & nan[1]
        return np.asarray(same)

    @functools.cached_property
    def loose(self) -> np.ndarray:
        """(M, N): what rounding can make of D once other terms, as large as the difference, are in it."""
        row, (steps, _, k) = self.product.row, self.product.a.bits.shape
        if row.kept_bits is None:
            return self.room
        part = 4 * (steps * k * 2.0**-row.kept_bits + 2 * steps * 2.0**-row.fraction_bits)
        return np.asarray(2 * self.room + part * np.nanmax(np.abs(self.delta), initial=0))

    def near(self, change: np.ndarray) -> np.ndarray:
        """The elements where a change of D, summed in float64, may be the difference. This is checked before anything
        is multiplied.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(np.isnan(self.delta) | (np.abs(self.delta - change) <= self.loose))

    @functools.cached_property
    def corner(self) -> tuple[np.ndarray, np.ndarray]:
        """A few of the rows and columns of D that differ, in the order in which they lie, those with the most numbers
        in them.
        """
        told = (self.differs & np.isfinite(self.delta)).astype(int) + self.differs
        rows, columns = (np.sort(np.argsort(-told.sum(axis=axis), kind="stable")[:CORNER]) for axis in (1, 0))
        return rows, columns

    def part(self, rows: Any = slice(None), columns: Any = slice(None)) -> Compared:
        """The comparison of some rows and columns of D."""
        hardware, model, room = (x[rows][:, columns] for x in (self.hardware, self.model, self.room))
        extra = None if self.extra is None else self.extra[rows][:, columns]
        return Compared(self.product.part(rows, columns), hardware, model, room, self.exact, extra)


def bound(product: Product, steps: list[np.ndarray]) -> np.ndarray:
    """(M, N): a generous bound for rounding of D. `steps` are those of `Product.partial`.

    Every term may lose the bits below those that are kept next to the largest one. Every instruction converts its
    sum. If the exact sum needs fewer bits, as with small whole numbers, nothing is lost; two units in the last place
    of D remain.
    """
    row, to = product.row, element_format(product.types[2])
    if row.kept_bits is None:
        return np.zeros(product.c.shape)
    values = [np.nan_to_num(product.terms(name), posinf=0, neginf=0) for name in "AB"]
    each = [
        np.maximum(_power(x), (x != 0) * np.abs(product.weights(name)) * 2.0 ** element_format(dtype).smallest_exponent)
        for x, name, dtype in zip(values, "AB", product.types, strict=False)
    ]
    held = [np.abs(np.nan_to_num(to_float64(d, to), posinf=0, neginf=0)) for d in steps]
    last = [_last_place(x) for x in values]
    largest, granule = np.max(held, axis=0), _last_place(np.nan_to_num(product.start(), posinf=0, neginf=0))
    term = np.empty(largest.shape)
    for k in range(values[0].shape[1]):
        np.maximum(largest, np.multiply(each[0][:, k, None], each[1][None, :, k], out=term), out=largest)
        np.minimum(granule, np.multiply(last[0][:, k, None], last[1][None, :, k], out=term), out=granule)
    terms, conversions = values[0].shape[1], 2 * len(product.a.bits)
    lost = 4 * largest * (terms * 2.0**-row.kept_bits + conversions * 2.0**-row.fraction_bits)
    total = np.abs(values[0]) @ np.abs(values[1]).T + held[0]
    smallest = 2.0 ** (to.smallest_exponent - to.fraction_bits)
    nothing = total < granule * 2.0 ** min(row.kept_bits, row.fraction_bits)
    return np.maximum(np.where(nothing, _power(held[-1]) * 2.0 ** (1 - row.fraction_bits), lost), 2 * smallest)


def _power(values: np.ndarray) -> np.ndarray:
    """The largest power of two that is not larger than each value; 0 for 0."""
    return np.where(values == 0, 0, np.ldexp(1.0, np.frexp(values)[1] - 1))


def _last_place(values: np.ndarray) -> np.ndarray:
    """The largest power of two that each value is a multiple of; infinity for 0."""
    fraction, exponent = np.frexp(values)
    whole = (fraction * 2.0**53).astype(np.int64)
    return np.where(values == 0, np.inf, np.ldexp((whole & -whole).astype(float), exponent - 53))
