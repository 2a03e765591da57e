"""SMEMSIM_HOOKS for a script: at its first launch, children that go on under each alternative; what came of them, in a
file (see `tools.evidence.inside`).

A program whose device is in another process (C++) cannot be branched: of it only what it touches is written down, and
with `assume` in the plan its launches are computed with that alternative. `tools.evidence.run` starts it once for each.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import time
from typing import Any

from smemsim.core.spec.calibration import every_alternative
from smemsim.core.spec.touched import touched
from smemsim.virtual import hook, process
from tools.evidence import branches
from tools.evidence.records import of_launches

PLAN: dict[str, Any] = json.loads(pathlib.Path(os.environ["SMEMSIM_EVIDENCE"]).read_text(encoding="utf-8"))
OUT = pathlib.Path(PLAN["out"])
os.environ.setdefault("SMEMSIM_ARCH", PLAN["arch"])  # a process that serves another one has it not
_state = {"is_first": True}
_open = contextlib.ExitStack()


@hook("")
def first_launch(launch: Any) -> bool:
    """Declines, so that the kernel runs."""
    if _state["is_first"]:
        _state["is_first"] = False
        if process.has_device():
            _branches()
        elif "assume" in PLAN:
            branches.assume(PLAN["assume"])
        else:
            _served(launch.memory.__self__)
    return False


def _served(device: Any) -> None:
    """Write down what the program touches, whenever a launch of it is over: its process may end at any time."""
    found, tell = _open.enter_context(touched(every_alternative(os.environ["SMEMSIM_ARCH"]))), device.listeners.ended

    def ended(launched: Any) -> None:
        OUT.write_text(json.dumps({"served": True, "touched": sorted(found)}), encoding="utf-8")
        tell(launched)

    device.listeners.ended = ended


def _branches() -> None:
    begin, note = time.monotonic(), OUT.with_suffix(".child")
    code = branches.branch(PLAN["seconds"], lambda: _record(note))
    if code is None:
        return
    about = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {"touched": []}
    seconds = time.monotonic() - begin
    about |= {"exit": code, "seconds": round(seconds, 2), "kills": {}}
    kill = PLAN["kill"]
    end = begin + kill["of_program"]
    for name in sorted(about["touched"] if code == 0 else (), key=lambda a: (-kill["left"].get(a, 0), a)):
        if kill["left"].get(name, 0) > 0 and kill["tries"].get(name, 0) > 0 and time.monotonic() < end:
            note.unlink(missing_ok=True)
            code = branches.branch(max(kill["seconds"], 6 * seconds), lambda name=name: _assume(name, note))  # type: ignore[misc]
            if code is None:
                return
            told = note.read_text(encoding="utf-8") if note.exists() else "ended"
            about["kills"][name] = "right" if code == 0 else "over limit" if code == branches.CODES["over limit"] else told
    note.unlink(missing_ok=True)
    OUT.write_text(json.dumps(about), encoding="utf-8")
    os._exit(about["exit"])


def _record(note: pathlib.Path) -> None:
    found = _open.enter_context(touched(every_alternative(os.environ["SMEMSIM_ARCH"])))
    launches = process.device().launches
    atexit.register(lambda: note.write_text(json.dumps({"touched": sorted(found), **of_launches(launches)}), encoding="utf-8"))


def _assume(name: str, note: pathlib.Path) -> None:
    device = process.device()
    device.policy = dataclasses.replace(device.policy, sanitize=False)
    branches.assume(name)
    atexit.register(lambda: note.write_text(_why(device.launches), encoding="utf-8"))


def _why(launches: list[Any]) -> str:
    """Why a program ended with another code than 0: its launches, or its own comparison."""
    error = getattr(sys, "last_value", None)
    own = error is None or isinstance(error, (AssertionError, SystemExit))
    return branches.outcome_of_launches(launches) or ("wrong" if own else "ended")
