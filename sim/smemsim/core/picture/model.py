"""The parts of a picture. Text, SVG and page are renderings of these values: `smemsim.core.picture.text`, `.svg` and
`.page`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from smemsim.core.picture.message import Labelled
from smemsim.core.picture.table import Table

__all__ = [
    "COLOURS",
    "EMPTY",
    "OUTSIDE",
    "STRAY",
    "Above",
    "Band",
    "Cell",
    "Entry",
    "Excerpt",
    "Gap",
    "Grid",
    "Heat",
    "HeatLine",
    "Legend",
    "Mark",
    "Outline",
    "Page",
    "Part",
    "Picture",
    "Row",
    "Side",
    "Stages",
    "Stride",
    "Strip",
    "Told",
    "colour",
]


# ---- Fills by what they say: one of eight colours, or one of three kinds of cell that hold nothing of what is shown


# Eight pastels: blue, orange, green, red, violet, brown, pink, grey. Text on them is dark.
COLOURS = ("#aecbeb", "#ffd8a8", "#b7e1b5", "#f5b5b0", "#cfbfe8", "#d9c5b2", "#f7c6e0", "#d5d8dc")

EMPTY = "e"  # nothing is there
STRAY = "x"  # something else is there
OUTSIDE = "o"  # it belongs to the picture, and stands for nothing


def colour(number: int) -> str:
    """The fill of a number, which repeats after eight.

    >>> colour(3), colour(8)
    ('k3', 'k0')
    """
    return f"k{number % len(COLOURS)}"


# ---- Grids: cells in rows, as the 16-byte chunks of memory


class Mark(enum.StrEnum):
    """A mark of a cell next to its label. The value is the text that a terminal prints, which has no hatching."""

    WRONG = "!"
    SHARED = "&"
    MISSED = "( )"
    CHOSEN = "[ ]"
    NOTHING = "·"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a grid, for the bytes from `address` on.

    A wrong cell has a second line, `below`. In a terminal, `word` is printed instead of the label. The text for a
    pointer is `hint`. Names and values for scripts are `data`.
    """

    label: str
    fill: str
    marks: frozenset[Mark] = frozenset()
    below: str = ""
    word: str = ""
    hint: str = ""
    address: int = -1
    bytes: int = 16
    data: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def holds(self, address: int) -> bool:
        """Is this address one of its bytes?"""
        return self.address <= address < self.address + self.bytes


@dataclasses.dataclass(frozen=True)
class Row:
    """Cells next to each other. `number` is the place among all rows, some of which may be left out; `after` follows
    it.
    """

    number: int
    label: str
    cells: tuple[Cell, ...]
    after: str = ""


@dataclasses.dataclass(frozen=True)
class Gap:
    """Rows that are left out, in words; "" where nothing is there."""

    says: str = ""


@dataclasses.dataclass(frozen=True)
class Outline:
    """A box around cells from row `top` to `bottom` and column `left` to `right` (both exclusive).

    A class of the style sheet is `kind`. The label is printed above the box or, in a picture of boxes, inside it.
    """

    kind: str
    top: float
    bottom: float
    left: float
    right: float
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rows under `heads`, of which each column has one or more, from the top."""

    title: str
    heads: tuple[tuple[str, ...], ...]
    rows: tuple[Row | Gap, ...]
    corner: str = ""
    after: tuple[str, ...] = ()
    outlines: tuple[Outline, ...] = ()
    note: str = ""

    @property
    def shown(self) -> list[Row]:
        """The rows that are not left out."""
        return [row for row in self.rows if isinstance(row, Row)]

    def cells(self) -> Iterator[tuple[Row, int, Cell]]:
        """Every cell that is shown, with its row and column."""
        for row in self.shown:
            for column, cell in enumerate(row.cells):
                yield row, column, cell

    def place(self, address: int) -> tuple[Row, int, Cell] | None:
        """The first cell that stands for an address."""
        return next((found for found in self.cells() if found[2].holds(address)), None)


# ---- Strips: a length with bands on it, as lanes of tensor memory or bytes of a buffer


@dataclasses.dataclass(frozen=True)
class Band:
    """From `begin` to before `end` of a strip; `cells` is its row in the strip's table."""

    begin: int
    end: int
    fill: str
    label: str
    cells: tuple[str, ...]
    hint: str = ""
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Strip:
    """A length with bands; under `heads` the table of them.

    `across` explains its two sides. Next to it are `subtitle`, `ticks` (place, number) and `names` (place, text).
    `empty` explains a strip without bands.
    """

    title: str
    begin: int
    end: int
    bands: tuple[Band, ...]
    heads: tuple[str, ...]
    subtitle: str = ""
    across: tuple[str, str] = ("", "")
    ticks: tuple[tuple[int, str], ...] = ()
    names: tuple[tuple[int, str], ...] = ()
    empty: str = ""


# ---- Whole pictures


@dataclasses.dataclass(frozen=True)
class Stride:
    """A distance in memory: the sum for an address, its target, and whether it is used."""

    name: str
    bytes: int
    begin: int
    end: int
    used: bool


@dataclasses.dataclass(frozen=True)
class Legend:
    """An entry of a legend: a fill or a mark, and what it means."""

    says: str
    fill: str = EMPTY
    mark: Mark | None = None
    word: str = ""  # what a terminal writes into such cells; "" where it shows nothing of the kind
    below: str = ""  # what the second line of such cells says


@dataclasses.dataclass(frozen=True)
class Picture:
    """Grids or strips with their texts. A terminal draws the last grid. The one before it shows the inverse.

    Each cell is explained by `cell`. Fills are named by `colours`. Only a terminal prints `tables`; `notes` are printed
    in both. With `boxes`, the grid is a map of boxes with labelled outlines.
    """

    title: str
    subtitles: tuple[str, ...]
    evidence: str
    grids: tuple[Grid, ...] = ()
    strips: tuple[Strip, ...] = ()
    cell: str = ""
    colours: tuple[str, ...] = ()
    legend: tuple[Legend, ...] = ()
    strides: tuple[Stride, ...] = ()
    outlined: str = ""
    notes: tuple[str, ...] = ()
    alarm: str = ""
    table: Table | None = None
    more: tuple[str, ...] = ()
    boxes: bool = False


# ---- Pages


@dataclasses.dataclass(frozen=True)
class Excerpt:
    """Numbered lines of a source, one of them marked, and lines that belong to it below. `also` are further lines that
    are marked.
    """

    lines: tuple[tuple[int, str], ...]
    at: int
    below: tuple[str, ...] = ()
    also: tuple[int, ...] = ()


class Told(NamedTuple):
    """One access of a finding in words: what it does ("write"), the thread or instruction, and its place."""

    does: str
    text: str
    where: str


class Side(NamedTuple):
    """Accesses of a finding that are in one piece of source: one, if the finding is a race."""

    accesses: tuple[Told, ...]
    source: Excerpt


@dataclasses.dataclass(frozen=True)
class Entry:
    """A fault for readers. `target` is the (picture, cell) to show next to it; `others` names further places."""

    severity: str
    code: str
    where: str
    message: str
    repair: str = ""
    because: str = ""
    grade: str = ""
    card: str = ""  # how a reader with a card measures the rule, if it was not measured
    others: str = ""
    target: tuple[int, int] | None = None
    excerpt: Excerpt | None = None
    severity_says: str = ""
    explained: str = ""  # what the code means
    link: str = ""  # another page that shows it
    rows: tuple[Labelled, ...] = ()  # the accesses that it is about, and why
    sides: tuple[Side, ...] = ()  # the accesses with their source, both halves of a race
    followers: tuple[Entry, ...] = ()  # findings that follow from this one


class HeatLine(NamedTuple):
    """A line of source, its numbers, and its share (0 to 1) of the cost of the launch. Its losses are `says`, its
    instructions that access memory are `runs`. Both are printed next to it.
    """

    where: str
    text: str
    numbers: tuple[str, ...]
    share: float
    says: str = ""
    runs: str = ""


@dataclasses.dataclass(frozen=True)
class Heat:
    """A table of source lines with a column of heat; `sums` are sentences above it."""

    heads: tuple[str, ...]
    lines: tuple[HeatLine, ...]
    sums: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Stages:
    """The pipeline of a launch: sentences, and an SVG picture without a style sheet."""

    sentences: tuple[str, ...]
    picture: str


@dataclasses.dataclass(frozen=True)
class Above:
    """The head of a page, above its findings and pictures. `outputs` are lines, and whether each is as it should be."""

    heading: str
    outputs: tuple[tuple[str, bool], ...] = ()
    printed: str = ""
    sentences: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Page:
    """One self-contained page: entries next to pictures.

    The script draws `data`. Readers without scripts, and paper, get `stills`: (name, picture). Names of pictures that
    `data` has no room for are `missing`. Heading, outputs, printed text and sentences are `above`. Lines about things
    that the entries name are `named`. The page that leads here is `back`: (link, words). The cost of lines of a counted
    launch is `heat`. The checked and the unchecked parts are `checked`. The pipeline of a recorded launch is `stages`.
    """

    title: str
    evidence: str
    counted: str
    entries: tuple[Entry, ...]
    more: int = 0  # entries that are left out
    remarks: tuple[Entry, ...] = ()
    clean: str = ""
    unchecked: tuple[str, ...] = ()
    strips: tuple[Strip, ...] = ()
    strips_title: str = ""
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stills: tuple[tuple[str, Picture], ...] = ()
    undrawn: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    above: Above | None = None
    named: tuple[str, ...] = ()
    back: tuple[str, str] = ("", "")
    heat: Heat | None = None
    stages: Stages | None = None
    checked: tuple[str, ...] = ()

    @property
    def is_about_pictures(self) -> bool:
        """Do the pictures show something that an entry is about, or are there remarks alone?"""
        return all(entry.severity == "note" for entry in self.entries) or any(entry.target is not None for entry in self.entries)


@dataclasses.dataclass(frozen=True)
class Part:
    """A launch in the page of a whole program: its row of the table; `link` is its own page, "" for none."""

    number: str
    name: str
    link: str
    cells: tuple[str, ...]
    is_fine: bool
