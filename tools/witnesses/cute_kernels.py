"""CuTe DSL kernels, one tile each, compiled for sm_100a on the CPU; one a process, as the compiler aborts on some.

    python tools/witnesses/cute_kernels.py            the names of all configurations
    python tools/witnesses/cute_kernels.py NAME       compile one: a line of JSON with the PTX and the layouts as CuTe prints them

What NVIDIA's compiler emits is compared and not kept (its licence is not ours to extend): `records` has it in memory
only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.witnesses import fold

__all__ = ["CONFIGURATIONS", "Configuration", "compile_kernel", "device", "record"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
OFFSET, LANE, COLUMN, CTA = range(4)
TYPES = {  # element type: CuTe DSL's, bits, the accumulator's
    "f16": ("Float16", 16, "f32"), "bf16": ("BFloat16", 16, "f32"), "tf32": ("TFloat32", 32, "f32"), "e4m3": ("Float8E4M3FN", 8, "f32"),
    "e5m2": ("Float8E5M2", 8, "f32"), "s8": ("Int8", 8, "s32"), "u8": ("Uint8", 8, "s32"),
}  # fmt: skip
ATOM_BYTES = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128, "SW128_32B": 128}


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One kernel: `tile` M, N, K of the tensors (of both CTAs of a pair), the majors and atoms of A and B."""

    dtype: str
    tile: tuple[int, int, int]
    a: tuple[str, str]
    b: tuple[str, str]
    cta_group: int = 1

    @property
    def name(self) -> str:
        shape = "x".join(map(str, self.tile))
        return f"{self.dtype}_{shape}_A{'_'.join(self.a)}_B{'_'.join(self.b)}_cg{self.cta_group}"


def configurations() -> Iterator[Configuration]:
    """Every atom with every type and major; then other shapes, other majors and pairs."""
    for dtype, (_, bits, _) in TYPES.items():
        for major in ("K", "MN"):
            for atom, width in ATOM_BYTES.items():
                if atom == "SW128_32B" and (major == "K" or bits == 16):
                    continue  # no such layout; abort()s on 16-bit types
                k_bytes = 128 if major == "MN" or atom == "INTER" else width
                yield Configuration(dtype, (128, 128, k_bytes * 8 // bits), (major, atom), (major, atom))
    for m, n, cta_group in ((64, 64, 1), (64, 256, 1), (128, 16, 1), (128, 256, 1), (128, 128, 2), (256, 128, 2), (256, 256, 2)):
        for a, b in ((("K", "SW128"), ("MN", "SW128")), (("MN", "SW64"), ("K", "SW32")), (("K", "INTER"), ("K", "SW64"))):
            if b[0] == "MN" and n // cta_group < 64:
                continue
            yield Configuration("bf16", (m, n, 64), a, b, cta_group)
        if n // cta_group >= 32:
            yield Configuration("tf32", (m, n, 32), ("MN", "SW128_32B"), ("MN", "SW128_32B"), cta_group)


CONFIGURATIONS = {c.name: c for c in configurations()}


# ---- in its own process: compile -------------------------------------------------------------------------------------


def compile_kernel(c: Configuration) -> dict[str, Any]:
    """PTX, and the layouts as text."""
    import cutlass
    from cutlass import cute, utils
    from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
    from cutlass.cute.runtime import make_fake_compact_tensor
    from cutlass.utils import blackwell_helpers

    name, _, accumulator = TYPES[c.dtype]
    dtype = getattr(cutlass, name)
    acc_type = {"f32": cutlass.Float32, "s32": cutlass.Int32}[accumulator]
    group = tcgen05.CtaGroup.TWO if c.cta_group == 2 else tcgen05.CtaGroup.ONE
    atoms = [getattr(tcgen05.SmemLayoutAtomKind, f"{major}_{atom}") for major, atom in (c.a, c.b)]
    m, n, k = c.tile
    said: dict[str, str] = {}

    @cute.kernel
    def kernel(out):
        mma = blackwell_helpers.make_trivial_tiled_mma(
            dtype, dtype, getattr(OperandMajorMode, c.a[0]), getattr(OperandMajorMode, c.b[0]), acc_type, group, (m, n)
        )
        a_shape, b_shape = mma.partition_shape_A((m, k)), mma.partition_shape_B((n, k))
        a_layout = tcgen05.tile_to_mma_shape(tcgen05.make_smem_layout_atom(atoms[0], dtype), a_shape, (1, 2))
        b_layout = tcgen05.tile_to_mma_shape(tcgen05.make_smem_layout_atom(atoms[1], dtype), b_shape, (1, 2))
        smem = utils.SmemAllocator()
        shared_a = smem.allocate_tensor(dtype, a_layout.outer, 1024, swizzle=a_layout.inner)
        shared_b = smem.allocate_tensor(dtype, b_layout.outer, 1024, swizzle=b_layout.inner)
        slot = smem.allocate(4)
        a, b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)
        d = mma.make_fragment_C(mma.partition_shape_C((m, n)))
        cute.arch.alloc_tmem(512, slot, is_two_cta=c.cta_group == 2)
        cute.arch.sync_threads()
        accumulator = cute.make_tensor(cute.arch.retrieve_tmem_ptr(acc_type, 16, slot), d.layout)
        said.update(a=str(a_layout), b=str(b_layout), d=str(d.layout))
        said.update(tv_a=str(mma.tv_layout_A), tv_b=str(mma.tv_layout_B), tv_d=str(mma.tv_layout_C))
        for step in cutlass.range_constexpr(cute.size(a, mode=[2])):
            mma.set(tcgen05.Field.ACCUMULATE, step != 0)
            cute.gemm(mma, accumulator, a[(None, None, step)], b[(None, None, step)], accumulator)
        out[0] = cutlass.Int32(1)

    @cute.jit
    def host(out):
        kernel(out).launch(grid=(c.cta_group, 1, 1), block=(128, 1, 1), cluster=(c.cta_group, 1, 1))

    compiled = cute.compile(host, make_fake_compact_tensor(cutlass.Int32, (16,)))
    return {**said, "ptx": compiled.__ptx__}


def main(names: list[str]) -> None:
    if not names:
        print("\n".join(CONFIGURATIONS))
        return
    os.environ |= {"CUTE_DSL_ARCH": "sm_100a", "CUTE_DSL_KEEP": "ptx"}
    print(json.dumps(compile_kernel(CONFIGURATIONS[names[0]])))


# ---- in the caller's: what it says -----------------------------------------------------------------------------------


def device() -> dict[str, str]:
    """What stands for a GPU in the comparison."""
    from importlib.metadata import version

    package = next(p for p in ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base") if _installed(p))
    return {"gpu": "none: compiled, not run", "compiler": f"CuTe DSL {version(package)}", "target": "sm_100a"}


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _nested(text: str) -> Any:
    """`(1,(2,3))` as tuples."""
    return json.loads(text.replace("(", "[").replace(")", "]"))


def _flat(shape: Any, stride: Any) -> list[tuple[int, int]]:
    """(extent, stride) of every mode, the first the fastest."""
    if isinstance(shape, int):
        return [(shape, stride)]
    return [pair for s, d in zip(shape, stride, strict=True) for pair in _flat(s, d)]


def evaluate(layout: str, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Byte offsets (tensor memory: addresses) int64 (n,) and their (row, k) (n, 2), of a layout of MMA shape ((row, k),
    rows, k).

    >>> at, place = evaluate("S<0,4,3> o 0 o ((2,2),1,1):((2,1),0,0)", 16)
    >>> at.tolist(), place.tolist()
    ([0, 4, 2, 6], [[0, 0], [1, 0], [0, 1], [1, 1]])
    """
    swizzle = re.match(r"S<(\d+),(\d+),(\d+)> o 0 o ", layout)
    shape, stride = map(_nested, layout[swizzle.end() if swizzle else 0 :].split(":"))

    def walk(first: int, rest: int) -> np.ndarray:
        out = np.zeros(1, np.int64)
        for extent, step in (*_flat(shape[0][first], stride[0][first]), *_flat(shape[rest], stride[rest])):
            out = (np.arange(extent)[:, None] * step + out).ravel()
        return out

    rows, columns = walk(0, 1), walk(1, 2)
    at = (rows + columns[:, None]).ravel() * bits // 8
    if swizzle:
        b, m, s = map(int, swizzle.groups())
        at = at ^ (at >> s & (1 << b) - 1 << m)
    k, row = np.divmod(np.arange(at.size), rows.size)
    return at, np.stack([row, k], axis=1)


def bases(layout: str, bits: int, inputs: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    """A layout as bases, (input, row, k) a bit of the address: `inputs` has each input's lowest bit and the end of its
    bits.
    """
    at, place = evaluate(layout, bits)
    where = dict(zip(at.tolist(), place.tolist(), strict=True))
    powers = [(kind, low << i) for kind, (low, end) in inputs.items() for i in range(64) if low << i < end and low << i <= at.max()]
    out = [(kind, *where.get(bit, (0, 0))) for kind, bit in powers]
    told = np.zeros_like(place)
    for (_, row, k), (_, bit) in zip(out, powers, strict=True):
        told ^= np.where(at[:, None] & bit, (row, k), 0)
    if (told != place).any():
        raise ValueError(f"{layout}: not linear")
    return out


def record(c: Configuration, said: dict[str, Any]) -> dict[str, Any]:
    """A kernel as `suites.arrays_of` takes it."""
    _, bits, accumulator = TYPES[c.dtype]
    m, n, k = c.tile
    found = fold.fold(said["ptx"], {"%cluster_ctarank": 0})
    layout: list[tuple[int, ...]] = []
    for number, operand in enumerate("abd"):
        kinds = {LANE: (1 << 16, 1 << 23), COLUMN: (1, 512)} if operand == "d" else {OFFSET: (bits // 8, 1 << 18)}
        rows = bases(said[operand], 8 if operand == "d" else bits, kinds)
        layout += [(number, *row) for row in rows]
        if c.cta_group == 2:
            layout.append((number, CTA, *_peer(said[f"tv_{operand}"], n if operand == "b" else m)))
    a_bytes = m // c.cta_group * k * bits // 8
    return {
        "name": c.name, "suite": "cute", "cta_group": c.cta_group, "a_type": c.dtype, "b_type": c.dtype, "d_type": accumulator,
        "scale_type": "", "scale_block": 0, "a_in_tmem": 0,
        "saturate": int(accumulator == "s32"),  # the DSL's choice for integers
        "tile": c.tile, "instruction": (m, n),
        "ptx_sha256": hashlib.sha256(said["ptx"].encode()).hexdigest(),
        # the allocator's order, each from a multiple of 1024 on
        "base": [0, -(-a_bytes // 1024) * 1024, 0, -1, -1, -1, -1],
        "unit_bits": [bits, bits, 32, 0, 0, 0, 0], "layout": layout,
        "mma": [s for s in found if isinstance(s, fold.Mma)], "cp": [],
    }  # fmt: skip


def _peer(text: str, rows: int) -> tuple[int, int]:
    """Coordinates of the second CTA's part, as the MMA's own layout, (CTA, element of it) -> element, has them."""
    shape, stride = map(_nested, text.split(":"))
    if shape[0] != 2:
        raise ValueError(f"{text}: not a layout of two CTAs")
    return stride[0] % rows, stride[0] // rows


def compiled(c: Configuration) -> dict[str, Any] | str:
    """Compile in a process of its own; a string says why there is nothing. CuTe DSL leaves its PTX in the current
    folder: one that goes away.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "tools.witnesses.cute_kernels", c.name]
        done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        why = [line for line in done.stderr.splitlines() if line.strip()]
        return f"exit {done.returncode}: {why[-1] if why else 'no message'}"
    result: dict[str, Any] = json.loads(lines[-1])
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
