"""What the driver's encode call refuses: one generator a rule, each yielding a sentence for every value that breaks it.

The rules are those that driver 580 on an H200 enforces; documented rules that it does not enforce are not here (stride order, box
larger than the tensor, INTERLEAVE_32B with another swizzle).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

from smemsim.spec.architectures import architecture
from smemsim.spec.swizzles import MODES
from smemsim.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLES,
    DataType,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
)

__all__ = ["Arguments", "tiled_violations"]


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Arguments as given; an enum is None where its code was out of range (which is reported elsewhere)."""

    global_address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...]
    element_strides: tuple[int, ...]
    data_type: TensorMapDataType | None
    interleave: Interleave | None
    swizzle: TensorMapSwizzle | None
    l2_promotion: L2Promotion | None
    oob_fill: OobFill | None
    arch: str | None  # the architecture the map is judged for

    @property
    def row(self) -> DataType | None:
        return None if self.data_type is None else DATA_TYPES[self.data_type]

    @property
    def alignment(self) -> int:
        wide = self.interleave is Interleave.B32 or self.data_type in (TensorMapDataType.U4_ALIGN16B, TensorMapDataType.U6_ALIGN16B)
        return LIMITS.address_alignment_32b if wide else LIMITS.address_alignment


def rank(a: Arguments) -> Iterator[str]:
    n = len(a.global_dim)
    if not 1 <= n <= LIMITS.max_rank:
        yield f"rank = {n} (entries of global_dim): needs 1 to {LIMITS.max_rank}"
    elif a.interleave and n < 3:
        yield f"rank = {n}: needs at least 3 with interleave {a.interleave.name}"
    for name, entries, wanted in (
        ("global_strides", len(a.global_strides), max(n - 1, 0)),
        ("box_dim", len(a.box_dim), n),
        ("element_strides", len(a.element_strides), n),
    ):
        if entries != wanted:
            yield f"{name} has {entries} entries: needs {wanted} for rank {n}"


def global_address(a: Arguments) -> Iterator[str]:
    if not 0 <= a.global_address < 1 << 64 or a.global_address % a.alignment:
        yield f"global_address = {a.global_address:#x}: needs a multiple of {a.alignment} B"


def global_dim(a: Arguments) -> Iterator[str]:
    for i, n in enumerate(a.global_dim):
        if not 1 <= n <= LIMITS.max_dim:
            yield f"global_dim[{i}] = {n}: needs 1 to 2^32"
    group = {TensorMapDataType.U4_ALIGN8B: 2, TensorMapDataType.U4_ALIGN16B: 128, TensorMapDataType.U6_ALIGN16B: 128}
    step = group.get(a.data_type, 1) if a.data_type is not None else 1
    if a.global_dim and a.global_dim[0] % step:
        yield f"global_dim[0] = {a.global_dim[0]}: needs a multiple of {step} for {a.data_type.name if a.data_type is not None else ''}"


def global_strides(a: Arguments) -> Iterator[str]:
    for i, stride in enumerate(a.global_strides):
        if stride % a.alignment or not 0 <= stride <= LIMITS.max_stride:
            yield f"global_strides[{i}] = {stride} B: needs a multiple of {a.alignment} B below 2^40"


def box_dim(a: Arguments) -> Iterator[str]:
    for i, n in enumerate(a.box_dim):
        if not 1 <= n <= LIMITS.max_box:
            split = f"; split it into {-(-n // LIMITS.max_box)} issues" if n > 0 else ""
            yield f"box_dim[{i}] = {n}: needs 1 to {LIMITS.max_box}{split}"


def element_strides(a: Arguments) -> Iterator[str]:
    for i, n in enumerate(a.element_strides):
        if not 1 <= n <= LIMITS.max_element_stride:
            ignored = " (the driver checks it although it is ignored without interleave)" if i == 0 and not a.interleave else ""
            yield f"element_strides[{i}] = {n}: needs 1 to {LIMITS.max_element_stride}{ignored}"


def inner_box(a: Arguments) -> Iterator[str]:
    if a.row is None or not a.box_dim or a.box_dim[0] < 1:
        return
    inner_bits = a.box_dim[0] * a.row.bits
    inner = f"box_dim[0] = {a.box_dim[0]} x {a.row.bits} bit = {inner_bits / 8:g} B"
    if a.data_type in (TensorMapDataType.U4_ALIGN16B, TensorMapDataType.U6_ALIGN16B):
        if a.box_dim[0] != 128:
            yield f"box_dim[0] = {a.box_dim[0]}: needs 128 elements for {a.data_type.name}"
        return
    if inner_bits % (8 * LIMITS.inner_alignment):
        yield f"{inner}: needs a multiple of {LIMITS.inner_alignment} B"
    if a.swizzle and a.interleave is Interleave.NONE:
        width = MODES[SWIZZLES[a.swizzle]].width
        if inner_bits > 8 * width:
            issues = -(-inner_bits // (8 * width))
            yield (
                f"{inner}: needs at most {width} B with {a.swizzle.name}; use {issues} issues of at most {8 * width // a.row.bits} "
                "elements, or another swizzle"
            )


def fill(a: Arguments) -> Iterator[str]:
    if a.oob_fill and a.row is not None and not a.row.nan_fill:
        yield f"oob_fill = {a.oob_fill.name}: needs a floating-point type of 16 bits or more, not {a.row.code.name}"


def box_bytes(a: Arguments) -> Iterator[str]:
    if a.row is None or any(n < 1 for n in (*a.box_dim, *a.element_strides)):
        return
    size = a.row.bits * math.prod(box // step for box, step in zip(a.box_dim, a.element_strides, strict=False)) // 8
    if size > LIMITS.max_box_bytes:
        yield f"the box takes {size} B of shared memory: needs at most {LIMITS.max_box_bytes} B"


def hopper(a: Arguments) -> Iterator[str]:
    if a.arch is None or architecture(a.arch).instruction != "wgmma":
        return
    if a.row is not None and not a.row.sm90:
        yield f"data_type = {a.row.code.name}: needs sm_100 or later"
    if a.swizzle is not None and a.swizzle > TensorMapSwizzle.SWIZZLE_128B:
        yield f"swizzle = {a.swizzle.name}: needs sm_100 or later"


RULES: tuple[Callable[[Arguments], Iterator[str]], ...] = (
    rank,
    global_address,
    global_dim,
    global_strides,
    box_dim,
    element_strides,
    inner_box,
    fill,
    box_bytes,
    hopper,
)


def tiled_violations(arguments: Arguments) -> list[str]:
    """Every rule of cuTensorMapEncodeTiled that is broken, as sentences; empty where the driver accepts."""
    return [sentence for rule in RULES for sentence in rule(arguments)]
