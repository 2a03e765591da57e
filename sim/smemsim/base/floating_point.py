"""The floating-point state of a thread: how its processor rounds, and whether it flushes subnormals.

A library that was linked with `-ffast-math` and `torch.set_flush_denormal` change that state for their whole process. A
simulated launch and every public computation therefore run in the default state (IEEE 754: to nearest, subnormals kept,
no traps), and the thread gets its own state back afterwards. Threads and processes begin with the state of the thread
that starts them. Importing this module imports nothing large.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

__all__ = ["default_state", "in_default_state", "is_default"]


_Made = TypeVar("_Made", bound=Callable[..., Any])
_LARGEST = 512  # bytes of a fenv_t, on any system


class _Room(threading.local):
    """The memory into which the calling thread reads its state; each thread has its own."""

    def __init__(self) -> None:
        import ctypes

        self.buffer = ctypes.create_string_buffer(_LARGEST)
        self.address = ctypes.addressof(self.buffer)
        # in a function that began in the default state: those that it calls look by `_computes_so` alone
        self.is_inside = False


class _Environment:
    """fegetenv and fesetenv of the C library; both do nothing on a system without them."""

    def __init__(self) -> None:
        import ctypes

        self.take: Callable[[int], object] = lambda address: None
        self.give: Callable[[Any], object] = lambda address: None
        self.room, self.default = _Room(), -1  # FE_DFL_ENV of glibc and musl
        for name in ("libm.so.6", None):
            with contextlib.suppress(OSError, AttributeError, TypeError):
                library = ctypes.PyDLL(name)
                take, give = library.fegetenv, library.fesetenv
                take.argtypes = give.argtypes = (ctypes.c_void_p,)
                if sys.platform == "darwin":
                    self.default = ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
                self.take, self.give = take, give
                return


_environment = functools.cache(_Environment)


def _reader() -> Callable[[Any], bool]:
    """A function that compares a state with the default one. A state of unknown form is not the default."""
    of_word = struct.Struct("<I").unpack_from
    if sys.platform == "linux" and platform.machine() == "x86_64":  # MXCSR follows the 28 bytes of the x87
        return lambda buffer: of_word(buffer, 28)[0] & ~0x3F == 0x1F80  # six bits: exceptions that were raised
    if sys.platform == "linux" and platform.machine() == "aarch64":
        return lambda buffer: of_word(buffer)[0] == 0  # FPCR
    return lambda buffer: False


_says_default = _reader()


def is_default() -> bool:
    """Is the calling thread in the default state?"""
    environment = _environment()
    room = environment.room
    environment.take(room.address)
    return _says_default(room.buffer)


_LEAST, _HALF, _LARGE, _ONE, _SMALL = (
    2.0**-1022,
    0.5,
    2.0**100,
    1.0,
    2.0**-60,
)  # read when they are needed, so that no sum of them is a constant
_RIGHT = 2.0**-923


def _computes_so() -> bool:
    """Does the thread compute as in the default state: are subnormals kept, and sums rounded to nearest? A twentieth of
    the time of `is_default`, but it may not be asked while traps may be on.
    """
    return _LEAST * _HALF * _LARGE == _RIGHT and _ONE + _SMALL == _ONE and _ONE - _SMALL == _ONE


def _enter() -> bytes | None:
    """Go to the default state; returns the state before, None if it was that."""
    if is_default():
        return None
    environment = _environment()
    before = environment.room.buffer.raw
    environment.give(environment.default)
    return before


def _leave(before: bytes) -> None:
    """Go back to a state."""
    room = _environment().room
    room.buffer.raw = before
    _environment().give(room.address)


@contextlib.contextmanager
def default_state() -> Iterator[None]:
    """The default state, until the block ends."""
    before = _enter()
    try:
        yield
    finally:
        if before is not None:
            _leave(before)


def in_default_state(made: _Made) -> _Made:
    """Decorator: the function runs in the default state. For a class: all public methods and properties.

    >>> @in_default_state
    ... def double(x): return 2 * x
    >>> double(2.0**-1074) == 2.0**-1073
    True
    """
    if isinstance(made, type):
        for name, value in list(vars(made).items()):
            if not name.startswith("_") and (wrapped := _member(value)) is not value:
                setattr(made, name, wrapped)
        return made

    @functools.wraps(made)
    def run(*args: Any, **kwargs: Any) -> Any:
        room = _environment().room
        was_inside = room.is_inside
        if was_inside and _computes_so():
            return made(*args, **kwargs)
        before = _enter()
        room.is_inside = True
        try:
            return made(*args, **kwargs)
        finally:
            room.is_inside = was_inside
            if before is not None:
                _leave(before)

    return run  # type: ignore[return-value]


def _member(value: Any) -> Any:
    """A member of a class in the default state; what is no function stays what it is."""
    if isinstance(value, property):
        return property(value.fget and in_default_state(value.fget), value.fset and in_default_state(value.fset), value.fdel, value.__doc__)
    if isinstance(value, functools.cached_property):
        made = functools.cached_property(in_default_state(value.func))
        made.__set_name__(type(value), value.attrname or "")
        return made
    if isinstance(value, (classmethod, staticmethod)):
        return type(value)(in_default_state(value.__func__))
    return in_default_state(value) if callable(value) and not isinstance(value, type) else value
