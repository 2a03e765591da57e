"""Operands of tcgen05.mma that tensor maps of 4-bit and 6-bit elements bring, read as elements of another width."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_kernels import kernel, wait
from smemsim import Gpu, InstrDescriptor, Run, SmemDescriptor, TensorMap

K = 128
BITS = {"u8": 8, "16U4_ALIGN16B": 4, "16U6_ALIGN16B": 6}


def multiplied(data_type: str, a_type: str) -> Run:
    """D (128 x 32) = A B^T, K = 32: A by a map of `data_type`, read as `a_type`, and B of e4m3."""
    gpu, maps = Gpu("sm_100a"), []
    for kind, rows in ((data_type, 128), ("u8", 32)):
        array = gpu.array(np.full((rows, K * BITS[kind] // 8), 0x11, np.uint8))
        shape = {"global_dim": (K, rows), "global_strides": (K * BITS[kind] // 8,), "box_dim": (K, rows)}
        maps.append(TensorMap.tiled(data_type=kind, global_address=array.address, swizzle="128B", **shape))
    i = InstrDescriptor(kind="f8f6f4", m=128, n=32, a_type=a_type, b_type="e4m3", d_type="f32")
    a, b = (
        SmemDescriptor(arch="sm_100a", start_address=at, leading_byte_offset=16, stride_byte_offset=1024, swizzle="128B").encode()
        for at in (0x400, 0x4400)
    )
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    text = f"""
    mov.u32 %r0, %tid.x; mov.u32 %r1, smem; add.u32 %r2, %r1, 20480; add.u32 %r3, %r1, 20488; add.u32 %r4, %r1, 20496; add.u32 %r5, %r1, 16384;
    setp.lt.u32 %p0, %r0, 32; setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, 0; ld.param.b64 %rd1, [out];
    @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.b32 %r7, [%r4]; mov.b64 %rd2, a; mov.b64 %rd3, b;
    @!%p1 bra DONE;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {128 * K * BITS[data_type] // 8 + 32 * K};
    {load} [%r1], [%rd2, {{%r6, %r6}}], [%r2]; {load} [%r5], [%rd3, {{%r6, %r6}}], [%r2];
    {wait("%r2", label="LOADED")}
    mov.b64 %rd4, {a}; mov.b64 %rd5, {b}; mov.u32 %r8, {i.word};
    tcgen05.mma.cta_group::1.kind::f8f6f4 [%r7], %rd4, %rd5, %r8, 0;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
    DONE: bar.warp.sync -1; {wait("%r3", label="READY")}
    tcgen05.fence::after_thread_sync; shr.u32 %r9, %r0, 5; shl.b32 %r9, %r9, 21; add.u32 %r10, %r9, %r7;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r11}}, [%r10]; tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd6, %r0, 4; add.u64 %rd6, %rd6, %rd1; st.global.b32 [%rd6], %r11;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    @%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 32;"""
    ptx = kernel(text, ".align 64 .b8 a[128]", ".align 64 .b8 b[128]", ".b64 out", shared=20504, arch="sm_100a")
    return gpu.launch(ptx, "k", block=128, args=[*maps, gpu.zeros(128, np.float32)], progress=False)


@pytest.mark.parametrize(
    ("data_type", "a_type", "right"),
    [
        ("16U4_ALIGN16B", "e2m1", ""),
        ("16U4_ALIGN16B", "e2m3", "e2m1"),
        ("16U4_ALIGN16B", "e3m2", "e2m1"),
        ("16U4_ALIGN16B", "e4m3", "e2m1"),
        ("16U6_ALIGN16B", "e2m3", ""),
        ("16U6_ALIGN16B", "e3m2", ""),
        ("16U6_ALIGN16B", "e2m1", "e2m3"),
        ("u8", "e4m3", ""),
        ("u8", "e2m3", ""),
    ],
)
def test_a_type_has_the_width_of_the_elements_that_its_map_brings(data_type, a_type, right):
    """A map of bytes may bring elements of any width, which the host has put there."""
    done = multiplied(data_type, a_type)
    assert [f.code for f in done.findings] == ["I603"] * bool(right), done.text()
    assert all(f.repair == f"a_type {right} in the instruction descriptor" and f"A is read as {a_type}" in f.message for f in done.findings)
