"""Files: read where they are regular files of a size that somebody has said, written whole or not at all.

A device, a pipe or a socket is never opened: reading one may hang, never end, or change something.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import math
import os
import pathlib
import re
import stat
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from smemsim.arguments import shown
from smemsim.budget import ask, told
from smemsim.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "array_in",
    "check_folder",
    "check_place",
    "named_inside",
    "opened",
    "parse_toml",
    "read_array",
    "read_bytes",
    "read_npy",
    "read_npz",
    "same_file",
    "source_folders",
    "source_line",
    "write_whole",
]


MOST_SOURCE = 1 << 22  # bytes of a source file of which a line is shown
MOST_HEADER = 1 << 16  # bytes of the header of an .npy file
PIECE = 1 << 24  # bytes that are read at once
MOST_PARTS = 64  # of a dotted key
_LONG_KEY = re.compile(rf"(?<![\w-])(?:(?>[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_PARTS}}}")
ZIP = b"PK\x03\x04"  # what an .npz file begins with
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _kind(mode: int) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")


def opened(path: pathlib.Path, most: int) -> BinaryIO:
    """A regular file of at most `most` bytes, open for reading. InputError names it and says why not."""
    try:
        _regular(path, os.stat(path).st_mode)  # before it is opened: to open a device may do something already
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(number, "rb")
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
    except InputError:
        raise
    except ValueError:  # a zero byte
        raise InputError(f"{shown(str(path))}: not the name of a file") from None
    about = os.fstat(number)
    try:
        _regular(path, about.st_mode)  # and after: it may be another file by now
        if about.st_size > most:
            raise InputError(f"{path}: {told(about.st_size)}; at most {told(most)} are read")
    except InputError:
        file.close()
        raise
    return file


def _regular(path: pathlib.Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is {_kind(mode)}; smemsim reads regular files, and devices and pipes never")


def read_bytes(path: pathlib.Path, most: int) -> bytes:
    """The contents of a regular file of at most `most` bytes."""
    try:
        with opened(path, most) as file:
            ask(str(path), os.fstat(file.fileno()).st_size)
            data = file.read(most + 1)
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
    if len(data) > most:  # those of /proc say that they are empty
        raise InputError(f"{path}: more than {told(most)}; at most these are read")
    return data


def named_inside(folder: pathlib.Path, name: str, allowed: Sequence[pathlib.Path] = ()) -> pathlib.Path | None:
    """The file of a name that a file in `folder` gives, links followed; None where it lies outside of that folder and of the `allowed` ones."""
    try:
        found = (folder / name).resolve()
        return found if any(found.is_relative_to(one.resolve()) for one in (folder, *allowed)) else None
    except (OSError, ValueError, RuntimeError):  # a zero byte, a loop of links
        return None


def source_folders(beside: Sequence[pathlib.Path] = (), allowed: Sequence[pathlib.Path] = ()) -> tuple[pathlib.Path, ...]:
    """Where the sources of a kernel may lie: the current folder, those beside its PTX and its launch file, and what somebody allows by name.

    The root of a file system is none of them unless it is allowed by name: everything lies below it.
    """
    near = [folder for folder in (pathlib.Path(), *beside) if not _is_root(folder)]
    return tuple(dict.fromkeys((*near, *allowed)))


def _is_root(folder: pathlib.Path) -> bool:
    place = os.path.realpath(folder)
    return place == os.path.dirname(place)


def source_line(name: str, line: int, folders: Sequence[pathlib.Path]) -> str:
    """A line of a source file that some PTX names, "" where it cannot be read or lies in none of the folders, links followed."""
    for folder in folders:
        found = named_inside(folder, name, folders)
        if found is not None and found.is_file():
            with contextlib.suppress(InputError, ValueError):
                lines = read_bytes(found, MOST_SOURCE).decode("utf-8").splitlines()
                return lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return ""


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML text as a dict. ValueError for what is none, InputError for keys of so many parts that reading them would take for ever.

    >>> parse_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(f"line {line}: a key of more than {MOST_PARTS} parts")
    return tomllib.loads(text)


def same_file(a: pathlib.Path, b: pathlib.Path) -> bool:
    """Are two names those of one file, also where the file system does not tell capitals from small letters?"""
    return str(a.resolve()).casefold() == str(b.resolve()).casefold()


def check_place(option: str, path: pathlib.Path) -> None:
    """InputError where a file cannot be written at a path: no folder, or what is there is no regular file."""
    try:
        if not path.absolute().parent.is_dir():
            raise InputError(f"{option} {path}: cannot write there: there is no such folder")
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as e:
        raise InputError(f"{option} {path}: cannot write there: {e.strerror or e}") from None
    except ValueError as e:
        if isinstance(e, InputError):
            raise
        raise InputError(f"{option} {shown(str(path))}: not the name of a file") from None
    if not stat.S_ISREG(mode):
        what = f"it is {_kind(mode)}"
        raise InputError(f"{option} {path}: cannot write there: {what}")


def check_folder(option: str, path: pathlib.Path) -> None:
    """InputError where a folder cannot be made, or nothing can be written into it; it is there afterwards."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as e:
        what = "a file of this name is there" if isinstance(e, FileExistsError) else e.strerror or e
        raise InputError(f"{option} {path}: cannot write there: {what}") from None


def write_whole(path: pathlib.Path, content: str | bytes | Callable[[BinaryIO], None]) -> None:
    """Write a file so that it is there whole or not at all: beside its place first, then in it. A function writes the content itself.

    InputError says what went wrong; what was in the file before is there still.
    """
    place = path.resolve()
    beside = place.with_name(f".{place.name[:100]}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file():
            raise InputError(f"{path}: cannot be written: it is {_kind(place.stat().st_mode)}")
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with open(number, "wb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content.encode("utf-8") if isinstance(content, str) else content)
            os.replace(beside, place)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from None


def read_npy(path: pathlib.Path, most: int | None = None) -> np.ndarray:
    """The array of an .npy file; what its header says is checked against the file and the budget of memory before anything is taken."""
    try:
        with opened(path, most if most is not None else sys.maxsize) as file:
            return array_in(file, os.fstat(file.fileno()).st_size, str(path))
    except InputError:
        raise
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
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
    """The array of an .npy file. InputError for anything else, and for one that the budget of memory has no room for."""
    found = read_npy(path)
    if found.dtype.kind not in "biufcV":
        raise InputError(f"{path}: an array of {found.dtype}; needs plain numbers")
    return found


def read_npz(path: pathlib.Path, most: int) -> dict[str, Callable[[], np.ndarray]]:
    """The arrays of an .npz file by name, each read when it is called for. What the file's own headers say is looked at first: InputError where
    they unpack to more than `most` bytes all together, or to more than the budget of memory has room for; ValueError for what is no such file.
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
