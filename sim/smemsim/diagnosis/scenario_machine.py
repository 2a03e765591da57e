"""A scenario carried out: buffers, memories and tensors as its steps leave them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, Protocol, TypedDict

import numpy as np

from smemsim.base.arguments import choice, shown
from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError, SmemsimError
from smemsim.core.finding import Element, Finding, Fix, Half, InScenario, InWord, Path, TensorMapError, Value
from smemsim.core.layout.cute import CuteLayout, byte_axes
from smemsim.core.machine.bulk import fitting_size
from smemsim.core.machine.global_memory import FOREIGN, OUTSIDE, UNWRITTEN
from smemsim.core.machine.owners import Owners
from smemsim.core.machine.tma import Transfer, tma_load, tma_store
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.spec.tensor_map import DATA_TYPES, LIMITS
from smemsim.core.spec.tensor_memory import CELL_BITS, COLUMNS, LANES
from smemsim.core.tables import TableError, mistake
from smemsim.core.words.operand import operand_addresses, swizzled
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.arguments import member
from smemsim.diagnosis.descriptors.answers import FoundDescriptor
from smemsim.diagnosis.descriptors.places import partial_solutions, solutions
from smemsim.diagnosis.descriptors.shapes import Shape
from smemsim.diagnosis.scenario import Buffer, BulkStep, Layout, MapArguments, Meant, Operand, ScenarioTables, TensorStep, TmaLoad, listed
from smemsim.diagnosis.tensors import GlobalTensor

__all__ = [
    "COMMON_SWIZZLES",
    "FOREIGN",
    "NAMES",
    "UNWRITTEN",
    "Counts",
    "Issue",
    "Machine",
    "Read",
    "Rerun",
    "Seen",
    "SharedBuffer",
    "SharedLayout",
    "buffers_of",
    "finding",
    "issues_of",
    "no_rerun",
    "refusal_repair",
    "swizzle_changes",
]


# ---- What to write instead of arguments that the driver refuses; each proposal is encoded before it is made


def refusal_repair(arguments: MapArguments, code: str, encode: Callable[[MapArguments], TensorMap]) -> str:
    """A sentence, or nothing where no single argument helps or the refusal says it. `encode` builds the map with other
    arguments, or raises.
    """
    if arguments.raw is not None or arguments.box_dim is None:
        return ""
    dtype = member("data_type", arguments.data_type, [])
    if dtype is None:
        return ""
    box, bits = listed(arguments.box_dim), DATA_TYPES[dtype].bits
    tries: list[tuple[MapArguments, str]] = []
    if code == "T203":
        unit = LIMITS.inner_alignment * 8 // bits
        up = -(-max(box[0], 1) // unit) * unit
        tries = [
            (dataclasses.replace(arguments, box_dim=(n, *box[1:])), f"box_dim[0] = {n} ({n * bits // 8} B)") for n in (up, up - unit) if n
        ]
    elif code == "T204":
        unit = LIMITS.address_alignment
        wide = tuple(-(-stride // unit) * unit for stride in listed(() if arguments.global_strides is None else arguments.global_strides))
        padded = f"global_strides = {list(wide)}: rows padded to a multiple of {unit} B"
        tries = [(dataclasses.replace(arguments, global_strides=wide), padded)]
    for changed, text in tries:
        try:
            encode(changed)
        except SmemsimError:
            continue
        return text
    return ""


# ---- Shared buffers: their places, and the layout that the software assumes


COMMON_SWIZZLES = (
    "none",
    "32B",
    "64B",
    "128B",
    "128B_ATOM_32B",
)  # those that TMA and the tensor core have in common; the last one on tcgen05


@dataclasses.dataclass(frozen=True)
class SharedLayout:
    """The layout that software computes: the sum of strided digits of both axes, then the XOR of a swizzle, on
    addresses or on offsets.

    Each axis is (size, stride) pairs, fastest first; the contiguous axis counts bytes, the other one lines.
    """

    mode: SwizzleMode
    on_addresses: bool
    mn: tuple[tuple[int, int], ...]
    k: tuple[tuple[int, int], ...]

    def extents(self) -> tuple[int, int]:
        """Lines and bytes, in the order (mn, k)."""
        return math.prod(size for size, _ in self.mn), math.prod(size for size, _ in self.k)

    def addresses(self, base: int, mn: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Shared addresses of (mn, k), broadcast."""
        offset = _digits(mn, self.mn) + _digits(k, self.k)
        if self.on_addresses:
            return swizzled(base + offset, self.mode)
        return base + swizzled(offset, self.mode)

    @property
    def contiguous(self) -> str:
        """The axis that counts bytes, "mn" or "k"; "" where neither does."""
        return next((name for name, axis in (("k", self.k), ("mn", self.mn)) if axis and axis[0][1] == 1), "")

    def first_alias(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Two different (mn, k) at one offset."""
        lines, bytes_ = self.extents()
        mn, k = (x.ravel() for x in np.meshgrid(np.arange(lines), np.arange(bytes_), indexing="ij"))
        offset = self.addresses(0, mn, k)
        order = np.argsort(offset, kind="stable")
        same = np.nonzero(offset[order][1:] == offset[order][:-1])[0]
        if not len(same):
            return None
        second = order[same + 1].min()
        first = int(np.nonzero(offset == offset[second])[0][0])
        return (int(mn[first]), int(k[first])), (int(mn[second]), int(k[second]))

    def widened(self) -> tuple[str, int, int, str]:
        """For a layout that is not one-to-one: the axis, its first stride that is too small, and the bytes that smaller
        strides span. The last entry names the axes with strides that are large enough ("" if they do not help).
        """
        axes = {"mn": [*map(list, self.mn)], "k": [*map(list, self.k)]}
        digits = sorted((stride, size, name, n) for name, axis in axes.items() for n, (size, stride) in enumerate(axis) if size > 1)
        first, span, factor = None, 1, 1
        for stride, size, name, n in digits:
            wide = stride * factor
            if wide < span:
                first = first or (name, stride, span)
                wide = span
                factor = -(-span // stride) if stride else factor
            axes[name][n][1] = wide
            span += (size - 1) * wide
        assert first is not None
        mn, k = (tuple((size, stride) for size, stride in axes[name]) for name in ("mn", "k"))
        is_right = dataclasses.replace(self, mn=mn, k=k).first_alias() is None
        changed = [f"{name} = {axes[name]}" for name, old in (("mn", self.mn), ("k", self.k)) if axes[name] != [*map(list, old)]]
        return (*first, ", ".join(changed) * is_right)

    def below(self, stride: int) -> list[str]:
        """The parts of the axes with smaller strides: the axis alone if all its parts are among them."""
        named = []
        for name, axis in (("mn", self.mn), ("k", self.k)):
            small = [[size, step] for size, step in axis if size > 1 and step < stride]
            if small:
                named.append(name if len(small) == sum(size > 1 for size, _ in axis) else f"{small} of {name}")
        return named


def _digits(index: np.ndarray, axis: tuple[tuple[int, int], ...]) -> np.ndarray:
    out = np.zeros_like(index)
    for number, (size, stride) in enumerate(axis):
        digit = index % size if number < len(axis) - 1 else index
        out = out + digit * stride
        index = index // size
    return out


@dataclasses.dataclass(frozen=True)
class SharedBuffer:
    """A shared buffer; `bytes` None where the scenario does not say."""

    name: str
    address: int
    bytes: int | None
    declared_align: int | None
    stage_bytes: int
    stages: int | None
    layout: SharedLayout | None
    cute: str | None = None  # the layout, if the scenario has it as a text

    @property
    def path(self) -> Path:
        """The path of the buffer in the scenario."""
        return Path.of("buffer", self.name)

    def at(self, stage: int = 0, offset: int = 0) -> int:
        """The address of an offset in a stage."""
        return self.address + stage * self.stage_bytes + offset


def buffers_of(scenario: ScenarioTables) -> dict[str, SharedBuffer]:
    """The scenario's buffers."""
    return {name: _placed(scenario, name, buffer) for name, buffer in scenario.buffers.items()}


def _placed(scenario: ScenarioTables, name: str, given: Buffer) -> SharedBuffer:
    where, address, promised = Path.of("buffer", name), given.address, None
    if address is None:
        align = 1024 if given.base_align is None else given.base_align
        if align <= 0 or align & (align - 1):
            raise TableError(f"{where}.base_align = {align}: needs a power of two", where / "base_align")
        offset, first = given.offset or 0, any_architecture(scenario.arch).shared_begin
        address = (-(-first // align) * align if given.base is None else given.base) + offset
        promised = math.gcd(align, offset) if given.base_align is not None else None
    if not 0 <= address < REACH:
        raise TableError(f"{where}.address = {address:#x}: needs a .shared address below {REACH:#x}", where / "address")
    return SharedBuffer(
        name,
        address,
        given.bytes,
        promised if given.declared_align is None else given.declared_align,
        _stage_bytes(where, given),
        given.stages,
        None if given.layout is None else _layout(where / "layout", given.layout, _bits_in(scenario, name)),
        given.layout if isinstance(given.layout, str) else None,
    )


def _stage_bytes(where: Path, given: Buffer) -> int:
    """From one stage to the next: as the scenario says, or the buffer in equal parts."""
    stages, size = 1 if given.stages is None else given.stages, given.bytes
    if stages < 1:
        raise TableError(f"{where}.stages = {stages}: needs 1 or more", where / "stages")
    if given.stage_bytes is not None or stages == 1:
        return given.stage_bytes or 0
    if size is None or size % stages:
        parts = "" if size is None else f"; {size} bytes are no equal parts"
        raise TableError(f"{where}: {stages} stages: needs stage_bytes, from one stage to the next{parts}", where)
    return size // stages


def _layout(where: Path, given: str | Layout, bits: int) -> SharedLayout:
    if isinstance(given, str):
        return _of_cute(where, given, bits)
    names = tuple(s.value for s in MODES)
    swizzle, xor = given.swizzle if given.swizzle is not None else "none", given.xor if given.xor is not None else "address"
    try:
        mode = MODES[Swizzle(choice(f"{where}.swizzle", swizzle, names, f"one of {' '.join(names)}"))]
    except InputError as e:
        raise TableError(str(e), where / "swizzle") from None
    try:
        choice(f"{where}.xor", xor, ("address", "offset"), "'address' or 'offset'")
    except InputError as e:
        raise TableError(str(e), where / "xor") from None
    for axis, pairs in (("mn", given.mn), ("k", given.k)):
        if any(size < 1 or abs(stride) >= REACH for size, stride in pairs):
            told = [list(pair) for pair in pairs]
            raise TableError(f"{where}.{axis} = {told}: needs sizes from 1 on, and strides below {REACH:#x} bytes", where / axis)
    return _bounded(where, SharedLayout(mode, xor == "address", given.mn, given.k))


def _bounded(where: Path, layout: SharedLayout) -> SharedLayout:
    if math.prod(layout.extents()) > 1 << 20:
        raise TableError(f"{where}: more than a megabyte, which no shared memory has", where)
    return layout


def swizzle_changes(buffer: SharedBuffer) -> tuple[Path, dict[str, str]]:
    """(the path of a layout's swizzle in a scenario, what stands there for each swizzle): of a CuTe text it is the
    text.
    """
    where = buffer.path / "layout"
    if buffer.cute is None:
        return where / "swizzle", {each: each for each in COMMON_SWIZZLES}
    rest = buffer.cute.rpartition("o ")[2].strip()
    return where, {each: f"{MODES[Swizzle(each)].cute} o {rest}" for each in COMMON_SWIZZLES}


def _of_cute(where: Path, text: str, bits: int) -> SharedLayout:
    """A layout in CuTe's notation, (M or N, K) of elements; the XOR is taken of addresses."""
    try:
        cute = CuteLayout.parse(text, element_bits=bits)
    except InputError as e:
        raise TableError(f"{where}: {e}", where) from None
    mode = next((m for m in MODES.values() if m.cute == str(cute.functor)), MODES[Swizzle.NONE])
    odd = ""
    if cute.rank != 2:
        odd = f"has {cute.rank} modes; needs two, M or N and K"
    elif cute.functor.bits and not mode.mask:
        odd = f"{cute.functor} is the XOR of no swizzle mode"
    elif not any(size > 1 and stride == 1 for size, stride in (each.leaves()[0] for each in cute.modes())):
        odd = "neither mode begins with stride 1; elements of one of the axes must follow one another"
    if odd:
        raise TableError(f"{where} = {shown(text)}: {odd}", where)
    try:
        mn, k = byte_axes(cute, bits)
    except InputError as e:
        raise TableError(f"{where} = {shown(text)}: {e}", where) from None
    return _bounded(where, SharedLayout(mode, True, mn, k))


def _bits_in(scenario: ScenarioTables, buffer: str) -> int:
    """Bits of the elements that lie in a buffer, as its steps say; 8 where none does."""
    for step in scenario.steps:
        if step.buffer == buffer:
            name = scenario.maps[step.map].of if isinstance(step, TensorStep) else getattr(step, "tensor", None)
            if isinstance(name, str) and name in scenario.tensors:
                return element_format(scenario.tensors[name].dtype).bits
        for operand in step.operands.values():
            if operand.start == buffer:
                return element_format(operand.dtype).bits
    return 8


# ---- Running a scenario's transfers: which global byte lies at every shared byte, and what goes wrong on the way


NAMES = {UNWRITTEN: "uninitialised bytes", OUTSIDE: "out-of-bounds fill", FOREIGN: "bytes of no tensor"}
ALIGN = LIMITS.smem_alignment
TMEM = (LANES, COLUMNS, CELL_BITS // 8)


class Counts(TypedDict, total=False):
    """How much of an operand is wrong, as `Finding` has it."""

    wrong: int
    of: int
    first: Element
    grade: Grade | Literal[""]
    pattern: tuple[str, ...]


def finding(
    code: str, where: Path, title: str, message: str, repair: str = "", *, severity: Severity | None = None, subject: Path | None = None,
    inside: InWord | None = None, cause: Finding | None = None, numbers: Mapping[str, Value] | None = None, changes: tuple[Fix, ...] = (),
    grade: Grade | Literal[""] = "", rule: str = "", wrong: int = 0, of: int = 0, first: Element | None = None, pattern: tuple[str, ...] = (),
    halves: tuple[Half, ...] = (), tried: bool = False, why: str = "",
) -> Finding:  # fmt: skip
    """A finding at a place of the scenario, with its code's severity unless another is given; the rest as `InScenario`
    and `Finding` have it.
    """
    return Finding(
        code, severity or CODES[code].severity, InScenario(where, title, subject, inside), message, repair, rule=rule, grade=grade, cause=cause,
        numbers=numbers or {}, wrong=wrong, of=of, first=first, pattern=pattern, changes=changes, halves=halves, tried=tried, why=why,
    )  # fmt: skip


class Rerun(Protocol):
    """The steps so far again, with other values at some paths of the scenario; None where any of that is refused."""

    def __call__(self, changes: Mapping[Path, Value], until: int | None = None, only: int | None = None) -> Machine | None:
        """`until`: the steps before another one; `only`: one step alone."""


def no_rerun(changes: Mapping[Path, Value], until: int | None = None, only: int | None = None) -> Machine | None:
    """Nothing else is tried."""
    return None


@dataclasses.dataclass(frozen=True)
class Issue:
    """One write of shared or tensor memory: `step` and `number` of its issue, the buffer, and a text for readers. In
    shared memory it also has the global byte of each written byte (`owners.Writer`).
    """

    step: int
    number: int
    buffer: str
    text: str
    sources: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64), repr=False, compare=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Read:
    """One operand of one step: `words` (blocks, K steps), and of every element (blocks, steps, rows, k) the global byte
    that was meant.
    """

    where: Path
    title: str
    arch: str
    dtype: str
    major: str
    packing: str
    words: np.ndarray
    rows: int
    k: int
    meant: np.ndarray
    tensor: GlobalTensor
    operand: Operand
    # (blocks, steps): byte addresses before they were put into the field, if the scenario has them
    starts: np.ndarray | None = None
    stage_bytes: int = 0  # of the buffer that the operand names

    def addresses(self, words: np.ndarray | None = None, major: str | None = None) -> np.ndarray:
        """Shared address of every element."""
        given = self.words if words is None else words
        addresses = operand_addresses(
            given, arch=self.arch, dtype=self.dtype, major=major or self.major, rows=self.rows, k=self.k, packing=self.packing
        )
        return addresses.astype(np.int64)

    def shape(self, major: str | None = None) -> Shape:
        """The shape of the operand to find descriptors for, in its own major-ness or in another one."""
        blocks, steps = self.meant.shape[:2]
        return Shape(
            any_architecture(self.arch), element_format(self.dtype), major or self.major, self.packing, blocks, steps, self.rows, self.k
        )

    def solutions(self, places: np.ndarray, major: str | None = None) -> Iterator[FoundDescriptor]:
        """Every mode's descriptor for elements that lie at `places` (blocks, steps, rows, k); -1 where it does not
        matter.
        """
        shape = self.shape(major)
        return solutions(shape, places) if (places >= 0).all() else partial_solutions(shape, places, self.field_starts)

    def placed(self, memory: Owners, among: Collection[int] | None = None) -> np.ndarray | None:
        """The place of everything that is intended, -1 for what is outside the tensor. None if some of it, or all, is
        nowhere.

        `among`: only what these writers brought.
        """
        places = memory.locate(self.meant, among)
        return places if (self.meant >= 0).any() and (places[self.meant >= 0] >= 0).all() else None

    @property
    def field_starts(self) -> np.ndarray:
        """Start addresses as the hardware sees them, (blocks, steps)."""
        return (self.words & np.uint64(START.mask)).astype(np.int64) << START.shift

    @property
    def step(self) -> int:
        """The number of its step."""
        assert self.where.step is not None
        return self.where.step

    @property
    def meaning(self) -> Meant:
        """The scenario's `meant` of the operand."""
        assert self.operand.meant is not None
        return self.operand.meant

    @property
    def descriptor(self) -> SmemDescriptor:
        """The descriptor of the first K step of the first block."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """The elements that an operand read when its step ran. All arrays are (blocks, K steps, rows, k). They hold the
    shared address, the global byte at that time, the index of the issue that wrote it, and whether it is not the
    intended byte. A global byte may also be UNWRITTEN, OUTSIDE or FOREIGN.
    """

    read: Read
    addresses: np.ndarray
    got: np.ndarray
    writer: np.ndarray
    wrong: np.ndarray


@dataclasses.dataclass
class Machine:
    """A CTA's shared memory after the steps so far, and the findings. The scenario's maps are `maps`, with None for a
    refused one.

    For every shared address, `memory` has the global byte and its last writer (issues by their number from 1 on). For
    every byte of tensor memory (lane, column, byte of the cell), `tmem` has the global byte and `tmem_writer` the index
    in `issues`. Everything that each operand read when its step ran is in `seen`.
    """

    arch: str
    end: int  # of the shared window
    tensors: dict[str, GlobalTensor]
    buffers: dict[str, SharedBuffer]
    arguments: Mapping[str, MapArguments]  # of the maps, by name
    findings: list[Finding] = dataclasses.field(default_factory=list)
    memory: Owners = dataclasses.field(default_factory=lambda: Owners(REACH))
    reruns: int = 0  # steps that were simulated again to try repairs
    wanted: list[bool] = dataclasses.field(default_factory=list)  # for each issue: has anything of it been read?
    # (an issue, the global bytes that it wrote over)
    overwritten: list[tuple[int, np.ndarray]] = dataclasses.field(default_factory=list)
    # chunks that anything has read
    read: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(REACH // CHUNK, bool))
    seen: list[Seen] = dataclasses.field(default_factory=list)
    maps: dict[str, TensorMap | None] = dataclasses.field(default_factory=dict)
    refused: dict[str, Finding] = dataclasses.field(default_factory=dict)  # maps that no driver makes
    failed: dict[str, Finding] = dataclasses.field(default_factory=dict)  # buffers that a stopped transfer did not fill

    # (the finding about a wrong operand, the global bytes that it needs)
    missed: list[tuple[Finding, np.ndarray]] = dataclasses.field(default_factory=list)
    unchecked: list[str] = dataclasses.field(default_factory=list)  # paths of what nothing here looks at
    mismatched: dict[str, Finding] = dataclasses.field(default_factory=dict)  # maps that are not their tensor's

    @functools.cached_property
    def tmem(self) -> np.ndarray:
        """The global byte of every byte of tensor memory."""
        return np.full(TMEM, UNWRITTEN, np.int64)

    @functools.cached_property
    def tmem_writer(self) -> np.ndarray:
        """The index in `issues` of the writer of every byte of tensor memory."""
        return np.full(TMEM, -1, np.int32)

    def say(self, new: Finding) -> Finding:
        """Keep a finding."""
        self.findings.append(new)
        return new

    @property
    def issues(self) -> list[Issue]:
        """The transfers and threads that have written to shared memory so far."""
        return self.memory.writers

    def write(self, shared: np.ndarray, issue: Issue) -> None:
        """Bytes that arrive at shared addresses."""
        before = self.memory.source(shared)
        self.memory.put(shared, issue)
        self.wanted.append(False)
        if (before >= 0).any():
            self.overwritten.append((len(self.issues) - 1, before[before >= 0]))

    def touch(self, shared: np.ndarray) -> None:
        """Bytes that are read."""
        inside = shared[(shared >= 0) & (shared < REACH)]
        self.read[inside // CHUNK] = True
        for number in distinct(self.memory.of(inside)[0]).tolist():
            if number:
                self.wanted[number - 1] = True

    # ---- maps

    def encode_maps(self) -> None:
        """Build every map, and say why one is refused."""
        for name, arguments in self.arguments.items():
            where = Path.of("map", name)
            try:
                self.maps[name] = self._map_at(where, arguments)
            except TensorMapError as e:
                self.maps[name] = None
                for broken in e.findings:
                    repair = refusal_repair(arguments, broken.code, self.map_of)
                    self.refused[name] = self.say(
                        finding(
                            broken.code,
                            where,
                            f"map {name}",
                            broken.what,
                            repair or broken.repair,
                            numbers={"rule": broken.rule},
                            rule=broken.rule,
                            why="the driver refuses to encode the map",
                        )
                    )

    def _map_at(self, where: Path, arguments: MapArguments) -> TensorMap:
        try:
            return self.map_of(arguments)
        except TensorMapError:
            raise
        except InputError as e:
            raise TableError(f"{where}.{e}", where) from None

    def map_of(self, arguments: MapArguments) -> TensorMap:
        """The map of its arguments."""
        if arguments.raw is not None:
            try:
                return TensorMap.from_bytes(arguments.bytes_of_map)
            except ValueError:
                raise InputError(
                    f"raw has {len(arguments.raw)} characters: needs the 128 bytes of the CUtensorMap as 256 hex digits"
                ) from None
        address = arguments.of if arguments.global_address is None else arguments.global_address
        if isinstance(address, str):
            if address not in self.tensors:
                raise InputError(f"global_address = {address!r}: there is no [tensor.{address}]")
            address = self.tensors[address].address
        given = {"global_strides": ()} | arguments.encode_arguments | {"global_address": (address or 0) + (arguments.global_offset or 0)}
        if arguments.is_im2col:
            return TensorMap.im2col(arch=self.arch, **given)  # type: ignore[arg-type]  # the call looks at them itself
        return TensorMap.tiled(arch=self.arch, **given)  # type: ignore[arg-type]

    # ---- steps that move bytes

    def tensor_step(self, number: int, step: TensorStep) -> None:
        """tma_load, tma_store, tma_reduce: every issue of the step."""
        where, title = Path.of("step", number), f"step[{number}] ({step.op})"
        tm, buffer, stage = self.maps.get(step.map), self.buffers[step.buffer], step.stage or 0
        if tm is None:
            self.failed.setdefault(buffer.name, self.refused[step.map])
            return
        self.object_address(title, step.map)
        self.promised(title, buffer)
        total, off, touched = 0, list[int](), list[np.ndarray]()
        traps: dict[str, Finding] = {}  # the first of each code
        for issue, (address, at) in enumerate(issues_of(self, step)):
            if address % ALIGN:
                off.append(address)
                continue
            try:
                moved = self.moved(tm, step, at, address)
            except HardwareTrap as e:
                code = "A107" if e.cuda_error == 700 else "T205"
                traps.setdefault(
                    code,
                    finding(code, where, title, f"the transfer traps: {e.reason}", why=f"the launch ends with CUDA error {e.cuda_error}"),
                )
                continue
            shared = moved.shared_address.astype(np.int64)
            total += moved.transaction_bytes
            touched.append(moved.shared_address)
            if isinstance(step, TmaLoad):
                self.write(
                    shared, Issue(number, issue, buffer.name, f"TMA load of {step.map} at {list(at)} to {address:#x}", moved.sources)
                )
            else:
                self.touch(shared)
        for trap in traps.values():
            self.failed.setdefault(buffer.name, self.say(trap))
        if off:
            self.failed.setdefault(buffer.name, self.misaligned(where, title, buffer, stage, off))
        self.inside(where, title, buffer, touched, stage)
        if total and isinstance(step, TmaLoad) and buffer.name not in self.failed:
            self.promised_bytes(where / "expect_bytes", title, step, total)

    def moved(self, tm: TensorMap, step: TensorStep, at: tuple[int, ...], address: int) -> Transfer:
        """The bytes that one issue of a step moves. Raises HardwareTrap."""
        if isinstance(step, TmaLoad):
            offsets = () if step.im2col_offsets is None else listed(step.im2col_offsets)
            return tma_load(tm, at, smem_address=address, im2col_offsets=offsets, arch=self.arch)
        return tma_store(tm, at, smem_address=address, arch=self.arch)

    def promised_bytes(self, where: Path, title: str, step: TmaLoad, total: int) -> None:
        """Does the barrier expect the bytes that arrive?"""
        expected = step.expect_bytes
        if expected is not None and expected != total:
            ends = (
                "the phase never completes"
                if expected > total
                else f"the phase completes before all bytes have arrived, or the {total - expected:,} surplus bytes take the mbarrier's byte count below 0"
            )
            self.say(finding("T210", where, title, f"the mbarrier expects {expected:,} bytes, {total:,} bytes arrive",
                             f"expect_bytes = {total}", why=ends, cause=self.mismatched.get(step.map), numbers={"expected": expected, "arrive": total}, changes=(Fix(where, expected, total),)))  # fmt: skip

    def object_address(self, title: str, name: str) -> None:
        """Finds a CUtensorMap whose own address is not aligned: the transfer traps."""
        address = self.arguments[name].object_address
        if address is not None and address % LIMITS.object_alignment:
            self.say(finding("A104", Path.of("map", name, "object_address"), title, f"the CUtensorMap object is at {address:#x}, {address % LIMITS.object_alignment} B past a multiple of {LIMITS.object_alignment} B",
                             f"alignas({LIMITS.object_alignment}) for the CUtensorMap, or object_address = {address & -LIMITS.object_alignment:#x}",
                             why="a transfer through a misaligned CUtensorMap traps"))  # fmt: skip

    def promised(self, title: str, buffer: SharedBuffer) -> None:
        """Does the declared alignment promise what a transfer needs?"""
        align = buffer.declared_align
        if align is not None and align % ALIGN and buffer.address % ALIGN == 0:
            self.say(finding("A106", Path.of("buffer", buffer.name, "declared_align"), title,
                             f"{buffer.name} is at {buffer.address:#x}, a multiple of {ALIGN} B, but its declared alignment is {align} B",
                             f"declared_align = {ALIGN}", why=f"a transfer needs a multiple of {ALIGN} B; another build may place the buffer elsewhere"))  # fmt: skip

    def misaligned(self, where: Path, title: str, buffer: SharedBuffer, stage: int, addresses: list[int], needs: int = ALIGN) -> Finding:
        """Destinations off 128 B; where only some stages are, the stage's size is the cause."""
        address = addresses[0]
        offset = address - buffer.at(stage)
        if stage and buffer.at(0, offset) % needs == 0:
            right = -(-buffer.stage_bytes // needs) * needs
            return self.say(finding("A102", Path.of("buffer", buffer.name, "stage_bytes"), title,
                                    f"stage {stage} of {buffer.name} begins at {address:#x}, {address % needs} B past a multiple of {needs} B",
                                    f"stage_bytes = {right}", why=f"stages are {buffer.stage_bytes} B apart; a transfer to a misaligned address traps", changes=(Fix(Path.of("buffer", buffer.name, "stage_bytes"), buffer.stage_bytes, right),)))  # fmt: skip
        return self.say(finding("A101", where, title, f"shared address {address:#x} is {address % needs} B past a multiple of {needs} B{f', so are {len(addresses) - 1} more of this step' if len(addresses) > 1 else ''}",
                                f"place {buffer.name} at {-(-address // needs) * needs:#x}", why="a transfer to a misaligned shared address traps", numbers={"address": address, "needs": needs}))  # fmt: skip

    def inside(self, where: Path, title: str, buffer: SharedBuffer, shared: list[np.ndarray], stage: int = 0) -> None:
        """Do a step's transfers stay in their buffer?"""
        if buffer.bytes is None or not any(map(len, shared)):
            return
        low, high = min(int(part.min()) for part in shared if len(part)), max(int(part.max()) for part in shared if len(part)) + 1
        begin, end = buffer.address, buffer.address + buffer.bytes
        if low < begin or high > end:
            stages = (
                f"stage {stage} is used, {buffer.name} has {buffer.stages}" if buffer.stages is not None and stage >= buffer.stages else ""
            )
            self.say(finding("A107", where, title, f"the step touches {low:#x} to {high - 1:#x}; {buffer.name} has {begin:#x} to {end - 1:#x}",
                             f"bytes = {max(high, end) - begin} for {buffer.name}", why=stages or "the bytes outside belong to another buffer or to none", numbers={"first": low, "last": high - 1}))  # fmt: skip

    def bulk_step(self, number: int, step: BulkStep) -> None:
        """cp.async.bulk, which knows of no swizzle."""
        where, title = Path.of("step", number), f"step[{number}] (bulk)"
        buffer, stage, unit = self.buffers[step.buffer], step.stage or 0, BULK_LIMITS.unit
        tensor = None if step.tensor is None else self.tensors[step.tensor]
        issues = _bulk_issues(where, step)
        last = max(place for _, place in issues)
        room = None if tensor is None else tensor.memory_end - tensor.address - last
        if step.bytes % unit:
            whole = -(-step.bytes // unit) * unit
            fix = f"bytes = {whole}" if room is None or whole <= room else fitting_size(step.bytes, room, is_store=step.to is None)
            self.say(finding("A103", where / "bytes", title, f"the bulk copy has {step.bytes} bytes, which is not a multiple of {unit} B",
                             fix, why=f"hardware moves and counts whole units of {unit} B: the last {step.bytes % unit} B stay behind"))  # fmt: skip
        moves = step.bytes // unit * unit
        if tensor is not None and room is not None and moves > room:
            self.say(finding("X001", where / "bytes", title, f"the bulk copy of bytes {last} to {last + moves - 1} of {tensor.name} ends {moves - room} bytes after the end of the tensor",
                             fitting_size(moves, max(room, 0), is_store=step.to is None), why="a GPU faults only if no memory is mapped there; otherwise other data is copied"))  # fmt: skip
        for issue, (offset, place) in enumerate(issues):
            address = buffer.at(stage, offset)
            if address % unit:
                self.failed.setdefault(buffer.name, self.misaligned(where, title, buffer, stage, [address], unit))
                continue
            moved = np.arange(address, min(address + step.bytes // unit * unit, REACH))
            self.inside(where, title, buffer, [moved])
            if step.to is not None:
                sources = tensor.address + place + np.arange(len(moved)) if tensor else np.full(len(moved), FOREIGN)
                self.write(moved, Issue(number, issue, buffer.name, f"bulk copy of {len(moved)} B to {address:#x}", sources))
        mode = buffer.layout.mode if buffer.layout else None
        if mode is not None and mode.mask:
            lines = mode.mask + 1
            self.say(finding("R501", where, title,
                             f"a bulk copy fills {buffer.name}, whose layout has swizzle {mode.swizzle}",
                             "a tensor copy (cp.async.bulk.tensor), or a layout without swizzle",
                             why=f"a bulk copy does not swizzle: in {mode.mask} of {lines} lines the 16 B chunks are in other places",
                             numbers={"fraction": mode.mask / lines}))  # fmt: skip


def _bulk_issues(where: Path, step: BulkStep) -> list[tuple[int, int]]:
    """(offset in the buffer, in the tensor) of every copy of a step."""
    offsets, places = listed(step.offset or 0), listed(step.global_offset or 0)
    if min(places) < 0:
        raise TableError(f"{where}.global_offset = {min(places)}: needs bytes from the tensor's beginning", where / "global_offset")
    if len(places) not in (1, len(offsets)):
        told = f"offset has {len(offsets)} entries and global_offset {len(places)}: needs one of each for every issue"
        raise mistake(where, told)
    return list(zip(offsets, places * (len(offsets) // len(places)), strict=True))


def issues_of(machine: Machine, step: TensorStep) -> list[tuple[int, tuple[int, ...]]]:
    """(shared address, coordinates) of every issue of a tensor step."""
    offsets, places = listed(step.offset or 0), step.places
    if len(offsets) == 1:
        offsets = offsets * len(places)
    if len(offsets) != len(places):
        raise InputError(f"offset has {len(offsets)} entries and at {len(places)}: needs one of each for every issue")
    buffer, stage = machine.buffers[step.buffer], step.stage or 0
    return [(buffer.at(stage, offset), at) for offset, at in zip(offsets, places, strict=True)]
