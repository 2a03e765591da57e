"""TMA transfers: the source of every byte, the transaction bytes, the traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.arithmetic.convert import f32_to_tf32
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import HardwareTrap, InputError, TensorMapError, Unmodelled
from smemsim.machine.tma import tma_load, tma_prefetch, tma_store
from smemsim.machine.transfer import Transfer
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.spec.tensor_map import LIMITS
from smemsim.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS
from smemsim.traces.format import Suite
from smemsim.traces.kinds.common import FILLED, UNTOUCHED, side_by_side, trapped
from smemsim.traces.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["AnyTransfer", "TmaStore", "TmaTransfer", "compare_sources", "raw_map"]

MODES = {("load", 0): "tile", ("load", 1): "im2col", ("store", 0): "tile", ("store", 1): "im2col_no_offs"}
COLUMNS = {"coordinates": 2, "smem_address": 1, "window_end": 1, "status": 1}


class TmaTransfer:
    """Tiled loads and stores through maps whose encode call is recorded."""

    columns = {**MAP_COLUMNS, **COLUMNS, "transaction_bytes": 1, "first": 1, "source_start": 1}  # noqa: RUF012
    is_store = False

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare map, trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        at = tuple(a["coordinates"][index][: tm.rank].tolist())
        address, end = int(a["smem_address"][index]), int(a["window_end"][index])
        what = "store" if self.is_store else "load"

        def title() -> str:
            return f"{what} {tm!r}, coordinates {at}, smem_address {address:#x}"

        if wrong_map:
            return Case(title, wrong_map)
        call = tma_store if self.is_store else tma_load
        transfer, outcome = trapped(
            int(a["status"][index]), "tma.traps", lambda: call(tm, at, smem_address=address, shared_end=end, arch=self.suite.arch)
        )
        return Case(title, outcome or compare_transfer(self.suite, index, transfer, tm.global_address))


class TmaStore(TmaTransfer):
    """Stores."""

    is_store = True


class AnyTransfer:
    """Loads, stores and prefetches of any mode through maps of which only the 128 bytes are recorded, odd ones among them."""

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "instruction": 1, "im2col": 1, "rank": 1, "im2col_offsets": 2, "object_offset": 1, "transaction_bytes": 1,
        "memory_begin": 1, "memory_end": 1, "origin": 1, "first": 1, "source_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        instruction, im2col = str(a["instruction"][index]), int(a["im2col"][index])
        raw = a["tensor_map"][index].tobytes()
        at = tuple(a["coordinates"][index][: int(a["rank"][index])].tolist())
        offsets = tuple(a["im2col_offsets"][index][: max(len(at) - 2, 0)].tolist()) if im2col and instruction != "store" else ()
        address, end = int(a["smem_address"][index]), int(a["window_end"][index])
        tm = raw_map(raw)

        def title() -> str:
            name = repr(tm) if tm else f"map {raw.hex()}"
            return f"{instruction} {name}, coordinates {at}, im2col_offsets {offsets}, smem_address {address:#x}"

        def run() -> Any:
            check_object(int(a["object_offset"][index]))
            if tm is None:
                raise HardwareTrap("the 128 bytes hold no tensor map", cuda_error=ILLEGAL_INSTRUCTION)
            arch = self.suite.arch
            if instruction == "prefetch":
                return tma_prefetch(tm, at, im2col_offsets=offsets, mode=MODES["load", im2col], arch=arch)
            if instruction == "store":
                transfer = tma_store(tm, at, smem_address=address, mode=MODES["store", im2col], shared_end=end, arch=arch)
            else:
                mode = MODES["load", im2col]
                transfer = tma_load(tm, at, smem_address=address, im2col_offsets=offsets, mode=mode, shared_end=end, arch=arch)
            self._check_mapped(index, transfer)
            return transfer

        status = int(a["status"][index])
        try:
            transfer, outcome = trapped(status, "tma.traps", run)
        except InputError as e:  # a map with fields that the architecture has not: what comes of it is the trace's to say
            if status:
                return Case(title, agree(1))
            raise Unmodelled(f"{e}; recorded: hardware runs it") from None
        if outcome or instruction == "prefetch":
            return Case(title, outcome or agree(1))
        return Case(title, compare_transfer(self.suite, index, transfer, int(a["origin"][index])))

    def _check_mapped(self, index: int, transfer: Transfer) -> None:
        """Global memory is what the probe had allocated, where the trace says so."""
        low, high = transfer.global_span
        begin, end = (int(self.suite.arrays[name][index]) for name in ("memory_begin", "memory_end"))
        base = transfer.tensor_map.global_address
        touched = [(low, high)] if high else []
        if not transfer.is_store:
            touched.append((base, base + 1))  # looked up even when the box lies outside the tensor altogether
        for low, high in touched:
            if not begin <= low < high <= end:
                raise HardwareTrap(f"global {low:#x} to {high:#x} is not mapped", cuda_error=ILLEGAL_ADDRESS)


def raw_map(raw: bytes) -> TensorMap | None:
    """The map of recorded bytes; None when they hold none, through which every transfer traps."""
    try:
        return TensorMap.from_bytes(raw)
    except TensorMapError:
        return None


def check_object(offset: int) -> None:
    """The CUtensorMap object itself must lie on a multiple of 64 B."""
    if offset % LIMITS.object_alignment:
        raise HardwareTrap(
            f"the tensor map lies {offset % LIMITS.object_alignment} B past a multiple of {LIMITS.object_alignment} B",
            cuda_error=MISALIGNED_ADDRESS,
        )


def compare_transfer(suite: Suite, index: int, transfer: Transfer, origin: int) -> Outcome:
    """Transaction bytes, then the source of every byte."""
    credited = int(suite.arrays["transaction_bytes"][index])
    if not transfer.is_store and credited != transfer.transaction_bytes:
        first = f"hardware {credited} bytes | model {transfer.transaction_bytes} bytes"
        return Outcome(1, 1, first, (), RULES["tma.transaction_bytes"], "transaction bytes")
    return compare_sources(suite, index, transfer, origin)


def compare_sources(suite: Suite, index: int, transfer: Transfer, origin: int) -> Outcome:
    """The source of every byte, against the trace's `first` and `source`; global places count from `origin`."""
    hardware = suite.ragged("source", index)
    first = int(suite.arrays["first"][index])
    memory_begin = int(suite.arrays["memory_begin"][index]) if transfer.geometry.to_tf32 else 0
    where, both = side_by_side(first, hardware, *_sources(transfer, origin, memory_begin))
    # Bytes below the first user byte, and those a window is rounded up by, are neither coded for a store nor looked at after a load.
    reserved, end = architecture(suite.arch).shared_begin, int(suite.arrays["window_end"][index])
    place = both[1] if transfer.is_store else where
    hidden = place >= end
    if int(suite.arrays["smem_address"][index]) < reserved:
        hidden |= (place >= 0) & (place < reserved)
    if hidden.any():
        both, where = both[:, ~hidden], where[~hidden]
    if not both.size:
        return agree(1)  # nothing is written where the probe looked
    rule = RULES[_rule_of(transfer)]
    return differ(both[0], both[1], rule, "bytes", _describer(transfer.is_store, origin, both, where), 16)


def _rule_of(transfer: Transfer) -> str:
    if transfer.tensor_map.interleave:
        return "tma.interleave"
    if transfer.tensor_map.is_im2col:
        return "tma.im2col"
    return "tma.store_clip" if transfer.is_store else "tma.placement"


def _describer(is_store: bool, base: int, both: np.ndarray, where: np.ndarray) -> Callable[[tuple[int, ...]], str]:
    def say(value: int) -> str:
        if value == UNTOUCHED:
            return "untouched"
        if value < 0:
            return f"fill {FILLED - value:#04x}"
        return f"shared {value:#x}" if is_store else f"global + {value:#x}"

    def describe(at: tuple[int, ...]) -> str:
        address = int(where[at])
        place = f"global {base + address:#x}" if is_store else f"shared {address:#x}"
        return f"{place}: hardware = {say(int(both[0][at]))} | model = {say(int(both[1][at]))}"

    return describe


def _sources(transfer: Transfer, origin: int, memory_begin: int) -> tuple[np.ndarray, np.ndarray]:
    """(places, sources) as the trace writes them: for a load of shared, for a store of global addresses."""
    if transfer.is_store:
        return transfer.global_address - origin, transfer.shared_address.astype(np.int64)
    one, address = transfer.geometry.fill, transfer.global_address
    source = address - origin
    if transfer.geometry.to_tf32:
        source = _converted(address - memory_begin, origin - memory_begin)
    filled = np.nonzero(address == -1)[0]
    if len(filled):
        source[filled] = FILLED - one[filled % len(one)].astype(np.int64)
    return transfer.shared_address.astype(np.int64), source


def _converted(index: np.ndarray, origin: int) -> np.ndarray:
    """What a probe sees of a load that rounds to TF32: its tensors hold a byte of every byte's index, or 0x5A, as f32 words."""
    words = [np.where(index < 0, 0, index) >> 8 * p & 0xFF for p in range(3)] + [np.full_like(index, 0x5A)]
    seen = []
    for word in words:
        bits = np.ascontiguousarray(word.astype(np.uint8)).view("<u4")
        seen.append(np.array([f32_to_tf32(int(x)) for x in bits.tolist()], "<u4").view(np.uint8).astype(np.int64))
    return np.where(seen[3] == 0x5A, (seen[0] | seen[1] << 8 | seen[2] << 16) - origin, FILLED - seen[3])
