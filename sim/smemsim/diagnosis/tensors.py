"""Tensors in global memory: where every element of a scenario's tensors is, in bits, and what was meant to arrive."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

import numpy as np

from smemsim.core.finding import Path
from smemsim.core.layout.tensor_memory import scale_block_byte, scale_of_byte
from smemsim.core.machine.global_memory import OUTSIDE
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_memory import CELL_BITS, LANES
from smemsim.core.tables import TableError, mistake
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.scenario import ScenarioTables

__all__ = ["OUTSIDE", "GlobalTensor", "tensors_of"]


APART = 1 << 36  # bytes between tensors whose addresses are made up
FIRST = 1 << 40
BLOCK_ROWS, BLOCK_SCALES = LANES, CELL_BITS // 8  # of a block of scale factors, which is one copy into tensor memory
BLOCK_BYTES = BLOCK_ROWS * BLOCK_SCALES


@dataclasses.dataclass(frozen=True)
class GlobalTensor:
    """A tensor: its element type, and elements and byte strides by axis. A packed 4- or 6-bit type has stride 1 along
    its contiguous axis.

    Scale factors may be stored in blocks of 128 rows x 4 scales. Then `scale_blocks` is (axis of rows, axis of scales).
    Strides of these go from block to block.

    >>> sf = GlobalTensor("SF", element_format("ue8m0"), {"m": 256, "s": 8}, {"m": 1024, "s": 512}, 0, ("m", "s"))
    >>> at = int(sf.byte_addresses(("m", "s"), np.array(161), np.array(6)))
    >>> at, sf.named(at)
    (1558, 'SF[m=161, s=6]')

    An axis in `walks` runs through several dimensions of memory, the fastest first. Each is (indices, bytes from one to
    the next, the first that is inside, the end of these). Example: 2 x 32 rows of a box that has two planes of a
    tensor.

    >>> planes = GlobalTensor("B", element_format("f16"), {"row": 64, "k": 64}, {"row": 128, "k": 2}, 0, walks={"row": ((32, 128, 0, 32), (2, 16384, 0, 2))})
    >>> int(planes.byte_addresses(("row", "k"), np.array(33), np.array(1))), planes.named(16384 + 128 + 2)
    (16514, 'B[row=33, k=1]')
    """

    name: str
    fmt: ElementFormat
    extent: dict[str, int]
    stride: dict[str, int]
    address: int
    scale_blocks: tuple[str, str] | None = None
    walks: Mapping[str, tuple[tuple[int, int, int, int], ...]] = dataclasses.field(default_factory=dict)

    def bit_stride(self, axis: str) -> int:
        """Bits from one element to the next along an axis."""
        packed = self.fmt.bits < 8 and self.stride[axis] == 1
        return self.fmt.bits if packed else 8 * self.stride[axis]

    @functools.cached_property
    def contiguous(self) -> str | None:
        """The axis along which elements follow one another."""
        return next((axis for axis in self.stride if self.bit_stride(axis) == self.fmt.bits), None)

    @functools.cached_property
    def end(self) -> int:
        """The address after the last element."""
        if self.scale_blocks:
            return self.address + sum((n - 1) // self._block(axis) * self.stride[axis] for axis, n in self.extent.items()) + BLOCK_BYTES
        last = sum(int(self._bits(axis, np.array(self.extent[axis] - 1))) for axis in self.extent)
        return self.address + -(-(last + self.fmt.bits) // 8)

    @functools.cached_property
    def memory_end(self) -> int:
        """The address after the tensor's memory: rows may have padding, the last row too."""
        if self.scale_blocks or self.walks:
            return self.end
        return max(self.end, self.address + max(-(-n * self.bit_stride(axis) // 8) for axis, n in self.extent.items()))

    def byte_addresses(self, axes: tuple[str, str], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Address of the byte with each element's lowest bit, OUTSIDE, as the fill that arrives for it, where there is
        none; the other axes are at 0.
        """
        bits = self._bits(axes[0], rows) + self._bits(axes[1], columns)
        inside = self._inside(axes[0], rows) & self._inside(axes[1], columns)
        found: np.ndarray = np.where(inside, self.address + bits // 8, OUTSIDE)
        return found

    def _inside(self, axis: str, index: np.ndarray) -> np.ndarray:
        """Is an index of an axis inside the tensor?"""
        inside = (index >= 0) & (index < self.extent[axis])
        rest = index
        for size, _, begin, end in self.walks.get(axis, ()):
            inside = inside & (rest % size >= begin) & (rest % size < end)
            rest = rest // size
        return inside

    def _block(self, axis: str) -> int:
        """Elements of an axis that one step of its stride passes."""
        return dict(zip(self.scale_blocks or (), (BLOCK_ROWS, BLOCK_SCALES), strict=False)).get(axis, 1)

    def _bits(self, axis: str, index: np.ndarray) -> np.ndarray:
        """Bits from the tensor's beginning to an index of an axis; the axes' sums are the elements."""
        if axis in self.walks:
            return self._walked(axis, index)
        if self.scale_blocks is None or axis not in self.scale_blocks:
            return index * self.bit_stride(axis)
        block, inside = np.divmod(index, self._block(axis))
        byte = scale_block_byte(inside, 0) if axis == self.scale_blocks[0] else scale_block_byte(0, inside)
        found: np.ndarray = 8 * (block * self.stride[axis] + byte)
        return found

    def _walked(self, axis: str, index: np.ndarray) -> np.ndarray:
        """The bits from the tensor's beginning to an index of an axis that runs through several dimensions."""
        bits, rest = np.zeros_like(index), index
        *first, (_, last, *_) = self.walks[axis]
        for size, stride, *_ in first:
            bits, rest = bits + rest % size * 8 * stride, rest // size
        found: np.ndarray = bits + rest * 8 * last
        return found

    def _in_blocks(self, addresses: np.ndarray, blocks: tuple[str, str]) -> dict[str, np.ndarray]:
        """The scale factor at each address of a tensor that lies in blocks, by axis."""
        rest, at = addresses - self.address, {}
        whole, inside = rest // BLOCK_BYTES * BLOCK_BYTES, rest % BLOCK_BYTES
        for axis in sorted(self.stride, key=lambda axis: -self.stride[axis]):
            step = max(self.stride[axis], 1)
            at[axis] = np.minimum(whole // step, (self.extent[axis] - 1) // self._block(axis))
            whole = whole - at[axis] * step
            at[axis] = at[axis] * self._block(axis)
        row, index = scale_of_byte(inside // CHUNK, inside % CHUNK)
        at[blocks[0]], at[blocks[1]] = at[blocks[0]] + row, at[blocks[1]] + index
        return at

    def index(self, address: int) -> dict[str, int]:
        """The element at an address, by axis."""
        return {axis: int(index) for axis, index in self.coordinates(np.int64(address)).items()}

    def named(self, address: int) -> str:
        """The element at an address, as `A[m=64, k=0]`."""
        at = self.index(address)
        return f"{self.name}[{', '.join(f'{axis}={at[axis]}' for axis in self.extent)}]"

    def coordinates(self, addresses: np.ndarray | np.integer) -> dict[str, np.ndarray]:
        """The element at each address, by axis; of addresses outside the tensor it is meaningless."""
        if self.scale_blocks:
            return self._in_blocks(np.asarray(addresses, np.int64), self.scale_blocks)
        rest = (np.asarray(addresses, np.int64) - self.address) * 8
        at = {axis: np.zeros_like(rest) for axis in self.stride}
        for step, most, axis, weight in self._by_width:
            index = np.minimum(rest // step, most)
            at[axis], rest = at[axis] + index * weight, rest - index * step
        return at

    @functools.cached_property
    def _by_width(self) -> list[tuple[int, int, str, int]]:
        """The dimensions of memory, the widest steps first."""
        return sorted(self._steps(), key=lambda one: -one[0])

    def _steps(self) -> Iterator[tuple[int, int, str, int]]:
        """(bits from one to the next, most of them, axis, what one is of the axis's index)
        of all dimensions of memory.
        """
        for axis in self.stride:
            weight = 1
            for size, stride, _, end in self.walks.get(axis, ()):
                yield max(8 * stride, 1), end - 1, axis, weight
                weight *= size
            if axis not in self.walks:
                yield max(self.bit_stride(axis), 1), self.extent[axis] - 1, axis, 1


def tensors_of(scenario: ScenarioTables) -> dict[str, GlobalTensor]:
    """The scenario's tensors; those without an address lie far apart."""
    tensors = {}
    for number, (name, given) in enumerate(scenario.tensors.items()):
        where = Path.of("tensor", name, "scale_blocks")
        address = given.address
        if address is None:
            address = _captured(scenario, name) or FIRST + number * APART
        blocks, fmt = given.scale_blocks, element_format(given.dtype)
        if blocks is not None and (any(axis not in given.extent for axis in blocks) or len(set(blocks)) != 2):
            raise TableError(f"{where} = {list(blocks)}: needs two axes of {name}: that of rows, that of scales", where)
        if blocks is not None and fmt.bits != 8:
            raise mistake(where, f"elements of {given.dtype}; scale factors are bytes (ue8m0, ue4m3)")
        tensors[name] = GlobalTensor(name, fmt, dict(given.extent), dict(given.stride), address, blocks, given.walks or {})
    return tensors


def _captured(scenario: ScenarioTables, tensor: str) -> int | None:
    """The begin of a tensor by a map that describes it: by its captured bytes, or by the pointer in the scenario."""
    for arguments in scenario.maps.values():
        if arguments.of == tensor and isinstance(arguments.global_address, int):
            return arguments.global_address
        if arguments.of == tensor and arguments.raw is not None:
            try:
                return int(TensorMap.from_bytes(arguments.bytes_of_map).global_address) - (arguments.global_offset or 0)
            except ValueError:
                return None  # said where the map is read
    return None
