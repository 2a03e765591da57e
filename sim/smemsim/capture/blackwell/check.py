"""The kit's harness on a Hopper card: the same kernels with wgmma in place of tcgen05, compared with what is known of
Hopper.

It exercises what surrounds the instructions: contents, passes, tags, processes, layouts read back, the ring of the
reference kernel. Its outcome is a line for each part; nothing is written, because nothing in it is a trace of
Blackwell.
"""

from __future__ import annotations

import collections
import functools
import random
import sys
import time
from typing import Any

import numpy as np

from smemsim.capture import kernels
from smemsim.capture.bench import in_processes, settings
from smemsim.capture.blackwell import draw, gemm, machine
from smemsim.capture.blackwell.draw import CODES, Probe
from smemsim.capture.blackwell.pages import expanded
from smemsim.capture.blackwell.suites import at_mn, places
from smemsim.capture.blackwell.words import ELEMENTS
from smemsim.core.words.operand import operand_addresses


def hopper_probes() -> list[tuple[Probe, int]]:
    """(probe, word): the descriptors of tcgen05 that mean the same to wgmma."""
    rng = random.Random(9701)
    probes = [Probe("f16", "bf16", "A", major, 64, 16) for major in ("K", "MN")]
    probes += [Probe("f16", "bf16", "B", major, 64, n) for major in ("K", "MN") for n in (16, 64, 128)]
    probes += [Probe("f8f6f4", "e4m3", "A", "K", 64, 32), Probe("f8f6f4", "e4m3", "B", "K", 64, 64)]
    return [(p, draw.descriptor(rng, p.dtype, p.rows, p.stored_k, p.major, code)) for p in probes for code in CODES for _ in range(6)]


def known_places(probe: Probe, word: int) -> np.ndarray:
    """The places that wgmma reads by the model: place = address / 16 * per_chunk + position. The model is measured
    (golden/sm_90a/wgmma_operands).
    """
    element = ELEMENTS[probe.dtype]
    address = operand_addresses(word, arch="sm_90a", dtype=probe.dtype, major=probe.major, rows=probe.rows, k=probe.stored_k)
    return np.asarray(address // 16 * element.per_chunk + address % 16 // (element.bits // 8))


def as_pair(case: dict[str, Any]) -> dict[str, Any]:
    """A case in both CTAs of a cluster, each for itself."""
    twice = [{space: run[space] * 2 for space in ("shared", "tensor")} for run in case["passes"]]
    return {**case, "group": 2, "passes": twice}


def operands(group: int) -> tuple[int, int]:
    chosen = hopper_probes()[:: 1 if group == 1 else 5]
    cases = [draw.operand_case(probe, word) for probe, word in chosen]
    cases = cases if group == 1 else [as_pair(case) for case in cases]
    answers = in_processes("blackwell_machine", cases)
    good = 0
    for (probe, word), case, a in zip(chosen, cases, answers, strict=True):
        if "words" not in a or not a["completed"]:
            continue
        words = expanded(a["words"], np.uint32).reshape(len(case["passes"]), group, 128, case["columns"][1])
        known = known_places(probe, word)
        good += all(bool((at_mn(probe, places(probe, case, words[:, [cta]])[0]) == known).all()) for cta in range(group))
    print("operands", dict(collections.Counter(a["status"] for a in answers)), file=sys.stderr)
    return good, len(chosen)


def numbers(dtype: str, codes: np.ndarray) -> np.ndarray:
    element = ELEMENTS[dtype]
    table: dict[int, int] = {element.encode(v): v for v in range(-7, 8)}
    return np.vectorize(table.__getitem__)(codes)


def tiles() -> tuple[int, int]:
    chosen = gemm.variants(settings.arch)
    answers = in_processes("blackwell_gemm", chosen)
    print("tiles", dict(collections.Counter(a["status"] for a in answers)), file=sys.stderr)
    good = 0
    for c, a in zip(chosen, answers, strict=True):
        if "d" not in a or not a["completed"]:
            continue
        matrices = numbers(c["dtype"], gemm.data(c["dtype"]))
        exact = matrices[0] @ matrices[1][: gemm.TILE_N].T
        got = expanded(a["d"], np.uint32).view(np.float32).reshape(256, gemm.TILE_N)
        good += bool((got == exact).all())
    return good, len(chosen)


def run() -> int:
    """0 when all of it agrees."""
    if settings.arch != "sm_90a":
        print("--harness-check runs on sm_90a: with wgmma in place of tcgen05", file=sys.stderr)
        return 2
    builds: dict[str, Any] = {**{f"blackwell_machine_{g}": functools.partial(machine.source, g) for g in (1, 2)}, gemm.MODULE: gemm.source}
    for name, text in builds.items():
        kernels.machine_code(name, text(), settings.arch)
    failed = 0
    for what, part in (("operand probes", lambda: operands(1)), ("operand probes in clusters", lambda: operands(2)), ("tile loops", tiles)):
        begin = time.monotonic()
        good, count = part()
        failed += good != count
        print(f"{what}: {good} of {count} agree with Hopper, {time.monotonic() - begin:.1f} s")
    return int(bool(failed))
