"""Values are frozen dataclasses: what the standard library's say and do, they say and do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from smemsim.values import dataclass


def _fields() -> dict[str, Any]:
    return {
        "a": dataclasses.field(),
        "b": dataclasses.field(default=2, compare=False),
        "c": dataclasses.field(default_factory=list, hash=False),
        "d": dataclasses.field(default="x", repr=False, kw_only=True),
        "e": dataclasses.field(default=5, init=False),
        "f": dataclasses.field(default_factory=dict, init=False, compare=False),
    }


def _made(make: Any) -> Any:
    def said(self: Any) -> int:
        return int(self.a)

    names = dict.fromkeys(_fields(), "Any")
    body = {"__annotations__": names, "__doc__": "One.", "__module__": __name__, "__qualname__": "Both", "said": said, **_fields()}
    return make(type("Both", (), body))


OURS, THEIRS = _made(dataclass(frozen=True)), _made(dataclasses.dataclass(frozen=True))
GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((1,), {}), ((1, 3), {"d": "y"}), ((1,), {"c": [4]}), ((2,), {}), ((1,), {"d": "y"})]


def test_values_are_told_compared_hashed_and_replaced_as_dataclasses_are() -> None:
    ours, theirs = ([kind(*args, **kwargs) for args, kwargs in GIVEN] for kind in (OURS, THEIRS))
    assert list(map(repr, ours)) == list(map(repr, theirs))
    assert [[x == y for y in ours] for x in ours] == [[x == y for y in theirs] for x in theirs]
    assert list(map(hash, ours)) == list(map(hash, theirs))
    assert ours[0] != theirs[0]
    assert repr(dataclasses.replace(ours[0], a=7)) == repr(dataclasses.replace(theirs[0], a=7))
    assert dataclasses.asdict(ours[1]) == dataclasses.asdict(theirs[1])
    assert copy.copy(ours[1]) == ours[1]
    assert OURS.__match_args__ == THEIRS.__match_args__
    assert str(inspect.signature(OURS)) == str(inspect.signature(THEIRS))


def test_a_value_is_frozen_and_wants_its_fields() -> None:
    value = OURS(1)
    for change in (lambda: setattr(value, "a", 2), lambda: setattr(value, "z", 2), lambda: delattr(value, "a")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    for wrong in (OURS, lambda: OURS(1, 2, [], "d"), lambda: OURS(1, e=5)):
        with pytest.raises(TypeError, match=r"Both\.__init__"):
            wrong()


@dataclass(frozen=True)
class _Base:
    a: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", abs(self.a))


@dataclass(frozen=True, repr=False)
class _Derived(_Base):  # noqa: PLW1641
    b: int = 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Derived)


@dataclass(frozen=True, eq=False)
class _Itself:
    a: int


class _Free(_Base):
    """No dataclass: it may keep more."""


def test_values_keep_what_their_classes_write_themselves() -> None:
    assert _Derived(-1, 2) == _Derived(5)
    assert (_Derived(-1).a, repr(_Derived(-1, 2))) == (1, "_Derived(a=1)")
    assert hash(_Derived(1, 2)) == hash((1, 2))
    assert _Itself(1) != _Itself(1)
    assert pickle.loads(pickle.dumps(_Derived(4, 2))).b == 2
    free = _Free(1)
    free.more = 2  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        free.a = 3  # type: ignore[misc]
