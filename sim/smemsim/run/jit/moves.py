"""`mov`, `cvt` and addresses as LLVM. `run/isa/alu/compare.py`, `run/isa/alu/convert.py` and
`run/isa/memory/addresses.py` describe the instructions.
"""

from __future__ import annotations

import functools

from smemsim.core.ptx.module import Instruction, Sink, Vector
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.jit.forms import compiles
from smemsim.run.jit.integers import is_integer
from smemsim.run.jit.vectors import Uncompiled, Value, Vectors, bits_of, llvm_type, vector

__all__: list[str] = []


@compiles("mov")
def mov(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`mov` of registers and numbers, and words taken apart or put together."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    to, source = i.operands
    if isinstance(to, Vector):
        _take_apart(v, i, kind, to, guard)
    elif isinstance(source, Vector):
        _put_together(v, i, kind, source, guard)
    else:
        v.write(to, kind, v.read(source, kind), guard)


def _part(kind: str, vector: Vector) -> int:
    count = len(vector.items)
    if count not in (2, 4):
        raise Uncompiled("mov")
    return bits_of(llvm_type(kind)) // count


def _take_apart(v: Vectors, i: Instruction, kind: str, to: Vector, guard: Value | None) -> None:
    size = _part(kind, to)
    raw = f"i{bits_of(llvm_type(kind))}"
    whole = v.as_type(v.read(i.operands[1], kind), raw)
    parts = [v.cast(v.binary("lshr", whole, v.number(raw, n * size)), f"i{size}", "trunc") for n in range(len(to.items))]
    for item, part in zip(to.items, parts, strict=True):
        if not isinstance(item, Sink):
            v.write(item, f"b{size}", part, guard)


def _put_together(v: Vectors, i: Instruction, kind: str, source: Vector, guard: Value | None) -> None:
    size = _part(kind, source)
    raw = f"i{bits_of(llvm_type(kind))}"
    whole = v.number(raw, 0)
    for n, item in enumerate(source.items):
        part = v.cast(v.as_type(v.read(item, f"b{size}"), f"i{size}"), raw, "zext")
        whole = v.binary("or", whole, v.binary("shl", part, v.number(raw, n * size)))
    v.write(i.operands[0], f"b{bits_of(raw)}", whole, guard)


@compiles("cvt")
def cvt(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """Conversions among integers, of integers to f32, of f32 to 32-bit integers, and between f32 and f16 or bf16."""
    form = Modifiers(i)
    kinds = form.kinds(2)
    if len(kinds) != 2:
        raise Uncompiled("cvt")
    to, source = kinds
    if to in _HALVES and source == "f32":
        _to_halves(v, i, form, to, guard)
        return
    if to == "f32" and source in ("f16", "bf16"):
        form.end(operands=(2,))
        code = v.read(i.operands[1], source)
        result = _of_half(v, code) if source == "f16" else v.binary("shl", v.cast(code, "i32", "zext"), v.number("i32", 16))
        v.write(i.operands[0], "f32" if source == "f16" else "b32", result, guard)
        return
    if is_integer(to) and is_integer(source):
        form.end(operands=(2,))
        result = _integer(v, v.read(i.operands[1], source), source, to)
    elif to == "f32" and is_integer(source):
        form.need("rn")
        form.end(operands=(2,))
        result = v.cast(v.read(i.operands[1], source), "float", "sitofp" if source[0] == "s" else "uitofp")
    elif source == "f32" and to in ("s32", "u32"):
        result = _to_integer(v, v.read(i.operands[1], source), form, to)
    else:
        raise Uncompiled(f"cvt.{to}.{source}")
    v.write(i.operands[0], to, result, guard)


def _integer(v: Vectors, a: Value, source: str, to: str) -> Value:
    kind = llvm_type(to)
    if kind == a.type:
        return a
    narrower = bits_of(kind) < bits_of(a.type)
    return v.cast(a, kind, "trunc" if narrower else "sext" if source[0] == "s" else "zext")


_HALVES = {"f16": 1, "bf16": 1, "f16x2": 2, "bf16x2": 2}  # and how many of them
_HALF_NAN = 0x7FFF


@functools.cache
def _has_halves() -> bool:
    """Does this processor convert f16?"""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return any(features.get(name) for name in ("f16c", "neon", "fp-armv8"))


def _need_halves(v: Vectors) -> None:
    if not _has_halves():
        raise Uncompiled("f16")


def _of_half(v: Vectors, code: Value) -> Value:
    _need_halves(v)
    half = v.cast(code, "half", "bitcast")
    return v.emit("float", f"fpext {vector('half')} {half.name} to {vector('float')}", raw=True)


def _to_halves(v: Vectors, i: Instruction, form: Modifiers, to: str, guard: Value | None) -> None:
    """To nearest, the upper half of a pair first."""
    form.need("rn")
    form.end(operands=(1 + _HALVES[to],))
    code = _to_half if to.startswith("f16") else _to_bfloat
    codes = [code(v, v.read(operand, "f32")) for operand in i.operands[1:]]
    if len(codes) == 1:
        v.write(i.operands[0], "b16", codes[0], guard)
        return
    upper, lower = (v.cast(one, "i32", "zext") for one in codes)
    v.write(i.operands[0], "b32", v.binary("or", v.binary("shl", upper, v.number("i32", 16)), lower), guard)


def _to_half(v: Vectors, a: Value) -> Value:
    _need_halves(v)
    nan = v.compare("fcmp uno", a, a)
    half = v.emit("half", f"fptrunc {vector('float')} {a.name} to {vector('half')}")
    return v.select(nan, v.number("i16", _HALF_NAN), v.cast(half, "i16", "bitcast"))


def _to_bfloat(v: Vectors, a: Value) -> Value:
    nan = v.compare("fcmp uno", a, a)
    raw = v.as_type(a, "i32")
    last = v.binary("and", v.binary("lshr", raw, v.number("i32", 16)), v.number("i32", 1))
    near = v.binary("add", raw, v.binary("add", last, v.number("i32", 0x7FFF)))
    code = v.cast(v.binary("lshr", near, v.number("i32", 16)), "i16", "trunc")
    return v.select(nan, v.number("i16", _HALF_NAN), code)


_ROUNDED = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _to_integer(v: Vectors, a: Value, form: Modifiers, to: str) -> Value:
    """Rounded, clamped; of a NaN 0."""
    mode = form.need(*_ROUNDED)
    form.end(operands=(2,))
    whole = v.intrinsic(_ROUNDED[mode], "float", [a])
    name, kind = f"fpto{to[0]}i.sat", "v16i32.v16f32"
    full = f"@llvm.{name}.{kind}"
    v.declared.add(f"declare <16 x i32> {full}(<16 x float>)")
    return v.emit("i32", f"call <16 x i32> {full}(<16 x float> {whole.name})")


@compiles("cvta")
def cvta(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`cvta` of global memory, whose generic addresses are the same."""
    form = Modifiers(i)
    form.has("to")
    form.need("global")
    form.need("u64")
    form.end(operands=(2,))
    v.write(i.operands[0], "u64", v.read(i.operands[1], "u64"), guard)
