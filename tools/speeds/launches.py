"""Races of kernels that are executed from their PTX, with the sanitizer on: recorded launches of golden/, and what a
second process adds.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

import smemsim
from smemsim.diagnosis.gpu import Gpu
from smemsim.evidence.launches import load_launch_file
from smemsim.run.engine.launch import RunOptions
from smemsim.virtual import Policy, VirtualDevice
from tools.speeds.race import Differs, Race, Row, processor, timed

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "golden" / "sm_90a" / "launches" / "kernels"
ELEMENTS, BLOCK = 1 << 20, 256
TRIPS = 16384  # of the loop that two processes share
ADD = """
.version 8.0 .target sm_90a .address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 trips) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [z]; ld.param.u32 %r5, [trips];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %d4, %r4, 4;
  add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;
  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2];
AGAIN: add.rn.f32 %f1, %f1, %f2; sub.u32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra AGAIN;
  st.global.f32 [%d3], %f1; ret; }
"""


def _product(name: str, shape: tuple[int, int, int]) -> Callable[[], Race]:
    """A recorded Triton kernel, C = A B^T; nothing may be found, and the product is near numpy's."""

    def start() -> Race:
        file = load_launch_file(KERNELS / name)
        m, n, k = shape
        rng = np.random.default_rng(1)
        a, b = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n))
        gpu = Gpu("sm_90a")
        arrays, args = file.placed(gpu)

        def ours() -> smemsim.Run:
            return gpu.run(file.ptx, file.config(args), RunOptions(progress=False, workers=1))

        if found := ours().findings:
            raise Differs(f"{name}: {found[0]}")
        wide = {key: (x.numpy().view(np.uint16).astype(np.uint32) << 16).view(np.float32) for key, x in arrays.items()}
        exact = wide["a"].reshape(m, k) @ wide["b"].reshape(n, k).T
        error = np.abs(wide["c"].reshape(m, n) - exact).max() / np.abs(exact).max()
        if error > 2**-8:
            raise Differs(f"{name}: {error:.1e} of the largest element off")
        return Race(timed(ours), timed(lambda: a @ b.T), "bits of an H200 by `smemsim replay`; the sanitizer on")

    return start


def _added(elements: int, trips: int, workers: int) -> tuple[Callable[[], smemsim.Run], np.ndarray, np.ndarray]:
    gpu, rng = Gpu("sm_90a"), np.random.default_rng(1)
    x, y = rng.integers(0, 4, (2, elements)).astype(np.float32)
    arrays = [gpu.array(v) for v in (x, y, np.zeros_like(x))]

    def call() -> smemsim.Run:
        return gpu.launch(ADD, "add", grid=elements // BLOCK, block=BLOCK, args=[*arrays, trips], progress=False, workers=workers)

    call()
    if (arrays[2].numpy() != x + trips * y).any():
        raise Differs("x + y is another one")
    return call, x, y


def _elementwise() -> Race:
    call, x, y = _added(ELEMENTS, 1, 1)
    return Race(timed(call), timed(lambda: x + y), f"equal: all {ELEMENTS:,} elements")


def _two() -> Race:
    return Race(*(timed(_added(ELEMENTS // 4, TRIPS, workers)[0]) for workers in (2, 1)), "the same bytes; their start is in the time")


def _door() -> Race:
    """What the virtual device adds to a launch: the same kernel by `VirtualDevice.launch` and by `Gpu.launch`, findings
    looked at in both.
    """
    call, x, y = _added(ELEMENTS // 4, 1, 1)
    device = VirtualDevice("sm_90a", policy=Policy.of(quiet=True))
    out = np.zeros_like(x)
    addresses = [device.bind(array) for array in (x, y, out)]
    kernel = device.load(ADD).function("add")
    arguments = [*(address.to_bytes(8, "little") for address in addresses), (1).to_bytes(4, "little")]

    def ours() -> object:
        return device.launch(kernel, (len(x) // BLOCK, 1, 1), (BLOCK, 1, 1), arguments)

    ours()
    if (out != x + y).any():
        raise Differs("x + y is another one")
    return Race(processor(ours), processor(lambda: call().findings), f"equal: all {len(x):,} elements; processor time")


# fmt: off
ROWS_OF_LAUNCHES = (
    Row("run", "run a Triton bf16 product, 512 x 512 x 512, the sanitizer on", "numpy's float32 product", 512**3, "MAC", _product("triton_matmul_512", (512, 512, 512)), long=True),
    Row("run", "run one CTA of a Triton bf16 product, 128 x 128 x 1024, the sanitizer on", "numpy's float32 product", 128 * 128 * 1024, "MAC", _product("triton_matmul_k1024", (128, 128, 1024)), long=True),
    Row("run", "run an elementwise sum of 2^20 float32", "numpy's sum", ELEMENTS, "elements", _elementwise, long=True),
    Row("run", "launch an elementwise sum of 2^18 float32 on the virtual device", "Gpu.launch", ELEMENTS // 4, "elements", _door, long=True),
    Row("run", "run 1024 CTAs in two processes", "in one", ELEMENTS // 4 * TRIPS, "additions", _two, rounds=2, long=True),
)
# fmt: on
