"""Errata: disagreements of documents and hardware, or of documents among themselves, and the behaviour of smemsim."""

from __future__ import annotations

from typing import NamedTuple

from smemsim.base.members import OwnMembers

__all__ = ["ERRATA", "ERRATA_TOPICS", "Erratum"]


class Erratum(NamedTuple):
    """One point in which a document and the hardware differ.

    The text of `document` is `says`. The behaviour of the hardware is `but`. If no document mentions it, `document` is
    "none". The suite of recorded cases that shows it is `trace`, or "". Other evidence is `seen`. The rule of
    `smemsim.RULES` that it belongs to is `rule`, or "".

    >>> import smemsim
    >>> next(e.but for e in smemsim.ERRATA if e.topic == "The 32B swizzle uses base offset too")
    '32B uses it too'
    """

    topic: str
    document: str
    says: str
    but: str
    trace: str = ""
    seen: str = ""
    rule: str = ""


# fmt: off
ERRATA_TOPICS: dict[str, tuple[Erratum, ...]] = {
  "wgmma and shared-memory descriptors": (
    Erratum("A K-major swizzled operand can use LBO", "PTX ISA 9.1 §9.7.15.5.1, 9.7.16.4.1",
            "LBO is not used",
            "LBO is used for bytes along K past the swizzle width. "
            "Example: a sparse instruction reads 64 B along K, and the 32B swizzle is 32 B wide",
            trace="wgmma_operands",
            rule="operand.lbo_past_width"),
    Erratum("K of a swizzled operand is at most one swizzle width", "PTX ISA 9.1 §9.7.15.5.1.2.1.3",
            "the chunks of a row along K follow each other, 16 B each (stride T in the formulas), also past the swizzle width",
            "they follow each other only up to the swizzle width. The chunks after it are LBO further. "
            "In the example of this section (tf32, 32B swizzle) the third chunk by the formula has the bytes of another row",
            trace="wgmma_operands",
            rule="operand.k_major"),
    Erratum("The 32B swizzle uses base offset too", "CUTLASS mma_sm90_desc.hpp",
            "only 128B and 64B use it",
            "32B uses it too",
            trace="wgmma_operands",
            rule="operand.base_offset"),
    Erratum("Reserved bits of a descriptor have no effect on wgmma", "PTX ISA 9.1 §9.7.15.5.1.2.2",
            "they must be 0",
            "they have no effect on wgmma",
            trace="wgmma_reserved_bits",
            rule="descriptor.reserved_bits"),
    Erratum("Integer wgmma exists up to N = 256", "PTX ISA 9.1 §9.7.15.5.2, syntax block",
            "the list ends at n224",
            "N = 24, 240 and 256 assemble and run. The table of shapes in the PTX ISA has them",
            trace="wgmma_s32"),
    Erratum("Invalid metadata of wgmma works", "PTX ISA 9.1 §9.7.15.6.1",
            "0b0000, 0b0101, 0b1010, 0b1111 and falling indices are invalid",
            "each index counts alone. Two elements of A may be multiplied with the same element of B",
            trace="wgmma_metadata",
            rule="wgmma.sparse"),
    Erratum("Metadata of tf32 selects halves of elements", "PTX ISA 9.1 §9.7.15.6.1",
            "only 0b0100 and 0b1110 are defined",
            "the two indices select 16-bit halves of B. A tf32 element is put together from them",
            trace="wgmma_metadata",
            rule="wgmma.sparse"),
    Erratum("Sums of wgmma have fixed bits", "PTX ISA 9.1 §9.7.15",
            "order, rounding and subnormals are unspecified",
            "the bits are always the same. All terms are aligned and cut once, and the sum is converted once. "
            "Subnormal numbers count",
            trace="wgmma_dots_f32",
            rule="arithmetic.wgmma"),
    Erratum("The exponent of a zero term", "MMA-Sim (arXiv 2511.10909)",
            "a zero term counts with the exponent -126 in every wgmma (the paper), or with -133 (a release after it). "
            "Release 2.1.1 agrees with the recorded cases",
            "the exponent is -133 with bf16 and tf32, and -21 with f16 operands and an f16 result. "
            "For the other types the exponent of a zero does not change any result",
            trace="wgmma_dots_f16",
            rule="arithmetic.wgmma"),
    Erratum("Zero times a large number", "MMA-Sim as released",
            "it raises the exponent to which all terms are aligned",
            "it does not raise the exponent",
            trace="wgmma_dots_f32",
            rule="arithmetic.wgmma"),
    Erratum("Negative sums that are too small for D", "later MMA-Sim, MATLAB-tensor-core",
            "D is -0",
            "D is +0, like every zero of wgmma",
            trace="wgmma_dots_f32",
            rule="arithmetic.wgmma"),
    Erratum("The low 13 bits of a tf32 NaN", "PTX ISA 9.1 §9.7.15",
            "the low 13 bits are ignored",
            "they are ignored in a NaN too. So a NaN whose other fraction bits are all 0 counts as infinity",
            trace="wgmma_dots_f32",
            rule="arithmetic.wgmma"),
    Erratum("Registers of D before wgmma.wait_group", "PTX ISA 9.1 §9.7.15.7",
            "the use of these registers before wgmma.wait_group is undefined",
            "ptxas 13.0.88 inserts a wait (C7517), serialises (C7514, C7515, C7511) or takes other registers. nvcc "
            "copies them before the wait",
            seen="machine code of ptxas",
            rule="wgmma.in_flight"),
    Erratum("Operands past the end of shared memory", "none",
            "-",
            "the lines of an operand form groups of 8. "
            "A read faults only if the first line of a group, with the whole swizzle width, does not lie in the "
            "CTA's shared memory. Other lines past the end read 0",
            trace="wgmma_window",
            rule="operand.window"),
    Erratum("A blog post's tensor map of an M-major operand", "the blog post \"SBO and LBO explained visually\", listing with rank 3",
            "it calls its function with (M, K), and counts planes of 16 B in BLOCK_K",
            "this is the map of a K-major operand. "
            "If M is contiguous, the order is (K, M), as in the listing with rank 2 of the same post. "
            "The planes follow each other along M",
            seen="the layouts of operands are measured, and the map follows from them. No test used this map on a card",
            rule="operand.mn_major"),
  ),
  "Blackwell": (
    Erratum("Version and words 16 to 31 of a tensor map", "driver 580 on sm_90a",
            "it writes version 0. In words 16 to 31 it writes sizes that are derived from the box and the swizzle",
            "CuTe DSL (nvidia-cutlass-dsl 4.8.1) encodes maps itself, with version 1 and any content in words 16 to "
            "31. These maps work, so transfers use only words 0 to 15",
            seen="programs that are right on a card",
            rule="tma.map_words"),
    Erratum("Bits 48:46 of a tcgen05 descriptor", "the blog post \"Blackwell MMA SMEM Descriptor\", CUTLASS mma_sm100_desc.hpp",
            "they are a field `version` that programs choose",
            "in PTX ISA 9.1 §9.7.16.4.1 they are the constant 0b001, not a choice. "
            "JAX (0269e49, mosaic/gpu/mma_utils.py) leaves it 0, and works",
            seen="a document, and programs that are right on a card",
            rule="descriptor.reserved_bits"),
    Erratum("SBO with 32-byte atoms", "PTX ISA 9.1 §9.7.16.4.1",
            "SBO is the distance to the next 8 columns",
            "compilers step 4 rows of K",
            seen="output of compilers",
            rule="operand.atom_32b"),
    Erratum("The lane in the address of tcgen05.ld and .st", "PTX ISA 9.1 §9.7.16.8.1",
            "a warp gives an address in its own 32 lanes",
            "only bits 4:0 of the lane count. "
            "DeepGEMM, FlashMLA and CuTe DSL give lane 0 in every warp, \"as the hardware will ignore the warp index "
            "bits\"",
            seen="programs that are right on a card",
            rule="tcgen05.warp_window"),
    Erratum("Threads with different addresses in tcgen05.ld and .st", "PTX ISA 9.1 §9.7.16.8.1",
            "all threads of a warp give the same address, or the result is undefined",
            "the address is taken from a uniform register, so that of the first thread counts. "
            "In CuTe DSL's mixed_input_fmha_prefill_d512.py each thread adds its own lane. "
            "The result is right only with the address of the first thread",
            seen="machine code of ptxas, and a program",
            rule="tcgen05.one_address"),
    Erratum("Bits 31:30 of the address of scale factors", "PTX ISA 9.1 §9.7.16.1.1",
            "bits 31:16 are the lane",
            "CUTLASS and CuTe DSL leave the scale id in bits 31:30. These bits have no effect. "
            "The id in the instruction descriptor counts",
            seen="programs that are right on a card",
            rule="tcgen05.scale_address"),
    Erratum("Bit 12 of the mxf4 instruction descriptor", "PTX ISA 9.1 §9.7.16.4.2, table 44",
            "it is reserved and 0",
            "CuTe DSL sets it (0x08401480), and its kernels are right. So the bit has no effect",
            seen="a program",
            rule="tcgen05.idesc_bits"),
    Erratum("Metadata 0b0000 of tcgen05", "PTX ISA 9.1 §9.7.16.10.8",
            "it is not among the legal values",
            "CUTLASS (sm90_sparse_gemm_compressor.hpp) writes it for a group of zeros. "
            "The products of such a group are 0 with any metadata",
            seen="a program",
            rule="tcgen05.tensor_operands"),
    Erratum("Allocations of tensor memory that grow", "PTX ISA 9.1 §9.7.16.7.1",
            "an allocation may not be larger than the one before",
            "the checks that ptxas 13.0 inserts do not look at the size. They look only at relinquish_alloc_permit",
            seen="machine code of ptxas",
            rule="tcgen05.alloc"),
    Erratum("tcgen05.dealloc of several allocations", "PTX ISA 9.1 §9.7.16.7.1",
            "it frees the columns of one allocation",
            "the checks that ptxas 13.0 inserts require that an allocation begins there, and that all columns are "
            "allocated. So one instruction can free several allocations",
            seen="machine code of ptxas",
            rule="tcgen05.alloc"),
  ),
  "Tensor maps and TMA": (
    Erratum("The line number in the swizzle", "CUDA guide, Table 11",
            "smem[y][x], where y is the row of the box",
            "y is the number of the 128-byte line. With the 128B swizzle a row of the box is a line. "
            "With 64B and 32B a line has 2 or 4 rows, so the formula of the guide is wrong",
            trace="tma_loads",
            rule="tma.placement"),
    Erratum("Rows narrower than the swizzle", "nvFuser",
            "the rows must be as wide as the swizzle",
            "narrower rows are legal. They are a full swizzle width apart",
            trace="tma_loads",
            rule="tma.placement"),
    Erratum("Alignment of global addresses of swizzled maps", "CUDA guide, Table 12",
            "128 B are required",
            "16 B are accepted and work",
            trace="tma_loads",
            rule="tensor_map.verdict"),
    Erratum("Stores at the end of dimension 0", "PTX ISA 9.1 §5.5.4",
            "they clip each element",
            "they end at the end of a 16-byte chunk",
            trace="tma_stores",
            rule="tma.store_clip"),
    Erratum("Dimensions above 2^31", "cuTensorMapEncodeTiled",
            "a dimension may have up to 2^32 elements",
            "such a map is encoded. If a dimension has more than 2^31 elements, every transfer through the map traps (715)",
            trace="tma_loads_far",
            rule="tma.traps"),
    Erratum("Global addresses above 2^57", "cuTensorMapEncodeTiled",
            "they must be aligned. The text gives no largest address",
            "an address of 2^57 or more is refused, also if it is aligned. The address 0 is accepted",
            trace="encode_tiled",
            rule="tensor_map.verdict"),
    Erratum("INTERLEAVE_32B with other swizzles", "cuTensorMapEncodeTiled",
            "it needs SWIZZLE_32B",
            "any swizzle is accepted",
            trace="encode_tiled",
            rule="tma.interleave"),
    Erratum("Strides may overlap", "cuTensorMapEncodeTiled",
            "each stride is at least the extent below it",
            "the driver does not check it. It accepts stride 0 and overlaps",
            trace="encode_tiled",
            rule="tensor_map.verdict"),
    Erratum("The largest box", "none",
            "-",
            "the driver accepts boxes of at most 233,472 B. "
            "For this check it counts floor(box / element stride) elements in each dimension. "
            "Transfers count in another way: they move ceil(box / element stride) elements, and in dimension 0 the "
            "whole box",
            trace="encode_tiled",
            rule="tma.element_strides"),
    Erratum("The element stride of dimension 0", "CUDA guide 10.29.2",
            "it takes every n-th element",
            "it is ignored without interleave",
            trace="tma_loads",
            rule="tma.element_strides"),
    Erratum("The element stride of dimension 0 with interleave", "cuTensorMapEncodeTiled",
            "the element stride of dimension 0 is ignored without interleave. "
            "The text does not mention interleave",
            "with interleave it counts slices of 16 or 32 B, and it works",
            trace="tma_interleave",
            rule="tma.interleave"),
    Erratum("Odd multiples of 16 B with INTERLEAVE_32B", "none",
            "-",
            "tensormap.replace can write a stride that is an odd multiple of 16 B: transfers then trap (715). "
            "It can write an address that is an odd multiple of 16 B: transfers then trap (716)",
            trace="tma_mode_traps",
            rule="tma.interleave"),
    Erratum("TFLOAT32_FTZ does not flush subnormals", "cuda.h, by its name",
            "FTZ in its name stands for flush to zero",
            "it rounds like TFLOAT32, and keeps subnormals. FLOAT32_FTZ copies all bits",
            trace="tma_conversions",
            rule="tma.values"),
    Erratum("A null pointer as globalStrides", "none",
            "-",
            "the driver refuses it, also at rank 1, which has no stride",
            trace="encode_pointers",
            rule="tensor_map.verdict"),
    Erratum("Alignment of the CUtensorMap in the encode call", "cuda.h",
            "64 B are required. The C type is aligned to 128 B",
            "the call accepts any address",
            trace="encode_pointers",
            rule="tensor_map.verdict"),
    Erratum("Alignment of the CUtensorMap in transfers", "cuda.h",
            "the C type is aligned to 128 B",
            "64 B are enough for loads and prefetches. A smaller alignment traps (716)",
            trace="tma_mode_traps",
            rule="tma.map_bits"),
    Erratum("Loads wholly outside of the tensor", "none",
            "-",
            "they still look up the first byte of the tensor. If its address is not mapped, they fault (700)",
            trace="tma_edited",
            rule="tma.bounds"),
    Erratum("Bits of a tensor map that have no effect", "CUDA driver API",
            "the 128 bytes are opaque",
            "on Hopper these have no effect: the version, bits 31:19 of word 2, words 17 and 19 to 31, and fields "
            "past the rank. The derived words 16 and 18 have no effect either",
            trace="tma_edited",
            rule="tma.map_bits"),
    Erratum("tensormap.replace never clears the tf32 bit", "PTX ISA 9.1 §9.7.9.28",
            "elemtype sets the type",
            "elemtype sets the tf32 bit of the map and never clears it. "
            "If the new type is not FLOAT32 or FLOAT32_FTZ, every load then traps (715, recorded in `tma_edited`)",
            trace="tensormap_replace",
            rule="tensor_map.replace"),
    Erratum("The unit of global_stride in tensormap.replace", "ptxas 12.3, 12.4",
            "the operand counts units of 16 B",
            "from ptxas 12.5 on it counts bytes, as the PTX ISA says",
            seen="machine code of ptxas",
            rule="tensor_map.replace"),
  ),
  "im2col": (
    Erratum("Spatial dimensions of im2col above 2^31", "cuTensorMapEncodeIm2col",
            "a dimension may have up to 2^32 elements",
            "dimension + upper corner is a signed 32-bit number, and must exceed the lower corner. "
            "So spatial dimensions above 2^31 are refused",
            trace="encode_im2col",
            rule="tma.im2col"),
    Erratum("im2col starts outside of the pixel box", "PTX ISA 9.1 §5.5.5, examples 2 and 3",
            "the coordinates of the examples lie outside of the pixel box",
            "every load, store and prefetch that starts outside traps (715)",
            trace="tma_mode_traps",
            rule="tma.im2col"),
    Erratum("The order of the im2col corners", "cuTensorMapEncodeIm2col",
            "the order is D, H, W",
            "W comes first, then H and D",
            trace="tma_im2col",
            rule="tma.im2col"),
    Erratum("The element stride of N in im2col", "none",
            "-",
            "N advances by its element stride. It does not start again at its lower end",
            trace="tma_im2col",
            rule="tma.im2col"),
    Erratum("im2col offsets that do not fit their field", "PTX ISA 9.1 §9.7.9.27",
            "an axis has 8 bits at rank 4, and 5 bits at rank 5",
            "ptxas 13.0 packs 16 bits for each axis. At rank 4 the card uses only the lower 8 bits of an axis. "
            "At rank 5 it adds the bits that do not fit to the next axis",
            trace="tma_mode_traps",
            rule="tma.im2col"),
    Erratum("Corners of im2col stores", "none",
            "-",
            "every store traps (715) if a lower corner is below 0 or an upper one above 0",
            trace="tma_mode_traps",
            rule="tma.im2col"),
    Erratum("channelsPerPixel with interleave", "cuTensorMapEncodeIm2col",
            "the number of channels of a pixel",
            "the driver checks and encodes the number. Transfers ignore it: a pixel is one slice",
            trace="tma_im2col_interleave",
            rule="tma.interleave"),
    Erratum("cuTensorMapEncodeIm2colWide on Hopper: accepted", "cuTensorMapEncodeIm2colWide",
            "its maps need compute capability 10.0 or higher",
            "the call works. It writes a plain im2col map with corners 0 along H and D",
            trace="encode_im2col_wide",
            rule="tma.blackwell"),
    Erratum("cuTensorMapEncodeIm2colWide on Hopper: the mode", "cuTensorMapEncodeIm2colWide",
            "mode W128 ignores pixelsPerColumn",
            "the driver drops the mode. It checks and encodes pixelsPerColumn",
            trace="encode_im2col_wide",
            rule="tma.blackwell"),
    Erratum("cuTensorMapEncodeIm2colWide on Hopper: swizzles", "cuTensorMapEncodeIm2colWide",
            "64B, 128B or 128B_ATOM_32B are allowed, and no interleave",
            "NONE, 32B and both interleaves are accepted too. 128B_ATOM_32B is refused",
            trace="encode_im2col_wide",
            rule="tma.blackwell"),
    Erratum("cuTensorMapEncodeIm2colWide on Hopper: corners", "cuTensorMapEncodeIm2colWide",
            "a corner has 16 bits for every rank",
            "a corner has 16, 8 or 5 bits at rank 3, 4 or 5",
            trace="encode_im2col_wide",
            rule="tma.blackwell"),
  ),
  "Bulk copies, reductions and multicast": (
    Erratum(".add in tensor reductions", "PTX ISA 9.1 §9.7.9.27",
            "add exists for f32. It is not listed for f64",
            "add works on FLOAT64, FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ, too",
            trace="tma_reduce_traps",
            rule="reduce.types"),
    Erratum(".and, .or and .xor in tensor reductions", "PTX ISA 9.1 §9.7.9.27",
            "they exist for any 32- or 64-bit type",
            "they exist for UINT32, INT32 and UINT64. INT64 and all floating-point types trap (715)",
            trace="tma_reduce_traps",
            rule="reduce.types"),
    Erratum("add.f32 in bulk reductions keeps subnormals", "PTX ISA 9.1 §9.7.9.25.4.2",
            "it flushes subnormals",
            "it keeps them",
            trace="bulk_reductions",
            rule="reduce.values"),
    Erratum("Sizes of bulk copies", "PTX ISA 9.1 §9.7.9.25.4.1",
            "it must be a multiple of 16 B",
            "any size runs. It is rounded down to a multiple of 16 B: the rest is neither moved nor counted. "
            "A copy of 2^20 B moves nothing",
            trace="bulk_traps",
            rule="bulk.size"),
    Erratum("The mbarrier of a load into another CTA", "PTX ISA 9.1 §9.7.9.27",
            "it must be in the destination's CTA",
            "the rank in the mbarrier's address is ignored. "
            "The mbarrier at this offset in the destination's CTA counts the bytes",
            trace="multicast_traps",
            rule="multicast.delivery"),
    Erratum("Multicast masks with no CTA or a missing CTA", "none",
            "-",
            "an empty mask delivers and counts nothing. A bit for a CTA that does not exist ends in error 719",
            trace="multicast_traps",
            rule="multicast.masks"),
    Erratum(".shared addresses in a cluster", "CUDA guide",
            "a .shared address is an offset in the CTA's own shared memory",
            "it contains the CTA's rank in bits 31:24. An address without a rank is that of CTA 0",
            trace="cluster_addresses",
            rule="cluster.addresses"),
  ),
  "PTX instructions and ptxas": (
    Erratum("mapa with a rank that does not exist", "PTX ISA 9.1 §9.7.9, mapa",
            "the result is undefined",
            "the result is an address, and only an access to it is an error. "
            "Version 13.0.88 of ptxas compiles mapa to PRMT, which replaces one byte of the address and checks no rank. "
            "Kernels of the CuTe DSL rely on it: every lane computes such an address",
            seen="machine code of ptxas",
            rule="cluster.addresses"),
    Erratum("Scalar video instructions", "PTX ISA 9.1 §9.7.18.1",
            "clamp, compare and merge give exact results",
            ".sat limits u32 only at 0, and turns negative numbers that are merged into the largest number. "
            "A part .h1 takes bits 31:16. "
            "The operations .min and .max of vset.s32 read c as a signed number. smemsim refuses these instructions",
            seen="an H200 (driver 580; no trace is kept)"),
    Erratum("Generic addresses in .shared operands", "PTX ISA 9.1 §5.1",
            "an instruction with .shared takes an address of that state space",
            "ptxas takes the low 32 bits. They are the same in a generic address of shared memory. "
            "ThunderKittens passes a generic address to tcgen05.alloc",
            seen="machine code of ptxas, and a program",
            rule="shared.generic"),
    Erratum("ptxas 12.8 to 13.0: loops of 64-bit products", "PTX ISA 9.1 §9.7.1",
            "mad.lo and mul.lo give the low 64 bits in every iteration",
            "ptxas 12.8 to 13.0 and the driver (580) at -O3 leave out iterations if the low half of the product has "
            "become 0. With the factor 16 they execute 8 iterations, with the factor 4 they execute 16. It happens for sm_80, sm_90a and sm_100a. "
            "It is right at -O1 and in ptxas 13.4.59 (docs/found/ptxas.md)",
            seen="an H100, and machine code"),
    Erratum("ptxas 12.8 to 13.0: lop3 that names a register twice", "PTX ISA 9.1 §9.7.8",
            "any three registers are allowed, and a following logical instruction is separate",
            "ptxas 12.8 to 13.0 joins lop3 and the following instruction, with a table that belongs to other "
            "operands. It does so at -O1 too (docs/found/ptxas.md)",
            seen="machine code, and two programs on an H100"),
    Erratum("max of a NaN with itself", "PTX ISA 9.1 §9.7.3",
            "the result is the canonical NaN, 0x7fffffff",
            "ptxas compiles max.f32 d, a, a to a move. So the bits of the NaN stay (docs/found/ptxas.md)",
            seen="an H100"),
    Erratum("cvt.rp.ftz to f16", "PTX ISA 9.1 §9.7.9.22",
            "it flushes subnormal inputs to zero",
            "`cvt.{rp,rm}.ftz[.sat].f16.f32` of a subnormal gives the smallest f16, not 0. "
            "The machine code has no .ftz here",
            seen="an H200 (driver 580, tests/data/h200_arithmetic.json)"),
    Erratum("fns with the smallest offset", "PTX ISA 9.1 §9.7.1.19",
            "the result is 0xffffffff if there is no such bit",
            "offset 0x80000000 gives 0 for every mask",
            seen="an H200 (tests/data/h200_arithmetic.json)"),
    Erratum("brkpt without a debugger", "PTX ISA 9.1 §9.7.20",
            "it suspends execution",
            "it ends the kernel with CUDA error 719",
            seen="an H200 (tests/data/h200_fault_codes.json.gz)"),
  ),
  "mbarriers, launches and the CUDA runtime": (
    Erratum("The range of the transaction count", "PTX ISA 9.1 §9.7.13.15.2",
            "it is at most 2^20 - 1",
            "2^20 is no error. A larger count ends the launch with 719",
            seen="an H200 (tests/data/h200_fault_codes.json.gz)"),
    Erratum("The count of mbarrier.init", "PTX ISA 9.1 §9.7.13.15.9",
            "it is 1 to 2^20 - 1",
            "other counts are no error: the low 20 bits of the count are used, and the higher bits go into the phase "
            "field",
            seen="an H200"),
    Erratum("More lanes arrive than the phase expects", "PTX ISA 9.1 §9.7.13.15.13",
            "each lane arrives",
            "the lanes of a warp arrive together. "
            "If they are more than the arrivals that the phase still expects, the launch ends with 719",
            seen="an H200 (tests/data/h200_fault_codes.json.gz)"),
    Erratum("st.async and red.async without a cluster", "PTX ISA 9.1 §9.7.9.12",
            "they need no cluster",
            "in a launch without cluster dimensions, the first st.async or red.async ends the launch with 715. "
            "Its destination may even be the own CTA. With cluster dimensions of one CTA it runs",
            seen="an H200 (tests/data/h200_fault_codes.json.gz)"),
    Erratum("Formats of printf in a kernel", "CUDA C++ programming guide, formatted output",
            "they work like the printf of C, with sizes h, l, ll",
            "the sizes z, j, t and L, and a precision *, are not known, and take no argument. "
            "A format without a known conversion is printed unchanged",
            seen="an H200 (tests/data/h200_printf.json.gz)"),
    Erratum("Errors of refused launches", "CUDA runtime API, cudaLaunchKernel",
            "the errors are cudaErrorInvalidConfiguration and cudaErrorLaunchOutOfResources",
            "three cases are cudaErrorInvalidValue: a grid or block outside the limits, more threads than .maxntid, "
            "and a block of another size than .reqntid",
            seen="an H200 (driver 580, tests/data/h200_launch_limits.json.gz)"),
    Erratum("cudaOccupancyAvailableDynamicSMemPerBlock", "CUDA runtime API",
            "it returns the dynamic shared memory with which this number of blocks fits",
            "it does not subtract the memory that the system reserves for each block. "
            "With the size that it returns, fewer blocks fit",
            seen="an H200 (tests/data/h200_launch_limits.json.gz)"),
  ),
}
# fmt: on


class Errata(tuple[Erratum, ...], metaclass=OwnMembers):
    """The points in which a document and the hardware differ, a tuple of `Erratum`. docs/evidence/errata.md has all.

    >>> import smemsim
    >>> smemsim.ERRATA[0].document
    'PTX ISA 9.1 §9.7.15.5.1, 9.7.16.4.1'
    """


ERRATA = Errata(one for of in ERRATA_TOPICS.values() for one in of)
