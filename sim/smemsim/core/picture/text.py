"""Pictures in a terminal, with styles if the output is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from smemsim.core.picture.lines import WIDE, table_lines, wrapped
from smemsim.core.picture.model import COLOURS, EMPTY, OUTSIDE, Cell, Grid, Mark, Picture, Row

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["legend_text", "picture_text", "stderr", "stdout"]


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


# ---- Pictures: the last grid and its texts. Colour is never the only sign


def picture_text(picture: Picture, widest: int | None = None) -> RenderableType:
    """A picture in a terminal; labels are cut where cells would be wider than `widest` characters."""
    from rich.console import Group
    from rich.text import Text

    parts = [Text(picture.title, "bold"), *map(Text, picture.subtitles)]
    parts += [Text(legend_text(picture), "dim")] if picture.cell else []
    parts += [_grid(picture.grids[-1], widest)] if picture.grids else []
    parts += [Text("; ".join(_stride(picture)))] if picture.strides else []
    parts += [Text(wrapped("; ".join(picture.notes)))] if picture.notes else []
    if picture.table is not None:
        parts += [Text(text, style) for line in table_lines(picture.table) for text, style in line]
    parts += map(Text, picture.more)
    parts += [Text(picture.evidence, "dim")] if picture.evidence else []
    return Group(*parts)


def _stride(picture: Picture) -> list[str]:
    """A line for each stride: the bytes, and from where to where it leads."""
    return [
        f"{s.name} {s.bytes} B: {s.begin:#x} -> {s.end:#x}{' (with the swizzle)' * (s.end - s.begin != s.bytes)}"
        if s.used
        else f"{s.name} {s.bytes} B: not used"
        for s in picture.strides
    ]


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
    """The meaning of the labels and marks that a terminal shows."""
    told = [f"{entry.mark or entry.word} {entry.says}" for entry in picture.legend if entry.mark or entry.word]
    return wrapped(f"each cell is 16 bytes: {'; '.join([picture.cell, *told])}")
