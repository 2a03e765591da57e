"""Sources and uses of the values of a program, from its instructions in any order. They give the arrays that it may
write, and the stores that use a loaded value.

The race detector for global memory asks both. Both are conservative: what cannot be followed may come from anywhere,
and counts as used.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from smemsim.core.ptx.module import Address, Arguments, Immediate, Instruction, Label, Operand, Register, Symbol, Vector, slots_in
from smemsim.run.isa.registers import bits_of
from smemsim.run.lower.cfg import is_read
from smemsim.run.lower.fused import COMPUTING
from smemsim.run.lower.program import Program

__all__ = [
    "Root",
    "accumulations",
    "bit_fields",
    "bounds",
    "choices",
    "decides_alone",
    "givers_of",
    "is_in_vain",
    "is_polled",
    "looks_again",
    "may_follow",
    "read_back",
    "repeats",
    "stores_of",
    "takes_turns",
    "updates",
    "written",
]


class Choices(NamedTuple):
    """Branches over arithmetic only, which act like `selp`: by the branch's `id` the registers that may get another
    value, by that of an instruction that is branched over its condition.
    """

    results: dict[int, frozenset[int]]
    deciding: dict[int, Register]


class Root(NamedTuple):
    """The source of an address. It may be the 8 bytes of the parameters at an offset, or at any offset. It may be the
    parameters themselves there (a tensor map), or anywhere in them. It may be a variable by its name. Or it is a value
    that cannot be followed.
    """

    kind: str  # "parameter", "map", "maps", "parameters", "variable", "unknown"
    offset: int = 0
    name: str = ""


Roots: TypeAlias = frozenset[Root]
NONE: Roots = frozenset()
UNKNOWN: Roots = frozenset((Root("unknown"),))
ANY_MAP = Root("maps")
# atomics after a read of the value: it can only have advanced since
MONOTONE = frozenset(("and", "cas", "max", "min", "or"))
LONGEST = 16  # instructions that a branch may pass over, and still be a choice
# places in the parameters that one register may hold the address of, one after the other, before it may be any
MAPS = 64
# reductions of which the second changes nothing, and swaps: after a store of the value that they left, they leave it
# again
_REPEATING = MONOTONE | {"exch"}
# of all but the first, the first operand is what is written
_WRITE = {"atom", "cp", "multimem", "red", "st", "tensormap", "wmma"}
_OF_MAPS = ("map", "maps")
_SAME = {"cvt", "cvta", "mov", "selp", "slct"}  # what leaves an address as it is
_SYSTEM = {"vprintf", "__assertfail", "cudaGraphSetConditional"}  # functions that write to no array of the kernel
_PASSES_ON = COMPUTING | {"match", "redux", "shfl", "vote"}

_IDEMPOTENT = frozenset({"and", "cvt", "max", "min", "mov", "or", "selp", "slct"})  # done once more they change nothing
_CHOICES = frozenset({"selp", "slct"})  # which of the two stays may be all the same

_written: weakref.WeakKeyDictionary[Program, Roots] = weakref.WeakKeyDictionary()
_updates: weakref.WeakKeyDictionary[Program, dict[int, Instruction]] = weakref.WeakKeyDictionary()
_accumulations: weakref.WeakKeyDictionary[Program, frozenset[int]] = weakref.WeakKeyDictionary()
_bounds: weakref.WeakKeyDictionary[Program, frozenset[int]] = weakref.WeakKeyDictionary()
_choices: weakref.WeakKeyDictionary[Program, Choices] = weakref.WeakKeyDictionary()
_bit_fields: weakref.WeakKeyDictionary[Program, frozenset[int]] = weakref.WeakKeyDictionary()
_of_programs: weakref.WeakKeyDictionary[Program, _Uses] = weakref.WeakKeyDictionary()
_stores: weakref.WeakKeyDictionary[Program, dict[int, frozenset[int] | None]] = weakref.WeakKeyDictionary()


# ---- Where addresses come from


def written(program: Program) -> Roots:
    """The sources of the addresses that the program may write in global memory.

    A pointer is followed through arithmetic, not through memory: one that is loaded is unknown.
    """
    if program not in _written:
        _written[program] = NONE.union(*_written_roots(program))
    return _written[program]


def _written_roots(program: Program) -> Iterator[Roots]:
    sources = _Sources(program)
    for i in program.inlined.body:
        if i.op == "call" and not _is_system(i):
            yield UNKNOWN
        if i.op not in _WRITE or {"local", "shared", "shared::cta", "shared::cluster"}.intersection(i.modifiers[:1]):
            continue
        for operand in i.operands if i.op == "atom" else i.operands[:1]:
            if isinstance(operand, Address):
                roots = sources.moved(sources.of(operand.base), operand.offset)
                is_elsewhere = operand.coordinates is not None and any(root.kind not in _OF_MAPS for root in roots)
                yield UNKNOWN if is_elsewhere else roots  # what a tensor map in memory says


def read_back(program: Program) -> Roots:
    """The origins of the addresses that the program loads from in global memory."""
    sources = _Sources(program)
    return NONE.union(
        *(
            sources.moved(sources.of(operand.base), operand.offset)
            for i in program.inlined.body
            if i.op == "ld" and not {"local", "param", "shared", "shared::cta", "shared::cluster"}.intersection(i.modifiers)
            for operand in i.operands[1:]
            if isinstance(operand, Address)
        )
    )


def takes_turns(program: Program) -> bool:
    """Do threads go by what atomic operations bring, as by the tickets of a queue?"""
    used = frozenset[int]().union(*(i.used for i in program.inlined.body))
    return any(i.op == "atom" and not used.isdisjoint(i.given) for i in program.inlined.body)


def _is_system(i: Instruction) -> bool:
    return any(isinstance(operand, Symbol) and operand.name in _SYSTEM for operand in i.operands)


class _Sources:
    """The sources of the values of every register."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parameters = {p.name: program.places.of(p.name).offset for p in program.places.parameters}
        self.parameter_bytes = program.places.parameter_bytes
        self.variables = {v.name for v in program.places.globals}
        self.found: dict[int, Roots] = {}
        body = program.inlined.body
        readers: dict[int, list[Instruction]] = {}
        for i in body:
            for slot in i.used:
                readers.setdefault(slot, []).append(i)
        left = list(reversed(body))  # from the first one on: most sources are known before what is made of them
        while left:
            i = left.pop()
            for slot, given in self._results(i):
                before = self.found.get(slot, NONE)
                # a loop that goes over them
                is_walk = ANY_MAP not in given and sum(root.kind == "map" for root in before | given) > MAPS
                roots = self.moved(given, None) if is_walk else given
                if not roots <= before:
                    self.found[slot] = before | roots
                    left += readers.get(slot, ())

    def of(self, operand: Operand) -> Roots:
        """The source of the value of an operand; of a symbol its address."""
        if isinstance(operand, Register):  # by far the most
            return self.found.get(operand.slot, NONE)
        if isinstance(operand, Symbol):
            if operand.name in self.parameters:
                return frozenset((Root("map", self.parameters[operand.name] + operand.offset),))
            return frozenset((Root("variable", 0, operand.name),)) if operand.name in self.variables else NONE
        return NONE.union(*(self.found.get(slot, NONE) for slot in slots_in(operand)))

    def _results(self, i: Instruction) -> Iterator[tuple[int, Roots]]:
        given = i.given
        if not given or i.op == "setp":
            return
        if i.op in ("ld", "ldu", "atom"):
            yield from self._loaded(i, given)
            return
        if i.op == "call" or (i.op == "mov" and i.modifiers[-1:] == ("b64",) and any(isinstance(x, Vector) for x in i.operands[1:])):
            roots = UNKNOWN
        else:
            roots = self._computed(i)
        for slot in given:
            yield slot, roots

    def _computed(self, i: Instruction) -> Roots:
        """The source of the result of arithmetic: an offset in the parameters moves by what is added to it."""
        roots = NONE.union(*map(self.of, i.operands[1:]))
        if i.op in _SAME:
            return roots
        added = [x.value for x in i.operands[1:] if isinstance(x, Immediate)]
        if i.op == "add" and len(added) == 1:
            return self.moved(roots, added[0])
        return self.moved(roots, None)

    def moved(self, roots: Roots, offset: int | None) -> Roots:
        """The same, some bytes further; None: at an unknown distance. After the parameters, or at too many places of
        them, it is any place.
        """
        if offset == 0 or not any(root.kind == "map" for root in roots):
            return roots
        places = {root.offset + offset for root in roots if root.kind == "map"} if offset is not None else set()
        is_known = 0 < len(places) <= MAPS and all(0 <= place < self.parameter_bytes for place in places)
        others = {root for root in roots if root.kind != "map"}
        return frozenset(others | ({Root("map", place) for place in places} if is_known else {ANY_MAP}))

    def _loaded(self, i: Instruction, given: frozenset[int]) -> Iterator[tuple[int, Roots]]:
        """Pointers that are loaded: of parameters it is known which."""
        if not i.modifiers[-1].endswith("64"):
            return
        address = i.operands[1]
        base = address.base if isinstance(address, Address) else address
        if isinstance(base, Symbol) and base.name in self.parameters:
            offset = self.parameters[base.name] + base.offset + (address.offset if isinstance(address, Address) else 0)
            items: Iterable[Operand] = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
            for n, item in enumerate(items):
                if isinstance(item, Register):
                    yield item.slot, frozenset((Root("parameter", offset + 8 * n),))
            return
        of_parameters = i.modifiers[0].startswith("param") and any(root.kind in _OF_MAPS for root in self.of(base))
        for slot in given:
            yield slot, frozenset((Root("parameters"),)) if of_parameters else UNKNOWN


# ---- Where loaded values go


def stores_of(program: Program, load: Instruction) -> frozenset[int] | None:
    """The stores and reductions in global memory (their `id`) that use a loaded value; None if another instruction uses
    it: a branch, a guard, shared memory, a matrix instruction.
    """
    known = _stores.setdefault(program, {})
    if id(load) not in known:
        known[id(load)] = _uses(_uses_of(program), load, choices(program).results) if load.op == "ld" else None
    return known[id(load)]


def is_in_vain(program: Program, load: Instruction) -> bool:
    """Does a load fill registers that no instruction uses, or that are overwritten before?"""
    if load.op not in ("ld", "ldmatrix"):
        return False
    return not is_read(load, program.inlined, counts_copies=True)


def repeats(program: Program, i: Instruction) -> bool:
    """Would an instruction that has left a value in memory leave the same one, and give the same result, if a store of
    this value came first? A sum would not, and neither would an atomic operation whose result is used.
    """
    if i.op in ("atom", "red") or (i.op == "cp" and "reduce" in i.modifiers):
        return not _REPEATING.isdisjoint(i.modifiers) and not any(_uses_of(program).readers.get(slot) for slot in i.given)
    return True


def _uses(uses: _Uses, load: Instruction, chosen: Mapping[int, frozenset[int]]) -> frozenset[int] | None:
    values = load.given
    stores: set[int] = set()
    pending = list(values)
    while pending:
        slot = pending.pop()
        for i in uses.readers.get(slot, ()):
            is_guard = i.guard is not None and i.guard.slot == slot
            if i.op in ("st", "red", "atom") and "global" in i.modifiers and not is_guard:
                stores.add(id(i))
            elif i.op not in _PASSES_ON and id(i) not in chosen:
                return None
            else:  # a branch over arithmetic chooses what registers hold
                new = chosen.get(id(i), i.given) - values
                values |= new
                pending += new
    return frozenset(stores)


class _Uses:
    """For each register, the instructions that write it, and those that read it. A call
    reads all that its lists name.
    """

    def __init__(self, program: Program) -> None:
        self.givers: dict[int, list[Instruction]] = {}
        self.readers: dict[int, list[Instruction]] = {}
        for i in program.inlined.body:
            for slot, gives in set(i.mentions):
                (self.givers if gives else self.readers).setdefault(slot, []).append(i)
            for item in (item for operand in i.operands if isinstance(operand, Arguments) for item in operand.items):
                for slot in slots_in(item):
                    self.readers.setdefault(slot, []).append(i)

    def made_of(self, load: Instruction, by: Collection[str]) -> set[int]:
        """The registers that hold nothing but what these operations make of what a load brings, and constants from
        before it.
        """
        mixed = set[int]()
        while True:
            values = set(load.given - mixed)
            pending = list(values)
            while pending:
                for i in self.readers.get(pending.pop(), ()):
                    new = i.given - mixed - values if i.op in by else set()
                    values |= new
                    pending += new
            others = {slot for slot in values if not all(i is load or _stays(i, values, by) for i in self.givers[slot])}
            if not others:
                return values
            mixed |= others


def updates(program: Program) -> dict[int, Instruction]:
    """The stores (their `id`) of what arithmetic makes of a value that was loaded from the same address, register and
    offset, each with that load.

    Both must be the same place. So the address is a variable, or in a register that one instruction writes, or in one
    that none writes in between. A loop that loads until the awaited value comes is left out: such a thread stores after
    the store it has waited for (PTX ISA 9.1 §8.9: coherence).
    """
    if program not in _updates:
        _updates[program] = {id(store): load for store, load in _stored_again(program, _PASSES_ON)}
    return _updates[program]


def accumulations(program: Program) -> frozenset[int]:
    """The `updates` whose value has passed an operation that gives something else each time that it is done, as add
    and not as max.
    """
    if program not in _accumulations:
        _accumulations[program] = frozenset(updates(program)) - {id(store) for store, _ in _stored_again(program, _IDEMPOTENT)}
    return _accumulations[program]


def bounds(program: Program) -> frozenset[int]:
    """The `updates` that set bits or move a bound: of two that are done from one value, one is lost
    where they differ.
    """
    if program not in _bounds:
        _bounds[program] = frozenset(id(store) for store, _ in _stored_again(program, _IDEMPOTENT - _CHOICES)) - accumulations(program)
    return _bounds[program]


def bit_fields(program: Program) -> frozenset[int]:
    """The loads (their `id`) of the neighbours of a bit field: masked by a number, combined with the field, and stored
    back.

    Compilers write bit fields in this way. With `atom.cas` instead of the store, numbers of four bits are written
    (CUTLASS, subbyte_reference.h); then the atomic operation is one of those loads. The other bits do not matter to a
    reader of the field alone.
    """
    if program not in _bit_fields:
        body, uses = program.inlined.body, _uses_of(program)
        stores = [i for i in body if i.op == "st" and isinstance(i.operands[0], Address)]
        plain = frozenset(id(i) for i in body if i.op == "ld" and _is_beside_a_field(i, stores, uses))
        swaps = [i for i in body if i.op == "atom" and "cas" in i.modifiers]
        _bit_fields[program] = plain.union(*(map(id, _beside_a_swapped_field(i, uses)) for i in swaps))
    return _bit_fields[program]


def _beside_a_swapped_field(swap: Instruction, uses: _Uses) -> list[Instruction]:
    """The instructions that compute the value that a compare-and-swap puts a field into: loads and itself. There are
    none if anything else uses that value.
    """
    compare, new = swap.operands[2:4]
    if not isinstance(compare, Register) or not isinstance(new, Register):
        return []
    values, brought, pending = {compare.slot}, {id(swap): swap}, [compare.slot]
    while pending:
        for i in uses.givers.get(pending.pop(), ()):
            if i.op == "mov" and isinstance(i.operands[1], Register):
                pending += {i.operands[1].slot} - values
                values.add(i.operands[1].slot)
            elif i is swap or (i.op == "ld" and bits_of(i.modifiers[-1]) == bits_of(swap.modifiers[-1])):
                brought[id(i)] = i
            else:
                return []
    masked = {slot for i in _givers_of(new.slot, "or", uses) for slot in i.used}
    masks = {id(i) for slot in masked for i in _givers_of(slot, "and", uses)}
    for i in {id(i): i for slot in values for i in uses.readers.get(slot, ())}.values():
        is_compared = i.op == "setp" and values.issuperset(i.used)
        if not (i is swap or is_compared or id(i) in masks or (i.op == "mov" and values.issuperset(i.given))):
            return []
    return list(brought.values()) if masks else []


def _givers_of(slot: int, op: str, uses: _Uses) -> list[Instruction]:
    """The instructions that give a register its value, where all of them are such operations."""
    givers = uses.givers.get(slot, [])
    return givers if all(i.op == op for i in givers) else []


def _is_beside_a_field(load: Instruction, stores: Sequence[Instruction], uses: _Uses) -> bool:
    to, address, *_ = load.operands  # after them, a cache policy
    readers = uses.readers.get(to.slot, ()) if isinstance(to, Register) else ()
    if not readers or not all(i.op == "and" and isinstance(i.operands[2], Immediate) for i in readers):
        return False
    values, size = set(load.given), bits_of(load.modifiers[-1]) // 8
    pending = list(values)
    while pending:
        new = {slot for i in uses.readers.get(pending.pop(), ()) if i.op in ("and", "or") for slot in i.given} - values
        values |= new
        pending += new
    for store in stores:
        given = store.operands[1].items if isinstance(store.operands[1], Vector) else (store.operands[1],)
        fits = bits_of(store.modifiers[-1]) // 8 == size and isinstance(address, Address)
        for n, item in enumerate(given if fits else ()):
            if isinstance(item, Register) and item.slot in values and _lies_behind(store.operands[0], n * size, address, uses):
                return True
    return False


def _lies_behind(begin: Operand, by: int, address: Operand, uses: _Uses) -> bool:
    """Is an address so many bytes after another one, of the same variable, or of a register that gets
    one value only?
    """
    if not isinstance(begin, Address) or not isinstance(address, Address) or begin.base != address.base:
        return False
    is_fixed = not isinstance(begin.base, Register) or len(uses.givers.get(begin.base.slot, ())) == 1
    return is_fixed and begin.offset + by == address.offset


def choices(program: Program) -> Choices:
    """The branches forward over a few instructions of arithmetic that lead nowhere else."""
    if program not in _choices:
        found = _choices[program] = Choices({}, {})
        body, labels = program.inlined.body, program.inlined.labels
        entries = set(labels.values())
        for at, i in enumerate(body):
            if i.op != "bra" or i.guard is None or not isinstance(i.operands[0], Label):
                continue
            over = range(at + 1, labels[i.operands[0].name])
            passed = [body[n] for n in over]
            if (
                not 0 < len(over) <= LONGEST
                or not entries.isdisjoint(over)
                or not all(p.op in COMPUTING and p.guard is None for p in passed)
            ):
                continue
            results = frozenset().union(*(p.given for p in passed))
            if i.guard.slot not in results:
                found.results[id(i)] = results
                found.deciding.update((id(p), i.guard) for p in passed)
    return _choices[program]


def givers_of(program: Program) -> dict[int, list[Instruction]]:
    """For each register, the instructions that write it."""
    return _uses_of(program).givers


def _uses_of(program: Program) -> _Uses:
    if program not in _of_programs:
        _of_programs[program] = _Uses(program)
    return _of_programs[program]


def _stored_again(program: Program, by: Collection[str]) -> Iterator[tuple[Instruction, Instruction]]:
    """(store, load) of what these operations make of a value at its own place."""
    body, uses = program.inlined.body, _uses_of(program)
    stores: dict[tuple[str, int | str, int], list[Instruction]] = {}
    for i in body:
        if i.op == "st" and (place := _place(i, uses)) is not None:
            stores.setdefault(place, []).append(i)
    updates: dict[tuple[str, int | str, int], list[tuple[Instruction, Instruction]]] = {}
    for load in body:
        if load.op != "ld" or (place := _place(load, uses)) is None or place not in stores:
            continue
        values = uses.made_of(load, by)
        polls = _is_polled(program, load, values)
        for store in stores[place]:
            if polls and _comes_back(program, load, store):
                continue
            if not values.isdisjoint(slots_in(store.operands[1])):
                updates.setdefault(place, []).append((store, load))
    for place, store, load in _stored_in_line(program, by):
        if not (_is_polled(program, load, uses.made_of(load, by)) and _comes_back(program, load, store)):
            updates.setdefault(place, []).append((store, load))
    for of_place in updates.values():
        once = [_once(store, load, uses) for store, load in of_place]
        if None in once or len(set(once)) > 1:
            yield from of_place


def _stored_in_line(program: Program, by: Collection[str]) -> Iterator[tuple[tuple[str, int | str, int], Instruction, Instruction]]:
    """(place, store, load) of the same with addresses in registers that several instructions write: no label, and none
    of these, is between the load and the store.
    """
    body, begins, uses = program.inlined.body, {*program.inlined.labels.values()}, _uses_of(program)
    places = {id(i): _place(i, uses, is_steady=False) for i in body if i.op in ("ld", "st") and _place(i, uses) is None}
    stored = {place for i in body if i.op == "st" and (place := places.get(id(i))) is not None}
    if not stored:
        return
    for at, load in enumerate(body):
        place = places.get(id(load))
        if load.op != "ld" or place not in stored:
            continue
        values = {*load.given}
        for n in range(at + 1, len(body)):
            i = body[n]
            if n in begins or place[1] in values:
                break
            if i.op == "st" and places.get(id(i)) == place and not values.isdisjoint(slots_in(i.operands[1])):
                yield place, i, load
            if place[1] in i.given:
                break
            if i.op in by and not values.isdisjoint(i.used):
                values |= i.given
            elif i.guard is None:
                values -= i.given


def _once(store: Instruction, load: Instruction, uses: _Uses) -> frozenset[tuple[str, Immediate]] | None:
    """The operation and the number, if a store sets bits or a bound that the program names (`or`, `max` with a number).

    If all threads do the same to a word, none of them can lose an update: the second one changes nothing. With two
    different numbers an update can be lost. None: the store does something else.
    """
    loaded = load.given
    done = set[tuple[str, Immediate]]()
    for i in (i for slot in slots_in(store.operands[1]) for i in uses.givers.get(slot, ())):
        numbers = [o for o in i.operands[1:] if isinstance(o, Immediate)]
        if i.op not in ("and", "max", "min", "or") or not all(
            isinstance(o, Immediate) or loaded.issuperset(slots_in(o)) for o in i.operands[1:]
        ):
            return None
        done.update((i.op, number) for number in numbers)
    return frozenset(done) or None


def _is_polled(program: Program, load: Instruction, values: set[int]) -> bool:
    """Does what is made of the value say whether a loop begins anew and loads again, or ends?"""
    body, labels = program.inlined.body, program.inlined.labels
    at = next(n for n, i in enumerate(body) if i is load)
    tests = {slot for i in body if i.op == "setp" and not values.isdisjoint(i.slots) for slot, gives in i.mentions if gives}
    branches = [
        (n, labels[i.operands[0].name], i) for n, i in enumerate(body[at:], at) if i.op == "bra" and isinstance(i.operands[0], Label)
    ]
    ends = [n for n, to, _ in branches if to <= at]  # of the loops that the load is in
    return any(
        i.guard is not None and i.guard.slot in tests and (to <= at or any(n <= end < to for end in ends)) for n, to, i in branches
    )  # fmt: skip


def _comes_back(program: Program, load: Instruction, store: Instruction) -> bool:
    """Is there a path from a load back to it without a store? A thread that waits for its turn takes that path; a
    thread that stores in every round does not wait.
    """
    body, labels = program.inlined.body, program.inlined.labels
    at, past = (next(n for n, i in enumerate(body) if i is one) for one in (load, store))
    pending, seen = [at + 1], {past}
    while pending:
        n = pending.pop()
        if n == at:
            return True
        if n in seen or n >= len(body):
            continue
        seen.add(n)
        i = body[n]
        if i.op == "bra" and isinstance(i.operands[0], Label):
            pending.append(labels[i.operands[0].name])
        elif i.op == "brx":
            return True
        if i.guard is not None or i.op not in ("bra", "ret", "exit", "trap"):
            pending.append(n + 1)
    return False


def is_polled(program: Program, load: Instruction) -> bool:
    """Is a load in a loop that goes on, or ends, by what arithmetic makes of the value?"""
    return _is_polled(program, load, _uses_of(program).made_of(load, _PASSES_ON))


_SHARED = frozenset(("shared", "shared::cta", "shared::cluster"))


def _place(i: Instruction, uses: _Uses, *, is_steady: bool = True) -> tuple[str, int | str, int] | None:
    """The space, the register or variable and the offset of an address of global or shared memory, if they stay for a
    thread, or of any (not `is_steady`).
    """
    if i.op not in ("ld", "st") or not {"local", "const", "param"}.isdisjoint(i.modifiers):
        return None
    space = "global" if _SHARED.isdisjoint(i.modifiers) else "shared"
    address: Any = i.operands[i.op == "ld"]
    base, offset = (address.base, address.offset) if isinstance(address, Address) else (address, 0)
    if isinstance(base, Symbol):
        return space, base.name, base.offset + offset
    if not isinstance(base, Register) or (is_steady and len(uses.givers.get(base.slot, ())) != 1):
        return None
    return space, base.slot, offset


def decides_itself(program: Program, user: Instruction) -> bool:
    """Does the guard of a store, or of a branch over stores, decide only about the loaded element? Then it comes from a
    load alone. Its only effect is to replace what was loaded, as in `if (x[i] < 0) x[i] = 0;`. Or it stores the element
    at the same index of another array, as in `if (x[i] > 3) y[i] = x[i];`.
    """
    body, labels, uses = program.inlined.body, program.inlined.labels, _uses_of(program)
    at = next((n for n, i in enumerate(body) if i is user), None)
    if at is None or user.guard is None:
        return False
    over = range(at, at + 1)
    if user.op == "bra" and isinstance(user.operands[0], Label):
        over = range(at + 1, labels[user.operands[0].name])
    passed = [body[n] for n in over]
    stores = [i for i in passed if i.op == "st"]
    others = [i for i in passed if i.op != "st"]
    if not 0 < len(over) <= LONGEST or len(stores) != 1 or (user.op == "bra" and not set(labels.values()).isdisjoint(over)):
        return False
    inside = set(map(id, passed))
    is_kept = all(id(reader) in inside for i in others for slot in i.given for reader in uses.readers.get(slot, ()))
    if not is_kept or not all(i.op in COMPUTING and i.guard is None for i in others):
        return False
    (store,) = stores
    place, size = _place(store, uses), _bytes_moved(store)
    if place is None or place[0] != "global":
        return False
    for load in (i for i in body[:at] if i.op == "ld" and (where := _place(i, uses)) is not None and where[0] == "global"):
        values = uses.made_of(load, COMPUTING)
        if user.guard.slot in values and (
            (_place(load, uses) == place and _bytes_moved(load) == size)
            or (not values.isdisjoint(slots_in(store.operands[1])) and _is_same_index(load, store, uses))
        ):
            return True
    return False


def _is_same_index(load: Instruction, store: Instruction, uses: _Uses) -> bool:
    """Do the addresses of a load and of a store differ by parameters and constants alone?"""
    behind = [_address_givers(i.operands[n], uses) for i, n in ((load, 1), (store, 0))]
    common = behind[0].keys() & behind[1].keys()
    shared = {slot for n in common for slot in behind[0][n].given}
    apart = [i for found in behind for n, i in found.items() if n not in common]
    own = {slot for i in apart for slot in i.given}
    return bool(shared) and all(_only_moves(i, shared | own, uses) for i in apart)


_SPREADING = frozenset(("add", "cvt", "cvta", "mad", "mov", "mul", "shl", "sub"))
_INDEX = 32  # bits of the narrowest register that holds any index


def _keeps_apart(i: Instruction) -> bool:
    """Does an operation of `_SPREADING` give two indices two places? A narrow result merges indices. So does a factor
    that leaves less than half of the bits for the index.
    """
    if i.op in ("mov", "cvta"):
        return True
    kinds = i.modifiers[-2:] if i.op == "cvt" else i.modifiers[-1:]
    if not all(kind[0] in "bsu" for kind in kinds) or not {"hi", "sat"}.isdisjoint(i.modifiers):
        return False
    width = bits_of(kinds[0]) * (2 if "wide" in i.modifiers else 1)
    first, *others = i.operands[1:]
    if i.op == "sub" and first in others:
        return False
    if i.op == "shl":
        return isinstance(first, Register) and all(not isinstance(o, Immediate) or 2 * o.value <= width for o in others) and width >= _INDEX
    if i.op in ("mad", "mul"):
        factors = [o.value for o in (first, others[0]) if isinstance(o, Immediate)]
        return width >= _INDEX and all(n and 2 * ((n & -n).bit_length() - 1) <= width for n in factors)
    return width >= _INDEX


def _only_moves(i: Instruction, known: Collection[int], uses: _Uses) -> bool:
    """Is an instruction of an address a parameter, or arithmetic with registers that are known and get one value, and
    which gives two indices two places (as `i >> 3` does not)?
    """
    if i.op == "ld":
        return "param" in i.modifiers[0]
    is_single = all(len(uses.givers.get(slot, ())) == 1 for slot in i.given)
    sources = i.operands[1:]
    return (
        is_single
        and i.op in _SPREADING
        and _keeps_apart(i)
        and all(isinstance(o, Immediate) or (isinstance(o, Register) and o.slot in known) for o in sources)
    )


def _address_givers(address: Operand, uses: _Uses) -> dict[int, Instruction]:
    """The instructions that compute an address, by their `id`."""
    found, pending = dict[int, Instruction](), [i for slot in slots_in(address) for i in uses.givers.get(slot, ())]
    while pending:
        i = pending.pop()
        if id(i) not in found:
            found[id(i)] = i
            if i.op in COMPUTING:
                pending += [giver for slot, gives in i.mentions if not gives for giver in uses.givers.get(slot, ())]
    return found


def _bytes_moved(i: Instruction) -> int:
    """The bytes that a load or a store moves for each thread."""
    value = i.operands[i.op == "st"]
    return bits_of(i.modifiers[-1]) // 8 * (len(value.items) if isinstance(value, Vector) else 1)


def _stays(i: Instruction, values: set[int], by: Collection[str]) -> bool:
    """Does an instruction give its register such a value, or a constant?"""
    if i.op == "mov" and isinstance(i.operands[1], Immediate):
        return True
    return i.op in by and any(slot in values for slot, gives in i.mentions if not gives)


def looks_again(program: Program, load: Instruction, atom: Instruction) -> bool:
    """Is a load only the read before an atomic operation: a loop of cas, or a maximum that need not be written if the
    value is large enough?
    """
    if load.op != "ld" or atom.op not in ("atom", "red"):
        return False
    return "cas" in atom.modifiers or (not MONOTONE.isdisjoint(atom.modifiers) and _is_same_place(program, load))


_PARTLY = frozenset(("relaxed", "volatile"))  # strong, and order nothing
_OWN_SPACES = frozenset(("local", "param", "const"))


def _is_relaxed(i: Instruction, op: str) -> bool:
    return i.op == op and not _PARTLY.isdisjoint(i.modifiers) and _OWN_SPACES.isdisjoint(i.modifiers)


def passes_messages(body: Sequence[Instruction]) -> bool:
    """Has a program relaxed or volatile stores, and such loads?"""
    return any(_is_relaxed(i, "st") for i in body) and any(_is_relaxed(i, "ld") for i in body)


def message_loads(program: Program) -> frozenset[int]:
    """Relaxed and volatile loads (their `id`) of what may be data: no loop polls them, and no atomic operation is
    done at the same address.
    """
    body = program.inlined.body
    looked_at = [operand for i in body if i.op in ("atom", "red") for operand in i.operands if isinstance(operand, Address)]
    return frozenset(id(i) for i in body if _is_relaxed(i, "ld") and not is_polled(program, i) and i.operands[1] not in looked_at)


def message_flags(program: Program) -> frozenset[int]:
    """Loads and atomic operations (their `id`) that bring an integer which a comparison uses."""
    uses, found = _uses_of(program), set[int]()
    for i in program.inlined.body:
        if i.op not in ("ld", "atom") or not _OWN_SPACES.isdisjoint(i.modifiers) or i.modifiers[-1].startswith("f"):
            continue
        values = uses.made_of(i, _PASSES_ON)
        if any(reader.op in ("setp", "set") for slot in values for reader in uses.readers.get(slot, ())):
            found.add(id(i))
    return frozenset(found)


def may_follow(program: Program, first: Instruction, then: Instruction) -> bool:
    """May a thread come from one instruction to another: does it follow, or do branches lead back to before it?"""
    body, labels = program.inlined.body, program.inlined.labels
    at = {id(i): n for n, i in enumerate(body) if i is first or i is then}
    if len(at) < 2:
        return True
    begin = at[id(first)]
    while begin > at[id(then)]:  # from where a branch has led to, another one may lead on
        to = min((labels.get(x.name, 0) for i in body[begin:] if i.op != "call" for x in i.operands if isinstance(x, Label)), default=begin)
        if to >= begin:
            return False
        begin = to
    return True


def decides_alone(program: Program, load: Instruction) -> bool:
    """Does what a load brings do no more than decide where to go on, or go into an atomic operation as a value,
    whatever arithmetic it passes?
    """
    uses, values, pending = _uses_of(program), set(load.given), list(load.given)
    while pending:
        slot = pending.pop()
        for i in uses.readers.get(slot, ()):
            if i.guard is not None and i.guard.slot == slot:
                continue
            if i.op in ("atom", "red"):
                if slot in slots_in(i.operands[i.op == "atom"]):
                    return False
            elif i.op not in _PASSES_ON:
                return False
            else:
                new = i.given - values
                values |= new
                pending += new
    return True


def _is_same_place(program: Program, load: Instruction) -> bool:
    """Does the program do such an atomic operation at the address, register and offset, of a load?"""
    address: Any = load.operands[1] if len(load.operands) > 1 else None
    return any(i.op in ("atom", "red") and MONOTONE.intersection(i.modifiers) and address in i.operands for i in program.inlined.body)
