"""How accesses are packed into numbers in the sanitizer's tables: what its loops and compiled blocks, which note
accesses there at once, have in common.

A *mark* of a word of shared memory is the time of a warp and a lane, a *stamp* the epoch of a CTA and a thread. An
*epoch* of a cell of global memory is a warp, its clock and an instruction.
"""

from __future__ import annotations

__all__ = ["CLOCK", "INDEX", "LANE_BITS", "MANY", "MANY_THREADS", "NO_LANE", "PART_BITS", "SEVERAL", "THREAD_BITS", "WHEN", "WHO"]


LANE_BITS, PART_BITS = 6, 20  # of a mark: the warp's time, the meetings of a part of it since, the lane
# instead of a lane: one apart from all others; several lanes; lanes that are not recorded
NO_LANE, SEVERAL, MANY = 61, 62, 63

THREAD_BITS = 11  # of a stamp: the thread in its CTA, plus one
MANY_THREADS = (1 << THREAD_BITS) - 1  # instead of a thread: several threads, or an unknown one

# the first bits of the fields of a cell's epoch: the warp, counted through the launch from 1 on, its clock, the
# instruction
WHO, WHEN = 37, 15
CLOCK, INDEX = (1 << WHO - WHEN) - 1, (1 << WHEN) - 1
