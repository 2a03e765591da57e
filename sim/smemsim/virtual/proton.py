"""Proton, Triton's profiler (`triton.profiler`), measures by CUPTI, which needs NVIDIA's driver. Here its sessions
measure nothing, and print that once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from smemsim.virtual import process

__all__ = ["install"]


FIRST = 1 << 30  # numbers of sessions that measure nothing
OF_SESSIONS = ("activate", "deactivate", "finalize")


@functools.cache
def install() -> None:
    """Change `triton.profiler`, once, after its import."""
    from triton._C import libproton

    proton: Any = libproton.proton
    start: Callable[..., Any] = proton.start
    sessions: list[int] = []

    @functools.wraps(start)
    def begin(name: str, context: str, data: str, backend: str, *more: Any) -> Any:
        if backend != "cupti":
            return start(name, context, data, backend, *more)
        if not sessions:
            process.device().tell(
                f"triton.profiler: session {name} measures nothing, and writes no file: the speed of a simulation says nothing of a card"
            )
        sessions.append(FIRST + len(sessions))
        return sessions[-1]

    def without(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def act(session: int, *more: Any) -> Any:
            return None if session in sessions else real(session, *more)

        return act

    proton.start = begin
    for name in OF_SESSIONS:
        setattr(proton, name, without(getattr(proton, name)))
