"""Suites of tensor transfers of every mode: im2col, interleave, edited maps, traps, reductions, conversions."""

from __future__ import annotations

import base64
import collections
import pathlib
import random
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import transfer_cases as draw
from bench import FILLED, RUNNERS, UNTOUCHED, Bench, Case, in_processes, kernel_files, pad, ragged, trim
from cases import PLAIN_TYPES, STORE_BYTES, STORE_MARGIN, TENSOR_BYTES
from wgmma_kernels import WINDOW_BEGIN

kernel_files("transfer_probe")
MODULE = "transfer_probe"
INSTRUCTIONS = ("load", "store", "prefetch")
MADE_UP = 1 << 32  # where the tensor of a case that trapped is said to lie
SLOTS = 4096  # places for maps, so that none is where the one before it was


class Scratch:
    """Device memory that a process keeps from case to case."""

    def __init__(self, bench: Bench) -> None:
        index = np.arange(TENSOR_BYTES, dtype=np.uint32)
        self.tensors = [bench.device.array((index >> (8 * p)).astype(np.uint8)) for p in range(3)]
        self.tensors.append(bench.device.array(np.full(TENSOR_BYTES, 0x5A, np.uint8)))
        self.target = bench.api.Buffer(4 * STORE_BYTES)
        self.images = bench.api.Buffer(4 * draw.WINDOW)
        self.results = bench.api.Buffer(16)
        self.transfer = bench.api.Buffer(64)
        self.content = bench.api.Buffer(draw.WINDOW)
        self.maps = bench.api.Buffer(SLOTS * 1024 + 1024)
        self.slot = 0


def scratch(bench: Bench) -> Scratch:
    if not hasattr(bench, "scratch"):
        bench.scratch = Scratch(bench)  # type: ignore[attr-defined]
    found: Scratch = bench.scratch  # type: ignore[attr-defined]
    return found


def edited(raw: bytes, edits: list[list[int]]) -> bytes:
    words = list(struct.unpack("<32I", raw))
    for word, keep, bits in edits:
        words[word] = words[word] & keep | bits
    return struct.pack("<32I", *words)


def put_maps(bench: Bench, case: Case, addresses: list[int]) -> tuple[bytes, int]:
    """(the first map, where the maps lie on the device, 256 bytes apart)."""
    s = scratch(bench)
    maps = [edited(bench.api.encode(case, address), case.get("edits", [])) for address in addresses]
    s.slot = (s.slot + 1) % SLOTS
    at = s.maps.address + 1024 * s.slot + case.get("object_offset", 0)
    padded = b"".join(raw + bytes(128) for raw in maps)
    bench.api.copy_to(at, padded)
    return maps[0], at


def put_transfer(bench: Bench, case: Case) -> Any:
    coordinates = [*case["coordinates"], 0, 0, 0, 0, 0][:5]
    offsets = [*case.get("im2col_offsets", []), 0, 0, 0, 0][:4]
    rank = len(case["coordinates"])
    packed = struct.pack("<ii5i4HIII", case["mode"], rank, *coordinates, *offsets, case["smem_address"], draw.BARRIER, 0x20000)
    scratch(bench).transfer.write(np.frombuffer(packed, np.uint8))
    return scratch(bench).transfer


def compressed(array: np.ndarray) -> str:
    return base64.b85encode(zlib.compress(array.tobytes(), 1)).decode()


def expanded(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype)


def image_answer(raw: bytes, first: int, image: np.ndarray, **more: Any) -> dict[str, Any]:
    begin, touched = trim(first, image)
    return {"map": raw.hex(), "first": begin, "source": compressed(touched.astype(np.int32)), **more}


def load(bench: Bench, case: Case) -> dict[str, Any]:
    s, window = scratch(bench), draw.WINDOW
    raw, at = put_maps(bench, case, [t.address + case["global_offset"] for t in s.tensors])
    transfer = put_transfer(bench, case)
    bench.device.launch(
        bench.function(MODULE, "probe_transfer_load", window),
        1,
        window,
        transfer,
        bench.api.At(at),
        window,
        s.images,
        s.results,
        threads=256,
    )
    credited, completed = s.results.read(np.uint32)[:2].tolist()
    passes = s.images.read().reshape(4, window)[:, : draw.BARRIER - WINDOW_BEGIN].astype(np.int32)
    image = (passes[0] | passes[1] << 8 | passes[2] << 16) - case["global_offset"]
    image = np.where(passes[3] == 0x5A, image, np.where(passes[3] == 0xA5, UNTOUCHED, FILLED - passes[3])).astype(np.int32)
    first = s.tensors[0]
    mapped = {"origin": first.address + case["global_offset"], "memory": [first.address, first.address + first.size]}
    return image_answer(raw, WINDOW_BEGIN, image, credited=credited, completed=completed, **mapped)


def store(bench: Bench, case: Case) -> dict[str, Any]:
    s, window = scratch(bench), draw.WINDOW
    s.target.fill(0xA5)
    bases = [s.target.address + p * STORE_BYTES + case["global_offset"] for p in range(4)]
    raw, at = put_maps(bench, case, bases)
    transfer = put_transfer(bench, case)
    bench.device.launch(bench.function(MODULE, "probe_transfer_store", window), 1, window, transfer, bench.api.At(at), window, threads=256)
    passes = s.target.read().reshape(4, STORE_BYTES).astype(np.int32)
    image = np.where(passes[3] == 0x5A, passes[0] | passes[1] << 8 | passes[2] << 16, UNTOUCHED).astype(np.int32)
    mapped = {"origin": bases[0], "memory": [s.target.address, s.target.address + STORE_BYTES]}
    return image_answer(raw, -STORE_MARGIN, image, credited=0, completed=0b11110, **mapped)


def prefetch(bench: Bench, case: Case) -> dict[str, Any]:
    base = scratch(bench).tensors[0].address + case["global_offset"]
    raw, at = put_maps(bench, case, [base])
    transfer = put_transfer(bench, case)
    bench.device.launch(bench.function(MODULE, "probe_transfer_prefetch", 0), 1, 0, transfer, bench.api.At(at), threads=1)
    return image_answer(raw, 0, np.zeros(0, np.int32), credited=0, completed=0b11110, origin=base, memory=[0, 0])


def any_transfer(bench: Bench, case: Case) -> dict[str, Any]:
    return {"load": load, "store": store, "prefetch": prefetch}[case["instruction"]](bench, case)


def reduce(bench: Bench, case: Case) -> dict[str, Any]:
    """The tensor's surroundings before and after, margins included."""
    s, window = scratch(bench), draw.WINDOW
    content = np.full(window, 0xC3, np.uint8)
    operand = np.frombuffer(bytes.fromhex(case["operand"]), np.uint8)
    begin = case["smem_address"] - WINDOW_BEGIN
    content[begin : begin + len(operand)] = operand
    s.content.write(content)
    before = np.frombuffer(bytes.fromhex(case["before"]), np.uint8)
    bench.api.copy_to(s.target.address, before.tobytes())
    base = s.target.address + case["global_offset"]
    raw, at = put_maps(bench, case, [base])
    transfer = put_transfer(bench, case)
    operation = draw.OPERATIONS.index(case["operation"])
    bench.device.launch(
        bench.function(MODULE, "probe_transfer_reduce", window),
        1,
        window,
        transfer,
        bench.api.At(at),
        window,
        s.content,
        operation,
        threads=256,
    )
    after = s.target.read()[: len(before)]
    return {"map": raw.hex(), "base": base, "after": after.tobytes().hex()}


def values(bench: Bench, case: Case) -> dict[str, Any]:
    """What a load makes of a tensor's values: the shared bytes from the box's first on."""
    s, window = scratch(bench), draw.WINDOW
    tensor = bytes.fromhex(case["tensor"])
    bench.api.copy_to(s.target.address, tensor)
    raw, at = put_maps(bench, case, [s.target.address])
    credited = case["credited"]
    packed = struct.pack("<ii5i4HIII", case["mode"], len(case["coordinates"]), *[*case["coordinates"], 0, 0, 0, 0][:5],
                         *[*case.get("im2col_offsets", []), 0, 0, 0, 0][:4], case["smem_address"], draw.BARRIER, credited)  # fmt: skip
    s.transfer.write(np.frombuffer(packed, np.uint8))
    function = bench.function(MODULE, "probe_transfer_values", window)
    bench.device.launch(function, 1, window, s.transfer, bench.api.At(at), window, s.images, s.results, threads=256)
    if not s.results.read(np.uint32)[0]:
        raise RuntimeError(f"the barrier did not complete: {case}")
    begin = case["smem_address"] - WINDOW_BEGIN
    return {"map": raw.hex(), "base": s.target.address, "image": s.images.read()[begin : begin + case["image_bytes"]].tobytes().hex()}


RUNNERS |= {"transfer": any_transfer, "reduce": reduce, "values": values}


# ------------------------------------------------------------------------------------------------------------------------- suites


def columns(bench: Bench, chosen: list[Case], answers: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """What every kind of transfer records of its arguments; a trapped case's map is encoded once more over a made-up address."""
    maps = [
        bytes.fromhex(a["map"]) if "map" in a else edited(bench.api.encode(c, MADE_UP), c.get("edits", []))
        for c, a in zip(chosen, answers, strict=True)
    ]
    return {
        "tensor_map": np.frombuffer(b"".join(maps), np.uint8).reshape(-1, 128),
        "im2col": np.array([c["mode"] for c in chosen], np.uint8),
        "rank": np.array([len(c["coordinates"]) for c in chosen], np.uint8),
        "coordinates": pad([c["coordinates"] for c in chosen], 5, np.int32),
        "im2col_offsets": pad([c.get("im2col_offsets", []) for c in chosen], 3, np.uint16),
        "smem_address": np.array([c["smem_address"] for c in chosen], np.uint32),
        "window_end": np.array([c["window_end"] for c in chosen], np.uint32),
        "status": np.array([a["status"] for a in answers], np.uint16),
    }


def write_transfers(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes("transfer", chosen)
    print(suite, collections.Counter(a["status"] for a in answers), file=sys.stderr)
    odd = [i for i, a in enumerate(answers) if not a["status"] and a["completed"] & 0b111110 != 0b011110]
    print(
        suite,
        len(odd),
        "with an odd count",
        [(chosen[i], answers[i]["credited"], bin(answers[i]["completed"])) for i in odd[:3]],
        file=sys.stderr,
    )
    for c, a in zip(chosen, answers, strict=True):
        begin = MADE_UP - c["global_offset"]
        a.setdefault("origin", MADE_UP)
        a.setdefault("memory", [begin, begin + (STORE_BYTES if c["instruction"] == "store" else TENSOR_BYTES)])
    sources = [expanded(a["source"], np.int32) if "source" in a else np.zeros(0, np.int32) for a in answers]
    bench.write(
        out,
        suite,
        "tma_transfer",
        title,
        seed,
        len(chosen),
        {
            **columns(bench, chosen, answers),
            "instruction": np.array([c["instruction"] for c in chosen]),
            "object_offset": np.array([c.get("object_offset", 0) for c in chosen], np.uint8),
            "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
            "transaction_bytes": np.array([a.get("credited", 0) for a in answers], np.uint32),
            "memory_begin": np.array([a["memory"][0] for a in answers], np.uint64),
            "memory_end": np.array([a["memory"][1] for a in answers], np.uint64),
            "origin": np.array([a["origin"] for a in answers], np.uint64),
            "first": np.array([a.get("first", 0) for a in answers], np.int64),
            **ragged("source", sources, np.int32),
        },
        ("source",),
    )


def as_loads(chosen: list[Case]) -> list[Case]:
    return [{**c, "instruction": "load"} for c in chosen]


def as_stores(chosen: list[Case]) -> list[Case]:
    return [{**c, "instruction": "store"} for c in chosen]


def tma_im2col(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9101, random.Random(9101)
    chosen = as_loads([draw.im2col(rng, outside=0.05 if i % 4 == 0 else 0.0) for i in range(5200)])
    write_transfers(
        bench, out, "tma_im2col", "im2col loads: corners, offsets, element strides, starts inside and outside the pixel box", seed, chosen
    )


def tma_im2col_interleave(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9102, random.Random(9102)
    chosen = as_loads([draw.im2col(rng, interleave=rng.choice((1, 2)), outside=0.03) for _ in range(1000)])
    write_transfers(bench, out, "tma_im2col_interleave", "im2col loads with interleave", seed, chosen)


def tma_im2col_stores(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9103, random.Random(9103)
    chosen = as_stores(
        [draw.im2col(rng, store=True) for _ in range(1200)]
        + [draw.im2col(rng, store=True, interleave=rng.choice((1, 2))) for _ in range(300)]
    )
    write_transfers(bench, out, "tma_im2col_stores", "im2col_no_offs stores, with and without interleave", seed, chosen)


def tma_interleave(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9104, random.Random(9104)
    chosen = as_loads([draw.interleaved(rng) for _ in range(3400)])
    write_transfers(
        bench,
        out,
        "tma_interleave",
        "Interleaved tiled loads: both interleaves, every swizzle, element strides in every dimension",
        seed,
        chosen,
    )


def tma_interleave_stores(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9105, random.Random(9105)
    chosen = as_stores([draw.interleaved(rng, store=True) for _ in range(1000)])
    write_transfers(bench, out, "tma_interleave_stores", "Interleaved tiled stores", seed, chosen)


def any_case(rng: random.Random) -> Case:
    """A legal transfer of any mode."""
    kind = rng.randrange(8)
    if kind < 4:
        return {**draw.im2col(rng, interleave=rng.choice((0, 0, 1, 2))), "instruction": "load"}
    if kind == 4:
        return {**draw.im2col(rng, store=True, interleave=rng.choice((0, 0, 1, 2))), "instruction": "store"}
    if kind < 7:
        return {**draw.interleaved(rng), "instruction": "load"}
    return {**draw.interleaved(rng, store=True), "instruction": "store"}


def tiled_case(rng: random.Random, *, store: bool) -> Case:
    """A legal plain tiled transfer."""
    import cases

    while True:
        case = {**cases.tiled(rng, store=store), "mode": 0}
        if store:
            case["oob_fill"] = 0
        _, pitch, rows = cases.pitch_and_rows(case)
        if pitch * rows <= draw.MOST_BOX and cases.place(rng, case, draw.WINDOW):
            return case


def tma_mode_traps(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9106, random.Random(9106)
    chosen: list[Case] = []

    def add(count: int, make: Callable[[], Case], change: Callable[[Case], Any]) -> None:
        for _ in range(count):
            case = make()
            change(case)
            chosen.append(case)

    def misalign(case: Case) -> None:
        case["smem_address"] += rng.choice((8, 16, 32, 64, 96))

    def past_end(case: Case) -> None:
        case["smem_address"] = (case["window_end"] - 128 * rng.randrange(1, 40)) // 128 * 128

    def off_chunk(case: Case) -> None:
        case["coordinates"][0] += 1

    def negative(case: Case) -> None:
        i = rng.randrange(len(case["coordinates"]))
        case["coordinates"][i] = -rng.choice((1, 2, 16, 64))

    def other_rank(case: Case) -> None:
        if rng.random() < 0.5 and len(case["coordinates"]) < 5:
            case["coordinates"].append(0)
        elif len(case["coordinates"]) > (3 if case["mode"] else 1):
            case["coordinates"].pop()

    def other_mode(case: Case) -> None:
        if case["mode"] or len(case["coordinates"]) >= 3:
            case["mode"] ^= 1

    def far_dim(case: Case) -> None:
        i = len(case["global_dim"]) - 1 if case["mode"] else rng.randrange(1, len(case["global_dim"]))
        case["global_dim"][i] = (1 << 31) + rng.choice((-200, 0, 1))
        case["global_strides"][i - 1] = 0

    def corner(case: Case) -> None:
        axis = rng.randrange(len(case["pixel_box_lower_corner"]))
        case["pixel_box_lower_corner"][axis], case["pixel_box_upper_corner"][axis] = rng.choice(
            ((-1, 0), (-2, -1), (0, 1), (0, 3), (-1, 2))
        )

    def object_offset(case: Case) -> None:
        case["object_offset"] = rng.choice((16, 32, 64, 64, 64, 96, 8))

    def outside(case: Case) -> None:
        pass

    def wide_slices() -> Case:
        while (case := draw.interleaved(rng))["interleave"] != 2:
            pass
        return {**case, "instruction": "load"}

    def odd_alignment(case: Case) -> None:  # of INTERLEAVE_32B: address or one stride an odd multiple of 16
        case["global_strides"] = [-(-stride // 32) * 32 for stride in case["global_strides"]]
        word = rng.choice((0, *range(3, 2 + len(case["global_dim"]))))
        case["edits"] = [draw.word_edit(word, 0x10, 0x10) if word == 0 else draw.word_edit(word, 1, 1)]

    def offsets(case: Case) -> None:
        case["im2col_offsets"] = [rng.choice((0, 31, 32, 255, 256, 65535)) for _ in case["im2col_offsets"]]

    add(40, lambda: any_case(rng), misalign)
    add(50, lambda: any_case(rng), past_end)
    add(40, lambda: {**draw.im2col(rng), "instruction": "load"}, off_chunk)
    add(20, lambda: {**draw.im2col(rng, store=True), "instruction": "store"}, off_chunk)
    add(30, lambda: {**draw.im2col(rng, store=True), "instruction": "store"}, negative)
    add(20, lambda: {**draw.interleaved(rng, store=True), "instruction": "store"}, negative)
    add(40, lambda: {**draw.im2col(rng, store=True), "instruction": "store"}, corner)
    add(40, lambda: any_case(rng), other_rank)
    add(20, lambda: {**tiled_case(rng, store=False), "instruction": "load"}, other_rank)
    add(40, lambda: any_case(rng), other_mode)
    add(30, lambda: any_case(rng), far_dim)
    add(50, lambda: {**tiled_case(rng, store=rng.random() < 0.0), "instruction": "load"}, object_offset)
    add(60, lambda: {**draw.im2col(rng, outside=0.7), "instruction": "load"}, outside)
    add(30, lambda: {**draw.im2col(rng, interleave=rng.choice((1, 2)), outside=0.7), "instruction": "load"}, outside)
    add(30, lambda: {**draw.im2col(rng), "instruction": "load"}, offsets)
    for make in (lambda: tiled_case(rng, store=False), lambda: draw.im2col(rng), lambda: draw.interleaved(rng)):
        for change in (off_chunk, negative, far_dim, other_rank, other_mode, object_offset, outside):
            add(4, lambda make=make: {**make(), "instruction": "prefetch"}, change)
    add(12, lambda: {**draw.im2col(rng, outside=1.0), "instruction": "prefetch"}, outside)
    add(40, lambda: {**draw.im2col(rng, store=True, outside=0.8), "instruction": "store"}, outside)
    add(40, wide_slices, odd_alignment)
    title = "Transfers of every mode that may trap, and what they do where they do not: ranks, modes, corners, negative starts, object alignment"
    write_transfers(bench, out, "tma_mode_traps", title, seed, chosen)


def tma_edited(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9107, random.Random(9107)
    chosen = []
    for i in range(1700):
        if i % 3 == 0:
            case = any_case(rng)
        else:
            is_store = rng.random() < 0.2
            case = {**tiled_case(rng, store=is_store), "instruction": "store" if is_store else "load"}
        case["edits"] = draw.random_edit(rng, len(case["global_dim"]), is_store=case["instruction"] == "store")
        chosen.append(case)
    title = "Transfers through maps with bits that no encoder writes: derived words, reserved bits, fields past the rank, foreign codes"
    write_transfers(bench, out, "tma_edited", title, seed, chosen)


# --------------------------------------------------------------------------------------------------------------------- reductions

FLOAT_OPERATIONS = {6: ("add", "min", "max"), 9: ("add", "min", "max"), **dict.fromkeys((7, 8, 10, 11, 12), ("add",))}
LEGAL = {  # by tma_reduce_traps
    2: ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
    3: ("add", "min", "max", "and", "or", "xor"),
    4: ("add", "min", "max", "and", "or", "xor"),
    5: ("min", "max"),
    **FLOAT_OPERATIONS,
}


def row_reduction(rng: random.Random, data_type: int, operation: str) -> Case:
    """A rank-1 box of values, one dimension, no swizzle: element i meets element i."""
    size = draw.ITEM_BITS[data_type] // 8
    elements = 16 // size * rng.choice((8, 12, 16))
    before, operand = draw.value_rows(rng, data_type, elements)
    return {
        "mode": 0, "data_type": data_type, "interleave": 0, "swizzle": 0, "l2_promotion": 0, "oob_fill": 0, "global_offset": 0,
        "global_dim": [elements], "global_strides": [], "box_dim": [elements], "element_strides": [1], "coordinates": [0],
        "smem_address": WINDOW_BEGIN + 128 * rng.randrange(64), "window_end": WINDOW_BEGIN + draw.WINDOW,
        "operation": operation, "before": before.hex(), "operand": operand.hex(),
    }  # fmt: skip


def small(make: Callable[[], Case]) -> Case:
    """A case whose box and tensor are small enough to be recorded as bytes."""
    while True:
        case = make()
        if case["data_type"] not in LEGAL:
            continue
        tensor = extent(case)
        if tensor <= 1536 and span(case) <= 1024:
            return case


def extent(case: Case) -> int:
    """Bytes from the tensor's first element to its last."""
    inner = case["global_dim"][0] * max(PLAIN_TYPES.get(case["data_type"], 4), 16 * case["interleave"])
    return int(inner + sum((n - 1) * stride for n, stride in zip(case["global_dim"][1:], case["global_strides"], strict=True)))


def span(case: Case) -> int:
    """An upper bound of the shared bytes a box takes, pitch included."""
    size, width = PLAIN_TYPES.get(case["data_type"], 4), draw.SWIZZLE_BYTES[case["swizzle"]]
    width = width if case["swizzle"] else 16
    if case["mode"]:
        return max(case["channels_per_pixel"] * size, width, 16 * case["interleave"]) * case["pixels_per_column"]
    rows = 1
    for n, step in zip(case["box_dim"][1:], case["element_strides"][1:], strict=True):
        rows *= -(-n // step)
    if case["interleave"]:
        return case["box_dim"][0] * 16 * case["interleave"] * rows
    return max(case["box_dim"][0] * size, width) * rows


def boxed_reduction(rng: random.Random, make: Callable[[], Case]) -> Case:
    """A box of any shape over a small tensor, random bytes."""
    case = small(make)
    case["operation"] = rng.choice(LEGAL[case["data_type"]])
    case["global_offset"] = 64
    case["before"] = rng.randbytes(64 + 1536 + 256).hex()
    case["operand"] = rng.randbytes(min(span(case), draw.BARRIER - case["smem_address"])).hex()
    return case


def write_reductions(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case]) -> None:
    answers = in_processes("reduce", chosen)
    print(suite, collections.Counter((a["status"]) for a in answers), file=sys.stderr)

    def bytes_of(text: str) -> np.ndarray:
        return np.frombuffer(bytes.fromhex(text), np.uint8)

    bench.write(
        out,
        suite,
        "tma_reduce",
        title,
        seed,
        len(chosen),
        {
            **columns(bench, chosen, answers),
            "operation": np.array([c["operation"] for c in chosen]),
            "region": np.array([-c["global_offset"] for c in chosen], np.int64),
            **ragged("operand", [bytes_of(c["operand"]) for c in chosen], np.uint8),
            **ragged("before", [bytes_of(c["before"]) for c in chosen], np.uint8),
            **ragged("after", [bytes_of(a.get("after", "")) for a in answers], np.uint8),
        },
    )


def tma_reductions(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9108, random.Random(9108)
    chosen = []
    for data_type, operations in LEGAL.items():
        for operation in operations:
            chosen += [row_reduction(rng, data_type, operation) for _ in range(90 if data_type in FLOAT_OPERATIONS else 40)]
    makers: list[Callable[[], Case]] = [
        lambda: tiled_case(rng, store=True),
        lambda: tiled_case(rng, store=True),
        lambda: draw.im2col(rng, store=True),
        lambda: draw.interleaved(rng, store=True),
    ]
    chosen += [boxed_reduction(rng, makers[i % 4]) for i in range(400)]
    title = "cp.reduce.async.bulk.tensor: operand bytes in shared memory, the tensor before and after; rows of special values, boxes of any mode"
    write_reductions(bench, out, "tma_reductions", title, seed, chosen)


def tma_reduce_traps(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9109, random.Random(9109)
    chosen = [row_reduction(rng, data_type, operation) for data_type in range(13) for operation in draw.OPERATIONS for _ in range(2)]
    title = "Every operation on every tensor-map data type, plain stores included; the outcome is the CUDA error or the bytes"
    write_reductions(bench, out, "tma_reduce_traps", title, seed, chosen)


# --------------------------------------------------------------------------------------------------------------------- conversions


def tma_conversions(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9110, random.Random(9110)
    chosen: list[Case] = []
    while len(chosen) < 700:
        kind = rng.randrange(3)
        if kind == 0:
            case = tiled_case(rng, store=False)
        elif kind == 1:
            case = draw.im2col(rng, interleave=rng.choice((0, 0, 0, 1, 2)))
        else:
            case = draw.interleaved(rng)
        if PLAIN_TYPES[case["data_type"]] != 4 or (len(case["global_dim"]) > 4 and kind == 0):
            continue
        case["data_type"] = rng.choice((7, 10, 11, 11, 12))
        case["oob_fill"] = rng.randrange(2)
        size = extent(case)
        if size > 2048 or span(case) > 2048:
            continue
        case["global_offset"] = 0
        words = [draw._float_pair(rng, 8, 23)[rng.randrange(2)] for _ in range(-(-size // 4))]
        case |= {
            "tensor": struct.pack(f"<{len(words)}I", *words).hex(),
            "image_bytes": span(case) + 128,
            "instruction": "load",
            "credited": 0x10000,
        }
        chosen.append(case)
    counted = in_processes("transfer", chosen)  # how many bytes does each of them credit?
    for case, answer in zip(chosen, counted, strict=True):
        case["credited"] = answer["credited"]
    answers = in_processes("values", chosen)
    print("tma_conversions", collections.Counter(a["status"] for a in answers), file=sys.stderr)
    bench.write(
        out,
        "tma_conversions",
        "tma_load_bytes",
        "FLOAT32, FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ through boxes of every mode: special values, both fills, the bytes that arrive",
        seed,
        len(chosen),
        {
            **columns(bench, chosen, answers),
            **ragged("tensor", [np.frombuffer(bytes.fromhex(c["tensor"]), np.uint8) for c in chosen], np.uint8),
            **ragged("image", [np.frombuffer(bytes.fromhex(a["image"]), np.uint8) for a in answers], np.uint8),
        },
    )


SUITES = {
    f.__name__: f
    for f in (
        tma_im2col,
        tma_im2col_interleave,
        tma_im2col_stores,
        tma_interleave,
        tma_interleave_stores,
        tma_mode_traps,
        tma_edited,
        tma_reductions,
        tma_reduce_traps,
        tma_conversions,
    )
}
