"""`SmemDescriptor`: every 64-bit word is one, kernels advance it by adding, and each rule of `problems` fires where it
must and only there.
"""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import one_line
from smemsim import InputError, LboMode, Severity, SmemDescriptor, Swizzle, operand_addresses
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.swizzles import MODES
from smemsim.core.words import smem
from strategies import CLASSIC, descriptors, examples, words

each_arch = pytest.mark.parametrize("arch", ARCHITECTURES)
FIELDS = ("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset", "swizzle", "lbo_mode")


@each_arch
@examples(40)
@given(data=st.data())
def test_every_64_bit_word_decodes_and_encodes_to_itself(arch, data):
    word = data.draw(words(ARCHITECTURES[arch].smem_descriptor))
    d = SmemDescriptor.decode(word, arch=arch)
    assert d.encode() == d.word == word
    assert (d.start_address, d.leading_byte_offset, d.stride_byte_offset) == tuple((word >> at & 0x3FFF) * 16 for at in (0, 16, 32))
    assert d.base_offset == word >> 49 & 7
    assert d.layout_code == (word >> 62 if arch == "sm_90a" else word >> 61)
    assert d.lbo_mode == (0 if arch == "sm_90a" else word >> 52 & 1)
    assert isinstance(d.lbo_mode, LboMode)


@each_arch
@examples(40)
@given(data=st.data())
def test_a_repr_can_be_pasted_back(arch, data):
    word = data.draw(words(ARCHITECTURES[arch].smem_descriptor) | descriptors(arch=arch).map(lambda w: w & 0xE00F_3FFF_3FFF_3FFF | 1 << 46))
    d = SmemDescriptor.decode(word, arch=arch)
    pasted = eval(repr(d), {"SmemDescriptor": SmemDescriptor})
    assert pasted == d
    assert hash(pasted) == hash(d)
    assert len(repr(d)) < 200


@each_arch
@examples(40)
@given(data=st.data())
def test_the_fields_of_a_plain_word_make_it_again(arch, data):
    clean = {n: st.just(f.want) for n, f in ARCHITECTURES[arch].smem_descriptor.fields.items() if f.want is not None}
    raw = clean | ({"lbo_mode": st.integers(0, 1)} if arch != "sm_90a" else {})
    d = SmemDescriptor.decode(data.draw(descriptors(arch=arch, raw=raw)), arch=arch)
    assert SmemDescriptor(arch=arch, **{name: getattr(d, name) for name in FIELDS}) == d
    assert "word=" not in repr(d)


def test_the_worked_example_of_the_manuals():
    d = SmemDescriptor.decode(0x4000404000010040, arch="sm_100a")
    assert [getattr(d, name) for name in FIELDS] == [1024, 16, 1024, 0, Swizzle.B128, LboMode.RELATIVE]
    assert d.swizzle == "128B"
    assert SmemDescriptor.decode(0x4000404000010040, arch="sm_90a").swizzle == "128B"
    # bit 61 is not part of wgmma's code
    assert SmemDescriptor.decode(0x6000404000010040, arch="sm_90a").swizzle == "128B"
    assert SmemDescriptor.decode(0x6000404000010040, arch="sm_100a").swizzle is Swizzle.INVALID


def test_descriptors_are_equal_when_architecture_and_word_are():
    d = SmemDescriptor.decode(0x4000404000010040, arch="sm_100a")
    assert d == SmemDescriptor(arch="sm_100a", start_address=1024, leading_byte_offset=16, stride_byte_offset=1024, swizzle="128B")
    assert d != SmemDescriptor.decode(0x4000404000010040, arch="sm_103a")
    assert d != SmemDescriptor.decode(0x4000404000010041, arch="sm_100a")
    assert d != 0x4000404000010040
    assert len({d, SmemDescriptor.decode(d.word, arch="sm_100a")}) == 1


@each_arch
@examples(20)
@given(data=st.data())
def test_a_negative_number_is_its_twos_complement(arch, data):
    word = data.draw(words(ARCHITECTURES[arch].smem_descriptor)) | 1 << 63
    assert SmemDescriptor.decode(word - (1 << 64), arch=arch).word == word


@each_arch
@examples(60)
@given(data=st.data())
def test_advance_is_adding_to_the_word_until_it_would_carry(arch, data):
    word = data.draw(words(ARCHITECTURES[arch].smem_descriptor))
    steps = data.draw(st.integers(-(1 << 14), 1 << 14))
    d = SmemDescriptor.decode(word, arch=arch)
    if 0 <= (word & 0x3FFF) + steps < 1 << 14:
        assert d.advance(16 * steps).word == word + steps
        assert d.advance(16 * steps).advance(-16 * steps) == d
    else:
        with pytest.raises(InputError, match=f"start address {d.start_address} B \\+ {16 * steps} B = .* does not fit the 14-bit"):
            d.advance(16 * steps)


@pytest.mark.parametrize(
    ("start", "by", "fits"),
    [(0x3FFF0, 16, False), (0x3FFE0, 16, True), (0, -16, False), (16, -16, True), (0, 0x3FFF0, True), (0, 0x40000, False)],
)
@each_arch
def test_carries_out_of_the_start_address_are_found_on_both_ends(arch, start, by, fits):
    d = SmemDescriptor(arch=arch, start_address=start, leading_byte_offset=16)
    if fits:
        assert d.advance(by).start_address == start + by
        assert d.advance(by).leading_byte_offset == 16
    else:
        with pytest.raises(InputError, match="does not fit"):
            d.advance(by)


@pytest.mark.parametrize("by", [8, 1, -17, 1.0, "16", None, True])
def test_a_descriptor_moves_in_whole_steps_of_16_bytes(by):
    with pytest.raises(InputError, match=r"byte_offset = .*: (a descriptor moves in steps of 16 B|needs a whole number of bytes)"):
        SmemDescriptor(arch="sm_90a").advance(by)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"start_address": 24}, "start_address = 24 B: needs a multiple of 16 from 0 to 262128 B"),
        ({"start_address": 1 << 18}, "start_address = 262144 B: needs a multiple of 16 from 0 to 262128 B"),
        ({"leading_byte_offset": -16}, "leading_byte_offset = -16 B: needs a multiple of 16 from 0"),
        ({"stride_byte_offset": 1 << 18}, "stride_byte_offset = 262144 B"),
        ({"stride_byte_offset": "1024"}, "stride_byte_offset = '1024': needs a whole number of B"),
        ({"base_offset": 8}, "base_offset = 8: needs a value from 0 to 7"),
        ({"swizzle": "256B"}, "swizzle = '256B': sm_90a descriptors have none, 32B, 64B, 128B"),
        ({"swizzle": "128B_ATOM_32B"}, "swizzle = '128B_ATOM_32B': sm_90a descriptors have"),
        ({"swizzle": Swizzle.INVALID}, "swizzle = 'invalid'"),
        ({"lbo_mode": 1}, "lbo_mode = 1: sm_90a descriptors have no absolute mode"),
        ({"word": 1 << 64}, "descriptor = 0x10000000000000000: does not fit 64 bits"),
        ({"word": -(1 << 63) - 1}, "descriptor = -0x8000000000000001: does not fit 64 bits"),
        ({"word": "0x40"}, "descriptor = '0x40': needs a 64-bit integer"),
        ({"arch": "sm_90"}, "arch = 'sm_90': .*did you mean 'sm_90a'"),
        ({"arch": None}, "arch = None: not an architecture"),
    ],
)
def test_a_descriptor_that_cannot_be_encoded_is_refused_with_the_field(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        SmemDescriptor(**{"arch": "sm_90a"} | arguments)


def test_both_ways_of_making_a_descriptor_do_not_mix():
    with pytest.raises(InputError, match="start_address"):
        SmemDescriptor(arch="sm_90a", word=0x4000004000010040, start_address=2048)


def s90(**fields):
    reserved = fields.pop("also", 0)
    made = {"start_address": 1024, "stride_byte_offset": 1024, "swizzle": "128B"} | fields
    return "sm_90a", SmemDescriptor(arch="sm_90a", **made).word | reserved


def s100(*, arch="sm_100a", code=None, also=0, **fields):
    made = {"start_address": 1024, "stride_byte_offset": 1024, "swizzle": "128B"} | fields
    word = SmemDescriptor(arch=arch, **made).word ^ also
    return arch, word if code is None else word & ~(7 << 61) | code << 61


def s103(**fields):
    return s100(arch="sm_103a", **fields)


K64 = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16}
MN64 = {"dtype": "bf16", "major": "MN", "rows": 64, "k": 16}
NO = {}
END = 0x39000  # of the largest window

# fmt: off
# rule, finding, what its sentence must contain, descriptor and context that have it, neighbours that do not
RULES = [
    ("layout_code", "D302 wrong layout_type", "layout code 3 is invalid on sm_100a.*32B for wgmma; layout code 6", (s100(code=3), NO), (s100(code=2), NO)),
    ("layout_code", "D302 wrong layout_type", "layout code 5 is invalid", (s100(code=5), NO), (s100(code=4), NO)),
    ("layout_code", "D302 wrong layout_type", "layout code 7 is invalid on sm_103a", (s103(code=7), NO), (s103(code=6), NO)),
    ("layout_code", "D302 luck layout_type", r"bit 61 is set.* code 1 \(128B\); tcgen05 would read code 3 \(invalid\)", (s90(also=1 << 61), NO), (s90(), NO)),
    ("layout_code", "D302 wrong layout_type", r"code 0 \(none\); tcgen05 would read code 1 \(128B_ATOM_32B\)", (s90(also=1 << 61, swizzle="none", leading_byte_offset=128), NO),
     (s90(swizzle="none", leading_byte_offset=128), NO)),
    ("layout_code", "D302 note layout_type", "code 1 selects 128B_ATOM_32B on tcgen05.*code 2, if 128B", (s100(code=1), NO), (s100(code=2), NO)),
    ("row_group_of_other_swizzle", "D302 luck layout_type", "code 2 selects 64B; SBO = 1024 B is 8 packed rows of 128B; 128B has code 2 on tcgen05; layout code 1", (s90(swizzle="64B"), K64),
     (s90(swizzle="64B", stride_byte_offset=512), K64)),
    ("row_group_of_other_swizzle", "D302 luck layout_type", "code 2 selects 128B; SBO = 512 B is 8 packed rows of 64B; 64B has code 2 on wgmma; layout code 4", (s100(stride_byte_offset=512), K64), (s100(), K64)),
    ("row_group_of_other_swizzle", "D302 luck layout_type", "SBO = 512 B", (s100(stride_byte_offset=512), K64), (s100(stride_byte_offset=512), MN64)),
    ("fixed_bits", "D305 note _r14", "reserved bits 15:14 are 0b01; the manual has 0b00", (s90(also=1 << 14), NO), (s90(), NO)),
    ("fixed_bits", "D305 note _r30", "bits 31:30 are 0b11", (s90(also=3 << 30), NO), (s90(), NO)),
    ("fixed_bits", "D305 note _r46", "bits 48:46 are 0b001.*wgmma ignores them", (s90(also=1 << 46), NO), (s90(), NO)),
    ("fixed_bits", "D305 note _r52", "bits 61:52", (s90(also=1 << 52), NO), (s90(), NO)),
    ("fixed_bits", "D305 note constant", "constant bits 48:46 are 0b000; the manual has 0b001.* = 0b001", (s100(also=1 << 46), NO), (s100(), NO)),
    ("fixed_bits", "D305 note _r53", "bits 60:53 are 0b10000000", (s100(also=1 << 60), NO), (s100(also=1 << 52), NO)),
    ("absolute_mode", "D305 wrong lbo_mode", "bit 52 is set, and sm_100a has no absolute LBO", (s100(lbo_mode=1), NO), (s103(lbo_mode=1), NO)),
    ("absolute_mode", "D305 wrong lbo_mode", "bit 52 = 0", (s100(lbo_mode=1), NO), (s100(), NO)),
    ("base_offset", "D306 luck base_offset", "base_offset = 1 .*it is the phase of the start address 0x480", (s90(start_address=0x480, base_offset=1), NO), (s90(start_address=0x480), NO)),
    ("base_offset", "D306 wrong base_offset", r"base_offset = 2 .*modulo 8 it is neither 0 nor the phase of the start address \(1\)", (s90(start_address=0x480, base_offset=2), NO), (s90(), NO)),
    ("base_offset", "D306 wrong base_offset", "by 1 line; .*multiples of 256 B", (s100(swizzle="32B", stride_byte_offset=256, base_offset=1), NO), (s100(swizzle="32B", stride_byte_offset=256, base_offset=2), NO)),
    ("base_offset", "D306 note base_offset", "base_offset = 4 has no effect; it is 0 modulo 4", (s90(swizzle="64B", stride_byte_offset=512, base_offset=4), NO), (s90(base_offset=4), NO)),
    ("base_offset", "D306 note base_offset", "no effect; there is no swizzle", (s90(swizzle="none", leading_byte_offset=128, base_offset=1), NO), (s90(base_offset=1), NO)),
    ("field_in_bytes", "D301 luck stride_byte_offset", r"stride_byte_offset = 16384 B: the raw field 1024 .*8 rows of 128B.*1024 >> 4 = 64", (s90(stride_byte_offset=16384), NO), (s90(stride_byte_offset=8192), NO)),
    ("field_in_bytes", "D301 luck stride_byte_offset", "raw field 512 ", (s100(swizzle="64B", stride_byte_offset=8192), NO), (s100(stride_byte_offset=8192), NO)),
    ("field_in_bytes", "D301 wrong stride_byte_offset", "raw field 1024 .*would end at .*, past 0x39000", (s90(start_address=0x20000, stride_byte_offset=16384), K64), (s90(start_address=0x10000, stride_byte_offset=16384), K64)),
    ("field_in_bytes", "D301 wrong stride_byte_offset", "past 0x2400", (s90(stride_byte_offset=16384), K64 | {"tile_bytes": 8192}), (s90(), K64 | {"tile_bytes": 8192})),
    ("field_in_bytes", "D301 wrong leading_byte_offset", "leading_byte_offset = 131072 B: the raw field 8192", (s90(start_address=0x20000, leading_byte_offset=131072), MN64 | {"rows": 128}), (s90(start_address=0x20000, leading_byte_offset=8192), MN64 | {"rows": 128})),
    ("field_in_bytes", "D301 luck leading_byte_offset", "raw field 4096 ", (s90(swizzle="none", leading_byte_offset=65536, stride_byte_offset=256), NO), (s90(swizzle="none", leading_byte_offset=63488, stride_byte_offset=256), NO)),
    ("field_in_bytes", "D301 luck leading_byte_offset", "raw field 8192 ", (s103(leading_byte_offset=131072), K64), (s103(leading_byte_offset=131072, lbo_mode=1), K64)),
    ("outside_window", "A107 trap start_address", "reaches 0x39020, past the end of the largest shared window.*error 700", (s90(start_address=END - 0x70), K64 | {"rows": 8}), (s90(start_address=END - 0x80), K64 | {"rows": 8, "k": 8})),
    ("outside_window", "A107 wrong start_address", "read as zero.* no fault", (s90(start_address=END - 0x380), K64 | {"rows": 8}), (s90(start_address=END - 0x400), K64 | {"rows": 8})),
    ("outside_window", "A107 trap start_address", "the operand reaches 0x39010", (s100(start_address=END), NO), (s100(start_address=END - 16), NO)),
    ("outside_window", "A107 wrong start_address", "past the end of its tile of 8176 B", (s90(), K64 | {"tile_bytes": 8176}), (s90(), K64 | {"tile_bytes": 8192})),
    ("outside_window", "A107 note start_address", "0x3f0 is in the reserved shared memory below 0x400", (s90(start_address=0x3F0), NO), (s90(), NO)),
    ("aliases", "D307 luck stride_byte_offset", "SBO = 0", (s90(stride_byte_offset=0), NO), (s90(stride_byte_offset=16), NO)),
    ("aliases", "D307 luck leading_byte_offset", "LBO = 0 without swizzle", (s90(swizzle="none"), NO), (s90(swizzle="none", leading_byte_offset=16), NO)),
    ("aliases", "D307 wrong stride_byte_offset", r"112 of 128 chunks .*\(row 0, k 0\) and \(row 8, k 0\) are both at 0x400", (s90(stride_byte_offset=0), K64), (s90(stride_byte_offset=0), K64 | {"rows": 8})),
    ("aliases", "D307 wrong leading_byte_offset", r"64 of 128 chunks .*\(row 0, k 0\) and \(row 0, k 8\)", (s90(swizzle="none", stride_byte_offset=256), K64), (s90(swizzle="none", stride_byte_offset=256, leading_byte_offset=128), K64)),
    ("aliases", "D307 wrong stride_byte_offset", r"\(k 0, row 0\) and \(k 8, row 0\) are both at 0x400", (s90(stride_byte_offset=0), MN64), (s90(), MN64)),
    ("aliases", "D307 wrong stride_byte_offset", "both at", (s90(stride_byte_offset=512), K64 | {"k": 64}), (s90(stride_byte_offset=1024), K64 | {"k": 64})),
    ("base_offset", "D306 luck base_offset", "it is the phase", (s90(swizzle="64B", start_address=0x680, stride_byte_offset=512, base_offset=1), NO), (s90(), NO)),
    ("shape", "I601 trap k", "k = 64; one instruction reads 16, 32 elements of bf16", (s90(), K64 | {"k": 64}), (s90(), K64 | {"k": 32})),
    ("shape", "I601 trap rows", "rows = 63", (s90(), K64 | {"rows": 63}), (s90(), K64)),
    ("shape", "I601 trap k", "one instruction reads 8, 16, 32 elements of bf16", (s100(), K64 | {"k": 128}), (s100(), K64)),
    ("type_and_major", "I602 trap dtype", "no wgmma matrix instruction reads e2m1", (s90(), K64 | {"dtype": "e2m1", "k": 64}), (s90(), K64)),
    ("type_and_major", "I602 trap major", "MN-major tf32; .*16-bit types only", (s90(), MN64 | {"dtype": "tf32"}), (s90(), MN64)),
    ("type_and_major", "I602 trap major", "MN-major e4m3; .*16-bit types only", (s90(), MN64 | {"dtype": "e4m3"}), (s90(), K64 | {"dtype": "e4m3"})),
    ("type_and_major", "I602 trap layout_type", "128B_ATOM_32B has no K-major layout", (s100(code=1), K64 | {"dtype": "tf32"}), (s100(code=2), K64 | {"dtype": "tf32"})),
    ("type_and_major", "I602 trap layout_type", "MN-major tf32 needs swizzle 128B_ATOM_32B, not 128B", (s100(), MN64 | {"dtype": "tf32"}), (s100(code=1, stride_byte_offset=512, leading_byte_offset=1024), MN64 | {"dtype": "tf32"})),
    ("type_and_major", "I602 trap layout_type", "128B_ATOM_32B is for 32-bit types, not bf16", (s100(code=1), MN64), (s100(code=2), MN64)),
    ("type_and_major", "I602 trap major", "mxf4 kinds have no transpose bit", (s100(), MN64 | {"dtype": "e2m1"}), (s100(), MN64 | {"dtype": "e4m3"})),
    ("type_and_major", "I602 note major", "the PTX ISA allows K-major only", (s100(), MN64 | {"dtype": "e2m1", "packing": "padded"}), (s100(), K64 | {"dtype": "e2m1", "packing": "padded"})),
    ("unused_field", "D310 note leading_byte_offset", "LBO = 8192 B is never used; the 32 bytes of K fit in one row of swizzle 128B", (s90(leading_byte_offset=8192), K64), (s90(leading_byte_offset=16), K64)),
    ("unused_field", "D310 note leading_byte_offset", "64 bytes of K fit in one row of swizzle 64B", (s100(swizzle="64B", leading_byte_offset=64, stride_byte_offset=512), K64 | {"k": 32}), (s100(swizzle="32B", leading_byte_offset=64, stride_byte_offset=256), K64 | {"k": 32})),
    ("unused_field", "D310 note leading_byte_offset", "never used", (s103(leading_byte_offset=8192), K64 | {"dtype": "e2m1", "k": 96}), (s103(leading_byte_offset=8192, lbo_mode=1), K64 | {"dtype": "e2m1", "k": 96})),
    ("strides_swapped", "D309 luck leading_byte_offset", "look swapped; 128 x 64 bf16 in 16384 B without gaps have LBO 8192 B, SBO 1024 B", (("sm_90a", 0x4000020000400040), {"dtype": "bf16", "major": "MN", "rows": 128, "k": 16, "tile_bytes": 16384}), (("sm_90a", 0x4000004002000040), {"dtype": "bf16", "major": "MN", "rows": 128, "k": 16, "tile_bytes": 16384})),
]
# fmt: on


def listed(word, context):
    arch, number = word
    return [(f"{f.code} {f.severity} {f.where}", f) for f in SmemDescriptor.decode(number, arch=arch).problems(**context)]


@pytest.mark.parametrize(("name", "finding", "sentence", "bad", "good"), RULES, ids=[f"{r[0]}-{i}" for i, r in enumerate(RULES)])
def test_a_rule_fires_on_its_word_and_not_on_the_neighbour(name, finding, sentence, bad, good, monkeypatch):
    found = dict(listed(*bad))
    assert finding in found
    assert finding not in dict(listed(*good))
    monkeypatch.setattr(smem, "RULES", (getattr(smem, name),))
    alone = dict(listed(*bad))
    assert finding in alone
    f = alone[finding]
    text = f"{f.message}; {f.repair}"
    assert re.search(sentence, text), text


def test_every_rule_has_a_word_that_triggers_it():
    assert {row[0] for row in RULES} == {rule.__name__ for rule in smem.RULES}


# Words that shipping kernels and compiler tests use, with the operand they are used for.
KNOWN_GOOD = [
    ("sm_90a", 0x4000004000010040, "bf16", "K", 64, 16),  # Triton, CUTLASS: 128B
    ("sm_90a", 0x4000004000000046, "bf16", "K", 256, 16),  # the fourth K step
    ("sm_90a", 0x8000002000010040, "e4m3", "K", 64, 32),
    ("sm_90a", 0xC000001000010040, "tf32", "K", 64, 8),
    ("sm_90a", 0x4000020000010040, "bf16", "K", 64, 16),  # FlashInfer: atoms stacked along K first
    ("sm_90a", 0x4000004002000040, "bf16", "MN", 128, 16),
    ("sm_90a", 0x0000000800800040, "bf16", "K", 128, 16),  # no swizzle: core matrices
    ("sm_100a", 0x4000404000010060, "f16", "K", 128, 16),
    ("sm_100a", 0x4000404002000040, "bf16", "MN", 128, 16),  # DeepGEMM
    ("sm_100a", 0x4000404002000140, "bf16", "MN", 128, 16),
    ("sm_100a", 0x8000402000010042, "bf16", "K", 128, 16),
    ("sm_100a", 0xC000401000010040, "bf16", "K", 128, 16),
    ("sm_100a", 0x0000400800800040, "bf16", "K", 128, 16),
    ("sm_100a", 0x2000402000400040, "tf32", "MN", 64, 8),  # 32-byte atoms
    ("sm_100a", 0x4000004004000040, "bf16", "MN", 128, 16),  # early Triton: constant bit 46 left at 0
    ("sm_103a", 0x4000404000010040, "e2m1", "K", 128, 64),
]


NOTED = {0x2000402000400040: ["D302 note layout_type"], 0x4000004004000040: ["D305 note constant"]}


@pytest.mark.parametrize(("arch", "word", "dtype", "major", "rows", "k"), KNOWN_GOOD)
def test_nothing_is_found_in_descriptors_of_working_kernels(arch, word, dtype, major, rows, k):
    for context in ({}, {"dtype": dtype, "major": major, "rows": rows, "k": k}):
        assert [what for what, _ in listed((arch, word), context)] == NOTED.get(word, [])


def test_the_last_byte_of_an_operand_decides_about_its_tile():
    """For every swizzle, and both majors."""
    for (arch, word, dtype, major, rows, k), less in itertools.product(KNOWN_GOOD, (0, 1)):
        given = {"dtype": dtype, "major": major, "rows": rows, "k": k}
        d, last = SmemDescriptor.decode(word, arch=arch), int(operand_addresses(word, arch=arch, **given).max()) | 15
        found = {f.code for f in d.problems(**given, tile_bytes=last + 1 - less - d.start_address)}
        assert ("A107" in found) == bool(less), hex(word)


@each_arch
@examples(60)
@given(data=st.data())
def test_findings_come_most_severe_first_and_are_whole_sentences(arch, data):
    word = data.draw(words(ARCHITECTURES[arch].smem_descriptor))
    context = data.draw(st.sampled_from([NO, K64, MN64, {"major": "K"}, K64 | {"tile_bytes": 8192}]))
    found = SmemDescriptor.decode(word, arch=arch).problems(**context)
    order = [list(Severity).index(f.severity) for f in found]
    assert order == sorted(order)
    for f in found:
        assert f.where in ARCHITECTURES[arch].smem_descriptor.fields or f.where == "major"
        assert f.message
        assert str(f).startswith(f"{f.code}  ")
        assert one_line(f.what) in one_line(str(f))


@examples(150)
@given(st.data())
def test_a_read_outside_window_or_tile_is_always_found_and_nothing_else_is_called_outside(data):
    """Hardware's own test is on the first of 8 rows, with a whole swizzle width; every byte of the others counts for
    the tile.
    """
    mode = data.draw(st.sampled_from(CLASSIC))
    raw = {
        "start_address": st.integers(0x40, 0x3FFF),
        "stride_byte_offset": st.integers(0, 0x400),
        "leading_byte_offset": st.integers(0, 0x3FF),
    }
    word = data.draw(descriptors(arch="sm_90a", swizzles=[mode], raw=raw))
    rows, tile_bytes = data.draw(st.integers(1, 80)), data.draw(st.sampled_from([None, 4096, 8192, 10000]))
    context = {"dtype": "bf16", "major": "K", "rows": rows, "k": 16}
    d = SmemDescriptor.decode(word, arch="sm_90a")
    second = d.leading_byte_offset if mode is Swizzle.NONE else 16
    reach = d.start_address + (rows - 1) // 8 * d.stride_byte_offset + second + MODES[mode].width
    last = int(operand_addresses(word, arch="sm_90a", **context).max()) + 1
    outside = reach > END or last >= END or (tile_bytes is not None and last >= d.start_address + tile_bytes)
    assert ("A107" in {f.code for f in d.problems(**context, tile_bytes=tile_bytes)}) == outside


def test_a_row_group_before_the_last_can_reach_farthest():
    """12 rows whose groups lie 16 bytes apart: row 7 is the farthest, not row 11."""
    arch, word = s90(stride_byte_offset=16)
    context = {"dtype": "bf16", "major": "K", "rows": 12, "k": 16}
    assert operand_addresses(word, arch=arch, **context).max() == 0x400 + 1022
    assert "A107" in {f.code for f in SmemDescriptor.decode(word, arch=arch).problems(**context, tile_bytes=1000)}
    assert "A107" not in {f.code for f in SmemDescriptor.decode(word, arch=arch).problems(**context, tile_bytes=1024)}


@pytest.mark.parametrize(
    ("context", "complaint"),
    [
        ({"major": "N"}, "major = 'N'"),
        ({"packing": "dense"}, "packing = 'dense'"),
        ({"rows": -1}, "rows = -1"),
        ({"k": 1.5}, "k = 1.5"),
        ({"tile_bytes": "8192"}, "tile_bytes = '8192'"),
        ({"dtype": "bf17"}, "dtype = 'bf17'"),
    ],
)
def test_a_context_that_is_none_is_refused(context, complaint):
    with pytest.raises(InputError, match=complaint):
        SmemDescriptor(arch="sm_90a").problems(**context)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_no_two_chunks_share_bytes_with_the_word_of_the_fix(swizzle: str):
    given = {"dtype": "bf16", "major": "K", "rows": 64, "k": 16}
    for lbo, sbo in itertools.product((0, 16, 128, 256, 1024), repeat=2):
        d = SmemDescriptor(arch="sm_90a", leading_byte_offset=lbo, stride_byte_offset=sbo, swizzle=swizzle)
        for f in (f for f in d.problems(**given) if str(f.code) == "D307"):
            words = re.findall(r"0x[0-9a-f]+", f.repair)
            assert words or "strides with which" in f.repair
            for word in words:
                assert "D307" not in {str(g.code) for g in SmemDescriptor.decode(int(word, 16), arch="sm_90a").problems(**given)}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("swizzle", "width"), [("64B", 64), ("128B", 128)])
def test_chunks_that_share_bytes_are_named_only_where_the_reads_are_known(arch, swizzle, width):
    """What a row of K that is wider than its swizzle reads is not known."""
    d = SmemDescriptor(arch=arch, start_address=0x400, leading_byte_offset=16, stride_byte_offset=16, swizzle=swizzle)
    for k_bytes in (width // 2, width, 2 * width, 4 * width):
        codes = {f.code for f in d.problems(major="K", dtype="bf16", rows=64, k=k_bytes // 2)}
        assert ("D307" in codes) == (k_bytes <= width)
