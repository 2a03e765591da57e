"""`smem`: 64-bit shared-memory descriptors with operands, random and nearly right ones, with the findings of
`problems`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.errors import Unmodelled
from smemsim.campaign.space import Case, ChunkResult, Space, Tally, drawn
from smemsim.campaign.spaces.smem_loops import (
    MOST_CHUNKS,
    MOST_LINES,
    Column,
    Flag,
    Mode,
    Operand,
    count_classes,
    drawn_words,
    flags_of_words,
)
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.smem_descriptor import SM90_SMEM_DESC, SM100_SMEM_DESC, layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import chunk_address, used_strides, why_unmodelled
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["CLASSES", "MEANS", "SPACE", "context", "flags_of", "said", "tables"]


CHUNK_CASES, BLOCK, SAMPLE = 1 << 21, 1 << 16, 16
FIELDS = ("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset", "layout_type", "lbo_mode")
ROWS = (8, 16, 64, 128, 256)
MOST_OF_ONE = 512  # 16-byte chunks of an operand that is drawn

# fmt: off
MEANS: dict[Flag, tuple[str, str]] = {  # code and severity of the finding
    Flag.INVALID:     ("D302", "wrong"), Flag.BIT_61_ZERO:   ("D302", "wrong"), Flag.BIT_61:     ("D302", "luck"),  Flag.ATOM:       ("D302", "note"),
    Flag.NAMESAKE:    ("D302", "luck"),  Flag.OTHER_SWIZZLE: ("D302", "note"),  Flag.FIXED:      ("D305", "note"),  Flag.ABSOLUTE:   ("D305", "wrong"),
    Flag.BASE_IDLE:   ("D306", "note"),  Flag.BASE_PHASE:    ("D306", "luck"),  Flag.BASE_WRONG: ("D306", "wrong"), Flag.BYTES:      ("D301", "wrong"),
    Flag.BYTES_LUCK:  ("D301", "luck"),  Flag.FAULTS:        ("A107", "trap"),  Flag.ZEROS:      ("A107", "wrong"), Flag.LBO_ADDRESS: ("A107", "wrong"),
    Flag.BELOW:       ("A107", "note"),  Flag.ALIASES:       ("D307", "wrong"), Flag.UNUSED:     ("D310", "note"),
}
CLASSES: tuple[tuple[str, Flag], ...] = (  # the gravest first; a descriptor is of one class
    ("wrong: formulas of whole and parts disagree", Flag.TORN),
    ("invalid layout code",         Flag.INVALID),
    ("nobody knows what it does",   Flag.UNKNOWN | Flag.ABSOLUTE),
    ("faults: past the window",     Flag.FAULTS),
    ("reads zeros past the window", Flag.ZEROS | Flag.LBO_ADDRESS),
    ("bytes alias",                 Flag.ALIASES),
    ("base offset that fits nothing", Flag.BASE_WRONG),
    ("reads below the window",      Flag.BELOW),
    ("right with luck",             Flag.BASE_PHASE | Flag.BYTES | Flag.BYTES_LUCK | Flag.NAMESAKE | Flag.BIT_61 | Flag.BIT_61_ZERO),
    ("reserved bits",               Flag.FIXED),
    ("unused fields",               Flag.UNUSED),
    ("other notes",                 Flag.BASE_IDLE | Flag.ATOM | Flag.OTHER_SWIZZLE),
)
# fmt: on
NAMES = (*(name for name, _ in CLASSES), "legal")


@functools.cache
def contexts() -> tuple[dict[str, Any], ...]:
    """Every operand that is drawn: arguments of `operand_addresses`."""
    contexts = []
    for arch in ARCHITECTURES.values():
        for dtype in arch.mma_types:
            fmt = element_format(dtype)
            for packing in ("packed", "padded") if fmt.bits == 4 else ("packed",):
                stored = fmt.elements_per_chunk(packing)
                for major in ("K", "MN"):
                    for rows in ROWS:
                        for size in arch.k_row_bytes:
                            k = size * stored // 16
                            along, lines = (k, rows) if major == "K" else (rows, k)
                            chunks = -(-along // stored)
                            if lines * chunks <= MOST_OF_ONE and lines <= MOST_LINES and chunks <= MOST_CHUNKS:
                                contexts.append(
                                    {"arch": arch.name, "dtype": dtype, "major": major, "rows": rows, "k": k, "packing": packing}
                                )
    return tuple(contexts)


def context(operand: int) -> dict[str, Any]:
    """One operand: arguments of `operand_addresses`.

    >>> context(0)
    {'arch': 'sm_90a', 'dtype': 'f16', 'major': 'K', 'rows': 8, 'k': 16, 'packing': 'packed'}
    """
    return contexts()[operand]


class Tables(NamedTuple):
    """The arrays that the compiled loops of `smem_loops` take."""

    archs: np.ndarray
    modes: np.ndarray
    operands: np.ndarray
    unknown: np.ndarray
    used: np.ndarray


@functools.cache
def tables() -> Tables:
    """The tables, made of the package's own and of its rules."""
    names = list(ARCHITECTURES)
    archs, modes = np.zeros((len(names), 28), np.int64), np.zeros((len(names), 8, 8), np.int64)
    for row, arch in enumerate(ARCHITECTURES.values()):
        table, codes = arch.smem_descriptor, layout_codes(arch.smem_descriptor)
        for i, name in enumerate(FIELDS):
            if field := table.fields.get(name):
                archs[row, 3 * i : 3 * i + 3] = field.low, field.mask, field.shift
        fixed = [f for f in table.fields.values() if f.want is not None]
        hopper = table is SM90_SMEM_DESC
        foreign = layout_codes(SM100_SMEM_DESC if hopper else SM90_SMEM_DESC)
        archs[row, Column.FIXED_MASK] = sum(f.mask << f.low for f in fixed)
        archs[row, Column.FIXED] = sum((f.want or 0) << f.low for f in fixed)
        archs[row, Column.NEXT_CODE_BIT] = SM100_SMEM_DESC.fields["layout_type"].low if hopper else -1
        archs[row, Column.ABSOLUTE], archs[row, Column.CODES] = arch.absolute_lbo, table.fields["layout_type"].mask + 1
        archs[row, Column.BEGIN], archs[row, Column.END] = arch.shared_begin, arch.shared_end
        for code, swizzle in codes.items():
            mode, namesake = MODES[swizzle], foreign.get(code)
            packed = MODES[namesake].width if namesake in (Swizzle.B32, Swizzle.B64, Swizzle.B128) else 0
            modes[row, code, : len(Mode)] = (1, mode.width, mode.mask, mode.shift, mode.k_rows, swizzle is Swizzle.B128_ATOM_32B, packed)
    operands = np.zeros((len(contexts()), len(Operand)), np.int64)
    unknown, used = np.zeros((len(operands), 8, 2, 8), bool), np.zeros((len(operands), 8, 2), bool)
    for number, c in enumerate(contexts()):
        arch = ARCHITECTURES[c["arch"]]
        stored = element_format(c["dtype"]).elements_per_chunk(c["packing"])
        along, lines = (c["k"], c["rows"]) if c["major"] == "K" else (c["rows"], c["k"])
        operands[number] = names.index(c["arch"]), c["major"] == "K", lines, -(-along // stored)
        codes = layout_codes(arch.smem_descriptor)
        k_bytes = -(-c["k"] // stored) * 16
        for code in range(8):
            swizzle = codes.get(code, Swizzle.INVALID)
            for absolute in (False, True):
                for base in range(8):
                    unknown[number, code, int(absolute), base] = bool(
                        why_unmodelled(arch, swizzle, code, absolute, base, c["major"], k_bytes)
                    )
            if swizzle is not Swizzle.INVALID:
                used[number, code] = list(used_strides(MODES[swizzle], c["major"], c["rows"], c["k"], stored).values())
    return Tables(archs, modes, operands, unknown, used)


def _key(seed: int, chunk: int) -> np.uint64:
    return np.uint64(drawn("smem", seed, chunk, 0).getrandbits(64))


def _some(seed: int, chunk: int, cases: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(words as int64, operands, flags) of some cases of a chunk."""
    numbers = np.asarray(cases, np.int64)
    words, of, spots, out = (np.empty(len(numbers), np.int64) for _ in range(4))
    drawn_words(_key(seed, chunk), numbers, *tables()[:3], words, of, spots)
    flags_of_words(words, of, *tables(), spots, out)
    return words, of, out


def flags_of(word: int, operand: int) -> Flag:
    """The compiled loop's flags of a raw word with an operand (a number that `context` takes).

    >>> flags_of(0x4000004000010040, 0).name  # 8 rows are one group: SBO is never used
    'UNUSED'
    """
    out = np.empty(1, np.int64)
    signed = np.array([word], np.uint64).view(np.int64)
    flags_of_words(signed, np.array([operand], np.int64), *tables(), np.zeros(1, np.int64), out)
    return Flag(int(out[0]))


def class_of(flags: Flag) -> str:
    """The class of a descriptor: its gravest finding."""
    return next((name for name, mask in CLASSES if flags & mask), NAMES[-1])


def said(word: int, operand: int) -> tuple[set[tuple[str, str]], bool, bool]:
    """The findings of the public interface about a word: (code, severity) of each, whether it is unmodelled, and
    whether bytes alias.
    """
    c = context(operand)
    d = SmemDescriptor.decode(word, arch=c["arch"])
    found = d.problems(**{name: value for name, value in c.items() if name != "arch"})
    pairs = {(f.code, str(f.severity)) for f in found if not f.code.startswith("I")}
    try:
        addresses = operand_addresses(word, **c)
    except Unmodelled:
        return pairs, True, False
    stored = element_format(c["dtype"]).elements_per_chunk(c["packing"])
    first = addresses[:, ::stored] if c["major"] == "K" else addresses[::stored].T  # of every chunk, by line
    alone = [[chunk_address(d, c["major"], line, chunk) for chunk in range(first.shape[1])] for line in range(0, first.shape[0], 7)]
    same = np.array_equal(first[::7], np.array(alone, np.int64) & 0xFFFFFFFF)
    return pairs if same else pairs | {("addresses", "differ")}, False, len(np.unique(first)) < first.size


def _disagreement(word: int, operand: int, flags: Flag) -> str:
    """The difference between the compiled loop and the public interface, "" for none."""
    pairs, unmodelled, aliases = said(word, operand)
    mine = {MEANS[flag] for flag in MEANS if flags & flag}
    if mine != pairs:
        return f"the sweep finds {sorted(mine - pairs)} where problems() finds {sorted(pairs - mine)}"
    if bool(flags & Flag.UNKNOWN) is not unmodelled:
        return f"operand_addresses {'raises' if unmodelled else 'does not raise'} Unmodelled, the sweep says otherwise"
    if bool(flags & Flag.ALIASES) is not aliases:
        return f"operand_addresses {'gives some address twice' if aliases else 'gives every address once'}, the sweep says otherwise"
    return ""


def _small(word: int, operand: int, wrong: Any) -> int:
    """The word with as few bits set as still are wrong."""
    for bit in range(64):
        if word >> bit & 1 and wrong(word & ~(1 << bit), operand):
            word &= ~(1 << bit)
    return word


def _case(word: int, operand: int, flags: Flag) -> Case:
    if flags & Flag.TORN:
        what = "a chunk's formula is not the sum of its line's and its chunk's part, or its XOR leaves the 128-byte line"
        small = _small(word, operand, lambda w, o: bool(flags_of(w, o) & Flag.TORN))
    else:
        what = _disagreement(word, operand, flags)
        small = _small(word, operand, lambda w, o: bool(_disagreement(w, o, flags_of(w, o)))) if what else word
    shown = {"word": f"{word:#018x}", "operand": context(operand), "flags": [f.name for f in Flag if flags & f]}
    if what:
        shown["small"] = f"{small:#018x}"
    arch = context(operand)["arch"]
    return Case(f"{arch} wrong: unlike problems()" if what else f"{arch} {class_of(flags)}", shown, what)


def case(seed: int, chunk: int, number: int) -> Case:
    """One case, compared with the public interface."""
    words, of, out = _some(seed, chunk, [number])
    return _case(int(words.view(np.uint64)[0]), int(of[0]), Flag(int(out[0])))


def run(seed: int, chunk: int) -> ChunkResult:
    """All cases of a chunk. The first of every class and some others are compared with the public interface."""
    masks = np.array([int(mask) for _, mask in CLASSES], np.int64)
    counts = np.zeros((len(ARCHITECTURES), len(NAMES)), np.int64)
    firsts = np.full_like(counts, -1)
    for first in range(0, CHUNK_CASES, BLOCK):
        _, of, flags = _some(seed, chunk, np.arange(first, first + BLOCK))
        count_classes(flags, of, tables().operands, first, masks, counts, firsts)
    tally = Tally("smem", seed, chunk)
    for row, arch in enumerate(ARCHITECTURES):
        for name, count in zip(NAMES, counts[row].tolist(), strict=True):
            if count:
                tally.classes[f"{arch} {name}"] += count
    sample = drawn("smem", seed, chunk, 1)
    numbers = sorted({*firsts[firsts >= 0].tolist(), *(sample.randrange(CHUNK_CASES) for _ in range(SAMPLE))})
    for number, word, operand, found in zip(numbers, *(x.tolist() for x in _some(seed, chunk, numbers)), strict=True):
        one = _case(word & (1 << 64) - 1, operand, Flag(found))
        if one.wrong:
            tally.trouble(one.of, one.wrong, one.shown, number)
    return tally.result()


SPACE = Space(
    "smem",
    "random and nearly right 64-bit descriptors, each with an operand: problems and addresses, by the model and by a second implementation",
    run,
    CHUNK_CASES,
    case,
)
