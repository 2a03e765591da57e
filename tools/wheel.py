"""What `python -m build` and `pip wheel .` do besides: the C libraries of the virtual GPU and the machine code of the
loops go into the wheel, so that nobody needs a compiler, and the first run compiles nothing.

Without a C compiler, or outside Linux, the wheel has no libraries: `smemsim exec` builds them on first use. Without
numba (`--no-build-isolation`), or outside x86-64, the loops are compiled on first use. The wheel's tag says what it
contains: with loops it is for this CPython (with another numba than the one it was built with they are compiled on
first use), with libraries alone for this platform, with neither for all. An editable install compiles the loops for
this machine, into the folder that `smemsim cache where` prints.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "sim"
WITHIN = "smemsim/virtual/clib/built"
LOOPS = "smemsim/base/compiling/built"


class WheelHook(BuildHookInterface):
    """Called by hatchling: `[tool.hatch.build.targets.wheel.hooks.custom]`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is built into a folder of its own, and have it packed."""
        if version == "editable":
            _fill()
        if version == "editable" or sys.platform != "linux":
            return
        self.folder = tempfile.mkdtemp()
        libraries, loops = pathlib.Path(self.folder, "libraries"), pathlib.Path(self.folder, "loops")
        _libraries(libraries)
        _loops(loops)
        for folder, within in ((libraries, WITHIN), (loops, LOOPS)):
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                build_data["force_include"][str(path)] = f"{within}/{path.relative_to(folder)}"
                build_data["pure_python"] = False
        build_data["tag"] = tag(has_libraries=any(libraries.rglob("*.so*")), has_loops=loops.exists())

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written."""
        shutil.rmtree(getattr(self, "folder", os.devnull), ignore_errors=True)


def tag(*, has_libraries: bool, has_loops: bool) -> str:
    """The tag of a wheel by what it contains. The loops call this CPython's C functions; the C libraries know nothing
    of Python.

    >>> tag(has_libraries=False, has_loops=False)
    'py3-none-any'
    """
    if not has_libraries and not has_loops:
        return "py3-none-any"
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    place = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{own}-{own}-{place}" if has_loops else f"py3-none-{place}"


def _module(name: str, *words: str) -> list[str]:
    """The command that runs a module of the sources here, with the packages that pip has to build with.

    PYTHONPATH does not do: where these sources are installed editable, pip's own start of a building process takes
    their folder out of the path.
    """
    first = f"import runpy, sys; sys.path.insert(0, {str(SOURCES)!r}); runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-c", first, *words]


def _fill() -> None:
    """This machine's folder of machine code. Nothing but the first run's time depends on it."""
    if importlib.util.find_spec("numba") is not None:
        subprocess.run(_module("smemsim", "cache", "fill"), check=False, stdout=subprocess.DEVNULL)


def _libraries(folder: pathlib.Path) -> None:
    """The C libraries, where there is a compiler."""
    sys.path.insert(0, str(SOURCES))
    from smemsim.virtual import build

    folder.mkdir()
    if compiler := build.compiler():
        build.build(folder, compiler)


def _loops(folder: pathlib.Path) -> None:
    """The loops' machine code for each level of processors, where there is numba."""
    if importlib.util.find_spec("numba") is None or platform.machine() != "x86_64":
        return
    from smemsim.base.compiling.loop import LEVELS

    running = [subprocess.Popen(_module("smemsim.base.compiling.ship", level, str(folder))) for level in LEVELS]
    for process in running:
        if process.wait():
            raise RuntimeError("the loops cannot be compiled")
