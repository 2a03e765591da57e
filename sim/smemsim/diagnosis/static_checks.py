"""Checks of buffers, words and maps before any step runs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping

from smemsim.base.errors import SmemsimError
from smemsim.core.finding import Finding, Fix, InScenario, InWord, Path
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.smem_descriptor import IDLE_STRIDES, START
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.words.operand_layout import used_strides
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.reads import meant_of, words_path
from smemsim.diagnosis.scenario import Operand, ScenarioTables
from smemsim.diagnosis.scenario_machine import Machine, Read, SharedBuffer, finding
from smemsim.diagnosis.tensors import GlobalTensor

__all__ = ["buffer_notes", "descriptor_notes", "map_findings", "map_notes", "one_atom_hides", "unmeant_descriptor"]


# ---- Buffers that have bytes in common


PERIOD = max(mode.period for mode in MODES.values())  # no buffer needs a larger alignment


def buffer_notes(machine: Machine, scenario: ScenarioTables) -> Iterator[Finding]:
    """Each buffer of known size that shares bytes with an earlier one: the one that reaches furthest. Buffers that
    share all memory on purpose are left out.
    """
    ends = {b.name: b.address + b.bytes for b in machine.buffers.values() if b.bytes is not None and b.bytes > 0}
    reach: list[SharedBuffer] = []  # of those in front the two that end last, of different bytes
    for buffer in sorted((b for b in machine.buffers.values() if b.name in ends), key=lambda b: b.address):
        others = [b for b in reach if (b.address, b.bytes) != (buffer.address, buffer.bytes)]
        if others and ends[others[0].name] > buffer.address:
            yield _shared(machine, scenario, others[0], buffer, ends)
        if len(others) == len(reach):
            reach = sorted((*reach, buffer), key=lambda b: -ends[b.name])[:2]


def _shared(machine: Machine, scenario: ScenarioTables, first: SharedBuffer, second: SharedBuffer, ends: Mapping[str, int]) -> Finding:
    """Two overlapping buffers, and the next place of the second one after the first, with the same alignment."""
    begin, end, given = second.address, min(ends[first.name], ends[second.name]), scenario.buffers[second.name]
    align = math.gcd(begin, PERIOD)
    by = -(-ends[first.name] // align) * align - begin
    key, old = ("offset", given.offset) if given.address is None else ("address", given.address)
    where, new = second.path / key, (old or 0) + by
    past = ends[second.name] + by - machine.end
    if past > 0:
        repair = f"smaller buffers: after {first.name}, {second.name} would end {past:,} bytes past the shared window"
    else:
        repair = f"{where} = {new if key == 'offset' else hex(new)}, after {first.name}"
    return finding("A108", where, f"buffer {second.name}",
                   f"{first.name} ({first.address:#x} to {ends[first.name] - 1:#x}) and {second.name} ({begin:#x} to {ends[second.name] - 1:#x}) share "
                   f"{end - begin:,} bytes, {begin:#x} to {end - 1:#x}", repair, why="a write to one of them changes the other; no change is needed if they are never in use at the same time",
                   numbers={"first": begin, "last": end - 1, "bytes": end - begin, "other": first.name},
                   changes=() if past > 0 else (Fix(where, old, new),))  # fmt: skip


# ---- Checks of a map or a descriptor without running anything, and values that are right only because a tile has one
# swizzle atom


OF_MAPS = ("T208", "T213", "T214", "T219", "T222")
OF_STORES = ("T216",)


def map_notes(machine: Machine, name: str, tm: TensorMap, *, stores: bool) -> Iterator[Finding]:
    """The findings about a map that the driver accepts and that is odd all the same."""
    for problem in tm.problems(machine.arch):
        if problem.code in OF_MAPS or (stores and problem.code in OF_STORES):
            yield _in_scenario(problem, Path.of("map", name) + _field(problem), f"map {name}")


def descriptor_notes(read: Read) -> Iterator[Finding]:
    """Fixed bits, and fields that the instruction never uses; what is read through the descriptor is compared
    elsewhere.
    """
    word = int(read.words[0, 0]) & ~START.mask
    for note in _notes(word, read.arch, read.dtype, read.major, read.rows, read.k, read.packing):
        yield _in_scenario(note, words_path(read.where, read.operand), read.title)


@functools.lru_cache(1024)
def _notes(word: int, arch: str, dtype: str, major: str, rows: int, k: int, packing: str) -> tuple[Finding, ...]:
    """The notes about a descriptor without its start. They are kept: most descriptors of a pipeline differ in their
    start only.
    """
    problems = SmemDescriptor.decode(word, arch=arch).problems(dtype=dtype, major=major, rows=rows, k=k, packing=packing)
    return tuple(problem for problem in problems if problem.code in ("D305", "D306", "D310") and problem.severity is Severity.NOTE)


def unmeant_descriptor(
    arch: str, where: Path, title: str, operand: Operand, word: int, rows: int, k: int, packing: str
) -> Iterator[Finding]:
    """The findings about the descriptor alone, for an operand without `meant`."""
    for problem in SmemDescriptor.decode(word, arch=arch).problems(
        dtype=operand.dtype, major=operand.major, rows=rows, k=k, packing=packing
    ):
        yield _in_scenario(problem, words_path(where, operand), title)


def one_atom_hides(machine: Machine, read: Read) -> Iterator[Finding]:
    """The finding about a stride that this operand does not use, and that is wrong for an operand of twice the rows,
    which lie in shared memory too.
    """
    if read.starts is None or read.operand.word is None:
        return
    d = read.descriptor
    fmt = element_format(read.dtype)
    if d.swizzle is Swizzle.INVALID or d.lbo_mode:
        return
    used = used_strides(MODES[d.swizzle], read.major, read.rows, read.k, fmt.elements_per_chunk(read.packing))
    idle = {name: getattr(d, name) for name, of in used.items() if not of and getattr(d, name) not in IDLE_STRIDES}
    if not idle:
        return
    meant = meant_of(read.meaning, read.tensor, (1, 1), 2 * read.rows, read.k)
    places = machine.memory.locate(meant)
    if (meant < 0).any() or (places < 0).any():
        return
    twice = dataclasses.replace(read, words=read.words[:1, :1], rows=2 * read.rows, meant=meant, starts=read.starts[:1, :1])
    for s in twice.solutions(places):
        needed = {"leading_byte_offset": s.leading, "stride_byte_offset": s.stride}
        differ = {name: (now, needed[name]) for name, now in idle.items() if needed[name] not in (None, now)}
        if s.swizzle is d.swizzle and (s.starts == twice.field_starts).all() and differ:
            for name, (now, wanted) in differ.items():
                yield finding("H803", read.where / "word", read.title,
                              f"{name} = {now} B is wrong, but these {read.rows} rows do not use it",
                              f"{name} = {wanted}", why=f"the field is the step to the next {read.rows} rows of the tile, which lie {wanted} B further on", numbers={name: [now, wanted]})  # fmt: skip
            return


def _field(of_word: Finding) -> Path:
    return of_word.at.field if isinstance(of_word.at, InWord) else Path()


def _in_scenario(of_word: Finding, where: Path, title: str) -> Finding:
    """A finding about a word, at the place of the scenario where the word stands; `inside` keeps the word's field."""
    return dataclasses.replace(of_word, at=InScenario(where, title, inside=of_word.inside), source="")


# ---- Does a tensor map describe the tensor it is meant to describe?


def map_findings(machine: Machine, name: str, tm: TensorMap, tensor: GlobalTensor) -> Iterator[Finding]:
    """Element width, contiguous axis, extents and strides; the first thing that differs."""
    where, title = Path.of("map", name), f"map {name}"
    bits = tm.type_row.bits
    if bits != tensor.fmt.bits and not (tensor.fmt.bits < 8 and bits % 8 == 0):
        yield finding("T211", where / "data_type", title, f"the map has elements of {bits} bits; {tensor.name} has {tensor.fmt.name}, {tensor.fmt.bits} bits",
                      f"data_type = {tensor.fmt.name}", why="coordinates, extents and the box count elements of the map", numbers={"map": bits, "tensor": tensor.fmt.bits})  # fmt: skip
        return
    dims = list(zip(tm.global_dim, (bits // 8, *tm.global_strides), strict=False))
    axes = {axis: (tensor.extent[axis], tensor.bit_stride(axis)) for axis in tensor.extent}
    contiguous = tensor.contiguous
    exchanged = sorted(n for n, _ in dims) == sorted(n for n, _ in axes.values())
    if contiguous and exchanged and len(dims) == len(axes) and dims[0][0] != axes[contiguous][0]:
        other = next(axis for axis, (n, _) in axes.items() if n == dims[0][0])
        yield finding("T206", where / "global_dim", title,
                      f"dimension 0 has {dims[0][0]} elements, the extent of {other}; {tensor.name} is contiguous along {contiguous} ({axes[contiguous][0]} elements)",
                      f"list the dimensions with {contiguous} first", why="dimension 0 of a map is the contiguous one", numbers={"dimension": dims[0][0], "contiguous": axes[contiguous][0]})  # fmt: skip
        return
    if not tensor.address <= tm.global_address < tensor.end:
        yield finding("T207", where / "global_address", title, f"the map begins at {tm.global_address:#x}; {tensor.name} has {tensor.address:#x} to {tensor.end - 1:#x}",
                      f"global_address = {tensor.address:#x}", why="transfers through the map touch another tensor")  # fmt: skip
        return
    number = _odd_dimension(tm, tensor)
    if number is not None:
        yield _other_stride(machine, name, tm, number, tensor)
        return
    past = _past_end(tm, tensor)
    if past > 0:
        yield finding("T207", where / "global_dim", title, f"the map of extents {tuple(tm.global_dim)} ends {past} bytes after {tensor.name}",
                      f"extents of {', '.join(f'{axis} {n}' for axis, (n, _) in axes.items())}", why="elements past the end are not filled with zeros: they are other data", numbers={"past": past})  # fmt: skip


def _odd_dimension(tm: TensorMap, tensor: GlobalTensor) -> int | None:
    """The first dimension whose stride is neither that of an axis, nor a multiple of it that stays within the axis."""
    axes = [(tensor.extent[axis], tensor.bit_stride(axis)) for axis in tensor.extent]
    for number, (count, stride) in enumerate(zip(tm.global_dim[1:], tm.global_strides, strict=False), 1):
        bits = 8 * stride
        if (
            count > 1
            and stride
            and not any(step and bits % step == 0 and (bits == step or (count - 1) * (bits // step) < n) for n, step in axes)
        ):
            return number
    return None


def _past_end(tm: TensorMap, tensor: GlobalTensor) -> int:
    """Bytes by which the map exceeds the tensor, 0 or less if it does not."""
    bits = tm.type_row.bits
    dims = zip(tm.global_dim, (bits // 8, *tm.global_strides), strict=False)
    end = tm.global_address + sum((n - 1) * stride for n, stride in dims) + -(-bits // 8)
    return end - tensor.end if bits >= 8 else 0


def _other_stride(machine: Machine, name: str, tm: TensorMap, number: int, tensor: GlobalTensor) -> Finding:
    """A stride that no axis has, and the one that makes the map the tensor's: that of an axis, or of a dimension that
    goes on where another ends.
    """
    where, stride = Path.of("map", name), tm.global_strides[number - 1]
    dims = list(zip(tm.global_dim, (tm.type_row.bits / 8, *tm.global_strides), strict=False))
    steps = [tensor.bit_stride(axis) // 8 for axis in tensor.extent if axis != tensor.contiguous]
    counted = [step for step in steps if step == stride * dims[0][1]]  # elements instead of bytes
    old = list(tm.global_strides)
    for wanted in dict.fromkeys([*counted, *steps, *(int(n * step) for n, step in dims)]):
        new = [wanted if i == number - 1 else x for i, x in enumerate(old)]
        if wanted != stride and new.count(wanted) == 1 and _describes(machine, name, new, tensor):
            break
    else:
        new, wanted = [], 0
    listed = ", ".join(f"{axis}: {tensor.bit_stride(axis) / 8:g} B" for axis in tensor.extent)
    why = (
        f"the driver counts bytes; {stride} is a number of elements of {dims[0][1]:g} B"
        if wanted in counted
        else f"{stride} B is not the stride of an axis of the tensor"
    )
    return finding("T207", where / "global_strides", f"map {name}",
                   f"global_strides[{number - 1}] = {stride} B, the step of dimension {number}; the strides of {tensor.name} are ({listed})",
                   f"global_strides[{number - 1}] = {wanted}" if new else "the tensor's byte strides", why=why,
                   numbers={"stride": stride}, changes=(Fix(where / "global_strides", old, new),) if new else ())  # fmt: skip


def _describes(machine: Machine, name: str, strides: list[int], tensor: GlobalTensor) -> bool:
    """Is the map with other strides one of the tensor?"""
    arguments = machine.arguments[name]
    if arguments.raw is not None:
        return False
    try:
        other = machine.map_of(dataclasses.replace(arguments, global_strides=tuple(strides)))
    except SmemsimError:
        return False
    return _odd_dimension(other, tensor) is None and _past_end(other, tensor) <= 0
