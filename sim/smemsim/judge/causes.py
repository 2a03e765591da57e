"""Why an operand reads wrong elements, and which change was tried and makes them right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from smemsim.errors import InputError, SmemsimError, Unmodelled
from smemsim.finding import Element, Finding, Fix, Path, Value
from smemsim.judge.find import FoundDescriptor
from smemsim.judge.instructions import idesc_with
from smemsim.judge.numbers import numbers_told
from smemsim.judge.reads import words_path
from smemsim.judge.report import share_of
from smemsim.judge.scenario import BulkStep, MapArguments, MmaStep, ScenarioTables, TensorStep, ThreadsStep, TmaLoad, listed
from smemsim.judge.state import (
    COMMON_SWIZZLES,
    FOREIGN,
    NAMES,
    UNWRITTEN,
    Counts,
    Issue,
    Machine,
    Read,
    Rerun,
    Seen,
    SharedBuffer,
    SharedLayout,
    buffers_of,
    finding,
    no_rerun,
    swizzle_changes,
)
from smemsim.judge.tensors import OUTSIDE, GlobalTensor, tensors_of
from smemsim.machine.product import shared_grade
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import ATOM_ROWS, CHUNK
from smemsim.spec.smem_descriptor import REACH, START
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.spec.tcgen05 import KINDS
from smemsim.spec.tensor_map import LIMITS, SWIZZLES
from smemsim.tables import TableError, mistake
from smemsim.words.instr import InstrDescriptor
from smemsim.words.operand import swizzled
from smemsim.words.smem import SmemDescriptor
from smemsim.words.tensor_map import TensorMap

__all__ = [
    "Repair",
    "Reruns",
    "all_right",
    "before",
    "changes_of",
    "descriptor_repairs",
    "judge",
    "machine_of",
    "paired_repairs",
    "pattern",
    "refused_for_its_swizzle",
    "threads_step",
    "transfer",
    "transposed_repair",
    "word_fix",
    "writer_repairs",
]


# ---- What a wrong operand looks like, in words: which blocks, steps and rows are right, and what the others take instead


PERIODS = (1, 2, 4, 8, 16, 32, 64, 128)


def pattern(seen: Seen) -> tuple[str, ...]:
    """Sentences about the wrong elements: where they are, and what is read in their place."""
    return (*_where(seen.wrong), *_nothing(seen), *_instead(seen))


def _where(wrong: np.ndarray) -> list[str]:
    """Along which axis right and wrong can be told apart."""
    sentences = []
    for name, axis in (("block", 0), ("K step", 1), ("row", 2), ("k", 3)):
        others = tuple(a for a in range(4) if a != axis)
        right = np.nonzero(~wrong.any(axis=others))[0].tolist()
        if right:
            s = "" if len(right) == 1 or name == "k" else "s"
            sentences.append(
                f"only {name}{s} {numbers_told(right, wrong.shape[axis])} of {wrong.shape[axis]} {'is' if len(right) == 1 else 'are'} right"
            )
    return sentences


def _nothing(seen: Seen) -> list[str]:
    """Elements for which no data of a tensor arrives."""
    wrong, got = seen.wrong, seen.got
    past = seen.addresses >= REACH
    sentences = []
    for mask, what in (
        (past, "lie past the shared window"),
        ((got == UNWRITTEN) & ~past, "are bytes that nothing has written"),
        (got == OUTSIDE, "are out-of-bounds fill"),
        (got == FOREIGN, "are bytes of no tensor"),
    ):
        count = int((mask & wrong).sum())
        if count:
            sentences.append(f"{'all of them' if count == wrong.sum() else f'{count} of them'} {what}")
    return sentences


def _instead(seen: Seen) -> list[str]:
    """Which elements come instead of those that were meant."""
    read, tensor = seen.read, seen.read.tensor
    taken = seen.wrong & (seen.got >= tensor.address) & (seen.got < tensor.end)
    if not taken.any() or taken.sum() * 2 < seen.wrong.sum():
        return []
    row_axis, k_axis = read.meaning.axes
    got, want = tensor.coordinates(seen.got), tensor.coordinates(read.meant)
    at = read.meaning.origin
    rows, columns, row, column = got[row_axis] - at[0], got[k_axis] - at[1], want[row_axis] - at[0], want[k_axis] - at[1]
    by_row, by_k = (rows - row)[taken], (columns - column)[taken]
    if (rows == column)[taken].all() and (columns == row)[taken].all():
        return ["the tile is transposed"]
    if (by_row == by_row[0]).all() and (by_k == by_k[0]).all():
        return [f"displaced by {', '.join(f'{name} {int(by[0]):+d}' for name, by in (('rows', by_row), ('k', by_k)) if by[0])}"]
    steps = _steps(seen)
    if steps:
        return [steps]
    if not by_row.any():
        per_chunk = element_format(read.dtype).elements_per_chunk(read.packing)
        whole = read.major == "K" and not (by_k % per_chunk).any()
        return ["16-byte chunks are permuted within their rows" if whole else "the rows are right, k is not"]
    aliased = _aliased(seen.got, 2)
    if aliased and not by_k.any():
        return [f"rows {aliased} apart read the same bytes"]
    if not by_k.any():
        return _groups(taken, rows - row, columns - column) or ["k is right, the rows are not"]
    if read.major == "MN" and _aliased(seen.got, 3):
        return [f"k {_aliased(seen.got, 3)} apart read the same bytes"]
    return [f"rows {aliased} apart read the same bytes"] if aliased else _groups(taken, rows - row, columns - column)


def _groups(taken: np.ndarray, by_row: np.ndarray, by_k: np.ndarray) -> list[str]:
    """The first wrong group of eight rows, if another group comes in its place."""
    first = int(np.nonzero(taken.any(axis=(0, 1, 3)))[0][0]) // ATOM_ROWS
    group = np.zeros_like(taken)
    group[:, :, ATOM_ROWS * first : ATOM_ROWS * (first + 1)] = True
    rows, ks = by_row[taken & group], by_k[taken & group]
    if (rows != rows[0]).any() or (ks != ks[0]).any():
        return []
    low = ATOM_ROWS * first
    also = f", k {int(ks[0]):+d}" if ks[0] else ""
    return [f"rows {low} to {low + ATOM_ROWS - 1} take rows {low + int(rows[0])} to {low + int(rows[0]) + ATOM_ROWS - 1}{also}"]


def _steps(seen: Seen) -> str:
    """K steps that read what another step was meant to read."""
    count = seen.got.shape[1]
    other = {}
    for step in range(count):
        if seen.wrong[:, step].all():
            same = [t for t in range(count) if t != step and (seen.got[:, step] == seen.read.meant[:, t]).all()]
            if same:
                other[step] = same[0]
    if not other or set(other) != set(np.nonzero(seen.wrong.any(axis=(0, 2, 3)))[0].tolist()):
        return ""
    listed = [f"{step} what {t} should" for step, t in other.items()]
    return "K steps repeat: " + ", ".join(listed[:4]) + (", ..." if len(listed) > 4 else "")


def _aliased(got: np.ndarray, axis: int) -> int:
    """The smallest distance along an axis at which everything is read again; 0 if there is none."""
    size = got.shape[axis]
    for period in PERIODS:
        if period < size and (np.take(got, range(period, size), axis) == np.take(got, range(size - period), axis)).all():
            return period
    return 0


# ---- Repairs of a descriptor: what differs between the words that are there and those that would read what was meant


@dataclasses.dataclass(frozen=True)
class Repair:
    """One way to make every read right: its code, where, what to write, how many fields that changes, and the changes of the scenario, all together."""

    code: str
    where: Path
    message: str
    text: str
    fields: int
    changes: tuple[Fix, ...]
    numbers: Mapping[str, Value] = dataclasses.field(default_factory=dict)


def descriptor_repairs(read: Read, s: FoundDescriptor) -> Iterator[Repair]:
    """What differs between the descriptors that are and those that would work."""
    d, starts = read.descriptor, read.field_starts
    given = (("leading_byte_offset", d.leading_byte_offset, s.leading), ("stride_byte_offset", d.stride_byte_offset, s.stride))
    strides = [(name, is_, wanted) for name, is_, wanted in given if wanted is not None and is_ != wanted]
    other_mode, base, moved = s.swizzle is not d.swizzle, d.base_offset != 0, bool((starts != s.starts).any())
    whole = (
        d.swizzle is not Swizzle.INVALID and d.stride_byte_offset == ATOM_ROWS * MODES[d.swizzle].width
    )  # the descriptor of another, packed tile
    fields = len(strides) + other_mode + base + moved
    word, changes = word_fix(read, s, moved)[1], changes_of(read, s) or ()
    where = words_path(read.where, read.operand)
    changed = "".join(f"{name} {is_} must be {wanted}, " for name, is_, wanted in strides).removesuffix(", ")
    also = f", and starts {_listed(starts)} must be {_listed(s.starts)}" if moved else ""
    if other_mode:
        text = f"swizzle {d.swizzle} must be {s.swizzle}" + (f", {changed}" if changed else "") + f": {word}{also}"
        numbers: dict[str, Value] = {"read": str(d.swizzle), "needed": str(s.swizzle)}
        if strides and whole:
            yield Repair(
                "R501",
                where,
                f"the tile was written with swizzle {s.swizzle}, the descriptor is that of one with {d.swizzle}",
                text,
                fields,
                changes,
                numbers,
            )
        else:
            yield Repair("D302", where, f"the layout code means {d.swizzle}", text, fields, changes, numbers)
    elif strides:
        code, why = _stride_code(d.leading_byte_offset, d.stride_byte_offset, strides, s)
        numbers = {name: [is_, wanted] for name, is_, wanted in strides}
        yield Repair(code, where, why, f"{changed}: {word}{also}", fields, changes, numbers)
    elif base:
        why = f"base_offset {d.base_offset} on data that lies by absolute addresses"
        yield Repair("D306", where, why, f"base_offset must be 0: {word}{also}", fields, changes)
    elif moved:
        yield _advance(read, s, starts)


def _listed(starts: np.ndarray) -> str:
    """The first starts, in hex."""
    flat = [f"{start:#x}" for start in starts.reshape(-1)[:4].tolist()]
    return f"[{', '.join(flat)}{', ...' if starts.size > 4 else ''}]"


def word_fix(read: Read, s: FoundDescriptor, moved: bool) -> tuple[Fix | None, str]:
    """(the whole change of the scenario, None where `word` alone is not enough; the word to write): fields that are not used stay as they are."""
    given = read.operand.word
    if given is None:
        return _words_fix(read, s), f"{int(s.words[0, 0]):#018x}"
    d = read.descriptor
    leading, stride = (
        now if wanted is None else wanted for now, wanted in ((d.leading_byte_offset, s.leading), (d.stride_byte_offset, s.stride))
    )
    if s.leading is None and s.stride == d.leading_byte_offset != d.stride_byte_offset:
        leading = CHUNK  # the two were exchanged, and what stays in LBO is not used: one unit, as compilers write
    start = (given & START.mask) << START.shift
    new = SmemDescriptor(arch=read.arch, start_address=start, leading_byte_offset=leading, stride_byte_offset=stride, swizzle=s.swizzle)
    word = f"{new.encode():#018x}"
    return None if moved else Fix(read.where / "word", f"{given:#018x}", word), word


def changes_of(read: Read, s: FoundDescriptor) -> tuple[Fix, ...] | None:
    """Everything that must change for the operand's words to be these: the word, what moves its start; None where the scenario's keys cannot give them."""
    moved = bool((s.starts != read.field_starts).any())
    if read.operand.word is None:
        return (_words_fix(read, s),) if (s.words != read.words).any() else ()
    own = word_fix(read, s, False)[0]
    starts = _start_fixes(read, s) if moved else ()
    if moved and not starts:
        return None
    return (*((own,) if own and own.old != own.new else ()), *starts)


def _words_fix(read: Read, s: FoundDescriptor) -> Fix:
    """All the raw words, listed as the scenario lists them."""
    nested = read.operand.words is not None and isinstance(read.operand.words[0], tuple)
    old, new = ([[f"{word:#018x}" for word in row] for row in words.tolist()] for words in (read.words, s.words))
    return Fix(read.where / "words", old if nested else old[0], new if nested else new[0])


def _start_fixes(read: Read, s: FoundDescriptor) -> tuple[Fix, ...]:
    """Other start addresses as the scenario writes them: the stage or one offset, the K steps, the blocks; none where these cannot give them."""
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


def _stride_code(leading: int, stride: int, strides: list[tuple[str, int, int]], s: FoundDescriptor) -> tuple[str, str]:
    if s.leading in (None, stride) and s.stride in (None, leading) and leading != stride:
        return "D309", "the values of LBO and SBO are swapped"
    if all(is_ >> START.shift == wanted & START.mask for _, is_, wanted in strides):
        return "D301", "fields hold bytes where they count 16 B"
    return "D308", "a stride does not fit the tile"


def _advance(read: Read, s: FoundDescriptor, starts: np.ndarray) -> Repair:
    """Only the starts are wrong: lost bits, a carry, the K steps, the blocks, or all of them."""
    fixes = _start_fixes(read, s)
    where = fixes[-1].path if fixes else read.where

    def repair(code: str, message: str, text: str, **numbers: Value) -> Repair:
        return Repair(code, where, message, text, max(len(fixes), 1), fixes, numbers)

    return _start_in_bytes(read, s, repair) or _lost_bits(read, s, starts, repair) or _other_advance(read, s, starts, fixes, repair)


def _start_in_bytes(read: Read, s: FoundDescriptor, repair: Callable[..., Repair]) -> Repair | None:
    """A start that was put into its field as it is, in bytes, perhaps with an advance in bytes too."""
    raw = (read.words & np.uint64(START.mask)).astype(np.int64)
    if raw[0, 0] != s.starts[0, 0] & START.mask or not raw[0, 0]:
        return None
    used, needed = (of[0] - of[0, 0] for of in (raw << START.shift, s.starts))
    steps = f", and K steps {used.tolist()} must be {needed.tolist()}" if (used != needed).any() else ""
    text = f"start {int(raw[0, 0]) << START.shift:#x} must be {int(s.starts[0, 0]):#x}{steps}: shift addresses and advances right by {START.shift}"
    return repair("D301", "the start field holds bytes where it counts 16 B", text)


def _lost_bits(read: Read, s: FoundDescriptor, starts: np.ndarray, repair: Callable[..., Repair]) -> Repair | None:
    """Starts that the field cannot hold: low bits, a generic address, a carry."""
    unit, end = 1 << START.shift, REACH
    if read.starts is not None and (read.starts % unit).any():
        off = int(read.starts[read.starts % unit != 0][0])
        return repair(
            "D303",
            f"start address {off:#x} is {off % unit} past a multiple of {unit}: the low bits are lost",
            f"starts on multiples of {unit} B",
        )
    start = read.operand.start
    if isinstance(start, int) and start >= end:
        return repair(
            "D303",
            f"start {start:#x} is no .shared address: the field keeps {end.bit_length() - 1} bits of it",
            f"start {int(s.starts[0, 0]):#x}",
        )
    raised = read.starts if read.starts is not None else _uncut(read)
    if (raised >= end).any():
        used, needed = (of[0] - of[0, 0] for of in (starts, s.starts))
        steps = f"K steps {used.tolist()} must be {needed.tolist()}"
        return repair("D304", f"start address {int(raised.max()):#x} does not fit {START.width} bits of {unit} B: the carry is lost",
                      steps if (used != needed).any() else "mask the sum, or a buffer further down")  # fmt: skip
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
        panel = bool(within) and mode.mask != 0 and read.major == "K" and not set(within) & set(wrong_steps.tolist())
        return repair(
            "R503" if panel else "R502",
            "later K steps start in the wrong place",
            f"K steps {table[0]} must be {table[1]}{also}",
            used=table[0],
            needed=table[1],
        )
    if (used[:, 0] != needed[:, 0]).any():
        table = [used[:, 0].tolist(), needed[:, 0].tolist()]
        return repair(
            "R504", "M / N blocks start in the wrong place", f"blocks {table[0]} must be {table[1]}{also}", used=table[0], needed=table[1]
        )
    if len(fixes) == 1 and fixes[0].path.key == "stage":
        old, new = fixes[0].old, fixes[0].new
        return repair("R508", f"it reads stage {old}, and what is meant lies in stage {new}", f"stage = {new}")
    return repair("R508", "every read starts in the wrong place", first)


def _uncut(read: Read) -> np.ndarray:
    """Start addresses with the bits up to LBO, into which an advance of the whole word carries."""
    carried = (1 << read.descriptor.table.fields["leading_byte_offset"].low) - 1
    return (read.words & np.uint64(carried)).astype(np.int64) << START.shift


def _as_written(read: Read, major: str, idesc: Fix | None) -> str:
    """What to write in an instruction that says another major-ness, in brackets; "" where the descriptor does not say it."""
    if idesc is not None:
        return f" (instruction descriptor {idesc.old} must be {idesc.new})"
    if architecture(read.arch).instruction != "wgmma":
        return ""
    return f" (imm-trans-{read.where.side} = {int(major == 'MN')})"


def transposed_repair(read: Read, places: np.ndarray, idesc: Fix | None) -> Iterator[Repair]:
    """The repairs that read the operand with the major-ness that it does not say: as a transpose. `idesc` is the change of the instruction descriptor
    that goes with it, None where there is none."""
    other = "MN" if read.major == "K" else "K"
    for s in read.solutions(places, other):
        word = f"{int(s.words[0, 0]):#018x}"
        changes = changes_of(read, s)
        fixes = () if changes is None else (Fix(read.where / "major", read.major, other), *((idesc,) if idesc else ()), *changes)
        yield Repair(
            "R505",
            read.where / "major",
            f"the operand lies {other}-major: it is the transpose of what is meant",
            f"major {other}{_as_written(read, other, idesc)}, word {word}, K steps {(s.starts[0] - s.starts[0, 0]).tolist()}",
            2 if changes is None or changes else 0,  # words that fit the other major-ness as they stand were made for it
            fixes,
        )
        return


# ---- Ordinary loads and stores of threads through the layout that the software believes in


def refused_for_its_swizzle(machine: Machine, buffer: str) -> list[Path]:
    """Maps that would have filled the buffer, refused only because their box is wider than their swizzle."""
    why = machine.failed.get(buffer)
    if why is None or why.path.table != "map":
        return []
    return [why.path] if {f.code for f in machine.findings if f.path == why.path} == {"T202"} else []


def threads_step(machine: Machine, number: int, step: ThreadsStep, *, hardware: set[str], rerun: Rerun = no_rerun) -> None:
    """Write a tile into a buffer, or read it and compare; `hardware` are the buffers that TMA or the tensor core touch."""
    where, title = Path.of("step", number), f"step {number + 1} (threads)"
    buffer, tensor = machine.buffers[step.buffer], machine.tensors[step.tensor]
    layout = buffer.layout
    if layout is None:
        raise mistake(where, f"buffer.{buffer.name} has no layout: needs what the software believes it is")
    if layout.first_alias():
        return  # said of the buffer
    base = buffer.at(step.stage or 0)
    if not phase(machine, where, title, buffer, base) and buffer.name in hardware:
        shifted(machine, title, buffer, base)
    mn, k_byte, wanted = tile(layout, tensor, step)
    addresses = layout.addresses(base, mn, k_byte)
    if addresses.max(initial=0) >= machine.memory.size or addresses.min(initial=0) < 0:
        machine.say(finding("A107", where, title, f"reaches {int(addresses.max()):#x}, past the shared window"))
        return
    machine.inside(where, title, buffer, [addresses.reshape(-1)])
    if not step.load:
        machine.write(addresses, Issue(number, 0, buffer.name, f"threads, through the layout of {buffer.name}", wanted.reshape(-1)))
        return
    machine.touch(addresses)
    read = machine.memory.source(addresses)
    wrong = (read != wanted) & (wanted >= 0)
    if wrong.any():
        mismatch(machine, number, buffer, tensor, (mn, k_byte, wanted), wrong, rerun)


def tile(layout: SharedLayout, tensor: GlobalTensor, step: ThreadsStep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mn, k) of every byte as the layout counts them, and the global byte that belongs there."""
    axes, contiguous = step.axes, step.contiguous
    if any(axis not in tensor.extent for axis in axes):
        raise InputError(f"axes = {list(axes)}: needs two axes of {tensor.name} ({', '.join(tensor.extent)})")
    if axes[0] != axes[1]:
        contiguous = {axes[0]: "mn", axes[1]: "k"}.get(contiguous, contiguous)
    if contiguous not in ("mn", "k"):
        raise InputError(
            f"contiguous = {step.contiguous!r}: needs 'k' or 'mn', the axis of the layout that counts bytes, or one of axes = {list(axes)}"
        )
    lines, bytes_ = layout.extents()
    mn, k = np.meshgrid(np.arange(lines), np.arange(bytes_), indexing="ij")
    at = step.at or (0, 0)
    bits = tensor.fmt.bits
    along_k = contiguous == "k"
    byte = k if along_k else mn
    element, rest = byte * 8 // bits, np.where(bits >= 8, byte % max(bits // 8, 1), 0)
    rows, columns = (at[0] + mn, at[1] + element) if along_k else (at[0] + element, at[1] + k)
    wanted = tensor.byte_addresses(axes, rows, columns)
    return mn, k, np.where(wanted >= 0, wanted + rest, wanted)


def phase(machine: Machine, where: Path, title: str, buffer: SharedBuffer, base: int) -> bool:
    """Software XORs offsets, hardware XORs addresses: the base must not be inside a period."""
    layout = buffer.layout
    if layout is None or layout.on_addresses or not layout.mode.mask or base % layout.mode.period == 0:
        return False
    period = layout.mode.period
    good = -(-base // period) * period
    machine.say(finding("A105", where, title,
                        f"{buffer.name} is at {base:#x} = {base % period} mod {period}: the layout XORs offsets (phase 0), the hardware XORs addresses "
                        f"(phase {base % period // 128}); next good base {good:#x}",
                        f"{buffer.name} at {good:#x}", numbers={"base": base, "period": period, "phase": base % period // 128},
                        changes=(Fix(Path.of("buffer", buffer.name, "address"), base, good),)))  # fmt: skip
    return True


def shifted(machine: Machine, title: str, buffer: SharedBuffer, base: int) -> None:
    """The base happens to be good, and its declared alignment does not promise that."""
    layout, align = buffer.layout, buffer.declared_align
    if layout is None or layout.on_addresses or not layout.mode.mask or align is None or align % layout.mode.period == 0:
        return
    machine.say(finding("A106", Path.of("buffer", buffer.name, "declared_align"), title,
                        f"{buffer.name} is at {base:#x}, a multiple of {layout.mode.period}; its declared alignment of {align} B does not guarantee that",
                        f"declared_align = {layout.mode.period}"))  # fmt: skip


def mismatch(
    machine: Machine,
    number: int,
    buffer: SharedBuffer,
    tensor: GlobalTensor,
    tile_: tuple[np.ndarray, ...],
    wrong: np.ndarray,
    rerun: Rerun,
) -> None:
    """Threads read other bytes than they mean to: for want of the right swizzle?"""
    where, title = Path.of("step", number), f"step {number + 1} (threads)"
    mn, k_byte, wanted = tile_
    layout = buffer.layout
    assert layout is not None
    if any(f.code == "A105" and f.path == where for f in machine.findings):
        return
    at = tuple(int(x[0]) for x in np.nonzero(wrong))
    read = int(machine.memory.source(layout.addresses(buffer.address, mn[at], k_byte[at])))
    share = share_of(int(wrong.sum()), wrong.size, "bytes")
    first = f"first: ({int(mn[at])}, {int(k_byte[at])}) reads {tensor.named(read) if read >= 0 else NAMES[read]}, meant {tensor.named(int(wanted[at]))}"
    counts: Counts = {"wrong": int(wrong.sum()), "of": wrong.size}
    for target in refused_for_its_swizzle(machine, buffer.name):
        again = rerun({target / "swizzle": str(layout.mode.swizzle)})
        if again is not None and (again.memory.source(layout.addresses(buffer.at(), mn, k_byte)) == wanted).all():
            now = machine.arguments[target.name].swizzle_given
            machine.findings[:] = [f for f in machine.findings if f.path != target]
            machine.say(finding("R501", where, title, f"{target} has swizzle {now}, for which its box is too wide; the layout has {layout.mode.swizzle}",
                                f"{target}.swizzle = {layout.mode.swizzle}", changes=(Fix(target / "swizzle", now, str(layout.mode.swizzle)),), **counts))  # fmt: skip
            return
    if buffer.name in machine.failed:
        machine.say(finding("R508", where, title, f"{share}; {first}", cause=machine.failed[buffer.name], **counts))
        return
    for mode in MODES.values():
        other = SharedLayout(mode, True, layout.mn, layout.k)
        if mode.swizzle is not layout.mode.swizzle and (machine.memory.source(other.addresses(buffer.at(), mn, k_byte)) == wanted).all():
            path, values = swizzle_changes(buffer)
            new, now = (
                values.get(str(mode.swizzle), str(mode.swizzle)),
                str(layout.mode.swizzle) if buffer.cute is None else buffer.cute,
            )
            machine.say(finding("R501", where, title, f"{share}; the bytes were written with swizzle {mode.swizzle}, the layout has {layout.mode.swizzle}; {first}",
                                f"{path} = {new}", changes=(Fix(path, now, new),), **counts))  # fmt: skip
            return
    code = "R507" if read < 0 else "R508"
    machine.say(finding(code, where, title, f"{share}; {first}", **counts))


# ---- A scenario's steps in their order; and the same again with other values, to try a repair


def machine_of(scenario: ScenarioTables) -> Machine:
    """A machine before its first step."""
    try:
        arch = architecture(scenario.arch)
    except InputError as e:
        raise TableError(str(e), Path.of("arch")) from None
    return Machine(arch.name, arch.shared_end, tensors_of(scenario), buffers_of(scenario), scenario.maps)


def transfer(machine: Machine, scenario: ScenarioTables, number: int, rerun: Rerun = no_rerun) -> None:
    """A step that moves bytes; others leave shared memory as it is."""
    match scenario.steps[number]:
        case TensorStep() as step:
            machine.tensor_step(number, step)
        case BulkStep() as step:
            machine.bulk_step(number, step)
        case ThreadsStep() as step:
            threads_step(machine, number, step, hardware=_hardware(scenario), rerun=rerun)


MOST_KEPT = 1_000  # steps times machines: each keeps what the steps before wrote


class Reruns:
    """A scenario's steps again, with other values at some paths. What one operand had tried is tried for those after it from where it was left."""

    def __init__(self, scenario: ScenarioTables) -> None:
        self._scenario = scenario
        self._left: dict[
            tuple[tuple[Path, str], ...], tuple[Machine | None, int]
        ] = {}  # by changes: the machine, and the step before which it stands

    def before(self, number: int) -> Rerun:
        """The steps before step `number`; `until` and `only` take other steps. None if any of that is refused."""

        def again(changes: Mapping[Path, Value], until: int | None = None, only: int | None = None) -> Machine | None:
            if only is None:
                return self._until(changes, number if until is None else until)
            changed = self._changed(changes)
            return None if changed is None else _after(changed, (only,), whole=bool(changes))

        return again

    def _changed(self, changes: Mapping[Path, Value]) -> ScenarioTables | None:
        changed = self._scenario
        try:
            for path, value in changes.items():
                changed = changed.with_change(path, value)
        except TableError:
            return None
        return changed

    def _until(self, changes: Mapping[Path, Value], end: int) -> Machine | None:
        key = tuple((path, repr(value)) for path, value in changes.items())
        machine, done = self._left.get(key, (None, 0))
        if done > end:
            machine, done = None, 0
        elif key in self._left and machine is None:
            return None
        changed = self._changed(changes)
        if changed is not None:
            machine = _after(changed, range(done, end), whole=bool(changes), machine=machine)
            if key in self._left or len(self._left) * end <= MOST_KEPT:
                self._left[key] = machine, end
        return machine


def before(scenario: ScenarioTables, until: int) -> Machine | None:
    """Shared memory as it is before a step; None where something is refused."""
    return _after(scenario, range(until), whole=True)


def _after(scenario: ScenarioTables, steps: Iterable[int], *, whole: bool, machine: Machine | None = None) -> Machine | None:
    """A machine, a new one if none is given, after these steps. `whole`: None where a map is refused."""
    try:
        if machine is None:
            machine = machine_of(scenario)
            machine.encode_maps()
            if machine.findings and whole:
                return None
        for number in steps:
            transfer(machine, scenario, number)
    except SmemsimError:
        return None
    return machine


def _hardware(scenario: ScenarioTables) -> set[str]:
    """Buffers that TMA or the tensor core touch."""
    names = {step.buffer for step in scenario.steps if isinstance(step, TensorStep)}
    return names | {operand.start for _, operand in scenario.operands() if isinstance(operand.start, str)}


# ---- Repairs of what wrote shared memory: its swizzle, the place it writes to, the tile it takes; and two changes that only work together


MOST_ISSUES = 64  # issues whose place is tried


def writer_repairs(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """One change of a writer that makes the operand right."""
    yield from _swizzles(machine, seen, scenario, rerun)
    yield from _places(seen, scenario, rerun)
    yield from _coordinates(machine, seen, scenario, rerun)
    yield from _extents(machine, seen, scenario, rerun)


def all_right(again: Machine | None, read: Read) -> bool:
    """Does the operand read what was meant, of that machine?"""
    if again is None:
        return False
    addresses = read.addresses()
    return addresses.max() < again.memory.size and bool(((again.memory.source(addresses) == read.meant) | (read.meant < 0)).all())


def _targets(machine: Machine) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """(path of a writer's swizzle, which it is, what to write for each other one)."""
    for name, tm in machine.maps.items():
        if tm is not None and machine.arguments[name].raw is None:
            now = str(machine.arguments[name].swizzle_given)
            yield Path.of("map", name, "swizzle"), now, {each: each for each in COMMON_SWIZZLES if each != now}
    for buffer in machine.buffers.values():
        if buffer.layout is not None:
            path, values = swizzle_changes(buffer)
            now = str(buffer.layout.mode.swizzle)
            yield path, now, {each: value for each, value in values.items() if each != now}


def _swizzles(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle, if with another one all is right."""
    read = seen.read
    for path, now, values in _targets(machine):
        if path.table == "map" and not _is_concerned(machine, seen, scenario, path.name):
            continue
        for value in values.values():
            if all_right(rerun({path: value}), read):
                fields = 0 if _box_is_as_wide(machine, path, value) else 1  # 0: more likely than any change of the descriptor
                yield Repair("R501", path, f"{path.parent if path.key == 'swizzle' else path} writes with swizzle {now}, the descriptor reads with {read.descriptor.swizzle}",
                             f"{path} = {value}", fields, (Fix(path, scenario.value_at(path) or now, value),), {"writer": now, "reader": str(read.descriptor.swizzle)})  # fmt: skip
                break


def _is_concerned(machine: Machine, seen: Seen, scenario: ScenarioTables, name: str) -> bool:
    """Has a map written where a wrong byte is read, or can it bring one that is meant there? Else these bytes are wrong with any swizzle of it."""
    tm, wanted = machine.maps[name], seen.read.meant[seen.wrong]
    assert tm is not None
    reach = sum((extent - 1) * stride for extent, stride in zip(tm.global_dim, _bit_strides(tm), strict=True)) + tm.type_row.bits
    end = tm.global_address + -(-reach // 8)
    if tm.interleave or end > LIMITS.address_end or ((wanted >= tm.global_address) & (wanted < end)).any():
        return True
    writers = np.unique(seen.writer[seen.wrong])
    steps = (scenario.steps[machine.issues[writer].step] for writer in writers[writers >= 0].tolist())
    return any(isinstance(step, TensorStep) and step.map == name for step in steps)


def _box_is_as_wide(machine: Machine, path: Path, swizzle: str) -> bool:
    """Are the rows of a map's box as wide as that swizzle, and narrower than the one the map has, which leaves holes between them?"""
    tm = machine.maps.get(path.name) if path.table == "map" else None
    if tm is None or not tm.box_dim or swizzle not in tuple(map(str, MODES)) or Swizzle(swizzle) is Swizzle.NONE:
        return False
    row = tm.box_dim[0] * tm.type_row.bits // 8
    return row == MODES[Swizzle(swizzle)].width < MODES[SWIZZLES[tm.arguments["swizzle"]]].width


def paired_repairs(machine: Machine, read: Read, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The writer's swizzle and the descriptor, changed together: where no single change is enough."""
    for path, now, values in _targets(machine):
        for value in values.values():
            again = rerun({path: value})
            places = None if again is None else read.placed(again.memory)
            for s in read.solutions(places) if places is not None else ():
                word, changes = word_fix(read, s, False)[1], changes_of(read, s)
                change = Fix(path, scenario.value_at(path) or now, value)
                yield Repair("R501", path, "no single change is enough", f"{path} = {value} and {read.where}: {word} together", 2,
                             () if changes is None else (change, *changes), {"writer": now, "reader": str(read.descriptor.swizzle)})  # fmt: skip
                return


def _places(seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The shared offset of one issue, if at another one all is right."""
    wanted, at = seen.read.meant[seen.wrong], seen.addresses[seen.wrong]
    tried = 0
    for number, step in enumerate(scenario.steps[: seen.read.step]):
        if not isinstance(step, TmaLoad):
            continue
        offsets, mode = listed(step.offset or 0), _plain_mode(scenario.maps[step.map])
        if len(offsets) != len(step.places):
            continue
        path = Path.of("step", number, "offset")
        for issue, (offset, place) in enumerate(zip(offsets, step.places, strict=True)):
            tried += 1
            if tried > MOST_ISSUES or mode is None:
                continue
            alone = rerun({path: [offset], Path.of("step", number, "at"): [place]}, only=number)
            there = np.full(1, -1) if alone is None else alone.memory.locate(wanted)
            if not (there >= 0).any():
                continue
            known = int(np.nonzero(there >= 0)[0][0])
            is_read, lies = swizzled(np.array([at[known], there[known]]), mode).tolist()
            new = [*offsets[:issue], offset + is_read - lies, *offsets[issue + 1 :]]
            if new[issue] >= 0 and all_right(rerun({path: new}), seen.read):
                old = scenario.value_at(path) or 0
                yield Repair("R508", path, f"issue {issue} of step {number + 1} writes to another place than the operand is read from",
                             f"{path} = {new if len(new) > 1 else new[0]}", 1, (Fix(path, old, new if isinstance(old, list) else new[0]),))  # fmt: skip
                return


def _plain_mode(arguments: MapArguments) -> SwizzleMode | None:
    """The swizzle of a map of arguments, if it goes by one of the plain names."""
    is_plain = arguments.raw is None and arguments.swizzle_given in COMMON_SWIZZLES
    return MODES.get(Swizzle(str(arguments.swizzle_given))) if is_plain else None


def _coordinates(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """The coordinates of a transfer that takes another tile: every element is displaced alike."""
    read, tensor = seen.read, seen.read.tensor
    meant = (read.meant >= 0) & (seen.got >= tensor.address) & (seen.got < tensor.end)
    if not meant.any() or (seen.got[(read.meant >= 0) & ~meant] != OUTSIDE).any():
        return
    got, want = tensor.coordinates(seen.got[meant]), tensor.coordinates(read.meant[meant])
    moved = {axis: got[axis] - want[axis] for axis in got}
    if any((by != by[0]).any() for by in moved.values()):
        return
    numbers = {machine.issues[i].step for i in np.unique(seen.writer[meant]).tolist()}
    step = scenario.steps[min(numbers)]
    tm = machine.maps[step.map] if isinstance(step, TmaLoad) else None
    if len(numbers) != 1 or not isinstance(step, TmaLoad) or tm is None:
        return
    strides = _bit_strides(tm)
    by = [0] * len(strides)
    for axis, far in moved.items():
        bits = int(far[0]) * tensor.bit_stride(axis)
        for dimension in sorted((d for d, stride in enumerate(strides) if stride), key=lambda d: -strides[d]):
            count = int(bits / strides[dimension])
            by[dimension], bits = by[dimension] + count, bits - count * strides[dimension]
    path, new = Path.of("step", min(numbers), "at"), [[c - d for c, d in zip(at, by, strict=False)] for at in step.places]
    old = scenario.value_at(path)
    value = new if isinstance(step.at[0], tuple) else new[0]
    if all_right(rerun({path: value}), read):
        moves = ", ".join(f"{axis} {int(by[0]):+d}" for axis, by in moved.items() if by[0])
        fill = bool((seen.got[seen.wrong] == OUTSIDE).any())
        yield Repair(
            "T209" if fill else "R508",
            path,
            f"the transfer takes another tile, displaced by {moves}",
            f"{path} = {value}",
            1,
            (Fix(path, old, value),),
        )


def _bit_strides(tm: TensorMap) -> list[int]:
    """Bits from one element to the next, of every dimension."""
    return [tm.type_row.bits, *(8 * stride for stride in tm.global_strides)]


def _extents(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    """A map smaller than its tensor, so that fill arrives: the tensor's extents."""
    read, tensor = seen.read, seen.read.tensor
    if not (seen.got[seen.wrong] == OUTSIDE).any():
        return
    for name, tm in machine.maps.items():
        if tm is None or scenario.maps[name].raw is not None or not tensor.address <= tm.global_address < tensor.end:
            continue
        strides = _bit_strides(tm)
        by_stride = {tensor.bit_stride(axis): n for axis, n in tensor.extent.items()}
        old = list(tm.global_dim)
        new = [max(n, by_stride.get(stride, n)) for n, stride in zip(old, strides, strict=False)]
        path = Path.of("map", name, "global_dim")
        if new != old and all_right(rerun({path: new}), read):
            yield Repair(
                "T209",
                path,
                f"out-of-bounds fill arrives where data was meant: {name} ends before {tensor.name} does",
                f"{path} = {new}",
                1,
                (Fix(path, old, new),),
            )


# ---- Which field makes an operand wrong: the smallest repair that makes every read right gives the finding its code


OF_MAPS = ("T206", "T207", "T211")  # a map that is not its tensor's
ENOUGH_RERUNS = 400  # steps that operands wrong in many places are simulated again for, before the search for second opinions ends


def judge(machine: Machine, read: Read, scenario: ScenarioTables, rerun: Rerun, blamed: Finding | None) -> list[Finding]:
    """Compare an operand with what was meant; the finding, or none. `blamed`: an earlier finding that explains it."""
    try:
        seen = look(machine, read)
    except Unmodelled as e:
        return _undecodable(machine, read, scenario, str(e))
    machine.seen.append(seen)
    machine.touch(seen.addresses)
    wrong = seen.wrong
    if not wrong.any():
        return _lucky(read)
    grade = shared_grade(int(read.words[0, 0]), read.arch, read.dtype, read.major, read.k, read.packing)
    first = _first(seen)
    shape = pattern(seen)
    counts: Counts = {"wrong": int(wrong.sum()), "of": wrong.size, "first": first, "grade": grade, "pattern": shape}
    share = f"{share_of(counts['wrong'], wrong.size, 'elements')}; first: {_told(first)}{''.join(f'; {text}' for text in shape)}"
    repairs = sorted(_repairs(machine, seen, scenario, rerun), key=lambda r: r.fields) if blamed is None or blamed.code in OF_MAPS else []
    if blamed is not None and any(r.code != "R508" for r in repairs):
        blamed = None  # the map brings what was meant, and something else makes the operand wrong
    for target in refused_for_its_swizzle(machine, _buffer_of(machine, blamed)) if blamed is not None else ():
        mode, now = str(read.descriptor.swizzle), machine.arguments[target.name].swizzle_given
        if now != mode and all_right(rerun({target / "swizzle": mode}), read):
            machine.findings[:] = [f for f in machine.findings if f.path != target]
            return [finding("R501", target / "swizzle", read.title, f"{share}; {target} has swizzle {now}, for which its box is too wide; the descriptor reads with {mode}",
                            f"{target}.swizzle = {mode}", changes=(Fix(target / "swizzle", now, mode),), subject=read.where, **counts)]  # fmt: skip
    if blamed is not None:
        # Data in another phase is a fault of its own; what a stopped transfer did not bring is a mere consequence.
        cause = None if blamed.code == "A105" else blamed
        return [finding("R508", read.where, read.title, share, f"see {blamed.code}", cause=cause, **counts)]
    repairs = repairs or list(paired_repairs(machine, read, scenario, rerun))
    if repairs:
        best = repairs[0]
        code = "R507" if best.code == "R508" and (seen.got[wrong] == UNWRITTEN).all() else best.code
        others = [f"or {r.text}" for r in repairs[1:3]]
        gone = _overwritten(machine, read.meant[wrong]) if best.where.key == "at" else ""
        told = finding(code, best.where, read.title, f"{share}; {best.message}{gone}", "; ".join([best.text, *others]),
                       changes=best.changes, numbers=best.numbers, subject=read.where, **counts)  # fmt: skip
        return [told, *_square(read, told)]
    return [_unrepaired(machine, seen, scenario, rerun, share, counts)]


def _unrepaired(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun, share: str, counts: Counts) -> Finding:
    """The finding about a wrong operand that no single change makes right."""
    read, wrong = seen.read, seen.wrong
    got = seen.got[wrong]
    between = _between_chunks(seen)
    if between:
        return finding("D303", read.where, read.title, f"{share}; {between}", "tiles that begin on multiples of 16 B", **counts)
    if (got == OUTSIDE).any():
        ends = "the transfer's coordinates, or the extents of its map, end before the data does"
        return finding("T209", read.where, read.title, f"{share}; {ends}", **counts)
    outside = _outside_buffer(machine, seen)
    if outside:
        return finding("A107", read.where, read.title, f"{share}; {outside}", **counts)
    missing = machine.memory.locate(read.meant)[wrong] < 0
    when = _when(machine, rerun, scenario, read.meant[wrong][missing]) if missing.any() else ""
    if (got == UNWRITTEN).any() and missing.any():
        return finding("R507", read.where, read.title, f"{share}{when}", **counts)
    return finding("R508", read.where, read.title, f"{share}; no single repair makes it right{when}", **counts)


def look(machine: Machine, read: Read) -> Seen:
    """What the operand reads now. Raises Unmodelled for descriptors of which nobody knows that."""
    addresses = read.addresses()
    got, writer = machine.memory.look(addresses)
    return Seen(read, addresses, got, writer.astype(np.int32) - 1, (got != read.meant) & (read.meant >= 0))


def _repairs(machine: Machine, seen: Seen, scenario: ScenarioTables, rerun: Rerun) -> Iterator[Repair]:
    read = seen.read
    fields_seen = set()
    for places in _placements(machine, read):
        for solution in read.solutions(places):
            for repair in descriptor_repairs(read, solution):
                if (repair.code, repair.text) not in fields_seen:
                    fields_seen.add((repair.code, repair.text))
                    yield repair
        yield from transposed_repair(read, places, _other_idesc(read, scenario))
    if fields_seen and machine.reruns > ENOUGH_RERUNS:
        return  # other causes of operands before had their chance; what is known is a repair
    machine.reruns += len(scenario.steps)
    yield from writer_repairs(machine, seen, scenario, rerun)


def _other_idesc(read: Read, scenario: ScenarioTables) -> Fix | None:
    """The change of a step's instruction descriptor that goes with the other major-ness."""
    step, field = scenario.steps[read.step], f"{read.where.side}_major"
    if not isinstance(step, MmaStep) or step.idesc is None or step.kind not in KINDS:
        return None
    idesc, other = InstrDescriptor.decode(step.idesc, kind=step.kind), "MN" if read.major == "K" else "K"
    new = None if getattr(idesc, field) == other else idesc_with(step.idesc, idesc, {field: other})
    return None if new is None else Fix(read.where.parent / "idesc", f"{step.idesc:#010x}", f"{new:#010x}")


def _placements(machine: Machine, read: Read) -> Iterator[np.ndarray]:
    """Where everything that is meant lies; of what lies there several times, every step's copy."""
    of_steps: dict[int, list[int]] = {}
    if len(machine.memory.repeated()):
        for number, issue in enumerate(machine.issues, 1):
            of_steps.setdefault(issue.step, []).append(number)
    copies = (*(of_steps[step] for step in sorted(of_steps)), None)
    yield from (places for writers in copies if (places := read.placed(machine.memory, writers)) is not None)


def _lucky(read: Read) -> list[Finding]:
    """The findings about a descriptor that reads the right bytes although something of it is wrong."""
    unit, end = 1 << START.shift, REACH
    if read.starts is None:
        return []
    start = read.operand.start
    if (read.starts >= end).any():
        generic = isinstance(start, int) and start >= end
        why = (
            "is no .shared address: its low bits happen to be one"
            if generic
            else "carries out of the field, which happens to leave the right address"
        )
        return [finding("D303" if generic else "D304", read.where, read.title, f"start address {int(read.starts.max()):#x} {why}",
                        "__cvta_generic_to_shared of the pointer" if generic else "an advance that stays in the window", severity=Severity.LUCK)]  # fmt: skip
    if not (read.starts % unit).any():
        return []
    off = int(read.starts[read.starts % unit != 0][0])
    return [finding("D303", read.where, read.title,
                    f"start address {off:#x} is {off % unit} past a multiple of {unit}: the low bits are lost, and what is read is right without them",
                    f"starts on multiples of {unit} B", severity=Severity.LUCK)]  # fmt: skip


def _between_chunks(seen: Seen) -> str:
    """Is the operand meant to begin inside a 16-byte chunk, where no descriptor can?"""
    meant = seen.read.meant >= 0
    by = seen.read.meant[meant] - seen.got[meant]
    if not len(by) or (seen.got[meant] < 0).any() or (by != by[0]).any() or not 0 < abs(by[0]) < CHUNK:
        return ""
    return f"it would have to begin {int(by[0])} B further on, inside a chunk of {CHUNK} B, where no descriptor can begin"


def _outside_buffer(machine: Machine, seen: Seen) -> str:
    """Do the wrong elements, and only these, lie outside the operand's buffer?"""
    name = seen.read.operand.start
    buffer = machine.buffers.get(name) if isinstance(name, str) else None
    if buffer is None or buffer.bytes is None:
        return ""
    outside = (seen.addresses < buffer.address) | (seen.addresses >= buffer.address + buffer.bytes)
    if (outside != seen.wrong).any():
        return ""
    return f"reads up to {int(seen.addresses.max()):#x}; {name} ends at {buffer.address + buffer.bytes - 1:#x}"


def _square(read: Read, transposed: Finding) -> list[Finding]:
    """A transposition that no extent shows."""
    rows, k = (read.tensor.extent[axis] for axis in read.meaning.axes)
    if transposed.code != "R505" or rows != k:
        return []
    return [finding("H802", read.where, read.title, f"{read.tensor.name} is {rows} x {k}: square, so that no extent, stride or byte count shows the transposition",
                    "test with extents that differ", cause=transposed)]  # fmt: skip


def _undecodable(machine: Machine, read: Read, scenario: ScenarioTables, why: str) -> list[Finding]:
    """A descriptor of which nobody knows what it reads: another layout code, or the other major-ness, may read what was meant."""
    places = read.placed(machine.memory)
    for s in read.solutions(places) if places is not None else ():
        fix, word = word_fix(read, s, bool((read.field_starts != s.starts).any()))
        return [finding("D302", read.where / "word", read.title, why, f"write {word}: swizzle {s.swizzle}", changes=(fix,) if fix else ())]
    for best in transposed_repair(read, places, _other_idesc(read, scenario)) if places is not None else ():
        return [finding(best.code, best.where, read.title, f"{why}; {best.message}", best.text, changes=best.changes, subject=read.where)]
    return [finding("D302", read.where / "word", read.title, why)]


def _when(machine: Machine, rerun: Rerun, scenario: ScenarioTables, missing: np.ndarray) -> str:
    """Data that is not there now: was it there before, does it come later?"""
    gone = _overwritten(machine, missing)
    if gone or scenario.excerpt:
        return gone
    later = rerun({}, until=len(scenario.steps))
    places = np.full(1, -1) if later is None else later.memory.locate(missing)
    if later is not None and (places >= 0).any():
        writer = later.issues[int(later.memory.of(places[places >= 0][:1])[0][0]) - 1]
        return f"; {writer.text} (step {writer.step + 1}) brings it only afterwards"
    return f"; {len(missing)} of the meant elements are brought by no step"


def _overwritten(machine: Machine, wanted: np.ndarray) -> str:
    """The transfer that wrote over data which had been there."""
    for issue, old in reversed(machine.overwritten):
        if np.isin(wanted, old).any():
            return f"; {machine.issues[issue].text} (step {machine.issues[issue].step + 1}) overwrote what was meant"
    return ""


def _first(seen: Seen) -> Element:
    read = seen.read
    block, step, row, k = at = tuple(int(x[0]) for x in np.nonzero(seen.wrong))
    value = int(seen.got[at])
    name = NAMES.get(value) or read.tensor.named(value)
    if value >= 0 and not read.tensor.address <= value < read.tensor.end:
        name = f"another tensor ({value:#x})"
    return {"block": block, "step": step, "row": row, "k": k, "read": name, "meant": read.tensor.named(int(read.meant[at])),
            "address": int(seen.addresses[at])}  # fmt: skip


def _told(first: Element) -> str:
    return (
        f"block {first['block']} step {first['step']} row {first['row']} k {first['k']} reads {first['read']} at {first['address']:#x}, "
        f"meant {first['meant']}"
    )


def _buffer_of(machine: Machine, blamed: Finding | None) -> str:
    """The buffer that a finding left unfilled."""
    return next((name for name, why in machine.failed.items() if why is blamed and name in machine.buffers), "")
