"""Findings of kernels in Python. The faults that compilers are known to make: the findings, the versions, and what is
free of the fault. And the calls of a language that make what the PTX lacks.

Each fault was seen (docs/found has the programs) or is reported in the compiler's own tracker. The calls are those of
Triton 3.6 to 3.9 and CuTe DSL 4.8.1. The first row that fits counts.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMPILER_FAULTS", "LANGUAGE_CALLS", "CompilerFault", "LanguageCall"]


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
        "Triton 3.3 to 3.6 leave out the fence; 3.8.0 leaves it out in a loop of cp.async before tcgen05.mma",
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
        "a Triton kernel cannot set this order, so the compiler must",
        "try another version of Triton, another num_stages, or tensor descriptors instead of pointers, and report it to Triton", "the PTX of the kernel",
    ),
    CompilerFault(
        "Triton", ("D301", "D302", "D303", "D304", "D306", "D307", "D308", "D309", "I601", "I602", "I603", "R502", "R503"), r"wgmma|tcgen05", _ANY,
        "Triton writes the descriptors",
        "try another version of Triton or another block size, and report it to Triton", "the PTX of the kernel", True,
    ),
    CompilerFault(
        "Triton", ("X006", "T210", "X009", "X010", "X016"), r"mbarrier|tcgen05|cp\.async\.bulk|barrier", _ANY,
        "Triton writes the barriers and the tensor memory",
        "try another version of Triton or another num_stages, and report it to Triton", "the PTX of the kernel",
    ),
    CompilerFault(
        "Triton", ("R507", "X008"), _SHARED, _ANY,
        "a Triton kernel has no shared memory of its own: Triton writes these accesses",
        "try another version of Triton or another num_stages, and report it to Triton", "the PTX of the kernel",
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


class LanguageCall(NamedTuple):
    """The call of a language that makes what a finding's fix names in PTX. `instruction` is a pattern of the text of an
    instruction of the finding.
    """

    language: str
    codes: tuple[str, ...]
    instruction: str
    call: str


_WAITS = ("X004", "X005", "X012")
LANGUAGE_CALLS = (
    LanguageCall("Triton", ("X017",), "", "acc = tl.dot(a, b, acc) in each iteration of the sum"),
    LanguageCall("Triton", ("X001",), r"global|cp\.async", "mask=offsets < n in tl.load or tl.store"),
    LanguageCall("Triton", ("X008",), r"global", "let each program store its own elements (tl.program_id), or use tl.atomic_add"),
    LanguageCall("Triton", ("R501",), "", "give TensorDescriptor the block_shape and dtype of the kernel: Triton chooses the swizzle from them"),
    LanguageCall("Triton", ("R505",), "", "write tl.dot(a, b.T) instead of tl.dot(a, b), or the reverse"),
    LanguageCall("Triton", ("R507",), r"global", "use mask and other=0.0 in tl.load, or store these elements first (the mask of tl.store)"),
    LanguageCall("Triton", ("T209",), r"bulk\.tensor|mma", "keep the offsets of desc.load([row, k]) below the shape of the descriptor; both count elements"),
    LanguageCall("Triton", ("R508",), r"bulk\.tensor", "correct the offsets of desc.load([row, k]), which count elements, or block_shape of the descriptor"),
    LanguageCall("Triton", ("R508",), r"mma", "correct the offsets of the loads for tl.dot"),
    LanguageCall("Triton", ("T207", "T214"), r"bulk\.tensor", "correct the strides of the tensor descriptor, which count elements"),
    LanguageCall("Gluon", ("R505",), "", "pass smem.permute((1, 0)) as the operand, or pass it without permute"),
    LanguageCall("Gluon", ("T209", "R508"), r"bulk\.tensor", "correct the offsets [row, k] of tma.async_load, which count elements"),
    LanguageCall("Gluon", ("R507",), r"tcgen05", "use_acc=False in the first tcgen05_mma of the sum, or a store to the tensor memory before"),
    LanguageCall("Gluon", ("X003",), "", "fence_async_shared() after the stores"),
    LanguageCall("Gluon", _WAITS, r"cp\.async\.bulk.*mbarrier", "mbarrier.wait(bar, phase), with the phase of this load"),
    LanguageCall("Gluon", _WAITS, r"cp\.(reduce\.)?async\.bulk", "tma.store_wait(pendings=0)"),
    LanguageCall("Gluon", _WAITS, r"cp\.async", "async_copy.wait_group(0)"),
    LanguageCall("Gluon", _WAITS, r"wgmma", "warpgroup_mma_wait(num_outstanding=0)"),
    LanguageCall("Gluon", _WAITS, r"tcgen05\.(mma|cp)", "tcgen05_commit(bar), and mbarrier.wait(bar, phase) before this line"),
    LanguageCall("Gluon", ("X017",), r"tcgen05\.mma", "use_acc=False only in the first tcgen05_mma of a sum"),
    LanguageCall("Gluon", ("X017",), r"wgmma", "use_acc=False only in the first warpgroup_mma of a sum"),
    LanguageCall("Gluon", ("T210",), "", "mbarrier.expect(bar, bytes)"),
    LanguageCall("Gluon", ("X006",), "mbarrier", "mbarrier.arrive(bar), mbarrier.expect(bar, bytes), or the count of mbarrier.init(bar, count)"),
    LanguageCall("Gluon", ("R501", "D302"), "", "the same swizzle_byte_width in the NVMMASharedLayout of the load and of the operand"),
    LanguageCall("CuTe DSL", ("X003",), "", "cute.arch.fence_view_async_shared() after the stores"),
    LanguageCall("CuTe DSL", _WAITS, r"cp\.async\.bulk.*mbarrier", "cute.arch.mbarrier_wait(bar, phase), or consumer_wait of the pipeline"),
    LanguageCall("CuTe DSL", _WAITS, r"cp\.(reduce\.)?async\.bulk", "cute.arch.cp_async_bulk_wait_group(0, read=True)"),
    LanguageCall("CuTe DSL", _WAITS, r"cp\.async", "cute.arch.cp_async_wait_group(0), then cute.arch.sync_threads()"),
    LanguageCall("CuTe DSL", _WAITS, r"wgmma", "cute.nvgpu.warpgroup.wait_group(0)"),
    LanguageCall("CuTe DSL", _WAITS, r"tcgen05\.(mma|cp)", "tcgen05.commit(bar), and cute.arch.mbarrier_wait(bar, phase) before this line"),
    LanguageCall("CuTe DSL", ("X014",), "", "cute.nvgpu.warpgroup.fence() before the first product"),
    LanguageCall("CuTe DSL", ("X017",), "", "tiled_mma.set(Field.ACCUMULATE, False) only before the first product of a sum"),
    LanguageCall("CuTe DSL", ("T210",), "", "cute.arch.mbarrier_arrive_and_expect_tx(bar, bytes), or tx_count of the pipeline"),
    LanguageCall("CuTe DSL", ("X006",), "mbarrier", "cute.arch.mbarrier_arrive(bar), or the count of cute.arch.mbarrier_init(bar, count)"),
)  # fmt: skip
