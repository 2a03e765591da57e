"""Operations such as `add` and `min`, whose name serves integer and float types: each goes to
integers.py or floats.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smemsim.core.ptx.module import Instruction
from smemsim.run.isa.alu import floats, integers
from smemsim.run.isa.alu import floats as approximate
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registry import Step, implements
from smemsim.run.lower.fused import MINUS_ADDEND, MINUS_PRODUCT

if TYPE_CHECKING:
    from smemsim.run.lower.program import Linker


@implements("add", "sub")
def build_sum(i: Instruction, c: Linker) -> Step:
    """`add`, `sub`."""
    form = Modifiers(i)
    kinds = form.kinds()
    if len(kinds) > 1:
        return floats.mixed(i, c, form, kinds, i.op)
    kind = form.known(kinds[0])
    return floats.arithmetic(i, c, form, kind, i.op) if floats.is_float(kind) else integers.sum_or_difference(i, c, form, kind)


@implements("mul")
def build_mul(i: Instruction, c: Linker) -> Step:
    """`mul`."""
    form = Modifiers(i)
    kind = form.kind()
    return floats.arithmetic(i, c, form, kind, "mul") if floats.is_float(kind) else integers.multiply(i, c, form, kind)


@implements("mad")
def build_mad(i: Instruction, c: Linker) -> Step:
    """`mad`: multiply and add; of floats it rounds once, as `fma` does."""
    form = Modifiers(i)
    kind = form.kind()
    return floats.arithmetic(i, c, form, kind, "mad") if floats.is_float(kind) else integers.multiply_add(i, c, form, kind)


@implements("fma")
def build_fma(i: Instruction, c: Linker) -> Step:
    """`fma`."""
    form = Modifiers(i)
    kinds = form.kinds()
    if len(kinds) > 1:
        return floats.mixed(i, c, form, kinds, "fma")
    return floats.arithmetic(i, c, form, form.known(kinds[0]), "fma")


@implements("fused")
def build_fused(i: Instruction, c: Linker) -> Step:
    """A sum with a product that ptxas takes into it (run/lower/fused.py)."""
    form = Modifiers(i)
    minus_product, minus_addend = form.has(MINUS_PRODUCT), form.has(MINUS_ADDEND)
    return floats.arithmetic(i, c, form, form.kind(), "fma", signs=(-1 if minus_product else 1, -1 if minus_addend else 1))


@implements("div")
def build_div(i: Instruction, c: Linker) -> Step:
    """`div`."""
    form = Modifiers(i)
    kind = form.kind()
    if not floats.is_float(kind):
        return integers.quotient(i, c, form, kind)
    if "approx" in i.modifiers or "full" in i.modifiers:
        return approximate.divide(i, c, form, kind)
    return floats.arithmetic(i, c, form, kind, "div")


@implements("rcp", "sqrt")
def build_root(i: Instruction, c: Linker) -> Step:
    """`rcp`, `sqrt`."""
    form = Modifiers(i)
    kind = form.kind()
    if "approx" in i.modifiers:
        return approximate.unary(i, c, form, kind)
    return floats.arithmetic(i, c, form, kind, i.op)


@implements("min", "max")
def build_extremum(i: Instruction, c: Linker) -> Step:
    """`min`, `max`."""
    form = Modifiers(i)
    kind = form.kind()
    return floats.extremum(i, c, form, kind) if floats.is_float(kind) else integers.extremum(i, c, form, kind)


@implements("abs")
def build_abs(i: Instruction, c: Linker) -> Step:
    """`abs`."""
    form = Modifiers(i)
    kind = form.kind()
    return floats.sign_only(i, c, form, kind) if floats.is_float(kind) else integers.absolute(i, c, form, kind)


@implements("neg")
def build_neg(i: Instruction, c: Linker) -> Step:
    """`neg`."""
    form = Modifiers(i)
    kind = form.kind()
    return floats.sign_only(i, c, form, kind) if floats.is_float(kind) else integers.negate(i, c, form, kind)
