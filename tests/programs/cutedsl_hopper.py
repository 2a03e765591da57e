"""Programs in CuTe DSL for Hopper: an addition with printf, through a graph and events, a persistent GEMM on wgmma, and
a launch that is refused.
"""

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute, memory, tensor_utils, testing, utils
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import hopper_helpers

M, N, K = 128, 128, 128
TILE = (64, 64, 64)
THREADS = 128


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 64 + thread
    if at < n:
        b[at] = a[at] + b[at]
    if at == 0:
        cute.printf("n is {}", n)


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, n: cutlass.Int32, stream: cuda.CUstream):
    add_kernel(a, b, n).launch(grid=(2, 1, 1), block=(64, 1, 1), stream=stream)


@cute.struct
class Storage:
    full: cute.struct.MemRange[cutlass.Int64, 2]


@cute.kernel
def gemm(
    mma: cute.TiledMma, load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor, c: cute.Tensor,
    layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout, count: cutlass.Int32,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    first, _, _ = cute.arch.block_idx()
    step, _, _ = cute.arch.grid_dim()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = memory.SmemAllocator()
    storage = smem.allocate(Storage)
    s_a = smem.allocate_tensor(element_type=cutlass.Float16, layout=layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
    s_b = smem.allocate_tensor(element_type=cutlass.Float16, layout=layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)
    full = storage.full.data_ptr()
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(full, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    size = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1]))
    size += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1]))
    of_group, of_thread = mma.get_slice(0), mma.get_slice(thread)
    r_a, r_b = mma.make_fragment_A(of_group.partition_A(s_a)), mma.make_fragment_B(of_group.partition_B(s_b))
    phase = cutlass.Int32(0)
    for tile in cutlass.range(first, count, step):
        place = (tile % (M // TILE[0]), tile // (M // TILE[0]), None)
        g_a = cute.local_tile(a, TILE, place, proj=(1, None, 1))
        g_b = cute.local_tile(b, TILE, place, proj=(None, 1, 1))
        g_c = of_thread.partition_C(cute.local_tile(c, TILE, place, proj=(1, 1, None)))
        one = cute.make_layout(1)
        to_a, from_a = cpasync.tma_partition(load_a, 0, one, cute.group_modes(s_a, 0, 2), cute.group_modes(g_a, 0, 2))
        to_b, from_b = cpasync.tma_partition(load_b, 0, one, cute.group_modes(s_b, 0, 2), cute.group_modes(g_b, 0, 2))
        acc = cute.make_rmem_tensor(g_c.shape, cutlass.Float32)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(K // TILE[2]):
            if warp == 0:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full, size)
                cute.copy(load_a, from_a[None, k], to_a[None, 0], tma_bar_ptr=full)
                cute.copy(load_b, from_b[None, k], to_b[None, 0], tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, phase)
            phase ^= 1
            warpgroup.fence()
            for inner in cutlass.range_constexpr(cute.size(r_a, mode=[2])):
                cute.gemm(mma, acc, r_a[None, None, inner, 0], r_b[None, None, inner, 0], acc)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            cute.arch.sync_threads()
        out = cute.make_rmem_tensor(g_c.shape, cutlass.Float16)
        out.store(acc.load().to(cutlass.Float16))
        cute.autovec_copy(out, g_c)


@cute.jit
def multiply(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, most: cutlass.Constexpr):
    k_major = cute.nvgpu.OperandMajorMode.K
    half = cutlass.Float16
    mma = hopper_helpers.make_trivial_tiled_mma(half, half, k_major, k_major, cutlass.Float32, (1, 1, 1), TILE[:2])
    layout_a = hopper_helpers.make_smem_layout_a(tensor_utils.LayoutEnum.ROW_MAJOR, TILE, half, 1)
    layout_b = hopper_helpers.make_smem_layout_b(tensor_utils.LayoutEnum.ROW_MAJOR, TILE, half, 1)
    load = cpasync.CopyBulkTensorTileG2SOp()
    load_a, t_a = cpasync.make_tiled_tma_atom(load, a, cute.select(layout_a, mode=[0, 1]), (TILE[0], TILE[2]))
    load_b, t_b = cpasync.make_tiled_tma_atom(load, b, cute.select(layout_b, mode=[0, 1]), (TILE[1], TILE[2]))
    count = (M // TILE[0]) * (N // TILE[1])
    gemm(mma, load_a, t_a, load_b, t_b, c, layout_a, layout_b, count).launch(grid=(min(most, count), 1, 1), block=(THREADS, 1, 1))


def addition():
    stream = torch.cuda.Stream()
    queue = cuda.CUstream(stream.cuda_stream)
    a = torch.arange(100, dtype=torch.float32, device="cuda")
    b = torch.zeros_like(a)
    given = (from_dlpack(a), from_dlpack(b), 100, queue)
    compiled = cute.compile(add, *given)
    compiled(*given)
    torch.cuda.synchronize()
    assert torch.equal(b, a)
    time = testing.benchmark(compiled, kernel_arguments=testing.JitArguments(*given), stream=queue, use_cuda_graphs=True, iterations=50)
    older = cute.testing.benchmark(compiled, kernel_arguments=testing.JitArguments(*given), stream=queue, iterations=50)
    print(f"addition PASS, {time > 0 and older > 0}, sum {float(b[1])}")


def product():
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, (rows, K), device="cuda").to(torch.float16) for rows in (M, N))
    c = torch.empty(M, N, dtype=torch.float16, device="cuda")
    most = utils.HardwareInfo().get_max_active_clusters(1)
    multiply(from_dlpack(a), from_dlpack(b), from_dlpack(c), most)
    torch.cuda.synchronize()
    assert torch.equal(c.cpu(), (a.float() @ b.float().t()).to(torch.float16).cpu())
    print(f"product PASS with {most} clusters at once")


@cute.kernel
def nothing():
    return


@cute.jit
def refused():
    nothing().launch(grid=(3, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1))


addition()
product()
refused()
print("not reached")
