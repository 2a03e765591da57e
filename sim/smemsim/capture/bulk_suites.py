"""Bulk copies without a tensor map, their reductions, and clusters: the suites that record what hardware does."""

from __future__ import annotations

import collections
import itertools
import pathlib
import random
import struct
import sys
from typing import Any

import numpy as np

from smemsim.capture.bench import FILLED, RUNNERS, UNTOUCHED, Bench, Case, in_processes, kernel_files, pad, ragged, trim
from smemsim.capture.bulk_cases import (
    GLOBAL_FORMS,
    MARGIN,
    PEER_FORMS,
    SLOT,
    SOURCE_BYTES,
    TENSOR_BYTES,
    TILE_WINDOW,
    armed,
    copies,
    multicasts,
    reductions,
    trap_copies,
    trap_multicasts,
    window_region,
)
from smemsim.capture.wgmma_kernels import WINDOW_BEGIN
from smemsim.run.engine.launch import LaunchConfig

kernel_files("bulk_probes")

SPACES = {
    "load": ("shared::cluster", "global"),
    "load_cta": ("shared::cta", "global"),
    "store": ("global", "shared::cta"),
    "peer": ("shared::cluster", "shared::cta"),
    "prefetch": ("L2", "global"),
}


def cluster_function(bench: Bench, name: str, size: int, shared_bytes: int) -> Any:
    """The kernel, or None when the card has no room for such a cluster."""
    function = bench.function("bulk_probes", name)
    config = LaunchConfig(grid=size, cluster=size, shared_bytes=shared_bytes, block=128)
    return function if bench.device.clusters_at_once(function, config) else None


def launch_clusters(bench: Bench, function: Any, clusters: int, size: int, shared_bytes: int, *args: Any, threads: int = 128) -> None:
    bench.device.launch(function, clusters * size, shared_bytes, *args, threads=threads, cluster=size)


def sources(bench: Bench, size: int = 2 * SOURCE_BYTES) -> list[Any]:
    """Four global buffers: three hold one byte each of every byte's own index, one holds 0x5A."""
    index = np.arange(size, dtype=np.uint32)
    return [*(bench.device.array((index >> (8 * p)).astype(np.uint8)) for p in range(3)), bench.device.array(np.full(size, 0x5A, np.uint8))]


def decoded(passes: np.ndarray, base: int) -> np.ndarray:
    """Sources, relative to `base`, from the four passes over one region."""
    passes = passes.astype(np.int32)
    index = (passes[0] | passes[1] << 8 | passes[2] << 16) - base
    return np.where(passes[3] == 0x5A, index, np.where(passes[3] == 0xA5, UNTOUCHED, FILLED - passes[3])).astype(np.int32)


# --------------------------------------------------------------------------------------------------------- copies: runs

Answer = dict[str, Any]  # image: [first, sources …]; count; base: the global buffer's address


def finish(case: Case, answer: Answer, completed: int, stray: int, credited: int) -> Answer:
    if case["step"] == 16 and (completed != 0b01111 or stray or credited == 0xFFFFFFFF):
        print(f"completed {completed:05b}, {stray} stray bytes, credited {credited}: {case}", file=sys.stderr)
    return {**answer, "count": credited, "completed": completed}


def run_loads(bench: Bench, chosen: list[Case]) -> list[Answer]:
    tensors, window = sources(bench), chosen[0]["window_end"] - WINDOW_BEGIN
    packed, regions, out_bytes = b"", [], 0
    for c in chosen:
        begin, size, barrier = window_region(c)
        c["barrier"] = barrier
        to_cluster = int(c["what"] == "load")
        operand = barrier + c["misplaced_mbar"]
        packed += struct.pack(
            "<QQ9Ixxxx", c["far"], out_bytes, to_cluster, c["near"], c["size"], barrier, operand, armed(c), c["step"], begin, size
        )
        regions.append((begin, size))
        out_bytes += 4 * size
    raw, results = bench.api.Buffer(out_bytes), bench.device.array(np.zeros(3 * len(chosen), np.uint32))
    function = bench.function("bulk_probes", "probe_bulk_load")
    cases = bench.device.array(np.frombuffer(packed, np.uint8))
    bench.device.launch(function, len(chosen), window, cases, *tensors, window, raw, results)
    return collect(chosen, regions, raw, results, [c["far"] // 16 * 16 for c in chosen], tensors[0].address)


def collect(chosen: list[Case], regions: list[tuple[int, int]], raw: Any, results: Any, bases: list[int], address: int) -> list[Answer]:
    seen, at, out = raw.read(), 0, []
    for c, (begin, size), base, told in zip(chosen, regions, bases, results.read(np.uint32).reshape(-1, 3).tolist(), strict=True):
        image = decoded(seen[at : at + 4 * size].reshape(4, size), base)
        at += 4 * size
        out.append(finish(c, {"image": [begin, *image.tolist()], "base": address}, *told))
    return out


def run_stores(bench: Bench, chosen: list[Case]) -> list[Answer]:
    window = chosen[0]["window_end"] - WINDOW_BEGIN
    packed, places, total = b"", [], 0
    for c in chosen:
        region = (c["size"] + 2 * MARGIN + 512) // 16 * 16
        packed += struct.pack("<QQII", total + MARGIN + c["far"], region, c["near"], c["size"])
        places.append((total, region))
        total += 4 * region
    target = bench.api.Buffer(total)
    target.fill(0xA5)
    cases = bench.device.array(np.frombuffer(packed, np.uint8))
    bench.device.launch(bench.function("bulk_probes", "probe_bulk_store"), len(chosen), window, cases, window, target)
    seen, out = target.read(), []
    for c, (at, region) in zip(chosen, places, strict=True):
        image = decoded(seen[at : at + 4 * region].reshape(4, region), 0)
        first = -MARGIN - c["far"] // 16 * 16
        out.append({"image": [first, *image.tolist()], "count": 0, "completed": 0, "base": target.address + at + MARGIN})
    return out


def run_peers(bench: Bench, chosen: list[Case]) -> list[Answer]:
    window, n = chosen[0]["window_end"] - WINDOW_BEGIN, chosen[0]["cluster_size"]
    packed, regions, out_bytes = b"", [], 0
    for c in chosen:
        begin, size, barrier = window_region(c)
        c["barrier"] = barrier
        ranks = (c["from_rank"], c["to_rank"], c["barrier_rank"])
        packed += struct.pack("<Q11Ixxxx", out_bytes, c["far"], c["near"], c["size"], barrier, armed(c), c["step"], begin, size, *ranks)
        regions.append((begin, size))
        out_bytes += 4 * size
    raw, results = bench.api.Buffer(out_bytes), bench.device.array(np.zeros(3 * len(chosen), np.uint32))
    raw.fill(0)
    function = cluster_function(bench, "probe_bulk_peer", n, window)
    cases = bench.device.array(np.frombuffer(packed, np.uint8))
    launch_clusters(bench, function, len(chosen), n, window, cases, window, raw, results)
    return collect(chosen, regions, raw, results, [0] * len(chosen), 0)


def run_prefetches(bench: Bench, chosen: list[Case]) -> list[Answer]:
    tensors = sources(bench)
    for c in chosen:
        function = bench.function("bulk_probes", "probe_bulk_prefetch")
        bench.device.launch(function, 1, 0, tensors[0], c["far"], c["size"], threads=32)
    return [{"image": [0], "count": 0, "completed": 0, "base": tensors[0].address} for _ in chosen]


RUN = {"load": run_loads, "load_cta": run_loads, "store": run_stores, "peer": run_peers, "prefetch": run_prefetches}


def run_copies(bench: Bench, chosen: list[Case]) -> list[Answer]:
    batches: dict[Any, list[int]] = collections.defaultdict(list)
    for i, c in enumerate(chosen):
        batches[RUN[c["what"]], c["window_end"], c.get("cluster_size", 1)].append(i)
    answers: list[Answer] = [{}] * len(chosen)
    for (run, _, _), members in batches.items():
        for at in range(0, len(members), 250):
            some = members[at : at + 250]
            for i, answer in zip(some, run(bench, [chosen[i] for i in some]), strict=True):
                answers[i] = answer
    return answers


RUNNERS["bulk"] = lambda bench, case: run_copies(bench, [case])[0]


def write_copies(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case], answers: list[Answer]) -> None:
    columns = collections.defaultdict(list)
    parts = []
    for c, a in zip(chosen, answers, strict=True):
        dst_space, src_space = SPACES[c["what"]]
        base = a.get("base", 0x10000)  # a trapped case has no buffer left: a made-up address of the same alignment
        far = c["far"] if src_space == "shared::cta" and dst_space != "global" else base + c["far"]
        first, image = trim(a["image"][0], np.array(a["image"][1:], np.int32)) if "image" in a else (0, np.zeros(0, np.int32))
        dst, src = (far, c["near"]) if c["what"] == "store" else (c["near"], far)
        row = {
            "dst_space": dst_space,
            "src_space": src_space,
            "dst": 0 if c["what"] == "prefetch" else dst,
            "src": src,
            "size": c["size"],
            "mbar": window_region(c)[2] + c["misplaced_mbar"],
            "issuer": c.get("from_rank", 0),
            "dst_rank": c.get("to_rank", 0),
            "mbar_rank": c.get("barrier_rank", 0),
            "window_end": c["window_end"],
            "status": a.get("status", 0),
            "transaction_bytes": a.get("count", 0),
            "first": first,
        }
        parts.append(image)
        for name, x in row.items():
            columns[name].append(x)
    kinds = {"dst": np.uint64, "src": np.uint64, "first": np.int64, "status": np.uint16}
    kinds |= dict.fromkeys(("issuer", "dst_rank", "mbar_rank"), np.uint8)
    kinds |= dict.fromkeys(("size", "mbar", "window_end", "transaction_bytes"), np.uint32)
    bench.write(
        out,
        suite,
        kind="bulk_copy",
        title=title,
        seed=seed,
        cases=len(chosen),
        arrays={
            **{name: np.array(values, kinds.get(name)) for name, values in columns.items()},
            **ragged("source", parts, np.int32),
        },
        delta=("source",),
    )


def bulk_copies(bench: Bench, out: pathlib.Path) -> None:
    seed = 9101
    chosen = copies(seed)
    title = "Which byte cp.async.bulk puts where, between global memory, shared memory and another CTA's, and what it credits"
    write_copies(bench, out, "bulk_copies", title, seed, chosen, run_copies(bench, chosen))


def bulk_traps(bench: Bench, out: pathlib.Path) -> None:
    seed = 9102
    chosen = trap_copies(seed)
    answers = in_processes("bulk", chosen)
    print("bulk_traps", collections.Counter(a["status"] for a in answers), file=sys.stderr)
    title = "Bulk copies that may trap, each in a process of its own; the outcome is the CUDA error, or the bytes where none came"
    write_copies(bench, out, "bulk_traps", title, seed, chosen, answers)


# ----------------------------------------------------------------------------------------------------------- reductions


def run_reductions(bench: Bench, chosen: list[Case], peer: bool) -> tuple[list[bytes], list[int]]:
    """The content of each destination afterwards, and the bytes that the mbarrier counts."""
    shared = 0x1000
    memory, operands = np.full((2, len(chosen), SLOT), 0xA5, np.uint8)
    for i, c in enumerate(chosen):
        memory[i, c["to"] : c["to"] + c["size"]] = np.frombuffer(c["before"], np.uint8)
        operands[i, : c["size"]] = np.frombuffer(c["operand"], np.uint8)
    cases = bench.device.array(np.array([[c["form"], c["size"], c["from"], c["to"]] for c in chosen], np.uint32))
    source, target = bench.device.array(operands), bench.device.array(memory)
    counts = bench.device.array(np.zeros(len(chosen), np.uint32))
    if peer:
        function = cluster_function(bench, "probe_reduce_peer", 2, shared)
        launch_clusters(bench, function, len(chosen), 2, shared, cases, source, target, counts)
    else:
        bench.device.launch(bench.function("bulk_probes", "probe_reduce_global"), len(chosen), shared, cases, source, target)
    after, out = target.read().reshape(-1, SLOT), []
    for c, row in zip(chosen, after, strict=True):
        inside = slice(c["to"], c["to"] + c["size"])
        out.append(row[inside].tobytes())
        if (np.delete(row, np.arange(c["to"], c["to"] + c["size"])) != 0xA5).any():
            print(f"bytes outside the reduction changed: {c['op']} {c['dtype']}, {c['size']} bytes at {c['to']}", file=sys.stderr)
    return out, counts.read(np.uint32).tolist()


def bulk_reductions(bench: Bench, out: pathlib.Path) -> None:
    seed = 9103
    to_global, to_peer = reductions(seed, GLOBAL_FORMS), reductions(seed + 1000, PEER_FORMS)
    chosen = to_global + to_peer
    both = [run_reductions(bench, to_global, peer=False), run_reductions(bench, to_peer, peer=True)]
    after, counts = ([x for side in both for x in side[i]] for i in (0, 1))

    def rows(texts: list[bytes]) -> list[np.ndarray]:
        return [np.frombuffer(t, np.uint8) for t in texts]

    bench.write(
        out,
        "bulk_reductions",
        kind="bulk_reduce",
        title="What cp.reduce.async.bulk makes of memory, every operation and type: ties, subnormals, infinities, NaNs, extremes",
        seed=seed,
        cases=len(chosen),
        arrays={
            "op": np.array([c["op"] for c in chosen]),
            "dtype": np.array([c["dtype"] for c in chosen]),
            "dst_space": np.array(["global"] * len(to_global) + ["shared::cluster"] * len(to_peer)),
            "transaction_bytes": np.array(counts, np.uint32),
            **ragged("before", rows([c["before"] for c in chosen]), np.uint8),
            **ragged("operand", rows([c["operand"] for c in chosen]), np.uint8),
            **ragged("after", rows(after), np.uint8),
        },
    )


# ------------------------------------------------------------------------------------------------------------ multicast


def run_multicasts(bench: Bench, chosen: list[Case]) -> list[Answer] | None:
    """One answer a case, with an image and a count for every CTA; None when the card has no room for the cluster."""
    n, shared = chosen[0]["cluster_size"], TILE_WINDOW
    function = cluster_function(bench, "probe_multicast", n, shared)
    if function is None:
        return None
    tensors = sources(bench, TENSOR_BYTES)
    packed, all_maps, regions, out_bytes, maps = b"", b"", [], 0, []
    for c in chosen:
        begin = max(c["smem_address"] // 128 * 128 - 128, WINDOW_BEGIN + 128)
        size = min(c["smem_address"] + c["pitch"] * c["box_dim"][1] + 256, c["window_end"]) // 128 * 128 - begin
        head = (c["issuer"], c["multicast"], c["cta_mask"], c["smem_address"], c["mbar"], c["size"], c["size"] + c["extra"], begin, size)
        packed += struct.pack("<2i9I2ixxxxQ", *c["coordinates"], *head, c["to_rank"], c["mbar_rank"], out_bytes)
        encoded = [bench.api.encode(c, t.address) for t in tensors]
        maps.append(encoded[0])
        all_maps += b"".join(encoded)
        regions.append((begin, size, out_bytes))
        out_bytes += 4 * size * n
    raw, results = bench.api.Buffer(out_bytes), bench.device.array(np.zeros(3 * n * len(chosen), np.uint32))
    cases, tensor_maps = (bench.device.array(np.frombuffer(x, np.uint8)) for x in (packed, all_maps))
    launch_clusters(bench, function, len(chosen), n, shared, cases, tensor_maps, shared, raw, results)
    seen, told, out = raw.read(), results.read(np.uint32).reshape(-1, n, 3).tolist(), []
    for c, raw_map, (begin, size, at), reports in zip(chosen, maps, regions, told, strict=True):
        passes = seen[at : at + 4 * size * n].reshape(n, 4, size)
        if any(stray for _, stray, _ in reports):
            print(f"stray bytes {[stray for _, stray, _ in reports]}: {c}", file=sys.stderr)
        out.append(
            {
                "map": raw_map.hex(),
                "base": tensors[0].address,
                "first": begin,
                "images": [decoded(p, 0).tolist() for p in passes],
                "counts": [credited for _, _, credited in reports],
            }
        )
    return out


def risky_multicast(bench: Bench, case: Any) -> dict[str, Any]:
    answers = run_multicasts(bench, [case])
    if answers is None:
        raise RuntimeError("no room for the cluster")
    return answers[0]


RUNNERS["multicast"] = risky_multicast


def write_multicasts(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[Case], answers: list[Answer]) -> None:
    """One entry for what each CTA of a cluster reports; a trap has one entry, that of the issuer."""
    columns, parts, rows = collections.defaultdict(list), [], []
    for c, a in zip(chosen, answers, strict=True):
        trapped = "images" not in a
        base = a.get("base", 0x10000)
        raw = bytes.fromhex(a["map"]) if "map" in a else bench.api.encode(c, base)
        for rank in [c["issuer"]] if trapped else range(c["cluster_size"]):
            first, image = (0, np.zeros(0, np.int32)) if trapped else trim(a["first"], np.array(a["images"][rank], np.int32))
            rows.append((c, raw, base))
            parts.append(image)
            columns["report_rank"].append(rank)
            columns["status"].append(a.get("status", 0))
            columns["transaction_bytes"].append(0 if trapped else a["counts"][rank])
            columns["first"].append(first)
    scalars = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill", "cluster_size", "issuer", "multicast")
    kinds = {"report_rank": np.uint8, "status": np.uint16, "transaction_bytes": np.uint32, "first": np.int64}
    cases = [c for c, _, _ in rows]
    bench.write(
        out,
        suite,
        kind="multicast",
        title=title,
        seed=seed,
        cases=len(rows),
        arrays={
            **{name: np.array([c[name] for c in cases], np.uint8) for name in scalars},
            **{name: np.array([c[name] for c in cases], np.int8) for name in ("to_rank", "mbar_rank")},
            "cta_mask": np.array([c["cta_mask"] for c in cases], np.uint16),
            **{name: np.array([c[name] for c in cases], np.uint32) for name in ("smem_address", "mbar", "window_end")},
            "rank": np.full(len(rows), 2, np.uint8),
            "tensor_map": np.frombuffer(b"".join(raw for _, raw, _ in rows), np.uint8).reshape(-1, 128),
            "global_address": np.array([base for _, _, base in rows], np.uint64),
            "global_dim": pad([c["global_dim"] for c in cases], 5, np.uint64),
            "global_strides": pad([c["global_strides"] for c in cases], 4, np.uint64),
            "box_dim": pad([c["box_dim"] for c in cases], 5, np.uint32),
            "element_strides": pad([c["element_strides"] for c in cases], 5, np.uint32),
            "coordinates": pad([c["coordinates"] for c in cases], 5, np.int32),
            **{name: np.array(values, kinds[name]) for name, values in columns.items()},
            **ragged("source", parts, np.int32),
        },
        delta=("source",),
    )


def multicast(bench: Bench, out: pathlib.Path) -> None:
    seed = 9104
    chosen, answers = [], []
    by_size = collections.defaultdict(list)
    for c in multicasts(seed):
        by_size[c["cluster_size"]].append(c)
    for size, members in by_size.items():
        for at in range(0, len(members), 60):
            some = run_multicasts(bench, members[at : at + 60])
            if some is None:
                print(f"multicast: no room for clusters of {size}", file=sys.stderr)
                break
            chosen += members[at : at + 60]
            answers += some
    title = "Tiled TMA loads with .multicast::cluster: the bytes every CTA of the cluster got and what its own barrier was credited"
    write_multicasts(bench, out, "multicast", title, seed, chosen, answers)


def multicast_traps(bench: Bench, out: pathlib.Path) -> None:
    seed = 9105
    chosen = trap_multicasts(seed)
    answers = in_processes("multicast", chosen)
    print("multicast_traps", collections.Counter(a["status"] for a in answers), file=sys.stderr)
    title = "Loads into other CTAs that may trap: odd masks, destinations and barriers named by mapa; each in a process of its own"
    write_multicasts(bench, out, "multicast_traps", title, seed, chosen, answers)


# ---------------------------------------------------------------------------------------------------- cluster addresses


def cluster_addresses(bench: Bench, out: pathlib.Path) -> None:
    seed, shared = 9106, 0x8000
    rng = random.Random(seed)
    columns = collections.defaultdict(list)
    for size in (1, 2, 3, 4, 5, 8, 16):
        function = cluster_function(bench, "probe_cluster_addresses", size, shared)
        if function is None:
            print(f"cluster_addresses: no room for clusters of {size}", file=sys.stderr)
            continue
        offsets = [WINDOW_BEGIN, WINDOW_BEGIN + shared - 4, *(WINDOW_BEGIN + 4 * rng.randrange(shared // 4) for _ in range(2))]
        offsets = sorted(set(offsets))
        results = bench.device.array(np.zeros(5 * size * size * len(offsets), np.uint32))
        table = bench.device.array(np.array(offsets, np.uint32))
        launch_clusters(bench, function, 1, size, shared, table, len(offsets), results, threads=32)
        seen = results.read(np.uint32).reshape(size, size, len(offsets), 5)
        for me, target, i in itertools.product(range(size), range(size), range(len(offsets))):
            row = (size, me, target, offsets[i], *seen[me, target, i].tolist())
            names = (
                "cluster_size",
                "issuer",
                "target_rank",
                "smem_address",
                "mapa",
                "found_rank",
                "plain_rank",
                "own_address",
                "generic_rank",
            )
            for name, x in zip(names, row, strict=True):
                columns[name].append(x)
    bench.write(
        out,
        "cluster_addresses",
        kind="cluster_address",
        title="The shared::cluster addresses that mapa gives, the CTA that each of them reaches, and a CTA's own .shared addresses",
        seed=seed,
        cases=len(columns["mapa"]),
        arrays={name: np.array(values, np.uint32) for name, values in columns.items()},
    )


SUITES = {f.__name__: f for f in (bulk_copies, bulk_traps, bulk_reductions, multicast, multicast_traps, cluster_addresses)}
