"""CTAs that load exactly the same tiles of A and of B: the tile of a product does not
depend on one index of the CTA.
"""

from __future__ import annotations

import collections
from typing import Any

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Load, Store

__all__ = ["repeated_products"]

AXES = "xyz"


def repeated_products(reads: Reads, launch: Launch) -> list[Finding]:
    """R508 as a remark if the CTAs along one axis of the grid all load the same boxes, and so compute the same product.

    Both operands of all products must come from tensor loads. It is no finding: redundant CTAs are slow, but may be
    meant, and other data (a bias, scales that threads read) may differ. If they all do the same with the same tiles of
    D, or the whole grid computes one product, nothing is reported: benchmarks are written so.
    """
    products = reads.products
    if not (reads.complete and products) or launch.ctas < 2 or launch.cluster_size > 1:
        return []
    if any(read is None for p in products for read in p.first):
        return []
    loads, stores = _transfers(launch)
    if len(loads) != launch.ctas:
        return []
    groups: dict[tuple[Any, ...], list[int]] = {}
    for cta, boxes in loads.items():
        groups.setdefault(tuple(boxes), []).append(cta)
    kept = {product.events[0].cta for product in products}
    if any(len(kept.intersection(group)) > 1 for group in groups.values()):
        return []  # they read other parts of the same boxes: else the products of one of them are kept
    axis = _axis(list(groups.values()), launch)
    if axis is None or len({tuple(x) for x in stores.values()}) < len(stores):
        return []
    a, b = (read.loads[0].event.instruction for read in products[0].first if read is not None)
    name = AXES[axis]
    return [
        at_instruction(
            "R508",
            b,
            f"the {launch.grid[axis]} CTAs along {name} of the grid load the same tiles of A and of B: {launch.ctas} CTAs compute {len(groups)} different products",
            f"let the coordinates of A or of B depend on %ctaid.{name}, unless these CTAs repeat the work on purpose",
            milder=Severity.NOTE,
            why=f"no coordinate of the loads of A (PTX line {a.line}) and of B (PTX line {b.line}) changes with %ctaid.{name}",
        )
    ]


def _transfers(launch: Launch) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    """The boxes that each CTA loads and stores: (line, number of the map, coordinates, im2col offsets), in the order
    of the CTA. Equal maps have one number.
    """
    loads, stores = collections.defaultdict[int, list[Any]](list), collections.defaultdict[int, list[Any]](list)
    numbers: dict[TensorMap, int] = {}
    of_map: dict[int, int] = {}  # by the identity of a map
    for e in launch.result.events.transfers():
        if not isinstance(e, (Load, Store)):
            continue
        tm = e.tensor_map
        number = of_map.get(id(tm))
        if number is None:
            number = of_map[id(tm)] = numbers.setdefault(tm, len(numbers))
        if type(e) is Load:
            loads[e.cta].append((e.instruction.line, number, e.coordinates, e.im2col_offsets))
        elif type(e) is Store:
            stores[e.cta].append((number, e.coordinates))
    return loads, stores


def _axis(groups: list[list[int]], launch: Launch) -> int | None:
    """The axis of the grid along which all CTAs of each group lie, if each group is a whole line of the grid. None if
    there is no such axis, or if one group is the whole grid.
    """
    gx, gy, gz = launch.grid
    for axis, (extent, step) in enumerate(((gx, 1), (gy, gx), (gz, gx * gy))):
        if 1 < extent < launch.ctas and all(
            len(group) == extent and group == list(range(group[0], group[0] + extent * step, step)) for group in map(sorted, groups)
        ):
            return axis
    return None
