"""What programs of others refute, put into sim/smemsim/core/spec/kill_matrix.json."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative
from smemsim.core.spec.calibration import CALIBRATION
from tools.evidence.branches import REFUTES
from tools.evidence.corpus import corpus
from tools.evidence.run import point_digest, rows_of, run_name

__all__ = ["asked_again", "by_digest", "merged", "put", "stale"]

SPEC = pathlib.Path(__file__).resolve().parents[2] / "sim" / "smemsim" / "core" / "spec"
KILLS, CALIBRATED = SPEC / "kill_matrix.json", SPEC / "calibration.json"


def put(out: pathlib.Path) -> str:
    """Put what was found in a folder into the matrix, and what Hopper's programs found into the calibration; a
    sentence.
    """
    rows = rows_of(out / "kills.jsonl")
    told = []
    for path, alternatives in ((KILLS, ALTERNATIVES), (CALIBRATED, CALIBRATION)):
        before = (
            json.loads(path.read_text(encoding="utf-8"))
            if path.exists()
            else {"schema": "smemsim.kills/1", "programs": {}, "alternatives": {}}
        )
        matrix = merged(before, rows, alternatives)
        path.write_text(json.dumps(matrix, indent=1) + "\n", encoding="utf-8")
        known = {name for name, about in matrix["programs"].items() if about["witness"]}
        refuted = {name for name, row in matrix["alternatives"].items() if known & row["refuted_by"].keys()}
        rules = {a.rule for a in alternatives.values()}
        whole = rules - {a.rule for name, a in alternatives.items() if name not in refuted}
        told.append(
            f"{path.name}: {len(known)} witnesses refute {len(refuted)} of {len(alternatives)} alternatives, all of {len(whole)} of {len(rules)} rules"
        )
    return "\n".join(told)


def merged(matrix: dict[str, Any], rows: list[dict[str, Any]], of: Mapping[str, Alternative] = ALTERNATIVES) -> dict[str, Any]:
    """The matrix with these rows too; what was found of others' programs with other sources goes.

    A program is a witness where its project runs it on such a card, its own check passed here as the rules are, and it
    compares something; others say nothing here.
    """
    witnesses = {p.name for p in corpus() if p.check != "none" and p.project.tested}
    beside = {p.name: {"rests_on": p.rests_on} for p in corpus() if p.rests_on}
    rows = [row for row in rows if (row["arch"] == "sm_90a") == (of is CALIBRATION)]
    programs = _kept(matrix, of)
    alternatives = {name: {"refuted_by": {}} for name in of}
    for name, row in matrix["alternatives"].items():
        if name in alternatives:
            alternatives[name] = {**row, "refuted_by": {p: told for p, told in row["refuted_by"].items() if _has(programs.get(p), name)}}
    for row in rows:
        kills = {
            a: told for a, told in row.get("kills", {}).items()
            if a in of and row["digests"].get(of[a].point) == point_digest(of[a].point)
        }  # fmt: skip
        if row["outcome"] != "passed" or row["program"] not in witnesses or not kills:
            continue
        name = run_name(row)
        programs[name] = {
            "witness": True, "arch": row["arch"], "what": f"{row['project']}: {row.get('test') or row['program']}", "origin": {"project": row["project"], "commit": row["commit"]},
            "version": row["versions"]["smemsim"], "versions": row["versions"], "digest": "", "right": True, "seconds": row["seconds"], "kernels": sorted(row["kernels"]),
            "codes": row["codes"], **beside.get(row["program"], {}), "tried": by_digest({*kills, *(a for names in programs.get(name, {"tried": {}})["tried"].values() for a in names)}, of),
        }  # fmt: skip
        for a, told in kills.items():
            alternatives[a]["refuted_by"].pop(name, None)
            if told in REFUTES:
                alternatives[a]["refuted_by"][name] = told
    for a, count in _met(rows, programs, witnesses, of).items():
        alternatives[a]["met_by"] = max(count, alternatives[a].get("met_by", 0))
    return {**matrix, "programs": dict(sorted(programs.items())), "alternatives": alternatives}


def _kept(matrix: dict[str, Any], of: Mapping[str, Alternative]) -> dict[str, Any]:
    """The programs of a matrix that stay: others' without what was tried with other sources."""
    found = {}
    for name, about in matrix["programs"].items():
        if not about.get("origin"):
            found[name] = about
        elif fresh := [a for digest, names in about["tried"].items() for a in names if a in of and digest == point_digest(of[a].point)]:
            found[name] = {**about, "tried": by_digest(fresh, of)}
    return found


def _has(about: dict[str, Any] | None, alternative: str) -> bool:
    """Does what is kept of a program hold for an alternative?"""
    return about is not None and (not about.get("origin") or any(alternative in names for names in about["tried"].values()))


def _met(
    rows: list[dict[str, Any]], programs: Mapping[str, Any], witnesses: Collection[str], of: Mapping[str, Alternative]
) -> dict[str, int]:
    """In how many runs of witnesses each alternative would have changed something, at the least: also where it was not
    tried.
    """
    found = dict.fromkeys(of, 0)
    again = {run_name(row) for row in rows}
    for row in rows:
        if row["outcome"] == "passed" and row["program"] in witnesses:
            for a in {*row.get("touched", ()), *row.get("kills", ())}:
                if a in of and row["digests"].get(of[a].point) == point_digest(of[a].point):
                    found[a] += 1
    for name, about in programs.items():
        if about["witness"] and name not in again:
            for a in (a for names in about["tried"].values() for a in names):
                found[a] += 1
    return found


def stale(matrix: dict[str, Any], of: Mapping[str, Alternative] = ALTERNATIVES) -> list[str]:
    """What others' programs of a matrix say of alternatives whose sources were changed since: a line for each, `kill`
    finds it again.
    """
    return [
        f"{name}: {a}"
        for name, about in matrix["programs"].items() if about.get("origin") or about.get("silicon")
        for digest, names in about["tried"].items() for a in names if a not in of or digest != point_digest(of[a].point)
    ]  # fmt: skip


def asked_again(old: Iterable[str], program: str) -> tuple[str, str] | None:
    """What `kill` has to run of a program for the lines of `stale` that are about it: patterns of tests and of
    alternatives; None where none is.

    >>> asked_again(["a.unit::test_x[3-k]: p=q", "a.unit::test_y: p=r", "b.unit::test_z: p=s"], "a.unit")
    ('^(test_x|test_y)$', '^(p=q|p=r)$')
    """
    found = [line.rpartition(": ") for line in old if line.rpartition(": ")[0].partition("::")[0] == program]
    if not found:
        return None
    tests = sorted({re.escape(name.partition("::")[2].partition("[")[0]) for name, _, _ in found} - {""})
    alternatives = sorted({re.escape(alternative) for *_, alternative in found})
    return f"^({'|'.join(tests)})$" if tests else "", f"^({'|'.join(alternatives)})$"


def by_digest(kills: Iterable[str], of: Mapping[str, Alternative]) -> dict[str, list[str]]:
    """Alternatives by the digest of the sources that ask at their points."""
    found: dict[str, list[str]] = {}
    for a in kills:
        found.setdefault(point_digest(of[a].point), []).append(a)
    return {digest: sorted(names) for digest, names in sorted(found.items())}
