"""Races of grids: ten times as many CTAs against ten times the time, and two processes against one, each on a processor
of its own.

The programs are recorded launches of golden/, which an H200 has run: a product on CUDA cores, a tile of 32 x 32 x 512
for each CTA, and Triton's on tensor cores, 128 x 128 x 128.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.speeds.programs import Grown, started
from tools.speeds.race import Race, Row, busiest, processor

SIDES = {100: (10, 10), 1_000: (25, 40), 10_000: (100, 100)}  # of grids of so many CTAs: tiles of M, of N
LINEAR, TWICE = "10x the time is a constant rate", 1.7


def _sgemm(ctas: int) -> Grown:
    """A grid of the product on CUDA cores."""
    (rows, columns), k = SIDES[ctas], 512
    m, n = 32 * rows, 32 * columns
    return Grown("matmul_simt", (columns, rows, 1), {"A": (m, k), "B": (k, n), "C": (m, n)}, {3: m, 4: n, 5: k})


def _triton(ctas: int) -> Grown:
    """A grid of Triton's product."""
    (rows, columns), k = SIDES[ctas], 128
    m, n = 128 * rows, 128 * columns
    return Grown(
        "triton_matmul_512",
        (rows, columns, 1),
        {"a": (m, k), "b": (n, k), "c": (m, n)},
        maps={"a": (k, m), "b": (k, n), "c": (n, m)},
        values={15: k},
    )


def _ten(make: Callable[[int], Grown], ctas: int, *, sanitizer: bool) -> Callable[[], Race]:
    """So many CTAs against a tenth of them."""

    def start() -> Race:
        ours, fewer = (started(make(count).file(), sanitizer=sanitizer)[0] for count in (ctas, ctas // 10))
        return Race(processor(ours), processor(fewer), LINEAR)

    return start


def _sum(ctas: int) -> Grown:
    """An elementwise sum, 1,024 elements for each CTA."""
    return Grown("triton_add_f32", (ctas, 1, 1), dict.fromkeys(("x", "y", "out"), (1024 * ctas,)), {3: 1024 * ctas})


def _two(make: Callable[[int], Grown], ctas: int, *, sanitizer: bool) -> Callable[[], Race]:
    """Two processes against one, each on a processor of its own."""

    def start() -> Race:
        two, one = (started(make(ctas).file(), sanitizer=sanitizer, workers=workers)[0] for workers in (2, 1))
        return Race(busiest(two), busiest(one), "processor time of the busier process")

    return start


# fmt: off
ROWS_OF_GRIDS = (
    *(Row("run", f"SGEMM on CUDA cores, {ctas:,} CTAs, {'watched' if sanitizer else 'unwatched'}", f"{ctas // 10:,} CTAs", ctas, "CTAs", _ten(_sgemm, ctas, sanitizer=sanitizer),
          rounds=2, long=True) for sanitizer in (False, True) for ctas in (1_000, 10_000)),
    *(Row("run", f"Triton's bf16 product, 1,000 CTAs, {'watched' if sanitizer else 'unwatched'}", "100 CTAs", 1_000, "CTAs", _ten(_triton, 1_000, sanitizer=sanitizer),
          rounds=2, long=True) for sanitizer in (False, True)),
    *(Row("run", f"{what}, {ctas:,} CTAs in two processes, {'watched' if sanitizer else 'unwatched'}", "in one", ctas, "CTAs", _two(make, ctas, sanitizer=sanitizer), asked=asked, rounds=2, long=True)
      for what, make, ctas, asked in (
          ("SGEMM on CUDA cores", _sgemm, 1_000, 0.0), ("SGEMM on CUDA cores", _sgemm, 10_000, TWICE), ("Triton's bf16 product", _triton, 1_000, TWICE),
          ("an elementwise sum of 2^24 float32", _sum, 1 << 14, TWICE)) for sanitizer in (False, True)),
)
# fmt: on
