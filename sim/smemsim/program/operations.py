"""All operations: importing this module imports every module of the package, and with it registers the builders that stand in them (`registry`)."""

from __future__ import annotations

import importlib
import pkgutil

import smemsim.program

for _found in pkgutil.walk_packages(smemsim.program.__path__, "smemsim.program."):
    importlib.import_module(_found.name)
