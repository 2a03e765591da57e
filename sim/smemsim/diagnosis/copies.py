"""Copies to tensor memory and stores to global memory."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import numpy as np

from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.core.finding import Finding, Fix, Path, Value
from smemsim.core.machine.tma import tma_store
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import copied_cells, copy_shape
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_memory import COPY_SHAPES, LANES, WARP_LANES, CopyShape
from smemsim.core.tables import TableError, mistake, plain
from smemsim.core.words.operand import operand_addresses
from smemsim.diagnosis.build import toml_value
from smemsim.diagnosis.reads import grid, holds_scales, made_words, tmem_at
from smemsim.diagnosis.report import share_rows
from smemsim.diagnosis.scenario import CopyStep, Grid, Layout, Operand, ScenarioTables, Step, TmaStore
from smemsim.diagnosis.scenario_machine import (
    COMMON_SWIZZLES,
    NAMES,
    UNWRITTEN,
    Counts,
    Issue,
    Machine,
    Read,
    Rerun,
    finding,
    issues_of,
    swizzle_changes,
)

__all__ = ["Again", "completed", "copied", "copy_findings", "form_of", "full_name", "store_step", "targets"]


# ---- tcgen05.cp: does the form fit the tile, do its lines hold the scale factors as it wants them, and what
# arrives in tensor memory?


Again = Callable[[ScenarioTables, int], "Machine | None"]  # the steps before one, of a changed scenario
MOST_COPIES = 1024
SCALE_COPY = COPY_SHAPES["32x128b", "warpx4"]
_PTX, _CAST = re.compile(r"\b\d+x\d+b\b"), re.compile(r"\bwarpx\d(?:::\d\d_\d\d)?")
_WHOLE = re.compile(r"tcgen05\.cp\.\S*\b\d+x\d+b\b")  # with its qualifiers
# copy_traits_sm100.hpp: SM100_UTCCP_2x64dp128bitlw0213
_CUTLASS = re.compile(r"(?:(\d)x)?(\d+)dp(\d+)bit(?:lw(\d\d)(\d\d))?")


def full_name(row: CopyShape) -> str:
    """The name of a shape as it stands in the instruction: `.32x128b.warpx4`."""
    return f".{row.name}" + (f".{row.multicast}" if row.multicast else "")


def _named(step: CopyStep) -> tuple[str, str]:
    """(shape, multicast) as the step has them, "" for what it does not say."""
    text = ((step.instruction or "") if step.shape is None else step.shape).lstrip(".")
    name = cast = ""
    if match := _PTX.search(text):
        name, cast = match[0], (_CAST.search(text) or [""])[0]
    elif match := _CUTLASS.search(text):
        name = f"{match[2]}x{match[3]}b"
        cast = (f"warpx{match[1]}" if match[1] else "") + (f"::{match[4]}_{match[5]}" if match[4] else "")
    elif step.shape is not None:
        name = text
    cast = (cast if step.multicast is None else step.multicast).lstrip(".")
    only = [row.multicast for row in COPY_SHAPES.values() if row.name == name]
    return name, only[0] if not cast and _loose(step) and len(only) == 1 else cast


def _loose(step: CopyStep) -> bool:
    """Does the step name its shape in a title only, which need not have the multicast?"""
    return step.shape is None and step.multicast is None and not _WHOLE.search(step.instruction or "")


def form_of(step: Step) -> CopyShape | None:
    """The row of a copy's shape; None for what is no copy, names none, or one that there is not."""
    return COPY_SHAPES.get(_named(step)) if isinstance(step, CopyStep) else None


def completed(machine: Machine, number: int, step: CopyStep) -> CopyStep:
    """The step with the rows and the k of its shape, if it does not state them. Findings about the shape are kept.

    Raises TableError for a shape that tcgen05.cp does not have.
    """
    where, title = Path.of("step", number), f"step[{number}] (copy)"
    if any_architecture(machine.arch).instruction == "wgmma":
        raise mistake(where, f"op = 'copy' is tcgen05.cp, which {machine.arch} has not")
    name, cast = _named(step)
    if not name:
        return step
    if (name, cast) not in COPY_SHAPES and not (_loose(step) and any(r.name == name for r in COPY_SHAPES.values())):
        machine.say(_multicast(where, title, name, cast))
    row = next(r for r in COPY_SHAPES.values() if r.name == name)
    operand = _as_scales(machine, step.a, row)
    if operand.major != "K":
        machine.say(finding("I602", where / "a" / "major", f"step[{number}].a (copy)", "the operand of tcgen05.cp is MN-major",
                            "major = K, and lines of 16 contiguous bytes", why="tcgen05.cp reads K-major operands only", grade=row.grade))  # fmt: skip
    per_line = row.row_bytes * 8 // element_format(operand.dtype).bits
    rows = next((given for given in (operand.rows, step.rows, step.m) if given is not None), None)
    k = step.k
    if operand.meant is not None and holds_scales(
        operand.meant, machine.tensors[operand.meant.tensor]
    ):  # which may be counted as scales, too
        rows = None if rows == row.rows * LANES // WARP_LANES else rows
        k = None if k == row.row_bytes * WARP_LANES // LANES else k
    wanted = {"rows": row.rows, "k": per_line}
    has = {"rows": row.rows if rows is None else rows, "k": per_line if k is None else k}
    if has != wanted:
        machine.say(_other_tile(where, title, row, has, wanted, step))
    return dataclasses.replace(step, k=has["k"], a=dataclasses.replace(operand, rows=has["rows"]))


def _as_scales(machine: Machine, operand: Operand, row: CopyShape) -> Operand:
    """An operand of the shape for scale factors, from a tensor of bytes that has not as many of them a row as a line
    has: they are in blocks.
    """
    meant = operand.meant
    if meant is None or meant.scale_block is not None or row is not SCALE_COPY or element_format(operand.dtype).bits != 8:
        return operand
    tensor = machine.tensors[meant.tensor]
    if tensor.scale_blocks is not None or tensor.fmt.bits != 8 or tensor.extent[meant.axes[1]] - meant.origin[1] >= row.row_bytes:
        return operand
    return dataclasses.replace(operand, meant=dataclasses.replace(meant, scale_block=True))


def _multicast(where: Path, title: str, name: str, cast: str) -> Finding:
    """A multicast that the shape does not take."""
    taken = [row.multicast for row in COPY_SHAPES.values() if row.name == name]
    if not taken:
        try:
            copy_shape(name, cast)
        except InputError as e:
            raise TableError(f"{where}.{e}", where / "shape") from None
    changes = (Fix(where / "multicast", cast or None, taken[0]),) if len(taken) == 1 else ()
    has = f".{cast}" if cast else "no multicast"
    needs = " or ".join(f".{x}" if x else "none" for x in taken)
    return finding("I605", where / "multicast", title, f"tcgen05.cp .{name} has {has}; this shape exists with {needs} only", why="nothing is copied", repair=
                   f"multicast = {' or '.join(x or repr('') for x in taken)}", changes=changes, grade=Grade.DOCUMENTED, numbers={"legal": taken})  # fmt: skip


def _other_tile(where: Path, title: str, row: CopyShape, has: dict[str, int], wanted: dict[str, int], step: CopyStep) -> Finding:
    """The step's tile is not what one copy of this shape moves."""
    bits = element_format(step.a.dtype).bits
    bytes_ = has["k"] * bits // 8
    fits = [r for r in COPY_SHAPES.values() if (r.rows, r.row_bytes) == (has["rows"], bytes_)]
    shapes = " or ".join(full_name(r) for r in fits) or f"copies of {wanted['rows']} rows of {wanted['k']} elements"
    alone = len(fits) == 1 and step.shape is not None and fits[0].multicast == row.multicast == (step.multicast or "")
    changes = (Fix(where / "shape", step.shape, fits[0].name),) if alone else ()
    return finding("I605", where / "shape", title,
                   f"{full_name(row)} copies {row.rows} rows of {row.row_bytes} B ({wanted['k']} elements); the step has {has['rows']} rows of {bytes_} B ({has['k']} elements)",
                   shapes, numbers={key: [wanted[key], has[key]] for key in wanted}, changes=changes, grade=row.grade)  # fmt: skip


# ---- what is wrong with the lines that a copy reads


def copy_findings(
    machine: Machine, scenario: ScenarioTables, number: int, read: Read, findings: list[Finding], again: Again
) -> Iterator[Finding]:
    """The findings of a copy's operand, in the terms of copies: scale factors in another layout (S701), an advance of
    another shape (I605).
    """
    row = form_of(scenario.steps[number])
    if findings:  # another shape alone does not make it right
        shape = Path.of("step", number, "shape")
        shaped = [dataclasses.replace(f, changes=()) if f.path == shape else f for f in machine.findings]
        machine.findings[:] = shaped
    for wrong in findings:
        if row is None or wrong.cause is not None or (wrong.code == "R508" and wrong.fix):
            yield wrong
        elif wrong.code in ("R508", "R505") and holds_scales(read.meaning, read.tensor):
            yield _scale_layout(machine, scenario, number, read, wrong, row, again) or wrong
        elif wrong.code in ("R502", "R503", "R504") and wrong.numbers:
            yield _advance(wrong, row) or wrong
        else:
            yield wrong


def _advance(wrong: Finding, row: CopyShape) -> Finding | None:
    """Descriptors go on by what a copy of another shape reads."""
    used, needed = (np.diff(np.array(wrong.numbers[key], np.int64)) for key in ("used", "needed"))
    if not len(used) or (used != used[0]).any() or (needed != needed[0]).any():
        return None
    for size in ("bytes", "row_bytes"):
        others = sorted((r for r in COPY_SHAPES.values() if getattr(r, size) == used[0]), key=lambda r: r.rows != row.rows)
        if others and getattr(row, size) == needed[0]:
            what = f"the copies advance by {used[0]} B; {full_name(row)} reads {needed[0]} B"
            also = f"; or copy with {full_name(others[0])}" if others[0].rows == row.rows else ""
            return dataclasses.replace(
                wrong, code="I605", what=what, why=f"{used[0]} B is what {full_name(others[0])} reads", repair=wrong.repair + also
            )
    return None


def _scale_layout(
    machine: Machine, scenario: ScenarioTables, number: int, read: Read, wrong: Finding, row: CopyShape, again: Again
) -> Finding | None:
    """No descriptor reads the scale factors where they lie: they are in another layout. None where some lie nowhere."""
    places = machine.memory.locate(read.meant)
    known = read.meant >= 0
    if (places[known] < 0).any() or not known[0, 0, 0, 0]:
        return None
    lines = row.row_bytes * np.arange(read.rows)[:, None] + np.arange(read.k)
    apart = places - places[:, :, :1, :1]
    if read.k == row.row_bytes == SCALE_COPY.row_bytes and ((apart == lines) | ~known).all():
        return None
    here = places[0, 0]
    steps = {
        "(1, 0)": (here[1, 0] if known[0, 0, 1, 0] else None, 16),
        "(0, 1)": (here[0, 1] if known[0, 0, 0, 1] else None, 1),
        "(32, 0)": (here[0, 4] if known[0, 0, 0, 4] else None, 4),
    }
    strides = {name: (int(at - here[0, 0]), wanted) for name, (at, wanted) in steps.items() if at is not None}
    words = {"(1, 0)": "row 1", "(0, 1)": "scale 1", "(32, 0)": "row 32"}
    wrong_steps = [name for name, (at, wanted) in strides.items() if at != wanted] or list(strides)
    apart_by = ", ".join("{} at {} B (must be at {} B)".format(words[name], *strides[name]) for name in wrong_steps)
    text, changes = _repair(machine, scenario, number, read, places, again)
    return dataclasses.replace(
        finding("S701", changes[0].path if changes else read.where, read.title,
                f"the scale factors are not in the blocks of 32 rows of 16 B that {full_name(row)} reads", text,
                why=f"counted from row 0, scale 0: {apart_by}", changes=changes, subject=read.where, numbers={name: [at, wanted] for name, (at, wanted) in strides.items()}, grade=row.grade,
                halves=share_rows(wrong.wrong, wrong.of, "bytes"), tried=bool(changes)),
        first=wrong.first, wrong=wrong.wrong, of=wrong.of)  # fmt: skip


def _repair(
    machine: Machine, scenario: ScenarioTables, number: int, read: Read, places: np.ndarray, again: Again
) -> tuple[str, tuple[Fix, ...]]:
    """(what to do, the change of the buffer's layout if threads fill it and then all is right)."""
    text = "put scale i of row r at byte r % 32 * 16 + r / 32 * 4 + i of a block of 128 rows x 4 scales"
    at = int(places[read.meant >= 0][0])
    name = next((b.name for b in machine.buffers.values() if b.address <= at < b.address + (b.bytes or 1)), "")
    layout = scenario.buffers[name].layout if name else None
    if not isinstance(layout, Layout):
        return f"{text}, in global memory or by stores of threads", ()
    starts = read.addresses()[:, :, 0, 0]
    lines, bytes_ = machine.buffers[name].layout.extents()  # type: ignore[union-attr]
    down, along = (int(x[0]) if len(x) else SCALE_COPY.bytes for x in (np.diff(starts[:, 0]), np.diff(starts[0])))
    new: dict[str, Value] = {"swizzle": "none", "mn": _digits(lines, ((32, 16), (4, 4)), down), "k": _digits(bytes_, ((4, 1),), along)}
    path = Path.of("buffer", name, "layout")
    machine_then = again(scenario.with_change(path, new), number)
    right = machine_then is not None and not ((machine_then.memory.source(read.addresses()) != read.meant) & (read.meant >= 0)).any()
    return (f"{path} = {toml_value('layout', new)}", (Fix(path, plain(layout), new),)) if right else (text, ())


def _digits(count: int, inside: tuple[tuple[int, int], ...], block: int) -> list[list[int]]:
    """The digits of an axis: those of a block, and one from block to block."""
    size = int(np.prod([n for n, _ in inside]))
    return [*map(list, inside), *([[-(-count // size), block]] if count > size else [])]


# ---- what arrives


def copied(machine: Machine, scenario: ScenarioTables, number: int, step: CopyStep) -> None:
    """Bring the bytes into tensor memory, where step, shape and words say where from and where to."""
    where, title, row = Path.of("step", number), f"step[{number}] (copy)", form_of(step)
    if row is None or step.to_tmem is None:
        return
    made = made_words(step.a, machine.buffers, where / "a")
    if made is None:
        return
    if "b8x16" in (step.instruction or ""):
        machine.unchecked.append(str(where / "instruction"))
        return
    shape = (made[0].shape[0], made[0].shape[1])
    if shape[0] * shape[1] > MOST_COPIES:
        raise mistake(where / "a", f"{shape[0] * shape[1]} words; one step has at most {MOST_COPIES} copies")
    to = targets(number, step.to_tmem, row, shape)
    try:
        read = operand_addresses(made[0], arch=machine.arch, dtype="u8", major="K", rows=row.rows, k=row.row_bytes).astype(np.int64)
    except Unmodelled as e:
        if step.a.meant is None:
            machine.say(finding("D302", where / "a" / "word", f"step[{number}].a (copy)", str(e)))
        return
    if not any(operand.meant for later in scenario.steps[number:] for side, operand in later.readers.items() if side != "b"):
        _leaves(machine, where, title, row, step.a, read)
    data = machine.memory.source(read)
    first = len(machine.issues)
    for issue, ((block, k), address) in enumerate(zip(np.ndindex(shape), to, strict=True)):
        try:
            lane, column = copied_cells(row, address)
        except InputError as e:
            raise mistake(where / "to_tmem", str(e).removeprefix("taddr = ")) from None
        new = data[block, k].reshape(row.rows, 1, row.columns, -1)
        hit = int(machine.tmem_writer[lane, column].max())
        if hit >= first and (machine.tmem[lane, column] != new).any() and not any(f.path == where / "to_tmem" for f in machine.findings):
            machine.say(_overlap(where, title, row, step.to_tmem, address, hit - first))
        told = Issue(number, issue, "", f"tcgen05.cp {full_name(row)} to lane {address.lane}, column {address.column}")
        machine.issues.append(told)
        machine.wanted.append(True)
        machine.tmem[lane, column], machine.tmem_writer[lane, column] = new, len(machine.issues) - 1


def _leaves(machine: Machine, where: Path, title: str, row: CopyShape, operand: Operand, read: np.ndarray) -> None:
    """A copy that reads past the end of its buffer; reported if the scenario does not state the intended data."""
    buffer = machine.buffers[operand.start] if isinstance(operand.start, str) else None
    if buffer is None or buffer.bytes is None or int(read.max()) < buffer.address + buffer.bytes:
        return
    machine.say(finding("I605", where / "shape", title,
                        f"{full_name(row)} reads {row.rows} rows of {row.row_bytes} B, up to {int(read.max()):#x}; {buffer.name} ends at {buffer.address + buffer.bytes - 1:#x}",
                        "a shape, strides or starts that stay inside", numbers={"last": int(read.max())}, grade=row.grade))  # fmt: skip


def targets(number: int, to: Grid, row: CopyShape, shape: tuple[int, ...]) -> list[TmemAddress]:
    """The place to which each copy of a step goes, K steps first. With one address, the copies fill tensor memory one
    after the other.
    """
    where = Path.of("step", number, "to_tmem")
    if isinstance(to, tuple):
        return [tmem_at(where, int(x)) for x in grid(where, to, (shape[0], shape[1])).flat]
    return [tmem_at(where, to + row.columns * i) for i in range(shape[0] * shape[1])]


def _overlap(where: Path, title: str, row: CopyShape, old: Grid, address: TmemAddress, hit: int) -> Finding:
    """A copy onto what another copy of the same step has just brought."""
    first = old[0] if isinstance(old, tuple) else None
    needed = [first + row.columns * i for i in range(len(old))] if isinstance(old, tuple) and isinstance(first, int) else None
    return finding("I605", where / "to_tmem", title,
                   f"the copy to lane {address.lane}, column {address.column} overwrites the data of copy {hit}",
                   f"to_tmem = {needed}" if needed else f"addresses {row.columns} columns apart", why=f"one copy by {full_name(row)} fills {row.columns} columns", changes=(Fix(where / "to_tmem", plain(old), needed),) if needed else (),
                   numbers={"columns": row.columns}, grade=row.grade)  # fmt: skip


# ---- Stores: does each byte that TMA stores go to the element that it belongs to?


def store_step(machine: Machine, scenario: ScenarioTables, number: int, step: TmaStore, rerun: Rerun) -> None:
    """Compare the data of a tma_store or tma_reduce with its destination. The thread stores of the scenario give the
    data.
    """
    stored = _stored(machine, step)
    if stored is None:
        return
    source, target = stored
    arguments = scenario.maps[step.map]
    tensor = machine.tensors.get(arguments.of or "")
    if tensor is None:
        return
    mine = (source >= tensor.address) & (source < tensor.end)
    if not mine.any():
        return  # the scenario does not give the data there
    wrong = mine & (source != target) | (source == UNWRITTEN)
    if not wrong.any():
        return
    where, title = Path.of("step", number), f"step[{number}] ({step.op})"
    at = int(np.nonzero(wrong)[0][0])
    is_ = NAMES[UNWRITTEN] if source[at] == UNWRITTEN else tensor.named(int(source[at]))
    share = share_rows(int(wrong.sum()), wrong.size, "bytes", f"{is_} goes to {tensor.named(int(target[at]))}")
    counts: Counts = {"wrong": int(wrong.sum()), "of": wrong.size}
    buffer = machine.buffers[step.buffer]
    tried = [] if arguments.raw is not None else [(Path.of("map", step.map, "swizzle"), {name: name for name in COMMON_SWIZZLES})]
    tried += [swizzle_changes(buffer)] if buffer.layout is not None else []
    for path, values in tried:
        for value in values.values():
            again = rerun({path: value})
            other = None if again is None else _stored(again, step)
            if other is not None and (other[0] == other[1]).all():
                machine.say(finding("R501", path, title, "the threads wrote with another swizzle than the store reads", f"{path} = {value}", halves=share, tried=True,
                                    changes=(Fix(path, scenario.value_at(path), value),), subject=where, **counts))  # fmt: skip
                return
    phase = next((f for f in machine.findings if f.code == "A105" and any(fix.path.startswith(buffer.path) for fix in f.changes)), None)
    code = "R507" if (source[wrong] == UNWRITTEN).all() else "R508"
    what = "the store reads uninitialised bytes" if code == "R507" else "the store reads other bytes than intended"
    machine.say(finding(code, where, title, what, cause=phase, halves=share, **counts))


def _stored(machine: Machine, step: TmaStore) -> tuple[np.ndarray, np.ndarray] | None:
    """(the global byte that lies at each stored shared byte, the global byte it goes to)."""
    tm = machine.maps.get(step.map)
    if tm is None:
        return None
    sources, targets = [], []
    for address, at in issues_of(machine, step):
        try:
            moved = tma_store(tm, at, smem_address=address, arch=machine.arch)
        except SmemsimError:
            return None
        sources.append(machine.memory.source(moved.shared_address.astype(np.int64)))
        targets.append(moved.global_address)
    return np.concatenate(sources), np.concatenate(targets)
