"""A wrong output is explained by the one rule that gives all of it, and by nothing where none does: made-up arrays, and kernels with planted faults."""

import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from smemsim.cli import main
from smemsim.diagnose.result.arrays import Arrays, Tile
from smemsim.diagnose.result.explain import explain_arrays
from smemsim.diagnose.result.sums import explain_sums
from smemsim.errors import InputError
from smemsim.traces.launch_file import read_launch_file
from strategies import examples

KERNELS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "sm_90a" / "launches" / "kernels"
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
    """16-byte chunks of boxes as a store without swizzle has them: the table of the CUDA guide for each mode, not the model's formula."""
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


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_missing_swizzle_is_found_with_its_rule(swizzle, itemsize):
    wanted, columns = drawn(1, "f32"), int(swizzle[:-1]) // itemsize
    rule = {"128B": "(r % 8)", "64B": "(r // 2 % 4)", "32B": "(r // 4 % 2)"}[swizzle]
    for of_map, written in ((swizzle, "without a swizzle"), ("none", f"with swizzle {swizzle}")):
        tile = Tile(64, columns, f"64x{columns} box of the store at line 9", of_map, 9)
        said = told(chunks(64, columns, itemsize, swizzle)(wanted), wanted, "f32", [tile], itemsize=itemsize)
        assert f"as if shared memory was written {written}: chunk c of row r is where c ^ {rule} belongs" in said


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
    said = str(explain_sums(x, a, b, [64, 16]))
    assert how in said
    assert f"k = {k.start} to {k.stop - 1}" in said
    noise = Arrays(found + 8 * rng.standard_normal(found.shape), a @ b.T, relative=2.0**-9, itemsize=4)
    assert explain_sums(noise, a, b, [64, 16]) is None


def test_a_step_in_the_place_of_another():
    a, b = np.random.default_rng(5).standard_normal((2, 64, 128)).astype(np.float32)
    x = Arrays(a @ b.T - a[:, 32:48] @ b[:, 32:48].T + a[:, 64:80] @ b[:, 64:80].T, a @ b.T, relative=2.0**-9, itemsize=4)
    assert str(explain_sums(x, a, b, [64, 16])).startswith(
        "all of it lacks the product of k = 32 to 47 and has the product of k = 64 to 79 twice;"
    )


PRODUCTS = {
    "B A": lambda a, b: b.T @ a, "A B^T": lambda a, b: a @ b, "A^T B": lambda a, b: a.T @ b.T, "A A^T": lambda a, b: a @ a.T, "B B": lambda a, b: b.T @ b.T,
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products_of_the_operands_are_named(name):
    a, b = np.random.default_rng(2).standard_normal((2, 64, 64)).astype(np.float32)
    x = Arrays(PRODUCTS[name](a, b), a @ b.T, relative=2.0**-9, itemsize=4)
    assert str(explain_sums(x, a, b, [64])).startswith(f"it is {name}, not A B;")


# ---- kernels


def launched(name, change=lambda ptx: ptx, about=lambda args: None):
    """(run, its output's array, what that held before, its type) of a recorded launch with another PTX or other arguments."""
    launch = read_launch_file(KERNELS / name)
    args = json.loads(json.dumps(launch.about["args"]))
    about(args)
    launch = dataclasses.replace(launch, about={**launch.about, "args": args})
    gpu = smemsim.Gpu("sm_90a")
    arrays, passed = launch.placed(gpu)
    (output,) = launch.about["outputs"]
    before = arrays[output].numpy()
    grid, block, cluster = launch.shape
    shared = launch.about["shared_bytes"]
    run = gpu.launch(change(launch.ptx), grid=grid, block=block, cluster=cluster, shared_bytes=shared, args=passed, progress=False)
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
    "a step less": ({"about": set_to(5, "value", value=3)}, r"lacks the product of k = 192 to 255; look at where the K loop ends"),
    "operands exchanged": ({"about": exchange}, r"it is transposed.*exchange A and B"),
    "A for B": ({"about": lambda args: args.__setitem__(1, args[0])}, r"it is A A\^T, not A B"),
    "a store left out": ({"change": replaced((STORE, ""))}, r"columns 64 to 127 mod 128; look whether a store"),
    "a tile twice": ({"change": replaced((STORE, STORE.replace("%r20", "%r6")))}, r"column n of 64 to 127 mod 128 has what belongs in n - 64"),
    "coordinates exchanged": (
        {"change": replaced(("{%r263, %r267}", "{%r267, %r263}"), ("{%r266, %r267}", "{%r267, %r266}"))}, r"64x64 tile \(i, j\) is that of \(j, i\)",
    ),
    "stmatrix transposes": ({"change": replaced(("stmatrix.sync.aligned.m8n8.x4", "stmatrix.sync.aligned.m8n8.x4.trans"))}, r"in each 8x8 tile"),
}  # fmt: skip


@pytest.fixture(scope="module")
def wanted():
    _, array, _, _ = launched("gemm_specialized")
    return array.numpy()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_explained_with_its_line(name, wanted):
    how, said = FAULTS[name]
    run, array, before, dtype = launched("gemm_specialized", **how)
    assert re.search(said, run.explain(array, wanted, before, dtype=dtype))
    numbers = smemsim.to_float64(wanted.view(np.uint16), "bf16")  # the same from numbers of another type
    assert re.search(said, run.explain(array, numbers, dtype=dtype).replace(", as before the launch", ""))


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
    with pytest.raises(InputError, match="relative = 'x': needs a part of the largest number"):
        run.explain(array, wanted, relative="x")
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
