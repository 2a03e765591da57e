"""`TensorMap`: what the driver's tiled encode call accepts (135,000 calls on an H200), the 128 bytes it makes, and the
names of its enums.
"""

import math

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError, SmemsimError, TensorMap, TensorMapError
from smemsim.core.spec.tensor_map import TENSOR_MAP, Interleave, L2Promotion, OobFill, TensorMapDataType, TensorMapSwizzle
from strategies import examples, mutated_arguments, tiled_arguments, words

BASE = {
    "data_type": 9, "global_address": 0x10000, "global_dim": (64, 32, 4), "global_strides": (128, 4096), "box_dim": (64, 8, 2),
    "element_strides": (1, 1, 1), "interleave": 0, "swizzle": 3, "l2_promotion": 0, "oob_fill": 0, "arch": "sm_90a",
}  # fmt: skip
BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32)  # of driver types 0 … 12


def legal_on_hopper(a):
    """The measured rule, clause by clause: "accept iff all of these"."""
    n, e = len(a["global_dim"]), BITS[a["data_type"]] // 8 if 0 <= a["data_type"] <= 12 else 1
    align = 32 if a["interleave"] == 2 else 16
    return (
        0 <= a["data_type"] <= 12
        and 0 <= a["interleave"] <= 2
        and 0 <= a["swizzle"] <= 3
        and 0 <= a["l2_promotion"] <= 3
        and (a["oob_fill"] == 0 or (a["oob_fill"] == 1 and 6 <= a["data_type"] <= 12))
        and (1 <= n <= 5)
        and (n >= 3 or not a["interleave"])
        and 0 <= a["global_address"] < 1 << 57
        and a["global_address"] % align == 0
        and all(s % align == 0 and 0 <= s < 1 << 40 for s in a["global_strides"])
        and all(1 <= d <= 1 << 32 for d in a["global_dim"])
        and all(1 <= b <= 256 for b in a["box_dim"])
        and all(1 <= s <= 8 for s in a["element_strides"])
        and a["box_dim"][0] * e % 16 == 0
        and (a["interleave"] != 0 or a["swizzle"] == 0 or a["box_dim"][0] * e <= (32, 64, 128)[a["swizzle"] - 1])
        and e * math.prod(b // s for b, s in zip(a["box_dim"], a["element_strides"], strict=True)) <= 233472
    )


@examples(400)
@given(mutated_arguments())
def test_hopper_maps_are_accepted_exactly_where_the_driver_accepts(arguments):
    if legal_on_hopper(arguments):
        tm = TensorMap.tiled(**arguments, arch="sm_90a")
        assert {name: getattr(tm, name) for name in arguments} == arguments
    else:
        with pytest.raises(TensorMapError) as refused:
            TensorMap.tiled(**arguments, arch="sm_90a")
        assert refused.value.violations
        assert all(refused.value.violations)
        assert str(refused.value) == "; ".join(refused.value.violations)


def one(name, index, value):
    return {name: tuple(value if i == index else old for i, old in enumerate(BASE[name]))}


# One clause a row: neighbours on the legal side, neighbours on the other, and what the sentence names besides the
# value.
CLAUSES = {
    "data type": ([{"data_type": v} for v in (1, 6, 9)], [{"data_type": v} for v in (-1, 16, 99)], "data_type = "),
    "sub-byte types": ([], [{"data_type": v, "box_dim": (128, 8, 2), "global_dim": (128, 32, 4)} for v in (13, 14)], "data_type = U4_ALIGN"),
    "interleave": ([{"interleave": v} for v in (0, 1, 2)], [{"interleave": v} for v in (-1, 3)], "interleave = "),
    "swizzle": ([{"swizzle": v, "box_dim": (16, 8, 2)} for v in range(4)], [{"swizzle": v} for v in (-1, 7)], "swizzle = "),
    "atoms": ([], [{"swizzle": v} for v in (4, 5, 6)], "swizzle = SWIZZLE_128B_ATOM_"),
    "L2 promotion": ([{"l2_promotion": v} for v in range(4)], [{"l2_promotion": v} for v in (-1, 4)], "l2_promotion = "),
    "fill": ([{"oob_fill": v} for v in (0, 1)], [{"oob_fill": v} for v in (-1, 2)], "oob_fill = "),
    "NaN types": (
        [{"data_type": t, "oob_fill": 1, "swizzle": 0} for t in range(6, 13)],
        [{"data_type": t, "oob_fill": 1, "swizzle": 0} for t in range(6)],
        "oob_fill = NAN_REQUEST_ZERO_FMA",
    ),
    "rank": (
        [{"global_dim": (64,) * n, "global_strides": (128,) * (n - 1), "box_dim": (64,) + (1,) * (n - 1), "element_strides": (1,) * n} for n in range(1, 6)],
        [{"global_dim": (64,) * n, "global_strides": (128,) * max(n - 1, 0), "box_dim": (64,) + (1,) * (n - 1), "element_strides": (1,) * n} for n in (0, 6, 9)],
        "rank = ",
    ),
    "interleaved rank": (
        [{"interleave": 1}],
        [{"interleave": 1, "global_dim": (64, 4), "global_strides": (128,), "box_dim": (8, 4), "element_strides": (1, 1)}],
        "rank = 2: needs at least 3",
    ),
    "entries": ([], [{"global_strides": (128,)}, {"global_strides": (2, 128, 4096)}, {"box_dim": (64, 8)}, {"element_strides": (1, 1, 1, 1)}], " entries: needs "),
    "address": ([{"global_address": v} for v in (16, 48, (1 << 57) - 16)], [{"global_address": v} for v in (8, 24, -16, 1 << 64)], "global_address = "),
    "address 32B": ([{"interleave": 2, "global_address": 64}], [{"interleave": 2, "global_address": 48}], "global_address = 0x30"),
    "stride": ([one("global_strides", i, v) for i in (0, 1) for v in (16, 48, (1 << 40) - 16)],
               [one("global_strides", i, v) for i in (0, 1) for v in (8, 24, -16, 1 << 40)], "global_strides["),
    "stride 32B": ([{"interleave": 2}], [{"interleave": 2, "global_strides": (128, 4112)}], "global_strides[1] = 4112"),
    "dim": ([one("global_dim", i, v) for i in range(3) for v in (1, 1 << 32)], [one("global_dim", i, v) for i in range(3) for v in (0, -1, (1 << 32) + 1)], "global_dim["),
    "box": ([one("box_dim", 1, v) for v in (1, 256)], [one("box_dim", i, v) for i in (1, 2) for v in (0, -1, 257)], "box_dim["),
    "inner box": ([{"swizzle": 0, "box_dim": (256, 8, 2)}], [{"swizzle": 0, "box_dim": (v, 1, 1)} for v in (0, 257, 264)], "box_dim[0] = "),
    "element stride": ([one("element_strides", i, v) for i in range(3) for v in (1, 8)], [one("element_strides", i, v) for i in range(3) for v in (0, 9)], "element_strides["),
    "inner bytes": (
        [{"box_dim": (v, 8, 2)} for v in (8, 16, 24, 64)],
        [{"box_dim": (v, 8, 2), "interleave": i} for v in (1, 4, 12, 63) for i in (0, 1)],
        "needs a multiple of 16 B",
    ),
    "inner width": (
        [{"swizzle": s, "box_dim": (n, 8, 2)} for s, n in ((1, 16), (2, 32), (3, 64))],
        [{"swizzle": s, "box_dim": (n + 8, 8, 2)} for s, n in ((1, 16), (2, 32), (3, 64))],
        "box_dim[0] = ",
    ),
    "inner width interleaved": ([{"swizzle": 1, "interleave": 1}], [], ""),
    "box bytes": (
        [{"box_dim": (64, 256, 7)}, {"box_dim": (64, 152, 12)}, {"box_dim": (64, 256, 14), "element_strides": (1, 2, 1)}, {"box_dim": (64, 256, 8), "element_strides": (2, 1, 1)}],
        [{"box_dim": (64, 256, 8)}, {"box_dim": (64, 153, 12)}, {"box_dim": (64, 256, 15)}],
        "B of shared memory: needs at most 233472 B",
    ),
    "unchecked": (
        [
            {"global_strides": (0, 0)}, {"global_strides": (4096, 128)}, {"global_strides": (16, 16)},  # overlap and order
            {"global_dim": (8, 1, 1)}, {"interleave": 2, "swizzle": 3},
        ],
        [],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_refuses_its_own_side_and_names_argument_and_value(clause):
    good, bad, names = CLAUSES[clause]
    for change in good:
        assert legal_on_hopper(BASE | change), change
        TensorMap.tiled(**BASE | change)
    for change in bad:
        with pytest.raises(TensorMapError) as refused:
            TensorMap.tiled(**BASE | change)
        assert any(names in v for v in refused.value.violations), refused.value.violations


@pytest.mark.parametrize("name", ["global_dim", "global_strides", "box_dim", "element_strides"])
def test_a_violation_names_index_and_value(name):
    for i in range(len(BASE[name])):
        with pytest.raises(TensorMapError) as refused:
            TensorMap.tiled(**BASE | one(name, i, -7))
        assert any(v.startswith(f"{name}[{i}] = -7") for v in refused.value.violations)


def test_every_broken_rule_is_listed():
    with pytest.raises(TensorMapError) as refused:
        TensorMap.tiled(**BASE | {"global_address": 8, "global_strides": (8, 24), "box_dim": (257, 0, 2), "swizzle": 9, "oob_fill": 5})
    text = str(refused.value)
    for named in (
        "global_address = 0x8",
        "global_strides[0] = 8",
        "global_strides[1] = 24",
        "box_dim[0] = 257",
        "box_dim[1] = 0",
        "swizzle = 9",
        "oob_fill = 5",
    ):
        assert named in text
    assert isinstance(refused.value, ValueError)


def test_the_sentence_for_a_wide_row_says_how_many_issues():
    with pytest.raises(TensorMapError, match="box_dim\\[0\\] = 128 x 16 bit = 256 B: needs at most 128 B with SWIZZLE_128B") as refused:
        TensorMap.tiled(**BASE | {"box_dim": (128, 8, 2)})
    assert "2 transfers of at most 64 elements" in refused.value.findings[0].repair


@pytest.mark.parametrize(
    "change",
    [{"swizzle": 4}, {"swizzle": 6}, {"data_type": 14, "box_dim": (128, 1, 1), "global_dim": (128, 32, 4), "global_address": 0x10000}],
)
def test_blackwells_modes_are_legal_there_and_where_no_architecture_is_named(change):
    for arch in ("sm_100a", "sm_103a", None):
        TensorMap.tiled(**BASE | change | {"arch": arch})
    with pytest.raises(TensorMapError, match="needs sm_100 or later"):
        TensorMap.tiled(**BASE | change)


@pytest.mark.parametrize("change", [{"global_dim": 64}, {"global_dim": "64"}, {"box_dim": None}, {"box_dim": (64.0, 8, 2)}, {"global_address": 1.5},
                                    {"global_address": "0x10000"}, {"global_strides": (True, 128)}, {"swizzle": None}, {"data_type": 9.0},
                                    {"arch": "sm_90"}])  # fmt: skip
def test_arguments_of_a_wrong_kind_are_named(change):
    (name,) = change
    with pytest.raises(InputError, match=f"^{name}"):
        TensorMap.tiled(**BASE | change)


def test_a_fraction_is_not_rounded_to_a_whole_number():
    for value in (np.float32(64.5), np.float64(64.5), np.float16(64.5)):
        with pytest.raises(InputError, match="global_dim\\[0\\]"):
            TensorMap.tiled(**BASE | {"global_dim": (value, 32, 4)})


# ---- names of enums ----------------------------------------------------------------------------------------------------------------

ENUMS = [
    ("data_type", driver.CUtensorMapDataType, TensorMapDataType, {"oob_fill": 0, "swizzle": 0, "box_dim": (128, 2, 1), "global_dim": (128, 32, 4), "arch": None}),
    ("swizzle", driver.CUtensorMapSwizzle, TensorMapSwizzle, {"box_dim": (16, 2, 1), "arch": None}),
    ("interleave", driver.CUtensorMapInterleave, Interleave, {}),
    ("l2_promotion", driver.CUtensorMapL2promotion, L2Promotion, {}),
    ("oob_fill", driver.CUtensorMapFloatOOBfill, OobFill, {}),
]  # fmt: skip
MEMBERS = [pytest.param(name, member, change, id=f"{member.name}") for name, enum, _, change in ENUMS for member in enum]
SHORT = {
    "swizzle": ["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"],
    "interleave": ["none", "16B", "32B"],
    "l2_promotion": ["none", "64B", "128B", "256B"],
    "oob_fill": ["zeros", "nan"],
}


@pytest.mark.parametrize(("name", "ours"), [(name, ours) for name, _, ours, _ in ENUMS])
def test_codes_are_those_of_the_drivers_header(name, ours):
    theirs = {m.name: int(m) for n, enum, _, _ in ENUMS if n == name for m in enum}
    members = [m for m in ours if m is not TensorMapSwizzle.SWIZZLE_96B]
    assert sorted(theirs.values()) == sorted(int(m) for m in members)
    for member in members:
        if not member.name.startswith(("U4", "U6", "B")):
            assert {code for text, code in theirs.items() if text.endswith("_" + member.name)} >= {int(member)}


@pytest.mark.parametrize(("name", "member", "change"), MEMBERS)
def test_an_enum_is_its_member_its_code_and_the_names_of_the_header(name, member, change):
    wanted = TensorMap.tiled(**BASE | change | {name: int(member)})
    assert getattr(wanted, name) == int(member)
    text = member.name
    forms = [member, np.int32(int(member)), text, text.removeprefix("CU_TENSOR_MAP_").removeprefix("DATA_TYPE_")]
    if name in SHORT:
        forms.append(SHORT[name][int(member)])
    refused = []
    for form in forms:
        try:
            assert TensorMap.tiled(**BASE | change | {name: form}) == wanted
        except SmemsimError:
            refused.append(form)
    assert not refused


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (np.float16, "FLOAT16"), (np.dtype("float32"), "FLOAT32"), (np.float64, "FLOAT64"), (ml_dtypes.bfloat16, "BFLOAT16"),
        (np.dtype(ml_dtypes.bfloat16), "BFLOAT16"), (ml_dtypes.float8_e4m3fn, "UINT8"), (ml_dtypes.float8_e5m2, "UINT8"), (np.uint8, "UINT8"),
        (np.dtype("int16"), "UINT16"), (np.int32, "INT32"), (np.uint32, "UINT32"), (np.int64, "INT64"), (np.uint64, "UINT64"),
        ("bf16", "BFLOAT16"), ("tf32", "TFLOAT32"), ("e4m3", "UINT8"), ("s8", "UINT8"), ("f16", "FLOAT16"), ("u32", "UINT32"), ("s32", "INT32"),
        ("FLOAT32_FTZ", "FLOAT32_FTZ"), ("TFLOAT32_FTZ", "TFLOAT32_FTZ"),
    ],
)  # fmt: skip
def test_element_types_are_named_as_in_numpy_ml_dtypes_and_ptx(dtype, wanted):
    arguments = BASE | {"swizzle": 0, "box_dim": (16, 2, 1)}
    assert TensorMap.tiled(**arguments | {"data_type": dtype}) == TensorMap.tiled(
        **arguments | {"data_type": getattr(TensorMapDataType, wanted)}
    )


@pytest.mark.parametrize("value", ["SWIZZLE_256B", "128b", "", "NONE ", "CU_TENSOR_MAP_INTERLEAVE_16B"])
def test_a_name_that_is_none_is_a_violation_with_those_that_are(value):
    with pytest.raises(TensorMapError, match=r"swizzle = .*: no such code .*SWIZZLE_128B = 3"):
        TensorMap.tiled(**BASE | {"swizzle": value})


def test_defaults_are_the_plain_ones():
    short = TensorMap.tiled(**{n: BASE[n] for n in ("data_type", "global_address", "global_dim", "global_strides", "box_dim")})
    assert short == TensorMap.tiled(**BASE | {"swizzle": "none", "arch": None})


# ---- the 128 bytes -----------------------------------------------------------------------------------------------------------------


@examples(80)
@given(tiled_arguments())
def test_from_bytes_is_the_inverse_of_bytes(drawn):
    tm = TensorMap.tiled(**drawn[0])
    again = TensorMap.from_bytes(bytes(tm))
    assert again == tm
    assert again.unknown_bits == 0
    assert bytes(again) == bytes(tm)


@examples(60)
@given(tiled_arguments())
def test_a_map_says_how_many_bytes_its_box_has_and_after_how_many_its_swizzle_is_the_same_again(drawn):
    """Words 16 and 18 of what the driver writes: elements of the box that a stride leaves out are no bytes of it."""
    tm = TensorMap.tiled(**drawn[0])
    word = np.frombuffer(bytes(tm), "<u4").tolist()
    if tm.data_type < len(BITS):
        assert word[16] == BITS[tm.data_type] // 8 * math.prod(b // s for b, s in zip(tm.box_dim, tm.element_strides, strict=True))
    if tm.swizzle <= 3:
        assert word[18] == (16, 256, 512, 1024)[tm.swizzle]


@pytest.mark.parametrize(("pixels", "channels"), [(48, 32), (1, 16), (1024, 16)])
def test_an_im2col_map_has_the_bytes_of_its_column_of_pixels(pixels, channels):
    tm = TensorMap.im2col(
        data_type="bf16", global_address=0x10000, global_dim=(64, 14, 14, 8), global_strides=(128, 128 * 14, 128 * 196), pixel_box_lower_corner=(-1, -1),
        pixel_box_upper_corner=(-1, -1), channels_per_pixel=channels, pixels_per_column=pixels, element_strides=(1, 1, 1, 1), swizzle="64B",
    )  # fmt: skip
    word = np.frombuffer(bytes(tm), "<u4").tolist()
    assert (word[16], word[18]) == (2 * pixels * channels, 512)


def test_one_map_word_by_word():
    """The measured table, written out: thirty-two little-endian words."""
    tm = TensorMap.tiled(
        data_type="FLOAT16", global_address=0x7F12_3456_7890, global_dim=(100, 33, 7), global_strides=(208, (1 << 36) + 48), box_dim=(64, 9, 3),
        element_strides=(1, 2, 8), swizzle="128B", l2_promotion="256B", oob_fill="nan",
    )  # fmt: skip
    word = np.frombuffer(bytes(tm), "<u4").tolist()
    assert word[:2] == [0x34567890, 0x7F12]
    assert word[2] == 2 << 4 | 6 << 7 | 3 << 13 | 1 << 15 | 3 << 17
    assert word[3:8] == [208 >> 4, 48 >> 4, 0, 0, 1 << 4]
    assert word[8:13] == [99, 32, 6, 0, 0]
    assert word[13] == 63 << 24 | 7 << 6 | 1 << 3
    assert word[14:16] == [8 | 2 << 8, 0]
    assert word[16:19] == [2 * 64 * 4 * 0, 0, 1024]  # 3 // 8 = 0 of dimension 2: the driver rounds down
    assert word[19:] == [0] * 13


@examples(60)
@given(st.data())
def test_unknown_bits_survive(data):
    """Whatever else stands in the reserved words of a dump comes out again, and the arguments are read all the same."""
    tm = TensorMap.tiled(**data.draw(tiled_arguments())[0])
    reserved = [(n, f) for n, f in TENSOR_MAP.fields.items() if n.startswith("_r") or n in ("box_bytes", "swizzle_period", "pixels")]
    word = int.from_bytes(bytes(tm), "little")
    for _, field in data.draw(st.lists(st.sampled_from(reserved), min_size=1, max_size=3)):
        word ^= 1 << data.draw(st.integers(field.low, field.high))
    raw = word.to_bytes(128, "little")
    again = TensorMap.from_bytes(raw)
    assert bytes(again) == raw
    assert (again == tm) == (raw == bytes(tm))
    assert again.unknown_bits == word ^ int.from_bytes(bytes(tm), "little")
    assert all(getattr(again, name) == getattr(tm, name) for name in BASE if name != "arch")


@examples(100)
@given(words(TENSOR_MAP, raw={"im2col": st.just(0), "rank": st.integers(0, 5), "interleave": st.integers(0, 3)}))
def test_any_128_bytes_that_hold_a_map_come_out_as_they_went_in(word):
    raw = word.to_bytes(128, "little")
    rank, form, interleave = (word >> 68 & 7) + 1, word >> 71 & 15, word >> 75 & 3
    if rank <= 5 and interleave < 3 and form <= 13:
        tm = TensorMap.from_bytes(raw)
        assert bytes(tm) == raw
        fields = TENSOR_MAP.fields
        named = {name for name in fields if name.startswith("_r") and fields[name].raw(word)}
        assert named <= set(tm.unknown_fields)
        assert sum(fields[name].mask << fields[name].low for name in tm.unknown_fields) | tm.unknown_bits == sum(
            fields[name].mask << fields[name].low for name in tm.unknown_fields
        )
    else:
        with pytest.raises(TensorMapError, match="hold no tensor map"):
            TensorMap.from_bytes(raw)


def test_maps_are_read_from_everything_that_holds_128_bytes():
    tm = TensorMap.tiled(**BASE)
    raw = bytes(tm)
    theirs = driver.CUtensorMap()
    theirs.opaque = [driver.cuuint64_t(int(word)) for word in np.frombuffer(raw, "<u8")]
    array = np.frombuffer(raw, np.uint8)
    for holder in (
        raw,
        bytearray(raw),
        memoryview(raw),
        memoryview(raw).cast("I"),
        array,
        array.view("<u4"),
        array.reshape(8, 16),
        array[::-1].copy()[::-1],
        theirs,
    ):
        assert TensorMap.from_bytes(holder) == tm


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "not 0"),
        (b"\0" * 127, "not 127"),
        (b"\0" * 129, "not 129"),
        ("0" * 128, "not str"),
        (None, "not NoneType"),
        ([0] * 128, "not list"),
    ],
)
def test_what_is_not_128_bytes_is_refused(raw, complaint):
    with pytest.raises(InputError, match=f"a tensor map is 128 bytes.*{complaint}"):
        TensorMap.from_bytes(raw)


def test_maps_are_values():
    a, b = TensorMap.tiled(**BASE), TensorMap.tiled(**BASE)
    assert a == b
    assert hash(a) == hash(b)
    assert a != TensorMap.tiled(**BASE | {"l2_promotion": 1})
    assert a.rank == 3
    with pytest.raises(AttributeError):
        a.box_dim = (1, 1, 1)
    assert "unknown_bits" not in repr(a)


@pytest.mark.parametrize("make", [np.int64, np.uint64, np.array, int])
def test_whole_numbers_of_numpy_are_those_of_python(make):
    """In every field; what is no whole number is refused."""
    plain = TensorMap.tiled(**BASE)
    fields = {name: tuple(make(x) for x in BASE[name]) for name in ("global_dim", "global_strides", "box_dim")}
    tm = TensorMap.tiled(**BASE | fields | {"global_address": make(BASE["global_address"])})
    assert (tm, bytes(tm), repr(tm)) == (plain, bytes(plain), repr(plain))
    assert type(tm.global_address) is int
    assert {type(x) for x in (*tm.global_dim, *tm.global_strides, *tm.box_dim)} == {int}
    for wrong in (True, 65536.0, "65536", None):
        with pytest.raises(InputError, match=r"global_address = .*: needs a whole number"):
            TensorMap.tiled(**BASE | {"global_address": wrong})
