"""The reductions compiled, over arrays. Importing this module imports numba."""

from __future__ import annotations

from numba import njit

from smemsim.arithmetic import reduce as _reduce

__all__ = ["reduce_all", "reduce_one"]

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
