"""The mbarrier instructions (PTX ISA 9.1 §9.7.13.15)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.base.masks import all_set, any_set
from smemsim.core.ptx.module import Instruction, Sink
from smemsim.core.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES
from smemsim.run.engine.traps import find_misuse, miscount, misuse
from smemsim.run.engine.wave import ALL, YIELDED, Cta
from smemsim.run.isa.barriers.hang_causes import park
from smemsim.run.isa.barriers.mbarrier import (
    Mbarrier,
    State,
    arrive,
    mbarrier_of,
    parity_of,
    pending_of,
    state_of_all,
    with_threads,
)
from smemsim.run.isa.barriers.mbarrier_lifetime import initialise, invalidate
from smemsim.run.isa.memory.ordering import SCOPES
from smemsim.run.isa.memory.spaces import Locate, locate, space_modifier
from smemsim.run.isa.registers import Read, Write
from smemsim.run.isa.registry import End, Gate, Step, implements, unmodelled
from smemsim.run.lower.cfg import is_read
from smemsim.run.scopes import CLUSTER, UNWRITTEN, level
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["barriers"]


_SHARED = (None, "shared", "shared::cta", "shared::cluster")


def barriers(x: Wave, i: Instruction, find: Locate) -> Iterator[tuple[Cta, int, slice]]:
    """The mbarriers that running threads name: (CTA, offset, slice of the running threads), one entry for
    neighbouring threads that name one mbarrier.
    """
    at = _places(x, i, find)
    for lo, hi in _runs(at):
        index, offset = divmod(int(at[lo]), x.pitch)
        yield x.ctas[index], offset + x.window_begin, slice(lo, hi)


def _places(x: Wave, i: Instruction, find: Locate) -> np.ndarray:
    pieces = find(x)
    piece = next((piece for piece in pieces if piece.space != "shared"), pieces[0])
    if piece.space != "shared":
        misuse(x, i, f"an address in {piece.space} memory: mbarriers lie in shared memory", "give the address of a shared variable")
    return piece.at


def _runs(at: np.ndarray) -> Iterator[tuple[int, int]]:
    """From where to where neighbours are equal."""
    if len(at) == 1:
        return iter([(0, 1)])
    return itertools.pairwise([0, *(np.flatnonzero(at[1:] != at[:-1]) + 1).tolist(), len(at)])


def _alike(x: Wave, at: np.ndarray, *values: np.ndarray) -> list[tuple[int, slice]] | None:
    """The offsets of mbarriers that running threads of the first CTA name, where those of the others do the same: of
    each its threads, the first of those that run. None where others do something else, or have other `values`: those
    of each thread, or one of all.
    """
    cohort = x.cohort
    own = None if cohort is None or not cohort.is_apart else cohort.own_places(at)
    if cohort is None or own is None or not all(cohort.are_same(each) for each in values if each.ndim):
        return None
    if x.sel is not ALL and cohort.own_threads(x.threads) is None:
        return None
    return [(int(own[lo]) + x.window_begin, slice(lo, hi)) for lo, hi in _runs(own)]


@dataclasses.dataclass(frozen=True)
class _Named:
    """The mbarriers that running threads name, each with its slice of the threads. If all CTAs do the same, one state
    stands for the mbarriers of all, with the threads of the first CTA.
    """

    each: list[tuple[State, slice]]
    ctas: int  # for which the slices stand

    def threads(self, x: Wave) -> list[tuple[State, np.ndarray]]:
        """With the threads of the wave."""
        threads = x.threads
        return [(state, threads[part]) for state, part in self.each]

    def of_all(self, own: np.ndarray) -> np.ndarray:
        """The values of threads, from the values of those for which the slices stand."""
        return own if self.ctas == 1 else np.broadcast_to(own, (self.ctas, len(own))).reshape(-1)


def _named(x: Wave, i: Instruction, find: Locate, *values: np.ndarray) -> _Named:
    """The mbarriers that running threads name; the race detector gets the uses. Where `values` of threads differ,
    each by itself.
    """
    at, used = _places(x, i, find), x.events.mbarriers_used
    alike = _alike(x, at, *values)
    states = [(state_of_all(x, offset), part) for offset, part in alike or ()]
    of_all = [(state, part) for state, part in states if state is not None]
    if of_all and len(of_all) == len(states):
        named = _Named(of_all, len(x.ctas))
        if used:
            used(x, i, with_threads(named.threads(x)))
        return named
    each = []
    for lo, hi in _runs(at):
        n, offset = divmod(int(at[lo]), x.pitch)
        each.append((mbarrier_of(x, x.ctas[n], offset + x.window_begin, i), slice(lo, hi)))
    if used:
        used(x, i, [(x.threads[part], barrier) for barrier, part in each])
    return _Named([(barrier.alone(), part) for barrier, part in each], 1)


@implements("mbarrier")
def build_mbarrier(i: Instruction, c: Linker) -> Step:
    """The mbarrier instructions, by the word after `mbarrier`."""
    rest = list(i.modifiers)
    if not rest or rest.pop(0) not in _BUILDERS:
        raise unmodelled(i)
    step: Step = _BUILDERS[i.modifiers[0]](i, c, rest)
    return step


def _only(i: Instruction, rest: list[str], *words: str) -> str | None:
    """Take .b64, the space, semantics and scope off the modifiers; nothing may be left but `words`.
    Returns the space.
    """
    space = space_modifier(rest)
    left = [m for m in rest if m not in ("b64", *words, *SCOPES)]
    if left or space not in _SHARED or "b64" not in rest:
        raise unmodelled(i)
    return space


def _scope(rest: list[str], unwritten: int = CLUSTER) -> int:
    """The scope that is written, or what counts where none is (rule order.default_scope)."""
    return next((level(m) for m in rest if m in SCOPES), unwritten)


def _init(i: Instruction, c: Linker, rest: list[str]) -> Step:
    find, count = locate(i, c, i.operands[0], _only(i, rest), 8, only_shared=True), c.read(i.operands[1], "u32")

    def init(x: Wave) -> None:
        given, at = np.asarray(count(x)), _places(x, i, find)
        counts = np.broadcast_to(given, (x.n,))
        made: list[tuple[State, np.ndarray]] = []
        alike = _alike(x, at, given)
        if alike is not None and len({offset for offset, _ in alike}) == len(alike):
            for offset, part in alike:
                made.append((initialise(x, x.ctas[:], offset, int(counts[part][-1]), i, x.threads[part]), x.threads[part]))
        else:
            for cta, offset, part in barriers(x, i, find):
                made.append((initialise(x, [cta], offset, int(counts[part][-1]), i, x.threads[part]), x.threads[part]))
        if x.events.mbarriers_initialised:
            x.events.mbarriers_initialised(x, i, with_threads(made), at)

    return init


def _inval(i: Instruction, c: Linker, rest: list[str]) -> Step:
    find = locate(i, c, i.operands[0], _only(i, rest), 8, only_shared=True)

    def inval(x: Wave) -> None:
        alike = _alike(x, _places(x, i, find))
        if alike is not None:
            for offset, part in alike:
                invalidate(x, x.ctas[:], offset, i, x.threads[part])
        else:
            for cta, offset, part in barriers(x, i, find):
                invalidate(x, [cta], offset, i, x.threads[part])

    return inval


def _tx(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.expect_tx` and `mbarrier.complete_tx`: relaxed, so that a fence before them releases."""
    scope = _scope(rest)
    find, size = locate(i, c, i.operands[0], _only(i, rest, "relaxed"), 8, only_shared=True), c.read(i.operands[1], "u32")
    expects = i.modifiers[0] == "expect_tx"

    def count(x: Wave) -> None:
        given = np.asarray(size(x))
        sizes = np.broadcast_to(given, (x.n,))
        for state, part in _named(x, i, find, given).each:
            if x.events.bytes_changed:
                x.events.bytes_changed(x, i, with_threads([(state, x.threads[part])]), scope=scope)
            for bytes_ in sizes[part].tolist():
                _check_bytes(x, i, bytes_)
                (state.expect_tx if expects else state.complete_tx)(x, bytes_, i=i)

    return count


def _check_bytes(x: Wave, i: Instruction, size: int) -> None:
    if size > MBARRIER_BYTES:
        miscount(x, i, f"{size} bytes: a phase counts at most {MBARRIER_BYTES}", "split the transfer over several phases or barriers")


def _arrive(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.arrive` and `.arrive_drop`, with `.expect_tx` and `.noComplete`."""
    drops, expects, stays = i.modifiers[0] == "arrive_drop", "expect_tx" in rest, "noComplete" in rest
    relaxed, scope = "relaxed" in rest, _scope(rest, UNWRITTEN)
    space = _only(i, rest, "expect_tx", "noComplete", "release", "relaxed")
    operands = list(i.operands)
    first = operands.pop(0)
    token = None if isinstance(first, Sink) else c.write(first, "b64")
    if not 1 <= len(operands) <= 2 or (space == "shared::cluster" and token is not None):
        raise InputError("takes a token (or _, as it must be for another CTA's barrier), an address and maybe a count")
    if stays and (expects or space == "shared::cluster"):
        raise InputError(f".noComplete does not go with .{'expect_tx' if expects else space}; ptxas refuses it")
    if stays and len(operands) != 2:
        raise InputError("takes a count after the address: .noComplete has no default")
    if expects and len(operands) != 2:
        raise InputError("takes the bytes that it expects after the address: .expect_tx has no default")
    find = locate(i, c, operands[0], space, 8, only_shared=True)
    amount = c.read(operands[1], "u32") if len(operands) == 2 else None
    return _Arrive(i, find, amount, token, drops, expects, stays, relaxed, scope).run


@dataclasses.dataclass(frozen=True)
class _Arrive:
    """One mbarrier.arrive or .arrive_drop of a program; `amount` is its count, or with `expects` (.expect_tx) the
    bytes, `stays` is .noComplete.
    """

    i: Instruction
    find: Locate
    amount: Read | None
    token: Write | None
    drops: bool
    expects: bool
    stays: bool
    relaxed: bool
    scope: int

    def run(self, x: Wave) -> None:
        given = np.asarray(1 if self.amount is None else self.amount(x))
        named = _named(x, self.i, self.find, given)
        own = x.n // named.ctas
        amounts, tokens = np.broadcast_to(given, (x.n,)), np.zeros(own, np.uint64)
        sizes = amounts[:own].tolist() if self.expects else None
        counts = [1] * own if self.expects else amounts[:own].tolist()
        for each in self._apart(named.each, is_uniform=len(set(counts)) == 1):
            begin, end = each[0][1].start, each[-1][1].stop
            is_alike = len(set(counts[begin:end])) == 1 and 1 <= counts[begin] <= MBARRIER_ARRIVALS
            if is_alike and not (self.drops or self.stays or (self.expects and end - begin > len(each))):
                self._together(x, each, counts[begin], sizes, tokens)
                continue
            for state, part in each:
                for n in range(part.start, part.stop):
                    tokens[n] = state.word
                    self._one_thread(x, state, x.threads[n : n + 1], counts[n], None if sizes is None else sizes[n])
        if self.token is not None:
            self.token(x, named.of_all(tokens))

    @staticmethod
    def _apart(each: list[tuple[State, slice]], *, is_uniform: bool) -> list[list[tuple[State, slice]]]:
        """All together, where none comes twice and the counts are `is_uniform`; else one by one."""
        return [each] if is_uniform and len({state for state, _ in each}) == len(each) else [[one] for one in each]

    def _together(self, x: Wave, each: list[tuple[State, slice]], count: int, sizes: list[int] | None, tokens: np.ndarray) -> None:
        """Threads arrive `count` times at different mbarriers; a single thread at each may expect bytes before
        (`sizes`, by the thread).
        """
        threads = x.threads
        before = [state.word for state, _ in each]
        for state, part in each if sizes is not None else ():
            _check_bytes(x, self.i, sizes[part.start])  # type: ignore[index]
            state.expect_tx(x, sizes[part.start], i=self.i)  # type: ignore[index]
        arrivals = [(state, threads[part]) for state, part in each]
        found = arrive(x, arrivals, count, i=self.i, relaxed=self.relaxed, scope=self.scope)
        for (_, part), own, word in zip(each, found, before, strict=True):
            tokens[part] = own if sizes is None else word

    def _one_thread(self, x: Wave, state: State, thread: np.ndarray, count: int, size: int | None) -> None:
        """Arrive `count` times for one thread, which expects `size` bytes before."""
        if size is not None:
            _check_bytes(x, self.i, size)
            state.expect_tx(x, size, i=self.i)
        if not 1 <= count <= MBARRIER_ARRIVALS:
            (miscount if count else find_misuse)(x, self.i, f"a count of {count}: needs 1 to {MBARRIER_ARRIVALS}", "correct the count")
            if not count:  # measured on an H200: nothing arrives
                return
        phase = state.phase
        if self.drops:
            state.drop(x, count, self.i)
        arrive(x, [(state, thread)], count, i=self.i, relaxed=self.relaxed, scope=self.scope)
        if self.stays and state.phase != phase:
            message = f"completes the phase of the mbarrier at {state.members[0].offset:#x}, which .noComplete rules out"
            find_misuse(x, self.i, message, "arrive without .noComplete")  # measured on an H200: the phase completes


def _wait(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.try_wait`, which waits for a limited time, and `.test_wait`, which answers at once."""
    tries, by_parity = i.modifiers[0] == "try_wait", "parity" in rest
    relaxed, scope, is_seen = "relaxed" in rest, _scope(rest), is_read(i, c.inlined)
    space = _only(i, rest, "parity", "acquire", "relaxed")
    if len(i.operands) not in (3, 3 + tries):
        raise InputError("takes a predicate, an address, a phase" + (" and maybe a time limit" if tries else ""))
    write = c.write(i.operands[0], "pred")
    find, phase = locate(i, c, i.operands[1], space, 8, only_shared=True), c.read(i.operands[2], "u32" if by_parity else "b64")
    wait = _Wait(i, find, phase, write, by_parity, relaxed, scope, is_seen)
    return Gate(wait.opens, wait.go_on) if tries else End(wait.test)


@dataclasses.dataclass(frozen=True, eq=False)
class _Wait:
    """One mbarrier.try_wait or .test_wait of a program; `is_seen`: something depends on its predicate."""

    i: Instruction
    find: Locate
    phase: Read
    write: Write
    by_parity: bool
    relaxed: bool
    scope: int
    is_seen: bool
    given_up: Slot[np.ndarray] = dataclasses.field(
        default_factory=lambda: Slot(lambda x: np.zeros(x.total, bool))
    )  # the threads whose time is over

    def test(self, x: Wave, following: int) -> None:
        """test_wait: write the answer; threads that got False let others run before they go on."""
        done, _ = self._over(x)
        x.progress.polls += not done.all()
        self.write(x, done)
        x.pc[x.sel] = np.where(done, following, following + YIELDED)

    def opens(self, x: Wave) -> bool:
        """try_wait: park the threads whose phase is not complete, select the others. Are there any others?"""
        done, waiting = self._over(x)
        given_up = self.given_up.peek(x)
        if given_up is not None and given_up[x.sel].any():
            # Their time is over: they go on and get False.
            threads = x.threads
            waiting = [(b, t[~given_up[t]]) for b, t in waiting]
            done = done | given_up[threads]
        if x.warp_scheduler is not None and waiting and x.warp_scheduler.schedule.chance(x.warp_scheduler.schedule.gives_up):
            # It may give up at once; others go on before it asks again.
            for _, threads in waiting:
                self._give_up(x, threads)
                done[np.isin(x.threads, threads)] = True
            x.progress.polls += 1
            waiting = []
        for barrier, threads in waiting:
            if len(threads):
                park(barrier, x, threads, self.i, lambda b=barrier, t=threads: self._give_up(x, t, b))  # type: ignore[misc]
                if x.events.mbarrier_blocked:
                    x.events.mbarrier_blocked(x, self.i, barrier, threads)
        if not all_set(done):
            x.select(x.threads[done])
        return any_set(done)

    def go_on(self, x: Wave) -> None:
        """try_wait: write the answer for the threads that go on, False for those whose time is over."""
        given_up = self.given_up.peek(x)
        if given_up is None or not given_up[x.sel].any():
            self.write(x, np.bool_(True))
            return
        done, _ = self._over(x)
        self.write(x, done)
        given_up[x.sel] = False

    def _over(self, x: Wave) -> tuple[np.ndarray, list[tuple[Mbarrier, np.ndarray]]]:
        """Which running threads find their phase complete, and the barriers of the other threads with those threads'
        numbers.
        """
        phase = np.asarray(self.phase(x))
        given = np.asarray(phase & np.uint32(1) if self.by_parity else parity_of(phase), np.int32)
        named, parities, tids = _named(x, self.i, self.find, given), np.broadcast_to(given, (x.n,)), x.tid[x.sel]
        done = np.zeros(x.n // named.ctas, bool)
        waiting: list[tuple[State, np.ndarray]] = []
        passed: list[tuple[State, np.ndarray]] = []
        for (state, part), (_, here) in zip(named.each, named.threads(x), strict=True):
            its = done[part]
            count = state.passed.passes(self.i, state.phase, tids[part], parities[part], its)
            if count:
                passed.append((state, here if count == len(here) else here[its]))
            if count < len(here):
                state.passed.asked = state.phase
                waiting.append((state, here[~its]))
        if passed and x.events.mbarriers_passed:
            how: dict[str, Any] = {"relaxed": self.relaxed, "scope": self.scope, "by_parity": self.by_parity, "is_seen": self.is_seen}
            x.events.mbarriers_passed(x, self.i, with_threads(passed), **how)
        return named.of_all(done), [(barrier, threads) for threads, barrier in with_threads(waiting)]

    def _give_up(self, x: Wave, threads: np.ndarray, barrier: Mbarrier | None = None) -> None:
        """Let waiting threads go on with False: their time is over. Or with True, where other lanes of their warp
        have passed the phase of a `barrier`.
        """
        if barrier is not None:
            state = barrier.alone()
            threads = threads[~state.passed.misses(state.phase, x.tid[threads])]
        self.given_up(x)[threads] = True


def _pending_count(i: Instruction, c: Linker, rest: list[str]) -> Step:
    if rest != ["b64"]:
        raise unmodelled(i)
    write, read = c.write(i.operands[0], "u32"), c.read(i.operands[1], "b64")
    return lambda x: write(x, pending_of(read(x)).astype(np.uint32))


_BUILDERS: dict[str, Any] = {
    "init": _init,
    "inval": _inval,
    "expect_tx": _tx,
    "complete_tx": _tx,
    "arrive": _arrive,
    "arrive_drop": _arrive,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": _pending_count,
}
