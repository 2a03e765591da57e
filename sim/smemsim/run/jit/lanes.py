"""`shfl`, `vote` and `redux` of whole warps as LLVM: constant lanes, every lane in the member mask.
`run/isa/threads/warps.py` describes the instructions.

A warp is two groups. Values of the own group are in a vector. Values of the other one are read from the register in
memory, so they have to be there before, and stay. An instruction that writes such a register belongs to no function
that reads it so (`Vectors.both`).
"""

from __future__ import annotations

import numpy as np

from smemsim.core.ptx.module import Immediate, Instruction, Operand, Pair, Register
from smemsim.run.engine.wave import FULL_MASK, WARP
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.threads.warps import source_lanes
from smemsim.run.jit.forms import compiles
from smemsim.run.jit.vectors import LANES, Uncompiled, Value, Vectors, vector

__all__: list[str] = []


_FULL = int(FULL_MASK)
_REDUCED = {"add": "add", "and": "and", "or": "or", "xor": "xor"}


def _number(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Uncompiled(f"operand {operand}")
    return int(operand.value)


def _register(operand: Operand) -> Register:
    if not isinstance(operand, Register) or operand.part:
        raise Uncompiled(f"operand {operand}")
    return operand


@compiles("shfl")
def shfl(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`shfl.sync.mode.b32 d|p, a, b, c, 0xffffffff` with numbers b and c."""
    words = Modifiers(i, "b32", "sync")
    mode = words.need("up", "down", "bfly", "idx")
    words.end(operands=(5,))
    lanes, inside = source_lanes(mode, np.arange(WARP), _number(i.operands[2]), _number(i.operands[3]))
    source, result = _register(i.operands[1]), i.operands[0]
    halves = lanes.reshape(-1, LANES)
    own = halves - np.arange(0, WARP, LANES)[:, None]
    is_own = (own == own[0]).all()  # each group reads itself: no lane is below 0 or above 31
    if (halves == halves[:, :1]).all() and not (is_own and source.slot in v.written):
        value = v.lane(source.slot, "i32", *halves[:, 0].tolist())
    elif is_own:
        a = v.read(source, "b32")
        value = v.emit("i32", f"shufflevector {vector('i32')} {a.name}, {vector('i32')} poison, {_indices(own[0])}")
    else:
        lower, upper = v.both(source.slot, "i32")
        given = f"shufflevector {vector('i32')} {lower.name}, {vector('i32')} {upper.name}"
        value = v.by_half(*(v.emit("i32", f"{given}, {_indices(half)}") for half in halves))
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    v.write(first, "b32", value, None)
    if second is not None:
        v.write(second, "pred", v.by_half(*(Value(_bits(half), "i1") for half in inside.reshape(-1, LANES))), None)


def _indices(lanes: np.ndarray) -> str:
    return f"<{LANES} x i32> <{', '.join(f'i32 {lane}' for lane in lanes.tolist())}>"


def _bits(holds: np.ndarray) -> str:
    return f"<{', '.join(f'i1 {str(bool(p)).lower()}' for p in holds.tolist())}>"


@compiles("vote")
def vote(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`vote.sync.mode d, p, 0xffffffff`."""
    words = Modifiers(i, "sync")
    mode = words.need("all", "any", "uni", "ballot")
    kind = words.need("b32" if mode == "ballot" else "pred")
    words.end(operands=(3,))
    source = _register(i.operands[1])
    lower, upper = (v.line(f"bitcast {vector('i1')} {half.name} to i{LANES}") for half in v.both(source.slot, "i1"))
    parts = [v.line(f"zext i{LANES} {name} to i32") for name in (lower, upper)]
    word = v.line(f"or i32 {parts[0]}, {v.line(f'shl i32 {parts[1]}, {LANES}')}")
    if source.negated:
        word = v.line(f"xor i32 {word}, -1")
    words_ = v.alike("i32", word)
    none, every = v.number("i32", 0), v.number("i32", _FULL)
    if mode == "ballot":
        value = words_
    elif mode == "any":
        value = v.compare("icmp ne", words_, none)
    else:
        value = v.compare("icmp eq", words_, every)
        if mode == "uni":
            value = v.binary("or", value, v.compare("icmp eq", words_, none))
    v.write(i.operands[0], kind, value, None)


@compiles("redux")
def redux(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`redux.sync.op.type d, a, 0xffffffff` of integers."""
    words = Modifiers(i, "sync")
    op = words.need("add", "min", "max", "and", "or", "xor")
    kind = words.need("u32", "s32") if op in ("add", "min", "max") else words.need("b32")
    words.end(operands=(3,))
    name = _REDUCED.get(op) or f"{kind[0]}{op}"
    own = vector("i32")
    v.declared.add(f"declare i32 @llvm.vector.reduce.{name}.v{LANES}i32({own})")
    whole = v.both(_register(i.operands[1]).slot, "i32")
    halves = [v.line(f"call i32 @llvm.vector.reduce.{name}.v{LANES}i32({own} {half.name})") for half in whole]
    if name in _REDUCED:
        both = v.line(f"{name} i32 {halves[0]}, {halves[1]}")
    else:
        order = {"min": "lt", "max": "gt"}[op]
        both = v.line(f"select i1 {v.line(f'icmp {kind[0]}{order} i32 {halves[0]}, {halves[1]}')}, i32 {halves[0]}, i32 {halves[1]}")
    v.write(i.operands[0], kind, v.alike("i32", both), None)
