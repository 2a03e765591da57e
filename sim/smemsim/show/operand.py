"""An operand's bytes."""

from __future__ import annotations

import dataclasses
import html
import io
import json
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import Rule
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.words.operand import operand_addresses
from smemsim.words.operand_layout import rules_in_force, weakest
from smemsim.words.smem import SmemDescriptor

__all__ = ["COLOURS", "Cell", "OperandMap", "operand_svg"]


# ---- Operand pictures as SVG, in the look of CuTe's layout prints: 8 chunks a line, pastel columns, the address beside each line


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


# ---- An operand in shared memory: which 16-byte chunk lies in which 128-byte line


# Eight pastels, one for each chunk column before swizzling: blue, orange, green, red, violet, brown, pink, grey.
COLOURS = ("#aecbeb", "#ffd8a8", "#b7e1b5", "#f5b5b0", "#cfbfe8", "#d9c5b2", "#f7c6e0", "#d5d8dc")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One 16-byte chunk of shared memory and what it holds: the first element's (row, k), and its chunk column before swizzling."""

    row: int
    k: int
    column: int
    shared_by: int  # chunks of the operand that lie here: more than 1 is an alias


@dataclasses.dataclass(frozen=True)
class OperandMap:
    """Every element's address, and the chunks by place; `lines` maps a 128-byte line to its eight cells."""

    descriptor: SmemDescriptor
    dtype: str
    major: str
    address: np.ndarray
    lines: dict[int, list[Cell | None]]
    rules: list[Rule]

    @classmethod
    def of(cls, word: int, *, arch: str, dtype: Any, major: str, rows: int, k: int, packing: str = "packed") -> OperandMap:
        """The map of one operand; arguments as for `operand_addresses`."""
        fmt = element_format(dtype)
        address = operand_addresses(word, arch=arch, dtype=fmt, major=major, rows=rows, k=k, packing=packing)
        per_chunk = fmt.elements_per_chunk(packing)
        first = address[:, ::per_chunk] if major == "K" else address[::per_chunk, :]
        lines: dict[int, list[Cell | None]] = {}
        for (i, j), at in np.ndenumerate(first):
            row, column = (i, j * per_chunk) if major == "K" else (i * per_chunk, j)
            cells = lines.setdefault(int(at) // LINE, [None] * 8)
            slot = int(at) % LINE // CHUNK
            old = cells[slot]
            cells[slot] = (
                Cell(row, column, (j if major == "K" else i) % 8, 1)
                if old is None
                else dataclasses.replace(old, shared_by=old.shared_by + 1)
            )
        d = SmemDescriptor.decode(word, arch=arch)
        k_bytes = -(-k // per_chunk) * 16
        rules = rules_in_force(d, architecture(arch), major=major, k_bytes=k_bytes, bits=fmt.bits, packing=packing)
        return cls(d, fmt.name, major, address, dict(sorted(lines.items())), rules)

    @property
    def title(self) -> str:
        """What is shown."""
        rows, k = self.address.shape
        return f"{self.descriptor.word:#018x}  {self.descriptor.arch}  {self.dtype} {self.major}-major  {rows} x {k}"

    @property
    def grade(self) -> str:
        """How sure the addresses are."""
        arch = architecture(self.descriptor.arch)
        return f"address rules on {arch.name}: {weakest(self.rules, arch)} ({', '.join(rule.name for rule in self.rules)})"

    def view(self, most: int) -> RenderableType:
        """The terminal picture, at most `most` lines."""
        d = self.descriptor
        head = Text.assemble(
            (self.title, "bold"),
            f"\n{d.swizzle} swizzle, start {d.start_address:#x}, LBO {d.leading_byte_offset} B, SBO {d.stride_byte_offset} B\n",
            ("each cell is 16 bytes: row,k of its first element; colours are chunk columns before swizzling\n", "dim"),
        )
        width = max((len(_label(c)) for cells in self.lines.values() for c in cells if c), default=4) + 2
        grid = Text()
        grid.append(" " * 10 + "".join(f"{f'+{CHUNK * i:#04x}':^{width}}" for i in range(8)) + "\n", "dim")
        previous = None
        for line, cells in list(self.lines.items())[:most]:
            if previous is not None and line != previous + 1:
                grid.append(f"{'…':>8}  \n", "dim")
            previous = line
            grid.append(f"{line * LINE:#8x}  ", "dim")
            for cell in cells:
                if cell is None:
                    grid.append(f"{'·':^{width}}", "dim")
                else:
                    style = "white on red" if cell.shared_by > 1 else f"black on {COLOURS[cell.column]}"
                    grid.append(f"{_label(cell):^{width}}", style)
            grid.append("\n")
        rest = len(self.lines) - most
        if rest > 0:
            grid.append(f"{rest} more lines (--lines {len(self.lines)} shows all)\n", "dim")
        aliased = sum(c.shared_by - 1 for cells in self.lines.values() for c in cells if c)
        if aliased:
            grid.append(f"{aliased} chunks lie on top of others (red)\n", "red")
        return Group(head, grid, Text(self.grade, "dim"))

    def _repr_svg_(self) -> str:
        """In a notebook."""

        return operand_svg(self)

    def csv(self) -> str:
        """row,k,address,line,chunk,byte,bit for every element; `bit` is where in its first byte a sub-byte type begins."""
        out = io.StringIO()
        fmt = element_format(self.dtype)
        out.write("row,k,address,line,chunk,byte,bit\n")
        for (row, k), at in np.ndenumerate(self.address):
            a = int(at)
            bit = (k if self.major == "K" else row) * fmt.bits % 8 if fmt.bits < 8 else 0
            out.write(f"{row},{k},{a},{a // LINE * LINE},{a % LINE // CHUNK},{a % CHUNK},{bit}\n")
        return out.getvalue()

    def json(self) -> str:
        """The addresses as nested lists [row][k], with what they belong to."""
        rows, k = self.address.shape
        return json.dumps(
            {
                "word": f"{self.descriptor.word:#018x}",
                "arch": self.descriptor.arch,
                "dtype": self.dtype,
                "major": self.major,
                "rows": rows,
                "k": k,
                "swizzle": str(self.descriptor.swizzle),
                "evidence": self.grade,
                "address": self.address.tolist(),
            }
        )


def _label(cell: Cell) -> str:
    return f"{cell.row},{cell.k}"
