"""What was run of others' programs, kept in the repository (passed.json): which tests passed their own check, and which
kernels those launched.
"""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterable
from typing import Any

from tools.evidence.corpus import CORPUS, corpus
from tools.evidence.page import MATRIX
from tools.evidence.run import rows_of

__all__ = ["PASSED", "keep", "kept", "totals", "with_rows"]

PASSED = CORPUS.with_name("passed.json")
LONGEST = 160  # characters of why a test did not pass
EMPTY: dict[str, Any] = {"schema": "smemsim.passed/1", "programs": {}, "kernels": {}}


def kept() -> dict[str, Any]:
    """What the repository has: `programs`, each with its runs by card and commit, and `kernels`, the instructions of
    Hopper and Blackwell in each, by digest.
    """
    return json.loads(PASSED.read_text(encoding="utf-8")) if PASSED.exists() else EMPTY


def keep(out: pathlib.Path) -> str:
    """Add what was run in a folder; a sentence."""
    rows = [row for name in ("results.jsonl", "kills.jsonl") for row in rows_of(out / name)]
    found = with_rows(kept(), rows)
    PASSED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    *_, every = totals(found)
    return f"{PASSED.name}: {every['passed']} passed, {every['kernels']} distinct kernels on Blackwell"


def with_rows(before: dict[str, Any], rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is kept, with these rows: the later of two runs of a test counts. Programs that compare nothing are not
    kept.

    A program is kept with the commit and the versions of its last run; a test that was skipped says nothing.
    """
    compares = {p.name for p in corpus() if p.check != "none"}
    programs: dict[str, Any] = json.loads(json.dumps(before["programs"]))
    kernels = dict(before["kernels"])
    for row in rows:
        if row["program"] not in compares or row["outcome"] in ("skipped", "suite"):
            continue
        about = {key: row[key] for key in ("project", "commit", "arch", "versions", "date")}
        one = programs[row["program"]] = {"passed": {}, "failed": {}, **programs.get(row["program"], {}), **about}
        test = row.get("test", "")
        one["passed"].pop(test, None)
        one["failed"].pop(test, None)
        if row["outcome"] == "passed" and row["kernels"]:
            one["passed"][test] = sorted(row["kernels"])
            kernels |= {digest: " ".join(families) for digest, families in row["kernels"].items()}
        elif row["outcome"] != "passed":
            one["failed"][test] = f"{row['outcome']}: {row.get('why', '')[:LONGEST]}"
    used = {digest for one in programs.values() for digests in one["passed"].values() for digest in digests}
    return {**before, "programs": programs, "kernels": {digest: kernels[digest] for digest in used}}


def totals(found: dict[str, Any], *, is_blackwell: bool = True) -> list[dict[str, Any]]:
    """A row for each project and card, then one for all: what passed, what did not, distinct kernels, those with TMA or
    tensor memory, those with matrix products.

    A test that launched nothing is in none of them.
    """
    by_project: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for one in found["programs"].values():
        if (one["arch"] != "sm_90a") == is_blackwell:
            by_project[one["project"], one["arch"]].append(one)
    every = [one for some in by_project.values() for one in some]
    return [_total(project, arch, some, found["kernels"]) for (project, arch), some in sorted(by_project.items())] + [
        _total("all", "", every, found["kernels"])
    ]


def _total(project: str, arch: str, programs: list[dict[str, Any]], families: dict[str, str]) -> dict[str, Any]:
    kernels = {digest for one in programs for digests in one["passed"].values() for digest in digests}
    words = [set(families[digest].split()) for digest in kernels]
    return {
        "project": project, "arch": arch, "commits": sorted({one["commit"][:7] for one in programs}), "programs": sum(bool(one["passed"]) for one in programs),
        "passed": sum(len(one["passed"]) for one in programs), "failed": sum(len(one["failed"]) for one in programs), "kernels": len(kernels),
        "own instructions": sum(bool(some - {"mma.sync"}) for some in words), "products": sum(bool(some & set(MATRIX)) for some in words),
    }  # fmt: skip
