"""Bulk copies and reductions without a tensor map: which byte goes where, which mbarrier is credited, and where
hardware traps.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from smemsim.base.arguments import choice, shown, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.arithmetic.reduce import bulk_reduction, reduction_op
from smemsim.core.arithmetic.reduce_loops import reduce_elements
from smemsim.core.machine.cluster import ClusterAddress, broken, cluster_address, rank_in, shared_offset
from smemsim.core.machine.global_memory import FOREIGN
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.bulk import BULK_LIMITS
from smemsim.core.spec.tensor_map import LIMITS

__all__ = ["BulkTransfer", "bulk_bytes", "bulk_copy", "bulk_prefetch", "bulk_reduce", "bulk_reduce_bytes", "fitting_size"]


SHARED_END = ARCHITECTURES["sm_90a"].shared_end
GRANULARITY = ARCHITECTURES["sm_90a"].shared_granularity


@dataclasses.dataclass(frozen=True)
class BulkTransfer(metaclass=OwnMembers):
    """One bulk copy, reduction or prefetch of `size` bytes. Byte i of the source goes to byte i of the destination.

    - `dst`, `src`: byte addresses in `dst_space` and `src_space` ("global", "shared::cta", "shared::cluster"), without
      the rank. A prefetch has `dst` -1 and `dst_space` "L2".
    - `dst_cta`, `src_cta`: the ranks. `mbar`: the mbarrier that is credited. Each is None if there is none.
    - `op`, `dtype`: those of a reduction, else empty.

    >>> import smemsim
    >>> t = smemsim.bulk_copy(0x400, 0x7F0000000000, 256, dst_space="shared::cluster", src_space="global", mbar=0x800)
    >>> t.size, t.dst_space, hex(t.dst), t.dst_cta
    (256, 'shared::cluster', '0x400', 0)
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "sources",
    )  # fmt: skip

    dst: int
    src: int
    size: int
    dst_space: str
    src_space: str
    dst_cta: int | None = None
    src_cta: int | None = None
    mbar: ClusterAddress | None = None
    op: str = ""
    dtype: str = ""

    @property
    def transaction_bytes(self) -> int:
        """The bytes that the mbarrier counts: the size. For a destination in global memory: the bytes that are read
        from shared memory.
        """
        return 0 if self.dst_space == "L2" else self.size

    @property
    def dst_address(self) -> np.ndarray:
        """int64[n]: the address of every byte that is written, ascending."""
        return np.arange(self.dst, self.dst + self.transaction_bytes, dtype=np.int64)

    @property
    def src_address(self) -> np.ndarray:
        """int64[n]: the source address of each byte."""
        return np.arange(self.src, self.src + self.transaction_bytes, dtype=np.int64)

    @property
    def shared_address(self) -> np.ndarray:
        """uint32[n]: the address of each byte in shared memory. For a copy between two CTAs: the destination."""
        return (self.src_address if self.dst_space == "global" else self.dst_address).astype(np.uint32)

    @property
    def global_address(self) -> np.ndarray:
        """int64[n]: the address of each byte in global memory. -1 if neither side is in global memory."""
        if self.dst_space == "global":
            return self.dst_address
        return self.src_address if self.src_space == "global" else np.full(len(self.src_address), -1, np.int64)

    @property
    def sources(self) -> np.ndarray:
        """int64[n]: of a copy into shared memory, as its writer: the global byte of each byte that it wrote, or
        region.FOREIGN.
        """
        return self.src_address if self.src_space == "global" else np.full(self.transaction_bytes, FOREIGN, np.int64)


# The directions of PTX ISA 9.1 §9.7.9.25.4.1, (dst_space, src_space). The last completes a bulk group, the others an
# mbarrier.
DIRECTIONS = (("shared::cta", "global"), ("shared::cluster", "global"), ("shared::cluster", "shared::cta"), ("global", "shared::cta"))
_DST, _SRC = ("global", "shared::cta", "shared::cluster"), ("global", "shared::cta")


def fitting_size(size: int, room: int, *, is_store: bool) -> str:
    """A sentence for a copy of `size` bytes if the array has `room` bytes there.

    >>> fitting_size(1000, 1000, is_store=False)
    'copy 992 bytes in bulk, and the last 8 bytes by ld.global and st.shared'
    >>> fitting_size(128, 64, is_store=False)
    'copy 64 bytes: the array has 64 bytes there; or make the array larger'
    """
    unit, most = BULK_LIMITS.unit, min(size, room)
    units, rest = most // unit * unit, most % unit
    access = "st.global" if is_store else "ld.global and st.shared"
    if not most:
        return "begin the copy inside of the array, or make the array larger"
    how = f"copy {units} bytes"
    if rest:
        how = f"copy {units} bytes in bulk, and the last {rest} bytes by {access}" if units else f"copy the {rest} bytes by {access}"
    if size > room:
        return f"{how}: the array has {room} bytes there; or make the array larger"
    return how


def bulk_copy(
    dst: int | ClusterAddress,
    src: int | ClusterAddress,
    size: int,
    *,
    dst_space: str,
    src_space: str,
    mbar: int | ClusterAddress | None = None,
    cta_rank: int = 0,
    shared_end: int = SHARED_END,
) -> BulkTransfer:
    """Copy `size` bytes from `src` to `dst` by `cp.async.bulk`. The spaces `dst_space` and `src_space` are those of the
    instruction.

    A copy to shared memory completes on the mbarrier at the offset of `mbar` in the destination's CTA. The rank of
    `mbar` does not count. The sources may be global memory or, for shared::cluster, shared::cta. A copy from
    shared::cta to global memory completes in its bulk group, and has no `mbar`.

    Addresses are multiples of 16 B, that of the mbarrier of 8 B. Bytes past a multiple of 16 are neither moved nor
    counted. A size of 2^20 B moves nothing. Shared addresses are ClusterAddress, or ints with the CTA's rank in bits
    31:24, seen from CTA `cta_rank`. A low int is CTA 0's. The end of every CTA's window is `shared_end`. A copy may
    reach below its first user byte (0x400 on sm_90a).

    Measured on sm_90a: traces bulk_copies, bulk_traps. They show that a barrier of another rank than the destination's
    is not credited.

    Raises InputError for a direction, place or barrier that the instruction does not have. Raises HardwareTrap
    (`smemsim.BULK_TRAPS`) for a misaligned address (716), bytes past the executing CTA's window (700) or past another's
    (719). Raises Unmodelled for unknown behaviour.

    >>> from smemsim import bulk_copy
    >>> t = bulk_copy(0x400, 0x7F0000000000, 264, dst_space="shared::cluster", src_space="global", mbar=0x800)
    >>> t.transaction_bytes, hex(t.shared_address[17]), hex(t.global_address[17])
    (256, '0x411', '0x7f0000000011')
    """
    spaces = (choice("dst_space", dst_space, _DST, " or ".join(_DST)), choice("src_space", src_space, _SRC, " or ".join(_SRC)))
    if spaces not in DIRECTIONS:
        known = ", ".join(f"{s} to {d}" for d, s in DIRECTIONS)
        raise InputError(f"cp.async.bulk from {spaces[1]} to {spaces[0]}: no such direction; there are {known}")
    return _transfer(dst, src, size, spaces, mbar, cta_rank, shared_end)


def bulk_reduce(
    op: str,
    dtype: str,
    dst: int | ClusterAddress,
    src: int | ClusterAddress,
    size: int,
    *,
    dst_space: str,
    mbar: int | ClusterAddress | None = None,
    cta_rank: int = 0,
    shared_end: int = SHARED_END,
) -> BulkTransfer:
    """Reduce `size` bytes of shared memory into `dst` by `cp.reduce.async.bulk`, element by element. The values are
    those of `bulk_bytes`.

    The space `dst_space` is "global" (bulk group) or "shared::cluster" (another CTA, whose barrier counts the bytes).
    The operation `op` is add, min, max, inc, dec, and, or or xor. The type `dtype` is u32, s32, b32, u64, s64, b64,
    f16, bf16, f32 or f64.

    Measured on sm_90a: trace bulk_reductions. That it traps like a copy is inferred. Raises like `bulk_copy`. Raises
    InputError for a pair without an instruction, and Unmodelled for a size that is not a multiple of 16 B.

    >>> from smemsim import bulk_reduce
    >>> bulk_reduce("add", "f16", 0x10000, 0x400, 64, dst_space="global").dtype
    'f16'
    """
    row = bulk_reduction(op, dtype, dst_space)
    made = _transfer(dst, src, size, (dst_space, "shared::cta"), mbar, cta_rank, shared_end, whole_units=True)
    return dataclasses.replace(made, op=str(reduction_op(op)), dtype=row.name)


def bulk_prefetch(src: int, size: int) -> BulkTransfer:
    """`cp.async.bulk.prefetch.L2.global`: a hint. It changes no memory.

    An address that is no multiple of 16 B traps (716). A size that is none runs. Measured on sm_90a: trace bulk_traps.
    Raises HardwareTrap if it traps, InputError for a wrong address or size.

    >>> from smemsim import bulk_prefetch
    >>> len(bulk_prefetch(0x10000, 4096).shared_address)
    0
    """
    address, count = _global("src", src), _moved(size)
    _aligned("global address", "src", address)
    _check_reach("src", address, count)
    return BulkTransfer(-1, address, count, "L2", "global")


@in_default_state
def bulk_bytes(transfer: BulkTransfer, *, dst: np.ndarray, src: np.ndarray) -> np.ndarray:
    """The bytes of the destination afterwards, from what both sides held before: uint8 arrays of `transfer.size` bytes
    each.

    Raises InputError for other arrays, and for what is no bulk transfer.

    >>> from smemsim import bulk_bytes, bulk_reduce
    >>> import numpy as np
    >>> t = bulk_reduce("max", "u32", 0x10000, 0x400, 16, dst_space="global")
    >>> old, new = np.array([1, 9, 5, 0], np.uint32), np.array([4, 4, 5, 6], np.uint32)
    >>> bulk_bytes(t, dst=old.view(np.uint8), src=new.view(np.uint8)).view(np.uint32).tolist()
    [4, 9, 5, 6]
    """
    if not isinstance(transfer, BulkTransfer):
        raise InputError(f"transfer = {shown(transfer)}: needs what bulk_copy, bulk_reduce or bulk_prefetch gave")
    for name, array in (("dst", dst), ("src", src)):
        if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.shape != (transfer.size,):
            raise InputError(f"{name}: needs a uint8 array of the transfer's {transfer.size} bytes")
    if transfer.dst_space == "L2":
        return dst.copy()
    if not transfer.op:
        return src.copy()
    return bulk_reduce_bytes(transfer.op, transfer.dtype, dst=dst, src=src, dst_space=transfer.dst_space)


@in_default_state
def bulk_reduce_bytes(op: str, dtype: str, *, dst: np.ndarray, src: np.ndarray, dst_space: str = "global") -> np.ndarray:
    """What `cp.reduce.async.bulk` makes of the bytes `dst` with the bytes `src` of shared memory: uint8 arrays of one
    shape.

    >>> ones = np.array([0x3C00], np.uint16).view(np.uint8)
    >>> hex(bulk_reduce_bytes("add", "f16", dst=ones, src=ones).view(np.uint16)[0])
    '0x4000'
    """
    return reduce_elements(_octets("dst", dst), _octets("src", src), op, bulk_reduction(op, dtype, dst_space))


def _octets(name: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
        raise InputError(f"{name}: needs a uint8 array, the bytes of whole elements")
    return array


def _transfer(
    dst: Any, src: Any, size: Any, spaces: tuple[str, str], mbar: Any, cta_rank: Any, shared_end: Any, *, whole_units: bool = False
) -> BulkTransfer:
    dst_space, src_space = spaces
    count, issuer = _moved(size), rank_in("cta_rank", cta_rank, BULK_LIMITS.most_ctas)
    end = shared_offset("shared_end", shared_end)
    if whole_units and (count != size or not count):
        raise Unmodelled(
            f"size = {size} B: needs a multiple of {BULK_LIMITS.unit} B, above 0 and below 2^20; what a reduction does otherwise is not "
            "known (a copy drops the rest)"
        )
    to, to_cta = _place("dst", dst, dst_space, issuer)
    at, at_cta = _place("src", src, src_space, issuer)
    barrier = _barrier(mbar, dst_space, to_cta, issuer)
    places = (("dst", to, to_cta), ("src", at, at_cta))
    limit = -(-end // GRANULARITY) * GRANULARITY
    outside = {name: sentence for name, address, cta in places if cta is not None and (sentence := _past(name, address, cta, count, limit))}
    if src_space == "shared::cta" and to_cta == issuer and "dst" in outside:
        raise Unmodelled(f"{outside['dst']}, which a copy within one CTA names; hardware traps, with which error is not known")
    odd = (
        outside
        or any(address % BULK_LIMITS.unit for _, address, _ in places)
        or (barrier and barrier.smem_address % BULK_LIMITS.mbarrier_alignment)
    )
    if not count and odd:
        raise Unmodelled(
            f"size = {size} B moves nothing; whether addresses off their alignment or past a window trap all the same is not known"
        )
    for name, _, cta in places:
        if name in outside and cta == issuer:
            broken("window", outside[name])
    for name, address, cta in places:
        _aligned("global address" if cta is None else "shared address", name, address)
    if barrier is not None and barrier.smem_address % BULK_LIMITS.mbarrier_alignment:
        broken("mbarrier address", f"mbar = {barrier.smem_address:#x}: needs a multiple of {BULK_LIMITS.mbarrier_alignment} B")
    if outside:
        broken("another's window", next(iter(outside.values())))
    if barrier is not None and (sentence := _past("mbar", barrier.smem_address, barrier.cta_rank, BULK_LIMITS.mbarrier_alignment, limit)):
        raise Unmodelled(f"{sentence}; what hardware does is not known")
    for name, address, cta in places:
        if cta is None:
            _check_reach(name, address, count)
    return BulkTransfer(to, at, count, dst_space, src_space, to_cta, at_cta, barrier)


def _place(name: str, value: Any, space: str, issuer: int) -> tuple[int, int | None]:
    """(address without rank, CTA or None) of an operand."""
    if space == "global":
        return _global(name, value), None
    place = cluster_address(name, value)
    if space == "shared::cta" and place.cta_rank != issuer:
        own = ClusterAddress(issuer, place.smem_address).encode()
        raise InputError(
            f"{name} = {place.encode():#x} is in CTA {place.cta_rank}, and .shared::cta is the executing CTA's own memory: in CTA {issuer} "
            f"of a cluster the address has its rank in bits 31:24 ({own:#x})"
        )
    return place.smem_address, place.cta_rank


def _barrier(mbar: Any, dst_space: str, to_cta: int | None, issuer: int) -> ClusterAddress | None:
    """The barrier that is credited."""
    if to_cta is None:
        if mbar is not None:
            raise InputError("mbar: a copy to global memory completes its bulk group (cp.async.bulk.commit_group), it takes no mbarrier")
        return None
    if mbar is None:
        raise InputError(f"mbar: a copy to {dst_space} needs the address of the mbarrier that counts its bytes")
    named = cluster_address("mbar", mbar)
    if dst_space == "shared::cta" and named.cta_rank != issuer:
        raise Unmodelled(
            f"mbar is in CTA {named.cta_rank}: a copy to .shared::cta takes a barrier of the executing CTA ({issuer}); what hardware does "
            "otherwise is not known"
        )
    return ClusterAddress(to_cta, named.smem_address)


def _past(name: str, address: int, cta: int, count: int, limit: int) -> str:
    """A sentence when the bytes reach past the window, or nothing."""
    return (
        f"{name} = {address:#x}, {count} bytes: past the end of CTA {cta}'s shared window ({limit:#x})" if address + count > limit else ""
    )


def _global(name: str, value: Any) -> int:
    address = whole(name, value, minimum=0, wanted="a global byte address")
    if address >> 64:
        raise InputError(f"{name} = {shown(address)}: needs a 64-bit global byte address")
    return address


def _check_reach(name: str, address: int, count: int) -> None:
    if address + count > LIMITS.address_end:
        raise Unmodelled(
            f"{name} = {address:#x}, {count} bytes: beyond 2^57, which no GPU maps; a tensor copy faults there, bulk copies are untried"
        )


def _moved(size: Any) -> int:
    """Bytes that a copy with the operand `size` moves: bits 19:4 of it count."""
    asked = whole("size", size, minimum=0, wanted="a number of bytes")
    if asked >> 32:
        raise InputError(f"size = {shown(asked)} B: the operand has 32 bits")
    if asked > BULK_LIMITS.size_end:
        raise Unmodelled(f"size = {asked} B: 2^20 B move nothing, as if only lower bits counted; what more than that does is not known")
    return asked % BULK_LIMITS.size_end // BULK_LIMITS.unit * BULK_LIMITS.unit


def _aligned(what: str, name: str, address: int) -> None:
    if address % BULK_LIMITS.unit:
        broken(what, f"{name} = {address:#x}: needs a multiple of {BULK_LIMITS.unit} B")
