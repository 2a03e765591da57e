"""Suites of whole wgmma instructions: operands as given, accumulators before and after."""

from __future__ import annotations

import collections
import hashlib
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from smemsim.capture import mma_cases, mma_kernels
from smemsim.capture.bench import KERNELS, Bench, ragged, settings
from smemsim.capture.mma_cases import WINDOW_END, MmaCase, draw
from smemsim.capture.mma_kernels import THREADS, Instruction
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN

KERNELS_A_MODULE = 24
LAYOUT = np.dtype(
    [
        *((name, "<u8") for name in ("a_descriptor", "b_descriptor", "step")),
        *((name, "<u4") for name in ("a_block", "metadata_block", "c_block", "scale_d", "image", "unused")),
    ]
)


def drawn(suite: str) -> list[MmaCase]:
    """The cases of a suite; with `--more k` those of the k - 1 seeds after it too."""
    return [c for seed in range(SEEDS[suite], SEEDS[suite] + settings.more) for c in CASES[suite](seed)]


CASES: dict[str, Callable[[int], list[MmaCase]]] = {
    "wgmma_f32": lambda seed: draw(seed, "f32", sparse=False, every_n=(("bf16", "bf16"),), shapes=6, each=3),
    "wgmma_f16": lambda seed: [c for sparse in (False, True) for c in draw(seed, "f16", sparse=sparse, every_n=(), shapes=4, each=2)],
    "wgmma_s32": lambda seed: [
        *draw(seed, "s32", sparse=False, every_n=(("s8", "s8"), ("b1", "b1")), shapes=4, each=2),
        *draw(seed, "s32", sparse=True, every_n=(("u8", "s8"),), shapes=4, each=2),
    ],
    "wgmma_sparse": lambda seed: draw(seed, "f32", sparse=True, every_n=(("bf16", "bf16"),), shapes=5, each=3),
    "wgmma_metadata": mma_cases.odd_metadata,
}


def modules(chosen: Iterable[Instruction]) -> dict[Instruction, str]:
    """The module that has each instruction's kernel; registers the modules."""
    instructions = list(dict.fromkeys(chosen))
    of = {}
    for at in range(0, len(instructions), KERNELS_A_MODULE):
        part = instructions[at : at + KERNELS_A_MODULE]
        text = mma_kernels.source(part)
        name = f"mma_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        KERNELS[name] = lambda text=text: text
        of |= dict.fromkeys(part, name)
    return of


def register() -> None:
    """Register every kernel of every suite, so that they are built together."""
    for suite in SEEDS:
        modules(c.instruction for c in drawn(suite))


def run(bench: Bench, chosen: list[MmaCase], metadata_blocks: np.ndarray) -> list[np.ndarray]:
    """D of every case: uint32[thread, element], of f16 one entry an element."""
    of = modules(c.instruction for c in chosen)
    tables = [bench.device.array(t) for t in (mma_cases.a_blocks()[0], metadata_blocks, mma_cases.c_blocks()[0])]
    images = {name: bench.device.array(mma_cases.window(name)) for name in mma_cases.IMAGES}
    members = collections.defaultdict(list)
    for i, c in enumerate(chosen):
        members[c.instruction, c.image].append(i)
    out = [np.zeros(0, np.uint32)] * len(chosen)
    shared = WINDOW_END - WINDOW_BEGIN
    for (instruction, image), cases in members.items():
        packed = np.array([_packed(chosen[i]) for i in cases], LAYOUT)
        d = bench.device.array(np.zeros((len(cases), THREADS, instruction.registers), np.uint32))
        function = bench.function(of[instruction], instruction.name)
        bench.device.launch(function, len(cases), shared, bench.device.array(packed.view(np.uint8)), images[image], shared, *tables, d)
        registers = d.read(np.uint32).reshape(len(cases), THREADS, instruction.registers)
        if instruction.d == "f16":
            registers = registers.view("<u2").astype(np.uint32)
        for i, block in zip(cases, registers, strict=True):
            out[i] = block
    return out


def _packed(c: MmaCase) -> tuple[int, ...]:
    return (c.a_descriptor, c.b_descriptor, 0, max(c.a_block, 0), max(c.metadata_block, 0), c.c_block, c.scale_d, 0, 0)


def columns(chosen: list[MmaCase], metadata_blocks: np.ndarray, d: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a suite. D has few different values: `d` are their places in
    `d_values`, the most frequent first.
    """
    instructions = [c.instruction for c in chosen]
    values, place, count = np.unique(np.concatenate([x.ravel() for x in d]), return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order))
    stored = np.split(rank[place], np.cumsum([x.size for x in d])[:-1])
    names = sorted({c.image for c in chosen})
    smallest = np.uint8 if len(values) <= 1 << 8 else np.uint16 if len(values) <= 1 << 16 else np.uint32
    return {
        "dtype_a": np.array([i.a for i in instructions]),
        "dtype_b": np.array([i.b for i in instructions]),
        "dtype_d": np.array([i.d for i in instructions]),
        "n": np.array([i.n for i in instructions], np.uint16),
        "k": np.array([i.k for i in instructions], np.uint16),
        "a_source": np.array([i.source for i in instructions]),
        **{
            name: np.array([getattr(i, name) for i in instructions], np.int8)
            for name in ("sparse", "selector", "trans_a", "trans_b", "scale_a", "scale_b", "satfinite")
        },
        "scale_d": np.array([c.scale_d for c in chosen], np.int8),
        "a_descriptor": np.array([c.a_descriptor for c in chosen], np.uint64),
        "b_descriptor": np.array([c.b_descriptor for c in chosen], np.uint64),
        **{name: np.array([getattr(c, name) for c in chosen], np.int16) for name in ("a_block", "metadata_block", "c_block")},
        "image": np.array([c.image for c in chosen]),
        "window_end": np.full(len(chosen), WINDOW_END, np.uint32),
        "status": np.zeros(len(chosen), np.uint16),
        **{f"image_{name}": mma_cases.window(name) for name in names},
        "a_blocks": mma_cases.a_blocks()[0],
        "metadata_blocks": metadata_blocks,
        "c_blocks": mma_cases.c_blocks()[0],
        "d_values": values[order],
        **ragged("d", stored, smallest),
    }


def _suite(name: str, title: str, tables: Callable[[], np.ndarray]) -> Callable[[Bench, pathlib.Path], None]:
    def capture(bench: Bench, out: pathlib.Path) -> None:
        chosen, blocks = drawn(name), tables()
        d = run(bench, chosen, blocks)
        bench.write(out, name, kind="wgmma_mma", title=title, seed=SEEDS[name], cases=len(chosen), arrays=columns(chosen, blocks, d))

    capture.__name__ = name
    return capture


SEEDS = {"wgmma_f32": 9201, "wgmma_f16": 9301, "wgmma_s32": 9401, "wgmma_sparse": 9501, "wgmma_metadata": 9601}
TITLES = {
    "wgmma_f32": "Whole wgmma instructions with f32 accumulators: every type, A from shared memory and registers, signs, transposes, every N of bf16",
    "wgmma_f16": "The same with f16 accumulators, dense and sparse: f16, and every pair of fp8 types",
    "wgmma_s32": "The same with s32 accumulators, dense and sparse: every pair of s8 and u8, b1, .satfinite near the ends of the range, every N",
    "wgmma_sparse": "wgmma.sp with f32 accumulators: every type, both selectors, every N of bf16",
    "wgmma_metadata": "wgmma.sp with metadata of every pattern, also those that the PTX ISA leaves undefined",
}
SUITES = {
    name: _suite(name, title, mma_cases.odd_metadata_blocks if name == "wgmma_metadata" else lambda: mma_cases.metadata_blocks()[0])
    for name, title in TITLES.items()
}
