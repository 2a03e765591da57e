"""Writes the CUDA source of the whole-wgmma probes: one kernel for each instruction with its immediate operands.

A block is one case. It copies its image into shared memory, and loads the registers of A, the metadata and C. It issues
one wgmma, or two into the same registers without waiting in between. Then it stores D.
"""

from __future__ import annotations

import dataclasses

THREADS = 128


@dataclasses.dataclass(frozen=True)
class Instruction:
    """The parts of the text of one wgmma. K is `k` of the mnemonic. With `chained` a second one follows, on operands
    further on.
    """

    a: str
    b: str
    d: str
    n: int
    k: int
    source: str  # of A: "shared", "registers"
    sparse: bool = False
    selector: int = 0
    trans_a: int = 0
    trans_b: int = 0
    scale_a: int = 1
    scale_b: int = 1
    satfinite: bool = False
    chained: bool = False

    @property
    def name(self) -> str:
        signs = f"{'m' if self.scale_a < 0 else 'p'}{'m' if self.scale_b < 0 else 'p'}"
        sparse = f"_sp{self.selector}" if self.sparse else ""
        sat = "_sat" if self.satfinite else ""
        return f"{self.d}_{self.a}_{self.b}_n{self.n}{sparse}_{self.source[0]}_t{self.trans_a}{self.trans_b}_{signs}{sat}{'_2' if self.chained else ''}"

    @property
    def mnemonic(self) -> str:
        sparse, sat = ".sp" if self.sparse else "", ".satfinite" if self.satfinite else ""
        op = ".and.popc" if self.a == "b1" else ""
        return f"wgmma.mma_async{sparse}.sync.aligned.m64n{self.n}k{self.k}{sat}.{self.d}.{self.a}.{self.b}{op}"

    @property
    def registers(self) -> int:
        return self.n // 4 if self.d == "f16" else self.n // 2


def _instruction(i: Instruction) -> str:
    kind = "f" if i.d == "f32" else "r"
    outputs = [f'"+{kind}"(d[{r}])' for r in range(i.registers)]
    inputs: list[str] = []

    def operand(constraint: str) -> str:
        inputs.append(constraint)
        return f"%{len(outputs) + len(inputs) - 1}"

    d = "{" + ", ".join(f"%{r}" for r in range(i.registers)) + "}"
    if i.source == "shared":
        a = operand('"l"(c.a_descriptor)')
    else:
        a = "{" + ", ".join(operand(f'"r"(a[{r}])') for r in range(4)) + "}"
    operands = [d, a, operand('"l"(c.b_descriptor)')]
    if i.sparse:
        operands += [operand('"r"(metadata)'), str(i.selector)]
    scale_d = operand('"r"(c.scale_d)')
    operands.append("p")
    if i.d != "s32":
        operands += [str(i.scale_a), str(i.scale_b)]
        if i.a in ("f16", "bf16"):
            operands += [str(i.trans_a)] if i.source == "shared" else []
            operands += [str(i.trans_b)]
    text = f"setp.ne.b32 p, {scale_d}, 0; {i.mnemonic} {', '.join(operands)};"
    if i.chained:
        step = operand('"l"(c.step)')
        for at in (1, 2) if i.source == "shared" else (2,):
            text += f" add.s64 q{at}, {operands[at]}, {step};"
            operands[at] = f"q{at}"
        text += f" setp.ne.b32 p, 1, 0; {i.mnemonic} {', '.join(operands)};"
    text = f"{{ .reg .pred p; .reg .b64 q1, q2; {text} }}"
    return f'asm volatile("{text}"\n        : {", ".join(outputs)} : {", ".join(inputs)});'


def _kernel(i: Instruction) -> str:
    if i.d == "f16":
        load = "d[i] = start[2 * i] | start[2 * i + 1] << 16"
    elif i.d == "f32":
        load = "d[i] = __uint_as_float(start[i])"
    else:
        load = "d[i] = start[i]"
    operands = ""
    if i.source == "registers":
        operands += """
    unsigned a[4];
    for (int i = 0; i < 4; i++) a[i] = a_blocks[(c.a_block * 128 + threadIdx.x) * 4 + i];"""
    if i.sparse:
        operands += """
    const unsigned metadata = metadata_blocks[c.metadata_block * 128 + threadIdx.x];"""
    store = "__float_as_uint(d[i])" if i.d == "f32" else "d[i]"
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) {i.name}(PROBE_ARGUMENTS) {{
    PROBE_BEGIN
    {"float" if i.d == "f32" else "unsigned"} d[{i.registers}];
    #pragma unroll
    for (int i = 0; i < {i.registers}; i++) {load};{operands}
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    {_instruction(i)}
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    unsigned *mine = out + ((size_t)blockIdx.x * {THREADS} + threadIdx.x) * {i.registers};
    #pragma unroll
    for (int i = 0; i < {i.registers}; i++) mine[i] = {store};
}}
"""


HEADER = """
struct Case {
    unsigned long long a_descriptor, b_descriptor, step;
    unsigned a_block, metadata_block, c_block, scale_d, image, unused;
};

#define PROBE_ARGUMENTS const Case *cases, const uint4 *image, unsigned image_bytes, const unsigned *a_blocks, const unsigned *metadata_blocks, \\
                        const unsigned *c_blocks, unsigned *out
#define PROBE_BEGIN                                                                                             \\
    extern __shared__ __align__(1024) uint4 smem[];                                                             \\
    const Case c = cases[blockIdx.x];                                                                           \\
    image += (size_t)c.image * (image_bytes / 16);                                                              \\
    for (unsigned x = threadIdx.x; x < image_bytes / 16; x += 128) smem[x] = image[x];                          \\
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                \\
    __syncthreads();                                                                                            \\
    const unsigned *start = c_blocks + (c.c_block * 128 + threadIdx.x) * 128;
"""


def source(chosen: list[Instruction]) -> str:
    return HEADER + "".join(_kernel(i) for i in chosen)
