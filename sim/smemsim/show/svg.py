"""Operand pictures as SVG, in the look of CuTe's layout prints: 8 chunks a line, pastel columns, the address beside each line."""

from __future__ import annotations

import html

from smemsim.show.operand import COLOURS, Cell, OperandMap
from smemsim.spec.shared_memory import CHUNK, LINE

__all__ = ["operand_svg"]

CELL_WIDTH, CELL_HEIGHT, LEFT, TOP, MARGIN = 64, 22, 84, 96, 16
MOST_LINES = 256


def _cell(cell: Cell | None, x: int, y: int, line: int, slot: int) -> str:
    address = line * LINE + slot * CHUNK
    if cell is None:
        return f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" class="e"><title>{address:#x}: not read</title></rect>'
    text = f"{cell.row},{cell.k}"
    title = f"{address:#x}: row {cell.row}, k {cell.k}" + (f", and {cell.shared_by - 1} more chunks" if cell.shared_by > 1 else "")
    fill = "url(#hatch)" if cell.shared_by > 1 else COLOURS[cell.column]
    return (
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" fill="{fill}"><title>{title}</title></rect>'
        f'<text x="{x + CELL_WIDTH // 2}" y="{y + 15}" class="c">{text}</text>'
    )


def operand_svg(picture: OperandMap) -> str:
    """An operand as SVG text; hovering a cell gives its address."""
    d = picture.descriptor
    rows, y, previous = [], TOP, None
    shown = list(picture.lines.items())[:MOST_LINES]
    for line, cells in shown:
        if previous is not None and line != previous + 1:
            rows.append(f'<text x="{LEFT - 10}" y="{y + 12}" class="a">…</text>')
            y += 16
        previous = line
        rows.append(f'<text x="{LEFT - 10}" y="{y + 15}" class="a">{line * LINE:#x}</text>')
        rows += [_cell(cell, LEFT + CELL_WIDTH * slot, y, line, slot) for slot, cell in enumerate(cells)]
        y += CELL_HEIGHT
    rest = len(picture.lines) - len(shown)
    if rest:
        rows.append(f'<text x="{LEFT}" y="{y + 16}" class="s">{rest} more lines</text>')
        y += 22
    subtitle = f"{d.swizzle} swizzle, start {d.start_address:#x}, LBO {d.leading_byte_offset} B, SBO {d.stride_byte_offset} B"
    alias = ""
    legend = "cell: 16 bytes, row,k of the first element; colour: its column before swizzling"
    if any(c and c.shared_by > 1 for cells in picture.lines.values() for c in cells):
        alias = "red: several chunks share these bytes"
    width, height = LEFT + 8 * CELL_WIDTH + MARGIN, y + 48
    columns = "".join(
        f'<text x="{LEFT + CELL_WIDTH * i + CELL_WIDTH // 2}" y="{TOP - 8}" class="h">+{CHUNK * i:#04x}</text>' for i in range(8)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            "<style>text{font-family:ui-monospace,Menlo,Consolas,monospace;fill:#24292f}.t{font-size:14px;font-weight:600}"
            ".s{font-size:12px;fill:#57606a}.h{font-size:11px;text-anchor:middle;fill:#57606a}.a{font-size:11px;text-anchor:end;fill:#57606a}"
            ".c{font-size:11px;text-anchor:middle}rect{stroke:#ffffff;stroke-width:1}.e{fill:#f6f8fa}</style>",
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<rect width="6" height="6" fill="#f5b5b0"/><rect width="2" height="6" fill="#cf222e"/></pattern></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="{MARGIN}" y="26" class="t">{html.escape(picture.title)}</text>',
            f'<text x="{MARGIN}" y="46" class="s">{html.escape(subtitle)}</text>',
            columns,
            *rows,
            f'<text x="{MARGIN}" y="{height - 28}" class="s">{legend}</text>',
            f'<text x="{MARGIN}" y="{height - 10}" class="s">{html.escape(picture.grade)}</text>',
            f'<text x="{MARGIN}" y="66" class="s" style="fill:#cf222e">{alias}</text>',
            "</svg>",
        ]
    )
