"""The kill matrix: which program comes out wrong under which alternative of a rule about Blackwell.

    python -m tools.witnesses.kill [--programs REGEX] [--alternatives REGEX] [--seconds N] [--each]

Programs are the launches of golden/compiled/launches_sm_100a and the suites golden/compiled/triton_mma*, launches of
witnesses first, short ones before long ones. A program is first run as the rules are: one that is not right then says
nothing. Under an alternative it is "wrong" (another result), "traps", "refused" (the instruction would not exist),
"unmodelled" (no word on it), or "right". What was run is kept in sim/smemsim/core/spec/kill_matrix.json, after every
program, with a digest of what the result rests on; a second call goes on where the first one stopped, and runs again
what was kept with another digest. Without --each an alternative that a witness refutes is not tried on further
programs.

A witness is a program that its owners run, and check, on such a card. None of these is: Triton and nvcc compiled them,
but their sources stand in this package, and nobody has run them on a card. So what they refute is told, and makes no
rule *witnessed*. Launches run on the inputs that every order of summation adds up exactly, against plain products: so
they say nothing of how arithmetic rounds, and refute none of its widths.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smemsim
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative, assuming
from smemsim.evidence.format import load_suite
from smemsim.evidence.replay import replay_suite
from tools.witnesses.launches import compiled_launches, expected_results, running

__all__ = ["KILLS", "OUTCOMES", "Program", "digest", "kill", "main", "outcome", "programs"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILLS = ROOT / "sim" / "smemsim" / "core" / "spec" / "kill_matrix.json"
OUTCOMES = ("wrong", "traps", "hangs", "refused", "unmodelled", "right")
REFUTES = ("wrong", "traps", "hangs", "refused")
LIMIT_SECONDS = 60.0  # of one launch, which may hang under an alternative

# What a program must contain for an alternative at a point to mean anything to it; a point that is not here can matter
# to all.
NEEDS = {
    "idesc.": "tcgen05.mma", "accumulator.": "tcgen05.mma", "pair.": "tcgen05.mma.*cta_group::2", "a.cell": "tcgen05.mma", "scales.": "kind::mx", "metadata.": r"tcgen05.mma\S*\.sp",
    "ld_st.": r"tcgen05\.(ld|st)", "cp.": r"tcgen05\.cp", "decompression": "b8x16", "operand.": r"tcgen05\.(mma|cp)", "arithmetic.": "tcgen05.mma",
    "zero_columns": r"tcgen05\.mma\.ws", "lanes.": "tcgen05.mma", "alloc.": r"tcgen05\.alloc", "commit.": r"tcgen05\.commit", "shift.": r"tcgen05\.shift", "tma.gathered": "gather4|scatter4",
    "tma.": r"cp\.async\.bulk\.tensor",
}  # fmt: skip


class Program:
    """A program with its own check: `run` raises or says whether its result is right."""

    def __init__(
        self, name: str, about: str, text: str, run: Callable[[], bool], *, witness: bool, points: tuple[str, ...] = ("",)
    ) -> None:
        self.name, self.about, self.text, self.run, self.witness, self.points = name, about, text, run, witness, points

    def can_tell(self, alternative: Alternative) -> bool:
        """Does it have instructions that the alternative is about?"""
        if not alternative.point.startswith(self.points):
            return False
        needs = next((pattern for begin, pattern in NEEDS.items() if alternative.point.startswith(begin)), "")
        return re.search(needs, self.text) is not None


def _launch(name: str, ptx: str, launch: dict[str, Any]) -> Program:
    def run() -> bool:
        done, arrays, placed = running.launched(launch, ptx, sanitize=False, progress=False, limit_seconds=LIMIT_SECONDS, workers=1)
        wanted = expected_results.expected(launch, arrays)
        return not done.out_of_time and done.ok and all(_agrees(launch, n, placed[n].numpy(), wanted[n]) for n in launch["outputs"])

    by_compiler = name.startswith(("triton_", "gluon_"))
    about = f"{launch['compiler']}: {'Triton kernel' if name.startswith('triton_') else 'Gluon kernel' if by_compiler else 'CUDA C++ with PTX of this package'}"
    return Program(name, about, ptx, run, witness=False)


def _agrees(launch: dict[str, Any], name: str, found: np.ndarray, wanted: np.ndarray) -> bool:
    raw = np.ascontiguousarray(wanted)
    dtype = next(a["dtype"] for a in launch["arrays"] if a["name"] == name)
    got = found.reshape(-1).view(np.uint8).view(raw.dtype).reshape(raw.shape)
    if launch["exact"]:
        return bool(np.array_equal(got, raw))
    x, y = (expected_results.decoded(bits, dtype).astype(float) for bits in (got, raw))
    return bool(np.abs(x - y).max() <= launch["tolerance"][name] * np.abs(y).max())


def _suite(path: pathlib.Path) -> Program:
    def run() -> bool:
        return bool(replay_suite(load_suite(path)).same)

    manifest = json.loads((path / "manifest.json").read_text())
    text = "tcgen05.mma tcgen05.mma.cta_group::2 tcgen05.cp" + (" kind::mx" if "scaled" in path.name else "")
    about = f"{manifest['device']['compiler']}: words of {manifest['cases']} kernels against the layouts that the compiler says it used"
    return Program(path.name, about, text, run, witness=False, points=("accumulator.", "a.cell", "scales.cell", "operand.", "cp.shape"))


def programs() -> dict[str, Program]:
    """All programs by their names."""
    found = [_launch(name, ptx, launch) for name, (ptx, launch) in compiled_launches.read().items() if "tcgen05" in ptx or "gather4" in ptx]
    found += [_suite(path.parent) for path in sorted((ROOT / "golden" / "compiled").glob("triton_mma*/manifest.json"))]
    return {p.name: p for p in found}


def digest() -> str:
    """Of everything that a result rests on: the model's sources, the launches and how they are compared."""
    total = hashlib.sha256()
    model = ROOT / "sim" / "smemsim"
    folders = ("spec", "words", "layout", "arithmetic", "machine", "program")
    files = [f for folder in folders for f in sorted((model / folder).rglob("*.py"))]
    for file in [
        *files,
        ROOT / "golden/compiled/launches_sm_100a/index.json",
        pathlib.Path(expected_results.__file__),
        pathlib.Path(__file__),
    ]:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def outcome(program: Program, alternative: str | None) -> str:
    """What a program does under an alternative: one of `OUTCOMES`."""
    try:
        with assuming(alternative):
            return "right" if program.run() else "wrong"
    except HardwareTrap:
        return "traps"
    except Unmodelled:
        return "unmodelled"
    except (InputError, ValueError, IndexError):
        return "refused"


def _empty() -> dict[str, Any]:
    return {"schema": "smemsim.kills/1", "programs": {}, "alternatives": {}}


def _write(matrix: dict[str, Any], path: pathlib.Path) -> None:
    matrix["programs"] = dict(sorted(matrix["programs"].items()))
    matrix["alternatives"] = {str(a): matrix["alternatives"].get(str(a), {"refuted_by": {}}) for a in ALTERNATIVES}
    path.write_text(json.dumps(matrix, indent=1) + "\n")


def kill(
    chosen: list[Program],
    alternatives: list[Alternative],
    path: pathlib.Path,
    *,
    seconds: float,
    each: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run programs under alternatives until the time is over; the matrix, which is kept after every program."""
    matrix = json.loads(path.read_text()) if path.exists() else _empty()
    end, now = time.monotonic() + seconds, digest()
    for program in chosen:
        about = _known_right(program, matrix, now)
        say(f"{program.name}: {'right' if about['right'] else 'not right as the rules are, so it says nothing'}, {about['seconds']:.1f} s")
        for alternative in alternatives if about["right"] else ():
            row = matrix["alternatives"].setdefault(str(alternative), {"refuted_by": {}})
            if time.monotonic() > end:
                break
            tried = about["tried"].setdefault(now, [])
            done = str(alternative) in tried or not program.can_tell(alternative)
            witnesses = (matrix["programs"][n]["witness"] for n in row["refuted_by"])
            if done or (not each and any(witnesses)):
                continue
            found = outcome(program, str(alternative))
            tried.append(str(alternative))
            row["refuted_by"].pop(program.name, None)
            if found in REFUTES:
                row["refuted_by"][program.name] = found
            elif found == "unmodelled":
                row.setdefault("unmodelled", []).append(program.name)
        _write(matrix, path)
        if time.monotonic() > end:
            break
    return matrix


def _known_right(program: Program, matrix: dict[str, Any], now: str) -> dict[str, Any]:
    """What is kept of a program, run as the rules are where that was not done with these sources."""
    about: dict[str, Any] = matrix["programs"].get(program.name, {})
    if about.get("digest") != now:
        begin = time.monotonic()
        right = outcome(program, None) == "right"
        about = {
            "witness": program.witness, "arch": "sm_100a", "what": program.about, "version": smemsim.__version__, "digest": now, "right": right,
            "seconds": round(time.monotonic() - begin, 2), "tried": {},
        }  # fmt: skip
        for row in matrix["alternatives"].values():  # what was kept with other sources is run again
            row["refuted_by"].pop(program.name, None)
        matrix["programs"][program.name] = about
    return about


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--programs", default="", help="a regular expression that their names match")
    parser.add_argument("--alternatives", default="", help="a regular expression that RULE=ALTERNATIVE matches")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin nothing more after this time")
    parser.add_argument("--each", action="store_true", help="try every program on every alternative")
    parser.add_argument("--out", type=pathlib.Path, default=KILLS)
    given = parser.parse_args(argv)
    chosen = [p for name, p in programs().items() if re.search(given.programs, name)]
    alternatives = [a for name, a in ALTERNATIVES.items() if re.search(given.alternatives, name)]
    matrix = kill(
        sorted(chosen, key=lambda p: (not p.witness, p.points != ("",), len(p.text))),
        alternatives,
        given.out,
        seconds=given.seconds,
        each=given.each,
    )
    known = {n for n, about in matrix["programs"].items() if about["witness"]}
    refuted = sum(bool(known & row["refuted_by"].keys()) for row in matrix["alternatives"].values())
    print(
        f"{refuted} of {len(ALTERNATIVES)} alternatives are refuted by a witness; {len(known)} witnesses of {len(matrix['programs'])} programs were run"
    )


if __name__ == "__main__":
    main()
