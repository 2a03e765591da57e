"""`check`: is a scenario right, and what is not?"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.errors import InputError
from smemsim.finding import Finding, Path
from smemsim.judge import build
from smemsim.judge.causes import before, judge, machine_of, rerun_of, transfer
from smemsim.judge.copies import completed, copied, copy_findings, store_step
from smemsim.judge.find import Shape
from smemsim.judge.instructions import (
    a_from_tensor_memory,
    cta_group_of,
    instruction_findings,
    is_sparse,
    kind_of_step,
    lane_split,
    rows_in_cta,
)
from smemsim.judge.reads import Read, bank_notes, made_words, meant_of, packing_of, usage_notes
from smemsim.judge.report import Report
from smemsim.judge.scales import scale_step
from smemsim.judge.scenario import read_scenario
from smemsim.judge.state import Machine, buffers_of, finding
from smemsim.judge.statics import descriptor_notes, map_findings, map_notes, one_atom_hides, unmeant_descriptor
from smemsim.judge.tensors import tensors_of
from smemsim.machine.owners import Owners
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.tables import Source, TableError

__all__ = ["MOST", "MOST_ELEMENTS", "check", "extents_of", "run_steps", "wanted_of"]


# ---- One operand of a scenario as something to find descriptors for: what lies in shared memory when it is read, and what it was meant to
# be


def wanted_of(scenario: Any, where: str) -> tuple[Shape, Owners, np.ndarray]:
    """(the operand's shape, what lies in shared memory, the global byte of every element (blocks, steps, rows, k)).

    Blocks and K steps are those of the operand's words. Without words: as many K steps, and blocks of these, as have all their elements in
    shared memory, at least one.
    """
    raw = _raw(scenario)[0]
    path = Path.parse(where)
    steps = raw.get("step", [])
    known = [f"step[{i}].{side}" for i, step in enumerate(steps) for side in "ab" if "meant" in step.get(side, {})]
    if path.step is None or where.strip() not in known:
        raise InputError(f"operand {shown(where)}: needs one that says what it was meant to be; there are {', '.join(known) or 'none'}")
    number, side = path.step, path.side
    step, operand = steps[number], steps[number][side]
    machine = run_steps({**raw, "step": steps[:number]})
    memory, arch = machine.memory, architecture(raw["arch"])
    rows, k = extents_of(raw, step, side, path)
    tensor = tensors_of(raw)[operand["meant"]["tensor"]]
    made = made_words(operand, buffers_of(raw), path)

    def meant(blocks: int, count: int) -> np.ndarray:
        if blocks * count * rows * k > MOST_ELEMENTS:
            raise InputError(f"{where}: {blocks * count} instructions of {rows} x {k} elements; a tile has at most {MOST_ELEMENTS:,}")
        return meant_of(operand, tensor, (blocks, count), rows, k)

    def here(blocks: int, count: int) -> bool:
        wanted = meant(blocks, count)
        return bool((wanted >= 0).all() and (memory.locate(wanted) >= 0).all())

    if made is not None:
        blocks, count = made[0].shape
    else:
        blocks = count = 1
        while count < MOST // k and here(1, count + 1):
            count += 1
        while blocks < MOST // rows and here(blocks + 1, count):
            blocks += 1
    packing = packing_of(kind_of_step(step, machine.arch) or "", operand["dtype"])
    shape = Shape(arch, element_format(operand["dtype"]), operand["major"], packing, blocks, count, rows, k)
    return shape, memory, meant(blocks, count)


# ---- `check`: run a scenario, compare what every instruction reads with what it was meant to read, and say which field is wrong


TABLES = ("buffer", "map", "step")  # of a scenario, upstream first
NOTES = ("D305", "T208")  # what is written otherwise than the documents say; other notes are remarks: nothing of them needs a change
MOST, MOST_ELEMENTS = 1024, 1 << 22  # rows or k of an instruction, elements that all the words of an operand read


def check(scenario: Any) -> Report:
    """Run a scenario and say what is wrong with it.

    `scenario` is the path of a TOML or JSON file, or the same structure as a dict or a `Scenario`. The findings are `Report.findings`, the most upstream one first;
    each has a code, a severity, where it is, what is wrong, what to write instead, and, of operands, how many elements are wrong and which is the
    first.

    Raises InputError for what is no scenario, with the line and the key, and Unmodelled for what nobody knows.

    >>> tensor = {"dtype": "bf16", "extent": {"m": 64, "k": 64}, "stride": {"m": 128, "k": 2}}
    >>> tm = {"of": "A", "data_type": "BFLOAT16", "global_dim": [64, 64], "global_strides": [128], "box_dim": [64, 64], "swizzle": "128B"}
    >>> a = {"dtype": "bf16", "major": "K", "word": 0x4000000800010000, "start": "sA", "k_add": [0, 32, 64, 96],
    ...      "meant": {"tensor": "A", "axes": ["m", "k"]}}
    >>> report = check({"arch": "sm_90a", "tensor": {"A": tensor}, "buffer": {"sA": {"address": 1024}}, "map": {"tm": tm}, "step": [
    ...     {"op": "tma_load", "map": "tm", "to": "sA", "at": [0, 0]}, {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, "a": a}]})
    >>> report.findings[0].code, report.findings[0].repair
    ('D308', 'stride_byte_offset 128 must be 1024: 0x4000004000010000')
    """
    raw, source = _raw(scenario)
    try:
        machine = run_steps(raw)
    except InputError as e:
        begin = re.match(r"(?:arch|(?:step|tensor|buffer|map)\b)[\w.\[\]]*", str(e))
        path = Path(tuple(int(part) if part.isdigit() else part for part in re.findall(r"\w+", begin[0]))) if begin else Path()
        raise (source.located(TableError(str(e), path)) if source.text else e) from None
    expected = raw.get("expect")
    found = sorted(machine.findings, key=_upstream)
    remarks = tuple(one for one in found if one.severity is Severity.NOTE and one.code not in NOTES)
    findings = tuple(one for one in found if one not in remarks)
    codes = None if expected is None else tuple(expected["findings"])
    unchecked = (*machine.unchecked, *_not_compared(raw, machine))
    return Report(findings, codes, raw.get("title", ""), unchecked, machine.arch, remarks, machine)


def _raw(scenario: Any) -> tuple[dict[str, Any], Source]:
    """The scenario as tables, and where it comes from."""
    read = read_scenario(scenario.tables if isinstance(scenario, build.Scenario) else scenario)
    return read.as_dict(), read.source


def _not_compared(raw: dict[str, Any], machine: Machine) -> Iterator[str]:
    """What a reader may take for compared, and is not."""
    yield from _unmeant(raw)
    for number, step in enumerate(raw.get("step", [])):
        if step["op"] == "mma" and kind_of_step(step, machine.arch) is None:
            yield f"step[{number}].kind ({step.get('kind') or step.get('instruction') or 'none'} on {machine.arch})"
        if step["op"] == "mma" and not {"a", "b", "scale_a", "scale_b"} & step.keys():
            yield f"step[{number}] (it has no operands)"
    if not raw.get("step") and not machine.findings:
        yield "anything (there is no step)"


def _unmeant(raw: dict[str, Any]) -> Iterator[str]:
    for number, step in enumerate(raw.get("step", [])):
        yield from (
            f"step[{number}].{side} (meant is missing)"
            for side in "ab"
            if side in step and step["op"] == "mma" and "meant" not in step[side]
        )


def _upstream(f: Finding) -> tuple[bool, int, int, bool]:
    """Its place in a report: notes last, then in the order in which a scenario's tables take effect, and of its steps; consequences behind their causes."""
    index = next((key for key in f.path.keys if isinstance(key, int)), -1)
    return f.severity is Severity.NOTE, TABLES.index(f.path.table) if f.path.table in TABLES else len(TABLES), index, f.cause is not None


def run_steps(raw: dict[str, Any]) -> Machine:
    """Shared memory as the steps of a scenario leave it, with the findings about them."""
    machine = machine_of(raw)
    _layouts(machine)
    machine.encode_maps()
    for name, tm in machine.maps.items():
        tensor = machine.tensors.get(machine.raw_maps[name].get("of", ""))
        if tm is not None and tensor is not None and tensor.scale_blocks is None and "pixel_box_lower_corner" not in machine.raw_maps[name]:
            for one in map_findings(machine, name, tm, tensor):
                machine.mismatched[name] = machine.say(one)
        if tm is not None:
            stores = any(step.get("map") == name and step["op"] != "tma_load" for step in raw.get("step", []))
            for one in map_notes(machine, name, tm, stores=stores):
                machine.say(one)
    for number, step in enumerate(raw.get("step", [])):
        try:
            _one(machine, raw, number, step)
        except InputError as e:
            text = str(e)
            raise InputError(text if text.startswith("step[") else f"step[{number}]: {text}") from None
    for one in () if raw.get("excerpt") else usage_notes(machine):
        machine.say(one)
    return machine


def _layouts(machine: Machine) -> None:
    """A layout must give every element a byte of its own."""
    for name, buffer in machine.buffers.items():
        alias = buffer.layout and buffer.layout.first_alias()
        if alias:
            (mn, k), (mn2, k2) = alias
            machine.say(finding("L401", buffer.path / "layout", f"buffer {name}",
                                f"the layout is not one-to-one: (mn {mn}, k {k}) and (mn {mn2}, k {k2}) are the same byte"))  # fmt: skip
        for one in bank_notes(name, buffer):
            machine.say(one)


def _one(machine: Machine, raw: dict[str, Any], number: int, step: dict[str, Any]) -> None:
    op = step["op"]
    rerun = rerun_of(raw, number)
    if op not in ("mma", "copy"):
        transfer(machine, raw, number, rerun)
        if op in ("tma_store", "tma_reduce"):
            store_step(machine, raw, number, rerun)
    else:
        group = cta_group_of(raw, number, step)
        if op == "mma":
            for one in instruction_findings(machine, number, step, group):
                machine.say(one)
            if "tmem" in step.get("a", {}):
                a_from_tensor_memory(machine, raw, number, step, group)
        else:
            step = completed(machine, number, step)
        sides = [side for side in "ab" if side in step and not (op == "mma" and side == "a" and "tmem" in step["a"])]
        found = [read for side in sides if (read := _read(machine, raw, number, step, side)) is not None]
        for read in found:
            told = judge(machine, read, raw, rerun, _blamed(machine, raw, read))
            split = lane_split(machine, read, step, group, told) if op == "mma" else copy_findings(machine, raw, number, read, told, before)
            for one in split:
                machine.say(one)
            _of_the_code(machine, read)
            _of_the_major(machine, read)
            for one in (*descriptor_notes(read), *(() if told else one_atom_hides(machine, read))):
                machine.say(one)
        _cancel(machine, number, found)
        if op == "mma":
            scale_step(machine, raw, number, step, group, before)
        else:
            copied(machine, raw, number, step)


def _of_the_code(machine: Machine, read: Read) -> None:
    """A layout code that means another swizzle also gives combinations that the instruction cannot read: these are its consequences."""

    def follows(f: Finding) -> bool:
        return (f.code == "I602" and f.path.startswith(read.where) and _is_of_swizzle(f, "")) or _is_of_major(f, read)

    _blame(machine, read, "D302", follows)


def _of_the_major(machine: Machine, read: Read) -> None:
    """An instruction descriptor that differs in the major-ness alone, and agrees with how the operand lies, is right: the operand's is not. Nor is a
    combination of swizzle and major-ness that no instruction has a fault of its own."""
    side, idesc = read.where.side, read.where.parent / "idesc"

    def follows(f: Finding) -> bool:
        return (f.code == "I603" and f.path == idesc and set(f.numbers) == {f"{side}_major"}) or _is_of_major(f, read)

    _blame(machine, read, "R505", follows)


def _is_of_major(f: Finding, read: Read) -> bool:
    """Does the instruction descriptor have a major-ness of the operand that does not go with its swizzle?"""
    of = f"transpose_{read.where.side}"
    is_there = f.code == "I602" and f.path == read.where.parent / "idesc" and f.inside is not None and f.inside.field.key == of
    return is_there and _is_of_swizzle(f, f"_{read.where.side}")


def _is_of_swizzle(f: Finding, side: str) -> bool:
    return f.inside is not None and f"swizzle{side}" in f.inside.against


def _blame(machine: Machine, read: Read, code: str, follows: Callable[[Finding], bool]) -> None:
    """Let findings follow from the one of a code that is about the operand."""
    cause = next((f for f in machine.findings if f.code == code and f.path.startswith(read.where)), None)
    if cause is not None:
        machine.findings[:] = [dataclasses.replace(f, cause=cause) if follows(f) else f for f in machine.findings]


def _read(machine: Machine, raw: dict[str, Any], number: int, step: dict[str, Any], side: str) -> Read | None:
    """What an operand reads; None where it says nothing of what was meant, or where its words are to be found."""
    operand = step[side]
    where, title = Path.of("step", number, side), f"step {number + 1} ({step['op']}) {side}"
    meant = operand.get("meant")
    rows, k = extents_of(raw, step, side, where)
    made = made_words(operand, machine.buffers, where)
    packing = packing_of(kind_of_step(step, machine.arch) or "", operand["dtype"])
    if meant is None:
        if made is not None and step["op"] == "mma":
            given = {"dtype": operand["dtype"], "major": operand["major"], "rows": rows, "k": k, "packing": packing}
            for one in unmeant_descriptor(machine.arch, where, title, operand, int(made[0][0, 0]), **given):
                machine.say(one)
        return None
    shape = (1, 1) if made is None else (made[0].shape[0], made[0].shape[1])
    if shape[0] * shape[1] * rows * k > MOST_ELEMENTS:
        raise InputError(f"{where}: {shape[0] * shape[1]} words of {rows} x {k} elements; a tile has at most {MOST_ELEMENTS:,}")
    tensor = machine.tensors[meant["tensor"]]
    words, starts = made if made is not None else (np.zeros((1, 1), np.uint64), None)
    start = operand.get("start")
    stage_bytes = machine.buffers[start].stage_bytes if isinstance(start, str) else 0
    read = Read(where, title, machine.arch, operand["dtype"], operand["major"], packing, words, rows, k,
                meant_of(operand, tensor, shape, rows, k), tensor, operand, starts, stage_bytes)  # fmt: skip
    if made is None:
        _find(machine, read)
        return None
    return read


def extents_of(raw: dict[str, Any], step: dict[str, Any], side: str, where: Path) -> tuple[int, int]:
    """Rows and k that one instruction reads of an operand. Raises InputError for what none has."""
    group = step.get("cta_group", raw.get("cta_group"))
    rows, k = step[side].get("rows", rows_in_cta(step, side, raw["arch"], group)), step.get("k", 8)
    if side == "a" and step["op"] == "mma" and is_sparse(step):
        k //= 2  # half of a sparse A is stored
    for name, value in (("rows", rows), ("k", k)):
        if not 1 <= value <= MOST:
            raise InputError(f"{where}: {name} = {value}: an instruction reads 1 to {MOST}")
    return rows, k


def _find(machine: Machine, read: Read) -> None:
    """The scenario asks for a descriptor."""
    places = machine.memory.locate(read.meant)
    if (places < 0).any():
        missing = int((places < 0).sum())
        machine.say(
            finding("R507", read.where, read.title, f"{missing} of {places.size} elements lie nowhere in shared memory: no step wrote them")
        )
        return
    found = list(read.solutions(places))
    if found:
        one = found[0]
        fields = (
            f"swizzle {one.swizzle}, LBO {'any' if one.leading is None else one.leading}, SBO {'any' if one.stride is None else one.stride}"
        )
        machine.say(finding("L403", read.where, read.title, f"no word is given; {int(one.words[0, 0]):#018x} reads the first {read.rows} x {read.k} ({fields})"
                            + ("; k_add and mn_add are not used without a word" if {"k_add", "mn_add"} & read.raw.keys() else "")))  # fmt: skip
    else:
        other = "MN" if read.major == "K" else "K"
        near = next(iter(read.solutions(places, other)), None)
        hint = (
            f"{other}-major, {int(near.words[0, 0]):#018x} reads it"
            if near
            else "lay the tile out in one of the canonical layouts (8 rows of 16 to 128 bytes)"
        )
        machine.say(finding("L402", read.where, read.title, f"no descriptor reads this layout as a {read.major}-major operand of {read.rows} x {read.k} {read.dtype}", hint))  # fmt: skip


def _blamed(machine: Machine, raw: dict[str, Any], read: Read) -> Finding | None:
    """An earlier finding that explains a wrong operand: its buffer was not filled, or lies in another phase."""
    start = read.raw.get("start")
    names = [start] if isinstance(start, str) else _buffers_at(machine, read)
    for name in names:
        if name in machine.failed:
            return machine.failed[name]
        for one in machine.findings:
            if one.code == "A105" and any(fix.path.startswith(Path.of("buffer", name)) for fix in one.changes):
                return one
    for step in raw["step"]:
        if step["op"].startswith("tma_") and step.get("to") in names and step["map"] in machine.mismatched:
            return machine.mismatched[step["map"]]
    stopped = [*machine.refused.values(), *machine.failed.values()]
    if stopped and (machine.memory.locate(read.meant) < 0).any():
        return stopped[0]
    for one in machine.findings:
        if one.code == "I602" and one.path.startswith(read.where):
            return one
    return None


def _buffers_at(machine: Machine, read: Read) -> list[str]:
    at = read.descriptor.start_address
    return [b.name for b in machine.buffers.values() if b.address <= at < b.address + (b.bytes or 1)]


def _cancel(machine: Machine, number: int, reads: list[Read]) -> None:
    """Both operands take the same permutation of K: the products are right all the same."""
    if len(reads) != 2 or not all(any(f.path.startswith(r.where) and f.wrong for f in machine.findings) for r in reads):
        return
    taken = [_k_taken(machine, read) for read in reads]
    if all(one is not None for one in taken) and np.array_equal(*taken):  # type: ignore[arg-type]
        machine.say(finding("H801", Path.of("step", number), f"step {number + 1} (mma)",
                            "both operands take the same permutation of K: every product pairs the right elements, the result does not change; it will when one of them moves"))  # fmt: skip


def _k_taken(machine: Machine, read: Read) -> np.ndarray | None:
    """Which K each K step takes, (steps, k), counted from the first that is meant; None unless all rows take the same ones, and each K is taken once."""
    got = machine.memory.source(read.addresses())
    rows_axis, k_axis = read.raw["meant"]["axes"]
    if ((got < read.tensor.address) | (got >= read.tensor.end) | (read.meant < 0)).any():
        return None
    took, meant = read.tensor.coordinates(got), read.tensor.coordinates(read.meant)
    k = took[k_axis] - read.raw["meant"].get("at", [0, 0])[1]
    every = np.sort(k[0, :, 0].reshape(-1))
    once = np.array_equal(every, np.sort((meant[k_axis][0, :, 0] - meant[k_axis].min()).reshape(-1)))
    alike = (took[rows_axis] == meant[rows_axis]).all() and (k == k[:1, :, :1]).all()
    return k[0, :, 0] if alike and once else None
