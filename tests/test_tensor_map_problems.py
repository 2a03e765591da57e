"""What is odd about maps that the driver accepts: each finding comes where it should and nowhere else."""

import pytest
from hypothesis import given

from smemsim import Severity, TensorMap
from smemsim.spec.findings import CODES
from strategies import ROW_BYTES, examples, tiled_arguments

GOOD = {
    "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 32, 4), "global_strides": (128, 4096), "box_dim": (64, 8, 2),
    "element_strides": (1, 1, 1), "swizzle": "128B",
}  # fmt: skip
ODD = [
    ({"box_dim": (32, 8, 2)}, "T208", "note", "box_dim", "rows lie 128 B apart in shared memory, 64 B between them"),
    ({"interleave": "32B"}, "T205", "luck", "swizzle", "the documents want SWIZZLE_32B"),
    ({"global_strides": (0, 4096)}, "T205", "note", "global_strides[0]", "all 32 entries are the same bytes"),
    ({"global_strides": (64, 4096)}, "T205", "note", "global_strides[0]", "span 128 B"),
    ({"global_strides": (128, 2048)}, "T205", "note", "global_strides[1]", "span 4096 B"),
    ({"global_dim": (64, (1 << 31) + 1, 4)}, "T205", "trap", "global_dim[1]", "above 2^31 traps"),
    ({"element_strides": (2, 1, 1)}, "T205", "wrong", "element_strides[0]", "is ignored without interleave: all 64 elements"),
    ({"element_strides": (1, 3, 1)}, "T205", "note", "box_dim[1]", "ceil(8 / 3) = 3 elements"),
    ({"global_address": 0}, "T205", "trap", "global_address", "no memory is there"),
    ({"box_dim": (64, 256, 8), "element_strides": (1, 1, 3)}, "T205", "note", "box_dim[2]", "ceil(8 / 3) = 3"),
    ({"box_dim": (64, 255, 58), "element_strides": (1, 8, 1)}, "T205", "trap", "box_dim", "no CTA's window has more than"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "severity", "where", "says"), ODD)
def test_an_odd_map_has_its_finding(change, code, severity, where, says):
    found = [f for f in TensorMap.tiled(**GOOD | change).problems("sm_90a") if f.where == where]
    assert [(f.code, f.severity) for f in found] == [(code, Severity(severity))]
    assert says in found[0].message
    assert found[0].because


def test_strides_in_elements_are_recognised():
    found = {f.where: f.repair for f in TensorMap.tiled(**GOOD | {"global_strides": (64, 2048)}).problems() if f.where.startswith("global")}
    assert found["global_strides[0]"] == "a dense tensor has at least 128 B; strides are bytes, not elements"
    assert TensorMap.tiled(**GOOD | {"global_strides": (16, 4096)}).problems()[0].repair == "a dense tensor has at least 128 B"


def test_a_good_map_has_none():
    for arch in (None, "sm_90a", "sm_100a", "sm_103a"):
        assert TensorMap.tiled(**GOOD).problems(arch) == []


@pytest.mark.parametrize("strides", [(128, 4096), (4096, 128), (128 * 4, 128), (1 << 39, 4096)])
def test_dimensions_may_stand_in_any_order(strides):
    dims = {(128, 4096): (64, 32, 4), (4096, 128): (64, 4, 32), (512, 128): (64, 8, 4), (1 << 39, 4096): (64, 2, 2)}[strides]
    assert TensorMap.tiled(**GOOD | {"global_dim": dims, "global_strides": strides}).problems() == []


def test_a_stride_that_is_never_taken_is_no_overlap():
    assert TensorMap.tiled(**GOOD | {"global_dim": (64, 1, 4), "global_strides": (0, 128)}).problems() == []


@examples(150)
@given(tiled_arguments())
def test_narrow_rows_are_told_exactly_where_the_box_is_below_the_swizzle(drawn):
    tm = TensorMap.tiled(**drawn[0])
    narrow = tm.swizzle.name != "SWIZZLE_NONE" and tm.box_dim[0] * tm.type_row.itemsize < ROW_BYTES[tm.swizzle.name]
    found = tm.problems()
    assert narrow == any(f.code == "T208" for f in found)
    assert all(f.code in CODES and f.message and "\n" not in f.message for f in found)
    assert (tm.element_strides[0] != 1) == any(f.where == "element_strides[0]" for f in found)


def test_a_measured_finding_is_not_called_measured_for_blackwell():
    tm = TensorMap.tiled(**GOOD | {"box_dim": (32, 8, 2)})
    assert "measured on an H200" in tm.problems("sm_90a")[0].because
    assert "measured on sm_90a only" in tm.problems("sm_100a")[0].because


def test_types_of_one_direction_say_so():
    u4 = GOOD | {"data_type": "16U4_ALIGN16B", "global_dim": (128, 32, 4), "global_strides": (64, 2048), "box_dim": (128, 8, 2)}
    assert any("not stored" in f.message for f in TensorMap.tiled(**u4).problems("sm_100a"))
    u6 = u4 | {"data_type": "16U6_ALIGN16B", "global_strides": (96, 3072), "swizzle": "128B_ATOM_64B"}
    assert any("can be stored, not loaded" in f.message for f in TensorMap.tiled(**u6).problems("sm_100a"))


def test_im2col_columns_can_be_narrow_and_too_large():
    arguments = {
        "data_type": "u8", "global_address": 0x10000, "global_dim": (256, 64, 4), "global_strides": (256, 16384), "pixel_box_lower_corner": (0,),
        "pixel_box_upper_corner": (0,), "channels_per_pixel": 128, "pixels_per_column": 1024, "swizzle": "128B",
    }  # fmt: skip
    assert TensorMap.im2col(**arguments).problems() == []
    assert [f.code for f in TensorMap.im2col(**arguments | {"channels_per_pixel": 16}).problems()] == ["T208"]
    huge = TensorMap.im2col(**arguments | {"swizzle": "none", "channels_per_pixel": 256, "pixels_per_column": 912})
    assert [(f.code, f.where) for f in huge.problems()] == [("T205", "pixels_per_column")]


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
    assert [(f.code, str(f.severity), f.where) for f in notes] == [("T205", "note", "swizzle")]
    assert notes[0].because


def test_measured_modes_are_not_disputed():
    for swizzle in ("none", "32B", "64B", "128B"):
        tm = TensorMap.tiled(
            data_type="u8", global_address=0x10000, global_dim=(512, 64), global_strides=(512,), box_dim=(32, 8), swizzle=swizzle
        )
        assert not [f for f in tm.problems() if "sources disagree" in f.message]
