"""The progress line on a terminal while loops are compiled. The first run takes a minute for each Python, processor and
version of smemsim.

In a pipe nothing is shown. `smemsim cache fill` compiles the same loops in advance.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading

__all__ = ["COMMON", "note", "show"]

# loops that a kernel with tensor loads and products needs; a program with more kinds of instructions needs more
COMMON = 45
AFTER = 2.0  # seconds of compiling before anything is shown
WIDTH = 20  # of the bar, in characters


class _Shown:
    """The loops that this process has compiled, and whether a terminal shows the progress."""

    loops = 0
    seconds = 0.0
    is_drawn = False


_shown = _Shown()
_lock = threading.Lock()


def note(seconds: float) -> None:
    """One loop was compiled, in so many seconds."""
    with _lock:
        _shown.loops += 1
        _shown.seconds += seconds
        if _shown.seconds < AFTER or not _is_terminal():
            return
        if not _shown.is_drawn:
            _shown.is_drawn = True
            atexit.register(_clear)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"\r{bar(_shown.loops, _shown.seconds)}")
            sys.stderr.flush()


def show(done: int, of: int, seconds: float) -> None:
    """The progress of `smemsim cache fill`, on a terminal."""
    if not _is_terminal():
        return
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"\r\x1b[Kcompiling loops: {_part(done, of)} {100 * done // of} %, {_time(done, of, seconds)}")
        sys.stderr.write("\n" if done == of else "")
        sys.stderr.flush()


def bar(loops: int, seconds: float) -> str:
    """The line of the terminal.

    >>> bar(30, 12.0)
    'compiling loops for this Python and processor, once: [#############       ] 30 loops, 12 s, about 6 s left'
    """
    return f"compiling loops for this Python and processor, once: {_part(loops, COMMON)} {loops} loops, {_time(loops, COMMON, seconds)}"


def _part(done: int, of: int) -> str:
    return f"[{'#' * round(min(done / of, 1.0) * WIDTH):{WIDTH}}]"


def _time(done: int, of: int, seconds: float) -> str:
    left = f", about {seconds / done * (of - done):.0f} s left" if done < of else ""
    return f"{seconds:.0f} s{left}"


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


def _clear() -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write("\r\x1b[K")
        if _shown.loops < COMMON:
            sys.stderr.write(
                "smemsim compiled what this run needed; smemsim cache fill compiles the rest, so that later runs do not wait\n"
            )
        sys.stderr.flush()
