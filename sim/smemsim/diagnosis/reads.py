"""The reads of operands, in shared and in tensor memory, compared with the intended ones."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.finding import Finding, Half, Path
from smemsim.core.layout.banks import shared_cost
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.layout.tensor_memory import scale_of_byte
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import BANKS, CHUNK
from smemsim.core.spec.smem_descriptor import START
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.spec.tensor_memory import LANES, WARP_LANES
from smemsim.core.tables import TableError, mistake, plain
from smemsim.diagnosis.scenario import AnyOperand, CopyStep, Grid, Meant, MmaStep, ScenarioTables, listed
from smemsim.diagnosis.scenario_machine import TMEM, UNWRITTEN, Machine, SharedBuffer, finding
from smemsim.diagnosis.tensors import GlobalTensor

__all__ = [
    "Cells",
    "as_given",
    "bank_notes",
    "blamed_copy",
    "grid",
    "holds_scales",
    "made_words",
    "meant_of",
    "meant_places",
    "packing_of",
    "steps_from",
    "steps_of",
    "tmem_at",
    "told_of",
    "usage_notes",
    "words_path",
]


# ---- What an instruction reads through its descriptors, and what it was meant to read


def packing_of(kind: str, dtype: str) -> str:
    """How 4- and 6-bit elements lie: with gaps in the kinds that take 8-bit types too."""
    return "padded" if kind in ("f8f6f4", "mxf8f6f4") and element_format(dtype).bits < 8 else "packed"


def made_words(operand: AnyOperand, buffers: Mapping[str, SharedBuffer], where: Path) -> tuple[np.ndarray, np.ndarray | None] | None:
    """(raw words, start addresses where these are known), both (blocks, steps); None where
    the scenario asks for words.
    """
    if operand.words is not None:
        return np.array(_blocks(where / "words", operand.words, "words"), np.uint64), None
    if operand.word is None:
        return None
    begin = buffers[operand.start].at(operand.stage or 0) if isinstance(operand.start, str) else operand.start or 0
    k_add, mn_add = (np.array(listed(add or 0), np.int64) for add in (operand.k_add, operand.mn_add))
    starts = begin + (operand.start_offset or 0) + mn_add[:, None] + k_add[None, :]
    own = (operand.word & START.mask) << START.shift
    field = (starts + own) >> START.shift & START.mask
    words = np.uint64(operand.word & ~START.mask) | field.astype(np.uint64)
    return words, starts + own


def _blocks(where: Path, value: Grid, what: str) -> tuple[tuple[int, ...], ...]:
    """A key's numbers by blocks and K steps; `what` they are, for messages."""
    if not isinstance(value, tuple):
        return ((value,),)
    blocks: Any = value if isinstance(value[0], tuple) else (value,)
    if any(len(block) != len(blocks[0]) for block in blocks):
        raise mistake(where, f"needs as many {what} in every block")
    return blocks  # type: ignore[no-any-return]


def words_path(where: Path, operand: AnyOperand) -> Path:
    """The path of an operand's descriptor in the scenario."""
    return where / ("words" if operand.word is None else "word")


def meant_places(meant: Meant, tensor: GlobalTensor, shape: tuple[int, int], rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the meant elements along the axis of rows and along that of K; both (blocks, steps, rows, k).

    If every word reads whole blocks of scale factors, lines of 16 B hold 4 scales of each of four rows. These are r, r
    + 32, r + 64 and r + 96.
    """
    row, column, down, along = np.arange(rows)[:, None], np.arange(k)[None, :], rows, k
    if holds_scales(meant, tensor):
        row, column = scale_of_byte(row, column)
        down, along = -(-rows // WARP_LANES) * LANES, k * WARP_LANES // LANES
    return steps_from(meant, shape, (row, column), (down, along))


def steps_from(
    meant: Meant, shape: tuple[int, int], inside: tuple[np.ndarray, np.ndarray], apart: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (blocks, steps, rows, k) of consecutive tiles. `inside` are those of one, (rows, k). `apart` is their
    distance; default: the size of one.
    """
    mn_step, k_step = (given if given is not None else size for given, size in zip((meant.mn_step, meant.k_step), apart, strict=True))
    row = meant.origin[0] + (np.arange(shape[0]) * mn_step)[:, None, None, None] + inside[0]
    column = meant.origin[1] + (np.arange(shape[1]) * k_step)[None, :, None, None] + inside[1]
    found = np.broadcast_arrays(row, column)
    return found[0], found[1]


def holds_scales(meant: Meant, tensor: GlobalTensor) -> bool:
    """Do the lines of an operand hold blocks of scale factors?"""
    return tensor.scale_blocks is not None if meant.scale_block is None else meant.scale_block


def meant_of(meant: Meant, tensor: GlobalTensor, shape: tuple[int, int], rows: int, k: int) -> np.ndarray:
    """(blocks, steps, rows, k): the global byte of each element that was meant."""
    return tensor.byte_addresses(meant.axes, *meant_places(meant, tensor, shape, rows, k))


# ---- What an instruction reads from tensor memory, and in which columns it would find what was meant


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """The places of the entries of one instruction's operand, counted from its first column: three arrays (copies,
    rows, entries of a row).

    Tensor memory has a CTA's lanes and columns. `byte` is that of the cell with the lowest bit of the entry.
    """

    lane: np.ndarray
    column: np.ndarray
    byte: np.ndarray

    @property
    def columns(self) -> int:
        """Columns that it takes."""
        return int(self.column.max()) + 1

    def read(self, of: np.ndarray, column: int, byte: int = 0) -> np.ndarray:
        """`Machine.tmem` or `.tmem_writer` at the cells, UNWRITTEN past the last column or byte."""
        columns, bytes_ = self.column + column, self.byte + byte
        inside = (columns < TMEM[1]) & (bytes_ < TMEM[2])
        found: np.ndarray = np.where(inside, of[self.lane, np.where(inside, columns, 0), np.where(inside, bytes_, 0)], UNWRITTEN)
        return found

    def wrong(self, machine: Machine, meant: np.ndarray, column: int, byte: int = 0) -> np.ndarray:
        """Which entries (copies, rows, entries) are others than meant; whatever is meant
        outside the tensor is right.
        """
        bad: np.ndarray = (self.read(machine.tmem, column, byte) != meant) & (meant >= 0)
        return bad

    def places(self, machine: Machine, meant: np.ndarray, bytes_: tuple[int, ...] = (0,)) -> list[tuple[int, int]]:
        """Every (first column, byte) from which all entries are what was meant."""
        known = np.argwhere(meant >= 0)
        if not len(known):
            return []
        row, entry = known[0]
        lane, column, byte = (int(x[0, row, entry]) for x in (self.lane, self.column, self.byte))
        places_found = []
        for add in bytes_:
            if byte + add < TMEM[2]:
                same = machine.tmem[lane, :, byte + add] == meant[row, entry]
                first = np.flatnonzero(same) - column
                places_found += [
                    (int(c), add) for c in first if 0 <= c <= TMEM[1] - self.columns and not self.wrong(machine, meant, int(c), add).any()
                ]
        return places_found


def grid(where: Path, value: Grid, shape: tuple[int, int]) -> np.ndarray:
    """A key's numbers as (blocks, K steps): one number, one a step, or a list of them for each block.

    >>> grid(Path.parse("step[1].scale_a.tmem"), (0, 4), (2, 2)).tolist()
    [[0, 4], [0, 4]]
    """
    blocks = _blocks(where, value, "entries")
    try:
        return np.broadcast_to(np.array(blocks, np.int64), shape)
    except ValueError:
        told = f"{len(blocks)} x {len(blocks[0])} entries; the step has {shape[0]} blocks of {shape[1]} K steps"
        raise TableError(f"{where} = {shown(plain(value))}: {told}", where) from None


def steps_of(step: MmaStep, side: str) -> tuple[int, int]:
    """(blocks of the operand's rows, K steps) of a step: the most that any of its keys has."""
    blocks = steps = 1
    for name, operand in step.readers.items():
        of_side = name[-1] == side
        for value in (operand.words, operand.tmem, operand.id):
            if isinstance(value, tuple):
                inner = value[0] if isinstance(value[0], tuple) else value
                steps = max(steps, len(inner))
                blocks = max(blocks, len(value)) if isinstance(value[0], tuple) and of_side else blocks
        steps = max(steps, len(listed(operand.k_add or 0)))
        blocks = max(blocks, len(listed(operand.mn_add or 0))) if of_side else blocks
    return blocks, steps


def tmem_at(where: Path, value: int) -> TmemAddress:
    """The address; the error begins with the path."""
    try:
        return TmemAddress.decode(value)
    except InputError as e:
        raise mistake(where, str(e).removeprefix("taddr = ")) from None


def as_given(values: np.ndarray, given: Grid) -> int | list[int] | list[list[int]]:
    """A table (blocks, K steps) as a key has it: a number where all are one, a list where blocks are alike.

    >>> as_given(np.array([[0, 4], [0, 4]]), (0, 0))
    [0, 4]
    """
    if not isinstance(given, tuple) and (values == values[0, 0]).all():
        return int(values[0, 0])
    nested = isinstance(given, tuple) and isinstance(given[0], tuple)
    table: list[int] | list[list[int]] = values[0].tolist() if (values == values[:1]).all() and not nested else values.tolist()
    return table


def told_of(machine: Machine, number: int) -> list[Finding]:
    """The findings about a copy step that make its data wrong."""
    return [f for f in machine.findings if f.severity in (Severity.WRONG, Severity.TRAP) and f.about.step == number]


def blamed_copy(machine: Machine, scenario: ScenarioTables, number: int, writers: set[int]) -> Finding | None:
    """An earlier finding about a copy that explains wrong cells, which these issues wrote (-1: uninitialised, so any
    copy may have failed).
    """
    steps = {machine.issues[w].step for w in writers if w >= 0}
    copies = [i for i, step in enumerate(scenario.steps[:number]) if isinstance(step, CopyStep) and (i in steps or -1 in writers)]
    return next((f for i in copies for f in told_of(machine, i)), None)


# ---- Notes about the use of shared memory: transfers that nothing reads, and layouts whose chunks share banks


def usage_notes(machine: Machine) -> Iterator[Finding]:
    """Transfers of which nothing is ever read, though other bytes of the buffer are."""
    if not machine.read.any():
        return
    unread: dict[int, list[int]] = {}
    total = collections.Counter(issue.step for issue in machine.issues)
    for index, issue in enumerate(machine.issues):
        if not machine.wanted[index]:
            unread.setdefault(issue.step, []).append(index)
    for step, issues in unread.items():
        name = machine.issues[issues[0]].buffer
        buffer = machine.buffers[name]
        first, end = buffer.address // CHUNK, -(-(buffer.address + (buffer.bytes or CHUNK)) // CHUNK)
        if machine.read[first:end].any():
            what = (
                "no byte of this transfer is"
                if len(issues) == total[step]
                else f"{len(issues)} of the {total[step]} issues of this step are not"
            )
            cause = _in_need(machine, issues)
            yield finding(
                "R510",
                Path.of("step", step),
                f"step[{step}]",
                f"{what} read by any later step",
                "remove the transfer, or let a later step read its bytes" if cause is None else f"fix {cause.code} first",
                why=f"later steps read other bytes of {name}" if cause is None else f"{cause.where} needs these bytes, and reads others",
                cause=cause,
                halves=(Half("copy", machine.issues[issues[0]].text),),
            )


def _in_need(machine: Machine, issues: Sequence[int]) -> Finding | None:
    """The finding about an operand that needs bytes which each of these transfers has brought, and reads others."""
    for wrong, meant in machine.missed:
        places = machine.memory.locate(meant[meant >= 0])
        if {n + 1 for n in issues} <= set(distinct(machine.memory.of(places[places >= 0])[0]).tolist()):
            return wrong
    return None


def bank_notes(name: str, buffer: SharedBuffer) -> Iterator[Finding]:
    """Eight threads that each take the same 16-byte chunk of eight consecutive lines: how many of them share their
    banks?
    """
    layout = buffer.layout
    if layout is None:
        return
    along_k = layout.k[0][1] == 1  # the contiguous axis counts bytes
    threads = BANKS.groups  # whose 16-byte accesses go together if no two share their banks
    if layout.extents()[not along_k] < threads:
        return
    lines, zeros = np.arange(threads), np.zeros(threads, np.int64)
    at = (lines, zeros) if along_k else (zeros, lines)
    ways = _passes(layout.addresses(buffer.address, *at))
    if ways > 1:
        begins = dataclasses.replace(layout, mode=MODES[Swizzle.NONE]).addresses(buffer.address, *at)
        yield finding("P901", Path.of("buffer", name, "layout"), f"buffer {name}",
                      f"of {threads} consecutive rows, {ways} have their first {CHUNK} bytes in the same {CHUNK // BANKS.width} banks",
                      _apart(begins, layout.mode), why=f"{threads} threads that each access one of these chunks (ldmatrix, loads and stores of {CHUNK} B) take {ways} passes through shared memory instead of 1")  # fmt: skip


def _apart(begins: np.ndarray, now: SwizzleMode) -> str:
    """The fix for lines whose first chunks share banks, with their addresses before the swizzle that they have: another
    swizzle, or a stride between lines, without conflicts.
    """
    stride = int(begins[1] - begins[0])
    wider = begins[0] + np.arange(len(begins)) * (stride + CHUNK)
    fixes = [f"swizzle = {str(name)!r}" for name, mode in MODES.items() if mode.mask and mode.width == stride and _is_free(begins, mode)]
    fixes += [f"rows {stride + CHUNK} B apart (now {stride} B)"] * _is_free(wider, now)
    return "; or ".join(fixes) or "a swizzle, or another stride between rows"


def _is_free(begins: np.ndarray, mode: SwizzleMode) -> bool:
    """Are chunks that begin at these addresses before a swizzle in other banks?"""
    return _passes(np.array([swizzle(int(at), 0, mode.mask, mode.shift) for at in begins])) == 1


def _passes(offset: np.ndarray) -> int:
    """How often threads with these addresses of 16 bytes pass through shared memory."""
    threads = len(offset)
    return int(shared_cost("ldmatrix", np.pad(offset, (0, WARP_LANES - threads)), (1 << threads) - 1, CHUNK).wavefronts[0])
