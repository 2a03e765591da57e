"""The same operands multiplied otherwise: other options of the instruction, other instructions of a chain."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from smemsim.core.arithmetic.multiply import Options
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.difference.compared import Compared
from smemsim.diagnosis.difference.sides import Product

__all__ = ["other_instructions", "other_operands", "other_options"]


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
    """Instructions by the numbers of those whose A and B they have; without C if the first one `begins`, one of them
    `negated`.
    """

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
