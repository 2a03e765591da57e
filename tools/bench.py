"""One table of speeds, each a ratio to a baseline that is timed in the same run, in turn with it: the best of each.

    python tools/bench.py                       # three minutes
    python tools/bench.py --peers               # ten and more: other projects beside, in an environment of their own (~/.cache/smemsim-bench), which pip completes; first runs, of a wheel
    python tools/bench.py --only mma solve      # rows with one of these words
    python tools/bench.py --list                # their names

`--json` and `--markdown` print the table so. What README.md shows is `tools/speeds/measured.json`, as `--peers --json`
printed it. Where both sides have an answer they are held against each other first; exit code 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tools.speeds import rows, table
from tools.speeds.race import SECONDS, run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="rows that have one of these words in what, against or group")
    parser.add_argument("--peers", action="store_true", help="race other projects too; what is missing of them is installed")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for a race; longer is steadier")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    form.add_argument("--list", action="store_true", help="names only, peers' too")
    given = parser.parse_args()
    chosen = [row for row in rows.chosen(given.only) if given.peers or given.list or not row.peer]
    if given.list:
        print("\n".join(f"{row.group}: {row.what}, against {row.against}" for row in chosen))
        return 0
    if not chosen:
        sys.exit(
            f"no row has {' or '.join(given.only)}; --list has them all{'' if given.peers else ', those of other projects need --peers'}"
        )
    of, results = table.machine(), []
    for number, row in enumerate(chosen, 1):
        begin = time.perf_counter()
        results.append(run(row, given.seconds))
        print(f"{number}/{len(chosen)} {row.what}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    of = table.machine(of["load"])
    if given.json:
        print(json.dumps(table.as_json(of, results), indent=1))
    else:
        print(table.markdown(of, results) if given.markdown else table.text(of, results))
    return 1 if any(result.differs for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
