"""What `python -m build` and `pip wheel .` do besides: the C libraries of the virtual GPU go into the wheel, so that nobody needs a compiler.

Where there is no C compiler, or not Linux, the wheel is one for all machines, without them: `smemsim exec` builds them on first use.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "sim"
WITHIN = "smemsim/virtual/clib/built"


class WheelHook(BuildHookInterface):
    """Called by hatchling: `[tool.hatch.build.targets.wheel.hooks.custom]`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries into a folder of their own, and have them packed."""
        sys.path.insert(0, str(SOURCES))
        from smemsim.virtual import build

        compiler = build.compiler()
        if version == "editable" or sys.platform != "linux" or compiler is None:
            return
        self.folder = tempfile.mkdtemp()
        build.build(pathlib.Path(self.folder), compiler)
        for path in sorted(pathlib.Path(self.folder).glob("*.so*")):
            build_data["force_include"][str(path)] = f"{WITHIN}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written."""
        shutil.rmtree(getattr(self, "folder", os.devnull), ignore_errors=True)
