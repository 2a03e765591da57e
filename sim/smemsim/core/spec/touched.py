"""The alternatives that a computation could distinguish from their rules. They would have changed something that passed
their point.

A program that an alternative would not have changed gives no evidence about it, and need not be run under it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative
from smemsim.core.spec.assumptions import MEASURED_POINTS, POINTS, exchange, in_force

__all__ = ["touched"]

MOST_PRODUCTS = 6  # products that are computed again under every alternative of the arithmetic
_numbers = itertools.count(1)


@contextlib.contextmanager
def touched(alternatives: Mapping[str, Alternative] = ALTERNATIVES, *, by_products: bool = True) -> Iterator[set[str]]:
    """A set that is filled while the block runs. It gets RULE=ALTERNATIVE of all that would have changed something.
    Nothing is changed.

    Alternatives of the arithmetic count if they change one of the first products. Without `by_products` they count if
    they change a rule that a product uses. That finds more of them, and some that no product shows.

    >>> from smemsim.core.spec.assumptions import assumed
    >>> with touched() as found:
    ...     assumed("commit.arrivals", 1, 2), assumed("scales.id", 3, 3, (0, 1, 2, 3))
    (1, 3)
    >>> sorted(found)
    ['tcgen05.commit=twice_in_pairs', 'tcgen05.scale_address=both_add', 'tcgen05.scale_address=none']

    Raises RuntimeError if something is assumed already.
    """
    if in_force():
        raise RuntimeError(f"{in_force()} is assumed: what the rules touch is not known then")
    look = _Look(alternatives, by_products=by_products)
    changes: dict[str, Callable[..., Any]] = {
        point: functools.partial(getattr(look, _HOW.get(point, "value")), point) for point in (*POINTS, *MEASURED_POINTS)
    }
    # What is kept of earlier computations, by the name of what is assumed, has not passed here.
    exchange(changes, f"touched {next(_numbers)}")
    try:
        yield look.found
    finally:
        exchange({})


# Points where what passes says nothing without what it is used with.
_HOW = {
    "operand.tables": "tables", "operand.words": "words", "arithmetic.row": "row", "arithmetic.tiles": "tiles", "wgmma.tables": "tables", "wgmma.words": "words",
    "cp.sources": "memories",
}  # fmt: skip


class _Look:
    """The values so far, and the alternatives that none of them would have distinguished."""

    def __init__(self, alternatives: Mapping[str, Alternative], *, by_products: bool) -> None:
        self.by_products = by_products
        self.found: set[str] = set()
        self.seen: set[bytes] = set()
        self.left = {point: [a for a in alternatives.values() if a.point == point] for point in (*POINTS, *MEASURED_POINTS)}
        self.products = 0
        self.now: Any = None  # the tables that the words which pass next are read with
        self.rows: dict[Any, Any] = {}  # rows of arithmetic that passed

    def is_new(self, *key: Any) -> bool:
        """Has nothing like it passed?"""
        digest = hashlib.blake2b(_flat(key), digest_size=12).digest()
        if digest in self.seen:
            return False
        self.seen.add(digest)
        return True

    def try_all(self, point: str, changes: Callable[[Alternative], bool]) -> None:
        """Note the alternatives of a point that change something."""
        for a in tuple(self.left[point]):
            try:
                with np.errstate(all="ignore"):
                    is_touched = changes(a)
            except (SmemsimError, ArithmeticError, LookupError, TypeError, ValueError):  # it would have ended there
                is_touched = True
            if is_touched:
                self.found.add(str(a))
                self.left[point].remove(a)

    def value(self, point: str, value: Any, *about: Any) -> Any:
        """A value: is another one made of it?"""
        if self.left[point] and self.is_new(point, value, about):
            before = _flat(value)
            self.try_all(point, lambda a: _flat(a.change(list(value) if isinstance(value, list) else value, *about)) != before)
        return value

    def memories(self, point: str, value: Any) -> Any:
        """Memories of CTAs, which are known by which they are, not by what they hold."""
        self.try_all(point, lambda a: [id(x) for x in a.change(tuple(value))] != [id(x) for x in value])
        return value

    def tables(self, point: str, tables: Any, k_major: bool) -> Any:
        """The tables of descriptors: looked at with the words that come next."""
        self.now = point, tables
        return tables

    def words(self, point: str, words: Any, k_major: bool) -> Any:
        """Words, and what the tables say of them."""
        if self.is_new(point, words, k_major):
            self.value(point, words, k_major)
            of_tables, tables = self.now
            before = _flat(_read(tables, words))
            self.try_all(of_tables, lambda a: _flat(_read(a.change(tables, k_major), words)) != before)
        return words

    def row(self, point: str, row: Any) -> Any:
        """A row of the arithmetic: looked at with the products that it makes."""
        self.rows[row] = [(a, a.change(row)) for a in self.left[point]]
        if not self.by_products:
            self.try_all(point, lambda a: a.change(row) != row)
        return row

    def tiles(self, point: str, product: Any, row: Any) -> Any:
        """The function that multiplies: is another product made of what it is given?"""

        def multiplied(*args: Any, **given: Any) -> Any:
            found = product(*args, **given)
            if not self.by_products:
                self.try_all(point, lambda a: True)
            elif self.products < MOST_PRODUCTS and (self.left[point] or self.left["arithmetic.row"]):
                self.products += 1
                before = _flat(found)
                self.try_all(point, lambda a: _flat(a.change(product, row)(*args, **given)) != before)
                changed = dict(self.rows.get(row, ()))
                self.try_all(
                    "arithmetic.row",
                    lambda a: changed.get(a, row) != row and _flat(product(*args, **{**given, "row": changed[a]})) != before,
                )
            return found

        return multiplied


def _read(tables: Any, words: Any) -> Any:
    """The fields of words and the rows of their layout codes."""
    fields, modes = tables
    low, mask, shift = (np.asarray(fields[:, n]).astype(np.uint64) for n in range(3))
    values = (np.asarray(words, np.uint64)[..., None] >> low & mask) << shift
    width = len(modes).bit_length() - 1  # of the layout code, the highest bits
    return values, modes[(np.asarray(words, np.uint64) >> np.uint64(64 - width)).astype(int)]


def _flat(value: Any) -> bytes:
    """All that a value says, as bytes: arrays, and tuples, lists and dataclasses of them."""
    if isinstance(value, np.ndarray):
        return str(value.shape).encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, (list, tuple)):
        return b"(" + b"|".join(map(_flat, value)) + b")"
    return repr(value).encode()
