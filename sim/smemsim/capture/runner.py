"""Runs suites of the kit on the card of this machine, one process a suite, and keeps what is finished.

A folder of traces can be taken up again: a suite that this kit has finished on this card is not run twice. A process
that ends, or that takes far longer than planned, costs its own suite alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from smemsim import __version__
from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.files import read_bytes, write_whole
from smemsim.capture import kernels
from smemsim.capture.bench import digests
from smemsim.capture.plan import Planned
from smemsim.evidence.format import load_suite

__all__ = ["ABOUT", "CAPTURED", "Done", "is_finished", "run", "run_suite"]

ABOUT = "capture.json"
UNFINISHED = ".unfinished"
MOST_ABOUT = 1 << 20  # bytes of the description of a folder
ROOM = 64 << 20  # bytes that must be free on the disk before a suite begins
CAPTURED, KEPT, FAILED, LATE, SKIPPED = "captured", "kept", "failed", "took too long", "skipped"


@dataclasses.dataclass(frozen=True)
class Done:
    """The end of a suite. Its `state` is captured, kept, failed, took too long or skipped. The reason is `why`."""

    suite: str
    state: str
    seconds: float = 0.0
    why: str = ""

    @property
    def is_there(self) -> bool:
        """Is its trace in the folder?"""
        return self.state in (CAPTURED, KEPT)


def is_finished(out: pathlib.Path, suite: str, card: dict[str, str], arch: str) -> bool:
    """Has this kit finished a suite on such a card? InputError for traces of another card: they are not overwritten."""
    if not (out / suite).exists():
        return False
    try:
        found = load_suite(out / suite)
    except SmemsimError:
        return False  # it was cut short
    of = found.manifest["device"].get("gpu")
    if of != card["gpu"] or found.arch != arch:
        raise InputError(f"out = {str(out)!r}: holds traces of {of}, and this card is {card['gpu']}; name another folder")
    return bool(found.manifest["source"].get("files") == digests())


def run(out: pathlib.Path, arch: str, card: dict[str, str], planned: Sequence[Planned], minutes: float, tell: Callable[[Planned, Done | None], None]) -> list[Done]:  # fmt: skip
    """Run suites in their order for so many minutes. The function `tell` is called with each suite when it begins
    (None) and when it is over.

    A suite that does not fit what is left of the time is skipped. Ctrl-C leaves what is finished, and so does
    InputError of a full disk.
    """
    out.mkdir(parents=True, exist_ok=True)
    deadline, done = time.monotonic() + 60 * minutes, []
    with _compiled():
        try:
            for p in planned:
                tell(p, None)
                done.append(_one(out, arch, card, p, deadline - time.monotonic()))
                tell(p, done[-1])
                _write_about(out, arch, card, done)
        finally:
            shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return done


def _one(out: pathlib.Path, arch: str, card: dict[str, str], p: Planned, left: float) -> Done:
    if is_finished(out, p.suite, card, arch):
        return Done(p.suite, KEPT)
    if p.needs and shutil.which(p.needs) is None:
        return Done(p.suite, SKIPPED, why=f"needs {p.needs} on the PATH")
    if left < p.seconds:
        return Done(p.suite, SKIPPED, why=f"takes about {p.seconds} s, and {max(left, 0):.0f} s were left")
    _check_room(out)
    return run_suite(out, arch, p)


def _check_room(out: pathlib.Path) -> None:
    free = shutil.disk_usage(out).free
    if free < ROOM:
        raise InputError(
            f"out = {str(out)!r}: the disk has {free >> 20} MB left, and a suite may need {ROOM >> 20} MB; "
            "free some, and run the same command again: it goes on"
        )


def run_suite(out: pathlib.Path, arch: str, p: Planned) -> Done:
    """Run one suite in a process; its folder appears when it is complete."""
    began, unfinished = time.monotonic(), out / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-P", "-m", "smemsim.capture.one_suite", "--arch", arch, "--out", str(unfinished), p.suite]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True) as process:
            try:
                code = process.wait(timeout=120 + 4 * p.seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:  # it and the processes of its cases
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        errors.seek(0)
        said = errors.read()
    seconds = time.monotonic() - began
    if code is None:
        return Done(p.suite, LATE, seconds, f"ended after {seconds:.0f} s; planned were {p.seconds} s")
    if code or not (unfinished / p.suite).exists():
        return Done(p.suite, FAILED, seconds, _last_words(said) or f"its process ended with {code}")
    shutil.rmtree(out / p.suite, ignore_errors=True)
    (unfinished / p.suite).rename(out / p.suite)
    return Done(p.suite, CAPTURED, seconds)


def _last_words(said: str) -> str:
    """The last line of an error, without the paths of this machine."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return re.sub(r"(/[\w.~+-]+)+/", "", lines[-1])[:300] if lines else ""


@contextlib.contextmanager
def _compiled() -> Iterator[None]:
    """A folder of machine code for all processes of a capture."""
    before = os.environ.get(kernels.COMPILED)
    with tempfile.TemporaryDirectory(prefix="smemsim-capture-") as folder:
        os.environ[kernels.COMPILED] = folder
        try:
            yield
        finally:
            os.environ.pop(kernels.COMPILED)
            if before is not None:
                os.environ[kernels.COMPILED] = before


def _write_about(out: pathlib.Path, arch: str, card: dict[str, str], done: Sequence[Done]) -> None:
    """The description of the folder: card, driver, versions, and the outcome of each suite. No name of a machine or
    a user, and no path."""
    path = out / ABOUT
    suites: dict[str, Any] = {}
    if path.exists():
        with contextlib.suppress(InputError, ValueError, KeyError, TypeError, RecursionError):
            suites = dict(json.loads(read_bytes(path, MOST_ABOUT))["suites"])
    suites |= {
        d.suite: {"state": d.state, "seconds": round(d.seconds, 1), "why": d.why} for d in done if d.state != KEPT or d.suite not in suites
    }
    about = {"smemsim": __version__, "arch": arch, "device": card, "suites": suites}
    write_whole(path, json.dumps(about, indent=1) + "\n")
