"""CUDA C++ for sm_100a: arithmetic that sm_90 lacks, forms of tcgen05.mma that Triton has no use for, and the reference
kernel of the kit.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import tempfile
from typing import Any

from tools.witnesses.launches.launch_cases import Array, Case, Value, about_results
from tools.witnesses.launches.ptx_text import cleaned

HERE = pathlib.Path(__file__).resolve().parent
CAPTURE = HERE.parents[1] / "capture"

__all__ = ["CASES", "compiled"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An entry of a source, and how it is launched."""

    source: str  # a file of cuda/, or "kit:NAME" for an entry of the kit's reference kernel
    entry: str
    block: int
    shared_bytes: int = 0
    cluster: int = 1
    defines: tuple[str, ...] = ()


def _text(kernel: Kernel) -> str:
    if not kernel.source.startswith("kit:"):
        return (HERE / "cuda" / kernel.source).read_text()
    from smemsim.capture.blackwell import gemm, machine

    name = kernel.source[4:]
    kind = list(gemm.NAMES.values()).index(name)
    macro = "GEMM_PAIR" if kernel.cluster == 2 else "GEMM"
    return machine.header() + (CAPTURE / "blackwell" / "gemm.cu").read_text().replace("//WGMMA\n", "").replace(
        "//KERNELS\n", f"{macro}({name}, {kind})\n"
    )


def compiled(case: Case) -> tuple[str, str, dict[str, Any]]:
    """As `compiling.compiled`, by nvcc."""
    kernel: Kernel = case.kernel
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / kernel.source.replace("kit:", "").removesuffix(".cu"), pathlib.Path(folder) / "kernel.ptx"
        source = source.with_suffix(".cu")
        source.write_text(_text(kernel))
        command = [
            "nvcc",
            "-ptx",
            "-lineinfo",
            "-gencode=arch=compute_100a,code=compute_100a",
            "-std=c++17",
            "-O3",
            "-I",
            str(CAPTURE / "blackwell"),
        ]
        for step in (
            [*command, *(f"-D{d}" for d in kernel.defines), "-o", str(out), str(source)],
            ["ptxas", "-arch=sm_100a", str(out), "-o", f"{folder}/k.cubin"],
        ):
            made = subprocess.run(step, capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(made.stderr)
        raw = out.read_text()
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", version)
    arguments = [
        {"array": x} if isinstance(x, str) else x if isinstance(x, dict) else {"value": x.value, "type": x.type} for x in case.args.values()
    ]
    launch = {
        "schema": "smemsim.launch/1", "title": case.title, "entry": kernel.entry, "arch": "sm_100a", "grid": list(case.grid),
        "block": [kernel.block, 1, 1], "cluster": [kernel.cluster, 1, 1], "shared_bytes": kernel.shared_bytes, "cooperative": False, "args": arguments,
    }  # fmt: skip
    return raw, cleaned(raw), launch | about_results(case) | {"compiler": f"nvcc {found[1] if found else 'unknown'}"}


N = 512


def _arithmetic() -> list[Case]:
    numbers = {x: Array("f32", (N,), "normal") for x in "abc"}
    grid = (2, 1, 1)
    sums = [
        "f32(a + b)",
        "toward(a + b, 0)",
        "toward(a + b, -1)",
        "toward(a + b, 1)",
        "f32(a - b)",
        "f32(a * b)",
        "toward(a * b, 0)",
        "toward(a * b, 1)",
    ]
    fmas = ["fma(a, b, c)", "fma(a, b, c, 0)", "fma(a, b, c, -1)", "fma(a, b, c, 1)"]
    limits = ["maximum(maximum(a, b), c)", "minimum(minimum(a, b), c)", "maximum(maximum(abs(a), abs(b)), abs(c))", "minimum(minimum(a, b), c)",
              "maximum(maximum(abs(a), abs(b)), abs(c))", "minimum(minimum(a, b), c)"]  # fmt: skip
    mixed = ["f32(f + c)", "f32(f - c)", "toward(h + c, 0)", "toward(h - c, 1)", "fma(f, g, c)", "fma(h, h, c, -1)"]
    warps = "a.reshape(-1, 32)"
    redux = [
        f"repeat({x}, 32)"
        for x in (f"{warps}.min(1)", f"{warps}.max(1)", f"abs({warps}).min(1)", f"abs({warps}).max(1)", f"{warps}.min(1)")
    ]

    def stack(rows: list[str]) -> dict[str, str]:
        return {"out": "stack([" + ", ".join(rows) + "])"}

    def out(rows: list[str]) -> dict[str, Array]:
        return {"out": Array("f32", (len(rows), N))}

    size = Value("s32", N)
    three = {x: x for x in ("a", "b", "c", "out")} | {"n": size}
    return [
        Case("cuda_f32x2", "add, sub, mul, fma .f32x2 with every rounding", Kernel("packed.cu", "packed", 128), three, numbers | out(sums + fmas),
             stack(sums + fmas), grid),
        Case("cuda_limits", "min and max of three f32", Kernel("packed.cu", "limits", 256), three, numbers | out(limits), stack(limits), grid),
        Case("cuda_mixed", "add, sub, fma of f32 with f16 and bf16 operands", Kernel("packed.cu", "mixed", 256),
             {x: x for x in ("f", "g", "h", "c", "out")} | {"n": size},
             {"f": Array("f16", (N,), "normal"), "g": Array("f16", (N,), "normal"), "h": Array("bf16", (N,), "normal"), "c": numbers["c"]} | out(mixed),
             stack(mixed), grid),
        Case("cuda_redux_f32", "redux.sync on f32", Kernel("packed.cu", "redux", 256), {"a": "a", "out": "out", "n": size}, {"a": numbers["a"]} | out(redux),
             stack(redux), grid),
        Case("cuda_256_bits", "loads and stores of 256 bits", Kernel("packed.cu", "wide", 64), {x: x for x in "abxy"},
             {"a": Array("f32", (1024,), "normal"), "b": Array("u64", (512,), "bits"), "x": Array("f32", (1024,)), "y": Array("u64", (512,))},
             {"x": "a.reshape(-1, 8)[:, ::-1].ravel()", "y": "b.reshape(-1, 2)[:, ::-1].ravel()"}, grid),
    ]  # fmt: skip


def _conversions() -> list[Case]:
    n = 256
    arrays = {
        "a": Array("f32", (2 * n,), "uniform -9.0..9.0"), "codes": Array("u16", (n,), "bits"), "pairs": Array("bf16", (2 * n,), "uniform 0.01..99.0"),
        "narrow": Array("u32", (9, n)), "half": Array("u32", (5, n)),
    }  # fmt: skip
    relu = "maximum(a, 0)"
    narrow = ["joined(a, 'e2m1', 4)", f"joined({relu}, 'e2m1', 4)", "joined(a, 'e2m3', 8)", "joined(a, 'e3m2', 8)", f"joined({relu}, 'e3m2', 8)",
              "joined(powers(abs(a), 0), 'ue8m0', 8)", "joined(powers(abs(a), 1), 'ue8m0', 8)", "joined(a, 'e4m3', 8)",
              "joined(powers(pairs, 0), 'ue8m0', 8)"]  # fmt: skip
    # the bits above a code of 4 or 6 bits do not count
    half = ["joined(codes_of(codes, 'e2m1', 4), 'f16', 16)", "joined(codes_of(codes, 'e2m3', 8), 'f16', 16)",
            "joined(maximum(codes_of(codes, 'e3m2', 8), 0), 'f16', 16)", "joined(codes_of(codes, 'ue8m0', 8), 'bf16', 16)",
            "joined(codes_of(codes, 'e5m2', 8), 'f16', 16)"]  # fmt: skip
    args = {x: x for x in ("a", "codes", "pairs", "narrow", "half")} | {"n": Value("s32", n)}
    expected = {"narrow": f"stack([{', '.join(narrow)}])", "half": f"stack([{', '.join(half)}])"}
    kernel = Kernel("conversions.cu", "conversions", 128)
    return [Case("cuda_conversions", "conversions to and from e2m1, e2m3, e3m2, ue8m0", kernel, args, arrays, expected, (2, 1, 1))]


def _forms() -> list[Case]:
    out = []
    fill = ("integers -3..3", "normal")
    ab = "mma(a, b.T, kind='f16', a_type='f16'"
    for what, name, n, k, argument, title, expected in (
        (0, "lane_mask", 32, 16, 0x0F0F3355, "tcgen05.mma with disable-output-lane",
         f"where(lanes([{0x0F0F3355}, {0xF0F0CCAA}, 0, 0])[:, None], c, {ab}, c=c))"),
        (1, "scale_d", 32, 16, 0, "tcgen05.mma with scale-input-d", f"{ab}, c=c, scale_input_d=3)"),
        (2, "collector", 32, 16, 0, "collector::a::fill, use, lastuse, discard", f"{ab}, c={ab}, c={ab}, c={ab}, c=c))))"),
        (3, "ws", 64, 16, 0, "tcgen05.mma.ws", f"{ab}, c=c)"),
        (4, "sparse", 32, 32, 0xEEEEEEEE, "tcgen05.mma.sp: of four elements of K the last two are kept",
         f"{ab.replace('b.T', 'b.reshape(-1, 8, 4)[:, :, 2:].reshape(-1, 16).T')}, c=c)"),
    ):  # fmt: skip
        arrays = {
            "a": Array("f16", (128, 16), *fill), "b": Array("f16", (n, k), *fill), "c": Array("f32", (128, n), "integers -99..99", "normal"),
            "d": Array("f32", (128, n)),
        }  # fmt: skip
        args = {x: x for x in "abcd"} | {"argument": Value("u32", argument)}
        kernel = Kernel("forms.cu", "forms", 128, 32768, 1, (f"WHAT={what}",))
        out.append(Case(f"cuda_mma_{name}", title, kernel, args, arrays, {"d": expected}))
    return out


NAMED = {"interleave": "none", "oob_fill": "zeros"}
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B")


def _kit(every: bool = False) -> list[Case]:
    """The kit's reference kernel: its variants are maps, a plan and operands, at run time."""
    try:
        from smemsim.capture.blackwell import gemm
    except ImportError:  # needs cuda-bindings
        return []
    import numpy as np

    out = []
    for c in gemm.variants("sm_100a"):
        plan, maps, _, _ = gemm.plan_of(c)
        name = "cuda_kit_{dtype}_{group}_{major_a}{major_b}_{mode_a}_{mode_b}".format(**c).lower()
        chosen = (c["mode_a"], c["mode_b"]) in {("128B", "128B"), ("none", "128B"), ("128B_ATOM_32B", "128B_ATOM_32B")} and c[
            "major_a"
        ] == c["major_b"]
        if not (every or chosen):
            continue
        arrays: dict[str, Array] = {}
        types = {"s8": "s8", "tf32": "tf32"}.get(c["dtype"], c["dtype"])
        depth = gemm.STAGES_OF_K * 128 // {"tf32": 4, "e4m3": 1, "s8": 1}.get(c["dtype"], 2)
        for letter, rows in (("a", 256), ("b", 128)):
            shape = (rows, depth) if c[f"major_{letter}"] == "K" else (depth, rows)
            arrays[letter] = Array(types, shape, "integers -7..7", "" if c["dtype"] == "s8" else "normal")
        words = np.frombuffer(plan, np.uint32).tolist()
        arrays |= {"plan": Array("u32", (len(words),), "values " + ",".join(map(str, words))), "d": Array("s32" if c["dtype"] == "s8" else "f32", (256, 128)),
                   "image": Array("u8", (32768,)), "words": Array("u64", (gemm.STAGES_OF_K * gemm.STEPS * 2,)), "results": Array("u32", (4,))}  # fmt: skip
        a, b = ("a" if c["major_a"] == "K" else "a.T"), ("b.T" if c["major_b"] == "K" else "b")
        expected = {"d": f"mma({a}, {b}, kind={c['kind']!r}, a_type={types!r})", "results": "[1, 1, 0, 0]"}
        kernel = Kernel("kit:" + gemm.NAMES[c["kind"]], f"{gemm.NAMES[c['kind']]}_{c['group']}", 192, gemm.SHARED, c["group"])
        described = [NAMED | m | {"global_address": x, "swizzle": SWIZZLES[m["swizzle"]]} for m, x in zip(maps, "ab", strict=True)]
        args: dict[str, Any] = {"maps": {"maps": described}} | {x: x for x in ("plan", "d", "image", "words", "results")}
        title = "the kit's reference kernel, {dtype}, cta_group::{group}, A {major_a}-major {mode_a}, B {major_b}-major {mode_b}".format(
            **c
        )
        out.append(Case(name, title, kernel, args, arrays, expected, (2, 1, 1)))
    return out


CASES = [*_arithmetic(), *_conversions(), *_forms(), *_kit()]
