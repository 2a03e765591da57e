"""What made a D: the operands of the instructions that were added into it, and where every element of them was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.arithmetic.multiply import Factors, Options, multiply_tiles, row_of
from smemsim.arithmetic.values import to_float64
from smemsim.machine.product import MmaOperand, MmaResult
from smemsim.spec.mma_arithmetic import MmaArithmetic

__all__ = ["Product", "Reference", "Side", "nowhere"]


Reference = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]  # D of values of A (M, K), B (N, K), C (M, N) in so many steps


def nowhere(step: int, line: int, k: int) -> str:
    """The place of an element of which nobody knows it."""
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """A (steps, M, K) or B (steps, N, K): raw bits, shared addresses (-1: not in shared memory), and `place(step, line, k)` in words."""

    bits: np.ndarray
    address: np.ndarray | None = None
    place: Callable[[int, int, int], str] = nowhere

    def flat(self, array: np.ndarray | None = None) -> np.ndarray:
        """(lines, steps * K): the elements of a line in the order in which they are added."""
        found = self.bits if array is None else array
        return found.transpose(1, 0, 2).reshape(found.shape[1], -1)


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """C (M, N), and A and B of the instructions that were added to it one after the other; a sparse A with its zeros. `factors`: one a step.

    `memory` is shared memory as it was then, (first address, bytes), if anybody knows.
    """

    kind: str
    types: tuple[str, str, str]
    a: Side
    b: Side
    c: np.ndarray
    options: Options = Options()  # noqa: RUF009
    factors: tuple[Factors, ...] | None = None
    memory: tuple[int, bytes] | None = None

    @property
    def row(self) -> MmaArithmetic:
        """The arithmetic of the instruction."""
        return row_of(self.kind, *self.types)

    def run(self, row: MmaArithmetic | None = None, **changed: Any) -> np.ndarray:
        """D, also with another `row`, other `a`, `b`, `c` (raw bits) or `options`."""
        a, b = changed.get("a", self.a.bits), changed.get("b", self.b.bits)
        d: np.ndarray = changed.get("c", self.c)
        for step in range(len(a)):
            own = self.factors[step] if self.factors else None
            factors = None if own is None else own.of(own.a[None], own.b[None])
            d = multiply_tiles(
                a[step][None], b[step][None], d[None], row=row or self.row, types=self.types, options=changed.get("options", self.options),
                factors=factors,
            )[0]  # fmt: skip
        return d

    def run_as(self, how: MmaArithmetic | Reference) -> np.ndarray:
        """D of another datapath, or of a sum that is no tensor core's."""
        if isinstance(how, MmaArithmetic):
            return self.run(how)
        with np.errstate(all="ignore"):
            a, b = (self.values(side) * self.weights(side) for side in "AB")
            return how(a, b, to_float64(self.c, self.types[2]) * 2.0**-self.options.scale_c, len(self.a.bits))

    def part(self, rows: Any = slice(None), columns: Any = slice(None)) -> Product:
        """That of some rows and columns of D."""
        factors = self.factors and tuple(f.of(f.a[rows], f.b[columns]) for f in self.factors)
        a, b = (Side(side.bits[:, lines]) for side, lines in ((self.a, rows), (self.b, columns)))
        return dataclasses.replace(self, a=a, b=b, c=self.c[rows][:, columns], factors=factors)

    def weights(self, side: str) -> np.ndarray:
        """(lines, steps * K): by what every element counts: its scale factor, the instruction's sign in A."""
        own = self.a if side == "A" else self.b
        sign = -1.0 if side == "A" and self.options.negate_a != self.options.negate_b else 1.0
        if self.factors is None:
            return np.full(own.flat().shape, sign)
        k = np.arange(own.bits.shape[2])
        parts = [to_float64(f.a if side == "A" else f.b, f.dtype)[:, k // f.k_per_factor] for f in self.factors]
        return sign * np.concatenate(parts, axis=1)

    def values(self, side: str, bits: np.ndarray | None = None) -> np.ndarray:
        """(lines, steps * K): the elements' values, without their weights."""
        own, dtype = (self.a, self.types[0]) if side == "A" else (self.b, self.types[1])
        return to_float64(own.flat(bits), dtype)

    @classmethod
    def of(cls, results: Sequence[MmaResult], columns: slice = slice(None)) -> Product | None:
        """That of instructions which were run; None where its terms are not products of whole elements of A and B."""
        first = results[0]
        if any(r.lower is not None or (r.index is not None and r.arithmetic.group > 1) for r in results):
            return None
        width = first.d.shape[1] // len(first.a)
        band = (columns.start or 0) // width
        of_a, of_b = [r.a[band] for r in results], [r.b for r in results]
        return cls(
            first.kind,
            (of_a[0].dtype, of_b[0].dtype, first.d_type),
            _side(of_a, [r.index for r in results], [None] * len(results)),
            _side(of_b, [None] * len(results), [r.zero_columns for r in results], columns),
            np.asarray(first.c)[:, columns],
            Options(*first.negate, first.scale_c, first.saturate),
            None if first.factors is None else tuple(r.factors.of(r.factors.a, r.factors.b[columns]) for r in results if r.factors),
        )


def _side(
    operands: Sequence[MmaOperand], index: Sequence[np.ndarray | None], zeros: Sequence[np.ndarray | None], lines: slice = slice(None)
) -> Side:
    """The operands of the steps, one above the other; sparse ones spread out, masked columns of B zero."""
    bits, addresses, places = [], [], []
    for one, where, zero in zip(operands, index, zeros, strict=True):
        address = one.address if one.space == "shared" else np.full(one.bits.shape, -1)
        stored = np.broadcast_to(np.arange(one.bits.shape[1]), one.bits.shape)
        of = np.where(zero[:, None], 0, one.bits) if zero is not None else one.bits
        if where is not None:
            shape = (len(of), 2 * of.shape[1])
            spread = [np.zeros(shape, of.dtype), np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)]
            for to, source in zip(spread, (of, address, stored), strict=True):
                np.put_along_axis(to, np.asarray(where), source, axis=1)
            of, address, stored = spread
        bits.append(of[lines])
        addresses.append(np.asarray(address, np.int64)[lines])
        places.append(stored[lines])
    first = lines.start or 0

    def place(step: int, line: int, k: int) -> str:
        s = int(places[step][line, k])
        return operands[step].place(first + line, s) if s >= 0 else "not stored"

    return Side(np.stack(bits), np.stack(addresses), place)
