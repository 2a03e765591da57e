"""An operand in shared memory: which 16-byte chunk lies in which 128-byte line."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from smemsim.descriptors.layout import rules_in_force, weakest
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import Rule
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE

__all__ = ["COLOURS", "Cell", "OperandMap"]

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
        from smemsim.show.svg import operand_svg

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
