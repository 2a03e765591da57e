"""What tcgen05.mma makes of numbers: directed probes of the dot product, and random ones; D's bits beside the inputs'."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
from fractions import Fraction
from typing import Any

import numpy as np

from bench import Bench
from blackwell import pages
from blackwell.contents import LANES, k_bytes, matrix_word
from blackwell.draw import SCALE_A_COLUMN, SCALE_B_COLUMN, kinds
from blackwell.machine import WAIT
from blackwell.pages import expanded, in_processes
from blackwell.words import BLOCK_SCALED, ELEMENTS, KINDS, Element, instruction_descriptor

Case = dict[str, Any]
A_AT, B_AT = 0x4000, 0x10000
N = 16  # columns of D; every launch gives 128 x 16 dot products
F32 = Element("f32", 0, 32, 4, 8, 8, 23, 127)


@dataclasses.dataclass(frozen=True)
class Instruction:
    kind: str
    a: str
    b: str
    d: str = "f32"
    vector: str = ""  # .block16 or .block32
    ue8m0: bool = True

    @property
    def k(self) -> int:
        return KINDS[self.kind][0]

    @property
    def form(self) -> str:
        return f"{self.kind}{self.vector}.ss"


def instructions() -> list[Instruction]:
    out = [Instruction("f16", a, b) for a in ("f16", "bf16") for b in ("f16", "bf16")]
    out += [Instruction("f16", "f16", "f16", "f16"), Instruction("tf32", "tf32", "tf32")]
    for a, b in (
        ("e4m3", "e4m3"),
        ("e5m2", "e5m2"),
        ("e4m3", "e5m2"),
        ("e2m1", "e2m1"),
        ("e3m2", "e3m2"),
        ("e2m3", "e2m3"),
        ("e2m1", "e4m3"),
        ("e3m2", "e5m2"),
    ):
        out.append(Instruction("f8f6f4", a, b))
        out.append(Instruction("mxf8f6f4", a, b, vector=".block32"))
    out += [Instruction("f8f6f4", "e4m3", "e4m3", "f16"), Instruction("f8f6f4", "e5m2", "e5m2", "f16")]
    out += [Instruction("i8", a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")]
    out += [Instruction("mxf4", "e2m1x2", "e2m1x2", vector=".block32"), Instruction("mxf4nvf4", "e2m1x2", "e2m1x2", vector=".block32")]
    out += [Instruction("mxf4nvf4", "e2m1x2", "e2m1x2", vector=".block16", ue8m0=ue8m0) for ue8m0 in (True, False)]
    return [i for i in out if i.kind in kinds()]


# ------------------------------------------------------------------------------------------------------------------ directed probes

Term = tuple[Fraction, Fraction]
POWER = Fraction(2)


@functools.cache
def bits(element: Element, value: Fraction | int) -> int | None:
    try:
        return element.encode(value)
    except ValueError:
        return None


@functools.cache
def factors(a: Element, b: Element, value: Fraction) -> Term | None:
    """Two powers of two, or a number and a power, that multiply to `value`: the one in `a`, the other in `b`, neither of them small if it can be helped."""
    for e in sorted(range(-150, 151), key=abs):
        x, y = value / POWER**e, POWER**e
        if bits(a, x) is not None and bits(b, y) is not None:
            return x, y
    return None


def directed(i: Instruction) -> list[tuple[str, list[tuple[int, int]], int]]:
    """(name, codes of A and B by k, bits of C). What cannot be written in the formats is left out."""
    a, b = ELEMENTS[i.a], ELEMENTS[i.b]
    out: list[tuple[str, list[tuple[int, int]], int]] = []
    half = Element("f16", 0, 16, 8, 8, 5, 10, 15)

    def add(name: str, terms: list[Fraction | Term | tuple[str, int, int]], c: Fraction | int = 0, at: tuple[int, ...] = ()) -> None:
        codes = [(0, 0)] * i.k
        for position, term in zip(at or tuple(range(len(terms))), terms, strict=False):
            if isinstance(term, tuple) and len(term) == 3:
                codes[position] = term[1:]
                continue
            pair = term if isinstance(term, tuple) else factors(a, b, term)
            if pair is None:
                return
            x, y = bits(a, pair[0]), bits(b, pair[1])
            if x is None or y is None:
                return
            codes[position] = (x, y)
        word = c if isinstance(c, int) and c > 1 << 16 else bits(half if i.d == "f16" else F32, Fraction(c))
        if i.d == "s32":
            word = int(c) & 0xFFFFFFFF
        if word is not None:
            out.append((name, codes, int(word)))

    if i.d == "s32":
        low = 0 if not a.signed else -128
        for name, x, y, c in (
            ("largest", 127, 127, 0x7FFFFF00),
            ("smallest", low, 127, -0x7FFFFF00),
            ("wrap", 127, 127, 0x7FFFFFFF),
            ("zero", 0, 0, -1),
        ):
            add(name, [(Fraction(x), Fraction(y))] * i.k, c)
        return out
    one = Fraction(1)
    big = next(POWER**e for e in range(14, -1, -1) if factors(a, b, POWER**e) and factors(a, b, -(POWER**e)))
    for down in range(8, 40):  # how many bits below the largest term are kept, of a product and of C
        add(f"keep {down}", [big, -big, big / POWER**down])
        add(f"keep c {down}", [big, -big], big / POWER**down)
        add(f"c leads {down}", [-big, big / POWER**down], big)
    for down in (11, 12, 13, 14, 23, 24, 25, 26, 33, 34, 35, 36):  # truncated, and toward what
        for sign in (1, -1):
            for part in (Fraction(7, 4), Fraction(3, 2), Fraction(5, 4)):
                add(f"cut {down}", [big, -big, sign * part * big / POWER**down])
                add(f"cut c {down}", [big, -big], sign * part * big / POWER**down)
    rng = random.Random(9601)
    small = [v for v in (big / POWER**down for down in range(20, 44)) if factors(a, b, v)]
    for _ in range(40):  # one sum, or several in a chain: a cancelling pair anywhere, small terms everywhere else
        x, y = rng.sample(range(i.k), 2)
        rest = [k for k in range(i.k) if k not in (x, y)]
        value = rng.choice(small[-6:]) if small else Fraction(0)
        add("pair", [big, -big, *[value] * len(rest)], value, at=(x, y, *rest))
    add("normalised", [(Fraction(3, 2) * 2, Fraction(3, 2) * 4), (-Fraction(3, 2) * 2, Fraction(3, 2) * 4)], 36 / POWER**25)
    for part in (Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)):  # how D is rounded
        for sign in (1, -1):
            add("round", [sign * one / 4] * 4, sign * part / POWER**23)
            add("round f16", [sign * one / 2, sign * one / 2, sign * part / POWER**10])
    lowest_a = POWER ** (1 - a.bias - a.fraction_bits)
    lowest_b = POWER ** (1 - b.bias - b.fraction_bits)
    add("subnormals", [(lowest_a, lowest_b)])
    add("subnormal and one", [(lowest_a, one)])
    add("minus subnormal", [(-lowest_a, lowest_b)])
    for k in range(145, 180):  # the floor under the exponents when everything is tiny
        add(f"floor {k}", [POWER**-149, -(POWER**-k)])
    for k in range(18, 30):
        add(f"zero and 2^-{k}", [(Fraction(0), big), one / POWER**k])
    for name, c in (
        ("c minus zero", 0x80000000),
        ("c nan", 0x7FC00001),
        ("c inf", 0x7F800000),
        ("c -inf", 0xFF800000),
        ("c max", 0x7F7FFFFF),
    ):
        if i.d == "f32":
            add(name, [], c)
            add(name + " and one", [one], c)
            add(name + " and minus one", [-one], c)
    if a.exponent_bits in (5, 8) and a.name != "e4m3":
        top = (1 << a.exponent_bits) - 1 << a.fraction_bits
        sign = 1 << a.exponent_bits + a.fraction_bits
        unit = b.encode(1)
        for name, codes in (
            ("inf", [top]),
            ("-inf", [top | sign]),
            ("inf - inf", [top, top | sign]),
            ("nan", [top | 1]),
            ("-nan", [top | sign | 1]),
        ):
            add(name, [("bits", code, unit) for code in codes])
        add("inf times zero", [("bits", top, 0)])
        add("nan low bits", [("bits", top | 1, unit), ("bits", 1, unit)])
    if a.name == "e4m3":
        add("nan", [("bits", 0x7F, b.encode(1))])
        add("-nan", [("bits", 0xFF, b.encode(1))])
    if a.name == "tf32":
        for code in (0x3F803FFF, 0x7F800001, 0x00001FFF, 0x7F801FFF):
            add("low bits", [("bits", code, b.encode(1))])
    return out


def random_rows(i: Instruction, style: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of A (128, K) and B (N, K), bits of C (128, N)."""
    rng = np.random.default_rng(seed)
    a, b = ELEMENTS[i.a], ELEMENTS[i.b]

    def draw(element: Element, rows: int) -> np.ndarray:
        raw = rng.integers(0, 1 << element.bits, (rows, i.k), np.uint64).astype(np.uint32)
        if element.integer or style == 0 or element.bits < 8:
            thin = raw
        else:
            field = (1 << element.exponent_bits) - 1
            spread = (2, 6, 1, 3)[style % 4]
            middle = {1: element.bias, 2: element.bias, 3: 1, 4: min(field - 2, element.bias + field // 3)}.get(style, element.bias)
            exponent = np.clip(middle + rng.integers(-spread, spread + 1, raw.shape), 0, field - 1).astype(np.uint32)
            shift = np.uint32(element.fraction_bits)
            mask = np.uint32(~(field << element.fraction_bits) & 0xFFFFFFFF)
            thin = (raw & mask) | exponent << shift
        zero = rng.random(thin.shape) < (0.4 if style == 3 else 0.05)
        return np.where(zero, 0, thin).astype(np.uint32)

    rows, columns = draw(a, LANES), draw(b, N)
    if style == 2 and not a.integer:  # planted pairs that cancel
        sign = np.uint32(1 << a.bits - 1)
        rows[:, 1::2] = rows[:, ::2] ^ sign
        columns[:, 1::2] = columns[:, ::2]
    if i.d == "f32":
        c = rng.standard_normal((LANES, N)).astype(np.float32)
        c = (c * np.float32(2.0) ** rng.integers(-10, 10, c.shape)).astype(np.float32).view(np.uint32)
    elif i.d == "f16":
        c = rng.standard_normal((LANES, N)).astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        c = rng.integers(0, 1 << 32, (LANES, N), np.uint64).astype(np.uint32)
    return rows, columns, np.where(rng.random(c.shape) < 0.2, 0, c).astype(np.uint32)


def case(i: Instruction, what: str, rows: np.ndarray, columns: np.ndarray, c: np.ndarray, *, scales: tuple[int, int] = (0x7F7F7F7F, 0x7F7F7F7F),
         enable: int = 1, repeat: int = 1, saturate: bool = False) -> Case:  # fmt: skip
    """One launch: D = A B + C, `repeat` times into the same D without waiting in between."""
    if i.d == "s32":
        idesc = instruction_descriptor(i.kind, i.a, i.b, m=128, n=N, d=i.d, saturate=saturate)
    else:
        idesc = instruction_descriptor(i.kind, i.a, i.b, m=128, n=N, d=i.d, ue8m0=i.ue8m0)
    step = {
        "op": i.form, "a": matrix_word(A_AT, k_bytes(ELEMENTS[i.a], i.k)), "b": matrix_word(B_AT, k_bytes(ELEMENTS[i.b], i.k)), "idesc": idesc,
        "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN, "enable_d": enable,
    }  # fmt: skip
    steps = [{**step, "flags": 0, "enable_d": 1 if n else enable} for n in range(repeat)]
    steps[-1]["flags"] = WAIT
    shared = [["zeros"], [i.a, A_AT, "codes", LANES, i.k, rows.ravel().tolist()], [i.b, B_AT, "codes", N, i.k, columns.ravel().tolist()]]
    tensor = [[0, N, "words", c.ravel().tolist()], [SCALE_A_COLUMN, 32, "word", scales[0]], [SCALE_B_COLUMN, 32, "word", scales[1]]]
    return {
        "group": 1, "columns": [0, 32], "steps": steps, "passes": [{"shared": [shared], "tensor": [tensor]}], "what": what, "instruction": vars(i),
        "scales": scales, "repeat": repeat, "saturate": saturate, "data": (rows.tolist(), columns.tolist(), c.tolist()),
    }  # fmt: skip


def one_scales(i: Instruction) -> tuple[int, int]:
    word = 0x7F7F7F7F if i.ue8m0 else 0x38383838
    return word, word


def directed_cases() -> list[Case]:
    """Probe p of an instruction lies in row p % 16 and column p % 16 of launch p / 16; the other products of rows and columns are kept too."""
    out = []
    for i in instructions():
        probes = directed(i)
        for first in range(0, len(probes), N):
            rows, columns = np.zeros((LANES, i.k), np.uint32), np.zeros((N, i.k), np.uint32)
            c = np.zeros((LANES, N), np.uint32)
            names = []
            for p, (name, codes, word) in enumerate(probes[first : first + N]):
                rows[p], columns[p] = np.array(codes, np.uint32).T
                c[p, p] = word
                names.append(name)
            out.append(case(i, "; ".join(names), rows, columns, c, scales=one_scales(i)))
    return out


def random_cases(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []
    for i in instructions():
        for style in range(5):
            rows, columns, c = random_rows(i, style, rng.getrandbits(30))
            scales = one_scales(i)
            if i.kind in BLOCK_SCALED and style:
                scales = (rng.getrandbits(32), rng.getrandbits(32)) if style == 4 else tuple(
                    sum(((120 if i.ue8m0 else 0x30) + rng.randrange(16)) << 8 * byte for byte in range(4)) for _ in range(2)
                )  # fmt: skip
            out.append(case(i, f"random {style}", rows, columns, c, scales=scales))
        rows, columns, c = random_rows(i, 1, rng.getrandbits(30))
        out.append(case(i, "chained", rows, columns, c, scales=one_scales(i), repeat=3))
        if i.d == "s32":
            for sign in (0, 1):
                limit = np.where(c & 1, 0x7FFFFF00, 0x80000100).astype(np.uint32)
                out.append(case(i, "saturate", rows, columns, limit, saturate=bool(sign)))
        else:  # what stands in D before must not matter
            poison = np.full_like(c, 0x7FC00000 if i.d == "f32" else 0x7E00)
            out.append(case(i, "ignored c", rows, columns, poison, scales=one_scales(i), enable=0))
    return out


def write_dots(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes("blackwell_machine", [{k: c[k] for k in ("group", "columns", "steps", "passes")} for c in chosen])
    pages.report(suite, answers)
    d = np.zeros((len(chosen), LANES, N), np.uint32)
    for at, a in enumerate(answers):
        if "words" in a:
            d[at] = expanded(a["words"], np.uint32).reshape(LANES, 32)[:, :N]

    def codes(index: int) -> np.ndarray:
        return np.concatenate([np.array(c["data"][index], np.uint32).ravel() for c in chosen])

    def starts(index: int) -> np.ndarray:
        return np.cumsum([0, *(np.array(c["data"][index]).size for c in chosen)]).astype(np.int64)

    pages.write(
        bench, out, suite, "tcgen05_dot", title, seed, len(chosen),
        {
            "what": np.array([c["what"] for c in chosen]),
            **{name: np.array([c["instruction"][name] for c in chosen]) for name in ("kind", "a", "b", "d", "vector")},
            "ue8m0": np.array([c["instruction"]["ue8m0"] for c in chosen], np.uint8),
            "idesc": np.array([c["steps"][0]["idesc"] for c in chosen], np.uint32),
            "enable_d": np.array([c["steps"][0]["enable_d"] for c in chosen], np.uint8),
            "repeat": np.array([c["repeat"] for c in chosen], np.uint8),
            "scale_words": np.array([c["scales"] for c in chosen], np.uint32),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
            "rows": codes(0),
            "rows_start": starts(0),
            "columns": codes(1),
            "columns_start": starts(1),
            "c": np.array([c["data"][2] for c in chosen], np.uint32),
            "result": d,
        },
    )  # fmt: skip


def tcgen05_dots_directed(bench: Bench, out: pathlib.Path) -> None:
    title = "Dot products made to tell one way of summing from another: bits kept, truncation, rounding, floors, zeros, NaNs, infinities"
    write_dots(bench, out, "tcgen05_dots_directed", title, 9601, directed_cases())


def tcgen05_dots(bench: Bench, out: pathlib.Path) -> None:
    title = "Random dot products of every kind: raw bits, near one, cancelling, tiny with many zeros, large; scales by block of K; chained; saturated"
    write_dots(bench, out, "tcgen05_dots", title, 9602, random_cases(9602))


SUITES = {"tcgen05_dots_directed": tcgen05_dots_directed, "tcgen05_dots": tcgen05_dots}
