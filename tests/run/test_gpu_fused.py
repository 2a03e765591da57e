"""Products that ptxas takes into sums: which, seen by whether a product was rounded; and what must stay as it is
written.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device, found, kernel, launch
from smemsim.core.ptx import read_module
from smemsim.run.lower import fuse
from smemsim.run.lower.inline import inline
from strategies import examples

THREADS = 64
LOADS = "mul.wide.u32 %d1, %r1, 8; add.u64 %d2, %d20, %d1;\n" + "".join(
    f"ld.global.f64 %g{n}, [%d2+{8 * THREADS * n}];\n" for n in range(6)
)
STORED = [f"st.global.f64 [%d2+{8 * THREADS * (6 + n)}], %x{n};\n" for n in range(3)]
STORES = "".join(STORED)
NEW = ".reg .f64 %t<9>, %x<9>; .reg .pred %c<9>;"
# a to f of every thread: numbers of 41 bits, whose products are rounded
GIVEN = np.random.default_rng(5).choice([-1.0, 1.0], (6, THREADS)) * (
    1 + np.random.default_rng(6).integers(0, 2**40, (6, THREADS)) * 2.0**-40
)


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * y


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.array([float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z, strict=True)])


def memory() -> np.ndarray:
    return np.concatenate([GIVEN, np.zeros((3, THREADS))])


A, B, C, D, E, F = GIVEN
AB, CD, EF = "mul.f64 %t0, %g0, %g1;", "mul.f64 %t1, %g2, %g3;", "mul.f64 %t2, %g4, %g5;"
# What ptxas 13.0 makes of each, read off its machine code: the values of %x0, %x1, %x2 as far as they are stored.
CASES = {
    "one sum":               (AB + "add.f64 %x0, %g2, %t0;", [fused(A, B, C)]),
    "a difference":          (AB + "sub.f64 %x0, %g2, %t0;", [fused(-A, B, C)]),
    "the other difference":  (AB + "sub.f64 %x0, %t0, %g2;", [fused(A, B, -C)]),
    "a rounded product":     ("mul.rn.f64 %t0, %g0, %g1; add.f64 %x0, %g2, %t0;", [product(A, B) + C]),
    "a rounded sum":         (AB + "add.rn.f64 %x0, %g2, %t0;", [product(A, B) + C]),
    "through neg":           (AB + "neg.f64 %t3, %t0; add.f64 %x0, %g2, %t3;", [fused(-A, B, C)]),
    "twice minus":           (AB + "neg.f64 %t3, %t0; sub.f64 %x0, %g2, %t3;", [fused(A, B, C)]),
    "through mov":           (AB + "mov.f64 %t3, %t0; add.f64 %x0, %g2, %t3;", [fused(A, B, C)]),
    "through abs":           (AB + "abs.f64 %t3, %t0; add.f64 %x0, %g2, %t3;", [abs(product(A, B)) + C]),
    "the product is stored": (AB + "add.f64 %x0, %g2, %t0; mov.f64 %x1, %t0;", [product(A, B) + C, product(A, B)]),
    "two sums":              (AB + "sub.f64 %x0, %g2, %t0; add.f64 %x1, %g3, %t0;", [fused(-A, B, C), fused(A, B, D)]),
    "two products":          (AB + CD + "sub.f64 %x0, %t0, %t1;", [fused(A, B, -product(C, D))]),
    "the second is first":   (CD + AB + "sub.f64 %x0, %t0, %t1;", [fused(A, B, -product(C, D))]),
    "the first is stored":   (AB + CD + "sub.f64 %x0, %t0, %t1; mov.f64 %x1, %t0;", [fused(-C, D, product(A, B)), product(A, B)]),
    "an addend elsewhere":   (AB + CD + "add.f64 %x1, %g4, %t1; sub.f64 %x0, %t0, %t1;", [fused(A, B, -product(C, D)), E + product(C, D)]),
    "both both times":       (AB + CD + "sub.f64 %x0, %t0, %t1; add.f64 %x1, %t0, %t1;", [fused(A, B, -product(C, D)), fused(A, B, product(C, D))]),
    "turned round":          (AB + CD + "sub.f64 %x0, %t0, %t1; sub.f64 %x1, %t1, %t0;", [fused(A, B, -product(C, D)), fused(-A, B, product(C, D))]),
    "three in a chain":      (AB + CD + EF + "add.f64 %x0, %t0, %t1; add.f64 %x1, %t1, %t2;", [fused(A, B, product(C, D)), fused(E, F, product(C, D))]),
    "fewer uses first":      (AB + CD + EF + "add.f64 %x0, %t0, %t1; add.f64 %x1, %t2, %t0;", [fused(C, D, product(A, B)), fused(E, F, product(A, B))]),
    "with itself":           (AB + "add.f64 %x0, %t0, %t0;", [2 * product(A, B)]),
    "an addend of fma":      (AB + "fma.rn.f64 %x0, %g2, %g3, %t0; add.f64 %x1, %g4, %t0;", [fused(C, D, product(A, B)), E + product(A, B)]),
    "compared":              (AB + "add.f64 %x0, %g2, %t0; setp.gt.f64 %c1, %t0, %g3; mov.f64 %x1, %g4; @%c1 mov.f64 %x1, %g5;", [product(A, B) + C, np.where(product(A, B) > D, F, E)]),
    "behind a barrier":      (AB + "bar.sync 0; add.f64 %x0, %g2, %t0;", [fused(A, B, C)]),
    "behind a branch":       (AB + "mov.f64 %x0, %g2; @%p9 bra L; add.f64 %x0, %g2, %t0; L:", [np.where(np.arange(THREADS) == 0, C, product(A, B) + C)]),
    "behind a division":     (AB + "div.rn.f64 %x1, %g4, %g5; add.f64 %x0, %g2, %t0;", [product(A, B) + C, E / F]),
    "under a predicate":     (AB + "mov.f64 %x0, %g3; @!%p9 add.f64 %x0, %g2, %t0;", [np.where(np.arange(THREADS) == 0, D, fused(A, B, C))]),
    "of two, one each":      (AB + CD + "add.f64 %x0, %g4, %t0; sub.f64 %x1, %t1, %g5; sub.f64 %x2, %t0, %t1;", [fused(A, B, E), fused(C, D, -F), fused(A, B, -product(C, D))]),
    "one spoils another":    (AB + CD + "sub.f64 %x0, %t1, %g4; mul.f64 %t2, %g2, %g3; add.f64 %x1, %t2, %t1; add.f64 %x2, %t0, %t1;", [product(C, D) - E, 2 * product(C, D), fused(A, B, product(C, D))]),
    "the same twice":        (AB + "mul.f64 %t1, %g1, %g0; add.f64 %x0, %t0, %t1;", [2 * product(A, B)]),
    "and its difference":    (AB + "mul.f64 %t1, %g1, %g0; sub.f64 %x0, %t0, %t1;", [fused(A, B, -product(A, B))]),
    "one register":          (AB + "add.f64 %x0, %g2, %t0; mul.f64 %t0, %g2, %g3; add.f64 %x1, %g4, %t0;", [fused(A, B, C), fused(C, D, E)]),
    "times one":             ("mul.f64 %t0, %g0, 1.0;" + CD + "add.f64 %x0, %t0, %t1;", [fused(C, D, A)]),
    "behind a label":        (AB + "L: add.f64 %x0, %g2, %t0;", [fused(A, B, C)]),
    "behind a fence":        (AB + "membar.cta; add.f64 %x0, %g2, %t0;", [product(A, B) + C]),
    "behind another fence":  (AB + "fence.proxy.async; add.f64 %x0, %g2, %t0;", [fused(A, B, C)]),
    "a guarded store":       (AB + "@%p9 st.global.f64 [%d2], %g0; add.f64 %x0, %g2, %t0;", [product(A, B) + C]),
    "a guarded load":        (AB + "mov.f64 %t1, %g3; @%p9 ld.global.f64 %t1, [%d2]; add.f64 %x0, %g2, %t0; add.f64 %x1, %t1, %g4;", [fused(A, B, C)]),
    "nobody wants to know":  (AB + "add.f64 %x0, %g2, %t0; setp.gt.f64 %c1, %t0, %g3; abs.f64 %t3, %t0;", [fused(A, B, C)]),
    "a guarded product":     ("mov.f64 %t0, %g4; @!%p9 mul.f64 %t0, %g0, %g1; add.f64 %x0, %g2, %t0;", [np.where(np.arange(THREADS) == 0, E, product(A, B)) + C]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sums_take_in_the_products_that_ptxas_lets_them(name):
    body, expected = CASES[name]
    (out,) = launch(LOADS + body + "".join(STORED[: len(expected)]), memory(), block=THREADS, text={"locals_": NEW}.items())
    assert out[6 : 6 + len(expected)].tolist() == [x.tolist() for x in expected]


def test_the_numbers_tell_what_was_rounded():
    assert (product(A, B) + C != fused(A, B, C)).any()
    both = product(A, B) - product(C, D)
    first, second = fused(A, B, -product(C, D)), fused(-C, D, product(A, B))
    assert [bool((x != y).any()) for x, y in ((both, first), (both, second), (first, second))] == [True] * 3


def test_nothing_is_fused_for_a_debugger():
    text = kernel(1, LOADS + CASES["one sum"][0] + STORES, locals_=NEW).replace(".target sm_90a", ".target sm_90a, debug")
    device = Device()
    placed = device.array(memory())
    device.launch(text, "k", block=THREADS, args=[placed])
    assert placed.numpy()[6].tolist() == (product(A, B) + C).tolist()


LOOP = "mov.f64 %x0, %g2; mov.f64 %t1, %g3; mov.u32 %r9, 0; L: add.f64 %x0, %x0, %t1; mul.f64 %t1, %g0, %x0; add.u32 %r9, %r9, 1;"
AGAIN = {
    "counted": "setp.lt.u32 %c1, %r9, 3;",
    "up to what is read": "setp.lt.u32 %c1, %r9, %r1;",
    "decided by a float": "setp.lt.f64 %c1, %x0, 1.0;",
}
UNSURE = {
    "carried, counted":            (LOOP + AGAIN["counted"] + "@%c1 bra L;", True),
    "carried, up to what is read": (LOOP + AGAIN["up to what is read"] + "@%c1 bra L;", True),
    "carried, decided by a float": (LOOP + AGAIN["decided by a float"] + "@%c1 bra L;", False),
    "carried, counted, later bra": (LOOP + AGAIN["counted"] + "setp.lt.f64 %c2, %x0, 1.0; add.u32 %r10, %r9, 1; @%c1 bra L;", True),
    "decided by a float, later":   (LOOP + AGAIN["decided by a float"] + "setp.lt.u32 %c2, %r9, 3; add.u32 %r10, %r9, 1; @%c1 bra L;", False),
    "invariant, counted":          (AB + LOOP + "add.f64 %x0, %x0, %t0;" + AGAIN["counted"] + "@%c1 bra L;", True),
    "within the loop":             (LOOP.replace("%x0, %x0, %t1;", "%x0, %x0, %g4;") + "add.f64 %x0, %x0, %t1;" + AGAIN["counted"] + "@%c1 bra L;", False),
    "behind a branch":             (AB + "@%p9 bra L; add.f64 %x0, %g2, %t0; L:", False),
    "a sum again":                 (AB + "add.f64 %x0, %g2, %t0; @%p9 bra L; add.f64 %x1, %t0, %g2; L:", True),
    "a factor changes":            (AB + "mov.f64 %g0, %g3; add.f64 %x0, %g2, %t0;", True),
    **{name: (body, False) for name, (body, _) in CASES.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", UNSURE)
def test_a_sum_that_ptxas_may_fuse_or_not_is_told(name):
    """ptxas 13.0 fuses the sums that are told, or some of their copies in an unrolled loop, and smemsim does not."""
    body, unsure = UNSURE[name]
    module = read_module(kernel(1, LOADS + body + STORES, locals_=NEW))
    assert bool(fuse(inline(module, module.entries[0])).unsure) == unsure


# A register that a later stretch gives another value is free: only what may use the product there keeps it rounded.
LATER = AB + "add.f64 %x0, %g2, %t0; setp.lt.u32 %c1, %r1, 7; @%c1 bra L; mov.f64 %x2, %g2; {}"
OTHER_STRETCH = {
    "given again":             ("L: mov.f64 %t0, %g4; add.f64 %x1, %t0, %g3;", True),
    "not used":                ("L: add.f64 %x1, %g4, %g3;", True),
    "given again both ways":   ("mov.f64 %t0, %g4; bra M; L: mov.f64 %t0, %g5; M: add.f64 %x1, %t0, %g3;", True),
    "given again one way":     ("mov.f64 %t0, %g4; L: add.f64 %x1, %t0, %g3;", False),
    "given again by some":     ("L: @%c1 mov.f64 %t0, %g4; add.f64 %x1, %t0, %g3;", False),
    "used, then given again":  ("L: add.f64 %x1, %t0, %g3; mov.f64 %t0, %g4;", False),
    "given again by its own":  ("L: abs.f64 %t0, %t0; add.f64 %x1, %t0, %g3;", False),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_STRETCH)
def test_a_product_is_fused_if_no_other_stretch_may_use_it(name):
    then, is_fused = OTHER_STRETCH[name]
    body = LOADS + "mov.f64 %x1, 0d0000000000000000; mov.f64 %x2, %x1;" + LATER.format(then) + "\n" + STORES
    (out,) = launch(body, memory(), block=THREADS, text={"locals_": NEW})
    np.testing.assert_array_equal(out[6], fused(A, B, C) if is_fused else product(A, B) + C)


@examples(60)
@given(
    st.tuples(*[st.floats(-(2.0**60), 2.0**60, width=32)] * 3), st.sampled_from(["add.f32 %f4, %f3, %f2;", "sub.f32 %f4, %f3, %f2;", "sub.f32 %f4, %f2, %f3;"])
)  # fmt: skip
def test_a_fused_f32_is_one_rounding(numbers, total):
    memory = np.array([*numbers, 0], np.float32)
    body = (
        "ld.global.f32 %f0, [%d20]; ld.global.f32 %f1, [%d20+4]; ld.global.f32 %f3, [%d20+8]; mul.f32 %f2, %f0, %f1;"
        + total
        + "st.global.f32 [%d20+12], %f4;"
    )
    one = launch(body, memory, block=1)[0][3]
    asked = "fma.rn.f32 %f4, %f0, %f1, %f3;" if total.startswith("add") else "neg.f32 %f5, %f0; fma.rn.f32 %f4, %f5, %f1, %f3;"
    if total == "sub.f32 %f4, %f2, %f3;":
        asked = "neg.f32 %f5, %f3; fma.rn.f32 %f4, %f0, %f1, %f5;"
    two = launch(body.replace("mul.f32 %f2, %f0, %f1;" + total, asked), memory, block=1)[0][3]
    assert one.tobytes() == two.tobytes()


@examples(40)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_addc_behind_a_difference_counts_what_was_not_borrowed(a, b):
    memory = np.array([a, b, 0, 0], np.uint64)
    body = """ld.global.v2.b32 {%r2, %r3}, [%d20]; ld.global.v2.b32 {%r4, %r5}, [%d20+8];
    sub.cc.u32 %r6, %r2, %r4; subc.cc.u32 %r7, %r3, %r5; addc.u32 %r8, 0, 0; st.global.v2.b32 [%d20+16], {%r6, %r7}; st.global.b32 [%d20+24], %r8;"""
    (out,) = launch(body, memory, block=1)
    assert (int(out[2]), int(out[3])) == ((a - b) % 2**64, int(a >= b))


@examples(40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["eq", "gt", "le", "neu", "nan"]),
    st.sampled_from(["f16", "bf16"]),
)
def test_set_of_packed_halves_makes_a_mask_of_what_each_half_gives(a, b, comparison, kind):
    memory = np.array([a, b, 0, 0, 0], np.uint32)
    body = f"""ld.global.b32 %r2, [%d20]; ld.global.b32 %r3, [%d20+4]; set.{comparison}.u32.{kind}x2 %r4, %r2, %r3; st.global.b32 [%d20+8], %r4;
    mov.b32 {{%h1, %h2}}, %r2; mov.b32 {{%h3, %h4}}, %r3; setp.{comparison}.{kind} %p1, %h1, %h3; setp.{comparison}.{kind} %p2, %h2, %h4;
    selp.u32 %r5, 0xffff, 0, %p1; selp.u32 %r6, 0xffff0000, 0, %p2; st.global.b32 [%d20+12], %r5; st.global.b32 [%d20+16], %r6;"""
    (out,) = launch(body, memory, block=1)
    assert out[2] == out[3] | out[4]


@examples(30)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=2), st.sampled_from(["eq", "lt", "geu"]), st.sampled_from(["and", "or", "xor"]),
       st.sampled_from(["f16", "bf16"]), st.sampled_from(["{kind}x2", "u32"]), st.booleans())  # fmt: skip
def test_set_of_packed_halves_combines_each_half_with_the_predicate(words, comparison, combine, kind, to, predicate):
    """So does the same of single halves."""
    memory = np.array([*words, 0, 0], np.uint32)
    to, one = to.format(kind=kind), "u16" if to == "u32" else kind
    body = f"""ld.global.b32 %r2, [%d20]; ld.global.b32 %r3, [%d20+4]; setp.eq.u32 %p1, 1, {int(predicate)}; set.{comparison}.{combine}.{to}.{kind}x2 %r4, %r2, %r3, %p1;
    mov.b32 {{%h1, %h2}}, %r2; mov.b32 {{%h3, %h4}}, %r3; set.{comparison}.{combine}.{one}.{kind} %h5, %h1, %h3, %p1; set.{comparison}.{combine}.{one}.{kind} %h6, %h2, %h4, %p1;
    mov.b32 %r5, {{%h5, %h6}}; st.global.v2.b32 [%d20+8], {{%r4, %r5}};"""
    (out,) = launch(body, memory, block=1)
    assert out[2] == out[3]


FUSED_HALVES = {
    "sub.{k} %r4, %r3, %t0;": "neg.{k} %t1, %r1; fma.rn.{k} %r4, %t1, %r2, %r3;",
    "sub.{k} %r4, %t0, %r3;": "neg.{k} %t1, %r3; fma.rn.{k} %r4, %r1, %r2, %t1;",
    "add.{k} %r4, %t0, %r3;": "fma.rn.{k} %r4, %r1, %r2, %r3;",
    # a product that another sum has taken is rounded for this one; packed types choose in program order, others by their uses
    "mul.{k} %t1, %r2, %r3; add.{k} %r5, %r1, %t1; sub.{k} %r4, %t0, %t1;": {
        True: "fma.rn.{k} %r5, %r2, %r3, %r1; mul.rn.{k} %t1, %r2, %r3; neg.{k} %t1, %t1; fma.rn.{k} %r4, %r1, %r2, %t1;",
        False: "mul.rn.{k} %t1, %r2, %r3; add.rn.{k} %r5, %r1, %t1; neg.{k} %t1, %t1; fma.rn.{k} %r4, %r1, %r2, %t1;",
    },
}


@pytest.mark.parametrize("total", FUSED_HALVES)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f16x2", "bf16x2"])
def test_products_of_halves_are_fused_as_those_of_wide_numbers(kind, total):
    """One rounding, with the signs that the sum says; NaNs and infinities included."""
    asked = FUSED_HALVES[total]
    asked = asked[kind.endswith("x2")] if isinstance(asked, dict) else asked
    size = 4 if kind.endswith("x2") else 2
    given = np.random.default_rng(3).integers(0, 1 << 32, (3, 256), np.uint32)
    given[:, ::2] = given[:, ::2] & 0x83FF83FF | 0x3C003C00  # around one
    registers = f".reg .b{8 * size} %t<2>, %s<6>;"
    loads = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1;" + "".join(
        f"ld.global.b{8 * size} %s{n}, [%d1+{1024 * n - 1024}];" for n in (1, 2, 3)
    )
    stores = f"st.global.b{8 * size} [%d1+3072], %s4; st.global.b{8 * size} [%d1+4096], %s5;"
    found = []
    for lines in ("mul.{k} %t0, %r1, %r2; " + total, asked):
        body = f"{loads} mov.b{8 * size} %s5, %s1; {lines.format(k=kind).replace('%r', '%s')} {stores}"
        memory = np.concatenate([given.ravel(), np.zeros(512, np.uint32)])
        found.append(launch(body, memory, block=256, text={"locals_": registers}.items())[0][768:].tolist())
    assert found[0] == found[1]


def test_bytes_of_one_word_by_two_warps_are_no_race():
    """Bytes 4 n to 4 n + 3 belong to threads n, n + 8, n + 16 and so on of all warps."""
    place = "mov.u32 %r5, sm; shr.u32 %r6, %r1, 4; and.b32 %r7, %r1, 15; mad.lo.u32 %r4, %r7, 4, %r5; add.u32 %r4, %r4, %r6;"
    body = (
        place
        + "cvt.u16.u32 %h1, %r1; st.shared.u8 [%r4], %h1; ld.shared.u8 %h2, [%r4]; cvt.u32.u16 %r8, %h2; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; st.global.u32 [%d2], %r8;"
    )
    (out,) = launch(body, np.zeros(64, np.uint32), block=64)
    assert out.tolist() == list(range(64))


def test_the_same_bytes_by_two_warps_are_a_race():
    """Unless they write the same value."""
    body = """mov.u32 %r5, sm; and.b32 %r7, %r1, 31; add.u32 %r4, %r5, %r7; mov.u16 %h1, 7; setp.lt.u32 %p8, %r1, 32;
    @%p8 st.shared.u8 [%r4], %h1;{}
    @!%p8 st.shared.u8 [%r4], %h1;"""
    assert set(found(body.format("mov.u16 %h1, 8;"), block=64)) == {"X008"}
    assert found(body.format(""), block=64) == {}


def test_a_byte_of_a_word_that_another_warp_wrote_whole_is_a_race():
    body = """mov.u32 %r5, sm; and.b32 %r7, %r1, 31; mad.lo.u32 %r4, %r7, 4, %r5; setp.lt.u32 %p8, %r1, 32;
    @%p8 st.shared.u32 [%r4], %r1;
    mov.u16 %h1, 5; @!%p8 st.shared.u8 [%r4+3], %h1;"""
    assert set(found(body, block=64)) == {"X008"}
