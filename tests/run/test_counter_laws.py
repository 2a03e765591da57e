"""Laws of the counters without a launch: what an instruction is, what accesses cost lane by lane, sums, limits."""

import dataclasses
import itertools

import numpy as np
import pytest

from smemsim import InputError
from smemsim.core.ptx import read_module
from smemsim.core.spec.cards import card_of
from smemsim.core.spec.counters import COLUMNS, Sure
from smemsim.core.spec.occupancy import CtaFit, cta_fit, registers_for
from smemsim.run.counters.classes import class_of, counted_ones, op_of, product_of
from smemsim.run.counters.limits import limits_of
from smemsim.run.counters.observer import Body, Counting
from smemsim.run.counters.rows import SUMMED, Row, by_warp, sum_of
from smemsim.run.counters.table import Counters, Places
from smemsim.run.counters.totals import COPIES, MatrixCount, Residence, copy_kind, matrix_words

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
REGISTERS = ".reg .b32 %a, %b, %c, %d; .reg .b64 %g, %h; .reg .f32 %f<8>; .reg .b16 %s; .reg .pred %p; .shared .b8 tile[1024]; .shared .b8 bar[8];\n"


def instructions(body):
    return read_module(f"{HEAD}{REGISTERS}{body}\nret; }}").entries[0].body[:-1]


def one(text):
    (found,) = instructions(text)
    return found


WGMMA = "{%f0, %f1, %f2, %f3}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%a,%b,%c,%d}, {%a,%b}, {%f0,%f1,%f2,%f3};", "matrix"),
        ("wgmma.fence.sync.aligned;", "matrix"), ("cp.async.ca.shared.global [%a], [%g], 4;", "copy"), ("cp.async.bulk.commit_group;", "copy"),
        ("red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%a], %b, [%c];", "copy"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%a], %b, [%c];", "copy"), ("bar.sync 0;", "barrier"),
        ("mbarrier.init.shared.b64 [%a], 1;", "barrier"), ("fence.proxy.async;", "barrier"), ("membar.gl;", "barrier"), ("red.global.add.u32 [%g], %a;", "atomic"),
        ("atom.shared.add.u32 %a, [%b], 1;", "atomic"), ("ld.shared.u32 %a, [%b];", "load"), ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%b];", "load"),
        ("st.global.u32 [%g], %a;", "store"), ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%b], {%a};", "store"), ("exit;", "control"), ("trap;", "control"),
        ("shfl.sync.bfly.b32 %a, %b, 1, 31, -1;", "lanes"), ("activemask.b32 %a;", "lanes"), ("add.u32 %a, %b, %c;", "arithmetic"), ("mov.u32 %a, %b;", "arithmetic"),
        ("cvt.u64.u32 %g, %a;", "arithmetic"), ("mapa.shared::cluster.u32 %a, %b, 1;", "arithmetic"),
    ],
)  # fmt: skip
def test_an_instruction_is_of_the_class_that_its_name_says(text, kind):
    assert class_of(one(text)) == kind


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("cp.async.cg.shared.global [%a], [%g], 16;", "cp.async.cg"), ("cp.async.ca.shared.global [%a], [%g], 4;", "cp.async.ca"),
        ("ld.shared::cluster.u32 %a, [%b];", "remote"), ("ld.shared.u32 %a, [%b];", "ld"), ("st.shared.u32 [%b], %a;", "st"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%b];", "ldmatrix"), ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%b], {%a};", "stmatrix"),
        ("atom.shared.cas.b32 %a, [%b], %c, %d;", "cas"), ("atom.shared.exch.b32 %a, [%b], %c;", "atom"), ("atom.shared.exch.b64 %g, [%b], %h;", "atom"),
        ("atom.shared.add.f32 %f0, [%b], %f1;", "loop"), ("atom.shared.add.u64 %g, [%b], %h;", "loop"), ("atom.shared.max.u64 %g, [%b], %h;", "loop"),
        ("atom.shared.and.b64 %g, [%b], %h;", "loop"), ("red.shared.max.s32 [%b], %c;", "atom"), ("red.shared.add.u32 [%b], %c;", "atom"),
    ],
)  # fmt: skip
def test_an_access_of_shared_memory_has_the_rule_of_its_instruction(text, op):
    """Floats and 64 bits are added in a loop of compare and swap; an exchange is an instruction of its own."""
    assert op_of(one(text)) == op


@pytest.mark.parametrize(
    ("before", "text", "is_one"),
    [
        ("", "red.shared.add.u32 [%a], 1;", True), ("", "red.shared.add.s32 [%a], 1;", True), ("", "red.shared.add.u32 [%a], 2;", False),
        ("", "red.shared.add.u64 [%a], 1;", False), ("", "red.shared.max.u32 [%a], 1;", False), ("mov.u32 %b, 1;", "red.shared.add.u32 [%a], %b;", True),
        ("mov.u32 %b, 1; mov.u32 %b, 2;", "red.shared.add.u32 [%a], %b;", False), ("mov.u32 %b, 1; add.u32 %b, %b, 1;", "red.shared.add.u32 [%a], %b;", False),
        ("mov.u32 %b, %c;", "red.shared.add.u32 [%a], %b;", False), ("", "atom.shared.add.u32 %d, [%a], 1;", True),
        ("st.shared.u32 [%a], %d;", "atom.shared.add.u32 %d, [%a], 1;", False), ("mov.u32 %d, 5;", "atom.shared.add.u32 %d, [%a], 1;", True),
        ("st.shared.u32 [%a], %d;", "atom.shared.add.u32 %c, [%a], 1;", True), ("", "atom.shared.exch.b32 %d, [%a], 1;", False),
    ],
)  # fmt: skip
def test_a_number_that_is_always_one_is_counted_where_nobody_reads_the_result(before, text, is_one):
    body = instructions(f"{before} {text}")
    assert counted_ones(body) == ({id(body[-1])} if is_one else set())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%a,%b,%c,%d}, {%a,%b}, {%f0,%f1,%f2,%f3};", (32, 2 * 16 * 8 * 8, 0, 0)),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {WGMMA}, %g, %h, 1, 1, 1, 0, 0;", (128, 2 * 64 * 8 * 16, 64 * 32, 8 * 32)),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {WGMMA}, {{%a,%b,%c,%d}}, %h, 1, 1, 1, 0;", (128, 2 * 64 * 8 * 16, 0, 8 * 32)),
        (f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {WGMMA}, %g, %h, %a, 0, 1, 1, 1, 0, 0;", (128, 2 * 64 * 8 * 32, 64 * 32, 8 * 64)),
        ("wgmma.fence.sync.aligned;", None), ("add.u32 %a, %b, %c;", None),
    ],
)  # fmt: skip
def test_a_matrix_instruction_has_the_operations_and_the_operand_bytes_of_its_shape(text, found):
    """A row has 32 bytes of K; of a sparse product B has the K of all elements. A in registers reads nothing."""
    assert product_of(one(text)) == found


def test_words_of_matrix_instructions_and_kinds_of_copies():
    sparse = f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {WGMMA}, %g, %h, %a, 0, 1, 1, 1, 0, 0;"
    assert matrix_words(one(sparse)) == ("wgmma.sp", "m64n8k32", "f32.bf16.bf16")
    dense = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%a,%b,%c,%d}, {%a,%b}, {%f0,%f1,%f2,%f3};"
    assert matrix_words(one(dense)) == ("mma", "m16n8k8", "f32.tf32.tf32.f32")
    names = {
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group": "TMA reductions", "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group": "TMA stores",
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier": "TMA loads", "cp.reduce.async.bulk.global.shared::cta": "bulk reductions",
        "cp.async.bulk.shared::cluster.global": "bulk copies", "cp.async.ca.shared.global": "cp.async", "st.async.shared::cluster": "st.async", "red.async.relaxed": "red.async",
        "ld.shared.u32": "", "st.shared.u32": "",
    }  # fmt: skip
    assert {name: copy_kind(name) for name in names} == names
    assert {kind for kind, _ in COPIES} == {kind for kind in names.values() if kind}


# ---- Lanes


def some_threads(rng):
    return np.flatnonzero(rng.random(256) < rng.choice([0.05, 0.5, 0.9]))


def test_threads_are_rows_of_their_warps():
    rng = np.random.default_rng(1)
    sets = [some_threads(rng) for _ in range(40)] + [np.arange(a, b) for a, b in ((0, 32), (32, 96), (0, 33), (1, 33), (31, 32), (16, 48))]
    sets += [np.r_[0:31, 32], np.r_[0:16, 32:48], np.r_[0, 63]]
    for threads in filter(len, sets):
        at = rng.integers(0, 1 << 20, len(threads))
        rows, active = by_warp(threads, at)
        warps = sorted({*(threads // 32).tolist()})
        assert active.tolist() == [sum(1 << t % 32 for t in threads.tolist() if t // 32 == warp) for warp in warps]
        wanted = np.zeros((len(warps), 32), np.int64)
        for t, where in zip(threads.tolist(), at.tolist(), strict=True):
            wanted[warps.index(t // 32), t % 32] = where
        assert np.array_equal(rows, wanted)
        assert Counting._warps(threads) == len(warps)
    assert Counting._warps(np.zeros(0, np.int64)) == 0


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_local_memory_has_word_n_of_all_lanes_together(size):
    """By hand: byte b of a lane's own memory lies at (b / 4 * 32 + lane) * 4 + b mod 4, in sectors of 32 bytes."""
    rng, row, wanted = np.random.default_rng(size), Row(), 0
    for _ in range(10):
        threads = some_threads(rng)
        own = np.full(len(threads), int(rng.integers(0, 8)) * 16) if size > 4 else rng.integers(0, 8, len(threads)) * size
        row.local(threads, own, size)
        wanted += len({
            (t // 32, ((b // 4 * 32 + t % 32) * 4 + b % 4) // 32) for t, first in zip(threads.tolist(), own.tolist(), strict=True) for b in range(first, first + size)
        })  # fmt: skip
        assert row.local_sectors == wanted
    assert row.local_requests > 10
    assert (row.sure, row.global_requests) == (Sure.NONE, 0)


def test_a_row_is_as_sure_as_its_least_sure_access():
    for first, second in itertools.product(Sure, Sure):
        row = Row()
        row.doubt(first, "first")
        row.doubt(second, "second")
        worst = max(first, second, key=[Sure.EXACT, Sure.BOUND, Sure.NONE].index)
        assert row.sure is worst
        assert row.why == ("" if worst is Sure.EXACT else "first" if worst is first else "second")
        other = Row()
        other.add(row)
        assert (other.sure, other.why) == (row.sure, row.why)


def test_rows_are_summed_column_by_column_and_the_worst_degree_is_the_largest():
    rng = np.random.default_rng(2)
    names = [f.name for f in dataclasses.fields(Row) if f.name not in ("sure", "why")]
    assert {*names} == {c.name for c in COLUMNS}
    rows = [Row(**{name: int(rng.integers(1, 99)) for name in names}) for _ in range(3)]
    total = sum_of(rows)
    assert {name: getattr(total, name) for name in SUMMED} == {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
    assert total.worst_degree == max(row.worst_degree for row in rows)
    assert sum_of(rows[:1]) is rows[0]


def test_an_address_is_uniform_if_all_lanes_of_each_warp_have_it_and_some_warp_has_two():
    rng = np.random.default_rng(3)
    for _ in range(60):
        rows = rng.integers(0, 2, (2, 32)) * rng.integers(0, 2)
        rows[:, rng.integers(0, 32)] = rng.integers(0, 3)
        masks = [int(rng.integers(1, 1 << 32)) if rng.random() < 0.5 else 1 << int(rng.integers(0, 32)) for _ in range(2)]
        own = [{rows[n, lane] for lane in range(32) if mask >> lane & 1} for n, mask in enumerate(masks)]
        wanted = all(len(places) == 1 for places in own) and any(mask.bit_count() > 1 for mask in masks)
        assert Counting._is_uniform(rows, np.array(masks, np.int64)) == wanted


def test_a_row_counts_requests_of_warps_with_a_lane():
    row = Row()
    at, active = np.arange(32)[None] * np.array([[4], [8]]), np.array([(1 << 32) - 1, 0xFF], np.int64)
    row.everywhere(at, active, 4)
    assert (row.global_requests, row.sectors, row.ideal_sectors) == (2, 4 + 2, 4 + 1)
    row.shared("st", at, active, 4)
    assert (row.shared_requests, row.wavefronts, row.ideal_wavefronts, row.worst_degree) == (2, 2, 2, 1)
    row.shared("ld", at * 32, active, 4)
    assert (row.wavefronts, row.worst_degree, row.sure) == (2 + 32 + 8, 32, Sure.EXACT)
    row.shared("cp.async.cg", at, active, 4)
    assert (row.wavefronts, row.ideal_wavefronts, row.shared_requests, row.sure) == (42, 4, 6, Sure.NONE)


# ---- Bodies


def test_a_body_numbers_its_instructions_and_takes_others_behind_them():
    some, others = instructions("mov.u32 %a, 1; add.u32 %a, %a, 1; mov.u32 %b, 2;"), instructions("exit; trap;")
    body = Body(some)
    assert [body.number(i) for i in (*some, *reversed(others), some[1])] == [0, 1, 2, 3, 4, 1]
    assert body.instructions == [*some, *reversed(others)]
    block = [some[2], others[0]]
    assert body.block(block).tolist() == body.block(block).tolist() == [2, 4]
    assert body.block([some[0]]).tolist() == [0]
    guards = [(some[1], 7), (others[1], 5)]
    assert [x.tolist() for x in body.guards(guards)] == [[1, 3], [7, 5]] == [x.tolist() for x in body.guards(guards)]


def test_products_are_found_among_the_instructions_that_ran():
    text = f"add.u32 %a, %b, %c; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {WGMMA}, %g, %h, 1, 1, 1, 0, 0; mov.u32 %a, 1;"
    body = Body(instructions(text * 2))
    assert body.multiplies(np.array([True] * 6)) == [1, 4]
    assert body.multiplies(np.array([True, False, True, True])) == []
    assert body.multiplies(np.array([False] * 4 + [True] * 2)) == [4]
    assert [body.product(n) is None for n in range(3)] == [True, False, True]


# ---- Limits


@pytest.mark.parametrize(
    ("place", "row", "holds"),
    [
        (None, ("a.cu:9", 67), True), ("67", ("a.cu:9", 67), True), ("67", ("a.cu:67", 7), False), ("line 67", ("", 67), True), ("gemm.cu:91", ("gemm.cu:91", 3), True),
        ("gemm.cu:91", ("/src/gemm.cu:91", 3), True), ("gemm.cu:91", ("/src/my_gemm.cu:91", 3), False), ("gemm.cu:91", ("gemm.cu:9", 91), False),
    ],
)  # fmt: skip
def test_a_limit_holds_for_its_line(place, row, holds):
    (limit,) = limits_of({"shared_wavefronts": 5 if place is None else {place: 5}})
    assert (limit.name, limit.column, limit.most) == ("shared_wavefronts", "wavefronts", 5)
    assert limit.holds_for(*row) is holds


def test_limits_have_names_of_columns_and_numbers_from_0_on():
    found = limits_of({"global_sectors": 0, "flop": {"1": 2, "a.cu:3": 4}})
    assert [(x.name, x.column, x.place, x.most) for x in found] == [
        ("global_sectors", "sectors", "", 0),
        ("flop", "flop", "1", 2),
        ("flop", "flop", "a.cu:3", 4),
    ]
    for wrong, said in (
        (3, "needs true, false, or a table"), ({"wavefront": 1}, "is no counter"), ({"wavefronts": -1}, "counters.wavefronts"), ({"wavefronts": {"x": 1}}, "is no line"),
        ({"wavefronts": {"a.cu": 1}}, "is no line"), ({"wavefronts": {"line": 1}}, "is no line"), ({"wavefronts": 1.5}, "counters.wavefronts"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            limits_of(wrong)


# ---- The table


RESIDENCE = Residence("NVIDIA H200", 128, 4096, None, 168, CtaFit(32, 16, 7), 1, None, 0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "occupancy: at most 7 CTAs of 128 threads and 4,096 bytes of shared memory on a multiprocessor (NVIDIA H200), limited by shared memory; so many fit if ptxas gives a thread at most 168 registers"),
        ({"fit": CtaFit(32, 16, 1)}, "at most 1 CTA of 128"), ({"fit": CtaFit(32, 16, 0)}, "occupancy: 0 CTAs of 128"),
        ({"registers": 32, "fit": CtaFit(32, 16, 20, 16)}, "occupancy: 16 CTAs of 128 threads and 4,096 bytes of shared memory on a multiprocessor (NVIDIA H200), limited by threads and registers; 32 registers a thread"),
        ({"clusters": 1, "cluster_size": 2}, "; 1 cluster of 2 on the card;"), ({"clusters": 0, "cluster_size": 4}, "; 0 clusters of 4 on the card;"),
        ({"tensor_columns": 512}, "tensor memory: a CTA allocates at most 512 of 512 columns at once; 1 such CTA fits on a multiprocessor"),
        ({"tensor_columns": 128}, "at most 128 of 512 columns at once; 4 such CTAs fit on a multiprocessor"),
    ],
)  # fmt: skip
def test_what_a_multiprocessor_holds_is_said_in_numbers(changed, said):
    found = RESIDENCE._replace(**changed)
    assert said in found.text()
    assert found.text().count("\n") == (found.tensor_columns > 0)
    about = found.as_dict()
    assert (about["ctas"], about["tensor_columns"], about["limits"]) == (found.ctas, found.tensor_columns, list(found.fit.limits))


def table(rows, **more):
    """Counters of rows: (source, line, instruction, class, {column: number})."""
    words = {name: np.array([row[n] for row in rows], object) for n, name in enumerate(("source", "line", "instruction", "class"))}
    numbers = {c.name: np.array([row[4].get(c.name, 0) for row in rows], np.int64) for c in COLUMNS}
    sure = {
        "sure": np.array([row[4].get("sure", "exact") for row in rows], object),
        "why": np.array([row[4].get("why", "") for row in rows], object),
    }
    return Counters({**words, **numbers, **sure}, **more)


ROWS = [
    ("a.cu:3", 10, "ld.shared.u32", "load", {"executed": 8, "lanes": 256, "wavefronts": 16, "ideal_wavefronts": 8, "worst_degree": 2}),
    ("a.cu:3", 11, "ld.global.u32", "load", {"executed": 2, "lanes": 40, "predicated_off": 10, "sectors": 5, "ideal_sectors": 4}),
    ("", 12, "st.shared.u32", "store", {"executed": 1, "lanes": 32, "wavefronts": 1, "ideal_wavefronts": 1, "worst_degree": 1, "sure": "lower bound", "why": "so"}),
    ("", 13, "cp.async.bulk.shared::cluster.global", "copy", {"copied_bytes": 100, "cluster_bytes": 7}),
    ("", 14, "cp.async.bulk.shared::cluster.global", "copy", {"copied_bytes": 28}),
    ("", 15, "mma.sync", "matrix", {"flop": 2880}),
]  # fmt: skip


def test_sums_of_a_table_are_those_of_its_rows():
    found = table(ROWS)
    for column in COLUMNS:
        each = [row[4].get(column.name, 0) for row in ROWS]
        assert found.total(column.name) == (max(each) if column.name == "worst_degree" else sum(each))
    by_source = found.by("source")
    assert (by_source["a.cu:3"]["executed"], by_source["a.cu:3"]["worst_degree"], by_source[""]["executed"]) == (10, 2, 1)
    assert {key: one["executed"] for key, one in found.by("class").items()} == {"load": 10, "store": 1, "copy": 0, "matrix": 0}
    assert (found.copies, found.moved_bytes) == ({"bulk copies": 128, "other CTAs' shared memory": 7}, 5 * 32 + 128)
    assert found.intensity == 2880 / 288
    assert (found.is_exact, table(ROWS[:2]).is_exact, len(found)) == (False, True, 6)
    assert (table(ROWS[:1]).intensity, table(ROWS[:1]).copies, table([]).total("worst_degree")) == (0.0, {}, 0)
    with pytest.raises(InputError, match="needs one of"):
        found.by("wavefronts")
    assert [row["line"] for row in found.as_dict()["rows"]] == [10, 11, 12, 13, 14, 15]


def test_a_table_is_told_by_what_costs_most():
    lines = table(ROWS, products=(MatrixCount("mma", "m16n8k8", "f32.tf32.tf32.f32", 3, 2880),), residence=RESIDENCE).text().splitlines()
    assert lines[0] == (
        "counters: 17 shared wavefronts (9 ideal), 5 global sectors (4 ideal), 128 bytes copied, 2,880 operations of matrix instructions, 10.0 for each byte of global memory"
    )
    assert lines[1:3] == [
        "matrix instructions: 3 mma m16n8k8 f32.tf32.tf32.f32",
        "bytes copied: bulk copies 128, other CTAs' shared memory 7",
    ]
    assert lines[3] == (
        "PTX instructions: 11 executed by warps, 29.8 of 32 lanes active (3.0% of the active lanes have a false guard): load 10 (29.6), store 1 (32.0)"
    )
    assert lines[4].startswith("occupancy: ")
    rows = [line.split() for line in lines[6:]]
    assert [row[0:5] for row in rows] == [["16", "8", "2", "0", "0"], ["0", "0", "0", "5", "4"], ["1", "1", "1", "0", "0"]]
    assert lines[6].endswith("a.cu:3, line 10: ld.shared.u32")
    assert lines[8].endswith("line 12: st.shared.u32 (lower bound: so)")
    assert len(lines) == 9
    assert table(ROWS).text(1).splitlines()[-1] == "  and 2 more, see --json"
    assert "more, see" not in table(ROWS).text(3)
    assert len(table(ROWS).text(0).splitlines()) == 3
    bare = table([("", 1, "add.u32", "arithmetic", {"executed": 1, "lanes": 32, "local_sectors": 3, "operand_wavefronts": 4})]).text()
    assert bare.splitlines()[0].endswith("(0 ideal), 4 wavefronts of matrix operands, 3 sectors of local memory")
    assert "false guard" not in bare


def test_places_of_a_table_are_in_the_order_of_lines_and_one_for_equal_words():
    some = instructions("mov.u32 %a, 1;\nadd.u32 %a, %a, 1;\nmov.u32 %b, 2; mov.u32 %c, 2;")
    ran = np.array([True, False, True, True])
    named = {id(i): ("", line, text, "") for i, (line, text) in zip(some, ((9, "x"), (8, "y"), (7, "z"), (7, "z")), strict=True)}
    places = Places.of(ran, some, lambda i: named[id(i)])
    assert places.at.tolist() == [1, -1, 0, 0]
    assert (places.words["line"].tolist(), places.words["instruction"].tolist()) == ([7, 9], ["z", "x"])


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_as_many_registers_fit_as_is_said_and_no_more(arch):
    """For each number of CTAs; 0 if they fit with no number, as CTAs of many threads do not."""
    card, seen = card_of(arch), set()
    for threads in (32, 96, 128, 384, 1024):
        for ctas in (1, 2, 3, 4, 7, 16, 33, 65):
            for most in (255, 40, 1):
                found = registers_for(card, threads, ctas, most)
                fits = [n for n in range(1, most + 1) if cta_fit(card, threads, 0, n).registers >= ctas]
                assert found == max(fits, default=0), (threads, ctas, most)
                seen.add(found == 0)
                seen.add(found == most)
    assert seen == {True, False}
