"""What smemsim's rules rest on: every rule, its grade on each architecture, its source and the traces that show it."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

from smemsim.core.spec.grades import Grade

__all__ = ["RULES", "Rule", "kill_matrix", "witnessed"]


class Rule(NamedTuple):
    """One rule: the statement, the grade by architecture (absent: the rule does not exist there), sources, traces under golden/sm_90a."""

    name: str
    statement: str
    grades: dict[str, Grade]
    source: str
    traces: tuple[str, ...] = ()

    def exists_on(self, arch: str) -> bool:
        """Does an architecture, or the one that it has its rules of, have what the rule is about?"""
        return arch in self.grades or RELATIVES.get(arch, arch) in self.grades

    def on(self, arch: str) -> Grade:
        """Its grade on an architecture. sm_110a, sm_120a and sm_121a have that of sm_100a for what they share; programs and traces of another card prove nothing there.

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
    Rule("operand.k_major", "K-major: start + r%8*W + r/8*SBO + kb%W + kb/W*LBO, then the XOR; W is 16 without swizzle",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2", _OPERANDS),
    Rule("operand.mn_major", "MN-major: start + k%8*W + k/8*SBO + mb%W + mb/W*LBO, then the XOR; without swizzle LBO and SBO swap roles",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2", _OPERANDS),
    Rule("operand.swizzle", "the XOR comes last and acts on the complete sum, an absolute shared address",
         _grades("measured", "compiled"), "CUTLASS, DeepGEMM, JAX, Triton advance the start inside an atom", (*_OPERANDS, "tma_wgmma")),
    Rule("operand.any_start", "start, LBO and SBO are any multiples of 16 B, added with full carries, also past a row's end",
         _grades("measured", "inferred"), "same formulas as on sm_90a", ("wgmma_operands",)),
    Rule("operand.base_offset", "base_offset b: the XOR key is (sum - 128*b) >> 7, in all swizzled modes, modulo the mask; none ignores it",
         _grades("measured", "inferred"), "PTX ISA 9.1 §9.7.16.4.1 (modes and sign differ from CUTLASS's comment)", ("wgmma_operands", "tma_wgmma")),
    Rule("operand.lbo_past_width", "LBO is used in swizzled K-major only for K bytes beyond the swizzle width (sparse operand, 32B)",
         _grades("measured", "inferred"), "PTX ISA calls LBO unused there; a comment in Triton says it can be used", ("wgmma_operands",)),
    Rule("operand.atom_32b", "MN-major with 32-byte atoms (tf32): 4 rows of K an atom, SBO steps 4 K",
         _grades(None, "compiled"), "CUTLASS mma_traits_sm100.hpp, CuTe DSL, DeepGEMM; the PTX ISA's prose says 8"),
    Rule("operand.absolute_lbo", "bit 52: LBO is the address of the buffer that continues a 48-byte row past the end of the 128-byte line",
         _grades(None, None, "inferred"), "PTX ISA 9.1 §9.7.16.3.1.2 documents the mode; the read rule follows CUTLASS's use of it"),
    Rule("operand.sub_byte", "4-bit packed: 32 elements a chunk; padded 4- and 6-bit: 16 elements a chunk, data first, then a gap",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.10.4"),
    Rule("operand.window", "the first of every 8 lines must fit the window with a swizzle width, or the read faults (CUDA error 700); later lines past it read 0",
         _grades("measured", "inferred"), "dense bf16 operands B; the same memory system elsewhere", ("wgmma_window",)),
    Rule("descriptor.reserved_bits", "reserved and constant bits have no effect",
         _grades("measured", "inferred"), "JAX and early Triton leave tcgen05's constant bit 46 at 0; nothing is known of the others", ("wgmma_reserved_bits",)),
    Rule("wgmma.fragments", "registers: warp w has rows 16w to 16w + 15, thread 4g + q rows g and g + 8; D in pairs of columns, A in words of K",
         _grades("measured", None), "PTX ISA 9.1 §9.7.15.5.1.1, figures", ("wgmma_f32", "wgmma_f16", "wgmma_s32", "wgmma_sparse")),
    Rule("wgmma.sparse", "sparse metadata: four bits describe 4 elements of K (2 of tf32). The selector names two threads of each four. Four threads g have rows g and g + 8 of their warp. A register of the two has four such groups of each row. With 8-bit types all four threads have metadata, eight groups of one row each",
         _grades("measured", None), "PTX ISA 9.1 §9.7.15.6.1, figures; CUTLASS mma_traits_sm90_gmma_sparse.hpp", ("wgmma_sparse", "wgmma_metadata")),
    Rule("tcgen05.registers", "the registers of tcgen05.ld hold their values after tcgen05.wait::ld. ptxas makes each instruction that names one wait for the load, so a use before tcgen05.wait::ld is right. A load that no wait follows is a remark",
         _grades("", "documented", "documented"), "PTX ISA 9.1 §9.7.16.8.1, 9.7.16.8.5; Triton 3.9.0 and Gluon put tcgen05.wait::ld after the use of the registers, and some epilogues of the CuTe DSL (4.8.1) have none"),
    Rule("tcgen05.own_stores", "a warp writes cells by tcgen05.st and reads them by tcgen05.ld: tcgen05.wait::st is required between. Here the two keep their order, and a missing wait is a remark",
         _grades("", "documented", "documented"), "PTX ISA 9.1 §9.7.16.6.4.2 (non-pipelined instructions, same thread); no failure without it is known"),
    Rule("tcgen05.own_loads", "a warp reads cells by tcgen05.ld and writes them by tcgen05.st: tcgen05.wait::ld, or a use of the loaded registers, is required between. Here the two keep their order, and a missing wait is a remark",
         _grades("", "documented", "documented"), "PTX ISA 9.1 §9.7.16.6.4.2 (non-pipelined instructions, same thread), 9.7.16.8.5 (tcgen05.wait::ld); no failure without it is known"),
    Rule("wgmma.in_flight", "registers of D that are touched before wgmma.wait_group: ptxas waits itself, serialises or takes others (C7517, C7514, C7515, C7511); not those of A",
         _grades("compiled", None), "machine code of ptxas 13.0.88; PTX ISA 9.1 §9.7.15.7 leaves it undefined"),
    Rule("tcgen05.idesc", "instruction descriptor: three formats by kind, M and N of the whole instruction; which fields are legal: smemsim.INSTR_RULES",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44; Triton and CuTe DSL emit the same words"),
    Rule("tcgen05.idesc_bits", "reserved bits of the instruction descriptor do nothing",
         _grades(None, "inferred"), "as measured of wgmma's descriptors; CuTe DSL 4.8.1 keeps its names for them to later architectures; bit 12 of mxf4 and mxf4nvf4 is set by its class: compiled"),
    Rule("tcgen05.scale_address", "bits 31:30 of the address of scale factors do nothing: the instruction takes the scale id of its descriptor, which kernels put there too",
         _grades(None, "compiled"), "CUTLASS 7107b055 mma_sm100_desc.hpp and CuTe DSL 4.8.1 set both alike; DeepGEMM and Triton set the descriptor's alone"),
    Rule("tcgen05.pair", "cta_group::2: CTA i gives rows i M/2 on of A and i N/2 on of B at the same offsets, and holds its rows of D for all N",
         _grades(None, "compiled"), "CUTLASS mma_traits_sm100.hpp (ALayout, BLayout); PTX ISA 9.1 §9.7.16.5"),
    Rule("tcgen05.accumulator", "D in tensor memory: layouts A to G by M, cta_group and .ws, a column for each n; every layout has its own grade",
         _grades(None, "compiled"), "CUTLASS mma_traits_sm100_frag.hpp, golden/compiled (A, B, D, F); PTX ISA 9.1 §9.7.16.10.5, figures; C is inferred"),
    Rule("tcgen05.tensor_operands", "A, scale factors and sparsity metadata in tensor memory: lanes of the rows, each copy in its band of lanes",
         _grades(None, "compiled"), "CUTLASS mma_traits_sm100_frag.hpp; PTX ISA 9.1 §9.7.16.10.4, 9.7.16.10.7, 9.7.16.10.8, figures"),
    Rule("tcgen05.ld_st", "32x32b: thread t has lane t; 16x64b, 16x128b, 16x256b: rows in groups of 8 lanes, 16x32bx2: two halves",
         _grades(None, "compiled"), "CUTLASS copy_traits_sm100.hpp; PTX ISA 9.1 §9.7.16.8, figures 183 to 187"),
    Rule("tcgen05.warp_window", "tcgen05.ld and .st begin at lane 32 (warp % 4) + lane % 32: of the lane in their address only bits 4:0 count, the warp gives the rest",
         _grades(None, "compiled"), "DeepGEMM 54e2261 sm100_bf16_gemm.cuh and sm100_bmk_bnk_mn.cuh, FlashMLA and CuTe DSL 4.8.1 1cta_mma_a_from_tmem.py give lane 0 in every warp"),
    Rule("tcgen05.one_address", "tcgen05.ld and .st take one address for a warp. If threads give different addresses, that of the first thread counts",
         _grades(None, "compiled"), "ptxas 13.0.88 moves the address to a uniform register (R2UR); CuTe DSL, CUTLASS 7107b05 mixed_input_fmha_prefill_d512.py stores so"),
    Rule("tcgen05.cp", "rows of 16 or 32 bytes, read K-major through the descriptor, to lanes; multicast to warps; one element a byte when decompressed",
         _grades(None, "compiled"), "CUTLASS copy_traits_sm100.hpp; PTX ISA 9.1 §9.7.16.9.2"),
    Rule("tcgen05.alloc", "powers of two from 32 columns, all lanes; the first that fit on multiples of their number (inferred); none after relinquish_alloc_permit; dealloc begins where an allocation does, and a second one of the same does nothing",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.7.1; what is checked: guardrails in the code of ptxas 13.0.88, which has none against an allocation that is larger than the one before; the second one: CUTLASS 7107b05 examples/112_blackwell_ssd, whose four warps of the epilogue all give the same columns back"),
    Rule("tcgen05.commit", "tcgen05.commit arrives once, on the barrier it names, or with a mask on that of every CTA whose rank has a bit",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.12"),
    Rule("tcgen05.shift", "tcgen05.shift.down: of 8 columns lane i takes what lane i + 1 had, in every 32 lanes by themselves; the last keeps its own",
         _grades(None, "inferred"), "PTX ISA 9.1 §9.7.16.9.3 gives neither direction nor lanes; a readback on a B200 by github.com/cicuvc/nvidia-sass-document; the direction: slicek_m32n8k128.py of tcgen05.ashift"),
    Rule("tcgen05.ashift", ".ashift: A's rows are multiplied as they lie, and then moved in tensor memory as tcgen05.shift moves them",
         _grades(None, "inferred"), "PTX ISA 9.1 §9.7.16.10.9.1 names neither the direction nor the moment; CuTe DSL's experimental/primitives/tcgen05/slicek_m32n8k128.py: its check holds so, and fails with the rows moved the other way"),
    Rule("tcgen05.lane_masks", "disable-output-lane: a bit for each lane of D that is kept, the even CTA's words first; zero-column mask: skip counts masked columns",
         _grades(None, "inferred"), "PTX ISA 9.1 §9.7.16.10.9, 9.7.16.4.3 (worked examples; its table exchanges skip and use)"),
    Rule("arithmetic.wgmma", "exact products and c, each cut at 25 bits (fp8: 13) below the largest exponent, summed, converted once: f32 toward zero (fp8: to 13 bits), f16 to nearest even; zero is +0; s32 wraps or clamps",
         _grades("measured", None), "public studies of tensor-core arithmetic", ("wgmma_dots_f32", "wgmma_dots_f16", "wgmma_dots_s32", "reference_gemm")),
    Rule("arithmetic.mma_sync", "mma.sync of floats: an instruction makes one sum, by the rule of wgmma (also tf32 of k8). 8-bit floats make two sums like f16: the first from zero, the second from the result of the first. Then C is added, rounded to nearest. m8n8k4 of f16 is a sequence of f32 operations, each rounded to nearest. f64 is a chain of fused multiply-adds",
         _grades("measured", "inferred"), "Khattak and Mikaitis (H100, H200, B200), MMA-Sim; SASS of ptxas 13.0.88, alike for sm_90a and sm_100a", ("launches",)),
    Rule("arithmetic.mma_sync_ampere", "mma.sync of sm_80, sm_86, sm_89: K in steps of 16 bytes, D of one step is C of the next; terms are cut at 24 bits; 8-bit floats of sm_89 at 13, which f32 results keep",
         {"sm_80": Grade.DOCUMENTED, "sm_86": Grade.INFERRED, "sm_89": Grade.DOCUMENTED}, "MMA-Sim (mmasim 2.1.1), which reports that cards agree; sparse operands by analogy"),
    Rule("arithmetic.mma_sync_rtx", "mma.sync of sm_120a: one sum with 25 bits, of 8-bit floats too; scale factors belong to the products; 4-bit kinds: groups of 16 summed exactly, then 35 bits",
         {"sm_120a": Grade.DOCUMENTED, "sm_121a": Grade.INFERRED}, "MMA-Sim (mmasim 2.1.1), which reports that a card agrees; 6-bit types, 4-bit types in bytes and sparse operands by analogy"),
    Rule("mma_sync.scales", "block-scaled mma.sync: of the two threads that thread-id-a selects the even one has the factors of row g, the odd one those of row g + 8; the low byte is that of the lowest K",
         dict.fromkeys(("sm_120a", "sm_121a"), Grade.COMPILED), "CUTLASS 7107b05 SFALayout of SM120_16x8x64_TN_VS; PTX ISA 9.1 §9.7.14.5, a figure. The checks of CUTLASS 79a, of the CuTe DSL's blackwell_geforce examples and of Triton's dot_scaled pass with it and fail with each alternative"),
    Rule("arithmetic.tcgen05", "the same with 25 bits and full f32 also for fp8; 4-bit block-scaled kinds: groups of 16 summed exactly, then 35 bits",
         _grades(None, "inferred"), "MMA-Sim; DeepGEMM issue 176 (25 bits for fp8, 34 to 37 for 4-bit); wgmma measured beside it"),
    Rule("tma.placement", "rows lie the swizzle width apart (dense without swizzle), the XOR acts on the absolute shared address",
         _grades("measured", "compiled"), "CUDA guide 10.29.3.2, PTX ISA 9.1 §5.5.7; the pitch of rows narrower than the swizzle is in no document",
         ("tma_loads", "tma_stores", "recorder_loads", "recorder_kernel")),
    Rule("tma.bounds", "loads clip per element in every dimension; coordinates are signed",
         _grades("measured", "documented"), "PTX ISA 9.1 §5.5.4", ("tma_loads", "tma_loads_far")),
    Rule("tma.element_strides", "ceil(box / element stride) elements a dimension; dimension 0's stride is ignored",
         _grades("measured", "documented"), "cuTensorMapEncodeTiled", ("tma_loads", "tma_stores")),
    Rule("tma.fill", "outside is zero, or 0x7FF7 in every 16 bits with NaN fill",
         _grades("measured", "inferred"), "the NaN's bits are in no document", ("tma_loads", "tma_im2col", "tma_conversions")),
    Rule("tma.values", "TFLOAT32 and TFLOAT32_FTZ loads round to nearest even at 10 fraction bits, past the largest number to infinity, NaN to 0x7FFFE000; all else is copied",
         _grades("measured", "inferred"), "no document describes the rounding; FLOAT32_FTZ does not flush", ("tma_values", "tma_conversions")),
    Rule("tma.im2col", "im2col: pixels walk W, H, D, then N by their element strides, wrapping to the lower corner; offsets are added to each; a start outside the pixel box traps",
         _grades("measured", "documented"), "PTX ISA 9.1 §5.5.5; the element stride of N and what a start outside does are in no document", ("tma_im2col", "tma_im2col_stores", "recorder_im2col")),
    Rule("tma.interleave", "interleave: dimension 0 counts slices of 16 or 32 B, strides included; one plane of dimension rank - 2; dense rows, the XOR of any swizzle; an im2col pixel is one slice",
         _grades("measured", "inferred"), "figures of the PTX ISA; layout and strides are in no document", ("tma_interleave", "tma_interleave_stores", "tma_im2col_interleave")),
    Rule("tma.map_bits", "bits no encoder writes, and the derived words, have no effect; the tf32 bit or NaN fill with another type traps loads; address off 16 B traps (716)",
         _grades("measured", None), "the documents call the 128 bytes opaque", ("tma_edited", "tma_swizzle_bits")),
    Rule("tma.map_words", "version 0 or 1, and anything in words 16 to 31 of a map: transfers go by words 0 to 15",
         _grades("measured", "compiled"), "host code of CuTe DSL (nvidia-cutlass-dsl 4.8.1), whose maps the examples of sm_100a and sm_103a use", ("tma_edited",)),
    Rule("tma.blackwell", "tile::gather4, tile::scatter4, im2col::w, sub-byte types, 128B atoms, 96B",
         _grades(None, "documented"), "PTX ISA 9.1 §5.5, 9.7.9.27, driver header; the pitch of 96B and the bytes of 16U6 are those of one simulator"),
    Rule("tensor_map.replace", "tensormap.replace: single words loaded, masked, stored; no value checked; sizes - 1, strides >> 4; the tf32 bit is only ever set",
         _grades("measured", "compiled"), "code of ptxas 13.0.88, PTX ISA 9.1 §9.7.9.28", ("tensormap_replace",)),
    Rule("tma.transaction_bytes", "the barrier is credited with the dense box, fill included, gaps between rows not",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.27", ("tma_loads", "tma_im2col", "tma_interleave")),
    Rule("tma.store_clip", "stores and reductions clip dimension 0 at whole 16-byte chunks, the others exactly",
         _grades("measured", "compiled"), "Triton issue 11583 (Hopper and Blackwell); the PTX ISA says per element", ("tma_stores", "tma_im2col_stores", "tma_reductions", "recorder_stores")),
    Rule("tma.traps", "traps: a dimension above 2^31, dimension 0 off 16 B, a store's negative start (715), past the window (700), shared address off 128 B (716)",
         _grades("measured", "inferred"), "CUDA guide tables 10 and 12 and PTX ISA 9.1 §5.5.3 forbid most of them; no document says what happens", ("tma_load_traps", "tma_store_traps", "tma_loads_far", "tma_mode_traps", "recorder_loads")),
    Rule("bulk.copy", "bulk copies: byte i of the source goes to byte i of the destination, whose CTA's barrier is credited with the size",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.25.4.1", ("bulk_copies",)),
    Rule("bulk.size", "sizes below 2^20 B: what is over a multiple of 16 B is neither moved nor credited; 0 and 2^20 move nothing",
         _grades("measured", "inferred"), "the PTX ISA requires multiples of 16 B, and has no more", ("bulk_traps",)),
    Rule("bulk.traps", "bulk copies: past the CTA's own window (700), an address off 16 B, a barrier's off 8 B (716), past another CTA's window (719)",
         _grades("measured", "inferred"), "PTX ISA 9.1 §9.7.9.25.4.1 forbids them; no document says what happens", ("bulk_traps",)),
    Rule("reduce.values", "integers modulo 2^n; floats to nearest even, subnormals kept but in FTZ maps; f64 hands a NaN on, other sums give 0x7FFF...; min and max of a NaN and a number give the number, -0 is below +0",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.25.4.2, which says that add.f32 flushes; the bits of NaNs and zeros are in no document", ("bulk_reductions", "tma_reductions")),
    Rule("reduce.types", "which operation a tensor reduction has on which data type of the map; all else traps (715)",
         _grades("measured", "inferred"), "PTX ISA 9.1 §9.7.9.27 lists operations, not which types of a map they go with", ("tma_reduce_traps",)),
    Rule("multicast.delivery", "every CTA in ctaMask gets the box at the same offset and its own barrier the full byte count; ranks in the addresses are ignored (seen with tiled maps of rank 2)",
         _grades("measured", "documented"), "PTX ISA 9.1 §9.7.9.27, operand ctaMask; it wants the barrier in the destination's CTA", ("multicast", "multicast_traps")),
    Rule("multicast.masks", "an empty ctaMask delivers and credits nothing; a bit for a CTA that is not in the cluster traps (719)",
         _grades("measured", "inferred"), "no document says what happens", ("multicast_traps",)),
    Rule("cluster.addresses", "shared::cluster address = CTA rank << 24 | offset; in a cluster a CTA's own .shared addresses have its rank too, and an address without one is CTA 0's",
         _grades("measured", "compiled"), "CUTLASS clears bit 24 to reach the even CTA of a pair", ("cluster_addresses",)),
    Rule("shared.generic", "an operand in shared memory, .shared or generic: its low 32 bits are the .shared address, whose upper half cvta.shared puts in front",
         _grades("compiled", "compiled"), "SASS of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, SYNCS, UBLKCP, UTCBAR and the store of tcgen05.alloc take the low register of a 64-bit address; ThunderKittens 0b55588 tensor_allocator (alloc), Triton 3.6 (commit)"),
    Rule("shared.width", "addresses in .shared, .local, .const and .param have 32 bits: a sum of a 32-bit register and a number wraps at 2^32, of a 64-bit register the low 32 bits count",
         _grades("compiled", "compiled"), "PTX ISA 9.1 §6.4.1 (addresses are zero-extended or cut to the width of the state space); SASS of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, LDL, LDC, LDTM and UBLKCP add the number to a 32-bit register"),
    Rule("shared.static", "static shared memory of an entry: its own variables and its callees', used or not, and those of the file that they name; the dynamic part follows, aligned for all arrays without a size that the file declares",
         _grades("compiled", "compiled"), "sizes that ptxas 13.0.88 reports (-v)"),
    Rule("gpu.execution", "whole kernels, instruction by instruction as PTX has them: every byte that they leave in memory",
         _grades("measured", "compiled"), "PTX ISA; where it leaves a choice (NaN operands, approximations) results agree within its bounds", ("launches",)),
    Rule("texture.read", "what textures give without a filter: address modes, borders, layers, faces, formats, gathers, whole coordinates, queries; a normalised coordinate is cut to 21 fraction bits",
         _grades("measured", "inferred"), "CUDA C++ programming guide, texture fetching; what lies outside of layers and of whole coordinates is in no document", ("textures",)),
    Rule("texture.filter", "linear filtering: the weights are multiples of 1/256, and add up to 1. They are divided level by level, then along z, x and y. Each texel is cut toward zero below the largest exponent of its plane. The sums of several planes are cut toward minus infinity, below the largest exponent of all, which counts in steps of 4. At a corner of a cube three texels have weights",
         _grades("measured", "inferred"), "CUDA C++ programming guide, linear filtering, has 9-bit weights with 8 fraction bits, and no more", ("textures",)),
    Rule("surface.access", "bytes and formats of surfaces: a clamped access goes to the nearest one inside, a layer counts as unsigned; formatted stores limit integers and cut f16 towards zero; an access off its size traps (716), one outside with .trap as well (700)",
         _grades("measured", "inferred"), "PTX ISA 9.1 §9.7.10.2; it says neither what formats make of values nor which error a trap gives", ("surfaces", "surface_traps")),
    Rule("shared.reserved", "the first KiB of shared memory is memory like the rest for loads, stores, atomics and cp.async of its own CTA; a .shared::cta address below it in another CTA's window traps (715)",
         _grades("measured", "inferred"), "PTX ISA 9.1 §10.32 (%reserved_smem_offset_*) names it, and says not what accesses do", ("reserved_shared",)),
    Rule("counters.wavefronts", "lanes go together by 32, 16 or 8 (1 to 4, 8, 16 bytes); a group costs the different words of its busiest bank, of atomics and cp.async.ca its lanes; two groups of a load go together if neighbours have one address",
         _grades("measured", "inferred"), "CUDA C++ programming guide has the 32 banks; how vectors, atomics and matrices are split is in no document", ("access_shared", "access_async", "access_lines", "launch_counters", "counted_kernels", "counted_kernels_ptxas129")),
    Rule("counters.sectors", "an access of global memory, or a load of another CTA's shared memory, costs the different 32-byte sectors of its lanes",
         _grades("measured", "inferred"), "CUDA C++ Best Practices Guide, coalesced access to global memory", ("access_lines", "access_copies")),
    Rule("counters.copies", "TMA and bulk copies access a bank once for each 4-byte word of shared memory, whatever the swizzle, and cost no wavefront",
         _grades("measured", "inferred"), "in no document", ("access_copies",)),
    Rule("heap.capacity", "how many allocations of a size the kernels' heap holds",
         _grades("measured", "inferred"), "CUDA C++ programming guide, dynamic global memory allocation, says nothing of sizes", ("heap",)),
    Rule("order.exit", "a thread that has exited counts as arrived at barrier.cluster, and at bar.sync of all threads. Its earlier accesses happen before the accesses of the threads that wait there",
         _grades("compiled", "compiled"), "ThunderKittens deallocates tensor memory after a cluster barrier that counts exits (tensor_allocator). PTX ISA 9.1 §9.7.13.4 counts them, and does not mention memory"),
    Rule("order.relaxed", "a relaxed or volatile store, or a relaxed arrival, releases what an earlier fence of its thread covers. A relaxed or volatile load, or a relaxed wait, acquires at the next fence of its thread",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.8 (release and acquire patterns), 9.7.16.6; CuTe DSL waits relaxed and fences"),
    Rule("order.relaxed_cluster_arrive", "barrier.cluster.arrive.relaxed releases nothing. If nothing else is missing, it is a remark",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.13.4; Triton, CUTLASS and DeepGEMM emit it in kernels that are right on cards"),
    Rule("order.warpgroup", "wgmma.mma_async reads data that its four warps have written. Each warp executes fence.proxy.async after its writes, and no barrier orders the warps. If nothing else is missing, it is a remark",
         _grades("compiled", None), "PTX ISA 9.1 §9.7.15.5: .sync is the warp's, and wgmma.mma_async of all four warps; FlashMLA 9241ae3 fills rows past the end so (csrc/sm90/decode/dense/splitkv_mla.cuh, fill_oob_V), and its tests put NaN there"),
    Rule("order.fenced_by_others", "each thread executes a fence, then a barrier, and then one thread a relaxed atomic: it releases what all have fenced. One thread reads relaxed, then all execute a barrier, and then each a fence: each acquires",
         _grades("inferred", "inferred"), "the fence in the PTX ISA's release and acquire patterns (8.8) is the own thread's; the pattern of __threadfence, __syncthreads, atomicAdd, __syncthreads, __threadfence relies on it"),
    Rule("order.same_multiprocessor", "if only one CTA fits on a multiprocessor, two CTAs with the same %smid run one after the other, and the second sees the writes of the first. A race of the two is a remark",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §10 (%smid) says that the number is volatile, and of memory nothing; programs keep workspaces, and states of random numbers, by %smid (Crystal, ssb; cuRAND states by multiprocessor and warp), with one cache for both CTAs. Seen on an H200 (driver 580.159, no trace is kept): of 400,000 CTAs that had a multiprocessor each to themselves none read an old word of the one before it"),
    Rule("order.warp_synchronous", "a lane stores a word of shared memory by a volatile store, and another lane of the warp loads it by a volatile load. If the lanes do not synchronise in between, they race like plain accesses, unless a loop waits for the value",
         _grades("documented", "documented"), "CUDA C++ Programming Guide, Independent Thread Scheduling: code that relies on lanes in step needs __syncwarp(); by the PTX ISA (8.7) the two are morally strong, and the load may bring the old value"),
    Rule("order.shuffles", "a value by shfl.sync is undefined if its source lane does not execute the instruction, or is not in the member mask. It is reported at its use",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.9.6 (shfl.sync)"),
    Rule("order.unused_read", "a read of global memory is no race if its value is not used: it reaches no store that the warp executes, no branch, guard, atomic operation, shared memory or matrix instruction",
         _grades("compiled", "compiled"), "Triton lets warps load the elements of others in a block smaller than the CTA and guards their stores alone"),
    Rule("order.looks_again", "a plain load of a word, which an atomic operation of the program (cas, min, max, and, or) changes at the same address, is a remark, not a race",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §8.7: a data race; the atomic operation decides by the value that is there then"),
    Rule("order.reader_fence", "a thread learns of data by a relaxed operation, and executes no fence after it. Its plain load of the data is a remark, if in this launch only its own CTA has loaded from the same 128 bytes, and only after the operation. Its plain store over data that others have read or written is always a remark",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §8.8: no acquire pattern without the fence, so a data race; of a fence ptxas 13.0 makes MEMBAR and CCTL.IVALL, which drops lines of the L1, and there is none to drop; threadFenceReduction of NVIDIA/cuda-samples c94ff366 and llm.c read so; "
         "a store waits for the branch that the polled value decides, as in waitPeer of NCCL's src/device/prims_simple.h (06de78e), with only a volatile load and a barrier before it"),
    Rule("order.replaced_alike", "several warps of a CTA change fields of one map in global memory by tensormap.replace, and nothing orders them: a remark",
         _grades("compiled", "compiled"), "PTX ISA 9.1 §9.7.9.28: a weak operation on the whole map, so a data race; CuTe DSL 4.8.1 has one lane of each epilogue warp make the same map in the same place (dense_gemm_ptr_array.py of CUTLASS 7107b05)"),
    Rule("order.past_l1", "a load or store of a word with .cg, .cv or .wt is not ordered with another such access, or with a strong access, of that word: a remark. These accesses order no other word",
         _grades("compiled", "compiled"), "PTX ISA 9.1 §9.7.9.1 (cache operators), 8.7: weak, so a data race; words with their state in them, of up to 64 bits, are handed on so by CUB's decoupled look-back (ThreadStore<STORE_CG>, up to CUDA 11) and by Dr.Jit 1.5.0"),
    Rule("order.dependent_launch", "a launch with programmatic stream serialization may begin when all CTAs of the previous launch have executed griddepcontrol.launch_dependents or have exited. Only griddepcontrol.wait orders their writes before it, and also the accesses of earlier launches for which they have not waited. A fence of device scope before griddepcontrol.launch_dependents synchronises with the start of the next launch. The exit of a CTA does not",
         _grades("documented", "documented"), "PTX ISA §9.7.13.13 (griddepcontrol: all prerequisite grids in flight; a release fence before launch_dependents); CUDA C++ Programming Guide, programmatic dependent launch: without a trigger it occurs after all thread blocks have exited, and in either case the next launch may begin before the data are visible; NVIDIA/cccl issue 9134. An H100 (driver 580.159.04) let a third launch that did not wait see nothing of a first one of 5 ms, in 20 of 20 runs, where the one between had not waited, or had let it begin first; one that waited saw all, whatever the one between did"),
    Rule("order.non_coherent", "ld.global.nc of data that the kernel has written in the same launch is a remark: the value may be an old one",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.9.9: the memory has to be read-only; DeepEP relies on it, with .L1::no_allocate, and says that this is outside of the document"),
    Rule("memory.allocated", "memory that a program allocates is uninitialised. A kernel that uses a value from there gets a finding. If it only copies the value to global memory, it gets a remark, except for a matrix product",
         _grades("documented", "documented"), "CUDA Runtime API, cudaMalloc: the memory is not cleared; PyTorch, torch.empty: uninitialized data. That a copy does no harm is inferred: kernels copy buffers with their padding"),
    Rule("order.scope", "two patterns synchronise, and two strong accesses are no race, if the scope of each includes the other's thread. The same holds for the write and the read that carry a pattern",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.4 (scope), 8.7 (morally strong), 8.9.2 (observation order)"),
    Rule("order.default_scope", "an mbarrier operation without a scope orders the CTAs of a cluster, though the PTX ISA gives it .cta. An explicit .cta does not",
         _grades("compiled", "compiled"), "CUTLASS ClusterBarrier::arrive(cta_id) and ::wait write none, and free a stage of another CTA by them; PTX ISA 9.1 §9.7.13.15.13"),
    Rule("order.narrow_wait", "a wait at an mbarrier with an explicit .acquire.cta orders only threads of its CTA. In shared and tensor memory it is a remark, if nothing else is missing",
         _grades("compiled", "compiled", "compiled"), "PTX ISA 9.1 §9.7.13.15.16; ptxas 13.0 makes the same machine code of it as of a wait without a scope, and .acquire.cluster adds CCTL.IVALL alone, "
         "which is about global memory; the waits of the CuTe DSL (4.8.1, experimental.primitives) write it by default, in its own example of a cluster too"),
    Rule("order.narrow_arrival", "an arrival with .release.cta at another CTA's mbarrier releases nothing to that CTA. If only reads and complete operations rely on it, it is a remark, "
         "and a finding where ordinary stores or copies of cp.async do",
         _grades("compiled", "compiled", "compiled"), "PTX ISA 9.1 §9.7.13.15.13; ptxas 13.0 makes the same machine code of it as of an arrival without a scope, and of .release.cluster with MEMBAR.ALL.GPU in front; "
         "it is the default of mbarrier_arrive of the CuTe DSL (4.8.1, cute/arch/mbar.py), whose notes want .cluster where data are handed to another CTA. CUTLASS issues 3643 (29 of 200 runs wrong on a B200: scale factors "
         "that the peer copies by cp.async) and 3324 (the same with an arrival without a scope)"),
    Rule("order.tensormap_proxy", "a transfer sees the writes of threads into its map only after two fences on the happens-before path: fence.proxy.tensormap::generic.release of the writer (cp_fenceproxy contains it), and .acquire of the map",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.13.4 (membar, fence: unidirectional proxy fences), 9.7.13.16 (tensormap.cp_fenceproxy); Triton, CUTLASS, DeepGEMM and the CuTe DSL write both"),
    Rule("order.map_in_global_memory", "the host or an earlier launch writes a tensor map in global memory. A CTA executes fence.proxy.tensormap::generic.acquire of the map before it uses it. A missing fence is a remark",
         _grades("documented", "documented"), "CUDA C++ Programming Guide, using TMA to transfer multi-dimensional arrays: a map in global memory requires a fence in each thread block, of system scope after cudaMemcpy; pranjalssh/fast.cu PR 8 and NVIDIA/cudnn-frontend PR 898 cite it; no failure without it is known"),
    Rule("order.update", "two threads each load a word of global or shared memory, compute a new value, and store it there, by relaxed or volatile accesses. If nothing orders the two, an update is lost in some order",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.10: nothing but atomic operations keeps another write from coming between a read and a write; no data race, as both are morally strong"),
    Rule("order.lane_updates", "several lanes of a warp load one place, compute new values, and store them there by one instruction: all updates except one are lost. If every place "
         "has as many lanes, which leave one value, that is a remark in global memory",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.1 (lanes are threads), 8.10: nothing but atomic operations keeps another write from coming between a read and a write"),
    Rule("order.carrier", "a store of another thread ends the release at an address. An atomic passes it on. A plain store carries no release. An atomic that does not change the value writes nothing",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.8 (release patterns), 8.9.2 (observation order)"),
    Rule("order.observation", "a strong write is observed by a morally strong read, directly or through atomics. In causality order the write comes before everything that follows the read, in its thread or ordered after it",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.9.2 (observation order), 8.9.5 (causality order: X precedes Z in observation order, and Z precedes Y in base causality order)"),
    Rule("order.named_phases", "a warp arrives at a barrier of some warps. If it is not ordered after all arrivals of the previous phase, it may be counted in that phase",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §9.7.13.1: a barrier counts arrivals, and begins anew when the count is complete; the text does not say which warps arrive"),
    Rule("order.mbarrier_lives", "an mbarrier ends at mbarrier.inval, at another mbarrier.init, and at any write over its bytes. Every operation on it must be ordered before its end, and an asynchronous arrival by a wait for its phase. The next use of the bytes must be ordered after its end",
         _grades("documented", "documented"), "PTX ISA 9.1 §9.7.13.15.10: an operation other than mbarrier.init on a location without a valid object is undefined, and so is any other use of the location before mbarrier.inval. Silicon keeps no account of objects: an H100 left the word as it was, so stores over an object after its last use work by accident. Asynchronous copies over an object that was not invalidated are wrong: triton-lang/triton issue 10106, NaN on an H200 and a B200"),
    Rule("order.pair_allocation", "tcgen05.dealloc of a pair happens after tcgen05.alloc of the other CTA and after all accesses of both CTAs to the columns, and nothing follows it for which the other CTA waits before its own tcgen05.dealloc. If the CTA that allocates does not know that the other one has begun, it is a remark",
         _grades(None, "documented"), "PTX ISA 9.1 §9.7.16.5 (no concurrent accesses from the peer; dealloc may or may not block: tables 47, 48), 9.7.16.7.1 (the peer CTA is launched). NVIDIA/cutlass issue 3435: with alloc of the other CTA late, 25 of 25 launches failed on a B300, "
         "and none with a barrier of the cluster before alloc, after alloc or before dealloc. NVIDIA/cutlass PR 3316 and triton-lang/triton PR 10735 put a barrier of the cluster before alloc; no failure without it is known"),
    Rule("order.mbarrier_phases", "a thread arrives at an mbarrier. If it does not know that the previous phase is complete, it may be counted in that phase. Bytes of mbarrier.expect_tx may count in the next phase, if no arrival of this phase comes after it",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §9.7.13.15.3: an arrival counts in the current phase, and a phase is over when arrivals and bytes have come"),
    Rule("order.sibling_arrivals", "a warp knows that a phase of one CTA's mbarrier is complete. Then other lanes of the same instructions have arrived at the mbarrier of another CTA. An arrival there that relies on this alone is a remark",
         _grades("compiled", "compiled"), "PTX ISA 9.1 §8.1 (lanes are threads): nothing orders the arrivals of two lanes; DeepGEMM 54e2261 frees the stages of multicast pipelines so (sm90_bf16_gemm.cuh, fp8 1d1d and 1d2d), and no failure is known"),
    Rule("order.parity", "a thread waits at an mbarrier for a parity. If it does not know that the previous phase is complete, the wait may have ended two phases ago. It acquires only what was released by then",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §9.7.13.15.16: a parity says of the current and the preceding phase alone which is meant"),
    Rule("order.tcgen05_fence", "tcgen05.fence orders tcgen05 instructions around relaxed accesses, and no other memory. It is not needed if the barrier releases and acquires",
         _grades(None, "compiled"), "PTX ISA 9.1 §9.7.16.6.3; ptxas 13.0 makes a NOP of it, and CUTLASS, Triton and the CuTe DSL leave it out after ordinary waits"),
    Rule("order.barrier_fences", "a relaxed load acquires at a later bar.sync for the threads of the CTA, and at barrier.cluster for those of the cluster. It acquires nothing for other threads",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §9.7.13.1 and 9.7.13.4 order all that comes before and after them among their threads; chapter 8 has no pattern of it"),
    Rule("order.fence_sc", "fence.sc and membar order like fence.acq_rel. The order of two such fences in a run is not used",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §8.9.3 (Fence-SC order): which is first is open, and the other order shows the race"),
    Rule("order.lanes", "the lanes of a warp are threads. A write of one lane is visible to another after both execute bar.warp.sync, or another instruction together (.sync, .aligned)",
         _grades("documented", "documented"), "PTX ISA 9.1 §8.1, 9.7.13.2 (bar.warp.sync orders memory); that shfl.sync, vote.sync, ldmatrix do too is no promise of it: inferred, so that right kernels are silent"),
    Rule("order.groups", "a bulk group or a cp.async group belongs to the thread that issued the operations. Only the commit_group and wait_group of that thread count",
         _grades("documented", "documented", "documented"), "PTX ISA 9.1 §9.7.9.25.3.2, 9.7.9.25.3.3 (cp.async), 9.7.9.27.2.1, 9.7.9.27.2.2 (bulk): operations that the executing thread has initiated"),
    Rule("order.lanes_only_wait", "elect.sync, shfl.sync, vote.sync, match.sync, redux.sync, ldmatrix, stmatrix, movmatrix, mma.sync and wmma make lanes wait for each other and order no memory. A release by one lane after them covers only its own stores. A matrix instruction on words that lanes have just stored requires bar.warp.sync before it. A violation is a remark",
         _grades("documented", "documented", "documented"), "PTX ISA 9.1 §9.7.13.2 says of bar.warp.sync that it orders the memory of its lanes, and of the others only that they wait; the CUDA C++ guide says of vote, match, "
         "reduce and shuffle functions that they imply no memory barrier; cudnn-frontend PR 426 (merged) fixes such an arrival after elect.sync, which compute-sanitizer's racecheck reports. A remark since a warp issues its accesses of shared memory in order"),
    Rule("order.proxy_reads", "a bulk or tensor copy overwrites data that threads have read. fence.proxy.async is required between, by the reader or by the thread that issues the copy. A missing one is a remark",
         _grades("documented", "documented", "documented"), "PTX ISA 9.1 §8.7 and 9.7.13.4: accesses of one location through two proxies need a proxy fence; DeepEP issue 621, PR 632 and PR 642 (merged): wrong results on NVL72, right with "
         "the fence between the reads and the load; flash-attention PR 2462. A remark since CUTLASS' pipelines and Triton release stages without it"),
    Rule("order.messages", "a thread stores data and then a flag by relaxed or volatile stores, with no fence between. They are not ordered for a thread that reads the flag and then the data: a remark",
         _grades("documented", "documented", "documented"), "PTX ISA 9.1 §8.8 (a release pattern needs a release or a fence), 8.10.6: no data race, and no causality order either; apex' welford kernels have __threadfence there. "
         "A remark since no access races"),
    Rule("order.lane_frees", "an arrival of one lane covers only its own reads. If the other lanes of its warp read by a load that this lane has passed too, it is a remark",
         _grades("compiled", "compiled", "compiled"), "PTX ISA 9.1 §8.1, 9.7.13.15.13; PipelineTmaAsync.consumer_release of the CuTe DSL (4.8.1) arrives so, after plain loads in CUTLASS' "
         "dense_gemm_alpha_beta_persistent.py; a warp issues its accesses of shared memory in order"),
    Rule("barrier.in_turn", "if more warps arrive at a barrier with a thread count than it counts, the first ones complete its phase, and the others begin the next phase. The finding stays, because it is unspecified which warps are first",
         _grades("inferred", "inferred"), "PTX ISA 9.1 §9.7.13.1 leaves it undefined. Seen on an H200 (driver 580.159, no trace is kept): four warps at bar.sync 1, 64 went on, the last of three waited for ever"),
    Rule("barrier.arrive_sync", "a warp that has arrived at a barrier by bar.arrive, and executes bar.sync in the same phase, counts once more",
         _grades("compiled", "compiled"), "FlashAttention 4.0.0b36, flash_fwd_sm90.py and flash_bwd_sm100.py: all warps arrive, one of them waits, the count is one warp more; PTX ISA 9.1 §9.7.13.1 is silent"),
    Rule("order.same_value", "a write of the bytes that are already there is no race",
         _grades("inferred", "inferred"), "no order of such writes gives another result"),
    Rule("tensor_map.verdict", "what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col accept (driver 580)",
         _grades("measured", "inferred"), "driver header, and limits that no document has; the rules one by one in smemsim.TENSOR_MAP_RULES", ("encode_tiled", "encode_im2col", "encode_im2col_wide", "encode_pointers")),
    Rule("tensor_map.bits", "the 128 bytes of tiled and im2col maps",
         _grades("measured", "compiled"), "what ptxas emits for tensormap.replace, for the fields it can replace", ("encode_tiled", "encode_im2col", "encode_im2col_wide", "tma_loads")),
)}
# fmt: on
