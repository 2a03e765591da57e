"""The content of a PTX module: functions, variables, instructions, and a list of its forms.

A register is a number: `Function.registers[slot]`; registers of inner scopes have their own slots. `Function.labels`
maps labels to the index of the next instruction. Numbers are bit patterns: `0f3F800000` is its 32 bits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from smemsim.base.errors import InputError
from smemsim.base.lazily import cached_property
from smemsim.core.spec.ptx_words import NO_SELECTOR
from smemsim.core.spec.targets import ARRIVALS, SCALE_INPUT, THIRD_SOURCE

__all__ = [
    "Address",
    "Arguments",
    "Function",
    "Immediate",
    "Instruction",
    "Label",
    "Location",
    "Module",
    "Operand",
    "Pair",
    "Parameter",
    "Prototype",
    "Register",
    "RegisterType",
    "Sink",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
    "instruction_forms",
    "lines_of",
    "place_of",
    "simd_selectors",
    "slots_in",
]


# ---- What a PTX file says, as data: functions with registers, variables and instructions, names
# resolved, scopes flattened


@dataclasses.dataclass(frozen=True)
class Location:
    """A line of the source the compiler was given (`.loc`); `caller` is where the function that has it was inlined,
    `function` the label of its name.
    """

    file: str
    line: int
    caller: Location | None = None
    function: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def chain(self) -> tuple[Location, ...]:
        """This line, the call that was inlined here, the call of that one, and so on out to the kernel."""
        return (self, *(self.caller.chain if self.caller is not None else ()))

    @property
    def place(self) -> Location:
        """The line that the author of the kernel knows an instruction by, if the kernel is linked
        (`core/ptx/sources.py`); else this line.
        """
        known: Location = self.__dict__.get("known", self)
        return known

    def note_place(self, place: Location) -> None:
        """Keep the line that the author of the kernel knows."""
        self.__dict__["known"] = place

    @property
    def path(self) -> str:
        """The chain in words: 'gemm.cu:92, inlined at line 163'."""
        told = str(self)
        for inner, outer in itertools.pairwise(self.chain):
            told += f", inlined at {f'line {outer.line}' if outer.file == inner.file else outer}"
        return told


@dataclasses.dataclass(frozen=True)
class RegisterType:
    """A declared register: its name in the text and its type without the dot ("pred", "b32", "f64", "b128" ...)."""

    name: str
    type: str


@dataclasses.dataclass(frozen=True)
class Register:
    """A register as an operand; `negated` is `!%p`, `part` the byte or half that a video instruction selects, "b2" of
    `%r1.b2`.
    """

    slot: int
    name: str
    type: str
    negated: bool = False
    part: str = ""


@dataclasses.dataclass(frozen=True)
class Immediate:
    """A number: an int (may be negative) for `kind` "int", the raw bits for "f32" (0f...) and "f64" (0d..., decimal
    numbers with a point).
    """

    value: int
    kind: str = "int"


@dataclasses.dataclass(frozen=True)
class Special:
    """A special register by its name without the percent sign: "tid.x", "laneid", "clock64"."""

    name: str


@dataclasses.dataclass(frozen=True)
class Symbol:
    """The address of a variable, of a parameter or of a function, and `offset` bytes."""

    name: str
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Label:
    """The target of a branch, or a list of targets (`.branchtargets`); a key of `Function.labels` or
    `Function.targets`.
    """

    name: str


@dataclasses.dataclass(frozen=True)
class Sink:
    """`_`: a result that is discarded."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True)
class Pair:
    """`d|p`: a result and its predicate."""

    first: Operand
    second: Operand


@dataclasses.dataclass(frozen=True)
class Address:
    """`[base + offset]`; with `coordinates` that of a tensor map: `[map, {c0, c1}]`. An absolute address has an
    Immediate base.
    """

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The parenthesised lists of a call: `(r0)`, `(p0, p1)`."""

    items: tuple[Operand, ...]


_NUMBERS = (Register, Immediate)  # by far the most operands
Operand: TypeAlias = Register | Immediate | Special | Symbol | Label | Sink | Vector | Pair | Address | Arguments

# their first operand is not a result, except that of `bar.red`; nor is that of `tcgen05.dealloc`
_NO_RESULT = frozenset(("bar", "barrier", "brx", "call", "nanosleep", "red", "st", "stackrestore"))


def _leaves(operand: Operand) -> Iterator[tuple[Operand, bool]]:
    """The parts of an operand, and whether each is part of an address; without the lists of a call."""
    pending = [(operand, False)]
    while pending:
        x, in_address = pending.pop()
        match x:
            case Vector():
                pending += [(item, in_address) for item in x.items]
            case Pair():
                pending += [(x.first, in_address), (x.second, in_address)]
            case Address():
                pending += [(item, True) for item in (x.base, *(x.coordinates or ()))]
            case _:
                yield x, in_address


def slots_in(operand: Operand) -> frozenset[int]:
    """The slots of the registers of an operand."""
    if isinstance(operand, Register):  # by far the most
        return frozenset((operand.slot,))
    return frozenset(leaf.slot for leaf, _ in _leaves(operand) if isinstance(leaf, Register))


LINE_BITS, MOST_OF_A_LINE = 22, 511  # of `Instruction.site`, an int32


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction: `ld.global.v4.b32` is op "ld" with modifiers ("global", "v4", "b32"); `::` stays within a
    modifier.
    """

    op: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None  # @%p, or with `negated` @!%p
    line: int  # in the PTX text, from 1
    location: Location | None
    text: str  # as written, blanks made single
    nth: int = 0  # of the instructions of its line

    @cached_property
    def site(self) -> int:
        """A number for tables: its line, if it is the first instruction there. Others have a number of their own."""
        return self.line + (min(self.nth, MOST_OF_A_LINE) << LINE_BITS)

    @property
    def name(self) -> str:
        """The operation with its modifiers, as written."""
        return ".".join((self.op, *self.modifiers))

    @property
    def at(self) -> str:
        """Its line in a sentence: "line 12", or with the line of the source "gemm.cu:43 (PTX line 12)"."""
        return lines_of([self])

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of its name, and those for operands that not every target has (`spec.targets`)."""
        return (self.op, *self.modifiers, *_of_operands(self))

    @cached_property
    def mentions(self) -> tuple[tuple[int, bool], ...]:
        """The slots of the registers it names, in order, and whether it gives them a value."""
        found = [] if self.guard is None else [(self.guard.slot, False)]
        gives = self.op not in _NO_RESULT or (self.op in ("bar", "barrier") and "red" in self.modifiers)
        gives = gives and not (self.op == "tcgen05" and self.modifiers[0] == "dealloc")
        for n, operand in enumerate(self.operands):
            if isinstance(operand, Register):  # by far the most
                found.append((operand.slot, n == 0 and gives))
            elif not isinstance(operand, Immediate):
                found += [
                    (leaf.slot, n == 0 and gives and not in_address) for leaf, in_address in _leaves(operand) if isinstance(leaf, Register)
                ]
        return tuple(found)

    @cached_property
    def given(self) -> frozenset[int]:
        """The slots of the registers that it gives a value."""
        return frozenset(slot for slot, gives in self.mentions if gives)

    @cached_property
    def used(self) -> frozenset[int]:
        """The slots of the registers whose values it uses."""
        return frozenset(slot for slot, gives in self.mentions if not gives)

    @cached_property
    def slots(self) -> frozenset[int]:
        """The slots of all registers that it names."""
        return self.given | self.used

    @cached_property
    def slot_bits(self) -> int:
        """The same as a bit set."""
        found = 0
        for slot, _ in self.mentions:
            found |= 1 << slot
        return found

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of the variables and functions that it names."""
        found: list[str] = []
        for operand in self.operands:
            if not isinstance(operand, _NUMBERS):
                for x in operand.items if isinstance(operand, Arguments) else (operand,):
                    found += [leaf.name for leaf, _ in _leaves(x) if isinstance(leaf, Symbol)]
        return tuple(found)


def place_of(site: int) -> tuple[int, int]:
    """The line of a site, and which instruction of that line it is: the order of the text.

    >>> place_of(Instruction("bar", ("sync",), (), None, 12, None, "bar.sync 0", nth=2).site)
    (12, 2)
    """
    return site & (1 << LINE_BITS) - 1, site >> LINE_BITS


MOST_NAMED = 6  # lines that a sentence lists


def lines_of(those: Iterable[Instruction]) -> str:
    """The lines of instructions in a sentence, those of the source first.

    >>> first, second = (Instruction("bar", ("sync",), (), None, line, None, "bar.sync 0") for line in (12, 15))
    >>> lines_of([first]), lines_of([first, second]), lines_of([])
    ('line 12', 'lines 12 and 15', '')
    """
    own = {i.line: i for i in those}
    *before, last = [str(line) for line in own][:MOST_NAMED] or [""]
    listed = ", ".join([*before, last]) + " ..." if len(own) > MOST_NAMED else " and ".join(filter(None, (", ".join(before), last)))
    lines = f"line{'s' * (len(own) > 1)} {listed}" if own else ""
    places = dict.fromkeys(str(i.location.place).rpartition("/")[2] for i in own.values() if i.location is not None)
    return f"{', '.join([*places][:MOST_NAMED])} (PTX {lines})" if places else lines


def _of_operands(i: Instruction) -> Iterator[str]:
    """Words of `spec.targets` for operands: scale-input-d, a third source, a count of arrivals, special registers."""
    match i.op, i.modifiers[:1]:
        case "tcgen05", ("mma",):
            if i.operands and isinstance(i.operands[-1], Immediate):
                yield SCALE_INPUT
        case (("min" | "max"), _):
            if len(i.operands) == len(("d", "a", "b", "c")):
                yield THIRD_SOURCE
        case "mbarrier", ("arrive" | "arrive_drop",):
            if i.operands and not isinstance(i.operands[-1], Address) and "noComplete" not in i.modifiers:
                yield ARRIVALS
    for operand in i.operands:
        if isinstance(operand, Special):
            yield f"%{operand.name.partition('.')[0]}"


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable in "global", "const", "shared", "local" or "param" space.

    Its `size` is in bytes, 0 for `extern .shared x[]`. The first bytes, if given, are `initial`. Addresses in them,
    which are known only after placement, are `references`: (offset, symbol, addend).
    """

    name: str
    space: str
    align: int
    size: int
    type: str
    initial: bytes | None = None
    references: tuple[tuple[int, str, int], ...] = ()
    is_extern: bool = False
    line: int = 0
    element: int = 1  # bytes of one of its elements


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of an entry or a function: `.param .b8 map[128]` has type "b8", size 128."""

    name: str
    type: str
    align: int
    size: int
    slot: int | None = None  # of a function's `.reg` parameter
    is_hidden: bool = False  # the driver gives it, not the launch


@dataclasses.dataclass(frozen=True)
class Prototype:
    """The target of an indirect call (`.callprototype`); the names are "_"."""

    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """An entry or a device function. Its body has no labels and no directives. A declaration (`.extern .func`) has no
    body.

    The performance directives are `directives`, by name without the dot: {"reqntid": (128, 1, 1), "maxnreg": (64,),
    "explicitcluster": ()}.
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: tuple[RegisterType, ...]
    variables: tuple[Variable, ...]
    body: tuple[Instruction, ...] | None
    labels: Mapping[str, int]
    targets: Mapping[str, tuple[str, ...]]  # .branchtargets lists
    directives: Mapping[str, tuple[int, ...]]
    line: int
    prototypes: Mapping[str, Prototype] = dataclasses.field(default_factory=dict)  # .callprototype, by label


@dataclasses.dataclass(frozen=True, eq=False)
class Module:
    """A PTX file, read: its `text`, and what that says."""

    version: str
    target: tuple[str, ...]  # ("sm_90a",)
    address_size: int
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    text: str = dataclasses.field(default="", repr=False)

    @property
    def own_target(self) -> str:
        """The architecture of `.target`: "sm_90a"; "" where it names none."""
        return next((t for t in self.target if t.startswith(("sm_", "compute_"))), "").replace("compute_", "sm_")

    @cached_property
    def entries(self) -> tuple[Function, ...]:
        """The kernels."""
        return tuple(f for f in self.functions.values() if f.is_entry)

    @cached_property
    def numbered(self) -> Mapping[str, int]:
        """The numbers of all functions, in their order."""
        return {name: n for n, name in enumerate(self.functions)}


# ---- The forms of the instructions of a PTX file and their lines, without running it


def instruction_forms(module: Module) -> dict[str, list[int]]:
    """The lines of every form of instruction, such as "ld.global.b32", the most frequent form first.

    >>> from smemsim.core.ptx.parser import read_module
    >>> head = ".version 8.8 .target sm_90a .address_size 64"
    >>> instruction_forms(read_module(head + " .entry k() { bar.sync 0; bar.sync 0; ret; }"))
    {'bar.sync': [1, 1], 'ret': [1]}
    """
    lines: dict[str, list[int]] = {}
    bodies = {id(function.body): function.body for function in module.functions.values()}  # that of an alias once
    for body in bodies.values():
        for instruction in body or ():
            lines.setdefault(instruction.name, []).append(instruction.line)
    return dict(sorted(lines.items(), key=lambda item: (-len(item[1]), item[0])))


def simd_selectors(i: Instruction) -> tuple[tuple[int, ...], ...]:
    """The selectors of a SIMD video instruction: the elements of the result that are written, and which elements of a,
    then b, its two sources are.

    The lowest element comes first; in the text of a selector the highest one (PTX ISA 9.1 §9.7.19). Raises InputError
    for a malformed selector.
    """
    count = int(i.op[-1])
    if any(isinstance(operand, Register) and operand.part == NO_SELECTOR for operand in i.operands):
        raise InputError(
            "the selector .b1024 does not compile: ptxas 13.0 reads it as the type of a tensor map. Give an operand its bytes in another order"
        )
    parts = [operand.part[1:] if isinstance(operand, Register) else "" for operand in i.operands]
    to, *sources = ([int(n) for n in reversed(part)] for part in parts)
    for n, (found, default) in enumerate(zip(sources, (range(count), range(count, 2 * count)), strict=False)):
        sources[n] = found or list(default)
        if len(sources[n]) != count:
            raise InputError(f"operand {n + 1}: a selector of a source names {count} elements")
    if to != sorted(set(to)) or max(to, default=0) >= count:
        raise InputError("a selector of the result names each of its elements once, the highest first")
    if any(sources[2:]):
        raise InputError("the third source has no selector")
    return tuple(to or range(count)), tuple(sources[0]), tuple(sources[1])
