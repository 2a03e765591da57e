"""Which field makes an operand wrong: the smallest repair that makes every read right gives the finding its code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.check.reads import FIELD, UNIT, Read
from smemsim.check.report import CheckFinding
from smemsim.check.simulate import FOREIGN, UNWRITTEN, Machine, finding
from smemsim.check.solve import Solution, locate, solutions
from smemsim.check.tensors import OUTSIDE
from smemsim.check.threads import Rerun, refused_for_its_swizzle
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import Unmodelled
from smemsim.machine.product import shared_grade
from smemsim.spec.findings import Severity
from smemsim.spec.swizzles import MODES

__all__ = ["judge"]


@dataclasses.dataclass(frozen=True)
class Repair:
    """One way to make every read right: its code, what to write, how many fields that changes."""

    code: str
    message: str
    text: str
    fields: int
    fix: tuple[str, Any, Any]
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)


def judge(machine: Machine, read: Read, rerun: Rerun, blamed: CheckFinding | None) -> list[CheckFinding]:
    """Compare an operand with what was meant; the finding, or none. `blamed`: an earlier finding that explains it."""
    try:
        addresses = read.addresses()
    except Unmodelled as e:
        return _undecodable(machine, read, str(e))
    inside = addresses < len(machine.source)
    got = np.where(inside, machine.source[np.where(inside, addresses, 0)], UNWRITTEN)
    wrong = (got != read.meant) & (read.meant >= 0)
    if not wrong.any():
        return _lucky(read)
    grade = str(shared_grade(int(read.words[0, 0]), read.arch, read.dtype, read.major, read.k, read.packing))
    counts: dict[str, Any] = {"wrong": int(wrong.sum()), "of": wrong.size, "first": _first(read, got, addresses, wrong), "grade": grade}
    share = f"{counts['wrong']} of {wrong.size} elements wrong ({wrong.mean():.1%}); first: {_told(counts['first'])}"
    for target in refused_for_its_swizzle(machine, _buffer_of(machine, blamed)) if blamed is not None else ():
        mode, now = str(read.descriptor.swizzle), machine.raw_maps[target.partition(".")[2]].get("swizzle", "none")
        if now != mode and _all_right(rerun(target, mode), read):
            machine.findings[:] = [f for f in machine.findings if f.where != target]
            return [finding("R501", f"{target}.swizzle", read.title, f"{share}; {target} has swizzle {now}, for which its box is too wide; the descriptor reads with {mode}",
                            f"{target}.swizzle = {mode}", fix=(f"{target}.swizzle", now, mode), **counts)]  # fmt: skip
    if blamed is not None:
        # Data in another phase is a fault of its own; what a stopped transfer did not bring is a mere consequence.
        because = "" if blamed.code == "A105" else blamed.code
        return [finding("R508", read.where, read.title, share, f"see {blamed.code}", because=because, **counts)]
    found = sorted(_repairs(machine, read, rerun), key=lambda r: r.fields)
    if found:
        best = found[0]
        others = [f"or {r.text}" for r in found[1:3]]
        return [finding(best.code, best.fix[0], read.title, f"{share}; {best.message}", "; ".join([best.text, *others]),
                        fix=best.fix, numbers=best.numbers, **counts)]  # fmt: skip
    if (got[wrong] == OUTSIDE).all():
        return [finding("T209", read.where, read.title, f"{share}: out-of-bounds fill arrives where data was meant", **counts)]
    if (got[wrong] == UNWRITTEN).any() and (locate(machine.source, read.meant)[wrong] < 0).any():
        return [finding("R507", read.where, read.title, f"{share}: bytes that no step wrote", **counts)]
    return [finding("R508", read.where, read.title, f"{share}; no single repair makes it right", **counts)]


def _lucky(read: Read) -> list[CheckFinding]:
    """What is wrong with a descriptor that reads the right bytes all the same."""
    if read.starts is None or not (read.starts % UNIT).any():
        return []
    off = int(read.starts[read.starts % UNIT != 0][0])
    return [finding("D303", read.where, read.title,
                    f"start address {off:#x} is {off % UNIT} past a multiple of 16: the low bits are lost, and what is read is right without them",
                    "starts on multiples of 16 B", severity=Severity.LUCK)]  # fmt: skip


def _undecodable(machine: Machine, read: Read, why: str) -> list[CheckFinding]:
    places = locate(machine.source, read.meant)
    for s in solutions(read, places) if (places >= 0).all() else ():
        word = f"{int(s.words[0, 0]):#018x}"
        return [finding("D302", f"{read.where}.word", read.title, why, f"write {word}: swizzle {s.swizzle}",
                        fix=(f"{read.where}.word", f"{int(read.words[0, 0]):#018x}", word))]  # fmt: skip
    return [finding("D302", f"{read.where}.word", read.title, why)]


def _first(read: Read, got: np.ndarray, addresses: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    block, step, row, k = at = tuple(int(x[0]) for x in np.nonzero(wrong))
    value = int(got[at])
    names = {UNWRITTEN: "what no step wrote", OUTSIDE: "out-of-bounds fill", FOREIGN: "bytes of no tensor"}
    found = names.get(value) or read.tensor.named(value)
    if value >= 0 and not read.tensor.address <= value < read.tensor.end:
        found = f"another tensor ({value:#x})"
    return {"block": block, "step": step, "row": row, "k": k, "read": found, "meant": read.tensor.named(int(read.meant[at])),
            "address": int(addresses[at])}  # fmt: skip


def _told(first: Any) -> str:
    return (
        f"block {first['block']} step {first['step']} row {first['row']} k {first['k']} reads {first['read']} at {first['address']:#x}, "
        f"meant {first['meant']}"
    )


# ---- repairs


def _repairs(machine: Machine, read: Read, rerun: Rerun) -> Iterator[Repair]:
    places = locate(machine.source, np.where(read.meant >= 0, read.meant, read.meant[0, 0, 0, 0]))
    if (places >= 0).all() and (read.meant >= 0).all():
        for solution in solutions(read, places):
            yield from _descriptor(read, solution)
        yield from _transposed(read, places)
    yield from _writer(machine, read, rerun)


def _descriptor(read: Read, s: Solution) -> Iterator[Repair]:
    """What differs between the descriptors that are and those that would work."""
    d = read.descriptor
    starts = _starts(read)
    strides = [
        (name, is_, wanted)
        for name, is_, wanted in (
            ("leading_byte_offset", d.leading_byte_offset, s.leading),
            ("stride_byte_offset", d.stride_byte_offset, s.stride),
        )
        if wanted is not None and is_ != wanted
    ]
    other_mode, base, moved = s.swizzle is not d.swizzle, d.base_offset != 0, starts != s.starts
    fields = len(strides) + other_mode + base + bool(moved.any())
    word, path, old = _written(read, s)
    changed = ", ".join(f"{name} {is_} must be {wanted}" for name, is_, wanted in strides)
    fix = (path, old, word)
    if other_mode:
        text = f"swizzle {d.swizzle} must be {s.swizzle}" + (f", {changed}" if changed else "") + f": {word}"
        yield Repair("D302", f"the layout code means {d.swizzle}", text, fields, fix, {"read": str(d.swizzle), "needed": str(s.swizzle)})
    elif strides:
        code, why = _stride_code(d.leading_byte_offset, d.stride_byte_offset, strides, s)
        yield Repair(code, why, f"{changed}: {word}", fields, fix, {name: [is_, wanted] for name, is_, wanted in strides})
    elif base:
        yield Repair(
            "D306", f"base_offset {d.base_offset} on data that lies by absolute addresses", f"base_offset must be 0: {word}", fields, fix
        )
    elif moved.any():
        yield _advance(read, s, starts, fields)


def _written(read: Read, s: Solution) -> tuple[str, str, str]:
    """(the word as it should be written, the key of the scenario, the word as it is): fields that are not used stay as they are."""
    d = read.descriptor
    start = read.raw.get("word", 0) % FIELD * UNIT if "word" in read.raw else int(s.starts[0, 0])
    leading, stride = (
        now if wanted is None else wanted for now, wanted in ((d.leading_byte_offset, s.leading), (d.stride_byte_offset, s.stride))
    )
    new = SmemDescriptor(arch=read.arch, start_address=start, leading_byte_offset=leading, stride_byte_offset=stride, swizzle=s.swizzle)
    old = read.raw["word"] if "word" in read.raw else int(read.words[0, 0])
    return f"{new.encode():#018x}", f"{read.where}.{'word' if 'word' in read.raw else 'words'}", f"{old:#018x}"


def _stride_code(leading: int, stride: int, strides: list[tuple[str, int, int]], s: Solution) -> tuple[str, str]:
    if s.leading in (None, stride) and s.stride in (None, leading) and leading != stride:
        return "D309", "LBO and SBO have each other's value"
    if all(is_ // UNIT == wanted % FIELD for _, is_, wanted in strides):
        return "D301", "fields hold bytes where they count 16 B"
    return "D308", "a stride does not fit the tile"


def _starts(read: Read) -> np.ndarray:
    """Start addresses as the hardware sees them."""
    return (read.words & np.uint64(FIELD - 1)).astype(np.int64) * UNIT


def _advance(read: Read, s: Solution, starts: np.ndarray, fields: int) -> Repair:
    """Only the starts are wrong: lost bits, a carry, the K steps, the blocks, or all of them."""
    used, needed = starts - starts[0, 0], s.starts - s.starts[0, 0]
    if read.starts is not None and (read.starts % UNIT).any():
        off = int(read.starts[read.starts % UNIT != 0][0])
        return Repair("D303", f"start address {off:#x} is {off % UNIT} past a multiple of 16: the low bits are lost", "starts on multiples of 16 B", fields,
                      (f"{read.where}.start_offset", off, off & -UNIT))  # fmt: skip
    if read.starts is not None and isinstance(read.raw.get("start"), int) and read.raw["start"] >= FIELD * UNIT:
        return Repair("D303", f"start {read.raw['start']:#x} is no .shared address: the field keeps 18 bits of it", f"start {int(s.starts[0, 0]):#x}", fields,
                      (f"{read.where}.start", read.raw["start"], int(s.starts[0, 0])))  # fmt: skip
    raised = read.starts if read.starts is not None else _uncut(read)
    if (raised >= FIELD * UNIT).any():
        return Repair("D304", f"start address {int(raised.max()):#x} does not fit 14 bits of 16 B: the carry is lost", "mask the sum, or a buffer further down", fields,
                      (f"{read.where}.k_add", int(raised.max()), int(s.starts.max())))  # fmt: skip
    wrong_steps = ((starts != s.starts).any(axis=0)).nonzero()[0]
    in_block = (used - used[:, :1] != needed - needed[:, :1]).any()
    if in_block:
        table = [(used[0] - used[0, 0]).tolist(), (needed[0] - needed[0, 0]).tolist()]
        mode = MODES[s.swizzle]
        within = [i for i, add in enumerate(table[1]) if 0 < add < mode.width]
        panel = bool(within) and mode.mask != 0 and read.major == "K" and not set(within) & set(wrong_steps.tolist())
        return Repair("R503" if panel else "R502", "later K steps start in the wrong place", f"K steps {table[0]} must be {table[1]}", fields,
                      (f"{read.where}.k_add", table[0], table[1]), {"used": table[0], "needed": table[1]})  # fmt: skip
    if (used[:, 0] != needed[:, 0]).any():
        table = [used[:, 0].tolist(), needed[:, 0].tolist()]
        return Repair("R504", "M / N blocks start in the wrong place", f"blocks {table[0]} must be {table[1]}", fields,
                      (f"{read.where}.mn_add", table[0], table[1]), {"used": table[0], "needed": table[1]})  # fmt: skip
    return Repair("R508", "every read starts in the wrong place", f"start {int(starts[0, 0]):#x} must be {int(s.starts[0, 0]):#x}", fields,
                  (f"{read.where}.start_offset", int(starts[0, 0]), int(s.starts[0, 0])))  # fmt: skip


def _uncut(read: Read) -> np.ndarray:
    """Start addresses with the two bits above the field, into which an advance of the whole word carries."""
    return (read.words & np.uint64(4 * FIELD - 1)).astype(np.int64) * UNIT


def _transposed(read: Read, places: np.ndarray) -> Iterator[Repair]:
    """The other major-ness reads what was meant: the operand is a transpose."""
    other = "MN" if read.major == "K" else "K"
    for s in solutions(read, places, other):
        yield Repair("R505", f"the operand lies {other}-major: it is the transpose of what is meant", f"major {other}, word {int(s.words[0, 0]):#018x}",
                     2, (f"{read.where}.major", read.major, other))  # fmt: skip
        return


def _writer(machine: Machine, read: Read, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle, if with another one all is right."""
    targets = [f"map.{name}" for name, tm in machine.maps.items() if tm is not None]
    targets += [f"buffer.{name}.layout" for name, buffer in machine.buffers.items() if buffer.layout is not None]
    for target in targets:
        for name in ("none", "32B", "64B", "128B"):
            if _all_right(rerun(target, name), read):
                now = machine.raw_maps[target[4:]].get("swizzle", "none") if target.startswith("map.") else str(_layout_of(machine, target))
                yield Repair("R501", f"{target} writes with swizzle {now}, the descriptor reads with {read.descriptor.swizzle}", f"{target}.swizzle = {name}", 1,
                             (f"{target}.swizzle", now, name), {"writer": str(now), "reader": str(read.descriptor.swizzle)})  # fmt: skip
                return


def _all_right(again: Machine | None, read: Read) -> bool:
    """Does the operand read what was meant, of that machine?"""
    if again is None:
        return False
    addresses = read.addresses()
    return addresses.max() < len(again.source) and bool(((again.source[addresses] == read.meant) | (read.meant < 0)).all())


def _buffer_of(machine: Machine, blamed: CheckFinding | None) -> str:
    """The buffer that a finding left unfilled."""
    return next((name for name, why in machine.failed.items() if why is blamed and name in machine.buffers), "")


def _layout_of(machine: Machine, target: str) -> Any:
    layout = machine.buffers[target.split(".")[1]].layout
    return layout.mode.swizzle if layout else "none"
