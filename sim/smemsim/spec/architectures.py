"""The architectures smemsim knows, and what differs between them."""

from __future__ import annotations

from typing import Any, NamedTuple

from smemsim.arguments import shown, suggestion
from smemsim.errors import InputError
from smemsim.spec.fields import Word
from smemsim.spec.smem_descriptor import SM90_SMEM_DESC, SM100_SMEM_DESC

__all__ = ["ARCHITECTURES", "Architecture", "architecture"]


class Architecture(NamedTuple):
    """`shared_begin` … `shared_end` is the largest shared window a CTA can have; addresses are those of `.shared`."""

    name: str
    instruction: str  # the MMA that reads descriptors
    smem_descriptor: Word
    shared_begin: int  # below it lies what the system reserves
    shared_end: int
    absolute_row_bytes: int  # bytes of K in a row that the absolute-LBO mode (descriptor bit 52) is for; 0 where it does not exist
    source: str
    mma_types: tuple[str, ...]  # element types its matrix instructions read from shared memory
    k_row_bytes: tuple[int, ...]  # bytes of K in a row of one instruction's K-major operand; the larger ones with sparsity
    shared_granularity: int = 128  # a CTA's window ends on a multiple of this, whatever size it asked for

    @property
    def measured(self) -> bool:
        """Do its ordinary rules rest on measurements? Only an H200 was ever measured."""
        return self.instruction == "wgmma"

    @property
    def is_blackwell(self) -> bool:
        """Does the architecture have what came with sm_100: tcgen05, and some forms of older instructions?"""
        return self.instruction == "tcgen05"

    @property
    def absolute_lbo(self) -> bool:
        """Has the descriptor's bit 52 a meaning?"""
        return self.absolute_row_bytes > 0


_WGMMA = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")  # PTX ISA 9.1 §9.7.15.2
# tcgen05.cp reads 16 or 32 bytes a row through the same descriptor.
_TCGEN05 = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8")  # PTX ISA 9.1 §9.7.16.2
# fmt: off
ARCHITECTURES: dict[str, Architecture] = {a.name: a for a in (
    Architecture("sm_90a",  "wgmma",   SM90_SMEM_DESC,  0x400, 0x39000,  0, "traces wgmma_window, tma_load_traps", _WGMMA, (32, 64)),
    Architecture("sm_100a", "tcgen05", SM100_SMEM_DESC, 0x400, 0x39000,  0, "CUDA programming guide, compute capability 10.0: 228 KB", _TCGEN05, (16, 32, 64)),
    Architecture("sm_103a", "tcgen05", SM100_SMEM_DESC, 0x400, 0x39000, 48, "CUDA programming guide, compute capability 10.3: 228 KB", _TCGEN05, (16, 32, 48, 64)),
)}
# fmt: on


def architecture(name: Any) -> Architecture:
    """The row of an architecture by its target name.

    >>> architecture("sm_100a").instruction
    'tcgen05'
    """
    if isinstance(name, Architecture):
        return name
    if isinstance(name, str) and name in ARCHITECTURES:
        return ARCHITECTURES[name]
    hint = suggestion(name, ARCHITECTURES)
    raise InputError(f"arch = {shown(name)}: not an architecture that smemsim knows ({', '.join(ARCHITECTURES)}){hint}")
