"""What execution reports of a launch: one method of `Observer` for each kind of event, all with an empty body.

The sanitizer is an observer, and so is whatever counts, draws or records. Observers know nothing of each other, and execution knows nothing of them: a
wave has one in `Wave.observer`, several as one (`Observers`), or None. An event is reported where it happens; without an observer nothing is made of it.

Every event has the wave `x` and, but for those of a wave or a barrier as a whole, the instruction `i`, which knows its PTX and its line. Threads are numbers in the
wave: thread t is thread `x.tid[t]` of CTA `x.ctas[x.cta_of[t]]`, of warp t // 32 in the wave. Where an event names no threads, those that run do it: `x.threads`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from smemsim.core.ptx.module import Instruction
from smemsim.run.accesses import Piece, Values
from smemsim.run.scopes import GPU

if TYPE_CHECKING:
    from smemsim.run.views import Wave

__all__ = ["EVENTS", "Access", "Interest", "Observer", "Observers", "interest_of", "together"]


class Access(NamedTuple):
    """Bytes that threads access by one instruction: `size` of them from each place of `piece` on.

    `is_strong` are atomics and .relaxed, .acquire, .release and .volatile accesses, within `scope`. `is_joint` are those of matrices, which a warp makes for all its
    lanes. An atomic that left everything as it was `has_changed` nothing. `values` say what a store leaves, where an observer may ask for that.
    """

    wave: Wave
    instruction: Instruction
    kind: Literal["read", "write", "copy"]  # "copy": what cp.async writes
    piece: Piece
    size: int
    is_strong: bool = False
    scope: int = GPU
    is_joint: bool = False
    has_changed: bool = True
    values: Values | None = None

    @property
    def space(self) -> str:
        """ "global", "shared", "local" or "reserved" (of shared memory, below the kernel's own)."""
        return self.piece.space

    @property
    def threads(self) -> np.ndarray:
        """The threads that access, by their numbers in the wave."""
        running: np.ndarray = self.wave.threads
        return running if self.piece.part is None else running[self.piece.part]

    @property
    def ctas(self) -> np.ndarray:
        """The CTA's number in the grid of each."""
        of_threads: np.ndarray = self.wave.cta_of[self.threads]
        return np.asarray(self.wave.numbers[of_threads])

    @property
    def byte_count(self) -> int:
        """How many bytes they access together, a byte of two threads counted twice."""
        return len(self.piece.at) * self.size


class Interest(NamedTuple):
    """What an observer has to see one by one; what nobody asks for may happen as machine code, many instructions at once and without events."""

    accesses: bool = False  # each access of memory by a thread
    lanes: bool = False  # each time that lanes of a warp meet


class Observer:
    """Override what you want to hear of. Nothing of a launch may be changed by an observer, and nobody asks it anything."""

    # ---- waves

    def wave_began(self, x: Wave) -> None:
        """CTAs begin, which run together: `x.numbers` are theirs in the grid."""

    def wave_ended(self, x: Wave) -> None:
        """All threads of a wave have exited."""

    def wave_stopped(self, x: Wave) -> None:
        """The kernel ends before a wave does: by a trap, or since nothing goes on."""

    def wave_hung(self, x: Wave) -> None:
        """Nothing goes on: threads of a wave wait for what does not come. `wave_stopped` is not reported too."""

    def wave_freed(self, x: Wave) -> None:
        """Nobody asks for a wave any more; what is known of it may go."""

    # ---- accesses of threads

    def accessed(self, x: Wave, access: Access) -> None:
        """Threads read, or have written."""

    def updates(self, x: Wave, access: Access) -> None:
        """Threads are about to read and change something by an atomic operation; `accessed` follows, when they have."""


EVENTS = tuple(name for name, _ in inspect.getmembers(Observer, inspect.isfunction))
_ACCESSES = ("accessed", "updates")


class Observers(Observer):
    """Several observers as one: each event goes to all of them, in their order."""

    def __init__(self, members: Sequence[Observer]) -> None:
        self.members = tuple(members)


def _to_all(name: str) -> Callable[..., None]:
    def tell(self: Observers, *args: Any, **given: Any) -> None:
        for member in self.members:
            getattr(member, name)(*args, **given)

    return tell


for _name in EVENTS:
    setattr(Observers, _name, _to_all(_name))


def together(observers: Iterable[Any]) -> Any:
    """Observers as one; None where there is none."""
    members = tuple(observers)
    return None if not members else members[0] if len(members) == 1 else Observers(members)


def interest_of(observer: Observer) -> Interest:
    """What an observer has to see, by the events that it overrides."""
    overrides = {name for name in EVENTS if getattr(type(observer), name) is not getattr(Observer, name)}
    return Interest(accesses=not overrides.isdisjoint(_ACCESSES), lanes="lanes_met" in overrides)
