"""Arbitrary and damaged input through every public door: an answer, or a sentence; in time, and in bounded memory.

    python tools/robustness.py --small              a few cases of each, in seconds
    python tools/robustness.py --seconds 600        each door for ten minutes, or until its count is reached
    python tools/robustness.py --only words,maps    these doors
    python tools/robustness.py --only plans --seed 0 --chunk 17    one chunk again

Prints, for each door, how many cases there were, how many were answered, how many refused with a sentence and by which
error, and every defect: an exception that is not smemsim's, a sentence that is none, a warning of numpy, a case that
takes more than ten seconds or more than four gibibytes. Exit code 1 where there is a defect.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter

from smemsim.campaign.space import Trouble
from tools.doors.calls import API, LAUNCHES
from tools.doors.files import SCENARIO_TEXTS, SCENARIO_VALUES, SHOWN, TRACE_VALUES, TRACES
from tools.doors.guard import bounded_memory, swept
from tools.doors.texts import COMMANDS, LAYOUTS, PASTED, PLANS, PRINTED, PROCESSES, SOLVED
from tools.doors.words import INSTRUCTIONS, MAPS, WORDS

__all__ = ["FULL", "SPACES"]

FULL = {
    WORDS: 10_000_000, INSTRUCTIONS: 100_000, MAPS: 1_000_000, TRACES: 50_000, TRACE_VALUES: 50_000, SCENARIO_TEXTS: 50_000, SCENARIO_VALUES: 50_000, SHOWN: 1000,
    PASTED: 100_000, PRINTED: 100_000, LAYOUTS: 100_000, PLANS: 2000, SOLVED: 5000, COMMANDS: 10_000, PROCESSES: 40, API: 100_000, LAUNCHES: 20_000,
}  # fmt: skip
SPACES = {space.name: space for space in FULL}
SMALL = {"words": 1, "processes": 1}  # chunks


def _row(name: str, cases: int, classes: Counter[str], seconds: float) -> str:
    defects = sum(n for kind, n in classes.items() if kind.startswith("!"))
    sentences = {
        kind: n for kind, n in classes.items() if kind.endswith(("Error", "Unmodelled", "Trap", "Plan")) and not kind.startswith("!")
    }
    told = ", ".join(f"{kind} {n:,}" for kind, n in sorted(sentences.items(), key=lambda item: -item[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return f"{name:16}{cases:>12,}{classes['answer']:>12,}{sum(sentences.values()):>12,}{defects:>8,}{seconds:>7.0f}{peak:>8,}   {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a few cases of each door")
    parser.add_argument("--only", default="", help=f"of {', '.join(SPACES)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600, help="for each door at most")
    parser.add_argument("--chunk", type=int, help="only this chunk")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(SPACES)
    if strange := [name for name in names if name not in SPACES]:
        parser.error(f"{', '.join(strange)}: not one of {', '.join(SPACES)}")
    every: list[Trouble] = []
    print(f"{'door':16}{'cases':>12}{'answers':>12}{'sentences':>12}{'defects':>8}{'s':>7}{'peak MB':>8}")
    for name in names:
        space, begun = SPACES[name], time.monotonic()
        goal = 1 if given.small else FULL[space]
        with bounded_memory():
            if given.chunk is not None:
                one = space.run(given.seed, given.chunk)
                cases, classes, troubles = one.cases, Counter(one.classes), list(one.troubles)
            else:
                cases, classes, troubles = swept(
                    space, given.seed, lambda chunk, done, spent, goal=goal: done < goal and spent < given.seconds
                )
        every += troubles
        print(_row(name, cases, classes, time.monotonic() - begun), flush=True)
        for trouble in troubles:
            print(f"  defect: {trouble.what}\n    case: {json.dumps(trouble.case)[:1500]}\n    again: {trouble.reproduce}", flush=True)
    return 1 if every else 0


if __name__ == "__main__":
    sys.exit(main())
