"""The suites that the kit can run on each card. The suite that settles the most a minute comes first."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BLACKWELL", "DECIDES", "HOPPER", "PLANS", "Planned", "chosen", "plan_of"]


class Planned(NamedTuple):
    """One suite: its name, the seconds that it takes, and the question that it answers.

    The seconds of a suite of Hopper are those of an H200, and a little more. For Blackwell they are estimates from the
    number of cases, because no card has run them. `needs` names a program that has to be on the PATH.
    """

    suite: str
    seconds: int
    question: str
    needs: str = ""


HOPPER = (
    Planned("tma_wgmma", 3, "Does wgmma find a tile where TMA has put it?"),
    Planned("reference_gemm", 3, "A whole kernel, TMA to wgmma: shared memory and D"),
    Planned("encode_tiled", 3, "Which maps does cuTensorMapEncodeTiled take and write?"),
    Planned("wgmma_operands", 13, "Which byte does wgmma read for every element?"),
    Planned("tma_loads", 4, "Which byte does a tiled load put where?"),
    Planned("tma_stores", 7, "Which byte does a tiled store put where?"),
    Planned("wgmma_f32", 7, "Whole wgmma instructions, f32 accumulators, every type"),
    Planned("wgmma_f16", 6, "Whole wgmma instructions, f16 accumulators"),
    Planned("wgmma_s32", 6, "Whole wgmma instructions, s32 accumulators"),
    Planned("wgmma_sparse", 9, "wgmma.sp: every type, both selectors"),
    Planned("wgmma_dots_f32", 8, "How does wgmma add? f32: tiny and large terms, NaNs"),
    Planned("wgmma_dots_f16", 6, "How does wgmma add with f16 accumulators?"),
    Planned("wgmma_dots_s32", 5, "Do sums of integers wrap or clamp?"),
    Planned("wgmma_reserved_bits", 2, "Does any reserved bit of a descriptor do anything?"),
    Planned("multicast", 3, "Which bytes does a multicast load bring to each CTA?"),
    Planned("cluster_addresses", 2, "Which addresses does mapa give, and whose are they?"),
    Planned("bulk_copies", 3, "Which byte does cp.async.bulk put where?"),
    Planned("bulk_reductions", 3, "What does cp.reduce.async.bulk make of memory?"),
    Planned("tensormap_replace", 2, "What does tensormap.replace make of a map?"),
    Planned("tma_values", 2, "What does TMA do to ties, subnormals, infinities, NaNs?"),
    Planned("wgmma_metadata", 3, "Sparsity metadata of every pattern, also undefined ones"),
    Planned("tma_swizzle_bits", 7, "Which swizzle do bits 22:19 of word 2 select?"),
    Planned("encode_im2col", 3, "Which maps does cuTensorMapEncodeIm2col take and write?"),
    Planned("encode_pointers", 2, "Which pointers do the encode calls refuse?"),
    Planned("encode_im2col_wide", 3, "Which maps does cuTensorMapEncodeIm2colWide take?"),
    Planned("tma_reductions", 9, "What does a tensor reduction make of global memory?"),
    Planned("tma_conversions", 13, "What do conversions make of special values?"),
    Planned("tma_interleave", 11, "Interleaved tiled loads"),
    Planned("tma_interleave_stores", 8, "Interleaved tiled stores"),
    Planned("tma_im2col_stores", 8, "im2col stores without offsets"),
    Planned("wgmma_window", 63, "What happens to an operand outside shared memory?"),
    Planned("tma_loads_far", 25, "Loads with coordinates near 2^31"),
    Planned("tma_load_traps", 57, "Which loads trap, and with which error?"),
    Planned("tma_store_traps", 44, "Which stores trap, and with which error?"),
    Planned("bulk_traps", 25, "Which bulk copies trap, and with which error?"),
    Planned("multicast_traps", 21, "Which loads into other CTAs trap?"),
    Planned("tma_im2col_interleave", 25, "im2col loads with interleave"),
    Planned("tma_im2col", 60, "im2col loads: corners, offsets, element strides"),
    Planned("tma_reduce_traps", 40, "Which reductions does hardware refuse?"),
    Planned("tma_mode_traps", 130, "Which transfers of every mode trap?"),
    Planned("tma_edited", 130, "Transfers through maps that no encoder writes"),
    Planned("textures", 40, "What do textures give?", needs="nvcc"),
    Planned("surfaces", 20, "What do surfaces give, and what do stores leave?", needs="nvcc"),
    Planned("surface_traps", 30, "Which surface accesses trap?", needs="nvcc"),
)

BLACKWELL = (
    Planned("tmem_layouts", 60, "Where in tensor memory does each element of D lie?"),
    Planned("tcgen05_operands", 60, "Which byte does tcgen05.mma read for every element?"),
    Planned("tcgen05_descriptor_edges", 150, "LBO past the width, base_offset, reserved bits, bit 52"),
    Planned("tcgen05_copies", 30, "Which lanes and columns does tcgen05.cp write?"),
    Planned("tmem_access", 60, "Where does each register of tcgen05.ld and st lie?"),
    Planned("tcgen05_gemm", 30, "A whole kernel, TMA to tcgen05.ld: D, bit for bit"),
    Planned("tcgen05_dots_directed", 30, "How does tcgen05.mma add? Rounding, zeros, scales, NaNs"),
    Planned("tmem_scales", 30, "Which scale byte multiplies each row and block of K?"),
    Planned("tmem_metadata", 20, "Which nibble of metadata selects each group of K?"),
    Planned("tmem_operands", 30, "A in tensor memory: 4- and 6-bit types, .ws, pairs"),
    Planned("tcgen05_modifiers", 30, "scale-input-d, negation, masks, collector buffers"),
    Planned("tcgen05_dots", 30, "Random dot products of every kind"),
    Planned("tmem_shifts", 15, "What does tcgen05.shift move?"),
    Planned("tcgen05_allocations", 60, "Which columns does tcgen05.alloc give, or refuse?"),
    Planned("tcgen05_commits", 10, "At which mbarriers does tcgen05.commit arrive, how often?"),
    Planned("tcgen05_contention", 30, "Does tcgen05.alloc wait, or fail, if nothing is free?"),
    Planned("tma_gather4", 15, "gather4: order of rows, rows outside, bytes counted"),
    Planned("tma_scatter4", 15, "scatter4: which rows are written"),
    Planned("tma_im2col_wide", 20, "im2col::w: halo, offset, steps"),
    Planned("tma_atoms", 20, "Swizzles with 32- and 64-byte atoms, and the flipped one"),
    Planned("tma_sub_byte_stores", 15, "4- and 6-bit types: what a store pads"),
    Planned("tma_pairs", 15, "Which mbarrier do .cta_group::2 loads count on?"),
    *(p for p in HOPPER if p.suite in (
        "encode_tiled", "tma_loads", "tma_stores", "tma_values", "encode_im2col", "encode_pointers", "encode_im2col_wide", "tma_swizzle_bits", "tma_reductions",
        "tma_conversions", "tma_interleave", "tma_interleave_stores", "tma_im2col_stores", "tma_loads_far", "tma_load_traps", "tma_store_traps",
        "tma_im2col_interleave", "tma_im2col", "tma_reduce_traps", "tma_mode_traps", "tma_edited",
    )),
)  # fmt: skip

# Disputes of `smemsim.DISPUTES` that a suite of Blackwell decides: PLAN.md has the question and the
# outcome that decides it.
DECIDES = {
    "tcgen05_descriptor_edges": ("reserved bits of shared-memory descriptors",),
    "tcgen05_operands": ("MN-major 4- and 6-bit operands of f8f6f4",),
    "tmem_layouts": ("N of M = 128", "N of a pair", "N of kind i8", "M of block-scaled pairs", "layout C", "layout E"),
    "tcgen05_modifiers": ("zero-column mask",),
    "tcgen05_copies": ("4x256b", "columns of tcgen05.cp", "tcgen05.cp of two CTAs", "decompression"),
    "tmem_metadata": ("metadata of M = 64",),
    "tmem_access": ("unpack::16b",),
    "tmem_shifts": ("direction of shift",),
    "tma_im2col_wide": ("im2col::w::128", "im2col::w with an element stride of N"),
    "tma_atoms": ("SWIZZLE_128B_ATOM_32B", "SWIZZLE_128B_ATOM_32B_FLIP_8B", "SWIZZLE_128B_ATOM_64B", "SWIZZLE_96B"),
    "tma_sub_byte_stores": ("16U6_ALIGN16B, 16U4_ALIGN16B",),
    "tmem_scales": ("scales of B in two CTAs",),
    "tcgen05_dots_directed": ("bits kept of 4-bit types", "zeros with f16 accumulators", "sign of zero"),
    "tmem_operands": ("A of .ws",),
    "tcgen05_dots": ("mixed f16 and bf16",),
}

# no kernel runs: every card with such a driver answers
ENCODERS = tuple(p for p in HOPPER if p.suite.startswith("encode_"))
SUMS = (Planned("mma_sync_sums", 10, "How does mma.sync add? Bits kept, halves of K, scales"),)
PLANS = {
    "sm_90a": HOPPER, "sm_100a": BLACKWELL, "sm_103a": BLACKWELL, **dict.fromkeys(("sm_80", "sm_86", "sm_89"), SUMS),
    **dict.fromkeys(("sm_120a", "sm_121a"), (*SUMS, *ENCODERS)),
}  # fmt: skip


def plan_of(arch: str) -> tuple[Planned, ...]:
    """The suites for a card. The suite that settles the most a minute comes first. Cards that the kit has no kernels
    for are asked for the driver's encoder alone.

    >>> plan_of("sm_90a")[0].suite, [p.suite for p in plan_of("sm_120a")][:2], plan_of("sm_110a")[0].suite
    ('tma_wgmma', ['mma_sync_sums', 'encode_tiled'], 'encode_tiled')
    """
    return PLANS.get(arch, ENCODERS)


def chosen(plan: tuple[Planned, ...], seconds: float) -> tuple[Planned, ...]:
    """The first suites of a plan that fit a time; a later one that is shorter may fit where one does not.

    >>> [p.suite for p in chosen(plan_of("sm_90a"), 12)]
    ['tma_wgmma', 'reference_gemm', 'encode_tiled', 'wgmma_reserved_bits']
    """
    left, out = seconds, []
    for planned in plan:
        if planned.seconds <= left:
            out.append(planned)
            left -= planned.seconds
    return tuple(out)
