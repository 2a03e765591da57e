"""A Triton kernel, compiled without a GPU: `python add.py` writes add_sm90.ptx."""

import pathlib

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(a + i, inside) + tl.load(b + i, inside), inside)


if __name__ == "__main__":
    signature = {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    made = triton.compile(ASTSource(add, signature=signature, constexprs={"BLOCK": 512}), target=GPUTarget("cuda", 90, 32))
    pathlib.Path("add_sm90.ptx").write_text(made.asm["ptx"])
