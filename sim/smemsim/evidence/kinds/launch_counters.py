"""What Nsight Compute's source page says of whole kernels, against the counters of their launches, line by line."""

from __future__ import annotations

import collections
import hashlib
import pathlib
import re
from typing import NamedTuple

import numpy as np

from smemsim.base.errors import TraceError
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.counters import Sure
from smemsim.core.spec.evidence import RULES
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.kinds.launch import run_file
from smemsim.evidence.launches import LaunchFile, load_launch_file
from smemsim.evidence.outcome import Case, Outcome, agree
from smemsim.run.counters import Counters, Counting
from smemsim.run.counters.classes import class_of
from smemsim.run.counters.table import Words

__all__ = ["LaunchCounters", "LineVerdict", "verdicts_of"]


_FOLDERS = ("", "launches", "counted_kernels")  # beside a suite: where its kernels may lie
_ACCESS = re.compile(r"(?:@!?U?P\w+ )?(LDSM|STSM|LDS|STS|ATOMS|LDGSTS|LDG|STG|ATOMG|REDG|LD|ST|ATOM)\b((?:\.\w+)*)")
_EMPTY = re.compile(r"@!(?:U?)PT ")
_SPACES = {
    "wavefronts": ("LDS", "STS", "LDSM", "STSM", "ATOMS", "LD", "ST", "ATOM"),
    "sectors": ("LDG", "STG", "ATOMG", "REDG", "LD", "ST", "ATOM"),
}


class LineVerdict(NamedTuple):
    """One column of one PTX line: what ncu and the counters say, and why the two need not be the same ("": they have to
    be).
    """

    line: int
    column: str
    hardware: int
    model: int
    why_not: str


def _kernel(suite: Suite, name: str) -> LaunchFile:
    for folder in _FOLDERS:
        path = suite.path / "kernels" / name if not folder else suite.path.parent / folder / "kernels" / name
        if (path / "launch.json").exists():
            return load_launch_file(path)
    raise TraceError(f"{suite.path}: the launch file of {name} is missing")


def _size(words: str) -> int:
    """The bytes of a lane that a machine instruction's name says."""
    parts = words.split(".")
    return (
        16
        if "128" in parts
        else 8
        if "64" in parts
        else 1
        if "U8" in parts or "S8" in parts
        else 2
        if "U16" in parts or "S16" in parts
        else 4
    )


def _ptx_size(name: str) -> int:
    """The bytes of a lane that a PTX mnemonic says, as `smemsim.evidence.kinds.counters.form_of`."""
    words = name.split(".")
    if words[0] in ("ldmatrix", "stmatrix"):
        return 0
    kind = next((w for w in reversed(words) if re.fullmatch(r"[a-z]+\d+(x2)?", w) and not w.startswith("v")), "b32")
    found = re.fullmatch(r"[a-z]+(\d+)(x2)?", kind)
    size = int(found[1]) // 8 * (2 if found[2] else 1) if found else 4
    return size * next((int(w[1:]) for w in words if re.fullmatch(r"v\d", w)), 1)


class _Line(NamedTuple):
    counts: dict[str, int]
    texts: list[str]
    executed: int


def verdicts_of(suite: Suite, index: int, table: Counters) -> list[LineVerdict]:
    """Every line of a case that accesses shared or global memory on one of the two sides."""
    a = suite.arrays
    begin, end = int(a["line_start"][index]), int(a["line_start"][index + 1])
    machine: dict[int, list[int]] = collections.defaultdict(list)
    for j in range(begin, end):
        if "GMMA" not in str(a["sass"][j]):  # its line is that of a neighbour: held by kernel
            machine[int(a["line"][j])].append(j)
    rows: dict[int, list[int]] = collections.defaultdict(list)
    for n, line in enumerate(table["line"].tolist()):
        rows[line].append(n)
    loops = [
        int(line)
        for line, name in zip(table["line"].tolist(), table["instruction"].tolist(), strict=True)
        if (name.startswith("atom") and ".cas" in name) or "loop" in name
    ]
    after = min([*loops, *_spins(table)], default=1 << 30)
    out = []
    for line in sorted(set(machine) | set(rows)):
        for column in ("wavefronts", "sectors"):
            hardware = sum(int(a[column][j]) for j in machine[line])
            model = sum(int(table[column][n]) for n in rows[line])
            if hardware or model:
                why = (
                    "behind a loop of compare-and-swap, whose lanes part by data"
                    if line >= after
                    else _why_not(suite, table, rows[line], machine[line], column)
                )
                out.append(LineVerdict(line, column, hardware, model, why))
    return out


def _spins(table: Counters) -> list[int]:
    """Lines of atomics that ptxas makes loops of."""
    return [
        int(line)
        for line, sure, why in zip(table["line"].tolist(), table["sure"].tolist(), table["why"].tolist(), strict=True)
        if sure == str(Sure.NONE) and "compare-and-swap" in why
    ]


def _why_not(suite: Suite, table: Counters, rows: list[int], machine: list[int], column: str) -> str:
    """Why a line is not comparable; "" if it is."""
    a = suite.arrays
    doubted = next((n for n in rows if table["sure"][n] != str(Sure.EXACT)), None)
    if doubted is not None:
        return f"{table['sure'][doubted]}: {table['why'][doubted]}"
    found = [
        m for j in machine if not _EMPTY.match(str(a["sass"][j])) and (m := _ACCESS.match(str(a["sass"][j]))) and m[1] in _SPACES[column]
    ]
    accessing = [n for n in rows if table["shared_requests" if column == "wavefronts" else "global_requests"][n]]
    if not accessing:
        return "no access in PTX: ptxas has made one"
    if not found:
        return "ptxas has removed or merged it, or made a uniform access of it"
    if any(
        m[1] in ("LDS", "STS", "LDG", "STG", "LD", "ST") and _size(m[2]) != _ptx_size(str(table["instruction"][n]))
        for m in found
        for n in accessing
    ):
        return "ptxas has widened or split it"
    if len(found) > len(accessing):
        return "ptxas has made copies of it: an unrolled loop, or both sides of a branch"
    if sum(int(a["executed"][j]) for j in machine if _ACCESS.match(str(a["sass"][j])) and not _EMPTY.match(str(a["sass"][j]))) != sum(
        int(table["executed"][n]) for n in accessing
    ):
        return "ptxas executes it another number of times: hoisted, merged, unrolled, or predicated where PTX branches"
    return ""


_RAGGED = ("line", "sass", "executed", "wavefronts", "sectors")


class LaunchCounters(Comparer):
    """A kernel's lines: shared wavefronts and global sectors of those that ptxas leaves as they are."""

    columns = {"name": 1, "ptx_sha256": 1, "line_start": 1}  # noqa: RUF012

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        starts = suite.arrays["line_start"]
        for name in _RAGGED:
            if name not in suite.arrays or suite.arrays[name].shape != (int(starts[-1]),) or (np.diff(starts) < 0).any() or starts[0]:
                raise TraceError(f"{suite.path}: array '{name}' has not the {int(starts[-1])} machine instructions of line_start")

    def case(self, index: int) -> Case:
        """Run the kernel and compare its lines."""
        name = str(self.suite.arrays["name"][index])
        table = self.counted(index)
        verdicts = [*(v for v in verdicts_of(self.suite, index, table) if not v.why_not), self._operands(index, table)]
        wrong = [v for v in verdicts if v.hardware != v.model]
        if not wrong:
            return Case(lambda: name, agree(len(verdicts)))
        first = wrong[0]
        said = f"line {first.line}: hardware {first.hardware} | model {first.model}"
        rule = RULES["counters.wavefronts" if first.column == "wavefronts" else "counters.sectors"]
        return Case(lambda: name, Outcome(len(verdicts), len(wrong), said, (), rule, first.column))

    def _operands(self, index: int, table: Counters) -> LineVerdict:
        """The reads of shared memory by matrix instructions, in the whole kernel. ptxas gives these instructions the
        lines of neighbours.
        """
        a = self.suite.arrays
        rows = range(int(a["line_start"][index]), int(a["line_start"][index + 1]))
        hardware = sum(int(a["wavefronts"][j]) for j in rows if "GMMA" in str(a["sass"][j]))
        return LineVerdict(0, "wavefronts", hardware, table.total("operand_wavefronts"), "")

    def counted(self, index: int) -> Counters:
        """The counters of the kernel of a case, run here."""
        name = str(self.suite.arrays["name"][index])
        file = _kernel(self.suite, name)
        if hashlib.sha256(file.ptx.encode()).hexdigest() != str(self.suite.arrays["ptx_sha256"][index]):
            raise TraceError(f"{self.suite.path}: the PTX of {name} is not the one that ran")
        counting = Counting()
        run_file(file, self.suite.arch, observers=(counting,))

        def words(i: Instruction) -> Words:
            return pathlib.PurePath(i.location.file).name if i.location else "", i.line, i.name, class_of(i)

        return Counters.of(counting, words)
