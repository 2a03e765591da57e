"""The source of a register's value, in the text of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smemsim.core.ptx.module import Address, Immediate, Instruction, Operand, Register, Symbol

__all__ = ["number_of", "origin", "symbols_behind"]

MOST_MOVES = 8  # mov instructions that are followed


def origin(body: Sequence[Instruction], labels: Mapping[str, int], i: Instruction, register: Register) -> Instruction | None:
    """The instruction that computes the value that `i` reads in a register; None if the text does not show one.

    It is the only one that writes the register, or the last one before `i` in straight-line code. Copies (`mov`) of
    another register are followed.

    >>> from smemsim.core.ptx.parser import read_module
    >>> head = ".version 8.8 .target sm_90a .address_size 64 .entry k() { .reg .b32 %r<3>;"
    >>> text = f"{head} mov.u32 %r1, 16400; mov.u32 %r2, %r1; nanosleep.u32 %r2; ret; }}"
    >>> k = read_module(text).entries[0]
    >>> origin(k.body, k.labels, k.body[2], k.body[2].operands[0]).text
    'mov.u32 %r1, 16400'
    """
    found: Instruction | None = None
    for _ in range(MOST_MOVES):
        writer = _writer(body, labels, found or i, register)
        if writer is None:
            return found
        found = writer
        source = writer.operands[1] if writer.op == "mov" and len(writer.operands) > 1 else None
        if not isinstance(source, Register):
            return found
        register = source
    return found


def _writer(body: Sequence[Instruction], labels: Mapping[str, int], i: Instruction, register: Register) -> Instruction | None:
    writers = [n for n, other in enumerate(body) if register.slot in other.given]
    if len(writers) == 1:
        return body[writers[0]]
    at = next((n for n, other in enumerate(body) if other is i), len(body))
    before = [n for n in writers if n < at]
    if not before or body[before[-1]].guard is not None or any(before[-1] < n <= at for n in labels.values()):
        return None
    return body[before[-1]]


# how addresses are computed from the beginning of a variable
SUMS = ("mov", "add", "sub", "mad", "cvta", "cvt", "selp")


def symbols_behind(body: Sequence[Instruction], address: Address) -> frozenset[str]:
    """The variables in which an address may be: those from which some instruction computes its register.

    >>> from smemsim.core.ptx.parser import read_module
    >>> head = ".version 8.8 .target sm_90a .address_size 64 .entry k() { .reg .b32 %r<3>; .shared .b64 full[3];"
    >>> text = f"{head} mov.u32 %r1, full; add.u32 %r2, %r1, 8; ld.shared.u32 %r2, [%r2]; ret; }}"
    >>> k = read_module(text).entries[0]
    >>> symbols_behind(k.body, k.body[2].operands[1])
    frozenset({'full'})
    """
    names, been = set[str](), set[int]()
    ways: list[Operand] = [address.base]
    while ways:
        base = ways.pop()
        if isinstance(base, Symbol):
            names.add(base.name)
        elif isinstance(base, Register) and base.slot not in been:
            been.add(base.slot)
            writers = [i for i in body if base.slot in i.given and i.op in SUMS]
            ways += [operand for i in writers for operand in i.operands[-1 if i.op == "mad" else 1 :]]
    return frozenset(names)


def number_of(body: Sequence[Instruction], lines: Sequence[int]) -> int:
    """The line of the `mov` whose number is the last operand of these lines, and which no other line uses; 0 for none.
    Source lines have the number themselves: 0 if the PTX names them. Compilers give the `mov` any line.

    >>> from smemsim.core.ptx.parser import read_module
    >>> head = ".version 8.8 .target sm_90a .address_size 64 .entry k() { .reg .b32 %r<3>;"
    >>> k = read_module(chr(10).join((head, "mov.u32 %r1, 16400;", "nanosleep.u32 %r1;", "ret; }"))).entries[0]
    >>> number_of(k.body, [3])
    2
    """
    last = {i.operands[-1] for i in body if i.line in lines and i.operands}
    register = next(iter(last), None)
    if len(last) != 1 or not isinstance(register, Register):
        return 0
    writers = [i for i in body if register.slot in i.given]
    users = {i.line for i in body if register.slot in i.used}
    is_number = len(writers) == 1 and writers[0].op == "mov" and isinstance(writers[0].operands[-1], Immediate)
    return writers[0].line if is_number and users == set(lines) and writers[0].location is None else 0
