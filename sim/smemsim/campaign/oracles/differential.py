"""A differential oracle: cases are drawn, two independent answers compared, and a disagreement is made as small as it stays one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.campaign import space
from smemsim.campaign.space import ChunkResult, Space, Trouble

__all__ = ["Case", "Verdict", "minimal", "oracle", "shrunk_numbers"]

Case = dict[str, Any]
Verdict = tuple[str, str]  # the class of the case; what differs, "" where both say the same
MOST_STEPS = 400  # of making a case smaller


def minimal(case: Case, differs: Callable[[Case], bool], smaller: Callable[[Case], Iterator[Case]]) -> Case:
    """The case made smaller as long as it differs.

    >>> minimal({"n": 100}, lambda case: case["n"] > 12, lambda case: iter([{"n": case["n"] // 2}, {"n": case["n"] - 1}]))
    {'n': 13}
    """
    for _ in range(MOST_STEPS):
        found = next((one for one in smaller(case) if one != case and differs(one)), None)
        if found is None:
            break
        case = found
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


def oracle(
    name: str,
    says: str,
    *,
    draw: Callable[[random.Random], Case],
    compare: Callable[[Case], Verdict],
    smaller: Callable[[Case], Iterator[Case]],
    chunk_cases: int,
    needs: tuple[str, ...],
) -> Space:
    """The space of an oracle. `compare` gives a class and what differs; an error in it is a difference too."""

    def judged(case: Case) -> Verdict:
        try:
            return compare(case)
        except Exception as e:  # of either side, which said nothing of the kind
            return "error", f"{type(e).__name__}: {e}"

    def run(seed: int, chunk: int) -> ChunkResult:
        rng, classes, troubles = random.Random(f"{seed} {name} {chunk}"), Counter[str](), dict[str, Trouble]()
        for _ in range(chunk_cases):
            case = draw(rng)
            kind, what = judged(case)
            classes[f"differs: {kind}" if what else kind] += 1
            if what and kind not in troubles:
                small = minimal(case, lambda one, kind=kind: bool((said := judged(one))[1]) and said[0] == kind, smaller)  # type: ignore[misc]
                troubles[kind] = Trouble(judged(small)[1], small, _again(name, small))
        return ChunkResult(chunk_cases, dict(classes), tuple(troubles.values()))

    def alone(seed: int, chunk: int, number: int) -> space.Case:
        rng = random.Random(f"{seed} {name} {chunk}")
        case = [draw(rng) for _ in range(number + 1)][-1]
        kind, what = judged(case)
        return space.Case(kind, case, what)

    return Space(name, says, run, chunk_cases, alone, needs=needs)


def _again(name: str, case: Case) -> str:
    return f"python -c 'from smemsim.campaign.oracles import again; print(again(\"{name}\", {json.dumps(json.dumps(case))}))'"
