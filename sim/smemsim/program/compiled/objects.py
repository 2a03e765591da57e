"""LLVM text as machine code, kept on disk: what one process has compiled, no other one compiles again.

An object is named by the digest of its text, of the processor and of LLVM. It is written beside and renamed, so that processes never see half of one; a
damaged one is compiled again. Where nothing can be written, the process keeps its own.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import tempfile
from typing import Any

__all__ = ["MOST_BYTES", "folder", "functions", "is_kept"]


MOST_BYTES = 256 << 20  # of objects in the folder; the oldest go first
FOLDER = "SMEMSIM_CACHE_DIR"


def folder() -> pathlib.Path:
    """Where objects are kept: in `SMEMSIM_CACHE_DIR`, else in the user's cache."""
    base = os.environ.get(FOLDER) or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "smemsim"
    return pathlib.Path(base) / "objects"


@functools.cache
def _target() -> Any:
    """The target machine of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)


@functools.cache
def _host() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {llvm.llvm_version_info} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(_target(), use_jit_link=False, suppress_errors=True)


def _path(text: str) -> pathlib.Path:
    return folder() / (hashlib.sha256(f"{_host()}\n{text}".encode()).hexdigest()[:40] + ".o")


def is_kept(text: str) -> bool:
    """Has some process compiled this text?"""
    return _path(text).exists()


_alive: list[Any] = []  # libraries that functions are in


def functions(text: str, *signatures: tuple[str, Any]) -> list[Any]:
    """The functions of a module by name, each made by its ctypes prototype: from disk, or compiled now."""
    import llvmlite.binding as llvm

    path = _path(text)
    image = _read(path)
    if image is not None:
        try:
            return _linked(image, signatures)
        except RuntimeError:  # a damaged file
            pass
    module = llvm.parse_assembly(text)
    module.triple = _target().triple
    module.data_layout = str(_target().target_data)
    image = _target().emit_object(module)
    _write(path, image)
    return _linked(image, signatures)


def _linked(image: bytes, signatures: tuple[tuple[str, Any], ...]) -> list[Any]:
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, _ in signatures:
        builder = builder.export_symbol(name)
    library = builder.link(_linker(), f"smemsim{len(_alive)}")
    _alive.append(library)
    return [prototype(library[name]) for name, prototype in signatures]


def _read(path: pathlib.Path) -> bytes | None:
    try:
        image = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    return image[32:] if hashlib.sha256(image[32:]).digest() == image[:32] else None


def _write(path: pathlib.Path, image: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(image).digest() + image)
        pathlib.Path(name).replace(path)
        _bound(path.parent)
    except OSError:
        return


def _bound(where: pathlib.Path) -> None:
    """Remove the objects that were used longest ago, while there are too many bytes."""
    known = []
    for path in where.glob("*.o"):
        try:
            stat = path.stat()
        except OSError:
            continue
        known.append((stat.st_mtime, stat.st_size, path))
    size = sum(entry[1] for entry in known)
    for _, own, path in sorted(known):
        if size <= MOST_BYTES:
            break
        size -= own
        path.unlink(missing_ok=True)
