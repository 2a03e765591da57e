"""Draws the standard layouts, each from its descriptor words alone: `python tools/figures.py FOLDER` writes SVGs and an
index.html.
"""

from __future__ import annotations

import dataclasses
import html
import pathlib
import sys
from collections.abc import Callable

from smemsim import SmemDescriptor, TilePicture, tile_svg
from smemsim.show.tile import atoms_svg, pattern_svg


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture, what it is called, and what to see in it."""

    name: str
    title: str
    says: str
    draw: Callable[[], str]


def tile(swizzle: str, major: str, rows: int, k: int, lbo: int, sbo: int, *, arch: str = "sm_100a", dtype: str = "bf16", start: int = 0x400,
         k_add: list[int] | int = 0, mn_add: list[int] | int = 0) -> TilePicture:  # fmt: skip
    """An operand by the fields of its descriptor, in bytes."""
    d = SmemDescriptor(arch=arch, start_address=start, leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=swizzle)
    return TilePicture.of(d.encode(), arch=arch, dtype=dtype, major=major, rows=rows, k=k, k_add=k_add, mn_add=mn_add)


def both(name: str, title: str, says: str, of: TilePicture) -> list[Figure]:
    """The atoms of a tile, and its chunks."""
    return [
        Figure(name, title, says, lambda: atoms_svg(of)),
        Figure(f"{name}-chunks", f"{title}: chunk by chunk", "", lambda: tile_svg(of)),
    ]


PANELS = [panel + step for panel in (0, 16384) for step in range(0, 128, 32)]
FIGURES = [
    Figure("patterns", "The swizzle patterns", "The XOR takes bits of the 128-byte line's number: no data leaves its line, and eight lines of one chunk column meet all "
           "banks under 128B, half of them under 64B, a quarter under 32B.", pattern_svg),
    *both("k-major-none", "K-major without swizzle", "8 x 16 B lie in one piece. SBO goes on by 8 rows, LBO by 16 bytes of K.",
          tile("none", "K", 64, 16, 1024, 128, k_add=[0, 2048])),
    *both("k-major-128B", "K-major, 128B", "An atom is 8 rows of 128 B. Atoms follow one another down the rows, then the next 128 B of K; SBO goes on by 8 rows, "
          "and no instruction is wide enough to use LBO.", tile("128B", "K", 64, 16, 16, 1024, k_add=[0, 32, 64, 96, 8192, 8224, 8256, 8288])),
    *both("m-major-none", "M-major without swizzle", "The roles change: LBO goes on by 8 of K, SBO by 16 bytes of M.",
          tile("none", "MN", 64, 16, 128, 512, k_add=[0, 256])),
    *both("m-major-128B", "M-major, 128B", "SBO goes on by 8 of K, LBO by 128 bytes of M: the opposite of no swizzle.",
          tile("128B", "MN", 128, 16, 8192, 1024, k_add=[0, 2048, 4096, 6144])),
    Figure("first-instruction", "What the first instruction reads of a 128B atom", "16 chunks, two in each line, and never in the same columns as in the next pair of lines.",
           lambda: tile_svg(tile("128B", "K", 8, 16, 16, 1024, k_add=[0, 32, 64, 96]))),
    *both("four-levels", "128 x 128 bf16, K-major, 128B", "A tile, its 16 x 2 atoms, and the 16 instructions of 64 x 16 that read it. The start address moves by 32 B inside an atom's "
          "row, by 16 KiB to the next atoms along K, and by 8 KiB to the lower 64 rows.", tile("128B", "K", 64, 16, 16, 1024, k_add=PANELS, mn_add=[0, 8192])),
    *both("mn-major-64B", "128 x 128 bf16, MN-major, 64B", "An instruction reads 2 x 2 whole atoms. The start address moves by 1 KiB along K and by 16 KiB to the other 64 of M.",
          tile("64B", "MN", 64, 16, 8192, 512, k_add=[1024 * i for i in range(8)], mn_add=[0, 16384])),
    Figure("k-none-tf32", "K-major, no swizzle, tf32", "16 x 16: T = 4, LBO 256 B, SBO 128 B.",
           lambda: tile_svg(tile("none", "K", 16, 8, 256, 128, arch="sm_90a", dtype="tf32", k_add=[0, 512]))),
    Figure("k-32B-tf32", "K-major, 32B, tf32", "Rows are 32 B apart, which is all of K that one instruction reads; SBO 256 B.",
           lambda: tile_svg(tile("32B", "K", 16, 8, 16, 256, arch="sm_90a", dtype="tf32"))),
    Figure("mn-none-bf16", "MN-major, no swizzle, bf16", "16 x 16: LBO 256 B along K, SBO 128 B along M.",
           lambda: tile_svg(tile("none", "MN", 16, 16, 256, 128, arch="sm_90a"))),
    Figure("mn-32B-bf16", "MN-major, 32B, bf16", "32 x 16: LBO 256 B along M, SBO 512 B along K.",
           lambda: tile_svg(tile("32B", "MN", 32, 16, 256, 512, arch="sm_90a"))),
    Figure("mn-64B-bf16", "MN-major, 64B, bf16", "64 x 16: LBO 512 B along M, SBO 1024 B along K.",
           lambda: tile_svg(tile("64B", "MN", 64, 16, 512, 1024, arch="sm_90a"))),
]  # fmt: skip
STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:1280px;margin:32px auto;padding:0 24px}img{max-width:100%;height:auto}"
    "figure{margin:32px 0;break-inside:avoid}figcaption{max-width:70ch}h2{font-size:18px;margin:0}"
)


def page() -> str:
    """All figures below one another."""
    figures = "".join(
        f"<figure><h2>{html.escape(f.title)}</h2><figcaption>{html.escape(f.says)}</figcaption><img src='{f.name}.svg' alt='{html.escape(f.title)}'></figure>"
        for f in FIGURES
    )
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>Layouts of shared memory</title><style>{STYLE}</style><h1>Layouts of shared memory</h1>"
    return f"{head}<p>Every picture is computed from the descriptor in its second line.{figures}</html>\n"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/figures.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        (folder / f"{figure.name}.svg").write_text(figure.draw() + "\n", encoding="utf-8")
    (folder / "index.html").write_text(page(), encoding="utf-8")
    print(f"{len(FIGURES)} figures in {folder}")


if __name__ == "__main__":
    main()
