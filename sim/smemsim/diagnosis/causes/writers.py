"""Repairs of what wrote shared memory: its swizzle, the place it writes to, the tile it takes; and two changes that
only work together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemsim.core.finding import Fix, Path
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLES
from smemsim.core.words.operand import swizzled
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.causes.repairs import Repair, changes_of, named_changes, word_fix
from smemsim.diagnosis.scenario import MapArguments, ScenarioTables, TensorStep, TmaLoad, listed
from smemsim.diagnosis.scenario_machine import (
    COMMON_SWIZZLES,
    Machine,
    Read,
    Rerun,
    Seen,
    swizzle_changes,
)
from smemsim.diagnosis.tensors import OUTSIDE

__all__ = ["all_right", "paired_repairs", "writer_repairs"]


MOST_ISSUES = 64  # issues whose place is tried


def writer_repairs(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """One change of a writer that makes the operand right."""
    yield from _swizzles(machine, seen, scenario, rerun)
    yield from _places(seen, scenario, rerun)
    yield from _coordinates(machine, seen, scenario, rerun)
    yield from _extents(machine, seen, scenario, rerun)


def all_right(again: Machine | None, read: Read) -> bool:
    """Does the operand read what was meant, of that machine?"""
    if again is None:
        return False
    addresses = read.addresses()
    return addresses.max() < again.memory.size and bool(((again.memory.source(addresses) == read.meant) | (read.meant < 0)).all())


def _targets(machine: Machine) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """(path of a writer's swizzle, which it is, what to write for each other one)."""
    for name, tm in machine.maps.items():
        if tm is not None and machine.arguments[name].raw is None:
            now = str(machine.arguments[name].swizzle_given)
            yield Path.of("map", name, "swizzle"), now, {each: each for each in COMMON_SWIZZLES if each != now}
    for buffer in machine.buffers.values():
        if buffer.layout is not None:
            path, values = swizzle_changes(buffer)
            now = str(buffer.layout.mode.swizzle)
            yield path, now, {each: value for each, value in values.items() if each != now}


def _swizzles(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle, if with another one all is right."""
    read = seen.read
    for path, now, values in _targets(machine):
        if path.table == "map" and not _is_concerned(machine, seen, scenario, path.name):
            continue
        for value in values.values():
            if all_right(rerun({path: value}), read):
                # 0: more likely than any change of the descriptor
                fields = 0 if _box_is_as_wide(machine, path, value) else 1
                yield Repair("R501", path, f"{_named(path)} writes with swizzle {_short(now)}; the descriptor reads with {read.descriptor.swizzle}",
                             f"{path} = {value}", fields, (Fix(path, scenario.value_at(path) or now, value),), {"writer": now, "reader": str(read.descriptor.swizzle)},
                             "the swizzle decides where each 16 B chunk lies")  # fmt: skip
                break


def _named(path: Path) -> str:
    """The writer whose swizzle is at a path, in words."""
    if path.table == "map":
        return path.name if path.name.startswith("map") else f"map {path.name}"
    return str(path.parent if path.key == "swizzle" else path)


def _short(swizzle: str) -> str:
    """A swizzle without the prefix of cuda.h.

    >>> _short("SWIZZLE_NONE"), _short("128B")
    ('none', '128B')
    """
    return "none" if swizzle == "SWIZZLE_NONE" else swizzle.removeprefix("SWIZZLE_")


def _is_concerned(machine: Machine, seen: Seen, scenario: ScenarioTables, name: str) -> bool:
    """Has a map written where a wrong byte is read, or can it bring one that is meant there? Else these bytes are wrong
    with any swizzle of it.
    """
    tm, wanted = machine.maps[name], seen.read.meant[seen.wrong]
    assert tm is not None
    reach = sum((extent - 1) * stride for extent, stride in zip(tm.global_dim, _bit_strides(tm), strict=True)) + tm.type_row.bits
    end = tm.global_address + -(-reach // 8)
    if tm.interleave or end > LIMITS.address_end or ((wanted >= tm.global_address) & (wanted < end)).any():
        return True
    writers = np.unique(seen.writer[seen.wrong])
    steps = (scenario.steps[machine.issues[writer].step] for writer in writers[writers >= 0].tolist())
    return any(isinstance(step, TensorStep) and step.map == name for step in steps)


def _box_is_as_wide(machine: Machine, path: Path, swizzle: str) -> bool:
    """Are the rows of a map's box as wide as that swizzle, and narrower than the one the map has, which leaves holes
    between them?
    """
    tm = machine.maps.get(path.name) if path.table == "map" else None
    if tm is None or not tm.box_dim or swizzle not in tuple(map(str, MODES)) or Swizzle(swizzle) is Swizzle.NONE:
        return False
    row = tm.box_dim[0] * tm.type_row.bits // 8
    return row == MODES[Swizzle(swizzle)].width < MODES[SWIZZLES[tm.arguments["swizzle"]]].width


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def paired_repairs(machine: Machine, read: Read, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle and the descriptor, changed together: where no single change is enough."""
    for path, now, values in _targets(machine):
        for value in values.values():
            again = rerun({path: value})
            places = None if again is None else read.placed(again.memory)
            for s in read.solutions(places) if places is not None else ():
                word, changes = word_fix(read, s, False)[1], changes_of(read, s)
                change = Fix(path, scenario.value_at(path) or now, value)
                yield Repair("R501", path, f"{path} and the descriptor have different layouts, and no single change is enough", f"{path} = {value} and {read.where}: {word}{_in_brackets(named_changes(read, s))} together", 2,
                             () if changes is None else (change, *changes), {"writer": now, "reader": str(read.descriptor.swizzle)})  # fmt: skip
                return


def _places(seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The shared offset of one issue, if at another one all is right."""
    wanted, at = seen.read.meant[seen.wrong], seen.addresses[seen.wrong]
    tried = 0
    for number, step in enumerate(scenario.steps[: seen.read.step]):
        if not isinstance(step, TmaLoad):
            continue
        offsets, mode = listed(step.offset or 0), _plain_mode(scenario.maps[step.map])
        if len(offsets) != len(step.places):
            continue
        path = Path.of("step", number, "offset")
        for issue, (offset, place) in enumerate(zip(offsets, step.places, strict=True)):
            tried += 1
            if tried > MOST_ISSUES or mode is None:
                continue
            alone = rerun({path: [offset], Path.of("step", number, "at"): [place]}, only=number)
            there = np.full(1, -1) if alone is None else alone.memory.locate(wanted)
            if not (there >= 0).any():
                continue
            known = int(np.nonzero(there >= 0)[0][0])
            is_read, lies = swizzled(np.array([at[known], there[known]]), mode).tolist()
            new = [*offsets[:issue], offset + is_read - lies, *offsets[issue + 1 :]]
            if new[issue] >= 0 and all_right(rerun({path: new}), seen.read):
                old = scenario.value_at(path) or 0
                yield Repair("R508", path, f"issue {issue} of step[{number}] writes to another address than the operand reads",
                             f"{path} = {new if len(new) > 1 else new[0]}", 1, (Fix(path, old, new if isinstance(old, list) else new[0]),))  # fmt: skip
                return


def _plain_mode(arguments: MapArguments) -> SwizzleMode | None:
    """The swizzle of a map of arguments, if it goes by one of the plain names."""
    is_plain = arguments.raw is None and arguments.swizzle_given in COMMON_SWIZZLES
    return MODES.get(Swizzle(str(arguments.swizzle_given))) if is_plain else None


def _coordinates(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The coordinates of a transfer that takes another tile: every element is displaced alike."""
    read, tensor = seen.read, seen.read.tensor
    meant = (read.meant >= 0) & (seen.got >= tensor.address) & (seen.got < tensor.end)
    if not meant.any() or (seen.got[(read.meant >= 0) & ~meant] != OUTSIDE).any():
        return
    got, want = tensor.coordinates(seen.got[meant]), tensor.coordinates(read.meant[meant])
    moved = {axis: got[axis] - want[axis] for axis in got}
    if any((by != by[0]).any() for by in moved.values()):
        return
    numbers = {machine.issues[i].step for i in np.unique(seen.writer[meant]).tolist()}
    step = scenario.steps[min(numbers)]
    tm = machine.maps[step.map] if isinstance(step, TmaLoad) else None
    if len(numbers) != 1 or not isinstance(step, TmaLoad) or tm is None:
        return
    strides = _bit_strides(tm)
    by = [0] * len(strides)
    for axis, far in moved.items():
        bits = int(far[0]) * tensor.bit_stride(axis)
        for dimension in sorted((d for d, stride in enumerate(strides) if stride), key=lambda d: -strides[d]):
            count = int(bits / strides[dimension])
            by[dimension], bits = by[dimension] + count, bits - count * strides[dimension]
    path, new = Path.of("step", min(numbers), "at"), [[c - d for c, d in zip(at, by, strict=False)] for at in step.places]
    old = scenario.value_at(path)
    value = new if isinstance(step.at[0], tuple) else new[0]
    if all_right(rerun({path: value}), read):
        moves = ", ".join(f"{axis} is {abs(int(by[0]))} too {'large' if by[0] > 0 else 'small'}" for axis, by in moved.items() if by[0])
        fill = bool((seen.got[seen.wrong] == OUTSIDE).any())
        yield Repair(
            "T209" if fill else "R508",
            path,
            f"the transfer loads another tile: {moves}",
            f"{path} = {value}",
            1,
            (Fix(path, old, value),),
        )


def _bit_strides(tm: TensorMap) -> list[int]:
    """Bits from one element to the next, of every dimension."""
    return [tm.type_row.bits, *(8 * stride for stride in tm.global_strides)]


def _extents(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """A map smaller than its tensor, so that fill arrives: the tensor's extents."""
    read, tensor = seen.read, seen.read.tensor
    if not (seen.got[seen.wrong] == OUTSIDE).any():
        return
    for name, tm in machine.maps.items():
        if tm is None or scenario.maps[name].raw is not None or not tensor.address <= tm.global_address < tensor.end:
            continue
        strides = _bit_strides(tm)
        by_stride = {tensor.bit_stride(axis): n for axis, n in tensor.extent.items()}
        old = list(tm.global_dim)
        new = [max(n, by_stride.get(stride, n)) for n, stride in zip(old, strides, strict=False)]
        path = Path.of("map", name, "global_dim")
        if new != old and all_right(rerun({path: new}), read):
            yield Repair(
                "T209",
                path,
                "the operand reads out-of-bounds fill instead of data",
                f"{path} = {new}",
                1,
                (Fix(path, old, new),),
                why=f"{name} ends before {tensor.name} does",
            )
