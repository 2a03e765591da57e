"""The elements to read, as 16-byte chunks, and their places by each layout of a descriptor.

Whatever the layout, the sum before the XOR is start + fixed + l * LBO + s * SBO, where `fixed`, l and s belong to the
chunk. They are taken from the formulas themselves: with all fields 0, with LBO 1, with SBO 1. (Absolute LBO, of
sm_103a, is apart.)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from smemsim.core.spec.architectures import Architecture
from smemsim.core.spec.formats import ElementFormat
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES, SwizzleMode
from smemsim.core.words.operand import swizzled
from smemsim.core.words.operand_layout import Decoded, linear_address, why_unmodelled

__all__ = ["Kind", "Shape"]


class Kind(NamedTuple):
    """A layout that descriptors have: the mode, one base offset of those that mean the same, and of each chunk (lines,
    chunks) what its sum has.
    """

    mode: SwizzleMode
    base_offset: int
    base_offsets: tuple[int, ...]
    fixed: np.ndarray
    of_lbo: np.ndarray
    of_sbo: np.ndarray

    def before(self, addresses: np.ndarray) -> np.ndarray:
        """The sums that the XOR takes to these addresses (the XOR is its own inverse)."""
        return swizzled(addresses, self.mode, self.base_offset)

    @property
    def name(self) -> str:
        """The swizzle and its base offset, as sentences name them."""
        return f"{self.mode.swizzle}{f' with base offset {self.base_offset}' if self.base_offset else ''}"


@dataclasses.dataclass(frozen=True)
class Shape:
    """An operand of `blocks` x `steps` instructions, each (rows, k)."""

    machine: Architecture
    fmt: ElementFormat
    major: str
    packing: str
    blocks: int
    steps: int
    rows: int
    k: int

    @property
    def per_chunk(self) -> int:
        """Elements in 16 bytes."""
        return self.fmt.elements_per_chunk(self.packing)

    @property
    def lines(self) -> int:
        """Rows, or rows of K."""
        return self.rows if self.major == "K" else self.k

    @property
    def along(self) -> int:
        """Elements of the contiguous axis."""
        return self.k if self.major == "K" else self.rows

    @property
    def chunks(self) -> int:
        """Chunks of the contiguous axis."""
        return -(-self.along // self.per_chunk)

    @property
    def inside(self) -> np.ndarray:
        """(along,): the byte of its chunk at which each element begins."""
        return np.arange(self.along) % self.per_chunk * self.fmt.bits // 8

    def lined(self, elements: np.ndarray) -> np.ndarray:
        """(..., rows, k) as (..., lines, along); its own inverse."""
        return elements if self.major == "K" else np.swapaxes(elements, -1, -2)

    def element(self, line: int, chunk: int) -> tuple[int, int]:
        """(row, k) of the first element of a chunk."""
        along = chunk * self.per_chunk
        return (line, along) if self.major == "K" else (along, line)

    @functools.cached_property
    def kinds(self) -> list[Kind]:
        """Every layout whose behaviour is known, in the order of the layout codes; base offsets that mean the same are
        one.
        """
        kinds_of_shape = []
        for code, name in layout_codes(self.machine.smem_descriptor).items():
            mode = MODES[name]
            if why_unmodelled(self.machine, name, code, False, 0, self.major, self._k_bytes):
                continue
            for base in range(mode.mask + 1):
                kinds_of_shape.append(self._kind(mode, base))
        return kinds_of_shape

    @functools.cached_property
    def unmodelled(self) -> tuple[str, ...]:
        """Layouts whose reads of such an operand are not known, with the reason."""
        reasons = (
            why_unmodelled(self.machine, name, code, False, 0, self.major, self._k_bytes)
            for code, name in layout_codes(self.machine.smem_descriptor).items()
        )
        return tuple(reason for reason in reasons if reason)

    @property
    def absolute(self) -> SwizzleMode | None:
        """The mode that absolute LBO is defined for, where this operand may be read so."""
        for code, name in layout_codes(self.machine.smem_descriptor).items():
            if not why_unmodelled(self.machine, name, code, True, 0, self.major, self._k_bytes):
                return MODES[name]
        return None

    @property
    def _k_bytes(self) -> int:
        return -(-self.k // self.per_chunk) * CHUNK

    def _kind(self, mode: SwizzleMode, base: int) -> Kind:
        line, chunk = np.arange(self.lines)[:, None], np.arange(self.chunks)[None]

        def sums(lbo: int, sbo: int) -> np.ndarray:
            d: Any = Decoded(0, lbo, sbo, 0, mode.swizzle, 0)
            found: Any = linear_address(d, self.major, line, chunk)  # type: ignore[arg-type]
            return np.asarray(found + np.zeros((self.lines, self.chunks), np.int64))

        fixed, bases = sums(0, 0), tuple(range(base, 8, mode.mask + 1))
        return Kind(mode, base, bases, fixed, sums(1, 0) - fixed, sums(0, 1) - fixed)
