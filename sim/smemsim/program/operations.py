"""All instructions: importing this module imports every family of them, and with it registers the builders that stand there (`registry`).

A family is a folder beside this file.
"""

from __future__ import annotations

import importlib
import pathlib
import pkgutil

FAMILIES = ("alu", "barriers", "copies", "matrix", "memory", "tcgen05", "threads")
for _family in FAMILIES:
    for _found in pkgutil.iter_modules([str(pathlib.Path(__file__).with_name(_family))]):
        importlib.import_module(f"smemsim.program.{_family}.{_found.name}")
