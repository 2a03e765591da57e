"""Registers of asynchronous instructions: not to be touched before these are waited for (PTX ISA 9.7.15.7)."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from smemsim.gpu.watching.handles import Operation
from smemsim.gpu.watching.shadow import Shadow
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Block
    from smemsim.gpu.wave import Wave

__all__ = ["LOST", "Registers"]

LOST = "let only the first product of a sum not add: the first K step of the first tile of K (scale-d, enable-input-d)"


class Registers(Shadow):
    """The part of the watch that knows which registers are in flight."""

    def op_registers(self, op: Operation, slots: set[int]) -> None:
        """It reads or writes these registers of its warpgroup until it is waited for."""
        op.slots |= slots
        for slot in slots:
            self._registers.setdefault(slot, {})[op] = None
            self.in_flight |= 1 << slot

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

    def product(self, i: Instruction, warp: int, slots: set[int], *, adds: bool) -> None:
        """The wgmma of the warpgroup that begins with a warp leaves its product in registers: X017 where it does not add, and nobody has read the one before it."""
        mask = sum(1 << slot for slot in slots)
        before = self._products.get((warp, mask))
        if before is not None and not adds:
            self.x.launch.find(
                "X017",
                i,
                f"{i.name} overwrites the product of line {before.line} in its accumulator (scale-d is 0): nobody has read that",
                LOST,
            )
        self._products[warp, mask] = i
        self.unread |= mask

    def _reads_products(self, x: Wave, block: Block) -> None:
        """A block names registers that hold products: these have been read."""
        from smemsim.gpu.linking.program import slots_of

        named = self._named.get(block.index)
        if named is None:
            named = self._named[block.index] = sum(
                1 << n for n in set().union(*(slots_of(i) for i in block.instructions if i.op != "wgmma"))
            )
        if not named & self.unread:
            return
        warps = set((x.threads >> 5).tolist())
        self._products = {key: i for key, i in self._products.items() if not (key[1] & named and warps & set(range(key[0], key[0] + 4)))}
        self.unread = functools.reduce(operator.or_, (mask for _, mask in self._products), 0)

    def check_registers(self, x: Wave, block: Block) -> None:
        """A block names registers that are in flight: wrong, unless it moves them or is the next wgmma on the same accumulators."""
        from smemsim.gpu.linking.program import slots_of

        if block.slots & self.unread:
            self._reads_products(x, block)
        if not block.slots & self.in_flight:
            return
        warps = set((x.threads >> 5).tolist())
        for i in block.instructions:
            if i.op == "wgmma":
                continue
            for slot in slots_of(i):
                held = [op for op in self._registers.get(slot, {}) if warps & set(op.warps.tolist())]
                if not held or held[0] in self._told:
                    continue
                if i.op == "mov":  # a compiler's copy in front of the wait: its result is in flight as well
                    self.op_registers(held[0], slots_of(i))
                    continue
                self._told.add(held[0])
                name = next((r.name for n, r in enumerate(x.program.inlined.registers) if n == slot), "a register")
                x.launch.find(
                    "X007", i, f"{i.name} uses {name} while {self._name(held[0])} is in flight: its registers are not to be touched before "
                    "wgmma.wait_group", f"wgmma.commit_group and wgmma.wait_group between line {held[0].instruction.line} and this one",
                    because="PTX ISA 9.7.15.7",
                )  # fmt: skip
