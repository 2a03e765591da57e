"""Random correct plans through `smemsim.check`: does it ever complain about a kernel that is right?

    python tools/soundness.py 10000
    python tools/soundness.py 10000 --list      how many plans there were of each architecture, type and major-ness

It sweeps the campaign's space `plans` in this process, from its first chunk on; `smemsim campaign plans` does so with a
ledger and several processes. Exit code 0 when no check complained, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time

from smemsim.campaign.spaces.plans import SPACE
from tools.doors.guard import swept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="how many plans of each architecture, type and major-ness")
    given = parser.parse_args()
    begun = time.monotonic()
    plans, classes, alarms = swept(SPACE, given.seed, lambda _, done, __: done < given.count)
    for alarm in alarms:
        print(f"false alarm: {alarm.what}\n    {alarm.reproduce}")
    if given.list:
        for name, number in sorted(classes.items()):
            print(f"{number:6} {name}")
    wrong = sum(number for name, number in classes.items() if name.startswith("wrong"))
    print(
        f"{plans:,} plans, each in every form it can be loaded: {wrong} false alarms ({wrong / max(plans, 1):.4%}); {time.monotonic() - begun:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
