"""A wrong output is explained by the one rule that gives all of it, and by nothing where none does: made-up arrays, and
kernels with planted faults.
"""

import dataclasses
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from launches import kernel
from messages import launch_facts, numbers_in
from places import ROOT
from smemsim import Gpu, InputError
from smemsim.cli import main
from smemsim.core.spec.formats import FORMATS
from smemsim.diagnosis import explained_output
from smemsim.diagnosis.numbers import Rounding, Tolerance, numbers_told, typical
from smemsim.diagnosis.result.arrays import Arrays, Tile
from smemsim.diagnosis.result.explain import explain_arrays
from smemsim.diagnosis.result.sums import Code, explain_sums, is_product
from smemsim.evidence import read_launch_file
from strategies import examples

KERNELS = ROOT / "golden" / "sm_90a" / "launches" / "kernels"
SIZE = 128
INDEX = np.arange(SIZE * SIZE).reshape(SIZE, SIZE)


def in_tiles(rows, columns, change):
    """A change of (down, across, rows, columns), made to an array."""

    def made(x):
        down, across = x.shape[0] // rows, x.shape[1] // columns
        tiles = change(x.reshape(down, rows, across, columns).transpose(0, 2, 1, 3))
        return tiles.transpose(0, 2, 1, 3).reshape(x.shape)

    return made


def chunks(rows, columns, itemsize, swizzle):
    """16-byte chunks of boxes as a store without swizzle has them: the table of the CUDA guide for each mode, not the
    model's formula.
    """
    row, column = np.indices((rows, columns))
    per, (lines, count) = 16 // itemsize, {"128B": (1, 8), "64B": (2, 4), "32B": (4, 2)}[swizzle]
    source = (column // per ^ row // lines % count) * per + column % per
    return in_tiles(rows, columns, lambda t: t[:, :, row, source])


def moved(down, right):
    def change(x):
        out = np.zeros_like(x)
        out[max(0, down) : SIZE + min(0, down), max(0, right) : SIZE + min(0, right)] = x[
            max(0, -down) : SIZE + min(0, -down), max(0, -right) : SIZE + min(0, -right)
        ]
        return out

    return change


def with_tile(x, at, new):
    out = x.copy()
    out[at[0] : at[0] + 64, at[1] : at[1] + 32] = new
    return out


RULES = {
    "transposed": (lambda x: x.T, "it is transposed"),
    "a box to the right": (moved(0, 32), r"all of it lies 32 columns too far right: \[m, n\] has what belongs in \[m, n - 32\]"),
    "a row up": (moved(-1, 0), "all of it lies 1 row too far up"),
    "rows and columns": (moved(24, -40), "all of it lies 24 rows too far down and 40 columns too far left"),
    "in memory": (lambda x: np.roll(x.ravel(), 3).reshape(x.shape), "all of it lies 3 elements .* further on in memory"),
    "halves": (lambda x: np.roll(x, SIZE // 2, 1), r"column n has what belongs in n \^ 64"),
    "rows 8 apart": (lambda x: x[np.arange(SIZE) ^ 8], r"row m has what belongs in m \^ 8"),
    "pairs": (lambda x: x[:, np.arange(SIZE) ^ 1], r"column n has what belongs in n \^ 1"),
    "stored twice": (lambda x: with_tile(x, (64, 32), x[:64, :32]), r"tile at \[64, 32\] is that of \[0, 0\].*box of the store at line 9"),
    "not stored": (lambda x: with_tile(x, (64, 32), 0), "all that is wrong is 0, in rows 64 to 127, columns 32 to 63"),
    "tiles in another order": (in_tiles(64, 64, lambda t: t.transpose(1, 0, 2, 3)), r"64x32 tile at \[0, 64\] is that of \[64, 0\]"),
    "tiles turned": (
        in_tiles(64, 64, lambda t: t.transpose(0, 1, 3, 2)),
        "in each 64x64 tile that is wrong rows and columns are exchanged",
    ),
    "matrices turned": (in_tiles(8, 8, lambda t: t.transpose(0, 1, 3, 2)), "in each 8x8 tile that is wrong rows and columns are exchanged"),
    "fragment": (
        in_tiles(16, 16, lambda t: np.block([[t[..., :8, :8], t[..., 8:, :8]], [t[..., :8, 8:], t[..., 8:, 8:]]])),
        r"\[0, 8\] has what belongs in \[8, 0\], \[8, 0\] has what belongs in \[0, 8\]",
    ),
    "negated": (lambda x: -x, "the other sign"),
    "a factor": (lambda x: 3 * x, "all of it is 3 of what was expected"),
    "a bias": (lambda x: x + 40, "all of it is 40 too large"),
    "relu": (lambda x: np.maximum(x, 0), "every negative number is 0"),
}
TILE = Tile(64, 32, "64x32 box of the store at line 9", "none", 9)


def drawn(seed, dtype):
    rng = np.random.default_rng(seed)
    if dtype == "s32":
        return rng.integers(-500, 500, (SIZE, SIZE)).astype(np.int32)
    x = rng.standard_normal((SIZE, SIZE)).astype(np.float32) * 8
    return (x.view(np.uint32) & 0xFFFF0000).view(np.float32) if dtype == "bf16" else x


def told(found, wanted, dtype, tiles=(TILE,), **more):
    relative = {"s32": 0.0, "f32": 2.0**-9, "bf16": 2.0**-7}[dtype]
    return str(explain_arrays(np.ascontiguousarray(found), wanted, dtype=dtype, tiles=tiles, relative=relative, **more) or "")


@pytest.mark.parametrize("name", RULES)
@examples(3)
@given(st.integers(0, 99), st.sampled_from(["s32", "f32", "bf16"]))
def test_the_rule_that_was_applied_is_found(name, seed, dtype):
    rule, said = RULES[name]
    wanted = drawn(seed, dtype)
    assert re.search(said, told(rule(wanted), wanted, dtype))


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2, "2"), (63, "63"), (1.5, "1.5"), (0.75, "0.75"), (2 / 3, "0.666667"), (0.25, "1/4"), (1 / 3, "1/3"), (-2, "-2"), (-0.75, "-0.75"),
        (-0.5, "-1/2"), (-1 / 3, "-1/3"), (2 / 15, "0.133333"), (0.01, "0.01"), (49 / 48, "1.02174"), (47 / 48, "0.978261"), (1.01, ""), (0.99, ""),
    ],
)  # fmt: skip
def test_a_factor_is_the_simplest_fraction_near_it(factor, said):
    """Within a thousandth: 47/46 for 49/48. One that is nearly 1 is no explanation."""
    wanted = drawn(3, "f32")
    found = told((wanted * np.float64(factor)).astype(np.float32), wanted, "f32")
    assert found.partition("; ")[0] == (f"all of it is {said} of what was expected" if said else "")


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_missing_swizzle_is_found_with_its_rule(swizzle, itemsize):
    wanted, columns = drawn(1, "f32"), int(swizzle[:-1]) // itemsize
    rule = {"128B": "(r % 8)", "64B": "(r // 2 % 4)", "32B": "(r // 4 % 2)"}[swizzle]
    for of_map, written in ((swizzle, "without a swizzle"), ("none", f"with swizzle {swizzle}")):
        tile = Tile(64, columns, f"64x{columns} box of the store at line 9", of_map, 9)
        said = told(chunks(64, columns, itemsize, swizzle)(wanted), wanted, "f32", [tile], itemsize=itemsize)
        assert f"as if shared memory was written {written}: chunk c of row r is where c ^ {rule} belongs" in said


LAWS = {
    "((r + 1) % 8)": lambda r: (r + 1) % 8,
    "(r // 2 % 4)": lambda r: r // 2 % 4,
    "((r + 3) % 4)": lambda r: (r + 3) % 4,
    "5": lambda r: r * 0 + 5,
    "[0, 3, 5, 6, 1, 2, 4, 7][r % 8]": lambda r: np.array([0, 3, 5, 6, 1, 2, 4, 7])[r % 8],
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("of_map", ["128B", "none"])
def test_threads_that_write_with_a_law_of_their_own_are_told_it(law, of_map):
    """Chunk c of row r goes to c ^ law(r); the store takes c ^ (r % 8) of it away, or nothing."""
    wanted, (row, column) = drawn(7, "bf16"), np.indices((64, 64))
    moved = LAWS[law](row) ^ (row % 8 if of_map == "128B" else 0)
    found = in_tiles(64, 64, lambda t: t[:, :, row, (column // 8 ^ moved) * 8 + column % 8])(wanted)
    tile = Tile(64, 64, "64x64 box of the store at line 9", of_map, 9, writers="stmatrix at line 7")
    said = told(found, wanted, "bf16", [tile], itemsize=2)
    assert f"lie as if chunk c of row r was written at c ^ {law}; SWIZZLE_{of_map.upper()}, which the tensor map there is, " in said
    assert said.endswith(f"write shared memory {'with swizzle 128B' if of_map == '128B' else 'without a swizzle'} (stmatrix at line 7)")
    found[::9] = drawn(8, "bf16")[::9]
    assert told(found, wanted, "bf16", [tile], itemsize=2) == ""


@pytest.mark.parametrize(("swizzle", "offset"), [("128B", 128), ("128B", 512), ("64B", 256), ("32B", 128)])
def test_a_tile_that_begins_within_the_pattern_is_told_so(swizzle, offset):
    """Software counts lines from the tile's first byte, hardware from address 0."""
    wanted, columns = drawn(9, "bf16"), int(swizzle[:-1]) // 2
    address = np.arange(64 * columns) * 2
    lines, count = {"128B": (1, 8), "64B": (2, 4), "32B": (4, 2)}[swizzle]
    row, chunk = address // (2 * columns), address % (2 * columns) // 16
    by_address = (row + offset // (2 * columns)) // lines % count
    source = (row * columns + (chunk ^ by_address ^ row // lines % count) * 8 + address // 2 % 8).reshape(64, columns)
    found = in_tiles(64, columns, lambda t: t.reshape(*t.shape[:2], -1)[:, :, source])(wanted)
    tile = Tile(64, columns, "box of the store at line 9", swizzle, 9, offset)
    said = told(found, wanted, "bf16", [tile], itemsize=2)
    period = 128 * count
    assert f"the tile begins {offset} B after a multiple of {period} B" in said
    assert f"begin the tile at a multiple of {period} B" in said
    assert "counted from" not in told(found, wanted, "bf16", [dataclasses.replace(tile, offset=0)], itemsize=2)


def test_chunks_of_tiles_without_a_map_are_exchanged_as_a_swizzle_does_it():
    wanted, tile = drawn(1, "bf16"), Tile(64, 64, "64x64 tile of stores at line 9", "", 9)
    said = told(chunks(64, 64, 2, "128B")(wanted), wanted, "bf16", [tile], itemsize=2)
    assert said.startswith(
        "the 16-byte chunks in each 64x64 tile of stores at line 9 are exchanged as swizzle 128B does it: chunk c of row r is where c ^ (r % 8)"
    )
    assert said.endswith("; write and read shared memory with one swizzle")


@pytest.mark.parametrize("of_map", ["", "none", "128B"])
@pytest.mark.parametrize("change", [lambda x: x[:, ::-1], lambda x: x[::-1]])
def test_what_is_wrong_behind_the_last_whole_tile_is_no_matter_of_tiles(of_map, change):
    """Rows 64 to 95 of an array of tiles of 64 rows."""
    wanted = drawn(1, "bf16")[:96]
    found = np.concatenate([wanted[:64], change(wanted[64:])])
    assert (found != wanted).any()
    assert "64x64" not in told(found, wanted, "bf16", [Tile(64, 64, "64x64 box", of_map, 9)], itemsize=2)


@pytest.mark.parametrize("first", [0, 2.5])
def test_accumulators_that_go_on_from_tile_to_tile(first):
    """A CTA that does not zero them has the sums of its tile before in each tile, and in the first one what it began
    with.
    """
    wanted = drawn(11, "f32")
    tile = dataclasses.replace(TILE, begins="wgmma at line 5")
    found = in_tiles(64, 32, lambda t: first + np.cumsum(t, axis=1))(wanted)
    said = told(found, wanted, "f32", [tile])
    assert said.startswith(
        "accumulators are not zeroed: 6 64x32 tiles hold besides their own sums those of another tile (at [0, 32] that of [0, 0]"
    )
    assert ("2 more begin with 2.5 instead of 0" in said) == (first != 0)
    assert said.endswith("make scale-d (enable-input-d) 0 for its first product (wgmma at line 5)")
    assert told(found + drawn(12, "f32"), wanted, "f32", [tile]) == ""


@pytest.mark.parametrize("is_twice", [True, False])
def test_tiles_that_are_there_twice_are_no_matter_of_the_store_alone(is_twice):
    """Coordinates of a store exchange tiles; a tile that is right and elsewhere as well was loaded, or read, twice."""
    wanted = np.random.default_rng(2).standard_normal((SIZE, SIZE)).astype(np.float32)
    source = np.array([[0, 0], [1, 2]] if is_twice else [[1, 0], [2, 3]])
    found = in_tiles(64, 64, lambda t: t.reshape(4, 64, 64)[source])(wanted)
    told = explain_arrays(found, wanted, tiles=[dataclasses.replace(TILE, columns=64)])
    assert "at [0, 64] is that of [0, 0]" in told.what
    assert ("tiles are there twice: look at the coordinates of the loads" in told.change) == is_twice


@pytest.mark.parametrize("shape", [(100, 104), (40, 128), (128, 40)])
def test_an_array_may_end_within_a_box(shape):
    wanted = drawn(2, "f32")
    tile = Tile(64, 64, "64x64 box of the store at line 9", "128B", 9)
    found = chunks(64, 64, 2, "128B")(wanted)[: shape[0], : shape[1]]
    said = told(found, wanted[: shape[0], : shape[1]], "f32", [tile], itemsize=2)
    assert "without a swizzle: chunk c of row r is where c ^ (r % 8) belongs" in said
    other = Tile(64, 64, "64x64 box of the store at line 9", "64B", 9)
    assert "swizzle" not in told(found, wanted[: shape[0], : shape[1]], "f32", [other], itemsize=2)


@examples(10)
@given(st.integers(0, 99), st.sampled_from(["s32", "f32", "bf16"]), st.sampled_from(sorted(RULES)))
def test_what_no_rule_gives_is_not_explained(seed, dtype, name):
    wanted, other = drawn(seed, dtype), drawn(seed + 100, dtype)
    assert told(other, wanted, dtype) == "" == told(wanted, wanted, dtype)
    assert told(wanted + other, wanted, dtype) == ""
    if dtype != "s32":
        assert told(wanted * np.float32(1 + 2.0**-12), wanted, dtype) == ""
    found = RULES[name][0](wanted).copy()
    at = np.flatnonzero(found.ravel() != wanted.ravel())
    found.reshape(-1)[at[::5]] = other.reshape(-1)[at[::5]]  # a fifth of it has nothing to do with the rule
    assert told(found, wanted, dtype) == ""


@pytest.mark.parametrize("wanted", [np.ones((SIZE, SIZE)), np.where(INDEX == 77, 5.0, 1.0), np.tile(np.arange(8.0), (SIZE, SIZE // 8))])
def test_few_numbers_say_nothing_about_places(wanted):
    wanted = wanted.astype(np.float32)
    for change in (lambda x: x[::-1, ::-1], lambda x: np.roll(x, 4, 1), lambda x: np.where(INDEX % 3 == 0, x[::-1, ::-1], 2 - x)):
        assert not re.search("lies|lie in|transposed|exchanged", told(change(wanted), wanted, "f32"))


def test_numbers_that_count_up_leave_open_whether_they_moved():
    wanted = INDEX.astype(np.int32)
    assert "too small; or all of it lies 5 elements" in told(wanted - 5, wanted, "s32")


@pytest.mark.parametrize(("dtype", "mask"), [("bf16", 0xFFFF0000), ("f16 (or tf32)", 0xFFFFE000)])
def test_a_narrower_type_in_between_is_named(dtype, mask):
    wanted = drawn(3, "f32")
    found = (wanted.view(np.uint32) & mask).view(np.float32)
    assert told(found, wanted, "f32").startswith(f"all of it are {dtype} numbers")
    assert told(wanted * np.float32(1 + 2.0**-20), wanted, "f32") == "" == told(found, found * np.float32(1 + 2.0**-8), "bf16")


@examples(5)
@given(st.integers(0, 99), st.integers(0, 7), st.integers(1, 3), st.sampled_from([-1, 1, -2]))
def test_steps_of_k_are_counted(seed, first, count, times):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, SIZE, 128)).astype(np.float32)
    k = slice(16 * first, min(128, 16 * (first + count)))
    found = a @ b.T + times * (a[:, k] @ b[:, k].T)
    x = Arrays(found, a @ b.T, relative=2.0**-9, itemsize=4)
    how = {-1: "lacks", 1: "twice", -2: "with the other sign"}[times]
    explanation = explain_sums(x, a, b, [64, 16], code=Code(loop="the branch at line 7"))
    said = str(explanation)
    assert how in said
    assert f"k = {k.start} to {k.stop - 1}" in said
    steps, of = (k.stop - k.start) // 16, 8
    if k.start % 64 == 0 and (k.stop - k.start) % 64 == 0:
        steps, of = steps // 4, 2
    assert explanation.change == (
        "look at imm-scale-a and imm-scale-b (negate-a, negate-b) of those instructions" if times == -2
        else "look for a step of the K loop that is executed twice, or an accumulator that is added to D twice" if times > 0
        else "look at where the K loop begins, and at scale-d (enable-input-d): 0 in a later step forgets what came before" if not k.start
        else f"look at where the K loop ends (the branch at line 7): {of - steps} steps of {128 // of} are there, {of} are needed" if k.stop == 128
        else "look at how k goes on from step to step (the branch at line 7)"
    )  # fmt: skip
    noise = Arrays(found + 8 * rng.standard_normal(found.shape), a @ b.T, relative=2.0**-9, itemsize=4)
    assert explain_sums(noise, a, b, [64, 16]) is None


@pytest.mark.parametrize(
    ("lost", "times", "says"),
    [
        ([0, 2], -1, "lacks the product of k = 0 to 15 and 32 to 47"),
        ([0, 2, 4], -1, "lacks the product of k = 0 to 15 and 32 to 47 and 64 to 79"),
        ([0, 2, 4, 6], -1, "lacks the product of steps 0, 2, 4, 6 of k (16 each)"),
        ([1, 3, 5, 7], 2, "has the product of steps 1, 3, 5, 7 of k (16 each) three times"),
        ([7], 1, "has the product of k = 112 to 119 twice"),
        (range(8), -1, ""),
        (range(8), 1, ""),
        ([3], 3, ""),
    ],
)
def test_steps_that_are_apart_are_named_or_counted(lost, times, says):
    """The last of the 8 steps of 16 has half of its k: there are 120."""
    a, b = np.random.default_rng(6).standard_normal((2, 64, 120)).astype(np.float32)
    more = sum(times * a[:, 16 * n : 16 * n + 16] @ b[:, 16 * n : 16 * n + 16].T for n in lost)
    x = Arrays((a @ b.T + more).astype(np.float32), a @ b.T, relative=2.0**-9, itemsize=4)
    said = str(explain_sums(x, a, b, [16]) or "")
    assert said.startswith(f"all of it {says}; " if says else "")
    assert explain_sums(x, a[:32], b, [16]) is None
    assert explain_sums(x, a, b[:, :64], [16]) is None
    assert [is_product(x, *pair) for pair in ((a, b), (a[:32], b), (a, b[:, :64]), (b, a))] == [True, False, False, False]


def test_a_step_in_the_place_of_another():
    a, b = np.random.default_rng(5).standard_normal((2, 64, 128)).astype(np.float32)
    x = Arrays(a @ b.T - a[:, 32:48] @ b[:, 32:48].T + a[:, 64:80] @ b[:, 64:80].T, a @ b.T, relative=2.0**-9, itemsize=4)
    what = "all of it lacks the product of k = 32 to 47 and has the product of k = 64 to 79 twice; look at the coordinates along k of the loads"
    assert str(explain_sums(x, a, b, [64, 16])) == f"{what}, and at the stages that they go to"
    assert str(explain_sums(x, a, b, [16], code=Code(loads="line 3"))) == f"{what} (line 3), and at the stages that they go to"


def read_as(side, change):
    """An operand whose 16-byte chunks (8 of 2 bytes, 8 of them in 64 k) are read as `change`(row, chunk) -> (row,
    chunk) says.
    """

    def made(a, b):
        mine = (a if side == "A" else b).reshape(128, -1, 8, 8)
        row, chunk = np.indices((128, 8))
        row, chunk = change(row, chunk)
        mine = mine.transpose(0, 2, 1, 3)[row, chunk].transpose(0, 2, 1, 3).reshape(128, -1)
        return mine @ b.T if side == "A" else a @ mine.T

    return made


CHUNKS = {
    "no swizzle, A": (read_as("A", lambda r, c: (r, c ^ r % 8)), r"of A .* chunk c \^ \(r % 8\) of row r stands where chunk c belongs"),
    "no swizzle, B": (read_as("B", lambda r, c: (r, c ^ r % 8)), r"of B .* chunk c \^ \(r % 8\) of row r stands where chunk c belongs"),
    "half of the lanes, A": (read_as("A", lambda r, c: (r, c & 6)), "of A .* chunk 0 stands where chunk 1 belongs, chunk 2 stands where chunk 3"),
    "half of the lanes, B": (read_as("B", lambda r, c: (r, c & 6)), "of B .* chunk 0 stands where chunk 1 belongs, chunk 2 stands where chunk 3"),
    "the other half": (read_as("A", lambda r, c: (r, c ^ 1)), r"of A .* chunk c \^ 1 .*; or .* of B .* chunk c \^ 1 of row r"),
    "the first step alone": (read_as("B", lambda r, c: (r, c & 1)), "of B .* chunk 0 stands where chunk 2 belongs"),
    "matrices": (read_as("B", lambda r, c: (r & ~8 | (c & 1) << 3, c & 6 | r >> 3 & 1)), r"of B .* chunk 1 stands where chunk 0 belongs in rows 8 to 15 of 16|of B .*row r \^ 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_of_an_operand_in_the_place_of_others(name):
    change, said = CHUNKS[name]
    a, b = np.random.default_rng(4).standard_normal((2, 128, 192)).astype(np.float16).astype(np.float32)
    code = Code(reads={"A": "the ldmatrix at line 4", "B": "the ldmatrix at line 5"}, writes={"A": "the cp.async", "B": "the cp.async"})
    x = Arrays(change(a, b), a @ b.T, relative=2.0**-9, itemsize=4)
    explanation = str(explain_sums(x, a, b, [16], itemsize=2, code=code))
    assert re.search(said, explanation)
    assert all((f"of {side} are" in explanation) == (f"the ldmatrix at line {n}" in explanation) for side, n in (("A", 4), ("B", 5)))
    if name in ("no swizzle, A", "matrices"):
        noise = np.random.default_rng(5).standard_normal(x.shape)
        assert explain_sums(Arrays(x.found + noise, a @ b.T, relative=2.0**-9, itemsize=4), a, b, [16], itemsize=2) is None


PRODUCTS = {
    "B A": lambda a, b: b.T @ a, "A B^T": lambda a, b: a @ b, "A^T B": lambda a, b: a.T @ b.T, "A A^T": lambda a, b: a @ a.T, "B B": lambda a, b: b.T @ b.T,
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products_of_the_operands_are_named(name):
    a, b = np.random.default_rng(2).standard_normal((2, 64, 64)).astype(np.float32)
    x = Arrays(PRODUCTS[name](a, b), a @ b.T, relative=2.0**-9, itemsize=4)
    assert str(explain_sums(x, a, b, [64])).startswith(f"it is {name}, not A B;")


# ---- kernels


def launched(name, change=lambda ptx: ptx, about=lambda args: None, more_shared=0, numbers=None):
    """(run, its output's array, what that held before, its type) of a recorded launch with another PTX or other
    arguments. `numbers`: bf16 numbers of A and B by row and k.
    """
    launch = read_launch_file(KERNELS / name)
    args = json.loads(json.dumps(launch.about["args"]))
    about(args)
    launch = dataclasses.replace(launch, about={**launch.about, "args": args})
    gpu = smemsim.Gpu("sm_90a")
    arrays, passed = launch.placed(gpu)
    (output,) = launch.about["outputs"]
    if numbers is not None:
        for n, side in enumerate("AB"):
            values = numbers(n, *np.indices((256, 256))).astype(np.float32)
            gpu.memory.holding(arrays[side].address, arrays[side].address + 1).data[:131072] = (
                (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).ravel()
            )
    before = arrays[output].numpy()
    config = dataclasses.replace(launch.config(passed), shared_bytes=launch.about["shared_bytes"] + more_shared)
    run = gpu.run(change(launch.ptx), config)
    return run, arrays[output], before, launch.dtype(output)


def replaced(*pairs):
    def change(ptx):
        for old, new in pairs:
            assert old in ptx
            ptx = ptx.replace(old, new)
        return ptx

    return change


def exchange(args):
    args[0], args[1] = args[1], args[0]


def set_to(n, *way, value):
    def about(args):
        place = args[n]
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = value

    return about


STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd42, {%r266, %r267}], [%r20];"
FAULTS = {
    "no swizzle": ({"about": set_to(2, "map", "swizzle", value="none")}, r"64x64 box of the stores at lines 594 and 598 .* with swizzle 128B.*SWIZZLE_NONE"),
    "a step less": (
        {"about": set_to(5, "value", value=3)},
        r"lacks the product of k = 192 to 255; look at where the K loop ends \(lines 356 to 448 and lines 648 to 789\): 3 steps of 64 are there, 4 are needed",
    ),
    "rows modulo 4": (
        {"change": replaced(("and.b32  \t%r96, %r93, 7;", "and.b32  \t%r96, %r93, 3;"))},
        r"was written with swizzle 64B; .* SWIZZLE_128B; write shared memory with swizzle 128B \(stmatrix at lines 470, 485, 500, 515 ...\)$",
    ),
    "threads without swizzle": (
        {"change": replaced(("and.b32  \t%r96, %r93, 7;", "mov.b32 %r96, 0;"))}, r"was written without a swizzle: .*SWIZZLE_128B",
    ),
    "half a pattern off": (
        {"change": replaced(("%r87, 98304;", "%r87, 98816;"), ("%r87, 106496;", "%r87, 107008;")), "more_shared": 1024},
        r"the tile begins 512 B after a multiple of 1024 B",
    ),
    "second box behind": (
        {"change": replaced(("%r87, 106496;", "%r87, 107520;")), "more_shared": 1024},
        r"row r of each 64x64 box of the stores at lines 594 and 598 has the data of row r \+ 8: .* 1024 B after the address where the tile was written",
    ),
    "load turned": (
        {"change": lambda ptx: re.sub(r"\[%rd49, \{(%r\d+), (%r\d+)\}\]", r"[%rd49, {\2, \1}]", ptx)},
        r"the loads at lines 675, 711, 743 and 775 have their coordinates exchanged: the other products of this sum multiply rows from 0 on of A",
    ),
    "one load turned": (
        {"change": lambda ptx: re.sub(r"\[%rd49, \{(%r\d+), (%r\d+)\}\]", r"[%rd49, {\2, \1}]", ptx, count=1)},
        r"the load at line 675 has its coordinates exchanged: .* rows from 128 on of A, and B has k = 0 here",
    ),
    "operands exchanged": ({"about": exchange}, r"it is transposed.*exchange A and B"),
    "A for B": ({"about": lambda args: args.__setitem__(1, args[0])}, r"it is A A\^T, not A B"),
    "a store left out": ({"change": replaced((STORE, ""))}, r"columns 64 to 127 mod 128; look whether a store"),
    "a tile twice": ({"change": replaced((STORE, STORE.replace("%r20", "%r6")))}, r"column n of 64 to 127 mod 128 has what belongs in n - 64"),
    "coordinates of the store exchanged": (
        {"change": replaced(("{%r263, %r267}", "{%r267, %r263}"), ("{%r266, %r267}", "{%r267, %r266}"))}, r"64x64 tile \(i, j\) is that of \(j, i\); exchange the coordinates of the 64x64 box of the stores at lines 594 and 598",
    ),
    "stmatrix transposes": ({"change": replaced(("stmatrix.sync.aligned.m8n8.x4", "stmatrix.sync.aligned.m8n8.x4.trans"))}, r"in each 8x8 tile"),
}  # fmt: skip


@pytest.fixture(scope="module")
def wanted():
    _, array, _, _ = launched("gemm_specialized")
    return array.numpy()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_explained_with_its_line(name, wanted, snapshot):
    how, said = FAULTS[name]
    run, array, before, dtype = launched("gemm_specialized", **how)
    explanation = run.explain(array, wanted, before, dtype=dtype)
    assert re.search(said, explanation)
    assert [numbers_in(explanation), *launch_facts(run)] == snapshot
    numbers = smemsim.to_float64(wanted.view(np.uint16), "bf16")  # the same from numbers of another type
    assert re.search(said, run.explain(array, numbers, dtype=dtype).replace(", as before the launch", ""))


SAID = {
    "no swizzle": "R501",
    "threads without swizzle": "R501",
    "rows modulo 4": "R501",
    "half a pattern off": "A105",
    "coordinates of the store exchanged": "R508",
    "load turned": "R508",
}


@pytest.mark.parametrize("name", ["right", "a tile twice", "a store left out", *SAID])
def test_the_tiles_that_a_store_writes_are_held_against_the_products_without_an_expected_output(name):
    """Rows of a product whose chunks lie elsewhere in global memory, at the line of the store; what is no matter of
    swizzles or coordinates is not told.
    """
    run, *_ = launched("gemm_specialized", **FAULTS[name][0] if name in FAULTS else {})
    assert [(f.code, f.instruction.startswith("cp.async.bulk.tensor.2d.global"), f.severity) for f in run.findings] == [
        (SAID[name], name != "load turned", "wrong") for _ in range(name in SAID)
    ]
    if name == "coordinates of the store exchanged":
        assert re.search(
            r"belongs in row (64|0), column (?!\1)(64|0) of D; it has the product of the rows of A from \1 on and of the rows of B from \2 on",
            run.findings[0].message,
        )
    elif name in SAID and name != "load turned":
        assert re.search(
            FAULTS[name][1],
            f"{run.findings[0].message.replace('; so the product of A and B lies in global memory', '')}; {run.findings[0].repair}",
        )


@pytest.mark.parametrize(
    ("pattern", "by", "said"),
    [
        (r"(stmatrix[^{]*\{\S+ *)(%r\d+), *(%r\d+),", r"\1\3, \2,", r"in each 16x16 block of each 64x64 box .* are exchanged; exchange the addresses of lanes 8 to 15 and 16 to 23"),
        (r"stmatrix.sync.aligned.m8n8.x4", "stmatrix.sync.aligned.m8n8.x4.trans", r"each 8x8 matrix of each 64x64 box .* is transposed; stmatrix without .trans"),
        (r"(cvt\.rn\.bf16x2\.f32 %r\d+), (%f\d+), (%f\d+);", r"\1, \3, \2;", r"the columns of each pair are exchanged in each 64x64 box .*; exchange the halves of each register"),
    ],
)  # fmt: skip
def test_fragments_in_another_order_are_told_by_the_product(pattern, by, said):
    run, *_ = launched("gemm_specialized", lambda ptx: re.sub(pattern, by, ptx))
    (told,) = run.findings
    assert (told.code, told.line in (594, 598)) == ("R508", True)
    assert re.search(said, f"{told.message}; {told.repair}")


PERIODIC = {
    "period 7": lambda n, row, k: (5 * k + 3 * row + row // 7 + n) % 7 - 3,
    "rows alike": lambda n, row, k: (row % 64 - 32 if n else row % 3 == 1) * (k == 3),
}


@pytest.mark.parametrize(
    ("numbers", "name", "said"),
    [
        ("period 7", "right", ""),
        ("period 7", "rows modulo 4", "written with swizzle 64B"),
        ("rows alike", "threads without swizzle", "written without a swizzle"),
    ],
)
def test_a_store_without_the_swizzle_is_told_though_numbers_repeat(numbers, name, said):
    """Most rows, or most columns, of D are equal to others."""
    run, *_ = launched("gemm_specialized", **FAULTS[name][0] if name in FAULTS else {}, numbers=PERIODIC[numbers])
    assert [f.code for f in run.findings] == ["R501"] * bool(said), run.text()
    assert all(said in f.message for f in run.findings)


def test_a_store_that_begins_behind_its_tile_is_told_by_the_product():
    run, *_ = launched("gemm_specialized", **FAULTS["second box behind"][0])
    (told,) = (f for f in run.findings if f.code == "R508")
    assert told.line in (594, 598)
    assert re.search(FAULTS["second box behind"][1], told.message)


def test_a_product_that_begins_in_front_of_its_tensors_is_one():
    """All loads 8 k earlier: what lies in front of the tensors is zero, and the product of the rest is what the store
    with the wrong swizzle has.
    """

    def early(ptx):
        load = r"(cp\.async\.bulk\.tensor\.2d\.shared\S+ \[%r\d+\], \[%rd\d+, \{)(%r\d+)"
        return re.sub(load + r"(, %r\d+\}\], \[%r\d+\];)", r"{ .reg .b32 early; sub.s32 early, \2, 8; \1early\3 }", ptx)

    run, *_ = launched("gemm_specialized", early, **FAULTS["no swizzle"][0])
    assert [f.code for f in run.findings] == ["R501"]
    assert any("no instruction multiplies k = 248 to 255" in f.message for f in run.remarks)


@pytest.mark.parametrize("change", ["relu", "half", "bias"])
def test_an_epilogue_that_changes_the_numbers_is_not_judged(change):
    """The same missing swizzle behind an epilogue whose numbers are no product: nothing is certain, nothing is said."""
    halves = {"relu": "max.f32 f0, {}, 0f00000000;", "half": "mul.f32 f0, {}, 0f3F000000;", "bias": "add.f32 f0, {}, 0f40000000;"}[change]

    def changed(ptx):
        ptx = FAULTS["threads without swizzle"][0]["change"](ptx)
        two = halves.format(r"\2") + halves.replace("f0", "f1").format(r"\3")
        return re.sub(
            r"cvt\.rn\.bf16x2\.f32 (%r\d+), (%f\d+), (%f\d+);", rf"{{ .reg .f32 f0, f1; {two} cvt.rn.bf16x2.f32 \1, f0, f1; }}", ptx
        )

    run, array, *_ = launched("gemm_specialized", changed)
    assert array.numpy().any()
    assert run.ok


def test_what_nobody_wrote_is_told_as_zero_or_as_what_was_there():
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }", block=32, progress=False)
    wanted, zeros, old = np.ones((64, 8), np.float32), np.zeros((64, 8), np.float32), np.full((64, 8), 5, np.float32)
    assert run.explain(zeros, wanted).startswith("all that is wrong is 0, in rows")
    assert run.explain(zeros, wanted, zeros).startswith("all that is wrong is 0, as before the launch, in rows")
    assert run.explain(old, wanted, old).startswith("all that is wrong holds what was there before the launch, in rows")


def test_a_right_result_and_unlike_arrays(wanted):
    run, array, _, dtype = launched("gemm_specialized")
    assert run.explain(array, wanted, dtype=dtype) == ""
    assert run.explain(array, np.random.default_rng(0).standard_normal(wanted.shape) * 16, dtype=dtype) == ""
    with pytest.raises(InputError, match=r"expected has 4 elements, \(4,\); array has 65536, \(256, 256\)"):
        run.explain(array, np.zeros(4))
    for name in ("rtol", "atol"):
        with pytest.raises(InputError, match=f"{name} = 'x': needs a number, 0 or more"):
            run.explain(array, wanted, **{name: "x"})
    with pytest.raises(InputError, match="bf17"):
        run.explain(array, wanted, dtype="bf17")
    with pytest.raises(InputError, match="before"):
        run.explain(array, wanted, "zeros")


def test_arrays_of_any_shape_and_any_numbers_are_taken():
    gpu = smemsim.Gpu("sm_90a")
    run = gpu.launch(".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }", block=32, progress=False)
    for shape in ((), (0,), (5,), (3, 4, 5), (1, 900), (900, 1), (4, 250)):
        wanted = np.random.default_rng(4).standard_normal(shape)
        for special in (0, np.nan, np.inf, 1e300):
            with np.errstate(all="ignore"):
                said = run.explain(np.asarray(np.flip(wanted) * special), wanted)
            assert (said[:22] == "all that is wrong is 0") if special == 0 and wanted.size > 5 else said == ""
    assert run.explain(np.zeros(64, [("a", "i4")]), np.ones(64, [("a", "i4")])) == ""
    assert run.explain(np.zeros(64) + 1j, np.zeros(64)) == ""


def test_the_command_line_says_it(tmp_path, wanted, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launch = json.loads((KERNELS / "gemm_specialized" / "launch.json").read_text())
    launch["args"][2]["map"]["swizzle"] = "none"
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    np.save("wanted.npy", wanted.view(np.uint16))
    command = ["run", str(KERNELS / "gemm_specialized" / "kernel.ptx"), "--launch", "launch.json", "--expect", "C=wanted.npy"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert "\n      C: the 16-byte chunks in each 64x64 box of the stores at lines 594 and 598 lie as if" in done.stdout
    told = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)["outputs"][0]
    assert told["explanation"].startswith("the 16-byte chunks in each 64x64 box")


# ---- operands that threads read with ldmatrix


def mma_gemm(a_chunk="0", b_chunk="0", row_of_b="0", trips=0, k=128):
    """D (64, 64) f32 = A (64, K) B (64, K)^T by one warp: cp.async, chunk c of row r at c ^ (r % 8), ldmatrix,
    mma.sync.

    `a_chunk`, `b_chunk` and `row_of_b` are XORed into the chunk and the row of each lane's address; `trips` fewer are
    made.
    """
    copies = "".join(
        f"""
    mad.lo.u32 %r10, %r2, {128}, 0; and.b32 %r11, %r2, 7; xor.b32 %r11, %r11, {c}; shl.b32 %r11, %r11, 4; add.u32 %r10, %r10, %r11;
    add.u32 %r10, %r10, {32 * 128 * half}; add.u32 %r12, %r2, {32 * half}; mul.lo.u32 %r12, %r12, {2 * k}; add.u32 %r12, %r12, {16 * c}; add.u32 %r12, %r12, %r7;
    cvt.u64.u32 %rd4, %r12; add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4; add.u32 %r10, %r10, %r1; add.u32 %r13, %r10, 8192;
    cp.async.cg.shared.global [%r10], [%rd5], 16; cp.async.cg.shared.global [%r13], [%rd6], 16;"""
        for half in (0, 1)
        for c in range(8)
    )

    def matrices(kind, at, step):
        """The four registers of an ldmatrix: of A rows at to at + 15, of B as well, and 16 k."""
        row, chunk, change = ("%r20", "%r21", a_chunk) if kind == "A" else ("%r22", "%r23", b_chunk)
        first = 30 if kind == "A" else 34
        moved = f"xor.b32 %r24, %r24, {row_of_b};" if kind == "B" else ""
        return f"""
    add.u32 %r24, {row}, {at}; {moved} add.u32 %r25, {chunk}, {2 * step}; and.b32 %r26, %r24, 7; xor.b32 %r25, %r25, {change}; xor.b32 %r25, %r25, %r26;
    shl.b32 %r25, %r25, 4; mad.lo.u32 %r24, %r24, 128, %r25; add.u32 %r24, %r24, %r1; add.u32 %r24, %r24, {8192 * (kind == "B")};
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r{first}, %r{first + 1}, %r{first + 2}, %r{first + 3}}}, [%r24];"""

    def sums(m, n):
        return ", ".join(f"%f{(m * 8 + n) * 4 + q}" for q in range(4))

    products = ""
    for step in range(4):
        for m in range(4):
            products += matrices("A", 16 * m, step)
            for n in range(4):
                products += matrices("B", 16 * n, step)
                for h in (0, 1):
                    d = sums(m, 2 * n + h)
                    products += f"""
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}}}, {{%r30, %r31, %r32, %r33}}, {{%r{34 + 2 * h}, %r{35 + 2 * h}}}, {{{d}}};"""
    stores = "".join(
        f"""
    st.global.v2.f32 [%rd7+{(16 * m + 8 * half) * 256 + 32 * n}], {{%f{(m * 8 + n) * 4 + 2 * half}, %f{(m * 8 + n) * 4 + 2 * half + 1}}};"""
        for m in range(4)
        for n in range(8)
        for half in (0, 1)
    )
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 d) {{
    .reg .b32 %r<40>; .reg .b64 %rd<8>; .reg .f32 %f<128>; .reg .pred %p;
    .shared .align 1024 .b8 tiles[16384];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [d];
    mov.u32 %r1, tiles; mov.u32 %r2, %tid.x; mov.u32 %r7, 0;
    {"".join(f"mov.f32 %f{n}, 0f00000000; " for n in range(128))}
    and.b32 %r20, %r2, 15; shr.u32 %r21, %r2, 4;
    and.b32 %r22, %r2, 7; and.b32 %r23, %r2, 16; shr.u32 %r23, %r23, 1; add.u32 %r22, %r22, %r23; shr.u32 %r23, %r2, 3; and.b32 %r23, %r23, 1;
TRIP:{copies}
    cp.async.wait_all; bar.sync 0;{products}
    bar.sync 0;
    add.u32 %r7, %r7, 128; setp.lt.u32 %p, %r7, {2 * k - 128 * trips};
    @%p bra TRIP;
    shr.u32 %r3, %r2, 2; and.b32 %r4, %r2, 3; mul.lo.u32 %r3, %r3, 256; mad.lo.u32 %r3, %r4, 8, %r3; cvt.u64.u32 %rd4, %r3; add.u64 %rd7, %rd3, %rd4;{stores}
    ret;
}}
"""


LANES = {
    "right": ({}, "^$"),
    "the swizzle left out of A": ({"a_chunk": "%r26"}, r"16-byte chunks of A are .*: chunk c \^ \(r % 8\) of row r stands where chunk c belongs"),
    "the other k of B": ({"b_chunk": "1"}, r"chunks of A are .* chunk c \^ 1 .*; or 16-byte chunks of B are .* chunk c \^ 1 of row r"),
    "the step of A left out": ({"a_chunk": "2"}, r"chunk c \^ 2 of row r stands where chunk c belongs"),
    "a trip less": ({"trips": 1}, r"all of it lacks the product of k = 64 to 127; look at where the K loop ends \(lines \d+ to \d+\): 4 steps of 16 are there, 8 are"),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_what_ldmatrix_reads_is_explained_by_the_arrays_whose_product_was_expected(name):
    changed, said = LANES[name]
    ptx = mma_gemm(**changed)
    gpu = smemsim.Gpu("sm_90a")
    a, b = np.random.default_rng(6).standard_normal((2, 64, 128)).astype(np.float16)
    d = gpu.array(np.zeros((64, 64), np.float32))
    run = gpu.launch(ptx, block=32, args=[gpu.array(a), gpu.array(b), d], progress=False)
    assert run.ok
    explanation = run.explain(d, a.astype(np.float64) @ b.astype(np.float64).T)
    assert re.search(said, explanation)
    if "chunk" in explanation:
        lines = ptx.splitlines()
        of_a, of_b = ([n for n, x in enumerate(lines, 1) if f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r{r}" in x] for r in (30, 34))
        assert f"lines {', '.join(map(str, of_a[:4]))}" in explanation
        assert (f"lines {', '.join(map(str, of_b[:4]))}" in explanation) == ("chunks of B" in explanation)


# ---- clusters


def partner(rank, *, use="st.shared::cluster.u32 [%r4], %r6;"):
    """A cluster of two in which each thread writes 100 * rank + tid into the other CTA's shared memory; `rank` makes
    %r3 of the own one in %r2.
    """
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 d) .reqnctapercluster 2, 1, 1 {{
    .reg .b32 %r<12>; .reg .b64 %rd<4>;
    .shared .align 16 .b8 sm[128];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r7, sm; mad.lo.u32 %r7, %r1, 4, %r7; st.shared.u32 [%r7], %r1;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    {rank}
    mapa.shared::cluster.u32 %r4, %r7, %r3; mad.lo.u32 %r6, %r2, 100, %r1;
    {use}
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    ld.shared.u32 %r8, [%r7]; ld.param.u64 %rd1, [d]; mad.lo.u32 %r9, %r2, 32, %r1; mul.wide.u32 %rd2, %r9, 4; add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r8;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("rank", "use", "told"),
    [
        ("mov.b32 %r3, %r2;", {}, True),
        ("mov.b32 %r3, %r2;", {"use": "add.u32 %r5, %r4, 0; st.shared::cluster.u32 [%r5+0], %r6;"}, True),
        ("xor.b32 %r3, %r2, 1;", {}, False),
        ("mov.b32 %r3, 0;", {}, False),  # that of one of the two is its own
        ("mov.b32 %r3, %r2;", {"use": "st.shared.u32 [%r7], %r6;"}, False),  # nobody uses it
    ],
)
def test_an_address_of_mapa_that_never_leaves_its_cta_is_worth_a_remark(rank, use, told):
    gpu = smemsim.Gpu("sm_90a")
    d = gpu.array(np.zeros((2, 32), np.uint32))
    run = gpu.launch(partner(rank, **use), block=32, grid=2, cluster=2, args=[d], progress=False)
    assert [f.code for f in run.remarks] == ["X019"] * told
    own, other = (100 * np.array([[0], [1]]) + np.arange(32), 100 * np.array([[1], [0]]) + np.arange(32))
    if told:
        assert run.ok
        assert (d.numpy() == own).all()
        said = run.explain(d, (other * 7 + own % 5).astype(np.uint32))
        assert "the mapa at line" in said
        assert "all 2 CTAs of the cluster give mapa their own rank" in said
    else:
        assert "mapa" not in run.explain(d, (other * 7 + own % 5).astype(np.uint32))


# ---- what a rule has to give, on both sides of each limit


def compared(found, wanted, before=None, **options):
    return Arrays(np.asarray(found), np.asarray(wanted), before, **{"relative": 0.0, "itemsize": 4} | options)


@pytest.mark.parametrize("relative", [0.0, 1 / 64])
@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(rtol=1 / 16), Tolerance(atol=0.5), Tolerance(rtol=1 / 16, atol=0.25)])
def test_elements_are_equal_up_to_the_larger_of_rounding_and_what_is_allowed(relative, tolerance):
    wanted = np.array([[0.0, 1.0, -2.0, 16.0]])
    scale = 5.5 if relative else 0.0  # the upper quartile of 0, 1, 2, 16
    room = [max(relative * (abs(x) + scale), tolerance.atol + tolerance.rtol * abs(x)) for x in wanted[0]]
    for sign in (1, -1):
        at, past = (wanted + sign * factor * np.array(room) for factor in (1, 1.01))
        assert not compared(at, wanted, relative=relative, tolerance=tolerance).wrong.any()
        assert compared(past, wanted, relative=relative, tolerance=tolerance).wrong[0].tolist() == [x > 0 for x in room]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_differ_from_all_others(odd):
    wanted = np.array([[1.0, -7.0, 3.0]])
    for kind in (np.float32, np.float64):
        other = np.array([[1.0, odd, 3.0]], kind)
        assert compared(other, wanted.astype(kind)).wrong.tolist() == [[False, True, False]]
        assert compared(wanted.astype(kind), other).count == 1
        assert compared(other, other).count == 0
        assert len({*compared(np.array([[np.nan, np.inf, -np.inf, 7.0]], kind), wanted[:, [0, 0, 0, 0]]).found[0].tolist()}) == 4
    assert compared(np.array([[1, 2**24 + 1]]), np.array([[1, 2**24]])).count == 1, "whole numbers are kept exactly"
    assert compared(np.array([[2e30]], np.float32), np.array([[1.0]], np.float32)).found.dtype == np.float64


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (4, 4), (5, 1), (10, 7), (11, 2)])
def test_tiles_are_whole_ones_in_their_places(rows, columns):
    found = np.arange(70).reshape(10, 7)
    wanted = np.where(np.isin(found, (0, 23, 24, 48, 69)), -1, found)
    arrays, tile = compared(found, wanted), Tile(rows, columns)
    places = [(r, c) for r in range(10 // rows) for c in range(7 // columns)]
    parts = {(r, c): (slice(r * rows, (r + 1) * rows), slice(c * columns, (c + 1) * columns)) for r, c in places}
    assert arrays.shape == (10, 7)
    assert (
        [[*at] for at in places if (found != wanted)[parts[at]].any()]
        == arrays.wrong_tiles(tile).tolist()
        == arrays.wrong_tiles(tile).tolist()
    )
    for at in places:
        assert arrays.tiles(found, tile, np.array([at])).tolist() == [found[parts[at]].ravel().tolist()]


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 4097, 20_000])
def test_places_of_wrong_elements_are_spread_over_all(count):
    wanted, found = np.zeros((160, 160)), np.zeros(160 * 160)
    found[np.arange(count) * 25_600 // count] = 1
    rows, columns = compared(found.reshape(160, 160), wanted).places
    flat = 160 * rows + columns
    assert (len(flat), found[flat].min()) == (min(count, 4096), 1)
    assert flat[0] == 0
    assert count == 1 or flat[-1] == np.flatnonzero(found)[-1]
    assert len(flat) == 1 or np.diff(flat).max() <= 2 * 25_600 / len(flat) + 1


@pytest.mark.parametrize("kinds", [2, 3, 10, 12, 1 << 20])
def test_chance_makes_elements_equal_as_often_as_pairs_of_them_are(kinds):
    """100 bits: 16 elements that are all different, 100 of two values; never of values of which nine in ten are one."""
    numbers = np.random.default_rng(1).integers(0, kinds, (200, 200)).astype(np.float64)
    arrays = compared(numbers, numbers + 1)
    least = next(count for count in range(1, 400) if arrays.telling(numbers, numbers, count))
    assert abs(least - max(16, 100 / np.log2(min(kinds, 4096)))) <= 0.06 * least
    for share, says in ((0.93, True), (0.96, False)):  # pairs are alike by its square, and 0.9 is the limit
        few = (np.random.default_rng(2).random((200, 200)) > share).astype(np.float64)
        assert compared(few, few + 1).telling(few, few, 100_000) == says


def test_a_rule_gives_all_elements_but_those_that_are_free():
    numbers = np.random.default_rng(3).permutation(64 * 64).reshape(64, 64).astype(np.float64)
    moved, free = numbers.copy(), np.zeros((64, 64), bool)
    assert compared(numbers, numbers[::-1]).gives(moved)
    moved[63, 63] += 1
    assert not compared(numbers, numbers[::-1]).gives(moved)
    free[63, 63] = True
    assert compared(numbers, numbers[::-1]).gives(moved, free)
    for rows, is_given in ((16, True), (17, False)):  # a quarter of the wrong elements
        free = np.arange(64)[:, None].repeat(64, 1) < rows
        assert compared(numbers, numbers[::-1]).gives(np.where(free, -1, numbers), free) == is_given
    for rows, is_given in ((48, True), (49, False)):  # three quarters, where the launch wrote nothing
        free = np.arange(64)[:, None].repeat(64, 1) < rows
        found = np.where(free, -5.0, numbers)
        for before, is_old in ((np.full((64, 64), -5.0), True), (np.full((64, 64), -4.0), False), (None, False)):
            assert compared(found, numbers[::-1] + 0.5, before).gives(numbers, free) == (is_given and is_old)
    assert not compared(numbers, numbers[::-1]).gives(numbers, np.ones((64, 64), bool))


# ---- numbers, and how far apart they may be


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 4095, 4096, 9000])
def test_a_typical_number_is_the_upper_quartile_of_those_that_are_finite(size):
    numbers = np.random.default_rng(size).standard_normal(size) * 100
    some = numbers[:: max(1, size // 4096)]
    assert typical(numbers) == pytest.approx(np.quantile(np.abs(some), 0.75), rel=1e-12)
    odd = np.concatenate([numbers[:4095], [np.inf, np.nan]][: 1 + (size < 4000)])
    assert typical(odd) == pytest.approx(np.quantile(np.abs(numbers[:4095]), 0.75), rel=1e-12)
    assert typical(np.array([])) == typical(np.array([np.nan])) == 0


@pytest.mark.parametrize("dtype", ["bf16", "f16", "tf32", "f32", "f64", "e4m3", "s32", None])
def test_rounding_leaves_a_unit_in_the_last_place_and_what_sums_leave(dtype):
    fmt = None if dtype is None else FORMATS[dtype]
    room = Rounding.of(fmt, 2.0**-10)
    if fmt is None or not fmt.is_float:
        assert (room, room.relative) == (Rounding(), 0)
        return
    bits = fmt.fraction_bits
    sums = max(2.0**-10 if bits <= 23 else 0.0, 2.0 ** (8 - max(bits, 23)))
    assert (room.own, room.sums, room.least) == (2.0**-bits, sums, 2.0 ** (fmt.smallest_exponent - bits))
    assert room.relative == max(room.own, room.sums)
    wanted = np.array([0.0, 1.0, -8.0, 8.0])
    allowed = room.own * abs(wanted) + room.sums * (abs(wanted) + 8.0) + room.least
    for sign in (1, -1):
        near, far = wanted + sign * 0.999 * allowed, wanted + sign * 1.01 * allowed
        assert (room.near(near, wanted).all(), room.near(far, wanted).any()) == (True, False)
        assert room.may_be_near(near, wanted, wanted)
        assert all(not room.may_be_near(far[n : n + 1], wanted[n : n + 1], wanted) for n in range(4))
    odd = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, np.nan]), np.array([np.nan, np.inf, np.inf, 1.0, np.inf, 1.0])
    assert room.near(*odd).tolist() == Tolerance(rtol=1.0, atol=9.0).near(*odd).tolist() == [True, True, False, False, False, False]
    assert not room.may_be_near(odd[0][3:4], odd[1][3:4], odd[1])
    assert room.may_be_near(odd[0][:2], odd[1][:2], odd[1])


def test_a_tolerance_is_that_of_numpy():
    a, b = np.array([1.5, 1.51, -2.0, 0.5]), np.array([1.0, 1.0, -1.0, 0.0])
    for rtol, atol in ((0.5, 0.0), (0.25, 0.25), (0.0, 0.5), (0.0, 1.0), (0.25, 0.75)):
        assert Tolerance(rtol, atol).near(a, b).tolist() == np.isclose(a, b, rtol=rtol, atol=atol).tolist()
    for bad in (-1e-9, np.inf, np.nan, True, "1"):
        for name in ("rtol", "atol"):
            with pytest.raises(InputError, match=rf"^{name} = "):
                Tolerance(**{name: bad})


def test_numbers_in_words_are_those_numbers():
    """Read back: runs, and classes modulo a power of two; "..." only for more than four runs."""

    def read(text, of):
        runs, _, period = text.partition(" mod ")
        if series := re.fullmatch(r"(\d+), (\d+), (\d+) \.\.\. (\d+)", text):
            one, two, three, last = map(int, series.groups())
            assert three - two == two - one
            return [*range(one, last + 1, two - one)]
        ends = [[int(n) for n in part.split(" to ")] for part in runs.split(", ")]
        every = {n for part in ends for n in range(part[0], part[-1] + 1)}
        return [n for n in range(of) if (n % int(period) if period else n) in every]

    for of in (4, 8, 9, 12, 16, 32):
        classes = [[n for n in range(of) if n % period in some] for period in (2, 4, 8) for some in ({0}, {1, 2}, {0, 3, 5}, {1, 3, 5, 7})]
        for numbers in [*classes, [0], [of - 1], [*range(of)], [*range(1, of, 2)], [*range(0, of, 3)], [0, 1, of - 1]]:
            if not numbers:
                continue
            text = numbers_told(numbers, of)
            parts = sum(n - 1 not in numbers for n in numbers)
            if text.endswith("..."):
                assert parts > 4
                shown = [*map(int, re.findall(r"\d+", text))]
                assert len(text.split(", ")) == 4
                assert shown == [n for n in numbers if n - 1 not in numbers or n + 1 not in numbers][: len(shown)]
            else:
                assert read(text, of) == numbers, text
            assert (" mod " in text or " ... " in text) <= (of > 8)
    assert [numbers_told([*range(1, of, 4)], of) for of in (16, 20)] == ["1 mod 4", "1, 5, 9 ... 17"]
    assert numbers_told([0, 2, 4, 6], 8) == "0, 2, 4, 6"


def test_loads_of_a_product_are_no_stores_prefetches_or_reductions():
    """Copies name their destination first. The kernel has each form, and executes none."""
    forms = {
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r2}], [%r1];": True,
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r2}], [%r1];": True,
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r2, %r2}], [%r1];": False,
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d1, {%r2, %r2}], [%r1];": False,
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d1, {%r2, %r2}];": False,
    }
    text = kernel(0, "\n".join(["bra END;", *forms, "END:"]))
    run = Gpu("sm_90a").launch(text, "k", block=32, args=[], progress=False)
    lines = [n for n, line in enumerate(text.splitlines(), 1) if forms.get(line)]
    assert explained_output._code(run).loads == f"lines {lines[0]} and {lines[1]}"


def in_some(change, *places):
    """A change of the 64x32 tiles that begin at these places alone."""

    def made(x):
        out = x.copy()
        for m, n in places:
            out[m : m + 64, n : n + 32] = change(x[m : m + 64, n : n + 32])
        return out

    return made


OF_TILES = {
    "rows": (in_some(lambda t: t[np.arange(64) * 5 % 64], (0, 32), (64, 96)), "in each 64x32 .* that is wrong rows lie in other places: row 1 has that of 5, row 2 has that of 10"),
    "columns": (in_some(lambda t: t[:, np.arange(32) * 5 % 32], (0, 32), (64, 96)), "in each 64x32 .* that is wrong columns lie in other places: column 1 has that of 5, column 2 has that of 10"),
    "elements, the first one too": (in_some(lambda t: t.ravel()[np.arange(2048) ^ 33].reshape(64, 32), (0, 32), (64, 96)), r"row.? .*m \^ 1|\[0, 0\] has what belongs in \[1, 1\]"),
    "the same way": (lambda x: with_tile(with_tile(x, (64, 32), x[:64, :32]), (64, 96), x[:64, 64:96]), r"tile at \[m, n\] is that of \[m - 64, n - 32\] \(2 tiles\)"),
    "up alone": (lambda x: with_tile(with_tile(x, (0, 32), x[64:, 32:64]), (0, 96), x[64:, 96:]), r"tile at \[m, n\] is that of \[m \+ 64, n\] \(2 tiles\)"),
    "to different places": (lambda x: with_tile(with_tile(x, (64, 32), x[:64, :32]), (0, 96), x[:64, 64:96]), r"tile at \[0, 96\] is that of \[0, 64\], at \[64, 32\] is that of \[0, 0\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TILES)
@pytest.mark.parametrize("dtype", ["s32", "f32"])
def test_what_was_done_to_some_tiles_is_found(name, dtype):
    rule, said = OF_TILES[name]
    wanted = drawn(4, dtype)
    assert re.search(said, told(rule(wanted), wanted, dtype))


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(101, 2000)], "101 to 1999"), ([(101, 2000), (2501, 2999)], "101 to 1999, 2501 to 2998"), ([(2, 6)], "2, 4 to 5"), ([(0, 4096)], "0 to 4095"),
        ([(100 * n + 1, 100 * n + 51) for n in range(40)], "1 to 2, 4 to 5, 7 to 8, ..."),
    ],
)  # fmt: skip
def test_elements_that_were_to_stay_are_left_out_of_the_places(runs, said):
    """Every third element is 0 before and after. Of many runs the first wrong elements are named."""
    wanted = np.abs(np.random.default_rng(5).standard_normal((1, 4096))).astype(np.float32) + 1
    wanted[:, ::3] = 0
    found = wanted.copy()
    for begin, end in runs:
        found[:, begin:end] = 0
    text = told(found, wanted, "f32", tiles=(), before=np.zeros_like(wanted))
    assert f"as before the launch, in elements {said};" in text if sum(end - begin for begin, end in runs) > 64 else not text
