"""The registers, numbers and addresses that an assembler accepts as operands of an instruction (PTX ISA 9.1 §9.4).

*Compiled*: everything that is refused here, ptxas 13.0.88 refuses, too. This was tried with every operand of 1,800
forms, types of registers and numbers. It also accepts predicates within vectors, and does not check some addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from smemsim.base.errors import InputError
from smemsim.core.ptx.module import Address, Immediate, Instruction, Operand, Pair, Register, Sink, Special, Symbol, Vector
from smemsim.core.spec.operation_types import MOST_OPERANDS
from smemsim.core.spec.ptx import LONG_REGISTERS
from smemsim.core.spec.ptx_forms import DISCARDING
from smemsim.run.isa.registers import DTYPES, bits_of

__all__ = ["OperandTypes", "check_shapes"]


_TYPES = frozenset((*DTYPES, "b128"))
_WIDENING = frozenset(("cvt", "ld", "st"))  # what they load, store or convert may be narrower than its register
_HINTS = frozenset(("applypriority", "discard", "prefetch", "prefetchu"))  # whose one operand nothing reads
_GENERIC = frozenset(("atom", "ld", "red", "st"))  # their address is generic, where no state space is named
_WINDOWS = frozenset(("const", "local", "param", "shared"))  # state spaces with addresses of 32 bits
# Instructions that take an address by the name of a variable: `ld` and `st` as an element, g[1].
_TAKE_ADDRESSES = frozenset(
    ("call", "cvta", "istypep", "ld", "ldu", "mapa", "mov", "ret", "st", "suld", "suq", "sured", "sust", "tex", "tld4", "txq")
)
# whose address is in the one they name
_ONE_SPACE = frozenset(("atom", "ld", "ldmatrix", "mbarrier", "prefetch", "red", "st", "stmatrix"))
_GENERIC_SPACES = frozenset(("global", "local", "shared"))
_MODES = frozenset(("hi", "lo", "wide"))  # which product: these words come first
_WITH_MODES = frozenset(("dp2a", "mad", "mad24", "mul", "mul24"))
_STRICT = frozenset(("bf16", "tf32"))  # no conversion from or to these has wider registers, nor one of packed numbers


class OperandTypes:
    """The types that the operands of one instruction may have."""

    def __init__(self, i: Instruction) -> None:
        self.i = i
        self.types = [m for m in i.modifiers if m in _TYPES]
        vectors = [x.items for x in i.operands if isinstance(x, Vector)] + [
            x.coordinates for x in i.operands if isinstance(x, Address) and x.coordinates
        ]
        # by the identity of an element of a vector: has this vector an integer or bits?
        self.is_bits: dict[int, bool] = {}
        self.is_beside: set[int] = set()  # elements of vectors that have a register
        for items in vectors:
            if any(isinstance(item, Register) for item in items):
                self.is_beside.update(map(id, items))
            bits = any(isinstance(item, Register) and _kind(item.type) in ("b", "i") for item in items)
            for item in items:
                self.is_bits.setdefault(id(item), bits)
        self.widens = i.op in _WIDENING and not any(_kind(t) == "packed" or t in _STRICT for t in self.types if i.op == "cvt")

    def check(self, operand: Operand, name: str) -> None:
        """InputError for an operand that is read or written as the PTX type `name` and that no
        assembler takes there.
        """
        if isinstance(operand, Register):
            self._check_register(operand, self._written(operand, name))
        elif isinstance(operand, Immediate):
            self._check_number(operand, self._written(operand, name))

    def _written(self, operand: Operand, name: str) -> str:
        """The type that the instruction's name has for an operand: what computes may read it as bits, or bits as a
        number.
        """
        if self.i.op == "cvt" and len(self.types) == 2:
            # random bits or scales after the number
            more = any(m == "rs" or m.startswith("scaled") for m in self.i.modifiers)
            numbers = self.i.operands[: 2 if more else 3]
            return next((self.types[min(n, 1)] for n, own in enumerate(numbers) if own is operand), name)
        if len(self.types) != 1 or bits_of(self.types[0]) != bits_of(name):
            return name
        return self.types[0] if "b" in (_kind(name), _kind(self.types[0])) else name

    def _check_register(self, register: Register, name: str) -> None:
        own, size, wanted = self._kind_of(register), bits_of(register.type), bits_of(name)
        if size == wanted:
            fits = _alike(own, _kind(name))
        else:
            fits = self.widens and size > wanted and _takes_wider(_kind(name), own)
        if not fits:
            also = "" if name in ("pred", f"b{wanted}") else f" or .b{wanted}"
            raise InputError(
                f"{register.name} is declared .{register.type}; the operand is .{name}: ptxas takes a register of .{name}{also} here"
            )

    def _kind_of(self, register: Register) -> str:
        """The kind of a register; in a vector that of all its elements, which is bits where one of them is an integer
        or bits.
        """
        return "b" if register.type != "pred" and self.is_bits.get(id(register), False) else _kind(register.type)

    def _check_number(self, number: Immediate, name: str) -> None:
        kind = _kind(name)
        if self.is_bits.get(id(number), False) or (kind == "b" and id(number) in self.is_beside):
            # of a decimal number ptxas takes the low bits of its double, as `constant` does: 0. is 0, and so is 1.
            return
        if kind in ("f32", "f64"):
            if number.kind == "int":
                raise InputError(f"{number.value} is an integer; the operand is .{name}: write {number.value}.0")
        elif kind in ("f16", "bf16", "packed"):
            raise InputError(f"a number; the operand is .{name}: ptxas takes a register here")
        elif number.kind != "int" and not (kind == "b" and number.kind == f"f{bits_of(name)}"):
            raise InputError(
                f"a floating-point number; the operand is .{name}: ptxas takes {f'0f or 0d of {bits_of(name)} bits' if kind == 'b' else 'an integer'} here"
            )


@functools.cache
def _most_operands(words: tuple[str, ...]) -> int | None:
    """How many operands an instruction of this name has at the most; None if its builder counts them."""
    names = (".".join(words[:n]) for n in range(len(words), 0, -1))
    return next((MOST_OPERANDS[name] for name in names if name in MOST_OPERANDS), None)


@functools.cache
def _kind(name: str) -> str:
    """The content of a type: "b" (bits), "i" (an integer), "packed", or the type itself for predicates and
    floating-point numbers.
    """
    if "x" in name:
        return "packed"
    return {"b": "b", "u": "i", "s": "i"}.get(name[0], name) if name != "bf16" else name


def _alike(own: str, wanted: str) -> bool:
    """Does a register of one kind hold an operand of another one that is as wide?"""
    return own == wanted or ("b" in (own, wanted) and "pred" not in (own, wanted)) or (own == "packed" and wanted == "i")


def _takes_wider(wanted: str, own: str) -> bool:
    """The same where the register is wider (tables 27 and 28)."""
    return own != "pred" and (wanted == "b" or own == "b" or (wanted == "i" and own in ("i", "packed")))


def check_shapes(i: Instruction, spaces: Mapping[str, str]) -> None:
    """InputError for vectors of unlike elements, for invalid addresses or those in another state space, and for names
    instead of registers. The state spaces of variables and of the kernel's parameters are `spaces`, by their names.
    """
    most = _most_operands((i.op, *i.modifiers))
    if most is not None and len(i.operands) > most:
        raise InputError(f"takes {most} operands at most")
    if i.op in _WITH_MODES and not _MODES.isdisjoint(i.modifiers[1:]):
        mode = next(m for m in i.modifiers[1:] if m in _MODES)
        raise InputError(f".{mode} comes first: {i.op}.{mode}, then the type")
    _check_discarded(i)
    for operand in i.operands[:1] if i.op in _HINTS else ():
        if not isinstance(operand, Address):
            raise InputError("needs an address in brackets")
    for operand in i.operands:
        if isinstance(operand, Vector):
            _check_vector(operand)
        elif isinstance(operand, Address):
            _check_address(i, operand)
            if i.op in _ONE_SPACE and isinstance(operand.base, Symbol) and operand.base.name in spaces:
                _check_space(i, operand.base.name, spaces[operand.base.name])
        elif isinstance(operand, (Special, Symbol)):
            _check_name(i, operand)


def _check_discarded(i: Instruction) -> None:
    """InputError for `_` as the result of an instruction that needs a register."""
    result = i.operands[0] if i.operands else None
    halves = (result.first, result.second) if isinstance(result, Pair) else (result,)
    if isinstance(halves[0], Sink) and (
        DISCARDING.isdisjoint((i.op, ".".join((i.op, *i.modifiers[:1])))) or (len(halves) == 2 and isinstance(halves[1], Sink))
    ):
        raise InputError("_ as its result: it needs a register; ptxas refuses _ here")
    if i.op == "tcgen05" and isinstance(result, Vector) and any(isinstance(item, Sink) for item in result.items):
        raise InputError("_ in its list of results: it needs a register for each; ptxas refuses _ here")


def _check_space(i: Instruction, name: str, own: str) -> None:
    named = next((space for m in i.modifiers if (space := m.partition("::")[0]) in (*_WINDOWS, "global")), None)
    if named == "param" and own == "local":  # parameters of functions, which are part of the kernel here
        return
    if own not in (_GENERIC_SPACES if named is None else (named,)):
        wanted = f".{named}" if named is not None else "a generic address"
        raise InputError(f"{name} lies in .{own}; the instruction names {wanted}: ptxas refuses it")


def _check_name(i: Instruction, operand: Special | Symbol) -> None:
    if isinstance(operand, Symbol):
        if i.op not in _TAKE_ADDRESSES or "to" in i.modifiers:
            raise InputError(f"{operand.name} is a variable: ptxas takes its address in mov alone; move it into a register first")
        return
    types = [m for m in i.modifiers if m in _TYPES]
    if i.op not in ("cvt", "mov") or any(m[0] not in ("us" if i.op == "cvt" else "usbp") or m.startswith("bf") for m in types):
        raise InputError(f"%{operand.name} is a special register: ptxas takes it in mov alone; move it into a register first")
    bits = max(map(bits_of, types), default=32)
    if i.op == "mov" and operand.name != "gridid" and (bits > 32) != (operand.name in LONG_REGISTERS):
        raise InputError(f"%{operand.name} has {64 if operand.name in LONG_REGISTERS else 32} bits: ptxas takes a mov of that width here")


def _check_vector(vector: Vector) -> None:
    if vector.items and all(isinstance(item, Sink) for item in vector.items):
        raise InputError("a vector of _ alone: ptxas refuses it; name at least one register")
    registers = [item for item in vector.items if isinstance(item, Register) and item.type != "pred"]
    sizes = {bits_of(r.type): r for r in registers}
    if len(sizes) > 1:
        a, b = list(sizes.values())[:2]
        raise InputError(f"{a.name} is declared .{a.type}, {b.name} .{b.type}: elements of one vector are equally wide")
    kinds = {_kind(r.type): r for r in registers if _kind(r.type) != "b"}
    if len(kinds) > 1:
        a, b = list(kinds.values())[:2]
        raise InputError(f"{a.name} is declared .{a.type}, {b.name} .{b.type}: elements of one vector have one type")


def _check_address(i: Instruction, address: Address) -> None:
    base = address.base
    if isinstance(base, Register) and (_kind(base.type) not in ("b", "i") or base.type == "b128"):
        raise InputError(f"{base.name} is declared .{base.type}: an address is an integer, of .u32 or .u64")
    in_window = not _WINDOWS.isdisjoint(m.partition("::")[0] for m in i.modifiers)
    if isinstance(base, Register) and i.op in _GENERIC and bits_of(base.type) < 64 and not in_window:
        raise InputError(f"{base.name} is declared .{base.type}: a generic or global address has 64 bits")
    if isinstance(base, Immediate) and "local" not in i.modifiers:
        raise InputError(f"[{base.value}]: ptxas takes a number as an address in .local alone; put it into a register")
