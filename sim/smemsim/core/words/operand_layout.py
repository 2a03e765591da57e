"""One descriptor against one operand: is it known what hardware does, and where does a chunk lie?  Pure integers, no
numpy.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from smemsim.base.arguments import choice
from smemsim.core.layout.operand import absolute_chunk, k_major_chunk, mn_major_chunk
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.architectures import Architecture
from smemsim.core.spec.evidence import RULES, Rule
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode

__all__ = [
    "Fields",
    "check_major",
    "check_packing",
    "chunk_address",
    "decoded",
    "linear_address",
    "rules_in_force",
    "used_strides",
    "weakest",
    "why_unmodelled",
    "window_reach",
]


class Fields(Protocol):
    """The parts of a descriptor that the formulas need, in bytes."""

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


class Decoded(NamedTuple):
    """The fields of a descriptor, decoded once for many addresses."""

    start_address: int
    leading_byte_offset: int
    stride_byte_offset: int
    base_offset: int
    swizzle: Swizzle
    lbo_mode: int


def decoded(d: Fields) -> Fields:
    """The fields of a descriptor as plain values, each decoded now and not again."""
    return Decoded(d.start_address, d.leading_byte_offset, d.stride_byte_offset, d.base_offset, d.swizzle, int(d.lbo_mode))


def check_major(major: Any) -> None:
    """InputError unless it is "K" or "MN"."""
    choice("major", major, ("K", "MN"), "'K' (K contiguous) or 'MN' (M or N contiguous)")


def check_packing(packing: Any) -> None:
    """InputError unless it is "packed" or "padded"."""
    kinds = "'packed' (kinds mxf4, mxf4nvf4) or 'padded' (f8f6f4, mxf8f6f4: 16 elements in 16 bytes)"
    choice("packing", packing, ("packed", "padded"), kinds)


def why_unmodelled(arch: Architecture, mode: Swizzle, code: int, absolute: bool, base_offset: int, major: str, k_bytes: int) -> str:
    """Why the reads of such a descriptor are not known; empty if the rules cover it.

    `k_bytes` are the bytes of K in one row of a K-major operand.
    """
    if mode is Swizzle.INVALID:
        return (
            f"layout code {code} (0b{code:03b}) is invalid on {arch.name} (bits 63:61), and what hardware does with it is not known; "
            f"valid codes: {', '.join(f'{known} = {name}' for known, name in sorted(layout_codes(arch.smem_descriptor).items()))}"
        )
    if absolute and not arch.absolute_lbo:
        return f"bit 52 (absolute LBO) exists on sm_103a only; what {arch.name} does with it is not known"
    if absolute and (mode is not Swizzle.B128 or major != "K" or base_offset):
        return "absolute LBO is defined for K-major 128B swizzle with base_offset 0 only (PTX ISA 9.1 §9.7.16.3.1.2)"
    if major == "K" and mode is Swizzle.B128_ATOM_32B:
        return "128B_ATOM_32B has no K-major layout; what hardware does with it is not known"
    if absolute and k_bytes > arch.absolute_row_bytes:
        return f"absolute LBO is defined for rows of {arch.absolute_row_bytes} bytes of K, not for {k_bytes} (PTX ISA 9.1 §9.7.16.3.1.2)"
    width = MODES[mode].width
    if major == "K" and not absolute and width >= 64 and k_bytes > width:
        return (
            f"a row of {k_bytes:,} bytes of K is wider than the {width}-byte swizzle. An instruction reads at most 64 bytes of K; "
            "for more, what follows the first swizzle width (the next bytes, or LBO) is not known"
        )
    return ""


def rules_in_force(
    d: Fields, arch: Architecture, *, major: str | None, k_bytes: int = 0, bits: int = 16, packing: str = "packed"
) -> list[Rule]:
    """The rules that the addresses of an operand rest on, the special ones first; what is not known of the operand
    counts as ordinary.
    """
    names = []
    swizzled = d.swizzle not in (Swizzle.NONE, Swizzle.INVALID)
    if d.lbo_mode:
        names.append("operand.absolute_lbo")
    if d.base_offset and swizzled:
        names.append("operand.base_offset")
    if d.swizzle is Swizzle.B128_ATOM_32B:
        names.append("operand.atom_32b")
    if swizzled and major == "K" and k_bytes > MODES[d.swizzle].width:
        names.append("operand.lbo_past_width")
    if bits < 8 or packing == "padded":
        names.append("operand.sub_byte")
    if swizzled and d.start_address % 32:  # kernels and compilers move the start in steps of 32 B
        names.append("operand.any_start")
    names += [name for name, of in (("operand.k_major", "K"), ("operand.mn_major", "MN")) if major in (None, of)]
    if swizzled:
        names.append("operand.swizzle")
    return [RULES[name] for name in names if RULES[name].exists_on(arch.name)]


def weakest(rules: list[Rule], arch: Architecture) -> Grade:
    """The grade a result has that rests on all of these rules."""
    order = list(Grade)
    return max((rule.on(arch.name) for rule in rules), key=order.index)


def linear_address(d: Fields, major: str, line: int, chunk: int) -> int:
    """Address, before the XOR, of 16-byte chunk `chunk` along the contiguous axis in row (K-major) or K row (MN-major)
    `line`.
    """
    mode = MODES[d.swizzle]
    start, lbo, sbo = d.start_address, d.leading_byte_offset, d.stride_byte_offset
    if d.lbo_mode:
        return absolute_chunk(start, lbo, sbo, line, chunk)
    if major == "K":
        return k_major_chunk(start, lbo, sbo, mode.width, line, chunk)
    return mn_major_chunk(start, lbo, sbo, mode.width, mode.k_rows, chunk, line)


def chunk_address(d: Fields, major: str, line: int, chunk: int) -> int:
    """Shared address (with the swizzle applied) of chunk `chunk` of line `line` of an operand."""
    mode = MODES[d.swizzle]
    return swizzle(linear_address(d, major, line, chunk), d.base_offset, mode.mask, mode.shift)


def used_strides(mode: SwizzleMode, major: str, rows: int, k: int, per_chunk: int) -> dict[str, bool]:
    """Does an operand of rows x k elements, `per_chunk` of them in 16 bytes, use LBO, and does it use SBO?

    >>> used_strides(MODES[Swizzle.B128], "K", 64, 16, 8)
    {'leading_byte_offset': False, 'stride_byte_offset': True}
    """
    along, lines = (k, rows) if major == "K" else (rows, k)
    wide, long = -(-along // per_chunk) * 16 > mode.width, lines > mode.k_rows
    # unswizzled MN-major exchanges the roles
    leading, stride = (long, wide) if major == "MN" and not mode.mask else (wide, long)
    return {"leading_byte_offset": leading, "stride_byte_offset": stride}


def window_reach(d: Fields, major: str, lines: int, chunks: int) -> int:
    """The address that must not lie past the end of the shared window, or the operand faults (CUDA error 700).

    Hardware looks at the first of every 8 lines only: from each of its chunks, before the XOR, a whole swizzle width
    must fit. Lines further down that lie past the end do not fault; they read as zero. Measured (H200): trace
    wgmma_window.
    """
    d, width = decoded(d), MODES[d.swizzle].width
    return max((linear_address(d, major, line, chunk) + width for line in range(0, lines, 8) for chunk in range(chunks)), default=0)
