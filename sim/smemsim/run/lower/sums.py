"""Instructions of a program that make one value of several elements of an array: sums, products, maxima.

An uninitialised element that is only copied or changed alone may be padding. A value made of several elements is a
result (rule memory.allocated).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Set
from typing import NamedTuple

from smemsim.core.ptx.module import Address, Instruction, Label, Operand, Register, Vector, slots_in
from smemsim.run.isa.registers import bits_of
from smemsim.run.lower.dataflow import givers_of
from smemsim.run.lower.fused import COMPUTING
from smemsim.run.lower.program import Program

__all__ = ["ELEMENT", "Sums", "Terms", "sums"]


MOVES = frozenset(("cvt", "cvta", "mov", "selp", "slct"))
COMBINES = frozenset(("add", "fma", "fused", "mad", "max", "min", "sub"))  # also with elements of their own kind
ELEMENT = 16  # bytes; a vector of four floats is one element
_OWN = frozenset(("const", "param"))  # spaces whose loads bring parameters
_ARRAYS = frozenset(("global", "local"))
_LOCAL = frozenset[int]()  # the array that local memory is
_SHARED = frozenset(("shared", "shared::cta"))


class Place(NamedTuple):
    """What a load reads: from a register's value plus `first` up to `end`."""

    base: int
    first: int
    end: int


class Terms(NamedTuple):
    """The registers of two terms of a sum, each with elements of one array, and where these lie. Far elements are
    certain to be no neighbours.
    """

    one: frozenset[int]
    other: frozenset[int]
    places: frozenset[Place]
    are_far: bool


class Sums(NamedTuple):
    """Instructions that add up elements over a loop, over lanes, or in shared memory are `always` (their `id`). Those
    that add up two terms with elements of one array are in `of_two`.
    """

    always: frozenset[int]
    of_two: dict[int, Terms]


_sums: weakref.WeakKeyDictionary[Program, Sums] = weakref.WeakKeyDictionary()


def sums(program: Program) -> Sums:
    """The sums of a program."""
    if program not in _sums:
        found = _Values(program)
        _sums[program] = Sums(frozenset((*found.of_loops(), *found.of_lanes(), *found.of_shared_memory())), dict(found.of_two()))
    return _sums[program]


class _Values:
    """The origins of the values of registers."""

    def __init__(self, program: Program) -> None:
        self.program, self.body, self.givers = program, program.inlined.body, givers_of(program)
        self.places = {id(i): n for n, i in enumerate(self.body)}

    def _before(self, i: Instruction) -> Iterator[Instruction]:
        """The instructions that give the registers that an instruction reads their values."""
        for slot, gives in i.mentions:
            if not gives:
                yield from self.givers.get(slot, ())

    def _behind(self, slots: frozenset[int], by: Set[str] = COMPUTING) -> list[Instruction]:
        """The instructions that compute the values of registers, with the first instructions that are not of these
        operations.
        """
        found, pending = dict[int, Instruction](), [i for slot in slots for i in self.givers.get(slot, ())]
        while pending:
            i = pending.pop()
            if id(i) not in found:
                found[id(i)] = i
                if i.op in by:
                    pending += self._before(i)
        return list(found.values())

    # ---- over a loop

    def of_loops(self) -> Iterator[int]:
        """Instructions whose result goes into their own next result, with what the loop loads or exchanges."""
        labels = self.program.inlined.labels
        loops = sorted(
            (
                range(labels[to.name], n + 1)
                for n, i in enumerate(self.body)
                if i.op == "bra" and isinstance(to := i.operands[0], Label) and labels[to.name] <= n
            ),
            key=len,
        )
        for loop in loops:
            own = [self.body[n] for n in loop if self.body[n].op in COMPUTING]
            yield from (id(i) for cycle in self._cycles(own) for i in cycle if i.op not in MOVES and self._takes_loads(cycle, loop))

    def _cycles(self, own: list[Instruction]) -> Iterator[list[Instruction]]:
        """The sets of these instructions that go into one another."""
        inside = {id(i) for i in own}
        after = dict[int, list[Instruction]]()
        before = {id(i): [b for b in self._before(i) if id(b) in inside] for i in own}
        for i in own:
            for b in before[id(i)]:
                after.setdefault(id(b), []).append(i)
        # what no instruction of the set goes into, or what goes into none, is in no cycle
        for near, far in ((before, after), (after, before)):
            count = {id(i): len([b for b in near.get(id(i), ()) if id(b) in inside]) for i in own}
            pending = [n for n in inside if not count[n]]
            while pending:
                gone = pending.pop()
                inside.discard(gone)
                for i in far.get(gone, ()):
                    count[id(i)] -= 1
                    if not count[id(i)] and id(i) in inside:
                        pending.append(id(i))
        left = [i for i in own if id(i) in inside]
        while left:
            one = left[0]
            cycle = self._reach(one, before, inside) & self._reach(one, after, inside)
            yield [i for i in left if id(i) in cycle]
            left = [i for i in left if id(i) not in cycle and i is not one]

    @staticmethod
    def _reach(one: Instruction, to: dict[int, list[Instruction]], inside: set[int]) -> set[int]:
        found, pending = set[int](), [one]
        while pending:
            new = [i for i in to.get(id(pending.pop()), ()) if id(i) in inside and id(i) not in found]
            found |= {id(i) for i in new}
            pending += new
        return found

    def _takes_loads(self, cycle: list[Instruction], loop: range) -> bool:
        slots = frozenset(slot for i in cycle for slot, gives in i.mentions if not gives)
        return any(i.op in ("ld", "shfl") and _OWN.isdisjoint(_space(i)) and self.places[id(i)] in loop for i in self._behind(slots))

    # ---- over lanes, and in shared memory

    def of_lanes(self) -> Iterator[int]:
        """The instructions that combine a value with that of another lane."""
        for i in self.body:
            if i.op not in COMBINES:
                continue
            sides = [self._behind(frozenset(slots_in(operand)), MOVES) for operand in i.operands[1:]]
            for n, side in enumerate(sides):
                others = {id(b) for m, other in enumerate(sides) if m != n for b in other}
                taken = frozenset(slot for shfl in side if shfl.op == "shfl" for slot in slots_in(shfl.operands[1]))
                if any(id(b) in others for b in self._behind(taken, MOVES)):
                    yield id(i)
                    break

    def of_shared_memory(self) -> Iterator[int]:
        """The instructions that combine a word of shared memory with others, and store it there again."""
        for store in self.body:
            if store.op != "st" or _SHARED.isdisjoint(store.modifiers):
                continue
            for made in self._behind(frozenset(slots_in(store.operands[1])), MOVES) if len(store.operands) > 1 else ():
                sides = [self._behind(frozenset(slots_in(operand)), MOVES) for operand in made.operands[1:]]
                loads = {id(b): b for side in sides for b in side if b.op == "ld" and not _SHARED.isdisjoint(b.modifiers)}
                if made.op in COMBINES and len(loads) > 1 and any(b.operands[1] == store.operands[0] for b in loads.values()):
                    yield id(made)

    # ---- of elements at one base

    def of_two(self) -> Iterator[tuple[int, Terms]]:
        """The instructions that combine elements of one array."""
        for i in self.body:
            if i.op not in COMBINES:
                continue
            one, other = self._sides(i)
            if one and other and (found := self._terms(one, other)) is not None:
                yield id(i), found

    @staticmethod
    def _sides(i: Instruction) -> tuple[frozenset[int], frozenset[int]]:
        """The registers of the two terms of a sum."""
        first, *others = i.operands[1:]
        if i.op in ("fma", "fused", "mad") and others:
            terms: tuple[list[Operand], list[Operand]] = [first, *others[:-1]], others[-1:]
        else:
            terms = [first], others
        one, other = (frozenset(slot for operand in term for slot in slots_in(operand)) for term in terms)
        return one, other

    def _terms(self, one: frozenset[int], other: frozenset[int]) -> Terms | None:
        first, second = self._places(one), self._places(other)
        if not (first and second):
            return None
        for array in first.keys() & second.keys():
            places = first[array] | second[array]
            for base in {place.base for place in first[array]} & {place.base for place in second[array]}:
                own = frozenset(place for place in places if place.base == base)
                if max(place.end for place in own) - min(place.first for place in own) > ELEMENT:
                    return Terms(one, other, own, are_far=True)
            if len(places) > 1:
                return Terms(one, other, frozenset(places), are_far=False)
        return None

    def _places(self, slots: frozenset[int]) -> dict[frozenset[int], set[Place]]:
        """The reads of global and local memory by loads whose values reach these registers, by array. An array is the
        parameters of 64 bits, or the register, that the address comes from; local memory is one array.
        """
        found = dict[frozenset[int], set[Place]]()
        for i in self._behind(slots):
            address = i.operands[1] if i.op == "ld" and len(i.operands) > 1 else None
            if isinstance(address, Address) and isinstance(address.base, Register) and not _ARRAYS.isdisjoint(_space(i)):
                items = len(i.operands[0].items) if isinstance(i.operands[0], Vector) else 1
                end = address.offset + items * bits_of(i.modifiers[-1]) // 8
                array = _LOCAL if "local" in _space(i) else self._array(address.base.slot)
                found.setdefault(array, set()).add(Place(address.base.slot, address.offset, end))
        return found

    def _array(self, slot: int) -> frozenset[int]:
        behind = self._behind(frozenset((slot,)))
        pointers = frozenset(id(i) for i in behind if i.op == "ld" and "param" in _space(i) and bits_of(i.modifiers[-1]) == 64)
        return pointers or frozenset((-1 - slot,))


def _space(i: Instruction) -> frozenset[str]:
    return frozenset(i.modifiers)
