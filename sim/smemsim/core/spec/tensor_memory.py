"""Tensor memory of sm_100a and sm_103a as tables: its size, its allocator, and the layout of every instruction.

Nothing here is measured. Rows of `Grade.DOCUMENTED` are text of the PTX ISA. Rows of `Grade.COMPILED` are facts that
CUTLASS and production kernels rely on, since most lane maps of the PTX ISA are figures. Rows of `Grade.INFERRED` are
reasoned from those.
"""

from __future__ import annotations

from typing import NamedTuple

from smemsim.core.spec.grades import Dispute, Grade

__all__ = [
    "ACCUMULATORS",
    "ALLOCATION",
    "A_CONTAINER_BITS",
    "A_GRADES",
    "A_ROW_BITS",
    "CELL_BITS",
    "COLUMNS",
    "COPY_SHAPES",
    "DECOMPRESSIONS",
    "LANES",
    "LANE_SHIFT",
    "LOAD_STORE_SHAPES",
    "METADATA",
    "SCALE_ID_SHIFT",
    "SCALE_MODES",
    "SHIFT",
    "TENSOR_MEMORY_ARCHITECTURES",
    "TENSOR_MEMORY_DISPUTES",
    "WARP_LANES",
    "AccumulatorPath",
    "Allocation",
    "CopyShape",
    "Decompression",
    "LoadStoreShape",
    "MetadataRow",
    "ScaleMode",
    "Shift",
]


TENSOR_MEMORY_ARCHITECTURES = ("sm_100a", "sm_103a", "sm_110a")
LANES, COLUMNS, CELL_BITS = 128, 512, 32  # of one CTA: 256 KiB; PTX ISA 9.1 §9.7.16.1
LANE_SHIFT = 16  # address = lane << 16 | column; PTX ISA 9.1 §9.7.16.1.1
# Bits 31:30 of an address of scale factors are the scale id. CUTLASS's make_runtime_instr_desc_block_scaled
# (mma_sm100_desc.hpp) and CuTe DSL make that of the instruction descriptor from them, and pass the address with these
# bits.
SCALE_ID_SHIFT = 30
WARP_LANES = 32  # warp w of a warpgroup reaches lanes 32 w ... 32 w + 31; PTX ISA 9.1 §9.7.16.8.1

_D, _C, _I = Grade.DOCUMENTED, Grade.COMPILED, Grade.INFERRED
_FRAG = "CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp"
_COPY = "CUTLASS include/cute/atom/copy_traits_sm100.hpp"


class Allocation(NamedTuple):
    """tcgen05.alloc: a power of two of columns, all lanes of each. PTX ISA 9.1 §9.7.16.7.1."""

    least: int = 32
    most: int = COLUMNS
    unit: int = 32  # "the unit of allocation and de-allocation is 32 columns"
    source: str = "PTX ISA 9.1 §9.7.16.7.1"
    policy: str = (
        # which columns one gets is in no document; UTCATOMSWS.FIND_AND_SET.ALIGN by its name
        "first fit on multiples of its own size"
    )
    policy_grade: Grade = _I


ALLOCATION = Allocation()


class AccumulatorPath(NamedTuple):
    """One of the seven organizations of D. `rows` of M are in one CTA. N is in `split` bands of lanes, one after the
    other.

    The rows take the first `block` of every 32 lanes, from one of the `lanes` on. `ws` or `sparse` None: either.
    """

    name: str
    m: int
    cta_group: int
    ws: bool | None
    sparse: bool | None
    rows: int
    split: int
    block: int
    datapath: str
    lanes: tuple[int, ...]
    grade: Grade
    source: str


# fmt: off
ACCUMULATORS: tuple[AccumulatorPath, ...] = (
    #               M  group  ws     sparse rows split block path       lanes
    AccumulatorPath("A", 256, 2, False, None,  128, 1, 32, "4x1",       (0,),    _C, f"PTX ISA 9.1 §9.7.16.10.5.1; {_FRAG}, tmem_frg_2sm M=128"),
    AccumulatorPath("B", 128, 2, False, False,  64, 2, 32, "2x2",       (0,),    _C, f"PTX ISA 9.1 §9.7.16.10.5.2; {_FRAG}, tmem_frg_2sm M=64"),
    AccumulatorPath("C", 128, 2, False, True,   64, 1, 16, "4x1, half", (0, 16), _I, "PTX ISA 9.1 §9.7.16.10.5.3, a figure; read as layout F of each CTA, as TVM's tmem_datapath_layout does"),
    AccumulatorPath("D", 128, 1, None,  None,  128, 1, 32, "4x1",       (0,),    _C, f"PTX ISA 9.1 §9.7.16.10.5.4; {_FRAG}, tmem_frg_1sm M=128"),
    AccumulatorPath("E",  64, 1, True,  None,   64, 2, 32, "2x2",       (0,),    _C, f"{_FRAG}, tmem_frg_ws M=64; PTX ISA 9.1 §9.7.16.10.5.5 prints the data path as 2x3"),
    AccumulatorPath("F",  64, 1, False, None,   64, 1, 16, "4x1, half", (0, 16), _C, f"PTX ISA 9.1 §9.7.16.10.5.6; {_FRAG}, tmem_frg_1sm M=64; Triton (second tile at lane 16)"),
    AccumulatorPath("G",  32, 1, True,  None,   32, 4, 32, "1x4",       (0,),    _C, f"{_FRAG}, tmem_frg_ws M=32; PTX ISA 9.1 §9.7.16.10.5.7"),
)
# fmt: on

# Bits that one element of A takes in tensor memory; PTX ISA 9.1 §9.7.16.10.4. The 4- and 6-bit types of the 8-bit kinds
# have a byte each.
A_CONTAINER_BITS = {"tf32": 32, "f16": 16, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
# of a row of A that one instruction reads: K elements of these, in 8 columns; half of the K of a sparse one. PTX ISA
# 9.1 §9.7.16.2, §9.7.16.10.4
A_ROW_BITS = 256

# Where A lies in tensor memory, by the organization of D: in the lanes of D, once for every band of N.
A_GRADES: dict[str, tuple[Grade, str]] = {
    "A": (_C, f"{_FRAG}, tmem_frg_2sm M=128"),
    "B": (_C, f"{_FRAG}, TmemAllocMode::Duplicated"),
    "C": (_I, "the lanes of D, which PTX ISA 9.1 §9.7.16.10.5 wants aligned alike for A and D"),
    "D": (_C, f"{_FRAG}, tmem_frg_1sm M=128"),
    "E": (_C, "FlashMLA's dual GEMM (.ws, M = 64): each half of the lanes is multiplied with its own half of N"),
    "F": (_C, f"{_FRAG}, TmemAllocMode::NonInterleaved"),
    "G": (_I, "as E, with four bands"),
}


class LoadStoreShape(NamedTuple):
    """A shape of tcgen05.ld and tcgen05.st: lanes of a warp's window, bits of a lane, 32-bit registers of a thread, all
    for .x1.
    """

    name: str
    lanes: int
    bits: int
    registers: int
    most: int  # the largest .xN
    grade: Grade
    source: str

    @property
    def columns(self) -> int:
        """Columns of .x1, unpacked; of .16x32bx2 in each half."""
        return self.bits // CELL_BITS


# fmt: off
LOAD_STORE_SHAPES: dict[str, LoadStoreShape] = {s.name: s for s in (
    #              name       lanes bits regs most      register counts: PTX ISA 9.1 §9.7.16.8.3, Tables 49, 50; maps: figures 183 to 187, and CUTLASS
    LoadStoreShape("32x32b",    32,  32,  1, 128, _D, f"PTX ISA 9.1 §9.7.16.2.3; {_COPY}, SM100_TMEM_LOAD_32dp32b"),
    LoadStoreShape("16x64b",    16,  64,  1, 128, _C, f"{_COPY}, SM100_TMEM_LOAD_16dp64b"),
    LoadStoreShape("16x128b",   16, 128,  2,  64, _C, f"{_COPY}, SM100_TMEM_LOAD_16dp128b"),
    LoadStoreShape("16x256b",   16, 256,  4,  32, _C, f"{_COPY}, SM100_TMEM_LOAD_16dp256b"),
    LoadStoreShape("16x32bx2",  16,  32,  1, 128, _C, f"{_COPY}, SM100_TMEM_LOAD_16dp32b; PTX ISA 9.1 §9.7.16.8.3: a second access at taddr + immHalfSplitoff"),
)}
# fmt: on


class CopyShape(NamedTuple):
    """A shape of tcgen05.cp with its multicast: row r goes to lane r % run + r / run * run_step, and again every
    `copy_step` lanes.
    """

    name: str
    multicast: str
    rows: int
    row_bytes: int
    run: int
    run_step: int
    copies: int
    copy_step: int
    grade: Grade
    source: str

    @property
    def columns(self) -> int:
        """Columns of tensor memory that are written."""
        return self.row_bytes * 8 // CELL_BITS

    @property
    def bytes(self) -> int:
        """Bytes read from shared memory, without decompression."""
        return self.rows * self.row_bytes


# fmt: off
COPY_SHAPES: dict[tuple[str, str], CopyShape] = {(s.name, s.multicast): s for s in (
    #         shape      multicast       rows  B  run step copies step
    CopyShape("128x256b", "",              128, 32, 128,  0, 1,  0, _C, f"PTX ISA 9.1 §9.7.16.9.2; {_COPY}, SM100_UTCCP_128dp256bit"),
    CopyShape("128x128b", "",              128, 16, 128,  0, 1,  0, _C, f"PTX ISA 9.1 §9.7.16.9.2; {_COPY}, SM100_UTCCP_128dp128bit"),
    CopyShape("4x256b",   "",                4, 32,   1, 32, 1,  0, _I, f"{_COPY}, SM100_UTCCP_4dp256bit: layout and comment disagree"),
    CopyShape("64x128b",  "warpx2::02_13",  64, 16,  64,  0, 2, 64, _C, f"PTX ISA 9.1 §9.7.16.9.2; {_COPY}, SM100_UTCCP_2x64dp128bitlw0213"),
    CopyShape("64x128b",  "warpx2::01_23",  64, 16,  32, 64, 2, 32, _C, f"PTX ISA 9.1 §9.7.16.9.2; {_COPY}, SM100_UTCCP_2x64dp128bitlw0123"),
    CopyShape("32x128b",  "warpx4",         32, 16,  32,  0, 4, 32, _C, f"PTX ISA 9.1 §9.7.16.9.2; {_COPY}, SM100_UTCCP_4x32dp128bit"),
)}
# fmt: on


class Decompression(NamedTuple):
    """tcgen05.cp .b8x16: 16 elements of `bits` packed at the front of each 16-byte chunk become a byte each, moved up
    by `shift` bits.
    """

    name: str
    bits: int
    shift: int
    types: tuple[str, ...]
    grade: Grade
    source: str


_NARROW = "TIRx-harness 0.1.2.post2 tests/numsim/microtests/cases/tcgen05_transfer_semantics.py, compared byte by byte with a B200"
# fmt: off
DECOMPRESSIONS: dict[str, Decompression] = {d.name: d for d in (
    # The elements of a chunk are text (PTX ISA 9.1 §9.7.16.9.1); their place in the byte is in figures 194 to 201.
    # The sign of E2M1 is at the place of the sign of the 6-bit types. CuTe DSL's cp_narrow_a_to_tmem_mma.py says bits
    # 6:1 for the latter; its own check passes whenever copy and product agree.
    Decompression("b4x16_p64", 4, 2, ("e2m1",),         _C, f"{_NARROW}; PTX ISA 9.1 §9.7.14.5 (mma: bits 5:2); CUTLASS fp4_shift"),
    Decompression("b6x16_p32", 6, 0, ("e2m3", "e3m2"),  _C, f"{_NARROW}; PTX ISA 9.1 §9.7.14.5 (mma: bits 5:0)"),
)}
# fmt: on


class ScaleMode(NamedTuple):
    """A scale_vectorsize: `scales` bytes a row, the first at byte `id` of the cell, for instructions of kinds `kinds`
    and dense `k`.
    """

    name: str
    block: int
    kinds: tuple[str, ...]
    k: tuple[int, ...]
    scales: int
    ids: tuple[int, ...]
    grade: Grade
    source: str


_NVF4, _MXF4 = "mxf4nvf4", "mxf4"
# fmt: off
SCALE_MODES: tuple[ScaleMode, ...] = (
    ScaleMode("1X",      32, ("mxf8f6f4",),  (32, 64),  1, (0, 1, 2, 3), _D, "PTX ISA 9.1 §9.7.16.10.7.2.1"),
    ScaleMode("2X",      32, (_MXF4, _NVF4), (64, 128), 2, (0, 2),       _D, "PTX ISA 9.1 §9.7.16.10.7.2.2"),
    ScaleMode("4X",      16, (_NVF4,),       (64, 128), 4, (0,),         _D, "PTX ISA 9.1 §9.7.16.10.7.2.3"),
    ScaleMode("block32", 32, (_MXF4, _NVF4), (96,),     3, (0, 1, 2, 3), _C, "PTX ISA 9.1 §9.7.16.10.7.2.4: the id is a byte offset; CuTe DSL sm103 kernels"),
    ScaleMode("block16", 16, (_NVF4,),       (96,),     6, (0, 2),       _C, "PTX ISA 9.1 §9.7.16.10.7.2.5: the id is a byte offset; CuTe DSL sm103 kernels"),
)
# fmt: on


class MetadataRow(NamedTuple):
    """Sparsity metadata of one kind: `k` logical elements a row, `pair_bits` bits for two of them, `columns` columns.

    With `interleaved`, 16 rows share 8 lanes twice: rows m and m + 8 are in one cell, the second half of K 8 lanes
    further. An index has 4 bits for `chunk` logical elements; `indices` are the valid ones.
    """

    kinds: tuple[str, ...]
    k: int
    pair_bits: int
    columns: int
    interleaved: bool
    selectors: tuple[int, ...]
    chunk: int
    indices: tuple[int, ...]
    source: str


# The index that encoders write for a group of zeros: both indices 0. The PTX ISA does not list it. If the stored
# elements are zero, the product is the same for any elements of B. Compiled: CUTLASS
# transform/kernel/sm90_sparse_gemm_compressor.hpp, example 83 on sm_100a.
EMPTY_GROUP = 0b0000

_TWO_OF_FOUR = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
# fmt: off
METADATA: dict[str, MetadataRow] = {kind: row for row in (
    MetadataRow(("tf32",),                       16, 4, 1, True,  (0, 1), 2, (0b1110, 0b0100), f"PTX ISA 9.1 §9.7.16.10.8.1; {_FRAG}, tmem_e_frg"),
    MetadataRow(("f16",),                        32, 2, 1, True,  (0, 1), 4, _TWO_OF_FOUR,     f"PTX ISA 9.1 §9.7.16.10.8.2; {_FRAG}, tmem_e_frg"),
    MetadataRow(("i8", "f8f6f4", "mxf8f6f4"),    64, 2, 2, False, (0,),   4, _TWO_OF_FOUR,     f"PTX ISA 9.1 §9.7.16.10.8.2; {_FRAG}, tmem_e_frg"),
    MetadataRow((_MXF4, _NVF4),                 128, 1, 2, False, (0,),   8, _TWO_OF_FOUR,     f"PTX ISA 9.1 §9.7.16.10.8.3; {_FRAG}, tmem_e_frg"),
) for kind in row.kinds}
# fmt: on


class Shift(NamedTuple):
    """tcgen05.shift.down: `columns` columns (32 bytes); every lane but the last of a window takes what the next one
    had.
    """

    columns: int = 8
    window: int = WARP_LANES
    lane_alignment: int = 32  # PTX ISA 9.1 §9.7.16.9.3
    grade: Grade = _I
    source: str = "PTX ISA 9.1 §9.7.16.9.3; direction and window: a readback on a B200 by github.com/cicuvc/nvidia-sass-document, and CUTLASS's use of 4x256b for the last lanes"


SHIFT = Shift()

# fmt: off
TENSOR_MEMORY_DISPUTES: dict[str, Dispute] = {
    "layout C": Dispute("each CTA has its rows where layout F has them: in 16 lanes of every 32. smemsim can compute this layout. But only sparse products have layout C, and smemsim does not execute them (Unmodelled), because their metadata is only in figures", "PTX ISA 9.1 §9.7.16.10.5.3, and TVM's tmem_datapath_layout",
                        "CUTLASS uses layout B in this case. TileLang uses the letter C for M = 64 over two CTAs"),
    "layout E": Dispute("lanes 0 to 63 hold one half of N, lanes 64 to 127 hold the other half (a data path of 2x2)", "CUTLASS tmem_frg_ws", "PTX ISA 9.1 §9.7.16.10.5.5 prints the data path as 2x3"),
    "4x256b": Dispute("row i goes to lane 32*i, counted from the lane in the address", "the layout of SM100_UTCCP_4dp256bit in CUTLASS, and TVM's tcgen05_cp",
                      "a comment in CUTLASS says that the last 4 lanes of each 32 are written"),
    "decompression": Dispute("E2M1 is in bits 5:2 of its byte, E2M3 and E3M2 are in bits 5:0", "tcgen05_transfer_semantics.py of TIRx-harness 0.1.2.post2 reads copies back, and was compared with a B200. PTX ISA 9.1 §9.7.14.5 says the same for mma",
                             "cp_narrow_a_to_tmem_mma.py of CuTe DSL says that 6-bit types are in bits 6:1. Its check cannot distinguish the two. ldmatrix .b4x16_p64 of sm_120 leaves E2M1 in bits 3:0. The PTX ISA has only figures"),
    "metadata of M = 64": Dispute("with .ws, each band of lanes (the lanes that hold one part of N) has a copy of the metadata. Without .ws smemsim raises Unmodelled", "tmem_e_frg of CUTLASS repeats the metadata for .ws. Without .ws it has only 128 rows of a CTA",
                                  "PTX ISA 9.1 §9.7.16.10.8 shows it only in figures"),
    "scales of K = 96": Dispute("a row has its factors in a cell of 4 bytes, from byte `scale id` on. Factors that do not fit are in a second cell of the same lane. It is 4 columns after the first one for up to 128 rows, and 8 columns for up to 256 rows",
                                "CuTe DSL 4.8.1 sm103_dense_blockscaled_gemm_persistent.py with 128 and 256 rows, alone and in pairs",
                                "PTX ISA 9.1 §9.7.16.10.7.2.4 has only figures. For B it has one figure up to N = 128, and another one above. No program has a number of rows that is no multiple of 128"),
    "scales of B in two CTAs": Dispute("with M = 128, lanes 0 to 63 hold the factors of the lower half of N, and lanes 64 to 127 those of the upper half", "tmem_sf_frg of CUTLASS. JAX and 2cta_mma_blockscale_m128.py of CuTe DSL copy them with warpx2::01_23, and the result of the example is right. "
                                       "The test test_mxf8_cta2.py of TIRx-harness writes different factors to the two halves of the lanes. On a B200 the product was that of its reference",
                                       "PTX ISA 9.1 §9.7.16.10.7 requires a copy of all factors in each group of 32 lanes"),
    "direction of shift": Dispute("lane i takes the value of lane i + 1. Groups of 32 lanes do not exchange values", "github.com/cicuvc/nvidia-sass-document read tensor memory of a B200 after the instruction. CUTLASS writes the last lanes again afterwards",
                                  "the PTX ISA says \"down by one row, except the last\". This can also mean that lane i goes to lane i + 1, through all 128 lanes"),
    "unpack::16b": Dispute("they keep their value", "a public simulator", "no document says that they keep it. They could also be cleared"),
    "columns of tcgen05.cp": Dispute("at any column", "PTX ISA 9.1 §9.7.16.9.2 names no alignment", "TVM requires a multiple of 4"),
    "A of .ws": Dispute("in each band of lanes. (A band is the lanes that hold one part of N.) So A is there two or four times", "FlashMLA's dual GEMM", "no document mentions it"),
    "tcgen05.cp of two CTAs": Dispute("each CTA copies from its own shared memory", "CUTLASS (its ThrID has 2 threads with stride 0), and TVM's tcgen05_cp",
                                      "PTX ISA 9.1 §9.7.16.9.2 says only that both tensor memories are written"),
}
# fmt: on
