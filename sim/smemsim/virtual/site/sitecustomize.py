"""Python runs this when it starts under `smemsim exec`: it opens the doors in Python, then runs the `sitecustomize` that is there besides."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _open() -> None:
    package = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
    if importlib.util.find_spec("smemsim") is None:
        sys.path.append(package)  # the program's own environment has no smemsim: this one serves
    try:
        from smemsim.virtual.process import open_on_import
    except ImportError as e:
        print(f"smemsim: {sys.executable} cannot import smemsim ({e}): Triton, torch and CuTe DSL find no device in it", file=sys.stderr)
        return
    open_on_import()


def _run_the_other() -> None:
    elsewhere = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get("SMEMSIM_ARCH"):
        _open()
    _run_the_other()
