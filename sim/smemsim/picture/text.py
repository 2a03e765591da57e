"""Text: pictures and tables in a terminal, styled where somebody looks at one."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from smemsim.picture.model import COLOURS, EMPTY, OUTSIDE, Cell, Grid, Line, Mark, Picture, Row, Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["legend_text", "picture_text", "print_lines", "stderr", "stdout", "table_lines", "terminal_width", "wrapped"]


# ---- Lines of styled text, printed by click: for what must start fast (importing rich costs as much as decoding a descriptor)


WIDE = 160  # columns, where nobody looks at a terminal
SENTENCE = 100  # columns of what is wrapped


def terminal_width() -> int:
    """Columns of the terminal; wide when nobody looks at one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def print_lines(lines: list[Line]) -> None:
    """To stdout; colours only on a terminal, and never with NO_COLOR."""
    coloured = False if os.environ.get("NO_COLOR") else None
    for line in lines:
        text = "".join(_styled(part, style) for part, style in line)
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

    >>> from smemsim.picture.model import Column
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


# ---- The consoles: data on stdout, narration and progress on stderr. rich decides about colour (terminal, NO_COLOR)


def stdout() -> Console:
    """The console that writes results to stdout; lines are as long as they need where stdout is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    return Console(file=sys.stdout, highlight=False, width=width, emoji=False, markup=False)


def stderr() -> Console:
    """The console that writes to stderr, for progress and remarks."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False, emoji=False, markup=False)


# ---- Pictures: the last grid, and all that is said of it; nothing is said by colour alone


def picture_text(picture: Picture, widest: int | None = None) -> RenderableType:
    """A picture in a terminal; labels are cut where cells would be wider than `widest` characters."""
    from rich.console import Group
    from rich.text import Text

    parts = [Text(picture.title, "bold"), *map(Text, picture.subtitles)]
    parts += [_grid(picture.grids[-1], widest)] if picture.grids else []
    parts += [Text(legend_text(picture), "dim")] if picture.cell else []
    parts += [Text("; ".join(_stride(picture)))] if picture.strides else []
    parts += [Text(wrapped("; ".join(picture.notes)))] if picture.notes else []
    if picture.table is not None:
        parts += [Text(text, style) for line in table_lines(picture.table) for text, style in line]
    parts += map(Text, picture.more)
    parts += [Text(picture.evidence, "dim")] if picture.evidence else []
    return Group(*parts)


def _stride(picture: Picture) -> list[str]:
    """A line for each stride: the bytes, and from where to where it leads."""
    return [f"{s.name} {s.bytes} B: {s.begin:#x} -> {s.end:#x}" if s.used else f"{s.name} {s.bytes} B: not used" for s in picture.strides]


def _grid(grid: Grid, widest: int | None) -> Text:
    from rich.text import Text

    needed = max((len(_label(cell)) for _, _, cell in grid.cells()), default=4) + 2
    wide = min(needed, widest or needed)
    edge = max(7, *(len(row.label) for row in grid.shown))
    text = Text(no_wrap=True, overflow="crop" if widest else "ignore")
    text.append(" " * (edge + 2) + "".join(f"{head[0]:^{wide}}" for head in grid.heads) + "\n", "dim")
    for entry in grid.rows:
        if not isinstance(entry, Row):
            text.append(f"{'...':>{edge}}  {entry.says}".rstrip() + "\n", "dim")
            continue
        text.append(f"{entry.label:>{edge}}  ", "dim")
        for cell in entry.cells:
            label = f"[{_label(cell)[: wide - 2]}]" if Mark.CHOSEN in cell.marks else _label(cell)[:wide]
            text.append(f"{label:^{wide}}", _style(cell))
        text.append("\n")
    text.rstrip()
    return text


def _label(cell: Cell) -> str:
    """The text of a cell, with its mark."""
    if Mark.NOTHING in cell.marks:
        return Mark.NOTHING
    if Mark.MISSED in cell.marks:
        return f"({cell.label})"
    mark = next((mark for mark in (Mark.WRONG, Mark.SHARED) if mark in cell.marks), "")
    return f"{mark}{cell.word or cell.label}"


def _style(cell: Cell) -> str:
    if cell.fill == EMPTY:
        return "dim"
    if cell.marks & {Mark.WRONG, Mark.SHARED}:
        return "bold white on #a40e26"
    if cell.fill == OUTSIDE:
        return "bright_black on #f0f0f0"
    return f"black on {COLOURS[int(cell.fill[1:])]}" if cell.fill[1:] else f"black on {COLOURS[-1]}"


def legend_text(picture: Picture) -> str:
    """What the labels and marks mean, of those that a terminal shows."""
    told = [f"{entry.mark or entry.word} {entry.says}" for entry in picture.legend if entry.mark or entry.word]
    return wrapped(f"each cell is 16 bytes: {'; '.join([picture.cell, *told])}")
