"""Running a launch: its clusters in waves, several waves where CTAs wait for each other, and shards of a grid for other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.errors import HardwareTrap
from smemsim.gpu.hang import count_bytes, report_hang
from smemsim.gpu.launch import Launch
from smemsim.gpu.schedule import GIVE_WAY, ROUNDS, run_wave
from smemsim.gpu.watch import Watch
from smemsim.gpu.wave import WARP, Wave
from smemsim.spec.launches import RESIDENCY

__all__ = ["at_once", "depends", "execute", "resident"]

WAVE_THREADS = 4096  # threads that are executed together, where registers do not take too much room
WAVE_BYTES = 1 << 28
ENDLESS = 3_000_000  # blocks without a store or an arrival: a loop that long never ends


def at_once(launch: Launch) -> int:
    """Clusters of one wave."""
    threads = launch.cluster_size * (-(-launch.threads // WARP) * WARP)
    room = WAVE_BYTES // (8 * max(1, len(launch.program.registers)) * threads + launch.cluster_size * launch.window_bytes * 16)
    return max(1, min(WAVE_THREADS // threads, room))


def resident(launch: Launch) -> int:
    """Clusters that are on the card at once."""
    warps = -(-launch.threads // WARP) * WARP
    fits = min(RESIDENCY.threads // warps, RESIDENCY.ctas, RESIDENCY.shared_bytes // (launch.window_bytes + RESIDENCY.reserved_bytes))
    return max(1, RESIDENCY.multiprocessors * max(1, fits) // launch.cluster_size)


def depends(launch: Launch) -> bool:
    """May a CTA of the launch wait for, or add to, what another one writes to global memory?"""
    for i in launch.program.inlined.body:
        where = {m.partition("::")[0] for m in i.modifiers}
        if i.op in ("atom", "red") and "shared" not in where:
            return True
        if i.op in ("ld", "st") and where & {"acquire", "release", "relaxed", "volatile", "mmio"} and "shared" not in where:
            return True
        if i.op == "cp" and i.modifiers[:1] == ("reduce",):
            return True
    return False


def execute(
    launch: Launch, clusters: Sequence[int] | None = None, *, watch: bool = True, done: Callable[[int], None] = lambda ctas: None
) -> bool:
    """Run clusters of a launch (all of them without `clusters`); what goes wrong is noted in `launch.findings`.

    `done` is told how many CTAs have finished. A trap ends the launch, and so does a hang: nothing runs after it, as on hardware, and the
    result is False. CTAs that wait for others are joined by further waves, as long as all of them fit on the card at once.
    """
    waiting = list(range(launch.ctas // launch.cluster_size) if clusters is None else clusters)
    most, together = resident(launch), at_once(launch)
    launch.waves.clear()
    others_help = depends(launch)
    stuck: dict[Wave, int] = {}  # waves that only polled, waited or looped: how much had changed by then
    hopeless: dict[Wave, _Standstill] = {}
    past = 0  # changes of waves that are over
    with np.errstate(all="ignore"):
        while waiting or launch.waves:
            changes = past + sum(w.changes for w in launch.waves)
            room = most - sum(len(w.ctas) for w in launch.waves) // launch.cluster_size
            wave: Any = next((w for w in launch.waves if stuck.get(w) != changes), None)
            rounds = GIVE_WAY if others_help and (len(launch.waves) > 1 or waiting) else ROUNDS
            if wave is None and waiting and room > 0:
                count = min(together, room)
                wave = Wave(launch, waiting[:count])
                del waiting[:count]
                if watch and launch.window_bytes:
                    wave.watch = Watch(wave)
                launch.waves.append(wave)
            elif wave is None:
                rounds = max(GIVE_WAY + 1, ROUNDS // len(launch.waves))
                wave = next((w for w in launch.waves if w not in hopeless or not hopeless[w].lasts(changes)), None)
            if wave is None:
                report_hang(launch, len(waiting) * launch.cluster_size)
                return False
            try:
                finished = run_wave(wave, rounds)
            except HardwareTrap as trap:
                instruction = getattr(trap, "instruction", None)
                if instruction is not None and not any(f.instruction.line == instruction.line for f in launch.findings.values()):
                    code = "X013" if instruction.op == "trap" else _CODES.get(trap.cuda_error, "X015")
                    launch.find(code, instruction, str(trap))
                return False
            if finished:
                count_bytes(launch, wave)
                launch.waves.remove(wave)
                past += wave.changes
                done(len(wave.ctas))
            else:
                stuck[wave] = past + sum(w.changes for w in launch.waves)
                if rounds > GIVE_WAY:
                    hopeless.setdefault(wave, _Standstill()).look(wave, stuck[wave])
    return True


class _Standstill:
    """Whether a wave that did not go on can ever do so while nothing changes: not when it stands as it stood before, or has looped very long."""

    def __init__(self) -> None:
        self.changes, self.standing, self.since, self.proven = -1, 0, 0, False

    def look(self, wave: Wave, changes: int) -> None:
        """Note how the wave stands now."""
        standing = wave.standing()
        if changes != self.changes:
            self.changes, self.since, self.proven = changes, wave.steps, False
        else:
            self.proven = standing == self.standing or wave.steps - self.since > ENDLESS
        self.standing = standing

    def lasts(self, changes: int) -> bool:
        """Is it certain, unless something has changed?"""
        return self.proven and changes == self.changes


_CODES = {700: "X001", 716: "X002", 719: "X001"}
