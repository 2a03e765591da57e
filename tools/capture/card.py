"""What the driver says of the card: its attributes, and how many CTAs of a kernel a multiprocessor holds.

    python -m tools.capture.card OUT

writes OUT/h200_card.npz, which belongs in tests/data: `attributes` (number, value) and `occupancy` (registers of a
thread, static shared bytes, threads, dynamic shared bytes, CTAs). Needs cuda-bindings; NVRTC compiles the kernels.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from cuda.bindings import driver as cu

from smemsim.capture.device import Device, check
from smemsim.testing.recorder import compile_cuda

REGISTERS = (16, 24, 32, 33, 40, 48, 56, 64, 65, 72, 80, 96, 104, 120, 128, 152, 168, 200, 224, 255)
STATIC = (0, 1000)
THREADS = (1, 32, 33, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 512, 640, 672, 768, 896, 992, 1024)
DYNAMIC = (0, 1, 127, 128, 1000, 1024, 7168, 7169, 8192, 16384, 32768, 49152, 65536, 100000, 115712, 116000, 200000, 231424, 232448)
MOST_SHARED = 232448
KERNEL = """extern "C" __global__ void k(int* p) { %s int v[64]; for (int i = 0; i < 64; i++) v[i] = p[i * 7];
for (int j = 0; j < p[9]; j++) for (int i = 0; i < 64; i++) v[i] = v[(i + 1) %% 64] * v[i] + j;
int s = 0; for (int i = 0; i < 64; i++) s ^= v[i]; p[0] = s; }"""


def attributes(card: Device) -> list[tuple[int, int]]:
    asked = ((int(a), cu.cuDeviceGetAttribute(a, card.device)) for a in cu.CUdevice_attribute)
    return sorted({number: int(value) for number, (code, value) in asked if int(code) == 0}.items())


def occupancy(card: Device, registers: int, static: int) -> list[tuple[int, ...]]:
    shared = f"__shared__ char b[{static}]; b[p[3]] = 1; p[5] = b[p[4]];" if static else ""
    image, _ = compile_cuda(KERNEL % shared, card.arch, [f"--maxrregcount={registers}"])
    function = check(cu.cuModuleGetFunction(check(cu.cuModuleLoadData(image)), b"k"))
    which = cu.CUfunction_attribute
    used = int(check(cu.cuFuncGetAttribute(which.CU_FUNC_ATTRIBUTE_NUM_REGS, function)))
    check(cu.cuFuncSetAttribute(function, which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MOST_SHARED - static))
    ask = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor
    return [(used, static, threads, dynamic, int(check(ask(function, threads, dynamic)))) for threads in THREADS for dynamic in DYNAMIC]


def main(out: pathlib.Path) -> None:
    card = Device()
    rows = [row for registers in REGISTERS for static in STATIC for row in occupancy(card, registers, static)]
    np.savez_compressed(out / "h200_card.npz", attributes=np.array(attributes(card)), occupancy=np.array(rows, np.int32))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
