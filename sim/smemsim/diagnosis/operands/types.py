"""Operands that are read as another type than their tensor map brings."""

from __future__ import annotations

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.operands.read import Issued
from smemsim.run.engine.records import Mma

__all__ = ["NARROW", "READ_AS", "other_type"]


WORDS = "FLOAT16"  # the type that programs also give to tensors of other 16-bit words

# Maps of these bring numbers, which these types read; those of integers bring any bytes.
NARROW = {"U4_ALIGN16B": ("e2m1",), "U4_ALIGN8B": ("e2m1",), "U6_ALIGN16B": ("e2m3", "e3m2")}
READ_AS = {"BFLOAT16": ("bf16",), "FLOAT16": ("f16",), "FLOAT32": ("f32", "tf32"), **NARROW}
ANY_WIDTH = frozenset(("kind::f8f6f4", "kind::mxf8f6f4"))  # kinds of elements of 4, 6 and 8 bits


def other_type(event: Mma, side: str, load: Issued) -> Finding | None:
    """I603 of an instruction descriptor, R508 or, of another width, T211 of a wgmma, where operand `side` ("a", "b") is
    none of what the load brought. A remark for bf16 by a map of FLOAT16, which brings the same bytes.
    """
    tm, dtype = load.transfer.tensor_map, event.a_type if side == "a" else event.b_type
    named = tm.data_type.name
    is_named_so = named == WORDS and dtype == "bf16" and event.a_type == event.b_type
    right = READ_AS.get(named, (dtype,))
    if dtype in right:
        return None
    is_word, is_as_wide = event.idesc is not None, element_format(dtype).bits == tm.type_row.bits
    if is_named_so:
        repair = "data_type BFLOAT16 in the map if the tensor has bf16; else an instruction for f16"
    elif is_as_wide or (is_word and named in NARROW and not ANY_WIDTH.isdisjoint(event.instruction.modifiers)):
        repair = f"{side}_type {right[0]}{' in the instruction descriptor' if is_word else ''}"
    else:
        repair = (
            f"a kind and {side}_type for {right[0]}" if is_word else f"an instruction for {right[0]}, or a map of the type that is read"
        )
    return at_instruction(
        "I603" if is_word else "R508" if is_as_wide else "T211",
        event.instruction,
        f"operand {side.upper()} is read as {dtype}; the tensor map of the load at {load.event.instruction.at} has {' or '.join(right) if named in NARROW else right[0]}",
        repair,
        why="TMA moves 16-bit words of either type unchanged" if is_named_so else "" if is_as_wide else "the elements have another width",
        milder=Severity.NOTE if is_named_so else None,
        kind=side,
    )
