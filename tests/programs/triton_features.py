"""What a launcher of Triton has to do, each in a part of its own, with the features that the installed Triton has;
since Triton 3.3.

    smemsim exec --arch sm_90a -- python triton_features.py

A line for each part; the exit code is 1 where one of them failed.
"""

import concurrent.futures
import contextlib
import sys
import traceback

import torch
import triton
import triton.language as tl

try:
    from triton import knobs
except ImportError:  # Triton 3.3
    knobs = None

DEVICE = "cuda"
PARTS = {}


class Absent(Exception):
    """This Triton has no such thing."""


def part(function):
    PARTS[function.__name__] = function
    return function


def found(module, *names):
    """What a module has by one of these names."""
    try:
        loaded = __import__(module, fromlist=["x"])
    except ImportError:
        raise Absent(module) from None
    for name in names:
        if hasattr(loaded, name):
            return getattr(loaded, name)
    raise Absent(f"{module}.{names[0]}")


def finished(kernel):
    return kernel.result() if hasattr(kernel, "result") else kernel


def refused(error, text, call):
    """Does a call raise this error, with this text?"""
    try:
        call()
    except error as e:
        return text in str(e)
    return False


def blocks_of(n):
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


def rand(*shape, dtype=torch.float32):
    return torch.rand(*shape, device=DEVICE).to(dtype)


@triton.jit
def add(x, y, out, n, stride, BLOCK: tl.constexpr, SCALE: tl.constexpr = 2):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at * stride, tl.load(x + at, mask) + SCALE * tl.load(y + at, mask), mask)


@part
def constexprs_and_ones():
    for n in (1, 16, 100):
        x, y, out = rand(n), rand(n), torch.zeros(n * 2, device=DEVICE)
        add[(triton.cdiv(n, 128),)](x, y, out, n, 1, BLOCK=128)
        assert torch.allclose(out[:n], x + 2 * y)
        add[blocks_of(n)](x, y, out, n, 2, 64, SCALE=3)
        assert torch.allclose(out[::2], x + 3 * y)
    add.run(x, y, out, n, 1, BLOCK=128, grid=(1,), warmup=False)
    assert torch.allclose(out[:n], x + 2 * y)


@triton.jit
def numbers(out, a, b, c, d, e, f):
    tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d.to(tl.float64))
    tl.store(out + 4, e.to(tl.float64))
    tl.store(out + 5, f.to(tl.float64))


@part
def numbers_of_all_sizes():
    out = torch.zeros(6, dtype=torch.float64, device=DEVICE)
    for given in ((7, -3, 1 << 40, 1.5, True, (1 << 63) + 5), (17, -(1 << 31), -(1 << 40), 1e300, False, -0.25)):
        numbers[(1,)](out, *given)
        assert out.tolist() == [float("inf") if x == 1e300 else float(x) for x in given]


@triton.jit
def converted(x, out, T: tl.constexpr, B: tl.constexpr):  # noqa: N803
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at).to(T).to(tl.float32))


@part
def a_type_as_argument():
    x = rand(32)
    out = torch.empty_like(x)
    for kind, same in ((tl.float16, torch.float16), (tl.bfloat16, torch.bfloat16)):
        converted[(1,)](x, out, kind, B=32)
        assert torch.equal(out, x.to(same).float())


@triton.jit
def of_tuple(pair, out, extra, B: tl.constexpr):  # noqa: N803
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(pair[0] + at) * pair[1][0] + tl.load(pair[1][1] + at) + extra[0])


@part
def tuples():
    x, y = rand(32), rand(32)
    out = torch.empty_like(x)
    for scale, extra in ((1, 2), (3, 2), (16, tl.constexpr(7))):
        of_tuple[(1,)]((x, (scale, y)), out, (extra,), B=32)
        assert torch.allclose(out, x * scale + y + getattr(extra, "value", extra))


@triton.jit
def maybe(x, y, out, B: tl.constexpr):  # noqa: N803
    at = tl.arange(0, B)
    value = tl.load(x + at)
    if y is not None:
        value += tl.load(y + at)
    tl.store(out + at, value)


@part
def none():
    x, y = rand(32), rand(32)
    out = torch.empty_like(x)
    for other in (None, y):
        maybe[(1,)](x, other, out, 32)
        assert torch.equal(out, x if other is None else x + y)


@triton.jit
def by_host(source, target, M: tl.constexpr, N: tl.constexpr):  # noqa: N803
    i, j = tl.program_id(0), tl.program_id(1)
    target.store([i * M, j * N], source.load([i * M, j * N]) * 2)


@part
def descriptors_of_the_host():
    make = found("triton.tools.tensor_descriptor", "TensorDescriptor").from_tensor
    for dtype in (torch.float16, torch.float32, torch.uint8):
        x = (rand(100, 96) * 100).to(dtype)
        y = torch.zeros_like(x)
        by_host[(4, 3)](make(x, [32, 32]), make(y, [32, 32]), 32, 32)
        assert torch.equal(y, x * 2)


@triton.jit
def by_address(source, target, M: tl.constexpr, N: tl.constexpr):  # noqa: N803
    tl._experimental_descriptor_store(target, tl._experimental_descriptor_load(source, [0, 0], [M, N], tl.float32) * 2, [0, 0])


@part
def descriptors_at_an_address_of_the_host():
    make = found("triton.tools.experimental_descriptor", "create_2d_tma_descriptor")
    for n in (32, 64):
        x = rand(64, n)
        y = torch.zeros_like(x)
        by_address[(1,)](make(x.data_ptr(), 64, n, 32, n, 4), make(y.data_ptr(), 64, n, 32, n, 4), 32, n)
        assert torch.equal(y[:32], x[:32] * 2)
        assert (y[32:] == 0).all()


@triton.jit
def by_device(source, target, rows, columns, M: tl.constexpr, N: tl.constexpr):  # noqa: N803
    a = tl.make_tensor_descriptor(source, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    b = tl.make_tensor_descriptor(target, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    i, j = tl.program_id(0), tl.program_id(1)
    b.store([i * M, j * N], a.load([i * M, j * N]) * 2)


@triton.jit
def by_device_at_first(source, target, rows, columns, M: tl.constexpr, N: tl.constexpr):  # noqa: N803
    a = tl._experimental_make_tensor_descriptor(source, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    b = tl._experimental_make_tensor_descriptor(target, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    i, j = tl.program_id(0), tl.program_id(1)
    b.store([i * M, j * N], a.load([i * M, j * N]) * 2)


@part
def descriptors_of_the_kernel():
    sizes = []

    def allocate(size, align, stream):
        sizes.append(size)
        return torch.empty(size, device=DEVICE, dtype=torch.int8)

    triton.set_allocator(allocate)
    x = rand(100, 96)
    y = torch.zeros_like(x)
    kernel = by_device if hasattr(tl, "make_tensor_descriptor") else by_device_at_first
    kernel[(4, 3)](x, y, 100, 96, 32, 32)
    assert torch.equal(y, x * 2)
    assert sizes


@triton.autotune([triton.Config({"BLOCK": size}, num_warps=warps) for size in (64, 128) for warps in (2, 4)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at) + 1)
    else:
        tl.store(out + at, tl.load(x + at, at < n) + 1, at < n)


@part
def autotuner_and_heuristics():
    for n in (256, 300, 256):
        x = rand(n)
        out = torch.zeros_like(x)
        tuned[blocks_of(n)](x, out, n)
        assert torch.equal(out, x + 1)
    assert len(tuned.cache) == 2
    assert triton.testing.do_bench(lambda: tuned[blocks_of(n)](x, out, n)) > 0


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    rows, columns, depth = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left, right = tl.load(a + rows[:, None] * K + (k + depth)[None, :]), tl.load(b + (k + depth)[:, None] * N + columns[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums)


@part
def dot():
    a, b = (torch.randn(128, 128, device=DEVICE, dtype=torch.float16) for _ in range(2))
    c = torch.zeros(128, 128, device=DEVICE)
    product[(1, 1)](a, b, c, 128, 128, 128, 128, 128, 64)
    assert torch.allclose(c, a.float() @ b.float(), atol=2e-2)
    c.zero_()
    product[(2, 2)](a, b, c, 128, 128, 128, 64, 64, 32)
    assert torch.allclose(c, a.float() @ b.float(), atol=2e-2)


@part
def clusters():
    x, y = rand(512), rand(512)
    out = torch.zeros_like(x)
    kernel = add[(2,)](x, y, out, 512, 1, BLOCK=256, num_ctas=2)
    assert torch.allclose(out, x + 2 * y)
    at_once = triton.runtime.driver.active.utils.cuOccupancyMaxActiveClusters
    has_dimensions = hasattr(kernel.metadata, "cluster_dims")  # up to Triton 3.5
    assert at_once(kernel.function, kernel.metadata.shared, 2, *([1, 1] if has_dimensions else [])) > 0
    if torch.cuda.get_device_capability()[0] == 9:
        a, b = torch.randn(128, 64, device=DEVICE).half(), torch.randn(64, 128, device=DEVICE).half()
        c = torch.zeros(128, 128, device=DEVICE)
        product[(1, 1)](a, b, c, 128, 128, 64, 128, 128, 64, num_ctas=2)
        assert torch.allclose(c, a.float() @ b.float(), atol=2e-2)


@part
def compiled_before():
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    kernel = finished(add.warmup(x, y, out, 128, 1, BLOCK=128, grid=(1,)))
    assert (out == 0).all()
    kernel[(1, 1, 1)](x, y, out, 128, 1, 128, 2)
    assert torch.allclose(out, x + 2 * y)
    assert kernel.n_regs > 0
    assert kernel.n_spills >= 0
    kernel = finished(add.warmup(torch.float32, torch.float32, torch.float32, 128, 1, BLOCK=64, grid=(1,)))
    out.zero_()
    kernel[(2, 1, 1)](x, y, out, 128, 1, 64, 2)
    assert torch.allclose(out, x + 2 * y)
    assert refused(TypeError, "argument", lambda: kernel[(1, 1, 1)](x, y))


@part
def preloaded():
    kept = []

    def keep(*_, **told):
        kept.append(told["compile"]["specialization_data"])

    place, name = (triton.runtime.jit.JITFunction, "cache_hook") if knobs is None else (knobs.runtime, "jit_cache_hook")
    setattr(place, name, keep)
    try:
        add.warmup(torch.float32, torch.float32, torch.float32, 128, 1, BLOCK=32, grid=(1,))
    finally:
        setattr(place, name, None)
    add.device_caches.clear()
    add.preload(kept[0])
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    add[(4,)](x, y, out, 128, 1, BLOCK=32)
    assert torch.allclose(out, x + 2 * y)


@contextlib.contextmanager
def around_launches(enter, leave):
    """Hooks by the way that this Triton has."""
    place = triton.compiler.CompiledKernel if knobs is None else knobs.runtime
    if hasattr(place.launch_enter_hook, "add"):
        place.launch_enter_hook.add(enter)
        place.launch_exit_hook.add(leave)
        yield
        place.launch_enter_hook.remove(enter)
        place.launch_exit_hook.remove(leave)
    else:
        place.launch_enter_hook, place.launch_exit_hook = enter, leave
        yield
        place.launch_enter_hook = place.launch_exit_hook = None


@part
def hooks():
    told = []
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    with around_launches(lambda of: told.append(("enter", of.get()["name"])), lambda of: told.append(("leave", of.get()["name"]))):
        add[(1,)](x, y, out, 128, 1, BLOCK=128)
    assert told == [("enter", "add"), ("leave", "add")]


@triton.jit
def meet(x, n: tl.constexpr):
    tl.atomic_add(x, 1, sem="release", scope="gpu")
    while tl.atomic_add(x, 0, sem="acquire", scope="gpu") < n:
        pass


@part
def cooperative():
    x = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    meet[(4,)](x, 4, launch_cooperative_grid=True)
    assert x.item() == 4
    assert refused(RuntimeError, "Triton Error [CUDA]", lambda: meet[(1 << 20,)](x, 4, launch_cooperative_grid=True))


@part
def dependent():
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    try:
        add[(1,)](x, y, out, 128, 1, BLOCK=128, launch_pdl=True)
    except KeyError:
        raise Absent("launch_pdl") from None
    assert torch.allclose(out, x + 2 * y)


def times(x, out, n, B: tl.constexpr):  # noqa: N803
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * n, at < n)


whatever_n = triton.jit(times, do_not_specialize=["n"])
whatever_place = triton.jit(times, do_not_specialize_on_alignment=["x"])


@part
def not_specialised():
    x = rand(32)
    out = torch.zeros_like(x)
    for kernel in (whatever_n, whatever_place):
        for n in (1, 16, 32):
            kernel[(1,)](x, out, n, 32)
            assert torch.equal(out[:n], x[:n] * n)
    assert len(whatever_n.device_caches[0][0]) == 1


@part
def compiled_meanwhile():
    mode = found("triton.runtime._async_compile", "AsyncCompileMode")
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    with concurrent.futures.ThreadPoolExecutor(2) as pool, mode(pool):
        add.warmup(x, y, out, 128, 1, BLOCK=16, SCALE=9, grid=(1,))
        add[(4,)](x, y, out, 128, 1, BLOCK=32, SCALE=9)
    assert torch.allclose(out, x + 9 * y)


@part
def gluon():
    found("triton.experimental.gluon", "jit")
    import triton_features_gluon

    triton_features_gluon.run()


@triton.jit
def tell(n):
    tl.device_print("n", n)


@part
def printing():
    tell[(1,)](5, num_warps=1)


@part
def a_tensor_of_the_host():
    assert refused(ValueError, "cpu tensor", lambda: whatever_n[(1,)](torch.rand(32), torch.zeros(32, device=DEVICE), 3, 32))


@part
def more_shared_memory_than_there_is():
    from triton.runtime.errors import OutOfResources

    a = torch.randn(512, 512, device=DEVICE, dtype=torch.float16)
    c = torch.zeros(512, 512, device=DEVICE)
    assert refused(OutOfResources, "shared memory", lambda: product[(1, 1)](a, a, c, 512, 512, 512, 256, 256, 256, num_stages=4))


@part
def graph():
    x, y = rand(128), rand(128)
    out = torch.zeros_like(x)
    add[(1,)](x, y, out, 128, 1, BLOCK=128)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        add[(1,)](x, y, out, 128, 1, BLOCK=128)
    out.zero_()
    x.fill_(1)
    captured.replay()
    assert torch.allclose(out, 1 + 2 * y)


def main(chosen):
    failed = 0
    for name, run in PARTS.items():
        if chosen and name not in chosen:
            continue
        try:
            run()
            print("passed", name, flush=True)
        except Absent as e:
            print("absent", name, e, flush=True)
        except Exception:
            failed += 1
            print("FAILED", name, flush=True)
            traceback.print_exc()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
