"""Does what smemsim.core.spec.compiled says of compilers still hold? Asks CuTe DSL and ptxas, where they are installed;
ends with 1 where one says something else.

python -m tools.witnesses.compiled_words            all of it, a process for each kernel of CuTe DSL
python -m tools.witnesses.compiled_words NAME       one kernel: its tcgen05.mma, as JSON
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from smemsim.core.spec.compiled import COMPILED
from tools.witnesses import cute_kernels, fold

SCALED = {"mxf8f6f4": ("Float8E4M3FN", "Float8E8M0FNU", 32, 128), "mxf4": ("Float4E2M1FN", "Float8E8M0FNU", 32, 256), "mxf4nvf4": ("Float4E2M1FN", "Float8E4M3FN", 16, 256)}  # fmt: skip
NEGATED = ("", "NEGATE_A", "NEGATE_B")
ATOMS = "s8_128x128x128_AMN_SW128_32B_BMN_SW128_32B_cg1"
ALLOC = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry kernel() {{ .reg .b32 %r<3>; .shared .align 4 .b32 at; mov.u32 %r1, at; mov.u32 %r2, {columns};
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r1], %r2; ret; }}
"""


def scaled(kind: str, negated: str, in_tensor_memory: bool) -> list[dict[str, Any]]:
    """A product of block-scaled operands, two steps of K, by CuTe DSL."""
    import cutlass
    from cutlass import cute, utils
    from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
    from cutlass.cute.runtime import make_fake_compact_tensor
    from cutlass.utils import blackwell_helpers

    name, factor, block, k = SCALED[kind]
    dtype, factors = getattr(cutlass, name), getattr(cutlass, factor)
    where = tcgen05.OperandSource.TMEM if in_tensor_memory else tcgen05.OperandSource.SMEM
    major = OperandMajorMode.K

    @cute.kernel
    def kernel(out):
        mma = blackwell_helpers.make_blockscaled_trivial_tiled_mma(
            dtype, dtype, major, major, factors, block, tcgen05.CtaGroup.ONE, (128, 128), where
        )
        a_shape, b_shape = mma.partition_shape_A((128, k)), mma.partition_shape_B((128, k))
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, dtype)
        smem = utils.SmemAllocator()
        shared = [tcgen05.tile_to_mma_shape(atom, shape, (1, 2)) for shape in (a_shape, b_shape)]
        tiles = [smem.allocate_tensor(dtype, x.outer, 1024, swizzle=x.inner) for x in shared]
        slot = smem.allocate(4)
        cute.arch.alloc_tmem(512, slot)
        cute.arch.sync_threads()
        begin = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, slot)
        d = cute.make_tensor(begin, mma.make_fragment_C(mma.partition_shape_C((128, 128))).layout)
        a, b = mma.make_fragment_A(a_shape if in_tensor_memory else tiles[0]), mma.make_fragment_B(tiles[1])
        if cutlass.const_expr(in_tensor_memory):
            a = cute.make_tensor(cute.recast_ptr(begin + 256, dtype=dtype), a.layout)
        if cutlass.const_expr(bool(negated)):
            mma.set(getattr(tcgen05.Field, negated), True)
        for field in (tcgen05.Field.SFA, tcgen05.Field.SFB):
            mma.set(field, cute.recast_ptr(begin + 128, dtype=factors))
        for step in cutlass.range_constexpr(2):
            mma.set(tcgen05.Field.ACCUMULATE, step != 0)
            cute.gemm(mma, d, a[(None, None, step)], b[(None, None, step)], d)
        out[0] = cutlass.Int32(1)

    @cute.jit
    def host(out):
        kernel(out).launch(grid=(1, 1, 1), block=(128, 1, 1))

    compiled = cute.compile(host, make_fake_compact_tensor(cutlass.Int32, (16,)))
    found = fold.fold(compiled.__ptx__, {"%cluster_ctarank": 0})
    return [{"idesc": s.idesc, "a": s.a} for s in found if isinstance(s, fold.Mma)]


def asked(*names: str) -> list[dict[str, Any]]:
    """`scaled` in a process of its own; CuTe DSL leaves its PTX in the current folder, one that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(cute_kernels.ROOT / "sim"), str(cute_kernels.ROOT), os.environ.get("PYTHONPATH", "")])
        settings = os.environ | {"PYTHONPATH": path, "CUTE_DSL_ARCH": "sm_100a", "CUTE_DSL_KEEP": "ptx"}
        command = [sys.executable, "-m", "tools.witnesses.compiled_words", *names]
        done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def by_cute() -> Iterator[tuple[str, bool]]:
    """What CuTe DSL says, and whether it is what is written down."""
    bits, memory, atom = (one.words for one in COMPILED if one.words)
    for kind in SCALED:
        plain, *others = (asked(kind, negated)[0]["idesc"] for negated in NEGATED)
        yield f"negation in {kind}", [word ^ plain for word in others] == [bits["negate_a"], bits["negate_b"]]
    first, second = (one["a"] for one in asked("mxf4", "", "A in tensor memory"))
    yield "A of mxf4 in tensor memory", second - first == memory["columns"]
    said = cute_kernels.compiled(cute_kernels.CONFIGURATIONS[ATOMS])
    if isinstance(said, str):
        yield f"{ATOMS}: {said}", False
        return
    at, place = cute_kernels.evaluate(said["a"], 8)
    where = {tuple(p): int(x) for x, p in zip(at.tolist(), place.tolist(), strict=True)}
    words = [s.a for s in fold.fold(said["ptx"], {"%cluster_ctarank": 0}) if isinstance(s, fold.Mma)]
    yield "atoms of 4 rows of K", (words[0], where[0, 4], where[0, 8]) == tuple(atom.values())


def by_ptxas(disassemble: str) -> Iterator[tuple[str, bool]]:
    """What ptxas makes of allocations."""
    for columns, group in ((32, 1), (128, 1), (512, 1), (64, 2)):
        with tempfile.TemporaryDirectory() as name:
            source, code = pathlib.Path(name, "alloc.ptx"), pathlib.Path(name, "alloc.cubin")
            source.write_text(ALLOC.format(columns=columns, group=group), encoding="utf-8")
            subprocess.run(["ptxas", "-arch=sm_100a", str(source), "-o", str(code)], check=True)
            text = subprocess.run([disassemble, str(code)], capture_output=True, text=True, check=True).stdout
        lines = [line for line in text.splitlines() if "UTCATOMSWS" in line]
        yield f"tcgen05.alloc of {columns} columns, cta_group::{group}", bool(lines) and all("FIND_AND_SET.ALIGN" in x for x in lines)


def main(names: list[str]) -> int:
    """The answers; 1 where one is not what is written down."""
    if names:
        print(json.dumps(scaled(names[0], names[1], bool(names[2:]))))
        return 0
    beside = find_spec("triton")
    bundled = pathlib.Path(beside.origin or "").parent / "backends" / "nvidia" / "bin" / "nvdisasm" if beside else pathlib.Path()
    disassemble = shutil.which("nvdisasm") or (str(bundled) if bundled.is_file() else "")
    answers = [*(by_cute() if find_spec("cutlass") else ()), *(by_ptxas(disassemble) if disassemble and shutil.which("ptxas") else ())]
    for what, holds in answers:
        print(f"{what}: {'as written down' if holds else 'something else'}")
    return int(not all(holds for _, holds in answers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
