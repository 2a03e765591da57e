"""An operand, and a checked scenario, in the terminal: at most 100 columns, and nothing said by colour alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from smemsim.checking.report import Report
from smemsim.show.operand import COLOURS
from smemsim.show.tile import Cell, Place, TilePicture
from smemsim.show.tile_rows import Gap, shown_lines
from smemsim.spec.shared_memory import CHUNK, LINE

__all__ = ["report_view", "tile_view"]

COLUMNS, MOST_STEPS = 100, 24


def _label(tile: TilePicture, cell: Cell | None) -> str:
    """What lies in 16 bytes, behind a mark."""
    if cell is None:
        return "·"
    held = tile.held
    if not cell.readers:
        assert held is not None
        assert cell.home is not None
        return f"({held.short(held.meant_at(cell.home))})"
    place = (cell.wrong or cell.readers)[0]
    if held is None:
        return ("&" if len(cell.readers) > 1 else "") + ",".join(map(str, tile.first(place)))
    at = int(held.wrong[place].argmax())
    return ("!" if cell.wrong else "") + held.short(held.got_at(place, at))


def tile_view(tile: TilePicture, most: int, selected: Place | None = None) -> RenderableType:
    """The picture of one operand, at most `most` 128-byte lines, and a table of what each instruction reads."""
    if tile.too_large:
        return Group(Text(tile.title, "bold"), Text(tile.too_large))
    chosen = selected or (tile.instruction(tile.first_wrong) if tile.first_wrong else (0, 0))
    entries = shown_lines(tile, most)
    labels = {line: [_label(tile, cell) for cell in tile.lines[line]] for line in entries if isinstance(line, int)}
    wide = min(max(len(label) for row in labels.values() for label in row) + 2, (COLUMNS - 10) // 8)
    grid = Text(no_wrap=True, overflow="crop")
    grid.append(" " * 9 + "".join(f"{f'+{CHUNK * i:#04x}':^{wide}}" for i in range(LINE // CHUNK)) + "\n", "dim")
    for entry in entries:
        if isinstance(entry, Gap):
            span = f"{entry.count} lines {'like those shown' if entry.alike else 'left out'}: {entry.first * LINE:#x} to {entry.last * LINE + LINE - 1:#x}"
            grid.append(f"{'...':>7}  {span if entry.count else ''}".rstrip() + "\n", "dim")
            continue
        grid.append(f"{entry * LINE:#7x}  ", "dim")
        for cell, label in zip(tile.lines[entry], labels[entry], strict=True):
            mine = cell is not None and any(tile.instruction(p) == chosen for p in cell.readers)
            text = f"[{label[: wide - 2]}]" if mine else label[:wide]
            grid.append(f"{text:^{wide}}", _style(cell))
        grid.append("\n")
    grid.rstrip()
    return Group(
        Text(tile.title, "bold"),
        Text(tile.subtitle),
        grid,
        Text(_legend(tile, chosen), "dim"),
        _strides(tile),
        _steps(tile),
        Text(tile.grade, "dim"),
    )


def _style(cell: Cell | None) -> str:
    if cell is None or not cell.readers:
        return "dim"
    if cell.wrong:
        return "bold white on #a40e26"
    return "black on #d5d8dc" if cell.home is None else f"black on {COLOURS[cell.home[1] % 8]}"


def _legend(tile: TilePicture, chosen: Place) -> str:
    """What the marks mean, of those that occur."""
    cells = list(tile.cells.values())
    rows, k = tile.held.axes if tile.held else ("row", "k")
    told = [
        f"{rows},{k} of what lies there" if tile.held else f"{rows},{k} that is read there",
        f"[ ] block {chosen[0]}, K step {chosen[1]} reads it",
    ]
    told += ["! other than was meant"] * any(c.wrong for c in cells)
    told += ["( ) meant, but read nowhere"] * any(not c.readers for c in cells)
    told += ["& read for several chunks"] * (not tile.held and any(len(c.readers) > 1 for c in cells))
    return _wrapped(f"each cell is 16 bytes: {'; '.join([*told, '· not read'])}")


def _wrapped(sentence: str) -> str:
    return "\n".join(textwrap.wrap(sentence, COLUMNS, subsequent_indent="  "))


def _strides(tile: TilePicture) -> Text:
    """Where SBO and LBO lead."""
    told = [f"{s.name} {s.bytes} B: {s.begin:#x} -> {s.end:#x}" if s.used else f"{s.name} {s.bytes} B: not used" for s in tile.strides()]
    return Text("; ".join(told))


def _steps(tile: TilePicture) -> Text:
    """A line for each instruction: its start, how much of it is wrong, and the first wrong element. Those that are alike are told once."""
    blocks, steps = tile.words.shape
    rows: dict[Place, list[Place]] = {}
    for place in tile.places():
        rows.setdefault(tile.instruction(place), []).append(place)
    if not tile.held and blocks * steps == 1:
        return Text("nothing is said of what was meant")
    lines = [
        f"{'block':>5} {'K step':>6} {'start':>9}  {'wrong elements' if tile.held else '':<17} {'first wrong' if tile.held else ''}".rstrip()
    ]
    ordered = sorted(rows, key=lambda x: (not any(tile.wrong_at(p) for p in rows[x]), x))[:MOST_STEPS]  # wrong ones must not be cut off
    for block, step in sorted(ordered):
        places = rows[block, step]
        line = f"{block:>5} {step:>6} {tile.start((block, step)):>#9x}  "
        if tile.held is not None:
            count = sum(tile.wrong_at(p) for p in places)
            line += f"{f'{count} of {tile.rows * tile.k}' if count else 'none':<17} "
            first = min((p for p in places if tile.wrong_at(p)), key=tile.first, default=None)
            line += _wrong(tile, first) if first else ""
        lines.append(line.rstrip())
    if blocks * steps > MOST_STEPS:
        lines.append(f"and {blocks * steps - MOST_STEPS} more instructions")
    return Text("\n".join(lines))


def _wrong(tile: TilePicture, place: Place) -> str:
    """What arrives where, and what was meant."""
    held = tile.held
    assert held is not None
    at = int(held.wrong[place].argmax())
    return f"{held.text(held.got_at(place, at))} at {int(tile.address[place][at]):#x}, meant {held.text(held.meant_at(place, at))}"


def report_view(report: Report, tiles: list[TilePicture], most: int, selected: Sequence[Place | None] = ()) -> RenderableType:
    """Findings, then every operand; `selected` are the (block, K step) to mark."""
    parts: list[RenderableType] = [Text(report.title, "bold")] if report.title else []
    parts.append(Text("\n".join(_wrapped(line) for line in report.text().splitlines())))
    for tile, chosen in zip(tiles, selected or [None] * len(tiles), strict=True):
        parts += [Text(""), tile_view(tile, most, chosen)]
    return Group(*parts)
