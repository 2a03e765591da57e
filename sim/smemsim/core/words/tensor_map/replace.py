"""`tensormap.replace`: what the instruction makes of the 128 bytes of a tensor map, and how to build a map with it
alone.
"""

from __future__ import annotations

from typing import Any

from smemsim.base.arguments import shown, suggestion, whole
from smemsim.base.errors import InputError
from smemsim.core.spec.architectures import ARCHITECTURES, any_architecture
from smemsim.core.spec.fields import Field
from smemsim.core.spec.tensor_map import SWIZZLE_BITS, TENSOR_MAP
from smemsim.core.spec.tensor_map_replace import ELEMTYPES, REPLACE_FIELDS, ReplaceField, target, writes_of
from smemsim.core.words.tensor_map.bits import raw_bytes
from smemsim.core.words.tensor_map.map import TensorMap

__all__ = ["Step", "build_sequence", "kept_fields", "replaced", "tensormap_replace"]


Step = tuple[str, int | None, int]  # (field, ordinal, value): the operands of one tensormap.replace

# Driver enums whose codes are not those of the immediate, by the field they are taken for, and the codes that mean the
# same in both.
_FOREIGN = {"elemtype": ("TensorMapDataType", range(8)), "swizzle_mode": ("TensorMapSwizzle", range(4))}


def replaced(old: int, new: int, mask: int) -> int:
    """The old word with the bits of `mask` taken from the new one: the LOP3 that the instruction ends in.

    >>> hex(replaced(0x1234, 0xFFFF, 0x0F0))
    '0x12f4'
    """
    return old & ~mask | new & mask


def tensormap_replace(raw: Any, field: str, new_value: Any, *, ordinal: int | None = None, arch: str = "sm_90a") -> bytes:
    """The 128 bytes after `tensormap.replace.tile.FIELD` with this operand. Pass a TensorMap as `raw`, or anything that
    holds 128 bytes.

    Operands are those of the instruction. The operand `rank` is the rank - 1. Sizes and element strides count elements,
    `global_stride` and `global_address` count bytes. Enums are PTX's codes (or their names), which are not the
    driver's.

    The instruction checks nothing. A value that does not fit a field is cut: operand 8 of rank, box_dim 300, a stride
    that is not a multiple of 16, or 2^40 and more. Three things are easy to miss.

    - Type tf32 sets bit 16 of word 2, and no other elemtype clears it.
    - Field swizzle_mode also writes bit 22 of word 2, which has no effect on Hopper.
    - Field global_stride with ordinal 4 overwrites the high bits of all strides.

    Source and grade: RULES["tensor_map.replace"]. Raises InputError for operands that ptxas refuses on the
    architecture, and for values that do not fit a 32- or 64-bit register.

    >>> from smemsim import TensorMap, tensormap_replace
    >>> tm = TensorMap.tiled(data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,),
    ...                      box_dim=(64, 8), swizzle="128B")
    >>> again = TensorMap.from_bytes(tensormap_replace(tm, "box_dim", 16, ordinal=1))
    >>> again.box_dim, again.unknown_fields
    ((64, 16), ('box_bytes',))
    """
    row, at, operand = _instruction(field, new_value, ordinal, arch)
    word = int.from_bytes(bytes(raw) if isinstance(raw, TensorMap) else raw_bytes(raw), "little")
    for write, value in writes_of(row, operand):
        place = target(write, at)[1]
        word = replaced(word, (value - write.minus >> write.shift) << place.low, place.mask << place.low)
    return word.to_bytes(128, "little")


def kept_fields(arch: str = "sm_90a") -> tuple[str, ...]:
    """Fields of the 128 bytes that no tensormap.replace of the architecture can set: they stay what they were.

    >>> kept_fields("sm_100a")
    ('im2col', 'version', 'l2_promotion', 'pixels', 'box_bytes', 'swizzle_period')
    """
    name = _with_replace(arch)
    written: set[str] = set()
    for row in REPLACE_FIELDS.values():
        if row.exists_on(name):
            written |= {target(write, i)[0] for write in row.writes for i in range(max(row.ordinals, 1))}
    return tuple(field for field in TENSOR_MAP.fields if field not in written and not field.startswith("_"))


def build_sequence(tm: TensorMap) -> list[Step]:
    """The `tensormap.replace` instructions that turn 128 zero bytes into a tiled map, as (field, ordinal, value).

    Fields that the instruction cannot set stay zero. These are L2 promotion, the version (driver 580 leaves it 0), and
    the words 16 and 18 (`box_bytes`, `swizzle_period`), which have no effect. For 128B swizzles with other
    atoms (Blackwell) the last instruction sets swizzle_atomicity, a field that sm_90a does not have.

    Raises InputError for an im2col map: the instruction has no field for its corners and pixels. Grade: the sequence is
    documented (CUDA programming guide), the bytes are those of RULES["tensor_map.replace"].

    >>> from smemsim import TensorMap, build_sequence, tensormap_replace
    >>> raw = bytes(128)
    >>> tm = TensorMap.tiled(data_type="tf32", global_address=0x10000, global_dim=(32, 16), global_strides=(128,), box_dim=(32, 8))
    >>> for field, ordinal, value in build_sequence(tm):
    ...     raw = tensormap_replace(raw, field, value, ordinal=ordinal)
    >>> TensorMap.from_bytes(raw).unknown_fields
    ('box_bytes', 'swizzle_period')
    """
    if not isinstance(tm, TensorMap):
        raise InputError(f"tm = {shown(tm)}: needs a TensorMap, for instance TensorMap.from_bytes(...)")
    if tm.is_im2col:
        raise InputError("tm is an im2col map: tensormap.replace has no field for its bit, corners and pixels; change one made on the host")
    low, atomicity, high = SWIZZLE_BITS[tm.swizzle]
    steps: list[Step] = [("global_address", None, tm.global_address), ("rank", None, tm.rank - 1)]
    steps += [("box_dim", i, size) for i, size in enumerate(tm.box_dim)]
    # The operand has 32 bits: 0 is 2^32, because the instruction stores the value - 1.
    steps += [("global_dim", i, size & _register(32)) for i, size in enumerate(tm.global_dim)]
    steps += [("global_stride", i, stride) for i, stride in enumerate(tm.global_strides)]
    steps += [("element_stride", i, step) for i, step in enumerate(tm.element_strides)]
    steps += [
        ("elemtype", None, ELEMTYPES.index(tm.data_type)),
        ("interleave_layout", None, int(tm.interleave)),
        ("swizzle_mode", None, low | high << 2),
        ("fill_mode", None, int(tm.oob_fill)),
    ]
    return [*steps, ("swizzle_atomicity", None, atomicity)] if atomicity else steps


def _with_replace(arch: Any) -> str:
    """The name of an architecture that has the instruction."""
    found = any_architecture(arch)
    if not found.has_clusters:
        raise InputError(f"arch = {found.name}: has no tensormap.replace; it came with sm_90a")
    return found.name


def _register(bits: int) -> int:
    return Field(bits - 1, 0).mask


def _instruction(field: Any, new_value: Any, ordinal: Any, arch: Any) -> tuple[ReplaceField, int | None, int]:
    """The row, ordinal and operand of an instruction that ptxas accepts."""
    name = _with_replace(arch)
    row = REPLACE_FIELDS.get(field) if isinstance(field, str) else None
    if row is None:
        raise InputError(f"field = {shown(field)}: tensormap.replace has {', '.join(REPLACE_FIELDS)}{suggestion(field, REPLACE_FIELDS)}")
    if not row.exists_on(name):
        raise InputError(f"{field}: {name} has no such field in tensormap.replace ({_where(row, 0)} only)")
    if ordinal is None and row.ordinals:
        raise InputError(f"{field}: needs the ordinal of a dimension, 0 to {row.ordinals - 1}")
    if ordinal is not None:
        if not row.ordinals:
            raise InputError(f"ordinal = {shown(ordinal)}: {field} takes none")
        ordinal = whole("ordinal", ordinal)
        if not 0 <= ordinal < row.ordinals:
            raise InputError(f"ordinal = {ordinal}: {field} takes 0 to {row.ordinals - 1}")
    return row, ordinal, _immediate(row, new_value, name) if row.codes else _operand(row, new_value)


def _operand(row: ReplaceField, new_value: Any) -> int:
    operand = whole(row.name, new_value)
    if not 0 <= operand <= _register(row.bits):
        hint = f"; 0 stands for {operand}" if row.name == "global_dim" and operand == 1 << row.bits else ""
        raise InputError(f"{row.name} = {operand}: the operand is a register of {row.bits} bits without a sign{hint}")
    return operand


def _immediate(row: ReplaceField, new_value: Any, arch: str) -> int:
    count = row.accepted[arch]
    listed = ", ".join(f"{code} = {text}" for code, text in enumerate(row.codes[:count]))
    if isinstance(new_value, str):
        if new_value not in row.codes:
            raise InputError(f"{row.name} = {shown(new_value)}: no such value ({listed}){suggestion(new_value, row.codes)}")
        code = row.codes.index(new_value)
    else:
        code = whole(row.name, new_value, wanted="an immediate")
        foreign, same = _FOREIGN.get(row.name, ("", range(0)))
        if foreign and type(new_value).__name__.removeprefix("CU").lower() == foreign.lower() and code not in same:
            raise InputError(f"{row.name} = {shown(new_value)}: a code of the driver, and PTX counts in another way ({listed})")
    if not 0 <= code < count:
        known = f"; {row.codes[code]} exists on {_where(row, code)} only" if 0 <= code < len(row.codes) else ""
        raise InputError(f"{row.name} = {shown(new_value)}: tensormap.replace takes 0 to {count - 1} on {arch} ({listed}){known}")
    return code


def _where(row: ReplaceField, code: int) -> str:
    return " and ".join(arch for arch in ARCHITECTURES if row.accepted.get(arch, 0) > code)
