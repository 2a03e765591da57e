"""Metaclasses of public classes. They decide what `dir` and `help` of the class show, so that help fits a screen.

Otherwise `help` of an exception or an enum shows some 80 to 470 lines about `Exception`, `str` or `int`. For a class
with many members it shows some 200 lines.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys

__all__ = ["MEMBERS", "OwnEnumMembers", "OwnMembers", "is_called", "public_members"]

FEW = 6  # a class with so many members is shown with all of them


def _own(cls: type) -> list[str]:
    """The public names that this class and those that it inherits from define, without Python's own classes."""
    classes = [c for c in cls.__mro__ if c.__module__.partition(".")[0] not in sys.stdlib_module_names]
    return sorted({name for c in classes for name in vars(c) if not name.startswith("_")})


def public_members(cls: type) -> dict[str, object]:
    """Methods and properties for users: those with a docstring that no class of the MRO lists in `_internal`."""
    internal = {name for c in cls.__mro__ for name in vars(c).get("_internal", ())}
    found = {}
    for name in _own(cls):
        member = inspect.getattr_static(cls, name)
        of = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if (
            name not in internal
            and (callable(of) or isinstance(of, property | functools.cached_property))
            and of.__doc__
            and not isinstance(of, type)
        ):
            found[name] = member
    return found


def is_called(member: object) -> bool:
    """Is a member of a class a method? Else it is a property, or an attribute with a default."""
    return isinstance(member, classmethod | staticmethod) or inspect.isfunction(member)


class _Text(str):
    """Text that `help` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(cls: type) -> inspect.Signature:
    """The call of a class without quotes around types, and with the values that default factories make."""
    made = {f.name: f.default_factory for f in getattr(cls, "__dataclass_fields__", {}).values()}
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    shown = []
    for p in parameters:
        text = p.annotation if isinstance(p.annotation, str) else inspect.formatannotation(p.annotation)
        factory = made.get(p.name)
        default = factory() if callable(factory) and "<factory>" in repr(p.default) else p.default
        shown.append(p.replace(annotation=p.annotation if p.annotation is p.empty else _Text(text.strip('"')), default=default))
    return inspect.Signature(shown)


class OwnMembers(type):
    """The type of smemsim's public classes.

    For a class with few members, `dir` and `help` show all of its own. For other classes they show only what is called
    on the class itself. Then the docstring ends with the names of all members, and `dir` of an instance has all of
    them. A class lists members that only smemsim uses in `_internal`. Members of a user's class that inherits are all
    shown.

    >>> from smemsim.base.errors import HardwareTrap
    >>> dir(HardwareTrap)
    []
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **options: object) -> None:
        super().__init__(name, bases, namespace, **options)
        members = public_members(cls)
        if cls.__doc__ and len(members) > FEW and MEMBERS not in cls.__doc__:
            listed = ", ".join(f"{name}()" if is_called(of) else name for name, of in members.items())
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\n{MEMBERS}{listed}."

    @property
    def __signature__(cls) -> inspect.Signature:
        return _signature(cls)

    def __dir__(cls) -> list[str]:
        members = public_members(cls)
        if len(members) > FEW:
            members = {name: of for name, of in members.items() if isinstance(of, classmethod | staticmethod)}
        theirs = [name for c in cls.__mro__ if not _is_ours(c) for name in vars(c) if name in _own(cls)]
        return sorted({*members, *theirs})


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


MEMBERS = "Members (`help` of one explains it): "


class OwnEnumMembers(enum.EnumType):
    """The type of smemsim's public enums.

    >>> from smemsim.core.spec.swizzles import Swizzle
    >>> "B128" in dir(Swizzle), "upper" in dir(Swizzle)
    (True, False)
    """

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.Signature([inspect.Parameter("value", inspect.Parameter.POSITIONAL_OR_KEYWORD)])

    def __dir__(cls) -> list[str]:
        return sorted({*cls.__members__, *_own(cls)})
