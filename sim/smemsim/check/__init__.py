"""Does a kernel read what it meant to read, and if not, which field is wrong?"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Package(types.ModuleType):
    """Importing this package binds `smemsim.check` to it: it then is the function `check` as well."""

    def __call__(self, scenario: Any) -> Any:
        from smemsim.check.scenario import check

        return check(scenario)


sys.modules[__name__].__class__ = _Package
