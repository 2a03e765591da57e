"""The sums of tcgen05.mma: directed probes of the dot product, and random ones. D's bits are next to the inputs'."""

from __future__ import annotations

import functools
import pathlib
import random
from typing import Any, NamedTuple

import numpy as np

from smemsim.capture.bench import Bench, in_processes
from smemsim.capture.blackwell import pages
from smemsim.capture.blackwell.builder import Instruction, instructions
from smemsim.capture.blackwell.contents import LANES, k_bytes, matrix_word
from smemsim.capture.blackwell.directed import directed
from smemsim.capture.blackwell.draw import META_COLUMN, SCALE_A_COLUMN, SCALE_B_COLUMN, UNIFORM
from smemsim.capture.blackwell.layouts import documented
from smemsim.capture.blackwell.machine import WAIT
from smemsim.capture.blackwell.pages import expanded
from smemsim.capture.blackwell.words import BLOCK_SCALED, ELEMENTS, Element, instruction_descriptor

Case = dict[str, Any]
A_AT, B_AT = 0x4000, 0x10000
M, N = 128, 16  # every launch gives 128 x 16 dot products


class Way(NamedTuple):
    """One of the instruction's forms, in which D is 128 x `n` and its first 16 columns count."""

    group: int = 1
    n: int = N
    ws: bool = False
    sparse: bool = False
    half: int = 0  # which half of each group of K a sparse A keeps, everywhere


WAYS = (Way(), Way(sparse=True), Way(sparse=True, half=1), Way(n=64, ws=True), Way(group=2))


def random_rows(i: Instruction, style: int, seed: int, *, sparse: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of A (128, stored K) and B (N, K), bits of C (128, N)."""
    rng = np.random.default_rng(seed)
    a, b = ELEMENTS[i.a], ELEMENTS[i.b]

    def draw(element: Element, rows: int, k: int) -> np.ndarray:
        raw = rng.integers(0, 1 << element.bits, (rows, k), np.uint64).astype(np.uint32)
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

    rows, columns = draw(a, M, i.k), draw(b, N, 2 * i.k if sparse else i.k)
    if style == 2 and not a.integer:  # planted pairs that cancel
        sign = np.uint32(1 << a.bits - 1)
        rows[:, 1::2] = rows[:, ::2] ^ sign
        columns[:, 1::2] = columns[:, ::2]
    if i.d == "f32":
        c = rng.standard_normal((M, N)).astype(np.float32)
        c = (c * np.float32(2.0) ** rng.integers(-10, 10, c.shape)).astype(np.float32).view(np.uint32)
    elif i.d == "f16":
        c = rng.standard_normal((M, N)).astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        c = rng.integers(0, 1 << 32, (M, N), np.uint64).astype(np.uint32)
    return rows, columns, np.where(rng.random(c.shape) < 0.2, 0, c).astype(np.uint32)


@functools.cache
def places_of_d(way: Way) -> np.ndarray:
    """(CTA, lane, column) of the 128 x 16 elements of D that count, as the PTX ISA has them: (3, 128, 16)."""
    about = {"group": way.group, "ws": way.ws, "sparse": way.sparse}
    return np.array([[documented(M, way.n, m, n, **about) for n in range(N)] for m in range(M)]).transpose(2, 0, 1)


def case(i: Instruction, what: str, rows: np.ndarray, columns: np.ndarray, c: np.ndarray, *, scales: tuple[int, int] | None = None,
         enable: int = 1, repeat: int = 1, saturate: bool = False, way: Way = WAYS[0]) -> Case:  # fmt: skip
    """One launch: D = A B + C, `repeat` times into the same D without waiting in between."""
    more = {"saturate": saturate} if i.d == "s32" else {"ue8m0": i.ue8m0}
    idesc = instruction_descriptor(i.kind, i.a, i.b, m=M, n=way.n, d=i.d, sparse=way.sparse, **more)
    scales = scales or i.one_scales
    stored, k = rows.shape[1], columns.shape[1]
    op = f"{i.form}{'.sp' if way.sparse else ''}{'.ws' if way.ws else ''}"
    step = {
        "op": op, "a": matrix_word(A_AT, k_bytes(ELEMENTS[i.a], stored)), "b": matrix_word(B_AT, k_bytes(ELEMENTS[i.b], k)), "idesc": idesc,
        "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN, "meta": META_COLUMN, "enable_d": enable,
    }  # fmt: skip
    steps = [{**step, "flags": 0, "enable_d": 1 if n else enable} for n in range(repeat)]
    steps[-1]["flags"] = WAIT
    held = np.zeros((way.group, LANES, N), np.uint32)
    held[tuple(places_of_d(way))] = c
    shared, tensor = [], []
    for cta in range(way.group):  # a pair shares out the rows of A and of B
        mine = [x[cta * len(x) // way.group : (cta + 1) * len(x) // way.group] for x in (rows, columns)]
        a, b = ([dtype, at, "codes", *x.shape, x.ravel().tolist()] for dtype, at, x in zip((i.a, i.b), (A_AT, B_AT), mine, strict=True))
        shared.append([["zeros"], a, b])
        tensor.append([
            [0, N, "words", held[cta].ravel().tolist()], [SCALE_A_COLUMN, 32, "word", scales[0]], [SCALE_B_COLUMN, 32, "word", scales[1]],
            *([[META_COLUMN, 8, "word", UNIFORM[way.half]]] if way.sparse else []),
        ])  # fmt: skip
    return {
        "group": way.group, "columns": [0, 32], "steps": steps, "passes": [{"shared": shared, "tensor": tensor}], "what": what,
        "instruction": vars(i), "scales": scales, "repeat": repeat, "saturate": saturate, "way": way._asdict(),
        "data": (rows.tolist(), columns.tolist(), c.tolist()),
    }  # fmt: skip


def directed_cases() -> list[Case]:
    """Probes with the same scale factors and the same choice whether D is added. A launch has 16 probes, each in the
    row and column of its number. The other products of these rows and columns are kept too."""
    out = []
    for i in instructions():
        alike: dict[tuple[Any, ...], list[Any]] = {}
        for probe in directed(i):
            alike.setdefault((probe.scales, probe.enable), []).append(probe)
        for (scales, enable), probes in alike.items():
            for first in range(0, len(probes), N):
                rows, columns = np.zeros((M, i.k), np.uint32), np.zeros((N, i.k), np.uint32)
                c = np.zeros((M, N), np.uint32)
                some = probes[first : first + N]
                for p, probe in enumerate(some):
                    rows[p], columns[p] = np.array(probe.codes, np.uint32).T
                    c[p, p] = probe.c
                out.append(case(i, "; ".join(probe.name for probe in some), rows, columns, c, scales=scales, enable=enable))
    return out


def random_cases(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []
    for i in instructions():
        for style in range(5):
            rows, columns, c = random_rows(i, style, rng.getrandbits(30))
            scales = i.one_scales
            if i.kind in BLOCK_SCALED and style:
                scales = (rng.getrandbits(32), rng.getrandbits(32)) if style == 4 else tuple(
                    sum(((120 if i.ue8m0 else 0x30) + rng.randrange(16)) << 8 * byte for byte in range(4)) for _ in range(2)
                )  # fmt: skip
            out.append(case(i, f"random {style}", rows, columns, c, scales=scales))
        rows, columns, c = random_rows(i, 1, rng.getrandbits(30))
        out.append(case(i, "chained", rows, columns, c, scales=i.one_scales, repeat=3))
        if i.d == "s32":
            for sign in (0, 1):
                limit = np.where(c & 1, 0x7FFFFF00, 0x80000100).astype(np.uint32)
                out.append(case(i, "saturate", rows, columns, limit, saturate=bool(sign)))
        else:  # what stands in D before must not matter
            poison = np.full_like(c, 0x7FC00000 if i.d == "f32" else 0x7E00)
            out.append(case(i, "ignored c", rows, columns, poison, scales=i.one_scales, enable=0))
    return out + hard_cases(rng)


def hard_cases(rng: random.Random) -> list[Case]:
    """The instruction's other forms, on numbers whose sums have to be rounded: is it the same arithmetic?"""
    out = []
    for i in instructions():
        chosen = (i.kind, i.a, i.d) in (("f16", "bf16", "f32"), ("f16", "f16", "f16"), ("tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "f32"))
        scaled = i.kind in BLOCK_SCALED and i.vector != ".block16" and i.a in ("e4m3", "e2m1x2")
        for way in WAYS[1:]:
            if (chosen and i.a == i.b) or (scaled and way.sparse):
                for style in (1, 2, 4):
                    rows, columns, c = random_rows(i, style, rng.getrandbits(30), sparse=way.sparse)
                    scales = None if i.kind not in BLOCK_SCALED else (0x79828281, 0x7D7E8182)
                    out.append(case(i, f"random {style}", rows, columns, c, scales=scales, way=way))
    return out


def write_dots(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes("blackwell_machine", [{k: c[k] for k in ("group", "columns", "steps", "passes")} for c in chosen])
    pages.report(suite, answers)
    ways = [Way(**c["way"]) for c in chosen]
    where = {way: tuple(places_of_d(way)) for way in set(ways)}
    d = np.zeros((len(chosen), M, N), np.uint32)
    for at, (way, a) in enumerate(zip(ways, answers, strict=True)):
        if "words" in a:
            d[at] = expanded(a["words"], np.uint32).reshape(way.group, LANES, 32)[where[way]]

    def codes(index: int) -> np.ndarray:
        return np.concatenate([np.array(c["data"][index], np.uint32).ravel() for c in chosen])

    def starts(index: int) -> np.ndarray:
        return np.cumsum([0, *(np.array(c["data"][index]).size for c in chosen)]).astype(np.int64)

    bench.write(
        out, suite, "tcgen05_dot", title, seed, len(chosen),
        {
            "what": np.array([c["what"] for c in chosen]),
            **{name: np.array([c["instruction"][name] for c in chosen]) for name in ("kind", "a", "b", "d", "vector")},
            "ue8m0": np.array([c["instruction"]["ue8m0"] for c in chosen], np.uint8),
            "form": np.array([c["steps"][0]["op"] for c in chosen]),
            "group": np.array([way.group for way in ways], np.uint8),
            "metadata": np.array([UNIFORM[way.half] if way.sparse else 0 for way in ways], np.uint32),
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
    title = "Dot products made to tell one way of summing from another: bits kept, rounding, floors, overflow, zeros, NaNs, scale factors"
    write_dots(bench, out, "tcgen05_dots_directed", title, 9601, directed_cases())


def tcgen05_dots(bench: Bench, out: pathlib.Path) -> None:
    title = "Random dot products of every kind: raw bits, near one, cancelling, tiny, large; scales by block of K; chained; saturated; .sp, .ws, pairs"
    write_dots(bench, out, "tcgen05_dots", title, 9602, random_cases(9602))


SUITES = {"tcgen05_dots_directed": tcgen05_dots_directed, "tcgen05_dots": tcgen05_dots}
