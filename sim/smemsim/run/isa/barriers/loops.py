"""The compiled loops of barriers."""

from __future__ import annotations

from smemsim.base.compiling.loop import compiled

__all__ = ["pass_phase"]


@compiled(reads="tid parity")
def pass_phase(tid, parity, now, phase, passed, done):  # type: ignore[no-untyped-def]
    """Threads of a CTA test for a phase's end by its parity, while the current phase has parity `now`. Returns how many
    are done.

    Threads whose phase is complete get True in `done`, and their next phase in `passed`, by thread of the CTA. A wait
    before the first phase passes, and gets no next phase.
    """
    count = 0
    for n in range(len(tid)):
        done[n] |= parity[n] != now
        if done[n]:
            count += 1
            own = passed[tid[n]]
            over = own + ((own ^ parity[n]) & 1)
            if over < phase:
                passed[tid[n]] = over + 1
    return count
