"""Compile every witness again: write the suites of those that may be kept, compare all of them with smemsim.

    python tools/witnesses/regenerate.py              compile with Triton and CuTe DSL, write golden/compiled, print the verdicts
    python tools/witnesses/regenerate.py --check      the same, but compare with what stands in golden/compiled instead of writing

    python tools/witnesses/regenerate.py --check --only NAME ...

Either compiler may be missing; that is told and passed over. Exit code 1 for a difference, 2 when nothing could be
compiled.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
from typing import Any

import numpy as np

from smemsim.base.errors import TraceError
from smemsim.evidence.format import Suite, load_suite
from smemsim.evidence.replay import replay_suite
from tools.witnesses import suites

HERE = pathlib.Path(__file__).resolve().parent


__all__ = ["changes", "cute_suite", "main", "triton_suites"]

GOLDEN = HERE.parents[1] / "golden" / "compiled"


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def triton_suites(names: list[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Kernels by suite; `names` picks some."""
    from tools.witnesses import triton_kernels

    out: dict[str, list[dict[str, Any]]] = {}
    for c in triton_kernels.CONFIGURATIONS:
        if names is None or c.name in names:
            out.setdefault(c.suite, []).append(triton_kernels.compile_kernel(c))
    return out


def triton_exceptions() -> bool:
    """Is what Triton refused still refused, and is what it got wrong still told apart?"""
    from tools.witnesses import triton_kernels

    fine = True
    for why, c in triton_kernels.REFUSED:
        try:
            triton_kernels.compile_kernel(c)
        except Exception as e:  # the compiler's own, of several kinds
            print(f"  {c.name}: refused as ever ({why}; {type(e).__name__})")
        else:
            fine = False
            print(f"  {c.name}: compiles now; it was refused ({why})")
    for why, c in triton_kernels.DISAGREES:
        report = replay_suite(suites.suite_of("odd", triton_kernels.device(), [triton_kernels.compile_kernel(c)]))
        fine &= not report.same
        print(
            f"  {c.name}: {'agrees now; it did not' if report.same else f'differs as ever, {report.differences[0].outcome.first}'} ({why})"
        )
    return fine


def cute_suite(names: list[str] | None = None) -> Suite:
    """What CuTe DSL makes of its configurations, in memory only; those that it does not compile are told."""
    from tools.witnesses import cute_kernels

    kernels = []
    for name, c in cute_kernels.CONFIGURATIONS.items():
        if names is not None and name not in names:
            continue
        said = cute_kernels.compiled(c)
        if isinstance(said, str):
            print(f"  {name}: not compiled, {said}")
        else:
            kernels.append(cute_kernels.record(c, said))
    return suites.suite_of("cute_dsl", cute_kernels.device(), kernels)


def changes(committed: Suite, compiled: Suite) -> list[str]:
    """In what kernels that were just compiled differ from those of the same names in a committed suite, in words."""
    names = committed.arrays["name"].tolist()
    out = []
    for index, name in enumerate(compiled.arrays["name"].tolist()):
        if name not in names:
            out.append(f"{name}: not in the committed suite")
            continue
        for array in compiled.arrays:
            if array.endswith("_start"):
                continue
            old, new = (_entry(suite, array, at) for suite, at in ((committed, names.index(name)), (compiled, index)))
            if not np.array_equal(old, new):
                out.append(f"{name}: {array} is {old.tolist()} committed, {new.tolist()} compiled"[:300])
    return out


def _entry(suite: Suite, array: str, index: int) -> np.ndarray:
    return suite.ragged(array, index) if f"{array}_start" in suite.arrays else suite.arrays[array][index]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN, help="folder of the suites (default: golden/compiled)")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with what is there")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="with --check: these kernels alone")
    arguments = parser.parse_args()
    if arguments.only and not arguments.check:
        parser.error("--only needs --check: a suite is written whole")
    compiled, fine = 0, True
    if installed("triton"):
        from tools.witnesses import triton_kernels

        for name, kernels in triton_suites(arguments.only).items():
            compiled += len(kernels)
            suite = suites.suite_of(name, triton_kernels.device(), kernels)
            if arguments.check:
                try:
                    committed = load_suite(arguments.out / name)
                    different = changes(committed, suite)
                    if not arguments.only and len(committed) != len(suite):
                        different.append(f"{len(committed)} kernels committed, {len(suite)} compiled")
                except TraceError as e:
                    different = [str(e)]
                fine &= not different
                print(f"{name}: {different[0] if different else 'as committed'}")
            else:
                suites.write(arguments.out, name, triton_kernels.device(), kernels)
            report = replay_suite(suite)
            fine &= report.same
            print(report.text())
        if not arguments.only:
            fine &= triton_exceptions()
    else:
        print("triton: not installed (pip install -e '.[oracles]')")
    if installed("cutlass"):
        suite = cute_suite(arguments.only)
        if len(suite):
            compiled += len(suite)
            report = replay_suite(suite)
            fine &= report.same
            print(report.text())
    else:
        print("CuTe DSL: not installed (pip install -e '.[oracles]')")
    print(f"{compiled} kernels compiled: {'all as they should be' if fine else 'see above'}")
    return 2 if not compiled else 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
