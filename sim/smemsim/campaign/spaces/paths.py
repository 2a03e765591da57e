"""`paths`: the same answer by two ways: compiled loops against the same source run by Python, whole operands against
chunks one by one.
"""

from __future__ import annotations

import functools
import random
import types
from typing import Any

import numpy as np

from smemsim.base.errors import HardwareTrap, Unmodelled
from smemsim.campaign.interpreted import interpreted
from smemsim.campaign.space import Case, Space, drawn, one_by_one
from smemsim.campaign.spaces import boxes
from smemsim.core.arithmetic import loops as dot_loops
from smemsim.core.layout import tma_loops
from smemsim.core.machine.tma import tma_load, tma_store
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.formats import FORMATS, element_format
from smemsim.core.spec.mma_arithmetic import NAN
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import chunk_address
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap

__all__ = ["SPACE"]


CHUNK_CASES = 512
MOST = 40  # rows and k of an operand


@functools.cache
def _slow(module: types.ModuleType) -> types.SimpleNamespace:
    return interpreted(module)


def operands(rng: random.Random) -> Case:
    """`operand_addresses` against `chunk_address` of each chunk and the element's place in it."""
    arch = rng.choice(list(ARCHITECTURES))
    d = SmemDescriptor.decode(rng.getrandbits(64), arch=arch)
    dtype, major, packing = rng.choice(list(FORMATS)), rng.choice(("K", "MN")), rng.choice(("packed", "padded"))
    rows, k, fmt = rng.randint(1, MOST), rng.randint(1, MOST), element_format(dtype)
    shown = {"word": f"{d.word:#018x}", "arch": arch, "dtype": dtype, "major": major, "rows": rows, "k": k, "packing": packing}
    try:
        got = operand_addresses(d, arch=arch, dtype=dtype, major=major, rows=rows, k=k, packing=packing)
    except Unmodelled:
        return Case("operand: nobody knows what it does", shown)
    stored = fmt.elements_per_chunk(packing)
    for row in range(rows):
        for column in range(k):
            line, along = (row, column) if major == "K" else (column, row)
            want = (chunk_address(d, major, line, along // stored) + along % stored * fmt.bits // 8) & 0xFFFFFFFF
            if got[row, column] != want:
                what = f"element ({row}, {column}) is at {int(got[row, column]):#x} by operand_addresses, at {want:#x} by chunk_address"
                return Case("wrong: operand addresses", shown, what)
    return Case(f"operand: {arch} {major}-major", shown)


def transfers(rng: random.Random) -> Case:
    """A load or a store: `Transfer` against the interpreted loops."""
    arguments, at, smem = boxes.draw(rng)
    is_store = rng.random() < 0.5
    shown = {"arguments": arguments, "coordinates": at, "smem_address": smem, "store": is_store}
    try:
        t = (tma_store if is_store else tma_load)(TensorMap.tiled(**arguments), at, smem_address=smem)
    except HardwareTrap as e:
        return Case(f"transfer: traps, {e.cuda_error}", shown)
    g, slow = t.geometry, _slow(tma_loops)
    start, lines = np.zeros(5, np.int64), np.empty(g.rows, np.int64)
    start[: len(at)] = at
    slow.tiled_lines(start, g.shape, lines)
    reach = slow.reach(lines, int(start[0]), g.shape, g.layout, smem)
    n = g.rows * g.chunks
    shared, source, valid = np.empty(n, np.uint32), np.empty(n, np.int64), np.empty(n, np.uint8)
    base = t.tensor_map.global_address if t.global_span[1] else 0
    slow.chunks_of_lines(lines, int(start[0]), g.shape, g.layout, base, smem, shared, source, valid)
    pairs: dict[str, tuple[Any, Any]] = {
        "lines": (lines, t.lines), "chunk_shared": (shared, t.chunk_shared), "chunk_global": (source, t.chunk_global),
        "chunk_valid": (valid, t.chunk_valid), "shared_end": (reach[0], t.shared_end), "whole": (bool(reach[3]), bool(t.whole)),
    }  # fmt: skip
    for name, (want, got) in pairs.items():
        if not np.array_equal(want, got):
            return Case("wrong: transfers", shown, f"{name} differs between the compiled and the interpreted loop")
    return Case(f"transfer: {'store' if is_store else 'load'}, {'all' if t.whole else 'not all'} in bounds", shown)


def products(rng: random.Random) -> Case:
    """The dot-product loop, on any numbers, compiled against interpreted."""
    seed = rng.getrandbits(32)
    gen = np.random.default_rng(seed)
    kept, zero = rng.choice((13, 23, 25, 35)), rng.choice((-133, -139, -21))
    to = FORMATS[rng.choice(("f32", "f16"))]
    shape = (1, 2, 8, 8)
    spread = rng.choice((1, 8, 40))

    def values(*size: int) -> np.ndarray:
        drawn_ = np.rint(gen.standard_normal(size) * 1024) / 1024 * 2.0 ** gen.integers(-spread, spread + 1, size)
        special = gen.random(size) < 0.02
        drawn_[special] = gen.choice([0.0, -0.0, np.inf, -np.inf, np.nan], int(special.sum()))
        return np.asarray(drawn_)

    tiles, m, n, k = shape
    with np.errstate(all="ignore"):
        a, b, c = values(tiles, m, k), values(tiles, k, n), values(tiles, m, n).astype(np.float32)
    index = np.ascontiguousarray(np.broadcast_to(np.arange(k), (m, k)), np.int64)
    which, where, adds = np.zeros(1, np.int64), np.zeros((1, 3), np.int64), np.ones(1, bool)
    result = (to.exponent_bits, to.fraction_bits, to.name == "f16", to.largest, to.largest + 1, NAN[to.name], -1)
    results = []
    for way, width in ((dot_loops, np.int16), (_slow(dot_loops), np.int64)):
        d = np.zeros((tiles, m, n), np.uint32)
        each = [np.empty(x.shape, width) for x in (a, b)]
        with np.errstate(all="ignore"):
            for x, exponents in zip((a, b), each, strict=True):
                way.exponent_all(x.ravel(), -126, exponents.reshape(-1))
            way.float_sums(a, each[0], which, b, each[1], which, index, c, 1.0, d, where, adds, -126, kept, zero, result)
        results.append(d)
    shown = {"seed": seed, "kept_bits": kept, "zero_exponent": zero, "d_type": to.name, "spread": spread}
    if np.array_equal(results[0], results[1]):
        return Case(f"dot product: {to.name}", shown)
    at = tuple(int(i) for i in np.argwhere(results[0] != results[1])[0])
    return Case("wrong: dot products", shown, f"element {at}: {int(results[0][at]):#x} compiled, {int(results[1][at]):#x} interpreted")


WAYS = (operands, operands, transfers, products)


def case(seed: int, chunk: int, number: int) -> Case:
    """One case of one of the ways, in turn."""
    return WAYS[number % len(WAYS)](drawn("paths", seed, chunk, number))


SPACE = Space("paths", "compiled loops against the same source code run by Python: operand addresses, transfers, dot products",
              one_by_one("paths", case, CHUNK_CASES), CHUNK_CASES, case)  # fmt: skip
