"""What is wrong, and where: `Finding`, the places that it can be at, and the changes that mend it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

from smemsim.base.errors import SmemsimError
from smemsim.core.picture.message import COLUMNS, Labelled, message_lines, plain
from smemsim.core.picture.table import Line
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.grades import Grade

if TYPE_CHECKING:
    import pathlib

    from smemsim.core.ptx.module import Instruction, Location

__all__ = [
    "PTX_LINE",
    "Element",
    "Finding",
    "Fix",
    "Half",
    "InLaunch",
    "InScenario",
    "InWord",
    "Parts",
    "Path",
    "Place",
    "TensorMapError",
    "Touched",
    "Value",
    "at_instruction",
    "at_line",
    "headline_of",
    "in_word",
    "message_of",
    "shortened",
    "told",
]

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"  # as JSON has it
Key: TypeAlias = str | int


# ---- Where something stands in a scenario


@dataclasses.dataclass(frozen=True)
class Path:
    """The way to a value of a scenario: keys of its tables, and indices of its lists, counted from 0.

    >>> path = Path.of("step", 3) / "a" / "word"
    >>> str(path), path.step, path.side, path.key, path.startswith(Path.of("step", 3))
    ('step[3].a.word', 3, 'a', 'word', True)
    >>> str(Path.of("map", "tmA") + Path.parse("global_strides[0]"))
    'map.tmA.global_strides[0]'
    """

    keys: tuple[Key, ...] = ()

    @classmethod
    def of(cls, *keys: Key) -> Path:
        """The path of these keys."""
        return cls(keys)

    @classmethod
    def parse(cls, text: str) -> Path:
        """A path as `str` gives it. A dot always ends a key, so names of tables with dots come as several keys.

        >>> Path.parse("step[1].a.word").keys
        ('step', 1, 'a', 'word')
        """
        return cls(tuple(int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|([^.\[\]]+)", text)))

    def __str__(self) -> str:
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).removeprefix(".")

    def __truediv__(self, key: Key) -> Path:
        return Path((*self.keys, key))

    def __add__(self, other: Path) -> Path:
        return Path(self.keys + other.keys)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def table(self) -> str:
        """The table of the scenario that it leads into: "step", "map", "buffer", "tensor"; "" for none."""
        return str(self.keys[0]) if self.keys else ""

    @property
    def name(self) -> str:
        """The name of the map, buffer or tensor that it leads into; "" where it leads into none."""
        return str(self.keys[1]) if len(self.keys) > 1 and isinstance(self.keys[1], str) else ""

    @property
    def step(self) -> int | None:
        """The number of its step, counted from 0; None where it leads into no step."""
        number = self.keys[1] if self.table == "step" and len(self.keys) > 1 else None
        return number if isinstance(number, int) else None

    @property
    def side(self) -> str:
        """The operand of its step: "a", "b", "scale_a" or "scale_b"; "" where it leads into none."""
        side = self.keys[2] if self.step is not None and len(self.keys) > 2 else ""
        return str(side) if side in ("a", "b", "scale_a", "scale_b") else ""

    @property
    def key(self) -> str:
        """The last key that is a name."""
        return next((key for key in reversed(self.keys) if isinstance(key, str)), "")

    @property
    def parent(self) -> Path:
        """The path without its last key."""
        return Path(self.keys[:-1])

    def startswith(self, other: Path) -> bool:
        """Does it lead to that place, or into it?"""
        return self.keys[: len(other.keys)] == other.keys

    def within(self, raw: Any) -> Any:
        """What stands there in nested tables and lists; None where nothing does."""
        for key in self.keys:
            if isinstance(raw, list) and isinstance(key, int):
                raw = raw[key] if key < len(raw) else None
            else:
                raw = raw.get(key) if isinstance(raw, dict) else None
        return raw


# ---- The places that a finding can be at: a field of a word, a value of a scenario, an instruction of a launch


class InWord(NamedTuple):
    """In a field of a word: of a shared-memory descriptor, an instruction descriptor or a tensor map.

    `against` are the other things, by name, that the field does not go with: "swizzle_a" where A's major-ness and its swizzle have no instruction.
    """

    word: str
    field: Path
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.field)


class InScenario(NamedTuple):
    """At a value of a scenario. `title` says for people what it is about: "step 2 (mma) a", "map tmA".

    `subject` is the path of that, where the value stands elsewhere: an operand is wrong, and the map that filled its buffer is to be changed.
    `inside` is the field, where the value is a word.
    """

    path: Path
    title: str = ""
    subject: Path | None = None
    inside: InWord | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def about(self) -> Path:
        """What is wrong; the value itself, unless that is said."""
        return self.path if self.subject is None else self.subject


class Touched(NamedTuple):
    """Bytes of a CTA's shared memory that a finding is about: addresses from `begin` up to `end`."""

    cta: int
    begin: int
    end: int

    def meets(self, other: Touched) -> bool:
        """Have the two a byte in common?"""
        return self.cta == other.cta and self.begin < other.end and other.begin < self.end


PTX_LINE = ", PTX line"  # behind the name of a kernel whose PTX is in no file


def at_line(launch: str, line: int) -> str:
    """A line of the PTX of a launch, in words.

    >>> at_line("kernel.ptx", 7), at_line("gemm" + PTX_LINE, 7)
    ('kernel.ptx:7', 'gemm, PTX line 7')
    """
    return f"{launch} {line}" if launch.endswith(PTX_LINE) else f"{launch}:{line}"


class InLaunch(NamedTuple):
    """At an instruction of a launch; None where it is about no single one. `launch` is the name of its PTX; of a kernel whose PTX is in no file its own, and `PTX_LINE`.

    `place` is the line of the source that a kernel author knows the instruction by, which is another one than its own where a function only wraps
    the instruction. `touched` are the bytes of shared memory that it is about, and of which CTA: what else is found of them may follow from it.
    `operation` tells findings of one code at one line apart: the kind of operation they are about. `arrays` are addresses of global memory,
    one in each array that it is about. `other` is the other half of a race, with its own place in the source; the race is between lanes of one warp
    (`within_warp`), which bar.warp.sync orders, or between warps.
    """

    instruction: Instruction | None
    launch: str = ""
    place: Location | None = None
    touched: tuple[Touched, ...] = ()
    operation: str = ""
    arrays: tuple[int, ...] = ()
    other: Instruction | None = None
    other_place: Location | None = None
    within_warp: bool = False

    def __str__(self) -> str:
        if self.instruction is None:
            return self.launch
        own, place = self.instruction.location, self.place or self.instruction.location
        at = at_line(self.launch, self.instruction.line)
        if own is None or place is None:
            return at
        inner = "" if place is own else f", by {f'line {own.line}' if own.file == place.file else own}"
        return f"{at} ({place.path}{inner})"

    @property
    def line(self) -> int:
        """The line of the PTX, 0 for none."""
        return 0 if self.instruction is None else self.instruction.line

    @property
    def source(self) -> Location | None:
        """The line of the source that the instruction comes from, with the calls that were inlined around it."""
        return None if self.instruction is None else self.instruction.location


Place: TypeAlias = InWord | InScenario | InLaunch


# ---- What a finding says


class Fix(NamedTuple):
    """A change of a scenario: where, what stands there, and what must."""

    path: Path
    old: Value
    new: Value


class Half(NamedTuple):
    """One of the accesses that a finding is about: what it does ("write", "read", "wait"), in words what does it and to which bytes, and its instruction.

    `place` is the line of its source; None if it is not known.
    """

    does: str
    text: str
    instruction: Instruction | None = None
    place: Location | None = None

    def at(self, launch: str) -> str:
        """Where it is: the line of the source first, then that of the PTX."""
        if self.instruction is None:
            return ""
        line = self.instruction.line
        source = self.place or self.instruction.location
        if source is None:
            return at_line(launch, line) if launch else f"line {line}"
        return f"{source.file.rpartition('/')[2]}:{source.line}, PTX line {line}"


class Parts(NamedTuple):
    """The four parts of a message, a clause each: what is wrong, where, why, and what to write instead. `where` has both halves of a race."""

    what: str
    where: tuple[str, ...]
    why: str
    fix: str


class Element(TypedDict):
    """The first wrong element of an operand: which it is, what is read there, and what was meant.

    `block` and `step` are those of the operand's words, from 0. `address` is where it is read in shared memory; in tensor memory it is `lane`, `column`
    and `byte` of the cell.
    """

    block: int
    step: int
    row: int
    k: int
    read: str
    meant: str
    address: NotRequired[int]
    lane: NotRequired[int]
    column: NotRequired[int]
    byte: NotRequired[int]


NOTES = {Severity.NOTE: "note: ", Severity.LUCK: "works by accident: "}  # before what is said
STYLES = {Severity.TRAP: "red", Severity.WRONG: "red", Severity.LUCK: "yellow", Severity.NOTE: "cyan"}
MOST_LINES = 12  # of findings that are alike
MOST_MENTIONED = 4  # lines of PTX of which the line of the source is named


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or will be. Four parts say it: what is wrong, where, why, and what to write instead (`parts`).

    `what` and `why` are clauses, `repair` is the fix; it was `tried` if smemsim has executed the scenario with it. `halves` are the accesses that it is about,
    each with its own line: both halves of a race. `message` has all but the fix as one text. `at` is the place, `where` the same in words.
    `source` says where the rule is written, `rule` is its name, `grade` what it rests on. `cause` is the finding that this one follows from.
    Of operands, `wrong` of `of` elements are wrong, `first` is the first of these, and `pattern` says what they
    have in common. `changes` are what was tried and makes it right, all of them together.

    Of a run: `check` is what `smemsim.check` said of the transfers and instructions that were executed, where this one rests on it; `alike` are the other
    instructions of which the same is said. `mentions` are the lines of PTX that the sentences name, each with its line of the source.

    >>> import smemsim
    >>> word = smemsim.SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=128, swizzle="128B")
    >>> finding = word.problems(dtype="bf16", major="K", rows=64, k=16)[0]
    >>> str(finding.code), finding.where, finding.repair
    ('D307', 'stride_byte_offset', 'stride_byte_offset of 1024 B or more, not 128 B: it steps over an atom of 8 x 128 B')
    """

    code: str
    severity: Severity
    at: Place
    what: str
    repair: str = ""
    source: str = ""
    rule: str = ""
    grade: Grade | Literal[""] = ""
    cause: Finding | None = None
    numbers: Mapping[str, Value] = dataclasses.field(default_factory=dict, hash=False)
    wrong: int = 0
    of: int = 0
    first: Element | None = dataclasses.field(default=None, hash=False)
    pattern: tuple[str, ...] = ()
    changes: tuple[Fix, ...] = dataclasses.field(default=(), hash=False)
    check: Finding | None = None
    alike: tuple[InLaunch, ...] = ()
    mentions: tuple[tuple[int, Location], ...] = dataclasses.field(default=(), compare=False, repr=False)
    compiler: str = ""  # whose fault it is, if it is one of a compiler: "Triton", "TileLang" ...
    folders: tuple[pathlib.Path, ...] = dataclasses.field(default=(), compare=False, repr=False)  # whose sources may be shown
    why: str = ""
    halves: tuple[Half, ...] = ()
    tried: bool = False

    @property
    def message(self) -> str:
        """What is wrong, the accesses and why, as one text."""
        return "; ".join(filter(None, (self.what, *(f"{half.does}: {half.text}{_of_line(half)}" for half in self.halves), self.why)))

    @property
    def sentence(self) -> str:
        """The code, the place, the message and the fix on one line, for an exception or a table."""
        place = f" {self.headed}" * (not self.what.startswith(self.headed))
        return "; ".join(filter(None, (f"{self.code}{place}: {told(self.message)}", f"fix: {told(self.repair)}" if self.repair else "")))

    @property
    def parts(self) -> Parts:
        """What is wrong, where, why and the fix, as a reader sees them.

        >>> import smemsim
        >>> word = smemsim.SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=128, swizzle="128B")
        >>> word.problems(dtype="bf16", major="K", rows=64, k=16)[0].parts.where
        ('stride_byte_offset',)
        """
        launch = self.at.launch if isinstance(self.at, InLaunch) else ""
        where = tuple(f"{half.does}: {half.text}, {half.at(launch)}".removesuffix(", ") for half in self.halves)
        return Parts(told(self.what), (self.headed, *map(told, where)), told(self.why), told(self.repair))

    @property
    def headed(self) -> str:
        """The place that a message begins with: the line of the source, else the line of the PTX; what of a scenario it is about; a field."""
        if isinstance(self.at, InLaunch) and self.place is not None:
            return self.place.path
        if isinstance(self.at, InWord) and self.where.startswith("_"):
            return "reserved bits"
        return self.title or self.where

    @property
    def where(self) -> str:
        """The place in words: a field, a path into a scenario, or a line of PTX with that of its source."""
        return str(self.at)

    @property
    def title(self) -> str:
        """What of a scenario it is about, for people; "" elsewhere."""
        return self.at.title if isinstance(self.at, InScenario) else ""

    @property
    def because(self) -> str:
        """What it follows from, or else where the rule is written."""
        if self.cause is None:
            return self.source
        if isinstance(self.cause.at, InLaunch):
            return f"may be a consequence of {self.cause.code} at line {self.cause.line}"
        return self.cause.code

    @property
    def breaks_rule(self) -> bool:
        """Is it about a rule that is written somewhere, and serious where it is not milder? A remark that names no source breaks none."""
        return CODES[self.code].severity in (Severity.TRAP, Severity.WRONG) and bool(self.source)

    @property
    def is_milder(self) -> bool:
        """Is it less severe than its code says: formally wrong, and nobody can act on it, or it harms nobody?"""
        return self.severity is not CODES[self.code].severity

    @property
    def ends(self) -> bool:
        """Does the kernel end here, or never?"""
        return self.severity is Severity.TRAP

    @property
    def fix(self) -> tuple[str, Value, Value] | None:
        """The change that makes it right, (path, old, new); None where none is known, or several are needed."""
        return (str(self.changes[0].path), *self.changes[0][1:]) if len(self.changes) == 1 else None

    @property
    def together(self) -> tuple[tuple[str, Value, Value], ...]:
        """The changes that must be made together, where one is not enough."""
        return tuple((str(path), old, new) for path, old, new in self.changes) if len(self.changes) > 1 else ()

    # ---- in a scenario

    @property
    def path(self) -> Path:
        """The path into the scenario; the empty one of a finding about no scenario."""
        return self.at.path if isinstance(self.at, InScenario) else Path()

    @property
    def about(self) -> Path:
        """The path of what is wrong in the scenario, where another value is to be changed; else `path`."""
        return self.at.about if isinstance(self.at, InScenario) else Path()

    @property
    def inside(self) -> InWord | None:
        """The field of a word that it is about."""
        return self.at.inside if isinstance(self.at, InScenario) else self.at if isinstance(self.at, InWord) else None

    # ---- in a launch

    @property
    def line(self) -> int:
        """The line of the PTX, 0 for none."""
        return self.at.line if isinstance(self.at, InLaunch) else 0

    @property
    def location(self) -> Location | None:
        """The line of the source that the instruction comes from, where the PTX has .loc."""
        return self.at.source if isinstance(self.at, InLaunch) else None

    @property
    def instruction(self) -> str:
        """The text of the instruction."""
        return self.at.instruction.text if isinstance(self.at, InLaunch) and self.at.instruction is not None else ""

    @property
    def place(self) -> Location | None:
        """The line of the source that a kernel author knows the instruction by."""
        return self.at.place if isinstance(self.at, InLaunch) else None

    @property
    def touched(self) -> tuple[Touched, ...]:
        """The bytes of shared memory that it is about."""
        return self.at.touched if isinstance(self.at, InLaunch) else ()

    @property
    def operation(self) -> str:
        """The kind of operation that it is about, where one line may be wrong for several."""
        return self.at.operation if isinstance(self.at, InLaunch) else ""

    @property
    def arrays(self) -> tuple[int, ...]:
        """Addresses of global memory, one in each array that it is about."""
        return self.at.arrays if isinstance(self.at, InLaunch) else ()

    @property
    def other(self) -> Instruction | None:
        """The other half of a race, where that is another line."""
        other = self.at.other if isinstance(self.at, InLaunch) else None
        return None if other is None or other.line == self.line else other

    @property
    def other_place(self) -> Location | None:
        """The line of the source of the other half of a race."""
        if not isinstance(self.at, InLaunch) or self.other is None:
            return None
        return self.at.other_place or self.other.location

    @property
    def is_within_warp(self) -> bool:
        """Is it a race between lanes of one warp?"""
        return isinstance(self.at, InLaunch) and self.at.within_warp

    @property
    def count(self) -> int:
        """Of how many instructions it is said."""
        return 1 + len(self.alike)

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of all of them."""
        return tuple(dict.fromkeys(line for line in (self.line, *(other.line for other in self.alike)) if line))

    @property
    def places(self) -> tuple[Location, ...]:
        """The lines of the source of all of them."""
        return tuple(dict.fromkeys(place for place in (self.place, *(other.place for other in self.alike)) if place is not None))

    def excerpt(self) -> list[str]:
        """The lines of the source if their files can be read, that of `place` first, then the line of the PTX; then the other half of a race."""
        if not self.line:
            return []
        first = self.place if self.place is not None else self.location
        lines = [*self._source_of(self.location, first), f"{self.line} | {shortened(self.instruction)}"]
        if self.other is not None:
            lines += [*self._source_of(self.other.location, self.other_place), f"{self.other.line} | {shortened(self.other.text)}"]
        return list(dict.fromkeys(lines))

    def _source_of(self, location: Location | None, first: Location | None) -> Iterator[str]:
        """The lines of the source of an instruction that can be read, that of the place `first` before those that were inlined there."""
        from smemsim.base.files import source_line  # findings of words need no files

        chain = location.chain if location is not None else ()
        for place in sorted(chain, key=lambda place: place is not first):
            if source := source_line(place.file, place.line, self.folders):
                yield f"{place} | {_cut(source)}"

    def others(self) -> str:
        """The other instructions of which the same is said, in words; "" where there are none."""
        if not self.alike:
            return ""
        lines = [str(n) for n in self.lines if n != self.line]
        places = list(dict.fromkeys(str(place) for place in self.places if str(place) != str(self.place)))
        at = f" (line {', '.join(lines[:MOST_LINES])}{' ...' * (len(lines) > MOST_LINES)})" if lines else ""
        of = f", also of {', '.join(places[:MOST_LINES])}" if places else ""
        return f"and {len(self.alike)} more like it{at}{of}"

    # ---- for people and programs

    def __repr__(self) -> str:
        return f"<Finding {_cut(f'{self.code} {self.severity} at {self.where}: {told(self.message)}')}>"

    def __str__(self) -> str:
        return plain(self.lines_of())

    def lines_of(self, width: int = COLUMNS) -> list[Line]:
        """The message in styled lines: code, place and what is wrong; the accesses; why; fix."""
        style = STYLES[self.severity]
        note = NOTES.get(self.severity, "")
        place = f"{self.headed}  " * (not self.what.startswith(self.headed))
        return message_lines(Line([(f"{self.code}  ", style), (place, "")]), f"{note}{told(self.what)}", self.rows(), width)

    def rows(self) -> Iterator[Labelled]:
        """The labelled lines of a message."""
        if isinstance(self.at, InLaunch):
            yield from self._rows_of_launch(self.at)
        else:
            yield from (Labelled(half.does, told(half.text)) for half in self.halves)
        if self.why or self.because:
            because = (
                f"follows from {self.cause.code}" if self.cause is not None and not isinstance(self.cause.at, InLaunch) else self.because
            )
            yield Labelled("why", told(self.why), because) if self.why else Labelled("rule", because, style="dim")
        if self.repair:
            yield Labelled("fix", told(self.repair) + " (tried)" * self.tried, style="green")

    def page_rows(self) -> tuple[Labelled, ...]:
        """The labelled lines that a page shows between its head and the fix."""
        return tuple(row for row in self.rows() if row.label != "fix" and row.text)

    def _rows_of_launch(self, at: InLaunch) -> Iterator[Labelled]:
        """Where it is: each access with its lines, or the instruction; then the sources of other lines that the sentences name."""
        for half in self.halves:
            yield Labelled(half.does, told(half.text), half.at(at.launch) if half.instruction is not None else "")
        is_named = any(half.instruction is not None for half in self.halves)
        if not is_named and at.instruction is not None and self.place is not None:
            inner = "" if at.source is None or self.place is at.source else f", by {at.source}"
            yield Labelled("at", f"{told(at.instruction.name)}{inner}", at_line(at.launch, at.instruction.line))
        named = {half.instruction.line for half in self.halves if half.instruction is not None}
        places = {} if self.other is None or self.other_place is None else {self.other.line: self.other_place}
        places |= {line: place for line, place in self.mentions if line != self.line and line not in places}
        for line, place in [item for item in places.items() if item[0] not in named][:MOST_MENTIONED]:
            yield Labelled("", f"line {line} is {place.path}")

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: what every finding has, and what those of its place have besides."""
        said = {"code": self.code, "severity": str(self.severity), "where": self.where, "what": self.what, "why": self.why,
                "fix": {"text": self.repair, "tried": self.tried}}  # fmt: skip
        match self.at:
            case InWord():
                return said | {"message": self.message, "repair": self.repair, "because": self.because}
            case InScenario():
                return said | {
                    "message": self.message, "numbers": dict(self.numbers), "first": None if self.first is None else dict(self.first),
                    "wrong": self.wrong, "of": self.of, "pattern": list(self.pattern),
                    "repair": {"text": self.repair} | (_changed(*self.fix) if self.fix is not None else _changed(None, None, None)),
                    "together": [_changed(*fix) for fix in self.together], "because": self.because, "grade": str(self.grade),
                }  # fmt: skip
            case InLaunch():
                return said | {
                    "line": self.line, "location": str(self.place) if self.place else None,
                    "chain": [str(place) for place in self.location.chain] if self.location else [], "count": self.count, "lines": list(self.lines),
                    "locations": [place.path for place in self.places], "mentions": [{"line": line, "location": str(place)} for line, place in self.mentions], "instruction": self.instruction, "other": self._other(), "halves": [self._half(half) for half in self.halves],
                    "message": self.message,
                    "repair": self.repair, "because": self.because, "compiler": self.compiler or None, "check": self.check.as_dict() if self.check else None,
                }  # fmt: skip

    @staticmethod
    def _half(half: Half) -> dict[str, Any]:
        """One access, as JSON has it."""
        i = half.instruction
        place = half.place or (None if i is None else i.location)
        return {
            "does": half.does,
            "text": half.text,
            "line": None if i is None else i.line,
            "location": None if place is None else str(place),
        }

    def _other(self) -> dict[str, Any] | None:
        """The other half of a race, as JSON has it."""
        if self.other is None:
            return None
        place = self.other_place
        return {"line": self.other.line, "location": str(place) if place is not None else None, "instruction": self.other.text}


def message_of(found: Mapping[str, Any]) -> str:
    """The message of a finding, of what `Finding.as_dict` says about it.

    >>> word = in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used", why="the operand is one atom wide")
    >>> print(message_of(word.as_dict()))
    D310  leading_byte_offset  note: LBO = 64 B is never used
          why     the operand is one atom wide
    """
    return plain(
        message_lines(
            Line([(f"{found['code']}  ", ""), (f"{_place_of(found)}  ", "")]), f"{_note(found)}{told(found['what'])}", _rows_of(found)
        )
    )


def headline_of(found: Mapping[str, Any]) -> str:
    """The code, the place and what is wrong, of what `Finding.as_dict` says about a finding.

    >>> headline_of(in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used").as_dict())
    'D310 leading_byte_offset: LBO = 64 B is never used'
    """
    return f"{found['code']} {_place_of(found)}: {told(found['what'])}"


def _place_of(found: Mapping[str, Any]) -> str:
    """The line of the source without its folder, else the place in words."""
    place = str(found.get("location") or found["where"])
    return place.rpartition("/")[2]


def _note(found: Mapping[str, Any]) -> str:
    return NOTES.get(Severity(found["severity"]), "")


def _rows_of(found: Mapping[str, Any]) -> Iterator[Labelled]:
    for half in found.get("halves", ()):
        source = str(half["location"] or "").rpartition("/")[2]
        yield Labelled(
            half["does"], told(half["text"]), ", ".join(filter(None, (source, f"PTX line {half['line']}" if half["line"] else "")))
        )
    if found["why"] or found.get("because"):
        yield Labelled("why", told(found["why"]), found.get("because", "")) if found["why"] else Labelled("rule", found["because"])
    fix = found["fix"]
    if fix["text"]:
        yield Labelled("fix", told(fix["text"]) + " (tried)" * fix["tried"])


def _of_line(half: Half) -> str:
    return "" if half.instruction is None else f" (line {half.instruction.line})"


def _changed(path: str | None, old: Value, new: Value) -> dict[str, Value]:
    return {"path": path, "old": old, "new": new}


def in_word(
    word: str, code: str, field: str, message: str, repair: str = "", source: str = "", severity: Severity | None = None, against: tuple[str, ...] = (),
    why: str = "",
) -> Finding:  # fmt: skip
    """A finding at a field of a word, of the severity that its code has unless another is given.

    >>> print(in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used"))
    D310  leading_byte_offset  note: LBO = 64 B is never used
    """
    return Finding(code, severity or CODES[code].severity, InWord(word, Path.parse(field), against), message, repair, source, why=why)


def at_instruction(
    code: str, i: Instruction, message: str, repair: str = "", *, because: str = "", milder: Severity | None = None,
    touched: tuple[Touched, ...] = (), operation: str = "", arrays: tuple[int, ...] = (), other: Instruction | None = None, within_warp: bool = False,
    why: str = "", halves: tuple[Half, ...] = (),
) -> Finding:  # fmt: skip
    """A finding at an instruction: `because` is the source of the rule, `milder` another severity than its code's; the rest as `InLaunch` has it."""
    at = InLaunch(i, touched=touched, operation=operation, arrays=arrays, other=other, within_warp=within_warp)
    return Finding(code, milder or CODES[code].severity, at, message, repair, because, why=why, halves=halves)


class TensorMapError(SmemsimError, ValueError):
    """Arguments that the driver's encode call refuses; `violations` has one sentence for every rule that is broken, `findings` the same with its rule.

    >>> import smemsim
    >>> smemsim.TensorMap.tiled(data_type="bf16", global_address=0x10008, global_dim=(64,), global_strides=(), box_dim=(64,))
    Traceback (most recent call last):
    smemsim.core.finding.TensorMapError: global_address = 0x10008: needs a multiple of 16 B
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(f.message for f in findings))
        self.findings = tuple(findings)

    def __reduce__(self) -> tuple[type[TensorMapError], tuple[tuple[Finding, ...]]]:
        return type(self), (self.findings,)

    @property
    def violations(self) -> list[str]:
        """One sentence for every rule that is broken."""
        return [f.message for f in self.findings]


# ---- Sentences and lines of PTX, short enough to be read


MOST_ITEMS = 8  # registers of a list that are shown
LONGEST_LINE = 160  # characters of a line of PTX or source
LONGEST_INSTRUCTION = 56  # characters of an instruction's name in a sentence
_LIST = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"\w+(?:(?:\.|::)\w+){3,}")  # of an instruction


def told(text: str) -> str:
    """A sentence for a reader: C++ symbols as names, long names of instructions without their middle.

    >>> told("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes of line 7")
    'cp.async.bulk.tensor.2d…mbarrier::complete_tx::bytes of line 7'
    """
    from smemsim.core.ptx.demangle import readable  # findings of words need no PTX

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
