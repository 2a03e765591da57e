"""Numbers to raw bits and back: against ml_dtypes and numpy, and against the formats as `exact` has them."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exact
from smemsim import InputError
from smemsim.core.arithmetic.dot import decode
from smemsim.core.arithmetic.values import SPECIALS, element_value, from_float64, to_float64
from smemsim.core.spec.formats import FORMATS
from strategies import examples

OTHERS = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "ue8m0": ml_dtypes.float8_e8m0fnu, "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
} | {f"{sign}{bits}": np.dtype(f"{letter}{bits // 8}").type for sign, letter in (("s", "i"), ("u", "u")) for bits in (8, 16, 32, 64)}  # fmt: skip
FLOATS = [name for name in FORMATS if FORMATS[name].is_float]
NARROW = [name for name in FORMATS if FORMATS[name].bits <= 16]


def unsigned(name):
    return np.dtype(f"u{max(FORMATS[name].bits // 8, 1)}")


def every(name):
    """All codes of up to 16 bits, many of the others."""
    bits = FORMATS[name].bits
    if bits <= 16:
        return np.arange(1 << bits).astype(unsigned(name))
    codes = np.random.default_rng(bits).integers(0, 1 << bits, 20000, dtype=np.uint64).astype(unsigned(name))
    codes[:6] = 0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1, 0x7F80 << max(bits - 16, 0)
    return codes


def same(x, y):
    """Bit for bit, but that all NaNs are one."""
    return (np.isnan(x) & np.isnan(y)) | (np.asarray(x, np.float64).view(np.uint64) == np.asarray(y, np.float64).view(np.uint64))


@pytest.mark.parametrize("name", OTHERS)
def test_every_code_is_worth_what_others_say(name):
    codes = every(name)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        assert same(to_float64(codes, name), codes.view(OTHERS[name]).astype(np.float64)).all()
        assert same(to_float64(codes.view(OTHERS[name]), name), to_float64(codes, name)).all()


@pytest.mark.parametrize("name", FORMATS)
def test_one_element_is_worth_what_arrays_and_fractions_say(name):
    codes = every(name)[:: 1 if FORMATS[name].bits <= 8 else 37]
    values = to_float64(codes, name)
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        own = element_value(code, name)
        assert same(float(own), value) or own == 0 == value or name in ("s64", "u64")
        if name in exact.FORMATS:
            wanted = exact.read(name, code)[0]
            assert own == wanted or (exact.odd(own) and np.isnan(own) and np.isnan(wanted))
        elif name != "f64":
            assert own == exact.whole(name, code) or name in ("s16", "s64", "u16", "u32", "u64")
    assert isinstance(element_value(1, name), Fraction)


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "f64"])
def test_the_scalar_text_decodes_the_same(name):
    fmt = FORMATS[name]
    codes = every(name)[:: 1 if fmt.bits <= 8 else 37]
    shown = codes & 0x7F if name == "ue4m3" else codes >> fmt.dropped_bits
    found = [float(decode(code, fmt.exponent_bits, fmt.fraction_bits, SPECIALS[fmt.specials])) for code in shown.tolist()]
    assert same(np.array(found), to_float64(codes, name)).all()


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_survives(name):
    """NaNs become one NaN; what does not count of a code, tf32's low bits and the sign of ue4m3, becomes 0."""
    codes = every(name) if name not in ("s64", "u64") else np.arange(0, 1 << 52, 1 << 40, dtype=np.uint64)
    fmt, values = FORMATS[name], to_float64(codes, name)
    numbers = ~np.isnan(values)
    again = from_float64(values[numbers], name)
    assert again.dtype == unsigned(name)
    ignored = 0x80 if name == "ue4m3" else (1 << fmt.dropped_bits) - 1
    assert (again == codes[numbers] & unsigned(name).type(~ignored & (1 << fmt.bits) - 1)).all()
    if not numbers.all():
        assert np.isnan(to_float64(from_float64([np.nan], name), name)).all()


def hard(name):
    """Values around every landmark, halfway between neighbours, and far out of range."""
    values = to_float64(every(name), name)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2 if name != "f64" else values[:-1]
    near = np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), values])
    with np.errstate(over="ignore"):
        top = values.max() * np.array([1.0, 1.03125, 1.0625, 1.5, 2, 1e6, 1e300])
    tiny = np.array([0.0, -0.0, 5e-324, 1e-300, 1e-60])
    return np.concatenate([near, top, tiny, -tiny, -top, [np.inf, -np.inf]])


@pytest.mark.parametrize("name", [name for name in OTHERS if FORMATS[name].is_float])
def test_rounding_is_that_of_others(name):
    """To nearest, ties to even; overflow and NaN as there. ml_dtypes goes through f32 from float64, so that it is asked
    for f32 numbers only.
    """
    values = hard(name)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if name not in ("f64", "f32", "f16"):
            values = values.astype(np.float32).astype(np.float64)
        wanted = values.astype(OTHERS[name]).view(unsigned(name))
        assert [(hex(x), v) for x, y, v in zip(from_float64(values, name).tolist(), wanted.tolist(), values, strict=True) if x != y] == []


def nearest(value, name):
    """The code of the nearest number of a format, in fractions; ties to even. Only what is in range."""
    return (
        exact.converted(Fraction(value), name, exact.FORMATS[name][2], nearest=True, minus=True)
        if name != "tf32"
        else tf32(Fraction(value))
    )


def tf32(value):
    if value == 0:
        return 0
    exponent = max(exact.log2(value), -126)
    steps = round(abs(value) / exact.TWO ** (exponent - 10))
    return (value < 0) << 31 | min((exponent + 126 << 10) + steps, 0xFF << 10) << 13


@pytest.mark.parametrize("name", ["tf32", "f32", "bf16", "f16"])
@examples(300)
@given(st.data())
def test_wide_numbers_are_rounded_once(name, data):
    """Also where a float32 between would round twice."""
    value = data.draw(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e-30, 1e-30), st.floats(-70000, 70000)))
    if data.draw(st.booleans()):  # just beside a tie
        code = nearest(value, name) & ~((1 << exact.FORMATS[name][4]) - 1)
        low, high = (float(to_float64([c], name)[0]) for c in (code, code + (1 << exact.FORMATS[name][4])))
        if np.isfinite(low + high):
            value = float(np.nextafter((low + high) / 2, data.draw(st.sampled_from([-np.inf, 0.0, np.inf]))))
    found = int(from_float64([value], name)[0])
    assert hex(found & ~(value == 0) << 31 if value == 0 else found) == hex(nearest(value, name))


@pytest.mark.parametrize("name", [name for name in FORMATS if not FORMATS[name].is_float])
def test_integers_are_rounded_to_even_and_clamped(name):
    low = -(1 << FORMATS[name].bits - 1) if FORMATS[name].signed else 0
    high = low + (1 << FORMATS[name].bits) - 1
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, np.inf, -np.inf, float(low), float(low) - 0.5]
    wanted = [min(max(round(v) if np.isfinite(v) else (1 if v > 0 else -1) * 10**40, low), high) for v in values]
    assert from_float64(values, name).tolist() == [w & (1 << FORMATS[name].bits) - 1 for w in wanted]
    with pytest.raises(InputError, match=f"{name} has no NaN"):
        from_float64([1.0, np.nan], name)


def test_ue4m3_is_e4m3_without_a_sign():
    codes = np.arange(256, dtype=np.uint8)
    assert same(to_float64(codes, "ue4m3"), to_float64(codes & 0x7F, "e4m3")).all()
    values = np.abs(hard("e4m3"))
    assert (from_float64(values, "ue4m3") == from_float64(values, "e4m3")).all()
    with pytest.raises(InputError, match="no negative"):
        from_float64([-1.0], "ue4m3")


@pytest.mark.parametrize("name", FORMATS)
def test_shapes_are_kept(name):
    for shape in ((), (0,), (3,), (2, 3), (2, 0, 4)):
        codes = np.zeros(shape, unsigned(name))
        values = to_float64(codes, name)
        assert (values.shape, values.dtype) == (shape, np.float64)
        assert (from_float64(np.ones(shape), name).shape, from_float64(np.ones(shape), name).dtype) == (shape, unsigned(name))
    turned = np.resize(every(name), (2, 3)).T
    assert same(to_float64(turned, name), to_float64(turned.copy(), name)).all()


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name].bits < 64])
def test_bits_that_a_type_does_not_have_are_refused(name):
    bits = FORMATS[name].bits
    for wrong in (1 << bits, (1 << bits) + 1):
        with pytest.raises(InputError, match=rf"{wrong:#x}: {name} has {bits} bits"):
            to_float64([0, wrong], name)
        with pytest.raises(InputError, match=rf"{wrong:#x}: {name} has {bits} bits"):
            element_value(wrong, name)
    for wrong in ([-1], [1.0], ["1"], [None], [True], [[1], [1, 0]]):
        with pytest.raises(InputError, match="bits"):
            to_float64(wrong, name)
    for wrong in (["1"], [None], [1j], [[1], [1, 0]]):
        with pytest.raises(InputError, match="values"):
            from_float64(wrong, name)
    for call in (to_float64, from_float64, element_value):
        with pytest.raises(InputError, match="dtype = 'f17'"):
            call(0, "f17")
