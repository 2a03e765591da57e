"""The evidence of smemsim's rules: every rule, its grade on each architecture, its source and the traces that show
it.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

from smemsim.base.members import OwnMembers
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.rule_texts import RULE_TOPICS

__all__ = ["RULES", "Rule", "kill_matrix", "witnessed"]


_TEXTS = {name: text for topic in RULE_TOPICS for name, text in topic.rules.items()}


class Rule(NamedTuple):
    """One rule about hardware, and the evidence for it.

    The rule in words is `title` and `statement`. An example is `example`. The actions and reports of smemsim are
    `reports`. The grade by architecture is `grades`. An architecture is absent if it has nothing to which the rule
    applies. The document or the program that the rule comes from is `source`. Suites of recorded cases, folders below
    golden/sm_90a, are `traces`.

    >>> import smemsim
    >>> smemsim.RULES["bulk.size"].title
    'Sizes that are no multiple of 16 B'
    """

    name: str
    grades: dict[str, Grade]
    source: str
    traces: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The topic of the rule, in a few words."""
        return _TEXTS[self.name].title

    @property
    def statement(self) -> str:
        """The rule."""
        return _TEXTS[self.name].statement

    @property
    def example(self) -> str:
        """A small example, with values and units."""
        return _TEXTS[self.name].example

    @property
    def reports(self) -> str:
        """The actions and reports of smemsim."""
        return _TEXTS[self.name].reports

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
        return f"{self.name}: {self.statement} ({grades}. {self.source})"


# whose rules a card has that has none of its own
RELATIVES = dict.fromkeys(("sm_110a", "sm_120a", "sm_121a"), "sm_100a")


def _grades(sm_90a: str | None, sm_100a: str | None, sm_103a: str | None = "") -> dict[str, Grade]:
    values = {"sm_90a": sm_90a, "sm_100a": sm_100a, "sm_103a": sm_100a if sm_103a == "" else sm_103a}
    return {arch: Grade(value) for arch, value in values.items() if value}


@functools.cache
def kill_matrix() -> dict[str, Any]:
    """The programs that give a wrong result under an alternative of a rule. They are in kill_matrix.json, written by
    tools/witnesses/kill.py and, for other projects, tools/evidence.

    The table `programs` is by name. A program is known to be right on hardware (`witness`), or was written for this
    package. The table `alternatives` is by RULE=ALTERNATIVE. Its `refuted_by` maps a program to its end ("wrong",
    "traps", "hangs", "refused"). Programs of other projects have their `origin`, project and commit.
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
        for arch in ("sm_100a", "sm_103a", "sm_120a")
        if (grade := rule.grades.get(arch)) is not None
        and order.index(grade) > order.index(Grade.WITNESSED)
        and rule.name in witnessed(arch)
    }
    return rule._replace(grades={**rule.grades, **raised}) if raised else rule


class Rules(dict[str, Rule], metaclass=OwnMembers):
    """The rules about hardware by name, a dict. Each has `title`, `statement`, `example`, `reports`, `grades`, `source`
    and `traces`. `smemsim evidence RULE` prints one, docs/evidence/rules.md has all.

    >>> import smemsim
    >>> smemsim.RULES["bulk.size"].grades["sm_90a"]
    'measured'
    """


_OPERANDS = ("wgmma_operands", "reference_gemm")
# fmt: off
RULES: Rules = Rules((r.name, _raised(r)) for r in (
    Rule("operand.k_major", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2",
         _OPERANDS),
    Rule("operand.mn_major", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.16.3.3, 9.7.15.5.1.2",
         _OPERANDS),
    Rule("operand.swizzle", _grades("measured", "compiled"),
         "CUTLASS, DeepGEMM, JAX and Triton advance the start address inside of an atom. "
         "That works only if the XOR uses the complete address",
         (*_OPERANDS, "tma_wgmma")),
    Rule("operand.any_start", _grades("measured", "inferred"),
         "No document mentions it. On sm_100a and sm_103a smemsim assumes that the formulas of sm_90a hold",
         ("wgmma_operands",)),
    Rule("operand.base_offset", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.16.4.1. A comment in CUTLASS names fewer swizzles and another sign",
         ("wgmma_operands", "tma_wgmma")),
    Rule("operand.lbo_past_width", _grades("measured", "inferred"),
         "The PTX ISA says that LBO is not used here. A comment in Triton says that it can be used",
         ("wgmma_operands",)),
    Rule("operand.atom_32b", _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100.hpp, CuTe DSL and DeepGEMM step 4 rows. The text of the PTX ISA says 8"),
    Rule("operand.absolute_lbo", _grades(None, None, "inferred"),
         "PTX ISA 9.1 §9.7.16.3.1.2 documents the mode. The order of the bytes follows the use of it in CUTLASS"),
    Rule("operand.sub_byte", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.10.4"),
    Rule("operand.window", _grades("measured", "inferred"),
         "Recorded for dense operands B of bf16. smemsim assumes that other cards have the same memory system",
         ("wgmma_window",)),
    Rule("descriptor.reserved_bits", _grades("measured", "inferred"),
         "Recorded for wgmma. JAX and early Triton leave tcgen05's constant bit 46 at 0, and work. "
         "Nothing is known about the other bits of tcgen05",
         ("wgmma_reserved_bits",)),
    Rule("wgmma.fragments", _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.5.1.1 and its figures",
         ("wgmma_f32", "wgmma_f16", "wgmma_s32", "wgmma_sparse")),
    Rule("wgmma.sparse", _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.6.1 and its figures. CUTLASS mma_traits_sm90_gmma_sparse.hpp",
         ("wgmma_sparse", "wgmma_metadata")),
    Rule("tcgen05.registers", _grades("", "compiled", "compiled"),
         "Machine code of ptxas. PTX ISA 9.1 §9.7.16.8.1, 9.7.16.8.5 require the wait. "
         "Triton 3.9.0 and Gluon put tcgen05.wait::ld after the use of the registers. "
         "Some epilogues of the CuTe DSL (4.8.1) have no wait"),
    Rule("tcgen05.own_stores", _grades("", "inferred", "inferred"),
         "PTX ISA 9.1 §9.7.16.6.4.2 lists the instructions of one thread that are executed in order. These two are not among them. "
         "No failure without the wait is known"),
    Rule("tcgen05.own_loads", _grades("", "inferred", "inferred"),
         "PTX ISA 9.1 §9.7.16.6.4.2 lists instructions of one thread that are executed in order, §9.7.16.8.5 "
         "describes tcgen05.wait::ld. No failure without the wait is known"),
    Rule("wgmma.in_flight", _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.7 leaves the use undefined. "
         "Which uses ptxas 13.0.88 repairs is in its warnings C7511, C7513, C7514, C7515 and C7517",
         ("wgmma_in_flight",)),
    Rule("wgmma.two_sums", _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.7.1: no wgmma.fence is needed only between accumulators of the same shape in the same registers. "
         "ptxas 13.0.88 warns with C7511",
         ("wgmma_in_flight",)),
    Rule("wgmma.late_warps", _grades("measured", None),
         "PTX ISA 9.1 §9.7.15.7.2: a wgmma-group is one of the warpgroup, and wgmma.wait_group waits until it is complete. "
         "CUTLASS frees a stage by one thread of a warpgroup (PipelineTmaAsync)",
         ("wgmma_in_flight",)),
    Rule("tcgen05.idesc", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44. Triton and CuTe DSL emit the same words"),
    Rule("tcgen05.idesc_bits", _grades(None, "inferred"),
         "Measured for the descriptors of wgmma, and assumed here. "
         "CuTe DSL 4.8.1 names these bits for later architectures. Its class of mxf4 and mxf4nvf4 sets bit 12"),
    Rule("tcgen05.scale_address", _grades(None, "compiled"),
         "CUTLASS 7107b055 mma_sm100_desc.hpp and CuTe DSL 4.8.1 set both. "
         "DeepGEMM and Triton set only the descriptor"),
    Rule("tcgen05.pair", _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100.hpp (ALayout, BLayout). PTX ISA 9.1 §9.7.16.5"),
    Rule("tcgen05.accumulator", _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100_frag.hpp. golden/compiled has layouts A, B, D and F. "
         "PTX ISA 9.1 §9.7.16.10.5 and its figures. Layout C is only inferred"),
    Rule("tcgen05.tensor_operands", _grades(None, "compiled"),
         "CUTLASS mma_traits_sm100_frag.hpp. PTX ISA 9.1 §9.7.16.10.4, 9.7.16.10.7, 9.7.16.10.8 and their figures"),
    Rule("tcgen05.ld_st", _grades(None, "compiled"),
         "CUTLASS copy_traits_sm100.hpp. PTX ISA 9.1 §9.7.16.8, figures 183 to 187"),
    Rule("tcgen05.warp_window", _grades(None, "compiled"),
         "DeepGEMM 54e2261 (sm100_bf16_gemm.cuh, sm100_bmk_bnk_mn.cuh), FlashMLA and CuTe DSL 4.8.1 "
         "(1cta_mma_a_from_tmem.py) give lane 0 in every warp"),
    Rule("tcgen05.one_address", _grades(None, "compiled"),
         "ptxas 13.0.88 moves the address to a uniform register (R2UR). "
         "CuTe DSL and CUTLASS 7107b05 mixed_input_fmha_prefill_d512.py store this way"),
    Rule("tcgen05.cp", _grades(None, "compiled"),
         "CUTLASS copy_traits_sm100.hpp. PTX ISA 9.1 §9.7.16.9.2"),
    Rule("tcgen05.alloc", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.7.1. smemsim makes the checks that ptxas 13.0.88 inserts (its guardrails). "
         "They do not check that allocations never grow. "
         "The second dealloc: in CUTLASS 7107b05 examples/112_blackwell_ssd all four warps of the epilogue free "
         "the same columns"),
    Rule("tcgen05.commit", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.12"),
    Rule("tcgen05.copied_first", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.6.4.2: a tcgen05.cp and a later tcgen05.mma are executed in order"),
    Rule("tcgen05.shift", _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.9.3 gives neither the direction nor the lanes. "
         "github.com/cicuvc/nvidia-sass-document read tensor memory of a B200 after the instruction. "
         "slicek_m32n8k128.py shows the same direction (see tcgen05.ashift)"),
    Rule("tcgen05.ashift", _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.10.9.1 names neither the direction nor the moment. "
         "The check of CuTe DSL's experimental/primitives/tcgen05/slicek_m32n8k128.py passes with this rule, and "
         "fails with the rows moved the other way"),
    Rule("tcgen05.lane_masks", _grades(None, "inferred"),
         "PTX ISA 9.1 §9.7.16.10.9, and the worked examples of §9.7.16.4.3. "
         "The table of §9.7.16.4.3 exchanges the meanings of skip and use"),
    Rule("arithmetic.wgmma", _grades("measured", None),
         "The constants are those of public studies of tensor-core arithmetic. Recorded sums agree in every bit",
         ("wgmma_dots_f32", "wgmma_dots_f16", "wgmma_dots_s32", "reference_gemm")),
    Rule("arithmetic.mma_sync", _grades("measured", "inferred"),
         "Khattak and Mikaitis (H100, H200, B200), MMA-Sim. ptxas 13.0.88 makes the same machine code for sm_90a "
         "and sm_100a",
         ("launches",)),
    Rule("arithmetic.mma_sync_ampere", {"sm_80": Grade.DOCUMENTED, "sm_86": Grade.INFERRED, "sm_89": Grade.DOCUMENTED},
         "MMA-Sim (mmasim 2.1.1), whose authors report that cards agree. "
         "Sparse operands are assumed to work like dense ones"),
    Rule("arithmetic.mma_sync_rtx", {"sm_120a": Grade.DOCUMENTED, "sm_121a": Grade.INFERRED},
         "MMA-Sim (mmasim 2.1.1), whose authors report that a card agrees. 6-bit types, 4-bit types in bytes and "
         "sparse operands are assumed to work alike"),
    Rule("mma_sync.scales", dict.fromkeys(("sm_120a", "sm_121a"), Grade.COMPILED),
         "SFALayout of SM120_16x8x64_TN_VS in CUTLASS 7107b05. PTX ISA 9.1 §9.7.14.5, a figure. "
         "The check of CUTLASS example 79a passes with this rule, and fails with each alternative. So do the checks of the "
         "CuTe DSL's blackwell_geforce examples and of Triton's dot_scaled. No such program runs for sm_121a"),
    Rule("arithmetic.tcgen05", _grades(None, "inferred"),
         "MMA-Sim. DeepGEMM issue 176 reports 25 bits for fp8, and 34 to 37 bits for 4-bit types. "
         "The rest is assumed from wgmma"),
    Rule("tma.placement", _grades("measured", "compiled"),
         "CUDA guide 10.29.3.2, PTX ISA 9.1 §5.5.7. "
         "No document gives the distance of rows that are narrower than the swizzle",
         ("tma_loads", "tma_stores", "recorder_loads", "recorder_kernel")),
    Rule("tma.bounds", _grades("measured", "documented"),
         "PTX ISA 9.1 §5.5.4",
         ("tma_loads", "tma_loads_far")),
    Rule("tma.element_strides", _grades("measured", "documented"),
         "cuTensorMapEncodeTiled",
         ("tma_loads", "tma_stores")),
    Rule("tma.fill", _grades("measured", "inferred"),
         "No document gives the bits of the NaN",
         ("tma_loads", "tma_im2col", "tma_conversions")),
    Rule("tma.values", _grades("measured", "inferred"),
         "No document describes the rounding. In spite of its name, FLOAT32_FTZ does not flush subnormals",
         ("tma_values", "tma_conversions")),
    Rule("tma.im2col", _grades("measured", "documented"),
         "PTX ISA 9.1 §5.5.5. No document mentions the element stride of N, or the effect of a start outside",
         ("tma_im2col", "tma_im2col_stores", "recorder_im2col")),
    Rule("tma.interleave", _grades("measured", "inferred"),
         "Figures of the PTX ISA. No document gives the layout in shared memory and the strides",
         ("tma_interleave", "tma_interleave_stores", "tma_im2col_interleave")),
    Rule("tma.map_bits", _grades("measured", None),
         "The documents call the 128 bytes opaque",
         ("tma_edited", "tma_swizzle_bits")),
    Rule("tma.map_words", _grades("measured", "compiled"),
         "Host code of CuTe DSL (nvidia-cutlass-dsl 4.8.1) encodes maps itself, and the examples of sm_100a and "
         "sm_103a use them",
         ("tma_edited",)),
    Rule("tma.blackwell", _grades(None, "documented"),
         "PTX ISA 9.1 §5.5, 9.7.9.27, and the driver's header. "
         "The row distance of 96B and the bytes of 16U6 are those of one public simulator"),
    Rule("tensor_map.replace", _grades("measured", "compiled"),
         "Code of ptxas 13.0.88, PTX ISA 9.1 §9.7.9.28",
         ("tensormap_replace",)),
    Rule("tma.transaction_bytes", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.27",
         ("tma_loads", "tma_im2col", "tma_interleave")),
    Rule("tma.store_clip", _grades("measured", "compiled"),
         "Triton issue 11583 (Hopper and Blackwell). The PTX ISA says that each element is tested",
         ("tma_stores", "tma_im2col_stores", "tma_reductions", "recorder_stores")),
    Rule("tma.traps", _grades("measured", "inferred"),
         "CUDA guide tables 10 and 12 and PTX ISA 9.1 §5.5.3 forbid most of these accesses. "
         "No document mentions the errors",
         ("tma_load_traps", "tma_store_traps", "tma_loads_far", "tma_mode_traps", "recorder_loads")),
    Rule("bulk.copy", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.25.4.1",
         ("bulk_copies",)),
    Rule("bulk.size", _grades("measured", "inferred"),
         "The PTX ISA requires multiples of 16 B. No document mentions the effect of other sizes",
         ("bulk_traps",)),
    Rule("bulk.traps", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.9.25.4.1 forbids these copies. No document mentions the errors",
         ("bulk_traps",)),
    Rule("reduce.values", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.25.4.2, which says that add.f32 flushes subnormals. "
         "No document gives the bits of NaNs and zeros",
         ("bulk_reductions", "tma_reductions")),
    Rule("reduce.types", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.9.27 lists the operations, but not the types of a map that they accept",
         ("tma_reduce_traps",)),
    Rule("multicast.delivery", _grades("measured", "documented"),
         "PTX ISA 9.1 §9.7.9.27, operand ctaMask. It requires that the mbarrier is in the destination's CTA",
         ("multicast", "multicast_traps")),
    Rule("multicast.masks", _grades("measured", "inferred"),
         "No document mentions the effect",
         ("multicast_traps",)),
    Rule("cluster.addresses", _grades("measured", "compiled"),
         "CUTLASS clears bit 24 to reach the even CTA of a pair",
         ("cluster_addresses",)),
    Rule("shared.generic", _grades("compiled", "compiled"),
         "Machine code of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, SYNCS, UBLKCP, UTCBAR and the store of "
         "tcgen05.alloc take the low register of a 64-bit address. "
         "ThunderKittens 0b55588 tensor_allocator (alloc) and Triton 3.6 (commit) pass generic addresses"),
    Rule("shared.width", _grades("compiled", "compiled"),
         "PTX ISA 9.1 §6.4.1: addresses are zero-extended, or cut to the width of the state space. "
         "Machine code of ptxas 13.0.88: LDS, STS, ATOMS, LDSM, LDL, LDC, LDTM and UBLKCP add the number to a "
         "32-bit register"),
    Rule("shared.static", _grades("compiled", "compiled"),
         "Sizes that ptxas 13.0.88 reports (-v)"),
    Rule("gpu.execution", _grades("measured", "compiled"),
         "PTX ISA. If the document leaves a choice (NaN operands, approximations), results agree within its bounds",
         ("launches",)),
    Rule("texture.read", _grades("measured", "inferred"),
         "CUDA C++ programming guide, texture fetching. "
         "No document mentions reads outside of layers and of whole coordinates",
         ("textures",)),
    Rule("texture.filter", _grades("measured", "inferred"),
         "CUDA C++ programming guide, linear filtering. It says only that weights have 9 bits with 8 fraction bits",
         ("textures",)),
    Rule("surface.access", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.10.2. It says neither how formats convert values nor which error a trap gives",
         ("surfaces", "surface_traps")),
    Rule("shared.reserved", _grades("measured", "inferred"),
         "PTX ISA 9.1 §10.32 names it (%reserved_smem_offset_*), and does not mention accesses",
         ("reserved_shared",)),
    Rule("counters.wavefronts", _grades("measured", "inferred"),
         "CUDA C++ programming guide (32 banks). No document says how vectors, atomics and matrices are split",
         ("access_shared", "access_async", "access_lines", "launch_counters", "counted_kernels", "counted_kernels_ptxas129")),
    Rule("counters.sectors", _grades("measured", "inferred"),
         "CUDA C++ Best Practices Guide, coalesced access to global memory",
         ("access_lines", "access_copies")),
    Rule("counters.copies", _grades("measured", "inferred"),
         "No document mentions it",
         ("access_copies",)),
    Rule("heap.capacity", _grades("measured", "inferred"),
         "CUDA C++ programming guide, dynamic global memory allocation. It gives no sizes",
         ("heap",)),
    Rule("order.exit", _grades("compiled", "compiled"),
         "ThunderKittens deallocates tensor memory after a cluster barrier that counts exits (tensor_allocator). "
         "PTX ISA 9.1 §9.7.13.4 says that exits count. It does not mention memory"),
    Rule("launch.cooperative", _grades("documented", "documented"),
         "CUDA C++ Programming Guide, Cooperative Groups, Grid Synchronization. Seen on an H200 (driver 580.159, no "
         "trace is kept): in a launch that is not cooperative both registers are 0, and grid.sync() ends in error 719"),
    Rule("order.relaxed", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.8 (release and acquire patterns), 9.7.16.6. CuTe DSL waits relaxed and then fences"),
    Rule("order.relaxed_cluster_arrive", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.4. Triton, CUTLASS and DeepGEMM emit it in kernels that are right on cards"),
    Rule("order.warpgroup", _grades("compiled", None),
         "PTX ISA 9.1 §9.7.15.5: .sync concerns one warp. "
         "FlashMLA 9241ae3 fills rows past the end this way (csrc/sm90/decode/dense/splitkv_mla.cuh, fill_oob_V), "
         "and its tests put NaN there"),
    Rule("order.fenced_by_others", _grades("inferred", "inferred"),
         "In the release and acquire patterns of the PTX ISA (8.8) the same thread executes the fence. "
         "The pattern __threadfence, __syncthreads, atomicAdd, __syncthreads, __threadfence relies on this rule"),
    Rule("order.same_multiprocessor", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §10 (%smid) says that the number may change, and does not mention memory. "
         "Both CTAs use one cache. "
         "Programs index workspaces and random states by %smid (Crystal's ssb, cuRAND states). "
         "Seen on an H200 (driver 580.159, no trace is kept): 400,000 CTAs each had a multiprocessor alone, and "
         "none read an old word of the CTA before it"),
    Rule("order.warp_synchronous", _grades("documented", "documented"),
         "CUDA C++ Programming Guide, Independent Thread Scheduling: code that relies on lanes in step needs "
         "__syncwarp(). "
         "By the PTX ISA (8.7) the two accesses are morally strong, and the load may return the old value"),
    Rule("order.shuffles", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.9.6 (shfl.sync)"),
    Rule("order.unused_read", _grades("compiled", "compiled"),
         "Triton lets warps load the elements of other warps if a block is smaller than the CTA. "
         "It guards only their stores"),
    Rule("order.looks_again", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.7: the two are a data race. "
         "The atomic operation decides by the value that the word has then"),
    Rule("order.reader_fence", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.8 has no acquire pattern without the fence, so it is a data race. ptxas 13.0 compiles a "
         "fence to MEMBAR and CCTL.IVALL. "
         "CCTL.IVALL drops lines of the L1, and here the L1 has no line to drop. threadFenceReduction of "
         "NVIDIA/cuda-samples c94ff366 and llm.c read this way. "
         "A store comes after the branch that ends the polling, so it cannot be early. "
         "The function waitPeer in NCCL's src/device/prims_simple.h (06de78e) polls by a volatile load, and has a barrier but no fence before the store"),
    Rule("order.replaced_alike", _grades("compiled", "compiled"),
         "PTX ISA 9.1 §9.7.9.28: tensormap.replace is a weak operation on the whole map, so it is a data race. "
         "In CuTe DSL 4.8.1 one lane of each epilogue warp makes the same map in the same place "
         "(dense_gemm_ptr_array.py of CUTLASS 7107b05)"),
    Rule("order.past_l1", _grades("compiled", "compiled"),
         "PTX ISA 9.1 §9.7.9.1 (cache operators), 8.7: the accesses are weak, so it is a data race. "
         "CUB's decoupled look-back (ThreadStore<STORE_CG>, up to CUDA 11) and Dr.Jit 1.5.0 pass words of up to "
         "64 bits this way. Such a word contains its own state"),
    Rule("order.dependent_launch", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.13 (griddepcontrol). CUDA C++ Programming Guide, programmatic dependent launch. "
         "After the trigger of all CTAs, and also after their exits, the next launch may begin before the data are visible. NVIDIA/cccl issue 9134. "
         "Seen on an H100 with three launches (driver 580.159.04, no trace is kept): launch 1 ran for 5 ms, and "
         "launch 2 let launch 3 begin early. "
         "If launch 3 did not wait, it saw no store of launch 1, in 20 of 20 runs. If it waited, it saw all stores"),
    Rule("order.non_coherent", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.9.9: the memory has to be read-only. "
         "DeepEP relies on such loads, with .L1::no_allocate. Its authors say that the document does not allow it"),
    Rule("memory.allocated", _grades("documented", "documented"),
         "CUDA Runtime API, cudaMalloc: the memory is not cleared. PyTorch, torch.empty: uninitialized data. "
         "No document says that copies are harmless. It is inferred, because kernels copy buffers with their padding. "
         "Nor does one say that a stored value that nothing reads is harmless. It is inferred: no result depends on it"),
    Rule("order.scope", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.4 (scope), 8.7 (morally strong), 8.9.2 (observation order)"),
    Rule("order.default_scope", _grades("compiled", "compiled"),
         "CUTLASS ClusterBarrier::arrive(cta_id) and ::wait write no scope, and free a stage of another CTA with "
         "them. PTX ISA 9.1 §9.7.13.15.13 gives such operations .cta. "
         "ptxas 13.0 compiles such an arrival like one with .release.cta (rule order.narrow_arrival). "
         "CUTLASS issue 3324: one program with such an arrival failed"),
    Rule("order.narrow_wait", _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §9.7.13.15.16. ptxas 13.0 compiles .acquire.cta like a wait without a scope. "
         ".acquire.cluster adds only CCTL.IVALL, which concerns global memory. "
         "Waits of the CuTe DSL (4.8.1, experimental.primitives) have .acquire.cta by default, also in its own "
         "example of a cluster"),
    Rule("order.narrow_arrival", _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §9.7.13.15.13. ptxas 13.0 compiles .release.cta like an arrival without a scope. "
         "For .release.cluster it adds MEMBAR.ALL.GPU. "
         ".release.cta is the default of the CuTe DSL's mbarrier_arrive (4.8.1, cute/arch/mbar.py), whose notes "
         "require .cluster if data go to another CTA. "
         "CUTLASS issue 3643: 29 of 200 runs were wrong on a B200 (scale factors that the peer copies by "
         "cp.async). CUTLASS issue 3324: the same with an arrival without a scope"),
    Rule("order.tensormap_proxy", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.4 (membar, fence: unidirectional proxy fences), 9.7.13.16 "
         "(tensormap.cp_fenceproxy). Triton, CUTLASS, DeepGEMM and the CuTe DSL have both fences"),
    Rule("order.map_in_global_memory", _grades("documented", "documented"),
         "CUDA C++ Programming Guide, using TMA to transfer multi-dimensional arrays: a map in global memory "
         "requires a fence in each thread block. "
         "After cudaMemcpy the fence has system scope. pranjalssh/fast.cu PR 8 and NVIDIA/cudnn-frontend PR 898 "
         "cite it"),
    Rule("order.update", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.10: only an atomic operation keeps other writes from coming between its read and its "
         "write. The accesses are no data race, because they are morally strong"),
    Rule("order.lane_updates", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.1 (lanes are threads), 8.10: only an atomic operation keeps other writes from coming "
         "between its read and its write"),
    Rule("order.carrier", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.8 (release patterns), 8.9.2 (observation order)"),
    Rule("order.observation", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.9.2 (observation order), 8.9.5 (causality order: X precedes Z in observation order, and "
         "Z precedes Y in base causality order)"),
    Rule("order.named_phases", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1: a barrier counts arrivals, and begins anew when the count is complete. "
         "The text does not define which warps arrive"),
    Rule("order.mbarrier_lives", _grades("documented", "documented"),
         "PTX ISA 9.1 §9.7.13.15.10: an operation other than mbarrier.init on a location without a valid object "
         "is undefined. So is any other use of the location before mbarrier.inval. "
         "Seen on an H100: mbarrier.inval left the word unchanged, so stores over an object after its last use "
         "work by accident. In triton-lang/triton issue 10106 asynchronous copies over an object that was not "
         "invalidated gave NaN on an H200 and a B200"),
    Rule("order.pair_allocation", _grades(None, "documented"),
         "PTX ISA 9.1 §9.7.16.5 (tables 47, 48) and §9.7.16.7.1. "
         "A dealloc before the alloc of the other CTA: in NVIDIA/cutlass issue 3435, 25 of 25 launches failed on a B300. "
         "With a cluster barrier before alloc, after alloc or before dealloc, no launch failed. "
         "An alloc before the other CTA has begun: NVIDIA/cutlass PR 3316 and triton-lang/triton PR 10735 put a cluster barrier before alloc. "
         "No program is known that failed for this reason"),
    Rule("order.mbarrier_phases", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.15.3: an arrival counts in the current phase, and a phase is over when its arrivals "
         "and bytes are complete"),
    Rule("order.sibling_arrivals", _grades("compiled", "compiled"),
         "PTX ISA 9.1 §8.1 (lanes are threads): nothing orders the arrivals of two lanes. "
         "DeepGEMM 54e2261 frees the stages of multicast pipelines this way (sm90_bf16_gemm.cuh, fp8 1d1d and "
         "1d2d). No failure is known"),
    Rule("order.parity", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.15.16: a parity distinguishes only the current phase from the one before it"),
    Rule("order.tcgen05_fence", _grades(None, "compiled"),
         "PTX ISA 9.1 §9.7.16.6.3. ptxas 13.0 compiles it to a NOP. "
         "CUTLASS, Triton and the CuTe DSL leave it out after ordinary waits"),
    Rule("order.barrier_fences", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1 and 9.7.13.4 order everything before and after these barriers among their "
         "threads. Chapter 8 has no such pattern"),
    Rule("order.fence_sc", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §8.9.3 (Fence-SC order): either fence may be the first. smemsim does not rely on the order "
         "of one run"),
    Rule("order.lanes", _grades("documented", "documented"),
         "PTX ISA 9.1 §8.1, 9.7.13.2 (bar.warp.sync orders memory). "
         "That shfl.sync, vote.sync and similar instructions are enough for plain accesses is inferred: kernels that are right rely on it"),
    Rule("order.groups", _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §9.7.9.25.3.2, 9.7.9.25.3.3 (cp.async), 9.7.9.27.2.1, 9.7.9.27.2.2 (bulk): a group contains "
         "operations that the executing thread has initiated"),
    Rule("order.lanes_only_wait", _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §9.7.13.2 says that bar.warp.sync orders the memory of its lanes. "
         "It says of the other instructions only that they wait. "
         "The CUDA C++ guide says that vote, match, reduce and shuffle functions imply no memory barrier. "
         "cudnn-frontend PR 426 (merged) fixes such an arrival after elect.sync, which compute-sanitizer's "
         "racecheck reports"),
    Rule("order.proxy_reads", _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §8.7 and 9.7.13.4: accesses of one location through two proxies need a proxy fence. "
         "DeepEP issue 621, PR 632 and PR 642 (merged): wrong results on NVL72, right with the fence between the "
         "reads and the load. flash-attention PR 2462"),
    Rule("order.messages", _grades("documented", "documented", "documented"),
         "PTX ISA 9.1 §8.8: a release pattern needs a release or a fence. §8.10.6: without them there is no data "
         "race, and no causality order. The welford kernels of apex have __threadfence there"),
    Rule("order.lane_frees", _grades("compiled", "compiled", "compiled"),
         "PTX ISA 9.1 §8.1, 9.7.13.15.13. "
         "PipelineTmaAsync.consumer_release of the CuTe DSL (4.8.1) arrives this way, after plain loads in "
         "CUTLASS' dense_gemm_alpha_beta_persistent.py. A warp issues its accesses of shared memory in order"),
    Rule("barrier.in_turn", _grades("inferred", "inferred"),
         "PTX ISA 9.1 §9.7.13.1 leaves it undefined. "
         "Seen on an H200 (driver 580.159, no trace is kept): the example ends as described"),
    Rule("barrier.alone", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.13.1: barrier.sync, .red and .arrive wait for all non-exited threads of the warp. "
         "It does not say so of barrier.cluster",
         ("lanes_at_barriers",)),
    Rule("barrier.exit", _grades("measured", "inferred"),
         "PTX ISA 9.1 §9.7.13.4: the barrier waits for all threads of the cluster that have not exited. "
         "It does not say when a thread exits that has arrived",
         ("exits_at_cluster_barriers",)),
    Rule("barrier.arrive_sync", _grades("compiled", "compiled"),
         "FlashAttention 4.0.0b36, flash_fwd_sm90.py and flash_bwd_sm100.py: all warps arrive, one of them waits, "
         "and the count is one warp more. PTX ISA 9.1 §9.7.13.1 does not mention it"),
    Rule("order.same_value", _grades("inferred", "inferred"),
         "Whichever write comes last, memory has the same bytes"),
    Rule("tensor_map.verdict", _grades("measured", "inferred"),
         "The driver's header (cuda.h). No document mentions some of the limits",
         ("encode_tiled", "encode_im2col", "encode_im2col_wide", "encode_pointers")),
    Rule("tensor_map.bits", _grades("measured", "compiled"),
         "The driver's own bytes. For fields that tensormap.replace can replace, also the code that ptxas emits",
         ("encode_tiled", "encode_im2col", "encode_im2col_wide", "tma_loads")),
))
# fmt: on
