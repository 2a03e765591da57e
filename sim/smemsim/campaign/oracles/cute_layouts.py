"""CuTe's algebra against NVIDIA's own pycute: both must be the same function of the coordinate.

pycute is part of the package nvidia-cutlass. The package called pycute is another one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from smemsim.base.errors import InputError
from smemsim.campaign.oracles.differential import Case, Oracle, Verdict
from smemsim.core.layout.cute import CuteLayout, CuteSwizzle, Nested, coalesce, composition, logical_divide, zipped_divide

__all__ = ["ORACLE", "case_of", "compare"]


OPERATIONS = ("call", "coalesce", "composition", "logical_divide", "zipped_divide", "swizzle")
MOST = 512  # coordinates that are tried, of one layout


def _tuples(value: Any) -> Nested:
    return tuple(_tuples(x) for x in value) if isinstance(value, (list, tuple)) else int(value)


def _values(layout: Callable[[int], int], size: int) -> list[int]:
    return [layout(i) for i in range(min(size, MOST))]


def _refused(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    try:
        return call()
    except errors:
        return None


def compare(case: Case) -> Verdict:
    """One operation on one layout, by both."""
    import pycute

    kind = case["of"]
    if kind == "swizzle":
        bits, base, shift = case["swizzle"]
        ours, theirs = CuteSwizzle(bits, base, shift), pycute.Swizzle(bits, base, shift)
        wrong = [x for x in case["offsets"] if ours(x) != theirs(x)]
        return kind, f"{ours} of {wrong[0]} is {ours(wrong[0])}, pycute says {theirs(wrong[0])}" if wrong else ""
    shape, stride, tiler = _tuples(case["shape"]), _tuples(case["stride"]), _tuples(case.get("tiler", 1))
    mine, peer = CuteLayout(shape, stride), pycute.Layout(shape, stride)
    if kind == "call":
        return kind, _values_differ(mine, peer)
    if kind == "composition":
        inner = (tiler, _tuples(case["steps"]))
        ours = _refused(lambda: composition(mine, CuteLayout(*inner)), InputError)
        theirs = _refused(lambda: pycute.composition(peer, pycute.Layout(*inner)), AssertionError)
    else:
        if kind != "coalesce" and not isinstance(tiler, int):
            parts: Any = tuple(pycute.Layout(x) for x in tiler)
        else:
            parts = pycute.Layout(tiler)
        calls: dict[str, tuple[Callable[[], CuteLayout], Callable[[], Any]]] = {
            "coalesce": (lambda: coalesce(mine), lambda: pycute.coalesce(peer)),
            "logical_divide": (lambda: logical_divide(mine, tiler), lambda: pycute.logical_divide(peer, parts)),
            "zipped_divide": (lambda: zipped_divide(mine, tiler), lambda: pycute.zipped_divide(peer, parts)),  # type: ignore[arg-type]
        }
        ours = _refused(calls[kind][0], InputError)
        theirs = _refused(calls[kind][1], AssertionError)
    if ours is None or theirs is None:
        # The two accept different inputs. If only one accepts an input, its result must still be right by CuTe's
        # definition: inside the layout, with no two coordinates of the tiler in one place. The modes of other tilers
        # are taken one by one.
        if ours is not None and kind == "composition" and _fits(CuteLayout(*inner), mine):
            by_definition = [mine(CuteLayout(*inner)(i)) for i in range(min(ours.size, MOST))]
            if _values(ours, ours.size) != by_definition:
                return f"{kind} by definition", f"{mine} after {CuteLayout(*inner)} is {ours}, which is not layout(tiler(i))"
        return f"{kind} refused by {'both' if ours is theirs else 'us' if ours is None else 'pycute'}", ""
    what = _values_differ(ours, theirs)
    return kind, f"{kind} of {mine}: {what}" if what else ""


def _fits(tiler: CuteLayout, layout: CuteLayout) -> bool:
    """Does the tiler name coordinates of the layout, each once?"""
    return tiler.cosize <= layout.size and len(set(_values(tiler, tiler.size))) == min(tiler.size, MOST)


def _values_differ(ours: CuteLayout, theirs: Any) -> str:
    if ours.size != theirs.size():
        return f"{ours} has {ours.size} coordinates, pycute's {theirs} has {theirs.size()}"
    for i in range(min(ours.size, MOST)):
        if ours(i) != theirs(i):
            return f"{ours} of {i} is {ours(i)}, pycute's {theirs} gives {theirs(i)}"
    return ""


def _shape(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.5:
        return rng.choice((1, 2, 2, 3, 4, 4, 6, 8, 8, 16))
    return [_shape(rng, depth - 1) for _ in range(rng.choice((1, 2, 2, 3)))]


def _stride(rng: random.Random, shape: Any, compact: Iterator[int] | None) -> Any:
    if isinstance(shape, list):
        return [_stride(rng, x, compact) for x in shape]
    return next(compact) if compact else rng.choice((0, 1, 2, 3, 4, 8, 16, 24, 64, 512))


def _sizes(shape: Any) -> list[int]:
    return [x for part in shape for x in _sizes(part)] if isinstance(shape, list) else [shape]


def _compact(rng: random.Random, shape: Any) -> Iterator[int]:
    """Strides of a layout without holes, the modes in any order."""
    sizes = _sizes(shape)
    order, strides, step = rng.sample(range(len(sizes)), len(sizes)), [0] * len(sizes), 1
    for i in order:
        strides[i], step = step, step * sizes[i]
    return iter(strides)


def case_of(rng: random.Random) -> Case:
    """A layout of up to three levels, half of them without holes, and what is done with it."""
    kind = rng.choice(OPERATIONS)
    if kind == "swizzle":
        bits = rng.randrange(5)  # a shift of 0 is legal in CuTe, and endless in pycute
        return {
            "of": kind,
            "swizzle": [bits, rng.randrange(6), rng.randrange(max(bits, 1), 6)],
            "offsets": [rng.getrandbits(18) for _ in range(16)],
        }
    shape = [_shape(rng, 2) for _ in range(rng.choice((1, 2, 2, 3)))] if kind == "zipped_divide" else _shape(rng, 3)
    case = {"of": kind, "shape": shape, "stride": _stride(rng, shape, _compact(rng, shape) if rng.random() < 0.5 else None)}
    if kind == "composition":
        tiler = _shape(rng, 1)
        case |= {"tiler": tiler, "steps": _stride(rng, tiler, None)}
    elif kind == "zipped_divide" or (kind == "logical_divide" and isinstance(shape, list) and rng.random() < 0.5):
        case["tiler"] = [rng.choice((1, 2, 4, 8)) for _ in shape]
    elif kind == "logical_divide":
        case["tiler"] = rng.choice((1, 2, 4, 8))
    return case


def _numbers(value: Any, way: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if isinstance(value, list):
        for i, part in enumerate(value):
            yield from _numbers(part, (*way, i))
    else:
        yield way


def _with(value: Any, way: tuple[int, ...], number: int) -> Any:
    if not way:
        return number
    return [_with(part, way[1:], number) if i == way[0] else part for i, part in enumerate(value)]


def _at(value: Any, way: tuple[int, ...]) -> int:
    for i in way:
        value = value[i]
    return int(value)


def _smaller(case: Case) -> Iterator[Case]:
    """A mode fewer, a size or a stride less."""
    if case["of"] == "swizzle":
        yield from (case | {"offsets": [x]} for x in case["offsets"])
        return
    shape, stride, tiler = case["shape"], case["stride"], case.get("tiler")
    if isinstance(shape, list) and len(shape) > 1:
        for i in range(len(shape)):
            less = {"shape": shape[:i] + shape[i + 1 :], "stride": stride[:i] + stride[i + 1 :]}
            if case["of"] != "composition" and isinstance(tiler, list):
                less["tiler"] = tiler[:i] + tiler[i + 1 :]
            yield case | less
    for name in ("shape", "stride", "tiler", "steps"):
        if name in case:
            for way, number in itertools.product(_numbers(case[name]), (0, 1, 2)):
                if number < _at(case[name], way) and not (number == 0 and name in ("shape", "tiler")):
                    yield case | {name: _with(case[name], way, number)}


ORACLE = Oracle(
    "cute-layouts", "CuTe's layout algebra and swizzles against NVIDIA's pycute, as functions of the coordinate",
    draw=case_of, compare=compare, smaller=_smaller, chunk_cases=2000, needs=("pycute",),
)  # fmt: skip
