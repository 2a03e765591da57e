"""tcgen05.ld and tcgen05.st of every shape: which lane and column each register of each thread reads or writes."""

from __future__ import annotations

import pathlib
import random
import struct
from typing import Any

import numpy as np

from smemsim.capture.bench import KERNELS, RUNNERS, Bench, in_processes
from smemsim.capture.blackwell import pages
from smemsim.capture.blackwell.contents import COLUMNS, LANES, tensor_image
from smemsim.capture.blackwell.machine import header, store
from smemsim.capture.blackwell.pages import compressed, expanded

HERE = pathlib.Path(__file__).resolve().parent
REGISTERS = 128
SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # registers for .x1 (PTX ISA Table 49)
NUMS = (1, 2, 4, 8, 16, 32, 64, 128)


def forms() -> list[tuple[str, int, bool, int]]:
    """(shape, .num, packed, immHalfSplitoff) of every instruction; the offset is 0, except for .16x32bx2."""
    out = []
    for shape, each in SHAPES.items():
        for num in NUMS:
            for packed in (False, True):
                if num * each <= REGISTERS:
                    offsets = sorted({(2 if packed else 1) * num, 64}) if shape == "16x32bx2" else [0]
                    out += [(shape, num, packed, offset) for offset in offsets]
    return out


def _case(number: int, form: tuple[str, int, bool, int], *, store: bool) -> str:
    shape, num, packed, offset = form
    count = num * SHAPES[shape]
    registers = "{" + ", ".join(f"%{i}" for i in range(count)) + "}"
    split = f", {offset}" if shape == "16x32bx2" else ""
    if store:
        name = f"tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' if packed else ''}.b32"
        inputs = ", ".join([*(f'"r"(r[{i}])' for i in range(count)), '"r"(address)'])
        return f'    case {number}: asm volatile("{name} [%{count}]{split}, {registers};" ::{inputs} : "memory"); break;\n'
    name = f"tcgen05.ld.sync.aligned.{shape}.x{num}{'.pack::16b' if packed else ''}.b32"
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    text = f"{name} {registers}, [%{count}]{split};\\n tcgen05.wait::ld.sync.aligned;"
    return f'    case {number}: asm volatile("{text}" : {outputs} : "r"(address) : "memory"); break;\n'


def source() -> str:
    loads, stores = ("".join(_case(i, form, store=s) for i, form in enumerate(forms())) for s in (False, True))
    body = (HERE / "access.cu").read_text()
    return header() + body.replace("//LOADS\n", loads).replace("//STORES\n", stores)


MODULE = "blackwell_access"


def run_access(bench: Bench, case: dict[str, Any]) -> dict[str, Any]:
    """Loads: two passes over (lane; column) indices, words (pass, thread, register). Stores: words (lane, column)
    afterwards.
    """
    KERNELS.setdefault(MODULE, source)
    s = store(bench)
    if not hasattr(bench, "access_buffers"):
        bench.access_buffers = (bench.api.Buffer(LANES * COLUMNS * 4), bench.api.Buffer(64))  # type: ignore[attr-defined]
    out, results = bench.access_buffers  # type: ignore[attr-defined]
    is_store = case["store"]
    passes = 1 if is_store else 2
    words = []
    for step in range(passes):
        recipe = [] if is_store else [[0, COLUMNS, "index", step]]
        out.fill(0xA5)
        raw = struct.pack(
            "<2Q4I", s.address("tensor", recipe), out.address, case["form"], case["lane"] << 16 | case["column"], case["warps"], 0
        )
        s.case.write(np.frombuffer(raw, np.uint8))
        results.fill(0)
        name = "probe_store" if is_store else "probe_load"
        bench.device.launch(bench.function(MODULE, name), 1, 0x20000, s.case, results)
        seen = out.read(np.uint32)
        words.append(seen if is_store else seen[: 128 * REGISTERS])
    return {"words": compressed(np.array(words)), "completed": int(results.read(np.uint32)[0])}


RUNNERS["blackwell_access"] = run_access


def cases(seed: int) -> list[dict[str, Any]]:
    """Every form twice from all four warps at legal places, then forms at odd lanes and
    columns and from a single warp.
    """
    rng, out = random.Random(seed), []
    for is_store in (False, True):
        for number, (shape, num, packed, offset) in enumerate(forms()):
            wide = num * {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}[shape] * (2 if packed else 1) + offset
            for lane in (0, 0) if shape == "32x32b" else (0, 16):
                column = rng.randrange(0, COLUMNS - wide + 1) if wide <= COLUMNS else 0
                out.append({"store": is_store, "form": number, "lane": lane, "column": column, "warps": 15})
    small = [i for i, form in enumerate(forms()) if form[1] <= 4]
    for _ in range(120):  # addresses that name lanes of another warp, half lanes, and columns beyond the allocation
        lane = rng.choice((1, 4, 8, 15, 17, 24, 31, 32, 48, 64, 96, 112))
        column = rng.choice((0, 1, 3, 7, 64, 510, 511, 512, 600, 1023))
        odd = {"lane": lane} if rng.random() < 0.6 else {"column": column}
        chosen = {"store": rng.random() < 0.5, "form": rng.choice(small), "lane": 0, "column": 5, "warps": rng.choice((15, 1, 2, 4, 8))}
        out.append({**chosen, **odd})
    return out + windows()


def windows() -> list[dict[str, Any]]:
    """Addresses that name a lane of another warp's window: each warp adds `lane` to the first lane of its own."""
    numbers = [forms().index((shape, 2, False, 0)) for shape in ("32x32b", "16x64b")]
    return [
        {"store": is_store, "form": number, "lane": lane, "column": 8, "warps": warps}
        for is_store in (False, True)
        for number in numbers
        for lane, warps in ((32, 7), (64, 3), (96, 1))
    ]


def tmem_access(bench: Bench, out: pathlib.Path) -> None:
    seed, suite = 9301, "tmem_access"
    chosen = cases(seed)
    answers = in_processes("blackwell_access", chosen)
    pages.report(suite, answers)
    table = forms()
    untouched = tensor_image([])
    words, start = [], [0]
    for c, a in zip(chosen, answers, strict=True):
        one = expanded(a["words"], np.uint32) if "words" in a else np.zeros(0, np.uint32)
        if c["store"] and one.size:  # keep what changed: (place, word) pairs, place = lane * 512 + column
            places = np.flatnonzero(one != untouched.ravel())
            one = np.stack([places.astype(np.uint32), one[places]], 1).ravel()
        elif one.size:  # the registers the form has
            count = table[c["form"]][1] * SHAPES[table[c["form"]][0]]
            one = one.reshape(2, 128, REGISTERS)[:, :, :count].ravel()
        words.append(one)
        start.append(start[-1] + one.size)
    bench.write(
        out, suite, "tmem_access",
        "tcgen05.ld and tcgen05.st of every shape, .num and pack: the lane and column behind every register; odd addresses in processes of their own",
        seed, len(chosen),
        {
            "store": np.array([c["store"] for c in chosen], np.uint8),
            "shape": np.array([table[c["form"]][0] for c in chosen]),
            "num": np.array([table[c["form"]][1] for c in chosen], np.uint8),
            "pack": np.array([table[c["form"]][2] for c in chosen], np.uint8),
            "half_split_offset": np.array([table[c["form"]][3] for c in chosen], np.uint16),
            "lane": np.array([c["lane"] for c in chosen], np.uint8),
            "column": np.array([c["column"] for c in chosen], np.uint16),
            "warps": np.array([c["warps"] for c in chosen], np.uint8),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
            "words": np.concatenate(words),
            "words_start": np.array(start, np.int64),
        },
        ("words",),
    )  # fmt: skip


SUITES = {"tmem_access": tmem_access}
