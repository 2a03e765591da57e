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
    Erratum("LBO in K-major swizzled modes", "PTX ISA 9.7.15.5.1, 9.7.16.4.1", "is not used",
            "it is used for K bytes beyond the swizzle width (sparse operand, 32B)", "wgmma_operands"),
    Erratum("K-major canonical layouts", "PTX ISA 9.7.15.5.1.2.1.3", "repeat K in units of 2k chunks at stride T",
            "one swizzle width at most; the 32B tf32 example overlaps itself from the third chunk on", "wgmma_operands"),
    Erratum("modes that use base_offset", "CUTLASS mma_sm90_desc.hpp", "128B and 64B only", "32B too", "wgmma_operands"),
    Erratum("reserved descriptor bits", "PTX ISA 9.7.15.5.1.2.2", "must be 0", "have no effect on wgmma", "wgmma_reserved_bits"),
    Erratum("operands past the shared window", "none", "-",
            "fault only when the first of 8 lines does not fit with a swizzle width; later lines read 0", "wgmma_window"),
    Erratum("swizzle index relation", "CUDA guide, Table 11", "smem[y][x] with y the row of the box",
            "y is the 128-byte line: the same for 128B, wrong for boxes of 64 and 32 bytes", "tma_loads"),
    Erratum("rows narrower than the swizzle", "nvFuser", "must equal the swizzle width", "legal; rows lie a full swizzle width apart", "tma_loads"),
    Erratum("global alignment of swizzled maps", "CUDA guide, Table 12", "128 B", "16 B is accepted and works", "tma_loads"),
    Erratum("stores at the inner boundary", "PTX ISA 5.5.4", "clip per element", "clip at whole 16-byte chunks", "tma_stores"),
    Erratum("tensor sizes", "cuTensorMapEncodeTiled", "up to 2^32 a dimension", "encoded, but every transfer traps above 2^31", "tma_loads_far"),
    Erratum("global addresses", "cuTensorMapEncodeTiled", "must be aligned", "must also be below 2^57; 0 is accepted", "encode_tiled"),
    Erratum("INTERLEAVE_32B", "cuTensorMapEncodeTiled", "needs SWIZZLE_32B", "any swizzle is accepted", "encode_tiled"),
    Erratum("stride order", "cuTensorMapEncodeTiled", "each stride at least the extent below it", "not checked; 0 and overlaps are accepted", "encode_tiled"),
    Erratum("size of the box", "none", "-", "at most 233,472 B, counted with floor(box / element stride), dimension 0 included", "encode_tiled"),
    Erratum("im2col bounding box", "cuTensorMapEncodeIm2col", "dimensions up to 2^32",
            "dim + upper is taken as a signed 32-bit number and must exceed lower, so that spatial dimensions above 2^31 are refused", "encode_im2col"),
    Erratum("element stride of dimension 0", "CUDA guide 10.29.2", "takes every n-th element", "is ignored without interleave", "tma_loads"),
    Erratum("SBO of 128B_ATOM_32B MN-major", "PTX ISA 9.7.16.4.1", "next 8 columns", "compilers step 4 columns of K"),
)
# fmt: on
