"""Tensor maps in memory: the 128 bytes that a transfer reads, and the instructions that change them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.replace import tensormap_replace
from smemsim.errors import OutsideError
from smemsim.gpu.asynchronous import each, stop
from smemsim.gpu.modifiers import Modifiers, Operands
from smemsim.gpu.registry import Gate, Step, implements, unmodelled
from smemsim.gpu.wave import OFFSET_MASK
from smemsim.ptx.module import Immediate, Instruction
from smemsim.spec.launches import SHARED_WINDOW
from smemsim.spec.tensor_map import LIMITS, TENSOR_MAP
from smemsim.spec.tensor_map_replace import REPLACE_FIELDS
from smemsim.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Cta, Wave

__all__ = ["map_at"]

SIZE = TENSOR_MAP.parts.size


@functools.lru_cache(maxsize=256)
def _decoded(raw: bytes) -> TensorMap:
    return TensorMap.from_bytes(raw)


def map_at(x: Wave, i: Instruction, address: int) -> TensorMap:
    """The tensor map at a generic address: of a parameter, a constant or a global array.

    Raises HardwareTrap, with the finding, for an address off 64 B and for one where nothing is; InputError for bytes that are no map.
    """
    if 0 <= address < len(x.launch.parameters):  # a place in the parameter bank, without cvta.param
        address += x.launch.parameter_address
    if address % LIMITS.object_alignment:
        message = f"the CUtensorMap is at {address:#x}, {address % LIMITS.object_alignment} past a multiple of {LIMITS.object_alignment} B"
        stop(x, i, "A104", message, "alignas(64) for the map, and for the structure it lies in", MISALIGNED_ADDRESS)
    try:
        raw = x.launch.memory.span(address, SIZE).tobytes()
    except OutsideError as problem:
        message = f"the address of the CUtensorMap is {address:#x}: {problem}"
        stop(x, i, "X001", message, "pass the map as a __grid_constant__ parameter, or its address in global memory", ILLEGAL_ADDRESS)
    return _decoded(raw)


def bytes_at(x: Wave, i: Instruction, cta: Cta, space: str, address: int) -> np.ndarray:
    """The 128 bytes of a map in shared or global memory (`space` "": generic), the memory itself; HardwareTrap, with the finding, where nothing is."""
    if not space and address >> 32 == SHARED_WINDOW >> 32:  # a generic address of shared memory
        address &= 0xFFFFFFFF
    elif space != "shared::cta":
        try:
            return x.launch.memory.span(address, SIZE)
        except OutsideError as problem:
            stop(x, i, "X001", str(problem), "check the address of the tensor map", ILLEGAL_ADDRESS)
    offset = (address & OFFSET_MASK) - cta.shared.begin
    if not 0 <= offset <= len(cta.shared.bytes) - SIZE:
        message = f"shared address {address:#x}: 128 bytes there are not inside the CTA's window"
        stop(x, i, "X001", message, "check the address of the tensor map", ILLEGAL_ADDRESS)
    return cta.shared.bytes[offset : offset + SIZE]


@implements("tensormap.replace")
def build_replace(i: Instruction, c: Linker) -> Step:
    """`tensormap.replace.tile.FIELD{.space}.b1024.type [map], {ordinal,} value` (PTX ISA 9.7.9.28)."""
    words, operands = Modifiers(i, "replace", "tile", "b1024"), Operands(i)
    field = words.need(*REPLACE_FIELDS)
    space = words.one_of(("global", "shared::cta"))
    words.need("b64" if REPLACE_FIELDS[field].bits == 64 else "b32")
    words.end()
    at = c.address(operands.next("an address"))
    ordinal = None
    if REPLACE_FIELDS[field].ordinals:
        number = operands.next("an ordinal")
        if not isinstance(number, Immediate):
            raise unmodelled(i, "the ordinal is no number")
        ordinal = number.value
    value = c.read(operands.next("a value"), f"u{REPLACE_FIELDS[field].bits}")
    operands.end()
    if REPLACE_FIELDS[field].codes:
        tensormap_replace(bytes(SIZE), field, int(value(None)), ordinal=ordinal, arch=c.arch)  # type: ignore[arg-type]

    def run(x: Wave) -> None:
        for (cta, _), (address, new) in each(x, [at, value]):
            raw = bytes_at(x, i, cta, space, address)
            raw[:] = np.frombuffer(tensormap_replace(raw.tobytes(), field, new, ordinal=ordinal, arch=c.arch), np.uint8)
        x.changes += 1

    return run


@implements("tensormap.cp_fenceproxy")
def build_cp_fenceproxy(i: Instruction, c: Linker) -> Step:
    """`tensormap.cp_fenceproxy.global.shared::cta…sync.aligned [dst], [src], 128`: a warp copies a map to global memory."""
    words, operands = (
        Modifiers(i, "cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"),
        Operands(i),
    )
    words.need("cta", "cluster", "gpu", "sys")
    words.end()
    to, at = c.address(operands.next("a destination")), c.address(operands.next("a source"))
    size = operands.next("a size")
    operands.end()
    if not isinstance(size, Immediate) or size.value != SIZE:
        raise unmodelled(i, f"a size that is not {SIZE}")

    def run(x: Wave) -> None:
        done: set[tuple[int, int, int]] = set()
        for (cta, _), (dst, src) in each(x, [to, at]):
            if (cta.index, dst, src) not in done:  # one copy for the warp, whose lanes name the same addresses
                done.add((cta.index, dst, src))
                bytes_at(x, i, cta, "global", dst)[:] = bytes_at(x, i, cta, "shared::cta", src)
        x.changes += 1

    return Gate(lambda x: x.gather(), run)


@implements("prefetch.param")
def build_prefetch(i: Instruction, c: Linker) -> Step:
    """`prefetch.param.tensormap [a]`: takes a place in the parameter bank; a generic address traps. Measured (H200): trace launches, trap_prefetch_param."""
    Modifiers(i, "param", "tensormap").end()
    address = c.address(i.operands[0])

    def run(x: Wave) -> None:
        at = np.broadcast_to(np.asarray(address(x)), (x.n,))
        if ((at < 0) | (at >= len(x.launch.parameters))).any():
            message = f"the address {int(at[0]):#x} is generic, and prefetch.param.tensormap takes a place in the parameter bank"
            stop(x, i, "X002", message, "prefetch.tensormap, without .param, takes generic addresses", MISALIGNED_ADDRESS)

    return run
