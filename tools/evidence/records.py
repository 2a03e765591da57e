"""What is kept of a program that was run."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

__all__ = ["of_launches"]


def of_launches(launches: Iterable[Any]) -> dict[str, Any]:
    """Launches as data: how many, which kernels (digest of the PTX, instructions of Hopper and Blackwell in it), codes
    of findings, how many did not run.
    """
    every = list(launches)
    codes = collections.Counter(f["code"] for x in every for f in (x.run or {}).get("findings", []))
    return {
        "launches": len(every), "kernels": {x.ptx: list(x.families) for x in every if x.ptx}, "codes": dict(codes),
        "refused": sum(bool(x.refused) for x in every),
    }  # fmt: skip
