"""Counters of launches: every kind of access on its line, sums by line and source, by every tier; off they cost
nothing.
"""

import json
import os
import types

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from places import ROOT
from smemsim.cli import main
from smemsim.evidence import load_suite, replay_suite
from smemsim.testing import plugin

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, shared: str = ".shared .align 1024 .b8 tile[8192];") -> str:
    """A kernel whose threads have their number in %t, shared memory at %s and global memory at %g."""
    return f"""{HEAD}.visible .entry k(.param .u64 p) {{
.reg .b32 %t, %s, %a, %x, %y, %z, %w; .reg .b64 %g, %h, %b; .reg .pred %p; .reg .f32 %f<4>; .reg .b16 %c;
{shared}
ld.param.u64 %g, [p]; mov.u32 %t, %tid.x; mov.u32 %s, tile; mov.u32 %x, 3; mov.u32 %y, 0; mov.b64 %b, 5;
{body}
ret; }}"""


def counted(body: str, *, block: int = 32, grid: int = 1, **options) -> smemsim.Run:
    gpu = smemsim.Gpu("sm_90a")
    a = gpu.array(np.arange(4096, dtype=np.uint32))
    mode = os.environ.get("SMEMSIM_TIERS"), os.environ.get("SMEMSIM_COHORTS"), options
    text = f"{kernel(body)}// {mode}"  # a program keeps its tiers
    return gpu.launch(text, block=block, grid=grid, args=[a], counters=True, progress=False, **options)


def row(run: smemsim.Run, name: str) -> dict[str, object]:
    table = run.counters
    (n,) = [n for n, found in enumerate(table["instruction"]) if found == name]
    return {column: table[column][n] for column in table.columns}


@pytest.mark.parametrize("stride", [1, 2, 8, 32, 33])
@pytest.mark.parametrize("tier", ["closures", "compiled"])
def test_bank_conflicts_of_a_stride(monkeypatch: pytest.MonkeyPatch, stride: int, tier: str) -> None:
    """A stride of 2, 8 or 32 words has conflicts of that degree; an odd one has none. Four CTAs of two warps each."""
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    run = counted(f"mul.lo.u32 %a, %t, {4 * stride}; and.b32 %a, %a, 8188; add.u32 %a, %a, %s;\nst.shared.u32 [%a], %x;", block=64, grid=4)
    found = row(run, "st.shared.u32")
    degree = stride if stride % 2 == 0 else 1
    assert (found["executed"], found["lanes"], found["shared_requests"]) == (8, 256, 8)
    assert (found["wavefronts"], found["ideal_wavefronts"], found["worst_degree"]) == (8 * degree, 8, degree)
    assert found["sure"] == "exact"


KINDS_OF_BLOCKS = {
    "a loop without accesses, its lanes leave one by one": """mov.u32 %y, 0; and.b32 %z, %t, 7; setp.gt.u32 %p, %t, 40;
        AGAIN: add.u32 %y, %y, 1; @%p add.u32 %x, %x, %y; mul.lo.u32 %x, %x, 3; setp.le.u32 %q, %y, %z; @%q bra AGAIN;
        st.global.u32 [%h], %x;""",
    "accesses with and without a predicate, of several sizes": """setp.lt.u32 %p, %t, 37; mul.lo.u32 %a, %t, 48; and.b32 %a, %a, 4080; add.u32 %a, %a, %s;
        mov.u32 %y, 0; mov.u32 %v, %ctaid.x; setp.ne.u32 %r, %v, 1; shl.b32 %w, %t, 2; add.u32 %w, %w, %s;
        @%r ld.global.u32 %v, [%h]; @%r ld.global.u32 %v, [%g]; @%r st.shared.u32 [%w+4096], %x;
        AGAIN: @%p st.shared.u32 [%a+4], %x; st.shared.u16 [%a+2], %c; bar.sync 0;
        ld.shared.v4.b32 {%x, %z, %w, %v}, [%a]; ld.shared.v2.b32 {%x, %z}, [%a+8]; ld.shared.u8 %c, [%a+3]; @!%p ld.global.u32 %v, [%h+64]; ld.global.u32 %x, [%h]; ld.global.u32 %v, [%h+4];
        and.b32 %z, %t, 12; shl.b32 %z, %z, 4; add.u32 %z, %z, %s; ld.shared.v4.b32 {%x, %v, %w, %v}, [%z]; ld.shared.b64 %b, [%z+24];
        bar.sync 0; add.u32 %a, %a, 32; add.u32 %y, %y, 1; setp.lt.u32 %q, %y, 5; @%q bra AGAIN;
        st.global.u32 [%h], %x;""",
    "lanes that branch over a few instructions between shuffles": """mov.u32 %y, 0; setp.gt.u32 %p, %t, 70; and.b32 %z, %t, 1; setp.eq.u32 %r, %z, 0;
        AGAIN: shfl.sync.bfly.b32 %z, %x, 1, 31, -1; add.u32 %x, %x, %z;
        @%p bra OVER; add.u32 %x, %x, 5; @%r add.u32 %x, %x, %t;
        OVER: shfl.sync.bfly.b32 %z, %x, 2, 31, -1; @%r add.u32 %x, %x, %z; xor.b32 %x, %x, %t;
        add.u32 %y, %y, 1; setp.lt.u32 %q, %y, 6; @%q bra AGAIN;
        st.global.u32 [%h], %x;""",
    "warps whose lanes are at other distances": """shr.b32 %y, %t, 5; mul.wide.u32 %b, %y, 16; add.u64 %b, %b, %h; ld.global.u32 %x, [%b]; and.b32 %z, %t, 31; and.b32 %v, %z, 15; shr.b32 %w, %z, 4; xor.b32 %z, %z, 5;
        mov.u32 %x, 64; shl.b32 %x, %x, %y; mad.lo.u32 %a, %w, %x, %s; mad.lo.u32 %a, %v, 4, %a; ld.shared.u32 %x, [%a];
        shl.b32 %y, %y, 1; shl.b32 %z, %z, 2; shl.b32 %z, %z, %y; add.u32 %z, %z, %s; ld.shared.u32 %x, [%z];
        shl.b32 %v, %v, 2; shl.b32 %v, %v, %y; mad.lo.u32 %a, %w, 64, %v; add.u32 %a, %a, %s; ld.shared.u32 %x, [%a];
        st.global.u32 [%h], %x;""",
    "some of the threads of each CTA": """mov.u32 %y, 0; mov.u32 %v, %ctaid.x; and.b32 %v, %v, 127; add.u32 %v, %v, 20; setp.ge.u32 %p, %t, %v; @%p bra END; shl.b32 %a, %t, 3; add.u32 %a, %a, %s;
        AGAIN: st.shared.v2.b32 [%a], {%x, %y}; ld.shared.b64 %b, [%a]; ld.global.u32 %z, [%h+128]; mad.lo.u32 %x, %z, %x, %y;
        add.u32 %y, %y, 1; setp.lt.u32 %q, %y, 4; @%q bra AGAIN; st.global.u32 [%h], %x;
        END:""",
    "threads from 48 on in every second CTA": """mov.u32 %v, %ctaid.x; and.b32 %w, %v, 1; mad.lo.u32 %w, %w, 48, %t; sub.u32 %w, %w, 48; mul.lo.u32 %v, %v, 5; and.b32 %v, %v, 63; setp.gt.u32 %p, %w, %v; @%p bra END;
        shl.b32 %a, %t, 3; add.u32 %a, %a, %s; mad.lo.u32 %w, %t, 12, %s; st.shared.v2.b32 [%a], {%x, %y}; st.shared.u32 [%w+4096], %x;
        .reg .b64 %d<5>; mul.wide.u32 %d0, %v, 4; add.u64 %d0, %d0, %g; mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %d0;
        mul.wide.u32 %d2, %t, 12; add.u64 %d2, %d2, %d0; mul.wide.u32 %d3, %t, 16; add.u64 %d3, %d3, %d0; mul.wide.u32 %d4, %t, 32; add.u64 %d4, %d4, %d0;
        AGAIN: ld.shared.b32 %x, [%a]; ld.global.u32 %z, [%h]; ld.shared.u32 %v, [%w+4096]; ld.global.u32 %v, [%d0];
        ld.global.u32 %v, [%d1]; ld.global.u32 %v, [%d2]; ld.global.u32 %v, [%d3]; ld.global.u32 %v, [%d4];
        add.u32 %y, %y, 1; setp.lt.u32 %q, %y, 4; @%q bra AGAIN;
        END:""",
}


@pytest.mark.parametrize("kind", KINDS_OF_BLOCKS)
@pytest.mark.parametrize("sanitize", [False, True])
def test_compiled_blocks_count_as_interpreted_ones(monkeypatch: pytest.MonkeyPatch, kind: str, sanitize: bool) -> None:
    """Every column, every note, with and without the sanitizer and cohorts, for CTAs of 96 threads: 4, or more than fit
    into one piece of the tables of places.
    """
    monkeypatch.setenv("SMEMSIM_LLVM_LEVEL", "0")
    body = f".reg .pred %q, %r; .reg .b32 %v; mul.wide.u32 %h, %t, 4; add.u64 %h, %h, %g; mov.b16 %c, 1;\n{KINDS_OF_BLOCKS[kind]}"
    found = []
    for tier, cohorts in (("closures", "on"), ("compiled", "on"), ("compiled", "off")):
        monkeypatch.setenv("SMEMSIM_TIERS", tier)
        monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
        run = counted(body, block=96, grid=200 if kind == "threads from 48 on in every second CTA" else 4, sanitize=sanitize)
        notes = [str(f) for f in (*run.findings, *run.remarks) if f.code.startswith("P")]
        found.append(({name: run.counters[name].tolist() for name in run.counters.columns}, notes))
    assert found[1] == found[0]
    assert found[2] == found[0]


@pytest.mark.parametrize("tier", ["closures", "compiled"])
def test_each_warp_costs_what_its_own_lanes_do(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    """By hand, for the three warps of each CTA: halves of a warp 64, 128 and 256 bytes apart; lanes 4, 16 and 64 bytes
    apart; both.
    """
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    body = f".reg .b32 %v; mul.wide.u32 %h, %t, 4; add.u64 %h, %h, %g;\n{KINDS_OF_BLOCKS['warps whose lanes are at other distances']}"
    table = counted(body, block=96, grid=4, sanitize=False).counters
    assert table.total("wavefronts") == 4 * ((1 + 2 + 2) + (1 + 4 + 16) + (1 + 3 + 9))
    assert table.total("sectors") == 4 * ((4 + 5 + 4) + 3 * 4)


@pytest.mark.parametrize("tier", ["closures", "compiled"])
def test_a_warp_of_which_one_lane_is_elsewhere_costs_more_than_the_one_before(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    """Whichever lane it is: in the bank of its neighbour, at another word."""
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    for lane in (0, 1, 15, 16, 17, 31):
        body = f"""and.b32 %z, %t, 31; xor.b32 %y, %z, 5; shl.b32 %y, %y, 2; add.u32 %a, %y, %s; setp.eq.u32 %p, %z, {lane}; setp.gt.and.u32 %p, %t, 31, %p;
        @%p xor.b32 %a, %a, 132; ld.shared.u32 %x, [%a]; st.global.u32 [%g], %x;"""
        assert row(counted(body, block=96, grid=2, sanitize=False), "ld.shared.u32")["wavefronts"] == 2 * (1 + 2 + 2)


def test_every_kind_of_access_is_counted_on_its_line() -> None:
    run = counted("""
        shl.b32 %a, %t, 4; add.u32 %a, %a, %s;
        st.shared.v4.b32 [%a], {%x, %x, %x, %x};
        ld.shared.v4.b32 {%x, %y, %z, %w}, [%a];
        and.b32 %x, %t, 7; mad.lo.u32 %a, %x, 128, %s;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x}, [%a];
        atom.shared.add.u32 %y, [%a], %t;
        red.shared.add.u32 [%a], 1;
        shl.b32 %z, %t, 5; cvt.u64.u32 %h, %z; add.u64 %h, %h, %g;
        ld.global.u32 %w, [%h];
        cp.async.ca.shared.global [%a], [%h], 4;
        cp.async.cg.shared.global [%a], [%h], 16;
        cp.async.wait_all;
        st.shared.u32 [%a], %w;
        red.global.add.u32 [%g], %w;""")  # fmt: skip
    table = run.counters
    found = {str(name): (int(w), int(i), int(s), str(sure)) for name, w, i, s, sure in zip(
        table["instruction"], table["wavefronts"], table["ideal_wavefronts"], table["sectors"], table["sure"], strict=True)}  # fmt: skip
    assert found["st.shared.v4.b32"] == (4, 4, 0, "exact")
    assert found["ld.shared.v4.b32"] == (4, 4, 0, "exact")
    assert found["ldmatrix.sync.aligned.m8n8.x1.shared.b16"] == (8, 1, 0, "exact")
    assert found["atom.shared.add.u32"] == (32, 1, 0, "exact")
    assert found["red.shared.add.u32"] == (8, 1, 0, "exact")
    assert found["ld.global.u32"] == (0, 0, 32, "exact")
    assert found["cp.async.ca.shared.global"][2:] == (32, "lower bound")
    assert found["cp.async.cg.shared.global"][3] == "not countable"
    assert found["red.global.add.u32"] == (0, 0, 1, "exact")
    assert set(run.counters["class"]) >= {"load", "store", "atomic", "copy", "arithmetic"}


def test_lanes_that_a_predicate_leaves_out() -> None:
    run = counted("setp.lt.u32 %p, %t, 5;\n@%p st.shared.u32 [%s], %x;\nst.shared.u16 [%s], %c;")
    found = row(run, "st.shared.u32")
    assert (found["lanes"], found["predicated_off"], found["wavefronts"]) == (32, 27, 1)
    assert row(run, "st.shared.u16")["predicated_off"] == 0


def test_lanes_that_branch_away_are_no_lanes() -> None:
    run = counted("setp.lt.u32 %p, %t, 8;\n@!%p bra OVER;\nst.global.u32 [%g], %x;\nOVER:")
    found = row(run, "st.global.u32")
    assert (found["executed"], found["lanes"], found["sectors"]) == (1, 8, 1)


def test_the_table_is_numpy_and_json_and_sums_up() -> None:
    run = counted("ld.shared.u32 %x, [%s];\nld.shared.u32 %y, [%s];\nld.global.u32 %z, [%g];", block=64)
    table = run.counters
    assert all(len(table[name]) == len(table) for name in table.columns)
    assert table.total("wavefronts") == 4 == sum(one["wavefronts"] for one in table.by("class").values())
    assert json.loads(json.dumps(table.as_dict()))["totals"]["sectors"] == 2
    assert table.as_dict()["metrics"]["wavefronts"] == "memory_l1_wavefronts_shared"
    assert "4 shared wavefronts (4 ideal), 2 global sectors (2 ideal)" in run.text()
    with pytest.raises(smemsim.InputError, match="there is none; did you mean 'wavefronts'"):
        table["wavefront"]


def test_products_count_operations_and_operands() -> None:
    registers = ", ".join(f"%d{n}" for n in range(4))
    body = f""".reg .f32 %d<4>; .reg .b64 %e; mov.b64 %e, 0x40000040;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{registers}}}, %e, %e, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
    run = counted(body, block=256, sanitize=False)
    found = row(run, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16")
    assert found["flop"] == 2 * 2 * 64 * 8 * 16
    assert found["operand_wavefronts"] == 2 * (64 * 32 + 8 * 32) // 128


def test_predicates_local_memory_and_other_ctas_memory() -> None:
    """By hand: two CTAs of 64 threads in a cluster. Every number follows from the text of the kernel."""
    body = """.local .align 16 .b8 own[64]; .reg .b64 %l; mov.u64 %l, own; and.b32 %a, %t, 3; setp.eq.u32 %p, %a, 0;
        @%p add.u32 %y, %y, 1;
        @!%p bra AFTER;
        st.local.u32 [%l+4], %x;
        AFTER: st.local.v4.u32 [%l+16], {%x, %x, %x, %x};
        mapa.shared::cluster.u32 %z, %s, 1; st.shared.u32 [%s], %x;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        ld.shared::cluster.u32 %w, [%z];
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    run = counted(body, block=64, grid=2, cluster=2)
    assert [(row(run, name)["lanes"], row(run, name)["predicated_off"]) for name in ("add.u32", "bra")] == [(128, 96), (128, 32)]
    one, four = row(run, "st.local.u32"), row(run, "st.local.v4.u32")
    assert (one["lanes"], one["local_requests"], one["local_sectors"], one["sure"]) == (32, 4, 16, "not countable")
    assert (four["local_requests"], four["local_sectors"]) == (4, 64)
    assert row(run, "ld.shared::cluster.u32")["cluster_bytes"] == 64 * 4  # of rank 0: rank 1 reads its own
    assert run.counters.copies == {"other CTAs' shared memory": 256}
    assert run.counters.by("class")["load"]["executed"] == 4 + 4  # the parameter, and the load


def test_matrix_instructions_by_type_and_shape_and_what_a_multiprocessor_holds() -> None:
    """A GEMM of 128 x 128 x 1024 by two warpgroups, as one counts it by hand: 64 steps of K, tiles of 64 columns."""
    run, _ = smemsim.launch_file(ROOT / "golden/sm_90a/launches/kernels/gemm_specialized_k1024", counters=True, progress=False)
    table = run.counters
    assert table.products == (("wgmma", "m64n128k16", "f32.bf16.bf16", 2 * 64, 2 * 128 * 128 * 1024),)
    assert table.total("operand_wavefronts") == 2 * 64 * (64 * 32 + 128 * 32) // 128
    assert table.copies == {"TMA loads": 2 * 128 * 1024 * 2, "TMA stores": 128 * 128 * 2}
    assert table.intensity == 2 * 128 * 128 * 1024 / (table.moved_bytes + table.total("sectors") * 32)
    held = table.residence
    assert (held.ctas, held.fit.limits, held.registers, held.most_registers) == (1, ("shared memory",), None, 168)
    assert held.as_dict()["ctas"] == 1 == table.as_dict()["occupancy"]["ctas"]


@pytest.mark.parametrize(
    ("registers", "ctas", "limits"), [(128, 4, ("registers",)), (32, 16, ("threads", "registers")), (16, 16, ("threads",))]
)
def test_registers_that_a_directive_fixes_limit_the_ctas(registers: int, ctas: int, limits: tuple[str, ...]) -> None:
    text = kernel("st.shared.u32 [%s], %x;", ".shared .b8 tile[64];").replace("(.param .u64 p)", f"(.param .u64 p) .maxnreg {registers}")
    gpu = smemsim.Gpu("sm_90a")
    held = gpu.launch(text, block=128, args=[gpu.array(np.zeros(8, np.uint32))], counters=True, progress=False).counters.residence
    assert (held.ctas, held.fit.limits, held.registers) == (ctas, limits, registers)


def test_counters_and_findings_do_not_change_each_other() -> None:
    """The same findings, the same bytes, the same counts, with the sanitizer and without."""
    body = "shl.b32 %a, %t, 3; add.u32 %a, %a, %s;\nst.shared.u32 [%s], %t;\nld.shared.u32 %x, [%a];"
    watched, alone = counted(body, block=64), counted(body, block=64, sanitize=False)
    gpu = smemsim.Gpu("sm_90a")
    plain = gpu.launch(kernel(body), block=64, args=[gpu.array(np.zeros(4096, np.uint32))], progress=False)
    assert [f.code for f in watched.findings] == [f.code for f in plain.findings] != []
    assert all(np.array_equal(watched.counters[name], alone.counters[name]) for name in watched.counters.columns)
    with pytest.raises(smemsim.InputError, match="launch with counters=True"):
        _ = plain.counters


@pytest.mark.parametrize("case", ["bitonic_sort", "matrices_ldst", "gemm_tf32", "softmax", "triton_transpose", "warp_ops"])
def test_whole_kernels_cost_what_the_card_counts(case: str) -> None:
    """Some of the kernels of the suite; by night all of them."""
    suite = load_suite(ROOT / "golden" / "sm_90a" / "launch_counters")
    (n,) = np.flatnonzero(suite.arrays["name"] == case)
    report = replay_suite(suite, case=int(n))
    assert (report.differing, report.compared > 4) == (0, True), report.text()


def test_the_command_line_prints_and_writes_counters(tmp_path) -> None:
    (tmp_path / "k.ptx").write_text(kernel("shl.b32 %a, %t, 7; add.u32 %a, %a, %s;\nst.shared.u32 [%a], %x;"))
    words = ["run", str(tmp_path / "k.ptx"), "--block", "32", "--arg", "zeros:u32:8", "--counters"]
    done = CliRunner().invoke(main, words)
    assert "32 shared wavefronts (1 ideal)" in done.output
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert found["counters"]["totals"]["worst_degree"] == 32
    assert CliRunner().invoke(main, [*words, "--workers", "2"]).exit_code == 2


def codes(run: smemsim.Run) -> list[str]:
    return [f.code for f in (*run.findings, *run.remarks)]


TRANSPOSE = (
    "shl.b32 %a, %t, 7; and.b32 %a, %a, 4095; {change}add.u32 %a, %a, %s;\nst.shared.u32 [%a], %x;\nbar.sync 0;\nld.shared.u32 %y, [%a];"
)


def test_a_line_with_conflicts_and_the_repair_that_is_offered() -> None:
    """What the note offers is put into the kernel, and the note is gone."""
    before = counted(TRANSPOSE.format(change=""), block=64)
    (note,) = before.remarks
    assert (note.code, note.line) == ("P902", 9)
    assert "bank conflicts of degree 32 here and at 1 more line: 97% of all shared wavefronts are wasted" in note.message
    assert "128 of the launch's 128 shared wavefronts; without conflicts they would take 4" in note.message
    assert "offset ^ (offset >> 5 & 0x7c)" in note.repair
    assert "tried: 128 wavefronts become 4" in note.repair
    assert "; or pad the rows: __shared__ T tile[rows][32 + 1]" in note.repair
    after = counted(TRANSPOSE.format(change="shr.u32 %y, %a, 5; and.b32 %y, %y, 0x7c; xor.b32 %a, %a, %y; "), block=64)
    assert codes(after) == []
    assert after.counters.total("wavefronts") == 4


@pytest.mark.parametrize(("descriptor", "named"), [(0x40000040, "none"), (0x40000000_40000040, "128B"), (0x40000140, "")])
def test_a_buffer_that_a_matrix_instruction_reads_keeps_its_layout(descriptor: int, named: str) -> None:
    """The note names the swizzle of the operand, and offers no XOR that the descriptor cannot have; of another buffer
    it does.
    """
    registers = ", ".join(f"%d{n}" for n in range(4))
    body = (
        TRANSPOSE.format(change="")
        + f""" .reg .f32 %d<4>; .reg .b64 %e; mov.b64 %e, {descriptor:#x}; wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{registers}}}, %e, %e, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
    )
    (note,) = [f for f in counted(body, block=128, sanitize=False).remarks if f.code == "P902"]
    assert (f"wgmma at line 12 reads this buffer through a descriptor with swizzle {named}," in note.repair) == bool(named)
    assert ("offset ^ (offset >> 5 & 0x7c)" in note.repair) == (not named)


@pytest.mark.parametrize(("inner", "fix"), [(32, "offset >> 3 & 0x70"), (16, "offset >> 3 & 0x30")])
def test_a_buffer_that_tma_writes_gets_a_swizzle_that_spans_its_rows(inner: int, fix: str) -> None:
    """Lanes read two neighbouring rows: the 32B swizzle would do, but TMA does not take it for rows of 64 or 128 bytes."""
    gpu = smemsim.Gpu("sm_90a")
    form = {"global_dim": (64, 64), "global_strides": (256,), "box_dim": (inner, 32), "element_strides": (1, 1), "interleave": "none"}
    address = gpu.array(np.zeros((64, 64), np.uint32)).address
    tensor_map = smemsim.TensorMap.tiled(
        data_type="u32", global_address=address, swizzle="none", l2_promotion="none", oob_fill="zeros", **form
    )
    text = f"""{HEAD}.visible .entry k(.param .align 64 .b8 m[128]) {{
    .reg .b32 %t, %s, %a, %x, %y, %z, %w; .reg .b64 %m, %st; .reg .pred %p; .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 bar[8];
    mov.b64 %m, m; mov.u32 %t, %tid.x; mov.u32 %s, tile; mov.u32 %z, 0; setp.ne.u32 %p, %t, 0;
    @%p bra READY;
    mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %st, [bar], {inner * 128};
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%m, {{%z, %z}}], [bar];
    READY: bar.sync 0;
    AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0; @!%p bra AGAIN;
    and.b32 %a, %t, 1; shl.b32 %a, %a, 7; and.b32 %x, %t, 6; shl.b32 %x, %x, 4; add.u32 %a, %a, %x; add.u32 %a, %a, %s;
    {"ld.shared.v4.b32 {%x, %y, %z, %w}, [%a]; " * 40} ret; }}"""
    run = gpu.launch(text, args=[tensor_map], block=32, counters=True, progress=False)
    (note,) = [f for f in run.remarks if f.code == "P902"]
    assert f"offset ^ ({fix}) in the map and the threads' addresses" in note.repair


@pytest.mark.parametrize("tier", ["closures", "compiled"])
def test_lines_of_one_buffer_are_one_note_and_buffers_are_apart(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    monkeypatch.setenv("SMEMSIM_TIERS", tier)
    body = (
        TRANSPOSE.format(change="")
        + "\nmul.lo.u32 %a, %t, 8; and.b32 %a, %a, 255; add.u32 %a, %a, %s;\n"
        + "st.shared.u32 [%a+4096], %x;\n" * 40
    )
    found = [f for f in counted(body, block=64).remarks if f.code == "P902"]
    assert [f.line for f in found] == [9, 13]
    assert "and at 1 more line" in found[0].message
    assert [half.instruction.line for half in found[0].halves] == [9, 11]
    assert "and at 39 more lines" in found[1].message


def test_vectors_are_told_in_their_numbers_where_a_language_has_no_vectors() -> None:
    """Rows of 16 elements of 16 bytes: CUDA's are of 16 bytes, Gluon's of 4."""
    body = (
        ".reg .b32 %v; mad.lo.u32 %a, %t, 256, %s;\n"
        + "st.shared.v4.b32 [%a], {%x, %x, %x, %x};\nld.shared.v4.b32 {%x, %z, %w, %v}, [%a];\n" * 4
    )
    (note,) = [f for f in counted(body, sanitize=False).remarks if f.code == "P902"]
    assert "__shared__ T tile[rows][16 + 1] with T of 16 bytes" in note.repair
    assert "with_identity_for([[64, 4]], [rows, 64], [1, 0]) of 4-byte elements" in note.repair


def test_few_conflicts_of_a_large_launch_are_no_note() -> None:
    body = (
        "shl.b32 %a, %t, 2; add.u32 %a, %a, %s;\n"
        + "st.shared.u32 [%a], %x;\n" * 700
        + "shl.b32 %a, %t, 7; add.u32 %a, %a, %s;\nst.shared.u32 [%a], %x;"
    )
    assert codes(counted(body)) == []


@pytest.mark.parametrize(("shift", "expected"), [(2, []), (3, []), (6, ["P903"])])
def test_lines_that_touch_many_sectors(shift: int, expected: list[str]) -> None:
    body = f"shl.b32 %z, %t, {shift}; cvt.u64.u32 %h, %z; add.u64 %h, %h, %g;\nld.global.u32 %w, [%h];\nst.shared.u32 [%s], %w;"
    run = counted(body, block=128)
    assert [code for code in codes(run) if code[0] == "P"] == expected


@pytest.mark.parametrize(("mask", "expected"), [(3, ["P904"]), (32, [])])
def test_launches_whose_lanes_are_idle(mask: int, expected: list[str]) -> None:
    body = f"and.b32 %a, %t, {mask}; setp.ne.u32 %p, %a, 0;\n@%p bra OVER;\nNEXT: add.u32 %y, %y, 1; setp.lt.u32 %p, %y, 200;\n@%p bra NEXT;\nOVER:"
    assert codes(counted(body, block=64)) == expected


def test_bounds_of_counters() -> None:
    """Of the launch, of a line, of one that does not run; what is within its bound is silent."""
    body, gpu = TRANSPOSE.format(change=""), smemsim.Gpu("sm_90a")

    def found(bounds: object) -> list[tuple[str, int]]:
        run = gpu.launch(kernel(body), block=64, args=[gpu.array(np.zeros(4096, np.uint32))], counters=bounds, progress=False)
        return [(f.code, f.line) for f in run.findings]

    assert found({"shared_wavefronts": 128, "global_sectors": 0, "worst_degree": 32}) == []
    assert found({"shared_wavefronts": 127}) == [("P905", 9)]
    assert found({"worst_degree": 1}) == [("P905", 9)]
    assert found({"wavefronts": {"9": 64, "line 11": 63}}) == [("P905", 11)]
    assert len(found({"wavefronts": {"900": 64}})) == 1
    for wrong in ({"wavefront": 1}, {"wavefronts": -1}, {"wavefronts": {"x": 1}}, 3):
        with pytest.raises(smemsim.InputError, match="counters"):
            found(wrong)


@pytest.mark.parametrize(("most", "said"), [(384, ""), (383, "384 shared_wavefronts; the launch file allows at most 383")])
def test_a_recorded_launch_with_bounds_is_replayed_with_them(tmp_path, most: int, said: str) -> None:
    golden = ROOT / "golden" / "sm_90a" / "launches"
    for name in ("manifest.json", "data.npz"):
        (tmp_path / name).symlink_to(golden / name)
    folder = tmp_path / "kernels" / "bitonic_sort"
    folder.mkdir(parents=True)
    (folder / "kernel.ptx").symlink_to(golden / "kernels" / "bitonic_sort" / "kernel.ptx")
    launch = json.loads((golden / "kernels" / "bitonic_sort" / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps(launch | {"counters": {"shared_wavefronts": most}}))
    suite = load_suite(tmp_path)
    report = replay_suite(suite, case=suite.arrays["name"].tolist().index("bitonic_sort"))
    assert report.same == (not said)
    assert said in report.text()


def test_a_launch_file_has_bounds_and_its_exit_code_tells(tmp_path) -> None:
    (tmp_path / "kernel.ptx").write_text(kernel(TRANSPOSE.format(change="")))
    text = 'block = 64\nargs = [{ array = "x" }]\narrays = [{ name = "x", dtype = "u32", shape = [4096], distribution = "zeros" }]\n[counters]\nshared_wavefronts = '
    for most, code in ((128, 0), (64, 1)):
        (tmp_path / "launch.toml").write_text(f"{text}{most}\n")
        assert CliRunner().invoke(main, ["run", str(tmp_path / "launch.toml")]).exit_code == code
        assert CliRunner().invoke(main, ["run", str(tmp_path / "launch.toml"), "--counters"]).exit_code == code


def test_the_page_has_a_column_of_heat(tmp_path) -> None:
    """The line with conflicts has the longest bar and says why; a launch that was not counted has no such table."""
    (tmp_path / "k.ptx").write_text(kernel(TRANSPOSE.format(change="")))
    words = ["run", str(tmp_path / "k.ptx"), "--block", "64", "--arg", "zeros:u32:4096", "--report", str(tmp_path / "page.html")]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert "What lines cost" not in (tmp_path / "page.html").read_text()
    assert CliRunner().invoke(main, [*words, "--counters"]).exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<td class=num>50%</td>") == 2
    assert page.count("<span class=dim>bank conflicts</span>") == 2
    assert "st.shared.u32 [%a], %x;" in page
    (tmp_path / "transpose.cu").write_text("first\nsecond\n")
    ptx = kernel(TRANSPOSE.format(change="")).replace("st.shared.u32", ".loc 1 2 0\nst.shared.u32")
    (tmp_path / "k.ptx").write_text(ptx + f'\n.file 1 "{tmp_path}/transpose.cu"\n')
    assert CliRunner().invoke(main, [*words, "--counters"]).exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "transpose.cu:2" in page.partition("What lines cost")[2]  # lines of a source have its name


@pytest.mark.parametrize("name", ["counters", "pipeline"])
def test_an_option_of_pytest_that_has_no_launches_is_refused(name: str) -> None:
    options = {"smemsim_gpu": None, "smemsim_counters": name == "counters", "smemsim_pipeline": name == "pipeline"}
    config = types.SimpleNamespace(known_args_namespace=types.SimpleNamespace(**options))
    with pytest.raises(pytest.UsageError, match=f"--smemsim-{name}: needs a virtual GPU; add --smemsim-gpu sm_90a"):
        plugin.pytest_load_initial_conftests(config)
