"""An operand as 16-byte chunks, both ways: where in the tile a chunk belongs, and where in shared memory it lies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.addressing.swizzle import swizzle
from smemsim.checking.reads import Seen, made_words
from smemsim.checking.simulate import Machine
from smemsim.descriptors.layout import rules_in_force, used_strides, weakest
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.show.held import Held
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.swizzles import MODES, SwizzleMode

__all__ = ["Cell", "Place", "Stride", "TilePicture"]

MOST_CHUNKS = 1 << 16  # of one picture

Place = tuple[int, int]  # line and chunk column of the tile


@dataclasses.dataclass(frozen=True)
class Cell:
    """16 bytes of shared memory: the chunks of the tile that read them, those of them that were meant to read other data, and the chunk whose data
    lies here (None: data of no chunk of this tile)."""

    address: int
    readers: tuple[Place, ...]
    wrong: tuple[Place, ...]
    home: Place | None


@dataclasses.dataclass(frozen=True)
class Stride:
    """LBO or SBO of the first descriptor: what it adds to the start address, where that leads, and does this operand use it at all?"""

    name: str
    bytes: int
    begin: int
    end: int
    used: bool


@dataclasses.dataclass(frozen=True, eq=False)
class TilePicture:
    """All that the descriptors of one operand read.

    The tile has a line for each index along the strided axis (a row of a K-major operand, a K of an MN-major one) and a column for each 16 bytes
    along the contiguous one; all M / N blocks and K steps together. `address` is (lines, columns, elements of a chunk), -1 where an instruction has no
    element. `held` is what lay there, where that is known.

    >>> tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16, k_add=[0, 32])
    >>> tile.address.shape, tile.address[1, :, 0].tolist(), tile.first((1, 2))
    ((64, 4, 8), [1168, 1152, 1200, 1184], (1, 16))
    """

    words: np.ndarray
    arch: str
    dtype: str
    major: str
    packing: str
    rows: int
    k: int
    address: np.ndarray
    where: str = ""
    name: str = "operand"
    held: Held | None = None

    @classmethod
    def of(
        cls,
        word: int,
        *,
        arch: str,
        dtype: Any,
        major: str,
        rows: int,
        k: int,
        packing: str = "packed",
        k_add: list[int] | int = 0,
        mn_add: list[int] | int = 0,
    ) -> TilePicture:
        """The picture of a raw descriptor; `k_add` and `mn_add` are the bytes that K steps and M / N blocks add to its start address."""
        d = SmemDescriptor.decode(word, arch=arch)
        fmt = element_format(dtype)
        for name, adds in (("k_add", k_add), ("mn_add", mn_add)):
            if adds == []:
                raise InputError(f"{name}: needs at least one number of bytes, as {name} 0")
        made = made_words({"word": d.word, "k_add": k_add, "mn_add": mn_add}, {}, "operand")
        assert made is not None
        if made[0].size * rows * k > MOST_CHUNKS * fmt.elements_per_chunk(packing):
            raise InputError(f"{made[0].size} words of {rows} x {k} elements: a picture has at most {MOST_CHUNKS:,} chunks of 16 bytes")
        found = operand_addresses(made[0], arch=arch, dtype=fmt, major=major, rows=rows, k=k, packing=packing).astype(np.int64)
        if not found.size:
            raise InputError(f"rows = {rows}, k = {k}: no element to show; needs both from 1 on")
        return cls(made[0], d.arch, fmt.name, major, packing, rows, k, tiled(found, major, fmt.elements_per_chunk(packing)))

    @classmethod
    def of_seen(cls, machine: Machine, seen: Seen) -> TilePicture:
        """The picture of what an operand of a checked scenario read."""
        r = seen.read
        per_chunk = element_format(r.dtype).elements_per_chunk(r.packing)
        return cls(r.words, r.arch, element_format(r.dtype).name, r.major, r.packing, r.rows, r.k, tiled(seen.addresses, r.major, per_chunk),
                   r.where, r.title, Held.of(machine, seen, lambda x: tiled(x, r.major, per_chunk)))  # fmt: skip

    # ---- the descriptor

    @property
    def descriptor(self) -> SmemDescriptor:
        """The first one."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)

    @property
    def mode(self) -> SwizzleMode:
        """The swizzle of the first descriptor."""
        return MODES[self.descriptor.swizzle]

    @property
    def atom_lines(self) -> int:
        """128-byte lines of a swizzle atom; without swizzle of 8 rows of 16 bytes."""
        return max(self.mode.mask + 1, 1)

    @property
    def title(self) -> str:
        """What is shown."""
        blocks, steps = self.words.shape
        times = f", {steps} K steps" * (steps > 1) + f", {blocks} blocks of M / N" * (blocks > 1)
        return f"{self.name}: {self.dtype} {self.major}-major, {self.rows} x {self.k}{times}"

    @property
    def subtitle(self) -> str:
        """The first descriptor."""
        d = self.descriptor
        lbo = f"LBO {d.leading_byte_offset} B" if not d.lbo_mode else f"next buffer {d.leading_byte_offset:#x}"
        phase = f", base offset {d.base_offset}" if d.base_offset else ""
        return f"{d.word:#018x} on {d.arch}: swizzle {d.swizzle}, start {d.start_address:#x}, {lbo}, SBO {d.stride_byte_offset} B{phase}"

    @property
    def grade(self) -> str:
        """How sure the addresses are."""
        machine = architecture(self.arch)
        k_bytes = -(-self.k // self.per_chunk) * CHUNK
        bits = max(element_format(self.dtype).bits, 4)
        rules = rules_in_force(self.descriptor, machine, major=self.major, k_bytes=k_bytes, bits=bits, packing=self.packing)
        told = "" if machine.measured else "; nothing is measured on Blackwell"
        return f"address rules on {self.arch}: {weakest(rules, machine)}{told}"

    def strides(self) -> list[Stride]:
        """SBO and LBO. One that the operand does not use changes no address when it changes."""
        d, found = self.descriptor, list[Stride]()
        if d.lbo_mode:
            return found
        used = used_strides(self.mode, self.major, self.rows, self.k, self.per_chunk)
        for name, field in (("SBO", "stride_byte_offset"), ("LBO", "leading_byte_offset")):
            value = getattr(d, field)
            begin, end = (swizzle(d.start_address + add, d.base_offset, self.mode.mask, self.mode.shift) for add in (0, value))
            found.append(Stride(name, value, begin, end, used[field]))
        return found

    # ---- the tile

    @property
    def per_chunk(self) -> int:
        """Elements in 16 bytes."""
        return int(self.address.shape[2])

    @property
    def shape(self) -> Place:
        """Lines and columns."""
        return int(self.address.shape[0]), int(self.address.shape[1])

    @property
    def too_large(self) -> str:
        """Why it cannot be drawn; "" where it can."""
        chunks = self.shape[0] * self.shape[1]
        return f"{self.name}: {chunks:,} chunks of 16 bytes; a picture has at most {MOST_CHUNKS:,}" if chunks > MOST_CHUNKS else ""

    @property
    def axes(self) -> Place | tuple[str, str]:
        """Names of the lines and of what runs along them."""
        rows, k = self.held.axes if self.held else ("row", "k")
        return (rows, k) if self.major == "K" else (k, rows)

    @property
    def chunks_of_one(self) -> int:
        """Chunk columns of one instruction."""
        return -(-(self.k if self.major == "K" else self.rows) // self.per_chunk)

    def instruction(self, place: Place) -> Place:
        """(block, K step) whose descriptor reads a chunk."""
        line, column = place
        across = column // self.chunks_of_one
        return (line // self.rows, across) if self.major == "K" else (across, line // self.k)

    def start(self, instruction: Place) -> int:
        """Start address of the descriptor of a (block, K step)."""
        return self.descriptor.table.fields["start_address"].value(int(self.words[instruction]))

    def first(self, place: Place, element: int = 0) -> Place:
        """(row, k) in the tile of an element of a chunk."""
        line, column = place
        along = self.k if self.major == "K" else self.rows
        inner = column // self.chunks_of_one * along + column % self.chunks_of_one * self.per_chunk + element
        return (line, inner) if self.major == "K" else (inner, line)

    def chunk_address(self, place: Place) -> int:
        """Shared address of a chunk."""
        return int(self.address[place[0], place[1], 0])

    def places(self) -> Iterator[Place]:
        """All chunks, line by line."""
        return iter(np.ndindex(*self.shape))

    def wrong_at(self, place: Place) -> int:
        """How many elements of a chunk are other than was meant."""
        return int(self.held.wrong[place].sum()) if self.held else 0

    @functools.cached_property
    def first_wrong(self) -> Place | None:
        """The first chunk with a wrong element, in the order of the findings: blocks, K steps, rows."""
        if not self.held or not self.held.wrong.any():
            return None
        found = [(int(a), int(b)) for a, b in zip(*np.nonzero(self.held.wrong.any(axis=2)), strict=True)]
        return min(found, key=lambda p: (*self.instruction(p), *self.first(p)))

    # ---- shared memory

    @functools.cached_property
    def cells(self) -> dict[int, Cell]:
        """Every 16 bytes that the operand reads or that hold what it was meant to read, by address."""
        readers: dict[int, list[Place]] = {}
        for place in self.places():
            readers.setdefault(self.chunk_address(place) // CHUNK * CHUNK, []).append(place)
        if self.held is None:
            return {a: Cell(a, tuple(p), (), p[0]) for a, p in sorted(readers.items())}
        homes, lies = self.held.homes, self.held.lies
        found = {}
        for address, of in readers.items():
            home = homes.get(int(self.held.got[of[0]][0]))
            found[address] = Cell(address, tuple(of), tuple(p for p in of if self.wrong_at(p)), home)
        for place in self.places():
            address = int(lies[place]) // CHUNK * CHUNK
            if lies[place] >= 0 and address not in found:
                found[address] = Cell(address, (), (), place)
        return dict(sorted(found.items()))

    @functools.cached_property
    def lines(self) -> dict[int, list[Cell | None]]:
        """The cells by 128-byte line: eight each."""
        found: dict[int, list[Cell | None]] = {}
        for cell in self.cells.values():
            found.setdefault(cell.address // LINE, [None] * (LINE // CHUNK))[cell.address % LINE // CHUNK] = cell
        return found

    def _repr_svg_(self) -> str:
        """In a notebook."""
        from smemsim.show.tile_svg import tile_svg

        return tile_svg(self)


def tiled(array: np.ndarray, major: str, per_chunk: int) -> np.ndarray:
    """(blocks, steps, rows, k) as (lines, chunk columns, elements of a chunk); a last chunk that is not full is filled with -1."""
    order = (0, 2, 1, 3) if major == "K" else (1, 3, 0, 2)  # (.., lines of one, .., elements along one)
    turned = array.transpose(order)
    a, lines, b, along = turned.shape
    chunks = -(-along // per_chunk)
    fill = False if array.dtype == bool else -1
    padded = np.full((a, lines, b, chunks * per_chunk), fill, array.dtype)
    padded[..., :along] = turned
    return padded.reshape(a * lines, b * chunks, per_chunk)
