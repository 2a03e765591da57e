"""The suite of tensormap.replace: the 128 bytes before and after every step, on maps of every kind."""

from __future__ import annotations

import pathlib
import random

import numpy as np

from smemsim.capture import cases as cases_module
from smemsim.capture import encode_cases, replace_kernels
from smemsim.capture.bench import KERNELS, Bench, settings

MAP_BYTES = 128

KERNELS["replace_probe"] = lambda: replace_kernels.source(settings.arch)


def start_bytes(bench: Bench, rng: random.Random, kind: str) -> bytes:
    """128 bytes to begin with: a pattern, random bits, or what the driver makes of random arguments."""
    if kind == "zeros":
        return bytes(MAP_BYTES)
    if kind == "ones":
        return b"\xff" * MAP_BYTES
    if kind == "random":
        return rng.randbytes(MAP_BYTES)
    if kind == "tiled":
        return bytes(bench.api.encode(cases_module.tiled(rng, store=False), 16 * rng.randrange(1, 1 << 40)))
    while True:
        code, raw = bench.api.encode_verdict(encode_cases.im2col(rng))
        if code == 0:
            return bytes(raw)


def run(bench: Bench, chosen: list[replace_kernels.Sequence], starts: list[bytes]) -> list[np.ndarray]:
    """For each sequence its input and the result of every step: uint8[steps + 1, 128]."""
    slots = np.cumsum([0, *(len(s.steps) + 1 for s in chosen)])
    maps = np.zeros((slots[-1], MAP_BYTES), np.uint8)
    for slot, raw in zip(slots, starts, strict=False):
        maps[slot] = np.frombuffer(raw, np.uint8)
    steps = [step for s in chosen for step in s.steps]
    device = bench.device
    held = device.array(maps)
    device.launch(
        bench.function("replace_probe", "probe_replace"),
        len(chosen),
        0,
        held,
        device.array(slots.astype(np.uint32)),
        device.array(np.array([s.space for s in chosen], np.uint32)),
        device.array(np.array([op for op, _ in steps], np.uint32)),
        device.array(np.array([value for _, value in steps], np.uint64)),
        threads=32,
    )
    return np.split(held.read().reshape(-1, MAP_BYTES), slots[1:-1])


def tensormap_replace(bench: Bench, out: pathlib.Path) -> None:
    seed = 9020
    rng, listed = random.Random(seed), replace_kernels.ops(settings.arch)
    chosen = replace_kernels.sequences(seed, settings.arch)
    held = run(bench, chosen, [start_bytes(bench, rng, s.start) for s in chosen])
    steps = [(listed[op], value, replace_kernels.SPACES[s.space]) for s in chosen for op, value in s.steps]
    bench.write(
        out,
        "tensormap_replace",
        kind="tensormap_replace",
        title="What tensormap.replace makes of the 128 bytes: every field, ordinal and immediate, alone and in sequences",
        seed=seed,
        cases=len(steps),
        arrays={
            "input": np.concatenate([images[:-1] for images in held]),
            "field": np.array([op.field for op, _, _ in steps]),
            "ordinal": np.array([-1 if op.ordinal is None else op.ordinal for op, _, _ in steps], np.int8),
            "value": np.array([value for _, value, _ in steps], np.uint64),
            "space": np.array([space for _, _, space in steps]),
            "output": np.concatenate([images[1:] for images in held]),
        },
    )


SUITES = {"tensormap_replace": tensormap_replace}
