"""`maps`: random tensor maps, legal ones and ones at an edge. Every byte of a load, and the 128 bytes, are compared.

This model of a load knows no rows, chunks or XOR. It takes the elements of the box one by one, and places them by the
tables of `keys`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.campaign.space import Case, Space, drawn, one_by_one, shrunk
from smemsim.campaign.spaces.keys import placed_by_table
from smemsim.core.finding import TensorMapError
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.tensor_map import TensorMap

__all__ = ["SPACE", "draw", "element_by_element", "mutated"]


CHUNK_CASES = 512
SIZES = {"UINT8": 1, "UINT16": 2, "FLOAT16": 2, "BFLOAT16": 2, "UINT32": 4, "INT32": 4, "FLOAT32": 4, "UINT64": 8, "INT64": 8, "FLOAT64": 8}
WIDTHS = {"SWIZZLE_NONE": 256, "SWIZZLE_32B": 32, "SWIZZLE_64B": 64, "SWIZZLE_128B": 128}  # most bytes of an inner row
MODE = {"SWIZZLE_NONE": Swizzle.NONE, "SWIZZLE_32B": Swizzle.B32, "SWIZZLE_64B": Swizzle.B64, "SWIZZLE_128B": Swizzle.B128}
MOST_ROWS = 48
EDGES: dict[str, tuple[int, ...]] = {
    "global_address": (0, 8, 16, 24, 1 << 40, 1 << 63, -16),
    "global_dim": (0, 1, 1 << 31, (1 << 31) + 1, 1 << 32, (1 << 32) + 1, -1),
    "global_strides": (0, 8, 16, 32, (1 << 40) - 16, 1 << 40, -16),
    "box_dim": (0, 1, 2, 8, 31, 64, 128, 256, 257, -1),
    "element_strides": (0, 1, 2, 8, 9, -1),
    "data_type": (*range(18), -1),
    "swizzle": (0, 1, 2, 3, 4, 5, 6, 7, -1),
    "interleave": (0, 1, 2, 3, -1),
    "l2_promotion": (0, 1, 2, 3, 4, -1),
    "oob_fill": (0, 1, 2, -1),
}


def draw(rng: random.Random) -> tuple[dict[str, Any], tuple[int, ...], int]:
    """(arguments of cuTensorMapEncodeTiled, coordinates, shared address): legal, the box often over an edge of the
    tensor.

    >>> arguments, at, smem = draw(random.Random(2))
    >>> len(at) == len(arguments["box_dim"]), smem % 128
    (True, 0)
    """
    data_type, swizzle, rank = rng.choice(list(SIZES)), rng.choice(list(WIDTHS)), rng.randint(1, 5)
    size = SIZES[data_type]
    chunk = 16 // size
    box = [chunk * rng.randint(1, min(WIDTHS[swizzle] // 16, 256 // chunk))]
    dim, strides, steps, left = [rng.randint(1, 4 * box[0] + 3)], [], [rng.randint(1, 8)], MOST_ROWS
    extent = dim[0] * size
    for _ in range(rank - 1):
        step, rows = rng.randint(1, 3), rng.randint(1, max(1, min(left, 9)))
        left //= rows
        box.append(rng.randint((rows - 1) * step + 1, rows * step))
        steps.append(step)
        strides.append(-(-extent // 16) * 16 + 16 * rng.randint(0, 2))
        dim.append(rng.randint(1, 30))
        extent = strides[-1] * dim[-1]
    inside = rng.random() < 0.5  # as far as the tensor is large enough
    low, high = (
        ([0] * rank, [max(d - b, 0) for d, b in zip(dim, box, strict=True)]) if inside else ([-b for b in box], [d + 1 for d in dim])
    )
    at = (rng.randint(-(-low[0] // chunk), high[0] // chunk) * chunk, *(rng.randint(low[i], high[i]) for i in range(1, rank)))
    arguments = {
        "data_type": data_type, "global_address": 16 * rng.randint(1 << 12, 1 << 30), "global_dim": tuple(dim), "global_strides": tuple(strides),
        "box_dim": tuple(box), "element_strides": tuple(steps), "interleave": "INTERLEAVE_NONE", "swizzle": swizzle,
        "l2_promotion": rng.choice(("NONE", "L2_64B", "L2_128B", "L2_256B")),
        "oob_fill": rng.choice(("NONE", "NAN_REQUEST_ZERO_FMA")) if "FLOAT" in data_type else "NONE",
    }  # fmt: skip
    return arguments, at, 128 * rng.randint(8, 1000)


def mutated(arguments: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The arguments with one to three of them moved to an edge."""
    other = dict(arguments)
    for name in rng.sample(sorted(EDGES), rng.randint(1, 3)):
        value, old = rng.choice(EDGES[name]), other[name]
        if isinstance(old, tuple) and old:
            i = rng.randrange(len(old))
            other[name] = (*old[:i], value, *old[i + 1 :])
        elif not isinstance(old, tuple):
            other[name] = value
    return other


def element_by_element(arguments: dict[str, Any], at: tuple[int, ...], smem_address: int) -> dict[int, int]:
    """Shared byte -> global byte of a load, -1 for fill; element by element, for legal arguments without interleave.

    >>> m = {"data_type": "UINT8", "global_address": 4096, "global_dim": (32,), "global_strides": (), "box_dim": (16,), "element_strides": (1,),
    ...      "swizzle": "SWIZZLE_NONE"}
    >>> sorted(element_by_element(m, (24,), 1024).items())[7:9]
    [(1031, 4127), (1032, -1)]
    """
    size, mode = SIZES[arguments["data_type"]], MODES[MODE[arguments["swizzle"]]]
    dims, box, steps = arguments["global_dim"], arguments["box_dim"], (1, *arguments["element_strides"][1:])
    places = [[c for c in range(at[i], at[i] + box[i], steps[i])] for i in range(len(box))]  # noqa: C416
    inner = len(places[0]) * size
    pitch = mode.width if mode.mask else inner
    linear, source = [], []
    for row, outer in enumerate(itertools.product(*reversed(places[1:]))):  # the last dimension is the slowest
        outside = any(not 0 <= c < dim for c, dim in zip(reversed(outer), dims[1:], strict=True))
        begin = arguments["global_address"] + sum(c * s for c, s in zip(reversed(outer), arguments["global_strides"], strict=True))
        for number, c in enumerate(places[0]):
            for byte in range(size):
                linear.append(smem_address + row * pitch + number * size + byte)
                source.append(-1 if outside or not 0 <= c < dims[0] else begin + c * size + byte)
    shared = placed_by_table(np.array(linear, np.int64), 0, mode)
    return dict(zip(shared.tolist(), source, strict=True))


def _load(arguments: dict[str, Any], at: tuple[int, ...], smem_address: int) -> tuple[str, str]:
    """(class, what is wrong) of a load of a legal map."""
    try:
        tm = TensorMap.tiled(**arguments)
        load = tma_load(tm, at, smem_address=smem_address)
    except HardwareTrap as e:
        return f"load traps, {e.cuda_error}", ""
    except TensorMapError as e:
        return "wrong: a legal map is refused", f"{e}"
    got = dict(zip(load.shared_address.tolist(), load.global_address.tolist(), strict=True))
    want = element_by_element(arguments, at, smem_address)
    if got == want:
        inside = sum(source >= 0 for source in want.values())
        return f"load {'of nothing but fill' if not inside else 'inside' if inside == len(want) else 'over an edge'}", ""
    byte = min(b for b in {*got, *want} if got.get(b) != want.get(b))
    return "wrong: a load differs", f"shared byte {byte:#x}: {got.get(byte)} instead of {want.get(byte)}"


def _verdict(arguments: dict[str, Any]) -> tuple[str, str]:
    """(class, what is wrong) of what the encoder and the 128 bytes say of any arguments."""
    try:
        tm = TensorMap.tiled(**arguments)
    except TensorMapError as e:
        again = _refused(arguments)
        rule = e.violations[0].partition(":")[0] if e.violations else ""
        return (
            ("refused", "")
            if again == tuple(e.violations) and rule
            else ("wrong: a refusal without a reason", f"{e.violations} then {again}")
        )
    except InputError as e:
        return ("no arguments", "") if str(e) else ("wrong: an error without a sentence", repr(e))
    try:
        raw = bytes(tm)
    except Unmodelled:
        return "encoded nobody knows how", ""
    read = TensorMap.from_bytes(raw)
    if bytes(read) != raw:
        return "wrong: other bytes", f"{raw.hex()} becomes {bytes(read).hex()}"
    if read.broken_rules:
        return "wrong: a legal map breaks rules once it is read", ", ".join(read.broken_rules)
    codes = [sorted({f.code for f in one.problems()}) for one in (tm, read)]
    if codes[0] != codes[1]:
        return "wrong: another verdict", f"{codes[0]} before, {codes[1]} once it is read from its bytes"
    return "encoded, the same once read", ""


def _refused(arguments: dict[str, Any]) -> tuple[str, ...]:
    try:
        TensorMap.tiled(**arguments)
    except TensorMapError as e:
        return tuple(e.violations)
    return ()


def _simpler(one: tuple[dict[str, Any], tuple[int, ...], int]) -> Iterator[tuple[dict[str, Any], tuple[int, ...], int]]:
    arguments, at, smem = one
    if smem != 1024:
        yield arguments, at, 1024
    for i, c in enumerate(at):
        if c:
            yield arguments, (*at[:i], 0, *at[i + 1 :]), smem
    plain = {
        "swizzle": "SWIZZLE_NONE",
        "l2_promotion": "NONE",
        "oob_fill": "NONE",
        "element_strides": (1,) * len(at),
        "global_address": 1 << 16,
    }
    for name, value in plain.items():
        if arguments[name] != value:
            yield arguments | {name: value}, at, smem
    for i, extent in enumerate(arguments["box_dim"][1:], 1):
        if extent > 1:
            yield arguments | {"box_dim": (*arguments["box_dim"][:i], 1, *arguments["box_dim"][i + 1 :])}, at, smem


def case(seed: int, chunk: int, number: int) -> Case:
    """One map: a load of a legal one, or the verdict on one that was moved to an edge."""
    rng = drawn("maps", seed, chunk, number)
    arguments, at, smem = draw(rng)
    if number % 2:
        given = mutated(arguments, rng)
        of, wrong = _verdict(given)
        shown: dict[str, Any] = {"arguments": given}
        if wrong:
            changes = sorted(name for name in given if given[name] != arguments[name])
            small = shrunk(
                given, lambda g: (g | {n: arguments[n]} for n in changes if g[n] != arguments[n]), lambda g: _verdict(g)[0] == of, 20
            )
            shown["small"] = small
        return Case(of, shown, wrong)
    of, wrong = _load(arguments, at, smem)
    if not wrong:
        of_bytes, wrong = _verdict(arguments)
        of = of_bytes if wrong else of
    shown = {"arguments": arguments, "coordinates": at, "smem_address": smem}
    if wrong:
        small_map, small_at, small_smem = shrunk(
            (arguments, at, smem), _simpler, lambda one: bool(_load(*one)[1] or _verdict(one[0])[1]), 60
        )
        shown["small"] = {"arguments": small_map, "coordinates": small_at, "smem_address": small_smem}
    return Case(of, shown, wrong)


SPACE = Space("maps", "random tensor maps: loads against a model that loads one element at a time; whether a map is accepted, by its arguments and by its 128 bytes",
              one_by_one("maps", case, CHUNK_CASES), CHUNK_CASES, case)  # fmt: skip
