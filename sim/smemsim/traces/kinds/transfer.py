"""TMA loads and stores: the source of every byte, the transaction bytes, the traps."""

from __future__ import annotations

import numpy as np

from smemsim.machine.tma import Transfer, fill_bytes, tma_load, tma_store
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.traces.format import Suite
from smemsim.traces.kinds.common import FILLED, UNTOUCHED, trapped
from smemsim.traces.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["TmaStore", "TmaTransfer"]


class TmaTransfer:
    """Loads and stores: the source of every byte, the transaction bytes, the traps."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "coordinates": 2, "smem_address": 1, "window_end": 1, "status": 1, "transaction_bytes": 1, "first": 1,
        "source_start": 1,
    }  # fmt: skip
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
        run = trapped(int(a["status"][index]), "tma.traps", lambda: call(tm, at, smem_address=address, shared_end=end))
        transfer, outcome = run
        if outcome:
            return Case(title, outcome)
        credited = int(a["transaction_bytes"][index])
        if not self.is_store and credited != transfer.transaction_bytes:
            first = f"hardware {credited} bytes | model {transfer.transaction_bytes} bytes"
            return Case(title, Outcome(1, 1, first, (), RULES["tma.transaction_bytes"], "transaction bytes"))
        return Case(title, self._bytes(index, transfer))

    def _bytes(self, index: int, transfer: Transfer) -> Outcome:
        hardware = self.suite.ragged("source", index)
        first = int(self.suite.arrays["first"][index])
        begin, model = self._image(transfer)
        low = min(first, begin) if len(model) and len(hardware) else (begin if len(model) else first)
        size = max(first + len(hardware), begin + len(model)) - low if len(model) or len(hardware) else 0
        both = np.full((2, size), UNTOUCHED, np.int64)
        both[0, first - low : first - low + len(hardware)] = hardware
        both[1, begin - low : begin - low + len(model)] = model
        # Bytes below the first user byte, and those a window is rounded up by, are neither coded for a store nor looked at after a load.
        reserved, end = architecture(self.suite.arch).shared_begin, int(self.suite.arrays["window_end"][index])
        place = both[1] if self.is_store else np.arange(low, low + size)
        hidden = place >= end
        if int(self.suite.arrays["smem_address"][index]) < reserved:
            hidden |= (place >= 0) & (place < reserved)
        both = both[:, ~hidden]
        where = (low + np.arange(size))[~hidden]
        rule = "tma.store_clip" if self.is_store else "tma.placement"
        base = transfer.tensor_map.global_address

        def say(value: int) -> str:
            if value == UNTOUCHED:
                return "untouched"
            if value < 0:
                return f"fill {FILLED - value:#04x}"
            return f"shared {value:#x}" if self.is_store else f"global + {value:#x}"

        def describe(at: tuple[int, ...]) -> str:
            address = int(where[at])
            place = f"global {base + address:#x}" if self.is_store else f"shared {address:#x}"
            return f"{place}: hardware = {say(int(both[0][at]))} | model = {say(int(both[1][at]))}"

        if not both.size:
            return agree(1)  # nothing is written where the probe looked
        return differ(both[0], both[1], RULES[rule], "bytes", describe, 16)

    def _image(self, transfer: Transfer) -> tuple[int, np.ndarray]:
        """(first address, sources) as the trace writes them: for a load over shared, for a store over global addresses."""
        base = transfer.tensor_map.global_address
        if self.is_store:
            where, source = transfer.global_address - base, transfer.shared_address.astype(np.int64)
        else:
            where = transfer.shared_address.astype(np.int64)
            fill = np.tile(fill_bytes(transfer.tensor_map), len(where) // transfer.tensor_map.type_row.itemsize).astype(np.int64)
            source = np.where(transfer.global_address == -1, FILLED - fill, transfer.global_address - base)
        if not len(where):
            return 0, np.zeros(0, np.int64)
        begin = int(where.min())
        image = np.full(int(where.max()) - begin + 1, UNTOUCHED, np.int64)
        image[where - begin] = source
        return begin, image


class TmaStore(TmaTransfer):
    """Stores."""

    is_store = True
