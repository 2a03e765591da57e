"""One case through one door: an answer or a sentence, in time and in bounded memory; anything else is a defect."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from click.testing import CliRunner

from smemsim.base.errors import InputError, InternalError, SmemsimError
from smemsim.campaign.space import Case, ChunkResult, Space, Trouble
from smemsim.cli import main

__all__ = ["INTERNAL", "Bench", "bad_sentence", "bounded_memory", "command", "door", "place", "swept"]

SECONDS = 10  # of processor time that one case may take
LONGEST = 4000  # characters of a sentence
# What a sentence for a kernel author does not contain.
INTERNAL = re.compile(r"Traceback|object at 0x|numba|(?<!\w)__[a-z]+__(?!\w)|\bself\b|smemsim\.\w+\.\w+|unsupported operand|NoneType' ")


class HangError(BaseException):
    """A case took too long; no `except Exception` stops it."""


def bad_sentence(error: SmemsimError) -> str:
    """What is wrong with an error's text; "" for a sentence."""
    text = str(error)
    if isinstance(error, InternalError):
        return "internal error"
    if len(text) <= 12 or len(text) > LONGEST:
        return f"{len(text)} characters"
    if "\n" in text:
        return "several lines"
    found = INTERNAL.search(text)
    return f"says {found[0]!r}" if found else ""


@contextlib.contextmanager
def bounded_memory(more: int = 4 << 30) -> Iterator[None]:
    """At most so many bytes of address space beside what is taken now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _late(signum: int, frame: FrameType | None) -> None:
    raise HangError


def place(error: BaseException) -> str:
    """The innermost line of smemsim."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/smemsim/" in f.filename] or list(frames)[-1:]
    return f"{own[-1].filename.rpartition('/smemsim/')[2]}:{own[-1].lineno}" if own else "?"


class Bench:
    """Takes cases through a door and counts; the first case of every kind of defect is kept."""

    def __init__(self, reproduce: str) -> None:
        self.classes: Counter[str] = Counter()
        self.cases = 0
        self.troubles: dict[str, Trouble] = {}
        self.reproduce = reproduce

    def defect(self, kind: str, what: str, case: Any) -> None:
        self.classes[f"! {kind}"] += 1
        self.troubles.setdefault(kind, Trouble(f"{kind}: {what}"[:600], _plain(case), self.reproduce))

    def through(self, call: Callable[[], Any], case: Any, count: int = 1) -> Any:
        """Does the call; `count` cases at once are counted as what became of them together. Returns its result, None
        for a sentence.
        """
        self.cases += count
        signal.signal(signal.SIGPROF, _late)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            result = call()
        except SmemsimError as e:
            if why := bad_sentence(e):
                self.defect(f"bad sentence {type(e).__name__} at {place(e)}", f"{why}: {e}", case)
            else:
                self.classes[type(e).__name__] += count
            return None
        except HangError as e:
            self.defect(f"hang at {place(e)}", f"more than {SECONDS} s", case)
            return None
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            self.defect(f"{type(e).__name__} at {place(e)}", str(e), case)
            return None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.classes["answer"] += count
        return result

    def result(self) -> ChunkResult:
        return ChunkResult(self.cases, dict(sorted(self.classes.items())), tuple(self.troubles.values()))


def command(bench: Bench, arguments: list[str], case: Any, given: bytes = b"") -> None:
    """A command line through the command's function: its exit code, no traceback."""

    def run() -> None:
        result = CliRunner().invoke(main, arguments, input=given, catch_exceptions=False)
        assert result.exit_code in (0, 1, 2, 3), result.exit_code
        if result.exit_code in (2, 3):
            assert result.stderr.strip(), "exit code 2 or 3 without a sentence"

    bench.through(run, {"command": arguments, "of": case})


def _plain(case: Any) -> Mapping[str, Any]:
    """The case as JSON."""

    def simple(value: Any) -> Any:
        return value.hex() if isinstance(value, (bytes, bytearray)) else repr(value)

    try:
        text = json.dumps(case, default=simple)
    except (TypeError, ValueError, RecursionError, OverflowError):
        text = json.dumps(repr(case))
    read = json.loads(text)
    return read if isinstance(read, dict) else {"case": read}


def door(name: str, says: str, cases: int, run: Callable[[random.Random, int, Bench], None]) -> Space:
    """A space of cases: `run(rng, cases, bench)` takes that many through the door."""

    def chunk(seed: int, number: int) -> ChunkResult:
        bench = Bench(f"python tools/robustness.py --only {name} --seed {seed} --chunk {number}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(random.Random(f"{seed} {name} {number}"), cases, bench)
        return bench.result()

    def alone(seed: int, number: int, case: int) -> Case:
        raise InputError(
            f"a case of a door depends on those before it: python tools/robustness.py --only {name} --seed {seed} --chunk {number}"
        )

    return Space(name, says, chunk, cases, alone)


def swept(space: Space, seed: int, chunks: Callable[[int, int, float], bool]) -> tuple[int, Counter[str], list[Trouble]]:
    """(cases, classes, the first trouble of each kind) of chunks 0, 1, … as long as `chunks` of (chunk, cases so far,
    seconds so far) holds.
    """
    cases, classes, troubles, begun = 0, Counter[str](), dict[str, Trouble](), time.monotonic()
    for chunk in itertools.count():
        if not chunks(chunk, cases, time.monotonic() - begun):
            break
        done = space.run(seed, chunk)
        cases += done.cases
        classes.update(done.classes)
        for trouble in done.troubles:
            troubles.setdefault(trouble.what.partition(":")[0], trouble)
    return cases, classes, list(troubles.values())
