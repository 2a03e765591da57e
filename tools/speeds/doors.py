"""Races of the doors of the virtual GPU: what a program pays beside the launch itself, and at its start. Times are of
the processor, of all processes together.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from smemsim.base.errors import InputError
from smemsim.virtual import Policy, VirtualDevice
from smemsim.virtual.build import compiler, libraries
from tools.speeds.launches import ADD, BLOCK
from tools.speeds.race import Differs, LeftOut, Race, Row, Timer, once, processor, used_by

SOURCE = pathlib.Path(__file__).with_name("doors.c")
EXEC = (sys.executable, "-m", "smemsim", "exec", "--arch", "sm_90a", "--quiet", "--")
SMALL, LARGE = 1 << 10, 1 << 18
CARD = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}


def _nanoseconds(process: int) -> int:
    """Of the processor, that a process with its threads and its children, which are still there, have used."""
    total = 0
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
            children = (thread / "children").read_text().split()
            total += sum(_nanoseconds(int(child)) for child in children)
    return total


def _built(folder: str) -> str:
    """The program in C. LeftOut where nothing can build it."""
    made = pathlib.Path(folder, "doors")
    chosen = compiler()
    try:
        found = libraries()
    except InputError as e:
        raise LeftOut(str(e)) from None
    if chosen is None:
        raise LeftOut("there is no C compiler")
    subprocess.run([chosen, "-O1", str(SOURCE), "-o", str(made), f"-L{found}", "-l:libcuda.so.1"], check=True)
    pathlib.Path(folder, "add.ptx").write_text(ADD)
    return str(made)


class _Program:
    """The program under `smemsim exec`, which waits for orders."""

    def __init__(self, elements: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        command = [*EXEC, _built(self.folder.name), f"{self.folder.name}/add.ptx", str(elements)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.end)

    def do(self, what: str, count: int) -> None:
        """Have it launch."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise Differs("the program under smemsim exec has ended")

    def timer(self, what: str) -> Timer:
        """Of so many launches."""

        def seconds(count: int) -> float:
            begin = _nanoseconds(self.process.pid)
            self.do(what, count)
            return (_nanoseconds(self.process.pid) - begin) / 1e9

        return seconds

    def end(self) -> None:
        """End it, and look at what it has computed."""
        if self.process.poll() is None:
            out, _ = self.process.communicate()
            assert out == "0 wrong\n", out


def _launches(elements: int, what: str) -> Callable[[], Race]:
    """The same kernel by the device of this process."""

    def start() -> Race:
        program = _Program(elements)
        device = VirtualDevice("sm_90a", policy=Policy.of(quiet=True))
        addresses = [device.allocate(4 * elements) for _ in range(3)]
        x, y, out = (device.view(address, 4 * elements).view(np.float32) for address in addresses)
        x[:] = y[:] = np.arange(elements)
        kernel = device.load(ADD).function("add")
        arguments = [*(address.to_bytes(8, "little") for address in addresses), (1).to_bytes(4, "little")]

        def here() -> None:
            device.launch(kernel, (elements // BLOCK, 1, 1), (BLOCK, 1, 1), arguments)

        for _ in range(40):  # the block becomes machine code
            here()
            program.do(what, 1)
        if (out != 2 * x).any():
            raise Differs("x + x is another one")
        return Race(program.timer(what), processor(here), "processor time of all processes")

    return start


def _starts(*program: str) -> Callable[[], Race]:
    """A program under `smemsim exec` against the program alone."""

    def start() -> Race:
        if program[-1].startswith("import") and subprocess.run(program, capture_output=True, check=False).returncode:
            raise LeftOut(f"{program[-1].removeprefix('import ')} is not there")
        for command in (program, (*EXEC, *program)):
            used_by(*command, variables=CARD)
        return Race(
            once(lambda: used_by(*EXEC, *program, variables=CARD)),
            once(lambda: used_by(*program, variables=CARD)),
            "processor time of all processes",
        )

    return start


# fmt: off
ROWS_OF_DOORS = (
    *(Row("run", f"launch an elementwise sum of 2^{elements.bit_length() - 1} float32{' and wait for it' * (what == 'launch-wait')} from a program in C", "VirtualDevice.launch",
          elements, "elements", _launches(elements, what)) for elements, what in ((SMALL, "launch"), (SMALL, "launch-wait"), (LARGE, "launch"))),
    Row("commands", "import torch under smemsim exec", "the same alone", 1, "starts", _starts(sys.executable, "-c", "import torch"), rounds=5, long=True),
    Row("commands", "import torch and Triton under smemsim exec", "the same alone", 1, "starts", _starts(sys.executable, "-c", "import torch, triton"), rounds=5, long=True),
)
# fmt: on
