"""Products that ptxas takes into the sums they go to: `mul` and `add` or `sub` without a rounding mode become one `fma`.

PTX ISA 9.7.3 allows it and does not say when. ptxas 13.0 does it by this rule, read off the machine code it makes: a product goes into its sums
when every use of it, also through `mov` and `neg`, is a sum of the same type and .ftz in the same basic block that takes in no other; it is then rounded
nowhere. Of the products of a sum the one with fewer uses goes first, then the first operand. Where products and sums form a cycle, and where a product is
used in a later block too, ptxas now and then fuses a sum that stays one here. Divisions, reciprocals and roots that are no approximations, and 64-bit divisions of
integers, end a basic block, as they call routines. Nothing is fused with `.target debug`.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smemsim.ptx.module import Instruction, Register

if TYPE_CHECKING:
    from smemsim.gpu.linking.inline import Inlined

__all__ = ["MINUS_ADDEND", "MINUS_PRODUCT", "fuse"]

MINUS_PRODUCT, MINUS_ADDEND = "minus-product", "minus-addend"  # modifiers of the operation "fused"
KINDS = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"}
COPIES = {"f32", "f64", "b16", "b32", "b64"}
_EXACT = {"div", "rcp", "sqrt"}
_WIDE = {"s64", "u64"}


@dataclasses.dataclass
class _Product:
    """A `mul` at a place of the body, and the sums that use it: (place, operand 1 or 2, is it negated on the way)."""

    at: int
    sums: list[tuple[int, int, bool]]


def fuse(inlined: Inlined) -> list[Instruction]:
    """The body with the sums that ptxas fuses as instructions "fused" (d, a, b, c); their products stay, and nobody reads them."""
    body = inlined.body
    if not any(_kind(i) for i in body if i.op == "mul"):
        return body
    uses, defined, written = _mentions(body)
    out = list(body)
    for start, stop in _blocks(inlined):
        products = [p for n in range(start, stop) if (p := _product(body, n, uses, defined, written, start, stop)) is not None]
        for p in _taken(products):
            for at, operand, minus in p.sums:
                out[at] = _fused(body[p.at], body[at], operand, minus)
    return out


def _kind(i: Instruction) -> tuple[str, bool] | None:
    """(type, flushes) of a `mul`, `add` or `sub` of floats that has no rounding mode; a product that saturates is none."""
    words = set(i.modifiers)
    kinds = words & KINDS
    if len(kinds) != 1 or words - kinds - {"ftz"} - ({"sat"} if i.op != "mul" else set()):
        return None
    return kinds.pop(), "ftz" in words


def _mentions(body: list[Instruction]) -> tuple[dict[int, list[int]], dict[int, int], dict[int, list[int]]]:
    """Of every register: the instructions that name it other than as their result, how many have it as their result, and which may write it."""
    uses: dict[int, list[int]] = {}
    defined: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    for n, i in enumerate(body):
        for place, operand in enumerate(i.operands):
            for slot in _named(operand):
                if place == 0 and isinstance(operand, Register):
                    defined[slot] = defined.get(slot, 0) + 1
                else:
                    uses.setdefault(slot, []).append(n)
                if place == 0 and i.op not in ("st", "red"):
                    written.setdefault(slot, []).append(n)
    return uses, defined, written


def _named(operand: Any) -> Iterator[int]:
    """The registers of an operand."""
    if isinstance(operand, Register):
        yield operand.slot
    elif isinstance(operand, tuple):
        for part in operand:
            yield from _named(part)
    elif dataclasses.is_dataclass(operand):
        for field in dataclasses.fields(operand):
            yield from _named(getattr(operand, field.name))


def _blocks(inlined: Inlined) -> Iterator[tuple[int, int]]:
    starts = {0, len(inlined.body), *inlined.labels.values()}
    for n, i in enumerate(inlined.body):
        approximate = {"approx", "full"} & set(i.modifiers)
        calls = (i.op in _EXACT and not approximate and {"f32", "f64"} & set(i.modifiers)) or (
            i.op in ("div", "rem") and _WIDE & set(i.modifiers)
        )
        if (
            calls
            or i.op in ("bra", "brx", "call", "ret", "exit")
            or (i.op == "rsqrt" and "f64" in i.modifiers and "ftz" not in i.modifiers)
        ):
            starts.add(n + 1)
    ordered = sorted(starts)
    yield from itertools.pairwise(ordered)


def _product(
    body: list[Instruction],
    at: int,
    uses: dict[int, list[int]],
    defined: dict[int, int],
    written: dict[int, list[int]],
    start: int,
    stop: int,
) -> _Product | None:
    i = body[at]
    kind = _kind(i) if i.op == "mul" else None
    if kind is None or i.guard is not None or not isinstance(i.operands[0], Register):
        return None
    sums: list[tuple[int, int, bool]] = []
    pending = [(i.operands[0].slot, False)]
    while pending:
        slot, minus = pending.pop()
        if defined.get(slot) != 1:
            return None
        for n in uses.get(slot, []):
            if not start <= n < stop or n <= at:
                return None
            user = body[n]
            if user.op in ("mov", "neg") and _copies(user, kind):
                pending.append((user.operands[0].slot, minus ^ (user.op == "neg")))  # type: ignore[union-attr]
            elif user.op in ("add", "sub") and _kind(user) == kind:
                places = [k for k in (1, 2) if isinstance(x := user.operands[k], Register) and x.slot == slot]
                if len(places) != 1:
                    return None
                sums.append((n, places[0], minus))
            else:
                return None
    last = max((n for n, _, _ in sums), default=at)
    factors = [x.slot for x in i.operands[1:] if isinstance(x, Register)]
    changes = any(bisect.bisect_right(where, at) < bisect.bisect_left(where, last) for slot in factors if (where := written.get(slot)))
    if not sums or len({n for n, _, _ in sums}) != len(sums) or changes:
        return None
    return _Product(at, sums)


def _copies(i: Instruction, kind: tuple[str, bool]) -> bool:
    plain = i.guard is None and len(i.operands) == 2 and all(isinstance(x, Register) for x in i.operands)
    if i.op == "mov":
        return plain and len(i.modifiers) == 1 and i.modifiers[0] in COPIES
    return plain and (set(i.modifiers) - {"ftz"}, "ftz" in i.modifiers) == ({kind[0]}, kind[1])


def _taken(products: list[_Product]) -> list[_Product]:
    """The products that go into all of their sums, none of which takes another: those with the fewest sums first, then first operands."""
    taken: list[_Product] = []
    sums: set[int] = set()
    for p in sorted(products, key=lambda p: (len(p.sums), min((n, operand) for n, operand, _ in p.sums))):
        places = {n for n, _, _ in p.sums}
        if not places & sums:
            taken.append(p)
            sums |= places
    return taken


def _fused(product: Instruction, total: Instruction, operand: int, minus: bool) -> Instruction:
    """`total` with `product` as its operand 1 or 2: fused d, a, b, c."""
    minus ^= total.op == "sub" and operand == 2
    signs = ((MINUS_PRODUCT,) if minus else ()) + ((MINUS_ADDEND,) if total.op == "sub" and operand == 1 else ())
    operands = (total.operands[0], *product.operands[1:3], total.operands[3 - operand])
    return dataclasses.replace(total, op="fused", modifiers=(*signs, *total.modifiers), operands=operands)
