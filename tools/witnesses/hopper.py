"""What programs known right on a Hopper card say of rules that were measured there: golden/sm_90a/launches under
alternatives of them.

    python -m tools.witnesses.hopper [--programs REGEX] [--seconds N] [--again]

Every launch of that suite ran on the card that its manifest names, three times, and what it left in memory is kept as
digests. Here it runs on the model, as the rules are and under every alternative of a measured rule
(`smemsim.core.spec.calibration`) that changes something in it. Two judges look at its outputs. Its own check is what
the host of such a program does: numpy's result, and a tolerance where the launch has one. The other one has the bits
that the card left. What the first refutes stands in sim/smemsim/core/spec/calibration.json as `refuted_by`: programs
alone could have found it. What the bits alone refute stands there as `by_bits`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import smemsim
from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.core.spec.alternatives import Alternative
from smemsim.core.spec.assumptions import exchange
from smemsim.core.spec.calibration import CALIBRATION
from smemsim.core.spec.touched import touched
from smemsim.evidence.format import Suite, load_suite
from smemsim.evidence.launches import LaunchFile, RecordedLaunches
from smemsim.run.engine.device import Device
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import RunOptions
from tools.capture.launch_kernels import all_launches  # noqa: F401 - registers them
from tools.capture.launch_kernels.judge import GUARD, judge
from tools.capture.launch_kernels.spec import LAUNCHES
from tools.evidence.branches import REFUTES
from tools.evidence.matrix import by_digest
from tools.evidence.run import point_digest

__all__ = ["SUITE", "Told", "calibrate", "main", "told"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITE = ROOT / "golden" / "sm_90a" / "launches"
CALIBRATED = ROOT / "sim" / "smemsim" / "core" / "spec" / "calibration.json"
INSTRUCTIONS = re.compile(r"wgmma\.mma_async|cp\.async\.bulk\.tensor")
LIMIT_SECONDS = 60.0  # under an alternative a launch may wait forever
Told = tuple[str, str]  # what a launch's own check says, and what the card's bits say


@contextmanager
def _assuming(alternative: Alternative | None) -> Iterator[None]:
    if alternative is None:
        yield
        return
    exchange({alternative.point: alternative.change}, str(alternative))
    try:
        yield
    finally:
        exchange({})


def told(recorded: RecordedLaunches, case: int, alternative: Alternative | None = None) -> Told:
    """What became of a launch, by its own check and by the bits that the card left: "right", or one of `REFUTES`, or
    "unmodelled".
    """
    file = recorded.launch(case)
    try:
        with _assuming(alternative):
            device = Device(recorded.suite.arch)
            before = file.arrays()
            arrays, args = file.placed(device)
            launch = device.prepare(file.ptx, file.config(args), RunOptions(limit_seconds=LIMIT_SECONDS))
            execute(launch, sanitizer=False)
    except Unmodelled:
        return "unmodelled", "unmodelled"
    except (InputError, ValueError, IndexError):
        return "refused", "refused"
    if launch.result.out_of_time:
        return "over limit", "over limit"
    ends = [f.code for f in launch.result.findings.values() if f.severity == "trap"]
    if ends:
        ended = "hangs" if ends[0] == "X006" else "traps"
        return ended, ended
    after = {name: x.numpy() for name, x in arrays.items()}
    wrong = _own_check(file, before, after)
    differ = any(recorded.difference(case, name, after[name]) for name in recorded.outputs(case))
    return "wrong" if wrong else "right", "wrong" if differ else "right"


def _own_check(file: LaunchFile, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """What the launch's own check says of its outputs."""
    guard = np.full(GUARD, 0xA5, np.uint8)
    memory = {name: np.concatenate([np.ascontiguousarray(x).reshape(-1).view(np.uint8), guard]) for name, x in after.items()}
    return judge(file, LAUNCHES[file.name], before, memory)


def _compares(name: str) -> bool:
    return name in LAUNCHES and LAUNCHES[name].expect is not None and not LAUNCHES[name].status


def calibrate(
    suite: Suite, chosen: list[int], matrix: dict[str, Any], *, end: float = float("inf"), say: Callable[[str], None] = print
) -> dict[str, Any]:
    """The matrix with what these launches say, one after the other until time is up."""
    recorded = RecordedLaunches(suite)
    for case in chosen:
        if time.monotonic() > end:
            break
        name = f"launches.{suite.arrays['name'][case]}"
        begin = time.monotonic()
        with touched(CALIBRATION) as found:
            own, bits = told(recorded, case)
        matrix["programs"].pop(name, None)
        for row in matrix["alternatives"].values():
            row["refuted_by"].pop(name, None)
            row.get("by_bits", {}).pop(name, None)
        if own != "right":
            say(f"{name}: {own} by its own check, so it says nothing")
            continue
        about = _about(recorded, case, round(time.monotonic() - begin, 2))
        tried = [_tried(recorded, case, a, bits == "right", matrix["alternatives"][a], name) for a in sorted(found)]
        matrix["programs"][name] = about | {"bits": bits == "right", "tried": by_digest(tried, CALIBRATION)}
        count = sum(name in row["refuted_by"] for row in matrix["alternatives"].values())
        say(f"{name}: {count} of {len(found)} by its own check, {time.monotonic() - begin:.0f} s")
    return matrix


def _tried(recorded: RecordedLaunches, case: int, alternative: str, has_bits: bool, row: dict[str, Any], name: str) -> str:
    try:
        own, bits = told(recorded, case, CALIBRATION[alternative])
    except SmemsimError:
        own = bits = "ended"
    if own in REFUTES:
        row["refuted_by"][name] = own
    elif has_bits and bits in REFUTES:
        row.setdefault("by_bits", {})[name] = bits
    return alternative


def _about(recorded: RecordedLaunches, case: int, seconds: float) -> dict[str, Any]:
    suite = recorded.suite
    file = recorded.launch(case)
    card = {key: suite.manifest["device"][key] for key in ("gpu", "driver", "captured_utc")}
    return {
        "witness": True, "arch": suite.arch, "what": f"{file.about.get('title', file.name)}: run on the card, numpy's result as its check",
        "silicon": {**card, "suite": suite.name, "ptx_sha256": str(suite.arrays["ptx_sha256"][case])},
        "version": smemsim.__version__, "digest": "", "right": True, "seconds": seconds, "kernels": [str(suite.arrays["ptx_sha256"][case])[:16]], "codes": {},
    }  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--programs", default="", help="a regular expression that their names match")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no other launch after this time")
    parser.add_argument("--again", action="store_true", help="what was run, too")
    parser.add_argument("--out", type=pathlib.Path, default=CALIBRATED)
    given = parser.parse_args(argv)
    suite, end = load_suite(SUITE), time.monotonic() + given.seconds
    matrix = json.loads(given.out.read_text(encoding="utf-8"))
    recorded = RecordedLaunches(suite)
    for case in range(len(suite)):
        name = str(suite.arrays["name"][case])
        if not re.search(given.programs, name) or not _compares(name) or (_is_known(matrix, f"launches.{name}") and not given.again):
            continue
        if INSTRUCTIONS.search(recorded.launch(case).ptx):
            matrix = calibrate(suite, [case], matrix, end=end)
            matrix["programs"] = dict(sorted(matrix["programs"].items()))
            given.out.write_text(json.dumps(matrix, indent=1) + "\n", encoding="utf-8")


def _is_known(matrix: dict[str, Any], name: str) -> bool:
    """Is it there, with the sources as they are?"""
    about = matrix["programs"].get(name)
    return about is not None and all(
        a in CALIBRATION and digest == point_digest(CALIBRATION[a].point) for digest, names in about["tried"].items() for a in names
    )


if __name__ == "__main__":
    main()
