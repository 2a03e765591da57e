"""The loads and products of a CTA, one after the other, and those of CTAs that do the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smemsim.base.masks import any_set
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.shared_memory import LINE
from smemsim.core.spec.wgmma import WGMMA_THREADS
from smemsim.diagnosis.operands.places import Noted
from smemsim.diagnosis.operands.read import Issued, Product
from smemsim.run.engine.records import Load, Mma, Products

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["CtaTrace", "SharedTrace", "Step"]


class Step(NamedTuple):
    """A matrix instruction of a CTA: its number in the launch's and in the CTA's order of execution, and its operands,
    None where TMA has not loaded one.
    """

    when: int
    number: int
    event: Mma
    a: Noted | None
    b: Noted | None


@dataclasses.dataclass(eq=False)
class CtaTrace:
    """The loads and matrix instructions that a CTA has executed so far."""

    cta: int
    count: int = 0
    looked: int = 0
    # by the identity of the transfer, which stays alive here
    loads: dict[int, Issued] = dataclasses.field(default_factory=dict)
    steps: list[Step] = dataclasses.field(default_factory=list)
    products: list[Product] = dataclasses.field(default_factory=list)
    open: dict[tuple[Any, ...], Product] = dataclasses.field(default_factory=dict)
    may_have_frames: bool = False  # an operand of which all CTAs together decide it

    def accumulator(self, event: Mma) -> tuple[Any, ...]:
        """Which accumulator an instruction of the CTA adds to."""
        return self.cta, event.thread // WGMMA_THREADS, event.kind, event.d

    def does(self) -> tuple[Any, ...]:
        """The key of a CTA's loads and instructions, without the places of its tiles in their tensors. The place
        along K counts, and so does the part of a tile outside.

        CTAs with the same key have the same pieces, and the same findings.
        """
        of_map: dict[Any, tuple[int, ...]] = {}
        of_base: dict[int, tuple[int, ...]] = {}
        loads = []
        for load in self.loads.values():
            base, at, its_map = load.transfer.tensor_map.global_address, load.event.coordinates, (load.event.map_address, load.map_key)
            by = (_minus(at, of_map.setdefault(its_map, at)), _minus(at, of_base.setdefault(base, at)))
            loads.append((load.event.instruction.line, *its_map, base, load.event.mode, load.transfer.smem_address, by, load.clipped))
        return tuple(loads), *self._multiplies(of_map)

    def _multiplies(self, of_map: dict[Any, tuple[int, ...]]) -> tuple[Any, ...]:
        """The products of its instructions, and their begins along K. The first coordinates of each map are
        `of_map`.
        """
        numbers, along = {id(load): n for n, load in enumerate(self.loads.values())}, dict[Any, tuple[int, ...]]()
        steps = list[tuple[Any, ...]]()
        for _, _, event, *operands in self.steps:
            steps.append((event.instruction.line, event.thread // WGMMA_THREADS, event.kind, event.d, event.m, event.n, event.k, event.a, event.b,
                          event.a_major, event.b_major, event.begins, event.idesc, event.is_sparse))  # fmt: skip
            for operand in operands:
                if operand is None:
                    steps.append(())
                    continue
                steps.append((operand.told, *[numbers[id(load)] for load in operand.loads]))
                first = operand.loads[0]
                if (of := (first.event.map_address, first.map_key, operand.major)) not in along:
                    along[of] = of_map[of[:2]][:1] if operand.major == "K" else of_map[of[:2]][1:]
        return tuple(steps), tuple(along.items())


def _minus(at: tuple[int, ...], origin: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([c - d for c, d in zip(at, origin, strict=False)])


@dataclasses.dataclass(eq=False)
class SharedTrace:
    """CTAs of a wave, by number, that behave identically so far except for the places of their tiles (`CtaTrace.does`).
    The trace has what the first CTA does, and the own part of each other CTA.
    """

    ctas: list[int]
    first: CtaTrace
    loads: list[tuple[Sequence[Load], list[Transfer]]] = dataclasses.field(default_factory=list)  # one of each CTA
    # of each its instruction, and which event of a CTA's it is
    steps: list[tuple[Products, int]] = dataclasses.field(default_factory=list)
    of_map: dict[Any, tuple[Load, ...]] = dataclasses.field(default_factory=dict)  # of each map the first loads
    along: set[tuple[Any, ...]] = dataclasses.field(
        default_factory=set
    )  # maps whose tiles begin at one place along K, by which of their dimensions that is
    # The coordinates of the first loads of each map, and of those that begin at one address, a row for each CTA.
    _begun_at: dict[Any, np.ndarray] = dataclasses.field(default_factory=dict)
    _begins: np.ndarray | None = None

    def begins(self, x: Wave) -> np.ndarray:
        """The begins of their windows among the lines of all windows of their wave."""
        if self._begins is None:
            self._begins = np.array([x.numbered(cta).index * x.pitch // LINE for cta in self.ctas], np.int64)
        return self._begins

    def load_alike(self, loads: Sequence[Load], key: str) -> bool:
        """Do all load the same, from where their first loads began? Boxes that walk in steps may lie outside of the
        tensor by steps that count for nothing.
        """
        first = loads[0]
        if any(step != 1 for step in first.tensor_map.element_strides):
            return False
        at = np.array([load.coordinates for load in loads])
        self.of_map.setdefault((first.map_address, key), tuple(loads))
        origins = (
            self._begun_at.setdefault((first.map_address, key), at),
            self._begun_at.setdefault(first.tensor_map.global_address, at),
        )
        for of in origins:
            rank = min(at.shape[1], of.shape[1])
            by = at[:, :rank] - of[:, :rank]
            if any_set(by != by[0]):
                return False
        return True

    def begin_alike(self, noted: Noted) -> bool:
        """Does the tensor of an operand begin, along K, at one place for all?"""
        load, is_k = noted.loads[0], noted.major == "K"
        its_map = load.event.map_address, load.map_key
        if (*its_map, is_k) not in self.along:
            begins = {first.coordinates[:1] if is_k else first.coordinates[1:] for first in self.of_map[its_map]}
            if len(begins) > 1:
                return False
            self.along.add((*its_map, is_k))
        return True

    def others(self) -> Iterator[CtaTrace]:
        """The traces of the other CTAs."""
        issued = list(self.first.loads.values())
        for n, cta in enumerate(self.ctas[1:], 1):
            trace = CtaTrace(cta, self.first.count, self.first.looked)
            own: dict[int, Issued] = {}
            for load, (loads, transfers) in zip(issued, self.loads, strict=True):
                own[id(load)] = trace.loads[id(transfers[n])] = Issued(
                    load.number, cta, loads[n], transfers[n], load.map_key, load.is_looked_up
                )
            for step, (products, k) in zip(self.first.steps, self.steps, strict=True):
                noted = [None if it is None else it._replace(loads=tuple(own[id(load)] for load in it.loads)) for it in (step.a, step.b)]
                before = n * len(products.own)
                trace.steps.append(Step(step.when + before, step.number, products.all[before + k], *noted))
            yield trace
