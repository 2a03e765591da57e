"""The process that has the device for a program in another process. It answers the calls that `clib/` sends over a
socket.

Memory is shared: `memory.DeviceMemory`. This module has no semantics: `calls` translates a call, and
`device.VirtualDevice` executes it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from smemsim.base.errors import InputError, SmemsimError
from smemsim.run.procs.forks import CONNECTION
from smemsim.virtual.calls.table import OUT_OF_MEMORY, Calls
from smemsim.virtual.calls.wire import LENGTH, parsed, replied
from smemsim.virtual.device import VirtualDevice
from smemsim.virtual.host import Host
from smemsim.virtual.memory import DEVICE_BASE, HOST_BASE, PLACES, RANGE_BYTES, DeviceMemory
from smemsim.virtual.policy import Policy
from smemsim.virtual.telling import Teller

__all__ = ["Session", "serve"]


COPY, CALL, WRITE, CALL_BACK = 1, 2, 3, 4
ROOM = 1 << 16  # bytes of most messages at most


class RemoteHost(Host):
    """The program's process: it is asked to do what only it can do, with the next answer, or before anything that
    depends on it.
    """

    shares_memory = False

    def __init__(self, flush: Callable[[], None]) -> None:
        self.waiting: list[bytes] = []
        self._flush = flush

    def _ask(self, kind: int, a: int = 0, b: int = 0, c: int = 0, data: bytes = b"") -> None:
        self.waiting.append(struct.pack("<BQQQ", kind, a, b, c) + data)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy between host and device memory in the program's process."""
        self._ask(COPY, to, source, size)

    def call(self, function: int, data: int) -> None:
        """Call a function of the program in its process."""
        self._ask(CALL, function, data)

    def call_back(self, function: int, stream: int, data: int) -> None:
        """Call a stream's callback: `void (*)(stream, error, void *)`."""
        self._ask(CALL_BACK, function, stream, data)

    def write(self, text: str, *, is_error: bool = False) -> None:
        """Write text to a stream of the program's process."""
        raw = text.encode("utf-8", "surrogateescape")
        self._ask(WRITE, len(raw), int(is_error), data=raw)

    def materialize(self) -> None:
        """Bring pending memory of the program's process up to date."""
        if self.waiting:
            self._flush()


class Session(Calls):
    """The calls of one program in another process, over a socket."""

    def __init__(self, channel: socket.socket, arch: str, policy: Policy, **card: Any) -> None:
        super().__init__()
        self.channel = channel
        self.host: RemoteHost = RemoteHost(self._flush)
        self.device = VirtualDevice(arch, policy=policy, host=self.host, memory=_memory(channel), **card)

    def run(self) -> None:
        """Answer calls until the program ends."""
        while (message := self._receive()) is not None:
            error, results = self.answer(*parsed(message))
            actions, self.host.waiting = self.host.waiting, []
            self._send(True, error, actions, results)

    def _send(self, is_last: bool, error: int, actions: list[bytes], results: tuple[Any, ...]) -> None:
        reply = replied(is_last, error, actions, results, is_settled=is_last and self.device.is_settled)
        self.channel.sendall(LENGTH.pack(len(reply)) + reply)

    def _flush(self) -> None:
        actions, self.host.waiting = self.host.waiting, []
        self._send(False, 0, actions, ())
        if self._receive() is None:
            raise KeyboardInterrupt

    def _receive(self) -> bytes | None:
        """A message without its length; None when the program has ended. The next message
        comes only after the answer.
        """
        try:
            raw = self.channel.recv(ROOM)
            while len(raw) < LENGTH.size or len(raw) < LENGTH.size + LENGTH.unpack_from(raw)[0]:
                missing = LENGTH.size + LENGTH.unpack_from(raw)[0] - len(raw) if len(raw) >= LENGTH.size else ROOM
                part = self.channel.recv(missing, socket.MSG_WAITALL) if raw else b""
                if not part:
                    return None
                raw += part
        except ConnectionError:
            return None
        return raw[LENGTH.size :]


def _memory(channel: socket.socket) -> DeviceMemory:
    """Memory at the first addresses that are free in the program, which it says. Raises OSError if the program has
    ended.
    """
    channel.sendall(struct.pack("<4Q", DEVICE_BASE, HOST_BASE, RANGE_BYTES, PLACES))
    chosen = channel.recv(16, socket.MSG_WAITALL)
    if len(chosen) < 16:
        raise ConnectionError
    device, host = struct.unpack("<QQ", chosen)
    memory = DeviceMemory((device, host))
    socket.send_fds(channel, [b"\0"], [memory.descriptor])
    return memory


# ---- A session's process


def serve(channel: socket.socket, teller: Teller, arch: str, policy: Policy, card: dict[str, Any], label: str = "") -> None:
    """Serve one program until it ends, report its launches, and end this process: it is a fork of the listening one."""

    def watch() -> None:
        poll = select.poll()
        poll.register(channel, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        poll.poll()
        os._exit(0)

    def interrupt(number: int, frame: Any) -> None:
        if session is not None and session.is_running:
            raise KeyboardInterrupt

    session: Session | None = None
    status = 1  # 0: the program has ended
    # messages of workers of an ended launch about their semaphores are dropped
    sys.warnoptions.append("ignore:resource_tracker")
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        session = Session(channel, arch, policy, **card)
        device = session.device
        device.label, device.code.refuses = label, teller.refuse
        device.listeners.begins, device.listeners.ended, device.listeners.again = teller.begin, teller.end, teller.again
        threading.Thread(target=watch, daemon=True, name=CONNECTION).start()
        session.run()
        status = 0
    except (InputError, SmemsimError) as e:
        print(f"smemsim: {e}", file=sys.stderr, flush=True)
    except MemoryError as e:
        print(f"smemsim: {OUT_OF_MEMORY}{f': {e}' if str(e) else ''}", file=sys.stderr, flush=True)
    except (OSError, KeyboardInterrupt):
        status = 0
    except BaseException:
        print(f"smemsim: internal error, please report it:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    finally:
        with contextlib.suppress(OSError):
            channel.close()
        os._exit(status)
