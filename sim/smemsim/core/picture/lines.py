"""Lines of styled text and tables in a terminal, printed by click: importing rich costs as much as decoding a
descriptor.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

import click

from smemsim.base.terminal import in_columns
from smemsim.core.picture.message import wants_colour
from smemsim.core.picture.table import Line, Table

__all__ = ["SENTENCE", "WIDE", "print_lines", "table_lines", "terminal_width", "wrapped"]


WIDE = 160  # columns, if the output is not a terminal
SENTENCE = 100  # columns of what is wrapped


def terminal_width() -> int:
    """Columns of the terminal; wide if the output is not a terminal."""
    if not sys.stdout.isatty():
        return WIDE
    import shutil  # with everything that packs files

    return shutil.get_terminal_size().columns


def print_lines(lines: list[Line]) -> None:
    """To stdout, with colours if `wants_colour`."""
    coloured = wants_colour(sys.stdout)
    for line in lines:
        parts = [(in_columns(line[0][0]), line[0][1])] if len(line) == 1 else line
        text = "".join(_styled(part, style) for part, style in parts)
        click.echo(text.rstrip() if not line or not line[-1][1] else text, color=coloured)


def _styled(text: str, style: str) -> str:
    if style in ("bold", "dim"):
        return click.style(text, bold=style == "bold" or None, dim=style == "dim" or None)
    return click.style(text, fg=style) if style else text


def wrapped(sentence: str) -> str:
    """A sentence in lines that fit, the later ones indented."""
    return "\n".join(textwrap.wrap(sentence, SENTENCE, subsequent_indent="  "))


def table_lines(table: Table, indent: str = "") -> list[Line]:
    """A table in lines; columns are as wide as they must be.

    >>> from smemsim.core.picture.table import Column
    >>> table_lines(Table((Column("k"), Column("value", right=True)), (("0", "2.5"), ("1", "-1"))))[1][0]
    ('0    2.5', '')
    """
    heads = tuple(column.head for column in table.columns)
    rows, styles = [heads, *table.rows], [table.head_style, *(table.styles or [""] * len(table.rows))]
    widths = [column.width for column in table.columns]
    for cells in rows:
        counted = cells if len(cells) == len(widths) else cells[:-1]
        widths[: len(counted)] = [max(width, len(cell)) for width, cell in zip(widths, counted, strict=False)]
    return [_table_line(table, cells, widths, style, indent) for cells, style in zip(rows, styles, strict=True)]


def _table_line(table: Table, cells: Sequence[str], widths: Sequence[int], style: str | tuple[str, ...], indent: str) -> Line:
    aligned = [
        cell.rjust(width) if column.right else cell.ljust(width) for cell, width, column in zip(cells, widths, table.columns, strict=False)
    ]
    if isinstance(style, str):
        return Line([(indent + "  ".join(aligned).rstrip(), style)])
    last = len(aligned) - 1
    return Line([(text.rstrip() if n == last else f"{text}  ", one) for n, (text, one) in enumerate(zip(aligned, style, strict=True))])
