"""The words of an instruction's name, taken off one by one, so that none is overlooked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Instruction, Operand
from smemsim.core.spec.operation_types import OPERATION_TYPES
from smemsim.core.spec.ptx_words import TYPES
from smemsim.run.isa.registers import DTYPES
from smemsim.run.isa.registry import MissingType, misspelt, unmodelled

__all__ = ["Modifiers", "Operands"]


class Modifiers:
    """The modifiers of an instruction that no builder has looked at yet."""

    def __init__(self, i: Instruction, *known: str) -> None:
        self.instruction = i
        self.left = list(i.modifiers)
        for word in known:
            self.need(word)

    def has(self, word: str) -> bool:
        """Is the modifier there? It is taken off."""
        if word not in self.left:
            return False
        self.left.remove(word)
        return True

    def need(self, *words: str) -> str:
        """Take off and return the first of these modifiers that the instruction has; UnmodelledForm if it has none."""
        name = self.one_of(words)
        if not name:
            raise unmodelled(self.instruction, f"without .{' or .'.join(words)}")
        return name

    def one_of(self, words: Iterable[str], default: str = "") -> str:
        """Take off and return the first of these modifiers that the instruction has, or the default."""
        return next((word for word in words if self.has(word)), default)

    def kinds(self, least: int = 1) -> list[str]:
        """The types, in order; Unmodelled where there are fewer than the instruction needs."""
        names = [word for word in self.left if word in DTYPES]
        self.left = [word for word in self.left if word not in DTYPES]
        if len(names) < least:
            needs = "it needs a type" if least == 1 else f"it needs {least} types"
            if TYPES.isdisjoint(self.left) and not misspelt(self.instruction):  # ptxas refuses it, too
                raise InputError(f"{needs}, such as .b32")
            raise unmodelled(self.instruction, needs)
        return names

    def kind(self) -> str:
        """The only type, one that the operation has: InputError for another one."""
        names = self.kinds()
        if len(names) > 1:
            raise unmodelled(self.instruction, f".{names[1]} beside .{names[0]}")
        return self.known(names[0])

    def known(self, kind: str) -> str:
        """The type, which the operation must have."""
        op = self.instruction.op
        if kind not in OPERATION_TYPES.get(op, (kind,)):
            raise MissingType(f"{op} has no .{kind}; it has .{' .'.join(OPERATION_TYPES[op])}")
        return kind

    def end(self, *, operands: Sequence[int] = ()) -> None:
        """UnmodelledForm for what is left; `operands`: how many of them there may be."""
        if self.left:
            raise unmodelled(self.instruction, f".{self.left[0]}")
        count = len(self.instruction.operands)
        if operands and count not in operands:
            raise unmodelled(self.instruction, f"{count} operands")


class Operands:
    """The operands of an instruction from left to right."""

    def __init__(self, i: Instruction) -> None:
        self.instruction = i
        self.left = list(i.operands)

    def next(self, what: str) -> Operand:
        """The next operand; Unmodelled when there is none."""
        if not self.left:
            raise unmodelled(self.instruction, f"without {what}")
        return self.left.pop(0)

    def end(self) -> None:
        """Unmodelled for what is left."""
        if self.left:
            raise unmodelled(self.instruction, f"{len(self.left)} operands more than this form has")
