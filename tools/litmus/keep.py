"""Results of litmus tests that are kept as they come, so that a run that was stopped goes
on, by one process or many.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from smemsim.base.processes import pool, version
from tools.litmus.card import asked
from tools.litmus.run import Result, expectations, judged

__all__ = ["judged_all", "kept"]

Task = tuple[
    str, str, str, int, bool | None, bool | None, bool
]  # path, text, space, seeds, does its condition hold?, does it end?, on a card too?


def judged_all(
    checkout: pathlib.Path, paths: Iterable[pathlib.Path], spaces: Sequence[str], seeds: int, out: pathlib.Path | None = None, jobs: int = 1,
    *, card: bool = False,
) -> Iterator[Result]:  # fmt: skip
    """Every test of `paths` in every space, as it is done: in the usual order, with the earliest and the latest, and
    with so many drawn schedules.

    What stands in `out` of the same test, found by the same sources, is taken from there.
    """
    conditions, endings = expectations(checkout)
    before = kept(out)
    left: list[Task] = []
    for path in paths:
        name, text = path.relative_to(checkout).as_posix(), path.read_text(encoding="utf-8")
        for space in spaces:
            task = (name, text, space, seeds, conditions.get(name), endings.get(name), card)
            if (found := before.get(_key(task))) is None:
                left.append(task)
            else:
                yield found
    for task, result in _done(left, jobs):
        if out is not None:
            _keep(out, task, result)
        yield result


def kept(out: pathlib.Path | None) -> dict[str, Result]:
    """What stands in a file of results; a last line that was cut off does not count."""
    found: dict[str, Result] = {}
    lines = out.read_text(encoding="utf-8").splitlines() if out is not None and out.exists() else []
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        key = row.pop("key")
        found[key] = Result(**{**row, "codes": set(row["codes"])})
    return found


def _keep(out: pathlib.Path, task: Task, result: Result) -> None:
    row = {"key": _key(task), **dataclasses.asdict(result), "codes": sorted(result.codes)}
    broken = out.exists() and out.stat().st_size > 0 and not out.read_bytes().endswith(b"\n")
    with out.open("a", encoding="utf-8") as file:
        file.write("\n" * broken + json.dumps(row) + "\n")


def _key(task: Task) -> str:
    """Of a test, its expectations, its schedules, and the sources that judge it."""
    return hashlib.sha256(json.dumps([*task, version(), _judges()]).encode()).hexdigest()[:16]


@functools.cache
def _judges() -> str:
    """The sources of what judges a test, beside the package."""
    return "".join(
        (pathlib.Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") for name in ("kernel", "model", "parse", "run")
    )


def _done(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    if jobs == 1:
        yield from ((task, judge(task)) for task in tasks)
        return
    with pool(jobs) as processes:
        began = {processes.submit(judge, task): task for task in tasks}
        for future in concurrent.futures.as_completed(began):
            yield began[future], future.result()


def judge(task: Task) -> Result:
    """A test in a space."""
    path, text, space, seeds, condition, ending, card = task
    schedules: list[int | str | None] = [None, "earliest", "latest", *range(seeds)]
    return judged(path, text, space, schedules, condition, ending, asked if card else None)
