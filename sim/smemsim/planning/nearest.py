"""The legal tile that differs least from one that is not: fewest arguments changed, and these as little as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.planning.arrangement import Wish

__all__ = ["nearest"]


Change = tuple[float, str, Any]  # how unwelcome, which argument, what instead
MOST_TRIES = 2000
MOST_LOADS = 40  # loading a tile takes a thousand times longer than arranging it
KEPT = ("rows", "k", "dtype", "major", "swizzle", "arch", "side")


def nearest(
    wish: Wish, defaults: dict[str, Any], arranged: Callable[[dict[str, Any]], None], loaded: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The (arguments, names of the changed ones) of the nearest legal plan. At most three arguments change, the least
    change first.

    If there is none, the result is a plan that keeps only the tile and changes it by at most two arguments, else None.
    InputError or Unmodelled is raised by `arranged` for arguments that cannot be arranged, and by `loaded` for those
    that TMA cannot load.
    """
    asked = wish.arguments()
    for given in (asked, asked | {name: value for name, value in defaults.items() if name not in KEPT}):
        found = _search(given, _changes(wish), 3 if given is asked else 2, arranged, loaded)
        if found is not None:
            return found, tuple(name for name, value in found.items() if value != asked[name])
    return None


def _search(
    start: dict[str, Any],
    changes: Iterator[Change],
    most: int,
    arranged: Callable[[dict[str, Any]], None],
    loaded: Callable[[dict[str, Any]], None],
) -> dict[str, Any] | None:
    ordered = sorted(changes, key=lambda c: c[0])
    tries: list[tuple[float, tuple[Change, ...]]] = []
    for count in range(most + 1):
        for several in itertools.combinations(ordered, count):
            if len({name for _, name, _ in several}) == count:
                tries.append((sum(cost for cost, _, _ in several) + 2 * (count - 1), several))
    tries.sort(key=lambda t: t[0])
    loads = 0
    for _, several in tries[:MOST_TRIES]:
        given = start | {name: value for _, name, value in several}
        try:
            arranged(given)
            loads += 1
            loaded(given)
        except (InputError, Unmodelled):
            if loads >= MOST_LOADS:
                return None
            continue
        return given
    return None


def _changes(wish: Wish) -> Iterator[Change]:
    """Every change of one argument that may be enough."""
    yield from _other_tiles(wish)
    yield from _other_instructions(wish)
    yield from _other_places(wish)
    yield from _other_types(wish)


def _other_tiles(wish: Wish) -> Iterator[Change]:
    codes = layout_codes(wish.machine.smem_descriptor).values()
    for mode in MODES.values():
        if mode.swizzle in codes and mode.swizzle is not wish.swizzle:
            yield 1 + abs(math.log2(mode.width / wish.mode.width)) / 4, "swizzle", str(mode.swizzle)
    for name, value in (("rows", wish.rows), ("k", wish.k)):
        for near in sorted({x for unit in (8, 16, 32, 64, 128, 192, 256) for x in (value // unit * unit, -(-value // unit) * unit, unit)}):
            if near not in (0, value):
                yield 1 + abs(math.log2(near / value)), name, near


def _other_instructions(wish: Wish) -> Iterator[Change]:
    for name, given in (("m", wish.m), ("n", wish.n)):
        if given is None:
            continue
        around = {x for unit in (8, 16, 32, 64, 128) for x in (given // unit * unit, -(-given // unit) * unit, given // 2, 2 * given)}
        for near in around:
            if 0 < near <= 256 and near != given:
                yield 0.5 + abs(math.log2(near / given)), name, near
        yield 2, name, None


def _other_places(wish: Wish) -> Iterator[Change]:
    align = LIMITS.smem_alignment
    if wish.base_address % align or wish.base_address < wish.machine.shared_begin:
        yield 0.1, "base_address", max(-(-wish.base_address // align) * align, wish.machine.shared_begin)
    elif wish.base_address > wish.machine.shared_begin:
        yield 0.4, "base_address", wish.machine.shared_begin
    fit = (wish.machine.shared_end - wish.base_address) * 8 // max(wish.rows * wish.k * wish.fmt.bits, 1)
    for stages in sorted({wish.stages - 1, wish.stages - 2, wish.stages // 2, fit, 1}):
        if 0 < stages < wish.stages:
            yield 0.4 + math.log2(wish.stages / stages), "stages", stages
    down = tuple(x // unit * unit for x, unit in zip(wish.at, (1, 128) if wish.major == "K" else (128, 1), strict=True))
    for at in sorted({tuple(x // 16 * 16 for x in wish.at), down, (0, 0)} - {wish.at}):
        yield 0.5 + math.log2(1 + abs(sum(wish.at) - sum(at))) / 16, "at", at


def _other_types(wish: Wish) -> Iterator[Change]:
    if wish.fmt.name == "f32":
        yield 1, "dtype", "tf32"
    if wish.pitch_bytes is not None:
        yield 0.3, "pitch_bytes", -(-wish.pitch_bytes // 32) * 32
        yield 0.6, "pitch_bytes", None
    if wish.matrix is not None:
        yield 0.8, "matrix", None
    if wish.cta_group == 2:
        yield 2.5, "cta_group", 1
    yield 2, "major", "MN" if wish.major == "K" else "K"
    if wish.other_major == "MN":
        yield 2, "other_major", "K"
    if wish.kind is not None:
        yield 2, "kind", None
