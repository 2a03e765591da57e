"""Logic, shifts, bit fields, permutes and video instructions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.compiling.loop import elementwise as ufunc
from smemsim.base.errors import InputError
from smemsim.core.arithmetic import integers
from smemsim.core.ptx.module import Immediate, Instruction, Operand, Pair, Register, Symbol, simd_selectors
from smemsim.run.isa.alu.forms import Elementwise, elementwise
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registers import constant, dtype_of
from smemsim.run.isa.registry import Step, implements, refuse, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


# ---- Logic, shifts and bit fields (PTX ISA 9.1 §9.7.1, 9.7.8, 9.7.9.7)


def _as_integer(kind: str) -> str:
    """How a 32- or 64-bit operand is read for the compiled functions: what casts to int64 without loss, or is int64."""
    return "s64" if kind[1:] == "64" else kind


def _compiled(scalar: Any, kind: str, operands: int, **fixed: int) -> Elementwise:
    """The function on arrays, its last arguments fixed."""
    result = "int64" if kind[1:] == "64" else "uint32"
    f, last = ufunc(scalar, f"{result}({','.join(['int64'] * (operands + len(fixed)))})"), tuple(fixed.values())
    return lambda *a: f(*a, *last)


@implements("and", "or", "xor")
def build_logic(i: Instruction, c: Linker) -> Step:
    """`and`, `or`, `xor` of bits and of predicates."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(3,))
    f = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[i.op]
    return elementwise(c, i.operands[0], kind, [(operand, kind) for operand in i.operands[1:]], f)


@implements("not", "cnot")
def build_not(i: Instruction, c: Linker) -> Step:
    """`not`, and `cnot`: 1 for 0, 0 for anything else."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    return elementwise(c, i.operands[0], kind, [(i.operands[1], kind)], np.invert if i.op == "not" else lambda a: a == 0)


def _of_two(table: int) -> Elementwise:
    """The function of two operands with a truth table of four bits; bit 2 b + c is the result for bits b and c."""
    # fmt: off
    functions: dict[int, Elementwise] = {
        0x0: lambda b, c: np.uint32(0), 0x1: lambda b, c: ~(b | c), 0x2: lambda b, c: ~b & c, 0x3: lambda b, c: ~b,
        0x4: lambda b, c: b & ~c,       0x5: lambda b, c: ~c,       0x6: lambda b, c: b ^ c,  0x7: lambda b, c: ~(b & c),
        0x8: lambda b, c: b & c,        0x9: lambda b, c: ~(b ^ c), 0xA: lambda b, c: c,      0xB: lambda b, c: ~b | c,
        0xC: lambda b, c: b,            0xD: lambda b, c: b | ~c,   0xE: lambda b, c: b | c,  0xF: lambda b, c: np.uint32(0xFFFFFFFF),
    }
    # fmt: on
    return functions[table]


@implements("lop3")
def build_lop3(i: Instruction, c: Linker) -> Step:
    """`lop3`: any function of three bits, bit 4 a + 2 b + c of the table; with `.or` or `.and` a predicate too:
    result non-zero, combined.
    """
    form = Modifiers(i)
    combine = form.one_of(("or", "and"))
    kind = form.kind()
    form.end(operands=(6,) if combine else (5,))
    table = i.operands[4]
    if not isinstance(table, Immediate):
        raise unmodelled(i)
    where_clear, where_set = _of_two(table.value & 0xF), _of_two(table.value >> 4 & 0xF)

    def logic(a: Any, b: Any, d: Any) -> Any:
        return (a & where_set(b, d)) | (~a & where_clear(b, d))

    sources = [(operand, kind) for operand in i.operands[1:4]]
    to = i.operands[0]
    if not combine:
        return elementwise(c, to, kind, sources, logic)
    if not isinstance(to, Pair):
        raise unmodelled(i, "its result needs the form d|p")
    reads, other = [c.read(*s) for s in sources], c.read(i.operands[5], "pred")
    write, write_p = c.write(to.first, kind), c.write(to.second, "pred")

    def run(x: Wave) -> None:
        result, q = logic(*[read(x) for read in reads]), other(x)
        p = (result != 0) | q if combine == "or" else (result != 0) & q
        write(x, result)
        write_p(x, p)

    return run


@implements("shl", "shr")
def build_shift(i: Instruction, c: Linker) -> Step:
    """`shl`, `shr`: by at most the width; shifts of signed types copy the sign."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(3,))
    dtype = dtype_of(kind)
    most = np.uint32(kind[1:])
    f: Any = np.left_shift if i.op == "shl" else np.right_shift
    # numpy shifts by the width or more as PTX does: to zero, or to the sign.
    if isinstance(i.operands[2], Immediate):
        count = np.minimum(constant(i.operands[2], "u32"), most).astype(dtype)
        return elementwise(c, i.operands[0], kind, [(i.operands[1], kind)], lambda a: f(a, count))
    sources = [(i.operands[1], kind), (i.operands[2], "u32")]
    return elementwise(c, i.operands[0], kind, sources, lambda a, b: f(a, np.minimum(b, most).astype(dtype)))


@implements("shf")
def build_funnel_shift(i: Instruction, c: Linker) -> Step:
    """`shf`: 64 bits, b above a, shifted; the upper half of `.l`, the lower half of `.r`. By c modulo 32, or at most
    32 with `.clamp`.
    """
    form = Modifiers(i)
    left, mode = form.one_of(("l", "r")), form.one_of(("wrap", "clamp"))
    kind = form.kind()
    form.end(operands=(4,))
    if not left or not mode:
        raise unmodelled(i)
    half = np.uint64(32)

    def shift(a: Any, b: Any, by: Any) -> Any:
        count = np.asarray(by & np.uint32(31) if mode == "wrap" else np.minimum(by, np.uint32(32))).astype(np.uint64)
        both = np.asarray(b).astype(np.uint64) << half | a
        return ((both << count) >> half if left == "l" else both >> count).astype(np.uint32)

    return elementwise(c, i.operands[0], kind, [(operand, kind) for operand in i.operands[1:]], shift)


@implements("popc")
def build_popc(i: Instruction, c: Linker) -> Step:
    """`popc`: how many ones."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    return elementwise(c, i.operands[0], "u32", [(i.operands[1], kind)], np.bitwise_count)


@implements("clz")
def build_clz(i: Instruction, c: Linker) -> Step:
    """`clz`: leading zeros."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    f = ufunc(integers.leading_zeros, "uint32(int64,int64)")
    bits = int(kind[1:])
    return elementwise(c, i.operands[0], "u32", [(i.operands[1], _as_integer(kind))], lambda a: f(a, bits))


@implements("brev")
def build_brev(i: Instruction, c: Linker) -> Step:
    """`brev`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(2,))
    f = _compiled(integers.bit_reverse, kind, 1, bits=int(kind[1:]))
    return elementwise(c, i.operands[0], kind, [(i.operands[1], _as_integer(kind))], f)


@implements("bfind")
def build_bfind(i: Instruction, c: Linker) -> Step:
    """`bfind`, `bfind.shiftamt`."""
    form = Modifiers(i)
    amount, kind = int(form.has("shiftamt")), form.kind()
    form.end(operands=(2,))
    f, bits, signed = ufunc(integers.find_leading, "uint32(int64,int64,int64,int64)"), int(kind[1:]), int(kind[0] == "s")
    return elementwise(c, i.operands[0], "u32", [(i.operands[1], _as_integer(kind))], lambda a: f(a, bits, signed, amount))


@implements("fns")
def build_fns(i: Instruction, c: Linker) -> Step:
    """`fns`."""
    form = Modifiers(i)
    form.kind()
    form.end(operands=(4,))
    sources = list(zip(i.operands[1:], ("u32", "u32", "s32"), strict=True))
    return elementwise(c, i.operands[0], "u32", sources, _compiled(integers.find_nth_set, "b32", 3))


@implements("bfe")
def build_bfe(i: Instruction, c: Linker) -> Step:
    """`bfe`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(4,))
    _check_field(i)
    f = _compiled(integers.bit_field_extract, kind, 3, bits=int(kind[1:]), signed=int(kind[0] == "s"))
    sources = [(i.operands[1], _as_integer(kind)), (i.operands[2], "u32"), (i.operands[3], "u32")]
    return elementwise(c, i.operands[0], f"b{kind[1:]}", sources, f)


@implements("bfi")
def build_bfi(i: Instruction, c: Linker) -> Step:
    """`bfi`."""
    form = Modifiers(i)
    kind = form.kind()
    form.end(operands=(5,))
    _check_field(i)
    f = _compiled(integers.bit_field_insert, kind, 4, bits=int(kind[1:]))
    own = _as_integer(kind)
    sources = [(i.operands[1], own), (i.operands[2], own), (i.operands[3], "u32"), (i.operands[4], "u32")]
    return elementwise(c, i.operands[0], kind, sources, f)


def _check_field(i: Instruction) -> None:
    """Positions and lengths that are numbers lie within 0 to 255 (PTX ISA 9.1 §9.7.1.17, 9.7.1.18; ptxas refuses
    others).
    """
    for operand in i.operands[-2:]:
        if isinstance(operand, Immediate) and not 0 <= operand.value <= 255:
            raise InputError(f"{operand.value}: a position or length that is a number needs 0 to 255")


def _clamped(form: Modifiers) -> int:
    mode = form.one_of(("clamp", "wrap"))
    if not mode:
        raise unmodelled(form.instruction, "it needs .clamp or .wrap")
    return int(mode == "clamp")


@implements("bmsk")
def build_bmsk(i: Instruction, c: Linker) -> Step:
    """`bmsk`."""
    form = Modifiers(i)
    clamp, _ = _clamped(form), form.kind()
    form.end(operands=(3,))
    f = _compiled(integers.bit_mask, "b32", 2, clamp=clamp)
    return elementwise(c, i.operands[0], "b32", [(operand, "u32") for operand in i.operands[1:]], f)


@implements("szext")
def build_szext(i: Instruction, c: Linker) -> Step:
    """`szext`."""
    form = Modifiers(i)
    clamp, kind = _clamped(form), form.kind()
    form.end(operands=(3,))
    f = _compiled(integers.sign_extend, "b32", 2, signed=int(kind == "s32"), clamp=clamp)
    return elementwise(c, i.operands[0], "b32", [(operand, "u32") for operand in i.operands[1:]], f)


def _fixed_permute(selector: int) -> Elementwise:
    """`prmt` with a selector known beforehand: bytes that move by the same distance move together."""
    moves: dict[tuple[int, int], int] = {}
    for n in range(4):
        pick = selector >> (4 * n) & 7
        key = (pick >> 2, 8 * (n - (pick & 3)))
        moves[key] = moves.get(key, 0) | 0xFF << (8 * n)

    def permute(*sources: Any) -> Any:
        result: Any = None
        for (source, left), mask in moves.items():
            part = sources[source]
            if left:
                part = part << np.uint32(left) if left > 0 else part >> np.uint32(-left)
            part = part & np.uint32(mask)
            result = part if result is None else result | part
        return result

    return permute


@implements("prmt")
def build_prmt(i: Instruction, c: Linker) -> Step:
    """`prmt`, all modes."""
    form = Modifiers(i)
    mode = form.one_of(integers.PERMUTE_MODES)
    form.kind()
    form.end(operands=(4,))
    code = integers.PERMUTE_MODES[mode] if mode else integers.INDEXED
    if not mode and isinstance(i.operands[3], Immediate) and not i.operands[3].value & 0x8888:
        return elementwise(c, i.operands[0], "b32", [(o, "u32") for o in i.operands[1:3]], _fixed_permute(i.operands[3].value))
    sources: list[tuple[Operand, str]] = [(operand, "u32") for operand in i.operands[1:]]
    return elementwise(c, i.operands[0], "b32", sources, _compiled(integers.permute, "b32", 3, mode=code))


# ---- Video instructions on packed integers (PTX ISA 9.1 §9.7.19): vadd, vsub, vavrg, vabsdiff, vmin, vmax and vset of
# two halves or four bytes


_OPERATIONS: dict[str, Any] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": None,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@implements(*(f"{name}{count}" for name in (*_OPERATIONS, "vset") for count in (2, 4)))
def build_video(i: Instruction, c: Linker) -> Step:
    """Computed exactly element by element, then clamped with `.sat` or cut; with `.add` the result is the sum of the
    results and of c.

    Selectors of the sources take elements of both sources, of a first. Those of the result select the elements that
    are written; the others are those of c.
    """
    form = Modifiers(i)
    count, name = int(i.op[-1]), i.op[:-1]
    saturate, accumulate = form.has("sat"), form.has("add")
    compare = form.one_of(_COMPARISONS) if name == "vset" else ""
    kinds = form.kinds(2)
    form.end(operands=(4,))
    if set(kinds) - {"u32", "s32"} or (name == "vset") != bool(compare) or (saturate and accumulate):
        raise unmodelled(i)
    to, a_kind, b_kind = kinds if name != "vset" else ("u32", *kinds)
    bits = 32 // count
    parts = [np.dtype(f"{'i' if kind == 's32' else 'u'}{bits // 8}") for kind in (a_kind, b_kind)]
    written, *picked = simd_selectors(i)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to == "s32" else (0, (1 << bits) - 1)
    raw = np.dtype(f"u{bits // 8}")

    def elements(both: tuple[Any, Any], n: int) -> Any:
        halves = [np.ascontiguousarray(word)[..., None].view(parts[n]).astype(np.int64) for word in both]
        own = [halves[k // count][..., k % count] for k in picked[n]]
        return np.stack(np.broadcast_arrays(*own), axis=-1)

    def compute(a: Any, b: Any) -> Any:
        if compare:
            return _COMPARISONS[compare](a, b).astype(np.int64)
        if name == "vavrg":  # rounded up in magnitude
            total = a + b
            return np.where(total < 0, -((1 - total) >> 1), (total + 1) >> 1)
        return _OPERATIONS[name](a, b)

    def run(a: Any, b: Any, d: Any) -> Any:
        result = compute(elements((a, b), 0), elements((a, b), 1))
        if saturate:
            result = np.clip(result, low, high)
        if accumulate:
            return (result[..., list(written)].sum(axis=-1) + np.asarray(d)).astype(np.uint32)
        result = result.astype(raw)
        if len(written) < count:
            kept = np.broadcast_to(np.ascontiguousarray(d)[..., None].view(raw), result.shape)
            result = np.where([n in written for n in range(count)], result, kept)
        return np.ascontiguousarray(result).view(np.uint32)[..., 0]

    return elementwise(c, i.operands[0], "u32", [(operand, "u32") for operand in i.operands[1:]], run)


# ---- Scalar video instructions (PTX ISA 9.1 §9.7.18.1): on whole registers, their halves and their
# bytes; no shifts, no vmad


refuse("the scalar video instruction, whose intermediate result the PTX ISA leaves open", "vshl", "vshr", "vmad")


_JOINED: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum}
_WORDS = ("b32", "u32", "s32", "f16x2")  # the registers that ptxas takes


@dataclasses.dataclass(frozen=True)
class _Part:
    """A word, or the byte or half of it that a selector names."""

    bits: int
    shift: int

    @classmethod
    def of(cls, operand: Operand) -> _Part:
        """The words that the operand selects."""
        selector = operand.part if isinstance(operand, Register) else ""
        bits = {"b": 8, "h": 16, "": 32}[selector[:1]]
        return cls(bits, bits * int(selector[1:] or 0))

    def limits(self, kind: str) -> tuple[int, int]:
        """The smallest and the largest number of that many bits, for u32 and s32."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if kind == "s32" else (0, (1 << self.bits) - 1)

    def taken(self, words: Any, kind: str) -> Any:
        """The part of words as whole numbers, with the sign of the type."""
        word, rest = np.asarray(words, np.int64), 64 - self.bits
        return word << rest - self.shift >> rest if kind == "s32" else word >> self.shift & self.limits(kind)[1]

    def merged(self, values: Any, words: Any) -> Any:
        """Words whose part is that many low bits of the values."""
        mask = (1 << self.bits) - 1
        return (values & mask) << self.shift | words & ~(mask << self.shift)


@implements("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset")
def build_scalar_video(i: Instruction, c: Linker) -> Step:
    """`vadd.dtype.atype.btype{.sat} d{.dsel}, a{.asel}, b{.bsel}{, c}`: exactly, then clamped to the type and the part
    of D, or cut.

    With `.add`, `.min` or `.max` the result is combined with c; with a selector of D it is merged into c. If an H200
    differs (`core/spec/errata.py`, "scalar video instructions"), the form is refused.
    `tests/data/h200_arithmetic.json` has the H200's results for the forms that run.
    """
    form = Modifiers(i)
    is_saturated, compare = form.has("sat"), form.one_of(_COMPARISONS) if i.op == "vset" else ""
    joined = form.one_of(_JOINED)
    kinds = form.kinds(2 if i.op == "vset" else 3)
    form.end(operands=(4,) if joined else (3, 4))
    to, a_kind, b_kind = kinds if i.op != "vset" else ("u32", *kinds)
    if set(kinds) - {"u32", "s32"} or (i.op == "vset" and (not compare or is_saturated)):
        raise unmodelled(i)
    d, a, b, *rest = _parts(i)
    if d.bits < 32 and (joined or not rest):
        raise InputError(f"a part of the result is merged into a third source{f', which .{joined} would join' if joined else ''}")
    if rest and not joined and d.bits == 32:
        raise unmodelled(i, "a third source that is neither joined nor merged, which ptxas takes and the PTX ISA does not have")
    _refuse_what_differs(i, d, to, a_kind, joined, is_saturated)
    smallest, largest = d.limits(to)
    if joined in ("min", "max") and not is_saturated:
        low, high = (0, 1) if compare else _range(i.op, a.limits(a_kind), b.limits(b_kind))
        if low < smallest or high > largest:
            raise unmodelled(i, f".{joined} without .sat: what it makes of a result that .{to} does not hold is not known")
    compute = _COMPARISONS[compare] if compare else _OPERATIONS[i.op]

    def run(x: Any, y: Any, *more: Any) -> Any:
        result = compute(a.taken(x, a_kind), b.taken(y, b_kind)).astype(np.int64)
        if is_saturated:
            result = np.clip(result, smallest, largest)
        if joined:
            result = _JOINED[joined](result, np.asarray(more[0], np.int64))
        elif d.bits < 32:
            result = d.merged(result, np.asarray(more[0], np.int64))
        return result.astype(np.uint32)

    sources = list(zip(i.operands[1:], (a_kind, b_kind, to), strict=False))
    return elementwise(c, i.operands[0], "u32", sources, run)


def _refuse_what_differs(i: Instruction, d: _Part, to: str, a_kind: str, joined: str, is_saturated: bool) -> None:
    """Forms for which ptxas makes code that does not do what the PTX ISA says: on an H200 some results are others."""
    why = "an H200 gives other results than the PTX ISA says"
    if (d.shift, d.bits) == (16, 16):
        raise unmodelled(i, f"a result in .h1: {why}")
    if is_saturated and (d.bits < 32 or to == "u32"):
        raise unmodelled(i, f".sat of {'a part' if d.bits < 32 else '.u32'}: {why}")
    if i.op == "vset" and joined in ("min", "max") and a_kind == "s32":
        raise unmodelled(i, f".{joined} of vset.s32: {why}")


def _parts(i: Instruction) -> list[_Part]:
    """The parts that the operands select. They are registers of 32 bits for integers, and the sources are whole numbers
    too. Operand c has no selector.
    """
    for n, operand in enumerate(i.operands):
        is_word = isinstance(operand, Register) and operand.type in _WORDS and not operand.negated
        is_number = isinstance(operand, Symbol) or (isinstance(operand, Immediate) and operand.kind == "int")
        if not is_word and not (is_number and n):
            raise InputError(f"operand {n} needs a register of 32 bits for integers{', or a whole number' if n else ''}")
    parts = [_Part.of(operand) for operand in i.operands]
    if len(parts) > 3 and parts[3].bits < 32:
        raise InputError("a third source has no selector: all of it is merged or joined")
    return parts


def _range(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The smallest and the largest result, or numbers beyond them, for operands within limits."""
    if op in ("vmin", "vmax"):
        pick = min if op == "vmin" else max
        return pick(a[0], b[0]), pick(a[1], b[1])
    if op == "vadd":
        return a[0] + b[0], a[1] + b[1]
    low, high = a[0] - b[1], a[1] - b[0]
    return (low, high) if op == "vsub" else (0, max(-low, high))
