"""Sweeps of whole spaces of inputs: what was covered, class by class, and what disagrees."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "report": ("Ledger",),
        "space": ("Case", "ChunkResult", "Space", "Trouble", "shrunk"),
        "sweep": ("chunks_of", "do_chunk"),
    },
)
