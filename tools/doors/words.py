"""Arbitrary 64-bit words as descriptors, arbitrary 128 bytes as tensor maps."""

from __future__ import annotations

import random

import numpy as np

from smemsim import SmemDescriptor, TensorMap, operand_addresses, tma_load, tma_store
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.core.words.instr import InstrDescriptor
from smemsim.show.tensor_map import tensor_map_json, tensor_map_view
from smemsim.show.words import descriptor_view
from tools.doors.damage import NUMBERS
from tools.doors.guard import Bench, door

__all__ = ["INSTRUCTIONS", "MAPS", "WORDS"]

ONE_IN = 1000  # words that are also looked at one by one, with all that is said about them
SOUND = 0x4000004000010040


def _operand(rng: random.Random) -> dict[str, object]:
    return {"dtype": rng.choice(list(FORMATS)), "major": rng.choice(("K", "MN")), "rows": rng.choice((1, 8, 9)), "k": rng.choice((1, 8, 17)),
            "packing": rng.choice(("packed", "padded"))}  # fmt: skip


def _words(rng: random.Random, cases: int, bench: Bench) -> None:
    draw = np.random.default_rng(rng.getrandbits(64))
    words = draw.integers(0, 1 << 64, cases, np.uint64)
    near = draw.random(cases) < 0.3  # a sound word with some bits flipped
    words[near] = SOUND ^ np.bitwise_or.reduce(np.uint64(1) << draw.integers(0, 64, (3, int(near.sum())), np.uint64))
    arch = rng.choice(list(ARCHITECTURES))
    table, operand = ARCHITECTURES[arch].smem_descriptor, _operand(rng)
    listed = words.tolist()

    def decode() -> None:
        for word in listed:
            if SmemDescriptor.decode(word, arch=arch).encode() != word:
                raise AssertionError(f"{word:#x} is not encoded as it was decoded")

    bench.through(decode, {"words": cases, "arch": arch}, 0)
    # Those that the model refuses are refused together: what decides is the layout, the mode and the base offset.
    raw = [table.fields[name] for name in ("layout_type", "lbo_mode", "base_offset") if name in table.fields]
    kinds = sum((words >> np.uint64(f.low) & np.uint64(f.mask)) << np.uint64(8 * i) for i, f in enumerate(raw))
    for kind in np.unique(kinds).tolist():
        group = words[kinds == kind]
        found = bench.through(lambda group=group: operand_addresses(group, arch=arch, **operand), {"word": hex(int(group[0])), "arch": arch, **operand}, len(group))  # fmt: skip
        if found is not None and found.shape != (len(group), operand["rows"], operand["k"]):
            bench.defect("wrong shape", str(found.shape), {"word": hex(int(group[0]))})
    for word in listed[::ONE_IN]:
        bench.cases -= 1  # these were counted above
        bench.classes["of them explained"] += 1
        operand = _operand(rng) | {"rows": rng.choice((8, 64, 256)), "k": rng.choice((16, 64, 256))}
        d = SmemDescriptor.decode(word, arch=arch)
        bench.through(lambda d=d, operand=operand: descriptor_view(d, d.problems(**operand), major=operand["major"], context=True, width=100),
                      {"word": hex(word), "arch": arch, **operand})  # fmt: skip
        bench.classes["answer"] -= 1


def _instructions(rng: random.Random, cases: int, bench: Bench) -> None:
    def one(word: int, kind: str) -> None:
        d = InstrDescriptor.decode(word, kind=kind)
        assert d.encode() == word
        d.problems()
        d.problems(arch=rng.choice(list(ARCHITECTURES)))

    for _ in range(cases):
        word, kind = rng.getrandbits(32), rng.choice(list(KINDS))
        if rng.random() < 0.5:
            word = 0x8210490 ^ (1 << rng.randrange(32)) ^ (1 << rng.randrange(32))
        bench.through(lambda word=word, kind=kind: one(word, kind), {"word": hex(word), "kind": kind})


LEGAL = {
    "tiled": {"data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 64, 8), "global_strides": (128, 8192), "box_dim": (64, 8, 2), "swizzle": "128B"},
    "bytes": {"data_type": "u8", "global_address": 0x10000, "global_dim": (256,) * 5, "global_strides": (256,) * 4, "box_dim": (16, 2, 2, 1, 1)},
    "line": {"data_type": "f32", "global_address": 0x10000, "global_dim": (64,), "global_strides": (), "box_dim": (64,)},
}  # fmt: skip


def _legal() -> list[bytes]:
    made = [TensorMap.tiled(**arguments) for arguments in LEGAL.values()]
    made.append(TensorMap.im2col(data_type="f16", global_address=0x10000, global_dim=(64, 16, 16, 2), global_strides=(128, 2048, 32768),
                                 pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1), channels_per_pixel=64, pixels_per_column=64,
                                 swizzle="128B"))  # fmt: skip
    return [bytes(tm) for tm in made]


def _map(rng: random.Random, legal: list[bytes]) -> bytes:
    way = rng.random()
    if way < 0.25:
        return rng.randbytes(128)
    word = int.from_bytes(rng.choice(legal), "little")
    if way < 0.6:
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            word ^= 1 << rng.randrange(1024)
        return word.to_bytes(128, "little")
    for name in rng.sample(list(TENSOR_MAP.fields), rng.choice((1, 2, 4))):
        field = TENSOR_MAP.fields[name]
        word &= ~(field.mask << field.low)
        word |= rng.choice((0, 1, field.mask, rng.getrandbits(field.width), rng.randrange(min(field.mask, 15) + 1))) << field.low
    return word.to_bytes(128, "little")


def _maps(rng: random.Random, cases: int, bench: Bench) -> None:
    legal = _legal()
    for number in range(cases):
        raw = _map(rng, legal)
        tm = bench.through(lambda raw=raw: TensorMap.from_bytes(raw), {"map": raw.hex()})
        if tm is None:
            continue
        if bytes(tm) != raw:
            bench.defect("bytes", "the map does not give its own bytes", {"map": raw.hex()})
        if number % 20:
            continue
        bench.cases -= 1
        arch = rng.choice((None, *ARCHITECTURES))
        at = [rng.choice((0, 0, 8, 16, -8, rng.choice(NUMBERS[:-1]))) for _ in range(tm.rank)]
        case = {"map": raw.hex(), "arch": arch, "at": at}

        def all_of_it(tm: TensorMap = tm, arch: str | None = arch) -> None:
            repr(tm), tm.arguments, tm.problems(arch), tm.broken_on(arch)
            tensor_map_json(tm, arch)
            tensor_map_view(tm, arch, width=100)

        bench.through(all_of_it, case)
        for call in (tma_load, tma_store):
            bench.cases -= 1
            bench.through(lambda call=call, tm=tm, at=at: call(tm, at, smem_address=rng.choice((0x400, 0x400, 0x480, 0x8000))), case)


WORDS = door("words", "arbitrary 64-bit words: decode, encode, addresses of an operand; one in a thousand explained", 10_000, _words)
INSTRUCTIONS = door("instructions", "arbitrary 32-bit instruction descriptors: decode, encode, problems", 500, _instructions)
MAPS = door("maps", "arbitrary 128-byte tensor maps: read and written back; one in twenty explained, loaded and stored", 1000, _maps)
