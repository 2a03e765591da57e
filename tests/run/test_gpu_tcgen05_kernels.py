"""Kernels with tcgen05: what they compute, what compilers' own kernels compute, and what is said where one uses the
instructions wrongly.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import smemsim
from mma import lay_out, numbers
from ptx_kernels import kernel, wait
from smemsim import Gpu, InstrDescriptor, SharedMemory
from smemsim.cli import main
from smemsim.core.spec.occupancy import cta_fit
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.run.engine import multiprocessors
from tools.witnesses.launches import compiled_launches, expected_results, running

LEADER = "setp.eq.u32 %p1, %r0, 0;"


def listed(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


# ---- a product


def gemm(i: InstrDescriptor, word_a: int, word_b: int, group: int, *, steps: int = 1, n: int = 32) -> str:
    """D = A B of one instruction a step: threads fill shared memory, one issues, all read D back. A at 0x400, B behind
    it, as bytes of `in`.
    """
    peers = "mov.u32 %r170, %cluster_ctarank; mul.lo.u32 %r171, %r170, 16384; cvt.u64.u32 %rd9, %r171; add.u64 %rd0, %rd0, %rd9;" if group == 2 else "mov.u32 %r170, 0;"  # fmt: skip
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    issue = "\n".join(
        f"""    mov.b64 %rd3, {word_a}; mov.b64 %rd4, {word_b}; mov.u32 %r160, {i.word};
    @%p1 tcgen05.mma.cta_group::{group}.kind::{i.kind} [%r197], %rd3, %rd4, %r160, {"1" if step else "0"};"""
        for step in range(steps)
    )
    commit = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster" + (".multicast::cluster.b64 [%r161], 3;" if group == 2 else ".b64 [%r161];")  # fmt: skip
    return f"""
    ld.param.b64 %rd0, [in]; ld.param.b64 %rd1, [out];
    mov.u32 %r0, %tid.x; {peers}
    shr.u32 %r198, %r0, 5; setp.ne.u32 %p0, %r198, 0;
    mov.u32 %r150, smem; add.u32 %r199, %r150, 16384; add.u32 %r161, %r150, 16392;
    @!%p0 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r199], 256;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r161], 1;
    shl.b32 %r151, %r0, 2; add.u32 %r152, %r150, %r151; cvt.u64.u32 %rd5, %r151; add.u64 %rd5, %rd5, %rd0;
    mov.u32 %r153, 0;
FILL:
    ld.global.b32 %r154, [%rd5]; st.shared.b32 [%r152], %r154;
    add.u32 %r152, %r152, 512; add.u64 %rd5, %rd5, 512; add.u32 %r153, %r153, 1;
    setp.lt.u32 %p3, %r153, 32;
    @%p3 bra FILL;
    fence.proxy.async.shared::cta;
    fence.mbarrier_init.release.cluster;
    tcgen05.fence::before_thread_sync;
    {meet}
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r197, [%r199];
    setp.eq.u32 %p4, %r170, 0;
    and.pred %p1, %p1, %p4;
{issue}
    @%p1 {commit}
{wait("%r161")}
    tcgen05.fence::after_thread_sync;
    and.b32 %r196, %r198, 3; shl.b32 %r196, %r196, 21; add.u32 %r196, %r196, %r197;
    tcgen05.ld.sync.aligned.32x32b.x{n}.b32 {listed(1, n)}, [%r196];
    tcgen05.wait::ld.sync.aligned;
    shl.b32 %r155, %r170, 7; add.u32 %r155, %r155, %r0; mul.wide.u32 %rd6, %r155, {4 * n}; add.u64 %rd1, %rd1, %rd6;
""" + "\n".join(f"    st.global.b32 [%rd1+{4 * k}], %r{1 + k};" for k in range(n)) + f"""
    {meet}
    @!%p0 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r197, 256;
    @!%p0 tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
"""  # fmt: skip


def product(kind: str, a_type: str, group: int = 1, *, arch: str = "sm_100a", d_type: str = "f32", steps: int = 1):
    """(PTX, bytes of both operands of each CTA, A, B, descriptor): 128 rows of D in each CTA and 32 columns."""
    i = InstrDescriptor(kind=kind, m=128 * group, n=32, a_type=a_type, b_type=a_type, d_type=d_type)
    rng = np.random.default_rng(5)
    a, b = numbers(rng, (i.m, i.k), a_type), numbers(rng, (i.n, i.k), a_type)
    images, words = [], (0, 0)
    for cta in range(group):
        shared = SharedMemory("sm_100a")
        half = i.n // group
        words = (
            lay_out(shared, a[cta * 128 : cta * 128 + 128], a_type, "K", "32B", 0x400, packing=KINDS[kind].packing),
            lay_out(shared, b[cta * half : (cta + 1) * half], a_type, "K", "32B", 0x2400, packing=KINDS[kind].packing),
        )
        images.append(shared.bytes[0x400 - shared.begin : 0x4400 - shared.begin].copy())
    text = kernel(gemm(i, *words, group, steps=steps), ".b64 in", ".b64 out", shared=16400, arch=arch)
    return text, np.stack(images), a, b, i


def multiplied(text: str, images: np.ndarray, group: int = 1, *, arch: str = "sm_100a", spare: int = 0):
    """Run a kernel; `spare` rows follow those of D."""
    gpu = Gpu(arch)
    out = gpu.array(np.zeros((128 * group + spare, 32), np.float32))
    run = gpu.launch(text, "k", grid=group, cluster=group, block=128, args=(gpu.array(images), out))
    return run, out.numpy()[: 128 * group]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    ("kind", "a_type"), [("f16", "bf16"), ("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("f8f6f4", "e2m3"), ("i8", "s8")]
)
def test_a_product_comes_out_right(kind: str, a_type: str, group: int) -> None:
    """A and B as laid out by hand, D as NumPy multiplies them; nothing is found in a right kernel."""
    text, images, a, b, _ = product(kind, a_type, group, d_type="s32" if kind == "i8" else "f32")
    run, d = multiplied(text, images, group)
    assert run.findings == []
    np.testing.assert_array_equal(d.view(np.int32) if kind == "i8" else d, (a @ b.T).astype(d.dtype))
    assert any("arithmetic" in line and kind in line for line in run.evidence)


def test_instructions_of_one_thread_add_up() -> None:
    text, images, a, b, _ = product("f16", "bf16", steps=3)
    run, d = multiplied(text, images)
    assert run.findings == []
    np.testing.assert_array_equal(d, 3.0 * (a @ b.T))


@pytest.mark.parametrize(("a_type", "held"), [("e2m1", 8), ("e2m3", 12)])
def test_nobody_reads_the_padding_behind_sixteen_narrow_elements(a_type: str, held: int) -> None:
    """Triton fills the 8 bytes of 16 e2m1 and leaves the other 8 of the chunk alone."""
    text, images, a, b, _ = product("f8f6f4", a_type)
    store = "st.shared.b32 [%r152], %r154;"

    def until(last: int) -> str:
        return text.replace(store, f"and.b32 %r156, %r152, 15; setp.lt.u32 %p6, %r156, {last}; @%p6 {store}")

    run, d = multiplied(until(held), images)
    assert run.findings == []
    np.testing.assert_array_equal(d, a @ b.T)
    assert multiplied(until(held - 4), images)[0].findings[0].code == "R507"


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("address", ["cvt.u64.u32 %rd12, %r161;", "cvt.u64.u32 %rd12, %r161; cvta.shared.u64 %rd12, %rd12;"])
def test_a_commit_without_a_state_space_takes_a_widened_shared_address_too(address: str, group: int) -> None:
    """As Triton 3.6 writes it: ptxas passes on the low 32 bits, which are the same of both."""
    text, images, a, b, _ = product("f16", "bf16", group)
    text = text.replace(f"@%p1 tcgen05.commit.cta_group::{group}", f"{address} @%p1 tcgen05.commit.cta_group::{group}")
    text = text.replace("arrive::one.shared::cluster", "arrive::one").replace(".b64 [%r161], 3;", ".b64 [%rd12], 3;")
    text = re.sub(r"(tcgen05.commit[^;\[]*)\[%r161\];", r"\1[%rd12];", text)
    run, d = multiplied(text, images, group)
    assert run.findings == []
    assert "arrive::one.shared::cluster" not in text
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize("group", [1, 2])
def test_a_load_is_done_where_its_registers_are_named(group: int) -> None:
    """The epilogues of CuTe DSL have no tcgen05.wait::ld: they convert and store, then others may have the columns."""
    text, images, a, b, _ = product("f16", "bf16", group)
    run, d = multiplied(re.sub("tcgen05.wait::ld.sync.aligned;", "", text), images, group)
    assert run.findings == []
    np.testing.assert_array_equal(d, a @ b.T)


AHEAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r180}, [%r196+200]; tcgen05.wait::ld.sync.aligned; add.u32 %r181, %r180, 1; mov.b32 %r182, %r181; setp.gt.u32 %p7, %r0, 999; "
DROPPED = {
    "a guard that is false": "@%p7 st.global.b32 [%rd1], %r182;",
    "selp takes the other": "selp.b32 %r183, %r182, 7, %p7; st.global.b32 [%rd1], %r183;",
    "selp takes the other, turned round": "not.pred %p5, %p7; selp.b32 %r183, 7, %r182, %p5; st.global.b32 [%rd1], %r183;",
    "a branch around it": "@!%p7 bra PAST; st.global.b32 [%rd1], %r182;\nPAST:",
    "a branch over nothing that is used": "setp.eq.u32 %p5, %r182, 5; @%p5 bra PAST; mov.u32 %r184, 0;\nPAST:",
    "overwritten": "mov.u32 %r182, 3; st.global.b32 [%rd1], %r182;",
    "never named again": "",
}
USED = {
    "stored": "st.global.b32 [%rd1], %r182;",
    "a guard that is true": "@!%p7 st.global.b32 [%rd1], %r182;",
    "selp takes it": "selp.b32 %r183, 7, %r182, %p7; st.global.b32 [%rd1], %r183;",
    "overwritten under a guard that is false": "@%p7 mov.u32 %r182, 3; st.global.b32 [%rd1], %r182;",
    "a branch decided by it": "setp.eq.u32 %p5, %r182, 5; @%p5 bra PAST; st.global.b32 [%rd1], %r0;\nPAST:",
    "a guard decided by it": "setp.eq.u32 %p5, %r182, 5; @%p5 st.global.b32 [%rd1], %r0;",
    "an address": "and.b32 %r183, %r182, 4; cvt.u64.u32 %rd12, %r183; add.u64 %rd12, %rd12, %rd1; st.global.b32 [%rd12], %r0;",
    "after a loop's next round": "mov.u32 %r184, 0; mov.b32 %r183, 0; setp.ne.u32 %p5, %r184, 0;\nROUND: @%p5 st.global.b32 [%rd1], %r183; mov.b32 %r183, %r182; add.u32 %r184, %r184, 1; setp.gt.u32 %p5, %r184, 0; "
    "setp.lt.u32 %p6, %r184, 2; @%p6 bra ROUND;",
}


@pytest.mark.parametrize(
    ("use", "codes"), [*((use, []) for use in DROPPED.values()), *((use, ["R507"]) for use in USED.values())], ids=[*DROPPED, *USED]
)
def test_a_value_that_nobody_wrote_is_told_where_it_has_an_effect(use: str, codes: list[str]) -> None:
    """Triton loads the product of an iteration that it then drops: of flash attention with a causal mask, for the first
    rows. What is stored lies after D, which the kernel overwrites.
    """
    text, images, a, b, _ = product("f16", "bf16")
    own = "add.u64 %rd1, %rd1, %rd6;\n"
    run, d = multiplied(text.replace(own, own + AHEAD + use.replace("[%rd1]", "[%rd1+16384]") + "\n"), images, spare=128)
    assert [f.code for f in run.findings] == codes
    assert all("tcgen05.ld" in f.message for f in run.findings)
    np.testing.assert_array_equal(d, a @ b.T)


# ---- wrong uses


RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
WRONG = {
    "alloc of 48": (r"\[%r199\], 256", "[%r199], 48", "X009"),
    "alloc of 16": (r"\[%r199\], 256", "[%r199], 16", "X009"),
    "no dealloc": (r"@!%p0 tcgen05.dealloc.*\n", "", "X009"),
    "dealloc of less": ("b32 %r197, 256", "b32 %r197, 128", "X009"),
    "columns not allocated": (r"\[%r197\], %rd3", "[%r197+240], %rd3", "X009"),
    "alloc after relinquish": (r"(?=    setp.eq.u32 %p1, %r0, 0;\n)", f"@!%p0 {RELINQUISH}; @!%p0 {ALLOC} [%r199], 32;\n", "X009"),
    "lanes of another warp": (r"shl.b32 %r196, %r196, 21", "shl.b32 %r196, %r196, 20", "X009"),
    "mixed groups": (r"@!%p0 tcgen05.dealloc.cta_group::1", "@!%p0 tcgen05.dealloc.cta_group::2", "X009|X015"),
    "nobody waits": (r"WAIT:.*?@!%p7 bra WAIT;", "", "X012"),
    "no commit": (r"@%p1 tcgen05.commit[^;]*;", "", "X006"),
    "no proxy fence": (r"fence.proxy.async.shared::cta;", "", "X003"),
    "no barrier": (r"bar.sync 0;(?=\n    tcgen05.fence::after)", "", "X008"),
    "no wait::ld": (r"tcgen05.wait::ld.sync.aligned;([\s\S]*?)(bar.sync 0;\s*@!%p0 tcgen05.dealloc[^;]*;)", r"\2\1", "X012"),
    "D is not there yet": (r"%r160, 0;", "%r160, 1;", "R507"),
    "every thread issues": (r"@%p1 (?=tcgen05.mma[^;]*%r160, 1)", "@!%p0 ", "X016"),
    "no such M": (r"mov.u32 %r160, (\d+)", lambda m: f"mov.u32 %r160, {int(m[1]) & ~(31 << 24) | 5 << 24}", "I601"),
    "no such type": (r"mov.u32 %r160, (\d+)", lambda m: f"mov.u32 %r160, {int(m[1]) | 7 << 7}", "I60[123]"),
    "past the window": (r"mov.b64 %rd3, (\d+)", lambda m: f"mov.b64 %rd3, {int(m[1]) | 0x3FFF}", "A107"),
    "barrier that is none": (r"cluster.b64 \[%r161\]", "cluster.b64 [%r161+8]", "X010|X001"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_is_found_at_its_line(name: str) -> None:
    """One change to a right kernel: the code, at a line that says tcgen05 or is where the kernel waits."""
    old, new, codes = WRONG[name]
    text, images, *_ = product("f16", "bf16", steps=2)
    wrong, count = re.subn(old, new, text, flags=re.DOTALL if "WAIT" in old else 0)
    assert count
    run, _ = multiplied(wrong, images)
    found = [f for f in run.findings if re.fullmatch(codes, f.code)]
    assert found, run.findings
    line = wrong.splitlines()[found[0].line - 1]
    assert "tcgen05" in line or found[0].code in ("X006", "X008", "X012")


MMA = "@%p1 tcgen05.mma.cta_group::1.kind::{} [%r197{}], {}, %rd4, %r160, {};"
COLLECT = MMA.replace(".kind::{}", ".kind::{}.collector::a::{}")


@pytest.mark.parametrize(
    ("before", "use", "words"),
    [
        (["fill %rd3"], "lastuse", ""),
        (["fill %rd3", "use %rd3"], "use", ""),
        ([], "use", "holds no matrix"),
        (["fill %rd3", "lastuse %rd3"], "use", "holds no matrix"),
        (["fill %rd3", "discard %rd3"], "lastuse", "holds no matrix"),
        (["fill %rd4"], "lastuse", "which is another one"),
    ],
)
def test_a_collector_buffer_is_used_with_the_matrix_that_filled_it(before: list[str], use: str, words: str) -> None:
    """Products of their own columns come before; the last product is the one that is stored."""
    text, images, a, b, _ = product("f16", "bf16")
    once = MMA.format("f16", "", "%rd3", "0")
    assert once in text
    made = [COLLECT.format("f16", how, "+64", operand, "0") for how, operand in map(str.split, before)]
    run, d = multiplied(text.replace(once, "\n".join([*made, COLLECT.format("f16", use, "", "%rd3", "0")])), images)
    told = [f for f in run.remarks if "collector buffer" in f.message]
    assert [(f.code, f.severity) for f in told] == [("X009", "luck")] * bool(words)
    assert all(words in f.message for f in told)
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize(("kind", "dtype", "codes"), [("f16", "bf16", ["R508"]), ("tf32", "tf32", [])])
def test_sums_are_no_numbers_of_sixteen_bits(kind: str, dtype: str, codes: list[str]) -> None:
    """A product leaves a number of 32 bits a column: as A of bf16 it is another thing, as A of tf32 it is a matrix."""
    text, images, a, b, _ = product(kind, dtype)
    once = MMA.format(kind, "", "%rd3", "0")
    assert once in text
    run, d = multiplied(text.replace(once, f"{once} {MMA.format(kind, '+64', '[%r197]', '0')}"), images)
    assert [f.code for f in run.findings] == codes
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize("loads", ["rows in lanes 0 to 63", "16 rows in each warp"])
def test_rows_of_m_64_that_are_looked_for_in_other_lanes_are_explained(loads: str) -> None:
    """D of M = 64 has 16 rows in the lanes of each warp. A kernel may store those of all lanes of two warps by mistake."""
    text, images, *_ = product("f16", "bf16")
    word = InstrDescriptor(kind="f16", m=128, n=32, a_type="bf16", b_type="bf16", d_type="f32").word
    m64 = InstrDescriptor(kind="f16", m=64, n=32, a_type="bf16", b_type="bf16", d_type="f32").word
    assert f"mov.u32 %r160, {word};" in text
    limit, of = (64, "%r0") if loads == "rows in lanes 0 to 63" else (16, "%r156")
    text = text.replace(f"mov.u32 %r160, {word};", f"mov.u32 %r160, {m64};")
    text = text.replace(
        "tcgen05.wait::ld.sync.aligned;", f"tcgen05.wait::ld.sync.aligned; and.b32 %r156, %r0, 31; setp.lt.u32 %p6, {of}, {limit};"
    )
    run, _ = multiplied(text.replace("    st.global", "    @%p6 st.global"), images)
    if limit == 16:
        assert run.findings == [], run.text()
    else:
        (found,) = run.findings
        assert (found.code, "lanes 16 to 31, 48 to 63" in found.what) == ("R507", True), run.text()
        assert found.why.startswith("D of M = 64 is in lanes 0 to 15, 32 to 47, 64 to 79 and 96 to 111")
        assert found.repair == "let warp w load rows 16w to 16w + 15 of D from lanes 32w to 32w + 15"


@pytest.mark.parametrize("commits", ["", "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r161];"])
def test_a_lost_product_is_another_tiles_where_it_was_committed(commits: str) -> None:
    text, images, *_ = product("f16", "bf16", steps=2)
    wrong = re.sub(r"(%r160, 0;)(.*?)%r160, 1;", rf"\1 {commits}\2%r160, 0;", text, flags=re.DOTALL)
    run, _ = multiplied(wrong, images)
    lost = next(f for f in run.findings if f.code == "X017")
    assert ("wait until the readers of the earlier product have read it" in lost.repair) == bool(commits)
    assert "all but the first" in lost.repair


@pytest.mark.parametrize("by", ["iterations", "lanes", "warps"])
def test_a_product_that_another_thread_loses_is_of_no_iteration_before(by: str) -> None:
    """A loop loses its own product. Two warps, or two lanes, that execute one instruction lose each other's."""
    text, images, *_ = product("f16", "bf16", steps=2)
    first = "setp.eq.u32 %p1, %r0, 0;"
    assert first in text
    if by == "warps":
        wrong = text.replace(first, "{ .reg .b32 %own; and.b32 %own, %r0, 95; setp.eq.u32 %p1, %own, 0; }")
    elif by == "lanes":
        wrong = text.replace(first, "setp.lt.u32 %p1, %r0, 2;")
    else:
        wrong = re.sub(
            r"(@%p1 tcgen05.mma[^;]*%r160, 0;)",
            r"mov.u32 %r198, 2;\nAGAIN: \1 sub.u32 %r198, %r198, 1; setp.ne.u32 %p5, %r198, 0; @%p5 bra AGAIN;",
            text,
        )
    run, _ = multiplied(wrong, images)
    lost = next(f for f in run.findings if f.code == "X017")
    assert ("in the iteration before" in str(lost)) == (by == "iterations"), run.text()
    assert ("the product of lane 0 of warp 0 (" in str(lost)) == (by == "lanes"), run.text()
    assert ("elect.sync" in lost.repair) == (by == "lanes")


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(
    ("address", "apart", "line"),
    [
        ("add.u32 %r185, %r197, {};", (16, 32), "add.u32"),
        ("mov.u32 %r185, 1; shl.b32 %r185, %r185, {}; add.u32 %r185, %r185, %r197;", (4, 5), "shl.b32"),
        ("mov.u32 %r185, 3; mad.lo.u32 %r185, %r185, {}, %r197;", (8, 32), ""),
    ],
)
def test_accumulators_that_overlap_are_named_and_the_fix_is_tried(address: str, apart: tuple[int, int], line: str, is_late: bool) -> None:
    """The second product of 32 columns begins within the first one: more columns apart help, and no wait does. If it is
    late, its columns may be written while the first one is read. Else one load reads columns of both.
    """
    text, images, a, b, _ = product("f16", "bf16")
    first, read = re.search(r"@%p1 tcgen05.mma[^;]*%r160, 0;", text), "tcgen05.wait::ld.sync.aligned;"
    assert first
    assert read in text
    begin = 16 if line else 24
    for number, is_wrong in zip(apart, (True, False), strict=True):
        second = f"{address.format(number)} {first[0].replace('[%r197]', '[%r185]')}"
        if is_late:  # while the first one is read: a commit and a wait come before the end
            commit = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r161];"
            again = f"{read} bar.sync 0; {commit} LATE: mbarrier.try_wait.parity.shared.b64 %p7, [%r161], 1; @!%p7 bra LATE;"
            at = "and.b32 %r196, %r198, 3;"
            moved = text.replace(at, f"{second} {at}").replace(read, again)
        else:
            moved = text.replace(first[0], f"{first[0]} {second}")
        gpu = Gpu("sm_100a")
        out = gpu.array(np.zeros((128, 32), np.float32))
        run = gpu.launch(moved, "k", block=128, args=(gpu.array(images), out), progress=False, try_fixes=True)
        found = run.findings
        assert {f.code for f in found} == ({"X012" if is_late else "X017"} if is_wrong else set()), run.text()
        for f in found:
            assert f"two accumulators overlap: columns 0 to 31 and {begin} to {begin + 31}" in f.why
            if line:
                changed = next(n for n, one in enumerate(run.ptx.splitlines(), 1) if line in one and "%r185" in one)
                assert (f.tried, f.trial) == (True, f"accumulators 32 columns apart instead of 16 in line {changed}")
            else:
                assert f"accumulators 32 columns apart (now {begin}), as many as each has" in f.repair
        if not is_wrong:
            np.testing.assert_array_equal(out.numpy(), a @ b.T)


@pytest.mark.parametrize(
    ("loads", "is_padded", "is_wrong"),
    [
        ([(1, 0, 32)], False, True),
        ([(1, 0, 16), (17, 16, 16)], False, False),
        ([(1, 0, 32), (40, 32, 16)], False, False),
        ([(1, 0, 32), (40, 16, 16)], False, False),
        ([(1, 0, 32)], True, False),
    ],
    ids=["the first product", "two parts", "all of both", "the second one, too", "padding of zeros"],
)
@pytest.mark.parametrize("grid", [1, 2])
def test_a_load_that_reads_two_products_that_overlap_as_one_is_wrong(
    loads: list[tuple[int, int, int]], is_padded: bool, is_wrong: bool, grid: int
) -> None:
    """Two products of 32 columns, 16 apart; the (register, column, count) of each load. The columns of both may be padding
    of the first product: a remark, if loads do not show that its reader wants all of it.
    """
    text, images, *_ = product("f16", "bf16")
    first = re.search(r"@%p1 tcgen05.mma[^;]*%r160, 0;", text)
    only = re.search(r"tcgen05.ld.sync[^;]*;", text)
    assert first
    assert only
    each = [f"tcgen05.ld.sync.aligned.32x32b.x{n}.b32 {listed(r, n)}, [%r196+{column}];" for r, column, n in loads]
    text = text.replace(first[0], f"{first[0]} {first[0].replace('[%r197]', '[%r197+16]')}").replace(only[0], " ".join(each))
    if is_padded:
        images[:, 0x2200:0x2400] = 0  # rows 16 to 31 of B
    gpu = Gpu("sm_100a")
    run = gpu.launch(text, "k", grid=grid, block=128, args=(gpu.array(images), gpu.array(np.zeros((128 * grid, 32), np.float32))))
    told = [f.code for f in (run.findings if is_wrong else run.remarks)]
    assert (run.ok, "X017" in told) == (not is_wrong, True), run.text()
    assert not is_wrong or "column 15 of the first product, and nothing reads columns 32 to 47 of the second one" in run.findings[0].why


@pytest.mark.parametrize(("last", "lost"), [("0", []), ("%r161", ["X017"])], ids=["behind a flag", "behind both"])
def test_a_product_whose_reader_a_flag_skips_is_discarded(last: str, lost: list[str]) -> None:
    """No thread reads the first product if a branch that stands between the two skips its tcgen05.ld. A reader behind
    both makes no difference.
    """
    text, images, *_ = product("f16", "bf16", steps=2)
    reads = "setp.ne.u32 %p5, %r161, 0; @%p5 bra OVER; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r185}, [%r197]; OVER:"
    first, second = re.search(r"%r160, 0;", text), re.search(r"(@%p1 tcgen05.mma[^;]*)%r160, 1;", text)
    assert first
    assert second
    between = reads if last == "0" else ""
    wrong = text[: first.end()] + between + text[first.end() : second.start()] + f"{second[1]}%r160, 0;" + text[second.end() :]
    run, _ = multiplied(wrong, images)
    assert [f.code for f in run.findings if f.code == "X017"] == lost, run.text()


@pytest.mark.parametrize(
    ("number", "begins", "codes"), [("%r0", 0, ["X017"]), ("%r0", 1, []), ("7", 0, [])], ids=["bias lost", "bias added", "one number"]
)
def test_what_threads_put_into_an_accumulator_is_lost_where_a_new_sum_begins(number: str, begins: int, codes: list[str]) -> None:
    """A bias in tensor memory; one number everywhere, which a new sum overwrites, was no bias."""
    text, images, *_ = product("f16", "bf16")
    put = "".join(f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r185+{n}], {{%r184}};" for n in range(32))
    bias = f"shl.b32 %r185, %r0, 16; and.b32 %r185, %r185, 0x600000; add.u32 %r185, %r185, %r197; mov.b32 %r184, {number}; {put} tcgen05.wait::st.sync.aligned;"
    meet = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
    known = "ld.shared.b32 %r197, [%r199];"
    assert known in text
    wrong = text.replace(known, f"{known} {bias} {meet}").replace("%r160, 0;", f"%r160, {begins};")
    run, _ = multiplied(wrong, images)
    assert run.ok
    assert [f.code for f in run.remarks if f.code == "X017"] == codes
    # of numbers that several instructions put there, those of the first column are named
    apart = put.replace(";tcgen05.st", ";\ntcgen05.st")
    run, _ = multiplied(wrong.replace(put, apart), images)
    first = next((n for n, line in enumerate(run.ptx.splitlines(), 1) if "tcgen05.st.sync" in line), 0)
    named = [re.findall(r"tcgen05\.st\.sync\S+ +ptx:(\d+)", " ".join(str(f).split())) for f in run.remarks if f.code == "X017"]
    assert named == [[f"{first}"]] * len(codes)


def test_a_pair_needs_a_peer() -> None:
    text, images, *_ = product("f16", "bf16", 2)
    run, _ = multiplied(text, images[:1])
    assert [f.code for f in run.findings][:1] == ["X015"]
    assert "has no peer" in run.findings[0].message


def test_a_product_of_a_pair_that_both_ctas_issue_is_named() -> None:
    text, images, *_ = product("f16", "bf16", 2)
    alone = "and.pred %p1, %p1, %p4;"
    assert alone in text
    found = [f for f in multiplied(text.replace(alone, ""), images, 2)[0].findings if f.code == "X012"]
    assert "both CTAs of a pair issue tcgen05.mma.cta_group::2" in found[0].message
    assert found[0].repair.startswith("let one CTA of the pair alone execute")


# ---- what the PTX ISA forbids, and production kernels do


def with_epilogue(text: str, lane: str) -> str:
    """The product with another lane in the address of tcgen05.ld: `lane` makes it in %r196, of the warp's number in
    %r198.
    """
    old = "and.b32 %r196, %r198, 3; shl.b32 %r196, %r196, 21; add.u32 %r196, %r196, %r197;"
    assert old in text
    return text.replace(old, f"{lane} add.u32 %r196, %r196, %r197;")


def test_every_warp_may_give_lane_0() -> None:
    """DeepGEMM's epilogues: hardware ignores the warp's bits of the lane."""
    text, images, a, b, _ = product("f16", "bf16")
    run, d = multiplied(with_epilogue(text, "mov.u32 %r196, 0;"), images)
    assert (run.findings, [r.code for r in run.remarks if r.code == "X009"]) == ([], [])
    np.testing.assert_array_equal(d, a @ b.T)


def test_a_lane_past_the_last_one_that_names_the_own_window_is_a_remark() -> None:
    """32 times the number of the warp, where it should be taken modulo 4."""
    text, images, a, b, _ = product("f16", "bf16")
    run, d = multiplied(with_epilogue(text, "add.u32 %r196, %r198, 4; shl.b32 %r196, %r196, 21;"), images)
    assert run.findings == []
    (remark,) = [r for r in run.remarks if r.code == "X009"]
    assert "warp 0 of CTA 0 gives lane 128 in its tensor memory address (0x800000), but accesses lane 0" in remark.message
    assert "bits 4:0" in remark.message
    assert not run.is_strictly_ok
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize("by", [1, 2, 3])
def test_a_lane_of_another_window_is_a_finding(by: int) -> None:
    """Epilogue warps that name the rows of another warp get those of their own window."""
    text, images, *_ = product("f16", "bf16")
    run, _ = multiplied(with_epilogue(text, f"add.u32 %r196, %r198, {by}; and.b32 %r196, %r196, 3; shl.b32 %r196, %r196, 21;"), images)
    (found,) = run.findings
    assert (found.code, str(found.severity), run.launch.status) == ("X009", "wrong", 0)
    assert f"gives lane {32 * by} in its tensor memory address" in found.message
    assert f"let a warp whose number is {by} modulo 4 access lane {32 * by}" in found.repair
    assert "tcgen05.ld" in run.ptx.splitlines()[found.line - 1]


@pytest.mark.parametrize("lane", [1, 16, 31])
def test_a_shape_of_32_lanes_begins_with_its_window(lane: int) -> None:
    text, images, *_ = product("f16", "bf16")
    run, _ = multiplied(with_epilogue(text, f"mov.u32 %r196, {lane << 16};"), images)
    assert run.findings[0].code == "X009"
    assert ".32x32b begins at lane 0 of the 32 lanes of a warp" in run.findings[0].message


GENERIC = {
    "tcgen05.alloc": (r"(tcgen05\.alloc[^;]*)\[%r199\]", r"cvt.u64.u32 %rd20, %r199; cvta.shared.u64 %rd20, %rd20; @!%p0 \1[%rd20]"),
    "tcgen05.alloc without a space": (r"tcgen05\.alloc([^;]*)\.shared::cta\.b32 \[%r199\]", r"cvt.u64.u32 %rd20, %r199; @!%p0 tcgen05.alloc\1.b32 [%rd20]"),
    "mbarrier.init": (r"@%p1 (mbarrier\.init[^;]*)\[%r161\]", r"cvt.u64.u32 %rd20, %r161; cvta.shared.u64 %rd20, %rd20; @%p1 \1[%rd20]"),
    "mbarrier.init without a space": (r"@%p1 mbarrier\.init\.shared::cta\.b64 \[%r161\]", r"cvt.u64.u32 %rd20, %r161; @%p1 mbarrier.init.b64 [%rd20]"),
    "mbarrier.try_wait": (r"(mbarrier\.try_wait[^;]*)\[%r161\]", r"cvt.u64.u32 %rd20, %r161; cvta.shared.u64 %rd20, %rd20; \1[%rd20]"),
    "tcgen05.commit": (r"(@%p1 tcgen05\.commit[^;]*)\[%r161\]", r"cvt.u64.u32 %rd20, %r161; cvta.shared.u64 %rd20, %rd20; \1[%rd20]"),
    "ld.shared": (r"ld\.shared\.b32 %r197, \[%r199\]", "cvt.u64.u32 %rd20, %r199; cvta.shared.u64 %rd20, %rd20; ld.shared.b32 %r197, [%rd20]"),
    "st.shared": (r"st\.shared\.b32 \[%r152\]", "cvt.u64.u32 %rd20, %r152; cvta.shared.u64 %rd20, %rd20; st.shared.b32 [%rd20]"),
    "cvta twice": (r"ld\.shared\.b32 %r197, \[%r199\]", "cvt.u64.u32 %rd20, %r199; cvta.shared.u64 %rd20, %rd20; cvta.shared.u64 %rd20, %rd20; "
                   "cvta.to.shared.u64 %rd20, %rd20; cvta.to.shared.u64 %rd20, %rd20; ld.shared.b32 %r197, [%rd20]"),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERIC)
def test_a_generic_pointer_serves_where_shared_is_meant(name: str) -> None:
    """ThunderKittens passes one to tcgen05.alloc: the low 32 bits of a generic shared address are the .shared one."""
    text, images, a, b, _ = product("f16", "bf16")
    changed, count = re.subn(*GENERIC[name], text)
    assert count
    run, d = multiplied(changed, images)
    assert run.findings == []
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize("name", [name for name in GENERIC if "cvta.shared.u64" in GENERIC[name][1] and name != "cvta twice"])
def test_a_pointer_to_global_memory_does_not(name: str) -> None:
    text, images, *_ = product("f16", "bf16")
    old, new = GENERIC[name]
    changed = re.sub(old, re.sub(r"cvt\.u64\.u32 [^;]*; cvta[^;]*;", "ld.param.b64 %rd20, [out];", new), text)
    run, _ = multiplied(changed, images)
    assert run.findings[0].code == "X001"
    assert "is used as a .shared address" in run.findings[0].message


@pytest.mark.parametrize(("kind", "dtype", "bit"), [("f16", "bf16", 29), ("f16", "bf16", 6), ("f8f6f4", "e4m3", 23)])
def test_reserved_bits_of_the_instruction_descriptor_are_a_remark(kind: str, dtype: str, bit: int) -> None:
    text, images, a, b, i = product(kind, dtype)
    run, d = multiplied(text.replace(f"mov.u32 %r160, {i.word};", f"mov.u32 %r160, {i.word | 1 << bit};"), images)
    assert run.findings == []
    assert any(r.code == "D305" and f"reserved bit {bit} " in r.message for r in run.remarks)
    assert any("Do reserved bits of an instruction descriptor have an effect?" in line for line in run.evidence)
    np.testing.assert_array_equal(d, a @ b.T)


SCALES = 0x8281807F  # 1, 2, 4, 8 in the four bytes of a cell


def scaled_product(ids: tuple[int, int], bits: tuple[int, int], *, further: int = 0):
    """(PTX, images, A B): kind mxf8f6f4 with the scale ids `ids` in the instruction descriptor and `bits` in the
    addresses.
    """
    text, images, a, b, plain = product("f8f6f4", "e4m3")
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=32, a_type="e4m3", b_type="e4m3", a_sf_id=ids[0], b_sf_id=ids[1])
    fill = f"""
    and.b32 %r196, %r198, 3; shl.b32 %r196, %r196, 21; add.u32 %r196, %r196, %r197; mov.u32 %r180, {SCALES};
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r196+128], {{{", ".join(["%r180"] * 8)}}};
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    add.u32 %r181, %r197, {bits[0] << 30 | 128 + further}; add.u32 %r182, %r197, {bits[1] << 30 | 132 + further};
"""
    text = text.replace("    setp.eq.u32 %p4, %r170, 0;", fill + "    setp.eq.u32 %p4, %r170, 0;")
    text = text.replace(f"%r160, {plain.word};", f"%r160, {i.word};").replace("kind::f8f6f4", "kind::mxf8f6f4.block_scale.scale_vec::1X")
    return text.replace("%rd4, %r160, 0;", "%rd4, %r160, [%r181], [%r182], 0;"), images, a @ b.T


@pytest.mark.parametrize("ids", [(0, 0), (1, 3), (2, 0)])
@pytest.mark.parametrize("named", [False, True])
def test_the_address_of_scale_factors_may_have_the_scale_id(ids: tuple[int, int], named: bool) -> None:
    """Bits 31:30, where CUTLASS and CuTe DSL keep it; DeepGEMM and Triton have it in the instruction descriptor alone."""
    text, images, wanted = scaled_product(ids, ids if named else (0, 0))
    run, d = multiplied(text, images)
    assert (run.findings, [r.code for r in run.remarks if r.code == "S702"]) == ([], [])
    np.testing.assert_array_equal(d, wanted * 2.0 ** sum(ids))


def test_another_scale_id_in_the_address_is_a_remark_and_the_descriptor_counts() -> None:
    text, images, wanted = scaled_product((1, 3), (1, 2))
    run, d = multiplied(text, images)
    assert run.findings == []
    (remark,) = [r for r in run.remarks if r.code == "S702"]
    assert "two scale ids for B: 2 in bits 31:30 of the address 0x80000084, 3 in the instruction descriptor" in remark.message
    np.testing.assert_array_equal(d, wanted * 2.0**4)


def test_scale_factors_that_nobody_wrote_are_found() -> None:
    text, images, _ = scaled_product((1, 1), (1, 1), further=16)
    assert [f.code for f in multiplied(text, images)[0].findings] == ["R507"]


@pytest.mark.parametrize(("store", "told"), [(f"st.shared.b32 [%r150+16400], {SCALES}; bar.sync 0;", []), ("", ["R507"])])
def test_one_warp_whose_scale_factors_are_uninitialised_is_found(store: str, told: list[str]) -> None:
    """Not that the copies of a factor differ. Warp 1 takes them from a word of shared memory."""
    text, images, _ = scaled_product((1, 1), (1, 1))
    given = f"mov.u32 %r180, {SCALES};"
    assert all(part in text for part in (given, "smem[16400]"))
    text = text.replace(given, f"{given} {store} setp.eq.u32 %p5, %r198, 1; @%p5 ld.shared.b32 %r180, [%r150+16400];")
    run, _ = multiplied(text.replace("smem[16400]", "smem[16404]"), images)
    assert [f.code for f in run.findings] == told, run.text()


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    ("kind", "dtype", "largest", "beside", "told"),
    [
        ("i8", "s8", 126, 0, []),
        ("f8f6f4", "e2m1", -6, 0, []),
        ("i8", "s8", 126, 1, ["R507"]),
        ("f8f6f4", "e2m1", -6, 1, ["R507"]),
        ("f8f6f4", "e4m3", 448, 0, ["R507"]),
    ],
)
def test_numbers_that_nobody_wrote_count_for_nothing_beside_zeros(group, kind, dtype, largest, beside, told) -> None:
    """B has the upper half of K written in no row; A has zeros there, but for one element."""
    text, images, a, b, i = product(kind, dtype, group, d_type="s32" if kind == "i8" else "f32")
    a[:, i.k // 2 :], b[:, i.k // 2 :] = 0, largest
    a[5, -1] = beside
    for cta in range(group):
        shared, half = SharedMemory("sm_100a"), i.n // group
        lay_out(shared, a[cta * 128 : cta * 128 + 128], dtype, "K", "32B", 0x400, packing=KINDS[kind].packing)
        lay_out(shared, b[cta * half : (cta + 1) * half], dtype, "K", "32B", 0x2400, packing=KINDS[kind].packing)
        images[cta] = shared.bytes[0x400 - shared.begin : 0x4400 - shared.begin]
    word = {"s8": 0x7E7E7E7E, "e2m1": 0xFFFFFFFF, "e4m3": 0x7E7E7E7E}[dtype]
    store = "st.shared.b32 [%r152], %r154;"
    assert store in text
    run, _ = multiplied(text.replace(store, f"setp.ne.b32 %p5, %r154, {word}; @%p5 {store}"), images, group)
    assert [f.code for f in run.findings] == told, run.text()


def allocating(body: str) -> str:
    """One warp allocates: `body` with the slot in %r1."""
    return kernel(f"mov.u32 %r1, smem;\n{body}", shared=64, arch="sm_100a")


def taking(columns: int, to: str, at: int = 0) -> str:
    return f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+{at}], {columns}; ld.shared.b32 {to}, [%r1+{at}];\n"


def giving(at: str, columns: int) -> str:
    return f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {at}, {columns};\n"


def test_one_deallocation_may_give_back_two_allocations() -> None:
    """As the allocator in the code of ptxas has it: it asks whether one begins there, and whether all the columns are
    taken.
    """
    run = Gpu("sm_100a").launch(allocating(taking(128, "%r2") + taking(128, "%r3", 4) + giving("%r2", 256)), "k", block=32)
    assert (run.findings, run.remarks) == ([], [])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (taking(128, "%r2") + giving("%r2", 64), "leaves 64 columns of their allocation"),
        (taking(128, "%r2") + "add.u32 %r2, %r2, 64;" + giving("%r2", 64), "no allocation begins there"),
        (taking(128, "%r2") + giving("%r2", 256), "not all of them are allocated"),
        (taking(128, "%r2") + giving("%r2", 128) + giving("%r2", 256), "not all of them are allocated"),
        (taking(128, "%r2") + giving("%r2", 128) + taking(64, "%r3", 4) + giving("%r2", 128), "not all of them are allocated"),
    ],
)
def test_a_deallocation_of_what_was_not_taken_so_is_found(body: str, says: str) -> None:
    run = Gpu("sm_100a").launch(allocating(body), "k", block=32)
    assert [f.code for f in run.findings] == ["X009"]
    assert says in run.findings[0].message


def test_columns_that_are_given_back_again_are_a_remark() -> None:
    """Each of the epilogue's four warps gives all columns back in CUTLASS 7107b05 examples/112_blackwell_ssd."""
    run = Gpu("sm_100a").launch(allocating(taking(128, "%r2") + giving("%r2", 128) + giving("%r2", 128)), "k", block=32)
    assert (run.findings, [r.code for r in run.remarks]) == ([], ["X009"])
    assert "are deallocated twice" in run.remarks[0].message
    again = taking(128, "%r2") + giving("%r2", 128) + taking(128, "%r3", 4) + giving("%r3", 128)
    assert Gpu("sm_100a").launch(allocating(again), "k", block=32).remarks == []


def test_an_allocation_that_is_larger_than_the_last_is_a_remark() -> None:
    run = Gpu("sm_100a").launch(allocating(taking(32, "%r2") + taking(64, "%r3", 4) + giving("%r2", 32) + giving("%r3", 64)), "k", block=32)
    assert run.findings == []
    assert [r.code for r in run.remarks] == ["X009"]
    assert "64 columns of tensor memory are allocated after 32" in run.remarks[0].message


# ---- columns that others have


def waiting(second: str) -> str:
    """Warp 0 takes all columns, and warp 1 wants some of them."""
    return kernel(f"""
    ld.param.b64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, smem; shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p0, %r2, 0;
    @!%p0 bra OTHER;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;
    bar.sync 0;
    ld.shared.b32 %r3, [%r1];
    {second}
    bra END;
OTHER:
    bar.sync 0;
    add.u32 %r1, %r1, 4;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;
    ld.shared.b32 %r3, [%r1];
    st.global.b32 [%rd0], %r3;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;
END:
""", ".b64 out", shared=64, arch="sm_100a")  # fmt: skip


def test_an_allocation_waits_for_columns() -> None:
    gpu = Gpu("sm_100a")
    out = gpu.array(np.full(1, 7, np.uint32))
    given_back = gpu.launch(waiting("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;"), "k", block=64, args=(out,))
    assert (given_back.findings, out.numpy().tolist()) == ([], [0])
    kept = gpu.launch(waiting(""), "k", block=64, args=(out,))
    hang = next(f for f in kept.findings if f.code == "X006")
    assert "64 columns of tensor memory in a row; allocated are 512 at column 0" in hang.message


@pytest.mark.parametrize("ordered", [True, False], ids=["a barrier", "no barrier"])
def test_columns_that_another_warp_has_given_back_name_the_deallocation(ordered: bool) -> None:
    """Warp 1 reads late what warp 0 allocated."""
    late, before = ("", "bar.sync 0;") if ordered else ("nanosleep.u32 1000; nanosleep.u32 1000;", "")
    text = kernel(f"""
    mov.u32 %r0, %tid.x; mov.u32 %r1, smem; shr.u32 %r2, %r0, 5; setp.eq.u32 %p0, %r2, 0;
    @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    bar.sync 0;
    ld.shared.b32 %r3, [%r1]; shl.b32 %r4, %r2, 21; add.u32 %r4, %r4, %r3; mov.u32 %r6, 1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {{%r6}};
    tcgen05.wait::st.sync.aligned;
    @%p0 bra GIVE;
    {late}
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    {before}
    bra END;
GIVE:
    {before}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
END:
""", shared=64, arch="sm_100a")  # fmt: skip
    found = {f.code: f for f in Gpu("sm_100a").launch(text, "k", block=64).findings}
    if ordered:
        assert found == {}
        return
    line = next(n for n, words in enumerate(text.splitlines(), 1) if "tcgen05.dealloc" in words)
    assert f"warp 0 of CTA 0 deallocated it at line {line} (tcgen05.dealloc" in found["X009"].message
    assert f"a barrier before line {line}" in found["X009"].repair


@pytest.mark.parametrize(
    ("address", "severity"),
    [("shl.b32 %r4, %r0, 16;", "note"), ("shl.b32 %r4, %r0, 0;", "trap"), ("shr.u32 %r4, %r0, 5; shl.b32 %r4, %r4, 21;", None)],
    ids=["each thread its lane", "each thread its column", "one a warp"],
)
def test_one_address_a_warp_counts_where_threads_add_their_own_lanes(address: str, severity: str | None) -> None:
    text = kernel(f"""
    ld.param.b64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, smem; setp.lt.u32 %p0, %r0, 32; {address}
    @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    bar.sync 0;
    ld.shared.b32 %r3, [%r1]; add.u32 %r4, %r4, %r3; add.u32 %r6, %r0, 100;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {{%r6}};
    tcgen05.wait::st.sync.aligned;
    shr.u32 %r7, %r0, 5; shl.b32 %r7, %r7, 21; add.u32 %r7, %r7, %r3;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r7];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0; st.global.b32 [%rd1], %r5;
    bar.sync 0;
    @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
""", ".b64 out", shared=64, arch="sm_100a")  # fmt: skip
    gpu = Gpu("sm_100a")
    out = gpu.array(np.zeros(128, np.uint32))
    run = gpu.launch(text, "k", block=128, args=(out,))
    assert [(f.code, f.severity.value) for f in (*run.findings, *run.remarks)] == ([("X015", severity)] if severity else [])
    if severity != "trap":
        assert out.numpy().tolist() == list(range(100, 228))


# ---- work that has not begun

ASKS = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{0}.b128 [%r1], [%r2];"
TO_ALL = ".multicast::cluster::all"


def taking_over(
    *, again: str = "@%p2 bra ASK;", counts: str = "add.u32 %r6, %r6, %r5; add.u32 %r6, %r6, 1;", ctas: int = 1, generic: bool = False
) -> str:
    """A kernel whose clusters do their own work, and then that of those that they take over: out[ctaid, tid] += 32
    ctaid + tid + 1.

    `began` counts the CTAs that began, by the rank in their clusters; every CTA of a cluster gets the response that its
    first one asked for.
    """
    ask = ASKS.format(TO_ALL if ctas > 1 else "")
    if generic:
        ask = "cvta.shared.u64 %rd4, %rd5; cvta.shared.u64 %rd6, %rd7; " + ask.replace(".shared::cta", "").replace("%r1", "%rd4").replace(
            "%r2", "%rd6"
        )
    body = f"""
    ld.param.b64 %rd0, [out]; ld.param.b64 %rd1, [began]; mov.u32 %r0, %tid.x; mov.u32 %r1, smem; add.u32 %r2, %r1, 16; {LEADER}
    cvt.u64.u32 %rd5, %r1; cvt.u64.u32 %rd7, %r2; mov.u32 %r4, %ctaid.x; mov.u32 %r7, %cluster_ctarank; mov.u32 %r8, 0;
    setp.eq.and.u32 %p3, %r7, 0, %p1;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster;
    @%p1 red.global.add.u32 [%rd1], 1;
    barrier.cluster.arrive; barrier.cluster.wait;
ASK:
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
    barrier.cluster.arrive; barrier.cluster.wait;
    @!%p3 bra ASKED;
    fence.proxy.async.shared::cta; {ask}
ASKED:
    mad.lo.u32 %r5, %r4, 32, %r0; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %rd0, %rd2;
    ld.global.u32 %r6, [%rd2]; {counts} st.global.u32 [%rd2], %r6;
WAITS:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], %r8;
    @!%p2 bra WAITS;
    xor.b32 %r8, %r8, 1;
    {{ .reg .b128 %answer; ld.shared.b128 %answer, [%r1];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %answer;
    @%p2 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %answer; }}
    add.u32 %r4, %r4, %r7;
    barrier.cluster.arrive; barrier.cluster.wait;
    {again}
"""
    return kernel(body, ".b64 out", ".b64 began", shared=64, arch="sm_100a")


def taken_over(ptx: str, grid: int, size: int = 1, **given: object) -> tuple[smemsim.Run, list[int], int]:
    """(the run, how often the work of each CTA was done, how many CTAs began)."""
    gpu = Gpu("sm_100a")
    out, began = gpu.array(np.zeros((grid, 32), np.uint32)), gpu.array(np.zeros(1, np.uint32))
    run = gpu.launch(ptx, "k", grid=grid, block=32, cluster=size, args=(out, began), progress=False, **given)  # type: ignore[arg-type]
    done, rest = np.divmod(out.numpy(), np.arange(1, 32 * grid + 1).reshape(grid, 32))
    assert not rest.any()
    assert (done == done[:, :1]).all()
    return run, done[:, 0].tolist(), int(began.numpy()[0])


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("add.u32 %r1, %r1, 48;", ""),
        ("add.u32 %r1, %r1, 65536;", "X010"),
        ("sub.u32 %r1, %r1, 16;", "X010"),
        ("add.u32 %r1, %r1, 8;", "X002"),
    ],
)
def test_an_answer_lies_in_the_window_at_a_multiple_of_16_bytes(where: str, code: str) -> None:
    ask = ASKS.format("")
    run = taken_over(
        taking_over().replace(ask, f"{where} {ask}").replace("ld.shared.b128 %answer, [%r1]", "mov.b128 %answer, {%rd5, %rd5}"), 1
    )[0]
    assert [f.code for f in run.findings] == [code] * bool(code), run.text()


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize(("cancel", "begin"), [("never", 12), ("resident", 12), ("one", 6), ("always", 1)])
def test_work_is_done_once_whoever_does_it(cancel: str, begin: int, ctas: int) -> None:
    run, done, began = taken_over(taking_over(ctas=ctas), 12 * ctas, ctas, cancel=cancel)
    assert run.findings == []
    assert done == [1] * 12 * ctas
    assert began == begin * ctas
    assert run.ctas == 12 * ctas  # those whose work was taken over count
    assert any(f"cancel = '{cancel}'" in line for line in run.evidence)
    # 12 clusters fit on the card
    assert ("not checked: work that a CTA takes over" in run.summary()) == (cancel == "resident")


def test_an_answer_that_no_arrival_expects_is_named_with_the_arrival() -> None:
    expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;"
    text = taking_over()
    assert expects in text
    run, *_ = taken_over(text.replace(expects, "mbarrier.arrive.shared::cta.b64 _, [%r2];"), 1)
    found = next(f for f in run.findings if f.code == "X004")
    assert "ended without its bytes" in found.message
    assert found.repair.startswith("mbarrier.arrive.expect_tx instead of mbarrier.arrive.shared::cta.b64 in")


def test_what_does_not_fit_on_the_card_at_once_can_be_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessors, "cta_fit", lambda *asked: cta_fit(*asked)._replace(ctas=1))
    for grid, begin in ((3, 3), (5, 5), (12, 5)):
        run, done, began = taken_over(taking_over(), grid, multiprocessors=5)
        assert (done, began) == ([1] * grid, begin)
        assert ("work that a CTA takes over" in run.summary()) == (grid <= 5)
    _, done, began = taken_over(taking_over(again=""), 12, multiprocessors=5)  # each takes over one, and does not do it
    assert (sum(done), began) == (7, 7)


def test_a_part_of_a_grid_takes_over_that_part_alone() -> None:
    run, done, began = taken_over(taking_over(), 12, cancel="always", ctas=[2, 3, 7])
    assert (done, began, run.ctas) == ([0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0], 1, 3)


def test_workers_do_not_change_who_takes_over_what() -> None:
    for workers in (1, 3):
        _, done, began = taken_over(taking_over(), 40, cancel="one", workers=workers)
        assert (done, began) == ([1] * 40, 20)


def test_generic_addresses_ask_too() -> None:
    _, done, began = taken_over(taking_over(generic=True), 4, cancel="always")
    assert (done, began) == ([1] * 4, 1)


def test_every_answer_can_be_tried() -> None:
    counts = "add.u32 %r6, %r6, %r5; add.u32 %r6, %r6, 1;"
    alone = taking_over().replace("@%p1 red.global.add.u32 [%rd1], 1;", "")  # who began is in no array
    run, done, _ = taken_over(alone, 6, cancel="all")
    assert run.findings == []
    assert done == [1] * 6
    assert any("5 of 6 requests" in line for line in run.evidence)  # the last of them: always
    lost, done, _ = taken_over(alone.replace("@%p2 bra ASK;", ""), 6, cancel="all")
    assert [f.code for f in lost.findings] == ["X020"]
    assert "the array of arg0 (out)" in lost.findings[0].message
    assert done == [1, 0] * 3
    traps = alone.replace(counts, f"{counts} @%p4 trap;").replace("ASK:", "ASK: mov.u32 %r19, %ctaid.x; setp.ne.u32 %p4, %r4, %r19;", 1)
    assert [f.code for f in taken_over(traps, 6, cancel="all")[0].findings] == ["X013"]


@pytest.mark.parametrize(
    ("again", "codes"),
    [
        ("selp.b32 %r4, %r4, 0, %p2; setp.lt.and.u32 %p2, %r4, 3, %p2; @%p2 bra ASK;", []),
        ("add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2; @%p2 bra ASK;", ["X020"]),
        ("setp.eq.u32 %p2, %r4, 7; @%p2 bra ASK;", ["X020"]),
        ("shfl.sync.idx.b32 %r4, %r4, 3, 31, -1; @%p2 bra ASK; st.global.u32 [%rd1], 0; @%p2 st.global.u32 [%rd1], %r4;", []),
        ("st.shared.u32 [%r1+32], %r4; ld.shared.u32 %r9, [%r1+32]; red.global.add.u32 [%rd1], %r9;", ["X020"]),
    ],
)
def test_the_ctaid_of_a_declined_request_may_be_decoded_and_not_used(again: str, codes: list[str]) -> None:
    text = (
        taking_over(again=again)
        .replace("@%p2 clusterlaunchcontrol.query", "clusterlaunchcontrol.query")
        .replace("ASK:", "mov.u32 %r9, 0; ASK:", 1)
    )
    run = taken_over(text, 1, cancel="never")[0]
    assert [f.code for f in run.findings] == codes, run.text()


@pytest.mark.parametrize(("at", "code"), [("%r1", "X020"), ("%r1+32", "R507")])
def test_a_response_that_was_never_written_is_no_declined_request(at: str, code: str) -> None:
    text = (
        taking_over(again="red.global.add.u32 [%rd1], %r4; @%p2 bra ASK;")
        .replace("@%p2 clusterlaunchcontrol.query", "clusterlaunchcontrol.query")
        .replace("[%r1];\n    clusterlaunchcontrol.query", f"[{at}];\n    clusterlaunchcontrol.query")
    )
    run = taken_over(text, 1, cancel="never")[0]
    assert [f.code for f in run.findings] == [code], run.text()


def test_the_command_line_and_launch_files_say_how_requests_are_answered(tmp_path: Path) -> None:
    (tmp_path / "kernel.ptx").write_text(taking_over())
    launch = tmp_path / "launch.toml"
    launch.write_text(
        'grid = 6\nblock = 32\ncancel = "one"\nargs = [{array = "out"}, {array = "began"}]\n'
        '[arrays]\nout = {dtype = "u32", shape = [192], distribution = "zeros"}\nbegan = {dtype = "u32", shape = [1], distribution = "zeros"}\n'
    )
    for more, told in (
        ((), "3 of 6 requests"),
        (("--cancel", "always"), "5 of 6 requests"),
        (("--cancel", "never"), "no request was granted"),
    ):
        result = CliRunner().invoke(main, ["run", str(tmp_path / "kernel.ptx"), "--launch", str(launch), *more])
        assert result.exit_code == 0, result.output
        assert told in result.stdout
    result = CliRunner().invoke(main, ["run", str(tmp_path / "kernel.ptx"), "--launch", str(launch), "--cancel", "perhaps"])
    assert result.exit_code == 2
    assert "cancel = 'perhaps': needs one of resident, never, one, always, all" in result.stderr


def test_a_kernel_that_asks_for_nothing_runs_once() -> None:
    gpu = Gpu("sm_100a")
    out = gpu.array(np.zeros(1, np.uint32))
    ptx = kernel("ld.param.b64 %rd0, [out]; red.global.add.u32 [%rd0], 1;", ".b64 out", arch="sm_100a")
    assert gpu.launch(ptx, "k", block=32, args=(out,), cancel="all", progress=False).findings == []
    assert out.numpy()[0] == 32
    with pytest.raises(smemsim.InputError, match="cancel = 'sometimes': needs one of resident, never, one, always"):
        gpu.launch(ptx, "k", block=32, args=(out,), cancel="sometimes")


# ---- compilers' kernels


LAUNCHES = compiled_launches.read()
CHOSEN = (
    "cuda_kit_bf16_2_mnmn_128b_128b", "cuda_mma_lane_mask", "cuda_mma_scale_d", "cuda_mma_sparse", "cuda_mma_ws",
    "gluon_accumulated_f16_tensor", "gluon_launch_control", "gluon_multicast_e4m3", "gluon_pair_f16_128x64x64", "gluon_scaled_mxf8_cp",
    "gluon_scaled_nvf4", "gluon_tmem_slices", "triton_attention_causal", "triton_scaled_mxfp4", "triton_tma_edges", "triton_two_products",
)  # fmt: skip


@pytest.mark.parametrize("cohorts", ["", "off"])
def test_each_cta_multiplies_by_its_own_metadata(cohorts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four elements of K the first CTA keeps the last two, the second one the first two, the third one as the first."""
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    text, _ = LAUNCHES["cuda_mma_sparse"]
    own = "{{ .reg .b32 %cta; .reg .pred %second; mov.u32 %cta, %ctaid.x; {} }}"
    text = re.sub(
        r"ld\.param\.u64\s+(%\w+), \[forms_param_3\];", lambda m: m[0] + own.format(f"mad.wide.u32 {m[1]}, %cta, 16384, {m[1]};"), text
    )
    text = re.sub(
        r"ld\.param\.u32\s+(%\w+), \[forms_param_4\];",
        lambda m: m[0] + own.format(f"setp.eq.u32 %second, %cta, 1; @%second mov.u32 {m[1]}, 0x44444444;"), text,
    )  # fmt: skip
    rng, gpu = np.random.default_rng(7), Gpu("sm_100a")
    a, b, c = (rng.integers(-3, 4, shape).astype(kind) for shape, kind in (((128, 16), "f2"), ((32, 32), "f2"), ((128, 32), "f4")))
    d = gpu.zeros((3, 128, 32), np.float32)
    run = gpu.launch(text, "forms", grid=3, block=128, shared_bytes=32768, args=(*map(gpu.array, (a, b, c)), d, 0xEEEEEEEE), progress=False)
    assert run.findings == []
    kept = [b.reshape(32, 8, 4)[:, :, part].reshape(32, 16).astype("f4") for part in (slice(2, 4), slice(2), slice(2, 4))]
    assert (d.numpy() == [a.astype("f4") @ k.T + c for k in kept]).all()


def launched(name: str, ptx: str, random: bool):
    """A launch of the suite with this text: (run, its arrays before, those of the device)."""
    return running.launched(LAUNCHES[name][1], ptx, random=random)


@pytest.mark.parametrize("random", [False, True], ids=["integers", "random"])
@pytest.mark.parametrize("name", CHOSEN)
def test_kernels_of_compilers_compute_what_they_should(name: str, random: bool) -> None:
    """Triton's, Gluon's and nvcc's own PTX: bit for bit what the launch says, integers exactly, others as the
    arithmetic model adds; no finding.
    """
    ptx, launch = LAUNCHES[name]
    run, arrays, placed = launched(name, ptx, random)
    assert run.findings == []
    for output, want in expected_results.expected(launch, arrays, exact=not random).items():
        got = placed[output].numpy().view(want.dtype).reshape(want.shape)
        if launch["exact"]:
            np.testing.assert_array_equal(got, want)
        else:
            kind = next(a["dtype"] for a in launch["arrays"] if a["name"] == output)
            x, y = (expected_results.decoded(raw, kind).astype(float) for raw in (got, want))
            assert np.abs(x - y).max() <= launch["tolerance"][output] * np.abs(y).max()


TRY_WAIT = r"mbarrier\.try_wait[^;]*b64 (%?\w+), [^;]*;"


@pytest.mark.parametrize(
    ("name", "which"), [(name, n) for name, count in (("triton_tma_bf16_stages3", 4), ("triton_two_products", 2), ("gluon_multicast_e4m3", 2)) for n in range(count)]
)  # fmt: skip
def test_no_wait_can_be_left_out(name: str, which: int) -> None:
    """Without one of its waits for an mbarrier a pipeline reads or overwrites too early, whether or not its numbers
    come out right here.
    """
    ptx = LAUNCHES[name][0]
    found = list(re.finditer(TRY_WAIT, ptx))[which]
    run, *_ = launched(name, f"{ptx[: found.start()]}setp.eq.b32 {found[1]}, 0, 0;{ptx[found.end() :]}", False)
    assert run.findings
    assert run.findings[0].code in ("X004", "X005", "X012")
    assert re.search("tcgen05|cp.async.bulk", run.findings[0].message)


# A, in tensor memory, has its row's number everywhere, B ones: D is 16 times the row. The second product finds A as the
# first one has left it.
SHIFTED = """.version 8.7 .target sm_100a .address_size 64
.visible .entry k(.param .u64 out) {{ .reg .b32 %t, %h, %s, %a, %i, %x, %y; .reg .b16 %v; .reg .b64 %o, %b, %c; .reg .pred %p, %q;
 .shared .align 128 .b8 rows[512]; .shared .align 16 .b8 more[16];
 ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; setp.gt.u32 %p, %t, 31;
 cvt.rn.f16.u32 %v, %t; mov.b32 %h, {{%v, %v}}; mov.u32 %s, rows; mad.lo.u32 %s, %t, 4, %s; mov.u32 %x, 0x3c003c00; st.shared.u32 [%s], %x;
 @%q bra READY; mbarrier.init.shared.b64 [more+8], 1; fence.mbarrier_init.release.cluster;
READY: @%p bra ALLOCATED; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [more], 64;
ALLOCATED: fence.proxy.async; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.u32 %s, [more]; add.u32 %a, %s, 32;
 tcgen05.st.sync.aligned.32x32b.x8.b32 [%a], {{%h, %h, %h, %h, %h, %h, %h, %h}}; tcgen05.wait::st.sync.aligned;
 tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; @%q bra WAIT;
 mov.u32 %i, rows; shr.u32 %i, %i, 4; cvt.u64.u32 %b, %i; mov.b64 %c, {word}; or.b64 %b, %b, %c; mov.u32 %i, {idesc}; setp.ne.u32 %p, %t, %t;
 tcgen05.mma.cta_group::1.kind::f16.ashift [%s], [%a], %b, %i, %p; add.u32 %y, %s, 16;
 tcgen05.mma.cta_group::1.kind::f16 [%y], [%a], %b, %i, %p;
 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [more+8]; setp.gt.u32 %p, %t, 31;
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [more+8], 0; @!%q bra WAIT; tcgen05.fence::after_thread_sync; add.u32 %y, %s, 16;
 tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%x}}, [%s]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%y}}, [%y]; tcgen05.wait::ld.sync.aligned;
 mad.wide.u32 %o, %t, 8, %o; st.global.v2.u32 [%o], {{%x, %y}}; tcgen05.fence::before_thread_sync; bar.sync 0; @%p ret;
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %s, 64; ret; }}"""


def test_the_rows_of_a_move_behind_a_product_with_ashift():
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16", d_type="f32")
    word = 1 << 46 | 256 >> 4 << 32 | 128 >> 4 << 16  # K-major, no swizzle
    gpu, row = Gpu("sm_100a"), np.arange(128)
    placed = gpu.array(np.zeros((128, 2), np.float32))
    run = gpu.launch(SHIFTED.format(word=word, idesc=i.word), block=128, args=[placed], progress=False)
    out = placed.numpy()
    assert run.findings == [], run.text()
    np.testing.assert_array_equal(out[:, 0], 16 * row)
    np.testing.assert_array_equal(out[row % 32 < 31, 1], 16 * (row + 1)[row % 32 < 31])


def test_each_cta_of_a_pair_moves_its_rows_behind_a_product_with_ashift():
    """M = 256: rows 128 to 255 of A and D belong to the second CTA."""
    i = InstrDescriptor(kind="f16", m=256, n=16, a_type="f16", b_type="f16", d_type="f32")
    word = 1 << 46 | 256 >> 4 << 32 | 128 >> 4 << 16  # K-major, no swizzle
    text = SHIFTED.format(word=word, idesc=i.word).replace("cta_group::1", "cta_group::2")
    meet = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    for old, new in (
        ("mov.u32 %t, %tid.x;", "mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; mad.lo.u32 %u, %r, 128, %t; mov.b16 %m, 3;"),
        ("cvt.rn.f16.u32 %v, %t;", "cvt.rn.f16.u32 %v, %u;"),
        (".b32 %t, %h,", ".b32 %r, %u, %t, %h,"),
        (".b16 %v;", ".b16 %v, %m;"),
        (
            "bar.sync 0; tcgen05.fence::after_thread_sync; @%q bra WAIT;",
            f"{meet} tcgen05.fence::after_thread_sync; setp.ne.u32 %p, %u, 0; @%p bra WAIT;",
        ),
        ("one.shared::cluster.b64 [more+8];", "one.shared::cluster.multicast::cluster.b64 [more+8], %m;"),
        ("setp.gt.u32 %p, %t, 31;\nWAIT:", "\nWAIT:"),
        ("mad.wide.u32 %o, %t, 8, %o;", "mad.wide.u32 %o, %u, 8, %o; setp.gt.u32 %p, %t, 31;"),
        ("READY: @%p", f"READY: {meet} @%p"),
        ("bar.sync 0; @%p ret;", f"{meet} @%p ret;"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    gpu, row = Gpu("sm_100a"), np.arange(256)
    placed = gpu.array(np.zeros((256, 2), np.float32))
    run = gpu.launch(text, grid=2, block=128, cluster=2, args=[placed], progress=False)
    out = placed.numpy()
    assert run.findings == [], run.text()
    np.testing.assert_array_equal(out[:, 0], 16 * row)
    np.testing.assert_array_equal(out[row % 32 < 31, 1], 16 * (row + 1)[row % 32 < 31])


@pytest.mark.parametrize("first", [0, 9, 15, 24, 31, 32, 40])
def test_an_operand_that_its_own_result_overwrites_is_a_finding(first: int):
    """A has 8 columns of tensor memory, D has 16: of the first product from 0 on, of the second one from 16 on."""
    i = InstrDescriptor(kind="f16", m=128, n=16, a_type="f16", b_type="f16", d_type="f32")
    ptx = SHIFTED.format(word=1 << 46 | 256 >> 4 << 32 | 128 >> 4 << 16, idesc=i.word)
    ptx = ptx.replace("add.u32 %a, %s, 32;", f"add.u32 %a, %s, {first};").replace(".ashift", "")
    gpu = Gpu("sm_100a")
    run = gpu.launch(ptx, block=128, args=[gpu.array(np.zeros((128, 2), np.float32))], progress=False)
    overlaps = [sorted({*range(first, first + 8)} & {*range(begin, begin + 16)}) for begin in (0, 16)]
    found = [f.message for f in run.findings if "D overlaps A" in f.message]
    assert len(found) == sum(map(bool, overlaps))
    for columns, message in zip(filter(None, overlaps), found, strict=True):
        span = f"column {columns[0]}" if len(columns) == 1 else f"columns {columns[0]} to {columns[-1]}"
        assert message.startswith(f"D overlaps A of the same instruction in {span} of tensor memory;")


# ---- numbers that are not where an instruction reads them (R507)

FILLED = (
    "and.b32 %r190, %r198, 3; shl.b32 %r190, %r190, 21; add.u32 %r190, %r190, %r197; mov.b32 %r191, 0x40000000;\n"
    f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r190{{}}], {{{{{', '.join(['%r191'] * 32)}}}}};\n"
    "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
)


@pytest.mark.parametrize(
    ("at", "repair"),
    [
        ("", r""),
        (None, r"^enable-input-d false for the first instruction that adds into D; or if the sum begins with numbers in D, such as a bias: write"),
        ("+64", r"^if the sum begins with .* write these cells first: so far line \d+ \(tcgen05.st\S+\) has written only .*columns 64 to 95\); or enable-input-d"),
    ],
    ids=["in D", "nowhere", "elsewhere"],
)  # fmt: skip
def test_a_bias_that_is_not_in_d_is_named_as_the_first_number_of_the_sum(at: str | None, repair: str) -> None:
    text, images, a, b, _ = product("f16", "bf16")
    place = "setp.eq.u32 %p4, %r170, 0;"
    begin = "" if at is None else FILLED.format(at)
    run, d = multiplied(text.replace("%r160, 0;", "%r160, 1;").replace(place, begin + place), images)
    assert [f.code for f in run.findings] == ["R507"] * bool(repair)
    assert all(re.search(repair, f.repair) for f in run.findings), run.findings
    if not repair:
        np.testing.assert_array_equal(d, a @ b.T + 2)


@pytest.mark.parametrize(
    ("fill", "repair"),
    [
        (FILLED.format("+128") + "LOAD", ""),
        (FILLED.format("+64") + "LOAD", r"check the address, .*: so far line \d+ \(tcgen05.st\S+\) has written only .*columns 64 to 95"),
        ("LOAD bar.sync 0;" + FILLED.format("+128"), r"^write these cells before line \d+ reads them: line \d+ writes them only after that"),
    ],
    ids=["there", "elsewhere", "later"],
)  # fmt: skip
def test_a_load_of_cells_that_a_store_misses_names_the_store(fill: str, repair: str) -> None:
    text, images, *_ = product("f16", "bf16")
    load = re.search(r"tcgen05.ld[^;]*;\s*tcgen05.wait::ld.sync.aligned;", text)
    assert load
    run, _ = multiplied(text.replace(load[0], fill.replace("LOAD", load[0].replace("[%r196]", "[%r196+128]"))), images)
    assert [f.code for f in run.findings] == ["R507"] * bool(repair)
    assert all(re.search(repair, f.repair) for f in run.findings), run.findings
