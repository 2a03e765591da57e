"""The words of R507: which bytes or registers no instruction has written, which instruction reads them, and which one
uses the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from smemsim.core.finding import Half
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.sanitizer.races import Clauses

__all__ = ["accumulator_without_value", "half_of_cells", "register_without_value", "uninitialised", "uses"]


VOTED = "the value decides by way of a vote, in which lanes with a value take part too"
DECIDES = "the value only decides whether its own element is stored"
MOST_GIVERS = 3  # rows of a report
COPIED = "the value is only stored elsewhere; nothing else depends on it"


def uses(user: Instruction | None, by: Instruction | None = None) -> tuple[Half, ...]:
    """The instruction that uses a value, or uses what another one (`by`) computes with it."""
    if user is None:
        return ()
    return (*(() if by is None else (Half("compute", by.name, by),)), Half("use", user.name, user))


def uninitialised(
    where: str,
    i: Instruction,
    user: Instruction | None = None,
    by: Instruction | None = None,
    *,
    is_copied: bool = False,
    is_voted: bool = False,
    is_own: bool = False,
    several: str = "",
) -> tuple[Clauses, Severity | None]:
    """Memory is read that no thread has written. If `where` is a number of bytes, `several` are their addresses.

    The report is a remark in three cases.

    - A store copies the value and nothing else depends on it (`is_copied`).
    - Lanes that have a value vote too (`is_voted`).
    - The value decides only about its own element (`is_own`).
    """
    mild = COPIED if is_copied else VOTED if is_voted else DECIDES if is_own else ""
    return Clauses(
        "R507",
        f"{where} {f'are read before anything has written them: {several}' if several else 'is read before anything has written it'}",
        (Half("read", i.name, i), *uses(user, by)),
        mild or "the memory still holds old bytes, which may be anything",
    ), Severity.NOTE if mild else None


def register_without_value(
    register: str, reader: Instruction, givers: Sequence[Instruction], user: Instruction | None, thread: str = ""
) -> Clauses:
    """A thread, "" if it is not known which one, reads a register to which it has given no value. Other threads may
    have executed the instructions `givers`, which give it one.
    """
    if not givers:
        read = (Half("read", reader.name, reader), *uses(user))
        return Clauses("R507", f"register {register} is read, and no instruction has given it a value", read)
    given = tuple(Half("write", f"{i.name}, which {thread or 'that thread'} has not executed before", i) for i in givers[:MOST_GIVERS])
    used = f"{thread}, which" if thread else "a thread that"
    return Clauses("R507", f"register {register} is used by {used} has given it no value", (*given, *uses(user or reader)))


def accumulator_without_value(register: str) -> Clauses:
    """A wgmma adds to a register that no instruction has given a value."""
    return Clauses(
        "R507", f"wgmma adds to the accumulator register {register}, and no instruction has given it a value", why="scale-d is true"
    )


def half_of_cells(i: Instruction, user: Instruction | None) -> Clauses:
    """The upper halves of cells of tensor memory are used, of which an instruction has written the lower ones alone."""
    return Clauses(
        "R507",
        "the upper 16 bits of tensor memory columns are used before anything has written them",
        (Half("write", i.name, i), *uses(user)),
        f"{i.name} writes only the lower 16 bits of each column",
    )
