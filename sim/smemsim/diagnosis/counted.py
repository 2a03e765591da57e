"""The counters of a run: what was counted while it ran, and what its record says of copies and products of tcgen05."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from smemsim.core.machine.tma import tma_store
from smemsim.core.ptx.module import Instruction, Location
from smemsim.core.spec.cards import card_of
from smemsim.core.spec.occupancy import cta_fit, registers_for
from smemsim.run.counters import Counters, Counting
from smemsim.run.counters.classes import class_of
from smemsim.run.counters.table import Places, Words
from smemsim.run.counters.totals import MatrixCount, Residence
from smemsim.run.engine.records import Bulk, Load, Mma, Store

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch
    from smemsim.run.lower.program import Program

__all__ = ["counters_of", "residence_of"]


_PLACES: weakref.WeakKeyDictionary[Program, dict[bytes, Places]] = weakref.WeakKeyDictionary()


def counters_of(launch: Launch, counting: Counting, places: Callable[[], Callable[[Location], Location]]) -> Counters:
    """The table of a launch; `places` gives the source line that a kernel author knows an instruction by. It is asked
    for instructions that have not run before.
    """
    known = _PLACES.setdefault(launch.program, {})
    place = functools.cache(places)

    def words_of(i: Instruction) -> Words:
        return "" if i.location is None else str(place()(i.location)), i.line, i.name, class_of(i)

    return Counters.of(counting, words_of, _copied(launch), _products(launch), residence_of(launch, counting.tensor_columns), known)


def residence_of(launch: Launch, tensor_columns: int = 0) -> Residence:
    """The CTAs of a launch that a multiprocessor of its card holds at once."""
    registers = launch.kernel.directives.get("maxnreg", (None,))[0]
    size = launch.cluster_size
    return _residence(launch.arch, launch.threads, launch.asked_bytes, registers, size, launch.is_clustered and size > 1, tensor_columns)


@functools.lru_cache(256)
def _residence(arch: str, threads: int, asked: int, registers: int | None, size: int, is_clustered: bool, tensor_columns: int) -> Residence:
    card = card_of(arch)
    free = cta_fit(card, threads, asked)
    fit = free if registers is None else cta_fit(card, threads, asked, registers)
    return Residence(
        card.name, threads, asked, registers, registers_for(card, threads, max(free.most, 1)), fit, size,
        card.clusters_at_once(size, fit.most) if is_clustered else None, tensor_columns,
    )  # fmt: skip


def _copied(launch: Launch) -> Iterator[tuple[Instruction, int]]:
    for event in launch.result.events.transfers():
        if isinstance(event, Load):
            yield event.instruction, sum(d.transaction_bytes for d in event.deliveries)
        elif isinstance(event, Store):
            box = tma_store(event.tensor_map, event.coordinates, smem_address=event.smem_address, mode=event.mode)
            yield event.instruction, box.transaction_bytes
        elif isinstance(event, Bulk):
            yield event.instruction, sum(t.size for t in event.transfers)


def _products(launch: Launch) -> Iterator[tuple[Instruction, MatrixCount]]:
    """Those of tcgen05: their shape stands in a register."""
    if "tcgen05" not in launch.program.uses:
        return
    for one in launch.result.events:
        if isinstance(one, Mma):
            name = f"tcgen05.mma{'.sp' * one.is_sparse} kind::{one.kind}"
            types = f"{one.d_type}.{one.a_type}.{one.b_type}"
            yield one.instruction, MatrixCount(name, f"m{one.m}n{one.n}k{one.k}", types, 1, 2 * one.m * one.n * one.k)
