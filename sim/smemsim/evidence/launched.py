"""`launch_file`: run what a launch file describes, from Python."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from smemsim.base.arguments import shown, suggestion
from smemsim.base.budget import ask
from smemsim.base.errors import InputError
from smemsim.base.files import source_folders
from smemsim.base.floating_point import in_default_state
from smemsim.core.ptx.module import Module
from smemsim.core.spec.architectures import MACHINES
from smemsim.diagnosis.gpu import Gpu
from smemsim.diagnosis.run import Run
from smemsim.evidence.launches import KERNEL, LaunchFile, read_launch_file
from smemsim.run.engine.arrays import DeviceArray
from smemsim.run.engine.device import entry_of, target_of
from smemsim.run.engine.launch import RunOptions
from smemsim.run.lower.program import module_of

__all__ = ["arch_of", "launch_file"]


@in_default_state
def launch_file(
    path: str | os.PathLike[str],
    *,
    ptx: str | os.PathLike[str] | None = None,
    random: bool = False,
    allowed: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> tuple[Run, dict[str, DeviceArray]]:
    """Run a launch file (.toml or .json) or its folder, like `smemsim run`. Returns (the run, its arrays by name after
    the launch).

    - The PTX file is `ptx`. Default: the key of the launch file, else kernel.ptx next to it.
    - With `random`, arrays get the second filling of the launch file.
    - Folders in `allowed` may have files that the launch file names. Other files must be in its folder or below.
    - The options are those of `Gpu.launch` (`observers`, `sanitize`, `watch_global`, `ctas`, `limit`, `limit_seconds`,
      `workers`, `progress`, `schedule`, `assume`, ...). They override the file.

    Expected outputs are not compared. Raises InputError with file, line and key, and Unmodelled like `Gpu.launch`.

    >>> from smemsim import launch_file
    >>> launch_file("nowhere.toml")
    Traceback (most recent call last):
    smemsim.base.errors.InputError: nowhere.toml: there is no such file
    """
    known = [field.name for field in dataclasses.fields(RunOptions)]
    for name in options:
        if name not in known:
            raise InputError(
                f"{name}: there is no such option{suggestion(name, known)}; there are {', '.join(known)}, and what is launched stands in the file"
            )
    if not isinstance(allowed, (list, tuple)):
        raise InputError(f"allowed = {shown(allowed)}: needs a list of folders")
    folders = [_path("allowed", folder) for folder in allowed]
    launch = read_launch_file(_path("path", path), None if ptx is None else _path("ptx", ptx), allowed=folders)
    name = str(launch.folder / launch.about.get("ptx", KERNEL) if ptx is None else ptx)
    module = module_of(launch.ptx, name)
    function = module.functions[entry_of(module, launch.about["entry"] or None)]
    launch.check_count(function)
    launch.check_types(function.parameters)
    gpu = Gpu(arch_of(launch, module, name))
    ask("the arrays", 2 * launch.array_bytes)
    arrays, args = launch.placed(gpu, random=random)
    sources = list(source_folders([pathlib.Path(name).parent, launch.folder], folders))
    run = gpu.run(module, launch.config(args), RunOptions(**{"name": name, "sources": sources, **launch.options, **options}))
    return run, arrays


def _path(name: str, given: Any) -> pathlib.Path:
    if not isinstance(given, (str, os.PathLike)) or "\0" in os.fsdecode(given):
        raise InputError(f"{name} = {shown(given)}: needs a path")
    return pathlib.Path(os.fsdecode(given))


def arch_of(launch: LaunchFile, module: Module, name: str) -> str:
    """The architecture to run on: the given one, else .target of the PTX."""
    if launch.about["arch"]:
        return str(launch.about["arch"])
    target = target_of(module)
    if target not in MACHINES:
        raise InputError(f"{name}: .target {target}: smemsim runs PTX for {', '.join(MACHINES)}, and for older GPUs than these")
    return target
