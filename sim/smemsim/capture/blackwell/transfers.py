"""Suites of the tensor transfers that sm_90 lacks: gather4, scatter4, im2col::w, CTA pairs, atom swizzles, sub-byte
types.
"""

from __future__ import annotations

import pathlib
import random
import struct
from typing import Any

import numpy as np

from smemsim.capture import transfer_cases as draw
from smemsim.capture import transfer_runs, transfer_suites, value_suites, wide_suite
from smemsim.capture.bench import FILLED, KERNELS, RUNNERS, UNTOUCHED, Bench, Case, in_processes, pad, ragged, trim
from smemsim.capture.bench import HERE as CAPTURE
from smemsim.capture.blackwell import pages
from smemsim.capture.blackwell.contents import WINDOW_BEGIN
from smemsim.capture.blackwell.pages import compressed, expanded
from smemsim.capture.cases import SWIZZLE_BYTES, TENSOR_BYTES

HERE = pathlib.Path(__file__).resolve().parent
MODULE = "blackwell_transfer"
GATHER, GATHER_CTA, WIDE, WIDE_128, SCATTER = range(5)
FORMS = ("gather4", "gather4.cta", "im2col::w", "im2col::w::128", "scatter4")
WIDTHS = {**dict(enumerate(SWIZZLE_BYTES)), 4: 128, 5: 128, 6: 128}  # driver codes 4 to 6 are the atoms of 128B
# driver code: bytes in global memory and in shared memory for 16 elements
SUB_BYTE = {13: (8, 16), 14: (8, 16), 15: (12, 16)}
PAIR_ROOM = 0x8000
NOTHING = compressed(np.zeros(0, np.int32))


def source() -> str:
    return (CAPTURE / "transfer_probe.cu").read_text() + (HERE / "transfer.cu").read_text()


def encode(bench: Bench, case: Case, address: int) -> bytes:
    if "pixel_box_lower_corner_width" in case:
        code, raw = wide_suite.verdict({**case, "global_address": address})
        if code:
            raise bench.api.CudaError(code, f"cuTensorMapEncodeIm2colWide of {case}")
        return raw
    return bytes(bench.api.encode(case, address))


def put_maps(bench: Bench, case: Case, addresses: list[int]) -> tuple[bytes, int]:
    s = transfer_runs.scratch(bench)
    maps = [encode(bench, case, address) for address in addresses]
    s.slot = (s.slot + 1) % transfer_runs.SLOTS
    at = s.maps.address + 1024 * s.slot
    bench.api.copy_to(at, b"".join(raw + bytes(128) for raw in maps))
    return maps[0], at


def combined(passes: np.ndarray, offset: int) -> np.ndarray:
    """Source offsets of bytes from the passes (4, …): three bytes of the index and a constant."""
    p = passes.astype(np.int32)
    image = (p[0] | p[1] << 8 | p[2] << 16) - offset
    return np.where(p[3] == 0x5A, image, np.where(p[3] == 0xA5, UNTOUCHED, FILLED - p[3])).astype(np.int32)


def run_transfer(bench: Bench, case: Case) -> dict[str, Any]:
    KERNELS.setdefault(MODULE, source)
    s, window = transfer_runs.scratch(bench), draw.WINDOW
    store = case["form"] == SCATTER
    if store:
        s.target.fill(0xA5)
        addresses = [s.target.address + p * transfer_runs.STORE_BYTES + case["global_offset"] for p in range(4)]
    else:
        addresses = [t.address + case["global_offset"] for t in s.tensors]
    raw, at = put_maps(bench, case, addresses)
    coordinates = [*case["coordinates"], 0, 0, 0, 0, 0][:5]
    packed = struct.pack("<7i2H3I", case["form"], case["rank"], *coordinates, case.get("halo", 0), case.get("offset", 0), case["smem_address"],
                         draw.BARRIER, 0x20000)  # fmt: skip
    s.transfer.write(np.frombuffer(packed, np.uint8))
    if store:
        bench.device.launch(bench.function(MODULE, "blackwell_store"), 1, window, s.transfer, bench.api.At(at), window, threads=256)
        passes = s.target.read().reshape(4, transfer_runs.STORE_BYTES).astype(np.int32)
        image = np.where(passes[3] == 0x5A, passes[0] | passes[1] << 8 | passes[2] << 16, UNTOUCHED).astype(np.int32)
        first, credited, completed = -transfer_runs.STORE_MARGIN, 0, 0b11110
    else:
        function = bench.function(MODULE, "blackwell_load")
        bench.device.launch(function, 1, window, s.transfer, bench.api.At(at), window, s.images, s.results, threads=256)
        credited, completed = s.results.read(np.uint32)[:2].tolist()
        image = combined(s.images.read().reshape(4, window)[:, : draw.BARRIER - WINDOW_BEGIN], case["global_offset"])
        first = WINDOW_BEGIN
    begin, touched = trim(first, image)
    return {
        "map": raw.hex(),
        "first": begin,
        "source": compressed(touched),
        "credited": credited,
        "completed": completed,
        "origin": addresses[0],
    }


def run_pair(bench: Bench, case: Case) -> dict[str, Any]:
    KERNELS.setdefault(MODULE, source)
    s, window = transfer_runs.scratch(bench), PAIR_ROOM
    if not hasattr(bench, "pair_buffers"):
        bench.pair_buffers = (bench.api.Buffer(8 * window), bench.api.Buffer(32))  # type: ignore[attr-defined]
    images, results = bench.pair_buffers  # type: ignore[attr-defined]
    raw, at = put_maps(bench, case, [t.address + case["global_offset"] for t in s.tensors])
    packed = struct.pack("<2i7I", *case["coordinates"], case["smem_address"], WINDOW_BEGIN + window - 16, 0x20000, case["issuer"], case["barrier_rank"],
                         case["group"], case["mask"])  # fmt: skip
    s.transfer.write(np.frombuffer(packed, np.uint8))
    function = bench.function(MODULE, "blackwell_pair")
    bench.device.launch(function, 2, window, s.transfer, bench.api.At(at), window, images, results, threads=256)
    seen = images.read().reshape(2, 4, window)[:, :, : window - 16]
    both = [trim(WINDOW_BEGIN, combined(seen[rank], case["global_offset"])) for rank in (0, 1)]
    return {
        "map": raw.hex(),
        "first": [first for first, _ in both],
        "sources": [compressed(image) for _, image in both],
        "credited": results.read(np.uint32).reshape(2, 4).tolist(),
    }


RUNNERS |= {"blackwell_transfer": run_transfer, "blackwell_pair": run_pair}

# ------------------------------------------------------------------------------------------------------------ the cases


def gathered(rng: random.Random, *, store: bool) -> Case:
    """A rank-2 map of one row a box, and four rows anywhere in and around the tensor."""
    data_type = rng.choice((0, 1, 2, 9, 7, 6))
    size = draw.PLAIN_TYPES[data_type]
    swizzle = rng.choice((0, 1, 2, 3, 3, 3, 4, 6))
    width = WIDTHS[swizzle] if swizzle else rng.choice((16, 64, 128, 256, 512))
    columns = min(256, (width if rng.random() < 0.6 else 16 * rng.randrange(1, width // 16 + 1)) // size)
    dim = [max(16 // size, columns + rng.randrange(-columns // 2, columns + 1)), rng.randrange(1, 40)]
    step = max(1, 16 // size)
    rows = [rng.randrange(0, dim[1]) if rng.random() < 0.9 else rng.choice((-1, -7, dim[1], dim[1] + 3)) for _ in range(4)]
    if rng.random() < 0.15:
        rows[rng.randrange(4)] = rows[0]
    if store:  # four different ones, or their writes race; some past the end
        rows = rng.sample(range(max(dim[1], 4) + rng.randrange(3)), 4)
    return {
        "form": SCATTER if store else rng.choice((GATHER, GATHER_CTA)),
        "rank": 2,
        "data_type": data_type,
        "global_dim": dim,
        "global_strides": [-(-dim[0] * size // 16) * 16 + 16 * rng.randrange(0, 5)],
        "box_dim": [columns, 1 if rng.random() < 0.95 else 4],
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": int(not store and data_type in (6, 7, 9) and rng.random() < 0.3),
        "global_offset": draw.STORE_MARGIN if store else 32 * rng.randrange(0, 32),
        "coordinates": [rng.choice((0, 0, rng.randrange(0 if store else -columns, dim[0]))) // step * step, *rows],
        "smem_address": WINDOW_BEGIN + 128 * rng.randrange(0, 400),
        "window_end": WINDOW_BEGIN + draw.WINDOW,
    }


def wide(rng: random.Random) -> Case:
    """Arguments of cuTensorMapEncodeIm2colWide over a small tensor, and a load through it."""
    rank, mode = rng.choice((3, 4, 5)), rng.randrange(2)
    data_type = rng.choice((0, 1, 2, 6, 7, 9))
    size = draw.PLAIN_TYPES[data_type]
    swizzle = rng.choice((2, 3, 3, 4))
    inner = WIDTHS[swizzle] if rng.random() < 0.6 else 16 * rng.randrange(1, WIDTHS[swizzle] // 16 + 1)
    dim = [rng.randrange(1, 2 * inner // size + 1), *(rng.randrange(2, 24) for _ in range(rank - 2)), rng.randrange(1, 4)]
    stride, pitch = [], -(-dim[0] * size // 32) * 32
    for i in range(1, rank):
        stride.append(pitch)
        dim[i] = min(dim[i], max(1, draw.LOAD_ROOM // pitch))
        pitch *= dim[i]
    lower, upper = rng.randrange(-3, 3), rng.randrange(-3, 3)
    if dim[1] + upper <= lower:
        upper = lower - dim[1] + 1
    step = max(1, 16 // size)
    spatial = [rng.randrange(lower, dim[1] + upper), *(rng.randrange(0, n) for n in dim[2:-1])]
    return {
        "form": WIDE_128 if mode else WIDE,
        "rank": rank,
        "data_type": data_type,
        "global_dim": dim,
        "global_strides": stride,
        "pixel_box_lower_corner_width": lower,
        "pixel_box_upper_corner_width": upper,
        "channels_per_pixel": max(1, inner // size),
        "pixels_per_column": rng.choice((1, 8, 16, rng.randrange(1, 129))),
        "element_strides": [1, *(rng.choice((1, 1, 2)) for _ in range(rank - 1))],
        "interleave": 0,
        "mode": mode,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": int(data_type in (6, 7, 9) and rng.random() < 0.3),
        "coordinates": [rng.choice((0, 0, rng.randrange(0, dim[0]) // step * step)), *spatial, rng.randrange(0, dim[-1])],
        "halo": rng.choice((0, 0, 1, 2, rng.randrange(32 if mode else 128))),
        "offset": rng.choice((0, 0, 1, rng.randrange(32))),
        "global_offset": 32 * rng.randrange(0, 32),
        "smem_address": WINDOW_BEGIN + 1024 * rng.randrange(0, 8),
        "window_end": WINDOW_BEGIN + draw.WINDOW,
    }


def atoms(rng: random.Random, *, store: bool) -> Case:
    """A plain tiled transfer with one of the atoms. 96B is in no driver's enum; suite tma_swizzle_bits sets its bit."""
    while True:
        case = draw.tiled_case(rng, store=store)
        case["swizzle"] = rng.choice((4, 4, 5, 6))
        size = draw.PLAIN_TYPES[case["data_type"]]
        if case["box_dim"][0] * size > WIDTHS[case["swizzle"]]:
            continue
        rows = 1
        for n, step in zip(case["box_dim"][1:], case["element_strides"][1:], strict=True):
            rows *= -(-n // step)
        room = draw.WINDOW - 128 * rows - 512
        if room < 1024:
            continue
        case["smem_address"] = WINDOW_BEGIN + 128 * rng.randrange(0, room // 128)
        return {**case, "instruction": "store" if store else "load"}


def sub_byte(rng: random.Random) -> Case:
    """A tiled load of a type below eight bits; sizes count elements."""
    data_type = rng.choice((13, 14, 15))
    taken, _ = SUB_BYTE[data_type]
    swizzle = rng.choice((0, 3, 3, 4, 5, 6) if data_type > 13 else (0, 1, 2, 3, 4))
    inner = 128 if data_type > 13 else rng.choice((32, 64, 128, 256 if not swizzle else 64))
    if data_type == 13 and swizzle:
        inner = min(inner, 2 * WIDTHS[swizzle])
    dim = [128 * rng.randrange(1, 4), rng.randrange(1, 24)]
    rows = rng.randrange(1, 24)
    return {
        "instruction": "load",
        "mode": 0,
        "data_type": data_type,
        "global_dim": dim,
        "global_strides": [-(-dim[0] // 16 * taken // 32) * 32 + 32 * rng.randrange(0, 3)],
        "box_dim": [inner, rows],
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": 0,
        "global_offset": 32 * rng.randrange(0, 32),
        "coordinates": [128 * rng.choice((0, 0, 1, -1)), rng.randrange(-2, dim[1])],
        "smem_address": WINDOW_BEGIN + 128 * rng.randrange(0, 300),
        "window_end": WINDOW_BEGIN + draw.WINDOW,
    }


def paired(rng: random.Random) -> Case:
    data_type = rng.choice((0, 9, 7))
    size = draw.PLAIN_TYPES[data_type]
    swizzle = rng.randrange(4)
    columns = (WIDTHS[swizzle] if swizzle else 128) // size
    return {
        "data_type": data_type,
        "global_dim": [2 * columns, 64],
        "global_strides": [2 * columns * size],
        "box_dim": [columns, rng.choice((8, 16, 64))],
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": swizzle,
        "l2_promotion": 0,
        "oob_fill": 0,
        "global_offset": 32 * rng.randrange(0, 32),
        "coordinates": [rng.choice((0, columns)), rng.randrange(-4, 60)],
        "smem_address": WINDOW_BEGIN + 1024 * rng.randrange(0, 16),
        "issuer": rng.randrange(2),
        "barrier_rank": rng.randrange(2),
        "group": rng.choice((1, 2, 2, 2)),
        "mask": rng.choice((0, 0, 0, 1, 2, 3)),
    }


def encodable(bench: Bench, chosen: list[Case]) -> list[Case]:
    """The cases whose map the driver makes. The encode suites record the maps that it refuses."""
    kept = []
    for case in chosen:
        try:
            encode(bench, case, 1 << 32)
        except bench.api.CudaError:
            continue
        kept.append(case)
    return kept


# ----------------------------------------------------------------------------------------------------------- the suites


def encode_arguments(chosen: list[Case]) -> dict[str, np.ndarray]:
    """Those of the encode call of every case: what a wide map's 128 bytes mean is in no document."""
    lists = {"global_dim": (5, np.uint64), "global_strides": (4, np.uint64), "box_dim": (5, np.uint32), "element_strides": (5, np.uint32)}
    enums = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill", "mode")
    pixels = ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column")
    return {
        **{name: pad([c.get(name, []) for c in chosen], width, dtype) for name, (width, dtype) in lists.items()},
        **{name: np.array([c.get(name, 0) for c in chosen], np.uint8) for name in enums},
        **{name: np.array([c.get(name, 0) for c in chosen], np.int32) for name in pixels},
    }


def write_transfers(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, drawn: list[Case]) -> None:
    chosen = encodable(bench, drawn)
    answers = in_processes("blackwell_transfer", chosen)
    pages.report(suite, answers)
    made_up = [encode(bench, c, transfer_runs.MADE_UP) for c in chosen]
    maps = [bytes.fromhex(a["map"]) if "map" in a else m for a, m in zip(answers, made_up, strict=True)]
    sources = [expanded(a["source"], np.int32) if "source" in a else np.zeros(0, np.int32) for a in answers]
    bench.write(
        out, suite, "tma_blackwell", title, seed, len(chosen),
        {
            "form": np.array([FORMS[c["form"]] for c in chosen]),
            "tensor_map": np.frombuffer(b"".join(maps), np.uint8).reshape(-1, 128),
            "rank": np.array([c["rank"] for c in chosen], np.uint8),
            "coordinates": pad([c["coordinates"] for c in chosen], 5, np.int32),
            "halo": np.array([c.get("halo", 0) for c in chosen], np.uint16),
            "offset": np.array([c.get("offset", 0) for c in chosen], np.uint16),
            "smem_address": np.array([c["smem_address"] for c in chosen], np.uint32),
            "window_end": np.array([c["window_end"] for c in chosen], np.uint32),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
            "transaction_bytes": np.array([a.get("credited", 0) for a in answers], np.uint32),
            "global_address": np.array([a.get("origin", transfer_runs.MADE_UP) for a in answers], np.uint64),
            **encode_arguments(chosen),
            "memory_bytes": np.array([transfer_runs.STORE_BYTES if c["form"] == SCATTER else TENSOR_BYTES for c in chosen], np.uint32),
            "first": np.array([a.get("first", 0) for a in answers], np.int64),
            **ragged("source", sources, np.int32),
        },
        ("source",),
    )  # fmt: skip


def tma_gather4(bench: Bench, out: pathlib.Path) -> None:
    rng = random.Random(9501)
    title = "tile::gather4 into .shared::cluster and .shared::cta: four rows anywhere in and around the tensor"
    write_transfers(bench, out, "tma_gather4", title, 9501, [gathered(rng, store=False) for _ in range(900)])


def tma_scatter4(bench: Bench, out: pathlib.Path) -> None:
    rng = random.Random(9502)
    title = "tile::scatter4: which shared byte each of four rows got"
    write_transfers(bench, out, "tma_scatter4", title, 9502, [gathered(rng, store=True) for _ in range(400)])


def tma_im2col_wide(bench: Bench, out: pathlib.Path) -> None:
    rng = random.Random(9503)
    title = "im2col::w and im2col::w::128: corners, halo pixels, offsets, element strides"
    write_transfers(bench, out, "tma_im2col_wide", title, 9503, [wide(rng) for _ in range(1500)])


def tma_atoms(bench: Bench, out: pathlib.Path) -> None:
    rng = random.Random(9504)
    drawn = [atoms(rng, store=i % 4 == 3) for i in range(1200)] + [sub_byte(rng) for _ in range(500)]
    title = "Tiled transfers with the atom swizzles and loads of the types below eight bits"
    transfer_suites.write_transfers(bench, out, "tma_atoms", title, 9504, encodable(bench, drawn))


def tma_pairs(bench: Bench, out: pathlib.Path) -> None:
    seed, suite, rng = 9505, "tma_pairs", random.Random(9505)
    chosen = encodable(bench, [paired(rng) for _ in range(400)])
    answers = in_processes("blackwell_pair", chosen)
    pages.report(suite, answers)
    maps = [bytes.fromhex(a["map"]) if "map" in a else encode(bench, c, 1 << 32) for a, c in zip(answers, chosen, strict=True)]
    sources = [[expanded(text, np.int32) for text in a.get("sources", [NOTHING, NOTHING])] for a in answers]
    bench.write(
        out, suite, "tma_pair",
        "Tiled loads with .cta_group::1 and ::2 in a pair of CTAs: the bytes that each CTA got, and what each barrier was credited with",
        seed, len(chosen),
        {
            "tensor_map": np.frombuffer(b"".join(maps), np.uint8).reshape(-1, 128),
            "coordinates": np.array([c["coordinates"] for c in chosen], np.int32),
            **{name: np.array([c[name] for c in chosen], np.uint32) for name in ("smem_address", "issuer", "barrier_rank", "group", "mask")},
            "status": np.array([a["status"] for a in answers], np.uint16),
            "credited": np.array([a.get("credited", [[0] * 4] * 2) for a in answers], np.uint32),
            "first": np.array([a.get("first", [0, 0]) for a in answers], np.int64),
            **ragged("even", [even for even, _ in sources], np.int32),
            **ragged("odd", [odd for _, odd in sources], np.int32),
        },
        ("even", "odd"),
    )  # fmt: skip


def tma_sub_byte_stores(bench: Bench, out: pathlib.Path) -> None:
    """Stores of random bytes: the types below eight bits put other bytes into global memory than they find in shared
    memory.
    """
    rng, drawn = random.Random(9506), []
    for _ in range(160):
        case = {**sub_byte(rng), "operation": "store", "global_offset": 64}
        case["global_dim"] = [128 * rng.randrange(1, 3), rng.randrange(1, 7)]
        case["global_strides"] = [-(-case["global_dim"][0] // 16 * SUB_BYTE[case["data_type"]][0] // 32) * 32]
        case["box_dim"] = [case["box_dim"][0], min(case["box_dim"][1], 6)]
        case["coordinates"] = [128 * rng.choice((0, 0, 1)), rng.randrange(0, case["global_dim"][1])]
        case["before"] = rng.randbytes(64 + 1536 + 256).hex()
        case["operand"] = rng.randbytes(min(128 * case["box_dim"][1] + 128, draw.BARRIER - case["smem_address"])).hex()
        drawn.append(case)
    title = "Tiled stores of the types below eight bits: random shared bytes, the tensor before and after"
    value_suites.write_reductions(bench, out, "tma_sub_byte_stores", title, 9506, encodable(bench, drawn))


SUITES = {f.__name__: f for f in (tma_gather4, tma_scatter4, tma_im2col_wide, tma_atoms, tma_pairs, tma_sub_byte_stores)}
