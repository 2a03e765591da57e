"""Machine code of the kit's kernels: from the PTX in this package, which the driver compiles, or by nvcc from the CUDA
C++ in the folder of this file.

The PTX of a kernel is found by a digest of its CUDA C++. So a user needs no toolkit. Only changed CUDA C++ needs nvcc.
`python -m tools.kit_ptx` writes the PTX.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from typing import Any

from smemsim.base.errors import InputError

__all__ = ["COMPILED", "archive", "compiler", "digest", "machine_code", "ptx_of"]

HERE = pathlib.Path(__file__).resolve().parent
COMPILED = "SMEMSIM_CAPTURE_COMPILED"  # the folder of machine code that a capture's processes share
BY = "compiler"  # a line of text in an archive: the compiler that wrote its PTX
PTX_INPUT = 1  # CU_JIT_INPUT_PTX


def digest(text: str, arch: str) -> str:
    """The identity of a kernel's CUDA C++: the text, the kit's headers and the card it is for."""
    headers = "".join(p.read_text() for p in sorted(HERE.glob("*.cuh")))
    return hashlib.sha256((arch + text + headers).encode()).hexdigest()[:16]


def archive(arch: str) -> pathlib.Path:
    """The file with the PTX of an architecture's kernels."""
    return HERE / "ptx" / f"{arch}.tar.xz"


@functools.cache
def _archived(arch: str) -> dict[str, str]:
    """PTX by the digest of its CUDA C++, and `compiler`."""
    if not archive(arch).exists():
        return {}
    with tarfile.open(archive(arch)) as opened:
        members = [(m.name, opened.extractfile(m)) for m in opened.getmembers()]
        return {pathlib.Path(name).stem: data.read().decode() for name, data in members if data is not None}


def ptx_of(text: str, arch: str) -> str | None:
    """The packaged PTX of a kernel; None where its CUDA C++ has been changed since, or has no PTX for this card."""
    return _archived(arch).get(digest(text, arch))


def compiler(arch: str) -> str:
    """The compiler of the kernels, for a manifest."""
    if by := _archived(arch).get(BY):
        return f"{by.strip()} to PTX, compiled by the driver"
    return f"nvcc {_nvcc_version()}"


def _nvcc_version() -> str:
    if shutil.which("nvcc") is None:
        return "none"
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    return next((line.split("V")[-1] for line in said.splitlines() if "release" in line), "unknown")


def machine_code(name: str, text: str, arch: str) -> bytes:
    """The machine code of a kernel, compiled once for all processes of a capture. InputError where neither PTX nor nvcc
    is there.
    """
    kept = _folder() / f"{name}-{digest(text, arch)}.cubin"
    if not kept.exists():
        ptx = ptx_of(text, arch)
        made = _by_driver(name, ptx, arch) if ptx is not None else _by_nvcc(name, text, arch)
        new = kept.with_name(f"{kept.name}.{os.getpid()}")
        new.write_bytes(made)
        new.replace(kept)
    return kept.read_bytes()


def _folder() -> pathlib.Path:
    named = os.environ.get(COMPILED)
    if named is None:
        named = os.environ[COMPILED] = tempfile.mkdtemp(prefix="smemsim-capture-")
        atexit.register(shutil.rmtree, named, ignore_errors=True)
    return pathlib.Path(named)


def _by_driver(name: str, ptx: str, arch: str) -> bytes:
    """PTX through the driver's linker, which gives machine code that other processes can load."""
    from cuda.bindings import driver as cu

    from smemsim.testing.recorder import Gpu

    def ok(result: tuple[Any, ...], call: str) -> Any:
        if int(result[0]):
            raise InputError(
                f"{call} of kernel {name}: CUDA error {int(result[0])}; the driver does not compile this PTX. A newer driver may, or nvcc on the PATH of this version or later: {compiler(arch)}"
            )
        return result[1] if len(result) == 2 else result[1:]

    Gpu()  # a context
    held = ptx.encode() + b"\0"
    state = ok(cu.cuLinkCreate(0, [], []), "cuLinkCreate")
    ok(cu.cuLinkAddData(state, cu.CUjitInputType(PTX_INPUT), held, len(held), name.encode(), 0, [], []), "cuLinkAddData")
    address, size = ok(cu.cuLinkComplete(state), "cuLinkComplete")
    made = ctypes.string_at(int(address), int(size))
    ok((cu.cuLinkDestroy(state)[0], None), "cuLinkDestroy")
    return made


def _by_nvcc(name: str, text: str, arch: str) -> bytes:
    if shutil.which("nvcc") is None:
        raise InputError(
            f"kernel {name}: this package has no PTX of it for {arch}, and nvcc is not on the PATH; put nvcc 12.9 or later there"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder) / f"{name}.cu", pathlib.Path(folder) / f"{name}.cubin"
        source.write_text(text)
        code = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
        done = subprocess.run(["nvcc", "-cubin", code, "-I", str(HERE), "-o", str(cubin), str(source)], capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            raise InputError(f"kernel {name}: nvcc {_nvcc_version()} does not compile it for {arch}: {done.stderr.strip()[-600:]}")
        return cubin.read_bytes()
