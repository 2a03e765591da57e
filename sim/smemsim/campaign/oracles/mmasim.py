"""One matrix instruction, bit for bit, against mmasim (MMA-Sim, arXiv 2511.10909), a model
of its own by other people.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smemsim.campaign.oracles.differential import Case, Oracle, Verdict, shrunk_numbers

if TYPE_CHECKING:
    import numpy as np

__all__ = ["INSTRUCTIONS", "ORACLE", "case_of", "compare"]


# Our kind, A and B, D, block; mmasim's class, architecture and name, whose shape has M and N only for it.
INSTRUCTIONS = {
    **{f"wgmma {t} to {d}": ("wgmma", t, d, 0, "WGMMA", "Hopper", f"m64n64k{k}.{d}.{t}.{t}")
       for t, k, ds in (("bf16", 16, ("f32",)), ("f16", 16, ("f32", "f16")), ("tf32", 8, ("f32",)), ("e4m3", 32, ("f32", "f16")), ("e5m2", 32, ("f32", "f16"))) for d in ds},
    **{f"{kind} {t} to {d}": (kind, t, d, 0, "TCGen05MMA", "Blackwell", f"m128n64k{k}.kind::{kind}.{d}.{t}.{t}")
       for kind, t, k, ds in (("f16", "bf16", 16, ("f32",)), ("f16", "f16", 16, ("f32", "f16")), ("tf32", "tf32", 8, ("f32",)), ("f8f6f4", "e4m3", 32, ("f32",)),
                              ("f8f6f4", "e5m2", 32, ("f32",))) for d in ds},
    "mxf8f6f4 e4m3": ("mxf8f6f4", "e4m3", "f32", 32, "TCGen05MMABlockScale", "Blackwell", "m128n64k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.ue8m0"),
    "mxf4nvf4 e2m1": ("mxf4nvf4", "e2m1", "f32", 16, "TCGen05MMABlockScale", "Blackwell", "m128n64k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3"),
}  # fmt: skip


@functools.cache
def _operation(of: str, arch: str, shape: str) -> Any:
    from mmasim import nv_ptx

    return getattr(nv_ptx, of)(arch, shape)


def _drawn(case: Case) -> dict[str, np.ndarray]:
    """A (m, k), B (n, k), C (m, n) and scale factors as raw bits: numbers near each other, any bits at all, or few
    different ones.
    """
    import numpy as np

    from smemsim.core.arithmetic.multiply import row_of
    from smemsim.core.arithmetic.values import from_float64
    from smemsim.core.spec.formats import FORMATS

    kind, ab, d, block, *_ = INSTRUCTIONS[case["instruction"]]
    k, rng = row_of(kind, ab, ab, d).k, np.random.default_rng(case["seed"])
    arrays = {"a": ((case["m"], k), ab), "b": ((case["n"], k), ab), "c": ((case["m"], case["n"]), d)}
    if block:
        factor = "ue4m3" if block == 16 else "ue8m0"
        arrays |= {"scale_a": ((case["m"], k // block), factor), "scale_b": ((case["n"], k // block), factor)}
    operands = {}
    for name, (size, dtype) in arrays.items():
        if case["values"] == "any":
            bits = 32 if dtype == "tf32" else FORMATS[dtype].bits
            operands[name] = rng.integers(0, 1 << bits, size).astype(f"u{max(8, bits) // 8}")
        elif case["values"] == "few":
            few = (
                from_float64([0.0, 1.0, 0.5, 2.0], dtype)
                if name.startswith("scale")
                else from_float64([0.0, 1.0, -1.0, 2.0**-6, 1.5, -0.0], dtype)
            )
            operands[name] = rng.choice(few, size)
        else:
            values = rng.standard_normal(size) * (2.0 ** rng.integers(-4, 5, size))
            operands[name] = from_float64(2.0 ** rng.integers(-3, 4, size) if name.startswith("scale") else values, dtype)
    return operands


def _theirs(case: Case, given: dict[str, np.ndarray]) -> np.ndarray:
    import numpy as np
    import torch

    operation = _operation(*INSTRUCTIONS[case["instruction"]][4:])
    types = [operation.a_type, operation.b_type, operation.c_type, *([operation.s_type] * 2 if hasattr(operation, "s_type") else [])]
    packing, tensors = getattr(operation, "packing", 1), []
    for i, (raw, dtype) in enumerate(zip(given.values(), types, strict=True)):
        # the first of two 4-bit elements is the upper half of the byte
        bits = raw[..., ::2] << 4 | raw[..., 1::2] if i < 2 and packing == 2 else raw
        tensors.append(torch.from_numpy(np.ascontiguousarray(bits).view(f"i{bits.itemsize}")).view(dtype))
    a, b, c, *scales = tensors
    rows = [a[:, None], b[None], c, *(s[:, None] if i == 0 else s[None] for i, s in enumerate(scales))]
    with torch.inference_mode():
        out: np.ndarray = operation.dpa(*rows).contiguous().view(torch.uint8).numpy().view(given["c"].dtype)
    return out.reshape(given["c"].shape)


def compare(case: Case) -> Verdict:
    """One tile of one instruction, all bits of D; NaNs too."""
    import numpy as np

    from smemsim.core.arithmetic.mma import mma

    kind, ab, d, block, *_ = INSTRUCTIONS[case["instruction"]]
    given = _drawn(case)
    ours = mma(**given, arch="sm_90a" if kind == "wgmma" else "sm_100a", kind=kind, a_type=ab, b_type=ab, d_type=d, block=block or None)  # type: ignore[arg-type]
    theirs = _theirs(case, given)
    wrong = np.argwhere(ours != theirs)
    if not len(wrong):
        return case["instruction"], ""
    m, n = wrong[0].tolist()
    row = {name: " ".join(f"{x:x}" for x in bits[n if name.endswith("b") else m].ravel()) for name, bits in given.items() if name != "c"}
    words_of_row = "; ".join(f"{name} {words}" for name, words in row.items())
    return case[
        "instruction"
    ], f"D ({m}, {n}) is {int(ours[m, n]):#x}, of mmasim {int(theirs[m, n]):#x}; c {int(given['c'][m, n]):#x}; {words_of_row}"


def case_of(rng: random.Random) -> Case:
    """An instruction, a small tile, how its numbers are drawn."""
    return {
        "instruction": rng.choice(list(INSTRUCTIONS)),
        "m": 8,
        "n": 8,
        "values": rng.choice(("near", "any", "few")),
        "seed": rng.getrandbits(32),
    }


def _smaller(case: Case) -> Iterator[Case]:
    yield from shrunk_numbers(case, {"m": 1, "n": 1})


ORACLE = Oracle(
    "mmasim", "matrix instructions bit for bit against mmasim",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=100, needs=("mmasim", "torch"),
)  # fmt: skip
