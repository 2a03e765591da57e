"""Races against other projects, which run beside, in an environment of their own, and are timed in turn. Their answers
are held against ours first.
"""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import pathlib
import subprocess
import tempfile
import venv
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.speeds.addresses import START, TILE, as_matrix, tile
from tools.speeds.arithmetic import INSTRUCTIONS, Instruction, drawn, multiply
from tools.speeds.race import LeftOut, Race, Row, Timer, same, timed

# PyTorch without CUDA, 2.13.0+cpu, is taken where pip knows one. mmasim compiles a part of itself when it is imported.
# pycute is part of nvidia-cutlass.
WITH_NEEDS = ("mmasim==2.1.1", "torch==2.13.0", "numpy")
ALONE = ("nvidia-cutlass==4.2.0.0", "triton==3.9.0", "tensor-layouts==0.3.2", "numba==0.61.2", "llvmlite==0.44.0")
PLACE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "smemsim-bench"
HERE = pathlib.Path(__file__).parent
# multiply-adds of a batch; times mmasim called as it is documented, tile by tile
WORK, ODD_TILES, FASTER = 1 << 24, 64, 80


@functools.cache
def environment() -> tuple[str, dict[str, str]]:
    """The Python of a virtual environment that has the peers, made or completed when it is not there, and its
    variables.
    """
    folder = PLACE / ("Scripts" if os.name == "nt" else "bin")
    python = str(folder / "python")
    variables = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}", "TORCH_EXTENSIONS_DIR": str(PLACE / "compiled")}
    variables["OMP_WAIT_POLICY"] = "passive"  # its threads would otherwise keep the cores busy while smemsim is timed

    def runs(*arguments: str) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run([python, "-I", *arguments], env=variables, check=False, capture_output=True, text=True)
        except OSError:
            return None

    def has(packages: tuple[str, ...]) -> bool:
        wanted = dict(p.split("==") for p in packages if "==" in p)
        test = f"import importlib.metadata as m; assert all(m.version(p).split('+')[0] == v for p, v in {wanted!r}.items())"
        done = runs("-c", test)
        return done is not None and done.returncode == 0

    if runs("-c", "pass") is None:
        try:
            venv.create(PLACE, clear=True, symlinks=os.name != "nt", with_pip=True)
        except (OSError, subprocess.CalledProcessError) as e:
            raise LeftOut(f"no environment for the peers can be made: {e}") from None
    for packages, how in ((WITH_NEEDS, ()), (ALONE, ("--no-deps",))):
        if not has(packages):
            done = runs("-m", "pip", "install", *how, *packages)
            if done is None or done.returncode:
                said = done.stderr.strip().splitlines()[-1:] if done else []
                raise LeftOut(f"pip does not install {', '.join(packages)}: {' '.join(said)}")
    return python, variables


class Peer:
    """A process that has put its results into a file, has said a line of JSON (`said`), and times itself."""

    def __init__(self, script: str, *arguments: str) -> None:
        python, variables = environment()
        self.folder = tempfile.TemporaryDirectory()
        results = str(pathlib.Path(self.folder.name) / "results.npz")
        self.process = subprocess.Popen(
            [python, "-I", str(HERE / script), *arguments, results],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        atexit.register(self.close)
        first = self._line()
        if not first:
            said = self.process.stderr.read().strip().splitlines()[-1:] if self.process.stderr else []
            raise LeftOut(f"{script} fails in {PLACE}: {' '.join(said)}")
        self.said: dict[str, str] = json.loads(first)
        with np.load(results) as found:
            self.results = {name: found[name] for name in found.files}

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def timer(self, *what: str) -> Timer:
        """The timer of one of its forms."""

        def seconds(count: int) -> float:
            print(json.dumps([*what, count]), file=self.process.stdin, flush=True)
            if not (line := self._line()):
                raise LeftOut(f"the process of {' '.join(what)} has ended")
            return float(line)

        return seconds

    def close(self) -> None:
        """End the process; it stops when nothing more is asked."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()


@functools.cache
def layouts() -> Peer:
    """pycute, tensor-layouts and Triton."""
    return Peer("peer_layouts.py")


@functools.cache
def simulators() -> Peer:
    """TRITON_INTERPRET=1 and numba's CUDA simulator."""
    return Peer("peer_simulators.py")


@functools.cache
def mmasim() -> Peer:
    """mmasim, with the batches of every instruction that it has, of normal numbers and of any bits."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    into = str(pathlib.Path(folder.name) / "cases.npz")
    arrays = {f"{one.name}/{how}/{x}": y for one in PEERED for how in ("normal", "any") for x, y in batch(one, how).items()}
    np.savez(into, operations=np.array(json.dumps({one.name: one.peer for one in PEERED})), **arrays)  # type: ignore[arg-type]
    return Peer("peer_mma.py", into)


PEERED = tuple(one for one in INSTRUCTIONS if one.peer)


@functools.cache
def batch(one: Instruction, how: str) -> dict[str, np.ndarray]:
    """The operands that both get."""
    return drawn(one, ODD_TILES, one.shape, any_bits=True) if how == "any" else drawn(one, WORK // math.prod(one.shape), one.shape)


def _layout(peer: str, form: str) -> Race:
    other, name = layouts(), f"{peer} {form}"
    if name not in other.said:
        raise LeftOut(other.said.get(peer, f"{peer} has no such form"))
    note = same(as_matrix(tile()).astype(np.int64), START + 2 * other.results[name], "addresses")
    return Race(timed(tile), other.timer(name), f"{note}, {peer} {other.said[name]}")


def _mma(one: Instruction, form: str) -> Race:
    other = mmasim()
    given = batch(one, "normal")
    note = same(multiply(one, given), other.results[f"{one.name}/normal"], "results of normally distributed numbers")
    odd = int((multiply(one, batch(one, "any")) != other.results[f"{one.name}/any"]).sum())
    note += f"; of any bits {odd:,} of {other.results[f'{one.name}/any'].size:,} differ"
    fastest = other.said[one.name]
    if form == "dpa":
        note += f"; its {fastest} tiles at once is the fastest"
    return Race(timed(lambda: multiply(one, given)), other.timer(one.name, fastest if form == "dpa" else form), note)


def _start(make: Callable[..., Race], *arguments: Any) -> Callable[[], Race]:
    return functools.partial(make, *arguments)


_FORMS = (("pycute", "one by one"), ("pycute", "on numpy arrays"), ("tensor-layouts", "one by one"), ("tensor-layouts", "on numpy arrays"),
          ("Triton", "invert().apply"), ("Triton", "bases, XORed by numpy"))  # fmt: skip
ROWS_OF_PEERS = (
    *(Row("addresses", f"operand addresses, the tile, beside {peer}, {form}", f"{peer}, {form}", TILE, "addresses", _start(_layout, peer, form), peer=True)
      for peer, form in _FORMS),
    *(Row("MMA", f"mma {one.name}, beside mmasim's {form}", f"mmasim 2.1.1, {what}", WORK, "MAC", _start(_mma, one, form), asked=asked, peer=True)
      for one in PEERED for form, what, asked in (("call", "called tile by tile", FASTER), ("dpa", "its dpa on many tiles", None))),
)  # fmt: skip
