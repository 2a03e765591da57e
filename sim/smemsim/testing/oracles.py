"""Oracles as properties. Hypothesis draws cases. Each is compared. A disagreement is reduced.

    from hypothesis import given, settings
    from smemsim.testing.oracles import assert_agrees, oracle_cases

    @settings(deadline=None)  # the first case of a kind waits for imports and for numba
    @given(oracle_cases("triton-layouts"))
    def test_triton_has_the_tile_there_too(case):
        assert_agrees("triton-layouts", case, out="disagreements")

The oracles are those of `smemsim campaign`: numpy, triton-layouts, cute-layouts, cute-descriptors, mmasim. A test is
skipped if its oracle is not installed.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import random
import re
import unittest
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.campaign.oracles import ORACLES, oracle
from smemsim.campaign.oracles.differential import Oracle
from smemsim.campaign.report import file_trouble, folder_for
from smemsim.campaign.space import Trouble

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["ORACLES", "assert_agrees", "oracle_cases"]


AT_ONCE = 8  # bits


def oracle_cases(name: str) -> SearchStrategy[dict[str, Any]]:
    """Cases of an oracle, as `smemsim campaign` draws them, that Hypothesis shrinks; a case is a dict of JSON.

    Drawing needs no package of other people. InputError for an oracle that there is not.

    >>> from hypothesis import find, settings
    >>> case = find(oracle_cases("numpy"), lambda case: case["of"] == "product", settings=settings(derandomize=True))
    >>> case["m"], case["n"]
    (1, 1)
    """
    from hypothesis import strategies as st

    cases = oracle(name).draw

    @st.composite
    def drawn(draw: Callable[[SearchStrategy[int]], int]) -> dict[str, Any]:
        return cases(_Drawn(lambda bits: draw(st.integers(0, (1 << bits) - 1))))

    return drawn()


class _Drawn(random.Random):
    """Random numbers out of integers that Hypothesis draws, `AT_ONCE` bits at most: longer integers it would mostly
    draw near 0, words without their upper fields.
    """

    def __init__(self, bits: Callable[[int], int]) -> None:
        super().__init__(0)
        self._bits = bits

    def getrandbits(self, k: int) -> int:
        """Shrinks to 0, as all that is made of it: the first of a list, the lower end of a range."""
        value = 0
        for left in range(k, 0, -AT_ONCE):  # upper bits first: what Hypothesis draws first, it makes small first
            bits = min(AT_ONCE, left)
            value = value << bits | self._bits(bits)
        return value

    def random(self) -> float:
        """Shrinks to 0.0."""
        return math.ldexp(self._bits(AT_ONCE), -AT_ONCE)


def assert_agrees(name: str, case: Mapping[str, Any], *, out: str | os.PathLike[str] | None = None) -> str:
    """Compare one case of an oracle with the model. Returns its class (for `hypothesis.event`), or raises
    AssertionError with the difference and the case.

    With `out`, a folder, a disagreement is reduced within its class and written as ORACLE-CLASS.json, like `smemsim
    campaign --out`. A smaller one that is already there and still differs stays. Raises InputError for an unknown
    oracle or a malformed case, and `unittest.SkipTest` (a skip of pytest, too) if the package is not installed.

    >>> assert_agrees("numpy", {"of": "product", "row": 0, "seed": 1, "m": 2, "n": 2})
    'wgmma f16 x f16 to f32'
    """
    judge = oracle(name)
    if not isinstance(case, Mapping) or not case:
        raise InputError(f"case = {shown(case)}: needs a case of {name}, as oracle_cases({name!r}) draws them")
    if judge.lacks:
        raise unittest.SkipTest(f"the oracle {name} {judge.lacks}")
    kind, what = judge.judged(dict(case))
    if not what:
        return kind
    filed = f"\nfiled: {_filed(judge, kind, dict(case), folder_for(out))}" if out is not None else ""
    raise AssertionError(f"{name}, {kind}: {what}\ncase: {json.dumps(dict(case), default=str)}{filed}")


def _filed(judge: Oracle, kind: str, case: dict[str, Any], folder: pathlib.Path) -> pathlib.Path:
    """The file of this class of disagreement, with the smallest case that is known."""
    name = f"{judge.name}-{re.sub(r'[^A-Za-z0-9.+]+', '-', kind).strip('-')}"
    path = folder / f"{name}.json"
    old = _case_in(path)
    if old is not None and _size(old) <= _size(case):
        said = judge.judged(old)
        if said[1] and said[0] == kind:
            return path
    trouble: Trouble = judge.trouble(case)
    return file_trouble(folder, name, trouble)


def _case_in(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        case = json.loads(path.read_text(encoding="utf-8"))["case"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return case if isinstance(case, dict) else None


def _size(case: Mapping[str, Any]) -> tuple[int, str]:
    text = json.dumps(case, default=str)
    return len(text), text
