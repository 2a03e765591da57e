"""A plugin of pytest: only the tests in the file SMEMSIM_FIELD_TESTS, and an end to what takes more than
SMEMSIM_FIELD_SECONDS of processor time.

The file SMEMSIM_FIELD_FILE gets a line of JSON when a test begins, and one when it is over. What runs in compiled code
ends when it comes back.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_call", "pytest_runtest_logreport", "pytest_runtest_logstart"]


LONGEST = 1500  # characters of a failure
_began: dict[str, float] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the others out. Some tests are there on one card and not on the other, which is no error here."""
    with open(os.environ["SMEMSIM_FIELD_TESTS"], encoding="utf-8") as tests:
        chosen = set(tests.read().splitlines())
    items[:] = [item for item in items if item.nodeid in chosen]
    if "torch" in sys.modules:  # PyTorch imports this late, and what an alarm interrupts cannot be imported again
        with contextlib.suppress(ImportError):
            importlib.import_module("torch._dynamo")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Ring after so many seconds of this process."""
    seconds = float(os.environ.get("SMEMSIM_FIELD_SECONDS", "0"))

    def over(*_: object) -> None:
        raise TimeoutError(f"longer than SMEMSIM_FIELD_SECONDS = {seconds:g}")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _tell(**about: object) -> None:
    with open(os.environ["SMEMSIM_FIELD_FILE"], "a", encoding="utf-8") as out:
        out.write(json.dumps(about) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """What ends the process ends this test."""
    _began[nodeid] = time.process_time()
    _tell(test=nodeid, outcome="began")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of a test, once it is known."""
    if report.when != "call" and report.passed:
        return
    text = report.longreprtext if not report.skipped else str(report.longrepr)
    errors = [line for line in text.splitlines() if line.startswith("E  ")] or text.splitlines()
    _tell(
        test=report.nodeid,
        outcome="over limit" if "SMEMSIM_FIELD_SECONDS" in text else report.outcome,
        seconds=round(time.process_time() - _began[report.nodeid], 2),
        why=" ".join(" ".join(errors).split())[:LONGEST],
    )
