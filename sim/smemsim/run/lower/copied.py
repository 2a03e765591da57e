"""Registers that carry bytes of global memory, as they are, to shared or tensor memory or to an mma.sync. They are
found from the text of a program, before it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smemsim.core.ptx.module import Instruction, slots_in
from smemsim.core.spec.formats import FORMATS

__all__ = ["NOTHING_COPIED", "Copied", "copied"]


COPIES = frozenset(
    ("add", "and", "bfe", "bfi", "cvt", "mad", "mov", "mul", "or", "prmt", "selp", "shl", "shr", "xor")
)  # that may move bytes and leave them as they are
FLOATS = frozenset(name for name, row in FORMATS.items() if row.is_float)  # as types of instructions
NO_SLOTS: frozenset[int] = frozenset()
_SPARSE = frozenset(("sp", "sp::ordered_metadata"))
_OTHER_SPACES = frozenset(("param", "param::entry", "param::func", "const", "local"))


class Copied(NamedTuple):
    """The slots of registers that may hold bytes of global memory which are stored, and the instructions, by
    identity, that give them values or store them.
    """

    slots: frozenset[int]
    instructions: frozenset[int]
    # Has the program scale factors or metadata, which are small? Then all of its copies are followed.
    has_factors: bool
    # those that only A and B of an mma.sync get: shifts within a byte leave the row and the K of its elements as they
    # are
    fragments: frozenset[int] = NO_SLOTS


NOTHING_COPIED = Copied(frozenset(), frozenset(), has_factors=False)


def copied(body: Sequence[Instruction]) -> Copied:
    """The registers that have to be followed, so that the source of each byte of scale factors and metadata, and of
    tiles, is known.
    """
    if not any(map(_multiplies, body)):
        return NOTHING_COPIED
    has_factors = any(map(_takes_factors, body))
    stores = {id(i): stored_slots(i) for i in body if has_factors or i.op != "tcgen05"}
    operands = {id(i): fragment_slots(i) for i in body}
    copies = [i for i in body if i.op in COPIES and not _computes(i)]
    loads = {slot for i in body if _is_load(i) or (i.op == "ldmatrix" and any(operands.values())) for slot in i.given}
    loaded = _closed(loads, ((i.used, i.given) for i in copies))
    stored = _closed({slot for each in stores.values() for slot in each}, ((i.given, i.used) for i in copies))
    fragments = _closed({slot for each in operands.values() for slot in each}, ((i.given, i.used) for i in copies))
    slots = loaded & (stored | fragments)
    uses = {id(i): stores.get(id(i), NO_SLOTS) | operands.get(id(i), NO_SLOTS) for i in body}
    instructions = frozenset(id(i) for i in body if i.given & slots or uses[id(i)] & slots or _is_copy(i))
    return Copied(frozenset(slots), instructions, has_factors=has_factors, fragments=frozenset(fragments - stored))


def stored_slots(i: Instruction) -> frozenset[int]:
    """The registers whose values an instruction stores to shared or tensor memory, or takes as metadata."""
    if i.op == "st" and _OTHER_SPACES.isdisjoint(i.modifiers) and "global" not in i.modifiers and len(i.operands) > 1:
        return slots_in(i.operands[1])
    if i.op == "stmatrix" or (i.op == "tcgen05" and i.modifiers[:1] == ("st",)):
        return slots_in(i.operands[-1])
    if i.op == "wgmma" and "sp" in i.modifiers and len(i.operands) > 3:
        return slots_in(i.operands[3])
    if _is_followed_mma(i):  # behind D, A, B and C: metadata and its selector, scale factors of A and B and theirs
        behind = i.operands[4:]
        metadata = behind[:1] if not _SPARSE.isdisjoint(i.modifiers) else ()
        scales = behind[2 * len(metadata) :: 2] if "block_scale" in i.modifiers else ()
        return frozenset().union(*(slots_in(operand) for operand in (*metadata, *scales)))
    return frozenset()


def fragment_slots(i: Instruction) -> frozenset[int]:
    """The registers of A and B of an mma.sync."""
    is_one = i.op == "mma" and len(i.operands) > 3
    return slots_in(i.operands[1]) | slots_in(i.operands[2]) if is_one else NO_SLOTS


def _is_followed_mma(i: Instruction) -> bool:
    return i.op == "mma" and not ({"block_scale"} | _SPARSE).isdisjoint(i.modifiers)


def _multiplies(i: Instruction) -> bool:
    return (i.op in ("wgmma", "tcgen05") and not {"mma_async", "mma"}.isdisjoint(i.modifiers)) or i.op == "mma"


def _takes_factors(i: Instruction) -> bool:
    of_wgmma = i.op == "wgmma" and "sp" in i.modifiers
    return of_wgmma or _is_followed_mma(i) or (i.op == "tcgen05" and not {"block_scale", "sp"}.isdisjoint(i.modifiers))


def _computes(i: Instruction) -> bool:
    """Does it give a floating-point number that is none of its operands?"""
    return i.op in ("add", "cvt", "mad", "mul") and any(word.partition("x")[0] in FLOATS for word in i.modifiers)


def _is_copy(i: Instruction) -> bool:
    return i.op == "cp" and i.modifiers[:1] == ("async",) and i.modifiers[1:2] in (("ca",), ("cg",))


def _is_load(i: Instruction) -> bool:
    return i.op in ("ld", "ldu") and _OTHER_SPACES.isdisjoint(i.modifiers)


def _closed(slots: set[int], steps: Iterable[tuple[frozenset[int], frozenset[int]]]) -> set[int]:
    """The slots that steps from one set to another lead to."""
    steps = list(steps)
    before = -1
    while len(slots) != before:
        before = len(slots)
        for come_from, go_to in steps:
            if come_from & slots:
                slots |= go_to
    return slots
