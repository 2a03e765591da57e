"""Which copies of a launch fill a range of shared memory, for the table of buffers on a report page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from smemsim.core.machine.tma import tma_load
from smemsim.core.ptx.module import Instruction, Location
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Bulk, Load

__all__ = ["Filling"]

MOST_LINES = 3  # instructions that are named
SHARED = ("shared::cta", "shared::cluster")


class _Fill(NamedTuple):
    """A copy into shared memory of the CTAs of one number: the bytes, the instruction, and the corner of its box."""

    begin: int
    end: int
    instruction: Instruction
    corner: tuple[int, ...] | None


class Filling:
    """The copies of a launch into shared memory of its first CTA, or of the first CTA of each cluster. The addresses at
    which a copy begins or ends are `bounds`.
    """

    def __init__(self, launch: Launch, place: Callable[[Location], Location]) -> None:
        self._fills, self._place = list(_fills(launch)), place
        self.bounds = sorted({at for fill in self._fills for at in (fill.begin, fill.end)})

    def by(self, begin: int, end: int) -> str:
        """The copies into the bytes from `begin` to `end` (not included), in words; "" for none."""
        here = [fill for fill in self._fills if fill.begin < end and begin < fill.end]
        if not here:
            return ""
        lines = list(dict.fromkeys(_line(fill.instruction, self._place) for fill in here))
        more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
        loads = sum(fill.corner is not None for fill in here)
        kinds = (_counted(loads, "tensor load", "tensor loads"), _counted(len(here) - loads, "bulk copy", "bulk copies"))
        named = f"{' and '.join(filter(None, kinds))} at {', '.join(lines[:MOST_LINES])}{more}"
        last = here[-1].corner
        if last is None:
            return named
        return (
            f"{named}, of the box at {list(last)}"
            if len(here) == 1
            else f"{named}; the last{', a tensor load,' * (loads < len(here))} has the box at {list(last)}"
        )


def _counted(count: int, one: str, many: str) -> str:
    """Copies of a kind, in words; "" for none."""
    return "" if not count else one if count == 1 else f"{count} {many}"


def _line(i: Instruction, place: Callable[[Location], Location]) -> str:
    """The line of the source, else of the PTX."""
    if i.location is None:
        return f"PTX line {i.line}"
    where = place(i.location)
    return str(where).rpartition("/")[2]


def _fills(launch: Launch) -> Iterator[_Fill]:
    """The copies into the first CTA of the launch; those of clusters into the first CTA of each."""
    alone, first = launch.cluster_size == 1, -1
    ends: dict[tuple[int, str, int], int] = {}  # by map, mode and place: boxes may have gaps
    for e in launch.result.events.transfers():
        if type(e) is Load:
            for d in e.deliveries:
                if d.cta_rank == 0 and (not alone or first in (-1, e.cta)):
                    first = e.cta
                    key = id(e.tensor_map), e.mode, d.smem_address
                    if key not in ends:
                        ends[key] = _end(launch, e, d.smem_address)
                    yield _Fill(d.smem_address, ends[key], e.instruction, e.coordinates)
        elif type(e) is Bulk:
            for t in e.transfers:
                if t.dst_space in SHARED and not t.dst_cta and (not alone or first in (-1, e.cta)):
                    first = e.cta
                    yield _Fill(t.dst, t.dst + t.size, e.instruction, None)


def _end(launch: Launch, e: Load, address: int) -> int:
    """The end of the shared bytes of a box."""
    return tma_load(
        e.tensor_map, e.coordinates, smem_address=address, im2col_offsets=e.im2col_offsets, mode=e.mode, arch=launch.arch
    ).shared_end
