"""Execution of a launch: its clusters in waves, several waves where CTAs wait for each other, and shards of a grid
for other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.base.errors import HardwareTrap
from smemsim.base.floating_point import in_default_state
from smemsim.base.garbage import seldom_collected
from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.traps import TIMEOUT
from smemsim.run.engine.hangs import count_bytes, report_hang
from smemsim.run.engine.in_flight import InFlight
from smemsim.run.engine.launch import CANCEL, Launch, Queue
from smemsim.run.engine.multiprocessors import Multiprocessors, fitting
from smemsim.run.engine.sampling import trap_of_part, waits_for_others
from smemsim.run.engine.scheduler import OutOfTime, Stuck, run_wave
from smemsim.run.engine.traps import find_no_workspace, fix_of_stop, lacks_workspace
from smemsim.run.engine.warp_scheduler import WarpScheduler
from smemsim.run.engine.wave import WARP, Wave
from smemsim.run.isa.threads.control import check_registers
from smemsim.run.jit.tier import obey_environment
from smemsim.run.sanitizer.first import sanitizer_of
from smemsim.run.sanitizer.history import History

if TYPE_CHECKING:
    from smemsim.run.lower.program import Program

__all__ = ["at_once", "depends", "execute", "in_front", "requests", "resident", "takes_over"]


WAVE_THREADS = 4096  # threads that are executed together, where registers do not take too much room
WIDE_WAVE_THREADS = 32768  # the same of CTAs that wait for no other, and of which each knows of its own warps alone
WATCHED_WAVE_THREADS = 65536  # the same of a watched launch: a sanitizer costs more to begin than to feed
WAVE_BYTES = 1 << 28
MATRICES = ("mma", "wmma", "wgmma", "tcgen05")  # what is recorded of these may still name registers when a wave is over


def at_once(launch: Launch, *, sanitizer: bool = True) -> int:
    """Clusters of one wave; wide ones of a grid are of one size, and of an even number."""
    threads = launch.cluster_size * (-(-launch.threads // WARP) * WARP)
    own = 8 * max(1, len(launch.program.registers)) + launch.program.places.local_bytes  # bytes of a thread
    room = WAVE_BYTES // (own * threads + launch.cluster_size * launch.window_bytes * 16)
    is_narrow = launch.schedule is not None or launch.program.hears_others or takes_over(launch)
    # of the others, steps cost the sanitizer as much as the wave has warps
    is_narrow = is_narrow or (sanitizer and not launch.is_apart)
    together = WAVE_THREADS if is_narrow else WATCHED_WAVE_THREADS if sanitizer else WIDE_WAVE_THREADS
    most = max(1, min(together // threads, room))
    clusters = launch.ctas // launch.cluster_size
    if is_narrow or clusters <= most:
        return most
    pairs = -(-clusters // (2 * most))  # of waves, so that two processes have as much to do
    return -(-clusters // (2 * pairs))


def resident(launch: Launch) -> int:
    """Clusters that are on the card at once."""
    fits = fitting(launch) if launch.places is None else launch.places.fits
    return max(1, launch.multiprocessors * fits // launch.cluster_size)


def in_front(launch: Launch) -> tuple[History, ...]:
    """The changes of memory by a finished launch, and by earlier ones that may still run. They are for the next launch
    with programmatic stream serialization.
    """
    history: History | None = launch.history
    return () if history is None else history.leaves()


def depends(launch: Launch) -> bool:
    """May a CTA of the launch wait for, or add to, what another one writes to global memory?"""
    return launch.program.needs_others


def requests(program: Program) -> list[Instruction]:
    """The instructions with which a CTA asks for the work of others."""
    return program.requests


def takes_over(launch: Launch) -> bool:
    """May a CTA of the launch take over the work of others, which then do not begin?"""
    return launch.config.cancel != "never" and bool(requests(launch.program))


def _queue(launch: Launch, clusters: Sequence[int] | Queue | None) -> Queue:
    """The clusters that are to run, and how many of them begin whatever others ask for."""
    if isinstance(clusters, Queue):
        return clusters
    waiting: Sequence[int] = range(launch.ctas // launch.cluster_size) if clusters is None else clusters
    if launch.schedule is not None:
        waiting = launch.schedule.begins(waiting)
    return Queue(waiting, len(waiting) if not takes_over(launch) else resident(launch) if launch.config.cancel == "resident" else 0)


@in_default_state
def execute(
    launch: Launch,
    clusters: Sequence[int] | Queue | None = None,
    *,
    sanitizer: bool = True,
    done: Callable[[int], None] = lambda ctas: None,
) -> bool:
    """Run clusters of a launch (all of them without `clusters`). Findings are added to `launch.result`.

    The function `done` is called with the number of CTAs that have finished. A trap or a hang ends the launch, as on
    hardware, and the result is False. It is also False at the end of the launch's time. Then no finding is added. CTAs
    may wait for other CTAs. If all of them fit on the card at once, further waves join the running one.

    Whether requests for clusters to take over were granted is in `launch.evidence`. The CUDA error of a trap or a hang
    is `launch.status`.
    """
    obey_environment(launch.program)
    for begin in launch.program.at_launch.values():
        begin(launch)
    launch.places = Multiprocessors(launch) if launch.program.names_multiprocessors else None
    launch.queue = queue = _queue(launch, clusters)
    try:
        with np.errstate(all="ignore"), seldom_collected():
            return _Waves(launch, queue, sanitizer=sanitizer, done=done).run()
    finally:
        if queue.asked:
            granted = f"{queue.taken} of {queue.asked} requests were granted" if takes_over(launch) else "no request was granted"
            launch.result.evidence.add(
                f"clusterlaunchcontrol.try_cancel: {granted} (cancel = {launch.config.cancel!r}: {CANCEL[launch.config.cancel]})"
            )


class _Waves:
    """The waves of a launch: which one runs next, and what becomes of it."""

    def __init__(self, launch: Launch, queue: Queue, *, sanitizer: bool, done: Callable[[int], None]) -> None:
        self.launch, self.queue, self.sanitizer, self.done = launch, queue, sanitizer, done
        self.most, self.together = resident(launch), at_once(launch, sanitizer=sanitizer)
        if launch.places is not None:
            self.together = min(self.together, self.most)
        if takes_over(launch) and launch.config.cancel != "resident":
            self.together = 1  # so that there are others to take over
        if launch.schedule is not None:
            self.together = launch.schedule.together(self.together, len(queue))
        launch.waves.clear()
        self.others_help = launch.program.hears_others
        if sanitizer and launch.options.watch_global and launch.history is None:
            launch.history = History(launch, launch.options.after or ())
        elif launch.history is None:
            launch.memory.wrote_all()
        self.history = launch.history if sanitizer else None
        self.stuck: dict[Wave, int] = {}  # waves that only polled, waited or looped: how much had changed by then
        self.past = 0  # changes of waves that are over
        self.counted = 0  # clusters that others took over, counted in `done`

    def run(self) -> bool:
        """Run the clusters (`execute`)."""
        launch = self.launch
        while self.queue or launch.waves:
            wave, is_last_try = self._next()
            if wave is None and not self.queue and not launch.waves:
                break
            if wave is None:
                _hung(launch, len(self.queue) * launch.cluster_size)
                return False
            has_others = len(launch.waves) > 1 or bool(self.queue)
            wave.progress.may_pause = has_others
            finished = self._ran(wave, gives_way=self.others_help and not is_last_try and has_others)
            if finished is None:
                return False
            if finished:
                self._ended(wave)
            elif not wave.progress.paused:
                launch.waves.append(launch.waves.pop(launch.waves.index(wave)))  # the others first
                self.stuck[wave] = self._changes
        return not launch.result.out_of_time

    @property
    def _changes(self) -> int:
        return self.past + sum(int(w.progress.changes) for w in self.launch.waves)

    def _next(self) -> tuple[Wave | None, bool]:
        """The wave that runs next, and whether no other wave can help it; None if no wave can go on."""
        launch, changes = self.launch, self._changes
        room = self.most - sum(w.positions.clusters_left for w in launch.waves)
        ready = [
            w
            for w in launch.waves
            if (self.stuck.get(w) != changes and not w.progress.never_ends) or (w.in_flight is not None and w.in_flight.pending)
        ]
        can_begin = bool(self.queue) and room > 0
        wave: Wave | None = ready[0] if ready else None
        if launch.schedule is not None:
            wave = launch.schedule.wave(ready, can_begin=can_begin)
        if wave is not None:
            return wave, False
        if can_begin and (clusters := self.queue.begin(min(self.together, room))):
            return _begun(launch, clusters, sanitizer=self.sanitizer, history=self.history), False
        return next((w for w in launch.waves if w.progress.gave_way), None), True

    def _ran(self, wave: Wave, *, gives_way: bool) -> bool | None:
        """Run a wave: is it over? None where the launch is."""
        launch = self.launch
        try:
            return run_wave(wave, gives_way=gives_way)
        except Stuck:
            _hung(launch)
        except OutOfTime:
            launch.result.out_of_time = True
        except HardwareTrap as trap:
            _trapped(launch, trap)
        return None

    def _ended(self, wave: Wave) -> None:
        """All threads of a wave have exited."""
        launch = self.launch
        count_bytes(launch, wave)
        check_registers(wave)
        if wave.events.wave_ended:
            wave.events.wave_ended(wave)
        launch.waves.remove(wave)
        if launch.places is not None:
            launch.places.end(wave.numbers.tolist())
        self.stuck.pop(wave, None)
        if launch.schedule is None and launch.program.uses.isdisjoint(MATRICES):
            wave.leave()
        self.past += wave.progress.changes
        ctas = len(wave.ctas)
        wave.let_go()
        self.done(ctas + (self.queue.taken - self.counted) * launch.cluster_size)
        self.counted = self.queue.taken


def _begun(launch: Launch, clusters: Sequence[int], *, sanitizer: bool, history: History | None) -> Wave:
    """A wave of these clusters, which begins now."""
    wave = Wave(launch, clusters)
    if launch.places is not None:
        launch.places.begin(wave.numbers.tolist())
    is_watched = sanitizer and (launch.window_bytes or history is not None)
    wave.is_observed_by(sanitizer_of(wave, history) if is_watched else None, launch.observers)
    if launch.schedule is not None:
        wave.warp_scheduler = WarpScheduler.of(launch.schedule, wave)
        wave.in_flight = InFlight(launch.schedule, wave)
    launch.waves.append(wave)
    if wave.events.wave_began:
        wave.events.wave_began(wave)
    return wave


def _hung(launch: Launch, outside: int = 0) -> None:
    """Nothing goes on: findings, unless it may be for CTAs that were left out. `outside` CTAs have not begun, as the
    card is full.
    """
    launch.result.held_up = waits_for_others(launch)
    if not launch.result.held_up:
        launch.result.status = TIMEOUT
        report_hang(launch, outside)


def _trapped(launch: Launch, trap: HardwareTrap) -> None:
    """Hardware has stopped the kernel: a finding. There is none if a finding at that instruction or about this trap is
    there, or if the kernel stopped itself in a part of the grid.
    """
    i: Instruction | None = getattr(trap, "instruction", None)
    if i is not None and i.op == "trap" and not lacks_workspace(launch, i) and (held_up := trap_of_part(launch, i)):
        launch.result.held_up = held_up
        return
    launch.result.status = trap.cuda_error
    if i is not None and not trap.is_told and all(f.site != i.site for f in launch.result.findings.values()):
        _tell_trap(launch, i, trap)
    for wave in launch.waves:
        if wave.events.wave_stopped:
            wave.events.wave_stopped(wave)


def _tell_trap(launch: Launch, i: Instruction, trap: HardwareTrap) -> None:
    if lacks_workspace(launch, i):
        find_no_workspace(launch, i, trap.reason)
        return
    code = "X013" if i.op == "trap" else _CODES.get(trap.cuda_error, "X015")
    repair = fix_of_stop(launch.program, i) if code == "X013" else ""
    launch.find(code, i, trap.reason, repair, why=f"the kernel ends with CUDA error {trap.cuda_error}")


_CODES = {700: "X001", 716: "X002", 719: "X001"}
