"""`smemsim exec`: a program and everything it starts run with the virtual GPU in place of a card.

The process that runs this listens on a socket. Every process of the program that uses the device connects, and gets a process of its own that has the
device: a fork of this one, which ends with it. Nothing has a name in a file system, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pathlib
import secrets
import selectors
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from smemsim.errors import InputError
from smemsim.files import check_folder, check_place
from smemsim.virtual import build
from smemsim.virtual.policy import BEGUN, REFUSED
from smemsim.virtual.process import SOCKET_ENDING

__all__ = ["run_program"]


SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")  # what Python programs import at their start
# What a session needs, in the order in which it needs it: loaded while the program starts, unless a session begins before that.
PARTS = (
    "smemsim.virtual.server",
    "numba",
    "smemsim.arithmetic.reduce_loops",
    "smemsim.machine.memory",
    "smemsim.program.execute",
    "smemsim.judge.check",
    "smemsim.judge.run",
    "smemsim.virtual.machine",
    "smemsim.virtual.record",
)
# For every nvcc that the program starts: the last value counts. It keeps the PTX in machine code, and links the runtime that we can be.
NVCC_FLAGS = "-lineinfo -cudart shared"
PATIENCE = 5.0  # seconds that sessions have for their last words, once the program has ended
NOT_SUPPORTED = 801  # the CUDA error of a launch that is not modelled
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def run_program(command: Sequence[str], arch: str, policy: Any, card: dict[str, Any]) -> int:
    """Run a command with the virtual GPU; the exit code is that of `_exit_code`."""
    if policy.hooks is not None:
        from smemsim.virtual.policy import hooks_of

        hooks_of(policy.hooks)  # what cannot be read is refused before the program starts
    for option, check in (("record", check_folder), ("report", check_folder), ("json", check_place)):
        if (place := getattr(policy, option)) is not None:
            check(f"--{option}", pathlib.Path(place))
    folder = build.libraries()
    name = f"smemsim-{os.getpid()}-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(128)
    ended = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    ended.bind(f"\0{name}{SOCKET_ENDING}")
    ended.listen(128)
    environment = _environment(folder, name, arch, policy, card)
    if policy.record is not None or policy.report is not None:
        from smemsim.virtual.record import clear

        clear(policy)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what Ctrl-C means
    try:
        program = subprocess.Popen(list(command), env=environment, preexec_fn=_of_the_program)  # noqa: PLW1509  (nothing else runs here yet)
    except OSError as e:
        raise InputError(f"{command[0]}: cannot be started: {e.strerror or e}") from None
    try:
        sessions = _Sessions(listener, ended, arch, policy, card)
        sessions.until_end(program)
    finally:
        listener.close()
        ended.close()
        signal.signal(signal.SIGINT, before)
    return _told(program.returncode, sessions, policy, command, arch)


def _environment(folder: Any, name: str, arch: str, policy: Any, card: dict[str, Any]) -> dict[str, str]:
    def first(variable: str, value: str) -> str:
        return ":".join(filter(None, (value, os.environ.get(variable))))

    own = {
        "LD_LIBRARY_PATH": first("LD_LIBRARY_PATH", str(folder)),
        "PYTHONPATH": first("PYTHONPATH", SITE),
        "LD_AUDIT": first("LD_AUDIT", str(folder / "libsmemsim-audit.so")),
        "NVCC_APPEND_FLAGS": " ".join(filter(None, (os.environ.get("NVCC_APPEND_FLAGS"), NVCC_FLAGS))),
        "SMEMSIM_SOCKET": name,
        "SMEMSIM_ARCH": arch,
        "SMEMSIM_FIRST": "",
        **{f"SMEMSIM_{key.upper()}": str(value) for key, value in card.items() if value},
        **policy.environment(),
    }
    return {**os.environ, **own}


def _of_the_program() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _libc is not None:
        _libc.prctl(_DEATH_SIGNAL, signal.SIGTERM)


class _Sessions:
    """The processes that have devices, one for each process of the program that uses one."""

    def __init__(self, listener: socket.socket, ended: socket.socket, arch: str, policy: Any, card: dict[str, Any]) -> None:
        self.listener, self.ended, self.arch, self.policy, self.card = listener, ended, arch, policy, card
        self.select = selectors.DefaultSelector()
        self.select.register(ended, selectors.EVENT_READ)
        self.select.register(listener, selectors.EVENT_READ)
        self.told: dict[socket.socket, bytes] = {}  # the line that a channel has begun
        self.processes: list[int] = []
        self.parts = list(PARTS)
        self.launches: list[dict[str, Any]] = []
        self.running: dict[socket.socket, str] = {}  # the launch that a channel has told of, and not of its end
        self.has_device = False  # did a process of the program ask for one?
        self.refused: list[str] = []  # why code of the program was not simulated

    def until_end(self, program: subprocess.Popen[bytes]) -> None:
        """Hear what is launched, until the program and its devices have ended."""
        ended = os.pidfd_open(program.pid)
        self.select.register(ended, selectors.EVENT_READ)
        is_running = True
        while is_running or self.told:
            is_idle = is_running and self.parts and not self.processes
            events = self.select.select(0 if is_idle else None if is_running else PATIENCE)
            if is_idle and not events:
                self._load()
                continue
            if not events:
                break
            for key, _ in events:
                if key.fileobj is self.listener:
                    self._begin()
                elif key.fileobj is self.ended:
                    self._hear(self.ended.accept()[0])
                elif key.fileobj == ended:
                    is_running = False
                    self.select.unregister(ended)
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]
        program.wait()
        os.close(ended)
        for process in self.processes:
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
        channel, _ = self.listener.accept()
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
                if _libc is not None:
                    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
                self.listener.close()
                mine.close()
                for other in self.told:
                    other.close()
                server.serve(channel, theirs, self.arch, self.policy, self.card, f"{len(self.processes) + 1}-" if self.processes else "")
            finally:
                os._exit(1)
        channel.close()
        theirs.close()
        self.processes.append(process)
        self._hear(mine)

    def _hear(self, channel: socket.socket) -> None:
        """Read what was launched from a channel until it ends: of a session's process, or of a Python program that had the device itself."""
        self.has_device = True
        self.told[channel] = b""
        self.select.register(channel, selectors.EVENT_READ)

    def _read(self, channel: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            if part := channel.recv(1 << 20):
                *lines, self.told[channel] = (self.told[channel] + part).split(b"\n")
                for said in map(json.loads, lines):
                    if BEGUN in said:
                        self.running[channel] = said[BEGUN]
                    elif REFUSED in said:
                        self.refused.append(said[REFUSED])
                    else:
                        self.running.pop(channel, None)
                        self.launches.append(said)
                return
        self.select.unregister(channel)
        del self.told[channel]
        channel.close()


LONGEST_COMMAND = 100  # characters in a title


def _title(command: Sequence[str], arch: str) -> str:
    """The command, and the card."""
    told = shlex.join([os.path.basename(command[0]), *command[1:]])
    return f"{told if len(told) <= LONGEST_COMMAND else f'{told[: LONGEST_COMMAND - 1]}…'} on {arch}"


def _told(code: int, sessions: _Sessions, policy: Any, command: Sequence[str], arch: str) -> int:
    """Tell the end, write what was asked for, and find the exit code."""
    from smemsim.virtual.policy import Launched, summary_of, write_json

    found = [Launched(**{**x, "number": n}) for n, x in enumerate(sessions.launches, 1)]
    ends = _exit_code(code, found, sessions.refused, policy.require_launches, is_cut=bool(sessions.running))
    if policy.on_finding == "collect":
        for x in found:
            if not x.is_fine:
                print(f"smemsim: {x.told}", file=sys.stderr)
                for line in x.findings():
                    print(f"  {line}", file=sys.stderr)
    if policy.report is not None:
        from smemsim.virtual.record import write_index

        write_index(policy.report, _title(command, arch), found)
    if policy.json is not None:
        write_json(policy.json, found, list(dict.fromkeys(sessions.refused)), ends)
    if not policy.quiet or ends != code:
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        own = f"; exit code {ends} of smemsim exec" if ends != code and code >= 0 else ""
        print(
            f"smemsim: {summary_of(found) if found or not sessions.running else 'no launch was over'}{_unseen(found, sessions, policy)}; the program: {ended}{own}",
            file=sys.stderr,
        )
    return ends


def _exit_code(code: int, found: list[Any], refused: list[str], required: int | None, *, is_cut: bool) -> int:
    """The program's own, unless it says that all is well: then 3 for kernels that are not modelled, 1 for findings and for launches that were not run or
    did not come to their end, 2 for code that cannot run here and for fewer launches than are required."""
    if code:
        return 128 - code if code < 0 else code
    if any(x.error == NOT_SUPPORTED and x.refused for x in found):
        return 3
    if is_cut or not all(x.is_clean for x in found):
        return 1
    return 2 if refused or sum(not x.refused for x in found) < (required or 0) else 0


def _unseen(found: list[Any], sessions: _Sessions, policy: Any) -> str:
    """What of the program was not simulated, for the last line; "" where all was."""
    if sessions.refused:
        return "; code of the program cannot run here (above), so that not all of it was simulated"
    if sessions.running:
        return f", ended during {', '.join(f'launch {name}' for name in sessions.running.values())}, of which nothing is judged"
    ran = sum(not x.refused for x in found)
    if ran < (policy.require_launches or 0):
        return f", where --require-launches asks for {policy.require_launches}"
    if not found:
        return ", so that nothing was judged" + (
            "" if sessions.has_device else ": the program did not use the driver or the shared runtime"
        )
    return ""
