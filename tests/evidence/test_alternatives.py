"""Alternatives of rules about Blackwell: each can be run and changes something, nothing changes without one, and what
is said of who refutes them is the data's.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from smemsim import (
    AccumulatorLayout,
    ATmemLayout,
    Gpu,
    InputError,
    MetadataLayout,
    ScaleLayout,
    SharedMemory,
    SmemsimError,
    TensorMemory,
    TmemAccess,
    TmemAddress,
)
from smemsim.cli import main
from smemsim.core.arithmetic.multiply import Factors, multiply
from smemsim.core.arithmetic.values import from_float64
from smemsim.core.layout.tensor_memory import shift_source
from smemsim.core.machine import Tcgen05Mma, decompress
from smemsim.core.machine.mma_sync import MmaSync, sums
from smemsim.core.machine.tcgen05 import instruction, prepare
from smemsim.core.spec.alternatives import ALTERNATIVES, EXPERIMENTS, alternative_of, assuming
from smemsim.core.spec.assumptions import MEASURED_POINTS, POINTS, assumed, in_force
from smemsim.core.spec.compiled import COMPILED
from smemsim.core.spec.evidence import RULES, kill_matrix, witnessed
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.published import PUBLISHED
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tensor_memory import COPY_SHAPES, LOAD_STORE_SHAPES
from tools.witnesses import kill
from tools.witnesses.launches import compiled_launches

SOURCES = pathlib.Path(smemsim.__file__).parent
KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


def outcome(compute, *args):
    try:
        return compute(*args)
    except SmemsimError as e:
        return f"{type(e).__name__}: {e}"


def idescs():
    words = [1 << bit for bit in range(32)] + [0x08200490, 0x08040490, 0x08A01400]
    return [outcome(lambda word, kind: instruction(word, kind).word, word, kind) for kind in KINDS for word in words]


def accumulators():
    shapes = [(256, 32, 2, False, False), (128, 64, 2, False, False), (128, 64, 2, False, True), (128, 32, 1, False, False)]
    shapes += [(64, 64, 1, True, False), (64, 32, 1, False, False), (32, 64, 1, True, False)]
    layouts = [AccumulatorLayout(m, n, group, ws=ws, sparse=sparse) for m, n, group, ws, sparse in shapes]
    return [outcome(lambda d: d.location(np.arange(d.m)[:, None], np.arange(d.n)), layout) for layout in layouts]


def operands_in_tensor_memory():
    layouts = [ATmemLayout(128, kind) for kind in ("f16", "f8f6f4", "mxf4")] + [ATmemLayout(64, "f16", ws=True), ATmemLayout(256, "f16", 2)]
    return [d.location(np.arange(d.m)[:, None], np.arange(d.k), d.copies - 1) for d in layouts]


def scales():
    common = {"kind": "mxf4", "scale_vec": "2X", "scale_id": 2}
    layouts = [ScaleLayout("A", m=128, n=128, **common), ScaleLayout("B", m=128, n=128, cta_group=2, **common)]
    layouts += [ScaleLayout("B", m=128, n=n, kind="mxf4", scale_vec="block32", k=96, scale_id=2) for n in (128, 256)]
    return [d.location(np.arange(128)[:, None], np.arange(d.scales), d.copies - 1) for d in layouts]


def scale_ids():
    i = smemsim.InstrDescriptor(kind="mxf8f6f4", m=128, n=128, a_type="e4m3", b_type="e4m3", a_sf_id=1, b_sf_id=3)
    word = smemsim.SmemDescriptor(arch="sm_100a", start_address=0x400, stride_byte_offset=1024).encode()
    at = [number << 30 | 128 for number in (2, 0)]
    mma = Tcgen05Mma(i, "sm_100a", TmemAddress(), word, word, scale_a=at[0], scale_b=at[1])
    return [layout.scale_id for layout in prepare(mma).scales]


def metadata():
    layouts = [MetadataLayout(128, "f16", selector=1), MetadataLayout(128, "f8f6f4")]
    return [d.location(np.arange(d.m)[:, None], np.arange(0, d.k, 4)) for d in layouts]


def accesses():
    thread, warps = np.arange(32), np.arange(4)[:, None]
    lanes = [TmemAccess("32x32b").location(warps, thread, 0)] + [
        TmemAccess("16x64b", taddr=TmemAddress(lane)).location(warps, thread, 0) for lane in (0, 16)
    ]
    split = {"16x32bx2": {"half_split_offset": 16}}
    return lanes + [
        TmemAccess(s, 4, **split.get(s, {})).location(0, thread, np.arange(4 * row.registers)[:, None])
        for s, row in LOAD_STORE_SHAPES.items()
    ]


def windows():
    return assumed("ld_st.window", np.array([32, 16, 32]), np.array([1, 4, 1]), np.array([0, 16, 96]))


def copies():
    return [assumed("cp.shape", row) for row in COPY_SHAPES.values()]


def decompressed():
    data = np.arange(64, dtype=np.uint8).reshape(4, 16) * 5
    return [decompress(data, name) for name in ("b4x16_p64", "b6x16_p32")]


def operands():
    words = [0x40 | code << 61 | base << 49 | 8 << 16 | 48 << 32 | 1 << 46 for code in (0, 1, 2, 4, 6) for base in (0, 3)]
    words += [word | 31 for word in words] + [words[4] | 1 << 13, words[4] | 1 << 15, words[0] | 1 << 31, words[4] | 1 << 47]
    found = [
        outcome(lambda w, m: smemsim.operand_addresses(w, arch="sm_100a", dtype="tf32", major=m, rows=64, k=16), w, m)
        for w in words
        for m in ("K", "MN")
    ]
    absolute = 0x40 | 2 << 61 | 1 << 52 | 1 << 46 | 0x100 << 16 | 64 << 32
    return [*found, outcome(lambda: smemsim.operand_addresses(absolute | 6, arch="sm_103a", dtype="u8", major="K", rows=16, k=48))]


def products():
    """One product of every row of the arithmetic, with numbers that hardly any two datapaths sum alike."""
    rng, found = np.random.default_rng(7), []
    forms = [
        ("f16", "bf16", "f32", 16, 16),
        ("f16", "f16", "f16", 16, 16),
        ("tf32", "tf32", "f32", 8, 32),
        ("f8f6f4", "e4m3", "f32", 32, 8),
    ]
    forms += [
        ("i8", "s8", "s32", 32, 8),
        ("mxf8f6f4", "e5m2", "f32", 32, 8),
        ("mxf4nvf4", "e2m1", "f32", 64, 4),
        ("mxf4", "e2m1", "f32", 64, 4),
    ]
    for kind, dtype, d_type, k, bits in forms:
        a, b = (rng.integers(0, 1 << bits, (64, k), np.uint32).astype(f"u{max(1, bits // 8)}") for _ in "ab")
        if dtype in ("bf16", "tf32", "f16"):  # moderate exponents, and zeros
            spread = {"bf16": (0x3C00, 0x7FF), "tf32": (0x3C000000, 0x7FFFFFF), "f16": (0x2000, 0x1FFF)}[dtype]
            a, b = ((x & spread[1]) + spread[0] for x in (a, b))
        a[:8, 1:], b[:, ::5] = 0, 1
        c = rng.integers(0, 1 << 32, (64, 64), np.uint32)
        if d_type == "f32":
            c = c & 0x87FFFFFF | 0x38000000
            c[:, :8] = 0
        elif d_type == "f16":
            c = (c & 0x83FF | 0x0400).astype(np.uint16)
        else:
            c[:] = 0x7FFFFFFF
        factors = None
        if kind.startswith("mx"):
            block, scale = (16, "ue4m3") if kind == "mxf4nvf4" else (32, "ue8m0")
            codes = (0x30, 0x48) if scale == "ue4m3" else (96, 160)
            sa, sb = (rng.integers(*codes, (64, k // block)).astype(np.uint8) for _ in "ab")
            factors = Factors(sa, sb, scale, block)
        for saturate, scale_c in ((False, 0), (kind == "i8", 3 * (kind in ("f16", "tf32")))):
            for start in (c, np.zeros_like(c)):
                with np.errstate(all="ignore"):
                    found.append(
                        multiply(a, b, start, kind=kind, a_type=dtype, b_type=dtype, d_type=d_type, saturate=saturate, scale_c=scale_c, factors=factors)[0]
                    )  # fmt: skip
    small = np.zeros((8, 16), np.uint16), np.ones((8, 16), np.uint16)
    small[0][:, 0] = 0x0400
    subnormal = np.full((8, 8), 0x00000123, np.uint32)
    found.append(multiply(small[0] * 0, small[1], subnormal, kind="f16", a_type="bf16", b_type="bf16", d_type="f32")[0])
    # Zeros beside terms so small that the exponent with which zeros count decides what is cut.
    x, y = np.zeros((2, 8, 16), np.uint16)
    x[:, :8], y[:, :8] = 0x0D80, 0x2580  # 2^-100 and 2^-52
    found.append(multiply(x, y, np.zeros((8, 8), np.uint32), kind="f16", a_type="bf16", b_type="bf16", d_type="f32")[0])
    x, y = np.zeros((2, 8, 16), np.uint16)
    x[:, :2], y[:, :2] = (0x0C00, 0x0001), (0x0800, 0x0002)  # 2^-12 2^-13, half of the smallest number, and 2^-24 2^-23
    found.append(multiply(x, y, np.zeros((8, 8), np.uint16), kind="f16", a_type="f16", b_type="f16", d_type="f16")[0])
    return found


def allocations():
    tmem = TensorMemory("sm_100a")
    return [tmem.alloc(columns).column for columns in (32, 128)]


ROWS = [np.arange(64).reshape(64, 1), np.arange(64, 128).reshape(64, 1)]


def sync_product(arch, dtype, k, kind):
    """D of one mma.sync of a card, of numbers some of which are far apart."""
    rng = np.random.default_rng(k)
    scaled = {"factors": 4, "scale_type": "ue4m3"} if kind == "mxf4nvf4" else {}
    a, b = (
        from_float64(
            rng.choice([-6.0, 6.0, 0.5, 3.0, -1.0] if k == 64 else 2.0 ** np.arange(-6, 9), (1, n, k)) * rng.choice([1, -1], (1, n, k)),
            dtype,
        )
        for n in (16, 8)
    )
    factors = Factors(*(rng.integers(8, 120, (1, n, 4)).astype(np.uint8) for n in (16, 8)), "ue4m3", 16) if scaled else None
    c = from_float64(rng.standard_normal((1, 16, 8)) * 2.0 ** rng.integers(-9, 9, (1, 16, 8)), "f32")
    return MmaSync((16, 8, k), dtype, dtype, "f32", arch=arch, kind=kind, **scaled).product(a, b, c, factors)


PROBES = {
    "idesc.word": idescs, "accumulator.path": accumulators, "accumulator.cell": accumulators, "a.cell": operands_in_tensor_memory, "scales.cell": scales,
    "scales.id": scale_ids, "metadata.cell": metadata, "ld_st.cell": accesses, "ld_st.window": windows, "cp.shape": copies, "decompression": decompressed,
    "operand.words": operands, "operand.tables": operands, "arithmetic.row": products, "arithmetic.tiles": products, "alloc.column": allocations,
    "ld_st.address": lambda: assumed("ld_st.address", np.repeat([1, 8], 4), np.array([1, 2, 4, 7, 8, 16, 32, 64]), np.array([0, 4])),
    "cp.sources": lambda: assumed("cp.sources", (1, 2)),
    "pair.rows": lambda: np.concatenate([np.concatenate(assumed("pair.rows", ROWS, side)) for side in "AB"]),
    "zero_columns.counts": lambda: assumed("zero_columns.counts", (0, 1, 2, 3)),
    "zero_columns": lambda: assumed("zero_columns", np.array([True, False, False, True]), 2),
    "lanes.disabled": lambda: assumed("lanes.disabled", np.arange(256).reshape(2, 128) < 3),
    "commit.arrivals": lambda: assumed("commit.arrivals", 1, 2), "commit.ranks": lambda: assumed("commit.ranks", [0, 1], 2),
    "shift.source": lambda: assumed("shift.source", shift_source(np.arange(128), 32), np.arange(128)),
    "mma_sync.row": lambda: [sync_product(*of) for of in (("sm_80", "f16", 16, ""), ("sm_89", "e4m3", 32, ""), ("sm_120a", "e4m3", 32, "f8f6f4"),
                                                           ("sm_120a", "e2m1", 64, "mxf4nvf4"))],
    "mma_sync.scales": lambda: assumed("mma_sync.scales", 4 * (np.arange(16) % 8) + np.arange(16) // 8, 0),
    "tma.gathered": lambda: assumed("tma.gathered", (7, 3, 5, 1)),
    "tma.pitch": lambda: assumed("tma.pitch", 96, Swizzle.B96, 48),
    "tma.mode": lambda: [assumed("tma.mode", mode) for mode in MODES.values()],
}  # fmt: skip


def flat(value):
    if isinstance(value, (list, tuple)):
        return b"|".join(map(flat, value))
    return value.tobytes() if isinstance(value, np.ndarray) else str(value).encode()


@functools.cache
def plain(probe):
    return flat(probe())


@pytest.mark.parametrize("point", sorted(POINTS))
def test_each_alternative_changes_something_and_leaves_nothing_behind(point):
    probe = PROBES[point]
    known, same = plain(probe), []
    for name in (name for name, a in ALTERNATIVES.items() if a.point == point):
        with assuming(name):
            if flat(outcome(probe)) == known:
                same.append(name)
    assert same == []
    assert flat(probe()) == known
    assert in_force() == ""


@pytest.mark.parametrize(
    ("name", "multiple", "is_of_all"), [("start_of_32_bytes", 32, True), ("start_of_line", 128, False), ("start_of_atom", 1024, False)]
)  # fmt: skip
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_ATOM_32B"])
def test_an_operand_is_read_from_the_multiple_below_its_start_where_that_is_assumed(name, multiple, is_of_all, swizzle):
    """Without a swizzle there are no atoms, and no lines that one counts."""

    def read(start):
        word = smemsim.SmemDescriptor(
            arch="sm_100a", start_address=start, swizzle=swizzle, leading_byte_offset=128, stride_byte_offset=1024
        ).encode()
        return smemsim.operand_addresses(word, arch="sm_100a", dtype="tf32", major="MN", rows=64, k=8)

    start = 0x400 + 61 * 16
    below = start // multiple * multiple if is_of_all or swizzle != "none" else start
    with assuming(f"operand.any_start={name}"):
        found = read(start)
    np.testing.assert_array_equal(found, read(below))


@pytest.mark.parametrize(
    ("name", "layout", "rows", "lanes"),
    [
        ("a_as_wgmma", ATmemLayout(128, "f16"), (0, 15, 16, 63, 64, 79, 80, 127), (0, 15, 32, 111, 16, 31, 48, 127)),
        ("a_first_band", ATmemLayout(64, "f16", ws=True), (0, 31, 63), (0, 31, 63)),
    ],
)  # fmt: skip
def test_rows_of_a_in_other_lanes_keep_their_columns_and_bits(name, layout, rows, lanes):
    where = np.array(rows)[:, None], np.arange(layout.k), layout.copies - 1
    known = layout.location(*where)
    with assuming(f"tcgen05.tensor_operands={name}"):
        found = layout.location(*where)
    np.testing.assert_array_equal(np.broadcast_to(found[1], known[1].shape)[:, 0], lanes)
    assert (known[1][:, 0] != lanes).any()
    assert flat([found[0], *found[2:]]) == flat([known[0], *known[2:]])


def test_every_point_is_asked_in_the_sources_and_has_an_experiment():
    text = "\n".join(p.read_text() for p in SOURCES.rglob("*.py") if p.name not in ("assumptions.py", "alternatives.py"))
    assert (
        set(re.findall(r'assumed\(\s*"([\w.]+)"', text)) - MEASURED_POINTS.keys()
        == POINTS.keys()
        == EXPERIMENTS.keys()
        == {a.point for a in ALTERNATIVES.values()}
    )


def test_alternatives_are_of_rules_about_blackwell_that_are_not_measured():
    assert len(ALTERNATIVES) >= 150
    for a in ALTERNATIVES.values():
        grades = {grade for arch, grade in RULES[a.rule].grades.items() if arch != "sm_90a"}
        assert grades
        assert Grade.MEASURED not in grades
        assert a.sentence
        assert a.source
        assert RULES[a.rule].statement != a.sentence
    assert len({(a.rule, a.sentence) for a in ALTERNATIVES.values()}) == len(ALTERNATIVES)


@pytest.mark.parametrize(
    ("text", "told"), [("tcgen05.pear=a_exchanged", "did you mean"), ("tcgen05.pair=a_exchange", "did you mean"), ("tcgen05.pair", "RULE=ALTERNATIVE"), (7, "7")]
)  # fmt: skip
def test_unknown_names_are_refused_with_a_sentence(text, told):
    with pytest.raises(InputError, match="assume = ") as e:
        alternative_of(text)
    assert told in str(e.value)


def test_a_launch_takes_an_assumption_and_forgets_it():
    """The same card, the same kernel: D of a pair, with B's rows shared out otherwise for one launch."""
    ptx, launch = compiled_launches.read()["gluon_pair_f16_128x64x64"]
    results = []
    for assume in (None, "tcgen05.pair=b_exchanged", None):
        _, _, placed = kill.running.launched(launch, ptx, sanitize=False, progress=False, assume=assume)
        results.append(flat([x.numpy() for x in placed.values()]))
    assert results[0] == results[2] != results[1]


def test_the_command_line_takes_it_and_says_what_is_unknown():
    told = CliRunner().invoke(main, ["check", str(SOURCES), "--assume", "tcgen05.pair=nothing"])
    assert told.exit_code == 2
    assert "tcgen05.pair has the alternatives" in told.output
    with pytest.raises(InputError, match="one process"):
        Gpu("sm_100a").launch("", assume="tcgen05.shift=around", workers=2)


def test_the_kill_matrix_names_every_alternative_and_no_other():
    matrix = kill_matrix()
    assert matrix["alternatives"].keys() == ALTERNATIVES.keys()
    for row in matrix["alternatives"].values():
        assert row["refuted_by"].keys() <= matrix["programs"].keys()
        assert set(row["refuted_by"].values()) <= set(kill.OUTCOMES)
    for about in matrix["programs"].values():
        assert {"witness", "arch", "what", "version", "digest", "right", "seconds", "tried"} <= about.keys()
    assert not any(about["witness"] for name, about in matrix["programs"].items() if name.startswith("cuda_"))


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_120a"])
def test_witnessed_means_that_witnesses_refute_every_alternative(arch):
    matrix = kill_matrix()
    known = {name for name, about in matrix["programs"].items() if about["witness"] and about["right"] and about["arch"] == arch}
    for name in {a.rule for a in ALTERNATIVES.values()}:
        refuted = [bool(known & row["refuted_by"].keys()) for text, row in matrix["alternatives"].items() if text.startswith(f"{name}=")]
        assert (name in witnessed(arch)) == all(refuted)
        assert (RULES[name].grades.get(arch) is Grade.WITNESSED) == (all(refuted) and arch in RULES[name].grades)
    assert list(Grade)[:3] == [Grade.MEASURED, Grade.WITNESSED, Grade.DOCUMENTED]


def test_a_part_of_the_matrix_comes_out_again(tmp_path):
    """One program: what it refutes, kept and not run again."""
    program = kill.programs()["gluon_pair_f16_128x64x64"]
    chosen = [ALTERNATIVES["tcgen05.pair=b_exchanged"], ALTERNATIVES["tcgen05.alloc=highest"], ALTERNATIVES["tcgen05.shift=around"]]
    said: list[str] = []
    for _ in range(2):
        matrix = kill.kill([program], chosen, tmp_path / "kills.json", seconds=60, say=said.append)
        assert matrix["alternatives"]["tcgen05.pair=b_exchanged"]["refuted_by"] == {program.name: "wrong"}
        assert matrix["alternatives"]["tcgen05.alloc=highest"]["refuted_by"] == {}
        program.run = lambda: pytest.fail("it was run again")
    tried = matrix["programs"][program.name]["tried"][kill.digest()]
    assert tried == ["tcgen05.pair=b_exchanged", "tcgen05.alloc=highest"]


def product_of(word, kind):
    """D of one MMA of numbers that no two elements have alike, with this descriptor, or why there is none."""
    shared, tmem, rng = SharedMemory("sm_100a"), TensorMemory("sm_100a"), np.random.default_rng(3)
    shared.write(0x400, rng.integers(-3, 4, 0x1800).astype(np.float16) if kind == "f16" else rng.integers(0, 256, 0x3000, np.uint8))
    operand = smemsim.SmemDescriptor(arch="sm_100a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    tmem.cells[:, 32:64] = 0x7F7F7F7F
    factors = (
        {}
        if kind == "f16"
        else {"scale_a": TmemAddress(0, 32), "scale_b": TmemAddress(0, 48), "scale_vec": "1X" if kind == "mxf8f6f4" else "2X"}
    )
    found = outcome(
        lambda: smemsim.tcgen05_mma(tmem, tmem.alloc(64), operand, operand, word, kind=kind, shared=shared, enable_input_d=False, **factors)
    )
    return found if isinstance(found, str) else tmem.cells[:, :16].tobytes()


def test_one_mma_tells_each_reading_of_the_instruction_descriptor_that_is_open():
    """Not another word alone: another D, or a trap. What no D can tell is no alternative."""
    known = {name for name, about in kill_matrix()["programs"].items() if about["witness"]}
    names = {
        name
        for name, a in ALTERNATIVES.items()
        if a.point == "idesc.word" and not known & kill_matrix()["alternatives"][name]["refuted_by"].keys()
    }
    words = {
        "f16": 0x08040490, "mxf8f6f4": smemsim.InstrDescriptor(kind="mxf8f6f4", m=128, n=16, a_type="e4m3", b_type="e4m3").encode(),
        "mxf4": smemsim.InstrDescriptor(kind="mxf4", m=128, n=16).encode(),
    }  # fmt: skip
    asked = [(word | 1 << bit, kind) for kind, word in words.items() for bit in (6, 13, 14, 15, 23, 29)]
    plain = {one: product_of(*one) for one in asked}
    assert names
    for name in names:
        with assuming(name):
            assert any(product_of(*one) != d for one, d in plain.items()), name


def test_sums_that_are_those_of_mma_sync_contradict_what_is_said_to_be_contradicted():
    """One product by both instructions, 16 of K after the other: the same bits by the rule, others by every alternative
    that such a report contradicts.
    """
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=(32, 256)).astype(np.float32).view(np.uint32) >> 16 for _ in "ab")

    def folded(product):
        d = np.zeros((1, 32, 32), np.uint32)
        for k in range(0, 256, 16):
            d = np.asarray(product(a[None, :, k : k + 16].astype(np.uint16), b[None, :, k : k + 16].astype(np.uint16), d)).reshape(
                1, 32, 32
            )
        return d.tobytes()

    def tcgen05(x, y, c):
        return multiply(x[0], y[0], c[0], kind="f16", a_type="bf16", b_type="bf16", d_type="f32")[0]

    [report] = [one for one in PUBLISHED if "mma.sync" in one.says]
    plain = folded(lambda x, y, c: sums(x, y, c, ("bf16", "bf16", "f32")))
    assert folded(tcgen05) == plain
    for name in report.against:
        with assuming(name):
            assert folded(tcgen05) != plain, name


def test_what_others_published_is_told_and_refutes_nothing():
    contradicted = {name for one in PUBLISHED for name in one.against}
    assert contradicted <= {str(a) for a in ALTERNATIVES.values()}
    told = json.loads(CliRunner().invoke(main, ["evidence", "--open", "sm_100a", "--json"]).output)
    programs, alternatives = kill_matrix()["programs"], kill_matrix()["alternatives"]
    known = {name for name, about in programs.items() if about["witness"] and about["arch"] == "sm_100a"}
    still_open = {
        name for name in contradicted if not known & alternatives[name]["refuted_by"].keys()
    }  # the others were refuted by witnesses
    assert still_open == {one["alternative"] for one in told if one["published"]}
    assert still_open
    assert "arithmetic.tcgen05" not in witnessed("sm_100a")


def negations(words):
    """Whether A and B are negated by words with one of the bits that a compiler sets."""
    fields = (instruction(words[bit], kind) for kind in KINDS[4:] for bit in ("negate_a", "negate_b"))
    return [(i.negate_a, i.negate_b) for i in fields]


def rows_of_k(words):
    at = smemsim.operand_addresses(words["descriptor"], arch="sm_100a", dtype="s8", major="MN", rows=128, k=32)
    return {f"k {k}": int(at[0, k] - at[0, 0]) for k in (4, 8)}


def columns(_):
    return {"columns": max(int(ATmemLayout(128, "mxf4").location(0, k)[2]) for k in range(64)) + 1}


@pytest.mark.parametrize(
    ("one", "read", "wanted"),
    [
        (COMPILED[0], negations, [(True, False), (False, True)] * 3),
        (COMPILED[1], columns, COMPILED[1].words),
        (COMPILED[2], rows_of_k, {"k 4": 512, "k 8": 1024}),
    ],
)
def test_what_compilers_write_is_read_so_by_the_rule_and_otherwise_by_what_it_contradicts(one, read, wanted):
    assert read(one.words) == wanted
    for name in one.against:
        with assuming(name):
            assert outcome(read, one.words) != wanted, name


def test_what_compilers_write_is_told_and_refutes_nothing():
    contradicted = {name for one in COMPILED for name in one.against}
    told = json.loads(CliRunner().invoke(main, ["evidence", "--open", "sm_100a", "--json"]).output)
    assert contradicted == {row["alternative"] for row in told if row["compiled"]}
    printed = CliRunner().invoke(main, ["evidence", "tcgen05.alloc", "--open", "sm_100a"]).output
    assert "compilers contradict it, which does not prove what hardware does: ptxas" in " ".join(printed.split())


def test_what_a_card_does_not_have_is_not_open_there():
    elsewhere = {str(a): a.only for a in ALTERNATIVES.values() if a.only}
    assert elsewhere
    for arch in ("sm_100a", "sm_103a"):
        told = json.loads(CliRunner().invoke(main, ["evidence", "--open", arch, "--json"]).output)
        assert all(elsewhere.get(one["alternative"], arch) == arch for one in told)


def test_evidence_prints_what_is_open_with_the_experiment():
    told = CliRunner().invoke(main, ["evidence", "--open", "sm_100a", "--json"])
    assert told.exit_code == 0
    rows = json.loads(told.output)
    known = {name for name, about in kill_matrix()["programs"].items() if about["witness"] and about["arch"] == "sm_100a"}
    want = {name for name, row in kill_matrix()["alternatives"].items() if not known & row["refuted_by"].keys()}
    assert {row["alternative"] for row in rows} == {
        n for n in want if "sm_100a" in RULES[ALTERNATIVES[n].rule].grades and ALTERNATIVES[n].only in ("", "sm_100a")
    }
    assert all(row["experiment"] for row in rows)
    assert "would settle it" in CliRunner().invoke(main, ["evidence", "tcgen05.alloc", "--open", "sm_100a"]).output
    assert CliRunner().invoke(main, ["evidence", "tcgen05.shft"]).exit_code == 2
