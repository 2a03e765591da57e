"""Litmus tests of a checkout of Dat3M (litmus/PTX) as kernels, under many schedules.

    python -m tools.litmus CHECKOUT
    python -m tools.litmus CHECKOUT --space shared --seeds 40 --only Manual --json
    python -m tools.litmus CHECKOUT --out results.jsonl --jobs 8

Each test becomes a kernel whose threads are warps of the CTAs that the test says. An outcome that the expectation of
the checkout's own tests forbids is never to be reached; one that threads show which take turns is to be reached by some
seed. A test with a data race by the memory model (PTX ISA 9.1 §8.7.1) is to be found by the sanitizer, one without is
to be silent. With --card the tests run on a GPU too, and show nothing that the expectation forbids. Exit code 0 when
all that can be expressed agrees, else 1. With --out each result is written when it is there, and what the same sources
found of a test is not run again.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
import sys

from tools.litmus.keep import judged_all
from tools.litmus.kernel import SPACES
from tools.litmus.run import Result, counted, tests_of

COLUMNS = {
    "tests": ("tests",), "cannot be": ("inexpressible",), "run": ("run",), "forbidden, never seen": ("never seen", "forbidden"), "in turns, seen": ("seen", "in turns"),
    "weaker, seen": ("weaker seen", "weaker"), "race, found": ("found", "race"), "no race, silent": ("silent", "no race"), "endings": ("endings", "run"),
    "agree": ("agree", "run"),
}  # fmt: skip


def table(results: list[Result]) -> str:
    """Agreement, class by class."""
    lines = [["class", "space", *COLUMNS]]
    rows = counted(results)
    total: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for (kind, space), row in sorted(rows.items()):
        lines.append([kind, space, *("/".join(str(row[name]) for name in names) for names in COLUMNS.values())])
        total[space] += row
    lines += [["all", space, *("/".join(str(row[name]) for name in names) for names in COLUMNS.values())] for space, row in total.items()]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.litmus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--space", choices=(*SPACES, "both"), default="both")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--only", default="", help="tests whose path contains this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="a file of results, one JSON object a line")
    parser.add_argument("--card", action="store_true", help="also on the GPU at hand, thousands of times")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    given = parser.parse_args()
    paths = [p for p in tests_of(given.checkout) if given.only in str(p)]
    if not paths:
        parser.error(f"{given.checkout}: no litmus/PTX/*.litmus there")
    spaces = SPACES if given.space == "both" else (given.space,)
    results = []
    for result in judged_all(given.checkout, paths, spaces, given.seeds, given.out, given.jobs, card=given.card):
        results.append(result)
        if sys.stderr.isatty():
            print(f"\r{len(results)}", end="", file=sys.stderr)
    told = [(r.path, r.space, law, why) for r in results for law, why in r.disagreements]
    if given.json:
        rows = [{"class": kind, "space": space, **row} for (kind, space), row in sorted(counted(results).items())]
        each = [{**dataclasses.asdict(r), "codes": sorted(r.codes), "disagreements": list(r.disagreements)} for r in results]
        print(json.dumps({"classes": rows, "tests": each}, indent=1))
    else:
        print(table(results))
        for reason, count in collections.Counter(r.why_not for r in results if r.why_not).most_common():
            print(f"cannot be a kernel: {reason} ({count})")
        for reason, count in collections.Counter(r.explained for r in results if r.explained).most_common():
            print(f"explained: {reason} ({count})")
        for path, space, law, why in told:
            print(f"{law}: {path} in {space} memory: {why}")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
