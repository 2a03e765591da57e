"""Shared memory as swizzles and accesses see it: 16-byte chunks in lines of 128 bytes, over 32 banks."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["ATOM_ROWS", "BANKS", "CHUNK", "LINE", "Banks"]


CHUNK = 16  # bytes that every swizzle moves together, and a row of a core matrix: PTX ISA 9.1 §5.5.7, 9.7.16.3
LINE = 128  # bytes inside which every XOR stays: PTX ISA 9.1 §5.5.7
ATOM_ROWS = 8  # rows of a K-major swizzle atom, and of a core matrix without swizzle: PTX ISA 9.1 §9.7.16.3


@dataclasses.dataclass(frozen=True)
class Banks:
    """How many banks there are, and the bytes of one before the next begins."""

    count: int
    width: int
    source: str

    @property
    def groups(self) -> int:
        """Chunks that lie in all banks once: as many 16-byte accesses go together when each has banks of its own."""
        return self.count * self.width // CHUNK

    def of(self, address: int) -> int:
        """The bank of a shared address.

        >>> BANKS.of(0x410)
        4
        """
        return address // self.width % self.count

    def group(self, address: Any) -> Any:
        """Which banks a 16-byte chunk at an address (or at each of an array) takes, 0 to `groups` - 1: chunks of one
        group take turns.

        >>> BANKS.group(0x410), BANKS.group(0x490)
        (1, 1)
        """
        return address // CHUNK % self.groups


BANKS = Banks(32, 4, "CUDA C++ Programming Guide, compute capability 5.x and later: 32 banks, successive 32-bit words in successive banks")
