"""A word is a table: its fields cover every bit once, and the same rows encode, decode and complain."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import InputError, SmemDescriptor
from smemsim.core.spec.fields import Field, Word
from smemsim.core.spec.smem_descriptor import SM90_SMEM_DESC, SM100_SMEM_DESC
from smemsim.core.spec.tensor_map import TENSOR_MAP
from strategies import examples, words

TABLES = [SM90_SMEM_DESC, SM100_SMEM_DESC, TENSOR_MAP]
each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
FIELDS = [pytest.param(table, name, id=f"{table.name}.{name}") for table in TABLES for name in table.fields]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"a": Field(7, 4), "b": Field(4, 0)}, "b: bits \\[4:0\\] overlap"),
        ({"a": Field(7, 0), "b": Field(3, 3)}, "b: bits \\[3:3\\] overlap"),
        ({"a": Field(7, 4), "b": Field(2, 0)}, "bit 3 belongs to no field"),
        ({"a": Field(6, 0)}, "bit 7 belongs to no field"),
        ({}, "bit 7 belongs to no field"),
        ({"a": Field(8, 0)}, "a: bits \\[8:0\\] are not inside 8 bits"),
        ({"a": Field(7, -1)}, "a: bits \\[7:-1\\] are not inside 8 bits"),
        ({"a": Field(7, 4), "b": Field(0, 3)}, "b: bits \\[0:3\\] are not inside 8 bits"),
    ],
)
def test_a_word_with_an_overlap_a_hole_or_a_field_outside_cannot_be_built(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        Word("demo", 8, fields)


@each_table
@examples(40)
@given(data=st.data())
def test_decode_is_the_inverse_of_encode(table, data):
    word = data.draw(words(table))
    assert table.encode(**table.decode(word)) == word


@each_table
@examples(25)
@given(data=st.data())
def test_a_field_holds_its_own_bits_and_no_others(table, data):
    word, name = data.draw(words(table)), data.draw(st.sampled_from(sorted(table.fields)))
    field = table.fields[name]
    flipped = table.decode(word ^ 1 << data.draw(st.integers(field.low, field.high)))
    assert {n for n, value in table.decode(word).items() if flipped[n] != value} == {name}


@each_table
def test_what_is_left_out_holds_the_documented_constant(table):
    empty = table.encode()
    assert not list(table.constants(empty))
    for name, field in table.fields.items():
        assert field.raw(empty) == (field.want or 0)
        wrong = [n for n, _, _ in table.constants(empty ^ 1 << field.low)]
        assert wrong == ([name] if field.want is not None else [])


def test_tcgen05s_constant_is_one_and_wgmmas_is_reserved():
    assert SM100_SMEM_DESC.encode() == 1 << 46
    assert SM90_SMEM_DESC.encode() == 0


def outside(field):
    """Values just below and above what the field holds, and one between two steps."""
    low = -(1 << (field.width - 1)) if field.signed else 0
    step = 1 << field.shift
    values = [((low - 1) << field.shift) + field.plus, ((low + field.mask + 1) << field.shift) + field.plus]
    return values + ([step // 2 + field.plus, 1 + field.plus] if step > 1 else [])


@pytest.mark.parametrize(("table", "name"), FIELDS)
def test_a_value_that_does_not_fit_is_named_with_field_value_unit_and_range(table, name):
    field = table.fields[name]
    unit = f" {field.unit}" if field.unit else ""
    for value in outside(field):
        with pytest.raises(InputError) as refused:
            table.encode(**{name: value})
        sentence = str(refused.value)
        assert sentence.startswith(f"{table.name}.{name} = {value}{unit}: needs ")
        first, last = field.plus, (field.mask << field.shift) + field.plus
        assert f"from {first} to {last}{unit}" in sentence
        assert (f"multiple of {1 << field.shift}" in sentence) == bool(field.shift)
        assert field.source in sentence


@pytest.mark.parametrize("value", [None, 1.0, 16.5, "16", True, np.float64(16), [16]])
@each_table
def test_only_whole_numbers_are_encoded(table, value):
    name = next(iter(table.fields))
    with pytest.raises(InputError, match=f"{table.name}.{name} = .*: needs a whole number"):
        table.encode(**{name: value})


def test_numpy_integers_are_whole_numbers():
    assert SM90_SMEM_DESC.encode(start_address=np.uint32(1024)) == 64


def test_a_field_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(InputError, match=r"sm90\.smem_desc has no field lbo_mode; it has start_address, "):
        SM90_SMEM_DESC.encode(lbo_mode=1)


@given(st.integers(-128, 127), st.integers(1, 8))
@examples(40)
def test_signed_fields_are_twos_complement(value, plus):
    word = Word("demo", 16, {"corner": Field(11, 4, signed=True, plus=plus), "low": Field(3, 0), "high": Field(15, 12)})
    raw = word.encode(corner=value + plus)
    assert raw == (value & 0xFF) << 4
    assert word.decode(raw)["corner"] == value + plus
    for beyond in (-129 + plus, 128 + plus):
        with pytest.raises(InputError, match=f"demo.corner = {beyond}: needs a value from {-128 + plus} to {127 + plus}"):
            word.encode(corner=beyond)


@each_table
def test_a_negative_word_is_its_twos_complement_and_a_wider_one_is_refused(table):
    top = 1 << (table.bits - 1)
    assert table.check_range(-1) == 2 * top - 1
    assert table.check_range(-top) == top
    for word in (2 * top, -top - 1):
        with pytest.raises(InputError, match=f"{table.name} = -?0x[0-9a-f]+: does not fit {table.bits} bits"):
            table.check_range(word)
    for word in (True, 1.5, None, "0x40", b"\0" * 8):
        with pytest.raises(InputError, match=f"needs a {table.bits}-bit integer"):
            table.check_range(word)


@examples(10)
@given(st.lists(words(SM100_SMEM_DESC), min_size=1, max_size=8))
def test_raw_bits_of_an_array_are_those_of_its_words(drawn):
    for field in SM100_SMEM_DESC.fields.values():
        assert field.raw(np.array(drawn, np.uint64)).tolist() == [field.raw(word) for word in drawn]


# ---- selections of fields --------------------------------------------------------------------------------------------------------------


@examples(60)
@given(data=st.data())
def test_a_selection_reads_and_writes_what_the_whole_word_holds(data):
    """The compiled way through 64-bit parts and the plain way through one integer are the same table."""
    word = data.draw(words(TENSOR_MAP))
    names = data.draw(st.lists(st.sampled_from(sorted(TENSOR_MAP.fields)), min_size=1, max_size=20, unique=True))
    selection, whole = TENSOR_MAP.select(*names), TENSOR_MAP.decode(word)
    parts = TENSOR_MAP.parts.unpack(word.to_bytes(128, "little"))
    assert selection.read(parts) == [whole[name] for name in names]
    written = [0] * len(parts)
    selection.write(written, [whole[name] for name in names])
    kept = sum(TENSOR_MAP.fields[name].mask << TENSOR_MAP.fields[name].low for name in names)
    assert int.from_bytes(TENSOR_MAP.parts.pack(*written), "little") == word & kept


@pytest.mark.parametrize("name", sorted(TENSOR_MAP.fields))
def test_a_selection_refuses_values_outside_the_field(name):
    for value in outside(TENSOR_MAP.fields[name]):
        with pytest.raises(InputError, match=f"tensor_map.{name} = {value}: needs "):
            TENSOR_MAP.select("rank", name).write([0] * 16, [3, value])


@pytest.mark.parametrize("field", [Field(66, 60), Field(63, 60, shift=4), Field(63, 60, signed=True)])
def test_fields_that_need_more_than_a_shift_cannot_be_selected(field):
    rest = {"low": Field(59, 0), "high": Field(127, field.high + 1)}
    with pytest.raises(ValueError, match="only plain fields"):
        Word("demo", 128, {"odd": field, **rest}).select("odd")


def test_a_message_has_the_field_of_a_word_once():
    """Some texts begin with the field, such as "base_offset = 1 has no effect". Before others it is printed."""
    whole = SmemDescriptor(arch="sm_100a", start_address=0x400, stride_byte_offset=1024, swizzle="128B").word
    begins = set()
    for name, number in itertools.product(("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset"), (0, 1, 9, 512)):
        at = SM100_SMEM_DESC.fields[name]
        word = SmemDescriptor.decode(whole & ~(at.mask << at.low) | (number & at.mask) << at.low, arch="sm_100a")
        for f in word.problems(dtype="bf16", major="K", rows=128, k=16):
            text = " ".join(str(f).split()).removeprefix(f"{f.code} ")
            begins.add(" ".join(f.what.split()).startswith(f.where))
            assert text.count(f"{f.where} {f.where}") == 0
            assert text.startswith(f.where)
    assert begins == {False, True}
