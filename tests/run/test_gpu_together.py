"""What CTAs do alike is done and looked at once for all: one that does something else is found, as it would be if
nobody did as the others.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpu_faults import KERNELS
from ptx_kernels import kernel, wait
from smemsim import Gpu, InstrDescriptor, SmemDescriptor, TensorMap
from smemsim.evidence import load_launch_file
from tools.speeds.programs import on_blackwell

FILE = load_launch_file(KERNELS / "triton_matmul_512")
CTAS, ODD, TILE, DEPTH = 3, 1, 128, 256  # of the grid, the one with the fault; of C, and how far K goes
# By the code: the line behind which one CTA does something else, and what. A tile of B whose second K step starts 16
# bytes further; a stage of A that is
# filled while products may still read it; a wait for the first stage's loads alone, behind which the others are read;
# and both halves of C stored into one box.
FAULTS = {
    "R502": ("add.s32 \t%r51, %r49, 2;", "add.s32 %r51, %r49, 3;"),
    "X005": ("add.s32 \t%r33, %r9, %r59;", "mov.b32 %r33, %r9;"),
    "X004": ("add.s32 \t%r27, %r39, 98304;", "add.s32 %r27, %r9, 98304;"),
    "X008": ("or.b32 \t%r62, %r121, %r11;", "mov.b32 %r62, %r11;"),
}


def with_fault(code: str, ctas: str) -> str:
    """The kernel with a fault, of CTA `ODD` ("one") or of all."""
    behind, fault = FAULTS[code]
    return changed(FILE.ptx, behind, f"{behind}\n\t@%odd {fault}", ctas)


def changed(ptx: str, line: str, other: str, ctas: str) -> str:
    """A kernel with another text in place of a line; in that, `%odd` says whether this is CTA `ODD` ("one"), or any."""
    assert ptx.count(line) == 1
    odd = ODD if ctas == "one" else "%cta"
    head = f"\t.reg .pred %odd;\n\t.reg .b32 %cta;\n\tmov.u32 %cta, %ctaid.x;\n\tsetp.eq.u32 %odd, %cta, {odd};\n"
    return ptx.replace(line, other).replace("{\n", "{\n" + head, 1)


def launched(ptx: str):
    gpu = Gpu("sm_90a")
    args = [one | {"value": DEPTH} if n == 15 else one for n, one in enumerate(FILE.about["args"])]
    file = dataclasses.replace(FILE, ptx=ptx, about={**FILE.about, "grid": (CTAS, 1, 1), "args": args})
    arrays, args = file.placed(gpu)
    found = gpu.run(file.ptx, file.config(args))
    return [(f.code, f.line) for f in found.findings], list(arrays.values())[-1].numpy()


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_one_cta_is_found_as_that_of_all(code: str):
    (of_one, c), (of_all, _) = (launched(with_fault(code, ctas)) for ctas in ("one", "all"))
    assert code in dict(of_one)
    assert of_one == of_all
    if code == "R502":  # the other CTAs compute what they should
        right = launched(FILE.ptx)[1]
        differs = (c != right).reshape(len(c) // TILE, TILE, -1, TILE).any(axis=(1, 3))
        assert differs.sum() == 1


COPIES = load_launch_file(KERNELS / "triton_matmul_f16")  # its threads copy the operands (cp.async); of two CTAs
# What CTA `ODD`, or each, leaves out, and what is found then: the copies have not come, no fence lies between them and
# the products, or these may still read.
LEFT_OUT = {"X004": "cp.async.wait_group \t2;", "X003": "fence.proxy.async.shared::cta;", "X005": "wgmma.wait_group.sync.aligned 1;"}


@pytest.mark.parametrize("code", LEFT_OUT)
def test_what_one_cta_leaves_out_behind_its_copies_is_found_as_where_all_do(code: str):
    found = []
    for ctas in ("one", "all"):
        gpu = Gpu("sm_90a")
        args = COPIES.placed(gpu)[1]
        findings = gpu.run(changed(COPIES.ptx, LEFT_OUT[code], f"@!%odd {LEFT_OUT[code]}", ctas), COPIES.config(args)).findings
        found.append([(f.code, f.line) for f in findings])
    assert code in dict(found[0])
    assert found[0] == found[1]


# How each warp writes one word, what it writes, and what is found where CTA `ODD`, or each, does so: of a warp's lanes
# one stays, of warps it is left to chance.
ONE_WORD = {
    "the same": ("st.shared.u32 [sm], 7;", []),
    "a copy of the same": ("cp.async.ca.shared.global [sm], [%rd1], 4; cp.async.wait_all;", []),
    "its own": ("st.shared.u32 [sm], %r3;", ["X008"]),
    "a copy of its own": ("cp.async.ca.shared.global [sm], [%rd2], 4; cp.async.wait_all;", ["X008"]),
    "each lane its own": ("st.shared.u32 [sm], %r4;", ["X008"]),
}


@pytest.mark.parametrize("who", ["one", "all"])
@pytest.mark.parametrize(("writes", "codes"), ONE_WORD.values(), ids=ONE_WORD)
def test_what_warps_of_one_cta_write_to_one_word_is_found_as_where_all_do(writes: str, codes: list[str], who: str):
    ptx = f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 16 .b8 sm[16];
    .visible .entry k(.param .u64 from) {{
      .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shr.u32 %r3, %r1, 5; mov.u32 %r4, %r1;
      setp.ne.u32 %p1, %r2, {ODD if who == "one" else "%r2"}; @%p1 mov.u32 %r3, 7; @%p1 mov.u32 %r4, 7;
      ld.param.u64 %rd1, [from]; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd2, %rd1, %rd2; mul.wide.u32 %rd3, %r3, 0; @%p1 add.u64 %rd2, %rd1, %rd3;
      {writes}
      bar.sync 0; ld.shared.u32 %r5, [sm]; setp.lt.u32 %p2, %r1, 64; @%p2 ret;
      wgmma.fence.sync.aligned; ret; }}"""
    gpu = Gpu("sm_90a")
    done = gpu.launch(ptx, "k", grid=CTAS, block=64, args=[gpu.array(np.arange(8, dtype=np.uint32))], progress=False)
    assert [f.code for f in done.findings] == codes
    assert all(f"of CTA {ODD if who == 'one' else 0}" in f.message for f in done.findings)


def refilled(meets: str) -> str:
    """Lanes of warp 0 read a word each, lane 0 says so, and warp 1 has a box loaded over them."""
    return f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 1024 .b8 sm[128]; .shared .align 8 .b64 bar[2];
    .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) {{
      .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
      mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, sm; add.u32 %r3, %r3, %r2; ld.param.u64 %rd1, [out]; cvt.u64.u32 %rd2, %r2; add.u64 %rd1, %rd1, %rd2;
      setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; setp.lt.u32 %p3, %r1, 32; mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3; mov.u32 %r5, 0; mov.u32 %r6, %ctaid.x;
      @%p1 mbarrier.init.shared::cta.b64 [bar], 1; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 1; @%p3 st.shared.u32 [%r3], %r1;
      fence.proxy.async.shared::cta; bar.sync 0; @!%p3 bra T;
      ld.shared.u32 %r4, [%r3];
      st.global.u32 [%rd1], %r4;
      {meets}
      @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];
      ret;
      T: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra T;
      @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 128;
      @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [sm], [%rd3, {{%r5, %r6}}], [bar+8];
      V: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar+8], 0; @!%p4 bra V;
      ret; }}"""


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize(("meets", "codes"), [("bar.warp.sync -1;", []), ("", ["X008"])])
def test_what_lanes_may_still_read_is_followed_for_several_ctas_as_for_one(ctas: int, meets: str, codes: list[str]):
    gpu = Gpu("sm_90a")
    out, tiles = gpu.array(np.zeros(32, np.uint32)), gpu.array(np.zeros((2, 32), np.uint32))
    box = TensorMap.tiled(data_type="u32", global_address=tiles.address, global_dim=(32, 2), global_strides=(128,), box_dim=(32, 1))
    done = gpu.launch(refilled(meets), "k", grid=ctas, block=64, args=[out, box], progress=False)
    assert not done.findings
    assert [f.code for f in done.remarks if f.code == "X008"] == codes


def ring(frees: str) -> str:
    """A warp hands four words in turn to another one, by two mbarriers; it waits until the word is free, but for where
    it `frees` itself of that.
    """
    return f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 16 .b8 sm[128]; .shared .align 8 .b64 bar[2];
    .visible .entry k() {{
      .reg .pred %p<8>; .reg .b32 %r<9>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p3, %r1, 32; setp.eq.u32 %p4, %r2, {ODD};
      shl.b32 %r3, %r1, 2; and.b32 %r3, %r3, 127; mov.u32 %r4, sm; add.u32 %r3, %r3, %r4; mov.u32 %r5, 0;
      @%p1 mbarrier.init.shared::cta.b64 [bar], 32; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 32; bar.sync 0;
      L: and.b32 %r6, %r5, 1; xor.b32 %r7, %r6, 1; @!%p3 bra C;
      setp.eq.u32 %p5, %r5, 0; @%p5 bra F; {frees}
      W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], %r7; @!%p2 bra W;
      F: st.shared.u32 [%r3], %r5; mbarrier.arrive.shared::cta.b64 _, [bar]; bra E;
      C: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r6; @!%p2 bra C;
      ld.shared.u32 %r8, [%r3]; add.u32 %r8, %r8, 1; mbarrier.arrive.shared::cta.b64 _, [bar+8];
      E: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra L;
      ret; }}"""


@pytest.mark.parametrize(
    ("frees", "who"), [("", None), ("setp.eq.u32 %p6, %r5, 2; @%p6 bra F;", 0), ("setp.eq.and.u32 %p6, %r5, 2, %p4; @%p6 bra F;", ODD)]
)
def test_a_cta_that_leaves_the_others_at_an_mbarrier_is_followed_by_itself(frees: str, who: int | None):
    done = Gpu("sm_90a").launch(ring(frees), "k", grid=CTAS, block=64, progress=False)
    assert [f.code for f in done.findings] == ["X008"] * (who is not None)
    assert all(f"of CTA {who}" in f.message for f in done.findings)


def handed(odd: int, waits: str) -> str:
    """In each CTA warp 1 hands four bytes a lane to warp 0, which `waits` for them; in CTA `odd` nobody wants them, and
    warp 1 invalidates the mbarrier.
    """
    return f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 16 .b8 sm[128]; .shared .align 8 .b64 bar[1];
    .visible .entry k() {{
      .reg .pred %p<6>; .reg .b32 %r<5>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; setp.lt.u32 %p3, %r1, 64; setp.eq.u32 %p4, %r2, {odd};
      shl.b32 %r3, %r1, 2; and.b32 %r3, %r3, 127; mov.u32 %r4, sm; add.u32 %r3, %r3, %r4;
      @%p1 mbarrier.init.shared::cta.b64 [bar], 32; bar.sync 0;
      wgmma.fence.sync.aligned; @!%p3 ret;
      @%p2 bra R;
      st.shared.u32 [%r3], %r1; bar.warp.sync -1; mbarrier.arrive.shared::cta.b64 _, [bar]; bar.warp.sync -1;
      setp.eq.and.u32 %p5, %r1, 32, %p4; @%p5 mbarrier.inval.shared::cta.b64 [bar]; ret;
      R: @%p4 ret;
      W: {waits}
      ld.shared.u32 %r1, [%r3]; setp.eq.u32 %p5, %r1, 0; ret; }}"""


@pytest.mark.parametrize("odd", [0, ODD])
@pytest.mark.parametrize(("waits", "codes"), [("mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;", []), ("", ["X008"])])
def test_an_mbarrier_that_one_cta_has_invalidated_is_one_for_the_others(waits: str, codes: list[str], odd: int):
    done = Gpu("sm_90a").launch(handed(odd, waits), "k", grid=CTAS, block=128, progress=False)
    assert [f.code for f in done.findings] == codes


@pytest.mark.parametrize(("between", "codes"), [("bar.sync 0;", []), ("", ["X008"])])
def test_what_warps_do_that_come_later_to_a_barrier_of_all_is_in_front_of_it(between: str, codes: list[str]):
    # Whoever branches to LATE comes to the barrier when the others wait there already.
    ptx = f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 16 .b8 sm[128];
    .visible .entry k(.param .u64 out) {{
      .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
      mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 2; mov.u32 %r3, sm; add.u32 %r2, %r2, %r3;
      @%p1 bra LATE;
      JOIN: bar.sync 0; ld.shared.u32 %r4, [%r2]; {between} @%p1 st.shared.u32 [%r2], 0;
      ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;
      ret;
      LATE: st.shared.u32 [%r2], %r1; bra JOIN; }}"""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(96, np.uint32))
    done = gpu.launch(ptx, "k", grid=CTAS, block=96, args=[out], progress=False)
    assert [f.code for f in done.findings] == codes
    assert (out.numpy() == np.arange(96) % 32).all()


# What a CTA does otherwise, and what is found: it reads what a load brings and does not wait, so that the next load
# comes too early too; it stores behind its proxy fence; it does not wait for its store, and overwrites what that may
# still read, and the next one what it wrote.
OTHERWISE = {
    "nothing": ({}, []),
    "no wait": ({"wait": "bra R;"}, ["X004", "X005"]),
    "late store": ({"fenced": "st.shared.u32 [%r3+128], %r4;"}, ["X003"]),
    "no wait for the store": ({"free": "bra G;"}, ["X008", "X005"]),
}


def through(does: dict[str, str], who: str) -> str:
    """A tile is loaded and stored, and again with one more in each element; but for what CTA `ODD` ("one") or all do
    otherwise.
    """
    wait, fenced, free = (f"@%p4 {does[name]}" if name in does else "" for name in ("wait", "fenced", "free"))
    return f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 1024 .b8 sm[256]; .shared .align 8 .b64 bar[1];
    .visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128]) {{
      .reg .pred %p<8>; .reg .b32 %r<12>; .reg .b64 %rd<5>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p4, %r2, {ODD if who == "one" else "%r2"};
      mov.b64 %rd1, from; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, to; cvta.param.u64 %rd2, %rd2; mov.u32 %r3, sm; shl.b32 %r5, %r1, 2; add.u32 %r3, %r3, %r5;
      mov.u32 %r6, 0; mov.u32 %r7, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;
      L: @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
      @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [sm], [%rd1, {{%r6, %r2}}], [bar];
      {wait}
      W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r7; @!%p2 bra W;
      R: ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, %r7; st.shared.u32 [%r3+128], %r4;
      fence.proxy.async.shared::cta; {fenced}
      bar.sync 0;
      @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {{%r6, %r2}}], [sm+128];
      cp.async.bulk.commit_group;
      {free}
      cp.async.bulk.wait_group 0;
      G: bar.sync 0; add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 2; @%p3 bra L;
      cp.async.bulk.wait_group 0;
      ret; }}"""


@pytest.mark.parametrize("who", ["one", "all"])
@pytest.mark.parametrize(("does", "codes"), OTHERWISE.values(), ids=OTHERWISE)
def test_what_one_cta_does_otherwise_with_its_copies_is_found_as_where_all_do(does: dict[str, str], codes: list[str], who: str):
    gpu, given = Gpu("sm_90a"), np.arange(32 * CTAS, dtype=np.uint32).reshape(CTAS, 32)
    arrays = gpu.array(given), gpu.array(np.zeros_like(given))
    maps = [
        TensorMap.tiled(data_type="u32", global_address=one.address, global_dim=(32, CTAS), global_strides=(128,), box_dim=(32, 1))
        for one in arrays
    ]
    done = gpu.launch(through(does, who), "k", grid=CTAS, block=32, args=maps, progress=False)
    assert [f.code for f in done.findings] == codes
    assert all(f"of CTA {ODD if who == 'one' else 0}" in f.message for f in done.findings)
    assert (arrays[1].numpy() == given + 1).all()


@pytest.mark.parametrize(("reads", "codes"), [("sm+128", []), ("sm", ["X004"])])
def test_lanes_that_wait_for_copies_of_their_own_know_of_those_alone(reads: str, codes: list[str]):
    ptx = f""".version 8.8
    .target sm_90a
    .address_size 64
    .shared .align 1024 .b8 sm[256]; .shared .align 8 .b64 bar[2];
    .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) {{
      .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0; shl.b32 %r5, %r1, 2; mov.u32 %r3, {reads}; add.u32 %r3, %r3, %r5; mov.u32 %r6, 0;
      mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [out]; cvt.u64.u32 %rd3, %r5; add.u64 %rd2, %rd2, %rd3;
      @%p1 mbarrier.init.shared::cta.b64 [bar], 1; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 1; bar.sync 0;
      @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 128;
      @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [sm], [%rd1, {{%r6, %r2}}], [bar];
      @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [sm+128], [%rd1, {{%r6, %r2}}], [bar+8];
      @!%p1 bra V;
      W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;
      ld.shared.u32 %r4, [sm]; bra E;
      V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], 0; @!%p2 bra V;
      ld.shared.u32 %r4, [%r3];
      E: @!%p1 st.global.u32 [%rd2], %r4; ret; }}"""
    gpu = Gpu("sm_90a")
    out, tiles = gpu.array(np.zeros(32, np.uint32)), gpu.array(np.ones((CTAS, 32), np.uint32))
    box = TensorMap.tiled(data_type="u32", global_address=tiles.address, global_dim=(32, CTAS), global_strides=(128,), box_dim=(32, 1))
    done = gpu.launch(ptx, "k", grid=CTAS, block=32, args=[out, box], progress=False)
    assert [f.code for f in done.findings] == codes


def scaled_twice(d: int, scales: int) -> str:
    """Two block-scaled products that begin sums: at columns 0 and `d`, by factors at columns 128 and `scales`. Threads
    have put these there.
    """
    i = InstrDescriptor(kind="mxf8f6f4", m=128, n=8, a_type="e4m3", b_type="e4m3", d_type="f32", scale_type="ue8m0")
    word = SmemDescriptor(arch="sm_100a", start_address=0, leading_byte_offset=128, stride_byte_offset=256).encode()

    def factors(column: int) -> str:
        return f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r18+{column}], {{%r6, %r6, %r7, %r7, %r6, %r6, %r7, %r7}};"

    def multiply(n: int, column: int, of: int) -> str:
        return f"""add.u32 %r10, %r8, {column}; add.u32 %r15, %r8, {of}; add.u32 %r16, %r8, {of + 4};
        @%p2 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r10], %rd4, %rd5, %r14, [%r15], [%r16], %p4;
        @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4]; {wait("%r4", n, f"WAIT{n}")}"""

    meet = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
    return kernel(f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, smem; shr.u32 %r3, %r1, 5; setp.ne.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r1, 0; setp.ne.b32 %p4, 0, 0;
    add.u32 %r4, %r2, 8192; @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4+8], 256; @%p2 mbarrier.init.shared::cta.b64 [%r4], 1;
    shl.b32 %r5, %r1, 2; mov.b32 %r6, 0x7f7f7f7f; mov.b32 %r7, 0x80808080;
    FILL: add.u32 %r9, %r2, %r5; st.shared.b32 [%r9], 0x38383838; add.u32 %r5, %r5, 512; setp.lt.u32 %p3, %r5, 8192; @%p3 bra FILL;
    fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster; {meet}
    ld.shared.b32 %r8, [%r4+8]; shr.u32 %r9, %r2, 4; cvt.u64.u32 %rd3, %r9; shl.b32 %r18, %r3, 21; add.u32 %r18, %r18, %r8;
    {factors(128)} {factors(192)} tcgen05.wait::st.sync.aligned; {meet}
    or.b64 %rd4, %rd3, {word}; add.s64 %rd5, %rd4, 256; mov.u32 %r14, {i.word};
    {multiply(0, 0, 128)} {multiply(1, d, scales)} tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r19}}, [%r18+{d}]; tcgen05.wait::ld.sync.aligned; {meet}
    @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 256;
    """, shared=8208, arch="sm_100a")  # fmt: skip


@pytest.mark.parametrize(("d", "scales", "codes"), [(0, 192, ["X017"]), (0, 128, ["X017"]), (64, 128, []), (128, 192, [])])
def test_a_product_that_is_lost_is_one_where_factors_are_read_and_factors_that_are_read_are_not(d: int, scales: int, codes: list[str]):
    done = Gpu("sm_100a").launch(scaled_twice(d, scales), "k", grid=CTAS, block=128, progress=False)
    assert [f.code for f in done.findings] == codes


# How a CTA gives tensor memory back: when it has read it, or before its registers have come.
GIVEN_BACK = {"behind the wait": ("{wait}", []), "in front of it": ("{free}\n{wait}", ["X012"])}


@pytest.mark.parametrize("who", ["one", "all"])
@pytest.mark.parametrize(("text", "codes"), GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_tensor_memory_that_one_cta_gives_back_too_early_is_found_as_where_all_do(text: str, codes: list[str], who: str):
    file, gpu = on_blackwell(), Gpu("sm_100a")
    wait, free = (next(line for line in file.ptx.splitlines() if name in line) for name in ("tcgen05.wait::ld", "tcgen05.dealloc"))
    ptx = changed(file.ptx, wait, text.format(wait=wait, free=free.replace("@%p1", "@%odd")), who)
    _, args = file.placed(gpu)
    done = gpu.run(ptx, dataclasses.replace(file.config(args), grid=(CTAS, 1, 1)))
    assert [f.code for f in done.findings] == codes


ENDED = """.version 8.8
.target sm_90a
.address_size 64
.shared .align 8 .b64 bar[2];
.visible .entry k() {{
.reg .pred %p<6>; .reg .b32 %r<9>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; setp.eq.u32 %p3, %r2, {odd};
mov.u32 %r3, bar; selp.u32 %r4, 8, 0, %p3; add.u32 %r5, %r3, %r4; xor.b32 %r6, %r4, 8; add.u32 %r6, %r3, %r6;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1; @%p1 mbarrier.init.shared::cta.b64 [bar+8], 1;
wgmma.fence.sync.aligned; bar.sync 0;
@%p2 mbarrier.arrive.shared::cta.b64 _, [bar+8];
{meets}
@%p1 mbarrier.inval.shared::cta.b64 [%r5];
bar.sync 0; @%p1 mbarrier.inval.shared::cta.b64 [%r6]; ret; }}"""


@pytest.mark.parametrize("odd", [0, 1, 2, 9])
@pytest.mark.parametrize("meets", ["bar.sync 0;", ""])
def test_the_cta_that_invalidates_the_mbarrier_in_use_is_found_and_no_other(meets, odd):
    """CTA `odd` invalidates the second mbarrier, at which a warp arrives; the others invalidate the first one."""
    done = Gpu("sm_90a").launch(ENDED.format(odd=odd, meets=meets), "k", grid=3, block=128, progress=False)
    assert [f.code for f in done.findings] == ["X008"] * (not meets and odd < 3)
    assert all(f"CTA {odd}" in f.message for f in done.findings)
