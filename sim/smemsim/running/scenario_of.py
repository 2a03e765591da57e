"""A run as a scenario: the loads and matrix instructions of a CTA, each operand with what it was meant to be."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.gpu.events import Load, Mma
from smemsim.gpu.launch import Launch
from smemsim.running.operand_reads import Issued, OperandRead, Product, Reads
from smemsim.scenario.build import Scenario
from smemsim.spec.architectures import architecture

__all__ = ["Written", "scenario_of"]

MOST_PRODUCTS = 12


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """The scenario, and for each of its steps the events that it stands for; `maps` are the first loads through each map."""

    scenario: Scenario
    steps: tuple[Load | Product, ...]
    maps: dict[str, Load]


def scenario_of(launch: Launch, reads: Reads, *, title: str = "", most: int = MOST_PRODUCTS) -> Written:
    """The different products of a run, the first of each kind, with the loads that brought their operands."""
    chosen = _different(reads.products)[:most]
    loads = {load.number: load for p in chosen for side in (p.a, p.b) for read in side if read is not None for load in read.loads}
    scenario = Scenario(launch.arch, title=title or f"{launch.program.name}, as it ran")
    begin = architecture(launch.arch).shared_begin
    scenario.buffer("shared", address=begin, bytes=launch.window_bytes)
    names: dict[Any, str] = {}
    maps: dict[str, Load] = {}
    steps: list[Load | Product] = []
    for item in sorted((*loads.values(), *chosen), key=lambda one: one.number):
        if isinstance(item, Issued):
            _load(scenario, item, names, maps, begin)
            steps.append(item.event)
        else:
            _product(scenario, item, names)
            steps.append(item)
    return Written(scenario, tuple(steps), maps)


def _different(products: list[Product]) -> list[Product]:
    """The first product of each kind: by its instructions, what its operands are and how it steps through them."""

    def kind(p: Product) -> Any:
        sides = []
        for side in (p.a, p.b):
            first = side[0]
            if first is None:
                sides.append((None,) * len(side))
            else:
                sides.append(tuple(None if r is None else (r.origin - first.origin, r.share, r.word >> 32, r.base) for r in side))
        return tuple(e.instruction.line for e in p.events), tuple(sides)

    return list({kind(p): p for p in reversed(products)}.values())[::-1]


def _load(scenario: Scenario, item: Issued, names: dict[Any, str], maps: dict[str, Load], begin: int) -> None:
    event, transfer = item.event, item.transfer
    key = bytes(event.tensor_map)
    if key not in names:
        names[key] = f"map{sum(isinstance(k, bytes) for k in names)}"
        scenario.map(names[key], event.tensor_map)
        maps[names[key]] = event
    scenario.step("tma_load", map=names[key], to="shared", offset=transfer.smem_address - begin, at=list(event.coordinates))


def _product(scenario: Scenario, p: Product, names: dict[Any, str]) -> None:
    first = p.events[0]
    keys: dict[str, Any] = {"kind": first.kind, "m": first.m, "n": first.n, "k": first.k}
    if first.idesc is not None:
        keys["idesc"] = first.idesc
    if first.cta_group == 2:
        keys["cta_group"] = 2
    if first.is_sparse:
        keys["sparse"] = True
    origins = _origins(p)
    for side, reads, rows in (("a", p.a, first.m), ("b", p.b, first.n)):
        words = [getattr(e, side) for e in p.events]
        if words[0] is None:
            continue
        operand: dict[str, Any] = {"dtype": getattr(first, f"{side}_type"), "major": getattr(first, f"{side}_major"), "words": words}
        read = reads[0]
        at = origins[side]
        if read is not None and at is not None:
            operand["meant"] = {"tensor": _tensor(scenario, read, operand["dtype"], names, rows), "axes": ["row", "k"], "at": list(at)}
        keys[side] = operand
    scenario.step("mma", **keys)


def _tensor(scenario: Scenario, read: OperandRead, dtype: str, names: dict[Any, str], rows: int) -> str:
    """The tensor as an operand sees it: rows and k."""
    key = ("tensor", read.base, read.row_stride, read.k_stride)
    if key not in names:
        names[key] = f"T{sum(isinstance(k, tuple) for k in names)}"
        tm = read.loads[0].transfer.tensor_map
        inner, outer = tm.global_dim[0], tm.global_dim[1]
        if tm.rank > 2:  # planes behind one another: their outer axes are rows as well
            inner, outer = max(read.row_stride, read.k_stride) // min(read.row_stride, read.k_stride), 1 << 24
        row, k = (outer, inner) if read.row_stride > read.k_stride else (inner, outer)
        strides = {"row": read.row_stride, "k": read.k_stride}
        scenario.tensor(names[key], dtype, strides=strides, address=read.base, row=row, k=k)
    return names[key]


def _origins(p: Product) -> dict[str, tuple[int, int] | None]:
    """(row, k) at which each operand should begin: where it does, unless A and B begin at different k of tiles that begin at the same."""
    a, b = p.a[0], p.b[0]
    found: dict[str, tuple[int, int] | None] = {side: None if r is None or r.origin < r.base else r.at for side, r in (("a", a), ("b", b))}
    if a is None or b is None or found["a"] is None or found["b"] is None or found["a"][1] == found["b"][1]:
        return found
    corners = [_corner(r) for r in (a, b)]
    if corners[0] == corners[1]:
        for side in ("a", "b"):
            row = found[side]
            if row is not None:
                found[side] = (row[0], corners[0])
    return found


def _corner(read: OperandRead) -> int:
    """The k at which the first of an operand's tiles begins."""
    load = min(read.loads, key=lambda one: one.number)
    tm, at = load.transfer.tensor_map, load.event.coordinates
    if read.k_stride < read.row_stride:
        return at[0] if tm.rank == 2 else at[0] + sum(c * s for c, s in zip(at[2:], tm.global_strides[1:], strict=True)) // read.k_stride
    outer = next(n for n, size in enumerate(tm.box_dim[1:], 1) if size > 1)
    return at[outer]


def events_of(step: Load | Product) -> list[Load | Mma]:
    """The events of a step."""
    return [step] if isinstance(step, Load) else list(step.events)
