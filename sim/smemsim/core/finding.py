"""Findings (`Finding`), the places that they can be at, and the changes that fix them."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

from smemsim.base.errors import SmemsimError
from smemsim.base.members import OwnMembers
from smemsim.core.picture.message import COLUMNS, Labelled, message_lines, plain
from smemsim.core.picture.table import Line
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.grades import Grade

if TYPE_CHECKING:
    import pathlib

    from smemsim.core.ptx.module import Instruction, Location

__all__ = [
    "OR",
    "PTX_LINE",
    "Element",
    "Finding",
    "Fix",
    "Half",
    "InLaunch",
    "InScenario",
    "InWord",
    "Other",
    "Parts",
    "Path",
    "Place",
    "Printed",
    "TensorMapError",
    "Touched",
    "Value",
    "at_instruction",
    "at_line",
    "expect_words",
    "folded",
    "headline_of",
    "in_word",
    "message_of",
    "messages_of",
    "of_ctas",
    "of_kind",
    "place_of",
    "ranges",
    "rows_of",
    "shortened",
    "told",
]

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"  # as JSON has it
Key: TypeAlias = str | int


# ---- Paths into a scenario


@dataclasses.dataclass(frozen=True)
class Path:
    """The path to a value of a scenario: keys of tables, and indices of lists counted from 0.

    >>> path = Path.of("step", 3) / "a" / "word"
    >>> str(path), path.step, path.side, path.key, path.startswith(Path.of("step", 3))
    ('step[3].a.word', 3, 'a', 'word', True)
    >>> str(Path.of("map", "tmA") + Path.parse("global_strides[0]"))
    'map.tmA.global_strides[0]'
    """

    keys: tuple[Key, ...] = ()

    @classmethod
    def of(cls, *keys: Key) -> Path:
        """The path with these keys."""
        return cls(keys)

    @classmethod
    def parse(cls, text: str) -> Path:
        """The path of a text such as `step[1].a.word`. A dot always ends a key, so a name with dots becomes several
        keys.

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
        """The table of the scenario: "step", "map", "buffer" or "tensor"; "" if the path is empty."""
        return str(self.keys[0]) if self.keys else ""

    @property
    def name(self) -> str:
        """The name of the map, buffer or tensor; "" if there is none."""
        return str(self.keys[1]) if len(self.keys) > 1 and isinstance(self.keys[1], str) else ""

    @property
    def step(self) -> int | None:
        """The number of the step, counted from 0; None if the path is not in a step."""
        number = self.keys[1] if self.table == "step" and len(self.keys) > 1 else None
        return number if isinstance(number, int) else None

    @property
    def side(self) -> str:
        """The operand of the step: "a", "b", "scale_a" or "scale_b"; "" if the path is not in an operand."""
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
        """Is this path equal to the other one, or below it?"""
        return self.keys[: len(other.keys)] == other.keys

    def within(self, raw: Any) -> Any:
        """The value at this path in nested tables and lists; None if there is none."""
        for key in self.keys:
            if isinstance(raw, list) and isinstance(key, int):
                raw = raw[key] if key < len(raw) else None
            else:
                raw = raw.get(key) if isinstance(raw, dict) else None
        return raw


# ---- Places: a field of a word, a value of a scenario, an instruction of a launch


class InWord(NamedTuple):
    """A field of a word: of a shared-memory descriptor, an instruction descriptor or a tensor map.

    `against` names the other fields that this field contradicts, such as "swizzle_a". If the text of the finding begins
    with the field, `named` is set, and the field is not printed before the text.
    """

    word: str
    field: Path
    against: tuple[str, ...] = ()
    named: bool = False

    def __str__(self) -> str:
        return str(self.field)


class InScenario(NamedTuple):
    """A value of a scenario. Readers see its `title`: "step[1].a (mma)", "map tmA".

    If another value must change, `subject` is the path of the wrong part. An example is a wrong operand, whose map must
    change. If the value is a word, `inside` is its field.
    """

    path: Path
    title: str = ""
    subject: Path | None = None
    inside: InWord | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def about(self) -> Path:
        """The path of the part that is wrong: `subject`, or else `path`."""
        return self.path if self.subject is None else self.subject


class Touched(NamedTuple):
    """Bytes of the shared memory of a CTA that a finding is about: addresses from `begin` to `end` (exclusive)."""

    cta: int
    begin: int
    end: int

    def meets(self, other: Touched) -> bool:
        """Do the two have a byte in common?"""
        return self.cta == other.cta and self.begin < other.end and other.begin < self.end


PTX_LINE = ", PTX line"  # after the name of a kernel whose PTX is in no file


def at_line(launch: str, line: int) -> str:
    """A line of the PTX of a launch, in words.

    >>> at_line("kernel.ptx", 7), at_line("gemm" + PTX_LINE, 7)
    ('kernel.ptx:7', 'gemm, PTX line 7')
    """
    return f"{launch} {line}" if launch.endswith(PTX_LINE) else f"{launch}:{line}"


class InLaunch(NamedTuple):
    """An instruction of a launch. It is None if the finding is about no single instruction.

    The launch is named by its PTX file. For PTX without a file, it is the name of the kernel and `PTX_LINE`. The line
    of the source that the kernel author wrote is `place`. It differs from the line of the instruction if a function
    only wraps it.

    Concerned bytes of shared memory are `touched`. Other findings about the same bytes may follow from this one. The
    kind of operation, which distinguishes findings of one code at one line, is `operation`. In `arrays` are addresses
    of global memory, one in each array that is concerned. The other access of a race is `other`, with `other_place`. If
    the race is between lanes of a warp, `within_warp` is set, and bar.warp.sync orders them.

    Findings of one code at one line of the source are shown as one, unless their `kind` differs: the operand, or what
    is missing.
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
    kind: str = ""

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
        """The line of the PTX; 0 if there is no instruction."""
        return 0 if self.instruction is None else self.instruction.line

    @property
    def site(self) -> int:
        """The site of the instruction (`Instruction.site`); 0 if there is none."""
        return 0 if self.instruction is None else self.instruction.site

    @property
    def source(self) -> Location | None:
        """The line of the source of the instruction, with the calls that were inlined around it."""
        return None if self.instruction is None else self.instruction.location


Place: TypeAlias = InWord | InScenario | InLaunch


# ---- The parts of a finding


class Fix(NamedTuple):
    """A change of a scenario: the path, the old value, the new value."""

    path: Path
    old: Value
    new: Value


class Half(NamedTuple):
    """One of the accesses that a finding is about.

    The word `does` is "write", "read", "wait" or similar. The thread or operation and the bytes are in `text`. Its PTX
    is `instruction`, its line of the source is `place`. Both are None if they are not known.
    """

    does: str
    text: str
    instruction: Instruction | None = None
    place: Location | None = None

    @property
    def source(self) -> Location | None:
        """The line of the source that the author of the kernel wrote; None if it is not known."""
        if self.place is not None or self.instruction is None or self.instruction.location is None:
            return self.place
        return self.instruction.location.place

    def at(self, launch: str) -> str:
        """The place of the access: the line of the source first, then the line of the PTX."""
        if self.instruction is None:
            return ""
        line = self.instruction.line
        source = self.source
        if source is None:
            return at_line(launch, line) if launch else f"line {line}"
        return f"{source.file.rpartition('/')[2]}:{source.line}, PTX line {line}"


class Other(NamedTuple):
    """The other access of a race: its line of the source (`file:line`, "" if unknown), its line of the PTX, and the
    text of its instruction.
    """

    source_line: str
    ptx_line: int
    text: str
    location: Location | None = None

    @property
    def line(self) -> int:
        """The line of the PTX."""
        return self.ptx_line


class Parts(NamedTuple):
    """The four parts of a message, one clause each: what is wrong, where, why, and the fix. `where` has both accesses
    of a race.
    """

    what: str
    where: tuple[str, ...]
    why: str
    fix: str


class Element(TypedDict):
    """The first wrong element of an operand: its position, what is read there, and what was meant.

    `block` and `step` count the words of the operand from 0. The element is read at `address` in shared memory, or at
    `lane`, `column` and `byte` in tensor memory.
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


MOST_BESIDE = 60  # characters of a source that is printed at the right of why
OR = "; or "  # between the fixes of `Finding.repair`, which are printed in a row each
NOTES = {Severity.NOTE: "note: ", Severity.LUCK: "works by accident: "}  # before what is said
STYLES = {Severity.TRAP: "red", Severity.WRONG: "red", Severity.LUCK: "yellow", Severity.NOTE: "cyan"}
MOST_LINES = 12  # lines of instructions with the same finding that are listed
MOST_FOLLOWERS = 6  # places of findings of one code that follow from another finding


@dataclasses.dataclass(frozen=True)
class Finding(metaclass=OwnMembers):
    """One thing that is wrong, or works by accident. `print(finding)` prints it.

    - Rule: `code` and `severity`.
    - Text: `what`, `why` and `repair` are clauses: what is wrong, the reason, and the fix. All four parts are `parts`.
      The text without the fix is `message`.
    - Trial: `tried` is True if smemsim executed the scenario or the kernel with the fix. The executed change is
      `trial`. A change that did not help is `failed`.
    - Place in a launch: `source_line` ("gemm.cu:91"), `ptx_line` (303), and `other` (the other access of a race).
    - Place in a scenario: `path` ("step[1].a.word"). Any place in words is `where`, as an object `at`.
    - Accesses: `halves`, with their lines. Other instructions with the same finding are `alike`.
    - Evidence: `source`, `rule` and `grade`: the document, the name of the rule, and how sure it is.
    - Cause: `cause`, the finding that this one follows from. A finding made of one of `smemsim.check` about the
      executed transfers has that one as `check`.
    - Elements: `wrong` of `of` elements of an operand are wrong. The first one is `first`. Their common properties are
      `pattern`.
    - Changes: `changes`, those of the scenario that were tried and make it right, all together. One change is `fix`.

    >>> import smemsim
    >>> word = smemsim.SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=128, swizzle="128B")
    >>> finding = word.problems(dtype="bf16", major="K", rows=64, k=16)[0]
    >>> str(finding.code), finding.where, finding.repair
    ('D307', 'stride_byte_offset', 'stride_byte_offset 128 B must be 1024 B or more, to step over an atom of 8 x 128 B (1024 B: 0x4000004000000040)')
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "about", "arrays", "beside", "fixes", "inside", "is_milder", "is_within_warp", "operation", "site", "touched",
    )  # fmt: skip

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
    compiler: str = ""  # whose fault it is, if it is one of a compiler: "Triton", "TileLang" ...
    # whose sources may be shown
    folders: tuple[pathlib.Path, ...] = dataclasses.field(default=(), compare=False, repr=False)
    why: str = ""
    halves: tuple[Half, ...] = ()
    tried: bool = False
    trial: str = ""  # the change that was executed, in words
    beside: bool = False  # is the executed change another one than those in `repair`?
    failed: str = ""  # a change that was executed, and does not fix it
    ctas: tuple[int, ...] = ()  # in which a race was seen, by their numbers in the grid; empty if that is not known

    @property
    def message(self) -> str:
        """The fault, the accesses, and the reason, as one text."""
        return "; ".join(filter(None, (self.what, *(f"{half.does}: {half.text}{_of_line(half)}" for half in self.halves), self.why)))

    @property
    def fixes(self) -> tuple[str, ...]:
        """The fixes of which one is enough, the likeliest first; `repair` is all of them."""
        return _fixes(self.repair)

    @property
    def parts(self) -> Parts:
        """The four parts as they are printed: what, where, why, fix.

        >>> import smemsim
        >>> word = smemsim.SmemDescriptor(arch="sm_90a", start_address=0x400, stride_byte_offset=128, swizzle="128B")
        >>> word.problems(dtype="bf16", major="K", rows=64, k=16)[0].parts.where
        ('stride_byte_offset',)
        """
        launch = self.at.launch if isinstance(self.at, InLaunch) else ""
        where = tuple(f"{half.does}: {half.text}, {half.at(launch)}".removesuffix(", ") for half in self.halves)
        return Parts(told(self.what), (self._headed, *map(told, where)), told(self.why), told(self.repair))

    @property
    def _headed(self) -> str:
        """The place that a message starts with: the line of the source or of the PTX, a part of a
        scenario, or a field.
        """
        if isinstance(self.at, InLaunch) and self.place is not None:
            return _below_here(self.place.path)
        if isinstance(self.at, InWord) and self.where.startswith("_"):
            return "reserved bits"
        if isinstance(self.at, InWord) and re.fullmatch(r"r\d+", self.where):
            return f"reserved bit {self.where[1:]}"
        return (self.at.title if isinstance(self.at, InScenario) else "") or self.where

    @property
    def _headed_once(self) -> str:
        """The place before the text; "" if the text begins with it."""
        return "" if isinstance(self.at, InWord) and self.at.named else self._headed

    @property
    def where(self) -> str:
        """The place in words: a field, a path into a scenario, or a line of PTX with its line of the source."""
        return str(self.at)

    @property
    def because(self) -> str:
        """The finding that this one follows from. If there is none: the document of the rule."""
        if self.cause is None:
            return self.source
        return self._follows_from if isinstance(self.cause.at, InLaunch) else self.cause.code

    @property
    def _follows_from(self) -> str:
        """The relation to the cause, in words; "" without a cause."""
        if self.cause is None:
            return ""
        at = self.cause.at.instruction if isinstance(self.cause.at, InLaunch) else None
        return f"follows from {self.cause.code}" + ("" if at is None else f" at {at.at}")

    @property
    def is_milder(self) -> bool:
        """Is the severity milder than that of the code?"""
        return self.severity is not CODES[self.code].severity

    @property
    def fix(self) -> tuple[str, Value, Value] | None:
        """The change that makes the scenario right: (path, old value, new value). None if none is known, or if
        several changes are needed (`changes`). `repair` has the fix in words.
        """
        return (str(self.changes[0].path), *self.changes[0][1:]) if len(self.changes) == 1 else None

    # ---- in a scenario

    @property
    def path(self) -> Path:
        """The path into the scenario. It is empty for findings without a scenario."""
        return self.at.path if isinstance(self.at, InScenario) else Path()

    @property
    def about(self) -> Path:
        """The path of the part that is wrong; differs from `path` if another value must change."""
        return self.at.about if isinstance(self.at, InScenario) else Path()

    @property
    def inside(self) -> InWord | None:
        """The field of the word, if the finding is about a word."""
        return self.at.inside if isinstance(self.at, InScenario) else self.at if isinstance(self.at, InWord) else None

    # ---- in a launch

    @property
    def line(self) -> int:
        """The same as `ptx_line`."""
        return self.at.line if isinstance(self.at, InLaunch) else 0

    @property
    def site(self) -> int:
        """The number of the instruction in tables; 0 if there is none."""
        return self.at.site if isinstance(self.at, InLaunch) else 0

    @property
    def location(self) -> Location | None:
        """The source line of the instruction itself, if the PTX has `.loc`, with the calls that were inlined."""
        return self.at.source if isinstance(self.at, InLaunch) else None

    @property
    def instruction(self) -> str:
        """The text of the PTX instruction. "" if there is none."""
        return self.at.instruction.text if isinstance(self.at, InLaunch) and self.at.instruction is not None else ""

    @property
    def place(self) -> Location | None:
        """The source line that the author of the kernel wrote. If a function only wraps the instruction, it is the
        line of its caller.
        """
        return self.at.place if isinstance(self.at, InLaunch) else None

    @property
    def touched(self) -> tuple[Touched, ...]:
        """The bytes of shared memory that the finding is about."""
        return self.at.touched if isinstance(self.at, InLaunch) else ()

    @property
    def operation(self) -> str:
        """The kind of operation, if one line can have several findings of one code."""
        return self.at.operation if isinstance(self.at, InLaunch) else ""

    @property
    def arrays(self) -> tuple[int, ...]:
        """Addresses of global memory, one in each array that is concerned."""
        return self.at.arrays if isinstance(self.at, InLaunch) else ()

    @property
    def source_line(self) -> str:
        """The line of the source (CUDA, Python) as `file:line`. "" if the PTX has no line table, and for findings
        without a launch.
        """
        place = self.place if self.place is not None else self.location
        return "" if place is None else str(place)

    @property
    def ptx_line(self) -> int:
        """The line of the PTX, counted from 1. It is 0 for findings without a launch."""
        return self.line

    @property
    def other(self) -> Other | None:
        """The other access of a race. None if there is none, or if it is the same
        instruction."""
        other = self.at.other if isinstance(self.at, InLaunch) else None
        if other is None or self._is_same(other):
            return None
        place = self._other_place
        return Other("" if place is None else str(place), other.line, other.text, other.location)

    @property
    def _other_place(self) -> Location | None:
        """The source line of `other`, with the calls that were inlined."""
        if not isinstance(self.at, InLaunch) or self.at.other is None or self._is_same(self.at.other):
            return None
        return self.at.other_place or self.at.other.location

    def _is_same(self, other: Instruction) -> bool:
        """Is it the instruction of the finding, or a copy of it in another inlined call?"""
        return other.site == self.site

    @property
    def is_within_warp(self) -> bool:
        """Is it a race between lanes of one warp?"""
        return isinstance(self.at, InLaunch) and self.at.within_warp

    @property
    def count(self) -> int:
        """The number of instructions with this finding."""
        return 1 + len(self.alike)

    @property
    def lines(self) -> tuple[int, ...]:
        """The PTX lines of all instructions with this finding."""
        return tuple(dict.fromkeys(line for line in (self.line, *(other.line for other in self.alike)) if line))

    @property
    def _places(self) -> tuple[Location, ...]:
        """The source lines of all instructions with this finding."""
        return tuple(dict.fromkeys(place for place in (self.place, *(other.place for other in self.alike)) if place is not None))

    # ---- as text and as JSON

    @property
    def printed(self) -> Printed:
        """The finding as it is printed: `lines()`, `rows()`, `fix()`, `excerpt()`, `others()`."""
        return Printed(self)

    def __repr__(self) -> str:
        return f"<Finding {_cut(f'{self.code} {self.severity} at {self.where}: {told(self.message)}')}>"

    def __str__(self) -> str:
        return plain(self.printed.lines())

    def _fix(self) -> dict[str, Any]:
        """The fix, as JSON has it."""
        more = {"trial": self.trial, "failed": self.failed}
        own = {"text": self.repair, "tried": self.tried} | {name: text for name, text in more.items() if text}
        return own | ({"beside": True} if self.beside else {})

    def as_dict(self) -> dict[str, Any]:
        """The finding as a dictionary for JSON. The keys depend on the kind of place."""
        said = {"code": self.code, "severity": str(self.severity), "where": self.where, "what": self.what, "why": self.why,
                "fix": self._fix()}  # fmt: skip
        match self.at:
            case InWord():
                return said | {"message": self.message, "repair": self.repair, "because": self.because}
            case InScenario():
                return said | {
                    "message": self.message, "numbers": dict(self.numbers), "first": None if self.first is None else dict(self.first),
                    "wrong": self.wrong, "of": self.of, "pattern": list(self.pattern),
                    "repair": {"text": self.repair} | (_changed(*self.fix) if self.fix is not None else _changed(None, None, None)),
                    "together": [_changed(str(path), old, new) for path, old, new in (self.changes if len(self.changes) > 1 else ())], "because": self.because, "grade": str(self.grade),
                }  # fmt: skip
            case InLaunch():
                return said | {
                    "line": self.line, "location": str(self.place) if self.place else None,
                    "chain": [str(place) for place in self.location.chain] if self.location else [], "count": self.count, "lines": list(self.lines),
                    "locations": [place.path for place in self._places], "mentions": self._mentions(), "instruction": self.instruction, "other": self._other(), "halves": [self._half(half) for half in self.halves],
                    "ctas": {"count": len(self.ctas), "first": self.ctas[0]} if self.ctas else None,
                    "message": self.message,
                    "repair": self.repair, "because": self.because, "follows": None if self.cause is None else {"code": self.cause.code, "line": self.cause.line or None}, "compiler": self.compiler or None, "check": self.check.as_dict() if self.check else None,
                }  # fmt: skip

    def _mentions(self) -> list[dict[str, Any]]:
        """The lines of the PTX that the message names, except the finding's own, with their lines of the source."""
        own = {half["line"]: half["location"] for half in map(self._half, self.halves) if half["location"] and half["line"] != self.line}
        return [{"line": line, "location": location} for line, location in own.items()]

    @staticmethod
    def _half(half: Half) -> dict[str, Any]:
        """One access as a dictionary for JSON."""
        i = half.instruction
        place = half.source
        return {
            "does": half.does,
            "text": half.text,
            "line": None if i is None else i.line,
            "location": None if place is None else str(place),
        }

    def _other(self) -> dict[str, Any] | None:
        """The other access of a race as a dictionary for JSON."""
        if self.other is None:
            return None
        place = self._other_place
        return {"line": self.other.line, "location": str(place) if place is not None else None, "instruction": self.other.text}


@dataclasses.dataclass(frozen=True)
class Printed:
    """A finding as commands and pages print it: its lines, the quoted source, and the instructions like it."""

    finding: Finding

    def lines(self, width: int = COLUMNS, before: int = 0) -> list[Line]:
        """The message as styled lines, at most `width` columns wide. `before`: columns of a
        prefix of the first line.
        """
        style = STYLES[self.finding.severity]
        note = _note(self.finding.severity, follows=self.finding.cause is not None)
        place = self.finding._headed_once and f"{self.finding._headed_once}  "
        return message_lines(
            Line([(f"{self.finding.code}  ", style), (place, "")]), f"{note}{told(self.finding.what)}", self.rows(), width, before
        )

    def rows(self) -> Iterator[Labelled]:
        """The labelled lines of a message."""
        if isinstance(self.finding.at, InLaunch):
            yield from self._rows_of_launch(self.finding.at)
        else:
            yield from (Labelled(half.does, told(half.text)) for half in self.finding.halves)
        because = self.finding._follows_from or self.finding.because
        yield from _reason_rows(self.finding.why, because, self.finding._fix(), follows=self.finding.cause is not None)

    def sentence(self) -> str:
        """Code, place, message and fix on one line, for exceptions and tables."""
        f = self.finding
        place = f._headed_once and f" {f._headed_once}"
        return "; ".join(filter(None, (f"{f.code}{place}: {told(f.message)}", f"fix: {told(f.repair)}" if f.repair else "")))

    def page_rows(self) -> tuple[Labelled, ...]:
        """The labelled lines that a report page shows below the head."""
        return tuple(row for row in self.rows() if row.text)

    def fix(self) -> str:
        """The fix as it is printed, with what was executed; "" if none is known."""
        return OR.join(row.text for row in _fix_rows(self.finding._fix()) if row.label in ("fix", "or"))

    def _rows_of_launch(self, at: InLaunch) -> Iterator[Labelled]:
        """The place: each access with its lines, or the instruction."""
        for half in self.finding.halves:
            yield Labelled(half.does, told(half.text), half.at(at.launch) if half.instruction is not None else "")
        if len(self.finding.ctas) > 1:
            yield Labelled("in", f"{len(self.finding.ctas)} CTAs, first CTA {self.finding.ctas[0]}")
        is_named = any(half.instruction is not None for half in self.finding.halves)
        if not is_named and at.instruction is not None and self.finding.place is not None:
            inner = "" if at.source is None or self.finding.place is at.source else f" ({str(at.source).rpartition('/')[2]})"
            yield Labelled("at", f"{told(at.instruction.name)}{inner}", at_line(at.launch, at.instruction.line))

    def excerpt(self) -> list[str]:
        """The text of the lines: source (if the file can be read), PTX, then those of the other access of a race."""
        if not self.finding.line:
            return []
        first = self.finding.place if self.finding.place is not None else self.finding.location
        lines = [*self._source_of(self.finding.location, first), f"{self.finding.line} | {shortened(self.finding.instruction)}"]
        if self.finding.other is not None:
            lines += [
                *self._source_of(self.finding.other.location, self.finding._other_place),
                f"{self.finding.other.line} | {shortened(self.finding.other.text)}",
            ]
        return list(dict.fromkeys(lines))

    def unread(self) -> str:
        """The source file of the finding if it cannot be read, so that `excerpt` has no line of it; else ""."""
        from smemsim.base.files import source_text  # findings of words need no files

        place = self.finding.place if self.finding.place is not None else self.finding.location
        return place.file if place is not None and not source_text(place.file, self.finding.folders) else ""

    def _source_of(self, location: Location | None, first: Location | None) -> Iterator[str]:
        """The source lines of an instruction that can be read. The line of the place `first` comes first."""
        from smemsim.base.files import source_line  # findings of words need no files

        chain = location.chain if location is not None else ()
        for place in sorted(chain, key=lambda place: place is not first):
            if source := source_line(place.file, place.line, self.finding.folders):
                yield f"{str(place).rpartition('/')[2]} | {_cut(source)}"

    def others(self) -> str:
        """The other instructions with this finding, in words; "" if there are none."""
        if not self.finding.alike:
            return ""
        lines = [str(n) for n in self.finding.lines if n != self.finding.line]
        places = list(dict.fromkeys(str(place) for place in self.finding._places if str(place) != str(self.finding.place)))
        at = f" (PTX line{'s' * (len(lines) > 1)} {', '.join(lines[:MOST_LINES])}{' ...' * (len(lines) > MOST_LINES)})" if lines else ""
        of = f", also of {', '.join(places[:MOST_LINES])}" if places else ""
        return f"and {len(self.finding.alike)} more like it{at}{of}"


def folded(findings: Sequence[Finding]) -> list[tuple[Finding, str]]:
    """The findings of a launch that follow from no other one, each with a sentence about those that follow from it, or
    "".
    """
    given = [f.as_dict() for f in findings]
    return [(findings[n], followers) for n, followers in _folded(given)]


def messages_of(found: Sequence[Mapping[str, Any]], before: int = 0) -> list[str]:
    """The messages of a launch's findings, of what `Finding.as_dict` says about them. A finding that follows from
    another one is named in a line below that one. `before`: columns of a prefix of each first line.
    """
    return [
        "\n".join(filter(None, (message_of(found[n], before), f"      {followers}" * bool(followers)))) for n, followers in _folded(found)
    ]


def _folded(found: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Which findings follow from no other one, by their places in a list, and a sentence about those that do."""
    leaders = {
        (f["code"], line): n for n, f in reversed([*enumerate(found)]) if not f.get("follows") for line in (*f.get("lines", ()), None)
    }
    followers: dict[int, list[Mapping[str, Any]]] = {n: [] for n in range(len(found))}
    for n, f in enumerate(found):
        if cause := f.get("follows"):
            leader = leaders.get((cause["code"], cause["line"]))
            if leader is not None:
                followers[leader].append(f)
                del followers[n]
    return [(n, _followers(own)) for n, own in followers.items()]


def _followers(found: Sequence[Mapping[str, Any]]) -> str:
    """Findings that follow from another one, in words: their codes and places; "" for none."""
    places: dict[tuple[str, bool], list[str]] = {}
    for f in found:
        has_source = bool(f.get("location"))
        places.setdefault((f["code"], has_source), []).append(place_of(f) if has_source else str(f["line"]))
    told = []
    for (code, has_source), at in places.items():
        lines = "" if has_source else f"PTX line{'s' * (len(at) > 1)} "
        told.append(f"{code} at {lines}{', '.join(dict.fromkeys(at[:MOST_FOLLOWERS]))}{' ...' * (len(at) > MOST_FOLLOWERS)}")
    return f"{len(found)} more follow{'s' * (len(found) == 1)} from it: {'; '.join(told)}" if found else ""


def message_of(found: Mapping[str, Any], before: int = 0) -> str:
    """The message of a finding, of what `Finding.as_dict` says about it.

    >>> word = in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used", why="the operand is one atom wide")
    >>> print(message_of(word.as_dict()))
    D310  leading_byte_offset  note: LBO = 64 B is never used
          why     the operand is one atom wide
    """
    return plain(
        message_lines(
            Line([(f"{found['code']}  ", ""), (f"{_head_of(found)}  ", "")]),
            f"{_note(Severity(found['severity']), follows=bool(found.get('follows')))}{told(found['what'])}",
            rows_of(found),
            before=before,
        )
    )


def headline_of(found: Mapping[str, Any], kernel: str = "") -> str:
    """The code, the place, the kernel and what is wrong, of what `Finding.as_dict` says about a finding.

    >>> headline_of(in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used").as_dict())
    'D310 leading_byte_offset: LBO = 64 B is never used'
    """
    return f"{found['code']} {place_of(found)}{f' in {kernel}' if kernel else ''}: {told(found['what'])}"


def _head_of(found: Mapping[str, Any]) -> str:
    """The place in the first line of a message, as `Finding` prints it."""
    return _below_here(found["locations"][0]) if found.get("locations") and found.get("location") else place_of(found)


def place_of(found: Mapping[str, Any]) -> str:
    """The line of the source without its folder, else the place in words."""
    place = str(found.get("location") or found["where"])
    return place.rpartition("/")[2]


def _note(severity: Severity, *, follows: bool) -> str:
    """How a remark begins. A consequence of a fault does not work by accident: it does not work."""
    return "" if follows and severity is Severity.LUCK else NOTES.get(severity, "")


def rows_of(found: Mapping[str, Any]) -> Iterator[Labelled]:
    """The labelled lines of a finding, of what `Finding.as_dict` says about it: the accesses, why, fix."""
    for half in found.get("halves", ()):
        source = str(half["location"] or "").rpartition("/")[2]
        yield Labelled(
            half["does"], told(half["text"]), ", ".join(filter(None, (source, f"PTX line {half['line']}" if half["line"] else "")))
        )
    if (ctas := found.get("ctas")) is not None and ctas["count"] > 1:
        yield Labelled("in", f"{ctas['count']} CTAs, first CTA {ctas['first']}")
    yield from _reason_rows(found["why"], found.get("because", ""), found["fix"], follows=bool(found.get("follows")))


def _reason_rows(why: str, because: str, fix: Mapping[str, Any], *, follows: bool) -> Iterator[Labelled]:
    """The rows "why" and "fix". A short source stands at the right of the reason, a longer one in a row of its own. If
    the finding `follows` from another one, the next row names that one.
    """
    is_long = bool(why) and len(because) > MOST_BESIDE and not follows
    if why:
        yield Labelled("why", told(why), "" if is_long or follows else because)
    if because and (follows or not why):
        yield _alone(because, follows=follows)
    yield from _fix_rows(fix)
    if is_long:
        yield Labelled("source", told(because))


def _alone(because: str, *, follows: bool) -> Labelled:
    """The row of a finding without a reason of its own: the finding that it `follows` from, or the document."""
    return Labelled("cause", because.removeprefix("follows from ")) if follows else Labelled("rule", told(because))


def _fixes(repair: str) -> tuple[str, ...]:
    return tuple(repair.split(OR)) if repair else ()


def _fix_rows(fix: Mapping[str, Any]) -> Iterator[Labelled]:
    """The fix, and what was executed of it."""
    beside = fix.get("beside", False)  # is the executed change another one than the fix?
    for n, text in enumerate(_fixes(fix["text"])):
        yield Labelled("or" if n else "fix", f"{told(text)}{' (tried)' * (fix['tried'] and not beside and not n)}", style="green")
    if beside:
        yield Labelled("tried", f"{told(fix['trial'])}: the finding is gone")
    if fix.get("failed"):
        yield Labelled("tried", f"{told(fix['failed'])}: the finding stays")


def _below_here(path: str) -> str:
    """A line of the source with the calls that were inlined, these without folders. A file below the current folder is
    named without the path of that folder.

    >>> _below_here("./h.h:31, inlined at src/gemm.cu:7")
    'h.h:31, inlined at gemm.cu:7'
    """
    first, *calls = path.split(", inlined at ")
    first = first.removeprefix(f"{os.getcwd()}/").removeprefix("./")
    return ", inlined at ".join([first, *(call.rpartition("/")[2] for call in calls)])


def _of_line(half: Half) -> str:
    return "" if half.instruction is None else f" ({half.instruction.at})"


def _changed(path: str | None, old: Value, new: Value) -> dict[str, Value]:
    return {"path": path, "old": old, "new": new}


def in_word(
    word: str, code: str, field: str, message: str, repair: str = "", source: str = "", severity: Severity | None = None, against: tuple[str, ...] = (),
    why: str = "", *, named: bool = False,
) -> Finding:  # fmt: skip
    """A finding at a field of a word, of the severity that its code has unless another is given. `named`: the message
    begins with the field.

    >>> print(in_word("shared-memory descriptor", "D310", "leading_byte_offset", "LBO = 64 B is never used"))
    D310  leading_byte_offset  note: LBO = 64 B is never used
    """
    return Finding(
        code, severity or CODES[code].severity, InWord(word, Path.parse(field), against, named), message, repair, source, why=why
    )


def at_instruction(
    code: str, i: Instruction, message: str, repair: str = "", *, because: str = "", milder: Severity | None = None,
    touched: tuple[Touched, ...] = (), operation: str = "", arrays: tuple[int, ...] = (), other: Instruction | None = None, within_warp: bool = False,
    why: str = "", halves: tuple[Half, ...] = (), numbers: Mapping[str, Value] | None = None, kind: str = "",
) -> Finding:  # fmt: skip
    """A finding at an instruction: `because` is the source of the rule, `milder` another severity than its code's;
    the rest as `InLaunch` has it.
    """
    at = InLaunch(i, touched=touched, operation=operation, arrays=arrays, other=other, within_warp=within_warp, kind=kind)
    return Finding(code, milder or CODES[code].severity, at, message, repair, because, why=why, halves=halves, numbers=numbers or {})


def of_kind(f: Finding, kind: str) -> Finding:
    """A finding of a launch with its kind (see `InLaunch`)."""
    return dataclasses.replace(f, at=f.at._replace(kind=kind)) if isinstance(f.at, InLaunch) else f


class TensorMapError(SmemsimError, ValueError):
    """The driver's encode call refuses these arguments.

    `violations` has one sentence for each rule that is broken. `findings` has the same as findings, with the source
    of each rule.

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
        """One sentence for each rule that is broken."""
        return [f.message for f in self.findings]


# ---- Shorter sentences and lines of PTX


MOST_ITEMS = 8  # registers of a list that are shown
LONGEST_LINE = 160  # characters of a line of PTX or source
LONGEST_INSTRUCTION = 56  # characters of an instruction's name in a sentence
_LIST = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"\w+(?:(?:\.|::)\w+){3,}")  # of an instruction


def expect_words(numbers: Sequence[tuple[int, int]], made: int, at: Callable[..., str]) -> str:
    """The bytes that lines of PTX should expect, in words. Pass pairs of a line and its bytes.

    `made` is the line that has the number of all of them; 0 for none. The function `at` names lines.

    >>> def at(*lines): return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    >>> expect_words([(69, 16384), (203, 16384), (322, 8192)], 0, at)
    'expect 16384 bytes in lines 69, 203, and 8192 bytes in line 322'
    >>> expect_words([(69, 16384), (203, 16384)], 67, at)
    'expect 16384 bytes: change the number in line 67, which lines 69, 203 use'
    """
    if made and len({size for _, size in numbers}) == 1:
        users = [line for line, _ in numbers]
        return f"expect {numbers[0][1]} bytes: change the number in {at(made)}, which {at(*users)} use{'s' * (len(users) == 1)}"
    lines: dict[int, list[int]] = {}
    for line, size in numbers:
        lines.setdefault(size, []).append(line)
    return "expect " + ", and ".join(f"{size} bytes in {at(*own)}" for size, own in lines.items())


def of_ctas(ctas: Sequence[object]) -> str:
    """CTAs in which the same is found, by the first one and how many they are.

    >>> of_ctas(["(0, 0, 0)"]), of_ctas([4, 5, 9])
    ('of CTA (0, 0, 0)', 'of 3 CTAs (first: 4)')
    """
    return f"of CTA {ctas[0]}" if len(ctas) == 1 else f"of {len(ctas)} CTAs (first: {ctas[0]})"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words, three or more that follow one another as a range.

    >>> ranges([0, 1, 2, 3, 6, 8, 9])
    '0 to 3, 6, 8, 9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def told(text: str) -> str:
    """A sentence with readable names: C++ symbols demangled, long names of instructions without their middle.

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
    """A line of PTX, its lists of registers without those in the middle of long ones, and cut where it is still too
    long.
    """
    return _cut(_LIST.sub(_shortened, line))


def _shortened(found: re.Match[str]) -> str:
    items = found[1].split(",")
    return found[0] if len(items) <= MOST_ITEMS else f"{{{items[0].strip()}, ... {items[-1].strip()}}}"
