"""Transfers as SVG, in the look of the operand pictures: 8 chunks a line, a pastel for each row of the box, the address beside each line."""

from __future__ import annotations

import html
from collections.abc import Sequence

from smemsim.show.operand import COLOURS
from smemsim.show.paint import LETTER
from smemsim.show.svg import CELL_HEIGHT, CELL_WIDTH, LEFT, MARGIN, MOST_LINES
from smemsim.show.transfer import Cell, TransferMap
from smemsim.spec.shared_memory import CHUNK, LINE

__all__ = ["transfer_svg"]

TOP = 96
_STYLE = (
    "<style>text{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f}.t{font-size:14px;font-weight:600}"
    ".s{font-size:12px;fill:#57606a}.h{font-size:11px;text-anchor:middle;fill:#57606a}.a{font-size:11px;text-anchor:end;fill:#57606a}"
    ".c{font-size:11px;text-anchor:middle}.o{font-size:11px;text-anchor:middle;fill:#6e7781}.g{font-size:11px;fill:#57606a}"
    "rect{stroke:#ffffff;stroke-width:1}.e{fill:#f6f8fa}</style>"
    '<defs><pattern id="out" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f6f8fa"/><rect width="1.5" height="6" fill="#c4ccd4"/></pattern></defs>'
)


def _cell(picture: TransferMap, cell: Cell | None, dims: Sequence[int], box: tuple[int, int, int], address: int) -> str:
    x, y, width = box
    frame = f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}"'
    if cell is None:
        return f'{frame} class="e"><title>{address:#x}: untouched</title></rect>'
    t = picture.transfer
    place = ", ".join(map(str, cell.coordinates)) + (f", {cell.into} bytes in" if cell.into else "")
    state = "" if cell.inside == cell.size else f", {cell.inside} of {cell.size} bytes inside the tensor"
    unit = "pixel" if t.tensor_map.is_im2col else "row"
    title = f"<title>{address:#x}: ({place}), {unit} {cell.row} of the box{state}</title>"
    fill, style = (COLOURS[cell.row % 8], "c") if cell.inside else ("url(#out)", "o")
    text = cell.label(dims, is_store=t.is_store) if cell.inside else cell.place(dims)  # the hatching says that it is outside
    label = f'<text x="{x + width // 2}" y="{y + 15}" class="{style}">{text}</text>'
    return f'{frame} fill="{fill}">{title}</rect>{label}'


def _legend(picture: TransferMap, y: int) -> tuple[list[str], int]:
    """A swatch for each row's colour, and for what is outside and untouched; how far they reach."""
    cells = [c for line in picture.lines.values() for c in line]
    t = picture.transfer
    rows = max(c.row for c in cells if c) + 1
    unit = "pixel" if t.tensor_map.is_im2col else "row"
    swatches = [(f'fill="{COLOURS[i]}"', f"{unit} {i}" if i == 0 else str(i)) for i in range(min(rows, 8))]
    if rows > 8:
        swatches[-1] = (swatches[-1][0], "7, then again")
    if any(c and not c.inside for c in cells):
        swatches.append(('fill="url(#out)"', "clipped" if t.is_store else f"fill ({'NaN' if t.tensor_map.oob_fill else 'zeros'})"))
    if None in cells:
        swatches.append(('class="e" style="stroke:#d0d7de"', "untouched"))
    parts, x = [], float(MARGIN)
    for paint, text in swatches:
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="14" height="14" {paint}/><text x="{x + 19:.0f}" y="{y + 11}" class="g">{text}</text>'
        )
        x += 33 + LETTER * len(text)
    return parts, int(x)


def transfer_svg(picture: TransferMap, most: int = MOST_LINES) -> str:
    """A transfer as SVG text, at most `most` lines of it; hovering a cell gives its address."""
    dims = picture.dims()
    cell_width = max(CELL_WIDTH, int(LETTER * picture.cell_width(dims)))
    rows, y, previous = [], TOP, None
    shown = list(picture.lines.items())[:most]
    for line, cells in shown:
        if previous is not None and line != previous + 1:
            rows.append(f'<text x="{LEFT - 10}" y="{y + 12}" class="a">…</text>')
            y += 16
        previous = line
        rows.append(f'<text x="{LEFT - 10}" y="{y + 15}" class="a">{line * LINE:#x}</text>')
        rows += [
            _cell(picture, cell, dims, (LEFT + cell_width * slot, y, cell_width), line * LINE + slot * CHUNK)
            for slot, cell in enumerate(cells)
        ]
        y += CELL_HEIGHT
    rest = len(picture.lines) - len(shown)
    if rest:
        rows.append(f'<text x="{LEFT}" y="{y + 16}" class="s">{rest} more lines</text>')
        y += 22
    notes = [f"cell: 16 bytes, {picture.cell_text(dims)}; hover for the address", *picture.notes, picture.evidence]
    texts = [picture.title, picture.subtitle, picture.moved]
    longest = max(len(texts[0]) * 8.5, *(7.3 * len(text) for text in (*texts[1:], *notes)))
    legend_y = y + 12
    legend, reach = _legend(picture, legend_y)
    width = max(LEFT + 8 * cell_width + MARGIN, int(longest) + 2 * MARGIN, reach)
    height = legend_y + 26 + 18 * len(notes) + 6
    columns = [f'<text x="{LEFT + cell_width * i + cell_width // 2}" y="{TOP - 8}" class="h">+{CHUNK * i:#04x}</text>' for i in range(8)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            _STYLE,
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *(
                f'<text x="{MARGIN}" y="{26 + 20 * i}" class="{"s" if i else "t"}">{html.escape(text)}</text>'
                for i, text in enumerate(texts)
            ),
            *columns,
            *rows,
            *legend,
            *(f'<text x="{MARGIN}" y="{legend_y + 36 + 18 * i}" class="s">{html.escape(text)}</text>' for i, text in enumerate(notes)),
            "</svg>",
        ]
    )
