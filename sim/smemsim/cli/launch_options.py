"""A launch without a launch file: shapes and arguments as they stand on the command line."""

from __future__ import annotations

from typing import Any

from smemsim.arguments import shown, suggestion
from smemsim.errors import InputError

__all__ = ["ARGUMENT_HELP", "parse_arguments", "parse_ctas", "parse_shape"]

FLOATS = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2")
FILLS = {"zeros": "zeros", "ones": {"fill": 1}, "iota": {"iota": [0, 1]}, "bits": "bits"}
MOST_CTAS = 1 << 22
KINDS = (*FILLS, "random", "integers", "file", "null", "bytes", "scratch", "array")
ARGUMENT_HELP = (
    "An argument, one for each parameter in their order: u32:5 or f32:0.5 a number, zeros:f32:1024 ones:... iota:... an array, "
    "random:bf16:128x64 an array of random numbers (integers:s8:128x64:-3:3 of small whole ones), file:a.npy an array, array:0 the array of "
    "argument 0 again, scratch:4096 zeroed bytes, bytes:HEX a structure, null."
)


def parse_shape(name: str, text: str) -> list[int]:
    """One to three numbers.

    >>> parse_shape("--grid", "4"), parse_shape("--grid", "4,2"), parse_shape("--grid", "8x8x2")
    ([4], [4, 2], [8, 8, 2])
    """
    try:
        found = [int(part, 0) for part in text.strip(" ()[]").replace("x", ",").split(",")]
    except ValueError:
        found = []
    if not found or len(found) > 3 or min(found) < 1:
        raise InputError(f"{name} {shown(text)}: needs one to three numbers from 1 on, as 4,2")
    return found


def parse_ctas(text: str) -> list[int]:
    """Numbers of CTAs: "0-3", "0,5,7".

    >>> parse_ctas("0-3,8")
    [0, 1, 2, 3, 8]
    """
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            begin, end = int(first), int(last or first)
            if not 0 <= begin <= end or end - begin + len(found) > MOST_CTAS:
                raise ValueError
            found += range(begin, end + 1)
    except ValueError:
        raise InputError(f"--ctas {shown(text)}: needs numbers of CTAs, as 0-3 or 0,5") from None
    return found


def parse_arguments(texts: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(args, arrays) of a launch file from texts such as "u32:5" and "zeros:f32:128x64"; arrays are called arg0, arg1 ... after their places.

    >>> parse_arguments(("zeros:f32:8", "u32:5"))[0]
    [{'array': 'arg0'}, {'value': 5, 'type': 'u32'}]
    """
    from smemsim.traces.launch_checks import VALUES

    args: list[dict[str, Any]] = []
    arrays: list[dict[str, Any]] = []
    for n, text in enumerate(texts):
        kind, _, rest = text.partition(":")
        where = f"--arg {shown(text)}"
        if kind in VALUES:
            args.append({"value": _number(where, rest, is_float=kind.startswith("f")), "type": kind})
        elif kind == "null":
            args.append({"null": True})
        elif kind == "bytes":
            args.append({"bytes": rest})
        elif kind == "scratch":
            args.append({"scratch": _number(where, rest, is_float=False)})
        elif kind == "array":
            if f"arg{rest}" not in [one["name"] for one in arrays]:
                raise InputError(f"{where}: needs the number of an earlier argument that is an array, the first is 0")
            args.append({"array": f"arg{rest}"})
        elif kind in KINDS:
            recipe = {"file": rest} if kind == "file" else _recipe(where, kind, rest, n)
            arrays.append({"name": f"arg{n}", **recipe})
            args.append({"array": f"arg{n}"})
        else:
            raise InputError(f"{where}: {shown(kind)} is none of {' '.join((*KINDS, *VALUES))}{suggestion(kind, (*KINDS, *VALUES))}")
    return args, arrays


def _recipe(where: str, kind: str, rest: str, n: int) -> dict[str, Any]:
    from smemsim.traces.recipes import WIDTHS

    dtype, _, more = rest.partition(":")
    shape, *limits = more.split(":")
    try:
        extents = [int(x, 0) for x in shape.replace(",", "x").split("x")]
        numbers = [int(x, 0) for x in limits]
    except ValueError:
        raise InputError(f"{where}: needs a shape behind the type, as {kind}:{dtype or 'f32'}:128x64") from None
    if dtype not in WIDTHS:
        raise InputError(f"{where}: {shown(dtype)} is none of the types {' '.join(WIDTHS)}{suggestion(dtype, WIDTHS)}")
    if min(extents) < 0 or len(numbers) != (2 if kind == "integers" else 0):
        raise InputError(f"{where}: needs {kind}:TYPE:SHAPE{':LOWEST:HIGHEST' if kind == 'integers' else ''}")
    what: Any = FILLS.get(kind)
    if kind == "random":
        what = {"normal": [0, 1]} if dtype in FLOATS else "bits"
    elif kind == "integers":
        what = {"integers": numbers}
    return {"dtype": dtype, "shape": extents, "seed": n + 1, "distribution": what}


def _number(where: str, text: str, *, is_float: bool) -> int | float:
    try:
        return float(text) if is_float else int(text, 0)
    except ValueError:
        raise InputError(f"{where}: needs a {'number' if is_float else 'whole number'} behind the colon") from None
