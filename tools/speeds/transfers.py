"""Races of TMA loads and of matrix instructions that read through descriptors, all memories with owners."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import smemsim
from tools.speeds.race import Race, Row, same, timed

BOX = (128, 64)  # lines, bf16 elements of a line


def bf16(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normally distributed bits."""
    bits: np.ndarray = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits


def _box() -> smemsim.TensorMap:
    return smemsim.TensorMap.tiled(
        data_type="bf16", global_address=1 << 40, global_dim=(4096, 512), global_strides=(8192,), box_dim=(64, 128), swizzle="128B"
    )


def _box_by_hand() -> tuple[np.ndarray, np.ndarray]:
    """Shared and global address of every byte of the box at (64, 64), in numpy, for this box alone."""
    line, byte = np.arange(128, dtype=np.int64)[:, None], np.arange(128, dtype=np.int64)
    linear = 1024 + 128 * line + byte
    return linear ^ (linear >> 3 & 0x70), (1 << 40) + 8192 * (64 + line) + 128 + byte


def _addresses() -> Race:
    tm = _box()

    def ours() -> tuple[np.ndarray, np.ndarray]:
        transfer = smemsim.tma_load(tm, (64, 64), smem_address=1024)
        return transfer.shared_address, transfer.global_address

    mine = dict(zip(*(x.ravel().tolist() for x in ours()), strict=True))
    hand = dict(zip(*(x.ravel().tolist() for x in _box_by_hand()), strict=True))
    return Race(timed(ours), timed(_box_by_hand), same(sorted(mine.items()), sorted(hand.items()), "pairs of addresses"))


def _load(width: int, *, spread: bool) -> Callable[[], Race]:
    """The largest box, 7 x 256 x 64 bf16, into a memory that knows where each byte is from; `spread` is a copy of the
    same bytes, else one from cache to cache.
    """

    def start() -> Race:
        shape = (8, 512, width)
        large = smemsim.TensorMap.tiled(
            data_type="bf16", global_address=1 << 40, global_dim=shape[::-1], global_strides=(2 * width, 1024 * width),
            box_dim=(64, 256, 7), swizzle="128B",
        )  # fmt: skip
        world, shared = smemsim.GlobalMemory(), smemsim.SharedMemory()
        world.place(np.random.default_rng(1).integers(0, 1 << 16, shape, np.uint16), large.global_address)
        tensor = world.region(large.global_address)[1].reshape(8, 512, 2 * width)
        dense, source = np.empty((7, 256, 128), np.uint8), tensor[:7, 64:320, :128]
        if not spread:
            source = source.copy()

        def ours() -> None:
            shared.writers.clear()
            shared.tma_load(large, (0, 64, 0), smem_address=1024, source=world)

        ours()
        lines = np.arange(7 * 256)[:, None]
        chunks = shared.bytes[1024 - shared.begin :][: dense.size].reshape(-1, 8, 16)[lines, np.arange(8) ^ lines % 8]
        return Race(timed(ours), timed(lambda: np.copyto(dense, source)), same(chunks.ravel(), tensor[:7, 64:320, :128].ravel(), "bytes"))

    return start


def _stage(count: int) -> Callable[[], None]:
    """A K loop of tcgen05 tiles, 128 x 256 x 64: two TMA loads and four MMAs a tile."""
    rng, world, maps = np.random.default_rng(1), smemsim.GlobalMemory(), []
    for rows, address in ((128, 1 << 40), (256, 1 << 41)):
        world.place(bf16(rng, (rows, 4096)), address)
        maps.append(
            smemsim.TensorMap.tiled(
                data_type="bf16",
                global_address=address,
                global_dim=(4096, rows),
                global_strides=(8192,),
                box_dim=(64, rows),
                swizzle="128B",
            )
        )

    def loop() -> None:
        shared, tensor = smemsim.SharedMemory("sm_100a"), smemsim.TensorMemory("sm_100a")
        d = tensor.alloc(256)
        for tile in range(count):
            stage = 0x400 + tile % 4 * 0xC000
            for tm, at in zip(maps, (stage, stage + 0x4000), strict=True):
                shared.tma_load(tm, (64 * tile, 0), smem_address=at, source=world)
            for step in range(4):
                a, b = (0x4000404000010000 | at + 32 * step >> 4 for at in (stage, stage + 0x4000))
                smemsim.tcgen05_mma(tensor, d, a, b, 0x08400490, kind="f16", shared=shared, enable_input_d=tile + step > 0)

    return loop


def _tile() -> Race:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((rows, 64)).astype(np.float32) for rows in (128, 256))
    return Race(timed(_stage(1)), timed(lambda: a @ b.T), "addresses, owners and bit-exact sums")


def _loop() -> Race:
    return Race(timed(_stage(32)), timed(_stage(8)), "4.0x the time is linear")


def _wgmma() -> Race:
    rng, shared = np.random.default_rng(1), smemsim.SharedMemory("sm_90a")
    for at, rows in ((0x400, 64), (0x2400, 256)):
        shared.write(at, bf16(rng, (rows, 64)))
    a, b = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (64, 256))
    return Race(timed(lambda: smemsim.wgmma(shared, 0x4000004000010040, 0x4000004000010240, n=256, a_type="bf16")), timed(lambda: a @ b.T))


_COPY = "np.copyto of the same bytes"
# fmt: off
ROWS_OF_TRANSFERS = (
    Row("TMA", "tma_load, all addresses of a 128 x 64 bf16 box", "the same box in numpy, written for it alone", 16384, "bytes", _addresses),
    Row("TMA", "tma_load, 224 KiB with owners, rows that follow one another", _COPY, 7 << 15, "bytes", _load(64, spread=True)),
    Row("TMA", "tma_load, 224 KiB with owners, rows 8 KiB apart", _COPY, 7 << 15, "bytes", _load(4096, spread=True)),
    Row("TMA", "tma_load, 224 KiB with owners, rows 8 KiB apart, from the cache", "np.copyto of as many bytes, dense", 7 << 15, "bytes", _load(4096, spread=False)),
    Row("MMA", "wgmma m64n256k16 through descriptors, with owners", "numpy's float32 product", 64 * 256 * 16, "MAC", _wgmma),
    Row("MMA", "tcgen05 tile 128 x 256 x 64: 2 TMA loads, 4 MMAs, with owners", "numpy's float32 product", 128 * 256 * 64, "MAC", _tile),
    Row("MMA", "K loop of 32 such tiles", "of 8", 32 * 128 * 256 * 64, "MAC", _loop),
)
# fmt: on
