"""Instructions that the threads of a warp execute together: shfl, vote, match, redux, elect, activemask, bar.warp.sync
(PTX ISA 9.1 §9.7.9.6, 9.7.13).

Every instruction waits until all threads that its member mask names are at it; threads that have exited are not
waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Immediate, Instruction, Operand, Pair, Register, Sink
from smemsim.core.spec.operation_types import REDUX_TYPES
from smemsim.run.engine.traps import thread_name
from smemsim.run.engine.wave import ALL, FULL_MASK, GATHERING, PARKED, WARP
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registry import ON_EXIT, Gate, Plain, Step, implements, limit, unmodelled
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["ballot", "gathering", "members_of", "source_lanes"]


_FULL = 0xFFFFFFFF


def gathering(i: Instruction, c: Linker, mask: Operand, run: Plain) -> Gate:
    """An operation of the threads that a member mask names."""
    if isinstance(mask, Immediate) and mask.value & _FULL == _FULL:
        return Gate(lambda x: x.gather(), run)
    members = _own_members(i, c, mask)
    return Gate(lambda x: x.gather(WARP, members(x)), run)


def _own_members(i: Instruction, c: Linker, mask: Operand) -> Callable[[Wave], np.ndarray]:
    """The member masks of the running threads. A thread that is not in its own mask is X011, and waits for the threads
    in the mask, as if it were.

    A V100 whose lanes had converged let all of them take part, whatever the mask
    (forums.developer.nvidia.com/t/67697). NVIDIA's own test of `cuda::device::warp_match_all` has such threads.
    """
    read = c.read(mask, "u32")

    def checked(x: Wave) -> np.ndarray:
        members: np.ndarray = np.broadcast_to(read(x), (x.n,))
        if (members == FULL_MASK).all():
            return members
        own: np.ndarray = np.uint32(1) << x.grid.lane[x.sel].astype(np.uint32)
        outside = members & own == 0
        if outside.any():
            thread = int(x.threads[int(outside.argmax())])
            message = f"{i.name}: {thread_name(x, thread)} executes it and is not in its own member mask: what it gets is undefined"
            x.launch.find(
                "X011", i, message, "name every thread that gets here in the mask, or branch around", because="PTX ISA 9.1 §9.7.13",
                numbers={"lanes": int(ballot(x, None)[int(outside.argmax())])},
            )  # fmt: skip
        own |= members
        return own

    return checked


def members_of(c: Linker, mask: Operand) -> Callable[[Wave], Any]:
    """The member masks of the running threads, of those that have not exited."""
    read = c.read(mask, "u32")
    return lambda x: read(x) & ballot(x, None)


def _warp(x: Wave) -> np.ndarray:
    """The warps of the running threads."""
    found: np.ndarray = x.alike("warp", lambda: np.arange(x.total) // WARP)[x.sel]
    return found


def ballot(x: Wave, holds: Any) -> np.ndarray:
    """A word for every running thread: which running threads of its warp have a predicate (None: all of them)."""
    whole = np.zeros(x.total, bool)
    whole[x.sel] = True if holds is None else holds
    words: np.ndarray = np.packbits(whole.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)[:, 0][_warp(x)]
    return words


def spread(x: Wave, values: Any) -> np.ndarray:
    """Values of the running threads in an array of all."""
    given: np.ndarray = np.asarray(values)
    if x.n == x.total and given.ndim:
        return given
    out = np.zeros(x.total, given.dtype)
    out[x.sel] = given
    return out


def results(c: Linker, operand: Operand, kind: str) -> tuple[Any, Any]:
    """How to write `d|p` or `d`, which has no predicate."""
    first, second = (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())
    return c.write(first, kind), c.write(second, "pred")


@implements("shfl")
def build_shfl(i: Instruction, c: Linker) -> Step:
    """`shfl.sync.mode.b32 d|p, a, b, c, membermask`: the value of another lane, 0 of one that is elsewhere or has
    exited.
    """
    words = Modifiers(i, "b32")
    if not words.has("sync"):
        raise limit(i, "only shfl.sync exists since sm_70")
    mode = words.need(*_LANES)
    words.end()
    write, write_pred = results(c, i.operands[0], "b32")
    source, b, bounds = i.operands[1], c.read(i.operands[2], "u32"), c.read(i.operands[3], "u32")
    slot = source.slot if isinstance(source, Register) and source.type in ("b32", "u32", "s32", "f32") else None
    read, mask = c.read(source, "b32"), c.read(i.operands[4], "u32")

    def lanes(x: Wave, sel: Any, by: Any, bound: Any) -> tuple[np.ndarray, np.ndarray]:
        lane = x.grid.lane[sel]
        source, inside = source_lanes(mode, lane, by, bound)
        return x.alike("everybody", lambda: np.arange(x.total))[sel] - lane + source, inside

    def shuffle(x: Wave) -> None:
        by, bound = np.asarray(b(x)), np.asarray(bounds(x))
        first, last = int(by.flat[0]), int(bound.flat[0])
        if (by == first).all() and (bound == last).all():
            places, inside = x.alike(("shfl", mode, first, last), lambda: lanes(x, slice(None), first, last))
            if x.n != x.total:
                places, inside = places[x.sel], inside[x.sel]
        else:
            places, inside = lanes(x, x.sel, by.astype(np.int64), bound.astype(np.int64))
        everybody = x.r[slot] if slot is not None else spread(x, np.broadcast_to(read(x), (x.n,)))
        values = everybody[places]
        if x.n != x.total:  # a lane that takes no part gives 0 (trace launches; undefined in the PTX ISA)
            values = np.where(spread(x, np.ones(x.n, bool))[places], values, values.dtype.type(0))
        if x.taint is not None:
            undefined = _undefined(x, mask(x), places)
            if undefined is not None or x.taint.slots:
                x.taint.shuffled(i, x.threads, places, undefined)
        write(x, values)
        write_pred(x, inside)

    return gathering(i, c, i.operands[4], shuffle)


def _undefined(x: Wave, mask: Any, places: np.ndarray) -> np.ndarray | None:
    """Which of the running threads read, at `places`, a thread that takes no part or that their member mask does not
    name; None: none of them.
    """
    named = np.asarray(mask)
    everybody = bool((named == FULL_MASK).all())
    if x.n == x.total and everybody:
        return None
    undefined: np.ndarray = ~spread(x, np.ones(x.n, bool))[places]
    if not everybody:
        undefined |= named >> (places & (WARP - 1)).astype(np.uint32) & np.uint32(1) == 0
    return undefined if undefined.any() else None


# (lane, b, lowest lane of the segment, bound, segment mask) -> (source lane, is it inside); PTX ISA 9.1 §9.7.9.6.
_LANES: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "up": lambda lane, b, lowest, bound, segment: (lane - b, lane - b >= bound),
    "down": lambda lane, b, lowest, bound, segment: (lane + b, lane + b <= bound),
    "bfly": lambda lane, b, lowest, bound, segment: (lane ^ b, lane ^ b <= bound),
    "idx": lambda lane, b, lowest, bound, segment: (lowest | (b & ~segment), (lowest | (b & ~segment)) <= bound),
}


def source_lanes(mode: str, lane: np.ndarray, by: Any, bound: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which lane each of these lanes gets its value from by `shfl`, with its operands b and c; and whether that is
    inside of its segment.
    """
    segment, clamp = bound >> 8 & 31, bound & 31
    lowest = lane & segment
    j, inside = _LANES[mode](lane, by & 31, lowest, lowest | (clamp & ~segment), segment)
    return np.where(inside, j, lane), inside


@implements("vote")
def build_vote(i: Instruction, c: Linker) -> Step:
    """`vote.sync.mode d, p, membermask`; ptxas takes the modifiers in any order, and CUB writes `vote.ballot.sync`."""
    if "sync" not in i.modifiers or len(i.modifiers) != 3:
        raise limit(i, "only vote.sync exists since sm_70")
    mode, kind = (m for m in i.modifiers if m != "sync")
    if (mode, kind) not in (("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32")):
        raise unmodelled(i)
    read, members, write = c.read(i.operands[1], "pred"), members_of(c, i.operands[2]), c.write(i.operands[0], kind)

    def vote(x: Wave) -> None:
        mask = members(x)
        word = ballot(x, read(x)) & mask
        if mode == "ballot":
            write(x, word)
        elif mode == "any":
            write(x, word != 0)
        else:
            write(x, (word == mask) if mode == "all" else (word == mask) | (word == 0))

    return gathering(i, c, i.operands[2], vote)


@implements("match")
def build_match(i: Instruction, c: Linker) -> Step:
    """`match.any.sync d, a, membermask`: the members with the thread's value; `match.all.sync d|p`: whether all
    members have one value.
    """
    words = Modifiers(i, "sync")
    which, kind = words.need("any", "all"), words.need("b32", "b64")
    words.end()
    if which == "any" and isinstance(i.operands[0], Pair):
        raise unmodelled(i, "a predicate, which .all has")
    write, write_pred = results(c, i.operands[0], "b32")
    read, members, of_all = c.read(i.operands[1], kind), members_of(c, i.operands[2]), which == "all"

    def match(x: Wave) -> None:
        mask = members(x)
        values = spread(x, np.broadcast_to(read(x), (x.n,))).reshape(-1, WARP)
        same = values[:, :, None] == values[:, None, :]
        words = np.packbits(same, axis=2, bitorder="little").view(np.uint32).reshape(-1)[x.sel] & mask
        if of_all:
            agree = words == mask
            write(x, np.where(agree, mask, np.uint32(0)))
            write_pred(x, agree)
        else:
            write(x, words)

    return gathering(i, c, i.operands[2], match)


@implements("redux")
def build_redux(i: Instruction, c: Linker) -> Step:
    """`redux.sync.op.type d, a, membermask`; f32 from sm_100a on."""
    rest = list(i.modifiers)
    if rest[:1] != ["sync"] or len(rest) < 3:
        raise unmodelled(i)
    op, kind, flags = rest[1], rest[-1], set(rest[2:-1])
    if kind == "f32":
        if op not in ("min", "max") or flags - {"abs", "NaN"}:
            raise unmodelled(i, "redux of f32 is min and max")
        reduce: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda v, inside: _extremum(v, inside, op == "max", flags)  # noqa: E731
        carrier = "b32"
    else:
        if flags or kind not in REDUX_TYPES.get(op, ()):
            raise unmodelled(i)
        ufunc = _UFUNCS[op]
        carrier = kind
        limits = np.iinfo(np.int32 if kind == "s32" else np.uint32)
        neutral = {"min": limits.max, "max": limits.min, "and": _FULL}.get(op, 0)
        reduce = lambda v, inside: ufunc.reduce(np.where(inside, v, v.dtype.type(neutral)), axis=1, dtype=v.dtype)  # noqa: E731
    read, members, write = c.read(i.operands[1], carrier), members_of(c, i.operands[2]), c.write(i.operands[0], carrier)

    def redux(x: Wave) -> None:
        mask = members(x)
        values = spread(x, np.broadcast_to(read(x), (x.n,)))
        masks = spread(x, mask).reshape(-1, WARP)
        rows = values.reshape(-1, WARP)
        out = np.zeros(x.total, values.dtype)
        named = (masks >> np.arange(WARP, dtype=np.uint32) & 1).astype(bool)
        # Groups of one warp with masks of their own: each by its first thread that is not done yet.
        left = masks != 0
        while left.any():
            first = masks[np.arange(len(masks)), left.argmax(axis=1)]
            inside = (masks == first[:, None]) & left
            out.reshape(-1, WARP)[inside] = np.repeat(reduce(rows, inside & named)[:, None], WARP, axis=1)[inside]
            left &= ~inside
        write(x, out[x.sel])

    return gathering(i, c, i.operands[2], redux)


_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _extremum(bits: np.ndarray, inside: np.ndarray, largest: bool, flags: set[str]) -> np.ndarray:
    """min or max of floats by their bits: -0 lies below +0; with .NaN any NaN wins, else numbers do."""
    v = (bits & np.uint32(0x7FFFFFFF) if "abs" in flags else bits).view(np.int32)
    nan = (v & 0x7FFFFFFF) > 0x7F800000
    order = np.where(v < 0, v ^ 0x7FFFFFFF, v)
    limits = np.iinfo(np.int32)
    order = np.where(inside & ~nan, order, np.int32(limits.min if largest else limits.max))
    best = order.max(axis=1) if largest else order.min(axis=1)
    extremum = np.where(best < 0, best ^ 0x7FFFFFFF, best).view(np.uint32)
    no_number = (nan & inside).any(axis=1) if "NaN" in flags else ~(inside & ~nan).any(axis=1)
    return np.where(no_number, np.uint32(0x7FFFFFFF), extremum)


@implements("elect")
def build_elect(i: Instruction, c: Linker) -> Step:
    """`elect.sync d|p, membermask`: the lowest member; PTX promises one of them, always the same for the same mask."""
    if i.modifiers != ("sync",) or not isinstance(i.operands[0], Pair) or isinstance(i.operands[0].second, Sink):
        raise unmodelled(i, "" if i.modifiers != ("sync",) else "without a predicate: d|p")
    write, write_pred = results(c, i.operands[0], "b32")
    members, mask_operand = members_of(c, i.operands[1]), i.operands[1]
    # of a mask in the program, with all lanes here
    always = _lowest(np.array([mask_operand.value & 0xFFFFFFFF], np.uint32)) if isinstance(mask_operand, Immediate) else None

    def elect(x: Wave) -> None:
        leader = always if always is not None and x.sel is ALL else _lowest(members(x))
        write(x, leader)
        write_pred(x, leader.astype(np.int64) == x.grid.lane[x.sel])

    return gathering(i, c, i.operands[1], elect)


def _lowest(mask: np.ndarray) -> np.ndarray:
    """The lowest lane of each mask."""
    lowest = mask & (~mask + np.uint32(1))
    found: np.ndarray = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
    return found


@implements("activemask")
def build_activemask(i: Instruction, c: Linker) -> Step:
    """The threads of the warp that execute together now."""
    Modifiers(i, "b32").end()
    write = c.write(i.operands[0], "b32")
    return lambda x: write(x, ballot(x, None))


def bar_warp(i: Instruction, c: Linker) -> Step:
    """`bar.warp.sync membermask`: any of these instructions will do, so that both sides of a branch may have one of
    their own.
    """
    members = _own_members(i, c, i.operands[0])

    def opens(x: Wave) -> bool:
        threads = x.threads
        free = threads[x.positions.met[threads]]
        if not free.size:
            return x.gather(WARP, members(x), meeting=_warp_barriers(x))
        x.positions.met[free] = False
        late = threads[~np.isin(threads, free, assume_unique=True)]
        if late.size:
            x.select(late)
            if x.gather(WARP, members(x), meeting=_warp_barriers(x)):
                free = np.union1d(free, x.threads)
        x.select(free)
        return True

    return Gate(opens, lambda x: None)


_WARP_BARRIERS: Slot[list[int]] = Slot(
    lambda x: [b.index for b in x.program.blocks if b.instructions[0].name in ("bar.warp.sync", "barrier.warp.sync")]
)


def _warp_barriers(x: Wave) -> Sequence[int]:
    """The blocks that begin with a bar.warp.sync, when there are several."""
    blocks = _WARP_BARRIERS(x)
    return blocks if len(blocks) > 1 else ()


def _exited(x: Wave, threads: np.ndarray) -> None:
    """Wake the waits for threads that have exited, to check again."""
    if x.positions.together is not None:
        return  # no thread waits
    waits = (x.pc >= GATHERING) & (x.pc < PARKED)
    if waits.any():
        x.pc[waits] -= GATHERING


ON_EXIT.append(_exited)
