"""ld, ldu, st (PTX ISA 9.1 §9.7.9): every state space, width and vector; cache hints change nothing a
kernel can see.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.errors import InputError, Unmodelled
from smemsim.core.ptx.module import Address, Immediate, Instruction, Operand, Symbol, Vector, slots_in
from smemsim.core.spec.operation_types import LOAD_STORE_TYPES, VECTOR_BYTES, WIDE_VECTOR_BYTES
from smemsim.run.accesses import AT_ONCE, Piece
from smemsim.run.engine.in_flight import SEEN, Bytes, comes_behind
from smemsim.run.isa.memory.ordering import Ordering, ordering
from smemsim.run.isa.memory.spaces import locate, note_read, note_write, shared_operand, shared_places, space_modifier, values_of
from smemsim.run.isa.registers import Read, bits_of, dtype_of
from smemsim.run.isa.registry import Plain, Step, implements, limit, unmodelled
from smemsim.run.origins import followed_store
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["Access", "access", "gathered", "items", "merged", "own_values", "scattered", "vector_length"]


# Cache operators; ptxas 13.0.88 takes these.
_CACHE = {"ld": {"ca", "cg", "cs", "lu", "cv", "nc", "unified"}, "ldu": set(), "st": {"cg", "cs", "wb", "wt"}}
_ORDERS = ("volatile", "relaxed", "acquire", "release")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_RAW = {16: "b16", 32: "b32", 64: "b64"}


@dataclasses.dataclass(frozen=True)
class Access:
    """The modifiers of a load or a store: `count` elements of `kind` (a PTX type) in `space` (None: generic)."""

    space: str | None
    kind: str
    count: int
    order: Ordering

    @property
    def size(self) -> int:
        """Bytes each thread accesses."""
        return self.count * bits_of(self.kind) // 8


def access(i: Instruction, c: Linker) -> Access:
    """Read the modifiers of an ld or st."""
    rest = list(i.modifiers)
    space = space_modifier(rest)
    order = ordering(i, c, rest)
    hints = [m for m in rest if m in _CACHE[i.op] or m.startswith(("L1::", "L2::"))]
    rest = [m for m in rest if m not in hints]
    count = vector_length(rest)
    if len(rest) != 1 or rest[0] not in LOAD_STORE_TYPES:
        raise unmodelled(i, f"modifiers {' '.join(rest)}")
    kind = rest[0]
    if kind.startswith("f"):
        kind = _RAW[bits_of(kind)]
    if kind == "b128" and count > 1:
        raise unmodelled(i, "vectors of .b128")
    form = Access(space, kind, count, order)
    vector = f".v{count} of {bits_of(kind)} bits"
    if form.size > WIDE_VECTOR_BYTES or (count == 8 and bits_of(kind) < 32):
        raise unmodelled(i, vector)
    if form.size > VECTOR_BYTES and space not in (None, "global"):
        raise unmodelled(i, f"{vector} is for global memory")
    _check_hints(form, hints)
    _check_order(i, space, hints)
    if "nc" in hints and space != "global":
        raise unmodelled(i, ".nc is for .global")
    if "mmio" in i.modifiers and (count > 1 or space not in (None, "global")):
        raise unmodelled(i, ".mmio of a vector" if count > 1 else f".mmio of .{space}")
    policy = "L2::cache_hint" in hints
    if len(i.operands) != 2 + policy:
        raise InputError(f"takes {2 + policy} operands, not {len(i.operands)}")
    return form


def _check_hints(form: Access, hints: list[str]) -> None:
    """InputError for cache hints on memory that has no such cache, and for L2 hints on sizes that it
    does not support.
    """
    hint = next((hint for hint in hints if hint.startswith(("L1::", "L2::"))), None)
    if hint is not None and form.space not in (None, "global"):
        raise InputError(f".{hint} is for global memory, not .{form.space}: ptxas refuses it")
    priority = next((hint for hint in hints if hint.startswith("L2::evict")), None)
    if priority is not None and form.size < WIDE_VECTOR_BYTES:
        raise InputError(f".{priority} is for .v8.b32 and .v4.b64, not for {form.size} bytes: ptxas refuses it")


def _check_order(i: Instruction, space: str | None, hints: list[str]) -> None:
    """InputError for orders on memory that a thread has for itself, and for orders together with cache operators. ptxas
    13.0.88 refuses these.
    """
    order = next((m for m in i.modifiers if m in _ORDERS), None)
    if order is not None and (space or "").partition("::")[0] in ("const", "local", "param"):
        raise InputError(f".{order} is for global and shared memory, not .{space}: ptxas refuses it")
    for hint in hints:
        is_operator = hint in _CACHE[i.op] and hint != "unified"
        if (order and is_operator) or (order == "volatile" and hint.startswith(("L1::", "L2::evict", "L2::cache"))):
            raise InputError(f".{order} and .{hint} do not go together: ptxas refuses them")
        if hint == "nc" and "weak" in i.modifiers:
            raise InputError(".weak and .nc do not go together: ptxas refuses them")


def vector_length(rest: list[str]) -> int:
    """Take .v2, .v4 or .v8 off a list of modifiers: how many elements each thread has."""
    words = [m for m in rest if m in _VECTORS]
    for word in words:
        rest.remove(word)
    return _VECTORS[words[-1]] if words else 1


def items(operand: Operand, count: int) -> tuple[Operand, ...]:
    """The elements of an operand: of a vector, or itself."""
    elements = operand.items if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise InputError(f"has {len(elements)} elements, the modifiers say {count}")
    return elements


def gathered(piece: Piece, kind: np.dtype[Any], count: int) -> list[Any]:
    """`count` neighbouring elements of every thread of a piece, an array for each element."""
    size = kind.itemsize * count
    if count == 1:
        return [piece.memory.view(kind).take(piece.at >> size.bit_length() - 1)]
    if size == 32:
        half = count // 2
        return gathered(piece, kind, half) + gathered(piece._replace(at=piece.at + 16), kind, half)
    rows = piece.memory.view(AT_ONCE[size]).take(piece.at >> size.bit_length() - 1).view(kind).reshape(-1, count)
    return [rows[:, k] for k in range(count)]


def scattered(piece: Piece, kind: np.dtype[Any], values: list[Any]) -> None:
    """Write elements of every thread of a piece; of threads that write the same byte the last one's stays."""
    count = len(values)
    size = kind.itemsize * count
    if piece.part is not None:
        values = [v[piece.part] if isinstance(v, np.ndarray) and v.ndim else v for v in values]
        piece = piece._replace(part=None)
    if count == 1:
        piece.memory.view(kind)[piece.at >> size.bit_length() - 1] = values[0]
    elif size == 32:
        scattered(piece, kind, values[: count // 2])
        scattered(piece._replace(at=piece.at + 16), kind, values[count // 2 :])
    else:
        wide = AT_ONCE[size]
        piece.memory.view(wide)[piece.at >> size.bit_length() - 1] = _rows(piece, kind, values).view(wide)[:, 0]


def _rows(piece: Piece, kind: np.dtype[Any], values: list[Any]) -> np.ndarray:
    rows = np.empty((len(piece.at), len(values)), kind)
    for k, v in enumerate(values):
        rows[:, k] = v
    return rows


def own_values(piece: Piece, kind: np.dtype[Any], values: list[Any]) -> np.ndarray:
    """The bytes that `scattered` writes, those of one thread after those of another."""
    if piece.part is not None:
        values = [v[piece.part] if isinstance(v, np.ndarray) and v.ndim else v for v in values]
    return _rows(piece, kind, values).reshape(-1)


def merged(x: Wave, pieces: list[Piece], kind: np.dtype[Any], count: int) -> list[Any]:
    """The elements of all running threads from the pieces of several memories."""
    out = [np.empty(x.n, kind) for _ in range(count)]
    for piece in pieces:
        for whole, part in zip(out, gathered(piece, kind, count), strict=True):
            whole[piece.part] = part
    return out


@implements("ld", "ldu")
def build_ld(i: Instruction, c: Linker) -> Step:
    """Loads; those of the entry's parameters are one number for all threads."""
    what = access(i, c)
    count, kind = (2, "b64") if what.kind == "b128" else (what.count, what.kind)
    dtype = dtype_of(kind)
    target = i.operands[0]
    write = _writer(c, target, what, count, kind)
    if (what.space or "").startswith("param") and c.space_of(i.operands[1]) == "param":
        return _parameter(i, c, what, dtype, count, write)
    find = locate(i, c, i.operands[1], what.space, what.size)
    size, order = what.size, what.order
    may_wait = not order.acquires and "mmio" not in i.modifiers
    brought = slots_in(target)

    def bring(x: Wave, pieces: list[Piece]) -> None:
        values = gathered(pieces[0], dtype, count) if len(pieces) == 1 else merged(x, pieces, dtype, count)
        for piece in pieces if x.events.acquires_at and order.reads else ():
            x.events.acquires_at(x, i, piece, order)
        write(x, values)

    def load(x: Wave) -> None:
        pieces = find(x)
        x.progress.polls += order.strong
        x.progress.polled = (i, pieces) if order.strong else x.progress.polled
        for piece in pieces if x.events.accessed else ():
            note_read(x, i, piece, size, strong=order.strong, scope=order.level)
        if x.in_flight is not None and may_wait and len(pieces) == 1 and pieces[0].space in SEEN and len(pieces[0].at):
            x.in_flight.load(x, Bytes(pieces[0].memory, pieces[0].at, size), brought, functools.partial(bring, x, pieces))
        else:
            comes_behind(x, pieces, size)
            bring(x, pieces)

    return load


def _writer(c: Linker, target: Operand, what: Access, count: int, kind: str) -> Callable[[Wave, list[Any]], None]:
    """The function that gives the registers of a load their values."""
    if what.kind == "b128":
        wide = c.write(target, "b128")

        def write(x: Wave, values: list[Any]) -> None:
            wide(x, np.stack(values, axis=-1))

    elif what.count == 1 and not isinstance(target, Vector):
        single = c.write(target, kind)

        def write(x: Wave, values: list[Any]) -> None:
            single(x, values[0])

    else:
        writers = [c.write(item, kind) for item in items(target, count)]

        def write(x: Wave, values: list[Any]) -> None:
            for put, value in zip(writers, values, strict=True):
                put(x, value)

    return write


def _parameter(i: Instruction, c: Linker, what: Access, dtype: np.dtype[Any], count: int, write: Any) -> Plain:
    address = i.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        raise InputError("needs a parameter in brackets")
    place = c.place(address.base.name)
    within = address.base.offset + address.offset
    if not 0 <= within <= place.size - what.size:
        raise unmodelled(i, f"bytes {within} to {within + what.size} of parameter {place.name}, which has {place.size}")
    at = place.offset + within

    values: Slot[list[Any]] = Slot(lambda x: list(np.frombuffer(x.launch.parameters[at : at + what.size].tobytes(), dtype)))

    def load(x: Wave) -> None:
        write(x, values(x))

    if what.kind == "b128":
        raise limit(i, ".b128 parameters")
    return load


@implements("st.bulk")
def build_st_bulk(i: Instruction, c: Linker) -> Step:
    """`st.bulk{.weak}{.shared::cta} [a], size, 0`: zeros, a multiple of 8 bytes; from sm_100 on."""
    rest = [m for m in i.modifiers[1:] if m != "weak"]
    space = space_modifier(rest)
    zero = i.operands[2] if len(i.operands) == 3 else None
    if rest or space not in (None, "shared", "shared::cta") or not isinstance(zero, Immediate) or zero.value:
        raise unmodelled(i)
    address, amount = shared_operand(i, c, i.operands[0], generic=space is None), c.read(i.operands[1], "u64")

    def store(x: Wave) -> None:
        starts = np.broadcast_to(np.asarray(address(x)), (x.n,))
        sizes = np.broadcast_to(np.asarray(amount(x)), (x.n,)).astype(np.int64)
        if (sizes & 7).any() or (starts & 7).any():
            bad = int(sizes[np.flatnonzero(sizes & 7)[0]]) if (sizes & 7).any() else int(starts[np.flatnonzero(starts & 7)[0]])
            raise Unmodelled(f"{i.name}: {bad}: address and size need to be multiples of 8", line=i.line)
        kept, threads = x.sel, x.threads
        for n, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            # of a larger one the last bytes are outside, and so are looked at alone
            whole = x.memories.window + x.scratch >= size
            at = np.arange(start, start + size, 8) if whole else np.array([start, start + size - 8])
            x.select(np.full(len(at), threads[n]))
            try:
                piece = Piece("shared", x.shared, shared_places(x, i, at, None, 8, cluster=False))
                written = values_of(x, piece, 8)
                scattered(piece, np.dtype(np.uint64), [np.uint64(0)])
                note_write(x, i, piece, 8, written=written)
            finally:
                x.select(kept)

    return store


def _sources(i: Instruction, c: Linker, what: Access) -> tuple[np.dtype[Any], list[Read]]:
    """The values that a store writes: the type of its elements, and each of them."""
    reads: list[Read]
    if what.kind == "b128":
        dtype, source = dtype_of("b64"), i.operands[1]
        if isinstance(source, Immediate):
            raise limit(i, "a .b128 number")
        wide = c.read(source, "b128")
        reads = [lambda x: wide(x)[:, 0], lambda x: wide(x)[:, 1]]
    else:
        dtype = dtype_of(what.kind)
        reads = [c.read(item, what.kind) for item in items(i.operands[1], what.count)]
    return dtype, reads


def _kept(x: Wave, piece: Piece, size: int) -> Bytes | None:
    """The values of a store, if they are to be seen later. None: now."""
    where = Bytes(piece.memory, piece.at, size) if piece.space in SEEN and len(piece.at) else None
    return where if where is not None and x.in_flight.keeps(x, where) else None


@implements("st")
def build_st(i: Instruction, c: Linker) -> Step:
    """Stores. Where threads of one store meet, the one with the highest number wins; hardware leaves it open."""
    what = access(i, c)
    if (what.space or "").startswith("param") and c.space_of(i.operands[0]) == "param":
        raise InputError("an entry's parameters are read only")
    if what.space == "const":
        raise InputError(".const is read only")
    dtype, reads = _sources(i, c, what)
    find = locate(i, c, i.operands[0], what.space, what.size)
    size, order = what.size, what.order
    may_wait = "mmio" not in i.modifiers
    follow = followed_store(i, c, items(i.operands[1], what.count), size // what.count)

    def release(x: Wave, piece: Piece) -> None:
        if order.writes and x.events.releases_at:
            x.events.releases_at(x, i, piece, order)

    def complete(x: Wave, piece: Piece, values: list[Any]) -> None:
        release(x, piece)
        scattered(piece, dtype, values)

    def store(x: Wave) -> None:
        pieces = find(x)
        values = [read(x) for read in reads]
        for piece in pieces:
            if x.in_flight is not None and x.taint is not None and not order.strong:
                x.in_flight.settles(x, piece, size)
            kept = _kept(x, piece, size) if x.in_flight is not None and may_wait else None
            if kept is None:
                release(x, piece)
            written = None if order.strong else values_of(x, piece, size, lambda p=piece: own_values(p, dtype, values))  # type: ignore[misc]
            before = [] if kept is None else gathered(piece, dtype, len(values))
            scattered(piece, dtype, values)
            follow.begins(x, piece)
            note_write(x, i, piece, size, strong=order.strong, written=written, scope=order.level)
            follow.ends(x, piece)
            if kept is not None:
                scattered(piece._replace(part=None), dtype, before)
                x.in_flight.store(x, kept, functools.partial(complete, x, piece, [np.array(v) for v in values]))

    return store
