"""Clusters: how an address names the shared memory of another CTA, and which CTAs receive a multicast load.

In a cluster the `.shared` addresses of a CTA have its rank in bits 31:24, because the shared::cta window is inside the
shared::cluster window. An array at offset 0x400 is at 0x400 in CTA 0 and at 0x3000400 in CTA 3. A low address is CTA
0's in every CTA. So a constant address that works without clusters reaches into CTA 0 with them.

    >>> ClusterAddress.decode(0x3000400), ClusterAddress.decode(0x400)
    (ClusterAddress(cta_rank=3, smem_address=0x400), ClusterAddress(cta_rank=0, smem_address=0x400))
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from smemsim.base.arguments import shown, whole
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.base.members import OwnMembers
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.bulk import BULK_LIMITS, BULK_TRAPS

__all__ = [
    "ClusterAddress",
    "Delivery",
    "broken",
    "cluster_address",
    "commit_arrivals",
    "mapa",
    "multicast",
    "received_by",
    "shared_offset",
]


SHARED_END = ARCHITECTURES["sm_90a"].shared_end
RANK_SHIFT = BULK_LIMITS.cta_rank_shift


@dataclasses.dataclass(frozen=True, order=True)
class ClusterAddress(metaclass=OwnMembers):
    """A byte of one CTA's shared memory in a cluster. Its CTA is `cta_rank` (%cluster_ctarank).

    Without the rank, `smem_address` is the address of the same variable in CTA 0. It is also its address in a kernel
    without clusters.

    >>> from smemsim import ClusterAddress
    >>> ClusterAddress(3, 0x400).encode() == 0x3000400, ClusterAddress.decode(0x3000400)
    (True, ClusterAddress(cta_rank=3, smem_address=0x400))
    """

    cta_rank: int
    smem_address: int

    def __post_init__(self) -> None:
        rank, address = self.cta_rank, self.smem_address
        if type(rank) is type(address) is int and 0 <= rank < BULK_LIMITS.most_ctas and not address >> RANK_SHIFT:
            return
        object.__setattr__(self, "cta_rank", rank_in("cta_rank", self.cta_rank, BULK_LIMITS.most_ctas))
        object.__setattr__(self, "smem_address", shared_offset("smem_address", self.smem_address))

    def __repr__(self) -> str:
        return f"ClusterAddress(cta_rank={self.cta_rank}, smem_address={self.smem_address:#x})"

    def encode(self) -> int:
        """The 32-bit shared::cluster address. Measured: trace cluster_addresses."""
        return self.cta_rank << RANK_SHIFT | self.smem_address

    @classmethod
    def decode(cls, address: Any) -> ClusterAddress:
        """The CTA and the offset of a 32-bit shared::cluster address, or of a `.shared` address that a CTA of a cluster
        sees.

        An address without a rank is CTA 0's, also where another CTA uses it. Measured: trace cluster_addresses.
        """
        return cluster_address("address", address)


def mapa(smem_address: int, cta_rank: int) -> ClusterAddress:
    """The shared::cluster address of `smem_address` in the CTA of rank `cta_rank`, as `mapa.shared::cluster` gives it;
    a rank in the address is replaced.

    Raises InputError for what is no address of shared memory, or no rank of a cluster.

    >>> from smemsim import mapa
    >>> hex(mapa(0x408, 1).encode()), hex(mapa(0x3000408, 1).encode())
    ('0x1000408', '0x1000408')
    """
    return ClusterAddress(cta_rank, cluster_address("smem_address", smem_address).smem_address)


@dataclasses.dataclass(frozen=True)
class Delivery(metaclass=OwnMembers):
    """The part of a transfer that one CTA gets: the data at `smem_address` of `cta_rank`, the `transaction_bytes` at
    `mbar`.

    >>> import smemsim
    >>> d = smemsim.multicast(0b10, cluster_size=2, cta_rank=0, smem_address=0x800, mbar=0x400, transaction_bytes=64)[0]
    >>> d.cta_rank, hex(d.smem_address), d.transaction_bytes
    (1, '0x800', 64)
    """

    cta_rank: int
    smem_address: int
    mbar: ClusterAddress
    transaction_bytes: int

    def counting(self, count: int) -> Delivery:
        """The same, of so many bytes."""
        return Delivery(self.cta_rank, self.smem_address, self.mbar, count)


def multicast(
    cta_mask: int | None,
    *,
    cluster_size: int,
    cta_rank: int,
    smem_address: int | ClusterAddress,
    mbar: int | ClusterAddress,
    transaction_bytes: int,
    cta_group: int = 1,
) -> tuple[Delivery, ...]:
    """Which CTAs of a cluster receive a tensor load of CTA `cta_rank`, by rank.

    The mask `cta_mask` is the 16-bit operand of `.multicast::cluster`, a bit for each rank. None is the instruction
    without that qualifier: only the CTA of `smem_address` receives the load. An empty mask delivers nothing. The
    addresses `smem_address` and `mbar` are ClusterAddress, or ints with the rank in bits 31:24. A low int is CTA 0's.
    With `cta_group` 2 (`.cta_group::2`, sm_100a), the bytes for a destination count in one CTA of its pair. It is the
    CTA with the parity of the CTA of `mbar`.

    Each destination gets the data at the same offset of its own window. Its own mbarrier, at the offset of `mbar`,
    counts all bytes. The rank in `mbar` is ignored. With a mask, the rank in `smem_address` is ignored, too.

    Measured on sm_90a: traces multicast, multicast_traps. `cta_group` 2 is documented: PTX ISA 9.1 §9.7.9.27.

    Raises HardwareTrap (719) for a mask with CTAs outside the cluster. Raises InputError for arguments that no
    instruction has. Raises Unmodelled for a barrier off 8 B or outside the pair.

    >>> from smemsim import multicast
    >>> [(d.cta_rank, d.mbar) for d in multicast(0b101, cluster_size=4, cta_rank=1, smem_address=0x800, mbar=0x400, transaction_bytes=64)]
    [(0, ClusterAddress(cta_rank=0, smem_address=0x400)), (2, ClusterAddress(cta_rank=2, smem_address=0x400))]
    """
    size = whole("cluster_size", cluster_size, minimum=1, wanted=f"a number of CTAs up to {BULK_LIMITS.most_ctas}")
    if size > BULK_LIMITS.most_ctas:
        raise InputError(f"cluster_size = {size}: a cluster has at most {BULK_LIMITS.most_ctas} CTAs")
    rank_in("cta_rank", cta_rank, size)
    count = whole("transaction_bytes", transaction_bytes, minimum=0, wanted="a number of bytes")
    if count >= BULK_LIMITS.size_end:
        raise InputError(f"transaction_bytes = {count}: an mbarrier counts less than 2^20 bytes")
    group = whole("cta_group", cta_group, wanted="1 or 2")
    if group not in {1, 2} or (group == 2 and size % 2):
        raise _no_pairs(group, size)
    to, barrier = cluster_address("smem_address", smem_address, size), cluster_address("mbar", mbar, size)
    return received_by(cta_mask, to, barrier, count, cluster_size=size, cta_group=group)


def _no_pairs(cta_group: int, cluster_size: int) -> InputError:
    return InputError(f"cta_group = {cta_group} in a cluster of {cluster_size}: needs 1, or 2 in a cluster of whole pairs")


def received_by(
    cta_mask: int | None, to: ClusterAddress, barrier: ClusterAddress, count: int, *, cluster_size: int, cta_group: int
) -> tuple[Delivery, ...]:
    """`multicast` of `count` bytes, of an instruction's operands. Raises what `multicast` raises."""
    if cta_group == 2 and cluster_size % 2:
        raise _no_pairs(cta_group, cluster_size)
    if barrier.smem_address % BULK_LIMITS.mbarrier_alignment:
        raise Unmodelled(
            f"mbar = {barrier.smem_address:#x}: needs a multiple of {BULK_LIMITS.mbarrier_alignment} B; what a tensor load does otherwise "
            f"is not known (a bulk copy traps with CUDA error {BULK_TRAPS['mbarrier address'].cuda_error})"
        )
    if cta_group == 2 and cta_mask is None and barrier.cta_rank // 2 != to.cta_rank // 2:
        raise Unmodelled(
            f"the data goes to CTA {to.cta_rank}, mbar is in CTA {barrier.cta_rank}: with .cta_group::2 it must be in the same pair; what "
            "hardware does otherwise is not known"
        )
    ranks = [to.cta_rank] if cta_mask is None else _destinations(cta_mask, cluster_size, cta_group)
    return tuple([Delivery(rank, to.smem_address, _signalled(rank, barrier, cta_group), count) for rank in ranks])


def commit_arrivals(cta_mask: int | None, *, cluster_size: int, cta_rank: int, cta_group: int = 1) -> dict[int, int]:
    """How often a tcgen05.commit of CTA `cta_rank` arrives at the mbarrier of each CTA, by rank. CTAs without an
    arrival are left out.

    The mask `cta_mask` is the 16-bit operand of `.multicast::cluster`, a bit for each rank. None is the instruction
    without that qualifier: only the own barrier gets an arrival.

    Documented: PTX ISA 9.1 §9.7.16.12. Raises InputError for a mask with CTAs outside the cluster.

    >>> commit_arrivals(None, cluster_size=2, cta_rank=1), commit_arrivals(0b01, cluster_size=2, cta_rank=1)
    ({1: 1}, {0: 1})
    """
    if cta_mask is not None and cta_mask >> cluster_size:
        raise InputError(f"cta_mask = {cta_mask:#x}: names CTAs that the cluster of {cluster_size} does not have")
    ranks = [cta_rank] if cta_mask is None else [rank for rank in range(cluster_size) if cta_mask >> rank & 1]
    return dict.fromkeys(ranks if cta_mask is None else assumed("commit.ranks", ranks, cta_rank), assumed("commit.arrivals", 1, cta_group))


def _destinations(cta_mask: Any, cluster_size: int, cta_group: int) -> list[int]:
    mask = whole("cta_mask", cta_mask, minimum=0, wanted="a 16-bit mask of CTA ranks")
    if mask >> BULK_LIMITS.most_ctas:
        raise InputError(f"cta_mask = {mask:#x}: the operand has {BULK_LIMITS.most_ctas} bits")
    if cta_group == 2 and (not mask or mask >> cluster_size):
        raise Unmodelled(f"cta_mask = {mask:#x} in a cluster of {cluster_size}, with .cta_group::2: what hardware does is not known")
    if mask >> cluster_size:
        broken("no such CTA", f"cta_mask = {mask:#x}: the cluster has CTAs 0 to {cluster_size - 1}; clear the other bits")
    return [rank for rank in range(cluster_size) if mask >> rank & 1]


def _signalled(destination: int, barrier: ClusterAddress, cta_group: int) -> ClusterAddress:
    """Which CTA's barrier is credited for the data of one destination."""
    if cta_group == 1:
        return ClusterAddress(destination, barrier.smem_address)
    return ClusterAddress(destination // 2 * 2 + barrier.cta_rank % 2, barrier.smem_address)


def rank_in(name: str, value: Any, cluster_size: int) -> int:
    """An argument that is the rank of a CTA in a cluster of `cluster_size`."""
    rank = whole(name, value, minimum=0, wanted="the rank of a CTA in its cluster")
    if rank >= cluster_size:
        raise InputError(f"{name} = {shown(rank)}: the cluster has CTAs 0 to {cluster_size - 1}")
    return rank


def cluster_address(name: str, value: Any, cluster_size: int = BULK_LIMITS.most_ctas) -> ClusterAddress:
    """An argument that is an address in a cluster: a ClusterAddress, or an int with the CTA's rank in bits 31:24.

    >>> cluster_address("mbar", 0x1000400, 2)
    ClusterAddress(cta_rank=1, smem_address=0x400)
    """
    if isinstance(value, ClusterAddress):
        address = value
    else:
        number = whole(name, value, minimum=0, wanted="a 32-bit shared address, or a ClusterAddress")
        rank = number >> RANK_SHIFT
        if rank >= BULK_LIMITS.most_ctas:
            raise InputError(
                f"{name} = {shown(number)}: bits 31:24 of a shared address are the rank of a CTA, 0 to {BULK_LIMITS.most_ctas - 1}"
            )
        address = ClusterAddress(rank, number & ((1 << RANK_SHIFT) - 1))
    if address.cta_rank >= cluster_size:
        raise InputError(f"{name} is in CTA {address.cta_rank}: the cluster has CTAs 0 to {cluster_size - 1}")
    return address


def shared_offset(name: str, value: Any) -> int:
    """An argument that is a byte address in one CTA's `.shared` window, without a rank."""
    address = whole(name, value, minimum=0, wanted="a byte address in the .shared window")
    if address >> RANK_SHIFT:
        raise InputError(f"{name} = {shown(address)}: needs a byte address in one CTA's .shared window (0 to {SHARED_END:#x})")
    return address


def broken(what: str, sentence: str) -> NoReturn:
    """Raise what hardware does when a requirement is broken: a row of BULK_TRAPS."""
    raise HardwareTrap(sentence, cuda_error=BULK_TRAPS[what].cuda_error)
