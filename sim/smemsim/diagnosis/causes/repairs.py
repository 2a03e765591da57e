"""Repairs of a descriptor: what differs between the words that are there and those that would read what was meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from smemsim.core.finding import Fix, Path, Value, ranges
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.shared_memory import ATOM_ROWS, CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.smem import SmemDescriptor, stride_walks
from smemsim.diagnosis.descriptors.answers import FoundDescriptor
from smemsim.diagnosis.reads import words_path
from smemsim.diagnosis.scenario import listed
from smemsim.diagnosis.scenario_machine import (
    Read,
)

__all__ = ["Repair", "changes_of", "descriptor_repairs", "named_changes", "transposed_repair", "word_fix"]

MOST_WORDS = 8  # descriptors that a fix lists
MOST_OFFSETS = 16  # of K steps, that a fix lists
MOST_STARTS = 4  # that a sentence lists


@dataclasses.dataclass(frozen=True)
class Repair:
    """One way to make every read right: its code, where, what to write, how many fields that changes, and the changes
    of the scenario, all together.
    """

    code: str
    where: Path
    message: str
    text: str
    fields: int
    changes: tuple[Fix, ...]
    numbers: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    why: str = ""


def descriptor_repairs(read: Read, s: FoundDescriptor) -> Iterator[Repair]:
    """The differences between the present descriptors and those that would work."""
    d, starts = read.descriptor, read.field_starts
    strides = _strides(read, s)
    other_mode, base, moved = s.swizzle is not d.swizzle, d.base_offset != 0, bool((starts != s.starts).any())
    whole = (
        d.swizzle is not Swizzle.INVALID and d.stride_byte_offset == ATOM_ROWS * MODES[d.swizzle].width
    )  # the descriptor of another, packed tile
    fields = len(strides) + other_mode + base + moved
    word = word_fix(read, s, moved)[1]
    where = words_path(read.where, read.operand)
    changes, changed = changes_of(read, s) or (), named_changes(read, s)
    also = f", and {_starts(starts, s.starts)}" if moved else ""
    if other_mode:
        text = _swizzle(read, s) + (f", {changed}" if changed else "") + f": {word}{also}"
        numbers: dict[str, Value] = {"read": str(d.swizzle), "needed": str(s.swizzle)}
        if strides and whole:
            yield Repair(
                "R501",
                where,
                f"the tile was written with swizzle {s.swizzle}; the descriptor reads with {d.swizzle}",
                text,
                fields,
                changes,
                numbers,
                "writer and reader must use the same swizzle: it decides where each 16 B chunk lies",
            )
        else:
            yield Repair(
                "D302", where, f"the layout code selects swizzle {d.swizzle}; the tile has {s.swizzle}", text, fields, changes, numbers,
                "the swizzle decides where each 16 B chunk of the tile lies",
            )  # fmt: skip
    elif strides:
        code, what, why = _stride_code(read, strides, s)
        numbers = {name: [is_, wanted] for name, is_, wanted in strides}
        if code == "D301":
            written = [f"write {wanted >> START.shift} into {name} ({wanted} B >> {START.shift})" for name, _, wanted in strides]
            changed = ", ".join((*written, *_named(_other_fields(read, int(_kept_words(read, s)[0, 0])))))
        yield Repair(code, where, what, f"{changed}: {word}{also}", fields, changes, numbers, why)
    elif base:
        what = f"base_offset is {d.base_offset}; the tile was written with the swizzle of absolute addresses"
        why = "base_offset shifts the swizzle pattern that the reader expects"
        yield Repair("D306", where, what, f"{changed}: {word}{also}", fields, changes, why=why)
    elif moved:
        yield _advance(read, s, starts)


def _strides(read: Read, s: FoundDescriptor) -> list[tuple[str, int, int]]:
    """The strides that must be others: name, value, and what it must be."""
    d = read.descriptor
    given = (("leading_byte_offset", d.leading_byte_offset, s.leading), ("stride_byte_offset", d.stride_byte_offset, s.stride))
    return [(name, is_, wanted) for name, is_, wanted in given if wanted is not None and is_ != wanted]


def _swizzle(read: Read, s: FoundDescriptor) -> str:
    return "" if s.swizzle is read.descriptor.swizzle else f"swizzle {read.descriptor.swizzle} must be {s.swizzle}"


def named_changes(read: Read, s: FoundDescriptor) -> str:
    """All fields of the word that must change, except the swizzle and the start."""
    return ", ".join(_named([*_strides(read, s), *_other_fields(read, int(_kept_words(read, s)[0, 0]))]))


def _named(fields: Iterable[tuple[str, int, int]]) -> list[str]:
    """The changes of fields in words: each has a name, the value that it has, and the one that it must have."""
    return [f"{name} {is_} must be {wanted}" for name, is_, wanted in fields]


def _offsets(used: list[int], needed: list[int]) -> str:
    """The byte offsets that the K steps must have, as a sentence. Many steps: those that differ.

    >>> _offsets([0, 64], [0, 32])
    'the byte offsets [0, 64] of the K steps must be [0, 32]'
    >>> _offsets([0, 0, *[32] * 30], [0, 64, *[32] * 30])
    'the byte offset of K step 1 must be [64] (now [0])'
    """
    if len(used) <= MOST_OFFSETS:
        return f"the byte offsets {used} of the K steps must be {needed}"
    odd = [n for n, (now, wanted) in enumerate(zip(used, needed, strict=True)) if now != wanted]
    now, wanted = ([of[n] for n in odd[:MOST_OFFSETS]] for of in (used, needed))
    more = f" and {len(odd) - MOST_OFFSETS} more" if len(odd) > MOST_OFFSETS else ""
    return f"the byte offset{'s' * (len(odd) > 1)} of K step{'s' * (len(odd) > 1)} {ranges(odd[:MOST_OFFSETS])}{more} must be {wanted} (now {now})"


def _starts(used: np.ndarray, needed: np.ndarray) -> str:
    """The starts (blocks, steps) that must change, in hex. If there are more than a few: the first of the wrong ones.

    >>> _starts(np.array([[1024, 1064]]), np.array([[1024, 1056]]))
    'starts [0x400, 0x428] must be [0x400, 0x420]'
    >>> _starts(np.array([[0, 32, 64, 96, 136, 160]]), np.array([[0, 32, 64, 96, 128, 160]]))
    'start [0x88] of K step 4 must be [0x80]'
    """
    is_short = used.size <= MOST_STARTS
    odd = np.arange(used.size) if is_short else np.flatnonzero(used != needed)
    shown = odd[:MOST_STARTS]
    more = ", ..." if len(odd) > MOST_STARTS else ""
    now, then = (f"[{', '.join(f'{start:#x}' for start in of.reshape(-1)[shown].tolist())}{more}]" for of in (used, needed))
    steps = sorted(set((shown % used.shape[1]).tolist()))
    of_steps = "" if is_short else f" of K step{'s' * (len(steps) > 1)} {ranges(steps)}{more and ' ...'}"
    return f"start{'s' * (len(odd) > 1)} {now}{of_steps} must be {then}"


def word_fix(read: Read, s: FoundDescriptor, moved: bool) -> tuple[Fix | None, str]:
    """(the whole change of the scenario, None where `word` alone is not enough; the word to write): fields that are not
    used stay as they are.
    """
    given, new = read.operand.word, int(_kept_words(read, s)[0, 0])
    if given is None:
        return _words_fix(read, s), f"{new:#018x}"
    word = f"{new & ~START.mask | given & START.mask:#018x}"
    return None if moved else Fix(read.where / "word", f"{given:#018x}", word), word


def _kept_words(read: Read, s: FoundDescriptor) -> np.ndarray:
    """The words that would work, (blocks, steps), in which strides that are not used are those of the words that are
    there.
    """
    d = read.descriptor
    leading, stride = (
        now if wanted is None else wanted for now, wanted in ((d.leading_byte_offset, s.leading), (d.stride_byte_offset, s.stride))
    )
    if s.leading is None and s.stride == d.leading_byte_offset != d.stride_byte_offset:
        leading = CHUNK  # the two were exchanged, and what stays in LBO is not used: one unit, as compilers write
    if s.absolute:
        return s.words
    new = SmemDescriptor(arch=read.arch, start_address=0, leading_byte_offset=leading, stride_byte_offset=stride, swizzle=s.swizzle)
    return s.words & np.uint64(START.mask) | np.uint64(new.encode())


def _other_fields(read: Read, new: int) -> list[tuple[str, int, int]]:
    """The changes of a new word besides strides, swizzle and start: each field with the value that it has and the one
    that it must have.
    """
    d, word = read.descriptor, SmemDescriptor.decode(new, arch=read.arch)
    fields = [(name, int(getattr(d, name)), int(getattr(word, name))) for name in ("base_offset", "lbo_mode")]
    fields += [
        (f"bits {field.high}:{field.low}", raw, field.raw(new)) for _, field, raw in d.table.constants(d.word) if field.raw(new) != raw
    ]
    return [(name, is_, wanted) for name, is_, wanted in fields if is_ != wanted]


def changes_of(read: Read, s: FoundDescriptor) -> tuple[Fix, ...] | None:
    """Everything that must change for the operand's words to be these: the word, what moves its start; None where the
    scenario's keys cannot give them.
    """
    moved = bool((s.starts != read.field_starts).any())
    if read.operand.word is None:
        return (_words_fix(read, s),) if (_kept_words(read, s) != read.words).any() else ()
    own = word_fix(read, s, False)[0]
    starts = _start_fixes(read, s) if moved else ()
    if moved and not starts:
        return None
    return (*((own,) if own and own.old != own.new else ()), *starts)


def _words_fix(read: Read, s: FoundDescriptor) -> Fix:
    """All the raw words, listed as the scenario lists them."""
    nested = read.operand.words is not None and isinstance(read.operand.words[0], tuple)
    old, new = ([[f"{word:#018x}" for word in row] for row in words.tolist()] for words in (read.words, _kept_words(read, s)))
    return Fix(read.where / "words", old if nested else old[0], new if nested else new[0])


def _start_fixes(read: Read, s: FoundDescriptor) -> tuple[Fix, ...]:
    """Other start addresses as the scenario writes them: the stage or one offset, the K steps, the blocks; none where
    these cannot give them.
    """
    if read.starts is None:
        return (_words_fix(read, s),)
    by = s.starts - read.starts
    first, fixes = int(by[0, 0]), list[Fix]()
    if first and read.stage_bytes and first % read.stage_bytes == 0:
        old = read.operand.stage or 0
        fixes.append(Fix(read.where / "stage", old, old + first // read.stage_bytes))
    elif first:
        old = read.operand.start_offset or 0
        fixes.append(Fix(read.where / "start_offset", old, old + first))
    steps, blocks = by[0] - first, by[:, 0] - first
    if (by != first + steps[None] + blocks[:, None]).any():
        return ()
    for key, add, line in (("k_add", read.operand.k_add, steps), ("mn_add", read.operand.mn_add, blocks)):
        given = np.array(listed(add or 0))
        if line.any():
            if len(given) != len(line):
                return ()
            fixes.append(Fix(read.where / key, given.tolist(), (given + line).tolist()))
    return tuple(fixes)


def _stride_code(read: Read, strides: list[tuple[str, int, int]], s: FoundDescriptor) -> tuple[str, str, str]:
    """The code, what is wrong, and why."""
    leading, stride, walks = read.descriptor.leading_byte_offset, read.descriptor.stride_byte_offset, stride_walks(s.swizzle)
    if s.leading in (None, stride) and s.stride in (None, leading) and leading != stride:
        return "D309", "the values of LBO and SBO are swapped", "the two fields step along different directions of the tile"
    if all(is_ >> START.shift == wanted & START.mask for _, is_, wanted in strides):
        return (
            "D301",
            f"{' and '.join(name for name, *_ in strides)} was written in bytes",
            f"the field counts units of {1 << START.shift} B, and holds {' and '.join(str(is_ >> START.shift) for _, is_, _ in strides)}",
        )
    return (
        "D308",
        f"{' and '.join(f'{name} = {is_} B' for name, is_, _ in strides)} does not fit the tile",
        "; ".join(
            f"{name} is the step to the {walks[name][read.major]}, and that is {wanted} B in this tile" for name, _, wanted in strides
        ),
    )


def _advance(read: Read, s: FoundDescriptor, starts: np.ndarray) -> Repair:
    """Only the starts are wrong: lost bits, a carry, the K steps, the blocks, or all of them."""
    fixes = _start_fixes(read, s)
    where = fixes[-1].path if fixes else read.where

    def repair(code: str, message: str, text: str, why: str = "", **numbers: Value) -> Repair:
        return Repair(code, where, message, text, max(len(fixes), 1), fixes, numbers, why)

    return _start_in_bytes(read, s, repair) or _lost_bits(read, s, starts, repair) or _other_advance(read, s, starts, fixes, repair)


def _start_in_bytes(read: Read, s: FoundDescriptor, repair: Callable[..., Repair]) -> Repair | None:
    """A start that was put into its field as it is, in bytes, perhaps with an advance in bytes too."""
    raw = (read.words & np.uint64(START.mask)).astype(np.int64)
    if raw[0, 0] != s.starts[0, 0] & START.mask or not raw[0, 0]:
        return None
    used, needed = (of[0] - of[0, 0] for of in (raw << START.shift, s.starts))
    steps = f", and {_offsets(used.tolist(), needed.tolist())}" if (used != needed).any() else ""
    text = f"start {int(raw[0, 0]) << START.shift:#x} must be {int(s.starts[0, 0]):#x}{steps}: shift addresses and advances right by {START.shift}"
    return repair("D301", "the start address was written in bytes", text, f"the field counts units of {1 << START.shift} B")


def _lost_bits(read: Read, s: FoundDescriptor, starts: np.ndarray, repair: Callable[..., Repair]) -> Repair | None:
    """Starts that the field cannot hold: low bits, a generic address, a carry."""
    unit, end = 1 << START.shift, REACH
    if read.starts is not None and (read.starts % unit).any():
        odd = read.starts % unit != 0
        off = int(read.starts[odd][0])
        of_step = f" of K step {int(odd.any(axis=0).argmax())}" * (read.starts.shape[1] > 1)
        return repair(
            "D303",
            f"start address {off:#x}{of_step} is {off % unit} B past a multiple of {unit} B",
            _starts(read.starts, s.starts),
            f"the field counts units of {unit} B: the low bits are lost",
        )
    start = read.operand.start
    if isinstance(start, int) and start >= end:
        return repair(
            "D303",
            f"start {start:#x} is not a .shared address",
            f"start {int(s.starts[0, 0]):#x}, from __cvta_generic_to_shared",
            f"the field keeps {end.bit_length() - 1} bits of the address",
        )
    raised = read.starts if read.starts is not None else _uncut(read)
    if (raised >= end).any():
        used, needed = (of[0] - of[0, 0] for of in (raised, s.starts))
        steps = _offsets(used.tolist(), needed.tolist())
        if raised[0, 0] != s.starts[0, 0]:
            steps += f", and start {int(raised[0, 0]):#x} must be {int(s.starts[0, 0]):#x}"
        if read.starts is None and s.words.size <= MOST_WORDS:  # there are words alone, and no offsets in the scenario
            words = ", ".join(f"{word:#018x}" for word in _kept_words(read, s).reshape(-1).tolist())
            steps = f"{steps}: words = [{words}]"
        step = int((raised >= end).any(axis=0).argmax())
        what = (
            f"the start address {int(raised[:, step].max()):#x} of K step {step}"
            if raised.shape[1] > 1
            else f"start address {int(raised.max()):#x}"
        )
        apart = f"; it must begin {needed[step]} B after the first K step, not {used[step]} B" if needed[step] != used[step] else ""
        return repair("D304", f"{what} does not fit the field",
                      steps if (used != needed).any() else "mask the sum, or place the buffer at a lower address",
                      f"the field has {START.width} bits that count {unit} B, so it ends at {end - unit:#x}: the carry is lost, and the start is {int(raised.max()) % end:#x}{apart}")  # fmt: skip
    return None


def _other_advance(read: Read, s: FoundDescriptor, starts: np.ndarray, fixes: tuple[Fix, ...], repair: Callable[..., Repair]) -> Repair:
    """Starts in the wrong place: of the K steps, of the blocks, or of all of them."""
    used, needed = starts - starts[0, 0], s.starts - s.starts[0, 0]
    first = f"start {int(starts[0, 0]):#x} must be {int(s.starts[0, 0]):#x}"
    also = f", and {first}" if starts[0, 0] != s.starts[0, 0] else ""
    wrong_steps = ((starts != s.starts).any(axis=0)).nonzero()[0]
    if (used - used[:, :1] != needed - needed[:, :1]).any():
        table = [(used[0] - used[0, 0]).tolist(), (needed[0] - needed[0, 0]).tolist()]
        mode = MODES[s.swizzle]
        within = [i for i, add in enumerate(table[1]) if 0 < add < mode.width]
        odd = wrong_steps.tolist()
        one = (
            f"K step{'s' * (len(odd) > 1)} {ranges(odd)} start{'s' * (len(odd) == 1)} in the wrong place"
            if len(odd) < len(table[1]) / 4
            else ""
        )
        panel = bool(within) and mode.mask != 0 and read.major == "K" and not set(within) & set(wrong_steps.tolist())
        return repair(
            "R503" if panel else "R502",
            one
            or ("the K steps after the first swizzle row start in the wrong place" if panel else "later K steps start in the wrong place"),
            f"{_offsets(*table)}{also}",
            f"after each {mode.width} B, K goes on in another block of the tile"
            if panel
            else "each K step must start at the address of its first k",
            used=table[0],
            needed=table[1],
        )
    if (used[:, 0] != needed[:, 0]).any():
        table = [used[:, 0].tolist(), needed[:, 0].tolist()]
        return repair(
            "R504",
            "later blocks of M or N start in the wrong place",
            f"the byte offsets {table[0]} of the blocks must be {table[1]}{also}",
            "each block must start at the address of its first row",
            used=table[0],
            needed=table[1],
        )
    if len(fixes) == 1 and fixes[0].path.key == "stage":
        old, new = fixes[0].old, fixes[0].new
        return repair("R508", f"the operand reads stage {old}; the intended tile is in stage {new}", f"stage = {new}")
    return repair("R508", "every read starts in the wrong place", first)


def _uncut(read: Read) -> np.ndarray:
    """Start addresses with the bits up to LBO, into which an advance of the whole word carries."""
    carried = (1 << read.descriptor.table.fields["leading_byte_offset"].low) - 1
    return (read.words & np.uint64(carried)).astype(np.int64) << START.shift


def _as_written(read: Read, major: str, idesc: Fix | None) -> str:
    """The text for an instruction with another major-ness, in brackets. "" if the descriptor does not have it."""
    if idesc is not None:
        return f" (instruction descriptor {idesc.old} must be {idesc.new})"
    if any_architecture(read.arch).instruction != "wgmma":
        return ""
    return f" (imm-trans-{read.where.side} = {int(major == 'MN')})"


def _contiguous(read: Read, major: str, name: str) -> str:
    """Which axis of an operand is contiguous in memory. A tensor whose axis k is not K of the operand has both names."""
    row_axis, k_axis = read.meaning.axes
    if row_axis != "k":
        return f"the tile has {name} contiguous in memory"
    return f"axis {k_axis if major == 'K' else row_axis} of {read.tensor.name} is contiguous in memory, and it is {name} of the operand"


def transposed_repair(read: Read, places: np.ndarray, idesc: Fix | None) -> Iterator[Repair]:
    """The repairs that read the operand with the other major-ness, as a transpose. `idesc` is the change of the
    instruction descriptor that belongs to it, or None.
    """
    other = "MN" if read.major == "K" else "K"
    for s in read.solutions(places, other):
        changes, steps = changes_of(read, s), (s.starts[0] - s.starts[0, 0]).tolist()
        old, new = int(read.words[0, 0]), int(_kept_words(read, s)[0, 0])
        parts = (
            f"word {old:#018x} must be {new:#018x}" * (old != new),
            _swizzle(read, s),
            named_changes(read, s),
            f"K steps {steps}" * (bool((s.starts != read.field_starts).any())),
        )
        fields = "".join(f", {part}" for part in parts if part)
        contiguous = {"K": "K", "MN": {"a": "M", "b": "N"}.get(read.where.side, "M or N")}
        fixes = () if changes is None else (Fix(read.where / "major", read.major, other), *((idesc,) if idesc else ()), *changes)
        yield Repair(
            "R505",
            read.where / "major",
            f"the tile is {other}-major in memory, the operand is read {read.major}-major",
            f"major {other}{_as_written(read, other, idesc)}{fields}",
            # words that fit the other major-ness as they stand were made for it
            2 if changes is None or changes else 0,
            fixes,
            why=f"{_contiguous(read, other, contiguous[other])}; this read takes the contiguous axis as {contiguous[read.major]}",
        )
        return
