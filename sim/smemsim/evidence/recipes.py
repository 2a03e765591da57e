"""Arrays from a seed, the same on every machine: what a recorded launch was given, without storing it.

Every element is a hash (splitmix64) of the seed and its place, so no version of any library changes it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.arguments import is_whole, shown, suggestion, whole
from smemsim.base.budget import ask
from smemsim.base.errors import TraceError
from smemsim.core.arithmetic.values import from_float64
from smemsim.core.spec.formats import FORMATS

__all__ = ["array_of", "extents", "random_bits"]


PLAIN = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
PLAIN |= {f"{kind[0]}{bits}": np.dtype(f"{kind}{bits}").type for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
PLAIN |= {f"s{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)}
NARROW = {"bf16": np.uint16, "e4m3": np.uint8, "e5m2": np.uint8}  # numpy has no such type: raw bits
WIDTHS = {name: np.dtype(kind).itemsize for name, kind in (PLAIN | NARROW).items()}
MOST_ELEMENTS = 1 << 28
MOST_EXTENTS = 32  # every numpy has arrays of as many
FLOATS = {name: FORMATS[name] for name in WIDTHS if name in FORMATS and FORMATS[name].is_float}


def random_bits(seed: int, count: int, stream: int = 0) -> np.ndarray:
    """`count` random 64-bit words: splitmix64 of seed, stream and place.

    >>> [hex(x) for x in random_bits(1, 2)]
    ['0x910a2dec89025cc1', '0xbeeb8da1658eec67']
    """
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(stream << 40)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def _uniform(seed: int, count: int, stream: int = 0) -> np.ndarray:
    return (random_bits(seed, count, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype in NARROW:
        return np.asarray(from_float64(values, dtype)).astype(NARROW[dtype])
    return values.astype(PLAIN[dtype])


def _float_bits(dtype: str, seed: int, count: int) -> np.ndarray:
    """Floating-point numbers of every kind: half of them any bits, half with exponents near 0, zeros, infinities, NaNs,
    subnormals.
    """
    exponent_bits, fraction_bits = FLOATS[dtype].exponent_bits, FLOATS[dtype].fraction_bits
    size = 8 * WIDTHS[dtype]
    raw, kind = random_bits(seed, count), random_bits(seed, count, 1) % np.uint64(16)
    word = raw >> np.uint64(64 - size)
    sign = word >> np.uint64(size - 1) << np.uint64(size - 1)
    fraction = word & np.uint64((1 << fraction_bits) - 1)
    few = fraction & ~np.uint64((1 << max(fraction_bits - 3, 0)) - 1)  # few fraction bits: ties
    bias, top = (1 << exponent_bits - 1) - 1, (1 << exponent_bits) - 1
    near = np.uint64(bias - 2) + (raw >> np.uint64(3)) % np.uint64(5 if exponent_bits < 5 else min(26, bias))

    def made(exponent: Any, mantissa: Any) -> np.ndarray:
        return np.asarray(sign | np.minimum(np.uint64(exponent), np.uint64(top)) << np.uint64(fraction_bits) | mantissa)

    zero = np.uint64(0)
    choices = (
        [word] * 7
        + [made(near, fraction)] * 3
        + [made(near, few)] * 2
        + [made(0, zero), made(0, fraction), made(top, zero), made(top, fraction)]
    )
    return np.choose(kind.astype(np.int64), choices)


# ---- The distributions: how each is drawn


@dataclasses.dataclass(frozen=True)
class _Draw:
    """`count` elements that are wanted, of a type that lies in memory as `storage`; `given` are the numbers of the
    distribution.
    """

    given: Any
    dtype: str
    storage: np.dtype[Any]
    seed: int
    count: int

    @property
    def unsigned(self) -> np.dtype[Any]:
        """Words as wide as the elements."""
        return np.dtype(f"u{self.storage.itemsize}")


class _Distribution(NamedTuple):
    """How it is drawn, how many numbers it takes (None: it takes none; 0: any), and the bytes that drawing an element
    takes besides.
    """

    draw: Callable[[_Draw], np.ndarray]
    numbers: int | None = None
    work: int = 24


def _bits(d: _Draw) -> np.ndarray:
    return (random_bits(d.seed, d.count) >> np.uint64(64 - 8 * d.storage.itemsize)).astype(d.unsigned).view(d.storage)


def _integers(d: _Draw) -> np.ndarray:
    low, high = int(d.given[0]), int(d.given[1])
    if not low <= high:
        raise ValueError(f"distribution: integers = [{low}, {high}]: there are none from {low} to {high}")
    return _rounded(low + (random_bits(d.seed, d.count) % np.uint64(high - low + 1)).astype(np.int64), d.dtype)


def _normal(d: _Draw) -> np.ndarray:
    total = sum((_uniform(d.seed, d.count, stream) for stream in range(12)), np.full(d.count, -6.0))
    return _rounded(d.given[0] + d.given[1] * total, d.dtype)


def _values(d: _Draw) -> np.ndarray:
    words = np.array(d.given, dtype=d.storage if d.dtype in PLAIN else d.unsigned)
    return np.resize(words, d.count).view(d.storage)


def _permutation(d: _Draw) -> np.ndarray:
    if d.given < 1 or d.count % d.given:
        raise ValueError(f"distribution: permutation = {d.given}: needs a number that divides the {d.count} elements")
    keys = random_bits(d.seed, d.count).reshape(-1, int(d.given))
    return _rounded(np.argsort(keys, axis=1, kind="stable").ravel(), d.dtype)


EMPTY = "empty"  # uninitialised
DISTRIBUTIONS = {
    "zeros": _Distribution(lambda d: np.zeros(d.count, d.storage), work=0),
    EMPTY: _Distribution(lambda d: np.full(d.count * d.storage.itemsize, 0xFF, np.uint8).view(d.storage), work=0),
    "bits": _Distribution(_bits),
    "floats": _Distribution(lambda d: _float_bits(d.dtype, d.seed, d.count).astype(d.unsigned).view(d.storage), work=160),
    "fill": _Distribution(lambda d: np.full(d.count, _rounded(np.array([d.given]), d.dtype)[0]), 1, work=0),
    "iota": _Distribution(lambda d: _rounded(d.given[0] + d.given[1] * np.arange(d.count), d.dtype), 2),
    "integers": _Distribution(_integers, 2),
    "uniform": _Distribution(lambda d: _rounded(d.given[0] + (d.given[1] - d.given[0]) * _uniform(d.seed, d.count), d.dtype), 2),
    "normal": _Distribution(_normal, 2, work=64),
    "permutation": _Distribution(_permutation, 1),
    "values": _Distribution(_values, 0, work=0),
}


# ---- An array of a recipe


def array_of(recipe: Mapping[str, Any]) -> np.ndarray:
    """The array of a recipe {"name", "dtype", "shape", "seed", "distribution"}. Types bf16, e4m3 and e5m2 are raw bits.
    Raises TraceError.

    The distribution is a word or a table. The words are "zeros", "empty" (bytes of 0xff that count as uninitialised),
    "bits" (any bit pattern), and "floats" (numbers of every kind, NaN too).

    A table {"fill": x} has one number, {"iota": [first, step]} has equal steps. Integers are drawn by {"integers":
    [low, high]}, both included. Numbers are drawn by {"uniform": [low, high]}, or by {"normal": [mean, deviation]}, a
    sum of twelve uniform numbers. A table {"values": [...]} is repeated to the shape. A table {"permutation": n} has
    the numbers below n, each once a row.

    >>> array_of({"name": "a", "dtype": "s32", "shape": [4], "seed": 7, "distribution": {"integers": [-2, 2]}}).tolist()
    [0, 2, -1, 1]
    """
    try:
        for key in ("dtype", "shape", "distribution"):
            if key not in recipe:
                raise ValueError(f"{key} is missing")
        dtype = recipe["dtype"]
        if not isinstance(dtype, str) or dtype not in WIDTHS:
            raise ValueError(f"dtype = {shown(dtype)}: needs one of {' '.join(WIDTHS)}{suggestion(dtype, WIDTHS)}")
        shape = extents(recipe["shape"])
        seed = whole("seed", recipe.get("seed", 0), minimum=0, most_bits=64)
        kind, given = _distribution(recipe["distribution"], dtype)
        storage = np.dtype(PLAIN.get(dtype) or NARROW[dtype])
        return np.ascontiguousarray(_drawn(kind, given, dtype, storage, seed, shape).reshape(shape))
    except (TypeError, ValueError, ArithmeticError) as e:
        called = f"array {recipe['name']}" if recipe.get("name") else "array"
        raise TraceError(f"{called} cannot be made: {e}") from None


def extents(shape: Any) -> tuple[int, ...]:
    """The shape of an array as a tuple. ValueError with a sentence for one that no array has here."""
    if not isinstance(shape, (list, tuple)) or not all(_is_extent(n) for n in shape):
        raise ValueError(f"shape = {shown(shape)}: needs a list of whole numbers, such as [128, 64]")
    if len(shape) > MOST_EXTENTS:
        raise ValueError(f"shape: has {len(shape)} extents; needs at most {MOST_EXTENTS}")
    if math.prod(shape) > MOST_ELEMENTS or max(shape, default=0) > MOST_ELEMENTS:
        raise ValueError(f"shape = {shown(list(shape))}: needs 0 to {MOST_ELEMENTS:,} elements")
    return tuple(map(int, shape))


def _is_extent(n: Any) -> bool:
    return not isinstance(n, bool) and (isinstance(n, int) or is_whole(n)) and n >= 0


def _distribution(what: Any, dtype: str) -> tuple[str, Any]:
    """(its name, its numbers)."""
    kind, given = next(iter(what.items())) if isinstance(what, Mapping) and len(what) == 1 else (what, None)
    known = tuple(name for name, d in DISTRIBUTIONS.items() if (d.numbers is None) == (given is None))
    if kind not in known:
        plain, tables = ([name for name, d in DISTRIBUTIONS.items() if (d.numbers is None) == alone] for alone in (True, False))
        raise ValueError(
            f"distribution = {shown(what)}: needs one of {' '.join(plain)}, or a table of one of {' '.join(tables)}{suggestion(kind, known)}"
        )
    if kind == "floats" and dtype not in FLOATS:
        raise ValueError(f"distribution = 'floats': {dtype} is no floating-point type; 'bits' draws any bits")
    if given is None:
        return kind, None
    count, numbers = DISTRIBUTIONS[kind].numbers, given if isinstance(given, (list, tuple)) else [given]
    as_many = len(numbers) == count if count else len(numbers) > 0
    if (numbers is given) == (count == 1) or not as_many or not all(type(x) in (int, float) for x in numbers):
        wanted = "a number" if count == 1 else f"a list of {count or 'some'} numbers"
        raise ValueError(f"distribution: {kind} = {shown(given)}: needs {wanted}")
    if kind in ("fill", "integers", "values") and dtype not in FLOATS:
        size = np.iinfo(np.dtype(PLAIN[dtype]).name)
        if not all(size.min <= x <= size.max for x in numbers):
            raise ValueError(f"distribution: {kind} = {shown(given)}: {dtype} holds {size.min} to {size.max}")
    return kind, given


def _drawn(kind: str, given: Any, dtype: str, storage: np.dtype[Any], seed: int, shape: tuple[int, ...]) -> np.ndarray:
    count, distribution = math.prod(shape), DISTRIBUTIONS[kind]
    ask(f"shape = {shown(list(shape))}", count * (storage.itemsize + distribution.work))
    with np.errstate(over="ignore", invalid="ignore"):  # 1e308 is an infinity as f32
        return distribution.draw(_Draw(given, dtype, storage, seed, count))
