"""What a case is: a kernel of a compiler, its arguments in order, its arrays, and what it must compute."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

__all__ = ["Array", "Case", "Constant", "Descriptor", "Im2col", "Value", "about_results"]

# What stands in memory where no recipe has the type: two e2m1 in a byte, exponents of ue8m0.
STORED = {"tf32": "f32", "e2m1x2": "u8", "ue8m0": "u8", "ue4m3": "e4m3"}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array in global memory: type, shape, and two ways to fill it, one that every order of summation adds up
    exactly.

    A way is a word of `smemsim.evidence.recipes`, or a word and a range: "integers -3..3"; "powers -2..2" are powers of
    two.
    """

    dtype: str
    shape: tuple[int, ...]
    distribution: str = "zeros"
    random: str = ""  # "": the same as `distribution`

    def to_json(self, launch: str, name: str) -> dict[str, Any]:
        out = {"name": name, "dtype": STORED.get(self.dtype, self.dtype), "shape": list(self.shape)}
        out |= {"seed": zlib.crc32(f"{launch} {name}".encode()), "distribution": self._recipe(self.distribution)}
        return out | ({"random": self._recipe(self.random)} if self.random else {})

    def _recipe(self, told: str) -> Any:
        word, _, span = told.partition(" ")
        if self.dtype == "e2m1x2":
            return "bits"  # every code is a number, and sums of their products are exact in f32
        if word == "normal":
            return {"normal": [0, 1]}
        if word == "permutation":
            return {"permutation": self.shape[-1]}
        if not span:
            return word
        if word == "values":
            return {"values": [int(x) for x in span.split(",")]}
        low, high = (float(x) if "." in x.replace("..", "") else int(x) for x in span.split(".."))
        return {"integers": [127 + int(low), 127 + int(high)]} if word == "powers" else {word: [low, high]}


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """A host tensor descriptor: the tiled map of `array`, whose boxes are those that the compiler asks for; `layout` is
    a Gluon kernel's.
    """

    array: str
    block: tuple[int, ...]
    layout: Any = None
    nan_fill: bool = False
    round_to_tf32: bool = False
    shape: tuple[int, ...] = ()  # the tensor's, where it is not the array's
    strides: tuple[int, ...] = ()  # in elements


@dataclasses.dataclass(frozen=True)
class Im2col:
    """An im2col map of `array` (N, spatial..., C): `block` is pixels by channels, the corners are those of the pixel
    box (D, H, W order).
    """

    array: str
    block: tuple[int, int]
    layout: Any
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    element_strides: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Value:
    """A scalar parameter: PTX type and value."""

    type: str
    value: int | float


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constexpr: no parameter of the kernel."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Case:
    """`args` by name in the order of the signature; a string is an array's name. `expected`: output name -> expression
    of `expected_results`.
    """

    name: str
    title: str
    kernel: Any
    args: dict[str, Any]
    arrays: dict[str, Array]
    expected: dict[str, str]
    grid: tuple[int, int, int] = (1, 1, 1)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # of outputs, relative to the largest number of it
    tolerance: dict[str, float] = dataclasses.field(default_factory=dict)
    why_not_exact: str = ""


def about_results(case: Case) -> dict[str, Any]:
    """What launch.json says of arrays and results."""
    return {
        "arrays": [array.to_json(case.name, name) for name, array in case.arrays.items()],
        "outputs": list(case.expected),
        "exact": not case.tolerance,
        "why_not_exact": case.why_not_exact,
        "tolerance": case.tolerance,
        "expected": case.expected,
    }
