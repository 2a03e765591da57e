"""Scopes of memory operations (PTX ISA 9.1 §8.5), the narrowest first."""

from __future__ import annotations

__all__ = ["CLUSTER", "CTA", "GPU", "UNWRITTEN", "level"]


CTA, CLUSTER, GPU = range(3)  # to the threads of one launch .sys is .gpu
UNWRITTEN = -1  # of an arrival at an mbarrier: .cta by the PTX ISA, counts as CLUSTER (rule order.default_scope)


def level(scope: str) -> int:
    """The level of a scope by its name.

    >>> level("cta"), level("cluster"), level("gpu"), level("sys")
    (0, 1, 2, 2)
    """
    return {"cta": CTA, "cluster": CLUSTER}.get(scope, GPU)
