"""What the traces of wgmma's arithmetic show: that they hold the hard cases, and that they refute every neighbouring
constant.
"""

import collections
import dataclasses

import numpy as np
import pytest

import exact
from places import ROOT
from smemsim.core.arithmetic.multiply import Options, multiply_tiles
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.spec.mma_arithmetic import ARITHMETIC, arithmetic_of
from smemsim.evidence import load_suite

SM90 = ROOT / "golden" / "sm_90a"
SUITES = {d: load_suite(SM90 / f"wgmma_dots_{d}") for d in ("f32", "f16", "s32")}
COMBINATIONS = [(row, a, b) for row in ARITHMETIC if row.kinds == ("wgmma",) for a in row.a_types for b in row.b_types]
each_combination = pytest.mark.parametrize(("row", "a", "b"), COMBINATIONS, ids=lambda x: x if isinstance(x, str) else x.d_type)


@dataclasses.dataclass
class Tile:
    """One dense case: its numbers, and what hardware made of them."""

    style: str
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    options: Options
    forms: tuple[str, ...]


def tiles(d_type, a_type, b_type, *, dense=True):
    suite = SUITES[d_type]
    x = suite.arrays
    for i in np.nonzero((x["dtype_a"] == a_type) & (x["dtype_b"] == b_type) & (x["sparse"] == 0 if dense else True))[0]:
        n, k = int(x["n"][i]), int(x["k"][i])
        stored = k // (1 + int(x["sparse"][i]))
        options = Options(bool(x["scale_a"][i] < 0), bool(x["scale_b"][i] < 0), 0, bool(x["satfinite"][i]))
        forms = tuple(f for f in ("sparse", "chained", "satfinite") if x[f][i]) + (() if x["scale_d"][i] else ("scale_d 0",))
        forms += (str(x["a_source"][i]), *(f"scale_{s}" for s in "ab" if x[f"scale_{s}"][i] < 0))
        c = x["c_pool"][i][suite.ragged("c", i)].reshape(64, n)
        a, b = suite.ragged("a", i).reshape(-1, 64, stored), suite.ragged("b", i).reshape(-1, n, k)
        yield Tile(str(x["style"][i]), a, b, c, suite.ragged("d", i).reshape(64, n), options, forms)


def run(row, types, tile, *, c=None):
    d = np.zeros_like(tile.c) if "scale_d 0" in tile.forms else tile.c if c is None else c
    for a, b in zip(tile.a, tile.b, strict=True):
        d = multiply_tiles(a[None], b[None], d.astype(np.uint32)[None], row=row, types=types, options=tile.options)[0]
    return d


@each_combination
def test_every_combination_has_its_dot_products_and_every_form(row, a, b):
    found = list(tiles(row.d_type, a, b, dense=False))
    assert sum(t.d.size for t in found) >= 60_000
    forms = {form for t in found for form in t.forms}
    wanted = {"shared", "registers", "chained", "scale_d 0"} | ({"sparse"} if a != "b1" else set())
    wanted |= {"scale_a", "scale_b"} if a in ("f16", "bf16", "tf32", "e4m3", "e5m2") else set()
    wanted |= {"satfinite"} if a in ("s8", "u8") else set()
    assert wanted <= forms
    assert {t.d.shape[1] for t in found} >= {8, 16, 64, 256}


@pytest.mark.parametrize(
    ("row", "a", "b"), [x for x in COMBINATIONS if x[0].kept_bits], ids=lambda x: x if isinstance(x, str) else x.d_type
)
def test_the_hard_numbers_are_among_them(row, a, b):
    """Dot products of every kind that rounding might treat in its own way."""
    seen = collections.Counter()
    to, sign = row.d_type, 1 << (15 if row.d_type == "f16" else 31)
    smallest = 2.0 ** (-24 if to == "f16" else -149)
    infinity = 0x7C00 if to == "f16" else 0x7F800000
    for t in tiles(to, a, b):
        if len(t.a) > 1 or any(t.options):
            continue
        with np.errstate(all="ignore"):
            x, y, z = (to_float64(bits, name) for bits, name in ((t.a[0], a), (t.b[0], b), (t.c, to)))
            total = x @ y.T + z
            largest = np.maximum((np.abs(x)[:, None] * np.abs(y)[None]).max(-1), np.abs(z))
            seen["nothing but -0"] += int(((np.signbit(x[:, None] * y[None]) & (x[:, None] * y[None] == 0)).all(-1) & (t.c == sign)).sum())
            seen["C = -0"] += int((t.c == sign).sum())
            seen["cancels"] += int(((np.abs(total) < largest * 2.0**-8) & (largest > 0)).sum())
            seen["too small, negative"] += int(((total < 0) & (total > -smallest / 2) & (t.d == 0)).sum())
            seen["subnormal C"] += int(((t.c & (infinity - 1) != 0) & (t.c & infinity == 0)).sum())
            seen["subnormal D"] += int(((t.d & (infinity - 1) != 0) & (t.d & infinity == 0)).sum())
            seen["zero products"] += int(((x == 0).any(1)[:, None] & np.isfinite(total)).sum())
            seen["spread"] += int((np.abs(x).max(1) > 2.0**20 * np.abs(np.where(x == 0, np.inf, x)).min(1)).sum())
        seen["infinite from finite"] += int((np.isfinite(largest) & (t.d & (sign - 1) == infinity)).sum())
        seen["NaN"] += int((t.d == sign - 1).sum())
        seen["infinite"] += int((t.d & (sign - 1) == infinity).sum())
    wide, ieee = a in ("bf16", "tf32"), a != "e4m3"
    wanted = {"C = -0", "cancels", "zero products", "NaN", "subnormal C", "infinite", "nothing but -0"}
    wanted |= {"spread"} if ieee else set()
    wanted |= {"infinite from finite", "subnormal D"} if wide or to == "f16" else set()
    # two e4m3 are never so small
    wanted |= {"too small, negative"} if wide or (to == "f16" and a == b != "e4m3") else set()
    assert {name for name in wanted if not seen[name]} == set(), dict(seen)
    assert all(not (t.d == sign).any() for t in tiles(to, a, b))  # never -0


def neighbours(row):
    """(what is changed, another row): constants that are next to those of the table; what no product can show is left
    out.
    """
    yield from ((f"kept {row.kept_bits + by}", {"kept_bits": row.kept_bits + by}) for by in (-1, 1))
    if row.fraction_bits != 13:
        yield "the other conversion", {"to_nearest": not row.to_nearest}
    else:
        yield from ((f"fraction {n}", {"fraction_bits": n}) for n in (12, 14, 23))
    if row.a_types[0] in ("bf16", "tf32") or (row.a_types[0] == "f16" and row.d_type == "f16"):
        yield from ((f"zeros {row.zero_exponent + by}", {"zero_exponent": row.zero_exponent + by}) for by in (-1, 1))


@pytest.mark.parametrize(
    ("row", "a", "b"), [x for x in COMBINATIONS if x[0].kept_bits], ids=lambda x: x if isinstance(x, str) else x.d_type
)
def test_the_traces_refute_every_neighbouring_constant(row, a, b):
    found = [t for t in tiles(row.d_type, a, b) if t.d.shape[1] <= 64]
    types = (a, b, row.d_type)
    assert all((run(row, types, t) == t.d).all() for t in found)
    for what, change in neighbours(row):
        other = row._replace(**change)
        assert any((run(other, types, t) != t.d).any() for t in found), what


# What else has been proposed, as `exact.dot` names it; the numbers and the results among which it would show; the types
# that can show it.
ALL = (("bf16", "bf16", "f32"), ("f16", "f16", "f16"), ("e4m3", "e5m2", "f32"))
RIVALS = {
    "late": (ALL[::2], "near_one", lambda d, top: d >= 0),
    "normalise": (ALL[::2], "near_one", lambda d, top: d >= 0),
    "count_zeros": (ALL[::2], "probes zeros", lambda d, top: np.eye(*d.shape, dtype=bool) | (d & top == 0)),
    "minus": (ALL, "zeros cancel near_one subnormal", lambda d, top: d == 0),
    "to_infinity": (ALL[:1], "overflow", lambda d, top: d & top == top),
    "flush": (ALL[:2], "subnormal floor ties", lambda d, top: (d & top == 0) & (d != 0)),
}


@pytest.mark.parametrize(("rival", "types"), [(rival, types) for rival, (of, *_) in RIVALS.items() for types in of], ids=str)
def test_the_traces_refute_other_ways_to_add(rival, types):
    """C added afterwards, products normalised, zeros that have an exponent, -0, the largest number for infinity,
    flushed subnormals.
    """
    _, styles, among = RIVALS[rival]
    constants, top = exact.constants("wgmma", types[0], types[2])[0], 0x7C00 if types[2] == "f16" else 0x7F800000
    rng, looked = np.random.default_rng(5), 0
    for t in tiles(types[2], *types[:2]):
        if len(t.a) > 1 or any(t.options) or "scale_d 0" in t.forms or t.style.partition(":")[0] not in styles.split():
            continue
        places = np.argwhere(among(t.d, top))
        for m, n in rng.permutation(places)[:250].tolist():
            args = (t.a[0, m].tolist(), t.b[0, n].tolist(), int(t.c[m, n]), types)
            assert exact.dot(*args, **constants) == t.d[m, n]
            looked += 1
            if exact.dot(*args, **constants | {rival: rival != "to_infinity"}) != t.d[m, n]:
                return
    pytest.fail(f"{looked} dot products do not tell")


def test_integers_wrap_and_clamp_at_both_ends():
    seen = set()
    for a in ("s8", "u8"):
        row = arithmetic_of("wgmma", a, a, "s32")
        for t in tiles("s32", a, a):
            assert (run(row, (a, a, "s32"), t) == t.d).all()
            other = dataclasses.replace(t, options=t.options._replace(saturate=not t.options.saturate))
            if (run(row, (a, a, "s32"), other) != t.d).any():
                seen.add((t.options.saturate, "chained" in t.forms))
            seen |= {end for end in (0x7FFFFFFF, 0x80000000) if t.options.saturate and (t.d == end).any()}
    assert seen >= {0x7FFFFFFF, 0x80000000, (True, False), (False, False), (True, True)}


def test_tf32_ignores_its_low_bits_also_in_nans():
    seen = collections.Counter()
    for t in tiles("f32", "tf32", "tf32"):
        if len(t.a) > 1 or any(t.options):
            continue
        seen["low bits"] += int((t.a & 0x1FFF != 0).any())
        only_low = (t.a[0] & 0x7FFFE000 == 0x7F800000) & (t.a[0] & 0x1FFF != 0)
        with np.errstate(all="ignore"):
            others = np.where(only_low, 1.0, to_float64(t.a[0], "tf32"))
        rows = only_low.any(1) & np.isfinite(others).all(1)
        seen["NaN in the low bits"] += int((t.d[rows] & 0x7FFFFFFF == 0x7F800000).sum())
    assert min(seen.values()) > 0, seen
    assert len(seen) == 2
