"""Commands of `smemsim`, each in a process of its own, but without what every one of them imports: one process has
imported it, and forks the others.
"""

import functools
import multiprocessing
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile

import smemsim.run.isa

__all__ = ["forked"]


def forked(arguments, *, env, timeout=120):
    """What a command prints, and what it ends with."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        process = _forks().Process(target=_run, args=([*map(str, arguments)], os.getcwd(), dict(env), outputs))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(pathlib.Path(path).read_text() for path in outputs))


@functools.cache
def _forks():
    forks = multiprocessing.get_context("forkserver")
    of_devices = [f"smemsim.virtual.{name}" for name in ("exec", "server", "machine", "record")]
    of_instructions = [module.name for module in pkgutil.walk_packages(smemsim.run.isa.__path__, "smemsim.run.isa.")]
    forks.set_forkserver_preload(["smemsim.cli.exec", *of_devices, *of_instructions, "llvmlite.binding", "numpy.ma"])
    return forks


def _run(arguments, folder, env, outputs):
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["smemsim", *arguments]
    from smemsim.cli import main

    main()
