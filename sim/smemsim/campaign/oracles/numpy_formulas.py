"""Compiled loops against numpy and plain Python: addresses, transfers, exact products, conversions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from smemsim.campaign.oracles.differential import Case, Oracle, Verdict, shrunk_numbers

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ORACLE", "case_of", "compare"]


FLOATS = {"f16": "float16", "f32": "float32"}  # types of numpy


def _places(case: Case) -> Verdict:
    """`operand_addresses` and the formula of one chunk, in Python, element by element."""
    from smemsim.base.errors import Unmodelled
    from smemsim.core.layout.operand import absolute_chunk, k_major_chunk, mn_major_chunk
    from smemsim.core.layout.swizzle import swizzle
    from smemsim.core.spec.formats import element_format
    from smemsim.core.spec.swizzles import MODES
    from smemsim.core.words.operand import operand_addresses
    from smemsim.core.words.smem import LboMode, SmemDescriptor

    operand = {name: case[name] for name in ("arch", "dtype", "major", "rows", "k", "packing")}
    try:
        addresses = operand_addresses(case["word"], **operand)
    except Unmodelled:
        return "operand, not modelled", ""
    d, fmt = SmemDescriptor.decode(case["word"], arch=case["arch"]), element_format(case["dtype"])
    mode, per_chunk = MODES[d.swizzle], fmt.elements_per_chunk(case["packing"])
    start, lbo, sbo = d.start_address, d.leading_byte_offset, d.stride_byte_offset
    for row in range(case["rows"]):
        for k in range(case["k"]):
            if case["major"] == "MN":
                chunk, element = divmod(row, per_chunk)
                linear = mn_major_chunk(start, lbo, sbo, mode.width, mode.k_rows, chunk, k)
            else:
                chunk, element = divmod(k, per_chunk)
                if d.lbo_mode == LboMode.ABSOLUTE:
                    linear = absolute_chunk(start, lbo, sbo, row, chunk)
                else:
                    linear = k_major_chunk(start, lbo, sbo, mode.width, row, chunk)
            address = swizzle(linear, d.base_offset, mode.mask, mode.shift) + element * fmt.bits // 8
            if address != addresses[row, k]:
                return "operand", f"element ({row}, {k}) at {int(addresses[row, k]):#x}, by the formula at {address:#x}"
    return "operand", ""


def _boxes(case: Case) -> Verdict:
    """One tiled load as numpy has it: coordinates of a grid, byte by byte."""
    import numpy as np

    from smemsim.core.layout.swizzle import swizzle
    from smemsim.core.machine.tma import tma_load
    from smemsim.core.spec.swizzles import MODES, Swizzle
    from smemsim.core.words.tensor_map import TensorMap

    box, dim, step, at, address = case["box"], case["dim"], case["step"], case["at"], case["smem"]
    pitch = -(-dim[0] // 16) * 16 + case["gap"]
    tm = TensorMap.tiled(data_type="u8", global_address=1 << 20, global_dim=dim, global_strides=(pitch, pitch * dim[1]), box_dim=box,
                         element_strides=(1, *step), swizzle=case["swizzle"])  # fmt: skip
    t = tma_load(tm, at, smem_address=address)
    counts = [box[0], *(-(-b // s) for b, s in zip(box[1:], step, strict=True))]
    j2, j1, byte = np.indices(counts[::-1])
    mode = MODES[Swizzle(case["swizzle"])]
    width = box[0] if mode.width < 32 else mode.width
    linear = address + (j1 + counts[1] * j2) * width + byte
    c = [at[0] + byte, at[1] + step[0] * j1, at[2] + step[1] * j2]
    inside = np.logical_and.reduce([(x >= 0) & (x < n) for x, n in zip(c, dim, strict=True)])
    source = np.where(inside, (1 << 20) + c[0] + pitch * (c[1] + dim[1] * c[2]), -1)
    where = np.vectorize(lambda x: swizzle(int(x), 0, mode.mask, mode.shift))(linear)
    theirs = dict(zip(where.ravel().tolist(), source.ravel().tolist(), strict=True))
    ours = dict(zip(t.shared_address.ravel().tolist(), t.global_address.ravel().tolist(), strict=True))
    wrong = sorted(a for a in ours.keys() | theirs.keys() if ours.get(a) != theirs.get(a))
    return "box", f"shared {wrong[0]:#x}: from {ours.get(wrong[0])}, by numpy from {theirs.get(wrong[0])}" if wrong else ""


def _products(case: Case) -> Verdict:
    """Small whole numbers, whose sums every type holds: numpy's integer product."""
    import numpy as np

    from smemsim.core.arithmetic.mma import mma
    from smemsim.core.arithmetic.values import from_float64, to_float64
    from smemsim.core.spec.mma_arithmetic import ARITHMETIC

    row = ARITHMETIC[case["row"]]
    kind, a_type, b_type = row.kinds[0], row.a_types[0], row.b_types[-1]
    if any(word in kind for word in ("mx", "b1")) or "b1" in a_type:
        return "product, with scale factors or bits", ""
    draw = np.random.default_rng(case["seed"])
    a, b, c = (draw.integers(low, 3, size) for low, size in ((0 if a_type[0] == "u" else -2, (case["m"], row.k)), (0 if b_type[0] == "u" else -2, (case["n"], row.k)),
                                                              (-8, (case["m"], case["n"]))))  # fmt: skip
    bits = [from_float64(x.astype(np.float64), dtype) for x, dtype in ((a, a_type), (b, b_type), (c, row.d_type))]
    d = mma(*bits, arch="sm_90a" if kind == "wgmma" else "sm_100a", kind=kind, a_type=a_type, b_type=b_type, d_type=row.d_type)
    wanted = a @ b.T + c
    wrong = np.argwhere(to_float64(d, row.d_type) != wanted)
    types = f"{kind} {a_type} x {b_type} to {row.d_type}"
    if not len(wrong):
        return types, ""
    m, n = wrong[0].tolist()
    return types, f"D ({m}, {n}) is {to_float64(d[m, n], row.d_type)}, by numpy {wanted[m, n]}"


def _conversions(case: Case) -> Verdict:
    """Types that numpy has: raw bits to numbers, and numbers to the nearest."""
    import numpy as np

    from smemsim.core.arithmetic.values import from_float64, to_float64

    dtype, numpys = case["dtype"], np.dtype(FLOATS[case["dtype"]])
    bits = np.array(case["bits"], f"u{numpys.itemsize}")
    with np.errstate(all="ignore"):  # signalling NaNs
        ours, theirs = to_float64(bits, dtype), bits.view(numpys).astype(np.float64)
    wrong = np.flatnonzero(~((ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | np.isnan(ours) & np.isnan(theirs)))
    if len(wrong):
        return f"{dtype} read", f"{int(bits[wrong[0]]):#x} is {ours[wrong[0]]}, of numpy {theirs[wrong[0]]}"
    values = np.array(case["values"], np.float64)
    with np.errstate(all="ignore"):
        rounded = values.astype(numpys)
    mine = _as(from_float64(values, dtype), numpys)
    wrong = np.flatnonzero((mine != rounded) | (np.signbit(mine) != np.signbit(rounded)))
    if len(wrong):
        return f"{dtype} rounded", f"{values[wrong[0]]!r} becomes {mine[wrong[0]]!r}, of numpy {rounded[wrong[0]]!r}"
    return f"{dtype}", ""


def _as(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


_OF = {"operand": _places, "box": _boxes, "product": _products, "conversion": _conversions}


def compare(case: Case) -> Verdict:
    """One case of one kind."""
    return _OF[case["of"]](case)


def _number(rng: random.Random, low: int, high: int) -> float:
    """A number of float64 with up to 53 bits, or as few as make ties in a narrower type."""
    bits = rng.choice((1, 10, 11, 12, 24, 25, 53))
    return math.ldexp(rng.choice((1, -1)) * (rng.getrandbits(bits) | 1 << bits) / (1 << bits), rng.randrange(low, high))


def case_of(rng: random.Random) -> Case:
    """A case of any kind."""
    from smemsim.core.spec.architectures import ARCHITECTURES
    from smemsim.core.spec.formats import FORMATS
    from smemsim.core.spec.mma_arithmetic import ARITHMETIC

    of = rng.choice(list(_OF))
    if of == "operand":
        return {"of": of, "word": rng.getrandbits(64), "arch": rng.choice(list(ARCHITECTURES)), "dtype": rng.choice(list(FORMATS)), "major": rng.choice(("K", "MN")),
                "rows": rng.randrange(1, 20), "k": rng.randrange(1, 40), "packing": rng.choice(("packed", "padded"))}  # fmt: skip
    if of == "box":
        width = rng.choice((0, 32, 64, 128))
        box = [16 * rng.randrange(1, (width or 96) // 16 + 1), rng.randrange(1, 10), rng.randrange(1, 4)]
        dim = [rng.randrange(1, 200), rng.randrange(1, 12), rng.randrange(1, 4)]
        return {"of": of, "box": box, "dim": dim, "step": [rng.randrange(1, 4), rng.randrange(1, 3)], "gap": 16 * rng.randrange(3),
                "swizzle": f"{width}B" if width else "none", "smem": 128 * rng.randrange(8, 100),
                "at": [16 * rng.randrange(-5, 10), rng.randrange(-9, 12), rng.randrange(-3, 4)]}  # fmt: skip
    if of == "product":
        return {
            "of": of,
            "row": rng.randrange(len(ARITHMETIC)),
            "seed": rng.getrandbits(32),
            "m": rng.randrange(1, 9),
            "n": rng.randrange(1, 9),
        }
    dtype = rng.choice(list(FLOATS))
    low, high = (-30, 20) if dtype == "f16" else (-160, 132)
    return {"of": of, "dtype": dtype, "bits": [rng.getrandbits(16 if dtype == "f16" else 32) for _ in range(32)],
            "values": [_number(rng, low, high) for _ in range(32)]}  # fmt: skip


def _smaller(case: Case) -> Iterator[Case]:
    match case["of"]:
        case "operand":
            yield from shrunk_numbers(case, {"rows": 1, "k": 1})
            yield from (case | {"word": case["word"] & ~(1 << bit)} for bit in range(64))
        case "box":
            yield from (case | {"at": [0 if i == j else x for j, x in enumerate(case["at"])]} for i in range(3))
            for name in ("box", "dim", "step"):
                for i, x in enumerate(case[name]):
                    less = x - 16 if (name, i) == ("box", 0) else x - 1
                    if less >= 1:
                        yield case | {name: [less if i == j else y for j, y in enumerate(case[name])]}
            yield from shrunk_numbers(case, {"gap": 0})
        case "product":
            yield from shrunk_numbers(case, {"m": 1, "n": 1})
        case _:
            yield from (case | {name: [x] for name in ("bits", "values") for x in case[name][i : i + 1]} for i in range(len(case["bits"])))


ORACLE = Oracle(
    "numpy", "compiled loops against plain formulas: operand addresses, tiled loads, products of small whole numbers, conversions",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=500, needs=(),
)  # fmt: skip
