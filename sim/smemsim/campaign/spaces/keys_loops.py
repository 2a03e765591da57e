"""The operand's formula and the XOR, compiled, over all rows and chunks. Importing this module imports numba."""

from __future__ import annotations

from smemsim.addressing.loops import compiled, k_major_chunk, swizzle

__all__ = ["addresses"]


@compiled
def addresses(start, lbo, sbo, base_offset, width, mask, shift, out):  # type: ignore[no-untyped-def]
    """out[row, chunk] of a K-major operand."""
    for row in range(out.shape[0]):
        for chunk in range(out.shape[1]):
            out[row, chunk] = swizzle(k_major_chunk(start, lbo, sbo, width, row, chunk), base_offset, mask, shift)
