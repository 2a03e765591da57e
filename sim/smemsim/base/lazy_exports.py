"""A package's door: the names it shows to others, each imported from its module when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from smemsim.base.floating_point import default_state

__all__ = ["door"]


def door(package: str, shown: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that shows these names of its modules.

    >>> door("smemsim.planning", {"code": ("LANGUAGES",)})("LANGUAGES")
    ('cpp', 'cute', 'triton')
    """
    homes = {name: module for module, names in shown.items() for name in names}

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with default_state():  # modules compute their tables when they are imported
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return imported
