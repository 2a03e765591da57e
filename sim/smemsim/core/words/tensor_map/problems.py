"""Suspicious facts about a tensor map that the driver accepts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

from smemsim.core.finding import Finding, in_word
from smemsim.core.layout.tma import row_pitch, tile_size
from smemsim.core.spec.architectures import ARCHITECTURES, MACHINES
from smemsim.core.spec.disputes import (
    ATOM_DISPUTES,
    GUIDE_SWIZZLED_ALIGNMENT,
    PADDED_DISPUTE,
    WIDE_HALO_DISPUTE,
    WIDE_STEP_DISPUTE,
    Dispute,
)
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tensor_map import LIMITS, SWIZZLES, WIDE_IS_IM2COL, Im2colWideMode, Interleave, TensorMapSwizzle
from smemsim.core.spec.transfers import ENCODE_CALLS
from smemsim.core.words.tensor_map.arguments import Arguments
from smemsim.core.words.tensor_map.bits import Encoded
from smemsim.core.words.tensor_map.rules import Target, inner, inner_shown
from smemsim.core.words.tensor_map.traps import map_traps

__all__ = ["box_beyond_tensor", "finding", "measured", "pixels_outside", "problems", "store_overrun", "walked"]


# ---- How findings of tensor maps are made: their severity, and what they rest on


finding = functools.partial(in_word, "tensor map")


def measured(at: Target, source: str, trace: str) -> str:
    """The source of a finding, with its trace; "measured" only for the architecture that was measured."""
    if at.arch in (None, "sm_90a"):
        return f"{source}; measured on an H200, trace {trace}"
    return f"{source}; measured on sm_90a only (trace {trace}), for {at.arch} inferred"


# ---- The edges of the tensor: fill in every load, and bytes that stores write past a row


def walked(a: Arguments) -> list[int]:
    """Dimensions of a tile that the box and the element strides count in: 0 with interleave only, and then not the
    planes of slices.
    """
    return [i for i in range(a.rank) if (i != a.rank - 2 if a.interleave else i)]


def store_overrun(a: Encoded, at: Target) -> Iterator[Finding]:
    """The bytes that stores write past the end, if stores work at all. With interleave rows are whole slices."""
    row = a.global_dim[0] * a.type_row.bits
    if a.interleave or row % 128 == 0 or a.is_im2col_wide or any(trap.stops(is_store=True) for trap in map_traps(a, at.arch)):
        return
    size = -(-row // 8)
    yield finding(
        "T216",
        "global_dim[0]",
        f"global_dim[0] = {a.global_dim[0]} x {a.type_row.bits} bit = {size} B is not a multiple of 16 B",
        f"no change is needed if nothing uses the {-size % 16} B after each row, and the allocation goes on for {-size % 16} B after the last row; "
        "or pad the rows; or store the end of each row by threads",
        measured(
            at,
            "PTX ISA 9.1 §5.5.4 says otherwise",
            "tma_stores",
        ),
        why=f"stores write whole chunks of 16 B: also the {-size % 16} B after each row. Loads are right",
        named=True,
    )


def box_beyond_tensor(a: Arguments, at: Target) -> Iterator[Finding]:
    """A box larger than the tensor, as small problems have them."""
    name, elements = inner(a)
    sides = {} if a.interleave else {0: (name, elements, 1)}
    if a.box_dim:
        sides |= {i: (f"box_dim[{i}]", a.box_dim[i], a.element_strides[i]) for i in walked(a)}
    for i, (where, box, step) in sides.items():
        moved, inside = tile_size(box, step), tile_size(a.global_dim[i], step)
        if moved > inside:
            yield finding(
                "T219",
                where,
                f"{where} = {box} is larger than global_dim[{i}] = {a.global_dim[i]}",
                f"no change is needed if the fill is intended; else make {where} smaller",
                measured(at, "PTX ISA 9.1 §5.5.4", "tma_loads" if a.box_dim else "tma_im2col"),
                why=f"at least {moved - inside} of {moved} elements of every load along dimension {i} are fill, and the mbarrier counts their bytes",
                named=True,
            )


def pixels_outside(a: Arguments, at: Target) -> Iterator[Finding]:
    """The pixels of an im2col walk that no offset brings inside, and columns longer than the walk."""
    if a.box_dim or (a.mode is not None and at.arch not in WIDE_IS_IM2COL):
        return
    pixels = inside = 1
    for axis, (low, high) in enumerate(zip(*a.pixel_box, strict=True), start=0 if a.interleave else 1):
        dim, step = a.global_dim[axis], a.element_strides[axis]
        steps = tile_size(max(dim + high - low, 1), step)
        pixels *= steps
        # Offsets only lead to the right: they bring a box that begins left of the image in, and nothing else.
        inside *= min(steps, tile_size(max(dim - max(low, 0), 0), step))
    if 2 * inside < pixels:
        yield finding(
            "T219",
            "pixel_box_lower_corner",
            f"at most {inside} of the {pixels} pixels that the pixel box visits in an image are in the tensor",
            "lower corner = -padding, upper corner = padding - (filter - 1) * dilation, W first",
            measured(at, "PTX ISA 9.1 §5.5.5", "tma_im2col"),
            why=f"with corners {', '.join(map(str, a.pixel_box))} all other pixels are fill, whatever the offsets",
        )
    total = pixels * tile_size(a.global_dim[-1], a.element_strides[-1])
    if a.pixels_per_column > total:
        yield finding(
            "T219",
            "pixels_per_column",
            f"pixels_per_column = {a.pixels_per_column} is larger than the {total} pixels of the tensor",
            "",
            measured(at, "PTX ISA 9.1 §5.5.5", "tma_im2col"),
            why=f"at least {a.pixels_per_column - total} pixels of each column are fill, and the mbarrier counts their bytes",
            named=True,
        )


# ---- What is odd about a tensor map that the driver accepts. Every function is one question and yields findings


_SLICES = {Interleave.INTERLEAVE_16B: 16, Interleave.INTERLEAVE_32B: 32}


def problems(tm: Encoded, at: Target) -> list[Finding]:
    """The findings of a map, for an architecture or for any of them; maps that break rules have those besides
    (`broken_on`).
    """
    if not tm.global_address and not tm.is_im2col_wide and not any(bytes(tm)):
        return [_all_zero(at)]
    return [found for ask in (_traps, *_QUESTIONS) for found in ask(tm, at)]


def _all_zero(at: Target) -> Finding:
    return finding(
        "T220",
        "raw",
        "all 128 bytes of the map are zero: every transfer traps (CUDA error 715)",
        "check the result of the encode call; pass the CUtensorMap by value (__grid_constant__), or fill the memory that holds it",
        measured(
            at, "cuTensorMapEncodeTiled: boxDim[0]; measured for loads whose row is no multiple of 16 B, inferred for stores", "tma_edited"
        ),
        why="the map was never encoded, or never copied to where the kernel reads it",
    )


def _traps(tm: Encoded, at: Target) -> Iterator[Finding]:
    """The traps of a map. One that stops all loads stops the kernel. One of stores alone does not concern a kernel that
    only loads.
    """
    for trap in map_traps(tm, at.arch):
        is_noted = trap.is_meant or trap.direction == "store"
        why = f"every {trap.direction} traps (CUDA error {trap.cuda_error})"
        because = measured(at, trap.source, ", ".join(trap.traces)) if trap.traces else f"{trap.source}; that it traps is inferred"
        yield finding("T218" if is_noted else "T212", trap.where, trap.reason, trap.repair, because, why=why, named=trap.named)


def _stale_tf32(tm: Encoded, at: Target) -> Iterator[Finding]:
    """On Hopper it is a trap."""
    if at.arch not in (None, "sm_90a") and "to_tf32" in tm.unknown_fields:
        yield finding(
            "T215",
            "data_type",
            f"the tf32 bit is set with {tm.data_type.name}",
            "begin with a map of another type than TFLOAT32",
            "trace tma_edited for sm_90a",
            why=f"tensormap.replace.tile.elemtype leaves the bit set: every load traps on sm_90a; for {at.arch} nothing is published",
        )


def _past_the_rank(tm: Encoded, at: Target) -> Iterator[Finding]:
    """Uses that no document and no program mentions, and that have one sensible reading."""
    if fields := [name for name, grade in tm.unread_fields(at.arch).items() if grade is Grade.INFERRED]:
        yield finding(
            "T215",
            "raw",
            f"the map has bits set in {', '.join(fields)}, which a map of {ENCODE_CALLS[tm.call]} of rank {tm.rank} does not use",
            "clear the 128 bytes before the map is encoded",
            f"no effect on sm_90a (measured: trace tma_edited); no effect on {at.arch} is inferred",
            why="smemsim takes these bits as ignored",
        )


def _element_bytes(a: Arguments) -> int:
    """Bytes of one element of dimension 0: with interleave it counts slices."""
    return _SLICES.get(a.interleave, a.type_row.itemsize)


def _tile(a: Arguments, at: Target) -> tuple[int, int]:
    """(elements of a row, rows) that a transfer moves, without interleave."""
    if a.box_dim:
        return a.box_dim[0], math.prod(tile_size(box, step) for box, step in zip(a.box_dim[1:], a.element_strides[1:], strict=True))
    fixed = a.mode is Im2colWideMode.W128 and at.arch not in WIDE_IS_IM2COL
    return a.channels_per_pixel, LIMITS.wide_pixels if fixed else a.pixels_per_column


def _narrow_rows(a: Arguments, at: Target) -> Iterator[Finding]:
    width, row = MODES[SWIZZLES[a.swizzle]].width, a.type_row
    if SWIZZLES[a.swizzle] is Swizzle.NONE or a.interleave or row.swizzles:
        return
    name, elements = inner(a)
    if 0 < elements * row.bits < 8 * width:
        because = measured(at, "no document says it", "tma_loads" if a.box_dim else "tma_im2col")
        if SWIZZLES[a.swizzle] is Swizzle.B96:
            because = "no document says it, and nothing of the 96B swizzle is measured"
        size = elements * row.bits // 8
        yield finding(
            "T208",
            name.partition("[")[0],
            f"{inner_shown(a)} is narrower than the swizzle of {width} B",
            f"{_fitting(a, size)}reserve {width} B a row; or make the inner extent {8 * width // row.bits} elements",
            because,
            why=f"rows are {width} B apart in shared memory; {width - size} B of each stay unwritten, and the mbarrier counts {size} B a row",
            named=True,
        )


def _fitting(a: Arguments, size: int) -> str:
    """A plain swizzle as wide as a row, in words; "" if there is none, or if the map has another order of chunks."""
    plain = (TensorMapSwizzle.SWIZZLE_32B, TensorMapSwizzle.SWIZZLE_64B, TensorMapSwizzle.SWIZZLE_128B)
    fits = [SWIZZLES[mode] for mode in plain if a.swizzle in plain and MODES[SWIZZLES[mode]].width == size]
    return "".join(f"swizzle = {mode}, here and in the descriptors; or " for mode in fits)


def _disputed(a: Arguments, at: Target) -> Iterator[Finding]:
    """Uses that only Blackwell has and sources disagree on. The model takes one source, and the finding names the
    other.
    """
    disputes: list[tuple[str, Dispute]] = []
    if a.swizzle in ATOM_DISPUTES:
        disputes.append(("swizzle", ATOM_DISPUTES[a.swizzle]))
    if a.type_row.swizzles and a.swizzle is TensorMapSwizzle.SWIZZLE_128B_ATOM_64B:
        disputes.append(("data_type", PADDED_DISPUTE))
    if a.mode is Im2colWideMode.W128 and at.arch not in WIDE_IS_IM2COL:
        disputes.append(("mode", WIDE_HALO_DISPUTE))
    if a.mode is not None and at.arch not in WIDE_IS_IM2COL and a.element_strides[-1] != 1:
        disputes.append(("element_strides", WIDE_STEP_DISPUTE))
    for where, dispute in disputes:
        message = f"sources disagree; smemsim takes: {dispute.takes}"
        fix = "compare a small case on the device before you rely on it"
        yield finding("T217", where, message, fix, dispute.source, why=f"{dispute.other}; nothing of it is measured")


def _wide_on_hopper(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.mode is not None and at.arch in WIDE_IS_IM2COL:
        yield finding(
            "T215",
            "mode",
            f"mode = {a.mode.name}; Hopper has no im2col::w",
            "encode the map with cuTensorMapEncodeIm2col",
            "cuTensorMapEncodeIm2colWide: compute capability 10.0 or higher; measured on an H200, trace encode_im2col_wide",
            why="driver 580 drops the mode and writes an im2col map with corners of 0 along H and D",
            named=True,
        )


def _interleaved_swizzle(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.interleave is Interleave.INTERLEAVE_32B and a.swizzle is not TensorMapSwizzle.SWIZZLE_32B:
        yield finding(
            "T215",
            "swizzle",
            f"swizzle = {a.swizzle.name} with INTERLEAVE_32B, for which cuda.h allows only SWIZZLE_32B",
            "swizzle = SWIZZLE_32B, and read shared memory with swizzle 32B",
            measured(at, "cuTensorMapEncodeTiled: swizzle", "encode_tiled, tma_interleave"),
            why=f"driver 580 accepts it, and transfers use {a.swizzle.name}; another driver may refuse it",
            named=True,
        )


def _guide_alignment(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.swizzle and a.global_address % GUIDE_SWIZZLED_ALIGNMENT:
        yield finding(
            "T217",
            "global_address",
            f"global_address = {a.global_address:#x} is not a multiple of {GUIDE_SWIZZLED_ALIGNMENT} B; the CUDA guide asks for that with a swizzle",
            f"no change is needed; a multiple of {GUIDE_SWIZZLED_ALIGNMENT} B removes the remark",
            measured(at, "CUDA guide, Table 12, against cuTensorMapEncodeTiled: globalAddress", "tma_loads"),
            why=f"the driver asks for {LIMITS.address_alignment} B only, and the swizzle does not depend on global addresses",
            named=True,
        )


def _null_address(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.global_address == 0:
        yield finding(
            "T221",
            "global_address",
            "global_address = 0 is a placeholder",
            "pass the tensor's address, or replace it (cuTensorMapReplaceAddress, tensormap.replace) before the first transfer",
            "accepted in trace encode_tiled; that no memory is at address 0 is inferred",
            why="the driver accepts it, but a transfer that touches the tensor faults (CUDA error 700)",
            named=True,
        )


LONG_SPAN = 1 << 36  # bytes that no tensor spans


def _wider_stride(stride: int, span: int, size: int) -> str:
    """The stride to write instead of one that is too small. A stride of 0 is intended."""
    if stride == 0:
        return ""
    counted = " (strides count bytes, not elements)" if size > 1 and stride * size >= span else ""
    return f"{-(-span // 16) * 16} B or more for a dense tensor{counted}"


def _counted_in_elements(a: Arguments, size: int) -> bool:
    """Are two strides or more those of a dense tensor, counted in elements? One alone may be meant: windows that
    overlap by half have such a stride.
    """
    dense = [math.prod(a.global_dim[:i]) for i in range(1, a.rank)]
    return size > 1 and a.rank > 2 and min(a.global_dim) > 1 and list(a.global_strides) == dense


def _row_bytes(a: Arguments) -> int:
    """The bytes of dimension 0."""
    size = _element_bytes(a)
    return a.global_dim[0] * size if size else -(-a.global_dim[0] * a.type_row.bits // 8)


def short_strides(a: Arguments) -> Iterator[tuple[int, int]]:
    """(dimension, bytes that the dimensions of smaller stride span) where a stride does not step over all of these, so
    that elements can share bytes.
    """
    span = _row_bytes(a)
    for stride, i in sorted(zip(a.global_strides, range(1, a.rank), strict=True)):
        n = a.global_dim[i]
        if n > 1 and stride < span:
            yield i, span
        span = max(span, (n - 1) * stride + span)


def _overlap(a: Arguments, at: Target) -> Iterator[Finding]:
    """Dimensions sorted by their stride: each should step over all that the smaller ones span."""
    size = _element_bytes(a)
    in_elements = _counted_in_elements(a, size)
    row = _row_bytes(a)
    for i, span in short_strides(a):
        stride = a.global_strides[i - 1]
        what = (
            f"0 B: all {a.global_dim[i]} entries of dimension {i} are the same bytes"
            if stride == 0
            else f"{stride} B, less than {f'a row (dimension 0), which has {span} B' if span == row else f'the {span} B of the dimensions with smaller strides'}"
        )
        why = "elements share bytes: loads read them twice, and stores race"
        yield finding(
            "T214",
            f"global_strides[{i - 1}]",
            f"global_strides[{i - 1}] = {what}",
            f"correct global_dim = {list(a.global_dim)} or global_strides = {list(a.global_strides)}"
            if span > LONG_SPAN
            else _wider_stride(stride, span, size),
            "cuTensorMapEncodeTiled: globalStrides, not enforced (trace encode_tiled)",
            Severity.LUCK if in_elements else None,
            why=why,
            named=True,
        )


def _ignored(a: Arguments, at: Target) -> Iterator[Finding]:
    name, n = inner(a)
    if a.element_strides[0] != 1 and not a.interleave:
        yield finding(
            "T213",
            "element_strides[0]",
            f"element_strides[0] = {a.element_strides[0]} has no effect without interleave",
            "element_strides[0] = 1",
            measured(at, "cuTensorMapEncodeTiled: elementStrides", "tma_loads" if a.box_dim else "tma_im2col"),
            why=f"TMA does not stride along dimension 0: all {n} elements of {name} are moved",
            named=True,
        )
    if a.interleave and a.rank >= 3 and a.box_dim and a.box_dim[-2] != 1:
        i = a.rank - 2
        yield finding(
            "T213",
            f"box_dim[{i}]",
            f"box_dim[{i}] = {a.box_dim[i]} has no effect with interleave",
            f"box_dim[{i}] = 1, and {a.box_dim[i]} transfers",
            measured(at, "no document says it", "tma_interleave"),
            why=f"a transfer moves 1 plane of slices (dimension {i}), and the mbarrier counts 1",
            named=True,
        )
    if a.interleave and not a.box_dim and n * a.type_row.bits != 8 * _element_bytes(a):
        size = _element_bytes(a)
        yield finding(
            "T213",
            "channels_per_pixel",
            f"{inner_shown(a)} has no effect with interleave",
            f"channels_per_pixel = {8 * size // a.type_row.bits}, the channels of a slice, and a transfer for each slice",
            measured(at, "no document says it", "tma_im2col_interleave"),
            Severity.NOTE,
            why=f"a pixel is one slice of {size} B, and the mbarrier counts {size} B a pixel",
            named=True,
        )


def _partial_steps(a: Arguments, at: Target) -> Iterator[Finding]:
    for i, (box, step) in enumerate(zip(a.box_dim, a.element_strides, strict=False)):
        if i in walked(a) and box % step:
            n = tile_size(box, step)
            yield finding(
                "T222",
                f"box_dim[{i}]",
                f"box_dim[{i}] = {box} is not a multiple of element_strides[{i}] = {step}",
                f"box_dim[{i}] = {n * step}, for {n} elements as now"
                + f"; or box_dim[{i}] = {box // step * step}, for {box // step} elements" * (box > step),
                measured(at, "cuTensorMapEncodeTiled: elementStrides", "tma_loads" if a.box_dim else "tma_im2col"),
                why=f"transfers move ceil({box} / {step}) = {n} elements, and all of them are data",
                named=True,
            )


def _too_large(a: Arguments, at: Target) -> Iterator[Finding]:
    """The driver counts floor(box / element stride), and dimension 0's stride, and no gaps; a transfer moves more."""
    if a.interleave or not a.type_row.itemsize:
        return
    elements, rows = _tile(a, at)
    row = elements * a.type_row.itemsize
    pitch = row_pitch(row, MODES[SWIZZLES[a.swizzle]].width)
    size = (rows - 1) * pitch + row
    archs = [MACHINES[at.arch]] if at.arch else list(ARCHITECTURES.values())
    window = max(arch.shared_end - arch.shared_begin for arch in archs)
    if size > window:
        yield finding(
            "T212",
            "box_dim" if a.box_dim else "pixels_per_column",
            f"the box takes {size} B of shared memory ({rows} rows of {pitch} B); a CTA has at most {window} B",
            f"a box of at most {window // pitch} rows",
            measured(at, "no document says it", "tma_load_traps"),
            why="every load traps (CUDA error 700), and so does every store unless enough of it is clipped",
        )


def _relaxed_stores(a: Arguments, at: Target) -> Iterator[Finding]:
    row = a.type_row
    if row.store_multiple and inner(a)[1] == row.store_multiple != row.multiple:
        message = f"rows of {row.store_multiple} {row.code.name} elements can be stored on sm_103a, but not loaded"
        yield finding("T218", "box_dim", message, f"rows of {row.multiple} elements for loads", "PTX ISA 9.1 §5.5.1.1")


_QUESTIONS: tuple[Callable[[Encoded, Target], Iterator[Finding]], ...] = (
    _stale_tf32,
    _past_the_rank,
    _too_large,
    _null_address,
    _wide_on_hopper,
    _interleaved_swizzle,
    _ignored,
    _partial_steps,
    _overlap,
    store_overrun,
    box_beyond_tensor,
    pixels_outside,
    _narrow_rows,
    _relaxed_stores,
    _guide_alignment,
    _disputed,
)
