"""The machine code that a wheel has: of the loops and ufuncs in `known.txt`, for the types listed there, for each processor of `loop.LEVELS`.

`python -m smemsim.compiling.ship LEVEL FOLDER` compiles those of one processor; tools/wheel.py does it for all.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from smemsim import store
from smemsim.compiling.loop import LEVELS, Loop, packed, ufunc_key
from smemsim.compiling.source import python_of

__all__ = ["KNOWN", "known", "ship", "typed"]


KNOWN = pathlib.Path(__file__).with_name("known.txt")
_TOKEN = re.compile(r"[(),]|[^(),]+")


def known() -> Iterator[tuple[str, Any, str]]:
    """("loop", the Loop, its types) and ("ufunc", the Python function, its signature), each in a line of the list."""
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        kind, name, types = line.split(" ", 2)
        module, _, own = name.partition(":")
        yield kind, getattr(importlib.import_module(module), own), types


def typed(text: str) -> tuple[Any, ...]:
    """Arguments of the types that `loop.describe` described.

    >>> [type(x).__name__ for x in typed("int,(<f8 2 C w,bool),uint16")]
    ['int', 'tuple', 'uint16']
    """
    tokens = _TOKEN.findall(text)
    found = _row(tokens)
    assert not tokens, text
    return found


def _row(tokens: list[str]) -> tuple[Any, ...]:
    found = []
    while tokens and tokens[0] != ")":
        found.append(_one(tokens))
        if tokens and tokens[0] == ",":
            tokens.pop(0)
    return tuple(found)


def _one(tokens: list[str]) -> Any:
    import numpy as np

    head = tokens.pop(0)
    if head == "(" or (tokens and tokens[0] == "("):
        if head != "(":
            tokens.pop(0)
        fields = _row(tokens)
        tokens.pop(0)
        if head == "(":
            return fields
        module, _, name = head.partition(":")
        return getattr(importlib.import_module(module), name)(*fields)
    scalars = {"int": 1, "wide": 1 << 63, "bool": True, "float": 1.0}
    if head in scalars:
        return scalars[head]
    if ":" in head:  # a member of an enumeration
        module, _, name = head.partition(":")
        return next(iter(getattr(importlib.import_module(module), name)))
    if " " not in head:
        return np.dtype(head).type(0)
    return _array(*head.split(" "))


def _array(dtype: str, dimensions: str, layout: str, access: str, *unaligned: str) -> Any:
    import numpy as np

    of, shape = np.dtype(dtype), (2,) * int(dimensions)
    whole = np.zeros(16 * int(np.prod(shape)) * of.itemsize + 1, np.uint8)[1 if unaligned else 0 :][: 2 * int(np.prod(shape)) * of.itemsize]
    found = whole.view(of).reshape(*shape, 2)[..., 0] if layout == "A" else whole.view(of)[: int(np.prod(shape))].reshape(shape)
    found.flags.writeable = access == "w"
    return found


def ship(folder: pathlib.Path) -> int:
    """Compile all that is known, for the processor that numba was told of; how many there are. Importing what it needs imports numba."""
    from smemsim.compiling import build

    count = 0
    folder.mkdir(parents=True, exist_ok=True)
    for kind, what, types in known():
        if kind == "loop":
            assert isinstance(what, Loop)
            key, found = what.key(types), build.object_of_function(what.py_func, typed(types), python_of)
        else:
            key, found = ufunc_key(what, types), build.object_of_ufunc(what, types, python_of)
        if found is not None:
            (folder / f"{key[:40]}{store.SUFFIX}").write_bytes(store.sealed(packed(found)))
            count += 1
    return count


if __name__ == "__main__":
    level, into = sys.argv[1:]
    os.environ["NUMBA_CPU_NAME"] = level
    os.environ["NUMBA_CPU_FEATURES"] = ",".join(f"+{feature}" for feature in LEVELS[level])
    print(f"{level}: {ship(pathlib.Path(into) / level)} functions")
