"""Tensor maps: arguments of the encode calls that are legal, and ones moved to an edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from smemsim.base.arguments import flag, whole
from smemsim.base.errors import InputError
from smemsim.core.finding import TensorMapError
from smemsim.core.spec.architectures import ARCHITECTURES, architecture
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.swizzles import MODES
from smemsim.core.spec.tensor_map import (
    DATA_TYPES,
    LIMITS,
    SWIZZLE_ARCHITECTURES,
    SWIZZLES,
    DataType,
    Interleave,
    L2Promotion,
    OobFill,
    TensorMapDataType,
    TensorMapSwizzle,
)
from smemsim.core.words.tensor_map import TensorMap
from smemsim.testing.strategies.descriptors import chosen

__all__ = ["encode_arguments", "mutated_tensor_maps", "tensor_maps", "tiled_loads"]


CALLS = ("tiled", "im2col")
Draw = Callable[[st.SearchStrategy[Any]], Any]
Arguments = dict[str, Any]

# Values on both sides of every bound of the driver, by argument.
EDGES: dict[str, tuple[int, ...]] = {
    "global_address": (0, 8, LIMITS.address_alignment, 24, 1 << 40, LIMITS.address_end, -16),
    "global_dim": (0, 1, LIMITS.max_usable_dim + 1, LIMITS.max_dim, LIMITS.max_dim + 1, -1),
    "global_strides": (0, 8, 16, LIMITS.max_stride - 15, LIMITS.max_stride + 1, -16),
    "box_dim": (0, 1, 2, 8, 31, 64, 128, LIMITS.max_box, LIMITS.max_box + 1, -1),
    "element_strides": (0, 1, LIMITS.max_element_stride, LIMITS.max_element_stride + 1, -1),
    "pixel_box_lower_corner": (-(1 << 15) - 1, -129, -17, -1, 0, 15, 16, 127, 128, 1 << 15),
    "pixel_box_upper_corner": (-(1 << 15) - 1, -129, -17, -1, 0, 15, 16, 127, 128, 1 << 15),
    "channels_per_pixel": (0, 1, 8, 64, LIMITS.max_box, LIMITS.max_box + 1, -1),
    "pixels_per_column": (0, 1, LIMITS.max_pixels_per_column, LIMITS.max_pixels_per_column + 1, -1),
}
CODES: dict[str, tuple[int, ...]] = {
    "data_type": tuple(range(-1, len(DATA_TYPES) + 1)),
    "interleave": (*map(int, Interleave), len(Interleave)),
    "swizzle": (*(int(code) for code in SWIZZLES if code < len(SWIZZLES)), len(SWIZZLES)),
    "l2_promotion": (*map(int, L2Promotion), len(L2Promotion)),
    "oob_fill": (*map(int, OobFill), len(OobFill)),
}


def _types(arch: str | None, values: Any, *, sub_byte: bool) -> tuple[str, ...]:
    rows = {row.code.name: row for row in DATA_TYPES.values() if (row.sm90 or arch != "sm_90a") and (sub_byte or row.itemsize)}
    return chosen("data_types", values, rows)


def _row(name: str) -> DataType:
    return DATA_TYPES[TensorMapDataType[name]]


def _swizzles(arch: str | None, values: Any) -> tuple[str, ...]:
    """Modes that an encode call takes: 96B is in no driver's enum."""
    of = [arch] if arch else list(ARCHITECTURES)
    known = [code.name for code in SWIZZLES if code < len(SWIZZLES) and any(one in SWIZZLE_ARCHITECTURES.get(code, of) for one in of)]
    return chosen("swizzles", values, known)


def _inner_chunks(name: str, itemsize: int) -> int:
    """16-byte chunks that a row of the box may have; 16 of them without swizzle, so that boxes stay small."""
    width = next(MODES[mode].width for code, mode in SWIZZLES.items() if code.name == name and mode in MODES)
    chunks = 16 if name == "SWIZZLE_NONE" else width // CHUNK
    return min(chunks, LIMITS.max_box * itemsize // CHUNK)


@st.composite
def _tiled(
    draw: Draw, types: tuple[str, ...], swizzles: tuple[str, ...], ranks: tuple[int, ...], chunks: int, inside: bool
) -> tuple[Arguments, tuple[int, ...], int]:
    """(arguments, coordinates, smem_address): rows apart in memory, box and tensor small, the box over an edge or, with
    `inside`, not below 0.
    """
    row = _row(draw(st.sampled_from(types)))
    swizzle = draw(st.sampled_from([name for name in swizzles if not row.swizzles or name in row.swizzles]))
    rank = draw(st.sampled_from(ranks))
    padded = row.multiple > 2  # 128 elements of 4 or 6 bits, with gaps in shared memory: one inner box
    chunk = row.multiple if padded else CHUNK * 8 // row.bits
    unit = LIMITS.address_alignment_32b if padded else LIMITS.address_alignment
    most = 1 if padded else _inner_chunks(swizzle, max(row.itemsize, 1))
    box = [chunk * draw(st.integers(1, max(1, min(most, LIMITS.max_box // chunk))))]
    multiple = row.multiple
    dim = [multiple * draw(st.integers(1, max(1, (2 * box[0] + 3) // multiple)))]
    strides: list[int] = []
    steps, left = [draw(st.integers(1, LIMITS.max_element_stride))], chunks // (box[0] // chunk)
    extent = dim[0] * row.bits // 8
    for _ in range(rank - 1):
        step = draw(st.integers(1, 3))
        rows = draw(st.integers(1, max(1, min(left, 9))))
        left //= rows
        box.append(draw(st.integers((rows - 1) * step + 1, rows * step)))
        steps.append(step)
        strides.append(-(-extent // unit) * unit + unit * draw(st.integers(0, 2)))
        dim.append(draw(st.integers(1, 5)))
        extent = strides[-1] * dim[-1]
    low = [0] * rank if inside else [-b for b in box]
    first = chunk * draw(st.integers(low[0] // chunk, dim[0] // chunk + 1))
    at = (first, *(draw(st.integers(low[i], dim[i] + 1)) for i in range(1, rank)))
    arguments = {
        "data_type": row.code.name,
        "global_address": unit * draw(st.integers(1 << 12, 1 << 30)),
        "global_dim": tuple(dim),
        "global_strides": tuple(strides),
        "box_dim": tuple(box),
        "element_strides": tuple(steps),
        "swizzle": swizzle,
        "l2_promotion": draw(st.integers(0, len(L2Promotion) - 1)),
        "oob_fill": draw(st.sampled_from(("zeros", "nan"))) if row.nan_fill else "zeros",
    }
    return arguments, at, LIMITS.smem_alignment * draw(st.integers(8, 64))


@st.composite
def _im2col(draw: Draw, types: tuple[str, ...], swizzles: tuple[str, ...], ranks: tuple[int, ...]) -> Arguments:
    """Arguments of cuTensorMapEncodeIm2col: pixels of a few images, corners near their edges."""
    row = _row(draw(st.sampled_from([name for name in types if _row(name).itemsize])))
    swizzle, rank = draw(st.sampled_from(swizzles)), draw(st.sampled_from([rank for rank in ranks if rank > 2]))
    chunk = CHUNK // row.itemsize
    channels = chunk * draw(st.integers(1, _inner_chunks(swizzle, row.itemsize)))
    dim = [draw(st.integers(1, 2 * channels)), *(draw(st.integers(1, 6)) for _ in range(rank - 1))]
    strides, extent = [], dim[0] * row.itemsize
    for size in dim[1:]:
        strides.append(
            -(-extent // LIMITS.address_alignment) * LIMITS.address_alignment + LIMITS.address_alignment * draw(st.integers(0, 1))
        )
        extent = strides[-1] * size
    pixels = dim[1:-1]
    lower = tuple(draw(st.integers(-2, size - 1)) for size in pixels)
    upper = tuple(draw(st.integers(low - size + 1, 2)) for low, size in zip(lower, pixels, strict=True))
    return {
        "data_type": row.code.name,
        "global_address": LIMITS.address_alignment * draw(st.integers(1 << 12, 1 << 30)),
        "global_dim": tuple(dim),
        "global_strides": tuple(strides),
        "pixel_box_lower_corner": lower,
        "pixel_box_upper_corner": upper,
        "channels_per_pixel": channels,
        "pixels_per_column": draw(st.integers(1, 64)),
        "element_strides": tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        "swizzle": swizzle,
        "l2_promotion": draw(st.integers(0, len(L2Promotion) - 1)),
        "oob_fill": draw(st.sampled_from(("zeros", "nan"))) if row.nan_fill else "zeros",
    }


def _ranks(values: Any) -> tuple[int, ...]:
    if values is None:
        return tuple(range(1, LIMITS.max_rank + 1))
    listed = tuple(whole("ranks", value, minimum=1) for value in (values if isinstance(values, (list, tuple, range)) else (values,)))
    if not listed or max(listed) > LIMITS.max_rank:
        raise InputError(f"ranks = {list(listed)}: tensor maps have 1 to {LIMITS.max_rank} dimensions")
    return listed


def _judged(arch: Any) -> str | None:
    return None if arch is None else architecture(arch).name


def tiled_loads(
    *,
    arch: str | None = None,
    data_types: Any = None,
    swizzles: Any = None,
    ranks: Any = None,
    most_chunks: int = 512,
    is_store: bool = False,
) -> st.SearchStrategy[tuple[Arguments, tuple[int, ...], int]]:
    """(arguments of cuTensorMapEncodeTiled, coordinates, smem_address) of a legal transfer, the box over an edge of the
    tensor or not.

    Element types have whole bytes; rows do not overlap; the box has at most `most_chunks` chunks of 16 B; a store
    (`is_store`) begins at no negative coordinate. InputError for names that do not exist.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(tiled_loads(arch="sm_90a", ranks=2))
    ... def law(drawn):
    ...     arguments, at, smem_address = drawn; assert len(at) == len(arguments["box_dim"]) == 2 and smem_address % 128 == 0
    >>> law()
    """
    name, chunks = _judged(arch), whole("most_chunks", most_chunks, minimum=1)
    return _tiled(_types(name, data_types, sub_byte=False), _swizzles(name, swizzles), _ranks(ranks), chunks, flag("is_store", is_store))


def encode_arguments(
    *, arch: str | None = None, calls: Any = None, data_types: Any = None, swizzles: Any = None, ranks: Any = None, most_chunks: int = 512
) -> st.SearchStrategy[Arguments]:
    """Legal keyword arguments of `TensorMap.tiled`, or of `TensorMap.im2col` if they have `channels_per_pixel`.

    `calls` is "tiled" or "im2col". `arch` is the architecture on which they are legal (None: any). Sub-byte types and
    swizzle atoms are drawn if it has them. Raises InputError for unknown names.
    """
    name, chunks = _judged(arch), whole("most_chunks", most_chunks, minimum=1)
    types, modes, some = _types(name, data_types, sub_byte=True), _swizzles(name, swizzles), _ranks(ranks)
    made = []
    for call in chosen("calls", calls, CALLS):
        if call == "tiled":
            made.append(_tiled(types, modes, some, chunks, False).map(lambda drawn: drawn[0]))
        elif max(some) > 2 and any(_row(name).itemsize for name in types):
            made.append(_im2col(types, modes, some))
    if not made:
        raise InputError("calls: im2col maps have 3 to 5 dimensions and elements of whole bytes")
    return st.one_of(made).filter(lambda arguments: _encoded(arguments, name) is not None)


def _encoded(arguments: Arguments, arch: str | None) -> TensorMap | None:
    try:
        return (TensorMap.im2col if "channels_per_pixel" in arguments else TensorMap.tiled)(**arguments, arch=arch)
    except TensorMapError:
        return None


def tensor_maps(
    *, arch: str | None = None, calls: Any = None, data_types: Any = None, swizzles: Any = None, ranks: Any = None, most_chunks: int = 512
) -> st.SearchStrategy[TensorMap]:
    """Tensor maps that the driver encodes, tiled and im2col; options as of `encode_arguments`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(tensor_maps(arch="sm_90a", calls="tiled", swizzles="SWIZZLE_128B"))
    ... def law(tm):
    ...     assert tm.box_dim[0] * tm.type_row.itemsize <= 128
    >>> law()
    """
    name = _judged(arch)
    drawn = encode_arguments(arch=arch, calls=calls, data_types=data_types, swizzles=swizzles, ranks=ranks, most_chunks=most_chunks)
    return drawn.map(lambda arguments: _encoded(arguments, name)).filter(lambda tm: tm is not None)  # type: ignore[return-value]


@st.composite
def _moved(draw: Draw, legal: st.SearchStrategy[Arguments], most: int) -> Arguments:
    arguments = dict(draw(legal))
    arguments |= {
        "data_type": int(TensorMapDataType[arguments["data_type"]]),
        "interleave": int(Interleave.INTERLEAVE_NONE),
        "swizzle": int(TensorMapSwizzle[arguments["swizzle"]]),
        "oob_fill": int(OobFill.NONE if arguments["oob_fill"] == "zeros" else OobFill.NAN_REQUEST_ZERO_FMA),
    }
    for name in draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=most, unique=True)):
        if name in CODES:
            arguments[name] = draw(st.sampled_from(CODES[name]))
            continue
        value, entries = draw(st.sampled_from(EDGES[name])), arguments[name]
        if isinstance(entries, int):
            arguments[name] = value
        elif entries:
            i = draw(st.integers(0, len(entries) - 1))
            arguments[name] = (*entries[:i], value, *entries[i + 1 :])
    return arguments


def mutated_tensor_maps(
    *, arch: str | None = None, calls: Any = None, most: int = 2, data_types: Any = None, swizzles: Any = None, ranks: Any = None
) -> st.SearchStrategy[Arguments]:
    """Arguments of an encode call of which 1 to `most` were moved to an edge of what the driver takes; some stay legal.

    They are no TensorMap because most have none: `TensorMap.tiled(**arguments)` (or `im2col`, where
    `channels_per_pixel` is among them) raises TensorMapError with the rules that they break. Enums are driver codes.
    Options as of `encode_arguments`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(mutated_tensor_maps(arch="sm_90a", calls="tiled"))
    ... def law(arguments):
    ...     try:
    ...         TensorMap.tiled(**arguments, arch="sm_90a")
    ...     except (TensorMapError, InputError) as e:
    ...         assert str(e)    # the sentences that a kernel author gets
    >>> law()
    """
    count = whole("most", most, minimum=1)
    return _moved(encode_arguments(arch=arch, calls=calls, data_types=data_types, swizzles=swizzles, ranks=ranks), count)
