"""The process of the host program, as the device sees it."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["Host"]


class Host:
    """Operations that only the process of the host program can do. This class is for a device in that process."""

    shares_memory = True  # is the host's memory this process's?

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes of the host's memory, or between it and the device's."""
        ctypes.memmove(to, source, size)

    def call(self, function: int, data: int) -> None:
        """Call a C function of the host: `void (*)(void *)`."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)

    def materialize(self) -> None:
        """All copies and calls so far have been made."""

    def write(self, text: str, *, is_error: bool = False) -> None:
        """Write the output of a kernel's printf, or its failed assertions to stderr."""
        stream = sys.stderr if is_error else sys.stdout
        stream.write(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        stream.flush()
