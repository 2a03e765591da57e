"""Functions that measure a kernel: here they call it once, since the speed of a simulation says nothing of a card.

>>> called = []
>>> call_once(lambda: called.append(1), quantiles=[0.5, 0.9]) == call_once(lambda: None), len(called)
(False, 1)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["call_once", "install"]


def call_once(call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, return_mode: str = "mean", **__: Any) -> Any:
    """Stands for `triton.testing.do_bench` and its relatives: one call, and the
    milliseconds that its simulation took.
    """
    begin = time.perf_counter()
    call()
    took = (time.perf_counter() - begin) * 1000
    return [took] * len(quantiles) if quantiles is not None else [took] if return_mode == "all" else took


def install() -> None:
    """TileLang was imported: its `do_bench` calls once."""
    module = sys.modules.get("tilelang.profiler.bench")
    if module is not None:
        module.do_bench = call_once  # type: ignore[attr-defined]
