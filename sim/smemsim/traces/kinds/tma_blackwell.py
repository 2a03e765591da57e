"""Tensor transfers that only Blackwell has: gather4, scatter4, im2col::w, and loads of a pair of CTAs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import HardwareTrap, TensorMapError, Unmodelled
from smemsim.machine.cluster import ClusterAddress, multicast
from smemsim.machine.tma import tma_load, tma_store
from smemsim.machine.transfer import Transfer
from smemsim.spec.evidence import RULES
from smemsim.spec.transfers import GATHERED_ROWS
from smemsim.spec.traps import ILLEGAL_INSTRUCTION
from smemsim.traces.format import Suite
from smemsim.traces.kinds.blackwell import judged
from smemsim.traces.kinds.common import FILLED, UNTOUCHED, side_by_side
from smemsim.traces.kinds.tensor_map import ENUMS, MAP_COLUMNS, recorded_map
from smemsim.traces.kinds.transfer import compare_transfer, raw_map
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["TmaBlackwell", "TmaPair"]

MODES = {
    "gather4": "tile::gather4", "gather4.cta": "tile::gather4", "scatter4": "tile::scatter4", "im2col::w": "im2col::w",
    "im2col::w::128": "im2col::w::128",
}  # fmt: skip
WIDE = ("pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel", "pixels_per_column", "mode")
MBAR = 0x83F0  # the barrier's offset in both windows of a pair; any multiple of 8 would do
NO_PHASE = 0xFFFFFFFF


class TmaBlackwell:
    """Gathers, scatters and im2col::w loads through maps whose encode call is recorded."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, **dict.fromkeys(WIDE, 1), "form": 1, "coordinates": 2, "halo": 1, "offset": 1, "smem_address": 1, "window_end": 1,
        "status": 1, "completed": 1, "transaction_bytes": 1, "memory_bytes": 1, "first": 1, "source_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def _map(self, index: int, wide: bool) -> tuple[TensorMap, Outcome | None]:
        """The map of the arguments. The 128 bytes are compared for tiled maps; what they mean in a wide one is in no document."""
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
        given |= {"mode": MODES[form], "arch": self.suite.arch}
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


class TmaPair:
    """Loads in a pair of CTAs: the bytes that each got, and what each barrier was credited with."""

    columns = {  # noqa: RUF012
        "tensor_map": 2, "coordinates": 2, "smem_address": 1, "issuer": 1, "barrier_rank": 1, "group": 1, "mask": 1, "status": 1,
        "credited": 3, "first": 2, "even_start": 1, "odd_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

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

        found, outcome = judged(int(a["status"][index]), 1, RULES["tma.blackwell"], model)
        if outcome or tm is None:
            return Case(title, outcome or agree(1))
        transfer, deliveries = found
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
