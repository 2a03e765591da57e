"""Bulk and tensor copies of kernels: what they move is what the machine's model moves, and barriers open when their
bytes are there.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device
from ptx_kernels import dump, kernel, wait
from smemsim import BulkTransfer, GlobalMemory, Gpu, InputError, SharedMemory, TensorMap, Unmodelled
from smemsim.core.machine import bulk_reduce_bytes
from smemsim.core.spec.tensor_map import TENSOR_MAP
from smemsim.run import Bulk, Load, Store
from strategies import examples

SIZE = 8192
TILE = np.random.default_rng(5).integers(0, 1 << 16, (48, 96)).astype(np.uint16)

START = """
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    ld.param.b64 %rd1, [out];
    mov.u32 %r1, smem;
    add.u32 %r2, %r1, {barrier};
    @%p0 bra ISSUED;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
"""


def start(bytes_: int) -> str:
    return START.format(barrier=SIZE, bytes=bytes_)


def finish(*, waits: bool = True) -> str:
    return "\nISSUED:\n    bar.sync 0;\n" + (wait("%r2") if waits else "") + dump("%rd1", SIZE)


def loaded(
    gpu: Device, tm: TensorMap, coordinates: tuple[int, ...], *, at: int = 0, mode: str = "", extra: str = "", expect: int | None = None
) -> np.ndarray:
    """Shared memory after a load by one thread and the wait for its bytes."""
    listed = ", ".join(map(str, coordinates))
    rank = 2 if "gather4" in mode else len(coordinates)
    ptx = kernel(
        start(tile_bytes(tm) if expect is None else expect)
        + f"""
    add.u32 %r3, %r1, {at};
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    cp.async.bulk.tensor.{rank}d.shared::cta.global{mode}.mbarrier::complete_tx::bytes [%r3], [%rd2, {{{listed}}}], [%r2]{extra};
"""
        + finish(),
        ".align 64 .b8 map[128]", ".b64 out", shared=SIZE + 64, arch=gpu.arch,
    )  # fmt: skip
    out = gpu.array(np.zeros(SIZE, np.uint8))
    run = gpu.launch(ptx, "k", block=32, args=(tm, out))
    (event,) = run.result.events
    assert isinstance(event, Load)
    assert event.tensor_map == tm
    assert event.coordinates == coordinates
    return out.numpy()


def tile_bytes(tm: TensorMap) -> int:
    return int(np.prod(tm.box_dim)) * tm.type_row.itemsize


def modelled(gpu: Device, tm: TensorMap, coordinates: tuple[int, ...], at: int, **more: object) -> np.ndarray:
    shared = SharedMemory(gpu.arch, size=SIZE + 64)
    shared.tma_load(tm, coordinates, smem_address=shared.begin + at, source=gpu.memory, **more)
    return shared.bytes[:SIZE].copy()


def tiled(address: int, swizzle: str = "none", box: tuple[int, int] = (16, 8), **more: object) -> TensorMap:
    return TensorMap.tiled(
        data_type="u16", global_address=address, global_dim=(96, 48), global_strides=(192,), box_dim=box, swizzle=swizzle, **more
    )


@examples(12)
@given(st.sampled_from(["none", "32B", "64B", "128B"]), st.integers(-3, 14), st.integers(-10, 60), st.sampled_from([0, 128, 1024, 1408]))
def test_a_load_brings_what_the_machine_brings(swizzle: str, column: int, row: int, at: int) -> None:
    gpu = Device("sm_90a")
    a = gpu.array(TILE)
    tm = tiled(a.address, swizzle, (8 if swizzle == "none" else int(swizzle[:-1]) // 2, 16))
    where = (8 * column, row)
    assert (loaded(gpu, tm, where, at=at) == modelled(gpu, tm, where, at)).all()


def test_loads_of_im2col_maps_take_their_offsets() -> None:
    gpu = Device("sm_90a")
    image = gpu.array(np.arange(2 * 6 * 7 * 32, dtype=np.uint16))
    tm = TensorMap.im2col(
        data_type="u16", global_address=image.address, global_dim=(32, 7, 6, 2), global_strides=(64, 448, 2688), pixel_box_lower_corner=(-1, -1),
        pixel_box_upper_corner=(-1, -1), channels_per_pixel=32, pixels_per_column=16, swizzle="64B",
    )  # fmt: skip
    given = {"mode": ".im2col", "extra": ", {1, 2}", "expect": 16 * 64}
    found = loaded(gpu, tm, (0, -1, -1, 0), **given)  # type: ignore[arg-type]
    assert (found == modelled(gpu, tm, (0, -1, -1, 0), 0, im2col_offsets=(1, 2))).all()


def test_a_gather_takes_four_rows() -> None:
    gpu = Device("sm_100a")
    a = gpu.array(TILE)
    tm = tiled(a.address, box=(64, 1))
    found = loaded(gpu, tm, (8, 40, 3, 7, 3), mode=".tile::gather4", expect=4 * 128).view(np.uint16)
    assert (found[: 4 * 64].reshape(4, 64) == TILE[[40, 3, 7, 3], 8:72]).all()


def test_a_blackwell_kernel_loads_by_a_map_that_its_host_code_encoded_itself() -> None:
    gpu = Device("sm_100a")
    a = gpu.array(TILE)
    tm = tiled(a.address, "128B", (64, 16))
    words = np.frombuffer(bytes(tm), np.uint32).copy()
    words[2] |= 1 << 1  # version 1
    words[16:] = np.random.default_rng(6).integers(0, 1 << 32, 16)  # what its stack held
    other = TensorMap.from_bytes(words.tobytes())
    assert (loaded(gpu, other, (8, 3), expect=tile_bytes(tm)) == modelled(gpu, tm, (8, 3), 0)).all()


@pytest.mark.parametrize("operation", ["", "add", "max", "xor"])
def test_stores_and_reductions_write_the_tensor(operation: str) -> None:
    gpu = Device("sm_90a")
    target = gpu.array(TILE.astype(np.uint32)[:, :64].copy())
    tm = TensorMap.tiled(
        data_type="u32", global_address=target.address, global_dim=(60, 48), global_strides=(256,), box_dim=(32, 16), swizzle="128B"
    )
    name = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}" if operation else "cp.async.bulk.tensor.2d.global.shared::cta"
    ptx = kernel(
        f"""
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, smem;
    shl.b32 %r2, %r0, 2;
    add.u32 %r2, %r2, %r1;
    mov.u32 %r3, 0;
FILL:
    mad.lo.u32 %r4, %r3, 77, %r0;
    st.shared.b32 [%r2], %r4;
    add.u32 %r2, %r2, 128;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p0, %r3, 16;
    @%p0 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    {name}.bulk_group [%rd2, {{40, 40}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
DONE:
""",
        ".align 64 .b8 map[128]", shared=2048,
    )  # fmt: skip
    run = gpu.launch(ptx, "k", block=32, args=(tm,))
    shared, world = SharedMemory("sm_90a", size=2048), GlobalMemory()
    shared.write(shared.begin, (np.arange(16)[:, None] * 77 + np.arange(32)).astype(np.uint32))
    at = world.place(TILE.astype(np.uint32)[:, :64], target.address)
    given = {"smem_address": shared.begin, "to": world}
    shared.tma_reduce(operation, tm, (40, 40), **given) if operation else shared.tma_store(tm, (40, 40), **given)
    assert (target.numpy().view(np.uint8).ravel() == world.span(at, 48 * 256)).all()
    (event,) = run.result.events
    assert isinstance(event, Store)
    assert event.operation == operation


@pytest.mark.parametrize(
    ("first", "rows", "stride", "swizzle"),
    [
        pytest.param(0, 4, 128, "", id="inside"),
        pytest.param(0, 4, 128, "128B", id="swizzled"),
        pytest.param(6, 4, 128, "", id="past the tensor's 20 rows"),
        pytest.param(6, 4, 128, "128B", id="past them, swizzled"),
        pytest.param(0, 1, 64, "", id="rows that share bytes: the last CTA's stay"),
    ],
)
def test_stores_of_ctas_write_what_each_would_by_itself(first: int, rows: int, stride: int, swizzle: str) -> None:
    gpu = Gpu("sm_90a")
    target = gpu.array(np.zeros((24, 32), np.uint32))
    tm = TensorMap.tiled(
        data_type="u32", global_address=target.address, global_dim=(32, 20), global_strides=(stride,), box_dim=(32, rows), **({"swizzle": swizzle} if swizzle else {})
    )  # fmt: skip
    ptx = kernel(
        f"""
    mov.u32 %r0, %tid.x;
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r1, smem;
    and.b32 %r2, %r5, 1;
    mad.lo.u32 %r1, %r2, 1024, %r1;
    shl.b32 %r2, %r0, 2;
    add.u32 %r2, %r2, %r1;
    mad.lo.u32 %r4, %r5, 1000, %r0;
    st.shared.b32 [%r2], %r4;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    mov.u32 %r6, 0;
    mad.lo.u32 %r7, %r5, {rows}, {first};
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {{%r6, %r7}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
DONE:
""",
        ".align 64 .b8 map[128]", shared=2048,
    )  # fmt: skip
    done = gpu.launch(ptx, entry="k", grid=4, block=128, args=(tm,), sanitize=stride == 128)
    world = GlobalMemory()
    at = world.place(np.zeros((24, 32), np.uint32), target.address)
    for cta in range(4):
        shared = SharedMemory("sm_90a", size=2048)
        shared.write(shared.begin, (1000 * cta + np.arange(128)).astype(np.uint32))
        shared.tma_store(tm, (0, first + rows * cta), smem_address=shared.begin, to=world)
    assert not done.findings
    assert (target.numpy().view(np.uint8).ravel() == world.span(at, 24 * 128)).all()


@examples(8)
@given(st.integers(0, 40), st.integers(0, 500), st.booleans())
def test_bulk_copies_move_bytes_and_credit_what_they_move(units: int, at: int, through_cluster: bool) -> None:
    gpu = Device("sm_90a")
    data = np.random.default_rng(units).integers(0, 256, 16384).astype(np.uint8)
    source = gpu.array(data)
    space = "shared::cluster" if through_cluster else "shared::cta"
    size = 16 * units
    ptx = kernel(
        start(size)
        + f"""
    ld.param.b64 %rd3, [from];
    cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes [%r1], [%rd3], {size}, [%r2];
"""
        + finish(),
        ".b64 from", ".b64 out", shared=SIZE + 64,
    )  # fmt: skip
    out = gpu.array(np.zeros(SIZE, np.uint8))
    run = gpu.launch(ptx, "k", block=32, args=(source.address + 16 * at, out))
    assert (out.numpy()[:size] == data[16 * at : 16 * at + size]).all()
    assert not out.numpy()[size:].any()
    (event,) = run.result.events
    assert isinstance(event, Bulk)
    assert isinstance(event.transfers[0], BulkTransfer)
    assert {f.code for f in run.result.findings.values()} <= {"R507"}  # of the dump


def test_what_is_over_a_multiple_of_16_bytes_is_noted() -> None:
    gpu = Device("sm_90a")
    source, out = gpu.array(np.ones(64, np.uint8)), gpu.array(np.zeros(SIZE, np.uint8))
    copy = "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3], 40, [%r2];\n"
    ptx = kernel(start(32) + "    ld.param.b64 %rd3, [from];\n" + copy + finish(), ".b64 from", ".b64 out", shared=SIZE + 64)
    run = gpu.launch(ptx, "k", block=32, args=(source, out))
    assert out.numpy().sum() == 32
    assert [f.code for f in run.result.findings.values()] == ["A103", "R507"]


def cluster_kernel(body: str, expect: str, arch: str = "sm_90a") -> str:
    """CTA 0 of a cluster issues; every CTA waits for `expect` bytes and is dumped."""
    return kernel(
        f"""
    mov.u32 %r0, %tid.x;
    ld.param.b64 %rd1, [out];
    ld.param.b64 %rd3, [from];
    mov.u32 %r1, smem;
    add.u32 %r2, %r1, {SIZE};
    mov.u32 %r7, %cluster_ctarank;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    {expect}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], %r8;
READY:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p0 bra ISSUED;
    setp.ne.u32 %p1, %r7, 0;
    @%p1 bra ISSUED;
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
{body}
ISSUED:
"""
        + wait("%r2")
        + dump("%rd1", SIZE),
        ".align 64 .b8 map[128]", ".b64 from", ".b64 out", shared=SIZE + 64, arch=arch,
    )  # fmt: skip


BOTH = pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])  # sm_120a emulates multicast: the same bytes


def in_cluster(body: str, expect: str, arch: str = "sm_90a") -> tuple[np.ndarray, Device, np.ndarray]:
    gpu = Device(arch)
    a, out = gpu.array(TILE), gpu.array(np.zeros((4, SIZE), np.uint8))
    gpu.launch(cluster_kernel(body, expect, arch), "k", grid=4, block=32, cluster=4, args=(tiled(a.address), a, out))
    return out.numpy(), gpu, modelled(gpu, tiled(a.address), (8, 4), 0)


@BOTH
def test_a_multicast_delivers_to_the_ctas_of_its_mask(arch: str) -> None:
    found, _, box = in_cluster(
        """
    mov.b16 %h0, 0b1010;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd2, {8, 4}], [%r2], %h0;
""".replace("0b1010", "10"),
        "and.b32 %r8, %r7, 1; shl.b32 %r8, %r8, 8;",
        arch,
    )
    assert (found[[1, 3]] == box).all()
    assert not found[[0, 2]].any()


@pytest.mark.parametrize("cohorts", ["on", "off"])
@pytest.mark.parametrize(("swizzle", "box"), [("none", (16, 8)), ("128B", (64, 8))])
@pytest.mark.parametrize("step", [10, 22])  # 22: the boxes of the last CTAs reach out of the tensor
def test_loads_that_ctas_issue_at_once_are_those_of_each(
    monkeypatch: pytest.MonkeyPatch, step: int, swizzle: str, box: tuple[int, int], cohorts: str
) -> None:
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    gpu = Device("sm_90a")
    a, out = gpu.array(TILE), gpu.array(np.zeros((4, SIZE), np.uint8))
    tm, size = tiled(a.address, swizzle, box), box[0] * box[1] * 2
    body = f"""
    mov.u32 %r9, %ctaid.x; mul.lo.u32 %r10, %r9, {step}; mul.lo.u32 %r9, %r9, 8;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {{%r9, %r10}}], [%r2];
"""
    gpu.launch(cluster_kernel(body, f"mov.u32 %r8, {size};"), "k", grid=4, block=32, args=(tm, a, out))
    for cta, found in enumerate(out.numpy()):
        assert (found == modelled(gpu, tm, (8 * cta, step * cta), 0)).all()


@pytest.mark.parametrize("what", ["tensor.2d.shared::cluster.global.tile", "shared::cluster.global"])
def test_a_multicast_of_an_empty_mask_delivers_nothing(what: str) -> None:
    operands = "[%r1], [%rd2, {8, 4}], [%r2], %h0" if "tensor" in what else "[%r1], [%rd3], 64, [%r2], %h0"
    found, _, _ = in_cluster(
        f"mov.b16 %h0, 0; cp.async.bulk.{what}.mbarrier::complete_tx::bytes.multicast::cluster {operands};", "mov.u32 %r8, 0;"
    )
    assert not found.any()


@BOTH
def test_a_bulk_multicast_and_a_copy_between_ctas(arch: str) -> None:
    found, _, _ = in_cluster(
        """
    mov.b16 %h0, 3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd3], 64, [%r2], %h0;
    mapa.shared::cluster.u32 %r10, %r1, 2;
    mapa.shared::cluster.u32 %r11, %r2, 2;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r1], 32, [%r11];
""",
        "setp.lt.u32 %p2, %r7, 2; mov.u32 %r8, 0; @%p2 mov.u32 %r8, 64; setp.eq.u32 %p2, %r7, 2; @%p2 mov.u32 %r8, 32;",
        arch,
    )
    head = TILE.view(np.uint8).ravel()
    assert (found[:2, :64] == head[:64]).all()
    assert (found[2, :32] == head[:32]).all()
    assert not found[:2, 64:].any()
    assert not found[2, 32:].any()
    assert not found[3].any()


@pytest.mark.parametrize(("operation", "kind"), [("add", "f16"), ("min", "s32"), ("xor", "b64")])
def test_bulk_reductions_and_copies_out(operation: str, kind: str) -> None:
    gpu = Device("sm_90a")
    new = np.random.default_rng(1).integers(0, 1 << 14, 64).astype(np.uint16).view(np.uint8)
    old = np.random.default_rng(2).integers(0, 1 << 14, 64).astype(np.uint16).view(np.uint8)
    source, target, copy, out = gpu.array(new), gpu.array(old), gpu.array(np.zeros(64, np.uint8)), gpu.array(np.zeros(SIZE, np.uint8))
    rounding = ".noftz" if kind == "f16" else ""
    ptx = kernel(
        start(128)
        + f"""
    ld.param.b64 %rd3, [from];
    ld.param.b64 %rd4, [to];
    ld.param.b64 %rd5, [copy];
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3], 128, [%r2];
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{rounding}.{kind} [%rd4], [%r1], 128;
    cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], 64;
    cp.async.bulk.prefetch.L2.global [%rd3], 64;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
        + finish(),
        ".b64 from", ".b64 to", ".b64 copy", ".b64 out", shared=SIZE + 64,
    )  # fmt: skip
    gpu.launch(ptx, "k", block=32, args=(source, target, copy, out))
    assert (target.numpy() == bulk_reduce_bytes(operation, kind, dst=old, src=new)).all()
    assert (copy.numpy() == new[:64]).all()


def test_a_byte_mask_lets_single_bytes_through() -> None:
    gpu = Device("sm_100a")
    source, target, out = (
        gpu.array(np.arange(1, 65, dtype=np.uint8)),
        gpu.array(np.zeros(64, np.uint8)),
        gpu.array(np.zeros(SIZE, np.uint8)),
    )
    ptx = kernel(
        start(64)
        + """
    ld.param.b64 %rd3, [from];
    ld.param.b64 %rd4, [to];
    mov.b16 %h1, 0x8003;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3], 64, [%r2];
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd4], [%r1], 64, %h1;
"""
        + finish(),
        ".b64 from", ".b64 to", ".b64 out", shared=SIZE + 64, arch="sm_100a",
    )  # fmt: skip
    gpu.launch(ptx, "k", block=32, args=(source, target, out))
    chosen = np.isin(np.arange(64) % 16, (0, 1, 15))
    assert (target.numpy() == np.where(chosen, np.arange(1, 65), 0)).all()


@pytest.mark.parametrize(("more", "codes"), [(0, []), (4, ["T204"])])
def test_a_map_that_the_kernel_changes_counts_as_it_is(more: int, codes: list[str]) -> None:
    """A map in shared memory gets another address and box, goes to global memory, and a load through it brings the
    other array. Of a stride the bytes below
    16 are lost."""
    gpu = Device("sm_90a")
    a, b = gpu.array(np.zeros_like(TILE)), gpu.array(TILE)
    room, out = gpu.array(np.zeros(128, np.uint8)), gpu.array(np.zeros(SIZE, np.uint8))
    ptx = kernel(
        start(128)
        + """
ISSUED:
    ld.param.b64 %rd3, [other];
    ld.param.b64 %rd4, [room];
    mov.u32 %r4, smem;
    add.u32 %r4, %r4, 4096;
    shl.b32 %r5, %r0, 2;
    add.u32 %r6, %r4, %r5;
    mov.b64 %rd5, map;
    cvta.param.u64 %rd5, %rd5;
    cvt.u64.u32 %rd6, %r5;
    add.u64 %rd5, %rd5, %rd6;
    ld.global.b32 %r7, [%rd5];
    st.shared.b32 [%r6], %r7;
    bar.warp.sync 0xffffffff;
    @%p0 bra CHANGED;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r4], %rd3;
    cvt.u64.u32 %rd7, %r4;
    cvta.shared.u64 %rd7, %rd7;
    tensormap.replace.tile.box_dim.b1024.b32 [%rd7], 1, 4;
    tensormap.replace.tile.global_stride.b1024.b64 [%rd7], 0, STRIDE;
CHANGED:
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd4], [%r4], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd4], 128;
    @%p0 bra WAITED;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd4, {16, 8}], [%r2];
WAITED:
    bar.sync 0;
"""
        + wait("%r2")
        + dump("%rd1", SIZE),
        ".align 64 .b8 map[128]", ".b64 other", ".b64 room", ".b64 out", shared=SIZE + 64,
    )  # fmt: skip
    ptx = ptx.replace("STRIDE", str(tiled(a.address).global_strides[0] + more))
    run = gpu.launch(ptx, "k", block=32, args=(tiled(a.address), b, room, out))
    assert [f.code for f in run.result.findings.values() if f.code.startswith("T")] == codes
    assert (out.numpy()[:128].view(np.uint16).reshape(4, 16) == TILE[8:12, 16:32]).all()
    assert TensorMap.from_bytes(room.numpy().tobytes()).box_dim == (16, 4)


def trapped(
    tm: TensorMap | bytes, coordinates: tuple[int, ...] = (0, 0), at: int = 0, map_at: int = 0, *, prefetches: bool = False
) -> list[tuple[str, str, bool]]:
    """The findings of a load: code, message with the fix, and whether they are about a prefetch before it."""
    gpu = Device("sm_90a")
    gpu.memory.place(TILE, 0x10000)
    ptx = kernel(
        start(256)
        + f"""
    add.u32 %r3, %r1, {at};
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    add.u64 %rd2, %rd2, {map_at};
    {f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd2, {{{coordinates[0]}, {coordinates[1]}}}];" * prefetches}
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd2, {{{coordinates[0]}, {coordinates[1]}}}], [%r2];
"""
        + finish(),
        ".align 64 .b8 map[192]", ".b64 out", shared=SIZE + 64,
    )  # fmt: skip
    run = gpu.launch(ptx, "k", block=32, args=(bytes(tm).ljust(192, b"\0"), gpu.array(np.zeros(SIZE, np.uint8))))
    lines = ptx.splitlines()
    return [(found.code, f"{found.message}; {found.repair}", "prefetch" in lines[found.line - 1]) for found in run.result.findings.values()]


@pytest.mark.parametrize(
    ("changes", "code", "error"),
    [
        ({"at": 64}, "A101", 716),
        ({"map_at": 32}, "A104", 716),
        ({"at": SIZE}, "A107", 700),
        ({"coordinates": (1, 0)}, "T205", 715),
    ],
)
@pytest.mark.parametrize("prefetches", [False, True])
def test_what_stops_a_transfer_is_a_finding_with_its_code(changes: dict[str, object], code: str, error: int, prefetches: bool) -> None:
    """A prefetch has no address in shared memory, and traps as the load does for everything else."""
    ((found, message, is_prefetch),) = trapped(tiled(0x10000), prefetches=prefetches, **changes)  # type: ignore[arg-type]
    assert found == code
    assert f"CUDA error {error}" in message
    assert is_prefetch == (prefetches and "at" not in changes)


@pytest.mark.parametrize("prefetches", [False, True])
def test_maps_that_stop_every_transfer_have_their_codes(prefetches: bool) -> None:
    far = TensorMap.tiled(data_type="u16", global_address=0x10000, global_dim=(1 << 32, 4), global_strides=(0,), box_dim=(64, 4))
    nowhere = tiled(0x90000)  # where nobody allocated anything
    filled = TENSOR_MAP.decode(int.from_bytes(bytes(tiled(0x10000)), "little")) | {"nan_fill": 1}
    for_stores = TENSOR_MAP.encode(**filled).to_bytes(128, "little")  # integers have no NaN to fill with, which a store does not do
    for tm, code in ((bytes(128), "T220"), (far, "T212"), (for_stores, "T212"), (nowhere, "X001")):
        ((found, message, is_prefetch),) = trapped(tm, prefetches=prefetches)
        assert (found, is_prefetch) == (code, prefetches and tm is not nowhere)
        assert tm is not nowhere or "global_address 0x90000 is in no array of this GPU" in message
    for dim in (64, 1 << 32):  # a map that traps in its own right, too
        line = TensorMap.tiled(data_type="u16", global_address=0x10000, global_dim=(dim,), global_strides=(), box_dim=(64,))
        ((found, message, _),) = trapped(line, prefetches=prefetches)
        assert (found, "a map of rank 2, or use .1d" in message, "global_dim" in message) == ("T205", True, False)
    # only the threads that copy shared memory to the host's array read what the load has not brought
    assert [(code, of_prefetch) for code, _, of_prefetch in trapped(tiled(0x10000), prefetches=prefetches)] == [("R507", False)]
    high = TensorMap.tiled(data_type="u16", global_address=0x10000, global_dim=(96, 50), global_strides=(192,), box_dim=(16, 8))
    ((code, message, is_prefetch),) = trapped(high, (16, 43), prefetches=prefetches)
    assert (code, is_prefetch) == ("X001", False)
    said = "global_dim [96, 50] and global_strides [192] (bytes), and the box at [16, 43] lies inside of that; .* has 9216 bytes"
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), message)


def test_forms_that_nobody_knows_are_named_before_anything_runs() -> None:
    ptx = kernel(
        "    multimem.st.global.f32 [%rd3], %r1;\n    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.noinc [%r1], [%rd3], 64, [%r2];\n"
    )
    with pytest.raises(InputError, match=r"noinc"):
        Device("sm_90a").launch(ptx, "k")
    ptx = kernel("    multimem.st.global.f32 [%rd3], %r1;\n    multimem.red.global.add.f32 [%rd3], %r1;\n")
    with pytest.raises(Unmodelled, match=r"(?s)multimem\.st.*multimem\.red"):
        Device("sm_90a").launch(ptx, "k")


# CTA 1 of a pair loads into its own shared memory, and the mbarrier of CTA 0 counts the bytes; its threads read without
# a wait.
COUNTED_BY_THE_OTHER = """.version 8.7 .target sm_100a .address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<4>; .shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar;
  mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, %tid.x; setp.ne.u32 %p2, %r2, 0; or.pred %p3, %p1, %p2;
  @%p3 bra MEET; mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p1 bra WAIT; @%p2 bra READ;
  mov.u32 %r3, bar; mapa.shared::cluster.u32 %r3, %r3, 0; mov.u32 %r4, tile; mapa.shared::cluster.u32 %r4, %r4, 1; mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
  cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%d1, {0}], [%r3];
READ: ld.param.u64 %d2, [out]; mad.wide.u32 %d2, %r2, 4, %d2; mad.lo.u32 %r5, %r2, 4, 0; mov.u32 %r6, tile; add.u32 %r6, %r6, %r5;
  ld.shared.u32 %r7, [%r6]; st.global.u32 [%d2], %r7; bra END;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [bar], 0; @!%p0 bra WAIT;
END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }"""


def test_bytes_that_the_mbarrier_of_the_other_cta_counts_are_waited_for() -> None:
    gpu = Gpu("sm_100a")
    a, out = gpu.array(np.arange(128, dtype=np.uint32)), gpu.array(np.zeros(32, np.uint32))
    tm = TensorMap.tiled(data_type="u32", global_address=a.address, global_dim=[128], global_strides=[], box_dim=[128])
    run = gpu.launch(COUNTED_BY_THE_OTHER, "k", grid=2, block=32, cluster=2, args=[tm, out], progress=False)
    assert [(f.code, f.line) for f in run.findings] == [("X004", 10)]
