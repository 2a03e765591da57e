"""Reductions of one element: `old` is the element in memory, `new` the one that arrives from shared memory.

Elements are raw bits in integers of at most 64 bits. 16- and 32-bit elements are unsigned. 64-bit elements are in two's
complement (bit 63 is the sign of the Python integer). Everything is integer arithmetic. The small functions below are
the specification. They are compiled by `arithmetic.reduce_loops`. Example:

    >>> hex(float_add(0x3C00, 0x1000, 5, 10, 0x7FFF, False, False))  # f16: 1 + 2^-11 is a tie and stays even
    '0x3c00'
"""

from __future__ import annotations

from typing import Any

from smemsim.base.arguments import choice
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.spec.reductions import (
    BULK_REDUCTIONS,
    NO_REDUCTION,
    REDUCTION_TYPES,
    TENSOR_REDUCTIONS,
    TENSOR_TYPES,
    Family,
    ReductionOp,
    ReductionType,
)
from smemsim.core.spec.tensor_map import TensorMapDataType

__all__ = [
    "add_32",
    "add_64",
    "bulk_reduction",
    "decrement",
    "float_add",
    "float_least",
    "increment",
    "integer_least",
    "reduction_op",
    "reduction_type",
    "tensor_reduction",
]


def add_32(old: int, new: int) -> int:
    """Sum modulo 2^32: the same for signed and unsigned elements.

    >>> hex(add_32(0xFFFFFFFF, 2))
    '0x1'
    """
    return (old + new) & 0xFFFFFFFF


def add_64(old: int, new: int) -> int:
    """Sum modulo 2^64, in and out in two's complement, by halves so that no step leaves 64 bits.

    >>> add_64(0x7FFFFFFFFFFFFFFF, 1) == -(1 << 63)
    True
    """
    low = (old & 0xFFFFFFFF) + (new & 0xFFFFFFFF)
    high = (old >> 32) + (new >> 32) + (low >> 32)
    high = ((high + 0x80000000) & 0xFFFFFFFF) - 0x80000000
    return high << 32 | (low & 0xFFFFFFFF)


def integer_least(old: int, new: int, flip: int, largest: bool) -> int:
    """The smaller of the two, or the larger; the bits in `flip` are inverted before comparing.

    That makes one comparison out of four: 0 for u32 and s64, 0x80000000 for s32, the sign bit -2^63 for u64.

    >>> hex(integer_least(0xFFFFFFFF, 1, 0, False)), hex(integer_least(0xFFFFFFFF, 1, 0x80000000, False))
    ('0x1', '0xffffffff')
    """
    return old if (old ^ flip < new ^ flip) != largest else new


def increment(old: int, new: int) -> int:
    """u32: counts up and wraps to 0 after `new`.

    >>> increment(3, 3), increment(2, 3), increment(7, 3)
    (0, 3, 0)
    """
    return 0 if old >= new else old + 1


def decrement(old: int, new: int) -> int:
    """u32: counts down and wraps to `new` after 0, or from anywhere above it.

    >>> decrement(0, 3), decrement(2, 3), decrement(7, 3)
    (3, 1, 3)
    """
    return new if old == 0 or old > new else old - 1


def float_least(old: int, new: int, exponent_bits: int, fraction_bits: int, both_nan: int, largest: bool) -> int:
    """min, or max, of two floats of any format. Subnormals count, -0 is below +0.

    A NaN and a number give the number; two NaNs give `both_nan`.

    >>> hex(float_least(0x7E01, 0x3C00, 5, 10, 0x7FFF, False)), hex(float_least(0x0000, 0x8000, 5, 10, 0x7FFF, False))
    ('0x3c00', '0x8000')
    """
    top = exponent_bits + fraction_bits
    magnitude = (1 << (top - 1)) * 2 - 1 if top < 63 else 0x7FFFFFFFFFFFFFFF
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    a, b = old & magnitude, new & magnitude
    if a > infinity:
        return both_nan if b > infinity else new
    if b > infinity:
        return old
    a = -1 - a if old >> top & 1 else a
    b = -1 - b if new >> top & 1 else b
    return old if (a < b) != largest else new


def float_add(old: int, new: int, exponent_bits: int, fraction_bits: int, nan: int, hand_on_nan: int, flush: bool) -> int:
    """Sum of two floats of any format, rounded to nearest, ties to even.

    x + (-x) is +0, and only -0 + -0 is -0. With `flush` subnormal operands and results are zeros of their sign.
    Infinities of different sign give `nan`. A NaN operand gives `nan`, or with `hand_on_nan` 1 itself (that of `new`
    first), or with 2 itself made quiet (that of `old` first).

    >>> hex(float_add(0x3F800000, 0x33800001, 8, 23, 0x7FFFFFFF, 0, False))
    '0x3f800001'
    >>> hex(float_add(0x00000001, 0x80000001, 8, 23, 0x7FFFFFFF, 0, True)), hex(float_add(1, 1, 8, 23, 0x7FFFFFFF, 0, True))
    ('0x0', '0x0')
    >>> hex(float_add(0x7FF0000000000001, 0, 11, 52, -1, 1, False))  # f64: a signalling NaN stays one
    '0x7ff0000000000001'
    >>> hex(float_add(0x7FF0000000000001, 0x7FF8000000000002, 11, 52, -1, 2, False))
    '0x7ff8000000000001'
    """
    top = exponent_bits + fraction_bits
    sign_bit = 1 << top if top < 63 else -1 << 63
    magnitude = (1 << (top - 1)) * 2 - 1 if top < 63 else 0x7FFFFFFFFFFFFFFF
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    smallest_normal = 1 << fraction_bits
    a, b = old & magnitude, new & magnitude
    if a > infinity or b > infinity:
        if hand_on_nan == 2:
            return (old if a > infinity else new) | smallest_normal >> 1
        if hand_on_nan:
            return new if b > infinity else old
        return nan
    negative_a, negative_b = old >> top & 1, new >> top & 1
    if a == infinity:
        return nan if b == infinity and negative_a != negative_b else old
    if b == infinity:
        return new
    if flush:
        a, b = (a if a >= smallest_normal else 0), (b if b >= smallest_normal else 0)
    if a < b:
        a, b, negative_a, negative_b = b, a, negative_b, negative_a
    # Significands with three bits more; the last of them remembers whether anything non-zero was shifted out.
    exponent, lower = max(a >> fraction_bits, 1), max(b >> fraction_bits, 1)
    total = ((a & (smallest_normal - 1)) | (smallest_normal if a >= smallest_normal else 0)) << 3
    small = ((b & (smallest_normal - 1)) | (smallest_normal if b >= smallest_normal else 0)) << 3
    shift = min(exponent - lower, fraction_bits + 4)
    small = small >> shift | (1 if small & ((1 << shift) - 1) else 0)
    total = total - small if negative_a != negative_b else total + small
    if total == 0:
        return sign_bit if negative_a and negative_b else 0
    if total >= smallest_normal << 4:
        total, exponent = total >> 1 | (total & 1), exponent + 1
    while total < smallest_normal << 3 and exponent > 1:
        total, exponent = total << 1, exponent - 1
    rest = total & 7
    total >>= 3
    if rest > 4 or (rest == 4 and total & 1):
        total += 1
    # A carry out of the fraction runs into the exponent, from a subnormal to the first normal number and from the last
    # to infinity.
    result = infinity if exponent << fraction_bits >= infinity else ((exponent - 1) << fraction_bits) + total
    if flush and result < smallest_normal:
        result = 0
    return result | sign_bit if negative_a else result


def reduction_op(op: Any) -> ReductionOp:
    """One of the eight operations by its PTX name.

    >>> reduction_op("inc")
    <ReductionOp.INC: 'inc'>
    """
    names = tuple(o.value for o in ReductionOp)
    return ReductionOp(choice("op", op, names, f"one of {' '.join(names)}"))


def reduction_type(dtype: Any) -> ReductionType:
    """The row of an element type by its PTX name.

    >>> reduction_type("bf16").itemsize
    2
    """
    if isinstance(dtype, ReductionType):
        return dtype
    return REDUCTION_TYPES[choice("dtype", dtype, tuple(REDUCTION_TYPES), f"one of {' '.join(REDUCTION_TYPES)}")]


_DATA_TYPES = tuple(TensorMapDataType.__members__)


def tensor_reduction(op: Any, data_type: Any) -> ReductionType:
    """The arithmetic of `cp.reduce.async.bulk.tensor` with a tensor map of the driver's `data_type` (its enum member or
    name).

    Measured on an H200: traces tma_reduce_traps (all operations on all types of sm_90a) and tma_reductions (the
    values). Raises HardwareTrap (715) if the type does not have the operation, and Unmodelled for the sub-byte types.

    >>> tensor_reduction("add", "BFLOAT16").name, tensor_reduction("add", "TFLOAT32_FTZ").flush
    ('bf16', True)
    """
    operation = reduction_op(op)
    name = choice("data_type", getattr(data_type, "name", data_type), _DATA_TYPES, "a tensor map's data type, such as BFLOAT16")
    if name not in TENSOR_REDUCTIONS:
        raise Unmodelled(f"{operation} through a tensor map of data type {name}: the PTX ISA has no such reduction, and it is not tested")
    runs = TENSOR_REDUCTIONS[name]
    if operation not in runs:
        takes = f"takes {listed(runs)}" if runs else "takes no reduction"
        raise HardwareTrap(f"{operation} through a tensor map of data type {name}: that type {takes}", cuda_error=NO_REDUCTION)
    return REDUCTION_TYPES[TENSOR_TYPES[name]]


def bulk_reduction(op: Any, dtype: Any, dst_space: Any) -> ReductionType:
    """The arithmetic of `cp.reduce.async.bulk` to `dst_space`, "global" or "shared::cluster".

    Raises InputError if there is no such instruction. Measured: trace bulk_reductions (all of them); `.f32` keeps
    subnormals, although PTX ISA 9.1 §9.7.9.25.4.2 says that it flushes them.

    >>> bulk_reduction("add", "f32", "global").flush
    False
    """
    operation, row = reduction_op(op), reduction_type(dtype)
    table = BULK_REDUCTIONS[choice("dst_space", dst_space, tuple(BULK_REDUCTIONS), "global or shared::cluster")]
    if operation not in table.get(row.name, ()):
        types = " ".join(name for name, ops in table.items() if operation in ops)
        raise InputError(f"cp.reduce.async.bulk.{dst_space}.{operation}.{row.name}: no such instruction; {operation} takes {types} there")
    return row


def listed(ops: frozenset[ReductionOp]) -> str:
    return " ".join(op for op in ReductionOp if op in ops)


def parameters(row: ReductionType) -> tuple[int, int, int, int, int, int, int, int, bool]:
    """A type's row as the compiled loop takes it; 64-bit constants in two's complement."""
    sign = (1 << (row.bits - 1)) if row.bits < 64 else -(1 << 63)
    # 64-bit elements are compared as signed numbers already, narrower ones as unsigned.
    flip = sign if (row.family is Family.SIGNED) != (row.bits == 64) else 0
    nan = row.nan - (1 << 64) if row.nan >> 63 else row.nan
    return row.family, row.bits, flip, row.exponent_bits, row.fraction_bits, nan, int(row.hands_on_nan), row.extremum_nan, row.flush
