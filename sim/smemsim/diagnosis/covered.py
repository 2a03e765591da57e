"""What a check covered, in words. A command that prints them has run no launch itself, and loads no more than this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smemsim.core.spec.architectures import any_architecture

__all__ = ["COMPARE", "IN_REGISTERS", "MORE_KINDS", "NO_LOAD", "UNMEASURED", "not_checked", "operands_checked", "rests_on"]


NO_LOAD = "whether operands without a tensor load are the intended tile"
MORE_KINDS = "tile products of further kinds"
COMPARE = "to check these, compare the result: smemsim run --expect ARRAY=FILE.npy"
IN_REGISTERS = "mma and wmma, whose operands are registers"
UNITS = {MORE_KINDS: "product"}  # what is counted, if these are no instructions
# The grades of rules for an architecture that was not measured, each with what it means.
UNMEASURED = "witnessed (by programs that are right on a B200), documented, compiled (in compilers' output) or inferred"
UNWITNESSED = "documented, compiled (in compilers' output) or inferred"  # of cards before Hopper


def operands_checked(a: Sequence[int], b: Sequence[int]) -> str:
    """The checked operands A and B in words. Both are (checked, all).

    >>> operands_checked((96, 96), (96, 96)), operands_checked((96, 96), (4, 9000))
    ('A and B in all 96 matrix instructions', 'A in all 96 matrix instructions, B in 4 of 9,000')
    """
    counts = [(side, done, of) for side, (done, of) in (("A", a), ("B", b)) if of]
    if len(counts) == 2 and counts[0][1:] == counts[1][1:]:
        counts = [("A and B", *counts[0][1:])]
    some = [
        "the only" if 1 == of == done else f"all {of:,}" if done == of else f"{done:,} of {of:,}" if done else f"none of {of:,}"
        for _, done, of in counts
    ]
    sides = [f"{side} in {many}" for (side, *_), many in zip(counts, some, strict=True)]
    sides[:1] = [f"{side} matrix instruction{'s' * (counts[0][2] != 1)}" for side in sides[:1]]
    return ", ".join(sides)


def not_checked(missed: Mapping[str, int]) -> list[str]:
    """The parts that the operand check left out, a line for each reason.

    For operands without loads, or in registers, the last line is the command that checks them another way.

    >>> not_checked({"operands of 4 or 6 bits": 8})
    ['not checked: operands of 4 or 6 bits (8 instructions)']
    """
    told = [f"not checked: {reason}" + f" ({_counted_in(reason, count)})" * bool(count) for reason, count in missed.items()]
    return [*told, COMPARE] if NO_LOAD in missed or IN_REGISTERS in missed else told


def _counted_in(reason: str, count: int) -> str:
    """A count with its unit."""
    return f"{count:,} {UNITS.get(reason, 'instruction')}{'s' * (count != 1)}"


def rests_on(arch: str) -> str:
    """What the rules for an architecture rest on, if it was not measured; "" if it was.

    >>> rests_on("sm_80")
    "rules for sm_80 are documented, compiled (in compilers' output) or inferred: nothing is measured on Ampere"
    """
    of = any_architecture(arch)
    return "" if of.measured else f"rules for {arch} are {UNMEASURED if of.is_blackwell else UNWITNESSED}: {of.unmeasured}"
