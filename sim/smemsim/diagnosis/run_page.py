"""Findings of a run on its page: entries with their lines of the source, and the pictures of operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from smemsim.core.finding import Finding, Half, InLaunch, Path, shortened, told
from smemsim.core.ptx.module import Instruction, Location
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.report import cause_of, target_of

if TYPE_CHECKING:
    from smemsim.core.picture.model import Entry, Excerpt, Side
    from smemsim.diagnosis.tile import TilePicture

__all__ = ["entry", "named_by_line", "stores_of"]


STORES = ("st", "stmatrix", "atom", "red", "wmma")  # of threads
MOST_STORES = 4  # of a launch that a page lists
AROUND = 4  # lines of PTX or source before and after a finding's, on a page


def stores_of(body: Iterable[Instruction], place: Callable[[Location], Location]) -> str:
    """The possible writers of shared memory that no copy of a recorded launch wrote: the stores of the program."""
    every = [i for i in body if i.op in STORES]
    stores = [i for i in every if any(word.startswith("shared") for word in i.modifiers)]
    lines = list(dict.fromkeys(f"PTX line {i.line}" if i.location is None else place(i.location).path.rpartition("/")[2] for i in stores))
    if not lines:
        return "nothing, or a generic store" if every else "nothing"
    more = f" and {len(lines) - MOST_STORES} more" if len(lines) > MOST_STORES else ""
    return f"threads, or nothing (threads store to shared memory at {', '.join(lines[:MOST_STORES])}{more})"


def named_by_line(tile: TilePicture, names: Mapping[int, str]) -> TilePicture:
    """An operand that is called after its lines of PTX, not after a step of the scenario."""
    path = Path.parse(tile.where)
    line = names.get(path.step) if path.step is not None else None
    return tile if line is None else dataclasses.replace(tile, name=f"{line} {path.side.upper()}")


def entry(f: Finding, ptx: list[str], tiles: Sequence[TilePicture] = ()) -> Entry:
    """A finding on a page: lines of the PTX around its own, the line of its source, and where its picture is."""
    from smemsim.core.picture.model import Entry, Excerpt

    excerpt, sides = None, _sides(f, ptx)
    around = tuple((n, shortened(ptx[n - 1])) for n in range(max(1, f.line - AROUND), min(len(ptx), f.line + AROUND) + 1))
    if f.line and not any(side.source.lines == around for side in sides):  # else the lines are drawn already
        excerpt = Excerpt(
            around, f.line, () if sides else tuple(line for line in f.printed.excerpt() if not line.startswith(f"{f.line} | "))
        )
    where = f.parts.where[0] if f.place is None or not isinstance(f.at, InLaunch) else Half("", "", f.at.instruction, f.place).at("")
    return Entry(str(f.severity), f.code, where, told(f.what), f.printed.fix(), f.because, others=f.printed.others(), excerpt=excerpt, rows=f.printed.page_rows(),
                 target=target_of(f.check, tiles) if f.check else None, severity_says=f.severity.says, explained=cause_of(f.code), sides=sides)  # fmt: skip


def _sides(f: Finding, ptx: list[str]) -> tuple[Side, ...]:
    """The accesses of a finding with the source around each line; that of the finding itself if it names no access;
    none for a remark.
    """
    from smemsim.core.picture.model import Side, Told

    if f.severity is Severity.NOTE:
        return ()
    launch = f.at.launch if isinstance(f.at, InLaunch) else ""
    halves = [half for half in f.halves if half.instruction is not None]
    if not halves and isinstance(f.at, InLaunch) and f.at.instruction is not None:
        halves = [Half("at", f.at.instruction.name, f.at.instruction, f.place)]
    sides: list[Side] = []
    for half in halves:
        access, source = Told(half.does, told(half.text), half.at(launch)), _source_around(half, f, ptx)
        near = [n for n, side in enumerate(sides) if (source.at, dict(source.lines)[source.at]) in side.source.lines]
        if len(halves) > 2 and near:  # no race of two: several accesses are in one piece of source
            side = sides[near[0]]
            also = tuple(dict.fromkeys((*side.source.also, source.at)))
            sides[near[0]] = Side((*side.accesses, access), dataclasses.replace(side.source, also=also))
        else:
            sides.append(Side((access,), source))
    return tuple(sides)


def _source_around(half: Half, f: Finding, ptx: list[str]) -> Excerpt:
    """Lines of the source around an access; of the PTX, if the source cannot be read."""
    from smemsim.base.files import source_text
    from smemsim.core.picture.model import Excerpt

    assert half.instruction is not None
    place = half.place or half.instruction.location
    text = source_text(place.file, f.folders).splitlines() if place is not None else []
    lines, at = (text, place.line) if place is not None and 0 < place.line <= len(text) else (ptx, half.instruction.line)
    numbers = range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)
    return Excerpt(tuple((n, shortened(lines[n - 1]) if lines is ptx else lines[n - 1]) for n in numbers), at)
