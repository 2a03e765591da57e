"""The swizzle modes of shared memory, for TMA and for the tensor core.

All of them XOR some bits of the 128-byte line index (address bits 7 …) into the address inside the line, so data never
leave their 128-byte line. The modes differ in the number of bits (`mask`) and in their place. The place is `shift`,
log2 of the atom that moves as a whole.

    128B    0b … YYY ZZZ xxxx      ZZZ ^= YYY      mask 7, shift 4, repeats after 1024 bytes
     64B    0b … .YY .ZZ xxxx       ZZ ^= YY       mask 3, shift 4, repeats after  512 bytes
     32B    0b … ..Y ..Z xxxx        Z ^= Y        mask 1, shift 4, repeats after  256 bytes
     96B    the XOR of 32B under rows of 96 bytes (sm_103a)
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from smemsim.base.members import OwnEnumMembers

__all__ = ["MODES", "Swizzle", "SwizzleMode"]


class Swizzle(enum.StrEnum, metaclass=OwnEnumMembers):
    """Swizzle modes by the short names that smemsim accepts and prints.

    >>> import smemsim
    >>> smemsim.Swizzle("128B"), [str(mode) for mode in smemsim.Swizzle][:4]
    ('128B', ['none', '32B', '64B', '128B'])
    """

    NONE = "none"
    B32 = "32B"
    B64 = "64B"
    B128 = "128B"
    B128_ATOM_32B = "128B_ATOM_32B"
    B128_ATOM_32B_FLIP_8B = "128B_ATOM_32B_FLIP_8B"
    B128_ATOM_64B = "128B_ATOM_64B"
    B96 = "96B"
    INVALID = "invalid"

    def __repr__(self) -> str:
        return repr(str(self))


class SwizzleMode(NamedTuple):
    """One row: bytes of contiguous extent, the XOR, the codes it has in each place, CuTe's name for it."""

    swizzle: Swizzle
    width: int  # bytes of a row (K-major) or column (MN-major) of the atom; 16 for none
    mask: int  # line-index bits that take part
    shift: int  # log2 of the bytes that move together
    wgmma_code: int | None  # descriptor bits 63:62 on sm_90a
    tcgen05_code: int | None  # descriptor bits 63:61 on sm_100a
    cute: str
    k_rows: int  # rows of K in an MN-major atom
    source: str

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats; 16 for none."""
        return 128 * (self.mask + 1) if self.mask else 16

    @property
    def chunks(self) -> int:
        """16-byte chunks across the width."""
        return self.width // 16


# fmt: off
MODES: dict[Swizzle, SwizzleMode] = {m.swizzle: m for m in (
    #           mode                           width mask shift sm90  sm100  CuTe (bytes)     k   source
    SwizzleMode(Swizzle.NONE,                    16,   0,  4,   0,    0,    "Swizzle<0,4,3>", 8, "PTX ISA 9.1 §9.7.16.3.3; trace wgmma_operands"),
    SwizzleMode(Swizzle.B32,                     32,   1,  4,   3,    6,    "Swizzle<1,4,3>", 8, "PTX ISA 9.1 §9.7.16.3.3; trace wgmma_operands"),
    SwizzleMode(Swizzle.B64,                     64,   3,  4,   2,    4,    "Swizzle<2,4,3>", 8, "PTX ISA 9.1 §9.7.16.3.3; trace wgmma_operands"),
    SwizzleMode(Swizzle.B128,                   128,   7,  4,   1,    2,    "Swizzle<3,4,3>", 8, "PTX ISA 9.1 §9.7.16.3.3; trace wgmma_operands"),
    SwizzleMode(Swizzle.B128_ATOM_32B,          128,   3,  5,   None, 1,    "Swizzle<2,5,2>", 4, "PTX ISA 9.1 §5.5.7; CUTLASS mma_traits_sm100.hpp"),
    SwizzleMode(Swizzle.B128_ATOM_32B_FLIP_8B,  128,   3,  5,   None, None, "",               8, "PTX ISA 9.1 §5.5.7"),
    SwizzleMode(Swizzle.B128_ATOM_64B,          128,   1,  6,   None, None, "Swizzle<1,6,1>", 8, "PTX ISA 9.1 §5.5.7"),
    SwizzleMode(Swizzle.B96,                     96,   1,  4,   None, None, "Swizzle<1,4,3>", 8, "PTX ISA 9.1 §5.5.7, 9.7.9.28: TMA on sm_103a only"),
)}
# fmt: on
