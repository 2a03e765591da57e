"""What a campaign sweeps: a space cut into chunks, each of which is done as a whole and gives the same result every time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Case", "ChunkResult", "Space", "Trouble"]


@dataclasses.dataclass(frozen=True)
class Trouble:
    """One case that is not as it should be: what is wrong, in a sentence, the case itself (JSON), and the command that shows it again."""

    what: str
    case: Mapping[str, Any]
    reproduce: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One case alone: the class it is of, the case itself (JSON), and what is wrong with it, in a sentence; "" for nothing."""

    of: str
    shown: Mapping[str, Any]
    wrong: str = ""


@dataclasses.dataclass(frozen=True)
class ChunkResult:
    """What one chunk gave: how many cases were of each class, and what was wrong with some (the first of each kind, already made small)."""

    cases: int
    classes: Mapping[str, int]
    troubles: tuple[Trouble, ...] = ()


@dataclasses.dataclass(frozen=True)
class Space:
    """A space of cases. `run(seed, chunk)` does one chunk, in any process and in any order, `case(seed, chunk, number)` one case of it alone; `chunks`
    is how many there are where the space is swept exhaustively (then the seed has no effect), None where cases are drawn for ever. `needs` names
    packages that must be there."""

    name: str
    says: str
    run: Callable[[int, int], ChunkResult]
    chunk_cases: int
    case: Callable[[int, int, int], Case]
    chunks: int | None = None
    needs: tuple[str, ...] = ()
