"""Arithmetic of f32, and what integers share with it by name, as LLVM. `run/isa/alu/floats.py` and
`run/isa/alu/compare.py` describe the instructions.

Results are rounded by the host, to nearest. The host's NaNs become the hardware's only before an instruction that
reads bits (`Vectors.canonical`).
"""

from __future__ import annotations

from smemsim.core.ptx.module import Instruction, Pair
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.jit.forms import compiles
from smemsim.run.jit.integers import arithmetic, is_integer
from smemsim.run.jit.vectors import SINGLE_NAN, Uncompiled, Value, Vectors
from smemsim.run.lower.fused import MINUS_ADDEND, MINUS_PRODUCT

__all__ = ["flushed", "is_flushing"]


_SIGN, _SMALLEST = 0x80000000, 0x00800000
_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul"}


def is_flushing(form: Modifiers) -> bool:
    """Take the rounding mode and .ftz off: only to nearest is compiled. Is .ftz there?"""
    if form.one_of(("rz", "rm", "rp", "sat", "relu", "oob", "approx", "full")):
        raise Uncompiled("rounding")
    form.has("rn")
    return form.has("ftz")


def flushed(v: Vectors, a: Value) -> Value:
    """Zeros of the same sign for subnormals."""
    raw = v.as_type(a, "i32")
    small = v.compare("icmp ult", v.binary("and", raw, v.number("i32", 0x7FFFFFFF)), v.number("i32", _SMALLEST))
    return v.as_type(v.select(small, v.binary("and", raw, v.number("i32", _SIGN)), raw), "float")


def _negated(v: Vectors, a: Value) -> Value:
    return v.emit("float", f"fneg <16 x float> {a.name}", raw=a.raw)


@compiles("add", "sub", "mul")
def simple(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`add`, `sub`, `mul` of integers and f32."""
    form = Modifiers(i)
    kind = form.kind()
    if is_integer(kind):
        arithmetic(v, i, guard, form, kind)
        return
    flush = is_flushing(form)
    form.end(operands=(3,))
    if kind != "f32" or (i.op == "mul" and flush):  # .ftz looks at products before they are rounded
        raise Uncompiled(f".{kind}")
    a, b = (v.read(operand, kind) for operand in i.operands[1:])
    if flush:
        a, b = flushed(v, a), flushed(v, b)
    result = v.binary(_OPS[i.op], a, b, raw=True)
    v.write(i.operands[0], "f32", flushed(v, result) if flush else result, guard)


@compiles("fma", "mad", "fused")
def fused(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`fma`, and `mad` of integers and f32, and what ptxas fuses."""
    form = Modifiers(i)
    minus_product, minus_addend = (form.has(word) for word in (MINUS_PRODUCT, MINUS_ADDEND))
    kind = form.kind()
    if is_integer(kind):
        arithmetic(v, i, guard, form, kind)
        return
    flush = is_flushing(form)
    form.end(operands=(4,))
    if kind != "f32" or flush:
        raise Uncompiled(f".{kind}")
    a, b, c = (v.read(operand, kind) for operand in i.operands[1:])
    a, c = _negated(v, a) if minus_product else a, _negated(v, c) if minus_addend else c
    v.write(i.operands[0], "f32", v.intrinsic("fma", "float", [a, b, c], raw=True), guard)


@compiles("min", "max")
def extreme(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`min`, `max`: of a NaN and a number the number, or with .NaN a NaN; -0 lies below +0."""
    form = Modifiers(i)
    kind = form.kind()
    if is_integer(kind):
        arithmetic(v, i, guard, form, kind)
        return
    flush, nan = form.has("ftz"), form.has("NaN")
    form.end(operands=(3,))
    if kind != "f32":
        raise Uncompiled(f".{kind}")
    a, b = (v.read(operand, kind) for operand in i.operands[1:])
    if flush:
        a, b = flushed(v, a), flushed(v, b)
    first = v.compare("fcmp olt" if i.op == "min" else "fcmp ogt", a, b)
    # the bits differ only for zeros: the signs are or-ed for the least, and-ed for the largest
    equal = v.compare("fcmp oeq", a, b)
    bits_a, bits_b = (v.as_type(x, "i32") for x in (a, b))
    same = v.binary("or" if i.op == "min" else "and", bits_a, bits_b)
    b_is_nan, a_is_nan = v.compare("fcmp uno", b, b), v.compare("fcmp uno", a, a)
    result = v.select(equal, same, v.select(first, bits_a, bits_b))
    result = v.select(b_is_nan, bits_a, result)
    either = v.binary("or" if nan else "and", a_is_nan, b_is_nan)
    v.write(i.operands[0], "b32", v.select(either, v.number("i32", SINGLE_NAN), result), guard)


@compiles("abs", "neg")
def sign(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`abs`, `neg`."""
    form = Modifiers(i)
    kind = form.kind()
    if is_integer(kind):
        arithmetic(v, i, guard, form, kind)
        return
    flush = form.has("ftz")
    form.end(operands=(2,))
    if kind != "f32":
        raise Uncompiled(f".{kind}")
    a = v.read(i.operands[1], kind)
    if flush:
        a = flushed(v, a)
    bits = v.as_type(a, "i32")
    changed = v.binary("xor", bits, v.number("i32", _SIGN)) if i.op == "neg" else v.binary("and", bits, v.number("i32", 0x7FFFFFFF))
    nan = v.compare("fcmp uno", a, a)
    v.write(i.operands[0], "b32", v.select(nan, v.number("i32", SINGLE_NAN), changed), guard)


# ---- comparisons


_INTEGERS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_FLOATS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt",
    "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip


def comparison(v: Vectors, i: Instruction, form: Modifiers, kind: str) -> Value:
    """Does the comparison of operands 1 and 2 hold?"""
    flush = form.has("ftz")
    if kind == "f32":
        word = form.one_of(_FLOATS)
        a, b = (v.read(operand, kind) for operand in i.operands[1:3])
        if flush:
            a, b = flushed(v, a), flushed(v, b)
        if not word:
            raise Uncompiled("comparison")
        return v.compare(f"fcmp {_FLOATS[word]}", a, b)
    if not is_integer(kind) or flush:
        raise Uncompiled(f".{kind}")
    names = _INTEGERS | (_UNSIGNED if kind[0] == "u" else {})
    word = form.one_of(names)
    if not word:
        raise Uncompiled("comparison")
    name = names[word]
    if name not in ("eq", "ne"):
        name = ("s" if kind[0] == "s" else "u") + name
    a, b = (v.read(operand, kind) for operand in i.operands[1:3])
    return v.compare(f"icmp {name}", a, b)


@compiles("setp")
def setp(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`setp`, p and p|q, combined with a predicate."""
    form = Modifiers(i)
    combine = form.one_of(("and", "or", "xor"))
    kind = form.kind()
    p = comparison(v, i, form, kind)
    form.end(operands=(4,) if combine else (3,))
    to = i.operands[0]
    q = v.binary("xor", p, v.number("i1", 1)) if isinstance(to, Pair) else p
    if combine:
        other = v.read(i.operands[3], "pred")
        p, q = v.binary(combine, p, other), v.binary(combine, q, other)
    if isinstance(to, Pair):
        v.write(to.first, "pred", p, guard)
        v.write(to.second, "pred", q, guard)
    else:
        v.write(to, "pred", p, guard)


@compiles("selp")
def selp(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`selp`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(4,))
    a, b, p = v.read(i.operands[1], kind), v.read(i.operands[2], kind), v.read(i.operands[3], "pred")
    v.write(i.operands[0], kind, v.select(p, a, b), guard)
