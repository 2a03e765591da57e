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
from smemsim.files import source_line
from smemsim.gpu.events import Load, Mma
from smemsim.gpu.launch import InstructionFinding, Touched
from smemsim.ptx.demangle import readable
from smemsim.ptx.module import Instruction, Location
from smemsim.running.operand_reads import Issued, Product, Reads
from smemsim.running.scenario_of import Written
from smemsim.spec.barriers import MBARRIER_SIZE
from smemsim.spec.findings import CONSEQUENCES, UPSTREAM, Finding, Severity

__all__ = ["RunFinding", "Sources", "findings_of", "shortened", "told"]

MOST_ITEMS = 8  # registers of a list that are shown
MOST_LINES = 12  # of findings that are alike
_NUMBER = re.compile(r"0x[0-9a-f]+|%?\w*\d[\d.]*")
_LIST = re.compile(r"\{([^{}]*)\}")
_PARENTHESES = re.compile(r"\([^()]*\)")
_BETWEEN = re.compile(r"(?:[\s,]|\bto\b)+")  # of numbers in a list
_NAME = re.compile(r"\w+(?:(?:\.|::)\w+){3,}")  # of an instruction
_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/triton/language/|/include/(cute|cutlass|cuda|thrust|cub|cccl|crt)/|/usr/(local/)?(include|lib)|/targets/[^/]+/include/"
)
LONGEST_LINE = 160  # characters of a line of PTX or source
LONGEST_NAME = 56  # characters of an instruction's name in a sentence
WRAPPER_LINES = 3  # lines of a function that does no more than wrap an instruction
APART = ("X006", "X011")  # what is told of each place where threads wait, though the sentences are alike


class Sources:
    """Which line of the source a kernel author knows an instruction by: that of the call where a function only wraps an instruction, or is a library's.

    The functions that compilers inlined are those of `.loc … inlined_at`; one of at most three lines that hold instructions, at some call, counts
    as a wrapper there.
    """

    def __init__(self, body: Iterable[Instruction]) -> None:
        self._lines: dict[Location, set[tuple[str, int]]] = {}  # by the place of a call: the lines of the function that was inlined there
        for location in {id(i.location): i.location for i in body if i.location is not None}.values():
            for inner in location.chain:
                if inner.caller is not None:
                    self._lines.setdefault(inner.caller, set()).add((inner.file, inner.line))

    def place(self, location: Location) -> Location:
        """The place of an instruction with this location, with its own callers."""
        own = [place for place in location.chain if not _LIBRARY.search(place.file)]
        for place in own or [location]:
            if place.caller is None or _LIBRARY.search(place.caller.file) or len(self._lines.get(place.caller, ())) > WRAPPER_LINES:
                return place
        return (own or [location])[-1]


@dataclasses.dataclass(frozen=True)
class RunFinding(Finding):
    """A finding at a line of the PTX: `line`, and `location` in the source where the PTX has .loc; `instruction` is the text there.

    `location` is the line that the instruction comes from, with the calls that were inlined around it; `place` that of them that a kernel author knows
    it by, which is another one where a function only wraps the instruction. What is said of several instructions is one finding with a `count`:
    `lines` are all of their lines, `places` those in the source. `check` is the finding of `smemsim.check` that it rests on, with its numbers and
    the repair as a change of the scenario; `touched` are the bytes of shared memory that it is about.
    """

    line: int = 0
    location: Location | None = None
    instruction: str = ""
    check: CheckFinding | None = None
    touched: tuple[Touched, ...] = ()
    folders: tuple[pathlib.Path, ...] = dataclasses.field(default=(), compare=False, repr=False)  # whose sources may be shown
    place: Location | None = None
    lines: tuple[int, ...] = ()
    places: tuple[Location, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        repair = f"; repair: {told(self.repair)}" if self.repair else ""
        because = f" [{self.because}]" if self.because else ""
        return f"{self.code}  {self.where}: {told(self.message)}{repair}{because}"

    @property
    def gist(self) -> tuple[object, ...]:
        """What findings have in common that say the same of one line of the source: all but numbers and registers.

        Without .loc, of one shape of instruction. Threads that wait are told for every place where they do.
        """
        apart = self.code in APART
        place: object = _shape(self.instruction) if not apart and self.line else self.line
        if self.place is not None:
            place = self.place.path if apart else str(self.place)
        return self.code, self.severity, place, _shape(self.message), _shape(self.repair)

    def excerpt(self) -> list[str]:
        """The line of the PTX, and those of the source which it comes from where their files can be read, that of `place` first."""
        if not self.line:
            return []
        lines = [f"{self.line} | {shortened(self.instruction)}"]
        chain = self.location.chain if self.location is not None else ()
        first = self.place if self.place is not None else self.location
        for place in sorted(chain, key=lambda place: place is not first):
            if source := source_line(place.file, place.line, self.folders):
                lines.append(f"{place} | {_cut(source)}")
        return lines

    def others(self) -> str:
        """The other instructions of which the same is said, in words; "" where there are none."""
        if self.count == 1:
            return ""
        lines = [str(n) for n in self.lines if n != self.line]
        places = list(dict.fromkeys(str(place) for place in self.places if str(place) != str(self.place)))
        at = f" (line {', '.join(lines[:MOST_LINES])}{' ...' * (len(lines) > MOST_LINES)})" if lines else ""
        of = f", also of {', '.join(places[:MOST_LINES])}" if places else ""
        return f"and {self.count - 1} more like it{at}{of}"


def _shape(text: str) -> str:
    """A sentence without what differs between those that say the same: numbers, registers, and how many there are in a list."""
    return _BETWEEN.sub(" ", _NUMBER.sub("", _PARENTHESES.sub("", text)))


def told(text: str) -> str:
    """A sentence for a reader: C++ symbols as names, long names of instructions without their middle.

    >>> told("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes of line 7")
    'cp.async.bulk.tensor.2d…mbarrier::complete_tx::bytes of line 7'
    """
    return readable(_NAME.sub(_short_name, text))


def _short_name(found: re.Match[str]) -> str:
    name = found[0]
    if len(name) <= LONGEST_NAME:
        return name
    words = name.split(".")
    head = words[0]
    for word in words[1:-1]:
        if len(head) + len(word) >= LONGEST_NAME // 2:
            break
        head += f".{word}"
    return f"{head}…{words[-1]}"


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1].rstrip()}…"


def shortened(line: str) -> str:
    """A line of PTX, its lists of registers without those in the middle of long ones, and cut where it is still too long."""
    return _cut(_LIST.sub(_shortened, line))


def _shortened(found: re.Match[str]) -> str:
    items = found[1].split(",")
    return found[0] if len(items) <= MOST_ITEMS else f"{{{items[0].strip()}, ... {items[-1].strip()}}}"


def findings_of(
    causes: Iterable[InstructionFinding],
    executed: Iterable[InstructionFinding],
    written: Written | None,
    checked: tuple[CheckFinding, ...],
    name: str,
    reads: Reads | None = None,
    body: Iterable[Instruction] = (),
) -> list[RunFinding]:
    """All findings of a run in their order, `causes` first; what follows from an earlier one says so. What is said twice is one, with a count.

    `body` are the instructions of the program.
    """
    upstream = [_of_watch(f, name, reads) for f in causes]
    found = [_of_watch(f, name, reads) for f in executed]
    found += [_of_check(f, written, name, reads) for f in checked if written is not None]
    found.sort(key=lambda f: (f.severity in (Severity.NOTE, Severity.LUCK), _rank(f)))
    found = upstream + found
    sources = Sources(body)
    found = [_placed(f, sources, name) for f in found]
    return _grouped([_consequence(f, found[:n]) for n, f in enumerate(found)])


def _placed(f: RunFinding, sources: Sources, name: str) -> RunFinding:
    """A finding with its place in the source, which stands in front of the line that the instruction comes from."""
    if f.location is None:
        return f
    place = sources.place(f.location)
    inner = "" if place is f.location else f", by {f'line {f.location.line}' if f.location.file == place.file else f.location}"
    return dataclasses.replace(f, place=place, where=f"{name}:{f.line} ({place.path}{inner})")


def _grouped(found: list[RunFinding]) -> list[RunFinding]:
    """Findings that say the same as one, the first of them, with all lines."""
    alike: dict[tuple[object, ...], list[RunFinding]] = {}
    for f in found:
        alike.setdefault(f.gist, []).append(f)
    return [
        dataclasses.replace(
            first, count=len(same), lines=tuple(dict.fromkeys(f.line for f in same if f.line)),
            places=tuple(dict.fromkeys(f.place for f in same if f.place is not None)),
        )
        for first, *others in alike.values() for same in [[first, *others]]
    ]  # fmt: skip


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
