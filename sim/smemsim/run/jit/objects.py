"""LLVM text as machine code, kept on disk (`smemsim.base.store`): what one process has compiled, no other one
compiles again.

An object is named by the digest of its text, of the processor and of LLVM. A damaged one is compiled again.
`SMEMSIM_LLVM_LEVEL=0` leaves LLVM's optimisations out: code that runs once costs less to make so than it gains.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import time
from typing import Any

from smemsim.base import store

__all__ = ["LEVEL", "functions", "is_kept"]


LEVEL = "SMEMSIM_LLVM_LEVEL"  # of the environment: 0 to 3, how much LLVM optimises


def _level() -> int:
    given = os.environ.get(LEVEL, "")
    return int(given) if given in ("0", "1", "2", "3") else 1


@functools.cache
def _target(level: int = 1) -> Any:
    """The target machine of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=level, jit=True)


@functools.cache
def _host() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {llvm.llvm_version_info} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(_target(), use_jit_link=False, suppress_errors=True)


def _key(text: str) -> str:
    level = _level()
    return hashlib.sha256(f"{_host()}{f' level {level}' if level != 1 else ''}\n{text}".encode()).hexdigest()


def is_kept(text: str) -> bool:
    """Has some process compiled this text?"""
    return store.has(_key(text))


RECENT = 64  # texts whose functions a process keeps, for all programs: they share blocks
_recent: dict[str, list[Any]] = {}


def functions(text: str, *signatures: tuple[str, Any]) -> list[Any]:
    """The functions of a module by name, each made by its ctypes prototype: from disk, or compiled now. They hold the
    memory that their code is in.
    """
    key = _key(text)
    made = _recent.pop(key, None)
    if made is None:
        made = _from_disk(key, signatures) or _compiled(key, text, signatures)
    _recent[key] = made
    if len(_recent) > RECENT:
        del _recent[next(iter(_recent))]
    return made


def _from_disk(key: str, signatures: tuple[tuple[str, Any], ...]) -> list[Any] | None:
    image = store.read(key)
    if image is None:
        return None
    try:
        return _linked(image, signatures)
    except RuntimeError:  # a damaged file
        return None


def _compiled(key: str, text: str, signatures: tuple[tuple[str, Any], ...]) -> list[Any]:
    import llvmlite.binding as llvm

    begin = time.monotonic()
    target = _target(_level())
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    image = target.emit_object(module)
    store.write(key, image, seconds=time.monotonic() - begin)
    return _linked(image, signatures)


_numbers = itertools.count()


def _linked(image: bytes, signatures: tuple[tuple[str, Any], ...]) -> list[Any]:
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, _ in signatures:
        builder = builder.export_symbol(name)
    library = builder.link(_linker(), f"smemsim{next(_numbers)}")
    made = [prototype(library[name]) for name, prototype in signatures]
    for function in made:
        function.library = library
    return made
