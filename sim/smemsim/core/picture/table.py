"""Lines of styled text, and tables."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Column", "Line", "Table"]


class Line(list[tuple[str, str]]):
    """Pieces of (text, style); a style is "", "bold", "dim" or a colour."""


class Column(NamedTuple):
    """A column of a table: what stands above it, how many characters it takes at least, and
    is it aligned to the right?
    """

    head: str
    width: int = 0
    right: bool = False


class Table(NamedTuple):
    """Rows of cells under `columns`; `styles` has one for each row, or one for each of its cells.

    A row with fewer cells than columns does not widen them with its last cell.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    styles: tuple[str | tuple[str, ...], ...] = ()
    head_style: str = "dim"
