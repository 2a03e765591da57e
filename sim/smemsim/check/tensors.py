"""Tensors in global memory: where every element of a scenario's tensors is, in bits, and what was meant to arrive."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.spec.formats import ElementFormat, element_format

__all__ = ["OUTSIDE", "Tensor", "tensors_of"]

OUTSIDE = -2  # instead of an address: an element outside its tensor, for which out-of-bounds fill arrives
APART = 1 << 36  # bytes between tensors whose addresses are made up
FIRST = 1 << 40


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor: its element type, and elements and byte strides by axis. A packed 4- or 6-bit type has stride 1 along its contiguous axis."""

    name: str
    fmt: ElementFormat
    extent: dict[str, int]
    stride: dict[str, int]
    address: int

    def bit_stride(self, axis: str) -> int:
        """Bits from one element to the next along an axis."""
        packed = self.fmt.bits < 8 and self.stride[axis] == 1
        return self.fmt.bits if packed else 8 * self.stride[axis]

    @property
    def contiguous(self) -> str | None:
        """The axis along which elements follow one another."""
        return next((axis for axis in self.stride if self.bit_stride(axis) == self.fmt.bits), None)

    @property
    def end(self) -> int:
        """The address behind the last element."""
        last = sum((self.extent[axis] - 1) * self.bit_stride(axis) for axis in self.extent)
        return self.address + -(-(last + self.fmt.bits) // 8)

    def byte_addresses(self, axes: tuple[str, str], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Address of the byte with each element's lowest bit, OUTSIDE where there is none; the other axes are at 0."""
        bits = rows * self.bit_stride(axes[0]) + columns * self.bit_stride(axes[1])
        inside = (rows >= 0) & (rows < self.extent[axes[0]]) & (columns >= 0) & (columns < self.extent[axes[1]])
        return np.where(inside, self.address + bits // 8, OUTSIDE)

    def named(self, address: int) -> str:
        """The element at an address, as `A[m=64, k=0]`."""
        at = {axis: int(index) for axis, index in self.coordinates(np.int64(address)).items()}
        return f"{self.name}[{', '.join(f'{axis}={at[axis]}' for axis in self.extent)}]"

    def coordinates(self, addresses: Any) -> dict[str, np.ndarray]:
        """The element at each address, by axis; of addresses outside the tensor it is meaningless."""
        rest, at = (np.asarray(addresses, np.int64) - self.address) * 8, {}
        for axis in sorted(self.stride, key=lambda axis: -self.bit_stride(axis)):
            step = max(self.bit_stride(axis), 1)
            at[axis] = np.minimum(rest // step, self.extent[axis] - 1)
            rest = rest - at[axis] * step
        return at


def tensors_of(scenario: dict[str, Any]) -> dict[str, Tensor]:
    """The scenario's tensors; those without an address lie far apart."""
    found = {}
    for number, (name, raw) in enumerate((scenario.get("tensor") or {}).items()):
        address = raw.get("address", FIRST + number * APART)
        found[name] = Tensor(name, element_format(raw["dtype"]), dict(raw["extent"]), dict(raw["stride"]), address)
    return found
