"""What can be said of a map or a descriptor without running anything, and what is right only because a tile has one swizzle atom."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from smemsim.checking.reads import Read, meant_of, words_path
from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import Machine, finding
from smemsim.descriptors.layout import used_strides
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.solve.inverse import locate
from smemsim.spec.findings import Finding, Severity
from smemsim.spec.formats import element_format
from smemsim.spec.smem_descriptor import IDLE_STRIDES, START
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["descriptor_notes", "map_notes", "one_atom_hides", "unmeant_descriptor"]

OF_MAPS = ("T208", "T213", "T214", "T219", "T222")
OF_STORES = ("T216",)


def map_notes(machine: Machine, name: str, tm: TensorMap, *, stores: bool) -> Iterator[CheckFinding]:
    """What is odd about a map that the driver accepts."""
    for one in tm.problems(machine.arch):
        if one.code in OF_MAPS or (stores and one.code in OF_STORES):
            yield _said(one, f"map.{name}.{one.where}", f"map {name}")


def descriptor_notes(read: Read) -> Iterator[CheckFinding]:
    """Fixed bits, and fields that the instruction never uses; what is read through the descriptor is compared elsewhere."""
    word = int(read.words[0, 0]) & ~START.mask
    for one in _notes(word, read.arch, read.dtype, read.major, read.rows, read.k, read.packing):
        yield _said(one, words_path(read.where, read.raw), read.title)


@functools.lru_cache(1024)
def _notes(word: int, arch: str, dtype: str, major: str, rows: int, k: int, packing: str) -> tuple[Finding, ...]:
    """Of a pipeline's many descriptors most differ in their start only."""
    found = SmemDescriptor.decode(word, arch=arch).problems(dtype=dtype, major=major, rows=rows, k=k, packing=packing)
    return tuple(one for one in found if one.code in ("D305", "D306", "D310") and one.severity is Severity.NOTE)


def unmeant_descriptor(arch: str, where: str, title: str, raw: dict[str, Any], word: int, **operand: Any) -> Iterator[CheckFinding]:
    """An operand of which the scenario does not say what it was meant to be: what its descriptor alone shows."""
    for one in SmemDescriptor.decode(word, arch=arch).problems(**operand):
        yield _said(one, words_path(where, raw), title)


def one_atom_hides(machine: Machine, read: Read) -> Iterator[CheckFinding]:
    """A stride that this operand does not use, and that is wrong for one of twice the rows which lies in shared memory as well."""
    if read.starts is None or "word" not in read.raw:
        return
    d = read.descriptor
    fmt = element_format(read.dtype)
    if d.swizzle is Swizzle.INVALID or d.lbo_mode:
        return
    used = used_strides(MODES[d.swizzle], read.major, read.rows, read.k, fmt.elements_per_chunk(read.packing))
    idle = {name: getattr(d, name) for name, of in used.items() if not of and getattr(d, name) not in IDLE_STRIDES}
    if not idle:
        return
    meant = meant_of(read.raw, read.tensor, (1, 1), 2 * read.rows, read.k)
    places = locate(machine.source, meant)
    if (meant < 0).any() or (places < 0).any():
        return
    twice = dataclasses.replace(read, words=read.words[:1, :1], rows=2 * read.rows, meant=meant, starts=read.starts[:1, :1])
    for s in twice.solutions(places):
        needed = {"leading_byte_offset": s.leading, "stride_byte_offset": s.stride}
        differ = {name: (now, needed[name]) for name, now in idle.items() if needed[name] not in (None, now)}
        if s.swizzle is d.swizzle and (s.starts == twice.field_starts).all() and differ:
            for name, (now, wanted) in differ.items():
                yield finding("H803", f"{read.where}.word", read.title,
                              f"{name} {now} is right only because the operand is one atom of {read.rows} rows; for the {2 * read.rows} rows that lie in shared memory it would be {wanted}",
                              f"{name} = {wanted}", numbers={name: [now, wanted]})  # fmt: skip
            return


def _said(one: Finding, where: str, title: str) -> CheckFinding:
    said = one.message if one.where.partition("[")[0] in one.message else f"{one.where}: {one.message}"
    return finding(one.code, where, title, said, one.repair, severity=one.severity)
