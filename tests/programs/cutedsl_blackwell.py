"""A persistent GEMM on tcgen05 in CuTe DSL: C = A B^T in fp16, one buffer, its CTAs loop over tiles; then the same
without a wait.
"""

import cutlass
import torch
from cutlass import cute, memory, pipeline, utils
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import blackwell_helpers

M, N, K = 256, 128, 128
TILE = (128, 64, 64)
THREADS = 128


@cute.struct
class Storage:
    full: cute.struct.MemRange[cutlass.Int64, 2]
    done: cute.struct.MemRange[cutlass.Int64, 2]
    tmem: cutlass.Int32


@cute.kernel
def gemm(
    mma: cute.TiledMma, load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor, c: cute.Tensor,
    layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout, count: cutlass.Int32,
    waits: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    first, _, _ = cute.arch.block_idx()
    step, _, _ = cute.arch.grid_dim()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = memory.SmemAllocator()
    storage = smem.allocate(Storage)
    s_a = smem.allocate_tensor(element_type=cutlass.Float16, layout=layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
    s_b = smem.allocate_tensor(element_type=cutlass.Float16, layout=layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)
    full, done = storage.full.data_ptr(), storage.done.data_ptr()
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init(done, 1)
    cute.arch.mbarrier_init_fence()
    tmem = memory.TmemAllocator(storage.tmem.ptr, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS))
    tmem.allocate(64)
    tmem.wait_for_alloc()
    pointer = tmem.retrieve_ptr(cutlass.Float32)
    cute.arch.sync_threads()
    size = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
    size += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
    slice_of = mma.get_slice(0)
    r_a, r_b = mma.make_fragment_A(s_a), mma.make_fragment_B(s_b)
    acc = cute.make_tensor(pointer, mma.make_fragment_C(mma.partition_shape_C(TILE[:2])).layout)
    whole = ((cute.size(acc, mode=[0, 0]), cute.size(acc, mode=[0, 1])),)
    acc_epilogue = cute.zipped_divide(acc, whole)
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32)
    copy = tcgen05.make_tmem_copy(atom, acc_epilogue[None, 0])
    mine = copy.get_slice(thread)
    source = mine.partition_S(acc_epilogue)
    phase = cutlass.Int32(0)
    for tile in cutlass.range(first, count, step):
        place = (tile % (M // TILE[0]), tile // (M // TILE[0]), None)
        g_a = slice_of.partition_A(cute.local_tile(a, TILE, place, proj=(1, None, 1)))
        g_b = slice_of.partition_B(cute.local_tile(b, TILE, place, proj=(None, 1, 1)))
        g_c = slice_of.partition_C(cute.local_tile(c, TILE, place, proj=(1, 1, None)))
        one = cute.make_layout(1)
        to_a, from_a = cpasync.tma_partition(load_a, 0, one, cute.group_modes(s_a, 0, 3), cute.group_modes(g_a, 0, 3))
        to_b, from_b = cpasync.tma_partition(load_b, 0, one, cute.group_modes(s_b, 0, 3), cute.group_modes(g_b, 0, 3))
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for k in cutlass.range(K // TILE[2]):
            if warp == 0:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full, size)
                cute.copy(load_a, from_a[None, k], to_a[None, 0], tma_bar_ptr=full)
                cute.copy(load_b, from_b[None, k], to_b[None, 0], tma_bar_ptr=full)
                if cutlass.const_expr(waits):
                    cute.arch.mbarrier_wait(full, phase)
                for inner in cutlass.range_constexpr(cute.size(r_a, mode=[2])):
                    at = (None, None, inner, 0)
                    cute.gemm(mma, acc, r_a[at], r_b[at], acc)
                    mma.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(done)
            cute.arch.mbarrier_wait(done, phase)
            phase ^= 1
        target = mine.partition_D(cute.zipped_divide(g_c, whole))
        values = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float32)
        out = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float16)
        cute.copy(copy, source[None, None, 0], values)
        cute.arch.fence_view_async_tmem_load()
        out.store(values.load().to(cutlass.Float16))
        cute.autovec_copy(out, target[None, None, 0])
        cute.arch.sync_threads()
    tmem.relinquish_alloc_permit()
    tmem.free(pointer)


@cute.jit
def multiply(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, most: cutlass.Constexpr, waits: cutlass.Constexpr):
    k_major = cute.nvgpu.OperandMajorMode.K
    op = tcgen05.MmaF16BF16Op(
        cutlass.Float16, cutlass.Float32, (*TILE[:2], 16), tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM, k_major, k_major
    )
    mma = cute.make_tiled_mma(op)
    layout_a = blackwell_helpers.make_smem_layout_a(mma, TILE, a.element_type, 1)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, TILE, b.element_type, 1)
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    load_a, t_a = cute.nvgpu.make_tiled_tma_atom_A(load, a, cute.select(layout_a, mode=[0, 1, 2]), TILE, mma)
    load_b, t_b = cute.nvgpu.make_tiled_tma_atom_B(load, b, cute.select(layout_b, mode=[0, 1, 2]), TILE, mma)
    count = (M // TILE[0]) * (N // TILE[1])
    gemm(mma, load_a, t_a, load_b, t_b, c, layout_a, layout_b, count, waits).launch(grid=(min(most, count), 1, 1), block=(THREADS, 1, 1))


def main(waits):
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, (rows, K), device="cuda").to(torch.float16) for rows in (M, N))
    c = torch.empty(M, N, dtype=torch.float16, device="cuda")
    most = utils.HardwareInfo().get_max_active_clusters(1)
    multiply(from_dlpack(a), from_dlpack(b), from_dlpack(c), most, waits)
    torch.cuda.synchronize()
    assert torch.equal(c.cpu(), (a.float() @ b.float().t()).to(torch.float16).cpu())
    print(f"PASS with {most} clusters at once")


main(True)
main(False)
