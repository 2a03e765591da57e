"""The folder of machine code that this package keeps: what one process has compiled, no other one compiles again.

An entry is written beside and renamed, so that processes never see half of one; a damaged one counts as missing. Where nothing can be written, nothing is
kept. `locked` lets one process of many compile an entry while the others wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "FOLDER",
    "MOST",
    "MOST_BYTES",
    "Entry",
    "clear",
    "entries",
    "folder",
    "has",
    "is_writable",
    "locked",
    "most_bytes",
    "read",
    "write",
]


FOLDER = "SMEMSIM_CACHE_DIR"
MOST = "SMEMSIM_CACHE_BYTES"
MOST_BYTES = 256 << 20  # in the folder, where MOST says nothing; the entries that were used longest ago go first
OTHERS = 64  # the part of that which a process may write before it looks what others have written
SUFFIX, LOCK = ".o", ".lock"
_DIGEST = 32  # bytes of SHA-256 in front of every entry


class Entry(NamedTuple):
    """A file of the folder."""

    used: float  # seconds since 1970
    bytes: int
    path: pathlib.Path


def folder() -> pathlib.Path:
    """Where machine code is kept: in `SMEMSIM_CACHE_DIR`, else in the user's cache."""
    base = os.environ.get(FOLDER)
    if base is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(base, "smemsim")
    return pathlib.Path(base) / "objects"


def most_bytes() -> int:
    """How many bytes the folder may have: `SMEMSIM_CACHE_BYTES`, where that is a whole number."""
    given = os.environ.get(MOST, "")
    return int(given) if given.isdecimal() else MOST_BYTES


def _path(key: str) -> pathlib.Path:
    return folder() / f"{key[:40]}{SUFFIX}"


def has(key: str) -> bool:
    """Is there an entry of this key, the hexadecimal digest of what it was made from?"""
    return _path(key).exists()


def read(key: str) -> bytes | None:
    """An entry; None where there is none that is whole."""
    path = _path(key)
    try:
        image = path.read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # of somebody else, or where nothing can be written
        os.utime(path)
    return checked(image)


def checked(image: bytes) -> bytes | None:
    """The content of a file of the folder; None where it is not whole."""
    return image[_DIGEST:] if hashlib.sha256(image[_DIGEST:]).digest() == image[:_DIGEST] else None


def sealed(content: bytes) -> bytes:
    """The file that `checked` reads."""
    return hashlib.sha256(content).digest() + content


def write(key: str, content: bytes) -> None:
    """Keep an entry, where that can be."""
    if not most_bytes():
        return
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                written = file.write(sealed(content))
            pathlib.Path(name).replace(path)
        except OSError:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
        _bound(written)
    except OSError:
        return


def is_writable() -> bool:
    """Can anything be kept?"""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder()):
            return most_bytes() > 0
    except OSError:
        return False


def entries() -> list[Entry]:
    """What the folder has, the entries that were used longest ago first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder()) as files:  # there may be none
        for file in files:
            if file.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):  # another process has removed it
                    stat = file.stat()
                    found.append(Entry(stat.st_mtime, stat.st_size, pathlib.Path(file.path)))
    return sorted(found)


_room: dict[tuple[pathlib.Path, int], int] = {}  # of a folder and its limit: bytes that this process may write before it looks again


def _bound(written: int) -> None:
    """Remove what was used longest ago, while there are too many bytes. A folder has thousands of files, so that not every write looks at all of them."""
    most = most_bytes()
    key = folder(), most
    _room[key] = _room.get(key, 0) - written
    if _room[key] >= 0:
        return
    known = entries()
    size = sum(entry.bytes for entry in known)
    for entry in known:
        if size <= most:
            break
        size -= entry.bytes
        entry.path.unlink(missing_ok=True)
    _room[key] = min(most - size, most // OTHERS)


def clear() -> tuple[int, int]:
    """Remove all entries, and what a process that ended has left: how many, of how many bytes. Processes that have loaded one keep it."""
    count = size = 0
    for entry in entries():
        try:
            entry.path.unlink()
        except FileNotFoundError:
            continue
        count, size = count + 1, size + entry.bytes
    for path in folder().glob(".*"):
        if path.name != LOCK:
            path.unlink(missing_ok=True)
    return count, size


@functools.cache
def _lock_file(path: pathlib.Path, process: int) -> int | None:
    """The open file of locks of this process; closing any would give all of its locks back, so that it stays open."""
    del process
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """While one process is in here, others wait for the same key. Where there are no locks, nobody waits."""
    try:
        import fcntl
    except ImportError:  # not POSIX
        yield
        return
    file = _lock_file(folder() / LOCK, os.getpid())
    at, held = int(key[:12], 16), False
    if file is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
            held = True
    try:
        yield
    finally:
        if file is not None and held:
            with contextlib.suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, at)
