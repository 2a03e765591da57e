"""The compiled loop that moves bytes. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from smemsim.arithmetic import convert as _convert

__all__ = ["copy_chunks"]

compiled = njit(cache=True, nogil=True, error_model="numpy")

f32_to_tf32 = compiled(_convert.f32_to_tf32)


@compiled
def copy_chunks(shared, source, valid, fill, origin, memory, tensor, shared_begin, writer, position, transfer, to_tf32):  # type: ignore[no-untyped-def]
    """Put a load's chunks into shared memory, with owner `transfer` and the byte's place in the dense box.

    `tensor[0]` is the byte at global address `origin`; bytes out of bounds become `fill` (one element, repeated), which is not
    converted when `to_tf32` is set.
    """
    sixteen = np.uintp(16)
    for n in range(shared.shape[0]):
        to = np.uintp(shared[n] - shared_begin)
        if valid[n] == sixteen:
            at = np.uintp(source[n] - origin)
            for b in range(sixteen):
                memory[to + b] = tensor[at + b]
        else:
            for b in range(valid[n]):
                memory[to + np.uintp(b)] = tensor[source[n] - origin + b]
            for b in range(valid[n], 16):
                memory[to + np.uintp(b)] = fill[b % fill.shape[0]]
        if to_tf32:
            for w in range(0, valid[n] // 4 * 4, 4):
                at = to + np.uintp(w)
                bits = 0
                for b in range(4):
                    bits |= int(memory[at + np.uintp(b)]) << (8 * b)
                bits = f32_to_tf32(bits)
                for b in range(4):
                    memory[at + np.uintp(b)] = (bits >> (8 * b)) & 0xFF
        first = np.uint32(16 * n)
        for b in range(sixteen):
            writer[to + b] = transfer
            position[to + b] = np.uint32(first + np.uint32(b))
