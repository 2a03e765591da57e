"""A plugin of pytest: what came of each test of a program on the virtual GPU and, where that is asked, under which
alternatives it fails.

SMEMSIM_EVIDENCE names a JSON file: `out`, the file that gets a line for each test; `program`; `functions` and `chosen`,
regular expressions of their names, `done`, ids of tests that are left out, `each`, how many sets of parameters of a
function, `tests`, their ids (all without them), `order`, functions that come first; `seconds` for a test; `kill`, if
alternatives are to be tried: `left`, how many more refutations each of them wants, `tries`, how many programs more it
is tried on, `seconds` for one.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib
import json
import math
import os
import pathlib
import random
import re
import time
from collections.abc import Generator
from typing import Any

import pytest

from smemsim.core.spec.calibration import every_alternative
from smemsim.core.spec.touched import touched
from smemsim.virtual import process
from tools.alarm import at_most
from tools.evidence import branches
from tools.evidence.records import of_launches

__all__ = ["pytest_collection_modifyitems", "pytest_pyfunc_call", "pytest_runtest_logreport"]

PLAN: dict[str, Any] = json.loads(pathlib.Path(os.environ["SMEMSIM_EVIDENCE"]).read_text(encoding="utf-8"))
OUT = pathlib.Path(PLAN["out"])
LONGEST = 400  # characters of a failure
MOST_SETS = 512  # sets of parameters of a function that are looked at
_about: dict[str, dict[str, Any]] = {}
_kill = PLAN.get("kill")


def pytest_sessionstart() -> None:
    """Names that are missed: what uses them fails. torch comes first, whatever a file imports."""
    importlib.import_module("torch")
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")
    for text in PLAN.get("stand_ins", ()):
        module, _, name = text.partition(":")
        if not hasattr(found := importlib.import_module(module), name):
            setattr(found, name, None)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(name: str, obj: Any) -> list[pytest.Item] | None:
    """Functions that are not asked for are not looked at, and of those with thousands of sets of parameters some values
    alone are taken.
    """
    if not name.startswith("test"):
        return None
    if not all(re.search(PLAN.get(which, ""), name) for which in ("functions", "chosen")):
        return []
    marks = [mark for mark in getattr(obj, "pytestmark", ()) if mark.name == "parametrize"]
    if marks:
        values = [list(mark.args[1]) for mark in marks]
        dice = random.Random(f"smemsim {name}")
        while math.prod(map(len, values)) > MOST_SETS:
            longest = max(values, key=len)
            longest.pop(dice.randrange(len(longest)))
        thinner = {
            id(mark): pytest.mark.parametrize(mark.args[0], some, **mark.kwargs).mark for mark, some in zip(marks, values, strict=True)
        }
        obj.pytestmark = [thinner.get(id(mark), mark) for mark in obj.pytestmark]
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is not asked for or was done: `each` sets of parameters of a function, first one of each function,
    then the second ones.
    """
    done = set(PLAN.get("done", ()))
    tests, of_function = PLAN.get("tests"), collections.defaultdict(list)
    for item in items:
        if tests is None or item.nodeid in tests:
            of_function[item.nodeid.partition("[")[0]].append(item)
    turns, order = [], PLAN.get("order", [])
    for name, same in of_function.items():
        random.Random(f"smemsim {name}").shuffle(same)
        place = order.index(same[0].originalname) if same[0].originalname in order else len(order)
        turns += [(turn, place, item) for turn, item in enumerate(same[: PLAN.get("each") or None])]
    items[:] = [item for *_, item in sorted(turns, key=lambda x: x[:2]) if item.nodeid not in done]


def _launches(first: int) -> list[Any]:
    return list(process.device().launches[first:]) if process.has_device() else []


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Note what the test launches and touches; then try alternatives."""
    first = len(_launches(0))
    begin = time.perf_counter()
    about = _about[pyfuncitem.nodeid] = {"launches": 0}
    try:
        seconds = PLAN.get("seconds", 120.0)
        limit = at_most(seconds, TimeoutError(f"longer than {seconds:g} s"))
        with limit, touched(every_alternative(os.environ["SMEMSIM_ARCH"])) as found:
            outcome = yield
    finally:
        launches = _launches(first)
        about |= {
            "seconds": round(time.perf_counter() - begin, 2),
            **of_launches(launches),
        }
    about["touched"] = sorted(found)
    if _kill:
        begin = time.perf_counter()
        about["kills"] = _kills(pyfuncitem, sorted(found), about["seconds"])
        about["kill_seconds"] = round(time.perf_counter() - begin, 1)
    return outcome


def _kills(item: pytest.Function, found: list[str], seconds: float) -> dict[str, str]:
    """What came of the test under each alternative that wants it."""
    kills: dict[str, str] = {}
    end = time.monotonic() + _kill["of_program"]
    for name in sorted(found, key=lambda a: (-_kill["left"].get(a, 0), a)):
        if _kill["left"].get(name, 0) <= 0 or _kill["tries"].get(name, 0) <= 0 or time.monotonic() > end:
            continue
        limit = max(_kill["seconds"], 10 * seconds)
        code = branches.branch(limit, lambda name=name: branches.assume(name), lambda: _again(item))  # type: ignore[misc]
        kills[name] = next((told for told, number in branches.CODES.items() if number == code), "ended")
        if kills[name] in branches.REFUTES:
            _kill["left"][name] -= 1
        else:
            _kill["tries"][name] -= 1
    return kills


def _again(item: pytest.Function) -> int:
    """The test once more, in a child; the code of what came of it."""
    device = process.device()
    device.error = 0
    device.policy = dataclasses.replace(device.policy, sanitize=False)  # what is right is what the test says
    first = len(_launches(0))
    try:
        item.obj(**{name: item.funcargs[name] for name in item._fixtureinfo.argnames})
        told = "right"
    except AssertionError:
        told = branches.outcome_of_launches(_launches(first)) or "wrong"
    except Exception:
        told = branches.outcome_of_launches(_launches(first)) or "ended"
    return branches.CODES[told]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of a test, once it is known."""
    if report.when != "call" and report.passed:
        return
    text = report.longreprtext if not report.skipped else str(report.longrepr)
    errors = [line for line in text.splitlines() if line.startswith("E  ")] or text.splitlines()
    about = {
        "test": report.nodeid, "outcome": report.outcome, **_about.pop(report.nodeid, {}),
        "why": "" if report.passed else " ".join(" ".join(errors).split())[:LONGEST],
    }  # fmt: skip
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("a", encoding="utf-8") as out:
        out.write(json.dumps(about) + "\n")
