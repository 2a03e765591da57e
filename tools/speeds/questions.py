"""Races of the answers: one dot product explained, a D that differs, a kernel checked, a tile planned, descriptors
found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import smemsim
from tools.speeds.addresses import OPERAND, WORDS
from tools.speeds.race import Differs, Race, Row, timed
from tools.speeds.transfers import bf16

ITERATIONS, STAGES = 64, 3
TYPES: dict[str, Any] = {"arch": "sm_90a", "kind": "wgmma", "a_type": "bf16", "b_type": "bf16", "d_type": "f32"}


def pipeline(iterations: int = ITERATIONS, *, sbo: int = 1024) -> dict[str, Any]:
    """A wgmma kernel as a scenario: 128 x 128 x 64 bf16 tiles in three stages, a K loop; `sbo` is what B's descriptor
    has, 1024 is right.
    """
    arch, tile, k = "sm_90a", 128 * 64 * 2, 64 * iterations
    tensors, buffers, maps, steps = {}, {}, {}, []
    words = {"A": smemsim.SmemDescriptor(arch=arch, stride_byte_offset=1024, swizzle="128B").encode(),
             "B": smemsim.SmemDescriptor(arch=arch, stride_byte_offset=sbo, swizzle="128B").encode()}  # fmt: skip
    for name, axis, address in (("A", "m", 0x400), ("B", "n", 0x400 + STAGES * tile)):
        tensors[name] = {"dtype": "bf16", "extent": {axis: 128, "k": k}, "stride": {axis: 2 * k, "k": 2}}
        buffers[f"s{name}"] = {"address": address, "bytes": STAGES * tile, "stages": STAGES, "stage_bytes": tile}
        maps[f"tm{name}"] = {"of": name, "data_type": "BFLOAT16", "global_address": name, "global_dim": [k, 128], "global_strides": [2 * k],
                             "box_dim": [64, 128], "swizzle": "128B"}  # fmt: skip
    for i in range(iterations):
        stage, at = i % STAGES, 64 * i
        steps += [{"op": "tma_load", "map": f"tm{x}", "to": f"s{x}", "stage": stage, "at": [at, 0], "expect_bytes": tile} for x in "AB"]
        operands = {
            x.lower(): {"dtype": "bf16", "major": "K", "rows": rows, "word": words[x], "start": f"s{x}", "stage": stage, "k_add": [0, 32, 64, 96],
                        "mn_add": list(range(0, tile, 128 * rows)), "meant": {"tensor": x, "axes": [axis, "k"], "at": [0, at]}}
            for x, axis, rows in (("A", "m", 64), ("B", "n", 128))
        }  # fmt: skip
        steps.append({"op": "mma", "kind": "wgmma", "m": 64, "n": 128, "k": 16, **operands})
    return {"arch": arch, "tensor": tensors, "buffer": buffers, "map": maps, "step": steps}


def _in_numpy() -> Callable[[], np.ndarray]:
    """The kernel in numpy: two copies and a float32 product an iteration."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((128, 64 * ITERATIONS)).astype(np.float32) for _ in "ab")
    stages = np.empty((STAGES, 2, 128, 64), np.float32)

    def kernel() -> np.ndarray:
        d = np.zeros((128, 128), np.float32)
        for i in range(ITERATIONS):
            ours = stages[i % STAGES]
            ours[0], ours[1] = a[:, 64 * i : 64 * i + 64], b[:, 64 * i : 64 * i + 64]
            d += ours[0] @ ours[1].T
        return d

    return kernel


def _codes(scenario: dict[str, Any], wanted: set[str]) -> str:
    found = smemsim.check(scenario).findings
    if {f.code for f in found} != wanted:
        raise Differs(f"the kernel's findings are {sorted({f.code for f in found})}, not {sorted(wanted)}")
    return f"{len(found) or 'no'} findings{', ' + ', '.join(sorted(wanted)) if wanted else ', as it should be'}"


def _clean() -> Race:
    scenario = pipeline()
    return Race(timed(lambda: smemsim.check(scenario)), timed(_in_numpy()), _codes(scenario, set()))


def _wrong() -> Race:
    clean, wrong = pipeline(), pipeline(sbo=512)
    return Race(timed(lambda: smemsim.check(wrong)), timed(lambda: smemsim.check(clean)), _codes(wrong, {"D308"}))


def _longer() -> Race:
    long, short = pipeline(), pipeline(ITERATIONS // 2)
    return Race(timed(lambda: smemsim.check(long)), timed(lambda: smemsim.check(short)), "2.0x the time is linear")


def _dot() -> Race:
    rng = np.random.default_rng(1)
    a, b = bf16(rng, (16,)), bf16(rng, (16,))
    x, y = (smemsim.to_float64(v, "bf16").tolist() for v in (a, b))
    found = smemsim.dot_product(a, b, 0, **TYPES)
    exact = sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction(0))
    if found.exact != exact:
        raise Differs(f"the exact sum is {float(found.exact)} here, {float(exact)} there")
    return Race(timed(lambda: smemsim.dot_product(a, b, 0, **TYPES)),
                timed(lambda: sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction(0))), "equal: the exact sum")  # fmt: skip


@functools.cache
def _products() -> tuple[smemsim.SharedMemory, smemsim.MmaResult, np.ndarray]:
    """A wgmma m64n128k16, and the D of one whose B is 32 bytes off."""
    shared = smemsim.SharedMemory("sm_90a")
    shared.write(0x400, bf16(np.random.default_rng(1), (192 * 64,)))
    meant, other = (smemsim.wgmma(shared, 0x4000004000010040, 0x4000004000010240 + more, n=128, a_type="bf16") for more in (0, 2))
    return shared, meant, other.d


def _difference() -> Race:
    shared, meant, d = _products()
    found = smemsim.explain_difference(meant, d, shared=shared)
    if found.looks_like != "a wrong layout":
        raise Differs(f"a B that is read 32 bytes further looks like {found.looks_like}")
    return Race(timed(lambda: smemsim.explain_difference(meant, d, shared=shared)),
                timed(lambda: smemsim.wgmma(shared, 0x4000004000010040, 0x4000004000010240, n=128, a_type="bf16")), found.because[0].partition(":")[0])  # fmt: skip


def _product() -> Race:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((128, 64)).astype(np.float32).view(np.uint32) & 0xFFFF0000 for _ in "ab")
    x, y = a.view(np.float32).astype(np.float64), b.view(np.float32).astype(np.float64)
    rows = np.arange(128)[:, None]
    read = x.reshape(128, 8, 8)[rows, np.arange(8) ^ rows % 8].reshape(128, 64)
    d = (read @ y.T).astype(np.float32)
    found = smemsim.explain_product(d, x, y, arch="sm_90a", a_type="bf16")
    if not found.faults or "written with swizzle none and read with 128B" not in str(found.faults[0]):
        raise Differs(f"an unswizzled A is explained as {[str(f) for f in found.faults]}")
    return Race(timed(lambda: smemsim.explain_product(d, x, y, arch="sm_90a", a_type="bf16")), timed(lambda: x @ y.T), str(found.faults[0]))


def _plan() -> Race:
    wish: dict[str, Any] = {"dtype": "bf16", "major": "K", "swizzle": "128B", "arch": "sm_90a", "m": 64, "n": 128}
    made = smemsim.plan(128, 64, **wish)
    words = made.words
    return Race(timed(lambda: smemsim.plan(128, 64, **wish)), timed(lambda: smemsim.operand_addresses(words, rows=64, k=16, **OPERAND)),
                "a plan has been simulated and checked")  # fmt: skip


def _plans() -> Race:
    wish: dict[str, Any] = {"dtype": "bf16", "major": "K", "arch": "sm_90a"}
    count = len(smemsim.plans(128, 64, **wish))
    return Race(
        timed(lambda: smemsim.plans(128, 64, **wish)), timed(lambda: smemsim.plan(128, 64, swizzle="128B", **wish)), f"{count} choices"
    )


def _find(*, dumped: bool) -> Callable[[], Race]:
    """All descriptors of a 128 x 64 bf16 tile in steps of 16: from its addresses, or from a
    dump of the largest window.
    """

    def start() -> Race:
        def addresses() -> np.ndarray:
            return smemsim.operand_addresses(WORDS, rows=128, k=16, **OPERAND)

        places = addresses().astype(np.int64)
        codes = np.random.default_rng(1).integers(0, 1 << 16, places.shape).astype(np.uint16)
        dump = np.zeros(227 << 10, np.uint8)
        dump[places - 1024], dump[places - 1023] = codes & 255, codes >> 8

        def find() -> smemsim.Answer:
            if dumped:
                return smemsim.find_descriptors(dump=dump, base=1024, operand=codes, **OPERAND)
            return smemsim.find_descriptors(places, **OPERAND)

        found = [one.words.ravel().tolist() for one in find().descriptors]
        if WORDS.tolist() not in found:
            raise Differs(f"the tile's own words are not among the {len(found)} found")
        return Race(timed(find), timed(addresses), f"{len(found)} descriptors found, the tile's own among them")

    return start


_KERNEL, _MACS = f"128 x 128 x 64, {STAGES} stages, {ITERATIONS} iterations", 128 * 128 * 64 * ITERATIONS
# fmt: off
ROWS_OF_QUESTIONS = (
    Row("explain", "dot_product, 16 bf16 terms", "the exact sum in Python's Fractions", 1, "dots", _dot),
    Row("explain", "explain_difference, wgmma m64n128k16, B 32 bytes off", "the instruction itself", 1, "answers", _difference),
    Row("explain", "explain_product, 128 x 128 x 64, A written unswizzled", "numpy's float64 product", 1, "answers", _product),
    Row("check", f"check, a right kernel, {_KERNEL}", "the same loop in numpy, copies and float32 products", _MACS, "MAC", _clean),
    Row("check", f"check, SBO of B wrong in every iteration, {_KERNEL}", "check of the right kernel", _MACS, "MAC", _wrong),
    Row("check", f"check, {ITERATIONS} iterations", f"of {ITERATIONS // 2}", _MACS, "MAC", _longer),
    Row("plan", "plan, 128 x 64 bf16 K-major, 128B", "operand_addresses of its words", 1, "plans", _plan),
    Row("plan", "plans, all of a 128 x 64 bf16 tile", "one plan", 1, "answers", _plans),
    Row("solve", "find_descriptors, 128 x 64 bf16, from addresses", "operand_addresses of the words", 1, "answers", _find(dumped=False)),
    Row("solve", "find_descriptors, 128 x 64 bf16, from a dump of 227 KiB", "operand_addresses of the words", 1, "answers", _find(dumped=True)),
)
# fmt: on
