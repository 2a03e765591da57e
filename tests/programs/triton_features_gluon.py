"""The part of `triton_features.py` that wants Gluon (Triton 3.4 and later)."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def more(x, out, n, B: gl.constexpr):  # noqa: N803
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    gl.store(out + at, gl.load(x + at, mask=at < n) + 1, mask=at < n)


@gluon.jit
def through_shared_memory(x, out, B: gl.constexpr, S: gl.constexpr):  # noqa: N803
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    rows = gl.arange(0, B, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, B, layout=gl.SliceLayout(0, layout))
    at = rows[:, None] * B + columns[None, :]
    shared = gl.allocate_shared_memory(gl.float32, [B, B], S)
    shared.store(gl.load(x + at))
    gl.store(out + at, shared.load(layout) * 2)


def run():
    x = torch.rand(200, device="cuda")
    out = torch.zeros_like(x)
    more[(2,)](x, out, 200, 128)
    assert torch.equal(out, x + 1)
    x = torch.rand(32, 32, device="cuda")
    out = torch.zeros_like(x)
    through_shared_memory[(1,)](x, out, 32, gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    assert torch.equal(out, x * 2)
