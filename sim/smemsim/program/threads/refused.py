"""Instructions that are known and not modelled, with the reason for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smemsim.program.registry import Step, implements, unmodelled
from smemsim.ptx.module import Instruction

if TYPE_CHECKING:
    from smemsim.program.linking.program import Linker


_TEXTURES = "textures and surfaces, of which the launch would need descriptors"
_VIDEO = "the scalar video instructions, which select bytes and halves of their operands"
_WHY = {
    **dict.fromkeys(("tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"), _TEXTURES),
    **dict.fromkeys(("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"), _VIDEO),
    "multimem": "memory of several GPUs",
}


@implements(*_WHY)
def build_refused(i: Instruction, c: Linker) -> Step:
    """Always Unmodelled."""
    raise unmodelled(i, _WHY[i.op])
