"""Compile in advance: the loops and ufuncs in `known.txt`, for the types listed there.

The command `python -m smemsim.base.compiling.ship LEVEL FOLDER` compiles them for one of the processors of
`loop.LEVELS`, for a wheel (tools/wheel.py). The function `fill` compiles them for this machine (`smemsim cache fill`).
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from smemsim.base import store
from smemsim.base.compiling.link import Code
from smemsim.base.compiling.loop import KNOWN, LEVELS, Loop, kept, packed, ufunc_key
from smemsim.base.compiling.source import python_of

__all__ = ["KNOWN", "fill", "known", "ship", "typed"]


_TOKEN = re.compile(r"[(),]|[^(),]+")


def known() -> Iterator[tuple[Any, str]]:
    """(a Loop, its types) and (the Python function of a ufunc, its signature), each in a line of the list."""
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        kind, name, types = line.split(" ", 2)
        module, _, own = name.partition(":")
        what = getattr(importlib.import_module(module), own)
        yield what if kind == "loop" else python_of(what), types


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


def _make(what: Any, types: str) -> Code | None:
    """The machine code of a loop for types, or of a ufunc for a signature. Imports numba.

    None for types that the loop no longer takes: the list only saves time, and an old line in it must not stop an
    installation.
    """
    from numba.core.errors import NumbaError

    from smemsim.base.compiling import build

    try:
        if isinstance(what, Loop):
            return build.object_of_function(what.py_func, typed(types), python_of)
        return build.object_of_ufunc(what, types, python_of)
    except (NumbaError, TypeError) as e:
        name = getattr(what, "__name__", what)
        print(
            f"{KNOWN.name}: {name} does not take {types} ({type(e).__name__}); delete this line of it",
            file=sys.stderr,
        )
        return None


def _key(what: Any, types: str) -> str:
    return what.key(types) if isinstance(what, Loop) else ufunc_key(what, types)


def ship(folder: pathlib.Path) -> int:
    """Compile all known loops for numba's current processor. Returns their number."""
    count = 0
    folder.mkdir(parents=True, exist_ok=True)
    for what, types in known():
        found = _make(what, types)
        if found is not None:
            key = _key(what, types)
            (folder / f"{key[:40]}{store.SUFFIX}").write_bytes(store.sealed(f"{key} {folder.name}", packed(found)))
            count += 1
    return count


def fill(part: int = 0, of: int = 1) -> int:
    """Compile what is known and not kept on this machine yet, or every `of`-th of it from the `part`-th on; how many
    are kept then.
    """
    rows = list(known())[part::of]
    return sum(kept(_key(what, types), functools.partial(_make, what, types)) is not None for what, types in rows)


if __name__ == "__main__":
    level, into = sys.argv[1:]
    os.environ["NUMBA_CPU_NAME"] = level
    os.environ["NUMBA_CPU_FEATURES"] = ",".join(f"+{feature}" for feature in LEVELS[level])
    print(f"{level}: {ship(pathlib.Path(into) / level)} functions")
