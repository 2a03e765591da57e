"""Tensor memory that the two CTAs of a pair allocate and deallocate together (tcgen05.alloc and .dealloc with
.cta_group::2; PTX ISA 9.1 §9.7.16.5, 9.7.16.7.1).

Three rules hold (rule order.pair_allocation).

- The deallocation of one CTA happens after the allocation of the other one is complete. It also happens after all
  accesses to the columns in both CTAs.
- The deallocation of one CTA may block until the other CTA executes its own. So the other one must not wait for
  anything that follows the first one.
- The CTA that allocates knows that the other one has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer import races
from smemsim.run.sanitizer.lifetimes import Lifetimes
from smemsim.run.sanitizer.races import Access
from smemsim.run.sanitizer.reporting import Reporting
from smemsim.run.sanitizer.tensor_memory import TensorShadow

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["PairAllocations"]


BECAUSE = "PTX ISA 9.1 §9.7.16.5, 9.7.16.7.1"
MEASURED = f"{BECAUSE}; NVIDIA/cutlass issue 3435: 25 of 25 launches failed on a B300 without a cluster barrier"
BARRIER = "barrier.cluster.arrive and barrier.cluster.wait of both CTAs"


class _Act(NamedTuple):
    """An allocation, or its end, by a warp."""

    instruction: Instruction
    warp: int
    when: int


class PairAllocations:
    """Allocations of the pairs of a wave, by the CTA (index) and the first column."""

    def __init__(self, x: Wave, tensor: TensorShadow, lifetimes: Lifetimes, reporting: Reporting) -> None:
        self.x, self.tensor, self.lifetimes, self.reporting, self.clocks = x, tensor, lifetimes, reporting, tensor.table.clocks
        self._made: dict[tuple[int, int], _Act] = {}
        self._given_back: dict[tuple[int, int], _Act] = {}

    def _act(self, i: Instruction, warp: int) -> _Act:
        return _Act(i, warp, int(self.clocks.clock[warp]))

    def allocated(self, i: Instruction, warp: int, cta: int, column: int) -> None:
        """A warp has got its columns, from one on."""
        peer = cta ^ 1
        self._made[cta, column] = self._act(i, warp)
        if not self.lifetimes.has_begun(peer, warp):
            self.x.launch.find(
                "X009", i, f"warp {self._warp(warp)} allocates tensor memory for a pair before it knows that CTA {self.x.ctas[peer].number} has begun",
                f"{BARRIER} before it", because=BECAUSE, milder=Severity.NOTE, why="the PTX ISA guarantees this order only after a cluster barrier; no failure is known, since the CTAs of a cluster begin together",
            )  # fmt: skip

    def freed(self, i: Instruction, warp: int, cta: int, first: int, end: int) -> None:
        """A warp gives columns back."""
        peer = cta ^ 1
        made, before = self._made.get((peer, first)), self._given_back.pop((peer, first), None)
        if made is not None:
            self._follows(i, warp, made, f"columns {first} to {end - 1}")
        for member in (cta, peer):
            self.tensor.may_free(i, warp, member, first, end)
        if before is None:
            self._given_back[cta, first] = self._act(i, warp)
            return
        self._may_block(i, warp, before)
        for member in (cta, peer):
            self._made.pop((member, first), None)
            self.tensor.empties(member, first, end)

    def _follows(self, i: Instruction, warp: int, made: _Act, columns: str) -> None:
        """X012 where tcgen05.alloc of the other CTA may not be complete."""
        other = np.array([made.warp])
        late, formal = self.clocks.missing(lambda order: order.has_seen(np.array([warp]), other) < made.when)
        if late.any():
            self.reporting.tell(
                i, races.tensor_memory(
                    Access("free", f"warp {self._warp(warp)}", i), Access("alloc", f"warp {self._warp(made.warp)}", made.instruction), f"{columns} of a pair",
                ), f"{BARRIER}, between tcgen05.alloc and this line", MEASURED,
                formal=formal, other=made.instruction,
            )  # fmt: skip

    def _may_block(self, i: Instruction, warp: int, before: _Act) -> None:
        """X006 where a warp waits for something that the other CTA does after its own tcgen05.dealloc, which may
        block until this one comes.
        """
        if self.clocks.has_seen(np.array([warp]), np.array([before.warp]))[0] >= before.when:
            self.x.launch.find(
                "X006", i, "the two CTAs of a pair may wait for each other", f"{BARRIER} before both, and no wait between the two",
                because=BECAUSE, other=before.instruction, why="tcgen05.dealloc may block until both CTAs of the pair execute it",
                halves=(Half("wait", f"warp {self._warp(warp)} ({i.name})", i), Half("free", f"warp {self._warp(before.warp)} ({before.instruction.name})", before.instruction)),
            )  # fmt: skip

    def _warp(self, warp: int) -> str:
        return self.reporting.warp(warp)
