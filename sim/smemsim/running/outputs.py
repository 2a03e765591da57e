"""What a kernel left in an array: its first values and digest, and where it is not what was expected."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.arithmetic.values import to_float64
from smemsim.diagnose.numbers import numbers_told
from smemsim.errors import InputError
from smemsim.spec.formats import FORMATS
from smemsim.traces.launch_file import read_array

__all__ = ["Output", "out_names"]

FIRST = 6
DIGEST = "sha256:"


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
    """The .npy file of each array, all different on every file system: what no file may be called is written as %XX.

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
        """Its values as numpy computes with them; what has elements of another size than `itemsize` bytes is numbers already."""
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
        """As JSON has it."""
        return {"name": self.name, "dtype": self.type, "shape": list(self.array.shape), "sha256": self.sha256}

    def difference(self, expected: str, folder: pathlib.Path, relative: float = 0.0) -> str | None:
        """Where it differs from what was expected, in a sentence; "" where nothing does, None for what cannot be compared here.

        `expected` is the name of an .npy file in `folder`, or "sha256:" and a digest. `relative` is how far an element may be off, as a part of
        the largest number; without it every bit counts.
        """
        if expected.startswith(DIGEST):
            return "" if expected == DIGEST + self.sha256 else f"{self.name}: {DIGEST}{self.sha256}, expected {expected}"
        if not expected.endswith(".npy"):
            return None  # an expression of a recorded launch
        wanted = read_array(folder / expected)
        if wanted.size != self.array.size or (wanted.dtype.itemsize != self.array.dtype.itemsize and not relative):
            raise InputError(f"{expected}: {wanted.dtype} {wanted.shape}, {self.name} is {self.array.dtype} {self.array.shape}")
        wanted = np.ascontiguousarray(wanted).reshape(self.array.shape)
        mine, theirs = self.values(self.array), self.values(wanted) if wanted.dtype.itemsize == self.array.dtype.itemsize else wanted
        if relative:
            size = np.abs(theirs[np.isfinite(theirs)], dtype=np.float64).max(initial=0.0)
            with np.errstate(invalid="ignore"):
                near = np.abs(mine.astype(np.float64) - theirs) <= relative * size
            wrong = ~(near | (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
        else:
            bits = f"V{self.array.dtype.itemsize}"
            wrong = np.ascontiguousarray(self.array).view(bits) != wanted.view(bits)
        return self._told(wrong, mine, theirs) if wrong.any() else ""

    def _told(self, wrong: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> str:
        at = tuple(int(x[0]) for x in np.nonzero(wrong)) if wrong.ndim else ()
        where = ""
        if wrong.ndim == 2:
            rows, columns = (np.flatnonzero(wrong.any(axis)).tolist() for axis in (1, 0))
            where = f", in rows {numbers_told(rows, wrong.shape[0])} and columns {numbers_told(columns, wrong.shape[1])}"
        index = f"[{', '.join(map(str, at))}]" if at else ""
        first = f"{self.name}{index} is {_number(mine[at])}, expected {_number(theirs[at])}"
        return f"{self.name}: {int(wrong.sum())} of {wrong.size} elements differ{where}; {first}"


def _number(value: Any) -> str:
    if isinstance(value, (np.floating, float)):
        return f"{float(value):.9g}"
    return str(value) if isinstance(value, (np.integer, np.bool_)) else shown(value)
