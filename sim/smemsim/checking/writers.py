"""Repairs of what wrote shared memory: its swizzle, the place it writes to, the tile it takes; and two changes that only work together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.checking.buffers import COMMON_SWIZZLES, swizzle_changes
from smemsim.checking.reads import Read, Seen
from smemsim.checking.repairs import Repair, changes_of, word_fix
from smemsim.checking.run import value_at
from smemsim.checking.simulate import Machine, Rerun, listed, places_of
from smemsim.checking.tensors import OUTSIDE
from smemsim.descriptors.operand import swizzled
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.solve.inverse import locate
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.spec.tensor_map import SWIZZLES

__all__ = ["all_right", "paired_repairs", "writer_repairs"]

MOST_ISSUES = 64  # issues whose place is tried


def writer_repairs(machine: Machine, seen: Seen, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    """One change of a writer that makes the operand right."""
    yield from _swizzles(machine, seen.read, raw, rerun)
    yield from _places(seen, raw, rerun)
    yield from _coordinates(machine, seen, raw, rerun)
    yield from _extents(machine, seen, raw, rerun)


def all_right(again: Machine | None, read: Read) -> bool:
    """Does the operand read what was meant, of that machine?"""
    if again is None:
        return False
    addresses = read.addresses()
    return addresses.max() < len(again.source) and bool(((again.source[addresses] == read.meant) | (read.meant < 0)).all())


def _targets(machine: Machine) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path of a writer's swizzle, which it is, what to write for each other one)."""
    for name, tm in machine.maps.items():
        if tm is not None and "raw" not in machine.raw_maps[name]:
            now = str(machine.raw_maps[name].get("swizzle", "none"))
            yield f"map.{name}.swizzle", now, {each: each for each in COMMON_SWIZZLES if each != now}
    for buffer in machine.buffers.values():
        if buffer.layout is not None:
            path, values = swizzle_changes(buffer)
            now = str(buffer.layout.mode.swizzle)
            yield path, now, {each: value for each, value in values.items() if each != now}


def _swizzles(machine: Machine, read: Read, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle, if with another one all is right."""
    for path, now, values in _targets(machine):
        for value in values.values():
            if all_right(rerun({path: value}), read):
                fields = 0 if _box_is_as_wide(machine, path, value) else 1  # 0: more likely than any change of the descriptor
                yield Repair("R501", path, f"{path.removesuffix('.swizzle')} writes with swizzle {now}, the descriptor reads with {read.descriptor.swizzle}",
                             f"{path} = {value}", fields, (path, value_at(raw, path) or now, value), {"writer": now, "reader": str(read.descriptor.swizzle)})  # fmt: skip
                break


def _box_is_as_wide(machine: Machine, path: str, swizzle: str) -> bool:
    """Are the rows of a map's box as wide as that swizzle, and narrower than the one the map has, which leaves holes between them?"""
    table, name = path.split(".")[:2]
    tm = machine.maps.get(name) if table == "map" else None
    if tm is None or not tm.box_dim or swizzle not in tuple(map(str, MODES)) or Swizzle(swizzle) is Swizzle.NONE:
        return False
    row = tm.box_dim[0] * tm.type_row.bits // 8
    return row == MODES[Swizzle(swizzle)].width < MODES[SWIZZLES[tm.arguments["swizzle"]]].width


def paired_repairs(machine: Machine, read: Read, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle and the descriptor, changed together: where no single change is enough."""
    for path, now, values in _targets(machine):
        for value in values.values():
            again = rerun({path: value})
            places = None if again is None else read.placed(again.source)
            for s in read.solutions(places) if places is not None else ():
                word, changes = word_fix(read, s, False)[1], changes_of(read, s)
                change = (path, value_at(raw, path) or now, value)
                yield Repair("R501", path, "no single change is enough", f"{path} = {value} and {read.where}: {word} together", 2,
                             None, {"writer": now, "reader": str(read.descriptor.swizzle)}, () if changes is None else (change, *changes))  # fmt: skip
                return


def _places(seen: Seen, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    """The shared offset of one issue, if at another one all is right."""
    wanted, at = seen.read.meant[seen.wrong], seen.addresses[seen.wrong]
    tried = 0
    for number, step in enumerate(raw["step"][: seen.read.step]):
        if step["op"] != "tma_load":
            continue
        offsets, places = listed(step.get("offset", 0)), places_of(step)
        if len(offsets) != len(places):
            continue
        mode = MODES.get(Swizzle(raw["map"][step["map"]].get("swizzle", "none"))) if _plain(raw, step) else None
        for issue, (offset, place) in enumerate(zip(offsets, places, strict=True)):
            tried += 1
            alone = (
                rerun({f"step[{number}].offset": [offset], f"step[{number}].at": [place]}, only=number)
                if tried <= MOST_ISSUES and mode
                else None
            )
            there = None if alone is None else locate(alone.source, wanted)
            if mode is None or there is None or not (there >= 0).any():
                continue
            one = int(np.nonzero(there >= 0)[0][0])
            straight = swizzled(np.array([at[one], there[one]]), mode).tolist()
            new = [*offsets]
            new[issue] = offset + straight[0] - straight[1]
            if new[issue] >= 0 and all_right(rerun({f"step[{number}].offset": new}), seen.read):
                path = f"step[{number}].offset"
                old = step.get("offset", 0)
                yield Repair("R508", path, f"issue {issue} of step {number + 1} writes to another place than the operand is read from",
                             f"{path} = {new if len(new) > 1 else new[0]}", 1, (path, old, new if isinstance(old, list) else new[0]))  # fmt: skip
                return


def _plain(raw: dict[str, Any], step: dict[str, Any]) -> bool:
    """A tiled map of arguments, whose swizzle goes by one of the plain names."""
    table = raw["map"][step["map"]]
    return "raw" not in table and table.get("swizzle", "none") in COMMON_SWIZZLES


def _coordinates(machine: Machine, seen: Seen, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
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
    step = raw["step"][min(numbers)]
    tm = machine.maps.get(step.get("map", ""))
    if len(numbers) != 1 or step["op"] != "tma_load" or tm is None:
        return
    strides = _bit_strides(tm)
    by = [0] * len(strides)
    for axis, far in moved.items():
        bits = int(far[0]) * tensor.bit_stride(axis)
        for dimension in sorted((d for d, stride in enumerate(strides) if stride), key=lambda d: -strides[d]):
            count = int(bits / strides[dimension])
            by[dimension], bits = by[dimension] + count, bits - count * strides[dimension]
    old = step["at"]
    new = [[c - d for c, d in zip(at, by, strict=False)] for at in places_of(step)]
    path, value = f"step[{min(numbers)}].at", new if isinstance(old[0], list) else new[0]
    if all_right(rerun({path: value}), read):
        told = ", ".join(f"{axis} {int(by[0]):+d}" for axis, by in moved.items() if by[0])
        fill = bool((seen.got[seen.wrong] == OUTSIDE).any())
        yield Repair(
            "T209" if fill else "R508",
            path,
            f"the transfer takes another tile, displaced by {told}",
            f"{path} = {value}",
            1,
            (path, old, value),
        )


def _bit_strides(tm: TensorMap) -> list[int]:
    """Bits from one element to the next, of every dimension."""
    return [tm.type_row.bits, *(8 * stride for stride in tm.global_strides)]


def _extents(machine: Machine, seen: Seen, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    """A map smaller than its tensor, so that fill arrives: the tensor's extents."""
    read, tensor = seen.read, seen.read.tensor
    if not (seen.got[seen.wrong] == OUTSIDE).any():
        return
    for name, tm in machine.maps.items():
        if tm is None or "raw" in raw["map"][name] or not tensor.address <= tm.global_address < tensor.end:
            continue
        strides = _bit_strides(tm)
        by_stride = {tensor.bit_stride(axis): n for axis, n in tensor.extent.items()}
        old = list(tm.global_dim)
        new = [max(n, by_stride.get(stride, n)) for n, stride in zip(old, strides, strict=False)]
        path = f"map.{name}.global_dim"
        if new != old and all_right(rerun({path: new}), read):
            yield Repair(
                "T209",
                path,
                f"out-of-bounds fill arrives where data was meant: {name} ends before {tensor.name} does",
                f"{path} = {new}",
                1,
                (path, old, new),
            )
