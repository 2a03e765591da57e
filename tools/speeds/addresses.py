"""Races of operand addresses and tensor maps."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

import smemsim
from smemsim.core.layout.operand import k_major_chunk
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.swizzles import MODES, Swizzle
from tools.speeds.race import Race, Row, same, timed

OPERAND: dict[str, Any] = {"arch": "sm_90a", "dtype": "bf16", "major": "K"}
START, ROWS, K = 0x400, 128, 64
WORDS = np.array([smemsim.SmemDescriptor(arch="sm_90a", start_address=START, stride_byte_offset=1024, swizzle="128B").advance(add).encode()
                  for add in (0, 32, 64, 96)], np.uint64)  # fmt: skip
TILE = ROWS * K
MANY = 20000


def tile(out: np.ndarray | None = None) -> np.ndarray:
    """uint32 (4 K steps, 128, 16): a 128 x 64 bf16 tile under 128B swizzle."""
    return smemsim.operand_addresses(WORDS, rows=ROWS, k=16, out=out, **OPERAND)


def as_matrix(addresses: np.ndarray) -> np.ndarray:
    """(128, 64) of the four K steps."""
    return addresses.transpose(1, 0, 2).reshape(ROWS, K)


def _by_hand() -> np.ndarray:
    """The tile in numpy, for this swizzle, type and shape alone."""
    linear = START + np.arange(ROWS, dtype=np.uint32)[:, None] * np.uint32(128) + np.arange(K, dtype=np.uint32) * np.uint32(2)
    return linear ^ ((linear >> np.uint32(3)) & np.uint32(0x70))


def _in_python() -> list[list[int]]:
    mode = MODES[Swizzle.B128]
    return [
        [swizzle(k_major_chunk(START, 16, 1024, mode.width, row, k // 8), 0, mode.mask, mode.shift) + k % 8 * 2 for k in range(K)]
        for row in range(ROWS)
    ]


def _against(other: Callable[[], Any]) -> Callable[[], Race]:
    return lambda: Race(timed(tile), timed(other), same(as_matrix(tile()), other(), "addresses"))


def _tile_out() -> Race:
    out, source = np.empty((4, ROWS, 16), np.uint32), np.ones((4, ROWS, 16), np.uint32)
    return Race(timed(lambda: tile(out)), timed(lambda: np.copyto(out, source)))


def _random(major: str, *, into: bool) -> Callable[[], Race]:
    def start() -> Race:
        words = np.random.default_rng(1).integers(0, 1 << 63, MANY, dtype=np.uint64) * np.uint64(2)
        out, source = np.empty((MANY, 64, 16), np.uint32), np.ones((MANY, 64, 16), np.uint32)

        def ours() -> np.ndarray:
            return smemsim.operand_addresses(words, arch="sm_90a", dtype="bf16", major=major, rows=64, k=16, out=out if into else None)

        return Race(timed(ours), timed((lambda: np.copyto(out, source)) if into else source.copy))

    return start


def _twice() -> Race:
    words = np.random.default_rng(1).integers(0, 1 << 63, MANY, dtype=np.uint64) * np.uint64(2)
    out = np.empty((MANY, 64, 16), np.uint32)

    def of(count: int) -> None:
        smemsim.operand_addresses(words[:count], rows=64, k=16, out=out[:count], **OPERAND)

    return Race(timed(lambda: of(MANY)), timed(lambda: of(MANY // 2)), "2.0x the time is linear")


def _maps() -> list[dict[str, Any]]:
    """Different maps, each made once a round: there is nothing to remember."""
    rng, arguments = random.Random(1), []
    for _ in range(1000):
        rank = rng.randint(2, 5)
        arguments.append(
            {
                "data_type": rng.choice(["bf16", "FLOAT16", 9]),
                "global_address": 16 * rng.randint(1, 1 << 40),
                "global_dim": tuple(rng.randint(64, 1 << 20) for _ in range(rank)),
                "global_strides": tuple(16 * rng.randint(1, 1 << 30) for _ in range(rank - 1)),
                "box_dim": (64, *(rng.randint(1, 5) for _ in range(rank - 1))),
                "element_strides": (1,) * rank,
                "swizzle": "128B",
                "arch": rng.choice(["sm_90a", "sm_100a", None]),
            }
        )
    return arguments


def _encode() -> Race:
    arguments, words, pack = _maps(), list(range(32)), struct.Struct("<32I").pack
    return Race(timed(lambda: [bytes(smemsim.TensorMap.tiled(**a)) for a in arguments]), timed(lambda: [pack(*words) for _ in arguments]),
                "ours judges every argument first")  # fmt: skip


def _decode() -> Race:
    arguments = _maps()
    raw = [bytes(smemsim.TensorMap.tiled(**a)) for a in arguments]
    unpack = struct.Struct("<32I").unpack
    again = [bytes(smemsim.TensorMap.from_bytes(b)) for b in raw]
    note = same(np.frombuffer(b"".join(again), np.uint8), np.frombuffer(b"".join(raw), np.uint8), "bytes, encoded again")
    return Race(timed(lambda: [smemsim.TensorMap.from_bytes(b) for b in raw]), timed(lambda: [unpack(b) for b in raw]), note)


_ONE, _LOT, _SIZE = "operand addresses, one 128 x 64 bf16 tile", f"operand addresses, {MANY:,} random words x 64 x 16 bf16", MANY * 64 * 16
# fmt: off
ROWS_OF_ADDRESSES = (
    Row("addresses", _ONE, "the same tile in numpy, written for it alone", TILE, "addresses", _against(_by_hand)),
    Row("addresses", f"{_ONE}, formula", "the formula in Python, one by one", TILE, "addresses", _against(_in_python)),
    Row("addresses", f"{_ONE}, into out=", "np.copyto of as many", TILE, "addresses", _tile_out),
    Row("addresses", f"{_LOT}, K-major, into out=", "np.copyto of as many", _SIZE, "addresses", _random("K", into=True)),
    Row("addresses", f"{_LOT}, MN-major, into out=", "np.copyto of as many", _SIZE, "addresses", _random("MN", into=True)),
    Row("addresses", f"{_LOT}, K-major, allocated", "copy() of as many, allocated", _SIZE, "addresses", _random("K", into=False)),
    Row("addresses", f"{_LOT}, MN-major, allocated", "copy() of as many, allocated", _SIZE, "addresses", _random("MN", into=False)),
    Row("addresses", "operand addresses, twice the words", "half of them", _SIZE, "addresses", _twice),
    Row("tensor maps", "tensor maps, 1,000 different ones judged and encoded", "struct.pack of 32 words each", 1000, "maps", _encode),
    Row("tensor maps", "tensor maps, 1,000 different ones from bytes", "struct.unpack of 32 words each", 1000, "maps", _decode),
)
# fmt: on
