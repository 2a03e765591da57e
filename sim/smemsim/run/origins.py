"""Which bytes of global memory are in registers, shared and tensor memory because threads have copied them, byte by
byte.

Only registers that carry such bytes to a store or to an mma.sync are followed (`run/lower/copied.py`). If scale factors
or metadata are checked, all of these are followed. In other programs the first ones are (`run/followed.py`).

Values that threads compute have no origin. Chunks of 16 bytes of shared memory that such stores wrote last have a
writer of their own, COPIES. Other stores make it THREADS, and the origins are dropped.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.core.machine.global_memory import FOREIGN
from smemsim.core.ptx.module import Immediate, Instruction, Operand, Register, Sink, Vector
from smemsim.core.spec.launches import SHARED_WINDOW
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.tensor_memory import COLUMNS, LANES
from smemsim.run.engine.wave import COPIES
from smemsim.run.followed import follows, note
from smemsim.run.isa.memory.spaces import locate
from smemsim.run.isa.registers import bits_of, storage
from smemsim.run.isa.registry import FOLLOWERS, End, Gate, Step

if TYPE_CHECKING:
    from smemsim.run.accesses import Piece
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = [
    "CELL",
    "LOADS",
    "FollowedStore",
    "Origins",
    "cells_in_order",
    "followed",
    "followed_copy",
    "followed_rows",
    "followed_store",
    "followed_stores",
    "multiplies",
    "origins_of",
    "origins_of_bytes",
]

BYTE, CELL = 8, 4  # bits, bytes
SPACES = ("global", "shared", "param", "const", "local")
PAGE = 1 << 10  # bytes by which a table grows
A_PRODUCT = 64  # bytes of its operands that are stored, of a program that has mma.sync alone
MOST = 1 << 23  # bytes of all CTAs of a wave that a table has entries for
Act: TypeAlias = Callable[["Wave"], None]
# (threads that run, bytes): int64, addresses of global memory, or FOREIGN
Origin: TypeAlias = Callable[["Wave"], np.ndarray]


class Table:
    """The origins of the bytes of a memory that every CTA of a wave has `pitch` of, from the first byte that has one
    to the last.
    """

    def __init__(self, ctas: int, pitch: int) -> None:
        self.pitch, self.first = pitch, 0
        self._origins = np.full((ctas, 0), FOREIGN, np.int64)
        self.is_full = False

    def put(self, at: np.ndarray, origins: np.ndarray) -> None:
        """Set the origins of bytes at places, of all CTAs one after the other."""
        if not at.size or self.is_full:
            return
        cta, byte = np.divmod(at, self.pitch)
        low, high = int(byte.min()), int(byte.max()) + 1
        if (low < self.first or high > self.first + self._origins.shape[1]) and not self._grow(low, high):
            return
        self._origins[cta, byte - self.first] = origins

    def _grow(self, low: int, high: int) -> bool:
        ctas, count = self._origins.shape
        first, end = (min(low, self.first), max(high, self.first + count)) if count else (low, high)
        first, end = first // PAGE * PAGE, -(-end // PAGE) * PAGE
        self.is_full = ctas * (end - first) > MOST
        if self.is_full:
            self._origins = self._origins[:, :0]
            return False
        new = np.full((ctas, end - first), FOREIGN, np.int64)
        new[:, self.first - first : self.first - first + count] = self._origins
        self.first, self._origins = first, new
        return True

    def forget(self, at: np.ndarray) -> None:
        """Nothing is known of bytes at places any more."""
        cta, byte = np.divmod(at, self.pitch)
        inside = (byte >= self.first) & (byte < self.first + self._origins.shape[1])
        self._origins[cta[inside], byte[inside] - self.first] = FOREIGN

    def of(self, cta: int, byte: np.ndarray) -> np.ndarray:
        """The origins of bytes of a CTA."""
        count = self._origins.shape[1]
        if count and byte.min() >= self.first and byte.max() < self.first + count:
            every: np.ndarray = self._origins[cta][byte - self.first]
            return every
        inside = (byte >= self.first) & (byte < self.first + count)
        if not count or not inside.any():
            return np.full(byte.shape, FOREIGN, np.int64)
        found: np.ndarray = np.where(inside, self._origins[cta, np.where(inside, byte - self.first, 0)], FOREIGN)
        return found


class Origins:
    """The origins in the registers of a wave's threads, its shared and its tensor memory."""

    def __init__(self, x: Wave) -> None:
        self._total = x.total
        self._registers: dict[int, np.ndarray] = {}
        self.shared = Table(len(x.ctas), x.pitch)
        self.tensor = Table(len(x.ctas), LANES * COLUMNS * CELL)
        self.writers: dict[
            int, Instruction
        ] = {}  # of each column of tensor memory the last instruction that has stored bytes there that are followed

    def register(self, slot: int) -> np.ndarray | None:
        """(threads, bytes) of a register; None: of none of its bytes anything is known."""
        return self._registers.get(slot)

    def give(self, slot: int, width: int, threads: np.ndarray | slice, origins: np.ndarray) -> None:
        """The registers of some threads have these origins."""
        held = self._registers.get(slot)
        if held is None:
            held = self._registers[slot] = np.full((self._total, width), FOREIGN, np.int64)
        held[threads] = origins

    def in_shared(self, cta: int, byte: np.ndarray) -> np.ndarray:
        """The origins of bytes of a CTA's window."""
        return self.shared.of(cta, byte)

    def forget_columns(self, cta: int, first: int, end: int) -> None:
        """Something that is not followed has been written to columns of a CTA's tensor memory."""
        begin = cta * LANES * COLUMNS * CELL
        self.tensor.forget(np.arange(begin + first * LANES * CELL, begin + end * LANES * CELL))

    def in_tensor(self, cta: int, lane: np.ndarray, column: np.ndarray, byte: np.ndarray) -> np.ndarray:
        """The origins of bytes of cells of tensor memory."""
        return self.tensor.of(cta, (column * LANES + lane) * CELL + byte)


def origins_of(x: Wave) -> Origins | None:
    """The origins of a wave; None if they are not followed: no check needs them, or operations complete later."""
    if not x.launch.checks_operands or x.in_flight is not None or not follows(x.launch):
        return None
    if x.origins is None:
        x.origins = Origins(x)
    found: Origins = x.origins
    return found


def multiplies(x: Wave, warps: int) -> None:
    """So many warps execute an mma.sync whose operands are asked for."""
    note(x.launch, products=warps)
    _may_stop(x)


def _may_stop(x: Wave) -> None:
    """The owners of shared memory are needed no more if a launch is not followed any further."""
    if not follows(x.launch):
        x.memories.has_owners = x.launch.program.needs_owners


# ---- bytes of operands


def _of(operand: Operand, width: int) -> tuple[Origin, Origin] | None:
    """The values and the origins of an operand's first bytes, zeros without an origin after it; None for operands that
    are not followed.
    """
    if isinstance(operand, Vector):
        each = [_of(item, _width(item)) for item in operand.items]
        known = [one for one in each if one is not None]
        if len(known) < len(each) or sum(map(_width, operand.items)) != width:
            return None
        return tuple(_joined([one[n] for one in known]) for n in range(2))  # type: ignore[return-value]
    if isinstance(operand, Immediate) and operand.kind == "int":
        number = np.frombuffer((operand.value & (1 << BYTE * width) - 1).to_bytes(width, "little"), np.uint8)
        return (lambda x: np.broadcast_to(number, (x.n, width))), (lambda x: np.full((x.n, width), FOREIGN, np.int64))
    if not isinstance(operand, Register) or operand.part or operand.negated or operand.type in ("pred", "b128"):
        return None
    slot, size = operand.slot, _width(operand)

    def values(x: Wave) -> np.ndarray:
        held = np.ascontiguousarray(x.r[slot][x.sel]).view(np.uint8).reshape(-1, size)
        return _fitted(held, width, 0)

    def origins(x: Wave) -> np.ndarray:
        held = x.origins.register(slot)
        return np.full((x.n, width), FOREIGN, np.int64) if held is None else _fitted(held[x.sel], width, FOREIGN)

    return values, origins


def _width(operand: Operand) -> int:
    """The bytes of a register."""
    return storage(operand.type).itemsize if isinstance(operand, Register) and operand.type != "pred" else 0


def _joined(parts: Sequence[Origin]) -> Origin:
    return lambda x: np.concatenate([part(x) for part in parts], axis=1)


def _fitted(held: np.ndarray, width: int, rest: int) -> np.ndarray:
    """The first bytes of each row, and `others` after the last one."""
    if held.shape[1] >= width:
        return held[:, :width]
    return np.concatenate([held, np.full((len(held), width - held.shape[1]), rest, held.dtype)], axis=1)


def _moved(held: np.ndarray, by: int) -> np.ndarray:
    """Bytes so many places up (down, if negative), nothing known at the other end."""
    found, width = np.full(held.shape, FOREIGN, np.int64), held.shape[1]
    if abs(by) < width:
        found[:, max(by, 0) : width + min(by, 0)] = held[:, max(-by, 0) : width - max(by, 0)]
    return found


# ---- what instructions make of them


def _merged(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray], *, adds: bool) -> tuple[np.ndarray, np.ndarray]:
    """The (values, origins) of a sum or a disjunction: a byte combined with a zero one stays what it is. If it `adds`,
    a carry may change all of the register.
    """
    (a, of_a), (b, of_b) = one, two
    is_a, is_b = (b == 0) & ((a != 0) | (of_b == FOREIGN)), (a == 0) & ((b != 0) | (of_a == FOREIGN))
    found = np.where(is_a, of_a, np.where(is_b, of_b, FOREIGN))
    if adds:
        found[((a != 0) & (b != 0)).any(axis=1)] = FOREIGN
    return a | b, found


def _sum(i: Instruction, width: int) -> Origin | None:
    """or, xor, and add of whole numbers."""
    one, two = (_of(operand, width) for operand in i.operands[1:3])
    if one is None or two is None or len(i.operands) != 3 or len(i.modifiers) != 1 or i.modifiers[0][0] not in "bus":
        return None
    adds = i.op == "add"
    return lambda x: _merged((one[0](x), one[1](x)), (two[0](x), two[1](x)), adds=adds)[1]


def _multiple(i: Instruction, width: int) -> Origin | None:
    """mul and mad by a number whose bytes are 0 or 1, which repeats bytes or moves them."""
    one, by = _of(i.operands[1], width), i.operands[2]
    more = _of(i.operands[3], width) if len(i.operands) > 3 else None
    if i.modifiers[:1] not in (("lo",), ("wide",)) or len(i.modifiers) != 2:
        return None
    if one is None or not isinstance(by, Immediate) or by.kind != "int" or (len(i.operands) > 3 and more is None):
        return None
    digits = [by.value >> BYTE * n & 0xFF for n in range(width)]
    if by.value <= 0 or max(digits) > 1 or by.value >> BYTE * width:
        return None

    def origins(x: Wave) -> np.ndarray:
        values, held = one[0](x), one[1](x)
        nothing = np.zeros(values.shape, np.uint8), np.full(held.shape, FOREIGN, np.int64)
        found = nothing if more is None else (more[0](x), more[1](x))
        for n, digit in enumerate(digits):
            if digit:
                moved = np.zeros(values.shape, np.uint8)
                moved[:, n:] = values[:, : width - n]
                found = _merged(found, (moved, _moved(held, n)), adds=True)
        return found[1]

    return origins


def _and(i: Instruction, width: int) -> Origin | None:
    """Bytes under a mask of ones stay."""
    one, two = (_of(operand, width) for operand in i.operands[1:3])
    if one is None or two is None:
        return None

    def origins(x: Wave) -> np.ndarray:
        found: np.ndarray = np.where(two[0](x) == 0xFF, one[1](x), np.where(one[0](x) == 0xFF, two[1](x), FOREIGN))
        return found

    return origins


def _masked(i: Instruction, width: int) -> Origin | None:
    """Elements of bytes under an immediate mask stay where they are."""
    one = _of(i.operands[1], width)
    return None if one is None or not isinstance(i.operands[2], Immediate) else one[1]


def _number(operand: Operand) -> Callable[[Wave], int | None]:
    """A number that all threads have; None where they have several."""
    if isinstance(operand, Immediate):
        value = operand.value
        return lambda x: value
    if not isinstance(operand, Register):
        return lambda x: None
    slot = operand.slot

    def number(x: Wave) -> int | None:
        values = x.r[slot][x.sel]
        return int(values[0]) if len(values) and (values == values[0]).all() else None

    return number


def _shift(i: Instruction, width: int, *, within: bool = False) -> Origin | None:
    """A shift by whole bytes. It may also be within bytes, if only the byte of an element matters."""
    one, by = _of(i.operands[1], width), _number(i.operands[2])
    if one is None:
        return None
    sign = 1 if i.op == "shl" else -1

    def origins(x: Wave) -> np.ndarray:
        bits = by(x)
        held = one[1](x)
        is_unknown = bits is None or (bits % BYTE and not within)
        return np.full(held.shape, FOREIGN, np.int64) if is_unknown or bits is None else _moved(held, sign * (bits // BYTE))

    return origins


def _extract(i: Instruction, width: int) -> Origin | None:
    one, numbers = _of(i.operands[1], width), [_number(operand) for operand in i.operands[2:4]]
    if one is None or len(numbers) != 2:
        return None

    def origins(x: Wave) -> np.ndarray:
        begin, count = (number(x) for number in numbers)
        held = one[1](x)
        if begin is None or count is None or begin % BYTE or count % BYTE:
            return np.full(held.shape, FOREIGN, np.int64)
        return _fitted(_moved(held, -begin // BYTE)[:, : count // BYTE], width, FOREIGN)

    return origins


def _insert(i: Instruction, width: int) -> Origin | None:
    one, two, numbers = _of(i.operands[1], width), _of(i.operands[2], width), [_number(operand) for operand in i.operands[3:5]]
    if one is None or two is None or len(numbers) != 2:
        return None

    def origins(x: Wave) -> np.ndarray:
        begin, count = (number(x) for number in numbers)
        into = two[1](x).copy()
        if begin is None or count is None or begin % BYTE or count % BYTE:
            into[:] = FOREIGN
            return into
        at, end = begin // BYTE, min((begin + count) // BYTE, width)
        into[:, at:end] = one[1](x)[:, : max(end - at, 0)]
        return into

    return origins


def _permute(i: Instruction, width: int) -> Origin | None:
    one, two, picks = (_of(operand, CELL) for operand in i.operands[1:4])
    if i.modifiers != ("b32",) or width != CELL or one is None or two is None or picks is None:
        return None

    def origins(x: Wave) -> np.ndarray:
        low = picks[0](x)[:, :2]
        nibbles = np.stack([low[:, 0] & 15, low[:, 0] >> 4, low[:, 1] & 15, low[:, 1] >> 4], axis=1).astype(np.int64)
        both = np.concatenate([one[1](x), two[1](x)], axis=1)
        found: np.ndarray = np.where(nibbles > 7, FOREIGN, np.take_along_axis(both, nibbles & 7, axis=1))
        return found

    return origins


def _select(i: Instruction, width: int) -> Origin | None:
    one, two, chooses = _of(i.operands[1], width), _of(i.operands[2], width), i.operands[3]
    if one is None or two is None or not isinstance(chooses, Register):
        return None
    slot, negated = chooses.slot, chooses.negated
    return lambda x: np.where((x.r[slot][x.sel] ^ negated)[:, None], one[1](x), two[1](x))


def _convert(i: Instruction, width: int) -> Origin | None:
    """Whole numbers: bytes beyond the source have no origin."""
    if len(i.modifiers) != 2 or not all(m[0] in "usb" and m[1:].isdigit() for m in i.modifiers):
        return None
    size = min(bits_of(m) // BYTE for m in i.modifiers)
    one = _of(i.operands[1], size)
    return None if one is None else lambda x: _fitted(one[1](x), width, FOREIGN)


def _move(i: Instruction, width: int) -> Origin | None:
    one = _of(i.operands[1], width)
    return None if one is None else one[1]


_FORMS: dict[str, Callable[[Instruction, int], Origin | None]] = {
    "add": _sum, "and": _and, "bfe": _extract, "bfi": _insert, "cvt": _convert, "mad": _multiple, "mov": _move, "mul": _multiple, "or": _sum, "prmt": _permute, "selp": _select, "shl": _shift,
    "shr": _shift, "xor": _sum,
}  # fmt: skip


def _load(i: Instruction, c: Linker, width: int) -> Origin | None:
    """The bytes of a load: those of global memory, and of shared memory what these are; None for other state spaces."""
    space = next((m for m in i.modifiers if m.partition("::")[0] in SPACES), None)
    if space not in (None, "global") and not space.startswith("shared"):
        return None
    address = c.address(i.operands[1])
    if space == "global":
        return lambda x: np.broadcast_to(np.asarray(address(x)), (x.n,))[:, None] + np.arange(width)
    find = locate(i, c, i.operands[1], space, width, align=1)

    def origins(x: Wave) -> np.ndarray:
        at = np.broadcast_to(np.asarray(address(x)), (x.n,))
        found = at[:, None] + np.arange(width)
        if space is None and not (at >> 32 == SHARED_WINDOW >> 32).any():
            return found
        found[:] = FOREIGN
        for piece in find(x):
            part = slice(None) if piece.part is None else piece.part
            places = piece.at[:, None] + np.arange(width)
            if piece.space == "shared":
                for cta in np.unique(piece.at // x.pitch).tolist():
                    mine = piece.at // x.pitch == cta
                    rows = np.arange(x.n)[part][mine]
                    found[rows] = _in_window(x, cta, places[mine] - cta * x.pitch)
            elif piece.space == "global":
                found[part] = at[part][:, None] + np.arange(width)
        return found

    return origins


def origins_of_bytes(x: Wave, places: np.ndarray) -> np.ndarray:
    """The origins of bytes of shared memory by their places in that of all CTAs, whichever instruction copied them."""
    found, cta = np.empty(places.shape, np.int64), places // x.pitch
    for n in distinct(cta).tolist():
        mine = cta == n
        found[mine] = _in_window(x, n, places[mine] - n * x.pitch)
    return found


# By the name of a load what makes the origins of its registers' bytes, (threads, bytes).
LOADS: dict[str, Callable[[Instruction, Linker, int], Origin | None]] = {"ld": _load, "ldu": _load}


def _in_window(x: Wave, cta: int, at: np.ndarray) -> np.ndarray:
    """The origins of bytes of a CTA's window, whichever instruction copied them."""
    found, writers = x.ctas[cta].shared.look(at)
    held: np.ndarray = np.where(writers == COPIES, x.origins.in_shared(cta, at), found)
    return held


def followed(i: Instruction, step: Step, c: Linker) -> Step:
    """A step that gives registers values, and notes where they come from."""
    gives = i.operands[0] if i.operands else Sink()
    items = gives.items if isinstance(gives, Vector) else (gives,)
    note = _noted(i, c, items)
    if isinstance(step, Gate):
        return dataclasses.replace(step, run=functools.partial(_both, note, step.run))
    if isinstance(step, End):
        run = step.run

        def ends(x: Wave, following: int) -> None:
            note(x)
            run(x, following)

        return dataclasses.replace(step, run=ends)
    return functools.partial(_both, note, step)


def _both(first: Act, then: Act, x: Wave) -> None:
    first(x)
    then(x)


def _noted(i: Instruction, c: Linker, items: Sequence[Operand]) -> Act:
    """The function that notes the origins of the registers that an instruction gives a value. It runs before the
    instruction.
    """
    given = [(item.slot, _width(item)) for item in items if isinstance(item, Register)]
    others = i.given - {slot for slot, _ in given}
    widths = _shares(i, items)
    origin = None if widths is None else _origin(i, c, sum(widths))

    def note(x: Wave) -> None:
        held = origins_of(x)
        if held is None:
            return
        found = origin(x) if origin is not None else None
        begin = 0
        for item, share in zip(items, widths or [0] * len(items), strict=True):
            if isinstance(item, Register) and item.slot in c.copied.slots:
                nothing = np.full((x.n, _width(item)), FOREIGN, np.int64)
                part = nothing if found is None else _fitted(found[:, begin : begin + share], _width(item), FOREIGN)
                held.give(item.slot, _width(item), x.sel, part)
            begin += share
        for slot in others & c.copied.slots:
            if (before := held.register(slot)) is not None:
                before[x.sel] = FOREIGN

    return note


def _origin(i: Instruction, c: Linker, width: int) -> Origin | None:
    """The origins of the bytes that an instruction gives."""
    if i.op in LOADS:
        return LOADS[i.op](i, c, width)
    if i.given <= c.copied.fragments and i.op in ("shl", "shr", "and"):
        return _masked(i, width) if i.op == "and" else _shift(i, width, within=True)
    return _FORMS[i.op](i, width) if i.op in _FORMS else None


def _shares(i: Instruction, items: Sequence[Operand]) -> list[int] | None:
    """How many bytes each register that an instruction gives a value gets of its result; None where that is not
    followed.
    """
    registers = [item for item in items if isinstance(item, Register)]
    if any(item.part or item.type in ("pred", "b128") for item in registers):
        return None
    if i.op == "ldmatrix":
        return [CELL] * len(items)
    if i.op in LOADS:
        kind = (
            i.modifiers[-1]
            if i.modifiers[-1][0] in "busf"
            else next((m for m in reversed(i.modifiers) if m[0] in "busf" and m[1:].isdigit()), "")
        )
        return None if not kind or kind == "b128" else [bits_of(kind) // BYTE] * len(items)
    if len(items) == 1:
        return [_width(items[0])]
    source = i.operands[1]
    each = _width(source) // len(items)
    return [each] * len(items) if each and all(_width(item) == each for item in registers) else None


FOLLOWERS.append(followed)


# ---- what stores them


def followed_stores(i: Instruction, c: Linker, items: Sequence[Operand], size: int) -> Origin | None:
    """The origins of registers that are stored, of each so many bytes; None where none of them is followed."""
    if id(i) not in c.copied.instructions:
        return None
    each = [_of(item, size) for item in items]
    unknown: Origin = lambda x: np.full((x.n, size), FOREIGN, np.int64)  # noqa: E731
    return _joined([unknown if one is None else one[1] for one in each])


class Unfollowed:
    """A store to shared memory of which nothing is noted."""

    def begins(self, x: Wave, piece: Piece) -> None:
        """Threads store at the places of a piece: called before these have another writer."""

    def ends(self, x: Wave, piece: Piece) -> None:
        """They have stored."""


class FollowedStore(Unfollowed):
    """A store to shared memory of bytes whose origins are noted; `spread` says where those of a piece go, one place
    for each origin.
    """

    def __init__(self, origins: Origin, spread: Callable[[np.ndarray], np.ndarray]) -> None:
        self.origins, self._spread = origins, spread

    def begins(self, x: Wave, piece: Piece) -> None:
        held = origins_of(x)
        if held is None or piece.space != "shared":
            return
        at, found = self._spread(piece.at), self.origins(x)
        note(x.launch, stored=at.size, products=0 if x.program.needs_owners else at.size // A_PRODUCT)
        chunks = distinct(at.reshape(-1) // CHUNK)
        # which others wrote last: nothing is known of the rest of them
        others = chunks[x.memories.owners.of(chunks * CHUNK)[0] != COPIES]
        if len(others):
            held.shared.forget((others[:, None] * CHUNK + np.arange(CHUNK)).reshape(-1))
        held.shared.put(at, found if piece.part is None else found[piece.part])

    def ends(self, x: Wave, piece: Piece) -> None:
        if origins_of(x) is not None and piece.space == "shared":
            x.memories.owners.touch(distinct(self._spread(piece.at).reshape(-1) // CHUNK), COPIES)
        _may_stop(x)


def _in_a_row(size: int) -> Callable[[np.ndarray], np.ndarray]:
    """(threads, bytes) from the place of each thread on."""
    inside = np.arange(size)
    return lambda places: places[:, None] + inside


def followed_store(i: Instruction, c: Linker, items: Sequence[Operand], size: int) -> Unfollowed:
    """A store of registers to shared memory, of each so many bytes."""
    origins = followed_stores(i, c, items, size) if items else None
    return Unfollowed() if origins is None else FollowedStore(origins, _in_a_row(size * len(items)))


def followed_rows(i: Instruction, c: Linker, items: Sequence[Operand], spread: Callable[[np.ndarray], np.ndarray]) -> Unfollowed:
    """A store of 32-bit registers, whose bytes go to places (registers, threads, 4)."""
    origins, count = followed_stores(i, c, items, CELL), len(items)
    return Unfollowed() if origins is None else FollowedStore(lambda x: origins(x).reshape(x.n, count, CELL).swapaxes(0, 1), spread)


def followed_copy(i: Instruction, c: Linker, source: Operand, size: int, amount: Callable[[Wave], np.ndarray] | None) -> Unfollowed:
    """A cp.async of so many bytes, or of as many of each thread as `amount` says."""
    if id(i) not in c.copied.instructions:
        return Unfollowed()
    address, inside = c.address(source), np.arange(size)

    def origins(x: Wave) -> np.ndarray:
        found = np.broadcast_to(np.asarray(address(x)), (x.n,))[:, None] + inside
        return found if amount is None else np.where(inside < amount(x)[:, None], found, FOREIGN)

    return FollowedStore(origins, _in_a_row(size))


def cells_in_order(at: np.ndarray) -> np.ndarray:
    """The places of the bytes of cells, by their numbers in the tensor memory of all CTAs, as `Origins.tensor` has
    them: (..., 4).
    """
    cta, cell = np.divmod(at, LANES * COLUMNS)
    lane, column = np.divmod(cell, COLUMNS)
    found: np.ndarray = ((cta * LANES * COLUMNS + column * LANES + lane) * CELL)[..., None] + np.arange(CELL)
    return found
