"""The result of comparing one case: how much was compared, how much differs, where, and which rule was in force."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from smemsim.core.spec.evidence import Rule
from smemsim.diagnosis.difference.diagnose import Diagnosis

__all__ = ["Case", "Outcome", "agree", "differ", "grid_map"]


MAP_ROWS, MAP_COLUMNS = 16, 64


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One case: `compared` values, `differing` ones; for a difference the first one, a map of all, and the rule in
    force.
    """

    compared: int
    differing: int = 0
    first: str = ""
    map: tuple[str, ...] = ()
    rule: Rule | None = None
    what: str = "values"


@dataclasses.dataclass(frozen=True)
class Case:
    """A case and its outcome. `explain` describes a difference in sentences, if the kind of trace can."""

    describe: Callable[[], str]
    outcome: Outcome
    explain: Callable[[], Diagnosis] | None = None

    @property
    def title(self) -> str:
        """The arguments that make the case, in words; only a differing case pays for it."""
        return self.describe()


def agree(compared: int) -> Outcome:
    """The outcome of a case in which everything that was compared is the same."""
    return Outcome(compared)


def differ(
    hardware: np.ndarray, model: np.ndarray, rule: Rule, what: str, describe: Callable[[tuple[int, ...]], str], columns: int = 8
) -> Outcome:
    """Compare two arrays; `describe` names the place of an index, `columns` is how many values one map column stands
    for.
    """
    wrong = hardware != model
    count = int(wrong.sum())
    if not count:
        return Outcome(int(hardware.size))
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return Outcome(int(hardware.size), count, describe(index), grid_map(wrong, columns), rule, what)


def grid_map(wrong: np.ndarray, columns: int) -> tuple[str, ...]:
    """`x` where something differs, `.` where not, at most 16 lines of 64 characters; one-dimensional data goes 128 to a
    line.
    """
    if wrong.ndim == 1:
        wrong = np.pad(wrong, (0, -len(wrong) % 128)).reshape(-1, 128)
    grid = wrong.reshape(wrong.shape[0], -1)
    grid = np.pad(grid, ((0, 0), (0, -grid.shape[1] % columns)))
    cells: np.ndarray = grid.reshape(grid.shape[0], -1, columns).max(axis=-1)
    rows = -(-cells.shape[0] // MAP_ROWS)
    cells = np.pad(cells, ((0, -cells.shape[0] % rows), (0, 0))).reshape(-1, rows, cells.shape[1])
    merged: np.ndarray = cells.max(axis=1)[:, :MAP_COLUMNS]
    return tuple("".join("x" if cell else "." for cell in line) for line in merged.tolist())
