"""Random correct plans through `smemsim.check`: does it ever complain about a kernel that is right?

    python tools/soundness.py 10000

Every plan is drawn from all architectures, types, kinds, majors, swizzles, stackings, sides, pair modes, stages, base addresses (any multiple of
128) and places in the matrix, and is run in both forms, as a loop of boxes and as a single box. A plan that the planner refuses is drawn again.
`smemsim campaign plans` does the same in chunks, with a ledger and several processes.
Exit code 0 when no check complained, 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time

from smemsim import IllegalPlan, Severity, Unmodelled, check
from smemsim.campaign.spaces.plans import draw, forms
from smemsim.errors import InternalError
from smemsim.planning.make import unchecked


def sweep(count: int, seed: int = 0) -> tuple[collections.Counter[str], list[str]]:
    """(how many of what, every false alarm) of `count` plans."""
    rng, counts, alarms = random.Random(seed), collections.Counter[str](), list[str]()
    while counts["plans"] < count:
        arguments = draw(rng)
        try:
            plan = unchecked(**arguments)
        except (IllegalPlan, Unmodelled):
            counts["refused"] += 1
            continue
        except InternalError as e:
            alarms.append(f"{arguments}: {e}")
            continue
        counts["plans"] += 1
        counts[f"{arguments['arch']} {arguments['dtype']} {arguments['major']}-major {arguments['swizzle']}"] += 1
        for form in forms(plan):
            counts[form] += 1
            found = check(plan.scenario(form)).findings
            alarms += [f"{arguments} ({form}): {f}" for f in found if f.severity is not Severity.NOTE]
            counts["notes"] += sum(f.severity is Severity.NOTE for f in found)
    return counts, alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="how many plans of each architecture, type, major-ness and swizzle")
    given = parser.parse_args()
    begun = time.time()
    counts, alarms = sweep(given.count, given.seed)
    for line in alarms[:20]:
        print("false alarm:", line)
    if given.list:
        for name, number in sorted(counts.items()):
            if "-major" in name:
                print(f"{number:6} {name}")
    checks = counts["loop"] + counts["box"]
    print(f"{counts['plans']:,} plans ({counts['refused']:,} wishes refused), {checks:,} checks ({counts['loop']:,} loops, {counts['box']:,} single boxes): "
          f"{len(alarms)} false alarms ({len(alarms) / max(checks, 1):.4%}), {counts['notes']} notes; {time.time() - begun:.0f} s")  # fmt: skip
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
