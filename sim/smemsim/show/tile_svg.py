"""An operand as SVG: the tile with the address of each chunk, and beside it shared memory with what lies there."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from smemsim.arguments import flag, shown, whole, wholes
from smemsim.errors import InputError
from smemsim.show.paint import LETTER, MARGIN, arrow, hatch, rect, svg, text
from smemsim.show.tile import Cell, Place, Stride, TilePicture
from smemsim.show.tile_legend import tile_legend
from smemsim.show.tile_rows import Gap, shown_columns, shown_lines, shown_rows
from smemsim.show.tile_title import cell_title
from smemsim.spec.shared_memory import BANKS, CHUNK, LINE

__all__ = ["tile_svg"]

TOP, GAP, SMALL = 126, 20, 5.8
MOST_LINES = 48


class _Picture:
    """One drawing: where the rows, the lines and the columns stand."""

    def __init__(self, tile: TilePicture, selected: Place, most: int, hover: bool) -> None:
        self.tile, self.selected, self.hover = tile, selected, hover
        self.lines = shown_lines(tile, most)
        self.rows = shown_rows(tile, self.lines, most)
        self.columns = shown_columns(tile)
        wrong = tile.first_wrong is not None
        self.high = 32 if wrong else 21
        self.wide = max(58.0, *(LETTER * len(a) + 8 for a in self._upper()), *(SMALL * len(b) + 6 for b in self._lower()))
        self.left = MARGIN + 44  # of the tile
        self.gutter = 16 + LETTER * max(len(f"{line * LINE:#x}") for line in tile.lines)  # for the addresses
        self.arrows = 84 + self.gutter  # room for the strides between the views
        self.right = self.left + max(self.wide * len(self.columns), 226) + self.arrows
        self.row_y, bottom_rows = self._places(self.rows)
        self.line_y, bottom_lines = self._places(self.lines)
        self.bottom = max(bottom_rows, bottom_lines)

    def _upper(self) -> list[str]:
        """First lines of the cells' texts, by which their width goes."""
        return [self._label(cell) for line in self.lines if isinstance(line, int) for cell in self.tile.lines[line] if cell]

    def _lower(self) -> list[str]:
        """The longest second lines."""
        tile, held = self.tile, self.tile.held
        if held is None:
            return [""]
        places = [p for line in self.lines if isinstance(line, int) for cell in tile.lines[line] if cell for p in cell.wrong]
        wrong = [(p, int(held.wrong[p].argmax())) for p in places]
        return ["", *(f"≠ {held.short(named)}" for at in wrong for named in (held.meant_at(*at), held.got_at(*at)))]

    def _label(self, cell: Cell) -> str:
        """What lies in 16 bytes of shared memory, or is read there."""
        tile, held = self.tile, self.tile.held
        if held is None:
            more = f" +{len(cell.readers) - 1}" if len(cell.readers) > 1 else ""
            return ",".join(map(str, tile.first(cell.readers[0]))) + more
        if not cell.readers:
            return held.short(held.meant_at(cell.home)) if cell.home else ""
        place = (cell.wrong or cell.readers)[0]
        return held.short(held.got_at(place, int(held.wrong[place].argmax())))

    def _places(self, entries: Sequence[int | Gap]) -> tuple[dict[int, float], float]:
        y, found = float(TOP), {}
        for entry in entries:
            if isinstance(entry, Gap):
                y += GAP
            else:
                found[entry] = y
                y += self.high
        return found, y

    def _gaps(self, entries: Sequence[int | Gap], x: float, lines: bool) -> list[str]:
        y, parts = float(TOP), []
        for entry in entries:
            if isinstance(entry, int):
                y += self.high
                continue
            if entry.count:
                span = (
                    f"{entry.first * LINE:#x} to {entry.last * LINE + LINE - 1:#x}"
                    if lines
                    else f"{self.tile.axes[0]} {self._row_name(entry.first)} to {self._row_name(entry.last)}"
                )
                what = f"⋮ {entry.count} lines" if lines else "⋮"
                parts.append(text(x, y + 13, "s", f"{what} {'like those shown' if entry.alike else 'left out'}: {span}"))
            else:
                parts.append(text(x, y + 13, "s", "⋮"))
            y += GAP
        return parts

    def _title(self, cell: Cell) -> str:
        return f"<title>{html.escape(cell_title(self.tile, cell), quote=False)}</title>" if self.hover else ""

    # ---- the tile

    def _tile_cell(self, place: Place) -> list[str]:
        tile = self.tile
        x, y = self.left + self.wide * (place[1] - self.columns.start), self.row_y[place[0]]
        address = tile.chunk_address(place)
        inner = self._title(tile.cells[address // CHUNK * CHUNK])
        parts = [rect(x, y, self.wide, self.high, f"g k{place[1] % 8}", inner)]
        wrong = tile.wrong_at(place)
        held = tile.held
        if wrong and held:
            parts.append(hatch(x, y, self.wide, self.high))
            at = int(held.wrong[place].argmax())
            parts += [self._plate(x, y, f"{address:#x}", f"← {held.short(held.got_at(place, at))}")]
        else:
            parts.append(text(x + self.wide / 2, y + self.high / 2 + 4, "c m", f"{address:#x}"))
        return parts

    def _plate(self, x: float, y: float, upper: str, lower: str) -> str:
        """Two lines of text over hatching."""
        small = " n" if len(lower) > 8 else ""
        return text(x + self.wide / 2, y + 12.5, "c m edge", upper) + text(x + self.wide / 2, y + 26.5, f"w m edge{small}", lower)

    def tile_view(self) -> list[str]:
        """The tile: where every chunk is read."""
        tile, held = self.tile, self.tile.held
        rows, along = tile.axes
        left, width = self.left, self.wide * len(self.columns)
        parts = [text(left, TOP - 46, "b t", f"tile ({rows} ↓, {along} →): read where")]
        parts.append(text(left - 8, TOP - 8, "s r", rows))
        for column in self.columns:
            row, k = tile.first((0, column))
            if held:
                place = (0, column)
                row, k = int(held.row[place][0]), int(held.k[place][0])
            parts.append(
                text(left + self.wide * (column - self.columns.start) + self.wide / 2, TOP - 8, "s m", k if tile.major == "K" else row)
            )
        for row, y in self.row_y.items():
            parts.append(text(left - 8, y + self.high / 2 + 4, "s r", self._row_name(row)))
            for column in self.columns:
                parts += self._tile_cell((row, column))
        if len(self.columns) < tile.shape[1]:
            rest = tile.shape[1] - len(self.columns)
            parts.append(
                text(left + width, TOP - 24, "s r", f"chunk columns {self.columns.start} to {self.columns.stop - 1}; {rest} not shown")
            )
        return [*parts, *self._gaps(self.rows, left, lines=False), *self._atoms(), *self._instructions()]

    def _labels(self) -> tuple[str, str]:
        """Axes of the labels in shared memory."""
        return self.tile.held.axes if self.tile.held else ("row", "k")

    def _row_name(self, line: int) -> int:
        tile = self.tile
        if tile.held:
            return int((tile.held.row if tile.major == "K" else tile.held.k)[line, 0, 0])
        return line

    def _runs(self, of: int) -> list[tuple[int, float, float]]:
        """(group, top, bottom) of rows that stand together, `of` of them a group."""
        found: list[tuple[int, float, float]] = []
        previous = None
        for row, y in self.row_y.items():
            if previous is not None and row == previous + 1 and row // of == found[-1][0]:
                found[-1] = (row // of, found[-1][1], y + self.high)
            else:
                found.append((row // of, y, y + self.high))
            previous = row
        return found

    def _boxes(self, lines: int, columns: int) -> list[tuple[Place, float, float, float, float]]:
        """((group of lines, group of columns), x, y, width, height) of all groups, as far as they are shown."""
        found: list[tuple[Place, float, float, float, float]] = []
        for row, top, bottom in self._runs(lines):
            for column in range(self.columns.start // columns, -(-self.columns.stop // columns)):
                first, last = max(column * columns, self.columns.start), min((column + 1) * columns, self.columns.stop)
                found.append(
                    ((row, column), self.left + self.wide * (first - self.columns.start), top, self.wide * (last - first), bottom - top)
                )
        return found

    def _atoms(self) -> list[str]:
        mode = self.tile.mode
        lines = 8 if self.tile.major == "K" else mode.k_rows
        return [rect(x, y, w, h, "atom") for _, x, y, w, h in self._boxes(lines, mode.chunks)]

    def _instructions(self) -> list[str]:
        """What one MMA reads, the selected one thick."""
        tile, parts, labels = self.tile, [], {}
        for (row, column), x, y, w, h in self._boxes(tile.rows if tile.major == "K" else tile.k, tile.chunks_of_one):
            block, step = (row, column) if tile.major == "K" else (column, row)
            chosen = (block, step) == self.selected
            inset = 2.5 if chosen else 4.5
            parts.append(rect(x + inset, y + inset, w - 2 * inset, h - 2 * inset, "mma" if chosen else "mma one"))
            if column not in labels and y == TOP:
                labels[column] = text(x + w / 2, TOP - 23, "mmat m", f"K step {step}" if tile.major == "K" else f"block {block}")
        if len(self.columns) < tile.shape[1] or len(labels) == 1:
            labels = {}
        return [*parts, *labels.values()]

    # ---- shared memory

    def memory_view(self) -> list[str]:
        """Shared memory: what lies where."""
        tile, right = self.tile, self.right
        parts = [text(right, TOP - 46, "b t", "shared memory: what lies where, as " + ",".join(self._labels()))]
        for slot in range(LINE // CHUNK):
            x = right + self.wide * slot + self.wide / 2
            parts.append(text(x, TOP - 24, "s m", f"+{slot * CHUNK:#04x}"))
            first, last = BANKS.of(slot * CHUNK), BANKS.of(slot * CHUNK + CHUNK - 1)
            parts.append(text(x, TOP - 8, "n s m", f"b {first}-{last}"))
        end = right + self.wide * (LINE // CHUNK)
        if tile.mode.mask:
            parts += [text(end + 8, TOP - 24, "s", "line of"), text(end + 8, TOP - 8, "s", "pattern")]
        for line, y in self.line_y.items():
            parts.append(text(right - 8, y + self.high / 2 + 4, "s r", f"{line * LINE:#x}"))
            phase = (line - tile.descriptor.base_offset) % tile.atom_lines
            parts += [text(end + 8, y + self.high / 2 + 4, "s", phase)] if tile.mode.mask else []
            for slot, cell in enumerate(tile.lines[line]):
                parts += self._memory_cell(cell, right + self.wide * slot, y, line * LINE + slot * CHUNK)
        previous = None
        for line, y in self.line_y.items():
            if previous is None or line // tile.atom_lines != previous // tile.atom_lines:
                shown = [y2 for other, y2 in self.line_y.items() if other // tile.atom_lines == line // tile.atom_lines]
                parts.append(rect(right, y, self.wide * 8, max(shown) + self.high - y, "atom"))
            previous = line
        return [*parts, *self._gaps(self.lines, right, lines=True), *self._selected()]

    def _memory_cell(self, cell: Cell | None, x: float, y: float, address: int) -> list[str]:
        tile, held = self.tile, self.tile.held
        if cell is None:
            return [rect(x, y, self.wide, self.high, "g e", f"<title>{address:#x}: not read</title>" if self.hover else "")]
        inner = self._title(cell)
        middle = (x + self.wide / 2, y + self.high / 2 + 4)
        if not cell.readers and held and cell.home:
            there = rect(x, y, self.wide, self.high, "g e", inner) + rect(x + 2.5, y + 2.5, self.wide - 5, self.high - 5, "miss")
            return [there, text(*middle, "s m", self._label(cell))]
        place = cell.wrong[0] if cell.wrong else cell.readers[0]
        at = int(held.wrong[place].argmax()) if held else 0
        label = self._label(cell)
        fill = "x" if cell.home is None else f"k{cell.home[1] % 8}"
        head = f'<g data-address="{address}" data-readers="{" ".join(f"{r},{k}" for r, k in map(tile.first, cell.readers))}">'
        parts = [head, rect(x, y, self.wide, self.high, f"g {fill}", inner)]
        alias = len(cell.readers) > 1
        if cell.wrong and held:
            parts += [hatch(x, y, self.wide, self.high), self._plate(x, y, label, f"≠ {held.short(held.meant_at(place, at))}")]
        elif alias and held is None:
            parts += [hatch(x, y, self.wide, self.high), text(*middle, "c m edge", label)]
        else:
            parts.append(text(*middle, "xt m" if fill == "x" else "c m", label))
        return [*parts, "</g>"]

    def _selected(self) -> list[str]:
        """The outline of what the selected instruction reads."""
        tile, parts = self.tile, []
        mine = {c.address for c in tile.cells.values() if any(tile.instruction(p) == self.selected for p in c.readers)}
        inset = 2.5
        for address in sorted(mine):
            line, slot = address // LINE, address % LINE // CHUNK
            if line not in self.line_y:
                continue
            x0, y0 = self.right + self.wide * slot, self.line_y[line]
            x1, y1 = x0 + self.wide, y0 + self.high
            joined = (slot > 0 and address - CHUNK in mine, slot < 7 and address + CHUNK in mine,
                      address - LINE in mine and line - 1 in self.line_y, address + LINE in mine and line + 1 in self.line_y)  # fmt: skip
            a, b = x0 + (0 if joined[0] else inset), x1 - (0 if joined[1] else inset)
            c, d = y0 + (0 if joined[2] else inset), y1 - (0 if joined[3] else inset)
            edges = [f"M{a:g} {d:g}V{c:g}" * (not joined[0]), f"M{b:g} {c:g}V{d:g}" * (not joined[1]),
                     f"M{a:g} {c:g}H{b:g}" * (not joined[2]), f"M{a:g} {d:g}H{b:g}" * (not joined[3])]  # fmt: skip
            parts.append("".join(edges))
        return [f'<path class="mma" d="{"".join(parts)}"/>'] if parts else []

    # ---- the strides

    def stride_arrows(self) -> tuple[list[str], list[str]]:
        """SBO and LBO from the start, in both views, the shorter one inside; and what is not drawn, as sentences."""
        tile, notes = self.tile, []
        tall, parts = list[tuple[Stride, float, float]](), list[str]()
        for stride in sorted(tile.strides(), key=lambda s: s.bytes):
            if not stride.used:
                notes.append(f"{stride.name} {stride.bytes} B is not used by this operand")
            elif not {stride.begin // LINE, stride.end // LINE} <= set(self.line_y):
                notes.append(f"{stride.name} {stride.bytes} B leads to {stride.end:#x}")
            elif stride.begin // LINE == stride.end // LINE:
                y = self.line_y[stride.begin // LINE] + 4
                x0, x1 = (self.right + self.wide * (a % LINE // CHUNK + 0.5) for a in (stride.begin, stride.end))
                parts += [arrow([(x0, y), (x1, y)], stride.name)]
                notes.append(f"{stride.name} {stride.bytes} B stays in the line")
            else:
                y0, y1 = (self.line_y[a // LINE] + self.high / 2 for a in (stride.begin, stride.end))
                tall.append((stride, y0, y1))
            parts += self._tile_arrow(stride) if stride.used else []
        lowest = 0.0
        for number, (stride, y0, y1) in enumerate(tall):
            x, slot = self.right - self.gutter - 6 - 13 * number, stride.end % LINE // CHUNK
            parts.append(arrow([(self.right - self.gutter, y0), (x, y0), (x, y1), (self.right - self.gutter, y1)], stride.name))
            if slot:  # the line is there, the chunk further right in it
                parts.append(
                    f'<circle cx="{self.right + self.wide * slot + 7:g}" cy="{y1 - self.high / 2 + 7:g}" r="4" class="{stride.name}"/>'
                )
            lowest = max((y0 + y1) / 2, lowest + 30)
            side = self.right - self.gutter - 6 - 13 * (len(tall) - 1) - 6
            parts += [
                text(side, lowest - 2, f"{stride.name}t r", stride.name),
                text(side, lowest + 12, f"{stride.name}t r", f"{stride.bytes} B"),
            ]
        return parts, notes

    def _tile_arrow(self, stride: Stride) -> list[str]:
        """From the first chunk to the one that is read where the stride leads, beside the addresses in the cells."""
        tile = self.tile
        begin, end = (stride.begin // CHUNK * CHUNK, stride.end // CHUNK * CHUNK)
        place = next((p for p in tile.places() if tile.chunk_address(p) // CHUNK * CHUNK == end), None)
        if (
            place is None
            or place[0] not in self.row_y
            or place[1] not in self.columns
            or tile.chunk_address((0, 0)) != begin
            or 0 not in self.row_y
        ):
            return []
        x, x1 = (self.left + self.wide * (column - self.columns.start) + 7 for column in (0, place[1]))
        y, y1 = (self.row_y[row] + 5 for row in (0, place[0]))
        if place[0] == 0:
            y = y1 = y - 8  # above the line
        return [arrow([(x, y), (x1, y1)], stride.name)] if 0 in self.columns else []

    def draw(self, style: str | None) -> str:
        """The whole picture."""
        tile = self.tile
        arrows, notes = self.stride_arrows()
        width = max(self.right + self.wide * 8 + 72, MARGIN * 2 + 9.1 * len(tile.title), MARGIN * 2 + LETTER * len(tile.subtitle))
        legend, bottom = tile_legend(tile, list(self.line_y), self.selected, notes, (self.bottom, width))
        head = [text(MARGIN, 28, "t", tile.title), text(MARGIN, 49, "s", tile.subtitle)]
        if tile.held and tile.held.wrong.any():
            wrong, of = int(tile.held.wrong.sum()), int((tile.held.k >= 0).sum())
            head.append(text(width - MARGIN, 28, "b alarm r", f"{wrong:,} of {of:,} elements wrong"))
        return svg(width, bottom + 4, [*head, *self.tile_view(), *self.memory_view(), *arrows, *legend], tile.title, style)


def tile_svg(
    tile: TilePicture, *, selected: Place | None = None, most: int = MOST_LINES, style: str | None = None, hover: bool = True
) -> str:
    """An operand as SVG text, at most `most` 128-byte lines of it.

    `selected` is the (block, K step) whose reads are outlined in shared memory: that of the first wrong element, or the first one. Hovering a cell
    tells its address, banks, and what is read there, unless `hover` is false. Raises InputError for more chunks than a picture has. `style` "" leaves the style sheet out, for pages that have it.
    """
    if not isinstance(tile, TilePicture):
        raise InputError(f"tile = {shown(tile)}: needs a TilePicture, as TilePicture.of makes one of a descriptor")
    if tile.too_large:
        raise InputError(tile.too_large)
    most = whole("most", most, minimum=1, wanted="a number of 128-byte lines")
    if not (style is None or isinstance(style, str)):
        raise InputError(f"style = {shown(style)}: needs a style sheet's text")
    first = tile.instruction(tile.first_wrong) if tile.first_wrong else (0, 0)
    return _Picture(tile, first if selected is None else _place(tile, selected), most, flag("hover", hover)).draw(style)


def _place(tile: TilePicture, selected: Any) -> Place:
    """The (block, K step) that is asked for."""
    read = wholes("selected", selected, wanted="(block, K step)")
    blocks, steps = tile.words.shape
    if len(read) != 2 or not (0 <= read[0] < blocks and 0 <= read[1] < steps):
        raise InputError(f"selected = {shown(selected)}: needs (block, K step) from (0, 0) to ({blocks - 1}, {steps - 1})")
    return read[0], read[1]
