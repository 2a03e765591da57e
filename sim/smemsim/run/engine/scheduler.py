"""Running a wave: which threads run next, when it yields to other waves, and when no thread can go on.

The threads at the lowest block run, of all warps together, so that warps that branch meet again after the branch.
Threads in a loop that other threads may have to end yield to them now and then. When all threads have yielded, the
next turn begins.
"""

from __future__ import annotations

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.run.engine.blocks import run_block
from smemsim.run.engine.hangs import refuse_host
from smemsim.run.engine.warp_scheduler import Apart
from smemsim.run.engine.wave import ALL, EXITED, GATHERING, WARP, YIELDED, ReadOnlyLoop, StateCycle, Wave
from smemsim.run.isa.barriers.skipped_barriers import ACTED_IN
from smemsim.run.lower.cfg import computes, following, waits_outside
from smemsim.run.slots import Slot

__all__ = ["OutOfTime", "Stuck", "run_wave"]


PATIENCE = 256  # blocks one group may execute in loops while others could run
GLANCES = 8  # the same of a group that polls: nothing it does brings it further
TURNS = 64  # turns of all threads, after which a wave without stores yields even if no thread is seen to poll
HOST_TURNS = 1 << 11  # turns in which all threads poll, after which only the host could end that
# looks in a row that find a loop of a part of a grid waiting for other CTAs, until it counts as held up
LOOKS_OUTSIDE = 3
TRIPS = 1024  # turns of loops from one look for a way out to the next
ENDS = ("exit", "ret", "trap")
QUIET = 20  # one in so many blocks of a launch's limit may be executed in loops without a store or an arrival
LEAST_QUIET = 1_000_000  # blocks that it may in any case
LOOK = 64  # blocks from one look at the clock to the next


class Stuck(Exception):
    """A wave that has executed as many blocks as its launch allows."""


class OutOfTime(Exception):
    """A launch that has run for as many seconds as it may."""


def run_wave(wave: Wave, *, gives_way: bool = False) -> bool:
    """Run a wave until all its threads have exited (True), or until it can only wait for another wave, or yields to it
    (False).

    With `gives_way`, other waves could write what this one polls. If it could go on, `wave.progress.gave_way` is set.
    If it cannot, `wave.progress.endless` says why. Errors of the hardware's rules (`SmemsimError`) get the wave's
    position: `wave.at` is the block, `wave.step` the instruction in it.
    """
    return _Run(wave, gives_way=gives_way).go()


class _Run:
    """A run of a wave from where it stopped."""

    def __init__(self, wave: Wave, *, gives_way: bool) -> None:
        self.wave, self.gives_way = wave, gives_way
        self.blocks, self.limit = wave.program.blocks, wave.launch.limit
        self.turns = self.loops = self.trips = 0
        self.look = 0  # after how many blocks the clock is looked at
        self.seen = self.since = wave.progress.changes
        # in the last turn, since the last change, since a group last gave way
        self.looked = self.polls = self.asked = wave.progress.polls
        self.idles = 0  # turns in a row in which all threads polled and nothing changed
        self.works = False  # does some thread do more than poll in this turn?
        self.endless, self.circle = ReadOnlyLoop(), StateCycle()
        self.outside = 0  # how often in a row the loop waited for what other CTAs write
        self.apart: Apart | None = None
        self.parts_at = self.limit // 2
        wave.progress.endless, wave.progress.gave_way, wave.progress.paused = "", False, False
        wave.progress.way_out = ""

    def go(self) -> bool:
        """Run the wave (`run_wave`)."""
        wave = self.wave
        while True:
            at, is_apart = wave.positions.lowest(), self.apart is not None and self.apart.left > 0
            if at >= YIELDED and not (at < GATHERING and is_apart):
                over = self._nobody_runs(at)
                if over is not None:
                    return over
                continue
            at, here = self._chosen(at, is_apart=is_apart)
            if at >= len(self.blocks):
                wave.sel = ALL if here is None else np.flatnonzero(here)
                wave.jump(EXITED)
                wave.launch.exited(wave, wave.threads)
                continue
            self._execute(at, here)
            if is_apart:
                if self.apart is not None and self.apart.left % GLANCES == 0:
                    self._completes()
            elif self._gives_way_behind(at, here):
                return False

    def _completes(self) -> bool:
        """Does something that is under way come now?"""
        return self.wave.in_flight is not None and bool(self.wave.in_flight.complete_one(self.wave))

    # ---- turns

    def _nobody_runs(self, at: int) -> bool | None:
        """All threads have exited, wait or have yielded: is the wave over (True), or stopped (False)? None where it
        goes on.
        """
        wave, key = self.wave, self.wave.pc
        if at >= EXITED:
            return None if self._completes() else True
        if self._completes() and not ((key >= YIELDED) & (key < GATHERING)).any():
            return None  # waiting threads may go on, or another operation completes
        yielded = (key >= YIELDED) & (key < GATHERING)
        if not yielded.any():
            return None if wave.positions.expire(wave.progress.changes) else False  # all threads wait
        if self.idles == HOST_TURNS and not self.gives_way:
            # that it waits with a limit on its time changes nothing: the host cannot come
            refuse_host(wave.launch, wave)
        key[yielded] -= YIELDED
        return None if self._begins_turn() else False

    def _begins_turn(self) -> bool:
        """Everybody has yielded: does a turn begin, or has nothing changed for too long?"""
        wave = self.wave
        self.turns += 1
        idle = wave.progress.polls != self.looked and not self.works
        self.looked, self.works = wave.progress.polls, False
        self.idles = self.idles + 1 if idle and wave.progress.changes == self.seen else 0
        wave.progress.endless = _no_way_out(wave)
        if wave.progress.changes != self.seen:
            self.seen, wave.progress.quiet, wave.progress.quiet_polls = wave.progress.changes, wave.progress.steps, wave.progress.polls
            wave.progress.rounds.forget()
        else:
            wave.progress.endless = wave.progress.endless or wave.progress.rounds.turn(wave, 0) or _quiet(wave)
            wave.progress.gave_way = not wave.progress.endless and self.gives_way and (idle or self.turns % TURNS == 0)
        if wave.progress.endless or wave.progress.gave_way:
            wave.pc[wave.pc < YIELDED] += YIELDED
            return False
        return True

    # ---- a block

    def _chosen(self, at: int, *, is_apart: bool) -> tuple[int, np.ndarray | None]:
        """The block that runs next, and the threads there (None: all): the lowest one, unless turns are drawn."""
        if self.apart is not None and is_apart:
            return self.apart.pick(self.wave)
        if self.wave.warp_scheduler is not None:
            found: tuple[int, np.ndarray] = self.wave.warp_scheduler.pick(self.wave)
            return found
        return at, None if self.wave.positions.together is not None else self.wave.pc == at

    def _execute(self, at: int, here: np.ndarray | None) -> None:
        """Execute a block. Raises Stuck and OutOfTime."""
        wave, block, progress = self.wave, self.blocks[at], self.wave.progress
        wave.sel = ALL if here is None or np.count_nonzero(here) == len(here) else np.flatnonzero(here)
        wave.at = at
        if wave.in_flight is not None:
            wave.in_flight.begins(wave, block)
        acted = ACTED_IN.peek(wave)  # there if lanes of some warps wait, or have waited, without others of theirs
        if acted is not None:
            acted.begins(wave, at)
        run_block(wave, block)
        steps = progress.steps = progress.steps + 1
        if steps >= self.look:
            self.look = steps + LOOK
            if wave.launch.is_over:
                raise OutOfTime
        if steps > self.limit:
            progress.endless = f"it reached its limit of {self.limit:,} blocks of instructions (--limit), and had not ended"
            progress.way_out = (
                f"a higher limit, such as --limit {10 * self.limit}; if the launch reaches that too, look for an endless loop here"
            )
            wave.pc[wave.pc < YIELDED] += YIELDED
            raise Stuck

    # ---- loops

    def _gives_way_behind(self, at: int, here: np.ndarray | None) -> bool:
        """Threads have executed a block: does the wave stop for others, or because it is in an endless loop?"""
        wave = self.wave
        if wave.warp_scheduler is None:
            after = wave.positions.lowest()
        else:
            after = int(wave.pc[here].min())
            if _lets_others(wave):
                return True
        return after <= at and self._loops_to(after)

    def _loops_to(self, after: int) -> bool:
        """Threads have jumped back to a block: does the wave stop?"""
        wave = self.wave
        self.loops += 1
        if wave.progress.changes != self.since:
            self.since = self.seen = wave.progress.changes
            self.loops, self.polls = min(self.loops, PATIENCE), wave.progress.polls
            wave.progress.quiet, wave.progress.quiet_polls = wave.progress.steps, wave.progress.polls
            self.endless.forget()
            wave.progress.rounds.forget()
        self.trips += 1
        if self.loops % GLANCES == 0 and self._completes():
            return False  # it may be what the loop looks for
        reason = self.endless.turn(wave, after) or ("" if self.gives_way else self.circle.turn(wave, after)) or _quiet(wave)
        if self.trips % TRIPS == 0:
            reason = reason or _no_way_out(wave) or self._waits_for_left_out(after)
        polled = wave.progress.polls != self.polls
        if self._parts(reason):
            reason = ""
        if self.loops % (GLANCES if polled else PATIENCE) and not reason:
            return False
        return self._yields(wave.pc == after, reason, polled=polled)

    def _waits_for_left_out(self, block: int) -> str:
        """Why threads that jump back to a block wait for CTAs of a launch of which a part runs, in words; empty while
        that is not seen.
        """
        if not self.wave.launch.left_out:
            return ""
        self.outside = self.outside + 1 if waits_outside(self.wave.program, block) else 0
        return "waits for what other CTAs write, and some were left out" if self.outside >= LOOKS_OUTSIDE else ""

    def _parts(self, reason: str) -> bool:
        """Do the threads of the loop run apart from now on, since they come back to one state for ever where they run
        in step, or run long?
        """
        wave, trips = self.wave, self.trips
        is_late = wave.progress.steps > self.parts_at
        is_long = wave.warp_scheduler is not None and trips >= TRIPS and trips & (trips - 1) == 0 and wave.program.looks
        is_circle = reason == self.circle.why
        before = None if not reason or (is_circle and self.circle.is_another()) else self.apart
        if not (is_circle or is_long or is_late) or not Apart.can_help(wave, before):
            return False
        self.apart = Apart(wave)
        self.parts_at += (self.limit - self.parts_at) // 2 * is_late
        self.circle.forget()
        return True

    def _yields(self, group: np.ndarray, reason: str, *, polled: bool) -> bool:
        """A group in a loop gives way to others of the wave, where there are any; else does the wave stop?"""
        wave, key = self.wave, self.wave.pc
        is_patient = self.loops < TURNS * PATIENCE
        needs_no_one = wave.progress.polls == self.asked and is_patient and not reason
        giving = _warps_of(group) if needs_no_one else group
        if ((key < GATHERING) & ~giving).any():
            key[giving & (key < YIELDED)] += YIELDED
            self.works |= not polled
            self.loops, self.polls, self.asked = 0, wave.progress.polls, wave.progress.polls
            return False
        if not reason and not (self.gives_way and (polled or not is_patient)):
            return False
        wave.progress.endless, wave.progress.gave_way = reason, not reason
        key[group] += YIELDED
        return True


def _lets_others(wave: Wave) -> bool:
    """With a schedule: does an operation complete now, and do other waves go on first?"""
    schedule = wave.warp_scheduler.schedule
    if wave.in_flight is not None and schedule.chance(schedule.completes):
        wave.in_flight.complete_one(wave)
    wave.progress.paused = wave.progress.may_pause and wave.warp_scheduler.pauses()
    if wave.progress.paused:
        wave.progress.gave_way = True
        wave.pc[wave.pc < YIELDED] += YIELDED
    return bool(wave.progress.paused)


def _no_way_out(wave: Wave) -> str:
    """Why the threads that could run never end, in words, where no branch leads out of the loops that they are in;
    empty where one does.
    """
    leading = _LEADING_OUT(wave)
    at = distinct(wave.pc[wave.pc < GATHERING])
    wave.progress.never_ends = not leading.intersection((at - np.where(at >= YIELDED, YIELDED, 0)).tolist())
    return "no branch leads out of the loop" if wave.progress.never_ends else ""


def _leading_out(x: Wave) -> set[int]:
    """The blocks from which threads can reach an end of the kernel, or a jump with an unknown target."""
    before: dict[int, list[int]] = {}
    open_ = []
    for n, block in enumerate(x.program.blocks):
        targets = following(x.program, n)
        if targets is None or any(i.op in ENDS for i in block.instructions):
            open_.append(n)
        for after in targets or ():
            before.setdefault(after, []).append(n)
    open_ += before.get(len(x.program.blocks), [])
    reached: set[int] = set()
    while open_:
        n = open_.pop()
        if n not in reached:
            reached.add(n)
            open_ += before.get(n, [])
    return reached


_LEADING_OUT: Slot[set[int]] = Slot(_leading_out)
_COMPUTE: Slot[dict[int, bool]] = Slot(lambda wave: {})  # by block: does it look at nothing?


def _warps_of(threads: np.ndarray) -> np.ndarray:
    """All threads of the warps of `threads`: the lanes after a loop without loads wait there for the lanes in it."""
    return np.repeat(threads.reshape(-1, WARP).any(axis=1), WARP)


def _only_computes(wave: Wave) -> bool:
    """Are all threads that could run in loops that look at nothing? These go on until the launch's limit: a long
    computation is no hang.
    """
    known = _COMPUTE(wave)
    at = np.unique(wave.pc[wave.pc < GATHERING])
    for n in (at - np.where(at >= YIELDED, YIELDED, 0)).tolist():
        if n not in known:
            known[n] = computes(wave.program, n)
        if not known[n]:
            return False
    return True


def _quiet(wave: Wave) -> str:
    most = max(LEAST_QUIET, wave.launch.limit // QUIET)
    if wave.progress.steps - wave.progress.quiet <= most or (wave.progress.polls == wave.progress.quiet_polls and _only_computes(wave)):
        return ""
    wave.progress.way_out = f"a higher limit, such as --limit {2 * QUIET * most}; if that does not help, look for an endless loop here"
    return f"{most:,} blocks of instructions ran in loops, and no thread stored anything or arrived at a barrier"
