"""mma.sync of every card, bit for bit, against mmasim (MMA-Sim, arXiv 2511.10909), a model
of its own by other people.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from smemsim.campaign.oracles.differential import Case, Oracle, Verdict, shrunk_numbers

if TYPE_CHECKING:
    import numpy as np

__all__ = ["INSTRUCTIONS", "ORACLE", "Instruction", "case_of", "compare", "drawn"]


class Instruction(NamedTuple):
    """One instruction: architecture, K, the text after `.kind::`, the types of A, B and D, the number and type of scale
    factors, the study's card.
    """

    arch: str
    k: int
    kind: str
    a: str
    b: str
    d: str
    factors: int
    scale: str
    card: str

    @property
    def name(self) -> str:
        """The name of the instruction in the study."""
        kind = f"kind::{self.kind}." if self.kind else ""
        block = f"block{self.k // self.factors}." if self.factors else ""
        scale = f".{self.scale}" if self.scale else ""
        return f"m16n8k{self.k}.{kind}{block}{self.d}.{self.a}.{self.b}.{self.d}{scale}"


_CARDS = {"sm_80": "Ampere", "sm_89": "Ada Lovelace", "sm_90a": "Hopper", "sm_100a": "Blackwell", "sm_120a": "RTX Blackwell"}
_F8F6F4 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_PLAIN = [
    (k, t, d)
    for t, ks, ds in (("f16", (8, 16), ("f32", "f16")), ("bf16", (8, 16), ("f32",)), ("tf32", (4, 8), ("f32",)))
    for k in ks
    for d in ds
]


def _instructions() -> Iterator[Instruction]:
    for arch, card in _CARDS.items():
        for k, t, d in _PLAIN:
            yield Instruction(arch, k, "", t, t, d, 0, "", card)
        for d in ("f32", "f16") if arch in ("sm_89", "sm_120a") else ():
            for k in (16, 32):
                for a in _F8F6F4[:2]:
                    yield from (Instruction(arch, k, "", a, b, d, 0, "", card) for b in _F8F6F4[:2])
    arch, card = "sm_120a", _CARDS["sm_120a"]
    for a in _F8F6F4:
        for b in _F8F6F4:
            yield from (Instruction(arch, 32, "f8f6f4", a, b, d, 0, "", card) for d in ("f32", "f16"))
            yield Instruction(arch, 32, "mxf8f6f4", a, b, "f32", 1, "ue8m0", card)
    for kind, factors, scale in (("mxf4", 2, "ue8m0"), ("mxf4nvf4", 2, "ue8m0"), ("mxf4nvf4", 4, "ue4m3"), ("mxf4nvf4", 4, "ue8m0")):
        yield Instruction(arch, 64, kind, "e2m1", "e2m1", "f32", factors, scale, card)


INSTRUCTIONS: dict[str, Instruction] = {f"{i.arch} {i.name}": i for i in _instructions()}


@functools.cache
def _operation(i: Instruction) -> Any:
    from mmasim import nv_ptx

    return (nv_ptx.MMABlockScale if i.factors else nv_ptx.MMA)(i.card, i.name)


def drawn(i: Instruction, m: int, n: int, values: str, seed: int) -> dict[str, np.ndarray]:
    """A (m, k), B (n, k), C (m, n) and scale factors as raw bits: numbers near each other, any bits at all, or few
    different ones.
    """
    import numpy as np

    from smemsim.core.arithmetic.values import from_float64
    from smemsim.core.spec.formats import FORMATS

    rng = np.random.default_rng(seed)
    arrays = {"a": ((m, i.k), i.a), "b": ((n, i.k), i.b), "c": ((m, n), i.d)}
    if i.factors:
        arrays |= {"scale_a": ((m, i.factors), i.scale), "scale_b": ((n, i.factors), i.scale)}
    operands = {}
    for name, (size, dtype) in arrays.items():
        scales = name.startswith("scale")
        if values == "any":
            bits = 32 if dtype == "tf32" else FORMATS[dtype].bits
            operands[name] = rng.integers(0, 1 << bits, size).astype(f"u{max(8, bits) // 8}")
        elif values == "few":
            few = [0.25, 1.0, 0.5, 2.0] if scales else [0.0, 1.0, -1.0, 0.5, 1.5, -0.0]
            operands[name] = rng.choice(from_float64(few, dtype), size)
        else:
            near = 2.0 ** rng.integers(-3, 4, size) if scales else rng.standard_normal(size) * 2.0 ** rng.integers(-4, 5, size)
            operands[name] = from_float64(near, dtype)
    return operands


def ours_of(i: Instruction, given: dict[str, np.ndarray]) -> np.ndarray:
    """D of smemsim, raw bits."""
    from smemsim.core.arithmetic.multiply import Factors
    from smemsim.core.machine.mma_sync import MmaSync

    of = MmaSync((16, 8, i.k), i.a, i.b, i.d, arch=i.arch, kind=i.kind, factors=i.factors, scale_type=i.scale)
    factors = Factors(given["scale_a"][None], given["scale_b"][None], i.scale, i.k // i.factors) if i.factors else None
    found: np.ndarray = of.product(given["a"][None], given["b"][None], given["c"][None], factors)[0]
    return found


def theirs_of(i: Instruction, given: dict[str, np.ndarray]) -> np.ndarray:
    """D of the study, raw bits. Elements of 4 bits have the middle of a byte, or are two to a byte, the first one in
    its upper half.
    """
    import numpy as np
    import torch

    operation, tensors = _operation(i), []
    types = [operation.a_type, operation.b_type, operation.c_type, *([operation.s_type] * 2 if i.factors else [])]
    for n, (raw, dtype) in enumerate(zip(given.values(), types, strict=True)):
        bits = raw
        if n < 2 and getattr(operation, "packing", 1) == 2:
            bits = raw[..., ::2] << 4 | raw[..., 1::2]
        elif n < 2 and (i.a, i.b)[n] == "e2m1":
            bits = raw << 2
        tensors.append(torch.from_numpy(np.ascontiguousarray(bits).view(f"i{bits.itemsize}")).view(dtype))
    a, b, c, *scales = tensors
    rows = [a[:, None], b[None], c, *(s[:, None] if n == 0 else s[None] for n, s in enumerate(scales))]
    with torch.inference_mode():
        out: np.ndarray = operation.dpa(*rows).contiguous().view(torch.uint8).numpy().view(given["c"].dtype)
    return out.reshape(given["c"].shape)


def compare(case: Case) -> Verdict:
    """One tile of one instruction, all bits of D; NaNs too."""
    import numpy as np

    i = INSTRUCTIONS[case["instruction"]]
    given = drawn(i, case["m"], case["n"], case["values"], case["seed"])
    ours, theirs = ours_of(i, given), theirs_of(i, given)
    wrong = np.argwhere(ours != theirs)
    if not len(wrong):
        return i.arch, ""
    m, n = wrong[0].tolist()
    row = {name: " ".join(f"{x:x}" for x in bits[n if name.endswith("b") else m].ravel()) for name, bits in given.items() if name != "c"}
    words = "; ".join(f"{name} {bits}" for name, bits in row.items())
    return i.arch, f"D ({m}, {n}) is {int(ours[m, n]):#x}, of mmasim {int(theirs[m, n]):#x}; c {int(given['c'][m, n]):#x}; {words}"


def case_of(rng: random.Random) -> Case:
    """An instruction, a tile, how its numbers are drawn. A large tile costs little more
    than a small one: 12,288 sums.
    """
    drawn_so = {
        "instruction": rng.choice(list(INSTRUCTIONS)),
        "values": rng.choice(("near", "any", "few")),
        "seed": rng.getrandbits(32),
    }
    m, n = rng.choice(((16, 8), (128, 96)))
    return drawn_so | {"m": m, "n": n}


def _smaller(case: Case) -> Iterator[Case]:
    yield from shrunk_numbers(case, {"m": 1, "n": 1})


ORACLE = Oracle(
    "mmasim-sync", "mma.sync of every card bit for bit against mmasim",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=100, needs=("mmasim", "torch"),
)  # fmt: skip
