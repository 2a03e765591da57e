"""The side of TRITON_INTERPRET=1 and of numba's CUDA simulator, run by `peers.py`: four kernels as their tutorials
write them, timed when asked.
"""

import json
import os
import sys
import time

os.environ |= {"TRITON_INTERPRET": "1", "NUMBA_ENABLE_CUDASIM": "1"}

import numpy as np
import torch
import triton
import triton.language as tl

try:
    from numba import cuda
except ImportError:
    cuda = None

ROWS, ELEMENTS, FEW = 256, 1 << 18, 1 << 14


@triton.jit
def add_kernel(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, out, columns, stride, block: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, block)
    inside = column < columns
    values = tl.load(x + row * stride + column, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + column, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def layernorm_kernel(x, weight, bias, out, columns, eps, block: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, block)
    inside = column < columns
    values = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    apart = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / columns + eps)
    result = apart * scale * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(out + row * columns + column, result, mask=inside)


@triton.jit
def matmul_kernel(a, b, c, n, k, height: tl.constexpr, width: tl.constexpr, depth: tl.constexpr):
    rows = tl.program_id(0) // (n // width) * height + tl.arange(0, height)
    columns = tl.program_id(0) % (n // width) * width + tl.arange(0, width)
    total = tl.zeros((height, width), dtype=tl.float32)
    for begin in range(0, k, depth):
        along = begin + tl.arange(0, depth)
        left = tl.load(a + rows[:, None] * k + along[None, :])
        right = tl.load(b + columns[None, :] * k + along[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def _triton():
    """(call, what it gives, what that should be nearly) by name."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(ELEMENTS, generator=generator) for _ in range(2))
    out = torch.zeros_like(x)
    yield "add", lambda: add_kernel[(ELEMENTS // 1024,)](x, y, out, ELEMENTS, block=1024), out, x + y
    rows = torch.randn(ROWS, 704, generator=generator)
    soft = torch.zeros_like(rows)
    yield "softmax", lambda: softmax_kernel[(ROWS,)](rows, soft, 704, 704, block=1024), soft, torch.softmax(rows, 1)
    tall = torch.randn(ROWS, 600, generator=generator).half()
    weight, bias = (torch.randn(600, generator=generator) for _ in range(2))
    norm = torch.zeros_like(tall)
    wanted = torch.nn.functional.layer_norm(tall.float(), (600,), weight, bias, 1e-5).half()
    yield "layernorm", lambda: layernorm_kernel[(ROWS,)](tall, weight, bias, norm, 600, 1e-5, block=1024), norm, wanted
    # Of bf16 the interpreter's products are not near any (Triton 3.9): of f16.
    a, b = (torch.randn(512, 512, generator=generator).half() for _ in range(2))
    c = torch.zeros(512, 512).half()
    product = (a.float() @ b.float().T).half()
    yield "matmul", lambda: matmul_kernel[(16,)](a, b, c, 512, 512, height=128, width=128, depth=64), c, product


def _added(x, y, out):
    at = cuda.grid(1)
    if at < x.shape[0]:
        out[at] = x[at] + y[at]


def _numba():
    if cuda is None:
        return
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(FEW).astype(np.float32) for _ in range(2))
    out = np.zeros_like(x)
    yield "few add", lambda: cuda.jit(_added)[FEW // 256, 256](x, y, out), out, x + y


def main(results):
    calls, said = {}, {}
    for name, call, gives, wanted in _triton():
        call()
        error = float((gives.float() - wanted.float()).abs().max() / wanted.float().abs().max())
        assert error < 2**-7, (name, error)
        calls["triton", name] = call
        said[f"triton {name}"] = f"triton {triton.__version__}, {error:.1e} of the largest element beside torch"
    for name, call, gives, wanted in _numba():
        call()
        assert (gives == wanted).all()
        calls["numba", name] = call
        said[f"numba {name}"] = "equal to numpy"
    np.savez(results)
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        peer, name, count = json.loads(line)
        begin = time.process_time()
        for _ in range(count):
            calls[peer, name]()
        print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
