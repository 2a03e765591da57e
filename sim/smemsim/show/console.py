"""Text for a terminal, and for a file."""

from __future__ import annotations

import os
import shutil
import sys

import click
from rich.console import Console

__all__ = ["Line", "print_lines", "stderr", "stdout", "terminal_width"]


# ---- Lines of styled text, printed by click: for what must start fast (importing rich costs as much as decoding a descriptor)


WIDE = 160


class Line(list[tuple[str, str]]):
    """Pieces of (text, style); a style is "", "bold", "dim" or a colour."""


def terminal_width() -> int:
    """Columns of the terminal; wide when nobody looks at one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def print_lines(lines: list[Line]) -> None:
    """To stdout; colours only on a terminal, and never with NO_COLOR."""
    colour = False if os.environ.get("NO_COLOR") else None
    for line in lines:
        text = "".join(_styled(part, style) for part, style in line)
        click.echo(text.rstrip() if not line or not line[-1][1] else text, color=colour)


def _styled(text: str, style: str) -> str:
    if style in ("bold", "dim"):
        return click.style(text, bold=style == "bold" or None, dim=style == "dim" or None)
    return click.style(text, fg=style) if style else text


# ---- The consoles: data on stdout, narration and progress on stderr. rich decides about colour (terminal, NO_COLOR)


def stdout() -> Console:
    """Where results go; as wide as they need when nobody looks at a terminal."""
    width = None if sys.stdout.isatty() else WIDE
    return Console(file=sys.stdout, highlight=False, width=width, emoji=False, markup=False)


def stderr() -> Console:
    """Where narration goes."""
    return Console(file=sys.stderr, highlight=False, emoji=False, markup=False)
