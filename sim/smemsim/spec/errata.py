"""Where documents and silicon disagree, or documents among themselves: what each says, and what smemsim does."""

from __future__ import annotations

import dataclasses

__all__ = ["ERRATA", "Erratum"]


@dataclasses.dataclass(frozen=True)
class Erratum:
    """One disagreement; `trace` is the suite that settles it, empty where none does."""

    topic: str
    document: str
    says: str
    but: str
    trace: str = ""


# fmt: off
ERRATA: tuple[Erratum, ...] = (
    Erratum("LBO in K-major swizzled modes", "PTX ISA 9.1 §9.7.15.5.1, 9.7.16.4.1", "is not used",
            "it is used for K bytes beyond the swizzle width (sparse operand, 32B)", "wgmma_operands"),
    Erratum("K-major canonical layouts", "PTX ISA 9.1 §9.7.15.5.1.2.1.3", "repeat K in units of 2k chunks at stride T",
            "one swizzle width at most; the 32B tf32 example overlaps itself from the third chunk on", "wgmma_operands"),
    Erratum("modes that use base_offset", "CUTLASS mma_sm90_desc.hpp", "128B and 64B only", "32B too", "wgmma_operands"),
    Erratum("reserved descriptor bits", "PTX ISA 9.1 §9.7.15.5.1.2.2", "must be 0", "have no effect on wgmma", "wgmma_reserved_bits"),
    Erratum("N of integer wgmma", "PTX ISA 9.1 §9.7.15.5.2, syntax block", "ends at n224", "24, 240 and 256 assemble and run, as the shape table says", "wgmma_s32"),
    Erratum("metadata that the ISA calls invalid", "PTX ISA 9.1 §9.7.15.6.1", "0b0000, 0b0101, 0b1010, 0b1111 and falling indices are invalid",
            "every index counts by itself: two elements may meet the same one of B", "wgmma_metadata"),
    Erratum("tf32 metadata", "PTX ISA 9.1 §9.7.15.6.1", "0b0100 and 0b1110, all else is undefined",
            "indices name 16-bit halves of B, which a tf32 is put together from", "wgmma_metadata"),
    Erratum("arithmetic of wgmma", "PTX ISA 9.1 §9.7.15", "order, rounding and subnormals are unspecified",
            "the same bits always: one alignment, truncation, one conversion; subnormals count", "wgmma_dots_f32"),
    Erratum("exponent with which zeros count", "MMA-Sim (arXiv 2511.10909)", "-126, later -133 for all of wgmma (mmasim 2.1.1 agrees with the trace)",
            "-133 with bf16 and tf32, -21 with f16 into f16; no other instruction shows it", "wgmma_dots_f16"),
    Erratum("zero times a large number", "MMA-Sim as released", "raises the exponent that all terms are aligned to", "does not", "wgmma_dots_f32"),
    Erratum("negative sums too small for D", "later MMA-Sim, MATLAB-tensor-core", "-0", "+0, as every zero of wgmma", "wgmma_dots_f32"),
    Erratum("NaN in the low 13 bits of tf32", "PTX ISA 9.1 §9.7.15", "low bits are ignored", "also where they make it a NaN: it counts as infinity", "wgmma_dots_f32"),
    Erratum("accumulators of a wgmma in flight", "PTX ISA 9.1 §9.7.15.7", "undefined before wgmma.wait_group",
            "ptxas 13.0.88 waits itself (C7517), serialises (C7514, C7515, C7511) or takes other registers; nvcc copies them in front of the wait"),
    Erratum("operands past the shared window", "none", "-",
            "fault only when the first of 8 lines does not fit with a swizzle width; later lines read 0", "wgmma_window"),
    Erratum("swizzle index relation", "CUDA guide, Table 11", "smem[y][x] with y the row of the box",
            "y is the 128-byte line: the same for 128B, wrong for boxes of 64 and 32 bytes", "tma_loads"),
    Erratum("rows narrower than the swizzle", "nvFuser", "must equal the swizzle width", "legal; rows lie a full swizzle width apart", "tma_loads"),
    Erratum("global alignment of swizzled maps", "CUDA guide, Table 12", "128 B", "16 B is accepted and works", "tma_loads"),
    Erratum("stores at the inner boundary", "PTX ISA 9.1 §5.5.4", "clip per element", "clip at whole 16-byte chunks", "tma_stores"),
    Erratum("tensor sizes", "cuTensorMapEncodeTiled", "up to 2^32 a dimension", "encoded, but every transfer traps above 2^31", "tma_loads_far"),
    Erratum("global addresses", "cuTensorMapEncodeTiled", "must be aligned", "must also be below 2^57; 0 is accepted", "encode_tiled"),
    Erratum("INTERLEAVE_32B", "cuTensorMapEncodeTiled", "needs SWIZZLE_32B", "any swizzle is accepted", "encode_tiled"),
    Erratum("stride order", "cuTensorMapEncodeTiled", "each stride at least the extent below it", "not checked; 0 and overlaps are accepted", "encode_tiled"),
    Erratum("size of the box", "none", "-", "at most 233,472 B, counted with floor(box / element stride), dimension 0 included", "encode_tiled"),
    Erratum("im2col bounding box", "cuTensorMapEncodeIm2col", "dimensions up to 2^32",
            "dim + upper is taken as a signed 32-bit number and must exceed lower, so that spatial dimensions above 2^31 are refused", "encode_im2col"),
    Erratum("element stride of dimension 0", "CUDA guide 10.29.2", "takes every n-th element", "is ignored without interleave", "tma_loads"),
    Erratum("im2col start outside the pixel box", "PTX ISA 9.1 §5.5.5, examples 2 and 3", "the examples start outside",
            "every load, store and prefetch that starts outside traps (715)", "tma_mode_traps"),
    Erratum("order of the im2col corners", "cuTensorMapEncodeIm2col", "D, H, W", "W comes first", "tma_im2col"),
    Erratum("element stride of the im2col image dimension", "none", "-", "N advances by its element stride, and never wraps", "tma_im2col"),
    Erratum("im2col offsets beyond their field", "PTX ISA 9.1 §9.7.9.27", "8 bits an axis at rank 4, 5 at rank 5",
            "code of ptxas 13.0 packs 16 bits: cut to 8 bits at rank 4, carried into the next axis at rank 5", "tma_mode_traps"),
    Erratum("corners of im2col stores", "none", "-", "a lower corner below 0 or an upper one above 0 traps (715) on every store", "tma_mode_traps"),
    Erratum("channelsPerPixel with interleave", "cuTensorMapEncodeIm2col", "channels of a pixel", "checked and encoded, then ignored: a pixel is one slice",
            "tma_im2col_interleave"),
    Erratum("element stride of dimension 0 with interleave", "cuTensorMapEncodeTiled", "says only that it is ignored without",
            "counts slices of 16 or 32 B, and works", "tma_interleave"),
    Erratum("address and strides with INTERLEAVE_32B", "none", "-",
            "a stride that is an odd multiple of 16 B, put in behind the encoder, traps (715), an address (716)", "tma_mode_traps"),
    Erratum("TFLOAT32_FTZ on loads", "cuda.h, by its name", "flushes subnormals to zero", "rounds as TFLOAT32, subnormals kept; FLOAT32_FTZ copies", "tma_conversions"),
    Erratum("FLOAT64 and the TF32 types in tensor reductions", "PTX ISA 9.1 §9.7.9.27", "add on f32, not on f64",
            "add runs on FLOAT64, FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ too", "tma_reduce_traps"),
    Erratum("and, or, xor in tensor reductions", "PTX ISA 9.1 §9.7.9.27", "any 32- or 64-bit type",
            "UINT32, INT32 and UINT64 have them; INT64 and all floating types trap (715)", "tma_reduce_traps"),
    Erratum("add.f32 in bulk reductions", "PTX ISA 9.1 §9.7.9.25.4.2", "flushes subnormals", "keeps them", "bulk_reductions"),
    Erratum("size of a bulk copy", "PTX ISA 9.1 §9.7.9.25.4.1", "must be a multiple of 16 B",
            "any size runs: what is over a multiple of 16 B is neither moved nor credited; 2^20 B moves nothing", "bulk_traps"),
    Erratum("barrier of a load into another CTA", "PTX ISA 9.1 §9.7.9.27", "must be in the destination's CTA",
            "the rank in its address is ignored: the barrier at that offset in the destination's CTA counts", "multicast_traps"),
    Erratum("ctaMask", "none", "-", "0 delivers and credits nothing; a bit for a CTA that is not there ends in error 719", "multicast_traps"),
    Erratum(".shared addresses in a cluster", "CUDA guide", "offsets in the CTA's own window",
            "carry the CTA's rank in bits 31:24; an address without one is CTA 0's", "cluster_addresses"),
    Erratum("wide maps on Hopper", "cuTensorMapEncodeIm2colWide", "compute capability 10.0 or higher",
            "accepted; a plain im2col map is written, with corners 0 along H and D", "encode_im2col_wide"),
    Erratum("wide mode", "cuTensorMapEncodeIm2colWide", "W128 ignores pixelsPerColumn", "on Hopper the mode is dropped, pixelsPerColumn is checked and encoded",
            "encode_im2col_wide"),
    Erratum("wide swizzle and interleave", "cuTensorMapEncodeIm2colWide", "64B, 128B or 128B_ATOM_32B, no interleave",
            "on Hopper NONE, 32B and both interleaves are accepted too, 128B_ATOM_32B is refused", "encode_im2col_wide"),
    Erratum("wide corners", "cuTensorMapEncodeIm2colWide", "16 bits for every rank", "on Hopper 16, 8 or 5 bits for rank 3, 4 or 5", "encode_im2col_wide"),
    Erratum("mapa of a rank that the cluster has not", "PTX ISA 9.1 §9.7.9, mapa", "undefined",
            "an address all the same, which is an error where it is used: ptxas 13.0.88 replaces one byte (PRMT); CuTe DSL computes it in every lane"),
    Erratum("scalar video instructions", "PTX ISA 9.1 §9.7.18.1", "clamp, compare and merge exact results",
            "seen on an H200 (driver 580; no trace is kept): .sat clamps u32 at 0 alone and turns negative numbers that are merged into the largest, .h1 gets bits 31:16, .min and .max of vset.s32 take c for signed; smemsim refuses these"),
    Erratum("null globalStrides", "none", "-", "refused also at rank 1, which has no stride", "encode_pointers"),
    Erratum("alignment of the CUtensorMap, encoding", "cuda.h", "64 B (its type is aligned to 128)", "the call accepts any address", "encode_pointers"),
    Erratum("alignment of the CUtensorMap, use", "cuda.h", "its type is aligned to 128 B", "64 B is enough for loads and prefetches, less traps (716)",
            "tma_mode_traps"),
    Erratum("loads wholly outside the tensor", "none", "-", "still look up the tensor's first byte: an unmapped base faults (700)", "tma_edited"),
    Erratum("bits of the 128 bytes that no encoder writes", "none", "opaque",
            "no effect on Hopper: version, bits 31:19 of word 2, words 17 and 19 to 31, fields past the rank; nor have the derived words 16 and 18", "tma_edited"),
    Erratum("version and words 16 to 31 of the 128 bytes on Blackwell", "driver 580 on sm_90a", "writes 0, and sizes derived from the box and the swizzle",
            "CuTe DSL (nvidia-cutlass-dsl 4.8.1) encodes maps itself: version 1, and whatever its stack held; transfers go by words 0 to 15 alone"),
    Erratum("tf32 bit left behind by tensormap.replace", "PTX ISA 9.1 §9.7.9.28", "elemtype sets the type",
            "elemtype only ever sets that bit; with a type other than FLOAT32 and FLOAT32_FTZ every load then traps (715, trace `tma_edited`)", "tensormap_replace"),
    Erratum("global_stride in tensormap.replace", "ptxas 12.3, 12.4", "the operand counts 16 B", "from 12.5 on it counts bytes, as the PTX ISA says"),
    Erratum("SBO of 128B_ATOM_32B MN-major", "PTX ISA 9.1 §9.7.16.4.1", "next 8 columns", "compilers step 4 columns of K"),
    Erratum("lane of tcgen05.ld and .st", "PTX ISA 9.1 §9.7.16.8.1", "a warp gives an address in its own 32 lanes",
            "only bits 4:0 of the lane count: DeepGEMM, FlashMLA and CuTe DSL give lane 0 in every warp, \"as the hardware will ignore the warp index bits\""),
    Erratum("one address of tcgen05.ld and .st", "PTX ISA 9.1 §9.7.16.8.1", "the same in all threads of a warp, or undefined",
            "a uniform register has it: CuTe DSL's mixed_input_fmha_prefill_d512.py has each thread add its own lane, and needs that of the first"),
    Erratum("generic addresses for .shared", "PTX ISA 9.1 §5.1", "an instruction with .shared takes an address of that window",
            "ptxas takes the low 32 bits, which a generic address of shared memory has as well; ThunderKittens gives tcgen05.alloc one"),
    Erratum("addresses of scale factors", "PTX ISA 9.1 §9.7.16.1.1", "bits 31:16 are the lane",
            "CUTLASS and CuTe DSL leave the scale id in bits 31:30: they do nothing, the instruction descriptor's id counts"),
    Erratum("bit 12 of the mxf4 instruction descriptor", "PTX ISA 9.1 §9.7.16.4.2, table 44", "reserved, 0", "does nothing: CuTe DSL sets it (0x08401480)"),
    Erratum("metadata 0b0000 of tcgen05", "PTX ISA 9.1 §9.7.16.10.8", "is not among the values",
            "CUTLASS (sm90_sparse_gemm_compressor.hpp) writes it for a group of zeros, whose products are 0 whatever they meet"),
    Erratum("allocations that grow", "PTX ISA 9.1 §9.7.16.7.1", "none may be larger than the one before", "the code of ptxas 13.0 checks relinquish_alloc_permit alone"),
    Erratum("columns of tcgen05.dealloc", "PTX ISA 9.1 §9.7.16.7.1", "those of one allocation",
            "the code of ptxas 13.0 asks that one begins there and that all are taken: several at once can be given back"),
)
# fmt: on
