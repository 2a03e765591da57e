"""`plan`: from a wish to everything a kernel author writes down, and the choices compared."""

from __future__ import annotations

import dataclasses
import html
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from smemsim.arguments import choice
from smemsim.errors import InputError, InternalError
from smemsim.judge.check import check
from smemsim.layout.cute import CuteLayout
from smemsim.machine.product import shared_grade
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
from smemsim.planning.nearest import nearest
from smemsim.planning.scenario import scenario_of
from smemsim.planning.transfers import Loads, Matrix, loads_of, matrix_of
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.spec.findings import Severity
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import REACH, START, layout_codes
from smemsim.spec.swizzles import Swizzle
from smemsim.spec.tensor_map import LIMITS
from smemsim.values import dataclass
from smemsim.words.instr import InstrDescriptor
from smemsim.words.smem import SmemDescriptor
from smemsim.words.tensor_map import TensorMap

__all__ = [
    "DEFAULTS",
    "LANGUAGES",
    "Choice",
    "Plan",
    "choices_text",
    "encode_arguments",
    "plan",
    "plans",
    "simulated",
    "unchecked",
]


# ---- `plan`: from the tile to what a kernel author writes; every plan is simulated before anybody sees it


@dataclass(frozen=True)
class Plan:
    """An operand tile in shared memory, how TMA fills it and how the instruction reads it. All offsets and sizes are bytes.

    `loop` fills it with two-dimensional boxes, `box` with a single one, None where there is none and `why_no_box` says why. `arrangement` has the
    atoms, `cute` the layouts, `lbo` and `sbo` the descriptor's strides.

    >>> import smemsim
    >>> p = smemsim.plan(64, 64, dtype="bf16", major="K", swizzle="128B", arch="sm_90a")
    >>> p.stride_byte_offset, p.advances[0].tolist()
    (1024, [0, 32, 64, 96])
    """

    arrangement: Arrangement
    matrix: Matrix
    loop: Loads
    box: Loads | None
    why_no_box: str
    lbo: Field
    sbo: Field
    cute: CuteSteps

    def __repr__(self) -> str:
        given, usual = dict(self.arguments), inspect.signature(plan).parameters
        rows, k = given.pop("rows"), given.pop("k")
        named = [f"{name}={value!r}" for name, value in given.items() if value != usual[name].default]
        return f"plan({', '.join([str(rows), str(k), *named])})"

    def _repr_html_(self) -> str:
        """In a notebook: the picture of the tile in shared memory, and the text folded away."""
        from smemsim.picture.page import page_fragment

        page = dataclasses.replace(check(self.scenario()).page(), title=self.title, entries=())
        return f"{page_fragment(page)}<details><summary>the whole plan</summary><pre>{html.escape(self.text())}</pre></details>"

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
        """`advances` as CuTe's descriptor tensor has them: int64 (blocks, K steps), bytes."""
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
        """Remarks on the descriptors, such as that documents contradict each other."""
        tile, wish, notes = self.arrangement, self.wish, []
        of = tile.instruction
        if of.descriptor is not None:
            given = {"arch": wish.machine.name, "cta_group": wish.cta_group, "ws": False, f"swizzle_{wish.side}": str(wish.swizzle)}
            notes += of.descriptor.problems(**given)
        notes += tile.descriptor().problems(dtype=wish.fmt, major=wish.major, rows=of.rows, k=of.k, packing=of.packing)
        first = {f.code: f.message for f in reversed(notes)}  # what both descriptors say, once
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
        """The whole plan as text, at most 100 columns wide."""
        return plan_text(self)

    def code(self, language: str) -> str:
        """What to paste: "cpp" (constants and the encode call), "cute" (CuTe C++) or "triton" (Gluon)."""
        return code_of(self, language)

    def as_dict(self) -> dict[str, Any]:
        """The whole plan as a dictionary for JSON."""
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
    on sm_100a. Source: PTX ISA 9.1 §9.7.16.3, 9.7.15.5.1.2; CUTLASS and DeepGEMM stack atoms this way.

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
        chosen = nearest(wish, DEFAULTS, _arrangeable, _loadable)
        if chosen is None:
            raise
        given, changed = chosen
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


@dataclass(frozen=True)
class Choice:
    """One swizzle and stacking: its plan, or None and the reason why there is none.

    >>> import smemsim
    >>> best = smemsim.plans(64, 64, dtype="bf16", major="K", arch="sm_90a")[0]
    >>> best.swizzle, best.stack, best.plan.stride_byte_offset
    ('none', 'strided', 128)
    """

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
    choices: list[Choice] = []
    for swizzle in layout_codes(architecture(arguments.get("arch")).smem_descriptor).values():
        for stack in STACKS:
            try:
                made = simulated(wish_of(rows, k, **DEFAULTS | arguments | {"swizzle": str(swizzle), "stack": stack}))
            except IllegalPlan as e:
                if stack == STACKS[0]:
                    choices.append(Choice(str(swizzle), "", None, e.reason))
                continue
            if stack == STACKS[0] or 1 not in made.arrangement.grid:
                choices.append(Choice(str(swizzle), stack, made, ""))
    return tuple(choices)


# ---- A plan as source text: C++ constants with the encode call, CuTe, Gluon; where a library has no name for the layout it says so


LANGUAGES = ("cpp", "cute", "triton")

# CUTLASS include/cute/arch/mma_sm90_gmma.hpp and mma_sm100_umma.hpp name the atoms so; padded types are allocated as bytes.
_ATOMS = {Swizzle.NONE: "INTER", Swizzle.B32: "SW32", Swizzle.B64: "SW64", Swizzle.B128: "SW128", Swizzle.B128_ATOM_32B: "SW128_32B"}
_TYPES = {
    "f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t", "tf32": "cutlass::tfloat32_t", "e4m3": "cutlass::float_e4m3_t",
    "e5m2": "cutlass::float_e5m2_t", "s8": "int8_t", "u8": "uint8_t", "e2m1": "cutlass::float_e2m1_t",
}  # fmt: skip
_GLUON_WIDTHS = {Swizzle.NONE: 0, Swizzle.B32: 32, Swizzle.B64: 64, Swizzle.B128: 128}


def code_of(plan: Plan, language: str) -> str:
    """The source text of a plan in one of `LANGUAGES`."""
    name = choice("code", language, LANGUAGES, "one of cpp, cute, triton")
    return {"cpp": _cpp, "cute": _cute, "triton": _triton}[name](plan)


def encode_arguments(loads: Loads) -> list[tuple[str, str]]:
    """(parameter, value) of cuTensorMapEncodeTiled behind the map itself, in driver order, as C++ has them."""
    given = loads.arguments()
    l2, fill = given["l2_promotion"], given["oob_fill"]
    return [
        ("tensorDataType", f"CU_TENSOR_MAP_DATA_TYPE_{given['data_type']}"),
        ("tensorRank", str(loads.rank)),
        ("globalAddress", "the matrix"),
        *((name, _braced(given[key])) for name, key in (("globalDim", "global_dim"), ("globalStrides", "global_strides"),
                                                        ("boxDim", "box_dim"), ("elementStrides", "element_strides"))),
        ("interleave", f"CU_TENSOR_MAP_{given['interleave']}"),
        ("swizzle", f"CU_TENSOR_MAP_{given['swizzle']}"),
        ("l2Promotion", f"CU_TENSOR_MAP_L2_PROMOTION_{l2}"),
        ("oobFill", f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    ]  # fmt: skip


def _braced(values: list[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _cpp(plan: Plan) -> str:
    tile, wish = plan.arrangement, plan.wish
    name, axis = wish.side.upper(), wish.axis.upper()
    word = tile.descriptor().advance(-wish.base_address).encode()
    lines = [
        f"// {plan.title}",
        "#include <cstdint>",
        "#include <cuda.h>",
        "",
        f"constexpr uint64_t {name}_{axis} = {plan.matrix.rows}, {name}_K = {plan.matrix.k};  // the matrix: put yours here",
        f"constexpr uint64_t {name}_PITCH = {plan.matrix.pitch};  // bytes from line to line",
        f"constexpr uint32_t {name}_STAGE_BYTES = {plan.tile_bytes}, {name}_STAGES = {wish.stages};",
        f"constexpr uint32_t {name}_TX_BYTES = {plan.loop.bytes};  // what the mbarrier of a stage expects",
        f"constexpr uint32_t {name}_LBO = {plan.lbo.bytes}, {name}_SBO = {plan.sbo.bytes};  // bytes; LBO: {plan.lbo.walks}",
        f"constexpr uint64_t {name}_DESC = {word:#018x}ull;  // start address 0",
    ]
    if plan.instruction_descriptor is not None:
        idesc = plan.instruction_descriptor
        lines.append(f"constexpr uint32_t IDESC = {idesc.encode():#010x};  // kind::{idesc.kind}, M {idesc.m}, N {idesc.n}")
    lines += ["", f"__device__ inline uint64_t {wish.side}_descriptor(uint32_t stage_address, int block, int step) {{"]
    lines += _array("k_advance", plan.advances[0].tolist(), "of K step i, in units of 16 B")
    lines += _array("mn_advance", plan.advances[:, 0].tolist(), f"of block i of {tile.instruction.rows} rows")
    lines += [
        f"    uint64_t start = (stage_address & {REACH - 1:#x}) >> {START.shift};",
        f"    return {name}_DESC + start + mn_advance[block] + k_advance[step];",
        "}",
        "",
        *_load(plan),
        "",
        *_encode(plan, plan.loop, f"encode_{wish.side}", "boxes of rank 2"),
    ]
    if plan.box is not None and plan.box is not plan.loop:
        at = f"for the tile at ({wish.at[0]}, {wish.at[1]}) issue it at {_braced(list(plan.box.issues[0][1]))}"
        lines += ["", *_encode(plan, plan.box, f"encode_{wish.side}_box", f"one box of rank {plan.box.rank}; {at}")]
    return "\n".join(lines)


def _array(name: str, offsets: list[int], what: str) -> list[str]:
    values = [str(x // CHUNK) for x in offsets]
    rows = ["        " + ", ".join(values[i : i + 12]) + "," for i in range(0, len(values), 12)]
    return [f"    constexpr uint32_t {name}[{len(values)}] = {{  // {what}", *rows, "    };"]


def _encode(plan: Plan, loads: Loads, function: str, what: str) -> list[str]:
    """The call; extents of the matrix stay symbols."""
    tile, matrix, wish, given = plan.arrangement, plan.matrix, plan.wish, dict(encode_arguments(loads))
    name, axis = wish.side.upper(), wish.axis.upper()
    across, down = (f"{name}_K", f"{name}_{axis}") if wish.major == "K" else (f"{name}_{axis}", f"{name}_K")
    tm, pitch, prefix = loads.tensor_map, f"{name}_PITCH", function.removeprefix("encode_")
    height, panel = tm.box_dim[1], tile.inner * wish.fmt.bits // 8
    panels = loads.rank > 2 and tile.grid[1] > 1
    grouped = any(s == height * matrix.pitch for s in tm.global_strides[1:])
    dims, strides = [str(tile.inner) if panels else across, str(height) if grouped else down], [pitch]
    for stride in tm.global_strides[1:]:
        is_panel = panels and stride == panel
        strides.append(str(panel) if is_panel else f"{height} * {pitch}")
        dims.append(f"{across} / {tile.inner}" if is_panel else f"{down} / {height}")
    return [
        f"inline CUresult {function}(CUtensorMap* tensor_map, void* global_address) {{  // {what}",
        f"    const cuuint64_t {prefix}_global_dim[{loads.rank}] = {{{', '.join(dims)}}};",
        f"    const cuuint64_t {prefix}_global_strides[{loads.rank - 1}] = {{{', '.join(strides)}}};",
        f"    const cuuint32_t {prefix}_box_dim[{loads.rank}] = {given['boxDim']};",
        f"    const cuuint32_t {prefix}_element_strides[{loads.rank}] = {given['elementStrides']};",
        f"    return cuTensorMapEncodeTiled(tensor_map, {given['tensorDataType']}, {loads.rank}, global_address,",
        f"        {prefix}_global_dim, {prefix}_global_strides, {prefix}_box_dim, {prefix}_element_strides,",
        f"        {given['interleave']}, {given['swizzle']},",
        f"        {given['l2Promotion']}, {given['oobFill']});",
        "}",
    ]


def _load(plan: Plan) -> list[str]:
    """The loop over the boxes; `load_2d(shared address, x, y)` issues one cp.async.bulk.tensor.2d."""
    tile, wish = plan.arrangement, plan.wish
    inner, height = plan.loop.tensor_map.box_dim
    shared, first, second = "stage_address", *(("k0", f"{wish.axis}0") if wish.major == "K" else (f"{wish.axis}0", "k0"))
    text, indent, pieces = [], "    ", tile.lines // height
    if tile.grid[1] > 1:
        text.append(f"{indent}for (uint32_t panel = 0; panel < {tile.grid[1]}; ++panel)")
        shared, first, indent = f"{shared} + panel * {tile.contiguous_bytes}", f"{first} + int(panel) * {inner}", indent + "    "
    if pieces > 1:
        piece = height * wish.mode.width if tile.panels else tile.strided_bytes
        text.append(f"{indent}for (uint32_t piece = 0; piece < {pieces}; ++piece)")
        shared, second, indent = f"{shared} + piece * {piece}", f"{second} + int(piece) * {height}", indent + "    "
    count = len(plan.loop.issues)
    return [
        "template <class Load>",
        f"__device__ void load_{wish.side}(uint32_t stage_address, int {wish.axis}0, int k0, Load load_2d) {{"
        f"  // {count} box{'es' * (count > 1)} of {{{inner}, {height}}}",
        *text,
        f"{indent}load_2d({shared}, {first}, {second});",
        "}",
    ]


def _cute(plan: Plan) -> str:
    tile, wish = plan.arrangement, plan.wish
    space = "GMMA" if wish.machine.instruction == "wgmma" else "UMMA"
    kind = "uint8_t" if tile.padded else _TYPES[wish.fmt.name]
    atom = f"cute::{space}::Layout_{wish.major}_{_ATOMS[wish.swizzle]}_Atom<{kind}>"
    staged = wish.stages > 1
    extents = [wish.rows, wish.k, *([wish.stages] if staged else [])]
    order = [f"cute::_{x + 1}" for x in (*tile.order, *([2] if staged else []))]
    note = ["// padded 4- and 6-bit elements take a byte each in shared memory: CUTLASS allocates them as uint8_t"] if tile.padded else []
    if wish.swizzle is Swizzle.B128_ATOM_32B and wish.stack != "strided" and 1 not in tile.grid:
        note.append("// CuTe DSL's atom of this name has 8 lines of K, this one has 4: stacked this way the tile is another one there")
    return "\n".join([
        f"// {plan.title}",
        *note,
        f"using SmemAtom = {atom};",
        "using SmemLayout = decltype(cute::tile_to_shape(",
        "    SmemAtom{},",
        f"    cute::Shape<{', '.join(f'cute::Int<{x}>' for x in extents)}>{{}},",
        f"    cute::Step<{', '.join(order)}>{{}}));",
        f"// {plan.cute.tile}{' a stage' if staged else ''}",
    ])  # fmt: skip


def _triton(plan: Plan) -> str:
    """Gluon's layout where Triton 3.9.0's own linear layout of it (`to_linear_layout`) is that of the plan."""
    tile, wish = plan.arrangement, plan.wish
    why = ""
    if wish.swizzle not in _GLUON_WIDTHS:
        why = f"it has no swizzle {wish.swizzle}"
    elif wish.fmt.bits == 6:
        why = "it has no 6-bit types"
    elif not wish.mode.mask and tile.grid[1] > 1:
        why = "swizzle_byte_width=0 is plain rows, not 16-byte columns of 8 lines"
    elif wish.stack != "strided" and 1 not in tile.grid:
        why = f"it stacks atoms along the strided axis first; plan with stack='strided' ({'MN' if wish.major == 'K' else 'K'} first)"
    elif wish.major == "MN" and tile.lines > LIMITS.max_box and tile.grid[1] > 1:
        why = f"it stacks transposed atoms in blocks of at most {LIMITS.max_box} lines, this tile has {tile.lines} in a panel"
    elif any(extent & (extent - 1) for extent in (wish.rows, wish.k)):
        why = "its tiles have powers of two as extents"
    if why:
        return f"# {plan.title}\n# no NVMMASharedLayout is this layout: {why}"
    extents = (wish.rows, wish.k) if wish.fmt.bits >= 8 else (wish.rows, wish.k // 2) if wish.major == "K" else (wish.rows // 2, wish.k)
    given = f"swizzle_byte_width={_GLUON_WIDTHS[wish.swizzle]}, element_bitwidth={max(8, wish.fmt.bits)}, rank=2, transposed={wish.major == 'MN'}"
    dtype = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8e4nv", "e5m2": "float8e5", "s8": "int8"}.get(
        wish.fmt.name, "uint8"
    )
    of = "bytes of two elements" if wish.fmt.bits == 4 else "elements"
    shape = [*([wish.stages] if wish.stages > 1 else []), *extents]
    return "\n".join([
        f"# {plan.title}",
        f"layout: gl.constexpr = gl.NVMMASharedLayout({given}{', fp4_padded=True' if tile.padded else ''})",
        f"tile = gl.allocate_shared_memory(gl.{dtype}, {shape}, layout)  # {wish.axis.upper()} x K {of}",
    ])  # fmt: skip


# ---- A plan for people, in plain lines of at most 100 columns, and for programs


WIDTH = 100
MOST_ROWS = 16  # of a table; JSON has all


_GRADES = {
    "measured": "measured on an H200",
    "witnessed": "witnessed: programs known right on such cards come out right with them, and wrong with their alternatives",
    "documented": "documented",
    "compiled": "compiled: what shipping compilers and kernels rely on",
    "inferred": "inferred from documented ones",
}


def plan_text(plan: Plan) -> str:
    """All of a plan."""
    sections = (_head, _atom, _transfers, _memory, _strides, _descriptors, _instruction, _layouts, _notes)
    lines: list[str] = []
    for section in sections:
        lines += [*(part for line in section(plan) for part in _fitted(line)), ""]
    return "\n".join(lines[:-1])


def _fitted(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return [line] if len(line) <= WIDTH else _wrapped(line.strip(), indent)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _grade(plan: Plan) -> str:
    tile, wish = plan.arrangement, plan.wish
    return str(shared_grade(tile.descriptor(), wish.machine.name, wish.fmt.name, wish.major, tile.instruction.k, tile.instruction.packing))


def _tma_grade(plan: Plan) -> str:
    blackwell = plan.matrix.data_type.bits < 8 or not plan.matrix.data_type.sm90 or plan.wish.swizzle is Swizzle.B128_ATOM_32B
    return str(RULES["tma.blackwell" if blackwell else "tma.placement"].grades[plan.wish.machine.name])


def _head(plan: Plan) -> Iterator[str]:
    tile, grade = plan.arrangement, _grade(plan)
    of = tile.instruction
    yield plan.title
    yield f"  read by {of.name}"
    share = " of the pair; this CTA has half the rows" if plan.wish.cta_group == 2 else ""
    yield f"  M = {of.m}, N = {of.n}{share}, K = {of.k}: {tile.blocks} block{'s' * (tile.blocks > 1)} of {of.rows} rows x {tile.steps} K steps"
    told = _GRADES[grade]
    where = "" if grade == "measured" else f"; nothing of {plan.wish.machine.name} is measured"
    yield f"  the rules of the operand's addresses are {told}{where}"
    if _tma_grade(plan) != grade:
        yield f"  the rules of where TMA writes are {_GRADES[_tma_grade(plan)]}"


def _atom(plan: Plan) -> Iterator[str]:
    tile, wish = plan.arrangement, plan.wish
    rows = wish.axis.upper()
    along, across = (rows, "K") if wish.major == "K" else ("K", rows)
    width = wish.mode.width
    extent = f"{tile.atom_lines} x {tile.inner}" if wish.major == "K" else f"{tile.inner} x {tile.atom_lines}"
    yield "Swizzle atom"
    yield f"  {tile.atom_lines} lines of {along} x {width} B of {across} ({rows} x K = {extent} elements), {tile.atom_bytes} B without gaps"
    strided, contiguous = tile.grid
    first = along if wish.stack == "strided" else across
    yield f"  grid: {strided} along {along}, {contiguous} along {across}; stacked along {first} first"
    yield f"  next atom along {along}: +{tile.strided_bytes} B; along {across}: +{tile.contiguous_bytes} B"


def _transfers(plan: Plan) -> Iterator[str]:
    count = len(plan.loop.issues)
    yield f"TMA: {count} box{'es' if count > 1 else ''} of rank 2 a stage, {plan.loop.bytes:,} B on the mbarrier"
    yield from _call(plan.loop)
    yield "    issue  shared offset  coordinates (dimension 0 first)"
    for number, (offset, at) in enumerate(plan.loop.issues[:MOST_ROWS]):
        yield f"    {number:5}  {offset:13}  {{{', '.join(map(str, at))}}}"
    if count > MOST_ROWS:
        yield f"    ... {count - MOST_ROWS} more (--json has all)"
    if plan.box is None:
        yield from _wrapped(f"one box: none. {plan.why_no_box}")
    elif plan.box is not plan.loop:
        yield f"  or ONE box of rank {plan.box.rank}, the same bytes at the same places, {plan.box.bytes:,} B"
        yield from _call(plan.box)
        yield f"    coordinates     {{{', '.join(map(str, plan.box.issues[0][1]))}}}"
    if plan.wish.matrix is None:
        yield f"  made up: a matrix of {plan.matrix.rows} x {plan.matrix.k}, which globalDim and globalStrides describe; --matrix takes yours"


def _call(loads: Loads) -> Iterator[str]:
    yield "  cuTensorMapEncodeTiled(&tensorMap,"
    for name, value in encode_arguments(loads):
        yield f"    {name:<15} {value}"


def _memory(plan: Plan) -> Iterator[str]:
    wish = plan.wish
    stages = f" x {wish.stages} stages = {plan.shared_bytes:,} B" if wish.stages > 1 else ""
    data = wish.rows * wish.k * wish.fmt.bits // 8
    gaps = f" ({plan.tile_bytes - data:,} B of them gaps of the padded type)" if plan.tile_bytes != data else ""
    yield "Shared memory"
    yield f"  {plan.tile_bytes:,} B a stage{gaps}{stages}, planned at {wish.base_address:#x} (--base takes another address)"
    yield f"  TMA needs a multiple of {LIMITS.smem_alignment} B, and that is enough for TMA and MMA: both XOR absolute addresses"
    if wish.mode.mask:
        period = wish.mode.period
        phase = f"; {wish.base_address:#x} is {wish.base_address % period} past one" if wish.base_address % period else ""
        yield from _wrapped(f"software that XORs offsets from the tile's base needs a multiple of {period} B, the swizzle's period{phase}")
    c = plan.conflicts
    yield from _wrapped(f"bank conflicts, counted from addresses (of 8 chunks of 16 B, how many in one group of 4 banks): MMA 8x16 B {c.mma}, "
                        f"8 lines from any line on {c.column}, 8 chunks along a line {c.line}")  # fmt: skip


def _strides(plan: Plan) -> Iterator[str]:
    yield "Descriptor strides"
    for field in (plan.lbo, plan.sbo):
        yield f"  {_field(field)}"
    for field in (plan.lbo, plan.sbo):
        if field.places:
            shown = " -> ".join(f"(row {r}, k {k}) at {a:#x}" for r, k, a in field.places)
            yield f"    {field.name}: {shown}"


def _field(field: Field) -> str:
    return f"{field.name} = {field.bytes} B, encoded {field.encoded} ({field.encoded:#x}): {field.walks}"


def _descriptors(plan: Plan) -> Iterator[str]:
    tile, advances = plan.arrangement, plan.advances
    blocks, steps = advances.shape
    uniform = "uniform" if plan.is_uniform else "not uniform"
    yield f"Descriptors (stage 0) and what is added to the first one's start; K steps are {uniform}"
    yield "  block  step  + bytes  + 16 B  word                atom"
    rows = [(block, step) for block in range(blocks) for step in range(steps)]
    for block, step in rows[: 2 * MOST_ROWS]:
        by = int(advances[block, step])
        yield f"  {block:5}  {step:4}  {by:7}  {by // CHUNK:6}  {tile.descriptor(block, step).encode():#018x}  {_atom_of(plan, block, step)}"
    if len(rows) > 2 * MOST_ROWS:
        yield f"  ... {len(rows) - 2 * MOST_ROWS} more (--json has all)"
    if plan.wish.stages > 1:
        yield f"  a further stage: + {plan.tile_bytes} B, + {plan.tile_bytes // CHUNK} in the word"


def _atom_of(plan: Plan, block: int, step: int) -> str:
    """Does the instruction begin in the atom of the one before?"""
    if not step:
        return "first"
    size = plan.arrangement.atom_bytes
    here, before = (int(plan.advances[block, s]) // size for s in (step, step - 1))
    return "same" if here == before else "next"


def _instruction(plan: Plan) -> Iterator[str]:
    idesc = plan.instruction_descriptor
    yield "Instruction"
    yield f"  {plan.arrangement.instruction.name}"
    if idesc is None:
        major = {"K": 0, "MN": 1}[plan.wish.major]
        yield f"  wgmma has no instruction descriptor; imm-trans-{plan.wish.side} = {major} (16-bit types only)"
    else:
        yield f"  instruction descriptor {idesc.encode():#010x} ({plan.wish.side.upper()} planned, the other operand {plan.wish.other_major}-major)"
        yield from _wrapped(repr(idesc))


def _layouts(plan: Plan) -> Iterator[str]:
    c, (symbolic, numeric) = plan.cute, plan.canonical
    bits = plan.arrangement.element_bits
    yield "Layouts (M or N, K)"
    yield from _pair("canonical", f"{symbolic}  (T = {plan.arrangement.per_chunk})")
    yield from _pair("one operand", numeric)
    yield from _pair("tile", f"{c.tile}")
    yield f"    tile_to_shape({plan.arrangement.atom}, ({plan.wish.rows},{plan.wish.k}), order=({c.order[0]},{c.order[1]}))"
    yield from _pair("partitioned", _linear(c.partitioned))
    yield f"    zipped_divide(tile, ({c.subtile[0]},{c.subtile[1]})) = ((operand), (blocks, K steps))"
    yield from _pair("in uint128", _linear(c.units))
    yield f"    recast from {bits} to 128 bits"
    yield from _pair("canonical", _linear(c.canonical))
    yield f"    logical_divide(operand, ({c.unit[0]},{c.unit[1]})): strides of 16 B, LBO {_units(c.lbo)}, SBO {_units(c.sbo)}"
    yield from _pair("descriptors", _linear(c.descriptors) + "  added to the word of block 0, step 0")


def _linear(layout: CuteLayout) -> str:
    """A layout without its XOR, which is taken of addresses: divided and recast layouts count offsets."""
    return f"{layout}".rpartition(" o ")[2]


def _units(value: int | None) -> str:
    return "none (one unit only)" if value is None else str(value // CHUNK)


def _pair(name: str, text: str) -> list[str]:
    return [f"  {name:<12} {text}"] if len(text) < WIDTH - 15 else [f"  {name}", *_wrapped(text, "    ")]


def _notes(plan: Plan) -> Iterator[str]:
    forms = "both as the loop and as the one box" if plan.box is not None and plan.box is not plan.loop else "as the loop of boxes"
    stages = " of the first and the last stage" if plan.wish.stages > 1 else ""
    for note in plan.notes:
        yield f"Note: {note}"
    yield f"Checked: {forms}, every element of every instruction{stages} is the one that TMA put there (smemsim check)."


def plan_dict(plan: Plan) -> dict[str, Any]:
    """All of a plan as JSON has it; sizes, offsets and addresses are bytes."""
    tile, wish = plan.arrangement, plan.wish
    idesc = plan.instruction_descriptor

    def loads(transfers: Loads | None) -> dict[str, Any] | None:
        if transfers is None:
            return None
        issues = [{"offset": offset, "coordinates": list(at)} for offset, at in transfers.issues]
        return {
            "rank": transfers.rank,
            "arguments": transfers.arguments(),
            "issues": issues,
            "bytes": transfers.bytes,
            "map": bytes(transfers.tensor_map).hex(),
        }

    return {
        "arguments": plan.arguments,
        "grade": _grade(plan),
        "tma_grade": _tma_grade(plan),
        "notes": list(plan.notes),
        "atom": {"lines": tile.atom_lines, "bytes_across": wish.mode.width, "elements_across": tile.inner, "bytes": tile.atom_bytes},
        "grid": {"strided": tile.grid[0], "contiguous": tile.grid[1], "strided_bytes": tile.strided_bytes, "contiguous_bytes": tile.contiguous_bytes},
        "loop": loads(plan.loop),
        "box": loads(plan.box),
        "why_no_box": plan.why_no_box,
        "tile_bytes": plan.tile_bytes,
        "shared_bytes": plan.shared_bytes,
        "alignment": LIMITS.smem_alignment,
        "period": wish.mode.period,
        "lbo": plan.lbo.as_dict(),
        "sbo": plan.sbo.as_dict(),
        "advances": plan.advances.tolist(),
        "words": [[f"{word:#018x}" for word in row] for row in plan.words.tolist()],
        "instruction": {"name": tile.instruction.name, "kind": tile.instruction.kind, "m": tile.instruction.m, "n": tile.instruction.n,
                        "k": tile.instruction.k, "rows": tile.instruction.rows, "idesc": None if idesc is None else f"{idesc.encode():#010x}"},
        "canonical": {"symbolic": plan.canonical[0], "numeric": plan.canonical[1]},
        "cute": {"tile": str(plan.cute.tile)} | {name: _linear(getattr(plan.cute, name)) for name in ("partitioned", "units", "canonical", "descriptors")},
        "conflicts": dataclasses.asdict(plan.conflicts),
    }  # fmt: skip


def _used(row: dict[str, Any], name: str) -> str:
    value = str(row[f"{name}_byte_offset"])
    return value if row[f"{name}_used"] else f"({value})"


def choices_text(title: str, choices: Sequence[Choice]) -> str:
    """The table of `plans`, the refused ones with their reasons below."""
    rows = [("swizzle", "stack", "boxes", "one box", "bytes", "gaps", "period", "LBO", "SBO", "K advances", "mma", "col", "line")]
    reasons = []
    for offered in choices:
        row = offered.as_dict()
        if not row["legal"]:
            reasons.append(f"{offered.swizzle}: {offered.reason}")
            continue
        steps = row["k_advances"]
        advance = f"+{steps[1] - steps[0]}" if len(steps) > 1 else "-"
        conflicts = row["conflicts"]
        rows.append((offered.swizzle, offered.stack, str(row["issues"]), f"rank {row['box_rank']}" if row["single_box"] else "no", str(row["tile_bytes"]),
                     str(row["padding_bytes"]), str(row["period"]), _used(row, "leading"),
                     _used(row, "stride"), advance if row["k_uniform"] else f"{advance}, jumps",
                     str(conflicts["mma"]), str(conflicts["column"]), str(conflicts["line"])))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [title]
    lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [line for reason in reasons for line in _wrapped(f"not {reason}")]
    lines += _wrapped("bytes of one stage; LBO and SBO in brackets are not used by the instruction; TMA and MMA need 128 B alignment, software that XORs offsets the period; mma, col, line: of eight 16-byte "
                      "chunks, how many lie in one group of four banks, counted from addresses: 8 lines x 16 B as the MMA reads them, 8 lines from any "
                      "line on (ldmatrix), 8 chunks along a line")  # fmt: skip
    return "\n".join(lines)
