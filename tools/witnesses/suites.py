"""Compiled kernels as suites of kind `compiled_mma`: the arrays, and the files."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import numpy as np

from smemsim.evidence.format import Suite, write_suite

HERE = pathlib.Path(__file__).resolve().parent


__all__ = ["TITLES", "arrays_of", "suite_of", "write"]

KIND, ARCH = "compiled_mma", "sm_100a"
TITLES = {
    "triton_mma": "tcgen05.mma of one CTA, A and B in shared memory: every layout that Triton finds a descriptor for",
    "triton_mma_pair": "tcgen05.mma of CTA pairs (.cta_group::2)",
    "triton_mma_tmem": "tcgen05.mma with A in tensor memory, of one CTA and of pairs",
    "triton_mma_scaled": "Block-scaled tcgen05.mma (mxf8f6f4, mxf4, mxf4nvf4) and the tcgen05.cp of their scale factors",
}
ABSENT = (1 << 64) - 1


def _word(what: str, text: str, value: int | None, needed: bool = True) -> int:
    if value is None and needed:
        raise ValueError(f"{what} of '{text}' is not known: the folder lacks an instruction, or a register is decided when the kernel runs")
    return ABSENT if value is None else value


def _ragged(name: str, rows: list[list[Any]], dtype: Any, width: int = 0) -> dict[str, np.ndarray]:
    start = np.cumsum([0, *(len(r) for r in rows)]).astype(np.int64)
    flat = [item for r in rows for item in r]
    body = np.array(flat, dtype)
    return {name: body.reshape(len(flat), width) if width else body, f"{name}_start": start}


def arrays_of(kernels: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The arrays of a suite; ValueError for a kernel with an operand that could not be folded."""
    out: dict[str, np.ndarray] = {}
    for name in ("name", "ptx_sha256", "a_type", "b_type", "d_type", "scale_type"):
        out[name] = np.array([k[name] for k in kernels], str)
    for name, dtype in (
        ("cta_group", "u1"),
        ("scale_block", "u1"),
        ("a_in_tmem", "u1"),
        ("saturate", "u1"),
        ("tile", "i4"),
        ("instruction", "i4"),
    ):
        out[name] = np.array([k[name] for k in kernels], dtype)
    out["base"] = np.array([k["base"] for k in kernels], np.int32)
    out["unit_bits"] = np.array([k["unit_bits"] for k in kernels], np.uint8)
    out |= _ragged("layout", [k["layout"] for k in kernels], np.int16, 4)
    mma, cp = [], []
    for k in kernels:
        scaled = bool(k["scale_block"])
        for s in k["mma"]:
            if s.guard == 0 or s.ws or s.sparse or s.a_in_tmem != bool(k["a_in_tmem"]):
                raise ValueError(f"{k['name']}: '{s.text}' is not what the kernel asked for")
        mma.append([
            (
                *(_word(n, s.text, getattr(s, n)) for n in ("a", "b", "idesc", "d")),
                2 if s.enable_input_d is None else s.enable_input_d,
                *(_word(n, s.text, getattr(s, n), scaled) for n in ("scale_a", "scale_b")),
            )
            for s in k["mma"]
        ])  # fmt: skip
        cp.append([(_word("descriptor", s.text, s.descriptor), _word("taddr", s.text, s.taddr)) for s in k["cp"]])
    out |= _ragged("mma", mma, np.uint64, 7)
    out |= _ragged("mnemonic", [[s.mnemonic for s in k["mma"]] for k in kernels], str)
    out |= _ragged("cp", cp, np.uint64, 2)
    out |= _ragged("copy", [[s.mnemonic for s in k["cp"]] for k in kernels], str)
    return out


def suite_of(name: str, device: dict[str, str], kernels: list[dict[str, Any]]) -> Suite:
    """A suite that is in no file, for comparing what may not be kept."""
    manifest = {"suite": name, "kind": KIND, "arch": ARCH, "device": device, "cases": len(kernels)}
    return Suite(pathlib.Path(f"<{name}>"), manifest, arrays_of(kernels))


def write(out: pathlib.Path, name: str, device: dict[str, str], kernels: list[dict[str, Any]]) -> None:
    """Write one suite with what the manifest says about the compiler and the tool."""
    files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(HERE.glob("*.py")) if not f.name.startswith("cute")}
    source = {"command": "python tools/witnesses/regenerate.py", "licence": "MIT (Triton)", "files": files}
    write_suite(
        out / name, suite=name, kind=KIND, arch=ARCH, title=TITLES[name], device=device, source=source,
        cases=len(kernels), arrays=arrays_of(kernels),
    )  # fmt: skip
