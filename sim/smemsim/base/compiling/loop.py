"""Functions over numbers and arrays as machine code, compiled for the types of the arguments of a call.

Importing this module imports neither numba nor numpy. Compiled code is kept (`smemsim.base.store`, or in the wheel) and
runs without numba. If several processes start together, one compiles. If anything is unexpected, numba's own function
is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from smemsim.base import store
from smemsim.base.compiling import first_run, link
from smemsim.base.compiling.source import digest, python_of

__all__ = ["KNOWN", "LEVELS", "LOOPS", "Loop", "compiled", "describe", "elementwise", "kept"]


_WIDE = 1 << 63  # integers from here on have a type of their own
_PLAIN = frozenset({int, bool, float})
_arrays: set[type] = set()  # types of arrays that arguments were of: numpy's
_lock = threading.RLock()
LOOPS: list[Loop] = []  # all that were made
UFUNCS: list[tuple[Callable[..., Any], tuple[str, ...]]] = []
BUILT = pathlib.Path(__file__).parent / "built"  # of the wheel: a folder for each of LEVELS, machine code by its key
KNOWN = pathlib.Path(__file__).with_name("known.txt")  # the types of arguments that loops are known to be called with
# Processors that the wheel has machine code for, the ablest first, and what LLVM says of one that can run it.
LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2"),
    "x86-64-v3": ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"),
}


def _kinds(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of the arguments, which decide the machine code. Every call asks for them; whole numbers and arrays are
    handled here.
    """
    return tuple(
        [
            int if type(value) is int and -_WIDE <= value < _WIDE
            else (value.dtype, value.ndim, value.flags.num) if type(value) in _arrays
            else _kind(value)
            for value in values
        ]
    )  # fmt: skip


def _kind(value: Any) -> Any:
    """The same of one argument, whatever it is. The fields of a named tuple have always the same types."""
    own = type(value)
    if own is int:
        return int if -_WIDE <= value < _WIDE else "wide"
    if own in _PLAIN:
        return own
    if own is tuple:
        return _kinds(value)
    if isinstance(value, tuple):
        return own
    if not hasattr(value, "flags") or not value.ndim:
        return own
    if own.__name__ == "ndarray":
        _arrays.add(own)
    return value.dtype, value.ndim, value.flags.num


def describe(value: Any) -> str:
    """The types of an argument in words.

    >>> import numpy as np
    >>> describe((np.zeros((2, 3)), 1, np.zeros((2, 3))[:, 0])), describe(np.uint16(1))
    ('(<f8 2 C w,int,<f8 1 A w)', 'uint16')
    """
    own = type(value)
    if isinstance(value, tuple):
        inner = ",".join(map(describe, value))
        return f"({inner})" if own is tuple else f"{own.__module__}:{own.__qualname__}({inner})"
    if own is int and not -_WIDE <= value < _WIDE:
        return "wide"
    if own in _PLAIN:
        return own.__name__
    flags = getattr(value, "flags", None)
    if flags is not None and value.ndim:
        layout = "C" if flags.c_contiguous else "A"
        return f"{value.dtype.str} {value.ndim} {layout} {'w' if flags.writeable else 'r'}{'' if flags.aligned else ' unaligned'}"
    return own.__name__ if own.__module__ == "numpy" else f"{own.__module__}:{own.__qualname__}"


def _read_only(array: Any) -> Any:
    found = array.view()
    found.flags.writeable = False
    return found


class Loop:
    """A function that is compiled when it is called; `py_func` is the Python function. Arrays that it `reads` alone
    have one machine code, whether others may write to them or not.
    """

    def __init__(self, function: Any, reads: str = "") -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.reads = frozenset(reads.split())
        self.entries: dict[Any, Callable[..., Any]] = {}
        self.described: dict[str, Callable[..., Any]] = {}  # by the types of arguments, in words
        self.is_ready = False
        LOOPS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        entry = self.entries.get(_kinds(arguments))
        return (self.code(arguments) if entry is None else entry)(*arguments)

    def code(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """The machine code for arguments of these types. A caller with other arguments of equal types, memory order and
        alignment need not look up the types again.
        """
        kinds = _kinds(arguments)
        entry = self.entries.get(kinds)
        if entry is None:
            with _lock:
                entry = self.entries[kinds] = self._entry(arguments)
        return entry

    def ready(self) -> None:
        """Load the machine code for the types of `known.txt`, as far as it is kept, before the first call. Other code
        is loaded or compiled when a call needs it.
        """
        if self.is_ready:
            return
        self.is_ready = True
        with _lock, contextlib.suppress(*link.UNLINKED):
            for types in _known_types().get(f"{self.__module__}:{self.__name__}", ()):
                content = None if types in self.described else _stored(self.key(types))
                if content is not None:
                    self.described[types] = link.link_function(unpacked(content), sys.modules[self.__module__], self.__name__)

    def _entry(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        names = self.py_func.__code__.co_varnames
        given = tuple(_read_only(value) if name in self.reads else value for name, value in zip(names, arguments, strict=False))
        types = ",".join(map(describe, given))
        if types not in self.described:
            self.described[types] = self._made(types, given)
        return self.described[types]

    def _made(self, types: str, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        found = kept(self.key(types), lambda: _build().object_of_function(self.py_func, arguments, python_of))
        if found is not None:
            with contextlib.suppress(*link.UNLINKED):
                made: Callable[..., Any] = link.link_function(found, sys.modules[self.__module__], self.__name__)
                return made
        plain: Callable[..., Any] = _build().plain_function(self.py_func, python_of)
        return plain

    def key(self, types: str) -> str:
        """The key of the machine code for these types, without the processor."""
        return hashlib.sha256(f"{link.versions()}\n{digest(self.py_func)}\n{types}".encode()).hexdigest()

    __name__: str
    __module__: str


def compiled(function: Any = None, *, reads: str = "") -> Any:
    """The compiled form of a function over numbers and arrays. Functions of this package that it calls by name are
    compiled with it.

    `reads` names arrays that the function does not write. Compilation fails if it does.
    """
    return functools.partial(Loop, reads=reads) if function is None else Loop(function, reads)


@functools.cache
def elementwise(scalar: Callable[..., Any], *signatures: str) -> Any:
    """The numpy ufunc of a scalar function of plain numbers, for signatures such as "uint32(float32,float32)".

    >>> from smemsim.core.arithmetic.integers import bit_reverse
    >>> hex(elementwise(bit_reverse, "uint32(int64,int64)")(1, 32))
    '0x80000000'
    """
    UFUNCS.append((scalar, signatures))
    with _lock:
        loops = []
        for signature in signatures:
            found = kept(ufunc_key(scalar, signature), functools.partial(_ufunc_object, scalar, signature))
            if found is None:
                return _build().plain_ufunc(scalar, signatures, python_of)
            result, _, arguments = signature.partition("(")
            loops.append((found, (*arguments.rstrip(")").split(","), result)))
        with contextlib.suppress(*link.UNLINKED):
            return link.link_ufunc(loops, scalar.__name__)
        return _build().plain_ufunc(scalar, signatures, python_of)


def _ufunc_object(scalar: Callable[..., Any], signature: str) -> link.Code | None:
    found: link.Code | None = _build().object_of_ufunc(scalar, signature, python_of)
    return found


def ufunc_key(scalar: Any, signature: str) -> str:
    """The key of the machine code of a ufunc's loop, without the processor."""
    return hashlib.sha256(f"{link.versions()}\n{digest(scalar)}\nufunc {signature}".encode()).hexdigest()


def _build() -> Any:
    return importlib.import_module("smemsim.base.compiling.build")


def packed(code: link.Code) -> bytes:
    """Machine code as one entry."""
    image, *names = code
    return json.dumps(names).encode() + b"\n" + image


def unpacked(content: bytes) -> link.Code:
    """What `packed` packed."""
    head, _, image = content.partition(b"\n")
    name, environment, calls = json.loads(head)
    return link.Code(image, name, environment, tuple(calls))


def kept(key: str, make: Callable[[], link.Code | None]) -> link.Code | None:
    """The entry of a key: in the wheel, on disk, or made now and kept. None if it cannot be kept."""
    content = _stored(key)
    if content is None:
        own = _of_host(key)
        with store.locked(own):
            content = store.read(own)
            if content is None:
                begin = time.monotonic()
                found = make()
                if found is None:
                    return None
                content = packed(found)
                first_run.note(time.monotonic() - begin)
                store.write(own, content, seconds=time.monotonic() - begin)
    return unpacked(content)


def _stored(key: str) -> bytes | None:
    """The entry of a key, in the wheel or on disk."""
    content = _shipped(key)
    return store.read(_of_host(key)) if content is None else content


def _of_host(key: str) -> str:
    """The key on disk, with the processor."""
    return hashlib.sha256(f"{key} {link.host()}".encode()).hexdigest()


@functools.cache
def _known_types() -> dict[str, list[str]]:
    """The types in `known.txt`, by the loop's name."""
    found: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for line in KNOWN.read_text(encoding="utf-8").splitlines():
            what, name, types = line.split(" ", 2)
            if what == "loop":
                found.setdefault(name, []).append(types)
    return found


@functools.cache
def _level() -> pathlib.Path | None:
    """The folder of the wheel for this processor."""
    if not BUILT.exists():
        return None
    import llvmlite.binding as llvm

    has = llvm.get_host_cpu_features()
    for level, features in LEVELS.items():
        if (BUILT / level).exists() and all(has.get(feature) for feature in features):
            return BUILT / level
    return None


def _shipped(key: str) -> bytes | None:
    folder = _level()
    if folder is None:
        return None
    try:
        return store.checked(f"{key} {folder.name}", (folder / f"{key[:40]}{store.SUFFIX}").read_bytes())
    except OSError:
        return None
