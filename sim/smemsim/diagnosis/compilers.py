"""Findings of kernels in Python: the compiler that is to blame, and the releases that are free of its fault.

If no compiler is to blame, the call of the language that makes what the PTX lacks (`core/spec/compiler_faults.py`).
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Sequence

from smemsim.base.files import source_text
from smemsim.core.finding import OR, Finding
from smemsim.core.spec.compiler_faults import COMPILER_FAULTS, LANGUAGE_CALLS, CompilerFault

__all__ = ["blamed", "compiler_of"]


_FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"]+)"', re.MULTILINE)
_OF_TRITON = "global_smem"  # the shared memory of Triton's kernels, by its name
PTX_ALONE = "the PTX of the kernel"  # the source of a fault that no document has
_INLINE = ("inline_asm", "inline_ptx")  # the kernel's own PTX


def compiler_of(ptx: str, sources: Sequence[str]) -> str:
    """The compiler of a Python language that wrote a PTX: "Triton", "Gluon", "TileLang", "CuTe DSL" or "".

    `sources` are the texts of its source files, those that can be read.

    >>> compiler_of(".extern .shared .align 16 .b8 global_smem[];", ["import triton"])
    'Triton'
    >>> compiler_of("", ["import cutlass.cute as cute"])
    'CuTe DSL'
    """
    if _OF_TRITON in ptx:
        return "Gluon" if any("gluon" in text for text in sources) else "Triton"
    if "tl_templates" in ptx or any("tl_templates" in text for text in sources):
        return "TileLang"
    return "CuTe DSL" if any("import cutlass" in text for text in sources) else ""


def blamed(findings: Iterable[Finding], ptx: str, uses: frozenset[str], folders: Sequence[pathlib.Path]) -> list[Finding]:
    """The findings. One that a row of `COMPILER_FAULTS` fits says whose fault it is, and its repair is what is free of
    the fault. Others have the call of the language (`LANGUAGE_CALLS`) after their repair.
    """
    found = list(findings)
    if not any(f.code in row.codes for f in found for row in (*COMPILER_FAULTS, *LANGUAGE_CALLS)):
        return found
    texts = [text for name in dict.fromkeys(_FILE.findall(ptx)) if (text := source_text(name, folders))]
    compiler = compiler_of(ptx, texts)
    if not compiler or any(word in text for text in texts for word in _INLINE):
        return found
    return [
        _with_blame(f, fault, is_sure=bool(texts))
        if (fault := _fault_of(f, compiler, uses)) is not None
        else _with_call(f, compiler if texts else "")
        for f in found
    ]


def _with_call(f: Finding, language: str) -> Finding:
    """A finding with the call of the language after its repair; unchanged if no row fits, or if it has another cause."""
    if f.cause is not None or not f.repair:
        return f
    late = [half.instruction.text for half in f.halves[-1:] if half.instruction is not None]  # what is not waited for
    text = late[0] if late else f.instruction
    rows = (row for row in LANGUAGE_CALLS if row.language == language and f.code in row.codes)
    fits = (row.call for row in rows if re.search(row.instruction, text))
    call = next(fits, "")
    return dataclasses.replace(f, repair=f"{f.repair}; or in {language}: {call}") if call else f


def _fault_of(f: Finding, compiler: str, uses: frozenset[str]) -> CompilerFault | None:
    texts = [f.instruction, "" if f.other is None else f.other.text]
    return next(
        (
            fault
            for fault in COMPILER_FAULTS
            if fault.compiler == compiler
            and f.code in fault.codes
            and fault.uses <= uses
            and (fault.is_of_global or not f.arrays)
            and any(re.search(fault.instruction, text) for text in texts if text)
        ),
        None,
    )


def _with_blame(f: Finding, fault: CompilerFault, *, is_sure: bool) -> Finding:
    """A finding with the compiler's fault. `is_sure`: the source can be read, so a Triton kernel is not Gluon's."""
    source = f" ({fault.source})" * (fault.source != PTX_ALONE)
    own = f.repair if f.cause is None else ""
    if fault.compiler == "Triton" and not is_sure:
        free = f"in a Triton kernel (not Gluon) Triton is at fault: {fault.free}"
        return dataclasses.replace(f, compiler=fault.compiler, repair=OR.join(filter(None, (own, free))))
    why = f"this is {fault.compiler}'s fault, not the kernel's: {fault.says}{source}"
    parts = (f"in the PTX: {own}" * bool(own), fault.free)
    return dataclasses.replace(
        f,
        compiler=fault.compiler,
        why="; ".join(filter(None, (f.why, why))),
        repair=OR.join(filter(None, parts if f.tried else parts[::-1])),
    )
