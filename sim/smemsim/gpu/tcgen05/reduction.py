"""`tcgen05.ld.red`: the smallest or largest of what a thread has loaded, beside the values (PTX ISA 9.7.16.8.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.modifiers import Modifiers
from smemsim.gpu.registry import unmodelled
from smemsim.machine.tmem.access import SPLIT
from smemsim.ptx.module import Instruction, Operand, Vector

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.registers import Write
    from smemsim.gpu.wave import Wave

__all__ = ["Reduction"]

_NAN = np.uint32(0x7FFFFFFF)  # the canonical NaN of f32


class Reduction:
    """`.min` or `.max` with `.abs` and `.NaN` of f32, or of u32 and s32."""

    def __init__(self, i: Instruction, c: Linker, words: Modifiers) -> None:
        if SPLIT in words.left:
            raise unmodelled(i, ".red of .16x32bx2: which columns count for a thread is in no document")
        if "x1" in words.left:
            raise unmodelled(i, ".red of .x1: it has at least .x2")
        self.i, self.linker = i, c
        self.operation = words.need("min", "max")
        self.absolute, self.nan = words.has("abs"), words.has("NaN")
        self.kind = words.need("f32", "u32", "s32")
        if self.kind != "f32" and (self.absolute or self.nan):
            raise unmodelled(i, f".abs and .NaN of .{self.kind}")
        self.write: Write | None = None

    def result(self, operand: Operand) -> None:
        """The register it goes to; Triton writes a list of one."""
        if isinstance(operand, Vector) and len(operand.items) == 1:
            operand = operand.items[0]
        self.write = self.linker.write(operand, self.kind)

    def run(self, x: Wave, loaded: np.ndarray) -> None:
        """Reduce the registers (registers, threads) of each thread."""
        values = loaded.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[self.kind])
        if self.kind != "f32":
            found = (np.min if self.operation == "min" else np.max)(values, axis=0)
        else:
            values = np.abs(values) if self.absolute else values
            # -0 lies below +0: integers in the order of the floats say so.
            raw = np.ascontiguousarray(values).view(np.int32)
            order = np.where(raw < 0, raw ^ np.int32(0x7FFFFFFF), raw).astype(np.int64)
            lost = np.isnan(values)
            order[lost] = (1 << 40) if self.operation == "min" else -(1 << 40)
            picked = (np.argmin if self.operation == "min" else np.argmax)(order, axis=0)
            found = np.take_along_axis(values, picked[None], 0)[0]
            gone = lost.any(0) if self.nan else lost.all(0)
            found = np.where(gone, _NAN.view(np.float32), found)
        if self.write is not None:
            self.write(x, found)
