"""The builders of PTX instructions: one for every operation, called once for each instruction of a program. There is no
list of the files with builders: every module of this package is imported before the first lookup.

A builder gets the instruction's modifiers and operands and returns what runs it: a plain function of the wave, or one
of the two forms that can make threads wait. For a form that it does not know it raises Unmodelled, before anything
runs.

    @implements("not")
    def build_not(i: Instruction, c: Linker) -> Step:
        ...
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.operation_types import OTHER_TYPES
from smemsim.core.spec.ptx_words import FLOAT_WORDS, FLOATS, MODIFIERS, OPERATIONS, TYPES, WORDS_OF, nearest
from smemsim.run.isa.registers import Wave

if TYPE_CHECKING:
    import numpy as np


__all__ = [
    "BEFORE_EXIT",
    "BUILDERS",
    "FOLLOWERS",
    "ON_EXIT",
    "Builder",
    "End",
    "Gate",
    "MissingType",
    "NotInPtx",
    "Plain",
    "Step",
    "UnmodelledForm",
    "builder_of",
    "builders",
    "implements",
    "limit",
    "misspelt",
    "no_such_form",
    "refuse",
    "unmodelled",
]


Plain: TypeAlias = Callable[[Wave], None]


@dataclasses.dataclass(frozen=True)
class Gate:
    """An operation before which threads may have to wait: for others of their warp, or for a barrier.

    `opens(x)` narrows the wave's selection to the threads that go on. The others wait at this instruction, which they
    will execute again. It returns False if no thread goes on. `run` is the operation. `keeps` are the registers (a
    bit set) that it handles itself if their values are stored elsewhere (`Wave.materialize`).
    """

    opens: Callable[[Wave], bool]
    run: Plain
    keeps: int = 0


@dataclasses.dataclass(frozen=True)
class End:
    """An operation after which each thread goes elsewhere, or waits. The call `run(x, following)` sets the positions of
    all threads of the selection.

    With `again`, it may leave threads waiting at this instruction, which they will execute again. If all threads go to
    one block, it is `target`.
    """

    run: Callable[[Wave, int], None]
    again: bool = False
    target: Callable[[], int] | None = None


Step: TypeAlias = Plain | Gate | End
Builder: TypeAlias = Callable[[Instruction, Any], Step]  # given the program's Linker, which asks for builders
BUILDERS: dict[str, Builder] = {}

# What must know when threads exit: barriers that wait for fewer from then on. Called with the wave and the threads.
ON_EXIT: list[Callable[[Wave, np.ndarray], None]] = []

# What keeps threads at their end. Called before `ON_EXIT`, with the same; returns the threads that do exit.
BEFORE_EXIT: list[Callable[[Wave, np.ndarray], np.ndarray]] = []


# What makes, of the step of an instruction that gives registers values, one that also notes where their bytes come
# from.
FOLLOWERS: list[Callable[[Instruction, Step, Any], Step]] = []


def implements(*operations: str) -> Callable[[Builder], Builder]:
    """Register a builder for instructions by how their names begin: "cp" for all that cp can be, "cp.async.bulk" for
    these alone.
    """

    def register(builder: Builder) -> Builder:
        for operation in operations:
            if operation in BUILDERS:
                raise AssertionError(f"{operation} has two builders")
            BUILDERS[operation] = builder
        return builder

    return register


def refuse(why: str, *operations: str) -> None:
    """Register instructions that are known and not modelled, with the reason for the user. It stands where their
    builder would.
    """

    def build(i: Instruction, c: Any) -> Step:
        raise unmodelled(i, why)

    implements(*operations)(build)


@functools.cache
def builders() -> dict[str, Builder]:
    """All builders by the beginnings of names, including those of modules that are not imported yet."""
    import smemsim.run.isa

    for module in pkgutil.walk_packages(smemsim.run.isa.__path__, "smemsim.run.isa."):
        importlib.import_module(module.name)
    return BUILDERS


def builder_of(i: Instruction) -> Builder | None:
    """The builder of an instruction: that of the longest beginning of its name that has one."""
    return builders().get(_registered((i.op, *i.modifiers)))


@functools.lru_cache(4096)  # names of instructions; kernels have a few hundred
def _registered(words: tuple[str, ...]) -> str:
    """The longest beginning of a name that has a builder; "" for none."""
    return next((name for count in range(len(words), 0, -1) if (name := ".".join(words[:count])) in builders()), "")


_SHAPE = re.compile(r"m\d+(n\d+)?(k\d+)?$")  # of a product
_LIKE_A_TYPE = re.compile(r"[a-w]\d+$")  # .x8 and .x32 are counts


class NotInPtx(InputError):
    """An instruction has a form that it does not have in the PTX that is known: ptxas refuses it."""


class MissingType(NotInPtx):
    """The same of its type."""


def misspelt(i: Instruction, isa: str = "PTX") -> str:
    """The message for the first word of an instruction that it does not have in PTX, with the nearest one. The result
    is "" if there is none. Words of a name that has a builder are words of PTX. Combinations of words are checked for
    floating-point arithmetic only.
    """
    of_builder = tuple(filter(None, _registered((i.op, *i.modifiers)).split(".")))
    for n, word in enumerate((i.op, *i.modifiers)):
        known = MODIFIERS if n else OPERATIONS
        if n < len(of_builder):
            continue
        own: Collection[str] | None = (OTHER_TYPES if word in TYPES else WORDS_OF).get(i.op) if n else None
        if own and word in TYPES and word not in own:
            return f"{i.name}: {i.op} has no .{word}; it has .{' .'.join(own)}"
        if own is not None and word in known and word not in own:
            return _slip(i, word, f"{isa} has no .{word} for {i.op}", own)
        if word in known or (n and _SHAPE.match(word)):
            continue
        dot, what = ("", f"{isa} has no instruction") if not n else (".", f"{isa} has no instruction with")
        return _slip(i, word, f"{what} {dot}{word}", TYPES if n and _LIKE_A_TYPE.match(word) else known, dot)
    types = TYPES.intersection(i.modifiers)
    if i.op in WORDS_OF and i.op not in ("cvt", "set", "setp") and types and types.isdisjoint(FLOATS):
        word = next((word for word in i.modifiers if word in FLOAT_WORDS), "")
        if word:
            return f"{i.name}: {isa} has .{word} for floating-point types alone"
    return ""


def _slip(i: Instruction, word: str, what: str, known: Collection[str], dot: str = ".") -> str:
    near = nearest(word, known)
    return f"{i.name}: {what}" + (f"; did you mean {dot}{near}?" if near else "")


def no_such_form(i: Instruction, why: str) -> NotInPtx:
    """The exception for a form of an instruction that PTX does not have."""
    return NotInPtx(f"{f'{why}: ' if why else ''}PTX has no such form, and ptxas refuses it")


class UnmodelledForm(Unmodelled):
    """No builder knows this form of an instruction, and `why`."""

    def __init__(self, i: Instruction, why: str) -> None:
        super().__init__(_said(i, why), line=i.line)
        self.why = why


def unmodelled(i: Instruction, why: str = "") -> UnmodelledForm:
    """The exception for a form of an instruction that no builder knows."""
    return UnmodelledForm(i, why)


def limit(i: Instruction, why: str) -> Unmodelled:
    """The exception for a form that PTX has, and smemsim does not model."""
    return Unmodelled(_said(i, why), line=i.line)


def _said(i: Instruction, why: str) -> str:
    return f"{i.name}{f': {why}' if why else ''}: not modelled"
