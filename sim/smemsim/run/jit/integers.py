"""Integers, logic and shifts as LLVM. `run/isa/alu/integers.py` and `run/isa/alu/bits.py` describe the instructions."""

from __future__ import annotations

from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.jit.forms import compiles
from smemsim.run.jit.vectors import Uncompiled, Value, Vectors, bits_of, llvm_type

__all__ = ["EXTREMES", "is_integer", "product", "scalar_kind"]


EXTREMES = {("min", "s"): "smin", ("min", "u"): "umin", ("max", "s"): "smax", ("max", "u"): "umax"}


def is_integer(kind: str) -> bool:
    """Is it an integer type, and no packed one?"""
    return kind[0] in "usb" and kind[1:].isdigit()


def scalar_kind(form: Modifiers) -> str:
    """The only type of the instruction, an integer."""
    kind = form.kind()
    if not is_integer(kind):
        raise Uncompiled(f".{kind}")
    return kind


def extended(v: Vectors, a: Value, kind: str, to: str) -> Value:
    """A value of a PTX type as a wider LLVM type."""
    return a if a.type == to else v.cast(a, to, "sext" if kind[0] == "s" else "zext")


def product(v: Vectors, a: Value, b: Value, kind: str, part: str) -> Value:
    """`mul.lo`, `mul.hi`, `mul.wide`."""
    if part == "lo":
        return v.binary("mul", a, b)
    bits = bits_of(a.type)
    wide = f"i{2 * bits}"
    whole = v.binary("mul", extended(v, a, kind, wide), extended(v, b, kind, wide))
    if part == "wide":
        return whole
    return v.cast(v.binary("lshr", whole, v.number(wide, bits)), a.type, "trunc")


def _product_kind(kind: str, part: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}" if part == "wide" else kind


def arithmetic(v: Vectors, i: Instruction, guard: Value | None, form: Modifiers, kind: str) -> None:
    """`add`, `sub`, `mul`, `mad`, `min`, `max`, `abs`, `neg` of integers."""
    if not is_integer(kind) or form.has("cc") or form.has("sat") or form.has("relu"):
        raise Uncompiled(f".{kind}")
    to = kind
    part = form.one_of(("lo", "hi", "wide")) if i.op in ("mul", "mad") else ""
    form.end()
    operands = [v.read(operand, kind) for operand in i.operands[1 : 3 if part else None]]
    if part:
        to = _product_kind(kind, part)
        result = product(v, operands[0], operands[1], kind, part)
        if i.op == "mad":
            result = v.binary("add", result, v.read(i.operands[3], to))
    elif i.op in ("add", "sub"):
        result = v.binary(i.op, *operands)
    elif i.op in ("min", "max"):
        if kind[0] == "b":
            raise Uncompiled(f".{kind}")
        result = v.intrinsic(EXTREMES[i.op, kind[0]], operands[0].type, operands)
    else:
        zero = v.number(operands[0].type, 0)
        negative = v.binary("sub", zero, operands[0])
        result = negative if i.op == "neg" else v.select(v.compare("icmp slt", operands[0], zero), negative, operands[0])
    v.write(i.operands[0], to, result, guard)


@compiles("and", "or", "xor")
def logic(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`and`, `or`, `xor`, of predicates too."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(3,))
    v.write(i.operands[0], kind, v.binary(i.op, *(v.read(operand, kind) for operand in i.operands[1:])), guard)


@compiles("not")
def invert(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`not`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    a = v.read(i.operands[1], kind)
    v.write(i.operands[0], kind, v.binary("xor", a, v.number(a.type, 1 if kind == "pred" else -1)), guard)


def _of_two(v: Vectors, table: int, b: Value, c: Value) -> Value:
    """The function of two operands whose truth table has bit 2 b + c."""
    ones = v.number("i32", -1)
    terms = []
    for bit, (x, y) in enumerate(((False, False), (False, True), (True, False), (True, True))):
        if table >> bit & 1:
            terms.append(v.binary("and", b if x else v.binary("xor", b, ones), c if y else v.binary("xor", c, ones)))
    result = v.number("i32", 0)
    for term in terms:
        result = v.binary("or", result, term)
    return result


@compiles("lop3")
def lop3(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`lop3` without a predicate."""
    form = Modifiers(i)
    form.kind()
    form.end(operands=(5,))
    table = i.operands[4]
    if not isinstance(table, Immediate):
        raise Uncompiled("a table in a register")
    a, b, c = (v.read(operand, "b32") for operand in i.operands[1:4])
    low, high = _of_two(v, table.value & 0xF, b, c), _of_two(v, table.value >> 4 & 0xF, b, c)
    result = v.binary("or", v.binary("and", a, high), v.binary("and", v.binary("xor", a, v.number("i32", -1)), low))
    v.write(i.operands[0], "b32", result, guard)


@compiles("shl", "shr")
def shift(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`shl`, `shr`: by the width or more to zero, or to the sign."""
    form = Modifiers(i)
    kind = scalar_kind(form)
    form.end(operands=(3,))
    bits, to = int(kind[1:]), llvm_type(kind)
    a, by = v.read(i.operands[1], kind), v.read(i.operands[2], "u32")
    op = "shl" if i.op == "shl" else "ashr" if kind[0] == "s" else "lshr"
    most = bits - 1 if op == "ashr" else bits
    count = v.intrinsic("umin", "i32", [by, v.number("i32", most)])
    if bits != 32:
        count = v.cast(count, to, "zext" if bits > 32 else "trunc")
    if op == "ashr":
        v.write(i.operands[0], kind, v.binary(op, a, count), guard)
        return
    inside = v.compare("icmp ult", count, v.number(to, bits))
    kept = v.binary("and", count, v.number(to, bits - 1))
    v.write(i.operands[0], kind, v.select(inside, v.binary(op, a, kept), v.number(to, 0)), guard)


@compiles("shf")
def funnel(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`shf`, `.wrap` and `.clamp`."""
    form = Modifiers(i)
    left, mode = form.one_of(("l", "r")), form.one_of(("wrap", "clamp"))
    form.kind()
    form.end(operands=(4,))
    a, b, by = (v.read(operand, "b32") for operand in i.operands[1:])
    limit = v.number("i32", 31)
    count = v.binary("and", by, limit) if mode == "wrap" else v.intrinsic("umin", "i32", [by, v.number("i32", 32)])
    wide = v.cast(count, "i64", "zext")
    both = v.binary("or", v.binary("shl", v.cast(b, "i64", "zext"), v.number("i64", 32)), v.cast(a, "i64", "zext"))
    moved = v.binary("lshr", v.binary("shl", both, wide), v.number("i64", 32)) if left == "l" else v.binary("lshr", both, wide)
    v.write(i.operands[0], "b32", v.cast(moved, "i32", "trunc"), guard)


@compiles("popc", "clz", "brev")
def count(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`popc`, `clz`, `brev`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    a = v.read(i.operands[1], kind)
    if i.op == "brev":
        v.write(i.operands[0], kind, v.intrinsic("bitreverse", a.type, [a]), guard)
        return
    result = v.intrinsic("ctpop", a.type, [a]) if i.op == "popc" else v.intrinsic("ctlz", a.type, [a], "i1 false")
    v.write(i.operands[0], "u32", result if a.type == "i32" else v.cast(result, "i32", "trunc"), guard)


@compiles("sad")
def sad(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`sad`: c + |a - b|."""
    form = Modifiers(i)
    kind = scalar_kind(form)
    form.end(operands=(4,))
    a, b, c = (v.read(operand, kind) for operand in i.operands[1:])
    less = v.compare(f"icmp {kind[0]}lt", a, b)
    v.write(i.operands[0], kind, v.binary("add", c, v.select(less, v.binary("sub", b, a), v.binary("sub", a, b))), guard)


@compiles("bfe")
def bit_field(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`bfe.u32` with numbers for position and length within the word, as compilers write it."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(4,))
    at, length = i.operands[2:]
    if kind != "u32" or not isinstance(at, Immediate) or not isinstance(length, Immediate):
        raise Uncompiled("bfe")
    first, bits = at.value & 0xFF, length.value & 0xFF
    if first > 31 or not 0 < bits < 32:
        raise Uncompiled("bfe")
    moved = v.binary("lshr", v.read(i.operands[1], kind), v.number("i32", first))
    v.write(i.operands[0], kind, v.binary("and", moved, v.number("i32", (1 << bits) - 1)), guard)
