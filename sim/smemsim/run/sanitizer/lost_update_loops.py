"""Do lanes of one warp go to one place? Compiled."""

from __future__ import annotations

from smemsim.base.compiling.loop import compiled

__all__ = ["meet"]


@compiled
def meet(at, threads):  # type: ignore[no-untyped-def]
    """Do two threads of a warp go to one place? `at` are the places of threads in their order, none of
    them negative.
    """
    first, high = 0, -1
    for n in range(len(at)):
        if threads[n] >> 5 != threads[first] >> 5:
            first, high = n, -1
        if at[n] > high:
            high = at[n]
            continue
        for k in range(first, n):
            if at[k] == at[n]:
                return True
    return False
