"""Python runs this when it starts under `smemsim exec`: it opens the doors in Python, then runs the `sitecustomize`
that is there besides.

A process that imports none of the libraries with a door does not import smemsim: it starts as fast as ever.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = ("torch", "triton", "cutlass", "cupy", "jax_plugins", "tilelang")  # of smemsim.virtual.process.DOORS
# modules of it that are no library's first
INSIDE = ("cuda.bindings._internal.runtime", "cuda.bindings._bindings.cyruntime")


class _Waiting:
    """Opens the doors when the first of these libraries is looked for."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """The importlib hook of this site."""
        if name.partition(".")[0] not in LIBRARIES and not name.startswith(INSIDE):
            return None
        if os.environ.get("CUDA_VISIBLE_DEVICES", "0")[:1] in ("", "-"):
            return None  # the program takes the card away from itself, as it is asked now
        sys.meta_path.remove(self)
        return sys.meta_path[0].find_spec(name, path, target) if _open() else None


def _open() -> bool:
    package = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
    if importlib.util.find_spec("smemsim") is None:
        sys.path.append(package)  # the program's own environment has no smemsim: this one serves
    try:
        from smemsim.virtual.process import open_on_import
    except ImportError as e:
        print(f"smemsim: {sys.executable} cannot import smemsim ({e}): Triton, torch and CuTe DSL find no device in it", file=sys.stderr)
        return False
    open_on_import()
    return True


def _run_the_other() -> None:
    elsewhere = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get("SMEMSIM_ARCH"):
        sys.meta_path.insert(0, _Waiting())
    _run_the_other()
