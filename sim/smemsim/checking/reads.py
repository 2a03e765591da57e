"""What an instruction reads through its descriptors, and what it was meant to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.addressing.tensor_memory import scale_of_byte
from smemsim.checking.buffers import Buffer
from smemsim.checking.tensors import Tensor
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.solve.answer import FoundDescriptor
from smemsim.solve.atoms import Shape
from smemsim.solve.inverse import locate, partial_solutions, solutions
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import START
from smemsim.spec.tensor_memory import LANES, WARP_LANES

__all__ = ["Read", "Seen", "made_words", "meant_of", "meant_places", "packing_of", "words_path"]


@dataclasses.dataclass(frozen=True, eq=False)
class Read:
    """One operand of one step: `words` (blocks, K steps), and of every element (blocks, steps, rows, k) the global byte that was meant."""

    where: str
    title: str
    arch: str
    dtype: str
    major: str
    packing: str
    words: np.ndarray
    rows: int
    k: int
    meant: np.ndarray
    tensor: Tensor
    raw: dict[str, Any]
    starts: np.ndarray | None = None  # (blocks, steps): byte addresses before they were put into the field, where the scenario has them
    stage_bytes: int = 0  # of the buffer that the operand names

    def addresses(self, words: np.ndarray | None = None, major: str | None = None) -> np.ndarray:
        """Shared address of every element."""
        given = self.words if words is None else words
        found = operand_addresses(
            given, arch=self.arch, dtype=self.dtype, major=major or self.major, rows=self.rows, k=self.k, packing=self.packing
        )
        return found.astype(np.int64)

    def shape(self, major: str | None = None) -> Shape:
        """What is to be read."""
        blocks, steps = self.meant.shape[:2]
        return Shape(
            architecture(self.arch), element_format(self.dtype), major or self.major, self.packing, blocks, steps, self.rows, self.k
        )

    def solutions(self, places: np.ndarray, major: str | None = None) -> Iterator[FoundDescriptor]:
        """Every mode's descriptor for elements that lie at `places` (blocks, steps, rows, k); -1 where it does not matter."""
        shape = self.shape(major)
        return solutions(shape, places) if (places >= 0).all() else partial_solutions(shape, places, self.field_starts)

    def placed(self, source: np.ndarray) -> np.ndarray | None:
        """Where everything that is meant lies, -1 for what is outside the tensor; None if some of it, or all, lies nowhere."""
        places = locate(source, self.meant)
        return places if (self.meant >= 0).any() and (places[self.meant >= 0] >= 0).all() else None

    @property
    def field_starts(self) -> np.ndarray:
        """Start addresses as the hardware sees them, (blocks, steps)."""
        return (self.words & np.uint64(START.mask)).astype(np.int64) << START.shift

    @property
    def step(self) -> int:
        """The number of its step."""
        return int(self.where.partition("[")[2].partition("]")[0])

    @property
    def descriptor(self) -> SmemDescriptor:
        """The first one."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """What an operand read when its step ran. All arrays are (blocks, K steps, rows, k): shared address, the global byte that lay there (or UNWRITTEN,
    OUTSIDE, FOREIGN), the index of the issue that had written it, and is it another than the one that was meant?"""

    read: Read
    addresses: np.ndarray
    got: np.ndarray
    writer: np.ndarray
    wrong: np.ndarray


def packing_of(kind: str, dtype: str) -> str:
    """How 4- and 6-bit elements lie: with gaps in the kinds that take 8-bit types too."""
    return "padded" if kind in ("f8f6f4", "mxf8f6f4") and element_format(dtype).bits < 8 else "packed"


def made_words(operand: dict[str, Any], buffers: dict[str, Buffer], where: str) -> tuple[np.ndarray, np.ndarray | None] | None:
    """(raw words, start addresses where these are known), both (blocks, steps); None where the scenario asks for words."""
    if "words" in operand:
        rows = operand["words"]
        nested = rows if isinstance(rows[0], list) else [rows]
        if any(len(row) != len(nested[0]) for row in nested):
            raise InputError(f"{where}.words: needs as many words in every block")
        return np.array(nested, np.uint64), None
    if "word" not in operand:
        return None
    word = operand["word"]
    start = operand.get("start", 0)
    base = (buffers[start].at(operand.get("stage", 0)) if isinstance(start, str) else start) + operand.get("start_offset", 0)
    k_add, mn_add = (x if isinstance(x, list) else [x] for x in (operand.get("k_add", [0]), operand.get("mn_add", [0])))
    starts = base + np.array(mn_add, np.int64)[:, None] + np.array(k_add, np.int64)[None, :]
    own = (word & START.mask) << START.shift
    field = (starts + own) >> START.shift & START.mask
    words = np.uint64(word & ~START.mask) | field.astype(np.uint64)
    return words, starts + own


def words_path(where: str, operand: dict[str, Any]) -> str:
    """The path of an operand's descriptor in the scenario."""
    return f"{where}.{'word' if 'word' in operand else 'words'}"


def meant_places(operand: dict[str, Any], tensor: Tensor, shape: tuple[int, int], rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the elements that were meant, along the axis of rows and along that of K; both (blocks, steps, rows, k)."""
    meant = operand["meant"]
    if meant.get("scale_block", tensor.scale_blocks is not None):
        return _scale_places(meant, shape, rows, k)
    at, k_step, mn_step = meant.get("at", [0, 0]), meant.get("k_step", k), meant.get("mn_step", rows)
    row = at[0] + (np.arange(shape[0]) * mn_step)[:, None, None, None] + np.arange(rows)[None, None, :, None]
    column = at[1] + (np.arange(shape[1]) * k_step)[None, :, None, None] + np.arange(k)[None, None, None, :]
    found = np.broadcast_arrays(row, column)
    return found[0], found[1]


def _scale_places(meant: dict[str, Any], shape: tuple[int, int], rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same where every word reads whole blocks of scale factors: lines of 16 B hold 4 scales of each of the rows r, r + 32, r + 64, r + 96."""
    row, index = scale_of_byte(np.arange(rows)[:, None], np.arange(k)[None, :])
    at, blocks = meant.get("at", [0, 0]), (-(-rows // WARP_LANES) * LANES, k * WARP_LANES // LANES)
    down = at[0] + (np.arange(shape[0]) * meant.get("mn_step", blocks[0]))[:, None, None, None] + row
    along = at[1] + (np.arange(shape[1]) * meant.get("k_step", blocks[1]))[None, :, None, None] + index
    found = np.broadcast_arrays(down, along)
    return found[0], found[1]


def meant_of(operand: dict[str, Any], tensor: Tensor, shape: tuple[int, int], rows: int, k: int) -> np.ndarray:
    """(blocks, steps, rows, k): the global byte of each element that was meant."""
    axes = operand["meant"]["axes"]
    return tensor.byte_addresses((axes[0], axes[1]), *meant_places(operand, tensor, shape, rows, k))
