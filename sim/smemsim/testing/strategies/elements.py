"""Element bits, weighted to the cases that break kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from smemsim.arguments import whole
from smemsim.errors import InputError
from smemsim.spec.formats import ElementFormat, element_format

if TYPE_CHECKING:
    import numpy as np

__all__ = ["element_arrays", "element_bits", "hard_cases"]


def hard_cases(fmt: ElementFormat) -> tuple[int, ...]:
    """Bits of the elements on which arithmetic turns, +0 first: zeros, ones, subnormals, powers of two and their neighbours, the largest, infinities, NaNs.

    >>> [hex(bits) for bits in hard_cases(element_format("e2m1"))][:5], len(hard_cases(element_format("bf16"))) > 40
    (['0x0', '0x1', '0x2', '0x3', '0x4'], True)
    """
    if not fmt.is_float:
        top, mask = 1 << fmt.bits - 1, (1 << fmt.bits) - 1
        found = {0, 1, 2, top, top - 1, top + 1, mask, mask - 1}
        return tuple(sorted(bits & mask for bits in found))
    fraction = fmt.fraction_bits
    one = ((1 << fmt.exponent_bits - 1) - 1) << fraction  # exponent 0
    steps = (0, 1, 2, fmt.exponent_bits, (1 << fmt.exponent_bits - 1) - 2)
    powers = {one + (sign * step << fraction) for step in steps for sign in (1, -1)}
    below = {0, 1, (1 << fraction) - 1, 1 << fraction, (1 << fraction) >> 1}  # zero, the subnormals' ends, the smallest normal number
    above = {fmt.largest, fmt.magnitude, fmt.largest + 1, fmt.magnitude - (1 << fraction >> 1)}  # infinities and NaNs of two payloads
    near = {bits + ulp for bits in powers | below | above for ulp in (-1, 0, 1)}
    codes = {bits << fmt.dropped_bits for bits in near if 0 <= bits <= fmt.magnitude}
    codes |= {bits | (1 << fmt.dropped_bits) - 1 for bits in codes}  # tf32: bits that are no part of the number
    signed = {bits | 1 << fmt.bits - 1 for bits in codes} if fmt.signed else set()
    return tuple(sorted(codes | signed))


def element_bits(dtype: Any) -> st.SearchStrategy[int]:
    """Raw bits of one element of a type: half of them the hard cases, the others anything; shrinks to +0.

    Hard cases are zeros of both signs, subnormals, powers of two, the largest numbers, infinities, NaNs, and what is one ulp away from any of
    these. `dtype` as everywhere; InputError for one that does not exist.

    >>> from hypothesis import find, settings
    >>> hex(find(element_bits("f16"), lambda bits: bits > 0x7C00, settings=settings(derandomize=True)))    # the first NaN
    '0x7c01'
    """
    fmt = element_format(dtype)
    return st.sampled_from(hard_cases(fmt)) | st.integers(0, (1 << fmt.bits) - 1)


def element_arrays(dtype: Any, *, shape: Sequence[int]) -> st.SearchStrategy[np.ndarray]:
    """Arrays of raw bits, one element an entry, of the smallest unsigned numpy type that holds it; shrinks to +0 everywhere.

    InputError for a shape that is none, or of more than 65,536 elements.

    >>> from hypothesis import find, settings
    >>> find(element_arrays("e4m3", shape=(1, 2)), lambda array: array[0, 1] > 1, settings=settings(derandomize=True)).tolist()
    [[0, 2]]
    """
    import numpy as np
    from hypothesis.extra.numpy import arrays

    fmt = element_format(dtype)
    sizes = tuple(whole(f"shape[{i}]", n, minimum=1) for i, n in enumerate(shape))
    count = 1
    for n in sizes:
        count *= n
    if count > 1 << 16:
        raise InputError(f"shape = {sizes}: {count:,} elements; hypothesis draws each of them, so that more than 65,536 are too slow")
    kind = np.dtype(f"u{max(8, 1 << (fmt.bits - 1).bit_length()) // 8}")
    return arrays(kind, sizes, elements=element_bits(fmt), fill=st.just(0))
