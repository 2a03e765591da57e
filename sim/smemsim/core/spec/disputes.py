"""Where sources about Blackwell disagree and no trace decides: what the model takes, and what the other source says."""

from __future__ import annotations

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
    "GUIDE_SWIZZLED_ALIGNMENT",
    "PADDED_DISPUTE",
    "WIDE_HALO_DISPUTE",
    "WIDE_STEP_DISPUTE",
    "Dispute",
]


# Bytes that the CUDA guide (10.29.3, Table 12) wants global addresses of swizzled maps to be multiples of. The driver asks for 16, which
# work on an H200 in every mode (trace tma_loads).
GUIDE_SWIZZLED_ALIGNMENT = 128

_ALIGNMENT = "PTX ISA 9.1 §5.5.7 requires less alignment of the shared address ({} B)"
ATOM_DISPUTES: dict[TensorMapSwizzle, Dispute] = {
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B: Dispute(
        "a box begins at a multiple of 128 B in shared memory",
        "CUDA guide 10.29.3; measured on Hopper for the other modes",
        _ALIGNMENT.format(32),
    ),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_32B_FLIP_8B: Dispute(
        "a load of a tile exchanges the 8-byte halves of each 16 bytes in odd 128-byte lines",
        "PTX ISA 9.1 §5.5.7",
        "a public simulator has it only for loads. For stores and im2col::w smemsim raises Unmodelled",
    ),
    TensorMapSwizzle.SWIZZLE_128B_ATOM_64B: Dispute(
        "the XOR uses one bit of the line number, so the pattern repeats after two 128-byte lines",
        "PTX ISA 9.1 §5.5.7, table",
        "CUTLASS expects two bits. " + _ALIGNMENT.format(64),
    ),
    TensorMapSwizzle.SWIZZLE_96B: Dispute(
        "the rows are 96 B apart, and the XOR is that of the 32B swizzle",
        "PTX ISA 9.1 §5.5.7 for the XOR, a public simulator for the rows",
        "another public simulator does not have the mode",
    ),
}
PADDED_DISPUTE = Dispute(
    "16U6_ALIGN16B with 128B_ATOM_64B can be stored, but not loaded. 16U4_ALIGN16B does not have this swizzle",
    "driver header",
    "the PTX ISA allows all modes except the flip, for both types",
)
WIDE_HALO_DISPUTE = Dispute(
    "im2col::w::128 puts the wHalo pixels after each 32 pixels", "PTX ISA 9.1 §5.5.5", "a public simulator puts them after all 128 pixels"
)
WIDE_STEP_DISPUTE = Dispute(
    "im2col::w steps N by its element stride",
    "a public simulator, and im2col on Hopper (trace tma_im2col)",
    "PTX ISA 9.1 §5.5.5.2 names only the stride of W",
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
    named = ". ".join(f"{name}: {', '.join(f'bit {bit} ({field})' for bit, field in CUTE_DSL_BITS[name].items())}" for name in of)
    return Dispute(
        f"these bits are reserved in {what}: they have no effect, and decode prints a note if one is set", source,
        f"CuTe DSL 4.8.1 names some of them, for later architectures. {named}",
    )  # fmt: skip


CUTE_DSL_DISPUTES = {
    "reserved bits of shared-memory descriptors": _of_cute_dsl("words of tcgen05", "PTX ISA 9.1 §9.7.16.4.1", "sm_100a"),
    "reserved bits of instruction descriptors": _of_cute_dsl(
        "all formats", "PTX ISA 9.1 §9.7.16.4.2, tables 42 to 44", "f16", "mxf8f6f4", "mxf4"
    ),
}

DISPUTES: dict[str, Dispute] = {
    **CUTE_DSL_DISPUTES,
    **{code.name: dispute for code, dispute in ATOM_DISPUTES.items()},
    "16U6_ALIGN16B, 16U4_ALIGN16B": PADDED_DISPUTE,
    "im2col::w::128": WIDE_HALO_DISPUTE,
    "im2col::w with an element stride of N": WIDE_STEP_DISPUTE,
    **TCGEN05_DISPUTES,
    **TENSOR_MEMORY_DISPUTES,
    **ARITHMETIC_DISPUTES,
}
