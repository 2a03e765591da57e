"""Scale factors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.finding import Element, Finding, Fix, Half, Path
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import copied_cells
from smemsim.core.machine.tmem.layout import ScaleLayout
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, WIDE_K, scale_modes
from smemsim.core.spec.tensor_memory import COPY_SHAPES, SCALE_ID_SHIFT, SCALE_MODES, WARP_LANES, CopyShape, ScaleMode
from smemsim.core.tables import TableError, plain
from smemsim.core.words.instr import InstrDescriptor
from smemsim.diagnosis.causes.cause import judge
from smemsim.diagnosis.copies import SCALE_COPY, Again, copy_findings, form_of, full_name, targets
from smemsim.diagnosis.instructions import kind_of_step
from smemsim.diagnosis.parts import part_name
from smemsim.diagnosis.reads import Cells, as_given, blamed_copy, grid, made_words, steps_from, steps_of, tmem_at, told_of
from smemsim.diagnosis.report import share_rows
from smemsim.diagnosis.scenario import AnyOperand, CopyStep, Meant, MmaStep, ScenarioTables
from smemsim.diagnosis.scenario_machine import NAMES, TMEM, UNWRITTEN, Counts, Machine, Read, finding, no_rerun
from smemsim.diagnosis.tensors import GlobalTensor

__all__ = ["Slice", "scale_step", "slice_of"]


# ---- The scale factors that a block-scaled MMA step reads from tensor memory, as its keys say, and
# those that it was meant to read


_VECTOR = re.compile(r"scale_vec::(\dX)|\.(block(?:16|32))\b")


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """The scale factors of one operand of one step: what each (block, K step) reads, with its `column` and `id`, and
    what was `meant`.
    """

    where: Path
    title: str
    operand: AnyOperand
    mode: ScaleMode
    layout: ScaleLayout
    cells: Cells
    column: np.ndarray  # (blocks, steps)
    id: np.ndarray
    meant: np.ndarray  # (blocks, steps, rows, scales of a row)
    tensor: GlobalTensor
    id_key: Path  # what has the id

    @property
    def grade(self) -> Grade:
        """The grade of evidence of the layout."""
        return self.layout.grade


def slice_of(machine: Machine, number: int, step: MmaStep, side: str, group: int | None) -> Slice | None:
    """The scale factors that a step reads; None where the step says too little, or where no instruction has such a
    form. Raises Unmodelled.
    """
    where, operand, letter = Path.of("step", number, side), step.readers[side], side[-1]
    kind, meant = KINDS.get(kind_of_step(step, machine.arch) or ""), operand.meant
    if kind is None or not kind.block_scaled or meant is None or operand.tmem is None:
        return None
    tensor = machine.tensors[meant.tensor]
    mode = _mode(number, step, tensor, meant)
    if mode is None:
        return None
    try:
        layout = ScaleLayout(letter.upper(), m=step.m, n=step.n, kind=kind.name, scale_vec=mode.name, k=WIDE_K if step.k == WIDE_K else None,
                             cta_group=group or 1)  # fmt: skip
    except InputError:
        return None  # no shape of this kind: I601 reports it
    shape = steps_of(step, letter)
    address = grid(where / "tmem", operand.tmem, shape)
    id_, key = _ids(where, number, step, operand, kind.name, address, shape)
    starts = [tmem_at(where / "tmem", int(x) & (1 << SCALE_ID_SHIFT) - 1) for x in address.flat]
    if any(start.lane for start in starts):
        raise Unmodelled("scale factors are addressed from lane 0; what another lane does is not known")
    column = np.array([start.column for start in starts]).reshape(shape)
    if WIDE_K in mode.k:
        raise Unmodelled(f"scale factors of K = {WIDE_K} go on in a second cell, which smemsim run follows and check does not")
    cells = _cells(layout)
    rows, scales = cells.lane.shape[1:]
    inside = np.arange(rows)[:, None], np.arange(scales)[None, :]
    wanted = tensor.byte_addresses(meant.axes, *steps_from(meant, shape, inside, (rows, scales)))
    return Slice(where, f"step[{number}].{side} (mma)", operand, mode, layout, cells, column, id_, wanted, tensor, key)


def _mode(number: int, step: MmaStep, tensor: GlobalTensor, meant: Meant) -> ScaleMode | None:
    """How many scales a row has. None if nothing shows it."""
    kind = KINDS[kind_of_step(step, "sm_103a") or ""]
    found = _VECTOR.search(step.instruction or "")
    asked = step.scale_vec if step.scale_vec is not None else (found[1] or found[2]) if found else None
    where = Path.of("step", number, "scale_vec")
    names = [*dict.fromkeys(m.name for m in SCALE_MODES)]
    if asked is not None and asked not in names:
        raise TableError(f"{where} = {asked!r}: needs one of {' '.join(names)}", where)
    modes = scale_modes(kind, wide_k=step.k == WIDE_K, asked=asked)
    if asked is not None and not modes:
        has = " and ".join(m.name for m in scale_modes(kind, wide_k=step.k == WIDE_K))
        raise TableError(f"{where} = {asked!r}: kind {kind.name} with K = {step.k} has {has}", where)
    if len(modes) > 1:
        modes = tuple(m for m in modes if tensor.fmt.name in SCALE_TYPES_OF_BLOCK[m.block] or tensor.fmt.name in ("u8", "s8"))
    if len(modes) > 1 and meant.k_step is not None:
        modes = tuple(m for m in modes if m.scales == meant.k_step)
    return modes[0] if len(modes) == 1 else None


def _ids(
    where: Path, number: int, step: MmaStep, operand: AnyOperand, kind: str, address: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, Path]:
    """(scale id of every block and step, the key that has it): `id`, else bits 31:30 of `tmem`, else the instruction
    descriptor.
    """
    idesc = step.idesc
    if operand.id is not None:
        id_ = grid(where / "id", operand.id, shape)
        if (id_ < 0).any() or (id_ >= TMEM[2]).any():
            raise TableError(f"{where}.id = {plain(operand.id)}: needs bytes of a cell, 0 to {TMEM[2] - 1}", where / "id")
        return id_, where / "id"
    if (address >> SCALE_ID_SHIFT).any():
        return address >> SCALE_ID_SHIFT & TMEM[2] - 1, where / "tmem"
    if idesc is not None and 0 <= idesc < 1 << 32:
        return np.full(shape, getattr(InstrDescriptor.decode(idesc, kind=kind), f"{where.side[-1]}_sf_id")), Path.of(
            "step", number, "idesc"
        )
    return np.zeros(shape, np.int64), where / "id"


def _cells(layout: ScaleLayout) -> Cells:
    """The cells of this CTA: of a pair, the first."""
    row, index = np.meshgrid(np.arange(layout.rows), np.arange(layout.scales), indexing="ij")
    copies = [layout.location(row, index, copy) for copy in range(layout.copies)]
    mine = [(lane, column, byte) for cta, lane, column, byte in copies if not np.any(cta)]
    lane, column, byte = (np.stack(x) for x in zip(*mine, strict=True))
    return Cells(lane, column, byte)


# ---- Scale factors of block-scaled MMAs: are they in the tensor-memory columns, at the scale id and in all the
# lanes that a step reads?


def scale_step(machine: Machine, scenario: ScenarioTables, number: int, step: MmaStep, group: int | None, again: Again) -> None:
    """Compare the scale factors that an MMA step reads with those that were meant; findings are kept, and what cannot
    be looked at.
    """
    for side in ("scale_a", "scale_b"):
        if side not in step.readers:
            continue
        where = Path.of("step", number, side)
        try:
            part = slice_of(machine, number, step, side, group)
        except Unmodelled as e:
            machine.unchecked.append(f"{where} ({e})")
            continue
        if part is None:
            machine.unchecked.append(str(where))
            continue
        for told in _findings(machine, scenario, number, step, part, again):
            machine.say(told)


# ---- what is wrong


def _findings(machine: Machine, scenario: ScenarioTables, number: int, step: MmaStep, part: Slice, again: Again) -> Iterator[Finding]:
    yield from _idesc(number, step, part)
    if (machine.tmem_writer < 0).all() or _unknown_copies(machine, scenario, number):
        contradiction = _contradiction(part)
        if contradiction:
            yield contradiction
        else:
            machine.unchecked.append(f"{part.where} (no copy step fills tensor memory)")
        return
    shape = part.column.shape
    legal = np.isin(part.id, part.mode.ids)
    wrong = np.stack([part.cells.wrong(machine, part.meant[at], int(part.column[at]), int(part.id[at])) for at in np.ndindex(shape)])
    wrong = wrong.reshape(*shape, *wrong.shape[1:]) | (~legal[..., None, None, None] & (part.meant >= 0)[:, :, None])
    if not wrong.any():
        return
    any_copy = wrong.any(axis=2)
    counts: Counts = {"wrong": int(any_copy.sum()), "of": any_copy.size, "first": _first(machine, part, wrong), "grade": part.grade}
    share = share_rows(counts["wrong"], counts["of"], "scale factors", _told(counts["first"], shape))
    places = [
        part.cells.places(machine, part.meant[at], part.mode.ids) if wrong[at].any() else [(int(part.column[at]), int(part.id[at]))]
        for at in np.ndindex(shape)
    ]
    if all(places):
        yield _other_slice(machine, step, number, part, places, legal, share, counts)
        return
    read = [part.cells.read(machine.tmem_writer, int(part.column[at]), int(part.id[at])) for at in np.ndindex(shape) if wrong[at].any()]
    blamed = blamed_copy(machine, scenario, number, set(map(int, np.unique(np.stack(read)))))
    if blamed is None and not wrong[:, :, 0].any():
        yield _lanes(machine, scenario, part, wrong, share, counts)
        return
    if blamed is None:
        for upstream in _upstream(machine, scenario, number, part, again):
            # a copy that merely brings something else is no cause
            if upstream.fix or upstream.code not in ("R507", "R508"):
                blamed = blamed or machine.say(upstream)
    if blamed is not None:
        cause = blamed.cause or blamed
        yield finding(
            "R508",
            part.where,
            part.title,
            "the scale factors differ from the intended ones",
            f"see {cause.code}",
            cause=cause,
            halves=share,
            **counts,
        )
        return
    nowhere = ~np.isin(part.meant, machine.tmem) & (part.meant >= 0)
    if nowhere.any():
        yield finding("R507", part.where, part.title, f"{int(nowhere.sum())} scale factors are not in tensor memory", why="no copy wrote them", halves=share, **counts)  # fmt: skip
        return
    yield finding(
        "S702", part.where / "tmem", part.title, "no column and scale id of tensor memory hold all scale factors", halves=share, **counts
    )


def _idesc(number: int, step: MmaStep, part: Slice) -> Iterator[Finding]:
    """The scale id of the instruction descriptor against that of the step. With several steps an id of 0 is what each
    step's id is put into.
    """
    idesc = step.idesc
    if idesc is None or not 0 <= idesc < 1 << 32 or part.operand.id is None:
        return
    kind, field = part.layout.kind, f"{part.where.side[-1]}_sf_id"
    has, first = getattr(InstrDescriptor.decode(idesc, kind=kind), field), int(part.id[0, 0])
    if has == first or (has == 0 and part.id.size > 1):
        return
    new = _with_id(idesc, kind, field, first)
    yield finding("I603", Path.of("step", number, "idesc"), f"step[{number}] (mma)",
                  f"the instruction descriptor {idesc:#010x} (kind {kind}) has {field} {has}; the step has scale id {first}", f"idesc = {new:#010x}",
                  numbers={field: [has, first]}, changes=(Fix(Path.of("step", number, "idesc"), f"{idesc:#010x}", f"{new:#010x}"),), grade=Grade.DOCUMENTED)  # fmt: skip


def _with_id(idesc: int, kind: str, field: str, value: int) -> int:
    """The instruction descriptor with another scale id."""
    row = KINDS[kind].word.fields[field]
    return idesc & ~(row.mask << row.low) | value << row.low


def _unknown_copies(machine: Machine, scenario: ScenarioTables, number: int) -> bool:
    """Is there an earlier copy of which the scenario does not state source and destination?"""
    copies = [(i, step) for i, step in enumerate(scenario.steps[:number]) if isinstance(step, CopyStep)]
    return any(step.to_tmem is None or (form_of(step) is None and not told_of(machine, i)) for i, step in copies)


def _contradiction(part: Slice) -> Finding | None:
    """Two steps that read the same bytes and mean different scale factors: wrong whatever tensor memory holds."""
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    for at in np.ndindex(part.column.shape):
        key = (int(part.column[at]), int(part.id[at]))
        before = seen.setdefault(key, at)
        both = (part.meant[at] >= 0) & (part.meant[before] >= 0)
        if (part.meant[at] != part.meant[before])[both].any():
            return finding("S702", part.where / "tmem", part.title,
                           f"{part_name(*before, *part.column.shape)} and {part_name(*at, *part.column.shape)} both read column {key[0]}, scale id {key[1]}",
                           _advance(part), why="they need different scale factors", numbers={"column": key[0], "id": key[1]}, grade=part.grade)  # fmt: skip
    return None


def _advance(part: Slice) -> str:
    """A sentence on the scale ids and columns of the K steps that follow."""
    steps = TMEM[2] // part.mode.scales
    ids = ", ".join(map(str, part.mode.ids))
    return f"with {part.mode.name}: scale ids {ids}, then {part.cells.columns} columns further after {steps} step{'s' if steps > 1 else ''}"


def _first(machine: Machine, part: Slice, wrong: np.ndarray) -> Element:
    block, step, copy, row, index = (int(x[0]) for x in np.nonzero(wrong))
    column, id_ = int(part.column[block, step]), int(part.id[block, step])
    value = int(part.cells.read(machine.tmem, column, id_)[copy, row, index])
    read = (NAMES | {UNWRITTEN: "uninitialised bytes"}).get(value) or (
        part.tensor.named(value) if part.tensor.address <= value < part.tensor.end else f"other bytes ({value:#x})"
    )
    at = [int(x[copy, row, index]) for x in (part.cells.lane, part.cells.column, part.cells.byte)]
    return {"block": block, "step": step, "row": row, "k": index, "read": read, "meant": part.tensor.named(int(part.meant[block, step, row, index])),
            "lane": at[0], "column": at[1] + column, "byte": at[2] + id_}  # fmt: skip


def _told(first: Element, parts: tuple[int, ...]) -> str:
    part = part_name(first["block"], first["step"], *parts)
    return (
        f"{part}, row {first['row']}, scale {first['k']}: reads {first['read']} in lane {first['lane']}, column {first['column']}, "
        f"byte {first['byte']}, needs {first['meant']}"
    )


def _other_slice(
    machine: Machine, step: MmaStep, number: int, part: Slice, places: list[list[tuple[int, int]]], legal: np.ndarray, share: tuple[Half, ...], counts: Counts
) -> Finding:  # fmt: skip
    """The finding that all scale factors lie in tensor memory, in other columns or at other ids."""
    used = list(zip(part.column.flat, part.id.flat, strict=True))
    near = [min(options, key=lambda x: (x != (c, i), (x[0] != c) + (x[1] != i), abs(x[0] - c), abs(x[1] - i))) for options, (c, i) in zip(places, used, strict=True)]  # fmt: skip
    column, id_ = (np.array([x[j] for x in near]).reshape(part.column.shape) for j in (0, 1))
    moved = {"tmem": (part.column, column), "id": (part.id, id_)}
    differ = {name: tables for name, tables in moved.items() if (tables[0] != tables[1]).any()}
    told = " and ".join(
        f"{'columns' if name == 'tmem' else 'scale ids'} {_table(a)} must be {_table(b)}" for name, (a, b) in differ.items()
    )
    changes, where = tuple[Fix, ...](), part.where / next(iter(differ))
    if len(differ) == 1:
        name, (_, needed) = next(iter(differ.items()))
        if name == "tmem":
            packed = part.id << SCALE_ID_SHIFT if part.id_key == where else 0
            tmem = part.operand.tmem
            changes = (Fix(where, plain(tmem), as_given(needed | packed, 0 if tmem is None else tmem)),)
        elif part.id_key.key == "idesc" and (needed == needed[0, 0]).all():
            where, idesc = part.id_key, step.idesc or 0
            new = _with_id(idesc, part.layout.kind, f"{part.where.side[-1]}_sf_id", int(needed[0, 0]))
            changes = (Fix(where, f"{idesc:#010x}", f"{new:#010x}"),)
        elif part.id_key.key != "tmem":
            changes = (Fix(where, plain(part.operand.id), as_given(needed, (0,) if part.operand.id is None else part.operand.id)),)
    why = {
        "tmem": "the columns that it reads hold the scale factors of other rows or of another k",
        "id": "the scale id selects a byte of the column, and has to advance with k",
    }[next(iter(differ))]
    illegal = why if legal.all() else f"{part.mode.name} begins at byte {' or '.join(map(str, part.mode.ids))}"
    idesc_path = Path.of("step", number, "idesc")
    refused = next((f for f in machine.findings if f.code == "I603" and f.path == part.id_key == idesc_path), None)
    numbers = {name: {"used": a.tolist(), "needed": b.tolist()} for name, (a, b) in differ.items()}
    return finding("S702", where, part.title, "the instruction reads the wrong scale factors", told, why=illegal, halves=share, tried=bool(changes), numbers=numbers, changes=changes, subject=part.where,
                   cause=refused, **counts)  # fmt: skip


def _table(values: np.ndarray) -> list[int] | list[list[int]]:
    """One list where there is one block."""
    return values[0].tolist() if len(values) == 1 else values.tolist()  # type: ignore[no-any-return]


def _lanes(machine: Machine, scenario: ScenarioTables, part: Slice, wrong: np.ndarray, share: tuple[Half, ...], counts: Counts) -> Finding:
    """Right in the first lanes and wrong in the others: the copy is not one that fills them all."""
    at = tuple(int(x[0]) for x in np.nonzero(wrong.any(axis=(2, 3, 4))))
    writer = int(part.cells.read(machine.tmem_writer, int(part.column[at]), int(part.id[at]))[0].max())
    issue = machine.issues[writer]
    row = form_of(scenario.steps[issue.step])
    name = full_name(row) if row else "the copy"
    lanes = sorted(set((part.cells.lane[wrong.any(axis=(0, 1, 3, 4))] // WARP_LANES).ravel().tolist()))
    listed = ", ".join(f"{WARP_LANES * x} to {WARP_LANES * (x + 1) - 1}" for x in lanes)
    return finding("I605", Path.of("step", issue.step, "shape"), f"step[{issue.step}] (copy)",
                   f"the scale factors are wrong in lanes {listed}", why=f"the MMA reads them in every 32 lanes; {name} does not fill all of them",
                   halves=share, repair=
                   f"copy with {full_name(SCALE_COPY)}", **counts)  # fmt: skip


# ---- copies that brought something else


def _needed(need: np.ndarray, row: CopyShape, address: TmemAddress) -> tuple[np.ndarray, bool]:
    """(what each byte of a copy's rows should be, do the lanes that a row goes to need different things?)."""
    of_cells = need[copied_cells(row, address)]
    most, least = of_cells.max(axis=1), np.where(of_cells < 0, np.iinfo(np.int64).max, of_cells).min(axis=1)
    return most.reshape(row.rows, row.row_bytes), bool(((most >= 0) & (most != least)).any())


def _other_multicast(number: int, step: CopyStep, row: CopyShape, need: np.ndarray, to: list[TmemAddress]) -> Finding:
    """A copy sends one row to lanes that need different ones."""
    fitting = [
        r
        for r in COPY_SHAPES.values()
        if r.row_bytes == row.row_bytes and r.rows >= row.rows and not any(_needed(need, r, address)[1] for address in to)
    ]
    others = [r for r in fitting if r.rows == min(r.rows for r in fitting)]
    where, key = Path.of("step", number, "multicast"), step.multicast is not None and len(others) == 1 and others[0].name == row.name
    return finding("I605", where, f"step[{number}] (copy)", f"{full_name(row)} copies one row to lanes that need different rows of scale factors",
                   "copy with " + " or ".join(map(full_name, others)), grade=row.grade,
                   changes=(Fix(where, step.multicast, others[0].multicast),) if key else ())  # fmt: skip


def _upstream(machine: Machine, scenario: ScenarioTables, number: int, part: Slice, again: Again) -> Iterator[Finding]:
    """The faults of copies that do not state what they copy: they should copy what this step needs in the cells that
    they write.
    """
    need = np.full(TMEM, UNWRITTEN, np.int64)
    for at in np.ndindex(part.column.shape):
        column, byte = part.cells.column + int(part.column[at]), part.cells.byte + int(part.id[at])
        inside = (column < TMEM[1]) & (byte < TMEM[2])
        need[part.cells.lane[inside], column[inside], byte[inside]] = np.broadcast_to(part.meant[at], inside.shape)[inside]
    for earlier, step in enumerate(scenario.steps[:number]):
        row = form_of(step)
        if not isinstance(step, CopyStep) or row is None or step.to_tmem is None or step.a.meant is not None:
            continue
        where = Path.of("step", earlier, "a")
        made = made_words(step.a, machine.buffers, where)
        before = None if made is None else again(scenario, earlier)
        if made is None or before is None:
            continue
        words, starts = made
        meant = np.full((*words.shape, row.rows, row.row_bytes), UNWRITTEN, np.int64)
        to = targets(earlier, step.to_tmem, row, words.shape)
        for at, address in zip(np.ndindex(words.shape), to, strict=True):
            meant[at] = _needed(need, row, address)[0]
        if (meant < 0).all():
            continue
        if any(_needed(need, row, address)[1] for address in to):
            yield _other_multicast(earlier, step, row, need, to)
            continue
        assert part.operand.meant is not None
        operand = dataclasses.replace(step.a, meant=dataclasses.replace(part.operand.meant, scale_block=True))
        read = Read(where, f"step[{earlier}].a (copy)", machine.arch, "u8", "K", "packed", words, row.rows, row.row_bytes, meant, part.tensor,
                    operand, starts)  # fmt: skip
        if (meant < 0).any():  # data that no step needs stay unchanged
            try:
                at_ = read.addresses()
            except Unmodelled:
                continue
            read = dataclasses.replace(read, meant=np.where(meant < 0, before.memory.source(at_), meant))
        told = [f for f in judge(before, read, scenario, no_rerun, None) if f.severity in ("wrong", "trap")]
        yield from copy_findings(before, scenario, earlier, read, told, again)
