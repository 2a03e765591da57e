"""The reports of a program's processes to `smemsim exec` or pytest: each launch when it starts and when it ends, and
code that is not simulated.

All of them append lines to one file in memory, the journal. No process is woken for a line, and a killed process
leaves its lines.

>>> journal = Journal()
>>> writer = Writer(journal.descriptor)
>>> writer.refuse("no PTX")
>>> journal.read().refused, journal.read().refused
(['no PTX'], [])
>>> from smemsim.virtual.policy import Launched
>>> for number in (1, 2):  # of the second one, the line has its number alone
...     writer.end(Launched(number, "add", "add", (4, 1, 1), (256, 1, 1), (1, 1, 1), 0))
>>> [(told["number"], told["name"]) for told in journal.read().launches]
[(1, 'add'), (2, 'add')]
>>> journal.close()
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from smemsim.virtual.policy import Launched

__all__ = ["SOCKET_ENDING", "Journal", "News", "RemoteWriter", "Teller", "Writer"]


SOCKET_ENDING = "-launches"  # of the socket that hands out the journal to processes which have a device themselves
BEGUN, ENDED, SINCE, AGAIN, REFUSED, WHO = "begun", "ended", "since", "again", "not_simulated", "who"
_PART = 1 << 20
_ENCODER = json.JSONEncoder(default=str)


class Teller(Protocol):
    """The messages of a device."""

    def begin(self, launched: Launched) -> None:
        """A launch begins."""

    def end(self, launched: Launched) -> None:
        """It is over."""

    def again(self, launched: Launched) -> None:
        """It was over, and has other findings now."""

    def refuse(self, why: str) -> None:
        """Code of the program is not simulated."""


def since(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any] | None:
    """The differences of a table to an older one, in nested tables, too; None if they have other keys. `upon` is the
    inverse.

    >>> since({"name": "add", "run": {"ok": True, "ctas": 4}}, {"name": "add", "run": {"ok": True, "ctas": 8}})
    {'run': {'ctas': 4}}
    """
    if new.keys() != old.keys():
        return None
    found = {}
    for key, value in new.items():
        before = old[key]
        if value is not before and value != before:
            both = isinstance(value, dict) and isinstance(before, dict)
            if (told := since(value, before) if both else value) is None and both:
                return None
            found[key] = told
    return found


def upon(old: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The table whose differences `since` has given.

    >>> old, new = {"name": "add", "run": {"ok": True, "ctas": 8}}, {"name": "add", "run": {"ok": True, "ctas": 4}}
    >>> upon(old, since(new, old)) == new, upon(old, since({**new, "run": None}, old))
    (True, {'name': 'add', 'run': None})
    """
    return {k: upon(v, told[k]) if isinstance(v, dict) and isinstance(told.get(k), dict) else told.get(k, v) for k, v in old.items()}


class Writer:
    """Tells of the launches of one process: of each of them, what is not as with the one before, since a line is longer
    than a small launch.
    """

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A fork is a new process without reports."""
        self.who = f"{os.getpid()} {time.time_ns()}"  # numbers of processes are used again
        self._last: dict[str, Any] = {}
        self._lock = threading.Lock()  # lines come in the order in which they were made
        self._asking = threading.Lock()

    def begin(self, launched: Launched) -> None:
        """Report that a launch starts."""
        self._write({BEGUN: f"{launched.number} {launched.name}"})

    def end(self, launched: Launched) -> None:
        """Report that a launch is over."""
        whole = launched.fields()
        with self._lock:
            told = since(whole, self._last)
            if self._write({ENDED: whole} if told is None else {SINCE: told}):
                self._last = whole

    def again(self, launched: Launched) -> None:
        """Report a launch again, in place of its first report."""
        self._write({AGAIN: launched.fields()})

    def refuse(self, why: str) -> None:
        """Report code that is not simulated."""
        self._write({REFUSED: why})

    def _write(self, said: dict[str, Any]) -> bool:
        if self.descriptor is not None:
            # the line of a process that was killed may have no end
            line = f"\n{_ENCODER.encode({WHO: self.who, **said})}\n".encode()
            with contextlib.suppress(OSError):
                return os.write(self.descriptor, line) == len(line)
        return False


class RemoteWriter(Writer):
    """... of a process that `smemsim exec` or pytest has not started itself, and of its
    forks: it asks for the journal.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._channel: socket.socket | None = None
        super().__init__(None)
        self.open()

    def open(self) -> None:
        """Tell that this process has a device. The channel stays open as long as the process is there."""
        with contextlib.suppress(OSError):
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            channel.connect(f"\0{self._name}{SOCKET_ENDING}")
            self._channel = channel

    def _forget(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self.descriptor is not None:
            os.close(self.descriptor)
        self._channel = self.descriptor = None
        super()._forget()

    def _write(self, said: dict[str, Any]) -> bool:
        with self._asking:  # the journal is handed out once
            if self.descriptor is None:
                if self._channel is None:
                    self.open()
                with contextlib.suppress(OSError, AttributeError, IndexError):
                    self.descriptor = socket.recv_fds(self._channel, 1, 1)[1][0]  # type: ignore[arg-type]  # AttributeError: there is no channel
        return super()._write(said)


@dataclasses.dataclass
class News:
    """The reports: launches that are over, and why code was not simulated."""

    launches: list[dict[str, Any]]
    refused: list[str]


class Journal:
    """The file in memory. `running` are launches that have started and are not over, by their process."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("smemsim-journal", os.MFD_CLOEXEC)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        self.descriptor = descriptor
        self.running: dict[str, str] = {}
        self._last: dict[str, dict[str, Any]] = {}  # launch of each that tells
        self._read, self._rest = 0, b""

    def close(self) -> None:
        """Nothing is read any more."""
        os.close(self.descriptor)

    def give(self, channel: socket.socket) -> None:
        """Hand the journal to another process."""
        with contextlib.suppress(OSError):
            socket.send_fds(channel, [b"\0"], [self.descriptor])

    def read(self) -> News:
        """The reports since the last read."""
        news = News([], [])
        places: dict[tuple[str, int], int] = {}  # of launches in the news, by their process and number
        while part := os.pread(self.descriptor, _PART, self._read):
            self._read += len(part)
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in filter(None, lines):
                with contextlib.suppress(ValueError):  # half a line, of a process that was killed
                    self._take(json.loads(line), news, places)
        return news

    def _take(self, said: dict[str, Any], news: News, places: dict[tuple[str, int], int]) -> None:
        who = said.pop(WHO)
        if BEGUN in said:
            self.running[who] = said[BEGUN]
        elif REFUSED in said:
            news.refused.append(said[REFUSED])
        elif AGAIN in said:
            place = places.get((who, said[AGAIN]["number"]))
            if place is None:  # the first report was read before
                news.launches.append(said[AGAIN])
            else:
                news.launches[place] = said[AGAIN]
        else:
            self.running.pop(who, None)
            self._last[who] = said[ENDED] if ENDED in said else upon(self._last[who], said[SINCE])
            places[who, self._last[who]["number"]] = len(news.launches)
            news.launches.append(self._last[who])
