"""The directed dot products of the Blackwell kit can tell what they are there to tell: under every rule that somebody
has proposed one of them comes out otherwise. The sums here are done by hand, in fractions; nothing of the model is
asked.
"""

import functools
from fractions import Fraction

import pytest

pytest.importorskip("cuda.bindings", reason="the capture tool needs cuda-bindings")
from smemsim.capture.blackwell import builder, directed, dots, words

TWO = Fraction(2)
INF = "infinity"
UE4M3 = words.ELEMENTS["e4m3"]


@functools.cache
def split(element, code):
    """(signed significand, exponent) of a finite float, None of any other; subnormals keep their format's lowest
    exponent.
    """
    sign, body = code >> element.bits - 1, code & (1 << element.bits - 1) - 1
    field, fraction = body >> element.fraction_bits, body & (1 << element.fraction_bits) - 1
    top = (1 << element.exponent_bits) - 1
    if (element.name in ("f16", "bf16", "tf32", "e5m2", "f32") and field == top) or (element.name == "e4m3" and body == 0x7F):
        return None
    size = Fraction(fraction + ((1 << element.fraction_bits) if field else 0), 1 << element.fraction_bits)
    return (-size if sign else size), max(field, 1) - element.bias


def factor(i, byte, *, zero_is_zero=False, signed=False):
    if i.ue8m0:
        return None if byte == 0xFF else (Fraction(int(byte > 0 or not zero_is_zero)), byte - 127)
    found = split(UE4M3, byte & 0x7F)
    return found and (-found[0] if signed and byte >> 7 else found[0], found[1])


def log2(value):
    e = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    return e - (abs(value) < power(e))


@functools.cache
def power(e):
    return TWO**e


def terms_of(i, probe, *, by_size=False, cancelled=True, groups=16, **scale):
    """(significand, exponent) of everything that is added, zeros with exponent None; None for infinities and NaNs."""
    a, b = words.ELEMENTS[i.a], words.ELEMENTS[i.b]
    products = [(split(a, x), split(b, y)) for x, y in probe.codes]
    factors = [[factor(i, word >> 8 * n & 0xFF, **scale) for word in probe.scales] for n in range(i.scales)]
    if any(None in pair for pair in (*products, *factors)):
        return None
    out = [(x[0] * y[0], x[1] + y[1]) for x, y in products]
    if i.kind.startswith("mxf4"):
        sums = []
        for n in range(0, i.k, groups):
            some, (f, g) = out[n : n + groups], factors[n * i.scales // i.k]
            total = sum(s * power(e) for s, e in some if s) * f[0] * g[0]
            empty = not any(s for s, _ in some) or not f[0] * g[0]
            exponent = f[1] + g[1] + (log2(total) if by_size and total else 0)
            sums.append((total, None if empty or (not total and not cancelled) else exponent))
            if by_size and total:
                sums[-1] = (total / power(log2(total)), exponent)
        out = sums
    elif i.scales:
        [(f, g)] = factors
        out = [(s * f[0] * g[0], e + f[1] + g[1] if s * f[0] * g[0] else None) for s, e in out]
    else:
        out = [(s, e if s else None) for s, e in out]
    if probe.enable:
        c = split(builder.F16 if i.d == "f16" else builder.F32, probe.c)
        if c is None:
            return None
        out.append(c if c[0] else (Fraction(0), None))
    return out


def rounded(value, d, *, nearest=None, to_infinity=True):
    bits, least, most = (11, -24, 16) if d == "f16" else (24, -149, 128)
    if not value:
        return value
    quantum = power(max(log2(value) - bits + 1, least))
    steps = abs(value) / quantum
    whole = round(steps) if (d == "f16" if nearest is None else nearest) else steps.__floor__()
    size = whole * quantum
    if size >= TWO**most:
        size = INF if to_infinity else TWO**most - TWO ** (most - bits)
    return size if value > 0 or size == INF else -size


def added(i, terms, *, kept, floor, to_infinity=True, nearest=None, twice=False):
    """What D is of these terms under these rules; None for infinities and NaNs among them."""
    if terms is None:
        return None
    top = max([e for _, e in terms if e is not None] + ([floor] if any(e is None for _, e in terms) else []))
    total = Fraction(0)
    for s, e in terms:
        if s:
            steps = (abs(s) * power(e - top + kept)).__floor__()
            total += (steps if s > 0 else -steps) * power(top - kept)
    if twice:
        total = rounded(total, "f32")
    return rounded(total, i.d, nearest=nearest, to_infinity=to_infinity)


def dots_under(i, probes):
    """A function of rules: what D is of each probe, one after the other."""
    terms = functools.cache(lambda **how: [terms_of(i, probe, **how) for probe in probes])

    def each(**rules):
        adding = {name: rules.pop(name) for name in ("kept", "floor", "to_infinity", "nearest", "twice") if name in rules}
        return (added(i, some, **adding) for some in terms(**rules))

    return each


@functools.cache
def probes_of(kind, a, d, vector, ue8m0):
    [i] = [x for x in dots.instructions() if (x.kind, x.a, x.b, x.d, x.vector, x.ue8m0) == (kind, a, a, d, vector, ue8m0)]
    return i, tuple(directed.directed(i))


# fmt: off
CASES = {  # instruction: its rules as far as anybody has guessed them, and one changed at a time
    ("f16", "bf16", "f32", "", True): ({"kept": 25, "floor": -133}, (
        {"kept": 24}, {"kept": 26}, {"kept": 13}, {"floor": -132}, {"floor": -126}, {"floor": -134}, {"floor": -400}, {"nearest": True}, {"to_infinity": False})),
    ("tf32", "tf32", "f32", "", True): ({"kept": 25, "floor": -133}, (
        {"kept": 24}, {"kept": 26}, {"floor": -132}, {"floor": -126}, {"floor": -134}, {"floor": -400}, {"nearest": True}, {"to_infinity": False})),
    ("f16", "f16", "f16", "", True): ({"kept": 25, "floor": -133}, ({"kept": 24}, {"kept": 26}, {"floor": -22}, {"floor": -21}, {"nearest": False}, {"twice": True}, {"to_infinity": False})),
    ("f8f6f4", "e5m2", "f32", "", True): ({"kept": 25, "floor": -133}, ({"kept": 13}, {"kept": 24}, {"kept": 26}, {"nearest": True})),
    ("f8f6f4", "e5m2", "f16", "", True): ({"kept": 25, "floor": -133}, ({"kept": 13}, {"kept": 24}, {"nearest": False}, {"twice": True}, {"to_infinity": False})),
    ("mxf8f6f4", "e4m3", "f32", ".block32", True): ({"kept": 25, "floor": -133}, (
        {"kept": 13}, {"kept": 24}, {"kept": 26}, {"floor": -132}, {"floor": -126}, {"floor": -134}, {"zero_is_zero": True}, {"to_infinity": False})),
    ("mxf4nvf4", "e2m1x2", "f32", ".block16", True): ({"kept": 35, "floor": -139}, (
        {"kept": 34}, {"kept": 36}, {"kept": 25}, {"floor": -138}, {"floor": -140}, {"floor": -133}, {"floor": -126}, {"floor": -400}, {"by_size": True},
        {"cancelled": False}, {"groups": 32}, {"zero_is_zero": True}, {"to_infinity": False})),
    ("mxf4", "e2m1x2", "f32", ".block32", True): ({"kept": 35, "floor": -139}, (
        {"kept": 34}, {"kept": 36}, {"kept": 25}, {"floor": -138}, {"floor": -140}, {"floor": -133}, {"by_size": True}, {"cancelled": False}, {"groups": 32})),
    ("mxf4nvf4", "e2m1x2", "f32", ".block16", False): ({"kept": 35, "floor": -139}, ({"kept": 34}, {"kept": 25}, {"by_size": True}, {"cancelled": False}, {"signed": True})),
}
# fmt: on


@pytest.mark.parametrize("about", CASES, ids=lambda about: "-".join(map(str, about)).replace(".", ""))
def test_every_proposed_rule_changes_a_directed_probe(about):
    (i, probes), (rules, rivals) = probes_of(*about), CASES[about]
    under = dots_under(i, probes)
    expected = list(under(**rules))
    for rival in rivals:
        assert any(other != d for other, d in zip(under(**rules | rival), expected, strict=True)), rival


def test_published_sums_come_out_as_published():
    """So that the sums by hand are worth something: the example of arXiv 2511.10909, Table 8, and what other rules make
    of it.
    """
    [i] = [x for x in dots.instructions() if (x.a, x.b, x.d) == ("bf16", "bf16", "f32")]
    p = builder.Builder(i)
    values = (-(TWO**13), TWO**10), (Fraction(-1, 2), Fraction(1)), (Fraction(-1, 4), Fraction(1)), (Fraction(-1, 8), Fraction(1))
    p.add("published", values, 1 << 23)
    under = dots_under(i, p.out[:1])
    found = {kept: next(under(kept=kept, floor=-133)) for kept in (23, 24, 25, 26)}
    assert found == {23: 0, 24: Fraction(-1, 2), 25: Fraction(-3, 4), 26: Fraction(-7, 8)}


@pytest.mark.parametrize("about", CASES, ids=lambda about: "-".join(map(str, about)).replace(".", ""))
def test_the_sign_of_a_zero_is_asked_with_every_c(about):
    i, probes = probes_of(*about)
    minus = 1 << words.ELEMENTS[i.a].bits - 1
    alone = [p for p in probes if p.name.startswith("nothing but -0")]
    assert [(p.c != 0, p.enable) for p in alone] == [(False, 1), (True, 1), (True, 0)]
    assert all(a == minus and split(words.ELEMENTS[i.b], b) == (1, 0) for p in alone for a, b in p.codes)


def test_odd_scale_factors_of_both_types_are_asked():
    for ue8m0, odd in ((True, {0x00, 0xFE, 0xFF}), (False, {0x00, 0x01, 0x07, 0x7E, 0x7F, 0xB8, 0xFF})):
        _, probes = probes_of("mxf4nvf4", "e2m1x2", "f32", ".block16", ue8m0)
        for side in (0, 1):
            assert odd <= {p.scales[side] & 0xFF for p in probes}
        assert odd & {0x00, 0x7F, 0xFF, 0xB8} & {p.scales[0] >> 24 for p in probes if p.scales[0] & 0xFF not in odd}


def test_other_forms_of_the_instruction_get_the_same_kind_of_numbers():
    cases = [c for c in dots.random_cases(9602) if c["way"] != dots.WAYS[0]._asdict()]
    seen = {(c["instruction"]["kind"], c["group"], "ws" in c["steps"][0]["op"], "sp" in c["steps"][0]["op"].split(".")) for c in cases}
    for kind in ("f16", "tf32", "f8f6f4"):
        assert {(kind, 2, False, False), (kind, 1, True, False), (kind, 1, False, True)} <= seen
    assert {("mxf8f6f4", 1, False, True), ("mxf4", 1, False, True)} <= seen
