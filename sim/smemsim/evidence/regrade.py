"""The change to `core/spec/evidence.py` that a settlement asks for, as a patch that a maintainer reviews."""

from __future__ import annotations

import ast
import difflib
import pathlib

from smemsim.core.spec import evidence
from smemsim.core.spec.grades import Grade
from smemsim.evidence.settle import Settlement

__all__ = ["patch", "regraded"]

ARCHS = ("sm_90a", "sm_100a", "sm_103a")  # the arguments of `_grades`; a third that is missing is as the second
WITHIN = "sim/smemsim/core/spec/evidence.py"


def patch(settlement: Settlement) -> str:
    """A unified diff of the grades that change; empty where none does."""
    before = pathlib.Path(evidence.__file__).read_text(encoding="utf-8")
    after = regraded(before, settlement)
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{WITHIN}", f"b/{WITHIN}"))


def regraded(text: str, settlement: Settlement) -> str:
    """The text of the table of rules with the grades that a settlement changes.

    Raises ValueError for an architecture that the table has no column for.
    """
    column = ARCHS.index(settlement.arch)
    changes = []
    for rule in settlement.rules:
        grade = settlement.grade(rule)
        if grade is not None:
            changes.append((*_grades_of(text, rule), _with(text, rule, column, grade)))
    lines = text.splitlines(True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    for (first, begin), (last, end), new in sorted(changes, reverse=True):
        raw = raw[: starts[first - 1] + begin] + new.encode() + raw[starts[last - 1] + end :]
    return raw.decode()


def _call(text: str, rule: str) -> ast.Call:
    """`_grades(...)` of a rule in the text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and name.value == rule and isinstance(node.args[1], ast.Call):
                return node.args[1]
    raise ValueError(f"the table has no rule {rule}")


def _grades_of(text: str, rule: str) -> tuple[tuple[int, int], tuple[int, int]]:
    call = _call(text, rule)
    return (call.lineno, call.col_offset), (call.end_lineno or call.lineno, call.end_col_offset or 0)


def _with(text: str, rule: str, column: int, grade: Grade) -> str:
    values = [ast.literal_eval(argument) for argument in _call(text, rule).args]
    if column == 1 and len(values) == 2:
        values.append(values[1])  # the other card keeps what it had
    if column == 2 and len(values) == 2:
        values.append("")
    values[column] = str(grade)
    return f"_grades({', '.join('None' if v is None else repr(v).replace(chr(39), chr(34)) for v in values)})"
