"""The banks of shared memory."""

from __future__ import annotations

import dataclasses

__all__ = ["BANKS", "Banks"]


@dataclasses.dataclass(frozen=True)
class Banks:
    """How many banks there are, and the bytes of one before the next begins."""

    count: int
    width: int
    source: str

    def of(self, address: int) -> int:
        """The bank of a shared address.

        >>> BANKS.of(0x410)
        4
        """
        return address // self.width % self.count


BANKS = Banks(32, 4, "CUDA C++ Programming Guide, compute capability 5.x and later: 32 banks, successive 32-bit words in successive banks")
