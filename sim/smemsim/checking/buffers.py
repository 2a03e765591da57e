"""Shared buffers: where they lie, and what the software believes of their layout."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from smemsim.addressing.cute import CuteLayout
from smemsim.addressing.cute_algebra import byte_axes
from smemsim.arguments import choice, shown
from smemsim.descriptors.operand import swizzled
from smemsim.errors import InputError
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import REACH
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode

__all__ = ["COMMON_SWIZZLES", "Buffer", "Layout", "buffers_of", "swizzle_changes"]

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


def swizzle_changes(buffer: Buffer) -> tuple[str, dict[str, Any]]:
    """(the path of a layout's swizzle in a scenario, what stands there for each swizzle): of a CuTe text it is the text."""
    name = buffer.name
    if not isinstance(buffer.raw_layout, str):
        return f"buffer.{name}.layout.swizzle", {each: each for each in COMMON_SWIZZLES}
    rest = buffer.raw_layout.rpartition("o ")[2].strip()
    return f"buffer.{name}.layout", {each: f"{MODES[Swizzle(each)].cute} o {rest}" for each in COMMON_SWIZZLES}


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
