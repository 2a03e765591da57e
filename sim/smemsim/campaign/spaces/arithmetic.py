"""`arithmetic`: matrix products of any numbers: compiled against step by step, integers against exact sums, and laws
that no datapath may break.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.campaign.space import Case, Space, drawn, one_by_one
from smemsim.core.arithmetic.mma import dot_product, mma
from smemsim.core.arithmetic.values import from_float64, to_float64
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.mma_arithmetic import ARITHMETIC, NAN, MmaArithmetic
from smemsim.core.spec.tcgen05 import KINDS

__all__ = ["SPACE", "Product"]


CHUNK_CASES, M, N, ELEMENTS = 64, 8, 8, 3


class Product:
    """One instruction with its operands; `mma` of it, and of it changed."""

    def __init__(self, rng: random.Random) -> None:
        self.row: MmaArithmetic = rng.choice(ARITHMETIC)
        self.kind = rng.choice(self.row.kinds)
        self.types = (rng.choice(self.row.a_types), rng.choice(self.row.b_types), self.row.d_type)
        self.seed, self.any_bits, self.saturate = rng.getrandbits(32), rng.random() < 0.4, False
        gen = np.random.default_rng(self.seed)
        k = self.row.k
        self.given: dict[str, Any] = {"arch": "sm_90a" if self.kind == "wgmma" else "sm_100a", "kind": self.kind}
        self.given |= dict(zip(("a_type", "b_type", "d_type"), self.types, strict=True))
        self.a, self.b, self.c = (self._drawn(gen, size, t) for size, t in zip(((M, k), (N, k), (M, N)), self.types, strict=True))
        self.block = 0
        if self.kind in KINDS and KINDS[self.kind].block_scaled:
            self.block = rng.choice((16, 32)) if self.kind == "mxf4nvf4" else 32
            scale = "ue4m3" if self.block == 16 else "ue8m0"
            for name in ("scale_a", "scale_b"):
                size = (M, k // self.block)
                # near 1, or any
                codes = (
                    gen.integers(0, 256, size) if self.any_bits else gen.integers(*((0x30, 0x48) if scale == "ue4m3" else (124, 131)), size)
                )
                self.given[name] = codes.astype(np.uint8)
            self.given |= {"block": self.block, "scale_type": scale}
        if self.is_integer and self.types[0] != "b1":
            self.given["saturate"] = self.saturate = rng.random() < 0.5

    @property
    def is_integer(self) -> bool:
        return self.row.kept_bits is None

    def _drawn(self, gen: np.random.Generator, size: tuple[int, int], dtype: str) -> np.ndarray:
        fmt = element_format(dtype)
        store = np.uint8 if fmt.bits <= 8 else np.uint16 if fmt.bits == 16 else np.uint32
        if self.any_bits or not fmt.is_float:
            return gen.integers(0, 1 << fmt.bits, size).astype(store)
        return np.asarray(from_float64(gen.standard_normal(size), dtype)).astype(store)

    def d(self, **changes: Any) -> np.ndarray:
        """The raw bits of D, with other operands or options."""
        operands = [changes.pop(name, getattr(self, name)) for name in "abc"]
        return mma(*operands, **self.given | changes)

    def shown(self) -> dict[str, Any]:
        """The instruction's options and how its operands were drawn, as a dictionary for JSON."""
        options = {name: value for name, value in self.given.items() if not isinstance(value, np.ndarray)}
        return options | {"numbers": "any bits" if self.any_bits else "normally distributed", "seed": self.seed}


def _differ(what: str, got: np.ndarray, want: np.ndarray) -> str:
    if np.array_equal(got, want):
        return ""
    m, n = np.argwhere(got != want)[0]
    return f"{what}: D[{m}, {n}] is {int(got[m, n]):#x}, not {int(want[m, n]):#x}"


def step_by_step(p: Product, rng: random.Random) -> str:
    """The compiled batch against one dot product at a time, by the formulas uncompiled."""
    d = p.d()
    for _ in range(ELEMENTS):
        m, n = rng.randrange(M), rng.randrange(N)
        given = {k: v[m if k == "scale_a" else n] if isinstance(v, np.ndarray) else v for k, v in p.given.items()}
        want = dot_product(p.a[m], p.b[n], p.c[m, n], **given).d
        if int(d[m, n]) != want:
            return f"D[{m}, {n}] is {int(d[m, n]):#x} in the batch, {want:#x} step by step"
    return ""


def exact_integers(p: Product, _: random.Random) -> str:
    """Sums in 64 bits, wrapped or clamped."""
    a, b = (x.astype(np.int64) for x in (p.a, p.b))
    for x, t in ((a, p.types[0]), (b, p.types[1])):
        if t == "s8":
            x[x >= 128] -= 256
    total = a @ b.T + p.c.astype(np.uint32).view(np.int32)
    if p.saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return _differ("exact sums", p.d(), (total & 0xFFFFFFFF).astype(np.uint32))


def any_order(p: Product, rng: random.Random) -> str:
    """The products of one group, or of all K, in another order: hardware sums them in none."""
    size = min(p.row.group if p.row.group > 1 else p.row.k, p.block or p.row.k)
    order = [k for first in range(0, p.row.k, size) for k in rng.sample(range(first, first + size), size)]
    return _differ(f"products in another order {order}", p.d(a=p.a[:, order], b=p.b[:, order]), p.d())


def negated(p: Product, _: random.Random) -> str:
    """-A and -C give -D: cutting and rounding know no sign; zeros stay +0, NaNs stay as they are. -A is -B."""
    sign = 1 << element_format(p.types[2]).bits - 1
    d, nan = p.d(), NAN[p.types[2]]
    want = np.where((d == 0) | (d == nan), d, d ^ d.dtype.type(sign))
    if what := _differ("-A and -C", p.d(negate_a=True, c=p.c ^ p.c.dtype.type(sign)), want):
        return what
    return _differ("-A as -B", p.d(negate_a=True), p.d(negate_b=True)) or _differ("-A and -B", p.d(negate_a=True, negate_b=True), d)


def doubled(p: Product, _: random.Random) -> str | None:
    """2A and 2C give 2D, of numbers that stay normal and outweigh the exponent of zeros; None where there are none."""
    fmt, to = element_format(p.types[0]), element_format(p.types[2])
    changes: dict[str, Any] = {}
    c = to_float64(p.c, p.types[2])
    if p.block:
        step, top = (8, 0x70) if p.given["scale_type"] == "ue4m3" else (1, 0xF0)
        scale = p.given["scale_a"] & 0x7F if step == 8 else p.given["scale_a"]
        if (scale < step).any() or (scale > top).any():
            return None
        changes["scale_a"] = scale + np.uint8(step)
    else:
        a = to_float64(p.a, p.types[0])
        with np.errstate(all="ignore"):
            twice = np.asarray(from_float64(2 * a, p.types[0])).astype(p.a.dtype)
            exact = to_float64(twice, p.types[0]) == 2 * a
        normal = (np.abs(a) >= 2.0**fmt.smallest_exponent) | (a == 0)
        if not (exact & normal & np.isfinite(a)).all():
            return None
        changes["a"] = twice
    with np.errstate(all="ignore"):
        c2 = np.asarray(from_float64(2 * c, p.types[2])).astype(p.c.dtype)
        # C of at least 1 decides the alignment, not the zeros.
        fit = (np.abs(c) >= 1) & (to_float64(c2, p.types[2]) == 2 * c) & np.isfinite(c)
        d, d2 = (to_float64(x, p.types[2]) for x in (p.d(), p.d(**changes, c=c2)))
        fit &= ((d == 0) | (np.abs(d) >= 2.0 ** (to.smallest_exponent + 1))) & np.isfinite(2 * d) & np.isfinite(d2)
    if not fit.any():
        return None
    wrong = np.argwhere(fit & (d2 != 2 * d))
    return (
        "" if not len(wrong) else f"2A and 2C: D[{wrong[0][0]}, {wrong[0][1]}] is {d2[tuple(wrong[0])]!r}, not twice {d[tuple(wrong[0])]!r}"
    )


Law = Callable[[Product, random.Random], str | None]
INTEGER_LAWS: dict[str, Law] = {"step by step": step_by_step, "in any order": any_order, "exact": exact_integers}
LAWS: dict[str, Law] = {"step by step": step_by_step, "in any order": any_order, "negated": negated, "doubled": doubled}


def case(seed: int, chunk: int, number: int) -> Case:
    """One instruction, compared with all laws that its numbers have."""
    rng = drawn("arithmetic", seed, chunk, number)
    p = Product(rng)
    laws = INTEGER_LAWS if p.is_integer else LAWS
    said = {name: law(p, rng) for name, law in laws.items()}
    for name, what in said.items():
        if what:
            return Case(f"wrong: {name}", p.shown(), what)
    return Case(f"{p.kind} to {p.types[2]}: {', '.join(name for name, what in said.items() if what is not None)}", p.shown())


SPACE = Space("arithmetic", "matrix products of random numbers against laws: sums step by step, in exact integers, in another order, with other signs, twice as large",
              one_by_one("arithmetic", case, CHUNK_CASES), CHUNK_CASES, case)  # fmt: skip
