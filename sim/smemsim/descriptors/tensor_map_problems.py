"""What is odd about a tensor map that the driver accepts. Every function is one question and yields findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from smemsim.addressing.tma import row_pitch, tile_size
from smemsim.descriptors.tensor_map_arguments import Arguments
from smemsim.descriptors.tensor_map_rule import Target
from smemsim.descriptors.tensor_map_rules import inner, inner_shown
from smemsim.spec.architectures import ARCHITECTURES
from smemsim.spec.disputes import ATOM_DISPUTES, PADDED_DISPUTE, WIDE_HALO_DISPUTE, WIDE_STEP_DISPUTE, Dispute
from smemsim.spec.findings import CODES, Finding, Severity
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.spec.tensor_map import LIMITS, SWIZZLES, WIDE_IS_IM2COL, Im2colWideMode, Interleave, TensorMapSwizzle

__all__ = ["problems"]

_SLICES = {Interleave.INTERLEAVE_16B: 16, Interleave.INTERLEAVE_32B: 32}


def problems(a: Arguments, at: Target) -> list[Finding]:
    """The findings of a map, for an architecture or for any of them; maps that break rules have those first (`broken_on`)."""
    return [finding for ask in _QUESTIONS for finding in ask(a, at)]


def _finding(code: str, where: str, message: str, repair: str, because: str, severity: Severity | None = None) -> Finding:
    return Finding(code, severity or CODES[code].severity, where, message, repair, because)


def _measured(at: Target, source: str, trace: str) -> str:
    """The source of a finding, with its trace where the map is for the architecture that was measured."""
    return f"{source}; measured on an H200, trace {trace}" if at.arch in (None, "sm_90a") else f"{source}; measured on sm_90a only"


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
        because = _measured(at, "no document says it", "tma_loads")
        if SWIZZLES[a.swizzle] is Swizzle.B96:
            because = "no document says it, and nothing of the 96B swizzle is measured"
        size = elements * row.bits // 8
        yield _finding(
            "T208",
            name.partition("[")[0],
            f"{inner_shown(a)} is narrower than the swizzle: rows lie {width} B apart in shared memory, {width - size} B between them stay "
            f"untouched, and the barrier counts {size} B a row",
            f"reserve {width} B a row, or make the inner extent {8 * width // row.bits} elements",
            because,
        )


def _disputed(a: Arguments, at: Target) -> Iterator[Finding]:
    """What only Blackwell has and sources disagree on: the model takes one of them, the finding names the other."""
    found: list[tuple[str, Dispute]] = []
    if a.swizzle in ATOM_DISPUTES:
        found.append(("swizzle", ATOM_DISPUTES[a.swizzle]))
    if a.type_row.swizzles and a.swizzle is TensorMapSwizzle.SWIZZLE_128B_ATOM_64B:
        found.append(("data_type", PADDED_DISPUTE))
    if a.mode is Im2colWideMode.W128 and at.arch not in WIDE_IS_IM2COL:
        found.append(("mode", WIDE_HALO_DISPUTE))
    if a.mode is not None and at.arch not in WIDE_IS_IM2COL and a.element_strides[-1] != 1:
        found.append(("element_strides", WIDE_STEP_DISPUTE))
    for where, dispute in found:
        yield _finding(
            "T205",
            where,
            f"sources disagree, and nothing of it is measured: here {dispute.takes}; {dispute.other}",
            "compare a small case on the device before relying on it",
            dispute.source,
            Severity.NOTE,
        )


def _wide_on_hopper(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.mode is not None and at.arch in WIDE_IS_IM2COL:
        yield _finding(
            "T205",
            "mode",
            f"mode = {a.mode.name}: Hopper has no im2col::w; driver 580 drops the mode and writes a plain im2col map with corners of 0 along H and D",
            "encode it with cuTensorMapEncodeIm2col, which says what it is",
            "cuTensorMapEncodeIm2colWide: compute capability 10.0 or higher; measured on an H200, trace encode_im2col_wide",
            Severity.LUCK,
        )


def _interleaved_swizzle(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.interleave is Interleave.INTERLEAVE_32B and a.swizzle is not TensorMapSwizzle.SWIZZLE_32B:
        yield _finding(
            "T205",
            "swizzle",
            f"swizzle = {a.swizzle.name} with INTERLEAVE_32B: driver 580 accepts it, the documents want SWIZZLE_32B; what transfers do is not known",
            "use SWIZZLE_32B",
            "cuTensorMapEncodeTiled: swizzle; accepted in trace encode_tiled",
            Severity.LUCK,
        )


def _huge_dimensions(a: Arguments, at: Target) -> Iterator[Finding]:
    for i, n in enumerate(a.global_dim):
        if n > LIMITS.max_usable_dim:
            yield _finding(
                "T205",
                f"global_dim[{i}]",
                f"global_dim[{i}] = {n}: the driver encodes up to 2^32, but every transfer with a dimension above 2^31 traps (CUDA error 715)",
                "split the tensor, or fold part of the dimension into another",
                _measured(at, "no document says it", "tma_loads_far"),
            )


def _null_address(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.global_address == 0:
        yield _finding(
            "T205",
            "global_address",
            "global_address = 0 is accepted, but no memory is there: a transfer that touches the tensor faults",
            "pass the tensor's address, or replace it (cuTensorMapReplaceAddress, tensormap.replace) before the first transfer",
            "accepted in trace encode_tiled; that nothing lies at address 0 is inferred",
        )


def _wider_stride(stride: int, span: int, size: int) -> str:
    """What to write instead of a stride that is too small; 0 is meant."""
    if stride == 0:
        return ""
    counted = "; strides are bytes, not elements" if size > 1 and stride * size >= span else ""
    return f"a dense tensor has at least {-(-span // 16) * 16} B{counted}"


def _overlap(a: Arguments, at: Target) -> Iterator[Finding]:
    """Dimensions sorted by their stride: each should step over all that the smaller ones span."""
    size = _element_bytes(a)
    row = a.global_dim[0] * size if size else -(-a.global_dim[0] * a.type_row.bits // 8)
    span, by_stride = row, sorted(zip(a.global_strides, range(1, a.rank), strict=True))
    for stride, i in by_stride:
        n = a.global_dim[i]
        if n > 1 and stride < span:
            what = f"all {n} entries are the same bytes" if stride == 0 else f"the dimensions of smaller stride span {span} B"
            yield _finding(
                "T205",
                f"global_strides[{i - 1}]",
                f"global_strides[{i - 1}] = {stride} B, the step of dimension {i}: {what}, so that elements can share bytes; loads read them twice, stores race",
                _wider_stride(stride, span, size),
                "cuTensorMapEncodeTiled: globalStrides, not enforced (trace encode_tiled)",
                Severity.NOTE,
            )
        span = max(span, (n - 1) * stride + span)


def _element_strides(a: Arguments, at: Target) -> Iterator[Finding]:
    if a.element_strides[0] != 1 and not a.interleave:
        name, n = inner(a)
        yield _finding(
            "T205",
            "element_strides[0]",
            f"element_strides[0] = {a.element_strides[0]} is ignored without interleave: all {n} elements of {name} are moved",
            "write 1; TMA does not stride along dimension 0",
            _measured(at, "cuTensorMapEncodeTiled: elementStrides", "tma_loads"),
            Severity.WRONG,
        )
    for i, (box, step) in enumerate(zip(a.box_dim, a.element_strides, strict=False)):
        if (i or a.interleave) and box % step:
            n = -(-box // step)
            yield _finding(
                "T205",
                f"box_dim[{i}]",
                f"box_dim[{i}] = {box} is no multiple of element_strides[{i}] = {step}: transfers move ceil({box} / {step}) = {n} elements, the last one too "
                "is tensor data, not fill",
                f"write {n * step} for {n} elements, or {box // step * step} for {box // step}" if box > step else f"write {n * step}",
                _measured(at, "cuTensorMapEncodeTiled: elementStrides", "tma_loads"),
                Severity.NOTE,
            )


def _too_large(a: Arguments, at: Target) -> Iterator[Finding]:
    """The driver counts floor(box / element stride), and dimension 0's stride, and no gaps; a transfer moves more."""
    if a.interleave or not a.type_row.itemsize:
        return
    elements, rows = _tile(a, at)
    row = elements * a.type_row.itemsize
    size = (rows - 1) * row_pitch(row, MODES[SWIZZLES[a.swizzle]].width) + row
    archs = [ARCHITECTURES[at.arch]] if at.arch else list(ARCHITECTURES.values())
    window = max(arch.shared_end - arch.shared_begin for arch in archs)
    if size > window:
        yield _finding(
            "T205",
            "box_dim" if a.box_dim else "pixels_per_column",
            f"a transfer covers {size} B of shared memory and no CTA's window has more than {window} B: it traps (CUDA error 700), "
            "although the driver accepts the map",
            "make the box smaller",
            _measured(at, "no document says it", "tma_load_traps"),
        )


def _one_direction(a: Arguments, at: Target) -> Iterator[Finding]:
    row = a.type_row
    if row.load_only:
        yield _finding(
            "T205", "data_type", f"data_type = {row.code.name} can be loaded, not stored", "", "PTX ISA 5.5.1.1, cuda.h", Severity.NOTE
        )
    if a.swizzle.name in row.store_only:
        message = f"swizzle = {a.swizzle.name} with {row.code.name} can be stored, not loaded"
        yield _finding("T205", "swizzle", message, "", "cuTensorMapEncodeTiled: swizzle", Severity.NOTE)
    _, elements = inner(a)
    if row.store_multiple and elements == row.store_multiple != row.multiple:
        message = f"{elements} elements of {row.code.name} a row can be stored on sm_103a, not loaded"
        yield _finding("T205", "box_dim", message, "", "PTX ISA 5.5.1.1", Severity.NOTE)


_QUESTIONS: tuple[Callable[[Arguments, Target], Iterator[Finding]], ...] = (
    _null_address,
    _wide_on_hopper,
    _huge_dimensions,
    _too_large,
    _interleaved_swizzle,
    _element_strides,
    _overlap,
    _narrow_rows,
    _one_direction,
    _disputed,
)
