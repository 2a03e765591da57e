"""A transfer: which byte goes where."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
from collections.abc import Sequence

import numpy as np

from smemsim.core.layout.tma import im2col_offset, pack_im2col_offset
from smemsim.core.machine.tma import Transfer, tma_load, tma_store
from smemsim.core.picture.model import EMPTY, OUTSIDE, Gap, Grid, Legend, Mark, Picture, Row, colour
from smemsim.core.picture.model import Cell as Drawn
from smemsim.core.picture.svg import grids_svg
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.core.spec.tensor_map import SWIZZLE_ARCHITECTURES, corner_bits
from smemsim.core.words.operand_layout import weakest
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.tile import chunk_heads

__all__ = ["MOST_LINES", "Cell", "TransferMap"]


# ---- A tensor transfer in shared memory: which 16 bytes of the tensor lie in which 128-byte line


MEASURED_ON = "sm_90a"
MOST_LINES = 256  # of a picture


@dataclasses.dataclass(frozen=True)
class Cell:
    """16 bytes of shared memory and their content.

    The tensor's coordinates at the first byte are `coordinates`, dimension 0 first. The number of bytes of that element
    before it is `into`. Rows of the box (pixels of an im2col box) are counted by `row`. The tensor has `inside` of the
    cell's `size` bytes.
    """

    coordinates: tuple[int, ...]
    into: int
    row: int
    inside: int
    size: int
    swapped: bool  # its two 8-byte halves have changed places

    def label(self, dims: Sequence[int], *, is_store: bool) -> str:
        """The text of the cell in a picture."""
        if not self.inside:
            return "clip" if is_store else "fill"
        marks = ("*" if self.inside < self.size else "") + ("~" if self.swapped else "")
        return self.place(dims) + marks

    def place(self, dims: Sequence[int]) -> str:
        """The coordinates in these dimensions."""
        return ",".join(str(self.coordinates[i]) for i in dims) + (f"+{self.into}" if self.into else "")


@dataclasses.dataclass(frozen=True)
class TransferMap:
    """One load or store, and its cells by place; `lines` maps the number of a 128-byte line to its eight cells."""

    transfer: Transfer
    arch: str | None
    lines: dict[int, list[Cell | None]]
    offsets: tuple[int, ...] = ()  # of im2col, as they were given

    @classmethod
    def of(
        cls,
        tm: TensorMap,
        coordinates: Sequence[int],
        *,
        smem_address: int,
        im2col_offsets: Sequence[int] = (),
        mode: str | None = None,
        store: bool = False,
        arch: str | None = None,
    ) -> TransferMap:
        """The picture of one transfer; arguments, and the errors, as for `tma_load` and `tma_store`."""
        if store:
            t = tma_store(tm, coordinates, smem_address=smem_address, mode=mode, arch=arch)
        else:
            t = tma_load(tm, coordinates, smem_address=smem_address, im2col_offsets=im2col_offsets, mode=mode, arch=arch)
        n = len(t.chunk_shared)
        per_row = n // _rows(t)
        first = np.arange(n) * t.chunk_bytes
        at = t.tensor_coordinates(first)
        unit = CHUNK * int(tm.interleave)  # with interleave an element is a slice of 16 or 32 bytes
        into = first % unit if unit else np.zeros(n, np.int64)
        lines: dict[int, list[Cell | None]] = {}
        places = zip(t.chunk_shared.tolist(), at.tolist(), into.tolist(), t.chunk_valid.tolist(), strict=True)
        for i, (address, place, offset, inside) in enumerate(places):
            cells = lines.setdefault(address // LINE, [None] * (LINE // CHUNK))
            cells[address % LINE // CHUNK] = Cell(tuple(place), offset, i // per_row, inside, t.chunk_bytes, address % CHUNK != 0)
        return cls(t, arch, dict(sorted(lines.items())), tuple(im2col_offsets))

    @property
    def title(self) -> str:
        """The map and the transfer in words."""
        t, tm = self.transfer, self.transfer.tensor_map
        kind = {"tiled": "tiled", "im2col": "im2col", "im2col_wide": "im2col::w"}[tm.call]
        layout = f", interleave {tm.interleave.name.removeprefix('INTERLEAVE_')}" if tm.interleave else ""
        where = f" on {self.arch}" if self.arch else ""
        return (
            f"TMA {'store' if t.is_store else 'load'}{where}: {kind} {_type_name(tm)} tensor {_shape(tm.global_dim)}{layout}, "
            f"{self.box} at ({', '.join(map(str, t.coordinates))})"
        )

    @property
    def box(self) -> str:
        """The box in elements or slices, or the pixels of an im2col box."""
        t, tm = self.transfer, self.transfer.tensor_map
        unit = ("slice" if t.tile_shape[0] == 1 else "slices") if tm.interleave else ""
        if tm.is_im2col:
            inner = f"{t.tile_shape[0]} {unit or 'channels'}"
            return f"{t.tile_shape[1]} pixels of {inner}"
        return f"box {_shape(t.tile_shape)}{' ' + unit if unit else ''}"

    @property
    def subtitle(self) -> str:
        """Its place in shared memory, and what a load's barrier counts; a store has no barrier, only the size of its
        box.
        """
        t, tm = self.transfer, self.transfer.tensor_map
        low, high = self.shared_span
        swizzle = "no swizzle" if not tm.swizzle else f"{tm.swizzle.name.removeprefix('SWIZZLE_')} swizzle"
        counted = f"a box of {t.transaction_bytes:,} B" if t.is_store else f"{t.transaction_bytes:,} transaction bytes"
        return f"{swizzle}, shared {low:#x} to {high:#x}, {counted}"

    @property
    def moved(self) -> str:
        """The global bytes that are touched, and how much of the box is outside."""
        t = self.transfer
        begin, end = self.global_span
        word = "writes" if t.is_store else "reads"
        span = f"{word} {self.inside_bytes:,} B in global {begin:#x} to {end:#x}" if end else f"{word} no global byte"
        outside = t.transaction_bytes - self.inside_bytes
        what = "clipped" if t.is_store else f"fill ({'NaN' if t.tensor_map.oob_fill else 'zeros'})"
        return f"{span}; {outside:,} B {what}" if outside else span

    @functools.cached_property
    def shared_span(self) -> tuple[int, int]:
        """Begin and end of the cells."""
        used = [LINE * line + CHUNK * slot for line, cells in self.lines.items() for slot, cell in enumerate(cells) if cell]
        return min(used), max(used) + CHUNK

    @functools.cached_property
    def global_span(self) -> tuple[int, int]:
        """Begin and end of the global bytes that are touched; (0, 0) for none."""
        inside = self.transfer.global_address[self.transfer.global_address >= 0]
        return (int(inside.min()), int(inside.max()) + 1) if len(inside) else (0, 0)

    @functools.cached_property
    def inside_bytes(self) -> int:
        """Bytes of the box that are inside the tensor, or that a store writes."""
        return int((self.transfer.global_address >= 0).sum())

    @functools.cached_property
    def cells(self) -> list[Cell]:
        """All cells that hold bytes of the box."""
        return [cell for line in self.lines.values() for cell in line if cell]

    @property
    def gaps(self) -> list[str]:
        """The meaning of the cells that hold nothing of the tensor. A legend has it too."""
        gaps = []
        if any(not c.inside for c in self.cells):
            gaps.append("clip: outside the tensor, not written" if self.transfer.is_store else "fill: outside the tensor")
        if any(None in line for line in self.lines.values()):
            gaps.append("·: untouched")
        return gaps

    @property
    def notes(self) -> list[str]:
        """The meaning of the marks in the cells, and unexpected properties."""
        t, tm, cells = self.transfer, self.transfer.tensor_map, self.cells
        size = t.chunk_bytes
        notes = self._cut_offsets()
        if any(0 < c.inside < size for c in cells):
            notes.append("*: the end of the chunk is fill")
        if any(c.swapped for c in cells):
            notes.append("~: the two halves of the chunk are swapped")
        period = tm.swizzle_mode.period
        if tm.swizzle_mode.mask and t.smem_address % period:
            notes.append(f"the box begins {t.smem_address % period} B into the {period} B swizzle pattern")
        if size != CHUNK:
            notes.append(f"a cell holds {size} B of the tensor and a gap")
        if t.is_store and not tm.interleave:
            end, per = tm.global_dim[0] * tm.type_row.bits, 8 * size
            spilt = sum(bool(c.inside) and c.coordinates[0] * tm.type_row.bits + per > end for c in cells)
            if spilt:
                notes.append(f"{spilt} chunk{'s' if spilt > 1 else ''} written as a whole, past the end of dimension 0")
        return notes

    def _cut_offsets(self) -> list[str]:
        """The offsets that the instruction's operand makes of im2col offsets that are too large for it."""
        tm = self.transfer.tensor_map
        if not self.offsets or tm.call != "im2col":
            return []
        packed, bits = 0, corner_bits(tm.rank)
        for axis, value in enumerate(self.offsets):
            packed = pack_im2col_offset(packed, value, axis, bits)
        used = tuple(im2col_offset(packed, axis, bits) for axis in range(len(self.offsets)))
        if used == self.offsets:
            return []
        given, left = (", ".join(map(str, numbers)) for numbers in (self.offsets, used))
        return [f"offsets {given} do not fit {bits} bits each: {left} arrive{'s' if len(used) == 1 else ''} in the instruction"]

    @property
    def evidence(self) -> str:
        """The grades of the rules that the addresses rest on."""
        t, tm = self.transfer, self.transfer.tensor_map
        newer = not tm.type_row.sm90 or tm.swizzle in SWIZZLE_ARCHITECTURES or tm.is_im2col_wide or t.geometry.mode.endswith("4")
        arch = any_architecture(self.arch or MEASURED_ON)
        if newer and self.arch != MEASURED_ON:
            return "address rules: documented (PTX ISA 9.1 §5.5); nothing of this mode is measured"
        wanted = ["tma.placement", "tma.im2col" if tm.is_im2col else "", "tma.interleave" if tm.interleave else "", "tma.bounds"]
        wanted += ["tma.store_clip" if t.is_store else "tma.fill" if self.inside_bytes < t.transaction_bytes else ""]
        rules = [RULES[name] for name in wanted if name in RULES and RULES[name].exists_on(arch.name)]
        return f"address rules on {arch.name}: {weakest(rules, arch)} ({', '.join(rule.name for rule in rules)})"

    def dims(self, width: int | None = None) -> list[int]:
        """The dimensions that cells name: all, or only those that vary if a line of `width` characters has no room."""
        everything = list(range(self.transfer.tensor_map.rank))
        if width is None or 10 + 8 * self.cell_width(everything) <= width:
            return everything
        seen = np.array([c.coordinates for c in self.cells])
        return [i for i in everything if (seen[:, i] != seen[0, i]).any()] or [0]

    def cell_width(self, dims: Sequence[int]) -> int:
        """Characters of the widest label and a space on each side."""
        is_store = self.transfer.is_store
        return max(len(c.label(dims, is_store=is_store)) for c in self.cells) + 2

    def picture(self, most: int = MOST_LINES, width: int | None = None) -> Picture:
        """Shared memory with its content, at most `most` lines. `width` is that of the terminal; a narrow one has no
        room for all dimensions.
        """
        t, dims = self.transfer, self.dims(width)
        rows: list[Row | Gap] = []
        previous = None
        for line, cells in list(self.lines.items())[:most]:
            rows += [Gap()] if previous is not None and line != previous + 1 else []
            drawn = tuple(self._drawn(cell, dims, line * LINE + slot * CHUNK) for slot, cell in enumerate(cells))
            rows.append(Row(line, f"{line * LINE:#x}", drawn))
            previous = line
        rest = len(self.lines) - most
        rows += [Gap(f"{rest} more lines (--lines {len(self.lines)} shows all)")] if rest > 0 else []
        many = "pixels" if t.tensor_map.is_im2col else "rows of the box"
        return Picture(
            self.title, (self.subtitle, self.moved), self.evidence, (Grid(f"shared memory: {self.cell_text(dims)}", chunk_heads(), tuple(rows)),), colours=self._colours(), legend=self._legend(),
            cell=f"{self.cell_text(dims)}; colours are {many}", notes=tuple(self.notes),
        )  # fmt: skip

    @property
    def _unit(self) -> str:
        return "pixel" if self.transfer.tensor_map.is_im2col else "row"

    def _drawn(self, cell: Cell | None, dims: Sequence[int], address: int) -> Drawn:
        """16 bytes of shared memory."""
        if cell is None:
            return Drawn("", EMPTY, frozenset({Mark.NOTHING}), hint=f"{address:#x}: untouched", address=address)
        label, is_store = cell.label(dims, is_store=self.transfer.is_store), self.transfer.is_store
        place = ", ".join(map(str, cell.coordinates)) + (f", {cell.into} bytes in" if cell.into else "")
        state = "" if cell.inside == cell.size else f", {cell.inside} of {cell.size} bytes inside the tensor"
        hint = f"{address:#x}: ({place}), {self._unit} {cell.row} of the box{state}"
        if cell.inside:
            return Drawn(label, colour(cell.row), hint=hint, address=address)
        return Drawn(cell.place(dims), OUTSIDE, word="clip" if is_store else "fill", hint=hint, address=address)

    def _colours(self) -> tuple[str, ...]:
        """The names of the colours: the row of the box that each stands for."""
        rows = max(cell.row for cell in self.cells) + 1
        names = [f"{self._unit} 0", *map(str, range(1, min(rows, 8)))]
        return (*names[:-1], "7, then again") if rows > 8 else tuple(names)

    def _legend(self) -> tuple[Legend, ...]:
        """The meaning of the cells that hold nothing of the tensor."""
        entries = []
        if any(not c.inside for c in self.cells):
            is_store = self.transfer.is_store
            entries.append(
                Legend(f"outside the tensor{', not written' if is_store else ''}", OUTSIDE, word="clip:" if is_store else "fill:")
            )
        if any(None in line for line in self.lines.values()):
            entries.append(Legend("untouched", EMPTY, Mark.NOTHING))
        return tuple(entries)

    def cell_text(self, dims: Sequence[int]) -> str:
        """The line that explains the numbers in a cell."""
        tm = self.transfer.tensor_map
        names = ",".join(f"c{i}" for i in dims)
        left_out = [i for i in range(tm.rank) if i not in dims]
        first = self.cells[0]
        fixed = f" ({', '.join(f'c{i} = {first.coordinates[i]}' for i in left_out)} everywhere)" if left_out else ""
        return f"{names} of its first {'slice' if tm.interleave else 'element'}{fixed}"

    def _positions(self) -> np.ndarray:
        """Places in the dense box of the bytes of `shared_address`; a store's has only the written ones."""
        t = self.transfer
        if t.is_store:
            return np.flatnonzero((np.arange(t.chunk_bytes) < t.chunk_valid[:, None]).ravel())
        return np.arange(len(t.shared_address))

    def _repr_svg_(self) -> str:
        """In a notebook."""
        return grids_svg(self.picture())

    def csv(self) -> str:
        """shared_address,line,chunk,byte,global_address,c0,… for every byte; global_address is -1 where it is fill."""
        t, out = self.transfer, io.StringIO()
        out.write(
            ",".join(["shared_address", "line", "chunk", "byte", "global_address", *(f"c{i}" for i in range(t.tensor_map.rank))]) + "\n"
        )
        at = t.shared_address
        columns = (at, at // LINE * LINE, at % LINE // CHUNK, at % CHUNK, t.global_address, t.tensor_coordinates(self._positions()))
        table = np.column_stack(columns)
        out.writelines(",".join(map(str, row)) + "\n" for row in table.tolist())
        return out.getvalue()

    def json(self) -> str:
        """Every byte's two addresses in the order of the dense box, dimension 0 fastest, with what they belong to."""
        t = self.transfer
        return json.dumps(
            {
                "transfer": "store" if t.is_store else "load",
                "arch": self.arch,
                "map": repr(t.tensor_map),
                "mode": t.geometry.mode,
                "coordinates": t.coordinates,
                "smem_address": t.smem_address,
                "tile_shape": t.tile_shape,
                "transaction_bytes": t.transaction_bytes,
                "shared_span": self.shared_span,
                "global_span": self.global_span,
                "outside_bytes": t.transaction_bytes - self.inside_bytes,
                "notes": [*self.gaps, *self.notes],
                "evidence": self.evidence,
                "shared_address": t.shared_address.tolist(),
                "global_address": t.global_address.tolist(),
            }
        )


def _rows(t: Transfer) -> int:
    return math.prod(t.tile_shape[1:])


def _shape(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _type_name(tm: TensorMap) -> str:
    return tm.type_row.names[0] if tm.type_row.names else tm.data_type.name
