"""Plans against the worked examples of the documents, against kernels that people run, and against what must hold of
every plan.
"""

import functools
import json
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute
import smemsim
from places import ROOT
from smemsim import IllegalPlan, InputError, InternalError, Severity, SmemDescriptor, Unmodelled, operand_addresses, plan, plans
from smemsim.campaign.spaces import plans as sound
from smemsim.cli import main
from smemsim.core.layout.cute import byte_axes
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.swizzles import MODES
from smemsim.core.words.tensor_map.text import find_calls
from smemsim.planning import LANGUAGES, Arrangement, fit, make
from strategies import examples

CONFIGS = {c["id"]: c for c in json.loads((ROOT / "tests" / "data" / "configs.json").read_text())}


@functools.cache
def drawn(seed):
    """The first legal plan of a random sequence."""
    return sound.legal(random.Random(seed))[1]


legal = st.integers(0, 400).map(drawn)


# ---- the SBO/LBO blog: constants and tensor maps


@pytest.mark.parametrize("block_k", [64, 128])
@pytest.mark.parametrize("block_mn", [64, 128, 256])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_the_sbo_lbo_blogs_constants_and_maps(major, swizzle, arch, block_mn, block_k):
    matrix = (3 * block_mn, 2 * block_k)
    p = plan(block_mn, block_k, dtype="bf16", major=major, swizzle=swizzle, arch=arch, matrix=matrix)
    slab = (16 if swizzle == "none" else 128) // 2
    height, along = (block_mn, block_k) if major == "K" else (block_k, block_mn)
    near = 8 * (128 // 8) if swizzle == "none" else 8 * (1024 // 8)
    far = height // 8 * near
    lbo, sbo = {("K", "none"): (far, near), ("K", "128B"): (16, near), ("MN", "none"): (near, far), ("MN", "128B"): (far, near)}[
        major, swizzle
    ]
    assert (p.leading_byte_offset, p.stride_byte_offset) == (lbo, sbo)
    width, lines = matrix[::-1] if major == "K" else matrix
    two = p.loop.tensor_map
    assert (two.global_dim, two.global_strides, two.box_dim) == ((width, lines), (2 * width,), (slab, height))
    assert len(p.loop.issues) == along // slab
    if along == slab:
        assert p.box is p.loop
    else:
        three = p.box.tensor_map
        assert three.global_dim == (slab, lines, width // slab)
        assert three.global_strides == (2 * width, 2 * slab)
        assert three.box_dim == (slab, height, along // slab)


# ---- the PTX ISA's figures 166 to 170

FIGURES = {  # rows, k, type, major, swizzle, stack, the tile or one operand as printed, LBO and SBO as encoded
    "166": (16, 16, "tf32", "K", "none", "strided", "((8,2),(4,4)):((4,32),(1,64))", 16, 8),
    "168": (16, 16, "bf16", "MN", "none", "contiguous", "Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))", 16, 8),
    "169": (32, 16, "bf16", "MN", "32B", "contiguous", "Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))", 16, 32),
    "170": (64, 16, "bf16", "MN", "64B", "contiguous", "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 32, 64),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_figures_of_the_ptx_isa(figure):
    rows, k, dtype, major, swizzle, stack, printed, lbo, sbo = FIGURES[figure]
    for arch in ("sm_90a", "sm_100a") if dtype != "tf32" else ("sm_90a",):
        p = plan(rows, k, dtype=dtype, major=major, swizzle=swizzle, arch=arch, stack=stack, side="b", n=rows)
        assert printed in (str(p.cute.tile), p.canonical[1])
        assert (p.lbo.encoded, p.sbo.encoded) == (lbo, sbo)
        assert (p.lbo.used, p.sbo.used) == (True, True)


def test_figure_167_has_the_printed_strides_and_a_layout_that_does_not_alias():
    p = plan(16, 16, dtype="tf32", major="K", swizzle="32B", arch="sm_90a", side="b", n=16)
    assert (p.lbo.encoded, p.lbo.used, p.sbo.bytes, p.sbo.encoded) == (1, False, 64 * 4, 16)
    # as printed, for the 8 of K that one instruction reads
    assert p.canonical[1] == "Swizzle<1,4,3> o ((8,2),(4,2)):((8,64),(1,4))"
    assert (
        str(p.cute.tile) == "Swizzle<1,4,3> o ((8,2),(8,2)):((8,64),(1,128))"
    )  # the figure prints (4,4):(1,4), in which elements share bytes
    assert p.cute.tile.size == p.cute.tile.cosize == 256


def test_symbolic_canonical_layouts_are_the_ptx_isas_table():
    table = {
        ("MN", "none"): "Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))",
        ("MN", "32B"): "Swizzle<1,4,3> o ((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))",
        ("MN", "64B"): "Swizzle<2,4,3> o ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))",
        ("MN", "128B"): "Swizzle<3,4,3> o ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))",
        ("K", "none"): "Swizzle<0,4,3> o ((8,m),(T,2)):((1T,SBO),(1,LBO))",
        ("K", "32B"): "Swizzle<1,4,3> o ((8,m),(T,2)):((2T,SBO),(1,T))",
        ("K", "64B"): "Swizzle<2,4,3> o ((8,m),(T,2)):((4T,SBO),(1,T))",
        ("K", "128B"): "Swizzle<3,4,3> o ((8,m),(T,2)):((8T,SBO),(1,T))",
    }
    for (major, swizzle), printed in table.items():
        assert plan(64, 64, dtype="bf16", major=major, swizzle=swizzle, arch="sm_90a").canonical[0] == printed


@examples(40)
@given(legal)
def test_the_canonical_layout_with_numbers_is_where_the_descriptor_reads(p):
    tile, wish = p.arrangement, p.wish
    assume(wish.major == "K" or tile.instruction.rows % tile.inner == 0)
    layout = cute.parse(p.canonical[1])
    got = operand_addresses(p.words[0, 0], arch=wish.machine.name, dtype=wish.fmt, major=wish.major, rows=tile.instruction.rows,
                            k=tile.instruction.k, packing=tile.instruction.packing)  # fmt: skip
    in_chunk = np.arange(tile.instruction.k if wish.major == "K" else tile.instruction.rows) % tile.per_chunk
    # bytes of padded elements stand together
    data = in_chunk * (wish.fmt.bits if wish.fmt.bits < 8 else tile.element_bits) // 8
    data = data[None, :] if wish.major == "K" else data[:, None]
    bits = tile.element_bits
    chunked = layout.functor(wish.base_address + layout.offsets() // tile.per_chunk * 16)
    assert bits * tile.per_chunk == 128
    np.testing.assert_array_equal(got, chunked + data)


# ---- the operand layout note, and the descriptor blog


def test_the_first_mma_finds_its_units_in_the_notes_table():
    p = plan(8, 64, dtype="bf16", major="K", arch="sm_100a", side="b", n=8)
    got = operand_addresses(p.words[0, 0], arch="sm_100a", dtype="bf16", major="K", rows=8, k=16)[:, ::8] - 1024
    order = [[2 * row + unit for _, unit in sorted((int(a), unit) for unit, a in enumerate(line))] for row, line in enumerate(got)]
    assert order == [[0, 1], [3, 2], [4, 5], [7, 6], [8, 9], [11, 10], [12, 13], [15, 14]]
    assert [sorted(int(a) % 128 // 16 for a in line)[0] for line in got] == [0, 0, 2, 2, 4, 4, 6, 6]


# fmt: off
BLOG = {
    "K": {"swizzle": "128B", "code": 2, "sbo": 64, "lbo": 1, "order": (0, 1), "issues": 2, "box": (64, 128), "stack": (1024, 16384),
          "tile": "((8,16),(64,2)):((64,512),(1,8192))", "partitioned": "((64,16),(2,(4,2))):((64,1),(4096,(16,8192)))",
          "units": "((64,2),(2,(4,2))):((8,1),(512,(2,1024)))", "canonical": "((8,8),(1,2)):((8,64),(0,1))",
          "descriptors": "(2,(4,2)):(512,(2,1024))",
          "advance": [[0, 32, 64, 96, 16384, 16416, 16448, 16480], [8192, 8224, 8256, 8288, 24576, 24608, 24640, 24672]]},
    "MN": {"swizzle": "64B", "code": 4, "sbo": 32, "lbo": 512, "order": (1, 0), "issues": 4, "box": (32, 128), "stack": (512, 8192),
           "tile": "((32,4),(8,16)):((1,4096),(32,256))", "partitioned": "(((32,2),16),(2,8)):(((1,4096),32),(8192,512))",
           "units": "(((4,2),16),(2,8)):(((1,512),4),(1024,64))", "canonical": "((4,2),(8,2)):((1,512),(4,32))",
           "descriptors": "(2,8):(1024,64)",
           "advance": [[0, 1024, 2048, 3072, 4096, 5120, 6144, 7168], [16384, 17408, 18432, 19456, 20480, 21504, 22528, 23552]]},
}
# fmt: on


@pytest.mark.parametrize("major", BLOG)
def test_every_step_of_the_descriptor_blog(major):
    printed = BLOG[major]
    p = plan(128, 128, dtype="bf16", major=major, swizzle=printed["swizzle"], arch="sm_100a", m=64)
    for name in ("tile", "partitioned", "units", "canonical", "descriptors"):
        assert str(getattr(p.cute, name)).rpartition(" o ")[2] == printed[name]
    assert p.cute.order == printed["order"]
    assert (p.cute.lbo, p.cute.sbo) == (16 * printed["lbo"], 16 * printed["sbo"])
    assert (p.lbo.encoded, p.sbo.encoded, p.descriptor().layout_code) == (printed["lbo"], printed["sbo"], printed["code"])
    assert p.advances.tolist() == printed["advance"]
    assert (len(p.loop.issues), p.loop.tensor_map.box_dim) == (printed["issues"], printed["box"])
    assert (p.arrangement.strided_bytes, p.arrangement.contiguous_bytes) == printed["stack"]
    first = p.words[0, 0]
    np.testing.assert_array_equal(p.words, first + (p.advances // 16).astype(np.uint64))


# ---- kernels that people run

# What is not a stack of atoms in one order, or no MMA's operand.
NOT_PLAIN = {
    "JAX-WGMMA-MN-128B-LARGE": "64 x 64 squares, each a tile of its own: along K, then M, then K again",
    "TILUS-CP-K-128B": "tcgen05.cp copies it, as 32-bit words; no MMA reads it",
}
# Boxes of the same bytes with dimensions of size one for batches and heads, or issued in other pieces.
OTHER_BOXES = {
    "TK-MN-64B": "five dimensions, two of them batches",
    "TK-K-32B": "five dimensions, two of them batches",
    "TK-H100-BF16-B": "five dimensions, two of them batches",
    "FMLA-QROPE-SW64": "five dimensions, two of them batches",
    "SAGE-64": "four dimensions, two of them batches",
}
LBO_FIELD = 0x3FFF << 16


def planned(c):
    mn, k = (c["shared_layout"][axis][-1][1] for axis in ("mn", "k"))
    rows = c["rows"]
    side = "a" if rows in ((64,) if c["arch"] == "sm_90a" else (64, 128)) else "b"
    more = {}
    if "matrix" in c:
        m = c["matrix"]
        more = {"matrix": (m["mn"], m["k"]), "at": tuple(m["tile_origin"]), "pitch_bytes": m["pitch_bytes"]}
    return plan(*c["tile"], dtype=c["dtype"], major=c["major"], swizzle=c["swizzle"], arch=c["arch"], side=side,
                stack="MN" if mn < k else "K", **{"m" if side == "a" else "n": rows}, **more)  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CONFIGS if n not in NOT_PLAIN])
def test_planning_the_tile_of_a_kernel_gives_its_descriptors(name):
    c = CONFIGS[name]
    p = planned(c)
    word, mine = int(c["word"], 16), p.descriptor().advance(-1024).encode()
    unused = 0 if p.lbo.used else LBO_FIELD  # sources write many things where the instruction does not look
    assert mine & ~unused == word & ~unused
    assert p.advances[0].tolist() == c["k_step_offsets"]
    assert p.advances[:, 0].tolist() == c["mn_block_offsets"]


@pytest.mark.parametrize("name", [n for n, c in CONFIGS.items() if "tensor_map" in c and n not in {**NOT_PLAIN, **OTHER_BOXES}])
def test_planning_the_tile_of_a_kernel_gives_its_boxes(name):
    c = CONFIGS[name]
    p, given = planned(c), CONFIGS[name]["tensor_map"]
    loads = p.loop if len(given["box_dim"]) == 2 else p.box
    for field in ("global_dim", "global_strides", "box_dim"):
        assert list(getattr(loads.tensor_map, field)) == given[field]
    assert [[offset, list(at)] for offset, at in loads.issues] == [issue[:2] for issue in c["tma_issues"]]


# ---- what must hold of every plan


def test_random_correct_plans_raise_no_alarm():
    part = sound.SPACE.run(5, 0)
    assert [trouble.what for trouble in part.troubles] == []
    assert part.cases >= 30
    assert sum("box" in sound.forms(drawn(seed)) for seed in range(60)) > 20


def test_drawn_plans_have_whole_steps_of_k_from_one_on():
    """A step of K is 32 bytes: two chunks, packed or padded. Some plans have one step, and most have several."""
    steps = []
    for seed in range(200):
        asked = sound.draw(random.Random(seed))
        sizes = {2 * FORMATS[asked["dtype"]].elements_per_chunk(packing) for packing in ("packed", "padded")}
        steps.append(min(asked["k"] / size for size in sizes if asked["k"] % size == 0))
    assert 1 in steps
    assert sum(n > 1 for n in steps) > 100


@examples(40)
@given(legal)
def test_advances_are_cutes_descriptor_tensor(p):
    tile, bits = p.cute.tile, p.arrangement.element_bits
    layout = cute.parse(str(tile).rpartition(" o ")[2])
    if not isinstance(layout.shape[0], tuple):
        return
    divided = cute.zipped_divide(layout, p.cute.subtile)
    units = cute.recast(divided, 128 // bits)
    descriptors = cute.Layout(units.shape[1], units.stride[1])
    np.testing.assert_array_equal(descriptors.offsets() * 16, p.advances)


@examples(20)
@given(legal)
def test_the_loop_and_the_single_box_put_the_same_bytes_at_the_same_places(p):
    assume(p.box is not None)
    memories = [smemsim.check(p.scenario(form)).machine.memory for form in ("loop", "box")]
    loop, box = (memory.source(np.arange(memory.size)) for memory in memories)
    assert (loop >= 0).sum() >= p.loop.bytes
    np.testing.assert_array_equal(loop, box)
    assert p.loop.bytes == p.box.bytes


@examples(40)
@given(legal)
def test_the_tile_layout_is_one_to_one_and_as_large_as_its_atoms(p):
    tile = p.cute.tile
    assert tile.size == tile.cosize == p.wish.rows * p.wish.k
    assert p.tile_bytes * 8 == tile.size * p.arrangement.element_bits


@examples(12)
@example(functools.partial(plan, 128, 128, dtype="f16", major="MN", swizzle="128B", arch="sm_90a", stages=2, matrix=(176, 359), at=(0, 47),
                           base_address=30592))  # fmt: skip
@given(legal.map(lambda p: lambda: p))
def test_a_field_is_used_exactly_when_another_value_reads_other_bytes(planned):
    p = planned()
    for name, field in (("leading_byte_offset", p.lbo), ("stride_byte_offset", p.sbo)):
        scenario = p.scenario()
        for step in scenario["step"]:
            if step["op"] == "mma":
                d = smemsim.SmemDescriptor.decode(step[p.wish.side]["word"], arch=p.wish.machine.name)
                fields = {n: getattr(d, n) for n in ("leading_byte_offset", "stride_byte_offset")} | {name: field.bytes + 64}
                step[p.wish.side]["word"] = smemsim.SmemDescriptor(arch=d.arch, swizzle=d.swizzle, **fields).encode()
        wrong = [
            f for f in smemsim.check(scenario).findings if f.severity in (Severity.TRAP, Severity.WRONG)
        ]  # luck (H803): the same bytes
        assert bool(wrong) == field.used


@examples(30)
@given(legal)
def test_bank_conflicts_are_those_of_the_addresses_that_the_mma_reads(p):
    tile, wish = p.arrangement, p.wish
    got = operand_addresses(p.words.ravel(), arch=wish.machine.name, dtype=wish.fmt, major=wish.major, rows=tile.instruction.rows,
                            k=tile.instruction.k, packing=tile.instruction.packing).astype(np.int64)  # fmt: skip
    if wish.major == "MN":
        got = got.transpose(0, 2, 1)
    chunks = got[:, :, :: tile.per_chunk] // 16 % 8  # (instruction, line, chunk)
    eights = chunks.reshape(len(chunks), -1, 8, chunks.shape[2])
    counts = max(int((eights == group).sum(axis=2).max()) for group in range(8))
    assert p.conflicts.mma == counts
    assert p.conflicts.mma <= p.conflicts.column <= 8


def test_descriptors_are_those_of_the_blocks_steps_and_stages_that_a_plan_has():
    p = plan(128, 64, dtype="bf16", major="K", swizzle="128B", arch="sm_90a", stages=2)
    assert [p.descriptor(step=n).encode() for n in range(4)] == p.words[0].tolist()
    for asked, most in (({"step": 4}, 4), ({"step": 9}, 4), ({"step": -1}, 4), ({"block": 2}, 2), ({"stage": 2}, 2)):
        [(name, value)] = asked.items()
        with pytest.raises(InputError, match=f"^{name} = {value}: the plan has {most}$"):
            p.descriptor(**asked)


def test_swizzles_spread_lines_over_all_banks_and_wide_lines_over_fewer():
    lines = {c.swizzle: c.plan.conflicts for c in plans(64, 64, dtype="bf16", major="K", arch="sm_90a") if c.stack == "strided"}
    assert {name: (c.mma, c.column, c.line) for name, c in lines.items()} == {
        "none": (1, 1, 8), "32B": (1, 1, 4), "64B": (1, 1, 2), "128B": (1, 1, 1),
    }  # fmt: skip


@pytest.mark.parametrize("swap", ["strides", "offset"])
def test_a_plan_that_is_wrong_is_never_shown(monkeypatch, swap):
    if swap == "strides":
        right = Arrangement.strides.fget
        monkeypatch.setattr(Arrangement, "strides", property(lambda self: right(self)[::-1]))
    else:
        right = Arrangement.offset
        monkeypatch.setattr(Arrangement, "offset", lambda self, block, step: right(self, block, step) + 16 * (step > 0))
    with pytest.raises(InternalError, match="internal error"):
        plan(128, 64, dtype="bf16", major="MN", swizzle="64B", arch="sm_90a")


def test_the_simulation_itself_stops_a_wrong_plan(monkeypatch):
    right = make.scenario_of

    def wrong(*args, **options):
        scenario = right(*args, **options)
        scenario["step"][0]["at"][0][0] += 64
        return scenario

    monkeypatch.setattr(make, "scenario_of", wrong)
    with pytest.raises(InternalError, match="does not pass its own check"):
        plan(128, 64, dtype="bf16", major="K", arch="sm_90a")


# ---- what the hardware cannot do

K = {"dtype": "bf16", "major": "K", "arch": "sm_100a"}
ILLEGAL = {
    "K-major 32-byte atoms": ((128, 64), {**K, "swizzle": "128B_ATOM_32B"}, "MN-major 32-bit"),
    "no 32-byte atoms on wgmma": ((64, 64), {**K, "arch": "sm_90a", "swizzle": "128B_ATOM_32B"}, "descriptors have"),
    "MN-major fp8 on wgmma": ((128, 64), {**K, "dtype": "e4m3", "major": "MN", "arch": "sm_90a"}, "16-bit types only"),
    "MN-major tf32 with 16-byte atoms": ((64, 64), {**K, "dtype": "tf32", "major": "MN"}, "128B_ATOM_32B"),
    "MN-major mxf4": ((128, 256), {**K, "dtype": "e2m1", "major": "MN"}, "K-major operands only"),
    "rows not a multiple of 8": ((100, 64), K, "multiple of 8"),
    "tile narrower than the atom": ((128, 32), K, "64 bf16 elements"),
    "rows cut an MN-major atom": ((96, 64), {**K, "major": "MN"}, "multiple of 64"),
    "K is no multiple of the instruction's": ((64, 8), {**K, "swizzle": "none", "side": "b"}, "multiple of 16"),
    "rows that M does not divide": ((96, 64), K, "multiple of that"),
    "no such M": ((128, 64), {**K, "m": 96}, "M = 64, 128"),
    "no such N": ((120, 64), {**K, "side": "b", "n": 12}, "n = 12"),
    "N that another M has": (
        (120, 64),
        {**K, "side": "b", "m": 128, "n": 12, "cta_group": 2},
        "with M = 128 has N = 16 to 256 in steps of 16",
    ),
    "no such N of s8": ((80, 64), {**K, "dtype": "s8", "arch": "sm_90a", "side": "b", "n": 40}, "n = 40"),
    "wgmma has M 64": ((128, 64), {**K, "arch": "sm_90a", "m": 128}, "M = 64"),
    "a pair on Hopper": ((128, 64), {**K, "arch": "sm_90a", "cta_group": 2}, "sm_100a"),
    "M 64 of a pair": ((32, 64), {**K, "cta_group": 2, "m": 64}, "M = 128, 256"),
    "larger than shared memory": ((512, 256), K, "227 KiB"),
    "too many stages": ((128, 64), {**K, "stages": 20}, "20 stages"),
    "far too large": ((65536, 65536), K, "227 KiB"),
    "base off 128 B": ((128, 64), {**K, "base_address": 0x410}, "128 B"),
    "base in the reserved KiB": ((128, 64), {**K, "base_address": 0x80}, "reserved"),
    "a block that leaves its atom": ((192, 64), {**K, "major": "MN", "side": "b", "n": 96}, "leave it"),
    "a block that begins inside a chunk": (
        (128, 64),
        {**K, "dtype": "e3m2", "major": "MN", "side": "b", "n": 8},
        "where no descriptor can start",
    ),
    "padded 4-bit without swizzle": ((128, 128), {**K, "dtype": "e2m1", "kind": "f8f6f4", "swizzle": "none"}, "128 elements"),
    "a box off 16 B": ((128, 64), {**K, "at": (0, 3)}, "multiple of 16 B"),
    "lines that overlap": ((128, 64), {**K, "pitch_bytes": 64}, "a line of the matrix has 256 B"),
    "lines off 16 B": ((128, 64), {**K, "pitch_bytes": 264}, "multiple of 16 B"),
    "outside the matrix": ((128, 64), {**K, "matrix": (100, 64)}, "leave the matrix"),
    "another kind's type": ((128, 64), {**K, "kind": "tf32"}, "reads tf32"),
    "kind on Hopper": ((64, 64), {**K, "arch": "sm_90a", "kind": "f16"}, "no kinds"),
    "no type of the instruction": ((128, 64), {**K, "dtype": "f32"}, "not f32"),
    "8-bit MN-major B and N 8": ((16, 64), {**K, "dtype": "e4m3", "major": "MN", "swizzle": "none", "side": "b", "n": 8}, "N = 8"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_wish_says_why_and_names_a_plan_that_works(name):
    (rows, k), arguments, why = ILLEGAL[name]
    with pytest.raises(IllegalPlan, match=re.escape(why)) as caught:
        plan(rows, k, **arguments)
    nearest = caught.value.nearest
    assert nearest is not None
    assert caught.value.changed
    assert isinstance(caught.value, InputError)
    asked = make.wish_of(rows, k, **make.DEFAULTS | arguments).arguments()
    assert {n for n in asked if asked[n] != nearest[n]} == set(caught.value.changed)
    p = plan(**nearest)
    assert smemsim.check(p.scenario()).codes == ()


@examples(25)
@given(st.integers(0, 10_000))
def test_every_wish_plans_or_is_refused_with_a_sentence(seed):
    arguments = sound.draw(random.Random(seed))
    try:
        p = plan(**arguments)
    except Unmodelled:
        assert arguments["dtype"] == "b1"
        return
    except IllegalPlan as e:
        p = plan(**e.nearest) if e.nearest else None
    assert p is None or smemsim.check(p.scenario()).codes == ()


def test_kind_i8_does_not_exist_on_sm_103a_and_nothing_is_near():
    with pytest.raises(IllegalPlan, match="sm_103a does not have it") as caught:
        plan(128, 64, **{**K, "dtype": "s8", "arch": "sm_103a"})
    assert caught.value.nearest is None


@pytest.mark.parametrize("change", [
    {"rows": 0}, {"rows": -8}, {"rows": "x"}, {"k": 1.5}, {"rows": 10**30}, {"dtype": "bf17"}, {"major": "M"}, {"swizzle": "256B"}, {"swizzle": None},
    {"arch": "sm_80"}, {"side": "c"}, {"stack": "down"}, {"stages": 0}, {"matrix": 5}, {"at": (0,)}, {"at": (-1, 0)}, {"cta_group": 3}, {"m": 0},
    {"kind": "f32"}, {"base_address": -1}, {"other_major": "X"}, {"stack": 3},
])  # fmt: skip
def test_what_is_no_wish_is_a_sentence(change):
    with pytest.raises(InputError) as caught:
        plan(**{"rows": 128, "k": 64, **K, **change})
    assert not isinstance(caught.value, IllegalPlan)
    assert not isinstance(caught.value, InternalError)


def test_one_bit_types_are_not_modelled():
    with pytest.raises(Unmodelled):
        plan(64, 256, dtype="b1", major="K", swizzle="32B", arch="sm_90a")


# ---- what people see and paste


@examples(30)
@given(legal)
def test_the_text_is_at_most_100_columns_and_names_what_it_rests_on(p):
    text = p.text()
    assert max(map(len, text.splitlines())) <= 100
    assert f"{p.words[0, 0]:#018x}" in text
    assert ("measured on an H200" in text) == (p.wish.machine.name == "sm_90a")
    json.dumps(p.as_dict())


@examples(30)
@given(legal)
def test_the_encode_calls_of_the_code_are_the_plans_maps(p):
    text = p.code("cpp").replace("global_address,", "0x10000000000,")
    calls = find_calls(text)
    forms = [p.loop, *([p.box] if p.box is not None and p.box is not p.loop else [])]
    assert len(calls) == len(forms)
    for call, loads in zip(calls, forms, strict=True):
        given_ = call.arguments()
        assert smemsim.TensorMap.tiled(**given_, arch=p.wish.machine.name) == loads.tensor_map


@examples(30)
@given(legal)
def test_the_loop_of_the_code_issues_the_plans_boxes(p):
    text = p.code("cpp")
    counts = {name: int(found[1]) if (found := re.search(rf"{name} < (\d+)", text)) else 1 for name in ("panel", "piece")}
    body = re.search(r"load_2d\((.*)\);", text)[1].replace("int(", "(")
    first = dict(zip(("m0", "n0"), (p.wish.at[0],) * 2, strict=True)) | {"k0": p.wish.at[1], "stage_address": 0}
    issued = []
    for panel in range(counts["panel"]):
        for piece in range(counts["piece"]):
            address, x, y = eval(body, {"__builtins__": {}}, first | {"panel": panel, "piece": piece})
            issued.append((address, (x, y)))
    assert sorted(issued) == sorted((offset, at) for offset, at in p.loop.issues)


@pytest.mark.parametrize(("arguments", "cute_code", "gluon"), [
    ({**K}, "cute::UMMA::Layout_K_SW128_Atom<cutlass::bfloat16_t>", "swizzle_byte_width=128, element_bitwidth=16, rank=2, transposed=False"),
    ({**K, "arch": "sm_90a", "major": "MN", "swizzle": "32B", "dtype": "f16"}, "cute::GMMA::Layout_MN_SW32_Atom<cutlass::half_t>",
     "swizzle_byte_width=32, element_bitwidth=16, rank=2, transposed=True"),
    ({**K, "swizzle": "none", "dtype": "e4m3"}, "cute::UMMA::Layout_K_INTER_Atom<cutlass::float_e4m3_t>", "swizzle_byte_width=0 is plain rows"),
    ({**K, "major": "MN", "dtype": "tf32", "swizzle": "128B_ATOM_32B"}, "cute::UMMA::Layout_MN_SW128_32B_Atom<cutlass::tfloat32_t>", "no NVMMASharedLayout"),
    ({**K, "swizzle": "64B", "stack": "K"}, "cute::Step<cute::_2, cute::_1>", "no NVMMASharedLayout is this layout: it stacks atoms along the strided"),
    ({**K, "major": "MN", "dtype": "tf32", "swizzle": "128B_ATOM_32B", "stack": "MN"}, "// CuTe DSL's atom of this name has 8 lines of K, this one has 4", "no NVMMASharedLayout"),
    ({**K, "major": "MN", "k": 384}, "cute::Int<384>", "in blocks of at most 256 lines, this tile has 384 in a panel"),
    ({**K, "major": "MN", "k": 256}, "cute::Int<256>", "swizzle_byte_width=128"),
    ({**K, "major": "MN", "k": 384, "rows": 64, "m": 64}, "cute::Int<384>", "its tiles have powers of two as extents"),
    ({**K, "rows": 192, "m": 64}, "cute::Int<192>", "its tiles have powers of two as extents"),
    ({**K, "dtype": "e3m2", "k": 128}, "cute::Int<128>", "it has no 6-bit types"),
])  # fmt: skip
def test_names_of_the_libraries(arguments, cute_code, gluon):
    p = plan(**{"rows": 128, "k": 64, **arguments})
    assert ("has 8 lines of K" in p.code("cute")) == cute_code.startswith("//")
    assert cute_code in p.code("cute")
    assert gluon in p.code("triton")
    assert set(LANGUAGES) == {"cpp", "cute", "triton"}
    with pytest.raises(InputError):
        p.code("rust")


def test_what_documents_contradict_is_said():
    p = plan(128, 128, dtype="e3m2", major="MN", arch="sm_100a")
    assert any("only K-major ones" in note for note in p.notes)
    assert "Note: " in p.text()
    assert plan(64, 64, dtype="bf16", major="K", arch="sm_90a").notes == ()


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_lines_that_no_box_takes_whole_are_split_evenly(swizzle):
    p = plan(296, 64, dtype="bf16", major="K", swizzle=swizzle, arch="sm_90a", side="b", n=8)  # 8 x 37 lines
    height = p.loop.tensor_map.box_dim[1]
    assert 296 % height == 0
    assert height <= 256
    assert {offset % 128 for offset, _ in p.loop.issues} == {0}
    assert p.box is not None


@pytest.mark.parametrize("name", ["DG100-BF16-B-MN", "FI-MLA-QNOPE", "LC1-A", "TL-K-128x64-64B"])
def test_the_tiles_byte_axes_are_the_shared_layout_of_a_kernel(name):
    c = CONFIGS[name]
    tile = planned(c).cute.tile
    rows, k = ([list(pair) for pair in axis if pair[0] > 1] for axis in byte_axes(tile, c["element_bits"]))
    assert (rows, k) == tuple([pair for pair in c["shared_layout"][axis] if pair[0] > 1] for axis in ("mn", "k"))


def test_all_choices_of_a_tile():
    found = plans(128, 64, dtype="bf16", major="MN", arch="sm_100a")
    legal = [c for c in found if c.plan is not None]
    assert {c.swizzle for c in legal} == {"none", "32B", "64B", "128B"}
    assert [c.reason for c in found if c.plan is None] == [c.reason for c in found if c.swizzle == "128B_ATOM_32B"]
    for c in legal:
        row = c.as_dict()
        assert row["issues"] == row["tile_bytes"] // (MODES[c.plan.wish.swizzle].width * (64 if c.stack == "strided" else 8))
        assert row["period"] == MODES[c.plan.wish.swizzle].period
        assert row["padding_bytes"] == 0
    with pytest.raises(InputError, match="swizzle"):
        plans(128, 64, dtype="bf16", major="MN", arch="sm_100a", swizzle="64B")


def test_functions_and_folders_of_one_name_do_not_hide_each_other():
    code = (
        "import smemsim, smemsim.planning.make, smemsim.diagnosis.report\n"
        "assert callable(smemsim.plan) and callable(smemsim.check), (smemsim.plan, smemsim.check)\n"
        "from smemsim.planning.arrangement import Wish; assert callable(smemsim.plan)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "sim")})
    assert done.returncode == 0, done.stderr


# ---- the command


def command(*words):
    return subprocess.run([sys.executable, "-m", "smemsim", "plan", *words], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(ROOT / "sim"), "PATH": ""})  # fmt: skip


def run(*words):
    """The command in this process: (exit code, stdout, stderr)."""
    from click.testing import CliRunner

    from smemsim.cli import main

    done = CliRunner().invoke(main, ["plan", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


TILE = ("128x64", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K")


def test_the_command_prints_the_plan_and_exits_with_0():
    done = command(*TILE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.partition("\n")[2] == plan(128, 64, dtype="bf16", major="K", arch="sm_90a").text() + "\n"


def test_json_scenario_and_code_are_those_of_the_plan(tmp_path):
    p = plan(128, 128, dtype="bf16", major="K", arch="sm_90a")
    tile = ("128x128", *TILE[1:])
    code, out, _ = run(*tile, "--json")
    assert (code, json.loads(out)) == (0, json.loads(json.dumps(p.as_dict())))
    for form, option in (("loop", ()), ("box", ("--one-box",))):
        code, out, _ = run(*tile, "--scenario", *option)
        assert (code, json.loads(out)) == (0, json.loads(json.dumps(p.scenario(form))))
        path = tmp_path / "plan.json"
        path.write_text(out)
        assert smemsim.check(path).ok
    for language in LANGUAGES:
        assert run(*tile, "--code", language)[:2] == (0, p.code(language) + "\n")


def test_the_table_of_all_choices_fits_100_columns():
    code, out, _ = run(*TILE, "--all")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(("words", "code", "told"), [
    (("100x64", *TILE[1:]), 1, "nearest that works: rows = 128"),
    (("128x40", *TILE[1:], "--all"), 1, ""),
    (("128", *TILE[1:]), 2, "ROWSxK"),
    (("128x64", "--arch", "sm_80", *TILE[3:]), 2, "not an architecture"),
    ((*TILE, "--code", "rust"), 2, "cpp, cute, triton"),
    ((*TILE, "--all", "--swizzle", "64B"), 2, "--all"),
    ((*TILE, "--one-box"), 2, "--scenario"),
    ((*TILE, "--base", "x"), 2, "address"),
    ((*TILE, "--at", "1"), 2, "two numbers"),
    ((*TILE, "--matrix", "9"), 2, "ROWSxK"),
    (("64x256", "--arch", "sm_90a", "--dtype", "b1", "--major", "K", "--swizzle", "32B"), 3, "b1"),
])  # fmt: skip
def test_exit_codes(words, code, told):
    done = run(*words)
    assert done[0] == code
    assert told in done[2]
    assert "Traceback" not in done[2]


def test_an_illegal_wish_as_json_has_the_arguments_of_the_nearest_plan():
    code, out, _ = run("100x64", *TILE[1:], "--json")
    told = json.loads(out)
    assert (code, told["legal"], told["changed"]) == (1, False, ["rows"])
    assert plan(**{**told["nearest"], "at": tuple(told["nearest"]["at"])}).wish.rows == 128


# ---- In a notebook


@pytest.mark.parametrize("arguments", [{"arch": "sm_90a"}, {"arch": "sm_100a", "m": 64, "stages": 2, "major": "MN", "swizzle": "64B"}])
def test_a_plan_can_be_pasted_back_and_shows_its_tile(arguments):
    made = smemsim.plan(128, 64, **{"dtype": "bf16", "major": "K", **arguments})
    again = eval(repr(made), {"plan": smemsim.plan})
    assert (again.words == made.words).all()
    assert again.text() == made.text()
    assert "<svg" in made._repr_html_()
    assert "\n" not in repr(made)


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_every_word_of_a_plan_reads_its_tile_and_with_exchanged_strides_it_does_not(major, swizzle):
    rows, k = (128, 64) if major == "K" else (256, 16)
    made = plan(rows, k, dtype="bf16", major=major, swizzle=swizzle, arch="sm_90a")
    for word in made.words.ravel().tolist():
        d = SmemDescriptor.decode(word, arch="sm_90a")
        found = fit(d, rows, k, dtype="bf16", major=major)
        assert found.finding is None
        assert found.says.startswith("K step ")
    d = SmemDescriptor.decode(int(made.words[0, 0]), arch="sm_90a")
    lbo, sbo = d.leading_byte_offset, d.stride_byte_offset
    other = SmemDescriptor(arch="sm_90a", start_address=d.start_address, leading_byte_offset=sbo, stride_byte_offset=lbo, swizzle=swizzle)
    wrong = fit(other, rows, k, dtype="bf16", major=major).finding
    assert wrong is not None
    assert (wrong.code, f"{d.word:#018x}" in wrong.repair) == ("D309", True)


@pytest.mark.parametrize(
    ("m", "n", "arch", "says"),
    [
        (
            128,
            256,
            "sm_90a",
            "2 x 1 instructions of 64 x 256, 4 K steps each\n  D lies in registers: 128 of .f32 in each of the 128 threads",
        ),
        (64, 8, "sm_90a", "1 x 1 instructions of 64 x 8, 4 K steps each\n  D lies in registers: 4 of .f32"),
        (128, 64, "sm_100a", "64 columns in each CTA for one instruction, 64 for all\n  allocate 64 columns"),
        (128, 24, "sm_100a", "24 columns in each CTA for one instruction, 24 for all\n  allocate 32 columns"),
        (256, 256, "sm_100a", "256 columns in each CTA for one instruction, 512 for all\n  allocate 512 columns"),
        (256, 136, "sm_100a", "136 columns in each CTA for one instruction, 272 for all\n  allocate 512 columns"),
    ],
)
def test_a_product_says_where_d_lies_and_what_it_takes(m, n, arch, says):
    code, out, _ = run(f"{m}x{n}x64", "--arch", arch, "--dtype", "bf16", "--major", "K")
    assert (code, says in out) == (0, True), out
    assert ("// the first block of M and of N" in out) == (arch == "sm_100a" and m == 256)


def test_a_plan_has_the_loads_that_it_says():
    p = plan(128, 64, **K)
    assert p.tensor_map == p.loop.tensor_map
    assert str(p) == p.text()
    with pytest.raises(InputError, match=r"^form = 'boxes': needs 'loop' or 'box'$"):
        p.scenario("boxes")
    many = plan(8, 2064, **K | {"swizzle": "none", "side": "b", "n": 8})  # 258 panels
    assert (many.box, many.why_no_box) == (None, "a box has at most 256 along a dimension")
    with pytest.raises(InputError, match=r"^form = 'box': a box has at most 256 along a dimension$"):
        many.scenario("box")
    words = re.findall(r"^ +0 +\d+ .*0x[0-9a-f]{16}", many.text(), re.MULTILINE)
    assert f"... {129 - len(words)} more (--json has all)" in many.text()
    assert "more (--json" not in p.text()


@pytest.mark.parametrize(
    ("word", "rows", "says"),
    [
        (0xE000404000010040, 128, "the descriptor's layout code means no swizzle: there is no such tile"),
        (0x4000404000010040, 100, "rows = 100: an atom has 8 lines"),
    ],
)
def test_a_word_of_no_tile_says_why(word, rows, says):
    with pytest.raises(InputError, match=f"^{re.escape(says)}"):
        fit(SmemDescriptor.decode(word, arch="sm_100a"), rows, 64, dtype="bf16", major="K")


def test_a_word_that_no_instruction_of_the_tile_has():
    d = SmemDescriptor(arch="sm_90a", start_address=0x430, leading_byte_offset=16, stride_byte_offset=1024, swizzle="128B")
    wrong = fit(d, 64, 64, dtype="bf16", major="K").finding
    assert wrong is not None
    assert wrong.code == "R502"
    d = SmemDescriptor(arch="sm_90a", start_address=0x400, leading_byte_offset=16, stride_byte_offset=2048, swizzle="128B")
    wrong = fit(d, 64, 64, dtype="bf16", major="K").finding
    assert wrong is not None
    assert (wrong.code, wrong.repair) == ("D308", "0x4000004000010040")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("192x256x64 --dtype fp8 --cta-group 2", "M = 192 (nearest that works: 256): each CTA of the pair holds 96 x 64 of A"),
        ("128x256x63 --dtype fp8 --cta-group 2", "nearest that works: k = 64"),
        ("128x256x64 --dtype fp16 --cta-group 4", "--cta-group 4: needs 1, or 2 for a pair of CTAs"),
        ("128x256x64 --dtype fp16 --one-box --arch sm_90a", "smemsim plan 128x64 for A, 256x64 --side b for B"),
        (
            "512x512x32 --dtype bf16 --arch sm_100a",
            "M = 512, N = 512: D takes 2048 columns of tensor memory in each CTA, there are 512;",
        ),
        ("128x520x32 --dtype bf16 --arch sm_100a", "D takes 520 columns"),
        ("512x512x32 --dtype bf16 --arch sm_100a --cta-group 2", "D takes 1024 columns"),
    ],
)
def test_a_refused_tile_is_told_in_its_own_numbers(words, says):
    result = CliRunner().invoke(main, ["plan", *words.split()])
    assert result.exit_code in (1, 2)
    assert says in " ".join(result.stderr.split())


def test_a_type_with_scales_is_known_by_the_name_of_its_format():
    result = CliRunner().invoke(main, ["plan", *["128x64x64", "--dtype", "nvfp4", "--arch", "sm_100a", "--major", "k"]])
    assert result.exit_code == 0
    assert "kind::mxf4nvf4.block_scale" in result.stdout
