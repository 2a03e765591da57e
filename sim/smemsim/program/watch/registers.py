"""Registers in flight.

The PTX ISA wants a tcgen05.wait::ld in between (9.7.16.8.1). ptxas lets every instruction wait for the registers that it reads, and the epilogues that
CuTe DSL 4.8 brings along rely on that: they convert and store what they have loaded, and then release the accumulator (compiled).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.program.linking.inline import mentions, slots_of
from smemsim.program.watch.clocks import Operation
from smemsim.program.watch.shadow import Shadow
from smemsim.program.wave import WARP, WARPGROUP
from smemsim.ptx.module import Address, Instruction
from smemsim.spec.findings import Severity
from smemsim.spec.wgmma import IN_FLIGHT

if TYPE_CHECKING:
    from smemsim.program.linking.program import Block
    from smemsim.program.wave import Wave

__all__ = ["Named", "Registers"]


# ---- Which registers of tcgen05.ld an instruction names behind it: there the warp has waited for the load


_TELLS = ("bar", "barrier", "mbarrier", "atom", "red", "fence", "membar")  # others may go on behind them


class Named:
    """Of the blocks of a program: the registers that are named before others are told anything."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._places = {id(i): (block, n) for block in blocks for n, i in enumerate(block.instructions) if i.op == "tcgen05"}
        self._first: dict[int, int] = {}

    def at_once(self, load: Instruction) -> bool:
        """Is something of what a load brings named in its own block?"""
        block, n = self._places.get(id(load), (None, 0))
        return block is not None and bool(_before_telling(block.instructions[n + 1 :]) & self.registers(load))

    def registers(self, load: Instruction) -> int:
        """The registers that a load brings, as a bit set."""
        brought = tuple(operand for operand in load.operands if not isinstance(operand, Address))
        return _bits(dataclasses.replace(load, operands=brought, guard=None))

    def first(self, block: Block) -> int:
        """The registers that a block names first, as a bit set."""
        if block.index not in self._first:
            own = block.instructions
            brings = bool(own) and own[0].op == "tcgen05" and own[0].modifiers[0] == "ld"  # into registers that nobody has named yet
            self._first[block.index] = _before_telling(own[brings:])
        return self._first[block.index]


def _before_telling(instructions: Sequence[Instruction]) -> int:
    named = 0
    for i in instructions:
        if i.op in _TELLS or (i.op == "tcgen05" and i.modifiers[0].startswith("commit")) or "release" in i.modifiers:
            break
        named |= _bits(i)
    return named


def _bits(i: Instruction) -> int:
    return sum(1 << slot for slot in slots_of(i))


# ---- Registers of asynchronous instructions: not to be touched before these are waited for (PTX ISA 9.7.15.7)


class Registers(Shadow):
    """The part of the watch that knows which registers are in flight."""

    def op_registers(self, op: Operation, slots: set[int], *, results: frozenset[int] = frozenset()) -> None:
        """It reads or writes (`results`) these registers of its warpgroup until it is waited for."""
        op.slots |= slots
        op.results |= results
        for slot in slots:
            self._registers.setdefault(slot, {})[op] = None
            self.in_flight |= 1 << slot

    def sums(self, op: Operation, slots: frozenset[int], *, goes_on: bool) -> None:
        """It leaves a sum in these registers: X017 where it does not go on with the one that is there, and no instruction has named that since;
        R507 where it adds to what nobody has ever given a value."""
        warp = int(op.warps[0])
        key = (warp, slots)
        before = self._sums.get(key)
        blank = slots - self._given
        if blank:
            filled = self._filled.setdefault(warp, set())
            if goes_on and not blank <= filled:
                self._adds_to_nothing(op.instruction, min(blank - filled))
            filled |= blank
        if before is not None and not goes_on:
            self.x.launch.find(
                "X017", op.instruction, f"{op.instruction.name} begins a new sum in the registers in which line {before.line} left its own: that "
                "one is lost, nobody has read it",
                "scale-d true for all but the first instruction that adds into D", because="PTX ISA 9.7.15.5.2",
            )  # fmt: skip
        if before is None:
            self.of_sums |= sum(1 << slot for slot in slots)
        self._sums[key] = op.instruction

    @functools.cached_property
    def _given(self) -> set[int]:
        """The registers that get a value from some instruction other than wgmma, anywhere in the program."""
        body = self.x.program.inlined.body
        return {slot for i in body if i.op != "wgmma" for slot, gives in mentions(i) if gives}

    def _adds_to_nothing(self, i: Instruction, slot: int) -> None:
        self.x.launch.find(
            "R507", i, f"{i.name} adds to its accumulator (scale-d is true), and nothing has given {self._register(slot)} a value: D is whatever was there",
            "scale-d false for the first product of a sum, or zeros in its registers", because="PTX ISA 9.7.15.5.2",
        )  # fmt: skip

    def _register(self, slot: int) -> str:
        return self.x.program.inlined.registers[slot].name

    def _sums_named(self, warps: set[int], slots: set[int]) -> None:
        """An instruction of these warps names registers: sums there count as read."""
        own = WARPGROUP // WARP
        named = [(first, held) for first, held in self._sums if warps & {*range(first, first + own)} and held & slots]
        for key in named:
            del self._sums[key]
        if named:
            self.of_sums = sum(1 << slot for slot in set().union(*(held for _, held in self._sums)))

    def _registers_free(self, warp: int, operations: list[Operation]) -> None:
        """The registers of operations that the first warp of their warpgroup has waited for are free."""
        done = [op for op in operations if op.warps[0] == warp]
        for slot in set().union(*(op.slots for op in done)):
            held = self._registers.get(slot, {})
            for operation in done:
                held.pop(operation, None)
            if not held:
                self._registers.pop(slot, None)
                self.in_flight &= ~(1 << slot)

    def holds_registers(self, op: Operation) -> bool:
        """Has nobody waited for it?"""
        return any(op in self._registers.get(slot, {}) for slot in op.slots)

    def check_registers(self, x: Wave, block: Block) -> None:
        """A block names registers that are in flight: wrong, unless it moves them or is the next wgmma on the same accumulators.

        What it names of finished sums counts as read.
        """
        warps = set((x.threads // WARP).tolist())
        for i in block.instructions:
            if i.op == "wgmma":
                continue
            if self.of_sums and block.slots & self.of_sums:
                self._sums_named(warps, slots_of(i))
            named = dict(sorted(mentions(i), key=lambda one: one[1]))  # of what is read and written: written
            holds = {slot: op for slot in named if (op := self._holding(slot, warps)) is not None}
            if not holds:
                continue
            copied = next((op for slot, op in holds.items() if not named[slot] and slot in op.results | op.copies), None)
            for slot, op in holds.items():
                if slot in op.copies and named[slot]:  # another value is there now
                    op.copies.discard(slot)
                    self._registers[slot].pop(op)
                elif i.op != "mov" or copied is None:
                    self._touched(i, slot, op, "written" if named[slot] else "read")
                    if slot in op.results | op.copies and not named[slot]:
                        self._waits_itself(op, warps)
                elif not named[slot] and slot in op.results:
                    self._touched(i, slot, op, "copied")
            if i.op == "mov" and copied is not None:  # its result is in flight as well
                results = {slot for slot, is_result in named.items() if is_result} - copied.results
                copied.copies |= results
                self.op_registers(copied, results)

    def _holding(self, slot: int, warps: set[int]) -> Operation | None:
        """The first operation of these warps in flight that has a register."""
        return next((op for op in self._registers.get(slot, {}) if warps & set(op.warps.tolist())), None)

    def _waits_itself(self, op: Operation, warps: set[int]) -> None:
        """ptxas puts a wait for an operation here: for these warps its group is complete, and all in front of that."""
        for warp in sorted(warps & set(op.warps.tolist())):
            groups = self._groups[warp, "wgmma"]
            count = next((n for n, group in enumerate(groups.pending, 1) if op in group), None)
            over = [one for group in groups.pending[:count] for one in group]
            if count is None:  # not committed yet
                over += groups.open
                groups.open = []
            del groups.pending[:count]
            if over:
                self.order.knows(np.array([warp]), over)
                self._registers_free(warp, over)

    def _touched(self, i: Instruction, slot: int, op: Operation, how: str) -> None:
        """X007: an instruction touches a register of a wgmma in flight. Where ptxas makes it right, that is told as a remark."""
        rule = IN_FLIGHT[f"{'D' if slot in op.results | op.copies else 'A'} {how}"]
        if (op.instruction.line, how) in self._told:
            return
        self._told.add((op.instruction.line, how))
        told = f" ({' or '.join(rule.told)})" if rule.told else ""
        made = f"; {rule.does}{told}, the PTX ISA leaves it undefined" if rule.is_safe else ""
        self.x.launch.find(
            "X007", i, f"{i.name} {_TOUCHES[how]} {self._register(slot)} while {self._name(op)} is in flight: its registers are not to be touched before "
            f"wgmma.wait_group{made}", f"wgmma.commit_group and wgmma.wait_group between line {op.instruction.line} and this one",
            because="PTX ISA 9.7.15.7", milder=Severity.NOTE if rule.is_safe else None,
        )  # fmt: skip


_TOUCHES = {"read": "uses", "copied": "copies", "written": "overwrites"}
