"""`plan`: from a wish to everything a kernel author writes down, and the choices compared."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smemsim.errors import InputError, InternalError, Unmodelled
from smemsim.judge.check import check
from smemsim.planning.arrangement import (
    STACKS,
    Arrangement,
    Conflicts,
    CuteSteps,
    Field,
    IllegalPlan,
    Wish,
    arrange,
    canonical_layouts,
    conflicts_of,
    cute_steps,
    fields_of,
    wish_of,
)
from smemsim.planning.transfers import GLOBAL_ADDRESS, Loads, Matrix, loads_of, matrix_of
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.swizzles import MODES
from smemsim.spec.tensor_map import LIMITS
from smemsim.words.instr import InstrDescriptor
from smemsim.words.smem import SmemDescriptor
from smemsim.words.tensor_map import TensorMap

__all__ = ["DEFAULTS", "Choice", "Plan", "nearest", "plan", "plans", "scenario_of", "simulated", "unchecked"]


# ---- A plan as a scenario that `smemsim check` runs: the loads of the first and the last stage, and every instruction's descriptor


def scenario_of(tile: Arrangement, matrix: Matrix, loads: Loads, title: str, *, box: bool) -> dict[str, Any]:
    """The scenario of one way to load the tile, `box` the one with a single box. Where the matrix is large enough the stages take tiles that follow one another along K."""
    wish, instruction, name = tile.wish, tile.instruction, tile.wish.side.upper()
    packed = wish.fmt.bits < 8
    size = 1 if packed else wish.fmt.bits // 8
    stride = (matrix.pitch, size) if wish.major == "K" else (size, matrix.pitch)
    arguments = loads.arguments()
    arguments["global_address"] = name
    buffer: dict[str, Any] = {"address": wish.base_address, "bytes": wish.stages * tile.tile_bytes, "declared_align": LIMITS.smem_alignment}
    buffer |= {"stages": wish.stages, "stage_bytes": tile.tile_bytes} if wish.stages > 1 else {}
    steps: list[dict[str, Any]] = []
    for stage in sorted({0, wish.stages - 1}):
        along = stage * wish.k if wish.at[1] + (stage + 1) * wish.k <= matrix.k else 0
        there = dataclasses.replace(tile, wish=dataclasses.replace(wish, at=(wish.at[0], wish.at[1] + along)))
        loop, single, _ = loads_of(there, matrix)
        of_this = (single if box else loop) or loads
        of_stage = {"stage": stage} if wish.stages > 1 else {}
        load: dict[str, Any] = {"op": "tma_load", "map": f"tm{name}", "to": f"s{name}", **of_stage}
        load |= {"offset": [offset for offset, _ in loads.issues], "at": [list(at) for _, at in of_this.issues]}
        load["expect_bytes"] = loads.bytes
        operand: dict[str, Any] = {"dtype": wish.fmt.name, "major": wish.major, "rows": instruction.rows}
        word = tile.descriptor().advance(-wish.base_address).encode()
        operand |= {"word": word, "start": f"s{name}", **of_stage}
        operand["k_add"] = [tile.offset(0, step) for step in range(tile.steps)]
        operand["mn_add"] = [tile.offset(block, 0) for block in range(tile.blocks)]
        operand["meant"] = {"tensor": name, "axes": [wish.axis, "k"], "at": [wish.at[0], wish.at[1] + along]}
        mma: dict[str, Any] = {"op": "mma", "kind": instruction.kind, "m": instruction.m, "n": instruction.n, "k": instruction.k}
        if instruction.descriptor is not None:
            mma["idesc"] = instruction.descriptor.encode()
        steps += [load, {**mma, wish.side: operand}]
    return {
        "arch": wish.machine.name,
        "title": title,
        **({"cta_group": wish.cta_group} if instruction.descriptor is not None else {}),
        "tensor": {
            name: {
                "dtype": wish.fmt.name,
                "extent": {wish.axis: matrix.rows, "k": matrix.k},
                "stride": {wish.axis: stride[0], "k": stride[1]},
                "address": GLOBAL_ADDRESS,
            }
        },
        "buffer": {f"s{name}": buffer},
        "map": {f"tm{name}": {"of": name, **arguments}},
        "step": steps,
        "expect": {"findings": []},
    }


# ---- The legal tile that differs least from one that is not: fewest arguments changed, and these as little as possible


Change = tuple[float, str, Any]  # how unwelcome, which argument, what instead
MOST_TRIES = 2000
MOST_LOADS = 40  # loading a tile takes a thousand times longer than arranging it
KEPT = ("rows", "k", "dtype", "major", "swizzle", "arch", "side")


def nearest(
    wish: Wish, defaults: dict[str, Any], arranged: Callable[[dict[str, Any]], None], loaded: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """(arguments, names of those that changed) of the first legal plan in the order of how much changes, three arguments at most; where there is
    none, of one that leaves out all but the tile and changes it by two arguments at most; None where that fails too.

    `arranged` raises InputError or Unmodelled for arguments that cannot be arranged, `loaded` for those that TMA cannot load.
    """
    asked = wish.arguments()
    for given in (asked, asked | {name: value for name, value in defaults.items() if name not in KEPT}):
        found = _search(given, _changes(wish), 3 if given is asked else 2, arranged, loaded)
        if found is not None:
            return found, tuple(name for name, value in found.items() if value != asked[name])
    return None


def _search(
    start: dict[str, Any],
    changes: Iterator[Change],
    most: int,
    arranged: Callable[[dict[str, Any]], None],
    loaded: Callable[[dict[str, Any]], None],
) -> dict[str, Any] | None:
    ordered = sorted(changes, key=lambda c: c[0])
    tries: list[tuple[float, tuple[Change, ...]]] = []
    for count in range(most + 1):
        for several in itertools.combinations(ordered, count):
            if len({name for _, name, _ in several}) == count:
                tries.append((sum(cost for cost, _, _ in several) + 2 * (count - 1), several))
    tries.sort(key=lambda t: t[0])
    loads = 0
    for _, several in tries[:MOST_TRIES]:
        given = start | {name: value for _, name, value in several}
        try:
            arranged(given)
            loads += 1
            loaded(given)
        except (InputError, Unmodelled):
            if loads >= MOST_LOADS:
                return None
            continue
        return given
    return None


def _changes(wish: Wish) -> Iterator[Change]:
    """Every change of one argument that may be enough."""
    yield from _other_tiles(wish)
    yield from _other_instructions(wish)
    yield from _other_places(wish)
    yield from _other_types(wish)


def _other_tiles(wish: Wish) -> Iterator[Change]:
    codes = layout_codes(wish.machine.smem_descriptor).values()
    for mode in MODES.values():
        if mode.swizzle in codes and mode.swizzle is not wish.swizzle:
            yield 1 + abs(math.log2(mode.width / wish.mode.width)) / 4, "swizzle", str(mode.swizzle)
    for name, value in (("rows", wish.rows), ("k", wish.k)):
        for near in sorted({x for unit in (8, 16, 32, 64, 128, 192, 256) for x in (value // unit * unit, -(-value // unit) * unit, unit)}):
            if near not in (0, value):
                yield 1 + abs(math.log2(near / value)), name, near


def _other_instructions(wish: Wish) -> Iterator[Change]:
    for name, given in (("m", wish.m), ("n", wish.n)):
        if given is None:
            continue
        around = {x for unit in (8, 16, 32, 64, 128) for x in (given // unit * unit, -(-given // unit) * unit, given // 2, 2 * given)}
        for near in around:
            if 0 < near <= 256 and near != given:
                yield 0.5 + abs(math.log2(near / given)), name, near
        yield 2, name, None


def _other_places(wish: Wish) -> Iterator[Change]:
    align = LIMITS.smem_alignment
    if wish.base_address % align or wish.base_address < wish.machine.shared_begin:
        yield 0.1, "base_address", max(-(-wish.base_address // align) * align, wish.machine.shared_begin)
    elif wish.base_address > wish.machine.shared_begin:
        yield 0.4, "base_address", wish.machine.shared_begin
    fit = (wish.machine.shared_end - wish.base_address) * 8 // max(wish.rows * wish.k * wish.fmt.bits, 1)
    for stages in sorted({wish.stages - 1, wish.stages - 2, wish.stages // 2, fit, 1}):
        if 0 < stages < wish.stages:
            yield 0.4 + math.log2(wish.stages / stages), "stages", stages
    down = tuple(x // unit * unit for x, unit in zip(wish.at, (1, 128) if wish.major == "K" else (128, 1), strict=True))
    for at in sorted({tuple(x // 16 * 16 for x in wish.at), down, (0, 0)} - {wish.at}):
        yield 0.5 + math.log2(1 + abs(sum(wish.at) - sum(at))) / 16, "at", at


def _other_types(wish: Wish) -> Iterator[Change]:
    if wish.fmt.name == "f32":
        yield 1, "dtype", "tf32"
    if wish.pitch_bytes is not None:
        yield 0.3, "pitch_bytes", -(-wish.pitch_bytes // 32) * 32
        yield 0.6, "pitch_bytes", None
    if wish.matrix is not None:
        yield 0.8, "matrix", None
    if wish.cta_group == 2:
        yield 2.5, "cta_group", 1
    yield 2, "major", "MN" if wish.major == "K" else "K"
    if wish.other_major == "MN":
        yield 2, "other_major", "K"
    if wish.kind is not None:
        yield 2, "kind", None


# ---- `plan`: from the tile to what a kernel author writes; every plan is simulated before anybody sees it


@dataclasses.dataclass(frozen=True)
class Plan:
    """An operand tile in shared memory, how TMA fills it and how the instruction reads it. All offsets and sizes are bytes.

    `loop` fills it with two-dimensional boxes, `box` with a single one, None where there is none and `why_no_box` says why. `arrangement` has the
    atoms, `cute` the layouts, `lbo` and `sbo` the descriptor's strides.
    """

    arrangement: Arrangement
    matrix: Matrix
    loop: Loads
    box: Loads | None
    why_no_box: str
    lbo: Field
    sbo: Field
    cute: CuteSteps

    @property
    def wish(self) -> Wish:
        """The arguments, read."""
        return self.arrangement.wish

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `plan` that give this plan, the instruction's M and N included."""
        return self.wish.arguments() | {"m": self.arrangement.instruction.m, "n": self.arrangement.instruction.n}

    @property
    def tensor_map(self) -> TensorMap:
        """The map of the two-dimensional boxes; `box.tensor_map` is that of the single box."""
        return self.loop.tensor_map

    @property
    def tile_bytes(self) -> int:
        """Bytes of one stage."""
        return self.arrangement.tile_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of all stages."""
        return self.tile_bytes * self.wish.stages

    @property
    def leading_byte_offset(self) -> int:
        """LBO in bytes."""
        return self.lbo.bytes

    @property
    def stride_byte_offset(self) -> int:
        """SBO in bytes."""
        return self.sbo.bytes

    @property
    def instruction_descriptor(self) -> InstrDescriptor | None:
        """The 32-bit descriptor of a tcgen05.mma; None for wgmma, which has none."""
        return self.arrangement.instruction.descriptor

    @property
    def advances(self) -> np.ndarray:
        """int64 (blocks, K steps): bytes from the start address of the first instruction to that of each."""
        tile = self.arrangement
        return np.array([[tile.offset(block, step) for step in range(tile.steps)] for block in range(tile.blocks)], np.int64)

    @property
    def cute_advances(self) -> np.ndarray:
        """The same from CuTe's descriptor tensor."""
        tensor, unit = self.cute.descriptors, CHUNK
        blocks, steps = tensor.mode(0).size, tensor.mode(1).size
        return np.array([[unit * tensor(block, step) for step in range(steps)] for block in range(blocks)], np.int64)

    @property
    def is_uniform(self) -> bool:
        """Is every K step as far from the one before?"""
        apart = np.diff(self.advances[0])
        return bool((apart == apart[:1]).all())

    def descriptor(self, block: int = 0, step: int = 0, stage: int = 0) -> SmemDescriptor:
        """The shared-memory descriptor of the instruction at a block of rows, a K step and a stage."""
        tile = self.arrangement
        for name, value, most in (("block", block, tile.blocks), ("step", step, tile.steps), ("stage", stage, self.wish.stages)):
            if not 0 <= value < most:
                raise InputError(f"{name} = {value}: the plan has {most}")
        return tile.descriptor(block, step, stage)

    @property
    def words(self) -> np.ndarray:
        """uint64 (blocks, K steps): the raw descriptors of stage 0."""
        tile = self.arrangement
        found = [[tile.descriptor(block, step).encode() for step in range(tile.steps)] for block in range(tile.blocks)]
        return np.array(found, np.uint64)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of the descriptors, such as that documents contradict each other."""
        tile, wish, found = self.arrangement, self.wish, []
        of = tile.instruction
        if of.descriptor is not None:
            given = {"arch": wish.machine.name, "cta_group": wish.cta_group, "ws": False, f"swizzle_{wish.side}": str(wish.swizzle)}
            found += of.descriptor.problems(**given)
        found += tile.descriptor().problems(dtype=wish.fmt, major=wish.major, rows=of.rows, k=of.k, packing=of.packing)
        first = {f.code: f.message for f in reversed(found)}  # what both descriptors say, once
        return tuple(first.values())

    @property
    def conflicts(self) -> Conflicts:
        """Bank conflicts of the tile, counted from addresses."""
        return conflicts_of(self.arrangement)

    @property
    def canonical(self) -> tuple[str, str]:
        """The canonical layout of one operand: with symbols, and with numbers."""
        return canonical_layouts(self.arrangement)

    def scenario(self, form: str = "loop") -> dict[str, Any]:
        """The plan as a scenario for `smemsim.check`, loaded by the loop of boxes or, with "box", by the single one."""
        if form not in ("loop", "box"):
            raise InputError(f"form = {form!r}: needs 'loop' or 'box'")
        loads = self.loop if form == "loop" else self.box
        if loads is None:
            raise InputError(f"form = 'box': {self.why_no_box}")
        return scenario_of(self.arrangement, self.matrix, loads, f"{self.title}, {form}", box=form == "box")

    @property
    def title(self) -> str:
        """One line: what is planned."""
        w = self.wish
        extent = f"{w.rows}x{w.k}"
        return f"{w.side.upper()} {extent} {w.fmt.name} {w.major}-major, swizzle {w.swizzle}, {w.machine.name}"

    def text(self) -> str:
        """All of it for people, at most 100 columns."""
        from smemsim.planning.text import plan_text

        return plan_text(self)

    def code(self, language: str) -> str:
        """What to paste: "cpp" (constants and the encode call), "cute" (CuTe C++) or "triton" (Gluon)."""
        from smemsim.planning.text import code_of

        return code_of(self, language)

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        from smemsim.planning.text import plan_dict

        return plan_dict(self)


def plan(
    rows: int,
    k: int,
    *,
    dtype: Any,
    major: str,
    swizzle: Any = "128B",
    arch: str,
    m: int | None = None,
    n: int | None = None,
    side: str = "a",
    kind: str | None = None,
    cta_group: int = 1,
    stack: str | None = None,
    base_address: int = 0x400,
    stages: int = 1,
    matrix: tuple[int, int] | None = None,
    pitch_bytes: int | None = None,
    at: tuple[int, int] = (0, 0),
    other_major: str = "K",
) -> Plan:
    """What to write for an operand tile: TMA boxes and tensor maps, LBO and SBO, descriptors and their advances, layouts, code.

    `rows` (M or N) x `k` elements lie in one CTA's shared memory; with `cta_group=2` these are the CTA's half. `dtype`, `major` "K" or "MN" and
    `swizzle` are as elsewhere; `side` "a" or "b"; `m`, `n` and `kind` are the instruction's, chosen to fit where they are left out. `stack`: along
    which axis swizzle atoms follow one another, "strided" (the axis that is not contiguous), "contiguous", or "MN" or "K". `matrix` (rows, K),
    `pitch_bytes` from line to line and `at` (row, k) are what the tile is cut from, made up where they are left out. `other_major` is that of the other operand, for the
    instruction descriptor.

    Raises `IllegalPlan` (an InputError) for what the hardware cannot do, with the nearest that it can, and Unmodelled for what nobody knows.
    Every plan has passed `smemsim.check`. The rules are those of `operand_addresses` and `tma_load`: measured on sm_90a, documented or compiled
    on sm_100a. Source: PTX ISA 9.7.16.3, 9.7.15.5.1.2; CUTLASS and DeepGEMM stack atoms this way.

    >>> p = plan(128, 128, dtype="bf16", major="K", swizzle="128B", arch="sm_100a", m=64)
    >>> p.leading_byte_offset, p.stride_byte_offset, hex(p.words[0, 0])
    (16, 1024, '0x4000404000010040')
    >>> p.advances[0].tolist()
    [0, 32, 64, 96, 16384, 16416, 16448, 16480]
    """
    wish = wish_of(rows, k, dtype=dtype, major=major, swizzle=swizzle, arch=arch, m=m, n=n, side=side, kind=kind, cta_group=cta_group,
                   stack=stack, base_address=base_address, stages=stages, matrix=matrix, pitch_bytes=pitch_bytes, at=at, other_major=other_major)  # fmt: skip
    try:
        return simulated(wish)
    except IllegalPlan as e:
        found = nearest(wish, DEFAULTS, _arrangeable, _loadable)
        if found is None:
            raise
        given, changed = found
        simulated(wish_of(**given))  # what is suggested has been simulated too
        raise IllegalPlan(e.reason, given, changed) from None


DEFAULTS: dict[str, Any] = {name: p.default for name, p in inspect.signature(plan).parameters.items() if p.default is not p.empty}


def _arrangeable(given: dict[str, Any]) -> None:
    """InputError or Unmodelled unless the tile exists."""
    matrix_of(arrange(wish_of(**given)))


def _loadable(given: dict[str, Any]) -> None:
    """InputError unless TMA can load the tile; nothing is read."""
    tile = arrange(wish_of(**given))
    loads_of(tile, matrix_of(tile))


def unchecked(rows: int, k: int, **arguments: Any) -> Plan:
    """The plan without the simulation that `plan` runs, and without a search for the nearest legal one; arguments as those of `plan`.

    For `tools/soundness.py`, which runs the simulation itself.
    """
    return _planned(wish_of(rows, k, **DEFAULTS | arguments))


def _planned(wish: Wish) -> Plan:
    """The plan, its strides held against those of the CuTe layout."""
    tile = arrange(wish)
    matrix = matrix_of(tile)
    loop, box, why = loads_of(tile, matrix)
    lbo, sbo = fields_of(tile)
    made = Plan(tile, matrix, loop, box, why, lbo, sbo, cute_steps(tile))
    for name, field, of_cute in (("LBO", lbo, made.cute.lbo), ("SBO", sbo, made.cute.sbo)):
        if of_cute is not None and field.used and field.bytes != of_cute:
            raise InternalError(f"{made.title}: {name} is {field.bytes} from the atoms and {of_cute} from the CuTe layout")
    if not np.array_equal(made.advances, made.cute_advances):
        raise InternalError(f"{made.title}: the advances of the tile are not those of CuTe's descriptor tensor")
    return made


def simulated(wish: Wish) -> Plan:
    """The plan, simulated in both forms."""
    made = _planned(wish)
    for form in ("loop", "box") if made.box is not None and made.box is not made.loop else ("loop",):
        report = check(made.scenario(form))
        grave = [f for f in report.findings if f.severity is not Severity.NOTE]
        if grave:
            raise InternalError(f"{made.title} ({form}): the plan does not pass its own check: {grave[0]}")
    return made


# ---- `plans`: every swizzle and stacking that a tile can have, side by side


@dataclasses.dataclass(frozen=True)
class Choice:
    """One swizzle and stacking: its plan, or None and the reason why there is none."""

    swizzle: str
    stack: str
    plan: Plan | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The row of the table as JSON has it: sizes in bytes; `conflicts` as `Conflicts` counts them."""
        row: dict[str, Any] = {"swizzle": self.swizzle, "stack": self.stack, "legal": self.plan is not None, "reason": self.reason}
        if self.plan is None:
            return row
        p, tile = self.plan, self.plan.arrangement
        data = tile.wish.rows * tile.wish.k * tile.wish.fmt.bits // 8
        return row | {
            "issues": len(p.loop.issues),
            "single_box": p.box is not None,
            "box_rank": p.box.rank if p.box else None,
            "alignment": LIMITS.smem_alignment,
            "period": tile.wish.mode.period,
            "tile_bytes": p.tile_bytes,
            "padding_bytes": p.tile_bytes - data,
            "leading_byte_offset": p.lbo.bytes,
            "leading_used": p.lbo.used,
            "stride_byte_offset": p.sbo.bytes,
            "stride_used": p.sbo.used,
            "k_advances": p.advances[0].tolist(),
            "k_uniform": p.is_uniform,
            "conflicts": dataclasses.asdict(p.conflicts),
        }


def plans(rows: int, k: int, **arguments: Any) -> tuple[Choice, ...]:
    """Every swizzle of the architecture's descriptor with both stackings, each planned and checked; arguments as those of `plan`.

    `swizzle` and `stack` are what is varied and cannot be given. Raises InputError for what is no tile at all. A stacking that lays a tile out
    like the first one is left out.

    >>> [(c.swizzle, c.stack, c.plan is not None) for c in plans(64, 64, dtype="bf16", major="K", arch="sm_90a")]
    [('none', 'strided', True), ('none', 'contiguous', True), ('32B', 'strided', True), ('32B', 'contiguous', True), ('64B', 'strided', True), \
('64B', 'contiguous', True), ('128B', 'strided', True)]
    """
    for name in ("swizzle", "stack"):
        if name in arguments:
            raise InputError(f"{name}: plans tries every one of them; plan takes it")
    found: list[Choice] = []
    for swizzle in layout_codes(architecture(arguments.get("arch")).smem_descriptor).values():
        for stack in STACKS:
            try:
                one = simulated(wish_of(rows, k, **DEFAULTS | arguments | {"swizzle": str(swizzle), "stack": stack}))
            except IllegalPlan as e:
                if stack == STACKS[0]:
                    found.append(Choice(str(swizzle), "", None, e.reason))
                continue
            if stack == STACKS[0] or 1 not in one.arrangement.grid:
                found.append(Choice(str(swizzle), stack, one, ""))
    return tuple(found)
