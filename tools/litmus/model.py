"""What a test can do when its threads take turns, and which of these executions race by the PTX memory model (PTX ISA,
chapter 8).

Every access takes effect at once, in one order for all: executions that only a weaker memory shows are not here. Of
each execution the order that the model makes of it is built from the text: release and acquire patterns, observation
through atomics, fences, barriers. A race are two accesses of one location, one of them a write, that are not morally
strong and that causality does not order (8.7.1).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from tools.litmus.parse import ARITHMETIC, BRANCHES, Instruction, Litmus

__all__ = ["Event", "explore", "has_race", "trace"]

MOST_STATES = 200_000
WIDTHS = {"cta": 0, "cluster": 1, "gpu": 1, "sys": 2}  # all CTAs of a test may lie in one cluster
_MASK = (1 << 32) - 1

State = tuple[tuple[int, ...], tuple[tuple[tuple[str, int], ...], ...], tuple[tuple[str, int], ...], frozenset[tuple[object, int]]]


@dataclasses.dataclass(frozen=True, eq=False)
class Event:
    """Something that a thread has done: its place in the order, the write that it reads from, and of a barrier who met
    there.
    """

    index: int
    thread: int
    i: Instruction
    reads_from: int = -1
    wrote: bool = False
    met: tuple[int, ...] = ()


class Machine:
    """A test that runs: where its threads are, and what registers and memory hold."""

    def __init__(self, test: Litmus) -> None:
        self.test = test
        self.labels = [{i.label: n for n, i in enumerate(t.body) if i.op == "label"} for t in test.threads]
        self.pcs = [0] * len(test.threads)
        self.registers = [{k.split(":")[1]: v for k, v in test.registers.items() if k.split(":")[0] == t.name} for t in test.threads]
        self.memory = dict(test.memory)
        # of each barrier: who has arrived, and whether it waits
        self.arrived: dict[tuple[int, int], dict[int, bool]] = {}
        self.waiting: set[int] = set()
        for n in range(len(test.threads)):
            self._skip(n)

    def key(self) -> tuple[object, ...]:
        """All that decides what can happen next."""
        barriers = frozenset((key, frozenset(by.items())) for key, by in self.arrived.items())
        return tuple(self.pcs), tuple(tuple(sorted(r.items())) for r in self.registers), tuple(sorted(self.memory.items())), barriers

    def copy(self) -> Machine:
        """Another one in the same state."""
        other = Machine.__new__(Machine)
        other.test, other.labels = self.test, self.labels
        other.pcs, other.registers, other.memory = list(self.pcs), [dict(r) for r in self.registers], dict(self.memory)
        other.arrived, other.waiting = {key: dict(by) for key, by in self.arrived.items()}, set(self.waiting)
        return other

    def ready(self) -> list[int]:
        """The threads that can go on."""
        return [n for n, t in enumerate(self.test.threads) if n not in self.waiting and self.pcs[n] < len(t.body)]

    @property
    def is_over(self) -> bool:
        """Have all ended?"""
        return not self.waiting and not self.ready()

    def outcome(self) -> tuple[tuple[str, int], ...]:
        """What registers and memory hold."""
        named = {f"{t.name}:{r}": v for t, held in zip(self.test.threads, self.registers, strict=True) for r, v in held.items()}
        return tuple(sorted({**named, **self.memory}.items()))

    def value(self, n: int, what: int | str) -> int:
        """A number, or what a register holds."""
        return what if isinstance(what, int) else self.registers[n].get(what, 0)

    def barrier(self, n: int, i: Instruction) -> tuple[tuple[int, int], int]:
        """Which barrier an instruction is for, and for how many threads."""
        return barrier_of(self.test, n, i, self.value(n, i.values[1]) if len(i.values) > 1 else None)

    def step(self, n: int) -> tuple[Instruction, bool, tuple[int, ...]]:
        """Thread `n` executes its next instruction that others can see: (the instruction, did it write, who met at a
        barrier).
        """
        i = self.test.threads[n].body[self.pcs[n]]
        self.pcs[n] += 1
        wrote, met = False, ()
        if i.op == "bar":
            met = self._meet(n, i)
        elif i.op != "fence":
            wrote = self._access(n, i)
        self._skip(n)
        return i, wrote, met

    def _meet(self, n: int, i: Instruction) -> tuple[int, ...]:
        key, count = self.barrier(n, i)
        by = self.arrived.setdefault(key, {})
        by[n] = i.operation == "sync"
        if by[n]:
            self.waiting.add(n)
        if len(by) < count:
            return ()
        del self.arrived[key]
        self.waiting -= by.keys()
        return tuple(by)

    def _access(self, n: int, i: Instruction) -> bool:
        old = self.memory[i.location]
        new = old
        values = [self.value(n, v) for v in i.values]
        if i.op == "st" or i.operation == "exch":
            new = values[0]
        elif i.operation == "cas":
            new = values[1] if old == values[0] else old
        elif i.operation:
            new = {"add": old + values[0], "sub": old - values[0], "and": old & values[0], "or": old | values[0], "xor": old ^ values[0]}[
                i.operation
            ]
        self.memory[i.location] = new & _MASK if i.operation else new
        if i.to:
            self.registers[n][i.to] = old
        return i.op == "st" or (i.op != "ld" and (i.operation != "cas" or old == values[0]))

    def _skip(self, n: int) -> None:
        """Execute what nobody else can see."""
        body = self.test.threads[n].body
        for _ in range(1000):
            if self.pcs[n] >= len(body):
                return
            i = body[self.pcs[n]]
            if i.op == "goto":
                self.pcs[n] = self.labels[n][i.label]
            elif i.op in BRANCHES:
                a, b = (self.value(n, v) for v in i.values)
                taken = {"eq": a == b, "ne": a != b, "lt": a < b, "gt": a > b, "le": a <= b, "ge": a >= b}[BRANCHES[i.op]]
                self.pcs[n] = self.labels[n][i.label] if taken else self.pcs[n] + 1
            elif i.op in ("label", "mov", *ARITHMETIC):
                if i.op != "label":
                    self.registers[n][i.to] = _computed(i.op, [self.value(n, v) for v in i.values])
                self.pcs[n] += 1
            else:
                return
        raise ValueError("a loop without an access")


def _computed(op: str, values: list[int]) -> int:
    if op == "mov":
        return values[0]
    a, b = values
    return {"add": a + b, "sub": a - b, "mul": a * b, "div": a // b if b else 0}[op]


def barrier_of(test: Litmus, n: int, i: Instruction, number: int | None) -> tuple[tuple[int, int], int]:
    """(the CTA and the number of a barrier, the threads that it is for): as many as it says, else those of the CTA with
    a barrier of its instance and number.
    """
    cta, instance = test.threads[n].cta, int(i.values[0])
    which = instance if number is None else number
    if len(i.values) > 2:
        return (cta, which), int(i.values[2])
    using = 0
    for other in test.threads:
        same = [j for j in other.body if j.op == "bar" and j.values[0] == i.values[0] and _number(test, other.name, j) == number]
        using += other.cta == cta and bool(same)
    return (cta, which), using


def _number(test: Litmus, thread: str, i: Instruction) -> int | None:
    if len(i.values) < 2:
        return None
    return i.values[1] if isinstance(i.values[1], int) else test.registers.get(f"{thread}:{i.values[1]}", 0)


def explore(test: Litmus) -> tuple[set[tuple[tuple[str, int], ...]], bool]:
    """(all outcomes of turns, can every execution still come to its end from wherever it is?)."""
    first = Machine(test)
    numbers = {first.key(): 0}
    machines, before, over = [first], [[]], []  # type: ignore[var-annotated]
    outcomes = set()
    at = 0
    while at < len(machines):
        machine = machines[at]
        if machine.is_over:
            outcomes.add(machine.outcome())
            over.append(at)
        for n in machine.ready():
            following = machine.copy()
            following.step(n)
            key = following.key()
            if key not in numbers:
                if len(numbers) >= MOST_STATES:
                    raise ValueError("too many states")
                numbers[key] = len(machines)
                machines.append(following)
                before.append([])
            before[numbers[key]].append(at)
        at += 1
    ends, open_ = set(over), list(over)
    while open_:
        for earlier in before[open_.pop()]:
            if earlier not in ends:
                ends.add(earlier)
                open_.append(earlier)
    return outcomes, len(ends) == len(machines)


def trace(test: Litmus, draw: random.Random, most: int = 200) -> Iterator[Event]:
    """The events of one execution, in which a thread that can go on is drawn each time."""
    machine = Machine(test)
    writers: dict[str, int] = {}
    burst = draw.choice((0.1, 0.5, 0.9))
    n = -1
    for index in range(most):
        ready = machine.ready()
        if not ready:
            return
        if n not in ready or draw.random() > burst:
            n = draw.choice(ready)
        i, wrote, met = machine.step(n)
        yield Event(index, n, i, writers.get(i.location, -1) if i.reads else -1, wrote, met)
        if wrote:
            writers[i.location] = index


# ---- Order, by the text of the model


def _strong(i: Instruction) -> bool:
    return i.op == "fence" or (bool(i.location) and i.semantics != "weak")


def _morally_strong(test: Litmus, a: Event, b: Event) -> bool:
    """Both strong, with scopes that include each other, or of one thread; accesses of the same bytes (8.6)."""
    if a.i.location and b.i.location and a.i.location != b.i.location:
        return False
    if a.thread == b.thread:
        return True
    if not (_strong(a.i) and _strong(b.i)):
        return False
    apart = 0 if test.threads[a.thread].cta == test.threads[b.thread].cta else 1
    return WIDTHS[a.i.scope] >= apart <= WIDTHS[b.i.scope]


def _releases(i: Instruction) -> bool:
    return i.semantics in ("release", "acq_rel", "sc") and (i.writes or i.op == "fence")


def _acquires(i: Instruction) -> bool:
    return i.semantics in ("acquire", "acq_rel", "sc") and (i.reads or i.op == "fence")


def _heads(events: list[Event], write: Event) -> Iterator[Event]:
    """Where the release patterns begin that make a strong write one (8.8)."""
    for e in events[: write.index + 1]:
        at_location = e.wrote and e.i.location == write.i.location
        if e.thread == write.thread and _releases(e.i) and (e is write or at_location or e.i.op == "fence"):
            yield e


def _tails(events: list[Event], read: Event) -> Iterator[Event]:
    """Where the acquire patterns end that begin with a strong read."""
    for e in events[read.index :]:
        at_location = e.i.reads and e.i.location == read.i.location
        if e.thread == read.thread and _acquires(e.i) and (e is read or at_location or e.i.op == "fence"):
            yield e


def _observed(test: Litmus, events: list[Event], read: Event) -> Iterator[Event]:
    """The writes that a read has observed: the one that it reads from, and through atomics those before (8.9.2)."""
    at = read
    while at.reads_from >= 0 and _morally_strong(test, events[at.reads_from], at) and _strong(at.i):
        at = events[at.reads_from]
        yield at
        if at.i.op not in ("atom", "red"):
            return


def has_race(test: Litmus, events: list[Event]) -> bool:
    """Do two accesses of an execution race?"""
    after = [0] * len(events)  # of each event: the events that causality puts behind it, as bits
    edges: list[set[int]] = [set() for _ in events]
    last: dict[int, int] = {}
    for e in events:
        if e.thread in last:
            edges[last[e.thread]].add(e.index)
        last[e.thread] = e.index
    _add_synchronisation(test, events, edges)
    for index in reversed(range(len(events))):
        for n in edges[index]:
            after[index] |= 1 << n | after[n]
    ordered = list(after)
    for read in events:
        if read.i.reads:
            for write in _observed(test, events, read):
                ordered[write.index] |= 1 << read.index | after[read.index]
    for b in events:
        for a in events[: b.index]:
            conflict = a.thread != b.thread and a.i.location and a.i.location == b.i.location and (a.wrote or b.wrote)
            if conflict and not _morally_strong(test, a, b) and not ordered[a.index] >> b.index & 1:
                return True
    return False


def _add_synchronisation(test: Litmus, events: list[Event], edges: list[set[int]]) -> None:
    for e in events:
        if e.i.reads and _strong(e.i):
            for write in _observed(test, events, e):
                for head in _heads(events, write):
                    edges[head.index] |= {tail.index for tail in _tails(events, e) if _fits(test, head, tail)}
        if e.i.op == "fence" and e.i.semantics == "sc":
            earlier = (a for a in events[: e.index] if a.i.op == "fence" and a.i.semantics == "sc")
            for a in earlier:
                if _morally_strong(test, a, e):
                    edges[a.index].add(e.index)
        _add_barrier(events, edges, e)


def _add_barrier(events: list[Event], edges: list[set[int]], e: Event) -> None:
    """Those that arrived at a barrier, which `e` completes, come before whatever those that waited do next."""
    last = {n: [a for a in events[: e.index + 1] if a.thread == n and a.i.op == "bar"][-1] for n in e.met}
    for n, arrival in last.items():
        for other, waited in last.items():
            if other != n and waited.i.operation == "sync":
                edges[arrival.index] |= {next((b.index for b in events[e.index + 1 :] if b.thread == other), arrival.index)} - {
                    arrival.index
                }


def _fits(test: Litmus, head: Event, tail: Event) -> bool:
    """Are the ends of a release and an acquire pattern morally strong?"""
    return head.thread != tail.thread and _morally_strong(test, head, tail)
