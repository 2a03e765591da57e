"""Floating-point arithmetic: exact in every rounding mode, and the approximate functions within their bounds.

Hardware interpolates tables that are in no document, so other bits are possible there; `spec.approximate` has the
bounds. A program collects the names of those that it has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.compiling.loop import elementwise as ufunc
from smemsim.core.arithmetic import results, rounding
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.approximate import APPROXIMATE
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.float_types import FLOAT_TYPES, FloatType
from smemsim.run.isa.alu.forms import PACKED, Elementwise, elementwise
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registry import Step, implements, unmodelled

if TYPE_CHECKING:
    from smemsim.run.lower.program import Linker

__all__ = [
    "MODES",
    "arithmetic",
    "divide",
    "element",
    "extremum",
    "flush_operands",
    "is_float",
    "mixed",
    "numbers",
    "sign_only",
    "signature",
    "unary",
]


# ---- Float arithmetic (PTX ISA 9.1 §9.7.3, 9.7.4, 9.7.5): which compiled function an operation of a
# type and a rounding mode is


MODES = {"rn": rounding.NEAREST, "rz": rounding.TO_ZERO, "rm": rounding.TO_MINUS_INFINITY, "rp": rounding.TO_PLUS_INFINITY}
_OPERANDS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "sqrt": 1, "rcp": 1}


def element(kind: str) -> str:
    """The type of one element: "f16" of "f16x2"."""
    return PACKED[kind][0] if kind in PACKED else kind


def is_float(kind: str) -> bool:
    """Is it a float type, packed or not?"""
    return element(kind) in FLOAT_TYPES


def signature(result: str, *groups: tuple[str, int]) -> str:
    """A numba signature: `signature("int64", ("float64", 2), ("int64", 1))`."""
    return f"{result}({','.join(name for name, count in groups for _ in range(count))})"


@functools.cache
def numbers(kind: str) -> Callable[[Any], Any]:
    """A function from what a register of the type is read as to numbers that numpy knows, of the same value."""
    if kind == "f16":
        return lambda a: np.asarray(a).view(np.float16)
    if kind == "bf16":
        return lambda a: (np.asarray(a).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return lambda a: a


def flush_operands(kind: str, f: Elementwise) -> Elementwise:
    """`f` of numbers whose subnormals are zeros."""
    flush = ufunc(results.flushed, "float32(float32,float32)", "float64(float64,float64)")
    smallest = FLOAT_TYPES[kind].smallest_normal
    least: Any = np.float32(smallest) if kind != "f64" else smallest
    return lambda *a: f(*[flush(x, least) for x in a])


def _native(op: str, kind: str) -> Elementwise | None:
    """To nearest, as the host computes it."""
    word, number = ("uint32", "float32") if kind == "f32" else ("int64", "float64")
    name = "single" if kind == "f32" else "double"
    parts = {"add": "sum", "mul": "product", "div": "quotient", "sqrt": "root"}
    if op == "fma" and kind == "f32":
        return ufunc(results.single_fused, "uint32(float64,float64,float64)")  # type: ignore[no-any-return]
    if op in parts:
        return ufunc(getattr(results, f"{name}_{parts[op]}"), signature(word, (number, _OPERANDS[op])))  # type: ignore[no-any-return]
    return None


@functools.cache
def rounding_function(op: str, kind: str, mode: int) -> Elementwise:
    """add, mul, fma, div or sqrt of numbers of a type: codes, NaNs as the type has them."""
    own = FLOAT_TYPES[kind]
    if mode == rounding.NEAREST and kind in ("f32", "f64"):
        found = _native(op, kind)
        if found is not None:
            return found
    if kind == "f64":
        scalar = {"fma": results.double_fused, "div": results.double_divided, "sqrt": results.double_rooted, "mul": results.double_multiplied, "add": results.double_added}[op]  # fmt: skip
        f = ufunc(scalar, signature("int64", ("float64", _OPERANDS[op]), ("int64", 1)))
        return lambda *a: f(*a, mode)
    limits: tuple[int, ...] = (own.exponent_bits, own.fraction_bits, own.largest, own.infinity, own.nan, mode)
    scalar = {"fma": rounding.fused, "div": rounding.quotient, "sqrt": rounding.root, "mul": rounding.product, "add": rounding.added}[op]
    f = ufunc(scalar, signature("int64", ("float64", _OPERANDS[op]), ("int64", len(limits))))
    return lambda *a: f(*a, *limits)


def finish(own: FloatType, f: Elementwise, *, flush: bool, saturate: bool, relu: bool) -> Elementwise:
    """`f` with what comes after the rounding."""
    if not (flush or saturate or relu):
        return f
    last = ufunc(results.finished, signature("int64", ("int64", 7)))
    parameters = (own.exponent_bits, own.fraction_bits, own.nan, int(flush), int(saturate), int(relu))
    return lambda *a: last(f(*a), *parameters)


def _rounding(form: Modifiers) -> str:
    """The rounding mode; only sums and products have one by default."""
    mode = form.one_of(MODES)
    if not mode and form.instruction.op in ("fma", "mad", "div", "rcp", "sqrt"):
        raise unmodelled(form.instruction, "it needs .rn, .rz, .rm or .rp")
    return mode or "rn"


def arithmetic(i: Instruction, c: Linker, form: Modifiers, kind: str, op: str, *, signs: tuple[int, int] = (1, 1)) -> Step:
    """`add`, `sub`, `mul`, `fma`, and div, rcp, sqrt with a rounding mode; `signs` are those of the product and the
    addend of `fma`.
    """
    own = FLOAT_TYPES[element(kind)]
    rounding_mode, flush, saturate = _rounding(form), form.has("ftz"), form.has("sat")
    relu = op == "fma" and form.has("relu")
    out_of_bounds = op == "fma" and form.has("oob")
    form.end(operands=(1 + _OPERANDS[op],))
    if kind == "f32x2" and saturate:
        raise unmodelled(i, ".sat of .f32x2")
    if (saturate and relu) or (out_of_bounds and flush):
        raise unmodelled(i, ".sat with .relu" if relu else ".ftz with .oob")
    if own.bits == 16 and rounding_mode != "rn":
        raise unmodelled(i, f".{rounding_mode} of .{kind}")
    if (flush and own.name in ("f64", "bf16")) or (saturate and own.name in ("f64", "bf16")) or (relu and own.bits != 16):
        raise unmodelled(i, "no such modifier of the type")
    f = _composed(op, own, MODES[rounding_mode] | (rounding.FLUSH if flush else 0))
    if flush:
        f = flush_operands(own.name, f)
    f = finish(own, f, flush=False, saturate=saturate, relu=relu)
    as_numbers = numbers(own.name)
    if own.bits == 16:
        f = _of_numbers(f, as_numbers)
    if signs != (1, 1):
        f = _signed(f, own, signs)
    if out_of_bounds:
        if own.bits != 16:
            raise unmodelled(i, ".oob is for 16-bit types")
        f = _zero_out_of_bounds(f)
    to = kind if kind in PACKED else f"b{own.bits}"
    return elementwise(c, i.operands[0], to, [(operand, kind) for operand in i.operands[1:]], f)


def _signed(f: Elementwise, own: FloatType, signs: tuple[int, int]) -> Elementwise:
    """An `fma` that changes the sign of its product, its addend or both; a NaN keeps its own."""

    def changed(x: Any, sign: int) -> Any:
        if sign == 1:
            return x
        if own.bits == 16:  # raw bits
            return np.bitwise_xor(x, x.dtype.type(1 << own.bits - 1))
        return np.where(np.isnan(x), x, np.negative(x)).astype(x.dtype)

    return lambda a, b, c: f(changed(a, signs[0]), b, changed(c, signs[1]))


def _of_numbers(f: Elementwise, as_numbers: Callable[[Any], Any]) -> Elementwise:
    return lambda *a: f(*[as_numbers(x) for x in a])


def _composed(op: str, own: FloatType, mode: int) -> Elementwise:
    if op == "sub":
        add = rounding_function("add", own.name, mode)
        # A NaN keeps its sign, which only f64 shows.
        return lambda a, b: add(a, np.where(np.isnan(b), b, np.negative(b)) if own.bits == 64 else np.negative(b))
    if op == "rcp":
        divide = rounding_function("div", own.name, mode)
        one: Any = np.float32(1) if own.name == "f32" else 1.0
        return lambda a: divide(one, a)
    return rounding_function("fma" if op == "mad" else op, own.name, mode)


OUT_OF_BOUNDS = 0x7FF7  # what TMA fills with in NaN mode; PTX ISA 9.1 §9.7.4.4 calls it OOB NaN


def _zero_out_of_bounds(f: Elementwise) -> Elementwise:
    """`.oob`: zero where a factor is the NaN that stands for elements outside a tensor."""
    sign, nan = np.uint16(0x7FFF), np.uint16(OUT_OF_BOUNDS)
    return lambda a, b, d: np.where((a & sign == nan) | (b & sign == nan), 0, f(a, b, d))


def extremum(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`min`, `max` of floats, of two operands, or three of f32."""
    own = FLOAT_TYPES[element(kind)]
    flush, nan, signs = form.has("ftz"), form.has("NaN"), form.has("xorsign")
    signs_abs = form.has("abs")
    form.end(operands=(3, 4) if kind == "f32" else (3,))
    three = len(i.operands) == 4
    if signs != (signs_abs and not three):
        raise unmodelled(i, ".xorsign goes with .abs, and with two operands")
    if three and not any_architecture(c.arch).is_blackwell:
        raise unmodelled(i, f"three operands on {c.arch}")
    if (own.name == "f64" and (flush or nan or signs)) or (own.name == "bf16" and flush):
        raise unmodelled(i, f"no such modifier of .{kind}")
    f = ufunc(results.extreme, signature("int64", ("int64", 9)))
    parameters = (
        own.exponent_bits,
        own.fraction_bits,
        0 if own.name == "f64" else own.nan,
        int(i.op == "max"),
        int(nan),
        int(flush),
        int(signs),
    )
    to = kind if kind in PACKED else f"b{own.bits}"
    sources = [(operand, to) for operand in i.operands[1:]]
    if three:
        kept = np.uint32(0x7FFFFFFF if signs_abs else 0xFFFFFFFF)
        return elementwise(
            c, i.operands[0], to, sources, lambda a, b, d: f(f(a & kept, b & kept, *parameters), d & kept, *parameters)
        )  # fmt: skip
    codes = _codes(own)
    return elementwise(c, i.operands[0], to, sources, lambda a, b: f(codes(a), codes(b), *parameters))


def _codes(own: FloatType) -> Callable[[Any], Any]:
    """The function that makes of a register's bits the integers that formulas of codes compute with. Those of 64 bits
    are signed.
    """
    return (lambda a: np.asarray(a).view(np.int64)) if own.bits == 64 else (lambda a: a)


def sign_only(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`abs`, `neg` of floats."""
    own = FLOAT_TYPES[element(kind)]
    flush = form.has("ftz")
    form.end(operands=(2,))
    if flush and own.name in ("f64", "bf16"):
        raise unmodelled(i, f".ftz of .{kind}")
    f = ufunc(results.signed, signature("int64", ("int64", 6)))
    parameters = (own.exponent_bits, own.fraction_bits, 0 if own.name == "f64" else own.nan, int(i.op == "neg"), int(flush))
    to, codes = kind if kind in PACKED else f"b{own.bits}", _codes(own)
    return elementwise(c, i.operands[0], to, [(i.operands[1], to)], lambda a: f(codes(a), *parameters))


def mixed(i: Instruction, c: Linker, form: Modifiers, kinds: list[str], op: str) -> Step:
    """`add`, `sub`, `fma` of f32 with factors, or a first summand, of f16 or bf16 (sm_100a): they are
    widened, exactly.
    """
    rounding_mode, saturate = _rounding(form), form.has("sat")
    form.end(operands=(1 + _OPERANDS[op],))
    to, *rest = kinds
    small = rest[0]
    if len(rest) > 1 or to != "f32" or small not in ("f16", "bf16"):
        raise unmodelled(i, f".{small} with .{to}")
    f = finish(FLOAT_TYPES[to], _composed(op, FLOAT_TYPES[to], MODES[rounding_mode]), flush=False, saturate=saturate, relu=False)
    widened = numbers(small)
    few = len(i.operands) - 2  # all operands but the last one

    def single(x: Any) -> Any:
        return np.asarray(widened(x)).astype(np.float32)

    sources = [*((operand, small) for operand in i.operands[1:-1]), (i.operands[-1], to)]
    return elementwise(c, i.operands[0], "b32", sources, lambda *a: f(*[single(x) for x in a[:few]], *a[few:]))


# ---- The approximate float instructions: the result nearest to the true one, special values as the PTX ISA has them


ONE_TURN = float(np.float32(1 / (2 * np.pi)))


def _turns(x: Any) -> Any:
    """Angles as fractions of a turn: sine and cosine are one f32 product, rounded toward zero, and then the table, so
    that large angles are far off.
    """
    product = np.ascontiguousarray(np.asarray(x, np.float64) * ONE_TURN)
    # the fraction of an f32
    kept = (product.view(np.int64) & np.int64(-(1 << 29))).view(np.float64).reshape(np.shape(x))
    return np.where(np.isfinite(x), np.fmod(kept, 1.0), np.nan)


# All take and give float64; where numpy's result is a NaN, or of the wrong sign at a pole, the PTX ISA agrees with it.
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "rcp": lambda x: np.divide(1.0, x),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.divide(1.0, np.sqrt(x)),
    "sin": lambda x: np.sin(2 * np.pi * _turns(x)),
    "cos": lambda x: np.cos(2 * np.pi * _turns(x)),
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def nearest(own: FloatType, f: Callable[..., Any]) -> Elementwise:
    """`f` of float64 numbers, rounded to f32; 16-bit types are what is left of that toward zero, as in the samples of
    an H200 (tests/data/h200_approximate.npz).
    """
    f32 = FLOAT_TYPES["f32"] if own.bits == 16 else own
    to = ufunc(rounding.converted, signature("int64", ("float64", 1), ("int64", 7)))

    def limits(t: FloatType, mode: int) -> tuple[int, ...]:
        return (t.exponent_bits, t.fraction_bits, t.largest, t.infinity, t.infinity, t.nan, mode)

    to_f32, to_own = limits(f32, rounding.NEAREST), limits(own, rounding.TO_ZERO)

    too_large = 2.0 ** (2 ** (own.exponent_bits - 1))

    def compute(*a: Any) -> Any:
        codes = to(f(*[np.asarray(x).astype(np.float64) for x in a]), *to_f32)
        if own.bits == 32:
            return codes
        single = np.asarray(codes).astype(np.uint32).view(np.float32)
        return to(np.where(np.abs(single) >= too_large, np.copysign(np.inf, single), single), *to_own)

    return compute


def _named(c: Linker, i: Instruction, own: FloatType, form: str) -> None:
    row = APPROXIMATE.get(f"{i.op}.{form}.{own.name}")
    if row is None:
        raise unmodelled(i)
    c.approximate.add(row.name)


def divide(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """`div.approx`, `div.full`."""
    own = FLOAT_TYPES[kind]
    how, flush = form.one_of(("approx", "full")), form.has("ftz")
    form.end(operands=(3,))
    _named(c, i, own, how)

    def quotient(a: Any, b: Any) -> Any:
        # The product with the reciprocal, which is rounded to 24 bits first; its exponent is no limit.
        fraction, exponent = np.frexp(b)
        reciprocal = np.divide(np.float32(1), fraction.astype(np.float32)).astype(np.float64)
        result = np.where(np.isfinite(b) & (b != 0), np.ldexp(a * reciprocal, -exponent), np.divide(a, b))
        # A divisor above 2^126 is scaled away by .approx: zero, and a NaN of an infinity.
        return result if how == "full" else np.where((np.abs(b) > 2.0**126) & np.isfinite(b), a * np.copysign(0.0, b), result)

    f = nearest(own, quotient)
    f = finish(own, flush_operands(kind, f), flush=True, saturate=False, relu=False) if flush else f
    return elementwise(c, i.operands[0], "b32", [(operand, kind) for operand in i.operands[1:]], f)


def unary(i: Instruction, c: Linker, form: Modifiers, kind: str) -> Step:
    """rcp, sqrt, rsqrt, sin, cos, lg2, ex2 and tanh with .approx."""
    own = FLOAT_TYPES.get(element(kind))
    approximate, flush = form.has("approx"), form.has("ftz")
    form.end(operands=(2,))
    if own is None or not approximate:
        raise unmodelled(i)
    if (flush and (i.op == "tanh" or own.name == "f16")) or ((i.op, own.name) == ("ex2", "bf16") and not flush):
        raise unmodelled(i, ".ftz is not for tanh and .f16, and must be there for ex2 of .bf16")
    _named(c, i, own, "approx")
    if own.name == "f64":
        f = _upper_half(own, _FUNCTIONS[i.op]) if flush else _whole(own, _FUNCTIONS[i.op])
        if not flush and i.op == "rcp":
            raise unmodelled(i, "it needs .ftz")
        return elementwise(c, i.operands[0], "b64", [(i.operands[1], kind)], f)
    f = _converted(nearest(own, _FUNCTIONS[i.op]), numbers(own.name), own.smallest_normal if flush else 0.0)
    f = finish(own, f, flush=flush, saturate=False, relu=False)
    to = kind if kind in PACKED else f"b{own.bits}"
    return elementwise(c, i.operands[0], to, [(i.operands[1], kind)], f)


def _converted(f: Elementwise, as_numbers: Callable[[Any], Any], smallest: float) -> Elementwise:
    """`f` of numbers; those below `smallest` count as zero."""
    if not smallest:
        return lambda a: f(as_numbers(a))

    def flushing(a: Any) -> Any:
        x = np.asarray(as_numbers(a)).astype(np.float64)
        return f(np.where(np.abs(x) < smallest, np.copysign(0.0, x), x))

    return flushing


def _whole(own: FloatType, of: Callable[[Any], Any]) -> Elementwise:
    """`rsqrt.approx.f64`, which refines all bits; subnormals count. A NaN keeps its sign and payload, quieted
    (measured on an H200).
    """
    quiet = np.int64(1 << own.fraction_bits - 1)

    def f(a: Any) -> Any:
        given = np.ascontiguousarray(np.asarray(a, np.float64))
        result = np.ascontiguousarray(np.asarray(of(np.asarray(a, np.float64)), np.float64))
        nans = np.where(np.isnan(given), given.view(np.int64) | quiet, np.int64(own.nan))
        return np.where(np.isnan(result), nans, result.view(np.int64))

    return f


def _upper_half(own: FloatType, of: Callable[[Any], Any]) -> Elementwise:
    """`rcp.approx.ftz.f64` and its like: computed from the upper 32 bits of the operand, the lower 32 of the result
    are zero.
    """
    upper, sign = np.int64(~0xFFFFFFFF), np.int64(-(1 << 63))

    def f(a: Any) -> Any:
        value = (np.atleast_1d(np.ascontiguousarray(a, np.float64)).view(np.int64) & upper).view(np.float64)
        value = np.where(np.abs(value) < own.smallest_normal, np.copysign(0.0, value), value)
        result = np.asarray(of(value), np.float64)
        word = result.view(np.int64)
        word = np.where(np.isfinite(result), word + (1 << 31), word) & upper
        word = np.where(np.abs(result) < own.smallest_normal, word & sign, word)
        return np.where(np.isnan(result), np.int64(0x7FFFFFFF00000000), word)

    return f


@implements("rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def build_approximate(i: Instruction, c: Linker) -> Step:
    """`rsqrt`, `sin`, `cos`, `lg2`, `ex2`, `tanh`."""
    form = Modifiers(i)
    return unary(i, c, form, form.kind())
