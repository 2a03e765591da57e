"""A scenario carried out: buffers, memories and tensors as its steps leave them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from smemsim.arguments import choice, shown
from smemsim.errors import HardwareTrap, InputError, SmemsimError
from smemsim.finding import Element, Finding, Fix, InScenario, InWord, Path, TensorMapError, Value
from smemsim.judge.tensors import Tensor
from smemsim.layout.cute import CuteLayout, byte_axes
from smemsim.machine.owners import Owners
from smemsim.machine.region import FOREIGN, OUTSIDE, UNWRITTEN
from smemsim.machine.tma import tma_load, tma_store
from smemsim.spec.architectures import architecture
from smemsim.spec.bulk import BULK_LIMITS
from smemsim.spec.evidence import Grade
from smemsim.spec.findings import CODES, Severity
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK
from smemsim.spec.smem_descriptor import REACH
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.spec.tensor_map import DATA_TYPES, LIMITS
from smemsim.spec.tensor_memory import CELL_BITS, COLUMNS, LANES
from smemsim.words.operand import swizzled
from smemsim.words.tensor_map import TensorMap
from smemsim.words.tensor_map.arguments import member

__all__ = [
    "COMMON_SWIZZLES",
    "FOREIGN",
    "NAMES",
    "UNWRITTEN",
    "Buffer",
    "Issue",
    "Layout",
    "Machine",
    "Rerun",
    "buffers_of",
    "finding",
    "issues_of",
    "listed",
    "no_rerun",
    "places_of",
    "refusal_repair",
    "swizzle_changes",
]


# ---- What to write instead of arguments that the driver refuses; each proposal is encoded before it is made


def refusal_repair(raw: dict[str, Any], code: str, encode: Callable[..., TensorMap]) -> str:
    """A sentence, or nothing where no single argument helps or the refusal says it. `encode` builds the map with other arguments, or raises."""
    dtype = None if "raw" in raw else member("data_type", raw["data_type"], [])
    if dtype is None or "box_dim" not in raw:
        return ""
    box, strides = (list(x) if isinstance(x, list) else [x] for x in (raw["box_dim"], raw.get("global_strides", [])))
    bits = DATA_TYPES[dtype].bits
    tries: list[tuple[dict[str, Any], str]] = []
    if code == "T203":
        unit = LIMITS.inner_alignment * 8 // bits
        up = -(-max(box[0], 1) // unit) * unit
        tries = [({"box_dim": [n, *box[1:]]}, f"box_dim[0] = {n}, {n * bits // 8} B") for n in (up, up - unit) if n]
    elif code == "T204":
        wide = [-(-stride // LIMITS.address_alignment) * LIMITS.address_alignment for stride in strides]
        tries = [({"global_strides": wide}, f"global_strides = {wide}: rows padded to a multiple of {LIMITS.address_alignment} B")]
    for changed, text in tries:
        try:
            encode(**changed)
        except SmemsimError:
            continue
        return text
    return ""


# ---- Shared buffers: where they lie, and what the software believes of their layout


COMMON_SWIZZLES = (
    "none",
    "32B",
    "64B",
    "128B",
    "128B_ATOM_32B",
)  # those that TMA and the tensor core have in common; the last one on tcgen05


@dataclasses.dataclass(frozen=True)
class Layout:
    """What software computes: the sum of strided digits of both axes, then the XOR of a swizzle, on addresses or on offsets.

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


def _digits(index: np.ndarray, axis: tuple[tuple[int, int], ...]) -> np.ndarray:
    out = np.zeros_like(index)
    for number, (size, stride) in enumerate(axis):
        digit = index % size if number < len(axis) - 1 else index
        out = out + digit * stride
        index = index // size
    return out


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A shared buffer; `bytes` None where the scenario does not say."""

    name: str
    address: int
    bytes: int | None
    declared_align: int | None
    stage_bytes: int
    stages: int | None
    layout: Layout | None
    raw_layout: Any = None  # as the scenario writes it

    @property
    def path(self) -> Path:
        """Its path in the scenario."""
        return Path.of("buffer", self.name)

    def at(self, stage: int = 0, offset: int = 0) -> int:
        """The address of an offset in a stage."""
        return self.address + stage * self.stage_bytes + offset


def buffers_of(scenario: dict[str, Any]) -> dict[str, Buffer]:
    """The scenario's buffers."""
    found, first = {}, architecture(scenario["arch"]).shared_begin
    for name, raw in (scenario.get("buffer") or {}).items():
        where = f"buffer.{name}"
        address, promised = raw.get("address"), None
        if address is None:
            align = raw.get("base_align", 1024)
            if align <= 0 or align & (align - 1):
                raise InputError(f"{where}.base_align = {align}: needs a power of two")
            offset = raw.get("offset", 0)
            address = raw.get("base", -(-first // align) * align) + offset
            promised = math.gcd(align, offset) if "base_align" in raw else None
        if not 0 <= address < REACH:
            raise InputError(f"{where}.address = {address:#x}: needs a .shared address below {REACH:#x}")
        layout = raw.get("layout")
        found[name] = Buffer(
            name,
            address,
            raw.get("bytes"),
            raw.get("declared_align", promised),
            _stage_bytes(where, raw),
            raw.get("stages"),
            None if layout is None else _layout(where, layout, _bits_in(scenario, name)),
            layout,
        )
    return found


def _stage_bytes(where: str, raw: dict[str, Any]) -> int:
    """From one stage to the next: as the scenario says, or the buffer in equal parts."""
    stages, size = raw.get("stages", 1), raw.get("bytes")
    if stages < 1:
        raise InputError(f"{where}.stages = {stages}: needs 1 or more")
    if "stage_bytes" in raw or stages == 1:
        return int(raw.get("stage_bytes", 0))
    if size is None or size % stages:
        raise InputError(
            f"{where}: {stages} stages: needs stage_bytes, from one stage to the next{'' if size is None else f'; {size} bytes are no equal parts'}"
        )
    return int(size // stages)


def _layout(where: str, raw: Any, bits: int) -> Layout:
    if isinstance(raw, str):
        return _of_cute(f"{where}.layout", raw, bits)
    names = tuple(s.value for s in MODES)
    mode = MODES[Swizzle(choice(f"{where}.layout.swizzle", raw.get("swizzle", "none"), names, f"one of {' '.join(names)}"))]
    xor = choice(f"{where}.layout.xor", raw.get("xor", "address"), ("address", "offset"), "'address' or 'offset'")
    axes = []
    for axis in ("mn", "k"):
        pairs = raw[axis]
        if any(size < 1 or abs(stride) >= REACH for size, stride in pairs):
            raise InputError(f"{where}.layout.{axis} = {pairs}: needs sizes from 1 on, and strides below {REACH:#x} bytes")
        axes.append(tuple((int(size), int(stride)) for size, stride in pairs))
    return _bounded(where, Layout(mode, xor == "address", axes[0], axes[1]))


def _bounded(where: str, layout: Layout) -> Layout:
    if math.prod(layout.extents()) > 1 << 20:
        raise InputError(f"{where}.layout: more than a megabyte, which no shared memory has")
    return layout


def swizzle_changes(buffer: Buffer) -> tuple[Path, dict[str, Any]]:
    """(the path of a layout's swizzle in a scenario, what stands there for each swizzle): of a CuTe text it is the text."""
    name = buffer.name
    if not isinstance(buffer.raw_layout, str):
        return Path.of("buffer", name, "layout", "swizzle"), {each: each for each in COMMON_SWIZZLES}
    rest = buffer.raw_layout.rpartition("o ")[2].strip()
    return Path.of("buffer", name, "layout"), {each: f"{MODES[Swizzle(each)].cute} o {rest}" for each in COMMON_SWIZZLES}


def _of_cute(where: str, text: str, bits: int) -> Layout:
    """A layout in CuTe's notation, (M or N, K) of elements; the XOR is taken of addresses."""
    try:
        cute = CuteLayout.parse(text, element_bits=bits)
    except InputError as e:
        raise InputError(f"{where}: {e}") from None
    if cute.rank != 2:
        raise InputError(f"{where} = {shown(text)}: has {cute.rank} modes; needs two, M or N and K")
    mode = next((m for m in MODES.values() if m.cute == str(cute.functor)), MODES[Swizzle.NONE])
    if cute.functor.bits and not mode.mask:
        raise InputError(f"{where} = {shown(text)}: {cute.functor} is the XOR of no swizzle mode")
    if not any(size > 1 and stride == 1 for size, stride in (one.leaves()[0] for one in cute.modes())):
        raise InputError(f"{where} = {shown(text)}: neither mode begins with stride 1; elements of one of the axes must follow one another")
    try:
        mn, k = byte_axes(cute, bits)
    except InputError as e:
        raise InputError(f"{where} = {shown(text)}: {e}") from None
    return _bounded(where.removesuffix(".layout"), Layout(mode, True, mn, k))


def _bits_in(scenario: dict[str, Any], buffer: str) -> int:
    """Bits of the elements that lie in a buffer, as its steps say; 8 where none does."""
    for step in scenario.get("step") or []:
        if buffer in (step.get("to"), step.get("from")):
            name = step.get("tensor") or (scenario.get("map") or {}).get(step.get("map", ""), {}).get("of")
            if name in (scenario.get("tensor") or {}):
                return element_format(scenario["tensor"][name]["dtype"]).bits
        for side in ("a", "b"):
            if side in step and step[side].get("start") == buffer:
                return element_format(step[side]["dtype"]).bits
    return 8


# ---- Running a scenario's transfers: which global byte lies at every shared byte, and what goes wrong on the way


NAMES = {UNWRITTEN: "what no step wrote", OUTSIDE: "out-of-bounds fill", FOREIGN: "bytes of no tensor"}
ALIGN = LIMITS.smem_alignment
TMEM = (LANES, COLUMNS, CELL_BITS // 8)


def finding(
    code: str, where: Path, title: str, message: str, repair: str = "", *, severity: Severity | None = None, subject: Path | None = None,
    inside: InWord | None = None, cause: Finding | None = None, numbers: Mapping[str, Value] | None = None, changes: tuple[Fix, ...] = (),
    grade: Grade | Literal[""] = "", rule: str = "", wrong: int = 0, of: int = 0, first: Element | None = None, pattern: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    """A finding at a place of the scenario, with its code's severity unless another is given; the rest as `InScenario` and `Finding` have it."""
    return Finding(
        code, severity or CODES[code].severity, InScenario(where, title, subject, inside), message, repair, rule=rule, grade=grade, cause=cause,
        numbers=numbers or {}, wrong=wrong, of=of, first=first, pattern=pattern, changes=changes,
    )  # fmt: skip


Rerun = Callable[..., "Machine | None"]  # (changes: Path -> value, until=None, only=None): the steps so far again


def no_rerun(changes: Any, until: int | None = None, only: int | None = None) -> Machine | None:
    """Nothing else is tried."""
    return None


@dataclasses.dataclass(frozen=True)
class Issue:
    """One thing that writes shared or tensor memory: `step` and `number` of its issue in it, the buffer, what it is, for people; and of shared memory
    the global byte of each byte that it writes (`owners.Writer`)."""

    step: int
    number: int
    buffer: str
    text: str
    sources: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64), repr=False, compare=False)


@dataclasses.dataclass
class Machine:
    """A CTA's shared memory as the steps leave it, and the findings so far. `maps` are the scenario's, None where one was refused.

    `memory` knows for every shared address the global byte that lies there, and what wrote it last, the issues by their number in it, from 1 on.
    `tmem` has the global byte and `tmem_writer` the index in `issues` of every byte of tensor memory: (lane, column, byte of the cell). `seen` is what
    each operand read when its step ran.
    """

    arch: str
    end: int  # of the shared window
    tensors: dict[str, Tensor]
    buffers: dict[str, Buffer]
    raw_maps: dict[str, dict[str, Any]]
    findings: list[Finding] = dataclasses.field(default_factory=list)
    memory: Owners = dataclasses.field(default_factory=lambda: Owners(REACH))
    reruns: int = 0  # steps that were simulated again to try repairs
    wanted: list[bool] = dataclasses.field(default_factory=list)  # for each issue: has anything of it been read?
    overwritten: list[tuple[int, np.ndarray]] = dataclasses.field(default_factory=list)  # (an issue, the global bytes that it wrote over)
    read: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(REACH // CHUNK, bool))  # chunks that anything has read
    seen: list[Any] = dataclasses.field(default_factory=list)
    maps: dict[str, TensorMap | None] = dataclasses.field(default_factory=dict)
    refused: dict[str, Finding] = dataclasses.field(default_factory=dict)  # maps that no driver makes
    failed: dict[str, Finding] = dataclasses.field(default_factory=dict)  # buffers that a stopped transfer did not fill

    tmem: np.ndarray = dataclasses.field(default_factory=lambda: np.full(TMEM, UNWRITTEN, np.int64))
    tmem_writer: np.ndarray = dataclasses.field(default_factory=lambda: np.full(TMEM, -1, np.int32))
    unchecked: list[str] = dataclasses.field(default_factory=list)  # paths of what nothing here looks at
    mismatched: dict[str, Finding] = dataclasses.field(default_factory=dict)  # maps that are not their tensor's

    def say(self, one: Finding) -> Finding:
        """Keep a finding."""
        self.findings.append(one)
        return one

    @property
    def issues(self) -> list[Issue]:
        """What has written so far."""
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
        for number in np.unique(self.memory.of(inside)[0]).tolist():
            if number:
                self.wanted[number - 1] = True

    # ---- maps

    def encode_maps(self) -> None:
        """Build every map, and say why one is refused."""
        for name, raw in self.raw_maps.items():
            where = Path.of("map", name)
            try:
                self.maps[name] = self._map_at(where, raw)
            except TensorMapError as e:
                self.maps[name] = None
                for broken in e.findings:
                    repair = refusal_repair(raw, broken.code, lambda **changed: self.map_of(raw, **changed))  # noqa: B023 (called at once)
                    self.refused[name] = self.say(
                        finding(broken.code, where, f"map {name}", broken.message, repair, numbers={"rule": broken.rule}, rule=broken.rule)
                    )

    def _map_at(self, where: Path, raw: dict[str, Any]) -> TensorMap:
        try:
            return self.map_of(raw)
        except TensorMapError:
            raise
        except InputError as e:
            raise InputError(f"{where}.{e}") from None

    def map_of(self, raw: dict[str, Any], **changed: Any) -> TensorMap:
        """The map of its arguments."""
        if "raw" in raw:
            try:
                return TensorMap.from_bytes(bytes.fromhex("".join(raw["raw"].split()).removeprefix("0x")))
            except ValueError:
                raise InputError(
                    f"raw has {len(raw['raw'])} characters: needs the 128 bytes of the CUtensorMap as 256 hex digits"
                ) from None
        given = {key: value for key, value in raw.items() if key not in ("of", "global_offset", "object_address")} | changed
        address = given.get("global_address", raw.get("of"))
        if isinstance(address, str):
            if address not in self.tensors:
                raise InputError(f"global_address = {address!r}: there is no [tensor.{address}]")
            address = self.tensors[address].address
        given["global_address"] = (address or 0) + raw.get("global_offset", 0)
        for key in ("global_dim", "global_strides", "box_dim", "element_strides", "pixel_box_lower_corner", "pixel_box_upper_corner"):
            if key in given:
                given[key] = tuple(given[key]) if isinstance(given[key], list) else (given[key],)
        given.setdefault("element_strides", (1,) * len(given.get("global_dim", ())))
        if "pixel_box_lower_corner" in given:
            return TensorMap.im2col(arch=self.arch, **given)
        given.setdefault("global_strides", ())
        return TensorMap.tiled(arch=self.arch, **given)

    # ---- steps that move bytes

    def tensor_step(self, number: int, step: dict[str, Any]) -> None:
        """tma_load, tma_store, tma_reduce: every issue of the step."""
        where, title = Path.of("step", number), f"step {number + 1} ({step['op']})"
        tm = self.maps.get(step["map"])
        buffer = self.buffers[step.get("to", step.get("from", ""))]
        if tm is None:
            self.failed.setdefault(buffer.name, self.refused[step["map"]])
            return
        self.object_address(title, step["map"])
        self.promised(title, buffer)
        total, off, touched, traps = 0, [], [], []
        for issue, (address, at) in enumerate(issues_of(self, step)):
            if address % ALIGN:
                off.append(address)
                continue
            try:
                if step["op"] == "tma_load":
                    moved = tma_load(
                        tm, at, smem_address=address, im2col_offsets=tuple(listed(step.get("im2col_offsets", []))), arch=self.arch
                    )
                else:
                    moved = tma_store(tm, at, smem_address=address, arch=self.arch)
            except HardwareTrap as e:
                traps.append(
                    finding("A107" if e.cuda_error == 700 else "T205", where, title, f"traps (CUDA error {e.cuda_error}): {e.reason}")
                )
                continue
            total += moved.transaction_bytes
            touched.append(moved.shared_address)
            if step["op"] != "tma_load":
                self.touch(moved.shared_address.astype(np.int64))
            if step["op"] == "tma_load":
                shared = moved.shared_address.astype(np.int64)
                self.write(shared, Issue(number, issue, buffer.name, f"tma_load {step['map']} at {at} to {address:#x}", moved.sources))
        for trap in dict.fromkeys(one.code for one in traps):
            first = next(one for one in traps if one.code == trap)
            self.failed.setdefault(buffer.name, self.say(first))
        if off:
            self.failed.setdefault(buffer.name, self.misaligned(where, title, buffer, step.get("stage", 0), off))
        self.inside(where, title, buffer, touched, step.get("stage", 0))
        expected = step.get("expect_bytes")
        if expected is not None and total and expected != total and buffer.name not in self.failed:
            mismatch = self.mismatched.get(step["map"])
            self.say(finding("T210", where / "expect_bytes", title,
                             f"the barrier expects {expected:,} bytes, {total:,} arrive: " + ("it waits for ever" if expected > total else "its count runs over"),
                             f"expect_bytes = {total}", cause=mismatch, numbers={"expected": expected, "arrive": total}, changes=(Fix(where / "expect_bytes", expected, total),)))  # fmt: skip

    def object_address(self, title: str, name: str) -> None:
        """Where the CUtensorMap itself lies."""
        address = self.raw_maps[name].get("object_address")
        if address is not None and address % LIMITS.object_alignment:
            self.say(finding("A104", Path.of("map", name, "object_address"), title, f"the CUtensorMap is at {address:#x}, {address % LIMITS.object_alignment} past a multiple of {LIMITS.object_alignment} B: the transfer traps",
                             f"alignas(128), or object_address = {address & -LIMITS.object_alignment:#x}"))  # fmt: skip

    def promised(self, title: str, buffer: Buffer) -> None:
        """Does the declared alignment promise what a transfer needs?"""
        align = buffer.declared_align
        if align is not None and align % ALIGN and buffer.address % ALIGN == 0:
            self.say(finding("A106", Path.of("buffer", buffer.name, "declared_align"), title,
                             f"{buffer.name} is at {buffer.address:#x}, a multiple of {ALIGN}; its declared alignment of {align} B does not guarantee that",
                             f"declared_align = {ALIGN}"))  # fmt: skip

    def misaligned(self, where: Path, title: str, buffer: Buffer, stage: int, addresses: list[int], needs: int = ALIGN) -> Finding:
        """Destinations off 128 B; where only some stages are, the stage's size is the cause."""
        address = addresses[0]
        offset = address - buffer.at(stage)
        if stage and buffer.at(0, offset) % needs == 0:
            right = -(-buffer.stage_bytes // needs) * needs
            return self.say(finding("A102", Path.of("buffer", buffer.name, "stage_bytes"), title,
                                    f"stage {stage} of {buffer.name} begins at {address:#x}, {address % needs} past a multiple of {needs} B: stages are {buffer.stage_bytes} B apart",
                                    f"stage_bytes = {right}", changes=(Fix(Path.of("buffer", buffer.name, "stage_bytes"), buffer.stage_bytes, right),)))  # fmt: skip
        return self.say(finding("A101", where, title, f"address {address:#x} is {address % needs} past a multiple of {needs} B: the transfer traps{f', as {len(addresses) - 1} more of this step do' if len(addresses) > 1 else ''}",
                                f"{buffer.name} at {-(-address // needs) * needs:#x}", numbers={"address": address, "needs": needs}))  # fmt: skip

    def inside(self, where: Path, title: str, buffer: Buffer, shared: list[np.ndarray], stage: int = 0) -> None:
        """Do a step's transfers stay in their buffer?"""
        if buffer.bytes is None or not any(map(len, shared)):
            return
        low, high = min(int(part.min()) for part in shared if len(part)), max(int(part.max()) for part in shared if len(part)) + 1
        begin, end = buffer.address, buffer.address + buffer.bytes
        if low < begin or high > end:
            stages = f"; stage {stage} of {buffer.stages}" if buffer.stages is not None and stage >= buffer.stages else ""
            self.say(finding("A107", where, title, f"touches {low:#x} to {high - 1:#x}; {buffer.name} has {begin:#x} to {end - 1:#x}{stages}",
                             f"{buffer.name} needs {max(high, end) - begin} bytes", numbers={"first": low, "last": high - 1}))  # fmt: skip

    def bulk_step(self, number: int, step: dict[str, Any]) -> None:
        """cp.async.bulk, which knows of no swizzle."""
        where, title = Path.of("step", number), f"step {number + 1} (bulk)"
        buffer = self.buffers[step.get("to", step.get("from", ""))]
        if step["bytes"] % BULK_LIMITS.unit:
            self.say(finding("A103", where / "bytes", title, f"{step['bytes']} bytes: what is over a multiple of 16 B is neither moved nor counted",
                             f"bytes = {-(-step['bytes'] // 16) * 16}"))  # fmt: skip
        offsets, places = listed(step.get("offset", 0)), listed(step.get("global_offset", 0))
        if min(places) < 0:
            raise InputError(f"{where}.global_offset = {min(places)}: needs bytes from the tensor's beginning")
        if len(places) not in (1, len(offsets)):
            raise InputError(
                f"{where}: offset has {len(offsets)} entries and global_offset {len(places)}: needs one of each for every issue"
            )
        for issue, (offset, place) in enumerate(zip(offsets, places * (len(offsets) // len(places)), strict=True)):
            address = buffer.at(step.get("stage", 0), offset)
            if address % BULK_LIMITS.unit:
                self.failed.setdefault(
                    buffer.name, self.misaligned(where, title, buffer, step.get("stage", 0), [address], BULK_LIMITS.unit)
                )
                continue
            moved = np.arange(address, min(address + step["bytes"] // BULK_LIMITS.unit * BULK_LIMITS.unit, REACH))
            self.inside(where, title, buffer, [moved])
            if "to" in step:
                tensor = self.tensors.get(step.get("tensor", ""))
                sources = tensor.address + place + np.arange(len(moved)) if tensor else np.full(len(moved), FOREIGN)
                self.write(moved, Issue(number, issue, buffer.name, f"bulk copy of {len(moved)} B to {address:#x}", sources))
        mode = buffer.layout.mode if buffer.layout else None
        if mode is not None and mode.mask:
            lines = mode.mask + 1
            self.say(finding("R501", where, title,
                             f"a bulk copy moves bytes as they lie; {buffer.name} is laid out with swizzle {mode.swizzle}: {mode.mask} of {lines} lines have their chunks in other places",
                             "a tensor copy (cp.async.bulk.tensor), or a layout without swizzle",
                             numbers={"fraction": mode.mask / lines}))  # fmt: skip


def issues_of(machine: Machine, step: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """(shared address, coordinates) of every issue of a tensor step."""
    buffer = machine.buffers[step.get("to", step.get("from", ""))]
    offsets = listed(step.get("offset", 0))
    places = places_of(step)
    if len(offsets) == 1:
        offsets = offsets * len(places)
    if len(offsets) != len(places):
        raise InputError(f"offset has {len(offsets)} entries and at {len(places)}: needs one of each for every issue")
    return [(buffer.at(step.get("stage", 0), offset), at) for offset, at in zip(offsets, places, strict=True)]


def places_of(step: dict[str, Any]) -> list[list[int]]:
    """The coordinates of every issue of a tensor step, which has them as one list or as a list of lists."""
    at: list[Any] = step["at"]
    return at if at and isinstance(at[0], list) else [at]


def listed(value: Any) -> list[Any]:
    """A list, or a list of the one value."""
    return list(value) if isinstance(value, list) else [value]
