"""The mbarrier instructions (PTX ISA 9.1 §9.7.13.15)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.errors import InputError
from smemsim.program.barriers.mbarrier import Mbarrier, arrive, current, initialise, invalidate, mbarrier_of, parity_of, pending_of
from smemsim.program.linking.flow import is_read
from smemsim.program.memory.ordering import SCOPES
from smemsim.program.memory.spaces import Locate, locate, space_modifier
from smemsim.program.registers import Read, Write
from smemsim.program.registry import End, Gate, Step, implements, unmodelled
from smemsim.program.scopes import CLUSTER, level
from smemsim.program.traps import misuse
from smemsim.program.wave import YIELDED, Cta
from smemsim.ptx.module import Instruction, Sink
from smemsim.spec.barriers import MBARRIER_ARRIVALS, MBARRIER_BYTES

if TYPE_CHECKING:
    from smemsim.program.linking.program import Linker
    from smemsim.program.wave import Wave

__all__ = ["barriers"]


_SHARED = (None, "shared", "shared::cta", "shared::cluster")


def barriers(x: Wave, i: Instruction, find: Locate) -> Iterator[tuple[Cta, int, slice]]:
    """The mbarriers that running threads name: (CTA, offset, slice of the running threads), one entry for neighbouring threads that name one mbarrier."""
    pieces = find(x)
    piece = next((piece for piece in pieces if piece.space != "shared"), pieces[0])
    if piece.space != "shared":
        misuse(x, i, f"an address in {piece.space} memory: mbarriers lie in shared memory", "give the address of a shared variable")
    at = piece.at
    cuts = [0, *(np.flatnonzero(at[1:] != at[:-1]) + 1).tolist(), len(at)]
    for lo, hi in itertools.pairwise(cuts):
        index, offset = divmod(int(at[lo]), x.pitch)
        yield x.ctas[index], offset + x.window_begin, slice(lo, hi)


@implements("mbarrier")
def build_mbarrier(i: Instruction, c: Linker) -> Step:
    """The mbarrier instructions, told apart by the word behind `mbarrier`."""
    rest = list(i.modifiers)
    if not rest or rest.pop(0) not in _BUILDERS:
        raise unmodelled(i)
    step: Step = _BUILDERS[i.modifiers[0]](i, c, rest)
    return step


def _only(i: Instruction, rest: list[str], *words: str) -> str | None:
    """Take .b64, the space, semantics and scope off the modifiers; nothing may be left but `words`. Returns the space."""
    space = space_modifier(rest)
    left = [m for m in rest if m not in ("b64", *words, *SCOPES)]
    if left or space not in _SHARED or "b64" not in rest:
        raise unmodelled(i)
    return space


def _scope(rest: list[str]) -> int:
    """The scope that is written, .cluster where none is (rule order.default_scope)."""
    return next((level(m) for m in rest if m in SCOPES), CLUSTER)


def _init(i: Instruction, c: Linker, rest: list[str]) -> Step:
    find, count = locate(i, c, i.operands[0], _only(i, rest), 8, only_shared=True), c.read(i.operands[1], "u32")

    def init(x: Wave) -> None:
        counts, made = np.broadcast_to(count(x), (x.n,)), []
        for cta, offset, part in barriers(x, i, find):
            made.append((initialise(x, cta, offset, int(counts[part][-1]), i, x.threads[part]), int(x.threads[part][-1])))
        if x.watch is not None:
            x.watch.makes(i, made)
            (piece,) = find(x)
            x.watch.initialised(x, i, piece.at)

    return init


def _inval(i: Instruction, c: Linker, rest: list[str]) -> Step:
    find = locate(i, c, i.operands[0], _only(i, rest), 8, only_shared=True)

    def inval(x: Wave) -> None:
        for cta, offset, part in barriers(x, i, find):
            invalidate(x, cta, offset, i, x.threads[part])

    return inval


def _tx(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.expect_tx` and `mbarrier.complete_tx`."""
    find, size = locate(i, c, i.operands[0], _only(i, rest, "relaxed"), 8, only_shared=True), c.read(i.operands[1], "u32")
    expects = i.modifiers[0] == "expect_tx"

    def count(x: Wave) -> None:
        sizes = np.broadcast_to(size(x), (x.n,))
        for cta, offset, part in barriers(x, i, find):
            barrier = mbarrier_of(x, cta, offset, i)
            for bytes_ in sizes[part].tolist():
                _check_bytes(x, i, bytes_)
                (barrier.expect_tx if expects else barrier.complete_tx)(x, bytes_, i=i)

    return count


def _check_bytes(x: Wave, i: Instruction, size: int) -> None:
    if size > MBARRIER_BYTES:
        misuse(x, i, f"{size} bytes: a phase counts at most {MBARRIER_BYTES}", "split the transfer over several phases or barriers")


def _arrive(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.arrive` and `.arrive_drop`, with `.expect_tx` and `.noComplete`."""
    drops, expects, stays = i.modifiers[0] == "arrive_drop", "expect_tx" in rest, "noComplete" in rest
    relaxed, scope = "relaxed" in rest, _scope(rest)
    space = _only(i, rest, "expect_tx", "noComplete", "release", "relaxed")
    operands = list(i.operands)
    remote = space == "shared::cluster"
    token = None
    if len(operands) > 1 + (expects or stays):
        first = operands.pop(0)
        token = None if isinstance(first, Sink) else c.write(first, "b64")
    elif not remote and not expects and isinstance(operands[0], Sink):
        operands.pop(0)
    if not 1 <= len(operands) <= 2 or (remote and token is not None):
        raise InputError("takes a token (or _, as it must be for another CTA's barrier), an address and maybe a count")
    find = locate(i, c, operands[0], space, 8, only_shared=True)
    amount = c.read(operands[1], "u32") if len(operands) == 2 else None
    return _Arrive(i, find, amount, token, drops, expects, stays, relaxed, scope).run


@dataclasses.dataclass(frozen=True)
class _Arrive:
    """One mbarrier.arrive or .arrive_drop of a program; `amount` is its count, or with `expects` (.expect_tx) the bytes, `stays` is .noComplete."""

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
        amounts = None if self.amount is None else np.broadcast_to(self.amount(x), (x.n,)).tolist()
        counts = [1] * x.n if amounts is None or self.expects else amounts
        tokens = np.zeros(x.n, np.uint64)
        for each in self._named(x, is_uniform=len(set(counts)) == 1):
            begin, end = each[0][1].start, each[-1][1].stop
            is_alike = len(set(counts[begin:end])) == 1 and 1 <= counts[begin] <= MBARRIER_ARRIVALS
            if is_alike and not (self.drops or self.stays or (self.expects and end - begin > len(each))):
                self._together(x, each, counts[begin], amounts if self.expects else None, tokens)
                continue
            for barrier, part in each:
                for n in range(part.start, part.stop):
                    tokens[n] = barrier.word
                    self._one_thread(
                        x, barrier, x.threads[n : n + 1], counts[n], amounts[n] if self.expects and amounts is not None else None
                    )
        if self.token is not None:
            self.token(x, tokens)

    def _named(self, x: Wave, *, is_uniform: bool) -> list[list[tuple[Mbarrier, slice]]]:
        """The mbarriers that running threads name, with these: all together, where none comes twice and the counts are `is_uniform`."""
        each, threads = [], x.threads
        for cta, offset, part in barriers(x, self.i, self.find):
            barrier = mbarrier_of(x, cta, offset, self.i)
            if x.watch is not None:
                x.watch.uses(self.i, barrier, threads[part])
            each.append((barrier, part))
        return [each] if is_uniform and len({barrier for barrier, _ in each}) == len(each) else [[one] for one in each]

    def _together(self, x: Wave, each: list[tuple[Mbarrier, slice]], count: int, sizes: list[int] | None, tokens: np.ndarray) -> None:
        """Threads arrive `count` times at different mbarriers; where one thread does at each, it may expect bytes before (`sizes`, by the thread)."""
        threads = x.threads
        before = [barrier.word for barrier, _ in each]
        for barrier, part in each if sizes is not None else ():
            _check_bytes(x, self.i, sizes[part.start])  # type: ignore[index]
            barrier.expect_tx(x, sizes[part.start], i=self.i)  # type: ignore[index]
        arrivals = [(barrier, threads[part]) for barrier, part in each]
        found = arrive(x, arrivals, count, i=self.i, relaxed=self.relaxed, scope=self.scope)
        for (_, part), own, word in zip(each, found, before, strict=True):
            tokens[part] = own if sizes is None else word

    def _one_thread(self, x: Wave, barrier: Mbarrier, thread: np.ndarray, count: int, size: int | None) -> None:
        """Arrive `count` times for one thread, which expects `size` bytes before."""
        if size is not None:
            _check_bytes(x, self.i, size)
            barrier.expect_tx(x, size, i=self.i)
        if not 1 <= count <= MBARRIER_ARRIVALS:
            misuse(x, self.i, f"a count of {count}: needs 1 to {MBARRIER_ARRIVALS}", "correct the count")
        phase = barrier.phase
        if self.drops:
            barrier.drop(x, count, self.i)
        arrive(x, [(barrier, thread)], count, i=self.i, relaxed=self.relaxed, scope=self.scope)
        if self.stays and barrier.phase != phase:
            message = f"completes the phase of the mbarrier at {barrier.offset:#x}, which .noComplete rules out"
            misuse(x, self.i, message, "arrive without .noComplete")


def _wait(i: Instruction, c: Linker, rest: list[str]) -> Step:
    """`mbarrier.try_wait`, which waits for a limited time, and `.test_wait`, which answers at once."""
    tries, by_parity = i.modifiers[0] == "try_wait", "parity" in rest
    relaxed, scope, is_seen = "relaxed" in rest, _scope(rest), is_read(i, c.inlined.body)
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

    def test(self, x: Wave, following: int) -> None:
        """test_wait: write the answer; threads that got False let others run before they go on."""
        done, _ = self._over(x)
        x.polls += not done.all()
        self.write(x, done)
        x.key[x.sel] = np.where(done, following, following + YIELDED)

    def opens(self, x: Wave) -> bool:
        """try_wait: park the threads whose phase is not complete, select the others. Are there any others?"""
        done, waiting = self._over(x)
        given_up = x.state.get(self)
        if given_up is not None and given_up[x.sel].any():
            # Their time is over: they go on and get False.
            threads = x.threads
            waiting = [(b, t[~given_up[t]]) for b, t in waiting]
            done = done | given_up[threads]
        if x.turns is not None and waiting and x.turns.schedule.chance(x.turns.schedule.gives_up):
            # It may give up at once; others go on before it asks again.
            for _, threads in waiting:
                self._give_up(x, threads)
                done[np.isin(x.threads, threads)] = True
            x.polls += 1
            waiting = []
        for barrier, threads in waiting:
            if len(threads):
                barrier.park(x, threads, self.i, lambda b=barrier, t=threads: self._give_up(x, t, b))  # type: ignore[misc]
        if not done.all():
            x.select(x.threads[done])
        return bool(done.any())

    def go_on(self, x: Wave) -> None:
        """try_wait: write the answer for the threads that go on, False for those whose time is over."""
        given_up = x.state.get(self)
        if given_up is None or not given_up[x.sel].any():
            self.write(x, np.bool_(True))
            return
        done, _ = self._over(x)
        self.write(x, done)
        given_up[x.sel] = False

    def _over(self, x: Wave) -> tuple[np.ndarray, list[tuple[Mbarrier, np.ndarray]]]:
        """Which running threads find their phase complete, and the barriers of the other threads with those threads' numbers."""
        parities = np.broadcast_to(np.asarray(self.phase(x)), (x.n,))
        parities = (parities & np.uint32(1) if self.by_parity else parity_of(parities)).astype(np.int32)
        done, threads, tids = np.zeros(x.n, bool), x.threads, x.tid[x.sel]
        waiting, passed = [], []
        for cta, offset, part in barriers(x, self.i, self.find):
            barrier = mbarrier_of(x, cta, offset, self.i)
            here = threads[part]
            if x.watch is not None:
                x.watch.uses(self.i, barrier, here)
            its = done[part]
            count = barrier.passes(self.i, tids[part], parities[part], its)
            if count:
                passed.append((here if count == len(here) else here[its], barrier))
            if count < len(here):
                barrier.asked = barrier.phase
                waiting.append((barrier, here[~its]))
        if x.watch is not None and passed:
            x.watch.waited(self.i, passed)
            if self.is_seen:
                x.watch.acquire_at(current(x), passed, relaxed=self.relaxed, scope=self.scope, by_parity=self.by_parity)
        return done, waiting

    def _give_up(self, x: Wave, threads: np.ndarray, barrier: Mbarrier | None = None) -> None:
        """Let waiting threads go on with False: their time is over. Or with True, where other lanes of their warp have passed the phase of a `barrier`."""
        if barrier is not None:
            threads = threads[~barrier.misses(x.tid[threads])]
        given_up = x.state.get(self)
        if given_up is None:
            given_up = x.state[self] = np.zeros(x.total, bool)
        given_up[threads] = True


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
