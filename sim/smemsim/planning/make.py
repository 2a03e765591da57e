"""`plan`: from a wish to everything a kernel author writes down, and the choices compared."""

from __future__ import annotations

import dataclasses
import html
import inspect
from typing import Any, ClassVar

import numpy as np

from smemsim.base.errors import InputError, InternalError
from smemsim.base.members import OwnMembers
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.diagnosis.check import check
from smemsim.planning.arrangement import (
    STACKS,
    IllegalPlan,
    Wish,
    arrange,
    cute_steps,
    fields_of,
    wish_of,
)
from smemsim.planning.code import code_of
from smemsim.planning.nearest import nearest
from smemsim.planning.planned import Planned
from smemsim.planning.scenario import scenario_of
from smemsim.planning.text import plan_dict, plan_text
from smemsim.planning.transfers import loads_of, matrix_of

__all__ = [
    "DEFAULTS",
    "Choice",
    "Plan",
    "plan",
    "plans",
    "simulated",
    "unchecked",
]


# ---- `plan`: from the tile to what a kernel author writes. Every plan is simulated before it is returned


@dataclasses.dataclass(frozen=True, repr=False)
class Plan(Planned, metaclass=OwnMembers):
    """An operand tile in shared memory: how TMA fills it and how the instruction reads it. Offsets and sizes are bytes.
    Everything is printed by `print(plan)`.

    - Loads: `loop` has two-dimensional boxes. The load with one box is `box`, or None and its reason `why_no_box`.
    - Descriptors: `words` (blocks, K steps). Their strides are `lbo` and `sbo`. The bytes from the first start are
      `advances`.
    - Layouts: `arrangement` has the atoms, `cute` the layouts of CuTe.

    >>> import smemsim
    >>> p = smemsim.plan(64, 64, dtype="bf16", major="K", swizzle="128B", arch="sm_90a")
    >>> p.stride_byte_offset, p.advances[0].tolist()
    (1024, [0, 32, 64, 96])
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "wish",
    )  # fmt: skip

    def __repr__(self) -> str:
        given, usual = dict(self.arguments), inspect.signature(plan).parameters
        rows, k = given.pop("rows"), given.pop("k")
        named = [f"{name}={value!r}" for name, value in given.items() if value != usual[name].default]
        return f"plan({', '.join([str(rows), str(k), *named])})"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """In a notebook: the picture of the tile in shared memory, and the text folded away."""
        from smemsim.core.picture.page import page_fragment

        page = dataclasses.replace(check(self.scenario()).page(), title=self.title, entries=())
        return f"{page_fragment(page)}<details><summary>the whole plan</summary><pre>{html.escape(self.text())}</pre></details>"

    def scenario(self, form: str = "loop") -> dict[str, Any]:
        """The plan as a scenario for `smemsim.check`. With "box" it has the load with one box, else the loads with
        two-dimensional boxes.
        """
        if form not in ("loop", "box"):
            raise InputError(f"form = {form!r}: needs 'loop' or 'box'")
        loads = self.loop if form == "loop" else self.box
        if loads is None:
            raise InputError(f"form = 'box': {self.why_no_box}")
        return scenario_of(self.arrangement, self.matrix, loads, f"{self.title}, {form}", box=form == "box")

    def text(self) -> str:
        """The whole plan as text, at most 100 columns wide."""
        return plan_text(self)

    def code(self, language: str) -> str:
        """Code to paste: "cpp" (constants and the encode call), "cute" (CuTe C++) or "triton" (Gluon)."""
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
    """Plan an operand tile. A plan has TMA boxes, tensor maps, descriptors with LBO and SBO, their advances, layouts
    and code.

    - Tile: `rows` (M or N) x `k` elements in one CTA's shared memory. With `cta_group=2` these are the CTA's half.
    - Operand: `dtype`, `major` ("K" or "MN") and `swizzle`, as in `operand_addresses`, and `side`, "a" or "b".
    - Instruction: `m`, `n` and `kind`. Default: chosen. The major-ness of the other operand is `other_major`.
    - Stacking: `stack`, the axis along which swizzle atoms follow one another: "strided", "contiguous", "MN" or "K".
    - Matrix: `matrix` (rows, K), with `pitch_bytes` between lines. The tile is `at` (row, k) of it. Default: made up.

    Every plan has passed `smemsim.check`. Its rules are those of `operand_addresses` and `tma_load`: measured on
    sm_90a, documented or compiled on sm_100a. Source: PTX ISA 9.1 §9.7.16.3, 9.7.15.5.1.2; CUTLASS and DeepGEMM stack
    atoms this way.

    Raises `IllegalPlan` (an InputError) with the nearest legal plan, and Unmodelled for unknown behaviour.

    >>> from smemsim import plan
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
    """The plan without the simulation that `plan` runs, and without a search for the nearest legal one; arguments as
    those of `plan`.

    For `tools/soundness.py`, which runs the simulation itself.
    """
    return _planned(wish_of(rows, k, **DEFAULTS | arguments))


def _planned(wish: Wish) -> Plan:
    """The plan, with its strides compared with those of the CuTe layout."""
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
class Choice(metaclass=OwnMembers):
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
        """The row of the table for JSON. Sizes are bytes."""
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
    """Plans with every swizzle of the architecture's descriptor and both stackings, each checked. Arguments are those
    of `plan`, without `swizzle` and `stack`.

    A stacking with the same layout as the first one is left out. Raises InputError for arguments that describe no
    tile.

    >>> from smemsim import plans
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
