"""Planted faults: run by TMA and wgmma of the model, told from D, A and B alone."""

import itertools
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import hand
import smemsim
from smemsim import (
    GlobalMemory,
    InputError,
    SharedMemory,
    SmemDescriptor,
    TensorMap,
    Unmodelled,
    explain_product,
    from_float64,
    to_float64,
    wgmma,
    wgmma_registers,
)
from smemsim.cli import main
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.diagnosis.descriptors.shapes import Shape
from smemsim.diagnosis.pointers import pointer_faults
from smemsim.diagnosis.product import Tile, element_bits, faults_of, pattern
from strategies import is_night

SIZES = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "s8": 1}
MAPS = {1: "u8", 2: "u16", 4: "u32"}
AT, ROWS = {"a": 0x4000, "b": 0x10000}, {"a": 128, "b": 32}
PANELS, STEPS = 2, 4  # panels of 128 B of K, steps in each


def matrices(dtype, seed=0):
    rng, k = np.random.default_rng(seed), PANELS * 128 // SIZES[dtype]
    if dtype == "s8":
        return {side: rng.integers(0, 256, (rows, k)).astype(np.uint8) for side, rows in ROWS.items()}
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32}[SIZES[dtype]]
    return {side: from_float64(rng.standard_normal((rows, k)), dtype).astype(bits) for side, rows in ROWS.items()}


def words(side, *, swizzle="128B", sbo=1024, base=0):
    """(blocks of 64 rows, K steps)."""
    count = -(-ROWS[side] // 64)
    start = [
        [AT[side] + 8192 * block + panel * 128 * ROWS[side] + 32 * step for panel in range(PANELS) for step in range(STEPS)]
        for block in range(count)
    ]
    return np.array([[hand.word("sm_90a", swizzle, start=at, lbo=16, sbo=sbo) | base << 49 for at in row] for row in start], np.uint64)


def run(dtype, given, *, writers=("128B", "128B"), panels=(0, 1), a=None, b=None):
    """D of the whole tile, from boxes of one panel each."""
    size, world, shared = SIZES[dtype], GlobalMemory(), SharedMemory()
    for side, writer in zip("ab", writers, strict=True):
        rows, wide = ROWS[side], 128 // size
        tm = TensorMap.tiled(
            data_type=MAPS[size], global_address=world.place(given[side]), global_dim=(PANELS * wide, rows), global_strides=(PANELS * 128,),
            box_dim=(wide if writer in ("128B", "none") else wide // 2, rows), swizzle=writer,
        )  # fmt: skip
        for panel in panels if side == "a" else (0, 1):
            shared.tma_load(tm, (panel * wide, 0), smem_address=AT[side] + panel * 128 * rows, source=world)
    of_a, of_b = words("a") if a is None else a, words("b") if b is None else b
    found = []
    for block in range(2):
        d = None
        for step in range(PANELS * STEPS):
            result = wgmma(
                shared, of_a[block, step], of_b[0, step], n=ROWS["b"], a_type=dtype, d_type="s32" if dtype == "s8" else "f32", d=d
            )
            d = wgmma_registers(result)
        found.append(result.d)
    return np.concatenate(found)


def told(dtype, d, given, **more):
    return explain_product(d, given["a"], given["b"], arch="sm_90a", a_type=dtype, d_type="s32" if dtype == "s8" else "f32", **more)


def straight(side):
    """No jump to the next panel."""
    own = words(side)
    return own[:, :1] + np.arange(PANELS * STEPS, dtype=np.uint64) * np.uint64(2)


def again(side, step):
    own = words(side)
    own[:, step] = own[:, step - 1]
    return own


FAULTS = {
    "writer none": ({"writers": ("none", "128B")}, "A", "swizzle of the writer", "written with swizzle none and read with 128B"),
    "writer of b": ({"writers": ("128B", "none")}, "B", "swizzle of the writer", "written with swizzle none and read with 128B"),
    "both writers": ({"writers": ("none", "none")}, "A and B", "swizzle of the writer", "written with swizzle none and read with 128B"),
    "base offset": ({"a": words("a", base=3)}, "A", "base_offset", "base offset 3"),
    "base offset of b": ({"b": words("b", base=5)}, "B", "base_offset", "base offset 5"),
    "layout code": ({"a": words("a", swizzle="64B")}, "A", "layout_type", "swizzle 64B where they lie in 128B"),
    "layout code of b": ({"b": words("b", swizzle="32B", sbo=256)}, "B", "layout_type", "swizzle 32B where they lie in 128B (SBO 256 B)"),
    "sbo halved": ({"a": words("a", sbo=512)}, "A", "stride_byte_offset", "SBO 512 B instead of 1024 B"),
    "sbo zero": ({"b": words("b", sbo=0)}, "B", "stride_byte_offset", "SBO 0 B instead of 1024 B"),
    "sbo shifted twice": ({"a": words("a", sbo=64)}, "A", "stride_byte_offset", "shifted right twice"),
    "no advance": ({"a": np.repeat(words("a")[:, :1], 8, axis=1)}, "A", "start_address", "advance not at all"),
    "no panel jump": ({"a": straight("a")}, "A", "start_address", "without the jump to the next panel"),
    "no panel jump of b": ({"b": straight("b")}, "B", "start_address", "without the jump to the next panel"),
    "a step again": ({"b": again("b", 3)}, "B", "start_address", "read in K step 3 as in step 2"),
    "one block": ({"a": np.repeat(words("a")[:1], 2, axis=0)}, "A", "start_address", "blocks of rows all the same"),
    "half a box": ({"panels": (0,)}, "A", "the writer's box", "without the second half of its K, which is 0"),
}


@pytest.mark.parametrize("dtype", SIZES)
def test_planted_faults_are_named(dtype):
    """Every fault with one of the types."""
    given, number = matrices(dtype), list(SIZES).index(dtype)
    right = run(dtype, given)
    assert told(dtype, right, given).looks_like == "the same"
    some = list(FAULTS.items())[number::5]
    for name, (changed, operand, field, text) in some:
        d = run(dtype, given, **changed)
        found = told(dtype, d, given)
        assert found.looks_like == "a wrong layout", (name, str(found))
        assert any((one.operand, one.field) == (operand, field) and text in one.text and one.certain for one in found.faults), (
            name,
            str(found),
        )
        assert 0 < found.wrong <= (d != right).sum()
        both = {"A", "B"} if name == "half a box" else {operand}  # without half of K, A and B are the same zeros
        assert {one.operand for one in found.faults} == both, (name, str(found))


def test_a_swizzle_that_no_descriptor_has_is_told_as_its_xor():
    rng = np.random.default_rng(4)
    given = {side: from_float64(rng.standard_normal((64, 64)), "bf16") for side in "ab"}
    key = np.array([0, 3, 1, 2, 7, 4, 6, 5])
    read = given["a"].reshape(64, 8, 8)[np.arange(64)[:, None], np.arange(8) ^ key[np.arange(64) % 8][:, None]].reshape(64, 64)
    d = (to_float64(read, "bf16") @ to_float64(given["b"], "bf16").T).astype(np.float32)
    (found,) = told("bf16", d, given).faults
    assert (found.operand, found.field) == ("A", "swizzle")
    assert "c ^ [0, 3, 1, 2, 7, 4, 6, 5][row % 8]" in found.text


def test_an_xor_that_is_another_in_every_eight_rows_is_no_swizzle():
    rng = np.random.default_rng(4)
    given = {side: from_float64(rng.standard_normal((64, 64)), "bf16") for side in "ab"}
    key = np.array([0, 3, 1, 2, 7, 4, 6, 5])[(np.arange(64) + np.arange(64) // 8) % 8]
    read = given["a"].reshape(64, 8, 8)[np.arange(64)[:, None], np.arange(8) ^ key[:, None]].reshape(64, 64)
    d = (to_float64(read, "bf16") @ to_float64(given["b"], "bf16").T).astype(np.float32)
    said = str(told("bf16", d, given))
    assert "[row % 8]" not in said
    assert "(1, 0) has what belongs in (1, 24)" in said  # row 0 has key 0, row 1 has key 3: chunk 3 begins at k = 24


def of_columns(shared, side, bits, at, width, swizzle):
    """Put a matrix (rows, contiguous) into panels of `width` bytes, one behind the other."""
    world, rows = GlobalMemory(), len(bits)
    tm = TensorMap.tiled(data_type="u16", global_address=world.place(bits), global_dim=bits.shape[::-1], global_strides=(2 * bits.shape[1],),
                         box_dim=(width // 2, rows), swizzle=swizzle)  # fmt: skip
    for panel in range(2 * bits.shape[1] // width):
        shared.tma_load(tm, (panel * width // 2, 0), smem_address=at + panel * rows * width, source=world)


@pytest.mark.parametrize("major", ["K", "MN"])
def test_exchanged_strides_are_named(major):
    """B without swizzle K-major, or 128B MN-major: both use LBO and SBO."""
    rng = np.random.default_rng(5)
    a, b = (from_float64(rng.standard_normal((rows, 64)), "bf16").astype(np.uint16) for rows in (64, 128))
    shared, swizzle = SharedMemory(), "none" if major == "K" else "128B"
    of_columns(shared, "a", a, 0x4000, 128, "128B")
    of_columns(shared, "b", b if major == "K" else np.ascontiguousarray(b.T), 0x10000, 16 if major == "K" else 128, swizzle)
    lbo, sbo, step = (2048, 128, 4096) if major == "K" else (8192, 1024, 2048)

    def product(lbo, sbo):
        d = None
        for i in range(4):
            words = (
                hand.word("sm_90a", "128B", start=0x4000 + 32 * i, sbo=1024),
                hand.word("sm_90a", swizzle, start=0x10000 + step * i, lbo=lbo, sbo=sbo),
            )
            result = wgmma(shared, *words, n=128, a_type="bf16", b_major=major, d=d)
            d = wgmma_registers(result)
        return result.d

    given = {"a": a, "b": b}
    layout = {"b_swizzle": swizzle, "b_major": major}
    assert told("bf16", product(lbo, sbo), given, **layout).looks_like == "the same"
    found = told("bf16", product(sbo, lbo), given, **layout)
    assert any((one.operand, one.field) == ("B", "LBO and SBO") for one in found.faults), str(found)


def test_numbers_instead_of_bits_and_sums_in_another_order():
    """D in float32 as a CPU has it: the fault is seen, but for rounding."""
    given = matrices("bf16")
    values = {side: to_float64(bits, "bf16") for side, bits in given.items()}
    rows, chunks = np.arange(128)[:, None], np.arange(16)
    read = values["a"].reshape(128, 16, 8)[rows, chunks ^ rows % 8].reshape(128, 128)
    found = told("bf16", (read @ values["b"].T).astype(np.float32), values)
    assert [one.text for one in found.faults] == ["written with swizzle none and read with 128B"]
    assert "but for rounding" in found.because[0]
    assert found.pattern.startswith("87.5 % of D is wrong (3584 of 4096): rows 1 to 7 mod 8 are wrong")
    assert found.measured
    other = explain_product(
        (read @ values["b"].T).astype(np.float32), values["a"], values["b"], arch="sm_100a", kind="f16", a_type="bf16", d_type="f32"
    )
    assert [one.text for one in other.faults] == ["written with swizzle none and read with 128B"]
    assert not other.measured


def test_two_wrong_fields_are_solved_for():
    rng = np.random.default_rng(3)
    given = {"a": from_float64(rng.standard_normal((128, 64)), "bf16"), "b": from_float64(rng.standard_normal((128, 64)), "bf16")}
    values = {side: to_float64(bits, "bf16") for side, bits in given.items()}
    # rows 896 B apart by 8, and base offset 2, by the address formula: sum, then the XOR
    row, k = np.arange(128)[:, None], np.arange(64)
    block, own = row // 64, row % 64
    total = block * 8192 + own // 8 * 896 + own % 8 * 128 + 2 * k
    lies = total ^ (((total - 256) >> 7) & 7) << 4
    line, byte = lies // 128, lies % 128
    at = line, (byte ^ (line % 8) << 4) // 2
    d = (values["a"][at] @ values["b"].T).astype(np.float32)
    found = told("bf16", d, given)
    assert [(one.operand, one.field) for one in found.faults] == [("A", "base_offset, stride_byte_offset")]
    assert "SBO 896 instead of 1024" in found.faults[0].text
    shuffled = values["a"].reshape(128, 8, 8)[row, (3 * np.arange(8) + row) % 8].reshape(128, 64)
    found = told("bf16", (shuffled @ values["b"].T).astype(np.float32), given)
    assert [(one.operand, one.field) for one in found.faults] == [("A", "layout")]
    assert "(0, 8) has what belongs in (0, 24)" in found.faults[0].text


def test_what_comes_from_outside_the_tile_is_only_possible():
    given = matrices("bf16")
    d = run("bf16", given, a=words("a", sbo=2048))
    found = told("bf16", d, given)
    assert [(one.operand, one.field, one.certain) for one in found.faults] == [("A", "stride_byte_offset", True)]
    assert found.faults[0].text == "read with SBO 2048 B instead of 1024 B, with 0 where that is outside the tile"
    d[96:] = np.random.default_rng(3).integers(0x3F800000, 0x40000000, (32, 32))  # something else lay there
    found = told("bf16", d, given)
    assert found.looks_like == "unknown"
    assert [(one.operand, one.field, one.explained, one.certain) for one in found.faults] == [("A", "stride_byte_offset", 96 * 32, False)]
    assert found.because[0].startswith("it may be that A was read with SBO 2048 B instead of 1024 B (3072 of 4096 elements")
    assert "rows 0 to 7 mod 64 are right" in found.pattern


@pytest.mark.parametrize("dtype", ["bf16", "s8"])
@pytest.mark.parametrize("kind", ["zeros", "the same", "any bits"])
def test_data_that_say_little_are_no_traceback(dtype, kind):
    """Zeros, constants, infinities and NaNs: whatever is claimed was tried, so that noise is never explained for
    certain.
    """
    rng, k = np.random.default_rng(1), 64 // SIZES[dtype]
    bits = 8 * SIZES[dtype]
    one = {
        "zeros": np.zeros((64, k), np.uint32),
        "the same": np.full((64, k), 0x38 << bits - 8, np.uint32),
        "any bits": rng.integers(0, 1 << bits, (64, k)),
    }
    given = {"a": one[kind].astype(np.uint32), "b": one[kind][:16].astype(np.uint32)}
    noise = rng.integers(0, 1 << 32, (64, 16), np.uint32)
    assert not any(one.certain for one in told(dtype, noise, given).faults)


def test_numbers_of_a_signed_type_reach_to_its_ends():
    """-128 is a number of s8, and -129 and 128 are none."""
    dtype, least, most = "s8", -128, 127
    a = np.full((64, 32), least, np.int64)
    a[::2] = most
    b = np.ones((8, 32), np.int64)
    d = (a @ b.T).astype(np.int32)
    assert explain_product(d, a, b, arch="sm_90a", a_type=dtype, d_type="s32").faults == ()
    for wrong in (least - 1, most + 1):
        with pytest.raises(InputError, match="numbers outside -128"):
            explain_product(d, np.where(a == least, wrong, a), b, arch="sm_90a", a_type=dtype, d_type="s32")


def test_what_no_fault_gives_is_unknown():
    given = matrices("bf16")
    noise = np.random.default_rng(9).standard_normal((128, 32)).astype(np.float32)
    found = told("bf16", noise, given)
    assert found.looks_like == "unknown"
    assert not found.faults


def test_other_causes_are_told_too():
    given = matrices("bf16")
    right = run("bf16", given)
    assert (
        told("bf16", right[np.arange(128) ^ 1], given)
        .because[0]
        .startswith("D is what it would be if D's rows were in other places: row m has what belongs in m ^ 1")
    )
    assert told("bf16", right ^ np.uint32(1 << 31), given).looks_like == "another option"


def squares():
    """A and B of 64 x 64 numbers of bf16."""
    rng = np.random.default_rng(3)
    return [to_float64(from_float64(rng.standard_normal((64, 64)), "bf16"), "bf16") for _ in "ab"]


@pytest.mark.parametrize("turned", ["a", "b", "ab"])
def test_a_square_operand_that_is_given_transposed_is_named(turned):
    a, b = squares()
    d = ((a.T if "a" in turned else a) @ (b if "b" in turned else b.T)).astype(np.float32)
    found = explain_product(d, a, b, arch="sm_90a", a_type="bf16")
    assert found.looks_like == "a wrong layout"
    assert found.because[0].startswith(
        f"D is what it would be if {' and '.join(turned.upper())} {'were' if len(turned) > 1 else 'was'} transposed"
    )


def test_each_operand_that_may_be_the_transposed_one_is_named():
    """Shifts to the left and to the right: D is 1 if either of them is transposed, not if both are."""
    a, b = np.roll(np.eye(64), 1, axis=0), np.roll(np.eye(64), -1, axis=0)
    told = "; ".join(explain_product((a @ b).astype(np.float32), a, b, arch="sm_90a", a_type="bf16").because)
    assert "B was transposed" in told
    assert "A was transposed" in told
    assert "were transposed" not in told


def test_what_rounding_changes_is_not_called_wrong():
    a, b = squares()
    found = explain_product((a @ b.T).astype(np.float32), a, b, arch="sm_90a", a_type="bf16")
    assert found.looks_like == "rounding"
    assert "differs in the last bits" in found.pattern
    assert "wrong" not in found.pattern


def test_numbers_that_are_none_are_told_first():
    a, b = squares()
    d = (a @ b.T).astype(np.float32)
    for where, said in ((slice(None), "all 4096 elements"), (3, "64 of 4096 elements")):
        lost = d.copy()
        lost[where] = np.nan
        found = explain_product(lost, a, b, arch="sm_90a", a_type="bf16")
        assert found.because[0].startswith(f"{said} of D are NaN or infinite")
        assert "e5m2" not in str(found)
    assert "row 3 is wrong, all other rows are right" in found.pattern


ROW, COLUMN = np.arange(32)[:, None], np.arange(16)[None]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ROW % 4 + 0 * COLUMN > 0, "75 % of D is wrong (384 of 512): rows 1 to 3 mod 4 are wrong, all other rows are right"),
        (ROW + 0 * COLUMN >= 8, "75 % of D is wrong (384 of 512): rows 0 to 7 are right, all others wrong"),
        (0 * ROW + COLUMN % 8 > 3, "50 % of D is wrong (256 of 512): columns 0 to 3 mod 8 are right, all others wrong"),
        (ROW % 8 != COLUMN % 8, "87.5 % of D is wrong (448 of 512): elements with row mod 8 == column mod 8 are right, all others wrong"),
        ((ROW == 5) & (COLUMN == 3), "0.1953 % of D is wrong (1 of 512): row 5 is wrong in part, all other rows are right"),
        (ROW + COLUMN < 0, "all of D is right"),
    ],
)  # fmt: skip
def test_patterns_are_said_in_words(wrong, said):
    assert pattern(wrong).startswith(said)


def read_back(text, of):
    """The numbers below `of` that a part of a sentence names."""
    if series := re.fullmatch(r"(\d+), (\d+), (\d+) \.\.\. (\d+)", text):
        one, two, _, last = map(int, series.groups())
        return {*range(one, last + 1, two - one)}
    runs, _, period = text.partition(" mod ")
    ends = [[int(n) for n in part.split(" to ")] for part in runs.split(", ")]
    some = {n for part in ends for n in range(part[0], part[-1] + 1)}
    return {n for n in range(of) if (n % int(period) if period else n) in some}


LINES = {
    "one": np.arange(32) == 5, "all but one": np.arange(32) != 0, "the first": np.arange(32) < 20, "the last": np.arange(32) >= 31,
    "mod 4": np.arange(32) % 4 < 2, "mod 2": np.arange(32) % 2 == 1, "some": np.isin(np.arange(32), [0, 1, 7, 9, 20]),
    "many": np.isin(np.arange(32), [0, 2, 5, 9, 14, 20, 27]), "none": np.zeros(32, bool), "all": np.ones(32, bool),
}  # fmt: skip


@pytest.mark.parametrize("part", [1.0, 0.95, 0.5])
def test_what_is_said_of_a_pattern_is_true(part):
    """Lines that are named have no wrong element, the others have one, and a share of nine tenths is as good as all."""
    chosen = np.random.default_rng(1).permuted(np.arange(1024) < part * 1024).reshape(32, 32)
    for rows, columns in itertools.product(LINES.values(), repeat=2):
        a_sentence_is_true_of(rows[:, None] & columns & chosen)


def a_sentence_is_true_of(wrong):
    share, _, said = pattern(wrong).partition(": ")
    count = int(wrong.sum())
    assert share == (f"{100 * count / 1024:.4g} % of D is wrong ({count} of 1024)" if count else "all of D is right")
    assert pattern(wrong, is_rounding=True) == share.replace("is wrong", "differs in the last bits")
    parts = {"row": wrong, "column": wrong.T}
    told = {what: sentence for sentence in said.split(" and ") for what in parts if re.search(rf"\b{what}s? ", sentence)}
    assert set(told) == {what for what, lines in parts.items() if 0 < lines.any(axis=1).sum() < 32}
    for what, sentence in told.items():
        lines = parts[what]
        bad = {*np.flatnonzero(lines.any(axis=1)).tolist()}
        own = re.fullmatch(
            rf"(?P<n>\d+) of 32 {what}s are right, the first is (?P<first>\d+), (all others wrong|the others are wrong in part)"
            rf"|{what}s? (?P<which>.+) (is|are) (?P<verdict>right|wrong)( in part)?"
            rf", (all others wrong|the others are wrong in part|all other {what}s are right)",
            sentence,
        )
        assert ("in part" in sentence) == (lines[lines.any(axis=1)].mean(axis=1).min() <= 0.9), sentence
        right = {*range(32)} - bad
        if own["n"]:
            assert (int(own["n"]), int(own["first"])) == (len(right), min(right))
        elif not own["which"].endswith("..."):
            some = bad if own["verdict"] == "wrong" else right
            assert read_back(own["which"], 32) == some
            assert f"{what}s {own['which']} are" in sentence or len(some) == 1
        assert (own["verdict"] == "wrong") == (f"all other {what}s are right" in sentence)


@pytest.mark.parametrize("period", [2, 8, 16, 32])
@pytest.mark.parametrize("lost", [0.0, 0.05, 0.5])
def test_elements_that_agree_modulo_a_period_are_told_if_nearly_all_others_are_wrong(period, lost):
    row, column = np.arange(64)[:, None], np.arange(64)[None]
    wrong = (row % period != column % period) & (np.random.default_rng(2).random((64, 64)) >= lost)
    _, _, said = pattern(wrong).partition(": ")
    assert said == f"elements with row mod {period} == column mod {period} are right, all others wrong" * (lost < 0.1)
    wrong[3, 3] = True  # they agree modulo every period
    assert pattern(wrong).count(":") == 0


INTEGERS = [name for name, fmt in FORMATS.items() if not fmt.is_float and 1 < fmt.bits < 64]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_and_bits_of_a_type_are_its_bits(name):
    """Numbers that the type has come back from their bits; others, and what has another type's size, are refused."""
    fmt, size = FORMATS[name], FORMATS[name].bits
    ends = np.array([0, 1, (1 << size - 1) - 1, 1 << size - 1, (1 << size) - 1], dtype=object) % (1 << size)
    codes = np.array([*range(1 << size)] if size <= 8 else ends.tolist(), np.uint64)
    bits = codes.astype(f"u{max(size // 8, 1)}") if size >= 8 else codes.astype(np.uint8)
    assert (element_bits("a", bits, fmt) == codes).all()
    if size < 64:
        with pytest.raises(InputError, match=f"{size} bits"):
            element_bits("a", np.array([1 << size], np.uint64), fmt)
    if size >= 8:
        assert (element_bits("a", bits.view(f"V{size // 8}"), fmt) == codes).all()
    for other in (1, 2, 3, 4, 6, 8, 16):
        void = np.zeros(3, f"V{other}")
        if other * 8 < size or other not in (1, 2, 4, 8):
            with pytest.raises(InputError, match=f"{name} has {size} bits"):
                element_bits("a", void, fmt)
        else:
            assert not element_bits("a", void, fmt).any()
    with pytest.raises(InputError, match="bits"):
        element_bits("a", np.zeros(3, [("x", f"u{max(size // 8, 1)}")]), fmt)
    for what in (np.zeros(2, bool), np.zeros(2, complex), ["x"]):
        with pytest.raises(InputError):
            element_bits("a", what, fmt)
    if fmt.is_float:
        numbers = to_float64(bits, name)
        numbers, codes = numbers[~np.isnan(numbers)], codes[~np.isnan(numbers)]
        again = element_bits("a", numbers, fmt)
        assert (to_float64(again, name) == numbers).all()
        assert name in ("tf32", "ue4m3") or (again == codes).all()  # of these, several bits are one number
        if size < 64:
            with pytest.raises(InputError, match=f"is no {name}"):
                element_bits("a", np.array([1.0, 1.0 + 2.0**-52]), fmt)
        with pytest.raises(InputError, match="needs raw element bits"):
            element_bits("a", np.array([-1]), fmt)
        return
    with pytest.raises(InputError, match=f"needs whole numbers of {name}"):
        element_bits("a", np.ones(3), fmt)


@pytest.mark.parametrize("name", INTEGERS)
def test_signed_numbers_are_their_lowest_bits(name):
    fmt, size = FORMATS[name], FORMATS[name].bits
    if not fmt.signed:
        assert element_bits("a", np.array([0, 5]), fmt).tolist() == [0, 5]
        with pytest.raises(InputError, match="needs raw element bits"):
            element_bits("a", np.array([-1]), fmt)
        return
    numbers = np.array([-(1 << size - 1), -1, 0, 1, (1 << size - 1) - 1])
    assert [int(x) for x in element_bits("a", numbers, fmt)] == [x % (1 << size) for x in numbers.tolist()]
    assert element_bits("a", numbers[:0], fmt).size == 0
    for beyond in (-(1 << size - 1) - 1, 1 << size - 1):
        with pytest.raises(InputError, match=f"{size} bits"):
            element_bits("a", np.array([beyond, 0]), fmt)


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"a": np.zeros((64, 60)), "b": np.zeros((64, 60))}, InputError, "multiple"), ({"d": np.zeros((8, 8))}, InputError, "do not fit"), ({"a": np.zeros(64)}, InputError, "matrix"),
        ({"a": np.full((64, 64), 1 / 3)}, InputError, "no bf16"), ({"kind": "f16"}, InputError, "wgmma"), ({"m": 48}, InputError, "divide"),
        ({"arch": "sm_100a"}, InputError, "kind"), ({"arch": "sm_100a", "kind": "mxf8f6f4", "a_type": "e4m3"}, Unmodelled, "scale"),
        ({"a_swizzle": "128"}, InputError, "128B"), ({"a_major": "M"}, InputError, "'MN'"), ({"d": "x"}, InputError, "array"),
        ({"d": [[1], [1, 2]]}, InputError, "array"), ({"kind": []}, InputError, "kind"), ({"b_swizzle": []}, InputError, "swizzle"),
        ({"c": np.zeros((2, 2))}, InputError, "c has shape"), ({"a": np.zeros((64, 32)), "b": np.zeros((32, 64))}, InputError, r"give b\.T"), ({"d_type": "f16", "d": np.full((64, 64), 1e9)}, InputError, "d_type"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(changed, error, said):
    given = {"d": np.zeros((64, 64)), "a": np.zeros((64, 64)), "b": np.zeros((64, 64)), "arch": "sm_90a", "a_type": "bf16"} | changed
    with pytest.raises(error, match=said):
        explain_product(**given)


def test_the_command_explains_a_product(tmp_path):
    given = matrices("bf16")
    d = run("bf16", given, writers=("none", "128B"))
    for name, array in {"a": given["a"], "b": given["b"], "d": d, "noise": d[::-1] + 12345}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [x for name in "ab" for x in (f"--{name}", str(tmp_path / f"{name}.npy"))]
    options = ["solve", *files, "--arch", "sm_90a", "--a-type", "bf16"]
    done = CliRunner().invoke(main, [*options, "--d", str(tmp_path / "d.npy"), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["faults"][0]["field"] == "swizzle of the writer"
    done = CliRunner().invoke(main, [*options, "--d", str(tmp_path / "noise.npy")])
    assert done.exit_code == 1
    assert done.stdout.startswith("WRONG: no fault that smemsim knows gives this D (unknown)\n")
    assert CliRunner().invoke(main, options).exit_code == 2
    assert CliRunner().invoke(main, [*options, "--d", str(tmp_path / "d.npy"), "--base", "0"]).exit_code == 2


@pytest.mark.parametrize("to", ["bf16", "f16", "e4m3"])
def test_a_d_that_an_epilogue_has_converted_is_told_all_the_same(to):
    rng = np.random.default_rng(3)
    a, b = (smemsim.from_float64(rng.standard_normal((128, 64)), "bf16") for _ in "ab")
    numbers, other = (smemsim.to_float64(x, "bf16") for x in (a, b))
    lines = np.arange(128)[:, None]
    read = numbers.reshape(128, 8, 8)[lines, np.arange(8) ^ lines % 8].reshape(128, 64)
    for terms, looks_like in ((numbers, "rounding"), (read, "a wrong layout")):
        d = smemsim.to_float64(smemsim.from_float64(terms @ other.T, to), to).astype(np.float32)
        found = smemsim.explain_product(d, a, b, arch="sm_90a", a_type="bf16")
        assert found.looks_like == looks_like
        assert to in found.because[-1]
        assert [one.operand for one in found.faults] == (["A"] if terms is read else [])
    with pytest.raises(smemsim.InputError, match="raw bits of f32 have 32"):
        smemsim.explain_product(smemsim.from_float64(numbers @ other.T, "bf16"), a, b, arch="sm_90a", a_type="bf16")


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda a, b: (a[:, :-32], b[:, :-32]), "k 96 to 127 were missing from the sum (the last 32 of 128: a loop over K that ends too early"),
        (lambda a, b: (np.hstack([a, a[:, 32:64]]), np.hstack([b, b[:, 32:64]])), "k 32 to 63 were added twice"),
        (lambda a, b: (np.hstack([a, *[a[:, 32:64]] * 2]), np.hstack([b, *[b[:, 32:64]] * 2])), "k 32 to 63 were added 3 times"),
        (lambda a, b: (np.hstack([a, *[a[:, 32:64]] * 3]), np.hstack([b, *[b[:, 32:64]] * 3])), "k 32 to 63 were added 4 times"),
        (lambda a, b: (np.hstack([a[:, :96], *[a[:, :24]] * 2]), np.hstack([b[:, :96], *[b[:, :24]] * 2])), "k 96 to 127 were missing from the sum and k 0 to 23 were added 3 times"),
        (lambda a, b: (a.ravel()[np.arange(64)[:, None] * 64 + np.arange(128)], b), "A was read with rows 64 elements apart instead of 128: they overlap"),
        (lambda a, b: (a, b.T.ravel()[np.arange(128) * 60 + np.arange(64)[:, None]]), "B was read with k 60 elements apart instead of 64 (where rows are contig"),
        (lambda a, b: (a[:, np.arange(128) // 32 * 16 + np.arange(128) % 32], b), "A was read with blocks of 32 k 16 apart: they overlap"),
        (lambda a, b: (a, b[np.arange(64) // 32 * 16 + np.arange(64) % 32]), "B was read with tiles of 32 rows 16 apart: they overlap"),
    ],
)  # fmt: skip
def test_what_loops_and_pointers_get_wrong_is_named(read, said):
    rng = np.random.default_rng(5)
    a, b = (to_float64(from_float64(rng.standard_normal((64, 128)), "bf16"), "bf16") for _ in "ab")
    mine, other = read(a, b)
    assert (
        explain_product((mine @ other.T).astype(np.float32), a, b, arch="sm_90a", a_type="bf16")
        .because[0]
        .startswith(f"D is what it would be if {said}")
    )


def counts_told(text, extent):
    """How often each k was added, as a sentence says."""
    counts = np.ones(extent, int)
    for k, what in re.findall(r"k ([\d, to.]+?) (were missing from the sum|were added (?:twice|\d+ times))", text):
        times = 0 if "missing" in what else 2 if what.endswith("twice") else int(what.split()[2])
        counts[sorted(read_back(k, extent))] = times
    return counts


@pytest.mark.parametrize(
    ("runs", "is_loop", "alike"),
    [(*of, alike) for n, of in enumerate([
        ([(32, 64, 0)], True), ([(0, 32, 0)], True), ([(16, 32, 0)], True), ([(16, 32, 2)], True), ([(0, 16, 4), (16, 32, 0)], True),
        ([(0, 16, 4)], True), ([(0, 16, 5)], False), ([(16, 17, 0)], True), ([(5, 9, 2)], True), ([(48, 64, 0), (0, 16, 2)], True),
        ([(0, 64, 2)], True), ([(8, 16, 0), (24, 32, 0)], False), ([(0, 16, -1)], False), ([(7, 20, 0), (20, 30, 2)], True),
    ]) for alike in (1, 2) if is_night() or alike == 1 + n % 2],
)  # fmt: skip
def test_k_that_a_loop_leaves_out_or_repeats_are_told(runs, is_loop, alike):
    """D = sum over k of count[k] a[:, k] b[:, k]: the counts that are told are those of the sum. If some k are `alike`,
    only counts of whole blocks follow from D.
    """
    rng, extent = np.random.default_rng(5), 64
    a, b = (to_float64(from_float64(rng.standard_normal((64, extent)), "bf16"), "bf16") for _ in "ab")
    a, b = (x[:, np.arange(extent) // alike * alike] for x in (a, b[:8]))
    counts = np.ones(extent, int)
    for first, end, times in runs:
        counts[first:end] = times
    found = explain_product(((a * counts) @ b.T).astype(np.float32), a, b, arch="sm_90a", a_type="bf16")
    said = [text for text in found.because if " from the sum" in text or " were added " in text]
    is_whole = all(n % (16 if alike > 1 else 1) == 0 for run in runs for n in run[:2])
    assert bool(said) == (is_loop and is_whole and not (counts == counts[0]).all())
    if said:
        assert (counts_told(said[0], extent) == counts).all()
        missing = np.flatnonzero(counts == 0)
        at_end, at_begin = (bool(missing.size) and missing[n] == end for n, end in ((-1, extent - 1), (0, 0)))
        alone = len(runs) == 1 and missing.size
        assert ("a loop over K that ends too early" in said[0]) == bool(alone and at_end)
        assert ("a loop over K that begins too late" in said[0]) == bool(alone and at_begin and not at_end)
        assert ("A or B is 0 there" in said[0]) == bool(alone)
        assert (f"{missing.size} of {extent}" in said[0]) == bool(alone and (at_end or at_begin))


def sources(rows, k, sizes):
    """Which elements are read with each other stride, and with each other distance of blocks, by what a sentence names."""
    row, column = np.arange(rows)[:, None], np.arange(k)[None]

    def held(at, turned):
        numbers = np.arange(rows * k).reshape(rows, k)
        order = (numbers.T if turned else numbers).ravel()
        return np.where(at < rows * k, order[np.minimum(at, rows * k - 1)], -1)

    for what, own in (("rows", k), ("k", rows)):
        pads = [own + sign * 2**n for n in range(7) for sign in (-1, 1)]
        for by in {0, own // 2, own // 4, 2 * own, 4 * own, *sizes, *pads} - {own}:
            if by >= 0:
                at = row * by + column if what == "rows" else column * by + row
                yield (what, own, by, 0 < by < own), held(at, what == "k")
    for block in (16, 32, 64, 128, 256):
        for by in (0, block // 2, 2 * block):
            for what, extent in (("blocks", k), ("tiles", rows)):
                if extent % block == 0 and extent > block:
                    along = column if what == "blocks" else row
                    moved = along // block * by + along % block
                    yield (what, block, by, 0 < by < block), held(row * k + moved if what == "blocks" else moved * k + column, False)


STRIDE = r"read with (rows|k) (\d+) elements apart instead of (\d+)( \(where rows are contiguous\))?(: they overlap)?"
BLOCK = r"read with (blocks|tiles) of (\d+) (k|rows) (all the same|(\d+) apart: (they overlap|every other one is left out))"


@pytest.mark.parametrize(
    ("rows", "k", "sizes"),
    [(32, 64, (32, 16, 64)), (128, 32, (128, 48, 32)), (64, 256, (64, 200, 256, 20000, 30000)), (48, 80, ()), (1, 32, ()), (32, 1, (32,))],
)
def test_a_fault_of_pointers_reads_what_its_sentence_says(rows, k, sizes):
    """Every other stride and distance of blocks is there once, unless it reads what another one reads."""
    every, seen = dict(sources(rows, k, sizes)), {np.arange(rows * k).reshape(rows, k).tobytes()}
    for field, text, source in pointer_faults((rows, k), sizes):
        if stride := re.fullmatch(STRIDE, text):
            key = stride[1], int(stride[3]), int(stride[2]), bool(stride[5])
            assert field == "the stride of its pointers"
            assert bool(stride[4]) == (stride[1] == "k")
        else:
            some = re.fullmatch(BLOCK, text)
            key = some[1], int(some[2]), int(some[5] or 0), some[6] == "they overlap"
            of_k = "k", "the advance of its pointers"
            assert (some[3], field) == (of_k if some[1] == "blocks" else ("rows", "the first row of its tiles"))
        assert (source == every[key]).all(), text
        assert source.tobytes() not in seen
        seen.add(source.tobytes())
    assert seen >= {source.tobytes() for source in every.values()}


BASE = 1 << 14
KIND = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
WALK = {"not at all": 0, "twice": 2, "half": 0.5, "1/16": 1 / 16, "16 times": 16, "4 times": 4}


def laid(mode, rows, k):
    """Where the elements (rows, k) of bf16 lie: panels as wide as the swizzle, each with all rows, before the XOR."""
    row, byte = np.arange(rows)[:, None], 2 * np.arange(k)
    width = KIND[mode]
    return BASE + byte // width * rows * width + row * width + byte % width


def xored(at, mode):
    return at ^ (at >> 7 & KIND[mode] // 16 - 1) << 4


class Operand:
    """A tile of bf16 in memory, K-major, and what other words, or other writers, make of it."""

    def __init__(self, mode, steps, blocks):
        self.mode, self.steps = mode, steps
        self.rows, self.k = 64 * blocks, 16 * steps
        shape = Shape(architecture("sm_90a"), FORMATS["bf16"], "K", "packed", blocks, steps, 64, 16)
        self.tile = Tile(shape, MODES[Swizzle(mode)])
        right = self.tile.right
        self.sbo, self.lbo, self.starts = right.stride, 16 if right.leading is None else right.leading, right.starts
        self.held = self.memory(mode)

    def memory(self, mode, kept=True):
        """By address, the number of an element, in the order of rows; -2 for one that was not written."""
        at = xored(laid(self.mode, self.rows, self.k), mode).ravel().tolist()
        kept = np.broadcast_to(kept, (self.rows, self.k)).ravel().tolist()
        return {address: n if is_there else -2 for n, (address, is_there) in enumerate(zip(at, kept, strict=True))}

    def read(self, held=None, starts=None, **fields):
        given = {"swizzle": self.mode, "leading_byte_offset": self.lbo, "stride_byte_offset": self.sbo} | fields
        bare = SmemDescriptor(arch="sm_90a", **given).encode()
        starts = (self.starts if starts is None else starts).tolist()
        words = np.array([[bare | (start >> 4 & 0x3FFF) for start in own] for own in starts], np.uint64)
        at = smemsim.operand_addresses(words, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16).astype(np.int64)
        held = self.held if held is None else held
        found = np.array([held.get(address, -1) for address in at.ravel().tolist()]).reshape(at.shape)
        return found.swapaxes(1, 2).reshape(self.rows, self.k)

    def sentences(self):
        """(how a sentence begins, what is read then)."""
        starts, first = self.starts, self.starts[:, :1]

        def half(m):
            line, extent = (np.arange(self.rows)[:, None], self.rows) if m[2] == "rows" else (np.arange(self.k)[None] // 8, self.k // 8)
            return self.read(self.memory(self.mode, (line >= extent // 2) == (m[1] == "first")))

        def stride(m):
            is_sbo, value, own = m[1] == "SBO", int(m[2]), int(m[3])
            assert own == (self.sbo if is_sbo else self.lbo)
            assert (m[4] or "").strip() == (
                "(bytes where the field counts 16 B)"
                if value == 16 * own % (1 << 18)
                else "(shifted right twice)"
                if 16 * value == own
                else ""
            )
            return self.read(**{"stride_byte_offset" if is_sbo else "leading_byte_offset": value})

        def as_in(m):
            other = starts.copy()
            other[:, int(m[1])] = starts[:, int(m[2])]
            assert abs(int(m[1]) - int(m[2])) == 1
            return self.read(starts=other)

        def exchanged(m):
            assert (int(m[1]), int(m[2])) == (self.sbo, self.lbo)
            return self.read(leading_byte_offset=self.sbo, stride_byte_offset=self.lbo)

        def swizzle(m):
            assert (m[2], int(m[3] or 8 * KIND[m[1]])) == (self.mode, 8 * KIND[m[1]])
            return self.read(swizzle=m[1], stride_byte_offset=int(m[3] or self.sbo))

        return [
            (r"read with swizzle (\w+) where they lie in (\w+)(?: \(SBO (\d+) B\))?", swizzle),
            (r"read with base offset (\d) instead of 0", lambda m: self.read(base_offset=int(m[1]))),
            (r"read with LBO and SBO exchanged \((\d+) and (\d+) B\)", exchanged),
            (r"read with (SBO|LBO) (\d+) B instead of (\d+) B( \(.*\))?", stride),
            (rf"written with swizzle (\w+) and read with {self.mode}", lambda m: self.read(self.memory(m[1]))),
            (r"written without the (first|second) half of its (rows|K), which is 0", half),
            (r"read with K steps (\d+) B apart all along, .*", lambda m: self.read(starts=first + int(m[1]) * np.arange(self.steps))),
            (r"read with K steps that advance (not at all|twice|half|1/16|16 times|4 times).*",
             lambda m: self.read(starts=first + ((starts - first) * WALK[m[1]]).astype(np.int64) // 16 * 16)),
            (r"read in K step (\d+) as in step (\d+)", as_in),
            (r"read with every K step one too far .*", lambda m: self.read(starts=np.hstack([starts[:, 1:], starts[:, -1:] + starts[:, 1:2] - first]))),
            (r"read with blocks of rows (all the same|twice|half).*",
             lambda m: self.read(starts=starts[:1] + ((starts - starts[:1]) * {"all the same": 0, "twice": 2, "half": 0.5}[m[1]]).astype(np.int64) // 16 * 16)),
            (r"read (\d+) B (further|back) than it begins", lambda m: self.read(starts=starts + int(m[1]) * (1 if m[2] == "further" else -1))),
        ]  # fmt: skip


@pytest.mark.parametrize(("mode", "steps", "blocks"), [("128B", 8, 1), ("64B", 4, 2), ("32B", 1, 1), ("none", 2, 1)])
def test_each_fault_of_a_tile_reads_what_its_sentence_says(mode, steps, blocks):
    """The elements of a tile in memory, read by the words of another descriptor, or written otherwise."""
    operand = Operand(mode, steps, blocks)
    assert (operand.read() == np.arange(operand.rows * operand.k).reshape(operand.rows, operand.k)).all()
    told = []
    for fault in faults_of(operand.tile):
        for pattern_, reads in operand.sentences():
            if found := re.fullmatch(pattern_, fault.text):
                told.append(pattern_)
                assert (fault.source == reads(found)).all(), fault.text
    lacking = [pattern_ for pattern_, _ in operand.sentences() if pattern_ not in told]
    assert all("K step" in one or "blocks" in one or "LBO and SBO" in one or "base offset" in one for one in lacking), lacking
    assert not [one for one in lacking if ("K step" in one and steps > 4) or ("blocks" in one and blocks > 1)]
    texts, own = [fault.text for fault in faults_of(operand.tile)], operand.sbo
    people = {16 * own, own // 256 * 16, 0, 2 * own, own // 2, 4 * own, own // 4, 8 * own, own // 8, *(16 << n for n in range(10))} - {own}
    strides = {int(m[1]) for m in (re.match(r"read with SBO (\d+) B", text) for text in texts) if m}
    assert strides == {x for x in people if x % 16 == 0 and x < 1 << 18}
    others = {"none", "32B", "64B", "128B"} - {mode}
    assert {text for text in texts if text.startswith("written with swizzle")} == {
        f"written with swizzle {x} and read with {mode}" for x in others
    }
    assert {m[1] for m in (re.match(r"read with swizzle (\w+) ", text) for text in texts) if m} == others
    assert [int(m[1]) for m in (re.match(r"read with base offset (\d)", text) for text in texts) if m] == [*range(1, KIND[mode] // 16)]
    pairs = {tuple(map(int, m.groups())) for m in (re.match(r"read in K step (\d+) as in step (\d+)", text) for text in texts) if m}
    assert pairs == {(i, j) for i in range(steps) for j in (i - 1, i + 1) if 0 <= j < steps}
    assert ("LBO and SBO exchanged" in " ".join(texts)) == (mode == "none")
