"""The instruction that reads the tile: its kind, shape and descriptor; what is left open is chosen so that it fits the tile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from smemsim.arguments import in_steps
from smemsim.descriptors.instr import InstrDescriptor
from smemsim.errors import InputError, Unmodelled
from smemsim.planning.wish import IllegalPlan, Wish
from smemsim.spec.findings import Severity
from smemsim.spec.tcgen05 import KINDS, kind_of, shapes_of
from smemsim.spec.wgmma import WGMMA_M, WGMMA_TYPES

__all__ = ["Instruction", "instruction_of"]

GRAVE = (Severity.TRAP, Severity.WRONG)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One MMA: `m` and `n` of the whole instruction, `rows` that one CTA's operand has; `descriptor` of tcgen05 only."""

    name: str
    kind: str
    m: int
    n: int
    k: int
    rows: int
    packing: str
    descriptor: InstrDescriptor | None


def instruction_of(wish: Wish) -> Instruction:
    """The instruction for a wish. Raises IllegalPlan for one that the architecture does not have."""
    if wish.fmt.name not in wish.machine.mma_types:
        raise IllegalPlan(f"{wish.machine.instruction} reads {' '.join(wish.machine.mma_types)} from shared memory, not {wish.fmt.name}")
    if wish.fmt.bits == 1:
        raise Unmodelled("plans of b1 operands: TMA has no type of one bit, and nothing here was checked with one")
    return _wgmma(wish) if wish.machine.instruction == "wgmma" else _tcgen05(wish)


def _wgmma(wish: Wish) -> Instruction:
    name = wish.fmt.name
    if wish.kind not in (None, "wgmma"):
        raise IllegalPlan(f"kind = {wish.kind!r}: {wish.machine.name} has wgmma, which has no kinds")
    if wish.cta_group != 1:
        raise IllegalPlan("cta_group = 2: wgmma works in one CTA; pairs exist from sm_100a on")
    row = next(r for r in WGMMA_TYPES if name in (r.a if wish.side == "a" else r.b))
    if wish.major == "MN" and not row.transposes:
        raise IllegalPlan(f"{name} MN-major: wgmma transposes 16-bit types only, others are K-major")
    m = WGMMA_M if wish.m is None else wish.m
    if m != WGMMA_M:
        raise IllegalPlan(f"m = {m}: one wgmma has M = {WGMMA_M}; a taller tile is read by several")
    n = _fitting(wish, row.n, 1) if wish.n is None else wish.n
    if n not in row.n:
        raise IllegalPlan(f"n = {n}: wgmma with {name} has N = {in_steps(row.n)}")
    d = "f32" if "f32" in row.d else row.d[0]
    other = row.b[0] if wish.side == "a" and name not in row.b else name
    types = (name, other) if wish.side == "a" else (other, name)
    text = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{row.k}.{d}.{types[0]}.{types[1]}"
    return Instruction(text, "wgmma", m, n, row.k, m if wish.side == "a" else n, "packed", None)


def _kind(wish: Wish) -> str:
    if wish.kind is not None:
        return kind_of(wish.kind).name
    found = [k.name for k in KINDS.values() if wish.fmt.name in (k.a_types if wish.side == "a" else k.b_types).values()]
    return "mxf4" if wish.fmt.name == "e2m1" else found[0]


def _tcgen05(wish: Wish) -> Instruction:
    kind = KINDS[_kind(wish)]
    name, group = wish.fmt.name, wish.cta_group
    types = kind.a_types if wish.side == "a" else kind.b_types
    if wish.machine.name not in kind.archs:
        raise IllegalPlan(f"kind {kind.name}: {wish.machine.name} does not have it ({', '.join(kind.archs)} do)")
    if name not in types.values():
        raise IllegalPlan(f"dtype = {name!r}: kind {kind.name} reads {' '.join(types.values())}")
    if not kind.transposable and "MN" in (wish.major, wish.other_major):
        raise IllegalPlan(f"major = 'MN': kind {kind.name} reads K-major operands only (its descriptor has no transpose bits)")
    shapes = shapes_of(kind, cta_group=group, ws=False, sparse=False, wide_k=False)
    ms, ns = (sorted({x for s in shapes for x in getattr(s, axis)}) for axis in "mn")
    if wish.side == "a":
        m = _fitting(wish, ms, group) if wish.m is None else wish.m
        n = max(x for x in ns if x <= 128) if wish.n is None else wish.n
    else:
        m = max(ms) if wish.m is None else wish.m
        n = _fitting(wish, ns, group) if wish.n is None else wish.n
    pair = " with cta_group 2" if group == 2 else ""
    if m not in ms:
        raise IllegalPlan(f"m = {m}: kind {kind.name}{pair} has M = {in_steps(ms)}")
    if n not in (with_m := {x for s in shapes if m in s.m for x in s.n}):
        raise IllegalPlan(f"n = {n}: kind {kind.name}{pair} with M = {m} has N = {in_steps(with_m)}")
    other_types = kind.b_types if wish.side == "a" else kind.a_types
    other = name if name in other_types.values() else next(iter(other_types.values()))
    a_type, b_type = (name, other) if wish.side == "a" else (other, name)
    a_major, b_major = (wish.major, wish.other_major) if wish.side == "a" else (wish.other_major, wish.major)
    try:
        descriptor = InstrDescriptor(kind=kind.name, m=m, n=n, a_type=a_type, b_type=b_type, a_major=a_major, b_major=b_major)
    except InputError as e:
        raise IllegalPlan(str(e)) from None
    context = {"arch": wish.machine.name, "cta_group": group, "ws": False, f"swizzle_{wish.side}": str(wish.swizzle)}
    for finding in descriptor.problems(**context):
        if finding.severity in GRAVE:
            raise IllegalPlan(f"{finding.message}{f' ({finding.repair})' if finding.repair else ''}")
    scaled = ".block_scale" if kind.block_scaled else ""
    text = f"tcgen05.mma.cta_group::{group}.kind::{kind.name}{scaled}"
    packing = kind.packing if wish.fmt.bits < 8 else "packed"
    return Instruction(text, kind.name, m, n, kind.k, (m if wish.side == "a" else n) // group, packing, descriptor)


def _fitting(wish: Wish, legal: Iterable[int], group: int) -> int:
    """The largest M or N whose share of one CTA divides the tile; where none does, the one next to it."""
    options = sorted(legal)
    found = [x for x in options if wish.rows % (x // group) == 0]
    return found[-1] if found else min(options, key=lambda x: abs(x - wish.rows * group))
