"""atom and red (PTX ISA 9.1 §9.7.13): read, compute, write, the threads of an instruction one after the other in the
order of their numbers.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import InputError
from smemsim.core.arithmetic.reduce import parameters
from smemsim.core.ptx.module import Instruction, Operand, Sink
from smemsim.core.spec.operation_types import ATOMIC_TYPES, ATOMIC_VECTORS
from smemsim.core.spec.reductions import REDUCTION_TYPES, SHARED_F64, ReductionOp
from smemsim.run.accesses import Piece
from smemsim.run.engine.in_flight import comes_behind
from smemsim.run.isa.memory.load_store import gathered, items, vector_length
from smemsim.run.isa.memory.ordering import Ordering, ordering
from smemsim.run.isa.memory.spaces import locate, note_update, note_write, space_modifier
from smemsim.run.isa.registers import Read, Write, bits_of
from smemsim.run.isa.registry import Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["Form", "combine", "form", "raw_elements"]


_SWAPS = {"exch": 8, "cas": 9}  # arithmetic.reduce_loops.EXCHANGE and SWAP_IF, without importing numba


@dataclasses.dataclass(frozen=True)
class Form:
    """An atomic operation: `count` elements of a PTX type, packed ones of which are two of `element` each."""

    op: str
    kind: str
    count: int
    space: str | None
    order: Ordering

    @property
    def size(self) -> int:
        """Bytes of a thread."""
        return self.count * bits_of(self.kind) // 8

    @property
    def element(self) -> str:
        """The type that is computed with."""
        return self.kind.removesuffix("x2")

    @property
    def raw(self) -> str:
        """The type of a register with the bits of one of the `count`."""
        return f"b{bits_of(self.kind)}"


def form(i: Instruction, c: Linker, modifiers: list[str]) -> Form:
    """Read the modifiers of an atom or red."""
    rest = list(modifiers)
    space = space_modifier(rest)
    order = ordering(i, c, rest, atomic=True)
    keeps_subnormals = "noftz" in rest
    rest = [m for m in rest if m not in ("noftz", "L2::cache_hint")]
    count = vector_length(rest)
    if len(rest) != 2 or rest[0] not in ATOMIC_TYPES:
        op = next((m for m in rest if m in ATOMIC_TYPES), None)
        if op is None or len(rest) != 2:
            raise unmodelled(i, f"modifiers {' '.join(rest)}")
        rest.remove(op)
        rest.insert(0, op)
    op, kind = rest
    known = kind in ATOMIC_TYPES[op] if count == 1 else count in ATOMIC_VECTORS.get(op, {}).get(kind, ())
    if (
        not known
        or space not in (None, "global", "shared", "shared::cta", "shared::cluster")
        or (count > 1 and space not in (None, "global"))
    ):
        raise unmodelled(i)
    if i.op == "red" and op in _SWAPS:
        raise unmodelled(i, f"red has no .{op}")
    if keeps_subnormals != (kind.removesuffix("x2") in ("f16", "bf16")):
        raise unmodelled(i, f".{kind} {'without' if not keeps_subnormals else 'with'} .noftz")
    return Form(op, kind, count, space, order)


def _row(f: Form, space: str) -> Any:
    """The compiled loop's number of the type. Sums of f32 in global memory take subnormals as zeros (PTX ISA 9.1
    §9.7.13.5).
    """
    name = f.element
    if name in ("b16", "b128"):
        name = "b32"
    elif name == "f32" and f.op == "add" and space == "global":
        name = "f32_ftz"
    in_shared = name == "f64" and f.op == "add" and (space.startswith("shared") or space == "reserved")
    row = parameters(SHARED_F64 if in_shared else REDUCTION_TYPES[name])
    return (row[0], bits_of(f.element), *row[2:])


def combine(f: Form, piece: Piece, compare: np.ndarray | None, new: np.ndarray) -> np.ndarray:
    """Perform the operation: `new` and `compare` are raw elements (n, elements of a thread); returns what was there,
    as `new`.
    """
    from smemsim.core.arithmetic import reduce_loops

    count = new.shape[1]
    step = bits_of(f.element) // 8
    at = piece.at if count == 1 else (piece.at[:, None] + np.arange(0, count * step, step)).reshape(-1)
    values = np.ascontiguousarray(new).reshape(-1).astype(np.uint64).view(np.int64)
    wanted = values if compare is None else np.ascontiguousarray(compare).reshape(-1).astype(np.uint64).view(np.int64)
    old = np.empty(len(at), np.int64)
    code = _SWAPS[f.op] if f.op in _SWAPS else ReductionOp(f.op).code
    chain: Any = reduce_loops.chain
    chain(piece.memory.view(np.uint32), at, wanted, values, code, *_row(f, piece.space), old)
    return old.view(np.uint64).astype(new.dtype).reshape(new.shape)


def _changes(piece: Piece, before: np.ndarray) -> bool:
    """Is now something else there than what some thread found?"""
    now = gathered(piece, before.dtype, before.shape[1])
    return any(bool((word != before[:, n]).any()) for n, word in enumerate(now))


@implements("atom", "red")
def build_atomic(i: Instruction, c: Linker) -> Step:
    """Atomic operations; red has no result."""
    f = form(i, c, list(i.modifiers))
    operands = list(i.operands)
    target: Operand = Sink() if i.op == "red" else operands.pop(0)
    wanted = 2 + (f.op == "cas") + ("L2::cache_hint" in i.modifiers)
    if len(operands) != wanted:
        raise InputError(f"takes {wanted + (i.op == 'atom')} operands")
    find = locate(i, c, operands[0], f.space, f.size)
    if f.kind == "b128":
        return _wide(i, c, f, target, operands[1:], find)
    reads = [c.read(item, f.raw) for item in items(operands[-1 - ("L2::cache_hint" in i.modifiers)], f.count)]
    compares = [c.read(operands[1], f.raw)] if f.op == "cas" else None
    writes: list[Write] = [] if isinstance(target, Sink) else [c.write(item, f.raw) for item in items(target, f.count)]
    packed = f.kind.endswith("x2")

    def atomic(x: Wave) -> None:
        new = raw_elements(x, reads, packed)
        compare = None if compares is None else raw_elements(x, compares, packed)
        pieces = find(x)
        old = np.empty_like(new) if writes else None
        for piece in pieces:
            part = slice(None) if piece.part is None else piece.part
            comes_behind(x, (piece,), f.size, is_atomic=True)
            if x.launch.schedule is not None and f.op == "add" and f.element.lstrip("b").startswith("f"):
                _note_sums(x, piece, f.size)
            note_update(x, i, piece, f.size)
            before = combine(f, piece, None if compare is None else compare[part], new[part])
            if old is not None:
                old[part] = before
            if x.events.releases_at and f.order.writes:
                x.events.releases_at(x, i, piece, f.order, None if compare is None else (before == compare[part]).all(axis=1))
            note_write(x, i, piece, f.size, strong=True, changed=_changes(piece, before), scope=f.order.level)
            if x.events.acquires_at and f.order.reads:
                x.events.acquires_at(x, i, piece, f.order)
        if old is not None:
            whole = old.view(np.uint32) if packed else old
            for n, write in enumerate(writes):
                write(x, whole[:, n])

    return atomic


def _note_sums(x: Wave, piece: Piece, size: int) -> None:
    """Under a schedule: the addresses of float sums, in steps of 2 bytes, since another order rounds differently."""
    begin = next((r.words_begin for r in x.launch.memory.table()[2] if r.words is piece.memory), None)
    if piece.space == "global" and begin is not None:
        x.launch.result.summed.append(distinct(begin + piece.at[:, None] + np.arange(0, size, 2)))


def raw_elements(x: Wave, reads: list[Read], packed: bool) -> np.ndarray:
    """The raw elements of the running threads (n, elements)."""
    first = np.asarray(reads[0](x))
    out = np.empty((x.n, len(reads)), first.dtype)
    out[:, 0] = first
    for n, read in enumerate(reads[1:], 1):
        out[:, n] = read(x)
    return out.view(np.uint16) if packed else out


def _wide(i: Instruction, c: Linker, f: Form, target: Operand, operands: list[Operand], find: Any) -> Step:
    """exch and cas of 128 bits."""
    reads = [c.read(operand, "b128") for operand in operands[: 1 + (f.op == "cas")]]
    write = c.write(target, "b128")

    def atomic(x: Wave) -> None:
        values = [np.broadcast_to(read(x), (x.n, 2)) for read in reads]
        old = np.empty((x.n, 2), np.uint64)
        for piece in find(x):
            comes_behind(x, (piece,), 16, is_atomic=True)
            note_update(x, i, piece, 16)
            words = piece.memory.view(np.uint64)
            threads = range(x.n) if piece.part is None else piece.part.tolist()
            for n, at in zip(threads, (piece.at >> 3).tolist(), strict=True):
                old[n] = words[at : at + 2]
                if f.op == "exch" or (old[n] == values[0][n]).all():
                    words[at : at + 2] = values[-1][n]
            note_write(x, i, piece, 16, strong=True, changed=_changes(piece, old if piece.part is None else old[piece.part]))
        write(x, old)

    return atomic
