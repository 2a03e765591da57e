"""The content of a plan, and its consequences: strides, descriptors, advances, notes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.raw import Words
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.planning.arrangement import Arrangement, Conflicts, CuteSteps, Field, Wish, canonical_layouts, conflicts_of
from smemsim.planning.transfers import Loads, Matrix

__all__ = ["Planned"]


@dataclasses.dataclass(frozen=True, repr=False)
class Planned:
    """An operand tile in shared memory before it is simulated or printed: the data of a `Plan`."""

    arrangement: Arrangement
    matrix: Matrix
    loop: Loads
    box: Loads | None
    why_no_box: str
    lbo: Field
    sbo: Field
    cute: CuteSteps

    @property
    def wish(self) -> Wish:
        """The arguments, read."""
        return self.arrangement.wish

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `plan` that give this plan, with the M and N of the instruction."""
        return self.wish.arguments() | {"m": self.arrangement.instruction.m, "n": self.arrangement.instruction.n}

    @property
    def tensor_map(self) -> TensorMap:
        """The tensor map of the two-dimensional boxes. `box.tensor_map` is that of the single box."""
        return self.loop.tensor_map

    @property
    def tile_bytes(self) -> int:
        """The bytes of one stage."""
        return self.arrangement.tile_bytes

    @property
    def shared_bytes(self) -> int:
        """The bytes of all stages."""
        return self.tile_bytes * self.wish.stages

    @property
    def leading_byte_offset(self) -> int:
        """LBO in bytes."""
        return self.lbo.bytes

    @property
    def stride_byte_offset(self) -> int:
        """SBO in bytes."""
        return self.sbo.bytes

    @property
    def instruction_descriptor(self) -> InstrDescriptor | None:
        """The 32-bit instruction descriptor of tcgen05.mma. None for wgmma, which has none."""
        return self.arrangement.instruction.descriptor

    @property
    def advances(self) -> np.ndarray:
        """int64 (blocks, K steps): the bytes from the start address of the first instruction to the start address of
        each.
        """
        tile = self.arrangement
        return np.array([[tile.offset(block, step) for step in range(tile.steps)] for block in range(tile.blocks)], np.int64)

    @property
    def cute_advances(self) -> np.ndarray:
        """int64 (blocks, K steps): `advances` as CuTe's descriptor tensor has them, in bytes."""
        tensor, unit = self.cute.descriptors, CHUNK
        blocks, steps = tensor.mode(0).size, tensor.mode(1).size
        return np.array([[unit * tensor(block, step) for step in range(steps)] for block in range(blocks)], np.int64)

    @property
    def is_uniform(self) -> bool:
        """True if all K steps have the same distance."""
        apart = np.diff(self.advances[0])
        return bool((apart == apart[:1]).all())

    def descriptor(self, block: int = 0, step: int = 0, stage: int = 0) -> SmemDescriptor:
        """The shared-memory descriptor for a block of rows, a K step and a stage."""
        tile = self.arrangement
        for name, value, most in (("block", block, tile.blocks), ("step", step, tile.steps), ("stage", stage, self.wish.stages)):
            if not 0 <= value < most:
                raise InputError(f"{name} = {value}: the plan has {most}")
        return tile.descriptor(block, step, stage)

    @property
    def words(self) -> Words:
        """The raw descriptors of stage 0, uint64 (blocks, K steps). They print in hex."""
        tile = self.arrangement
        found = [[tile.descriptor(block, step).encode() for step in range(tile.steps)] for block in range(tile.blocks)]
        return Words.of(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the descriptors, for example that documents contradict each other."""
        tile, wish, notes = self.arrangement, self.wish, []
        of = tile.instruction
        if of.descriptor is not None:
            given = {"arch": wish.machine.name, "cta_group": wish.cta_group, "ws": False, f"swizzle_{wish.side}": str(wish.swizzle)}
            notes += of.descriptor.problems(**given)
        notes += tile.descriptor().problems(dtype=wish.fmt, major=wish.major, rows=of.rows, k=of.k, packing=of.packing)
        first = {f.code: f.message for f in reversed(notes)}  # what both descriptors say, once
        return tuple(first.values())

    @property
    def conflicts(self) -> Conflicts:
        """The bank conflicts of the tile, counted from addresses."""
        return conflicts_of(self.arrangement)

    @property
    def canonical(self) -> tuple[str, str]:
        """The canonical layout of one operand, with symbols and with numbers."""
        return canonical_layouts(self.arrangement)

    @property
    def title(self) -> str:
        """One line: what is planned."""
        w = self.wish
        extent = f"{w.rows}x{w.k}"
        return f"{w.side.upper()} {extent} {w.fmt.name} {w.major}-major, swizzle {w.swizzle}, {w.machine.name}"
