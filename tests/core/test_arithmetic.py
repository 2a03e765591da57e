"""The dot product: every instruction against the same sum in exact fractions (`exact`), the compiled loops against
their text, and laws.
"""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exact
from smemsim.core.arithmetic import dot as text
from smemsim.core.arithmetic.multiply import Factors, multiply
from smemsim.core.arithmetic.results import tf32_away
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.mma_arithmetic import ARITHMETIC
from strategies import examples

ROWS = [pytest.param(row, id=f"{'-'.join(row.kinds)}-{'-'.join(row.a_types)}-{row.d_type}") for row in ARITHMETIC]
FLOATS = [param for param in ROWS if param.values[0].kept_bits is not None]
PLAIN = [param for param in FLOATS if not param.values[0].kinds[0].startswith("mx")]
BLOCKS = {"mxf8f6f4": [("ue8m0", 32)], "mxf4": [("ue8m0", 32)], "mxf4nvf4": [("ue8m0", 32), ("ue8m0", 16), ("ue4m3", 16)]}


def instructions(row):
    """(kind, types, scale type and elements for a scale) of all that a row stands for."""
    for kind, a, b in itertools.product(row.kinds, row.a_types, row.b_types):
        for scale in BLOCKS.get(kind, [None]):
            yield kind, (a, b, row.d_type), scale


def run(kind, types, a, b, c, *, factors=None, **more):
    """(D, certain) of raw codes: lists of rows, of columns and of rows of C; `factors` as `exact.dot` has them, of all
    rows and columns.
    """
    named = dict(zip(("a_type", "b_type", "d_type"), types, strict=True))
    if factors:
        dtype, of_a, of_b, block = factors
        named["factors"] = Factors(np.array(of_a, np.uint8), np.array(of_b, np.uint8), dtype, block)
    a, b, c = (np.array(x, np.uint32 if exact.bits_of(t) == 32 else np.uint16) for x, t in zip((a, b, c), types, strict=True))
    return multiply(a, b, c.astype(np.uint32), kind=kind, **named, **more)


def one(kind, types, a, b, c, *, factors=None, **more):
    """(bits of D, certain) of one dot product."""
    if factors:
        factors = (factors[0], [factors[1]], [factors[2]], factors[3])
    d, certain = run(kind, types, [a], [b], [[c]], factors=factors, **more)
    return int(d[0, 0]), bool(certain[0, 0])


def by_hand(kind, types, a, b, c, *, factors=None, **more):
    if types[2] == "s32":
        return exact.integer_dot(a, b, c, types, **more)
    return exact.dot(a, b, c, types, factors=factors, **exact.constants(kind, types[0], types[2])[0] | more)


def codes(name):
    """Any code, or one where something changes, or a number of nearly the size of 1."""
    choices = [st.sampled_from(exact.landmarks(name)), st.integers(0, (1 << exact.bits_of(name)) - 1)]
    if name in exact.FORMATS:
        width, exponent_bits, fraction_bits, _, dropped = exact.FORMATS[name]
        middle, sign = (1 << exponent_bits - 1) - 1 << fraction_bits, 0 if name == "ue8m0" else 1 << width - 1
        near = st.integers(max(middle - (3 << fraction_bits), 0), middle + (2 << fraction_bits))
        choices.append(st.builds(lambda code, s: code << dropped | s, near, st.sampled_from([0, sign])))
    return st.one_of(choices)


@st.composite
def operands(draw, row):
    """One dot product of a row: a few terms anywhere along K, some of them again with the other sign, the rest alike."""
    kind, types, scale = draw(st.sampled_from(list(instructions(row))))
    pair = st.tuples(codes(types[0]), codes(types[1]))
    pairs = draw(st.lists(pair, min_size=1, max_size=6))
    if types[2] != "s32":
        sign = 1 << exact.bits_of(types[0]) - 1
        pairs += [(x ^ sign, y) for x, y in pairs[: draw(st.integers(0, len(pairs)))]]
    rest = draw(st.sampled_from([(0, 0), (0, 0), (exact.one_of(types[0]), exact.one_of(types[1])), pairs[0]]))
    pairs = (pairs + [rest] * row.k)[: row.k]
    random.Random(draw(st.integers(0, 9))).shuffle(pairs)
    factors = None
    if scale:
        scales = st.lists(codes(scale[0]), min_size=row.k // scale[1], max_size=row.k // scale[1])
        factors = (scale[0], draw(scales), draw(scales), scale[1])
    return kind, types, [x for x, _ in pairs], [y for _, y in pairs], draw(codes(types[2])), factors


def test_the_table_has_the_published_constants():
    for row in ARITHMETIC:
        assert row.grade is (Grade.MEASURED if row.kinds == ("wgmma",) else Grade.INFERRED)
        for kind, (a, _, d), _ in instructions(row):
            wanted, k = exact.constants(kind, a, d)
            if d == "s32":
                assert (row.kept_bits, row.k) == (None, 256 if a == "b1" else 32)
            else:
                found = (row.kept_bits, row.zero_exponent, row.fraction_bits, row.to_nearest, row.group, row.k)
                assert found == (*(wanted[name] for name in ("kept", "zero", "fraction", "nearest", "group")), k)


@pytest.mark.parametrize("row", ROWS)
@examples(60)
@given(st.data())
def test_every_instruction_computes_what_fractions_say(row, data):
    kind, types, a, b, c, factors = data.draw(operands(row))
    assert hex(one(kind, types, a, b, c, factors=factors)[0]) == hex(by_hand(kind, types, a, b, c, factors=factors))


def drawn(rng, name, shape, style):
    """Codes of one style: any bits, numbers around 1, tiny ones, large ones."""
    any_bits = rng.integers(0, 1 << exact.bits_of(name), shape)
    if style == "raw" or name not in exact.FORMATS:
        return any_bits
    width, exponent_bits, fraction_bits, _, dropped = exact.FORMATS[name]
    top = (1 << exponent_bits) - 1
    low, high = {
        "one": (max(top // 2 - 2, 0), min(top // 2 + 2, top - 1)),
        "tiny": (0, min(3, top // 2)),
        "large": (top - top // 4 - 1, top - 1),
    }[style]
    code = any_bits & ~(top << fraction_bits + dropped) | rng.integers(low, high + 1, shape) << fraction_bits + dropped
    return np.where(rng.random(shape) < 0.15, any_bits & 1 << width - 1, code)


@pytest.mark.parametrize("row", ROWS)
def test_tiles_of_every_pair_of_types_are_what_fractions_say(row):
    """Every row of A and every column of B in a style of its own, so that terms of all sizes meet."""
    rng, styles = np.random.default_rng(row.k), ("one", "raw", "tiny", "large")
    for kind, types, scale in instructions(row):
        a, b = (np.concatenate([drawn(rng, t, (1, row.k), style) for style in styles]) for t in types[:2])
        b[:, 1::2], a[:, 1::4] = b[:, ::2], a[:, ::4] ^ (1 << exact.bits_of(types[0]) - 1)  # a part of the sum cancels
        c = np.concatenate([drawn(rng, types[2], (1, 4), style) for style in rng.permutation(styles)])
        factors = None
        if scale:
            factors = (scale[0], *(drawn(rng, scale[0], (4, row.k // scale[1]), "one") for _ in "ab"), scale[1])
        d, certain = run(kind, types, a, b, c, factors=factors)
        for m, n in np.ndindex(d.shape):
            own = factors and (factors[0], factors[1][m].tolist(), factors[2][n].tolist(), factors[3])
            assert hex(d[m, n]) == hex(by_hand(kind, types, a[m].tolist(), b[n].tolist(), int(c[m, n]), factors=own)), (kind, types, m, n)
        assert certain.all() or row.grade is Grade.INFERRED


def in_text(row, types, a, b, c, factors):
    """The scalar functions of `arithmetic.dot` as plain Python."""
    smallest = {"f32": -126, "f16": -14}
    lowest = {name: 2 - (1 << exponent_bits - 1) for name, (_, exponent_bits, *_) in exact.FORMATS.items()} | {"ue8m0": -127}

    def numbers(name, x):
        values = to_float64(np.array(x), name)
        return values, np.array([int(text.exponent(value, lowest[name])) for value in values])

    (x, x_exponent), (y, y_exponent), ([z], _) = numbers(types[0], a), numbers(types[1], b), numbers(types[2], [c])
    z_exponent = int(text.exponent(z, smallest[types[2]]))
    if factors:
        (s, s_exponent), (t, t_exponent) = numbers(factors[0], factors[1]), numbers(factors[0], factors[2])
        each = np.repeat(s * t, factors[3]), np.repeat(s_exponent + t_exponent, factors[3])
    if row.group > 1:
        starts = range(0, row.k, row.group)
        terms, exponents = zip(*(text.group(x[k : k + 16], y[k : k + 16], each[0][k], each[1][k]) for k in starts), strict=True)
    else:
        terms, exponents = (x * y, x_exponent + y_exponent) if not factors else (x * each[0] * y, x_exponent + each[1] + y_exponent)
    total = text.fused(terms, exponents, z, z_exponent, row.kept_bits, row.zero_exponent)
    width, exponent_bits, fraction_bits, *_ = exact.FORMATS[types[2]]
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    nan = (1 << width - 1) - 1
    code = int(text.convert(total, exponent_bits, fraction_bits, row.to_nearest, infinity - 1, infinity, nan))
    dropped = (1 << fraction_bits - row.fraction_bits) - 1
    return text.plus_zero(code if code == nan else code & ~dropped, 1 << width - 1)


@pytest.mark.parametrize("largest", [-104, -103, -102, -101, -100, 119, 120, 121, 122])
def test_sums_at_the_ends_of_what_float32_holds_are_what_fractions_say(largest):
    """bf16 has the exponents of float32: products, units and sums come to its ends, and to those of int32 where every
    term is as large as can be.
    """
    rng, types = np.random.default_rng(200 + largest), ("bf16", "bf16", "f32")
    for less in (0, 3, 27):
        of_b = int(rng.integers(-60, -40)) if largest < 0 else int(rng.integers(20, 60))
        exponents = largest - of_b - rng.integers(0, less + 1, 16)
        a = [int(127 + e) << 7 | 0x7F - int(rng.integers(0, less + 1)) | int(rng.integers(0, 2) * (less > 0)) << 15 for e in exponents]
        b = [127 + of_b << 7 | 0x7F] * 16
        for c in (0, int(127 + min(largest, 120)) << 23 | 0x7FFFFF, 0x80000001):
            assert hex(one("wgmma", types, a, b, c)[0]) == hex(by_hand("wgmma", types, a, b, c))


@pytest.mark.parametrize("row", FLOATS)
@examples(25)
@given(st.data())
def test_the_compiled_loops_are_their_text(row, data):
    kind, types, a, b, c, factors = data.draw(operands(row))
    with np.errstate(all="ignore"):
        assert hex(in_text(row, types, a, b, c, factors)) == hex(one(kind, types, a, b, c, factors=factors)[0])


# ---- laws


@pytest.mark.parametrize("row", FLOATS)
@examples(20)
@given(st.data())
def test_order_signs_and_zeros_do_not_matter(row, data):
    """k in any order (within a scale's block), -A * -B, -A and -C, and zeros appended; D is never -0, and a NaN is one
    word.
    """
    kind, types, a, b, c, factors = data.draw(operands(row))
    d, certain = one(kind, types, a, b, c, factors=factors)
    sign = 1 << exact.bits_of(types[2]) - 1
    assert d != sign
    assert d & sign - 1 <= (0x7F800000 if types[2] == "f32" else 0x7C00) or d == sign - 1
    size = 16 if row.group > 1 else row.k
    order = [first + at for first in range(0, row.k, size) for at in np.random.default_rng(c).permutation(size)]
    assert one(kind, types, [a[k] for k in order], [b[k] for k in order], c, factors=factors) == (d, certain)
    assert one(kind, types, a, b, c, factors=factors, negate_a=True, negate_b=True) == (d, certain)
    opposite, _ = one(kind, types, a, b, c ^ sign, factors=factors, negate_a=True)
    assert opposite == one(kind, types, a, b, c ^ sign, factors=factors, negate_b=True)[0]
    assert opposite == (d if d in (0, sign - 1) else d ^ sign)
    if not factors:
        for more in (1, 2, row.k):
            assert one(kind, types, a + [0] * more, b + [0] * more, c)[0] == d


@pytest.mark.parametrize("row", PLAIN)
@given(st.integers(0, 2**32), st.integers(-3, 3))
@examples(30)
def test_a_power_of_two_scales_d(row, seed, shift):
    """While nothing leaves the range of normal numbers."""
    rng = np.random.default_rng(seed)
    for kind, types, _ in instructions(row):
        pick = [t for t in ("f16", "bf16", "tf32", "e5m2", "e4m3") if t == types[0]]
        if not pick or types[1] in ("e3m2", "e2m3", "e2m1"):
            continue
        exponent = {t: np.int64(exact.landmark_of(t, 1) - exact.landmark_of(t, 0)) for t in types}
        near = [
            exact.landmark_of(t, 0) + rng.integers(0, 2, (4, 16)) * exponent[t] | rng.integers(0, exponent[t], (4, 16)) for t in types[:2]
        ]
        signs = rng.integers(0, 2, (4, 16)) << exact.bits_of(types[0]) - 1
        c = exact.landmark_of(types[2], 0) + rng.integers(0, exponent[types[2]], (4, 4))
        d, _ = run(kind, types, near[0] | signs, near[1], c)
        scaled, _ = run(kind, types, near[0] + shift * exponent[types[0]] | signs, near[1], c + shift * exponent[types[2]])
        # may be subnormal once scaled
        nothing = d & (1 << exact.bits_of(types[2]) - 1) - 1 < exact.landmark_of(types[2], -9)
        assert (scaled[~nothing] == d[~nothing] + shift * exponent[types[2]]).all()
        assert (~nothing).any()


@pytest.mark.parametrize("row", PLAIN)
@examples(20)
@given(st.data())
def test_a_sparse_a_is_the_dense_one_with_its_zeros(row, data):
    kind, types, a, b, c, _ = data.draw(operands(row))
    index = sorted(random.Random(c).sample(range(row.k), row.k // 2))
    stored = [a[k] for k in index]
    dense = [a[k] if k in index else 0 for k in range(row.k)]
    finite = [y if k in index else 0 for k, y in enumerate(b)]  # an infinity that nothing meets does not count
    d, certain = one(kind, types, stored, b, c, index=np.array([index]))
    assert d == one(kind, types, dense, finite, c)[0]
    if row.grade is Grade.MEASURED:
        assert certain


@pytest.mark.parametrize("row", [row for row in PLAIN if row.values[0].kinds[0] in ("f16", "tf32")])
@examples(40)
@given(st.data(), st.integers(0, 15))
def test_c_is_divided_before_it_is_aligned(row, data, shift):
    kind, types, a, b, c, _ = data.draw(operands(row))
    assert hex(one(kind, types, a, b, c, scale_c=shift)[0]) == hex(by_hand(kind, types, a, b, c, scale_c=shift))


def test_two_sums_in_turn_are_not_one_wide_sum():
    """(1 + 2^-24), which is cut to 1, and then - 1: chained instructions know nothing of the bits that were cut."""
    for kind, dtype in (("wgmma", "bf16"), ("f16", "bf16"), ("wgmma", "tf32"), ("tf32", "tf32")):
        types, unit, tiny = (dtype, dtype, "f32"), exact.landmark_of(dtype, 0), exact.landmark_of(dtype, -24)
        minus = unit | 1 << exact.bits_of(dtype) - 1
        first = one(kind, types, [unit, tiny], [unit, unit], 0)[0]
        assert one(kind, types, [minus, 0], [unit, 0], first)[0] == 0
        assert one(kind, types, [unit, tiny, minus], [unit] * 3, 0)[0] == exact.landmark_of("f32", -24)


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=32),
    st.one_of(st.integers(0, 2**32 - 1), st.integers(2**31 - 9000, 2**31 + 9000)),
    st.booleans(),
    st.sampled_from([("u8", "s8"), ("s8", "u8"), ("s8", "s8"), ("u8", "u8")]),
)
def test_integers_wrap_or_clamp(pairs, c, saturate, types):
    a, b = (list(side) for side in zip(*pairs, strict=True))
    for kind in ("wgmma", "i8"):
        wanted = exact.integer_dot(a, b, c, types, saturate=saturate), True
        assert one(kind, (*types, "s32"), a, b, c, saturate=saturate) == wanted


# ---- what is certain of tcgen05


def rivals(row):
    """Datapaths that somebody has proposed, or that lie between them; none keeps less than 25 bits."""
    own = exact.constants(row.kinds[0], row.a_types[0], row.d_type)[0]
    yield from (own | {"kept": kept, "zero": zero} for kept in (25, 26, 35, 4000) for zero in (-126, -132, -133, -139, -4000))
    yield from (own | {"group": group, "kept": kept} for group in (1, 16, 32) if row.group > 1 for kept in (25, 34, 37))
    yield own | {"cut": "down"}
    yield own | {"normalise": True}
    yield own | {"nearest": not own["nearest"]}
    if row.d_type == "f16":
        yield from (own | {"zero": zero} for zero in (-20, -21, -22))


@pytest.mark.parametrize("row", [row for row in FLOATS if row.values[0].grade is Grade.INFERRED])
def test_what_is_certain_is_the_same_in_every_datapath(row):
    """Over numbers whose sums often need every bit that is kept, and around the smallest, where zeros cut."""
    rng, seen, sure, told = np.random.default_rng(7), 0, 0, 0
    everyone = list(rivals(row))
    combinations = list(instructions(row))
    for kind, types, scale in [combinations[i] for i in rng.permutation(len(combinations))[:4]] * (1 if len(combinations) > 3 else 2):
        a, b = (drawn(rng, t, (6, row.k), "one") for t in types[:2])
        a[:, 6:], b[2:4] = 0, drawn(rng, types[1], (2, row.k), "tiny")
        a[3:] &= ~((1 << max(exact.FORMATS[types[0]][2] - 2, 0) + exact.FORMATS[types[0]][4]) - 1)  # few bits
        b &= ~((1 << max(exact.FORMATS[types[1]][2] - 2, 0) + exact.FORMATS[types[1]][4]) - 1)
        some = [exact.landmark_of(types[2], e) for e in range(-13 if types[2] == "f16" else -24, 5)]
        c = rng.choice(some, (6, 6)) | rng.integers(0, 16, (6, 6)) << exact.FORMATS[types[2]][2] - 4
        c[:, ::2] = 0
        factors = None
        if scale:
            few = {"ue8m0": (127 - 16, 128), "ue4m3": (0, 127)}[scale[0]]
            factors = (scale[0], *(rng.integers(*few, (6, row.k // scale[1])) for _ in "ab"), scale[1])
        d, certain = run(kind, types, a, b, c, factors=factors)
        for m, n in np.ndindex(d.shape):
            own = factors and (factors[0], factors[1][m].tolist(), factors[2][n].tolist(), factors[3])
            given_up = [exact.dot(a[m].tolist(), b[n].tolist(), int(c[m, n]), types, factors=own, **rules) for rules in everyone]
            seen, sure = seen + 1, sure + int(certain[m, n])
            told += len(set(given_up)) > 1
            assert not certain[m, n] or set(given_up) == {int(d[m, n])}, (kind, types, m, n)
    assert seen // 20 < sure < seen
    assert told


def test_tiny_terms_beside_zeros_are_not_certain():
    """2^-149 - 2^-158 + two times 2^-159: exact is 2^-149, and silicon cuts the small ones off beside the zero of C."""
    types = ("bf16", "bf16", "f32")
    a, b = [0x0001, 0x2000, 0x2000, 0x8000 | 0x2080], [0x3F80, 0x1000, 0x1000, 0x1000]
    assert not one("f16", types, a, b, 0)[1]
    assert one("wgmma", types, a, b, 0)[1]


def test_nothing_but_negative_zeros_is_not_certain_of_tcgen05():
    types = ("bf16", "bf16", "f32")
    for c, sure in ((0x80000000, False), (0, True)):
        assert one("f16", types, [0x8000], [0x3F80], c) == (0, sure)
        assert one("wgmma", types, [0x8000], [0x3F80], c) == (0, True)
    assert one("f16", types, [0x8000], [0x3F80], 0, adds_c=False) == (0, False)


@pytest.mark.parametrize("special", [0x7F80, 0xFF80, 0x7FC0, 0x7F81])
def test_infinities_and_nans_are_not_certain_of_tcgen05(special):
    for side in range(2):
        a, b = ([special, 0], [0x3F80, 0]) if side else ([0x3F80, 0], [special, 0])
        d, certain = one("f16", ("bf16", "bf16", "f32"), a, b, 0)
        assert not certain
        assert d == (special << 16 if special & 0x7F == 0 else 0x7FFFFFFF)


@pytest.mark.parametrize("high", [0, 0x3F800000, 0x7F7FE000, 0x80000000, 0xFF7FC000])
def test_tf32_is_the_nearest_one_and_the_larger_one_of_two(high):
    """The low 13 bits of f32 are less than half a unit of tf32, half of one, or more."""
    for low in (0, 1, 0xFFE, 0xFFF, 0x1000, 0x1001, 0x1FFF):
        assert tf32_away(high | low, 0) == high + (0x2000 if low >= 0x1000 else 0)
