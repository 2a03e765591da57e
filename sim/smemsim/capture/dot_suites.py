"""Suites of what wgmma makes of numbers: whole tiles of dot products, bit for bit."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Callable

import numpy as np

from smemsim.capture import dot_cases
from smemsim.capture.bench import Bench, ragged, settings
from smemsim.capture.dot_cases import DotCase
from smemsim.capture.mma_kernels import THREADS, Instruction
from smemsim.capture.mma_suites import LAYOUT, modules
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN
from smemsim.core.layout.fragments import a_element, a_thread, d_element, d_thread
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.wgmma import WGMMA_M

SEEDS = {"wgmma_dots_f32": ("f32", 9701), "wgmma_dots_f16": ("f16", 9711), "wgmma_dots_s32": ("s32", 9721)}
TITLES = {
    f"wgmma_dots_{d}": f"What wgmma makes of numbers, {what}"
    for d, what in {
        "f32": "f32 accumulators: raw bits, cancellation, tiny and huge, zeros, NaNs, directed probes; sources, signs, N, .sp, chains",
        "f16": "f16 accumulators: the same, ties and subnormal results",
        "s32": "s32 accumulators: s8 and u8, wrapping and clamping, b1",
    }.items()
}
AT_A_TIME = 256  # cases of one launch


def drawn(suite: str) -> list[DotCase]:
    """The cases of a suite; with `--more k` those of the k - 1 seeds after it instead, without the probes."""
    d, seed = SEEDS[suite]
    seeds = [seed] if settings.more == 1 else range(seed + 1, seed + settings.more)
    return [c for s in seeds for c in dot_cases.draw(d, s, first=s == seed)]


def register() -> None:
    """Register every kernel of every suite, so that they are built together."""
    for d, seed in SEEDS.values():
        modules(c.instruction for c in dot_cases.draw(d, seed, first=False))


def placed(rows: np.ndarray, bits: int) -> np.ndarray:
    """Bytes of an operand, K-major without swizzle: blocks of 8 rows x 16 bytes, 128 bytes apart along K."""
    if bits == 1:
        data = np.packbits(rows.astype(np.uint8), axis=-1, bitorder="little")
    else:
        data = np.ascontiguousarray(rows.astype(f"<u{bits // 8}")).view(np.uint8)
    count, row_bytes = data.shape
    return data.reshape(count // 8, 8, row_bytes // 16, 16).transpose(0, 2, 1, 3).reshape(-1)


def matrix_word(start: int, row_bytes: int) -> int:
    """Its descriptor: LBO 128 between the blocks of a row, SBO between rows of blocks."""
    return start >> 4 | (128 >> 4) << 16 | (8 * row_bytes >> 4) << 32


def image(c: DotCase) -> tuple[np.ndarray, int]:
    """The bytes of the window, A and B of the first instruction, then those of the second, and where B is."""
    i = c.instruction
    parts, at_b = [], 0
    for rows, columns in zip(c.a, c.b, strict=True):
        a = placed(rows, element_format(i.a).bits)
        at_b = a.size
        parts += [a, placed(columns, element_format(i.b).bits)]
    return np.concatenate(parts), at_b


def in_registers(c: DotCase) -> np.ndarray:
    """A as the threads hold it, (128, 4)."""
    bits = element_format(c.instruction.a).bits
    if bits == 1:
        words = np.packbits(c.a[0].astype(np.uint8), axis=-1, bitorder="little").view("<u4")
        m, k = np.meshgrid(np.arange(WGMMA_M), np.arange(words.shape[1]), indexing="ij")
        out = np.zeros((THREADS, 4), np.uint32)
        out[a_thread(m, k, 32), a_element(m, k, 32)] = words
        return out
    m, k = np.meshgrid(np.arange(WGMMA_M), np.arange(c.a.shape[2]), indexing="ij")
    out = np.zeros((THREADS, 128 // bits), f"<u{bits // 8}")
    out[a_thread(m, k, bits), a_element(m, k, bits)] = c.a[0]
    return out.view("<u4")


def run(bench: Bench, chosen: list[DotCase]) -> list[np.ndarray]:
    """D of every case, (64, N); registers in the places that traces wgmma_f32 and its siblings show."""
    of = modules(c.instruction for c in chosen)
    members: dict[Instruction, list[int]] = collections.defaultdict(list)
    for at, c in enumerate(chosen):
        members[c.instruction].append(at)
    out = [np.zeros(0, np.uint32)] * len(chosen)
    for instruction, cases in members.items():
        for first in range(0, len(cases), AT_A_TIME):
            some = cases[first : first + AT_A_TIME]
            for at, d in zip(some, _launch(bench, of[instruction], instruction, [chosen[at] for at in some]), strict=True):
                out[at] = d
    return out


def _launch(bench: Bench, module: str, i: Instruction, cases: list[DotCase]) -> np.ndarray:
    images = [image(c) for c in cases]
    size, at_b = images[0][0].size, images[0][1]
    step = size // len(cases[0].a)
    a_word = matrix_word(WINDOW_BEGIN, at_b // WGMMA_M)
    b_word = matrix_word(WINDOW_BEGIN + at_b, (step - at_b) // i.n)
    packed = np.array([(a_word, b_word, step >> 4, at, at, at, c.scale_d, at, 0) for at, c in enumerate(cases)], LAYOUT)
    m, n = np.meshgrid(np.arange(WGMMA_M), np.arange(i.n), indexing="ij")
    thread, element = d_thread(m, n), d_element(m, n)
    start = np.zeros((len(cases), THREADS, 128), np.uint32)
    for at, c in enumerate(cases):
        start[at, thread, element] = c.pool[c.place]
    metadata = np.repeat(np.array([c.nibble * 0x11111111 for c in cases], np.uint32), THREADS)
    registers = np.stack([in_registers(c) if i.source == "registers" else np.zeros((THREADS, 4), np.uint32) for c in cases])
    buffers = [
        bench.device.array(x) for x in (packed.view(np.uint8), np.concatenate([data for data, _ in images]), registers, metadata, start)
    ]
    d = bench.device.array(np.zeros((len(cases), THREADS, i.registers), np.uint32))
    shared = max(size, 1024)
    if size != shared:
        raise RuntimeError(f"{i.name}: an image of {size} bytes")
    bench.device.launch(bench.function(module, i.name), len(cases), shared, buffers[0], buffers[1], shared, *buffers[2:], d)
    values = d.read(np.uint32).reshape(len(cases), THREADS, i.registers)
    if i.d == "f16":
        values = values.view("<u2").astype(np.uint32)
    return np.asarray(values[:, thread, element])


def columns(chosen: list[DotCase], d: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a suite."""
    instructions = [c.instruction for c in chosen]
    return {
        "style": np.array([c.style for c in chosen]),
        "dtype_a": np.array([i.a for i in instructions]),
        "dtype_b": np.array([i.b for i in instructions]),
        "dtype_d": np.array([i.d for i in instructions]),
        "n": np.array([i.n for i in instructions], np.uint16),
        "k": np.array([i.k for i in instructions], np.uint16),
        "a_source": np.array([i.source for i in instructions]),
        **{
            name: np.array([getattr(i, name) for i in instructions], np.int8)
            for name in ("sparse", "scale_a", "scale_b", "satfinite", "chained")
        },
        "scale_d": np.array([c.scale_d for c in chosen], np.int8),
        "nibble": np.array([c.nibble for c in chosen], np.uint8),
        **ragged("a", [c.a for c in chosen], np.uint32),
        **ragged("b", [c.b for c in chosen], np.uint32),
        "c_pool": np.stack([c.pool for c in chosen]),
        **ragged("c", [c.place for c in chosen], np.uint8),
        **ragged("d", d, np.uint32),
    }


def _suite(name: str) -> Callable[[Bench, pathlib.Path], None]:
    def capture(bench: Bench, out: pathlib.Path) -> None:
        chosen = drawn(name)
        d = run(bench, chosen)
        bench.write(out, name, kind="wgmma_dots", title=TITLES[name], seed=SEEDS[name][1], cases=len(chosen), arrays=columns(chosen, d))

    capture.__name__ = name
    return capture


SUITES = {name: _suite(name) for name in TITLES}
