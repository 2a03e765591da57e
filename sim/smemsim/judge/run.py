"""`Run`: what a launch did and what is wrong with it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import html
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from smemsim.arguments import shown
from smemsim.arithmetic.values import to_float64
from smemsim.errors import InputError, SmemsimError
from smemsim.files import read_array, source_line
from smemsim.judge.build import Scenario
from smemsim.judge.epilogue import exchanged_loads, stored_tiles
from smemsim.judge.explained import Wrong, explained, rounding_of
from smemsim.judge.meanings import Written, judged, scenario_of
from smemsim.judge.numbers import NO_ROUNDING, Rounding, Tolerance, numbers_told, rounded
from smemsim.judge.operand_reads import Issued, Product, Reads, mismatches, of_maps, own_ranks, swapped, turned, unreached, unread
from smemsim.judge.report import CheckFinding, Report
from smemsim.picture.model import Above, Entry, Excerpt, Page
from smemsim.picture.page import page_html
from smemsim.program.arrays import DeviceArray, as_numpy
from smemsim.program.events import Load, Mma
from smemsim.program.launch import InstructionFinding, Launch, Touched
from smemsim.ptx.demangle import demangled, readable, shorter_name
from smemsim.ptx.module import Instruction, Location
from smemsim.spec.architectures import architecture
from smemsim.spec.barriers import MBARRIER_SIZE
from smemsim.spec.findings import CODES, CONSEQUENCES, UPSTREAM, Finding, Severity
from smemsim.spec.formats import FORMATS, element_format
from smemsim.words.operand import operand_addresses

__all__ = [
    "Comparison",
    "Judged",
    "Output",
    "Run",
    "RunFinding",
    "Sources",
    "Wanted",
    "findings_of",
    "judged_of",
    "out_names",
    "shortened",
    "told",
]


# ---- The findings of a run: those of the watch and of `check` on what was executed, each with its line, the most upstream one first


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
LONGEST_INSTRUCTION = 56  # characters of an instruction's name in a sentence
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
    if len(name) <= LONGEST_INSTRUCTION:
        return name
    words = name.split(".")
    head = words[0]
    for word in words[1:-1]:
        if len(head) + len(word) >= LONGEST_INSTRUCTION // 2:
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


# ---- What a kernel left in an array: its first values and digest, and where it is not what was expected


FIRST = 6
DIGEST = "sha256:"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """When numbers count as expected: with a `tolerance` within that, with `exact` bit by bit, else within what `rounding` gives."""

    tolerance: Tolerance | None = None
    exact: bool = False
    rounding: Rounding = NO_ROUNDING


@dataclasses.dataclass(frozen=True)
class Error:
    """How far an element is off: its place, and what it is and should be, in words."""

    size: float
    at: tuple[int, ...]
    found: str
    wanted: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An output beside what was expected: of `size` elements `differing` are others, `beyond` too far off; `difference` says where, "" where none is.

    `errors` has the largest "absolute" and "relative" error; `is_rounding` says that another order of summation, or another type of accumulation, may
    have made all of it.
    """

    name: str
    size: int
    differing: int = 0
    difference: str = ""
    beyond: int = 0
    errors: Mapping[str, Error] = dataclasses.field(default_factory=dict)
    is_rounding: bool = False
    tolerance: Tolerance | None = None

    @property
    def verdict(self) -> str:
        """Whether it is as expected, for behind the output; "" where it is not."""
        if self.difference:
            return ""
        if not self.differing:
            return "as expected"
        within = f"within {self.tolerance}" if self.tolerance is not None else "but for what looks like rounding"
        exact = "" if self.tolerance is not None else "; --exact demands every bit"
        return f"as expected {within}: {self.differing} of {self.size} elements differ, {self.largest}{exact}"

    @property
    def largest(self) -> str:
        """The largest errors with their places, in words."""
        told = []
        for name, error in self.errors.items():
            what = f" ({error.found}, expected {error.wanted})" if name == "absolute" else ""
            told.append(f"largest {name} error {error.size:.3g} at {_indexed(self.name, error.at)}{what}")
        return ", ".join(told) or "none by a number"

    @property
    def text(self) -> str:
        """The difference with the largest errors, and whether it looks like rounding; "" where nothing is too far off."""
        if not self.difference or not self.beyond:
            return self.difference
        more = (
            "; it looks like rounding: another order of summation, or another type of accumulation, gives as much"
            if self.is_rounding
            else ""
        )
        others = f" ({self.differing - self.beyond} more differ by less)" if self.differing > self.beyond else ""
        return f"{self.difference}{others}; {self.largest}{more}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "differing": self.differing, "beyond": self.beyond, "looks_like_rounding": self.is_rounding,
            **{f"largest_{name}_error": {"size": e.size, "at": list(e.at)} for name, e in self.errors.items()},
        }  # fmt: skip


_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_TAKEN = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}  # names that Windows keeps for itself
LONGEST_NAME = 100  # characters of a file's name


def out_names(arrays: Iterable[str]) -> dict[str, str]:
    """The .npy file of each array, all different on every file system: what no file may be called is written as %XX.

    >>> out_names(["d", "p/x", "q/x", "D", ".."])
    {'d': 'd.npy', 'p/x': 'p%2Fx.npy', 'q/x': 'q%2Fx.npy', 'D': 'D~2.npy', '..': '%2E..npy'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for array in arrays:
        plain = _PLAIN.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode("utf-8", "replace")), array)[:LONGEST_NAME]
        if plain.startswith(".") or plain.casefold().partition(".")[0] in _TAKEN:
            plain = f"%{ord(plain[0]):02X}{plain[1:]}"
        name, count = plain, 1
        while name.casefold() in taken:
            count += 1
            name = f"{plain}~{count}"
        taken.add(name.casefold())
        names[array] = f"{name}.npy"
    return names


@dataclasses.dataclass(frozen=True, eq=False)
class Output:
    """An array after a launch; `dtype` is its element type by name where `array` has raw bits."""

    name: str
    array: np.ndarray
    dtype: str = ""

    @property
    def sha256(self) -> str:
        """The digest of its bytes."""
        return hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()

    @property
    def type(self) -> str:
        """The element type by its PTX name, or numpy's."""
        known = (name for name, f in FORMATS.items() if self.array.dtype.name in f.numpy_names)
        return self.dtype or next(known, str(self.array.dtype))

    def values(self, raw: np.ndarray) -> np.ndarray:
        """Numbers of elements as they lie in memory."""
        fmt = FORMATS.get(self.dtype)
        if fmt is not None and fmt.is_float and raw.dtype.kind == "u":
            return to_float64(raw, self.dtype)
        return raw.astype(np.float64) if raw.dtype.kind == "V" and raw.dtype.names is None else raw

    def numbers(self, itemsize: int) -> np.ndarray:
        """Its values as numpy computes with them; what has elements of another size than `itemsize` bytes is numbers already."""
        found = self.values(self.array) if self.array.dtype.itemsize == itemsize else self.array
        return found.astype(np.float64) if found.dtype.kind == "V" and found.dtype.names is None else found

    def text(self) -> str:
        """A line: name, type, shape, the first values, the digest.

        >>> Output("d", np.arange(8, dtype=np.float32).reshape(2, 4)).text()
        'd: f32 2x4, 0 1 2 3 4 5 ..., sha256:0571cfe42be5c7b95de9afc7c7ba1286fb7a2ef10a9035f8d6b87d21a3bc8387'
        """
        flat = self.array.reshape(-1)
        first = " ".join(_number(x) for x in self.values(flat[:FIRST]))
        more = " ..." if flat.size > FIRST else ""
        return f"{self.name}: {self.type} {'x'.join(map(str, self.array.shape)) or 'number'}, {first}{more}, {DIGEST}{self.sha256}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "dtype": self.type, "shape": list(self.array.shape), "sha256": self.sha256}

    def compared(self, expected: str, folder: pathlib.Path, how: Wanted | None = None) -> Comparison | None:
        """How it compares with what was expected; None for what cannot be compared here.

        `expected` is the name of an .npy file in `folder`, or "sha256:" and a digest, of which every bit counts. The array must have this one's shape. Its
        elements are numbers of any type, or raw bits (unsigned or void, of the same size) where numpy has no such type.

        Raises InputError for another shape, for bits of a type that numpy has, and for what is no number.
        """
        if expected.startswith(DIGEST):
            same = expected == DIGEST + self.sha256
            return Comparison(
                self.name, self.array.size, 0 if same else 1, "" if same else f"{self.name}: {DIGEST}{self.sha256}, expected {expected}"
            )
        if not expected.endswith(".npy"):
            return None  # an expression of a recorded launch
        return self.against(read_array(folder / expected), expected, how or Wanted())

    def against(self, wanted: np.ndarray, name: str, how: Wanted) -> Comparison:
        """The same of an array, which a message calls `name`."""
        mine, theirs, same = self._pair(wanted, name)
        if how.exact or mine.dtype.kind not in "biuf" or theirs.dtype.kind not in "biuf":
            near = same
        elif how.tolerance is not None:
            near = how.tolerance.near(mine, theirs)
        else:
            near = same | how.rounding.near(mine, theirs)
        return _comparison(self, mine, theirs, same, near, how)

    def _pair(self, wanted: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(its numbers, the expected ones, where they are the same): bit by bit where both have bits of one size, else once rounded to its type."""
        if wanted.shape != self.array.shape:
            raise InputError(
                f"{name}: shape {wanted.shape}, {self.name} has {self.array.shape}; needs the same shape (numpy.reshape, if the order is the same)"
            )
        if wanted.dtype.kind not in "biufV" or (
            wanted.dtype.kind == "V" and wanted.dtype != self.array.dtype and not self._takes_bits(wanted)
        ):
            raise InputError(f"{name}: elements of {wanted.dtype}, {self.name} is {self.type}; needs numbers")
        if self.array.dtype.kind == "f" and wanted.dtype.kind == "u" and wanted.dtype.itemsize == self.array.dtype.itemsize:
            raise InputError(
                f"{name}: elements of {wanted.dtype}, {self.name} is {self.type}: bits or numbers? .view(numpy.{self.array.dtype}) for bits, "
                f".astype(numpy.{self.array.dtype}) for numbers"
            )
        wanted = np.ascontiguousarray(wanted).reshape(self.array.shape)
        mine = self.values(self.array)
        kinds = (self.array.dtype.kind, wanted.dtype.kind)
        if (
            wanted.dtype == self.array.dtype
            or self._takes_bits(wanted)
            or (set(kinds) <= set("iu") and wanted.itemsize == self.array.itemsize)
        ):
            bits = f"V{self.array.dtype.itemsize}"
            same = np.ascontiguousarray(self.array).view(bits) == wanted.view(bits)
            return mine, self.values(wanted.view(self.array.dtype)), np.asarray(same)
        nearest = rounded(wanted, self.type)
        with np.errstate(invalid="ignore"):
            return (
                mine,
                wanted,
                np.asarray((mine == nearest) | (np.isnan(mine) & np.isnan(nearest)) if mine.dtype.kind == "f" else mine == nearest),
            )

    def _takes_bits(self, wanted: np.ndarray) -> bool:
        """Are they bits of this array's type, for which numpy has none?"""
        return wanted.dtype.kind in "uV" and self.array.dtype.kind in "uV" and wanted.itemsize == self.array.itemsize


def _comparison(output: Output, mine: np.ndarray, theirs: np.ndarray, same: np.ndarray, near: np.ndarray, how: Wanted) -> Comparison:
    differing = int(np.count_nonzero(~same))
    if not differing:
        return Comparison(output.name, same.size)
    numbers = mine.dtype.kind in "biuf" and theirs.dtype.kind in "biuf"
    errors = _errors(mine, theirs, same) if numbers else {}
    is_rounding = numbers and bool((same | how.rounding.near(mine, theirs)).all())
    told = _told(output, ~near, mine, theirs, how) if not near.all() else ""
    return Comparison(output.name, same.size, differing, told, int(np.count_nonzero(~near)), errors, is_rounding, how.tolerance)


def _errors(mine: np.ndarray, theirs: np.ndarray, same: np.ndarray) -> dict[str, Error]:
    """The largest absolute and relative error, of elements that are numbers on both sides."""
    a, b = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
    with np.errstate(all="ignore"):
        far = np.where(~same & np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0.0)
        part = np.where(b != 0, far / np.abs(b), 0.0)
    found = {}
    for name, error in (("absolute", far), ("relative", part)):
        at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
        if error[at] > 0:
            found[name] = Error(float(error[at]), at, _number(mine[at]), _number(theirs[at]))
    return found


def _told(output: Output, wrong: np.ndarray, mine: np.ndarray, theirs: np.ndarray, how: Wanted) -> str:
    at = tuple(int(x[0]) for x in np.nonzero(wrong)) if wrong.ndim else ()
    where = ""
    if wrong.ndim == 2:
        rows, columns = (np.flatnonzero(wrong.any(axis)).tolist() for axis in (1, 0))
        where = f", in rows {numbers_told(rows, wrong.shape[0])} and columns {numbers_told(columns, wrong.shape[1])}"
    by = f" by more than {how.tolerance}" if how.tolerance is not None else ""
    first = f"{_indexed(output.name, at)} is {_number(mine[at])}, expected {_number(theirs[at])}"
    return f"{output.name}: {int(wrong.sum())} of {wrong.size} elements differ{by}{where}; {first}"


def _indexed(name: str, at: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _number(value: Any) -> str:
    if isinstance(value, (np.floating, float)):
        return f"{float(value):.9g}"
    return str(value) if isinstance(value, (np.integer, np.bool_)) else shown(value)


# ---- How much of a launch was judged, and what was not: matrix instructions and tensor maps, with the reasons


REGISTERS = ("mma", "wmma")  # whose operands are registers, of which nothing says what they were meant to be


@dataclasses.dataclass(frozen=True)
class Judged:
    """`instructions` of `of` matrix instructions that read shared memory were held against what TMA had brought, those of all CTAs; they are `distinct`
    products, each of which was judged once: the same descriptors, maps and coordinates but for where a CTA's tile lies. `maps` are tensor maps.

    `missed` has what was not judged: its reason, and how often that was so.

    >>> str(Judged(96, 96, 24, 4, 2, {}))
    'judged: 96 of 96 matrix instructions of 24 CTAs (4 distinct products), 2 tensor maps'
    >>> str(Judged(0, 8, 1, 0, 1, {"operands of 4 or 6 bits": 8}))
    'judged: 0 of 8 matrix instructions of 1 CTA, 1 tensor map; not judged: operands of 4 or 6 bits (8)'
    """

    instructions: int
    of: int
    ctas: int
    distinct: int
    maps: int
    missed: dict[str, int]

    def __str__(self) -> str:
        told = []
        if self.of:
            different = f" ({self.distinct} distinct product{'s' * (self.distinct != 1)})" if self.instructions and self.distinct else ""
            told.append(f"{self.instructions} of {self.of} matrix instructions of {self.ctas} CTA{'s' * (self.ctas != 1)}{different}")
        if self.maps:
            told.append(f"{self.maps} tensor map{'s' * (self.maps != 1)}")
        missed = ", ".join(f"{reason} ({count})" if count else reason for reason, count in self.missed.items())
        parts = (f"judged: {', '.join(told)}" if told else "", f"not judged: {missed}" if missed else "")
        return "; ".join(filter(None, parts))


def judged_of(launch: Launch, reads: Reads | None, written: Written | None, why_not: str) -> Judged:
    """What was judged of a launch; `why_not` is what check said of operands that it does not model."""
    if reads is None:
        return Judged(0, 0, 0, 0, 0, {"anything: it ran without the watch": 0})
    reads.finish()
    missed = dict(reads.missed)
    done = reads.instructions - sum(reads.missed_instructions.values())
    if why_not and done:
        missed["what check does not model"] = done
        done = 0
    if written is not None and written.left_out:
        missed["distinct products beyond the first ones"] = written.left_out
    if not launch.program.uses.isdisjoint(REGISTERS):
        missed["mma and wmma, whose operands are registers"] = 0
    maps = {(bytes(event.tensor_map)) for event in reads.maps.values()}
    return Judged(done, reads.instructions, len(reads.ctas), written.distinct if written is not None else 0, len(maps), missed)


# ---- `Run`: what a launch did and what is wrong with it


class Run:
    """A launch that has run. `findings` are what is wrong, the most upstream first; `remarks` what is worth knowing; `output` printf's text.

    `approximate` names the instructions whose results are right only within the ISA's bound (`ex2.approx` ...), `unsure` the lines of sums that ptxas
    may fuse with a product or not: without any, what the kernel wrote is bit-exact as far as `evidence` says. `seconds` is how long it took,
    `ctas` how many CTAs came to their end: all of the grid, unless a part was asked for, the kernel trapped or hung, its time was over
    (`out_of_time`), or somebody interrupted it (`interrupted`).
    """

    def __init__(
        self, launch: Launch, reads: Reads | None, *, name: str = "ptx", ptx: str = "", seconds: float = 0.0, done: int | None = None,
        interrupted: bool = False, folders: tuple[pathlib.Path, ...] = (),
    ) -> None:  # fmt: skip
        self.launch, self.reads, self.name, self.seconds, self.interrupted = launch, reads, name, seconds, interrupted
        self.ptx, self.folders = ptx, folders
        self.ctas = launch.ctas if done is None else done
        self._not_judged = ""  # why check said nothing about the operands

    @functools.cached_property
    def _checked(self) -> tuple[Written | None, Report | None]:
        """The run as a scenario and its report, with the meaning of the operands that a small repair explains, if there is one.

        What check does not model is not held against the kernel: then there is none of the two, and `evidence` says why.
        """
        if self.reads is None:
            return None, None
        try:
            return judged(self.launch, self.reads)
        except SmemsimError as e:
            self._not_judged = str(e)
            return None, None

    @property
    def report(self) -> Report | None:
        """`smemsim.check` of the transfers and matrix instructions that were executed; None when there were none.

        `report.html()` is a page with every operand's tile.
        """
        return self._checked[1]

    @functools.cached_property
    def _all(self) -> list[RunFinding]:
        written, report = self._checked
        causes = []
        if self.reads is not None:
            causes = swapped(self.reads)
            causes += of_maps(self.reads, self.launch, [f.instruction.line for f in causes])
            causes = causes or turned(self.reads)
        executed = []
        others = {f.code for f in self.launch.findings.values()}
        others.discard("R507")  # what was not written may be what the instruction's shape leaves out
        if self.reads is not None and not causes and not (report and report.findings) and not others:
            executed = [*mismatches(self.reads), *unread(self.reads, self.launch.elsewhere)]
            if not executed and self.ctas == self.launch.ctas and not self.interrupted and not self.out_of_time:
                executed = unreached(self.reads, self.launch.memory)
        stored = [] if self.reads is None else stored_tiles(self.reads, self.launch)
        if self.reads is not None and not any(f.code == "R508" for f in (*causes, *executed)):  # else the load is told already
            stored = [*exchanged_loads(self.reads, self.launch), *stored]
        found = findings_of(
            causes, (*executed, *stored, *own_ranks(self.launch), *self.launch.findings.values()), written,
            (*report.findings, *report.remarks) if report else (), self.name, self.reads, self.launch.program.inlined.body,
        )  # fmt: skip
        return [dataclasses.replace(f, folders=self.folders) for f in found]

    @property
    def findings(self) -> list[RunFinding]:
        """What is wrong, the most upstream first."""
        return [f for f in self._all if f.severity in (Severity.TRAP, Severity.WRONG)]

    @property
    def remarks(self) -> list[RunFinding]:
        """What is worth knowing and needs no change."""
        return [f for f in self._all if f.severity not in (Severity.TRAP, Severity.WRONG)]

    @property
    def ok(self) -> bool:
        """Is nothing wrong?"""
        return not self.findings

    @property
    def is_strictly_ok(self) -> bool:
        """Is nothing wrong, not even what is told as a remark because nobody can act on it: a rule that the PTX breaks, and compilers break everywhere?"""
        return self.ok and not any(CODES[f.code].severity in (Severity.TRAP, Severity.WRONG) for f in self.remarks)

    @property
    def out_of_time(self) -> bool:
        """Was it ended because it ran for `limit_seconds`? Then nothing is known of what it would have done later."""
        return self.launch.out_of_time

    @property
    def output(self) -> str:
        """What printf wrote."""
        return "".join(self.launch.output)

    @property
    def approximate(self) -> tuple[str, ...]:
        """Instructions of the program whose results need not be bit-exact."""
        return tuple(sorted(self.launch.program.approximate))

    @property
    def unsure(self) -> tuple[int, ...]:
        """The lines of sums into which ptxas may take a product (one rounding) or not (two): the results may differ from the card's in the last bit."""
        return tuple(sorted({i.line for i in self.launch.program.unsure}))

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the results rest on that was not measured, in words."""
        found = sorted(self.launch.evidence)
        if not architecture(self.launch.arch).measured:
            found.insert(0, f"rules for {self.launch.arch} are documented, compiled or inferred: nothing is measured on Blackwell")
        if self.approximate:
            found.append(f"within the ISA's error bound, not bit-exact: {', '.join(self.approximate)}")
        if self._checked == (None, None) and self._not_judged:
            found.append(f"descriptors and tensor maps are not judged: {self._not_judged}")
        if self.unsure:
            lines = ", ".join(map(str, self.unsure))
            found.append(f"not surely bit-exact: whether ptxas takes a product into the sums at lines {lines} is not known")
        return tuple(found)

    def scenario(self) -> Scenario:
        """The transfers and matrix instructions that were executed, as `smemsim check` reads them; each different product once."""
        written = self._checked[0]
        if written is None and self.reads is not None:
            written = scenario_of(self.launch, self.reads)
        return written.scenario if written is not None else Scenario(self.launch.arch)

    def explain(self, array: Any, expected: Any, before: Any = None, *, dtype: str = "", rtol: float = 0.0, atol: float = 0.0) -> str:
        """The one rule that makes of `expected` what the kernel left in `array`, with what to change; "" where none is certain.

        `array` is one of `Gpu.array`, or its contents (then lines of stores are not known); `expected` and `before`, what was in it before the
        launch, are arrays of as many elements. `dtype` is the element type where an array has raw bits, `rtol` and `atol` are numpy's: how far an
        element may be off, |array - expected| <= atol + rtol * |expected|. A rule is told where it gives all wrong elements, but for edges, and no chance could: elements in other places (a swizzle, a
        box elsewhere, rows for columns, another fragment), steps of k that the sum lacks or has twice, other products of the operands, the
        other sign, a factor, a narrower type in between, nothing written. Numbers that rounding could make of each other count as equal.
        Raises InputError for arrays that cannot be compared.

        >>> import numpy as np, smemsim
        >>> ptx = '''.version 8.0 .target sm_90a .address_size 64
        ... .visible .entry nothing(.param .u64 d) { ret; }'''
        >>> gpu = smemsim.Gpu("sm_90a")
        >>> d = gpu.array(np.zeros((64, 8), np.float32))
        >>> gpu.launch(ptx, block=32, args=[d]).explain(d, np.ones((64, 8), np.float32)).partition(";")[0]
        'all that is wrong is 0, in rows 0 to 63, columns 0 to 7'
        """
        if dtype:
            element_format(dtype)
        tolerance = Tolerance(rtol, atol)
        found = array.numpy() if isinstance(array, DeviceArray) else as_numpy("array", array)
        others = {"expected": as_numpy("expected", expected)} | ({} if before is None else {"before": as_numpy("before", before)})
        for name, other in others.items():
            if other.size != found.size:
                raise InputError(f"{name} has {other.size} elements, {other.shape}; array has {found.size}, {found.shape}")
        numbers = {
            name: Output(name, x.reshape(found.shape), dtype).numbers(found.itemsize) for name, x in {"array": found, **others}.items()
        }
        return explained(self, Wrong(
            numbers["array"], numbers["expected"], numbers.get("before"), Output("array", found, dtype).type, found.itemsize,
            array.address if isinstance(array, DeviceArray) and array.is_contiguous else None, tolerance,
        ))  # fmt: skip

    @functools.cached_property
    def judged(self) -> Judged:
        """How much of what the launch did was judged, and what was not, with its reason."""
        return judged_of(self.launch, self.reads, self._checked[0], self._not_judged)

    def rounding(self, dtype: str) -> Rounding:
        """How far an output of an element type may be from what somebody else computes, because the kernel sums in another order or another type."""
        return rounding_of(self.launch, dtype)

    def text(self) -> str:
        """Each finding and remark with its lines of PTX and source, what the results rest on, and a last line that counts.

        What is said of several instructions, as of a loop that the compiler unrolled, is one entry that names the other lines.
        """
        lines = []
        for f in (*self.findings, *self.remarks):
            lines += [str(f), *(f"      {line}" for line in f.excerpt())]
            if others := f.others():
                lines.append(f"      {others}")
        return "\n".join([*lines, *self.evidence, self.summary()])

    def summary(self) -> str:
        """One line that counts CTAs, seconds and findings, and says how much was judged."""
        of = self.launch.ctas
        ctas = f"{of} CTA{'s' * (of != 1)}" if self.ctas == of else f"{self.ctas} of {of} CTAs"
        ended = (
            ", interrupted"
            if self.interrupted
            else f", ended after the {self.launch.limit_seconds:g} s that it may run"
            if self.out_of_time
            else ""
        )
        told = (
            f"{shorter_name(self.launch.program.name)}: {ctas} in {self.seconds:.1f} s{ended}, {_counted(self.findings)}",
            str(self.judged),
        )
        return "; ".join(filter(None, told))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""

        def plain(f: RunFinding) -> dict[str, Any]:
            return {
                "code": f.code, "severity": str(f.severity), "where": f.where, "line": f.line,
                "location": str(f.place) if f.place else None, "chain": [str(place) for place in f.location.chain] if f.location else [],
                "count": f.count, "lines": list(f.lines), "locations": [place.path for place in f.places], "instruction": f.instruction, "message": f.message, "repair": f.repair,
                "because": f.because, "check": f.check.as_dict() if f.check else None,
            }  # fmt: skip

        return {
            "ok": self.ok, "entry": self.launch.program.name, "name": demangled(self.launch.program.name), "arch": self.launch.arch, "findings": [plain(f) for f in self.findings],
            "remarks": [plain(f) for f in self.remarks], "approximate": list(self.approximate),
            "unsure": list(self.unsure), "evidence": list(self.evidence),
            "judged": dataclasses.asdict(self.judged), "output": self.output, "ctas": self.ctas, "interrupted": self.interrupted,
            "out_of_time": self.out_of_time, "seconds": round(self.seconds, 3),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Run of {shorter_name(self.launch.program.name)}: {_counted(self.findings)}>"

    def page(self) -> Page:
        """The page as a value: the findings with the PTX around their lines, above the page of the transfers and matrix instructions."""
        report = self.report or Report((), arch=self.launch.arch, title=f"{shorter_name(self.launch.program.name)}, as it ran")
        found, ptx, tiles = [*self.findings, *self.remarks], self.ptx.splitlines(), report.tiles()
        none = "" if tiles else "There is no operand of a matrix instruction to draw that came through TMA."
        above = Above(
            self.summary(),
            tuple(_entry(f, ptx) for f in found[:MOST_ENTRIES]),
            max(len(found) - MOST_ENTRIES, 0),
            self.output,
            self.evidence,
            none,
        )
        return dataclasses.replace(report.page(tiles, about="Operands and maps"), above=above)

    def html(self) -> str:
        """A self-contained page: the findings with the PTX around their lines, and every operand's tile."""
        return page_html(self.page())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


def _counted(findings: list[RunFinding]) -> str:
    places = sum(f.count for f in findings)
    at = f" at {places} instructions" if places > len(findings) else ""
    return f"{len(findings) or 'no'} finding{'s' * (len(findings) != 1)}{at}"


AROUND = 4  # lines of PTX before and behind a finding's, on a page
MOST_ENTRIES = 40  # findings on a page


def _entry(f: RunFinding, ptx: list[str]) -> Entry:
    """A finding on a page: lines of the PTX around its own, and the line of its source."""
    excerpt = None
    if f.line:
        numbers = range(max(1, f.line - AROUND), min(len(ptx), f.line + AROUND) + 1)
        excerpt = Excerpt(tuple((n, shortened(ptx[n - 1])) for n in numbers), f.line, tuple(f.excerpt()[1:]))
    others = f.others() if f.count > 1 else ""
    return Entry(str(f.severity), f.code, f.where, told(f.message), told(f.repair), f.because, others=others, excerpt=excerpt)
