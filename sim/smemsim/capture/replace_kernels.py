"""The tensormap.replace probe: every instruction that an architecture has, the sequences to run, and the CUDA C++ that
runs them.

Which fields, ordinals and immediates exist is read from the table of the instruction; what they do to the bytes is not.
"""

from __future__ import annotations

import dataclasses
import random

from smemsim.core.spec.tensor_map_replace import REPLACE_FIELDS

SPACES = ("global", "shared::cta")
INPUTS = ("zeros", "ones", "random", "tiled", "im2col")
MAX_STEPS = 8
LEAST_STEPS = 4800
EDGES = {
    32: (0, 1, 2, 4, 5, 7, 8, 9, 16, 17, 255, 256, 257, 300, 512, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1),
    64: (0, 1, 8, 15, 16, 17, 24, 1 << 32, (1 << 32) + 16, (1 << 36) - 16, 1 << 36, (1 << 40) - 16, 1 << 40, (1 << 40) + 16, (1 << 44) - 16, 1 << 56,
         1 << 57, 1 << 63, (1 << 64) - 16, (1 << 64) - 1),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Op:
    """One instruction: an immediate stands in its text, other operands come in a register of `bits` bits."""

    field: str
    ordinal: int | None
    immediate: int | None
    bits: int

    def asm(self, space: str) -> str:
        operands = ["[%0]"]
        if self.ordinal is not None:
            operands.append(str(self.ordinal))
        operands.append("%1" if self.immediate is None else str(self.immediate))
        inputs = ['"l"(map)' if space == "global" else '"r"(shared_address(map))']
        if self.immediate is None:
            inputs.append('"r"((unsigned)value)' if self.bits == 32 else '"l"(value)')
        text = f"tensormap.replace.tile.{self.field}.{space}.b1024.b{self.bits} {', '.join(operands)};"
        return f'asm volatile("{text}" ::{", ".join(inputs)} : "memory")'


@dataclasses.dataclass(frozen=True)
class Sequence:
    """Up to eight replaces, one after the other on one map; a step is (index of the op, value)."""

    start: str  # of INPUTS
    space: int
    steps: tuple[tuple[int, int], ...]


def ops(arch: str) -> list[Op]:
    out = []
    for row in REPLACE_FIELDS.values():
        if row.exists_on(arch):
            for ordinal in range(row.ordinals) if row.ordinals else (None,):
                for immediate in range(row.accepted[arch]) if row.codes else (None,):
                    out.append(Op(row.name, ordinal, immediate, row.bits))
    return out


def source(arch: str) -> str:
    """One warp a sequence. Step s works on a copy of what step s - 1 left, in global memory (`space` 0) or shared
    memory (1).
    """

    def cases(space: str) -> str:
        return "\n".join(f"    case {i}: {op.asm(space)}; break;" for i, op in enumerate(ops(arch)))

    return f"""#include "probes.cuh"

__device__ void replace_global(unsigned op, unsigned char *map, unsigned long long value) {{
    switch (op) {{
{cases("global")}
    }}
}}

__device__ void replace_shared(unsigned op, unsigned char *map, unsigned long long value) {{
    switch (op) {{
{cases("shared::cta")}
    }}
}}

// `maps` holds 128 bytes for the input of a sequence and 128 for the result of each of its steps, from slot `slots[s]` on.
extern "C" __global__ void __launch_bounds__(32) probe_replace(unsigned char *maps, const unsigned *slots, const unsigned *spaces,
                                                              const unsigned *op, const unsigned long long *value) {{
    __shared__ __align__(128) unsigned smem[32];
    unsigned first = slots[blockIdx.x], last = slots[blockIdx.x + 1] - 1, lane = threadIdx.x;
    unsigned *all = (unsigned *)maps;
    smem[lane] = all[first * 32 + lane];
    __syncthreads();
    for (unsigned slot = first; slot < last; slot++) {{
        unsigned step = slot - blockIdx.x;  // a sequence has one slot more than steps
        all[(slot + 1) * 32 + lane] = all[slot * 32 + lane];
        __syncthreads();
        if (lane == 0 && spaces[blockIdx.x] == 0) replace_global(op[step], maps + (slot + 1) * 128ull, value[step]);
        if (lane == 0 && spaces[blockIdx.x] == 1) replace_shared(op[step], (unsigned char *)smem, value[step]);
        __syncthreads();
        if (spaces[blockIdx.x] == 1) all[(slot + 1) * 32 + lane] = smem[lane];
        __syncthreads();
    }}
}}
"""


def sequences(seed: int, arch: str) -> list[Sequence]:
    """Every op first on every kind of map in both spaces, every edge of every register, then random ones."""
    rng, listed, out = random.Random(seed), ops(arch), []

    def value(op: Op) -> int:
        if op.immediate is not None:
            return op.immediate
        if rng.random() < 0.5:
            return rng.choice(EDGES[op.bits])
        return rng.getrandbits(rng.choice((4, 9, 16, 31, 32, 32) if op.bits == 32 else (16, 36, 40, 41, 57, 64)))

    def some(count: int) -> tuple[tuple[int, int], ...]:
        return tuple((i, value(listed[i])) for i in (rng.randrange(len(listed)) for _ in range(count)))

    for i, op in enumerate(listed):
        out += [Sequence(start, space, ((i, value(op)), *some(rng.randrange(4)))) for start in INPUTS for space in (0, 1)]
        if op.immediate is None:
            out += [Sequence(rng.choice(INPUTS[2:]), rng.randrange(2), ((i, edge),)) for edge in EDGES[op.bits]]
    types = [i for i, op in enumerate(listed) if op.field == "elemtype"]
    for i in types:  # one element type after another: what the first leaves behind
        out += [
            Sequence(rng.choice(("zeros", "tiled")), rng.randrange(2), ((i, listed[i].immediate or 0), (j, listed[j].immediate or 0)))
            for j in types
        ]
    while sum(len(s.steps) for s in out) < LEAST_STEPS:
        out.append(Sequence(rng.choice(INPUTS), rng.randrange(2), some(rng.randrange(2, MAX_STEPS + 1))))
    return out
