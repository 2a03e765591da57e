"""One page of results: what was run of others' programs, and what became of it."""

from __future__ import annotations

import collections
import pathlib
from typing import Any

from tools.evidence.run import rows_of

__all__ = ["counts", "page"]

MATRIX = ("tcgen05.mma", "wgmma.mma_async")


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Of rows: programs and tests, passed ones, launches, and distinct kernels of those that passed: all, with
    instructions of Hopper or Blackwell, with a product on them.
    """
    passed = [row for row in rows if row["outcome"] == "passed"]
    kernels = {digest: families for row in passed for digest, families in row["kernels"].items()}
    return {
        "run": sum(row["outcome"] != "skipped" for row in rows), "passed": len(passed), "launches": sum(row["launches"] for row in passed), "kernels": len(kernels),
        "with TMA or tensor memory": sum(bool(set(f) - {"mma.sync"}) for f in kernels.values()), "with matrix products": sum(bool(set(f) & set(MATRIX)) for f in kernels.values()),
    }  # fmt: skip


def page(out: pathlib.Path) -> str:
    """Markdown: totals by architecture and project, a row for each program, then everything that did not pass."""
    rows = {
        (row["program"], row.get("test", "")): row
        for name in ("kills.jsonl", "results.jsonl")
        for row in rows_of(out / name)
        if row["outcome"] != "suite"
    }
    by_arch, by_program = collections.defaultdict(list), collections.defaultdict(list)
    for row in rows.values():
        by_arch[row["arch"], row["project"]].append(row)
        by_program[row["program"]].append(row)
    lines = [
        "| card | project | run | passed | launches | distinct kernels | with TMA or tensor memory | with matrix products |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (arch, project), some in sorted(by_arch.items()):
        lines.append(f"| {arch} | {project}@{some[0]['commit'][:7]} | {' | '.join(str(n) for n in counts(some).values())} |")
    lines += ["", "| program | card | passed | kernels | findings | seconds |", "|---|---|---|---|---|---|"]
    for name, some in sorted(by_program.items()):
        codes: collections.Counter[str] = collections.Counter()
        for row in some:
            codes.update(row.get("codes", {}))
        total = counts(some)
        found = ", ".join(f"{code} x{n}" for code, n in sorted(codes.items())) or "none"
        lines.append(
            f"| {name} | {some[0]['arch']} | {total['passed']} of {total['run']} | {total['kernels']} | {found} | {sum(row.get('seconds', 0) for row in some):.0f} |"
        )
    lines += ["", "What did not pass:", ""]
    for (program, test), row in sorted(rows.items()):
        if row["outcome"] not in ("passed", "skipped"):
            lines.append(f"- {program} {test.rpartition('::')[2]}: {row['outcome']}, {row.get('why', '')[:200]}".rstrip(", "))
    return "\n".join(lines)
