"""How far the approximate float instructions may be off, after the PTX ISA. smemsim gives the number nearest to the
true result instead.

So results of these instructions are not bit-exact: a program that has one of them names it (`Program.approximate`).

The bounds and the names of the sections were written down without the document at hand and are to be read again there:
graded *inferred* until then. Samples of an H200 (tests/data/h200_approximate.npz) lie within each of them and one unit
in the last place.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["APPROXIMATE", "Approximation"]


class Approximation(NamedTuple):
    """One instruction: its error bound, in the PTX ISA's terms, and where it stands there."""

    name: str
    relative: float | None  # largest relative error
    absolute: float | None  # largest absolute error
    ulps: float | None  # largest error in units of the last place
    where: str  # for which operands the bound holds
    source: str


# fmt: off
APPROXIMATE: dict[str, Approximation] = {a.name: a for a in (
    Approximation("div.approx.f32",   None,       None,       2,    "divisors of magnitude 2^-126 to 2^126", "PTX ISA 9.1 §9.7.3.8, not read again"),
    Approximation("div.full.f32",     None,       None,       2,    "all",                                   "PTX ISA 9.1 §9.7.3.8, not read again"),
    Approximation("rcp.approx.f32",   None,       None,       1,    "all",                                   "PTX ISA 9.1 §9.7.3.13, not read again"),
    Approximation("rcp.approx.f64",   2.0**-20,   None,       None, "upper 32 bits only, subnormals flushed", "PTX ISA 9.1 §9.7.3.14, not read again"),
    Approximation("sqrt.approx.f32",  2.0**-23,   None,       None, "all",                                   "PTX ISA 9.1 §9.7.3.15, not read again"),
    Approximation("rsqrt.approx.f32", 2.0**-22.9, None,       None, "all",                                   "PTX ISA 9.1 §9.7.3.16, not read again"),
    Approximation("rsqrt.approx.f64", 2.0**-20,   None,       None, "upper 32 bits only with .ftz",          "PTX ISA 9.1 §9.7.3.17, not read again"),
    Approximation("sin.approx.f32",   None,       2.0**-20.5, None, "-2 pi to 2 pi",                         "PTX ISA 9.1 §9.7.3.18, not read again"),
    Approximation("cos.approx.f32",   None,       2.0**-20.5, None, "-2 pi to 2 pi",                         "PTX ISA 9.1 §9.7.3.19, not read again"),
    Approximation("lg2.approx.f32",   2.0**-22,   2.0**-22,   None, "absolute from 0.5 to 2, relative elsewhere", "PTX ISA 9.1 §9.7.3.20, not read again"),
    Approximation("ex2.approx.f32",   None,       None,       2,    "all",                                   "PTX ISA 9.1 §9.7.3.21, not read again"),
    Approximation("ex2.approx.f16",   2.0**-9.9,  None,       None, "all",                                   "PTX ISA 9.1 §9.7.4.10, not read again"),
    Approximation("ex2.approx.bf16",  2.0**-7,    None,       None, "all",                                   "PTX ISA 9.1 §9.7.4.10, not read again"),
    Approximation("tanh.approx.f32",  2.0**-11,   None,       None, "all",                                   "PTX ISA 9.1 §9.7.3.22, not read again"),
    Approximation("tanh.approx.f16",  None,       2.0**-10.987, None, "all",                                 "PTX ISA 9.1 §9.7.4.9, not read again"),
    Approximation("tanh.approx.bf16", None,       2.0**-8,    None, "all",                                   "PTX ISA 9.1 §9.7.4.9, not read again"),
)}
# fmt: on
