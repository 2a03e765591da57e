"""Notes on what lines cost: bank conflicts, uncoalesced accesses, idle lanes; of conflicts with a layout that was tried
on the accesses of the launch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smemsim.core.finding import OR, Finding, Half, at_instruction
from smemsim.core.layout.conflicts import SWIZZLE_BASE, SWIZZLE_SHIFT, BankAccess, ConflictFree, conflict_free_layouts, padding_of
from smemsim.core.layout.cute import CuteSwizzle
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.picture.model import Heat, HeatLine
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.counters import LANES, SECTOR, Sure
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.rings import shorter
from smemsim.run.counters import Counters, Counting, Limit
from smemsim.run.counters.rows import Row
from smemsim.run.engine.records import Load, Mma, Store

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch

__all__ = ["cost_notes", "heat_of", "limit_findings"]


SHARE = 0.05  # of a launch's wavefronts, sectors or instructions: less is worth no note
FEWEST = 32  # wavefronts or sectors too many: a small launch is worth no note
UNCOALESCED = 3.0  # times the sectors that the bytes need
IDLE = 0.5  # of the lanes of the launch's warp instructions
MOST_NOTES = 4
PATTERN = max(mode.period for mode in MODES.values())  # bytes after which every swizzle repeats
MOST_LINES = 6
MOST_HEAT, MOST_RUNS = 400, 3  # lines of a page, and instructions of each
HEAT = (
    ("wavefronts", "shared wavefronts"), ("ideal_wavefronts", "needed"), ("worst_degree", "conflict degree"), ("sectors", "global sectors"), ("ideal_sectors", "needed"),
    ("operand_wavefronts", "operand wavefronts"), ("copied_bytes", "bytes copied"),
)  # fmt: skip
SECTORS_OF_WAVEFRONT = LINE // SECTOR


class _Buffer(NamedTuple):
    """Bytes of shared memory, by offset in the window, and the instructions that access them."""

    begin: int
    end: int
    keys: tuple[int, ...]


def cost_notes(launch: Launch, counting: Counting) -> list[Finding]:
    """The notes of a launch."""
    counting.finish()
    return [*_conflicts(launch, counting), *_uncoalesced(counting), *_idle(counting)]


def heat_of(table: Counters, text: Callable[[int], str], source: Callable[[str], str]) -> Heat | None:
    """The costs of lines in their order. If the PTX has .loc, these are source lines. The function `text` returns a
    line of the PTX. The function `source` returns a line of a source file, "" if there is none.
    """
    costs: dict[tuple[str, int], list[int]] = {}
    runs: dict[tuple[str, int], list[str]] = {}
    for n in range(len(table)):
        where = str(table["source"][n])
        key = (where.rpartition(":")[0], int(where.rpartition(":")[2])) if where else ("", int(table["line"][n]))
        one = costs.setdefault(key, [0] * len(HEAT))
        for k, (column, _) in enumerate(HEAT):
            value = int(table[column][n])
            one[k] = max(one[k], value) if column == "worst_degree" else one[k] + value
        if where and any(table[column][n] for column, _ in HEAT):
            runs.setdefault(key, []).append(f"{shorter(str(table['instruction'][n]))} (PTX line {table['line'][n]})")
    costs = {key: one for key, one in costs.items() if any(one)}
    weight = {key: (one[0] + one[5]) * SECTORS_OF_WAVEFRONT + one[3] for key, one in costs.items()}
    total = max(sum(weight.values()), 1)
    used = [k for k in range(len(HEAT)) if any(one[k] for one in costs.values())]
    lines = tuple(
        HeatLine(
            f"{file.rpartition('/')[2]}:{line}" if file else f"PTX {line}", (source(f"{file}:{line}") if file else text(line)).strip(),
            tuple(f"{one[k]:,}" if one[k] else "" for k in used), weight[file, line] / total, _loses(one),
            ", ".join(runs.get((file, line), ())[:MOST_RUNS]),
        )
        for (file, line), one in sorted(costs.items())[:MOST_HEAT]
    )  # fmt: skip
    return Heat(tuple(HEAT[k][1] for k in used), lines, tuple(table.text(0).splitlines())) if lines else None


def _loses(one: list[int]) -> str:
    """The losses of a line beyond its need, in words."""
    wavefronts, ideal, degree, touched, needed = one[:5]
    told = ["bank conflicts"] if wavefronts > ideal and degree > 1 else []
    return ", ".join([*told, *(["uncoalesced"] if touched >= UNCOALESCED * max(needed, 1) else [])])


def limit_findings(table: Counters, limits: Sequence[Limit], body: Sequence[Instruction]) -> Iterator[Finding]:
    """P905 for each bound that a launch exceeds, at the instruction that has most of it, and for bounds of
    lines that nothing runs at.
    """
    for limit in limits:
        rows = [n for n in range(len(table)) if limit.holds_for(str(table["source"][n]), int(table["line"][n]))]
        where = f" at {limit.place if not limit.place.isdigit() else 'line ' + limit.place}" if limit.place else ""
        values = table[limit.column][rows]
        if not rows:
            yield at_instruction(
                "P905", body[0], f"counters: no instruction ran{where}, which has a bound for {limit.name}", "name a line that runs"
            )
            continue
        found = int(values.max() if limit.column == "worst_degree" else np.maximum(values, 0).sum())
        if found > limit.most:
            n = rows[int(values.argmax())]
            i = next(i for i in body if (i.line, i.name) == (int(table["line"][n]), str(table["instruction"][n])))
            yield at_instruction(
                "P905",
                i,
                f"counters: {found:,} {limit.name}{where}; the launch file allows at most {limit.most:,}",
                f"find what has changed in the layout, or raise the bound for {limit.name} in the launch file",
            )


def _conflicts(launch: Launch, counting: Counting) -> Iterator[Finding]:
    """One note for each buffer, at the instruction that loses most."""
    if all(row.worst_degree <= 1 for row in counting.rows.values()):
        return
    total = sum(row.wavefronts for row in counting.rows.values())
    for buffer in _buffers(counting):
        lost = {key: _excess(counting, key, counting.rows[key]) for key in buffer.keys if counting.rows[key].sure is not Sure.NONE}
        lost = {key: excess for key, excess in lost.items() if excess > 0}
        if sum(lost.values()) < max(FEWEST, SHARE * total) or not lost:
            continue
        worst = max(lost, key=lambda key: lost[key])
        spent = sum(counting.rows[key].wavefronts for key in lost)
        here = counting.instructions[worst].line
        others = sorted((i for key in lost if (i := counting.instructions[key]).line != here), key=lambda i: i.line)
        lines = len({i.line for i in others})
        also = f" and at {lines} more line{'s' * (lines > 1)}" if lines else ""
        yield at_instruction(
            "P902", counting.instructions[worst],
            f"bank conflicts of degree {max(counting.rows[key].worst_degree for key in lost)} here{also}: {sum(lost.values()) / total:.0%} of all shared wavefronts are wasted",
            _repair(launch, counting, buffer, (spent, spent - sum(lost.values()))),
            halves=tuple(Half("also" if n else "access", shorter(i.name), i) for n, i in enumerate([counting.instructions[worst], *others[:MOST_LINES]])),
            why=f"these lines take {spent:,} of the launch's {total:,} shared wavefronts; without conflicts they would take {spent - sum(lost.values()):,}",
        )  # fmt: skip


def _excess(counting: Counting, key: int, row: Row) -> int:
    """Wavefronts beyond one pass for each group of lanes, by the accesses that were kept."""
    samples = counting.samples.get(key)
    if not samples:
        return row.wavefronts - row.ideal_wavefronts
    cost, least = sum(a.cost for a in samples), sum(a.ideal for a in samples)
    return int(row.wavefronts * (cost - least) / cost) if cost else 0


def _buffers(counting: Counting) -> list[_Buffer]:
    """Ranges of bytes that instructions access, those that overlap as one; they and their
    keys in the order of lines.
    """

    def line(key: int) -> int:
        return int(counting.instructions[key].line)

    found: list[_Buffer] = []
    for key, samples in counting.samples.items():
        begin = min(int(_of_active(a).min()) for a in samples)
        end = max(int(_of_active(a).max()) + a.size for a in samples)
        keys = [key]
        for other in [b for b in found if b.begin < end and begin < b.end]:
            found.remove(other)
            begin, end, keys = min(begin, other.begin), max(end, other.end), [*other.keys, *keys]
        found.append(_Buffer(begin, end, tuple(sorted(keys, key=line))))
    return sorted(found, key=lambda buffer: line(buffer.keys[0]))


def _of_active(access: BankAccess) -> np.ndarray:
    """The addresses of the lanes that are active; those of others are 0."""
    is_active = np.asarray(access.active).reshape(-1, 1) >> np.arange(LANES) & 1
    found: np.ndarray = access.at[np.broadcast_to(is_active != 0, access.at.shape)]
    return found


def _repair(launch: Launch, counting: Counting, buffer: _Buffer, wavefronts: tuple[int, int]) -> str:
    """A layout in which no access of the buffer has conflicts, tried on the accesses that were kept; "" for none. The
    lines with conflicts take `wavefronts` now, and then.
    """
    reader = _reader(launch, buffer)
    if reader is not None:
        i, swizzle = reader
        change = "give the operand another swizzle and the layout of that swizzle, or " * (swizzle != Swizzle.B128)
        return (
            f"{i.op} at {i.at} reads this buffer through a descriptor with swizzle {swizzle}, which fixes the addresses of its rows: "
            f"{change}let the lanes of a warp access other rows (not tried)"
        )
    fixed = _tma(launch, buffer)
    unit = LINE if fixed is None else PATTERN
    base = buffer.begin // unit * unit
    accesses = [BankAccess(a.op, np.maximum(a.at - base, 0), a.size, a.active) for key in buffer.keys for a in counting.samples[key]]
    answer = conflict_free_layouts(accesses, tma=fixed is not None, swizzle=None if fixed is None else fixed.swizzle)
    layouts = [
        one
        for one in answer.layouts
        if fixed is None or one.swizzle is None or not one.swizzle.bits or CHUNK << one.swizzle.bits >= fixed.row
    ]
    if not layouts or answer.now == answer.ideal:
        return ""
    is_sample = answer.now < sum(counting.rows[key].wavefronts for key in buffer.keys)
    tried = f"tried{' on a sample of the accesses' * is_sample}: {wavefronts[0]:,} wavefronts become {wavefronts[1]:,}"
    padded = padding_of(accesses) if fixed is None and layouts[0].swizzle is not None else None
    scalar = min(_scalar(counting.instructions[key], answer.element_bytes) for key in buffer.keys)
    return _worded(layouts[0], padded, answer.element_bytes, scalar, tried, is_fixed=fixed is not None)


def _scalar(i: Instruction, element: int) -> int:
    """The bytes of one number of an access; `element` if its name does not say."""
    kinds = [int(found[1]) // 8 for word in i.modifiers if (found := re.fullmatch(r"(?:bf|[bsuf])(8|16|32|64)", word))]
    return min([element, *(kinds if i.op in ("ld", "st") else [])])


def _worded(layout: ConflictFree, padded: ConflictFree | None, element: int, scalar: int, tried: str, *, is_fixed: bool) -> str:
    """A layout in words, and a padding that does the same. Gluon has no elements of vectors: it counts in numbers of
    `scalar` bytes.
    """
    both = " in the map and the threads' addresses" if is_fixed else ""
    form = layout.cuda(element)
    if layout.swizzle is not None:
        form = f"replace each byte offset in the buffer by {form}" if layout.swizzle.bits else layout.says
    gluon = (padded or layout).triton(scalar, 0) if layout.swizzle is None or padded is not None else ""
    rows = [f"{form}{both} ({tried})", f"in CuTe: {layout.cute(element)} on elements of {element} B"]
    has_vectors = element > scalar
    rows += [f"pad the rows: {padded.cuda(element)}{f' with T of {element} bytes' * has_vectors}"] if padded is not None else []
    rows += [f"in Gluon: {gluon}{f' of {scalar}-byte elements' * has_vectors}"] if gluon else []
    return OR.join(rows)


class _Tma(NamedTuple):
    """How TMA writes or reads a buffer: its XOR now, and the bytes of a row of the box, which a swizzle has to span."""

    swizzle: CuteSwizzle
    row: int


def _tma(launch: Launch, buffer: _Buffer) -> _Tma | None:
    """The layout in which tensor copies write or read the buffer; None if there are none."""
    begin = architecture(launch.arch).shared_begin
    for event in launch.result.events.transfers():
        if not isinstance(event, (Load, Store)):
            continue
        at = [d.smem_address for d in event.deliveries] if isinstance(event, Load) else [event.smem_address]
        if any(buffer.begin <= one - begin < buffer.end for one in at):
            tensor_map = event.tensor_map
            numbers = [int(n) for n in re.findall(r"\d+", tensor_map.swizzle_mode.cute)]
            row = tensor_map.box_dim[0] * tensor_map.type_row.bits // 8
            return _Tma(CuteSwizzle(*numbers or (0, SWIZZLE_BASE, SWIZZLE_SHIFT)), PATTERN if tensor_map.interleave or not numbers else row)
    return None


def _reader(launch: Launch, buffer: _Buffer) -> tuple[Instruction, Swizzle] | None:
    """The matrix instruction that reads bytes of the buffer through a descriptor, and the swizzle of its operand."""
    known: set[tuple[object, ...]] = set()
    shared = SharedMemory(launch.arch)
    for event in launch.result.events:
        for operand in (event.operand("a"), event.operand("b")) if isinstance(event, Mma) else ():
            if operand is None or (operand.number, operand.major, operand.rows, operand.k, operand.dtype) in known:
                continue
            known.add((operand.number, operand.major, operand.rows, operand.k, operand.dtype))
            chunks = operand.chunks(shared) * CHUNK
            if ((chunks >= buffer.begin // CHUNK * CHUNK) & (chunks < buffer.end)).any():
                return event.instruction, SmemDescriptor.decode(operand.number, arch=launch.arch).swizzle
    return None


def _uncoalesced(counting: Counting) -> Iterator[Finding]:
    touching = [(key, row) for key, row in counting.rows.items() if row.sectors]
    total = sum(row.sectors for _, row in touching)
    costly = [(key, row) for key, row in touching if row.sectors >= UNCOALESCED * row.ideal_sectors and row.sure is not Sure.NONE]
    costly = [(key, row) for key, row in costly if row.sectors - row.ideal_sectors >= max(FEWEST, SHARE * total)]
    for key, row in sorted(costly, key=lambda x: x[1].ideal_sectors - x[1].sectors)[:MOST_NOTES]:
        each = row.sectors / max(row.global_requests, 1)
        said = f"uncoalesced access: {row.sectors:,} sectors of 32 bytes, {row.ideal_sectors:,} are enough for the bytes"
        yield at_instruction(
            "P903",
            counting.instructions[key],
            said,
            "let neighbouring lanes access neighbouring addresses, or stage the tile in shared memory",
            why=f"{each:.1f} sectors for each warp; {row.sectors / total:.0%} of all sectors of the launch",
        )


def _idle(counting: Counting) -> Iterator[Finding]:
    """One note for the launch, at the instruction with the most idle lanes: those of elected threads are few."""
    executed, lanes = int(counting.executed.sum()), int(counting.lanes.sum())
    if executed < FEWEST or lanes >= IDLE * executed * LANES:
        return
    idle = counting.executed * LANES - counting.lanes
    most = np.flatnonzero(idle == idle.max()).tolist()
    accessing = {counting.body.number(counting.instructions[key]) for key in counting.rows}
    # rather not just any instruction of a block
    n = next((n for n in most if n in accessing or counting.off[n]), most[0])
    said = f"idle lanes: {counting.lanes[n] / counting.executed[n]:.1f} of 32 lanes run here, {counting.executed[n]:,} times"
    yield at_instruction(
        "P904", counting.body.instructions[n], said, "let all lanes of a warp take the same side of a branch, or share the work of long rows among the lanes",
        why=f"the warp instructions of the launch run with {lanes / executed:.1f} of 32 lanes on average",
    )  # fmt: skip
