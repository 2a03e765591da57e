"""What smemsim's rules rest on: every rule, its grade on each architecture, its source and the traces that show it."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

from smemsim.core.spec.grades import Grade

__all__ = ["RULES", "Rule", "kill_matrix", "witnessed"]


class Rule(NamedTuple):
    """One rule: the statement, the grade by architecture (absent: the rule does not exist there), sources, traces under
    golden/sm_90a.
    """

    name: str
    statement: str
    grades: dict[str, Grade]
    source: str
    traces: tuple[str, ...] = ()

    def exists_on(self, arch: str) -> bool:
        """Does an architecture, or the one that it has its rules of, have what the rule is about?"""
        return arch in self.grades or RELATIVES.get(arch, arch) in self.grades

    def on(self, arch: str) -> Grade:
        """Its grade on an architecture. sm_110a, sm_120a and sm_121a have that of sm_100a for what they share; programs
        and traces of another card prove nothing there.

        >>> str(RULES["operand.base_offset"].on("sm_90a")), str(RULES["tcgen05.ld_st"].on("sm_110a"))
        ('measured', 'inferred')
        """
        if arch in self.grades:
            return self.grades[arch]
        grade = self.grades[RELATIVES.get(arch, arch)]
        return Grade.INFERRED if grade in (Grade.MEASURED, Grade.WITNESSED) else grade

    def __str__(self) -> str:
        grades = ", ".join(f"{arch} {grade}" for arch, grade in self.grades.items())
        return f"{self.name}: {self.statement} ({grades}; {self.source})"


RELATIVES = dict.fromkeys(("sm_110a", "sm_120a", "sm_121a"), "sm_100a")  # whose rules a card has that has none of its own


def _grades(sm_90a: str | None, sm_100a: str | None, sm_103a: str | None = "") -> dict[str, Grade]:
    values = {"sm_90a": sm_90a, "sm_100a": sm_100a, "sm_103a": sm_100a if sm_103a == "" else sm_103a}
    return {arch: Grade(value) for arch, value in values.items() if value}


@functools.cache
def kill_matrix() -> dict[str, Any]:
    """Which program gives a wrong result under which alternative (kill_matrix.json, written by tools/witnesses/kill.py
    and, for other projects, tools/evidence).

    `programs` by name: known to be right on hardware (`witness`), or written for this package. `alternatives` by
    RULE=ALTERNATIVE: `refuted_by` maps a program to its end ("wrong", "traps", "hangs", "refused"). Programs of other
    projects have their `origin`, project and commit.
    """
    found: dict[str, Any] = json.loads((pathlib.Path(__file__).parent / "kill_matrix.json").read_text())
    return found


@functools.cache
def witnessed(arch: str = "sm_100a") -> frozenset[str]:
    """Rules each of whose alternatives a program refutes that is known right on that architecture."""
    matrix = kill_matrix()
    known = {name for name, about in matrix["programs"].items() if about["witness"] and about["arch"] == arch}
    alternatives = matrix["alternatives"]
    rules = {text.partition("=")[0] for text in alternatives}
    survived = {text.partition("=")[0] for text, about in alternatives.items() if not known & about["refuted_by"].keys()}
    return frozenset(rules - survived)


def _raised(rule: Rule) -> Rule:
    """The rule with the grades that programs give it on Blackwell."""
    order = list(Grade)
    raised = {
        arch: Grade.WITNESSED
        for arch in ("sm_100a", "sm_103a")
        if (grade := rule.grades.get(arch)) is not None
        and order.index(grade) > order.index(Grade.WITNESSED)
        and rule.name in witnessed(arch)
    }
    return rule._replace(grades={**rule.grades, **raised}) if raised else rule


_OPERANDS = ("wgmma_operands", "reference_gemm")
# fmt: off
RULES: dict[str, Rule] = {r.name: _raised(r) for r in (
    Rule("operand.k_major",
         "The byte kb of row r of a K-major operand is at `start + r%8*W + r/8*SBO + kb%W + kb/W*LBO`. "
         "The swizzle's XOR is applied to this sum. "
         "W is the swizzle width, 16 B without swizzle",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2", _OPERANDS),
    Rule("operand.mn_major",
         "The byte mb of the K row k of an MN-major operand is at `start + k%8*W + k/8*SBO + mb%W + mb/W*LBO`. "
         "The swizzle's XOR is applied to this sum. "
         "Without swizzle, LBO and SBO exchange their roles",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2", _OPERANDS),
    Rule("operand.swizzle",
         "The swizzle's XOR is the last step. "
         "Its key comes from the complete address in shared memory, not from the offset in the tile",
         _grades("measured", "compiled"),
         "CUTLASS, DeepGEMM, JAX and Triton advance the start address inside an atom", (*_OPERANDS, "tma_wgmma")),
    Rule("operand.any_start",
         "The start address, LBO and SBO may be any multiples of 16 B. "
         "They are added as whole numbers, with carries, also if the sum passes the end of a row",
         _grades("measured", "inferred"),
         "No document says it. Other architectures: the formulas of sm_90a", ("wgmma_operands",)),
    Rule("operand.base_offset",
         "With base_offset b the key of the XOR is `(address - 128*b) >> 7`, cut to the bits of the swizzle mode. "
         "This holds in every swizzled mode. "
         "Without swizzle the base offset has no effect",
         _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.16.4.1. "
         "A comment in CUTLASS has other modes and another sign", ("wgmma_operands", "tma_wgmma")),
    Rule("operand.lbo_past_width",
         "A swizzled K-major operand uses LBO only for bytes along K past the swizzle width. "
         "For example, a sparse operand has 64 B along K, which is past the width of the 32B swizzle",
         _grades("measured", "inferred"),
         "The PTX ISA calls LBO unused there. "
         "A comment in Triton says that it can be used", ("wgmma_operands",)),
    Rule("operand.atom_32b",
         "In an MN-major operand with 32-byte atoms (tf32) an atom has 4 rows of K, and SBO is the distance of 4 rows of K",
         _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100.hpp, CuTe DSL, DeepGEMM. "
         "The text of the PTX ISA says 8"),
    Rule("operand.absolute_lbo",
         "If bit 52 is set, LBO is an address, not a distance. "
         "A row of 48 bytes that passes the end of a 128-byte line continues in the buffer at this address",
         _grades(None, None, "inferred"),
         "PTX ISA 9.1 §9.7.16.3.1.2 documents the mode. "
         "How bytes are read follows CUTLASS's use of it"),
    Rule("operand.sub_byte",
         "Packed 4-bit types have 32 elements in a 16-byte chunk. "
         "Padded 4-bit and 6-bit types have 16 elements in a chunk: first the data, then a gap",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.10.4"),
    Rule("operand.window",
         "The first of each 8 lines of an operand, with the whole swizzle width, must lie in the shared-memory window. "
         "Otherwise the read faults (CUDA error 700). "
         "Later lines of the 8 that lie past the window read 0",
         _grades("measured", "inferred"),
         "Recorded for dense operands B of bf16. "
         "Other cards are assumed to have the same memory system", ("wgmma_window",)),
    Rule("descriptor.reserved_bits",
         "Reserved and constant bits of a shared-memory descriptor have no effect",
         _grades("measured", "inferred"),
         "JAX and early Triton leave tcgen05's constant bit 46 at 0. "
         "Nothing is known of the other bits", ("wgmma_reserved_bits",)),
    Rule("wgmma.fragments",
         "Warp w of the warpgroup holds rows 16w to 16w + 15. "
         "Thread 4g + q of a warp holds parts of rows g and g + 8. "
         "The registers of D hold pairs of columns, those of A hold 32-bit words along K",
         _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.5.1.1 and its figures", ("wgmma_f32", "wgmma_f16", "wgmma_s32", "wgmma_sparse")),
    Rule("wgmma.sparse",
         "Four bits of metadata describe 4 elements of K (2 elements of tf32). "
         "The selector chooses two threads of each four, which hold the metadata of rows g and g + 8 of their warp. "
         "A register of such a thread holds four groups of each row. "
         "With 8-bit types all four threads hold metadata: eight groups of one row each",
         _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.6.1 and its figures. "
         "CUTLASS mma_traits_sm90_gmma_sparse.hpp", ("wgmma_sparse", "wgmma_metadata")),
    Rule("tcgen05.registers",
         "The registers of tcgen05.ld hold their values after tcgen05.wait::ld. "
         "ptxas also makes each instruction that names such a register wait for the load. "
         "A use before tcgen05.wait::ld is therefore right. "
         "A load that no wait follows is a remark",
         _grades("", "documented", "documented"),
         "PTX ISA 9.1 §9.7.16.8.1, 9.7.16.8.5. "
         "Triton 3.9.0 and Gluon put tcgen05.wait::ld after the use of the registers, and some epilogues of the CuTe DSL (4.8.1) have none"),
    Rule("tcgen05.own_stores",
         "A warp writes cells by tcgen05.st and reads them by tcgen05.ld. "
         "tcgen05.wait::st is required between them. "
         "Here the two are executed in order, so a missing wait is a remark",
         _grades("", "documented", "documented"),
         "PTX ISA 9.1 §9.7.16.6.4.2 (non-pipelined instructions, same thread). "
         "No failure without the wait is known"),
    Rule("tcgen05.own_loads",
         "A warp reads cells by tcgen05.ld and writes them by tcgen05.st. "
         "tcgen05.wait::ld, or a use of the loaded registers, is required between them. "
         "Here the two are executed in order, so a missing wait is a remark",
         _grades("", "documented", "documented"),
         "PTX ISA 9.1 §9.7.16.6.4.2 (non-pipelined instructions, same thread), 9.7.16.8.5 (tcgen05.wait::ld). "
         "No failure without the wait is known"),
    Rule("wgmma.in_flight",
         "If registers of D are used before wgmma.wait_group, ptxas inserts a wait, serialises the instructions, or takes other registers (C7517, C7514, C7515, C7511). "
         "It does not do this for registers of A",
         _grades("compiled", None),
         "Machine code of ptxas 13.0.88. "
         "PTX ISA 9.1 §9.7.15.7 leaves it undefined"),
    Rule("tcgen05.idesc",
         "The instruction descriptor has three formats, chosen by the kind. "
         "M and N are those of the whole instruction. smemsim.INSTR_RULES lists which fields are legal",
         _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44. "
         "Triton and CuTe DSL emit the same words"),
    Rule("tcgen05.idesc_bits",
         "Reserved bits of the instruction descriptor have no effect",
         _grades(None, "inferred"),
         "Measured for wgmma's descriptors, assumed here. "
         "CuTe DSL 4.8.1 reserves its names of these bits for later architectures. "
         "Its class of mxf4 and mxf4nvf4 sets bit 12 (compiled)"),
    Rule("tcgen05.scale_address",
         "Bits 31:30 of the address of scale factors have no effect. "
         "The instruction takes the scale id from its descriptor. "
         "Kernels put the id into these bits too",
         _grades(None, "compiled"),
         "CUTLASS 7107b055 mma_sm100_desc.hpp and CuTe DSL 4.8.1 set both. "
         "DeepGEMM and Triton set only the descriptor"),
    Rule("tcgen05.pair",
         "With cta_group::2, CTA i holds the rows of A from `i*M/2` on and the rows of B from `i*N/2` on, at the same offsets in its shared memory. "
         "It holds its rows of D for all N",
         _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100.hpp (ALayout, BLayout). "
         "PTX ISA 9.1 §9.7.16.5"),
    Rule("tcgen05.accumulator",
         "D in tensor memory has one of the layouts A to G, chosen by M, cta_group and .ws. "
         "Each n has one column. "
         "Each layout has a grade of its own",
         _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100_frag.hpp, golden/compiled (A, B, D, F). "
         "PTX ISA 9.1 §9.7.16.10.5 and its figures. "
         "Layout C is inferred"),
    Rule("tcgen05.tensor_operands",
         "A, scale factors and sparsity metadata in tensor memory are in the lanes of their rows. "
         "Each copy is in a band of lanes of its own",
         _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100_frag.hpp. "
         "PTX ISA 9.1 §9.7.16.10.4, 9.7.16.10.7, 9.7.16.10.8 and their figures"),
    Rule("tcgen05.ld_st",
         "In shape 32x32b thread t accesses lane t. "
         "Shapes 16x64b, 16x128b and 16x256b access groups of 8 lanes. "
         "Shape 16x32bx2 accesses 16 lanes, in two halves of the columns",
         _grades(None, "compiled"),
         "CUTLASS copy_traits_sm100.hpp. "
         "PTX ISA 9.1 §9.7.16.8, figures 183 to 187"),
    Rule("tcgen05.warp_window",
         "tcgen05.ld and tcgen05.st begin at lane `32*(warp % 4) + lane % 32`. "
         "The warp number gives the upper part. "
         "Only bits 4:0 of the lane in the address count",
         _grades(None, "compiled"), "DeepGEMM 54e2261 sm100_bf16_gemm.cuh and sm100_bmk_bnk_mn.cuh, FlashMLA and CuTe DSL 4.8.1 1cta_mma_a_from_tmem.py give lane 0 in every warp"),
    Rule("tcgen05.one_address",
         "tcgen05.ld and tcgen05.st take one address for a warp. "
         "If threads give different addresses, that of the first thread counts",
         _grades(None, "compiled"),
         "ptxas 13.0.88 moves the address to a uniform register (R2UR). "
         "CuTe DSL and CUTLASS 7107b05 mixed_input_fmha_prefill_d512.py store this way"),
    Rule("tcgen05.cp",
         "tcgen05.cp reads rows of 16 or 32 bytes, K-major through the descriptor, and writes them to lanes. "
         "It can multicast them to several warps. "
         "If it decompresses, each element takes one byte",
         _grades(None, "compiled"),
         "CUTLASS copy_traits_sm100.hpp. "
         "PTX ISA 9.1 §9.7.16.9.2"),
    Rule("tcgen05.alloc",
         "An allocation has a power of two of columns, at least 32, and all lanes. "
         "It takes the first free columns that begin at a multiple of its size (inferred). "
         "After relinquish_alloc_permit no allocation succeeds. "
         "dealloc must begin at the start of an allocation. "
         "A second dealloc of the same columns does nothing",
         _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.7.1. "
         "The checks are those that ptxas 13.0.88 inserts as guardrails. "
         "It has none against an allocation that is larger than the one before. "
         "The second dealloc: in CUTLASS 7107b05 examples/112_blackwell_ssd all four warps of the epilogue free the same columns"),
    Rule("tcgen05.commit",
         "tcgen05.commit arrives once at the mbarrier that it names. "
         "With a mask it arrives at the mbarrier of each CTA whose rank has a bit in the mask",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.12"),
    Rule("tcgen05.shift",
         "tcgen05.shift.down changes 8 columns. "
         "Lane i takes the value of lane i + 1. "
         "Each group of 32 lanes is shifted alone, and its last lane keeps its value",
         _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.9.3 gives neither the direction nor the lanes. "
         "A readback on a B200 by github.com/cicuvc/nvidia-sass-document. "
         "The direction: slicek_m32n8k128.py (see tcgen05.ashift)"),
    Rule("tcgen05.ashift",
         "With .ashift the rows of A are multiplied as they are. "
         "Then they are moved in tensor memory like tcgen05.shift moves them",
         _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.10.9.1 names neither the direction nor the moment. "
         "The check of CuTe DSL's experimental/primitives/tcgen05/slicek_m32n8k128.py passes with this rule, and fails with the rows moved the other way"),
    Rule("tcgen05.lane_masks",
         "disable-output-lane has a bit for each lane of D that keeps its value. "
         "The words of the even CTA come first. "
         "In a zero-column mask, skip is the number of masked columns, and use is the number of columns that are used",
         _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.10.9, 9.7.16.4.3 (worked examples). "
         "Its table gives skip the meaning of use, and use that of skip"),
    Rule("arithmetic.wgmma",
         "The products and c are exact. "
         "Each is cut at 25 bits (fp8: 13) below the largest exponent. "
         "The sum is converted once: to f32 toward zero (fp8: to 13 bits), to f16 to nearest even. "
         "A zero is +0. "
         "s32 wraps around, or is clamped with .satfinite",
         _grades("measured", None),
         "Public studies of tensor-core arithmetic", ("wgmma_dots_f32", "wgmma_dots_f16", "wgmma_dots_s32", "reference_gemm")),
    Rule("arithmetic.mma_sync",
         "An mma.sync of floats computes one sum by the rule of wgmma. So does tf32 with k8. "
         "8-bit floats become f16. They are summed in two steps, each over half of the elements. "
         "The first step begins at zero, the second at the result of the first. "
         "Then C is added, rounded to nearest. "
         "m8n8k4 of f16 is a sequence of f32 operations, each rounded to nearest. "
         "f64 is a chain of fused multiply-adds",
         _grades("measured", "inferred"),
         "Khattak and Mikaitis (H100, H200, B200), MMA-Sim. "
         "ptxas 13.0.88 makes the same machine code for sm_90a and sm_100a", ("launches",)),
    Rule("arithmetic.mma_sync_ampere",
         "mma.sync of sm_80, sm_86 and sm_89 takes K in steps of 16 bytes. "
         "D of one step is C of the next. "
         "Terms are cut at 24 bits. 8-bit floats of sm_89 are cut at 13 bits, which f32 results keep",
         {"sm_80": Grade.DOCUMENTED, "sm_86": Grade.INFERRED, "sm_89": Grade.DOCUMENTED},
         "MMA-Sim (mmasim 2.1.1), which reports that cards agree. "
         "Sparse operands by analogy"),
    Rule("arithmetic.mma_sync_rtx",
         "mma.sync of sm_120a computes one sum with 25 bits, also for 8-bit floats. "
         "Each product is multiplied by its scale factors. 4-bit kinds sum groups of 16 exactly, and keep 35 bits of these sums",
         {"sm_120a": Grade.DOCUMENTED, "sm_121a": Grade.INFERRED},
         "MMA-Sim (mmasim 2.1.1), which reports that a card agrees. 6-bit types, 4-bit types in bytes and sparse operands by analogy"),
    Rule("mma_sync.scales",
         "thread-id-a of a block-scaled mma.sync selects two threads of each four. "
         "The even one holds the factors of row g, the odd one those of row g + 8. "
         "The low byte belongs to the lowest K",
         dict.fromkeys(("sm_120a", "sm_121a"), Grade.COMPILED),
         "CUTLASS 7107b05 SFALayout of SM120_16x8x64_TN_VS. "
         "PTX ISA 9.1 §9.7.14.5, a figure. "
         "The checks of CUTLASS 79a, of the CuTe DSL's blackwell_geforce examples and of Triton's dot_scaled pass with it, and fail with each alternative"),
    Rule("arithmetic.tcgen05",
         "The rule of wgmma, with 25 bits and a full f32 result also for fp8. 4-bit block-scaled kinds sum groups of 16 exactly, and keep 35 bits of these sums",
         _grades(None, "inferred"),
         "MMA-Sim. "
         "DeepGEMM issue 176 (25 bits for fp8, 34 to 37 for 4-bit). "
         "Measurements of wgmma"),
    Rule("tma.placement",
         "The rows of a box are the swizzle width apart in shared memory. "
         "Without swizzle they are dense. "
         "The XOR uses the address in shared memory, not the offset in the tile",
         _grades("measured", "compiled"),
         "CUDA guide 10.29.3.2, PTX ISA 9.1 §5.5.7. "
         "No document gives the distance of rows that are narrower than the swizzle",
         ("tma_loads", "tma_stores", "recorder_loads", "recorder_kernel")),
    Rule("tma.bounds",
         "A load tests each element against the bounds in every dimension: elements outside are filled. "
         "Coordinates are signed",
         _grades("measured", "documented"), "PTX ISA 9.1 §5.5.4", ("tma_loads", "tma_loads_far")),
    Rule("tma.element_strides",
         "A dimension has `ceil(box / element stride)` elements in shared memory. "
         "The element stride of dimension 0 is ignored",
         _grades("measured", "documented"), "cuTensorMapEncodeTiled", ("tma_loads", "tma_stores")),
    Rule("tma.fill",
         "An element outside of the tensor is zero. "
         "With NaN fill it is 0x7FF7 in each 16 bits",
         _grades("measured", "inferred"),
         "No document gives the bits of the NaN", ("tma_loads", "tma_im2col", "tma_conversions")),
    Rule("tma.values",
         "Loads of TFLOAT32 and TFLOAT32_FTZ round to nearest even at 10 fraction bits. "
         "Above the largest number the result is infinity. "
         "A NaN becomes 0x7FFFE000. "
         "All other types are copied",
         _grades("measured", "inferred"),
         "No document describes the rounding. "
         "FLOAT32_FTZ does not flush", ("tma_values", "tma_conversions")),
    Rule("tma.im2col",
         "The pixels of a column advance along W, H, D and then N by their element strides, and wrap to the lower corner. "
         "The im2col offsets are added to each pixel. "
         "A start outside of the pixel box traps",
         _grades("measured", "documented"),
         "PTX ISA 9.1 §5.5.5. "
         "No document gives the element stride of N, or what a start outside does", ("tma_im2col", "tma_im2col_stores", "recorder_im2col")),
    Rule("tma.interleave",
         "With interleave, the unit of dimension 0 is a slice of 16 or 32 B, for extents, boxes and strides. "
         "A box has the extent 1 in dimension rank - 2. "
         "Rows are dense, and any swizzle's XOR applies. "
         "A pixel of im2col is one slice",
         _grades("measured", "inferred"),
         "Figures of the PTX ISA. "
         "No document gives the layout and the strides", ("tma_interleave", "tma_interleave_stores", "tma_im2col_interleave")),
    Rule("tma.map_bits",
         "Bits of a tensor map that no encoder writes have no effect, and neither have the derived words. "
         "The tf32 bit, or NaN fill, with another type makes loads trap. "
         "An address that is no multiple of 16 B traps (716)",
         _grades("measured", None),
         "The documents call the 128 bytes opaque", ("tma_edited", "tma_swizzle_bits")),
    Rule("tma.map_words",
         "The version of a tensor map may be 0 or 1, and words 16 to 31 may hold anything. "
         "A transfer uses only words 0 to 15",
         _grades("measured", "compiled"),
         "Host code of CuTe DSL (nvidia-cutlass-dsl 4.8.1), whose maps the examples of sm_100a and sm_103a use", ("tma_edited",)),
    Rule("tma.blackwell",
         "Blackwell adds tile::gather4, tile::scatter4, im2col::w, types below a byte, 128B atoms and the 96B swizzle",
         _grades(None, "documented"),
         "PTX ISA 9.1 §5.5, 9.7.9.27, driver header. "
         "The row distance of 96B and the bytes of 16U6 are those of one simulator"),
    Rule("tensor_map.replace",
         "tensormap.replace loads single words, changes the bits of one field, and stores them. "
         "It checks no value. "
         "Sizes are stored minus 1, strides are stored >> 4. "
         "The tf32 bit is set and never cleared",
         _grades("measured", "compiled"),
         "Code of ptxas 13.0.88, PTX ISA 9.1 §9.7.9.28", ("tensormap_replace",)),
    Rule("tma.transaction_bytes",
         "A load counts the bytes of its dense box at the mbarrier. "
         "Bytes of fill count. "
         "Gaps between rows do not count",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.27", ("tma_loads", "tma_im2col", "tma_interleave")),
    Rule("tma.store_clip",
         "Stores and reductions clip dimension 0 at whole 16-byte chunks. "
         "They clip the other dimensions exactly",
         _grades("measured", "compiled"),
         "Triton issue 11583 (Hopper and Blackwell). "
         "The PTX ISA says that each element is clipped", ("tma_stores", "tma_im2col_stores", "tma_reductions", "recorder_stores")),
    Rule("tma.traps",
         "These accesses trap with error 715: a dimension above 2^31, dimension 0 at no multiple of 16 B, and a negative start of a store. "
         "An access past the window traps with 700. "
         "A shared address that is no multiple of 128 B traps with 716",
         _grades("measured", "inferred"),
         "CUDA guide tables 10 and 12 and PTX ISA 9.1 §5.5.3 forbid most of them. "
         "No document says what happens", ("tma_load_traps", "tma_store_traps", "tma_loads_far", "tma_mode_traps", "recorder_loads")),
    Rule("bulk.copy",
         "A bulk copy writes byte i of the source to byte i of the destination. "
         "It counts its size at an mbarrier of the destination's CTA",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.25.4.1", ("bulk_copies",)),
    Rule("bulk.size",
         "A size below 2^20 B is rounded down to a multiple of 16 B: the rest is neither moved nor counted. "
         "Sizes 0 and 2^20 move nothing",
         _grades("measured", "inferred"),
         "The PTX ISA requires multiples of 16 B, and says no more", ("bulk_traps",)),
    Rule("bulk.traps",
         "A bulk copy past the CTA's own window traps with error 700, one past the window of another CTA with 719. "
         "An address that is no multiple of 16 B traps with 716. "
         "So does an mbarrier at no multiple of 8 B",
         _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.9.25.4.1 forbids them. "
         "No document says what happens", ("bulk_traps",)),
    Rule("reduce.values",
         "Integers are computed modulo 2^n. "
         "Floats are rounded to nearest even. "
         "Subnormals are kept, except with an FTZ map. "
         "A sum of f64 passes a NaN on, other sums give 0x7FFF.... "
         "The minimum or maximum of a NaN and a number is the number. "
         "-0 is smaller than +0",
         _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.25.4.2, which says that add.f32 flushes. "
         "No document gives the bits of NaNs and zeros", ("bulk_reductions", "tma_reductions")),
    Rule("reduce.types",
         "Each operation of a tensor reduction works only with some data types of the map. "
         "All other pairs trap (715)",
         _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.9.27 lists the operations, but not the types of a map that they accept", ("tma_reduce_traps",)),
    Rule("multicast.delivery",
         "Each CTA in ctaMask gets the box at the same offset, and its own mbarrier counts all bytes. "
         "Ranks in the addresses are ignored (seen with tiled maps of rank 2)",
         _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.27, operand ctaMask. "
         "It requires the mbarrier in the destination's CTA", ("multicast", "multicast_traps")),
    Rule("multicast.masks",
         "An empty ctaMask delivers and counts nothing. "
         "A bit for a CTA that is not in the cluster traps (719)",
         _grades("measured", "inferred"),
         "No document says what happens", ("multicast_traps",)),
    Rule("cluster.addresses",
         "A shared::cluster address is `CTA rank << 24 | offset`. "
         "In a cluster the .shared addresses of a CTA contain its own rank. "
         "An address without a rank is that of CTA 0",
         _grades("measured", "compiled"), "CUTLASS clears bit 24 to reach the even CTA of a pair", ("cluster_addresses",)),
    Rule("shared.generic",
         "An operand in shared memory may have a .shared or a generic address. "
         "The low 32 bits of a generic address are the .shared address. "
         "cvta.shared adds the upper half",
         _grades("compiled", "compiled"),
         "SASS of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, SYNCS, UBLKCP, UTCBAR and the store of tcgen05.alloc take the low register of a 64-bit address. "
         "ThunderKittens 0b55588 tensor_allocator (alloc), Triton 3.6 (commit)"),
    Rule("shared.width",
         "Addresses in .shared, .local, .const and .param have 32 bits. "
         "The sum of a 32-bit register and a number wraps at 2^32. "
         "Only the low 32 bits of a 64-bit register count",
         _grades("compiled", "compiled"),
         "PTX ISA 9.1 §6.4.1 (addresses are zero-extended or cut to the width of the state space). "
         "SASS of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, LDL, LDC, LDTM and UBLKCP add the number to a 32-bit register"),
    Rule("shared.static",
         "The static shared memory of an entry holds its own variables and those of functions that it calls, used or not. "
         "It also holds the variables at file scope that the entry or these functions name. "
         "Dynamic shared memory follows. "
         "Its alignment fits all arrays without a size that the file declares",
         _grades("compiled", "compiled"),
         "Sizes that ptxas 13.0.88 reports (-v)"),
    Rule("gpu.execution",
         "Whole kernels run instruction by instruction, as the PTX says. "
         "Every byte that they leave in memory is compared",
         _grades("measured", "compiled"),
         "PTX ISA. "
         "If it leaves a choice (NaN operands, approximations), results agree within its bounds", ("launches",)),
    Rule("texture.read",
         "Reads without a filter: address modes, borders, layers, faces, formats, gathers, whole coordinates and queries. "
         "A normalised coordinate is cut to 21 fraction bits",
         _grades("measured", "inferred"),
         "CUDA C++ programming guide, texture fetching. "
         "No document says what lies outside of layers and of whole coordinates", ("textures",)),
    Rule("texture.filter",
         "The weights of linear filtering are multiples of 1/256 and add up to 1. "
         "They are divided level by level, then along z, x and y. "
         "Each texel is cut toward zero below the largest exponent of its plane. "
         "In three dimensions and between mipmap levels, two filtered 2D images (planes) are added. "
         "Their sums are cut toward minus infinity, below the largest exponent of both. "
         "Before the cut, that exponent is rounded down in steps of 4. "
         "At a corner of a cube three texels have weights",
         _grades("measured", "inferred"),
         "CUDA C++ programming guide, linear filtering, gives 9-bit weights with 8 fraction bits, and no more", ("textures",)),
    Rule("surface.access",
         "A clamped access outside of a surface goes to the nearest element inside. "
         "A layer number counts as unsigned. "
         "Formatted stores limit integers and cut f16 toward zero. "
         "An access at no multiple of its size traps (716). "
         "An access outside with .trap traps too (700)",
         _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.10.2. "
         "It says neither how formats convert values nor which error a trap gives", ("surfaces", "surface_traps")),
    Rule("shared.reserved",
         "For its own CTA the first KiB of shared memory works like the rest, for loads, stores, atomics and cp.async. "
         "A .shared::cta address in the first KiB of another CTA's window traps (715)",
         _grades("measured", "inferred"),
         "PTX ISA 9.1 §10.32 (%reserved_smem_offset_*) names it. "
         "It does not say what accesses do", ("reserved_shared",)),
    Rule("counters.wavefronts",
         "32 lanes make one group if each accesses 1 to 4 B, 16 lanes if 8 B, 8 lanes if 16 B. "
         "A group costs the number of different words in its busiest bank. "
         "Atomics and cp.async.ca cost the number of lanes in that bank. "
         "In a load of 8 or 16 B, two groups cost as much as one if lanes next to each other read the same address",
         _grades("measured", "inferred"),
         "CUDA C++ programming guide (32 banks). "
         "No document says how vectors, atomics and matrices are split", ("access_shared", "access_async", "access_lines", "launch_counters", "counted_kernels", "counted_kernels_ptxas129")),
    Rule("counters.sectors",
         "An access of global memory costs the number of different 32-byte sectors of its lanes. "
         "So does a load of another CTA's shared memory",
         _grades("measured", "inferred"), "CUDA C++ Best Practices Guide, coalesced access to global memory", ("access_lines", "access_copies")),
    Rule("counters.copies",
         "TMA and bulk copies access a bank once for each 4-byte word of shared memory, with any swizzle. "
         "They cost no wavefront",
         _grades("measured", "inferred"),
         "In no document", ("access_copies",)),
    Rule("heap.capacity",
         "The kernel heap (malloc in a kernel) holds a fixed number of allocations of each size",
         _grades("measured", "inferred"),
         "CUDA C++ programming guide, dynamic global memory allocation, gives no sizes", ("heap",)),
    Rule("order.exit",
         "A thread that has exited counts as arrived at barrier.cluster, and at a bar.sync of all threads. "
         "Its accesses happen before those of the threads that wait there",
         _grades("compiled", "compiled"),
         "ThunderKittens deallocates tensor memory after a cluster barrier that counts exits (tensor_allocator). "
         "PTX ISA 9.1 §9.7.13.4 counts exits, and does not mention memory"),
    Rule("order.relaxed",
         "A relaxed or volatile store, or a relaxed arrival, releases what an earlier fence of its thread covers. "
         "A relaxed or volatile load, or a relaxed wait, acquires at the next fence of its thread",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §8.8 (release and acquire patterns), 9.7.16.6. "
         "CuTe DSL waits relaxed and then fences"),
    Rule("order.relaxed_cluster_arrive", "barrier.cluster.arrive.relaxed releases nothing. If nothing else is missing, it is a remark",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.4. "
         "Triton, CUTLASS and DeepGEMM emit it in kernels that are right on cards"),
    Rule("order.warpgroup",
         "wgmma.mma_async reads data that its four warps have written. "
         "Each warp executes fence.proxy.async after its writes, but no barrier orders the warps. "
         "If nothing else is missing, it is a remark",
         _grades("compiled", None),
         "PTX ISA 9.1 §9.7.15.5: .sync concerns one warp, and wgmma.mma_async concerns all four. "
         "FlashMLA 9241ae3 fills rows past the end this way (csrc/sm90/decode/dense/splitkv_mla.cuh, fill_oob_V), and its tests put NaN there"),
    Rule("order.fenced_by_others",
         "Release: each thread executes a fence, all threads meet at a barrier, and one thread executes a relaxed atomic. "
         "The atomic releases what all threads wrote before their fences. "
         "Acquire: one thread executes a relaxed read, all threads meet at a barrier, and each executes a fence. "
         "After its fence each thread has acquired",
         _grades("inferred", "inferred"),
         "The fence in the PTX ISA's release and acquire patterns (8.8) is that of the same thread. "
         "The pattern __threadfence, __syncthreads, atomicAdd, __syncthreads, __threadfence relies on this rule"),
    Rule("order.same_multiprocessor",
         "If only one CTA fits on a multiprocessor, two CTAs with the same %smid run one after the other. "
         "The second sees the writes of the first. "
         "A race of the two is a remark",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §10 (%smid) says that the number may change, and nothing about memory. "
         "Programs index workspaces and random states by %smid (Crystal's ssb, and cuRAND states by multiprocessor and warp). "
         "Both CTAs use one cache. "
         "Seen on an H200 (driver 580.159, no trace is kept): of 400,000 CTAs that each had a multiprocessor alone, none read an old word of the CTA before it"),
    Rule("order.warp_synchronous",
         "One lane stores a word of shared memory by a volatile store, and another lane of the warp loads it by a volatile load. "
         "If the lanes do not synchronise in between, they race like plain accesses. "
         "The exception is a loop that waits for the value",
         _grades("documented", "documented"),
         "CUDA C++ Programming Guide, Independent Thread Scheduling: code that relies on lanes in step needs __syncwarp(). "
         "By the PTX ISA (8.7) the two are morally strong, and the load may return the old value"),
    Rule("order.shuffles",
         "The result of shfl.sync is undefined if its source lane does not execute the instruction, or is not in the member mask. "
         "It is reported where the value is used",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.9.6 (shfl.sync)"),
    Rule("order.unused_read",
         "A read of global memory is no race if its value is not used. "
         "The value is unused if it reaches no store that the warp executes, no branch, no guard, no atomic operation, no shared memory and no matrix instruction",
         _grades("compiled", "compiled"),
         "Triton lets warps load the elements of other warps in a block smaller than the CTA, and guards only their stores"),
    Rule("order.looks_again",
         "A plain load of a word is followed by an atomic operation (cas, min, max, and, or) at the same address. "
         "The load races with the atomic operations of other threads. "
         "This is only a remark",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.7: a data race. "
         "The atomic operation decides by the value that the word has then"),
    Rule("order.reader_fence",
         "A thread observes a relaxed operation, and executes no fence after it. "
         "Its plain load of the data is a remark if, in this launch, only its own CTA has loaded from the same 128 bytes, and only after the operation. "
         "Its plain store over data that others have read or written is always a remark",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.8: no acquire pattern without the fence, so a data race. "
         "ptxas 13.0 compiles a fence to MEMBAR and CCTL.IVALL, which drops lines of the L1. "
         "Here the L1 has no line to drop. "
         "threadFenceReduction of NVIDIA/cuda-samples c94ff366 and llm.c read this way. "
         "A store waits for the branch that the polled value decides, as in waitPeer of NCCL's src/device/prims_simple.h (06de78e). "
         "It has only a volatile load and a barrier before the store"),
    Rule("order.replaced_alike",
         "Several warps of a CTA change fields of one map in global memory by tensormap.replace, and nothing orders them. "
         "This is a remark",
         _grades("compiled", "compiled"),
         "PTX ISA 9.1 §9.7.9.28: a weak operation on the whole map, so a data race. "
         "In CuTe DSL 4.8.1 one lane of each epilogue warp makes the same map in the same place (dense_gemm_ptr_array.py of CUTLASS 7107b05)"),
    Rule("order.past_l1",
         "If nothing orders two accesses of a word with .cg, .cv or .wt, it is a remark, not a race. "
         "The same holds for such an access and a strong one. "
         "These accesses order no other word",
         _grades("compiled", "compiled"),
         "PTX ISA 9.1 §9.7.9.1 (cache operators), 8.7: weak, so a data race. "
         "CUB's decoupled look-back (ThreadStore<STORE_CG>, up to CUDA 11) and Dr.Jit 1.5.0 pass words of up to 64 bits this way, which contain their own state"),
    Rule("order.dependent_launch",
         "A launch with programmatic stream serialization may begin when each CTA of the previous launch has executed griddepcontrol.launch_dependents or has exited. "
         "Only griddepcontrol.wait orders the previous launch's writes before it. "
         "The same holds for accesses of earlier launches that the previous launch has not waited for. "
         "A fence of device scope before griddepcontrol.launch_dependents synchronises with the start of the next launch. "
         "The exit of a CTA does not",
         _grades("documented", "documented"),
         "PTX ISA §9.7.13.13 (griddepcontrol: all prerequisite grids in flight, and a release fence before launch_dependents). "
         "CUDA C++ Programming Guide, programmatic dependent launch: without a trigger it occurs after all thread blocks have exited. "
         "In either case the next launch may begin before the data are visible. "
         "NVIDIA/cccl issue 9134. "
         "Seen with three launches on an H100 (driver 580.159.04, no trace is kept). The first ran for 5 ms. The second did not wait for it, or executed launch_dependents before it waited. "
         "If the third did not wait, it saw nothing of the first, in 20 of 20 runs. If it waited, it saw everything"),
    Rule("order.non_coherent",
         "A kernel loads by ld.global.nc data that it has written in the same launch. "
         "This is a remark: the value may be an old one",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.9.9: the memory has to be read-only. "
         "DeepEP relies on such loads, with .L1::no_allocate, and says that the document does not allow it"),
    Rule("memory.allocated",
         "Memory that a program allocates is uninitialised. "
         "A kernel that uses a value from there gets a finding. "
         "A kernel that only copies the value to global memory gets a remark, except if the value goes through a matrix product",
         _grades("documented", "documented"),
         "CUDA Runtime API, cudaMalloc: the memory is not cleared. "
         "PyTorch, torch.empty: uninitialized data. "
         "That a copy does no harm is inferred: kernels copy buffers with their padding"),
    Rule("order.scope",
         "Two patterns synchronise if the scope of each includes the thread of the other. "
         "Under the same condition two strong accesses are no race. "
         "The write and the read between a release and an acquire must fulfil the same condition",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.4 (scope), 8.7 (morally strong), 8.9.2 (observation order)"),
    Rule("order.default_scope",
         "An mbarrier operation without a scope orders the CTAs of a cluster, though the PTX ISA gives it .cta. "
         "An explicit .cta does not",
         _grades("compiled", "compiled"),
         "CUTLASS ClusterBarrier::arrive(cta_id) and ::wait write no scope, and free a stage of another CTA by them. "
         "PTX ISA 9.1 §9.7.13.15.13"),
    Rule("order.narrow_wait",
         "A wait at an mbarrier with an explicit .acquire.cta orders only threads of its CTA. "
         "In shared and tensor memory it is a remark, if nothing else is missing",
         _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §9.7.13.15.16. "
         "ptxas 13.0 compiles it like a wait without a scope. "
         ".acquire.cluster adds only CCTL.IVALL, which concerns global memory. "
         "The waits of the CuTe DSL (4.8.1, experimental.primitives) have it by default, also in its own example of a cluster"),
    Rule("order.narrow_arrival",
         "An arrival with .release.cta at another CTA's mbarrier releases nothing to that CTA. "
         "If only reads and complete operations rely on it, it is a remark. "
         "If ordinary stores or copies of cp.async rely on it, it is a finding",
         _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §9.7.13.15.13. "
         "ptxas 13.0 compiles it like an arrival without a scope. "
         "For .release.cluster it adds MEMBAR.ALL.GPU before it. "
         "It is the default of the CuTe DSL's mbarrier_arrive (4.8.1, cute/arch/mbar.py), whose notes require .cluster if data go to another CTA. "
         "CUTLASS issues 3643 (29 of 200 runs wrong on a B200: scale factors that the peer copies by cp.async) and 3324 (the same with an arrival without a scope)"),
    Rule("order.tensormap_proxy",
         "A transfer sees the writes of threads into its map only after two fences on the happens-before path. "
         "The writer executes fence.proxy.tensormap::generic.release (cp_fenceproxy contains it). "
         "The other fence is .acquire of the map",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.4 (membar, fence: unidirectional proxy fences), 9.7.13.16 (tensormap.cp_fenceproxy). "
         "Triton, CUTLASS, DeepGEMM and the CuTe DSL have both"),
    Rule("order.map_in_global_memory",
         "The host or an earlier launch writes a tensor map in global memory. "
         "A CTA executes fence.proxy.tensormap::generic.acquire of the map before it uses it. "
         "A missing fence is a remark",
         _grades("documented", "documented"),
         "CUDA C++ Programming Guide, using TMA to transfer multi-dimensional arrays: a map in global memory requires a fence in each thread block. "
         "After cudaMemcpy the fence has system scope. "
         "pranjalssh/fast.cu PR 8 and NVIDIA/cudnn-frontend PR 898 cite it. "
         "No failure without it is known"),
    Rule("order.update",
         "Two threads each load a word of global or shared memory, compute a new value, and store it there, by relaxed or volatile accesses. "
         "If nothing orders the two threads, one update can be lost",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §8.10: only an atomic operation keeps other writes from coming between its read and its write. "
         "It is no data race, because both are morally strong"),
    Rule("order.lane_updates",
         "Several lanes of a warp load one place, compute new values, and store them there by one instruction. "
         "All updates except one are lost. "
         "In global memory it is a remark if each place has the same number of lanes, and they store one value",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §8.1 (lanes are threads), 8.10: only an atomic operation keeps other writes from coming between its read and its write"),
    Rule("order.carrier",
         "A thread acquires if it reads the value that the releasing thread stored. "
         "If another thread has overwritten that value by a store, the reader acquires nothing. "
         "If it has changed the value by an atomic operation, the reader still acquires. "
         "A plain (weak) store releases nothing. "
         "An atomic operation that does not change the value writes nothing",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.8 (release patterns), 8.9.2 (observation order)"),
    Rule("order.observation",
         "A morally strong read observes a strong write, directly or through atomic operations. "
         "Then the write comes before everything that follows the read in causality order, in the thread of the read or ordered after it",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.9.2 (observation order), 8.9.5 (causality order: X precedes Z in observation order, and Z precedes Y in base causality order)"),
    Rule("order.named_phases",
         "A warp arrives at a barrier of some warps. "
         "If the warp is not ordered after all arrivals of the previous phase, its arrival may count in that phase",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1: a barrier counts arrivals, and begins anew when the count is complete. "
         "The text does not say which warps arrive"),
    Rule("order.mbarrier_lives",
         "An mbarrier ends at mbarrier.inval, at another mbarrier.init, and at any write over its bytes. "
         "Every operation on it must be ordered before its end. "
         "For an asynchronous arrival, a wait for its phase gives this order. "
         "The next use of the bytes must be ordered after the end",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.15.10: an operation other than mbarrier.init on a location without a valid object is undefined. "
         "So is any other use of the location before mbarrier.inval. "
         "Silicon keeps no account of objects: an H100 left the word unchanged, so stores over an object after its last use work by accident. "
         "Asynchronous copies over an object that was not invalidated are wrong: triton-lang/triton issue 10106, NaN on an H200 and a B200"),
    Rule("order.pair_allocation",
         "In a pair of CTAs, tcgen05.dealloc comes after tcgen05.alloc of the other CTA. "
         "It also comes after all accesses of both CTAs to the columns. "
         "tcgen05.dealloc may block until both CTAs execute it. "
         "So a CTA must not wait, before its own dealloc, for something that the other CTA does only after its dealloc. "
         "If the CTA that allocates does not know that the other one has begun, it is a remark",
         _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.5 (no concurrent accesses from the peer, and dealloc may block: tables 47, 48), 9.7.16.7.1 (the peer CTA is launched). "
         "NVIDIA/cutlass issue 3435: with a late alloc of the other CTA 25 of 25 launches failed on a B300. "
         "With a cluster barrier before alloc, after alloc or before dealloc none failed. "
         "NVIDIA/cutlass PR 3316 and triton-lang/triton PR 10735 put a cluster barrier before alloc. "
         "No failure without this one is known"),
    Rule("order.mbarrier_phases",
         "A thread arrives at an mbarrier. "
         "If it does not know that the previous phase is complete, its arrival may count in that phase. "
         "A phase may end before an mbarrier.expect_tx takes effect, unless an arrival of the same phase follows it. "
         "Its bytes then count in the next phase",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.15.3: an arrival counts in the current phase, and a phase is over when its arrivals and bytes are complete"),
    Rule("order.sibling_arrivals",
         "By one instruction, the lanes of a warp arrive at the mbarriers of several CTAs. "
         "A warp that has waited for the phase at one CTA relies on the arrivals at the others. "
         "A later arrival there that nothing else orders is a remark",
         _grades("compiled", "compiled"),
         "PTX ISA 9.1 §8.1 (lanes are threads): nothing orders the arrivals of two lanes. "
         "DeepGEMM 54e2261 frees the stages of multicast pipelines this way (sm90_bf16_gemm.cuh, fp8 1d1d and 1d2d). "
         "No failure is known"),
    Rule("order.parity",
         "A thread waits at an mbarrier for a parity. "
         "Phase n and phase n - 2 have the same parity. "
         "If the thread does not know that phase n - 1 is complete, its wait may be satisfied by phase n - 2. "
         "Then it acquires only what was released up to that phase",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.15.16: a parity distinguishes only the current phase and the one before it"),
    Rule("order.tcgen05_fence",
         "tcgen05.fence orders tcgen05 instructions around relaxed accesses. "
         "It orders no other memory. "
         "It is not needed if the barrier releases and acquires",
         _grades(None, "compiled"),
         "PTX ISA 9.1 §9.7.16.6.3. "
         "ptxas 13.0 compiles it to a NOP. "
         "CUTLASS, Triton and the CuTe DSL leave it out after ordinary waits"),
    Rule("order.barrier_fences",
         "A relaxed load acquires at a later bar.sync for the threads of the CTA, and at barrier.cluster for those of the cluster. "
         "It acquires nothing for other threads",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1 and 9.7.13.4 order everything before and after these barriers among their threads. "
         "Chapter 8 has no such pattern"),
    Rule("order.fence_sc", "fence.sc and membar order like fence.acq_rel. The order of two such fences in a run is not used",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.9.3 (Fence-SC order): either fence may be the first, and the other order shows the race"),
    Rule("order.lanes",
         "The lanes of a warp are threads. "
         "A write of one lane is visible to another after both execute bar.warp.sync, or another instruction together (.sync, .aligned)",
         _grades("documented", "documented"),
         "PTX ISA 9.1 §8.1, 9.7.13.2 (bar.warp.sync orders memory). "
         "That shfl.sync, vote.sync and ldmatrix order memory is not promised: inferred, so that right kernels are silent"),
    Rule("order.groups",
         "A bulk group or a cp.async group belongs to the thread that issued the operations. "
         "Only the commit_group and wait_group of that thread count",
         _grades("documented", "documented", "documented"), "PTX ISA 9.1 §9.7.9.25.3.2, 9.7.9.25.3.3 (cp.async), 9.7.9.27.2.1, 9.7.9.27.2.2 (bulk): operations that the executing thread has initiated"),
    Rule("order.lanes_only_wait",
         "elect.sync, shfl.sync, vote.sync, match.sync, redux.sync, ldmatrix, stmatrix, movmatrix, mma.sync and wmma make lanes wait for each other. "
         "They order no memory. "
         "A release by one lane after them covers only its own stores. "
         "A matrix instruction on words that lanes have just stored requires bar.warp.sync before it. "
         "A violation is a remark",
         _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §9.7.13.2 says that bar.warp.sync orders the memory of its lanes. "
         "The other instructions only wait, by the text. "
         "The CUDA C++ guide says that vote, match, reduce and shuffle functions imply no memory barrier. "
         "cudnn-frontend PR 426 (merged) fixes such an arrival after elect.sync, which compute-sanitizer's racecheck reports. "
         "This is a remark because a warp issues its accesses of shared memory in order"),
    Rule("order.proxy_reads",
         "A bulk or tensor copy overwrites data that threads have read. "
         "fence.proxy.async is required between, by the reader or by the thread that issues the copy. "
         "A missing one is a remark",
         _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §8.7 and 9.7.13.4: accesses of one location through two proxies need a proxy fence. "
         "DeepEP issue 621, PR 632 and PR 642 (merged): wrong results on NVL72, right with the fence between the reads and the load. "
         "flash-attention PR 2462. "
         "This is a remark because CUTLASS' pipelines and Triton release stages without it"),
    Rule("order.messages",
         "A thread stores data and then a flag by relaxed or volatile stores, with no fence between. "
         "They are not ordered for a thread that reads the flag and then the data. "
         "This is a remark",
         _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §8.8 (a release pattern needs a release or a fence), 8.10.6: no data race, and no causality order either. "
         "apex' welford kernels have __threadfence there. "
         "This is a remark because no accesses race"),
    Rule("order.lane_frees",
         "An arrival of one lane covers only its own reads. "
         "If the other lanes of its warp read by a load that this lane has passed too, it is a remark",
         _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §8.1, 9.7.13.15.13. "
         "PipelineTmaAsync.consumer_release of the CuTe DSL (4.8.1) arrives this way, after plain loads in CUTLASS' dense_gemm_alpha_beta_persistent.py. "
         "A warp issues its accesses of shared memory in order"),
    Rule("barrier.in_turn",
         "More warps arrive at a barrier than its thread count allows. "
         "The first ones complete its phase, and the others begin the next phase. "
         "It stays a finding, because it is unspecified which warps are first",
         _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1 leaves it undefined. "
         "Seen on an H200 (driver 580.159, no trace is kept): with four warps at bar.sync 1, 64 all warps went on. With three warps the last one waited for ever"),
    Rule("barrier.arrive_sync",
         "A warp has arrived at a barrier by bar.arrive. "
         "If it executes bar.sync in the same phase, it counts once more",
         _grades("compiled", "compiled"),
         "FlashAttention 4.0.0b36, flash_fwd_sm90.py and flash_bwd_sm100.py: all warps arrive, one of them waits, and the count is one warp more. "
         "PTX ISA 9.1 §9.7.13.1 does not mention it"),
    Rule("order.same_value",
         "A write of the bytes that are already there is no race",
         _grades("inferred", "inferred"),
         "No order of such writes gives another result"),
    Rule("tensor_map.verdict",
         "cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col of driver 580 accept or refuse each set of arguments as smemsim does. smemsim.TENSOR_MAP_RULES lists the rules one by one",
         _grades("measured", "inferred"),
         "The driver's header. "
         "Some limits are in no document", ("encode_tiled", "encode_im2col", "encode_im2col_wide", "encode_pointers")),
    Rule("tensor_map.bits",
         "The 128 bytes of tiled and im2col maps are those that the driver writes",
         _grades("measured", "compiled"),
         "For fields that tensormap.replace can replace: the code that ptxas emits", ("encode_tiled", "encode_im2col", "encode_im2col_wide", "tma_loads")),
)}
# fmt: on
