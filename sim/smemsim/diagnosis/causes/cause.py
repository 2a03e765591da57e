"""Which field makes an operand wrong: the smallest repair that makes every read right gives the finding its code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from smemsim.base.errors import Unmodelled
from smemsim.core.finding import Element, Finding, Fix, Half
from smemsim.core.machine.product import shared_grade
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.words.instr import InstrDescriptor
from smemsim.diagnosis.causes.pattern import pattern
from smemsim.diagnosis.causes.repairs import Repair, descriptor_repairs, named_changes, transposed_repair, word_fix
from smemsim.diagnosis.causes.threads import refused_for_its_swizzle
from smemsim.diagnosis.causes.writers import all_right, paired_repairs, writer_repairs
from smemsim.diagnosis.instructions import idesc_with
from smemsim.diagnosis.parts import element_name
from smemsim.diagnosis.report import share_rows
from smemsim.diagnosis.scenario import MmaStep, ScenarioTables, TmaLoad
from smemsim.diagnosis.scenario_machine import (
    NAMES,
    UNWRITTEN,
    Counts,
    Machine,
    Read,
    Rerun,
    Seen,
    finding,
)
from smemsim.diagnosis.tensors import OUTSIDE

__all__ = ["judge"]


OF_MAPS = ("T206", "T207", "T211")  # a map that is not its tensor's
# steps that operands wrong in many places are simulated again for, before the search for second opinions ends
ENOUGH_RERUNS = 400


def judge(machine: Machine, read: Read, scenario: ScenarioTables, rerun: Rerun, blamed: Finding | None) -> list[Finding]:
    """Compare an operand with what was meant; the finding, or none. `blamed`: an earlier finding that explains it."""
    try:
        seen = look(machine, read)
    except Unmodelled as e:
        return _undecodable(machine, read, scenario, str(e))
    machine.seen.append(seen)
    machine.touch(seen.addresses)
    wrong = seen.wrong
    if not wrong.any():
        return _lucky(read)
    grade = shared_grade(int(read.words[0, 0]), read.arch, read.dtype, read.major, read.k, read.packing)
    first = _first(seen)
    shape = pattern(seen)
    counts: Counts = {"wrong": int(wrong.sum()), "of": wrong.size, "first": first, "grade": grade, "pattern": shape}
    share = share_rows(counts["wrong"], wrong.size, "elements", _told(first, seen.wrong.shape), shape)
    repairs = sorted(_repairs(machine, seen, scenario, rerun), key=lambda r: r.fields) if blamed is None or blamed.code in OF_MAPS else []
    if blamed is not None and any(r.code != "R508" for r in repairs):
        blamed = None  # the map brings the right data, and something else makes the operand wrong
    for target in refused_for_its_swizzle(machine, _buffer_of(machine, blamed)) if blamed is not None else ():
        mode, now = str(read.descriptor.swizzle), machine.arguments[target.name].swizzle_given
        if now != mode and all_right(rerun({target / "swizzle": mode}), read):
            machine.findings[:] = [f for f in machine.findings if f.path != target]
            return [finding("R501", target / "swizzle", read.title, f"{target} has swizzle {now}; the descriptor reads with {mode}", why=f"the box is too wide for swizzle {now}", halves=share, tried=True, repair=
                            f"{target}.swizzle = {mode}", changes=(Fix(target / "swizzle", now, mode),), subject=read.where, **counts)]  # fmt: skip
    if blamed is not None:
        # Data in another phase is a fault of its own; what a stopped transfer did not bring is a mere consequence.
        cause = None if blamed.code == "A105" else blamed
        return [
            finding(
                "R508",
                read.where,
                read.title,
                "the operand differs from the intended tile",
                f"do what {blamed.code} says",
                cause=cause,
                halves=share,
                **counts,
            )
        ]
    repairs = repairs or list(paired_repairs(machine, read, scenario, rerun))
    if repairs:
        best = repairs[0]
        code = "R507" if best.code == "R508" and (seen.got[wrong] == UNWRITTEN).all() else best.code
        others = [f"or {r.text}" for r in repairs[1:3]]
        gone = _overwritten(machine, read.meant[wrong]) if best.where.key == "at" else ""
        told = finding(code, best.where, read.title, best.message, "; ".join([best.text, *others]), why="; ".join(filter(None, (best.why, gone))), halves=share, tried=bool(best.changes),
                       changes=best.changes, numbers=best.numbers, subject=read.where, **counts)  # fmt: skip
        return [told, *_square(read, told)]
    return [_unrepaired(machine, seen, scenario, rerun, share, counts)]


def _unrepaired(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun, share: tuple[Half, ...], counts: Counts) -> Finding:
    """The finding about a wrong operand that no single change makes right."""
    read, wrong = seen.read, seen.wrong
    got = seen.got[wrong]
    between = _between_chunks(seen)
    if between:
        return finding("D303", read.where, read.title, between, "tiles that begin on multiples of 16 B", halves=share, **counts,
                       why=f"a descriptor begins at a multiple of {CHUNK} B")  # fmt: skip
    if (got == OUTSIDE).any():
        box, now = _filling(machine, seen, scenario)
        d = read.descriptor
        return finding("T209", read.where, read.title, "the operand reads out-of-bounds fill instead of data",
                       f"correct the coordinates of the load, or global_dim of its map{now}; or if these are right: LBO (now {d.leading_byte_offset} B) and SBO (now {d.stride_byte_offset} B)",
                       why=f"{box} lies outside the tensor, and TMA fills it; no change of one field makes the operand right", halves=share, **counts)  # fmt: skip
    outside = _outside_buffer(machine, seen)
    if outside:
        return finding("A107", read.where, read.title, outside, halves=share, **counts)
    missing = machine.memory.locate(read.meant)[wrong] < 0
    when, load = _when(machine, rerun, scenario, read, read.meant[wrong][missing]) if missing.any() else ("", "")
    if (got == UNWRITTEN).any() and missing.any():
        return finding("R507", read.where, read.title, "the operand reads uninitialised bytes", load, why=when, halves=share, **counts)  # fmt: skip
    return finding(
        "R508",
        read.where,
        read.title,
        "the operand differs from the intended tile, and no single change that was tried makes it right",
        why=when,
        halves=share,
        **counts,
    )


def look(machine: Machine, read: Read) -> Seen:
    """The present reads of the operand. Raises Unmodelled for descriptors of unknown behaviour."""
    addresses = read.addresses()
    got, writer = machine.memory.look(addresses)
    return Seen(read, addresses, got, writer.astype(np.int32) - 1, (got != read.meant) & (read.meant >= 0))


def _repairs(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    read = seen.read
    fields_seen = set()
    for places in _placements(machine, read):
        for solution in read.solutions(places):
            for repair in descriptor_repairs(read, solution):
                if (repair.code, repair.text) not in fields_seen:
                    fields_seen.add((repair.code, repair.text))
                    yield repair
        yield from transposed_repair(read, places, _other_idesc(read, scenario))
    if fields_seen and machine.reruns > ENOUGH_RERUNS:
        return  # other causes of operands before had their chance; what is known is a repair
    machine.reruns += len(scenario.steps)
    yield from writer_repairs(machine, seen, scenario, rerun)


def _other_idesc(read: Read, scenario: ScenarioTables) -> Fix | None:
    """The change of a step's instruction descriptor that goes with the other major-ness."""
    step, field = scenario.steps[read.step], f"{read.where.side}_major"
    if not isinstance(step, MmaStep) or step.idesc is None or step.kind not in KINDS:
        return None
    idesc, other = InstrDescriptor.decode(step.idesc, kind=step.kind), "MN" if read.major == "K" else "K"
    new = None if getattr(idesc, field) == other else idesc_with(step.idesc, idesc, {field: other})
    return None if new is None else Fix(read.where.parent / "idesc", f"{step.idesc:#010x}", f"{new:#010x}")


def _placements(machine: Machine, read: Read) -> Iterator[np.ndarray]:
    """The places of everything that is meant; for data that are stored several times, the copy of every step."""
    of_steps: dict[int, list[int]] = {}
    if len(machine.memory.repeated()):
        for number, issue in enumerate(machine.issues, 1):
            of_steps.setdefault(issue.step, []).append(number)
    copies = (*(of_steps[step] for step in sorted(of_steps)), None)
    yield from (places for writers in copies if (places := read.placed(machine.memory, writers)) is not None)


def _filling(machine: Machine, seen: Seen, scenario: ScenarioTables) -> tuple[str, str]:
    """The first transfer whose fill an operand reads, as the subject of a sentence; the extents of its map, in
    brackets.
    """
    writer = int(seen.writer[seen.wrong & (seen.got == OUTSIDE)][0])
    issue = machine.issues[writer] if writer >= 0 else None
    step = None if issue is None else scenario.steps[issue.step]
    tm = machine.maps.get(step.map) if isinstance(step, TmaLoad) else None
    if issue is None or tm is None:
        return "a part of the box", ""
    return f"a part of the box of the {issue.text}", f" (now {list(tm.global_dim)}; the box is {list(tm.box_dim)})"


def _lucky(read: Read) -> list[Finding]:
    """The findings about a descriptor that reads the right bytes although something of it is wrong."""
    unit, end = 1 << START.shift, REACH
    if read.starts is None:
        return []
    start = read.operand.start
    if (read.starts >= end).any():
        generic = isinstance(start, int) and start >= end
        what, why = (
            ("is not a .shared address", "the low bits that the field keeps happen to be one")
            if generic
            else ("does not fit the field", "the carry is lost, and the bits that are left happen to be the right address")
        )
        return [finding("D303" if generic else "D304", read.where, read.title, f"start address {int(read.starts.max()):#x} {what}",
                        "__cvta_generic_to_shared of the pointer" if generic else "an advance that stays in the window", severity=Severity.LUCK, why=why)]  # fmt: skip
    if not (read.starts % unit).any():
        return []
    off = int(read.starts[read.starts % unit != 0][0])
    return [finding("D303", read.where, read.title,
                    f"start address {off:#x} is {off % unit} B past a multiple of {unit} B", f"start addresses that are multiples of {unit} B",
                    severity=Severity.LUCK, why="the field loses the low bits; without them the address happens to be right")]  # fmt: skip


def _between_chunks(seen: Seen) -> str:
    """Is the operand meant to begin inside a 16-byte chunk, where no descriptor can?"""
    meant = seen.read.meant >= 0
    by = seen.read.meant[meant] - seen.got[meant]
    if not len(by) or (seen.got[meant] < 0).any() or (by != by[0]).any() or not 0 < abs(by[0]) < CHUNK:
        return ""
    far = int(by[0])
    return f"the intended tile begins {abs(far)} B {'after' if far > 0 else 'before'} the start address, inside a {CHUNK} B chunk"


def _outside_buffer(machine: Machine, seen: Seen) -> str:
    """Do the wrong elements, and only these, lie outside the operand's buffer?"""
    name = seen.read.operand.start
    buffer = machine.buffers.get(name) if isinstance(name, str) else None
    if buffer is None or buffer.bytes is None:
        return ""
    outside = (seen.addresses < buffer.address) | (seen.addresses >= buffer.address + buffer.bytes)
    if (outside != seen.wrong).any():
        return ""
    return f"the operand reads up to {int(seen.addresses.max()):#x}; {name} ends at {buffer.address + buffer.bytes - 1:#x}"


def _square(read: Read, transposed: Finding) -> list[Finding]:
    """A transposition that no extent shows."""
    rows, k = (read.tensor.extent[axis] for axis in read.meaning.axes)
    if transposed.code != "R505" or rows != k:
        return []
    return [finding("H802", read.where, read.title, f"{read.tensor.name} is square ({rows} x {k}), so no check of sizes can see that it is transposed", "test with extents that differ", cause=transposed,
                    why="extents, strides and byte counts are the same for both orders")]  # fmt: skip


def _undecodable(machine: Machine, read: Read, scenario: ScenarioTables, why: str) -> list[Finding]:
    """A descriptor of unknown behaviour: another layout code, or the other major-ness, may read the meant data."""
    places = read.placed(machine.memory)
    for s in read.solutions(places) if places is not None else ():
        fix, word = word_fix(read, s, bool((read.field_starts != s.starts).any()))
        fields = "".join(f", {part}" for part in (named_changes(read, s),) if part)
        return [
            finding(
                "D302", read.where / "word", read.title, why, f"write {word}: swizzle {s.swizzle}{fields}", changes=(fix,) if fix else ()
            )
        ]
    for best in transposed_repair(read, places, _other_idesc(read, scenario)) if places is not None else ():
        return [finding(best.code, best.where, read.title, why, best.text, changes=best.changes, subject=read.where, why=best.message)]
    return [finding("D302", read.where / "word", read.title, why)]


def _when(machine: Machine, rerun: Rerun, scenario: ScenarioTables, read: Read, missing: np.ndarray) -> tuple[str, str]:
    """Data that is not there now: was it there before, does it come later? And what to do."""
    gone = _overwritten(machine, missing)
    if gone or scenario.excerpt:
        return gone, ""
    later = rerun({}, until=len(scenario.steps))
    places = np.full(1, -1) if later is None else later.memory.locate(missing)
    if later is not None and (places >= 0).any():
        writer = later.issues[int(later.memory.of(places[places >= 0][:1])[0][0]) - 1]
        return f"{writer.text} (step[{writer.step}]) writes them only afterwards", f"step[{writer.step}] before {read.where.parent}"
    box = _box(read, missing)
    why = f"no step writes {box} to shared memory: a load or another write is missing, or is too small"
    brought = next(((issue.step, own) for issue in reversed(machine.issues) if len(own := _of_tensor(read, issue.sources))), None)
    only = f"; step[{brought[0]}] writes only {_box(read, brought[1])}" if brought is not None else ""
    return why, f"load {box} before {read.where.parent}{only}"


def _of_tensor(read: Read, sources: np.ndarray) -> np.ndarray:
    """A byte of each element of the operand's tensor that some global bytes have."""
    own = sources[(sources >= read.tensor.address) & (sources < read.tensor.end)]
    at = read.tensor.coordinates(own)
    return own[np.unique(np.stack([at[axis] for axis in dict.fromkeys(read.meaning.axes)]), axis=1, return_index=True)[1]]


def _box(read: Read, missing: np.ndarray) -> str:
    """Elements of a tensor in words: the box that they fill, or their number and the box around them."""
    at = read.tensor.coordinates(missing)
    ends = {axis: (int(at[axis].min()), int(at[axis].max())) for axis in dict.fromkeys(read.meaning.axes)}
    box = f"{read.tensor.name}[{', '.join(f'{axis}={low}' if low == high else f'{axis}={low} to {high}' for axis, (low, high) in ends.items())}]"
    number = len(np.unique(missing))
    return box if number == math.prod(high - low + 1 for low, high in ends.values()) else f"{number} elements of {box}"


def _overwritten(machine: Machine, wanted: np.ndarray) -> str:
    """The transfer that wrote over data which had been there."""
    for issue, old in reversed(machine.overwritten):
        if np.isin(wanted, old).any():
            return f"{machine.issues[issue].text} (step[{machine.issues[issue].step}]) overwrote the intended data"
    return ""


def _first(seen: Seen) -> Element:
    read = seen.read
    block, step, row, k = at = tuple(int(x[0]) for x in np.nonzero(seen.wrong))
    value = int(seen.got[at])
    name = NAMES.get(value) or read.tensor.named(value)
    if value >= 0 and not read.tensor.address <= value < read.tensor.end:
        name = f"another tensor ({value:#x})"
    return {"block": block, "step": step, "row": row, "k": k, "read": name, "meant": read.tensor.named(int(read.meant[at])),
            "address": int(seen.addresses[at])}  # fmt: skip


def _told(first: Element, shape: Sequence[int]) -> str:
    where = element_name((first["block"], first["step"], first["row"], first["k"]), shape)
    return f"{where}: reads {first['read']} at {first['address']:#x}, needs {first['meant']}"


def _buffer_of(machine: Machine, blamed: Finding | None) -> str:
    """The buffer that a finding left unfilled."""
    return next((name for name, why in machine.failed.items() if why is blamed and name in machine.buffers), "")
