"""Disputes of sources about Blackwell that no trace decides: the choice of the model, and the text of the other
source.
"""

from __future__ import annotations

from smemsim.base.members import OwnMembers
from smemsim.core.spec.grades import Dispute
from smemsim.core.spec.mma_arithmetic import ARITHMETIC_DISPUTES
from smemsim.core.spec.tcgen05 import TCGEN05_DISPUTES
from smemsim.core.spec.tensor_map import TensorMapSwizzle
from smemsim.core.spec.tensor_memory import TENSOR_MEMORY_DISPUTES

__all__ = [
    "ATOM_DISPUTES",
    "CUTE_DSL_BITS",
    "CUTE_DSL_DISPUTES",
    "DISPUTES",
    "DISPUTE_QUESTIONS",
    "GUIDE_SWIZZLED_ALIGNMENT",
    "PADDED_DISPUTE",
    "WIDE_HALO_DISPUTE",
    "WIDE_STEP_DISPUTE",
    "Dispute",
]


# Bytes that the CUDA guide (10.29.3, Table 12) wants global addresses of swizzled maps to be multiples of. The driver
# asks for 16, which work on an H200 in every mode (trace tma_loads).
GUIDE_SWIZZLED_ALIGNMENT = 128

_ALIGNMENT = "PTX ISA 9.1 §5.5.7 requires only {} B"
ATOM_DISPUTES: dict[TensorMapSwizzle, Dispute] = {
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B: Dispute(
        "a box begins at a multiple of 128 B in shared memory",
        "CUDA guide 10.29.3. It is measured on Hopper for the other swizzles",
        _ALIGNMENT.format(32),
    ),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B_FLIP_8B: Dispute(
        "a load of a tile exchanges the 8-byte halves of each 16 bytes in odd 128-byte lines. Stores and im2col::w are not modelled",
        "PTX ISA 9.1 §5.5.7",
        "a public simulator has no exchange in stores and in im2col::w",
    ),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_64B: Dispute(
        "one bit. So the pattern repeats after two lines of 128 B",
        "PTX ISA 9.1 §5.5.7, table",
        "CUTLASS expects two bits. A second question is the alignment of a box in shared memory: " + _ALIGNMENT.format(64),
    ),
    TensorMapSwizzle.SWIZZLE_96B: Dispute(
        "rows are 96 B apart, and the XOR is that of the 32B swizzle",
        "PTX ISA 9.1 §5.5.7 for the XOR, a public simulator for the rows",
        "another public simulator does not have the mode",
    ),
}
PADDED_DISPUTE = Dispute(
    "16U6_ALIGN16B has the swizzle 128B_ATOM_64B for stores only. 16U4_ALIGN16B does not have this swizzle",
    "comments in the driver's header cuda.h",
    "the PTX ISA allows all swizzles except 128B_ATOM_32B_FLIP_8B, for both types",
)
WIDE_HALO_DISPUTE = Dispute("after each 32 pixels", "PTX ISA 9.1 §5.5.5", "a public simulator puts them after all 128 pixels")
WIDE_STEP_DISPUTE = Dispute(
    "yes",
    "a public simulator, and im2col on Hopper (trace tma_im2col)",
    "PTX ISA 9.1 §5.5.5.2 mentions only the stride of W",
)

# Bits that the PTX ISA reserves and that classes of CuTe DSL 4.8.1 (cutlass.experimental.primitives) name: of
# shared-memory descriptors by architecture, of instruction descriptors by a kind with the format.
CUTE_DSL_BITS: dict[str, dict[int, str]] = {
    "sm_100a": {14: "start_address", 30: "leading_byte_offset"},
    "f16": {6: "sparse_format", 29: "k_dim"},
    "mxf8f6f4": {24: "scale_format", 26: "a_sf_layout", 31: "k_dim"},
    "mxf4": {3: "k_dim_upper", 24: "scale_format", 26: "a_sf_layout"},
}


def _of_cute_dsl(what: str, source: str, *of: str) -> Dispute:
    named = ". ".join(
        f"In the format of {name} it names {', '.join(f'bit {bit} {field}' for bit, field in CUTE_DSL_BITS[name].items())}" for name in of
    )
    return Dispute(
        f"No. These bits are reserved in {what}. decode prints a note if one is set", source,
        f"CuTe DSL 4.8.1 has names for some of these bits. The names are meant for later architectures. {named}",
    )  # fmt: skip


CUTE_DSL_DISPUTES = {
    "reserved bits of shared-memory descriptors": _of_cute_dsl("words of tcgen05", "PTX ISA 9.1 §9.7.16.4.1", "sm_100a"),
    "reserved bits of instruction descriptors": _of_cute_dsl(
        "all formats", "PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44", "f16", "mxf8f6f4", "mxf4"
    ),
}

# The question of each dispute, by topic.
DISPUTE_QUESTIONS: dict[str, dict[str, str]] = {
    "Shared-memory descriptors and instruction descriptors": {
        "reserved bits of shared-memory descriptors": "Do reserved bits of a shared-memory descriptor have an effect?",
        "reserved bits of instruction descriptors": "Do reserved bits of an instruction descriptor have an effect?",
        "MN-major 4- and 6-bit operands of f8f6f4": "Do MN-major operands of 4 and 6 bits exist in kind f8f6f4?",
        "mixed f16 and bf16": "May A be f16 and B bf16?",
    },
    "Shapes of tcgen05.mma": {
        "N of M = 128": "Which N may an instruction with M = 128 have?",
        "N of a pair": "Which N may an instruction of a pair of CTAs have?",
        "N of kind i8": "Which N may an integer instruction have?",
        "M of block-scaled pairs": "Which M may a block-scaled instruction of a pair of CTAs have?",
        "M of K = 96": "Which M may an instruction with K = 96 have?",
        "N = 256 of .ws": "Does N = 256 work with .ws?",
    },
    "Tensor memory": {
        "layout C": "Where are the rows of D in layout C?",
        "layout E": "Where are the two halves of N in layout E?",
        "A of .ws": "Where does .ws read A in tensor memory, if M is below 128?",
        "metadata of M = 64": "Where is sparsity metadata in tensor memory, if M is 64?",
        "scales of K = 96": "Where are the scale factors of K = 96?",
        "scales of B in two CTAs": "Where are the scale factors of B, for a pair of CTAs?",
        "zero-column mask": "What do skip and use of a zero-column mask count?",
        "4x256b": "Which lanes does tcgen05.cp.4x256b write?",
        "columns of tcgen05.cp": "At which columns may tcgen05.cp begin?",
        "tcgen05.cp of two CTAs": "From which shared memory does tcgen05.cp of a pair copy?",
        "decompression": "In which bits of a byte does tcgen05.cp put a 4-bit or 6-bit element?",
        "direction of shift": "In which direction does tcgen05.shift move?",
        "unpack::16b": "Which value do the upper 16 bits get with unpack::16b?",
    },
    "TMA": {
        "SWIZZLE_128B_ATOM_32B": "Which alignment has a box with SWIZZLE_128B_ATOM_32B?",
        "SWIZZLE_128B_ATOM_32B_FLIP_8B": "What does SWIZZLE_128B_ATOM_32B_FLIP_8B exchange?",
        "SWIZZLE_128B_ATOM_64B": "How many bits of the line number does SWIZZLE_128B_ATOM_64B use?",
        "SWIZZLE_96B": "How does SWIZZLE_96B place rows?",
        "16U6_ALIGN16B, 16U4_ALIGN16B": "Which swizzles have 16U6_ALIGN16B and 16U4_ALIGN16B?",
        "im2col::w::128": "Where does im2col::w::128 put the wHalo pixels?",
        "im2col::w with an element stride of N": "Does im2col::w step N by the element stride of N?",
    },
    "Arithmetic": {
        "bits kept of 4-bit types": "How many bits are kept of sums of 4-bit products?",
        "zeros with f16 accumulators": "With which exponent does a zero term count, if D is f16?",
        "sign of zero": "Can an element of D be -0?",
    },
}


class Disputes(dict[str, Dispute], metaclass=OwnMembers):
    """The questions about which sources disagree, a dict by topic. Each has `takes` (what smemsim assumes), `source`
    and `other` (what other sources say). docs/evidence/disputes.md has all.

    >>> import smemsim
    >>> smemsim.DISPUTES["N of M = 128"].takes
    'every multiple of 8'
    """


DISPUTES = Disputes(
    {
        **CUTE_DSL_DISPUTES,
        **{code.name: dispute for code, dispute in ATOM_DISPUTES.items()},
        "16U6_ALIGN16B, 16U4_ALIGN16B": PADDED_DISPUTE,
        "im2col::w::128": WIDE_HALO_DISPUTE,
        "im2col::w with an element stride of N": WIDE_STEP_DISPUTE,
        **TCGEN05_DISPUTES,
        **TENSOR_MEMORY_DISPUTES,
        **ARITHMETIC_DISPUTES,
    }
)
