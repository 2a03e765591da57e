"""The wgmma of several warpgroups at once: registers in, registers out, for those who run kernels and ask nothing more about the operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from smemsim.arithmetic.multiply import Options, multiply_tiles, row_of
from smemsim.machine.memory import SharedMemory
from smemsim.machine.wgmma import a_places, d_places, kind_of, types_of
from smemsim.spec.formats import element_format
from smemsim.spec.wgmma import WGMMA_M, WGMMA_THREADS

__all__ = ["wgmma_many"]


def wgmma_many(
    shared: Sequence[SharedMemory],
    a: Sequence[int] | np.ndarray,
    b: Sequence[int],
    d: np.ndarray,
    *,
    n: int,
    a_type: str,
    b_type: str,
    d_type: str,
    scale_d: Sequence[bool],
    negate: tuple[bool, bool] = (False, False),
    a_major: str = "K",
    b_major: str = "K",
    satfinite: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """What `wgmma` makes of the registers of every warpgroup, and which of them read something that nobody wrote: bool (groups,).

    Every warpgroup has a window and descriptors of its own; `a` may be registers, uint32 (4, groups, 128). `d` are registers,
    uint32 (R, groups, 128), R = N / 2, for f16 N / 4; so are those returned. Dense instructions only; types, N and immediates are not
    checked. Raises HardwareTrap when an operand leaves its window.

    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.full(64 * 16, 0x3F80, np.uint16))
    >>> zero = np.zeros((4, 2, 128), np.uint32)
    >>> word = 0x1000080040  # no swizzle, LBO 128 B, SBO 256 B
    >>> d, unwritten = wgmma_many([shared] * 2, [word] * 2, [word] * 2, zero, n=8, a_type="bf16", b_type="bf16", d_type="f32", scale_d=[True, False])
    >>> d.shape, float(d.view(np.float32)[3, 1, 127]), unwritten.tolist()
    ((4, 2, 128), 16.0, [False, False])
    """
    groups, k = len(shared), types_of(a_type, b_type, d_type).k
    unwritten = np.zeros(groups, bool)

    def read(words: Sequence[int], dtype: str, major: str, rows: int) -> np.ndarray:
        parts = []
        for group, (memory, word) in enumerate(zip(shared, words, strict=True)):
            bits, missing = memory.operand_bits(word, dtype=dtype, major=major, rows=rows, k=k)
            unwritten[group] |= missing
            parts.append(bits)
        return np.stack(parts)

    of_b = read(b, b_type, b_major, n)
    of_a = from_registers(a, a_type, k) if isinstance(a, np.ndarray) else read(a, a_type, a_major, WGMMA_M)
    c = to_matrix(d, n, d_type)
    if not all(scale_d):
        c[~np.asarray(scale_d, bool)] = 0
    options = Options(negate_a=negate[0], negate_b=negate[1], saturate=satfinite)
    row = row_of("wgmma", a_type, b_type, d_type)
    return to_registers(multiply_tiles(of_a, of_b, c, row=row, types=(a_type, b_type, d_type), options=options), d_type), unwritten


@functools.lru_cache(maxsize=64)
def _flat(n: int) -> np.ndarray:
    """Place in the row-major D of every element of every thread, (N / 2, 128)."""
    row, column = d_places(n)
    return np.ascontiguousarray((row * n + column).T)


def to_matrix(d: np.ndarray, n: int, d_type: str) -> np.ndarray:
    """The accumulators (groups, 64, N) of registers (R, groups, 128)."""
    if d_type == "f16":
        d = np.stack([d & np.uint32(0xFFFF), d >> np.uint32(16)], 1).reshape(n // 2, *d.shape[1:])
    out = np.empty((d.shape[1], WGMMA_M * n), kind_of(d_type))
    for group in range(len(out)):
        out[group, _flat(n)] = d[:, group]
    return out.reshape(-1, WGMMA_M, n)


def to_registers(d: np.ndarray, d_type: str) -> np.ndarray:
    """The registers (R, groups, 128) of accumulators (groups, 64, N)."""
    groups, _, n = d.shape
    out = np.empty((n // 2, groups, WGMMA_THREADS), np.uint32)
    for group in range(groups):
        out[:, group] = d[group].reshape(-1)[_flat(n)]
    if d_type != "f16":
        return out
    packed: np.ndarray = out[0::2] | out[1::2] << np.uint32(16)
    return packed


def from_registers(a: np.ndarray, a_type: str, k: int) -> np.ndarray:
    """The elements of A (groups, 64, K) of registers (4, groups, 128)."""
    bits = element_format(a_type).bits
    thread, register, bit = a_places(bits, k)
    raw = a[register, :, thread].transpose(2, 0, 1) >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))
