"""The work of a CTA, in products and in pieces that share no tile and no sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smemsim.diagnosis.operands.cta_traces import CtaTrace
from smemsim.diagnosis.operands.read import Issued, OperandRead, Product
from smemsim.run.engine.records import Mma

__all__ = ["apart", "goes_on"]


def apart(trace: CtaTrace) -> Iterator[tuple[list[Issued], list[Product]]]:
    """The loads and products of a CTA in pieces that share no tile and no sum. Loads that nothing reads go with those
    before them.
    """
    parent: dict[int, int] = {}

    def root(item: int) -> int:
        while parent.setdefault(item, item) != item:
            parent[item] = item = parent[parent[item]]
        return item

    last: dict[Any, Product] = {}
    for p in trace.products:
        root(id(p))
        for read in p.reads:
            for load in read.loads:
                parent[root(id(load))] = root(id(p))
        before = last.get(p.accumulator)
        last[p.accumulator] = p
        if (
            before is not None
            and not p.events[0].begins
            and any(x is not None and x == y for x, y in zip(_rows(before), _rows(p), strict=True))
        ):
            parent[root(id(p))] = root(id(before))
    pieces: dict[int, tuple[list[Issued], list[Product]]] = {}
    for p in trace.products:
        pieces.setdefault(root(id(p)), ([], []))[1].append(p)
    of, waiting = -1, list[Issued]()
    for load in trace.loads.values():
        if id(load) in parent:
            of = root(id(load))
            pieces[of][0].extend([*waiting, load])
            waiting = []
        elif of in pieces:
            pieces[of][0].append(load)
        else:
            waiting.append(load)
    if waiting:
        pieces[-1] = (waiting, [])
    yield from pieces.values()


def _rows(p: Product) -> list[Any]:
    """Which rows of which tensors a product multiplies."""
    return [None if read is None else (read.base, read.at[0]) for read in p.first]


def goes_on(product: Product, event: Mma, a: OperandRead | None, b: OperandRead | None) -> bool:
    """Does an instruction read some of the tiles that the product's first one read?"""
    first = product.events[0]
    if (first.m, first.n, first.k, first.a_major, first.b_major) != (event.m, event.n, event.k, event.a_major, event.b_major):
        return False
    if (a is None) != (product.a[0] is None) or (b is None) != (product.b[0] is None):
        return False
    pairs = [(a, product.a[0]), (b, product.b[0])]
    if _is_another(pairs):
        return False
    if any(x is not None and y is not None and x.loads[0] is y.loads[0] for x, y in pairs):
        return True
    return any(x is not None and y is not None and {load.number for load in x.loads} & {load.number for load in y.loads} for x, y in pairs)


def _is_another(pairs: Sequence[tuple[OperandRead | None, OperandRead | None]]) -> bool:
    """Do the k of both operands start again, as at the first instruction of a product, with another tile of one of
    them? Then it is a separate product on the same accumulator. Examples are two tiles of K or of B with one tile of Q
    or of A, and the parts of split numbers.
    """
    both = [(now, first) for now, first in pairs if now is not None and first is not None]
    begin_again = len(both) == len(pairs) and all(now.at[1] == first.at[1] for now, first in both)
    return begin_again and any({*now.loads}.isdisjoint(first.loads) for now, first in both)
