"""How an access of a warp goes through the banks of shared memory: a row for each pass, and which lanes it serves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smemsim.core.layout.conflicts import BankAccess, conflict_free_layouts
from smemsim.core.picture.model import EMPTY, Cell, Grid, Legend, Mark, Picture, Row, colour
from smemsim.core.picture.svg import grids_svg
from smemsim.core.spec.counters import ACCESS_COSTS, LANES, LANES_TOGETHER, Counts
from smemsim.core.spec.shared_memory import BANKS, CHUNK

__all__ = ["banks_picture", "banks_svg"]


_PER_CELL = CHUNK // BANKS.width  # banks of a column


def lanes_text(lanes: Sequence[int]) -> str:
    """Lanes in few characters.

    >>> lanes_text([0, 1, 2, 3, 9])
    '0-3,9'
    """
    parts: list[list[int]] = []
    for lane in lanes:
        if parts and lane == parts[-1][1] + 1:
            parts[-1][1] = lane
        else:
            parts.append([lane, lane])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)


def _together(access: BankAccess) -> int:
    """Lanes that go together; of a load whose neighbours have one address twice as many, if that is less."""
    width = LANES_TOGETHER[access.size]
    first = BankAccess(access.op, access.at[:1], access.size, access.active[:1])
    separate = sum(len(_passes(access, start, width)) for start in range(0, LANES, width))
    return 2 * width if access.op == "ld" and width < LANES and first.cost < separate else width


def _passes(access: BankAccess, start: int, width: int) -> list[dict[int, list[int]]]:
    """The passes of one group of lanes of the first warp: in each, the lanes that every bank serves."""
    by_lane = ACCESS_COSTS[access.op].counts is Counts.LANES
    places: dict[int, dict[int, list[int]]] = {}  # by bank: by word (or lane) the lanes
    for lane in range(start, start + width):
        if not int(access.active[0]) >> lane & 1:
            continue
        for k in range(max(access.size // BANKS.width, 1)):
            word = int(access.at[0, lane]) // BANKS.width + k
            places.setdefault(word % BANKS.count, {}).setdefault(lane if by_lane else word, []).append(lane)
    count = max((len(words) for words in places.values()), default=0)
    return [{bank: list(words.values())[n] for bank, words in places.items() if n < len(words)} for n in range(count)]


def banks_picture(access: BankAccess) -> Picture:
    """The first warp of an access."""
    rows: list[Row] = []
    width, number = _together(access), 0
    for start in range(0, LANES, width):
        for n, banks in enumerate(_passes(access, start, width)):
            cells = tuple(_cell(banks, column, n) for column in range(BANKS.groups))
            lanes = f"lanes {start} to {start + width - 1}"
            rows.append(Row(number, f"pass {number + 1}", cells, lanes if not n else f"{lanes} again"))
            number += 1
    one = BankAccess(access.op, access.at[:1], access.size, access.active[:1])
    least = min(one.ideal, one.cost)
    title = f"{access.name or access.op}: {one.cost} pass{'es' * (one.cost > 1)}, {least} without conflicts"
    says = (
        f"A warp accesses shared memory: {access.op}, {access.size} bytes a lane.",
        "A pass is what ncu calls a wavefront. A column is 4 banks.",
    )
    better = conflict_free_layouts([one]).layouts[:1] if one.cost > least else ()
    notes = tuple(f"without conflicts: {layout.says}" for layout in better)
    return Picture(
        title, says, "the rule was measured on an H200", (Grid("passes through the banks", tuple((str(BANKS.of(column * CHUNK)),) for column in range(BANKS.groups)), tuple(rows), "bank"),), cell="lanes that the pass serves in these four banks",
        colours=(), legend=(Legend("the first pass of these lanes", colour(0)), Legend("a further pass of the same lanes: a bank conflict", colour(3), Mark.WRONG), Legend("no lane", EMPTY, Mark.NOTHING)),
        notes=notes,
    )  # fmt: skip


def _cell(banks: dict[int, list[int]], column: int, n: int) -> Cell:
    first = column * _PER_CELL
    here = {bank: banks[bank] for bank in range(first, first + _PER_CELL) if bank in banks}
    if not here:
        return Cell("", EMPTY, frozenset({Mark.NOTHING}), hint=f"banks {first} to {first + _PER_CELL - 1}: no lane")
    lanes = np.unique([lane for found in here.values() for lane in found]).tolist()
    hint = "; ".join(f"bank {bank}: lanes {lanes_text(found)}" for bank, found in here.items())
    return Cell(lanes_text(lanes), colour(3 if n else 0), frozenset({Mark.WRONG} if n else ()), hint=hint)


def banks_svg(access: BankAccess) -> str:
    """The picture as SVG."""
    return grids_svg(banks_picture(access))
