"""Tiles whose place in global memory is looked up in memory: page tables, lists of blocks, packed sparsity.

Then any order of k may be meant: the data decides it, and what the kernel does is no evidence of a fault. A number that
a kernel draws from a counter, as persistent kernels draw that of a tile, says nothing about k, and is not looked up.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Collection, Iterable, Sequence

from smemsim.core.finding import Finding, InLaunch
from smemsim.core.ptx.module import Address, Instruction, slots_in
from smemsim.core.ptx.origins import symbols_behind
from smemsim.core.spec.findings import Severity
from smemsim.run.lower.dataflow import givers_of
from smemsim.run.lower.program import Program

__all__ = ["MEANT", "address_slots", "are_looked_up", "milder_if_looked_up"]

MEANT = "the place of this tile is looked up in memory, so the order may be meant"
_COUNTS = frozenset(("add", "dec", "inc", "sub"))
_SHARED = frozenset(("shared", "shared::cta"))
_LOADS = ("ld", "ldu", "atom", "ldmatrix", "tex")
# the answers of `are_looked_up`
_answers: weakref.WeakKeyDictionary[Program, dict[frozenset[int], bool]] = weakref.WeakKeyDictionary()


def are_looked_up(program: Program, slots: Iterable[int]) -> bool:
    """Do these registers depend on a value that the kernel has loaded? Parameters and counters do not count."""
    answers, asked = _answers.setdefault(program, {}), frozenset(slots)
    if asked not in answers:
        answers[asked] = any(not _is_counted(program, load, frozenset()) for load in _loads_behind(program, asked))
    return answers[asked]


def _is_counted(program: Program, load: Instruction, seen: frozenset[Address]) -> bool:
    """Does a load bring the number of a counter, or a word of shared memory that holds only what the kernel has
    computed from such numbers? It does not if a copy may bring the word.
    """
    if load.op == "atom":
        return not _COUNTS.isdisjoint(load.modifiers)
    place = load.operands[1] if len(load.operands) > 1 else None
    if load.op != "ld" or not isinstance(place, Address) or _SHARED.isdisjoint(load.modifiers):
        return False
    if place in seen:
        return True
    if any(len(givers_of(program).get(slot, ())) > 1 for slot in slots_in(place)):
        return False
    body = program.inlined.body
    others = [i for i in body if _writes_later(i) and _may_meet(body, i, place)]
    if any(i.op == "cp" for i in others):
        return False
    stores = [i for i in body if i.op == "st" and i.operands[0] == place and not _SHARED.isdisjoint(i.modifiers)]
    given = [each for store in (*stores, *others) for each in _loads_behind(program, _data_slots(store))]
    return bool(stores or others) and all(_is_counted(program, each, seen | {place}) for each in given)


def _writes_later(i: Instruction) -> bool:
    """Is an instruction a store or a copy to shared memory that another CTA, or a copy engine, carries out? A copy of a
    tensor's tile brings no table.
    """
    if i.op == "st":
        return "shared::cluster" in i.modifiers
    return i.op == "cp" and not {"shared", "shared::cta", "shared::cluster"}.isdisjoint(i.modifiers[:3]) and "tensor" not in i.modifiers


def _may_meet(body: Sequence[Instruction], i: Instruction, place: Address) -> bool:
    """May an instruction write to an address: is it of the same variable, or not known?"""
    to = i.operands[0]
    one, other = (symbols_behind(body, address) if isinstance(address, Address) else frozenset() for address in (to, place))
    return not (one and other) or not one.isdisjoint(other)


def _loads_behind(program: Program, slots: Iterable[int]) -> list[Instruction]:
    """The loads from memory that registers are computed from; what these loads' addresses are
    computed from is not looked at.
    """
    givers, pending, seen, found = givers_of(program), list(slots), set[int](), []
    while pending:
        slot = pending.pop()
        if slot in seen:
            continue
        seen.add(slot)
        for i in givers.get(slot, ()):
            if i.op in _LOADS and "param" not in i.modifiers:
                found.append(i)
            elif i.op not in ("ld", "clusterlaunchcontrol"):  # the answer of that is the number of a CTA
                pending += [n for operand in i.operands for n in slots_in(operand) if n not in i.given]
    return found


def address_slots(i: Instruction) -> set[int]:
    """The registers of the address that a load or a copy reads."""
    operands = i.operands[1:2] if i.op == "cp" else i.operands
    return {slot for operand in operands if isinstance(operand, Address) for slot in slots_in(operand)}


def milder_if_looked_up(f: Finding, program: Program) -> Finding:
    """A finding about what threads have copied; a remark if the place that they copy from is looked up."""
    i = f.at.instruction if isinstance(f.at, InLaunch) else None
    if i is None or f.code != "R508" or f.severity is Severity.NOTE:
        return f
    if not any(are_looked_up(program, address_slots(source)) for source in _sources(program, i)):
        return f
    return dataclasses.replace(f, severity=Severity.NOTE, why="; ".join(part for part in (f.why, MEANT) if part))


def _sources(program: Program, writer: Instruction) -> Collection[Instruction]:
    """The readers of a tile in global memory. Each copy of the program may be one if the writer is not known, or if it
    stores what it may have loaded from shared memory.
    """
    if writer.op == "cp":
        return (writer,)
    own = _loads_behind(program, _data_slots(writer)) if writer.op == "st" else []
    if own and all("global" in load.modifiers for load in own):
        return own
    body = program.inlined.body
    stores = {slot for i in body if i.op == "st" for slot in _data_slots(i)}
    return [*(i for i in body if i.op == "cp"), *_loads_behind(program, stores)]


def _data_slots(store: Instruction) -> set[int]:
    return {slot for operand in store.operands if not isinstance(operand, Address) for slot in slots_in(operand)}
