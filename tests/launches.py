"""Small kernels for the tests of the executor: a body of PTX, registers of every width, and what it leaves in an array."""

import numpy as np

from smemsim.gpu.launch import Gpu

__all__ = ["kernel", "launch", "results"]

REGISTERS = ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %d<40>; .reg .f32 %f<20>; .reg .f64 %g<8>; .reg .b128 %q<4>;"
SHARED = ".shared .align 16 .b8 sm[4096];\n.shared .align 8 .b64 bar[4];\n"


def kernel(parameters: int, body: str, *, variables: str = SHARED, locals_: str = "", arch: str = "sm_90a") -> str:
    """An entry `k` of 64-bit parameters, which stand in %d20, %d21 ...; %r1 is the thread, %p9 says that it is the first."""
    names = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "\n".join(f"ld.param.u64 %d{20 + n}, [p{n}];" for n in range(parameters))
    return f"""
.version 8.7
.target {arch}
.address_size 64
{variables}
.visible .entry k({names}) {{
{REGISTERS}
{locals_}
{loads}
mov.u32 %r1, %tid.x;
setp.eq.u32 %p9, %r1, 0;
{body}
ret;
}}
"""


def launch(body: str, *arrays: np.ndarray, block: int = 32, arch: str = "sm_90a", text=(), **shape) -> list[np.ndarray]:
    """Run a body on arrays, whose addresses stand in %d20 and so on; returns them as they are afterwards."""
    gpu = Gpu(arch)
    placed = [gpu.array(a) for a in arrays]
    gpu.launch(kernel(len(arrays), body, arch=arch, **dict(text)), "k", block=block, args=placed, **shape)
    return [p.numpy() for p in placed]


def results(body: str, *, block: int = 32, kind: type = np.uint32, **given) -> np.ndarray:
    """What each thread of each CTA leaves in %r2 (or for 8-byte kinds in %d2)."""
    size = np.dtype(kind).itemsize
    grid = given.get("grid", 1)
    store = f"""
mov.u32 %r50, %ctaid.x; mov.u32 %r51, %ntid.x; mad.lo.u32 %r50, %r50, %r51, %r1;
mul.wide.u32 %d30, %r50, {size}; add.u64 %d30, %d20, %d30; st.global.b{8 * size} [%d30], {"%r2" if size == 4 else "%d2"};"""
    (out,) = launch(body + store, np.zeros(block * grid, kind), block=block, **given)
    return out if grid == 1 else out.reshape(grid, block)
