"""How M = 64, .ws and two CTAs split an operand: does the part of an instruction begin inside a swizzle atom, do its rows fit its lanes?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.checking.instructions import is_sparse, kind_of_step
from smemsim.checking.reads import Read
from smemsim.checking.report import CheckFinding, share_of
from smemsim.checking.simulate import TMEM, Machine, finding
from smemsim.checking.tmem_reads import Cells, as_given, blamed_copy, grid, steps_of, tmem_at
from smemsim.descriptors.operand import swizzled
from smemsim.errors import InputError, Unmodelled
from smemsim.machine.tmem.layout import accumulator_path
from smemsim.machine.tmem.operands import ATmemLayout
from smemsim.solve.inverse import locate
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import ATOM_ROWS
from smemsim.spec.swizzles import MODES
from smemsim.spec.tensor_memory import A_CONTAINER_BITS, A_GRADES, LANE_SHIFT

__all__ = ["a_from_tensor_memory", "cta_group_of", "lane_split", "rows_in_cta"]


def cta_group_of(raw: dict[str, Any], number: int, step: dict[str, Any]) -> int | None:
    """The CTAs that issue a step together, None where the scenario does not say. Raises InputError for any but 1 and 2."""
    key, group = ("", raw.get("cta_group")) if "cta_group" not in step else (f"step[{number}].", step["cta_group"])
    if group not in (None, 1, 2):
        raise InputError(f"{key}cta_group = {group}: there are .cta_group::1 and .cta_group::2")
    return group


def rows_in_cta(step: dict[str, Any], side: str, arch: str, group: int | None) -> int:
    """Rows of A, or columns of B, that one instruction reads from the shared memory of each CTA: of a pair each has half."""
    total = int(step.get("m" if side == "a" else "n", 0))
    pair = group == 2 and kind_of_step(step, arch) in A_CONTAINER_BITS
    return total // 2 if pair and total % 2 == 0 else total


def lane_split(machine: Machine, read: Read, step: dict[str, Any], group: int | None, told: list[CheckFinding]) -> Iterator[CheckFinding]:
    """The findings of an operand, with I604 instead of R508 where its rows are cut inside a swizzle atom or are not those of the CTA."""
    for one in told:
        yield (_cut(machine, read, step, group, one) if one.code in ("R508", "R507", "R504") and not one.because else None) or one


def _cut(machine: Machine, read: Read, step: dict[str, Any], group: int | None, one: CheckFinding) -> CheckFinding | None:
    side = read.where[-1]
    own = rows_in_cta(step, side, machine.arch, group)
    if group == 2 and own < read.rows and machine.seen and not machine.seen[-1].wrong[:, :, :own].any():
        text = f"each CTA of the pair reads {own} rows of {side.upper()}, the scenario has {read.rows}: those from row {own} on lie in the other CTA"
        return dataclasses.replace(one, code="I604", where=f"{read.where}.rows", message=f"{one.message.partition(';')[0]}; {text}",
                                   repair=f"rows = {own}", fix=(f"{read.where}.rows", read.rows, own) if "rows" in read.raw else None,
                                   numbers={"rows": [read.rows, own]}, grade="documented")  # fmt: skip
    if one.fix or one.code != "R508":
        return None
    places = locate(machine.source, read.meant)
    mode = MODES.get(read.descriptor.swizzle)
    if mode is None or not mode.mask or (places < 0).any():
        return None
    linear = swizzled(places, mode)
    along = read.major == "MN"
    unit = element_format(read.dtype).elements_per_chunk(read.packing) * mode.chunks if along else ATOM_ROWS
    cuts = {block: first for block in range(len(linear)) if (first := _first_cut(linear[block, 0, :, 0], unit))}
    if not cuts:
        return None
    block, first = next(iter(cuts.items()))
    why = " (half of the pair's)" if group == 2 else " (.ws)" if _ws(step) else ""
    return dataclasses.replace(one, code="I604", message=f"{one.message}; block {block} has {first} rows in the {mode.swizzle} atom where it begins, whole atoms have {unit}: "
                               f"parts of {read.rows} rows{why} cut it", repair=f"parts of a multiple of {unit} rows, or a tile of its own for each part",
                               numbers={"rows": read.rows, "atom": unit, "first": first})  # fmt: skip


def _first_cut(line: np.ndarray, unit: int) -> int:
    """Rows before the first atom ends, where atoms of `unit` rows follow one another and the first is not whole; otherwise 0."""
    by = np.diff(line)
    if not len(by):
        return 0
    values, counts = np.unique(by, return_counts=True)
    jumps = np.nonzero(by != values[counts.argmax()])[0] + 1
    return int(jumps[0]) % unit if len(jumps) and len(set((jumps % unit).tolist())) == 1 else 0


def _ws(step: dict[str, Any]) -> bool:
    return bool(step.get("ws", ".ws" in step.get("instruction", "")))


def a_from_tensor_memory(machine: Machine, raw: dict[str, Any], number: int, step: dict[str, Any], group: int | None) -> None:
    """A of an MMA that reads it from tensor memory: the lanes it begins at, and, where copies brought it, every element."""
    where, title, operand, kind = f"step[{number}].a", f"step {number + 1} (mma) a", step["a"], kind_of_step(step, machine.arch)
    if kind not in A_CONTAINER_BITS:
        machine.unchecked.append(where)
        return
    about: dict[str, Any] = {"ws": _ws(step), "sparse": is_sparse(step)}
    try:
        path = accumulator_path(step["m"], group or 1, **about)
    except InputError:
        machine.unchecked.append(where)  # no such M: I601 says so
        return
    shape = steps_of(step, "a")
    starts = [tmem_at(f"{where}.tmem", int(x)) for x in grid(f"{where}.tmem", operand["tmem"], shape).flat]
    off = next((start for start in starts if start.lane not in path.lanes), None)
    if off is not None:
        only = " or ".join(map(str, path.lanes))
        right = np.array([path.lanes[0] << LANE_SHIFT | start.column for start in starts]).reshape(shape)
        machine.say(finding("I604", f"{where}.tmem", title,
                            f"A begins in lane {off.lane}; with M = {step['m']} its rows fill {path.block} of every 32 lanes from lane {only} on (layout {path.name} of D)",
                            f"tmem = {as_given(right, operand['tmem'])}", numbers={"lane": off.lane, "legal": list(path.lanes)}, grade=str(A_GRADES[path.name][0]),
                            fix=(f"{where}.tmem", operand["tmem"], as_given(right, operand["tmem"]))))  # fmt: skip
        return
    if operand["major"] != "K":
        machine.say(finding("I602", f"{where}.major", title, "A in tensor memory has a lane for each row: it cannot be MN-major", "major = K", grade="documented"))  # fmt: skip
        return
    if "meant" not in operand or (machine.tmem_writer < 0).all():
        machine.unchecked.append(where)
        return
    try:
        layout = ATmemLayout(step["m"], kind, group or 1, lane=starts[0].lane, **about)
    except Unmodelled as e:
        machine.unchecked.append(f"{where} ({e})")
        return
    one = _compare(machine, where, title, operand, layout, [s.column for s in starts], shape)
    blamed = blamed_copy(machine, raw, number, set(map(int, np.unique(machine.tmem_writer))))
    if one is not None and blamed is not None:
        cause = blamed.because or blamed.code
        one = dataclasses.replace(one, code="R508", because=cause, repair=f"see {cause}", fix=None)
    if one is not None:
        machine.say(one)


def _compare(
    machine: Machine, where: str, title: str, operand: dict[str, Any], layout: ATmemLayout, columns: list[int], shape: tuple[int, int]
) -> CheckFinding | None:  # fmt: skip
    """What is wrong with A, element by element; None where nothing is."""
    rows, meant = layout.m // layout.cta_group, operand["meant"]
    row, k = np.meshgrid(np.arange(rows), np.arange(layout.k), indexing="ij")
    lane, column, bit = (np.stack(x) for x in zip(*(layout.location(row, k, copy)[1:] for copy in range(layout.copies)), strict=True))
    cells, tensor = Cells(lane, column, bit // 8), machine.tensors[meant["tensor"]]
    at, axes = meant.get("at", [0, 0]), (meant["axes"][0], meant["axes"][1])
    wanted = [
        tensor.byte_addresses(axes, at[0] + block * meant.get("mn_step", rows) + row, at[1] + number * meant.get("k_step", layout.k) + k)
        for block, number in np.ndindex(shape)
    ]
    bad = np.stack([cells.wrong(machine, want, start) for want, start in zip(wanted, columns, strict=True)])
    if not bad.any():
        return None
    count, total = int(bad.any(axis=1).sum()), bad[:, 0].size
    share = f"{share_of(count, total, 'elements')} in tensor memory"
    counts: dict[str, Any] = {"wrong": count, "of": total, "grade": str(layout.grade)}
    options = [[c for c, _ in cells.places(machine, want)] for want in wanted]
    if all(options):
        near = [min(o, key=lambda c: abs(c - used)) for o, used in zip(options, columns, strict=True)]
        right = np.array([layout.lane << LANE_SHIFT | c for c in near]).reshape(shape)
        return finding("R502", f"{where}.tmem", title, f"{share}; other columns have them", f"columns {columns} must be {near}",
                       numbers={"used": columns, "needed": near}, fix=(f"{where}.tmem", operand["tmem"], as_given(right, operand["tmem"])), **counts)  # fmt: skip
    part, copy, first = (int(x[0]) for x in np.nonzero(bad.any(axis=3)))
    line = (
        machine.tmem[:, cells.column[copy, first] + columns[part], cells.byte[copy, first]]
        if columns[part] + cells.columns <= TMEM[1]
        else None
    )
    lies = [] if line is None else np.nonzero((line == wanted[part][first]).all(axis=1))[0].tolist()
    if lies:
        text = f"row {first} lies in lane {lies[0]} and is read in lane {int(cells.lane[copy, first, 0])}"
        again = f", {layout.copies} times, once for each band of N" if layout.copies > 1 else ""
        return finding("I604", f"{where}.tmem", title, f"{share}; {text}: A lies in the lanes of D (layout {layout.name}){again}",
                       "bring the rows to these lanes", numbers={"row": first, "lies": lies, "read": int(cells.lane[copy, first, 0])}, **counts)  # fmt: skip
    return finding("R508", where, title, f"{share}; no column has them all", **counts)
