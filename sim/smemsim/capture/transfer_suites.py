"""Suites of tensor transfers of every mode: im2col, interleave, edited maps, traps."""

from __future__ import annotations

import collections
import pathlib
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.capture import transfer_cases as draw
from smemsim.capture.bench import Bench, Case, in_processes, ragged
from smemsim.capture.cases import STORE_BYTES, TENSOR_BYTES
from smemsim.capture.transfer_cases import tiled_case
from smemsim.capture.transfer_runs import MADE_UP, columns, expanded


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


def tma_swizzle_bits(bench: Bench, out: pathlib.Path) -> None:
    seed, rng = 9112, random.Random(9112)
    chosen = []
    for i in range(256):
        is_store = i % 4 == 3
        case = {**tiled_case(rng, store=is_store), "instruction": "store" if is_store else "load"}
        case["edits"] = [draw.word_edit(2, 0x780000, (i // 4 % 16) << 19)]
        chosen.append(case)
    title = "Tiled transfers with every combination of bits 22:19 of word 2, which Blackwell has for atoms and 96B"
    write_transfers(bench, out, "tma_swizzle_bits", title, seed, chosen)


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
        tma_swizzle_bits,
    )
}
