"""A differential oracle: cases are drawn, two independent answers compared, and a disagreement is made as small as it
stays one.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.campaign import space
from smemsim.campaign.space import ChunkResult, Space, Trouble

__all__ = ["Case", "Oracle", "Verdict", "minimal", "shrunk_numbers"]


Case = dict[str, Any]
Verdict = tuple[str, str]  # the class of the case; what differs, "" where both say the same
# if a module has another name than its package
PROJECTS = {"cutlass": "nvidia-cutlass-dsl", "pycute": "nvidia-cutlass"}
MOST_STEPS = 400  # of making a case smaller


def minimal(case: Case, differs: Callable[[Case], bool], smaller: Callable[[Case], Iterator[Case]]) -> Case:
    """The case made smaller as long as it differs.

    >>> minimal({"n": 100}, lambda case: case["n"] > 12, lambda case: iter([{"n": case["n"] // 2}, {"n": case["n"] - 1}]))
    {'n': 13}
    """
    for _ in range(MOST_STEPS):
        smaller_case = next((one for one in smaller(case) if one != case and differs(one)), None)
        if smaller_case is None:
            break
        case = smaller_case
    return case


def shrunk_numbers(case: Case, least: dict[str, int]) -> Iterator[Case]:
    """The case with one of its numbers the least, halved, or one less.

    >>> list(shrunk_numbers({"rows": 6, "dtype": "bf16"}, {"rows": 1}))
    [{'rows': 1, 'dtype': 'bf16'}, {'rows': 3, 'dtype': 'bf16'}, {'rows': 5, 'dtype': 'bf16'}]
    """
    for name, low in least.items():
        value = case[name]
        for other in sorted({low, value // 2, value - 1}):
            if low <= other < value:
                yield case | {name: other}


@dataclasses.dataclass(frozen=True)
class Oracle:
    """Two independent answers to one question.

    A case (JSON) is made by `draw`, from random numbers. Its class and the differences are returned by `compare`. When
    a case differs, `smaller` returns other cases to try. The required packages are `needs`.
    """

    name: str
    says: str
    draw: Callable[[random.Random], Case]
    compare: Callable[[Case], Verdict]
    smaller: Callable[[Case], Iterator[Case]]
    chunk_cases: int
    needs: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """The missing packages as the end of a sentence; "" if all are installed."""
        missing = [PROJECTS.get(package, package) for package in self.needs if importlib.util.find_spec(package) is None]
        return f"needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed" if missing else ""

    def judged(self, case: Case) -> Verdict:
        """The class of a case and what differs; an error on either side is a difference too."""
        try:
            return self.compare(case)
        except Exception as e:  # of either side, which said nothing of the kind
            return "error", f"{type(e).__name__}: {e}"

    def trouble(self, case: Case) -> Trouble:
        """A case that differs, made as small as it stays one of its class."""
        kind = self.judged(case)[0]

        def differs(one: Case) -> bool:
            said = self.judged(one)
            return bool(said[1]) and said[0] == kind

        small = minimal(case, differs, self.smaller)
        return Trouble(self.judged(small)[1], small, _again(self.name, small))

    def space(self) -> Space:
        """The space that a campaign sweeps: cases are drawn without end."""

        def run(seed: int, chunk: int) -> ChunkResult:
            rng, classes, troubles = random.Random(f"{seed} {self.name} {chunk}"), Counter[str](), dict[str, Trouble]()
            for _ in range(self.chunk_cases):
                case = self.draw(rng)
                kind, what = self.judged(case)
                classes[f"differs: {kind}" if what else kind] += 1
                if what and kind not in troubles:
                    troubles[kind] = self.trouble(case)
            return ChunkResult(self.chunk_cases, dict(classes), tuple(troubles.values()))

        def alone(seed: int, chunk: int, number: int) -> space.Case:
            rng = random.Random(f"{seed} {self.name} {chunk}")
            case = [self.draw(rng) for _ in range(number + 1)][-1]
            kind, what = self.judged(case)
            return space.Case(kind, case, what)

        return Space(self.name, self.says, run, self.chunk_cases, alone, needs=self.needs)


def _again(name: str, case: Case) -> str:
    return f"python -c 'from smemsim.campaign.oracles import again; print(again(\"{name}\", {json.dumps(json.dumps(case))}))'"
