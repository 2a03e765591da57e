"""Scopes of memory operations (PTX ISA 9.1 §8.5), the narrowest first."""

from __future__ import annotations

__all__ = ["CLUSTER", "CTA", "GPU", "level"]


CTA, CLUSTER, GPU = range(3)  # to the threads of one launch .sys is .gpu


def level(scope: str) -> int:
    """The level of a scope by its name.

    >>> level("cta"), level("cluster"), level("gpu"), level("sys")
    (0, 1, 2, 2)
    """
    return {"cta": CTA, "cluster": CLUSTER}.get(scope, GPU)
