"""Published measurements of tcgen05 on silicon. They cannot be repeated here, so they refute nothing; they are printed
next to the alternatives that they contradict.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PUBLISHED", "Published"]


class Published(NamedTuple):
    """A measurement that others published: where, on which card, what it says and how far that reaches; `against` are
    alternatives that it contradicts.
    """

    source: str
    card: str
    says: str
    reach: str
    against: tuple[str, ...]


_BITS = tuple(f"arithmetic.tcgen05={bits}_bits" for bits in (23, 24, 26, 27, 35))
_ONE_SUM = tuple(
    f"arithmetic.tcgen05={name}" for name in ("f32_to_nearest", "two_halves", "two_halves_backwards", "four_quarters", "c_last")
)

PUBLISHED: tuple[Published, ...] = (
    Published(
        "deepseek-ai/DeepGEMM issue 176",
        "B200",
        "kind f8f6f4 keeps 25 bits",
        "8-bit floats alone; the report has 13 for H100, which is how the trace wgmma_dots_f32 counts too",
        _BITS,
    ),
    Published(
        "deepseek-ai/DeepGEMM issue 176",
        "B200",
        "kinds mxf4 and mxf4nvf4 keep 34 to 37 bits",
        "the report is not sure which",
        ("arithmetic.tcgen05=4_bit_25_bits",),
    ),
    Published(
        "MMA-Sim c785138 (arXiv 2511.10909)",
        "B200",
        "all products and C in one sum of 25 bits, of 4-bit kinds of 35 with groups of 16; f32 toward zero, f16 to nearest, tf32 cut, subnormal numbers as they are",
        "a model that its authors found equal to hardware bit by bit; no outputs are printed, and of Hopper's zeros it was wrong",
        (
            *_BITS,
            *_ONE_SUM,
            *(f"arithmetic.tcgen05=4_bit_{name}" for name in ("25_bits", "34_bits", "36_bits", "37_bits", "groups_of_32", "ungrouped")),
            *(
                f"arithmetic.tcgen05={name}"
                for name in ("f16_toward_zero", "tf32_rounded", "subnormals_of_inputs_lost", "subnormal_results_lost")
            ),
        ),
    ),
    Published(
        "mmasim 2.1.1",
        "B200",
        "zeros count with 2^-133, where D is f16 with 2^-21",
        "a model that its authors call equal to hardware bit by bit; its random tests (mmasim in the witnesses) do not come near, since their C is never 0; of Hopper the trace "
        "has the same numbers",
        tuple(f"arithmetic.tcgen05={name}" for name in ("zeros_at_126", "f16_zeros_at_133", "f16_zeros_at_22")),
    ),
    Published(
        "jeffniu-openai/triton eac11c7, .codex/initiatives/tmem_linear_generalization",
        "Blackwell",
        "tcgen05.cp.4x256b writes its four rows into lanes that are 32 apart",
        "notes of probes of a fork of Triton, on a machine with four cards whose model they do not name; of the same notes: 64x128b.warpx2::02_13 by a pair could not be "
        "given right addresses",
        ("tcgen05.cp=4x256b_first_lanes", "tcgen05.cp=4x256b_all_lanes"),
    ),
    Published(
        "jax-ml/jax 0269e49, jax/experimental/mosaic/gpu/mma_utils.py",
        "Blackwell",
        "tcgen05.mma takes matrix descriptors whose bits 48:46 are 0",
        "read in the source, whose tests (tests/mosaic/gpu_test.py) are made for such cards, and not run here; earlier versions set bit 46",
        ("descriptor.reserved_bits=constant_needed",),
    ),
    Published(
        "triton-lang/triton v3.3.0 (its wheel)",
        "Blackwell",
        "tcgen05.mma takes matrix descriptors whose bits 48:46 are 0",
        "in the PTX that the wheel makes of tl.dot for sm_100a; of its tests some are for such cards alone (test_lhs_in_tmem), which were not run here",
        ("descriptor.reserved_bits=constant_needed",),
    ),
    Published(
        "cicuvc/nvidia-sass-document, notes/sm100/instr/utcshift.md of 17 September 2026",
        "B200",
        "tcgen05.shift makes of rows 0 to 127: 1 to 31, 31, 33 to 63, 63, 65 to 95, 95, 97 to 127, 127; N shifts leave row min(r + N, 31) of every 32",
        "printed by programs of its own that write, shift and read tensor memory; cta_group::1 alone, not .ashift",
        ("tcgen05.shift=through_128", "tcgen05.shift=around"),
    ),
    Published(
        "mlc-ai/TIRx-harness 0.1.2.post2, numsim/engine-rs/src/runtime/tcgen_ops.rs",
        "B200",
        "of a zero-column mask use-span is the number of columns that are used and skip-span that of those that are zero, as the PTX ISA's examples have it; a start count "
        "behind the first run leaves one column of it",
        "a comment of its model, which names an oracle on an SM100; the test that asked is not in the release. Of bands it says nothing",
        ("tcgen05.lane_masks=zero_columns_counts", "tcgen05.lane_masks=zero_columns_inverted"),
    ),
    Published(
        "mlc-ai/TIRx-harness 0.1.2.post2, numsim/engine-rs/src/runtime/tensor_map.rs",
        "B200",
        "a store with 128B_ATOM_64B moves 64 bytes together, of two lines",
        "a comment of its model: the store was validated on a GPU, a load traps there; the layout is that of its test_tma_atomicity.py, which the release runs on its model alone",
        ("tma.blackwell=atom_64b_as_32b",),
    ),
    Published(
        "facebookexperimental/triton pull request 2762",
        "GB300",
        "a bf16 product of Triton has the same bits in 3211 configurations, by mma.sync in some and by tcgen05.mma in the others",
        "so the sums of both are alike; mma.sync of a B200 sums as here by Khattak and Mikaitis (arXiv 2512.07004). bf16 to f32 alone; inputs and bits are not printed",
        (*_BITS, *_ONE_SUM),
    ),
)
