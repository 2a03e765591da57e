"""tensormap.replace: the words that ptxas writes, its laws against the driver's encoder, maps built from zeros, the
trace kind, the probe.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import smemsim.evidence.kinds.tensor_map as replace_kind
from smemsim import InputError, TensorMap, TraceError
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.evidence import RULES, Rule
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_map import DATA_TYPES, DERIVED_FIELDS, TENSOR_MAP, TensorMapDataType, TensorMapSwizzle
from smemsim.core.spec.tensor_map_replace import ELEMTYPES, REPLACE_FIELDS
from smemsim.core.words.tensor_map.replace import build_sequence, kept_fields, tensormap_replace
from smemsim.evidence import load_suite, replay_suite, write_suite
from strategies import examples, tiled_arguments

ZEROS, ONES = bytes(128), b"\xff" * 128
BASE = {
    "data_type": "bf16", "global_address": 0x7F0000001000, "global_dim": (64, 128, 5), "global_strides": (128, 1 << 38), "box_dim": (64, 64, 1),
    "element_strides": (1, 1, 2), "swizzle": "128B",
}  # fmt: skip
ARGUMENTS = (
    "data_type",
    "global_address",
    "global_dim",
    "global_strides",
    "box_dim",
    "element_strides",
    "interleave",
    "swizzle",
    "oob_fill",
)

# The masks of the LOP3 instructions in ptxas 13.0.88's code, by byte offset of the word; None: the word is stored as a
# whole.
# fmt: off
MASKS = {
    ("global_address", None): {0x00: None, 0x04: None},
    ("rank", None):           {0x08: 0x70},
    **{("box_dim", i):        {0x34: 0xFF000000} if i == 0 else {0x38: 0xFF << 8 * (i - 1)} for i in range(5)},
    **{("global_dim", i):     {0x20 + 4 * i: None} for i in range(5)},
    **{("global_stride", i):  {0x0C + 4 * i: None, 0x1C: 0xF << 4 * i} for i in range(4)},
    ("global_stride", 4):     {0x1C: None},
    **{("element_stride", i): {0x34: 0x7 << 3 * i} for i in range(5)},
    ("elemtype", None):          {0x08: 0x780},  # and 0x10000 with tf32 types
    ("interleave_layout", None): {0x08: 0x1800},
    ("swizzle_mode", None):      {0x08: 0x6000 | 0x400000},
    ("swizzle_atomicity", None): {0x08: 0x380000},
    ("fill_mode", None):         {0x08: 0x8000},
}
# What the same code makes of a word of zeros: field, ordinal, operand, byte offset, the word.
WORDS = [
    ("global_address", None, 0xFEDCBA9876543210, 0x00, 0x76543210), ("global_address", None, 0xFEDCBA9876543210, 0x04, 0xFEDCBA98),
    ("rank", None, 4, 0x08, 0x40), ("rank", None, 7, 0x08, 0x70), ("rank", None, 8, 0x08, 0), ("rank", None, 0xFFFFFFFF, 0x08, 0x70),
    ("box_dim", 0, 64, 0x34, 0x3F000000), ("box_dim", 0, 0, 0x34, 0xFF000000), ("box_dim", 0, 300, 0x34, 0x2B000000),
    ("box_dim", 1, 256, 0x38, 0xFF), ("box_dim", 4, 3, 0x38, 0x02000000),
    ("global_dim", 0, 1, 0x20, 0), ("global_dim", 4, 0, 0x30, 0xFFFFFFFF), ("global_dim", 2, 0x80000000, 0x28, 0x7FFFFFFF),
    ("global_stride", 0, 16, 0x0C, 1), ("global_stride", 0, 31, 0x0C, 1), ("global_stride", 3, (1 << 40) - 16, 0x18, 0xFFFFFFFF),
    ("global_stride", 3, (1 << 40) - 16, 0x1C, 0xF000), ("global_stride", 1, 1 << 40, 0x1C, 0), ("global_stride", 1, 1 << 40, 0x10, 0),
    ("global_stride", 4, 0x10, 0x1C, 1), ("global_stride", 4, 0xA_0000_0000_0 | 0x12345678 << 4, 0x1C, 0x123A5678),
    ("element_stride", 0, 300, 0x34, 3), ("element_stride", 0, 9, 0x34, 0), ("element_stride", 4, 0, 0x34, 0x7000),
    ("elemtype", None, 10, 0x08, 0x500), ("elemtype", None, 9, 0x08, 0x480), ("elemtype", None, 11, 0x08, 0x10380), ("elemtype", None, 12, 0x08, 0x10400),
    ("elemtype", None, 13, 0x08, 0x580), ("elemtype", None, 15, 0x08, 0x680),
    ("interleave_layout", None, 2, 0x08, 0x1000), ("swizzle_mode", None, 3, 0x08, 0x6000), ("swizzle_mode", None, 4, 0x08, 0x400000),
    ("swizzle_atomicity", None, 1, 0x08, 0x80000), ("swizzle_atomicity", None, 3, 0x08, 0x180000), ("fill_mode", None, 1, 0x08, 0x8000),
]
# PTX ISA 9.1 §9.7.9.28, table 33 and its target notes: how many codes an architecture has.
CODES = {
    "elemtype": (13, 16, 16), "interleave_layout": (3, 3, 3), "swizzle_mode": (4, 4, 5), "swizzle_atomicity": (0, 4, 4), "fill_mode": (2, 2, 2),
}
# fmt: on


def home(field, value):
    """An architecture that has the instruction."""
    return next(a for i, a in enumerate(ARCHITECTURES) if field not in CODES or value < CODES[field][i])


def word_at(raw, offset):
    return int.from_bytes(raw[offset : offset + 4], "little")


@st.composite
def instructions(draw, arch="sm_103a", fields=tuple(REPLACE_FIELDS)):
    """(field, ordinal, value) of an instruction that ptxas takes; register values of every length."""
    field = draw(st.sampled_from(fields))
    row = REPLACE_FIELDS[field]
    ordinal = draw(st.integers(0, 4)) if row.ordinals else None
    if row.codes:
        return field, ordinal, draw(st.integers(0, row.accepted[arch] - 1))
    return field, ordinal, draw(st.one_of(st.integers(0, (1 << row.bits) - 1), st.integers(0, 600)))


maps_of_bits = st.one_of(st.just(ZEROS), st.just(ONES), st.binary(min_size=128, max_size=128))


def apply(raw, steps, arch="sm_103a"):
    for field, ordinal, value in steps:
        raw = tensormap_replace(raw, field, value, ordinal=ordinal, arch=arch)
    return raw


# ---- the words that ptxas writes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "ordinal", "value", "offset", "wanted"), WORDS)
def test_a_word_of_zeros_becomes_what_the_emitted_code_makes_of_it(field, ordinal, value, offset, wanted):
    assert word_at(tensormap_replace(ZEROS, field, value, ordinal=ordinal, arch=home(field, value)), offset) == wanted


@examples(300)
@given(maps_of_bits, instructions())
def test_only_the_bits_of_the_masks_change_and_the_new_ones_do_not_depend_on_the_old(raw, instruction):
    field, ordinal, value = instruction
    masks = MASKS[field, ordinal]
    if field == "elemtype" and value in (11, 12):
        masks = {0x08: 0x780 | 0x10000}
    after, on_zeros = apply(raw, [instruction]), apply(ZEROS, [instruction])
    for offset in range(0, 128, 4):
        mask = masks.get(offset, 0)
        mask = 0xFFFFFFFF if mask is None else mask
        assert word_at(after, offset) == word_at(raw, offset) & ~mask | word_at(on_zeros, offset)
        assert word_at(on_zeros, offset) & ~mask == 0


def test_every_field_and_ordinal_has_its_mask():
    assert set(MASKS) == {(row.name, i) for row in REPLACE_FIELDS.values() for i in (range(row.ordinals) if row.ordinals else (None,))}


@pytest.mark.parametrize("field", CODES)
@pytest.mark.parametrize("index", range(3), ids=tuple(ARCHITECTURES))
def test_an_architecture_takes_the_immediates_of_table_33(field, index):
    arch, count = tuple(ARCHITECTURES)[index], CODES[field][index]
    for code in range(count):
        assert len(tensormap_replace(ONES, field, code, arch=arch)) == 128
    for code in (*range(count, 18), 1 << 40):
        with pytest.raises(InputError, match=arch):
            tensormap_replace(ONES, field, code, arch=arch)


@pytest.mark.parametrize(
    ("field", "ordinal", "given_value", "same_as"),
    [("rank", None, 8, 0), ("rank", None, 13, 5), ("box_dim", 2, 0, 256), ("box_dim", 0, 257, 1), ("box_dim", 3, 300, 44),
     ("element_stride", 1, 9, 1), ("element_stride", 1, 0, 8), ("global_stride", 0, 24, 16), ("global_stride", 2, 1 << 40, 0),
     ("global_stride", 1, (1 << 64) - 1, (1 << 40) - 16)],
)  # fmt: skip
def test_what_does_not_fit_is_cut_without_a_word(field, ordinal, given_value, same_as):
    for raw in (ZEROS, ONES, bytes(TensorMap.tiled(**BASE))):
        first = tensormap_replace(raw, field, given_value, ordinal=ordinal)
        assert first == tensormap_replace(raw, field, same_as, ordinal=ordinal)


def test_the_fifth_stride_overwrites_the_high_bits_of_all_strides():
    tm = TensorMap.tiled(**BASE)
    broken = tensormap_replace(tm, "global_stride", 4096, ordinal=4)
    assert tm.global_strides == (128, 1 << 38)
    assert TensorMap.from_bytes(broken).global_strides == (128, 0x1000000000 * (4096 >> 4 >> 4 & 0xF))
    assert [i for i in range(32) if word_at(broken, 4 * i) != word_at(bytes(tm), 4 * i)] == [7]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_swizzle_mode_clears_the_bit_of_the_96b_mode_everywhere(arch):
    assert word_at(tensormap_replace(ONES, "swizzle_mode", "32B", arch=arch), 8) == 0xFFFFFFFF & ~0x404000


def test_swizzle_atomicity_clears_the_backing_hint():
    before = TENSOR_MAP.decode(int.from_bytes(ONES, "little"))
    after = TENSOR_MAP.decode(int.from_bytes(tensormap_replace(ONES, "swizzle_atomicity", "64B", arch="sm_100a"), "little"))
    assert {name: value for name, value in after.items() if value != before[name]} == {"backing_hint": 0}


# ---- algebra ------------------------------------------------------------------------------------------------------------------------


@examples(150)
@given(maps_of_bits, instructions())
def test_the_same_replace_twice_is_one(raw, instruction):
    assert apply(raw, [instruction] * 2) == apply(raw, [instruction])


@examples(200)
@given(maps_of_bits, instructions(), instructions())
def test_replaces_of_different_fields_commute(raw, one, other):
    assume(one[:2] != other[:2])
    assume(("global_stride", 4) not in (one[:2], other[:2]))  # shares its word with the high bits of the others
    assert apply(raw, [one, other]) == apply(raw, [other, one])


@examples(100)
@given(maps_of_bits, st.lists(instructions(), max_size=8))
def test_what_no_replace_sets_stays(raw, steps):
    before, after = (TENSOR_MAP.decode(int.from_bytes(r, "little")) for r in (raw, apply(raw, steps)))
    kept = kept_fields("sm_103a")
    assert set(kept) == {"im2col", "version", "l2_promotion", "pixels", "box_bytes", "swizzle_period"}
    assert all(before[name] == after[name] for name in kept)
    assert set(kept_fields("sm_90a")) == {*kept, "atomicity", "backing_hint"}


# ---- against the encoder ------------------------------------------------------------------------------------------------------------

PLACES = {"box_dim": "box{}", "global_dim": "dim{}", "element_stride": "element_stride{}", "elemtype": "format", "interleave_layout": "interleave",
          "swizzle_mode": "swizzle_low", "fill_mode": "nan_fill"}  # fmt: skip


@examples(120)
@given(tiled_arguments(), tiled_arguments())
def test_one_replace_writes_its_field_as_the_encoder_does_and_no_other(first, second):
    mine, wanted = (TENSOR_MAP.decode(int.from_bytes(bytes(TensorMap.tiled(**x[0])), "little")) for x in (first, second))
    raw = bytes(TensorMap.tiled(**first[0]))
    for field, ordinal, value in build_sequence(TensorMap.tiled(**second[0])):
        names = [PLACES.get(field, field).format(ordinal)]
        if field == "global_stride":
            names = [f"stride{ordinal}_low", f"stride{ordinal}_high"]
        after = TENSOR_MAP.decode(int.from_bytes(tensormap_replace(raw, field, value, ordinal=ordinal), "little"))
        assert after == mine | {name: wanted[name] for name in names}


@examples(120)
@given(tiled_arguments(), tiled_arguments())
def test_the_sequence_of_a_map_turns_any_other_of_its_rank_into_it_but_for_hints_and_derived_words(first, second):
    a, b = (TensorMap.tiled(**x[0]) for x in (first, second))
    assume(a.rank <= b.rank)  # what a larger rank leaves behind stays
    before, after, wanted = (
        TENSOR_MAP.decode(int.from_bytes(r, "little")) for r in (bytes(a), apply(bytes(a), build_sequence(b), "sm_90a"), bytes(b))
    )
    old = ("l2_promotion", "box_bytes", "swizzle_period")
    assert after == wanted | {name: before[name] for name in old}


def test_a_smaller_rank_needs_the_fields_of_the_dropped_dimension_cleared():
    tm = TensorMap.tiled(**BASE)
    smaller = TensorMap.tiled(**BASE | {name: BASE[name][:-1] for name in ("global_dim", "global_strides", "box_dim", "element_strides")})
    lone = tensormap_replace(tm, "rank", 1)
    assert TensorMap.from_bytes(lone).unknown_fields
    cleared = apply(lone, [("global_dim", 2, 1), ("box_dim", 2, 1), ("element_stride", 2, 1), ("global_stride", 1, 0)])
    assert set(TensorMap.from_bytes(cleared).unknown_fields) <= {"box_bytes"}
    assert TensorMap.from_bytes(cleared).global_dim == smaller.global_dim


def built(tm, arch):
    return TensorMap.from_bytes(apply(ZEROS, build_sequence(tm), arch))


@examples(150)
@given(tiled_arguments())
def test_a_map_built_from_zeros_has_every_argument_but_the_l2_hint(drawn):
    tm = TensorMap.tiled(**drawn[0])
    made = built(tm, "sm_90a")
    assert [getattr(made, name) for name in ARGUMENTS] == [getattr(tm, name) for name in ARGUMENTS]
    assert int(made.l2_promotion) == 0
    assert {"swizzle_period"} <= set(made.unknown_fields) <= {"box_bytes", "swizzle_period"} <= set(DERIVED_FIELDS)


@pytest.mark.parametrize(
    ("change", "arch"),
    [({"interleave": "16B"}, "sm_90a"), ({"data_type": "tf32", "box_dim": (32, 64, 1)}, "sm_90a"), ({"oob_fill": "nan"}, "sm_90a"),
     ({"data_type": "TFLOAT32_FTZ", "box_dim": (32, 64, 1)}, "sm_90a"), ({"global_dim": (1 << 32, 1, 1 << 31)}, "sm_90a"),
     ({"swizzle": "128B_ATOM_32B"}, "sm_100a"), ({"swizzle": "128B_ATOM_32B_FLIP_8B"}, "sm_100a"), ({"swizzle": "128B_ATOM_64B"}, "sm_103a"),
     ({"data_type": "e2m1", "box_dim": (128, 64, 1)}, "sm_100a")],
)  # fmt: skip
def test_every_mode_that_replace_has_can_be_built(change, arch):
    tm = TensorMap.tiled(**BASE | change)
    assert [getattr(built(tm, arch), name) for name in ARGUMENTS] == [getattr(tm, name) for name in ARGUMENTS]


def test_the_96b_swizzle_is_made_by_replace_alone_and_on_sm_103a_alone():
    tm = TensorMap.from_bytes(tensormap_replace(TensorMap.tiled(**BASE | {"box_dim": (48, 64, 1)}), "swizzle_mode", "96B", arch="sm_103a"))
    assert built(tm, "sm_103a").swizzle is tm.swizzle is TensorMapSwizzle.SWIZZLE_96B
    with pytest.raises(InputError, match="96B exists on sm_103a only"):
        built(tm, "sm_100a")


def test_hopper_has_no_field_for_the_atom_swizzles():
    with pytest.raises(InputError, match="swizzle_atomicity: sm_90a has no such field"):
        built(TensorMap.tiled(**BASE | {"swizzle": "128B_ATOM_32B"}), "sm_90a")


def test_an_im2col_map_can_be_changed_but_not_built():
    tm = TensorMap.im2col(data_type="f16", global_address=0x10000, global_dim=(64, 8, 8, 2), global_strides=(128, 1024, 8192), pixel_box_lower_corner=(-1, -1),
                          pixel_box_upper_corner=(-1, -1), channels_per_pixel=64, pixels_per_column=32, swizzle="128B")  # fmt: skip
    moved = TensorMap.from_bytes(tensormap_replace(tm, "global_address", 0x20000))
    assert moved.is_im2col
    assert moved.global_address == 0x20000
    assert moved.pixel_box_lower_corner == (-1, -1)
    # The bytes of the outer box are the corners: the instruction has no other mode than .tile and does not look.
    assert TensorMap.from_bytes(tensormap_replace(tm, "box_dim", 5, ordinal=1)).pixel_box_lower_corner == (4, -1)
    with pytest.raises(InputError, match="im2col"):
        build_sequence(tm)


# ---- element types ------------------------------------------------------------------------------------------------------------------


def test_ptx_numbers_the_types_in_its_own_way():
    assert sorted(ELEMTYPES) == sorted(TensorMapDataType)
    assert [ELEMTYPES[i].name for i in (8, 9, 10)] == ["FLOAT32_FTZ", "FLOAT64", "BFLOAT16"]
    with pytest.raises(InputError, match="PTX counts in another way"):
        tensormap_replace(ZEROS, "elemtype", TensorMapDataType.BFLOAT16)
    with pytest.raises(InputError, match="PTX counts in another way"):
        tensormap_replace(ZEROS, "swizzle_mode", TensorMapSwizzle.SWIZZLE_128B_ATOM_32B, arch="sm_103a")
    assert tensormap_replace(ZEROS, "swizzle_mode", TensorMapSwizzle.SWIZZLE_64B) == tensormap_replace(ZEROS, "swizzle_mode", 2)


@pytest.mark.parametrize("code", range(16))
def test_the_type_that_was_written_is_the_type_that_is_read(code):
    made = TensorMap.from_bytes(tensormap_replace(TensorMap.tiled(**BASE), "elemtype", code, arch="sm_100a"))
    assert made.data_type is ELEMTYPES[code]


@examples(60)
@given(st.sampled_from((11, 12)), st.lists(st.integers(0, 15), max_size=6))
def test_no_element_type_takes_the_tf32_bit_away(first, others):
    raw = apply(ZEROS, [("elemtype", None, code) for code in (first, *others)], "sm_100a")
    last = (first, *others)[-1]
    assert word_at(raw, 8) == 0x10000 | DATA_TYPES[ELEMTYPES[last]].format_code << 7


def test_f32_after_tf32_is_still_tf32():
    tm = TensorMap.tiled(**BASE | {"data_type": "tf32", "box_dim": (32, 64, 1)})
    assert tensormap_replace(tm, "elemtype", "f32") == bytes(tm)
    assert TensorMap.from_bytes(tensormap_replace(tm, "elemtype", "f32.ftz")).data_type is TensorMapDataType.TFLOAT32_FTZ


@pytest.mark.parametrize("code", [c for c, kind in enumerate(ELEMTYPES) if DATA_TYPES[kind].format_code not in (7, 8)])
def test_a_tf32_bit_left_behind_on_another_type_never_goes_unnoticed(code):
    tm = TensorMap.tiled(**BASE | {"data_type": "tf32", "box_dim": (32, 64, 1)})
    raw = tensormap_replace(tm, "elemtype", code, arch="sm_100a")
    read = TensorMap.from_bytes(raw)
    assert read.data_type is ELEMTYPES[code]
    assert "to_tf32" in read.unknown_fields
    assert bytes(read) == raw


# ---- wrong input --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(("box_dims", 1), "did you mean 'box_dim'"), ((7, 1), "field = 7"), (([], 1), "field ="), (("box_dim", 1), "needs the ordinal"),
     (("box_dim", 1, 5), "ordinal = 5: box_dim takes 0 to 4"), (("box_dim", 1, -1), "ordinal = -1"), (("box_dim", 1, 0.0), "ordinal = 0.0"),
     (("box_dim", 1, True), "ordinal = True"), (("rank", 1, 0), "rank takes none"), (("rank", -1), "without a sign"), (("rank", 1.0), "rank = 1.0"),
     (("rank", float("nan")), "rank = nan"), (("rank", "2"), "rank = '2'"), (("rank", None), "rank = None"), (("global_dim", 1 << 32, 0), "0 stands for"),
     (("box_dim", 1 << 32, 0), "32 bits"), (("global_address", 1 << 64), "64 bits"), (("global_stride", 1 << 4000, 0), "far beyond"),
     (("elemtype", "bf61"), "did you mean 'bf16'"), (("elemtype", 13), "b4x16 exists on sm_100a and sm_103a only"), (("elemtype", True), "immediate"),
     (("swizzle_mode", "96B"), "96B exists on sm_103a only"), (("fill_mode", -1), "takes 0 to 1"), (("fill_mode", 0.5), "immediate"),
     (("swizzle_atomicity", 0), "sm_100a and sm_103a only")],
)  # fmt: skip
def test_what_ptxas_refuses_is_refused_with_a_sentence(arguments, complaint):
    field, value, *ordinal = arguments
    with pytest.raises(InputError, match=complaint):
        tensormap_replace(ZEROS, field, value, ordinal=ordinal[0] if ordinal else None)


@pytest.mark.parametrize("raw", [b"", bytes(127), bytes(129), None, 5, "x" * 128])
def test_what_is_not_128_bytes_is_refused(raw):
    with pytest.raises(InputError, match="128 bytes"):
        tensormap_replace(raw, "rank", 1)


def test_other_architectures_and_no_map_are_refused():
    with pytest.raises(InputError, match="arch ="):
        tensormap_replace(ZEROS, "rank", 1, arch="sm_80")
    with pytest.raises(InputError, match="arch ="):
        kept_fields("sm_80")
    for what in (ZEROS, None, 1.5):
        with pytest.raises(InputError, match="needs a TensorMap"):
            build_sequence(what)


def test_every_holder_of_128_bytes_is_taken_and_none_is_changed():
    tm = TensorMap.tiled(**BASE)
    held = bytearray(bytes(tm))
    wanted = tensormap_replace(tm, "rank", 4)
    for holder in (bytes(tm), held, memoryview(held), np.frombuffer(bytes(tm), "<u4"), tm):
        assert tensormap_replace(holder, "rank", np.uint32(4)) == wanted
    assert bytes(held) == bytes(tm)


# ---- the trace kind -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A trace of the words above on maps of zeros, as a capture would write it."""
    rule = Rule("tensor_map.replace", "what tensormap.replace writes", {"sm_90a": Grade.COMPILED}, "ptxas")
    monkeypatch.setattr(replace_kind, "RULES", RULES | {"tensor_map.replace": RULES.get("tensor_map.replace", rule)})
    rows = [w for w in WORDS if home(w[0], w[2]) == "sm_90a" and w[0] not in ("global_address", "global_stride")]
    after = np.zeros((len(rows), 32), "<u4")
    for i, (_, _, _, offset, word) in enumerate(rows):
        after[i, offset // 4] = word

    def write(change=None):
        arrays = {
            "input": np.zeros((len(rows), 128), np.uint8),
            "field": np.array([r[0] for r in rows]),
            "ordinal": np.array([-1 if r[1] is None else r[1] for r in rows], np.int8),
            "value": np.array([r[2] for r in rows], np.uint64),
            "space": np.array(["global"] * len(rows)),
            "output": after.copy().view(np.uint8),
        }
        if change:
            change(arrays)
        about = {"suite": "tensormap_replace", "kind": "tensormap_replace", "arch": "sm_90a", "title": "", "device": {}, "source": {}}
        write_suite(tmp_path, cases=len(rows), arrays=arrays, **about)
        return load_suite(tmp_path)

    return write


def test_a_trace_of_replaces_is_replayed_byte_by_byte(written):
    report = replay_suite(written())
    assert report.same, report.text()
    assert report.compared == 128 * report.cases


def test_one_flipped_bit_is_a_difference_with_word_bits_and_field(written):
    def flip(arrays):
        arrays["output"][1, 4 * 13 + 3] ^= 0x10

    report = replay_suite(written(flip))
    assert report.differing == 1
    first = report.differences[0].outcome
    assert first.first.startswith("word 13 (box0), bits 0x10000000: of 0x00000000 hardware made 0x10000000 | model 0x00000000")
    assert first.rule is not None
    assert first.rule.name == "tensor_map.replace"
    assert report.differences[0].title.startswith("tensormap.replace.tile.rank.global [map], 0x7 on 00")


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a["field"].__setitem__(0, "rang"),
        lambda a: a["ordinal"].__setitem__(0, 3),
        lambda a: a["value"].__setitem__(0, 1 << 40),
        lambda a: a.update(output=a["output"][:, :64]),
        lambda a: a.update(input=a["input"][:, :64]),
        lambda a: a.update(value=a["value"].astype(float) + 0.5),
        lambda a: a.pop("ordinal"),
    ],
    ids=["field", "ordinal", "value", "short output", "short input", "fraction", "no ordinal"],
)
def test_a_damaged_case_is_told_from_a_difference(written, change):
    with pytest.raises(TraceError):
        replay_suite(written(change))


# ---- the probe ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def probe():
    from smemsim.capture import replace_kernels

    return replace_kernels


def test_the_probe_has_every_instruction_in_both_state_spaces(probe):
    text = probe.source("sm_90a")
    listed = probe.ops("sm_90a")
    assert len(listed) == len(set(listed)) == 22 + 13 + 3 + 4 + 2
    for op in listed:
        for space in probe.SPACES:
            assert text.count(op.asm(space)) == 1


def test_the_probe_runs_every_instruction_on_every_kind_of_map_and_every_edge_of_its_operand(probe):
    listed, chosen = probe.ops("sm_90a"), probe.sequences(9020, "sm_90a")
    assert probe.sequences(9020, "sm_90a") == chosen
    assert sum(len(s.steps) for s in chosen) >= 4000
    assert max(len(s.steps) for s in chosen) == probe.MAX_STEPS
    firsts = {(s.start, s.space, s.steps[0][0]) for s in chosen}
    assert firsts >= {(start, space, i) for start in probe.INPUTS for space in (0, 1) for i in range(len(listed))}
    used = {step for s in chosen for step in s.steps}
    for i, op in enumerate(listed):
        assert used >= {(i, edge) for edge in (probe.EDGES[op.bits] if op.immediate is None else [op.immediate])}
    for op, value in used:
        assert 0 <= value < 1 << listed[op].bits
