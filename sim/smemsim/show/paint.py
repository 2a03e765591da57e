"""Colours and small shapes of the pictures, light and dark, on the screen and in print."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from smemsim.show.operand import COLOURS

__all__ = ["LETTER", "MARGIN", "PROSE", "arrow", "hatch", "rect", "rules", "svg", "text"]

MARGIN = 18  # pixels beside everything
LETTER, PROSE = 6.7, 6.95  # pixels of a monospaced letter of 11 px; the same with room, of sentences that are wrapped

# class: (property, light, dark). Text on the eight pastels is dark in both.
PAINT = {
    "bg": ("fill", "#ffffff", "#0d1117"),
    "t": ("fill", "#1f2328", "#f0f6fc"),
    "s": ("fill", "#59636e", "#9ea7b3"),
    "c": ("fill", "#1f2328", "#1f2328"),
    "w": ("fill", "#a40e26", "#8b0820"),
    "alarm": ("fill", "#a40e26", "#ff9492"),
    "e": ("fill", "#f3f5f7", "#1c2129"),
    "x": ("fill", "#e3e6ea", "#b7bfc8"),
    "xt": ("fill", "#1f2328", "#1f2328"),
    "h": ("stroke", "#cf222e", "#b3121f"),
    "g": ("stroke", "#ffffff", "#0d1117"),
    "atom": ("stroke", "#59636e", "#c9d1d9"),
    "mma": ("stroke", "#6639ba", "#8250df"),
    "mmat": ("fill", "#6639ba", "#d2a8ff"),
    "mmad": ("fill", "#512a97", "#512a97"),
    "SBOd": ("fill", "#0d5323", "#0d5323"),
    "LBOd": ("fill", "#7a2e00", "#7a2e00"),
    "SBO": ("stroke", "#116329", "#2ea043"),
    "SBOt": ("fill", "#116329", "#56d364"),
    "LBO": ("stroke", "#953800", "#db6d28"),
    "LBOt": ("fill", "#953800", "#ffa657"),
    "miss": ("stroke", "#8c959f", "#8c959f"),
}
SHAPES = (
    "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px}"
    ".mmad,.SBOd,.LBOd{font-weight:600}.t{font-size:15px;font-weight:600}.s{font-size:11.5px}.b{font-size:13px;font-weight:600}.m{text-anchor:middle}.r{text-anchor:end}"
    ".n{font-size:9.5px}.h{stroke-width:1.4;fill:none;stroke-opacity:.5}.g{stroke-width:1}.atom{fill:none;stroke-width:1.6}.mma{fill:none;stroke-width:2.6}"
    ".one{stroke-width:1.3;stroke-dasharray:5 3}.SBO,.LBO{fill:none;stroke-width:2.2}.miss{fill:none;stroke-width:1.2;stroke-dasharray:3 2}"
    ".edge{paint-order:stroke;stroke-width:3.6px;stroke-linejoin:round;stroke:#ffffff}"
)


def rules() -> str:
    """The style sheet of the pictures, for everything inside class `smem`; `data-theme` on the page's root overrules the reader's preference."""

    def theme(at: int, prefix: str) -> str:
        of = [f"{prefix}.{name}{{{p}:{value[at]}}}" for name, (p, *value) in PAINT.items()]
        fills = [f"{prefix}.k{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS)]
        return "".join([*of, *fills])

    shapes = "".join(f"{_scoped(one)}}}" for one in SHAPES.split("}") if one)
    light, dark = theme(0, ".smem "), theme(1, ".smem ")
    forced = theme(0, ":root[data-theme=light] .smem ") + theme(1, ":root[data-theme=dark] .smem ")
    return f"{shapes}{light}@media (prefers-color-scheme:dark){{{dark}}}{forced}@media print{{{theme(0, ':root .smem.smem ')}}}"


def _scoped(rule: str) -> str:
    """A rule for what is inside class `smem`."""
    selectors, brace, body = rule.partition("{")
    return ",".join(f".smem {one}" for one in selectors.split(",")) + brace + body


def svg(width: float, height: float, parts: Sequence[str], label: str, style: str | None = None) -> str:
    """A whole picture; `style` "" where the page has the rules already."""
    w, h = math.ceil(width), math.ceil(height)
    css = rules() if style is None else style
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="smem" role="img" aria-label="{html.escape(label, quote=True)}" '
            f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">',
            *([f"<style>{css}</style>"] if css else []),
            f'<rect class="bg" width="{w}" height="{h}"/>',
            *parts,
            "</svg>",
        ]
    )


def text(x: float, y: float, classes: str, what: object) -> str:
    """A text, escaped."""
    return f'<text x="{x:g}" y="{y:g}" class="{classes}">{html.escape(str(what), quote=False)}</text>'


def rect(x: float, y: float, width: float, height: float, classes: str, inner: str = "") -> str:
    """A rectangle."""
    end = f">{inner}</rect>" if inner else "/>"
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{classes}"{end}'


def hatch(x: float, y: float, width: float, height: float) -> str:
    """Diagonal lines over a cell; no pattern, because ids of several pictures on a page would meet."""
    step, parts = 8, []
    for offset in range(step, int(width + height), step):
        x0, y0 = (offset, 0.0) if offset < width else (width, offset - width)
        x1, y1 = (0.0, float(offset)) if offset < height else (offset - height, height)
        parts.append(f"M{x + x0:g} {y + y0:g}L{x + x1:g} {y + y1:g}")
    return f'<path class="h" d="{"".join(parts)}"/>'


def arrow(points: Sequence[tuple[float, float]], classes: str) -> str:
    """A line with a head at its end and a dot at its beginning."""
    (x0, y0), (x1, y1) = points[-2:]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    back, side = 8, 4.5
    left, right = ((x1 - back * ux + s * side * uy, y1 - back * uy - s * side * ux) for s in (1, -1))
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    head = f"M{left[0]:.1f} {left[1]:.1f}L{x1:.1f} {y1:.1f}L{right[0]:.1f} {right[1]:.1f}"
    dot = f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3.2" class="{classes}t"/>'
    return f'<path class="{classes}" d="{line}{head}"/>{dot}'
