"""The picture of a tile: what lies where, who wrote it, who reads it; in a terminal."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from smemsim.errors import InputError
from smemsim.finding import Path
from smemsim.judge.reads import Seen, made_words, meant_places
from smemsim.judge.report import Report
from smemsim.judge.state import FOREIGN, NAMES, UNWRITTEN, Issue, Machine
from smemsim.judge.tensors import OUTSIDE, Tensor
from smemsim.layout.swizzle import swizzle
from smemsim.show.operand import COLOURS
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import element_format
from smemsim.spec.shared_memory import CHUNK, LINE
from smemsim.spec.swizzles import MODES, SwizzleMode
from smemsim.words.operand import operand_addresses
from smemsim.words.operand_layout import rules_in_force, used_strides, weakest
from smemsim.words.smem import SmemDescriptor

__all__ = [
    "Cell",
    "Gap",
    "Held",
    "Named",
    "Place",
    "Stride",
    "TilePicture",
    "report_view",
    "shown_columns",
    "shown_lines",
    "shown_rows",
    "tile_view",
]


# ---- What lay in shared memory where an operand read, and what was meant to lie there, by the names of tensors and their axes


Named = tuple[str, tuple[int, ...]]  # a tensor and an index along each of its axes


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """Arrays are (lines, chunk columns, elements of a chunk) of a `TilePicture`: the global byte that was read and the one that was meant, the index of the issue
    that had written it, and is it wrong? `lies` (lines, columns) is where the meant data lies when the scenario ends, -1 for nowhere."""

    tensor: Tensor
    tensors: dict[str, Tensor]
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
        """Of an operand of a scenario; `tiled` brings (blocks, steps, rows, k) into lines and columns."""
        read = seen.read
        row, k = (tiled(x) for x in meant_places(read.raw, read.tensor, (read.words.shape[0], read.words.shape[1]), read.rows, read.k))
        meant, address = tiled(read.meant), tiled(seen.addresses)
        lies = address[..., 0]
        if seen.wrong.any():
            wrong = tiled(seen.wrong).any(axis=2)
            first = np.where(meant[..., 0] >= 0, meant[..., 0], UNWRITTEN)
            lies = np.where(wrong, np.where(first >= 0, machine.memory.locate(first), -1), lies)
        axes = read.raw["meant"]["axes"]
        return cls(read.tensor, machine.tensors, (axes[0], axes[1]), machine.issues, tiled(seen.got), meant, tiled(seen.writer), tiled(seen.wrong),
                   row, k, lies)  # fmt: skip

    @functools.cached_property
    def homes(self) -> dict[int, tuple[int, int]]:
        """The chunk that was meant to hold the data beginning with a global byte."""
        found: dict[int, tuple[int, int]] = {}
        for place in np.ndindex(*self.lies.shape):
            value = int(self.meant[place][0])
            if value >= 0:
                found.setdefault(value, (place[0], place[1]))
        return found

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
        """As `A[m=64, k=0]`."""
        if isinstance(named, int):
            return NAMES[named]
        extent = self.tensors[named[0]].extent
        outside = not all(0 <= value < size for value, size in zip(named[1], extent.values(), strict=True))
        at = ", ".join(f"{axis}={value}" for axis, value in zip(extent, named[1], strict=True))
        return f"{named[0]}[{at}]" + " (outside the tensor)" * outside

    def short(self, named: Named | int) -> str:
        """As `64,0`: the indices along the axes of rows and of K; with its tensor where that is another."""
        if isinstance(named, int):
            return {UNWRITTEN: "empty", OUTSIDE: "fill", FOREIGN: "foreign"}[named]
        at = dict(zip(self.tensors[named[0]].extent, named[1], strict=True))
        both = [str(at[axis]) for axis in self.axes if axis in at]
        if named[0] != self.tensor.name or len(both) != 2:
            return f"{named[0]} {','.join(map(str, named[1]))}"
        return ",".join(both)


# ---- An operand as 16-byte chunks, both ways: where in the tile a chunk belongs, and where in shared memory it lies


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
        made = made_words({"word": d.word, "k_add": k_add, "mn_add": mn_add}, {}, Path.of("operand"))
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
                   str(r.where), r.title, Held.of(machine, seen, lambda x: tiled(x, r.major, per_chunk)))  # fmt: skip

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


# ---- Which lines of a large tile a picture shows: an atom that looks like earlier ones is left out, and the gap says so


PLENTY = 16  # lines that are shown before atoms that look alike are left out
CHUNK_COLUMNS = 16  # chunk columns of the tile beside each other


@dataclasses.dataclass(frozen=True)
class Gap:
    """Lines that are left out between two that are shown; `count` of them hold something, and `alike` says whether all look like earlier ones."""

    first: int
    last: int
    count: int
    alike: bool


def shown_lines(tile: TilePicture, most: int) -> list[int | Gap]:
    """The 128-byte lines of shared memory to draw: all where there are at most `most`; else the atoms of the start, of LBO's and SBO's ends and of the first wrong read,
    and those that look like no earlier one.

    >>> tile = TilePicture.of(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)
    >>> shown_lines(tile, 32)[-2:]
    [23, Gap(first=24, last=71, count=48, alike=True)]
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
    """What an atom looks like, wherever it lies and whichever rows it holds."""
    cells = [(line - base, slot, cell) for line in lines for slot, cell in enumerate(tile.lines[line]) if cell]
    homes = [c.home for _, _, c in cells if c.home] or [(0, 0)]
    line0, column0 = min(h[0] for h in homes), min(h[1] for h in homes)
    return tuple((at, slot, c.home and (c.home[0] - line0, c.home[1] - column0), len(c.readers), bool(c.wrong)) for at, slot, c in cells)


def shown_rows(tile: TilePicture, lines: list[int | Gap], most: int) -> list[int | Gap]:
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


def _with_gaps(taken: list[int], there: list[int], alike: dict[int, bool]) -> list[int | Gap]:
    """Lines in order, with what stands between them; a jump of addresses at which nothing lies is a gap of 0."""
    found: list[int | Gap] = []
    kept, out = set(taken), list[int]()
    previous = None
    for line in there:
        if line not in kept:
            out.append(line)
            continue
        if out:
            found.append(Gap(out[0], out[-1], len(out), all(alike[x] for x in out)))
            out = []
        elif previous is not None and line != previous + 1:
            found.append(Gap(previous + 1, line - 1, 0, True))
        found.append(line)
        previous = line
    if out:
        found.append(Gap(out[0], out[-1], len(out), all(alike[x] for x in out)))
    return found


# ---- An operand, and a checked scenario, in the terminal: at most 100 columns, and nothing said by colour alone


TEXT_COLUMNS, MOST_STEPS = 100, 24


def _label(tile: TilePicture, cell: Cell | None) -> str:
    """What lies in 16 bytes, behind a mark."""
    if cell is None:
        return "·"
    held = tile.held
    if not cell.readers:
        assert held is not None
        assert cell.home is not None
        return f"({held.short(held.meant_at(cell.home))})"
    place = (cell.wrong or cell.readers)[0]
    if held is None:
        return ("&" if len(cell.readers) > 1 else "") + ",".join(map(str, tile.first(place)))
    at = int(held.wrong[place].argmax())
    return ("!" if cell.wrong else "") + held.short(held.got_at(place, at))


def tile_view(tile: TilePicture, most: int, selected: Place | None = None) -> RenderableType:
    """The picture of one operand, at most `most` 128-byte lines, and a table of what each instruction reads."""
    if tile.too_large:
        return Group(Text(tile.title, "bold"), Text(tile.too_large))
    chosen = selected or (tile.instruction(tile.first_wrong) if tile.first_wrong else (0, 0))
    entries = shown_lines(tile, most)
    labels = {line: [_label(tile, cell) for cell in tile.lines[line]] for line in entries if isinstance(line, int)}
    wide = min(max(len(label) for row in labels.values() for label in row) + 2, (TEXT_COLUMNS - 10) // 8)
    grid = Text(no_wrap=True, overflow="crop")
    grid.append(" " * 9 + "".join(f"{f'+{CHUNK * i:#04x}':^{wide}}" for i in range(LINE // CHUNK)) + "\n", "dim")
    for entry in entries:
        if isinstance(entry, Gap):
            span = f"{entry.count} lines {'like those shown' if entry.alike else 'left out'}: {entry.first * LINE:#x} to {entry.last * LINE + LINE - 1:#x}"
            grid.append(f"{'...':>7}  {span if entry.count else ''}".rstrip() + "\n", "dim")
            continue
        grid.append(f"{entry * LINE:#7x}  ", "dim")
        for cell, label in zip(tile.lines[entry], labels[entry], strict=True):
            mine = cell is not None and any(tile.instruction(p) == chosen for p in cell.readers)
            text = f"[{label[: wide - 2]}]" if mine else label[:wide]
            grid.append(f"{text:^{wide}}", _style(cell))
        grid.append("\n")
    grid.rstrip()
    return Group(
        Text(tile.title, "bold"),
        Text(tile.subtitle),
        grid,
        Text(_legend(tile, chosen), "dim"),
        _strides(tile),
        _steps(tile),
        Text(tile.grade, "dim"),
    )


def _style(cell: Cell | None) -> str:
    if cell is None or not cell.readers:
        return "dim"
    if cell.wrong:
        return "bold white on #a40e26"
    return "black on #d5d8dc" if cell.home is None else f"black on {COLOURS[cell.home[1] % 8]}"


def _legend(tile: TilePicture, chosen: Place) -> str:
    """What the marks mean, of those that occur."""
    cells = list(tile.cells.values())
    rows, k = tile.held.axes if tile.held else ("row", "k")
    told = [
        f"{rows},{k} of what lies there" if tile.held else f"{rows},{k} that is read there",
        f"[ ] block {chosen[0]}, K step {chosen[1]} reads it",
    ]
    told += ["! other than was meant"] * any(c.wrong for c in cells)
    told += ["( ) meant, but read nowhere"] * any(not c.readers for c in cells)
    told += ["& read for several chunks"] * (not tile.held and any(len(c.readers) > 1 for c in cells))
    return _wrapped(f"each cell is 16 bytes: {'; '.join([*told, '· not read'])}")


def _wrapped(sentence: str) -> str:
    return "\n".join(textwrap.wrap(sentence, TEXT_COLUMNS, subsequent_indent="  "))


def _strides(tile: TilePicture) -> Text:
    """Where SBO and LBO lead."""
    told = [f"{s.name} {s.bytes} B: {s.begin:#x} -> {s.end:#x}" if s.used else f"{s.name} {s.bytes} B: not used" for s in tile.strides()]
    return Text("; ".join(told))


def _steps(tile: TilePicture) -> Text:
    """A line for each instruction: its start, how much of it is wrong, and the first wrong element. Those that are alike are told once."""
    blocks, steps = tile.words.shape
    rows: dict[Place, list[Place]] = {}
    for place in tile.places():
        rows.setdefault(tile.instruction(place), []).append(place)
    if not tile.held and blocks * steps == 1:
        return Text("nothing is said of what was meant")
    lines = [
        f"{'block':>5} {'K step':>6} {'start':>9}  {'wrong elements' if tile.held else '':<17} {'first wrong' if tile.held else ''}".rstrip()
    ]
    ordered = sorted(rows, key=lambda x: (not any(tile.wrong_at(p) for p in rows[x]), x))[:MOST_STEPS]  # wrong ones must not be cut off
    for block, step in sorted(ordered):
        places = rows[block, step]
        line = f"{block:>5} {step:>6} {tile.start((block, step)):>#9x}  "
        if tile.held is not None:
            count = sum(tile.wrong_at(p) for p in places)
            line += f"{f'{count} of {tile.rows * tile.k}' if count else 'none':<17} "
            first = min((p for p in places if tile.wrong_at(p)), key=tile.first, default=None)
            line += _wrong(tile, first) if first else ""
        lines.append(line.rstrip())
    if blocks * steps > MOST_STEPS:
        lines.append(f"and {blocks * steps - MOST_STEPS} more instructions")
    return Text("\n".join(lines))


def _wrong(tile: TilePicture, place: Place) -> str:
    """What arrives where, and what was meant."""
    held = tile.held
    assert held is not None
    at = int(held.wrong[place].argmax())
    return f"{held.text(held.got_at(place, at))} at {int(tile.address[place][at]):#x}, meant {held.text(held.meant_at(place, at))}"


def report_view(report: Report, tiles: list[TilePicture], most: int, selected: Sequence[Place | None] = ()) -> RenderableType:
    """Findings, then every operand; `selected` are the (block, K step) to mark."""
    parts: list[RenderableType] = [Text(report.title, "bold")] if report.title else []
    parts.append(Text("\n".join(_wrapped(line) for line in report.text().splitlines())))
    for tile, chosen in zip(tiles, selected or [None] * len(tiles), strict=True):
        parts += [Text(""), tile_view(tile, most, chosen)]
    return Group(*parts)
