"""The packages that smemsim needs, and the sentence for a Python that lacks one."""

from __future__ import annotations

import importlib.util
import sys

from smemsim.base.errors import InputError

__all__ = ["REQUIRED", "check_required", "missing_module"]

REQUIRED = ("numpy", "numba", "llvmlite", "click", "rich", "lz4")


def missing_module(name: str) -> str:
    """A sentence for a Python that lacks a package: what to do.

    >>> missing_module("llvmlite.binding").partition(", which")[2]
    ' smemsim needs: pip install llvmlite, or use the Python of its own environment'
    """
    package = name.partition(".")[0]
    return (
        f"{sys.executable} has no package {package}, which smemsim needs: pip install {package}, or use the Python of its own environment"
    )


def check_required() -> None:
    """Raises InputError for the first package that this Python lacks. Nothing is imported."""
    for name in REQUIRED:
        if sys.modules.get(name) is None and importlib.util.find_spec(name) is None:
            raise InputError(missing_module(name))
