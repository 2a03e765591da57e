"""The banks of shared memory, and how much of it a CTA can have."""

from __future__ import annotations

__all__ = ["BANKS", "BANK_BYTES", "CHUNK_BYTES", "CHUNK_GROUPS"]

BANKS = 32  # CUDA programming guide, compute capability 5.x and later: 32 banks
BANK_BYTES = 4  # successive 32-bit words lie in successive banks
CHUNK_BYTES = 16  # what ldmatrix takes of a row, what a swizzle moves, and the unit of the descriptor's fields
CHUNK_GROUPS = BANKS * BANK_BYTES // CHUNK_BYTES  # groups of four banks that a 16-byte chunk can lie in
