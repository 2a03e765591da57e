"""Programs of others on the virtual GPU, and the alternatives of rules that they refute.

    python -m tools.evidence list [CHECKOUT ...] [--only GLOB]
    python -m tools.evidence run CHECKOUT ... [--only GLOB] [--jobs N] [--out DIR] [--again]
    python -m tools.evidence kill CHECKOUT ... [--only GLOB] [--tests REGEX] [--seconds N] [--wanted 2] [--stale] [--out DIR]
    python -m tools.evidence matrix [--out DIR]
    python -m tools.evidence stale
    python -m tools.evidence page [--out DIR]
    python -m tools.evidence keep [--out DIR]

CHECKOUT is a folder with a checkout of one of the projects of tools/evidence/programs.toml, or a folder of several.
`run` runs their programs as they are, and goes on where it was stopped. `kill` runs them, and again from the first
launch on under every alternative that changes something in them, with `--stale` what `stale` prints and no more;
`matrix` puts what it found into sim/smemsim/core/spec/kill_matrix.json; of what is not in DIR, it takes away what was
found with other sources; `stale` prints what it has from sources that were changed since, and exits with 1 where there
is such. `page` prints one page of results; `keep` adds which tests passed, and which kernels they launched, to
tools/evidence/passed.json. What was run is kept in DIR (~/.cache/smemsim/evidence).
"""

from __future__ import annotations

import argparse
import fnmatch
import pathlib
import sys
import time

from smemsim.core.spec.calibration import CALIBRATION, calibration
from smemsim.core.spec.evidence import kill_matrix
from tools.evidence.corpus import Program, checkout_of, corpus
from tools.evidence.kept import keep
from tools.evidence.matrix import asked_again, put, stale
from tools.evidence.page import page
from tools.evidence.run import Runner

__all__ = ["main"]

EVERY = 1 << 16  # refutations and tries
OUT = pathlib.Path.home() / ".cache" / "smemsim" / "evidence"


def main(argv: list[str] | None = None) -> int:
    """The command line; 1 where a program failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["list", "run", "kill", "matrix", "stale", "page", "keep"])
    parser.add_argument("checkouts", nargs="*", type=pathlib.Path)
    parser.add_argument("--only", default="*", metavar="GLOB", help="programs with such a name")
    parser.add_argument("--tests", default="", metavar="REGEX", help="of suites, tests with such a function's name")
    parser.add_argument("--alternatives", default="", metavar="REGEX", help="alternatives with such a name alone")
    parser.add_argument("--arch", help="programs of this architecture alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, metavar="DIR")
    parser.add_argument(
        "--built", type=pathlib.Path, metavar="FOLDER", help="the folder of executables that you have built from the checkout"
    )
    parser.add_argument("--again", action="store_true", help="what was run, too")
    parser.add_argument("--wanted", type=int, default=1, help="how many programs are to refute an alternative")
    parser.add_argument(
        "--tries", type=int, help="on how many runs an alternative is tried that none of them refutes (1 of arithmetic, 5 of others)"
    )
    parser.add_argument("--stale", action="store_true", help="of kill: what `stale` prints of these programs")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no other program after this time")
    given = parser.parse_args(argv)
    chosen = [p for p in corpus() if fnmatch.fnmatch(p.name, given.only) and given.arch in (None, p.arch)]
    if given.what == "list":
        return _list(chosen, given.checkouts)
    if given.what == "page":
        print(page(given.out))
        return 0
    if given.what == "keep":
        print(keep(given.out))
        return 0
    if given.what == "matrix":
        print(put(given.out))
        return 0
    if given.what == "stale":
        old = _stale()
        print("\n".join(old) or "all that others' programs say in the matrix was found with the sources as they are")
        return int(bool(old))
    missing = [str(folder) for folder in given.checkouts if not folder.is_dir()]
    if missing or not given.checkouts:
        parser.error(
            f"{', '.join(missing) or 'CHECKOUT'}: needs folders with checkouts of {', '.join(sorted({p.project.name for p in corpus()}))}"
        )
    there = [(p, where) for p in chosen if (where := checkout_of(p.project, given.checkouts)) is not None]
    if not there:
        print("none of these folders is a checkout of a project of the corpus, or no program has such a name", file=sys.stderr)
        print(f"what a checkout must have is listed by: python -m tools.evidence list --only '{given.only}'", file=sys.stderr)
        return 2
    end = time.monotonic() + given.seconds
    if given.stale:
        return _again(there, given, end)
    runner = Runner(
        given.out.resolve(), given.built, again=given.again, kill=given.what == "kill", wanted=given.wanted, tests=given.tests,
        alternatives=given.alternatives, tries=given.tries,
    )  # fmt: skip
    return runner.run(there, given.jobs, end)


def _stale() -> list[str]:
    return [*stale(kill_matrix()), *stale(calibration(), CALIBRATION)]


def _again(there: list[tuple[Program, pathlib.Path]], given: argparse.Namespace, end: float) -> int:
    """Ask programs again what others than the sources as they are have answered; 1 where one failed."""
    old, failed = _stale(), 0
    for program, where in there:
        if (asked := asked_again(old, program.name)) is not None:
            runner = Runner(
                given.out.resolve(), given.built, again=True, kill=True, wanted=EVERY, tries=EVERY, tests=asked[0], alternatives=asked[1]
            )
            failed |= runner.run([(program, where)], 1, end)
    return failed


def _list(chosen: list[Program], checkouts: list[pathlib.Path]) -> int:
    """Print programs, those of the checkouts where there are some, and the commit of their projects."""
    folders = [folder for folder in checkouts if folder.is_dir()]
    some = [p for p in chosen if not checkouts or checkout_of(p.project, folders)]
    for p in some:
        print(f"{p.name}  {p.arch}  {p.project.name}{'  (--built)' * p.needs_executable}")
    for project in dict.fromkeys(p.project for p in some):
        print(
            f"{project.name} at {project.commit}"
            + f", with {project.versions}" * bool(project.versions)
            + f"; a checkout has {project.mark}"
        )
    if not some:
        print("no program of the corpus", file=sys.stderr)
    return 0 if some else 2


if __name__ == "__main__":
    sys.exit(main())
