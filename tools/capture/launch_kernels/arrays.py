"""What numpy lacks for expectations: numbers of bf16 and fp8 words, products in f64."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["bf16", "fp8", "nearest_bf16", "product", "spread_d"]


def bf16(words: np.ndarray) -> np.ndarray:
    return (words.astype(np.uint32) << 16).view(np.float32)


def nearest_bf16(values: np.ndarray) -> np.ndarray:
    """bf16 words of numbers that are no NaN, to nearest even."""
    x = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((x + 0x7FFF + (x >> 16 & 1)) >> 16).astype(np.uint16)


def fp8(words: np.ndarray, exponent_bits: int) -> np.ndarray:
    """Finite e4m3 (4) or e5m2 (5) words as numbers."""
    fraction_bits = 7 - exponent_bits
    bias = (1 << exponent_bits - 1) - 1
    e, f = words.astype(int) >> fraction_bits & (1 << exponent_bits) - 1, words.astype(int) & (1 << fraction_bits) - 1
    size = np.where(e == 0, np.ldexp(f, 1 - bias - fraction_bits), np.ldexp(f + (1 << fraction_bits), e - bias - fraction_bits))
    return np.where(words >> 7, -size, size)


def product(a: Any, b: Any) -> np.ndarray:
    """A B^T in f64."""
    return np.asarray(a, np.float64) @ np.asarray(b, np.float64).T


def spread_d(d: np.ndarray, elements: int) -> np.ndarray:
    """D (64, n) of wgmma as a kernel stores registers: (register element, thread)."""
    t, i = np.arange(128), np.arange(elements)[:, None]
    return d[16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2)]
