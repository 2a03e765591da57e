"""Reductions by the copy engine: the element types, what decides their values, and which
operation runs on which type.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from smemsim.core.spec.grades import Grade
from smemsim.core.spec.traps import ILLEGAL_INSTRUCTION

__all__ = [
    "BULK_REDUCTIONS",
    "KNOWN_REDUCTIONS",
    "NO_REDUCTION",
    "REDUCTION_TYPES",
    "TENSOR_REDUCTIONS",
    "TENSOR_TYPES",
    "Family",
    "ReductionOp",
    "ReductionType",
]


class ReductionOp(enum.StrEnum):
    """The eight operations, as PTX spells them; `x` is the element from shared memory."""

    ADD = "add"
    MIN = "min"
    MAX = "max"
    INC = "inc"  # old >= x ? 0 : old + 1
    DEC = "dec"  # old == 0 or old > x ? x : old - 1
    AND = "and"
    OR = "or"
    XOR = "xor"

    @property
    def code(self) -> int:
        """The number by which the compiled loop knows the operation."""
        return list(ReductionOp).index(self)


class Family(enum.IntEnum):
    """How an element's bits are read."""

    UNSIGNED = 0
    SIGNED = 1
    FLOAT = 2


class HandsOn(enum.IntEnum):
    """Which NaN operand an addition gives."""

    NONE = 0
    NEW = 1  # that from registers or shared memory first, bit for bit and not made quiet
    OLD = 2  # that of the memory it adds to first, made quiet


class ReductionType(NamedTuple):
    """One element type. The last five columns decide everything about a float that IEEE 754 leaves open.

    The result of an addition without a number is `nan`. That is a sum of infinities of different sign, or of a NaN
    operand unless `hands_on_nan` is set. The NaN operand that an addition gives is `hands_on_nan`.

    The result of min and max of two NaNs is `extremum_nan`, 0 for types without min and max. A NaN and a number give
    the number, and -0 is below +0. With `flush`, an addition takes subnormal operands and results as zeros of the same
    sign.
    """

    name: str
    bits: int
    family: Family
    grade: Grade  # of the values on sm_90a
    source: str
    exponent_bits: int = 0
    fraction_bits: int = 0
    nan: int = 0
    hands_on_nan: HandsOn = HandsOn.NONE
    extremum_nan: int = 0
    flush: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8


_U, _S, _F, _M = Family.UNSIGNED, Family.SIGNED, Family.FLOAT, Grade.MEASURED
_BOTH = "traces bulk_reductions, tma_reductions"
# fmt: off
REDUCTION_TYPES: dict[str, ReductionType] = {t.name: t for t in (
    ReductionType("u32",     32, _U, _M, _BOTH),
    ReductionType("s32",     32, _S, _M, _BOTH),
    ReductionType("b32",     32, _U, _M, _BOTH),
    ReductionType("u64",     64, _U, _M, _BOTH),
    ReductionType("s64",     64, _S, _M, _BOTH),
    ReductionType("b64",     64, _U, _M, _BOTH),
    ReductionType("f16",     16, _F, _M, _BOTH, 5, 10, 0x7FFF, extremum_nan=0x7FFF),
    ReductionType("bf16",    16, _F, _M, _BOTH, 8, 7, 0x7FFF, extremum_nan=0x7FFF),
    ReductionType("f32",     32, _F, _M, _BOTH, 8, 23, 0x7FFFFFFF),  # subnormals kept; PTX ISA 9.1 §9.7.9.25.4.2 says add.f32 flushes
    ReductionType("f32_ftz", 32, _F, _M, "trace tma_reductions", 8, 23, 0x7FFFFFFF, flush=True),  # of FTZ tensor maps
    ReductionType("f64",     64, _F, _M, _BOTH, 11, 52, 0xFFF8000000000000, hands_on_nan=HandsOn.NEW),
)}
# fmt: on
# atom.shared.add.f64 is a loop of compare-and-swap around DADD (SASS of ptxas 13.0), which treats NaNs as that
# instruction does (trace launches).
SHARED_F64 = REDUCTION_TYPES["f64"]._replace(source="trace launches", hands_on_nan=HandsOn.OLD)


def _ops(names: str) -> frozenset[ReductionOp]:
    return frozenset(ReductionOp(name) for name in names.split())


# cp.reduce.async.bulk, by the state space of the destination and the type: PTX ISA 9.1 §9.7.9.25.4.2, table of
# operations and types; ptxas 13.0 assembles exactly these for sm_90a, and each of them ran (trace bulk_reductions).
# fmt: off
BULK_REDUCTIONS: dict[str, dict[str, frozenset[ReductionOp]]] = {
    "global": {
        "u32":  _ops("add min max inc dec"),
        "s32":  _ops("add min max"),
        "b32":  _ops("and or xor"),
        "u64":  _ops("add min max"),
        "s64":  _ops("min max"),
        "b64":  _ops("and or xor"),
        "f16":  _ops("add min max"),
        "bf16": _ops("add min max"),
        "f32":  _ops("add"),
        "f64":  _ops("add"),
    },
    "shared::cluster": {
        "u32":  _ops("add min max inc dec"),
        "s32":  _ops("add min max"),
        "b32":  _ops("and or xor"),
        "u64":  _ops("add"),
    },
}
# cp.reduce.async.bulk.tensor, by the tensor map's data type: these run, all others end in NO_REDUCTION (trace
# tma_reduce_traps).
TENSOR_REDUCTIONS: dict[str, frozenset[ReductionOp]] = {
    "UINT8":        _ops(""),
    "UINT16":       _ops(""),
    "UINT32":       _ops("add min max inc dec and or xor"),
    "INT32":        _ops("add min max and or xor"),
    "UINT64":       _ops("add min max and or xor"),
    "INT64":        _ops("min max"),
    "FLOAT16":      _ops("add min max"),
    "BFLOAT16":     _ops("add min max"),
    "FLOAT32":      _ops("add"),
    "FLOAT32_FTZ":  _ops("add"),
    "TFLOAT32":     _ops("add"),
    "TFLOAT32_FTZ": _ops("add"),
    "FLOAT64":      _ops("add"),
}
# The arithmetic of a tensor map's data type; sums of the TFLOAT32 types keep all bits of an f32 (trace tma_reductions).
TENSOR_TYPES: dict[str, str] = {
    "UINT32":       "u32",
    "INT32":        "s32",
    "UINT64":       "u64",
    "INT64":        "s64",
    "FLOAT16":      "f16",
    "BFLOAT16":     "bf16",
    "FLOAT32":      "f32",
    "FLOAT32_FTZ":  "f32_ftz",
    "TFLOAT32":     "f32",
    "TFLOAT32_FTZ": "f32_ftz",
    "FLOAT64":      "f64",
}
# fmt: on
NO_REDUCTION = ILLEGAL_INSTRUCTION
# The operations that some instruction has on each type. The values of others are unknown.
KNOWN_REDUCTIONS: dict[str, frozenset[ReductionOp]] = {
    name: frozenset().union(
        *(table.get(name, frozenset()) for table in BULK_REDUCTIONS.values()),
        *(TENSOR_REDUCTIONS[data_type] for data_type, dtype in TENSOR_TYPES.items() if dtype == name),
    )
    for name in REDUCTION_TYPES
}
