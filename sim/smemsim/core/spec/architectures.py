"""The architectures smemsim knows, and what differs between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.spec.fields import Word
from smemsim.core.spec.smem_descriptor import SM90_SMEM_DESC, SM100_SMEM_DESC

__all__ = ["ARCHITECTURES", "MACHINES", "WITH_DESCRIPTORS", "Architecture", "any_architecture", "architecture"]


class Architecture(NamedTuple):
    """`shared_begin` … `shared_end` is the largest shared window a CTA can have; addresses are those of `.shared`."""

    name: str
    instruction: str  # the MMA that reads descriptors; "mma.sync" where none does
    smem_descriptor: Word
    shared_begin: int  # below it lies what the system reserves
    shared_end: int
    # bytes of K in a row that the absolute-LBO mode (descriptor bit 52) is for; 0 where it does not exist
    absolute_row_bytes: int
    source: str
    mma_types: tuple[str, ...]  # element types its matrix instructions read from shared memory
    # bytes of K in a row of one instruction's K-major operand; the larger ones with sparsity
    k_row_bytes: tuple[int, ...]
    shared_granularity: int = 128  # a CTA's window ends on a multiple of this, whatever size it asked for

    @property
    def measured(self) -> bool:
        """Do its ordinary rules rest on measurements? Only an H200 was ever measured."""
        return self.instruction == "wgmma"

    @property
    def has_descriptors(self) -> bool:
        """Does an instruction read shared memory through descriptors?"""
        return self.instruction in ("wgmma", "tcgen05")

    @property
    def has_clusters(self) -> bool:
        """Does it have clusters, distributed shared memory and TMA?"""
        return self.number >= FIRST_WITH_CLUSTERS

    @property
    def unmeasured(self) -> str:
        """A sentence about rules that no measurement on such a card supports."""
        name = "Blackwell" if self.is_blackwell else "Ada" if self.number == 89 else "Ampere"
        return f"nothing is measured on {name}"

    @property
    def number(self) -> int:
        """The number in its name: 120 of sm_120a."""
        return int(self.name.removeprefix("sm_").rstrip("af"))

    @property
    def is_blackwell(self) -> bool:
        """Does the architecture have what came with sm_100: some forms of older instructions, besides tcgen05?"""
        return self.number >= FIRST_BLACKWELL

    @property
    def absolute_lbo(self) -> bool:
        """Has the descriptor's bit 52 a meaning?"""
        return self.absolute_row_bytes > 0


FIRST_WITH_CLUSTERS, FIRST_BLACKWELL = 90, 100

_WGMMA = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")  # PTX ISA 9.1 §9.7.15.2
# tcgen05.cp reads 16 or 32 bytes a row through the same descriptor.
_TCGEN05 = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8")  # PTX ISA 9.1 §9.7.16.2
# fmt: off
ARCHITECTURES: dict[str, Architecture] = {a.name: a for a in (
    Architecture("sm_90a",  "wgmma",   SM90_SMEM_DESC,  0x400, 0x39000,  0, "traces wgmma_window, tma_load_traps", _WGMMA, (32, 64)),
    Architecture("sm_100a", "tcgen05", SM100_SMEM_DESC, 0x400, 0x39000,  0, "CUDA programming guide, compute capability 10.0: 228 KB", _TCGEN05, (16, 32, 64)),
    Architecture("sm_103a", "tcgen05", SM100_SMEM_DESC, 0x400, 0x39000, 48, "CUDA programming guide, compute capability 10.3: 228 KB", _TCGEN05, (16, 32, 48, 64)),
)}
# Those that people have besides: their programs run, and tools for descriptors take those that have one.
_OCCUPANCY = "cuda_occupancy.h of CUDA 13.0"
MACHINES: dict[str, Architecture] = ARCHITECTURES | {a.name: a for a in (
    Architecture("sm_110a", "tcgen05",  SM100_SMEM_DESC, 0x400, 0x39000, 0, f"{_OCCUPANCY}, compute capability 11.0: 228 KB", _TCGEN05, (16, 32, 64)),
    Architecture("sm_120a", "mma.sync", SM100_SMEM_DESC, 0x400, 0x19000, 0, f"{_OCCUPANCY}, compute capability 12.0: 100 KB", (), ()),
    Architecture("sm_121a", "mma.sync", SM100_SMEM_DESC, 0x400, 0x19000, 0, f"{_OCCUPANCY}, compute capability 12.1: 100 KB", (), ()),
    Architecture("sm_89",   "mma.sync", SM90_SMEM_DESC,  0x400, 0x19000, 0, f"{_OCCUPANCY}, compute capability 8.9: 100 KB", (), ()),
    Architecture("sm_86",   "mma.sync", SM90_SMEM_DESC,  0x400, 0x19000, 0, f"{_OCCUPANCY}, compute capability 8.6: 100 KB", (), ()),
    Architecture("sm_80",   "mma.sync", SM90_SMEM_DESC,  0x400, 0x29000, 0, f"{_OCCUPANCY}, compute capability 8.0: 164 KB", (), ()),
)}
# fmt: on
WITH_DESCRIPTORS = {name: a for name, a in MACHINES.items() if a.has_descriptors}


def architecture(name: Any) -> Architecture:
    """The row of an architecture with matrix descriptors by its target name: those of wgmma and tcgen05.

    >>> architecture("sm_100a").instruction
    'tcgen05'
    """
    if isinstance(name, str) and name in MACHINES and name not in WITH_DESCRIPTORS:
        raise InputError(
            f"arch = {shown(name)}: not an architecture whose instructions read shared memory through descriptors ({', '.join(WITH_DESCRIPTORS)})"
        )
    return _row(name, WITH_DESCRIPTORS)


def any_architecture(name: Any) -> Architecture:
    """The row of any architecture that programs can run on, by its target name.

    >>> any_architecture("sm_120a").shared_end - any_architecture("sm_120a").shared_begin
    101376
    """
    return _row(name, MACHINES)


def _row(name: Any, of: Mapping[str, Architecture]) -> Architecture:
    if isinstance(name, Architecture):
        return name
    if isinstance(name, str) and name in of:
        return of[name]
    digits = re.findall(r"\d+", name) if isinstance(name, str) else []
    # another number is another card
    near = suggestion(name, [known for known in of if re.findall(r"\d+", known) == digits])
    raise InputError(f"arch = {shown(name)}: not an architecture that is allowed here ({', '.join(of)}){near}")
