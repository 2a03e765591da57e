"""The output and the error stream of a command. They always exist, and a reader that closes its end changes no exit
code.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from smemsim.base.terminal import visible

__all__ = ["open_streams"]


class _Stream(io.FileIO):
    """A stream of the process. If nothing reads its pipe any more (`smemsim check … | head -1`), the rest goes nowhere:
    the command still finds its exit code. Another error, such as that of a full disk, is raised once.
    """

    def write(self, data: Any, /) -> int:
        """Write, or drop what nothing will read."""
        if not memoryview(data).nbytes:  # click tries so whether a stream takes text
            return 0
        try:
            return super().write(data)
        except OSError as e:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # for C code and other processes, too
            os.close(nowhere)
            if isinstance(e, BrokenPipeError):
                return memoryview(data).nbytes
            raise


class _Text(io.TextIOWrapper):
    """Text of files that other people made goes through here: source lines, titles, names of cards. It cannot move the
    cursor, name the window or hide text. Such characters are printed as escapes.
    """

    def write(self, text: str, /) -> int:
        """Write, with control characters as Python's escapes."""
        return super().write(visible(text, moves=self.fileno() == 2))


def open_streams() -> None:
    """Give the process an output and an error stream if it was started without (`2>&-`): text for it goes nowhere, and
    no file takes its place. Output into a closed pipe goes nowhere, too.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:  # the numbers of the three streams
        continue
    os.close(handle)
    sys.stdout = _careful(sys.stdout or open(1, "w", closefd=False))  # noqa: SIM115
    sys.stderr = _careful(sys.stderr or open(2, "w", closefd=False))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal gets ? for …


def _careful(stream: TextIO) -> TextIO:
    """The stream of the process as a `_Stream`; another one, such as that of a test, as it is."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # without a buffer after PYTHONUNBUFFERED=1
    if type(raw) is not io.FileIO or raw.fileno() not in (1, 2) or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    careful = _Stream(raw.fileno(), "w", closefd=False)
    return _Text(
        io.BufferedWriter(careful) if buffer is not raw else careful, encoding=stream.encoding, errors=stream.errors,
        line_buffering=stream.line_buffering, write_through=stream.write_through,
    )  # fmt: skip
