"""Registers in flight (PTX ISA 9.1 §9.7.15.7, wgmma; 9.7.16.8, tcgen05.ld).

The PTX ISA wants a tcgen05.wait::ld before a use (9.7.16.8.1). ptxas makes every instruction wait for the registers
that it reads. The epilogues of CuTe DSL 4.8 rely on that: they convert and store loaded values, and then release the
accumulator (compiled). Triton and Gluon write the wait after the use. A load that no wait follows is a remark (rule
tcgen05.registers).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Address, Instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.wgmma import A_REGISTERS, IN_FLIGHT
from smemsim.run.lower.cfg import following, leads_past
from smemsim.run.lower.unfenced import ordered, unfenced
from smemsim.run.sanitizer.operations import GROUP, Operation, Operations, Renumbering
from smemsim.run.sanitizer.synchronisation import CommitGroups
from smemsim.run.sanitizer.uninitialised import accumulator_without_value
from smemsim.run.warps import WARP

if TYPE_CHECKING:
    from smemsim.run.lower.program import Block, Program
    from smemsim.run.views import Wave

__all__ = ["Named", "RegistersInFlight"]


# ---- The registers of tcgen05.ld that an instruction names: there the warp has waited for the load


_TELLS = ("bar", "barrier", "mbarrier", "atom", "red", "fence", "membar")  # others may continue after them
_TENSOR_TELLS = ("commit", "mma", "cp", "shift")  # of tcgen05: the last three may overwrite tensor memory themselves


class Named:
    """For each block of a program: the registers that it names before its first instruction that informs other threads,
    or that has tensor memory written. Instructions that inform others are an arrival, a commit and a release.
    """

    def __init__(self, program: Program) -> None:
        blocks, self._program = program.blocks, program
        self._users: dict[int, Instruction | None] = {}
        self._places = {id(i): (block, n) for block in blocks for n, i in enumerate(block.instructions) if i.op == "tcgen05"}
        self._first: dict[int, int] = {}
        # by the load: it, its registers, and whether they are named at once
        self._loads: dict[int, tuple[Instruction, int, bool]] = {}

    @staticmethod
    def is_load(i: Instruction) -> bool:
        """Is it a tcgen05.ld?"""
        return i.op == "tcgen05" and i.modifiers[0] == "ld"

    def at_once(self, load: Instruction) -> bool:
        """Does the load's own block name a register of the load, before it informs other threads?"""
        return self._about(load)[2]

    def unwaited_user(self, load: Instruction) -> Instruction | None:
        """The first instruction that names registers of a load that no tcgen05.wait::ld follows, on no way; None if
        one may follow.
        """
        if id(load) not in self._users:
            self._users[id(load)] = self._find_user(load)
        return self._users[id(load)]

    def _find_user(self, load: Instruction) -> Instruction | None:
        """`unwaited_user`. If the registers are named before the next load, a wait after that load is the wait of that
        one; not in a program that waits only after uses, as those of Triton and Gluon do.
        """
        block, n = self._places[id(load)]
        todo, seen, user = [(block.index, n + 1, False)], set[int](), None
        while todo:
            index, first, is_named = todo.pop()
            for i in self._program.blocks[index].instructions[first:]:
                if i.op == "tcgen05" and i.modifiers[0] == "wait::ld":
                    return None
                if self.is_load(i):
                    if is_named and self._waits_first:
                        return user
                elif _bits(i) & self.registers(load):
                    user, is_named = user or i, True
            ways = following(self._program, index)
            if ways is None:  # it is not known where that goes
                return None
            new = [to for to in ways if to < len(self._program.blocks) and to not in seen]
            seen.update(new)
            todo += [(to, 0, is_named) for to in reversed(new)]
        return user

    @functools.cached_property
    def _waits_first(self) -> bool:
        """Has a load of the program its tcgen05.wait::ld before the first instruction that names its registers?"""
        loads = (i for block in self._program.blocks for i in block.instructions if self.is_load(i))
        return any(self._is_waited_first(load) for load in loads)

    def _is_waited_first(self, load: Instruction) -> bool:
        """`_waits_first` of one load, up to the next branch."""
        block, n = self._places[id(load)]
        index, first, seen = block.index, n + 1, set[int]()
        while index < len(self._program.blocks) and index not in seen:
            for i in self._program.blocks[index].instructions[first:]:
                if i.op == "tcgen05" and i.modifiers[0] == "wait::ld":
                    return True
                if _bits(i) & self.registers(load):
                    return False
            seen.add(index)
            ways = following(self._program, index)
            if ways is None or len({*ways}) != 1:
                return False
            index, first = next(iter(ways)), 0
        return False

    def are_unused(self, load: Instruction, store: Instruction, *, is_pending: bool) -> bool:
        """Does a tcgen05.st follow a load without tcgen05.wait::ld, and without an instruction that names registers of
        the load? The tcgen05.st itself counts as such an instruction.

        With `is_pending`, no such instruction is known if the two are in different blocks.
        """
        of_load, n = self._places.get(id(load), (None, 0))
        of_store, end = self._places.get(id(store), (None, 0))
        registers = self.registers(load)
        if _bits(store) & registers:
            return False
        if of_load is None or of_load is not of_store or n > end:
            return is_pending
        return not any(
            _bits(i) & registers or (i.op == "tcgen05" and i.modifiers[0] == "wait::ld") for i in of_load.instructions[n + 1 : end]
        )

    def registers(self, load: Instruction) -> int:
        """The registers that a load brings, as a bit set."""
        return self._about(load)[1]

    def _about(self, load: Instruction) -> tuple[Instruction, int, bool]:
        found = self._loads.get(id(load))
        if found is None:
            brought = tuple(operand for operand in load.operands if not isinstance(operand, Address))
            registers = _bits(dataclasses.replace(load, operands=brought, guard=None))
            block, n = self._places.get(id(load), (None, 0))
            at_once = block is not None and bool(_before_telling(block.instructions[n + 1 :]) & registers)
            found = self._loads[id(load)] = load, registers, at_once
        return found

    def first(self, block: Block) -> int:
        """The registers that a block names before it informs other threads, as a bit set."""
        if block.index not in self._first:
            own = block.instructions
            # into registers that no instruction has named yet
            brings = bool(own) and self.is_load(own[0])
            self._first[block.index] = _before_telling(own[brings:])
        return self._first[block.index]


def _before_telling(instructions: Sequence[Instruction]) -> int:
    named = 0
    for i in instructions:
        if i.op in _TELLS or (i.op == "tcgen05" and i.modifiers[0] in _TENSOR_TELLS) or "release" in i.modifiers:
            break
        named |= _bits(i)
    return named


def _bits(i: Instruction) -> int:
    return i.slot_bits


# ---- Registers of asynchronous instructions: not to be touched before these are waited for (PTX ISA 9.1 §9.7.15.7)


_given: weakref.WeakKeyDictionary[Program, frozenset[int]] = weakref.WeakKeyDictionary()  # `RegistersInFlight._given`
_all_used: weakref.WeakKeyDictionary[Program, frozenset[int]] = weakref.WeakKeyDictionary()  # `RegistersInFlight._used`


@functools.lru_cache(maxsize=1024)
def _mask(slots: frozenset[int]) -> int:
    """Registers as a bit set."""
    return sum(1 << slot for slot in slots)


class RegistersInFlight:
    """The registers that wgmma still reads or writes, and those with a sum that nothing has read: `in_flight` and
    `of_sums`, by their bits.
    """

    def __init__(self, x: Wave, groups: CommitGroups, operations: Operations) -> None:
        self.x, self.groups, self.operations = x, groups, operations
        # are these the first CTA's, which stands for all?
        self.are_of_first = x.cohort is not None and x.cohort.is_apart
        self.in_flight = self.of_sums = 0
        self._of_a = self._of_d = 0  # those in flight that some wgmma reads as A, or writes as D
        self._held: dict[
            int, tuple[Operation, int]
        ] = {}  # operations that have registers, by their bits, in the order in which they took them
        self._takes = 0
        # the wgmma that left a sum there, by the first warp and registers
        self._sums: dict[tuple[int, frozenset[int]], Instruction] = {}
        self._read: set[tuple[int, frozenset[int]]] = set()  # those of which an earlier sum was read
        # of what only wgmma gives a value: what has one, by the warpgroup's first warp
        self._filled: dict[int, set[int]] = {}
        self._naming: dict[int, tuple[int, list[tuple[Instruction, int]]]] = {}  # by the block's index
        self._blanks: dict[frozenset[int], frozenset[int]] = {}
        # lines of operations whose registers were touched too early, and how, that have a finding
        self._told: set[tuple[int, str]] = set()

    def remembered(self) -> list[int]:
        """The operations that have registers, by their numbers."""
        held = [op for op, _ in self._held.values()]
        return self.operations.numbers(held) if self.are_of_first else [op.number for op in held]

    def renumber(self, to: Renumbering) -> None:
        """Does nothing: this part holds operations, which know their new numbers."""

    def spread(self, first: RegistersInFlight) -> None:
        """Those of the first CTA, which was alone, stand for those of all."""
        self.in_flight, self.of_sums, self._naming, self._blanks = first.in_flight, first.of_sums, first._naming, first._blanks
        self._held, self._takes, self._sums, self._filled, self._told = first._held, first._takes, first._sums, first._filled, first._told
        self._read = first._read
        self._of_a, self._of_d = first._of_a, first._of_d

    def unfold(self) -> None:
        """The tables become those of all CTAs."""
        if not self.are_of_first:
            return
        self.are_of_first, operations, warps = False, self.operations, self.x.stride // WARP
        for op in {id(op): op for op, _ in self._held.values()}.values():
            for n in range(operations.units):
                op.of(n).registers = op.registers.copy()
        of_first, self._held, self._takes = self._held, {}, 0
        for _, some in itertools.groupby(of_first.values(), lambda held: (id(held[0].instruction), held[0].since)):
            its = list(some)
            for n in range(operations.units):
                for op, bits in its:
                    self._takes += 1
                    self._held[self._takes] = op.of(n), bits
        every = range(operations.units)
        self._sums = {(warp + n * warps, slots): i for (warp, slots), i in self._sums.items() for n in every}
        self._read = {(warp + n * warps, slots) for warp, slots in self._read for n in every}
        self._filled = {warp + n * warps: set(slots) for warp, slots in self._filled.items() for n in every}

    def touches(self, block: Block) -> bool:
        """Does a block name a register that is in flight, other than by wgmma?"""
        return bool(self._naming_of(block)[0] & self.in_flight)

    def takes(self, op: Operation, slots: frozenset[int], *, results: frozenset[int] = frozenset()) -> None:
        """An operation reads or writes (`results`) these registers of its warpgroup until it is waited for."""
        known = op.registers
        known.results, known.are_held = known.results | results if known.results else results, True
        self._takes += 1
        mask = _mask(slots)
        self._held[self._takes] = op, mask
        self.in_flight |= mask

    def accumulate(self, ops: Sequence[Operation], slots: frozenset[int], sums: frozenset[int], goes_on: Sequence[bool]) -> None:
        """`sums` and `takes` of the operations of one instruction."""
        if not self.are_of_first:
            ops = self.operations.each(ops)
        elif ops[0].cohort is None:
            self.unfold()
        blank, held, mask, before = self._blank(sums), self._held, _mask(slots), self._sums
        of_d = _mask(sums)
        of_a = mask & ~of_d
        if of_a & self._of_d or of_d & self._of_a:
            self._by_others(ops, slots - sums, sums)
        for op, adds in zip(ops, goes_on, strict=False):  # of all CTAs, which do the same where one stands for them
            key = int(op.warps[0]), sums
            if blank or not adds or key not in before:
                self.sums(op, sums, goes_on=adds)
            else:
                before[key] = op.instruction
            known = op.registers if self.are_of_first else op.registers.copy()
            known.results, known.are_held = known.results | sums if known.results else sums, True
            op.registers = known
            self._takes += 1
            held[self._takes] = op, mask
        self.in_flight |= mask
        self._of_a |= of_a
        self._of_d |= of_d

    def _by_others(self, ops: Sequence[Operation], of_a: frozenset[int], sums: frozenset[int]) -> None:
        """X007 for wgmma that read A in the D of another one in flight, or write D over its A."""
        for op in ops:
            i, warps = op.instruction, set(op.warps.tolist())
            for slot in sorted(of_a):
                for other in self._holding(slot, warps):
                    if slot in other.registers.results:
                        self._touched(i, slot, other, "multiplied, fenced" if self._reads_early(i, other.instruction) else "multiplied")
            for slot in sorted(sums):
                for other in self._holding(slot, warps):
                    if slot not in other.registers.results | other.registers.copies:
                        self._touched(i, slot, other, "accumulated")

    def _reads_early(self, i: Instruction, other: Instruction) -> bool:
        """Does ptxas let a wgmma read A before another one has written it as D? If a wgmma.fence is between the two,
        and A needs no copies: it begins with D, or it is one of the groups of four registers of D.
        """
        d, a = ordered(other.operands[0]), ordered(i.operands[1])
        is_part = any(d[n : n + len(a)] == a for n in range(0, len(d), A_REGISTERS))
        return id(i) not in unfenced(self.x.program) and (is_part or a[: len(d)] == d)

    def sums(self, op: Operation, slots: frozenset[int], *, goes_on: bool) -> None:
        """A wgmma leaves a sum in these registers.

        It is X017 if the wgmma does not continue the present sum, no instruction has named this sum, and some
        instruction uses such sums. Compilers may remove a useless read, and leave the product. It is R507 if the wgmma
        adds to uninitialised registers.
        """
        warp = int(op.warps[0])
        key = (warp, slots)
        before = self._sums.get(key)
        blank = self._blank(slots)
        if blank:
            filled = self._filled.setdefault(warp, set())
            if goes_on and not blank <= filled:
                self._adds_to_nothing(op.instruction, min(blank - filled))
            filled |= blank
        if before is not None and not goes_on and not slots.isdisjoint(self._used):
            self.x.launch.find(
                "X017", op.instruction, "a new sum begins in registers whose earlier sum no instruction has read", why="scale-d false overwrites the earlier product: it is lost",
                halves=(Half("write", f"{op.instruction.name}, with scale-d false", op.instruction), Half("lost", f"the sum of {before.name}", before)), repair=
                "scale-d true for all but the first instruction that adds into D", because="PTX ISA 9.1 §9.7.15.5.2", other=before,
            )  # fmt: skip
        if before is None:
            self.of_sums |= _mask(slots)
        self._sums[key] = op.instruction

    @functools.cached_property
    def _given(self) -> frozenset[int]:
        """The registers that get a value from some instruction other than wgmma, anywhere in the program."""
        program = self.x.program
        found = _given.get(program)
        if found is None:
            body = program.inlined.body
            found = _given[program] = frozenset(slot for i in body if i.op != "wgmma" for slot, gives in i.mentions if gives)
        return found

    @functools.cached_property
    def _used(self) -> frozenset[int]:
        """The registers whose values some instruction uses, anywhere in the program."""
        program = self.x.program
        found = _all_used.get(program)
        if found is None:
            found = _all_used[program] = frozenset().union(*(i.used for i in program.inlined.body))
        return found

    def adds_to_nothing(self, op: Operation, slots: frozenset[int]) -> bool:
        """Have some of these registers, which get values from wgmma alone, none yet in an operation's warpgroup?"""
        return not self._blank(slots) <= self._filled.get(int(op.warps[0]), set())

    def _blank(self, slots: frozenset[int]) -> frozenset[int]:
        """Those of some registers that get a value from wgmma alone."""
        found = self._blanks.get(slots)
        if found is None:
            found = self._blanks[slots] = slots - self._given
        return found

    def _adds_to_nothing(self, i: Instruction, slot: int) -> None:
        said = accumulator_without_value(self._register(slot))
        self.x.launch.find(
            said.code, i, said.what, why=said.why, repair="scale-d false for the first product of a sum; or set its registers first, to zero or to what the sum begins with, such as a bias", because="PTX ISA 9.1 §9.7.15.5.2",
        )  # fmt: skip

    def _register(self, slot: int) -> str:
        return str(self.x.program.inlined.registers[slot].name)

    def _sums_named(self, warps: set[int], slots: frozenset[int]) -> None:
        """An instruction of these warps names registers: sums there count as read."""
        named = [(first, held) for first, held in self._sums if warps & {*range(first, first + GROUP)} and held & slots]
        for key in named:
            self._read.add(key)
            del self._sums[key]
        if named:
            self.of_sums = sum(1 << slot for slot in set().union(*(held for _, held in self._sums)))

    @property
    def is_lost(self) -> bool:
        """Would `ended` report a sum now?"""
        return not self._read.isdisjoint(self._sums)

    def ended(self) -> None:
        """The wave is over: X017, a remark, for the last sum of a warpgroup if no instruction has read it.

        An earlier sum in the same registers must have been read. A tile outside the matrix may be meant to be lost.
        """
        for key in self._read.intersection(self._sums):
            last = self._sums[key]
            self.x.launch.find(
                "X017", last, "the last product is lost: no instruction has read it when the kernel ends",
                "read the last product too, if it belongs to the result: a loop that reads every second product leaves the last one of an odd number",
                halves=(Half("lost", f"the last sum of {last.name}", last),), milder=Severity.NOTE, operation="last",
                why="an earlier product in these registers was read; it is right if this one belongs to a tile outside the matrix",
            )  # fmt: skip

    def free(self, waited: Mapping[int, list[Operation]], *, by_all: bool = False) -> None:
        """The registers of operations that the first warp of their warpgroup has waited for, by the warp, are free;
        `by_all`: the same in each CTA.
        """
        done = [op for warp, operations in waited.items() for op in operations if op.warps[0] == warp]
        if not by_all:
            self.unfold()
        elif not self.are_of_first:
            done = self.operations.each(done)
        for op in done:
            op.registers.are_held = False
        if done:
            self._held = {n: (op, bits) for n, (op, bits) in self._held.items() if op.registers.are_held}
            self.in_flight = functools.reduce(operator.or_, {bits for _, bits in self._held.values()}, 0)
            self._of_a &= self.in_flight
            self._of_d &= self.in_flight

    def named(self, block: Block) -> None:
        """The running threads execute a block that names no register in flight: the finished sums that it names count
        as read.
        """
        of_all, naming = self._naming_of(block)
        if not of_all & self.of_sums:
            return
        warps = self._warps(is_safe=True)
        for i, bits in naming:
            if self.of_sums & bits:
                self._sums_named(warps, i.slots)

    def named_by(self, i: Instruction) -> None:
        """The running threads come to an instruction. To name registers that are in flight is wrong, unless it moves
        them or is the next wgmma on the same accumulators. Finished sums that it names count as read.

        ptxas inserts its wait here: what threads do before is not ordered by it.
        """
        warps = self._warps(is_safe=not i.slot_bits & self.in_flight)
        if self.of_sums & i.slot_bits:
            self._sums_named(warps, i.slots)
        named = dict(sorted(i.mentions, key=lambda one: one[1]))  # of what is read and written: written
        holding = [(slot, op) for slot in named for op in self._holding(slot, warps)]
        sums = {op: op.registers.results | op.registers.copies for _, op in holding}
        copied = list(dict.fromkeys(op for slot, op in holding if not named[slot] and slot in sums[op])) if i.op == "mov" else []
        for slot, op in holding:
            if slot in op.registers.copies and named[slot]:  # another value is there now
                op.registers.copies.discard(slot)
                self._held |= {n: (other, bits & ~(1 << slot)) for n, (other, bits) in self._held.items() if other is op}
            elif not copied:
                self._touched(i, slot, op, "written" if named[slot] else "read")
                if slot in sums[op] and not named[slot]:
                    self._waits_itself(op, warps)
            elif not named[slot] and slot in op.registers.results:
                self._touched(i, slot, op, "copied")
        for op in copied:  # its result is in flight as well
            results = {slot for slot, is_result in named.items() if is_result} - op.registers.results
            op.registers.copies |= results
            self.takes(op, frozenset(results))

    def _warps(self, *, is_safe: bool) -> set[int]:
        """The running warps whose registers a block names: the first CTA's while it stands for all, which ends where
        that is not safe.
        """
        own = self.x.cohort.own_running(self.x) if is_safe and self.are_of_first else None
        if own is None:
            self.unfold()
            own = self.x.threads
        return set((own // WARP).tolist())

    def _naming_of(self, block: Block) -> tuple[int, list[tuple[Instruction, int]]]:
        """The instructions of a block except wgmma, each with the named registers as a bit set. The first entry is the
        set of all.
        """
        found = self._naming.get(block.index)
        if found is None:
            naming = [(i, i.slot_bits) for i in block.instructions if i.op != "wgmma"]
            found = self._naming[block.index] = functools.reduce(operator.or_, [bits for _, bits in naming], 0), naming
        return found

    def _holding(self, slot: int, warps: set[int]) -> list[Operation]:
        """The operations of these warps in flight that have a register."""
        return list(dict.fromkeys(op for op, bits in self._held.values() if bits >> slot & 1 and warps & set(op.warps.tolist())))

    def _waits_itself(self, op: Operation, warps: set[int]) -> None:
        """ptxas adds a wait for an operation here: for these warps its group is complete, and all earlier ones."""
        for warp in sorted(warps & set(op.warps.tolist())):
            over = self.groups.wait_for(op, warp, "wgmma")
            if over:
                self.free({warp: over})

    def _touched(self, i: Instruction, slot: int, op: Operation, how: str) -> None:
        """X007: an instruction uses a register of a wgmma in flight. If ptxas makes it right, it is a remark."""
        operand = "D" if slot in op.registers.results | op.registers.copies else "A"
        rule = IN_FLIGHT[f"{operand} {how}"]
        others = "an earlier wgmma" if i.op == "wgmma" else "wgmma"
        if (op.instruction.site, how) in self._told:
            return
        self._told.add((op.instruction.site, how))
        told = f" ({' or '.join(rule.told)})" if rule.told else ""
        why = "registers of a wgmma must not be accessed before wgmma.wait_group"
        if not rule.is_safe:
            why = f"{why}: {rule.does}"
        if rule.is_safe:
            why = f"no failure is known: {rule.does}{told}. But the PTX ISA leaves it undefined before wgmma.wait_group"
        self.x.launch.find(
            "X007", i, f"register {self._register(slot)} is {_TOUCHES[how]} while {others} may still {'write' if operand == 'D' else 'read'} it", why=why,
            halves=(Half("access", i.name, i), Half("wgmma", op.instruction.name, op.instruction)), repair=self._wait_before(i, op.instruction) + ", then wgmma.fence.sync.aligned" * (i.op == "wgmma"),
            because="PTX ISA 9.1 §9.7.15.7", milder=Severity.NOTE if rule.is_safe else None,
        )  # fmt: skip

    def _wait_before(self, i: Instruction, mma: Instruction) -> str:
        """The line before which wgmma.wait_group must be, and wgmma.commit_group if no path leads to one."""
        commits = (other for other in self.x.program.inlined.body if other.name.startswith("wgmma.commit_group"))
        wait = f"before {i.at}: wgmma.wait_group.sync.aligned 0"
        if any(leads_past(self.x.program, mma, commit, [i]) for commit in commits):
            return wait
        return f"after {mma.at}: wgmma.commit_group.sync.aligned; {wait}"


_TOUCHES = {
    "read": "used", "copied": "copied", "written": "overwritten",
    "multiplied": "read as A", "multiplied, fenced": "read as A", "accumulated": "overwritten as D",
}  # fmt: skip
