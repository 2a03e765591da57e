"""A run as a scenario, with the meaning of its operands."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import OR, PTX_LINE, Finding, Half
from smemsim.core.ptx.module import Location
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.check import check
from smemsim.diagnosis.operands.boxes import in_boxes
from smemsim.diagnosis.operands.read import Issued, Mode, OperandRead, Product
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.report import Report
from smemsim.diagnosis.scenario import AnyOperand, Buffer, MapArguments, Meant, MmaStep, Operand, ScenarioTables, Step, Tensor, TmaLoad
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Load, Mma

__all__ = ["STRAYED", "Written", "judged", "scenario_of"]


# ---- A run as a scenario: the loads and matrix instructions of a CTA, each operand with what it was meant to be


TILED_ARGUMENTS = (
    "data_type", "global_address", "global_dim", "global_strides", "element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill", "box_dim",
)  # fmt: skip


MOST_PRODUCTS = 64
MOST_REPORTS = 16  # that are kept
AS_READ: Mapping[str, str] = {"a": "as read", "b": "as read"}


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """The scenario, and for each of its steps the events that it stands for; `maps` are the first loads through each
    map.
    """

    scenario: ScenarioTables
    steps: tuple[Load | Product, ...]
    maps: dict[str, Load]
    distinct: int  # products of the run that differ, and how many of them are not in the scenario
    left_out: int

    def event(self, f: Finding) -> Load | Mma | None:
        """The event of the run for a finding about the scenario. It is the first load through a map, the load of a
        step, or the matrix instruction that reads the first wrong element. None if there is no such event.
        """
        if f.path.step is None:
            return self.maps.get(f.path.name) if f.path.table == "map" else None
        item = self.steps[f.path.step]
        return item if isinstance(item, Load) else item.events[min(f.first["step"] if f.first else 0, len(item.events) - 1)]

    def step_names(self, ptx: str, place: Callable[[Location], Location] = lambda location: location) -> dict[int, str]:
        """The name of each step: the source line of its first instruction, by `place`, and the PTX lines of all."""
        names = {}
        for number, item in enumerate(self.steps):
            events: Sequence[Load | Mma] = (item,) if isinstance(item, Load) else item.events
            lines = sorted({event.instruction.line for event in events})
            location = events[0].instruction.location
            first = Half("", "", events[0].instruction, None if location is None else place(location)).at(ptx)
            if len(lines) > 1:
                first = first.replace(PTX_LINE, f"{PTX_LINE}s") + f" to {lines[-1]}"
            names[number] = first
        return names

    def _operand(self, f: Finding) -> AnyOperand | None:
        """The operand that a finding about the scenario names."""
        step = None if f.path.step is None else self.scenario.steps[f.path.step]
        operand = getattr(step, f.path.side, None) if f.path.side else None
        return operand if isinstance(operand, AnyOperand) else None

    def is_unchecked(self, f: Finding) -> bool:
        """Does a finding name an operand whose intended tile is not known?"""
        operand = self._operand(f)
        return operand is not None and operand.meant is None

    def arrays(self, f: Finding) -> tuple[int, ...]:
        """The places in global memory of the maps and tensors that a finding about the scenario names or that must
        change; for an operand those of its meant tensor.
        """
        found: list[object] = []
        operand = self._operand(f)
        if operand is not None and operand.meant is not None:
            found.append(self.scenario.tensors[operand.meant.tensor].address)
        for path in (f.path, f.about, *(change.path for change in f.changes)):
            if path.table == "map" and path.name in self.scenario.maps:
                found.append(self.scenario.maps[path.name].global_address)
            elif path.table == "tensor" and path.name in self.scenario.tensors:
                found.append(self.scenario.tensors[path.name].address)
        return tuple(dict.fromkeys(address for address in found if isinstance(address, int)))


def scenario_of(
    launch: Launch,
    reads: Reads,
    *,
    title: str = "",
    most: int = MOST_PRODUCTS,
    meaning: Mapping[str, str] = AS_READ,
    sites: Mapping[str, Set[int]] = MappingProxyType({}),
    wide: bool = False,
) -> Written:
    """The different products of a run, the first of each kind, with the loads of their operands.

    The intended tiles of operands "a" and "b" are in `meaning`. A tile "as read" continues from the first element that
    was read. A tile "corner" starts at the corner of the loaded tile. A tile "turned" also has rows and K exchanged.
    For an operand in `sites` it holds only for the instructions at these sites. With `wide`, the loads around every
    product are kept, which may have the meant data.
    """
    different = _different(reads.products)
    chosen = [in_boxes(p) for p in different[:most]]
    loads = {(p.cta, load.number): load for p in chosen for side in (p.a, p.b) for read in side if read is not None for load in read.loads}
    for p in chosen:
        if wide or any(read.share < 1 for read in p.reads):
            loads |= {(p.cta, load.number): load for load in reads.around(p)}
    writing = _Writing(launch)
    items: list[tuple[int, int, Issued | Product]] = [(cta, number, load) for (cta, number), load in loads.items()]
    items += [(p.cta, p.number, p) for p in chosen]
    # one CTA after the other: they have the same addresses
    for _, _, item in sorted(items, key=lambda entry: entry[:2]):
        if isinstance(item, Issued):
            writing.load(item)
        else:
            there = {e.instruction.site for e in item.events}
            writing.product(item, {side: kind if there & sites.get(side, there) else AS_READ[side] for side, kind in meaning.items()})
    scenario = writing.scenario(title or f"{launch.program.name}, as it ran")
    return Written(scenario, tuple(writing.events), writing.loads, len(different), len(different) - len(chosen))


def _different(products: list[Product]) -> list[Product]:
    """The first product of each kind: by its instructions, what its operands are and how it steps through them."""

    def kind(p: Product) -> Hashable:
        sides: list[Hashable] = []
        for side in (p.a, p.b):
            first = side[0]
            if first is None:
                sides.append((None,) * len(side))
            else:
                sides.append(
                    tuple(
                        None if r is None else (r.at[0] - first.at[0], r.at[1] - first.at[1], r.share, r.word >> 32, r.base) for r in side
                    )
                )
        return tuple(e.instruction.site for e in p.events), tuple(sides)

    return list({kind(p): p for p in reversed(products)}.values())[::-1]


class _Writing:
    """A scenario that is being written down: its tables by name, its steps, and the events that these stand for.

    Tensors and maps have the name of the array which they lie in, or of the parameter that points there.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.begin = any_architecture(launch.arch).shared_begin
        self.names: dict[Hashable, str] = {}  # by what they stand for
        self.tensors: dict[str, Tensor] = {}
        self.maps: dict[str, MapArguments] = {}
        self.loads: dict[str, Load] = {}  # the first through each map
        self.steps: list[Step] = []
        self.events: list[Load | Product] = []

    def scenario(self, title: str) -> ScenarioTables:
        """The scenario of all steps that have been written so far."""
        shared = Buffer(address=self.begin, bytes=self.launch.window_bytes)
        return ScenarioTables(arch=self.launch.arch, title=title, excerpt=True, tensors=self.tensors, buffers={"shared": shared}, maps=self.maps, steps=tuple(self.steps))  # fmt: skip

    def load(self, item: Issued) -> None:
        """A load, with its map where it is the first through it."""
        event, key = item.event, bytes(item.event.tensor_map)
        if key not in self.names:
            name = self._name(key, event.tensor_map.global_address, "map_")
            self.maps[name], self.loads[name] = _arguments(event.tensor_map), event
        offset = item.transfer.smem_address - self.begin
        self.steps.append(TmaLoad(op="tma_load", map=self.names[key], to="shared", offset=offset, at=tuple(event.coordinates)))
        self.events.append(event)

    def product(self, p: Product, meaning: Mapping[str, str]) -> None:
        """A matrix instruction, or several that go along K."""
        first, origins = p.events[0], _origins(p, meaning)
        operands: dict[str, Operand] = {}
        for side, reads in (("a", p.a), ("b", p.b)):
            words = tuple(getattr(event, side) for event in p.events)
            if words[0] is None:
                continue
            read, at, dtype = reads[0], origins[side], getattr(first, f"{side}_type")
            meant = None
            if read is not None and at is not None:
                meant = Meant(tensor=self._tensor(read, dtype, is_turned=meaning[side] == "turned"), axes=("row", "k"), at=at)
            operands[side] = Operand(dtype=dtype, major=getattr(first, f"{side}_major"), words=words, meant=meant)
        group, sparse = 2 if first.cta_group == 2 else None, True if first.is_sparse else None
        a, b = operands.get("a"), operands.get("b")
        self.steps.append(
            MmaStep(op="mma", kind=first.kind, m=first.m, n=first.n, k=first.k, idesc=first.idesc, cta_group=group, sparse=sparse, a=a, b=b)
        )
        self.events.append(p)

    def _tensor(self, read: OperandRead, dtype: str, *, is_turned: bool) -> str:
        """The matrix with the axes that an operand should have: rows and k as the operand is read, or the reverse for a
        turned one.
        """
        key = ("tensor", read.matrix, read.along_k, is_turned)
        if key not in self.names:
            modes, strides = read.modes, (read.row_stride, read.k_stride)
            if is_turned:
                modes, strides = modes[::-1], strides[::-1]
            axes = dict(zip(("row", "k"), modes, strict=True))
            extent = {axis: math.prod(mode.size for mode in modes[:-1]) * max(modes[-1].extent, 1) for axis, modes in axes.items()}
            walks = {axis: _walk(modes) for axis, modes in axes.items() if not _is_even(modes)} or None
            stride = dict(zip(("row", "k"), strides, strict=True))
            self.tensors[self._name(key, read.matrix.address)] = Tensor(
                dtype=dtype, extent=extent, stride=stride, address=read.matrix.address, walks=walks
            )
        return self.names[key]

    def _name(self, key: Hashable, address: int, prefix: str = "") -> str:
        """A name for what begins at an address in global memory, unlike all others."""
        plain = prefix + (re.sub(r"\W", "_", self._array(address)) or "tensor")
        plain = plain if plain.isidentifier() else f"tensor_{plain}"
        taken = sum(re.fullmatch(rf"{re.escape(plain)}(_\d+)?", name) is not None for name in self.names.values())
        self.names[key] = f"{plain}_{taken + 1}" if taken else plain
        return self.names[key]

    def _array(self, address: int) -> str:
        if not self.launch.memory.holds(address):
            return ""
        region = self.launch.memory.find(address)
        found = self.launch.parameter_of(region.begin, region.begin + len(region.data))
        return region.name or (found[1].name.removeprefix(f"{self.launch.program.name}_") if found else "")


def _arguments(tm: TensorMap) -> MapArguments:
    """The arguments of the driver's call, which `check` can change to try a repair; the raw bytes where these would not
    make the same map.
    """
    given = {name: getattr(tm, name) for name in TILED_ARGUMENTS}
    given = {name: value.name if isinstance(value, enum.Enum) else value for name, value in given.items()}
    try:
        same = tm.call == "tiled" and bytes(TensorMap.tiled(**given)) == bytes(tm)
    except SmemsimError:
        same = False
    return MapArguments(**given) if same else MapArguments(raw=bytes(tm).hex())


def _is_even(modes: tuple[Mode, ...]) -> bool:
    """Do the modes of an axis follow one another without a gap, as one stride would have them? Fill in front of the
    tensor, such as the padding of a convolution, is a gap.
    """
    return all(mode.first >= 0 for mode in modes) and all(
        b.stride == a.stride * a.size and a.extent >= a.size for a, b in itertools.pairwise(modes)
    )


def _walk(modes: tuple[Mode, ...]) -> tuple[tuple[int, int, int, int], ...]:
    """An axis through several dimensions of memory, as a scenario has it; of the last one, all that the tensor has."""
    sizes = [*(mode.size for mode in modes[:-1]), max(modes[-1].extent, 1)]
    return tuple(
        (size, mode.stride, min(max(-mode.first, 0), size), min(max(mode.extent, 0), size)) for size, mode in zip(sizes, modes, strict=True)
    )


def _origins(p: Product, meaning: Mapping[str, str]) -> dict[str, tuple[int, int] | None]:
    """(row, k) at which each operand should start: its present start, unless A and B start at different k of tiles that
    start at the same k.
    """
    first = p.events[0]
    origins: dict[str, tuple[int, int] | None] = {}
    for side, read in (("a", p.a[0]), ("b", p.b[0])):
        origins[side] = None if read is None else read.at
        if read is not None and meaning[side] != "as read":
            origins[side] = _on_grid(read, (first.m if side == "a" else first.n) // first.cta_group)
            if meaning[side] == "turned":
                origins[side] = read.corner[::-1]
    a, b = p.a[0], p.b[0]
    at_a, at_b = origins["a"], origins["b"]
    if a is None or b is None or at_a is None or at_b is None or set(meaning.values()) != {"as read"}:
        return origins
    if p.pairs_freely or first.has_same_k(at_a[1], at_b[1]):
        return origins
    if first.has_same_k(a.corner[1], b.corner[1]):
        origins = {"a": (at_a[0], a.corner[1]), "b": (at_b[0], b.corner[1])}
    return origins


def _on_grid(read: OperandRead, rows: int) -> tuple[int, int]:
    """The intended start of an operand: at the first k of its tile, at the last possible first row of an instruction
    before its present start.
    """
    row, k = read.corner
    return row + max(read.at[0] - row, 0) // rows * rows, k


# ---- What the operands of a run were meant to be: as they were read, unless another meaning explains with a small
# repair what is wrong with them


# findings of the sanitizer about an instruction that reads past its tile
STRAYED = ("X003", "X004", "X008", "R507", "A107")


def judged(launch: Launch, reads: Reads) -> tuple[Written, Report | None]:
    """The run as a scenario with the meaning that explains most, and its report; None if there is nothing to check.

    Raises Unmodelled for what check does not model.
    """
    written = scenario_of(launch, reads)
    if not written.steps:
        return written, None
    report = _checked(written.scenario)
    meaning, sites = dict(AS_READ), dict[str, Set[int]]()
    wrong = [side for side in ("a", "b") if _of_side(report, side)]
    for side in wrong:
        # one instruction may read another tensor than its neighbour, in which all is right
        own = _sites(written, _of_side(report, side))
        is_told, has_rows = _has_own_k(reads, side), _may_be_turned(reads, side, own)
        for kind, alone, among in (("turned", True, {}), ("turned", True, {side: own}), ("corner", False, {}), ("turned", False, {})):
            if kind == "turned" and (is_told or not has_rows):
                continue
            other = scenario_of(launch, reads, meaning=meaning | {side: kind}, sites=sites | among)
            better = check(other.scenario)
            if _is_better(report, better, side, kind, launch.arch, alone=alone):
                if kind == "turned" and alone and is_told is None:
                    better = _with_both(report, better, side)
                meaning[side], written, report, sites = kind, other, better, sites | among
                break
    for side in _strayed(launch, reads):
        if side not in wrong:
            other = scenario_of(launch, reads, meaning=meaning | {side: "corner"}, sites=sites)
            better = check(other.scenario)
            if _is_of_starts(_of_side(better, side)):
                meaning[side], written, report = "corner", other, better
    if any(map(_is_open, report.findings)):
        other = scenario_of(launch, reads, meaning=meaning, sites=sites, wide=True)
        better = check(other.scenario)
        if sum(map(_is_open, better.findings)) < sum(map(_is_open, report.findings)):
            written, report = other, better
    return written, report


def _checked(scenario: ScenarioTables) -> Report:
    """`check`: of a kernel that is launched again, to do the same, as it was found the last time."""
    reports, key = _reports(), repr(scenario)
    found = reports.get(key)
    if found is None:
        if len(reports) >= MOST_REPORTS:
            reports.clear()
        found = reports[key] = check(scenario)
    return found


@remembered(1)
def _reports() -> dict[str, Report]:
    """Reports by all that their scenarios say."""
    return {}


def _strayed(launch: Launch, reads: Reads) -> Iterable[str]:
    """The operands some of which start after the first row of their tile, and that continue past their data: the start
    may be wrong.
    """
    sites = {f.site for f in launch.result.findings.values() if f.code in STRAYED}
    for side in ("a", "b"):
        strayed = [
            read
            for p in reads.products
            for event, read in zip(p.events, getattr(p, side), strict=True)
            if event.instruction.site in sites and read
        ]
        if any(read.share < 1 for read in strayed):
            yield side


def _of_side(report: Report, side: str) -> list[Finding]:
    return [f for f in report.findings if f.path.side == side and f.severity in (Severity.TRAP, Severity.WRONG)]


def _is_open(f: Finding) -> bool:
    """Does an operand read other elements than intended, and no change is known that makes it right?"""
    return f.code in ("R507", "R508") and not f.changes


def _is_better(report: Report, other: Report, side: str, kind: str, arch: str, *, alone: bool) -> bool:
    """Does another meaning of an operand explain more? `alone`: for a turned operand, only the major-ness has to
    change. Else no change may be known, and a turned operand must start at the same place.
    """
    before, after = _of_side(report, side), _of_side(other, side)
    if not after or any(f.code == "R508" and _is_open(f) for f in after):
        return False
    if kind == "turned":
        if not _places(after) <= _places(before):  # it makes operands wrong that were right
            return False
        turned = [f for f in after if f.code == "R505"]
        if not turned or not all((_is_kept if alone else _begins_there)(f, arch) and _has_even_steps(f, arch) for f in turned):
            return False
    # the address that is meant stands there: no coincidence
    if kind == "corner" and all(f.code == "D301" for f in after):
        return True
    if kind == "corner" and _is_of_starts(after):
        return any(map(_is_open, before))
    return alone or any(f.code == "R508" and _is_open(f) for f in before)


def _has_own_k(reads: Reads, side: str) -> bool | None:
    """Do the products of a sum go on along the k of an operand, as it is read? False: along its rows. None: no sum says
    it. K is the axis along which the tiles of a sum follow one another.
    """
    last: dict[tuple[object, ...], OperandRead | None] = {}
    for p in reads.products:
        now, before = getattr(p, side)[0], None if p.events[0].begins else last.get(p.accumulator)
        last[p.accumulator] = now
        if now is not None and before is not None and (now.base, now.along_k) == (before.base, before.along_k):
            (row, k), (old_row, old_k) = now.corner, before.corner
            if (row == old_row) != (k == old_k):
                return bool(row == old_row)
    return None


def _may_be_turned(reads: Reads, side: str, sites: Set[int]) -> bool:
    """Do the loads of an operand bring as many rows as it has k? If not, what are its rows cannot be its k: most of
    these would lie outside of the tensor, where nothing is wrong.
    """
    for p in reads.products:
        held = [read for read in getattr(p, side) if read is not None and read.is_plain]
        if not held or sites.isdisjoint(event.instruction.site for event in p.events):
            continue
        dimension, keys = held[0].modes[0][0].dimension, {load.key_of_map for read in held for load in read.loads}
        rows = {
            at + n
            for load in reads.loads
            if load.cta == p.cta and load.key_of_map in keys
            for at in (load.event.coordinates[dimension],)
            for n in range(load.transfer.tensor_map.box_dim[dimension])
        }
        if len(rows) < sum(event.k_of(side) for event in p.events):
            return False
    return True


def _with_both(report: Report, turned: Report, side: str) -> Report:
    """The report of a turned operand. If a change of the operand as it is read makes it right, too, the fix names both:
    the tile may be meant one way or the other.
    """
    before = {f.path.step: f for f in _of_side(report, side) if f.tried}

    def both(f: Finding) -> Finding:
        other = before.get(f.path.step)
        if f.code != "R505" or f.path.side != side or other is None:
            return f
        has, wanted = ("MN", "K") if any(path.key == "major" and new == "K" for path, _, new in f.changes) else ("K", "MN")
        return dataclasses.replace(
            f,
            what=f"the operand is read {has}-major; its other fields are those of the {wanted}-major tile",
            repair=f"if the tile is {wanted}-major: {f.repair}{OR}if the tile is {has}-major: {other.fixes[0]}",
            why="the major-ness is wrong, or the other fields are",
        )

    return dataclasses.replace(turned, findings=tuple(map(both, turned.findings)))


def _places(found: list[Finding]) -> set[int | None]:
    """The steps that findings are about."""
    return {f.path.step for f in found}


def _sites(written: Written, found: list[Finding]) -> set[int]:
    """The sites of the instructions of the steps that findings are about."""
    items = [written.steps[step] for step in _places(found) if step is not None]
    return {e.instruction.site for item in items if isinstance(item, Product) for e in item.events}


def _is_of_starts(found: list[Finding]) -> bool:
    return bool(found) and all(f.code == "R508" and f.fix is not None for f in found)


def _words(f: Finding, arch: str) -> list[tuple[SmemDescriptor, SmemDescriptor]]:
    """The descriptors that a repair changes: as they are, and as they must be."""
    words = []
    for path, old, new in f.changes:
        if path.key in ("word", "words"):
            pairs = zip(old, new, strict=True) if isinstance(old, list) and isinstance(new, list) else ((old, new),)
            words += [
                (SmemDescriptor.decode(int(str(now), 16), arch=arch), SmemDescriptor.decode(int(str(wanted), 16), arch=arch))
                for now, wanted in pairs
            ]
    return words


def _begins_there(f: Finding, arch: str) -> bool:
    words = _words(f, arch)
    return not words or words[0][0].start_address == words[0][1].start_address


def _has_even_steps(f: Finding, arch: str) -> bool:
    """Does an operand that a repair makes MN-major go on by the same K step each time? Else the tile lies in two
    places, and the major-ness is right.
    """
    starts = [two.start_address for _, two in _words(f, arch)]
    is_mn = any(path.key == "major" and new == "MN" for path, _, new in f.changes)
    return not is_mn or len({then - at for at, then in itertools.pairwise(starts)}) < 2


def _is_kept(f: Finding, arch: str) -> bool:
    """Does a repair keep the descriptors, except for an unused LBO: that of a swizzled operand along K, or one that it
    sets to 0?
    """
    along_k = any(path.key == "major" and new == "K" for path, _, new in f.changes)
    for one, two in _words(f, arch):
        lbo = two.leading_byte_offset in (one.leading_byte_offset, 0) or (along_k and one.swizzle != Swizzle.NONE)
        if not lbo or _all_but_lbo(one) != _all_but_lbo(two):
            return False
    return True


def _all_but_lbo(d: SmemDescriptor) -> tuple[int, int, int, Swizzle]:
    return d.start_address, d.stride_byte_offset, d.base_offset, d.swizzle
