"""Products that ptxas fuses into sums: `mul` and `add` or `sub` without a rounding mode become one `fma`.

PTX ISA 9.1 §9.7.3 allows it and does not specify when. The rule of ptxas 13.0 was found from the machine code of
thousands of random bodies (*compiled*). It is the same for -O1 to -O3, sm_90a and sm_100a. -O0, `.target debug` and
--fmad=false fuse nothing, and PTX shows only the target. The rule has four parts.

- A product can be fused if every use of its value, also through `mov` and `neg`, is a sum of the same type and .ftz in
  the same stretch (`segments`). For packed bf16, `neg` prevents it.
- Sums choose in program order: first among products with one use. The sums that are left choose among the others. If
  both operands are products, the one with fewer uses is fused, then the first operand. Packed types choose once, among
  all.
- A product can no longer be fused once one of its sums has fused another. So it may be exact in some sums, and rounded
  in one.
- The sum x * y + x * y of two products, of which one has no other use, becomes one product and its double. Neither is
  fused anywhere.

`Fused.unsure` has the cases that this leaves open: ptxas unrolls loops and removes duplicate sums before, and may
then see more than a stretch.
"""

from __future__ import annotations

import bisect
import dataclasses

from smemsim.core.ptx.module import Immediate, Instruction, Register
from smemsim.run.lower.inline import Inlined, Segments

__all__ = ["ARITHMETIC", "COMPUTING", "MINUS_ADDEND", "MINUS_PRODUCT", "Fused", "fuse"]


MINUS_PRODUCT, MINUS_ADDEND = "minus-product", "minus-addend"  # modifiers of the operation "fused"
KINDS = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"}
COPIES = {"f32", "f64", "b16", "b32", "b64"}
_ONES = {0x3F800000, 0xBF800000, 0x3FF0000000000000, 0xBFF0000000000000}  # 1 and -1: such a product is a copy
ARITHMETIC = {
    "abs", "add", "and", "copysign", "cos", "cvt", "ex2", "fma", "lg2", "mad", "max", "min", "mov", "mul", "neg", "not", "or", "prmt", "rcp", "rsqrt",
    "selp", "set", "setp", "shl", "shr", "sin", "sqrt", "sub", "tanh", "testp", "xor",
}  # fmt: skip
# Every instruction that makes a result of its operands and does nothing else: what its operands hold and come from is
# followed through it. Others use them.
COMPUTING = ARITHMETIC | {
    "bfe", "bfi", "bfind", "brev", "clz", "cvta", "div", "dp2a", "dp4a", "fused", "lop3", "mad24", "mul24", "popc", "rem", "sad", "shf", "slct",
    "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vset", "vset2",
    "vset4", "vsub", "vsub2", "vsub4",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Fused:
    """The body with the sums that ptxas fuses as instructions "fused" (d, a, b, c), whose products stay, and the sums
    that it may fuse or not.
    """

    body: list[Instruction]
    unsure: tuple[Instruction, ...] = ()


@dataclasses.dataclass
class _Product:
    """A `mul` at a place of the body, and of its sums: which operand it is, 1 or 2, and whether it is negated on the
    way.
    """

    at: int
    sums: dict[int, tuple[int, bool]]


def fuse(inlined: Inlined) -> Fused:
    """The body as ptxas compiles it."""
    if not any(_kind(i) for i in inlined.body if i.op == "mul"):
        return Fused(inlined.body)
    values = _Values(inlined)
    products, unsure = [], set()
    for at, i in enumerate(inlined.body):
        if i.op != "mul" or (kind := _kind(i)) is None or not _is_product(i) or not isinstance(i.operands[0], Register):
            continue
        uses = values.uses(at, kind)
        if uses is None:
            unsure |= values.doubtful(at, kind)
        elif uses:
            products.append(_Product(at, uses))
    out = list(inlined.body)
    for at, product in _taken(values, products).items():
        if values.changed(product.at, at):
            unsure.add(at)
        else:
            out[at] = _fused(inlined.body[product.at], inlined.body[at], *product.sums[at])
    return Fused(out, tuple(inlined.body[at] for at in sorted(unsure)))


def _kind(i: Instruction) -> tuple[str, bool] | None:
    """(type, flushes) of a `mul`, `add` or `sub` of floats that has no rounding mode; a product that
    saturates is none.
    """
    words = set(i.modifiers)
    kinds = words & KINDS
    if len(kinds) != 1 or words - kinds - {"ftz"} - ({"sat"} if i.op != "mul" else set()):
        return None
    return kinds.pop(), "ftz" in words


def _is_product(i: Instruction) -> bool:
    return i.guard is None and not any(isinstance(x, Immediate) and x.value in _ONES for x in i.operands[1:])


def _taken(values: _Values, products: list[_Product]) -> dict[int, _Product]:
    """For each sum that takes in a product: which product."""
    body = values.body
    of: dict[int, list[_Product]] = {}
    for p in products:
        for at in p.sums:
            of.setdefault(at, []).append(p)
    taken: dict[int, _Product] = {}
    spoiled: set[int] = set()

    def choose(at: int, among: list[_Product]) -> None:
        free = [p for p in among if p.at not in spoiled and all(taken.get(n, p) is p for n in p.sums)]
        if at not in taken and free:
            taken[at] = min(free, key=lambda p: (len(p.sums), p.sums[at][0]))

    for at in sorted(of):
        if any(m.endswith("x2") for m in body[at].modifiers):
            choose(at, of[at])
        elif len(of[at]) == 2 and _equal(values, at, *of[at]) and min(len(p.sums) for p in of[at]) == 1:
            spoiled |= {p.at for p in of[at]}
        else:
            choose(at, [p for p in of[at] if len(p.sums) == 1])
    for at in sorted(of):
        choose(at, [p for p in of[at] if len(p.sums) > 1])
    return taken


def _equal(values: _Values, at: int, p: _Product, q: _Product) -> bool:
    """Is the sum x * y + x * y?"""
    body = values.body
    minus = any(r.sums[at][1] ^ (body[at].op == "sub" and r.sums[at][0] == 2) for r in (p, q))
    same = frozenset(body[p.at].operands[1:]) == frozenset(body[q.at].operands[1:])
    return same and not minus and not values.changed(min(p.at, q.at), max(p.at, q.at))


class _Values:
    """The uses of the values of registers."""

    def __init__(self, inlined: Inlined) -> None:
        self.body, self.segments = inlined.body, Segments(inlined)
        self.named: dict[int, list[int]] = {}  # of every register: where its value is used
        self.defined: dict[int, list[int]] = {}  # and where it is given
        named = [list(i.mentions) for i in self.body]
        for n, found in enumerate(named):
            for slot, result in found:
                (self.defined if result else self.named).setdefault(slot, []).append(n)
        self._drop_the_unused(named)

    def _drop_the_unused(self, named: list[list[tuple[int, bool]]]) -> None:
        """Uses by arithmetic without a used result do not count."""
        pending = [n for n, i in enumerate(self.body) if _is_arithmetic(i)]
        while pending:
            n = pending.pop()
            results = [slot for slot, result in named[n] if result]
            if not results or any(self.named.get(slot) for slot in results):
                continue
            for slot in {slot for slot, result in named[n] if not result}:
                if n in self.named.get(slot, ()):
                    self.named[slot] = [k for k in self.named[slot] if k != n]
                    pending += [k for k in self.defined.get(slot, ()) if _is_arithmetic(self.body[k])]

    def uses(self, at: int, kind: tuple[str, bool]) -> dict[int, tuple[int, bool]] | None:
        """The sums of its stretch that use the product at a place; None where something else uses it too."""
        sums: dict[int, tuple[int, bool]] = {}
        pending = [(at, False)]
        while pending:
            n, minus = pending.pop()
            slot = self.body[n].operands[0].slot  # type: ignore[union-attr]
            reads = self._reads(n, slot)
            if reads is None:
                return None
            for k in reads:
                user = self.body[k]
                if _copies(user, kind):
                    pending.append((k, minus ^ (user.op == "neg")))
                    continue
                places = _places(user, slot, kind)
                if len(places) != 1 or k in sums:
                    return None
                sums[k] = (places[0], minus)
        return sums

    def _reads(self, at: int, slot: int) -> list[int] | None:
        """The uses of the value that a register is given at a place; None where there are any outside
        of the stretch.
        """
        end = self.segments.end(at)
        again = next(iter(_between(self.defined[slot], at, end)), None)
        if again is not None and self.body[again].guard is not None:
            return None  # one of two values
        until = end if again is None else again + 1
        if again is None and self._lives(at, slot):
            return None
        return _between(self.named.get(slot, []), at, until)

    def _lives(self, at: int, slot: int) -> bool:
        """Is the value of a register used after the stretch?"""
        start, end = self.segments.of(at), self.segments.end(at)
        outside = [n for n in self.named.get(slot, ()) if not (at < n < end)]
        if not outside or len(self.defined[slot]) == 1:
            return bool(outside)
        pending, seen = self.segments.after(at), set()
        while pending:
            first = pending.pop()
            if first in seen:
                continue
            seen.add(first)
            last = self.segments.end(first)
            used = min((n for n in outside if first <= n < last), default=last)
            given = min((n for n in self.defined[slot] if first <= n < last and self.body[n].guard is None), default=last)
            if used < last and used <= given:
                return True
            if given == last and first != start:
                pending += self.segments.after(first)
        return False

    def changed(self, at: int, until: int) -> bool:
        """Does a factor of the product change before its sum?"""
        factors = {x.slot for x in self.body[at].operands[1:] if isinstance(x, Register)}
        return any(_between(self.defined.get(slot, []), at - 1, until) for slot in factors)

    def doubtful(self, at: int, kind: tuple[str, bool]) -> set[int]:
        """The sums that ptxas may fuse when it has unrolled loops, or has removed a later sum that is one of the
        stretch again.
        """
        sums: set[int] = set()
        crosses = False  # does a use come to stand in one stretch with the product when a loop is unrolled?
        seen, pending = set(), [(at, False)]
        while pending:
            given, crossed = pending.pop()
            slot = self.body[given].operands[0].slot  # type: ignore[union-attr]
            for n in self.named.get(slot, ()):
                through = crossed or self.segments.unrolled(given, n)
                crosses |= through
                if _copies(self.body[n], kind):
                    if (n, through) not in seen:
                        seen.add((n, through))
                        pending.append((n, through))
                elif len(_places(self.body[n], slot, kind)) == 1:
                    sums.add(n)
                elif not through:
                    return set()
        first, end = self.segments.of(at), self.segments.end(at)
        here = {_sum(self.body[n]) for n in sums if at < n < end}
        later = {_sum(self.body[n]) for n in sums if not first <= n < end}
        return sums if crosses or (later and later <= here) else set()


def _between(places: list[int], after: int, before: int) -> list[int]:
    """Those of the ascending `places` that lie between two places of the body."""
    return places[bisect.bisect_right(places, after) : bisect.bisect_left(places, before)]


def _is_arithmetic(i: Instruction) -> bool:
    """Is the instruction arithmetic, with no effect but its result?"""
    return i.op in ARITHMETIC


def _copies(i: Instruction, kind: tuple[str, bool]) -> bool:
    plain = i.guard is None and len(i.operands) == 2 and all(isinstance(x, Register) for x in i.operands)
    if i.op == "mov":
        return plain and len(i.modifiers) == 1 and i.modifiers[0] in COPIES
    return i.op == "neg" and kind[0] != "bf16x2" and plain and (set(i.modifiers) - {"ftz"}, "ftz" in i.modifiers) == ({kind[0]}, kind[1])


def _places(i: Instruction, slot: int, kind: tuple[str, bool]) -> list[int]:
    """The operands of a sum of this type that are the register."""
    if i.op not in ("add", "sub") or _kind(i) != kind:
        return []
    return [k for k in (1, 2) if isinstance(x := i.operands[k], Register) and x.slot == slot]


def _sum(i: Instruction) -> tuple[object, ...]:
    """A key of an `add` or `sub`: equal for two that compute equal sums, whatever the order of addends."""
    return (i.op, i.modifiers, i.operands[1:] if i.op == "sub" else frozenset(i.operands[1:]))


def _fused(product: Instruction, total: Instruction, operand: int, minus: bool) -> Instruction:
    """`total` with `product` as its operand 1 or 2: fused d, a, b, c."""
    minus ^= total.op == "sub" and operand == 2
    signs = ((MINUS_PRODUCT,) if minus else ()) + ((MINUS_ADDEND,) if total.op == "sub" and operand == 1 else ())
    operands = (total.operands[0], *product.operands[1:3], total.operands[3 - operand])
    return dataclasses.replace(total, op="fused", modifiers=(*signs, *total.modifiers), operands=operands)
