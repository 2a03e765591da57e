"""Writes the CUDA source of the wgmma address probes: one kernel for each (operand, type, N, major-ness, sparsity).

Every element of shared memory holds its own index (byte address / element size), a few bits a pass. The other operand
is an identity matrix. So each element of D is the tag of one operand element. The passes are OR-ed together into the
address index.
"""

from __future__ import annotations

import dataclasses

WINDOW_BEGIN = 0x400  # the first byte of dynamic shared memory: 1 KiB below it belongs to the system
WINDOW_END = 0x39000  # with the largest dynamic allocation an H200 grants, 227 KiB
IDENTITY = 0x38000  # operand A probes keep their identity B from here on


@dataclasses.dataclass(frozen=True)
class ProbeType:
    ptx: str
    itemsize: int
    tag_bits: int  # integers of this many bits are exact in the format
    convert: str  # C expression: tag `t` -> element bits
    one: int
    integer: bool = False

    @property
    def k(self) -> int:
        return 32 // self.itemsize  # a dense wgmma reads 32 bytes of K per row

    @property
    def passes(self) -> int:
        index_bits = 18 - self.itemsize.bit_length() + 1
        return -(-index_bits // self.tag_bits)


# fmt: off
TYPES = {
    "bf16": ProbeType("bf16", 2, 8, "(unsigned)(__float_as_uint((float)t) >> 16)", 0x3F80),
    "f16":  ProbeType("f16",  2, 8, "(unsigned)__half_as_ushort(__uint2half_rn(t))", 0x3C00),
    "tf32": ProbeType("tf32", 4, 8, "__float_as_uint((float)t)", 0x3F800000),
    "e4m3": ProbeType("e4m3", 1, 4, "(unsigned)__nv_cvt_float_to_fp8((float)t, __NV_SATFINITE, __NV_E4M3)", 0x38),
    "e5m2": ProbeType("e5m2", 1, 3, "(unsigned)__nv_cvt_float_to_fp8((float)t, __NV_SATFINITE, __NV_E5M2)", 0x3C),
    "s8":   ProbeType("s8",   1, 6, "t", 1, integer=True),
    "u8":   ProbeType("u8",   1, 8, "t", 1, integer=True),
}
# fmt: on

INTEGER_N = (8, 16, 24, *range(32, 257, 16))
ALL_N = tuple(range(8, 257, 8))


@dataclasses.dataclass(frozen=True)
class Variant:
    operand: str
    dtype: str
    n: int
    major: str
    sparse: bool = False

    @property
    def name(self) -> str:
        return f"{self.operand}_{self.dtype}_n{self.n}_{self.major}{'_sp' if self.sparse else ''}"

    @property
    def rows(self) -> int:
        return 64 if self.operand == "A" else self.n

    @property
    def k(self) -> int:
        """Elements of K the probed operand holds: the doubled K for the dense operand of a sparse wgmma."""
        k = TYPES[self.dtype].k
        return 2 * k if self.sparse and self.operand == "B" else k


def variants() -> list[Variant]:
    """Every kernel that is built."""
    out = [Variant("B", "bf16", n, major) for n in ALL_N for major in ("K", "MN")]
    out += [Variant("B", "f16", n, major) for n in (8, 72, 128, 256) for major in ("K", "MN")]
    out += [Variant("B", dtype, n, "K") for dtype in ("tf32", "e4m3", "e5m2") for n in (8, 16, 24, 40, 64, 88, 128, 192, 248, 256)]
    out += [Variant("B", "s8", n, "K") for n in INTEGER_N]
    out += [Variant("B", "u8", n, "K") for n in (8, 64, 256)]
    for dtype in ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"):
        t = TYPES[dtype]
        majors = ("K", "MN") if t.itemsize == 2 else ("K",)
        for major in majors:
            out.append(Variant("A", dtype, 8 if dtype == "tf32" else t.k, major))
            out.append(Variant("A", dtype, 8 if dtype == "tf32" else t.k, major, sparse=True))
            out += [Variant("B", dtype, n, major, sparse=True) for n in (8, 64, 128)]
    return out


def _instruction(v: Variant) -> str:
    t = TYPES[v.dtype]
    k = t.k * (2 if v.sparse else 1)
    count = v.n // 2
    d = ", ".join(f"%{i}" for i in range(count))
    acc = "r" if t.integer else "f"
    result = "s32" if t.integer else "f32"
    p = count
    if v.operand == "B":
        a = "{" + ", ".join(f"%{p + i}" for i in range(4)) + "}"
        a_args = [f'"r"(a[{i}])' for i in range(4)]
        p += 4
    else:
        a, a_args = f"%{p}", ['"l"(desc)']
        p += 1
    b_arg = '"l"(desc)' if v.operand == "B" else '"l"(identity)'
    b = f"%{p}"
    p += 1
    meta, meta_args = "", []
    if v.sparse:
        meta, meta_args = f" %{p}, 0,", ['"r"(meta)']
        p += 1
    tail = "p" if t.integer else "p, 1, 1"
    if t.itemsize == 2:
        transposed = int(v.major == "MN")
        tail += f", {transposed}" if v.operand == "B" else f", {transposed}, 0"
    sp = ".sp" if v.sparse else ""
    name = f"wgmma.mma_async{sp}.sync.aligned.m64n{v.n}k{k}.{result}.{t.ptx}.{t.ptx}"
    outputs = ", ".join(f'"+{acc}"(d[{i}])' for i in range(count))
    inputs = ", ".join([*a_args, b_arg, *meta_args])
    return (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; {name} {{{d}}}, {a}, {b},{meta} {tail}; }}"\n        : {outputs} : {inputs});'
    )


def _kernel(v: Variant) -> str:
    t = TYPES[v.dtype]
    group = 2 if v.dtype == "tf32" else 4  # 1:2 sparsity for tf32, 2:4 for the rest
    acc = "int" if t.integer else "float"
    per_register = 4 // t.itemsize
    if v.sparse:
        # Row r carries its single 1 at logical k = r: stored column r / group * (group / 2) +
        # the slot inside the group.
        stored = f"row / {group} * {group // 2} + row % {max(group // 2, 1)}"
    else:
        stored = "row"
    logical_k = t.k * (2 if v.sparse else 1)
    row8 = {2: "(i >> 1) & 1", 4: "i & 1", 1: "(i >> 2) & 1"}[t.itemsize]
    column = {2: "2 * q + (i & 1) + 8 * (i >> 2)", 4: "q + 4 * (i >> 1)", 1: "4 * q + (i & 3) + 16 * (i >> 3)"}[t.itemsize]
    registers = f"""
    unsigned a[4] = {{0, 0, 0, 0}};
    for (int i = 0; i < {4 * per_register}; i++) {{
        int row = 16 * w + g + 8 * ({row8}), column = {column};
        if (row < {logical_k} && column == {stored}) a[i / {per_register}] |= {t.one}u << (i % {per_register} * {8 * t.itemsize});
    }}"""
    # Rows whose 1 sits in the upper half of its group keep (2, 3), the others (0, 1).
    half = "g % 2 < 1" if v.dtype == "tf32" else "g % 4 < 2"
    metadata = f"""
    unsigned meta = {"(" + half + ") ? 0x44444444u : 0xEEEEEEEEu" if v.operand == "B" else "0x44444444u"};"""
    if v.operand == "B":
        prepare = registers + (metadata if v.sparse else "")
        identity_fill = ""
    else:
        # B is an identity in the unswizzled K-major layout: LBO 128, SBO 1024.
        if v.sparse:
            source = f"column / {group // 2} * {group} + column % {max(group // 2, 1)}"
        else:
            source = "column"
        prepare = (
            (metadata if v.sparse else "")
            + f"""
    unsigned long long identity = ({IDENTITY}ull >> 4) | (128ull >> 4) << 16 | (1024ull >> 4) << 32;"""
        )
        identity_fill = f"""
        for (int x = threadIdx.x; x < {v.n // 8} * 1024 / 16; x += 128) ((uint4 *)(smem + {IDENTITY - WINDOW_BEGIN}))[x] = make_uint4(0, 0, 0, 0);
        __syncthreads();
        for (int column = threadIdx.x; column < {v.n}; column += 128) {{
            int kb = ({source}) * {t.itemsize};
            unsigned char *at = smem + {IDENTITY - WINDOW_BEGIN} + column % 8 * 16 + column / 8 * 1024 + kb / 16 * 128 + kb % 16;
            for (int byte = 0; byte < {t.itemsize}; byte++) at[byte] = {t.one}u >> (8 * byte);
        }}"""
    fill_end = f"min(window_end, {IDENTITY}u)" if v.operand == "A" else "window_end"
    if v.operand == "B":
        keep = f"row < {v.k}"
        where = f"(column * {v.k} + row)"
    else:
        keep = f"column < {v.k}"
        where = f"(row * {v.k} + column)"
    return f"""
extern "C" __global__ void __launch_bounds__(128) {v.name}(const unsigned long long *descriptors, unsigned window_end, unsigned *out) {{
    extern __shared__ __align__(1024) unsigned char smem[];
    const int t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    unsigned long long desc = descriptors[blockIdx.x];
    unsigned *mine = out + (size_t)blockIdx.x * {v.rows * v.k};
    {prepare}
    for (int pass = 0; pass < {t.passes}; pass++) {{
        for (unsigned address = {WINDOW_BEGIN} + 4 * t; address < {fill_end}; address += 512) {{
            unsigned word = 0;
            for (int i = 0; i < {per_register}; i++) {{
                unsigned t = ((address / {t.itemsize} + i) >> (pass * {t.tag_bits})) & {(1 << t.tag_bits) - 1};
                word |= ({t.convert}) << (i * {8 * t.itemsize} % 32);
            }}
            *(unsigned *)(smem + address - {WINDOW_BEGIN}) = word;
        }}{identity_fill}
        __syncthreads();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        {acc} d[{v.n // 2}];
        for (int i = 0; i < {v.n // 2}; i++) d[i] = 0;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        {_instruction(v)}
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        #pragma unroll
        for (int i = 0; i < {v.n // 2}; i++) {{
            int row = 16 * w + g + 8 * ((i >> 1) & 1), column = 2 * q + (i & 1) + 8 * (i >> 2);
            if ({keep}) mine[{where}] |= (unsigned)d[i] << (pass * {t.tag_bits});
        }}
        __syncthreads();
    }}
}}
"""


HEADER = """#include <cuda_fp16.h>
#include <cuda_fp8.h>
"""


def source(chosen: list[Variant]) -> str:
    return HEADER + "".join(_kernel(v) for v in chosen)
