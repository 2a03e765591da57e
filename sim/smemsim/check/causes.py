"""Which field makes an operand wrong: the smallest repair that makes every read right gives the finding its code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.check.reads import START, Read, Seen
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

Fix = tuple[str, Any, Any]  # the key of the scenario, what is there, what must be


@dataclasses.dataclass(frozen=True)
class Repair:
    """One way to make every read right: its code, where, what to write, how many fields that changes; `fix` is None where several keys must change."""

    code: str
    where: str
    message: str
    text: str
    fields: int
    fix: Fix | None
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)


def judge(machine: Machine, read: Read, rerun: Rerun, blamed: CheckFinding | None) -> list[CheckFinding]:
    """Compare an operand with what was meant; the finding, or none. `blamed`: an earlier finding that explains it."""
    try:
        seen = look(machine, read)
    except Unmodelled as e:
        return _undecodable(machine, read, str(e))
    machine.seen.append(seen)
    addresses, got, wrong = seen.addresses, seen.got, seen.wrong
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
        return [finding(best.code, best.where, read.title, f"{share}; {best.message}", "; ".join([best.text, *others]),
                        fix=best.fix, numbers=best.numbers, **counts)]  # fmt: skip
    if (got[wrong] == OUTSIDE).all():
        return [finding("T209", read.where, read.title, f"{share}: out-of-bounds fill arrives where data was meant", **counts)]
    if (got[wrong] == UNWRITTEN).any() and (locate(machine.source, read.meant)[wrong] < 0).any():
        return [finding("R507", read.where, read.title, f"{share}: bytes that no step wrote", **counts)]
    return [finding("R508", read.where, read.title, f"{share}; no single repair makes it right", **counts)]


def look(machine: Machine, read: Read) -> Seen:
    """What the operand reads now. Raises Unmodelled for descriptors of which nobody knows that."""
    addresses = read.addresses()
    inside = addresses < len(machine.source)
    got, writer = (np.where(inside, of[np.where(inside, addresses, 0)], UNWRITTEN) for of in (machine.source, machine.writer))
    return Seen(read, addresses, got, writer, (got != read.meant) & (read.meant >= 0))


def _lucky(read: Read) -> list[CheckFinding]:
    """What is wrong with a descriptor that reads the right bytes all the same."""
    unit = 1 << START.shift
    if read.starts is None or not (read.starts % unit).any():
        return []
    off = int(read.starts[read.starts % unit != 0][0])
    return [finding("D303", read.where, read.title,
                    f"start address {off:#x} is {off % unit} past a multiple of {unit}: the low bits are lost, and what is read is right without them",
                    f"starts on multiples of {unit} B", severity=Severity.LUCK)]  # fmt: skip


def _undecodable(machine: Machine, read: Read, why: str) -> list[CheckFinding]:
    places = locate(machine.source, read.meant)
    for s in solutions(read, places) if (places >= 0).all() else ():
        fix, word = _word_fix(read, s, bool((_starts(read) != s.starts).any()))
        return [finding("D302", f"{read.where}.word", read.title, why, f"write {word}: swizzle {s.swizzle}", fix=fix)]
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
    d, starts = read.descriptor, _starts(read)
    given = (("leading_byte_offset", d.leading_byte_offset, s.leading), ("stride_byte_offset", d.stride_byte_offset, s.stride))
    strides = [(name, is_, wanted) for name, is_, wanted in given if wanted is not None and is_ != wanted]
    other_mode, base, moved = s.swizzle is not d.swizzle, d.base_offset != 0, bool((starts != s.starts).any())
    fields = len(strides) + other_mode + base + moved
    fix, word = _word_fix(read, s, moved)
    where = f"{read.where}.{'word' if 'word' in read.raw else 'words'}"
    changed = "".join(f"{name} {is_} must be {wanted}, " for name, is_, wanted in strides).removesuffix(", ")
    also = f", and start {int(starts[0, 0]):#x} must be {int(s.starts[0, 0]):#x}" if moved else ""
    if other_mode:
        text = f"swizzle {d.swizzle} must be {s.swizzle}" + (f", {changed}" if changed else "") + f": {word}{also}"
        numbers = {"read": str(d.swizzle), "needed": str(s.swizzle)}
        yield Repair("D302", where, f"the layout code means {d.swizzle}", text, fields, fix, numbers)
    elif strides:
        code, why = _stride_code(d.leading_byte_offset, d.stride_byte_offset, strides, s)
        yield Repair(code, where, why, f"{changed}: {word}{also}", fields, fix, {name: [is_, wanted] for name, is_, wanted in strides})
    elif base:
        why = f"base_offset {d.base_offset} on data that lies by absolute addresses"
        yield Repair("D306", where, why, f"base_offset must be 0: {word}{also}", fields, fix)
    elif moved:
        yield _advance(read, s, starts)


def _word_fix(read: Read, s: Solution, moved: bool) -> tuple[Fix | None, str]:
    """(the whole change of the scenario, None where `word` alone is not enough; the word to write): fields that are not used stay as they are."""
    if "word" not in read.raw:
        return _words_fix(read, s), f"{int(s.words[0, 0]):#018x}"
    d = read.descriptor
    leading, stride = (
        now if wanted is None else wanted for now, wanted in ((d.leading_byte_offset, s.leading), (d.stride_byte_offset, s.stride))
    )
    start = (read.raw["word"] & START.mask) << START.shift
    new = SmemDescriptor(arch=read.arch, start_address=start, leading_byte_offset=leading, stride_byte_offset=stride, swizzle=s.swizzle)
    word = f"{new.encode():#018x}"
    return None if moved else (f"{read.where}.word", f"{read.raw['word']:#018x}", word), word


def _words_fix(read: Read, s: Solution) -> Fix:
    """All the raw words."""
    old, new = ([[f"{word:#018x}" for word in row] for row in words.tolist()] for words in (read.words, s.words))
    return f"{read.where}.words", old, new


def _start_fix(read: Read, s: Solution) -> Fix | None:
    """Other start addresses as the scenario writes them: one offset, the K steps, the blocks; None where more must change together."""
    if read.starts is None:
        return _words_fix(read, s)
    by = s.starts - read.starts
    if (by == by[0, 0]).all():
        old = read.raw.get("start_offset", 0)
        return f"{read.where}.start_offset", old, old + int(by[0, 0])
    for key, line, same in (("k_add", by[0], (by == by[:1]).all()), ("mn_add", by[:, 0], (by == by[:, :1]).all())):
        old = np.atleast_1d(read.raw.get(key, 0))
        if same and len(old) == len(line):
            return f"{read.where}.{key}", old.tolist(), (old + line).tolist()
    return None


def _stride_code(leading: int, stride: int, strides: list[tuple[str, int, int]], s: Solution) -> tuple[str, str]:
    if s.leading in (None, stride) and s.stride in (None, leading) and leading != stride:
        return "D309", "LBO and SBO have each other's value"
    if all(is_ >> START.shift == wanted & START.mask for _, is_, wanted in strides):
        return "D301", "fields hold bytes where they count 16 B"
    return "D308", "a stride does not fit the tile"


def _starts(read: Read) -> np.ndarray:
    """Start addresses as the hardware sees them."""
    return (read.words & np.uint64(START.mask)).astype(np.int64) << START.shift


def _advance(read: Read, s: Solution, starts: np.ndarray) -> Repair:
    """Only the starts are wrong: lost bits, a carry, the K steps, the blocks, or all of them."""
    used, needed, fix = starts - starts[0, 0], s.starts - s.starts[0, 0], _start_fix(read, s)
    where = fix[0] if fix else read.where

    def repair(code: str, message: str, text: str, **numbers: Any) -> Repair:
        return Repair(code, where, message, text, 1, fix, numbers)

    unit, end = 1 << START.shift, START.mask + 1 << START.shift
    if read.starts is not None and (read.starts % unit).any():
        off = int(read.starts[read.starts % unit != 0][0])
        return repair(
            "D303",
            f"start address {off:#x} is {off % unit} past a multiple of {unit}: the low bits are lost",
            f"starts on multiples of {unit} B",
        )
    start = read.raw.get("start")
    if isinstance(start, int) and start >= end:
        return repair(
            "D303",
            f"start {start:#x} is no .shared address: the field keeps {end.bit_length() - 1} bits of it",
            f"start {int(s.starts[0, 0]):#x}",
        )
    raised = read.starts if read.starts is not None else _uncut(read)
    if (raised >= end).any():
        return repair(
            "D304",
            f"start address {int(raised.max()):#x} does not fit {START.width} bits of {unit} B: the carry is lost",
            "mask the sum, or a buffer further down",
        )
    wrong_steps = ((starts != s.starts).any(axis=0)).nonzero()[0]
    if (used - used[:, :1] != needed - needed[:, :1]).any():
        table = [(used[0] - used[0, 0]).tolist(), (needed[0] - needed[0, 0]).tolist()]
        mode = MODES[s.swizzle]
        within = [i for i, add in enumerate(table[1]) if 0 < add < mode.width]
        panel = bool(within) and mode.mask != 0 and read.major == "K" and not set(within) & set(wrong_steps.tolist())
        return repair(
            "R503" if panel else "R502",
            "later K steps start in the wrong place",
            f"K steps {table[0]} must be {table[1]}",
            used=table[0],
            needed=table[1],
        )
    if (used[:, 0] != needed[:, 0]).any():
        table = [used[:, 0].tolist(), needed[:, 0].tolist()]
        return repair(
            "R504", "M / N blocks start in the wrong place", f"blocks {table[0]} must be {table[1]}", used=table[0], needed=table[1]
        )
    return repair("R508", "every read starts in the wrong place", f"start {int(starts[0, 0]):#x} must be {int(s.starts[0, 0]):#x}")


def _uncut(read: Read) -> np.ndarray:
    """Start addresses with the bits up to LBO, into which an advance of the whole word carries."""
    carried = (1 << read.descriptor.table.fields["leading_byte_offset"].low) - 1
    return (read.words & np.uint64(carried)).astype(np.int64) << START.shift


def _transposed(read: Read, places: np.ndarray) -> Iterator[Repair]:
    """The other major-ness reads what was meant: the operand is a transpose."""
    other = "MN" if read.major == "K" else "K"
    for s in solutions(read, places, other):
        word = f"{int(s.words[0, 0]):#018x}"
        fix = None if (s.words != read.words).any() else (f"{read.where}.major", read.major, other)
        yield Repair(
            "R505",
            f"{read.where}.major",
            f"the operand lies {other}-major: it is the transpose of what is meant",
            f"major {other}, word {word}",
            2,
            fix,
        )
        return


def _writer(machine: Machine, read: Read, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle, if with another one all is right."""
    targets = [f"map.{name}" for name, tm in machine.maps.items() if tm is not None]
    targets += [f"buffer.{name}.layout" for name, buffer in machine.buffers.items() if buffer.layout is not None]
    for target in targets:
        for name in ("none", "32B", "64B", "128B"):
            if _all_right(rerun(target, name), read):
                now = machine.raw_maps[target[4:]].get("swizzle", "none") if target.startswith("map.") else str(_layout_of(machine, target))
                yield Repair("R501", f"{target}.swizzle", f"{target} writes with swizzle {now}, the descriptor reads with {read.descriptor.swizzle}", f"{target}.swizzle = {name}", 1,
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
