"""Tensor maps in memory: the 128 bytes that a transfer reads, and the instructions that change them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np

from smemsim.base.errors import OutsideError, SmemsimError
from smemsim.core.machine.tma import LOOPS, prepare
from smemsim.core.ptx.module import Immediate, Instruction
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_map import FIRST_UNREAD_WORD, LIMITS, TENSOR_MAP
from smemsim.core.spec.tensor_map_replace import REPLACE_FIELDS
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.replace import tensormap_replace
from smemsim.run.isa.asynchronous import stop
from smemsim.run.isa.memory.ordering import SCOPES
from smemsim.run.isa.memory.spaces import locate, note_read, note_write, values_of
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registry import Gate, Step, implements, unmodelled
from smemsim.run.scopes import level
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.launch import Launch
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["map_at", "prepare_maps"]


SIZE = TENSOR_MAP.parts.size
# bytes of a map with a meaning: the CuTe DSL makes no others, and copies what follows them
MEANT = 4 * FIRST_UNREAD_WORD


@remembered(256)
def _decoded(raw: bytes) -> TensorMap:
    return TensorMap.from_bytes(raw)


def prepare_maps(c: Linker, mode: str, *, is_store: bool = False) -> None:
    """At each launch of the program, decode the tensor maps among the parameters, and find out what they decide for
    transfers of a mode (`tma.prepare`). Other maps are decoded when a transfer reads them.
    """

    def prepare_each(launch: Launch) -> None:
        for tm in _MAPS(launch):
            prepare(tm, mode=mode, arch=launch.arch, is_store=is_store)

    for loop in LOOPS:
        loop.ready()
    c.at_launch[prepare_maps, mode, is_store] = prepare_each


def _array_of(raw: bytes) -> int:
    """The address of the array of a map."""
    return TENSOR_MAP.fields["global_address"].value(int.from_bytes(raw, "little"))


def _parameter_maps(launch: Launch) -> list[TensorMap]:
    """The maps that lie in the parameters, alone or in structures."""
    found, places, unit = [], launch.program.places, LIMITS.object_alignment
    for p in places.parameters:
        begin = places.of(p.name).offset
        for at in range(-(-begin // unit) * unit, begin + p.size - SIZE + 1, unit):
            raw = launch.parameters[at : at + SIZE].tobytes()
            if launch.memory.holds(_array_of(raw)):
                with contextlib.suppress(SmemsimError):
                    found.append(_decoded(raw))
    return found


_MAPS: Slot[list[TensorMap]] = Slot(_parameter_maps)


def map_at(x: Wave, i: Instruction, address: int, threads: Sequence[int]) -> TensorMap:
    """The tensor map at a generic address, which threads' transfers read: of a parameter, a constant or a global array.

    Raises HardwareTrap, with the finding, for an address off 64 B and for one where nothing is; InputError for bytes
    that are no map.
    """
    bank, size = x.launch.parameter_address, len(x.launch.parameters)
    address &= (1 << 64) - 1
    if 0 <= address < size:  # a place in the parameter bank, without cvta.param
        address += bank
    if address % LIMITS.object_alignment:
        message = f"the CUtensorMap object is at {address:#x}, {address % LIMITS.object_alignment} B past a multiple of {LIMITS.object_alignment} B"
        stop(x, i, "A104", message, "alignas(64) for the map, and for the structure it lies in", MISALIGNED_ADDRESS)
    region = x.launch.memory.holding(address, address + SIZE)
    if region is None:
        _stop_outside(x, i, address)
    raw = region.data[address - region.begin : address - region.begin + SIZE].tobytes()
    tm = _decoded(raw)
    if _CUT.peek(x.launch):
        _tell_cut(x, raw, tm)
    if x.events.map_used and not bank <= address < bank + size:
        for thread in threads:
            x.events.map_used(x, i, thread, address, SIZE)
    return tm


def _stop_outside(x: Wave, i: Instruction, address: int) -> NoReturn:
    """X001: no array holds a map."""
    try:
        x.launch.memory.span(address, SIZE)
    except OutsideError as problem:
        message = f"the address of the CUtensorMap is {address:#x}: {problem}"
        stop(x, i, "X001", message, "pass the map as a __grid_constant__ parameter, or its address in global memory", ILLEGAL_ADDRESS)
    raise unmodelled(i, f"a CUtensorMap at {address:#x}")


# The strides that tensormap.replace has cut, at a launch. By the address of the map's array and the ordinal: the
# instruction and the stride.
_CUT: Slot[dict[tuple[int, int], tuple[Instruction, int]]] = Slot(lambda launch: {})


def _tell_cut(x: Wave, raw: bytes, tm: TensorMap) -> None:
    """T204 for strides of a map in use that tensormap.replace has cut to a multiple of 16 B, if the next dimension has
    more than one element.
    """
    for (address, ordinal), (i, given) in _CUT(x.launch).items():
        unit = LIMITS.address_alignment
        is_used = _array_of(raw) == address and ordinal < tm.rank - 1 and tm.global_dim[ordinal + 1] > 1
        if is_used and tm.global_strides[ordinal] == given // unit * unit:
            x.launch.find(
                "T204", i, f"global_strides[{ordinal}] = {given} B is not a multiple of {unit} B",
                f"pad the rows of the array to {-(-given // unit) * unit} B", why=f"the map keeps {tm.global_strides[ordinal]} B", because=RULES["tensor_map.replace"].source,
                milder=Severity.WRONG,
            )  # fmt: skip


def _bytes(memory: np.ndarray, at: int) -> np.ndarray:
    """The 128 bytes of a map, the memory itself."""
    raw: np.ndarray = memory.view(np.uint8)[at : at + SIZE]
    return raw


@implements("tensormap.replace")
def build_replace(i: Instruction, c: Linker) -> Step:
    """`tensormap.replace.tile.FIELD{.space}.b1024.type [map], {ordinal,} value` (PTX ISA 9.1 §9.7.9.28): an access of
    all 1,024 bits.
    """
    words, operands = Modifiers(i, "replace", "tile", "b1024"), Operands(i)
    field = words.need(*REPLACE_FIELDS)
    space = words.one_of(("global", "shared::cta", "shared")) or None
    words.need("b64" if REPLACE_FIELDS[field].bits == 64 else "b32")
    words.end()
    find = locate(i, c, operands.next("an address"), space, SIZE, 1)
    ordinal = None
    if REPLACE_FIELDS[field].ordinals:
        number = operands.next("an ordinal")
        if not isinstance(number, Immediate):
            raise unmodelled(i, "the ordinal is no number")
        ordinal = number.value
    value = c.read(operands.next("a value"), f"u{REPLACE_FIELDS[field].bits}")
    operands.end()
    if REPLACE_FIELDS[field].codes:
        tensormap_replace(bytes(SIZE), field, int(value(None)), ordinal=ordinal, arch=c.arch)

    def run(x: Wave) -> None:
        given = np.broadcast_to(np.asarray(value(x)), x.threads.shape)
        for piece in find(x):
            note_read(x, i, piece, MEANT)
            written = values_of(x, piece, SIZE)
            for at, new in zip(piece.at.tolist(), (given if piece.part is None else given[piece.part]).tolist(), strict=True):
                raw = _bytes(piece.memory, at)
                raw[:] = np.frombuffer(tensormap_replace(raw.tobytes(), field, new, ordinal=ordinal, arch=c.arch), np.uint8)
                if field == "global_stride" and new % LIMITS.address_alignment:
                    _CUT(x.launch)[_array_of(raw.tobytes()), cast("int", ordinal)] = i, new
            note_write(x, i, piece, SIZE, written=written)

    return run


@implements("tensormap.cp_fenceproxy")
def build_cp_fenceproxy(i: Instruction, c: Linker) -> Step:
    """`tensormap.cp_fenceproxy.global.shared::cta…sync.aligned [dst], [src], 128`: a warp copies a map to global
    memory, and releases it.
    """
    words, operands = (
        Modifiers(i, "cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"),
        Operands(i),
    )
    scope = level(words.need(*SCOPES))
    words.end()
    to, source = (
        locate(i, c, operands.next(what), space, SIZE, 1) for what, space in (("a destination", "global"), ("a source", "shared::cta"))
    )
    size = operands.next("a size")
    operands.end()
    if not isinstance(size, Immediate) or size.value != SIZE:
        raise unmodelled(i, f"a size that is not {SIZE}")

    def run(x: Wave) -> None:
        reads = list(source(x))
        places = np.empty((x.threads.size, 2), np.int64)  # which of these, and where in it, for each thread
        for n, read in enumerate(reads):
            note_read(x, i, read, MEANT)
            own = slice(None) if read.part is None else read.part
            places[own, 0], places[own, 1] = n, read.at
        for piece in to(x):
            written = values_of(x, piece, SIZE)
            own = slice(None) if piece.part is None else piece.part
            # the lanes of a warp name one map
            for dst, (n, src) in dict.fromkeys(zip(piece.at.tolist(), map(tuple, places[own].tolist()), strict=True)):
                _bytes(piece.memory, dst)[:] = _bytes(reads[n].memory, src)
            note_write(x, i, piece, SIZE, written=written)
        if x.events.maps_fenced:
            x.events.maps_fenced(x, i, None, scope)

    return Gate(lambda x: x.gather(), run)


@implements("prefetch.param")
def build_prefetch_map(i: Instruction, c: Linker) -> Step:
    """`prefetch.param.tensormap [a]`: takes a place in the parameter bank; a generic address traps. Measured (H200):
    trace launches, trap_prefetch_param.
    """
    Modifiers(i, "param", "tensormap").end()
    address = c.address(i.operands[0])

    def run(x: Wave) -> None:
        at = np.broadcast_to(np.asarray(address(x)), (x.n,))
        if ((at < 0) | (at >= len(x.launch.parameters))).any():
            message = f"the address {int(at[0]) & ((1 << 64) - 1):#x} is generic, and prefetch.param.tensormap takes a place in the parameter bank"
            stop(x, i, "X002", message, "prefetch.tensormap, without .param, takes generic addresses", MISALIGNED_ADDRESS)

    return run
