"""The counters of a run: what was counted while it ran, and what its record says of copies and products of tcgen05."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from smemsim.core.machine.tma import tma_store
from smemsim.core.ptx.module import Instruction, Location
from smemsim.run.counters import Counters, Counting
from smemsim.run.engine.records import Bulk, Load, Mma, Store

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["counters_of"]


def counters_of(launch: Launch, counting: Counting, place: Callable[[Location], Location]) -> Counters:
    """The table of a launch; `place` is the source line that a kernel author knows an instruction by."""

    def source(i: Instruction) -> str:
        return "" if i.location is None else str(place(i.location))

    return Counters.of(counting, source, _recorded(launch))


def _recorded(launch: Launch) -> Iterator[tuple[Instruction, int, int]]:
    for event in launch.result.events.transfers():
        if isinstance(event, Load):
            yield event.instruction, sum(d.transaction_bytes for d in event.deliveries), 0
        elif isinstance(event, Store):
            box = tma_store(event.tensor_map, event.coordinates, smem_address=event.smem_address, mode=event.mode)
            yield event.instruction, box.transaction_bytes, 0
        elif isinstance(event, Bulk):
            yield event.instruction, sum(t.size for t in event.transfers), 0
    for product in launch.result.events:
        if isinstance(product, Mma) and product.kind != "wgmma":
            yield product.instruction, 0, 2 * product.m * product.n * product.k
