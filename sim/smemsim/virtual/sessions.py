"""The processes with devices for a program: one for each process that uses the driver or the runtime. It ends with that
process.

Processes connect to a socket. `smemsim exec` listens itself; pytest starts a process for it (`serve_apart`). Sockets
and memory have no name in a file system, so no file remains.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
from typing import Any

from smemsim.virtual.telling import SOCKET_ENDING, Journal, Writer

__all__ = ["SITE", "Doors", "Sessions", "die_with_parent", "environment", "serve_apart"]


SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")  # what Python programs import at their start
# What a session needs, in the order in which it needs it: loaded while the program starts, unless a session begins
# before that.
PARTS = (
    "smemsim.virtual.server",
    "smemsim.core.arithmetic.reduce_loops",
    "smemsim.core.machine.memory",
    "smemsim.run.engine.grid",
    "smemsim.diagnosis.check",
    "smemsim.diagnosis.run",
    "smemsim.virtual.machine",
    "smemsim.virtual.record",
)
# For every nvcc that the program starts: the last value counts. It keeps the PTX in machine code, and links the
# runtime that we can be.
NVCC_FLAGS = "-lineinfo -cudart shared"
PATIENCE = 5.0  # seconds that sessions have for their last words, once the program has ended
OF_PROGRAMS = ("LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES")  # what sessions have as they were
# With an auditor, glibc lays out the static block of the threads before it knows the program's libraries, which then
# share 512 bytes (rustc's want 24 KB).
STATIC_TLS, STATIC_TLS_BYTES = "glibc.rtld.optional_static_tls", 1 << 16
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def environment(folder: Any, name: str, arch: str, policy: Any, card: dict[str, Any]) -> dict[str, str]:
    """The variables by which a program's processes find the device; `folder` has the C libraries, None without them."""

    def first(variable: str, value: str) -> str:
        return ":".join(dict.fromkeys(filter(None, (value, *os.environ.get(variable, "").split(":")))))

    libraries = {}
    if folder is not None:
        libraries = {
            "LD_LIBRARY_PATH": first("LD_LIBRARY_PATH", str(folder)),
            "LD_AUDIT": first("LD_AUDIT", str(folder / "libsmemsim-audit.so")),
            "GLIBC_TUNABLES": _tunables(),
            # for compilers that link with -lcuda where there is neither a driver nor the toolkit's stub of it
            "LIBRARY_PATH": ":".join(dict.fromkeys(filter(None, (*os.environ.get("LIBRARY_PATH", "").split(":"), str(folder))))),
        }
    flags = os.environ.get("NVCC_APPEND_FLAGS", "")
    return {
        **libraries,
        "PYTHONPATH": first("PYTHONPATH", SITE),
        "NVCC_APPEND_FLAGS": flags if flags.endswith(NVCC_FLAGS) else " ".join(filter(None, (flags, NVCC_FLAGS))),
        "TILELANG_CLEANUP_TEMP_FILES": os.environ.get(
            "TILELANG_CLEANUP_TEMP_FILES", "0"
        ),  # findings name lines of the CUDA that TileLang writes
        "SMEMSIM_SOCKET": name,
        "SMEMSIM_ARCH": arch,
        "SMEMSIM_FIRST": "",
        "SMEMSIM_CARD": "",
        **{f"SMEMSIM_{key.upper()}": str(value) for key, value in card.items() if value},
        **policy.environment(),
    }


def _tunables() -> str:
    """GLIBC_TUNABLES with room for what the program's libraries keep for each thread; what it says of that already
    stays.
    """
    given = [x for x in os.environ.get("GLIBC_TUNABLES", "").split(":") if x]
    asked = any(x.partition("=")[0] == STATIC_TLS for x in given)
    return ":".join(given if asked else [*given, f"{STATIC_TLS}={STATIC_TLS_BYTES}"])


def die_with_parent(by: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    if _libc is not None:
        _libc.prctl(_DEATH_SIGNAL, by)


@dataclasses.dataclass
class Doors:
    """The sockets of a program's processes: to get a device (`listener`), and to report that they have one themselves
    (`tellers`).
    """

    name: str
    listener: socket.socket
    tellers: socket.socket

    @classmethod
    def open(cls) -> Doors:
        """Two sockets with names that no other process knows."""
        name, made = f"smemsim-{os.getpid()}-{secrets.token_hex(8)}", []
        for ending in ("", SOCKET_ENDING):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(f"\0{name}{ending}")
            listener.listen(128)
            made.append(listener)
        return cls(name, *made)

    def close(self) -> None:
        """Nobody connects any more."""
        self.listener.close()
        self.tellers.close()


class Sessions:
    """Makes a session for each process of the program that asks for one, and hands out the journal."""

    def __init__(
        self, doors: Doors, journal: Journal, arch: str, policy: Any, card: dict[str, Any], *, is_the_first_plain: bool = True
    ) -> None:
        self.doors, self.journal, self.arch, self.policy, self.card = doors, journal, arch, policy, card
        # are files of the first session without a number of their own in front?
        self.is_the_first_plain = is_the_first_plain
        self.select = selectors.DefaultSelector()
        self.select.register(doors.tellers, selectors.EVENT_READ)
        self.select.register(doors.listener, selectors.EVENT_READ)
        self.alive: list[socket.socket] = []  # one for each process that has a device; it ends with that
        # those that have a device for another one, by the channel that ends with them
        self.processes: dict[socket.socket, int] = {}
        self.died: list[str] = []  # devices that ended before their program, in words
        self.parts = list(PARTS)
        self.has_device = False  # did a process of the program ask for one?

    def until_end(self, program: int) -> None:
        """Make sessions until a process, the program, and its devices have ended."""
        of_program = os.pidfd_open(program)
        try:
            self._until_end(of_program)
        finally:
            os.close(of_program)
            self.select.close()

    def _until_end(self, of_program: int) -> None:
        self.select.register(of_program, selectors.EVENT_READ)
        is_running = True
        while is_running or self.alive:
            is_idle = is_running and self.parts and not self.has_device
            events = self.select.select(0 if is_idle else None if is_running else PATIENCE)
            if is_idle and not events:
                self._load()
                continue
            if not events:
                break
            for key, _ in events:
                if key.fileobj is self.doors.listener:
                    self._begin()
                elif key.fileobj is self.doors.tellers:
                    channel = self.doors.tellers.accept()[0]
                    self.journal.give(channel)
                    self._wait_for(channel)
                elif key.fileobj == of_program:
                    is_running = False
                    self.select.unregister(of_program)
                else:
                    self._end(key.fileobj)  # type: ignore[arg-type]
        for channel, process in self.processes.items():
            if channel not in self.alive:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)

    def _load(self, most: int = 1) -> None:
        """Load the next parts of what sessions need; all sessions have in common what is loaded before they begin."""
        gc.disable()  # imports make much that lives to the end
        for name in self.parts[:most]:
            importlib.import_module(name)
        del self.parts[:most]
        gc.freeze()
        gc.enable()

    def _begin(self) -> None:
        channel, _ = self.doors.listener.accept()
        if self.processes:
            self._load(len(PARTS))  # more than one: what the first one loads for itself the others share
        elif len(self.parts) == len(PARTS):
            self._load()
        from smemsim.virtual import server

        mine, theirs = socket.socketpair()
        sys.stdout.flush(), sys.stderr.flush()
        process = os.fork()
        if process == 0:
            try:
                die_with_parent(signal.SIGKILL)
                self.doors.close()
                for other in (mine, *self.alive):
                    other.close()
                server.serve(channel, Writer(self.journal.descriptor), self.arch, self.policy, self.card, self._label())
            finally:
                os._exit(1)
        channel.close()
        theirs.close()
        self.processes[mine] = process
        self._wait_for(mine)

    def _label(self) -> str:
        """The prefix of files of a new session: its number, if there are several."""
        if not self.is_the_first_plain:
            return f"{os.getpid()}-"
        return f"{len(self.processes) + 1}-" if self.processes else ""

    def _wait_for(self, channel: socket.socket) -> None:
        self.has_device = True
        self.alive.append(channel)
        self.select.register(channel, selectors.EVENT_READ)

    def _end(self, channel: socket.socket) -> None:
        self.select.unregister(channel)
        self.alive.remove(channel)
        channel.close()
        if (process := self.processes.get(channel)) is not None:
            with contextlib.suppress(ChildProcessError):
                self._ended(os.waitpid(process, 0)[1])

    def _ended(self, status: int) -> None:
        """The process of a device has ended: with 0, as it does when its program ends, or before that."""
        if status == 0:
            return
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        how = "ended with an error" if not number else f"was killed by signal {number} ({signal.strsignal(number) or 'unknown'})"
        memory = ": the system does that when memory is out" if number == signal.SIGKILL else ""
        why = f"the process of the device {how}{memory}; calls after that failed with error 999, and no kernel was simulated any more"
        self.died.append(why)
        Writer(self.journal.descriptor).refuse(why)
        print(f"smemsim: {why}", file=sys.stderr, flush=True)


# ---- A separate process that makes sessions, for a program that is not a child of `smemsim exec`


# It waits with few megabytes until a process connects: most runs of pytest start no program that uses the device. It
# is not a child, so no test waits for it.
_WAITING = """
import os, select, sys
if os.fork():
    os._exit(0)
sockets, parent = [int(n) for n in sys.argv[3:5]], os.pidfd_open(int(sys.argv[2]))
if parent not in select.select([*sockets, parent], [], [])[0]:
    os.execv(sys.executable, [sys.executable, "-P", "-c", sys.argv[1], *sys.argv[2:]])
"""
_SERVING = "import sys; sys.path.insert(0, {!r}); from smemsim.virtual.sessions import serve_parent; serve_parent(*map(int, sys.argv[1:]))"


def serve_apart(doors: Doors, journal: Journal, variables: dict[str, str]) -> None:
    """Start a process that makes sessions, for programs that are started with these variables besides; it ends with
    this one.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    shared = (doors.listener.fileno(), doors.tellers.fileno(), journal.descriptor)
    subprocess.run(
        [sys.executable, "-ISc", _WAITING, _SERVING.format(root), *map(str, (os.getpid(), *shared))],
        pass_fds=shared,
        env={**os.environ, **{name: value for name, value in variables.items() if name not in OF_PROGRAMS}},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def serve_parent(parent: int, listener: int, tellers: int, journal: int) -> None:
    """Make sessions as long as another process is there."""
    from smemsim.virtual.policy import Policy, card_of_environment

    doors = Doors(os.environ["SMEMSIM_SOCKET"], socket.socket(fileno=listener), socket.socket(fileno=tellers))
    made = Sessions(doors, Journal(journal), os.environ["SMEMSIM_ARCH"], Policy.of(), card_of_environment(), is_the_first_plain=False)
    with contextlib.suppress(ProcessLookupError):
        made.until_end(parent)
