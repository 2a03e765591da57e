"""`smemsim exec`: a program and all its processes run with the virtual GPU instead of a card.

This process makes the sessions (`sessions.py`). Every process of the program that uses the device gets its own device
process, a fork of this one, which ends with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from smemsim.base.errors import InputError
from smemsim.base.files import check_folder, check_place, same_file, wrote
from smemsim.base.terminal import prefixed
from smemsim.virtual import build
from smemsim.virtual.sessions import Doors, Sessions, die_with_parent, environment
from smemsim.virtual.telling import Journal, News

__all__ = ["run_program"]


NOT_SUPPORTED = 801  # the CUDA error of a launch that is not modelled


def run_program(command: Sequence[str], arch: str, policy: Any, card: dict[str, Any]) -> int:
    """Run a command with the virtual GPU; the exit code is that of `_exit_code`."""
    if policy.hooks is not None:
        from smemsim.virtual.policy import hooks_of

        hooks_of(policy.hooks)  # what cannot be read is refused before the program starts
    for option, check in (("record", check_folder), ("report", check_folder), ("json", check_place)):
        if (place := getattr(policy, option)) is not None:
            check(f"--{option}", pathlib.Path(place))
    if policy.json is not None and any(
        same_file(pathlib.Path(policy.json), pathlib.Path(word)) for word in command if os.path.isfile(word)
    ):
        raise InputError(f"--json {policy.json}: is a file of the program too; needs a file of its own")
    folder = build.libraries()
    doors, journal = Doors.open(), Journal()
    variables = {**os.environ, **environment(folder, doors.name, arch, policy, card)}
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}  # the program decides what Ctrl-C means
    try:
        program = _started(command, variables)
        if policy.record is not None or policy.report is not None:  # before its first launch, which waits for a session
            from smemsim.virtual.record import clear

            clear(policy)
        for number in (signal.SIGTERM, signal.SIGHUP):  # the program ends then, and its launches are printed
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, lambda number, _: program.send_signal(number))
        sessions = Sessions(doors, journal, arch, policy, card)
        sessions.until_end(program.pid)
        program.wait()
        heard = _Heard(journal.read(), list(journal.running.values()), sessions.has_device, bool(sessions.died))
    finally:
        doors.close()
        journal.close()
        for number, action in before.items():
            signal.signal(number, action)
    return _told(program.returncode, heard, policy, command, arch)


def _started(command: Sequence[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(command), env=variables, preexec_fn=_of_the_program)  # noqa: PLW1509  (nothing else runs here yet)
    except OSError as e:
        raise InputError(f"{command[0] or 'the program'}: cannot be started: {_why_not(command[0], e)}") from None


def _why_not(program: str, e: OSError) -> str:
    """Why a program is not one that can be started, and what to do."""
    path = pathlib.Path(program)
    if not program:
        return "its name is empty"
    if path.is_dir():
        return f"it is a folder; name the program in it, such as {shlex.quote(os.path.join(program, 'a.out'))}"
    if os.sep not in program and shutil.which(program) is None:
        return f"no folder of PATH has it{f'; is it ./{program}?' if path.is_file() else ''}"
    if not path.exists():
        return "there is no such file"
    if isinstance(e, PermissionError):
        return "it is not executable: chmod +x, or write the interpreter (sh, python) before it"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        first, *_ = path.read_bytes()[:200].split(b"\n")
        if isinstance(e, FileNotFoundError) and first.startswith(b"#!"):
            return f"its first line asks for {first[2:].decode().strip().split(' ')[0]}, which is not there"
        if not first.startswith((b"#!", b"\x7fELF")):
            return "it is neither a program nor a script with a first line like #!/bin/sh: write the interpreter (sh, python) before it"
    return e.strerror or str(e)


def _of_the_program() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(signal.SIGTERM)


@dataclasses.dataclass
class _Heard:
    """Reports of the program's processes. `running` are launches that are not over. `has_device`: one of them asked for
    a device. `has_died`: a device ended before its program.
    """

    news: News
    running: list[str]
    has_device: bool
    has_died: bool


LONGEST_COMMAND = 100  # characters in a title


def _title(command: Sequence[str], arch: str) -> str:
    """The command, and the card."""
    told = shlex.join([os.path.basename(command[0]), *command[1:]])
    return f"{told if len(told) <= LONGEST_COMMAND else f'{told[: LONGEST_COMMAND - 1]}…'} on {arch}"


def _told(code: int, heard: _Heard, policy: Any, command: Sequence[str], arch: str) -> int:
    """Tell the end, write what was asked for, and find the exit code."""
    from smemsim.virtual.policy import Launched, checked_of, partial_of, summary_of, write_json

    found = [Launched(**{**x, "number": n}) for n, x in enumerate(heard.news.launches, 1)]
    ends = _exit_code(code, found, heard.news.refused, policy.require_launches, is_cut=bool(heard.running) and not heard.has_died)
    if policy.on_finding == "collect":
        for x in found:
            if not x.is_fine:
                _say(x.told)
                for text in x.findings():
                    _say(text)
    if policy.report is not None:
        from smemsim.virtual.record import write_index

        write_index(policy.report, _title(command, arch), found)
    if policy.json is not None:
        write_json(policy.json, found, list(dict.fromkeys(heard.news.refused)), ends)
    if not policy.quiet:
        _print_files(policy, found)
        _print_hints(policy, found)
    if not policy.quiet or ends != code:
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        own = f"; smemsim exec: exit code {ends}" if ends != code and code >= 0 else ""
        summary = summary_of(found, are_left=not policy.remarks) if found or not heard.running else "no launch was over"
        _say(f"{summary}{_unseen(found, heard, policy, code)}; the program: {ended}{own}")
        for line in checked_of(found, arch):
            _say(line)
    for line in partial_of(found, code):  # also with --quiet: a launch of a part is no clean bill
        _say(line)
    if code > 0 and not policy.quiet and found and all(x.is_clean and not x.is_partial for x in found):
        _print_comparison(policy, code)
    return ends


def _say(text: str) -> None:
    """Print a message on stderr."""
    print(prefixed(text), file=sys.stderr)


def _lacks_lines(found: list[Any]) -> bool:
    """Has no finding of any launch a source line?"""
    findings = [f for x in found if x.run for f in x.run["findings"]]
    return bool(findings) and all(not f.get("location") and not f.get("locations") for f in findings)


def _print_files(policy: Any, found: list[Any]) -> None:
    """Name the files that were written: the page, the JSON file, the recorded launches."""
    count = len(found)
    launches = f"{count} launch{'es' * (count != 1)}"
    if policy.report is not None:
        _say(wrote(pathlib.Path(policy.report) / "index.html", f"{launches}, with a page each"))
    if policy.json is not None:
        _say(wrote(pathlib.Path(policy.json), f"{launches} and their findings"))
    if policy.record is not None:
        kept = sum(not x.has_no_files for x in found)
        what = f"{launches if kept == count else f'{kept} of {launches}'} as launch files, for smemsim run"
        _say(wrote(pathlib.Path(policy.record), what))


def _print_hints(policy: Any, found: list[Any]) -> None:
    """How findings get source lines, and their lines of PTX a file."""
    if _lacks_lines(found):
        _say("findings have no source lines: build the program with nvcc -lineinfo")
    if policy.record is None and any(x.run and x.run["findings"] for x in found):
        _say("to read the PTX lines that findings name: smemsim exec --record DIR writes DIR/NUMBER-KERNEL/kernel.ptx")


def _print_comparison(policy: Any, code: int) -> None:
    """The next step if a program fails without a finding: compare a result with the right one."""
    record = "" if policy.record else "smemsim exec --record DIR ..., then "
    _say(f"no finding explains exit code {code}. If a result is wrong, compare it with the right one:")
    _say(f"  {record}smemsim run {pathlib.Path(policy.record or 'DIR') / 'NUMBER-KERNEL'} --expect ARRAY=right.npy")


def _exit_code(code: int, found: list[Any], refused: list[str], required: int | None, *, is_cut: bool) -> int:
    """The exit code of the program. If that is 0, it is 3 for kernels that are not modelled. It is 1 for findings, and
    for launches that did not run or did not end. It is 2 for code that cannot run here, and for CTAs that wait for
    others that --ctas left out. It is also 2 for fewer launches than required, and for launches whose files cannot be
    written.
    """
    if code:
        return 128 - code if code < 0 else code
    if any(x.error == NOT_SUPPORTED and x.refused for x in found):
        return 3
    if is_cut or not all(x.is_clean or x.held_up for x in found) or not all(x.is_fine for x in found):
        return 1
    return 2 if refused or any(x.held_up or x.has_no_files for x in found) or sum(not x.refused for x in found) < (required or 0) else 0


def _unseen(found: list[Any], heard: _Heard, policy: Any, code: int) -> str:
    """The parts of the program that were not simulated, for the last line; "" if there are none."""
    if heard.has_died:
        return "; the process of the device ended before the program (see above): not all of the program was simulated"
    if heard.news.refused:
        return "; a part of the program cannot run here (see above) and was not simulated"
    if heard.running:
        return f", ended during {', '.join(f'launch {name}' for name in heard.running)}, which was not checked"
    ran = sum(not x.refused for x in found)
    if ran < (policy.require_launches or 0):
        return f"; --require-launches asks for {policy.require_launches}"
    if not found:
        if heard.has_device:
            return ", and nothing was checked"
        if code:
            return ", and nothing was checked: the program ended before it used the GPU"
        return ", and nothing was checked: no process of the program used the GPU; env -i and sudo remove the variables that a process needs for it"
    return ""
