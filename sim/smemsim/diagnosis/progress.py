"""The progress of a launch: a bar on the terminal after five seconds, elsewhere a line every 30 seconds. A sentence
says if the launch will take long. Each launch has one (`Gpu.run`), for `smemsim run`, `exec`, pytest, Triton and
Python.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress", "told"]


AFTER = 5.0  # seconds without a bar
EVERY = 30.0  # seconds from line to line, where stderr is no terminal
FAST = 1.0  # seconds after the first wave, after which its CTAs say how long the rest takes
SURE = 10.0  # seconds after which compiling no longer counts
LONG = 600.0  # seconds of work that are worth a sentence


def told(seconds: float) -> str:
    """A time as people say it.

    >>> told(12.4), told(840), told(3 * 3600), told(60 * 3600)
    ('12 s', '14 minutes', '3.0 hours', '2.5 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 36 * 3600 else f"{seconds / 86400:.1f} days"


class Progress:
    """A callback of a launch with the number of finished CTAs, counted in `done`.

    On a terminal it draws a bar on stderr after five seconds: the name of the kernel, CTAs done of all, time so far,
    time left. Elsewhere it prints the same as a line, at most every 30 seconds. If the first CTAs show that the rest
    takes more than ten minutes, it prints that once. `quiet` turns everything off. CTAs are counted when their whole
    wave has ended, so a grid of one wave has no numbers in between.
    """

    def __init__(self, total: int, name: str, *, quiet: bool = False) -> None:
        self.total, self.name, self.quiet = total, name, quiet
        self.done = 0
        self._began = time.perf_counter()
        # seconds and CTAs of the first wave, in which code is compiled too
        self._first: tuple[float, int] | None = None
        # whether it said that it takes long; when the last line was printed
        self._said, self._told = False, self._began
        self._bar: Any = None
        self._timer: threading.Timer | None = None

    @property
    def seconds(self) -> float:
        """Since the launch began."""
        return time.perf_counter() - self._began

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stderr.isatty():
            self._timer = threading.Timer(AFTER, self._draw)
            self._timer.daemon, self._timer.name = True, "smemsim progress"
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, ctas: int) -> None:
        self.done += ctas
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done)
        left = self._left()
        if not self.quiet and not self._said and left > LONG:
            self._said = True
            print(
                f"smemsim: {self.name}: {self.done} of {self.total} CTAs took {told(self.seconds)}, the others will take about {told(left)}; "
                'ctas="sample" or --ctas sample runs a part that stands for the grid',
                file=sys.stderr,
            )
            self._told = time.perf_counter()
        elif not self.quiet and self._timer is None and time.perf_counter() - self._told > EVERY and self.done < self.total:
            self._told = time.perf_counter()
            rest = f", about {told(left)} left" if left else ""
            print(f"smemsim: {self.name}: {self.done} of {self.total} CTAs in {told(self.seconds)}{rest}", file=sys.stderr, flush=True)

    def _left(self) -> float:
        """Seconds for the rest. 0 if it is too early to know them: the first wave alone counts only if it was slow."""
        now = self.seconds
        if self._first is None:
            self._first = now, self.done
            return now / self.done * (self.total - self.done) if now > SURE else 0.0
        seconds, ctas = now - self._first[0], self.done - self._first[1]
        return seconds / ctas * (self.total - self.done) if seconds > FAST and ctas else 0.0

    def _draw(self) -> None:
        from rich import progress
        from rich.console import Console

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn(),
                   progress.TimeRemainingColumn())  # fmt: skip
        bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
        bar.add_task(f"{self.name}: CTAs", total=self.total, completed=self.done)
        bar.start()
        self._bar = bar
