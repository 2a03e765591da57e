"""The consoles: data on stdout, narration and progress on stderr. rich decides about colour (terminal, NO_COLOR)."""

from __future__ import annotations

import sys

from rich.console import Console

__all__ = ["stderr", "stdout"]

WIDE = 160


def stdout() -> Console:
    """Where results go; as wide as they need when nobody looks at a terminal."""
    width = None if sys.stdout.isatty() else WIDE
    return Console(file=sys.stdout, highlight=False, width=width, emoji=False, markup=False)


def stderr() -> Console:
    """Where narration goes."""
    return Console(file=sys.stderr, highlight=False, emoji=False, markup=False)
