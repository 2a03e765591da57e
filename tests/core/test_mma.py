"""The public `mma`: batches are their tiles, every instruction is what `exact` says, and what does not fit is a
sentence that names the field.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import exact
from smemsim import InputError
from smemsim.core.arithmetic import multiply as door
from smemsim.core.arithmetic.mma import dot_product, mma
from smemsim.core.spec.mma_arithmetic import ARITHMETIC

INSTRUCTIONS = sorted({(kind, row.a_types[0], row.b_types[-1], row.d_type) for row in ARITHMETIC for kind in row.kinds})
WORD = {32: np.uint32, 16: np.uint16}


def raw(rng, name, shape):
    bits = exact.bits_of(name)
    return rng.integers(0, 1 << bits, shape, dtype=np.uint64).astype(WORD.get(bits, np.uint8))


def call(kind, a_type, b_type, d_type, **more):
    return {"arch": "sm_90a" if kind == "wgmma" else "sm_100a", "kind": kind, "a_type": a_type, "b_type": b_type, "d_type": d_type} | more


def length(kind, a_type, d_type):
    return 256 if a_type == "b1" else 32 if d_type == "s32" else exact.constants(kind, a_type, d_type)[1]


def operands(rng, kind, a_type, b_type, d_type, batch=(), m=3, n=5):
    """(A, B, C, the scales as arguments) of raw bits."""
    k = length(kind, a_type, d_type)
    found = [raw(rng, a_type, (*batch, m, k)), raw(rng, b_type, (*batch, n, k)), raw(rng, d_type, (*batch, m, n))]
    if not kind.startswith("mx"):
        return *found, {}
    scales = {name: rng.integers(120, 135, (*batch, rows, k // 32), dtype=np.uint8) for name, rows in (("scale_a", m), ("scale_b", n))}
    return *found, scales


def by_hand(kind, types, a, b, c, scales, *, block=32, dtype="ue8m0", **more):
    """D of one tile."""
    d = np.empty(c.shape, np.uint64)
    for m, n in np.ndindex(d.shape):
        rows = [x.tolist() for x in (a[m], b[n])]
        if types[2] == "s32":
            d[m, n] = exact.integer_dot(*rows, int(c[m, n]), types, **more)
            continue
        factors = scales and (dtype, scales["scale_a"][m].tolist(), scales["scale_b"][n].tolist(), block)
        d[m, n] = exact.dot(*rows, int(c[m, n]), types, factors=factors or None, **exact.constants(kind, types[0], types[2])[0], **more)
    return d


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids="-".join)
def test_a_batch_is_its_tiles(instruction):
    rng, (kind, *types) = np.random.default_rng(1), instruction
    a, b, c, scales = operands(rng, *instruction, batch=(2, 3))
    d = mma(a, b, c, **call(*instruction), **scales)
    assert d.shape == (2, 3, 3, 5)
    assert d.dtype == WORD[exact.bits_of(types[2])]
    for at in np.ndindex(2, 3):
        one = {name: scale[at] for name, scale in scales.items()}
        assert (d[at] == mma(a[at], b[at], c[at], **call(*instruction), **one)).all()
        assert (d[at] == by_hand(kind, types, a[at], b[at], c[at], one)).all()


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids="-".join)
def test_one_element_explained_is_that_element(instruction):
    a, b, c, scales = operands(np.random.default_rng(8), *instruction)
    d = mma(a, b, c, **call(*instruction), **scales)
    for m, n in np.ndindex(d.shape):
        own = {"scale_a": scales["scale_a"][m], "scale_b": scales["scale_b"][n]} if scales else {}
        found = dot_product(a[m].tolist(), b[n], int(c[m, n]), **call(*instruction), **own)
        assert found.d == int(d[m, n])
        assert all(isinstance(step, str) for step in found.steps())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("halves", "more", "nearest"), [(1, 0, 0), (1, -1, 0), (1, 1, 1), (2, 1, 1), (3, 0, 2), (3, -1, 1), (3, 1, 2)])
def test_nearest_is_the_whole_sum_rounded_once(halves, more, nearest, sign):
    """1 and some halves of its last place, and a product that float64 would lose: only a tie goes to even."""
    half, tiny = 2.0**-24, 2.0**-70
    a = np.array([sign, halves * half, more * tiny, *[0] * 13], np.float32).view(np.uint32) >> 16
    b = np.array([1, sign, sign, *[0] * 13], np.float32).view(np.uint32) >> 16
    found = dot_product(a.tolist(), b.tolist(), 0, arch="sm_90a", kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32")
    assert found.exact == sign * (1 + halves * Fraction(half) + more * Fraction(tiny))
    assert found.nearest == int(np.float32(sign).view(np.uint32)) + nearest


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids="-".join)
def test_leading_dimensions_broadcast(instruction):
    rng = np.random.default_rng(2)
    a, b, c, scales = operands(rng, *instruction, batch=(2, 3))
    some = {"scale_a": scales["scale_a"][1, 1], "scale_b": scales["scale_b"][:, :1]} if scales else {}
    wide = {name: np.broadcast_to(scale, (2, 3, *scale.shape[-2:])) for name, scale in some.items()}
    d = mma(a[:, :1], b[0, 0], c[0], **call(*instruction), **some)
    full = np.broadcast_to(a[:, :1], a.shape), np.broadcast_to(b[0, 0], b.shape), np.broadcast_to(c[0], c.shape)
    assert (d == mma(*full, **call(*instruction), **wide)).all()
    assert (mma(a[0, 0], b[0, 0], c[0, 0], **call(*instruction), **{name: scale[0, 0] for name, scale in scales.items()})).shape == (3, 5)


def test_batches_are_cut_into_parts_and_put_together(monkeypatch):
    """Large batches go over several compiled calls, on threads where there is much work."""
    rng, instruction = np.random.default_rng(3), ("wgmma", "f16", "f16", "f16")
    a, b, c, _ = operands(rng, *instruction, batch=(7,))
    whole = mma(a, b, c, **call(*instruction))
    monkeypatch.setattr(door, "TILE_WORK", 30)
    assert (mma(a, b, c, **call(*instruction)) == whole).all()
    monkeypatch.setattr(door, "THREAD_WORK", 1)
    assert (mma(a, b, c, **call(*instruction)) == whole).all()
    scaled = ("mxf4nvf4", "e2m1", "e2m1", "f32")
    a, b, c, scales = operands(rng, *scaled, batch=(7,))
    parts = mma(a, b, c, **call(*scaled), **scales)
    assert all(
        (parts[i] == by_hand("mxf4nvf4", scaled[1:], a[i], b[i], c[i], {x: y[i] for x, y in scales.items()})).all() for i in range(7)
    )


def test_nothing_is_a_batch_too():
    for shape in ((0, 4, 5), (3, 0, 5), (3, 4, 0), (0, 0, 0)):
        tiles, m, n = shape
        a, b, c = np.zeros((tiles, m, 16), np.uint16), np.zeros((tiles, n, 16), np.uint16), np.zeros(shape, np.uint32)
        assert mma(a, b, c, **call("wgmma", "bf16", "bf16", "f32")).shape == shape


def test_operands_need_not_lie_in_order_and_are_left_alone():
    rng, instruction = np.random.default_rng(4), ("f8f6f4", "e5m2", "e2m1", "f32")
    a, b, c, _ = operands(rng, *instruction, m=6, n=6)
    before = [x.copy() for x in (a, b, c)]
    d = mma(a[::2], b[::-1], c[::2, ::-1], **call(*instruction), negate_a=True)
    assert (d == mma(a[::2].copy(), b[::-1].copy(), np.ascontiguousarray(c[::2, ::-1]), **call(*instruction), negate_a=True)).all()
    assert (mma(np.asfortranarray(a), b, np.asfortranarray(c), **call(*instruction)) == mma(a, b, c, **call(*instruction))).all()
    assert all((x == y).all() for x, y in zip((a, b, c), before, strict=True))
    assert (mma(a.tolist(), b.astype(np.int64), c.astype(np.uint64), **call(*instruction)) == mma(a, b, c, **call(*instruction))).all()


@pytest.mark.parametrize(("kind", "block", "dtype"), [("mxf8f6f4", 32, "ue8m0"), ("mxf4", 32, "ue8m0"), ("mxf4nvf4", 32, "ue8m0"), ("mxf4nvf4", 16, "ue8m0"), ("mxf4nvf4", 16, "ue4m3")])  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_scale_factors_of_every_block_and_type(kind, block, dtype, arch):
    """sm_103a has K = 96 for four bits besides."""
    rng = np.random.default_rng(block)
    for k in (64, 96) if arch == "sm_103a" and kind != "mxf8f6f4" else (32,) if kind == "mxf8f6f4" else (64,):
        types = ("e2m1", "e2m1", "f32") if k > 32 else ("e4m3", "e2m3", "f32")
        a, b, c = raw(rng, types[0], (4, k)), raw(rng, types[1], (4, k)), raw(rng, "f32", (4, 4))
        c[::2] = 0
        scales = {name: rng.integers(100, 150, (4, k // block), dtype=np.uint8) for name in ("scale_a", "scale_b")}
        given = call(kind, *types, arch=arch) | scales
        d = mma(a, b, c, **given, block=block, scale_type=dtype)
        assert (d == by_hand(kind, types, a, b, c, scales, block=block, dtype=dtype)).all()
        if dtype == ("ue8m0" if block == 32 else "ue4m3"):
            assert (mma(a, b, c, **given) == d).all()
        scales["scale_b"][2, 0] = 0xFF
        assert (mma(a, b, c, **given, block=block, scale_type=dtype)[:, 2] == 0x7FFFFFFF).all()


def test_options_are_signs_clamping_and_a_divided_c():
    rng = np.random.default_rng(6)
    for instruction in (("f16", "bf16", "f16", "f32"), ("tf32", "tf32", "tf32", "f32"), ("f16", "f16", "f16", "f16")):
        kind, *types = instruction
        a, b, c, _ = operands(rng, *instruction)
        signs = [x ^ x.dtype.type(1 << exact.bits_of(t) - 1) for x, t in zip((a, b), types, strict=False)]
        for negate_a, negate_b, shift in itertools.product((False, True), (False, True), (0, 1, 15)):
            d = mma(a, b, c, **call(*instruction), negate_a=negate_a, negate_b=negate_b, scale_input_d=shift)
            assert (d == by_hand(kind, types, signs[0] if negate_a else a, signs[1] if negate_b else b, c, {}, scale_c=shift)).all()
    for kind in ("wgmma", "i8"):
        a, b, c, _ = operands(rng, kind, "s8", "u8", "s32")
        c[:] = rng.choice(np.array([0x7FFFFFF0, 0x8000000F, 5], np.uint32), c.shape)
        found = [mma(a, b, c, **call(kind, "s8", "u8", "s32"), saturate=flag) for flag in (False, True)]
        assert all(
            (d == by_hand(kind, ("s8", "u8", "s32"), a, b, c, {}, saturate=flag)).all()
            for d, flag in zip(found, (False, True), strict=True)
        )
        assert (found[0] != found[1]).any()


def test_chained_calls_hand_on_what_was_rounded():
    """(1 + 2^-24) - 1 in two instructions is 0; in a wide register it would be 2^-24."""
    a, b = np.zeros((1, 16), np.uint16), np.full((1, 16), 0x3F80, np.uint16)
    a[0, :2] = 0x3F80, 0x3380
    first = mma(a, b, np.zeros((1, 1), np.uint32), **call("wgmma", "bf16", "bf16", "f32"))
    a[0, :2] = 0xBF80, 0
    assert mma(a, b, first, **call("wgmma", "bf16", "bf16", "f32"))[0, 0] == 0


A16, A64, S4 = np.zeros((8, 16), np.uint16), np.zeros((8, 64), np.uint8), np.full((8, 4), 0x38, np.uint8)
C32 = np.zeros((8, 8), np.uint32)
HOPPER = call("wgmma", "f16", "f16", "f32", a=A16, b=A16, c=C32)
FOUR = call("mxf4nvf4", "e2m1", "e2m1", "f32", a=A64, b=A64, c=C32, scale_a=S4, scale_b=S4)
WIDE = FOUR | {"arch": "sm_103a"}
FINE = call("f16", "f16", "f16", "f32", a=A16, b=A16, c=C32)
WHOLE = call("i8", "s8", "s8", "s32", a=A64[:, :32], b=A64[:, :32], c=C32)


# fmt: off
WRONG = [  # a call, what is changed of it, what the sentence says
    *[(HOPPER, {name: value}, rf"^{name}\b.*{says}") for name in "abc" for value, says in (
        (None, "object"), ("x", "needs raw"), (A16.astype(float), "float64"), (A16 > 0, "bool"), (np.full((8, 16), -1), "int64"), ([[1], [2, 3]], "differ"),
        (np.zeros(16, np.uint16), "shape"), (np.uint16(3), "shape"), (1 << 80, "raw"))],
    (HOPPER, {"a": A16[:, :8]}, r"^a has K = 8.* K = 16"), (HOPPER, {"b": A64}, r"^b has K = 64.* K = 16"), (HOPPER, {"a": A16 + np.uint32(1 << 16)}, r"^a has 0x10000"),
    (HOPPER, {"c": C32[:4]}, r"^c has shape \(4, 8\)"), (HOPPER, {"c": C32.T[:, :4]}, r"^c has shape \(8, 4\)"), (HOPPER, {"d_type": "f16", "c": C32 + np.uint32(1 << 16)}, "^c has 0x10000"),
    (HOPPER, {"a": np.zeros((2, 8, 16), np.uint16), "c": np.zeros((3, 8, 8), np.uint32)}, r"^leading dimensions \(2,\), \(\), \(3,\)"),
    (HOPPER, {"arch": "sm_80"}, "^arch = 'sm_80'"), (HOPPER, {"arch": None}, "^arch"), (HOPPER, {"arch": "sm_100a"}, "^kind = 'wgmma'"), (FINE, {"arch": "sm_90a"}, "^kind = 'f16'"),
    (HOPPER, {"kind": None}, "^kind"), (HOPPER, {"kind": np.zeros(3)}, "^kind"), (WHOLE, {"arch": "sm_103a"}, "^kind = 'i8'"),
    *[(HOPPER, {name: value}, name) for name in ("a_type", "b_type", "d_type") for value in ("f17", None, np.zeros(3), "f64", "s8")],
    (HOPPER, {"a_type": "bf16"}, "a_type = bf16, b_type = f16.*kind wgmma does not multiply these types"), (HOPPER, {"a_type": "bf16", "b_type": "bf16", "d_type": "f16"}, "d_type = f16"),
    (FOUR, {"scale_a": None}, "^scale_a, scale_b"), (FOUR, {"scale_b": None}, "^scale_a, scale_b"),
    (FOUR, {"scale_a": S4[:4]}, r"^scale_a has shape \(4, 4\)"), (FOUR, {"scale_b": S4[:, :2]}, r"^scale_b has shape \(8, 2\)"), (FOUR, {"scale_a": S4[:, :3]}, "^scale_a has shape"),
    (FOUR, {"scale_a": S4[0]}, "^scale_a has shape"), (FOUR, {"scale_a": 3}, "^scale_a has shape"), (FOUR, {"scale_a": S4 * 1.0}, "^scale_a: an array of float64"),
    (FOUR, {"scale_a": [[1], [2, 3]]}, "^scale_a.*differ"), (FOUR, {"scale_b": S4 + np.uint16(256)}, "^scale_b has 0x138"),
    *[(FOUR, {"block": value}, "^block = ") for value in (0, 8, 64, 32.0, "16", True, np.array([16, 32]), [16])],
    (FOUR, {"kind": "mxf4", "block": 16}, "^block = 16"), (FOUR, {"kind": "mxf4"}, "^scale_a has shape"), (FOUR, {"block": 32}, "^scale_a has shape"),
    *[(FOUR, {"scale_type": value}, "^scale_type = ") for value in ("e4m3", "f32", 3, np.zeros(2))],
    (FOUR, {"scale_type": "ue4m3", "scale_a": S4[:, :2], "scale_b": S4[:, :2]}, "^scale_type = 'ue4m3'"),
    *[(HOPPER, {name: value}, f"^{name} = .*no scale factors") for name, value in (("scale_a", S4), ("scale_b", S4), ("block", 32), ("scale_type", "ue8m0"))],
    (FOUR, {"a": np.zeros((8, 96), np.uint8)}, "^a has K = 96"), (WIDE, {"a": np.zeros((8, 96), np.uint8)}, "^b has K = 64"), (WIDE, {"b": np.zeros((8, 96), np.uint8)}, "^b has K = 96"),
    (WIDE, {"a": np.zeros((8, 96), np.uint8), "b": np.zeros((8, 96), np.uint8)}, "^scale_a has shape"),
    *[(given, {name: 2}, f"^{name} = 2") for given in (HOPPER, FINE) for name in ("negate_a", "negate_b", "saturate")],
    (WHOLE, {"negate_a": True}, "^negate_a"), (WHOLE, {"negate_b": True}, "negate_b"), (HOPPER, {"saturate": True}, "^saturate"),
    (call("wgmma", "b1", "b1", "s32", a=np.zeros((8, 256), np.uint8), b=np.zeros((8, 256), np.uint8), c=C32), {"saturate": True}, "^saturate"),
    (HOPPER, {"scale_input_d": 1}, "^scale_input_d = 1: only"), (FOUR, {"scale_input_d": 1}, "^scale_input_d = 1: only"), (FINE, {"scale_input_d": 16}, "^scale_input_d = 16"),
    (FINE, {"scale_input_d": -1}, "^scale_input_d = -1"), (FINE, {"scale_input_d": 1.5}, "^scale_input_d"),
]
# fmt: on


@pytest.mark.parametrize(("given", "changed", "says"), WRONG)
def test_what_does_not_fit_is_a_sentence_that_names_the_field(given, changed, says):
    mma(**given)
    with pytest.raises(InputError, match=says):
        mma(**given | changed)
