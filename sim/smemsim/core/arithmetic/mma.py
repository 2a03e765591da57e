"""`mma`: D = A * B + C of one matrix instruction, bit for bit, from raw bits, in batches; `dot_product`: one element of
it, step by step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.arguments import choice, flag, is_whole, shown, whole
from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.core.arithmetic.explain import DotProduct, explain
from smemsim.core.arithmetic.multiply import Factors, Options, multiply_tiles, row_of
from smemsim.core.arithmetic.values import as_array, raw_bits
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.mma_arithmetic import MmaArithmetic
from smemsim.core.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, WIDE_K

__all__ = ["dot_product", "mma"]


@in_default_state
def mma(
    a: Any,
    b: Any,
    c: Any,
    *,
    arch: str,
    kind: str,
    a_type: str,
    b_type: str,
    d_type: str,
    scale_a: Any = None,
    scale_b: Any = None,
    block: int | None = None,
    scale_type: str | None = None,
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    scale_input_d: int = 0,
) -> np.ndarray:
    """D = A * B + C as one instruction computes it, bit for bit. Returns raw bits of `d_type`, shape (…, M, N).

    - Operands `a` (…, M, K), `b` (…, N, K) and `c` (…, M, N) are raw element bits in unsigned integers. Each entry has
      one element, also for 4- and 6-bit types and b1. An element of tf32 is the whole 32-bit word. K is that of one
      instruction. M and N are free. Leading dimensions broadcast.
    - The kind is "wgmma" on sm_90a. For tcgen05 it is "f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4" or "mxf4nvf4".
    - Block-scaled kinds have `scale_a` (…, M, K / block) and `scale_b` (…, N, K / block), raw bits of `scale_type`.
      This is ue8m0 for `block` 32. For `block` 16 (mxf4nvf4) it is ue4m3 (default) or ue8m0.
    - With `saturate` s32 results are clamped, else they wrap. With `negate_a` and `negate_b` signs change. With
      `scale_input_d` n, C is divided by 2^n.

    To chain instructions, pass D of one as C of the next.

    Results of wgmma are measured on an H200 (traces wgmma_dots_f32, wgmma_dots_f16, wgmma_dots_s32). Results of tcgen05
    are inferred from public studies.

    Raises InputError for wrong types, shapes and values.

    >>> from smemsim import mma
    >>> import numpy as np
    >>> one = np.full((8, 32), 0x38, np.uint8)
    >>> half = np.full((8, 8), 0x3F000001, np.uint32)
    >>> hex(mma(one, one, half, arch="sm_90a", kind="wgmma", a_type="e4m3", b_type="e4m3", d_type="f32")[0, 0])   # Hopper keeps 13 bits
    '0x42020000'
    >>> scales = np.full((8, 4), 0x40, np.uint8)
    >>> d = mma(np.full((8, 64), 2), np.full((8, 64), 2), np.zeros((8, 8), np.uint32), arch="sm_100a", kind="mxf4nvf4", a_type="e2m1",
    ...         b_type="e2m1", d_type="f32", scale_a=scales, scale_b=scales)
    >>> float(d.view(np.float32)[0, 0])
    256.0
    """
    given = _given(
        (a, b, c),
        arch,
        kind,
        (a_type, b_type, d_type),
        (scale_a, scale_b, block, scale_type),
        (negate_a, negate_b, saturate),
        scale_input_d,
    )
    batch = given.operands[0].shape[:-2]
    flat = [x.reshape(math.prod(batch), *x.shape[-2:]) for x in given.operands]
    factors = given.factors
    if factors:
        factors = factors.of(*(x.reshape(-1, *x.shape[-2:]) for x in (factors.a, factors.b)))
    d = multiply_tiles(*flat, row=given.row, types=given.types, options=given.options, factors=factors)
    return d.reshape(*batch, *d.shape[-2:])


@in_default_state
def dot_product(
    a: Any,
    b: Any,
    c: Any = 0,
    *,
    arch: str,
    kind: str,
    a_type: str,
    b_type: str,
    d_type: str,
    scale_a: Any = None,
    scale_b: Any = None,
    block: int | None = None,
    scale_type: str | None = None,
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    scale_input_d: int = 0,
) -> DotProduct:
    """One element of D step by step: the terms, the exponent they are aligned to, the bits that are cut off, the sum,
    the conversion.

    Arguments `a` and `b` (K,) are raw element bits of a row of A and a column of B. Argument `c` has those of the
    accumulator. The factors are `scale_a` and `scale_b` (K / block,). All else is as in `mma`. The result is
    `DotProduct.d`.

    Raises InputError for wrong types, shapes and values.

    >>> from smemsim import dot_product
    >>> one, tiny = 0x3F80, 0x3380                                                                        # bf16 1 and 2^-24
    >>> found = dot_product([one] * 16, [one] + [tiny] * 15, arch="sm_90a", kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32")
    >>> for step in found.steps():
    ...     print(step)
    aligned to 2^0, that of k 0; 25 bits are kept below it: every term is cut, toward zero, at 2^-25
    no term loses bits
    sum 1.00000089, converted once to f32, toward zero, to 23 fraction bits: D = 0x3f800007 = 1.00000083
    the exact sum is 1.00000089; rounded once to nearest it would be 0x3f800008, 1 unit in the last place away
    """
    row, column, start = as_array("a", a)[None], as_array("b", b)[None], as_array("c", c)[None, None]
    scales = [None if x is None else as_array(name, x)[None] for name, x in (("scale_a", scale_a), ("scale_b", scale_b))]
    given = _given(
        (row, column, start), arch, kind, (a_type, b_type, d_type), (scales[0], scales[1], block, scale_type),
        (negate_a, negate_b, saturate), scale_input_d,
    )  # fmt: skip
    of_a, of_b, (of_c,) = (x.ravel().tolist() for x in given.operands)
    factors = given.factors
    if factors:
        factors = factors.of(factors.a[0], factors.b[0])
    return explain(of_a, of_b, of_c, kind=kind, types=given.types, row=given.row, options=given.options, factors=factors)


class Given(NamedTuple):
    """The checked arguments: raw bits of A, B and C (…, rows, columns) with the same leading dimensions, and of the
    factors.
    """

    row: MmaArithmetic
    types: tuple[str, str, str]
    operands: tuple[np.ndarray, np.ndarray, np.ndarray]
    options: Options
    factors: Factors | None


def _given(
    abc: tuple[Any, Any, Any],
    arch: str,
    kind: str,
    asked: tuple[str, str, str],
    scales: tuple[Any, Any, Any, Any],
    flags: tuple[bool, bool, bool],
    scale_input_d: int,
) -> Given:
    row, options = _instruction(arch, kind, asked, *flags, scale_input_d)
    types = tuple(element_format(t).name for t in asked)
    operands = [raw_bits(name, operand, element_format(t)) for name, operand, t in zip("abc", abc, types, strict=True)]
    for name, operand, shape in zip("abc", operands, ("(…, M, K)", "(…, N, K)", "(…, M, N)"), strict=True):
        if operand.ndim < 2:
            raise InputError(f"{name} has shape {operand.shape}: needs {shape}")
    k = operands[0].shape[-1]
    wide = k == WIDE_K and row.group > 1 and architecture(arch).name == "sm_103a"
    for name, operand in zip("ab", operands, strict=False):
        if operand.shape[-1] != (k if wide else row.k):
            more = f" (or {WIDE_K} on sm_103a)" if row.group > 1 else ""
            also = f" and a has {k}" if wide else ""
            raise InputError(
                f"{name} has K = {operand.shape[-1]}, shape {operand.shape}: one {kind} with {types[0]} has K = {row.k}{more}{also}"
            )
    m, n = operands[0].shape[-2], operands[1].shape[-2]
    if operands[2].shape[-2:] != (m, n):
        raise InputError(f"c has shape {operands[2].shape}: a has {m} rows and b {n}, so it needs (…, {m}, {n})")
    factors = _factors(kind, row, k, (m, n), *scales)
    every = operands + ([factors.a, factors.b] if factors else [])
    try:
        batch = np.broadcast_shapes(*(operand.shape[:-2] for operand in every))
    except ValueError:
        raise InputError(f"leading dimensions {', '.join(str(operand.shape[:-2]) for operand in every)} do not broadcast") from None
    whole_batch = [np.broadcast_to(operand, (*batch, *operand.shape[-2:])) for operand in every]
    if factors:
        factors = factors.of(*whole_batch[3:])
    return Given(row, types, tuple(whole_batch[:3]), options, factors)  # type: ignore[arg-type]


def _instruction(
    arch: str, kind: str, types: tuple[str, str, str], negate_a: bool, negate_b: bool, saturate: bool, scale_input_d: int
) -> tuple[MmaArithmetic, Options]:
    machine = architecture(arch)
    kinds = ("wgmma",) if machine.instruction == "wgmma" else tuple(name for name, row in KINDS.items() if machine.name in row.archs)
    choice("kind", kind, kinds, f"one of {' '.join(kinds)} on {machine.name}")
    for name, dtype in zip(("a_type", "b_type", "d_type"), types, strict=True):
        try:
            element_format(dtype)
        except InputError as e:
            raise InputError(str(e).replace("dtype", name, 1)) from None
    row = row_of(kind, *(element_format(t).name for t in types))
    options = Options(
        flag("negate_a", negate_a), flag("negate_b", negate_b), whole("scale_input_d", scale_input_d, minimum=0), flag("saturate", saturate)
    )
    integers = row.kept_bits is None
    if integers and (options.negate_a or options.negate_b):
        raise InputError(f"negate_a, negate_b: {kind} with integers has no signs to change")
    if options.saturate and (not integers or row.a_types == ("b1",)):
        raise InputError(f"saturate = True: only s32 results of 8-bit integers clamp, not {types[2]} of {types[0]}")
    if options.scale_c and not (kind in KINDS and KINDS[kind].scale_input_d):
        raise InputError(f"scale_input_d = {options.scale_c}: only the kinds f16 and tf32 of tcgen05 have it")
    if options.scale_c > 15:
        raise InputError(f"scale_input_d = {options.scale_c}: needs 0 to 15")
    return row, options


def _factors(
    kind: str, row: MmaArithmetic, k: int, rows: tuple[int, int], scale_a: Any, scale_b: Any, block: Any, scale_type: Any
) -> Factors | None:
    """The scale factors as they are given; None for a kind without."""
    if not (kind in KINDS and KINDS[kind].block_scaled):
        for name, value in (("scale_a", scale_a), ("scale_b", scale_b), ("block", block), ("scale_type", scale_type)):
            if value is not None:
                raise InputError(f"{name} = {shown(value)}: kind {kind} has no scale factors")
        return None
    if scale_a is None or scale_b is None:
        raise InputError(f"scale_a, scale_b: {kind} needs both, raw bits of the factors, (…, M, K / block) and (…, N, K / block)")
    blocks = (32, 16) if kind == "mxf4nvf4" else (32,)
    if block is None:
        count = (raw_bits("scale_a", scale_a, element_format("ue8m0")).shape or (0,))[-1]
        block = next((size for size in blocks if count * size == k), blocks[-1])
    elif not is_whole(block) or block not in blocks:
        raise InputError(f"block = {shown(block)}: {kind} has a factor for every {' or '.join(map(str, blocks))} elements of K")
    legal = SCALE_TYPES_OF_BLOCK[block] if kind == "mxf4nvf4" else ("ue8m0",)
    scale_type = choice(
        "scale_type",
        legal[-1] if scale_type is None else scale_type,
        legal,
        f"{' or '.join(legal)} for {kind} with a factor for {block} elements",
    )
    checked = []
    for name, scale, count in (("scale_a", scale_a, rows[0]), ("scale_b", scale_b, rows[1])):
        raw = raw_bits(name, scale, element_format(scale_type))
        if raw.ndim < 2 or raw.shape[-2:] != (count, k // block):
            raise InputError(f"{name} has shape {raw.shape}: needs (…, {count}, {k // block}), a factor for every {block} elements of K")
        checked.append(raw)
    return Factors(checked[0], checked[1], scale_type, block)
