"""The folder of machine code that this package keeps: what one process has compiled, no other process compiles again.

Machine code from this folder is executed, so the folder is used as OpenSSH uses keys: only if it belongs to the user, and if no other user can write to it or
to a folder above it. A cache folder that is named by a relative path is never used, since it would be a folder of the current directory. An entry is a regular
file of the user. Its checksum covers its key, so that an entry counts only under the key that it was made for.

An entry is written to a temporary file and renamed, so that no process reads half of one. A damaged entry counts as missing. If nothing can be written, nothing
is kept. `locked` lets one process of many compile an entry while the others wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "FOLDER",
    "MOST",
    "MOST_BYTES",
    "Entry",
    "base",
    "checked",
    "clear",
    "entries",
    "folder",
    "has",
    "is_private",
    "locked",
    "most_bytes",
    "read",
    "sealed",
    "unusable",
    "write",
]


FOLDER = "SMEMSIM_CACHE_DIR"
MOST = "SMEMSIM_CACHE_BYTES"
MOST_BYTES = 256 << 20  # in the folder, where MOST says nothing; the entries that were used longest ago go first
OTHERS = 64  # the part of that which a process may write before it looks what others have written
SUFFIX, LOCK = ".o", ".lock"
FORM = "-2"  # in the names of entries: an older smemsim that shares the folder has another form
_DIGEST = 32  # bytes of SHA-256 in front of every entry


class Entry(NamedTuple):
    """A file of the folder."""

    used: float  # seconds since 1970
    bytes: int
    path: pathlib.Path


def _named() -> tuple[str, str]:
    """(the cache folder, what names it): `SMEMSIM_CACHE_DIR`, else `smemsim` in the user's cache. XDG_CACHE_HOME counts if it is absolute (XDG base directories)."""
    own = os.environ.get(FOLDER)
    if own is not None:
        return own, FOLDER
    users = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(users):
        return os.path.join(users, "smemsim"), "XDG_CACHE_HOME"
    return os.path.join(os.path.expanduser("~"), ".cache", "smemsim"), "HOME"


def unusable() -> str:
    """Why the cache folder is not used, as a sentence; "" if it is used."""
    path, name = _named()
    if not os.path.isabs(path):
        return f"{name} names no absolute folder ({path!r}): machine code is not kept; set {FOLDER} to an absolute path"
    return _shared(path)


def base() -> pathlib.Path | None:
    """The cache folder, which may not exist yet: for machine code and the C libraries of the virtual GPU. None if there is none that can be trusted."""
    return None if unusable() else pathlib.Path(_named()[0])


def is_private(path: str | os.PathLike[str]) -> bool:
    """Does a file or folder belong to the user, and can no other user change it or a folder above it?"""
    return not _shared(os.fspath(path))


def _shared(path: str) -> str:
    """Who else can change a path, as a sentence; "" if nobody can. Parts that do not exist yet are passed over."""
    if not hasattr(os, "geteuid"):  # not POSIX: the system's own rules hold
        return ""
    user = os.geteuid()
    at = whole = os.path.realpath(path)
    while True:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            about = os.stat(at)
            if about.st_uid != user and (at == whole or about.st_uid != 0):
                return f"{at} belongs to user {about.st_uid}, not to user {user}: machine code in it is not used; set {FOLDER} to a folder of your own"
            # In a folder with the sticky bit, such as /tmp, nobody can rename or remove what belongs to another user.
            is_sticky = at != whole and bool(about.st_mode & stat.S_ISVTX)
            if about.st_mode & stat.S_IWOTH and not is_sticky:
                return (
                    f"every user can write to {at} (mode {stat.S_IMODE(about.st_mode):o}): machine code in it is not used; chmod go-w {at}"
                )
            if about.st_mode & stat.S_IWGRP and not is_sticky and not _is_own_group(about.st_gid, user):
                return f"group {about.st_gid} can write to {at} (mode {stat.S_IMODE(about.st_mode):o}): machine code in it is not used; chmod g-w {at}"
        above = os.path.dirname(at)
        if above == at:
            return ""
        at = above


@functools.cache
def _is_own_group(group: int, user: int) -> bool:
    """Is it the user's private group: of the user's name, with no other member? Distributions that have these make folders writable for it."""
    if group == user == 0:
        return True
    import grp
    import pwd

    try:
        about, name = grp.getgrgid(group), pwd.getpwuid(user).pw_name
    except KeyError:
        return False
    return about.gr_name == name and set(about.gr_mem) <= {name}


def folder() -> pathlib.Path | None:
    """The folder of machine code, which may not exist yet; None if nothing is kept (`unusable` says why)."""
    found = base()
    return None if found is None else found / "objects"


def most_bytes() -> int:
    """How many bytes the folder may have: `SMEMSIM_CACHE_BYTES`, where that is a whole number."""
    given = os.environ.get(MOST, "")
    return int(given) if given.isdecimal() else MOST_BYTES


_trusted: set[str] = set()  # cache folders that exist, and that this process has found to be the user's alone


def _path(key: str, *, is_new: bool = False) -> pathlib.Path | None:
    """The file of a key; None if the folder is not used. The folder is made for a new one, and looked at after that: who made it decides whether it is used."""
    path, _ = _named()
    where = os.path.join(path, "objects")
    if path not in _trusted:
        if unusable():
            return None
        if is_new:
            _make(pathlib.Path(where))
        if os.path.isdir(where):
            if _shared(where):
                return None
            _trusted.add(path)
    return pathlib.Path(where, f"{key[:40]}{FORM}{SUFFIX}")


def has(key: str) -> bool:
    """Is there an entry of this key, the hexadecimal digest of what it was made from?"""
    path = _path(key)
    return path is not None and path.is_file()


def read(key: str) -> bytes | None:
    """An entry; None if there is none that is whole, a regular file, and the user's own."""
    path = _path(key)
    if path is None:
        return None
    try:
        with open(path, "rb", opener=_opened) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or (hasattr(os, "geteuid") and about.st_uid != os.geteuid()):
                return None
            image = file.read()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a file system that cannot be written
        os.utime(path)
    return checked(key, image)


def _opened(path: str, flags: int) -> int:
    """Open a file for reading without following a link and without waiting for a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _seal(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def checked(key: str, image: bytes) -> bytes | None:
    """The content of an entry's file; None if it is damaged, or was made for another key."""
    return image[_DIGEST:] if _seal(key, image[_DIGEST:]) == image[:_DIGEST] else None


def sealed(key: str, content: bytes) -> bytes:
    """The file that `checked` reads. The key is the digest of all that the content was made from: source, types, builder, processor."""
    return _seal(key, content) + content


def write(key: str, content: bytes) -> None:
    """Keep an entry, where that can be."""
    if not most_bytes():
        return
    try:
        path = _path(key, is_new=True)
        if path is None:
            return
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                written = file.write(sealed(key, content))
            pathlib.Path(name).replace(path)
        except OSError:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
        _bound(written)
    except OSError:
        return


def _make(path: pathlib.Path) -> None:
    """Make a folder for the user alone, whatever the umask is."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.mkdir(exist_ok=True, mode=0o700)


def is_writable() -> bool:
    """Can anything be kept?"""
    path = folder()
    if path is None:
        return False
    try:
        _make(path)
        with tempfile.TemporaryFile(dir=path):
            return most_bytes() > 0
    except OSError:
        return False


def entries() -> list[Entry]:
    """What the folder has, the entries that were used longest ago first."""
    found: list[Entry] = []
    where = folder()
    if where is None:
        return found
    with contextlib.suppress(OSError), os.scandir(where) as files:  # there may be none
        for file in files:
            if file.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):  # another process has removed it
                    about = file.stat(follow_symlinks=False)
                    found.append(Entry(about.st_mtime, about.st_size, pathlib.Path(file.path)))
    return sorted(found)


_room: dict[tuple[pathlib.Path, int], int] = {}  # of a folder and its limit: bytes that this process may write before it looks again


def _bound(written: int) -> None:
    """Remove what was used longest ago, while there are too many bytes. A folder has thousands of files, so that not every write looks at all of them."""
    most, where = most_bytes(), folder()
    if where is None:
        return
    key = where, most
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
    where = folder()
    for path in where.glob(".*") if where is not None else ():
        if path.name != LOCK:
            path.unlink(missing_ok=True)
    return count, size


@functools.cache
def _lock_file(path: pathlib.Path, process: int) -> int | None:
    """The open file of locks of this process; closing any would give all of its locks back, so that it stays open."""
    del process
    try:
        _make(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
    where = folder()
    file = None if where is None else _lock_file(where / LOCK, os.getpid())
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
