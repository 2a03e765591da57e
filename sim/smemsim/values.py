"""Frozen dataclasses that are made quickly: a command has some hundred classes of values, and the standard library compiles six functions for each of them.

`dataclass` is that of the standard library. Of a frozen class it compiles `__init__` alone; what else it has all classes share.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _Factory:
    """Stands in a signature where a field is made anew."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY, _MISSING = _Factory(), dataclasses.MISSING


def _frozen(self: Any, name: str, *value: Any) -> None:
    """`__setattr__` and `__delattr__`: subclasses that are no dataclasses may have attributes of their own."""
    kind = type(self)
    if "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
    (object.__setattr__ if value else object.__delattr__)(self, name, *value)


def _repr(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]
    return lambda self: f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _in_one(names: list[str]) -> Callable[[Any], Any]:
    """What gives these attributes of an object as one value."""
    if not names:
        return lambda _: ()
    get = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda self: (get(self),)


def _add_comparison(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> None:
    own = vars(cls)
    is_hashed = own.get("__hash__") is not None
    if "__eq__" not in own:
        compared = _in_one([field.name for field in fields if field.compare])

        def equals(self: Any, other: object) -> Any:
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        cls.__eq__ = equals  # type: ignore[method-assign,assignment]
    if not is_hashed:
        hashed = _in_one([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

        def hash_of(self: Any) -> int:
            return hash(hashed(self))

        cls.__hash__ = hash_of  # type: ignore[method-assign,assignment]


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    plain: list[str] = ["self"]
    by_name: list[str] = []
    lines: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        default = field.default
        if field.default_factory is not _MISSING:
            scope[f"_make_{name}"], default = field.default_factory, _FACTORY
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            continue  # what it is by default the class has
        if field.init:
            scope[f"_default_{name}"] = default
            (by_name if field.kw_only else plain).append(name if default is _MISSING else f"{name}=_default_{name}")
        lines.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    given = ", ".join([*plain, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({given}):\n  " + "\n  ".join(lines or ["pass"]), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made


def _made(cls: type, *, init: bool, repr: bool, eq: bool, kw_only: bool) -> Any:
    found: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    fields = dataclasses.fields(found)
    if eq:
        _add_comparison(found, fields)
    found.__setattr__ = found.__delattr__ = _frozen
    if repr and "__repr__" not in vars(found):
        found.__repr__ = _repr(fields)
    if init and "__init__" not in vars(found):
        found.__init__ = _init(found, fields)
    return found


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, init: bool = True, repr: bool = True, eq: bool = True, kw_only: bool = False) -> Callable[[type], type]:
        """`dataclasses.dataclass` of a frozen class, with the options that are used here."""
        assert frozen
        return lambda cls: _made(cls, init=init, repr=repr, eq=eq, kw_only=kw_only)
