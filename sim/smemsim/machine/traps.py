"""Where silicon stops a tensor transfer: what is wrong with the map for this instruction, with the coordinates, with the addresses.

What a map alone decides is in descriptors.tensor_map.traps; here it becomes a trap of a transfer, and the rest follows.

CUDA error 715 is an illegal instruction, 716 a misaligned address, 700 an illegal address. Measured (H200): traces tma_load_traps,
tma_store_traps, tma_mode_traps, tma_edited; for what only Blackwell has the PTX ISA says what is not allowed, and that it traps is
inferred.
"""

from __future__ import annotations

from smemsim.descriptors.tensor_map import TensorMap
from smemsim.descriptors.tensor_map.traps import MapTrap, map_traps
from smemsim.errors import HardwareTrap, InputError, Unmodelled
from smemsim.machine.geometry import Geometry
from smemsim.spec.architectures import architecture
from smemsim.spec.tensor_map import LIMITS, SWIZZLE_ARCHITECTURES, Interleave
from smemsim.spec.transfers import BLACKWELL_MODES, HALO_LIMITS
from smemsim.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS

__all__ = ["check_coordinates", "check_global", "check_map", "check_smem_address", "check_window"]


def check_map(tm: TensorMap, g: Geometry, arch: str | None, *, is_store: bool) -> None:
    """Traps that come from the map alone; the answer for a map is kept with it."""
    known: dict[tuple[str, str | None, bool], MapTrap | None] = tm.__dict__.setdefault("_map_trap", {})
    key = (g.mode, arch, is_store)
    if key not in known:
        if g.mode in BLACKWELL_MODES and arch is not None and architecture(arch).instruction == "wgmma":
            raise InputError(f"mode = {g.mode!r}: {arch} has no such instruction; it needs sm_100a")
        known[key] = next((trap for trap in map_traps(tm, arch, g.mode) if trap.stops(is_store=is_store)), None)
        hopper = tm.type_row.sm90 and (arch == "sm_90a" or tm.swizzle not in SWIZZLE_ARCHITECTURES)
        if known[key] is None and not hopper and (broken := tm.broken_on(arch)):
            raise Unmodelled(f"no driver makes such a map ({broken[0]}); what a transfer does with it is not known")
    trap = known[key]
    if trap is not None:
        raise HardwareTrap(trap.reason, cuda_error=trap.cuda_error)


def _illegal(reason: str) -> HardwareTrap:
    return HardwareTrap(reason, cuda_error=ILLEGAL_INSTRUCTION)


def check_coordinates(tm: TensorMap, g: Geometry, at: tuple[int, ...], extra: tuple[int, ...], *, is_store: bool) -> None:
    """Traps that come from where the box begins; `extra` is (wHalo, wOffset) of the wide modes."""
    if tm.interleave is Interleave.INTERLEAVE_NONE:
        if at[0] % g.inner_multiple:
            raise _illegal(f"coordinates[0] = {at[0]}: needs a multiple of {g.inner_multiple} elements for {tm.type_row.code.name}")
        if g.inner_multiple == 1 and at[0] * g.unit_bits % 128:
            raise _illegal(
                f"coordinates[0] = {at[0]} x {g.unit_bits} bit = {at[0] * g.unit_bits / 8:g} B: the box must start on a multiple of 16 B, "
                f"that is {128 // g.unit_bits} elements"
            )
    if is_store and min(at) < 0:
        i = next(i for i, c in enumerate(at) if c < 0)
        raise _illegal(f"coordinates[{i}] = {at[i]}: a store cannot start below 0")
    for axis in range(g.first, g.first + g.axes):
        lower, upper = int(g.lower[axis]), int(g.upper[axis])
        left = at[axis] < lower and not g.mode.startswith("im2col::w")  # the wide modes may begin left of the box
        if left or at[axis] >= upper:
            raise _illegal(
                f"coordinates[{axis}] = {at[axis]}: an im2col transfer must start inside the pixel box, {lower} to {upper - 1} in this dimension "
                "(lower corner to dimension + upper corner - 1)"
            )
    if g.mode in HALO_LIMITS:
        for name, value, end in zip(("wHalo", "wOffset"), extra, HALO_LIMITS[g.mode], strict=True):
            if not 0 <= value < end:
                raise InputError(f"im2col_offsets: {name} = {value}, needs 0 to {end - 1} in {g.mode}")


def check_window(shared_end: int, end: int, *, is_store: bool) -> None:
    """A box must not pass the end of the CTA's shared window."""
    if shared_end > end:
        raise HardwareTrap(
            f"the box {'reads' if is_store else 'writes'} shared bytes up to {shared_end - 1:#x}, past the end of the CTA's shared window ({end:#x})",
            cuda_error=ILLEGAL_ADDRESS,
        )


def check_global(end: int) -> None:
    """No GPU maps global addresses of more than 57 bits."""
    if end > LIMITS.address_end:
        raise HardwareTrap(
            f"the box reaches global address {end - 1:#x}: beyond 2^{LIMITS.address_end.bit_length() - 1}, which no GPU maps; check "
            "global_address and global_strides",
            cuda_error=ILLEGAL_ADDRESS,
        )


def check_smem_address(address: int) -> None:
    """The box must begin on a multiple of 128 B in shared memory, whatever the swizzle."""
    if address % LIMITS.smem_alignment:
        raise HardwareTrap(
            f"smem_address = {address:#x}: needs a multiple of {LIMITS.smem_alignment} B, with and without swizzle",
            cuda_error=MISALIGNED_ADDRESS,
        )
