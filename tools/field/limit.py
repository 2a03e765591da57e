"""A plugin of pytest: only the tests in the file SMEMSIM_FIELD_TESTS, a line of JSON for each in the file SMEMSIM_FIELD_FILE, and an end to what takes
longer than SMEMSIM_FIELD_SECONDS.

What runs in compiled code ends when it comes back.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_call", "pytest_runtest_logreport"]


LONGEST = 1500  # characters of a failure
_seconds: dict[str, float] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the others out. Some tests are there on one card and not on the other, which is no error here."""
    with open(os.environ["SMEMSIM_FIELD_TESTS"], encoding="utf-8") as tests:
        chosen = set(tests.read().splitlines())
    items[:] = [item for item in items if item.nodeid in chosen]
    with contextlib.suppress(ImportError):  # PyTorch imports it late, and what an alarm interrupts cannot be imported again
        importlib.import_module("torch._dynamo")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Ring after so many seconds."""
    seconds = float(os.environ.get("SMEMSIM_FIELD_SECONDS", "0"))

    def over(*_: object) -> None:
        raise TimeoutError(f"longer than SMEMSIM_FIELD_SECONDS = {seconds:g}")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of a test, once it is known."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.when != "call" and report.passed:
        return
    text = report.longreprtext if not report.skipped else str(report.longrepr)
    errors = [line for line in text.splitlines() if line.startswith("E  ")] or text.splitlines()
    outcome = "over limit" if "SMEMSIM_FIELD_SECONDS" in text else report.outcome
    about = {
        "test": report.nodeid,
        "outcome": outcome,
        "seconds": _seconds[report.nodeid],
        "why": " ".join(" ".join(errors).split())[:LONGEST],
    }
    with open(os.environ["SMEMSIM_FIELD_FILE"], "a", encoding="utf-8") as out:
        out.write(json.dumps(about) + "\n")
