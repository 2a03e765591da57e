"""Words against CuTe DSL's descriptors: the fields of shared-memory descriptors and of instruction descriptors.

CuTe DSL names bits that the PTX ISA reserves (`spec.disputes.CUTE_DSL_BITS`). Words that have one of them set are a
class of their own, and are compared without them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from smemsim.campaign.oracles.differential import Case, Oracle, Verdict
from smemsim.core.spec.disputes import CUTE_DSL_BITS
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["ORACLE", "case_of", "compare"]


_SMEM = {
    "start_address": "start_address",
    "leading_byte_offset": "leading_byte_offset",
    "stride_byte_offset": "stride_byte_offset",
    "base_offset": "base_offset",
    "layout_type": "layout_type",
}
_INSTR = {
    "sparse_flag": "sparsity",
    "a_format": "a_type",
    "b_format": "b_type",
    "a_negate": "negate_a",
    "b_negate": "negate_b",
    "a_major": "transpose_a",
    "b_major": "transpose_b",
    "n_dim": "n",
    "m_dim": "m",
}
_SCALED = {"b_sf_id": "b_sf_id", "a_sf_id": "a_sf_id", "scale_format": "scale_type"}
# For each word: CuTe DSL's class, its fields and ours.
WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "sm_90a": ("WgmmaSmemDesc", _SMEM),
    "sm_100a": ("Tcgen05SmemDesc", _SMEM | {"version": "constant"}),
    "f16": ("Tcgen05InstrDesc", _INSTR | {"sparse_id2": "sparsity_selector", "saturate": "saturate", "c_format": "d_type", "max_shift": "max_shift"}),
    "mxf8f6f4": ("Tcgen05MxInstrDesc", _INSTR | _SCALED),
    "mxf4": ("Tcgen05MxOmmaInstrDesc", {name: mine for name, mine in (_INSTR | _SCALED).items() if not mine.startswith("transpose")} | {"k_dim_lower": "k_size", "sparsity_version": "sparsity_version"}),
}  # fmt: skip


def compare(case: Case) -> Verdict:
    """One word, field by field, as raw bits."""
    from cutlass.experimental import primitives

    of, word = case["of"], case["word"]
    name, fields = WORDS[of]
    ours: Any = SmemDescriptor.decode(word, arch=of) if of.startswith("sm_") else InstrDescriptor.decode(word, kind=of)
    known = sum(1 << bit for bit in CUTE_DSL_BITS.get(of, ()))
    theirs = getattr(primitives, name)(word & ~known)
    differ = [
        f"{mine} {raw}, {other} {int(getattr(theirs, other))} there"
        for other, mine in fields.items()
        if (raw := ours.table.fields[mine].raw(word)) != int(getattr(theirs, other))
    ]
    kind = f"{of}, with bits that only CuTe DSL names" if word & known else of
    return kind, f"{word:#x} as {name}: {'; '.join(differ)}" if differ else ""


def case_of(rng: random.Random) -> Case:
    """An arbitrary word of one of the kinds."""
    of = rng.choice(list(WORDS))
    return {"of": of, "word": rng.getrandbits(64 if of.startswith("sm_") else 32)}


def _smaller(case: Case) -> Iterator[Case]:
    """A bit less."""
    for bit in range(64):
        if case["word"] >> bit & 1:
            yield case | {"word": case["word"] & ~(1 << bit)}


ORACLE = Oracle(
    "cute-descriptors", "fields of arbitrary descriptor words against CuTe DSL's classes of shared-memory and instruction descriptors",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=2000, needs=("cutlass",),
)  # fmt: skip
