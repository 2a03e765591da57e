"""Faults that compilers of Python kernels are known to make: for which findings in which instructions, in which
versions, and what is free of them.

Each row was seen (docs/found has the programs) or is reported in the compiler's own tracker. The first row that fits
counts.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMPILER_FAULTS", "CompilerFault"]


class CompilerFault(NamedTuple):
    """A fault of a compiler. Its `codes` are the findings it causes. It has a pattern of the instruction's text, and
    operations that the program must have.

    The behaviour of the compiler is `says`. Versions without the fault are `free`. The place where it was seen is
    `source`.
    """

    compiler: str
    codes: tuple[str, ...]
    instruction: str
    uses: frozenset[str]
    says: str
    free: str
    source: str
    is_of_global: bool = False  # does it concern accesses of global memory too?


_ANY: frozenset[str] = frozenset()
_SHARED = r"shared|ldmatrix|stmatrix|cp\.async|wgmma|tcgen05"

COMPILER_FAULTS = (
    CompilerFault(
        "Triton", ("X003",), r"", _ANY,
        "a Triton kernel cannot write fence.proxy.async, so the compiler must; Triton 3.3 to 3.6 leave it out, and 3.8.0 leaves it out in a loop of cp.async before tcgen05.mma",
        "Triton 3.7.1 or 3.9.0, or tensor descriptors for the loads", "triton-lang/triton #9610, #10537, #7262",
    ),
    CompilerFault(
        "Triton", ("X015",), r"tcgen05", frozenset(("tcgen05",)),
        "Triton 3.9.0 emits it for a product with M = 64 and 512 columns on Blackwell",
        "M = 128, or fewer columns in one product (half of the head dimension at a time)", "triton-lang/triton #10309, open",
    ),
    CompilerFault(
        "Triton", ("X004",), r"cp\.async\.bulk", _ANY,
        "between a store and a load by tensor descriptors of the same elements, Triton 3.3 to 3.6 wait for the reads of shared memory alone (cp.async.bulk.wait_group.read)",
        "Triton 3.9.0", "docs/found/triton.md",
    ),
    CompilerFault(
        "Triton", ("X007",), r"", frozenset(("wgmma",)),
        "Triton 3.3 to 3.6 load registers of A again before wgmma has read them, and ptxas then serialises wgmma",
        "Triton 3.9.0", "docs/found/triton.md",
    ),
    CompilerFault(
        "Triton", ("X003", "X004", "X005", "X007", "X012", "X014"), r"", _ANY,
        "a Triton kernel (tl.load, tl.dot, tl.store) cannot set this order, so the compiler must",
        "another version of Triton, or another num_stages; or tensor descriptors in place of pointers, or the reverse; or report the fault to Triton", "the PTX of the kernel",
    ),
    CompilerFault(
        "Triton", ("X008",), _SHARED, _ANY,
        "a Triton kernel has no shared memory of its own, so the compiler has to order these accesses",
        "another version of Triton, or another num_stages; or report the fault to Triton", "the PTX of the kernel",
    ),
    CompilerFault(
        "Gluon", ("X008",), r"shared::cluster|mapa", _ANY,
        "the compiler of Gluon 3.9.0 puts no cluster barrier before a CTA's first access to the shared memory of another CTA",
        "a cluster barrier in the kernel before that access", "docs/found/triton.md",
    ),
    CompilerFault(
        "TileLang", ("X005",), r"cp\.async", _ANY,
        "with num_stages=2, TileLang 0.1.15 puts the wait for the product after the copy into the stage that the product reads",
        "num_stages=1, or a wait for the product before T.copy in a loop without T.Pipelined", "docs/found/tilelang.md",
    ),
    CompilerFault(
        "TileLang", ("X008",), r"\b(atom|red|ld|st)\.global|\b(atom|red)\b", _ANY,
        "AtomicAdd of TileLang 0.1.15 ignores memory_order for types other than float16 and bfloat16",
        "a fence before and after the atomic operation", "TileLang 0.1.15, tl_templates/cuda/atomic.h", True,
    ),
)  # fmt: skip
