"""The folder of machine code: code that one process has compiled is not compiled again.

The code is executed, so the folder follows the rules that OpenSSH has for keys. It is used only if it belongs to the
user, and if no other user can write to it or to a folder above it. A relative path is never used, because it would be a
folder of the current directory. Symbolic links are resolved first; the folder that was checked is the one that is used.
An entry is a regular file of the user that no other user can write to. Its checksum covers its key, so an entry counts
only under its own key.

An entry is written to a temporary file and renamed, so no process reads half of an entry. A damaged entry counts as
missing. If nothing can be written, nothing is kept. `locked` lets one of many processes compile an entry while the
others wait.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import pathlib
import re
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from smemsim.base.errors import NotKeptWarning

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
    "make",
    "most_bytes",
    "read",
    "say_nothing",
    "sealed",
    "unusable",
    "write",
    "wrong_most",
]


FOLDER = "SMEMSIM_CACHE_DIR"
MOST = "SMEMSIM_CACHE_BYTES"
MOST_BYTES = 256 << 20  # in the folder, where MOST says nothing; the entries that were used longest ago go first
LEAST = 4 << 20  # bytes of all loops that most commands need
OTHERS = 64  # the part of that which a process may write before it looks what others have written
OBJECTS = "objects"  # the folder of machine code in the cache folder
SUFFIX, LOCK = ".o", ".lock"
FORM = "-2"  # in the names of entries: an older smemsim that shares the folder has another form
_DIGEST = 32  # bytes of SHA-256 before every entry
_OURS = re.compile(r"[0-9a-f]{40}(-\d+)?\.o")  # names of entries, of every form: no other file is ever removed
_NEW = ".new-"  # how the names of entries begin while they are written
LONG = 1.0  # seconds of lost compilation after which a warning is printed
LONGEST_WAIT = 120  # seconds for a process that compiles the same; one that was stopped keeps its lock
_ALL_USERS = (1 << 32) - 1


class Entry(NamedTuple):
    """A file of the folder."""

    used: float  # seconds since 1970
    bytes: int
    path: pathlib.Path


def _named() -> tuple[str, str]:
    """(the cache folder, what names it): `SMEMSIM_CACHE_DIR`, else `smemsim` in the user's cache. XDG_CACHE_HOME counts
    if it is absolute (XDG base directories).
    """
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
    return _shared(path) or _shared(os.path.join(path, OBJECTS))


def base() -> pathlib.Path | None:
    """The cache folder, which may not exist yet: for machine code and the C libraries of the virtual GPU. None if there
    is none that can be trusted.

    It has no symbolic link in it: one may lie in a folder where another user can replace it after the check."""
    path, _ = _named()
    real = os.path.realpath(path)
    return pathlib.Path(real) if os.path.isabs(path) and not _shared(real) else None


def is_private(path: str | os.PathLike[str]) -> bool:
    """Does a file or folder belong to the user, and can no other user change it or a folder above it?"""
    return not _shared(os.fspath(path))


def _shared(path: str) -> str:
    """The users other than this one who can change a path, as a sentence; "" if there are none. Missing parts are
    ignored.
    """
    if not hasattr(os, "geteuid"):  # not POSIX: the system's own rules hold
        return ""
    user = os.geteuid()
    if _stands_for_others(user):
        return f"user {user} stands for all users that this namespace does not know: machine code is not kept"
    at = whole = os.path.realpath(path)
    while True:
        try:
            about = os.stat(at)
        except (FileNotFoundError, NotADirectoryError):
            why = ""
        except OSError as e:
            return f"{at} cannot be looked at ({e.strerror or e}): machine code is not kept; set {FOLDER} to a folder of your own"
        else:
            why = _changeable(at, about, user, is_above=at != whole)
        above = os.path.dirname(at)
        if why or above == at:
            return why
        at = above


def _changeable(at: str, about: os.stat_result, user: int, *, is_above: bool) -> str:
    """The users who can change a file or folder, or a folder above it, as a sentence; "" if there are none."""
    if about.st_uid != user and (not is_above or about.st_uid != 0):
        return (
            f"{at} belongs to user {about.st_uid}, not to user {user}: machine code in it is not used; set {FOLDER} to a folder of your own"
        )
    # such as /tmp: only the owner of a file can rename or remove it there
    if is_above and about.st_mode & stat.S_ISVTX:
        return ""
    mode = f"(mode {stat.S_IMODE(about.st_mode):o}): machine code in it is not used"
    if about.st_mode & stat.S_IWOTH:
        return f"every user can write to {at} {mode}; chmod go-w {at}"
    if about.st_mode & stat.S_IWGRP and (_has_list(at) or not _is_own_group(about.st_gid, user)):
        return f"group {about.st_gid} can write to {at} {mode}; chmod g-w {at}"
    return ""


def _has_list(path: str) -> bool:
    """Has a file or folder an access control list (POSIX ACL)? The bits of the group then show the widest rights."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # none, a file system without, a system without
        return False


@functools.cache
def _stands_for_others(user: int) -> bool:
    """Is it the number by which a user namespace shows every user that it does not know?"""
    try:
        overflow = int(pathlib.Path("/proc/sys/kernel/overflowuid").read_text())
        known = sum(int(row.split()[2]) for row in pathlib.Path("/proc/self/uid_map").read_text().splitlines())
    except (OSError, ValueError, IndexError):  # not Linux
        return False
    return user == overflow and known < _ALL_USERS


@functools.cache
def _is_own_group(group: int, user: int) -> bool:
    """Is it the user's private group: of the user's name, with no other member? Distributions that have these make
    folders writable for it.
    """
    import grp
    import pwd

    try:
        about, name = grp.getgrgid(group), pwd.getpwuid(user).pw_name
    except KeyError:
        return False
    is_named_so = about.gr_name == name or group == user == 0
    return is_named_so and set(about.gr_mem) <= {name} and all(one.pw_uid == user for one in pwd.getpwall() if one.pw_gid == group)


def folder() -> pathlib.Path | None:
    """The folder of machine code, which may not exist yet; None if nothing is kept (`unusable` says why)."""
    path, _ = _named()
    return None if unusable() else pathlib.Path(os.path.realpath(os.path.join(path, OBJECTS)))


def most_bytes() -> int:
    """The largest size of the folder in bytes: `SMEMSIM_CACHE_BYTES`, if it is a whole number of at most 18 digits."""
    given = os.environ.get(MOST, "")
    return MOST_BYTES if not given or wrong_most() else int(given)


def wrong_most() -> str:
    """The reason why `SMEMSIM_CACHE_BYTES` does not count; "" if it does, or is not set."""
    given = os.environ.get(MOST, "")
    is_right = not given or (given.isascii() and given.isdecimal() and len(given) <= 18)
    return "" if is_right else f"{MOST} = {given[:20]!r}: needs a whole number of bytes, as {MOST_BYTES}"


_trusted: dict[
    str, pathlib.Path
] = {}  # of cache folders that exist: their folder of machine code, which this process has found to be the user's alone


def _path(key: str, *, is_new: bool = False) -> pathlib.Path | None:
    """The file of a key; None if the folder is not used. A missing folder is made first, and then checked."""
    path, _ = _named()
    where = _trusted.get(path)
    if where is None:
        where = folder()
        if where is None:
            return None
        if is_new:
            make(where)
        if os.path.isdir(where):
            if not is_private(where):
                return None
            _trusted[path] = where
    return where / f"{key[:40]}{FORM}{SUFFIX}"


def has(key: str) -> bool:
    """Is there an entry of this key, the hexadecimal digest of what it was made from?"""
    path = _path(key)
    return path is not None and os.path.isfile(path)


def read(key: str) -> bytes | None:
    """An entry; None if there is none that is whole, a regular file, and the user's own."""
    path = _path(key)
    if path is None:
        return None
    try:
        with open(path, "rb", opener=_opened) as file:
            about = os.fstat(file.fileno())
            if not _is_entry(about):
                return None
            image = file.read()
    except (OSError, MemoryError):
        return None
    with contextlib.suppress(OSError):  # a file system that cannot be written
        os.utime(path)
    return checked(key, image)


def _is_entry(about: os.stat_result) -> bool:
    """Is it a regular file of the user, which no other user can write to, and of a size that entries have?"""
    is_own = not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return stat.S_ISREG(about.st_mode) and is_own and about.st_size <= MOST_BYTES


def _opened(path: str, flags: int) -> int:
    """Open a file for reading without following a link and without waiting for a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _seal(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def checked(key: str, image: bytes) -> bytes | None:
    """The content of an entry's file; None if it is damaged, or was made for another key."""
    return image[_DIGEST:] if _seal(key, image[_DIGEST:]) == image[:_DIGEST] else None


def sealed(key: str, content: bytes) -> bytes:
    """The file that `checked` reads. The key is the digest of all that the content was made from: source, types,
    builder, processor.
    """
    return _seal(key, content) + content


_lost = [0.0]  # seconds of compilation whose result was not kept; infinite after the warning


def write(key: str, content: bytes, *, seconds: float = 0.0) -> None:
    """Keep an entry, if that is possible. If it is not, and such entries have taken more than `LONG` seconds to
    compile, a NotKeptWarning says why, once in a process.
    """
    if not most_bytes():
        return
    try:
        path = _path(key, is_new=True)
        if path is None:
            _not_kept(seconds, unusable())
            return
        handle, name = tempfile.mkstemp(prefix=_NEW, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                written = file.write(sealed(key, content))
            pathlib.Path(name).replace(path)
        except OSError:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
        _bound(written)
    except OSError as e:
        _not_kept(seconds, f"{folder()} cannot be written ({e.strerror or e}); set {FOLDER} to a folder of your own")


def _not_kept(seconds: float, why: str) -> None:
    _lost[0] += seconds
    if LONG <= _lost[0] < math.inf:
        message = f"compiling took {_lost[0]:.0f} s, and the next process will compile again: {why}"
        say_nothing()
        warnings.warn(message, NotKeptWarning, stacklevel=3)


def say_nothing() -> None:
    """`write` warns no more in this process: it has done so, or is a copy of one that does."""
    _lost[0] = math.inf


def make(path: pathlib.Path) -> None:
    """Make a folder and those above it that are missing, for the user alone, whatever the umask is."""
    for at in (*reversed(path.parents), path):
        if not os.path.isdir(at):
            with contextlib.suppress(FileExistsError):  # another process was faster
                at.mkdir(mode=0o700)
                at.chmod(0o700)


def is_writable() -> bool:
    """Can `LEAST` more bytes be kept?"""
    path = folder()
    if path is None:
        return False
    try:
        make(path)
        with tempfile.TemporaryFile(dir=path, buffering=0) as file:
            return file.write(bytes(LEAST)) == LEAST and most_bytes() > 0
    except OSError:
        return False


def entries() -> list[Entry]:
    """The entries of the folder, those that were not used for the longest time first."""
    found: list[Entry] = []
    where = folder()
    if where is None:
        return found
    with contextlib.suppress(OSError), os.scandir(where) as files:  # there may be none
        for file in files:
            if _OURS.fullmatch(file.name) and not file.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another process has removed it
                    about = file.stat(follow_symlinks=False)
                    found.append(Entry(about.st_mtime, about.st_size, pathlib.Path(file.path)))
    return sorted(found)


# of a folder and its limit: bytes that this process may write before it looks again
_room: dict[tuple[pathlib.Path, int], int] = {}


def _bound(written: int) -> None:
    """Remove what was used longest ago, while there are too many bytes. A folder has thousands of files, so that not
    every write looks at all of them.
    """
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
    """Remove all entries, and what a process that ended has left: how many, of how many bytes. Processes that have
    loaded one keep it.
    """
    count = size = 0
    for entry in entries():
        try:
            entry.path.unlink()
        except FileNotFoundError:
            continue
        count, size = count + 1, size + entry.bytes
    where = folder()
    for path in where.glob(f"{_NEW}*") if where is not None else ():
        path.unlink(missing_ok=True)
    return count, size


@functools.cache
def _lock_file(path: pathlib.Path, process: int) -> int | None:
    """The open file of locks of this process; closing any would give all of its locks back, so that it stays open."""
    del process
    try:
        make(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _lock(file: int, at: int) -> bool:
    """Take a lock; False if another process has kept it for too long. OSError on a file system without locks."""
    import fcntl

    until, pause = time.monotonic() + LONGEST_WAIT, 0.01
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except (BlockingIOError, PermissionError):  # both say that another process has it
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        else:
            return True


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """Context manager: other processes wait for the same key meanwhile. Without file locks nothing waits."""
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
            held = _lock(file, at)
    try:
        yield
    finally:
        if file is not None and held:
            with contextlib.suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, at)
