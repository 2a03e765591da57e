"""Which field makes an operand wrong: the smallest repair that makes every read right gives the finding its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.checking.instructions import idesc_with
from smemsim.checking.pattern import pattern
from smemsim.checking.reads import Read, Seen
from smemsim.checking.repairs import Fix, Repair, descriptor_repairs, transposed_repair, word_fix
from smemsim.checking.report import CheckFinding, share_of
from smemsim.checking.simulate import NAMES, UNWRITTEN, Machine, Rerun, finding
from smemsim.checking.tensors import OUTSIDE
from smemsim.checking.threads import refused_for_its_swizzle
from smemsim.checking.writers import all_right, paired_repairs, writer_repairs
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.errors import Unmodelled
from smemsim.machine.product import shared_grade
from smemsim.solve.inverse import locate
from smemsim.spec.findings import Severity
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import REACH, START
from smemsim.spec.tcgen05 import KINDS

__all__ = ["judge"]

OF_MAPS = ("T206", "T207", "T211")  # a map that is not its tensor's
ENOUGH_RERUNS = 400  # steps that operands wrong in many places are simulated again for, before the search for second opinions ends


def judge(machine: Machine, read: Read, raw: dict[str, Any], rerun: Rerun, blamed: CheckFinding | None) -> list[CheckFinding]:
    """Compare an operand with what was meant; the finding, or none. `blamed`: an earlier finding that explains it."""
    try:
        seen = look(machine, read)
    except Unmodelled as e:
        return _undecodable(machine, read, raw, str(e))
    machine.seen.append(seen)
    machine.touch(seen.addresses)
    wrong = seen.wrong
    if not wrong.any():
        return _lucky(read)
    grade = str(shared_grade(int(read.words[0, 0]), read.arch, read.dtype, read.major, read.k, read.packing))
    first = _first(seen)
    shape = pattern(seen)
    counts: dict[str, Any] = {"wrong": int(wrong.sum()), "of": wrong.size, "first": first, "grade": grade, "pattern": shape}
    share = f"{share_of(counts['wrong'], wrong.size, 'elements')}; first: {_told(first)}{''.join(f'; {text}' for text in shape)}"
    found = sorted(_repairs(machine, seen, raw, rerun), key=lambda r: r.fields) if blamed is None or blamed.code in OF_MAPS else []
    if blamed is not None and any(r.code != "R508" for r in found):
        blamed = None  # the map brings what was meant, and something else makes the operand wrong
    for target in refused_for_its_swizzle(machine, _buffer_of(machine, blamed)) if blamed is not None else ():
        mode, now = str(read.descriptor.swizzle), machine.raw_maps[target.partition(".")[2]].get("swizzle", "none")
        if now != mode and all_right(rerun({f"{target}.swizzle": mode}), read):
            machine.findings[:] = [f for f in machine.findings if f.where != target]
            return [finding("R501", f"{target}.swizzle", read.title, f"{share}; {target} has swizzle {now}, for which its box is too wide; the descriptor reads with {mode}",
                            f"{target}.swizzle = {mode}", fix=(f"{target}.swizzle", now, mode), **counts)]  # fmt: skip
    if blamed is not None:
        # Data in another phase is a fault of its own; what a stopped transfer did not bring is a mere consequence.
        because = "" if blamed.code == "A105" else blamed.code
        return [finding("R508", read.where, read.title, share, f"see {blamed.code}", because=because, **counts)]
    found = found or list(paired_repairs(machine, read, raw, rerun))
    if found:
        best = found[0]
        code = "R507" if best.code == "R508" and (seen.got[wrong] == UNWRITTEN).all() else best.code
        others = [f"or {r.text}" for r in found[1:3]]
        gone = _overwritten(machine, read.meant[wrong]) if best.where.endswith(".at") else ""
        return [finding(code, best.where, read.title, f"{share}; {best.message}{gone}", "; ".join([best.text, *others]),
                        fix=best.fix, numbers=best.numbers, together=best.together, **counts), *_square(read, best)]  # fmt: skip
    got = seen.got[wrong]
    between = _between_chunks(seen)
    if between:
        return [finding("D303", read.where, read.title, f"{share}; {between}", "tiles that begin on multiples of 16 B", **counts)]
    if (got == OUTSIDE).any():
        return [
            finding(
                "T209",
                read.where,
                read.title,
                f"{share}; the transfer's coordinates, or the extents of its map, end before the data does",
                **counts,
            )
        ]
    outside = _outside_buffer(machine, seen)
    if outside:
        return [finding("A107", read.where, read.title, f"{share}; {outside}", **counts)]
    missing = locate(machine.source, read.meant)[wrong] < 0
    when = _when(machine, rerun, raw, read.meant[wrong][missing]) if missing.any() else ""
    if (got == UNWRITTEN).any() and missing.any():
        return [finding("R507", read.where, read.title, f"{share}{when}", **counts)]
    return [finding("R508", read.where, read.title, f"{share}; no single repair makes it right{when}", **counts)]


def look(machine: Machine, read: Read) -> Seen:
    """What the operand reads now. Raises Unmodelled for descriptors of which nobody knows that."""
    addresses = read.addresses()
    inside = addresses < len(machine.source)
    got, writer = (np.where(inside, of[np.where(inside, addresses, 0)], UNWRITTEN) for of in (machine.source, machine.writer))
    return Seen(read, addresses, got, writer, (got != read.meant) & (read.meant >= 0))


def _repairs(machine: Machine, seen: Seen, raw: dict[str, Any], rerun: Rerun) -> Iterator[Repair]:
    read = seen.read
    told = set()
    for places in _placements(machine, read):
        for solution in read.solutions(places):
            for one in descriptor_repairs(read, solution):
                if (one.code, one.text) not in told:
                    told.add((one.code, one.text))
                    yield one
        yield from transposed_repair(read, places, _other_idesc(read, raw))
    if told and machine.reruns > ENOUGH_RERUNS:
        return  # other causes of operands before had their chance; what is known is a repair
    machine.reruns += len(raw["step"])
    yield from writer_repairs(machine, seen, raw, rerun)


def _other_idesc(read: Read, raw: dict[str, Any]) -> Fix | None:
    """What the other major-ness changes in a step's instruction descriptor."""
    step, side = raw["step"][read.step], read.where[-1]
    kind = step.get("kind", "")
    other = "MN" if read.major == "K" else "K"
    if "idesc" not in step or kind not in KINDS or getattr(InstrDescriptor.decode(step["idesc"], kind=kind), f"{side}_major") == other:
        return None
    new = idesc_with(step["idesc"], InstrDescriptor.decode(step["idesc"], kind=kind), {f"{side}_major": other})
    return None if new is None else (f"step[{read.step}].idesc", f"{step['idesc']:#010x}", f"{new:#010x}")


def _placements(machine: Machine, read: Read) -> Iterator[np.ndarray]:
    """Where everything that is meant lies; of what lies there several times, every step's copy."""
    sources = [machine.source]
    if machine.holds_twice():
        steps = np.array([issue.step for issue in machine.issues])
        writers = np.where(machine.writer >= 0, steps[machine.writer], -1)
        sources[:0] = [np.where(writers == step, machine.source, UNWRITTEN) for step in np.unique(steps)]
    yield from (places for source in sources if (places := read.placed(source)) is not None)


def _lucky(read: Read) -> list[CheckFinding]:
    """What is wrong with a descriptor that reads the right bytes all the same."""
    unit, end = 1 << START.shift, REACH
    if read.starts is None:
        return []
    start = read.raw.get("start", 0)
    if (read.starts >= end).any():
        generic = isinstance(start, int) and start >= end
        why = (
            "is no .shared address: its low bits happen to be one"
            if generic
            else "carries out of the field, which happens to leave the right address"
        )
        return [finding("D303" if generic else "D304", read.where, read.title, f"start address {int(read.starts.max()):#x} {why}",
                        "__cvta_generic_to_shared of the pointer" if generic else "an advance that stays in the window", severity=Severity.LUCK)]  # fmt: skip
    if not (read.starts % unit).any():
        return []
    off = int(read.starts[read.starts % unit != 0][0])
    return [finding("D303", read.where, read.title,
                    f"start address {off:#x} is {off % unit} past a multiple of {unit}: the low bits are lost, and what is read is right without them",
                    f"starts on multiples of {unit} B", severity=Severity.LUCK)]  # fmt: skip


def _between_chunks(seen: Seen) -> str:
    """Is the operand meant to begin inside a 16-byte chunk, where no descriptor can?"""
    meant = seen.read.meant >= 0
    by = seen.read.meant[meant] - seen.got[meant]
    if not len(by) or (seen.got[meant] < 0).any() or (by != by[0]).any() or not 0 < abs(by[0]) < CHUNK:
        return ""
    return f"it would have to begin {int(by[0])} B further on, inside a chunk of {CHUNK} B, where no descriptor can begin"


def _outside_buffer(machine: Machine, seen: Seen) -> str:
    """Do the wrong elements, and only these, lie outside the operand's buffer?"""
    name = seen.read.raw.get("start")
    buffer = machine.buffers.get(name) if isinstance(name, str) else None
    if buffer is None or buffer.bytes is None:
        return ""
    outside = (seen.addresses < buffer.address) | (seen.addresses >= buffer.address + buffer.bytes)
    if (outside != seen.wrong).any():
        return ""
    return f"reads up to {int(seen.addresses.max()):#x}; {name} ends at {buffer.address + buffer.bytes - 1:#x}"


def _square(read: Read, best: Repair) -> list[CheckFinding]:
    """A transposition that no extent shows."""
    rows, k = (read.tensor.extent[axis] for axis in read.raw["meant"]["axes"])
    if best.code != "R505" or rows != k:
        return []
    return [finding("H802", read.where, read.title, f"{read.tensor.name} is {rows} x {k}: square, so that no extent, stride or byte count shows the transposition",
                    "test with extents that differ", because=best.code)]  # fmt: skip


def _undecodable(machine: Machine, read: Read, raw: dict[str, Any], why: str) -> list[CheckFinding]:
    """A descriptor of which nobody knows what it reads: another layout code, or the other major-ness, may read what was meant."""
    places = read.placed(machine.source)
    for s in read.solutions(places) if places is not None else ():
        fix, word = word_fix(read, s, bool((read.field_starts != s.starts).any()))
        return [finding("D302", f"{read.where}.word", read.title, why, f"write {word}: swizzle {s.swizzle}", fix=fix)]
    for best in transposed_repair(read, places, _other_idesc(read, raw)) if places is not None else ():
        return [finding(best.code, best.where, read.title, f"{why}; {best.message}", best.text, fix=best.fix, together=best.together)]
    return [finding("D302", f"{read.where}.word", read.title, why)]


def _when(machine: Machine, rerun: Rerun, raw: dict[str, Any], missing: np.ndarray) -> str:
    """Data that is not there now: was it there before, does it come later?"""
    gone = _overwritten(machine, missing)
    if gone or raw.get("excerpt"):
        return gone
    later = rerun({}, until=len(raw["step"]))
    places = np.full(1, -1) if later is None else locate(later.source, missing)
    if later is not None and (places >= 0).any():
        writer = later.issues[int(later.writer[places[places >= 0][0]])]
        return f"; {writer.text} (step {writer.step + 1}) brings it only afterwards"
    return f"; {len(missing)} of the meant elements are brought by no step"


def _overwritten(machine: Machine, wanted: np.ndarray) -> str:
    """The transfer that wrote over data which had been there."""
    for issue, old in reversed(machine.overwritten):
        if np.isin(wanted, old).any():
            return f"; {machine.issues[issue].text} (step {machine.issues[issue].step + 1}) overwrote what was meant"
    return ""


def _first(seen: Seen) -> dict[str, Any]:
    read = seen.read
    block, step, row, k = at = tuple(int(x[0]) for x in np.nonzero(seen.wrong))
    value = int(seen.got[at])
    found = NAMES.get(value) or read.tensor.named(value)
    if value >= 0 and not read.tensor.address <= value < read.tensor.end:
        found = f"another tensor ({value:#x})"
    return {"block": block, "step": step, "row": row, "k": k, "read": found, "meant": read.tensor.named(int(read.meant[at])),
            "address": int(seen.addresses[at])}  # fmt: skip


def _told(first: Any) -> str:
    return (
        f"block {first['block']} step {first['step']} row {first['row']} k {first['k']} reads {first['read']} at {first['address']:#x}, "
        f"meant {first['meant']}"
    )


def _buffer_of(machine: Machine, blamed: CheckFinding | None) -> str:
    """The buffer that a finding left unfilled."""
    return next((name for name, why in machine.failed.items() if why is blamed and name in machine.buffers), "")
