"""Progress of a long command on stderr: one changing line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

__all__ = ["narrator"]

SECONDS = 10  # from line to line where there is no terminal


@contextlib.contextmanager
def narrator(first: str) -> Iterator[Callable[[str], None]]:
    """Give a function that shows a line. `first` is the line before its first call; only a terminal shows it."""
    from smemsim.core.picture.text import stderr

    console = stderr()
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
        return
    last = time.monotonic()

    def tell(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS:
            last = time.monotonic()
            console.print(line, soft_wrap=True)

    yield tell
