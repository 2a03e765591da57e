"""An operand's bytes: its picture in shared memory, and the address of every element as a table and as JSON."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np

from smemsim.core.picture.model import Picture
from smemsim.core.picture.svg import grids_svg
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import Rule
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force, weakest
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.tile import MOST_LINES, TilePicture

__all__ = ["OperandMap"]


@dataclasses.dataclass(frozen=True)
class OperandMap:
    """Every element's address, (rows, k), and the rules that they rest on."""

    descriptor: SmemDescriptor
    dtype: str
    major: str
    address: np.ndarray
    tile: TilePicture
    rules: list[Rule]

    @classmethod
    def of(cls, word: int, *, arch: str, dtype: Any, major: str, rows: int, k: int, packing: str = "packed") -> OperandMap:
        """The map of one operand; arguments as for `operand_addresses`."""
        fmt = element_format(dtype)
        address = operand_addresses(word, arch=arch, dtype=fmt, major=major, rows=rows, k=k, packing=packing)
        tile = TilePicture.of(word, arch=arch, dtype=fmt, major=major, rows=rows, k=k, packing=packing)
        k_bytes = -(-k // fmt.elements_per_chunk(packing)) * CHUNK
        d = SmemDescriptor.decode(word, arch=arch)
        rules = rules_in_force(d, architecture(arch), major=major, k_bytes=k_bytes, bits=fmt.bits, packing=packing)
        return cls(d, fmt.name, major, address, tile, rules)

    @property
    def grade(self) -> str:
        """The grade of evidence of the addresses."""
        arch = architecture(self.descriptor.arch)
        return f"address rules on {arch.name}: {weakest(self.rules, arch)} ({', '.join(rule.name for rule in self.rules)})"

    def picture(self, most: int = MOST_LINES) -> Picture:
        """Shared memory with what is read there: at most `most` 128-byte lines."""
        whole = self.tile.picture(most)
        return dataclasses.replace(whole, grids=whole.grids[-1:], more=(), evidence=self.grade)

    def _repr_svg_(self) -> str:
        """In a notebook."""
        return grids_svg(self.picture())

    def csv(self) -> str:
        """row,k,address,line,chunk,byte,bit for every element; `bit` is where in its first
        byte a sub-byte type begins.
        """
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
