"""Spaces of instruction descriptors.

A rule looks at few fields, which are found by recording its accesses. The findings of a rule for every value of these
fields are a table, and the findings of a word are looked up there. Some words are also compared with
`InstrDescriptor.problems`, to check the tables.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from smemsim.base.compiling.loop import compiled
from smemsim.campaign.space import Case, ChunkResult, Space, Tally, drawn
from smemsim.core.spec.fields import Field
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.words.instr import INSTR_RULES, Context, InstrDescriptor, InstrRule

__all__ = ["broken_by", "case_of_word", "fields_of_rule", "look_up", "space", "sweep"]


# ---- Words looked up in the tables of `idesc`.


@compiled
def found(word, shifts, entries):  # type: ignore[no-untyped-def]
    """The bits of all tables for a word."""
    bits = np.uint32(0)
    for table in range(shifts.shape[0]):
        at = 0
        for field in range(shifts.shape[1]):
            at |= ((word >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
        bits |= entries[table, at]
    return np.int64(bits)


@compiled
def look_up(words, shifts, entries, out):  # type: ignore[no-untyped-def]
    """`found` of some words."""
    for i in range(len(words)):
        out[i] = found(words[i], shifts, entries)


LOW = 12  # bits of a word that one pass runs through


@compiled
def sweep(first, count, shifts, entries, counts, firsts):  # type: ignore[no-untyped-def]
    """Count the words from `first` on by their bits; the number of words is a multiple of 2^12. `firsts` has the first
    word of each class, or -1.

    The lowest bits add the same to the index of a table in every pass.
    """
    tables = shifts.shape[0]
    low = np.empty((tables, 1 << LOW), np.int32)
    for table in range(tables):
        for word in range(1 << LOW):
            at = 0
            for field in range(shifts.shape[1]):
                at |= ((word >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
            low[table, word] = at
    bits = np.empty(1 << LOW, np.uint32)
    for high in range(first, first + count, 1 << LOW):
        bits[:] = 0
        for table in range(tables):
            at = 0
            for field in range(shifts.shape[1]):
                at |= ((high >> shifts[table, field, 0]) & shifts[table, field, 1]) << shifts[table, field, 2]
            for word in range(1 << LOW):
                bits[word] |= entries[table, at | low[table, word]]
        for word in range(1 << LOW):
            which = bits[word]
            counts[which] += 1
            if firsts[which] < 0:
                firsts[which] = high | word


# ---- `idesc-KIND`: all 2^32 instruction descriptors of a kind, each with the rules that it breaks whatever the
# instruction's qualifiers are


CHUNK_BITS, SAMPLE = 24, 16
MOST_BITS = 15  # of a table that several rules share: it stays in the second-level cache
GRAVE, LIGHT = (Severity.TRAP, Severity.WRONG), (Severity.LUCK, Severity.NOTE)


class _Watched(InstrDescriptor):
    """An instruction descriptor that notes which fields are looked at."""

    def __init__(self, kind: str, word: int, seen: set[str]) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "raw", word)
        object.__setattr__(self, "seen", seen)

    @property
    def word(self) -> int:
        """A rule that uses the whole word may look at its reserved bits."""
        self.seen.update(name for name, f in self.table.fields.items() if f.want is not None)  # type: ignore[attr-defined]
        return int(self.raw)  # type: ignore[attr-defined]

    def _value(self, name: str) -> int:
        field = self.table.fields.get(name)
        if field is None:
            return 0
        self.seen.add(name)  # type: ignore[attr-defined]
        return field.value(self.raw)  # type: ignore[attr-defined]


def _says(rule: InstrRule, d: InstrDescriptor) -> int:
    """1 for a grave finding of a rule, 2 for a light one, 3 for both."""
    severities = [f.severity for f in rule.check(d, Context())]
    return any(s in GRAVE for s in severities) | any(s in LIGHT for s in severities) << 1


def _words(fields: Iterable[Field]) -> list[int]:
    """Every word that has anything in these fields, and nothing elsewhere; the first field's value runs fastest."""
    words = [0]
    for field in fields:
        words = [word | value << field.low for value in range(field.mask + 1) for word in words]
    return words


@dataclasses.dataclass(frozen=True, eq=False)
class _OfRule:
    """A rule's fields, where each stands in the index, and what it says for every value of them."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    said: np.ndarray


@functools.cache
def _of_rule(rule: InstrRule, kind: str) -> _OfRule:
    fields, names, seen = KINDS[kind].word.fields, list[str](), set[str]()
    while True:  # with more fields known, more of the rule is reached
        said = [_says(rule, _Watched(kind, word, seen)) for word in _words(fields[name] for name in names)]
        if seen == set(names):
            places = tuple(sum(fields[before].width for before in names[:i]) for i in range(len(names)))
            return _OfRule(tuple(names), places, np.array(said))
        names = sorted(seen, key=lambda name: fields[name].low)


def fields_of_rule(rule: InstrRule, kind: str) -> tuple[str, ...]:
    """The fields that a rule looks at, for any word of the kind; reserved bits count where it takes the whole word.

    >>> fields_of_rule(next(r for r in INSTR_RULES if r.name == "d_follows_inputs"), "f16")
    ('d_type', 'a_type', 'b_type')
    """
    return _of_rule(rule, kind).names


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """The findings of every rule as tables.

    The rules that have a bit of their own are `grave`, in this order, after the bit for notes. For each field of a
    table, `shifts` (int64, tables x fields x 3) has the lowest bit, the mask and the place in the index. The bits are
    `entries` (uint32, tables x 2^15).
    """

    grave: tuple[str, ...]
    shifts: np.ndarray
    entries: np.ndarray


@functools.cache
def tables(kind: str) -> Tables:
    """The tables of a kind; rules that look at the same fields share one."""
    fields, grave = KINDS[kind].word.fields, list[str]()
    parts: list[tuple[set[str], list[InstrRule]]] = []
    each = sorted(((set(fields_of_rule(rule, kind)), rule) for rule in INSTR_RULES), key=lambda one: -_bits(kind, one[0]))
    for names, rule in each:
        for known, rules in parts:
            if _bits(kind, known | names) <= max(MOST_BITS, _bits(kind, known)):
                known.update(names)
                rules.append(rule)
                break
        else:
            parts.append((set(names), [rule]))
    rows, most = [], max(_bits(kind, names) for names, _ in parts)
    shifts = np.zeros((len(parts), max(len(names) for names, _ in parts), 3), np.int64)
    for at, (names, rules) in enumerate(parts):
        order = sorted(names, key=lambda name: fields[name].low)
        place = 0
        for i, name in enumerate(order):
            shifts[at, i] = fields[name].low, fields[name].mask, place
            place += fields[name].width
        row = np.zeros(1 << most, np.uint32)
        words = np.array(_words(fields[name] for name in order))
        for rule in rules:
            own, index = _of_rule(rule, kind), np.zeros(len(words), np.int64)
            for i, name in enumerate(own.names):
                index += (words >> fields[name].low & fields[name].mask) << own.places[i]
            said = own.said[index]
            if (said & 1).any():
                grave.append(rule.name)
                row[: len(said)] |= ((said & 1) << len(grave)).astype(np.uint32)
            row[: len(said)] |= (said >> 1).astype(np.uint32)
        rows.append(row)
    return Tables(tuple(grave), shifts, np.array(rows))


def _bits(kind: str, names: Iterable[str]) -> int:
    return sum(KINDS[kind].word.fields[name].width for name in names)


def label(flags: int, grave: tuple[str, ...]) -> str:
    """The class of a word by its bits.

    >>> label(0b101, ("types", "shape")), label(1, ()), label(0, ())
    ('breaks shape', 'legal, with notes', 'legal')
    """
    names = sorted(name for i, name in enumerate(grave) if flags >> i + 1 & 1)
    return f"breaks {', '.join(names)}" if names else "legal, with notes" if flags & 1 else "legal"


def broken_by(word: int, kind: str) -> str:
    """The class of a word as the tables have it.

    >>> broken_by(0x08200490, "f16"), broken_by(0x0B200490, "f16")
    ('legal', 'breaks shape')
    """

    given, found = tables(kind), np.empty(1, np.int64)
    look_up(np.array([word], np.int64), given.shifts, given.entries, found)
    return label(int(found[0]), given.grave)


def _by_problems(word: int, kind: str) -> str:
    """The class of a word as `InstrDescriptor.problems` has it. Its note on other kinds comes only with another
    finding.
    """
    said = InstrDescriptor.decode(word, kind=kind).problems()
    findings = {
        rule.name for rule in INSTR_RULES for f in rule.check(InstrDescriptor.decode(word, kind=kind), Context()) if f.severity in GRAVE
    }
    if bool(findings) is not any(f.severity in GRAVE for f in said):
        return f"unlike its rules: {[f.code for f in said]}"
    return f"breaks {', '.join(sorted(findings))}" if findings else "legal, with notes" if said else "legal"


def case_of_word(word: int, kind: str) -> Case:
    """One word, compared with the public interface."""
    mine, theirs = broken_by(word, kind), _by_problems(word, kind)
    shown: dict[str, Any] = {"kind": kind, "word": f"{word:#010x}", "class": mine}
    if mine == theirs:
        return Case(mine, shown)
    small = word
    for bit in range(32):
        if small >> bit & 1 and broken_by(small ^ 1 << bit, kind) != _by_problems(small ^ 1 << bit, kind):
            small ^= 1 << bit
    shown["small"] = f"{small:#010x}"
    return Case("wrong: unlike problems()", shown, f"the tables say {mine!r}, problems() says {theirs!r}")


def run_kind(kind: str, seed: int, chunk: int) -> ChunkResult:
    """All words of a chunk: those with `chunk` in their highest bits. The first of each class and some others are held
    against `problems`.
    """

    del seed  # nothing is drawn
    given = tables(kind)
    counts, firsts = np.zeros(2 << len(given.grave), np.int64), np.full(2 << len(given.grave), -1, np.int64)
    sweep(chunk << CHUNK_BITS, 1 << CHUNK_BITS, given.shifts, given.entries, counts, firsts)
    tally = Tally(f"idesc-{kind}", 0, chunk)
    for found in np.flatnonzero(counts).tolist():
        tally.classes[label(found, given.grave)] += int(counts[found])
    sample = drawn(f"idesc-{kind}", 0, chunk, 0)
    some = firsts[firsts >= 0].tolist()
    for word in sorted(
        {*sample.sample(some, min(len(some), SAMPLE)), *(chunk << CHUNK_BITS | sample.getrandbits(CHUNK_BITS) for _ in range(SAMPLE))}
    ):
        one = case_of_word(word, kind)
        if one.wrong:
            tally.trouble(one.of, one.wrong, one.shown, word & (1 << CHUNK_BITS) - 1)
    return tally.result()


def case_of_kind(kind: str, seed: int, chunk: int, number: int) -> Case:
    """One word of a chunk."""
    del seed
    return case_of_word((chunk << CHUNK_BITS | number) & (1 << KINDS[kind].word.bits) - 1, kind)


def space(kind: str) -> Space:
    """The space of a kind."""
    return Space(
        f"idesc-{kind}",
        f"all 2^32 instruction descriptors of kind {kind}, by the rules that they break",
        functools.partial(run_kind, kind),
        1 << CHUNK_BITS,
        functools.partial(case_of_kind, kind),
        chunks=1 << KINDS[kind].word.bits - CHUNK_BITS,
    )
