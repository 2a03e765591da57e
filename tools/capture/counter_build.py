"""Writes the launch files of `counter_kernels.cu`: python -m tools.capture.counter_build --out
golden/sm_90a/launch_counters/kernels (needs nvcc 13.0, no GPU).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "counter_kernels.cu"
BYTES = {"uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "uint2": "u32", "uint4": "u32", "float": "f32", "float2": "f32", "float4": "f32", "double": "f64", "P": "f32"}  # fmt: skip
ARRAY_BYTES = 65536


def names() -> list[str]:
    """The kernels that the source has."""
    found = [name for line in SOURCE.read_text().splitlines() if line.startswith("#if") for name in re.findall(r"\bK_(\w+)", line)]
    return sorted(dict.fromkeys(found))


def _types(name: str) -> list[str]:
    """The element type of each parameter, as the source has it."""
    text = SOURCE.read_text()
    part = text[re.search(rf"#if.*\bK_{name}\b.*\n", text).end() :]
    found = re.search(r"NAME\((.*?)\) \{", part)
    return [re.sub(r"const |\*.*", "", x).strip() for x in found[1].split(",")]


def build(name: str, folder: pathlib.Path) -> None:
    """Write one launch file: the kernel on four CTAs of 128 threads."""
    folder.mkdir(parents=True, exist_ok=True)
    kernel = folder / "kernel.ptx"
    command = ["nvcc", "-ptx", "-arch=sm_90a", "-O3", "-std=c++17", f"-DK_{name}", f"-DNAME={name}", "-o", str(kernel), str(SOURCE)]
    subprocess.run(command, check=True)
    arrays = []
    for k, kind in enumerate(_types(name)):
        dtype = BYTES[kind]
        width = int(dtype[1:]) // 8
        how = "zeros" if k == 2 else {"integers": [0, 1000]}
        arrays.append(
            {
                "name": "abo"[k],
                "dtype": dtype,
                "shape": [ARRAY_BYTES // width],
                "seed": 977 * k + len(name) * 131 + ord(name[0]),
                "distribution": how,
            }
        )
    cluster = [2, 1, 1] if name == "cluster_pairs" else [1, 1, 1]
    about = {
        "schema": "smemsim.launch/1", "title": f"Counted accesses: {name.replace('_', ' ')}", "entry": name, "arch": "sm_90a", "grid": [4, 1, 1], "block": [128, 1, 1], "cluster": cluster,
        "shared_bytes": 0, "cooperative": False, "args": [{"array": x["name"]} for x in arrays], "arrays": arrays, "outputs": ["o"], "exact": True, "why_not_exact": "", "tolerance": {},
    }  # fmt: skip
    (folder / "launch.json").write_text(json.dumps(about, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    asked = parser.parse_args()
    for name in names():
        build(name, asked.out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
