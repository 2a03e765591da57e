"""Division, and the approximate functions of f32, as LLVM: computed in double precision and rounded once.
`run/isa/alu/floats.py` describes them.

Quotients and roots are the host's. Powers and logarithms of two are series in double precision, with a smaller error
than the host's library may have. Rounded to f32, both are the nearest number (`tests/run/test_tiers.py` compares
them).
"""

from __future__ import annotations

import math
import struct

from smemsim.core.ptx.module import Instruction
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.jit.floats import flushed, is_flushing
from smemsim.run.jit.forms import compiles
from smemsim.run.jit.vectors import Uncompiled, Value, Vectors

__all__: list[str] = []


_POWERS = 13  # terms of the series of a power: the rest is below 2^-55
_LOGARITHMS = 12  # of a logarithm's, in squares of (m - 1) / (m + 1)
_LARGEST = 200.0  # an exponent whose power is no f32, and neither is that of its negative
_BIAS, _FRACTION = 1023, 52  # of a double


def _double(v: Vectors, x: float) -> Value:
    return v.number("double", struct.unpack("<Q", struct.pack("<d", x))[0])


def _whole(v: Vectors, x: int) -> Value:
    return v.number("i64", x)


def _series(v: Vectors, x: Value, terms: list[float]) -> Value:
    """terms[0] + x terms[1] + x^2 terms[2] ..."""
    total = _double(v, terms[-1])
    for term in reversed(terms[:-1]):
        total = v.intrinsic("fma", "double", [total, x, _double(v, term)])
    return total


def _scale(v: Vectors, exponent: Value) -> Value:
    """2 to a whole exponent (i64)."""
    return v.cast(v.binary("shl", v.binary("add", exponent, _whole(v, _BIAS)), _whole(v, _FRACTION)), "double", "bitcast")


def _power(v: Vectors, x: Value) -> Value:
    """2^x."""
    nan = v.compare("fcmp uno", x, x)
    inside = v.select(nan, _double(v, 0.0), x)
    for limit, op in ((_LARGEST, "fcmp ogt"), (-_LARGEST, "fcmp olt")):
        inside = v.select(v.compare(op, inside, _double(v, limit)), _double(v, limit), inside)
    near = v.intrinsic("rint", "double", [inside])
    rest = v.binary("fsub", inside, near)
    power = _series(v, rest, [math.log(2) ** n / math.factorial(n) for n in range(_POWERS + 1)])
    result = v.binary("fmul", power, _scale(v, v.cast(v.cast(near, "i32", "fptosi"), "i64", "sext")))
    return v.select(nan, x, result)


def _parts(v: Vectors, x: Value) -> tuple[Value, Value]:
    """(fraction in [0.5, 1), exponent) of positive or negative normal numbers."""
    bits = v.cast(x, "i64", "bitcast")
    exponent = v.binary("and", v.binary("lshr", bits, _whole(v, _FRACTION)), _whole(v, 0x7FF))
    kept = v.binary("and", bits, _whole(v, ~(0x7FF << _FRACTION)))
    fraction = v.binary("or", kept, _whole(v, (_BIAS - 1) << _FRACTION))
    return v.cast(fraction, "double", "bitcast"), v.binary("sub", exponent, _whole(v, _BIAS - 1))


def _logarithm(v: Vectors, x: Value) -> Value:
    """log2(x)."""
    fraction, exponent = _parts(v, x)
    low = v.compare("fcmp olt", fraction, _double(v, math.sqrt(0.5)))
    fraction = v.select(low, v.binary("fadd", fraction, fraction), fraction)
    exponent = v.select(low, v.binary("sub", exponent, _whole(v, 1)), exponent)
    one = _double(v, 1.0)
    s = v.binary("fdiv", v.binary("fsub", fraction, one), v.binary("fadd", fraction, one))
    series = _series(v, v.binary("fmul", s, s), [2 / math.log(2) / (2 * n + 1) for n in range(_LOGARITHMS + 1)])
    result = v.intrinsic("fma", "double", [s, series, v.cast(v.cast(exponent, "i32", "trunc"), "double", "sitofp")])
    zero = _double(v, 0.0)
    result = v.select(v.compare("fcmp oeq", x, zero), _double(v, -math.inf), result)
    result = v.select(v.compare("fcmp oeq", x, _double(v, math.inf)), x, result)
    return v.select(v.compare("fcmp ult", x, zero), _double(v, math.nan), result)


def _approximate(v: Vectors, op: str, x: Value) -> Value:
    if op == "ex2":
        return _power(v, x)
    if op == "lg2":
        return _logarithm(v, x)
    root = v.intrinsic("sqrt", "double", [x]) if op != "rcp" else x
    return root if op == "sqrt" else v.binary("fdiv", _double(v, 1.0), root)


def _rounded(v: Vectors, x: Value) -> Value:
    """The nearest f32."""
    return v.emit("float", f"fptrunc <{v.lanes} x double> {x.name} to <{v.lanes} x float>", raw=True)


@compiles("ex2", "lg2", "rsqrt", "sqrt", "rcp")
def function(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`ex2`, `lg2`, `rsqrt`, `sqrt`, `rcp` of f32, with `.approx` or to nearest."""
    form = Modifiers(i)
    kind = form.kind()
    if form.has("approx"):
        flush = form.has("ftz")
        form.end(operands=(2,))
        if kind != "f32":
            raise Uncompiled(f".{kind}")
        a = v.read(i.operands[1], kind)
        a = flushed(v, a) if flush else a
        result = _rounded(v, _approximate(v, i.op, v.cast(a, "double", "fpext")))
    else:
        flush = is_flushing(form)
        form.end(operands=(2,))
        if kind != "f32" or flush or i.op not in ("sqrt", "rcp"):
            raise Uncompiled(f".{kind}")
        a = v.read(i.operands[1], kind)
        one = v.number("float", struct.unpack("<I", struct.pack("<f", 1.0))[0])
        result = v.intrinsic("sqrt", "float", [a], raw=True) if i.op == "sqrt" else v.binary("fdiv", one, a, raw=True)
    v.write(i.operands[0], "f32", flushed(v, result) if flush else result, guard)


def _quotient(v: Vectors, a: Value, b: Value, how: str) -> Value:
    """a / b as `.full` or `.approx` has it: the product with the reciprocal, which is rounded to 24 bits first."""
    fraction, exponent = _parts(v, b)
    one = v.number("float", struct.unpack("<I", struct.pack("<f", 1.0))[0])
    reciprocal = v.cast(v.binary("fdiv", one, v.cast(fraction, "float", "fptrunc")), "double", "fpext")
    result = v.binary("fmul", v.binary("fmul", a, reciprocal), _scale(v, v.binary("sub", _whole(v, 0), exponent)))
    size = v.intrinsic("fabs", "double", [b])
    is_number = v.binary(
        "and", v.compare("fcmp olt", size, _double(v, math.inf)), v.compare("fcmp ogt", size, _double(v, 0.0))
    )  # fmt: skip
    result = v.select(is_number, result, v.binary("fdiv", a, b))
    if how == "full":
        return result
    scaled = v.binary("and", is_number, v.compare("fcmp ogt", size, _double(v, 2.0**126)))
    nothing = v.intrinsic("copysign", "double", [_double(v, 0.0), b])
    return v.select(scaled, v.binary("fmul", a, nothing), result)


@compiles("div")
def divide(v: Vectors, i: Instruction, guard: Value | None) -> None:
    """`div` of f32: to nearest, `.full`, `.approx`."""
    form = Modifiers(i)
    kind = form.kind()
    how = form.one_of(("approx", "full"))
    flush = form.has("ftz") if how else is_flushing(form)
    form.end(operands=(3,))
    if kind != "f32" or (flush and not how):  # of a quotient to nearest .ftz looks at it before it is rounded
        raise Uncompiled(f".{kind}")
    a, b = (v.read(operand, kind) for operand in i.operands[1:])
    if not how:
        v.write(i.operands[0], "f32", v.binary("fdiv", a, b, raw=True), guard)
        return
    if flush:
        a, b = flushed(v, a), flushed(v, b)
    result = _rounded(v, _quotient(v, v.cast(a, "double", "fpext"), v.cast(b, "double", "fpext"), how))
    v.write(i.operands[0], "f32", flushed(v, result) if flush else result, guard)
