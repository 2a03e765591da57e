"""How the kernels of `sources/` are launched, and what numpy says that they compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["SHAPES", "Shape"]

Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A launch in the words of a launch file, the arrays that the host leaves as they were allocated, and the outputs
    by numpy within `rtol`.
    """

    about: dict[str, Any]
    expect: Callable[[Arrays], dict[str, np.ndarray]]
    unwritten: tuple[str, ...] = ()
    arch: str = "sm_90a"
    rtol: float = 0.0


def _array(name: str, dtype: str, shape: list[int], distribution: Any = "zeros") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape, "seed": len(name) + ord(name[0]), "distribution": distribution}


def _map(name: str, dtype: str, dims: tuple[int, int], box: tuple[int, int], swizzle: str = "128B") -> dict[str, Any]:
    width = {"bf16": 2, "f32": 4, "u32": 4, "u8": 1}[dtype]
    return {
        "map": {
            "data_type": dtype, "global_address": name, "global_dim": list(dims), "global_strides": [dims[0] * width], "box_dim": list(box), "swizzle": swizzle,
        }
    }  # fmt: skip


def _floats(bits: np.ndarray) -> np.ndarray:
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _bf16(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _product(arrays: Arrays) -> np.ndarray:
    return np.asarray(_floats(arrays["a"]) @ _floats(arrays["b"]).T, np.float32)


def _e4m3(codes: np.ndarray) -> np.ndarray:
    """The values of codes of normal positive numbers."""
    return np.asarray((1 + (codes & 7) / 8) * 2.0 ** ((codes >> 3).astype(np.int32) - 7))


def _scales(raw: np.ndarray, rows: int) -> np.ndarray:
    """(rows, 8): the scale factors of blocks of 512 B, each 32 x 16 B with four rows in a 16 B, four of k in a row (PTX
    ISA 9.7.16.10.7).
    """
    blocks = raw.view(np.uint8).reshape(2, 32, 4, 4).transpose(2, 1, 0, 3).reshape(128, 8)
    return np.asarray(2.0 ** (blocks[:rows].astype(np.int32) - 127))


def _scaled(arrays: Arrays) -> dict[str, np.ndarray]:
    a = _e4m3(arrays["a"]) * _scales(arrays["sfa"], 128).repeat(32, axis=1)
    b = _e4m3(arrays["b"]) * _scales(arrays["sfb"], 32).repeat(32, axis=1)
    return {"d": (a @ b.T).astype(np.float32)}


def _attention(arrays: Arrays) -> dict[str, np.ndarray]:
    p = np.maximum(_floats(arrays["q"]) @ _floats(arrays["k"]).T, 0)
    return {"o": np.asarray(_floats(_bf16(p)) @ _floats(arrays["v"]).T, np.float32)}


def _chain(arrays: Arrays) -> dict[str, np.ndarray]:
    p = _floats(_bf16(np.maximum(_floats(arrays["q"]) @ _floats(arrays["k"]).T, 0)))
    return {"o": np.asarray(p @ _floats(arrays["v"]), np.float32)}


def _softmax(arrays: Arrays) -> dict[str, np.ndarray]:
    x = arrays["x"][:768].reshape(3, 256).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return {"y": (e / e.sum(1, keepdims=True)).astype(np.float32).reshape(-1)}


def _bulk(arrays: Arrays) -> dict[str, np.ndarray]:
    doubled = 2 * arrays["x"]
    return {"y": doubled, "sums": doubled.reshape(-1, 256).sum(0, dtype=np.uint32)}


def _cluster(arrays: Arrays) -> dict[str, np.ndarray]:
    """A thread of warp 0 sums 16 rows of each half, one of warp w four rows from row 4 w on."""
    x, out = arrays["x"].reshape(2, 2, 16, 32), np.zeros(128, np.uint32)
    for w in range(4):
        rows = x if w == 0 else x[:, :, 4 * w : 4 * w + 4]
        out[32 * w : 32 * w + 32] = rows.sum((0, 1, 2), dtype=np.uint32)
    return {"out": out}


_SMALL = {"integers": [-2, 3]}
_NUMBERS = {"integers": [0, 1000]}

# fmt: off
SHAPES: dict[str, Shape] = {
    "gemm_tma": Shape(
        {"grid": 1, "block": 128, "shared_bytes": 50176, "outputs": ["d"],
         "args": [_map("a", "bf16", (384, 64), (64, 64)), _map("b", "bf16", (384, 32), (64, 32)), _map("d", "f32", (32, 64), (32, 64), "none")],
         "arrays": [_array("a", "bf16", [64, 384], _SMALL), _array("b", "bf16", [32, 384], _SMALL), _array("d", "f32", [64, 32])]},
        lambda arrays: {"d": _product(arrays)}),
    "gemm_ws": Shape(
        {"grid": 2, "block": 256, "shared_bytes": 30720, "outputs": ["d"],
         "args": [_map("a", "bf16", (256, 256), (64, 64)), _map("b", "bf16", (256, 32), (64, 32)), _map("d", "bf16", (32, 256), (32, 64), "none")],
         "arrays": [_array("a", "bf16", [256, 256], _SMALL), _array("b", "bf16", [32, 256], _SMALL), _array("d", "bf16", [256, 32])]},
        lambda arrays: {"d": _bf16(_product(arrays))}),
    "gemm_cpasync": Shape(
        {"grid": 1, "block": 128, "shared_bytes": 12800, "outputs": ["d"], "args": [{"array": "a"}, {"array": "b"}, {"array": "d"}],
         "arrays": [_array("a", "bf16", [64, 128], _SMALL), _array("b", "bf16", [16, 128], _SMALL), _array("d", "f32", [64, 16])]},
        lambda arrays: {"d": _product(arrays)}),
    "cluster": Shape(
        {"grid": 2, "block": 128, "cluster": 2, "shared_bytes": 6144, "outputs": ["out"], "args": [_map("x", "u32", (32, 64), (32, 32), "none"), {"array": "out"}],
         "arrays": [_array("x", "u32", [64, 32], _NUMBERS), _array("out", "u32", [128])]},
        _cluster),
    "softmax": Shape(
        {"grid": 1, "block": 256, "outputs": ["y"], "args": [{"array": "x"}, {"array": "y"}, {"array": "scratch"}],
         "arrays": [_array("x", "f32", [768], {"normal": [0, 1]}), _array("y", "f32", [768]), _array("scratch", "f32", [4])]},
        _softmax, unwritten=("y", "scratch"), rtol=1e-5),
    "bulk": Shape(
        {"grid": 2, "block": 64, "shared_bytes": 4224, "outputs": ["y", "sums"], "args": [{"array": "x"}, {"array": "y"}, {"array": "sums"}, {"array": "copy"}],
         "arrays": [_array("x", "u32", [2048], _NUMBERS), _array("y", "u32", [2048]), _array("sums", "u32", [256]), _array("copy", "u32", [4])]},
        _bulk, unwritten=("y", "copy")),
    "splitk": Shape(
        {"grid": 4, "block": 128, "outputs": ["out"], "args": [{"array": "x"}, {"array": "parts"}, {"array": "tickets"}, {"array": "out"}],
         "arrays": [_array("x", "u32", [4096], _NUMBERS), _array("parts", "u32", [640]), _array("tickets", "u32", [1]), _array("out", "u32", [128])]},
        lambda arrays: {"out": arrays["x"].reshape(128, 32).sum(1, dtype=np.uint32)}, unwritten=("parts", "out")),
    "histogram": Shape(
        {"grid": 2, "block": 64, "outputs": ["bins", "order"], "args": [{"array": "x"}, {"array": "bins"}, {"array": "order"}],
         "arrays": [_array("x", "u32", [2048], _NUMBERS), _array("bins", "u32", [64]), _array("order", "u32", [128])]},
        lambda arrays: {"bins": np.bincount(arrays["x"] & 63, minlength=64).astype(np.uint32), "order": np.tile((np.arange(64, dtype=np.uint32) ^ 1) * 3, 2)},
        unwritten=("order",)),
    "ring": Shape(
        {"grid": 1, "block": 128, "shared_bytes": 1152, "outputs": ["y"], "args": [{"array": "x"}, {"array": "y"}],
         "arrays": [_array("x", "u32", [320], _NUMBERS), _array("y", "u32", [320])]},
        lambda arrays: {"y": arrays["x"].reshape(5, 64)[:, ::-1].reshape(-1)}, unwritten=("y",)),
    "lookback": Shape(
        {"grid": 8, "block": 64, "outputs": ["y"], "args": [{"array": "x"}, {"array": "y"}, {"array": "values"}, {"array": "flags"}, {"array": "blank"}],
         "arrays": [_array("x", "u32", [1024], _NUMBERS), _array("y", "u32", [1024]), _array("values", "u32", [8]), _array("flags", "u32", [8]), _array("blank", "u32", [8])]},
        lambda arrays: {"y": np.cumsum(arrays["x"], dtype=np.uint32)}, unwritten=("y", "values", "blank")),
    "tc_gemm": Shape(
        {"grid": 1, "block": 192, "shared_bytes": 57472, "outputs": ["d"],
         "args": [_map("a", "bf16", (128, 256), (64, 128)), _map("b", "bf16", (128, 32), (64, 32)), _map("d", "f32", (32, 256), (32, 128), "none")],
         "arrays": [_array("a", "bf16", [256, 128], _SMALL), _array("b", "bf16", [32, 128], _SMALL), _array("d", "f32", [256, 32])]},
        lambda arrays: {"d": _product(arrays)}, arch="sm_100a"),
    "tc_pair": Shape(
        {"grid": 4, "block": 192, "cluster": 4, "shared_bytes": 41024, "outputs": ["d"],
         "args": [_map("a", "bf16", (256, 512), (64, 128)), _map("b", "bf16", (256, 64), (64, 16)), {"array": "d"}],
         "arrays": [_array("a", "bf16", [512, 256], _SMALL), _array("b", "bf16", [64, 256], _SMALL), _array("d", "f32", [512, 64])]},
        lambda arrays: {"d": _product(arrays)}, arch="sm_100a"),
    "tc_scaled": Shape(
        {"grid": 1, "block": 192, "shared_bytes": 21568, "outputs": ["d"],
         "args": [_map("a", "u8", (256, 128), (128, 128)), _map("b", "u8", (256, 32), (128, 32)), {"array": "sfa"}, {"array": "sfb"}, {"array": "d"}],
         "arrays": [_array("a", "u8", [128, 256], {"integers": [0x30, 0x41]}), _array("b", "u8", [32, 256], {"integers": [0x30, 0x41]}),
                    _array("sfa", "u8", [1024], {"integers": [126, 130]}), _array("sfb", "u8", [1024], {"integers": [126, 130]}), _array("d", "f32", [128, 32])]},
        _scaled, arch="sm_100a"),
    "tc_clc": Shape(
        {"grid": 6, "block": 224, "shared_bytes": 37056, "cancel": "always", "outputs": ["d"],
         "args": [_map("a", "bf16", (64, 768), (64, 128)), _map("b", "bf16", (64, 32), (64, 32)), {"array": "d"}],
         "arrays": [_array("a", "bf16", [768, 64], _SMALL), _array("b", "bf16", [32, 64], _SMALL), _array("d", "f32", [768, 32])]},
        lambda arrays: {"d": _product(arrays)}, arch="sm_100a"),
    "tc_attention": Shape(
        {"grid": 1, "block": 192, "shared_bytes": 65728, "outputs": ["o"],
         "args": [_map("q", "bf16", (64, 128), (64, 128)), _map("k", "bf16", (64, 192), (64, 64)), _map("v", "bf16", (192, 64), (64, 64)), {"array": "o"}],
         "arrays": [_array("q", "bf16", [128, 64], _SMALL), _array("k", "bf16", [192, 64], _SMALL), _array("v", "bf16", [64, 192], _SMALL), _array("o", "f32", [128, 64])]},
        _attention, arch="sm_100a"),
    "tc_chain": Shape(
        {"grid": 1, "block": 192, "shared_bytes": 82048, "outputs": ["o"],
         "args": [_map("q", "bf16", (64, 128), (64, 128)), _map("k", "bf16", (64, 192), (64, 64)), _map("v", "bf16", (64, 192), (64, 64)), {"array": "o"}, {"array": "blank"}],
         "arrays": [_array("q", "bf16", [128, 64], _SMALL), _array("k", "bf16", [192, 64], _SMALL), _array("v", "bf16", [192, 64], _SMALL), _array("o", "f32", [128, 64]),
                    _array("blank", "f32", [8192])]},
        _chain, unwritten=("blank",), arch="sm_100a"),
}
# fmt: on
