"""Descriptor words by hand, and the swizzle as CuTe's functor: the other side of the comparisons with smemsim."""

from cute import Swizzle

FUNCTORS = {
    "none": Swizzle(0, 4, 3),
    "32B": Swizzle(1, 4, 3),
    "64B": Swizzle(2, 4, 3),
    "128B": Swizzle(3, 4, 3),
    "128B_ATOM_32B": Swizzle(2, 5, 2),
}
WIDTHS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
WGMMA_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
TCGEN05_CODES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}


def word(arch, mode, *, start=0, lbo=0, sbo=0):
    """A 64-bit word as kernels put it together; everything in bytes.

    >>> hex(word("sm_100a", "128B", start=1024, lbo=16, sbo=1024))
    '0x4000404000010040'
    """
    fields = start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32
    return fields | (WGMMA_CODES[mode] << 62 if arch == "sm_90a" else TCGEN05_CODES[mode] << 61 | 1 << 46)
