"""Kernels that compilers made for sm_100a: smemsim, decoding their words, finds the layouts that the compilers say they
used.

Nothing here is silicon. The committed suites are Triton's; CuTe DSL's are compiled where it is installed and never
kept.
"""

import dataclasses
import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hand import FUNCTORS
from places import ROOT
from smemsim import InstrDescriptor, Severity, SmemDescriptor, TraceError, Unmodelled, operand_addresses
from smemsim.evidence import find_suites, load_suite, replay_suite
from smemsim.evidence.kinds.compiled import INPUTS, NOWHERE, LinearLayout
from smemsim.evidence.replay import compared_cases
from strategies import examples, is_night
from tools.witnesses import cute_kernels, fold

GOLDEN = ROOT / "golden" / "compiled"
SUITES = {folder.name: load_suite(folder) for folder in find_suites(GOLDEN)}
A, B, IDESC, D, ENABLE, SCALE_A, SCALE_B = range(7)  # columns of `mma`


def changed(suite, case, array, change):
    """The suite with one array of one case changed; `change` gets that part of a copy."""
    copy = suite.arrays[array].copy()
    start = suite.arrays.get(f"{array}_start")
    change(copy[case] if start is None else copy[start[case] : start[case + 1]])
    return replay_suite(dataclasses.replace(suite, arrays={**suite.arrays, array: copy}), case=case)


def flipped(suite, case, site, column, bit):
    def flip(mma):
        mma[site, column] ^= np.uint64(1 << bit)

    return changed(suite, case, "mma", flip)


def column(name):
    return np.concatenate([suite.arrays[name] for suite in SUITES.values()])


# ---- the witnesses -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUITES)
def test_every_compiled_word_addresses_the_compilers_layout(name):
    suite = SUITES[name]
    if not is_night():
        some = [*compared_cases(suite, range(1, len(suite), 3))]
        assert [case for case, found in some if found.outcome.differing] == []
        assert sum(found.outcome.compared for _, found in some) > 10_000 * len(some)
        return
    report = replay_suite(suite)
    assert report.same, report.text()
    assert report.compared > 10_000 * report.cases
    assert f"{name} [sm_100a, compiled by triton 3.9.0, not hardware]" in report.text()
    assert f"{report.text()}\n" in (ROOT / "docs" / "commands" / "replay.md").read_text()


def test_nothing_compiled_claims_a_device():
    for suite in SUITES.values():
        assert suite.manifest["device"]["gpu"].startswith("none")
        assert "MIT" in suite.manifest["source"]["licence"]
        assert "cute" not in str(suite.manifest).lower()


def test_there_are_many_kernels_and_none_twice():
    assert set(SUITES) == {"triton_mma", "triton_mma_pair", "triton_mma_tmem", "triton_mma_scaled"}
    names = column("name")
    assert len(set(names.tolist())) == len(names) >= 380
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in column("ptx_sha256"))
    assert sum(p.stat().st_size for p in GOLDEN.rglob("*")) < 500_000


def test_the_witnesses_cover_types_shapes_layouts_and_groups():
    types = set(zip(column("a_type").tolist(), column("b_type").tolist(), column("d_type").tolist(), strict=True))
    assert types >= {("f16", "f16", "f16"), ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("s8", "s8", "s32")}
    assert types >= {
        ("e4m3", "e5m2", "f32"),
        ("e5m2", "e4m3", "f16"),
        ("e2m1", "e2m1", "f32"),
        ("e2m1", "e5m2", "f32"),
        ("f16", "bf16", "f32"),
    }
    group, (m, n) = column("cta_group"), column("instruction").T
    assert {(g, x) for g, x in zip(group.tolist(), m.tolist(), strict=True)} == {(1, 64), (1, 128), (2, 128), (2, 256)}
    assert set(n[group == 1].tolist()) == {8, 16, 32, 64, 128, 256}
    assert set(n[group == 2].tolist()) >= {32, 64, 128, 256}
    tile_m, tile_n, tile_k = column("tile").T
    assert (tile_m > m).any()  # several MMAs along M
    assert (tile_n > n).any()
    assert {16, 32, 64, 128, 256} <= set(tile_k.tolist())
    in_tmem = column("a_in_tmem") == 1
    assert set(zip(group[in_tmem].tolist(), m[in_tmem].tolist(), strict=True)) == {(1, 64), (1, 128), (2, 256)}
    assert set(zip(column("scale_type").tolist(), column("scale_block").tolist(), strict=True)) == {("", 0), ("ue8m0", 32), ("ue4m3", 16)}


def sites():
    """(suite, case, site, mnemonic, words) of every MMA."""
    for suite in SUITES.values():
        for case in range(len(suite)):
            for site, (words, text) in enumerate(zip(suite.ragged("mma", case), suite.ragged("mnemonic", case), strict=True)):
                yield suite, case, site, str(text), [int(word) for word in words]


def decoded(text, words):
    kind = re.search(r"kind::(\w+)", text).group(1)
    return kind, InstrDescriptor.decode(words[IDESC], kind=kind)


def test_every_swizzle_is_seen_with_both_majors_of_both_operands_and_in_pairs():
    seen, kinds, ids = set(), set(), set()
    for suite, case, _, text, words in sites():
        kind, idesc = decoded(text, words)
        kinds.add(kind)
        ids |= {(kind, idesc.a_sf_id), (kind, idesc.b_sf_id)}
        in_tmem = suite.arrays["a_in_tmem"][case]
        for side, word, major in (("A", words[A], idesc.a_major), ("B", words[B], idesc.b_major)):
            if side == "B" or not in_tmem:
                mode = str(SmemDescriptor.decode(word, arch="sm_100a").swizzle)
                seen.add((kind, side, major, mode, int(suite.arrays["cta_group"][case])))
    modes = ("none", "32B", "64B", "128B")
    assert seen >= {(k, s, m, w, 1) for k in ("f16", "f8f6f4", "i8") for s in "AB" for m in ("K", "MN") for w in modes}
    assert seen >= {("tf32", s, "K", w, 1) for s in "AB" for w in modes}
    assert seen >= {("f16", s, m, w, 2) for s in "AB" for m in ("K", "MN") for w in modes}
    assert seen >= {(k, s, "K", w, g) for k in ("mxf8f6f4", "mxf4") for s in "AB" for w in ("none", "32B", "64B", "128B") for g in (1, 2)}
    assert kinds == {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"}
    assert ids >= {("mxf8f6f4", i) for i in range(4)} | {("mxf4", 0), ("mxf4", 2), ("mxf4nvf4", 0)}


def test_padded_e2m1_is_seen_in_both_majors():
    seen = set()
    for suite, case, _, text, words in sites():
        types = [str(suite.arrays[f"{side}_type"][case]) for side in "ab"]
        kind, idesc = decoded(text, words)
        if kind == "mxf8f6f4" and not suite.arrays["a_in_tmem"][case]:
            seen |= {
                (side, major) for side, dtype, major in zip("AB", types, (idesc.a_major, idesc.b_major), strict=True) if dtype == "e2m1"
            }
    assert seen == {(side, major) for side in "AB" for major in ("K", "MN")}


def test_what_triton_emits_is_not_found_wrong():
    """No finding says that an operand would trap or be read wrong; Triton's stray base_offset in none mode is told as
    harmless.
    """
    stray, asked = 0, set()
    for suite, case, site, text, words in sites():
        kind, idesc = decoded(text, words)
        group = int(suite.arrays["cta_group"][case])
        asked.add((kind, idesc.word, group))
        for side, word, major, rows in (("a", words[A], idesc.a_major, idesc.m), ("b", words[B], idesc.b_major, idesc.n)):
            if side == "b" or not suite.arrays["a_in_tmem"][case]:
                d = SmemDescriptor.decode(word, arch="sm_100a")
                stray += d.base_offset != 0
                assert d.base_offset == 0 or str(d.swizzle) == "none"
                if site in (0, 3):
                    # the same place in a pattern; folded words begin at 0
                    at = d.advance(1024 - d.start_address // 1024 * 1024).encode()
                    packing = "padded" if "f8f6f4" in kind else "packed"
                    asked.add((at, str(suite.arrays[f"{side}_type"][case]), major, rows // group, idesc.k, packing))
    for first, second, *rest in asked:
        if isinstance(first, str):
            found = InstrDescriptor.decode(second, kind=first).problems(cta_group=rest[0], arch="sm_100a")
        else:
            major, rows, k, packing = rest
            d = SmemDescriptor.decode(first, arch="sm_100a")
            found = d.problems(dtype=second, major=major, rows=rows, k=k, packing=packing)
        severe = [f for f in found if f.severity in (Severity.TRAP, Severity.WRONG)]
        assert not severe, (first, second, rest, severe)
    assert stray > 0


# ---- a replay can fail ---------------------------------------------------------------------------------------------------------------


def addresses(suite, case, word, operand, idesc):
    fmt = str(suite.arrays[f"{'ab'[operand]}_type"][case])
    major, rows = ((idesc.a_major, idesc.m), (idesc.b_major, idesc.n))[operand]
    packing = "padded" if "f8f6f4" in idesc.kind else "packed"
    rows //= int(suite.arrays["cta_group"][case])
    return operand_addresses(word, arch="sm_100a", dtype=fmt, major=major, rows=rows, k=idesc.k, packing=packing)


PICKED = [
    ("triton_mma", "bf16_bf16_f32_64x64x64_by_64x64_AMN64_BK64_cg1"),
    ("triton_mma", "e4m3_e4m3_f32_128x128x128_by_128x128_AK0+mn_BK0+mn_cg1"),
    ("triton_mma_pair", "bf16_bf16_f32_256x128x64_by_256x128_AK128_BMN128_cg2"),
    ("triton_mma_scaled", "e4m3_e2m1_f32_ue8m0_block32_128x128x128_by_128x128_AK128_BK128_cg1"),
]


@pytest.mark.parametrize(("suite", "name"), PICKED if is_night() else PICKED[::2])
def test_a_flipped_bit_differs_exactly_when_it_moves_an_address(suite, name):
    suite = SUITES[suite]
    case = suite.arrays["name"].tolist().index(name)
    [*_, site] = range(len(suite.ragged("mma", case)))
    words = [int(word) for word in suite.ragged("mma", case)[site]]
    _, idesc = decoded(str(suite.ragged("mnemonic", case)[site]), words)
    told = {}
    for operand in (A, B):
        straight = addresses(suite, case, words[operand], operand, idesc)
        for bit in range(64):
            try:
                moves = (addresses(suite, case, words[operand] ^ 1 << bit, operand, idesc) != straight).any()
            except Unmodelled:
                moves = True  # nobody knows where it reads
            told[operand, bit] = moves
            assert flipped(suite, case, site, operand, bit).same == (not moves), (operand, bit)
        for bits in (range(14), range(32, 46), range(61, 64)):  # start, SBO, layout: always in use
            assert all(told[operand, bit] for bit in bits)
        assert not any(told[operand, bit] for bit in (14, 15, 30, 31, 46, 47, 48, *range(53, 61)))
    for bit in range(32):
        assert not flipped(suite, case, site, IDESC, bit).same, bit


every_site = st.sampled_from([(suite.name, case) for suite in SUITES.values() for case in range(len(suite))]).flatmap(
    lambda at: st.tuples(st.just(at[0]), st.just(at[1]), st.integers(0, len(SUITES[at[0]].ragged("mma", at[1])) - 1))
)


@examples(60)
@given(at=every_site, side=st.sampled_from([A, B]), bit=st.sampled_from([*range(14), *range(61, 64)]))
def test_no_start_and_no_layout_can_be_wrong_unnoticed(at, side, bit):
    name, case, site = at
    if side == A and SUITES[name].arrays["a_in_tmem"][case]:
        bit %= 9  # a column of tensor memory
    report = flipped(SUITES[name], case, site, side, bit)
    assert not report.same
    if report.differences:
        assert "compiler" in report.text()
        assert "model" in report.text()


@examples(60)
@given(at=every_site, bit=st.integers(0, 31))
def test_no_bit_of_an_instruction_descriptor_can_be_wrong_unnoticed(at, bit):
    assert not flipped(SUITES[at[0]], at[1], at[2], IDESC, bit).same


@examples(40)
@given(at=every_site, bit=st.integers(0, 8))
def test_no_accumulator_can_be_elsewhere_unnoticed(at, bit):
    assert not flipped(SUITES[at[0]], at[1], at[2], D, bit).same


def is_told(suite, case, name, change):
    """Is a change of what the compiler said a difference, or nothing that a compiler can say?"""
    try:
        return not changed(suite, case, name, change).same
    except TraceError:
        return True


@examples(30)
@given(data=st.data())
def test_the_compilers_side_is_compared_too(data):
    """Another basis in a layout, or a buffer elsewhere: the words no longer address it."""
    suite = SUITES[data.draw(st.sampled_from(sorted(SUITES)))]
    case = data.draw(st.integers(0, len(suite) - 1))
    rows = suite.ragged("layout", case)
    used = [i for i in range(len(rows)) if rows[i, 2:].any()]
    row, bit = data.draw(st.sampled_from(used)), data.draw(st.sampled_from([0, 1]))

    def swap(layout):
        layout[row, 2 + bit] ^= 1

    assert is_told(suite, case, "layout", swap)
    present = np.flatnonzero(suite.arrays["base"][case] >= 0).tolist()
    buffer = data.draw(st.sampled_from(present))

    def move(base):
        base[buffer] += 16

    assert is_told(suite, case, "base", move)


def test_an_mma_too_few_or_in_another_place_is_told():
    suite = SUITES["triton_mma"]
    arrays = dict(suite.arrays)
    keep = np.delete(np.arange(len(arrays["mma"])), 3)  # the last MMA of the first kernel
    start = arrays["mma_start"] - (np.arange(len(suite) + 1) > 0)
    arrays |= {"mma": arrays["mma"][keep], "mnemonic": arrays["mnemonic"][keep], "mma_start": start, "mnemonic_start": start}
    report = replay_suite(dataclasses.replace(suite, arrays=arrays), case=0)
    assert not report.same
    assert "needed 1 times | multiplied 0 times" in report.text()
    report = changed(suite, 0, "mma", lambda mma: mma.__setitem__((slice(None), A), mma[::-1, A]))
    assert "compiler has it at" in report.text()
    report = changed(suite, 0, "mma", lambda mma: mma.__setitem__((0, ENABLE), 1))
    assert "enable_input_d: compiled for 0 | model decodes 1" in report.text()


def test_scale_factors_and_their_copies_can_be_wrong():
    suite = SUITES["triton_mma_scaled"]
    for case in range(0, len(suite), 12):
        for scale in (SCALE_A, SCALE_B):
            assert "scales of" in flipped(suite, case, 0, scale, 1).text()
        for field, bits in ((0, (0, 5, 33)), (1, (0, 2))):  # start and SBO of the descriptor; the column it goes to
            for bit in bits:

                def flip(cp, field=field, bit=bit):
                    cp[0, field] ^= np.uint64(1 << bit)

                assert not changed(suite, case, "cp", flip).same, (case, field, bit)


def test_a_kernel_that_says_another_shape_type_or_group_is_told():
    suite = SUITES["triton_mma"]
    for array, value, told in (("instruction", [64, 128], "m: compiled for 64"), ("a_type", "f16", "a_type: compiled for f16"),
                               ("cta_group", 2, "cta_group: compiled for 2"), ("saturate", 1, "saturate: compiled for True")):  # fmt: skip
        arrays = {**suite.arrays, array: suite.arrays[array].copy()}
        arrays[array][0] = value
        assert told in replay_suite(dataclasses.replace(suite, arrays=arrays), case=0).text()


# ---- linear layouts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [128, 64, 32])
def test_tritons_swizzled_layouts_are_the_hardwares_swizzle(width):
    suite = SUITES["triton_mma"]
    case = suite.arrays["name"].tolist().index(f"bf16_bf16_f32_128x128x64_by_128x128_AK{width}_BK{width}_cg1")
    rows = suite.ragged("layout", case)
    layout = LinearLayout(rows[rows[:, 0] == 0, 1:])
    row, k = np.indices((128, 64))
    slabs = 2 * k // width * 128 * width + row * width + 2 * k % width
    np.testing.assert_array_equal(2 * layout.offsets[0], FUNCTORS[f"{width}B"](slabs))


@examples(50)
@given(data=st.data())
def test_offsets_are_the_inverse_of_coordinates(data):
    suite = SUITES[data.draw(st.sampled_from(sorted(SUITES)))]
    case = data.draw(st.integers(0, len(suite) - 1))
    rows = suite.ragged("layout", case)
    shared = [i for i in np.unique(rows[:, 0]).tolist() if (rows[rows[:, 0] == i, 1] == INPUTS["offset"]).any()]
    which = data.draw(st.sampled_from(shared))
    layout = LinearLayout(rows[rows[:, 0] == which, 1:])
    for cta, offsets in enumerate(layout.offsets):
        held = offsets != NOWHERE
        assert held.any()
        np.testing.assert_array_equal(layout.coordinates(cta, offset=offsets[held]), np.argwhere(held))
    assert (layout.offsets != NOWHERE).any(0).all()  # every element is somewhere
    outside = np.array([-1, len(layout.tables["offset"])])
    assert (layout.coordinates(0, offset=outside) == NOWHERE).all()


# ---- the folder ----------------------------------------------------------------------------------------------------------------------

MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r1], {a}, %rd2, 66, 1;"


def folded(text, known=None):
    """What %r0 (or %rd0) is when a copy reads it."""
    register = "%rd0" if "%rd0" in text else "%r0"
    [site] = fold.fold(f".shared .align 16 .b8 smem[64]; {text} tcgen05.cp.cta_group::1.128x256b [{register}], 5;", known)
    assert site.descriptor == 5
    return site.taddr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mov.b32 %r0, smem;", 0), ("mov.u32 %r0, 0x10;", 16), ("mov.b32 %r0, -1;", 0xFFFFFFFF), ("mov.b32 %r1, smem; add.s32 %r0, %r1, 48;", 48),
        ("add.s32 %r0, 5, -7;", 0xFFFFFFFE), ("sub.s32 %r0, 5, 7;", 0xFFFFFFFE), ("mul.lo.s32 %r0, 70000, 70000;", 70000 * 70000 & 0xFFFFFFFF),
        ("mul.wide.u32 %rd0, 0xFFFFFFFF, 2;", 0x1FFFFFFFE), ("mul.wide.s32 %rd0, -1, 2;", (1 << 64) - 2), ("mad.lo.s32 %r0, 3, 4, 5;", 17),
        ("mad.wide.u32 %rd0, 3, 4, 0x100000000;", 0x10000000C), ("mul.hi.u32 %r0, 0x80000000, 4;", 2),
        ("and.b32 %r0, 12, 10;", 8), ("or.b32 %r0, 12, 10;", 14), ("xor.b32 %r0, 12, 10;", 6), ("not.b32 %r0, 0;", 0xFFFFFFFF),
        ("shl.b32 %r0, 3, 31;", 0x80000000), ("shl.b32 %r0, 3, 32;", 0), ("shr.u32 %r0, 0x80000000, 31;", 1), ("shr.s32 %r0, 0x80000000, 31;", 0xFFFFFFFF),
        ("bfe.u32 %r0, 0xABCD1234, 4, 15;", 0xABCD1234 >> 4 & 0x7FFF), ("bfe.s32 %r0, 0xF0, 4, 4;", 0xFFFFFFFF), ("bfe.u32 %r0, 5, 0, 0;", 0),
        ("bfi.b32 %r0, 0x3, 0xFFFF0000, 4, 8;", 0xFFFF0030), ("bfi.b64 %rd0, 1, 0, 46, 14;", 1 << 46),
        ("shf.l.wrap.b32 %r0, 0x80000000, 1, 1;", 3), ("shf.r.wrap.b32 %r0, 0, 1, 1;", 0x80000000),
        ("lop3.b32 %r0, 12, 10, 6, 0x80;", 12 & 10 & 6), ("lop3.b32 %r0, 12, 10, 6, 0xFE;", 14), ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x7531;", 0x77553311),
        ("mov.b64 %rd0, {7, 9};", 9 << 32 | 7), ("mov.b64 %rd9, 0x900000007; mov.b64 {%r0, %r2}, %rd9;", 7), ("mov.b64 %rd9, 0x900000007; mov.b64 {_, %r0}, %rd9;", 9),
        ("cvt.u64.u32 %rd0, -1;", 0xFFFFFFFF), ("cvt.s64.s32 %rd0, -1;", (1 << 64) - 1), ("cvt.u32.u64 %r0, 0x100000005;", 5),
        ("setp.lt.s32 %p1, -1, 0; selp.b32 %r0, 5, 6, %p1;", 5), ("setp.lt.u32 %p1, -1, 0; selp.b32 %r0, 5, 6, %p1;", 6),
        ("setp.ne.b16 %p1, 0x10000, 0; selp.b32 %r0, 5, 6, %p1;", 6), ("selp.b32 %r0, 5, 5, %p9;", 5), ("shfl.sync.idx.b32 %r0, 7, 0, 31, -1;", 7),
        ("min.s32 %r0, -1, 3;", 0xFFFFFFFF), ("max.u32 %r0, -1, 3;", 0xFFFFFFFF), ("popc.b32 %r0, 7;", 3), ("clz.b32 %r0, 1;", 31),
        ("and.b32 %r0, %r7, 0;", 0), ("mov.pred %p1, -1; @%p1 mov.b32 %r0, 4;", 4), ("mov.pred %p1, -1; mov.b32 %r0, 3; @!%p1 add.s32 %r1, 4, 4;", 3),
        ("tcgen05.wait::ld.sync.aligned; mov.b32 %r0, 1; // mov.b32 %r0, 2;\n", 1), ("$L1: mov.b32 %r0, 8;", 8), ("\n.loc 1 5 0\n mov.b32 %r0, 8;", 8),
    ],
)  # fmt: skip
def test_known_values_fold_at_their_width(text, value):
    if text.startswith("tcgen05"):
        assert fold.fold(text + "tcgen05.cp.cta_group::1.128x256b [%r0], 5;")[-1].taddr == value
    else:
        assert folded(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 %r0, %tid.x;", "ld.param.b32 %r0, [p];", "ld.shared.b32 %r0, [smem];", "add.s32 %r0, %r7, 1;", "or.b32 %r0, %r7, 1;",
        "selp.b32 %r0, 5, 6, %p9;", "@%p9 mov.b32 %r0, 4;", "mov.b32 %r0, 1; mov.b32 %r0, 2;", "add.f32 %r0, 1, 2;", "add.cc.u32 %r0, 1, 2;",
        "cvt.rn.f32.u32 %r0, 1;", "cvta.shared.u64 %rd0, smem;", "frobnicate.b32 %r0, 1, 2;", "elect.sync %r0|%p1, -1;", "mov.b64 %rd0, {7, %r9};",
        "setp.lt.f32 %p1, 1, 2; selp.b32 %r0, 5, 6, %p1;", "prmt.b32.f4e %r0, 1, 2, 3;", "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r3];",
        "mov.b32 %r0, 0; $L1: add.s32 %r0, %r0, 1; bra $L1;", "atom.shared.add.u32 %r0, [smem], 1;",
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_guessed(text):
    sites = fold.fold(
        f".shared .align 16 .b8 smem[64]; {text} tcgen05.cp.cta_group::1.128x256b [{'%rd0' if '%rd0' in text else '%r0'}], 5;"
    )
    assert sites[-1].taddr is None


def test_a_register_that_is_joined_is_known_where_all_definitions_agree():
    assert folded("@%p1 bra $L1; mov.b32 %r0, 3; bra $L2; $L1: mov.b32 %r0, 3; $L2: mov.b32 %r5, 0;") == 3
    assert folded("mov.b32 %r0, %cluster_ctarank;", {"%cluster_ctarank": 0}) == 0


def test_an_inner_blocks_registers_are_its_own():
    text = "{ .reg .pred p; setp.eq.b32 p, 1, 1; @p mov.b32 %r0, 3; } { .reg .pred p; setp.eq.b32 p, 1, 2; @p mov.b32 %r4, 3; }"
    assert folded(text) == 3
    entry = (
        f".visible .entry k(.param .u64 a) .reqntid 128 {{ .reg .b32 %r<9>; {text} tcgen05.cp.cta_group::1.128x256b [%r0], [%r4]; ret; }}"
    )
    assert fold.fold(entry)[0].taddr == 3


def test_tensor_memory_is_allocated_at_0_and_read_back_from_where_alloc_wrote_it():
    head = ".shared .b8 s[64]; mov.b32 %r1, s; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+16], 128;"
    *_, right = fold.fold(head + "ld.shared.b32 %r0, [%r1+16]; tcgen05.cp.cta_group::1.4x256b [%r0+8], 5;")
    *_, wrong = fold.fold(head + "ld.shared.b32 %r0, [%r1+20]; tcgen05.cp.cta_group::1.4x256b [%r0+8], 5;")
    assert (right.taddr, wrong.taddr) == (8, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16 [ 8 + 0 ], 1, 2, 3, 0", {"d": 8, "a": 1, "b": 2, "idesc": 3, "enable_input_d": 0}),
        ("tcgen05.mma.cta_group::2.kind::tf32 [8], [16], 2, 3, {1, 1, 1, 1, 1, 1, 1, 1}, 1", {"a": 16, "a_in_tmem": True, "idesc": 3, "enable_input_d": 1}),
        ("tcgen05.mma.cta_group::1.kind::f16 [8], 1, 2, 3, 1, 4", {"idesc": 3, "enable_input_d": 1}),
        ("tcgen05.mma.sp.cta_group::1.kind::i8 [8], 1, 2, [9], 3, 1", {"metadata": 9, "idesc": 3, "enable_input_d": 1, "sparse": True}),
        ("tcgen05.mma.ws.cta_group::1.kind::f16 [8], 1, 2, 3, 1, 77", {"ws": True, "idesc": 3, "enable_input_d": 1}),
        ("tcgen05.mma.ws.sp.cta_group::1.kind::f16 [8], [1], 2, [9], 3, 1", {"ws": True, "sparse": True, "a_in_tmem": True, "idesc": 3}),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [8], 1, 2, 3, [4], [5], 1", {"scale_a": 4, "scale_b": 5, "enable_input_d": 1, "block_scale": True}),
        ("tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [8], 1, 2, [9], 3, [4], [5], 1", {"metadata": 9, "idesc": 3, "scale_b": 5, "kind": "mxf4nvf4"}),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [8], 1, 2, 3, 1", {"guard": None, "kind": "f16", "cta_group": 1}),
    ],
)  # fmt: skip
def test_every_form_of_mma_gives_its_operands(text, expected):
    [site] = fold.fold(f"{text};")
    assert {name: getattr(site, name) for name in expected} == expected


def test_copies_loads_stores_and_allocations_are_collected():
    sites = fold.fold(
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [0], 128; tcgen05.cp.cta_group::1.warpx4.32x128b [4], 9;"
        "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [4], 9; tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [7 + 2];"
        "tcgen05.st.sync.aligned.16x64b.x1.b32 [3], {5}; tcgen05.dealloc.cta_group::2.sync.aligned.b32 4, 128;"
    )
    assert [s.mnemonic.split(".")[1] for s in sites] == ["alloc", "cp", "cp", "ld", "st", "dealloc"]
    assert [s.shape for s in sites[1:3]] == ["32x128b", "128x256b"]
    assert sites[0].operands == ((0,), (128,))
    assert sites[3].operands[1] == (9,)
    assert sites[4].operands == ((3,), (5,))


# ---- CuTe's layouts ------------------------------------------------------------------------------------------------------------------


def test_cutes_layouts_become_bases_that_say_the_same():
    text = "S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))"  # 128B K-major, K = 128
    at, place = cute_kernels.evaluate(text, 16)
    layout = LinearLayout(np.array(cute_kernels.bases(text, 16, {0: (2, 1 << 18)})))
    np.testing.assert_array_equal(layout.coordinates(0, offset=at // 2), place)
    row, k = place.T
    np.testing.assert_array_equal(at, FUNCTORS["128B"](k // 64 * 16384 + row * 128 + 2 * (k % 64)))
    with pytest.raises(ValueError, match="not linear"):
        cute_kernels.bases("((4,3),1,1):((3,1),0,0)", 16, {0: (2, 1 << 18)})


# ---- the compilers, where they are installed -----------------------------------------------------------------------------------------


def regenerated(*names):
    command = [sys.executable, "-m", "tools.witnesses.regenerate", "--check", "--only", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def test_triton_still_emits_what_is_committed():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed (extra: oracles)")
    names = [str(suite.arrays["name"][case]) for suite in SUITES.values() for case in range(0, len(suite), len(suite) // 3)]
    told = regenerated(*names)
    for suite in SUITES:
        assert f"{suite}: as committed" in told


def test_cute_dsls_words_address_its_layouts():
    if importlib.util.find_spec("cutlass") is None:
        pytest.skip("nvidia-cutlass-dsl is not installed (extra: oracles)")
    names = [
        "bf16_128x128x64_AK_SW128_BK_SW128_cg1",
        "tf32_128x128x32_AMN_SW128_32B_BMN_SW128_32B_cg1",
        "e4m3_128x128x128_AMN_SW64_BMN_SW64_cg1",
        "bf16_256x128x64_AK_SW128_BMN_SW128_cg2",
    ]
    told = regenerated(*names)
    assert re.search(r"cute_dsl \[sm_100a, compiled by CuTe DSL .*, not hardware\]: 4 cases, .* no difference", told)
