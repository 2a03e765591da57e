"""Races of starts: what a command takes of the processor, from its beginning to its end, with its files in memory. The
first ones are those of a wheel, which is made for them: of an installation in which nothing has run yet, and whose
cache is empty.
"""

from __future__ import annotations

import compileall
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable

from smemsim.base.store import FOLDER
from tools.speeds.programs import KERNELS
from tools.speeds.race import LeftOut, Race, Row, once, used_by

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND, PYTHON = (sys.executable, "-m", "smemsim"), (sys.executable, "-c", "pass")
QUICK, RUN, FIRST = 0.1, 0.7, 3.0  # seconds that are asked for


def _run(kernel: str) -> tuple[str, ...]:
    return ("run", str(KERNELS / kernel / "kernel.ptx"), "--launch", str(KERNELS / kernel / "launch.json"))


STARTS = {
    "--help": (("--help",), QUICK),
    "plan --help": (("plan", "--help"), QUICK),
    "decode": (("decode", "0x4000404000010040", "--arch", "sm_100a"), QUICK),
    "plan": (("plan", "128x64", "--arch", "sm_100a", "--dtype", "bf16", "--major", "K"), QUICK),
    "run, Triton's add": (_run("triton_add_f32"), RUN),
    "run, a warp-specialised GEMM": (_run("gemm_specialized"), RUN),
}
FIRSTS = {name: words for name, (words, asked) in STARTS.items() if asked == RUN}


def _later(words: tuple[str, ...]) -> Callable[[], Race]:
    """A command that has run before."""

    def start() -> Race:
        ours = functools.partial(used_by, *COMMAND, *words)
        ours()
        return Race(once(ours), once(lambda: used_by(*PYTHON)), "processor time")

    return start


@functools.cache
def _installed() -> tempfile.TemporaryDirectory[str]:
    """A folder with what pip would install of a wheel of these sources, bytecode and all."""
    made = tempfile.TemporaryDirectory()
    try:
        bare = {
            key: value for key, value in os.environ.items() if key != "PYTHONPATH"
        }  # what builds is not to see these sources' neighbours
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", made.name, str(ROOT)], check=True, capture_output=True, env=bare
        )
    except (OSError, subprocess.CalledProcessError) as e:
        raise LeftOut(f"no wheel can be made: {e}") from None
    (wheel,) = pathlib.Path(made.name).glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(made.name)
    compileall.compile_dir(made.name, quiet=1)
    return made


def _first(words: tuple[str, ...]) -> Callable[[], Race]:
    """A command in a new installation, against the same again."""

    def start() -> Race:
        variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
        variables["PYTHONPATH"] = _installed().name
        kept = tempfile.TemporaryDirectory()

        def run(folder: str) -> float:
            return used_by(*COMMAND, *words, variables=variables | {FOLDER: folder})

        def anew() -> float:
            with tempfile.TemporaryDirectory() as folder:
                return run(folder)

        run(kept.name)
        return Race(once(anew), once(lambda: run(kept.name)), "processor time")

    return start


# fmt: off
ROWS_OF_STARTS = (
    *(Row("commands", f"smemsim {name}, the whole process", "an empty Python", 1, "starts", _later(words), asked_rate=1 / asked, rounds=7, long=True)
      for name, (words, asked) in STARTS.items()),
    *(Row("commands", f"smemsim {name}, the first after an installation", "later ones", 1, "starts", _first(words), asked_rate=1 / FIRST, rounds=5, long=True, peer=True)
      for name, words in FIRSTS.items()),
)
# fmt: on
