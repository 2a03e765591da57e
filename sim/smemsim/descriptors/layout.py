"""One descriptor against one operand: is it known what hardware does, and where does a chunk lie?  Pure integers, no numpy."""

from __future__ import annotations

from typing import Protocol

from smemsim.addressing.operand import absolute_chunk, k_major_chunk, mn_major_chunk
from smemsim.addressing.swizzle import swizzle
from smemsim.spec.architectures import Architecture
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["Fields", "chunk_address", "why_unmodelled"]


class Fields(Protocol):
    """What the formulas need of a descriptor, in bytes."""

    @property
    def start_address(self) -> int: ...
    @property
    def leading_byte_offset(self) -> int: ...
    @property
    def stride_byte_offset(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def swizzle(self) -> Swizzle: ...
    @property
    def lbo_mode(self) -> int: ...


def why_unmodelled(arch: Architecture, mode: Swizzle, code: int, absolute: bool, base_offset: int, major: str, k_bytes: int) -> str:
    """Why nobody can say what hardware reads through such a descriptor; empty when the rules cover it.

    `k_bytes` are the bytes of K in one row of a K-major operand.
    """
    if mode is Swizzle.INVALID:
        return f"layout code {code} (0b{code:03b}) is invalid on {arch.name}; what hardware does with it is not known"
    if absolute and not arch.absolute_lbo:
        return f"bit 52 (absolute LBO) exists on sm_103a only; what {arch.name} does with it is not known"
    if absolute and (mode is not Swizzle.B128 or major != "K" or base_offset):
        return "absolute LBO is defined for K-major 128B swizzle with base_offset 0 only (PTX ISA 9.7.16.3.1.2)"
    if major == "K" and mode is Swizzle.B128_ATOM_32B:
        return "128B_ATOM_32B has no K-major layout; what hardware does with it is not known"
    width = MODES[mode].width
    if major == "K" and not absolute and width >= 64 and k_bytes > width:
        return (
            f"{k_bytes} bytes of K a row are more than the {width}-byte swizzle; no instruction reads that many (64 at most), "
            "so that nobody knows whether LBO or the next bytes would follow"
        )
    return ""


def chunk_address(d: Fields, major: str, line: int, chunk: int) -> int:
    """Shared address of 16-byte chunk `chunk` along the contiguous axis, in row (K-major) or K row (MN-major) `line`."""
    mode = MODES[d.swizzle]
    start, lbo, sbo = d.start_address, d.leading_byte_offset, d.stride_byte_offset
    if d.lbo_mode:
        linear = absolute_chunk(start, lbo, sbo, line, chunk)
    elif major == "K":
        linear = k_major_chunk(start, lbo, sbo, mode.width, line, chunk)
    else:
        linear = mn_major_chunk(start, lbo, sbo, mode.width, mode.k_rows, chunk, line)
    return swizzle(linear, d.base_offset, mode.mask, mode.shift)
