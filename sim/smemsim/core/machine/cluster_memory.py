"""The shared memory of a cluster's CTAs, and the copies that cross from one to another."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.machine.bulk import BulkTransfer, bulk_bytes, bulk_copy, bulk_reduce
from smemsim.core.machine.cluster import ClusterAddress, Delivery, cluster_address, multicast, received_by
from smemsim.core.machine.global_memory import GlobalMemory
from smemsim.core.machine.memory import SharedMemory
from smemsim.core.machine.tma import tma_load
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.words.tensor_map import TensorMap

__all__ = ["Cluster", "check_nothing_traps", "deliveries"]


_NOTHING = np.zeros(0, np.uint8), np.zeros(0, np.uint8)


class Cluster(metaclass=OwnMembers):
    """`size` CTAs with a shared window each: `cluster[rank]` is a SharedMemory.

    >>> from smemsim import Cluster, GlobalMemory, TensorMap
    >>> import numpy as np
    >>> world, cluster = GlobalMemory(), Cluster(4)
    >>> a = world.place(np.arange(1024, dtype=np.uint8))
    >>> tm = TensorMap.tiled(data_type="u8", global_address=a, global_dim=(1024,), global_strides=(), box_dim=(128,))
    >>> [d.cta_rank for d in cluster.tma_load(tm, (128,), smem_address=0x400, mbar=0x8000, source=world, cta_rank=0, cta_mask=0b1010)]
    [1, 3]
    >>> int(cluster[3].bytes[5]), int(cluster[0].bytes[5])
    (133, 0)
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "bulk_moves", "bulk_sides", "bulk_transfers", "of",
    )  # fmt: skip

    def __init__(self, size: int, arch: str = "sm_90a", *, shared_bytes: int | None = None) -> None:
        wanted = f"a number of CTAs from 1 to {BULK_LIMITS.most_ctas}"
        count = whole("size", size, wanted=wanted)
        if not 1 <= count <= BULK_LIMITS.most_ctas:
            raise InputError(f"size = {count}: needs {wanted}")
        self.windows = tuple(SharedMemory(arch, size=shared_bytes) for _ in range(count))

    @classmethod
    def of(cls, windows: Sequence[SharedMemory]) -> Cluster:
        """The cluster whose CTAs have these windows."""
        if not isinstance(windows, (list, tuple)) or not all(isinstance(window, SharedMemory) for window in windows):
            raise InputError(f"windows = {shown(windows)}: needs the SharedMemory of each CTA, in a list")
        made = cls.__new__(cls)
        made.windows = tuple(windows)
        return made

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, cta_rank: int) -> SharedMemory:
        rank = whole("cta_rank", cta_rank, minimum=0)
        if rank >= len(self.windows):
            raise InputError(f"cta_rank = {rank}: the cluster has CTAs 0 to {len(self.windows) - 1}")
        return self.windows[rank]

    def __repr__(self) -> str:
        return f"<Cluster of {len(self)} CTAs, {self.windows[0].arch}>"

    def tma_load(
        self,
        tm: TensorMap,
        coordinates: Sequence[int],
        *,
        smem_address: int | ClusterAddress,
        mbar: int | ClusterAddress,
        source: GlobalMemory,
        cta_rank: int,
        cta_mask: int | None = None,
        cta_group: int = 1,
        im2col_offsets: Sequence[int] = (),
        mode: str | None = None,
    ) -> tuple[Delivery, ...]:
        """A tensor load of CTA `cta_rank`. Returns the CTAs that received the data and the mbarriers that counted it,
        like `smemsim.multicast`.

        Addresses are those of `multicast`: a plain int below 2^24 is CTA 0's. Raises like `tma_load` and `multicast`.
        """
        place: dict[str, Any] = {"im2col_offsets": im2col_offsets, "mode": mode}
        to, barrier = cluster_address("smem_address", smem_address, len(self)), cluster_address("mbar", mbar, len(self))
        _check_barrier(barrier, self.windows[0].end)
        given: dict[str, Any] = {"cluster_size": len(self), "cta_rank": cta_rank, "cta_group": cta_group}
        received = multicast(cta_mask, smem_address=to, mbar=barrier, transaction_bytes=0, **given)
        if cta_mask == 0:
            check_nothing_traps(tm, coordinates, to.smem_address, arch=self.windows[0].arch, end=self.windows[0].end, **place)
        done = []
        for delivery in received:
            transfer = self[delivery.cta_rank].tma_load(tm, coordinates, source=source, smem_address=delivery.smem_address, **place)
            done.append(delivery.counting(transfer.transaction_bytes))
        return tuple(done)

    def bulk_load(
        self,
        dst: int | ClusterAddress,
        src: int,
        size: int,
        *,
        mbar: int | ClusterAddress,
        source: GlobalMemory,
        cta_rank: int,
        cta_mask: int | None = None,
    ) -> tuple[BulkTransfer, ...]:
        """`cp.async.bulk.shared::cluster.global` of CTA `cta_rank`. Returns one transfer for every CTA that receives
        the bytes.

        With `cta_mask` (`.multicast::cluster`) these are the CTAs of its bits, each at the offset of `dst` and with the
        barrier at the offset of `mbar`. That a bulk copy delivers like a tensor load is documented (PTX ISA 9.1
        §9.7.9.25.4.1). Raises like `smemsim.bulk_copy`.
        """
        transfers = self.bulk_transfers(dst, src, size, mbar=mbar, cta_rank=cta_rank, cta_mask=cta_mask)
        return tuple(self[transfer.dst_cta or 0].bulk_arrives(transfer, source) for transfer in transfers)

    def bulk_transfers(
        self, dst: int | ClusterAddress, src: int, size: int, *, mbar: int | ClusterAddress, cta_rank: int, cta_mask: int | None = None
    ) -> tuple[BulkTransfer, ...]:  # fmt: skip
        """The bytes that `bulk_load` would move. Nothing is moved."""
        to, barrier = cluster_address("dst", dst, len(self)), cluster_address("mbar", mbar, len(self))
        given: dict[str, Any] = {"dst_space": "shared::cluster", "src_space": "global", "shared_end": self.windows[0].end}
        tried = bulk_copy(to, src, size, mbar=barrier, cta_rank=cta_rank, **given)
        where: dict[str, Any] = {"cluster_size": len(self), "cta_rank": cta_rank, "smem_address": to, "mbar": barrier}
        received = multicast(cta_mask, transaction_bytes=tried.size, **where)
        return tuple(dataclasses.replace(tried, dst_cta=d.cta_rank, mbar=d.mbar) for d in received)

    def bulk_copy(
        self, dst: int | ClusterAddress, src: int | ClusterAddress, size: int, *, mbar: int | ClusterAddress, cta_rank: int
    ) -> BulkTransfer:
        """`cp.async.bulk.shared::cluster.shared::cta`, executed by CTA `cta_rank`. Raises as
        `smemsim.bulk_copy` does.
        """
        given: dict[str, Any] = {"dst_space": "shared::cluster", "src_space": "shared::cta", "mbar": mbar, "cta_rank": cta_rank}
        return self.bulk_moves(bulk_copy(dst, src, size, shared_end=self.windows[0].end, **given))

    def bulk_reduce(
        self,
        op: str,
        dtype: str,
        dst: int | ClusterAddress,
        src: int | ClusterAddress,
        size: int,
        *,
        mbar: int | ClusterAddress,
        cta_rank: int,
    ) -> BulkTransfer:
        """`cp.reduce.async.bulk.shared::cluster.shared::cta`, executed by CTA `cta_rank`. Raises as
        `smemsim.bulk_reduce` does.
        """
        given: dict[str, Any] = {"dst_space": "shared::cluster", "mbar": mbar, "cta_rank": cta_rank}
        return self.bulk_moves(bulk_reduce(op, dtype, dst, src, size, shared_end=self.windows[0].end, **given))

    def bulk_sides(self, transfer: BulkTransfer) -> tuple[np.ndarray, np.ndarray]:
        """The bytes at the destination and at the source of a bulk transfer between CTAs, uint8 each. Raises like the
        transfer.
        """
        to, at = self[transfer.dst_cta or 0], self[transfer.src_cta or 0]
        return (to.peek(transfer.dst, transfer.size), at.peek(transfer.src, transfer.size)) if transfer.size else _NOTHING

    @in_default_state
    def bulk_moves(self, transfer: BulkTransfer) -> BulkTransfer:
        """Move the bytes of a bulk transfer between CTAs."""
        to = self[transfer.dst_cta or 0]
        if transfer.size:
            old, new = self.bulk_sides(transfer)
            to.write(
                transfer.dst,
                bulk_bytes(transfer, dst=old, src=new),
                f"{'reduction' if transfer.op else 'bulk copy'} from CTA {transfer.src_cta}",
            )
        return transfer


@functools.lru_cache(maxsize=1024)
def deliveries(size: int, end: int, smem_address: int, mbar: int, cta_mask: int | None, cta_group: int) -> tuple[Delivery, ...]:
    """The CTAs of a cluster of `size`, whose windows end at `end`, that get the data of a tensor load. Each has the
    mbarrier that counts it, with 0 bytes so far. Raises as `smemsim.multicast` does.
    """
    to, barrier = cluster_address("smem_address", smem_address, size), cluster_address("mbar", mbar, size)
    _check_barrier(barrier, end)
    return received_by(cta_mask, to, barrier, 0, cluster_size=size, cta_group=cta_group)


def _check_barrier(barrier: ClusterAddress, end: int) -> None:
    if barrier.smem_address + BULK_LIMITS.mbarrier_alignment > end:
        raise Unmodelled(f"mbar = {barrier.smem_address:#x}: past the end of the shared window; what hardware does is not known")


def check_nothing_traps(
    tm: TensorMap, coordinates: Sequence[int], smem_address: int, *, arch: str, end: int, im2col_offsets: Sequence[int] = (), mode: str | None = None
) -> None:  # fmt: skip
    """Raise Unmodelled if a load with an empty mask, which delivers nothing, would trap with another mask: that nothing
    happens was seen with loads that do not trap.
    """
    place: dict[str, Any] = {"smem_address": smem_address, "im2col_offsets": im2col_offsets, "mode": mode}
    try:
        tma_load(tm, coordinates, arch=arch, shared_end=end, **place)
    except HardwareTrap as trap:
        raise Unmodelled(f"cta_mask = 0, and with another mask: {trap.reason}; what hardware does is not known") from None
