"""Comparisons, selections and moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.core.ptx.module import Instruction, Pair, Sink, Vector
from smemsim.core.spec.float_types import FLOAT_TYPES
from smemsim.core.spec.operation_types import SET_TYPES
from smemsim.run.isa.alu.floats import element, flush_operands, is_float, numbers
from smemsim.run.isa.alu.forms import PACKED, Elementwise, elementwise
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registers import bits_of, dtype_of
from smemsim.run.isa.registry import Plain, Step, implements, limit, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


# ---- Comparisons and selections (PTX ISA 9.1 §9.7.6, 9.7.7): set, setp, selp, slct, testp, copysign


_ORDERED: dict[str, Any] = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_INTEGERS: dict[str, Any] = {**_ORDERED, "ne": np.not_equal}
_UNSIGNED: dict[str, Any] = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
# "Unordered" comparisons are true when an operand is a NaN: the opposites of the ordered ones.
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    **_ORDERED,
    "ne": lambda a, b: np.less(a, b) | np.greater(a, b),
    "equ": lambda a, b: ~(np.less(a, b) | np.greater(a, b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~np.greater_equal(a, b),
    "leu": lambda a, b: ~np.greater(a, b),
    "gtu": lambda a, b: ~np.less_equal(a, b),
    "geu": lambda a, b: ~np.less(a, b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
_COMBINE: dict[str, Any] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _comparison(i: Instruction, form: Modifiers, kind: str) -> tuple[Elementwise, str]:
    """The comparison of two operands of a type, and how they are read."""
    flush = form.has("ftz")
    if is_float(kind):
        name = form.one_of(_FLOATS)
        if not name:
            raise unmodelled(i, "no such comparison of floats")
        own = element(kind)
        compare, as_numbers = _FLOATS[name], numbers(own)
        if flush and own in ("f64", "bf16"):
            raise unmodelled(i, f".ftz of .{kind}")
        f: Elementwise = flush_operands(own, compare) if flush else compare
        return (f if own in ("f32", "f64") else lambda a, b: f(as_numbers(a), as_numbers(b))), kind
    known = _INTEGERS | (_UNSIGNED if kind[0] == "u" else {})
    if kind[0] == "b":
        known = {"eq": np.equal, "ne": np.not_equal}
    name = form.one_of(known)
    if not name or flush or kind == "pred":
        raise unmodelled(i, f"no such comparison of .{kind}")
    return known[name], kind


@implements("setp")
def build_setp(i: Instruction, c: Linker) -> Step:
    """`setp`: p, and for p|q the opposite in q, each combined with a predicate; of packed floats p and q are the two
    comparisons.
    """
    form = Modifiers(i)
    combine: Any = _COMBINE.get(form.one_of(_COMBINE))
    kind = form.kind()
    compare, read_as = _comparison(i, form, kind)
    form.end(operands=(3,) if combine is None else (4,))
    to = i.operands[0]
    a, b = c.read(i.operands[1], read_as), c.read(i.operands[2], read_as)
    other = c.read(i.operands[3], "pred") if combine is not None else None
    if not isinstance(to, Pair):
        if kind in PACKED:
            raise limit(i, "one result of two comparisons, which the PTX ISA writes p|q")
        write = c.write(to, "pred")
        if other is None:
            return lambda x: write(x, compare(a(x), b(x)))
        return lambda x: write(x, combine(compare(a(x), b(x)), other(x)))
    write_p, write_q = c.write(to.first, "pred"), c.write(to.second, "pred")
    part = dtype_of(element(kind)) if kind in PACKED else None

    def both(x: Wave) -> None:
        if part is None:
            p = compare(a(x), b(x))
            q = ~p
        else:
            found = compare(*(np.ascontiguousarray(read(x))[..., None].view(part) for read in (a, b)))
            p, q = found[..., 0], found[..., 1]
        if other is not None:
            third = other(x)
            p, q = combine(p, third), combine(q, third)
        write_p(x, p)
        write_q(x, q)

    return both


@implements("set")
def build_set(i: Instruction, c: Linker) -> Step:
    """`set`: all ones, or 1.0 of float types, if the comparison holds, combined with a predicate; otherwise 0."""
    form = Modifiers(i)
    combine: Any = _COMBINE.get(form.one_of(_COMBINE))
    to, kind = form.kinds(2)
    if to not in SET_TYPES.get(kind, ()):
        raise unmodelled(i, f"there is no .{to} of .{kind}")
    if "ftz" in form.left and to == "bf16":
        raise unmodelled(i, ".ftz of .bf16")
    compare, read_as = _comparison(i, form, kind)
    form.end(operands=(3,) if combine is None else (4,))
    target = to if to in PACKED else ""
    if kind in PACKED and to in ("u32", "s32"):  # a mask: each half all ones or zero
        target, to = kind, "u16"
    own = element(to)
    if own in FLOAT_TYPES:
        t = FLOAT_TYPES[own]
        true_bits: Any = ((1 << (t.exponent_bits - 1)) - 1) << t.fraction_bits
    else:
        true_bits = (1 << int(own[1:])) - 1
    raw = np.dtype(f"u{int(true_bits).bit_length() + 7 >> 3}") if own not in FLOAT_TYPES else np.dtype(f"u{FLOAT_TYPES[own].bits // 8}")
    yes, no = raw.type(true_bits), raw.type(0)
    sources = [(operand, read_as) for operand in i.operands[1:3]]
    target = target or f"b{8 * raw.itemsize}"
    if combine is None:
        return elementwise(c, i.operands[0], target, sources, lambda a, b: np.where(compare(a, b), yes, no))
    return elementwise(
        c, i.operands[0], target, [*sources, (i.operands[3], "pred")], lambda a, b, p: np.where(combine(compare(a, b), p), yes, no)
    )  # fmt: skip


@implements("selp")
def build_selp(i: Instruction, c: Linker) -> Step:
    """`selp`: a where the predicate holds, b where it does not."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(4,))
    a, b, p = c.read(i.operands[1], kind), c.read(i.operands[2], kind), c.read(i.operands[3], "pred")
    write = c.write(i.operands[0], kind)
    return lambda x: write(x, np.where(p(x), a(x), b(x)))


@implements("slct")
def build_slct(i: Instruction, c: Linker) -> Step:
    """`slct`: a where c is at least zero, -0 included, b where it is not, NaNs included."""
    form = Modifiers(i)
    flush = form.has("ftz")
    kind, third = form.kinds(2)
    form.known(kind)
    form.end(operands=(4,))
    if third not in ("s32", "f32") or (flush and third != "f32"):
        raise unmodelled(i)
    # With .ftz a subnormal counts as zero.
    least = np.float32(2.0**-126) if flush else np.float32(0)
    a, b, s = c.read(i.operands[1], kind), c.read(i.operands[2], kind), c.read(i.operands[3], third)
    write = c.write(i.operands[0], kind)
    if flush:
        return lambda x: write(x, np.where(s(x) > -least, a(x), b(x)))
    return lambda x: write(x, np.where(s(x) >= 0, a(x), b(x)))


def _classes(kind: str) -> dict[str, Callable[[Any], Any]]:
    smallest = FLOAT_TYPES[kind].smallest_normal
    return {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= smallest) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < smallest) & (a != 0),
    }


@implements("testp")
def build_testp(i: Instruction, c: Linker) -> Step:
    """`testp`; zeros count as normal."""
    form = Modifiers(i)
    kind = form.kind()
    if kind not in ("f32", "f64"):
        raise unmodelled(i)
    classes = _classes(kind)
    name = form.one_of(classes)
    form.end(operands=(2,))
    if not name:  # ptxas takes it
        raise limit(i, "without a property, such as .finite")
    return elementwise(c, i.operands[0], "pred", [(i.operands[1], kind)], classes[name])


@implements("copysign")
def build_copysign(i: Instruction, c: Linker) -> Step:
    """`copysign`: b with the sign of a."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(3,))
    if kind not in ("f32", "f64"):
        raise unmodelled(i)
    bits = int(kind[1:])
    raw = dtype_of(f"b{bits}").type
    sign, rest = raw(1 << (bits - 1)), raw((1 << (bits - 1)) - 1)
    sources = [(operand, f"b{bits}") for operand in i.operands[1:]]
    return elementwise(c, i.operands[0], f"b{bits}", sources, lambda a, b: (a & sign) | (b & rest))


# ---- `mov`: registers, numbers, addresses, and words taken apart or put together (PTX ISA 9.1 §9.7.9.2, 9.7.9.3)


@implements("mov")
def build_mov(i: Instruction, c: Linker) -> Step:
    """`mov`, all forms."""
    form = Modifiers(i)
    kind = "b128" if form.has("b128") else form.kind()
    form.end(operands=(2,))
    to, source = i.operands
    if isinstance(to, Vector):
        return _take_apart(i, c, kind, to)
    if isinstance(source, Vector):
        return _put_together(i, c, kind, source)
    read, write = c.read(source, kind), c.write(to, kind)
    return lambda x: write(x, read(x))


def _part_bits(i: Instruction, kind: str, vector: Vector) -> int:
    """Bits of each of the registers that a word consists of."""
    count = len(vector.items)
    if count not in (2, 4):
        raise unmodelled(i, f"a vector of {count} registers; a word has 2 or 4 parts")
    return bits_of(kind) // count


def _take_apart(i: Instruction, c: Linker, kind: str, to: Vector) -> Plain:
    size = _part_bits(i, kind, to)
    part = dtype_of(f"b{size}")
    read = c.read(i.operands[1], kind)
    writes = [(n, c.write(item, f"b{size}")) for n, item in enumerate(to.items) if not isinstance(item, Sink)]

    def run(x: Wave) -> None:
        parts = _parts(read(x), kind, part)
        for n, write in writes:
            write(x, parts[..., n])

    return run


def _parts(values: Any, kind: str, part: np.dtype[Any]) -> np.ndarray:
    whole = np.ascontiguousarray(values)
    return whole.view(part) if kind == "b128" else whole[..., None].view(part)


def _put_together(i: Instruction, c: Linker, kind: str, source: Vector) -> Plain:
    count, size = len(source.items), _part_bits(i, kind, source)
    part = dtype_of(f"b{size}")
    reads, write = [c.read(item, f"b{size}") for item in source.items], c.write(i.operands[0], kind)
    whole = np.dtype(np.uint64) if kind == "b128" else dtype_of(f"b{bits_of(kind)}")

    def run(x: Wave) -> None:
        parts = np.empty((x.n, count), part)
        for n, read in enumerate(reads):
            parts[:, n] = read(x)
        joined = parts.view(whole)
        write(x, joined if kind == "b128" else joined[:, 0])

    return run
