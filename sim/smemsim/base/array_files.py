"""Files of numpy's arrays, .npy and .npz: what their headers say is checked against the file and the budget of memory
before anything is taken.
"""

from __future__ import annotations

import ast
import functools
import io
import math
import os
import pathlib
import sys
import zipfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from smemsim.base.arguments import shown
from smemsim.base.budget import ask, told
from smemsim.base.errors import InputError
from smemsim.base.files import opened, read_bytes, why_not

if TYPE_CHECKING:
    import numpy as np

__all__ = ["RAW_SIZES", "array_in", "read_array", "read_npy", "read_npz"]


MOST_HEADER = 1 << 16  # bytes of the header of an .npy file
PIECE = 1 << 24  # bytes that are read at once
RAW_SIZES = (1, 2, 4, 8)  # bytes of elements without a type
ZIP = b"PK\x03\x04"  # what an .npz file begins with


def read_npy(path: pathlib.Path, most: int | None = None) -> np.ndarray:
    """The array of an .npy file; what its header says is checked against the file and the budget of memory before
    anything is taken.
    """
    try:
        with opened(path, most if most is not None else sys.maxsize) as file:
            return array_in(file, os.fstat(file.fileno()).st_size, str(path))
    except InputError:
        raise
    except OSError as e:
        raise InputError(f"{path}: {why_not(e)}") from None
    except (ValueError, EOFError, SyntaxError, TypeError, RecursionError):
        raise InputError(f"{path}: not an .npy file of plain numbers; numpy.save writes one") from None


def array_in(file: IO[bytes], size: int, name: str) -> np.ndarray:
    """The array in an .npy file of `size` bytes that is open; ValueError where it is none."""
    import numpy as np

    begin = io.BytesIO(file.read(min(size, MOST_HEADER)))
    if begin.getvalue()[:4] == ZIP:
        raise InputError(f"{name}: holds several arrays; needs an .npy file with one")
    version = np.lib.format.read_magic(begin)
    length = int.from_bytes(begin.read(2 if version == (1, 0) else 4), "little")
    header = begin.read(length)
    if len(header) < length:
        raise ValueError("the header is cut off")
    said = ast.literal_eval(header.decode("latin1" if version < (3, 0) else "utf-8").strip())
    if not isinstance(said, dict) or said.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("no header")
    shape, is_fortran = said["shape"], said["fortran_order"]
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(said["descr"])
    if (
        not isinstance(shape, tuple)
        or len(shape) > 64
        or not all(type(n) is int and 0 <= n <= sys.maxsize for n in shape)
        or dtype.hasobject
    ):
        raise ValueError("no plain numbers")
    needed, there = math.prod(shape) * dtype.itemsize, size - begin.tell()
    if needed > there:
        raise InputError(
            f"{name}: says {told(needed)} of {dtype} {shown(shape)}, and holds {told(max(0, there))}; the file is cut off or damaged"
        )
    ask(f"{name}: {dtype} {shown(shape)}", needed)
    raw = bytearray(needed)
    already = begin.read()[:needed]
    raw[: len(already)] = already
    at = len(already)
    while at < needed:
        piece = file.read(min(needed - at, PIECE))
        if not piece:
            raise ValueError("the file is cut off")
        raw[at : at + len(piece)] = piece
        at += len(piece)
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if is_fortran else "C") if needed else np.zeros(shape, dtype)


def read_array(path: pathlib.Path) -> np.ndarray:
    """The array of an .npy file. InputError for anything else, and for one that the budget
    of memory has no room for.
    """
    found = read_npy(path)
    is_raw = found.dtype.kind == "V" and found.dtype.names is None  # as numpy.save writes the small floats of ml_dtypes
    if found.dtype.kind not in "biufcV" or (is_raw and found.dtype.itemsize not in RAW_SIZES):
        raise InputError(f"{path}: an array of {found.dtype}; needs plain numbers")
    return found


def read_npz(path: pathlib.Path, most: int) -> dict[str, Callable[[], np.ndarray]]:
    """The arrays of an .npz file by name. Each is read when it is used.

    The headers are checked first. Raises InputError if the arrays need more than `most` bytes or the memory budget, and
    ValueError if the file is not an .npz file.
    """
    data = read_bytes(path, most)
    try:
        bundle = zipfile.ZipFile(io.BytesIO(data))
        members = {one.filename.removesuffix(".npy"): one for one in bundle.infolist()}
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as e:
        raise ValueError(str(e)) from None
    unpacked = sum(one.file_size for one in members.values())
    if unpacked > most:
        raise InputError(f"{path}: unpacks to {told(unpacked)}; at most {told(most)} are read")
    ask(f"{path}, unpacked", unpacked)

    def array(one: zipfile.ZipInfo) -> np.ndarray:
        with bundle.open(one) as file:
            return array_in(file, one.file_size, f"{path}: {one.filename}")

    return {name: functools.partial(array, one) for name, one in members.items()}
