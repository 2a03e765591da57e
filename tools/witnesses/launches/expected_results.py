"""The inputs of a launch and what it must compute, from launch.json alone.

An expected result is a Python expression over the launch's arrays, decoded to float64 or int64, numpy's functions and
those of this module. On inputs that every order of summation adds up exactly it is evaluated with plain float64
products (`exact`); on random ones with `smemsim.mma`, one instruction's K after the other, accumulating in C.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import smemsim
from smemsim.evidence.recipes import array_of

__all__ = ["arrays_of", "decoded", "encoded", "expected", "expected_random", "load"]

INTEGERS = {f"{kind[0]}{bits}": np.dtype(f"{name}{bits}") for kind, name in (("u", "uint"), ("s", "int")) for bits in (8, 16, 32, 64)}
# K of one dense instruction
STEPS = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


def load(folder: pathlib.Path) -> dict[str, Any]:
    out: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return out


def encoded(values: Any, dtype: str) -> np.ndarray:
    """Numbers as an array in memory: integers, or raw bits of floating-point types."""
    if dtype in INTEGERS:
        return np.asarray(values).astype(np.int64).astype(INTEGERS[dtype])
    return smemsim.from_float64(values, dtype)


def decoded(raw: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers of such an array: int64 (u64 as it is), or float64."""
    if dtype in INTEGERS:
        return raw if dtype == "u64" else raw.astype(np.int64)
    return smemsim.to_float64(raw, dtype)


def fp4(stored: np.ndarray) -> np.ndarray:
    """Bytes as pairs of e2m1, the first one in the lower half."""
    return smemsim.to_float64(np.stack([stored & 15, stored >> 4 & 15], -1).reshape(*stored.shape[:-1], -1), "e2m1")


def arrays_of(launch: dict[str, Any], *, random: bool = False) -> dict[str, np.ndarray]:
    """Every array of a launch before it runs; `random`: the second way to fill it, where there is one. Raw bits of
    floating-point types.
    """
    out = {}
    for about in launch["arrays"]:
        recipe = about | ({"distribution": about["random"]} if random and "random" in about else {})
        made = array_of(recipe)
        out[about["name"]] = made.view(f"u{made.itemsize}") if made.dtype.kind == "f" else made
    return out


def toward(values: np.ndarray, direction: int) -> np.ndarray:
    """To f32 toward zero (0), minus infinity (-1) or plus infinity (1)."""
    near = np.asarray(values).astype(np.float32)
    # where the number lies, seen from the nearest f32
    back = np.where(near > values, -1, np.where(near < values, 1, 0))
    wrong = np.where(
        back < 0, (direction < 0) | ((direction == 0) & (values > 0)), (back > 0) & ((direction > 0) | ((direction == 0) & (values < 0)))
    )
    return np.where(wrong, np.nextafter(near, np.where(back < 0, -np.inf, np.inf).astype(np.float32)), near).astype(np.float64)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, direction: int | None = None) -> np.ndarray:
    """a b + c of f32 numbers, rounded once: the float64 sum is rounded to odd, which a second rounding cannot spoil."""
    product = a * b  # exact
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = total.view(np.int64) & 1 == 0
    odd = np.where((error != 0) & even, np.nextafter(total, np.copysign(np.inf, error)), total)
    return odd.astype(np.float32).astype(np.float64) if direction is None else toward(odd, direction)


def joined(values: np.ndarray, dtype: str, bits: int) -> np.ndarray:
    """Neighbours as codes in one word, the first in its lower `bits`; a NaN of 16 bits is 0x7FFF, as instructions make
    it.
    """
    codes = smemsim.from_float64(values, dtype).astype(np.int64)
    codes = (np.where(np.isnan(values), 0x7FFF, codes) if bits == 16 else codes).reshape(-1, 2)
    return codes[:, 0] | codes[:, 1] << bits


def codes_of(stored: np.ndarray, dtype: str, bits: int) -> np.ndarray:
    """The numbers of such words; of 6-bit types the upper two bits of a byte do not count."""
    width = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(dtype, 8)
    codes = np.stack([stored, stored >> bits], -1).reshape(-1) & ((1 << width) - 1)
    return smemsim.to_float64(codes.astype(np.uint8), dtype)


def powers(values: np.ndarray, direction: int) -> np.ndarray:
    """The power of two at or below (0), or at or above (1)."""
    exponent = np.floor(np.log2(values)) if direction == 0 else np.ceil(np.log2(values))
    return np.asarray(2.0**exponent)


def lanes(mask: list[int]) -> np.ndarray:
    """The 128 lanes that a mask of four words names."""
    return np.array([mask[i // 32] >> (i % 32) & 1 for i in range(128)], bool)


def unpacked_scales(stored: np.ndarray) -> np.ndarray:
    """[1, rows / 128, K / 4, 2, 256] as tcgen05.cp wants them (row r at 16 (r % 32) + 4 (r / 32)) to [rows, K]."""
    _, rows, blocks, _, _ = stored.shape
    return stored.reshape(rows, blocks, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows * 128, blocks * 4)


def _product(exact: bool) -> Callable[..., np.ndarray]:
    def mma(
        a: np.ndarray, b: np.ndarray, *, kind: str, a_type: str, b_type: str = "", d_type: str = "", c: Any = None, sa: Any = None, sb: Any = None,
        block: int = 0, scale_type: str = "", scale_input_d: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """A [M, K] B [K, N] + C; scale factors [M, K / block], [N, K / block]."""
        integer = kind == "i8"
        if exact or integer:
            if block:
                a, b = a * np.repeat(sa, block, 1), b * np.repeat(sb, block, 1).T
            d: np.ndarray = a @ b + (0 if c is None else c / 2**scale_input_d if scale_input_d else c)
            return d.astype(np.int32).astype(np.int64) if integer else d
        b_type = b_type or a_type
        raw_a, raw_b = (encoded(x, "f32" if t == "tf32" else t) for x, t in ((a, a_type), (b.T, b_type)))
        d_type = d_type or "f32"
        d = encoded(np.zeros((a.shape[0], b.shape[1])) if c is None else c, d_type)
        step = STEPS[kind]
        extra = -raw_a.shape[1] % step
        raw_a, raw_b = (np.pad(x, ((0, 0), (0, extra))) for x in (raw_a, raw_b))
        for k in range(0, raw_a.shape[1], step):
            scales: dict[str, Any] = {}
            if block:
                at = slice(k // block, (k + step) // block)
                scales = {
                    "scale_a": encoded(sa[:, at], scale_type),
                    "scale_b": encoded(sb[:, at], scale_type),
                    "block": block,
                    "scale_type": scale_type,
                }
            a_now, b_now = raw_a[:, k : k + step], raw_b[:, k : k + step]
            d = smemsim.mma(
                a_now,
                b_now,
                d,
                arch="sm_100a",
                kind=kind,
                a_type=a_type,
                b_type=b_type,
                d_type=d_type,
                scale_input_d=scale_input_d,
                **scales,
            )
        return decoded(d, d_type)

    return mma


def _rounding(dtype: str) -> Callable[[Any], np.ndarray]:
    return lambda values: decoded(encoded(values, dtype), dtype)


def expected(launch: dict[str, Any], arrays: dict[str, np.ndarray], *, exact: bool = True) -> dict[str, np.ndarray]:
    """Every output of a launch, as raw bits: `arrays` as they were before it ran. Evaluates the launch's expressions:
    for our own files only.
    """
    types = {about["name"]: about["dtype"] for about in launch["arrays"]}
    shapes = {about["name"]: about["shape"] for about in launch["arrays"]}
    names: dict[str, Any] = {name: getattr(np, name) for name in np.__all__ if name.islower() and not name.startswith("_")}
    names |= {"mma": _product(exact), "unpacked_scales": unpacked_scales, "fp4": fp4, "fma": fma, "toward": toward}
    names |= {"joined": joined, "codes_of": codes_of, "powers": powers, "lanes": lanes}
    names |= {t: _rounding(t) for t in ("f32", "f16", "bf16", "e4m3", "e5m2", "tf32", "e2m1", "ue8m0")}
    names |= {name: decoded(raw, types[name]) for name, raw in arrays.items()}
    names |= {f"{name}_bits": raw for name, raw in arrays.items()}
    out = {}
    with np.errstate(all="ignore"):
        for name, expression in launch["expected"].items():
            value = np.asarray(eval(expression, names))
            raw = value.dtype.kind == "u" and types[name] not in INTEGERS  # made of NAME_bits
            out[name] = np.broadcast_to(value if raw else encoded(value, types[name]), shapes[name])
    return out


def expected_random(launch: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every output of a launch, as raw bits, with products as smemsim's arithmetic model has them: chained
    instructions, each over its own K.
    """
    return expected(launch, arrays, exact=False)
