"""Are rows and K multiplied with their own scale factors? Their order in global memory is not known. So each row and
each K must have bytes of its own, in one order.

A byte that scales several K, or several rows, is no fault by itself: factors may be those of 128 elements of K, or of
all rows. It may be a fault if bytes with other values are never used. It is a finding if these bytes lie at the place
of the missing ones and no layout explains that (`Idle`). Otherwise it is a remark.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.finding import OR, Finding, at_instruction, of_kind
from smemsim.core.machine.bulk import BulkTransfer
from smemsim.core.machine.global_memory import OUTSIDE
from smemsim.core.machine.tma import Transfer, tma_load
from smemsim.core.machine.tmem.layout import ScaleLayout
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_memory import LANES, WARP_LANES
from smemsim.core.spec.wgmma import ASCENDING_METADATA_2_4, METADATA_1_2
from smemsim.core.words.instr import InstrDescriptor
from smemsim.diagnosis.operands.factors import CELL, Brought, Factors, Rows, Use, bytes_at
from smemsim.diagnosis.operands.orders import exchanged, is_affine, is_in_order, is_in_runs, is_regular
from smemsim.run.engine.records import Bulk, Load
from smemsim.run.sanitizer.history import may_be_written

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Instruction
    from smemsim.core.words.tensor_map import TensorMap
    from smemsim.run.engine.launch import Launch

__all__ = [
    "SCALES",
    "SIDES",
    "AllFactors",
    "InRows",
    "among",
    "named",
    "of_metadata",
    "other_threads",
    "union",
    "wrong_factors",
]

SIDES = ("a", "b")
SCALES = "scale factors"
LINEAR = "one row after the other, not in blocks of 32 lanes x 4 rows"
MOST_BYTES = 1 << 26  # between the first and the last factor, that are looked at
LEAST_SPREAD = 8  # of unused bytes that count as scale factors: so far from the used ones, or as far as these are apart
LEAST_BLOCK = 8  # rows of a block with one factor
# times as many bytes as are missing, and bytes: so far from the used ones may others be that count
FAR, FARTHEST = 8, 1 << 20
QUAD = 4  # threads of which a sparsity selector names some
LEAST_OTHERS = 4  # different values of threads that no selector names
LIKE = 0.5  # share of unused bytes that must be so near


def wrong_factors(factors: Factors, launch: Launch) -> list[Finding]:
    """S701, S702 and R508 of a launch that has come to its end: at most one of each operand."""
    factors.finish()
    stored = [f for side in SIDES for f in _of_all_stored(list(factors.stored.values()), side)]
    metadata = [f for uses in (factors.metadata, factors.registers) for f in of_metadata(factors, uses, launch)] or other_threads(factors)
    if stored or not factors.uses:
        return [*stored, *metadata]
    every = AllFactors(factors, factors.uses, launch, SCALES)
    return [*every.worst(*SIDES), *metadata] or every.crossed()


def of_metadata(factors: Factors, uses: dict[Rows, dict[tuple[int, int, int], Use]], launch: Launch) -> list[Finding]:
    """R508 and S701 of sparse metadata, at most one. Metadata in registers counts only if all of it is known: what is
    not known may be what seems to be unused.
    """
    if not uses or (uses is factors.registers and factors.missed_registers):
        return []
    return AllFactors(factors, uses, launch, "metadata").worst("a")


def other_threads(factors: Factors) -> list[Finding]:
    """R508, a remark, where the threads that the selectors name hold one value, and the others different metadata that
    no instruction takes. The selector, or the threads that load, may be wrong.
    """
    for values, threads, event in factors.selected.values():
        is_named = np.isin(np.arange(len(values)) % QUAD, [*threads])
        own, others = values[is_named], distinct(values[~is_named])
        if len(others) < LEAST_OTHERS or (own != own[0]).any() or not are_metadata(others, event.a_type):
            continue
        named = " and ".join(str(n) for n in sorted(threads))
        return [
            at_instruction(
                "R508", event.instruction,
                f"the threads that the sparsity selector names, {named} of each four, all hold the metadata {int(own[0]):#010x}",
                "let the selector name the threads that hold the metadata, or load the metadata in the threads that it names",
                why=f"the other threads hold {len(others)} different values that can be metadata, and no instruction takes them, unless one pattern is meant for all rows",
                milder=Severity.NOTE,
            )
        ]  # fmt: skip
    return []


def are_metadata(words: np.ndarray, a_type: str) -> bool:
    """Can all of these words be metadata, of ascending places?"""
    nibbles = words[:, None] >> np.arange(0, 32, 4, dtype=words.dtype) & 15
    return bool(np.isin(nibbles, [*(METADATA_1_2 if a_type == "tf32" else ASCENDING_METADATA_2_4)]).all())


@dataclasses.dataclass(frozen=True, eq=False)
class InRows:
    """The factors of some rows: of each k of a factor, ascending, the instruction and the bytes, (k, rows). `is_one`:
    have all instructions the same ones at each k?
    """

    rows: Rows
    k: list[int]
    uses: list[Use]
    at: np.ndarray
    is_one: bool

    @classmethod
    def of(cls, rows: Rows, uses: Iterable[Use]) -> InRows:
        each: dict[int, tuple[Use, np.ndarray]] = {}
        is_one = True
        for use in uses:
            for n, at in enumerate(use.addresses.T):
                is_one &= np.array_equal(each.setdefault(use.k + n * use.elements, (use, at))[1], at)
        k = sorted(each)
        return cls(rows, k, [each[n][0] for n in k], np.stack([each[n][1] for n in k]), is_one)

    def blocks(self) -> Iterator[InRows]:
        """Each 128 rows, whose scale factors a copy brings alone."""
        for n in range(0, self.rows.extent, LANES):
            own = self.rows._replace(first=self.rows.first + n, extent=min(LANES, self.rows.extent - n))
            yield dataclasses.replace(self, rows=own, at=self.at[:, n : n + LANES])

    def key(self) -> tuple[object, ...]:
        """Equal for rows of a tensor whose first ones have equal factors at the first k."""
        return (*self.rows._replace(first=0, extent=0), self.k[0], int(self.at[0, 0]))


class Idle(enum.IntEnum):
    """Bytes with other values that no product uses, as many as rows and k lack: none, some near the used ones, or some
    at the place of the missing ones. Those near the used ones may be factors of other operands.
    """

    NONE = 0
    NEAR = 1
    OWN = 2


class AllFactors:
    """All factors of a launch, or all metadata, and which bytes of global memory are used as such."""

    group = WARP_LANES  # rows that are looked at together along k

    def __init__(self, factors: Factors, uses: dict[Rows, dict[tuple[int, int, int], Use]], launch: Launch, name: str) -> None:
        self.factors, self.uses, self.launch, self.memory, self.name = factors, uses, launch, launch.memory, name
        tables = {rows.side for rows, each in uses.items() for use in each.values() if use.is_looked_up}
        self.rows = {rows: InRows.of(rows, each.values()) for rows, each in uses.items() if rows.side not in tables}
        self.used = {side: union(x.at for rows, x in self.rows.items() if rows.side == side) for side in SIDES}
        self.every = union(self.used.values())
        self._seen: dict[int, np.ndarray] = {}  # patterns of rows that share no bytes, by their identity
        self.brought = union(copy.addresses for copy in factors.brought.values())

    def of(self, side: str) -> Iterator[Finding]:
        """The faults of the factors of an operand, the most certain first."""
        mine = [x for rows, x in self.rows.items() if rows.side == side]
        found = itertools.chain(map(self._contradicts, mine), (look(x) for look in self._looks for x in mine if x.is_one))
        return (of_kind(f, side) for f in found if f is not None)

    @property
    def _looks(self) -> tuple[Callable[[InRows], Finding | None], ...]:
        return (
            self._in_tile,
            self._in_map,
            self._in_order_of_rows,
            self._in_order_of_blocks,
            self._across,
            self._of_other,
            self._along_k,
            self._along_rows,
            self._outside,
        )

    def worst(self, *sides: str) -> list[Finding]:
        """The first finding of each operand, or its first remark."""
        found = []
        for side in sides:
            each: list[Finding] = []
            for f in self.of(side):
                each.append(f)
                if f.severity is not Severity.NOTE:
                    break
            found += sorted(each, key=lambda f: f.severity is Severity.NOTE)[:1]
        return found

    def crossed(self) -> list[Finding]:
        """R508 as a remark if A comes from an earlier parameter of the kernel than B, and A's scale factors from a
        later one than B's, or the reverse.
        """
        first = {rows.side: rows for rows in reversed(self.rows)}
        if len(first) < len(SIDES) or not all(len(self.used[side]) for side in SIDES):
            return []
        tensors = [self.launch.parameter_of(first[side].tensor[0], first[side].tensor[0] + 1) for side in SIDES]
        arrays = [self.launch.parameter_of(int(self.used[side][0]), int(self.used[side][0]) + 1) for side in SIDES]
        numbers = [None if found is None else found[0] for found in (*tensors, *arrays)]
        a, b, of_a, of_b = numbers
        if a is None or b is None or of_a is None or of_b is None or len({*numbers}) < len(numbers) or (a < b) == (of_a < of_b):
            return []
        use = self.rows[first["a"]].uses[0]
        named = [self.launch.kernel.parameter_name(n) for n in (a, b, of_a, of_b)]
        return [
            at_instruction(
                "R508", use.event.instruction,
                f"A's scale factors come from parameter {named[2]} and B's from {named[3]}", "exchange the addresses of the scale factors, unless this is meant",
                why=f"A comes from parameter {named[0]} and B from {named[1]}: the other order in the list of parameters", arrays=self._arrays(use), milder=Severity.NOTE,
            )
        ]  # fmt: skip

    # ---- one k of one row has one factor

    def _contradicts(self, x: InRows) -> Finding | None:
        """R508 where rows are multiplied at one k with several factors of one array. Rows that the launch itself may
        write, as those of a layer's result, can have several.
        """
        tensor = self.memory.holding(x.rows.tensor[0], x.rows.tensor[0] + 1)
        if tensor is None or self._written is None or id(tensor.words) in self._written:
            return None
        seen: dict[int, Use] = {}
        for use in self.uses[x.rows].values():
            before = seen.setdefault(use.k, use)
            if before is use or before.elements != use.elements:
                continue
            both = (before.offsets >= 0) & (use.offsets >= 0)
            differ = both & (before.addresses != use.addresses)
            if not differ.any() or not self._are_of_one(before.addresses[differ], use.addresses[differ]):
                continue
            if (self.values(before.addresses[differ]) == self.values(use.addresses[differ])).all():
                continue
            return self._contradiction(x.rows, before, use)
        return None

    def _contradiction(self, rows: Rows, one: Use, two: Use) -> Finding:
        side, other = rows.side.upper(), "B" if rows.side == "a" else "A"
        follows = one.other is not None and two.other is not None and one.other != two.other
        why = f"they change with the rows of {other}, {named(one.other)} and {named(two.other)}" if follows else ""
        repair = (
            f"the scale factors of {side}: exchange the two addresses of scale factors, or load them at the coordinate of {side}'s rows"
            if follows
            else f"load the {self.name} that belong to the tile of {side}"
        )
        unread = _unread_k(self.uses[rows].values())
        if not follows and unread is not None:  # a step of K reads the A of another one
            repair = f"let the address of {side} advance with k: {side} at k = {unread} is not read{OR}if the address is right, {repair}"
        return at_instruction(
            "R508", two.event.instruction,
            f"{named(rows)} at k = {one.k} get the {self.name} at {one.base:#x} in CTA {one.event.cta}, and those at {two.base:#x} in CTA {two.event.cta}",
            repair, why=why, arrays=self._arrays(one, two), other=self._loader(two),
        )  # fmt: skip

    # ---- rows of one tile

    def _in_tile(self, x: InRows) -> Finding | None:
        """S701 where rows of one tile share bytes as no larger block of rows does, and others that were loaded with
        these are never used.
        """
        for use, at in zip(x.uses, x.at, strict=True):
            if id(use.offsets) in self._seen:
                continue
            inside = at[at >= 0]
            counts = np.unique(inside, return_counts=True)[1]
            is_block = is_in_runs(inside) and not (use.by_threads and counts.max() < LEAST_BLOCK)
            if len(counts) in (len(inside), 1) or ((use.layout is not None or self.name == SCALES) and is_block):
                self._seen[id(use.offsets)] = use.offsets
                continue
            if use.by_threads:
                if self.is_data(inside) and self._idle(x, len(inside) - len(counts)):
                    return self._shared_rows(x, use, at)
                continue
            loaded = union(_sources(load) for copy in use.copies for load in copy.loads)
            idle = loaded[~among(loaded, self.every)]
            if len(idle) < len(inside) - len(counts) or not self._is_like(idle, inside):
                continue
            first = next(n for n in range(1, len(at)) if at[n] in at[:n])
            twin = int(np.flatnonzero(at == at[first])[0])
            copy = use.copies[0].event
            return at_instruction(
                "S701", copy.instruction,
                f"rows {x.rows.first + twin} and {x.rows.first + first} of {x.rows.side.upper()} get the same {self.name}, the byte at {int(at[first]):#x}",
                "a stride byte offset of 128 in the descriptor: a group of 8 rows is 128 B",
                why=f"{len(inside)} rows share {len(counts)} bytes; {len(idle)} bytes that were loaded with them are never used",
                arrays=self._arrays(use), other=use.event.instruction,
            )  # fmt: skip
        return None

    def _shared_rows(self, x: InRows, use: Use, at: np.ndarray) -> Finding:
        """R508 as a remark: threads have loaded the factors of several rows from one address. Rows may be meant to
        share them.
        """
        first = next(n for n in range(1, len(at)) if at[n] in at[:n])
        twin = int(np.flatnonzero(at == at[first])[0])
        return at_instruction(
            "R508", use.event.instruction,
            f"rows {x.rows.first + twin} and {x.rows.first + first} of {x.rows.side.upper()} get the same {self.name}, the byte at {int(at[first]):#x}",
            f"load the {self.name} of row {x.rows.first + first} in the thread that has it{' (PTX ISA 9.1 §9.7.15.6)' * (use.event.kind == 'wgmma')}",
            why="no product uses bytes with other values next to it, unless these rows are meant to share their " + self.name,
            arrays=self._arrays(use), milder=Severity.NOTE,
        )  # fmt: skip

    def _across(self, x: InRows) -> Finding | None:
        """R508 where two rows share a byte at different k and not at one k, in rows a pitch apart: the pitch is too
        small.
        """
        if x.at.size > MOST_BYTES or (x.at < 0).any():
            return None
        _, first, of = np.unique(x.at, return_index=True, return_inverse=True)
        of = of.reshape(x.at.shape)
        (k, row), (n, r) = np.divmod(first[of], x.at.shape[1]), np.indices(x.at.shape)
        wrong = (k != n) & (row != r) & (of[n, row] != of) & (of[k, r] != of)
        if not wrong.any() or not all(map(is_affine, x.at.tolist())) or not self.is_data(x.at):
            return None
        later, other = (int(at[0]) for at in np.nonzero(wrong))
        before, one, use = int(k[later, other]), int(row[later, other]), x.uses[later]
        return at_instruction(
            "R508", use.event.instruction,
            f"row {x.rows.first + one} of {x.rows.side.upper()} at k = {x.k[before]} and row {x.rows.first + other} at k = {x.k[later]} get the same {self.name}, the byte at {int(x.at[later, other]):#x}",
            f"as many bytes from row to row as a row has {self.name}", arrays=self._arrays(use), other=self._loader(use),
        )  # fmt: skip

    def _in_map(self, x: InRows) -> Finding | None:
        """S701 where a tensor map has the factors as a matrix of the operand's rows and its blocks of K, and rows get
        those of other rows. A remark if the map may also be one of blocks, which a host has stored.
        """
        for use, at in zip(x.uses, x.at, strict=True):
            maps = {load.tensor_map for copy in use.copies for load in copy.loads if isinstance(load, Transfer)}
            tm = maps.pop() if len(maps) == 1 else None
            axis = None if tm is None or not isinstance(use.layout, ScaleLayout) else _axis_of_rows(tm, use)
            if tm is None or axis is None:
                continue
            offset = at - tm.global_address
            row = offset % tm.global_strides[0] // (tm.type_row.bits // 8) if axis == 0 else offset // tm.global_strides[0]
            wrong = (at >= 0) & (row != x.rows.first + np.arange(len(at)))
            if not wrong.any() or not self.is_data(at[at >= 0]):
                continue
            n, copy = int(np.flatnonzero(wrong)[0]), use.copies[0].event
            may_be_blocks = axis == 0 and tm.global_dim[0] % LANES == 0
            return at_instruction(
                "S701", copy.instruction,
                f"{int(wrong.sum())} of {len(at)} rows of {x.rows.side.upper()} get the scale factors of other rows: row {x.rows.first + n} gets those of row {int(row[n])}",
                "pack the scale factors in blocks of 32 rows x 16 B (row r of 128: in row r % 32, from byte 4 (r / 32) on)",
                why=f"the copy reads such blocks; the tensor map of {list(tm.global_dim)} has one row after the other" + ", unless it has such blocks" * may_be_blocks,
                arrays=self._arrays(use), other=use.event.instruction, milder=Severity.NOTE if may_be_blocks else None,
            )  # fmt: skip
        return None

    def _in_order_of_rows(self, x: InRows) -> Finding | None:
        """S701 where threads have brought the factors of rows that lie as far apart as neighbours, in another order
        than the rows. A remark for metadata in registers, which a host may have stored in that order.
        """
        for use, at in zip(x.uses, x.at, strict=True):
            if use.layout is None and (at >= 0).all() and (order := exchanged(at)) is not None and order[0] and self.is_data(at):
                return self._exchanged(x, use, order, f"load the {self.name} of each row in the thread that has it", is_certain=False)
            if not isinstance(use.layout, ScaleLayout) or not use.by_threads or (at < 0).any() or not self.is_data(at):
                continue
            for first in range(0, len(at), LANES):
                order = _order(at[first : first + LANES])
                if order is not None:
                    return self._other_rows(x, use, first, order)
        return None

    def _in_order_of_blocks(self, x: InRows) -> Finding | None:
        """R508 as a remark where the factors of blocks of 128 rows of one tile, which copies have brought, lie in
        another order than the rows. A host may have stored them so.
        """
        for use, at in zip(x.uses, x.at, strict=True):
            if not isinstance(use.layout, ScaleLayout) or use.by_threads or len(at) % LANES or (at < 0).any():
                continue
            blocks = at.reshape(-1, LANES)
            begins = blocks[:, 0]
            n = next((n for n in range(1, len(blocks)) if begins[n] < begins[n - 1]), 0)
            if not n or (blocks - begins[:, None] != blocks[0] - begins[0]).any() or not self._are_of_one(at) or not self.is_data(at):
                continue
            if (self.values(blocks[n]) == self.values(blocks[n - 1])).all():
                continue
            before, now = (f"rows {x.rows.first + m * LANES} to {x.rows.first + (m + 1) * LANES - 1}" for m in (n - 1, n))
            return at_instruction(
                "R508", use.event.instruction,
                f"in memory the {self.name} of {now} of {x.rows.side.upper()} lie before those of {before}",
                f"exchange the two blocks of {self.name}",
                why=f"those of {before} begin at {int(begins[n - 1]):#x}, those of {now} at {int(begins[n]):#x}, unless they were stored in that order",
                arrays=self._arrays(use), other=use.copies[-1].event.instruction if use.copies else None, milder=Severity.NOTE,
            )  # fmt: skip
        return None

    def _exchanged(self, x: InRows, use: Use, order: tuple[str, np.ndarray, int], repair: str, *, is_certain: bool) -> Finding:
        """R508 of rows whose factors threads have loaded in another order."""
        how, of, pitch = order
        n, first = int(np.flatnonzero(of != np.arange(len(of)))[0]), x.rows.first
        return at_instruction(
            "R508", use.event.instruction,
            f"{int((of != np.arange(len(of))).sum())} of {len(of)} rows of {x.rows.side.upper()} get the {self.name} of other rows: row {first + n} gets those of row {first + int(of[n])}",
            repair, arrays=self._arrays(use), milder=None if is_certain else Severity.NOTE,
            why=f"in memory they are {pitch} bytes apart, {how}" + ("" if is_certain else ", unless they were stored in that order"),
        )  # fmt: skip

    def _other_rows(self, x: InRows, use: Use, first: int, order: tuple[str, np.ndarray, int]) -> Finding:
        how, of, pitch = order
        n = int(np.flatnonzero(of != np.arange(len(of)))[0])
        repair = (
            f"store the factors of row r of 128 at 16 (r % 32) + 4 (r / 32); in global memory they are {pitch} bytes apart" if how == LINEAR else
            "store the factors of each row in its own place"
        )  # fmt: skip
        return at_instruction(
            "S701", use.event.instruction,
            f"{int((of != np.arange(len(of))).sum())} of {len(of)} rows of {x.rows.side.upper()} get the scale factors of other rows: row {x.rows.first + first + n} gets those of row "
            f"{x.rows.first + first + int(of[n])}, {pitch * abs(int(of[n]) - n)} bytes {'after' if of[n] > n else 'before'} its own", repair, why=f"threads stored them {how}",
            arrays=self._arrays(use), other=use.copies[-1].event.instruction if use.copies else None,
        )  # fmt: skip

    def _of_other(self, x: InRows) -> Finding | None:
        """S701 where rows have factors that the other operand's rows have, in part or while what was loaded for them is
        never used.
        """
        side = x.rows.side
        other = self.used["b" if side == "a" else "a"]
        tensors = {rows.tensor for rows in self.rows if rows.side != side}
        if x.rows.tensor in tensors:
            return None
        for use, at in zip(x.uses, x.at, strict=True):
            inside = at[at >= 0]
            shared = among(inside, other)
            if not shared.any() or not self.is_data(inside):
                continue
            own = self.used[side][~among(self.used[side], other)]
            if not shared.all():
                if (found := self._overlapped(x, use, at, other)) is not None:
                    return found
                if self._overlaps(use, side):
                    continue
            if shared.all() and not len(own) and side == "b" and use.copies and (found := self._copied_over(use)) is not None:
                return found
            if shared.all() and (len(own) or self._idle_load is None or (use.by_threads and side == "a")):
                continue
            copy, idle = use.copies[-1].event if use.copies else use.event, self._idle_load
            if use.copies and (shared.all() or among(other, self.used[side]).all()) and self._is_of_other(use, idle, shared):
                continue
            if idle is None and self._is_run_into(use, inside, side):
                continue
            what = f"the factors that {idle.instruction.at} loads are never used" if idle is not None else ""
            first = x.rows.first + int(np.flatnonzero(among(at, other))[0])
            return at_instruction(
                "S701", copy.instruction,
                f"{'all' if shared.all() else int(shared.sum())} of {len(inside)} rows of {side.upper()}, the first one row {first}, get scale factors that rows of "
                f"{'B' if side == 'a' else 'A'} get", why=what, repair=f"a descriptor that begins at the scale factors of {side.upper()}, with a stride byte offset of 128",
                arrays=self._arrays(use), other=idle.instruction if idle is not None else use.event.instruction,
            )  # fmt: skip
        return None

    def _overlapped(self, x: InRows, use: Use, at: np.ndarray, other: np.ndarray) -> Finding | None:
        """S701 where a copy of the other operand's factors overwrites some columns of those of this one."""
        over = next((copy for copy in use.copies if among(copy.addresses[copy.addresses >= 0], other).all()), None)
        under = None if over is None else next((copy for copy in use.copies if copy.column != over.column), None)
        if over is None or under is None:
            return None
        side, its = (name.upper() for name in (x.rows.side, "b" if x.rows.side == "a" else "a"))
        wrong = among(at, other)
        return at_instruction(
            "S701", over.event.instruction,
            f"{int(wrong.sum())} of {len(at)} rows of {side}, the first one row {x.rows.first + int(np.flatnonzero(wrong)[0])}, get scale factors of {its}",
            f"separate columns for the scale factors of each operand: those of {side} begin at column {under.column}, those of {its} at {over.column}",
            why=f"this copy overwrites columns that {under.event.instruction.at} has filled for {side}",
            arrays=self._arrays(use), other=under.event.instruction,
        )  # fmt: skip

    def _is_run_into(self, use: Use, inside: np.ndarray, side: str) -> bool:
        """Does one load bring all factors of a product, while those of the other operand begin in another load, and run
        into this one? A wrong stride of the other operand's descriptor does so.
        """
        loads = {id(load) for copy in use.copies for load in copy.loads}
        others = [u for rows, x in self.rows.items() if rows.side != side for u in x.uses if among(u.addresses.ravel(), inside).any()]
        if len(loads) != 1 or not others or not all(u.copies for u in others):
            return False
        own = union(copy.addresses for copy in use.copies)
        theirs = [{id(load) for copy in u.copies for load in copy.loads} for u in others]
        return all(loads < found and not among(u.addresses[:1].ravel(), own).any() for u, found in zip(others, theirs, strict=True))

    def _overlaps(self, use: Use, side: str) -> bool:
        """Does a copy of these factors lie on columns of the other operand, which also has others?"""
        others = (u for rows, x in self.rows.items() if rows.side != side for u in x.uses)
        mine = {id(copy.event) for copy in use.copies}
        return any(len({copy.column for copy in u.copies}) > 1 and any(id(copy.event) in mine for copy in u.copies) for u in others)

    def _copied_over(self, use: Use) -> Finding | None:
        """S701 where A and B have the factors of one copy, which overwrites another one that no product has used."""
        last = use.copies[-1]
        lost = next((copy for copy, _ in self._idle_copies if copy.column == last.column and copy.event is not last.event), None)
        if lost is None:
            return None
        return at_instruction(
            "S701", last.event.instruction,
            "rows of A and of B get the same scale factors", "separate columns for the scale factors of each operand",
            why=f"this copy overwrites the columns from {last.column} on, whose factors, of {lost.event.instruction.at}, no product has used", arrays=self._arrays(use), other=lost.event.instruction,
        )  # fmt: skip

    def _is_of_other(self, use: Use, idle: Bulk | Load | None, shared: np.ndarray) -> bool:
        """Is it the other operand, all of whose factors these rows have too, that has wrong ones?"""
        if idle is not None and self._is_others_fault(use, idle):
            return True
        return not shared.all() and self._copied_over(use) is not None

    def _is_others_fault(self, use: Use, idle: Bulk | Load) -> bool:
        """For two operands with the same factors: should the other one have the data of this load? Loads and copies are
        taken to come in one order.
        """
        order = {id(event): n for n, event in enumerate(self.launch.result.events.transfers())}
        use_side = "a" if isinstance(use.layout, ScaleLayout) and use.layout.operand == "A" else "b"
        others = [other.copies[-1] for x in self.rows.values() if x.rows.side != use_side for other in x.uses if other.copies]
        loads = [order[id(event)] for event in self._events_of(use)]
        places = [order.get(id(copy.event), 0) for copy in (use.copies[-1], others[0])] if others else [0, 0]
        return bool(loads) and places[0] != places[1] and (places[0] > places[1]) != (order[id(idle)] > loads[0])

    # ---- along k

    def _along_k(self, x: InRows) -> Finding | None:
        if len(x.k) < 2:
            return None
        for row in range(0, x.rows.extent, self.group):
            seq = x.at[:, row].tolist()
            if min(seq) < 0 or not self._are_of_one(x.at[:, row]):
                continue
            look = self._each_its_own if len(set(seq)) == len(seq) else self._shared_along_k
            if (found := look(x, row, seq)) is not None:
                return found
        return None

    def _each_its_own(self, x: InRows, row: int, seq: list[int]) -> Finding | None:
        """R508, S702 where each k has a byte of its own. A host may have stored metadata for registers in another
        order.
        """
        layout = x.uses[0].layout
        is_stored_so = layout is None and self.name != SCALES
        if (layout is None or isinstance(layout, ScaleLayout)) and not is_in_order(seq) and self.is_data(x.at[:, row : row + self.group]):
            return self._out_of_order(x, row, seq, is_certain=not is_stored_so)
        return self._left_out(x, row)

    def _shared_along_k(self, x: InRows, row: int, seq: list[int]) -> Finding | None:
        """S702, R508 where factors are those of several k."""
        runs = [list(group) for _, group in itertools.groupby(range(len(seq)), key=seq.__getitem__)]
        returns = len({seq[run[0]] for run in runs}) < len(runs)
        n = next(n for n in range(1, len(seq)) if seq[n] in seq[: n - returns])
        before, of_rows = max(m for m in range(n) if seq[m] == seq[n]), x.at[:, row : row + self.group]
        is_block = not returns and is_in_runs(x.at[:, row])
        if (found := self._beside_idle(x, row, (n, before), is_block=is_block)) is not None:
            return found
        if not self.is_data(of_rows):
            return None
        if (copy := self._idle_copy(x)) is not None:
            return self._same_columns(x, n, before, copy)
        if returns and not is_regular(seq):
            return self._not_refilled(x, n, before)
        idle = Idle.NONE
        if not is_block or (self.name != SCALES and x.uses[n].layout is None):
            idle = self._idle(x, x.at.size - len(union([x.at])))
        if not returns and x.uses[n].by_threads and self._skips(x, row, [(seq[run[0]], len(run)) for run in runs]):
            idle = Idle.NEAR
        is_certain = not is_block and idle is Idle.OWN
        return self._not_refilled(x, n, before, is_certain=is_certain) if idle else None

    def _beside_idle(self, x: InRows, row: int, now: tuple[int, int], *, is_block: bool) -> Finding | None:
        """S702 where bytes of the same cells as the factors of two k are never used. `is_block`: do equally many
        successive k share a factor?
        """
        siblings, cells = self._siblings(x, row)
        of_rows = x.at[:, row : row + self.group]
        if (
            not isinstance(x.uses[now[0]].layout, ScaleLayout)
            or not len(siblings)
            or of_rows.size > cells
            or not self._is_like(siblings, of_rows)
        ):
            return None
        return self._same_cell(x, *now, siblings)

    def _skips(self, x: InRows, row: int, runs: list[tuple[int, int]]) -> bool:
        """For factors that several successive k share, by address and number of k: are there equally many unused bytes
        between them, which may be factors? A correct factor for 128 elements of K has its neighbour's next to it.
        """
        steps = {behind[0] - at[0] for at, behind in itertools.pairwise(runs)}
        counts = {count for _, count in runs}
        if steps != counts or len(counts) != 1:
            return False
        own, count = x.at[:, row : row + self.group], counts.pop()
        if all((self.values(own + n) == self.values(own)).all() for n in range(1, count)):
            return False  # the same factor once more
        between = union(own + n for n in range(1, count))
        return not among(between, self.every).any() and self._is_like(between, own)

    def _left_out(self, x: InRows, row: int) -> Finding | None:
        """S702 where factors of neighbouring k lie in one cell with others between them that no product uses."""
        for n, (before, now) in enumerate(itertools.pairwise(range(len(x.k)))):
            gap = _gap(x, before, now)
            if gap is None:
                continue
            first, column = gap
            beside = [
                self._beside(x.uses[now], x.at[now, row : row + WARP_LANES], byte - first[1]) for byte in range(first[0] + 1, first[1])
            ]
            idle = union(beside)
            if len(idle) and not among(idle, self.every).any() and self._is_like(idle, x.at[n : n + 2, row : row + WARP_LANES]):
                return _skipped(x, now, first, column)
        return None

    def _beside(self, use: Use, at: np.ndarray, by: int) -> np.ndarray:
        """The bytes so many further on in the same cells as some factors; none where no copy has brought these."""
        found = []
        for copy in use.copies:
            cells = copy.addresses.reshape(-1, CELL)
            row, byte = np.nonzero(among(cells, distinct(at)))
            is_in = (byte + by >= 0) & (byte + by < CELL)
            found.append(cells[row[is_in], byte[is_in] + by])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _siblings(self, x: InRows, row: int) -> tuple[np.ndarray, int]:
        """The bytes beside the factors of some rows in their cells of tensor memory that no product uses, and how many
        bytes these cells have.
        """
        found = []
        wanted = distinct(x.at[:, row : row + WARP_LANES])
        for copy in {id(copy): copy for use in x.uses for copy in use.copies}.values():
            cells = copy.addresses.reshape(len(copy.offsets), -1, CELL)
            found.append(cells[among(cells, wanted).any(axis=-1)])
        every = union(found)
        return every[~among(every, self.every)], len(every)

    def _idle_copy(self, x: InRows) -> Brought | None:
        """A copy of which no product uses a byte, nearest to the factors of these rows, where such copies have as many
        as these rows and k lack.
        """
        mine = distinct(x.at[x.at >= 0])
        found, count = None, len(mine)
        for copy, at in self._idle_copies:
            nearest = [int(np.abs(used - at[0]).min()) for used in (self.used[side] for side in SIDES) if len(used)]
            if self._are_of_one(at[:1], mine[:1]) and SIDES[int(np.argmin(nearest))] == x.rows.side:
                found, count = found or copy, count + len(at)
        return found if x.at.size <= count else None

    @functools.cached_property
    def _idle_copies(self) -> list[tuple[Brought, np.ndarray]]:
        """The copies of which no product uses a byte, with their content, if that may be factors."""
        each = ((copy, union([copy.addresses])) for copy in self.factors.brought.values())
        return [(copy, at) for copy, at in each if len(at) and not among(at, self.every).any() and self._is_like(at, self.every)]

    def _idle(self, x: InRows, missing: int, known: np.ndarray | None = None) -> Idle:
        """Are there as many bytes as rows and k lack, with several values, that no product uses, or none of the `known`
        ones?

        They are at the place of the missing ones if they lie between the factors of the operand. They may also lie
        before or after them, but no farther than the factors lie apart. In an array that is as large as all rows and k
        need, all bytes count: there is no room for the same factors of another operand.
        """
        region = self.memory.find(int(x.at[x.at >= 0][0]))
        used = self.used[x.rows.side]
        used = used[(used >= region.begin) & (used < region.end)]
        first, end = int(used[0]), int(used[-1]) + 1
        if missing <= 0 or end - first > MOST_BYTES:
            return Idle.NONE
        needed = sum(y.at.size for rows, y in self.rows.items() if rows.side == x.rows.side)
        is_full = needed <= region.end - region.begin < needed + len(used)
        apart = missing if is_full else int(np.diff(used).max(initial=1)) - 1

        def are_there(more: int) -> bool:
            between, behind, before = (
                self._unused(max(a, region.begin), min(b, region.end), used, self.every if known is None else known)
                for a, b in ((first, end), (end, end + more), (first - more, first))
            )
            found = [values for values in (np.append(between, behind), np.append(before, between)) if len(values) >= missing]
            return any(len(distinct(values)) > 1 for values in found)

        return Idle.OWN if are_there(apart) else Idle.NEAR if are_there(min(FAR * missing, FARTHEST)) else Idle.NONE

    def _unused(self, first: int, end: int, used: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The values of bytes, from one address up to another, that are not among `known` ones, if they are as those of
        used ones may be.
        """
        at = np.arange(first, end)
        values = self.values(at[~among(at, known)])
        found: np.ndarray = values[self._near(values, used)]
        return found

    def _same_cell(self, x: InRows, n: int, before: int, siblings: np.ndarray) -> Finding:
        return _same_id(x.rows, x.uses[n], (x.k[n], x.k[before]), len(siblings), self._arrays(x.uses[n]))

    def _same_columns(self, x: InRows, n: int, before: int, copy: Brought) -> Finding:
        use, layout = x.uses[n], x.uses[n].layout
        assert layout is not None, "a copy has brought the factors"
        return at_instruction(
            "S702", use.event.instruction,
            f"{named(x.rows)} are multiplied at k = {x.k[n]} with the {self.name} of k = {x.k[before]}, in columns {layout.column} to "
            f"{layout.column + layout.columns - 1}",
            f"the columns that hold the {self.name} of this k",
            why=f"the {self.name} that {copy.event.instruction.at} copies to columns from {copy.column} on are never used", arrays=self._arrays(use), other=copy.event.instruction,
        )  # fmt: skip

    def _not_refilled(self, x: InRows, n: int, before: int, *, is_certain: bool = True) -> Finding:
        use = x.uses[n]
        loader = self._loader(use)
        line = f", which {loader.at} loads" if loader is not None else ""
        return at_instruction(
            "R508", use.event.instruction,
            f"{named(x.rows)} are multiplied at k = {x.k[n]} with the {self.name} of k = {x.k[before]}, from {use.base:#x} on{line}",
            why=f"no product uses those of k = {x.k[n]}" if is_certain else f"no product uses the bytes near them, which may be those of k = {x.k[n]}, unless both k are meant to share their {self.name}",
            repair=self._repair_of_k(use), arrays=self._arrays(use), other=loader, milder=None if is_certain else Severity.NOTE,
        )  # fmt: skip

    def _repair_of_k(self, use: Use) -> str:
        if use.copies:
            return f"load and copy the {self.name} of each tile of k, and name the columns that hold them"
        return f"load the {self.name} of each k, in the threads that the sparsity selector names"

    def _repair_of_order(self) -> str:
        return "scale ids, columns and coordinates of the loads that advance with k"

    def _out_of_order(self, x: InRows, row: int, seq: list[int], *, is_certain: bool) -> Finding:
        n = next((n for n in range(1, len(seq)) if seq[n] < seq[n - 1]), 1)
        use = x.uses[n]
        return at_instruction(
            "R508", use.event.instruction,
            f"the {self.name} of {named(x.rows)} are in another order than k", self._repair_of_order(),
            why=f"row {x.rows.first + row} gets the byte at {seq[n]:#x} for k = {x.k[n]}, and the byte at {seq[n - 1]:#x} for k = {x.k[n - 1]}" + ("" if is_certain else ", unless they were stored in that order"),
            arrays=self._arrays(use), other=self._loader(use), milder=None if is_certain else Severity.NOTE,
        )  # fmt: skip

    # ---- along rows

    @functools.cached_property
    def _tiles(self) -> dict[tuple[object, ...], list[InRows]]:
        """Blocks of rows of one tensor with one k, by their factors."""
        found: dict[tuple[object, ...], list[InRows]] = {}
        for x in self.rows.values():
            for block in x.blocks():
                found.setdefault(block.key(), []).append(block)
        return found

    def _along_rows(self, x: InRows) -> Finding | None:
        """R508 if two tiles of rows, or two blocks of 128 rows, have the factors of one, while those after them are
        never used.
        """
        return next(filter(None, map(self._block_along_rows, x.blocks())), None)

    def _block_along_rows(self, x: InRows) -> Finding | None:
        one, *others = self._tiles[x.key()]
        two = next(iter(others), one)
        least, most = sorted((one.rows.extent, two.rows.extent))
        at = one.at[0, :least]
        if (
            abs(one.rows.first - two.rows.first) < most
            or one.k != two.k
            or not np.array_equal(at, two.at[0, :least])
            or not self.is_data(at)
        ):
            return None
        tiles = [y for y in self.rows.values() if (y.rows.side, y.rows.tensor, y.rows.plane) == (x.rows.side, x.rows.tensor, x.rows.plane)]
        every = np.concatenate([y.at.reshape(-1) for y in tiles])
        idle, use = self._idle(x, len(every) - len(distinct(every))), two.uses[0]
        if not idle:
            return None
        why, repair = self._why_along_rows(one, two)
        return at_instruction(
            "R508", use.event.instruction,
            f"{named(one.rows)} and rows {two.rows.first} to {two.rows.first + two.rows.extent - 1} get the same {self.name}, from {int(at.min()):#x} on",
            why=why + ", unless both are meant to share theirs" * (idle is Idle.NEAR), milder=None if idle is Idle.OWN else Severity.NOTE,
            repair=repair, arrays=self._arrays(use), other=self._loader(use),
        )  # fmt: skip

    def _outside(self, x: InRows) -> Finding | None:
        """R508 where rows have factors of some k from boxes outside of the tensor map, which are 0, while no copy
        brings others in the array.
        """
        outside = x.at == OUTSIDE
        if not outside.any() or outside.all() or not self.is_data(x.at[x.at >= 0]):
            return None
        idle = self._idle(x, int(outside.sum()), self.brought)
        if not idle:
            return None
        n = int(np.argmax(outside.any(axis=1)))
        use = x.uses[n]
        return at_instruction(
            "R508", use.event.instruction,
            f"{named(x.rows)} are multiplied at k = {x.k[n]} with {self.name} from outside of their tensor map, which are 0", f"coordinates of the {self.name} of this k",
            why="nothing copies the bytes next to those of other k" + ", unless they are padding" * (idle is Idle.NEAR),
            arrays=self._arrays(use), other=self._loader(use), milder=None if idle is Idle.OWN else Severity.NOTE,
        )  # fmt: skip

    def _why_along_rows(self, one: InRows, two: InRows) -> tuple[str, str]:
        """Why two tiles of rows have the same factors, and the fix.

        The factors of the second tile are in other columns if the copies bring as many bytes more, and their whole
        array is loaded. Otherwise they are not loaded. An instruction for both tiles names one column.
        """
        use, layout = two.uses[0], two.uses[0].layout
        is_one = one.uses[0].event is use.event
        if is_one and isinstance(layout, ScaleLayout) and (layout.operand, layout.cta_group, layout.m) == ("B", 2, LANES):
            why = f"for M = {LANES} a pair takes those of {named(two.rows)} from lanes {LANES // 2} to {LANES - 1}"
            return why, f"tcgen05.cp.64x128b.warpx2::01_23 of a block of {self.name} for each half of N"
        copied, region = union(copy.addresses for copy in use.copies), self.memory.find(use.base)
        left, by = copied[~among(copied, self.every)], two.rows.first - one.rows.first
        is_loaded = region.end - region.begin == int(((self.brought >= region.begin) & (self.brought < region.end)).sum())
        if (
            not isinstance(layout, ScaleLayout)
            or is_one
            or not 0 < by < LANES
            or by % WARP_LANES
            or len(left) < two.at.size
            or not is_loaded
        ):
            return "no product uses the bytes next to them", f"load the {self.name} at the coordinate of {one.rows.side.upper()}'s rows"
        column = layout.column + by // WARP_LANES
        why = f"{use.copies[-1].event.instruction.at} copies {len(left)} bytes more with them, and no product uses these"
        return why, f"column {column} as the first one of the {self.name} of {named(two.rows)}"

    # ---- bytes of global memory

    def values(self, at: np.ndarray) -> np.ndarray:
        """The values at addresses of arrays; -1 if they are uninitialised or outside of all arrays."""
        return bytes_at(self.memory, at)

    def is_data(self, at: np.ndarray) -> bool:
        """Have bytes been written, with more than one value? Padding has one, or has not been written."""
        values = self.values(np.asarray(at).reshape(-1))
        return bool(len(values)) and bool((values >= 0).all()) and len(distinct(values)) > 1

    def _near(self, values: np.ndarray, used: np.ndarray) -> np.ndarray:
        """Which values of bytes that no product uses may be factors too: they are about as large as those of used ones.
        Others are what happens to lie in padding.
        """
        if self.name != SCALES:
            near: np.ndarray = values >= 0
            return near
        return _are_near(values, self.values(used))

    def _is_like(self, idle: np.ndarray, used: np.ndarray) -> bool:
        """May bytes that no product uses be factors, as used ones are? They hold several values, nearly all about as
        large.
        """
        values = self.values(np.asarray(idle).reshape(-1))
        if not len(values) or (values < 0).any() or len(distinct(values)) < 2:
            return False
        used = np.asarray(used).reshape(-1)
        return bool(self._near(values, used[used >= 0]).mean() >= LIKE)

    def _are_of_one(self, *each: np.ndarray) -> bool:
        """Does one array hold all of these bytes?"""
        at = np.concatenate([np.asarray(x).reshape(-1) for x in each])
        return self.memory.holding(int(at.min()), int(at.max()) + 1) is not None

    def _arrays(self, *uses: Use) -> tuple[int, ...]:
        return tuple(use.base for use in uses)

    @functools.cached_property
    def _written(self) -> set[int] | None:
        """The arrays that the program may write to; None: any."""
        return may_be_written(self.launch)

    # ---- loads

    @functools.cached_property
    def _loaders(self) -> dict[object, Bulk | Load]:
        """The events of bulk copies, by their transfers, and of tensor loads, by map and coordinates."""
        found: dict[object, Bulk | Load] = {}
        for event in self.launch.result.events.transfers():
            if isinstance(event, Bulk):
                found |= {id(transfer): event for transfer in event.transfers}
            elif isinstance(event, Load):
                found.setdefault((event.tensor_map.global_address, event.coordinates), event)
        return found

    def _event_of(self, load: object) -> Bulk | Load | None:
        """The instruction that a load is of."""
        return self._loaders.get((load.tensor_map.global_address, load.coordinates) if isinstance(load, Transfer) else id(load))

    def _events_of(self, use: Use) -> list[Bulk | Load]:
        """The loads of what the last copy has copied, also if threads have stored it once more."""
        known = [event for load in use.copies[-1].loads if (event := self._event_of(load)) is not None]
        at = use.copies[-1].addresses[:1, :1]
        every = dict.fromkeys(self._loaders.values())
        return known or [event for event in every if any(among(at, union([own])).all() for own in _sources_of(event))]

    def _loader(self, use: Use) -> Instruction | None:
        """The instruction that has loaded factors into shared memory, if it is known."""
        events = (self._event_of(load) for copy in use.copies for load in copy.loads)
        return next((event.instruction for event in events if event is not None), None)

    @functools.cached_property
    def _idle_load(self) -> Bulk | Load | None:
        """A load into shared memory of which no copy brings a byte to tensor memory, and which may be one of factors.
        A tensor load counts if its map is that of no operand.
        """
        operands = {rows.tensor[0] for rows in self.rows}
        for event in dict.fromkeys(self._loaders.values()):
            if isinstance(event, Load) and event.tensor_map.global_address in operands:
                continue
            for at in _sources_of(event):
                if len(at) and not among(at, self.brought).any() and self._is_like(at, self.every):
                    return event
        return None


def _same_id(rows: Rows, use: Use, k: tuple[int, int], idle: int, arrays: tuple[int, ...] = ()) -> Finding:
    """S702 where rows have one factor at two k, and so many bytes of the same cells are never used."""
    assert isinstance(use.layout, ScaleLayout)
    mode, copy = use.layout.mode, use.copies[0].event
    field = InstrDescriptor.decode(use.event.idesc or 0, kind=use.event.kind).table.fields[f"{rows.side}_sf_id"]
    return at_instruction(
        "S702", use.event.instruction,
        f"{named(rows)} are multiplied at k = {k[0]} with the scale factors of k = {k[1]} (scale id {use.layout.scale_id}, column {use.layout.column})",
        f"let the scale id of {rows.side.upper()} advance with k: {', '.join(map(str, mode.ids))}, in bits {field.low + field.width - 1}:{field.low} of the instruction descriptor "
        "(bits 31:30 of the address have no effect)",
        arrays=arrays, other=copy.instruction, why=f"{copy.instruction.at} copied {idle} more bytes of factors, for other k, to these cells, and no instruction uses them",
    )  # fmt: skip


def _are_near(values: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Which values are as near to those of factors as these are to one another?"""
    low, high = int(used.min()), int(used.max())
    spread = max(high - low, LEAST_SPREAD)
    near: np.ndarray = (values >= max(low - spread, 0)) & (values <= high + spread)
    return near


def _gap(x: InRows, before: int, now: int) -> tuple[tuple[int, int], int] | None:
    """The bytes of a cell that two k in a row have their factors in, if they are no neighbours, and its column."""
    places = []
    for n in (before, now):
        use, layout = x.uses[n], x.uses[n].layout
        if not isinstance(layout, ScaleLayout) or layout.scale_id + layout.scales > CELL:
            return None
        places.append((layout.column, layout.scale_id + (x.k[n] - use.k) // use.elements))
    is_next = x.k[now] - x.k[before] == x.uses[before].elements == x.uses[now].elements
    (column, first), (other, second) = places
    return ((first, second), column) if is_next and column == other and second > first + 1 else None


def _skipped(x: InRows, n: int, byte: tuple[int, int], column: int) -> Finding:
    """S702 where the factors of two k in a row are no neighbours."""
    use = x.uses[n]
    copy = use.copies[0].event
    idle = ", ".join(map(str, range(byte[0] + 1, byte[1])))
    return at_instruction(
        "S702", use.event.instruction,
        f"{named(x.rows)} are multiplied with byte {byte[1]} of column {column} at k = {x.k[n]}, and with byte {byte[0]} at k = {x.k[n - 1]}",
        why=f"byte {idle}, which {copy.instruction.at} copies there, is never used", repair=f"scale ids of {x.rows.side.upper()} that follow one another", arrays=(use.base,), other=copy.instruction,
    )  # fmt: skip


def _of_all_stored(copies: Sequence[Brought], side: str) -> list[Finding]:
    """S702 of the first of some copies of factors that threads have stored. What one CTA leaves out another one may
    use: of a line all copies count. So do copies of the same bytes by other lines, as those of an unrolled loop.
    """
    found = (_of_stored(copy, side, copies) for copy in copies)
    return [of_kind(f, side) for f in found if f is not None][:1]


def _are_one(copy: Brought, other: Brought) -> bool:
    """Do copies count together: those of one line, or of the same bytes?"""
    return copy.event.instruction.line == other.event.instruction.line or copy.content == other.content


def _of_stored(copy: Brought, side: str, copies: Sequence[Brought]) -> Finding | None:
    """S702 where rows have one factor at several k, and bytes of a cell hold several values that no product uses. There
    is no finding if the rows have more k than all their cells have bytes: some factors are those of several k.
    """
    taken = _taken_by(copy, side)
    if len({rows for rows, *_ in taken}) != 1 or copy.values is None or any(layout.column != copy.column for *_, layout in taken):
        return None
    first: dict[int, int] = {}  # of each byte of a cell the k that it is taken for first
    again = next(((use, (k, first[byte])) for use, byte, k in _bytes_of_k(taken) if first.setdefault(byte, k) != k), None)
    used = {byte for one in copies if _are_one(copy, one) for _, byte, _ in _bytes_of_k(_taken_by(one, side))}
    idle = [byte for byte in range(CELL) if byte not in used]
    own = [(one, [part for part in one.taken if part[0] == taken[0][0]]) for one in copies]
    k, cells_of_rows = {k for _, parts in own for *_, k in _bytes_of_k(parts)}, {one.content for one, parts in own if parts}
    if again is None or not idle or len(k) > CELL * len(cells_of_rows):
        return None
    cells = copy.values.reshape(len(copy.values), -1, CELL)[:, : -(-taken[0][0].extent // WARP_LANES)]
    values = cells[..., idle].astype(np.int64)
    if len(distinct(values)) < 2 or _are_near(values, cells[..., sorted(first)].astype(np.int64)).mean() < LIKE:
        return None
    return _same_id(taken[0][0], again[0], again[1], cells[..., idle].size)


def _taken_by(copy: Brought, side: str) -> list[tuple[Rows, Use, ScaleLayout]]:
    """What products of a side take of a copy."""
    return [one for one in copy.taken if one[0].side == side]


def _bytes_of_k(taken: Sequence[tuple[Rows, Use, ScaleLayout]]) -> list[tuple[Use, int, int]]:
    """The byte of a cell that products take for each k."""
    return [(use, layout.scale_id + n, use.k + n * use.elements) for _, use, layout in taken for n in range(layout.scales)]


def _unread_k(uses: Iterable[Use]) -> int | None:
    """The first k of some rows that no instruction multiplies, if their number of k is known."""
    spans = sorted((use.k, use.k + use.elements * use.offsets.shape[1], use.size[1]) for use in uses)
    end = 0
    for begin, after, _ in spans:
        if begin > end:
            break
        end = max(end, after)
    return end if end < spans[0][2] else None


def _axis_of_rows(tm: TensorMap, use: Use) -> int | None:
    """The dimension of a map of scale factors that is the operand's rows: the outer one of bytes, the inner one of
    words of four factors. None for other matrices.
    """
    if tm.rank != 2 or not use.size[0]:
        return None
    rows, blocks = use.size[0], -(-use.size[1] // use.elements)
    inner, outer = tm.global_dim
    if tm.type_row.bits == 8 and outer == rows and CHUNK < inner < LANES and blocks <= inner < blocks + CHUNK:
        return 1
    padded = (-(-rows // unit) * unit for unit in (CELL, LANES))  # to 16 bytes, or to blocks
    return 0 if tm.type_row.bits == 8 * CELL and inner in (rows, *padded) and outer == -(-blocks // CELL) else None


def union(each: Iterable[np.ndarray]) -> np.ndarray:
    """All addresses among some, ascending."""
    parts = [np.asarray(at).reshape(-1) for at in each]
    found = distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
    return found[found >= 0]


def among(at: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Which addresses are among some that ascend?"""
    if not len(some):
        return np.zeros(at.shape, bool)
    found: np.ndarray = some[np.minimum(np.searchsorted(some, at), len(some) - 1)] == at
    return found


def _sources(load: object) -> np.ndarray:
    """The bytes of global memory that a load brings."""
    at = load.sources if isinstance(load, BulkTransfer | Transfer) else np.zeros(0, np.int64)
    return at[at >= 0]


def _sources_of(event: Bulk | Load) -> list[np.ndarray]:
    """The bytes of global memory that each transfer of a load brings to shared memory."""
    if isinstance(event, Bulk):
        return [_sources(transfer) for transfer in event.transfers if transfer.dst_space != "global"]
    return [_sources(tma_load(event.tensor_map, event.coordinates, smem_address=0))] if event.mode == "tile" else []


def named(rows: Rows | None) -> str:
    """Rows in words."""
    return "" if rows is None else f"rows {rows.first} to {rows.first + rows.extent - 1} of {rows.side.upper()}"


def _order(at: np.ndarray) -> tuple[str, np.ndarray, int] | None:
    """`exchanged` for up to 128 rows. Blocks of 32 lanes x 4 rows x 4 bytes are a valid order of factors in global
    memory.
    """
    if len(at) % WARP_LANES:
        return None
    rows, found = np.arange(len(at)), exchanged(at)
    if found is None or not np.array_equal(found[1], rows % WARP_LANES * CELL + rows // WARP_LANES):
        return found if found is not None and found[0] else None
    return (LINEAR, *found[1:]) if found[2] != CELL else None
