"""Release and acquire patterns on an address: which threads of an access synchronise there, and in which order those
of several warps do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.run.accesses import Piece

if TYPE_CHECKING:
    from smemsim.run.views import Ordering, Wave

__all__ = ["acquire", "release"]


# threads, and what they touch: a space, its memory, the place there
Access: TypeAlias = tuple[np.ndarray, tuple[str, int, int]]


def acquire(sanitizer: Any, x: Wave, piece: Piece, order: Ordering) -> None:
    """The threads of a piece have seen what was released at their addresses."""
    if _is_apart(sanitizer, x, piece, order):
        return
    for alike in _by_warps((threads, what) for threads, what in _by_address(x, piece) if not _takes_turns(threads, what, order)):
        sanitizer.loaded(alike, relaxed=not order.acquires, scope=order.level)


def release(sanitizer: Any, x: Wave, piece: Piece, order: Ordering, which: np.ndarray | None = None) -> None:
    """The threads of a piece, or those in `which`, write and release their knowledge at their addresses.

    If several warps do so atomically at one address, each has seen those before it, and not those after it.
    """
    if _is_apart(sanitizer, x, piece, order):
        return
    wrote = np.ones(x.total, bool)
    if which is not None:
        wrote[(x.threads if piece.part is None else x.threads[piece.part])[~which]] = False
    given: dict[str, Any] = {"relaxed": not order.releases, "replaces": not order.is_atomic, "scope": order.level}
    apart, turns = [], []
    for threads, what in _by_address(x, piece):
        if _takes_turns(threads, what, order):
            turns.append((threads, what))
        else:
            apart.append((threads[wrote[threads]], what))
    # Lanes whose warp has other lanes that must hear of them: each releases alone.
    are_followed = bool(turns and (sanitizer.apart.missing_writes.stores or len(sanitizer.apart.missing_reads.loads)))
    for some in [each for access in turns for each in _in_turn([access])] if are_followed else _in_turn(turns):
        for alike in some:
            sanitizer.loaded(alike, relaxed=not order.acquires, scope=order.level)
            if stored := alike if which is None else [(own[wrote[own]], what) for own, what in alike if wrote[own].any()]:
                sanitizer.stored(stored, **given)
    for alike in _by_warps((threads, what) for threads, what in apart if len(threads)):
        sanitizer.stored(alike, **given)


def _is_apart(sanitizer: Any, x: Wave, piece: Piece, order: Ordering) -> bool:
    """Does an atomic synchronise nothing: is it relaxed, with nothing to pass on?"""
    if not order.is_atomic or order.acquires or order.releases or piece.space == "local":
        return False
    threads, memory = x.threads if piece.part is None else x.threads[piece.part], piece.memory.__array_interface__["data"][0]
    return not sanitizer.hands_on_at(threads, piece.space, memory, piece.at)


def _takes_turns(threads: np.ndarray, what: tuple[str, int, int], order: Ordering) -> bool:
    return what[0] == "global" and order.is_atomic and order.reads and order.writes and threads[0] >> 5 != threads[-1] >> 5


def _by_address(x: Wave, piece: Piece) -> list[Access]:
    if piece.space == "local":
        return []
    threads, at = x.threads if piece.part is None else x.threads[piece.part], piece.at
    memory = piece.memory.__array_interface__["data"][0]
    order = np.argsort(at, kind="stable")
    ascending = at[order]
    begins = np.flatnonzero(np.diff(ascending, prepend=ascending[:1] - 1))
    return [
        (own, (piece.space, memory, place))
        for own, place in zip(np.split(threads[order], begins[1:]), ascending[begins].tolist(), strict=True)
    ]


def _by_warps(accesses: Iterable[Access]) -> Iterable[list[Access]]:
    """Accesses of different addresses by the warps of their threads."""
    alike: dict[tuple[int, ...], list[Access]] = {}
    for access in accesses:
        warps = access[0] >> 5
        alike.setdefault((int(warps[0]),) if warps[0] == warps[-1] else tuple(distinct(warps).tolist()), []).append(access)
    return alike.values()


def _in_turn(accesses: list[Access]) -> Iterable[list[list[Access]]]:
    """Accesses of addresses by several warps each, in turn. Addresses at which the same warps come, and none of these
    elsewhere in between, form a group. Yields, for each group, the part of the first warp at all of them, then that
    of the second one, and so on. Clocks belong to warps: what a warp learns at one of these addresses, it passes on
    at all.
    """
    groups: list[list[list[Access]]] = []
    last: dict[int, int] = {}  # by warp: the group in which it came last
    of: dict[tuple[int, ...], int] = {}
    for threads, what in accesses:
        of_threads = (threads >> 5).tolist()
        begins = [0, *(k for k in range(1, len(of_threads)) if of_threads[k] != of_threads[k - 1]), len(of_threads)]
        each = [threads[begin:end] for begin, end in itertools.pairwise(begins)]
        warps = tuple(of_threads[begin] for begin in begins[:-1])
        n = of.get(warps, -1)
        if n < 0 or any(last[warp] != n for warp in warps):
            n = of[warps] = len(groups)
            groups.append([[] for _ in warps])
            last.update(dict.fromkeys(warps, n))
        for alike, own in zip(groups[n], each, strict=True):
            alike.append((own, what))
    return groups
