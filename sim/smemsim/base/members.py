"""Metaclasses for public classes that inherit from Python's own: `dir` and `help` show the members of smemsim.

`help` of an exception or an enum would otherwise show some 80 to 470 lines about `Exception`, `str` or `int`.
"""

from __future__ import annotations

import enum
import sys

__all__ = ["OwnEnumMembers", "OwnMembers"]


def _own(cls: type) -> list[str]:
    """The public names that this class and those that it inherits from define, without Python's own classes."""
    classes = [c for c in cls.__mro__ if c.__module__.partition(".")[0] not in sys.stdlib_module_names]
    return sorted({name for c in classes for name in vars(c) if not name.startswith("_")})


class OwnMembers(type):
    """The type of smemsim's exceptions.

    >>> from smemsim.base.errors import HardwareTrap
    >>> dir(HardwareTrap)
    []
    """

    def __dir__(cls) -> list[str]:
        return _own(cls)


class OwnEnumMembers(enum.EnumType):
    """The type of smemsim's public enums.

    >>> from smemsim.core.spec.swizzles import Swizzle
    >>> "B128" in dir(Swizzle), "upper" in dir(Swizzle)
    (True, False)
    """

    def __dir__(cls) -> list[str]:
        return sorted({*cls.__members__, *_own(cls)})
