"""The reductions compiled, over arrays. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from smemsim.arithmetic import reduce as _reduce

__all__ = ["EXCHANGE", "SWAP_IF", "chain", "reduce_all", "reduce_one"]


EXCHANGE, SWAP_IF = 8, 9  # codes of exch and cas, behind those of ReductionOp

compiled = njit(cache=True, nogil=True, error_model="numpy")

add_32 = compiled(_reduce.add_32)
add_64 = compiled(_reduce.add_64)
integer_least = compiled(_reduce.integer_least)
increment = compiled(_reduce.increment)
decrement = compiled(_reduce.decrement)
float_least = compiled(_reduce.float_least)
float_add = compiled(_reduce.float_add)


@compiled
def reduce_one(old, new, op, family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush):  # type: ignore[no-untyped-def]
    """One element; `op` is ReductionOp.code, the rest a row of REDUCTION_TYPES."""
    if op == 0 and family == 2:
        return float_add(old, new, exponent_bits, fraction_bits, nan, hand_on_nan, flush)
    if op == 0:
        return add_64(old, new) if bits == 64 else add_32(old, new)
    if op <= 2 and family == 2:
        return float_least(old, new, exponent_bits, fraction_bits, both_nan, op == 2)
    if op <= 2:
        return integer_least(old, new, flip, op == 2)
    if op == 3:
        return increment(old, new)
    if op == 4:
        return decrement(old, new)
    if op == 5:
        return old & new
    if op == 6:
        return old | new
    return old ^ new


@compiled
def reduce_all(old, new, op, family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush, out):  # type: ignore[no-untyped-def]
    """out[i] = reduce_one(old[i], new[i], …) over int64 arrays."""
    row = (family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush)
    for i in range(old.shape[0]):
        out[i] = reduce_one(old[i], new[i], op, *row)


@compiled
def chain(words, at, compare, new, op, family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush, old):  # type: ignore[no-untyped-def]
    """Reduce new[i] into the element at byte at[i] of `words` (uint32), one i after the other; old[i] is what was there. All int64."""
    row = (family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush)
    for i in range(at.shape[0]):
        word, shift = at[i] >> 2, (at[i] & 3) * 8
        before = np.int64(words[word])
        if bits == 64:
            before |= np.int64(words[word + 1]) << 32
        elif bits == 16:
            before = before >> shift & 0xFFFF
        if op == EXCHANGE:
            after = new[i]
        elif op == SWAP_IF:
            after = new[i] if before == compare[i] else before
        else:
            after = reduce_one(before, new[i], op, *row)
        old[i] = before
        if bits == 64:
            words[word] = after & 0xFFFFFFFF
            words[word + 1] = after >> 32 & 0xFFFFFFFF
        elif bits == 16:
            words[word] = (np.int64(words[word]) & (0xFFFFFFFF ^ 0xFFFF << shift)) | after << shift
        else:
            words[word] = after
