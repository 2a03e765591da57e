"""Writes the list of compiled loops that a wheel has: those that tests call, with the types that they call them with.

    python -m tools.loops tests/run/test_gpu_arithmetic.py tests/run/test_tiers.py     # adds what these call

The list only saves time: what it lacks is compiled when it is first called.
"""

from __future__ import annotations

import importlib
import sys

import pytest


def lines() -> set[str]:
    """What this process has called, as lines of the list. Imported behind the tests, whose
    assertions pytest rewrites.
    """
    from smemsim.base.compiling import loop

    found = set()
    for one in loop.LOOPS:
        module = importlib.import_module(one.__module__)
        if one.described and one.__module__.startswith("smemsim.") and getattr(module, one.__name__, None) is one:
            found |= {f"loop {one.__module__}:{one.__name__} {types}" for types in one.described}
    for scalar, signatures in loop.UFUNCS:
        found |= {f"ufunc {scalar.__module__}:{scalar.__name__} {signature}" for signature in signatures}
    return found


def main() -> int:
    code = pytest.main(["-q", "-n", "0", *sys.argv[1:]])
    from smemsim.base.compiling.ship import KNOWN

    before = set(KNOWN.read_text(encoding="utf-8").splitlines()) if KNOWN.exists() else set()
    KNOWN.write_text("\n".join(sorted(before | lines())) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
