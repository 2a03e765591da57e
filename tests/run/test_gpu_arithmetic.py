"""Arithmetic instructions: as an H200 computes them, against exact fractions, and the laws that hold between them."""

import ctypes
import gzip
import hashlib
import itertools
import json
import math
import random
import re
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import instruction_forms as forms
from launches import launch, refused
from places import TESTS
from smemsim import Gpu, InputError
from smemsim.base.compiling import elementwise as ufunc
from smemsim.core.arithmetic import results, rounding
from smemsim.core.ptx import read_module
from smemsim.core.spec.approximate import APPROXIMATE
from smemsim.core.spec.float_types import FLOAT_TYPES
from smemsim.core.spec.operation_types import OPERATION_TYPES
from smemsim.run.isa.alu.floats import MODES, rounding_function
from smemsim.run.isa.threads.printing import formatted
from smemsim.run.lower import link
from strategies import examples

DATA = TESTS / "data"
MEASURED = json.loads((DATA / "h200_arithmetic.json").read_text())["forms"]
BY_TEXT = {form[0]: form for form in forms.EXACT}


def execute(some, arrays, *, arch="sm_90a", count=forms.COUNT):
    """Results of forms on three arrays of 64-bit words, (forms, words); 256 words at least."""
    gpu = Gpu(arch)
    out = gpu.array(np.zeros((len(some), forms.COUNT), np.uint64))
    held = [gpu.array(np.resize(np.asarray(x, np.uint64), forms.COUNT)) for x in arrays]
    gpu.launch(forms.kernel(some, arch=arch, version="9.0"), "forms", grid=forms.COUNT // 256, block=256, args=[out, *held])
    return out.numpy()[:, :count]


def one(text, to, operands, *arrays, arch="sm_90a"):
    """Results of one form on short arrays, cut to the result's width."""
    count = max(len(x) for x in arrays)
    padded = [*arrays, *([arrays[0]] * (3 - len(arrays)))]
    return forms.cut(execute([(text, to, operands, "")], padded, arch=arch, count=count)[0], to)


# ---- the card


@pytest.mark.parametrize("name", forms.CLASSES)
def test_results_are_those_of_an_h200(name):
    some = [BY_TEXT[text] for text in MEASURED if BY_TEXT[text][3] == name]
    assert some
    found = execute(some, forms.inputs(name))
    digests = [hashlib.sha256(forms.cut(words, form[1]).tobytes()).hexdigest()[:16] for words, form in zip(found, some, strict=True)]
    assert [form[0] for form, digest in zip(some, digests, strict=True) if digest != MEASURED[form[0]]] == []


def domain(row, text, x, y):
    """Where the bound of an approximate instruction holds."""
    if row.name.startswith(("sin", "cos")):
        return np.abs(x) <= 2 * np.pi
    return (np.abs(y) >= 2.0**-126) & (np.abs(y) <= 2.0**126) if row.name == "div.approx.f32" else np.ones(x.shape, bool)


@pytest.mark.parametrize("form", forms.APPROXIMATE, ids=lambda form: form[0])
def test_approximate_results_are_within_the_documented_bound_of_an_h200(form):
    text, to, _, kind = form
    arrays = forms.inputs(kind)
    card = np.load(DATA / "h200_approximate.npz")[text]
    mine = forms.cut(execute([form], arrays)[0], to)[::8].copy()
    lanes = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[kind]
    row = APPROXIMATE[f"{text.split('.')[0]}.{text.split('.')[1]}.{kind}"]
    with np.errstate(all="ignore"):
        x, y = (forms.cut(a[::8].copy(), to).view(lanes).astype(np.float64) for a in arrays[:2])
        a, b = card.view(lanes).astype(np.float64), mine.view(lanes).astype(np.float64)
        size = np.maximum(np.abs(a), np.abs(b))
        unit = np.exp2(np.floor(np.log2(np.maximum(size, FLOAT_TYPES[kind].smallest_normal))) - FLOAT_TYPES[kind].fraction_bits)
        # The card may be off by the bound to one side, the model by a rounding to the other.
        allowed = unit + (row.relative or 0) * size + (row.absolute or 0) + (row.ulps or 0) * unit
        inside = domain(row, text, x, y) & np.isfinite(a) & np.isfinite(b)
        close = np.abs(a - b) <= allowed
        # Next to the largest and the smallest number a unit can decide between finite and infinite.
        near_limits = domain(row, text, x, y) & ~((size < np.inf) & (size > float(ml_dtypes.finfo(lanes).max) / 2))
    assert inside.sum() > len(card) // 4
    assert close[inside].all()
    assert (np.isnan(a) == np.isnan(b)).all()
    assert (np.isinf(a) == np.isinf(b))[near_limits].all()


def test_a_program_names_its_approximate_instructions():
    text = forms.kernel([("ex2.approx.ftz.f32", "f32", ("f32",), ""), ("add.f32", "f32", ("f32", "f32"), "")])
    program = link(read_module(text), "forms", "sm_90a")
    assert program.approximate == {"ex2.approx.f32"}


# ---- one rounding, against fractions


def value(bits, own):
    """Of a finite code."""
    fraction = bits & (1 << own.fraction_bits) - 1
    field = bits >> own.fraction_bits & (1 << own.exponent_bits) - 1
    bias = (1 << own.exponent_bits - 1) - 1
    size = Fraction(fraction + (1 << own.fraction_bits if field else 0)) * Fraction(2) ** (max(field, 1) - bias - own.fraction_bits)
    return -size if bits >> own.exponent_bits + own.fraction_bits & 1 else size


def nearby(exact, own):
    """The codes of the two neighbours of a positive number, found by bisection: no formula of the package."""
    low, high = 0, own.largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle, own) <= exact else (low, middle)
    return low, high


def correctly_rounded(exact, own, mode):
    """The code of a number that is not zero; infinity is where the next number would be."""
    sign, size = exact < 0, abs(exact)
    low, high = nearby(size, own)
    if value(low, own) == size:
        code = low
    elif mode == "rn":
        middle = (value(low, own) + value(high, own)) / 2
        code = low if size < middle or (size == middle and low % 2 == 0) else high
    else:
        code = high if (mode == "rp" and not sign) or (mode == "rm" and sign) else low
    return code | (sign << own.exponent_bits + own.fraction_bits)


def finite_codes(name):
    own = FLOAT_TYPES[name]
    top = own.exponent_bits + own.fraction_bits
    edges = [x for x in forms.landmarks(own.bits, own.exponent_bits, own.fraction_bits).tolist() if x & (1 << top) - 1 <= own.largest]
    return st.one_of(st.sampled_from(edges), st.builds(lambda x, s: x | s << top, st.integers(0, own.largest), st.integers(0, 1)))


NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def number(code, name):
    """A code as the compiled functions take it."""
    if name == "bf16":
        return np.uint32(code << 16).view(np.float32)
    return np.dtype(f"u{FLOAT_TYPES[name].bits // 8}").type(code).view(NUMPY[name])


def compute(op, name, mode, codes):
    with np.errstate(all="ignore"):
        found = rounding_function(op, name, MODES[mode])(*[number(x, name) for x in codes])
    return int(found) & (1 << FLOAT_TYPES[name].bits) - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOAT_TYPES)
def test_sums_products_and_quotients_are_rounded_once(name, mode):
    own = FLOAT_TYPES[name]

    @examples(60)
    @given(*[finite_codes(name)] * 3)
    def check(a, b, c):
        x, y, z = (value(code, own) for code in (a, b, c))
        for op, codes, exact in (("add", (a, b), x + y), ("mul", (a, b), x * y), ("fma", (a, b, c), x * y + z)):
            if exact:
                assert compute(op, name, mode, codes) == correctly_rounded(exact, own, mode), (op, codes)
            else:
                assert compute(op, name, mode, codes) << 1 & (1 << own.bits) - 1 == 0
        if x and y:
            assert compute("div", name, mode, (a, b)) == correctly_rounded(x / y, own, mode)

    check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_a_square_root_is_enclosed_by_its_neighbours(name, mode):
    own = FLOAT_TYPES[name]

    @examples(60)
    @given(finite_codes(name).map(lambda x: x & (1 << own.bits - 1) - 1).filter(bool))
    def check(a):
        root, exact = compute("sqrt", name, mode, (a,)), value(a, own)
        below, here, above = (value(max(root + k, 0), own) ** 2 for k in (-1, 0, 1))
        if mode in ("rz", "rm"):
            assert here <= exact < above
        elif mode == "rp":
            assert below < exact <= here
        else:
            low, high = ((value(max(root + k, 0), own) + value(root, own)) / 2 for k in (-1, 1))
            assert low**2 <= exact <= high**2

    check()


@examples(200)
@given(finite_codes("f32"), finite_codes("f32"), finite_codes("f32"))
def test_the_short_fma_agrees_with_the_general_one(a, b, c):
    own = FLOAT_TYPES["f32"]
    limits = (own.exponent_bits, own.fraction_bits, own.largest, own.infinity, own.nan, rounding.NEAREST)
    general = rounding.fused(*[float(number(x, "f32")) for x in (a, b, c)], *limits)
    assert compute("fma", "f32", "rn", (a, b, c)) == general & 0xFFFFFFFF


@examples(100)
@given(st.integers(0, (1 << 64) - 1), st.sampled_from(["f16", "bf16", "f32", "f64"]), st.sampled_from(list(MODES)), st.booleans())
def test_integers_become_the_rounded_floats(number, name, mode, negative):
    own = FLOAT_TYPES[name]
    exact = Fraction(-number if negative else number)
    signed = number - (1 << 64) if number >> 63 else number
    f = ufunc(rounding.from_integer, "int64(int64,int64,int64,int64,int64,int64,int64)")
    found = f(signed, int(negative), own.exponent_bits, own.fraction_bits, own.largest, own.infinity, MODES[mode])
    assert int(found) & (1 << own.bits) - 1 == (correctly_rounded(exact, own, mode) if number else 0)


@examples(100)
@given(st.floats(allow_nan=False), st.integers(0, 3), st.sampled_from([8, 16, 32, 64]), st.booleans())
def test_floats_become_clamped_integers(x, mode, bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    whole = x if math.isinf(x) else (round, math.trunc, math.floor, math.ceil)[mode](x)
    want = low if whole < low else high if whole > high else int(whole)
    f = ufunc(results.to_integer, "int64(float64,int64,int64,int64,int64)")
    with np.errstate(all="ignore"):
        found = int(f(x, mode, bits, signed, 0))
    assert (found - want) % (1 << bits) == 0


DOUBLES = [
    *(np.uint64(bits).view(np.float64) for bits in (0x7FF8000000000001, 0x7FF0000000000002, 0xFFF0000000000003, 0xFFFC000000000004)),
    *map(np.float64, (0.0, -0.0, math.inf, -math.inf, 1.5, -2.25, 5e-324, -1.75e308)),
]
IN_A_MODE = {  # what takes a mode, and the same without
    "add": (results.double_added, results.double_sum),
    "mul": (results.double_multiplied, results.double_product),
    "div": (results.double_divided, results.double_quotient),
    "sqrt": (results.double_rooted, results.double_root),
}


@pytest.mark.parametrize("op", IN_A_MODE)
def test_doubles_rounded_to_nearest_are_those_of_the_plain_instruction(op):
    """Also NaNs, whose bits are those of an operand, made quiet; the mode does not matter for these, nor for infinities."""
    with_mode, plain = IN_A_MODE[op]
    with np.errstate(all="ignore"):
        for given in itertools.product(DOUBLES, repeat=1 if op == "sqrt" else 2):
            want = plain(*given) % (1 << 64)
            assert with_mode(*given, MODES["rn"]) % (1 << 64) == want, given
            if not all(map(math.isfinite, given)):
                assert {with_mode(*given, mode) % (1 << 64) for mode in MODES.values()} == {want}, given
            if any(map(math.isnan, given)):
                quiet = {int(x.view(np.uint64)) | 1 << 51 for x in given if math.isnan(x)}
                assert want in quiet


def test_a_fused_product_has_the_nan_of_its_second_factor_then_of_the_sum_then_of_the_first():
    first, second, third, number = DOUBLES[0], DOUBLES[1], DOUBLES[2], np.float64(3.0)
    quiet = {name: int(x.view(np.uint64)) | 1 << 51 for name, x in (("a", first), ("b", second), ("c", third))}
    with np.errstate(all="ignore"):
        for names in ("abc", "ab", "ac", "bc", "a", "b", "c"):
            given = [x if name in names else number for name, x in zip("abc", (first, second, third), strict=True)]
            wins = next(name for name in "bca" if name in names)
            assert {results.double_fused(*given, mode) % (1 << 64) for mode in MODES.values()} == {quiet[wins]}
        for (a, c), mode in itertools.product(itertools.product(DOUBLES[4:], repeat=2), MODES.values()):
            if math.isfinite(a) or a != -c:
                assert results.double_fused(a, np.float64(1.0), c, mode) % (1 << 64) == results.double_added(a, c, mode) % (1 << 64)
        for mode in MODES.values():  # no NaN among them: the one that the hardware makes
            assert results.double_fused(np.float64(math.inf), np.float64(0.0), number, mode) % (1 << 64) == 0xFFF8000000000000


def test_narrow_floats_are_those_of_ml_dtypes():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float32)
    pairs = finite.view(np.uint32).astype(np.uint64)[: finite.size // forms.COUNT * forms.COUNT].reshape(-1, forms.COUNT)
    for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        largest = float(ml_dtypes.finfo(dtype).max)
        for row in pairs[::8]:
            found = one(f"cvt.rn.satfinite.{name}x2.f32", "b16", ("f32", "f32"), row, row[::-1].copy())
            want = np.clip(row.astype(np.uint32).view(np.float32), -largest, largest).astype(dtype).view(np.uint8).astype(np.uint16)
            assert np.array_equal(found, want << 8 | want[::-1])


# ---- what only sm_100a has: documented, no card has been asked


def floats(*values):
    return np.array(values, np.float32).view(np.uint32).astype(np.uint64)


def test_pairs_of_f32_are_two_instructions():
    a, b, c = forms.inputs("f32")
    some = [(f"{op}.rn.f32x2", "b64", ("b64",) * n, "") for op, n in (("add", 2), ("mul", 2), ("fma", 3))]
    single = [(f"{op}.rn.f32", "f32", ("f32",) * n, "") for op, n in (("add", 2), ("mul", 2), ("fma", 3))]
    both = execute(some, (a, b, c), arch="sm_100a")
    low = execute(single, (a, b, c))
    high = execute(single, [x >> np.uint64(32) for x in (a, b, c)])
    assert np.array_equal(both, low | high << np.uint64(32))


def test_mixed_operands_are_widened_first():
    a, b, c = floats(1.5, -2.0), floats(0.25, 3.0), floats(1e-8, 7.0)
    for kind, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        x, y = (v.astype(np.uint32).view(np.float32).astype(dtype).view(np.uint16).astype(np.uint64) for v in (a, b))
        assert (
            one(f"fma.rn.f32.{kind}", "f32", ("b16", "b16", "f32"), x, y, c, arch="sm_100a").tolist() == floats(0.375 + 1e-8, 1.0).tolist()
        )
        assert one(f"sub.f32.{kind}", "f32", ("b16", "f32"), x, c, arch="sm_100a").tolist() == floats(1.5 - 1e-8, -9.0).tolist()


def test_three_operands_of_min_and_max():
    a, b, c = floats(1, np.nan, -0.0, np.nan), floats(-3, 2, 0.0, np.nan), floats(2, 1, 5.0, np.nan)
    assert one("min.f32", "f32", ("f32",) * 3, a, b, c, arch="sm_100a").tolist() == [0xC0400000, 0x3F800000, 0x80000000, 0x7FFFFFFF]
    assert one("max.NaN.f32", "f32", ("f32",) * 3, a, b, c, arch="sm_100a").tolist() == [0x40000000, 0x7FFFFFFF, 0x40A00000, 0x7FFFFFFF]
    assert one("max.abs.f32", "f32", ("f32",) * 3, a, b, c, arch="sm_100a").tolist()[0] == 0x40400000
    with pytest.raises(InputError, match=r"min\.f32: not supported on \.target sm_90a"):
        one("min.f32", "f32", ("f32",) * 3, a, b, c)


@pytest.mark.parametrize(
    ("name", "dtype", "bits"),
    [("e2m3", ml_dtypes.float6_e2m3fn, 8), ("e3m2", ml_dtypes.float6_e3m2fn, 8), ("e2m1", ml_dtypes.float4_e2m1fn, 4)],
)
def test_six_and_four_bits(name, dtype, bits):
    values = np.concatenate([np.linspace(-9, 9, 289), [100.0, -1e9, np.inf, 2.0**-9]]).astype(np.float32)
    largest = float(ml_dtypes.finfo(dtype).max)
    want = np.clip(values, -largest, largest).astype(dtype).view(np.uint8).astype(np.uint16)
    to = "b8" if bits == 4 else "b16"
    words = values.view(np.uint32).astype(np.uint64)
    found = one(f"cvt.rn.satfinite.{name}x2.f32", to, ("f32", "f32"), words, words[::-1].copy(), arch="sm_100a")
    assert np.array_equal(found, want << bits | want[::-1])
    back = one(f"cvt.rn.f16x2.{name}x2", "b32", (to,), found.astype(np.uint64), arch="sm_100a")
    halves = want.astype(np.uint8).view(dtype).astype(np.float16).view(np.uint16).astype(np.uint32)
    assert np.array_equal(back, halves << 16 | halves[::-1])
    assert one(f"cvt.rn.satfinite.{name}x2.f32", to, ("f32", "f32"), floats(np.nan), floats(0), arch="sm_100a")[0] >> bits == dtype(
        largest
    ).view(np.uint8)


def stochastically(form, to, words):
    """`cvt.rs` of rows of four f32 and a word of random bits, a row a thread."""
    loads = "".join(f"ld.global.b32 %r{n}, [%rd1+{4 * n}];" for n in range(5))
    kept = {"b16": "cvt.u32.u16 %r6, %h0;", "b32": ""}[to]
    target = {"b16": "%h0", "b32": "%r6"}[to]
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .b64 data, .param .b64 out) {{
.reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b16 %h<2>;
ld.param.b64 %rd1, [data]; ld.param.b64 %rd2, [out]; mov.u32 %r7, %tid.x; mul.wide.u32 %rd3, %r7, 20; add.u64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r7, 4; add.u64 %rd2, %rd2, %rd3; {loads}
cvt.rs.{form}.f32 {target}, {{%r0, %r1, %r2, %r3}}, %r4; {kept} st.global.b32 [%rd2], %r6; ret; }}
"""
    gpu = Gpu("sm_100a")
    data, out = gpu.array(words.astype(np.uint32)), gpu.array(np.zeros(len(words), np.uint32))
    gpu.launch(text, "k", block=len(words), args=[data, out])
    return out.numpy()


@pytest.mark.parametrize("relu", ["", "relu."])
@pytest.mark.parametrize(
    ("name", "dtype", "width"),
    [("e4m3", ml_dtypes.float8_e4m3fn, 8), ("e5m2", ml_dtypes.float8_e5m2, 8), ("e2m1", ml_dtypes.float4_e2m1fn, 4)],
)
def test_random_bits_are_added_below_what_is_kept(name, dtype, width, relu):
    """x becomes floor(|x| / ulp + r / 2^16) ulps, r being 16 bits of the word, as TIRx-harness 0.1.2.post2
    test_ptx_cvt_narrow.py has it of a B200.
    """
    rng, info = np.random.default_rng(width), ml_dtypes.finfo(dtype)
    values = np.ldexp(rng.uniform(-2, 2, (256, 4)), rng.integers(info.minexp - info.nmant - 4, info.maxexp + 2, (256, 4))).astype(
        np.float32
    )
    values[:4] = [[0, -0.0, np.inf, -np.inf], [1, -1, 0.5, -0.5], [float(info.max), -float(info.max), 1e-40, -1e30], [float(info.tiny)] * 4]
    random = rng.integers(0, 1 << 32, 256)
    to = "b16" if width == 4 else "b32"
    found = stochastically(f"{relu}satfinite.{name}x4", to, np.column_stack([values.view(np.uint32), random]))
    codes = (found[:, None] >> (width * np.arange(3, -1, -1))[None] & (1 << width) - 1).astype(np.uint8)
    byte = [random >> 8 * n & 0xFF for n in range(4)]
    high, low = (byte[3] << 8 | byte[2], byte[1] << 8 | byte[0]) if width == 8 else (byte[3] << 8 | byte[1], byte[2] << 8 | byte[0])
    turned = [np.array([int(f"{bits:016b}"[::-1], 2) for bits in part]) for part in (high, low)]
    bits = np.column_stack([turned[0], high, turned[1], low])
    with np.errstate(divide="ignore"):
        size = np.abs(np.where(np.isfinite(values), values, 1e30)).astype(np.float64)
        ulp = np.exp2(np.maximum(np.floor(np.log2(size)), info.minexp) - info.nmant)
    ulp[size == 0] = 1
    want = np.where(size < 2.0**-126, 0, np.minimum(np.floor(size / ulp + bits / 65536) * ulp, float(info.max)))
    is_negative = np.signbit(values)
    want = np.where(is_negative, 0.0 if relu else -want, want)
    assert np.array_equal(codes.view(dtype).astype(np.float64), want)
    assert (np.signbit(codes.view(dtype).astype(np.float32)) == (is_negative & (relu == ""))).all()
    nan = stochastically(f"{relu}satfinite.{name}x4", to, np.array([[0x7FC00000, 0xFFC00000, 0x7F800001, 0, 0xFFFFFFFF]]))
    only = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m1": 7}[name]
    assert nan[0] >> width == (only << 2 * width | only << width | only)


def test_scales_are_exponents():
    values = floats(1.0, 1.5, -3.0, 0.0, 2.0**-127, 2.0**-127 * 1.5, np.inf, np.nan, 3.4e38)
    low, high = [127, 127, 128, 0, 0, 0, 255, 255, 254], [127, 128, 129, 0, 0, 1, 255, 255, 255]
    for mode, want in (("rz", low), ("rp", high)):
        found = one(f"cvt.{mode}.ue8m0x2.f32", "b16", ("f32", "f32"), values, values[::-1].copy(), arch="sm_100a")
        assert (found >> 8).tolist() == want
        assert (found & 0xFF).tolist() == want[::-1]
        finite = one(f"cvt.{mode}.satfinite.ue8m0x2.f32", "b16", ("f32", "f32"), values, values, arch="sm_100a") & 0xFF
        assert finite.tolist() == [254 if x == 255 and n != 7 else x for n, x in enumerate(want)]
    back = one("cvt.rn.bf16x2.ue8m0x2", "b32", ("b16",), np.array([0x7F00, 0xFF80], np.uint64), arch="sm_100a")
    assert back.tolist() == [0x3F800040, 0x7FFF4000]


SMALL = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


def bf16_of(values, *, finite=False, relu=False):
    """Codes of numbers in bf16, by ml_dtypes, NaN as 0x7FFF."""
    with np.errstate(all="ignore"):
        numbers = np.asarray(values, np.float64)
        if relu:
            numbers = np.where(numbers <= 0, 0.0, numbers)
        if finite:
            numbers = np.clip(numbers, -float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), float(ml_dtypes.finfo(ml_dtypes.bfloat16).max))
        codes = numbers.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(numbers), 0x7FFF, codes)


@pytest.mark.parametrize("modifiers", ["", ".relu", ".satfinite", ".satfinite.relu", ".scaled::n2::ue8m0", ".satfinite.scaled::n2::ue8m0"])
@pytest.mark.parametrize("name", [*SMALL, "s2f6"])
def test_pairs_of_small_numbers_become_pairs_of_bf16(name, modifiers):
    bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(name, 8)
    codes = np.resize(np.arange(1 << bits), 256).astype(np.uint8)
    scales = np.resize(np.array([127, 133, 0, 1, 120, 254, 255, 250]), 256).astype(np.uint8)
    with np.errstate(all="ignore"):
        numbers = codes.view(np.int8) / 64.0 if name == "s2f6" else codes.view(SMALL[name]).astype(np.float64)
        factors = np.where(scales == 255, np.nan, np.exp2(scales.astype(np.float64) - 127)) if "scaled" in modifiers else np.ones(256)
        want = bf16_of(numbers * factors, finite="satfinite" in modifiers, relu="relu" in modifiers)
    width, kind = (4, "b8") if bits == 4 else (8, "b16")
    words = (codes[::-1].astype(np.uint64) << np.uint64(width)) | codes
    pairs = (scales[::-1].astype(np.uint64) << np.uint64(8)) | scales
    operands = (kind, "b16")[: 1 + ("scaled" in modifiers)]
    found = one(f"cvt.rn{modifiers}.bf16x2.{name}x2", "b32", operands, words, pairs, arch="sm_100a")
    assert np.array_equal(found, want[::-1] << 16 | want)


@pytest.mark.parametrize(("name", "dtype"), SMALL.items())
def test_pairs_of_halves_become_pairs_of_small_numbers(name, dtype):
    values = np.concatenate([np.linspace(-9, 9, 289), [100.0, -1e9, np.inf, 2.0**-9, 0.0, 448.0]])
    largest, width = float(ml_dtypes.finfo(dtype).max), 4 if name == "e2m1" else 8
    for kind, half in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        with np.errstate(all="ignore"):
            halves = values.astype(half)
            want = np.clip(halves.astype(np.float64), -largest, largest).astype(dtype).view(np.uint8).astype(np.uint32)
        codes = halves.view(np.uint16).astype(np.uint64)
        found = one(
            f"cvt.rn.satfinite.{name}x2.{kind}x2",
            "b8" if width == 4 else "b16",
            ("b32",),
            codes << np.uint64(16) | codes[::-1],
            arch="sm_100a",
        )
        assert np.array_equal(found, want << width | want[::-1])


# ---- laws


words64 = st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=20).map(lambda x: np.array(x, np.uint64))


def wide_kernel():
    return """.version 9.0
.target sm_90a
.address_size 64
.visible .entry wide(.param .u64 po, .param .u64 pa) {
  .reg .b64 %q<20>; .reg .b32 %r<4>; .reg .b128 %o<2>;
  ld.param.u64 %q0, [po]; ld.param.u64 %q1, [pa]; mov.u32 %r0, %tid.x; mul.wide.u32 %q2, %r0, 32;
  add.u64 %q1, %q1, %q2; add.u64 %q0, %q0, %q2; ld.global.v2.u64 {%q3, %q4}, [%q1]; ld.global.v2.u64 {%q5, %q6}, [%q1+16];
  mov.b128 %o0, {%q3, %q4}; mov.b128 {%q10, %q11}, %o0;
  add.cc.u64 %q7, %q10, %q5; addc.u64 %q8, %q11, %q6;
  mul.lo.u64 %q12, %q3, %q5; mul.hi.u64 %q13, %q3, %q5; mad.lo.u64 %q13, %q3, %q6, %q13; mad.lo.u64 %q13, %q4, %q5, %q13;
  st.global.v2.u64 [%q0], {%q7, %q8}; st.global.v2.u64 [%q0+16], {%q12, %q13};
  ret;
}
"""


@examples(10)
@given(words64)
def test_chains_of_carries_compute_128_bits(words):
    operands = np.resize(words, 32 * 4).reshape(32, 4)
    operands[: len(words) // 4] = words[: len(words) // 4 * 4].reshape(-1, 4)
    gpu = Gpu("sm_90a")
    out, a = gpu.array(np.zeros((32, 4), np.uint64)), gpu.array(operands)
    gpu.launch(wide_kernel(), "wide", block=32, args=[out, a])
    for given_, found in zip(operands.tolist(), out.numpy().tolist(), strict=True):
        x, y = given_[0] | given_[1] << 64, given_[2] | given_[3] << 64
        assert found[0] | found[1] << 64 == (x + y) % (1 << 128)
        assert found[2] | found[3] << 64 == x * y % (1 << 128)


def test_permutations_known_beforehand_are_those_of_registers():
    a, b, c = forms.inputs("i32")
    selectors = (0x5410, 0x7632, 0x3340, 0x0000, 0x7531, 0x0123, 0x89AB, 0x4567)
    fixed = execute([(f"prmt.b32 $0,$1,$2,{s:#x}", "b32", ("b32",) * 2, "") for s in selectors], (a, b, c))
    for words, selector in zip(fixed, selectors, strict=True):
        loose = execute([("prmt.b32", "b32", ("b32",) * 3, "")], (a, b, np.full_like(a, selector)))
        assert np.array_equal(words, loose[0]), hex(selector)


def test_every_function_of_three_bits():
    a, b, c = forms.inputs("i32")
    found = execute([(f"lop3.b32 $0,$1,$2,$3,{table}", "b32", ("b32",) * 3, "") for table in range(256)], (a, b, c))
    for table, words in enumerate(found):
        want = np.zeros_like(a)
        for bit in range(32):
            index = (
                (a >> np.uint64(bit) & np.uint64(1)) * 4 + (b >> np.uint64(bit) & np.uint64(1)) * 2 + (c >> np.uint64(bit) & np.uint64(1))
            )
            want |= (np.uint64(table) >> index & np.uint64(1)) << np.uint64(bit)
        assert np.array_equal(words, want)


@pytest.mark.parametrize("combine", ["or", "and"])
def test_a_function_of_three_words_tells_whether_it_is_zero(combine):
    """With a result, and with none."""
    words = np.array([0, 1, 0xFFFFFFFF, 0x80000000, 0x0F0F0F0F, 0, 3, 0], np.uint32)
    for table, q in itertools.product((0x80, 0xC0, 0x00, 0x96), (0, 1)):
        body = f"""mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; ld.global.u32 %r3, [%d1]; setp.eq.u32 %p1, 1, {q}; mov.u32 %r4, 0x80000005; mov.u32 %r5, 0x0f;
        lop3.{combine}.b32 %r6|%p2, %r3, %r4, %r5, {table}, %p1; lop3.{combine}.b32 _|%p3, %r3, %r4, %r5, {table}, %p1; selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 2, 0, %p3;
        add.u32 %r7, %r7, %r8; st.global.u32 [%d1], %r6; st.global.u32 [%d1+32], %r7;"""
        (out,) = launch(body, np.concatenate([words, np.zeros(8, np.uint32)]), block=8)
        a, b, c = words, np.uint32(0x80000005), np.uint32(0x0F)
        wanted = {0x80: a & b & c, 0xC0: a & b, 0x00: a & 0, 0x96: a ^ b ^ c}[table]
        assert (out[:8] == wanted).all()
        assert (out[8:] == 3 * ((wanted != 0) | bool(q) if combine == "or" else (wanted != 0) & bool(q))).all()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_chains_with_carries_are_whole_numbers(monkeypatch, tiers, bits):
    """a b + c + (d << bits), a + b + carry, and a - b - borrow: with a carry, without one, and where one goes through all ones."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    top = (1 << bits) - 1
    corners = np.array(list(itertools.product((0, 1, top, top >> 1, 1 << bits - 1), repeat=4)), f"u{bits // 8}")
    r, size, n = "%r" if bits == 32 else "%d", bits // 8, len(corners)
    k, offset = f"u{bits}", lambda row: n * row * (bits // 8)
    body = f"""mul.wide.u32 %d1, %r1, {size}; add.u64 %d1, %d20, %d1;
    {" ".join(f"ld.global.{k} {r}1{m}, [%d1+{offset(m)}];" for m in range(4))}
    mad.lo.cc.{k} {r}30, {r}10, {r}11, {r}12; madc.hi.cc.{k} {r}31, {r}10, {r}11, {r}13; addc.{k} {r}32, 0, 0;
    add.cc.{k} {r}33, {r}10, {r}12; addc.cc.{k} {r}34, {r}11, {r}13; addc.{k} {r}35, 0, 0;
    sub.cc.{k} {r}36, {r}10, {r}12; subc.cc.{k} {r}37, {r}11, {r}13; subc.{k} {r}38, 0, 0;
    {" ".join(f"st.global.{k} [%d1+{offset(4 + m)}], {r}{30 + m};" for m in range(9))}"""
    (out,) = launch(body, np.concatenate([corners.T.ravel(), np.zeros(9 * n, corners.dtype)]), block=n)
    found = out.reshape(13, n)[4:].astype(object)
    for column, (a, b, c, d) in zip(found.T, corners.astype(object), strict=True):
        low, high, carry, *sums = column
        assert low + (high << bits) + (carry << 2 * bits) == a * b + c + (d << bits)
        assert sums[0] + (sums[1] << bits) + (sums[2] << 2 * bits) == a + c + (b + d << bits)
        assert sums[3] + (sums[4] << bits) + (sums[5] << 2 * bits) == (a - c + (b - d << bits)) % (1 << 3 * bits)


# ---- forms that are not known, and the system's functions


@pytest.mark.parametrize(
    ("text", "operands", "why"),
    [
        ("add.rz.f16", ("b16", "b16"), r"\.rz of \.f16"),
        ("cvt.s32.f32", ("f32",), "it needs .rni"),
        ("add.sat.u32", ("u32", "u32"), r"\.sat is for \.s32"),
        ("mul.u32", ("u32", "u32"), r"it needs \.lo"),
        ("rcp.approx.f64", ("f64",), "it needs .ftz"),
    ],
)
def test_forms_that_do_not_exist_are_named_with_their_line(text, operands, why):
    to = {"add.rz.f16": "b16", "rcp.approx.f64": "f64"}.get(text, "b32")
    with pytest.raises(InputError, match=rf"line \d+: {text} .*: .*{why}.*ptxas refuses it"):
        one(text, to, operands, *[np.zeros(1, np.uint64)] * len(operands))


def test_scales_of_a_pair_of_bf16_are_those_of_its_halves():
    """Also of two f32, of which the first one is the upper half."""
    words = forms.inputs("bf16")[0][:256].astype(np.uint32)
    body = """mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; ld.global.u32 %r3, [%d1]; shl.b32 %r4, %r3, 16; and.b32 %r5, %r3, 0xffff0000;
    mov.b32 %f1, %r4; mov.b32 %f2, %r5; cvt.MODE.satfinite.ue8m0x2.f32 %h1, %f2, %f1; cvt.MODE.satfinite.ue8m0x2.bf16x2 %h2, %r3; mov.b32 %r6, {%h1, %h2}; st.global.u32 [%d1], %r6;"""
    for mode in ("rz", "rp"):
        (out,) = launch(body.replace("MODE", mode), words, block=256, arch="sm_100a")
        assert (out >> 16 == out & 0xFFFF).all()
        assert len(set(out.tolist())) > 100


LETTER = {"pred": "p", **{f"{k}{bits}": letter for k in "bus" for bits, letter in ((8, "c"), (16, "h"), (32, "r"), (64, "d"))}} | {
    "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r", "u16x2": "r", "s16x2": "r", "f32": "r", "f64": "d", "f32x2": "d",
}  # fmt: skip
OPERANDS = {
    "add": 2,
    "sub": 2,
    "rem": 2,
    "and": 2,
    "min": 2,
    "abs": 1,
    "not": 1,
    "cnot": 1,
    "popc": 1,
    "bfind": 1,
    "mul.lo": 2,
    "mad.lo": 3,
    "sad": 3,
}


@pytest.mark.parametrize("op", OPERANDS)
def test_an_operation_has_the_types_that_ptxas_takes_and_no_others(op):
    name = op.split(".")[0]
    lines = {}
    for kind, letter in LETTER.items():
        to = "r" if name in ("popc", "bfind") else letter
        if not (op in ("mul.lo", "mad.lo") and "f" in kind):
            lines[kind] = f"{op}.{kind} {', '.join(f'%{to if n == 0 else letter}{n}' for n in range(OPERANDS[op] + 1))};"
    wrong = {list(lines)[n] for n in refused(list(lines.values()))}
    assert wrong == set(lines) - set(OPERATION_TYPES[name])


# Each of them is refused by ptxas 13.0.88 for sm_100a.
NONE_OF_THESE = """
fma.f32 %r0,%r1,%r2,%r3; mad.f64 %d0,%d1,%d2,%d3; div.f32 %r0,%r1,%r2; sqrt.f64 %d0,%d1; add.sat.f32x2 %d0,%d1,%d2; fma.rn.sat.relu.f16 %h0,%h1,%h2,%h3;
fma.rn.oob.ftz.f16 %h0,%h1,%h2,%h3; abs.ftz.bf16 %h0,%h1; min.ftz.bf16 %h0,%h1,%h2; ex2.approx.ftz.f16 %h0,%h1; add.cc.u16 %h0,%h1,%h2;
addc.u16x2 %r0,%r1,%r2; mov.b32 %r0,{}; mov.b64 {%r0,%r1,%r2},%d0; mad.wide.cc.u32 %d0,%r1,%r2,%d3; madc.wide.u32 %d0,%r1,%r2,%d3; mul.wide.u64 %d0,%d1,%d2; mul24.lo.sat.s32 %r0,%r1,%r2;
vadd2.u32.u32.u32.sat.add %r0,%r1,%r2,%r3; set.lt.f64.f32 %d0,%r1,%r2; set.lt.ftz.bf16.f16 %h0,%h1,%h2; slct.f16.s32 %h0,%h1,%h2,%r3;
cvt.sat.u32.u16 %r0,%h1; cvt.rni.sat.s32.bf16 %r0,%h1; cvt.rzi.ftz.s32.f64 %r0,%d1; cvt.rn.ftz.f16.f64 %h0,%d1; cvt.rn.bf16.bf16 %h0,%h1;
cvt.rp.relu.f16.f32 %h0,%r1; cvt.rn.sat.bf16.f32 %h0,%r1; cvt.rz.f16x2.e4m3x2 %r0,%h1; cvt.rn.satfinite.f16x2.e5m2x2 %r0,%h1; cvt.rn.relu.bf16x2.ue8m0x2 %r0,%h1;
lop3.b32 %r0,%r1,%r2,%r3,%r4; lop3.and.b32 %p0,%r1,%r2,%r3,5,%p1; shf.l.b32 %r0,%r1,%r2,%r3; shf.clamp.b32 %r0,%r1,%r2,%r3; bmsk.b32 %r0,%r1,%r2; szext.u32 %r0,%r1,%r2;
shl.f32 %f0,%f1,%r2; shl.pred %p0,%p1,%r2; shf.l.clamp.b64 %d0,%d1,%d2,%r3; abs.u32 %r0,%r1; neg.u64 %d0,%d1; lop3.b64 %d0,%d1,%d2,%d3,5; add.u32 5,%r1,%r2; add.u32 %r0,[%r1],%r2;
setp.lt.ftz.f64 %p0,%g1,%g2; setp.lt.ftz.bf16 %p0,%h1,%h2; set.lt.f16x2.f32 %r0,%f1,%f2; set.lt.bf16x2.f16x2 %r0,%r1,%r2; slct.s32.f64 %r0,%r1,%r2,%g3; slct.ftz.s32.s32 %r0,%r1,%r2,%r3;
testp.finite.f16 %p0,%h1; copysign.f16 %h0,%h1,%h2; cvt.rn.e4m3x2.f32 %h0,%f1,%f2; cvt.rn.satfinite.e4m3x2.f64 %h0,%g1; cvt.rs.e4m3x4.f32 %r0,{%f1,%f2,%f3,%f4},%r5;
cvt.rs.satfinite.e4m3x4.f32 %r0,{%f1,%f2,%f3},%r5; cvt.rs.satfinite.e4m3x4.f32 %r0,%f1,%r5; cvt.f16x2.e4m3x2 %r0,%h1; cvt.rn.f16x2.f16 %r0,%h1; cvt.rn.f16x2.ue8m0x2 %r0,%h1;
cvt.rn.bf16x2.f16 %r0,%h1; cvt.rn.bf16x2.u32 %r0,%r1; cvt.rn.bf16x2.f64 %r0,%g1; cvt.rn.bf16x2.bf16 %r0,%h1; cvt.rp.satfinite.ue8m0x2.f16x2 %h0,%r1; cvt.satfinite.ue8m0x2.f32 %h0,%f1,%f2;
cvt.u32.pred %r0,%p1; cvt.b32.u32 %r0,%r1; cvt.f32.u32 %f0,%r1; cvt.rna.f32.u32 %f0,%r1; cvt.pack.u16.s32 %r0,%r1,%r2; cvt.pack.sat.s32 %r0,%r1,%r2; cvt.pack.sat.u16.u32 %r0,%r1,%r2;
cvt.pack.sat.u16.s32 %h0,%r1,%r2; add.sat.f64 %g0,%g1,%g2; add.rn.ftz.f64 %g0,%g1,%g2; add.ftz.bf16 %h0,%h1,%h2; fma.rn.relu.f32 %f0,%f1,%f2,%f3; fma.rn.oob.f32 %f0,%f1,%f2,%f3;
min.xorsign.f32 %f0,%f1,%f2; min.abs.f32 %f0,%f1,%f2; min.xorsign.abs.f32 %f0,%f1,%f2,%f3; min.ftz.f64 %g0,%g1,%g2; mad.hi.sat.u32 %r0,%r1,%r2,%r3; mad.lo.sat.s32 %r0,%r1,%r2,%r3;
mul24.s32 %r0,%r1,%r2; min.relu.u32 %r0,%r1,%r2; min.relu.s16 %h0,%h1,%h2; dp2a.u32.u32 %r0,%r1,%r2,%r3; dp4a.lo.u32.u32 %r0,%r1,%r2,%r3; dp4a.u64.u32 %r0,%r1,%r2,%r3;
tanh.approx.ftz.f32 %f0,%f1; sin.f32 %f0,%f1; sin.approx.f64 %g0,%g1; div.approx.f64 %g0,%g1,%g2; rsqrt.approx.f16 %h0,%h1; bfe.u16 %h0,%h1,%r2,%r3; mov.b64 {%h0,%h1,%h2},%d1;
"""
# ptxas 13.0.88 takes them; the PTX ISA does not say what they do.
UNEXPLAINED = ["setp.lt.f16x2 %p0,%r1,%r2;", "testp.f32 %p0,%f1;"]


@pytest.mark.parametrize("line", UNEXPLAINED)
def test_nothing_false_is_said_of_forms_that_ptxas_takes(line):
    assert "not modelled" in refused([line])[0]


def test_modifiers_that_ptxas_refuses_are_refused():
    lines = [text.strip() + ";" for text in NONE_OF_THESE.split(";") if text.strip()]
    assert sorted(set(range(len(lines))) - set(refused(lines))) == []


VIDEO = {
    "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b), "vmin": min, "vmax": max,
    "vset.lt": lambda a, b: int(a < b), "vset.ne": lambda a, b: int(a != b),
}  # fmt: skip
JOINED = {"": lambda value, c: value, ".add": lambda value, c: value + c, ".min": min, ".max": max}


def differs_on_the_card(to, sat, d, compare, a_kind, joined):
    """Is it one of the forms that gave other results on an H200 than the PTX ISA says?"""
    return d == ".h1" or (sat and (d or to == "u32")) or (compare and a_kind == "s32" and joined in (".min", ".max"))


@pytest.mark.parametrize("to", ["u32", "s32"])
@pytest.mark.parametrize("op", VIDEO)
def test_scalar_video_instructions_are_exact_then_clamped_or_cut(op, to):
    """Against whole numbers of Python, with every pair of types; c has the type of the result."""
    name, _, compare = op.partition(".")
    if compare and to == "s32":
        to = "u32"
    arrays = [words[:256] for words in forms.inputs("i32")]

    def number(word, kind):
        return int(np.uint32(word & 0xFFFFFFFF).view(np.int32) if kind == "s32" else word & 0xFFFFFFFF)

    low, high = (-(1 << 31), (1 << 31) - 1) if to == "s32" else (0, (1 << 32) - 1)
    some, wanted = [], []
    for a_kind, b_kind, joined, is_saturated in itertools.product(("u32", "s32"), ("u32", "s32"), JOINED, (False, True)):
        if (compare and is_saturated) or (joined in (".min", ".max") and not (is_saturated or compare)):
            continue
        if differs_on_the_card(to, is_saturated, "", compare, a_kind, joined):
            continue
        types = f"{a_kind}.{b_kind}.{compare}" if compare else f"{to}.{a_kind}.{b_kind}"
        operands = (a_kind, b_kind, to)[: 3 if joined else 2]
        some.append((f"{name}.{types}{'.sat' * is_saturated}{joined}", to, operands, ""))
        exact = [VIDEO[op](number(int(a), a_kind), number(int(b), b_kind)) for a, b in zip(*arrays[:2], strict=True)]
        clamped = [min(max(value, low), high) if is_saturated else value for value in exact]
        wanted.append([JOINED[joined](value, number(int(c), to)) & 0xFFFFFFFF for value, c in zip(clamped, arrays[2], strict=True)])
    assert execute(some, arrays, count=256).tolist() == wanted


def test_scalar_video_instructions_are_refused_where_nobody_knows():
    lines = [
        "vadd.u32.u32.u32.min %r0,%r1,%r2,%r3;",
        "vset.u32.u32 %r0,%r1,%r2;",
        "vadd.u32.u32.u32 %r0,%r1,%r2,%r3;",
        "vshl.u32.u32.u32.wrap %r0,%r1,%r2;",
    ]
    assert sorted(refused(lines)) == [0, 1, 2, 3]


# Every triple of these: their bytes and halves have the smallest and the largest numbers of both kinds.
CORNERS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F807F80, 0x807F807F, 0x80007FFF, 0x7FFF8000, 0x01FF00FE]
PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
VIDEO_ARRAYS = {
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vset.ge": np.greater_equal,
    "vset.eq": np.equal,
}
BOTH = ("u32", "s32")


def view_of(words, kind, part):
    """The part of each word, as numpy sees it."""
    size = {"": 4, ".h": 2, ".b": 1}[part[:2]]
    return words.view(f"{'i' if kind == 's32' else 'u'}{size}").reshape(len(words), -1)[:, int(part[2:] or 0)]


def video_forms(op):
    """(types, saturated, joined, parts of d, a and b): all parts of the sources, and every use of c with every part of
    each of them.

    Three types that follow one another share them out: a third of all pairs each.
    """
    turn = 0
    name, _, compare = op.partition(".")
    for to, a_kind, b_kind in itertools.product(BOTH[: 1 if compare else 2], BOTH, BOTH):
        for sat in ("",) if compare else ("", ".sat"):
            types = f"{name}.{a_kind}.{b_kind}.{compare}" if compare else f"{name}.{to}.{a_kind}.{b_kind}{sat}"
            turn += 1
            for a, b in list(itertools.product(PARTS, PARTS))[turn % 3 :: 3]:
                yield types, (to, a_kind, b_kind), sat, "", "", a, b
            for use, n in list(itertools.product((".add", ".min", ".max", *PARTS[1:]), range(len(PARTS))))[turn % 3 :: 3]:
                joined, d = (use, "") if use not in PARTS else ("", use)
                yield types, (to, a_kind, b_kind), sat, joined, d, PARTS[n], PARTS[3 * n % 7]


@pytest.mark.parametrize("op", ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset.ge", "vset.eq"])
def test_scalar_video_instructions_take_and_give_bytes_and_halves(op):
    """As the pseudocode of PTX ISA 9.1 §9.7.18.1 says it, on corner values; what the types do not hold is not compared
    without `.sat`.
    """
    compute = VIDEO_ARRAYS.get(op, VIDEO.get(op))
    words = [x.ravel().copy() for x in np.meshgrid(*[np.array(CORNERS, np.uint32)] * 3)]
    lines, wanted, unknown = [], [], []
    for types, (to, a_kind, b_kind), sat, joined, d, a, b in video_forms(op):
        values = [view_of(w, kind, part).astype(np.int64) for w, kind, part in zip(words, (to, a_kind, b_kind), ("", a, b), strict=True)]
        c, exact = values[0], np.asarray(compute(values[1], values[2]), np.int64)
        limits = np.iinfo(view_of(words[0], to, d).dtype)
        clamped = np.clip(exact, limits.min, limits.max)
        line = f"{types}{joined} %r2{d}, %r10{a}, %r11{b}{', %r12' if joined or d else ''};"
        not_held = joined in (".min", ".max") and not sat and (clamped != exact).any()
        if not_held or differs_on_the_card(to, sat, d, op.startswith("vset"), a_kind, joined):
            unknown.append(line)
            continue
        result = {"": lambda t, c: t, ".add": np.add, ".min": np.minimum, ".max": np.maximum}[joined](clamped if sat else exact, c)
        whole = words[0].copy()
        view_of(whole, "u32", d)[:] = result & np.iinfo(f"u{limits.bits // 8}").max
        lines.append(line)
        wanted.append(whole)
    count = len(words[0])
    loads = "".join(f"add.u64 %d{20 + n}, %d{20 + n}, %d1; ld.global.u32 %r{r}, [%d{20 + n}];\n" for n, r in enumerate((12, 10, 11)))
    stores = "\n".join(f"{line} st.global.u32 [%d23], %r2; add.u64 %d23, %d23, {4 * count};" for line in lines)
    body = f"mul.wide.u32 %d1, %r1, 4; add.u64 %d23, %d23, %d1;\n{loads}{stores}"
    found = launch(body, *words, np.zeros((len(lines), count), np.uint32), block=count)[3]
    assert [line for line, mine, other in zip(lines, found, wanted, strict=True) if not np.array_equal(mine, other)] == []
    assert sorted(refused(unknown)) == list(range(len(unknown)))


# Each of them is refused by ptxas 13.0.88 for sm_90a.
NO_VIDEO = {
    "vadd.s32.s32.s32 %r0.b2, %r1, %r2;": "a part of the result is merged into a third source",
    "vadd.s32.s32.s32.add %r0.b2, %r1, %r2, %r3;": "a third source, which .add would join",
    "vset.s32.u32.lt.min %r0.h0, %r1, %r2, %r3;": "a third source, which .min would join",
    "vadd.s32.s32.s32 %r0.h0, %r1, %r2, %r3.b0;": "a third source has no selector",
    "vadd.s32.s32.s32.max %r0, %r1, %r2, %r3.h1;": "a third source has no selector",
    "vadd.s32.s32.s32 %r0, %f1.b0, %r2;": "operand 1 needs a register of 32 bits for integers, or a whole number",
    "vadd.s32.s32.s32 %r0, %r1, %d2.b0;": "operand 2 needs a register of 32 bits",
    "vadd.s32.s32.s32 %h0.b0, %r1, %r2, %r3;": "operand 0 needs a register of 32 bits for integers$",
    "vadd.s32.s32.s32 _, %r1, %r2;": "operand 0 needs a register of 32 bits for integers$",
    "vadd.s32.s32.s32 %r0, %tid.x, %r2;": "operand 1 needs a register of 32 bits",
    "vadd.s32.s32.s32 %r0, 1.5, %r2;": "operand 1 needs a register of 32 bits",
    "vadd.s32.s32.s32.sat.add.min %r0, %r1, %r2, %r3;": ".min",
    "vset.s32.u32.lt.sat %r0, %r1, %r2;": "vset",
}


@pytest.mark.parametrize("line", NO_VIDEO)
def test_parts_of_registers_stand_where_ptxas_takes_them(line):
    assert re.search(NO_VIDEO[line], refused([line])[0])


def test_scalar_video_instructions_take_numbers_and_selectors_that_stand_apart():
    lines = [
        "vadd.s32.u32.s32 %r0 .b1, %r1 .b0, %r2 .h1, %r3;",
        "vadd.s32.u32.s32 %r0.b1, -5, 7, 9;",
        "@%p1 vset.u32.u32.ne %r0, %r1, %r1.h1;",
        "{ .reg .u32 x; vmax.u32.u32.u32 x.b0, x.b1, x.h0, x; }",
    ]
    assert refused(lines) == {}


def test_pairs_of_f32_are_not_for_hopper():
    lines = [f"{op}.rn.f32x2 %d0,%d1,%d2{',%d3' * (op == 'fma')};" for op in ("add", "sub", "mul", "fma")]
    assert refused(lines) == {}
    assert all("sm_90a: it needs sm_100 or higher" in refused(lines, arch="sm_90a")[n] for n in range(4))


POLICIES = {  # as an H200 makes them
    "fractional.L2::evict_last.b64 %d1": 0x14F0 << 48, "fractional.L2::evict_last.b64 %d1, 0.3": 0x1440 << 48, "fractional.L2::evict_first.b64 %d1, 0.5": 0x1270 << 48,
    "fractional.L2::evict_normal.b64 %d1, 0.25": 0x1630 << 48, "fractional.L2::evict_unchanged.b64 %d1, 0.94": 0x10F0 << 48, "cvt.L2.b64 %d1, %d20": None,
    "fractional.L2::evict_last.L2::evict_first.b64 %d1, 0.5": 0x1570 << 48, "fractional.L2::evict_last.L2::evict_unchanged.b64 %d1, 0.01": 0x1400 << 48,
    "fractional.L2::evict_first.b64 %d1, %f1": 0x1240 << 48,
}  # fmt: skip


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_what_a_kernel_reads_of_the_system_is_that_of_an_h200(monkeypatch, tiers):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    for form, wanted in POLICIES.items():
        body = f"mov.f32 %f1, 0f3E99999A; createpolicy.{form}; st.global.u64 [%d20], %d1; st.global.u64 [%d20+8], %d20;"
        (words,) = launch(body, np.zeros(2, np.uint64), block=1)
        assert words[0] == (words[1] if wanted is None else wanted), form
    for block in (1, 32, 100, 1024):
        (out,) = launch("mov.u32 %r2, %nwarpid; st.global.u32 [%d20], %r2;", np.zeros(1, np.uint32), block=block)
        assert out[0] == 64


def test_rsqrt_of_a_nan_keeps_its_payload():
    words = np.array([0x7FF4000012345678, 0xFFF8000000000001, 0x7FF8000000000000, 0xBFF0000000000000], np.uint64)
    body = "mad.wide.u32 %d1, %r1, 8, %d20; ld.global.f64 %g1, [%d1]; rsqrt.approx.f64 %g0, %g1; st.global.f64 [%d1], %g0;"
    (out,) = launch(body, words, block=4)
    assert [hex(word) for word in out[:3].tolist()] == ["0x7ffc000012345678", "0xfff8000000000001", "0x7ff8000000000000"]
    assert np.isnan(out.view(np.float64)[3])


def test_positions_and_lengths_of_fields_that_are_numbers_have_eight_bits():
    good = ["bfe.u32 %r1,%r2,255,255;", "bfi.b64 %d1,%d2,%d3,0,255;", "bfe.s32 %r1,256,%r2,3;"]
    bad = [
        "bfe.u32 %r1,%r2,256,3;",
        "bfe.u64 %d1,%d2,3,256;",
        "bfe.s32 %r1,%r2,-1,3;",
        "bfi.b32 %r1,%r2,%r3,256,3;",
        "bfi.b32 %r1,%r2,%r3,3,-1;",
    ]
    assert refused(good) == {}
    assert [line for line in bad if not refused([line])] == []


def test_selectors_of_simd_video_instructions_fit_the_operand():
    bad = ["vadd2.u32.u32.u32 %r3.h32,%r1,%r2,%r1;", "vadd2.u32.u32.u32 %r3,%r1.h0,%r2,%r1;", "vadd2.u32.u32.u32 %r3,%r1.b3210,%r2,%r1;",
           "vadd4.u32.u32.u32 %r3.b123,%r1,%r2,%r1;", "vadd4.u32.u32.u32 %r3,%r1.b8210,%r2,%r1;", "vadd4.u32.u32.u32 %r3,%r1,%r2,%r1.b3210;",
           "vadd4.u32.u32.u32 %r3,%r1.b1024,%r2,%r1;"]  # fmt: skip
    assert [line for line in bad if not refused([line])] == []


PRINTING = """.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 format[20] = {116, 37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 10};
.global .align 1 .b8 name[3] = {111, 107};
.visible .entry speak(.param .u32 limit) {
  .local .align 8 .b8 buffer[24]; .reg .b64 %q<9>; .reg .b32 %r<9>; .reg .pred %p; .reg .f64 %d;
  mov.u32 %r0, %tid.x; ld.param.u32 %r1, [limit];
  mov.u64 %q0, buffer; cvta.local.u64 %q1, %q0; st.local.u32 [%q0], %r0; cvt.rn.f64.u32 %d, %r0; st.local.f64 [%q0+8], %d;
  mov.u64 %q2, name; cvta.global.u64 %q2, %q2; st.local.u64 [%q0+16], %q2; mov.u64 %q3, format; cvta.global.u64 %q3, %q3;
  {
    .param .b64 p0; st.param.b64 [p0], %q3; .param .b64 p1; st.param.b64 [p1], %q1; .param .b32 result;
    call.uni (result), vprintf, (p0, p1);
    ld.param.b32 %r2, [result];
  }
  setp.lt.u32 %p, %r0, %r1;
  @%p bra done;
  {
    .param .b64 a0; st.param.b64 [a0], %q2; .param .b64 a1; st.param.b64 [a1], %q2; .param .b32 a2; st.param.b32 [a2], %r2;
    .param .b64 a3; st.param.b64 [a3], %q2; .param .b64 a4; st.param.b64 [a4], 1;
    call.uni __assertfail, (a0, a1, a2, a3, a4);
  }
done:
  ret;
}
"""


def test_printf_writes_a_line_for_every_thread():
    run = Gpu("sm_90a").launch(PRINTING, "speak", block=3, args=[3])
    assert run.output == "t0 0.00 ok\nt1 1.00 ok\nt2 2.00 ok\n"


NAME_OF = "mov.u64 %q2, name; cvta.global.u64 %q2, %q2;"
NAMED_IN_SHARED = """.shared .align 4 .b8 own[8]; .reg .b32 %s<4>; mov.u32 %s0, %cluster_ctarank; mad.lo.u32 %s0, %s0, 256, 0x006b61;
  st.shared.u32 [own+4], %s0; barrier.cluster.arrive; barrier.cluster.wait; cvt.u64.u32 %q2, OWN; add.u64 %q2, %q2, 4; cvta.shared.u64 %q2, %q2;"""


@pytest.mark.parametrize(
    ("place", "own", "name"),
    [
        (NAMED_IN_SHARED.replace("cvt.u64.u32 %q2, OWN", "mov.u64 %q2, own"), ["ak", "al"], None),
        (NAMED_IN_SHARED.replace("cvt.u64.u32 %q2, OWN", "mov.u32 %s1, own; mapa.shared::cluster.u32 %s1, %s1, 1; cvt.u64.u32 %q2, %s1"), ["al", "al"], None),
        ("mov.u64 %q2, name; cvta.global.u64 %q2, %q2; add.u64 %q2, %q2, 1;", ["k", "k"], None),
        ("add.u64 %q2, %q0, 8; st.local.u32 [%q0+8], 0x0061; cvta.local.u64 %q2, %q2;", None, None),
        ("mov.u64 %q2, 0x300000000000;", None, "X001"),
    ],
)  # fmt: skip
def test_printf_reads_strings_wherever_they_lie(place, own, name):
    """In the window of each CTA of a cluster, in that of another one, in an array, in the thread's own memory, and nowhere."""
    text = PRINTING.replace(NAME_OF, place)
    assert text != PRINTING
    run = Gpu("sm_90a").launch(text, "speak", grid=2, cluster=2, block=1, args=[9], progress=False)
    if own is not None:
        assert run.output == "".join(f"t0 0.00 {one}\n" for one in own)
        assert run.findings == []
    elif name is None:
        assert run.output == "t0 0.00 a\n" * 2
    else:
        assert (run.output, run.launch.result.status) == ("", 700)


PRINTED = json.loads(gzip.decompress((DATA / "h200_printf.json.gz").read_bytes()))["rows"]
FORMAT_AT = 384  # where the format lay when it was measured: 48 words of arguments in front of it


def test_printf_is_that_of_an_h200():
    assert len(PRINTED) > 1000
    for form, arguments, length, strings, printed, count in PRINTED:
        text = form.encode("latin-1")
        behind = text + b"\0" + strings.encode("latin-1")

        def string_at(address, behind=behind):
            return behind[address - FORMAT_AT :].split(b"\0")[0]

        assert len(text) == length
        assert formatted(text, bytes.fromhex(arguments), string_at) == (printed.encode("latin-1"), count), form


def in_c(form: bytes, *values: ctypes._SimpleCData) -> bytes:
    """What the C library of this machine prints."""
    text = ctypes.create_string_buffer(1 << 12)
    assert ctypes.CDLL(None).snprintf(text, ctypes.c_size_t(len(text)), form, *values) < len(text)
    return text.value


def halfway(drawn: random.Random) -> float:
    """A number with few bits after some place, so that it often lies in the middle of two that are printed."""
    kinds = (
        drawn.randrange(-(1 << 20), 1 << 20) / (1 << drawn.randrange(24)), drawn.choice((0.0, -0.0, 1e300, 5e-324, 2.2250738585072014e-308, 1.7e308)),
        float(10 ** drawn.randrange(20)) - drawn.choice((0, 0.5, 0.05, 1e-7)), struct.unpack("<d", drawn.randbytes(8))[0],
        (0x10 + drawn.randrange(16) + drawn.choice((0, 0.5, 0.25))) * 2.0 ** drawn.randrange(-1060, 900), drawn.uniform(-1000, 1000),
        float(f"9.{'9' * drawn.randrange(9)}{drawn.choice('567')}e{drawn.randrange(-6, 10)}"),  # which rounding makes a power of ten
    )  # fmt: skip
    found = drawn.choice(kinds)
    return found if math.isfinite(found) else 1.5


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the card's driver prints by glibc")
@pytest.mark.parametrize(
    "kind", ["d", "i", "o", "u", "x", "X", "ld", "llx", "lo", "hd", "hu", "hx", "c", "e", "E", "f", "F", "g", "G", "a", "A", "s", "p"]
)
def test_one_conversion_is_that_of_the_c_library(kind):
    drawn = random.Random(kind)
    for _ in range(150):
        flags = "".join(drawn.sample("-+ #0", drawn.choice((0, 0, 1, 1, 2, 3))))
        width = drawn.choice(("", "", str(drawn.randrange(1, 25)), "*"))
        precision = drawn.choice(("", "", ".", f".{drawn.choice((0, 1, 2, drawn.randrange(22)))}")) if kind != "c" else ""
        form = f"<%{flags}{width}{precision}{kind}>".encode()
        raw, values, texts = b"", [], {}
        if width == "*":
            # glibc pads numbers with zeros behind them for a negative width and the flag 0
            values.append(ctypes.c_int(drawn.randrange(0 if "0" in flags else -12, 13)))
            raw += struct.pack("<i", values[0].value)
        if kind in "eEfFgGaA":
            values.append(ctypes.c_double(halfway(drawn)))
            raw += bytes(-len(raw) % 8) + struct.pack("<d", values[-1].value)
        elif kind == "s":
            texts[64] = b"some text"[: drawn.randrange(10)]
            values.append(ctypes.c_char_p(texts[64]))
            raw += bytes(-len(raw) % 8) + struct.pack("<Q", 64)
        elif kind[0] == "l" or kind == "p":
            number = drawn.choice((0, 1, 8, drawn.randrange(1 << 63), drawn.randrange(1 << 16)))
            values.append(ctypes.c_void_p(number) if kind == "p" else ctypes.c_longlong(number - (drawn.random() < 0.3) * (1 << 40)))
            raw += bytes(-len(raw) % 8) + struct.pack("<q", number if kind == "p" else values[-1].value)
        else:
            low = (
                drawn.randrange(33, 127)
                if kind == "c"
                else drawn.choice((0, 1, 8, -1, drawn.randrange(-(1 << 31), 1 << 31), drawn.randrange(300)))
            )
            values.append(ctypes.c_int(low))
            raw += struct.pack("<i", low)
        assert formatted(form, raw, texts.get) == (in_c(form, *values), len(values)), (form, values)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the card's driver prints by glibc")
@pytest.mark.parametrize("flag", ["", "#"])
def test_numbers_in_the_middle_of_two_that_are_printed_are_rounded_to_even(flag):
    numbers = [(0x100 + n) / 0x100 for n in range(0x100)] + [n * 5e-324 for n in range(1, 40)] + [n + 0.5 for n in range(20)]
    for kind, precision in itertools.product("aeg", range(3)):
        form = f"%{flag}.{precision}{kind}".encode()
        for number in numbers:
            assert formatted(form, struct.pack("<d", number), None)[0] == in_c(form, ctypes.c_double(number)), (form, number)


@pytest.mark.parametrize(
    ("form", "raw", "text"),
    [
        ("[%zu]", "<Q", b"[%zu]"), ("[%jd] %td", "<Q", b"[%jd] %td"), ("[%.*f]", "<d", b"[%.*f]"), ("[%5%] 100%%", "<i", b"[%5%] 100%"), ("[%hhd]", "<i", b"[91]"),
        ("<%d %5%>", "<i", b"<7 %5%>"), ("%#o %%", "<i", b"07 %"), ("%+u", "<i", b"7"), ("%012.3d", "<i", b"         007"), ("%.0a", "<d", b"0x2p+2"), ("%a", "<d", b"0x1.cp+2"),
        ("%20p|", "<Q", b"                 0x7|"), ("trailing %", "<i", b"trailing %"), ("%n", "<Q", b"%n"),
    ],
)  # fmt: skip
def test_a_format_without_conversions_of_the_card_stands_as_it_is(form, raw, text):
    assert formatted(form.encode(), struct.pack(raw, 7), None)[0] == text


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
def test_bytes_that_are_no_utf8_are_printed_as_they_are(monkeypatch, tiers):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    run = Gpu("sm_90a").launch(PRINTING.replace("name[3] = {111, 107}", "name[3] = {233, 107}"), "speak", args=[1])
    assert run.output == "t0 0.00 \ufffdk\n"
    assert "".join(run.launch.result.output).encode("utf-8", "surrogateescape") == b"t0 0.00 \xe9k\n"


def test_a_failed_assertion_ends_the_kernel_and_says_where():
    first = Gpu("sm_90a").launch(PRINTING, "speak", block=3, args=[1]).findings[0]
    assert first.code == "X013"
    assert re.search(r"assertion ok fails in ok, ok:3; assert: thread \(1, 0, 0\) of CTA \(0, 0, 0\) \(and 1 more", first.message)


def test_a_trap_ends_the_kernel():
    ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { trap; }\n"
    first = Gpu("sm_90a").launch(ptx, "k").findings[0]
    assert first.code == "X013"
    assert "executed trap" in first.message
    assert "719" in first.message


# cooperative groups' this_grid().sync(), as nvcc 13.0 compiles its test of the workspace
GRID_SYNC = """.version 9.0\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 at) { .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .pred %p<4>;
mov.u32 %r1, %envreg2; cvt.u64.u32 %rd2, %r1; mov.u32 %r2, %envreg1; cvt.u64.u32 %rd3, %r2; bfi.b64 %rd1, %rd3, %rd2, 32, 32;
setp.ne.s64 %p1, %rd1, 0; ld.param.u64 %rd4, [at]; ld.global.u32 %r3, [%rd4]; setp.ne.u32 %p2, %r3, 0;
{own}
@%p1 bra there; trap; there: st.global.u32 [%rd1+4], 1; ret; }"""


@pytest.mark.parametrize(
    ("cooperative", "own", "told"),
    [
        (True, "", None),
        (False, "", "the launch is not cooperative"),
        (True, "@!%p2 trap;", "executed trap"),
        (False, "@!%p2 trap;", "executed trap"),
    ],
)
def test_a_barrier_of_the_grid_needs_a_cooperative_launch(cooperative, own, told):
    gpu = Gpu("sm_90a")
    run = gpu.launch(GRID_SYNC.replace("{own}", own), "k", args=[gpu.zeros(1, np.uint32)], cooperative=cooperative)
    assert [f.code for f in run.findings] == ["X013"] * (told is not None)
    assert all(told in f.message for f in run.findings)
    assert run.launch.status == (719 if told else 0)
