"""The successors of each block of a program, and the registers that threads may read before anything has given them a
value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from smemsim.core.ptx.module import Arguments, Immediate, Instruction, Label, Operand, Pair, Register, Sink, Vector, slots_in

if TYPE_CHECKING:
    from smemsim.run.lower.inline import Inlined
    from smemsim.run.lower.program import Program

__all__ = [
    "behind",
    "blank_registers",
    "block_of",
    "comes_by",
    "computes",
    "conditions",
    "following",
    "hears_outside",
    "is_read",
    "leads_by",
    "looks_outside",
    "loop_around",
    "read_first",
    "scale_d",
    "waits_outside",
]


_LEAVE = ("bra", "brx", "exit", "ret", "call", "trap")
# Instructions that give all of their first operand a value, whatever it was.
_GIVE = frozenset((
    "abs", "add", "and", "brev", "clz", "cvt", "cvta", "div", "ex2", "fma", "fused", "ld", "lg2", "lop3", "mad", "max", "min", "mov", "mul", "neg", "not",
    "or", "popc", "prmt", "rcp", "rsqrt", "selp", "setp", "shf", "shfl", "shl", "shr", "sqrt", "sub", "xor",
))  # fmt: skip


def following(program: Program, n: int) -> list[int] | None:
    """The blocks that threads can reach next from block n; None if the target of a jump is not known."""
    instructions = program.blocks[n].instructions
    last = instructions[-1] if instructions else None
    if last is None or last.op not in _LEAVE:
        return [n + 1]
    after = [n + 1] if last.guard is not None else []
    if last.op in ("exit", "ret", "trap"):
        return after
    label = last.operands[0]
    if not isinstance(label, Label):
        return None
    return [*after, block_of(program, label.name)]


_REGISTERS = ("local", "param", "const")  # spaces that no other thread writes
_LOOKS = ("ld", "ldu", "atom", "mbarrier", "call", "brx")  # other threads' actions, or unknown ones, may end a loop


def computes(program: Program, n: int) -> bool:
    """Does all of the loop that block n is in go by its thread's own registers, so that nothing that others do could
    end it?
    """
    loop = _reached(n, lambda m: (following(program, m) or ()) if m < len(program.blocks) else ()) & _reached(
        n, _before(program).__getitem__
    )
    return not any(
        i.op in _LOOKS and {*i.modifiers}.isdisjoint(_REGISTERS)
        for m in loop
        if m < len(program.blocks)
        for i in program.blocks[m].instructions
    )


def loop_around(program: Program, n: int) -> set[int]:
    """The blocks of the shortest loop that block n is in; none if it is in no loop."""
    came: dict[int, int] = {}
    open_ = [n]
    for m in open_:
        for after in (following(program, m) or ()) if m < len(program.blocks) else ():
            if after == n:
                return _way_back(came, m, n)
            if after not in came:
                came[after] = m
                open_.append(after)
    return set()


_STRONG = frozenset(("acquire", "relaxed", "volatile", "mmio"))
_OF_CLUSTER = ("shared", "local", "param", "const")  # spaces that no CTA of another cluster writes


def looks_outside(i: Instruction) -> bool:
    """Does an instruction read what a CTA of another cluster may have written?"""
    return i.op in ("ld", "ldu", "atom") and not any(word.startswith(_OF_CLUSTER) for word in i.modifiers)


def hears_outside(i: Instruction) -> bool:
    """Does it read that by a strong load or an atomic operation, as waits do?"""
    return looks_outside(i) and (i.op == "atom" or not _STRONG.isdisjoint(i.modifiers))


def waits_outside(program: Program, n: int) -> bool:
    """Does the shortest loop around block n depend on CTAs of other clusters?"""
    return any(hears_outside(i) for m in loop_around(program, n) for i in program.blocks[m].instructions)


def _way_back(came: dict[int, int], m: int, n: int) -> set[int]:
    """The blocks from m back to n, with both."""
    found = {n}
    while m != n:
        found.add(m)
        m = came[m]
    return found


def behind(program: Program, n: int) -> set[int]:
    """The blocks that threads reach from block n without a jump to a block before it."""
    return _reached(n, lambda m: (after for after in (following(program, m) or ()) if n < after < len(program.blocks))) - {n}


def _before(program: Program) -> dict[int, list[int]]:
    """The blocks from which threads can go to each block."""
    before: dict[int, list[int]] = {n: [] for n in range(len(program.blocks) + 1)}
    for n in range(len(program.blocks)):
        for after in following(program, n) or ():
            before[after].append(n)
    return before


def conditions(program: Program, i: Instruction) -> dict[Instruction, set[bool]]:
    """The instructions whose guards let threads come to an instruction: the instruction itself, or the last guarded
    branches before it. Each with what its guard is then: true, false, or either.
    """
    if i.guard is not None:
        return {i: {True}}
    before, found = _before(program), dict[Instruction, set[bool]]()
    start = program.starts[id(i)]
    pending, seen = [(n, start) for n in before[start]], set()
    while pending:
        n, after = pending.pop()
        last = program.blocks[n].instructions[-1:]
        if last and last[0].guard is not None:
            ways = following(program, n) or []
            found.setdefault(last[0], set()).update({after != n + 1} if ways.count(after) == 1 else {True, False})
        elif n not in seen:
            pending += [(earlier, n) for earlier in before[n]]
        seen.add(n)
    return dict(sorted(found.items(), key=lambda one: one[0].line))


def comes_by(program: Program, n: int, blocks: set[int]) -> bool:
    """Do all threads that reach block n come through one of these blocks?"""
    count = len(program.blocks)

    def step(m: int) -> Iterable[int]:
        after = following(program, m) if m < count and m not in blocks else ()
        return range(count) if after is None else after

    return n in blocks or n not in _reached(0, step)


def leads_by(program: Program, first: Instruction, then: Instruction, others: Iterable[Instruction]) -> bool:
    """Does a path of the program lead from one instruction to another, or to itself again, through one of `others`?"""
    places = {id(i): (n, at) for n, block in enumerate(program.blocks) for at, i in enumerate(block.instructions)}
    every = range(len(program.blocks))
    after_each = [following(program, n) for n in every]
    ways = [every if after is None else [n for n in after if n in every] for after in after_each]

    def is_way(one: Instruction, two: Instruction) -> bool:
        (begin, at), (end, place) = places[id(one)], places[id(two)]
        after = {begin} if begin == end and at < place else set()
        return end in after.union(*(_reached(n, ways.__getitem__) for n in ways[begin]))

    known = [i for i in others if id(i) in places]
    return any(is_way(first, i) and is_way(i, then) for i in known) if id(first) in places and id(then) in places else False


def leads_past(program: Program, first: Instruction, then: Instruction, others: Iterable[Instruction]) -> bool:
    """Does a path of the program lead from one instruction to another by none of `others`, and not by the first one
    again?
    """
    ends, found = {id(first), *map(id, others)}, False

    def scan(instructions: Sequence[Instruction]) -> bool:
        """Does the path go on after these?"""
        nonlocal found
        for i in instructions:
            found = found or i is then
            if found or id(i) in ends:
                return False
        return True

    def step(n: int) -> Iterable[int]:
        after = (following(program, n) or ()) if scan(program.blocks[n].instructions) else ()
        return [m for m in after if m < len(program.blocks)]

    for n, block in enumerate(program.blocks):
        for at, i in enumerate(block.instructions):
            if i is first and scan(block.instructions[at + 1 :]):
                for m in following(program, n) or ():
                    if m < len(program.blocks):
                        _reached(m, step)
    return found


def _reached(n: int, step: Callable[[int], Iterable[int]]) -> set[int]:
    """Block n and those that steps from it lead to."""
    reached: set[int] = set()
    open_ = [n]
    while open_:
        at = open_.pop()
        if at not in reached:
            reached.add(at)
            open_ += step(at)
    return reached


def block_of(program: Program, label: str) -> int:
    """The block that follows a label."""
    starts = program.starts
    for i in program.inlined.body[program.inlined.labels[label] :]:
        if id(i) in starts:
            return starts[id(i)]
    return len(program.blocks)


def read_first(program: Program) -> frozenset[int]:
    """The registers that some thread may read before it has written them; all of them if the target of a jump is not
    known.
    """
    if program.read_first is None:
        program.read_first = _read_first(program)
    return program.read_first


def _read_first(program: Program) -> frozenset[int]:
    found = _live(program, _given)
    return frozenset(range(len(program.registers))) if found is None else found


class Blank(NamedTuple):
    """A register that a thread may read before it has given it a value: the first instruction that reads it, and the
    instructions that give it a value of something else, which the thread may not have executed.
    """

    reader: Instruction
    givers: tuple[Instruction, ...]


def blank_registers(program: Program) -> Mapping[int, Blank]:
    """The registers, by slot, that some thread may read before it has given them a value. Where the target of a jump is
    not known, those to which no instruction gives a value.

    Hardware leaves old bits in such a register (PTX ISA 9.1, section 5.1). Compilers give each register a value on
    every path, so most programs have none.
    """
    if program not in _blank:
        body = program.inlined.body
        live = _live(program, lambda i: set() if i.guard is not None or _adds(i) else set(i.given))
        named = frozenset[int]().union(*(i.given for i in body))
        # The results of a call come from the callee.
        others = _in_calls(body)
        others |= program.written - named
        found = (named if live is None else named - live) | others
        readers: dict[int, Instruction] = {}
        for i in body:
            for slot in (slot for slot, gives in i.mentions if not gives and slot not in found):
                readers.setdefault(slot, i)
        _blank[program] = {
            slot: Blank(i, tuple(by for by in body if slot in by.given and slot not in by.used and not _adds(by)))
            for slot, i in readers.items()
        }
    return _blank[program]


_blank: weakref.WeakKeyDictionary[Program, dict[int, Blank]] = weakref.WeakKeyDictionary()


def scale_d(i: Instruction) -> Operand:
    """The operand scale-d of a wgmma.mma_async."""
    return i.operands[5 if "sp" in i.modifiers else 3]


def _adds(i: Instruction) -> bool:
    """Is an instruction a wgmma that always adds to D?"""
    if i.op != "wgmma" or i.modifiers[0] != "mma_async":
        return False
    scale = scale_d(i)
    return isinstance(scale, Immediate) and scale.value != 0


def _live(program: Program, gives: Callable[[Instruction], set[int]]) -> frozenset[int] | None:
    """The registers that a thread may read before an instruction has given them a value, as `gives` says; None if the
    target of a jump is not known.
    """
    after = [following(program, n) for n in range(len(program.blocks))]
    if program.inlined.frames or any(targets is None for targets in after):
        return None
    asked, given = zip(*(_asked(program, block.instructions, gives) for block in program.blocks), strict=True) if after else ((), ())
    live: list[set[int]] = [set() for _ in range(len(after) + 1)]
    grows = True
    while grows:
        grows = False
        for n in reversed(range(len(after))):
            new = asked[n] | (set().union(*(live[to] for to in after[n] or ())) - given[n])
            grows |= new != live[n]
            live[n] = new
    return frozenset(live[0])


def _asked(program: Program, instructions: list[Instruction], gives_: Callable[[Instruction], set[int]]) -> tuple[set[int], set[int]]:
    """The registers that a block reads before it gives them a value, and those that it gives one."""
    asked: set[int] = set()
    given: set[int] = set()
    for i in instructions:
        own = gives_(i) - program.wide
        asked |= {slot for slot, gives in i.mentions if not (gives and slot in own)} - given
        given |= own
    return asked, given


def _given(i: Instruction) -> set[int]:
    return _overwritten(i) if i.op in _GIVE else set()


def _overwritten(i: Instruction) -> set[int]:
    """The registers of which an instruction overwrites all bits whenever a thread comes to it."""
    if i.guard is not None or i.op == "wgmma" or not i.given:  # wgmma adds to its registers
        return set()
    to = i.operands[0]
    items = to.items if isinstance(to, Vector) else (to.first, to.second) if isinstance(to, Pair) else (to,)
    return {item.slot for item in items if isinstance(item, Register) and not item.part and not isinstance(item, Sink)}


# ---- Is a value used at all?


_GOES_ELSEWHERE = {"bra", "brx", "call"}
# a reader of their result reads their operands; they have no other effect
_PASSES_ON = frozenset(("and", "cvt", "mov", "not", "or", "selp", "setp", "xor"))


def is_read(i: Instruction, inlined: Inlined, *, counts_copies: bool = False) -> bool:
    """May a later instruction use a value of this one? On each path, instructions may overwrite its registers first.
    Copies and conditions whose result no instruction reads are no use, unless `counts_copies` is set.
    """
    body, passes_on = inlined.body, frozenset[str]() if counts_copies else _PASSES_ON
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    open_ = [(at + 1, frozenset(i.given))]
    seen = set(open_)
    if inlined.frames:  # the way back from a function is not known
        return _is_read_anywhere(set(i.given), body, passes_on)
    wide = {slot for slot, register in enumerate(inlined.registers) if register.type == "b128"}  # some give half of one
    while open_:
        at, kept = open_.pop()
        values = set(kept)
        for other in body[at:]:
            if not other.used.isdisjoint(values):
                if other.op not in passes_on:
                    return True
                values |= other.given
                continue
            if other.op in _GOES_ELSEWHERE:
                label = other.operands[0] if other.op == "bra" else None
                if not isinstance(label, Label) or len(seen) > len(body):
                    return _is_read_anywhere(values, body, passes_on)
                way = inlined.labels[label.name], frozenset(values)
                open_ += [way] if way not in seen else []
                seen.add(way)
            values -= _overwritten(other) - wide
            if not values or (other.guard is None and other.op in _LEAVE):
                break
    return False


def _is_read_anywhere(values: set[int], body: Sequence[Instruction], passes_on: frozenset[str]) -> bool:
    """Does any instruction do something with these registers, or with those that they are passed on to?"""
    count, of_calls = 0, _in_calls(body)
    while count < len(values):
        if not of_calls.isdisjoint(values):
            return True
        count = len(values)
        for other in body:
            if not other.used.isdisjoint(values):
                if other.op not in passes_on:
                    return True
                values = values | other.given
    return False


def _in_calls(body: Sequence[Instruction]) -> set[int]:
    """The registers in the lists of calls: arguments and results."""
    return {slot for i in body for o in i.operands if isinstance(o, Arguments) for item in o.items for slot in slots_in(item)}
