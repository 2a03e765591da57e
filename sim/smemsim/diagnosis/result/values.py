"""The right places and wrong numbers: what was there before, the other sign, a factor, another type in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smemsim.core.arithmetic.values import from_float64, to_float64
from smemsim.core.spec.formats import FORMATS
from smemsim.diagnosis.numbers import numbers_told
from smemsim.diagnosis.result.arrays import LEAST, Arrays, Explanation

__all__ = ["VALUES", "narrower"]


NARROWER = ("e5m2", "e4m3", "bf16", "f16", "tf32")  # the narrowest first: its numbers are those of the wider ones too
FACTORS = 64
LOST = 5  # bits after the last one of a type: a conversion to it moves most numbers by more
MOST_RUNS = 1 << 16
MOST_NEAR = 0.999  # of them: what is summed in another order may come to the other side of a tie


def unwritten(arrays: Arrays) -> Explanation | None:
    """Nothing was written there, or what was there already."""
    before, old = arrays.before, arrays.old
    r, c = arrays.places
    zeros = before is None or not before[r, c].any()
    if (
        not arrays.near(arrays.found[r, c], np.broadcast_to(old, arrays.shape)[r, c]).all()
        or not arrays.near(arrays.found, old)[arrays.wrong].all()
    ):
        return None
    where = _where(arrays)
    for sign, name in ((-1, "negative"), (1, "positive")):
        signed, least = arrays.wanted * sign, 4 * arrays.relative * arrays.scale
        if (
            zeros
            and (signed[r, c] > 0).all()
            and not (~arrays.wrong & (signed > least)).any()
            and (~arrays.wrong & (signed < -least)).sum() >= LEAST
        ):
            return Explanation(f"every {name} number is 0", "look for a max or min with 0 (relu), or a conversion to unsigned")
    held = "is 0" if zeros else "holds what was there before the launch"
    also = ", as before the launch" if zeros and before is not None else ""
    return Explanation(
        f"all that is wrong {held}{also}, {where}",
        "look whether a store reaches these elements: the grid, a tile's coordinates, a predicate, a loop that ends too early",
    )


def negated(arrays: Arrays) -> Explanation | None:
    """The explanation that every element has the opposite sign; None where that is not so."""
    if not arrays.gives(-arrays.wanted):
        return None
    return Explanation(
        "it has the other sign everywhere", "look at imm-scale-a and imm-scale-b (or negate-a, negate-b), or at a factor of -1"
    )


def scaled(arrays: Arrays) -> Explanation | None:
    """The explanation that every element was multiplied by one constant factor; None where that is not so."""
    r, c = arrays.places
    a, b = arrays.found[r, c].astype(np.float64), arrays.wanted[r, c].astype(np.float64)
    if not (b != 0).any():
        return None
    factor = float((a * b).sum() / (b * b).sum())
    if not np.isfinite(factor):
        return None
    nearest = next(
        (k / n for n in range(1, FACTORS) for k in (round(factor * n),) if k and abs(k / n - factor) < 2**-10 * abs(factor)), factor
    )
    power = 2.0 ** round(np.log2(abs(factor))) if factor else 0.0
    for k in dict.fromkeys([np.copysign(power, factor), nearest, factor]):
        if abs(k - 1) > 2**-6 and abs(k) > 2**-24 and arrays.gives(arrays.wanted * arrays.wanted.dtype.type(k)):
            told = f"{'-' * bool(k < 0)}1/{round(1 / abs(k))}" if abs(k) < 1 and 1 / k == round(1 / k) else f"{k:.6g}"
            return Explanation(
                f"all of it is {told} of what was expected", "look at alpha, the scale factors of the operands, or a sum over several CTAs"
            )
    return None


def added(arrays: Arrays) -> Explanation | None:
    """The explanation that one constant was added to every element; None where that is not so."""
    r, c = arrays.places
    more = float(np.median(arrays.found[r, c].astype(np.float64) - arrays.wanted[r, c]))
    if not more or not np.isfinite(more) or not arrays.gives(arrays.wanted + arrays.wanted.dtype.type(more)):
        return None
    return Explanation(
        f"all of it is {abs(more):.6g} too {'large' if more > 0 else 'small'}", "look at the bias, or at what the accumulator begins with"
    )


def narrower(found: np.ndarray, wanted: np.ndarray, dtype: str) -> Explanation | None:
    """Are all values those of a narrower type, next to the expected ones? Then they went through it. `found` and
    `wanted` are numbers of type `dtype`.
    """
    own = FORMATS.get(dtype)
    if own is None or not own.is_float:
        return None
    some = np.flatnonzero(np.isfinite(wanted) & np.isfinite(found) & (wanted != 0))
    some = some[:: max(1, len(some) // 65536)]
    a, b = (np.asarray(v, np.float64).reshape(-1)[some] for v in (found, wanted))
    for name in NARROWER:
        fmt = FORMATS[name]
        if fmt.fraction_bits >= own.fraction_bits or len(a) < LEAST:
            continue
        least = 2.0 ** (fmt.smallest_exponent - fmt.fraction_bits)
        near = np.abs(a - b) <= 2.0**-fmt.fraction_bits * np.abs(b) + least
        # else the numbers were short by themselves
        cut = np.median(np.abs(a - b) / np.abs(b)) >= 2.0 ** -(fmt.fraction_bits + LOST)
        if not cut or len(np.unique(a)) < LEAST or not _is_of(a, name) or _is_of(b, name) or near.mean() < MOST_NEAR:
            continue
        told = {"f16": "f16 (or tf32)"}.get(name, name)  # whose numbers have as many bits
        return Explanation(
            f"all of it are {told} numbers, rounded or cut off from what was expected",
            f"look for a conversion to {name} before D is written",
        )
    return None


def _is_of(values: np.ndarray, dtype: str) -> bool:
    """Are all numbers those of a type?"""
    return bool((to_float64(from_float64(values, dtype), dtype) == values).all())


def _where(arrays: Arrays) -> str:
    """The places that are wrong, in words; elements between them that were not to change are left out."""
    places = _places(arrays.wrong)
    if "..." not in places:
        return places
    same = np.concatenate([[False], arrays.near(arrays.found, arrays.old).ravel(), [False]])
    edges = np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2)
    wrong = np.concatenate([[0], np.cumsum(arrays.wrong)])
    held = np.zeros(arrays.wrong.size, bool)
    has_wrong = wrong[edges[:, 1]] > wrong[edges[:, 0]]
    for begin, end in edges[has_wrong][:MOST_RUNS]:
        held[begin:end] = True
    other = _places(held.reshape(arrays.shape))
    return places if "..." in other else other


def _places(which: np.ndarray) -> str:
    rows, columns = (np.flatnonzero(which.any(axis)).tolist() for axis in (1, 0))
    if which.shape[0] == 1:
        return f"in elements {numbers_told(columns, which.shape[1])}"
    return f"in rows {numbers_told(rows, which.shape[0])}, columns {numbers_told(columns, which.shape[1])}"


VALUES: tuple[Callable[[Arrays], Explanation | None], ...] = (unwritten, negated, scaled, added)
