"""A CuTe layout on its own: what it says, where its elements lie in shared memory, and the same as Triton's
LinearLayout.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.layout.cute import CuteLayout
from smemsim.core.picture.lines import table_lines
from smemsim.core.picture.model import EMPTY, Cell, Gap, Grid, Legend, Mark, Picture, Row, colour
from smemsim.core.picture.svg import grids_svg
from smemsim.core.picture.table import Column, Line, Table
from smemsim.core.spec.shared_memory import CHUNK, LINE
from smemsim.diagnosis.tile import chunk_heads

__all__ = ["LayoutMap", "linear_layout_text"]


MOST_ELEMENTS = 1 << 20
MOST_LINES = 48  # of a picture
HINTED = 16  # elements that a cell tells


def linear_layout_text(bases: Sequence[Sequence[int]], sizes: Sequence[int]) -> str:
    """Bases of offsets as Triton prints a LinearLayout.

    >>> print(linear_layout_text([(0, 1), (1, 0)], (2, 2)))
    - offset=1 -> (0, 1)
      offset=2 -> (1, 0)
    where out dims are: [dim0 (size 2), dim1 (size 2)]
    """
    rows = [f"offset={1 << bit} -> ({', '.join(map(str, basis))})" for bit, basis in enumerate(bases)] or ["offset is a size 1 dimension"]
    dims = ", ".join(f"dim{i} (size {size})" for i, size in enumerate(sizes))
    return "\n".join([f"- {rows[0]}", *(f"  {row}" for row in rows[1:]), f"where out dims are: [{dims}]"])


@dataclasses.dataclass(frozen=True)
class LayoutMap:
    """A layout of elements of `bits` bits (0 if not known). Element 0 is at shared address `base`."""

    layout: CuteLayout
    bits: int
    base: int = 0x400

    def __post_init__(self) -> None:
        if self.layout.size > MOST_ELEMENTS:
            raise InputError(f"layout {self.layout}: {self.layout.size:,} elements; at most {MOST_ELEMENTS:,} are drawn or counted")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Coordinates of each top-level mode."""
        return tuple(mode.size for mode in self.layout.modes())

    def offsets(self) -> np.ndarray:
        """The offset of every element, shaped by the top-level modes, without the XOR."""
        places = np.zeros(self.sizes, np.int64)
        for axis, mode in enumerate(self.layout.modes()):
            own = np.array([mode(i) for i in range(mode.size)], np.int64)
            places += own.reshape([-1 if i == axis else 1 for i in range(self.layout.rank)])
        return places

    def bit_addresses(self) -> np.ndarray:
        """The address of every element's lowest bit, counted in bits, XOR included."""
        if not self.bits:
            raise InputError(f"layout {self.layout}: --dtype is missing: how wide is an element? (the text may say it, as smem_ptr[16b])")
        bit = self.base * 8 + self.offsets() * self.bits
        functor = self.layout.functor
        byte: np.ndarray = bit // 8
        swapped: np.ndarray = byte ^ ((byte >> functor.base + functor.shift) % (1 << functor.bits) << functor.base)
        found: np.ndarray = swapped * 8 + bit % 8
        return found

    def shared(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The first two coordinates at one offset; None where the layout is one-to-one."""
        flat = self.offsets().ravel()
        order = np.argsort(flat, kind="stable")
        same = np.nonzero(flat[order][1:] == flat[order][:-1])[0]
        if not len(same):
            return None
        second = int(order[same + 1].min())
        first = int(np.nonzero(flat == flat[second])[0][0])
        one, other = (tuple(int(x) for x in np.unravel_index(at, self.sizes)) for at in (first, second))
        return one, other

    # ---- in words

    def view(self) -> list[Line]:
        """The layout, in lines."""
        layout, shared = self.layout, self.shared()
        size = f"{layout.cosize * self.bits / 8:,.10g} B of {self.bits}-bit elements" if self.bits else "bytes are told with --dtype"
        rows = [
            ("modes", " x ".join(map(str, self.sizes))),
            ("size", f"{layout.size:,} elements"),
            ("cosize", f"{layout.cosize:,} elements from the first to the last, {size}"),
            ("coalesced", str(layout.coalesce())),
            ("one-to-one", "yes" if shared is None else f"no: {_tuple(shared[0])} and {_tuple(shared[1])} are the same element"),
        ]
        if layout.functor.bits:
            rows.insert(1, ("XOR", f"{layout.functor}, of byte addresses: {_pattern(layout)}"))
        lines = [Line([(f"CuTe layout {layout}", "bold")]), *table_lines(Table((Column(""), Column("")), tuple(rows)))[1:]]
        return [*lines, *self.linear_view()]

    def linear_view(self) -> list[Line]:
        """The same as Triton's LinearLayout, or why there is none."""
        try:
            text = linear_layout_text(self.layout.linear_bases(self.bits), self.sizes)
        except InputError as e:
            return [Line([(f"no LinearLayout: {str(e).partition(': ')[2]}", "dim")])]
        told = ", from an address that is a multiple of the swizzle's pattern" if self.layout.functor.bits else ""
        return [
            Line([(f"as Triton's LinearLayout; offsets count elements{told}:", "")]),
            *(Line([(f"  {x}", "")]) for x in text.splitlines()),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The layout as a dictionary for JSON; `linear_layout` is None where there is none."""
        shared = self.shared()
        try:
            bases = [list(basis) for basis in self.layout.linear_bases(self.bits)]
        except InputError:
            bases = None
        functor = self.layout.functor
        return {
            "layout": str(self.layout), "shape": self.layout.shape, "stride": self.layout.stride,
            "swizzle": [functor.bits, functor.base, functor.shift] if functor.bits else None, "element_bits": self.bits or None,
            "size": self.layout.size, "cosize": self.layout.cosize, "coalesced": str(self.layout.coalesce()),
            "one_to_one": shared is None, "shared": shared,
            "linear_layout": None if bases is None else {"offset": bases, "out_dims": {f"dim{i}": n for i, n in enumerate(self.sizes)}},
        }  # fmt: skip

    # ---- as a picture and as data

    def csv(self) -> str:
        """A line for each element: its coordinates, its offset in elements without the XOR, its byte address and the
        bit in that byte.
        """
        out = io.StringIO()
        out.write(",".join([*(f"i{axis}" for axis in range(self.layout.rank)), "offset", "address", "bit"]) + "\n")
        for (at, offset), bit in zip(np.ndenumerate(self.offsets()), self.bit_addresses().ravel(), strict=True):
            out.write(",".join(map(str, (*at, offset, bit // 8, bit % 8))) + "\n")
        return out.getvalue()

    def picture(self, most: int = MOST_LINES) -> Picture:
        """Shared memory, 128 bytes a line: which elements lie in which 16-byte chunk; at most `most` lines."""
        bits = self.bit_addresses()
        chunks: dict[int, list[int]] = {}
        for number in np.argsort(bits, axis=None, kind="stable").tolist():
            chunks.setdefault(int(bits.flat[number]) // (8 * CHUNK), []).append(number)
        offsets = self.offsets().ravel()
        lines = sorted({chunk * CHUNK // LINE for chunk in chunks})
        rows: list[Row | Gap] = []
        for before, line in zip([None, *lines], lines[:most], strict=False):
            rows += [Gap()] if before is not None and line != before + 1 else []
            slots = (line * LINE // CHUNK + slot for slot in range(LINE // CHUNK))
            rows.append(Row(line, f"{line * LINE:#x}", tuple(self._cell(at, chunks.get(at, []), offsets, bits) for at in slots)))
        if len(lines) > most:
            rows.append(Gap(f"{len(lines) - most} more lines, to {lines[-1] * LINE + LINE - 1:#x}"))
        names = tuple(f"i{axis}" for axis in range(self.layout.rank))
        shared = self.shared()
        return Picture(
            f"CuTe layout {self.layout}", (f"{self.bits}-bit elements from {self.base:#x} on",), "arithmetic: the layout as it is written",
            (Grid(f"shared memory: the first element of each 16-byte chunk, as {','.join(names)}", chunk_heads(), tuple(rows)),),
            cell=f"{','.join(names)} of the first element", colours=(*map(str, range(7)), "7  chunk column before the XOR"),
            legend=(Legend("two elements share its bytes", colour(3), Mark.SHARED),) * (shared is not None) + (Legend("nothing of the layout", EMPTY, Mark.NOTHING),),
            notes=() if shared is None else (f"not one-to-one: {_tuple(shared[0])} and {_tuple(shared[1])} are the same element",),
        )  # fmt: skip

    def _cell(self, chunk: int, held: list[int], offsets: np.ndarray, bits: np.ndarray) -> Cell:
        """16 bytes, and the numbers of the elements that lie in them."""
        address = chunk * CHUNK
        if not held:
            return Cell("", EMPTY, frozenset({Mark.NOTHING}), hint=f"{address:#x}: nothing of the layout", address=address)
        places = [tuple(int(x) for x in np.unravel_index(number, self.sizes)) for number in held[: HINTED + 1]]
        before = (self.base * 8 + int(offsets[held[0]]) * self.bits) // (8 * CHUNK)
        shares = len({int(bits.flat[number]) for number in held}) < len(held)
        told = " ".join(map(_tuple, places[:HINTED])) + " …" * (len(places) > HINTED)
        marks = frozenset({Mark.SHARED} if shares else ())
        return Cell(",".join(map(str, places[0])), colour(before % (LINE // CHUNK)), marks, hint=f"{address:#x}: {told}", address=address)

    def _repr_svg_(self) -> str:
        """In a notebook."""
        return grids_svg(self.picture())


def _tuple(at: Sequence[int]) -> str:
    return f"({', '.join(map(str, at))})"


def _pattern(layout: CuteLayout) -> str:
    """The effect of an XOR, in words."""
    f = layout.functor
    return f"bits [{f.base + f.shift + f.bits - 1}:{f.base + f.shift}] into bits [{f.base + f.bits - 1}:{f.base}]"
