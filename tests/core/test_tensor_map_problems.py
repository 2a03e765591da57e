"""What is odd about maps that the driver accepts: each finding comes where it should and nowhere else."""

import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import KINDS, boxes
from places import TESTS
from smemsim import HardwareTrap, Severity, SmemsimError, TensorMap, TensorMapError, tma_load, tma_store
from smemsim.core.spec.findings import CODES
from smemsim.core.spec.tensor_map import TENSOR_MAP
from strategies import ROW_BYTES, examples, tiled_arguments

GOLDEN = TESTS.parent / "golden" / "sm_90a"
STORES = ("tile", "interleaved", "im2col", "im2col interleaved", "gather")
GRAVE = (Severity.TRAP, Severity.WRONG, Severity.LUCK)
GOOD = {
    "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 32, 4), "global_strides": (128, 4096), "box_dim": (64, 8, 2),
    "element_strides": (1, 1, 1), "swizzle": "128B",
}  # fmt: skip
CONV = {
    "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 8, 8, 2), "global_strides": (128, 1024, 8192),
    "pixel_box_lower_corner": (0, 0), "pixel_box_upper_corner": (-2, -2), "channels_per_pixel": 64, "pixels_per_column": 32, "swizzle": "128B",
}  # fmt: skip
SLICED = {"interleave": "32B", "swizzle": "32B", "box_dim": (64, 1, 2)}
SLICED_CONV = {"interleave": "32B", "swizzle": "32B", "channels_per_pixel": 16}
WIDE = {"pixel_box_lower_corner_width": 0, "pixel_box_upper_corner_width": 0, "swizzle": "128B"}
U6 = {"data_type": "16U6_ALIGN16B", "global_dim": (128, 32, 4), "global_strides": (96, 3072), "box_dim": (128, 8, 2)}


def made(change):
    """The map of an odd case, and of its neighbour without the change: tiled, or im2col where it has corners."""
    if "pixel_box_lower_corner_width" in change:
        return TensorMap.im2col_wide(**{k: v for k, v in CONV.items() if "corner" not in k} | change)
    if CONV.keys() & change.keys() - GOOD.keys():
        return TensorMap.im2col(**CONV | change)
    return TensorMap.tiled(**GOOD | change)


def edited(change, **fields):
    """A map whose bits an instruction has changed, as tensormap.replace does."""
    word = TENSOR_MAP.decode(int.from_bytes(bytes(made(change)), "little")) | fields
    return TensorMap.from_bytes(TENSOR_MAP.encode(**word).to_bytes(128, "little"))


# (what the map has, a close neighbour that is fine, the finding: code, severity, field, a part of its sentence), judged
# for sm_90a
ODD = [
    ({"box_dim": (32, 8, 2)}, {}, "T208", "note", "box_dim", "rows are 128 B apart in shared memory; 64 B of each"),
    ({"global_dim": (64, (1 << 31) + 1, 4)}, {}, "T212", "trap", "global_dim[1]", "every transfer traps (CUDA error 715)"),
    ({"box_dim": (64, 255, 58), "element_strides": (1, 8, 1)}, {"box_dim": (64, 32, 4)}, "T212", "trap", "box_dim", "every load traps (CUDA error 700)"),
    ({"element_strides": (2, 1, 1)}, {"element_strides": (1, 2, 1)}, "T213", "wrong", "element_strides[0]", "all 64 elements"),
    (SLICED | {"box_dim": (64, 4, 2)}, SLICED, "T213", "wrong", "box_dim[1]", "moves 1 plane of slices (dimension 1)"),
    (SLICED_CONV | {"channels_per_pixel": 64}, SLICED_CONV, "T213", "note", "channels_per_pixel", "a pixel is one slice of 32 B"),
    ({"global_strides": (0, 4096)}, {}, "T214", "note", "global_strides[0]", "all 32 entries of dimension 1 are the same bytes"),
    ({"global_strides": (64, 4096)}, {"global_strides": (144, 8192)}, "T214", "note", "global_strides[0]", "less than a row (dimension 0), which has 128 B"),
    ({"global_strides": (128, 2048)}, {}, "T214", "note", "global_strides[1]", "less than the 4096 B of the dimensions with smaller strides"),
    (SLICED | {"swizzle": "128B"}, SLICED, "T215", "luck", "swizzle", "cuda.h allows only SWIZZLE_32B"),
    ({"global_dim": (63, 32, 4)}, {"global_dim": (56, 32, 4), "box_dim": (56, 8, 2)}, "T216", "note", "global_dim[0]", "also the 2 B after each row"),
    ({"global_address": 0x10010}, {"global_address": 0x10080}, "T217", "note", "global_address", "CUDA guide"),
    ({"global_address": 0x10010}, {"global_address": 0x10010, "swizzle": "none"}, "T217", "note", "global_address", "CUDA guide"),
    ({"pixel_box_lower_corner": (0, -1)}, {"pixel_box_lower_corner": (0, 0)}, "T218", "note", "pixel_box_lower_corner", "every store traps"),
    ({"pixel_box_upper_corner": (1, 0)}, {"pixel_box_upper_corner": (0, 0)}, "T218", "note", "pixel_box_upper_corner", "every store traps"),
    ({"box_dim": (64, 40, 2)}, {"box_dim": (64, 32, 2)}, "T219", "note", "box_dim[1]", "at least 8 of 40 elements"),
    ({"global_dim": (32, 32, 4)}, {}, "T219", "note", "box_dim[0]", "at least 32 of 64 elements"),
    ({"element_strides": (1, 2, 1), "box_dim": (64, 36, 2)}, {"element_strides": (1, 2, 1), "box_dim": (64, 32, 2)}, "T219", "note", "box_dim[1]",
     "at least 2 of 18"),
    ({"pixel_box_upper_corner": (20, 0)}, {"pixel_box_upper_corner": (0, 0)}, "T219", "note", "pixel_box_lower_corner", "at most 64 of the 224 pixels"),
    ({"pixels_per_column": 73}, {"pixels_per_column": 72}, "T219", "note", "pixels_per_column", "at least 1 pixels of each column"),
    ({"channels_per_pixel": 64, "global_dim": (32, 8, 8, 2)}, {"channels_per_pixel": 64}, "T219", "note", "channels_per_pixel", "at least 32 of 64"),
    ({"global_address": 0}, {}, "T221", "note", "global_address", "CUDA error 700"),
    ({"element_strides": (1, 3, 1)}, {"element_strides": (1, 3, 1), "box_dim": (64, 9, 2)}, "T222", "note", "box_dim[1]", "ceil(8 / 3) = 3 elements"),
    ({"box_dim": (64, 8, 4), "element_strides": (1, 1, 3)}, {"box_dim": (64, 8, 3), "element_strides": (1, 1, 3)}, "T222", "note", "box_dim[2]", "ceil(4 / 3) = 2"),
]  # fmt: skip
# the same of maps that an instruction has changed: the change, the fields
EDITED = [
    ({}, {"to_tf32": 1}, "T212", "data_type", "every load traps (CUDA error 715)"),
    ({"data_type": "u16"}, {"nan_fill": 1}, "T212", "oob_fill", "every load traps (CUDA error 715)"),
    ({}, {"box0": 63}, "T212", "box_dim[0]", "every transfer traps (CUDA error 715)"),
    ({}, {"swizzle_low": 1}, "T212", "box_dim[0]", "SWIZZLE_32B allows at most 32 B; every transfer traps"),
    ({}, {"format": 13}, "T212", "data_type", "sm_90a does not have it"),
    (SLICED, {"stride0_low": 9}, "T212", "global_strides", "INTERLEAVE_32B needs multiples of 32 B"),
    ({}, {"global_address": 0x10008}, "T212", "global_address", "every transfer traps (CUDA error 716)"),
    (SLICED, {"global_address": 0x10010}, "T212", "global_address", "is not a multiple of 32 B; every transfer traps (CUDA error 716)"),
]


@pytest.mark.parametrize(("change", "neighbour", "code", "severity", "where", "says"), ODD)
def test_an_odd_map_has_its_finding_and_its_neighbour_has_not(change, neighbour, code, severity, where, says):
    found = [f for f in made(change).problems("sm_90a") if (f.code, f.where) == (code, where)]
    assert [(f.code, f.severity) for f in found] == [(code, Severity(severity))]
    assert says in found[0].message
    assert found[0].because
    assert (code, where) not in {(f.code, f.where) for f in made(neighbour).problems("sm_90a")}


@pytest.mark.parametrize(("change", "fields", "code", "where", "says"), EDITED)
def test_an_edited_map_that_traps_says_so(change, fields, code, where, says):
    tm = edited(change, **fields)
    found = [f for f in tm.problems("sm_90a") if f.where == where and f.code == code]
    assert [f.severity for f in found] == [Severity.TRAP]
    assert says in found[0].message
    with pytest.raises(HardwareTrap) as trap:
        tma_load(tm, (0, 0, 0), smem_address=0x400, arch="sm_90a")
    assert f"CUDA error {trap.value.cuda_error}" in found[0].message
    assert trap.value.reason in found[0].message
    assert code not in {f.code for f in made(change).problems("sm_90a")}


def test_every_code_of_maps_is_given_by_one():
    wide = made(WIDE | {"element_strides": (1, 1, 1, 2)}).problems("sm_100a")
    given_ = {code for _, _, code, *_ in ODD} | {f.code for f in [*TensorMap.from_bytes(bytes(128)).problems(), *wide]}
    of_kernels = {"T209", "T210", "T211"}  # which `check` gives
    assert given_ == {code for code in CODES if "T208" <= code < "T300"} - of_kernels
    assert {code for code in CODES if code < "T206" and code[0] == "T"} == {"T201", "T202", "T203", "T204", "T205"}


def test_a_finding_has_the_severity_of_its_code_or_is_milder():
    order = [Severity.NOTE, Severity.LUCK, Severity.WRONG, Severity.TRAP]
    for change, *_ in ODD:
        for arch in (None, "sm_90a"):
            for f in made(change).problems(arch):
                assert order.index(f.severity) <= order.index(CODES[f.code].severity)
                assert f.severity is CODES[f.code].severity or (f.code, f.where) == ("T213", "channels_per_pixel")


def test_128_zeros_are_no_map_that_somebody_made():
    for arch in (None, "sm_90a", "sm_100a"):
        found = TensorMap.from_bytes(bytes(128)).problems(arch)
        assert [(f.code, f.severity) for f in found] == [("T220", Severity.TRAP)]
        assert "never encoded, or never copied" in found[0].message
    with pytest.raises(HardwareTrap, match="a row of the box takes 1 B"):
        tma_load(TensorMap.from_bytes(bytes(128)), (0,), smem_address=0x400)
    for bit in range(0, 1024, 37):
        try:
            tm = TensorMap.from_bytes((1 << bit).to_bytes(128, "little"))
        except TensorMapError:
            continue
        assert "T220" not in {f.code for f in tm.problems()}


def test_the_tf32_bit_that_replace_leaves_behind_is_a_trap_where_it_was_measured_and_unknown_elsewhere():
    tm = edited({"data_type": "f16"}, to_tf32=1)
    for arch, code, severity in (
        (None, "T212", "trap"),
        ("sm_90a", "T212", "trap"),
        ("sm_100a", "T215", "luck"),
        ("sm_103a", "T215", "luck"),
    ):
        assert [(f.code, str(f.severity), f.where) for f in tm.problems(arch)] == [(code, severity, "data_type")]
    assert edited({"data_type": "f32", "global_dim": (32, 32, 4), "box_dim": (32, 8, 2)}, to_tf32=1).problems("sm_90a") == []


# ---- severity: trap, wrong and luck are for what no working kernel does ------------------------------------------------------------


def test_maps_of_working_kernels_have_notes_at_most():
    for config in json.loads((TESTS / "data" / "configs.json").read_text()):
        if "tensor_map" in config:
            for address in (0x10000, 0x10010):
                found = TensorMap.tiled(**config["tensor_map"], global_address=address, arch=config["arch"]).problems(config["arch"])
                assert not [str(f) for f in found if f.severity in GRAVE]


@examples(60)
@given(data=st.data(), is_store=st.booleans())
def test_a_map_that_transfers_has_no_trap(data, is_store):
    """And one that only loads has no more than a note about its stores."""
    box = data.draw(boxes(STORES if is_store else KINDS, is_store))
    if is_store:
        tma_store(box.tm, box.at, smem_address=0x400, mode=box.options.get("mode"))
        assert "every store traps" not in str(box.tm.problems())
    else:
        tma_load(box.tm, box.at, smem_address=0x400, **box.options)
    assert not [str(f) for f in box.tm.problems() if f.severity is Severity.TRAP]


TRAP_SUITES = ("tma_edited", "tma_mode_traps", "tma_loads_far", "tma_load_traps", "tma_store_traps")


@pytest.mark.parametrize("name", TRAP_SUITES)
def test_where_a_map_is_said_to_trap_silicon_trapped(name):
    """Every transfer of the trace through a map with T212, or T218 for a store, ended in the error that the finding
    names.
    """
    from smemsim.evidence import load_suite

    a, judged, held = load_suite(GOLDEN / name).arrays, {}, 0
    for i, raw in enumerate(a["tensor_map"]):
        key = raw.tobytes()
        if key not in judged:
            try:
                found = TensorMap.from_bytes(key).problems("sm_90a")
            except SmemsimError:
                found = []
            judged[key] = [f.message for f in found if f.code in ("T212", "T218")]
        instruction = str(a["instruction"][i]) if "instruction" in a else "store" if "store" in name else "load"
        way = "store" if instruction == "store" else "load"
        errors = [
            int(e)
            for m in judged[key]
            for d, e in re.findall(r"every (\w+)(?= (?:and every store )?traps \(CUDA error (\d+)\))", m)
            if d in ("transfer", way)
        ]
        if instruction == "prefetch":
            errors = [e for e in errors if e != 700]  # it needs no shared memory
        if errors:
            held += 1
            status = int(a["status"][i])
            # The instruction may be illegal, or its shared address misaligned, besides.
            assert status in errors or (status in (715, 716) and 715 not in errors), (i, judged[key])
    assert held > 3


# ---- what the sentences count, against transfers -----------------------------------------------------------------------------------


@examples(40)
@given(row=st.integers(1, 40), box=st.integers(1, 4), data_type=st.sampled_from(["u8", "bf16", "f32", "u64"]))
def test_stores_write_behind_a_row_as_many_bytes_as_are_said(row, box, data_type):
    itemsize = {"u8": 1, "bf16": 2, "f32": 4, "u64": 8}[data_type]
    tm = TensorMap.tiled(data_type=data_type, global_address=0x10000, global_dim=(row,), global_strides=(), box_dim=(16 * box // itemsize,))
    behind = 0
    for start in range(0, row, 16 // itemsize):
        behind = max(behind, int(tma_store(tm, (start,), smem_address=0x400).global_address.max()) + 1 - 0x10000 - row * itemsize)
    said = [int(re.search(r"also the (\d+) B after", f.message)[1]) for f in tm.problems() if f.code == "T216"]
    assert said == ([behind] if behind else [])


@examples(40)
@given(tiled_arguments(), st.data())
def test_no_load_has_less_fill_than_is_said(drawn, data):
    arguments, _, smem_address = drawn
    tm = TensorMap.tiled(**arguments)
    chunk = 16 // tm.type_row.itemsize
    steps = (1, *tm.element_strides[1:])
    at = (chunk * data.draw(st.integers(-2, 2)), *(data.draw(st.integers(-3, 3)) for _ in steps[1:]))
    inside = math.prod(tile_size(n, s) for n, s in zip(tm.box_dim, steps, strict=True))
    for f in tm.problems():
        if f.code == "T219":
            least, moved = map(int, re.search(r"at least (\d+) of (\d+)", f.message).groups())
            inside = inside // moved * (moved - least)
    for start in (at, (0,) * tm.rank):
        data_bytes = int((tma_load(tm, start, smem_address=smem_address).global_address >= 0).sum())
        assert data_bytes <= inside * tm.type_row.itemsize
    assert data_bytes == inside * tm.type_row.itemsize  # from the tensor's first element on nothing else is fill


def tile_size(box, step):
    return -(-box // step)


@pytest.mark.parametrize("dims", [(4, 3), (6, 1)])
@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("corners", [c for c in itertools.product((-5, -1, 0, 2), (-2, 0, 1, 6)) if c[1] > c[0] - 4])
def test_the_best_im2col_offsets_bring_as_many_pixels_inside_as_are_said(dims, steps, corners):
    lower, upper = (corners[0], 0), (corners[1], 0)
    assert dims[0] + upper[0] > lower[0]  # else there is no pixel, and the driver refuses the map
    pixels = tile_size(dims[0] + upper[0] - lower[0], steps[0]) * tile_size(dims[1], steps[1])
    tm = TensorMap.im2col(data_type="u8", global_address=0x10000, global_dim=(16, *dims, 1), global_strides=(16, 16 * dims[0], 16 * math.prod(dims)),
                          pixel_box_lower_corner=lower, pixel_box_upper_corner=upper, channels_per_pixel=16, pixels_per_column=pixels,
                          element_strides=(1, *steps, 1))  # fmt: skip
    start, best = (0, *lower, 0), 0
    for offset in range(10):
        moved = tma_load(tm, start, smem_address=0x400, im2col_offsets=(offset, 0)).global_address
        best = max(best, int((moved >= 0).sum()) // 16)
    said = [f.message for f in tm.problems() if f.where == "pixel_box_lower_corner" and f.code == "T219"]
    assert bool(said) == (2 * best < pixels)
    assert not said or f"at most {best} of the {pixels} pixels " in said[0]


def test_an_interleaved_box_moves_one_plane():
    tm = made(SLICED | {"box_dim": (64, 4, 2)})
    assert tma_load(tm, (0, 0, 0), smem_address=0x400).transaction_bytes == 64 * 32 * 2
    assert np.array_equal(
        tma_load(tm, (0, 1, 0), smem_address=0x400).global_address, tma_load(made(SLICED), (0, 1, 0), smem_address=0x400).global_address
    )


# ---- strides, types, sources --------------------------------------------------------------------------------------------------------


def test_strides_in_elements_are_recognised():
    found = {f.where: f.repair for f in TensorMap.tiled(**GOOD | {"global_strides": (64, 2048)}).problems() if f.where.startswith("global")}
    assert found["global_strides[0]"] == "128 B or more for a dense tensor (strides count bytes, not elements)"
    assert TensorMap.tiled(**GOOD | {"global_strides": (16, 4096)}).problems()[0].repair == "128 B or more for a dense tensor"


def test_a_good_map_has_none():
    for arch in (None, "sm_90a", "sm_100a", "sm_103a"):
        assert TensorMap.tiled(**GOOD).problems(arch) == []


@pytest.mark.parametrize("strides", [(128, 4096), (4096, 128), (128 * 4, 128), (1 << 39, 4096)])
def test_dimensions_may_stand_in_any_order(strides):
    dims = {(128, 4096): (64, 32, 4), (4096, 128): (64, 4, 32), (512, 128): (64, 8, 4), (1 << 39, 4096): (64, 2, 2)}[strides]
    tm = TensorMap.tiled(**GOOD | {"global_dim": dims, "global_strides": strides, "box_dim": (64, 2, 2)})
    assert tm.problems() == []


def test_a_stride_that_is_never_taken_is_no_overlap():
    tm = TensorMap.tiled(**GOOD | {"global_dim": (64, 1, 4), "global_strides": (0, 128), "box_dim": (64, 1, 4)})
    assert tm.problems() == []


@examples(150)
@given(tiled_arguments())
def test_narrow_rows_are_told_exactly_where_the_box_is_below_the_swizzle(drawn):
    tm = TensorMap.tiled(**drawn[0])
    narrow = tm.swizzle.name != "SWIZZLE_NONE" and tm.box_dim[0] * tm.type_row.itemsize < ROW_BYTES[tm.swizzle.name]
    found = tm.problems()
    assert narrow == any(f.code == "T208" for f in found)
    for f in found:
        if f.code == "T208" and (proposed := re.search(r"swizzle = (\d+B)", f.repair)):
            assert "T208" not in [other.code for other in TensorMap.tiled(**drawn[0] | {"swizzle": proposed[1]}).problems()]
    assert all(f.code in CODES and f.message and "\n" not in f.message for f in found)
    assert (tm.element_strides[0] != 1) == any(f.where == "element_strides[0]" for f in found)


def test_a_measured_finding_is_not_called_measured_for_blackwell():
    tm = TensorMap.tiled(**GOOD | {"box_dim": (32, 8, 2)})
    assert "measured on an H200" in tm.problems("sm_90a")[0].because
    assert "measured on sm_90a only" in tm.problems("sm_100a")[0].because


def test_types_of_one_direction_say_so():
    u4 = U6 | {"data_type": "16U4_ALIGN16B", "global_strides": (64, 2048)}
    for change, way in ((u4, "every store traps"), (U6 | {"swizzle": "128B_ATOM_64B"}, "every load traps")):
        found = [f for f in made(change).problems("sm_100a") if f.code == "T218"]
        assert [f.severity for f in found] == [Severity.NOTE]
        assert way in found[0].message
        assert "measured" not in found[0].because
    assert not [f for f in made(U6).problems("sm_100a") if f.code == "T218"]


def test_im2col_columns_can_be_narrow_and_too_large():
    arguments = {
        "data_type": "u8", "global_address": 0x10000, "global_dim": (256, 64, 16), "global_strides": (256, 16384), "pixel_box_lower_corner": (0,),
        "pixel_box_upper_corner": (0,), "channels_per_pixel": 128, "pixels_per_column": 1024, "swizzle": "128B",
    }  # fmt: skip
    assert TensorMap.im2col(**arguments).problems() == []
    assert [f.code for f in TensorMap.im2col(**arguments | {"channels_per_pixel": 16}).problems()] == ["T208"]
    huge = TensorMap.im2col(**arguments | {"swizzle": "none", "channels_per_pixel": 256, "pixels_per_column": 912})
    assert [(f.code, f.where) for f in huge.problems()] == [("T212", "pixels_per_column")]


@pytest.mark.parametrize("swizzle", ["128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"])
def test_what_sources_disagree_on_is_said_with_both_of_them(swizzle):
    tm = TensorMap.tiled(
        data_type="u8",
        global_address=0x10000,
        global_dim=(512, 64),
        global_strides=(512,),
        box_dim=(128, 8),
        swizzle=swizzle,
        arch="sm_100a",
    )
    notes = [f for f in tm.problems("sm_100a") if "sources disagree" in f.message]
    assert [(f.code, str(f.severity), f.where) for f in notes] == [("T217", "note", "swizzle")]
    assert notes[0].because


@pytest.mark.parametrize(("arch", "is_disputed"), [("sm_90a", False), ("sm_100a", True), ("sm_103a", True)])
@pytest.mark.parametrize("mode", ["W", "W128"])
@pytest.mark.parametrize("step", [1, 2])
def test_wide_modes_are_disputed_where_they_are_not_the_plain_ones(arch, is_disputed, mode, step):
    """Hopper takes a wide map for a plain one. Elsewhere sources disagree about the halo of W128, and about steps over
    images.
    """
    tm = made(WIDE | {"mode": mode, "element_strides": (1, 1, 1, step)} | ({"pixels_per_column": 0} if mode == "W128" else {}))
    wanted = {"mode": mode == "W128" and is_disputed, "element_strides": step == 2 and is_disputed}
    found = {f.where: f for f in tm.problems(arch) if f.code == "T217"}
    assert {where for where, is_there in wanted.items() if is_there} == found.keys()
    for finding in found.values():
        assert finding.message.startswith("sources disagree; smemsim takes: ")
        assert "nothing of it is measured" in finding.message or "nothing of it is measured" in str(finding)


def test_gaps_of_padded_types_are_disputed_with_atoms_of_64_bytes_alone():
    for swizzle, fields in (("none", []), ("128B", []), ("128B_ATOM_32B", ["swizzle"]), ("128B_ATOM_64B", ["data_type", "swizzle"])):
        tm = made(U6 | {"swizzle": swizzle, "arch": "sm_100a"})
        assert sorted(f.where for f in tm.problems("sm_100a") if f.code == "T217") == fields, swizzle


def test_measured_modes_are_not_disputed():
    for swizzle in ("none", "32B", "64B", "128B"):
        tm = TensorMap.tiled(
            data_type="u8", global_address=0x10000, global_dim=(512, 64), global_strides=(512,), box_dim=(32, 8), swizzle=swizzle
        )
        assert not [f for f in tm.problems() if "sources disagree" in f.message]
