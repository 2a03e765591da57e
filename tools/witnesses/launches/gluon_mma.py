"""Gluon kernels around one tcgen05.mma chain: every swizzle and major, operands of threads, accumulators they begin, A
in tensor memory.
"""

# ruff: noqa: N803 - constants of a kernel are its arguments; its lists are the compiler's
from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

from tools.witnesses.launches.launch_cases import Array, Case, Constant, Descriptor, Value
from tools.witnesses.launches.triton_matmuls import NORMAL, SMALL, product

__all__ = ["BITS", "CASES", "powers_of_two"]


@gluon.jit
def dense(
    a_desc, b_desc, d_ptr, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr,
    D: gl.constexpr, D_TYPE: gl.constexpr, VARIANT: gl.constexpr,
):  # fmt: skip
    """D = A B, both brought by TMA, one buffer, an MMA chain over K. A is [M, K] ([K, M] if A_T), B is [N, K] ([K, N]
    if B_T).
    """
    a_buffer = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_buffer = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    multiplied = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    acc = allocate_tensor_memory(D_TYPE, [BLOCK_M, BLOCK_N], D)
    phase = 0
    for k in range(0, K, BLOCK_K):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        if A_T:
            tma.async_load(a_desc, [k, 0], loaded, a_buffer)
            a = a_buffer.permute((1, 0))
        else:
            tma.async_load(a_desc, [0, k], loaded, a_buffer)
            a = a_buffer
        if B_T:
            tma.async_load(b_desc, [k, 0], loaded, b_buffer)
            b = b_buffer
        else:
            tma.async_load(b_desc, [0, k], loaded, b_buffer)
            b = b_buffer.permute((1, 0))
        mbarrier.wait(loaded, phase)
        tcgen05_mma(a, b, acc, use_acc=k > 0)
        tcgen05_commit(multiplied)
        mbarrier.wait(multiplied, phase)
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(multiplied)
    result = acc.load(acc.get_reg_layout(instr_variant=VARIANT))
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, BLOCK_M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * BLOCK_N + columns, result)


@gluon.jit
def written(
    a_ptr, b_ptr, d_ptr,
    M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, A: gl.constexpr, B: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """Operands that threads write to shared memory (A [M, K], B [K, N], any layout): generic proxy, fence, one MMA
    chain.
    """
    registers: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    am = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    ak = gl.arange(0, K, gl.SliceLayout(0, registers))[None, :]
    bk = gl.arange(0, K, gl.SliceLayout(1, registers))[:, None]
    bn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    a_buffer = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [M, K], A, gl.load(a_ptr + am * K + ak))
    b_buffer = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [K, N], B, gl.load(b_ptr + bk * N + bn))
    fence_async_shared()
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], D)
    tcgen05_mma(a_buffer, b_buffer, acc, use_acc=False, mbarriers=[bar])
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    result = acc.load()
    at: gl.constexpr = result.type.layout
    rows = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * N + columns, result)


@gluon.jit
def accumulated(
    a_ptr, b_ptr, c_ptr, d_ptr,
    M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, A: gl.constexpr, B: gl.constexpr, D: gl.constexpr, IN_TMEM: gl.constexpr,
):  # fmt: skip
    """D = A B + A B + C: the accumulator begins with what threads store there; A in tensor memory on demand."""
    registers: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    am = gl.arange(0, M, gl.SliceLayout(1, registers))[:, None]
    ak = gl.arange(0, K, gl.SliceLayout(0, registers))[None, :]
    bk = gl.arange(0, K, gl.SliceLayout(1, registers))[:, None]
    bn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    cn = gl.arange(0, N, gl.SliceLayout(0, registers))[None, :]
    a = gl.load(a_ptr + am * K + ak)
    b_buffer = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [K, N], B, gl.load(b_ptr + bk * N + bn))
    acc = allocate_tensor_memory(gl.float32, [M, N], D)
    at: gl.constexpr = acc.get_reg_layout()
    acc.store(gl.convert_layout(gl.load(c_ptr + am * N + cn), at))
    if IN_TMEM:
        a_buffer = allocate_tensor_memory(a_ptr.dtype.element_ty, [M, K], A)
        a_buffer.store(gl.convert_layout(a, a_buffer.get_reg_layout()))
    else:
        a_buffer = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [M, K], A, a)
    fence_async_shared()
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(2):
        tcgen05_mma(a_buffer, b_buffer, acc, use_acc=True)
        tcgen05_commit(bar)
        mbarrier.wait(bar, i)
    mbarrier.invalidate(bar)
    result = acc.load(at)
    rows = gl.arange(0, M, gl.SliceLayout(1, at))[:, None]
    columns = gl.arange(0, N, gl.SliceLayout(0, at))[None, :]
    gl.store(d_ptr + rows * N + columns, result)


# ---- the cases -------------------------------------------------------------------------------------------------------


BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "e2m1x2": 8}


def _dense() -> list[Case]:
    out = []
    for dtype, d, (m, n, k), block_k, a_mode, b_mode, a_t, b_t, variant in (
        ("bf16", "f32", (128, 128, 128), 64, 128, 128, False, False, "32x32b"),
        ("bf16", "f32", (128, 128, 64), 64, 64, 64, True, True, "32x32b"),
        ("bf16", "f32", (128, 64, 64), 32, 32, 32, False, True, "16x64b"),
        ("f16", "f32", (128, 16, 64), 64, 128, 128, False, False, "16x256b"),
        ("f16", "f16", (128, 256, 64), 64, 128, 64, True, False, "32x32b"),
        ("f16", "f32", (64, 128, 128), 64, 128, 128, False, True, "32x32b"),
        ("f16", "f32", (256, 64, 64), 64, 64, 32, True, True, "32x32b"),
        ("bf16", "f32", (64, 32, 32), 32, 64, 64, False, False, "16x128b"),
        ("tf32", "f32", (128, 128, 64), 32, 128, 128, False, False, "32x32b"),
        ("tf32", "f32", (128, 32, 32), 16, 64, 32, False, False, "16x256b"),
        ("e4m3", "f32", (128, 128, 256), 128, 128, 128, True, True, "32x32b"),
        ("e5m2", "f16", (128, 64, 64), 64, 64, 64, False, True, "32x32b"),
        ("e4m3", "f32", (128, 32, 64), 32, 32, 32, False, False, "32x32b_splitn"),
        ("s8", "s32", (128, 128, 128), 128, 128, 128, False, False, "32x32b"),
        ("s8", "s32", (64, 64, 128), 64, 64, 64, True, True, "32x32b"),
    ):
        a_layout, b_layout = (gl.NVMMASharedLayout(mode, BITS[dtype], 2) for mode in (a_mode, b_mode))
        stride = {"f32": 1, "s32": 1, "f16": 2}[d]
        layout = TensorMemoryLayout([min(m, 128), n], col_stride=stride)
        args = {
            "a_desc": Descriptor("a", (block_k, m) if a_t else (m, block_k), a_layout),
            "b_desc": Descriptor("b", (block_k, n) if b_t else (n, block_k), b_layout),
            "d_ptr": "d", "K": Value("s32", k), "BLOCK_M": Constant(m), "BLOCK_N": Constant(n), "BLOCK_K": Constant(block_k),
            "A_T": Constant(a_t), "B_T": Constant(b_t), "D": Constant(layout),
            "D_TYPE": Constant({"f32": gl.float32, "s32": gl.int32, "f16": gl.float16}[d]), "VARIANT": Constant(variant),
        }  # fmt: skip
        fill = "integers -128..127" if dtype == "s8" else SMALL
        arrays = {
            "a": Array(dtype, (k, m) if a_t else (m, k), fill, "" if dtype == "s8" else NORMAL),
            "b": Array(dtype, (k, n) if b_t else (n, k), fill, "" if dtype == "s8" else NORMAL),
            "d": Array(d, (m, n)),
        }
        expression = product("a.T" if a_t else "a", "b" if b_t else "b.T", dtype)
        if d == "f16":
            expression = expression[:-1] + ", d_type='f16')"
        majors = ("M" if a_t else "K") + ("N" if b_t else "K")
        name = f"gluon_dense_{dtype}_{d}_{m}x{n}x{k}_{majors}_{a_mode}_{b_mode}".lower()
        title = f"{dtype} to {d}, {m}x{n}x{k} in steps of {block_k}: A {'M' if a_t else 'K'}-major {a_mode}B, B {'N' if b_t else 'K'}-major {b_mode}B; tcgen05.ld {variant}"  # fmt: skip
        out.append(Case(name, title, dense, args, arrays, {"d": expression}))
    return out


def powers_of_two(first: int, end: int, dim: int) -> list[list[int]]:
    out = []
    while first < end:
        out.append([0, first] if dim else [first, 0])
        first *= 2
    return out


def _core_matrices(shape: tuple[int, int], bits: int, contiguous: int, first: int) -> gl.SharedLinearLayout:
    """No swizzle: core matrices of 8 lines of 16 bytes, contiguous along dimension `contiguous`, following one another
    along `first`.
    """
    strided, line = 1 - contiguous, 128 // bits
    rest = {contiguous: powers_of_two(line, shape[contiguous], contiguous), strided: powers_of_two(8, shape[strided], strided)}
    return gl.SharedLinearLayout(
        powers_of_two(1, line, contiguous) + powers_of_two(1, 8, strided) + rest[first] + rest[1 - first], [], 1024
    )


def _written() -> list[Case]:
    out = []
    for name, dtype, (m, n, k), a_layout, b_layout in (
        ("none_k_k", "bf16", (128, 128, 64), _core_matrices((128, 64), 16, 1, 0), _core_matrices((64, 128), 16, 0, 1)),
        ("none_mn_mn", "f16", (128, 64, 64), _core_matrices((128, 64), 16, 0, 1), _core_matrices((64, 64), 16, 1, 0)),
        ("none_tf32", "tf32", (64, 32, 32), _core_matrices((64, 32), 32, 1, 1), _core_matrices((32, 32), 32, 0, 0)),
        ("none_e4m3", "e4m3", (128, 64, 128), _core_matrices((128, 128), 8, 1, 0), _core_matrices((128, 64), 8, 1, 1)),
        ("swizzled", "bf16", (128, 128, 64), gl.NVMMASharedLayout(128, 16, 2), gl.NVMMASharedLayout(64, 16, 2)),
        ("swizzled_tf32", "tf32", (128, 64, 32), gl.NVMMASharedLayout(128, 32, 2), gl.NVMMASharedLayout(64, 32, 2, transposed=True)),
    ):
        args = {
            "a_ptr": "a", "b_ptr": "b", "d_ptr": "d", "M": Constant(m), "N": Constant(n), "K": Constant(k),
            "A": Constant(a_layout), "B": Constant(b_layout), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
        }  # fmt: skip
        arrays = {"a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (k, n), SMALL, NORMAL), "d": Array("f32", (m, n))}
        title = f"{dtype} operands written by threads, {'no swizzle' if name.startswith('none') else 'swizzled'}, {m}x{n}x{k}"
        out.append(Case(f"gluon_written_{name}", title, written, args, arrays, {"d": product("a", "b", dtype)}))
    return out


def _accumulated() -> list[Case]:
    out = []
    for dtype, (m, n, k), in_tmem in (
        ("bf16", (128, 128, 64), True), ("f16", (64, 64, 32), True), ("tf32", (128, 64, 32), True), ("e4m3", (128, 64, 64), True),
        ("bf16", (128, 64, 64), False),
    ):  # fmt: skip
        bits = BITS[dtype]
        b_layout = gl.NVMMASharedLayout(128, bits, 2, transposed=dtype == "tf32")
        if dtype == "e4m3":
            b_layout = gl.NVMMASharedLayout(64, bits, 2)
        a_layout: Any = TensorMemoryLayout([m, k], col_stride=1) if in_tmem else gl.NVMMASharedLayout(128, bits, 2)
        args = {
            "a_ptr": "a", "b_ptr": "b", "c_ptr": "c", "d_ptr": "d", "M": Constant(m), "N": Constant(n), "K": Constant(k),
            "A": Constant(a_layout), "B": Constant(b_layout), "D": Constant(TensorMemoryLayout([m, n], col_stride=1)),
            "IN_TMEM": Constant(in_tmem),
        }  # fmt: skip
        arrays = {
            "a": Array(dtype, (m, k), SMALL, NORMAL), "b": Array(dtype, (k, n), SMALL, NORMAL),
            "c": Array("f32", (m, n), "integers -99..99", NORMAL), "d": Array("f32", (m, n)),
        }  # fmt: skip
        types = product("a", "b", dtype)[:-1]
        expression = f"{types}, c={types}, c=c))"
        where = "tensor" if in_tmem else "shared"
        title = f"D = A B + (A B + C), A in {where} memory, C stored there by threads, {dtype}, {m}x{n}x{k}"
        out.append(Case(f"gluon_accumulated_{dtype}_{where}", title, accumulated, args, arrays, {"d": expression}))
    return out


CASES = [*_dense(), *_written(), *_accumulated()]
