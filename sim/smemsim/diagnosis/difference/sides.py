"""The origin of a D: the operands of the instructions that were added into it, and the place of every element of
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.core.arithmetic.multiply import Factors, Options, multiply_tiles, row_of
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.machine.product import MmaOperand, MmaResult
from smemsim.core.spec.mma_arithmetic import MmaArithmetic

__all__ = ["Product", "Reference", "Side"]


# D of values of A (M, K), B (N, K), C (M, N) in so many steps
Reference = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def nowhere(step: int, line: int, k: int) -> str:
    """The place of an element with an unknown place."""
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """A (steps, M, K) or B (steps, N, K) of a product. It has raw bits, shared addresses of the stored elements, and
    `place(step, line, k)` in words.

    The array `stored` (steps, lines, K) has the number of each stored element. It is -1 for elements that are not
    stored: the zeros of a sparse A, masked columns of B. Without it all are stored in order.
    """

    bits: np.ndarray
    address: np.ndarray | None = None
    place: Callable[[int, int, int], str] = nowhere
    stored: np.ndarray | None = None

    def flat(self, array: np.ndarray | None = None) -> np.ndarray:
        """(lines, steps * K): the elements of a line in the order in which they are added."""
        found = self.bits if array is None else array
        return found.transpose(1, 0, 2).reshape(found.shape[1], -1)

    def steps(self, array: np.ndarray) -> np.ndarray:
        """The inverse of `flat`."""
        return np.ascontiguousarray(array.reshape(len(array), *self.bits.shape[::2]).transpose(1, 0, 2))

    def spread(self, array: np.ndarray, lines: Any = slice(None), steps: slice = slice(None)) -> np.ndarray:
        """The values of stored elements of some steps and lines, (…, steps, lines, stored), for every element."""
        if self.stored is None:
            return array
        stored = self.stored[steps, lines]
        where = np.broadcast_to(stored, (*array.shape[:-1], stored.shape[2]))
        return np.where(where < 0, 0, np.take_along_axis(array, np.maximum(where, 0), axis=-1)).astype(array.dtype)

    @property
    def usable(self) -> np.ndarray:
        """(lines, steps * K): is there an element that could be another?"""
        return self.flat(np.zeros(self.bits.shape, int) if self.stored is None else self.stored) >= 0


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """C (M, N), and A and B of the instructions that were added to it one after the other. A sparse A has its zeros.
    There is one entry of `factors` for each step.

    If shared memory at that time is known, `memory` is (first address, bytes).
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

    def side(self, name: str) -> Side:
        """Operand "A" or "B"."""
        return self.a if name == "A" else self.b

    def partial(self, row: MmaArithmetic | None = None) -> list[np.ndarray]:
        """C, and what D is after every instruction, also with another `row`."""
        partial_sums = [self.c]
        for step in range(len(self.a.bits)):
            own = self.factors[step] if self.factors else None
            partial_sums.append(multiply_tiles(
                self.a.bits[step][None], self.b.bits[step][None], partial_sums[-1][None], row=row or self.row, types=self.types,
                options=self.options, factors=None if own is None else own.of(own.a[None], own.b[None]),
            )[0])  # fmt: skip
        return partial_sums

    def run(self, row: MmaArithmetic | None = None) -> np.ndarray:
        """D after all steps; `row` is the arithmetic, that of the product if left out."""
        return self.partial(row)[-1]

    def run_as(self, how: MmaArithmetic | Reference) -> np.ndarray:
        """D of another datapath, or of a sum that is no tensor core's."""
        if isinstance(how, MmaArithmetic):
            return self.run(how)
        with np.errstate(all="ignore"):
            return how(self.terms("A"), self.terms("B"), self.start(), len(self.a.bits))

    def having(self, name: str, bits: np.ndarray) -> Product:
        """The product with `bits` (steps, lines, K) as the elements of operand `name`."""
        changed = {name.lower(): dataclasses.replace(self.side(name), bits=bits)}
        return dataclasses.replace(self, **changed)  # type: ignore[arg-type]

    def instructions(self, a: Sequence[int], b: Sequence[int] | None = None) -> Product:
        """Other instructions: those whose A and whose B have these numbers, in this order."""
        b = a if b is None else b
        sides = [dataclasses.replace(side, bits=side.bits[list(of)], address=None, stored=None) for side, of in ((self.a, a), (self.b, b))]
        factors = self.factors and tuple(self.factors[i].of(self.factors[i].a, self.factors[j].b) for i, j in zip(a, b, strict=True))
        return dataclasses.replace(self, a=sides[0], b=sides[1], factors=factors)

    def part(self, rows: Any = slice(None), columns: Any = slice(None)) -> Product:
        """The product that gives some rows and columns of D."""
        factors = self.factors and tuple(f.of(f.a[rows], f.b[columns]) for f in self.factors)
        a, b = (Side(side.bits[:, lines]) for side, lines in ((self.a, rows), (self.b, columns)))
        return dataclasses.replace(self, a=a, b=b, c=self.c[rows][:, columns], factors=factors)

    def weights(self, name: str) -> np.ndarray:
        """(lines, steps * K): by what every element counts: its scale factor, the instruction's sign in A."""
        own = self.side(name)
        sign = -1.0 if name == "A" and self.options.negate_a != self.options.negate_b else 1.0
        if self.factors is None:
            return np.full((own.bits.shape[1], own.bits.shape[0] * own.bits.shape[2]), sign)
        k = np.arange(own.bits.shape[2])
        parts = [to_float64(f.a if name == "A" else f.b, f.dtype)[:, k // f.k_per_factor] for f in self.factors]
        return sign * np.concatenate(parts, axis=1)

    def values(self, name: str) -> np.ndarray:
        """(lines, steps * K): the elements' values, without their weights."""
        return to_float64(self.side(name).flat(), self.types["AB".index(name)])

    def terms(self, name: str) -> np.ndarray:
        """(lines, steps * K): the elements as they count."""
        with np.errstate(all="ignore"):
            return np.asarray(self.values(name) * self.weights(name))

    def start(self) -> np.ndarray:
        """(M, N): C as it counts."""
        return to_float64(self.c, self.types[2]) * 2.0**-self.options.scale_c

    @classmethod
    def of(cls, results: Sequence[MmaResult], columns: slice = slice(None)) -> Product | None:
        """The product of instructions that were run; None where its terms are not products of whole elements of A and
        B.
        """
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
    stored = []
    for operand, where, zero in zip(operands, index, zeros, strict=True):
        rows, s = operand.bits.shape
        of = np.broadcast_to(np.arange(s), operand.bits.shape)
        if where is not None:
            of, own = np.full((rows, 2 * s), -1), of
            np.put_along_axis(of, np.asarray(where), own, axis=1)
        stored.append(of if zero is None else np.where(zero[:, None], -1, of))
    first = lines.start or 0
    dense = all(x is None for x in (*index, *zeros))
    alone = all(
        len(operand.writers) == 1 and operand.space == "shared" for operand in operands
    )  # addresses of a pair are those of two memories
    side = Side(
        np.stack([operand.bits[lines] for operand in operands]),
        np.stack([np.asarray(operand.address, np.int64)[lines] for operand in operands]) if alone else None,
        lambda step, line, k: operands[step].place(first + line, int(stored[step][first + line, k])),
        None if dense else np.stack([of[lines] for of in stored]),
    )
    return dataclasses.replace(side, bits=side.spread(side.bits))
