"""SVG: pictures for notebooks, pages and paper, light and dark."""

from __future__ import annotations

import html
import itertools
import math
import textwrap
from collections.abc import Sequence

from smemsim.core.picture.model import COLOURS, EMPTY, OUTSIDE, STRAY, Cell, Grid, Mark, Outline, Picture, Row, Stride, Strip, colour

__all__ = ["arrow", "boxes_svg", "grids_svg", "hatch", "rect", "rules", "strips_svg", "svg", "text"]


# ---- Colours and small shapes of the pictures, light and dark, on the screen and in print


MARGIN = 18  # pixels beside everything
LETTER, PROSE = 6.7, 6.95  # pixels of a monospaced letter of 11 px; the same with room, of sentences that are wrapped
HEAD = 7.75  # ... of the title of a grid

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
    "hk": ("stroke", "#cf222e", "#ff9492"),  # hatching over an empty cell
    "g": ("stroke", "#ffffff", "#0d1117"),
    "atom": ("stroke", "#59636e", "#c9d1d9"),
    "mma": ("stroke", "#6639ba", "#8250df"),
    "mmat": ("fill", "#6639ba", "#d2a8ff"),
    "mmad": ("fill", "#512a97", "#512a97"),
    "SBOd": ("fill", "#0d5323", "#56d364"),
    "LBOd": ("fill", "#7a2e00", "#ffa657"),
    "SBO": ("stroke", "#116329", "#2ea043"),
    "SBOt": ("fill", "#116329", "#56d364"),
    "LBO": ("stroke", "#953800", "#db6d28"),
    "LBOt": ("fill", "#953800", "#ffa657"),
    "miss": ("stroke", "#8c959f", "#8c959f"),
    "dep": ("stroke", "#6e7781", "#9ea7b3"),  # an arrow of a dependence
    "late": ("stroke", "#cf222e", "#ff7b72"),  # the same, if it comes too late
    "o": ("fill", "#f3f5f7", "#1c2129"),
    "oh": ("stroke", "#c4ccd4", "#4a525c"),
}
SHAPES = (
    "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px}"
    ".mmad,.SBOd,.LBOd{font-weight:600}.t{font-size:15px;font-weight:600}.s{font-size:11.5px}.b{font-size:13px;font-weight:600}.m{text-anchor:middle}.r{text-anchor:end}"
    ".n{font-size:9.5px}.h,.hk,.oh{stroke-width:1.4;fill:none;stroke-opacity:.5}.g{stroke-width:1}.atom{fill:none;stroke-width:1.6}.mma{fill:none;stroke-width:2.6}"
    ".one{stroke-width:1.3;stroke-dasharray:5 3}.SBO,.LBO{fill:none;stroke-width:2.2}.miss{fill:none;stroke-width:1.2;stroke-dasharray:3 2}"
    ".dep{fill:none;stroke-width:1}.late{fill:none;stroke-width:1.8}"
    ".edge{paint-order:stroke;stroke-width:3.6px;stroke-linejoin:round;stroke:#ffffff}"
)


def rules() -> str:
    """The style sheet of the pictures, for everything inside class `smem`; `data-theme` on the page's root overrules
    the reader's preference.
    """

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


def hatch(x: float, y: float, width: float, height: float, classes: str = "h") -> str:
    """Diagonal lines over a cell; no pattern, because ids of several pictures on a page would meet."""
    step, parts = 8, []
    for offset in range(step, int(width + height), step):
        x0, y0 = (offset, 0.0) if offset < width else (width, offset - width)
        x1, y1 = (0.0, float(offset)) if offset < height else (offset - height, height)
        parts.append(f"M{x + x0:g} {y + y0:g}L{x + x1:g} {y + y1:g}")
    return f'<path class="{classes}" d="{"".join(parts)}"/>'


def arrow(points: Sequence[tuple[float, float]], classes: str, dot_class: str = "") -> str:
    """A line with a head at its end and a dot at its beginning."""
    (x0, y0), (x1, y1) = points[-2:]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    back, side = 8, 4.5
    left, right = ((x1 - back * ux + s * side * uy, y1 - back * uy - s * side * ux) for s in (1, -1))
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    head = f"M{left[0]:.1f} {left[1]:.1f}L{x1:.1f} {y1:.1f}L{right[0]:.1f} {right[1]:.1f}"
    dot = f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3.2" class="{dot_class or f"{classes}t"}"/>'
    return f'<path class="{classes}" d="{line}{head}"/>{dot}'


# ---- What every picture has: its head, and below it what the colours, marks and outlines mean


def _head(picture: Picture, width: float) -> list[str]:
    lines = [text(MARGIN, 28, "t", picture.title)]
    lines += [text(MARGIN, 49 + 18 * i, "s", line) for i, line in enumerate(picture.subtitles)]
    return [*lines, text(width - MARGIN, 28, "b alarm r", picture.alarm)] if picture.alarm else lines


def _least_width(picture: Picture) -> float:
    """Pixels that the head needs."""
    title = 2 * MARGIN + 9.1 * (len(picture.title) + len(picture.alarm))
    return max([title, *(2 * MARGIN + PROSE * len(line) for line in picture.subtitles)])


def _swatches(picture: Picture) -> list[tuple[str, Mark | None, str]]:
    """(fill, mark, words) of the legend."""
    return [(colour(i), None, says) for i, says in enumerate(picture.colours)] + [
        (entry.fill, entry.mark, f"{entry.says}: {entry.below}" if entry.below else entry.says) for entry in picture.legend
    ]


def _legend(picture: Picture, y: float, width: float, sentences: Sequence[str]) -> tuple[list[str], float]:
    """Swatches, and below them sentences; and where they end."""
    parts, x = list[str](), float(MARGIN)
    for fill, mark, words in _swatches(picture):
        if x + 24 + LETTER * len(words) > width - MARGIN:
            x, y = float(MARGIN), y + 21
        parts.append(rect(x, y, 15, 15, f"g {fill}"))
        if mark in (Mark.WRONG, Mark.SHARED):
            parts.append(hatch(x, y, 15, 15))
        elif fill == OUTSIDE:
            parts.append(hatch(x, y, 15, 15, "oh"))
        elif mark in (Mark.CHOSEN, Mark.MISSED):
            parts.append(rect(x + 1, y + 1, 13, 13, "mma" if mark is Mark.CHOSEN else "miss"))
        parts.append(text(x + 20, y + 11.5, "s", words))
        x += 34 + LETTER * len(words)
    y += 36 if parts else 6
    for line in textwrap.wrap("; ".join(filter(None, sentences)), int((width - 2 * MARGIN) / PROSE)):
        parts.append(text(MARGIN, y, "s", line))
        y += 17
    return parts, y


# ---- Grids beside each other: cells with their rows and columns, outlines, and strides as arrows


GAP, SMALL = 20, 5.8  # pixels of rows that are left out; of a letter of a second line
NARROWEST, NARROW = 58.0, 34.0  # pixels of a cell; with one short word above it
BESIDE, ARROWS = 24, 84  # pixels between two grids; with strides between them


class _Layout:
    """The places of the grids of a picture, and of their rows and columns."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        titled = any(grid.title for grid in picture.grids)
        self.top = (126.0 if titled else 88.0) + 18 * (max(len(picture.subtitles), 1) - 1)
        cells = [cell for grid in picture.grids for _, _, cell in grid.cells()]
        self.high = 32 if any(cell.below for cell in cells) else 21
        widths = ((LETTER * len(cell.label) + 8, SMALL * len(cell.below) + 6) for cell in cells)
        heads = [head for grid in picture.grids for head in grid.heads]
        least = NARROWEST if any(len(head) > 1 for head in heads) else max(NARROW, *(LETTER * len(head[0]) + 8 for head in heads))
        self.wide = max(least, *itertools.chain.from_iterable(widths))
        self.gutters = [16 + LETTER * max((len(row.label) for row in grid.shown), default=0) for grid in picture.grids]
        self.left = list[float]()
        x = float(MARGIN) + (ARROWS if picture.strides and len(picture.grids) == 1 else 0)
        for grid, gutter in zip(picture.grids, self.gutters, strict=True):
            self.left.append(x + (max(gutter, 44) if grid is not picture.grids[-1] else gutter))
            x = self.left[-1] + max(self.wide * len(grid.heads), HEAD * len(grid.title), 226) + (ARROWS if picture.strides else BESIDE)
        self.rows = [self._rows(grid) for grid in picture.grids]
        self.bottom = max(bottom for _, bottom in self.rows)
        last = picture.grids[-1]
        self.right = self.left[-1] + max(self.wide * len(last.heads) + (72 if last.after else MARGIN), HEAD * len(last.title) + MARGIN)

    def _rows(self, grid: Grid) -> tuple[dict[int, float], float]:
        """The places at which rows begin, by their number, and the end of the grid."""
        y, tops = self.top, dict[int, float]()
        for entry in grid.rows:
            if isinstance(entry, Row):
                tops[entry.number] = y
            y += self.high if isinstance(entry, Row) else GAP
        return tops, y

    def corner(self, grid: int, row: Row, column: int) -> tuple[float, float]:
        """The place in the SVG at which a cell begins."""
        return self.left[grid] + self.wide * column, self.rows[grid][0][row.number]


def grids_svg(picture: Picture, style: str | None = None, *, hover: bool = True) -> str:
    """A picture of grids as SVG text. `style` "" leaves out the style sheet, for pages that have it. Without `hover`
    cells have no text for a pointer.
    """
    at = _Layout(picture)
    arrows, undrawn = _strides(picture, at)
    width = max(at.right, _least_width(picture))
    legend, bottom = _legend(picture, at.bottom + 20, width, [picture.outlined, *undrawn, *picture.notes, picture.evidence])
    grids = [part for number in range(len(picture.grids)) for part in _grid(at, number, hover)]
    return svg(width, bottom + 4, [*_head(picture, width), *grids, *arrows, *legend], picture.title, style)


def _grid(at: _Layout, number: int, hover: bool) -> list[str]:
    """A grid: heads, rows, gaps, outlines."""
    grid, left = at.picture.grids[number], at.left[number]
    parts = _heads(at, number)
    for row in grid.shown:
        y = at.rows[number][0][row.number]
        parts.append(text(left - 8, y + at.high / 2 + 4, "s r", row.label))
        parts += [text(left + at.wide * len(grid.heads) + 8, y + at.high / 2 + 4, "s", row.after)] if row.after else []
        for column, cell in enumerate(row.cells):
            parts += _cell(cell, left + at.wide * column, y, at.wide, at.high, hover)
    if grid.note:
        parts.append(text(left + at.wide * len(grid.heads), at.top - 40, "s r", grid.note))
    y = at.top
    for entry in grid.rows:
        if not isinstance(entry, Row):
            parts.append(text(left, y + 13, "s", f"⋮ {entry.says}".rstrip()))
        y += at.high if isinstance(entry, Row) else GAP
    for outline in grid.outlines:
        parts += _outline(at, number, outline)
    return [*parts, *(text(*place, "mmat m", label) for place, label in _labels(at, number)), *_chosen(at, number)]


def _heads(at: _Layout, number: int) -> list[str]:
    grid, left, top = at.picture.grids[number], at.left[number], at.top
    parts = [text(left, top - 46, "b t", grid.title)] if grid.title else []
    parts += [text(left - 8, top - 8, "s r", grid.corner)] if grid.corner else []
    for column, (first, *rest) in enumerate(grid.heads):
        x = left + at.wide * column + at.wide / 2
        parts.append(text(x, top - 24 if rest else top - 8, "s m", first))
        parts += [text(x, top - 8, "n s m", second) for second in rest]
    end = left + at.wide * len(grid.heads)
    return parts + [text(end + 8, top - 24 + 16 * i, "s", line) for i, line in enumerate(grid.after)]


def _cell(cell: Cell, x: float, y: float, wide: float, high: float, hover: bool) -> list[str]:
    inner = f"<title>{html.escape(cell.hint, quote=False)}</title>" if hover else ""
    parts, middle = [rect(x, y, wide, high, f"g {cell.fill}", inner)], (x + wide / 2, y + high / 2 + 4)
    if Mark.MISSED in cell.marks:
        parts += [rect(x + 2.5, y + 2.5, wide - 5, high - 5, "miss"), text(*middle, "s m", cell.label)]
    elif Mark.WRONG in cell.marks:
        small = " n" if len(cell.below) > 8 else ""
        plate = text(middle[0], y + 12.5 if cell.below else middle[1], "c m edge", cell.label)
        plate += text(middle[0], y + 26.5, f"w m edge{small}", cell.below) if cell.below else ""
        parts += [hatch(x, y, wide, high), plate]
    elif Mark.SHARED in cell.marks:
        parts += [hatch(x, y, wide, high), text(*middle, "c m edge", cell.label)]
    elif cell.fill == OUTSIDE:
        parts += [hatch(x, y, wide, high, "oh"), text(*middle, "s m", cell.label)]
    elif cell.label:
        parts.append(text(*middle, "xt m" if cell.fill == STRAY else "s m" if cell.fill == EMPTY else "c m", cell.label))
    if not cell.data:
        return parts
    names = "".join(f' data-{name}="{html.escape(value, quote=True)}"' for name, value in cell.data.items())
    return [f"<g{names}>", *parts, "</g>"]


def _runs(rows: dict[int, float], high: float, outline: Outline) -> list[tuple[float, float]]:
    """(top, bottom) of rows of an outline that stand together."""
    runs, previous = list[tuple[float, float]](), None
    for number, y in rows.items():
        if not outline.top <= number < outline.bottom:
            continue
        joined = previous is not None and number == previous + 1 and runs
        runs[-1:] = [(runs[-1][0], y + high)] if joined else [*runs[-1:], (y, y + high)]
        previous = number
    return runs


def _outline(at: _Layout, number: int, outline: Outline) -> list[str]:
    x, width = at.left[number] + at.wide * outline.left, at.wide * (outline.right - outline.left)
    inset = {"mma": 2.5, "mma one": 4.5}.get(outline.kind, 0)
    runs = _runs(at.rows[number][0], at.high, outline)
    return [rect(x + inset, y + inset, width - 2 * inset, y1 - y - 2 * inset, outline.kind) for y, y1 in runs]


def _labels(at: _Layout, number: int) -> list[tuple[tuple[float, float], str]]:
    """The labels above outlines with their places, one for each column."""
    labels = dict[float, tuple[tuple[float, float], str]]()
    for outline in at.picture.grids[number].outlines:
        if outline.label and any(y == at.top for y, _ in _runs(at.rows[number][0], at.high, outline)):
            x = at.left[number] + at.wide * (outline.left + outline.right) / 2
            labels.setdefault(x, ((x, at.top - 23), outline.label))
    return list(labels.values())


def _chosen(at: _Layout, number: int) -> list[str]:
    """One line around all cells that are chosen."""
    grid, inset, edges = at.picture.grids[number], 2.5, ""
    mine = {(row.number, column) for row, column, cell in grid.cells() if Mark.CHOSEN in cell.marks}
    for row, column in sorted(mine):
        x0, y0 = at.left[number] + at.wide * column, at.rows[number][0][row]
        x1, y1 = x0 + at.wide, y0 + at.high
        joined = (row, column - 1) in mine, (row, column + 1) in mine, (row - 1, column) in mine, (row + 1, column) in mine
        a, b = x0 + (0 if joined[0] else inset), x1 - (0 if joined[1] else inset)
        c, d = y0 + (0 if joined[2] else inset), y1 - (0 if joined[3] else inset)
        lines = (f"M{a:g} {d:g}V{c:g}", f"M{b:g} {c:g}V{d:g}", f"M{a:g} {c:g}H{b:g}", f"M{a:g} {d:g}H{b:g}")
        edges += "".join(line for line, inside in zip(lines, joined, strict=True) if not inside)
    return [f'<path class="mma" d="{edges}"/>'] if edges else []


# ---- Strides: in the last grid beside the addresses, the shorter one inside; in the others from cell to cell


def _strides(picture: Picture, at: _Layout) -> tuple[list[str], list[str]]:
    """The arrows, and what is not drawn, as sentences."""
    notes, tall, parts = list[str](), list[tuple[Stride, float, float]](), list[str]()
    memory, last = picture.grids[-1], len(picture.grids) - 1
    for stride in sorted(picture.strides, key=lambda s: s.bytes):
        begin, end = memory.place(stride.begin), memory.place(stride.end)
        if not stride.used:
            notes.append(f"{stride.name} {stride.bytes} B is not used by this operand")
            continue
        if begin is None or end is None:
            notes.append(f"{stride.name} {stride.bytes} B leads to {stride.end:#x}")
        elif begin[0] is end[0]:
            y = at.rows[last][0][begin[0].number] + 4
            parts.append(arrow([(at.left[last] + at.wide * (place[1] + 0.5), y) for place in (begin, end)], stride.name))
            notes.append(f"{stride.name} {stride.bytes} B stays in the line")
        else:
            y0, y1 = (at.rows[last][0][place[0].number] + at.high / 2 for place in (begin, end))
            tall.append((stride, y0, y1))
        parts += [part for number in range(last) for part in _across(at, number, stride)]
    return parts + _brackets(at, memory, tall), notes


def _brackets(at: _Layout, memory: Grid, tall: Sequence[tuple[Stride, float, float]]) -> list[str]:
    """Strides that lead to another line, next to the addresses, with their names."""
    parts, lowest, left = list[str](), 0.0, at.left[-1]
    edge = left - at.gutters[-1]
    for number, (stride, y0, y1) in enumerate(tall):
        x, end = edge - 6 - 13 * number, memory.place(stride.end)
        parts.append(arrow([(edge, y0), (x, y0), (x, y1), (edge, y1)], stride.name))
        if end is not None and end[1]:  # the line is there, the cell further right in it
            parts.append(f'<circle cx="{left + at.wide * end[1] + 7:g}" cy="{y1 - at.high / 2 + 7:g}" r="4" class="{stride.name}"/>')
        lowest = max((y0 + y1) / 2, lowest + 30)
        side = edge - 6 - 13 * (len(tall) - 1) - 6
        parts += [
            text(side, lowest - 2, f"{stride.name}t r", stride.name),
            text(side, lowest + 12, f"{stride.name}t r", f"{stride.bytes} B"),
        ]
    return parts


def _across(at: _Layout, number: int, stride: Stride) -> list[str]:
    """An arrow from a grid's first cell to the one to which the stride leads, next to the text of the cells."""
    grid = at.picture.grids[number]
    end, first = grid.place(stride.end), next(grid.cells(), None)
    if end is None or first is None or first[0].number or not first[2].holds(stride.begin):
        return []
    (x, y), (x1, y1) = at.corner(number, *first[:2]), at.corner(number, *end[:2])
    y, y1 = (y + 5, y1 + 5) if end[0] is not first[0] else (y - 3, y - 3)  # above the line
    return [arrow([(x + 7, y), (x1 + 7, y1)], stride.name)]


# ---- Boxes: one grid whose cells touch as on a map, with labelled outlines and arrows from box to box


BOXES_TOP, BOXES_LEFT, BOXES_LINE = 104, MARGIN + 54, 20  # pixels; the last is for a stride above the boxes
WIDEST, LEAST = 860, 34  # pixels of all boxes beside each other, and of one


def boxes_svg(picture: Picture, style: str | None = None) -> str:
    """A picture of one grid as SVG text: a number in the corner of each cell, labels inside outlines, strides from the
    middle of cells.
    """
    [grid] = picture.grids
    columns, rows = len(grid.heads), len(grid.shown)
    divided = max((len(grid.outlines) and 1 / (outline.right - outline.left) for outline in grid.outlines), default=1)
    wide = min(max(WIDEST / columns, LEAST), 76.0 * divided if divided > 1 else 118.0)
    high = 52.0 if rows <= 8 else 34.0 if rows <= 16 else 26.0

    strides, notes, above = _box_strides(picture, grid, wide, high)
    top = BOXES_TOP + above

    def at(row: float, column: float) -> tuple[float, float]:
        return BOXES_LEFT + column * wide, top + row * high

    parts = [text(BOXES_LEFT, BOXES_TOP - 28, "s", grid.title)]
    parts += [text(at(0, i)[0] + 3, top - 8, "s", head[0]) for i, head in enumerate(grid.heads)]
    parts += [text(BOXES_LEFT - 8, at(row.number, 0)[1] + 14, "s r", row.label) for row in grid.shown]
    parts.append(text(MARGIN, top - 8, "s", grid.corner))
    for row, column, cell in grid.cells():
        x, y = at(row.number, column)
        parts += [
            rect(x, y, wide, high, f"g {cell.fill}", f"<title>{html.escape(cell.hint, quote=False)}</title>"),
            text(x + 5, y + 13, "c", cell.label),
        ]
    for o in grid.outlines:
        (x, y), (x1, y1) = at(o.top, o.left), at(o.bottom, o.right)
        parts.append(rect(x + 2, y + 2, x1 - x - 4, y1 - y - 4, o.kind))
        parts += [text((x + x1) / 2, y1 - 8, "mmad m edge", o.label)] if o.label else []
    used = ", ".join(f"{s.name} {s.bytes} B" for s in picture.strides if s.used)
    width = max(BOXES_LEFT + columns * wide + 118, _least_width(picture), 560)
    foot, bottom = _legend(picture, top + rows * high + 20, width, [picture.outlined, used, *notes, *picture.notes, picture.evidence])
    return svg(width, bottom, [*_head(picture, width), *parts, *strides, *foot], picture.title, style)


def _box_strides(picture: Picture, grid: Grid, wide: float, high: float) -> tuple[list[str], list[str], int]:
    """Arrows from the first cell to the cell in which a stride ends, next to the boxes. Also the strides that are not
    drawn, and the room above the boxes.
    """
    drawn, notes = list[tuple[Stride, int, int]](), list[str]()
    for stride in picture.strides:
        place = grid.place(stride.end)
        if not stride.used:
            notes.append(f"{stride.name} {stride.bytes} B is not used by this operand")
        elif place is None or (place[0].number, place[1]) == (0, 0):
            notes.append(f"{stride.name} {stride.bytes} B leads to {stride.end:#x}")
        else:
            drawn.append((stride, place[0].number, place[1]))
    parts, right = list[str](), BOXES_LEFT + len(grid.heads) * wide
    above = BOXES_LINE * sum(row == 0 for _, row, _ in drawn)
    top, line, beside = BOXES_TOP + above, BOXES_TOP - 12, right + 10
    for stride, row, column in drawn:
        x0, y0, x1, y1 = BOXES_LEFT + wide / 2, top + high / 2, BOXES_LEFT + wide * (column + 0.5), top + high * (row + 0.5)
        name = f"{stride.name} {stride.bytes} B"
        if row == 0:
            parts += [arrow([(x0, line), (x1, line)], stride.name), text(x1 + 8, line + 4, f"{stride.name}d", name)]
            line += BOXES_LINE
        elif column == 0:
            parts += [arrow([(beside, y0), (beside, y1)], stride.name), text(beside + 8, (y0 + y1) / 2 + 4, f"{stride.name}d", name)]
            beside += 12
        else:
            parts += [arrow([(x0, y0), (x1, y1)], stride.name), text(beside + 8, y1 + 4, f"{stride.name}d", name)]
    return parts, notes, above


# ---- Strips beside each other, from the top downward


STRIP_WIDTH, STRIP_HEIGHT, STRIP_TOP = 300, 512, 118


def strips_svg(picture: Picture, style: str | None = None) -> str:
    """A picture of strips as SVG text. Hovering a band shows its content."""
    parts, left = list[str](), MARGIN + 76
    for number, strip in enumerate(picture.strips):
        parts += _strip(strip, left + number * (STRIP_WIDTH + 40), ruled=not number)
    bottom = STRIP_TOP + STRIP_HEIGHT
    width = max(left + len(picture.strips) * (STRIP_WIDTH + 40), _least_width(picture), 560)
    legend, end = _legend(picture, bottom + 20, width, [picture.outlined, *picture.notes, picture.evidence])
    return svg(width, end, [*_head(picture, width), *parts, *legend], picture.title, style)


def _strip(strip: Strip, x: float, *, ruled: bool) -> list[str]:
    """A strip with its bands; `ruled` with its ticks and names."""
    scale = STRIP_HEIGHT / (strip.end - strip.begin)
    parts = [rect(x, STRIP_TOP, STRIP_WIDTH, STRIP_HEIGHT, "g e"), text(x + STRIP_WIDTH / 2, STRIP_TOP - 28, "b t m", strip.title)]
    parts += [text(x, STRIP_TOP - 8, "s", strip.across[0]), text(x + STRIP_WIDTH, STRIP_TOP - 8, "s r", strip.across[1])]
    if ruled:
        parts.append(text(x - 8, STRIP_TOP - 14, "s r", strip.subtitle))
        for at, tick in strip.ticks:
            parts.append(text(x - 8, STRIP_TOP + (at - strip.begin) * scale + 4, "s r", tick))
        for at, name in strip.names:
            parts.append(text(x - 42, STRIP_TOP + (at - strip.begin) * scale + 4, "s r", name))
    for band in strip.bands:
        y, height = STRIP_TOP + (band.begin - strip.begin) * scale, (band.end - band.begin) * scale
        parts.append(rect(x, y, STRIP_WIDTH, height, f"g {band.fill}", f"<title>{html.escape(band.hint, quote=False)}</title>"))
        parts.append(text(x + STRIP_WIDTH / 2, y + height / 2 + 5, "c m", band.label))
    return parts
