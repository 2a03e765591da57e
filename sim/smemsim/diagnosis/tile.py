"""An operand as 16-byte chunks: their content, writers and readers; as a picture, and as data for a page."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import whole
from smemsim.base.errors import InputError
from smemsim.base.members import OwnMembers
from smemsim.core.finding import Path
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.picture.model import EMPTY, STRAY, Band, Gap, Grid, Legend, Mark, Outline, Picture, Row, Stride, Strip, colour
from smemsim.core.picture.model import Cell as Drawn
from smemsim.core.picture.svg import grids_svg
from smemsim.core.picture.table import Column, Table
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.shared_memory import BANKS, CHUNK, LINE
from smemsim.core.spec.smem_descriptor import REACH
from smemsim.core.spec.swizzles import MODES, SwizzleMode
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force, used_strides, weakest
from smemsim.core.words.smem import SmemDescriptor
from smemsim.diagnosis.filled import Filling
from smemsim.diagnosis.parts import part_name
from smemsim.diagnosis.reads import made_words, meant_places
from smemsim.diagnosis.scenario import AnyOperand
from smemsim.diagnosis.scenario_machine import FOREIGN, NAMES, UNWRITTEN, Issue, Machine, Seen
from smemsim.diagnosis.tensors import OUTSIDE, GlobalTensor

__all__ = [
    "Cell",
    "Held",
    "LeftOut",
    "Named",
    "Place",
    "TilePicture",
    "buffer_strips",
    "chunk_heads",
    "page_data",
    "shown_columns",
    "shown_lines",
    "shown_rows",
]


# ---- The content of shared memory where an operand read, and the meant content, by tensor names and axes


Named = tuple[str, tuple[int, ...]]  # a tensor and an index along each of its axes


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """The content of the chunks of a `TilePicture`. Arrays are (lines, chunk columns, elements of a chunk). They hold
    the global byte that was read, the intended one, the index of the issue that wrote it, and whether it is wrong.

    The place of the meant data at the end of the scenario is `lies` (lines, columns), -1 for nowhere.
    """

    tensor: GlobalTensor
    tensors: dict[str, GlobalTensor]
    axes: tuple[str, str]  # that of rows, that of K
    issues: list[Issue]
    got: np.ndarray
    meant: np.ndarray
    writer: np.ndarray
    wrong: np.ndarray
    row: np.ndarray
    k: np.ndarray
    lies: np.ndarray

    @classmethod
    def of(cls, machine: Machine, seen: Seen, tiled: Callable[[np.ndarray], np.ndarray]) -> Held:
        """The content for an operand of a scenario. `tiled` turns (blocks, steps, rows, k) into lines and columns."""
        read = seen.read
        row, k = (tiled(x) for x in meant_places(read.meaning, read.tensor, (read.words.shape[0], read.words.shape[1]), read.rows, read.k))
        meant, address = tiled(read.meant), tiled(seen.addresses)
        lies = address[..., 0]
        if seen.wrong.any():
            wrong = tiled(seen.wrong).any(axis=2)
            first = np.where(meant[..., 0] >= 0, meant[..., 0], UNWRITTEN)
            lies = np.where(wrong, np.where(first >= 0, machine.memory.locate(first), -1), lies)
        axes = read.meaning.axes
        return cls(read.tensor, machine.tensors, (axes[0], axes[1]), machine.issues, tiled(seen.got), meant, tiled(seen.writer), tiled(seen.wrong),
                   row, k, lies)  # fmt: skip

    @functools.cached_property
    def homes(self) -> dict[int, tuple[int, int]]:
        """The chunk that was meant to hold the data beginning with a global byte."""
        homes: dict[int, tuple[int, int]] = {}
        for place in np.ndindex(*self.lies.shape):
            value = int(self.meant[place][0])
            if value >= 0:
                homes.setdefault(value, (place[0], place[1]))
        return homes

    def meant_at(self, place: tuple[int, int], element: int = 0) -> Named:
        """The element that was meant."""
        at = {self.axes[0]: int(self.row[place][element]), self.axes[1]: int(self.k[place][element])}
        return self.tensor.name, tuple(at.get(axis, 0) for axis in self.tensor.extent)

    def got_at(self, place: tuple[int, int], element: int = 0) -> Named | int:
        """The element that was read, or why there is none (a key of NAMES)."""
        value = int(self.got[place][element])
        if value < 0:
            return value
        if value == int(self.meant[place][element]):
            return self.meant_at(place, element)
        owner = next((t for t in (self.tensor, *self.tensors.values()) if t.address <= value < t.end), None)
        if owner is None:
            return FOREIGN
        at = owner.index(value)
        inner = owner.contiguous
        if inner and owner.fmt.bits < 8 and owner.bit_stride(inner) < 8:  # two 4-bit elements share their byte
            at[inner] += element * element_format(owner.fmt).bits % 8 // owner.fmt.bits
        return owner.name, tuple(at[axis] for axis in owner.extent)

    def text(self, named: Named | int) -> str:
        """An element in words, as `A[m=64, k=0]`."""
        if isinstance(named, int):
            return NAMES[named]
        extent = self.tensors[named[0]].extent
        outside = not all(0 <= value < size for value, size in zip(named[1], extent.values(), strict=True))
        at = ", ".join(f"{axis}={value}" for axis, value in zip(extent, named[1], strict=True))
        return f"{named[0]}[{at}]" + " (outside the tensor)" * outside

    def short(self, named: Named | int) -> str:
        """The indices of an element along the axes of rows and of K, as `64,0`; the tensor's name stands before them
        where it is another one.
        """
        if isinstance(named, int):
            return {UNWRITTEN: "empty", OUTSIDE: "fill", FOREIGN: "foreign"}[named]
        at = dict(zip(self.tensors[named[0]].extent, named[1], strict=True))
        both = [str(at[axis]) for axis in self.axes if axis in at]
        if named[0] != self.tensor.name or len(both) != 2:
            return f"{named[0]} {','.join(map(str, named[1]))}"
        return ",".join(both)


# ---- An operand as 16-byte chunks, both ways: where in the tile a chunk belongs, and where in shared memory it lies


MOST_CHUNKS = 1 << 16  # of one picture
MOST_LINES = 48  # of shared memory that a picture shows

Place = tuple[int, int]  # line and chunk column of the tile


@dataclasses.dataclass(frozen=True)
class Cell:
    """16 bytes of shared memory. A cell has the chunks of the tile that read these bytes, the wrong ones of these
    chunks, and the chunk of their data (None: no chunk of this tile).
    """

    address: int
    readers: tuple[Place, ...]
    wrong: tuple[Place, ...]
    home: Place | None


def _adds(name: str, given: Any) -> int | tuple[int, ...]:
    """Bytes that are added to a start address: a number or several."""
    is_one = not isinstance(given, list | tuple | np.ndarray)
    adds = tuple([whole(name, number, wanted="whole numbers: bytes, as [0, 32]") for number in ([given] if is_one else given)])
    if not adds:
        raise InputError(f"{name}: needs at least one number of bytes, as {name} 0")
    for bytes_ in adds:
        if bytes_ % CHUNK or abs(bytes_) >= REACH:
            raise InputError(f"{name} = {bytes_}: needs a multiple of {CHUNK} below {REACH:#x}, as the start address has it")
    return adds[0] if is_one else adds


@dataclasses.dataclass(frozen=True, eq=False)
class TilePicture(metaclass=OwnMembers):
    """A picture of the bytes that the descriptors of one operand read: address and content of every 16-byte chunk.

    The tile has a line for each index along the strided axis: a row of a K-major operand, a K of an MN-major one. It
    has a column for each 16 bytes along the contiguous axis. All M or N blocks and K steps are in it. `address` has
    shape (lines, columns, elements of a chunk). It is -1 if no instruction reads the element. `held` is the content, if
    known.

    >>> from smemsim import TilePicture
    >>> tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16, k_add=[0, 32])
    >>> tile.address.shape, tile.address[1, :, 0].tolist(), tile.first((1, 2))
    ((64, 4, 8), [1168, 1152, 1200, 1184], (1, 16))
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "atoms", "chunks_of_one", "data", "of_seen", "part", "per_chunk", "picture", "places", "subtitle",
        "too_large",
    )  # fmt: skip

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

    def __repr__(self) -> str:
        return f"<TilePicture {self.title}, {self.arch}>"

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
        """The picture of a raw descriptor. `k_add` and `mn_add` are the bytes that K steps and blocks of M or N add
        to its start address.
        """
        d = SmemDescriptor.decode(word, arch=arch)
        fmt = element_format(dtype)
        made = made_words(AnyOperand(word=d.word, k_add=_adds("k_add", k_add), mn_add=_adds("mn_add", mn_add)), {}, Path.of("operand"))
        assert made is not None
        if made[0].size * rows * k > MOST_CHUNKS * fmt.elements_per_chunk(packing):
            raise InputError(f"{made[0].size} words of {rows} x {k} elements: a picture has at most {MOST_CHUNKS:,} chunks of 16 bytes")
        addresses = operand_addresses(made[0], arch=arch, dtype=fmt, major=major, rows=rows, k=k, packing=packing).astype(np.int64)
        if not addresses.size:
            raise InputError(f"rows = {rows}, k = {k}: no element to show; needs both from 1 on")
        return cls(made[0], d.arch, fmt.name, major, packing, rows, k, tiled(addresses, major, fmt.elements_per_chunk(packing)))

    @classmethod
    def of_seen(cls, machine: Machine, seen: Seen) -> TilePicture:
        """The picture of what an operand of a checked scenario read."""
        r = seen.read
        per_chunk = element_format(r.dtype).elements_per_chunk(r.packing)
        return cls(r.words, r.arch, element_format(r.dtype).name, r.major, r.packing, r.rows, r.k, tiled(seen.addresses, r.major, per_chunk),
                   str(r.where), r.title, Held.of(machine, seen, lambda x: tiled(x, r.major, per_chunk)))  # fmt: skip

    # ---- the descriptor

    @property
    def descriptor(self) -> SmemDescriptor:
        """The descriptor of the first K step of the first block."""
        return SmemDescriptor.decode(int(self.words[0, 0]), arch=self.arch)

    @property
    def mode(self) -> SwizzleMode:
        """The swizzle of the first descriptor."""
        return MODES[self.descriptor.swizzle]

    @property
    def atom_lines(self) -> int:
        """The number of 128-byte lines of a swizzle atom. Without a swizzle: of 8 rows of 16 bytes."""
        return max(self.mode.mask + 1, 1)

    @property
    def title(self) -> str:
        """The title of the picture: the operand, its type, its major-ness and its extents."""
        blocks, steps = self.words.shape
        times = f", {steps} K steps" * (steps > 1) + f", {blocks} row blocks" * (blocks > 1)
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
        """The evidence for the addresses."""
        machine = any_architecture(self.arch)
        k_bytes = -(-self.k // self.per_chunk) * CHUNK
        bits = max(element_format(self.dtype).bits, 4)
        rules = rules_in_force(self.descriptor, machine, major=self.major, k_bytes=k_bytes, bits=bits, packing=self.packing)
        told = "" if machine.measured else "; nothing is measured on Blackwell"
        return f"address rules on {self.arch}: {weakest(rules, machine)}{told}"

    def strides(self) -> list[Stride]:
        """SBO and LBO, and for each if the operand uses it."""
        d, strides = self.descriptor, list[Stride]()
        if d.lbo_mode:
            return strides
        used = used_strides(self.mode, self.major, self.rows, self.k, self.per_chunk)
        for name, field in (("SBO", "stride_byte_offset"), ("LBO", "leading_byte_offset")):
            value = getattr(d, field)
            begin, end = (swizzle(d.start_address + add, d.base_offset, self.mode.mask, self.mode.shift) for add in (0, value))
            strides.append(Stride(name, value, begin, end, used[field]))
        return strides

    # ---- the tile

    @property
    def per_chunk(self) -> int:
        """Elements in 16 bytes."""
        return int(self.address.shape[2])

    @property
    def shape(self) -> Place:
        """The numbers of lines and of columns."""
        return int(self.address.shape[0]), int(self.address.shape[1])

    @property
    def too_large(self) -> str:
        """Why it cannot be drawn; "" where it can."""
        chunks = self.shape[0] * self.shape[1]
        return f"{self.name}: {chunks:,} chunks of 16 bytes; a picture has at most {MOST_CHUNKS:,}" if chunks > MOST_CHUNKS else ""

    @property
    def axes(self) -> tuple[str, str]:
        """The names of the axis of the lines, and of the axis along a line."""
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

    def part(self, instruction: Place) -> str:
        """A (block, K step) in words."""
        return part_name(*instruction, *self.words.shape)

    def start(self, instruction: Place) -> int:
        """The start address in the descriptor of a (block, K step)."""
        return self.descriptor.table.fields["start_address"].value(int(self.words[instruction]))

    def first(self, place: Place, element: int = 0) -> Place:
        """(row, k) in the tile of an element of a chunk."""
        line, column = place
        along = self.k if self.major == "K" else self.rows
        inner = column // self.chunks_of_one * along + column % self.chunks_of_one * self.per_chunk + element
        return (line, inner) if self.major == "K" else (inner, line)

    def chunk_address(self, place: Place) -> int:
        """The shared address of a chunk."""
        return int(self.address[place[0], place[1], 0])

    def places(self) -> Iterator[Place]:
        """All chunks, line by line."""
        return iter(np.ndindex(*self.shape))

    def wrong_at(self, place: Place) -> int:
        """The number of elements of a chunk that are not those that were meant."""
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
        cells = {}
        for address, of in readers.items():
            home = homes.get(int(self.held.got[of[0]][0]))
            cells[address] = Cell(address, tuple(of), tuple(p for p in of if self.wrong_at(p)), home)
        for place in self.places():
            address = int(lies[place]) // CHUNK * CHUNK
            if lies[place] >= 0 and address not in cells:
                cells[address] = Cell(address, (), (), place)
        return dict(sorted(cells.items()))

    @functools.cached_property
    def lines(self) -> dict[int, list[Cell | None]]:
        """The cells by 128-byte line: eight each."""
        lines: dict[int, list[Cell | None]] = {}
        for cell in self.cells.values():
            lines.setdefault(cell.address // LINE, [None] * (LINE // CHUNK))[cell.address % LINE // CHUNK] = cell
        return lines

    def _repr_svg_(self) -> str:
        """In a notebook."""
        return grids_svg(self.picture())

    def picture(self, most: int = MOST_LINES, selected: Place | None = None) -> Picture:
        """The tile with the address of each chunk, and shared memory with its content. At most `most` 128-byte lines
        are drawn.

        The reads of the (block, K step) `selected` are marked. Default: that of the first wrong element, or the first
        one.
        """
        return _Drawing(self, most, selected).picture()

    def atoms(self) -> Picture:
        """The tile as its swizzle atoms, with what the instructions read and where the strides lead; InputError for
        more atoms than a picture has.
        """
        return _atoms(self)

    def data(self) -> dict[str, Any]:
        """Everything for a page's script, chunk by chunk along the lines of the tile. Lists have one entry for each
        chunk:

        - Key `address`: the address of the chunk.
        - Key `wrong`: a mask of elements in hex, 0 for none.
        - Key `lies`: the place of the intended data.
        - Key `home`: the place to which the data belongs that was read.
        - Key `meant`: the index along every axis of the tensor.
        - Key `writer`: an issue.
        - Key `got`: 1 as meant; a code of NAMES; [tensor, axis along which the elements follow, index along every
          axis]; or {"each": [...]}.
        """
        return _tile_data(self) | (_held_data(self, self.held) if self.held else {})


def tiled(array: np.ndarray, major: str, per_chunk: int) -> np.ndarray:
    """(blocks, steps, rows, k) as (lines, chunk columns, elements of a chunk); a last chunk that is not full is filled
    with -1.
    """
    order = (0, 2, 1, 3) if major == "K" else (1, 3, 0, 2)  # (.., lines of one, .., elements along one)
    turned = array.transpose(order)
    a, lines, b, along = turned.shape
    chunks = -(-along // per_chunk)
    fill = False if array.dtype == bool else -1
    padded = np.full((a, lines, b, chunks * per_chunk), fill, array.dtype)
    padded[..., :along] = turned
    return padded.reshape(a * lines, b * chunks, per_chunk)


# ---- Which lines of a large tile a picture shows: atoms that look like earlier ones are left out, and the gap says
# so


PLENTY = 16  # lines that are shown before atoms that look alike are left out
CHUNK_COLUMNS = 16  # chunk columns of the tile beside each other


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Lines that are left out between two that are shown; `count` of them hold something, and `alike` says whether all
    look like earlier ones.
    """

    first: int
    last: int
    count: int
    alike: bool


def shown_lines(tile: TilePicture, most: int) -> list[int | LeftOut]:
    """The 128-byte lines of shared memory to draw. All, if there are at most `most`. Else the atoms at the start, at
    the ends of LBO and SBO, at the first wrong read, and those that look different.

    >>> tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)
    >>> shown_lines(tile, 32)[-2:]
    [23, LeftOut(first=24, last=71, count=48, alike=True)]
    """
    size = tile.atom_lines
    if len(tile.lines) <= most:
        return _with_gaps(list(tile.lines), list(tile.lines), {})
    kept = {stride.end // LINE // size for stride in tile.strides() if stride.used} | {tile.chunk_address((0, 0)) // LINE // size}
    if tile.first_wrong:
        kept.add(tile.chunk_address(tile.first_wrong) // LINE // size)
    seen: set[Any] = set()
    taken: list[int] = []
    atoms: dict[int, list[int]] = {}
    for line in tile.lines:
        atoms.setdefault(line // size, []).append(line)
    alike = dict.fromkeys(tile.lines, False)
    ordered = sorted(atoms, key=lambda atom: (atom not in kept, atom))
    chosen: set[int] = set()
    for atom in ordered:
        look = _look(tile, atoms[atom], atom * size)
        repeated = look in seen
        seen.add(look)
        if atom not in kept and repeated and len(chosen) >= PLENTY:
            alike.update(dict.fromkeys(atoms[atom], True))
        elif len(chosen) + len(atoms[atom]) <= most or (atom in kept and len(chosen) < most):
            chosen.update(atoms[atom][: most - len(chosen)])
        else:
            alike.update(dict.fromkeys(atoms[atom], repeated))
    taken = sorted(chosen)
    return _with_gaps(taken, list(tile.lines), alike)


def _look(tile: TilePicture, lines: list[int], base: int) -> Any:
    """The look of an atom in a picture, without its place and rows."""
    cells = [(line - base, slot, cell) for line in lines for slot, cell in enumerate(tile.lines[line]) if cell]
    homes = [c.home for _, _, c in cells if c.home] or [(0, 0)]
    line0, column0 = min(h[0] for h in homes), min(h[1] for h in homes)
    return tuple((at, slot, c.home and (c.home[0] - line0, c.home[1] - column0), len(c.readers), bool(c.wrong)) for at, slot, c in cells)


def shown_rows(tile: TilePicture, lines: list[int | LeftOut], most: int) -> list[int | LeftOut]:
    """The lines of the tile, at most `most`, that have a chunk in one of the shown lines of shared memory."""
    shown = {line for line in lines if isinstance(line, int)}
    taken = [row for row in range(tile.shape[0]) if shown.intersection((tile.address[row, :, 0] // LINE).tolist())]
    if tile.first_wrong:
        taken.sort(key=lambda row: abs(row - tile.first_wrong[0]) > most // 2)  # type: ignore[index]
    taken = sorted(taken[:most])
    wrong = [tuple(bool(tile.wrong_at((row, column))) for column in range(tile.shape[1])) for row in range(tile.shape[0])]
    known = {wrong[row] for row in taken}
    return _with_gaps(taken, list(range(tile.shape[0])), {row: wrong[row] in known for row in range(tile.shape[0])})


def shown_columns(tile: TilePicture, most: int = CHUNK_COLUMNS) -> range:
    """The chunk columns of the tile to draw: the first ones, or those around the first wrong chunk."""
    begin = tile.first_wrong[1] // most * most if tile.first_wrong else 0
    return range(begin, min(begin + most, tile.shape[1]))


def _with_gaps(taken: list[int], there: list[int], alike: dict[int, bool]) -> list[int | LeftOut]:
    """Lines in order, with what stands between them; a jump of addresses at which nothing lies is a gap of 0."""
    lines: list[int | LeftOut] = []
    kept, out = set(taken), list[int]()
    previous = None
    for line in there:
        if line not in kept:
            out.append(line)
            continue
        if out:
            lines.append(LeftOut(out[0], out[-1], len(out), all(alike[x] for x in out)))
            out = []
        elif previous is not None and line != previous + 1:
            lines.append(LeftOut(previous + 1, line - 1, 0, True))
        lines.append(line)
        previous = line
    if out:
        lines.append(LeftOut(out[0], out[-1], len(out), all(alike[x] for x in out)))
    return lines


# ---- The picture: the tile beside shared memory


MOST_STEPS = 24  # instructions whose reads are listed


class _Drawing:
    """The cells, grids and legends that one picture shows of a tile."""

    def __init__(self, tile: TilePicture, most: int, selected: Place | None) -> None:
        self.tile = tile
        first = tile.instruction(tile.first_wrong) if tile.first_wrong else (0, 0)
        self.chosen = None if tile.words.size == 1 else selected or first  # one instruction reads everything
        self.lines = shown_lines(tile, most)
        self.rows = shown_rows(tile, self.lines, most)
        self.columns = shown_columns(tile)

    def picture(self) -> Picture:
        """The whole picture; its last grid is shared memory."""
        tile, held = self.tile, self.tile.held
        if tile.too_large:
            return Picture(tile.title, (tile.too_large,), "")
        alarm = ""
        if held and held.wrong.any():
            alarm = f"{int(held.wrong.sum()):,} of {int((held.k >= 0).sum()):,} elements wrong"
        names = [str(i) for i in range(min(8, tile.shape[1]))]
        names[-1] += f"  chunk column{' mod 8' if tile.shape[1] > 8 else ''} before swizzling"
        rows = f", 8 x {tile.mode.width} B" if tile.major == "K" else ""
        return Picture(
            tile.title, (tile.subtitle,), tile.grade, (self.tile_grid(), self.memory_grid()), colours=tuple(names), legend=self.legend(),
            cell=f"{','.join(self.axes)} {'of what lies there' if held else 'that is read there'}", strides=tuple(tile.strides()), alarm=alarm,
            outlined=f"grey outlines are swizzle atoms of {tile.atom_lines * LINE} B{rows}", table=_steps(tile), more=_more(tile), notes=_aliases(tile),
        )  # fmt: skip

    @property
    def axes(self) -> tuple[str, str]:
        """Names of rows and of K."""
        return self.tile.held.axes if self.tile.held else ("row", "k")

    def legend(self) -> tuple[Legend, ...]:
        """The marks that occur in the shown lines, and what they mean."""
        shown = [cell for line in self.lines if isinstance(line, int) for cell in self.tile.lines[line]]
        cells = [cell for cell in shown if cell]
        entries = [Legend(f"{self.tile.part(self.chosen)} reads it", mark=Mark.CHOSEN)] if self.chosen else []
        if any(c.wrong for c in cells):
            entries.append(Legend("wrong", colour(3), Mark.WRONG, below="← what is read, ≠ what is needed"))
        if any(len(c.readers) > 1 for c in cells) and not self.tile.held:
            entries.append(Legend("read for several chunks", colour(3), Mark.SHARED))
        if any(c.readers and c.home is None for c in cells):
            entries.append(Legend("no data of this tile", STRAY))
        if any(not c.readers for c in cells):
            entries.append(Legend("meant, but read nowhere", EMPTY, Mark.MISSED))
        return (*entries, Legend("not read", EMPTY, Mark.NOTHING)) if None in shown else tuple(entries)

    # ---- shared memory

    def memory_grid(self) -> Grid:
        """Shared memory: what lies where."""
        tile, size = self.tile, self.tile.atom_lines
        rows: list[Row | Gap] = []
        for line in self.lines:
            if not isinstance(line, int):
                how = f"{line.count} lines {'like those shown' if line.alike else 'left out'}"
                rows.append(Gap(f"{how}: {line.first * LINE:#x} to {line.last * LINE + LINE - 1:#x}" if line.count else ""))
                continue
            cells = tuple(self.memory_cell(cell, line * LINE + slot * CHUNK) for slot, cell in enumerate(tile.lines[line]))
            phase = str((line - tile.descriptor.base_offset) % size) if tile.mode.mask else ""
            rows.append(Row(line, f"{line * LINE:#x}", cells, phase))
        atoms = dict.fromkeys(line // size for line in self.lines if isinstance(line, int))
        outlines = tuple(Outline("atom", atom * size, (atom + 1) * size, 0, LINE // CHUNK) for atom in atoms)
        after = ("line of", "pattern") if tile.mode.mask else ()
        return Grid(f"shared memory: what lies where, as {','.join(self.axes)}", chunk_heads(), tuple(rows), after=after, outlines=outlines)

    def memory_cell(self, cell: Cell | None, address: int) -> Drawn:
        """16 bytes of shared memory."""
        tile, held = self.tile, self.tile.held
        if cell is None:
            return Drawn("", EMPTY, frozenset({Mark.NOTHING}), hint=f"{address:#x}: not read", address=address)
        sentence = _told(tile, cell)
        if held and cell.home and not cell.readers:
            return Drawn(held.short(held.meant_at(cell.home)), EMPTY, frozenset({Mark.MISSED}), hint=sentence, address=address)
        place = (cell.wrong or cell.readers)[0]
        label, below, marks = ",".join(map(str, tile.first(place))), "", set[Mark]()
        if held:
            at = int(held.wrong[place].argmax())
            label = held.short(held.got_at(place, at))
            below = f"≠ {held.short(held.meant_at(place, at))}" if cell.wrong else ""
        marks |= {Mark.WRONG} if cell.wrong else {Mark.SHARED} if len(cell.readers) > 1 and not held else set()
        marks |= {Mark.CHOSEN} if any(tile.instruction(p) == self.chosen for p in cell.readers) else set()
        fill = STRAY if cell.home is None else colour(cell.home[1])
        names = {"address": str(address), "readers": " ".join(f"{r},{k}" for r, k in map(tile.first, cell.readers))}
        return Drawn(label, fill, frozenset(marks), below, hint=sentence, address=address, data=names)

    # ---- the tile

    def tile_grid(self) -> Grid:
        """The tile: where every chunk is read."""
        tile, columns = self.tile, self.columns
        down, along = tile.axes
        rows: list[Row | Gap] = []
        for row in self.rows:
            if isinstance(row, int):
                rows.append(Row(row, str(self.row_name(row)), tuple(self.tile_cell((row, column)) for column in columns)))
            else:
                how = f"{'like those shown' if row.alike else 'left out'}: {down} {self.row_name(row.first)} to {self.row_name(row.last)}"
                rows.append(Gap(how if row.count else ""))
        rest = tile.shape[1] - len(columns)
        outlines = (*self.outlines("atom"), *(self.outlines("mma") if self.chosen else ()))
        return Grid(
            f"tile ({down} ↓, {along} →): read where", tuple((str(self.column_name(column)),) for column in columns), tuple(rows), down,
            outlines=outlines, note=f"chunk columns {columns.start} to {columns.stop - 1}; {rest} not shown" if rest else "",
        )  # fmt: skip

    def tile_cell(self, place: Place) -> Drawn:
        """A chunk of the tile."""
        tile, held = self.tile, self.tile.held
        address = tile.chunk_address(place)
        marks, below, base = frozenset[Mark](), "", address // CHUNK * CHUNK
        if held and tile.wrong_at(place):
            marks, below = frozenset({Mark.WRONG}), f"← {held.short(held.got_at(place, int(held.wrong[place].argmax())))}"
        return Drawn(f"{address:#x}", colour(place[1]), marks, below, hint=_told(tile, tile.cells[base]), address=base)

    def row_name(self, line: int) -> int:
        """The index of a line of the tile."""
        tile = self.tile
        return int((tile.held.row if tile.major == "K" else tile.held.k)[line, 0, 0]) if tile.held else line

    def column_name(self, column: int) -> int:
        """The index at which a chunk column begins."""
        tile, held = self.tile, self.tile.held
        row, k = (int(held.row[0, column][0]), int(held.k[0, column][0])) if held else tile.first((0, column))
        return k if tile.major == "K" else row

    def outlines(self, kind: str) -> Iterator[Outline]:
        """Swizzle atoms, or what one MMA reads: the chosen one thick."""
        tile, first, last = self.tile, self.columns.start, self.columns.stop
        lines, across = (8 if tile.major == "K" else tile.mode.k_rows), tile.mode.chunks
        if kind == "mma":
            lines, across = (tile.rows if tile.major == "K" else tile.k), tile.chunks_of_one
        labelled = kind == "mma" and len(self.columns) == tile.shape[1] > across
        for row in dict.fromkeys(line // lines for line in self.rows if isinstance(line, int)):
            for column in range(first // across, -(-last // across)):
                mine = ((row, column) if tile.major == "K" else (column, row)) == self.chosen
                label = f"{'K step' if tile.major == 'K' else 'block'} {column}" if labelled else ""
                left, right = max(column * across, first) - first, min((column + 1) * across, last) - first
                yield Outline(kind if mine or kind == "atom" else "mma one", row * lines, (row + 1) * lines, left, right, label)


def chunk_heads() -> tuple[tuple[str, str], ...]:
    """Above the eight chunks of a line: the offset, and the banks."""
    offsets = range(0, LINE, CHUNK)
    return tuple((f"+{at:#04x}", f"b {BANKS.of(at)}-{BANKS.of(at + CHUNK - 1)}") for at in offsets)


def _told(tile: TilePicture, cell: Cell) -> str:
    """The contents and the place of 16 bytes of shared memory, as one sentence."""
    a = cell.address
    sentences = [f"{a:#x}: chunk {a % LINE // CHUNK} of line {a // LINE * LINE:#x}, banks {BANKS.of(a)} to {BANKS.of(a + CHUNK - 1)}"]
    held = tile.held
    if held is None:
        row, k = tile.first(cell.readers[0])
        sentences.append(f"row {row}, k {k}" + (f" and {len(cell.readers) - 1} more chunks" if len(cell.readers) > 1 else ""))
        return "; ".join(sentences)
    if not cell.readers:
        assert cell.home is not None
        return "; ".join([*sentences, f"holds {held.text(held.meant_at(cell.home))}, which is read elsewhere"])
    place = cell.wrong[0] if cell.wrong else cell.readers[0]
    at = next((i for i, wrong in enumerate(held.wrong[place]) if wrong), 0)
    sentences.append(f"holds {held.text(held.got_at(place, at))}")
    sentences.append(
        f"read by {tile.part(tile.instruction(place))}" + (f", which needs {held.text(held.meant_at(place, at))}" if cell.wrong else "")
    )
    if len(cell.readers) > 1:
        sentences.append(f"{len(cell.readers)} chunks of the tile read it")
    if cell.wrong:
        lies = int(held.lies[place])
        sentences.append(f"what it needs is at {lies:#x}" if lies >= 0 else "what it needs is nowhere in shared memory")
    writer = int(held.writer[place][at])
    if writer >= 0:
        sentences.append(f"written by step[{held.issues[writer].step}]: {held.issues[writer].text}")
    return "; ".join(sentences)


def _aliases(tile: TilePicture) -> tuple[str, ...]:
    """How many chunks of the tile share their bytes with an earlier one."""
    count = tile.shape[0] * tile.shape[1] - len(tile.cells)
    return (f"{count} chunks lie on top of others",) if count and not tile.held else ()


def _more(tile: TilePicture) -> tuple[str, ...]:
    """The lines below the table of instructions."""
    count = tile.words.size
    if not tile.held and count == 1:
        return ("no intended tile is given",)
    return (f"and {count - MOST_STEPS} more instructions",) if count > MOST_STEPS else ()


def _steps(tile: TilePicture) -> Table | None:
    """A row for each instruction: its start, how much of it is wrong, and the first wrong element."""
    if not tile.held and tile.words.size == 1:
        return None
    reads: dict[Place, list[Place]] = {}
    for place in tile.places():
        reads.setdefault(tile.instruction(place), []).append(place)
    # wrong ones must not be cut off
    ordered = sorted(reads, key=lambda x: (not any(tile.wrong_at(p) for p in reads[x]), x))[:MOST_STEPS]
    columns = [Column("block", right=True), Column("K step", right=True), Column("start", 9, right=True)]
    rows = []
    for block, step in sorted(ordered):
        cells = [str(block), str(step), f"{tile.start((block, step)):#x}"]
        if tile.held is not None:
            wrong = [p for p in reads[block, step] if tile.wrong_at(p)]
            count = sum(map(tile.wrong_at, wrong))
            cells += [f"{count} of {tile.rows * tile.k}" if count else "none", _wrong(tile, min(wrong, key=tile.first)) if wrong else ""]
        rows.append(tuple(cells))
    columns += [Column("wrong elements", 16), Column("first wrong")] if tile.held else []
    return Table(tuple(columns), tuple(rows))


def _wrong(tile: TilePicture, place: Place) -> str:
    """A sentence on what is read at a place, and what was meant."""
    held = tile.held
    assert held is not None
    at = int(held.wrong[place].argmax())
    return f"{held.text(held.got_at(place, at))} at {int(tile.address[place][at]):#x}, meant {held.text(held.meant_at(place, at))}"


# ---- The tile as its swizzle atoms: in which order they lie in shared memory, where LBO and SBO lead,
# and what each instruction reads


MOST_ATOMS = 1024


def _atoms(tile: TilePicture) -> Picture:
    lines, chunks = (8 if tile.major == "K" else tile.mode.k_rows), tile.mode.chunks
    size, along = tile.atom_lines * LINE, chunks * tile.per_chunk
    rows, k = (lines, along) if tile.major == "K" else (along, lines)  # elements of an atom
    bases, whole = dict[Place, int](), dict[Place, bool]()
    for line, column in tile.places():
        at = (line // lines, column // chunks)
        place = at if tile.major == "K" else (at[1], at[0])
        base = tile.chunk_address((line, column)) // size * size
        whole[place] = bases.setdefault(place, base) == base and whole.get(place, True)
    if len(bases) > MOST_ATOMS:
        raise InputError(f"{tile.name}: {len(bases):,} swizzle atoms; a picture has at most {MOST_ATOMS:,}")
    ordered = {base: number for number, base in enumerate(sorted(set(bases.values())))}
    down, right = (max(p[i] for p in bases) + 1 for i in (0, 1))

    def cell(place: Place) -> Drawn:
        base = bases[place]
        hint = f"atom {ordered[base]}: {base:#x} to {base + size - 1:#x}"
        label = str(ordered[base]) if whole[place] else "·"
        return Drawn(label, colour(ordered[base]), hint=hint, address=base, bytes=size)

    grid_rows = tuple(Row(i, str(i * rows), tuple(cell((i, j)) for j in range(right))) for i in range(down))
    names = tile.held.axes if tile.held else ("M / N", "K")
    outlines = tuple(_reads_of_atoms(tile, rows, k))
    grid = Grid(f"{names[1]} →", tuple((str(j * k),) for j in range(right)), grid_rows, f"{names[0]} ↓", outlines=outlines)
    told = (f"coloured boxes are swizzle atoms of {rows} x {k} elements, {size} B, numbered as they lie in shared memory; "
            "violet outlines are instructions, with what their start address adds to the first")  # fmt: skip
    return Picture(tile.title, (tile.subtitle,), tile.grade, (grid,), strides=tuple(tile.strides()), outlined=told, boxes=True)


def _reads_of_atoms(tile: TilePicture, rows: int, k: int) -> Iterator[Outline]:
    """The reads of each instruction, in atoms of rows x k elements, with the distance of its start from the first."""
    blocks, steps = tile.words.shape
    for block, step in itertools.product(range(blocks), range(steps)):
        past = tile.start((block, step)) - tile.start((0, 0))
        label = "" if blocks * steps == 1 else f"{past:+,}" if past else "start"
        yield Outline("mma", block * tile.rows / rows, (block + 1) * tile.rows / rows, step * tile.k / k, (step + 1) * tile.k / k, label)


# ---- What a page knows of operands, compact: a number or two for each chunk, and the names to make sentences of them


UNTOUCHED = "nothing"


def step_name(step: int, names: Mapping[int, str]) -> str:
    """The name of a step on a page: its own, else its place in the scenario's list, from 0 on.

    >>> step_name(2, {}), step_name(2, {2: "kernel.ptx:303"})
    ('step[2]', 'kernel.ptx:303')
    """
    return names.get(step) or f"step[{step}]"


def page_data(machine: Machine, tiles: Sequence[TilePicture], names: Mapping[int, str] = {}, unfilled: str = UNTOUCHED) -> dict[str, Any]:
    """The data of a tile for the script of a page. Names of its steps are `names`. The text for bytes that no step
    wrote is `unfilled`.
    """
    return {
        "unwritten": unfilled,
        "tensors": [{"name": t.name, "axes": list(t.extent), "extent": list(t.extent.values())} for t in machine.tensors.values()],
        "issues": [_issued(issue, names) for issue in machine.issues],
        "names": {str(code): text for code, text in NAMES.items()},
        "banks": [BANKS.count, BANKS.width],
        "operands": [tile.data() for tile in tiles],
    }


def _tile_data(tile: TilePicture) -> dict[str, Any]:
    """The tile's names, words and addresses for the script of a page."""
    lines, columns = tile.shape
    offsets = next(
        (tile.address[p] - tile.address[p][0] for p in tile.places() if tile.address[p].min() >= 0),
        tile.address[0, 0] - tile.address[0, 0, 0],
    )
    data: dict[str, Any] = {
        "where": tile.where, "name": tile.name, "title": tile.title, "subtitle": tile.subtitle, "grade": tile.grade,
        "dtype": tile.dtype, "major": tile.major, "rows": tile.rows, "k": tile.k, "axes": list(tile.axes), "lines": lines, "columns": columns,
        "blocks": tile.words.shape[0], "steps": tile.words.shape[1], "one": tile.chunks_of_one, "atom": tile.atom_lines,
        "words": [[f"{int(word):#018x}" for word in row] for row in tile.words], "offsets": [int(x) for x in offsets],
        "strides": [[s.name, s.bytes, s.begin, s.end, s.used] for s in tile.strides()], "address": tile.address[..., 0].ravel().tolist(),
    }  # fmt: skip
    partial = {i: int((tile.address[p] >= 0).sum()) for i, p in enumerate(tile.places()) if tile.address[p].min() < 0}
    return data | ({"partial": partial} if partial else {})


def _held_data(tile: TilePicture, held: Held) -> dict[str, Any]:
    """The contents of the tile's chunks for the script of a page."""
    names = list(held.tensors)
    inner = list(held.tensor.extent).index(held.axes[1] if tile.major == "K" else held.axes[0])
    home = [held.homes.get(int(held.got[p][0])) for p in tile.places()]
    return {
        "tensor": names.index(held.tensor.name),
        "inner": inner,
        "shown": [list(held.tensor.extent).index(axis) for axis in held.axes],
        "wrong": [_mask(held.wrong[p]) for p in tile.places()],
        "lies": held.lies.ravel().tolist(),
        "home": [-1 if place is None else place[0] * tile.shape[1] + place[1] for place in home],
        "meant": [list(held.meant_at(p)[1]) for p in tile.places()],
        "got": [_got(held, p, names) for p in tile.places()],
        "writer": held.writer[..., 0].ravel().tolist(),
    }


def _mask(wrong: np.ndarray) -> int | str:
    value = sum(1 << i for i, one in enumerate(wrong) if one)
    return f"{value:x}" if value else 0


def _got(held: Held, place: Place, names: list[str]) -> Any:
    """The elements of a chunk: as meant, one run along an axis, or each alone."""
    count = int((held.k[place] >= 0).sum())
    if (held.got[place] == held.meant[place])[:count].all() and (held.meant[place][:count] >= 0).all():
        return 1
    each = [held.got_at(place, i) for i in range(count)]
    first = each[0]
    if isinstance(first, int):
        if all(one == first for one in each):
            return first
    else:
        for axis in range(len(first[1])):
            run = [(first[0], tuple(x + i * (j == axis) for j, x in enumerate(first[1]))) for i in range(count)]
            if run == each:
                return [names.index(first[0]), axis, *first[1]]
    return {"each": [one if isinstance(one, int) else [names.index(one[0]), *one[1]] for one in each]}


# ---- The buffers: which issue filled which range of each


BAND_HEADS = ("range", "bytes", "written last by")
LAUNCH_HEADS = ("range", "bytes", "filled by")


def buffer_strips(
    machine: Machine, names: Mapping[int, str] = {}, unfilled: str = UNTOUCHED, filled: Filling | None = None
) -> tuple[Strip, ...]:
    """The buffers in the order of their addresses: the place of each, and the last writer of its bytes. A part that no
    step filled has an empty band, with `unfilled` as its text.

    A band has a range, its bytes, and their writer. All copies of a launch into a range are returned by `filled`. The
    steps of its scenario are only some of them.
    """
    heads = BAND_HEADS if filled is None else LAUNCH_HEADS
    ordered = sorted(machine.buffers.values(), key=lambda b: b.address)
    strips = []
    for buffer, after in zip(ordered, [*(b.address for b in ordered), REACH][1:], strict=True):
        end = buffer.address + buffer.bytes if buffer.bytes else after
        writer = machine.memory.of(np.arange(buffer.address, min(end, REACH)))[0].astype(np.int64) - 1
        if not buffer.bytes:
            written = np.flatnonzero(writer >= 0)
            writer = writer[: -(-(int(written[-1]) + 1) // CHUNK) * CHUNK if len(written) else 0]
        cuts = {0, *(np.flatnonzero(np.diff(writer)) + 1).tolist(), len(writer)} if len(writer) else set()
        cuts |= {at - buffer.address for at in (filled.bounds if filled else ()) if 0 < at - buffer.address < len(writer)}
        runs = [(buffer.address + a, buffer.address + b, int(writer[a])) for a, b in itertools.pairwise(sorted(cuts))]
        end = buffer.address + len(writer)
        bands = tuple(_band(machine, names, *run, unfilled, filled) for run in runs)
        strips.append(Strip(buffer.name, buffer.address, end, bands, heads, f"{buffer.address:#x}, {len(writer):,} B", empty=unfilled))
    return tuple(strips)


def _issued(issue: Issue, names: Mapping[int, str]) -> str:
    """The action of a step, with its place."""
    return f"{issue.text} ({step_name(issue.step, names)})"


def _band(machine: Machine, names: Mapping[int, str], begin: int, end: int, issue: int, empty: str, filled: Filling | None) -> Band:
    """Bytes that one issue filled, or none."""
    written = machine.issues[issue] if issue >= 0 else None
    told = (filled.by(begin, end) if filled else "") or (_issued(written, names) if written else empty)
    fill = colour(max(issue, 0)) if written or told != empty else ""
    return Band(begin, end, fill, "", (f"{begin:#x} to {end - 1:#x}", f"{end - begin:,} B", told))
