"""Matrix instructions: their shapes, words and splits."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from smemsim.base.arguments import in_steps, shown
from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.finding import Finding, Fix, InScenario, InWord, Path
from smemsim.core.machine.tmem.layout import ATmemLayout, accumulator_path
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.shared_memory import ATOM_ROWS
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tcgen05 import KINDS, WIDE_K, kind_of, shapes_of
from smemsim.core.spec.tensor_memory import A_CONTAINER_BITS, A_GRADES, LANE_SHIFT
from smemsim.core.spec.wgmma import WGMMA_M, WGMMA_TYPES
from smemsim.core.tables import TableError, plain
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.operand import swizzled
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.reads import Cells, as_given, blamed_copy, grid, steps_from, steps_of, tmem_at
from smemsim.diagnosis.report import share_rows
from smemsim.diagnosis.scenario import CopyStep, Grid, Meant, MmaStep, Operand, ScenarioTables, Step
from smemsim.diagnosis.scenario_machine import TMEM, Counts, Machine, Read, finding

__all__ = [
    "a_from_tensor_memory",
    "cta_group_of",
    "idesc_with",
    "instruction_findings",
    "is_sparse",
    "kind_of_step",
    "lane_split",
    "rows_in_cta",
]


# ---- The instruction itself: does it have this shape, can it read these types, does its descriptor agree with the
# scenario?


def kind_of_step(step: Step, arch: str) -> str | None:
    """ "wgmma" or a kind of tcgen05, None for one that the architecture has not and for what is no MMA."""
    if not isinstance(step, MmaStep):
        return None
    text = step.kind or step.instruction or ""
    named = re.search(r"kind::(\w+)", text)
    kind = named[1] if named else "wgmma" if text.startswith("wgmma") else text
    if step.kind is not None and kind not in (*KINDS, "wgmma"):
        raise InputError(f"kind = {shown(step.kind)}: needs wgmma, or one of tcgen05's: {', '.join(KINDS)}")
    here = any_architecture(arch).instruction
    return kind if (kind == "wgmma" and here == "wgmma") or (kind in KINDS and here == "tcgen05") else None


def instruction_findings(machine: Machine, number: int, step: MmaStep, cta_group: int | None) -> Iterator[Finding]:
    """Findings about a step's instruction."""
    where, title = Path.of("step", number), f"step[{number}] (mma)"
    kind = kind_of_step(step, machine.arch)
    if kind is None:
        return
    operands, cta_group = step.operands, _group_of(step, cta_group)
    if kind == "wgmma":
        yield from _wgmma(where, title, step, operands)
        return
    if step.idesc is not None:
        yield from _idesc(machine, where, title, step, step.idesc, kind, cta_group)
    elif step.kind is not None:
        yield from _shape(where, title, step, kind, cta_group)
    for side, operand in operands.items():
        yield from _tcgen05_type(machine, where / side, f"step[{number}].{side} (mma)", operand)


def _wgmma(where: Path, title: str, step: MmaStep, operands: dict[str, Operand]) -> Iterator[Finding]:
    types = {side: element_format(o.dtype).name for side, o in operands.items()}
    rows = [r for r in WGMMA_TYPES if types.get("a", r.a[0]) in r.a and types.get("b", r.b[0]) in r.b]
    if operands and not rows:
        pair = " and ".join(f"{side.upper()} {dtype}" for side, dtype in types.items())
        yield finding(
            "I602", where, title, f"no wgmma multiplies {pair}", "two f16, bf16 or tf32 operands, or e4m3/e5m2, s8/u8 or b1 on both sides"
        )
        return
    for side, operand in operands.items():
        if operand.major == "MN" and not any(r.transposes for r in rows):
            yield finding("I602", where / side / "major", f"{where / side} (mma)",
                          f"the operand is MN-major {types[side]}", "store the operand K-major", why="wgmma reads MN-major operands of 16-bit types only")  # fmt: skip
    if step.kind is None or not rows:
        return
    row = rows[0]
    rows_of_a = WGMMA_M if step.a is None or step.a.rows is None else step.a.rows
    if step.m % WGMMA_M or WGMMA_M < step.m <= rows_of_a:
        yield finding(
            "I601",
            where / "m",
            title,
            f"M = {max(step.m, rows_of_a)}; one wgmma has M = {WGMMA_M}",
            f"m = {WGMMA_M}, and several instructions for a larger tile",
        )
    if step.n not in row.n:
        near = min(row.n, key=lambda n: abs(n - step.n))
        yield finding(
            "I601",
            where / "n",
            title,
            f"N = {step.n}; wgmma with {row.a[0]} has N of {in_steps(row.n)}",
            _legal("n", step.n, row.n, near),
        )
    if operands and step.k != row.k * (2 if is_sparse(step) else 1):
        yield finding(
            "I601", where / "k", title, f"K = {step.k}; wgmma with {row.a[0]} has K = {row.k}, with .sp {2 * row.k}", f"k = {row.k}"
        )


def idesc_with(word: int, d: InstrDescriptor, wanted: Mapping[str, int | str]) -> int | None:
    """The word with other values in some fields and all the rest as it is; None where the kind cannot hold them, or the
    word's own.
    """
    now = {name: getattr(d, name) for name in ("m", "n", "a_type", "b_type", "d_type", "a_major", "b_major")}
    try:
        before, after = (InstrDescriptor(kind=d.kind, **fields).word for fields in (now, {**now, **wanted}))
    except ValueError:
        return None
    kept = cleared = word ^ before ^ after
    # a field written where another kind has it leaves its bits in reserved ones, which must be 0
    for _, field, _ in d.table.constants(kept):
        cleared &= ~(field.mask << field.low)
    for new in (InstrDescriptor.decode(x, kind=d.kind) for x in (kept, cleared)):
        right = all(getattr(new, name) == value for name, value in wanted.items())
        if right and not any(one.code == "I603" for one in new.problems()):
            return new.word
    return None


def is_sparse(step: MmaStep) -> bool:
    """Does the step say that A is sparse, by itself or in the name of its instruction?"""
    return bool(step.sparse) or ".sp" in (step.kind or "") + (step.instruction or "")


def _group_of(step: MmaStep, given: int | None) -> int | None:
    """CTAs that work together: as the scenario says, or as the rows say that one CTA holds."""
    if given is not None:
        return given
    rows = None if step.a is None else step.a.rows
    return 1 if rows == step.m else 2 if rows == step.m // 2 else None


def _legal(name: str, value: int, legal: Collection[int], near: int) -> str:
    """The fix of an extent that no instruction has: instructions that share it, or the nearest one."""
    count = -(-value // max(legal))
    is_shared = count > 1 and value % count == 0 and value // count in legal
    return f"{count} instructions with {name} = {value // count}" if is_shared else f"{name} = {near}"


def _shape(where: Path, title: str, step: MmaStep, kind: str, cta_group: int | None) -> Iterator[Finding]:
    shapes = shapes_of(kind_of(kind), cta_group=cta_group, ws=None, sparse=False, wide_k=False)
    m, n, k = step.m, step.n, step.k
    ms, ns = sorted({x for s in shapes for x in s.m}), sorted({x for s in shapes for x in s.n})
    for name, value, legal in (("m", m, ms), ("n", n, ns)):
        if value not in legal:
            near = min(legal, key=lambda x: abs(x - value))
            yield finding(
                "I601",
                where / name,
                title,
                f"{name.upper()} = {value}; kind {kind} has {name.upper()} of {in_steps(legal)}",
                _legal(name, value, legal, near),
            )
            return
    with_m = {x for s in shapes if m in s.m for x in s.n}
    if n not in with_m:
        near = min(with_m, key=lambda x: abs(x - n))
        yield finding("I601", where / "n", title, f"N = {n}; kind {kind} with M = {m} has N of {in_steps(with_m)}", f"n = {near}")
    dense = KINDS[kind].k
    if k not in ((2 * dense,) if is_sparse(step) else (dense, WIDE_K if KINDS[kind].has_wide_k else dense)):
        yield finding("I601", where / "k", title, f"K = {k}; kind {kind} has K = {dense}, with .sp {2 * dense}", f"k = {dense}")


def _tcgen05_type(machine: Machine, where: Path, title: str, operand: Operand) -> Iterator[Finding]:
    """MN-major 32-bit types need 32-byte atoms."""
    fmt, word = element_format(operand.dtype), _word(operand)
    if word is None:
        return
    swizzle = SmemDescriptor.decode(word, arch=machine.arch).swizzle
    if operand.major == "MN" and fmt.bits == 32 and swizzle not in (Swizzle.B128_ATOM_32B, Swizzle.INVALID):
        yield finding("I602", where / "major", title, f"the operand is MN-major {fmt.name} with swizzle {swizzle}",
                      "layout code 1 and a tile in 32-byte atoms, or a K-major tile", why="tcgen05 reads MN-major 32-bit types with 128B_ATOM_32B only",
                      inside=InWord("operand", Path.of("major"), against=("swizzle",)))  # fmt: skip


def _word(operand: Operand) -> int | None:
    if operand.words is None:
        return operand.word
    first = operand.words[0]
    return first[0] if isinstance(first, tuple) else first


def _idesc(machine: Machine, where: Path, title: str, step: MmaStep, word: int, kind: str, cta_group: int | None) -> Iterator[Finding]:
    """The instruction descriptor against the step, then its own rules."""
    if not 0 <= word < 1 << 32:
        yield finding(
            "I603",
            where / "idesc",
            title,
            f"idesc = {word:#x} {'is negative' if word < 0 else 'has more than 32 bits'}",
            "a word of 32 bits",
        )
        return
    d = InstrDescriptor.decode(word, kind=kind)
    differ = [(name, getattr(d, name), wanted) for name, wanted in _fields_of(step) if getattr(d, name) != wanted]
    if differ:
        listed = ", ".join(f"{name} {has}, the step has {wanted}" for name, has, wanted in differ)
        new = idesc_with(word, d, {name: wanted for name, _, wanted in differ})
        yield finding("I603", where / "idesc", title, f"the instruction descriptor {word:#010x} (kind {kind}) has {listed}",
                      "build it with smemsim.InstrDescriptor" if new is None else f"idesc = {new:#010x}",
                      changes=() if new is None else (Fix(where / "idesc", f"{word:#010x}", f"{new:#010x}"),),
                      numbers={name: [has, wanted] for name, has, wanted in differ}, grade=Grade.DOCUMENTED)  # fmt: skip
        return
    for broken in d.problems(arch=machine.arch, cta_group=cta_group, **_swizzles(step, machine.arch)):
        if broken.severity is not Severity.NOTE:
            yield dataclasses.replace(broken, at=InScenario(where / "idesc", title, inside=broken.inside), source="")


def _fields_of(step: MmaStep) -> Iterator[tuple[str, Any]]:
    """(field of the instruction descriptor, what the step says it holds)."""
    yield from (("m", step.m), ("n", step.n))
    for side, operand in step.operands.items():
        yield f"{side}_type", element_format(operand.dtype).name
        yield f"{side}_major", operand.major


def _swizzles(step: MmaStep, arch: str) -> dict[str, Any]:
    """The swizzles that the operands' descriptors select, by the name that `InstrDescriptor.problems` has for them."""
    words = {side: _word(operand) for side, operand in step.operands.items()}
    modes = {side: SmemDescriptor.decode(word, arch=arch).swizzle for side, word in words.items() if word is not None}
    return {f"swizzle_{side}": str(mode) for side, mode in modes.items() if mode is not Swizzle.INVALID}


# ---- How M = 64, .ws and two CTAs split an operand: does the part of an instruction begin inside a swizzle atom, do
# its rows fit its lanes?


def cta_group_of(scenario: ScenarioTables, number: int, step: MmaStep | CopyStep) -> int | None:
    """The CTAs that issue a step together, None where the scenario does not say. Raises
    InputError for any but 1 and 2.
    """
    where = Path.of("cta_group") if step.cta_group is None else Path.of("step", number, "cta_group")
    group = scenario.cta_group if step.cta_group is None else step.cta_group
    if group not in (None, 1, 2):
        said = f"{where} = {group}: there are .cta_group::1 and .cta_group::2"
        raise InputError(said) if step.cta_group is None else TableError(said, where)
    return group


def rows_in_cta(step: MmaStep | CopyStep, side: str, arch: str, group: int | None) -> int:
    """Rows of A, or columns of B, that one instruction reads from the shared memory of each CTA: of a pair each has
    half.
    """
    total = (step.m if side == "a" else step.n) or 0
    pair = group == 2 and kind_of_step(step, arch) in A_CONTAINER_BITS
    return total // 2 if pair and total % 2 == 0 else total


def lane_split(machine: Machine, read: Read, step: MmaStep, group: int | None, findings: list[Finding]) -> Iterator[Finding]:
    """The findings of an operand, with I604 instead of R508 where its rows are cut inside a swizzle atom or are not
    those of the CTA.
    """
    for wrong in findings:
        yield (_cut(machine, read, step, group, wrong) if wrong.code in ("R508", "R507", "R504") and wrong.cause is None else None) or wrong


def _cut(machine: Machine, read: Read, step: MmaStep, group: int | None, wrong: Finding) -> Finding | None:
    side = read.where.side
    own = rows_in_cta(step, side, machine.arch, group)
    if group == 2 and own < read.rows and machine.seen and not machine.seen[-1].wrong[:, :, :own].any():
        text = f"the scenario has {read.rows} rows of {side.upper()} in this CTA; each CTA of the pair reads {own}"
        return dataclasses.replace(wrong, code="I604", at=InScenario(read.where / "rows", read.title, read.where), what=text,
                                   why=f"the rows from {own} on belong to the other CTA", repair=f"rows = {own}", changes=(Fix(read.where / "rows", read.rows, own),) if read.operand.rows is not None else (),
                                   numbers={"rows": [read.rows, own]}, grade=Grade.DOCUMENTED)  # fmt: skip
    if wrong.fix or wrong.code != "R508":
        return None
    places = machine.memory.locate(read.meant)
    mode = MODES.get(read.descriptor.swizzle)
    if mode is None or not mode.mask or (places < 0).any():
        return None
    linear = swizzled(places, mode)
    along = read.major == "MN"
    unit = element_format(read.dtype).elements_per_chunk(read.packing) * mode.chunks if along else ATOM_ROWS
    cuts = {block: first for block in range(len(linear)) if (first := _first_cut(linear[block, 0, :, 0], unit))}
    if not cuts:
        return None
    block, first = next(iter(cuts.items()))
    why = " (half of the pair's)" if group == 2 else " (.ws)" if _ws(step) else ""
    return dataclasses.replace(wrong, code="I604", what=f"row block {block} begins inside a {mode.swizzle} atom: {first} of its {unit} rows are left",
                               why=f"the instruction reads parts of {read.rows} rows{why}; a part must begin at a whole atom", repair=f"parts of a multiple of {unit} rows, or a tile of its own for each part",
                               numbers={"rows": read.rows, "atom": unit, "first": first})  # fmt: skip


def _first_cut(line: np.ndarray, unit: int) -> int:
    """Rows before the first atom ends, where atoms of `unit` rows follow one another and the first is not whole;
    otherwise 0.
    """
    by = np.diff(line)
    if not len(by):
        return 0
    values, counts = np.unique(by, return_counts=True)
    jumps = np.nonzero(by != values[counts.argmax()])[0] + 1
    return int(jumps[0]) % unit if len(jumps) and len(set((jumps % unit).tolist())) == 1 else 0


def _ws(step: MmaStep) -> bool:
    return ".ws" in (step.instruction or "") if step.ws is None else step.ws


def a_from_tensor_memory(
    machine: Machine, scenario: ScenarioTables, number: int, step: MmaStep, operand: Operand, tmem: Grid, group: int | None
) -> None:
    """A of an MMA that reads it from tensor memory at `tmem`: the lanes it begins at, and, where copies brought it,
    every element.
    """
    where, title, kind = Path.of("step", number, "a"), f"step[{number}].a (mma)", kind_of_step(step, machine.arch)
    if kind not in A_CONTAINER_BITS:
        machine.unchecked.append(str(where))
        return
    about: dict[str, Any] = {"ws": _ws(step), "sparse": is_sparse(step)}
    try:
        path = accumulator_path(step.m, group or 1, **about)
    except InputError:
        machine.unchecked.append(str(where))  # no such M: I601 reports it
        return
    shape = steps_of(step, "a")
    starts = [tmem_at(where / "tmem", int(x)) for x in grid(where / "tmem", tmem, shape).flat]
    off = next((start for start in starts if start.lane not in path.lanes), None)
    if off is not None:
        only = " or ".join(map(str, path.lanes))
        right = np.array([path.lanes[0] << LANE_SHIFT | start.column for start in starts]).reshape(shape)
        machine.say(finding("I604", where / "tmem", title,
                            f"A begins in lane {off.lane} of tensor memory; with M = {step.m} it begins in lane {only}",
                            why=f"A has the lanes of D: layout {path.name} fills {path.block} of every 32 lanes", repair=f"tmem = {as_given(right, tmem)}", numbers={"lane": off.lane, "legal": list(path.lanes)}, grade=A_GRADES[path.name][0],
                            changes=(Fix(where / "tmem", plain(tmem), as_given(right, tmem)),)))  # fmt: skip
        return
    if operand.major != "K":
        machine.say(finding("I602", where / "major", title, "A in tensor memory is MN-major", "major = K", why="tensor memory has one lane for each row of A: A is K-major there", grade=Grade.DOCUMENTED))  # fmt: skip
        return
    if operand.meant is None or (machine.tmem_writer < 0).all():
        machine.unchecked.append(str(where))
        return
    try:
        layout = ATmemLayout(step.m, kind, group or 1, lane=starts[0].lane, **about)
    except Unmodelled as e:
        machine.unchecked.append(f"{where} ({e})")
        return
    wrong = _compare(machine, where, title, operand.meant, tmem, layout, [s.column for s in starts], shape)
    blamed = blamed_copy(machine, scenario, number, set(map(int, np.unique(machine.tmem_writer))))
    if wrong is not None and blamed is not None:
        cause = blamed.cause or blamed
        wrong = dataclasses.replace(wrong, code="R508", cause=cause, repair=f"see {cause.code}", changes=())
    if wrong is not None:
        machine.say(wrong)


def _lanes_of(lanes: np.ndarray) -> str:
    """The lane of each row, in words; rows whose lanes follow one another together.

    >>> _lanes_of(np.array([0, 1, 4, 5]))
    'rows 0 to 1 to lanes 0 to 1, rows 2 to 3 to lanes 4 to 5'
    """
    begins = [0, *(np.flatnonzero(np.diff(lanes) != 1) + 1).tolist(), len(lanes)]
    return ", ".join(f"rows {a} to {b - 1} to lanes {lanes[a]} to {lanes[b - 1]}" for a, b in itertools.pairwise(begins))


def _compare(
    machine: Machine, where: Path, title: str, meant: Meant, tmem: Grid, layout: ATmemLayout, columns: list[int], shape: tuple[int, int]
) -> Finding | None:  # fmt: skip
    """The finding about an A in tensor memory that is wrong, element by element; None where it is right."""
    rows = layout.m // layout.cta_group
    row, k = np.meshgrid(np.arange(rows), np.arange(layout.k), indexing="ij")
    lane, column, bit = (np.stack(x) for x in zip(*(layout.location(row, k, copy)[1:] for copy in range(layout.copies)), strict=True))
    cells, tensor = Cells(lane, column, bit // 8), machine.tensors[meant.tensor]
    wanted = list(tensor.byte_addresses(meant.axes, *steps_from(meant, shape, (row, k), (rows, layout.k))).reshape(-1, *row.shape))
    bad = np.stack([cells.wrong(machine, want, start) for want, start in zip(wanted, columns, strict=True)])
    if not bad.any():
        return None
    count, total = int(bad.any(axis=1).sum()), bad[:, 0].size
    share = share_rows(count, total, "elements in tensor memory")
    counts: Counts = {"wrong": count, "of": total, "grade": layout.grade}
    options = [[c for c, _ in cells.places(machine, want)] for want in wanted]
    if all(options):
        near = [min(o, key=lambda c: abs(c - used)) for o, used in zip(options, columns, strict=True)]
        right = np.array([layout.lane << LANE_SHIFT | c for c in near]).reshape(shape)
        return finding("R502", where / "tmem", title, "A is read from the wrong columns of tensor memory", f"columns {columns} must be {near}", halves=share, tried=True,
                       numbers={"used": columns, "needed": near}, changes=(Fix(where / "tmem", plain(tmem), as_given(right, tmem)),), **counts)  # fmt: skip
    part, copy, first = (int(x[0]) for x in np.nonzero(bad.any(axis=3)))
    line = (
        machine.tmem[:, cells.column[copy, first] + columns[part], cells.byte[copy, first]]
        if columns[part] + cells.columns <= TMEM[1]
        else None
    )
    lies = [] if line is None else np.nonzero((line == wanted[part][first]).all(axis=1))[0].tolist()
    if lies:
        text = f"row {first} of A is in lane {lies[0]} and is read from lane {int(cells.lane[copy, first, 0])}"
        again = f", {layout.copies} times, once for each band of N" if layout.copies > 1 else ""
        return finding("I604", where / "tmem", title, text, halves=share, why=f"the instruction reads A from the lanes of D (layout {layout.name}){again}", repair=
                       f"copy or store {_lanes_of(cells.lane[copy, :, 0])}", numbers={"row": first, "lies": lies, "read": int(cells.lane[copy, first, 0])}, **counts)  # fmt: skip
    return finding("R508", where, title, "no columns of tensor memory hold all elements of A", halves=share, **counts)
