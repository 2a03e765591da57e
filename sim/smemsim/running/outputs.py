"""What a kernel left in an array: its first values and digest, and where it is not what was expected."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.arithmetic.values import to_float64
from smemsim.diagnose.numbers import numbers_told
from smemsim.errors import InputError
from smemsim.spec.formats import FORMATS
from smemsim.traces.launch_file import read_array

__all__ = ["Output"]

FIRST = 6
DIGEST = "sha256:"


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
