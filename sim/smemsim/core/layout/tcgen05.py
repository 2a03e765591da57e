"""Small formulas of tcgen05.mma that are no layout: the zero-column mask and disabled lanes. Pure integers."""

from __future__ import annotations

__all__ = ["is_lane_disabled", "is_zero_column"]


def is_zero_column(start_count: int, first_span: int, skip_span: int, use_span: int, column: int) -> bool:
    """Does the zero-column mask of .ws take column `column` of a band of B as zero?

    Runs of skip_span + 1 masked columns and use_span + 1 used ones follow each other. With `first_span` the pattern
    starts with a masked run. `start_count` columns of the first run are cut off, and at least one column of it is left.
    Documented: PTX ISA 9.1 §9.7.16.4.3, its worked examples. That one column is left is inferred (TIRx-harness
    0.1.2.post2, from an SM100).

    >>> [is_zero_column(0, 1, 0, 2, c) for c in range(6)], [is_zero_column(1, 0, 1, 1, c) for c in range(5)]
    ([True, False, False, False, True, False], [False, True, True, False, False])
    """
    skip, use = skip_span + 1, use_span + 1
    at = (min(start_count, (skip if first_span else use) - 1) + column) % (skip + use)
    return at < skip if first_span else at >= use


def is_lane_disabled(words: tuple[int, ...], cta: int, lane: int) -> bool:
    """Does disable-output-lane keep a lane of D as it was? Bit i of the words is lane i, of the second CTA of a pair
    lane i + 128.

    Documented: PTX ISA 9.1 §9.7.16.10.9 (4 words, 8 for a pair); the order of the CTAs is inferred.

    >>> is_lane_disabled((0, 2, 0, 0), 0, 33), is_lane_disabled((0, 2, 0, 0), 0, 32)
    (True, False)
    """
    at = 128 * cta + lane
    return bool(words[at // 32] >> at % 32 & 1)
