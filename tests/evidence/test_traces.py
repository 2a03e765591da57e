"""Golden traces: they replay without a difference, they cover what they claim, a replay can fail, and damage is told
from difference.
"""

import copy
import dataclasses
import functools
import hashlib
import json
import re
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from smemsim import InputError, TraceError
from smemsim.core.spec.heap import HEAP
from smemsim.evidence import find_suites, load_suite, replay_suite
from smemsim.evidence.kinds import KINDS
from smemsim.evidence.launches import RecordedLaunches
from smemsim.evidence.replay import compared_cases, replay
from strategies import examples, is_night

GOLDEN = ROOT / "golden"
# those: test_witnesses.py
FOLDERS = sorted(p.parent for p in GOLDEN.rglob("manifest.json") if p.parts[-3] != "compiled")
SM90 = GOLDEN / "sm_90a"
TOLD = (GOLDEN.parent / "docs" / "commands" / "replay.md").read_text()
SMALL = SM90 / "wgmma_window"
# 135 kernels, each instruction by itself: 11 s of processor time; 664 kernels: 5 s; 368 kernels of wgmma: 30 s
BY_NIGHT = ("launch_counters", "lanes_at_barriers", "exits_at_cluster_barriers", "wgmma_in_flight")
# Of a trace with so many cases a third is replayed by day, drawn once: its cases are drawn at random, too.
MANY = 400


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_the_model_is_what_silicon_did(folder):
    if folder.name in BY_NIGHT and not is_night():
        pytest.skip("replayed by night; by day tests/run/test_counters.py and a test below replay some of its cases")
    suite = load_suite(folder)
    some = by_day(suite)
    if len(some) < len(suite) and not is_night():
        wrong = {case: found.outcome.first for case, found in compared_cases(suite, some) if found.outcome.differing}
        assert wrong == {}
        assert re.search(rf"^{folder.name} \[.*\]: {len(suite):,} cases, ", TOLD, re.MULTILINE)
        return
    report = replay_suite(suite)
    assert report.same, report.text()
    assert not report.unmodelled
    assert report.cases == len(suite) > 0
    assert report.compared >= len(suite)
    assert f"{report.text()}\n" in TOLD


def by_day(suite):
    """The cases of a trace that are replayed by day."""
    if suite.kind == "launch":
        left_out = {"heap": ["heap_sizes"], "launches": ["triton_matmul_persistent"]}.get(suite.path.name, [])
        return np.flatnonzero(~np.isin(suite.arrays["name"], left_out)).tolist()
    share = 1 if len(suite) <= MANY else 3
    return np.flatnonzero(np.random.default_rng(1).integers(share, size=len(suite)) == 0).tolist()


def test_as_many_allocations_fit_into_a_heap_as_on_the_card():
    """What the kernel heap_sizes counts, allocation by allocation."""
    suite = load_suite(SM90 / "heap")
    recorded = RecordedLaunches(suite)
    case = suite.arrays["name"].tolist().index("heap_sizes")
    (output,) = recorded.outputs(case).values()
    sizes = recorded.launch(case).arrays()["sizes"].tolist()
    counts = recorded.recorded_bytes(output).view(np.uint32).tolist()
    assert counts == [HEAP.capacity(8 << 20) // HEAP.units(size) for size in sizes]


HANGS = (
    ("lanes_at_barriers", 1, 0, "hangs"),
    ("lanes_at_barriers", 0, 715, "CUDA error 715"),
    ("lanes_at_barriers", 0, 0, "it ends"),
    ("exits_at_cluster_barriers", 1, 0, "hangs"),
)


@pytest.mark.parametrize(("name", "hangs", "status", "was"), HANGS)
def test_kernels_hang_or_end_as_on_the_card_and_another_outcome_is_a_difference(name, hangs, status, was):
    suite = load_suite(SM90 / name)
    there = np.flatnonzero((suite.arrays["hangs"] == hangs) & (suite.arrays["status"] == status))
    assert len(there) > 30
    for number, found in compared_cases(suite, there[:: len(there) // 12]):
        assert not found.outcome.differing, suite.arrays["name"][number]
        other = dataclasses.replace(
            suite,
            arrays={
                **suite.arrays,
                "hangs": 1 - (suite.arrays["hangs"] | (suite.arrays["status"] > 0)),
                "status": 0 * suite.arrays["status"],
            },
        )
        [(_, changed)] = compared_cases(other, (number,))
        assert changed.outcome.differing == 1
        assert changed.outcome.first.startswith(f"hardware: {'hangs' if was == 'it ends' else 'it ends'} | model: ")


@pytest.mark.parametrize("is_wrong", [True, False])
def test_kernels_of_wgmma_that_compute_wrong_on_the_card_have_findings_and_another_count_is_a_difference(is_wrong):
    suite = load_suite(SM90 / "wgmma_in_flight")
    wrong = suite.arrays["wrong"] > 0
    there = np.flatnonzero(wrong == is_wrong) if is_wrong else np.flatnonzero(~wrong & (suite.arrays["told"] == ""))
    assert len(there) > 50
    for number, found in compared_cases(suite, there[:: len(there) // 3]):
        assert not found.outcome.differing, suite.arrays["name"][number]
        told = np.full_like(suite.arrays["told"], "")
        other = dataclasses.replace(suite, arrays={**suite.arrays, "wrong": (~wrong).astype(np.uint64), "told": told})
        [(_, changed)] = compared_cases(other, (number,))
        assert changed.outcome.differing == 1
        assert changed.outcome.first.startswith(f"hardware: {1 - is_wrong} of ")


def test_the_documentation_adds_up_what_replay_says_of_every_trace():
    lines = set(re.findall(r"^(\S+ \[.*\]): ([\d,]+) cases, ([\d,]+) values compared, no difference$", TOLD, re.MULTILINE))
    cases, values = (sum(int(line[i].replace(",", "")) for line in lines) for i in (1, 2))
    suites = list(find_suites(GOLDEN))
    compiled = len(suites) - len(FOLDERS)
    assert len(lines) == len(suites)
    assert f"{len(suites)} traces ({compiled} of them compiled, not hardware), {cases:,} cases, {values:,} values: no difference\n" in TOLD


def test_the_description_of_the_format_has_every_kind_and_every_array():
    text = "".join(p.read_text() for p in (GOLDEN / "README.md", GOLDEN / "compiled" / "README.md"))
    told = set(re.findall(r"`(\w+)`", text))
    assert set(KINDS) <= {
        kind for line in re.findall(r"^##+ (?:Kind )?(`.*)$", text, re.MULTILINE) for kind in re.findall(r"`(\w+)`", line)
    }
    for folder in FOLDERS:
        about = json.loads((folder / "manifest.json").read_text())
        names = {name.removesuffix("_start") for name in about["arrays"]}
        if about["kind"] == "reference_gemm":
            names = {re.sub("^([ab])_.*", r"\1_NAME", name) for name in names}
        names = {re.sub("^image_.*", "image_NAME", name) for name in names}
        assert names <= told, (folder.name, names - told)
        assert set(KINDS[about["kind"]].columns) <= set(about["arrays"])


# ---- is it evidence? ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least"),
    [("wgmma_operands", 4000), ("tma_loads", 6000), ("tma_stores", 4000), ("tma_wgmma", 1000), ("wgmma_reserved_bits", 300), ("wgmma_window", 100),
     ("tma_loads_far", 100), ("tma_load_traps", 100), ("tma_store_traps", 100), ("reference_gemm", 40),
     ("tma_interleave", 3000), ("tma_mode_traps", 700), ("tma_edited", 1500), ("tma_reductions", 2000), ("tensormap_replace", 4800),
     ("wgmma_f32", 280), ("wgmma_f16", 170), ("wgmma_s32", 190), ("wgmma_sparse", 330), ("wgmma_metadata", 480),
     ("bulk_copies", 1900), ("bulk_reductions", 2000), ("multicast", 3000), ("encode_im2col_wide", 9000)],
)  # fmt: skip
def test_a_suite_has_many_cases_and_none_twice(name, least):
    suite = load_suite(SM90 / name)
    assert len(suite) >= least
    told = {
        "wgmma_operand": ("descriptor", "operand", "dtype", "major", "sparse", "rows", "k", "window_end"),
        "wgmma_mma": (
            "a_descriptor",
            "b_descriptor",
            "dtype_a",
            "dtype_d",
            "n",
            "a_block",
            "metadata_block",
            "c_block",
            "image",
            "scale_a",
        ),
    }.get(suite.kind, ())
    if told:
        distinct = {tuple(str(suite.arrays[c][i]) for c in told) for i in range(len(suite))}
        assert len(distinct) > 0.95 * len(suite)


def test_whole_wgmmas_cover_every_operand_and_every_immediate():
    suites = [load_suite(SM90 / f"wgmma_{name}").arrays for name in ("f32", "f16", "s32", "sparse")]
    seen = {
        tuple(str(a[c][i]) for c in ("dtype_a", "dtype_b", "dtype_d", "sparse", "a_source")) for a in suites for i in range(len(a["n"]))
    }
    pairs = [(x, x, d) for x, d in (("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("tf32", "f32"))]
    pairs += [(x, y, d) for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2") for d in ("f16", "f32")]
    pairs += [(x, y, "s32") for x in ("s8", "u8") for y in ("s8", "u8")]
    wanted = {(*types, sparse, source) for types in pairs for sparse in "01" for source in ("shared", "registers")}
    assert wanted | {("b1", "b1", "s32", "0", source) for source in ("shared", "registers")} == seen
    for name, values in {"trans_a": (0, 1), "trans_b": (0, 1), "scale_a": (-1, 1), "scale_b": (-1, 1), "scale_d": (0, 1), "selector": (0, 1),
                         "satfinite": (0, 1)}.items():  # fmt: skip
        assert {int(x) for a in suites for x in a[name]} == set(values), name
    for a, dtype, n in (
        (suites[0], "bf16", range(8, 257, 8)),
        (suites[3], "bf16", range(8, 257, 8)),
        (suites[2], "s8", (8, 16, 24, *range(32, 257, 16))),
    ):
        assert set(a["n"][a["dtype_a"] == dtype].tolist()) == set(n)


def test_operand_traces_cover_the_descriptor():
    a = load_suite(SM90 / "wgmma_operands").arrays
    word = a["descriptor"]
    start, lbo, sbo, base, code = (
        word >> np.uint64(low) & np.uint64(mask) for low, mask in ((0, 0x3FFF), (16, 0x3FFF), (32, 0x3FFF), (49, 7), (62, 3))
    )
    seen = set(zip(a["operand"].tolist(), a["dtype"].tolist(), a["major"].tolist(), a["sparse"].tolist(), strict=True))
    sixteen, others = {"f16", "bf16"}, {"tf32", "e4m3", "e5m2", "s8", "u8"}
    assert seen == {(o, d, m, s) for o in "AB" for s in (0, 1) for d in sixteen | others for m in ("K", "MN") if m == "K" or d in sixteen}
    for swizzle in range(4):
        mine = code == swizzle
        assert set((start[mine] % 64).tolist()) == set(range(64))  # every 16-byte phase of 1024 bytes
        assert set(base[mine].tolist()) == set(range(8))
        assert {(o, m) for o, m in zip(a["operand"][mine].tolist(), a["major"][mine].tolist(), strict=True)} == {
            (o, m) for o in "AB" for m in ("K", "MN")
        }
        for stride in (lbo[mine], sbo[mine]):
            assert (stride % 2 == 1).sum() > 300  # odd multiples of 16: additions that carry
            assert len(np.unique(stride)) > 200
    assert set(a["rows"][a["operand"] == "B"].tolist()) == set(range(8, 257, 8))
    assert set(a["rows"][a["operand"] == "A"].tolist()) == {64}
    assert (a["k"] * np.array([{"tf32": 4, "f16": 2, "bf16": 2}.get(d, 1) for d in a["dtype"]]) >= 32).all()


def test_reserved_bit_traces_set_every_reserved_bit_alone_and_several_at_once():
    word = load_suite(SM90 / "wgmma_reserved_bits").arrays["descriptor"]
    reserved = [14, 15, 30, 31, 46, 47, 48, *range(52, 62)]
    bits = np.stack([word >> np.uint64(b) & np.uint64(1) for b in reserved])
    alone = bits[:, bits.sum(0) == 1]
    assert (alone.sum(1) > 0).all()
    assert (bits.sum(0) > 1).sum() > 10


@pytest.mark.parametrize("name", ["tma_loads", "tma_stores"])
def test_transfer_traces_cover_rank_type_swizzle_phase_and_edges(name):
    a = load_suite(SM90 / name).arrays
    assert set(a["rank"].tolist()) == {1, 2, 3, 4, 5}
    assert set(a["data_type"].tolist()) == set(range(11))
    assert set(a["swizzle"].tolist()) == {0, 1, 2, 3}
    assert set((a["smem_address"] % 1024).tolist()) == set(range(0, 1024, 128))
    itemsize = np.array([1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4])[a["data_type"]]
    inner = a["box_dim"][:, 0] * itemsize
    width = np.array([1 << 20, 32, 64, 128])[a["swizzle"]]
    assert (inner < width)[a["swizzle"] > 0].sum() > 500  # rows narrower than the swizzle
    first, dim0 = a["coordinates"][:, 0].astype(np.int64), a["global_dim"][:, 0].astype(np.int64)
    ragged = (first < dim0) & (first + a["box_dim"][:, 0] > dim0) & (dim0 * itemsize % 16 != 0)
    assert ragged.sum() > 300
    assert (a["element_strides"][:, 1:4] > 1).any(1).sum() > 300
    negative = (a["coordinates"] < 0).any(1).sum()
    assert negative > 1000 if name == "tma_loads" else negative == 0
    if name == "tma_loads":
        assert set(a["data_type"][a["oob_fill"] == 1].tolist()) == {6, 7, 8, 9, 10}


def test_trap_traces_hold_every_cuda_error_and_neighbours_that_run():
    for name, errors in (
        ("tma_load_traps", {0, 700, 715, 716}),
        ("tma_store_traps", {0, 700, 715, 716}),
        ("wgmma_window", {0, 700}),
        ("tma_loads_far", {0, 715}),
        ("tma_mode_traps", {0, 700, 715, 716}),
        ("tma_edited", {0, 700, 715, 716}),
        ("tma_reduce_traps", {0, 715}),
        ("bulk_traps", {0, 700, 716, 719}),
        ("multicast_traps", {0, 715, 716, 719}),
    ):
        assert set(load_suite(SM90 / name).arrays["status"].tolist()) == errors


@functools.lru_cache(2)
def kept(folder):
    """A suite that several tests read, one after the other; nobody changes its arrays or its files."""
    return load_suite(folder)


def words_of(a):
    """The 32 words of every recorded map."""
    return np.ascontiguousarray(a["tensor_map"]).view("<u4")


@pytest.mark.parametrize(
    "name", ["tma_im2col", "tma_im2col_interleave", "tma_im2col_stores", "tma_interleave", "tma_interleave_stores", "tma_edited"]
)
def test_the_count_of_every_load_was_measured_and_met_exactly(name):
    """Five passes of six complete: the counting one and those armed with its count; the one armed with 16 more does
    not.
    """
    a = kept(SM90 / name).arrays
    loads = (a["instruction"] == "load") & (a["status"] == 0)
    assert (a["completed"][loads] == 0b011111).all()
    assert (a["transaction_bytes"][~loads] == 0).all()


def test_im2col_traces_cover_corners_offsets_strides_fills_and_starts():
    a = kept(SM90 / "tma_im2col").arrays
    w, rank, ran = words_of(a), a["rank"], a["status"] == 0
    assert set(rank.tolist()) == {3, 4, 5}
    assert set((w[:, 2] >> 13 & 3).tolist()) == {0, 1, 2, 3}  # swizzles
    assert (w[ran, 2] >> 15 & 1).sum() > 500  # NaN fill
    steps = np.stack([w[:, 13] >> 3 * i & 7 for i in range(5)], 1) + 1
    image = steps[np.arange(len(steps)), rank - 1]
    assert set(image[ran].tolist()) == set(range(1, 9))  # element strides of N
    assert set(steps[ran, 1].tolist()) == set(range(1, 9))
    lower = (w[:, 14] & 0xFF).astype(np.uint8).view(np.int8)[rank == 4]
    assert lower.min() < -20 < 20 < lower.max()
    for r, end in ((3, 1 << 16), (4, 1 << 8), (5, 1 << 5)):
        assert end // 2 < a["im2col_offsets"][rank == r].max() < end
    assert (a["status"] == 715).sum() > 100  # starts outside the pixel box
    assert set(a["status"].tolist()) == {0, 715}


def test_reduction_traces_cover_every_operation_on_every_type_of_a_map():
    a = load_suite(SM90 / "tma_reduce_traps").arrays
    kind = words_of(a)[:, 2] >> 7 & 15 | (words_of(a)[:, 2] >> 16 & 1) << 4
    seen = set(zip(kind.tolist(), a["operation"].tolist(), strict=True))
    assert len(seen) == 13 * 9
    ran = set(zip(kind[a["status"] == 0].tolist(), a["operation"][a["status"] == 0].tolist(), strict=True))
    b = load_suite(SM90 / "tma_reductions").arrays
    values = set(zip((words_of(b)[:, 2] >> 7 & 15 | (words_of(b)[:, 2] >> 16 & 1) << 4).tolist(), b["operation"].tolist(), strict=True))
    assert values == {(k, op) for k, op in ran if op != "store"}  # the values of every reduction that does not trap
    assert (b["status"] == 0).all()


def test_replace_traces_cover_every_field_from_zeros_and_both_memories():
    a = load_suite(SM90 / "tensormap_replace").arrays
    assert len(set(a["field"].tolist())) == 10
    assert {o for f, o in zip(a["field"].tolist(), a["ordinal"].tolist(), strict=True) if f == "global_stride"} == {0, 1, 2, 3, 4}
    assert (a["input"] == 0).all(1).sum() > 50
    assert set(a["space"].tolist()) == {"global", "shared::cta"}


WALKS = {
    "the measured rule": {},
    "N advances by one": {"image_step": 1},
    "N advances by one, W and H do too": {"image_step": 1, "pixel_step": 1},
    "corners with D or H first": {"reverse": True},
    "offsets in units of the element stride": {"scaled": True},
    "rows begin again where the first one began": {"back_to": "start"},
    "the box ends at the tensor's end": {"upper": 0},
}


@pytest.mark.parametrize("walk", WALKS)
def test_im2col_traces_refute_every_other_walk(walk):
    """The walk over pixels written here once more, from the bits of the map, with one idea changed: only the measured
    rule survives.
    """
    rule = {"image_step": 0, "pixel_step": 0, "reverse": False, "scaled": False, "back_to": "lower", "upper": None} | WALKS[walk]
    suite = kept(SM90 / "tma_im2col")
    a, words, wrong, looked = suite.arrays, words_of(suite.arrays), 0, 0
    for i in np.flatnonzero(a["status"] == 0)[::29].tolist():
        w, rank = [int(x) for x in words[i]], int(a["rank"][i])
        axes, bits = rank - 2, {3: 16, 4: 8, 5: 5}[rank]
        dims, steps = [w[8 + d] + 1 for d in range(rank)], [(w[13] >> 3 * d & 7) + 1 for d in range(rank)]
        strides = [(w[3 + d] | (w[7] >> 4 * d & 15) << 32) * 16 for d in range(rank - 1)]

        def signed(value, bits=bits):
            return (value & (1 << bits) - 1) - (value >> bits - 1 & 1) * (1 << bits)

        lower, upper = [[signed(half >> bits * k) for k in range(axes)] for half in (w[14] & 0xFFFF, w[14] >> 16)]
        if rule["reverse"]:
            lower, upper = lower[::-1], upper[::-1]
        ends = [dims[1 + k] + (upper[k] if rule["upper"] is None else 0) for k in range(axes)]
        start = a["coordinates"][i].tolist()
        offsets = [int(o) * (steps[1 + k] if rule["scaled"] else 1) for k, o in enumerate(a["im2col_offsets"][i][:axes])]
        size = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2)[w[2] >> 7 & 15]
        channels, swizzle = (w[13] >> 24) + 1, w[2] >> 13 & 3
        pitch, mask = 16 << swizzle if swizzle else channels * size, (1 << swizzle) - 1
        at, n, sources, first = start[1 : 1 + axes], start[rank - 1], suite.ragged("source", i), int(a["first"][i])
        if (w[2] >> 16 & 1) or not len(sources):
            continue
        looked += 1
        for pixel in range((w[15] & 1023) + 1):
            place = [start[0], *(p + o for p, o in zip(at, offsets, strict=True)), n]
            inside = all(0 <= x < dim for x, dim in zip(place, dims, strict=True))
            line = int(a["smem_address"][i]) + pixel * pitch
            found = int(sources[(line ^ (line >> 7 & mask) << 4) - first])
            expected = place[0] * size + sum(x * s for x, s in zip(place[1:], strides, strict=True))
            if found != expected if inside else found > -256:
                wrong += 1
                break
            for k in range(axes + 1):
                if k == axes:
                    n += rule["image_step"] or steps[rank - 1]
                    break
                at[k] += rule["pixel_step"] or steps[1 + k]
                if at[k] < ends[k]:
                    break
                at[k] = lower[k] if rule["back_to"] == "lower" else start[1 + k]
    assert looked > 100
    assert wrong == 0 if walk == "the measured rule" else wrong > looked // 100, (wrong, looked)


READINGS = {
    "the measured rule": {},
    "base_offset ignored": {"base": 0},
    "base_offset with the other sign": {"base": -1},
    "the XOR acts on the offset from the start": {"relative": True},
    "start and offsets are ORed, not added": {"ored": True},
    "LBO never used in swizzled K-major": {"lbo_past": False},
    "no swizzle at all": {"mask": 0},
}


@pytest.mark.parametrize("reading", READINGS)
def test_operand_traces_refute_every_other_reading(reading):
    """The formulas of the ISA written here once more, in numpy, with one idea changed: only the measured rule survives."""
    rule = {"base": 1, "relative": False, "ored": False, "lbo_past": True, "mask": 7} | READINGS[reading]
    suite = kept(SM90 / "wgmma_operands")
    a, wrong = suite.arrays, 0
    cases = range(0, len(suite), 9)
    for i in cases:
        word, rows, k = int(a["descriptor"][i]), int(a["rows"][i]), int(a["k"][i])
        e = {"tf32": 4, "f16": 2, "bf16": 2}.get(str(a["dtype"][i]), 1)
        start, lbo, sbo = ((word >> low & 0x3FFF) * 16 for low in (0, 16, 32))
        width, mask = {0: (16, 0), 1: (128, 7), 2: (64, 3), 3: (32, 1)}[word >> 62]
        r, c = np.arange(rows)[:, None], np.arange(k)[None, :]
        if a["major"][i] == "K":
            past = lbo if width <= 32 and (width == 16 or rule["lbo_past"]) else width
            offset = r % 8 * width + r // 8 * sbo + c * e % width + c * e // width * past
        elif width == 16:
            offset = c % 8 * 16 + c // 8 * lbo + r // (16 // e) * sbo + r % (16 // e) * e
        else:
            offset = c % 8 * width + c // 8 * sbo + r // (width // e) * lbo + r % (width // e) * e
        linear = start | offset if rule["ored"] else start + offset
        keyed = (offset if rule["relative"] else linear) - 128 * rule["base"] * (word >> 49 & 7)
        address = linear ^ (keyed >> 7 & mask & rule["mask"]) << 4
        wrong += not np.array_equal(address, suite.ragged("address", i).reshape(rows, k))
    assert wrong == 0 if reading == "the measured rule" else wrong > len(cases) // 100, wrong


# ---- a replay can fail -------------------------------------------------------------------------------------------------------------


def rewritten(source, folder, change=None, *, cases=None, manifest=None):
    """A copy of a suite with changed arrays whose hashes are right: what a capture would have written had silicon
    answered so.
    """
    suite = kept(source)
    arrays, about = dict(suite.arrays), copy.deepcopy(suite.manifest)
    if cases is not None:
        for name in KINDS[suite.kind].columns:
            arrays[name] = arrays[name][: cases + name.endswith("_start")]
            if name.endswith("_start"):
                body = name.removesuffix("_start")
                arrays[body] = arrays[body][: int(arrays[name][-1])]
        about["cases"] = cases
    if change:
        arrays = {name: array.copy() for name, array in arrays.items()}
        change(arrays)
    about["arrays"] = {
        name: {
            "dtype": a.dtype.str,
            "shape": list(a.shape),
            "sha256": hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest(),
            "delta": False,
        }
        for name, a in arrays.items()
    }
    if manifest:
        manifest(about)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data.npz", **arrays)
    (folder / "manifest.json").write_text(json.dumps(about))
    return folder


def at_case(name, inside, by):
    """Another number in one entry of the ragged array, in the first case from 20 on that holds one there, and not a
    mark such as fill.
    """

    def change(arrays):
        start = arrays[f"{name}_start"]
        case = next(i for i in range(20, len(start) - 1) if start[i] + inside < start[i + 1] and arrays[name][start[i] + inside] >= 0)
        arrays[name][start[case] + inside] ^= by
        change.case = case

    return change


def entry(name, index, value):
    def change(arrays):
        assert arrays[name][index] != value
        arrays[name][index] = value

    change.case = index[0] if isinstance(index, tuple) else index
    return change


def running(name, value, **wanted):
    """Another value for the first case from 5 on that ran and is as wanted."""

    def change(arrays):
        fits = arrays["status"] == 0
        for column, what in wanted.items():
            fits &= arrays[column] == what
        change.case = 5 + int(np.argmax(fits[5:]))
        assert fits[change.case]
        assert arrays[name][change.case] != value
        arrays[name][change.case] = value

    return change


def trapping(name, value):
    """Another value for the first case that trapped."""

    def change(arrays):
        change.case = int(np.argmax(arrays["status"] > 0))
        assert arrays[name][change.case] != value
        arrays[name][change.case] = value

    return change


def flipped(name, place):
    """One bit less or more in an array of bytes."""

    def change(arrays):
        arrays[name][place] ^= 1

    change.case = place[0]
    return change


def verdict(case_refused):
    """The first refused (or accepted) call, with the other verdict."""

    def change(arrays):
        change.case = int(np.argmax((arrays["result"] > 0) == case_refused))
        arrays["result"][change.case] = int(not case_refused)

    return change


def accepted(byte):
    """One bit of one byte of the first map that the driver wrote."""

    def change(arrays):
        change.case = int(np.argmax(arrays["result"] == 0))
        arrays["tensor_map"][change.case, byte] ^= 1

    return change


# suite, cases kept, change, what the report names
CHANGES = {
    "an operand's address": ("wgmma_reserved_bits", None, at_case("address", 7, 2), r"row 0, k 7: hardware 0x[0-9a-f]+ \| model 0x", "operand."),
    "an operand's trap": ("wgmma_window", None, running("status", 700), r"hardware traps with CUDA error 700 \| model runs", "operand.window"),
    "a load's source": ("tma_load_traps", None, at_case("source", 3, 1), r"shared 0x[0-9a-f]+: hardware = ", "tma.placement"),
    "a load's count": ("tma_load_traps", None, running("transaction_bytes", 48), r"hardware \d+ bytes \| model \d+ bytes", "tma.transaction_bytes"),
    "a load's trap": ("tma_load_traps", None, running("status", 715), r"hardware traps with CUDA error 715 \| model runs", "tma.traps"),
    "a map's byte": ("tma_load_traps", None, lambda a: a["tensor_map"].__setitem__((0, 72), 3), r"byte 72: driver 0x3 \| model 0x", "tensor_map.bits"),
    "a store's source": ("tma_store_traps", None, at_case("source", 3, 16), "global 0x[0-9a-f]+: hardware = shared", "tma.store_clip"),
    "an im2col load's source": ("tma_im2col", 30, at_case("source", 3, 16), r"shared 0x[0-9a-f]+: hardware = global \+ ", "tma.im2col"),
    "an im2col load's count": ("tma_im2col", 30, running("transaction_bytes", 17), r"hardware 17 bytes \| model \d+ bytes", "tma.transaction_bytes"),
    "an im2col load's trap": ("tma_im2col", 30, running("status", 715), r"hardware traps with CUDA error 715 \| model runs", "tma.traps"),
    "an im2col store's source": ("tma_im2col_stores", 30, at_case("source", 3, 16), r"global 0x[0-9a-f]+: hardware = shared ", "tma.im2col"),
    "a slice's source": ("tma_interleave", 30, at_case("source", 3, 16), r"shared 0x[0-9a-f]+: hardware = global \+ ", "tma.interleave"),
    "a slice of an im2col load": ("tma_im2col_interleave", 30, at_case("source", 3, 16), r"shared 0x[0-9a-f]+: hardware = global \+ ", "tma.interleave"),
    "a stored slice": ("tma_interleave_stores", 30, at_case("source", 3, 16), r"global 0x[0-9a-f]+: hardware = shared ", "tma.interleave"),
    "the count of slices": ("tma_interleave", 30, running("transaction_bytes", 0), r"hardware 0 bytes \| model \d+ bytes", "tma.transaction_bytes"),
    "a trap that did not come": ("tma_mode_traps", None, trapping("status", 0), r"hardware runs \| model traps", "tma.traps"),
    "a trap with another error": ("tma_mode_traps", None, trapping("status", 700), r"hardware .*700 \| model .*716", "tma.traps"),
    "a prefetch's trap": ("tma_mode_traps", None, running("status", 715, instruction="prefetch"), r"error 715 \| model runs", "tma.traps"),
    "where a CUtensorMap lay": ("tma_mode_traps", None, running("object_offset", 32), r"hardware runs \| model traps", "tma.traps"),
    "an edited map's count": ("tma_edited", 30, running("transaction_bytes", 8, instruction="load"), r"hardware 8 bytes \| model \d+ bytes", "tma.transaction_bytes"),
    "a reduced byte": ("tma_reductions", 30, at_case("after", 3, 1), r"hardware made 0x[0-9a-f]+ \| model 0x", "reduce.values"),
    "a reduction's trap": ("tma_reduce_traps", None, running("status", 715), r"hardware traps with CUDA error 715 \| model runs", "reduce.types"),
    "a converted byte": ("tma_conversions", 30, at_case("image", 3, 1), r"shared 0x[0-9a-f]+: hardware 0x[0-9a-f]+ \| model 0x", "tma.values"),
    "a replaced byte": ("tensormap_replace", 60, flipped("output", (33, 44)), r"word 11 \(dim3\), bits 0x00000001: .* hardware made 0x", "tensor_map.replace"),
    "a null pointer's verdict": ("encode_pointers", None, verdict(True), r"the driver accepts \| model refuses", "tensor_map.verdict"),
    "a legal pointer's verdict": ("encode_pointers", None, verdict(False), r"the driver refuses \| model accepts", "tensor_map.verdict"),
    "a wide map's verdict": ("encode_im2col_wide", 40, verdict(True), r"the driver accepts \| model refuses", "tensor_map.verdict"),
    "a wide map's byte": ("encode_im2col_wide", 40, accepted(60), r"byte 60: driver 0x[0-9a-f]+ \| model 0x", "tensor_map.bits"),
    "a bulk copy's source": ("bulk_copies", 30, at_case("source", 3, 16), r"destination byte 0x[0-9a-f]+: hardware from ", "bulk.copy"),
    "a bulk copy's count": ("bulk_copies", 30, running("transaction_bytes", 0), r"hardware 0 bytes \| model \d+ bytes", "bulk.copy"),
    "a bulk copy's trap": ("bulk_traps", None, running("status", 700), r"hardware traps with CUDA error 700 \| model runs", "bulk.traps"),
    "a bulk reduction's byte": ("bulk_reductions", 30, at_case("after", 3, 1), r"hardware made 0x[0-9a-f]+ \| model 0x", "reduce.values"),
    "a multicast byte": ("multicast", 60, at_case("source", 3, 16), r"shared 0x[0-9a-f]+: hardware from ", "multicast.delivery"),
    "a multicast count": ("multicast", 60, running("transaction_bytes", 48), r"hardware 48 bytes \| model \d+ bytes", "multicast.delivery"),
    "a cluster's address": ("cluster_addresses", 60, entry("mapa", 33, 0x1), r"mapa: hardware 0x1 \| model 0x", "cluster.addresses"),
    "an element that wgmma got": ("tma_wgmma", 60, entry("element", (33, 5, 7), -7), "row 5, k 7: hardware got element -7", "operand.base_offset"),
    "a register of wgmma": ("wgmma_f32", 30, at_case("d", 3, 1), r"thread \d+ d\d+ = D", "wgmma.fragments"),
    "a register of wgmma.sp": ("wgmma_sparse", 30, at_case("d", 3, 1), r"thread \d+ d\d+ = D", "wgmma.sparse"),
    "a byte of the image": ("reference_gemm", 3, lambda a: a["image"].__setitem__((2, 77), a["image"][2, 77] ^ 1), "shared 0x[0-9a-f]+: hardware 0x", "tma.placement"),
    "an element of D": ("reference_gemm", 1, lambda a: a["d"].__setitem__((0, 3, 4), a["d"][0, 3, 4] ^ 1 << 23), r"D\[3, 4\]: hardware ", "arithmetic.wgmma"),
}  # fmt: skip
EXACT = {"a map's byte": 0, "a byte of the image": 2, "an element of D": 0}


@pytest.mark.parametrize("what", CHANGES)
def test_one_changed_outcome_is_one_difference_with_its_first_value_rule_and_command(what, tmp_path):
    name, cases, change, says, rule = CHANGES[what]
    folder = rewritten(SM90 / name, tmp_path / name, change, cases=cases)
    suite = load_suite(folder)
    report = replay_suite(suite)
    case = getattr(change, "case", EXACT.get(what))
    assert not report.same
    assert report.differing == 1
    (difference,) = report.differences
    assert difference.case == case
    assert difference.outcome.differing >= 1
    text = report.text()
    assert text.count(f"reproduce: smemsim replay {folder} --case {case}") == 1
    assert f"case {case}: {difference.title}" in text
    assert "rule in force: " + rule in text
    assert "1 cases differ" in text
    alone = replay_suite(suite, case=case)
    assert alone.differences == report.differences
    assert (alone.cases, alone.differing) == (1, 1)
    as_dict = json.loads(json.dumps(report.as_dict()))
    assert as_dict["same"] is False
    assert as_dict["differences"][0]["case"] == case
    assert as_dict["differences"][0]["rule"].startswith(rule)
    assert difference.outcome.first in text
    assert re.search(says, difference.outcome.first), difference.outcome.first


def test_many_differences_are_counted_but_few_are_kept(tmp_path):
    def change(arrays):
        arrays["address"] += np.uint32(16)

    report = replay_suite(load_suite(rewritten(SM90 / "wgmma_reserved_bits", tmp_path / "s", change)))
    assert report.differing == report.cases
    assert len(report.differences) == 5
    assert report.text().count("reproduce:") == 1
    assert any("x" in line for line in report.differences[0].outcome.map)
    assert all(len(line) <= 64 for d in report.differences for line in d.outcome.map)


@pytest.mark.parametrize("case", [-1, 312, 1 << 40])
def test_a_case_that_is_not_there_is_refused(case):
    with pytest.raises(InputError, match=f"case = {case}: .* has cases 0 to 311"):
        replay_suite(load_suite(SMALL), case=case)


def test_every_trace_below_a_path_is_replayed(tmp_path):
    for name in ("b", "a/deep"):
        shutil.copytree(SMALL, tmp_path / name)
    assert [f.relative_to(tmp_path).as_posix() for f in find_suites(tmp_path)] == ["a/deep", "b"]
    assert [r.same for r in replay(tmp_path, tmp_path / "b" / "manifest.json")] == [True] * 3
    with pytest.raises(InputError, match="name one trace, not 2"):
        replay(tmp_path, case=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="no trace in it"):
        replay(tmp_path / "empty")


# ---- damage ------------------------------------------------------------------------------------------------------------------------


def data(change):
    def damage(folder):
        path = folder / "data.npz"
        path.write_bytes(change(path.read_bytes()))

    return damage


def manifest(change):
    def damage(folder):
        path = folder / "manifest.json"
        about = json.loads(path.read_text())
        path.write_text(json.dumps(change(about) or about))

    return damage


def text(content):
    return lambda folder: (folder / "manifest.json").write_bytes(content)


def repacked(change):
    def damage(folder):
        with np.load(folder / "data.npz") as bundle:
            arrays = dict(bundle)
        change(arrays)
        np.savez(folder / "data.npz", **arrays)

    return damage


def swap(a, x, y):
    a[x], a[y] = a[y], a[x]


DAMAGE = {
    "npz truncated": (data(lambda b: b[: len(b) // 2]), "not a readable .npz|cannot be unpacked"),
    "npz cut by one byte": (data(lambda b: b[:-1]), "not a readable .npz|cannot be unpacked"),
    "npz empty": (data(lambda b: b""), "not a readable .npz"),
    "npz is text": (data(lambda b: b"hello"), "not a readable .npz"),
    "npz is one array": (lambda f: (np.save(f / "one.npy", np.zeros(3)), (f / "one.npy").rename(f / "data.npz")), "not a readable .npz file"),
    "npz missing": (lambda f: (f / "data.npz").unlink(), "there is no such file"),
    "npz is a folder": (lambda f: ((f / "data.npz").unlink(), (f / "data.npz").mkdir()), "is a folder"),
    "byte flipped": (data(lambda b: b[: len(b) // 2] + bytes([b[len(b) // 2] ^ 0x10]) + b[len(b) // 2 + 1 :]), "cannot be unpacked|SHA-256"),
    "array missing": (repacked(lambda a: a.pop("descriptor")), "array 'descriptor' is in the manifest but not in data.npz"),
    "array edited": (repacked(lambda a: a["rows"].__setitem__(3, 8)), "array 'rows' does not have the SHA-256"),
    "arrays swapped": (repacked(lambda a: swap(a, "rows", "k")), "array '(rows|k)' does not have the SHA-256"),
    "array pickled": (repacked(lambda a: a.__setitem__("rows", np.array([None] * 312))), "array 'rows' cannot be unpacked"),
    "array of another type": (repacked(lambda a: a.__setitem__("rows", a["rows"].astype("<u4"))), "array 'rows' is uint32 .* the manifest says uint16"),
    "array shorter": (repacked(lambda a: a.__setitem__("rows", a["rows"][:-1])), "array 'rows' is uint16 \\(311,\\), the manifest says"),
    "manifest missing": (lambda f: (f / "manifest.json").unlink(), "there is no such file.*a trace folder holds"),
    "manifest empty": (text(b""), "not JSON"),
    "manifest cut": (text(b'{"schema": "smemsim.trace/1", '), "not JSON"),
    "manifest binary": (text(b"\xff\xfe\0\1"), "not JSON"),
    "manifest nested too deep": (text(b"[" * 100_000), "not JSON"),
    "foreign JSON": (text(b'{"name": "left-pad", "version": "1.3.0"}'), "not a smemsim trace \\(schema is None"),
    "JSON list": (text(b"[1, 2]"), "not a smemsim trace"),
    "another schema": (manifest(lambda m: m.update(schema="other/1")), "not a smemsim trace \\(schema is 'other/1'"),
    "newer schema": (manifest(lambda m: m.update(schema="smemsim.trace/2")), "format 'smemsim.trace/2', this smemsim reads 'smemsim.trace/1'; install a newer"),
    "schema is a number": (manifest(lambda m: m.update(schema=1)), "not a smemsim trace"),
    **{f"no {key}": (manifest(lambda m, key=key: m.pop(key) and None), f"'{key}' is missing") for key in ("suite", "kind", "arch", "device", "source", "cases", "arrays")},
    "cases negative": (manifest(lambda m: m.update(cases=-1)), "'cases' is -1"),
    "cases is true": (manifest(lambda m: m.update(cases=True)), "'cases' is True"),
    "cases is text": (manifest(lambda m: m.update(cases="312")), "'cases' is missing or not a int"),
    "one case too many": (manifest(lambda m: m.update(cases=313)), "array '.*' has shape .*, expected 31[34] entries"),
    "one case too few": (manifest(lambda m: m.update(cases=311)), "expected 31[12] entries"),
    "all cases gone": (manifest(lambda m: m.update(cases=0)), "expected [01] entries"),
    "wrong shape": (manifest(lambda m: m["arrays"]["rows"].update(shape=[156, 2])), "array 'rows' has shape \\(156, 2\\)"),
    "shape of another size": (manifest(lambda m: m["arrays"]["rows"].update(shape=[313])), "array 'rows' is uint16 \\(312,\\), the manifest says"),
    "negative shape": (manifest(lambda m: m["arrays"]["rows"].update(shape=[-312])), "array 'rows' is declared as"),
    "enormous shape": (manifest(lambda m: m["arrays"]["rows"].update(shape=[1 << 62, 1 << 62])), "array 'rows' is declared as"),
    "shape of words": (manifest(lambda m: m["arrays"]["rows"].update(shape=["many"])), "entry for array 'rows' is damaged"),
    "no such dtype": (manifest(lambda m: m["arrays"]["rows"].update(dtype="<q9")), "entry for array 'rows' is damaged"),
    "dtype of objects": (manifest(lambda m: m["arrays"]["rows"].update(dtype="|O")), "array 'rows' is declared as"),
    "an array of another type is declared": (manifest(lambda m: m["arrays"]["rows"].update(dtype="<i2")), "the manifest says int16"),
    "delta that is none": (manifest(lambda m: m["arrays"]["rows"].update(delta=True)), "array 'rows' does not have the SHA-256"),
    "no hash": (manifest(lambda m: m["arrays"]["rows"].pop("sha256") and None), "entry for array 'rows' is damaged"),
    "entry is a number": (manifest(lambda m: m["arrays"].update(rows=7)), "entry for array 'rows' is damaged"),
    "array not declared": (manifest(lambda m: m["arrays"].pop("rows") and None), "needs the array 'rows', which is missing"),
    "unknown kind": (manifest(lambda m: m.update(kind="wgmma_scales")), "kind 'wgmma_scales' is not one this version replays"),
    "kind of another suite": (manifest(lambda m: m.update(kind="tma_load")), "a tma_load trace needs the array"),
    "unknown architecture": (manifest(lambda m: m.update(arch="sm_80") or m["device"].update(compute_capability="8.0")), "cannot be read as a wgmma_operand .*sm_80"),
    "an architecture that the device does not have": (manifest(lambda m: m.update(arch="sm_100a")), "compute capability 9.0; a trace is relabelled"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_told_in_a_sentence_that_names_the_file(what, tmp_path):
    damage, sentence = DAMAGE[what]
    folder = tmp_path / "suite"
    shutil.copytree(SMALL, folder)
    damage(folder)
    with pytest.raises(TraceError, match=sentence) as told:
        replay_suite(load_suite(folder))
    assert str(folder) in str(told.value)
    assert "\n" not in str(told.value)


WRITTEN = {
    "cases that begin backwards": (
        lambda a: a["address_start"].__setitem__(5, a["address_start"][-1]),
        "'address_start' does not divide its array",
    ),
    "cases that begin late": (lambda a: a["address_start"].__setitem__(0, 1), "'address_start' does not divide"),
    "cases that end early": (lambda a: a.__setitem__("address", a["address"][:-1]), "'address_start' does not divide"),
    "starts that are fractions": (
        lambda a: a.__setitem__("address_start", a["address_start"].astype(float)),
        "'address_start' does not divide",
    ),
    "a body that is missing": (lambda a: a.pop("address"), "'address_start' does not divide"),
    "rows of another case": (lambda a: a["rows"].__setitem__(slice(None), 7), r"case \d+ cannot be read as a wgmma_operand case"),
    "a type nobody has": (running("dtype", "q7"), "case .* cannot be read .*dtype = 'q7'"),
    "a major nobody has": (running("major", "X"), "case .* cannot be read .*major = 'X'"),
    "a column of two dimensions": (lambda a: a.__setitem__("k", np.stack([a["k"]] * 2, 1)), "array 'k' has shape \\(312, 2\\)"),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_a_trace_written_wrong_is_damaged_too_although_its_hashes_are_right(what, tmp_path):
    change, sentence = WRITTEN[what]
    folder = rewritten(SMALL, tmp_path / "suite", change)
    with pytest.raises(TraceError, match=sentence) as told:
        replay_suite(load_suite(folder))
    assert str(folder) in str(told.value)


def loads_or_tells(folder):
    """Load, replay and report, or one sentence about the trace."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns about old type letters before it refuses them
        try:
            report = replay_suite(load_suite(folder))
            assert report.text()
            json.dumps(report.as_dict())
        except TraceError as told:
            sentence = str(told)
        else:
            return
    assert str(folder) in sentence
    assert "Traceback" not in sentence


def mutated(drawn, raw):
    for kind, at, byte in drawn:
        i = int(at * len(raw))
        raw = (
            raw[:i]
            + {"flip": bytes([raw[i] ^ (byte or 1)]) if i < len(raw) else b"", "insert": bytes([byte]) + raw[i : i + 1], "drop": b""}[kind]
            + raw[i + 1 :]
        )
    return raw


places = st.floats(0, 1, exclude_max=True)
mutations = st.lists(st.tuples(st.sampled_from(["flip", "insert", "drop"]), places, st.integers(0, 255)), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("victim") / "suite"
    return rewritten(SMALL, folder, cases=8)


@pytest.mark.parametrize("name", ["manifest.json", "data.npz"])
@examples(200)
@given(drawn=mutations)
def test_random_bytes_never_make_anything_but_a_sentence(victim, name, drawn):
    good = (victim / name).read_bytes()
    try:
        (victim / name).write_bytes(mutated(drawn, good))
        loads_or_tells(victim)
    finally:
        (victim / name).write_bytes(good)


values = (
    st.none()
    | st.booleans()
    | st.integers(-2, 400)
    | st.sampled_from([1e300, float("nan"), float("inf"), 1 << 70, "", "K", "<u4", "tma_load", "sm_100a", [], {}, [[1]], {"a": 1}])
)


@examples(200)
@given(st.data())
def test_any_json_in_the_manifest_never_makes_anything_but_a_sentence(victim, data):
    good = (victim / "manifest.json").read_text()
    about = json.loads(good)
    node = about
    while True:
        key = data.draw(st.sampled_from(sorted(node)))
        if not isinstance(node[key], dict) or not node[key] or data.draw(st.integers(0, 3)) == 0:
            break
        node = node[key]
    node[key] = data.draw(values)
    try:
        (victim / "manifest.json").write_text(json.dumps(about))
        loads_or_tells(victim)
    finally:
        (victim / "manifest.json").write_text(good)


@pytest.fixture(
    scope="module",
    params=[
        "tma_load_traps",
        "tma_store_traps",
        "wgmma_reserved_bits",
        "tma_mode_traps",
        "tma_edited",
        "tma_conversions",
        "tma_reduce_traps",
        "tensormap_replace",
        "encode_im2col_wide",
        "encode_pointers",
        "bulk_traps",
        "bulk_reductions",
        "multicast_traps",
        "cluster_addresses",
    ],
)
def arrays_of(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays") / request.param
    return rewritten(SM90 / request.param, folder, cases=6)


@examples(20)
@given(data=st.data())
def test_any_number_in_the_arrays_is_a_difference_or_a_sentence(arrays_of, data):
    suite = kept(arrays_of)
    columns = [n for n in KINDS[suite.kind].columns if suite.arrays[n].dtype.kind in "iu"]
    name = data.draw(st.sampled_from(sorted(columns)))
    kind = np.iinfo(suite.arrays[name].dtype)
    value = data.draw(st.sampled_from([kind.min, kind.max, kind.max // 2, 0]) | st.integers(max(kind.min, -8), min(kind.max, 300)))
    place = tuple(data.draw(st.integers(0, n - 1)) for n in suite.arrays[name].shape)
    loads_or_tells(rewritten(arrays_of, arrays_of.parent / "changed", lambda a: a[name].__setitem__(place, value)))


# ---- How a case ended


def with_status(suite, case, status):
    """The suite, with another CUDA error for one case."""
    changed = suite.arrays["status"].copy()
    changed[case] = status
    return dataclasses.replace(suite, arrays={**suite.arrays, "status": changed})


ENDED = (
    "bulk_copies", "bulk_traps", "multicast_traps", "recorder_loads", "reserved_shared", "surface_traps", "tma_conversions", "tma_edited", "tma_load_traps",
    "tma_reduce_traps", "tma_store_traps", "wgmma_metadata", "wgmma_window",
)  # fmt: skip


@pytest.mark.parametrize("name", ENDED)
def test_a_case_that_ended_otherwise_is_one_difference_that_says_how(name):
    suite = load_suite(SM90 / name)
    for was, other, said in ((False, 715, "715"), (True, 0, "model")):
        cases = np.flatnonzero((suite.arrays["status"] != 0) == was)
        if len(cases):
            case = int(cases[len(cases) // 2])
            [(number, found)] = compared_cases(with_status(suite, case, other), (case,))
            assert (number, found.outcome.compared, found.outcome.differing) == (case, 1, 1)
            assert found.outcome.first.startswith("hardware")
            assert said in found.outcome.first
            [(_, same)] = compared_cases(suite, (case,))
            assert (same.outcome.differing, same.outcome.compared > 0) == (0, True)
