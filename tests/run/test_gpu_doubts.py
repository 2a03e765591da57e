"""Values that may be wrong are told where they are used: rows, lanes and words that a kernel reads and throws away harm
nobody.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from launches import found, run
from launches import kernel as ptx_kernel
from ptx_kernels import kernel, wait
from scaled import WORD as SCALES
from smemsim import Gpu, InstrDescriptor, Run, Severity, SmemDescriptor
from taint import Program
from test_gpu_tcgen05_kernels import listed, multiplied, product


def launched(text: str, *, block: int = 128, arch: str = "sm_90a", **options: object) -> Run:
    gpu = Gpu(arch)
    arrays = [gpu.array(np.zeros(1024, np.float32)), gpu.array(np.ones(1024, np.float32))]
    return gpu.launch(text, "k", block=block, args=arrays, progress=False, **options)


def codes(run: Run) -> list[str]:
    return [f.code for f in run.findings]


# ---- registers that no instruction gives a value


@pytest.mark.parametrize(
    ("body", "told"),
    {
        "a branch": ("@%p19 bra ON; red.global.add.u32 [%d20], 1; ON:", ["R507"]),
        "a choice": ("mov.b32 %r9, 1; @%p19 bra ON; mov.b32 %r9, 0; add.u32 %r8, %r9, 1; ON: red.global.add.u32 [%d20], %r9;", ["R507"]),
        "a choice whose result is computed anew": (
            "@%p19 bra ON; add.u32 %r9, %r1, 1; ON: add.u32 %r9, %r9, 1; red.global.add.u32 [%d20], %r9;",
            ["R507"],
        ),
        "a choice whose result nobody uses": ("@%p19 bra ON; mov.b32 %r9, 0; ON: mov.b32 %r9, %r1; red.global.add.u32 [%d20], %r9;", []),
        "a guard of an atomic operation": ("@%p19 red.global.add.u32 [%d20], 1;", ["R507"]),
        "a branch that nobody comes to": ("bra OFF; @%p19 bra ON; mov.b32 %r9, 0; ON: OFF:", []),
        "a branch on a value": ("setp.eq.u32 %p19, %r1, 3; @%p19 bra ON; mov.b32 %r9, 0; ON:", []),
    }.values(),
)
def test_a_predicate_without_a_value_that_decides_is_told(body, told):
    assert list(found(body, np.zeros(32, np.uint32))) == told


HALF = "setp.lt.u32 %p1, %r1, 16;"
EACH = "mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d20, %d4; st.global.u32 [%d4], %r9;"


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(
    ("body", "is_told"),
    {
        "a guard": (f"{HALF} @%p1 mov.u32 %r9, 7; {EACH}", True),
        "a guarded load": (f"{HALF} @%p1 ld.global.u32 %r9, [%d20]; bar.warp.sync -1; {EACH}", True),
        "a guard that holds nowhere": (f"setp.ge.u32 %p1, %r1, 32; @%p1 mov.u32 %r9, 7; {EACH}", True),
        "one arm of a branch": (f"{HALF} @%p1 bra ON; bra OFF; ON: mov.u32 %r9, 7; OFF: {EACH}", True),
        "a sum in a loop": (f"mov.u32 %r8, 0; L: @%p9 add.u32 %r9, %r9, 1; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 4; @%p2 bra L; {EACH}", True),
        "a vector of which a lane has one part": (f"{HALF} mov.u32 %r8, 1; @%p1 mov.b64 {{%r8, %r9}}, %d20; {EACH}", True),
        "a guard and its opposite": (f"{HALF} @%p1 mov.u32 %r9, 7; @!%p1 mov.u32 %r9, 8; {EACH}", False),
        "both arms of a branch": (f"{HALF} @%p1 bra ON; mov.u32 %r9, 8; bra OFF; ON: mov.u32 %r9, 7; OFF: {EACH}", False),
        "a value in front of it": (f"{HALF} mov.u32 %r9, 0; @%p1 mov.u32 %r9, 7; {EACH}", False),
        "a use under the same guard": (f"{HALF} @%p1 mov.u32 %r9, 7; add.u32 %r9, %r9, 1; @%p1 st.global.u32 [%d20], 1; @!%p1 bra OFF; {EACH} OFF:", False),
        "a choice that leaves it out": (f"{HALF} @%p1 mov.u32 %r9, 7; selp.u32 %r9, %r9, 0, %p1; {EACH}", False),
        "a choice that takes it": (f"{HALF} @%p1 mov.u32 %r9, 7; selp.u32 %r9, 0, %r9, %p1; {EACH}", True),
        "a guard that holds everywhere": (f"setp.lt.u32 %p1, %r1, 32; @%p1 mov.u32 %r9, 7; {EACH}", False),
        "the first round of a loop": (f"mov.u32 %r8, 0; L: setp.gt.u32 %p1, %r8, 0; @%p1 bra USE; bra NEXT; USE: {EACH} NEXT: mov.u32 %r9, 5; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 3; @%p2 bra L;", False),
    }.values(),
)  # fmt: skip
def test_a_register_to_which_a_thread_has_given_no_value_is_told_where_it_is_used(body, is_told, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    assert list(found(body, np.zeros(32, np.uint32))) == ["R507"] * is_told


def test_the_instruction_that_gave_other_threads_a_value_is_named():
    (told,) = found(f"{HALF}\n@%p1 mov.u32 %r9, 7;\n{EACH}", np.zeros(32, np.uint32)).values()
    assert "register %r9 is used by lane 16 of warp 0, which has given it no value" in told
    assert "mov.u32, which lane 16 of warp 0 has not executed before" in told


@pytest.mark.parametrize(
    ("use", "lane"),
    {
        "a guard": (f"setp.gt.u32 %p2, %r1, 19; {EACH.replace('st', '@%p2 st')}", 20),
        "a branch": (f"setp.lt.u32 %p2, %r1, 24; @%p2 bra OFF; {EACH} OFF:", 24),
        "a sum of it": (f"add.u32 %r9, %r9, %r1; {EACH}", 16),
        "a sum elsewhere": (f"setp.lt.u32 %p2, %r1, 18; mov.u32 %r8, 0; @!%p2 add.u32 %r8, %r9, 1; {EACH.replace('%r9', '%r8')}", 18),
        "a value that is given afterwards": (f"mov.u32 %r8, %r9; mov.u32 %r9, 1; {EACH.replace('%r9', '%r8')}", 16),
        "a sum, and a value afterwards": (f"add.u32 %r8, %r9, %r1; mov.u32 %r9, 1; {EACH.replace('%r9', '%r8')}", 16),
        "a value of another lane": (f"shfl.sync.bfly.b32 %r8, %r9, 16, 31, -1; mov.u32 %r9, 1; {EACH.replace('%r9', '%r8')}", None),
    }.values(),
)  # fmt: skip
def test_a_lane_that_uses_a_register_without_a_value_is_named(use, lane):
    (told,) = found(f"{HALF}\n@%p1 mov.u32 %r9, 7;\n{use}", np.zeros(32, np.uint32)).values()
    assert f"used by {'a thread that' if lane is None else f'lane {lane} of warp 0, which'} has given it no value" in told


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("nobody", [True, False])
def test_a_store_that_no_thread_executes_stores_nothing_doubtful(nobody, width):
    """Some bits of the value are known, and nothing has given the others one."""
    store = {2: "cvt.u16.u32 %h1, %r8; @%p1 st.global.u16", 4: "@%p1 st.global.u32", 8: "cvt.u64.u32 %d9, %r8; @%p1 st.global.u64"}[width]
    value = {2: "%h1", 4: "%r8", 8: "%d9"}[width]
    body = f"setp.ge.u32 %p1, %r1, {1000 * nobody}; and.b32 %r8, %r19, 15; {store} [%d20], {value};"
    assert list(found(body, np.zeros(32, np.uint32))) == ([] if nobody else ["R507"])


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize(
    "reads",
    [
        "bfe.u32 %r9, %r19, 1, 4;", "bfi.b32 %r9, %r1, %r19, 0, 4;", "prmt.b32 %r9, %r1, %r19, 0x5410;", "lop3.b32 %r9, %r1, %r19, %r1, 0x96;",
        "shf.l.wrap.b32 %r9, %r1, %r19, 3;", "popc.b32 %r9, %r19;", "brev.b32 %r9, %r19;", "sad.u32 %r9, %r1, %r19, %r1;", "div.u32 %r9, %r19, 3;",
        "shfl.sync.bfly.b32 %r9, %r19, 1, 31, -1;", "redux.sync.add.u32 %r9, %r19, -1;", "rcp.rn.f32 %r9, %r19;",
    ],
    ids=lambda text: text.split(" ")[0],
)  # fmt: skip
def test_an_operand_without_a_value_is_told_in_every_instruction(reads: str, is_set: bool):
    body = "mov.b32 %r19, 5;" * is_set + f"{reads} st.global.u32 [%d20], %r9;"
    assert list(found(body, np.zeros(32, np.uint32))) == ["R507"] * (not is_set)


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize("space", ["shared", "local"])
def test_a_guard_that_uses_a_value_is_named_with_what_computes_it(space, tiers, monkeypatch):
    """The instruction stores a constant. What it uses is its guard."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    place = {"shared": "[sm]", "local": "[loc]"}[space]
    declared = ".local .align 4 .b8 loc[16];\n" * (space == "local")
    body = f"ld.{space}.b32 %r2, {place}; setp.gt.u32 %p1, %r2, 3; @%p1 st.global.b32 [%d20], 1;"
    (f,) = run(declared + body, (np.zeros(32, np.uint32),))[0].result.findings.values()
    assert [(half.does, half.text) for half in f.halves] == [
        ("read", f"ld.{space}.b32"),
        ("compute", "setp.gt.u32"),
        ("use", "%p1, the guard of st.global.b32"),
    ]
    assert not found(f"{declared}st.{space}.b32 {place}, 5; bar.sync 0; {body}", np.zeros(32, np.uint32))
    used = run(declared + body.replace("@%p1 st.global.b32 [%d20], 1", "st.global.b32 [%d20], %r2"), (np.zeros(32, np.uint32),))[
        0
    ].result.findings
    assert [f.halves[-1].text for f in used.values()] == ["st.global.b32"]


# ---- rows of a wgmma


ALL = "st.global.v4.b32 [%rd3], {%r1, %r2, %r3, %r4};"
SIXTEEN = f"@%p2 {ALL}"  # warp 0 has rows 0 to 15
LOAD = """
    @!%p4 bra LOADED;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r30], 1536; add.u32 %r31, %r20, 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r31], [%rd8], 1536, [%r30];
LOADED: bar.warp.sync -1;"""
WHOLE = LOAD.replace("1536", "2048").replace("%r20, 512", "%r20, 0")
WAIT = wait("%r30", label="ARRIVED")
THROUGH = "shl.b32 %r33, %r10, 4; add.u32 %r32, %r20, %r33; st.shared.v4.b32 [%r32], {%r1, %r2, %r3, %r4}; bar.sync 0; "
MOVED = "{0} ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r32]; {0} st.global.v4.b32 [%rd3], {{%r1, %r2, %r3, %r4}};"


def short_tile(*, before: str = "", behind: str = "", store: str = SIXTEEN, end: str = "", written: int = 512, more: str = "") -> str:
    """m64n8k16 over a tile of A of which threads write the first bytes (32 a row): A at smem, B 2048 bytes further, an
    mbarrier behind.
    """
    word = SmemDescriptor(arch="sm_90a", start_address=0, leading_byte_offset=128, stride_byte_offset=256).encode()
    return kernel(f"""
    ld.param.b64 %rd1, [out]; ld.param.b64 %rd8, [in]; mov.u32 %r10, %tid.x; mov.u32 %r20, smem; add.u32 %r30, %r20, 4096;
    shl.b32 %r5, %r10, 2; add.u32 %r6, %r5, %r20; mov.b32 %r7, 0x3f803f80; mov.u32 %r8, %r5;
FILL:
    setp.lt.u32 %p1, %r8, {written}; setp.ge.u32 %p3, %r8, 2048; or.pred %p1, %p1, %p3; @%p1 st.shared.b32 [%r6], %r7;
    add.u32 %r6, %r6, 512; add.u32 %r8, %r8, 512; setp.lt.u32 %p1, %r8, 2304; @%p1 bra FILL;
    setp.lt.u32 %p2, %r10, 32; setp.eq.u32 %p4, %r10, 0; @%p4 mbarrier.init.shared.b64 [%r30], 1;
    fence.proxy.async.shared::cta; bar.sync 0;
    {before}
    shr.u32 %r9, %r20, 4; cvt.u64.u32 %rd2, %r9; or.b64 %rd2, %rd2, {word}; add.s64 %rd4, %rd2, 128;
    mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {listed(1, 4)}, %rd2, %rd4, 1, 1, 1, 0, 0;
    {behind}
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    {more}
    mul.wide.u32 %rd3, %r10, 16; add.s64 %rd3, %rd3, %rd1; add.u32 %r1, %r1, 1;
    {store}
    {end}
""", ".b64 out", ".b64 in", shared=8192)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "told"),
    {
        "the others are thrown away": ({}, []),
        "all are stored": ({"store": ALL}, ["R507"]),
        "nothing is stored": ({"store": ""}, []),
        "a row of the sixteen is missing": ({"written": 384}, ["R507"]),
        "all are written and stored": ({"written": 2048, "store": ALL}, []),
        "through shared memory": ({"store": THROUGH + MOVED.format("@%p2")}, []),
        "through shared memory, all": ({"store": THROUGH + MOVED.format("")}, ["R507"]),
        "a branch decides": ({"store": "setp.lt.f32 %p5, %r1, 0f00000000; @%p5 bra NO; nanosleep.u32 1;\nNO:"}, ["R507"]),
        "a branch chooses what nobody uses": ({"store": "setp.lt.f32 %p5, %r1, 0f00000000; @%p5 bra NO; mov.b32 %r9, 0;\nNO:"}, []),
        "the others are in flight": ({"before": LOAD, "end": WAIT}, []),
        "the others are in flight and stored": ({"before": LOAD, "end": WAIT, "store": ALL}, ["X004"]),
        "the others have come": ({"before": LOAD + WAIT, "store": ALL}, []),
        "the others come late": ({"behind": LOAD, "end": WAIT}, []),
        "the others come late and are stored": ({"behind": LOAD, "end": WAIT, "store": ALL}, ["X004"]),
        "written without a fence": ({"before": "@!%p2 st.shared.b32 [%r20+1024], %r7; bar.sync 0;"}, []),
        "written without a fence, and stored": ({"before": "@!%p2 st.shared.b32 [%r20+1024], %r7; bar.sync 0;", "store": ALL, "written": 2048}, ["X003"]),
        "a whole operand in flight, and nothing is stored": ({"before": WHOLE, "end": WAIT, "store": "", "written": 0}, ["X004"]),
        "a whole operand comes late, and nothing is stored": ({"behind": WHOLE, "end": WAIT, "store": "", "written": 0}, ["X004"]),
        "nobody writes an operand, and nothing is stored": ({"store": "", "written": 0}, []),
        "threads overwrite rows in flight": ({"behind": "@!%p2 st.shared.b32 [%r20+1024], %r7;", "written": 2048, "store": ""}, ["X005"]),
        "the sum begins anew": ({"store": ALL, "more": "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0;"}, []),
    }.items(),
    ids=lambda case: case if isinstance(case, str) else "",
)  # fmt: skip
def test_rows_of_a_that_are_not_there_are_told_where_their_rows_of_d_are_used(case, told):
    given, found = told
    run = launched(short_tile(**given))
    assert codes(run) == found, run.text()
    if found == ["R507"]:
        assert "; use: " in run.findings[0].message


def without_a_byte(text: str, byte: int) -> str:
    """The same tile, written by stores of bytes, all but one of them."""
    stores = "".join(
        f"add.u32 %r40, %r8, {n}; setp.ne.and.u32 %p6, %r40, {byte}, %p1; @%p6 st.shared.b8 [%r6+{n}], 0x3f;" for n in range(4)
    )
    assert "@%p1 st.shared.b32 [%r6], %r7;" in text
    return text.replace("@%p1 st.shared.b32 [%r6], %r7;", stores)


def half_of_k(types: str, side: str, other: int | None) -> str:
    """The same tile of elements of 8 bits; the upper half of K of one side is not written, and words of the other side
    have a value there, or none.
    """
    word = "mov.b32 %r41, %r7;" if other is None else f"selp.b32 %r41, {other}, %r7, %p6;"
    mine, others = ("lt", "ge") if side == "a" else ("ge", "lt")
    left = f"setp.{mine}.u32 %p7, %r8, 2048; and.pred %p7, %p7, %p6; not.pred %p7, %p7; and.pred %p1, %p1, %p7;"
    if other is None:
        left += f"setp.{others}.u32 %p7, %r8, 2048; and.pred %p7, %p7, %p6; not.pred %p7, %p7; and.pred %p1, %p1, %p7;"
    store = f"and.b32 %r40, %r8, 128; setp.ne.u32 %p6, %r40, 0; {left} {word} @%p1 st.shared.b32 [%r6], %r41;"
    text = short_tile(store=ALL, written=2048).replace("@%p1 st.shared.b32 [%r6], %r7;", store)
    scale = ", 1, 1" if types.startswith("f32") else ""
    return text.replace("m64n8k16.f32.bf16.bf16", f"m64n8k32.{types}").replace("%rd4, 1, 1, 1, 0, 0;", f"%rd4, 1{scale};")


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize(
    ("types", "other", "told"),
    [
        ("s32.s8.s8", 0, []),
        ("s32.u8.u8", 0, []),
        ("s32.s8.u8", 0x010000, ["R507"]),
        ("s32.s8.s8", None, ["R507"]),
        ("f32.e4m3.e4m3", 0, ["R507"]),
        ("f32.e5m2.e4m3", 0, ["R507"]),
    ],
)
def test_integers_that_nobody_wrote_count_for_nothing_beside_zeros(side, types, other, told):
    """The rest of K may hold anything in one operand if the other one has zeros there; of a floating-point type it may
    hold a NaN.
    """
    run = launched(half_of_k(types, side, other))
    assert codes(run)[:1] == told, run.text()


@pytest.mark.parametrize(
    ("a", "b", "types", "told"),
    [
        (("%r8", "%r8"), (0, 0), "s8.s8", []),
        (("%r7", "%r8"), (5, 0), "s8.u8", []),
        (("%r7", "%r8"), (0, 5), "s8.s8", ["R507"]),
        (("%r8", "%r7"), (5, 0), "u8.u8", ["R507"]),
        (("%r8", "%r8"), (0, 0), "e4m3.e4m3", ["R507"]),
    ],
)
def test_registers_of_integers_that_nobody_wrote_count_for_nothing_beside_zeros(a, b, types, told):
    """Two registers of A have the lower half of K, two the upper one; B has one register for each half."""
    d_type = "f32" if "e4m3" in types else "s32"
    run = launched(kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r10, %tid.x; mov.u32 %r20, smem; ld.shared.u32 %r8, [%r20]; mov.b32 %r7, 0x01020304; mov.b32 %r6, 0;
    mov.b32 %r40, {b[0]}; mov.b32 %r41, {b[1]};
    mma.sync.aligned.m16n8k32.row.col.{d_type}.{types}.{d_type} {listed(1, 4)}, {{{a[0]}, {a[0]}, {a[1]}, {a[1]}}}, {{%r40, %r41}}, {{%r6, %r6, %r6, %r6}};
    mul.wide.u32 %rd3, %r10, 16; add.s64 %rd3, %rd3, %rd1; {ALL}
""", ".b64 out", ".b64 in", shared=64))  # fmt: skip
    assert codes(run) == told, run.text()


EVEN, ODD = "st.global.v2.b32 [%rd3], {%r1, %r3};", "st.global.v2.b32 [%rd3], {%r2, %r4};"  # columns of D


@pytest.mark.parametrize(
    ("byte", "store", "transposed", "told"),
    [
        (15 * 16 + 3, SIXTEEN, False, ["R507"]),
        (16 * 32 + 3, SIXTEEN, False, []),
        (16 * 32 + 3, ALL, False, ["R507"]),
        (2048 + 16 + 2, EVEN, False, []),
        (2048 + 16 + 2, ODD, False, ["R507"]),
        (2048 + 16 + 2, ODD, True, ["R507"]),
        (2048 + 16 + 2, EVEN, True, []),
        (2048 + 16 + 4, ODD, True, []),
        (2048 + 16 + 4, EVEN, True, ["R507"]),
    ],
)
def test_a_byte_of_an_operand_is_told_where_its_row_or_column_of_d_is_used(byte, store, transposed, told):
    """A word of an MN-major operand of 16 bits has two rows: each has its own bytes."""
    text = without_a_byte(short_tile(store=store, written=2048), byte)
    if transposed:
        assert "1, 1, 1, 0, 0;" in text
        text = text.replace("1, 1, 1, 0, 0;", "1, 1, 1, 0, 1;")
    run = launched(text)
    assert codes(run) == told, run.text()


@pytest.mark.parametrize(("lanes_that_store", "told"), [(2, []), (3, ["R507"])])
def test_rows_of_b_that_are_not_there_are_told_where_their_columns_of_d_are_used(lanes_that_store, told):
    """Of B rows 4 to 7 are not written; of four lanes the first two have columns 0 to 3."""
    text = short_tile(written=2048, store=f"and.b32 %r9, %r10, 3; setp.lt.u32 %p2, %r9, {lanes_that_store}; {SIXTEEN}")
    upper = "setp.ge.u32 %p3, %r8, 2048;"
    run = launched(text.replace(upper, f"{upper} and.b32 %r9, %r8, 127; setp.lt.and.u32 %p3, %r9, 64, %p3;"))
    assert codes(run) == told, run.text()


@pytest.mark.parametrize(("mask", "first", "told"), [(127, 64, []), (255, 192, ["R507"])], ids=["columns", "a part of K of columns"])
def test_columns_of_a_product_that_are_padding_may_be_read_with_its_rows(mask, first, told):
    """Of B rows 4 to 7 are not written, for all of K or for the second half. The host looks at D when the launch is
    over.
    """
    rows = """shr.u32 %r9, %r10, 5; shl.b32 %r9, %r9, 9; and.b32 %r33, %r10, 28; shl.b32 %r33, %r33, 3; add.u32 %r9, %r9, %r33;
    and.b32 %r33, %r10, 3; shl.b32 %r33, %r33, 3; add.u32 %r9, %r9, %r33; cvt.u64.u32 %rd3, %r9; add.s64 %rd3, %rd3, %rd1;
    st.global.v2.b32 [%rd3], {%r1, %r2}; st.global.v2.b32 [%rd3+256], {%r3, %r4};"""
    upper = "setp.ge.u32 %p3, %r8, 2048;"
    text = short_tile(written=2048, store=rows).replace(upper, f"{upper} and.b32 %r9, %r8, {mask}; setp.lt.and.u32 %p3, %r9, {first}, %p3;")
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros((64, 8), np.float32))
    run = gpu.launch(text, "k", block=128, args=[out, gpu.array(np.ones(1024, np.float32))], outputs=[], progress=False)
    assert (codes(run), "R507" in {f.code for f in run.remarks}) == ([], True)
    out.numpy()
    assert codes(run) == told, run.text()


# ---- fragments of a warp


def fragments(written: int, store: str) -> str:
    """m16n8k16 of which a warp writes the first rows of A, 32 bytes each; B is there."""
    return kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r10, %tid.x; mov.u32 %r20, smem; mov.b32 %r7, 0x3f803f80;
    shl.b32 %r5, %r10, 5; add.u32 %r6, %r5, %r20; setp.lt.u32 %p1, %r10, {written}; setp.lt.u32 %p2, %r10, 8;
    @%p1 st.shared.v4.b32 [%r6], {{%r7, %r7, %r7, %r7}}; @%p1 st.shared.v4.b32 [%r6+16], {{%r7, %r7, %r7, %r7}};
    @%p2 st.shared.v4.b32 [%r6+1024], {{%r7, %r7, %r7, %r7}}; @%p2 st.shared.v4.b32 [%r6+1040], {{%r7, %r7, %r7, %r7}};
    bar.sync 0;
    and.b32 %r8, %r10, 15; shl.b32 %r8, %r8, 5; shr.u32 %r9, %r10, 4; shl.b32 %r9, %r9, 4; add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r20;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {listed(40, 4)}, [%r8];
    and.b32 %r8, %r10, 7; shl.b32 %r8, %r8, 5; add.u32 %r8, %r8, %r20; and.b32 %r9, %r10, 8; shl.b32 %r9, %r9, 1; add.u32 %r8, %r8, %r9;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {listed(44, 2)}, [%r8+1024];
    mov.b32 %r50, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {listed(1, 4)}, {listed(40, 4)}, {listed(44, 2)}, {{%r50, %r50, %r50, %r50}};
    mul.wide.u32 %rd3, %r10, 16; add.s64 %rd3, %rd3, %rd1;
    {store}
""", ".b64 out", ".b64 in", shared=2048)  # fmt: skip


UPPER, LOWER = "st.global.v2.b32 [%rd3], {%r1, %r2};", "st.global.v2.b32 [%rd3+8], {%r3, %r4};"


@pytest.mark.parametrize(
    ("written", "store", "told"), [(8, UPPER, []), (8, LOWER, ["R507"]), (16, UPPER + LOWER, []), (7, UPPER, ["R507"])]
)
def test_rows_of_a_fragment_are_told_where_their_rows_of_d_are_used(written, store, told):
    """FlashAttention leaves the rows of Q past the end of the sequence unwritten, and drops their rows of the output."""
    run = launched(fragments(written, store), block=32)
    assert codes(run) == told, run.text()
    assert all("ldmatrix" in f.message for f in run.findings)


# ---- tensor memory


def lanes(use: str) -> str:
    """A warp writes lanes 0 to 15 of a column and loads all 32."""
    return kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
    bar.sync 0; ld.shared.u32 %r3, [%r2];
    tcgen05.st.sync.aligned.16x64b.x1.b32 [%r3], {{%r1}}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r3]; tcgen05.wait::ld.sync.aligned;
    setp.gt.u32 %p1, %r1, 15; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1;
    {use}
DONE: bar.warp.sync -1; bar.sync 0;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
""", ".b64 out", ".b64 in", shared=64, arch="sm_100a")  # fmt: skip


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("@%p1 bra DONE; st.global.u32 [%rd2], %r4;", []),
        ("@!%p1 st.global.u32 [%rd2], %r4;", []),
        ("@%p1 bra DONE; st.global.v4.u32 [%rd1], {%r4, %r4, %r4, %r4};", []),
        ("st.global.u32 [%rd2], %r4;", ["R507"]),
        ("@%p1 st.global.u32 [%rd2], %r4;", ["R507"]),
        ("shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; @!%p1 st.global.u32 [%rd2], %r5;", []),  # of the lane beside
        ("shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1; @!%p1 st.global.u32 [%rd2], %r5;", ["R507"]),
        ("shfl.sync.idx.b32 %r5|%p2, %r4, 0, 31, -1; st.global.u32 [%rd2], %r5;", []),
        ("and.b32 %r6, %r4, 1; shfl.sync.idx.b32 %r5, %r1, %r6, 31, -1; st.global.u32 [%rd2], %r5;", ["R507"]),
        ("redux.sync.add.s32 %r5, %r4, -1; @!%p1 st.global.u32 [%rd2], %r5;", ["R507"]),
    ],
)
def test_lanes_that_do_not_use_what_nobody_wrote_are_not_told(use, told):
    assert codes(launched(lanes(use), block=32, arch="sm_100a")) == told


@pytest.mark.parametrize(
    ("store", "load", "use", "told"),
    [
        ("unpack", "", "%r6", ["R507"]),
        ("unpack", "", "low", []),
        ("unpack", "", "high", ["R507"]),
        ("unpack", "pack", "%r6", []),
        ("whole, unpack", "", "%r6", []),
        ("unpack, whole", "", "%r6", []),
    ],
)
def test_halves_of_cells_are_uninitialised_each_by_itself(store, load, use, told):
    """tcgen05.st.unpack::16b writes the lower halves of columns, each half of a register to one."""
    stores = {
        "unpack": "tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r3], {%r1, %r1};",
        "whole": "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3], {%r1, %r1, %r1, %r1};",
    }
    put = " ".join(f"{stores[name]} tcgen05.wait::st.sync.aligned;" for name in store.split(", "))
    get = {"": "x4.b32 {%r4, %r5, %r6, %r7}", "pack": "x2.pack::16b.b32 {%r4, %r6}"}[load]
    use = {"low": "and.b32 %r6, %r6, 0xffff;", "high": "shr.u32 %r6, %r6, 16;"}.get(use, "")
    text = lanes(f"{use} st.global.u32 [%rd2], %r6;")
    text = re.sub(r"tcgen05\.st\.sync.*?tcgen05\.wait::st\.sync\.aligned;", put, text, flags=re.DOTALL)
    text = text.replace("x1.b32 {%r4}", get)
    assert codes(launched(text, block=32, arch="sm_100a")) == told


@pytest.mark.parametrize(("rows", "told"), [(16, []), (32, ["R507"])])
def test_rows_of_d_in_tensor_memory_are_told_where_they_are_used(rows, told):
    """Of A only 16 rows are written; the first threads store theirs."""
    text, images, *_ = product("f16", "bf16")
    text = text.replace("st.shared.b32 [%r152], %r154;", """sub.u32 %r156, %r152, %r150; setp.lt.u32 %p5, %r156, 512; setp.ge.u32 %p6, %r156, 8192;
    or.pred %p5, %p5, %p6; @%p5 st.shared.b32 [%r152], %r154;""")  # fmt: skip
    text = re.sub(r"(?=st.global.b32 \[%rd1)", "@%p5 ", text.replace("tcgen05.wait::ld", f"setp.lt.u32 %p5, %r0, {rows}; tcgen05.wait::ld"))
    run, _ = multiplied(text, images)
    assert codes(run) == told, run.text()
    assert all("tcgen05.mma" in f.message for f in run.findings)


def scaled(columns: int, written: int) -> str:
    """D (128 x 96) of block-scaled factors: of B's scale factors threads write some words, a warp transposes all 128
    for tcgen05.cp, the MMA needs 96.
    """
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=96, a_type="e4m3", b_type="e4m3", d_type="f32", scale_type="ue8m0")
    word = SmemDescriptor(arch="sm_100a", start_address=0, leading_byte_offset=128, stride_byte_offset=256).encode()
    return kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; shr.u32 %r3, %r1, 5; setp.ne.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r1, 0;
    add.u32 %r4, %r2, 8192; @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 256;
    @%p2 mbarrier.init.shared::cta.b64 [%r4+8], 1;
    shl.b32 %r5, %r1, 2; mov.b32 %r6, 0x7f7f7f7f;
FILL:
    add.u32 %r7, %r2, %r5; setp.lt.u32 %p3, %r5, {7680 + 4 * written}; @%p3 st.shared.b32 [%r7], %r6;
    add.u32 %r5, %r5, 512; setp.lt.u32 %p3, %r5, 8192; @%p3 bra FILL;
    bar.sync 0; @%p1 bra TRANSPOSED;
    shl.b32 %r5, %r1, 2; add.u32 %r7, %r2, %r5;
    ld.shared.b32 %r10, [%r7+7680]; ld.shared.b32 %r11, [%r7+7808]; ld.shared.b32 %r12, [%r7+7936]; ld.shared.b32 %r13, [%r7+8064];
    bar.warp.sync -1; shl.b32 %r5, %r1, 4; add.u32 %r7, %r2, %r5; st.shared.v4.b32 [%r7+7680], {listed(10, 4)};
TRANSPOSED:
    fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r8, [%r4]; shr.u32 %r9, %r2, 4; cvt.u64.u32 %rd3, %r9;
    or.b64 %rd4, %rd3, {word}; add.s64 %rd5, %rd4, 256; or.b64 %rd6, %rd3, {SCALES}; add.s64 %rd6, %rd6, 448; add.s64 %rd7, %rd6, 32;
    mov.u32 %r14, {i.word}; add.u32 %r15, %r8, 128; add.u32 %r16, %r8, 132; setp.ne.b32 %p4, 0, 0;
    @%p2 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r15], %rd6; @%p2 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r16], %rd7;
    @%p2 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r8], %rd4, %rd5, %r14, [%r15], [%r16], %p4;
    @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];
    add.u32 %r17, %r4, 8; {wait("%r17")}
    tcgen05.fence::after_thread_sync; shl.b32 %r18, %r3, 21; add.u32 %r18, %r18, %r8; mul.wide.u32 %rd8, %r1, 4; add.u64 %rd1, %rd1, %rd8;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r19}}, [%r18+{columns}]; tcgen05.wait::ld.sync.aligned;
    st.global.b32 [%rd1], %r19; tcgen05.fence::before_thread_sync; bar.sync 0;
    @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 256;
""", ".b64 out", ".b64 in", shared=8256, arch="sm_100a")  # fmt: skip


@pytest.mark.parametrize(("column", "written", "told"), [(95, 96, []), (95, 95, ["R507"]), (94, 95, []), (95, 128, [])])
def test_words_that_are_copied_on_are_told_at_the_product_that_needs_them(column, written, told):
    """DeepGEMM's transposer copies 128 words of scale factors, of which 96 came (sm100_fp8_fp4_gemm_1d1d.cuh)."""
    run = launched(scaled(column, written), arch="sm_100a")
    assert codes(run) == told, run.text()
    assert all("ld.shared" in f.message and "; use: " in f.message for f in run.findings)


THREE_BYTES = """shl.b32 %r5, %r1, 2; add.u32 %r7, %r2, %r5; st.shared.b16 [%r7+7680], %r6; st.shared.b8 [%r7+7682], %r6;
    bar.sync 0; @%p1 bra TRANSPOSED;"""
BY_COPY = "@%p2 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r16], %rd7;"
BY_STORES = f"""and.b32 %r20, %r1, 31; shl.b32 %r20, %r20, 4; add.u32 %r20, %r20, %r2; ld.shared.v4.b32 {listed(21, 4)}, [%r20+7680];
    shl.b32 %r25, %r3, 21; add.u32 %r25, %r25, %r8; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r25+132], {listed(21, 4)}; tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"""
BY_ONE_WARP = BY_STORES.replace("tcgen05.st.sync", "@!%p1 tcgen05.st.sync")  # lanes 0 to 31 alone


@pytest.mark.parametrize(
    ("by", "scale_id", "told"),
    [(BY_COPY, 0, []), (BY_COPY, 2, []), (BY_COPY, 3, ["R507"]), (BY_STORES, 1, []), (BY_STORES, 3, ["R507"]), (BY_ONE_WARP, 1, ["R507"])],
)
def test_a_product_depends_on_the_byte_of_its_scale_id(by, scale_id, told):
    """Of each word of four scale factors the last byte is uninitialised: a tile whose K ends before it has the scale
    ids 0 to 2.
    """
    word = re.search(r"mov.u32 %r14, (\d+);", scaled(0, 0))[1]
    text = scaled(0, 0).replace("bar.sync 0; @%p1 bra TRANSPOSED;", THREE_BYTES).replace(BY_COPY, by)
    text = text.replace(f"%r14, {word};", f"%r14, {int(word) | scale_id << 4};").replace("[%r16], %p4;", "[%r17], %p4;")
    text = text.replace("setp.ne.b32 %p4, 0, 0;", f"setp.ne.b32 %p4, 0, 0; add.u32 %r17, %r16, {scale_id << 30};")
    run = launched(text, arch="sm_100a")
    assert codes(run) == told, run.text()


# ---- registers of tcgen05.ld


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r12], {%r8, %r9, %r10, %r11};", []),
        ("redux.sync.add.s32 %r14, %r11, -1;", []),
        ("shfl.sync.idx.b32 %r14, %r10, 0, 31, -1;", []),
        ("tcgen05.st.sync.aligned.32x32b.x4.b32 [%r5+8], {%r8, %r9, %r10, %r11}; tcgen05.wait::st.sync.aligned;", []),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r20, %r21, %r22, %r23}, {%r8, %r9, %r10, %r11}, {%r6, %r6}, {%r6, %r6, %r6, %r6};", []),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r12], {%r6, %r6, %r6, %r6};", ["X012"]),
        ("", ["X012"]),
    ],
)  # fmt: skip
def test_instructions_of_whole_warps_wait_for_the_registers_that_they_name(use, told):
    run = launched(kernel(f"""
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, smem;
    @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3+4096], 32;
    bar.sync 0; ld.shared.u32 %r4, [%r3+4096]; shl.b32 %r5, %r2, 21; add.u32 %r5, %r5, %r4; mov.u32 %r6, 7;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r5], {{%r6, %r6, %r6, %r6}}; tcgen05.wait::st.sync.aligned;
    shl.b32 %r13, %r1, 4; add.u32 %r12, %r3, %r13;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {listed(8, 4)}, [%r5];
    {use}
    bar.sync 0;
    @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
""", ".b64 out", ".b64 in", shared=4112, arch="sm_100a"), arch="sm_100a")  # fmt: skip
    assert codes(run) == told, run.text()


# ---- registers of a wgmma in flight


def in_flight(use: str, a: str = "%rd2") -> str:
    word = SmemDescriptor(arch="sm_90a", start_address=0, leading_byte_offset=128, stride_byte_offset=256).encode()
    transposed = "0, 0" if a == "%rd2" else "0"
    return kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r10, %tid.x; mov.u32 %r20, smem; shl.b32 %r5, %r10, 4; add.u32 %r6, %r5, %r20; mov.b32 %r7, 0x3f803f80;
    st.shared.v4.b32 [%r6], {{%r7, %r7, %r7, %r7}}; fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r9, %r20, 4; cvt.u64.u32 %rd2, %r9; or.b64 %rd2, %rd2, {word};
    mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0; mov.b32 %r40, 0; mov.b32 %r41, 0; mov.b32 %r42, 0; mov.b32 %r43, 0;
    mul.wide.u32 %rd3, %r10, 4; add.s64 %rd3, %rd3, %rd1;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {listed(1, 4)}, {a}, %rd2, 1, 1, 1, {transposed};
    wgmma.commit_group.sync.aligned;
    {use}
    wgmma.wait_group.sync.aligned 0;
    st.global.b32 [%rd3+512], %r1;
""", ".b64 out", ".b64 in", shared=2048)  # fmt: skip


def sums(scale: str) -> str:
    d = listed(1, 4)
    of = f"wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d}, %rd2, %rd2, {scale}, 1, 1, 0, 0;"
    return f"{of} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


LOOP = (
    f"mov.u32 %r50, 0; L: setp.ge.u32 %p4, %r50, %r51; @%p4 bra E; setp.ne.u32 %p3, %r50, 0; {sums('%p3')} add.u32 %r50, %r50, 1; bra L; E:"
)
STORE = "st.global.b32 [%rd3], %r1;"


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(
    ("body", "told"),
    {
        "one warpgroup multiplies, both store": (f"@!%p1 bra ON; {sums('0')} ON: {STORE}", "used by lane 0 of warp 4"),
        "one warpgroup multiplies and stores": (f"@!%p1 bra ON; {sums('0')} ON: @%p1 {STORE}", ""),
        "the other one stores zeros": (f"@!%p1 bra ON; {sums('0')} bra END; ON: mov.b32 %r1, 0; END: {STORE}", ""),
        "zeros in front": (f"mov.b32 %r1, 0; @!%p1 bra ON; {sums('0')} ON: {STORE}", ""),
        "a loop": (f"mov.u32 %r51, 3; {LOOP} {STORE}", ""),
        "a loop without a round for a warpgroup": (f"selp.u32 %r51, 3, 0, %p1; {LOOP} {STORE}", "used by lane 0 of warp 4"),
        "the first round adds": (f"mov.u32 %r51, 3; {LOOP.replace('%p3, %r50, 0', '%p3, %r50, 9')} {STORE}", "wgmma adds"),
        "some threads begin with zeros": (
            f"setp.eq.u32 %p5, %r10, 0; @%p5 bra ON; mov.b32 %r1, 0; ON: mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0; {sums('1')} {STORE}",
            "used by lane 0 of warp 0",
        ),
    }.values(),
)  # fmt: skip
def test_a_sum_that_a_warpgroup_has_not_begun_is_told_where_it_is_used(body, told, grid, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    word = SmemDescriptor(arch="sm_90a", start_address=0, leading_byte_offset=128, stride_byte_offset=256).encode()
    text = kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r10, %tid.x; mov.u32 %r20, smem; shl.b32 %r5, %r10, 3; add.u32 %r6, %r5, %r20; mov.b32 %r7, 0x3f803f80;
    st.shared.v2.b32 [%r6], {{%r7, %r7}}; fence.proxy.async.shared::cta; bar.sync 0; setp.lt.u32 %p1, %r10, 128;
    shr.u32 %r9, %r20, 4; cvt.u64.u32 %rd2, %r9; or.b64 %rd2, %rd2, {word};
    mov.u32 %r11, %ctaid.x; mad.lo.u32 %r11, %r11, 256, %r10; mul.wide.u32 %rd3, %r11, 4; add.s64 %rd3, %rd3, %rd1;
    {body}
""", ".b64 out", ".b64 in", shared=2048)  # fmt: skip
    findings = launched(text, block=256, grid=grid).findings
    assert [f.code for f in findings] == ["R507"] * bool(told)
    assert all(told in str(f) for f in findings)


WAITED = "\n wgmma.wait_group.sync.aligned 0;\n"


@pytest.mark.parametrize(
    ("use", "at", "says"),
    [
        ("", "", ""),
        ("add.f32 %r30, %r1, %r1;", "add", "C7517"),
        ("mov.b32 %r30, %r1;\n st.global.b32 [%rd3], %r30;", "mov", "C7517"),
        (f"mov.b32 %r30, %r1;{WAITED} st.global.b32 [%rd3], %r30;", "mov", "ptxas moves the copy after the wait"),
        ("mov.b32 %r1, 0;", "mov", "C7515"),
        ("mov.b32 %r30, %r1;\n mov.b32 %r30, 5;\n st.global.b32 [%rd3], %r30;", "mov", "the copy"),
    ],
)
def test_what_ptxas_makes_right_is_a_remark_that_says_so(use, at, says):
    """Accumulators are touched before wgmma.wait_group: ptxas 13.0 waits itself, serialises or takes other registers."""
    text = in_flight(use)
    run = launched(text)
    assert codes(run) == []
    assert run.ok
    told = [f for f in run.remarks if f.code == "X007"]
    assert bool(told) == bool(at) == (not run.is_strictly_ok)
    if at:
        assert told[0].severity is Severity.NOTE
        assert says in told[0].message
        assert at in text.splitlines()[told[0].line - 1]


def test_the_last_line_counts_remarks_and_says_which_strict_fails_for():
    run = launched(in_flight("mov.b32 %r30, %r1;\n st.global.b32 [%rd3], %r30;"))
    assert "no findings, " in run.summary()
    assert "; --strict fails for X007)" in run.summary()
    assert "2 findings (X007 by --strict)" in run.summary(strict=True)
    assert (run.as_dict()["ok"], run.as_dict()["strictly_ok"]) == (True, False)
    fine = launched(in_flight("mov.b32 %r30, 5;\n st.global.b32 [%rd3], %r30;"))
    assert "strict" not in fine.summary() + fine.summary(strict=True)


def test_a_copy_that_is_used_before_the_wait_is_told_where_it_is_used_too():
    run = launched(in_flight("mov.b32 %r30, %r1;\n st.global.b32 [%rd3], %r30;"))
    assert [f.message.split()[3] for f in run.remarks if f.code == "X007"] == ["copied", "used"]


def test_where_ptxas_waits_what_comes_behind_is_ordered():
    """The stores behind the wait that ptxas puts in front of them overwrite what wgmma has read; without a use in front
    of them they do not wait.
    """
    overwrite = "st.shared.b32 [%r6], %r7;"
    assert codes(launched(in_flight(f"add.f32 %r30, %r1, %r1;\n bar.sync 0;\n {overwrite}"))) == []
    assert codes(launched(in_flight(f"bar.sync 0;\n {overwrite}"))) == ["X005"]


USE = "add.f32 %r30, %r1, %r1;"
OVERWRITES = {
    "a store": "st.shared.b32 [%r6], %r7;",
    "an atomic": "atom.shared.add.u32 %r31, [%r6], 1;",
    "cp.async": "cp.async.ca.shared.global [%r6], [%rd1], 4;\n cp.async.wait_all;",
    "a bulk copy": "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r32], 64;\n @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1], 64, [%r32];",
}


def with_mbarrier(text: str, count: int) -> str:
    """An mbarrier behind the operands: its address is in %r32. %p1 is true for thread 0."""
    init = f"add.u32 %r32, %r20, 2048;\n setp.eq.u32 %p1, %r10, 0;\n @%p1 mbarrier.init.shared.b64 [%r32], {count};\n fence.proxy.async"
    return text.replace("smem[2048]", "smem[3072]").replace("fence.proxy.async", init)


MODES = [("closures", "on"), ("compiled", "off")]


@pytest.mark.parametrize(("tiers", "cohorts"), MODES)
@pytest.mark.parametrize("name", OVERWRITES)
def test_the_wait_of_ptxas_stands_where_the_register_is_named(name, tiers, cohorts, monkeypatch):
    """It orders what comes behind it, in the same block too, in each CTA. What comes before it is not ordered."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    write = OVERWRITES[name]
    end = wait("%r32", 0) if "bulk" in name else ""
    for grid in (1, 3):
        assert codes(launched(with_mbarrier(in_flight(f"{write}\n {USE}\n {end}"), 1), grid=grid)) == ["X005"]
        assert codes(launched(with_mbarrier(in_flight(f"{USE}\n {write}\n {end}"), 1), grid=grid)) == []


@pytest.mark.parametrize(("tiers", "cohorts"), MODES)
def test_a_signal_before_the_use_does_not_say_that_wgmma_is_over(tiers, cohorts, monkeypatch):
    """Three warps arrive before or after they use D; the first one then overwrites an operand."""
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    arrive = "mbarrier.arrive.shared.b64 _, [%r32];"
    for first, second, found_ in ((arrive, USE, ["X005"]), (USE, arrive, [])):
        text = in_flight(
            f"setp.lt.u32 %p2, %r10, 32;\n @%p2 bra FIRST;\n {first}\n {second}\n bra ON;\n FIRST:\n{wait('%r32', 0)}\n st.shared.b32 [%r6], %r7;\n ON:"
        )
        assert codes(launched(with_mbarrier(text, 96))) == found_


def test_the_wait_of_ptxas_for_one_wgmma_is_none_for_a_later_one():
    """One warp names the first sum, once or twice, and overwrites what the second wgmma reads."""
    again = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {listed(11, 4)}, %rd2, %rd2, 0, 1, 1, 0, 0;"
    for times in (1, 2):
        use = f"{again} setp.ne.u32 %p2, %r10, 32;\n setp.lt.u32 %p2, %r10, 32;\n @%p2 bra ON;\n {USE * times}\n st.shared.b32 [%r6], %r7;\n ON: wgmma.commit_group.sync.aligned;"
        assert codes(launched(in_flight(use))) == ["X005"]


def test_an_epilogue_may_store_a_sum_over_its_operands():
    """ptxas waits before stmatrix, since it names the sum."""
    store = f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {listed(1, 4)};"
    assert codes(launched(in_flight(store), grid=2)) == []
    assert codes(launched(in_flight(store.replace(listed(1, 4), "{%r7, %r7, %r7, %r7}")), grid=2)) == ["X005"]


@pytest.mark.parametrize(
    "use",
    [
        "st.global.b32 [%rd3], %r1;",
        f"{USE} st.global.b32 [%rd3], %r30;",
        "mov.b32 %r30, %r1; st.global.b32 [%rd3], %r30;",
        "mov.b32 %r1, 7;",
    ],
)
def test_where_ptxas_waits_each_schedule_has_the_same_sum(use):
    """D is used or written before wgmma.wait_group: the product is there by then, whatever the schedule."""

    def left(schedule: object) -> bytes:
        gpu = Gpu("sm_90a")
        out, other = gpu.array(np.zeros(1024, np.float32)), gpu.array(np.ones(1024, np.float32))
        run = gpu.launch(in_flight(use.replace("; ", ";\n ")), "k", block=128, args=[out, other], progress=False, schedule=schedule)
        assert (codes(run), "X007" in {f.code for f in run.remarks}) == ([], True)
        return out.numpy().tobytes()

    assert len({left(schedule) for schedule in (None, 2, 5, "latest")}) == 1


@pytest.mark.parametrize(
    ("use", "told", "remarks"),
    [("mov.b32 %r41, 5;", ["X007"], []), ("add.u32 %r41, %r10, 1;", ["X007"], []), ("st.global.b32 [%rd3], %r41;", [], ["X007"])],
)
def test_registers_of_a_are_nobodys_to_overwrite(use, told, remarks):
    """ptxas leaves the write as it is: a loop that loads A anew overwrites what the last round's wgmma may still read."""
    run = launched(in_flight(use, listed(40, 4)))
    assert (codes(run), [f.code for f in run.remarks if f.code == "X007"]) == (told, remarks)


def by_another(d: str, a: str, n: int = 8) -> str:
    product = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {d}, {a}, %rd2, 0, 1, 1, {'0, 0' if a == '%rd2' else '0'};"
    return f"{product} wgmma.commit_group.sync.aligned;"


FENCE = "wgmma.fence.sync.aligned;"
BY_WGMMA = {
    "D is A": (by_another(listed(11, 4), listed(1, 4)), [], ["X007"]),
    "D is A, fence": (FENCE + by_another(listed(11, 4), listed(1, 4)), ["X007"], []),
    "D is A, wait and fence": (WAITED + FENCE + by_another(listed(11, 4), listed(1, 4)), [], []),
    "D is A, exchanged, fence": (FENCE + by_another(listed(11, 4), "{%r2, %r1, %r4, %r3}"), [], ["X007"]),
    "the last part of D is A, fence": (
        f"{by_another(listed(11, 8), '%rd2', 16)} {FENCE} {by_another(listed(31, 4), listed(15, 4))}",
        ["X007"],
        [],
    ),
    "the first part of D is A, fence": (
        f"{by_another(listed(11, 8), '%rd2', 16)} {FENCE} {by_another(listed(31, 4), listed(11, 4))}",
        ["X007"],
        [],
    ),
    "the middle of D is A, fence": (
        f"{by_another(listed(11, 8), '%rd2', 16)} {FENCE} {by_another(listed(31, 4), listed(13, 4))}",
        [],
        ["X007"],
    ),
    "A is another one's": (FENCE + by_another(listed(11, 4), listed(40, 4)), [], []),
    "A is D": (FENCE + by_another(listed(40, 4), "%rd2"), [], ["X007"]),
    "A is D, wait and fence": (WAITED + FENCE + by_another(listed(40, 4), "%rd2"), [], []),
}


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(("use", "told", "remarks"), BY_WGMMA.values(), ids=BY_WGMMA)
def test_a_wgmma_may_not_use_registers_of_another_one_in_flight(use, told, remarks, grid):
    """Without a fence, ptxas serialises both. With one, and A that is D, it does not: an H200 reads A too early."""
    run = launched(in_flight(use.replace("; ", ";\n "), listed(40, 4)), grid=grid)
    assert (codes(run), [f.code for f in run.remarks if f.code == "X007"]) == (told, remarks)


OF_16, AT_4 = by_another(listed(11, 8), "%rd2", 16), by_another(listed(15, 8), "%rd2", 16).replace("%rd2, 0,", "%rd2, 1,")
TWO_SUMS = {
    "others from the first on": (f"{OF_16} {AT_4}", "wrong"),
    "others, a wait": (f"{OF_16} {WAITED} {AT_4}", "wrong"),
    "others, a fence": (f"{OF_16} {FENCE} {AT_4}", ""),
    "in another order": (f"{OF_16} {AT_4.replace('%r15, %r16', '%r12, %r11')}", "wrong"),
    "the same": (f"{OF_16} {AT_4.replace(listed(15, 8), listed(11, 8))}", ""),
    "none": (f"{OF_16} {AT_4.replace(listed(15, 8), listed(31, 8))}", ""),
    "the last of them": (f"{OF_16} {by_another(listed(15, 4), '%rd2').replace('%rd2, 0,', '%rd2, 1,')}", "note"),
    "the middle of them": (f"{OF_16} {by_another(listed(13, 4), '%rd2').replace('%rd2, 0,', '%rd2, 1,')}", "wrong"),
    "all of the last of them": (f"{by_another(listed(15, 4), '%rd2')} {OF_16.replace('%rd2, 0,', '%rd2, 1,')}", "wrong"),
    "the first of them": (f"{OF_16} {by_another(listed(11, 4), '%rd2').replace('%rd2, 0,', '%rd2, 1,')}", "note"),
}  # fmt: skip


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(("use", "severity"), TWO_SUMS.values(), ids=TWO_SUMS)
def test_two_sums_that_share_some_registers_need_a_fence_between_them(use, severity, grid):
    """Without one, ptxas serialises the wgmma, but copies wrong registers: an H200 adds wrong. If the two begin in one
    register, no failure is known.
    """
    run = launched(in_flight(use.replace("; ", ";\n ")), grid=grid)
    assert [str(f.severity) for f in (*run.findings, *run.remarks) if f.code == "X014"] == [severity] * bool(severity)


# ---- the shared memory of another CTA

ASYNC = "ld.shared.b32 %r6, [%r2+4]; st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r8], {%r5, %r6, %r5, %r5}, [%r9];"
BULK = "fence.proxy.async.shared::cta; cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r2], 16, [%r9];"


@pytest.mark.parametrize("copy", [ASYNC, BULK], ids=["st.async", "bulk"])
@pytest.mark.parametrize(("word", "told"), [(0, []), (1, ["R507"]), (2, [])])
def test_what_goes_to_another_cta_takes_its_doubts_along(copy, word, told):
    """CTA 0 writes three words of four and copies all of them; CTA 1 stores one."""
    text = kernel(f"""
    ld.param.b64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 64; mov.u32 %r4, %cluster_ctarank; mov.b32 %r5, 7;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0; and.pred %p3, %p1, %p2; not.pred %p4, %p2; and.pred %p4, %p1, %p4;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16; fence.mbarrier_init.release.cluster;
    @%p3 st.shared.b32 [%r2], %r5; @%p3 st.shared.v2.b32 [%r2+8], {{%r5, %r5}};
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @!%p3 bra COPIED;
    mapa.shared::cluster.u32 %r8, %r2, 1; mapa.shared::cluster.u32 %r9, %r3, 1; add.u32 %r8, %r8, 32;
    {copy}
COPIED:
    @!%p4 bra END;
    {wait("%r3")}
    ld.shared.v4.b32 {listed(10, 4)}, [%r2+32]; st.global.b32 [%rd1], %r{10 + word};
END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
""", ".b64 out", ".b64 in", shared=128)  # fmt: skip
    gpu = Gpu("sm_90a")
    run = gpu.launch(text, "k", grid=2, cluster=2, block=32, args=[gpu.zeros(4, "u32"), gpu.zeros(4, "u32")], progress=False)
    assert codes(run) == told, run.text()


@pytest.mark.parametrize(("waits_for", "told"), [("%r3", []), ("%r2", ["X008"]), (None, ["X008"])])
def test_a_commit_is_over_for_a_cta_that_waits_for_it_or_for_a_later_one(waits_for, told):
    """CTA 0 commits to two mbarriers of CTA 1, in this order: CTA 1 may end when it has waited for the second one."""
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    text = kernel(f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 8; mov.u32 %r4, %cluster_ctarank; mov.b16 %h1, 2;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    and.pred %p3, %p1, %p2; @%p3 {commit} [%r2], %h1; @%p3 {commit} [%r3], %h1;
    @%p2 bra END;
    {wait(waits_for) if waits_for else ""}
END:
""", shared=128, arch="sm_100a")  # fmt: skip
    gpu = Gpu("sm_100a")
    run = gpu.launch(text, "k", grid=2, cluster=2, block=32, args=[], progress=False)
    assert codes(run) == told, run.text()


WAITS_AT_OTHER = "first "


@pytest.mark.parametrize(
    ("by_zero", "by_one", "fix"),
    [
        ("multicast::cluster.b64 [%r2], 3", "", ""), ("multicast::cluster.b64 [%r2], 1", "", "the mask 0x3"), ("b64 [%r2]", "", "the mask 0x3"),
        ("b64 [%r2]", "b64 [%r2]", ""), ("b64 [%r2]", WAITS_AT_OTHER + "b64 [%r2]", "let a thread arrive at"),
    ],
    ids=["to both", "a mask of one", "no multicast", "each its own", "one waits before its own"],
)  # fmt: skip
def test_a_commit_that_leaves_out_a_cta_is_named(by_zero: str, by_one: str, fix: str):
    """CTA 0 commits, and both CTAs wait for it. A CTA that waits before its own commit is not left out."""
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
    own = by_one.removeprefix(WAITS_AT_OTHER)
    text = kernel(f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 8; mov.u32 %r4, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0; not.pred %p3, %p2; and.pred %p3, %p3, %p1; and.pred %p2, %p2, %p1;
    @%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p2 {commit}.{by_zero};
    @!%p3 bra BOTH;
    {wait("%r3", 0, "OWN") if own != by_one else ""}
    {f"{commit}.{own};" if own else ""}
BOTH: {wait("%r2")}
    barrier.cluster.arrive; barrier.cluster.wait;
""", shared=128, arch="sm_100a")  # fmt: skip
    run = Gpu("sm_100a").launch(text, "k", grid=2, cluster=2, block=32, args=[], progress=False)
    assert run.ok == (not fix), run.text()
    assert not fix or fix in run.findings[0].repair


@pytest.mark.parametrize("mask", [3, 1])
def test_a_mask_that_leaves_out_a_cta_is_named_not_the_phase_that_it_holds_up(mask: int):
    """CTA 0 loads for both by multicast. It loads again when both have read: without CTA 1, its second phase gets none."""
    copy = f"@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%rd2], 16, [%r2], {mask};"
    expect = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
    text = kernel(f"""
    ld.param.b64 %rd2, [in]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 8; add.u32 %r5, %r2, 64; mov.u32 %r4, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0; and.pred %p3, %p1, %p2; mapa.shared::cluster.u32 %r6, %r3, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r3], 2; fence.mbarrier_init.release.cluster; {expect}
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    {copy} {wait("%r2", 0, "FIRST")} {expect}
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
    @!%p3 bra LAST; {wait("%r3", 0, "FREE").replace("parity.shared", "parity.acquire.cluster.shared")} {copy}
LAST: {wait("%r2", 1, "SECOND")}
    barrier.cluster.arrive; barrier.cluster.wait;
""", ".b64 out", ".b64 in", shared=128)  # fmt: skip
    gpu = Gpu("sm_90a")
    run = gpu.launch(text, "k", grid=2, cluster=2, block=32, args=[gpu.zeros(4, "u32"), gpu.zeros(4, "u32")], progress=False)
    assert run.ok == (mask == 3), run.text()
    assert mask == 3 or run.findings[0].repair.startswith("multicast with the mask 0x3")


REMOTE = "@%p1 ld.shared::cluster.u32 %r7, [%r6];"


@pytest.mark.parametrize(
    ("before", "scope", "waits_for", "told"),
    [
        ("", "cta", "%r2", []), ("", "cta", "%r3", ["X008"]), ("", "cta", None, ["X008"]),
        (REMOTE, "cta", "%r2", ["X008"]), (REMOTE, "cluster", "%r2", []), (REMOTE, "cluster", "%r3", ["X008", "X008"]),
    ],
)  # fmt: skip
def test_an_arrival_is_over_for_a_cta_that_waits_for_it_whatever_its_scope(before, scope, waits_for, told):
    """CTA 1 arrives at an mbarrier of CTA 0, which may end when it has waited for that phase, by .cta; what CTA 1 did
    before is over if it released it.
    """
    text = kernel(f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 8; mov.u32 %r4, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p2 bra ZERO;
    mapa.shared::cluster.u32 %r5, %r2, 0; add.u32 %r6, %r5, 64; {before}
    @%p1 mbarrier.arrive.release.{scope}.shared::cluster.b64 _, [%r5];
    bra END;
ZERO: @%p1 mbarrier.arrive.shared.b64 _, [%r3];
    {wait(waits_for).replace("parity.shared", "parity.acquire.cta.shared") if waits_for else ""}
END:
""", shared=128)  # fmt: skip
    gpu = Gpu("sm_90a")
    run = gpu.launch(text, "k", grid=2, cluster=2, block=32, args=[], progress=False)
    assert codes(run) == told, run.text()


# ---- local memory


STACK = ".local .align 16 .b8 loc[64];"
THREE = "st.shared.u16 [%r3], %r1; st.shared.u8 [%r3+2], %r1; ld.shared.u32 %r2, [%r3];"  # bytes of four


LOCAL_CASES = {
    "written first": ("st.local.u32 [loc+8], %r1; ld.local.u32 %r2, [loc+8]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;", []),
    "decides a branch": ("ld.local.u32 %r2, [loc+8]; setp.eq.u32 %p1, %r2, 0; @%p1 bra E; st.global.u32 [%d1], %r1; E:", ["R507"]),
    "another word was written": (
        "st.local.u32 [loc+4], %r1; ld.local.u32 %r2, [loc+8]; setp.eq.u32 %p1, %r2, 0; @%p1 bra E; st.global.u32 [%d1], %r1; E:", ["R507"],
    ),
    "counted up": ("ld.local.u32 %r2, [loc+8]; add.u32 %r2, %r2, 1; st.local.u32 [loc+8], %r2; ld.local.u32 %r2, [loc+8]; red.global.add.u32 [%d1], %r2;", ["R507"]),
    "by one thread alone": ("@%p9 st.local.u32 [loc], %r1; ld.local.u32 %r2, [loc]; red.global.add.u32 [%d1], %r2;", ["R507"]),
    "a generic address": ("mov.u64 %d2, loc; cvta.local.u64 %d2, %d2; ld.u32 %r2, [%d2+8]; red.global.add.u32 [%d1], %r2;", ["R507"]),
    "a bit field beside bits that nobody uses": (
        "ld.local.u32 %r2, [loc+12]; and.b32 %r6, %r2, -16; or.b32 %r3, %r6, 13; st.local.v2.u32 [loc+8], {%r1, %r3}; ld.local.u32 %r4, [loc+12]; "
        "and.b32 %r4, %r4, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra E; st.global.u32 [%d1], %r1; E:", [],
    ),
    "a bit field that is stored elsewhere": (
        "ld.local.u32 %r2, [loc+8]; and.b32 %r6, %r2, -16; or.b32 %r3, %r6, 13; st.local.v2.u32 [loc], {%r1, %r3}; ld.local.u32 %r4, [loc+4]; "
        "setp.eq.u32 %p1, %r4, 0; @%p1 bra E; st.global.u32 [%d1], %r1; E:", ["R507"],
    ),
    "beside a load with a cache policy": (
        "createpolicy.fractional.L2::evict_last.b64 %d2, 1.0; ld.global.L2::cache_hint.u32 %r2, [%d1], %d2; "
        "ld.local.u32 %r3, [loc+8]; add.u32 %r2, %r2, %r3; red.global.add.u32 [%d1], %r2;", ["R507"],
    ),
    "a copy": ("ld.local.u32 %r2, [loc+8]; st.global.u32 [%d1], %r2;", []),
    "a sum": ("mov.u64 %d2, loc; st.local.u32 [%d2], %r1; ld.local.u32 %r2, [%d2]; ld.local.u32 %r3, [%d2+32]; add.u32 %r2, %r2, %r3; st.global.u32 [%d1], %r2;", ["R507"]),
    "members of a structure": ("mov.u64 %d2, loc; st.local.u32 [%d2], %r1; ld.local.u32 %r2, [%d2]; ld.local.u32 %r3, [%d2+4]; add.u32 %r2, %r2, %r3; st.global.u32 [%d1], %r2;", []),
    "nobody uses it": ("ld.local.u32 %r2, [loc+8]; st.local.u32 [loc], %r2; ld.local.u32 %r2, [loc];", []),
    "the last word of a vector": (
        "st.local.v2.u32 [loc], {%r1, %r1}; st.local.u32 [loc+8], %r1; ld.local.v4.u32 {%r2, %r3, %r4, %r5}, [loc]; add.u32 %r5, %r5, 1; "
        "red.global.add.u32 [%d1], %r5;", ["R507"],
    ),
    "the others of a vector": (
        "st.local.v2.u32 [loc], {%r1, %r1}; st.local.u32 [loc+8], %r1; ld.local.v4.u32 {%r2, %r3, %r4, %r5}, [loc]; add.u32 %r4, %r4, 1; "
        "red.global.add.u32 [%d1], %r4;", [],
    ),
    "a half of a word": ("st.local.u16 [loc], %r1; ld.local.u32 %r2, [loc]; red.global.add.u32 [%d1], %r2;", ["R507"]),
    "the other half of a word": ("st.local.u16 [loc], %r1; ld.local.u32 %r2, [loc]; and.b32 %r2, %r2, 0xffff; red.global.add.u32 [%d1], %r2;", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "told"), LOCAL_CASES.values(), ids=LOCAL_CASES)
def test_local_arrays_that_nobody_has_written_are_told_where_they_decide(body, told):
    """Padding beside what the thread has written may be copied, as compilers do with structures."""
    text = f"mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; {body}"
    done, _ = run(text, [np.zeros(32, np.uint32)], text={"locals_": STACK})
    assert [f.code for f in done.result.findings.values() if not f.is_milder] == told


SHARED_BYTES = {
    "a byte": ("@%p1 st.shared.u8 [%r3], %r1; bar.sync 0; ld.shared.u8 %r2, [%r3]; setp.gt.u32 %p2, %r2, 9; @%p2 red.global.add.u32 [%d1], 1;", {"R507"}, set()),
    "a half": ("@%p1 st.shared.u16 [%r3], %r1; bar.sync 0; ld.shared.s16 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "a byte by a volatile load": ("@%p1 st.shared.u8 [%r3], %r1; bar.sync 0; ld.volatile.shared.u8 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "a byte by a relaxed load": ("@%p1 st.shared.u8 [%r3], %r1; bar.sync 0; ld.relaxed.cta.shared.u8 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "a byte that a relaxed store has written": ("st.relaxed.cta.shared.u8 [%r3], %r1; bar.sync 0; ld.shared.u8 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", set(), set()),
    "a byte beside one that a relaxed store has written": ("st.relaxed.cta.shared.u8 [%r3], %r1; bar.sync 0; ld.shared.u8 %r2, [%r3+1]; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "three bytes are written, the fourth decides": (f"{THREE} shr.u32 %r2, %r2, 24; setp.gt.u32 %p2, %r2, 9; @%p2 red.global.add.u32 [%d1], 1;", {"R507"}, set()),
    "three bytes are written, the third decides": (f"{THREE} bfe.u32 %r2, %r2, 16, 8; setp.gt.u32 %p2, %r2, 9; @%p2 red.global.add.u32 [%d1], 1;", set(), set()),
    "three bytes are written, and all four added to": (f"{THREE} add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;", {"R507"}, set()),
    "the fourth is padding that is copied": (f"{THREE} st.global.u32 [%d1], %r2;", set(), {"R507"}),
    "the fourth, by way of another word": (f"{THREE} st.shared.u32 [%r3+4], %r2; ld.shared.u8 %r2, [%r3+7]; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "the third, by way of another word": (f"{THREE} st.shared.u32 [%r3+4], %r2; ld.shared.u8 %r2, [%r3+6]; red.global.add.u32 [%d1], %r2;", set(), set()),
    "the fourth, by a shuffle": (f"{THREE} shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; and.b32 %r2, %r2, 0xff000000; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "the third, by a shuffle": (f"{THREE} shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; and.b32 %r2, %r2, 0xff0000; red.global.add.u32 [%d1], %r2;", set(), set()),
    "an atomic operation on three bytes": (f"{THREE} atom.shared.add.u32 %r2, [%r3], 1; red.global.add.u32 [%d1], %r2;", {"R507"}, set()),
    "the word is written whole behind them": (f"{THREE} st.shared.u32 [%r3], %r1; ld.shared.u32 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", set(), set()),
    "the word is written by its halves": ("st.shared.u16 [%r3], %r1; st.shared.u16 [%r3+2], %r1; ld.shared.u32 %r2, [%r3]; red.global.add.u32 [%d1], %r2;", set(), set()),
    "a vector of two words, of which one has a hole": (f"{THREE} st.shared.u32 [%r3+4], %r1; ld.shared.v2.u32 {{%r4, %r5}}, [%r3]; red.global.add.u32 [%d1], %r5;", set(), set()),
}  # fmt: skip


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("body", "told", "remarks"), SHARED_BYTES.values(), ids=SHARED_BYTES)
def test_bytes_of_shared_memory_are_uninitialised_each_by_itself(body, told, remarks, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    head = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; mov.u32 %r3, sm; shl.b32 %r4, %r1, 3; add.u32 %r3, %r3, %r4; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0;"
    done, _ = run(f"{head} {body}", [np.zeros(32, np.uint32)])
    assert {f.code for f in done.result.findings.values() if not f.is_milder} == told
    assert {f.code for f in done.result.findings.values() if f.is_milder} == remarks


FRAGMENTS = {
    "A of f16": ("a", "row", "m16n16k16.{s}.f16", 32),
    "B of f16": ("b", "col", "m16n16k16.{s}.f16", 32),
    "A of s8": ("a", "row", "m16n16k16.{s}.s8", 16),
    "B of s8": ("b", "col", "m16n16k16.{s}.s8", 16),
    "A of f64": ("a", "row", "m8n8k4.{s}.f64", 32),
    "B of f64": ("b", "col", "m8n8k4.{s}.f64", 32),
}
PRODUCTS = {
    "f16": ("m16n16k16.f32.f32", "%r", 8, 8, "m16n16k16.{s}.f32", 64),
    "s8": ("m16n16k16.s32.s8.s8.s32", "%r", 2, 8, "m16n16k16.{s}.s32", 64),
    "f64": ("m8n8k4.f64.f64.f64.f64", "%d", 1, 2, "m8n8k4.{s}.f64", 64),
}


@pytest.mark.parametrize("past", [0, 1], ids=["rows that are there", "a row more"])
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("name", FRAGMENTS)
def test_rows_of_a_wmma_fragment_are_told_where_their_rows_of_d_are_used(name, space, past):
    """Five rows of A, or of B, are there. D goes to shared memory and is copied from there, each element by its row, or
    column, in A's, or B's, own order.
    """
    which, order, form, pitch = FRAGMENTS[name]
    shape, kind, own, results, stored, of_row = PRODUCTS[name.split()[-1]]
    other = "b" if which == "a" else "a"
    named = {side: fragment(kind, first, own) for side, first in ((which, 0), (other, 10))}
    other_form, d = form.format(s="global"), fragment(kind, 30, results)
    text = f"""
    mov.u32 %r50, sm; {"mov.u64 %d29, %d22;" if space == "global" else "cvt.u64.u32 %d29, %r50;"} shl.b32 %r51, %r1, 2; add.u32 %r52, %r51, %r50; cvt.u64.u32 %d28, %r51; add.u64 %d28, %d28, %d29;
    mov.u32 %r53, %r1; mov.u32 %r55, 0;
FILL: setp.lt.u32 %p1, %r51, {5 * pitch}; @%p1 st.{space}.u32 [%d28], %r55; add.u32 %r51, %r51, 128; add.u64 %d28, %d28, 128; setp.lt.u32 %p1, %r51, 512; @%p1 bra FILL;
    bar.warp.sync -1;
    wmma.load.{which}.sync.aligned.{order}.{form.format(s=space)} {named[which]}, [%d29];
    wmma.load.{other}.sync.aligned.{"col" if other == "b" else "row"}.{other_form} {named[other]}, [%d20];
    {zeroed(kind, 30, results)}
    wmma.mma.sync.aligned.row.col.{shape} {d}, {named["a"]}, {named["b"]}, {d};
    add.u32 %r50, %r50, 1024; cvt.u64.u32 %d27, %r50;
    wmma.store.d.sync.aligned.{"row" if which == "a" else "col"}.{stored.format(s="shared")} [%d27], {d}; bar.warp.sync -1;
    mov.u32 %r51, %r53; shl.b32 %r52, %r51, 2; add.u32 %r52, %r52, %r50; cvt.u64.u32 %d28, %r53; shl.b64 %d28, %d28, 2; add.u64 %d28, %d28, %d21;
COPY: setp.ge.u32 %p1, %r51, {(5 + past) * of_row // 4}; @%p1 bra DONE; ld.shared.u32 %r54, [%r52]; st.global.u32 [%d28], %r54;
    add.u32 %r51, %r51, 32; add.u32 %r52, %r52, 128; add.u64 %d28, %d28, 128; bra COPY;
DONE:"""
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(512, np.uint8)), gpu.array(np.zeros(256, np.uint32)), gpu.empty(512, np.uint8)]
    assert codes(gpu.launch(ptx_kernel(3, text), "k", block=32, args=arrays, progress=False)) == ["R507"] * past


def fragment(kind: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"{kind}{first + n}" for n in range(count)) + "}"


def zeroed(kind: str, first: int, count: int) -> str:
    return " ".join(f"mov.b{64 if kind == '%d' else 32} {kind}{n}, 0;" for n in range(first, first + count))


VOTES = {
    "a lane that has a value settles any": ("setp.ne.u32 %p1, %r2, 999; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2; red.global.add.u32 [%d1], %r4;", True, set(), set()),
    "a lane that has a value settles all": ("setp.eq.u32 %p1, %r2, 999; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2; red.global.add.u32 [%d1], %r4;", True, set(), set()),
    "a negated one settles all": ("setp.ne.u32 %p1, %r2, 999; vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r4, 1, 0, %p2; red.global.add.u32 [%d1], %r4;", True, set(), set()),
    "any that they leave open": ("setp.eq.u32 %p1, %r2, 999; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2; red.global.add.u32 [%d1], %r4;", True, set(), {"R507"}),
    "a branch on it": ("setp.eq.u32 %p1, %r2, 999; vote.sync.any.pred %p2, %p1, -1; @%p2 red.global.add.u32 [%d1], 1;", True, set(), {"R507"}),
    "no lane has a value": ("setp.eq.u32 %p1, %r2, 999; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2; red.global.add.u32 [%d1], %r4;", False, {"R507"}, set()),
    "the bits of lanes that have one": ("setp.eq.u32 %p1, %r2, 999; vote.sync.ballot.b32 %r4, %p1, -1; and.b32 %r4, %r4, 0xff; red.global.add.u32 [%d1], %r4;", True, set(), set()),
    "the bits of others": ("setp.eq.u32 %p1, %r2, 999; vote.sync.ballot.b32 %r4, %p1, -1; and.b32 %r4, %r4, 0x1ff; red.global.add.u32 [%d1], %r4;", True, {"R507"}, set()),
    "one that it decides by itself": ("setp.eq.u32 %p1, %r2, 999; vote.sync.any.pred %p2, %p1, -1; @%p1 red.global.add.u32 [%d1], 1;", True, {"R507"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("body", "some", "told", "remarks"), VOTES.values(), ids=VOTES)
def test_lanes_that_have_a_value_vote_beside_others(body, some, told, remarks, tiers, monkeypatch):
    """Lanes 0 to 7 have one. FlashAttention-4 rescales all rows of a warp if one of them needs it, rows past the end
    among them.
    """
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    head = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; mov.u32 %r3, sm; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;"
    fill = "setp.lt.u32 %p1, %r1, 8; @%p1 st.shared.u32 [%r3], %r1; bar.sync 0;" if some else ""
    done, _ = run(f"{head} {fill} ld.shared.u32 %r2, [%r3]; {body}", [np.zeros(32, np.uint32)])
    assert {f.code for f in done.result.findings.values() if not f.is_milder} == told
    assert {f.code for f in done.result.findings.values() if f.is_milder} == remarks


BITS = {  # of a ballot in which lanes 0 to 4 have a value, and vote yes: what reads those lanes' bits alone, and what reads one more
    "mask": ("and.b32 %r4, %r4, {mask};", 0x1F, 0x3F),
    "field": ("bfe.u32 %r4, %r4, 1, {mask};", 4, 5),
    "shift": ("shl.b32 %r4, %r4, {mask}; shr.u32 %r4, %r4, {mask};", 27, 26),
    "reversed": ("brev.b32 %r4, %r4; shr.u32 %r4, %r4, {mask};", 27, 26),
    "of own lane": ("shr.u32 %r4, %r4, %r5; and.b32 %r4, %r4, {mask};", 3, 7),
    "lanes below": ("shl.b32 %r6, 1, %r5; add.u32 %r6, %r6, {mask}; and.b32 %r4, %r4, %r6; popc.b32 %r4, %r4;", 0xFFFFFFFF, 0xFFFFFFFF - 128),
    "first of lanes": ("brev.b32 %r4, %r4; and.b32 %r6, %r4, {mask}; bfind.shiftamt.u32 %r4, %r6;", 0xFFFFFFFF, 0x07FFFFFF),
    "any": ("and.b32 %r4, %r4, {mask}; setp.ne.b32 %p2, %r4, 0; selp.u32 %r4, 1, 0, %p2;", 0xFF, 0xE0),
    "sign": ("shl.b32 %r4, %r4, {mask}; setp.lt.s32 %p2, %r4, 0; selp.u32 %r4, 1, 0, %p2;", 27, 26),
    "wide": ("cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, {mask}; cvt.u32.u64 %r4, %d2; and.b32 %r4, %r4, 0x3;", 3, 4),
    "pair": ("mov.b64 %d2, {{%r1, %r4}}; shr.u64 %d2, %d2, {mask}; cvt.u32.u64 %r4, %d2; and.b32 %r4, %r4, 0x3;", 35, 36),
    "funnel": ("shf.l.wrap.b32 %r4, %r4, 0, {mask};", 0, 6),
}  # fmt: skip


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize("name", BITS)
def test_each_bit_of_a_ballot_is_known_by_itself(name, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    body, right, wrong = BITS[name]
    head = "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d20; mov.u32 %r3, sm; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; and.b32 %r5, %r1, 3;"
    voted = "setp.lt.u32 %p1, %r1, 5; @%p1 st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r2, [%r3]; setp.ne.u32 %p1, %r2, 999; vote.sync.ballot.b32 %r4, %p1, -1;"
    told = []
    for mask in (right, wrong):
        done, _ = run(f"{head} {voted} {body.format(mask=mask)} red.global.add.u32 [%d1], %r4;", [np.zeros(32, np.uint32)])
        told.append(sorted(f.code for f in done.result.findings.values()))
    assert told == [[], ["R507"]]


COMPARED = {  # of a word whose upper half is uninitialised, and whose lower half is 0x1234
    "equal lower halves": ("setp.eq.u32 %p1, %r2, {0};", 0x1235, 0x1234),
    "not equal": ("setp.ne.s32 %p1, {0}, %r2;", 0x71230000, 0x71231234),
    "below the least": ("setp.lt.u32 %p1, %r2, {0};", 0x1234, 0x1235),
    "above the most": ("setp.le.u32 %p1, %r2, {0};", 0xFFFF1234, 0xFFFF1233),
    "below the least, lo": ("setp.hs.u32 %p1, %r2, {0};", 0x1234, 0x1235),
    "sign": ("or.b32 %r2, %r2, {0}; setp.ge.s32 %p1, %r2, 0;", 0x80000000, 0x40000000),
    "sign of a masked one": ("and.b32 %r2, %r2, {0}; setp.gt.s32 %p1, %r2, -1;", 0x7FFFFFFF, 0x80000000),
    "highest": ("or.b32 %r2, %r2, {0}; bfind.u32 %r3, %r2; setp.eq.u32 %p1, %r3, 31;", 0x80000000, 0x40000000),
    "leading zeros": ("or.b32 %r2, %r2, {0}; clz.b32 %r3, %r2; setp.eq.u32 %p1, %r3, 0;", 0x80000000, 0x40000000),
    "highest of a signed one": ("and.b32 %r2, %r2, {0}; or.b32 %r2, %r2, 0x40000000; bfind.s32 %r3, %r2; setp.eq.u32 %p1, %r3, 3;", 0x7FFFFFFF, 0xFFFFFFFF),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARED)
def test_a_comparison_that_known_bits_decide_is_known(name):
    body, right, wrong = COMPARED[name]
    head = "mov.u32 %r3, sm; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; mov.u32 %r5, 0x1234; st.shared.u16 [%r3], %r5; ld.shared.u32 %r2, [%r3];"
    told = []
    for number in (right, wrong):
        done, _ = run(f"{head} {body.format(number)} selp.u32 %r4, 1, 0, %p1; red.global.add.u32 [%d20], %r4;", [np.zeros(32, np.uint32)])
        told.append(sorted(f.code for f in done.result.findings.values()))
    assert told == [[], ["R507"]]


def test_any_number_of_combinations_is_followed():
    """Each thread adds up other ones of 13 uninitialised words: the last one has all of them."""
    gpu, count = Gpu("sm_90a"), 13
    body = "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 1024, %r1; mov.u32 %r3, sm; mov.u32 %r4, 0;\n"
    body += "".join(
        f"ld.shared.u32 %r5, [%r3+{4 * n}]; bfe.u32 %r6, %r2, {n}, 1; setp.ne.u32 %p1, %r6, 0; selp.u32 %r5, %r5, 0, %p1; add.u32 %r4, %r4, %r5;\n" for n in range(count)
    )  # fmt: skip
    body += f"setp.eq.u32 %p1, %r2, {2**count - 1}; @%p1 red.global.add.u32 [%d20], %r4;"
    done = gpu.launch(ptx_kernel(1, body), "k", grid=2**count // 1024, block=1024, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
    places = {at.instruction.line for f in done.findings for at in (f.at, *f.alike)}
    assert ({*codes(done)}, len(places)) == ({"R507"}, count)


@pytest.mark.parametrize("seed", range(12))
def test_loads_are_blamed_as_an_interpreter_of_bits_does_it(seed):
    program = Program(seed, 40)
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(np.zeros(1, np.uint32)), gpu.empty(512, np.uint8)]
    done = gpu.launch(program.text, "k", block=32, args=arrays, progress=False)
    places = [at.instruction.line for f in done.findings for at in (f.at, *f.alike)]
    assert {*codes(done)} <= {"R507"}
    assert {*places} == program.blamed, program.text


@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ("st.global.b8 [%d20], %r41;", False),
        ("st.global.b16 [%d20], %r41;", False),
        ("prmt.b32 %r42, %r41, 0, 0x7771; st.global.b8 [%d20], %r42;", False),
        ("prmt.b32 %r42, %r41, 0, 0x7771; st.global.b32 [%d20], %r42;", False),
        ("and.b32 %r42, %r41, 0xff00; st.global.b32 [%d20], %r42;", False),
        ("prmt.b32 %r42, %r41, 0, 0x7773; st.global.b8 [%d20], %r42;", True),
        ("and.b32 %r42, %r41, 0xff0000; st.global.b32 [%d20], %r42;", True),
        ("st.global.b32 [%d20], %r41;", True),
    ],
)
def test_bytes_that_are_given_a_value_are_known_beside_others_that_are_not(body, is_doubtful):
    """As the CuTe DSL stores two e4m3 numbers: the upper half of the word is a register that no instruction gives a
    value.
    """
    text = ptx_kernel(1, f"mov.u32 %r3, %r1; {{ .reg .b16 %low, %never; cvt.u16.u32 %low, %r3; mov.b32 %r41, {{%low, %never}}; {body} }}")
    gpu = Gpu()
    found = gpu.launch(text, block=1, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
    assert [f.code for f in (*found.findings, *found.remarks)] == ["R507"] * is_doubtful


@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ("cvt.rn.satfinite.e4m3x2.f32 %two, %never, %given; st.global.b8 [%d20], %two;", False),
        ("cvt.rn.satfinite.e4m3x2.f32 %two, %given, %never; st.global.b8 [%d20], %two;", True),
        ("cvt.rn.satfinite.e4m3x2.f32 %two, %never, %given; st.global.b16 [%d20], %two;", True),
        ("cvt.rn.satfinite.e4m3x2.f32 %two, %never, %given; and.b16 %two, %two, 0xFF; st.global.b16 [%d20], %two;", False),
        ("cvt.rn.satfinite.e4m3x2.f32 %two, %never, %given; and.b16 %two, %two, 0x100; st.global.b16 [%d20], %two;", True),
        (
            "cvt.rn.satfinite.e5m2x2.f32 %two, %never, %given; cvt.rn.f16x2.e5m2x2 %r41, %two; mov.b32 {%two, %r8}, %r41; st.global.b16 [%d20], %two;",
            False,
        ),
        (
            "cvt.rn.satfinite.e5m2x2.f32 %two, %never, %given; cvt.rn.f16x2.e5m2x2 %r41, %two; mov.b32 {%r8, %two}, %r41; st.global.b16 [%d20], %two;",
            True,
        ),
        *(
            (f"cvt.rn.satfinite.e4m3x2.f32 %two, {numbers}; {chosen}; st.global.b{bits} [%d20], %two;", is_doubtful)
            for chosen in (
                "setp.eq.u32 %p1, %given, 7; selp.b16 %two, 127, %two, %p1",
                "or.b16 %two, %two, 128",
                "not.b16 %two, %two; or.b16 %two, %two, %two",
            )
            for numbers, bits, is_doubtful in (("%never, %given", 8, False), ("%never, %given", 16, True), ("%given, %never", 8, True))
        ),
    ],
)
def test_each_number_of_a_pair_that_is_converted_has_its_own_doubt(body, is_doubtful):
    """As Triton and XLA make one e4m3 number: the other one of the pair is a register that no instruction gives a
    value.
    """
    body = body.replace("%r8", "%other")
    text = ptx_kernel(
        1, f"{{ .reg .b16 %two, %other; .reg .b32 %never, %given; cvt.rn.f32.u32 %given, %r1; mov.u32 %r41, 0; {body} }}", arch="sm_100a"
    )
    gpu = Gpu("sm_100a")
    found = gpu.launch(text, block=1, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
    assert [f.code for f in (*found.findings, *found.remarks)] == ["R507"] * is_doubtful


# What is done to a word of bytes 0 and 2 with a value, 1 and 3 without one, and a number in a register: the number,
# bits that are stored, is there a doubt?
WHAT_NUMBERS_SETTLE = {
    "mul.lo.u32 %r42, %r42, %r44": [
        (0, 32, False),
        (1, 32, True),
        (1, 8, False),
        (256, 16, False),
        (0x1000000, 32, False),
        (0x10000, 32, True),
        (16, 16, True),
    ],
    "mul.hi.u32 %r42, %r44, %r42": [(0, 32, False), (2, 8, True)],
    "mad.lo.s32 %r42, %r42, %r44, %r1": [(0, 32, False), (256, 16, False), (128, 16, True)],
    "mad.lo.s32 %r42, %r1, %r44, %r42": [(0, 8, False), (0, 16, True)],
    "sub.u32 %r42, %r44, %r42": [(5, 8, False), (5, 16, True)],
    "and.b32 %r42, %r44, %r42": [(0xFF00FF, 32, False), (0x100, 16, True)],
    "or.b32 %r42, %r42, %r44": [(0xFF00FF00, 32, False), (0x7F00FF00, 16, False), (0x7F00FF00, 32, True)],
    "lop3.b32 %r42, %r42, %r44, %r1, 0xCC": [(7, 32, False)],
    "lop3.b32 %r42, %r42, %r44, %r1, 0xC0": [(0xFF, 32, False), (0x8000, 16, True)],
    "lop3.b32 %r42, %r42, %r42, %r44, 0x3C": [(0, 8, False)],
    "prmt.b32.f4e %r42, %r42, %r1, %r44": [(0, 8, False), (1, 8, True), (3, 8, True), (2, 8, False)],
    "prmt.b32.rc8 %r42, %r42, 0, %r44": [(2, 32, False), (3, 32, True)],
    "prmt.b32.ecl %r42, %r42, 0, %r44": [(2, 16, False), (2, 32, True)],
    "prmt.b32 %r42, %r42, %r1, %r44": [(0x7A20, 32, False), (0x7920, 32, True)],
    "shl.b32 %r42, %r42, %r44": [(24, 32, False), (23, 32, True), (40, 32, False)],
    "bfe.u32 %r42, %r42, %r44, 8": [(16, 32, False), (15, 32, True)],
    "dp2a.lo.u32.u32 %r42, %r44, %r42, %r1": [(0x10001, 32, True), (1, 32, False)],
    "prmt.b32 %r42, %r42, 0, 0x1120; dp2a.lo.u32.u32 %r42, %r44, %r42, %r1": [(0x10001, 32, False)],
    "prmt.b32 %r42, %r42, 0, 0x1120; dp2a.hi.u32.u32 %r42, %r44, %r42, %r1": [(0, 32, False), (0x10000, 32, True)],
    "dp4a.u32.u32 %r42, %r42, %r44, %r1": [(0xFF00FF, 32, False), (0x100, 32, True)],
    "vadd.u32.u32.u32 %r42, %r42.b2, %r44.b0": [(1, 32, False)],
    "vadd.u32.u32.u32 %r42, %r44.b0, %r42.b1": [(1, 32, True)],
    "vadd4.u32.u32.u32 %r42, %r42, %r44, %r1": [(1, 8, False), (1, 16, True)],
}


@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ("cvt.u32.u16 %r42, %two; prmt.b32 %r42, %r42, %r1, 0x3340; st.global.b32 [%d20], %r42;", False),
        ("cvt.u32.u16 %r42, %two; prmt.b32 %r42, %r42, %r1, 0x3341; st.global.b32 [%d20], %r42;", True),
        ("cvt.u32.u16 %r42, %two; prmt.b32 %r42, %r1, %r42, 0x4330; st.global.b32 [%d20], %r42;", False),
        ("cvt.u32.u8 %r42, %two; st.global.b32 [%d20], %r42;", False),
        ("cvt.s32.s16 %r42, %two; and.b32 %r42, %r42, 0xff0000ff; st.global.b32 [%d20], %r42;", True),
        ("cvt.u32.u16 %r42, %two; and.b32 %r42, %r42, 0xff0000ff; st.global.b32 [%d20], %r42;", False),
        ("cvt.u32.u16 %r42, %two; and.b32 %r42, %r42, 255; shl.b32 %r42, %r42, 20; st.global.b32 [%d20], %r42;", False),
        ("cvt.sat.u8.u16 %two, %two; st.global.b8 [%d20], %two;", True),
        ("cvt.u32.u16 %r42, %two; lop3.b32 %r42, %r42, %r1, 0, 0xfe; st.global.b8 [%d20], %r42;", False),
        ("cvt.u32.u16 %r42, %two; lop3.b32 %r42, %r42, %r1, 0, 0xfe; st.global.b16 [%d20], %r42;", True),
        (
            "cvt.u64.u16 %d30, %two; and.b64 %d30, %d30, 255; shl.b64 %d30, %d30, 40; cvt.u32.u64 %r42, %d30; st.global.b32 [%d20], %r42;",
            False,
        ),
        ("cvt.u64.u16 %d30, %two; shl.b64 %d30, %d30, 24; mov.b64 {%r43, %r42}, %d30; st.global.b32 [%d20], %r42;", True),
        (
            "cvt.u64.u16 %d30, %two; shl.b64 %d30, %d30, 24; mov.b64 {%r43, %r42}, %d30; shr.u32 %r42, %r43, 24; st.global.b32 [%d20], %r42;",
            False,
        ),
        ("cvt.u32.u16 %r42, %two; bfe.u32 %r42, %r42, 0, 8; st.global.b32 [%d20], %r42;", False),
        ("cvt.u32.u16 %r42, %two; bfe.u32 %r42, %r42, 4, 8; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %never16}; bfe.s32 %r42, %r42, 24, 16; shr.u32 %r42, %r42, 24; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; bfe.s32 %r42, %r42, 16, 8; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; bfi.b32 %r42, %r1, %r42, 8, 24; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; bfi.b32 %r42, %r1, %r42, 12, 20; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; bfi.b32 %r42, %r42, 0, 8, 8; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; bfi.b32 %r42, %r42, 0, 8, 9; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; xor.b32 %r42, %r42, %r42; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; sub.u32 %r42, %r42, %r42; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; xor.b32 %r42, %r42, %r1; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; shf.l.wrap.b32 %r42, 0, %r42, 24; st.global.b32 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; shf.l.wrap.b32 %r42, 0, %r42, 23; st.global.b32 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; shf.r.clamp.b32 %r42, %r42, 0, 16; st.global.b8 [%d20], %r42;", False),
        ("mov.b32 %r42, {%two, %two}; shf.r.clamp.b32 %r42, %r42, 0, 17; st.global.b8 [%d20], %r42;", True),
        ("mov.b32 %r42, {%two, %two}; mov.b32 {%two, %other}, %r42; st.global.b8 [%d20], %other;", False),
        ("mov.b32 %r42, {%two, %two}; mov.b32 {%two, %other}, %r42; st.global.b16 [%d20], %other;", True),
        *(
            (f"mov.u32 %r44, {number}; mov.b32 %r42, {{%two, %two}}; {{ {does}; }} st.global.b{bits} [%d20], %r42;", is_doubtful)
            for does, cases in WHAT_NUMBERS_SETTLE.items()
            for number, bits, is_doubtful in cases
        ),
    ],
)
def test_the_bytes_of_a_word_have_doubts_of_their_own(body, is_doubtful):
    """As XLA puts four e4m3 numbers into a word, each the lower one of a pair whose other one is a register that no
    instruction gives a value.
    """
    body = f"cvt.rn.satfinite.e4m3x2.f32 %two, %never, %given; {body}"
    regs = ".reg .b16 %two, %other, %never16; .reg .b32 %never, %given, %r43, %r44; .reg .b64 %d30;"
    text = ptx_kernel(1, f"{{ {regs} cvt.rn.f32.u32 %given, %r1; {body} }}", arch="sm_100a")
    gpu = Gpu("sm_100a")
    found = gpu.launch(text, block=1, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
    assert [f.code for f in (*found.findings, *found.remarks)] == ["R507"] * is_doubtful


@pytest.mark.parametrize(
    ("shift", "half", "is_doubtful"),
    [
        ("shr.u32 %r42, %r41, 16", 0, {"%never, %given": False, "%given, %never": True}),
        ("shr.s32 %r42, %r41, 16", 1, {"%never, %given": False, "%given, %never": True}),
        ("shr.u32 %r42, %r41, 16", 1, {"%never, %given": False, "%given, %never": False}),
        ("shl.b32 %r42, %r41, 16", 1, {"%never, %given": True, "%given, %never": False}),
        ("shl.b32 %r42, %r41, 16", 0, {"%never, %given": False, "%given, %never": False}),
        ("shl.b32 %r42, %r41, 8", 0, {"%never, %given": True, "%given, %never": False}),
        ("shr.u32 %r42, %r41, 8", 0, {"%never, %given": True, "%given, %never": True}),
        ("shr.u32 %r42, %r41, 8", 1, {"%never, %given": False, "%given, %never": True}),
    ],
)
def test_what_is_shifted_has_the_doubts_of_the_halves_that_it_comes_from(shift, half, is_doubtful):
    """As bf16 pairs are taken apart: by shl.b32 16, and shr.u32 16."""
    for halves, expected in is_doubtful.items():
        body = f"mov.b32 %r41, {{{halves}}}; {shift}; mov.b32 {{%low, %high}}, %r42; st.global.b16 [%d20], {('%low', '%high')[half]};"
        text = ptx_kernel(1, f"{{ .reg .b16 %low, %high, %never, %given; cvt.u16.u32 %given, %r1; {body} }}")
        gpu = Gpu("sm_90a")
        found = gpu.launch(text, block=1, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
        assert [f.code for f in (*found.findings, *found.remarks)] == ["R507"] * expected, halves


@pytest.mark.parametrize("ctas", [1, 8])
@pytest.mark.parametrize(
    ("load", "code"), [("ld.shared.u32 %r2, [%r9];", "R507"), ("ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r9];", "X004")]
)
def test_a_load_that_never_came_is_no_smaller_for_several_ctas_than_for_one(ctas, load, code):
    """A read of less than a load brings is one of what nobody has written, however many CTAs do it."""
    body = f""".shared .align 16 .b8 here[16]; .shared .align 8 .b64 full; mov.u32 %r9, here; mbarrier.init.shared::cta.b64 [full], 1;
    {load} st.global.u32 [%d20], %r2;
    FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra FULL;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [here], [%d20], 16, [full];"""
    gpu = Gpu("sm_90a")
    found = gpu.launch(ptx_kernel(1, body), grid=ctas, block=1, args=[gpu.array(np.zeros(4, np.uint32))], progress=False)
    assert {f.code for f in found.findings} - {"X008"} == {code, "X006"}


# ---- atomic operations on what nobody has written


@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ("@%p9 atom.shared.exch.b32 %r2, [sm], 0;", False),  # what lies there already
        ("@%p9 atom.shared.exch.b32 %r2, [sm], 7;", False),
        ("@%p9 atom.shared.exch.b64 %d2, [sm], 0;", False),
        ("@%p9 st.shared.u32 [sm], %r50; @%p9 atom.shared.exch.b32 %r2, [sm], 0;", False),
        ("@%p9 atom.shared.exch.b32 %r2, [sm+4], 0;", True),  # another word
        ("@%p9 atom.shared.and.b32 %r2, [sm], 0;", True),
        ("@%p9 atom.shared.cas.b32 %r2, [sm], 0, 0;", True),
        ("@%p9 atom.shared.exch.b32 %r2, [sm], 0; @%p9 st.shared.u32 [sm], %r50;", True),
    ],
)
def test_an_exchange_writes_whatever_has_been_there(body, is_doubtful):
    messages = found(f"{body} bar.sync 0; ld.shared.u32 %r3, [sm]; st.global.u32 [%d20], %r3;", np.zeros(1, np.uint32))
    assert list(messages) == ["R507"] * is_doubtful


@pytest.mark.parametrize(
    ("at", "value", "is_doubtful"), [(0, 0xFFFFFFFF, False), (0, 0, False), (8, 0xFFFFFFFF, True)]
)  # 0xff: what `empty` has
def test_an_exchange_writes_to_global_memory_whatever_has_been_there(at, value, is_doubtful):
    gpu = Gpu("sm_90a")
    unwritten, out = gpu.empty(4, np.uint32), gpu.array(np.zeros(1, np.uint32))
    text = ptx_kernel(
        2, f"@%p9 atom.global.exch.b32 %r2, [%d20+{at}], {value}; bar.sync 0; ld.global.u32 %r3, [%d20]; st.global.u32 [%d21], %r3;"
    )
    assert codes(gpu.launch(text, "k", block=32, args=[unwritten, out], progress=False)) == ["R507"] * is_doubtful


@pytest.mark.parametrize(
    ("body", "is_doubtful"),
    [
        ("@%p9 atom.shared.exch.b32 %r2, [sm], 1;", True),
        ("@%p9 atom.shared.exch.b64 %d2, [sm], 1; cvt.u32.u64 %r2, %d2;", True),
        ("@%p9 st.shared.u32 [sm], 0; bar.sync 0; atom.shared.exch.b32 %r2, [sm], 1;", False),
        ("@%p9 atom.shared.exch.b32 %r3, [sm], 0; bar.sync 0; atom.shared.exch.b32 %r2, [sm], 1;", False),  # the first one throws it away
        ("atom.shared.exch.b32 %r3, [sm], 7; setp.gt.u32 %p1, %r1, 0; selp.b32 %r2, %r3, 0, %p1;", False),  # lane 0 got it alone
        ("atom.shared.exch.b32 %r3, [sm], 7; setp.eq.u32 %p1, %r1, 0; selp.b32 %r2, %r3, 0, %p1;", True),
        ("ld.shared.u32 %r3, [sm+8]; st.shared.u32 [sm], %r3; atom.shared.exch.b32 %r2, [sm], 7;", True),  # a copy of what nobody wrote
        *(  # what was found is put elsewhere by an exchange, and found there by another one, that throws it away or does not
            (
                f"@%p9 st.shared.u32 [sm+8], 0; @%p9 atom.shared.exch.b32 %r3, [sm], 1; @%p9 atom.shared.exch.b32 %r2, [sm+8], %r3; {more}",
                is_doubtful,
            )
            for more, is_doubtful in (
                ("", False),
                ("@%p9 atom.shared.exch.b32 %r4, [sm+8], 5; bar.sync 0; atom.shared.exch.b32 %r2, [sm+8], 5;", False),
                ("@%p9 atom.shared.exch.b32 %r2, [sm+8], 5;", True),
                ("bar.sync 0; ld.shared.u32 %r2, [sm+8];", True),
            )
        ),
        *(  # of lanes that exchange at one place, each gets the value of the one in front of it
            (
                f"st.shared.u32 [sm], 0; ld.shared.u32 %r3, [sm+8]; setp.eq.u32 %p1, %r1, 5; selp.b32 %r3, %r3, %r1, %p1; bar.warp.sync -1; atom.shared.exch.b32 %r2, [sm], %r3; "
                f"setp.eq.u32 %p1, %r1, {lane}; selp.b32 %r2, %r2, 0, %p1;",
                is_doubtful,
            )
            for lane, is_doubtful in ((5, False), (6, True), (7, False))
        ),
    ],
)
def test_what_an_exchange_has_found_where_nobody_wrote_is_told_where_it_is_used(body, is_doubtful):
    messages = found(
        f"mov.b32 %r2, 0; {body} mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d20, %d4; st.global.u32 [%d4], %r2;", np.zeros(32, np.uint32)
    )
    assert "R507" in messages if is_doubtful else messages == {}


@pytest.mark.parametrize(("use", "is_doubtful"), [("setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%d21], 1;", True), ("", False)])
def test_a_lock_in_global_memory_that_nobody_has_made_is_told(use, is_doubtful):
    gpu = Gpu("sm_90a")
    text = ptx_kernel(2, f"@%p9 atom.global.exch.b32 %r2, [%d20], 1; {use}")
    lock, out = gpu.empty(4, np.uint32), gpu.array(np.zeros(1, np.uint32))
    assert codes(gpu.launch(text, "k", block=1, args=[lock, out], progress=False)) == ["R507"] * is_doubtful


@pytest.mark.parametrize(
    "instruction",
    ["red.global.add.u32 [%d20], %r9;", "atom.global.add.u32 %r2, [%d20], %r9;", "atom.global.cas.b32 %r2, [%d20], %r9, 1;", "atom.global.max.u32 %r9, [%d20], 1;"],
)  # fmt: skip
def test_an_atomic_operation_uses_a_register_that_nothing_has_given_a_value(instruction):
    gpu = Gpu("sm_90a")
    done = gpu.launch(ptx_kernel(1, instruction), "k", block=32, args=[gpu.array(np.zeros(1, np.uint32))], progress=False)
    assert codes(done) == ["R507"] * ("%r9, [" not in instruction), done.text()


SPARSE = """
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 3; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, data; mad.lo.u32 %r2, %r0, 4, %r2; mov.b32 %r3, 0x44444444;
    @%p0 st.shared.b32 [%r2], %r3; bar.warp.sync -1; ld.shared.b32 %r4, [%r2]; mov.b32 %r5, 0x3c003c00; mov.f32 %f0, 0f00000000;
    mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r5, %r5}, {%r5, %r5}, {%f0, %f0, %f0, %f0}, METADATA;
    ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd0, %rd0, %rd1; st.global.f32 [%rd0], %f1; ret;"""


@pytest.mark.parametrize(
    ("metadata", "words"),
    [("%r4, 0", ""), ("%r4, 1", "read: ld.shared.b32"), ("%r6, 0", "no instruction has given it a value")],
)
def test_the_threads_that_the_selector_names_have_the_metadata(metadata, words):
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(32, np.float32))
    text = (
        ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) { .shared .b32 data[32]; .reg .pred %p<1>; .reg .b32 %r<7>; .reg .b64 %rd<2>; .reg .f32 %f<5>;"
        + SPARSE.replace("METADATA", metadata)
        + "}"
    )
    done = gpu.launch(text, "k", grid=1, block=32, args=[out], progress=False)
    assert [f.code for f in done.findings] == ["R507"] * bool(words), done.text()
    assert all(words in f.message for f in done.findings)


BLOCK_SCALED = """.shared .align 16 .b8 s[128]; mov.u32 %r4, s; mad.lo.u32 %r5, %r1, 4, %r4; WRITE ld.shared.u32 %r3, [%r5];
mov.u32 %r2, 0x38383838; mov.u32 %r7, 0x22222222; mov.f32 %f1, 0f00000000;
mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::FACTORSX.f32.e2m1.e2m1.f32.ue8m0
{%f1, %f2, %f3, %f4}, {%r7, %r7, %r7, %r7}, {%r7, %r7}, {%f1, %f1, %f1, %f1}, SCALES;
mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; st.global.f32 [%d2], %fROW;"""
OF_A, OF_B = "{%r3}, {BYTE, THREAD}, {%r2}, {0, 0}", "{%r2}, {0, 0}, {%r3}, {BYTE, THREAD}"


@pytest.mark.parametrize(
    ("scales", "thread", "byte", "written", "row", "is_found"),
    [
        (OF_A, 0, 0, "", 1, True),  # nothing is written
        (OF_A, 0, 0, "st.shared.u16 [%r5], 1;", 1, False),  # the other half of the word is not selected
        (OF_A, 0, 2, "st.shared.u16 [%r5], 1;", 1, True),
        (OF_B, 0, 0, "", 1, True),
        (OF_B, 0, 2, "st.shared.u16 [%r5+2], 1;", 1, False),
        (OF_B, 0, 0, "st.shared.u16 [%r5+2], 1;", 1, True),
        # threads 4 n have the factors of rows n, threads 4 n + 1 those of rows n + 8
        (OF_A, 0, 0, "and.b32 %r8, %r1, 3; setp.eq.u32 %p1, %r8, 0; @%p1 st.shared.u32 [%r5], %r1; bar.warp.sync -1;", 1, False),
        (OF_A, 0, 0, "and.b32 %r8, %r1, 3; setp.eq.u32 %p1, %r8, 0; @%p1 st.shared.u32 [%r5], %r1; bar.warp.sync -1;", 3, True),
    ],
)
def test_a_scale_factor_that_nothing_has_written_spoils_its_row_or_column(scales, thread, byte, written, row, is_found):
    body = BLOCK_SCALED.replace("SCALES", scales.replace("BYTE", str(byte)).replace("THREAD", str(thread))).replace("FACTORS", "2")
    text = ptx_kernel(1, body.replace("WRITE", written).replace("ROW", str(row))).replace("sm_90a", "sm_120a")
    gpu = Gpu("sm_120a")
    assert codes(gpu.launch(text, "k", block=32, args=[gpu.zeros(32, np.float32)], progress=False)) == ["R507"] * is_found


# ---- values that are stored to global memory


STORES = """.shared .align 16 .b8 s[128]; mov.u32 %r4, s; mad.lo.u32 %r5, %r1, 4, %r4; setp.lt.u32 %p1, %r1, 24; @%p1 st.shared.u32 [%r5], %r1;
bar.sync 0; ld.shared.u32 %r6, [%r5]; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1; add.u64 %d4, %d22, %d1;"""
THROWN = f"{STORES} st.global.u32 [%d2], %r6; @%p1 st.global.u32 [%d3], %r6;"


@pytest.mark.parametrize(
    ("env", "schedule"),
    [
        ({}, None),
        ({"SMEMSIM_TIERS": "closures"}, None),
        ({"SMEMSIM_TIERS": "compiled"}, None),
        ({"SMEMSIM_COHORTS": "off"}, None),
        ({}, "latest"),
        ({}, 3),
    ],
)
@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        ("", True),  # the caller gets the scratch buffer
        ("st.global.u32 [%d2], %r1;", False),  # it is overwritten
        ("st.global.u8 [%d2], %r1; st.global.u8 [%d2+1], %r1; st.global.u16 [%d2+2], %r1;", False),
        ("st.global.u8 [%d2], %r1; st.global.u16 [%d2+2], %r1;", True),
        ("ld.global.u32 %r7, [%d2]; st.global.u32 [%d2], %r1; @%p1 st.global.u32 [%d3], %r7;", False),
        ("ld.global.u32 %r7, [%d2]; st.global.u32 [%d2], %r1; st.global.u32 [%d3], %r7;", True),
        ("ld.global.u16 %r7, [%d2]; st.global.u32 [%d2], %r1; setp.gt.u32 %p2, %r7, 9; @%p2 st.global.u32 [%d3], 1;", True),
        ("atom.global.exch.b32 %r7, [%d2], %r1;", False),
        ("atom.global.exch.b32 %r7, [%d2], %r1; st.global.u32 [%d3], %r7;", True),
        ("atom.global.add.u32 %r7, [%d2], 1;", True),
    ],
)
def test_a_stored_value_that_is_gone_when_the_launch_ends_was_never_used(more, is_found, env, schedule, monkeypatch):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    gpu = Gpu("sm_90a")
    arrays = [gpu.zeros(32, np.uint32) for _ in range(3)]
    run = gpu.launch(ptx_kernel(3, f"{THROWN} {more}"), "k", block=32, args=arrays, schedule=schedule, progress=False)
    assert codes(run) == ["R507"] * is_found, run.text()
    assert [f.code for f in run.remarks] == ["R507"] * (not is_found)


def test_a_scratch_buffer_counts_only_if_something_reads_it():
    gpu = Gpu("sm_90a")
    scratch, out, other = (gpu.zeros(32, np.uint32) for _ in range(3))
    adds = f"{STORES} ld.global.u32 %r7, [%d2]; add.u32 %r7, %r7, 1;"
    first = gpu.launch(ptx_kernel(3, THROWN), "k", block=32, args=[scratch, out, other], outputs=[out], progress=False)
    then = gpu.launch(
        ptx_kernel(3, f"{adds} @%p1 st.global.u32 [%d3], %r7;"), "k", block=32, args=[scratch, out, other], outputs=[out], progress=False
    )
    assert (codes(first), codes(then)) == ([], [])
    assert (out.numpy()[:24] == np.arange(24) + 1).all()
    assert first.ok
    last = gpu.launch(ptx_kernel(3, f"{adds} st.global.u32 [%d3], %r7;"), "k", block=32, args=[scratch, out, other], progress=False)
    assert (codes(first), codes(last)) == (["R507"], [])
    assert not first.ok


def test_reading_a_scratch_buffer_in_python_is_a_use():
    gpu = Gpu("sm_90a")
    scratch, out, other = (gpu.zeros(32, np.uint32) for _ in range(3))
    run = gpu.launch(ptx_kernel(3, THROWN), "k", block=32, args=[scratch, out, other], outputs=[out], progress=False)
    assert codes(run) == []
    scratch.numpy()
    assert codes(run) == ["R507"]
    assert run.findings[0].halves[-1].text == "DeviceArray.numpy"


@pytest.mark.parametrize(
    ("over", "codes"),
    [
        ("", {"R507"}),
        ("st.local.u32 [loc], 1;", set()),
        ("st.local.u32 [loc+4], 1;", {"R507"}),
        ("st.local.v4.u32 [loc], {%r1, %r1, %r1, %r1};", set()),
        ("st.local.u64 [loc], 1;", set()),
        ("st.local.u16 [loc], 1; st.local.u8 [loc+2], 1; st.local.u8 [loc+3], 1;", set()),
        ("mov.u64 %d4, loc; cvta.local.u64 %d4, %d4; st.u32 [%d4], 1;", set()),
        ("@%p9 st.local.u32 [loc], 1;", {"R507"}),  # of one thread
        ("bar.sync 0; @%p9 st.shared.u32 [%r9], 1;", {"R507"}),  # other memory, at the same place
        ("st.global.u32 [%d20], 1;", {"R507"}),
    ],
)
def test_a_doubtful_value_in_local_memory_is_gone_once_it_is_overwritten_there(over, codes):
    body = f"""mov.u32 %r9, sm; ld.shared.u32 %r2, [%r9]; st.local.u32 [loc], %r2; {over} ld.local.u32 %r4, [loc]; setp.eq.u32 %p1, %r4, 7; @%p1 st.global.u32 [%d20], 5;"""
    assert set(found(body, np.zeros(1, np.uint32), text={"locals_": ".local .align 16 .b8 loc[64];"})) == codes


RAGGED = """and.b32 %r5, %r1, 7; mul.lo.u32 %r5, %r5, {step}; shl.b32 %r4, %r1, 4; mov.u32 %r3, sm; add.u32 %r3, %r3, %r4; cvt.u64.u32 %d2, %r4; add.u64 %d2, %d20, %d2;
cp.async.ca.shared.global [%r3], [%d2], 16, %r5; cp.async.wait_all; add.u32 %r3, %r3, %r5; ld.shared.u8 %r6, [%r3{at}]; setp.eq.u32 %p1, %r6, 7; @%p1 st.global.u32 [%d2], %r6;"""


@pytest.mark.parametrize("step", [1, 2])
def test_a_ragged_copy_of_uninitialised_bytes_leaves_zeros_after_them(step):
    """Threads copy 0 to 14 bytes. The byte after them is 0; that before them is uninitialised, if there is one."""
    for at, codes in (("", []), ("+-1", ["R507"])):
        gpu = Gpu("sm_90a")
        body = RAGGED.format(step=step, at=at).replace(
            "ld.shared.u8", "setp.ne.u32 %p2, %r5, 0; @%p2 ld.shared.u8" if at else "ld.shared.u8"
        )
        done = gpu.launch(ptx_kernel(1, f"mov.u32 %r6, 0; {body}"), "k", block=32, args=[gpu.empty(1024)], progress=False)
        assert [f.code for f in done.findings] == codes, at
