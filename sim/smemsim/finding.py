"""What is wrong, and where: `Finding`, the places that it can be at, and the changes that mend it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["Path", "Value"]

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"  # as JSON has it
Key: TypeAlias = str | int


# ---- Where something stands in a scenario


@dataclasses.dataclass(frozen=True, slots=True)
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
