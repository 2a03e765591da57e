"""Traces of tensor copies, their values and reductions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.arithmetic.convert import f32_to_tf32
from smemsim.core.finding import TensorMapError
from smemsim.core.machine.cluster import ClusterAddress, multicast
from smemsim.core.machine.memory import GlobalMemory, SharedMemory
from smemsim.core.machine.tma import Transfer, tma_load, tma_load_bytes, tma_prefetch, tma_reduce, tma_store, tma_store_bytes
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.core.spec.transfers import GATHERED_ROWS
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import FILLED, UNTOUCHED, Comparer, side_by_side, trapped
from smemsim.evidence.kinds.tcgen05 import judged
from smemsim.evidence.kinds.tensor_map import ENUMS, MAP_COLUMNS, recorded_map
from smemsim.evidence.outcome import Case, Outcome, agree, differ

__all__ = [
    "AnyTransfer",
    "TmaBlackwell",
    "TmaLoadBytes",
    "TmaPair",
    "TmaReduce",
    "TmaStore",
    "TmaTransfer",
    "TmaValues",
    "compare_sources",
    "raw_map",
]


# ---- TMA transfers: the source of every byte, the transaction bytes, the traps


MODES = {("load", 0): "tile", ("load", 1): "im2col", ("store", 0): "tile", ("store", 1): "im2col_no_offs"}
COLUMNS = {"coordinates": 2, "smem_address": 1, "window_end": 1, "status": 1}


class TmaTransfer(Comparer):
    """Tiled loads and stores through maps whose encode call is recorded."""

    columns = {**MAP_COLUMNS, **COLUMNS, "transaction_bytes": 1, "first": 1, "source_start": 1}  # noqa: RUF012
    is_store = False

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


class AnyTransfer(Comparer):
    """Loads, stores and prefetches of any mode through maps of which only the 128 bytes are recorded, odd ones among
    them.
    """

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "instruction": 1, "im2col": 1, "rank": 1, "im2col_offsets": 2, "object_offset": 1, "transaction_bytes": 1,
        "memory_begin": 1, "memory_end": 1, "origin": 1, "first": 1, "source_start": 1,
    }  # fmt: skip

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
        except InputError as e:
            # a map with fields that the architecture has not: what comes of it is the trace's to say
            if status:
                return Case(title, agree(1))
            raise Unmodelled(f"{e}; recorded: hardware runs it") from None
        if outcome or instruction == "prefetch":
            return Case(title, outcome or agree(1))
        return Case(title, compare_transfer(self.suite, index, transfer, int(a["origin"][index])))

    def _check_mapped(self, index: int, transfer: Transfer) -> None:
        """Check that global memory is what the probe allocated, if the trace has it."""
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
    # Bytes below the first user byte, and those a window is rounded up by, are neither coded for a store nor looked at
    # after a load.
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
    fill, address = transfer.geometry.fill, transfer.global_address
    source = address - origin
    if transfer.geometry.to_tf32:
        source = _converted(address - memory_begin, origin - memory_begin)
    filled = np.nonzero(address == -1)[0]
    if len(filled):
        source[filled] = FILLED - fill[filled % len(fill)].astype(np.int64)
    return transfer.shared_address.astype(np.int64), source


def _converted(index: np.ndarray, origin: int) -> np.ndarray:
    """The values that a probe finds after a load that rounds to TF32. Its tensors hold a byte of every byte's index, or
    0x5A, as f32 words.
    """
    words = [np.where(index < 0, 0, index) >> 8 * p & 0xFF for p in range(3)] + [np.full_like(index, 0x5A)]
    seen = []
    for word in words:
        bits = np.ascontiguousarray(word.astype(np.uint8)).view("<u4")
        seen.append(np.array([f32_to_tf32(int(x)) for x in bits.tolist()], "<u4").view(np.uint8).astype(np.int64))
    return np.where(seen[3] == 0x5A, (seen[0] | seen[1] << 8 | seen[2] << 16) - origin, FILLED - seen[3])


# ---- What TMA does to floating-point values while loading and storing


class TmaValues(Comparer):
    """One row loaded into, or stored from, the first user bytes of shared memory."""

    columns = {**MAP_COLUMNS, "store": 1, "input": 2, "output": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Move the row and compare every byte of it."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        row, is_store = a["input"][index], bool(a["store"][index])

        def title() -> str:
            return f"{'store' if is_store else 'load'} of {tm!r}"

        if wrong_map:
            return Case(title, wrong_map)
        world, shared = GlobalMemory(), SharedMemory(self.suite.arch, size=4096)
        if is_store:
            world.place(np.full(len(row), 0xA5, np.uint8), tm.global_address)
            shared.write(shared.begin, row)
            shared.tma_store(tm, (0,), smem_address=shared.begin, to=world)
            model = world.region(tm.global_address)[1]
        else:
            world.place(row, tm.global_address)
            shared.tma_load(tm, (0,), smem_address=shared.begin, source=world)
            model = shared.bytes[: len(row)]
        hardware = a["output"][index]

        def describe(at: tuple[int, ...]) -> str:
            i = at[0] // tm.type_row.itemsize * tm.type_row.itemsize
            element = slice(i, i + tm.type_row.itemsize)
            words = [bytes(x[element])[::-1].hex() for x in (row, hardware, model)]
            return f"byte {at[0]}: of 0x{words[0]} hardware made 0x{words[1]} | model 0x{words[2]}"

        return Case(title, differ(hardware, model, RULES["tma.values"], "bytes", describe, 4))


# ---- Reductions into tensors, and loads that convert: the bytes that come of them


def _window(suite: Suite, index: int, fill: int) -> np.ndarray:
    """Shared memory from address 0 to the window's end, as the probe filled it."""
    end, most = int(suite.arrays["window_end"][index]), architecture(suite.arch).shared_end
    if not 0 <= end <= most:
        raise InputError(f"window_end = {end:#x}: {suite.arch} has windows up to {most:#x}")
    return np.full(end, fill, np.uint8)


def _transfer(suite: Suite, index: int) -> tuple[TensorMap, tuple[int, ...], int]:
    a = suite.arrays
    tm = TensorMap.from_bytes(a["tensor_map"][index].tobytes())
    return tm, tuple(a["coordinates"][index][: int(a["rank"][index])].tolist()), int(a["smem_address"][index])


class TmaReduce(Comparer):
    """A store or reduction: operand bytes in shared memory, the tensor's surroundings before and after."""

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "im2col": 1, "rank": 1, "operation": 1, "region": 1, "operand_start": 1, "before_start": 1, "after_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the trap, then every byte of the region."""
        a = self.suite.arrays
        tm, at, address = _transfer(self.suite, index)
        operation, region = str(a["operation"][index]), int(a["region"][index])
        operand, before = self.suite.ragged("operand", index), self.suite.ragged("before", index)
        shared = _window(self.suite, index, 0xC3)
        shared[address : address + len(operand)] = operand
        given: dict[str, Any] = {"smem_address": address, "shared": shared, "global_": before[-region:]}
        given |= {"mode": MODES["store", int(a["im2col"][index])], "arch": self.suite.arch}

        def run() -> np.ndarray:
            after = tma_store_bytes(tm, at, **given) if operation == "store" else tma_reduce(operation, tm, at, **given)
            return np.concatenate([before[:-region] if region else before[:0], after])

        model, outcome = trapped(int(a["status"][index]), "reduce.types", run)
        hardware, item = self.suite.ragged("after", index), tm.type_row.itemsize

        def describe(where: tuple[int, ...]) -> str:
            i = where[0] - (where[0] + region) % item
            words = [bytes(x[i : i + item])[::-1].hex() for x in (before, hardware, model)]
            return f"global + {i + region:#x}: of 0x{words[0]} hardware made 0x{words[1]} | model 0x{words[2]}"

        def title() -> str:
            return f"{operation} {tm!r}, coordinates {at}, smem_address {address:#x}"

        return Case(title, outcome or differ(hardware, model, RULES["reduce.values"], "bytes", describe, 4))


class TmaLoadBytes(Comparer):
    """A load of special values: the tensor's bytes, and the shared bytes from the box's first on."""

    columns = {  # noqa: RUF012
        **COLUMNS, "tensor_map": 2, "im2col": 1, "rank": 1, "im2col_offsets": 2, "tensor_start": 1, "image_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the trap, then every byte of the image."""
        a = self.suite.arrays
        tm, at, address = _transfer(self.suite, index)
        im2col = int(a["im2col"][index])
        offsets = tuple(a["im2col_offsets"][index][: tm.rank - 2].tolist()) if im2col else ()
        tensor, hardware = self.suite.ragged("tensor", index), self.suite.ragged("image", index)
        shared = _window(self.suite, index, 0xA5)

        def run() -> np.ndarray:
            given: dict[str, Any] = {"smem_address": address, "shared": shared, "global_": tensor, "im2col_offsets": offsets}
            return tma_load_bytes(tm, at, mode=MODES["load", im2col], arch=self.suite.arch, **given)[address : address + len(hardware)]

        model, outcome = trapped(int(a["status"][index]), "tma.traps", run)

        def describe(where: tuple[int, ...]) -> str:
            i = where[0] // 4 * 4
            words = [bytes(x[i : i + 4])[::-1].hex() for x in (hardware, model)]
            return f"shared {address + i:#x}: hardware 0x{words[0]} | model 0x{words[1]}"

        def title() -> str:
            return f"load {tm!r}, coordinates {at}, im2col_offsets {offsets}, smem_address {address:#x}"

        return Case(title, outcome or differ(hardware, model, RULES["tma.values"], "bytes", describe, 4))


# ---- Tensor transfers that only Blackwell has: gather4, scatter4, im2col::w, and loads of a pair of CTAs


BLACKWELL_MODES = {
    "gather4": "tile::gather4", "gather4.cta": "tile::gather4", "scatter4": "tile::scatter4", "im2col::w": "im2col::w",
    "im2col::w::128": "im2col::w::128",
}  # fmt: skip
WIDE = ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column", "mode")
MBAR = 0x83F0  # the barrier's offset in both windows of a pair; any multiple of 8 would do
NO_PHASE = 0xFFFFFFFF


class TmaBlackwell(Comparer):
    """Gathers, scatters and im2col::w loads through maps whose encode call is recorded."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, **dict.fromkeys(WIDE, 1), "form": 1, "coordinates": 2, "halo": 1, "offset": 1, "smem_address": 1, "window_end": 1,
        "status": 1, "completed": 1, "transaction_bytes": 1, "memory_bytes": 1, "first": 1, "source_start": 1,
    }  # fmt: skip

    def _map(self, index: int, wide: bool) -> tuple[TensorMap, Outcome | None]:
        """The map of the arguments. The 128 bytes are compared for tiled maps; what they mean in a wide one is in no
        document.
        """
        if not wide:
            return recorded_map(self.suite, index)
        a, rank = self.suite.arrays, int(self.suite.arrays["rank"][index])
        given: dict[str, Any] = {name: int(a[name][index]) for name in (*ENUMS, *WIDE, "global_address")}
        given |= {name: tuple(a[name][index][:rank].tolist()) for name in ("global_dim", "element_strides")}
        return TensorMap.im2col_wide(
            **given, global_strides=tuple(a["global_strides"][index][: rank - 1].tolist()), arch=self.suite.arch
        ), None

    def case(self, index: int) -> Case:
        """Compare trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        form = str(a["form"][index])
        wide, store = form.startswith("im2col"), form == "scatter4"
        at = tuple(a["coordinates"][index][: int(a["rank"][index]) if wide else 1 + GATHERED_ROWS].tolist())
        offsets = (int(a["halo"][index]), int(a["offset"][index])) if wide else ()
        given: dict[str, Any] = {"smem_address": int(a["smem_address"][index]), "shared_end": int(a["window_end"][index])}
        given |= {"mode": BLACKWELL_MODES[form], "arch": self.suite.arch}
        try:
            tm, wrong_map = self._map(index, wide)
        except TensorMapError as e:
            wrong_map = Outcome(1, 1, f"the driver accepts the map | model: {e}", (), RULES["tensor_map.verdict"], "map")
            return Case(lambda: f"{form}, coordinates {at}", wrong_map)

        def title() -> str:
            more = f", wHalo {offsets[0]}, wOffset {offsets[1]}" if offsets else ""
            return f"{form} {tm!r}, coordinates {at}{more}, smem_address {given['smem_address']:#x}"

        if wrong_map:
            return Case(title, wrong_map)

        def model() -> Transfer:
            if store and len(set(at[1:])) < GATHERED_ROWS:
                raise Unmodelled("a row is named twice: the order of its writes is not defined")
            return tma_store(tm, at, **given) if store else tma_load(tm, at, im2col_offsets=offsets, **given)

        transfer, outcome = judged(int(a["status"][index]), 1, RULES["tma.blackwell"], model)
        outcome = outcome or compare_transfer(self.suite, index, transfer, tm.global_address)
        return Case(title, dataclasses.replace(outcome, rule=RULES["tma.blackwell"]) if outcome.differing else outcome)


class TmaPair(Comparer):
    """Loads in a pair of CTAs: the bytes that each got, and what each barrier was credited with."""

    columns = {  # noqa: RUF012
        "tensor_map": 2, "coordinates": 2, "smem_address": 1, "issuer": 1, "barrier_rank": 1, "group": 1, "mask": 1, "status": 1,
        "credited": 3, "first": 2, "even_start": 1, "odd_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare trap, counts, then the bytes of both windows."""
        a = self.suite.arrays
        tm = raw_map(a["tensor_map"][index].tobytes())
        at = tuple(a["coordinates"][index].tolist())
        address, issuer, barrier_rank, group, mask = (int(a[x][index]) for x in ("smem_address", "issuer", "barrier_rank", "group", "mask"))

        def title() -> str:
            to = f"ctaMask {mask:#b}" if mask else "itself"
            return f"load {tm!r} with .cta_group::{group} by CTA {issuer} to {to}, barrier of CTA {barrier_rank}, coordinates {at}"

        def model() -> tuple[Transfer, Any]:
            if tm is None:
                raise HardwareTrap("the 128 bytes hold no tensor map", cuda_error=ILLEGAL_INSTRUCTION)
            transfer = tma_load(tm, at, smem_address=address, arch=self.suite.arch)
            about = {"cluster_size": 2, "cta_rank": issuer, "transaction_bytes": transfer.transaction_bytes, "cta_group": group}
            to, barrier = ClusterAddress(issuer, address), ClusterAddress(barrier_rank, MBAR)
            return transfer, multicast(mask or None, smem_address=to, mbar=barrier, **about)

        verdict, outcome = judged(int(a["status"][index]), 1, RULES["tma.blackwell"], model)
        if outcome or tm is None:
            return Case(title, outcome or agree(1))
        transfer, deliveries = verdict
        due = [sum(d.transaction_bytes for d in deliveries if d.mbar.cta_rank == rank) for rank in (0, 1)]
        credited = a["credited"][index].astype(np.int64)

        def counted(where: tuple[int, ...]) -> str:
            count = credited[where]
            said = "no phase that ends" if count == NO_PHASE else f"{count} bytes"
            return f"pass {where[1]}, barrier of CTA {where[0]}: hardware {said} | model {due[where[0]]} bytes"

        model_due = np.broadcast_to(np.array(due)[:, None], credited.shape)
        outcome = differ(credited, model_due, RULES["tma.blackwell"], "transaction bytes", counted, 1)
        compared = outcome.compared
        for rank in (0, 1):
            if outcome.differing:
                break
            outcome = self._bytes(index, rank, transfer if any(d.cta_rank == rank for d in deliveries) else None, tm.global_address)
            compared += outcome.compared
        return Case(title, outcome if outcome.differing else agree(compared))

    def _bytes(self, index: int, rank: int, transfer: Transfer | None, base: int) -> Outcome:
        """Sources of one CTA's bytes, global ones relative to the tensor's address."""
        hardware, first = self.suite.ragged(("even", "odd")[rank], index), int(self.suite.arrays["first"][index][rank])
        where, source = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if transfer is not None:
            where, source = transfer.shared_address.astype(np.int64), transfer.global_address
            source = np.where(source == -1, FILLED, source - base)
        addresses, both = side_by_side(first, hardware, where, source)
        if not both.size:
            return agree(1)

        def say(value: int) -> str:
            return "untouched" if value == UNTOUCHED else f"fill {FILLED - value:#04x}" if value <= FILLED else f"global + {value:#x}"

        def describe(at: tuple[int, ...]) -> str:
            said = [say(int(row[at])) for row in both]
            return f"CTA {rank} shared {int(addresses[at]):#x}: hardware from {said[0]} | model from {said[1]}"

        return differ(both[0], both[1], RULES["tma.blackwell"], "bytes", describe, 16)
