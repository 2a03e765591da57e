"""Running a launch: its clusters in waves, several waves where CTAs wait for each other, and shards of a grid for other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smemsim.errors import HardwareTrap
from smemsim.gpu.control import check_registers
from smemsim.gpu.hang import count_bytes, report_hang
from smemsim.gpu.launch import CANCEL, Launch, Queue
from smemsim.gpu.schedule import OutOfTime, Stuck, run_wave
from smemsim.gpu.watching.watch import Watch
from smemsim.gpu.wave import WARP, Wave
from smemsim.ptx.module import Instruction
from smemsim.spec.launches import RESIDENCY

__all__ = ["at_once", "depends", "execute", "requests", "resident", "takes_over"]

WAVE_THREADS = 4096  # threads that are executed together, where registers do not take too much room
WAVE_BYTES = 1 << 28


def at_once(launch: Launch) -> int:
    """Clusters of one wave."""
    threads = launch.cluster_size * (-(-launch.threads // WARP) * WARP)
    own = 8 * max(1, len(launch.program.registers)) + launch.program.places.local_bytes  # bytes of a thread
    room = WAVE_BYTES // (own * threads + launch.cluster_size * launch.window_bytes * 16)
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
        if i.op == "ld" and where & {"cv", "cg"}:  # past the L1, where others' stores are seen
            return True
        if i.op in ("ld", "st") and where & {"acquire", "release", "relaxed", "volatile", "mmio"} and "shared" not in where:
            return True
        if i.op == "cp" and i.modifiers[:1] == ("reduce",):
            return True
    return False


def requests(launch: Launch) -> list[Instruction]:
    """The instructions with which a CTA asks for the work of others."""
    return [i for i in launch.program.inlined.body if i.op == "clusterlaunchcontrol" and "try_cancel" in i.modifiers]


def takes_over(launch: Launch) -> bool:
    """May a CTA of the launch take over the work of others, which then do not begin?"""
    return launch.cancel != "never" and bool(requests(launch))


def _queue(launch: Launch, clusters: Sequence[int] | None) -> Queue:
    """The clusters that are to run, and how many of them begin whatever others ask for."""
    waiting: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    return Queue(waiting, len(waiting) if not takes_over(launch) else resident(launch) if launch.cancel == "resident" else 0)


def execute(
    launch: Launch, clusters: Sequence[int] | None = None, *, watch: bool = True, done: Callable[[int], None] = lambda ctas: None
) -> bool:
    """Run clusters of a launch (all of them without `clusters`); what goes wrong is noted in `launch.findings`.

    `done` is told how many CTAs have finished. A trap ends the launch, and so does a hang: nothing runs after it, as on hardware, and the
    result is False; so it is at the end of the launch's time, and nothing is noted then. CTAs that wait for others are joined by further waves,
    as long as all of them fit on the card at once. Whether requests for others' work were granted is told in `launch.evidence`.
    """
    launch.queue = queue = _queue(launch, clusters)
    try:
        return _execute(launch, queue, watch=watch, done=done)
    finally:
        if queue.asked:
            granted = f"{queue.taken} of {queue.asked} requests were granted" if takes_over(launch) else "no request was granted"
            launch.evidence.add(f"clusterlaunchcontrol.try_cancel: {granted} (cancel = {launch.cancel!r}: {CANCEL[launch.cancel]})")


def _execute(launch: Launch, queue: Queue, *, watch: bool, done: Callable[[int], None]) -> bool:
    most, together = resident(launch), at_once(launch)
    if takes_over(launch) and launch.cancel != "resident":
        together = 1  # so that there are others to take over
    launch.waves.clear()
    others_help = depends(launch)
    stuck: dict[Wave, int] = {}  # waves that only polled, waited or looped: how much had changed by then
    past = 0  # changes of waves that are over
    counted = 0  # clusters that others took over, of those that `done` was told
    with np.errstate(all="ignore"):
        while queue or launch.waves:
            changes = past + sum(w.changes for w in launch.waves)
            room = most - sum(len(w.ctas) for w in launch.waves) // launch.cluster_size
            wave: Any = next((w for w in launch.waves if stuck.get(w) != changes), None)
            gives_way = others_help and (len(launch.waves) > 1 or bool(queue))
            if wave is None and queue and room > 0:
                wave = Wave(launch, queue.begin(min(together, room)))
                if watch and launch.window_bytes:
                    wave.watch = Watch(wave)
                launch.waves.append(wave)
            elif wave is None:
                gives_way = False
                wave = next((w for w in launch.waves if w.gave_way), None)
            if wave is None:
                report_hang(launch, len(queue) * launch.cluster_size)
                return False
            try:
                finished = run_wave(wave, gives_way=gives_way)
            except Stuck:
                report_hang(launch)
                return False
            except OutOfTime:
                launch.out_of_time = True
                return False
            except HardwareTrap as trap:
                instruction = getattr(trap, "instruction", None)
                if instruction is not None and not any(f.instruction.line == instruction.line for f in launch.findings.values()):
                    code = "X013" if instruction.op == "trap" else _CODES.get(trap.cuda_error, "X015")
                    launch.find(code, instruction, str(trap))
                for other in launch.waves:
                    if other.watch is not None:
                        other.watch.abandoned()
                return False
            if finished:
                count_bytes(launch, wave)
                check_registers(wave)
                if wave.watch is not None:
                    wave.watch.ended()
                launch.waves.remove(wave)
                stuck.pop(wave, None)
                past += wave.changes
                done(len(wave.ctas) + (queue.taken - counted) * launch.cluster_size)
                counted = queue.taken
            else:
                launch.waves.append(launch.waves.pop(launch.waves.index(wave)))  # the others first
                stuck[wave] = past + sum(w.changes for w in launch.waves)
    return True


_CODES = {700: "X001", 716: "X002", 719: "X001"}
