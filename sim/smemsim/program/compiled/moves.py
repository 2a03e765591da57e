"""`mov`, `cvt` and addresses as LLVM. What they do is said in `alu/compare.py`, `alu/convert.py` and `memory/addresses.py`."""

from __future__ import annotations

from smemsim.program.compiled.forms import compiles
from smemsim.program.compiled.integers import is_integer
from smemsim.program.compiled.vectors import Uncompiled, Value, Vectors, bits_of, llvm_type
from smemsim.program.modifiers import Modifiers
from smemsim.ptx.module import Instruction, Sink, Vector

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
    """Conversions among integers, of integers to f32, of f32 to 32-bit integers, and of f16 to f32."""
    form = Modifiers(i)
    kinds = form.kinds(2)
    if len(kinds) != 2:
        raise Uncompiled("cvt")
    to, source = kinds
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
