"""Why a product differs: rounding, terms, places, options."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from smemsim.arguments import shown
from smemsim.arithmetic.multiply import Factors, Options, multiply_tiles, row_of
from smemsim.arithmetic.values import element_value, from_float64, raw_bits, to_float64
from smemsim.errors import InputError
from smemsim.judge.numbers import numbers_told
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, MmaResult
from smemsim.spec.formats import ElementFormat, element_format
from smemsim.spec.mma_arithmetic import ARITHMETIC, NAN, OTHER_KEPT_BITS, OTHER_ZERO_EXPONENTS, MmaArithmetic
from smemsim.spec.swizzles import MODES, SwizzleMode
from smemsim.words.operand import swizzled
from smemsim.words.operand_layout import Decoded, chunk_address

__all__ = [
    "Compared",
    "Diagnosis",
    "LooksLike",
    "Product",
    "Reference",
    "Side",
    "Tests",
    "bound",
    "diagnose",
    "explain_difference",
    "moved_elements",
    "moved_lines",
    "moved_told",
    "nowhere",
    "other_elements",
    "other_instructions",
    "other_lines",
    "other_operands",
    "other_options",
    "other_roundings",
    "read_otherwise",
]


# ---- What made a D: the operands of the instructions that were added into it, and where every element of them was


Reference = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]  # D of values of A (M, K), B (N, K), C (M, N) in so many steps


def nowhere(step: int, line: int, k: int) -> str:
    """The place of an element of which nobody knows it."""
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """A (steps, M, K) or B (steps, N, K): raw bits, shared addresses of what is stored, and `place(step, line, k)` in words.

    `stored` (steps, lines, K) says which stored element each one is, -1 for none (the zeros of a sparse A, masked columns of B); without
    it all are stored as they stand.
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
        """What belongs to stored elements of some steps and lines, (…, steps, lines, stored), for every element."""
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
        """The product of instructions that were run; None where its terms are not products of whole elements of A and B."""
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


# ---- Hardware's D beside the model's: where they differ, by how much, and how much of that rounding could be


CORNER = 8  # rows and columns of D that are looked at first
SEVERAL = 8  # elements that rounding cannot explain and another idea must, before that may be right but for rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Compared:
    """`room` (M, N) is how far apart rounding may bring them; without `exact` what is that near agrees, not only the same bits.

    `extra` (M, N) is the part of it that comes from a conversion of D after the instruction.
    """

    product: Product
    hardware: np.ndarray
    model: np.ndarray
    room: np.ndarray
    exact: bool = True
    extra: np.ndarray | None = None

    @classmethod
    def of(cls, product: Product, hardware: np.ndarray, extra: np.ndarray | None = None) -> Compared:
        """Raw bits of hardware beside those of the model."""
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
        """How well the elements of D agree that do: "bit for bit" or "but for rounding"."""
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
        """Where a change of D, summed in float64, may be the difference: that is looked at before anything is multiplied."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.isnan(self.delta) | (np.abs(self.delta - change) <= self.loose))

    @functools.cached_property
    def corner(self) -> tuple[np.ndarray, np.ndarray]:
        """A few of the rows and columns of D that differ, in the order in which they lie, those with the most numbers in them."""
        told = (self.differs & np.isfinite(self.delta)).astype(int) + self.differs
        rows, columns = (np.sort(np.argsort(-told.sum(axis=axis), kind="stable")[:CORNER]) for axis in (1, 0))
        return rows, columns

    def part(self, rows: Any = slice(None), columns: Any = slice(None)) -> Compared:
        """The comparison of some rows and columns of D."""
        hardware, model, room = (x[rows][:, columns] for x in (self.hardware, self.model, self.room))
        extra = None if self.extra is None else self.extra[rows][:, columns]
        return Compared(self.product.part(rows, columns), hardware, model, room, self.exact, extra)


def bound(product: Product, steps: list[np.ndarray]) -> np.ndarray:
    """(M, N): what rounding can make of D, a few times over; `steps` as of `Product.partial`.

    Every term may lose what lies below the bits that are kept beside the largest one, every instruction converts its sum. Where the exact
    sum needs fewer bits than any of that has, as with small whole numbers, nothing is ever lost; two units in the last place of D are left.
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


# ---- Whole rows or columns, or single elements, in other places: of D, of an operand, or of C


ODD = 2.0**1000  # stands for what is no number


def moved_lines(c: Compared) -> list[str]:
    """Sentences about D, A, B or C with transposed or exchanged rows or columns, where that gives hardware's D."""
    p, sentences = c.product, []
    if c.model.shape[0] == c.model.shape[1] and c.agrees(c.model.T, c.room.T).all():
        sentences.append("D were transposed")
    with np.errstate(all="ignore"):
        hardware, model, start, terms = c.values(c.hardware), c.values(c.model), p.start(), p.terms("A") @ p.terms("B").T
        changes = _numbers(hardware), hardware - start, hardware - terms
    for axis, what, letter, name in ((0, "row", "m", "A"), (1, "column", "n", "B")):
        for owner, x, y in zip(("D", name, "C"), changes, (_numbers(x) for x in (model, terms, start)), strict=True):
            source = _sources(np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0), np.asarray(c.differs.any(axis=1 - axis)))
            if source is None:
                continue
            if owner == "D":
                right = bool(c.agrees(*(np.take(z, source, axis=axis) for z in (c.model, c.room))).all())
            elif owner == "C":
                right = c.explained(dataclasses.replace(p, c=np.take(p.c, source, axis=axis)))
            else:
                right = c.explained(p.having(name, np.ascontiguousarray(p.side(name).bits[:, source])))
            if right:
                sentences.append(f"{owner}'s {what}s were in other places: {moved_told(source, what, letter)}")
    return sentences


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.nan_to_num(values, nan=ODD, posinf=2 * ODD, neginf=-2 * ODD))


def _sources(found: np.ndarray, wanted: np.ndarray, differs: np.ndarray) -> np.ndarray | None:
    """Whose line each line that `differs` is nearest to; None where that says nothing, as of lines that are all the same, or zeros."""
    source = np.arange(len(found))
    for i in np.nonzero(differs)[0]:
        known = np.isfinite(found[i])
        source[i] = np.argmin(np.abs(wanted[:, known] - found[i, known]).max(axis=1, initial=0))
    lines, which, counts = np.unique(wanted, axis=0, return_inverse=True, return_counts=True)
    telling = (counts == 1) & (lines != lines[:, :1]).any(axis=1)
    moved = source[source != np.arange(len(found))]
    return source if telling[which.ravel()[moved]].any() else None


def moved_told(source: np.ndarray, what: str, letter: str) -> str:
    """From where each line comes, as a formula if there is one."""
    i, size = np.arange(len(source)), len(source)
    for text, rule in _rules(letter, i, size):
        if (rule == source).all():
            return f"{what} {letter} has what belongs in {text}"
    moved = np.nonzero(source != i)[0]
    steps = np.unique(source[moved] - moved)
    if len(steps) == 1:
        told = f"{letter} {'-' if steps[0] < 0 else '+'} {abs(int(steps[0]))}"
        return f"{what} {letter} of {numbers_told(moved.tolist(), size)} has what belongs in {told}"
    some = ", ".join(f"{what} {x} has that of {source[x]}" for x in moved[:4])
    return f"{some}{', …' if len(moved) > 4 else ''} ({len(moved)} of {size})"


def _rules(letter: str, i: np.ndarray, size: int) -> Iterator[tuple[str, np.ndarray]]:
    for x in range(1, size):
        yield f"{letter} ^ {x}", i ^ x
    for d in range(1, size):
        yield f"({letter} - {d}) % {size}", (i - d) % size
    for d in (*range(-16, 0), *range(1, 17)):
        yield f"{letter} {'-' if d > 0 else '+'} {abs(d)} * ({letter} // 8)", i - d * (i // 8)
    for x in (2, 4, 8, 16, 32, 64):
        yield f"{letter} % {x}", i % x
        yield f"{letter} - {letter} % {x}", i - i % x
    yield f"{size - 1} - {letter}", size - 1 - i


def moved_elements(c: Compared) -> list[str]:
    """Has D the right elements in other places?"""
    wanted, found = c.model[c.wrong], c.hardware[c.wrong]
    if not c.exact or not np.array_equal(np.sort(wanted), np.sort(found)):
        return []
    places = [tuple(at) for at in np.argwhere(c.wrong).tolist()]
    values, first, counts = np.unique(wanted, return_index=True, return_counts=True)
    alone = {int(v): places[i] for v, i, n in zip(values, first, counts, strict=True) if n == 1}
    moved = [at for at in places if int(c.hardware[at]) in alone]
    if len(moved) < 2:
        return []
    some = ", ".join("[{}, {}] has that of [{}, {}]".format(*at, *alone[int(c.hardware[at])]) for at in moved[:3])
    return [f"D's elements were in other places: {some}{', …' if len(places) > 3 else ''}"]


# ---- The same operands multiplied otherwise: other options of the instruction, other instructions of a chain


FAR = 16  # instructions from one to another whose operands it may have read
MOST_CHAINS = 64  # chains that are multiplied


def other_options(c: Compared) -> list[str]:
    """Sentences about options of the instruction, such as a negated A, with which the model gives hardware's D."""
    p, o = c.product, c.product.options
    tries: list[tuple[str, Product]] = []
    if p.c.any():
        tries.append(("C were not added (scale-d or enable-input-d 0)", dataclasses.replace(p, c=np.zeros_like(p.c))))
    if c.integer:
        changed = o._replace(saturate=not o.saturate)
        tries.append(("results wrapped" if o.saturate else "results were clamped (.satfinite)", dataclasses.replace(p, options=changed)))
    else:
        changed = Options(not o.negate_a, o.negate_b, o.scale_c, o.saturate)
        tries.append(("products had the other sign (imm-scale or negate bits)", dataclasses.replace(p, options=changed)))
    if p.kind in ("f16", "tf32") and p.c.any():
        tries += [
            (f"C were divided by 2^{n} (scale-input-d)", dataclasses.replace(p, options=o._replace(scale_c=n)))
            for n in range(16)
            if n != o.scale_c
        ]
    nothing = [f"no product were added: D is C{'' if p.c.any() else ', which is 0'}"] if c.exact and c.agrees(p.c, c.room).all() else []
    return nothing + [text for text, other in tries if c.explained(other)]


class Chain(NamedTuple):
    """Instructions by the numbers of those whose A and B they have; without C if the first one `begins`, one of them `negated`."""

    text: str
    a: list[int]
    b: list[int]
    begins: bool = False
    negated: int | None = None

    def of(self, p: Product) -> Product:
        """The product of these instructions."""
        product = p.instructions(self.a, self.b)
        if self.begins:
            product = dataclasses.replace(product, c=np.zeros_like(p.c))
        if self.negated is not None:
            bits = product.a.bits.copy()
            bits[self.negated] ^= bits.dtype.type(1 << element_format(p.types[0]).bits - 1)
            product = product.having("A", bits)
        return product

    def near(self, pairs: np.ndarray, start: np.ndarray) -> np.ndarray:
        """D in float64; `pairs` has the product of every A and every B."""
        signs = np.ones((len(self.a), 1, 1))
        if self.negated is not None:
            signs[self.negated] = -1
        return np.asarray((signs * pairs[self.a, self.b]).sum(axis=0) + start * (not self.begins))


def other_instructions(c: Compared) -> list[str]:
    """Instructions of a chain that were left out, ran twice, had another sign, or lost what was before them."""
    order = list(range(len(c.product.a.bits)))

    def chains() -> Iterator[Chain]:
        for i in order:
            without, twice, rest = order[:i] + order[i + 1 :], order[: i + 1] + order[i:], order[i:]
            yield Chain(f"instruction {i} were missing", without, without)
            yield Chain(f"instruction {i} ran twice", twice, twice)
            if i:
                yield Chain(
                    f"instruction {i} did not add to D (scale-d or enable-input-d 0), which loses what was before", rest, rest, begins=True
                )
            if not c.integer:
                yield Chain(f"the products of instruction {i} had the other sign (imm-scale or negate bits)", order, order, negated=i)

    return _tried(c, chains())


def other_operands(c: Compared) -> list[str]:
    """Instructions of a chain that read what another one reads."""
    order = list(range(len(c.product.a.bits)))

    def chains() -> Iterator[Chain]:
        for i in order:
            for j in order[max(0, i - FAR) : i + FAR + 1]:
                if i != j:
                    other = [*order[:i], j, *order[i + 1 :]]
                    for text, a, b in (("A", other, order), ("B", order, other), ("A and B", other, other)):
                        yield Chain(f"instruction {i} read {text} of instruction {j}", a, b)

    return _tried(c, chains())


def _tried(c: Compared, chains: Iterable[Chain]) -> list[str]:
    """The candidates that give hardware's D; a sum in float64 decides which are multiplied at all."""
    steps, _, k = c.product.a.bits.shape
    if steps < 2:
        return []
    corner = c.part(*c.corner)
    p = corner.product
    with np.errstate(all="ignore"):
        a, b = (p.terms(name).reshape(-1, steps, k).transpose(1, 0, 2) for name in "AB")
        pairs = a[:, None] @ b.transpose(0, 2, 1)[None]
        here = Chain("", list(range(steps)), list(range(steps))).near(pairs, p.start())
        near = (chain for chain in chains if corner.near(chain.near(pairs, p.start()) - here).all())
        return [chain.text for chain in itertools.islice(near, MOST_CHAINS) if c.explained(chain.of(c.product))]


# ---- An operand read otherwise: through another descriptor, from the same memory


SEEN = 8  # elements of a line of D that are looked at before an operand is multiplied
MOST_DESCRIPTORS = 256  # descriptors that are multiplied
ENOUGH = 8  # that give D


class Descriptors(NamedTuple):
    """Many descriptors of one swizzle and major: `start` (descriptors, steps), the other fields (descriptors,)."""

    swizzle: Any
    major: str
    start: np.ndarray
    lbo: np.ndarray
    sbo: np.ndarray
    base: np.ndarray

    def those(self, which: Any) -> Descriptors:
        """Some of them."""
        return self._replace(start=self.start[which], lbo=self.lbo[which], sbo=self.sbo[which], base=self.base[which])

    def address(self, lines: np.ndarray, stored: int, fmt: ElementFormat, per_chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """(descriptors, steps, lines, stored): the byte of every element; and its lowest bit there."""
        line, k = lines[:, None], np.arange(stored)
        along, across = (k, line) if self.major == "K" else (line, k)
        lbo, sbo, base = (x[:, None, None, None] for x in (self.lbo, self.sbo, self.base))
        d: Any = Decoded(self.start[:, :, None, None], lbo, sbo, base, self.swizzle, 0)  # type: ignore[arg-type]
        inside = along % per_chunk * fmt.bits
        chunk: Any = chunk_address(d, self.major, across, along // per_chunk)  # type: ignore[arg-type]
        return chunk + inside // 8, inside % 8


class Reading(NamedTuple):
    """How an operand was read: its elements and their addresses, the descriptors, and the memory as far as it is `known`."""

    name: str
    side: Side
    address: np.ndarray
    fmt: ElementFormat
    per_chunk: int
    d: Descriptors
    begin: int
    memory: np.ndarray
    known: np.ndarray

    def read(self, d: Descriptors, lines: np.ndarray, steps: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(addresses, elements, is everything there known) of some lines of some steps through other descriptors."""
        address, shift = d._replace(start=d.start[:, steps]).address(lines, self.address.shape[2], self.fmt, self.per_chunk)
        size = 2 if self.fmt.bits == 6 else -(-self.fmt.bits // 8)  # a 6-bit element may straddle two bytes
        at = address - self.begin
        inside = (at >= 0) & (at + size <= len(self.memory))
        at = np.where(inside, at, 0)[..., None] + np.arange(size)
        raw = (self.memory[at].astype(np.uint32) << 8 * np.arange(size, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
        codes = (raw >> shift.astype(np.uint32) & np.uint32((1 << self.fmt.bits) - 1)).astype(self.side.bits.dtype)
        known = np.asarray((inside & self.known[at].all(axis=-1)).all(axis=(1, 2, 3)))
        return address, self.side.spread(codes, lines, steps), known


def read_otherwise(c: Compared, name: str) -> list[str]:
    """Which other descriptors give hardware's D: another stride, swizzle, major, base offset or start, in all instructions or in one."""
    reading = _reading(c.product, name)
    if reading is None:
        return []
    sentences: dict[bytes, str] = {}
    count, lines, _ = reading.side.bits.shape
    tries = (
        (others.those([i]), steps)
        for steps in (slice(None), *(slice(i, i + 1) for i in range(count if count > 1 else 0)))
        for others in _others(reading.d, _modes(c.product.kind), alone=steps != slice(None))
        for i in _plausible(c, reading, others, steps)
    )
    for other, steps in itertools.islice(tries, MOST_DESCRIPTORS):
        address, bits = reading.address.copy(), reading.side.bits.copy()
        read, elements, _ = reading.read(other, np.arange(lines), steps)
        address[steps], bits[steps] = read[0], elements[0]
        key = address.tobytes()
        if key not in sentences and c.explained(c.product.having(name, bits)):
            sentences[key] = _told(reading, other, address, steps)
        if len(sentences) == ENOUGH:
            break
    return list(sentences.values())


def _modes(kind: str) -> list[SwizzleMode]:
    modes = [mode for mode in MODES.values() if (mode.wgmma_code if kind == "wgmma" else mode.tcgen05_code) is not None]
    return sorted(modes, key=lambda mode: -mode.width)


def _reading(p: Product, name: str) -> Reading | None:
    """None if it is not known where the operand was, or if no descriptor reads it so."""
    side, fmt = p.side(name), element_format(p.types["AB".index(name)])
    if side.address is None:
        return None
    per_chunk = fmt.elements_per_chunk("packed" if p.kind.startswith("mxf4") else "padded")
    lines = np.arange(side.bits.shape[1])
    for major in ("K", "MN"):
        for mode in _modes(p.kind):
            for base in range(mode.mask + 1):
                d = _descriptor(side.address, major, mode, base, per_chunk)
                if (d.address(lines, side.address.shape[2], fmt, per_chunk)[0] == side.address).all():
                    readings = (Reading(name, side, side.address, fmt, per_chunk, d, *memory) for memory in _memories(p))
                    return next((r for r in readings if (r.read(d, lines, slice(None))[1][0] == side.bits).all()), None)
    return None


def _descriptor(address: np.ndarray, major: str, mode: SwizzleMode, base: int, per_chunk: int) -> Descriptors:
    """The only descriptor of that kind that may have these addresses (steps, lines, stored)."""
    linear = swizzled(address, mode, base)
    along, across = (linear[0, 0], linear[0, :, 0]) if major == "K" else (linear[0, :, 0], linear[0, 0])

    def apart(axis: np.ndarray, index: int) -> int:
        return int(axis[index] - axis[0]) if index < len(axis) else 0

    lbo, sbo = apart(along, mode.width // 16 * per_chunk), apart(across, 8 if major == "K" else mode.k_rows)
    if major == "MN" and mode.width == 16:
        lbo, sbo = sbo, lbo
    return Descriptors(mode.swizzle, major, linear[:, 0, 0][None], np.array([lbo]), np.array([sbo]), np.array([base]))


def _memories(p: Product) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(first address, bytes, which of them are known): shared memory if somebody has it, and what the operands show of it."""
    if p.memory is not None:
        memory = np.frombuffer(p.memory[1], np.uint8)
        yield p.memory[0], memory, np.ones(memory.shape, bool)
    read = [
        (side.address, side.bits, element_format(dtype).bits // 8)
        for side, dtype in zip((p.a, p.b), p.types, strict=False)
        if side.address is not None and side.stored is None and element_format(dtype).bits >= 8
    ]
    size = max((int(address.max()) for address, _, _ in read), default=0) + 8
    memory, known = np.zeros(size, np.uint8), np.zeros(size, bool)
    for address, bits, width in read:
        for i in range(width):
            memory[address + i], known[address + i] = bits >> 8 * i & 0xFF, True
    yield 0, memory, known


def _others(d: Descriptors, modes: Sequence[SwizzleMode], *, alone: bool) -> Iterator[Descriptors]:
    """Descriptors that differ in what is often mistaken, the most common mistakes first."""
    lbo, sbo, base = int(d.lbo[0]), int(d.sbo[0]), int(d.base[0])
    near = [x for x in range(-8192, 8193, 16) if x]
    far = [] if alone else [x for x in (*range(-1 << 15, 1 << 15, 128), *range(-1 << 18, 1 << 18, 1024)) if abs(x) > 8192]

    def those(**changed: Any) -> Descriptors:
        swizzle, major, *fields = d._replace(**changed)
        arrays = [np.asarray(x) for x in fields]
        count = max(len(x) for x in arrays)
        return Descriptors(swizzle, major, *(np.broadcast_to(x, (count, *x.shape[1:])) for x in arrays))

    unseen = [lbo] if lbo else [0, *(16 << i for i in range(14))]  # most swizzled operands do without the LBO of their descriptor
    yield those(lbo=[sbo], sbo=[lbo])
    yield those(lbo=unseen, major="MN" if d.major == "K" else "K")
    for mode in modes:
        bases = [base, *(x for x in range(mode.mask + 1) if x != base)]
        strides = [sbo] if mode.swizzle == d.swizzle else [sbo, 8 * mode.width]
        fields = [x.ravel() for x in np.meshgrid(strides, bases, unseen, indexing="ij")]
        yield those(swizzle=mode.swizzle, sbo=fields[0], base=fields[1], lbo=fields[2])
    for name, value in (("sbo", sbo), ("lbo", lbo)):
        nearby = {*range(0, 4097, 16), *(16 << i for i in range(14)), 2 * value, value // 32 * 16, 16 * value, value // 256 * 16} - {value}
        yield those(**{name: sorted(nearby, key=lambda x, value=value: (x & x - 1 != 0, abs(x - value)))})  # type: ignore[misc]
    yield those(start=d.start + np.array(sorted(near, key=abs) + sorted(far, key=abs))[:, None])
    if d.start.shape[1] > 1 and not alone:
        advance = d.start - d.start[:, :1]
        others = 0 * advance, 2 * advance, advance // 32 * 16, 4 * advance, 16 * advance, advance // 256 * 16
        yield those(start=d.start[:, :1] + np.concatenate(others))


def _plausible(c: Compared, reading: Reading, others: Descriptors, steps: slice) -> list[int]:
    """The descriptors by which a few lines of D may be hardware's, summed in float64."""
    p, axis, side = c.product, "AB".index(reading.name), reading.side
    k = side.steps(np.arange(side.bits.shape[0] * side.bits.shape[2])[None])[steps].ravel()
    told = np.moveaxis(c.differs & np.isfinite(c.delta), axis, 0)
    rich = np.nonzero(2 * told.sum(axis=1) >= told.sum(axis=1).max())[0]
    terms, own, weights = p.terms("BA"[axis])[:, k], p.values(reading.name)[:, k], p.weights(reading.name)[:, k]
    left = np.arange(len(others.start))
    for line in [rich[i] for i in sorted({0, len(rich) // 2, len(rich) - 1})]:
        across = np.nonzero(told[line])[0][:SEEN]
        part = c.part([line], across) if axis == 0 else c.part(across, [line])
        _, bits, known = reading.read(others.those(left), np.array([line]), steps)
        left, bits = left[known], bits[known]
        if not len(left):
            break
        with np.errstate(all="ignore"):
            new = to_float64(bits.reshape(len(bits), -1), reading.fmt) - own[line]
            change = (new * weights[line]) @ terms[across].T
            near = part.near(change[:, None]) if axis == 0 else part.near(change[:, :, None])
        left = left[near.all(axis=(1, 2))]
    return left.tolist()


def _told(reading: Reading, other: Descriptors, address: np.ndarray, steps: slice) -> str:
    """The fields that differ between two descriptors, and the first element that this moves, as a sentence."""
    d, name = reading.d, reading.name
    (lbo, sbo, base), (new_lbo, new_sbo, new_base) = ([int(x[0]) for x in fields[3:]] for fields in (d, other))
    said = []
    if (lbo, sbo) == (new_sbo, new_lbo) != (new_lbo, new_sbo):
        said.append("LBO and SBO swapped")
    else:
        said += [f"{what} {new} instead of {old}" for what, new, old in (("LBO", new_lbo, lbo), ("SBO", new_sbo, sbo)) if new != old]
    if other.major != d.major:
        said.append(f"{other.major}-major instead of {d.major}-major (imm-trans, or the major bit)")
    if other.swizzle != d.swizzle:
        said.append(f"swizzle {other.swizzle} instead of {d.swizzle}")
    if new_base != base:
        said.append(f"base offset {new_base} instead of {base}")
    apart = (other.start - d.start)[0]
    if apart.any() and (apart == apart[0]).all():
        said.append(f"a start address {abs(int(apart[0]))} bytes {'further' if apart[0] > 0 else 'back'}")
    elif apart.any():
        said.append(f"start addresses that advance by {int(np.diff(other.start[0])[0])} bytes instead of {int(np.diff(d.start[0])[0])}")
    step, line, k = (int(x) for x in np.argwhere(address != reading.address)[0])
    of = f" of instruction {step}" if len(address) > 1 else ""
    alone = f" in instruction {steps.start}" if steps != slice(None) else ""
    stored = "stored element " if reading.side.stored is not None else ""
    places = f"{int(address[step, line, k]):#x} instead of {int(reading.address[step, line, k]):#x}"
    return f"{name} were read with {' and '.join(said)}{alone}: {stored}{name}[{line}, {k}]{of} from {places}"


# ---- Other roundings of the same terms: other constants of the datapath, and how sums are made elsewhere


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
    yield from ((text, other) for text, change in named if (other := dataclasses.replace(row, **change)) != row)
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


# How sums are made elsewhere: what a reference on the host or in CUDA cores computes, from values (M, K), (N, K) and (M, N).
REFERENCES: dict[str, Reference] = {
    "it were one sum in float64, rounded to nearest": _in_float64,
    "it were one fused multiply-add after the other in float32, as CUDA cores compute": _in_order,
    "each instruction rounded its exact sum to nearest": _by_instruction,
}


# ---- Elements of an operand that must have been others: solved for from D, rounded to elements, and tried


LINES = 16  # lines of D that single wrong elements may reach
TRIED = 1024  # values and places that are tried for one line
SHOWN = 3
SINGULAR = 1e10

Found = list[tuple[int, int]]  # (k along all steps, bits) of one element


def other_elements(c: Compared, name: str) -> list[str]:
    """Sentences about a single wrong element in each row of A, or column of B: the elements that would give hardware's D."""
    lines = np.nonzero(c.differs.any(axis=1 - "AB".index(name)))[0].tolist()
    if len(lines) > (LINES if c.beyond.any() else 1):
        return []
    candidates = [_right(c, name, line, _candidates(c, name, line)) for line in lines]
    if not all(candidates):
        return []
    common = set.intersection(*({k for k, _ in elements} for elements in candidates))
    candidates = [[x for x in elements if x[0] in common or not common] for elements in candidates]
    if len(lines) > 1 and any(len({k for k, _ in elements}) > 1 for elements in candidates):
        return []  # where any place would do in every line, it is not one element in each that is wrong
    return [_some([_one_of(c, name, line, elements) for line, elements in zip(lines, candidates, strict=True)])]


def _candidates(c: Compared, name: str, line: int) -> Found:
    """Single elements of a line that may give its D: at each place every equation bounds the value, what lies between is a candidate."""
    p, own_line = c.product, np.array([line])
    part = c.part(own_line) if name == "A" else c.part(slice(None), own_line)
    delta, room = part.delta.ravel(), part.loose.ravel()
    matrix, own, weight = p.terms("BA"["AB".index(name)]), p.values(name)[line], p.weights(name)[line]
    usable, clean = _usable(p, name)[line], np.isfinite(matrix).all(axis=1)
    values, codes, odd = _codes(p.types["AB".index(name)])
    candidates = []
    if (part.wrong.ravel() & np.isnan(delta) & clean).any():
        candidates = [(int(k), int(code)) for k in np.nonzero(usable)[0] for code in odd]
    known = np.isfinite(delta) & clean
    delta, room, matrix = delta[known, None], room[known, None], matrix[known]
    with np.errstate(all="ignore"):
        one, other = (delta - room) / matrix, (delta + room) / matrix
        free = (matrix == 0) & (np.abs(delta) <= room)  # this equation says nothing of that element
        low = np.where(free, -np.inf, np.minimum(one, other)).max(axis=0, initial=-np.inf)
        high = np.where(free, np.inf, np.maximum(one, other)).min(axis=0, initial=np.inf)
        best = own + np.nan_to_num((matrix * delta).sum(axis=0) / (matrix**2).sum(axis=0)) / weight
        ends = np.sort([own + low / weight, own + high / weight], axis=0)
    places = np.nonzero(usable & (low <= high))[0]
    most = max(4, TRIED // max(1, len(places)))
    for k in places.tolist():
        first, middle = (int(x) for x in np.searchsorted(values, (ends[0, k], best[k])))
        past = int(np.searchsorted(values, ends[1, k], "right"))
        near = slice(max(first, middle - most // 2), min(past, middle + most // 2))
        simplest = [(k, 0)] if ends[0, k] <= 0 <= ends[1, k] and own[k] != 0 else []
        candidates += simplest + [(k, int(code)) for value, code in zip(values[near], codes[near], strict=True) if value not in (own[k], 0)]
    return candidates


@functools.lru_cache(maxsize=4)
def _codes(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(finite values in order, their bits, the bits of infinities and a NaN)."""
    fmt = element_format(dtype)
    codes = np.arange(1 << fmt.bits - fmt.dropped_bits, dtype=np.uint32) << np.uint32(fmt.dropped_bits)
    values = to_float64(codes, dtype)
    finite, first = np.unique(values[np.isfinite(values)], return_index=True)
    odd = codes[np.isinf(values)].tolist() + codes[np.isnan(values)][:1].tolist()
    return finite, codes[np.isfinite(values)][first], np.array(odd, np.uint32)


def _right(c: Compared, name: str, line: int, candidates: Found) -> Found:
    """The candidates that give the line of D; places where it differs are compared first."""
    axis = "AB".index(name)
    for across in (np.nonzero(np.moveaxis(c.differs, axis, 0)[line])[0][:LINES], slice(None)):
        if candidates:
            many = np.full(len(candidates), line)
            part = c.part(many, across) if name == "A" else c.part(across, many)
            side = part.product.side(name)
            bits = side.flat().copy()
            bits[np.arange(len(candidates)), [k for k, _ in candidates]] = [code for _, code in candidates]
            good = np.asarray(part.fits(part.product.having(name, side.steps(bits))).all(axis=1 - axis))
            candidates = [one for one, right in zip(candidates, good, strict=True) if right]
    return candidates


def _usable(p: Product, name: str) -> np.ndarray:
    """(lines, K): elements that could be others."""
    weight = p.weights(name)
    return np.asarray(p.side(name).usable & np.isfinite(p.values(name)) & np.isfinite(weight) & (weight != 0))


def other_lines(c: Compared, name: str) -> list[str]:
    """Several elements that were others: in every line of D that differs those of 16 bytes, of an instruction, or any.

    Every line is a system of linear equations, one for each line of the other operand; half as many unknowns are solved for, so that the
    other half of the equations is evidence.
    """
    p, side = c.product, c.product.side(name)
    axis, dtype = "AB".index(name), p.types["AB".index(name)]
    lines = np.nonzero(c.differs.any(axis=1 - axis))[0]
    delta, room = (np.moveaxis(x, axis, 0)[lines] for x in (c.delta, c.loose))
    matrix, own, weight, usable = p.terms("BA"[axis]), p.values(name)[lines], p.weights(name)[lines], _usable(p, name)[lines]
    known = np.isfinite(delta) & np.isfinite(matrix).all(axis=1)
    k = np.arange(own.shape[1])
    for of in (k // element_format(dtype).elements_per_chunk(), k // side.bits.shape[2], 0 * k):
        change = _solved(matrix, np.where(known, delta, 0), np.where(known, room, np.inf), known, usable, of, alone=not c.exact)
        if change is None:
            continue
        with np.errstate(all="ignore"):
            new = np.where(change == 0, own, own + change / weight)
        scale = np.where(change == 0, 0, np.maximum(np.abs(new), np.abs(np.nan_to_num(own)))).max(axis=1, keepdims=True)
        for least in (2.0**-20, 0.0):  # of a sum without rounding, what is next to nothing is nothing
            values = np.where(np.abs(new) < least * scale, 0, new)
            bits = side.flat().copy()
            codes = from_float64(np.nan_to_num(values), dtype).astype(bits.dtype)
            bits[lines] = np.where((change == 0) | (to_float64(codes, dtype) == own), bits[lines], codes)
            if c.explained(p.having(name, side.steps(bits))):
                places = np.argwhere(bits != side.flat()).tolist()
                return [_some([_element(c, name, line, at, [int(bits[line, at])]) for line, at in places])]
    return []


def _solved(
    matrix: np.ndarray, delta: np.ndarray, room: np.ndarray, known: np.ndarray, usable: np.ndarray, of: np.ndarray, *, alone: bool
) -> np.ndarray | None:
    """(lines, K): what one group of elements, equal in `of`, must add in every line; the best one, or the only one if it must be `alone`."""
    change, solutions, best = np.zeros(usable.shape), np.zeros(len(delta), int), np.full(len(delta), np.inf)
    kinds, which = np.unique(np.concatenate([known, usable], axis=1), axis=0, return_inverse=True)
    for i, kind in enumerate(kinds if len(kinds) <= LINES else []):
        lines = np.nonzero(which.ravel() == i)[0]
        equations = matrix[kind[: known.shape[1]]]
        given, space = (x[lines][:, kind[: known.shape[1]]].T for x in (delta, room))
        space = np.maximum(space, np.abs(given).max(axis=0, initial=0) * 2.0**-30)  # of float64
        square, right_side = equations.T @ equations, equations.T @ given
        for group in np.unique(of):
            columns = np.nonzero((of == group) & kind[known.shape[1] :])[0]
            if not len(columns) or 2 * len(columns) > len(equations):
                continue
            own = square[np.ix_(columns, columns)]
            if np.linalg.cond(own) > SINGULAR:  # then D does not say which of its solutions it is
                continue
            x = np.linalg.solve(own, right_side[columns])
            rest = np.abs(given - equations[:, columns] @ x)
            right = (rest <= space).all(axis=0)
            solutions[lines[right]] += 1
            better = right & (rest.max(axis=0) < best[lines])
            best[lines[better]] = rest.max(axis=0)[better]
            change[lines[better]] = 0
            change[np.ix_(lines[better], columns)] = x[:, better].T
    return change if (solutions > 0).all() and (not alone or (solutions == 1).all()) else None


# ---- in words


def _some(said: list[str]) -> str:
    return "; ".join(said[:SHOWN]) + (f"; … ({len(said)} elements)" if len(said) > SHOWN else "")


def _one_of(c: Compared, name: str, line: int, candidates: Found) -> str:
    """One element of a line, of which place or value may not be certain."""
    places = sorted({k for k, _ in candidates})
    if len(places) == 1:
        return _element(c, name, line, places[0], [code for _, code in candidates])
    some = ", ".join(_where_terms(c.product, name, line, k) for k in places[:SHOWN])
    return f"one element were another, any of {len(places)} in {'row' if name == 'A' else 'column'} {line}: {some}{', …' if len(places) > SHOWN else ''}"


def _where_terms(p: Product, name: str, line: int, k: int) -> str:
    side = p.side(name)
    step, own = divmod(k, side.bits.shape[2])
    where = side.place(step, int(line), own)
    return f"{name}[{line}, {own}]" + (f" of instruction {step}" if len(side.bits) > 1 else "") + (f" ({where})" if where else "")


def _element(c: Compared, name: str, line: int, k: int, codes: list[int]) -> str:
    """One element that was another; of several values that would do the one with the fewest bits, but for rounding that in the middle."""
    dtype, side = c.product.types["AB".index(name)], c.product.side(name)
    old, *values = (float(element_value(x, dtype)) for x in (int(side.flat()[line, k]), *codes))
    if c.exact:
        code, value = min(zip(codes, values, strict=True), key=lambda x: (-(x[0] & -x[0]) if x[0] else -(1 << 32), x))
        new = f"{code:#x} = {value:g}{' or nearly so' if len(codes) > 1 else ''}"
    else:
        new = f"about {sorted(values)[len(values) // 2]:g}"
    return f"{_where_terms(c.product, name, line, k)} were {new}, not {int(side.flat()[line, k]):#x} = {old:g}"


# ---- Hardware's D is not the model's: does that look like rounding, like a wrong term, or like a wrong layout?


LooksLike = Literal["the same", "rounding", "a wrong term", "a wrong layout", "another option", "unknown"]

NOT_LOOKED_INTO = (
    "the sums of these instructions are not compared: a sparse A that meets infinities or NaNs, tf32 elements that metadata splits, sparse mxf4, or "
    "options that change along the chain"
)
ALONE = 3  # elements of D that no operand reaches without others


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What the difference between two D looks like, and why: whole sentences, the most telling one first.

    >>> print(Diagnosis("rounding", ("no element is off by more than its last bit",)))
    looks like rounding: no element is off by more than its last bit
    """

    looks_like: LooksLike
    because: tuple[str, ...]

    def __str__(self) -> str:
        return f"looks like {self.looks_like}: {'; '.join(self.because)}" if self.because else self.looks_like


def explain_difference(results: MmaResult | Sequence[MmaResult], d: Any, *, shared: SharedMemory | None = None) -> Diagnosis:
    """What a D from hardware looks like beside the model's: rounding, a wrong term (which k, from which address), a wrong layout.

    `results` is what `wgmma` or `tcgen05_mma` returned, or a list of them that add into the same D, the first one first; `d` the raw bits
    (M, N) that hardware has in the end. With `shared`, the memory that was read, other descriptors are tried on all of it, else only on the
    elements that the model read.

    Every sentence "D is what it would be if ..." was tried: the model, changed so, comes to hardware's D, bit for bit or but for rounding.
    If several such things do that, all are told, and of several kinds nobody can say which: that is "unknown". Raises InputError for a `d`
    of another shape, and for results that do not follow each other.

    >>> import smemsim
    >>> shared, words = smemsim.SharedMemory(), np.random.default_rng(1).integers(0x3F00, 0x4000, (16, 128), np.uint16)
    >>> shared.write(0x400, words, label="A and B")
    >>> result = smemsim.wgmma(shared, 0x0000000800080040, 0x00000008000800C0, n=64, a_type="bf16", b_type="bf16", a_major="K", b_major="K")
    >>> found = smemsim.explain_difference(result, np.roll(result.d, 8, axis=1))
    >>> found.looks_like, found.because[0]
    ('a wrong layout', "D is what it would be if D's columns were in other places: column n has what belongs in (n - 8) % 64, bit for bit")
    """
    chain = _chain(results)
    last = chain[-1]
    if shared is not None and not isinstance(shared, SharedMemory):
        raise InputError(f"shared = {shown(shared)}: needs the SharedMemory that was read")
    hardware = raw_bits("d", d, element_format(last.d_type)).astype(last.d.dtype)
    if hardware.shape != last.d.shape:
        raise InputError(f"d has shape {hardware.shape}: the result is {last.d.shape}")
    written = np.ones(hardware.shape, bool) if last.written is None else last.written
    wrong = (hardware != last.d) & written
    odd = np.isnan(to_float64(hardware, last.d_type)) & np.isnan(to_float64(last.d, last.d_type))
    if not wrong.any():
        return Diagnosis("the same", ())
    width = last.d.shape[1] // len(last.a)
    first = int(np.argmax(wrong.any(axis=0))) // width * width
    columns = slice(first, first + width)
    product = Product.of(chain, columns)
    model = product.run() if product else last.d[:, columns]
    if product is None or ((model != last.d[:, columns]) & written[:, columns]).any():
        return Diagnosis("unknown", (NOT_LOOKED_INTO,))
    if shared is not None:
        product = dataclasses.replace(product, memory=(shared.begin, shared.bytes.tobytes()))
    diagnosis = diagnose(product, np.where(written[:, columns], hardware[:, columns], model))
    more = []
    lines = [int((wrong & ~odd).any(axis=axis).sum()) for axis in (0, 1)]
    if shared is None and diagnosis.looks_like in ("unknown", "a wrong term") and min(lines) > 1:
        more.append("with `shared`, the memory that was read, other descriptors are tried on all of it")
    if len(last.a) > 1:
        more.append(f"columns are counted from {first}, where those begin that share their copy of A")
    return dataclasses.replace(diagnosis, because=(*diagnosis.because, *more))


def _chain(results: Any) -> list[MmaResult]:
    """The results one after the other; InputError unless each begins with what the one before left."""
    chain = [results] if isinstance(results, MmaResult) else list(results) if isinstance(results, Sequence) else []
    if not chain or not all(isinstance(r, MmaResult) for r in chain):
        raise InputError(f"results = {shown(results)}: needs what wgmma or tcgen05_mma returned, or a list of that")
    for i, (before, after) in enumerate(itertools.pairwise(chain), 1):
        kinds = [(r.instruction, r.d.shape, *(x.dtype for x in (r.a[0], r.b)), r.d_type) for r in (before, after)]
        if kinds[0] != kinds[1]:
            raise InputError(f"results[{i}] is {kinds[1]}, results[{i - 1}] {kinds[0]}: needs instructions of one kind and shape")
        lost = after.c != before.d
        if (lost if before.written is None else lost & before.written).any():
            raise InputError(f"results[{i}] does not add to what results[{i - 1}] left in D: needs a chain from where D begins anew")
    return chain


Tests = tuple[tuple[LooksLike, Callable[[Compared], list[str]]], ...]
# What has few numbers to choose; other descriptors, of which there are thousands; and systems of equations, which often have a solution.
FIRST: Tests = (
    ("another option", other_options), ("another option", other_instructions), ("rounding", other_roundings),
    ("a wrong layout", moved_lines), ("a wrong layout", other_operands),
    ("a wrong term", lambda c: [*other_elements(c, "A"), *other_elements(c, "B")]),
)  # fmt: skip
SECOND: Tests = (("a wrong layout", lambda c: [*read_otherwise(c, "A"), *read_otherwise(c, "B")]),)
LAST: Tests = (("a wrong layout", moved_elements), ("a wrong term", lambda c: other_lines(c, "A") or other_lines(c, "B")))
FEW: Tests = (("rounding", other_roundings), ("a wrong layout", moved_elements))  # of a few elements of D alone, which no operand reaches


def diagnose(product: Product, hardware: np.ndarray, more: Tests = (), extra: np.ndarray | None = None) -> Diagnosis:
    """Why the D of a `Product` is not what hardware left.

    `hardware` are raw bits of the type of D. The tests of `more` are made before all others; `extra` is that of `Compared`.
    """
    c = Compared.of(product, hardware, extra)
    if (c.hardware == c.model).all():
        return Diagnosis("the same", ())
    diagnosis = _diagnosed(c, more) if c.wrong.any() else Diagnosis("unknown", ())
    nan = c.hardware[(c.hardware != c.model) & ~c.wrong]
    if nan.size:
        bits = f"hardware has NaNs with other bits, {int(nan[0]):#x} where the model has {NAN[product.types[2]]:#x}"
        diagnosis = dataclasses.replace(
            diagnosis, because=(*diagnosis.because, f"{bits}; that is not counted" if diagnosis.because else f"{bits}, and nothing else")
        )
    return diagnosis


def _diagnosed(c: Compared, more: Tests) -> Diagnosis:
    rounded, few = not c.beyond.any(), c.wrong.sum() <= ALONE
    loosely = not rounded and c.beyond.sum() >= SEVERAL
    for exact in (False,) if loosely and c.extra is not None else (True, False) if loosely else (True,):
        c = dataclasses.replace(c, exact=exact)
        sentences = _found(c, more + (FEW if few else FIRST))
        if not (rounded or few):
            if {looks_like for looks_like, _ in sentences} <= {"a wrong layout"}:
                sentences += _found(c, SECOND)
            sentences = sentences or _found(c, LAST)
        if sentences:
            return _combined(c, sentences, rounded)
    return _rounding(c) if rounded else _unknown(c)


def _found(c: Compared, tests: Tests) -> list[tuple[LooksLike, str]]:
    return [(looks_like, text) for looks_like, test in tests for text in test(c)]


def _combined(c: Compared, sentences: list[tuple[LooksLike, str]], rounded: bool) -> Diagnosis:
    """The diagnosis from all that gives D; where that is rounding, and no difference is larger, the rest is left out."""
    if rounded and any(looks_like == "rounding" for looks_like, _ in sentences):
        sentences = [one for one in sentences if one[0] == "rounding"]
    kinds = list(dict.fromkeys(looks_like for looks_like, _ in sentences))
    because = [f"D is what it would be if {sentences[0][1]}, {c.said}"]
    because += [f"or if {text}" for _, text in sentences[1 : SHOWN + 1]]
    because += [f"or {len(sentences) - SHOWN - 1} things more"] if len(sentences) > SHOWN + 1 else []
    if len(kinds) > 1:
        because.append(f"these data do not tell {' from '.join(kinds)}")
    return Diagnosis(kinds[0] if len(kinds) == 1 else "unknown", tuple(because))


def _where(c: Compared) -> str:
    """In which rows and columns they differ; a few whole ones are named."""
    whole = [np.nonzero(2 * c.wrong.sum(axis=axis) > c.wrong.shape[axis])[0] for axis in (1, 0)]
    rest = c.wrong.copy()
    rest[whole[0]] = rest[:, whole[1]] = False
    if not rest.any() and max(len(lines) for lines in whole) <= ALONE:
        return " and ".join(f"{what} {line}" for what, lines in zip(("row", "column"), whole, strict=True) for line in lines)
    rows, columns = (np.nonzero(c.wrong.any(axis=axis))[0] for axis in (1, 0))
    return " and ".join(
        f"{what} {found[0]}" if len(found) == 1 else f"{len(found)} {what}s ({found[0]} to {found[-1]})"
        for what, found in (("row", rows), ("column", columns))
    )


def _rounding(c: Compared) -> Diagnosis:
    because = ["no difference is larger than rounding could make it; no other rounding that was tried gives all of D"]
    if c.wrong.sum() > ALONE:
        because += [
            f"but all of them are in {what} {int(found[0])}, and rounding does not choose: an element of {name} may be another"
            for what, name, axis in (("row", "A", 1), ("column", "B", 0))
            if len(found := np.nonzero(c.wrong.any(axis=axis))[0]) == 1 < c.wrong.shape[1 - axis]
        ]
    return Diagnosis("rounding", tuple(because))


def _unknown(c: Compared) -> Diagnosis:
    """The diagnosis where nothing that was tried gives hardware's D: where D differs, and what may be there."""
    finite = np.abs(c.delta[np.isfinite(c.delta)])
    largest = f"; the largest difference is {finite.max():g}" if finite.any() else ""
    where = _where(c)
    because = [
        f"larger than rounding{largest}, in {where}; no operand, option, other descriptor or order of rows and columns that was tried gives it"
    ]
    count, lines = int(c.wrong.sum()), [int(c.wrong.any(axis=axis).sum()) for axis in (1, 0)]
    if count <= ALONE:
        because.append(
            f"{'one element of D differs' if count == 1 else f'{count} elements of D differ'} alone: an element of A reaches a whole row of D, one of B a "
            "whole column; look at D's own storage, at C, or at what was written over it"
        )
    elif 1 in lines:
        because.append(f"look at that {'row of A' if lines[0] == 1 else 'column of B'}, of C, or of D's own storage")
    elif "(" not in where:
        because.append("an element of A reaches a whole row of D, one of B a whole column: several of them may be wrong")
    elif not c.product.c.any():
        because.append("the model adds to no C: hardware may (scale-d or enable-input-d 1)")
    return Diagnosis("unknown", tuple(because))
