"""Files: read only if they are regular files below a given size, and written completely or not at all.

A device, a pipe or a socket is never opened: reading it may hang, never end, or change something.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import stat
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from smemsim.base.arguments import shown
from smemsim.base.budget import ask, told
from smemsim.base.errors import InputError

if TYPE_CHECKING:
    pass

__all__ = [
    "check_folder",
    "check_place",
    "named_inside",
    "opened",
    "read_bytes",
    "same_file",
    "source_folders",
    "source_line",
    "source_text",
    "why_not",
    "write_whole",
    "wrote",
]


MOST_SOURCE = 1 << 22  # bytes of a source file of which a line is shown
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _kind(mode: int) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")


def why_not(error: OSError) -> str:
    """Why a file cannot be read or written, in words.

    >>> why_not(FileNotFoundError(2, "No such file or directory")), why_not(PermissionError(13, "Permission denied"))
    ('there is no such file', 'permission denied')
    """
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    said = error.strerror or str(error)
    return f"{said[:1].lower()}{said[1:]}"


def opened(path: pathlib.Path, most: int) -> BinaryIO:
    """A regular file of at most `most` bytes, open for reading. InputError names it and says why not."""
    try:
        _regular(path, os.stat(path).st_mode)  # before it is opened: to open a device may do something already
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(number, "rb")
    except OSError as e:
        raise InputError(f"{path}: {why_not(e)}") from None
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
        raise InputError(f"{path}: is {_kind(mode)}; smemsim reads regular files only, no devices and pipes")


def read_bytes(path: pathlib.Path, most: int) -> bytes:
    """The contents of a regular file of at most `most` bytes."""
    try:
        with opened(path, most) as file:
            ask(str(path), os.fstat(file.fileno()).st_size)
            data = file.read(most + 1)
    except OSError as e:
        raise InputError(f"{path}: {why_not(e)}") from None
    if data is None:  # the kernel's own files, such as /proc/kmsg, say that there is nothing to read yet
        raise InputError(f"{path}: has nothing to read; smemsim reads regular files only, no devices and pipes")
    if len(data) > most:  # those of /proc say that they are empty
        raise InputError(f"{path}: more than {told(most)}; at most these are read")
    return data


def named_inside(folder: pathlib.Path, name: str, allowed: Sequence[pathlib.Path] = ()) -> pathlib.Path | None:
    """The file of a name that a file in `folder` gives, links followed; None where it lies outside of that folder and
    of the `allowed` ones.
    """
    try:
        found = (folder / name).resolve()
        return found if any(found.is_relative_to(one.resolve()) for one in (folder, *allowed)) else None
    except (OSError, ValueError, RuntimeError):  # a zero byte, a loop of links
        return None


def source_folders(beside: Sequence[pathlib.Path] = (), allowed: Sequence[pathlib.Path] = ()) -> tuple[pathlib.Path, ...]:
    """The folders for sources of a kernel: the current folder, those of its PTX and its launch file, and folders that
    the user allows.

    The root of a file system is not used unless the user allows it: it contains everything.
    """
    near = [folder for folder in (pathlib.Path(), *beside) if not _is_root(folder)]
    return tuple(dict.fromkeys((*near, *allowed)))


def _is_root(folder: pathlib.Path) -> bool:
    place = os.path.realpath(folder)
    return place == os.path.dirname(place)


def source_text(name: str, folders: Sequence[pathlib.Path]) -> str:
    """A source file that some PTX names, "" if it cannot be read or lies in none of the folders, links followed."""
    for folder in folders:
        found = named_inside(folder, name, folders)
        if found is not None and found.is_file():
            with contextlib.suppress(InputError, ValueError):
                return read_bytes(found, MOST_SOURCE).decode("utf-8")
    return ""


def source_line(name: str, line: int, folders: Sequence[pathlib.Path]) -> str:
    """A line of a source file that some PTX names, as `source_text` finds it; "" for a line that it has not."""
    lines = source_text(name, folders).splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def same_file(a: pathlib.Path, b: pathlib.Path) -> bool:
    """Are two names those of one file, also if the file system does not distinguish capitals from small letters?"""
    return str(a.resolve()).casefold() == str(b.resolve()).casefold()


def check_folder(option: str, path: pathlib.Path) -> None:
    """InputError where a folder cannot be made, or nothing can be written into it. A folder that was not there is not
    there afterwards either.
    """
    new: list[pathlib.Path] = []  # the inmost first
    try:
        new = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        with contextlib.suppress(OSError):  # another process has written into it
            for folder in new:
                folder.rmdir()
    except OSError as e:
        what = "a file of this name is there" if isinstance(e, FileExistsError) else e.strerror or e
        raise InputError(f"{option} {path}: cannot write there: {what}") from None


def check_place(option: str, path: pathlib.Path) -> None:
    """InputError where a file cannot be written at a path: no folder, or what is there is no regular file."""
    mode = stat.S_IFREG
    try:
        if not path.absolute().parent.is_dir():
            raise InputError(f"{option} {path}: cannot write there: there is no such folder")
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
    except OSError as e:
        raise InputError(f"{option} {path}: cannot write there: {e.strerror or e}") from None
    except ValueError as e:
        if isinstance(e, InputError):
            raise
        raise InputError(f"{option} {shown(str(path))}: not the name of a file") from None
    if not stat.S_ISREG(mode):
        what = f"it is {_kind(mode)}"
        raise InputError(f"{option} {path}: cannot write there: {what}")


def wrote(path: pathlib.Path, what: str) -> str:
    """The line for a file that a command has written: its name, what it is, and its size.

    >>> wrote(pathlib.Path("nowhere.html"), "findings and pictures")
    'wrote nowhere.html (findings and pictures)'
    """
    size = f", {told(path.stat().st_size)}" if path.is_file() else ""
    return f"wrote {path} ({what}{size})"


def write_whole(path: pathlib.Path, content: str | bytes | Callable[[BinaryIO], None]) -> None:
    """Write a file completely or not at all: to a temporary file first, which is then renamed. A function writes the
    content.

    Raises InputError with the reason. The old content of the file stays then.
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
