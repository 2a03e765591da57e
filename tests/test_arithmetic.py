"""The dot product: laws, and a second implementation in exact fractions that shares nothing with the package's."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smemsim import InputError, Unmodelled
from smemsim.arithmetic.dot import cut, f32_toward_zero
from smemsim.machine.mma import wgmma_bf16

finite = st.integers(0, 0xFFFF).filter(lambda bits: bits & 0x7F80 != 0x7F80)
# The hard cases: zeros, subnormals, neighbours of 1, values whose products cancel or lie far apart.
hard = st.one_of(st.sampled_from([0, 0x8000, 1, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x3F81, 0x4B80, 0x2F80, 0x6000]), finite)


def value(bits, exponent_bits=8, fraction_bits=7):
    """The float as a Fraction, by its definition."""
    sign = -1 if bits >> (exponent_bits + fraction_bits) else 1
    biased, fraction = bits >> fraction_bits & 0xFF, bits & ((1 << fraction_bits) - 1)
    one = (1 << fraction_bits) if biased else 0
    return sign * Fraction(one + fraction) * Fraction(2) ** (max(biased, 1) - 127 - fraction_bits)


def stored_exponent(bits, fraction_bits):
    return max(bits >> fraction_bits & 0xFF, 1) - 127


def toward_zero(x):
    return -(-x.numerator // x.denominator) if x < 0 else x.numerator // x.denominator


def reference(a, b, c):
    terms = [(value(x) * value(y), stored_exponent(x, 7) + stored_exponent(y, 7)) for x, y in zip(a, b, strict=True)]
    terms.append((value(c, 8, 23), stored_exponent(c, 23)))
    largest = max([e for v, e in terms if v] + [-133] * any(not v for v, _ in terms))
    unit = Fraction(2) ** (largest - 25)
    total = sum(toward_zero(v / unit) for v, _ in terms) * unit
    if total == 0:
        return 0
    exponent = -126
    while abs(total) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    if exponent > 127:
        return 0x7F800000 | (0x80000000 if total < 0 else 0)
    units = toward_zero(abs(total) / Fraction(2) ** (exponent - 23))
    if units == 0:
        return 0
    biased = exponent + 127 if units >= 1 << 23 else 0
    return (0x80000000 if total < 0 else 0) | biased << 23 | units & 0x7FFFFF


@settings(deadline=None, derandomize=True, max_examples=400)
@given(
    st.lists(hard, min_size=16, max_size=16),
    st.lists(hard, min_size=16, max_size=16),
    st.integers(0, 0xFFFFFFFF).filter(lambda c: c >> 23 & 255 != 255),
)
def test_the_compiled_dot_product_is_the_definition_in_fractions(a, b, c):
    result = wgmma_bf16(np.array([a], np.uint16), np.array([b], np.uint16), np.array([[c]], np.uint32))
    assert int(result[0, 0]) == reference(a, b, c)


def test_terms_are_cut_before_they_are_summed():
    """Sixteen terms of 3/4 unit each vanish beside a large one, although their sum is 12 units."""
    a = np.full((1, 16), 0x3F40, np.uint16)  # 0.75
    a[0, 0] = 0x3F80 + (26 << 7)  # 2^26
    one = np.full((1, 16), 0x3F80, np.uint16)
    assert wgmma_bf16(a, one, np.zeros((1, 1), np.uint32)).view(np.float32)[0, 0] == 2.0**26


def test_the_order_of_k_does_not_matter():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((2, 8, 16)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    c = rng.standard_normal((8, 8)).astype(np.float32).view(np.uint32)
    order = rng.permutation(16)
    assert (wgmma_bf16(a, b, c) == wgmma_bf16(a[:, order], b[:, order], c)).all()


def test_a_zero_result_is_plus_zero():
    a = np.array([[0x3F80, 0xBF80] + [0x8000] * 14], np.uint16)
    b = np.full((1, 16), 0x3F80, np.uint16)
    assert wgmma_bf16(a, b, np.array([[0x80000000]], np.uint32))[0, 0] == 0


@given(st.integers(-(1 << 40), 1 << 40), st.integers(-80, 20))
def test_cut_truncates_toward_zero(x, shift):
    assert cut(x, shift) == toward_zero(Fraction(x) * Fraction(2) ** shift)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=0.0, max_value=2.0**60))
def test_a_float_survives_the_conversion(x):
    numerator, denominator = float(x).as_integer_ratio()
    assert f32_toward_zero(numerator, 1 - denominator.bit_length()) == int(np.float32(x).view(np.uint32))


@pytest.mark.parametrize("bits", [0x7F80, 0x7FC0, 0xFF80])
def test_infinities_and_nans_are_not_guessed(bits):
    a = np.full((1, 16), bits, np.uint16)
    with pytest.raises(Unmodelled):
        wgmma_bf16(a, a, np.zeros((1, 1), np.uint32))
    with pytest.raises(InputError):
        wgmma_bf16(a[:, :8], a, np.zeros((1, 1), np.uint32))
