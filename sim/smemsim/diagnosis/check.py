"""`check`: is a scenario right, and what is not?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.core.finding import OR, Finding, Path
from smemsim.core.machine.owners import Owners
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.tables import TableError, mistake
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis import build
from smemsim.diagnosis.causes.cause import judge
from smemsim.diagnosis.causes.reruns import Reruns, before, machine_of, transfer
from smemsim.diagnosis.copies import completed, copied, copy_findings, store_step
from smemsim.diagnosis.descriptors.answers import Witness
from smemsim.diagnosis.descriptors.places import inverted
from smemsim.diagnosis.descriptors.shapes import Shape
from smemsim.diagnosis.instructions import (
    a_from_tensor_memory,
    cta_group_of,
    instruction_findings,
    is_sparse,
    kind_of_step,
    lane_split,
    rows_in_cta,
)
from smemsim.diagnosis.reads import bank_notes, made_words, meant_of, packing_of, usage_notes
from smemsim.diagnosis.report import Report
from smemsim.diagnosis.scales import scale_step
from smemsim.diagnosis.scenario import CopyStep, MmaStep, ScenarioTables, Step, TmaLoad, TmaStore, read_scenario
from smemsim.diagnosis.scenario_machine import Machine, Read, Rerun, finding
from smemsim.diagnosis.static_checks import buffer_notes, descriptor_notes, map_findings, map_notes, one_atom_hides, unmeant_descriptor

__all__ = ["MOST", "MOST_ELEMENTS", "check", "extents_of", "run_steps", "wanted_of"]


# ---- One operand of a scenario as something to find descriptors for: what lies in shared memory when it is read, and
# what it was meant to be


def wanted_of(scenario: object, where: str) -> tuple[Shape, Owners, np.ndarray]:
    """(the operand's shape, what lies in shared memory, the global byte of every element (blocks, steps, rows, k)).

    Blocks and K steps are those of the operand's words. Without words: as many K steps, and blocks of these, as have
    all their elements in shared memory, at least one.
    """
    given = _scenario_of(scenario)
    known = {str(path): (path, operand) for path, operand in given.operands() if operand.meant is not None}
    if where.strip() not in known:
        missing = f"operand {shown(where)}" if where.strip() else "--operand is missing"
        choices = f"needs one of {', '.join(known)}" if known else "no operand of the scenario has the key `meant`"
        raise InputError(f"{missing}: {choices}")
    path, operand = known[where.strip()]
    assert path.step is not None
    assert operand.meant is not None
    step, meaning = given.steps[path.step], operand.meant
    machine = run_steps(dataclasses.replace(given, steps=given.steps[: path.step]))
    memory, arch, tensor = machine.memory, any_architecture(given.arch), machine.tensors[operand.meant.tensor]
    rows, k = extents_of(given, step, path)
    made = made_words(operand, machine.buffers, path)

    def meant(blocks: int, count: int) -> np.ndarray:
        if blocks * count * rows * k > MOST_ELEMENTS:
            raise mistake(path, f"{blocks * count} instructions of {rows} x {k} elements; a tile has at most {MOST_ELEMENTS:,}")
        return meant_of(meaning, tensor, (blocks, count), rows, k)

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
    packing = packing_of(kind_of_step(step, machine.arch) or "", operand.dtype)
    shape = Shape(arch, element_format(operand.dtype), operand.major, packing, blocks, count, rows, k)
    return shape, memory, meant(blocks, count)


# ---- `check`: run a scenario, compare what every instruction reads with what was meant, and name the wrong field


TABLES = ("buffer", "map", "step")  # of a scenario, upstream first
# what is written otherwise than the documents say; other notes are remarks: nothing of them needs a change
NOTES = ("D305", "T208")
MOST, MOST_ELEMENTS = 1024, 1 << 22  # rows or k of an instruction, elements that all the words of an operand read


@in_default_state
def check(scenario: object) -> Report:
    """Run a scenario and report what is wrong with it.

    The scenario is the path of a TOML or JSON file, the same structure as a dict, or a `Scenario`. The findings are in
    `Report.findings`, the first cause first. Each has a code, a severity, a place, what is wrong and the fix. Findings
    of operands count the wrong elements and name the first one.

    Raises InputError with the line and the key for an invalid scenario, and Unmodelled for unknown behaviour.

    >>> from smemsim import check
    >>> tensor = {"dtype": "bf16", "extent": {"m": 64, "k": 64}, "stride": {"m": 128, "k": 2}}
    >>> tm = {"of": "A", "data_type": "BFLOAT16", "global_dim": [64, 64], "global_strides": [128], "box_dim": [64, 64], "swizzle": "128B"}
    >>> a = {"dtype": "bf16", "major": "K", "word": 0x4000000800010000, "start": "sA", "k_add": [0, 32, 64, 96],
    ...      "meant": {"tensor": "A", "axes": ["m", "k"]}}
    >>> report = check({"arch": "sm_90a", "tensor": {"A": tensor}, "buffer": {"sA": {"address": 1024}}, "map": {"tm": tm}, "step": [
    ...     {"op": "tma_load", "map": "tm", "to": "sA", "at": [0, 0]}, {"op": "mma", "kind": "wgmma", "m": 64, "n": 64, "k": 16, "a": a}]})
    >>> report.findings[0].code, report.findings[0].repair
    ('D308', 'stride_byte_offset 128 must be 1024: 0x4000004000010000')
    """
    given = _scenario_of(scenario)
    try:
        machine = run_steps(given)
    except InputError as e:
        raise (given.source.located(e) if given.source.text else e) from None
    ordered = sorted(machine.findings, key=_upstream)
    remarks = tuple(filter(_is_remark, ordered))
    findings = tuple(itertools.filterfalse(_is_remark, ordered))
    codes = None if given.expect is None else given.expect.findings
    unchecked = (*machine.unchecked, *_not_compared(given, machine))
    is_empty = not (given.steps or given.maps or any(b.layout for b in given.buffers.values()) or findings)
    return Report(findings, codes, given.title or "", unchecked, machine.arch, remarks, machine, is_empty)


def _is_remark(f: Finding) -> bool:
    """Does it need no change?"""
    return f.severity is Severity.NOTE and f.code not in NOTES


def _scenario_of(given: object) -> ScenarioTables:
    """The scenario as typed tables; a file or a builder is read."""
    if isinstance(given, ScenarioTables):
        return given
    return read_scenario(given.tables if isinstance(given, build.Scenario) else given)


def _not_compared(scenario: ScenarioTables, machine: Machine) -> Iterator[str]:
    """The paths of all that a reader may take for compared, and that was not compared."""
    mmas = [(Path.of("step", number), step) for number, step in enumerate(scenario.steps) if isinstance(step, MmaStep)]
    yield from (
        f"{path / side} (the key meant is missing: no tile to compare with)"
        for path, step in mmas
        for side, of in step.operands.items()
        if of.meant is None
    )
    for path, step in mmas:
        if kind_of_step(step, machine.arch) is None:
            yield f"{path}.kind ({step.kind or step.instruction or 'none'} on {machine.arch})"
        if not step.readers:
            yield f"{path} (it has no operands)"
    if not scenario.steps and not machine.findings:
        yield "any operand (the scenario has no [[step]])"


def _upstream(f: Finding) -> tuple[bool, int, int, bool]:
    """The order of a report: notes last; other findings as the tables of the scenario take effect, then by step. A
    consequence follows its cause.
    """
    index = next((key for key in f.path.keys if isinstance(key, int)), -1)
    return f.severity is Severity.NOTE, TABLES.index(f.path.table) if f.path.table in TABLES else len(TABLES), index, f.cause is not None


def run_steps(scenario: ScenarioTables) -> Machine:
    """Shared memory as the steps of a scenario leave it, with the findings about them."""
    machine = machine_of(scenario)
    for note in buffer_notes(machine, scenario):
        machine.say(note)
    _layouts(machine)
    machine.encode_maps()
    for name, tm in machine.maps.items():
        if tm is not None:
            _map(machine, scenario, name, tm)
    reruns = Reruns(scenario)
    for number, step in enumerate(scenario.steps):
        try:
            _step(machine, scenario, number, step, reruns.before(number))
        except TableError:
            raise
        except InputError as e:
            raise mistake(Path.of("step", number), str(e)) from None
    for note in () if scenario.excerpt else usage_notes(machine):
        machine.say(note)
    return machine


def _map(machine: Machine, scenario: ScenarioTables, name: str, tm: TensorMap) -> None:
    """Finds whether a map describes its tensor, and what is odd about it."""
    arguments = scenario.maps[name]
    tensor = machine.tensors.get(arguments.of or "")
    if tensor is not None and tensor.scale_blocks is None and not arguments.is_im2col:
        for wrong in map_findings(machine, name, tm, tensor):
            machine.mismatched[name] = machine.say(wrong)
    stores = any(isinstance(step, TmaStore) and step.map == name for step in scenario.steps)
    for note in map_notes(machine, name, tm, stores=stores):
        machine.say(note)


def _layouts(machine: Machine) -> None:
    """Finds buffers whose layout gives two elements one byte, and bank conflicts."""
    for name, buffer in machine.buffers.items():
        alias = buffer.layout and buffer.layout.first_alias()
        if buffer.layout and alias:
            one, other = (f"(mn {mn}, k {k})" for mn, k in alias)
            name_of_axis, stride, span, wider = buffer.layout.widened()
            counted = f" ({buffer.layout.contiguous} counts bytes)" * bool(buffer.layout.contiguous)
            small = buffer.layout.below(stride)
            takes = f"takes {span} B" if len(small) == 1 else f"take {span} B together"
            short = f"{name_of_axis} has a stride of {stride} B, but {' and '.join(small)}, with smaller strides, {takes}{counted}: elements overlap"
            right = f"a stride of at least {span} B in {name_of_axis}" + (f": {wider}" if wider else "")
            if stride:
                right += f"; or keep the stride of {stride} B, and shorten {' and '.join(small)} from {span} B to {stride} B"
            machine.say(finding("L401", buffer.path / "layout", f"buffer {name}",
                                f"the layout gives {one} and {other} the same byte", right, why=short))  # fmt: skip
        for note in bank_notes(name, buffer):
            machine.say(note)


def _step(machine: Machine, scenario: ScenarioTables, number: int, step: Step, rerun: Rerun) -> None:
    """Carries out a step and keeps its findings."""
    if isinstance(step, MmaStep):
        _mma(machine, scenario, number, step, rerun)
    elif isinstance(step, CopyStep):
        cta_group_of(scenario, number, step)
        whole = completed(machine, number, step)
        for read in _reads(machine, scenario, number, whole, ("a",)):
            told = judge(machine, read, scenario, rerun, _blamed(machine, scenario, read))
            _keep(machine, read, copy_findings(machine, scenario, number, read, told, before), is_right=not told)
        copied(machine, scenario, number, whole)
    else:
        transfer(machine, scenario, number, rerun)
        if isinstance(step, TmaStore):
            store_step(machine, scenario, number, step, rerun)


def _mma(machine: Machine, scenario: ScenarioTables, number: int, step: MmaStep, rerun: Rerun) -> None:
    """Judges an MMA: the instruction, its operands in shared and in tensor memory, its scale factors."""
    group = cta_group_of(scenario, number, step)
    for wrong in instruction_findings(machine, number, step, group):
        machine.say(wrong)
    in_tmem = step.a is not None and step.a.tmem is not None
    if step.a is not None and step.a.tmem is not None:
        a_from_tensor_memory(machine, scenario, number, step, step.a, step.a.tmem, group)
    reads = _reads(machine, scenario, number, step, [side for side in step.operands if not (side == "a" and in_tmem)])
    for read in reads:
        told = judge(machine, read, scenario, rerun, _blamed(machine, scenario, read))
        _keep(machine, read, lane_split(machine, read, step, group, told), is_right=not told)
    _cancel(machine, number, reads)
    scale_step(machine, scenario, number, step, group, before)


def _reads(machine: Machine, scenario: ScenarioTables, number: int, step: MmaStep | CopyStep, sides: Iterable[str]) -> list[Read]:
    """The reads of the operands of a step that have `meant` and words."""
    return [read for side in sides if (read := _read(machine, scenario, Path.of("step", number, side), step)) is not None]


def _keep(machine: Machine, read: Read, found: Iterable[Finding], *, is_right: bool) -> None:
    """Keeps the findings of an operand, what follows from them, and what is odd about its descriptor."""
    for wrong in found:
        machine.say(wrong)
        if wrong.severity in (Severity.TRAP, Severity.WRONG) and wrong.cause is None:
            machine.missed.append((wrong, read.meant))
    _of_the_code(machine, read)
    _of_the_major(machine, read)
    for note in (*descriptor_notes(read), *(one_atom_hides(machine, read) if is_right else ())):
        machine.say(note)


def _of_the_code(machine: Machine, read: Read) -> None:
    """A layout code that means another swizzle also gives combinations that the instruction cannot read: these are
    its consequences.
    """

    def follows(f: Finding) -> bool:
        return (f.code == "I602" and f.path.startswith(read.where) and _is_of_swizzle(f, "")) or _is_of_major(f, read)

    _blame(machine, read, "D302", follows)


def _of_the_major(machine: Machine, read: Read) -> None:
    """An instruction descriptor that differs in the major-ness alone, and agrees with how the operand lies, is right:
    the operand's is not. Nor is a combination of swizzle and major-ness that no instruction has a fault of its own.
    """
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
    """Marks the findings that follow from the finding of one code about the operand."""
    cause = next((f for f in machine.findings if f.code == code and f.path.startswith(read.where)), None)
    if cause is not None:
        machine.findings[:] = [dataclasses.replace(f, cause=cause) if follows(f) else f for f in machine.findings]


def _read(machine: Machine, scenario: ScenarioTables, where: Path, step: MmaStep | CopyStep) -> Read | None:
    """The reads of an operand. None if it has no intended tile, or if its words are to be found."""
    operand, title = step.operands[where.side], f"step[{where.step or 0}].{where.side} ({step.op})"
    dtype, major = operand.dtype, operand.major
    rows, k = extents_of(scenario, step, where)
    made = made_words(operand, machine.buffers, where)
    packing = packing_of(kind_of_step(step, machine.arch) or "", dtype)
    if operand.meant is None:
        if made is not None and isinstance(step, MmaStep):
            for note in unmeant_descriptor(machine.arch, where, title, operand, int(made[0][0, 0]), rows, k, packing):
                machine.say(note)
        return None
    words, starts = made if made is not None else (np.zeros((1, 1), np.uint64), None)
    shape = (words.shape[0], words.shape[1])
    if words.size * rows * k > MOST_ELEMENTS:
        raise mistake(where, f"{words.size} words of {rows} x {k} elements; a tile has at most {MOST_ELEMENTS:,}")
    tensor = machine.tensors[operand.meant.tensor]
    stage_bytes = machine.buffers[operand.start].stage_bytes if isinstance(operand.start, str) else 0
    read = Read(where, title, machine.arch, dtype, major, packing, words, rows, k,
                 meant_of(operand.meant, tensor, shape, rows, k), tensor, operand, starts, stage_bytes)  # fmt: skip
    if made is None:
        _find(machine, read)
        return None
    return read


def extents_of(scenario: ScenarioTables, step: Step, where: Path) -> tuple[int, int]:
    """Rows and k that one instruction reads of the operand at a path. Raises TableError for what none has."""
    assert isinstance(step, (MmaStep, CopyStep))
    rows, k = step.operands[where.side].rows, 8 if step.k is None else step.k
    if rows is None:
        group = scenario.cta_group if step.cta_group is None else step.cta_group
        rows = rows_in_cta(step, where.side, scenario.arch, group)
    if where.side == "a" and isinstance(step, MmaStep) and is_sparse(step):
        k //= 2  # half of a sparse A is stored
    for name, value in (("rows", rows), ("k", k)):
        if not 1 <= value <= MOST:
            raise mistake(where, f"{name} = {value}: an instruction reads 1 to {MOST}")
    return rows, k


def _find(machine: Machine, read: Read) -> None:
    """Finds the descriptor of an operand that has no word."""
    places = machine.memory.locate(read.meant)
    if (places < 0).any():
        missing = int((places < 0).sum())
        machine.say(
            finding(
                "R507",
                read.where,
                read.title,
                f"{missing} of {places.size} elements are not in shared memory",
                why="no earlier step wrote them",
            )
        )
        return
    descriptors = list(read.solutions(places))
    if descriptors:
        first = descriptors[0]
        fields = f"swizzle {first.swizzle}, LBO {'any' if first.leading is None else first.leading}, SBO {'any' if first.stride is None else first.stride}"
        machine.say(finding("L403", read.where, read.title, f"the scenario gives no descriptor for this operand; {int(first.words[0, 0]):#018x} would read its first {read.rows} x {read.k} elements",
                            f"word = {int(first.words[0, 0]):#018x} ({fields})",
                            why="k_add and mn_add are not used without a word" if (read.operand.k_add, read.operand.mn_add) != (None, None) else ""))  # fmt: skip
    else:
        other = "MN" if read.major == "K" else "K"
        near = next(iter(read.solutions(places, other)), None)
        hint = (
            f"major = {other}, word = {int(near.words[0, 0]):#018x}"
            if near
            else "store the tile in groups of 8 rows: rows of 128, 64 or 32 B with the swizzle of that name, or rows of 16 B without"
        )
        apart = inverted(read.shape(), places)[1]
        no_xor, swizzled = _lacks_xor(machine, read, apart)
        hint = OR.join(filter(None, (swizzled, hint)))
        machine.say(finding("L402", read.where, read.title, f"no descriptor reads this layout as a {read.major}-major operand of {read.rows} x {read.k} {read.dtype}", hint,
                            why=f"{'without a swizzle: ' * (len(apart) > 1)}{apart[0].text}{no_xor}" if apart else ""))  # fmt: skip


def _lacks_xor(machine: Machine, read: Read, apart: Sequence[Witness]) -> tuple[str, str]:
    """If a buffer without a swizzle has rows as long as those of a swizzle: what they lack, and the fix."""
    start, buffer = read.operand.start, None
    if isinstance(start, str):
        buffer = machine.buffers.get(start)
    if buffer is None or buffer.layout is None or buffer.layout.mode.mask or len(apart) < 2 or len(apart[0].elements) < 2:
        return "", ""
    (_, one), (_, other), *_ = apart[0].elements
    mode = next((mode for mode in (Swizzle.B32, Swizzle.B64, Swizzle.B128) if MODES[mode].width == abs(other - one)), None)
    if mode is None:
        return "", ""
    return (
        f"; swizzle {mode} has rows of {MODES[mode].width} B, but it XORs the {CHUNK} B chunks of a row with bits of the row number, and this layout does not",
        f"buffer.{start}.layout with swizzle = '{mode}'",
    )


def _blamed(machine: Machine, scenario: ScenarioTables, read: Read) -> Finding | None:
    """An earlier finding that explains a wrong operand: its buffer was not filled, or lies in another phase."""
    start = read.operand.start
    names = [start] if isinstance(start, str) else _buffers_at(machine, read)
    for name in names:
        if name in machine.failed:
            return machine.failed[name]
        for earlier in machine.findings:
            if earlier.code == "A105" and any(fix.path.startswith(Path.of("buffer", name)) for fix in earlier.changes):
                return earlier
    for step in scenario.steps:
        if isinstance(step, TmaLoad) and step.to in names and step.map in machine.mismatched:
            return machine.mismatched[step.map]
    stopped = [*machine.refused.values(), *machine.failed.values()]
    if stopped and (machine.memory.locate(read.meant) < 0).any():
        return stopped[0]
    for earlier in machine.findings:
        if earlier.code == "I602" and earlier.path.startswith(read.where):
            return earlier
    return None


def _buffers_at(machine: Machine, read: Read) -> list[str]:
    at = read.descriptor.start_address
    return [b.name for b in machine.buffers.values() if b.address <= at < b.address + (b.bytes or 1)]


def _cancel(machine: Machine, number: int, reads: list[Read]) -> None:
    """Finds whether both operands take the same permutation of K: the products are then right all the same."""
    if len(reads) != 2 or not all(any(f.path.startswith(r.where) and f.wrong for f in machine.findings) for r in reads):
        return
    taken = [_k_taken(machine, read) for read in reads]
    if all(one is not None for one in taken) and np.array_equal(*taken):  # type: ignore[arg-type]
        machine.say(finding("H801", Path.of("step", number), f"step[{number}] (mma)",
                            f"both operands read K in the same wrong order{_order(taken[0])}", f"correct both operands in one change{_of_both(machine, reads)}: if only one is corrected, D is wrong",
                            why="every product still pairs the right elements, so D is right"))  # fmt: skip


def _of_both(machine: Machine, reads: list[Read]) -> str:
    """The fixes of two wrong operands, in brackets; "" if there is none."""
    fixes = dict[str, str]()
    for read in reads:
        earlier = next(f for f in machine.findings if f.path.startswith(read.where) and f.wrong)
        fixes[read.where.side] = next(iter(earlier.fixes), "") if earlier.cause is None else f"do what {earlier.cause.code} says"
    told = {side: text for side, text in fixes.items() if text}
    if not told:
        return ""
    are_alike = len(told) == len(reads) and len(set(told.values())) == 1
    listed = f"a and b: {next(iter(told.values()))}" if are_alike else "; ".join(f"{side}: {text}" for side, text in told.items())
    return f" ({listed})"


def _order(taken: np.ndarray | None) -> str:
    """The first k that another one replaces, in brackets."""
    flat = np.zeros(0, np.int64) if taken is None else np.asarray(taken).reshape(-1)
    moved = np.flatnonzero(flat != np.arange(len(flat)))
    return f" (k {int(flat[moved[0]])} in place of k {int(moved[0])})" if len(moved) else ""


def _k_taken(machine: Machine, read: Read) -> np.ndarray | None:
    """Which K each K step takes, (steps, k), counted from the first that is meant; None unless all rows take the same
    ones, and each K is taken once.
    """
    got = machine.memory.source(read.addresses())
    rows_axis, k_axis = read.meaning.axes
    if ((got < read.tensor.address) | (got >= read.tensor.end) | (read.meant < 0)).any():
        return None
    took, meant = read.tensor.coordinates(got), read.tensor.coordinates(read.meant)
    k = took[k_axis] - read.meaning.origin[1]
    every = np.sort(k[0, :, 0].reshape(-1))
    once = np.array_equal(every, np.sort((meant[k_axis][0, :, 0] - meant[k_axis].min()).reshape(-1)))
    alike = (took[rows_axis] == meant[rows_axis]).all() and (k == k[:1, :, :1]).all()
    return k[0, :, 0] if alike and once else None
