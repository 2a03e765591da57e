"""Shared buffers: where they lie, and what the software believes of their layout."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from smemsim.addressing.swizzle import swizzle
from smemsim.arguments import choice
from smemsim.errors import InputError, Unmodelled
from smemsim.spec.architectures import architecture
from smemsim.spec.swizzles import MODES, Swizzle, SwizzleMode

__all__ = ["Buffer", "Layout", "buffers_of"]


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
            return np.asarray(swizzle(base + offset, 0, self.mode.mask, self.mode.shift))
        return base + np.asarray(swizzle(offset, 0, self.mode.mask, self.mode.shift))

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
    layout: Layout | None

    def at(self, stage: int = 0, offset: int = 0) -> int:
        """The address of an offset in a stage."""
        return self.address + stage * self.stage_bytes + offset


def buffers_of(scenario: dict[str, Any]) -> dict[str, Buffer]:
    """The scenario's buffers."""
    found, first = {}, architecture(scenario["arch"]).shared_begin
    for name, raw in (scenario.get("buffer") or {}).items():
        where = f"buffer.{name}"
        address = raw.get("address")
        if address is None:
            align = raw.get("base_align", 1024)
            if align <= 0 or align & (align - 1):
                raise InputError(f"{where}.base_align = {align}: needs a power of two")
            address = raw.get("base", -(-first // align) * align) + raw.get("offset", 0)
        if not 0 <= address < 1 << 18:
            raise InputError(f"{where}.address = {address:#x}: needs a .shared address below 0x40000")
        layout = raw.get("layout")
        found[name] = Buffer(
            name,
            address,
            raw.get("bytes"),
            raw.get("declared_align"),
            raw.get("stage_bytes", 0),
            None if layout is None else _layout(where, layout),
        )
    return found


def _layout(where: str, raw: Any) -> Layout:
    if isinstance(raw, str):
        raise Unmodelled(f"{where}.layout = {raw!r}: CuTe strings are not read yet; write swizzle, mn and k")
    names = tuple(s.value for s in MODES)
    mode = MODES[Swizzle(choice(f"{where}.layout.swizzle", raw.get("swizzle", "none"), names, f"one of {' '.join(names)}"))]
    xor = choice(f"{where}.layout.xor", raw.get("xor", "address"), ("address", "offset"), "'address' or 'offset'")
    axes = []
    for axis in ("mn", "k"):
        pairs = raw[axis]
        if any(size < 1 or abs(stride) >= 1 << 18 for size, stride in pairs):
            raise InputError(f"{where}.layout.{axis} = {pairs}: needs sizes from 1 on, and strides below 2^18 bytes")
        axes.append(tuple((int(size), int(stride)) for size, stride in pairs))
    if math.prod(size for axis in axes for size, _ in axis) > 1 << 20:
        raise InputError(f"{where}.layout: more than a megabyte, which no shared memory has")
    return Layout(mode, xor == "address", axes[0], axes[1])
