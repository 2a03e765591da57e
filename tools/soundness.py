"""Random correct plans through `smemsim.check`: does it ever complain about a kernel that is right?

    python tools/soundness.py 10000

Every plan is drawn from all architectures, types, kinds, majors, swizzles, stackings, sides, pair modes, stages, base addresses (any multiple of
128) and places in the matrix, and is run in both forms, as a loop of boxes and as a single box. A plan that the planner refuses is drawn again.
Exit code 0 when no check complained, 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
from typing import Any

from smemsim import IllegalPlan, Severity, Unmodelled, check
from smemsim.errors import InternalError
from smemsim.planning.make import unchecked
from smemsim.planning.wish import STACKS
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.formats import FORMATS
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.tcgen05 import KINDS


def draw(rng: random.Random) -> dict[str, Any]:
    """Arguments of `plan`; not all of them are legal."""
    arch = rng.choice(list(ARCHITECTURES.values()))
    dtype = FORMATS[rng.choice(arch.mma_types)]
    major = rng.choice(("K", "MN"))
    side = rng.choice("ab")
    kinds = [k.name for k in KINDS.values() if dtype.name in (*k.a_types.values(), *k.b_types.values())]
    kind = rng.choice([None, *kinds]) if arch.instruction == "tcgen05" else None
    group = rng.choice((1, 1, 2)) if arch.instruction == "tcgen05" else 1
    swizzle = rng.choice(list(layout_codes(arch.smem_descriptor).values()))
    per_chunk = dtype.elements_per_chunk(rng.choice(("packed", "padded")))
    rows = rng.choice((8, 16, 24, 32, 48, 64, 64, 96, 128, 128, 128, 192, 256, 256, 320, 512))
    k = 2 * per_chunk * rng.choice((1, 2, 2, 4, 4, 4, 8, 8, 16, 20))
    at = (rng.choice((0, rows, 8 * rng.randrange(40), rng.randrange(300))), rng.choice((0, k, per_chunk * rng.randrange(20))))
    if major == "MN" and rng.random() < 0.5:
        at = (rows * rng.randrange(3), rng.randrange(100))
    matrix = None if rng.random() < 0.6 else (rows + at[0] + 8 * rng.randrange(9), 2 * k + at[1] + per_chunk * rng.randrange(9))
    return {
        "rows": rows, "k": k, "dtype": dtype.name, "major": major, "swizzle": str(swizzle), "arch": arch.name, "side": side, "kind": kind,
        "cta_group": group, "stack": rng.choice(STACKS), "stages": rng.choice((1, 1, 2, 3, 5)), "at": at, "matrix": matrix,
        "base_address": rng.choice((0x400, 1024 * rng.randrange(1, 100), 128 * rng.randrange(8, 900))),
        "other_major": rng.choice(("K", "K", "MN")),
    }  # fmt: skip


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
        for form in ("loop", "box") if plan.box is not None else ("loop",):
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
