"""The faults that descriptors and writers are known to have, as what an operand becomes by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from smemsim.descriptors.smem import SmemDescriptor
from smemsim.errors import InputError
from smemsim.solve.tile import BASE, Tile
from smemsim.spec.shared_memory import ATOM_ROWS, CHUNK, LINE
from smemsim.spec.smem_descriptor import REACH, START, layout_codes
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["Fault", "faults_of"]


class Fault(NamedTuple):
    """What were otherwise, as the end of "the operand were ..."; `field` is what to look at; `source` (rows, k) the element read in place of each."""

    field: str
    text: str
    source: np.ndarray


class Words(NamedTuple):
    """Fields of the words of a tile; starts (blocks, steps)."""

    swizzle: Swizzle
    base: int
    leading: int
    stride: int
    starts: np.ndarray

    def encoded(self, arch: str) -> np.ndarray:
        """The words; starts lose what does not fit the field."""
        fields: dict[str, Any] = {"leading_byte_offset": self.leading, "stride_byte_offset": self.stride, "base_offset": self.base}
        word = SmemDescriptor(arch=arch, swizzle=self.swizzle, **fields).encode()
        return np.uint64(word) | (self.starts >> START.shift & START.mask).astype(np.uint64)


def faults_of(tile: Tile) -> Iterator[Fault]:
    """All that are known, the most common first; what they do to the operand may be nothing, or the same as another."""
    right, arch = tile.right, tile.shape.machine.name
    words = Words(right.swizzle, 0, CHUNK if right.leading is None else right.leading, right.stride or 0, right.starts)
    plain = tile.owners(tile.addresses(tile.offsets))
    yield from _writers(tile, words, arch)
    for field, text, other, major in _readers(tile, words):
        try:
            encoded = other.encoded(arch)
        except InputError:  # a field that does not hold it
            continue
        source = tile.read(encoded, plain, major)
        if source is not None:
            yield Fault(field, text, source)


def _writers(tile: Tile, words: Words, arch: str) -> Iterator[Fault]:
    """The data lie otherwise than the descriptor has it."""
    right = words.encoded(arch)

    def read(field: str, text: str, owners: np.ndarray, given: np.ndarray = right) -> Iterator[Fault]:
        source = tile.read(given, owners)
        if source is not None:
            yield Fault(field, text, source)

    for name in dict.fromkeys(layout_codes(tile.shape.machine.smem_descriptor).values()):
        if MODES[name] is not tile.mode:
            where = tile.addresses(tile.offsets, MODES[name])
            yield from read("swizzle of the writer", f"written with swizzle {name} and read with {tile.mode.swizzle}", tile.owners(where))
    for lines_off in range(1, tile.mode.mask + 1):
        by = LINE * lines_off
        where = tile.addresses(tile.offsets, base=0) + BASE + by
        moved = words._replace(starts=words.starts + by).encoded(arch)
        text = f"written with the XOR of offsets in a buffer {by} B past a multiple of {tile.mode.period} B (hardware takes addresses)"
        yield from read("base address", text, tile.owners(where), moved)
    lines, chunks = tile.offsets.shape
    where = tile.addresses(tile.offsets)
    line, chunk = np.broadcast_arrays(np.arange(lines)[:, None], np.arange(chunks)[None])
    panel, panels = chunk // tile.mode.chunks, -(-chunks // tile.mode.chunks)
    what = ("rows", "K") if tile.shape.major == "K" else ("K", "rows")
    for half, missing in (("second", line >= lines // 2), ("first", line < lines // 2)):
        yield from read("the writer's box", f"written but for the {half} half of its {what[0]}, which is 0", tile.owners(where, ~missing))
    for half, missing in (("second", chunk >= chunks // 2), ("first", chunk < chunks // 2)):
        yield from read("the writer's box", f"written but for the {half} half of its {what[1]}, which is 0", tile.owners(where, ~missing))
    for number in range(panels if panels > 2 else 0):
        text = f"written but for panel {number} of {panels} ({tile.mode.width} B wide), which is 0"
        yield from read("the writer's box", text, tile.owners(where, panel != number))


def _readers(tile: Tile, w: Words) -> Iterator[tuple[str, str, Words, str | None]]:
    """(field, text, words, major-ness if it is another) that read the tile otherwise."""
    s = tile.shape
    for name in dict.fromkeys(layout_codes(s.machine.smem_descriptor).values()):
        if name is not w.swizzle:
            mode = MODES[name]
            text = f"read with swizzle {name} where they lie in {w.swizzle}"
            yield "layout_type", text, w._replace(swizzle=name), None
            rows = mode.k_rows if s.major == "MN" else ATOM_ROWS
            yield "layout_type", f"{text} (SBO {rows * mode.width} B)", w._replace(swizzle=name, stride=rows * mode.width), None
    for base in range(1, tile.mode.mask + 1):
        yield "base_offset", f"read with base offset {base} instead of 0", w._replace(base=base), None
    if tile.right.leading is not None and tile.right.stride is not None:
        yield (
            "LBO and SBO",
            f"read with LBO and SBO exchanged ({w.stride} and {w.leading} B)",
            w._replace(leading=w.stride, stride=w.leading),
            None,
        )
    for field, own, used in (("stride_byte_offset", w.stride, tile.right.stride), ("leading_byte_offset", w.leading, tile.right.leading)):
        short = "SBO" if field.startswith("stride") else "LBO"
        for value in _strides(own) if used is not None else ():
            hint = (
                " (bytes where the field counts 16 B)"
                if value == own * CHUNK % REACH
                else " (shifted right twice)"
                if value * CHUNK == own
                else ""
            )
            changed = w._replace(stride=value) if short == "SBO" else w._replace(leading=value)
            yield field, f"read with {short} {value} B instead of {own} B{hint}", changed, None
    other = "MN" if s.major == "K" else "K"
    spread = {w.leading, w.stride, tile.offsets.shape[0] * tile.mode.width}
    for leading in sorted(spread):
        yield "major", f"read {other}-major instead of {s.major}-major (LBO {leading} B)", w._replace(leading=leading), other
    yield from _starts(tile, w)


def _strides(own: int) -> list[int]:
    """Values that people write instead."""
    some = [
        own * CHUNK % REACH,
        own // (CHUNK * CHUNK) * CHUNK,
        0,
        2 * own,
        own // 2,
        4 * own,
        own // 4,
        8 * own,
        own // 8,
        *(CHUNK << i for i in range(10)),
    ]
    return [x for x in dict.fromkeys(some) if x != own and x % CHUNK == 0 and 0 <= x < REACH]


def _starts(tile: Tile, w: Words) -> Iterator[tuple[str, str, Words, str | None]]:
    """K steps, blocks, or all of it from elsewhere."""
    blocks, steps = w.starts.shape
    first, by = w.starts[:, :1], w.starts - w.starts[:, :1]

    def moved(text: str, starts: np.ndarray) -> tuple[str, str, Words, str | None]:
        return "start_address", text, w._replace(starts=starts), None

    if steps > 1:
        step = int(by[0, 1])
        straight = first + step * np.arange(steps)
        if (straight != w.starts).any():
            yield moved(f"read with K steps {step} B apart all along, without the jump to the next panel", straight)
            rows = tile.shape.rows * tile.mode.width
            jump = tile.offsets.shape[0] * tile.mode.width
            if tile.shape.major == "K" and rows != jump:
                text = f"read with panels {rows} B apart, those of one instruction's rows, instead of {jump} B"
                yield moved(text, first + by // jump * rows + by % jump)
        for factor, text in ((0, "not at all (the first step again and again)"), (2, "twice as far"), (0.5, "half as far (elements for bytes, say)"),
                             (1 / CHUNK, "1/16 as far (16-byte units shifted again)"), (CHUNK, "16 times as far (bytes in a field of 16 B)"), (4, "4 times as far")):  # fmt: skip
            yield moved(f"read with K steps that advance {text}", first + (by * factor).astype(np.int64) // CHUNK * CHUNK)
        for i in range(steps):
            for j in (i - 1, i + 1):
                if 0 <= j < steps:
                    starts = w.starts.copy()
                    starts[:, i] = w.starts[:, j]
                    yield moved(f"read in K step {i} as in step {j}", starts)
        yield moved(
            "read with every K step one too far (the advance came before the first)",
            w.starts + np.diff(w.starts, append=w.starts[:, -1:] + step),
        )
    if blocks > 1:
        across = w.starts - w.starts[:1]
        for factor, text in ((0, "all the same"), (2, "twice as far apart"), (0.5, "half as far apart")):
            yield moved(f"read with blocks of rows {text}", w.starts[:1] + (across * factor).astype(np.int64) // CHUNK * CHUNK)
    for far in (16, 32, 48, 64, 80, 96, 112, 128, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384):
        for sign, text in ((1, "further"), (-1, "back")):
            yield moved(f"read {far} B {text} than it begins", w.starts + sign * far)
