"""All operations: importing this module imports every module of the package that instructions may stand in, and with it registers their builders (`registry`).

Those that make programs and start them are no such modules: they need the builders.
"""

from __future__ import annotations

import importlib
import pkgutil

import smemsim.program

_NEED_BUILDERS = {"smemsim.program.device", "smemsim.program.spread"}

for _found in pkgutil.walk_packages(smemsim.program.__path__, "smemsim.program."):
    if _found.name not in _NEED_BUILDERS:
        importlib.import_module(_found.name)
