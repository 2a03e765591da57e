"""Integer sums and products (PTX ISA 9.1 §9.7.1, 9.7.2): what `add`, `mul` and the like do on integer types, and the
instructions that have no others.

All results are modulo 2^n; `.cc` and the instructions with a c at their end use a carry flag of each thread. A
difference is a + ~b + 1, whose carry is set where nothing was borrowed: compiled divisions of 128 bits read it with
addc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.operation_types import OPERATION_TYPES
from smemsim.run.isa.alu.forms import PACKED, Elementwise, elementwise
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registers import bits_of, dtype_of
from smemsim.run.isa.registry import Plain, Step, implements, unmodelled
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["absolute", "carry", "extremum", "multiply", "multiply_add", "negate", "quotient", "sum_or_difference"]


_LOW_32 = np.uint64(0xFFFFFFFF)


_FLAGS: Slot[np.ndarray] = Slot(lambda x: np.zeros(x.total, np.bool_))


def carry(x: Wave) -> np.ndarray:
    """The carry flags of all threads."""
    return _FLAGS(x)


def _saturated(values: np.ndarray) -> np.ndarray:
    clamped: np.ndarray = np.clip(values, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    return clamped


def _same(i: Instruction, c: Linker, kind: str, f: Elementwise) -> Plain:
    return elementwise(c, i.operands[0], kind, [(operand, kind) for operand in i.operands[1:]], f)


def sum_or_difference(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`add`, `sub` of integers; `.sat` of s32."""
    plus = i.op == "add"
    if form.has("cc"):
        return _with_carry(i, c, form, kind)
    saturate = form.has("sat")
    form.end(operands=(3,))
    if not saturate:
        return _same(i, c, kind, np.add if plus else np.subtract)
    if kind != "s32":
        raise unmodelled(i, ".sat is for .s32")
    exact: Any = np.add if plus else np.subtract
    return _same(i, c, kind, lambda a, b: _saturated(exact(np.int64(a), np.int64(b))))


def _check_carry(i: Instruction, kind: str) -> None:
    if kind not in OPERATION_TYPES["addc"]:
        raise unmodelled(i, f"{i.op} has no carry of .{kind}")


def _with_carry(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`add.cc`, `addc{.cc}`, `sub.cc`, `subc{.cc}`."""
    takes, gives = i.op in ("addc", "subc"), i.op in ("add", "sub") or form.has("cc")
    form.end(operands=(3,))
    _check_carry(i, kind)
    unsigned = f"u{kind[1:]}"
    read_a, read_b, write = c.read(i.operands[1], unsigned), c.read(i.operands[2], unsigned), c.write(i.operands[0], unsigned)
    plus = i.op.startswith("add")

    def run(x: Wave) -> None:
        flags = carry(x)
        a, b = read_a(x), read_b(x)
        first = a + b if plus else a - b
        over = first < a if plus else first <= a
        if takes and plus:
            result = first + flags[x.sel].astype(first.dtype)
            over = over | (result < first)
        elif takes:
            result = first - (~flags[x.sel]).astype(first.dtype)
            over = over & (result <= first)
        else:
            result = first
        if gives:
            flags[x.sel] = over
        write(x, result)

    return run


@implements("addc", "subc")
def build_with_carry(i: Instruction, c: Linker) -> Step:
    """`addc`, `subc`: the carry of the instruction before counts; `subc` takes 1 away where it is clear."""
    form = Modifiers(i)
    return _with_carry(i, c, form, form.kind())


def high_product(a: Any, b: Any) -> Any:
    """The upper 64 of 128 bits of products of uint64."""
    shift = np.uint64(32)
    a_low, a_high, b_low, b_high = a & _LOW_32, a >> shift, b & _LOW_32, b >> shift
    first = a_high * b_low + (a_low * b_low >> shift)
    second = a_low * b_high + (first & _LOW_32)
    return a_high * b_high + (first >> shift) + (second >> shift)


def _product(kind: str, part: str) -> tuple[str, Elementwise]:
    """The type of a product and its function: part "lo", "hi" or "wide"."""
    bits = int(kind[1:])
    if part == "lo":
        return kind, np.multiply
    if bits == 64:
        return kind, high_product if kind[0] == "u" else _high_product_signed
    wide = f"{kind[0]}{2 * bits}"
    to = dtype_of(wide)
    if part == "wide":
        return wide, lambda a, b: np.asarray(a).astype(to) * b
    own = dtype_of(kind)
    return kind, lambda a, b: ((np.asarray(a).astype(to) * b) >> to.type(bits)).astype(own)


def _high_product_signed(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    high = high_product(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def _part(form: Modifiers, kind: str) -> str:
    part = form.one_of(("lo", "hi", "wide"))
    if not part:
        raise unmodelled(form.instruction, "it needs .lo, .hi or .wide")
    if part == "wide" and (bits_of(kind) == 64 or form.instruction.op == "madc"):
        raise unmodelled(form.instruction, ".wide is for mul and mad of 16 and 32 bits")
    return part


def multiply(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`mul.lo`, `mul.hi`, `mul.wide`."""
    to, product = _product(kind, _part(form, kind))
    form.end(operands=(3,))
    return elementwise(c, i.operands[0], to, [(operand, kind) for operand in i.operands[1:]], product)


def multiply_add(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`mad`, `mad.cc`, `madc{.cc}` of integers; `.hi.sat.s32` clamps."""
    part = _part(form, kind)
    to, product = _product(kind, part)
    takes, gives, saturate = i.op == "madc", form.has("cc"), form.has("sat")
    form.end(operands=(4,))
    a, b, addend = ((i.operands[1], kind), (i.operands[2], kind), (i.operands[3], to))
    if saturate:
        if (kind, part) != ("s32", "hi"):
            raise unmodelled(i, ".sat is for .hi.s32")
        return elementwise(c, i.operands[0], to, [a, b, addend], lambda p, q, r: _saturated(np.int64(product(p, q)) + r))
    if not takes and not gives:
        return elementwise(c, i.operands[0], to, [a, b, addend], lambda p, q, r: product(p, q) + r)
    _check_carry(i, kind)
    if part == "wide":
        raise unmodelled(i, ".wide with .cc")
    read_a, read_b, read_c = c.read(*a), c.read(*b), c.read(i.operands[3], f"u{to[1:]}")
    unsigned = dtype_of(f"u{to[1:]}")
    write = c.write(i.operands[0], f"u{to[1:]}")

    def run(x: Wave) -> None:
        flags = carry(x)
        first = np.asarray(product(read_a(x), read_b(x))).astype(unsigned)
        result = first + read_c(x)
        over = result < first
        if takes:
            second = result + flags[x.sel].astype(unsigned)
            over, result = over | (second < result), second
        if gives:
            flags[x.sel] = over
        write(x, result)

    return run


@implements("madc")
def build_madc(i: Instruction, c: Linker) -> Step:
    """`madc.lo`, `madc.hi`."""
    form = Modifiers(i)
    return multiply_add(i, c, form, form.kind())


def _low_24(kind: str) -> Elementwise:
    if kind == "u32":
        return lambda a: np.asarray(a).astype(np.int64) & 0xFFFFFF
    return lambda a: (np.asarray(a).astype(np.int64) << 40) >> 40


@implements("mul24", "mad24")
def build_24(i: Instruction, c: Linker) -> Step:
    """`mul24`, `mad24`: the low 24 bits of the operands; `.hi` are bits 16 to 47 of the product, `.lo` bits 0 to 31."""
    form = Modifiers(i)
    kind, part, saturate = form.kind(), form.one_of(("hi", "lo")), form.has("sat")
    form.end(operands=(3 if i.op == "mul24" else 4,))
    if kind not in ("u32", "s32") or not part:
        raise unmodelled(i)
    low, dtype = _low_24(kind), dtype_of(kind)

    def product(a: Any, b: Any) -> Any:
        whole = low(a) * low(b)
        return (whole >> 16 if part == "hi" else whole).astype(dtype)

    if saturate and (i.op, kind, part) != ("mad24", "s32", "hi"):
        raise unmodelled(i, ".sat is for mad24.hi.s32")
    if i.op == "mul24":
        return _same(i, c, kind, product)
    if saturate:
        return _same(i, c, kind, lambda a, b, d: _saturated(np.int64(product(a, b)) + d))
    return _same(i, c, kind, lambda a, b, d: product(a, b) + d)


def absolute(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`abs` of integers; that of the least one is itself."""
    form.end(operands=(2,))
    return _same(i, c, kind, np.abs)


def negate(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`neg` of integers."""
    form.end(operands=(2,))
    return _same(i, c, kind, np.negative)


def extremum(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`min`, `max` of integers; `.relu` makes negative results 0."""
    f: Any = np.minimum if i.op == "min" else np.maximum
    relu = form.has("relu")
    form.end(operands=(3,))
    if relu and kind not in ("s32", "s16x2"):
        raise unmodelled(i, ".relu is for .s32 and .s16x2")
    zero = dtype_of(PACKED[kind][0] if kind in PACKED else kind).type(0)
    return _same(i, c, kind, (lambda a, b: np.maximum(f(a, b), zero)) if relu else f)


def quotient(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`div`, `rem` of integers, toward zero; the PTX ISA does not specify division by zero.

    Division by zero gives all ones for both. Measured (H200): tests/data/h200_arithmetic.json, all widths. The least
    number divided by -1 is itself, with remainder 0.
    """
    form.end(operands=(3,))
    ones = np.array(-1).astype(dtype_of(kind))[()]
    if i.op == "rem":
        return _same(i, c, kind, lambda a, b: np.where(b == 0, ones, np.fmod(a, b)))

    def divide(a: Any, b: Any) -> Any:
        return np.where(b == 0, ones, np.floor_divide(a - np.fmod(a, b), b))

    return _same(i, c, kind, divide)


@implements("rem")
def build_rem(i: Instruction, c: Linker) -> Step:
    """`rem`."""
    form = Modifiers(i)
    return quotient(i, c, form, form.kind())


@implements("sad")
def build_sad(i: Instruction, c: Linker) -> Step:
    """`sad`: c + |a - b|."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(4,))
    return _same(i, c, kind, lambda a, b, d: d + np.where(a < b, b - a, a - b))


@implements("dp4a", "dp2a")
def build_dot(i: Instruction, c: Linker) -> Step:
    """`dp4a`: four products of bytes; `dp2a`: two of halves of a and bytes of b, the low or the high
    ones. Modulo 2^32.
    """
    form = Modifiers(i)
    half = form.one_of(("lo", "hi")) if i.op == "dp2a" else ""
    kinds = form.kinds(2)
    form.end(operands=(4,))
    if bool(half) != (i.op == "dp2a") or set(kinds) - {"u32", "s32"}:
        raise unmodelled(i)
    count = 4 if i.op == "dp4a" else 2
    a_part = np.dtype(f"{'i' if kinds[0] == 's32' else 'u'}{4 // count}")
    b_part = np.dtype("i1" if kinds[1] == "s32" else "u1")
    first = 2 if half == "hi" else 0

    def dot(a: Any, b: Any, d: Any) -> Any:
        left = np.ascontiguousarray(a)[..., None].view(a_part).astype(np.int64)
        right = np.ascontiguousarray(b)[..., None].view(b_part)[..., first : first + count].astype(np.int64)
        return ((left * right).sum(axis=-1) + d).astype(np.uint32)

    return elementwise(c, i.operands[0], "u32", [(operand, "u32") for operand in i.operands[1:]], dot)
