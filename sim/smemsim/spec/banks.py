"""The banks of shared memory."""

from __future__ import annotations

__all__ = ["BANKS", "BANK_BYTES"]

BANKS = 32  # CUDA C++ Programming Guide, compute capability 5.x and later: 32 banks
BANK_BYTES = 4  # successive 32-bit words lie in successive banks
