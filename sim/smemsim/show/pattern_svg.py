"""The swizzle patterns themselves: which 16-byte chunk of a 128-byte line lies in which group of four banks."""

from __future__ import annotations

from smemsim.addressing.swizzle import swizzle
from smemsim.show.paint import MARGIN, rect, svg, text
from smemsim.spec.shared_memory import BANKS, CHUNK, LINE
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["pattern_svg"]

TOP, CELL, LINES = 92, 34, 8
SHOWN = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)


def pattern_svg(modes: tuple[Swizzle, ...] = SHOWN, style: str | None = None) -> str:
    """Eight 128-byte lines under each mode as SVG text: a cell has the number of the chunk that lies there, counted before swizzling.

    >>> pattern_svg().count("<title>")
    256
    """
    parts, slots = [], LINE // CHUNK
    wide = CELL * slots + 62
    for number, name in enumerate(modes):
        mode = MODES[name]
        left = MARGIN + 44 + number * wide
        repeats = f"repeats after {mode.period} B" if mode.mask else "no permutation"
        parts += [text(left, TOP - 40, "b t", f"swizzle {name}"), text(left + CELL * slots, TOP - 40, "s r", repeats)]
        for slot in range(slots):
            parts.append(text(left + CELL * slot + 3, TOP - 8, "n s", BANKS.of(slot * CHUNK)))
        parts.append(text(left - 7, TOP - 8, "n s r", "bank"))
        for line in range(LINES):
            y = TOP + 24 * line
            parts.append(text(left - 7, y + 16, "s r", f"{line * LINE:#05x}"))
            for chunk in range(slots):
                address = swizzle(line * LINE + chunk * CHUNK, 0, mode.mask, mode.shift)
                x = left + CELL * (address % LINE // CHUNK)
                where = f"<title>line {line}, chunk {chunk} before swizzling: {address:#x}</title>"
                parts += [rect(x, y, CELL, 24, f"g k{chunk}", where), text(x + CELL / 2, y + 16, "c m", chunk)]
        if mode.mask:
            for first in range(0, LINES, mode.mask + 1):
                parts.append(rect(left, TOP + 24 * first, CELL * slots, 24 * (mode.mask + 1), "atom"))
    height = TOP + 24 * LINES
    note = "lines of 128 B downward, 16-byte chunks to the right; a cell has the number of its chunk before swizzling; outlines repeat"
    head = [text(MARGIN, 28, "t", "Swizzle patterns on shared addresses")]
    return svg(
        MARGIN + len(modes) * wide + 12, height + 40, [*head, *parts, text(MARGIN, height + 26, "s", note)], "swizzle patterns", style
    )
