"""`plans`: random correct plans, loaded in both forms and read by their descriptors: `check` must not complain about
any of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.base.errors import InternalError, Unmodelled
from smemsim.campaign.space import Case, Space, drawn, one_by_one, shrunk
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.diagnosis.check import check
from smemsim.planning.arrangement import STACKS, IllegalPlan
from smemsim.planning.make import DEFAULTS, Plan, unchecked

__all__ = ["SPACE", "draw", "forms", "legal", "simpler"]


CHUNK_CASES = 32


def draw(rng: random.Random) -> dict[str, Any]:
    """Arguments of `plan`; not all of them are legal.

    All architectures, types, kinds, majors, swizzles, stackings, sides, pair modes, stages, base addresses (any
    multiple of 128) and places in the matrix.

    >>> sorted(draw(random.Random(1)))[:4]
    ['arch', 'at', 'base_address', 'cta_group']
    """
    arch = rng.choice(list(ARCHITECTURES.values()))
    dtype = FORMATS[rng.choice(arch.mma_types)]
    major = rng.choice(("K", "MN"))
    side = rng.choice("ab")
    kinds = [k.name for k in KINDS.values() if dtype.name in (*k.a_types.values(), *k.b_types.values())]
    kind = rng.choice([None, *kinds]) if arch.instruction == "tcgen05" else None
    group = rng.choice((1, 1, 2)) if arch.instruction == "tcgen05" else 1
    swizzle = rng.choice(list(layout_codes(arch.smem_descriptor).values()))
    per_chunk = dtype.elements_per_chunk(rng.choice(("packed", "padded")))
    rows = rng.choice((8, 16, 24, 32, 48, 64, 64, 96, 128, 128, 128, 192, 256, 256, 320, 512))
    k = 2 * per_chunk * rng.choice((1, 2, 2, 4, 4, 4, 8, 8, 16, 20))
    at = (rng.choice((0, rows, 8 * rng.randrange(40), rng.randrange(300))), rng.choice((0, k, per_chunk * rng.randrange(20))))
    if major == "MN" and rng.random() < 0.5:
        at = (rows * rng.randrange(3), rng.randrange(100))
    matrix = None if rng.random() < 0.6 else (rows + at[0] + 8 * rng.randrange(9), 2 * k + at[1] + per_chunk * rng.randrange(9))
    return {
        "rows": rows, "k": k, "dtype": dtype.name, "major": major, "swizzle": str(swizzle), "arch": arch.name, "side": side, "kind": kind,
        "cta_group": group, "stack": rng.choice(STACKS), "stages": rng.choice((1, 1, 2, 3, 5)), "at": at, "matrix": matrix,
        "base_address": rng.choice((0x400, 1024 * rng.randrange(1, 100), 128 * rng.randrange(8, 900))),
        "other_major": rng.choice(("K", "K", "MN")),
    }  # fmt: skip


def legal(rng: random.Random) -> tuple[dict[str, Any], Plan]:
    """The first arguments drawn that make a plan, and the plan, not simulated. Raises InternalError if a plan
    contradicts itself.
    """
    while True:
        arguments = draw(rng)
        try:
            return arguments, unchecked(**arguments)
        except (IllegalPlan, Unmodelled):
            continue


def forms(plan: Plan) -> tuple[str, ...]:
    """The ways to load a plan: the loop of boxes, and the single box where there is one."""
    return ("loop", "box") if plan.box is not None else ("loop",)


def simpler(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Plans that are easier to read: one argument left as it is by default, or half as large."""
    for name, value in arguments.items():
        for other in (DEFAULTS[name],) if name in DEFAULTS else (value // 2,) if isinstance(value, int) else ():
            if other != value:
                yield arguments | {name: other}


def complaints(arguments: dict[str, Any]) -> list[str]:
    """The findings of `check` about a correct plan, without notes; empty where there is no plan."""
    try:
        plan = unchecked(**arguments)
    except (IllegalPlan, Unmodelled):
        return []
    except InternalError as e:
        return [str(e)]
    found = ((form, f) for form in forms(plan) for f in check(plan.scenario(form)).findings)
    return [f"loaded as a {form}: {f}" for form, f in found if f.severity is not Severity.NOTE]


def case(seed: int, chunk: int, number: int) -> Case:
    """One plan."""
    rng = drawn("plans", seed, chunk, number)
    try:
        arguments, _ = legal(rng)
    except InternalError as e:
        return Case("wrong: a plan contradicts itself", {}, str(e))
    said = complaints(arguments)
    shown = {"plan": arguments}
    of = f"{arguments['arch']} {arguments['dtype']} {arguments['major']}-major"
    if not said:
        return Case(of, shown)
    wrong: Callable[[dict[str, Any]], bool] = lambda other: bool(complaints(other))  # noqa: E731
    shown["small"] = shrunk(arguments, simpler, wrong, 60)
    return Case("wrong: a correct plan raises an alarm", shown, said[0])


SPACE = Space("plans", "random correct plans: check must not complain", one_by_one("plans", case, CHUNK_CASES), CHUNK_CASES, case)
