"""How sure a rule is, and what sources disagree about."""

from __future__ import annotations

import enum
from typing import NamedTuple

from smemsim.base.members import OwnEnumMembers

__all__ = ["Dispute", "Grade"]


class Grade(enum.StrEnum, metaclass=OwnEnumMembers):
    """How sure a rule is. The grades, from the surest: measured, witnessed, documented, compiled, inferred.

    If two grades contradict each other, the surer one is right.

    >>> import smemsim
    >>> smemsim.RULES["operand.base_offset"].grades["sm_90a"]
    'measured'
    """

    MEASURED = "measured"  # a golden trace shows it
    WITNESSED = "witnessed"  # programs known right come out right with it, and wrong with each of its alternatives
    DOCUMENTED = "documented"  # text of the PTX ISA, the CUDA guide or the driver's header
    COMPILED = "compiled"  # shipping compilers and kernels rely on it
    INFERRED = "inferred"  # reasoned from the others

    def __repr__(self) -> str:
        return repr(str(self))


class Dispute(NamedTuple):
    """One disagreement of sources that no trace settles: the model `takes` what `source` says, `other` says something
    else.
    """

    takes: str
    source: str
    other: str
