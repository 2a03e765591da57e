"""The picture of a tile as SVG."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from smemsim.arguments import flag, shown, whole, wholes
from smemsim.errors import InputError
from smemsim.layout.swizzle import swizzle
from smemsim.show.operand import COLOURS
from smemsim.show.tile import Cell, Gap, Place, Stride, TilePicture, shown_columns, shown_lines, shown_rows
from smemsim.spec.shared_memory import BANKS, CHUNK, LINE
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = [
    "LETTER",
    "MARGIN",
    "PROSE",
    "arrow",
    "atoms_svg",
    "cell_title",
    "hatch",
    "pattern_svg",
    "rect",
    "rules",
    "svg",
    "text",
    "tile_legend",
    "tile_svg",
]


# ---- Colours and small shapes of the pictures, light and dark, on the screen and in print


MARGIN = 18  # pixels beside everything
LETTER, PROSE = 6.7, 6.95  # pixels of a monospaced letter of 11 px; the same with room, of sentences that are wrapped

# class: (property, light, dark). Text on the eight pastels is dark in both.
PAINT = {
    "bg": ("fill", "#ffffff", "#0d1117"),
    "t": ("fill", "#1f2328", "#f0f6fc"),
    "s": ("fill", "#59636e", "#9ea7b3"),
    "c": ("fill", "#1f2328", "#1f2328"),
    "w": ("fill", "#a40e26", "#8b0820"),
    "alarm": ("fill", "#a40e26", "#ff9492"),
    "e": ("fill", "#f3f5f7", "#1c2129"),
    "x": ("fill", "#e3e6ea", "#b7bfc8"),
    "xt": ("fill", "#1f2328", "#1f2328"),
    "h": ("stroke", "#cf222e", "#b3121f"),
    "g": ("stroke", "#ffffff", "#0d1117"),
    "atom": ("stroke", "#59636e", "#c9d1d9"),
    "mma": ("stroke", "#6639ba", "#8250df"),
    "mmat": ("fill", "#6639ba", "#d2a8ff"),
    "mmad": ("fill", "#512a97", "#512a97"),
    "SBOd": ("fill", "#0d5323", "#0d5323"),
    "LBOd": ("fill", "#7a2e00", "#7a2e00"),
    "SBO": ("stroke", "#116329", "#2ea043"),
    "SBOt": ("fill", "#116329", "#56d364"),
    "LBO": ("stroke", "#953800", "#db6d28"),
    "LBOt": ("fill", "#953800", "#ffa657"),
    "miss": ("stroke", "#8c959f", "#8c959f"),
}
SHAPES = (
    "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px}"
    ".mmad,.SBOd,.LBOd{font-weight:600}.t{font-size:15px;font-weight:600}.s{font-size:11.5px}.b{font-size:13px;font-weight:600}.m{text-anchor:middle}.r{text-anchor:end}"
    ".n{font-size:9.5px}.h{stroke-width:1.4;fill:none;stroke-opacity:.5}.g{stroke-width:1}.atom{fill:none;stroke-width:1.6}.mma{fill:none;stroke-width:2.6}"
    ".one{stroke-width:1.3;stroke-dasharray:5 3}.SBO,.LBO{fill:none;stroke-width:2.2}.miss{fill:none;stroke-width:1.2;stroke-dasharray:3 2}"
    ".edge{paint-order:stroke;stroke-width:3.6px;stroke-linejoin:round;stroke:#ffffff}"
)


def rules() -> str:
    """The style sheet of the pictures, for everything inside class `smem`; `data-theme` on the page's root overrules the reader's preference."""

    def theme(at: int, prefix: str) -> str:
        of = [f"{prefix}.{name}{{{p}:{value[at]}}}" for name, (p, *value) in PAINT.items()]
        fills = [f"{prefix}.k{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS)]
        return "".join([*of, *fills])

    shapes = "".join(f"{_scoped(one)}}}" for one in SHAPES.split("}") if one)
    light, dark = theme(0, ".smem "), theme(1, ".smem ")
    forced = theme(0, ":root[data-theme=light] .smem ") + theme(1, ":root[data-theme=dark] .smem ")
    return f"{shapes}{light}@media (prefers-color-scheme:dark){{{dark}}}{forced}@media print{{{theme(0, ':root .smem.smem ')}}}"


def _scoped(rule: str) -> str:
    """A rule for what is inside class `smem`."""
    selectors, brace, body = rule.partition("{")
    return ",".join(f".smem {one}" for one in selectors.split(",")) + brace + body


def svg(width: float, height: float, parts: Sequence[str], label: str, style: str | None = None) -> str:
    """A whole picture; `style` "" where the page has the rules already."""
    w, h = math.ceil(width), math.ceil(height)
    css = rules() if style is None else style
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="smem" role="img" aria-label="{html.escape(label, quote=True)}" '
            f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">',
            *([f"<style>{css}</style>"] if css else []),
            f'<rect class="bg" width="{w}" height="{h}"/>',
            *parts,
            "</svg>",
        ]
    )


def text(x: float, y: float, classes: str, what: object) -> str:
    """A text, escaped."""
    return f'<text x="{x:g}" y="{y:g}" class="{classes}">{html.escape(str(what), quote=False)}</text>'


def rect(x: float, y: float, width: float, height: float, classes: str, inner: str = "") -> str:
    """A rectangle."""
    end = f">{inner}</rect>" if inner else "/>"
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{classes}"{end}'


def hatch(x: float, y: float, width: float, height: float) -> str:
    """Diagonal lines over a cell; no pattern, because ids of several pictures on a page would meet."""
    step, parts = 8, []
    for offset in range(step, int(width + height), step):
        x0, y0 = (offset, 0.0) if offset < width else (width, offset - width)
        x1, y1 = (0.0, float(offset)) if offset < height else (offset - height, height)
        parts.append(f"M{x + x0:g} {y + y0:g}L{x + x1:g} {y + y1:g}")
    return f'<path class="h" d="{"".join(parts)}"/>'


def arrow(points: Sequence[tuple[float, float]], classes: str) -> str:
    """A line with a head at its end and a dot at its beginning."""
    (x0, y0), (x1, y1) = points[-2:]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    back, side = 8, 4.5
    left, right = ((x1 - back * ux + s * side * uy, y1 - back * uy - s * side * ux) for s in (1, -1))
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    head = f"M{left[0]:.1f} {left[1]:.1f}L{x1:.1f} {y1:.1f}L{right[0]:.1f} {right[1]:.1f}"
    dot = f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3.2" class="{classes}t"/>'
    return f'<path class="{classes}" d="{line}{head}"/>{dot}'


# ---- What a pointer over 16 bytes of shared memory is told


def cell_title(tile: TilePicture, cell: Cell) -> str:
    """Everything about 16 bytes, as one sentence."""
    a = cell.address
    told = [f"{a:#x}: chunk {a % LINE // CHUNK} of line {a // LINE * LINE:#x}, banks {BANKS.of(a)} to {BANKS.of(a + CHUNK - 1)}"]
    held = tile.held
    if held is None:
        row, k = tile.first(cell.readers[0])
        told.append(f"row {row}, k {k}" + (f" and {len(cell.readers) - 1} more chunks" if len(cell.readers) > 1 else ""))
        return "; ".join(told)
    if not cell.readers:
        assert cell.home is not None
        return "; ".join([*told, f"holds {held.text(held.meant_at(cell.home))}, which is read elsewhere"])
    place = cell.wrong[0] if cell.wrong else cell.readers[0]
    block, step = tile.instruction(place)
    at = next((i for i, wrong in enumerate(held.wrong[place]) if wrong), 0)
    told.append(f"holds {held.text(held.got_at(place, at))}")
    told.append(f"read by block {block}, K step {step}" + (f", which meant {held.text(held.meant_at(place, at))}" if cell.wrong else ""))
    if len(cell.readers) > 1:
        told.append(f"{len(cell.readers)} chunks of the tile read it")
    if cell.wrong:
        lies = int(held.lies[place])
        told.append(f"in the end that lies at {lies:#x}" if lies >= 0 else "in the end that lies nowhere")
    writer = int(held.writer[place][at])
    if writer >= 0:
        told.append(f"written by step {held.issues[writer].step + 1}: {held.issues[writer].text}")
    return "; ".join(told)


# ---- What the colours and outlines of a tile's picture mean, of those that occur in it


def tile_legend(
    tile: TilePicture, lines: list[int], selected: Place, notes: list[str], place: tuple[float, float]
) -> tuple[list[str], float]:
    """Swatches and sentences for the shown `lines`, below `place` (y, width of the picture); and where they end."""
    parts = list[str]()
    x, y = float(MARGIN), place[0] + 20
    width = place[1]
    swatches: list[tuple[str, str, str]] = [(f"k{i}", str(i), "") for i in range(min(8, tile.shape[1]))]
    swatches[-1] = (swatches[-1][0], f"{len(swatches) - 1}  chunk column{' mod 8' if tile.shape[1] > 8 else ''} before swizzling", "")
    cells = [c for line, of in tile.lines.items() if line in lines for c in of]
    swatches.append(("e", "mma", f"block {selected[0]}, K step {selected[1]} reads it"))
    if any(c and c.wrong for c in cells):
        swatches.append(("k3", "hatch", "wrong: ← what arrives, ≠ what was meant"))
    if any(c and len(c.readers) > 1 for c in cells) and not tile.held:
        swatches.append(("k3", "hatch", "read for several chunks"))
    if any(c and c.readers and c.home is None for c in cells):
        swatches.append(("x", "", "no data of this tile"))
    if any(c and not c.readers for c in cells):
        swatches.append(("e", "miss", "meant, but read nowhere"))
    if any(c is None for c in cells):
        swatches.append(("e", "", "not read"))
    for fill, kind, says in swatches:
        words = says or kind
        if x + 24 + LETTER * len(words) > width - MARGIN:
            x, y = float(MARGIN), y + 21
        parts.append(rect(x, y, 15, 15, f"g {fill}"))
        if kind == "hatch":
            parts.append(hatch(x, y, 15, 15))
        elif kind in ("mma", "miss"):
            parts.append(rect(x + 1, y + 1, 13, 13, kind))
        parts.append(text(x + 20, y + 11.5, "s", words))
        x += 34 + LETTER * len(words)
    y += 36
    atom = f"grey outlines are swizzle atoms of {tile.atom_lines * LINE} B" + (f", 8 x {tile.mode.width} B" if tile.major == "K" else "")
    for line in textwrap.wrap("; ".join([atom, *notes, tile.grade]), int((width - 2 * MARGIN) / PROSE)):
        parts.append(text(MARGIN, y, "s", line))
        y += 17
    return parts, y


# ---- An operand as SVG: the tile with the address of each chunk, and beside it shared memory with what lies there


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


# ---- A whole tile as its swizzle atoms: in which order they lie in shared memory, where LBO and SBO lead, and what each instruction reads


ATOMS_TOP = 104
MOST_ATOMS = 1024
WIDEST, LEAST = 860, 34  # pixels of the tile, and of an atom


class _Atoms:
    """Atoms by their place in the tile, rows of M or N downward and K to the right."""

    def __init__(self, tile: TilePicture) -> None:
        self.tile = tile
        lines, chunks = (8 if tile.major == "K" else tile.mode.k_rows), tile.mode.chunks
        self.base: dict[Place, int] = {}
        self.whole: dict[Place, bool] = {}
        size = tile.atom_lines * LINE
        for line, column in tile.places():
            at = (line // lines, column // chunks)
            place = at if tile.major == "K" else (at[1], at[0])
            base = tile.chunk_address((line, column)) // size * size
            self.whole[place] = self.base.setdefault(place, base) == base and self.whole.get(place, True)
        along = chunks * tile.per_chunk
        self.rows, self.k = (lines, along) if tile.major == "K" else (along, lines)  # elements of an atom
        down, right = (max(p[i] for p in self.base) + 1 for i in (0, 1))
        subtiles = max(self.k // tile.k, 1)
        self.width = min(max(WIDEST / right, LEAST), 76.0 * subtiles if subtiles > 1 else 118.0)
        self.height = 52.0 if down <= 8 else 34.0 if down <= 16 else 26.0
        self.size = (down, right)

    def at(self, row: float, k: float) -> tuple[float, float]:
        """Where an element's corner is drawn."""
        return MARGIN + 54 + k / self.k * self.width, ATOMS_TOP + row / self.rows * self.height

    def box(self, place: Place) -> tuple[float, float, float, float]:
        """Of an atom: x, y, width, height."""
        x, y = self.at(place[0] * self.rows, place[1] * self.k)
        return x, y, self.width, self.height


def atoms_svg(tile: TilePicture, style: str | None = None) -> str:
    """A tile as SVG text: every swizzle atom with its number in shared memory, what the instructions read as outlines with the bytes that their start
    addresses are past the first, and LBO and SBO as arrows from the first atom. An atom that is not one piece has no number.
    Raises InputError for more atoms than a picture has.

    >>> tile = TilePicture.of(0x4000004000010000, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=[0, 32, 64, 96])
    >>> atoms_svg(tile).count("<title>atom"), "+96" in atoms_svg(tile)
    (8, True)
    """
    atoms = _Atoms(tile)
    if len(atoms.base) > MOST_ATOMS:
        raise InputError(f"{tile.name}: {len(atoms.base):,} swizzle atoms; a picture has at most {MOST_ATOMS:,}")
    ordered = {base: number for number, base in enumerate(sorted(set(atoms.base.values())))}
    rows, k = tile.held.axes if tile.held else ("M / N", "K")
    down, right = atoms.size
    parts = [text(MARGIN + 54, ATOMS_TOP - 28, "s", f"{k} →")]
    parts += [text(atoms.at(0, j * atoms.k)[0] + 3, ATOMS_TOP - 8, "s", j * atoms.k) for j in range(right)]
    parts += [text(MARGIN + 46, atoms.at(i * atoms.rows, 0)[1] + 14, "s r", i * atoms.rows) for i in range(down)]
    parts.append(text(MARGIN, ATOMS_TOP - 8, "s", f"{rows} ↓"))
    for place, base in atoms.base.items():
        x, y, width, height = atoms.box(place)
        number = ordered[base]
        parts.append(
            rect(
                x,
                y,
                width,
                height,
                f"g k{number % 8}",
                f"<title>atom {number}: {base:#x} to {base + tile.atom_lines * LINE - 1:#x}</title>",
            )
        )
        parts.append(text(x + 5, y + 13, "c", number if atoms.whole[place] else "·"))
    parts += _instructions(tile, atoms)
    strides, notes = _strides(tile, atoms)
    bottom = ATOMS_TOP + down * atoms.height
    used = ", ".join(f"{s.name} {s.bytes} B" for s in tile.strides() if s.used)
    words = [f"coloured boxes are swizzle atoms of {atoms.rows} x {atoms.k} elements, {tile.atom_lines * LINE} B, numbered as they lie in shared memory",
             "violet outlines are instructions, with what their start address adds to the first", used, *notes, tile.grade]  # fmt: skip
    width = max(
        MARGIN * 2 + 54 + right * atoms.width + 100, MARGIN * 2 + 9.1 * len(tile.title), MARGIN * 2 + PROSE * len(tile.subtitle), 560
    )
    wrapped = textwrap.wrap("; ".join(w for w in words if w), int((width - 2 * MARGIN) / PROSE))
    foot = [text(MARGIN, bottom + 26 + 17 * i, "s", line) for i, line in enumerate(wrapped)]
    head = [text(MARGIN, 28, "t", tile.title), text(MARGIN, 49, "s", tile.subtitle)]
    return svg(width, bottom + 26 + 17 * len(wrapped), [*head, *parts, *strides, *foot], tile.title, style)


def _instructions(tile: TilePicture, atoms: _Atoms) -> list[str]:
    """Outlines, and how far each start is past the first."""
    parts = []
    blocks, steps = tile.words.shape
    for block in range(blocks):
        for step in range(steps):
            (x, y), (x1, y1) = atoms.at(block * tile.rows, step * tile.k), atoms.at((block + 1) * tile.rows, (step + 1) * tile.k)
            parts.append(rect(x + 2, y + 2, x1 - x - 4, y1 - y - 4, "mma"))
            if blocks * steps > 1:
                past = tile.start((block, step)) - tile.start((0, 0))
                parts.append(text((x + x1) / 2, y1 - 8, "mmad m edge", f"{past:+,}" if past else "start"))
    return parts


def _strides(tile: TilePicture, atoms: _Atoms) -> tuple[list[str], list[str]]:
    """Arrows from the middle of the first atom to that of the one in which the stride ends; and what is not used."""
    size = tile.atom_lines * LINE
    parts, notes = [], []
    for number, stride in enumerate(tile.strides()):
        if not stride.used:
            notes.append(f"{stride.name} {stride.bytes} B is not used by this operand")
            continue
        target = next((place for place, base in atoms.base.items() if base == stride.end // size * size), None)
        if target is None or target == (0, 0):
            notes.append(f"{stride.name} {stride.bytes} B leads to {stride.end:#x}")
            continue
        shift = 12 * number
        (x0, y0, width, height), (x1, y1, _, _) = atoms.box((0, 0)), atoms.box(target)
        begin, end = (
            (x0 + width * 0.42 + shift, y0 + height * 0.5),
            (x1 + width * 0.42 + (shift if target[1] == 0 else 0), y1 + height * 0.5),
        )
        parts.append(arrow([begin, end], stride.name))
        label = (end[0] + 9, (begin[1] + end[1]) / 2 + 7) if target[1] == 0 else ((begin[0] + end[0]) / 2, begin[1] - 7)
        parts.append(text(*label, f"{stride.name}d edge" + ("" if target[1] == 0 else " m"), f"{stride.name} {stride.bytes} B"))
    return parts, notes


# ---- The swizzle patterns themselves: which 16-byte chunk of a 128-byte line lies in which group of four banks


PATTERN_TOP, CELL, LINES = 92, 34, 8
SHOWN = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)


def pattern_svg(modes: tuple[Swizzle, ...] = SHOWN, style: str | None = None) -> str:
    """Eight 128-byte lines under each mode as SVG text: a cell has the number of the chunk that lies there, counted before swizzling.

    >>> pattern_svg().count("<title>")
    256
    """
    parts, slots = [], LINE // CHUNK
    wide = CELL * slots + 62
    for number, name in enumerate(modes):
        mode = MODES[name]
        left = MARGIN + 44 + number * wide
        repeats = f"repeats after {mode.period} B" if mode.mask else "no permutation"
        parts += [text(left, PATTERN_TOP - 40, "b t", f"swizzle {name}"), text(left + CELL * slots, PATTERN_TOP - 40, "s r", repeats)]
        for slot in range(slots):
            parts.append(text(left + CELL * slot + 3, PATTERN_TOP - 8, "n s", BANKS.of(slot * CHUNK)))
        parts.append(text(left - 7, PATTERN_TOP - 8, "n s r", "bank"))
        for line in range(LINES):
            y = PATTERN_TOP + 24 * line
            parts.append(text(left - 7, y + 16, "s r", f"{line * LINE:#05x}"))
            for chunk in range(slots):
                address = swizzle(line * LINE + chunk * CHUNK, 0, mode.mask, mode.shift)
                x = left + CELL * (address % LINE // CHUNK)
                where = f"<title>line {line}, chunk {chunk} before swizzling: {address:#x}</title>"
                parts += [rect(x, y, CELL, 24, f"g k{chunk}", where), text(x + CELL / 2, y + 16, "c m", chunk)]
        if mode.mask:
            for first in range(0, LINES, mode.mask + 1):
                parts.append(rect(left, PATTERN_TOP + 24 * first, CELL * slots, 24 * (mode.mask + 1), "atom"))
    height = PATTERN_TOP + 24 * LINES
    note = "lines of 128 B downward, 16-byte chunks to the right; a cell has the number of its chunk before swizzling; outlines repeat"
    head = [text(MARGIN, 28, "t", "Swizzle patterns on shared addresses")]
    return svg(
        MARGIN + len(modes) * wide + 12, height + 40, [*head, *parts, text(MARGIN, height + 26, "s", note)], "swizzle patterns", style
    )
