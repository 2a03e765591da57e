"""Bulk copies and reductions without a tensor map, multicast, and the addresses of a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import Unmodelled
from smemsim.core.arithmetic.reduce import reduction_type
from smemsim.core.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_prefetch, bulk_reduce
from smemsim.core.machine.cluster import ClusterAddress, mapa, multicast
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import FILLED, UNTOUCHED, Comparer, side_by_side, trapped
from smemsim.evidence.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.evidence.outcome import Case, Outcome, agree, differ

__all__ = ["BulkCopy", "BulkReduce", "ClusterAddresses", "Multicast"]


def _trapped(recorded: int, rule: str, call: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    result, outcome = trapped(recorded, "tma.traps", call)
    if outcome and outcome.rule:
        outcome = dataclasses.replace(outcome, rule=RULES[rule])
    return result, outcome


def _wrong_count(hardware: int, model: int, rule: str) -> Outcome:
    return Outcome(1, 1, f"hardware {hardware} bytes | model {model} bytes", (), RULES[rule], "transaction bytes")


def _say(source: int) -> str:
    if source == UNTOUCHED:
        return "untouched"
    return f"fill {FILLED - source:#04x}" if source <= FILLED else f"{source:#x}"


class BulkCopy(Comparer):
    """cp.async.bulk in every direction: the source of every byte, the bytes credited, the traps."""

    columns = {  # noqa: RUF012
        "dst_space": 1, "src_space": 1, "dst": 1, "src": 1, "size": 1, "mbar": 1, "issuer": 1, "dst_rank": 1, "mbar_rank": 1,
        "window_end": 1, "status": 1, "transaction_bytes": 1, "first": 1, "source_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        dst_space, src_space = str(a["dst_space"][index]), str(a["src_space"][index])
        dst, src, size, mbar, issuer, dst_rank, mbar_rank, end = (
            int(a[name][index]) for name in ("dst", "src", "size", "mbar", "issuer", "dst_rank", "mbar_rank", "window_end")
        )

        def title() -> str:
            return (
                f"{size} bytes from {src_space} {src:#x} to {dst_space} {dst:#x}, CTA {issuer} to {dst_rank}, mbar {mbar:#x} in {mbar_rank}"
            )

        def model() -> BulkTransfer:
            if dst_space == "L2":
                return bulk_prefetch(src, size)
            about: dict[str, Any] = {"dst_space": dst_space, "src_space": src_space, "cta_rank": issuer, "shared_end": end}
            source = ClusterAddress(issuer, src) if src_space == "shared::cta" else src
            if dst_space == "global":
                return bulk_copy(dst, source, size, **about)
            return bulk_copy(ClusterAddress(dst_rank, dst), source, size, mbar=ClusterAddress(mbar_rank, mbar), **about)

        transfer, outcome = _trapped(int(a["status"][index]), "bulk.traps", model)
        if outcome:
            return Case(title, outcome)
        # The count is that of the barrier in CTA mbar_rank.
        credited = int(a["transaction_bytes"][index])
        due = transfer.transaction_bytes if transfer.mbar == ClusterAddress(mbar_rank, mbar) else 0
        if credited != due:
            return Case(title, _wrong_count(credited, due, "bulk.copy" if transfer.size == size else "bulk.size"))
        return Case(title, self._bytes(index, transfer))

    def _bytes(self, index: int, transfer: BulkTransfer) -> Outcome:
        """Sources of the destination's bytes; global ones count from the copy's address, rounded down to 16 bytes."""
        hardware, first = self.suite.ragged("source", index), int(self.suite.arrays["first"][index])
        where, source = transfer.dst_address, transfer.src_address
        base = (transfer.dst if transfer.dst_space == "global" else transfer.src) // 16 * 16
        if transfer.dst_space == "global":
            where = where - base
        elif transfer.src_space == "global":
            source = source - base
        addresses, both = side_by_side(first, hardware, where, source)
        # The rounding of a window, and bytes below its first user byte, are not compared as a destination.
        begin, end = architecture(self.suite.arch).shared_begin, int(self.suite.arrays["window_end"][index])
        if transfer.dst_space == "global":
            seen = np.flatnonzero(both[1] < end)
            # As a source, the system's first KiB has no codes: any bytes from there are right.
            system = (both[1] >= 0) & (both[1] < begin) & (both[0] <= FILLED)
            both[0, system] = both[1, system]
        else:
            seen = np.flatnonzero((addresses >= begin) & (addresses < end))
        if not len(seen):
            return agree(1)

        def describe(at: tuple[int, ...]) -> str:
            hard, soft = (_say(int(row[seen[at]])) for row in both)
            return f"destination byte {int(addresses[seen[at]]):#x}: hardware from {hard} | model from {soft}"

        return differ(both[0, seen], both[1, seen], RULES["bulk.copy"], "bytes", describe, 16)


class BulkReduce(Comparer):
    """cp.reduce.async.bulk: what it makes of every byte, and the bytes credited in another CTA."""

    columns = {  # noqa: RUF012
        "op": 1, "dtype": 1, "dst_space": 1, "transaction_bytes": 1, "before_start": 1, "operand_start": 1, "after_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.begin = architecture(suite.arch).shared_begin

    def case(self, index: int) -> Case:
        """Reduce the operand into what was there before, and compare every byte."""
        a = self.suite.arrays
        op, dtype, space = (str(a[name][index]) for name in ("op", "dtype", "dst_space"))
        before, operand, hardware = (self.suite.ragged(name, index) for name in ("before", "operand", "after"))
        step = reduction_type(dtype).itemsize

        def title() -> str:
            return f"cp.reduce.async.bulk.{space}.{op}.{dtype} of {len(before)} bytes"

        peer = space != "global"
        to: Any = ClusterAddress(1, self.begin) if peer else 0
        mbar = ClusterAddress(1, self.begin) if peer else None
        transfer = bulk_reduce(op, dtype, to, self.begin, len(before), dst_space=space, mbar=mbar)
        credited = int(a["transaction_bytes"][index])
        if peer and credited != transfer.transaction_bytes:
            return Case(title, _wrong_count(credited, transfer.transaction_bytes, "bulk.copy"))
        model = bulk_bytes(transfer, dst=before, src=operand)

        def describe(at: tuple[int, ...]) -> str:
            element = slice(at[0] // step * step, at[0] // step * step + step)
            words = [bytes(x[element])[::-1].hex() for x in (before, operand, hardware, model)]
            return f"byte {at[0]}: of 0x{words[0]} and 0x{words[1]} hardware made 0x{words[2]} | model 0x{words[3]}"

        return Case(title, differ(hardware, model, RULES["reduce.values"], "bytes", describe, step))


class Multicast(Comparer):
    """Loads into the CTAs of a cluster: what one of them reports, which bytes came and what its barrier was credited
    with.
    """

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "coordinates": 2, "smem_address": 1, "window_end": 1, "status": 1, "transaction_bytes": 1, "first": 1,
        "source_start": 1, "cluster_size": 1, "issuer": 1, "report_rank": 1, "multicast": 1, "cta_mask": 1, "to_rank": 1, "mbar": 1,
        "mbar_rank": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare map, trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        at = tuple(a["coordinates"][index][: tm.rank].tolist())
        address, mbar, end, size, issuer, me, mask, to_rank, mbar_rank = (
            int(a[name][index])
            for name in ("smem_address", "mbar", "window_end", "cluster_size", "issuer", "report_rank", "cta_mask", "to_rank", "mbar_rank")
        )
        several = bool(a["multicast"][index])

        def title() -> str:
            to = f"ctaMask {mask:#b}" if several else "one CTA"
            ranks = f"addresses' ranks {to_rank}, {mbar_rank}"
            return f"load {tm!r}, coordinates {at}, by CTA {issuer} of {size} to {to} at {address:#x} ({ranks}), seen by CTA {me}"

        if wrong_map:
            return Case(title, wrong_map)
        if int(a["oob_fill"][index]):
            raise Unmodelled("multicast loads that fill with NaN: this comparison knows zeros only")

        def model() -> tuple[Any, Any]:
            transfer = tma_load(tm, at, smem_address=address, shared_end=end, arch=self.suite.arch)
            to, barrier = (mapa(x, issuer if rank < 0 else rank) for x, rank in ((address, to_rank), (mbar, mbar_rank)))
            about = {"cluster_size": size, "cta_rank": issuer, "transaction_bytes": transfer.transaction_bytes}
            return transfer, multicast(mask if several else None, smem_address=to, mbar=barrier, **about)

        run, outcome = _trapped(int(a["status"][index]), "multicast.masks" if several else "tma.traps", model)
        if outcome:
            return Case(title, outcome)
        transfer, deliveries = run
        credited = int(a["transaction_bytes"][index])
        due = sum(d.transaction_bytes for d in deliveries if d.mbar.cta_rank == me)
        if credited != due:
            return Case(title, _wrong_count(credited, due, "multicast.delivery"))
        if any(d.cta_rank == me for d in deliveries):
            return Case(title, self._bytes(index, transfer))
        came = len(self.suite.ragged("source", index))
        if came:
            first = f"hardware wrote {came} bytes from shared {int(a['first'][index]):#x} on | model: not one of the destinations"
            return Case(title, Outcome(came, came, first, (), RULES["multicast.delivery"], "bytes"))
        return Case(title, agree(1))

    def _bytes(self, index: int, transfer: Any) -> Outcome:
        """Sources, global ones relative to the tensor's address."""
        base = int(self.suite.arrays["global_address"][index])
        where, source = transfer.shared_address.astype(np.int64), transfer.global_address
        first, hardware = int(self.suite.arrays["first"][index]), self.suite.ragged("source", index)
        addresses, both = side_by_side(first, hardware, where, np.where(source == -1, FILLED, source - base))
        if not both.size:
            return agree(1)

        def describe(at: tuple[int, ...]) -> str:
            hard, soft = (_say(int(row[at])) for row in both)
            return f"shared {int(addresses[at]):#x}: hardware from {hard} | model from {soft}"

        return differ(both[0], both[1], RULES["multicast.delivery"], "bytes", describe, 16)


class ClusterAddresses(Comparer):
    """The addresses that mapa returns, and the CTA that each form of the address reaches."""

    columns = {  # noqa: RUF012
        "cluster_size": 1, "issuer": 1, "target_rank": 1, "smem_address": 1, "mapa": 1, "found_rank": 1, "plain_rank": 1, "own_address": 1,
        "generic_rank": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the number and the three CTAs reached: through it, through the plain shared address, through mapa's
        generic address.
        """
        a = self.suite.arrays
        issuer, target, address = (int(a[name][index]) for name in ("issuer", "target_rank", "smem_address"))

        def title() -> str:
            return f"mapa {address:#x}, rank {target}, by CTA {issuer} of {int(a['cluster_size'][index])}"

        names = ("mapa", "found_rank", "plain_rank", "own_address", "generic_rank")
        hardware = np.array([int(a[name][index]) for name in names])
        own = ClusterAddress(issuer, address).encode()
        model = np.array([mapa(address, target).encode(), target, ClusterAddress.decode(address).cta_rank, own, target])

        def describe(at: tuple[int, ...]) -> str:
            return f"{names[at[0]]}: hardware {int(hardware[at]):#x} | model {int(model[at]):#x}"

        return Case(title, differ(hardware, model, RULES["cluster.addresses"], "addresses", describe, 1))
