"""Which registers carry bytes of global memory, as they are, to shared or tensor memory: by the text of a program,
before it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smemsim.core.ptx.module import Instruction, slots_in

__all__ = ["NOTHING_COPIED", "Copied", "copied"]


COPIES = frozenset(
    ("add", "and", "bfe", "bfi", "cvt", "mad", "mov", "mul", "or", "prmt", "selp", "shl", "shr", "xor")
)  # that may move bytes and leave them as they are
NO_SLOTS: frozenset[int] = frozenset()
_OTHER_SPACES = frozenset(("param", "param::entry", "param::func", "const", "local"))


class Copied(NamedTuple):
    """The slots of registers that may hold bytes of global memory which are stored, and the instructions, by
    identity, that give them values or store them.
    """

    slots: frozenset[int]
    instructions: frozenset[int]
    # Has the program scale factors or metadata, which are small? Then all of its copies are followed.
    has_factors: bool


NOTHING_COPIED = Copied(frozenset(), frozenset(), has_factors=False)


def copied(body: Sequence[Instruction]) -> Copied:
    """What has to be followed, so that the source of each byte of scale factors and metadata, and of
    tiles, is known.
    """
    if not any(map(_multiplies, body)):
        return NOTHING_COPIED
    has_factors = any(map(_takes_factors, body))
    stores = {id(i): stored_slots(i) for i in body if has_factors or i.op != "tcgen05"}
    copies = [i for i in body if i.op in COPIES]
    loaded = _closed({slot for i in body if _is_load(i) for slot in i.given}, ((i.used, i.given) for i in copies))
    stored = _closed({slot for each in stores.values() for slot in each}, ((i.given, i.used) for i in copies))
    slots = loaded & stored
    instructions = frozenset(id(i) for i in body if i.given & slots or stores.get(id(i), NO_SLOTS) & slots or _is_copy(i))
    return Copied(frozenset(slots), instructions, has_factors=has_factors)


def stored_slots(i: Instruction) -> frozenset[int]:
    """The registers whose values an instruction stores to shared or tensor memory, or takes as metadata."""
    if i.op == "st" and _OTHER_SPACES.isdisjoint(i.modifiers) and "global" not in i.modifiers and len(i.operands) > 1:
        return slots_in(i.operands[1])
    if i.op == "stmatrix" or (i.op == "tcgen05" and i.modifiers[:1] == ("st",)):
        return slots_in(i.operands[-1])
    if i.op == "wgmma" and "sp" in i.modifiers and len(i.operands) > 3:
        return slots_in(i.operands[3])
    return frozenset()


def _multiplies(i: Instruction) -> bool:
    return i.op in ("wgmma", "tcgen05") and not {"mma_async", "mma"}.isdisjoint(i.modifiers)


def _takes_factors(i: Instruction) -> bool:
    return (i.op == "wgmma" and "sp" in i.modifiers) or (i.op == "tcgen05" and not {"block_scale", "sp"}.isdisjoint(i.modifiers))


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
