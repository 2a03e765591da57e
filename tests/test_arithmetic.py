"""The dot product: laws, and a second implementation in exact fractions that shares nothing with the package's."""

import csv
import pathlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smemsim import InputError, Unmodelled
from smemsim.arithmetic.dot import cut, f32_toward_zero
from smemsim.arithmetic.multiply import Factors, has_specials, multiply
from smemsim.arithmetic.values import element_value
from smemsim.spec.formats import element_format
from strategies import examples


def wgmma_bf16(a, b, c):
    """D of a bf16 wgmma with f32, whose arithmetic is modelled bit for bit."""
    return multiply(a, b, c, instruction="wgmma", a_type="bf16", b_type="bf16", d_type="f32")[0]


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


# The exact sums behind every other type: held against fractions.

TYPES = [
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"),
    ("tf32", "tf32", "f32"),
    ("e4m3", "e5m2", "f32"),
    ("e2m1", "e3m2", "f16"),
    ("e2m3", "e4m3", "f32"),
]


def finite_bits(dtype):
    fmt = element_format(dtype)
    return st.integers(0, 2**fmt.bits - 1).filter(lambda bits: not has_specials(np.array([bits]), fmt)[0])


def convert(value, dtype):
    """Bits of a fraction in f32 (toward zero) or f16 (to nearest even); zero is +0."""
    fmt = element_format(dtype)
    bias, sign, x = (1 << fmt.exponent_bits - 1) - 1, int(value < 0) << fmt.bits - 1, abs(Fraction(value))
    exponent = next((e for e in range(-600, 600) if x < Fraction(2) ** (e + 1)), 600) if x else -600
    last = max(exponent, 1 - bias) - fmt.fraction_bits
    quotient, rest = divmod(x / Fraction(2) ** last, 1)
    quotient = int(quotient) + (dtype == "f16" and (rest, quotient % 2) > (Fraction(1, 2), 0))
    if quotient * Fraction(2) ** last >= Fraction(2) ** (bias + 1):
        return sign | (2 * bias + 1) << fmt.fraction_bits
    # Adding the exponent lets a carry of the fraction run into it.
    return (sign | quotient + (max(exponent, 1 - bias) + bias - 1 << fmt.fraction_bits)) if quotient else 0


@pytest.mark.parametrize(("a_type", "b_type", "d_type"), TYPES)
@examples(120)
@given(st.data())
def test_sums_of_every_type_are_exact_and_converted_once(a_type, b_type, d_type, data):
    k = data.draw(st.integers(1, 8))
    a = [data.draw(finite_bits(a_type)) for _ in range(k)]
    b = [data.draw(finite_bits(b_type)) for _ in range(k)]
    c = data.draw(finite_bits(d_type))
    signs = [data.draw(st.booleans()) for _ in range(2)]
    arrays = [np.array([x], np.uint32) for x in (a, b)]
    types = {"a_type": a_type, "b_type": b_type, "d_type": d_type}
    d, certain = multiply(*arrays, np.array([[c]], np.uint32), instruction="tcgen05", **types, negate_a=signs[0], negate_b=signs[1])
    true = element_value(c, d_type)
    for x, y in zip(a, b, strict=True):
        product = element_value(x, a_type) * element_value(y, b_type)
        true += -product if signs[0] != signs[1] else product
    assert int(d[0, 0]) == convert(true, d_type)
    if certain[0, 0]:
        assert element_value(int(d[0, 0]), d_type) == true


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=32), st.integers(-(2**31), 2**31 - 1), st.booleans()
)
def test_integers_wrap_or_clamp(pairs, c, saturate):
    a, b = (np.array([side], np.uint8) for side in zip(*pairs, strict=True))
    start = np.array([[c & 0xFFFFFFFF]], np.uint32)
    d, certain = multiply(a, b, start, instruction="tcgen05", a_type="u8", b_type="s8", d_type="s32", saturate=saturate)
    true = c + sum(x * (y - 256 if y > 127 else y) for x, y in pairs)
    true = min(max(true, -(2**31)), 2**31 - 1) if saturate else true
    assert (int(d[0, 0]), bool(certain[0, 0])) == (true & 0xFFFFFFFF, True)


@given(
    st.lists(st.integers(0, 15), min_size=32, max_size=32), st.lists(st.integers(0, 254), min_size=4, max_size=4), st.sampled_from([16, 32])
)
def test_scale_factors_multiply_their_blocks(codes, scales, block):
    """Powers of two from 2^-127 on; ue4m3 has a sign bit that is ignored."""
    a, b = np.array([codes], np.uint8), np.full((1, 32), 2, np.uint8)  # b is 1.0 everywhere
    count = 32 // block
    near = [100 + s % 50 for s in scales]
    factors = Factors(np.array([near[:count]], np.uint8), np.array([near[2 : 2 + count]], np.uint8), "ue8m0", block)
    zero = np.zeros((1, 1), np.uint32)
    d, _ = multiply(a, b, zero, instruction="tcgen05", a_type="e2m1", b_type="e2m1", d_type="f32", factors=factors)
    worth = [Fraction(2) ** (near[i // block] + near[2 + i // block] - 254) for i in range(32)]
    assert int(d[0, 0]) == convert(sum(element_value(x, "e2m1") * w for x, w in zip(codes, worth, strict=True)), "f32")
    with_sign = Factors(np.full((1, 2), 0xB8, np.uint8), np.full((1, 2), 0x38, np.uint8), "ue4m3", 16)
    plain = Factors(np.full((1, 2), 0x38, np.uint8), np.full((1, 2), 0x38, np.uint8), "ue4m3", 16)
    assert [
        int(multiply(a, b, zero, instruction="tcgen05", a_type="e2m1", b_type="e2m1", d_type="f32", factors=f)[0][0, 0])
        for f in (with_sign, plain)
    ] == [convert(Fraction(sum(element_value(x, "e2m1") for x in codes)), "f32")] * 2


def truncated(a, b, c, types, *, kept=25, zero=-133, factors=(1, 1)):
    """The published datapath of tcgen05 and wgmma in fractions: terms cut toward zero `kept` bits below the largest, zeros counting with `zero`."""
    exponents, terms = [], []
    for x, y in [*zip(a, b, strict=True), (c, None)]:
        pair = [(x, types[0] if y is not None else types[2]), *([(y, types[1])] if y is not None else [])]
        value = Fraction(1)
        top = 0
        for bits, dtype in pair:
            fmt = element_format(dtype)
            field = bits >> fmt.dropped_bits >> fmt.fraction_bits & ((1 << fmt.exponent_bits) - 1)
            top += max(field, 1) - ((1 << fmt.exponent_bits - 1) - 1)
            value *= element_value(bits >> fmt.dropped_bits << fmt.dropped_bits, dtype)
        terms.append(value)
        exponents.append(top if value else zero)
    unit = Fraction(2) ** (max(exponents) - kept)
    return convert(sum((int(t / unit) * unit for t in terms), Fraction(0)), types[2])


@pytest.mark.parametrize("types", [("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("f16", "f16", "f16"), ("e4m3", "e5m2", "f32")])
@examples(250)
@given(st.data())
def test_what_is_certain_is_what_the_published_datapath_computes(types, data):
    """Exponents are drawn close together, or near the smallest, where zeros cut; with few fraction bits, so that much is certain."""

    def draw(dtype):
        fmt = element_format(dtype)
        low = data.draw(st.sampled_from([1, (1 << fmt.exponent_bits - 1) - 4]))
        field = data.draw(st.integers(max(low - 1, 0), low + 6))
        fraction = data.draw(st.integers(0, 3)) << data.draw(st.integers(0, fmt.fraction_bits)) & ((1 << fmt.fraction_bits) - 1)
        bits = (data.draw(st.booleans()) << fmt.exponent_bits | field) << fmt.fraction_bits | fraction
        return 0 if data.draw(st.integers(0, 5)) == 0 else bits << fmt.dropped_bits

    k = data.draw(st.integers(1, 6))
    a, b, c = [draw(types[0]) for _ in range(k)], [draw(types[1]) for _ in range(k)], draw(types[2])
    arrays = [np.array([x], np.uint32) for x in (a, b)]
    named = dict(zip(("a_type", "b_type", "d_type"), types, strict=True))
    d, certain = multiply(*arrays, np.array([[c]], np.uint32), instruction="tcgen05", **named)
    if certain[0, 0]:
        assert int(d[0, 0]) == truncated(a, b, c, types)


def test_tiny_terms_beside_zeros_are_not_certain():
    """2^-149 - 2^-158 + two times 2^-159: exact is 2^-149, and silicon cuts the small ones off beside the zero of C."""
    a = np.array([[0x0001, 0x2000, 0x2000, 0x8000 | 0x2080]], np.uint16)
    b = np.array([[0x3F80, 0x1000, 0x1000, 0x1000]], np.uint16)
    d, certain = multiply(a, b, np.zeros((1, 1), np.uint32), instruction="tcgen05", a_type="bf16", b_type="bf16", d_type="f32")
    assert not certain[0, 0]
    ones = np.array([[0x8000]], np.uint16), np.array([[0x3F80]], np.uint16)
    for c, sure in ((0x80000000, False), (0, True)):
        d, certain = multiply(*ones, np.array([[c]], np.uint32), instruction="tcgen05", a_type="bf16", b_type="bf16", d_type="f32")
        assert (int(d[0, 0]), bool(certain[0, 0])) == (0, sure)  # -0 and -0: +0 on Hopper, unknown here


def test_an_element_is_certain_only_where_no_datapath_can_drop_a_bit():
    def run(values, instruction="tcgen05", a_type="f16"):
        a, b = np.array([values], np.float16).view(np.uint16), np.full((1, len(values)), 0x3C00, np.uint16)
        d, certain = multiply(a, b, np.zeros((1, 1), np.uint32), instruction=instruction, a_type=a_type, b_type=a_type, d_type="f32")
        return float(d.view(np.float32)[0, 0]), bool(certain[0, 0])

    assert run([1, 2, 3, -6]) == (0.0, True)
    assert run([2.0**12, 2.0**-11]) == (2.0**12 + 2.0**-11, True)
    assert run([2.0**12, 2.0**-12]) == (2.0**12, False)  # the sum has 25 bits
    assert run([2.0**15, 2.0**-11, -(2.0**15)]) == (2.0**-11, False)  # exact here; silicon drops the small term first


def test_words_of_single_bits_count_what_they_share():
    a, b = np.array([[0b1011, 1 << 31]], np.uint32), np.array([[0b0110, 1 << 31]], np.uint32)
    d, _ = multiply(a, b, np.array([[5]], np.uint32), instruction="wgmma", a_type="b1", b_type="b1", d_type="s32")
    assert d.tolist() == [[7]]


PROBES = list(csv.DictReader((pathlib.Path(__file__).parent / "data" / "arithmetic_probes.csv").read_text().splitlines()))
EXACT_TYPES = {"f32": "f32", "f16": "f16", "s32": "s32"}


def probe_types(instruction):
    """(A, B, D) of `wgmma.m64nNkK.D.A.B`, or None for what is not a wgmma."""
    head, *types = instruction.split(".")
    return (types[2], types[3], types[1]) if head == "wgmma" and len(types) == 4 else None


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: f"{p['id']} {p['instruction']}")
def test_directed_probes_give_what_hardware_gave_or_are_not_certain(probe):
    """Published and directed vectors: where an element is certain, or its arithmetic modelled, its bits are those."""
    types = probe_types(probe["instruction"])
    if types is None or types[2] not in EXACT_TYPES:
        pytest.skip("not a wgmma")
    a, b = (np.array([[int(x, 16) for x in probe[side].split()]], np.uint32) for side in "ab")
    c, wanted = (np.array([[int(probe[name].split()[0], 16)]], np.uint32) for name in "cd")
    named = dict(zip(("a_type", "b_type", "d_type"), types, strict=True))
    try:
        d, certain = multiply(a, b, c, instruction="wgmma", **named)
    except Unmodelled:
        assert any(has_specials(x, element_format(t)).any() for x, t in zip((a, b, c), types, strict=True))
        return
    if certain[0, 0]:
        assert hex(int(d[0, 0])) == hex(int(wanted[0, 0]))


def test_the_probes_decide_something():
    modelled = [p for p in PROBES if probe_types(p["instruction"]) == ("bf16", "bf16", "f32")]
    assert len(PROBES) > 90
    assert len(modelled) > 15
    assert {"P10b-159", "P11b", "P12a", "P12b", "P14a"} <= {p["id"] for p in modelled}
