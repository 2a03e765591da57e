"""The approximate float instructions: the result nearest to the true one, special values as the PTX ISA has them.

Hardware interpolates tables that are in no document, so other bits are possible there; `spec.approximate` has the bounds. A program collects the
names of those that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.arithmetic import rounding
from smemsim.arithmetic.compiled import ufunc
from smemsim.gpu.alu.floats import element, finish, flush_operands, numbers, signature
from smemsim.gpu.alu.forms import PACKED, Elementwise, Form, elementwise
from smemsim.gpu.registry import Step, implements, unmodelled
from smemsim.ptx.module import Instruction
from smemsim.spec.approximate import APPROXIMATE
from smemsim.spec.float_types import FLOAT_TYPES, FloatType

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker

__all__ = ["divide", "unary"]

ONE_TURN = float(np.float32(1 / (2 * np.pi)))


def _turns(x: Any) -> Any:
    """Angles as fractions of a turn: sine and cosine are one f32 product, rounded toward zero, and then the table, so that large angles are far off."""
    product = np.ascontiguousarray(np.asarray(x, np.float64) * ONE_TURN)
    kept = (product.view(np.int64) & np.int64(-(1 << 29))).view(np.float64).reshape(np.shape(x))  # the fraction of an f32
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
    """`f` of float64 numbers, rounded to f32; 16-bit types are what is left of that toward zero, as in the samples of an H200
    (tests/data/h200_approximate.npz)."""
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


def divide(i: Instruction, c: Linker, form: Form, kind: str) -> Step:
    """`div.approx`, `div.full`."""
    own = FLOAT_TYPES[kind]
    how, flush = form.one_of("approx", "full"), form.has("ftz")
    form.done(operands=(3,))
    _named(c, i, own, str(how))

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


def unary(i: Instruction, c: Linker, form: Form, kind: str) -> Step:
    """rcp, sqrt, rsqrt, sin, cos, lg2, ex2 and tanh with .approx."""
    own = FLOAT_TYPES.get(element(kind))
    approximate, flush = form.has("approx"), form.has("ftz")
    form.done(operands=(2,))
    if own is None or not approximate or f"{i.op}.approx.{own.name}" not in APPROXIMATE:
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
    """`rsqrt.approx.f64`, which refines all bits; subnormals count."""

    def f(a: Any) -> Any:
        result = np.ascontiguousarray(np.asarray(of(np.asarray(a, np.float64)), np.float64))
        return np.where(np.isnan(result), np.int64(own.nan), result.view(np.int64))

    return f


def _upper_half(own: FloatType, of: Callable[[Any], Any]) -> Elementwise:
    """`rcp.approx.ftz.f64` and its like: computed from the upper 32 bits of the operand, the lower 32 of the result are zero."""
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
    form = Form(i)
    return unary(i, c, form, form.kind())
