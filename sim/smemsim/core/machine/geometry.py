"""The geometry of a tiled, im2col or scatter / gather transfer, and the transfers that hardware refuses.

The traps that the map alone decides are in `words/tensor_map/traps.py`. Here they become traps of a transfer. CUDA
error 715 is an illegal instruction, 716 a misaligned address, 700 an illegal address. Measured (H200): traces
tma_load_traps, tma_store_traps, tma_mode_traps, tma_edited. For Blackwell the PTX ISA lists forbidden transfers. That
they trap is inferred.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.layout import tma_loops
from smemsim.core.layout.tma import row_pitch, tile_size
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.assumptions import assumed, in_force
from smemsim.core.spec.swizzles import Swizzle, SwizzleMode
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLE_ARCHITECTURES, Interleave
from smemsim.core.spec.transfers import BLACKWELL_MODES, CHUNK_BYTES, GATHERED_ROWS, HALO_LIMITS, LOAD_MODES, STORE_MODES
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.traps import MapTrap, map_traps, swizzle_in_force

__all__ = ["Geometry", "check_coordinates", "check_global", "check_map", "check_smem_address", "check_window", "geometry_of"]


# ---- What a tensor map means to the copy engine: the shape of its box as rows and chunks, computed
# once for each map and direction


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Geometry:
    """The inputs of the walk over the rows of a box.

    The arrays `shape` and `layout` are those of `layout.tma_loops`. The instruction's mode is `mode`, the swizzle in
    force is `swizzle`. The rows are those of a tile, or pixels without the halo. The packed bytes of a row, as the
    barrier counts them, are `row_bytes`. The spatial dimensions of an im2col walk are `first` and `axes`, its pixel box
    is `lower` and `upper`.
    """

    mode: str
    swizzle: SwizzleMode
    shape: np.ndarray
    layout: np.ndarray
    elements: int  # or slices, of a row
    unit_bits: int
    row_bytes: int
    chunk_bytes: int
    chunks: int
    rows: int
    first: int
    axes: int
    lower: np.ndarray
    upper: np.ndarray
    inner_multiple: int  # of elements that coordinate 0 must be, beside the 16 bytes
    is_far: bool  # strides so large that coordinates times them may leave 63 bits
    to_tf32: bool
    fill: np.ndarray  # the bytes of one element out of bounds

    def farthest(self, at: tuple[int, ...] | np.ndarray) -> int:
        """Bytes from the tensor's first element to the outermost line in bounds, of a tile at `at` or of walked rows; 0
        for none.
        """
        dims, strides = self.shape[0].tolist(), self.shape[1].tolist()
        c0 = 0 if self.walks_inside else at[0] if isinstance(at, tuple) else int(at[0, 0])
        if c0 >= dims[0] or c0 + self.elements * int(self.shape[3, 0]) <= 0:
            return 0
        if isinstance(at, tuple):
            steps = zip(at, self.shape[2].tolist(), self.shape[3].tolist(), dims, strict=False)
            last = [c + min(n - 1, (dim - 1 - c) // step) * step for c, n, step, dim in steps]
            inside = all(c < dim and reached >= 0 for c, dim, reached in zip(at[1:], dims[1:], last[1:], strict=False))
        else:
            rows = at[((at >= 0) & (at < self.shape[0]))[:, 1:].all(axis=1)]
            inside = len(rows) > 0
            last = rows.max(axis=0).tolist() if inside else []
        return sum(c * stride for c, stride in zip(last[1:], strides[1:], strict=False)) if inside else 0

    @functools.cached_property
    def is_plain(self) -> bool:
        """Does every chunk have 16 bytes that are moved unchanged?"""
        return self.chunk_bytes == 16 and not self.has_flip and not self.to_tf32

    @functools.cached_property
    def is_whole_lines(self) -> bool:
        """Is every row one 128-byte line in shared memory and 128 bytes that follow one another in global memory?"""
        return self.is_plain and self.chunks == 8 and self.pitch == 128 and int(self.shape[3, 0]) == 1

    @functools.cached_property
    def pitch(self) -> int:
        """Bytes of shared memory from row to row."""
        return int(self.layout[tma_loops.Layout.PITCH])

    @functools.cached_property
    def walks_inside(self) -> bool:
        """Does dimension 0 change from row to row? With interleave W is dimension 0 of an im2col walk."""
        return self.axes > 0 and self.first == 0

    @property
    def has_flip(self) -> bool:
        """Do 8-byte halves change places?"""
        return self.swizzle.swizzle is Swizzle.B128_ATOM_32B_FLIP_8B


def geometry_of(tm: TensorMap, mode: str | None, arch: str | None, *, is_store: bool) -> Geometry:
    """The geometry of a map for an instruction's mode; None: the mode that goes with the map."""
    known: dict[tuple[str | None, str | None, bool, str], Geometry] = tm.__dict__.setdefault("_geometry", {})
    if type(mode) is not str and mode is not None:
        raise InputError(f"mode = {shown(mode)}: needs the name of the instruction's mode, as PTX has it, or None")
    key = (mode, arch, is_store, in_force())
    if key not in known:
        if arch is not None:
            any_architecture(arch)
        known[key] = _build(tm, _mode_of(tm, mode, is_store=is_store), arch, is_store)
    return known[key]


def _mode_of(tm: TensorMap, mode: str | None, *, is_store: bool) -> str:
    known = STORE_MODES if is_store else LOAD_MODES
    if mode is None:
        own = {"tiled": "tile", "im2col": "im2col_no_offs" if is_store else "im2col"}.get(tm.call)
        own = own or ("im2col::w::128" if tm.wide_mode == "W128" else "im2col::w")
        if own not in known:
            raise Unmodelled("stores through a map of cuTensorMapEncodeIm2colWide: no architecture of this package has them")
        return own
    if mode not in known:
        raise InputError(f"mode = {mode!r}: needs one of {', '.join(known)} for a {'store' if is_store else 'load'}")
    return mode


def _build(tm: TensorMap, mode: str, arch: str | None, is_store: bool) -> Geometry:
    _check_bits(tm, arch)
    row, slices = tm.type_row, bool(tm.interleave)
    swizzle = assumed("tma.mode", _swizzle(tm, arch, mode, is_store=is_store))
    unit_bits = 128 * int(tm.interleave) if slices else row.bits
    shape, box = _shape(tm, unit_bits), _pixel_box(tm)
    if tm.call == "tiled":
        elements, rows = int(shape[2, 0]), math.prod(shape[2, 1:].tolist())
        rows = GATHERED_ROWS if mode in ("tile::gather4", "tile::scatter4") else rows
    else:
        # an interleaved pixel is one slice, whatever channels_per_pixel says
        elements = 1 if slices else tm.channels_per_pixel
        rows = LIMITS.wide_pixels if mode == "im2col::w::128" else tm.pixels_per_column
    row_bytes, chunk_bytes = elements * unit_bits // 8, CHUNK_BYTES.get(row.code, 16)
    chunks = -(-row_bytes // chunk_bytes)
    pitch = 16 * chunks if slices else assumed("tma.pitch", row_pitch(16 * chunks, swizzle.width), swizzle.swizzle, 16 * chunks)
    flip = int(swizzle.swizzle is Swizzle.B128_ATOM_32B_FLIP_8B)
    return Geometry(
        **box,
        mode=mode,
        swizzle=swizzle,
        shape=shape,
        layout=np.array([chunks, chunk_bytes, pitch, swizzle.mask, swizzle.shift, flip, unit_bits, int(slices), int(is_store)], np.int64),
        elements=elements,
        unit_bits=unit_bits,
        row_bytes=row_bytes,
        chunk_bytes=chunk_bytes,
        chunks=chunks,
        rows=rows,
        inner_multiple=_inner_multiple(tm, arch, is_store),
        is_far=sum(tm.global_strides) >> 30 > 0,
        to_tf32=row.to_tf32 and not is_store,
        fill=np.frombuffer(row.nan_fill if tm.oob_fill else bytes(max(row.itemsize, 1)), np.uint8),
    )


def _shape(tm: TensorMap, unit_bits: int) -> np.ndarray:
    """Dimensions, byte strides, tile and element strides (4 x 5), as `tma_loops` takes them."""
    rank, slices = tm.rank, bool(tm.interleave)
    shape = np.ones((4, 5), np.int64)
    shape[0, :rank] = tm.global_dim
    shape[1] = 0
    shape[1, 0], shape[1, 1:rank] = unit_bits // 8, tm.global_strides
    shape[3, :rank] = tm.element_strides
    if not slices:
        shape[3, 0] = 1  # dimension 0's element stride is ignored
    if tm.call == "tiled":
        shape[2, :rank] = [tile_size(box, step) for box, step in zip(tm.box_dim, tm.element_strides, strict=True)]
        if slices:
            shape[2, rank - 2] = 1  # one plane of channel slices at a time
        else:
            shape[2, 0] = tm.box_dim[0]
    return shape


def _pixel_box(tm: TensorMap) -> dict[str, Any]:
    """The spatial axes of an im2col walk, and the box its base pixel stays in."""
    box: dict[str, Any] = {"first": 0, "axes": 0, "lower": np.zeros(5, np.int64), "upper": np.zeros(5, np.int64)}
    if tm.call != "tiled":
        box["first"] = 0 if tm.interleave else 1
        box["axes"] = 1 if tm.is_im2col_wide else tm.rank - 2  # the wide modes walk W, then N
        for axis, (lower, upper) in enumerate(zip(*tm.pixel_box, strict=True)):
            i = box["first"] + axis
            box["lower"][i], box["upper"][i] = lower, tm.global_dim[i] + upper
    return box


def _inner_multiple(tm: TensorMap, arch: str | None, is_store: bool) -> int:
    row = tm.type_row
    if not row.swizzles:
        return 1
    return row.store_multiple if is_store and row.store_multiple and arch in (None, "sm_103a") else row.multiple


def _check_bits(tm: TensorMap, arch: str | None) -> None:
    """Raise Unmodelled for bits that the encoder does not write, unless they are known to have no effect."""
    if foreign := [name.lstrip("_") for name, grade in tm.unread_fields(arch).items() if grade is None]:
        raise Unmodelled(
            f"the map has bits in {', '.join(foreign)} that no known encoder writes; they do nothing on sm_90a, their effect on {arch} is not known"
        )


def _swizzle(tm: TensorMap, arch: str | None, mode: str, *, is_store: bool) -> SwizzleMode:
    mode_in_force, known = swizzle_in_force(tm, arch), SWIZZLE_ARCHITECTURES.get(tm.swizzle)
    if arch not in (None, "sm_90a") and known and arch not in known:
        raise InputError(f"swizzle = {tm.swizzle.name}: {arch} does not have it, {' and '.join(known)} do{'es' if len(known) == 1 else ''}")
    if mode_in_force.swizzle is Swizzle.B128_ATOM_32B_FLIP_8B and (is_store or mode.startswith("im2col::w")):
        raise Unmodelled(f"{tm.swizzle.name} in {mode} {'stores' if is_store else 'loads'}: the PTX ISA does not say that it exists there")
    return mode_in_force


# ---- Where hardware stops a tensor transfer: what is wrong with the map for this instruction, with the
# coordinates, with the addresses


def check_map(tm: TensorMap, g: Geometry, arch: str | None, *, is_store: bool) -> None:
    """Traps that come from the map alone; the answer for a map is kept with it."""
    known: dict[tuple[str, str | None, bool], MapTrap | None] = tm.__dict__.setdefault("_map_trap", {})
    key = (g.mode, arch, is_store)
    if key not in known:
        if g.mode in BLACKWELL_MODES and arch is not None and any_architecture(arch).instruction == "wgmma":
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
