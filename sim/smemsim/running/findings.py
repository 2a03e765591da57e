"""The findings of a run: those of the watch and of `check` on what was executed, each with its line, the most upstream one first."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterable, Iterator

from smemsim.checking.report import CheckFinding
from smemsim.descriptors.operand import operand_addresses
from smemsim.errors import SmemsimError
from smemsim.gpu.events import Load, Mma
from smemsim.gpu.launch import InstructionFinding, Touched
from smemsim.ptx.module import Instruction, Location
from smemsim.running.operand_reads import Issued, Product, Reads
from smemsim.running.scenario_of import Written
from smemsim.spec.barriers import MBARRIER_SIZE
from smemsim.spec.findings import CONSEQUENCES, UPSTREAM, Finding, Severity

__all__ = ["RunFinding", "findings_of", "shortened"]

MOST_ITEMS = 8  # registers of a list that are shown
_NUMBER = re.compile(r"0x[0-9a-f]+|%?\w*\d[\d.]*")
_LIST = re.compile(r"\{([^{}]*)\}")
MOST_SOURCE = 1 << 22  # bytes of a source file


@dataclasses.dataclass(frozen=True)
class RunFinding(Finding):
    """A finding at a line of the PTX: `line`, and `location` in the source where the PTX has .loc; `instruction` is the text there.

    `check` is the finding of `smemsim.check` that it rests on, with its numbers and the repair as a change of the scenario; `touched` are the bytes of
    shared memory that it is about.
    """

    line: int = 0
    location: Location | None = None
    instruction: str = ""
    check: CheckFinding | None = None
    touched: tuple[Touched, ...] = ()

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
    reads: Reads | None = None,
) -> list[RunFinding]:
    """All findings of a run in their order, `causes` first; what follows from an earlier one says so."""
    upstream = [_of_watch(f, name, reads) for f in causes]
    found = [_of_watch(f, name, reads) for f in executed]
    found += [_of_check(f, written, name, reads) for f in checked if written is not None]
    found.sort(key=lambda f: (f.severity in (Severity.NOTE, Severity.LUCK), _rank(f)))
    found = upstream + found
    return [_consequence(f, found[:n]) for n, f in enumerate(found)]


def _rank(f: RunFinding) -> int:
    """Its place among causes. An R508 that a change of the descriptors mends is a wrong start: like R502, more likely a cause than a consequence."""
    return UPSTREAM["R502" if f.code == "R508" and f.check is not None and f.check.fix is not None else f.code]


def _consequence(f: RunFinding, before: list[RunFinding]) -> RunFinding:
    """A finding with the first cause that is about the same instruction or the same bytes, an mbarrier's among them."""
    if f.code not in CONSEQUENCES:
        return f
    for cause in before:
        is_cause = cause.code != f.code and cause.severity in (Severity.TRAP, Severity.WRONG)
        if is_cause and (cause.line == f.line or any(one.meets(two) for one in f.touched for two in cause.touched)):
            return dataclasses.replace(f, because=f"may be a consequence of {cause.code} at line {cause.line}")
    return f


def _touched(i: Instruction, reads: Reads | None) -> tuple[Touched, ...]:
    """The bytes of shared memory that the loads and matrix instructions of a line touch, with the mbarriers on which these loads complete."""
    if reads is None:
        return ()
    loads = (load for load in reads.loads if load.event.instruction.line == i.line)
    products = (p for p in reads.products if any(event.instruction.line == i.line for event in p.events))
    return (*_of_loads(loads), *(one for p in products for side in ("a", "b") for one in _of_operand(p, side, reads.arch, i.line)))


def _of_loads(loads: Iterable[Issued]) -> Iterator[Touched]:
    for load in loads:
        yield Touched(load.cta, load.transfer.smem_address, load.transfer.shared_end)
        for delivery in load.event.deliveries:
            if delivery.smem_address == load.transfer.smem_address and delivery.mbar.cta_rank == delivery.cta_rank:
                at = delivery.mbar.smem_address
                yield Touched(load.cta, at, at + MBARRIER_SIZE)


def _of_operand(p: Product, side: str, arch: str, line: int) -> Iterator[Touched]:
    """The bytes of an operand of a product's instructions at one line."""
    for event in p.events:
        word, dtype, major = (getattr(event, name) for name in (side, f"{side}_type", f"{side}_major"))
        if word is None or line != event.instruction.line:
            continue
        rows = (event.m if side == "a" else event.n) // event.cta_group
        k = event.k // 2 if event.is_sparse and side == "a" else event.k
        with contextlib.suppress(SmemsimError):
            addresses = operand_addresses(word, arch=arch, dtype=dtype, major=major, rows=rows, k=k)
            yield Touched(p.cta, int(addresses.min()), int(addresses.max()) + 1)


def _where(i: Instruction, name: str) -> str:
    return f"{name}:{i.line}" + (f" ({i.location.path})" if i.location else "")


def _of_watch(f: InstructionFinding, name: str, reads: Reads | None) -> RunFinding:
    i = f.instruction
    return RunFinding(
        f.code, f.severity, _where(i, name), f.message, f.repair, f.because, line=i.line, location=i.location, instruction=i.text,
        touched=f.touched or _touched(i, reads),
    )  # fmt: skip


def _of_check(f: CheckFinding, written: Written | None, name: str, reads: Reads | None) -> RunFinding:
    i = _instruction(f, written)
    if i is None:
        return RunFinding(f.code, f.severity, name, str(f.message), f.repair, f.because, check=f)
    return RunFinding(
        f.code,
        f.severity,
        _where(i, name),
        f"{_operand(f, written)}{f.message}",
        f.repair,
        f.because,
        line=i.line,
        location=i.location,
        instruction=i.text,
        check=f,
        touched=_touched(i, reads),
    )


def _event(f: CheckFinding, p: Product) -> Mma:
    """The instruction of a product that a finding is about: that of the first wrong element."""
    return p.events[min(f.first["step"] if f.first else 0, len(p.events) - 1)]


def _operand(f: CheckFinding, written: Written | None) -> str:
    """What the path into the scenario names of a matrix instruction: the operand, and the descriptor that the instruction used."""
    step, side = re.match(r"step\[(\d+)\]", f.where), re.search(r"\.([ab])\b", f.where)
    if written is None or step is None or side is None or isinstance(item := written.steps[int(step[1])], Load):
        return ""
    word = getattr(_event(f, item), side[1])
    return f"{side[1].upper()}, " + (f"descriptor {word:#018x}: " if word is not None else "")


def _instruction(f: CheckFinding, written: Written | None) -> Instruction | None:
    """The instruction that the path into the scenario stands for."""
    if written is None:
        return None
    if (step := re.match(r"step\[(\d+)\]", f.where)) is not None:
        item: Load | Product = written.steps[int(step[1])]
        return item.instruction if isinstance(item, Load) else _event(f, item).instruction
    if (named := re.match(r"map\.(\w+)", f.where)) is not None and named[1] in written.maps:
        return written.maps[named[1]].instruction
    return None
