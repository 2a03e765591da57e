"""The reductions compiled, over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.base.errors import InputError
from smemsim.core.arithmetic import reduce as _reduce
from smemsim.core.spec.reductions import KNOWN_REDUCTIONS

__all__ = ["EXCHANGE", "SWAP_IF", "chain", "reduce_all", "reduce_elements", "reduce_one"]


EXCHANGE, SWAP_IF = 8, 9  # codes of exch and cas, after those of ReductionOp

add_32 = compiled(_reduce.add_32)
add_64 = compiled(_reduce.add_64)
integer_least = compiled(_reduce.integer_least)
increment = compiled(_reduce.increment)
decrement = compiled(_reduce.decrement)
float_least = compiled(_reduce.float_least)
float_add = compiled(_reduce.float_add)


@compiled
def reduce_one(old, new, op, family, bits, flip, exponent_bits, fraction_bits, nan, hand_on_nan, both_nan, flush):  # type: ignore[no-untyped-def]
    """Combine one element; `op` is ReductionOp.code, the rest a row of REDUCTION_TYPES."""
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
    """Reduce new[i] into the element at byte at[i] of `words` (uint32), one i after the other; old[i] is what was
    there. All int64.
    """
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


# ---- Arrays of elements


def reduce_elements(old: Any, new: Any, op: Any, dtype: Any) -> np.ndarray:
    """Reduce `new` into `old`, element by element: two arrays of one shape, of bytes (uint8) or of the type's raw bits.

    Returns an array like `old`, which is left alone. Raises InputError for an operation that no instruction has on the
    type (f32 and f64 have additions only, bits have no order), or arrays that do not fit. Measured: traces
    bulk_reductions, tma_reductions.

    >>> reduce_elements(np.array([1, 7], np.uint32), np.array([9, 9], np.uint32), "add", "u32").tolist()
    [10, 16]
    """
    operation, row = _reduce.reduction_op(op), _reduce.reduction_type(dtype)
    if operation not in KNOWN_REDUCTIONS[row.name]:
        raise InputError(f"{operation} on {row.name}: no instruction has it; {row.name} has {_reduce.listed(KNOWN_REDUCTIONS[row.name])}")
    raw = np.dtype(f"<u{row.itemsize}")
    for name, array in (("old", old), ("new", new)):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "ui" or array.itemsize not in {1, row.itemsize}:
            got = getattr(array, "dtype", type(array).__name__)
            raise InputError(f"{name}: needs an array of uint8 bytes or of raw {row.name} bits (uint{row.bits}), not {got}")
        if array.nbytes % row.itemsize:
            raise InputError(f"{name}: {array.nbytes} bytes are no whole number of {row.name} elements ({row.itemsize} B each)")
    if old.shape != new.shape or old.dtype != new.dtype:
        raise InputError(f"old is {old.dtype} {old.shape}, new is {new.dtype} {new.shape}: needs two arrays of one shape and type")
    a, b = (np.ascontiguousarray(x).reshape(-1).view(raw).astype(np.uint64).view(np.int64) for x in (old, new))
    out = np.empty_like(a)
    reduce_all(a, b, operation.code, *_reduce.parameters(row), out)
    result: np.ndarray = out.view(np.uint64).astype(raw).view(old.dtype).reshape(old.shape)
    return result
