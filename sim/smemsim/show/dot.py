"""One dot product as a table: its terms, how they are aligned, what is cut off, the sum and its conversion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from smemsim.core.arithmetic.explain import DotProduct, DotTerm
from smemsim.core.arithmetic.values import element_value
from smemsim.core.picture.lines import table_lines
from smemsim.core.picture.table import Column, Line, Table
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.mma_arithmetic import MmaArithmetic

__all__ = ["dot_json", "dot_view"]


def dot_view(product: DotProduct) -> list[Line]:
    """Lines of text: a row for c and every term that is not zero."""
    row, types = product.arithmetic, product.types
    head = f"{types[0]} x {types[1]} to {types[2]}, {len(product.terms) - 1} terms and c"
    lines = [Line([(f"{_instruction(product)}: ", ""), (head, "bold")])]
    lines.append(Line([(f"arithmetic {row.grade}: {row.source}", "dim" if row.grade == "measured" else "yellow")]))
    floats = element_format(types[2]).is_float
    columns = [Column("term"), Column("A"), Column("B"), Column("value", right=True)]
    columns += [Column(head, right=True) for head in ("exponent", "kept", "cut off")] if floats else []
    rows, styles, zeros = list[tuple[str, ...]](), list[str](), 0
    for term, name in _rows(product.terms):
        if term.k and term.value == 0 and term.exponent is None:
            zeros += 1
            continue
        cells = [name, _codes(term.a, types[0]), _codes(term.b, types[1]), _shown(term.value)]
        if floats:
            cells += ["" if term.exponent is None else f"2^{term.exponent}", _shown(term.kept), _shown(term.lost) if term.lost else ""]
        rows.append(tuple(cells))
        styles.append("bold" if term is product.largest else "yellow" if term.lost else "")
    lines += table_lines(Table(tuple(columns), tuple(rows), tuple(styles), head_style=""), "  ")
    if zeros:
        lines.append(Line([(f"  {zeros} term{' is' if zeros == 1 else 's are'} zero", "dim")]))
    return lines + [Line([(step, "")]) for step in product.steps()]


def _rows(terms: Sequence[DotTerm]) -> Iterator[tuple[DotTerm, str]]:
    """Term and name; equal products that follow one another are one row."""
    first = 0
    while first < len(terms):
        term, end = terms[first], first + 1
        same = len(term.k) == 1 and term.value != 0
        while same and end < len(terms) and (terms[end].a, terms[end].b) == (term.a, term.b):
            end += 1
        yield term, term.name if end == first + 1 else f"{term.name}..{terms[end - 1].k[0]}, each"
        first = end


def _instruction(found: DotProduct) -> str:
    return "wgmma" if found.kind == "wgmma" else f"tcgen05.mma kind::{found.kind}"


def _codes(codes: tuple[int, ...], dtype: str) -> str:
    """Raw bits of an element and what they are worth; of a group how many there are."""
    if not codes:
        return ""
    if len(codes) > 1:
        return f"{len(codes)} elements"
    digits = -(-element_format(dtype).bits // 4)
    return f"{codes[0]:#0{digits + 2}x} {_shown(element_value(codes[0], dtype))}"


def _shown(number: Fraction | float) -> str:
    """A number in full where that is short, in powers of two where it is one, else rounded."""
    if isinstance(number, Fraction) and number.denominator == 1 and abs(number) < 10**15:
        return str(number.numerator)
    text = f"{float(number):.9g}"
    if isinstance(number, Fraction) and Fraction(text) != number and _power(abs(number)) is not None:
        return f"{'-' if number < 0 else ''}2^{_power(abs(number))}"
    return text


def _power(number: Fraction) -> int | None:
    """The exponent of a power of two."""
    if number.numerator == 1 and number.denominator & (number.denominator - 1) == 0:
        return 1 - number.denominator.bit_length()
    return number.numerator.bit_length() - 1 if number.denominator == 1 and number.numerator & (number.numerator - 1) == 0 else None


def dot_json(product: DotProduct) -> dict[str, Any]:
    """A dot product as JSON: its terms, its sum and its result. Numbers are decimal text, exact for fractions; bits are
    hex.
    """

    def term(t: DotTerm) -> dict[str, Any]:
        return {
            "term": t.name,
            "k": list(t.k),
            "a": [f"{x:#x}" for x in t.a],
            "b": [f"{x:#x}" for x in t.b],
            "value": str(t.value),
            "exponent": t.exponent,
            "kept": str(t.kept),
            "lost": str(t.lost),
        }

    row = product.arithmetic
    return {
        "instruction": _instruction(product),
        "types": list(product.types),
        "arithmetic": _constants(row),
        "terms": [term(t) for t in product.terms],
        "alignment_exponent": product.exponent,
        "aligned_to": product.largest.name if product.largest else None,
        "lowest_exponent": product.lowest,
        "sum": str(product.total),
        "exact_sum": str(product.exact),
        "d": f"{product.d:#x}",
        "value": str(product.value),
        "exact_sum_to_nearest": f"{product.nearest:#x}",
        "steps": product.steps(),
    }


def _constants(row: MmaArithmetic) -> dict[str, Any]:
    return {
        "grade": str(row.grade),
        "source": row.source,
        "terms": row.k // row.group,
        "kept_bits": row.kept_bits,
        "fraction_bits": row.fraction_bits,
        "to_nearest": row.to_nearest,
        "zero_exponent": row.zero_exponent,
    }
