"""Upper bounds of counters, as launch files have them: for a launch, a source line or a PTX line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from smemsim.base.arguments import shown, suggestion, whole
from smemsim.base.errors import InputError
from smemsim.core.spec.counters import COLUMNS

__all__ = ["Limit", "limits_of"]

_OTHER_NAMES = {"shared_wavefronts": "wavefronts", "global_sectors": "sectors"}
_NAMES = (*_OTHER_NAMES, *(c.name for c in COLUMNS))
_PLACE = re.compile(r"(?:line )?(\d+)|(\S.*:\d+)")


class Limit(NamedTuple):
    """At most `most` of a column: of the launch (`place` ""), of a source line ("gemm.cu:91") or of a
    PTX line ("67").
    """

    name: str
    column: str
    place: str
    most: int

    def holds_for(self, source: str, line: int) -> bool:
        """Is a row of the table meant?"""
        if not self.place:
            return True
        return str(line) == self.place if self.place.isdigit() else source == self.place or source.endswith("/" + self.place)


def limits_of(given: Any) -> tuple[Limit, ...]:
    """The bounds of a table such as {"shared_wavefronts": 1024, "global_sectors": {"gemm.cu:91": 64}}. Raises
    InputError.

    >>> limits_of({"shared_wavefronts": {"gemm.cu:91": 64}})
    (Limit(name='shared_wavefronts', column='wavefronts', place='gemm.cu:91', most=64),)
    """
    if not isinstance(given, Mapping):
        raise InputError(f"counters = {shown(given)}: needs true, false, or a table of upper bounds, as {{shared_wavefronts = 1024}}")
    found = []
    for name, value in given.items():
        if name not in _NAMES:
            raise InputError(f"counters: {shown(name)} is no counter{suggestion(str(name), _NAMES)}; there are {', '.join(_NAMES)}")
        for place, most in value.items() if isinstance(value, Mapping) else [("", value)]:
            where = _PLACE.fullmatch(str(place)) if place else None
            if place and where is None:
                raise InputError(f'counters.{name}: {shown(place)} is no line; needs "gemm.cu:91", or "67" for a line of the PTX')
            text = "" if where is None else where[1] or where[2]
            found.append(Limit(str(name), _OTHER_NAMES.get(str(name), str(name)), text, whole(f"counters.{name}", most, minimum=0)))
    return tuple(found)
