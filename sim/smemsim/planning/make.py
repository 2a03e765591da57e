"""`plan`: from the tile to what a kernel author writes; every plan is simulated before anybody sees it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np

from smemsim.checking.scenario import check
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import InputError, InternalError
from smemsim.planning.arrangement import Arrangement, arrange
from smemsim.planning.banks import Conflicts, conflicts_of
from smemsim.planning.canonical import CuteSteps, canonical_layouts, cute_steps
from smemsim.planning.fields import Field, fields_of
from smemsim.planning.nearest import nearest
from smemsim.planning.scenario import scenario_of
from smemsim.planning.transfers import Loads, Matrix, loads_of, matrix_of
from smemsim.planning.wish import IllegalPlan, Wish, wish_of
from smemsim.spec.findings import Severity
from smemsim.spec.shared_memory import CHUNK

__all__ = ["DEFAULTS", "Plan", "plan", "simulated", "unchecked"]


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
        from smemsim.planning.code import code_of

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
