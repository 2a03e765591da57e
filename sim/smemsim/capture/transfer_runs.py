"""Running one tensor transfer of any mode on the device: what is put there, what comes back."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from smemsim.capture import transfer_cases as draw
from smemsim.capture.bench import FILLED, RUNNERS, UNTOUCHED, Bench, Case, kernel_files, pad, trim
from smemsim.capture.cases import STORE_BYTES, STORE_MARGIN, TENSOR_BYTES
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN

kernel_files("transfer_probe")
MODULE = "transfer_probe"
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
    """Return (the first map, the address of the maps on the device, 256 bytes apart)."""
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
        bench.function(MODULE, "probe_transfer_load"),
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
    bench.device.launch(bench.function(MODULE, "probe_transfer_store"), 1, window, transfer, bench.api.At(at), window, threads=256)
    passes = s.target.read().reshape(4, STORE_BYTES).astype(np.int32)
    image = np.where(passes[3] == 0x5A, passes[0] | passes[1] << 8 | passes[2] << 16, UNTOUCHED).astype(np.int32)
    mapped = {"origin": bases[0], "memory": [s.target.address, s.target.address + STORE_BYTES]}
    return image_answer(raw, -STORE_MARGIN, image, credited=0, completed=0b11110, **mapped)


def prefetch(bench: Bench, case: Case) -> dict[str, Any]:
    base = scratch(bench).tensors[0].address + case["global_offset"]
    raw, at = put_maps(bench, case, [base])
    transfer = put_transfer(bench, case)
    bench.device.launch(bench.function(MODULE, "probe_transfer_prefetch"), 1, 0, transfer, bench.api.At(at), threads=1)
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
        bench.function(MODULE, "probe_transfer_reduce"),
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
    """The values that a load makes of a tensor's: the shared bytes from the box's first on."""
    s, window = scratch(bench), draw.WINDOW
    tensor = bytes.fromhex(case["tensor"])
    bench.api.copy_to(s.target.address, tensor)
    raw, at = put_maps(bench, case, [s.target.address])
    credited = case["credited"]
    packed = struct.pack("<ii5i4HIII", case["mode"], len(case["coordinates"]), *[*case["coordinates"], 0, 0, 0, 0][:5],
                         *[*case.get("im2col_offsets", []), 0, 0, 0, 0][:4], case["smem_address"], draw.BARRIER, credited)  # fmt: skip
    s.transfer.write(np.frombuffer(packed, np.uint8))
    function = bench.function(MODULE, "probe_transfer_values")
    bench.device.launch(function, 1, window, s.transfer, bench.api.At(at), window, s.images, s.results, threads=256)
    if not s.results.read(np.uint32)[0]:
        raise RuntimeError(f"the barrier did not complete: {case}")
    begin = case["smem_address"] - WINDOW_BEGIN
    return {"map": raw.hex(), "base": s.target.address, "image": s.images.read()[begin : begin + case["image_bytes"]].tobytes().hex()}


RUNNERS |= {"transfer": any_transfer, "reduce": reduce, "values": values}


def columns(bench: Bench, chosen: list[Case], answers: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The records of every kind of transfer about its arguments. The map of a trapped case is encoded once more with a
    made-up address.
    """
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
