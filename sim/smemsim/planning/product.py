"""`smemsim plan MxNxK`: both operands of a tile, where D lies, and the PTX around the matrix instructions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from smemsim.base.arguments import whole
from smemsim.base.errors import InputError
from smemsim.core.machine.tmem.layout import AccumulatorLayout
from smemsim.core.spec.tcgen05 import KINDS, kind_of, shapes_of
from smemsim.core.spec.tensor_memory import ALLOCATION
from smemsim.core.words.instr import InstrDescriptor
from smemsim.planning.arrangement import IllegalPlan
from smemsim.planning.make import Plan, plan

__all__ = ["ProductPlan", "plan_product", "widest_product"]


# & of an address of shared memory: the same place in the even CTA of the pair, for bits 31:24 are the CTA's rank
# (measured on sm_90a: trace cluster_addresses).
# Compiled: Sm100MmaPeerBitMask of CUTLASS, include/cute/arch/copy_sm100_tma.hpp at 7107b055.
LEADER = 0xFEFFFFFF
CLUSTER_BARRIER = ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;")
_CLUSTER = "needs a launch in clusters of 2 CTAs: __cluster_dims__(2, 1, 1) or cudaLaunchAttributeClusterDimension; in PTX .reqnctapercluster 2, 1, 1"
# of what is made for an operand, where its text names it
_NAMES = re.compile(r"\b(SmemAtom|SmemLayout|layout|tile)\b(?=:| =|\{|\))")


@dataclasses.dataclass(frozen=True)
class ProductPlan:
    """D (M x N) of A (M x K) and B (N x K): a plan of each operand. Their buffers follow one another. Each CTA of a
    pair holds half of each.
    """

    m: int
    n: int
    k: int
    a: Plan
    b: Plan

    @property
    def blocks(self) -> tuple[int, int]:
        """Instructions along M and along N."""
        one = self.a.arrangement.instruction
        return self.m // one.m, self.n // one.n

    @property
    def idesc(self) -> InstrDescriptor | None:
        """The instruction descriptor of both operands; wgmma has none."""
        return self.a.arrangement.instruction.descriptor

    @property
    def accumulator(self) -> AccumulatorLayout | None:
        """Where D of one instruction lies in tensor memory; None for wgmma, which has it in registers."""
        one = self.a.arrangement.instruction
        return None if self.idesc is None else AccumulatorLayout(one.m, one.n, self.a.wish.cta_group)

    @property
    def columns(self) -> int:
        """Columns of tensor memory that D takes in each CTA, all instructions together; 0 for wgmma."""
        return self.blocks[0] * self.blocks[1] * self.accumulator.columns if self.accumulator else 0

    @property
    def allocated(self) -> int:
        """Columns to allocate: a power of two."""
        return max(ALLOCATION.least, 1 << (self.columns - 1).bit_length()) if self.columns else 0

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        d = {"columns": self.columns, "allocate": self.allocated, "layout": self.accumulator.name if self.accumulator else None}
        idesc = None if self.idesc is None else f"{self.idesc.encode():#010x}"
        return {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
            "d": d,
            "idesc": idesc,
            "ptx": self.ptx(),
        }

    def ptx(self) -> list[str]:
        """The lines of PTX around one stage; names in %… are registers of the kernel."""
        return list(_wgmma(self) if self.idesc is None else _tcgen05(self))

    def code(self, language: str) -> str:
        """The code to paste for both operands: "cpp", "cute" or "triton", as `Plan.code` has it of one. The names of
        each have its letter.
        """
        parts = [
            _NAMES.sub(rf"\1_{one.wish.side}" if language == "triton" else rf"\1{one.wish.side.upper()}", one.code(language))
            for one in (self.a, self.b)
        ]
        once = [line for line in parts[0].splitlines() if line.startswith(("#include", "constexpr uint32_t IDESC"))]
        second = "\n".join(line for line in parts[1].splitlines() if line not in once)
        mark = "#" if language == "triton" else "//"
        head = f"{mark} {_CLUSTER}\n" if self.a.wish.cta_group == 2 else ""
        return f"{head}{parts[0]}\n\n{second}"

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The whole plan as text."""
        wish = self.a.wish
        pair = "; a pair of CTAs computes it, and each CTA holds half of A's rows and half of B's" if wish.cta_group == 2 else ""
        lines = [f"D ({self.m} x {self.n}) = A ({self.m} x {self.k}) Bᵀ ({self.n} x {self.k}) on {wish.machine.name}{pair}", ""]
        if wish.cta_group == 2:
            lines[1:1] = [_CLUSTER]
        for name, one in (("A", self.a), ("B", self.b)):
            lines += [f"==== {name} ====", one.text(), ""]
        lines += ["==== D ====", *_accumulator_lines(self), "", "==== PTX, one stage ====", *(f"  {line}" for line in self.ptx())]
        return "\n".join(lines)


def _rows_of_pair() -> list[int]:
    """The M of the dense instructions of a pair of CTAs."""
    return sorted({m for shape in shapes_of(kind_of("f16"), cta_group=2, ws=False, sparse=False, wide_k=False) for m in shape.m})


def plan_product(m: int, n: int, k: int, *, cta_group: int = 1, base_address: int = 0x400, stages: int = 1, **given: Any) -> ProductPlan:
    """The plans of both operands of a tile of M x N x K, of the whole pair with `cta_group=2`. Other arguments and
    errors are those of `plan`, for both operands.

    >>> p = plan_product(256, 256, 64, dtype="bf16", arch="sm_100a", major="K", cta_group=2)
    >>> p.a.arrangement.instruction.rows, p.b.arrangement.instruction.rows, p.columns, p.allocated, f"{p.idesc.encode():#x}"
    (128, 128, 256, 256, '0x10400490')
    """
    return _held(_operands(m, n, k, cta_group, base_address, stages, given))


def _held(p: ProductPlan) -> ProductPlan:
    """The plan, if tensor memory holds its D. Raises IllegalPlan."""
    if p.columns > ALLOCATION.most:
        raise IllegalPlan(
            f"M = {p.m}, N = {p.n}: D takes {p.columns} columns of tensor memory in each CTA, there are {ALLOCATION.most}; a smaller tile is needed"
        )
    return p


def _operands(m: int, n: int, k: int, cta_group: int, base_address: int, stages: int, given: dict[str, Any]) -> ProductPlan:
    """The plans of both operands, B after A in memory."""
    shares = []
    for name, extent in (("M", m), ("N", n)):
        if whole(name, extent, minimum=1) % cta_group:
            step = min(_rows_of_pair()) if name == "M" else 32
            raise InputError(f"{name} = {extent}: the two CTAs of a pair have half of {name} each; write {-(-extent // step) * step}")
        shares.append(extent // cta_group)
    alike = {**given, "cta_group": cta_group, "stages": stages, "other_major": given["major"]}
    of_m = _share("A", "M", m, shares[0], k, side="a", base_address=base_address, **alike).arrangement.instruction.m
    of_n = _share("B", "N", n, shares[1], k, side="b", base_address=base_address, **alike | {"m": of_m}).arrangement.instruction.n
    alike |= {"m": of_m, "n": of_n}
    a = plan(shares[0], k, side="a", base_address=base_address, **alike)
    period = max(a.wish.mode.period, 128)
    behind = -(-(base_address + stages * a.arrangement.tile_bytes) // period) * period
    return ProductPlan(m, n, k, a, plan(shares[1], k, side="b", base_address=behind, **alike))


def _share(name: str, axis: str, extent: int, rows: int, k: int, **given: Any) -> Plan:
    """The plan of one operand in one CTA. Raises IllegalPlan in the words of the whole tile."""
    try:
        return plan(rows, k, **given)
    except IllegalPlan as e:
        group, nearest = given["cta_group"], (e.nearest or {}).get("rows") if "rows" in e.changed else None
        works = "" if nearest is None else f" (nearest that works: {nearest * group})"
        share = f"each CTA of the pair holds {rows} x {k} of {name}; " if group == 2 else ""
        raise IllegalPlan(f"{axis} = {extent}{works}: {share}{e.reason}", e.nearest, e.changed) from None


def widest_product(m: int, n: int, k: int, *, cta_group: int, base_address: int, stages: int, **given: Any) -> ProductPlan:
    """`plan_product` with the widest swizzle that the tile can have. Raises IllegalPlan if it can have none: the one
    that needs the fewest changes.
    """
    refused: list[IllegalPlan] = []
    for swizzle in ("128B", "64B", "32B", "none"):
        try:
            made = _operands(m, n, k, cta_group, base_address, stages, given | {"swizzle": swizzle})
        except IllegalPlan as e:
            refused.append(e)
        else:
            return _held(made)
    raise min(refused, key=lambda e: (len(e.changed) or 99, abs((e.nearest or {}).get("k", k) - k)))


def _accumulator_lines(p: ProductPlan) -> Iterator[str]:
    one, (down, across) = p.a.arrangement.instruction, p.blocks
    yield f"  {down} x {across} instructions of {one.m} x {one.n}, {p.a.arrangement.steps} K steps each"
    if p.accumulator is None:
        yield f"  D lies in registers: {one.n // 2} of .f32 in each of the 128 threads of a warpgroup, for each instruction"
        return
    group = p.a.wish.cta_group
    yield f"  D has the layout that the PTX ISA calls {p.accumulator.name} (evidence: {p.accumulator.grade}): {p.accumulator.columns} columns in each CTA for one instruction, {p.columns} for all"
    yield f"  allocate {p.allocated} columns: a power of two, {ALLOCATION.least} at least"
    for cta in range(group):
        lane, column = (int(x) for x in (min(p.accumulator.lanes), 0))
        first = p.accumulator.element(cta, lane, column)
        share = f"; this CTA loads A from row {cta * p.m // group} and B from row {cta * p.n // group} of the tile" if group == 2 else ""
        yield f"  CTA {cta}: lane {lane}, column {column} is element (m {first[0]}, n {first[1]}) of the first instruction{share}"
    yield "  a warp reads the 32 lanes of its number in the warpgroup: tcgen05.ld.32x32b"


def _words(p: ProductPlan) -> list[tuple[int, int, int]]:
    """(K step, word of A, word of B) of the first block of both."""
    return [(step, int(p.a.words[0, step]), int(p.b.words[0, step])) for step in range(p.a.arrangement.steps)]


def _wgmma(p: ProductPlan) -> Iterator[str]:
    yield "// the words of descriptors stand here as numbers; your code has them in .b64 registers"
    yield "wgmma.fence.sync.aligned;"
    registers = f"{{%d0, …, %d{p.a.arrangement.instruction.n // 2 - 1}}}"
    for step, a, b in _words(p):
        yield f"{p.a.arrangement.instruction.name} {registers}, {a:#018x}, {b:#018x}, %p, 1, 1;  // K step {step}"
    yield "wgmma.commit_group.sync.aligned;"
    yield "wgmma.wait_group.sync.aligned 0;"


def _tcgen05(p: ProductPlan) -> Iterator[str]:
    group, idesc = p.a.wish.cta_group, p.idesc
    assert idesc is not None
    pair, where = group == 2, "each CTA" if group == 2 else "the CTA"
    stage = (p.a.arrangement.tile_bytes + p.b.arrangement.tile_bytes) * group
    if pair:
        yield "// all threads of both CTAs: a CTA allocates when it knows that the other one has begun"
        yield from CLUSTER_BARRIER
    yield f"// one warp of {where}: tensor memory, and its address into shared memory"
    yield f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%slot], {p.allocated};"
    yield f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;"
    yield f"// one thread of {where}; then all threads meet{' (barrier.cluster)' if pair else ''}"
    yield "mbarrier.init.shared::cta.b64 [%full], 1;"
    yield "mbarrier.init.shared::cta.b64 [%done], 1;"
    yield "fence.mbarrier_init.release.cluster;"
    yield f"// one thread{' of CTA 0: bytes of both CTAs come to its barrier' if pair else ''}"
    yield f"mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%full], {stage};"
    leader = f"; %full_of_0 is the mbarrier of CTA 0, at %full & {LEADER:#010x}" if pair else ""
    yield f"// one thread of {where}, once for each line of the tables 'issue' of A and B{leader}"
    suffix, bar = (".cta_group::2", "%full_of_0") if pair else ("", "%full")
    for name in ("a", "b"):
        yield (
            f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{suffix} [%smem_{name}], "
            f"[%map_{name}, {{%x_{name}, %y_{name}}}], [{bar}];"
        )
    yield f"// one thread{' of CTA 0' if pair else ''}, after it has waited for the phase of %full; %p is 0 in the first step"
    yield "// the words of descriptors stand here as numbers; your code has them in .b64 registers"
    if p.blocks != (1, 1):
        yield "// the first block of M and of N; the tables above have the words of the others, D of each begins at columns of its own"
    scales = "[%scale_a], [%scale_b], " if KINDS[idesc.kind].block_scaled else ""
    for step, a, b in _words(p):
        yield f"{p.a.arrangement.instruction.name} [%d], {a:#018x}, {b:#018x}, {idesc.encode():#010x}, {scales}%p;  // K step {step}"
    many = ".multicast::cluster" if pair else ""
    yield f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{many}.b64 [%done]{', 3' if pair else ''};"
    yield f"// four warps of {where}, after they have waited for the phase of %done"
    yield "tcgen05.fence::after_thread_sync;"
    yield "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%r0, …, %r31}, [%d_of_warp];  // %d + (warp * 32 << 16); the next 32 columns are at + 32"
    yield "tcgen05.wait::ld.sync.aligned;"
    if pair:
        yield "// all threads of both CTAs, when they have read: no CTA may free columns that the other one still uses"
        yield from CLUSTER_BARRIER
    yield f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %d, {p.allocated};  // one warp of {where}{'' if pair else ', when all have read'}"
