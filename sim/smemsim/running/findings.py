"""The findings of a run: those of the watch and of `check` on what was executed, each with its line, the most upstream one first."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterable

from smemsim.checking.report import CheckFinding
from smemsim.gpu.events import Load
from smemsim.gpu.launch import InstructionFinding
from smemsim.ptx.module import Instruction, Location
from smemsim.running.operand_reads import Product
from smemsim.running.scenario_of import Written
from smemsim.spec.findings import Finding, Severity

__all__ = ["RunFinding", "findings_of", "shortened"]

# What is more likely the cause of the others: the map, what arrives, the descriptors, the order of accesses, and what follows from them.
UPSTREAM = ("X016", "T2", "D301", "D302", "D303", "D304", "D306", "D308", "D309", "I6", "D3", "L4", "R501", "R502", "R503", "R504", "R505", "A1",
            "X009", "X010", "X014", "X003", "X007", "X012", "X008", "X004", "X005", "X017", "X020", "R5", "X013", "X001", "X002", "X015", "X011", "X006")  # fmt: skip
MOST_ITEMS = 8  # registers of a list that are shown
_NUMBER = re.compile(r"0x[0-9a-f]+|%?\w*\d[\d.]*")
_LIST = re.compile(r"\{([^{}]*)\}")
MOST_SOURCE = 1 << 22  # bytes of a source file
CONSEQUENCES = ("R507", "R508", "X004", "X005", "X006", "X011")  # of a finding further upstream, in the same run


@dataclasses.dataclass(frozen=True)
class RunFinding(Finding):
    """A finding at a line of the PTX: `line`, and `location` in the source where the PTX has .loc; `instruction` is the text there.

    `check` is the finding of `smemsim.check` that it rests on, with its numbers and the repair as a change of the scenario.
    """

    line: int = 0
    location: Location | None = None
    instruction: str = ""
    check: CheckFinding | None = None

    def __str__(self) -> str:
        repair = f"; repair: {self.repair}" if self.repair else ""
        because = f" [{self.because}]" if self.because else ""
        return f"{self.code}  {self.where}: {self.message}{repair}{because}"

    @property
    def gist(self) -> tuple[object, ...]:
        """What findings have in common that say the same of one line of the source: all but numbers and registers. Without .loc, of one line of PTX."""
        place: object = self.location.path if self.location is not None else self.line
        return self.code, self.severity, place, _NUMBER.sub("", self.message), _NUMBER.sub("", self.repair)

    def excerpt(self) -> list[str]:
        """The line of the PTX, and that of the source which it comes from where that file can be read."""
        if not self.line:
            return []
        lines = [f"{self.line} | {shortened(self.instruction)}"]
        for place in self.location.chain if self.location is not None else ():
            if source := _line_of(place):
                lines.append(f"{place} | {source}")
        return lines


def shortened(line: str) -> str:
    """A line of PTX, its lists of registers without those in the middle of long ones."""
    return _LIST.sub(_shortened, line)


def _shortened(found: re.Match[str]) -> str:
    items = found[1].split(",")
    return found[0] if len(items) <= MOST_ITEMS else f"{{{items[0].strip()}, ... {items[-1].strip()}}}"


def _line_of(location: Location) -> str:
    """A line of a source file, "" where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        path = pathlib.Path(location.file)
        if path.stat().st_size < MOST_SOURCE:
            lines = path.read_text(encoding="utf-8").splitlines()
            return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""
    return ""


def findings_of(
    causes: Iterable[InstructionFinding],
    executed: Iterable[InstructionFinding],
    written: Written | None,
    checked: tuple[CheckFinding, ...],
    name: str,
) -> list[RunFinding]:
    """All findings of a run in their order, `causes` first; what follows from an earlier one says so."""
    upstream = [_of_watch(f, name) for f in causes]
    found = [_of_watch(f, name) for f in executed]
    found += [_of_check(f, written, name) for f in checked if written is not None]
    found.sort(key=lambda f: (f.severity in (Severity.NOTE, Severity.LUCK), _rank(f)))
    found = upstream + found
    if not found:
        return found
    first = found[0]
    return [first, *(_consequence(f, first) for f in found[1:])]


def _rank(f: RunFinding) -> int:
    """A place in UPSTREAM. An R508 that a change of the descriptors mends is a wrong start: like R502, more likely a cause than a consequence."""
    code = "R502" if f.code == "R508" and f.check is not None and f.check.fix is not None else f.code
    return next((n for n, prefix in enumerate(UPSTREAM) if code.startswith(prefix)), len(UPSTREAM))


def _consequence(f: RunFinding, first: RunFinding) -> RunFinding:
    if f.code not in CONSEQUENCES or f.code == first.code:
        return f
    return dataclasses.replace(f, because=f"may be a consequence of {first.code} at line {first.line}")


def _where(i: Instruction, name: str) -> str:
    return f"{name}:{i.line}" + (f" ({i.location.path})" if i.location else "")


def _of_watch(f: InstructionFinding, name: str) -> RunFinding:
    i = f.instruction
    return RunFinding(
        f.code, f.severity, _where(i, name), f.message, f.repair, f.because, line=i.line, location=i.location, instruction=i.text
    )


def _of_check(f: CheckFinding, written: Written | None, name: str) -> RunFinding:
    i = _instruction(f.where, written)
    if i is None:
        return RunFinding(f.code, f.severity, name, str(f.message), f.repair, f.because, check=f)
    return RunFinding(
        f.code,
        f.severity,
        _where(i, name),
        f"{_operand(f.where, written)}{f.message}",
        f.repair,
        f.because,
        line=i.line,
        location=i.location,
        instruction=i.text,
        check=f,
    )


def _operand(where: str, written: Written | None) -> str:
    """What a path into the scenario names of a matrix instruction: the operand, and the descriptor that the first instruction used."""
    step, side = re.match(r"step\[(\d+)\]", where), re.search(r"\.([ab])\b", where)
    if written is None or step is None or side is None or isinstance(item := written.steps[int(step[1])], Load):
        return ""
    word = getattr(item.events[0], side[1])
    return f"{side[1].upper()}, " + (f"descriptor {word:#018x}: " if word is not None else "")


def _instruction(where: str, written: Written | None) -> Instruction | None:
    """The instruction that a path into the scenario stands for."""
    if written is None:
        return None
    if (step := re.match(r"step\[(\d+)\]", where)) is not None:
        item: Load | Product = written.steps[int(step[1])]
        return item.instruction if isinstance(item, Load) else item.events[0].instruction
    if (named := re.match(r"map\.(\w+)", where)) is not None and named[1] in written.maps:
        return written.maps[named[1]].instruction
    return None
