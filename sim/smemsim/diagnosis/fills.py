"""Boxes of tensor transfers that lie outside of their tensor: with two coordinates exchanged they would be the whole
tensor, so that these were meant.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.core.words.tensor_map import TensorMap
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Load, Store

__all__ = ["exchanged_boxes", "is_plain", "lies_outside"]


Place = tuple[int, ...]


def exchanged_boxes(launch: Launch) -> list[Finding]:
    """T209 for loads, R508 for stores: boxes completely outside, all of which are inside and cover the tensor if two
    coordinates are exchanged.

    A correct kernel is not reported: its boxes reach the end of the tensor as they are, and boxes past a ragged end
    are not all inside if exchanged. If all boxes of a map are outside for another reason, that is a remark: a launch
    may have nothing to do.
    """
    moved: dict[tuple[bool, TensorMap], dict[Place, Load | Store]] = {}
    # of a map by its identity the same, None where it is not plain
    of_map: dict[tuple[bool, int], dict[Place, Load | Store] | None] = {}
    for e in launch.result.events.transfers():
        if not isinstance(e, (Load, Store)) or e.mode != "tile":
            continue
        tm, key = e.tensor_map, (type(e) is Load, id(e.tensor_map))
        if key not in of_map:
            of_map[key] = moved.setdefault((key[0], tm), {}) if is_plain(tm) else None
        boxes = of_map[key]
        if boxes is not None:
            boxes.setdefault(e.coordinates, e)
    found = []
    for (is_load, tm), boxes in moved.items():
        outside = [e for at, e in boxes.items() if lies_outside(at, tm)]
        exchange = next((pair for pair in itertools.combinations(range(tm.rank), 2) if outside and _covers(boxes, pair, tm)), None)
        if exchange is not None:
            found.append(_told(outside, len(boxes), exchange, is_load=is_load))
        elif len(outside) == len(boxes):
            found.append(_all_outside(outside, is_load=is_load))
    return found


def is_plain(tm: TensorMap) -> bool:
    """Has a box of a map all elements between its ends, in several dimensions?"""
    return tm.call == "tiled" and tm.rank > 1 and not tm.interleave and set(tm.element_strides) == {1}


def lies_outside(at: Place, tm: TensorMap) -> bool:
    """Does no element of the box lie in the tensor?"""
    return any(c >= extent or c + box <= 0 for c, box, extent in zip(at, tm.box_dim, tm.global_dim, strict=True))


def _exchanged(at: Place, pair: tuple[int, int]) -> Place:
    swapped = list(at)
    one, two = pair
    swapped[one], swapped[two] = at[two], at[one]
    return tuple(swapped)


def _covers(boxes: Iterable[Place], pair: tuple[int, int], tm: TensorMap) -> bool:
    """Are all boxes, with a pair of coordinates exchanged, side by side the whole tensor, and nowhere outside of it?"""
    places = {_exchanged(at, pair) for at in boxes}
    along = [sorted({at[d] for at in places}) for d in range(tm.rank)]
    for begins, box, extent in zip(along, tm.box_dim, tm.global_dim, strict=True):
        ends = [begin + box for begin in begins]
        if begins[0] != 0 or not extent - box <= begins[-1] < extent or any(b != e for b, e in zip(begins[1:], ends, strict=False)):
            return False
    return len(places) == math.prod(len(begins) for begins in along)


def _told(outside: list[Load | Store], count: int, pair: tuple[int, int], *, is_load: bool) -> Finding:
    first = min(outside, key=lambda e: e.cta)  # in whichever order the CTAs have executed
    tm, right = first.tensor_map, _exchanged(first.coordinates, pair)
    does = "these loads read fill only" if is_load else "these stores write nothing"
    return at_instruction(
        "T209" if is_load else "R508",
        first.instruction,
        f"{len(outside)} of the {count} boxes of this map are outside the tensor, first the box at {list(first.coordinates)}; global_dim = {list(tm.global_dim)}",
        f"exchange coordinates {pair[0]} and {pair[1]}: {list(right)} here; dimension 0, the contiguous one, comes first",
        arrays=(tm.global_address,),
        why=f"{does}; with coordinates {pair[0]} and {pair[1]} exchanged the boxes are exactly the whole tensor",
    )


def _all_outside(outside: list[Load | Store], *, is_load: bool) -> Finding:
    first = min(outside, key=lambda e: e.cta)
    does = "reads numbers of the tensor: the tiles hold fill only" if is_load else "writes anything"
    return at_instruction(
        "T209" if is_load else "R508", first.instruction,
        f"all boxes that {'loads' if is_load else 'stores'} of this map name are outside the tensor, first the box at {list(first.coordinates)}; "
        f"global_dim = {list(first.tensor_map.global_dim)}",
        "coordinates in the order of the dimensions: dimension 0, the contiguous one, comes first", arrays=(first.tensor_map.global_address,),
        why=f"none of them {does}", milder=Severity.NOTE,
    )  # fmt: skip
