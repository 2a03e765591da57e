"""Layouts without bank conflicts: the search finds one wherever brute force does, and what it prints is free of
conflicts.
"""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings

import smemsim
from smemsim.cli import main

LANES = np.arange(32)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["solve", "--conflicts", *words])
    return done.exit_code, done.output


def is_free(accesses, place) -> bool:
    """Written anew, without the rule: words of each bank of each group of lanes."""
    for op, at, size in accesses:
        together = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
        for row in at:
            for first in range(0, len(row), together):
                group = [place(int(x)) for x in row[first : first + together]]
                words = [(x >> 2) + k for x in group for k in range(max(size >> 2, 1))]
                words = words if op == "atom" else list(set(words))
                if len(words) > len({w & 31 for w in words}):
                    return False
    return True


def brute_force(accesses, unit: int) -> bool:
    """Is there any XOR of 1 to 5 bits, anywhere, or any padding of rows of 32 to 4096 bytes?"""
    low = max(unit, 4).bit_length() - 1
    for bits in range(6):
        for base in range(low, 10):
            for shift in range(max(bits, 1), 13):
                mask = (1 << bits) - 1
                if is_free(accesses, lambda x, b=base, s=shift, m=mask: x ^ ((x >> (b + s)) & m) << b):
                    return True
    return any(
        is_free(accesses, lambda x, p=p, q=q: x + x // p * q)
        for p in [1 << n for n in range(5, 13)]
        for q in range(unit, 129, unit)
        if p % unit == 0
    )


def drawn(random: np.random.Generator) -> list[tuple[str, np.ndarray, int]]:
    """Accesses of a tile by rows, columns or blocks, with conflicts more often than not."""
    pitch, out = 32 << int(random.integers(0, 6)), []
    for _ in range(int(random.integers(1, 4))):
        size = int(random.choice([2, 4, 8, 16]))
        rows = 1 << int(random.integers(0, 6))
        column = LANES // rows * size + int(random.integers(0, 4)) * size
        at = LANES % rows * pitch * int(random.choice([1, 1, 2])) + column
        out.append((str(random.choice(["ld", "st", "st", "atom"])), at[None, :] % (1 << 14) // size * size, size))
    return out


def test_the_search_finds_a_layout_wherever_brute_force_does() -> None:
    """50 patterns with conflicts, drawn from a seed; 200 by night."""
    wanted = 200 if settings().max_examples > 50 else 50
    random, hard, possible = np.random.default_rng(20), 0, 0
    while hard < wanted:
        accesses = drawn(random)
        answer = smemsim.conflict_free_layouts([smemsim.BankAccess(op, at, size) for op, at, size in accesses])
        if answer.now == answer.ideal:
            continue
        hard += 1
        for one in answer.layouts:
            # Loads of 8 and 16 bytes may take less than brute force thinks: pairs of lanes go together.
            assert is_free([a for a in accesses if a[0] != "ld" or a[2] < 8], one)
        if answer.layouts:
            possible += 1
        else:
            assert not brute_force(accesses, max(size for _, _, size in accesses))
    assert possible > wanted // 3


def test_reads_and_writes_of_a_tile_are_freed_at_once() -> None:
    code, said = run("--access", "ldmatrix.x4:16:lane % 16 * 128 + lane // 16 * 16", "--access", "st:16:lane * 16", "--pitch", "128")
    assert code == 0
    assert "36" not in re.findall(r"ldmatrix.*?(\d+) +4$", said, re.MULTILINE)
    assert "offset ^ (offset >> 3 & 0x70)" in said
    assert "gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=8, order=[1, 0])" in said
    assert "16 bytes after every 128" in said
    assert "8 wavefronts instead of 36" in said


def test_tma_keeps_to_its_own_swizzles() -> None:
    code, said = run("--access", "ld:4:lane * 128 + step * 4", "--steps", "32", "--tma", "--json")
    assert (code, json.loads(said)["layouts"]) == (1, [])
    assert json.loads(said)["nearest"]["swizzle"] == [3, 4, 3]
    free = json.loads(run("--access", "ld:4:lane * 128 + step * 4", "--steps", "32", "--json")[1])
    assert free["layouts"][0]["swizzle"] == [5, 2, 5]


def test_a_layout_says_where_rows_and_columns_lie() -> None:
    """The same access without a swizzle and through one."""
    words = ("--access", "ldmatrix.x4:16:lane % 16, lane // 16 * 8", "--dtype", "bf16")
    assert run("--layout", "Sw<3,4,3> o (64,64):(64,1)", *words) == (0, run("--layout", "Sw<3,4,3> o (64,64):(64,1)", *words)[1])
    assert "no access has bank conflicts" in run("--layout", "Sw<3,4,3> o (64,64):(64,1)", *words)[1]
    assert "Swizzle<3,3,3>" in run("--layout", "(64,64):(64,1)", *words)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--access is missing"),
        (["--access", "ld:4:lane * x"], "only numbers, lane, step"),
        (["--access", "ld:4:lane // 0"], "divides by 0"),
        (["--access", "ld:3:lane"], "needs one of 1, 2, 4, 8, 16 bytes"),
        (["--access", "ld:4:lane"], "no multiple of the 4 bytes"),
        (["--access", "lod:4:lane * 4"], "did you mean 'ld'"),
        (["--access", "ld:4:0 - lane * 4"], "before the buffer"),
        (["--access", "ld:4:__import__('os')"], "only numbers"),
        (["--access", "ld:4:lane * 4", "--rows", "8"], "--rows: not an option of --conflicts"),
        (["--access", f"ld:4:lane * 4 {'+ 0' * 200}"], "at most 400"),
        (["--access", "ld:4:lane * 4", "--steps", "65"], "steps = 65: at most 64"),
        (["--access", "ld:4:lane *"], "not an expression of lane and step"),
        (["--access", "ld:4:lane, step"], "needs a byte offset"),
        (["--access", "ld:4:lane * 4", "--layout", "(8,8):(8,1)", "--dtype", "bf16"], "needs row, column"),
        (["--access", "ld:4:lane << lane + 1"], "shifts by less than 0 or more than 31"),
        (["--access", "ld:4:1 << 0 - lane"], "shifts by less than 0 or more than 31"),
        (["--access", "ld:4:lane * 8388608 * 1024"], "beyond shared memory"),
    ],
)
def test_mistakes_are_said(words: list[str], said: str) -> None:
    code, output = run(*words)
    assert code == 2
    assert said in output


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: smemsim.BankAccess("ld", np.zeros((2, 2, 2)), 4), "not an array of shape (2, 2, 2)"),
        (lambda: smemsim.BankAccess("ld", np.zeros((1, 33)), 4), "with at most 32 lanes"),
        (lambda: smemsim.BankAccess("ld", np.zeros((0, 32)), 4), "not an array of shape (0, 32)"),
        (lambda: smemsim.BankAccess("ld", np.zeros((2, 32)), 4, [1, 2, 3]), "one for each of 2 warps"),
        (lambda: smemsim.BankAccess("ld", np.zeros((2, 32)), 4, [[1, 2]]), "one for each of 2 warps"),
        (lambda: smemsim.conflict_free_layouts([]), "accesses: none"),
        (lambda: smemsim.conflict_free_layouts(["ld"]), "needs a list of BankAccess"),
        (lambda: smemsim.conflict_free_layouts([smemsim.BankAccess("ld", [[0]], 4)], pitch=0), "pitch"),
        (lambda: smemsim.conflict_free_layouts([smemsim.BankAccess("ld", [[0]], 4)], most=0), "most"),
    ],
)
def test_what_is_no_access_is_refused(make, said: str) -> None:
    with pytest.raises(smemsim.InputError) as refused:
        make()
    assert said in str(refused.value)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_groups_of_lanes_without_an_active_one_cost_nothing(size: int) -> None:
    """The ideal of masks, counted one lane after another; lanes that are not given are not there."""
    together = min(32, 128 // size)
    for active in (0, 1, 0x80000000, 0x80000001, 0x00010100, 0x0F0F0F0F, 0xFFFFFFFF):
        access = smemsim.BankAccess("st", [np.arange(32) * size], size, active)
        assert access.ideal == len({lane // together for lane in range(32) if active >> lane & 1})
        assert access.cost == access.ideal
        few = smemsim.BankAccess("st", [np.arange(8) * size], size, active)
        assert few.ideal == len({lane // together for lane in range(8) if active >> lane & 1}) == few.cost


def test_layouts_of_the_hardware_come_first_and_as_many_are_kept_as_are_wanted() -> None:
    column = smemsim.BankAccess("ldmatrix", [[row * 128 for row in range(8)]], 16)
    two = smemsim.BankAccess("st", [[row * 128 for row in range(2)]], 16)
    assert [str(one.swizzle) for one in smemsim.conflict_free_layouts([two], most=3).layouts] == [f"Swizzle<{n},4,3>" for n in (1, 2, 3)]
    assert smemsim.conflict_free_layouts([column], tma=True, most=1).tried == 4
    assert [len(smemsim.conflict_free_layouts([two], most=n).layouts) for n in (1, 2, 5)] == [1, 2, 5]
    assert smemsim.conflict_free_layouts([column], pitch=1).layouts == smemsim.conflict_free_layouts([column], pitch=1, most=8).layouts


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_plans_count_conflicts_by_the_same_rule(swizzle: str) -> None:
    """Eight rows of one chunk, as the tensor core reads them and as ldmatrix does from any row on."""
    choice = next(c for c in smemsim.plans(64, 64, arch="sm_90a", dtype="bf16", major="K") if c.as_dict()["swizzle"] == swizzle)
    found = choice.as_dict()["conflicts"]
    assert found["mma"] == 1
    tile = LANES[:8, None] * {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    free = smemsim.conflict_free_layouts([smemsim.BankAccess("ldmatrix", tile.T, 16, 0xFF)], tma=True)
    assert (
        str(free.layouts[0].swizzle)
        == {
            "none": "Swizzle<0,4,3>",
            "32B": "Swizzle<1,4,3>",
            "64B": "Swizzle<2,4,3>",
            "128B": "Swizzle<3,4,3>",
        }[swizzle]
    )


@pytest.mark.parametrize(
    ("access", "passes", "rows"),
    [
        ("ld:4:lane * 8", 2, ["0-1", "!16-17"]),
        ("ld:4:lane * 0", 1, ["0-31"]),
        ("atom:4:lane % 2 * 128", 32, ["0", "!1", "!31"]),
        ("ldmatrix.x4:16:lane % 16 * 80 + lane // 16 * 16", 4, ["13", "27"]),
        ("ld:8:lane // 2 * 8", 1, ["0-3"]),
    ],
)
def test_banks_are_drawn_pass_by_pass(access: str, passes: int, rows: list[str]) -> None:
    """As many rows as passes; a further pass of the same lanes is marked."""
    done = CliRunner().invoke(main, ["show", "banks", "--access", access])
    assert len(re.findall(r"^ *pass \d+ ", done.output, re.MULTILINE)) == passes
    assert all(f" {row}" in done.output for row in rows)
    assert done.exit_code == ("!" in done.output.replace("! a further pass", ""))
    assert CliRunner().invoke(main, ["show", "banks", "--access", access, "--svg"]).output.startswith("<svg")


def test_what_banks_do_not_take_is_said() -> None:
    for words, said in (([], "--access is missing"), (["--access", "ld:4:lane * 4", "--rows", "8"], "--rows: not of banks")):
        done = CliRunner().invoke(main, ["show", "banks", *words])
        assert done.exit_code == 2
        assert said in done.output
    assert "--access" in CliRunner().invoke(main, ["show", "patterns", "--access", "ld:4:lane * 4"]).output
