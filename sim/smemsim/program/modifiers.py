"""The words of an instruction's name, taken off one by one, so that none is overlooked."""

from __future__ import annotations

from collections.abc import Iterable

from smemsim.program.registry import unmodelled
from smemsim.ptx.module import Instruction, Operand

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
        """The one of these modifiers that is there; Unmodelled when none is."""
        found = self.one_of(words)
        if not found:
            raise unmodelled(self.instruction, f"without .{' or .'.join(words)}")
        return found

    def one_of(self, words: Iterable[str], default: str = "") -> str:
        """The one of these modifiers that is there, or the default."""
        return next((word for word in words if self.has(word)), default)

    def end(self) -> None:
        """Unmodelled for what is left."""
        if self.left:
            raise unmodelled(self.instruction, f".{self.left[0]}")


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
