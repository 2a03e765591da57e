"""Any machine word as a person wants to see it: the bit ruler, the table of its fields, and findings in paragraphs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from smemsim.show.plain import Line
from smemsim.spec.findings import Finding
from smemsim.words import Field, Word

__all__ = ["field_lines", "finding_json", "finding_lines", "ruler_lines"]

SEVERITY_STYLE = {"trap": "red", "wrong": "red", "luck": "yellow", "note": "cyan"}
FIELD_STYLES = ("cyan", "green", "magenta", "yellow", "blue")


def ruler_lines(table: Word, word: int) -> list[Line]:
    """The bits in their fields, with the bit numbers above and letters below."""
    numbers, bits, marks = Line(), Line(), Line()
    for letter, style, _, field in _rows(table):
        label = str(field.high) if field.width < 5 else f"{field.high}{field.low:>{field.width - len(str(field.high))}}"
        width = max(field.width, len(label))
        numbers.append((f"{label:<{width}} ", "dim"))
        bits.append((f"{field.raw(word):0{field.width}b}".ljust(width) + " ", style))
        marks.append((f"{letter:<{width}} ", style))
    return [numbers, bits, marks]


def _rows(table: Word) -> list[tuple[str, str, str, Field]]:
    """(letter, style, name, field) from the highest bits down."""
    ordered = sorted(table.fields.items(), key=lambda item: -item[1].low)
    return [
        ("abcdefghijklmnopqrstuvwxyz"[i], "dim" if field.want is not None else FIELD_STYLES[i % len(FIELD_STYLES)], name, field)
        for i, (name, field) in enumerate(ordered)
    ]


def field_lines(table: Word, word: int, unit: str, number: Callable[[str, Field], str], meaning: Callable[[str], str]) -> list[Line]:
    """One line a field: letter, name, bits, raw value, the value in `unit` ("" for none), what it means."""
    cells = [("", "field", "bits", "raw", unit, "meaning")]
    styles = ["dim"]
    for letter, style, name, field in _rows(table):
        span = f"{field.high}:{field.low}" if field.width > 1 else str(field.high)
        shown = name.lstrip("_") if field.want is None or name == "constant" else "reserved"
        cells.append((letter, shown, span, f"{field.raw(word):#x}", number(name, field), meaning(name)))
        styles.append(style)
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    lines = []
    for row, style in zip(cells, styles, strict=True):
        numbers = "  ".join(row[i].rjust(widths[i]) for i in (2, 3, 4))
        lines.append(
            Line(
                [
                    (f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  ", style),
                    (f"{numbers}  {row[5]}", "dim" if row is cells[0] else ""),
                ]
            )
        )
    return lines


def finding_lines(findings: Sequence[Finding], width: int) -> list[Line]:
    """One finding a paragraph: severity, code, message, what to do, the source; wrapped with a hanging indent."""
    lines: list[Line] = []
    indent = " " * 12
    for f in findings:
        first, *rest = textwrap.wrap(f.message, max(width - 12, 40))
        lines.append(Line([(f"{f.severity:<5} {f.code}  ", SEVERITY_STYLE[f.severity]), (first, "")]))
        lines += [Line([(indent + text, "")]) for text in rest]
        for text, style in ((f.repair, "green"), (f.because, "dim")):
            lines += [Line([(indent + part, style)]) for part in textwrap.wrap(text, max(width - 12, 40))]
    return lines


def finding_json(f: Finding) -> dict[str, Any]:
    """One finding for programs."""
    return {
        "code": f.code,
        "severity": str(f.severity),
        "where": f.where,
        "message": f.message,
        "repair": f.repair,
        "because": f.because,
    }
