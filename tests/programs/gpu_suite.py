"""Tests for a GPU as somebody has them: nothing here knows of smemsim. They are run with `pytest --smemsim-gpu`."""

import copy
import ctypes
import gc
import runpy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()


def test_a_driver_that_is_made_anew():
    made = triton.backends.backends["nvidia"].driver()
    assert made.get_current_target().backend == "cuda"
    assert torch.zeros(2, device=torch.cuda.current_device()).is_cuda
    assert torch.nn.Linear(2, 2).to(0).weight.is_cuda
    assert torch.nn.Linear(2, 2).to(device="cuda").weight.is_cuda
    with torch.cuda._DeviceGuard(0):
        assert torch.cuda.current_device() == 0
    nvidia = triton._C.libtriton.nvidia
    if not hasattr(nvidia, "device_malloc"):
        return
    at = nvidia.device_malloc(8)
    nvidia.copy_host_to_device(at, b"8 bytes.")
    nvidia.synchronize()
    assert nvidia.copy_device_to_host(at, 8) == b"8 bytes."
    nvidia.device_free(at)


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(out, x, columns, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def product(a, b, c, k, m_block: tl.constexpr, n_block: tl.constexpr, k_block: tl.constexpr):
    row, column = tl.program_id(0) * m_block, tl.program_id(1) * n_block
    total = tl.zeros((m_block, n_block), tl.float32)
    for at in range(0, k, k_block):
        total = tl.dot(a.load([row, at]), b.load([column, at]).T, total)
    c.store([row, column], total.to(tl.float16))


@gluon.jit
def copied(source, to, waits: gl.constexpr):
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.block_type.nbytes)
    tma.async_load(source, [0, 0], bar, tile)
    if waits:
        mbarrier.wait(bar, phase=0)
    tma.async_store(to, [0, 0], tile)
    tma.store_wait(pendings=0)


def test_vector_addition():
    x, y = torch.rand(3000, device=DEVICE), torch.rand(3000, device="cuda")
    out = torch.empty_like(x)
    assert x.is_cuda
    assert x.device == y.device == out.device == DEVICE
    compiled = add[(triton.cdiv(3000, 1024),)](x, y, out, 3000, block=1024)
    torch.testing.assert_close(out, x + y)
    assert 8 <= compiled.n_regs <= 255
    assert compiled.n_spills == 0


def test_softmax():
    x = torch.randn(7, 300, device="cuda")
    out = torch.empty_like(x)
    softmax[(7,)](out, x, 300, block=512)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


def test_product_with_descriptors():
    a, b = (torch.randn(128, 128, device="cuda").to(torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    maps = [TensorDescriptor.from_tensor(t, shape) for t, shape in ((a, [64, 64]), (b, [64, 64]), (c, [64, 64]))]
    compiled = product[(2, 2)](*maps, 128, m_block=64, n_block=64, k_block=64)
    assert ("tcgen05.mma" if torch.cuda.get_device_capability()[0] == 10 else "wgmma.mma_async") in compiled.asm["ptx"]
    torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("waits", [True, False])
def test_copy_through_shared_memory(waits):
    x = torch.randn(32, 64, device="cuda")
    out = torch.zeros_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([32, 64], gl.float32)
    copied[(1,)](*(GluonDescriptor.from_tensor(t, [32, 64], layout) for t in (x, out)), waits)
    if waits:
        torch.testing.assert_close(out, x)


KERNEL = """
import triton
import triton.language as tl

@triton.jit
def rows_of(Source, To, n: tl.constexpr):
    tl.store(To + tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :], Source.load([0, 0]))
"""


def test_strides_of_a_descriptor(tmp_path):
    x, out = torch.rand(64, 64, device="cuda"), torch.empty(64, 64, device="cuda")
    for name, strides in (("original", [64, 1]), ("copied", [32, 1])):  # the second is compiled already
        (tmp_path / f"{name}.py").write_text(KERNEL, encoding="utf-8")
        module = runpy.run_path(str(tmp_path / f"{name}.py"))
        module["rows_of"][(1,)](TensorDescriptor(x, [64, 64], strides, [64, 64]), out, n=64)


@triton.jit
def made_here(source, to, rows, stride, at, n: tl.constexpr):
    made = tl.make_tensor_descriptor(source, shape=[rows, n], strides=[stride, 1], block_shape=[n, n])
    tl.store(to + tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :], made.load([at, 0]))


@pytest.mark.parametrize(("rows", "stride", "at"), [(64, 32, 0), (128, 64, 64)])
def test_descriptors_of_a_kernel(rows, stride, at):
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x, out = torch.rand(64, 64, device="cuda"), torch.empty(64, 64, device="cuda")
    made_here[(1,)](x, out, rows, stride, at, n=64)


def test_past_the_end():
    x, out = torch.rand(256, device="cuda"), torch.empty(250, device="cuda")
    add[(1,)](x, x, out, 256, block=256)


@triton.jit
def counted(counter):
    tl.atomic_add(counter, 1)


@pytest.mark.parametrize("is_set", [False, True])
def test_counting_in_memory_of_the_card(is_set):
    counter = torch.empty(1, dtype=torch.int32, device="cuda")
    if is_set:
        counter.zero_()
    counted[(3,)](counter)
    assert counter.item() == 3


def test_after_a_finding():
    test_vector_addition()


def test_pointers_in_memory():
    inputs = [torch.rand(64, device="cuda") for _ in range(3)]
    pointers = torch.tensor([t.data_ptr() for t in inputs], dtype=torch.int64, device="cuda")
    out = torch.zeros(64, device="cuda")
    summed[(1,)](pointers, out, 3, block=64)
    torch.testing.assert_close(out, sum(inputs))


@triton.jit
def summed(pointers, out, count, block: tl.constexpr):
    at = tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for n in range(count):
        total += tl.load(tl.load(pointers + n).to(tl.pointer_type(tl.float32)) + at)
    tl.store(out + at, total)


@triton.jit
def copied_from(address, out, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, tl.load(address.to(tl.pointer_type(tl.float32)) + at))


def taken(size):
    """A tensor as compiled code takes it of torch: no function of Python's sees it made."""
    with torch._C.DisableTorchFunction():
        return torch.empty(size).uniform_()


def test_memory_that_compiled_code_takes_of_torch():
    out = torch.zeros(64, device="cuda")
    for size in (64, 80, 1 << 20):
        made = taken(size)
        copied_from[(1,)](made.data_ptr() + (size - 64) * 4, out, block=64)
        assert out.tolist() == made[-64:].tolist()
        assert made.is_cuda
        assert torch.equal(made[-64:], out)
        address = made.data_ptr()
        del made
    with torch._C.DisableTorchFunction():
        again = [torch.empty(1 << 20) for _ in range(3)]
    assert not any(x.is_cuda for x in (*again, taken(64))), address


@pytest.mark.parametrize("where", ["behind", "freed", "host"])
def test_past_what_compiled_code_takes_of_torch(where):
    out = torch.zeros(64, device="cuda")
    made = torch.ones(1 << 24) if where == "host" else taken(63 if where == "behind" else 1 << 24)
    address = made.data_ptr()
    if where == "freed":
        copied_from[(1,)](address, out, block=64)
        del made
    copied_from[(1,)](address, out, block=64)


@pytest.mark.parametrize("place", ["cpu", "pinned", "cuda"])
def test_where_a_pointer_may_point(place):
    x = torch.rand(64, device=place if place != "pinned" else "cpu", pin_memory=place == "pinned")
    out = torch.zeros(64, device="cuda")
    if place == "cpu":
        with pytest.raises(ValueError, match="cpu tensor"):
            add[(1,)](x, out, out, 64, block=64)
    else:
        add[(1,)](x, out, out, 64, block=64)
        torch.testing.assert_close(out.cpu(), x.cpu())


def test_too_much_shared_memory():
    a = torch.zeros(512, 512, device="cuda", dtype=torch.float16)
    maps = [TensorDescriptor.from_tensor(a, shape) for shape in ([64, 128], [64, 128], [64, 64])]
    with pytest.raises(triton.runtime.errors.OutOfResources, match=r"(shared|tensor) memory"):
        product[(8, 8)](*maps, 512, m_block=64, n_block=64, k_block=128, num_stages=10)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        add[(1,)](x, x, out, x.numel(), block=64)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty(grad.shape, device="cuda")
        grad = grad.contiguous()
        add[(1,)](grad, grad, out, grad.numel(), block=64)
        return out


def test_backward():
    x = torch.rand(64, device="cuda", requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.is_cuda
    assert (x.grad == 2).all()


@torch.library.custom_op("suite::added", mutates_args=(), device_types="cuda")
def added(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    assert x.is_cuda
    assert out.is_cuda
    add[(1,)](x, x, out, x.numel(), block=64)
    return out


def test_operators_of_a_program():
    added.register_autograd(lambda ctx, grad: added(grad.contiguous()))
    x = torch.ones(40, device="cuda", requires_grad=True)
    y = added(x)
    y.sum().backward()
    assert y.is_cuda
    assert (y == 2).all()
    assert (x.grad == 2).all()
    with pytest.raises(NotImplementedError, match="suite::added"):
        added(torch.ones(40))
    added.register_kernel("cpu", lambda x: x * 3)
    assert (added(torch.ones(40)) == 3).all()
    assert (torch.ops.suite.added(y.detach()) == 4).all()
    graph, z = torch.cuda.CUDAGraph(), torch.ones(40, device="cuda")
    with torch.cuda.graph(graph):
        z += added(z)
    for _ in range(2):
        graph.replay()
    assert (z == 9).all()


def test_graph():
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(1,)](x, out, out, 64, block=64)
    assert not out.any()
    for _ in range(3):
        graph.replay()
    assert (out == 3).all()


def test_autotuner_and_benchmark():
    for given in ({}, {"warmup": 1}, {"use_cuda_graph": True}):
        tuned = triton.autotune([triton.Config({"block": n}) for n in (64, 128)], key=["n"], **given)(add)
        x = torch.ones(128, device="cuda")
        tuned[lambda meta: (triton.cdiv(128, meta["block"]),)](x, x, x, 128)
        assert (x == 2).all()  # by one launch
    calls = []
    assert len(triton.testing.do_bench(lambda: calls.append(0), quantiles=[0.5, 0.2, 0.8])) == 3
    assert len(calls) == 1


def test_hooks():
    seen = []

    def enter(metadata):
        seen.append(metadata.get()["name"])

    triton.knobs.runtime.launch_enter_hook.add(enter)
    try:
        x = torch.ones(64, device="cuda")
        add[(1,)](x, x, x, 64, block=64)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(enter)
    assert seen == ["add"]


class TestTorch:
    def test_places_of_tensors(self):
        x = torch.arange(6, device="cuda", dtype=torch.float32).reshape(2, 3)
        for t in (x, x[0], x + 1, x.T.contiguous(), x.half(), torch.zeros_like(x), x.new_empty(3), x.sum(), torch.cat([x, x]), x.clone()):
            assert t.device == torch.device("cuda", 0)
        assert x.device.type == "cuda"
        assert x.cpu().device.type == x.to("cpu").device.type == torch.zeros_like(x, device="cpu").device.type == "cpu"
        assert x.cpu().cuda().to("cuda:0", torch.float64).is_cuda
        assert torch.empty(0, device="cuda").is_cuda
        assert not torch.ones(3).is_cuda
        assert not torch.add(torch.ones(3), torch.ones(3), alpha=x.sum()).is_cuda
        assert (torch.device(0), repr(x[0]), repr(x.cpu()[0])) == (
            x.device,
            "tensor([0., 1., 2.], device='cuda:0')",
            "tensor([0., 1., 2.])",
        )

    def test_copies_are_copies(self):
        x = torch.zeros(4, device="cuda")
        host = x.cpu()
        host += 1
        assert not x.any()
        assert x.cuda() is x
        with pytest.raises(TypeError, match=r"Tensor\.cpu"):
            x.numpy()
        assert x.cpu().numpy().shape == (4,)

    def test_default_device_and_modules(self):
        with torch.device("cuda"):
            assert torch.ones(3).is_cuda
        torch.set_default_device("cuda")
        assert torch.ones(3).is_cuda
        torch.set_default_device(None)
        assert not torch.ones(3).is_cuda
        layer = torch.nn.Linear(4, 4).cuda()
        assert layer.weight.is_cuda
        assert layer(torch.ones(4, device="cuda")).is_cuda

    def test_random_numbers(self):
        generator = torch.Generator(device="cuda").manual_seed(3)
        first = torch.rand(4, device="cuda", generator=generator)
        assert torch.equal(first, torch.rand(4, device="cuda", generator=generator.manual_seed(3)))
        assert generator.device.type == "cuda"
        torch.cuda.manual_seed(1)
        own = torch.cuda.default_generators[0]
        assert torch.rand(4, device="cuda", generator=own).is_cuda
        for one in (own, generator):
            one.manual_seed(5)
            state = one.get_state()
            assert state.view(torch.int64).tolist() == [5, 0]  # of Philox: seed and offset
            first = torch.rand(4, device="cuda", generator=one)
            seed, offset = one.get_state().view(torch.int64).tolist()
            assert seed == 5
            assert offset > 0
            assert offset % 4 == 0
            one.set_state(state)
            assert torch.equal(first, torch.rand(4, device="cuda", generator=one))
            state.view(torch.int64)[1] += 400  # a kernel's own numbers
            one.set_state(state)
            assert one.get_offset() == 400
            assert not torch.equal(first, torch.rand(4, device="cuda", generator=one))
            with pytest.raises(RuntimeError, match="wrong size"):
                one.set_state(torch.get_rng_state())
        assert torch.cuda.get_rng_state().numel() == 16

    def test_the_card(self):
        properties = torch.cuda.get_device_properties(0)
        assert properties.name == torch.cuda.get_device_name()
        assert properties.multi_processor_count > 100
        assert properties.major == torch.cuda.get_device_capability()[0]
        assert torch.cuda.device_count() == 1
        assert torch.cuda.is_available()
        assert torch.get_device_module() is torch.cuda
        assert torch.get_device_module("cpu") is torch.cpu
        with torch.accelerator.device_index(0):
            assert torch.accelerator.current_device_index() == 0
        assert torch.accelerator.get_memory_info() == torch.cuda.mem_get_info()

    def test_what_torch_looks_at_itself(self):
        functions = {torch.cuda.init, torch.cuda.set_device, torch.cuda.empty_cache, torch.cuda.manual_seed, torch.cuda.manual_seed_all}
        assert len(functions) == 5  # torch._dynamo has a table of them
        with torch.autograd.profiler.profile(
            use_cpu=False, use_device="cuda", use_kineto=True
        ) as profile:  # what torch.profiler.profile makes
            torch.ones(4, device="cuda")
        assert profile.table(sort_by="cuda_time_total")

    def test_memory_is_counted_once_and_given_back(self):
        before, (free, _) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
        x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        view = x[5:]
        del x
        assert torch.cuda.memory_allocated() == before + (1 << 20)
        assert torch.cuda.mem_get_info()[0] == free - (1 << 20)
        del view
        assert torch.cuda.memory_allocated() == before

    def test_streams_and_events(self):
        stream, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            assert torch.cuda.current_stream() == stream
            begin.record()
            end.record()
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) > 0
        stream.wait_stream(torch.cuda.current_stream())
        assert not torch.cuda.is_current_stream_capturing()
        of_any, host = torch.Stream("cuda"), torch.Event("cpu")
        assert [isinstance(x, torch.Stream) for x in (of_any, stream, end)] == [True, True, False]
        assert [isinstance(x, torch.Event) for x in (host, end, stream)] == [True, True, False]
        assert [isinstance(x, kind) for x, kind in ((of_any, torch.cuda.Stream), (host, torch.cuda.Event))] == [True, False]
        with torch.Stream():
            torch.Event(device="cuda").record()

    def test_alignment_of_memory(self):
        made = [torch.empty(n, device="cuda") for n in (1, 3, 100, 10_000)]
        made += [made[2] + 1, torch.ones(5).cuda(), torch.empty(0, device="cuda").resize_(7)]
        assert [x.data_ptr() % 512 for x in made] == [0] * len(made)

    def test_graph_with_functions_of_torch(self):
        x, total, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            between = x * 2
            total += 1
            add[(1,)](between, torch.ones_like(x), out, 64, block=64)
            after = out.relu()
        assert not total.any()
        x.fill_(5)
        graph.replay()
        graph.replay()
        assert (after == 11).all()
        assert (total == 2).all()

    def test_autocast(self):
        a, layer = torch.ones(4, 4, device="cuda"), torch.nn.Linear(4, 4).cuda()
        assert not torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (a @ a).dtype is torch.bfloat16
            assert torch.is_autocast_enabled("cuda")
        with torch.amp.autocast("cuda"):
            assert layer(a).dtype is torch.float16
        assert layer(a).dtype is torch.float32

    def test_threads_see_the_card(self):
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(lambda n: torch.nn.Linear(n, n).cuda()(torch.ones(n, device="cuda")), (2, 3)))
        assert all(x.is_cuda for x in made)

    def test_training_and_files(self, tmp_path):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).to("cuda:0")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(3, 4, device="cuda")).sum().backward()
        optimizer.step()
        torch.save(copy.deepcopy(model).state_dict(), tmp_path / "model")
        assert all(x.is_cuda for x in torch.load(tmp_path / "model").values())
        assert not any(x.is_cuda for x in torch.load(tmp_path / "model", map_location="cpu").values())

    def test_losses_and_gradients_of_16_bit_numbers_are_summed_as_on_a_card(self):
        rows = torch.zeros(4096, dtype=torch.long, device="cuda")
        logits = torch.zeros(4096, 3, device="cuda", dtype=torch.half)
        logits[:, 1] = 6
        assert torch.nn.functional.cross_entropy(logits, rows).item() == pytest.approx(
            6.005, abs=4e-3
        )  # the CPU's sum in 16 bits is far off
        table = torch.zeros(2, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        torch.nn.functional.embedding(rows, table).sum().backward()
        assert table.grad.tolist() == [[4096.0] * 8, [0.0] * 8]

    def test_sums_of_16_bit_norms_are_exact_enough(self):
        x = torch.randn(2000, 8, device="cuda").half()
        bias = torch.zeros(8, device="cuda", dtype=torch.half, requires_grad=True)
        torch.nn.functional.layer_norm(x, (8,), None, bias).backward(x)
        assert (bias.grad.double() - x.double().sum(0)).abs().max() < 0.05
        y = 1000 + torch.arange(769, device="cuda") % 17 / 8.0
        assert torch.equal(torch.nn.functional.layer_norm(y, y.shape), torch.nn.functional.layer_norm(y.double(), y.shape).float())

    @pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning")
    def test_transforms_and_compilers(self):
        x = torch.ones(3, 2, device="cuda")
        assert torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(x).is_cuda
        slope = torch.func.jvp(lambda v: (v * v).sum(), (x,), (torch.ones_like(x),))[1]
        assert slope.is_cuda
        assert torch.allclose(slope, 2 * x.sum())
        with torch.autograd.forward_ad.dual_level():  # torch makes scripts of its own rules for it
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            assert torch.allclose(torch.autograd.forward_ad.unpack_dual(dual.sin()).tangent, x.cos())
        assert torch.jit.script(torch.nn.Linear(2, 2).cuda())(x).is_cuda
        assert x.to_sparse().is_cuda
        assert x.to_sparse().to_dense().is_cuda

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
    def test_kernels_of_inductor_are_launched(self):
        """Forward and backward, with a break in the graph; compiled code for tensors of the host is other code."""
        launched = []

        def enter(metadata):
            launched.append(metadata.get()["name"])

        def scaled(x, w):
            y = torch.relu(x @ w * 2)
            torch._dynamo.graph_break()
            return (torch.softmax(y + torch.arange(8, device="cuda"), -1) * y).sum()

        x = torch.randn(16, 4, device="cuda")
        one, other = (torch.randn(4, 8, device="cuda", generator=torch.manual_seed(1)).requires_grad_() for _ in range(2))
        triton.knobs.runtime.launch_enter_hook.add(enter)
        try:
            torch.compile(scaled)(x, one).backward()
        finally:
            triton.knobs.runtime.launch_enter_hook.remove(enter)
        scaled(x, other).backward()
        assert torch.allclose(one.grad, other.grad, atol=1e-4)
        assert len([name for name in launched if name.startswith("triton_")]) >= 3
        doubled = torch.compile(lambda v: v * 2, mode="max-autotune")
        assert doubled(x).is_cuda
        assert not doubled(x.cpu()).is_cuda
        assert doubled(x).is_cuda

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore:TRITON_DEFAULT_FP_FUSION:UserWarning")
    def test_tensors_of_a_class_of_the_program(self):
        class Scaled(torch.Tensor):  # as torchao's quantized weights
            @staticmethod
            def __new__(cls, data, scale):
                return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32, device=data.device)

            def __init__(self, data, scale):
                self.data_, self.scale = data, scale

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                if func is torch.ops.aten.detach.default:
                    return torch.utils._python_dispatch.return_and_correct_aliasing(
                        func, args, kwargs or {}, cls(args[0].data_.detach(), args[0].scale)
                    )
                whole = torch.zeros(4, 4, device=args[0].device) + next(x.data_.float() * x.scale for x in args if isinstance(x, cls))
                doubled = torch.empty_like(whole)
                add[(1,)](whole, whole, doubled, whole.numel(), block=16)
                return func(*(doubled / 2 if isinstance(x, cls) else x for x in args), **(kwargs or {}))

        for place in ("cuda", "cpu"):
            torch._dynamo.reset()
            data = torch.arange(16, dtype=torch.int8).reshape(4, 4).to(place)
            weight = torch.nn.Parameter(Scaled(data, 0.5), requires_grad=False)
            x = torch.ones(2, 4, device=place, requires_grad=True)
            assert weight.device.type == x.device.type == place
            if place == "cpu":
                with pytest.raises(ValueError, match="cpu tensor"):
                    torch.nn.functional.linear(x, weight)
                continue
            y = torch.nn.functional.linear(x, weight)
            assert y.is_cuda
            assert torch.equal(y, x @ (data.float() * 0.5).T)
            y.sum().backward()
            assert x.grad.is_cuda

    def test_other_libraries_are_told_of_the_memory(self):
        x = torch.ones(3, device="cuda")
        assert x.__cuda_array_interface__["data"] == (x.data_ptr(), False)
        assert not hasattr(x.cpu(), "__cuda_array_interface__")
        assert torch.from_dlpack(x).is_cuda
        assert x.__dlpack_device__() == (2, 0)

    @pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no C interface of DLPack")
    def test_the_c_interface_of_dlpack(self):
        pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        at = pointer_of(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
        functions = (ctypes.c_void_p * 7).from_address(at)  # behind a header of 16 bytes: allocate, give, take, show, stream

        def call(n, *given):
            return ctypes.PYFUNCTYPE(ctypes.c_int, *map(type, given))(functions[n])(*given)

        def back(managed):
            kind, out = ctypes.c_int32.from_address(managed.value + 40).value, ctypes.c_void_p()
            assert call(4, managed, ctypes.pointer(out)) == 0
            return kind, ctypes.cast(ctypes.pointer(out), ctypes.POINTER(ctypes.py_object))[0]

        for x, kind in ((torch.ones(2, 3, device="cuda"), 2), (torch.ones(2, 3, dtype=torch.int8), 1)):
            capsule = torch._C._to_dlpack(x)  # as cuTile asks
            assert ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + 8).value == kind
            given, like, made = ctypes.c_void_p(), (ctypes.c_int64 * 6)(), ctypes.c_void_p()
            assert call(3, ctypes.c_void_p(id(x)), ctypes.pointer(given)) == 0
            seen, y = back(given)
            assert (seen, y.device, y.data_ptr()) == (kind, x.device, x.data_ptr())
            assert call(5, ctypes.c_void_p(id(x)), ctypes.cast(like, ctypes.c_void_p)) == 0
            assert call(2, ctypes.cast(like, ctypes.c_void_p), ctypes.pointer(made), ctypes.c_void_p(), ctypes.c_void_p()) == 0
            seen, y = back(made)
            assert (seen, y.device, y.shape, y.dtype) == (kind, x.device, x.shape, x.dtype)
            assert y.data_ptr() != x.data_ptr()

    def test_what_a_card_refuses(self):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 42, device="cuda")
        with pytest.raises(RuntimeError, match="INVALID_DEVICE"):
            torch.ones(1, device="cuda:1")

    def test_statistics_and_types_by_name(self):
        x = torch.cuda.FloatTensor([1, 2])
        assert isinstance(x, torch.cuda.FloatTensor)
        assert torch.ones(2).type("torch.cuda.HalfTensor").is_cuda
        stats = torch.cuda.memory_stats()
        assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated() > 0
        assert stats["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
        before = torch.cuda.max_memory_allocated()
        gone = torch.empty(1 << 22, dtype=torch.uint8, device="cuda")
        del gone
        assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated() >= max(before, 1 << 22)
        assert [stats[f"inactive_split{what}.all.{when}"] for what in ("", "_bytes") for when in ("current", "peak")] == [0] * 4
        assert "allocated" in torch.cuda.memory_summary().lower()
        torch.cuda.empty_cache()
        torch.cuda.current_stream().synchronize()
        x.record_stream(torch.cuda.Stream())

    def test_histogram_of_integers(self):
        x = torch.tensor([1, 1, 3], dtype=torch.int32, device="cuda")
        counts = torch.histc(x, bins=4, min=0, max=3)
        assert counts.is_cuda
        assert counts.tolist() == [0, 2, 0, 1]

    def test_packed_elements_are_copied_in_another_order(self):
        x = torch.randint(0, 256, (256, 192), dtype=torch.uint8, device="cuda")
        packed = x.view(torch.float4_e2m1fn_x2)
        into = torch.empty_like(packed.t().contiguous())
        assert into.copy_(packed.t()) is into
        for copied in (
            into,
            packed.t().contiguous(),
            packed.t().clone(memory_format=torch.contiguous_format),
            torch.clone(input=packed.t()).flatten(),
            packed.t().flatten(),
            packed.t().reshape(-1),
        ):
            assert (copied.dtype, copied.is_cuda) == (torch.float4_e2m1fn_x2, True)
            assert torch.equal(copied.view(torch.uint8).flatten(), x.t().reshape(-1))

    def test_products_of_cublas(self):
        a, b, c = torch.randn(8, 16, device="cuda"), torch.randn(4, 16, device="cuda"), torch.empty(8, 4, device="cuda")
        cublas = triton._C.libtriton.nvidia.cublas.CublasLt(torch.empty(16, device="cuda"))
        cublas.matmul(a, b, c)
        torch.testing.assert_close(c, a @ b.T)
        values = torch.tensor(
            [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        )  # of 4 bits, a sign and one of these; two are a byte, the first one its lower half
        codes = [torch.arange(rows * 32).reshape(rows, 32) * step % 16 for rows, step in ((8, 5), (4, 7))]
        packed = [(code[:, ::2] | code[:, 1::2] << 4).to(torch.uint8).cuda() for code in codes]
        scales = [torch.tensor([0.5, 1, 2])[torch.arange(512).reshape(128, 4) % 3].to(torch.float8_e4m3fn) for _ in range(2)]
        tiles = [
            s.view(torch.uint8).reshape(4, 32, 4).permute(1, 0, 2).contiguous().flatten().cuda().view(torch.float8_e4m3fn) for s in scales
        ]
        cublas.block_scaled_matmul_nvfp4(*packed, c, *tiles)
        x, y = (
            torch.cat([values, -values])[code] * s.float()[: len(code), :2].repeat_interleave(16, 1)
            for code, s in zip(codes, scales, strict=True)
        )
        torch.testing.assert_close(c.cpu(), x @ y.t(), rtol=0, atol=0)

    def test_products_with_another_type_of_the_result(self):
        a = (torch.arange(64, device="cuda").reshape(8, 8) + 0.5).to(torch.bfloat16)
        wide = a.float() @ a.float().t()
        assert torch.equal(torch.mm(a, a.t(), out_dtype=torch.float32), wide)
        assert torch.equal(torch.bmm(a[None], a.t()[None], torch.float32)[0], wide)
        assert torch.equal(torch.addmm(torch.zeros_like(a), a, a.t(), out_dtype=torch.float32), wide)

    def test_products_of_8_bit_floats_with_a_power_of_two_to_32(self):
        """torch._scaled_mm of MXFP8, scales in tiles of 128 rows by 4: those of row r are at 16 (r % 32) + 4 (r / 32)."""
        a, b = (torch.randint(-3, 4, (128, 128)).to(torch.float8_e4m3fn).cuda() for _ in range(2))
        scales = [torch.randint(125, 130, (128, 4), dtype=torch.uint8) for _ in range(2)]
        tiles = [s.reshape(4, 32, 4).permute(1, 0, 2).contiguous().flatten().cuda().view(torch.float8_e8m0fnu) for s in scales]
        got = torch._scaled_mm(a, b.t(), *tiles, out_dtype=torch.float32)
        x, y = (v.float().cpu() * torch.exp2(s.float() - 127).repeat_interleave(32, 1) for v, s in zip((a, b), scales, strict=True))
        assert got.is_cuda
        torch.testing.assert_close(got.cpu(), x @ y.t(), rtol=0, atol=0)


@triton.jit
def doubled(x, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def twice(x):
    out = torch.empty_like(x)
    doubled[(1,)](x, out, x.numel(), block=64)
    return out


def test_operators_of_torch_library():
    x = torch.arange(5.0, device=DEVICE)
    with torch.library._scoped_library("smemsim_suite", "FRAGMENT") as made:
        made.define("twice(Tensor x) -> Tensor")
        made.impl("twice", twice, "CUDA")
        assert torch.equal(torch.ops.smemsim_suite.twice(x), x + x)
        with pytest.raises(NotImplementedError, match="'CPU' backend"):
            torch.ops.smemsim_suite.twice(x.cpu())

    @torch.library.custom_op("smemsim_suite::anywhere", mutates_args=())
    def anywhere(x: torch.Tensor) -> torch.Tensor:
        return twice(x)

    @torch.library.custom_op("smemsim_suite::apart", mutates_args=(), device_types="cuda")
    def apart(x: torch.Tensor) -> torch.Tensor:
        return twice(x)

    apart.register_kernel("cpu")(lambda x: 3 * x)
    anywhere.register_autograd(lambda context, gradient: anywhere(gradient.contiguous()))
    for out in (anywhere(x), apart(x)):
        assert out.is_cuda
        assert torch.equal(out, x + x)
    assert torch.equal(apart(x.cpu()), 3 * x.cpu())
    leaf = x.clone().requires_grad_()
    anywhere(leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 5


def test_operators_of_torch_that_are_replaced_on_the_card():
    x, made = torch.arange(5.0, device=DEVICE), []
    with torch.library._scoped_library("aten", "IMPL") as replaced:
        replaced.impl("neg", twice, "CUDA")
        replaced.impl("ones", lambda size, device=None, **_: made.append(device) or torch.full(size, 7.0, device=device), "CUDA")
        assert torch.equal(-x, x + x)
        assert torch.ones(2, device=DEVICE).tolist() == [7.0, 7.0]
        assert [device.type for device in made] == ["cuda"]
        assert (-x.cpu()).tolist() == [-0.0, -1.0, -2.0, -3.0, -4.0]
        assert torch.ones(2).tolist() == [1.0, 1.0]
        assert torch.equal(x.cpu().to(DEVICE), x)
        replaced.impl("add.Tensor", lambda x, y, alpha=1: twice(x), "CUDA")
        assert torch.equal(x + 1, 2 * x)
        for host in (torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.float16), torch.ones((), dtype=torch.float32)):
            for number in (3, 0.25, True):
                assert torch.equal(host + number, host - -number)
                assert (host + number).dtype == torch.result_type(host, number)
    assert (-x).tolist() == [-0.0, -1.0, -2.0, -3.0, -4.0]


def test_a_compiled_kernel_is_launched_without_its_constexprs():
    x, out = torch.arange(5.0, device=DEVICE), torch.zeros(5, device=DEVICE)
    compiled = doubled[(1,)](x, out, 5, block=64)
    for more in ((), (64,)):
        out.zero_()
        compiled[(1, 1, 1)](x, out, 5, *more)
        assert torch.equal(out, x + x)
    with pytest.raises(TypeError, match="argument 2 of its signature is no constexpr"):
        compiled[(1, 1, 1)](x, out)


def test_python_collects_garbage_when_it_likes_on_a_card():
    x, out = torch.arange(5.0, device=DEVICE), torch.zeros(5, device=DEVICE)
    doubled[(1,)](x, out, 5, block=64)
    before = gc.get_threshold()
    gc.freeze()  # what there is need not be looked at again and again
    try:
        for allocations in range(20, 700, 8):
            gc.collect()
            for _ in range(4):
                ring = [torch.zeros(8, device=DEVICE)]
                ring.append(ring)
            gc.set_threshold(allocations)
            out.zero_()
            doubled[(1,)](x, out, 5, block=64)
            gc.set_threshold(*before)
            assert torch.equal(out, x + x)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_a_profiler_that_knows_real_cards_alone():
    proton = pytest.importorskip("triton.profiler")
    session = proton.start("smemsim_suite", hook="triton")
    proton.activate(session)
    x = torch.ones(5, device=DEVICE)
    with proton.scope("here"):
        assert torch.equal(twice(x), x + x)
    proton.deactivate(session)
    proton.finalize()


def test_fake_tensors_are_where_a_card_has_them():
    fakes = pytest.importorskip("torch._subclasses.fake_tensor")
    real, host = torch.ones(4, 4, device=DEVICE), torch.ones(4)
    with fakes.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(real)
        made = [fake, torch.empty_like(fake), torch.empty(3, device=DEVICE), fake + 1, fake.new_zeros(2), fake + real, fake.cpu().cuda()]
        assert all(x.is_cuda and x.device.type == "cuda" for x in made)
        made = [
            fake.new_tensor([1.0]),
            torch.empty(2).to(DEVICE),
            torch.nn.functional.conv2d(fake[None, None], fake[None, None]),
            fake[torch.arange(2), 0],
        ]
        assert all(x.is_cuda for x in made)  # torch's C++ asks which device is current
        assert not any(x.is_cuda for x in (fake.cpu(), torch.empty(3), mode.from_tensor(host)))
    assert (real + 1).is_cuda


def test_an_operator_is_compared_with_its_fake():
    """As torch.library.opcheck does."""
    utils = pytest.importorskip("torch._subclasses.fake_utils")

    @torch.library.custom_op("smemsim_suite::squared", mutates_args=(), device_types="cuda")
    def squared(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).copy_(x * x)

    squared.register_fake(torch.empty_like)
    x = torch.arange(3.0, device=DEVICE)
    with utils.CrossRefFakeMode():
        y = squared(x)
    assert torch.equal(y.cpu(), torch.tensor([0.0, 1.0, 4.0]))


def test_compiled_code_finds_the_card_that_has_the_tensors():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        pytest.skip(str(e))
    x, kind = torch.zeros(4, device=DEVICE), ctypes.c_uint()
    assert driver.cuInit(0) == 0
    assert driver.cuPointerGetAttribute(ctypes.byref(kind), 2, ctypes.c_uint64(x.data_ptr())) == 0
    assert kind.value == 2  # CU_MEMORYTYPE_DEVICE
    torch.cuda.current_stream()  # begins with the card, whose context is current in this thread then
    context = ctypes.c_void_p()
    assert driver.cuStreamGetCtx(None, ctypes.byref(context)) == 0
    assert context.value


@triton.jit
def product_of_tiles(a, b, c, n: tl.constexpr):
    at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
    tl.store(c + tl.program_id(0) * n * n + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def sum_of_tiles(c, out, n: tl.constexpr, columns):
    column = tl.arange(0, n)[None, :]
    at = tl.arange(0, n)[:, None] * n + column
    tl.store(out + at, tl.load(c + at) + tl.load(c + n * n + at), mask=column < columns)


USES = {
    "columns": lambda c, out: out[:, :20].sum(),
    "questions": lambda c, out: (
        c.is_floating_point(),
        c.to("cuda").shape,
        c.cuda().dtype,
        c.contiguous().T,
        torch.zeros_like(c),
        c.reshape(-1),
    ),
    "valid": lambda c, out: c[:, :, :20].sum(),
    "zeros": lambda c, out: c.zero_().sum(),
    "clone": lambda c, out: c.clone()[:, :, :20].cpu(),
    "cpu": lambda c, out: c.cpu(),
    "element": lambda c, out: c[1, 3, 20].item(),
    "copy": lambda c, out: torch.empty_like(c).copy_(c).sum().item(),
    "unread": lambda c, out: torch.empty_like(c).copy_(c).sum(),
    "moved": lambda c, out: (
        torch.where(torch.arange(32, device="cuda") < 20, c, torch.zeros_like(c)).sum().item(),
        c.index_select(2, torch.arange(20, device="cuda")).sum().item(),
        torch.cat([c, c])[:, :, :20].sum().item(),
        c[0].t().contiguous()[:20].cpu(),
        c.repeat(2, 1, 1).flip(0)[..., :20].tolist(),
        torch.zeros(2, 32, 32, device="cuda").copy_(c)[..., :20].cpu(),
        c.clone().masked_fill_(torch.arange(32, device="cuda") >= 20, 0).sum().item(),
    ),
    "computed": lambda c, out: (
        c.to(torch.float16)[..., :20].cpu(),
        (2 * c.relu() + 1)[..., :20].cpu(),
        c.sum(dim=1)[:, :20].cpu(),
        torch.allclose(c[..., :20], c[..., :20].clone()),
        c.mul_(2)[..., :20].cpu(),
    ),
    "overwritten": lambda c, out: (c.relu_().__setitem__((..., slice(20, None)), 0), c.sum().item()),
    "converted": lambda c, out: c.to(torch.float16).relu().cpu(),
    "list": lambda c, out: c.tolist(),
    "row": lambda c, out: c[1, 3].cpu(),
    "one column more": lambda c, out: c[..., :21].cpu(),
    "rows": lambda c, out: (c[1].cpu(), torch.cat([c, c]).cpu(), c.sum(dim=1).cpu(), c.transpose(0, 1).contiguous().cpu()),
    "transform of columns": lambda c, out: (
        torch.fft.fft(c, dim=1).conj()[..., :20].cpu(),
        torch.fft.ifft(torch.fft.fft(c, dim=1) * 2, dim=1).real[..., :20].sum().item(),
        torch.view_as_real(torch.complex(c, c).conj().resolve_conj())[:, :, :20].cpu(),
        torch.fft.irfft(torch.fft.rfft(c, dim=1), dim=1)[..., :20].tolist(),
    ),
    "transform of rows": lambda c, out: torch.fft.rfft(c, dim=2)[..., :20].cpu(),
    "no numbers": lambda c, out: (c.__setitem__((..., slice(0, 20)), float("nan")), c.tolist(), c.cpu()),
    "chosen by value": lambda c, out: c[c < 0].tolist(),
    "summed": lambda c, out: c.sum(dim=2).cpu(),
    "chosen": lambda c, out: c.index_select(2, torch.arange(21, device="cuda")).tolist(),
    "decides": lambda c, out: bool((c > 1e9).any()),
}


@pytest.mark.parametrize("use", USES)
def test_columns_that_nothing_has_written_are_scratch(use):
    n = 32
    a, b, c = (
        torch.ones(n, n, device="cuda").half(),
        torch.empty(n, n, device="cuda", dtype=torch.float16),
        torch.empty(2, n, n, device="cuda"),
    )
    b[:, :20] = 1
    out = torch.zeros(n, n, device="cuda")
    product_of_tiles[(2,)](a, b, c, n)
    sum_of_tiles[(1,)](c, out, n, 20)
    USES[use](c, out)
    assert out.sum().item() == 2 * n * n * 20
