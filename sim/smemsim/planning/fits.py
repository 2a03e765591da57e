"""Does a descriptor read a tile as `plan` lays it out?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.finding import Finding, in_word
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import used_strides
from smemsim.core.words.smem import SmemDescriptor
from smemsim.planning.arrangement import IllegalPlan
from smemsim.planning.make import Plan, plan

__all__ = ["Fit", "fit"]


_finding = functools.partial(in_word, "shared-memory descriptor")


@dataclasses.dataclass(frozen=True)
class Fit:
    """The part of a tile that a descriptor reads, in words, or the finding with what is wrong."""

    says: str
    finding: Finding | None = None


def fit(d: SmemDescriptor, rows: int, k: int, *, dtype: Any, major: str, **given: Any) -> Fit:
    """Compare a descriptor with a dense tile of `rows` (M or N) x `k` elements in shared memory.

    The tile is swizzled as the descriptor says, with its atoms one after the other along either axis. Other arguments
    are those of `plan`. The tile starts at the address of the descriptor, or so that the descriptor is that of a later
    K step or block. Raises InputError for a tile that no plan lays out.

    >>> word = plan(128, 64, dtype="bf16", major="K", arch="sm_90a").words[0, 1]
    >>> fit(SmemDescriptor.decode(int(word), arch="sm_90a"), 128, 64, dtype="bf16", major="K").says
    'K step 1 of block 0 of a tile of 128 x 64 bf16 without gaps that begins at 0x400, its atoms stacked along M / N first'
    """
    if d.swizzle is Swizzle.INVALID:
        raise InputError("the descriptor's layout code means no swizzle: there is no such tile")
    made = [p for stack in ("strided", "contiguous") if (p := _planned(d, rows, k, stack, dtype=dtype, major=major, **given)) is not None]
    if not made:  # this raises why
        plan(rows, k, dtype=dtype, major=major, swizzle=d.swizzle, arch=d.arch, base_address=_base(d), **given)
    for p in made:
        for says in _read_of(d, p):
            return Fit(says)
    return Fit("", _misfit(d, made))


def _base(d: SmemDescriptor) -> int:
    period = max(MODES[d.swizzle].period, 128)
    return d.start_address // period * period


def _planned(d: SmemDescriptor, rows: int, k: int, stack: str, **given: Any) -> Plan | None:
    try:
        return plan(rows, k, swizzle=d.swizzle, arch=d.arch, base_address=_base(d), stack=stack, **given)
    except (IllegalPlan, Unmodelled):
        return None


def _addresses(d: SmemDescriptor, p: Plan) -> np.ndarray:
    one, wish = p.arrangement.instruction, p.wish
    return operand_addresses(d, rows=one.rows, k=one.k, dtype=wish.fmt.name, major=wish.major, arch=d.arch, packing=one.packing)


def _read_of(d: SmemDescriptor, p: Plan) -> Iterator[str]:
    """The K step and block of the plan that the descriptor reads; the tile may begin further down than the descriptor's
    own period.
    """
    for (block, step), advance in np.ndenumerate(p.advances):
        base = d.start_address - int(advance)
        if base < 0 or base % max(MODES[d.swizzle].period, 128):
            continue
        planned = SmemDescriptor.decode(int(p.words[block, step]), arch=d.arch)
        moved = _with(planned, start_address=d.start_address)
        if (_addresses(moved, p) == _addresses(d, p)).all():
            yield f"{_told(p, int(block), int(step))} that begins at {base:#x}, its atoms stacked along {_first_axis(p)} first"


def _first_axis(p: Plan) -> str:
    return "K" if (p.wish.stack == "strided") == (p.wish.major == "MN") else "M / N"


def _with(d: SmemDescriptor, **changes: int) -> SmemDescriptor:
    fields = ("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset", "swizzle", "lbo_mode")
    return SmemDescriptor(arch=d.arch, **{name: getattr(d, name) for name in fields} | changes)


def _told(p: Plan, block: int, step: int) -> str:
    return f"K step {step} of block {block} of a tile of {p.wish.rows} x {p.wish.k} {p.wish.fmt.name} without gaps"


def _strides(d: SmemDescriptor, p: Plan) -> tuple[int, int]:
    """LBO and SBO of a plan; those of the descriptor where the instruction does not use them."""
    one, wish = p.arrangement.instruction, p.wish
    used = used_strides(MODES[d.swizzle], wish.major, one.rows, one.k, wish.fmt.elements_per_chunk(one.packing))
    lbo, sbo = (getattr(p if used[name] else d, name) for name in ("leading_byte_offset", "stride_byte_offset"))
    return lbo, sbo


def _misfit(d: SmemDescriptor, made: list[Plan]) -> Finding:
    p, strides = made[0], (d.leading_byte_offset, d.stride_byte_offset)
    wanted = [_strides(d, p) for p in made]
    if strides in wanted:
        starts = sorted({int(advance) for advance in made[wanted.index(strides)].advances.ravel()})
        return _finding(
            "R502", "start_address",
            f"start address {d.start_address:#x} begins no tile of {p.wish.rows} x {p.wish.k} {p.wish.fmt.name}, and no K step or block of one",
            f"start address {_base(d):#x}, or {_base(d):#x} plus one of {starts}", "PTX ISA 9.1 §9.7.16.3.3",
            why=f"a tile begins at a multiple of {max(MODES[d.swizzle].period, 128)} B, its later K steps and blocks {starts} B after that",
        )  # fmt: skip
    swapped = strides[::-1] in [(p.leading_byte_offset, p.stride_byte_offset) for p in made]
    code = "D309" if swapped else "D308"
    if swapped:
        wanted = [(p.leading_byte_offset, p.stride_byte_offset) for p in made]
    right = strides[::-1] if swapped else wanted[0]
    words = [_with(d, leading_byte_offset=lbo, stride_byte_offset=sbo).word for lbo, sbo in dict.fromkeys([right, *wanted])]
    needs = " or ".join(f"LBO {lbo} B, SBO {sbo} B" for lbo, sbo in dict.fromkeys([right, *wanted]))
    says = "look swapped" if swapped else "do not fit"
    return _finding(
        code, "leading_byte_offset" if swapped else "stride_byte_offset",
        f"LBO = {strides[0]} B and SBO = {strides[1]} B {says}: a tile of {p.wish.rows} x {p.wish.k} {p.wish.fmt.name}, {p.wish.major}-major with swizzle {d.swizzle}, without gaps has {needs}",
        " or ".join(f"{word:#018x}" for word in words), "PTX ISA 9.1 §9.7.16.3.3", Severity.WRONG,
    )  # fmt: skip
