"""The reads of the matrix instructions of a run.

Every instruction of every CTA is seen. The work of a CTA is split into pieces that share no tile and no sum (the
tiles of the result that it computes in turn). If pieces differ only in the places of their tiles, the first one is
kept.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.product import SharedOperand
from smemsim.core.machine.tma import Transfer
from smemsim.core.spec.formats import FORMATS, element_format
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.spec.tensor_memory import WARP_LANES
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.covered import NO_LOAD
from smemsim.diagnosis.operands.cta_traces import CtaTrace, SharedTrace, Step
from smemsim.diagnosis.operands.factors import Factors, Registers
from smemsim.diagnosis.operands.fragments import FragmentFactors
from smemsim.diagnosis.operands.frames import Frames
from smemsim.diagnosis.operands.looked_up import address_slots, are_looked_up
from smemsim.diagnosis.operands.pairings import Pairings, is_next
from smemsim.diagnosis.operands.pieces import apart, goes_on
from smemsim.diagnosis.operands.places import (
    CHANGED,
    OTHER_MODES,
    OTHER_WIDTH,
    PIXELS_APART,
    RECOGNISED,
    SEVERAL_PLACES,
    Found,
    Noted,
    Places,
    Stray,
    Told,
    matrix_of,
    owners_of,
    places_of,
    stray_of,
    tile_of,
    ways,
    writers_of,
)
from smemsim.diagnosis.operands.read import PATTERN, Issued, Matrix, OperandRead, Piece, Product, Reach, is_outside
from smemsim.diagnosis.operands.types import NARROW
from smemsim.diagnosis.operands.warp_sums import WarpSums
from smemsim.diagnosis.thread_tiles import ThreadTiles
from smemsim.run.engine.records import Bulk, Copy, Fragments, Load, Metadata, Mma, Products, Store, WarpProducts
from smemsim.run.events import MergeableObserver

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Instruction
    from smemsim.run import views
    from smemsim.run.async_ops import TensorAccess
    from smemsim.run.engine.wave import Cta, Wave

__all__ = ["MOST", "MOST_CACHED", "MOST_PIECES", "NEAR", "Reads", "is_packed"]
MOST = 1 << 16  # matrix instructions of a CTA that are kept until its end
MOST_PIECES = 256  # different pieces, each checked
MOST_CACHED = 1 << 14
MOST_WAYS = 1 << 10  # that all launches share
NEAR = 64  # events of a CTA
SUB_BYTE = "operands of 4 or 6 bits"
# kinds of tcgen05.mma with two elements in each byte of shared memory, and the one that scales bytes as they do
PACKED_KINDS = tuple(
    name for name, kind in KINDS.items() if kind.packing == "packed" and {FORMATS[t].bits for t in kind.a_types.values()} == {4}
)
PACKED = frozenset(f"kind::{kind}" for kind in PACKED_KINDS)
OF_BYTES = KINDS["mxf8f6f4"]


def after_most() -> str:
    """The reason why instructions of a CTA with very many of them are not checked."""
    return f"a CTA after its first {MOST:,} matrix instructions"


def of_other_ctas() -> str:
    """The reason why instructions are not checked if very many CTAs differ."""
    return f"CTAs that do something other than the first {MOST_PIECES} different ones"


class _ReadAlike(NamedTuple):
    """The reads of an instruction's events in one CTA. For each operand it has its side, an event, itself and its
    place. The lines of all end at `ends`.
    """

    of: list[tuple[str, Mma, SharedOperand, Places]]
    lines: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(eq=False)
class _Running:
    """The state while CTAs run: traces by wave, and the known facts of operands that look alike."""

    waves: dict[Wave, dict[int, CtaTrace]] = dataclasses.field(default_factory=dict)
    together: dict[Wave, SharedTrace] = dataclasses.field(default_factory=dict)
    maps: dict[int, tuple[TensorMap, str]] = dataclasses.field(
        default_factory=dict
    )  # by identity: the content of a map without its address
    places: dict[SharedOperand, Places | None] = dataclasses.field(default_factory=dict)
    # by the instruction and the words of a CTA's events
    read_alike: dict[Any, _ReadAlike | None] = dataclasses.field(default_factory=dict)
    matrices: dict[Any, Matrix | str] = dataclasses.field(default_factory=dict)
    # by the load and how an operand lies in it; see `ways`
    ways: dict[Any, Told] = dataclasses.field(default_factory=dict)
    done: set[tuple[Any, ...]] = dataclasses.field(default_factory=set)  # what CTAs did whose pieces are kept
    pairings: dict[int, Pairings] = dataclasses.field(default_factory=dict)  # by the CTA's number
    # by the operand and the line of the instruction: is it read as another width than a map of 4 or 6 bits has?
    narrow: dict[tuple[str, int], bool] = dataclasses.field(default_factory=dict)


class Reads(MergeableObserver):
    """The operand check of a launch. It is an observer of transfers and products, and collects the reads of the matrix
    instructions of all CTAs.

    The tables `products` and `loads` are those of the kept pieces. Matrix instructions with operands in shared memory
    are counted in `instructions`. Those with an unchecked operand are counted in `missed_instructions`, by reason.
    """

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.pieces: dict[bytes, Piece] = {}
        self.instructions = 0
        self.ctas: set[int] = set()  # that have such instructions
        self.missed_instructions: collections.Counter[str] = collections.Counter()
        # operands in shared memory, "a" and "b"; a pair's count once
        self.sides: collections.Counter[str] = collections.Counter()
        # ... of which it is known whether they lie as they are read
        self.sides_checked: collections.Counter[str] = collections.Counter()
        self.copies = 0
        self.complete = True  # Were all of them looked at?
        self.maps: dict[tuple[Any, ...], Load | Store] = {}  # the first use of each tensor map
        # operands of other elements than their map, by the load
        self.widths: dict[tuple[str, int, int], tuple[str, Issued, Mma]] = {}
        # operands of im2col whose rows are no pixels, with their words, by the load
        self.pixels: dict[tuple[str, int, int], tuple[str, Issued, Mma, int]] = {}
        # boxes at another coordinate than the others of an operand, by the load
        self.strays: dict[tuple[str, int, int], tuple[str, Stray, Mma]] = {}
        # Operand, load and dimension of tiles past the last k, while the other operand's is not.
        self.outside: dict[tuple[str, int], tuple[str, Issued, int]] = {}
        self.reaches: dict[tuple[int, int], Reach] = {}  # by the addresses of the two matrices
        # Operand, line, maps and how far apart they lie: what the two CTAs of a pair have read for one instruction.
        self.pairs: dict[tuple[str, int, int, int, tuple[int, ...]], tuple[Mma, OperandRead, OperandRead]] = {}
        self.threads = ThreadTiles()
        self.frames = Frames()
        self.factors = Factors()
        self.fragments = FragmentFactors()
        self.warps = WarpSums()
        self._in_order: tuple[list[Product], list[Issued]] | None = None
        self.sums: list[Any] | None = None  # of the products in order (sums.py), when they have been asked for
        self._looked_up_lines: dict[int, bool] = {}  # of tensor loads, whether their coordinates come from memory
        self._forget()

    def _forget(self) -> None:
        self._running = _Running()

    # ---- pieces of other processes

    def fresh(self) -> Reads:
        """A `Reads` that has recorded nothing yet, for CTAs that another process executes."""
        return Reads(self.arch)

    def finish(self) -> Reads:
        """The record in pieces. Call it when the CTAs have come to their end, or will not."""
        for wave in self._running.waves:
            self._close(wave)
        self._forget()
        self.factors.finish()
        self.fragments.finish()
        self.threads.finish()
        self.warps.finish()
        return self

    def merge(self, other: Reads) -> None:
        """Take what another one has seen, of CTAs that come after this one's."""
        self.finish()
        for piece in other.pieces.values():
            self._keep(piece)
        self.instructions += other.instructions
        self.ctas |= other.ctas
        self.missed_instructions.update(other.missed_instructions)
        self.sides.update(other.sides)
        self.sides_checked.update(other.sides_checked)
        self.copies += other.copies
        self.complete &= other.complete
        self.maps |= {key: use for key, use in other.maps.items() if key not in self.maps}
        self.widths |= {key: read for key, read in other.widths.items() if key not in self.widths}
        self.pixels |= {key: read for key, read in other.pixels.items() if key not in self.pixels}
        self.strays |= {key: stray for key, stray in other.strays.items() if key not in self.strays}
        self.outside |= {key: load for key, load in other.outside.items() if key not in self.outside}
        self.threads.found = other.threads.found | self.threads.found
        self.threads.is_decided &= other.threads.is_decided
        self.frames.merge(other.frames)
        self.factors.merge(other.factors)
        self.fragments.merge(other.fragments)
        self.warps.merge(other.warps)
        self.pairs |= {key: pair for key, pair in other.pairs.items() if key not in self.pairs}
        for key, reach in other.reaches.items():
            self.reaches[key] = self.reaches[key].joined(reach) if key in self.reaches else reach

    # ---- what is kept

    @property
    def has_seen(self) -> bool:
        """Was there a transfer, or a matrix instruction that reads shared memory, or scale factors or metadata in
        registers?
        """
        is_in_registers = self.fragments.instructions or self.fragments.registers
        return bool(is_in_registers or self.maps or self.instructions or self.copies or self.pieces or self._running.waves)

    @property
    def missed(self) -> dict[str, int]:
        """The number of instructions that were not checked, by reason."""
        return dict(self.missed_instructions) | ({"tcgen05.cp": self.copies} if self.copies else {})

    @property
    def products(self) -> list[Product]:
        """All products of the pieces that are kept, in the order of execution of each CTA."""
        return self._ordered()[0]

    @property
    def loads(self) -> list[Issued]:
        """All loads of tiles, of the pieces that are kept."""
        return self._ordered()[1]

    def _ordered(self) -> tuple[list[Product], list[Issued]]:
        self.finish()
        if self._in_order is None:
            by = operator.attrgetter("cta", "number")
            pieces = self.pieces.values()
            self._in_order = (
                sorted((p for x in pieces for p in x.products), key=by),
                sorted((load for x in pieces for load in x.loads), key=by),
            )
            self._leave_out(*self.frames.take_out(self._in_order[0]))
        return self._in_order

    def _leave_out(self, reason: str, counts: Mapping[str, int]) -> None:
        """Count operands that were taken for checked ones, by side."""
        for side, count in counts.items():
            self.sides_checked[side] -= count
            self.missed_instructions[reason] += count

    def around(self, p: Product) -> list[Issued]:
        """The loads from a little before the first that a product read up to the product: what a wrong descriptor may
        have missed.
        """
        used = [load.number for read in p.reads for load in read.loads]
        return [load for load in self.loads if load.cta == p.cta and min(used, default=0) - NEAR <= load.number <= p.number]

    # ---- events

    def transferred(self, x: views.Wave, i: Instruction, transfers: Sequence[Load | Store | Bulk | Copy]) -> None:
        """Note what has been loaded, and tensor maps; several loads at once are those that CTAs issue alike."""
        wave = cast("Wave", x)
        if len(transfers) > 1 and isinstance(transfers[0], Load):
            self._loaded_together(wave, cast("Sequence[Load]", transfers))
        else:
            for one in transfers:
                self._transferred(wave, one)

    def _transferred(self, x: Wave, event: Load | Store | Bulk | Copy) -> None:
        if isinstance(event, Load | Store):
            self.maps.setdefault((event.map_address, self._map_key(event.tensor_map), event.tensor_map.global_address), event)
        if isinstance(event, Load):
            self._part(x)
            first = x.numbered(event.cta)
            for delivery in event.deliveries:
                self._loaded(x, x.ctas[first.index - first.rank + delivery.cta_rank], event)
        elif isinstance(event, Copy):
            followed = x.launch.program.has(_is_scaled) and [
                self.factors.copied(x, cta, event, self._places_read) for cta in _group_of(x, event)
            ]
            self.copies += not (followed and all(followed))

    def _loaded_together(self, x: Wave, loads: Sequence[Load]) -> None:
        """Loads of boxes that lie inside a tensor, which CTAs without a cluster issue alike. They are recorded as if
        they came one after the other.
        """
        ctas, first = [x.numbered(load.cta) for load in loads], loads[0]
        numbers, key = [cta.number for cta in ctas], self._map_key(first.tensor_map)
        if x not in self._running.waves:
            trace = self._courses(x)[first.cta] = CtaTrace(first.cta)
            self._running.together[x] = SharedTrace(numbers, trace)
        its = self._running.together.get(x)
        is_alike = (
            its is not None and its.ctas == numbers and len({len(cta.shared.writers) for cta in ctas}) == 1 and its.load_alike(loads, key)
        )
        if its is None or not is_alike:
            for load in loads:
                self._transferred(x, load)
            return
        self.maps.setdefault((first.map_address, key, first.tensor_map.global_address), first)
        its.loads.append((loads, [cast(Transfer, cta.shared.writers[-1]) for cta in ctas]))
        self._loaded(x, ctas[0], first)

    def _part(self, x: Wave) -> None:
        """CTAs of a wave do not do the same any more: what each has done is noted by itself."""
        its = self._running.together.pop(x, None)
        if its is not None:
            self._running.waves[x] |= {trace.cta: trace for trace in its.others()}

    def _multiply_together(self, x: Wave, products: Products) -> bool:
        """Note what the CTAs of a wave multiply together, once for all; False, and nothing is noted, where each has to
        be looked at.
        """
        its = self._running.together.get(x)
        if its is None or products.ctas != its.ctas:
            return False
        own, trace = products.own, its.first
        if own[0].cta_group != 1 or trace.looked + len(own) > MOST:
            return False
        noted = self._noted_together(x, its, own)
        if noted is None:
            return False
        for k, event in enumerate(own):
            trace.count += 1
            trace.looked += 1
            its.steps.append((products, k))
            trace.steps.append(Step(self.instructions, trace.count, event, noted.get(("a", event.a)), noted["b", event.b]))
            self.instructions += 1
        self.instructions += products.count - len(own)
        for sides in (self.sides, self.sides_checked):
            sides["b"] += products.count
            sides["a"] += sum(event.a is not None for event in own) * (products.count // len(own))
        self.ctas.update(its.ctas)
        return True

    def _noted_together(self, x: Wave, its: SharedTrace, own: list[Mma]) -> dict[tuple[str, int | None], Noted] | None:
        """The operands that all CTAs read in the same way, by side and word. None, unless one load has written all
        lines of each operand, the same lines in each CTA, and the tensor starts at one place for all.
        """
        cta = x.numbered(its.first.cta)
        key = tuple([(id(event.instruction), event.idesc, event.a, event.b) for event in own])
        if key not in self._running.read_alike:
            if len(self._running.read_alike) > MOST_CACHED:
                self._running.read_alike.clear()
            self._running.read_alike[key] = self._reads_of(cta, own)
        reads = self._running.read_alike[key]
        if reads is None:
            return None
        noted: dict[tuple[str, int | None], Noted] = {}
        writers = x.memories.owners.one_writers(its.begins(x), reads.lines, reads.ends)
        for (side, event, operand, places), writer in zip(reads.of, writers, strict=True):
            it = self._known(its.first, cta, (event, side), Found(operand, places, writer)) if writer else None
            if not isinstance(it, Noted) or not its.begin_alike(it):
                return None
            noted[side, operand.number] = it
        return noted

    def _reads_of(self, cta: Cta, own: list[Mma]) -> _ReadAlike | None:
        """The operands of a CTA's instructions that shared memory holds; None where it is not known of one in which
        lines it lies.
        """
        of: dict[tuple[str, int], tuple[str, Mma, SharedOperand, Places]] = {}
        lines = []
        for event in own:
            for side, word in (("a", event.a), ("b", event.b)):
                operand, places, _ = self._found(cta, event, side)
                if word is None or operand is None or (side, word) in of:
                    continue
                if places is None or places.lines is None:
                    return None
                of[side, word] = side, event, operand, places
                lines.append(places.lines)
        return _ReadAlike(list(of.values()), np.concatenate(lines), np.array([*itertools.accumulate(map(len, lines))], np.int64))

    def _known(self, trace: CtaTrace, cta: Cta, use: tuple[Mma, str], found: Found) -> Noted | str | None:
        """`_operand` of one that lies in whole lines of one load: most were looked at before."""
        operand, places, writer = found
        told = _told_before(trace, cta, places, writer) if writer and places is not None else None
        if told is not None and operand is not None:
            return Noted(operand.number, operand.major, *told)
        return None if operand is None else self._operand(trace, cta, use, operand, places, writer)

    def _scaled(self, x: Wave, events: Sequence[Mma]) -> None:
        """Note the scale factors and the metadata of products."""
        for event in events:
            if event.scales is not None or event.metadata is not None:
                members = sorted(_group_of(x, event), key=lambda cta: cta.index)
                self.factors.multiplied(x, members, event, self._places_read)

    def _metadata(self, x: Wave, products: Products, metadata: Metadata) -> None:
        """Note the metadata registers of wgmma.mma_async.sp, and where their bytes come from, if that is followed."""
        places, registers, origins = metadata
        for n, (event, own) in enumerate(zip(products.all, registers, strict=True)):
            words = Registers(places, own, None if origins is None else origins[n])
            self.factors.of_registers(x, x.numbered(event.cta), event, words, self._places_read)

    def fragments_multiplied(self, x: views.Wave, i: Instruction, fragments: Fragments) -> None:
        """Note the scale factors and the metadata of warps."""
        self.fragments.warps_multiplied(cast("Wave", x), i, fragments)

    def warps_multiplied(self, x: views.Wave, i: Instruction, products: WarpProducts) -> None:
        """Note the sums of some warps."""
        self.warps.multiplied(cast("Wave", x), i, products)

    def tensor_stored(self, x: views.Wave, i: Instruction, access: TensorAccess) -> None:
        """The factors in these boxes are overwritten."""
        wave = cast("Wave", x)
        if wave.launch.program.has(_is_scaled):
            for _, cta, lane, first, end in access.boxes:
                self.factors.overwritten(wave, wave.ctas[cta], first, end, lane // WARP_LANES)

    def multiplies(self, x: views.Wave, i: Instruction, products: Products) -> None:
        """Note what each product reads, and the metadata of wgmma.mma_async.sp."""
        wave = cast("Wave", x)
        self._multiplies(wave, products)
        if products.metadata is not None:
            self._metadata(wave, products, products.metadata)

    def _multiplies(self, x: Wave, products: Products) -> None:
        if x.launch.program.has(_is_scaled):
            self._scaled(x, products.all)
        if x.launch.program.has(is_packed):
            products = _in_bytes(products)
        if self._multiply_together(x, products):
            return
        self._part(x)
        events = products.all
        groups = [_group_of(x, event) for event in events]
        found = [{side: self._lines_read(ctas, events, side) for side in ("a", "b")} for ctas in zip(*groups, strict=True)]
        for n, (event, group) in enumerate(zip(events, groups, strict=True)):
            told: set[tuple[str, str]] = set()
            for cta, lines in zip(group, found, strict=True):
                told.update(self._multiply(x, cta, event, {side: its[n] for side, its in lines.items()}))
            self._multiplied(event, told)
            self._pair(x, event)

    def _pair(self, x: Wave, event: Mma) -> None:
        """Note what the two CTAs of a pair have brought for one instruction, once for all that do so as far apart."""
        if event.cta_group == 1:
            return
        steps = [self._running.waves[x][cta.number].steps[-1:] for cta in _group_of(x, event)]
        if not all(own and own[0].event is event for own in steps):
            return
        of_first, of_second = (own[0] for own in steps)
        for side, first, second in (("a", of_first.a, of_second.a), ("b", of_first.b, of_second.b)):
            if first is None or second is None:
                continue
            by = tuple(d - c for c, d in zip(first.loads[0].event.coordinates, second.loads[0].event.coordinates, strict=False))
            key = side, event.instruction.line, first.loads[0].event.map_address, second.loads[0].event.map_address, by
            if key not in self.pairs:
                self.pairs[key] = event, self._read(*first), self._read(*second)

    def _multiplied(self, event: Mma, told: Collection[tuple[str, str]]) -> None:
        """Count an instruction, and its operands by side: all, and the checked ones. `told` has side and reason of the
        others.
        """
        self.ctas.add(event.cta)
        self.instructions += 1
        reasons = {reason for _, reason in told}
        if reasons:
            self.missed_instructions.update(sorted(reasons - {RECOGNISED})[:1] or [RECOGNISED])
        missed = {side for side, reason in told if reason != RECOGNISED}
        for side in ("a", "b") if event.a is not None else ("b",):
            self.sides[side] += 1
            self.sides_checked[side] += not missed & {side, ""}

    def _lines_read(self, ctas: Sequence[Cta], events: Sequence[Mma], side: str) -> list[Found]:
        """The operands of events, and the one load that each reads, if it reads whole lines of one load."""
        alike: dict[int | None, list[int]] = {}
        for n, event in enumerate(events):
            alike.setdefault(event.a if side == "a" else event.b, []).append(n)
        found = [Found(None, None, 0)] * len(events)
        for same in alike.values():
            what = events[same[0]].operand(side)
            if what is None:
                continue
            places = self._places_read(ctas[same[0]].shared, what)
            writers = [0] * len(same)
            if places is not None and places.lines is not None:
                lines = SharedMemory.lines_writers([ctas[n].shared for n in same], places.lines)
                writers = (lines[:, 0] * (lines == lines[:, :1]).all(axis=1)).tolist()
            for n, writer in zip(same, writers, strict=True):
                found[n] = Found(what, places, writer)
        return found

    def _courses(self, x: Wave) -> dict[int, CtaTrace]:
        """The actions of the CTAs of a wave."""
        traces = self._running.waves.get(x)
        if traces is None:
            for wave in [w for w in self._running.waves if w not in x.launch.waves]:
                self._close(wave)
                del self._running.waves[wave]
            traces = self._running.waves[x] = {}
        return traces

    def _course(self, x: Wave, cta: Cta) -> CtaTrace:
        traces = self._courses(x)
        trace = traces.get(cta.number)
        if trace is None:
            trace = traces[cta.number] = CtaTrace(cta.number)
        trace.count += 1
        return trace

    def _loaded(self, x: Wave, cta: Cta, event: Load) -> None:
        trace, transfer = self._course(x, cta), cta.shared.writers[-1]
        if isinstance(transfer, Transfer):
            is_looked_up = self._is_looked_up(x, event.instruction)
            trace.loads[id(transfer)] = Issued(trace.count, cta.number, event, transfer, self._map_key(event.tensor_map), is_looked_up)

    def _is_looked_up(self, x: Wave, i: Instruction) -> bool:
        """Does a load take its coordinates from memory?"""
        if i.line not in self._looked_up_lines:
            self._looked_up_lines[i.line] = are_looked_up(x.program, address_slots(i))
        return self._looked_up_lines[i.line]

    def _multiply(self, x: Wave, cta: Cta, event: Mma, found: Mapping[str, Found]) -> Iterator[tuple[str, str]]:
        """Note an instruction's operands in one CTA, which are `found`. Returns side and reason of an operand that is
        not checked.
        """
        trace = self._course(x, cta)
        trace.looked += 1
        if trace.looked > MOST:
            self.complete = False
            yield "", after_most()
            return
        noted: list[Noted | None] = [None, None]
        written: dict[str, SharedOperand] = {}  # by threads
        for n, side in enumerate(("a", "b")):
            operand, places, _ = what = found[side]
            it = self._known(trace, cta, (event, side), what)
            if not isinstance(it, str):
                noted[n] = it
                if it is not None and it.told.is_changed:
                    yield side, CHANGED
            elif it == NO_LOAD and places is not None and operand is not None:
                written[side] = operand
            else:
                yield side, it
        if written:
            reads = {side: None if one is None else self._read(*one) for side, one in zip("ab", noted, strict=True)}
            chunks = {side: self._chunks_of(cta, operand) for side, operand in written.items()}
            self.threads.follow(x, cta, event, reads | written, chunks)
            for side, operand in written.items():
                yield side, self.threads.look(x, cta, event, side, operand, chunks[side])
        trace.steps.append(Step(self.instructions, trace.count, event, *noted))

    def _chunks_of(self, cta: Cta, operand: SharedOperand) -> np.ndarray:
        """The chunks of an operand that is known to lie in the window."""
        places = self._places_read(cta.shared, operand)
        assert places is not None
        return places.chunks

    def _found(self, cta: Cta, event: Mma, side: str) -> Found:
        """Find the load of an operand for the first time."""
        operand = event.operand(side)
        return Found(operand, None if operand is None else self._places_read(cta.shared, operand), 0)

    def _judge(self, trace: CtaTrace, step: Step) -> None:
        """The reads of an instruction of a CTA, and whether it continues the product of those before it."""
        _, number, event, *noted = step
        read_a, read_b = (None if it is None else self._read(*it) for it in noted)
        if read_a is not None and read_b is not None:
            self._past(event, read_a, read_b, {side: event.k_of(side) for side in ("a", "b")})
        a, b = (None if read is None or read.is_fill else read for read in (read_a, read_b))
        if a is not None and b is not None:
            self._reached(event, a, b)
        key = trace.accumulator(event)
        product = trace.open.get(key)
        is_new = product is None or event.begins or not goes_on(product, event, a, b)
        is_apart = _begin_apart(event, a, b) if is_new or product is None else not is_next(product, event, a, b)
        is_free = is_apart and self._pairings(trace).is_free(step)
        if product is None or is_new or is_free or (is_apart and self._pairings(trace).is_of_whole(step)):
            product = trace.open[key] = Product(number, trace.cta, key, [], [], [], (read_a, read_b), pairs_freely=is_free)
            trace.products.append(product)
        product.events.append(event)
        product.a.append(a)
        product.b.append(b)
        product.missed += read_b is None or (read_a is None and event.a is not None)

    def _pairings(self, trace: CtaTrace) -> Pairings:
        """The sums of a CTA that multiply k of A with k of B in another order than that of memory, on purpose."""
        if trace.cta not in self._running.pairings:
            self._running.pairings[trace.cta] = Pairings(trace, lambda noted: self._read(*noted))
        return self._running.pairings[trace.cta]

    def _reached(self, event: Mma, a: OperandRead, b: OperandRead) -> None:
        """Records how far along K two matrices are multiplied by any CTA."""
        if a.is_matrix and b.is_matrix and not event.is_sparse:
            of_a, of_b, k, bases = a.at[1], b.at[1], event.k, (a.base, b.base)
            before = self.reaches.get(bases)
            if before is None or not (
                before.a_begin <= of_a and of_a + k <= before.a_end and before.b_begin <= of_b and of_b + k <= before.b_end
            ):
                now = Reach(event, a, b, of_a, of_a + k, of_b, of_b + k)
                self.reaches[bases] = now if before is None else before.joined(now)

    def _past(self, event: Mma, a: OperandRead, b: OperandRead, count: dict[str, int]) -> None:
        """Is one operand past the last k, and the other not? Fill times data does not matter if the first k of the tile
        are data times data. A K that is not a multiple of the tile ends like that, in one box or in several.
        """
        if not (a.is_plain and b.is_plain):
            return
        is_past = a.is_past(a.at[1], count["a"])
        if is_past == b.is_past(b.at[1], count["b"]):
            return
        side, read = ("a", a) if is_past else ("b", b)
        begin, is_sparse = min(a.corner[1], b.corner[1]), count["a"] != count["b"]
        if a.at[1] == b.at[1] and not is_sparse and not read.is_past(begin, max(a.k_of_box, b.k_of_box)):
            return
        load = read.loads[0]
        if not read.is_fill or is_outside(load, read.modes[0][0].dimension) or (b if side == "a" else a).is_fill:
            return
        self.outside.setdefault((side, load.event.instruction.line), (side, load, read.modes[1][0].dimension))

    def _places_read(self, shared: SharedMemory, what: SharedOperand) -> Places | None:
        """The place of an operand; None if it is not known."""
        if what not in self._running.places:
            if len(self._running.places) > MOST_CACHED:
                self._running.places.clear()
            self._running.places[what] = places_of(shared, what)
        return self._running.places[what]

    def _operand(
        self, trace: CtaTrace, cta: Cta, use: tuple[Mma, str], what: SharedOperand, places: Places | None, writer: int
    ) -> Noted | str | None:
        """An operand, all of one `writer` if that is not 0, or the reason why it is not known; None for what `widths`
        reports.
        """
        shared = cta.shared
        if element_format(what.dtype).bits < 8:
            return None if self._is_of_other_width(trace, shared, use, what, places) else SUB_BYTE
        if places is None:
            return "descriptors whose reads are not known"
        if not trace.loads:
            return SUB_BYTE if is_packed(use[0].instruction) else NO_LOAD
        numbers, pattern = ([writer], b"") if writer else writers_of(shared, places)
        loads = [trace.loads.get(id(shared.writers[n - 1])) if n else None for n in numbers]
        key = pattern, self._relative(loads)
        told = places.told.get(key)
        if told is None:
            for cache, most in (
                (places.told, MOST_CACHED),
                (self._running.matrices, MOST_CACHED),
                (self._running.ways, MOST_CACHED),
                (ways(), MOST_WAYS),
            ):
                if len(cache) > most:
                    cache.clear()
            load = loads[0] if writer else None  # which has written all of the lines
            told = places.told[key] = self._looked_at(shared, places, trace, (what.dtype, what.major), load)
        if not isinstance(told, str):
            trace.may_have_frames |= told.may_be_frames
            return Noted(what.number, what.major, tuple([load for load in loads if load is not None]), told)
        if told in (OTHER_WIDTH, NO_LOAD) and is_packed(use[0].instruction):
            return SUB_BYTE
        if told in (OTHER_WIDTH, PIXELS_APART):
            return self._is_read_otherwise(told, loads, use, what)
        if told == SEVERAL_PLACES and (stray := stray_of(loads)) is not None:
            event, side = use
            self.strays.setdefault((side, stray.load.event.instruction.line, event.instruction.line), (side, stray, event))
        elif told == NO_LOAD and self._is_of_other_width(trace, shared, use, what, places):
            return None
        return told

    def _is_read_otherwise(self, told: str, loads: Sequence[Issued | None], use: tuple[Mma, str], what: SharedOperand) -> str | None:
        """Note an operand that is read as elements of another width than its map has, or whose rows are no pixels."""
        (event, side), load = use, next(load for load in loads if load is not None)
        key = side, load.event.instruction.line, event.instruction.line
        if told == PIXELS_APART:
            self.pixels.setdefault(key, (side, load, event, what.number))
            return OTHER_MODES
        self.widths.setdefault(key, (side, load, event))
        return None

    def _is_of_other_width(
        self, trace: CtaTrace, shared: SharedMemory, use: tuple[Mma, str], what: SharedOperand, places: Places | None
    ) -> bool:
        """Is an operand read as elements of another width than the 4 or 6 bits of its tensor map? Then it is noted in
        `widths`. Only the first product of each instruction is looked at.
        """
        event, side = use
        known, key = self._running.narrow, (side, event.instruction.line)
        if key not in known:
            # The first byte of each chunk of 16: its last bytes are padding, which no load writes.
            first = () if places is None or not trace.loads else distinct(shared.owned(places.chunks[places.chunks >= 0])[0]).tolist()
            loads = [trace.loads.get(id(shared.writers[n - 1])) for n in first if n]
            load = next((load for load in loads if load is not None and load.transfer.tensor_map.data_type.name in NARROW), None)
            known[key] = load is not None and load.transfer.tensor_map.type_row.bits != element_format(what.dtype).bits
            if load is not None and known[key]:
                self.widths[side, load.event.instruction.line, event.instruction.line] = side, load, event
        return known[key]

    def _looked_at(self, shared: SharedMemory, places: Places, trace: CtaTrace, form: tuple[str, str], only: Issued | None) -> Told | str:
        """The operand of a type and a major. An `only` load brought all of it; for operands in one load in the same
        way, earlier results are used.
        """
        if only is None:
            return self._looked_up(shared, places, trace, form)
        begin = only.transfer.smem_address
        chunks = places.chunks + (shared.begin - begin)
        key = self.arch, only.map_key, only.event.mode, form, begin % PATTERN, chunks.shape, chunks.tobytes()
        return self._told_alike(key, lambda: self._looked_up(shared, places, trace, form))

    def _looked_up(self, shared: SharedMemory, places: Places, trace: CtaTrace, form: tuple[str, str]) -> Told | str:
        """`tile_of` by the owners of its bytes."""
        writer, place = owners_of(shared, places)
        first = int(writer[0, 0])
        load = trace.loads.get(id(shared.writers[first - 1])) if first and (writer == first).all() else None
        if load is None:
            told = tile_of(shared, (writer, place), trace.loads, *form)
            is_changed = not isinstance(told, str) and _is_changed(shared, places, writer, trace)
            return dataclasses.replace(told, is_changed=True) if isinstance(told, Told) and is_changed else told
        key = self.arch, load.map_key, load.event.mode, form, place.shape, place.tobytes()
        return self._told_alike(key, lambda: tile_of(shared, (writer, place), trace.loads, *form))

    def _told_alike(self, key: Any, look: Callable[[], Told | str]) -> Told | str:
        """The known facts of an operand inside a load, by its key."""
        before = self._running.ways.get(key) or ways().get(key)
        if before is not None:
            return before
        found = look()
        if isinstance(found, Told):  # a reason may lie in the load's coordinates
            (ways() if found.is_absolute else self._running.ways)[key] = found
        return found

    def _read(self, word: int, major: str, loads: tuple[Issued, ...], told: Told) -> OperandRead:
        """The operand that looks as another one did, with its own loads."""
        held = tuple(loads[n] for n in told.order)
        first, at = held[0], held[0].event.coordinates
        key = (first.map_key, first.transfer.tensor_map.global_address, told.dimensions, told.is_absolute or at)
        if key not in self._running.matrices:
            self._running.matrices[key] = matrix_of(first, told.dimensions)
        matrix = self._running.matrices[key]
        assert isinstance(matrix, Matrix)
        outer, inner = matrix.place(at)
        begin = (outer + told.begin[0], inner + told.begin[1])
        return OperandRead(
            word, held, matrix, major == "K", begin if major == "K" else begin[::-1], told.share, told.moves, told.may_be_frames
        )

    def _relative(self, loads: list[Issued | None]) -> Any:
        """Loads as what they bring, where, and how far from the first one."""
        first = next((load for load in loads if load is not None), None)
        if first is None:
            return None
        base, at = first.transfer.tensor_map.global_address, first.event.coordinates
        if len(loads) == 1:
            return first.alone
        return tuple(
            None if load is None else (
                load.map_key, load.event.mode, load.transfer.smem_address, load.transfer.tensor_map.global_address == base,
                load is first or tuple(c - d for c, d in zip(load.event.coordinates, at, strict=False)),
            ) for load in loads
        )  # fmt: skip

    def _map_key(self, tm: TensorMap) -> str:
        held = self._running.maps.get(id(tm))
        if held is None:
            key = (tm.call, tm.data_type.name, tm.global_dim, tm.global_strides, tm.box_dim, tm.element_strides, tm.swizzle.name, int(tm.interleave),
                   tm.oob_fill.name)  # fmt: skip
            held = self._running.maps[id(tm)] = tm, hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()
        return held[1]

    # ---- pieces

    def _close(self, wave: Wave) -> None:
        groups: dict[tuple[Any, ...], list[CtaTrace]] = {}
        its = self._running.together.pop(wave, None)
        for trace in self._running.waves[wave].values():
            if trace.may_have_frames:  # its CTA is executed by itself
                self.frames.note(trace)
            groups.setdefault(trace.does(), []).append(trace)
        new = {does: alike for does, alike in groups.items() if does not in self._running.done}
        self._judge_all([alike[0] for alike in new.values()])
        for does, (first, *others) in new.items():
            if not self._keep_all(first):
                rest = [*others, *(() if its is None or its.first is not first else its.others())]
                self._judge_all(rest)
                for trace in rest:
                    self._keep_all(trace)
            elif len(self._running.done) < MOST_PIECES:
                self._running.done.add(does)

    def _judge_all(self, traces: list[CtaTrace]) -> None:
        """Judge all instructions of some CTAs, as they came."""
        steps = [(step, trace) for trace in traces for step in trace.steps]
        for step, trace in sorted(steps, key=lambda one: one[0].when):
            self._judge(trace, step)

    def _keep_all(self, trace: CtaTrace) -> bool:
        """Keep the pieces of a CTA; False where there are too many."""
        pieces = [Piece(trace.cta, self._key_of(loads, products), tuple(loads), tuple(products)) for loads, products in apart(trace)]
        for piece in pieces:
            self._keep(piece)
        return all(piece.key in self.pieces for piece in pieces)

    def _keep(self, piece: Piece) -> None:
        if piece.key in self.pieces:
            return
        if len(self.pieces) >= MOST_PIECES:
            if not piece.products:
                return
            self.complete = False
            count = sum(len(p.events) - p.missed for p in piece.products)
            if count:
                self.missed_instructions[of_other_ctas()] += count
            return
        self.pieces[piece.key] = piece
        self._in_order = self.sums = None

    def _key_of(self, loads: list[Issued], products: list[Product]) -> bytes:
        """The key of loads and products, without the places of their tiles."""
        first: dict[Any, tuple[int, ...]] = {}
        key: list[Any] = []
        numbers = {id(load): n for n, load in enumerate(loads)}
        for load in loads:
            at = load.event.coordinates
            origin = first.setdefault((load.event.map_address, load.map_key), at)
            by = tuple(c - d for c, d in zip(at, origin, strict=False))
            key.append((load.event.instruction.line, load.map_key, list(first).index((load.event.map_address, load.map_key)), load.event.mode,
                         load.transfer.smem_address, by, load.clipped))  # fmt: skip
        for p in products:
            a, b = p.first
            key.append((p.accumulator[1:], a is not None and b is not None and a.at[1] == b.at[1]))
            for event, *reads in zip(p.events, p.a, p.b, strict=True):
                key.append(
                    (
                        event.instruction.line,
                        event.m,
                        event.n,
                        event.k,
                        event.a,
                        event.b,
                        event.a_major,
                        event.b_major,
                        event.begins,
                        event.idesc,
                    )
                )
                for read in reads:
                    key.append(None if read is None else (
                        [numbers[id(load)] for load in read.loads], [c - d for c, d in zip(read.at, read.corner, strict=True)], read.share,
                    ))  # fmt: skip
        return hashlib.blake2b(repr(key).encode(), digest_size=16).digest()


def _is_scaled(i: Instruction) -> bool:
    """Is this a product of tcgen05 that is block-scaled or sparse?"""
    return i.op == "tcgen05" and not {"block_scale", "sp"}.isdisjoint(i.modifiers)


def is_packed(i: Instruction) -> bool:
    """Has this product of tcgen05 two elements in each byte of its operands?"""
    return i.op == "tcgen05" and not PACKED.isdisjoint(i.modifiers)


def _in_bytes(products: Products) -> Products:
    """Products whose operands are counted in bytes, each two elements, as tensor loads of bytes bring them."""
    events = [_of_bytes(event) for event in products.all]
    return Products(len(events), lambda begin, end: events[begin:end], products.ctas)


def _of_bytes(event: Mma) -> Mma:
    """The product of bytes that reads the same bytes; the event itself if there is no such instruction."""
    if event.kind not in PACKED_KINDS or event.is_sparse or event.k != 2 * OF_BYTES.k:
        return event
    return dataclasses.replace(event, kind=OF_BYTES.name, a_type="e4m3", b_type="e4m3", k=OF_BYTES.k, idesc=None, scales=None)


def _is_changed(shared: SharedMemory, places: Places, writer: np.ndarray, trace: CtaTrace) -> bool:
    """Do chunks of an operand that no tensor load wrote last lie inside a tile that a load brought?"""
    numbers = np.unique(writer[writer > 0]).tolist()
    loads = {n: trace.loads.get(id(shared.writers[n - 1])) for n in numbers}
    other = places.chunks[~np.isin(writer, [n for n, load in loads.items() if load is not None]) & (places.chunks >= 0)] + shared.begin
    tiles = [load.transfer for load in loads.values() if load is not None]
    return any(bool(((other >= tile.smem_address) & (other < tile.shared_end)).any()) for tile in tiles)


def _begin_apart(event: Mma, a: OperandRead | None, b: OperandRead | None) -> bool:
    """Do both operands begin at other k of tiles that begin at the same k?"""
    if a is None or b is None:
        return False
    return event.has_same_k(a.corner[1], b.corner[1]) and not event.has_same_k(a.at[1], b.at[1])


def _group_of(x: Wave, event: Mma | Copy) -> tuple[Cta, ...]:
    """The CTAs of an instruction: that of the thread, and of a pair its peer."""
    first = x.numbered(event.cta)
    return (first,) if event.cta_group == 1 else (first, x.ctas[first.index ^ 1])


def _told_before(trace: CtaTrace, cta: Cta, places: Places, writer: int) -> tuple[tuple[Issued], Told] | None:
    """The load that brought all of an operand at this place, and what is known of such operands, if it was looked up
    before.
    """
    load = trace.loads.get(id(cta.shared.writers[writer - 1]))
    told = None if load is None else places.told.get((b"", load.alone))
    return ((load,), told) if load is not None and isinstance(told, Told) else None
