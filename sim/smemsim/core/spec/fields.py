"""A machine word as a declarative table: the same rows encode it, decode it and draw its bit ruler.

>>> word = Word("demo", 16, {"address": Field(9, 0, unit="B", shift=4), "mode": Field(13, 10), "_r14": Field(15, 14, want=0)})
>>> word.encode(address=1024, mode=3)
3136
>>> word.decode(3136)
{'address': 1024, 'mode': 3, '_r14': 0}
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from smemsim.base.arguments import whole
from smemsim.base.errors import InputError

__all__ = ["PART_BITS", "Field", "Selection", "Word"]


PART_BITS = 64  # a long word is handled in parts of this many bits: shifting 1024-bit integers is slow


@dataclasses.dataclass(frozen=True)
class Field:
    """Bits `high` … `low`, both inclusive, as the manuals write them.

    The value is the raw bits shifted left by `shift`, plus `plus`. Fields in 16-byte units have shift 4. Fields that
    store n - 1 have plus 1. The documented constant of a fixed or reserved field is `want`. The name of a reserved
    field starts with `_`.
    """

    high: int
    low: int
    unit: str = ""
    shift: int = 0
    plus: int = 0
    want: int | None = None
    signed: bool = False
    source: str = ""

    @functools.cached_property
    def width(self) -> int:
        return self.high - self.low + 1

    @functools.cached_property
    def mask(self) -> int:
        return (1 << self.width) - 1

    @property
    def span(self) -> str:
        """Its bits as the manuals write them: "63:62", of one bit "52"."""
        return f"{self.high}:{self.low}" if self.width > 1 else str(self.high)

    def raw(self, word: Any) -> Any:
        """The field's bits of a word (an int, or a numpy array of unsigned 64-bit words)."""
        return (word >> self.low) & self.mask

    def value(self, word: int) -> int:
        raw: int = self.raw(word)
        if self.signed and raw >> (self.width - 1):
            raw -= 1 << self.width
        return (raw << self.shift) + self.plus

    def bits(self, where: str, value: Any) -> int:
        """The field's bits for a value, in place."""
        unit = f" {self.unit}" if self.unit else ""
        number = whole(where, value, wanted=f"a whole number{' of ' + self.unit if self.unit else ''}") - self.plus
        step = 1 << self.shift
        low = -(1 << (self.width - 1)) if self.signed else 0
        high = low + self.mask
        if number % step or not low <= number >> self.shift <= high:
            first, last = (low << self.shift) + self.plus, (high << self.shift) + self.plus
            wanted = f"a multiple of {step} from" if self.shift else "a value from"
            raise InputError(f"{where} = {value}{unit}: needs {wanted} {first} to {last}{unit}{_cited(self.source)}")
        return int((number >> self.shift) & self.mask) << self.low


def _cited(source: str) -> str:
    return f" ({source})" if source else ""


@dataclasses.dataclass(frozen=True, eq=False)
class Word:
    """A word of `bits` bits; the constructor refuses overlapping fields, holes and fields outside the word."""

    name: str
    bits: int
    fields: Mapping[str, Field]

    def __post_init__(self) -> None:
        taken = 0
        for name, field in self.fields.items():
            if not 0 <= field.low <= field.high < self.bits:
                raise ValueError(f"{self.name}.{name}: bits [{field.high}:{field.low}] are not inside {self.bits} bits")
            if taken & (field.mask << field.low):
                raise ValueError(f"{self.name}.{name}: bits [{field.high}:{field.low}] overlap another field")
            taken |= field.mask << field.low
        if taken != (1 << self.bits) - 1:
            hole = (~taken & ((1 << self.bits) - 1)).bit_length() - 1
            raise ValueError(f"{self.name}: bit {hole} belongs to no field")

    def check_range(self, word: Any, what: str = "") -> int:
        """The word as an int; two's complement is taken for a negative one that fits (debuggers print those)."""
        what = what or self.name
        value = whole(what, word, wanted=f"a {self.bits}-bit integer", most_bits=2 * self.bits)
        if not -(1 << (self.bits - 1)) <= value < 1 << self.bits:
            raise InputError(f"{what} = {value:#x}: does not fit {self.bits} bits")
        return value & ((1 << self.bits) - 1)

    def decode(self, word: int) -> dict[str, int]:
        """Every field's value, reserved ones included."""
        return {name: field.value(word) for name, field in self.fields.items()}

    def encode(self, **values: Any) -> int:
        """The word; fields left out hold their documented constant, or 0.

        >>> Word("demo", 8, {"address": Field(7, 0, unit="B", shift=4)}).encode(address=24)
        Traceback (most recent call last):
        smemsim.base.errors.InputError: demo.address = 24 B: needs a multiple of 16 from 0 to 4080 B
        """
        return self.changed(self._defaults, **values)

    def changed(self, word: int, **values: Any) -> int:
        """A word with other values in these fields."""
        unknown = sorted(values.keys() - self.fields.keys())
        if unknown:
            raise InputError(f"{self.name} has no field {', '.join(unknown)}; it has {', '.join(self.fields)}")
        for name, value in values.items():
            field = self.fields[name]
            word = word & ~(field.mask << field.low) | field.bits(f"{self.name}.{name}", value)
        return word

    @functools.cached_property
    def _defaults(self) -> int:
        return sum((field.want or 0) << field.low for field in self.fields.values())

    @functools.cached_property
    def parts(self) -> struct.Struct:
        """Takes the word's bytes apart into 64-bit parts, lowest first, and puts them together."""
        return struct.Struct(f"<{self.bits // PART_BITS}Q")

    def select(self, *names: str) -> Selection:
        """Some of the fields, in this order, to be read and written in the parts."""
        return Selection(self, names)

    def constants(self, word: int) -> Iterator[tuple[str, Field, int]]:
        """(name, field, raw bits) of every fixed or reserved field that does not hold its documented constant."""
        for name, field in self.fields.items():
            if field.want is not None and field.raw(word) != field.want:
                yield name, field, field.raw(word)


class Selection:
    """Fields of a long word, compiled from its table for `Word.parts`: a tensor map is read and written many thousand
    times a second.

    >>> word = Word("demo", 128, {"low": Field(67, 64, plus=1), "rest": Field(127, 68), "first": Field(63, 0)})
    >>> parts = [0, 0]
    >>> word.select("low", "first").write(parts, (3, 7))
    >>> parts, word.select("low", "first").read(parts)
    ([7, 2], [3, 7])
    """

    def __init__(self, word: Word, names: Sequence[str]) -> None:
        self.word, self.names = word, tuple(names)
        fields = [word.fields[name] for name in names]
        for name, f in zip(names, fields, strict=True):
            if f.signed or f.shift or f.low // PART_BITS != f.high // PART_BITS:
                raise ValueError(f"{word.name}.{name}: only plain fields inside one {PART_BITS}-bit part can be selected")
        self._read = tuple((f.low // PART_BITS, f.low % PART_BITS, f.mask, f.plus) for f in fields)
        self._write = _compiled_write(fields)

    def read(self, parts: Sequence[int]) -> list[int]:
        """The values of the fields, in the order of the selection."""
        return [(parts[i] >> low & mask) + plus for i, low, mask, plus in self._read]

    def write(self, parts: list[int], values: Sequence[int]) -> None:
        """Put the values, as many as there are fields, into parts whose bits there are 0."""
        if self._write(parts, values):
            return
        for name, value in zip(self.names, values, strict=True):
            self.word.fields[name].bits(f"{self.word.name}.{name}", value)


def _compiled_write(fields: Sequence[Field]) -> Callable[[list[int], Sequence[int]], bool]:
    """A function that writes the fields, or returns False where a value does not fit.

    Its text is made of the table's rows, one line a part: a loop over the rows takes three times as long.
    """
    raw = [f"(v{i} - {f.plus})" if f.plus else f"v{i}" for i, f in enumerate(fields)]
    lines = [f"{', '.join(f'v{i}' for i in range(len(fields)))}, = values"]
    lines.append(f"if {' | '.join(f'{value} >> {f.width}' for value, f in zip(raw, fields, strict=True))}: return False")
    for part in sorted({f.low // PART_BITS for f in fields}):
        terms = [f"{value} << {f.low % PART_BITS}" for value, f in zip(raw, fields, strict=True) if f.low // PART_BITS == part]
        lines.append(f"parts[{part}] |= {' | '.join(terms)}")
    scope: dict[str, Any] = {}
    exec("\n    ".join(["def write(parts, values):", *lines, "return True"]), scope)
    write: Callable[[list[int], Sequence[int]], bool] = scope["write"]
    return write
