"""A space of cases, and spaces whose cases are checked one by one."""

from __future__ import annotations

import collections
import dataclasses
import random
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["Case", "ChunkResult", "Space", "Tally", "Trouble", "command", "drawn", "one_by_one", "shrunk"]


# ---- What a campaign sweeps: a space cut into chunks, each of which is done as a whole and
# gives the same result every time


@dataclasses.dataclass(frozen=True)
class Trouble:
    """One case that is not as it should be: what is wrong, in a sentence, the case itself (JSON), and the command that
    shows it again.
    """

    what: str
    case: Mapping[str, Any]
    reproduce: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One case alone: the class it is of, the case itself (JSON), and what is wrong with it, in a sentence; "" for
    nothing.
    """

    of: str
    shown: Mapping[str, Any]
    wrong: str = ""


@dataclasses.dataclass(frozen=True)
class ChunkResult:
    """The result of one chunk: the number of cases of each class, and the faults of some (the first of each kind,
    already made small).
    """

    cases: int
    classes: Mapping[str, int]
    troubles: tuple[Trouble, ...] = ()


@dataclasses.dataclass(frozen=True)
class Space:
    """A space of cases.

    One chunk is run by `run(seed, chunk)`, in any process and in any order. One case is run by
    `case(seed, chunk, number)`. If the space is finite, `chunks` is the number of chunks, and the seed has no effect.
    Else it is None. The required packages are `needs`.
    """

    name: str
    says: str
    run: Callable[[int, int], ChunkResult]
    chunk_cases: int
    case: Callable[[int, int, int], Case]
    chunks: int | None = None
    needs: tuple[str, ...] = ()


# ---- Chunks whose cases are done one after another: drawn from a seed, counted by class, made small
# where something is wrong


T = TypeVar("T")


def drawn(space: str, seed: int, chunk: int, case: int) -> random.Random:
    """The random numbers of one case, which depend on nothing else.

    >>> drawn("maps", 0, 1, 2).random() == drawn("maps", 0, 1, 2).random() != drawn("maps", 0, 2, 1).random()
    True
    """
    return random.Random(f"{space}:{seed}:{chunk}:{case}")


def command(space: str, seed: int, chunk: int, case: int) -> str:
    """The command line that shows one case of a space again.

    >>> command("smem", 0, 3, 17)
    'smemsim campaign --reproduce smem:0:3:17'
    """
    return f"smemsim campaign --reproduce {space}:{seed}:{chunk}:{case}"


class Tally:
    """Cases counted by class, and the first trouble of each class."""

    def __init__(self, space: str, seed: int, chunk: int) -> None:
        self.of = (space, seed, chunk)
        self.classes = collections.Counter[str]()
        self.troubles: dict[str, Trouble] = {}

    def trouble(self, kind: str, what: str, shown: Mapping[str, Any], case: int) -> None:
        """Something is wrong with a case; the first of a kind is kept."""
        self.troubles.setdefault(kind, Trouble(what, dict(shown), command(*self.of, case)))

    def add(self, case: Case, number: int) -> None:
        """One more case."""
        self.classes[case.of] += 1
        if case.wrong:
            self.trouble(case.of, case.wrong, case.shown, number)

    def result(self) -> ChunkResult:
        """The result of the chunk, classes in alphabetic order."""
        return ChunkResult(self.classes.total(), dict(sorted(self.classes.items())), tuple(self.troubles.values()))


def one_by_one(space: str, one: Callable[[int, int, int], Case], count: int) -> Callable[[int, int], ChunkResult]:
    """`run` of a space whose chunks are `count` cases, each done by `one`."""

    def run(seed: int, chunk: int) -> ChunkResult:
        tally = Tally(space, seed, chunk)
        for number in range(count):
            try:
                tally.add(one(seed, chunk, number), number)
            except Exception as e:  # an unexpected exception is a result, too
                raised = f"raises {type(e).__name__}: {e}"
                tally.add(Case(f"wrong: raises {type(e).__name__}", {"traceback": traceback.format_exc()}, raised), number)
        return tally.result()

    return run


def shrunk(case: T, simpler: Callable[[T], Iterable[T]], wrong: Callable[[T], bool], most: int = 200) -> T:
    """The case made small: the first simpler one that is still wrong, and so on, after at most `most` attempts.

    >>> shrunk(100, lambda n: (n // 2, n - 1), lambda n: n > 6)
    7
    """
    left, found = most, True
    while found and left > 0:
        found = False
        for other in simpler(case):
            left -= 1
            if left < 0:
                break
            if wrong(other):
                case, found = other, True
                break
    return case
