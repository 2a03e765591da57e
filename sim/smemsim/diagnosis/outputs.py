"""The results of a kernel in an array: its first values and digest, and the elements that are not as expected."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.array_files import read_array
from smemsim.base.errors import InputError
from smemsim.core.arithmetic.values import to_float64
from smemsim.core.spec.formats import FORMATS
from smemsim.diagnosis.numbers import NO_ROUNDING, Rounding, Tolerance, numbers_told, rounded

__all__ = ["Comparison", "Error", "Output", "Wanted", "expected_array", "out_names"]


FIRST = 6
DIGEST = "sha256:"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """When numbers count as expected: with a `tolerance` within that, with `exact` bit by bit, else within what
    `rounding` gives.
    """

    tolerance: Tolerance | None = None
    exact: bool = False
    rounding: Rounding = NO_ROUNDING


@dataclasses.dataclass(frozen=True)
class Error:
    """How far an element is off: its place, and what it is and should be, in words."""

    size: float
    at: tuple[int, ...]
    found: str
    wanted: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An output compared with the expected array of `size` elements. The number of different ones is `differing`, and
    `beyond` of them differ by too much. The sentence about it is `difference`, "" if there is none.

    The largest "absolute" and "relative" error are in `errors`. If `is_rounding` is set, another order of summation, or
    another type of accumulation, may explain everything.
    """

    name: str
    size: int
    differing: int = 0
    difference: str = ""
    beyond: int = 0
    errors: Mapping[str, Error] = dataclasses.field(default_factory=dict)
    is_rounding: bool = False
    tolerance: Tolerance | None = None

    @property
    def verdict(self) -> str:
        """The result of the comparison in words, for the line of the output; "" if the output differs."""
        if self.difference:
            return ""
        if not self.differing:
            return "as expected"
        within = f"within {self.tolerance}" if self.tolerance is not None else "except for rounding"
        exact = "" if self.tolerance is not None else "; --exact demands every bit"
        return f"as expected {within}: {self.differing} of {self.size} elements differ, {self.largest}{exact}"

    @property
    def largest(self) -> str:
        """The largest errors with their places, in words."""
        places = []
        for name, error in self.errors.items():
            what = f" ({error.found}, expected {error.wanted})" if name == "absolute" else ""
            places.append(f"largest {name} error {error.size:.3g} at {_indexed(self.name, error.at)}{what}")
        return ", ".join(places) or "none by a number"

    @property
    def text(self) -> str:
        """The difference with the largest errors, and whether it looks like rounding; ""
        where nothing is too far off.
        """
        if not self.beyond:
            return self.difference
        more = (
            "; it looks like rounding: another order of summation, or another type of accumulation, gives differences of this size"
            if self.is_rounding
            else ""
        )
        limit = "within the tolerance" if self.tolerance is not None else "too little to count"
        count = self.differing - self.beyond
        others = f" ({count} other element{'s differ' if count > 1 else ' differs'} {limit})" if count else ""
        return f"{self.difference}{others}; {self.largest}{more}"

    def as_dict(self) -> dict[str, Any]:
        """The comparison as a dictionary for JSON."""
        return {
            "differing": self.differing, "beyond": self.beyond, "looks_like_rounding": self.is_rounding,
            **{f"largest_{name}_error": {"size": e.size, "at": list(e.at)} for name, e in self.errors.items()},
        }  # fmt: skip


_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_TAKEN = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}  # names that Windows keeps for itself
LONGEST_NAME = 100  # characters of a file's name


def out_names(arrays: Iterable[str]) -> dict[str, str]:
    """The .npy file of each array. Names differ on every file system. Characters that no file name may have become %XX.

    >>> out_names(["d", "p/x", "q/x", "D", ".."])
    {'d': 'd.npy', 'p/x': 'p%2Fx.npy', 'q/x': 'q%2Fx.npy', 'D': 'D~2.npy', '..': '%2E..npy'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for array in arrays:
        plain = _PLAIN.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode("utf-8", "replace")), array)[:LONGEST_NAME]
        if plain.startswith(".") or plain.casefold().partition(".")[0] in _TAKEN:
            plain = f"%{ord(plain[0]):02X}{plain[1:]}"
        name, count = plain, 1
        while name.casefold() in taken:
            count += 1
            name = f"{plain}~{count}"
        taken.add(name.casefold())
        names[array] = f"{name}.npy"
    return names


def expected_array(path: pathlib.Path, array: np.ndarray) -> np.ndarray:
    """The expected contents of an array from an .npy file. Recorded contents are bytes: they get its elements and shape."""
    made = read_array(path)
    if made.dtype == np.uint8 and made.nbytes == array.nbytes and array.itemsize > 1:
        return np.ascontiguousarray(made).reshape(-1).view(array.dtype).reshape(array.shape)
    return made


@dataclasses.dataclass(frozen=True, eq=False)
class Output:
    """An array after a launch; `dtype` is its element type by name where `array` has raw bits."""

    name: str
    array: np.ndarray
    dtype: str = ""

    @property
    def sha256(self) -> str:
        """The digest of its bytes."""
        return hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()

    @property
    def type(self) -> str:
        """The element type by its PTX name, or numpy's."""
        known = (name for name, f in FORMATS.items() if self.array.dtype.name in f.numpy_names)
        return self.dtype or next(known, str(self.array.dtype))

    def values(self, raw: np.ndarray) -> np.ndarray:
        """Numbers of elements as they lie in memory."""
        fmt = FORMATS.get(self.dtype)
        if fmt is not None and fmt.is_float and raw.dtype.kind == "u":
            return to_float64(raw, self.dtype)
        return raw.astype(np.float64) if raw.dtype.kind == "V" and raw.dtype.names is None else raw

    def numbers(self, itemsize: int) -> np.ndarray:
        """Its values as numpy computes with them; what has elements of another size than `itemsize` bytes is numbers
        already.
        """
        found = self.values(self.array) if self.array.dtype.itemsize == itemsize else self.array
        return found.astype(np.float64) if found.dtype.kind == "V" and found.dtype.names is None else found

    def text(self) -> str:
        """A line: name, type, shape, the first values, the digest.

        >>> Output("d", np.arange(8, dtype=np.float32).reshape(2, 4)).text()
        'd: f32 2x4, 0 1 2 3 4 5 ..., sha256:0571cfe42be5c7b95de9afc7c7ba1286fb7a2ef10a9035f8d6b87d21a3bc8387'
        """
        flat = self.array.reshape(-1)
        first = " ".join(_number(x) for x in self.values(flat[:FIRST]))
        more = " ..." if flat.size > FIRST else ""
        return f"{self.name}: {self.type} {'x'.join(map(str, self.array.shape)) or 'number'}, {first}{more}, {DIGEST}{self.sha256}"

    def as_dict(self) -> dict[str, Any]:
        """The output as a dictionary for JSON."""
        return {"name": self.name, "dtype": self.type, "shape": list(self.array.shape), "sha256": self.sha256}

    def compared(self, expected: str, folder: pathlib.Path, how: Wanted | None = None) -> Comparison:
        """The comparison of the output with what was expected.

        `expected` is the name of an .npy file in `folder`, or "sha256:" and a digest, of which every bit counts. The
        array must have this one's shape. Its elements are numbers of any type, or raw bits (integers or void, of the
        same size) where numpy has no such type.

        Raises InputError for another shape, for bits of a type that numpy has, for what is no number, and for any other
        `expected`.
        """
        if expected.startswith(DIGEST):
            same = expected == DIGEST + self.sha256
            return Comparison(
                self.name, self.array.size, 0 if same else 1, "" if same else f"{self.name}: {DIGEST}{self.sha256}, expected {expected}"
            )
        if not expected.endswith(".npy"):
            raise InputError(f"{self.name}: expected {shown(expected)}: needs the name of an .npy file, or sha256:DIGEST")
        return self.against(expected_array(folder / expected, self.array), expected, how or Wanted())

    def against(self, wanted: np.ndarray, name: str, how: Wanted) -> Comparison:
        """Compares the output with an array of what was expected; messages call that array `name`."""
        mine, theirs, same = self._pair(wanted, name)
        if how.exact or mine.dtype.kind not in "biuf":  # what is compared with numbers is numbers
            near = same
        elif how.tolerance is not None:
            near = how.tolerance.near(mine, theirs)
        else:
            near = same | how.rounding.near(mine, theirs)
        return _comparison(self, mine, theirs, same, near, how)

    def _pair(self, wanted: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the numbers, the expected numbers, are they equal): bit by bit if both have bits of one size, else rounded
        once to the type.
        """
        if wanted.shape != self.array.shape:
            raise InputError(
                f"{name}: shape {wanted.shape}, {self.name} has {self.array.shape}; needs the same shape (numpy.reshape, if the order is the same)"
            )
        if wanted.dtype.kind not in "biufV" or (
            wanted.dtype.kind == "V" and wanted.dtype != self.array.dtype and not self._takes_bits(wanted)
        ):
            raise InputError(f"{name}: elements of {wanted.dtype}, {self.name} is {self.type}; needs numbers")
        if self.array.dtype.kind == "f" and wanted.dtype.kind == "u" and wanted.dtype.itemsize == self.array.dtype.itemsize:
            raise InputError(
                f"{name}: elements of {wanted.dtype}, {self.name} is {self.type}: bits or numbers? .view(numpy.{self.array.dtype}) for bits, "
                f".astype(numpy.{self.array.dtype}) for numbers"
            )
        wanted = np.ascontiguousarray(wanted).reshape(self.array.shape)
        mine = self.values(self.array)
        kinds = (self.array.dtype.kind, wanted.dtype.kind)
        if (
            wanted.dtype == self.array.dtype
            or self._takes_bits(wanted)
            or (set(kinds) <= set("iu") and wanted.itemsize == self.array.itemsize)
        ):
            bits = f"V{self.array.dtype.itemsize}"
            same = np.ascontiguousarray(self.array).view(bits) == np.ascontiguousarray(wanted).view(bits)
            return mine, self.values(wanted.view(self.array.dtype)), np.asarray(same).reshape(wanted.shape)
        nearest = rounded(wanted, self.type)
        with np.errstate(invalid="ignore"):
            return (
                mine,
                wanted,
                np.asarray((mine == nearest) | (np.isnan(mine) & np.isnan(nearest)) if mine.dtype.kind == "f" else mine == nearest),
            )

    def _takes_bits(self, wanted: np.ndarray) -> bool:
        """Has `wanted` raw bits of this array's type, where numpy has no such type?"""
        return wanted.dtype.kind in "uV" and self.array.dtype.kind in "uV" and wanted.itemsize == self.array.itemsize


def _comparison(output: Output, mine: np.ndarray, theirs: np.ndarray, same: np.ndarray, near: np.ndarray, how: Wanted) -> Comparison:
    differing = int(np.count_nonzero(~same))
    if not differing:
        return Comparison(output.name, same.size)
    numbers = mine.dtype.kind in "biuf"
    errors = _errors(mine, theirs, same) if numbers else {}
    is_rounding = numbers and bool((same | how.rounding.near(mine, theirs)).all())
    told = _told(output, ~near, mine, theirs, how) if not near.all() else ""
    return Comparison(output.name, same.size, differing, told, int(np.count_nonzero(~near)), errors, is_rounding, how.tolerance)


def _errors(mine: np.ndarray, theirs: np.ndarray, same: np.ndarray) -> dict[str, Error]:
    """The largest absolute and relative error, of elements that are numbers on both sides."""
    a, b = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
    with np.errstate(all="ignore"):
        far = np.where(~same & np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0.0)
        part = np.where(b != 0, far / np.abs(b), 0.0)
    errors = {}
    for name, error in (("absolute", far), ("relative", part)):
        at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
        if error[at] > 0:
            errors[name] = Error(float(error[at]), at, _number(mine[at]), _number(theirs[at]))
    return errors


def _told(output: Output, wrong: np.ndarray, mine: np.ndarray, theirs: np.ndarray, how: Wanted) -> str:
    at = tuple(int(x[0]) for x in np.nonzero(wrong)) if wrong.ndim else ()
    where = ""
    if wrong.ndim == 2:
        rows, columns = (np.flatnonzero(wrong.any(axis)).tolist() for axis in (1, 0))
        where = f", in rows {numbers_told(rows, wrong.shape[0])} and columns {numbers_told(columns, wrong.shape[1])}"
    by = f" by more than {how.tolerance}" if how.tolerance is not None else ""
    first = f"{_indexed(output.name, at)} is {_number(mine[at])}, expected {_number(theirs[at])}"
    return f"{output.name}: {int(wrong.sum())} of {wrong.size} elements differ{by}{where}; {first}"


def _indexed(name: str, at: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _number(value: Any) -> str:
    if isinstance(value, (np.floating, float)):
        return f"{float(value):.9g}"
    return str(value) if isinstance(value, (np.integer, np.bool_)) else shown(value)
