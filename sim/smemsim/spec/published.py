"""What others published of tcgen05 on silicon: it refutes nothing here, since nobody can run it again, and is told beside the alternatives that it contradicts."""

from __future__ import annotations

import dataclasses

__all__ = ["PUBLISHED", "Published"]


@dataclasses.dataclass(frozen=True)
class Published:
    """A measurement that others published: where, on which card, what it says and how far that reaches; `against` are alternatives that it contradicts."""

    source: str
    card: str
    says: str
    reach: str
    against: tuple[str, ...]


_BITS = tuple(f"arithmetic.tcgen05={bits}_bits" for bits in (23, 24, 26, 27, 35))

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
        "25 bits, of 4-bit kinds 35",
        "a model that its authors found equal to hardware bit by bit; no outputs are printed, and of Hopper's zeros it was wrong",
        (*_BITS, *(f"arithmetic.tcgen05=4_bit_{bits}_bits" for bits in (25, 34, 36, 37))),
    ),
    Published(
        "jeffniu-openai/triton eac11c7, .codex/initiatives/tmem_linear_generalization",
        "Blackwell",
        "tcgen05.cp.4x256b leaves its four rows in lanes that are 32 apart; placed in one lane's row they came out wrong",
        "notes of probes of a fork of Triton, on a machine with four cards whose model they do not name; of the same notes: 64x128b.warpx2::02_13 by a pair could not be "
        "given right addresses",
        ("tcgen05.cp=4x256b_first_lanes", "tcgen05.cp=4x256b_all_lanes"),
    ),
)
