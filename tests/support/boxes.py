"""Tensor transfers of every mode, small: placement by the tables of the PTX ISA, maps, and a model that walks byte by
byte.
"""

import dataclasses
import itertools
import math

import numpy as np
from hypothesis import strategies as st

from smemsim import TensorMap, tensormap_replace

KINDS = ("tile", "interleaved", "im2col", "im2col interleaved", "gather", "im2col::w", "im2col::w::128")
BASE = 0x10000
CELLS = {  # PTX ISA 9.1 §5.5.7: line l of 128 bytes, cell x of 16 bytes -> the 16-byte chunk of that line's data it holds
    "none": ["01234567"],
    "32B": ["01234567", "10325476"],
    "64B": ["01234567", "10325476", "23016745", "32107654"],
    "128B": ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    "96B": ["01234567", "10325476"],
    "128B_ATOM_32B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_32B_FLIP_8B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_64B": ["01234567", "45670123"],
}
WIDTH = {"none": 0, "32B": 32, "64B": 64, "96B": 96} | dict.fromkeys(list(CELLS)[3:4] + list(CELLS)[5:], 128)
BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "bf16": 16, "f32": 32, "16U4_ALIGN8B": 4, "16U4_ALIGN16B": 4, "16U6_ALIGN16B": 6}
DATA_BYTES = {"16U4_ALIGN16B": 8, "16U6_ALIGN16B": 12}  # of each 16 bytes of shared memory


def place(linear, swizzle):
    """The shared address of a byte, by the table; the 8-byte flip swaps the halves of each chunk on odd lines."""
    line, inside = divmod(linear, 128)
    cells = CELLS[swizzle][line % len(CELLS[swizzle])]
    flip = 8 if swizzle.endswith("FLIP_8B") and line % 2 else 0
    return 128 * line + 16 * cells.index(str(inside // 16)) + inside % 16 ^ flip


def tiled(swizzle="none", **arguments):
    """A tiled map; 96B, which no encode call has, by tensormap.replace."""
    inner = arguments.setdefault("global_dim", (128, 64))[0]
    given_ = {"data_type": "u8", "global_address": BASE, "global_strides": (inner,), "box_dim": (inner, 8)} | arguments
    if swizzle != "96B":
        return TensorMap.tiled(**given_, swizzle=swizzle)
    return TensorMap.from_bytes(tensormap_replace(bytes(TensorMap.tiled(**given_)), "swizzle_mode", 4, arch="sm_103a"))


def image(transfer):
    """shared address -> global byte, counted from the tensor's first; -1 is fill."""
    at = np.where(transfer.global_address < 0, -1, transfer.global_address - transfer.tensor_map.global_address)
    return dict(zip(transfer.shared_address.tolist(), at.tolist(), strict=True))


def im2col(dims, *, lower, upper, channels, count, steps=None, data_type="u8", **changes):
    size = BITS[data_type] // 8
    strides = tuple(size * math.prod(dims[:i]) for i in range(1, len(dims)))
    return TensorMap.im2col(data_type=data_type, global_address=BASE, global_dim=dims, global_strides=strides, pixel_box_lower_corner=lower,
                            pixel_box_upper_corner=upper, channels_per_pixel=channels, pixels_per_column=count,
                            element_strides=steps or (1,) * len(dims), **changes)  # fmt: skip


def wide(dims, *, lower, upper, channels=64, count=128, steps=None, mode="W", **changes):
    strides = tuple(2 * math.prod(dims[:i]) for i in range(1, len(dims)))
    return TensorMap.im2col_wide(data_type="bf16", global_address=BASE, global_dim=dims, global_strides=strides,
                                 pixel_box_lower_corner_width=lower, pixel_box_upper_corner_width=upper, channels_per_pixel=channels,
                                 pixels_per_column=count, element_strides=steps or (1,) * len(dims), mode=mode, **changes)  # fmt: skip


# ---- a model of every mode that walks byte by byte ---------------------------------------------------------------------------------


def sweep(spans, start=None):
    """Pixels of one image, W fastest, from `start` on: after the first pass every axis begins at its lower end."""
    if not spans:
        yield ()
        return
    *inner, (low, high, step) = spans
    for i, p in enumerate(range(low if start is None else start[-1], high, step)):
        for rest in sweep(inner, start[:-1] if start is not None and i == 0 else None):
            yield (*rest, p)


def column(spans, start, image, image_step, count):
    """The first `count` of all images' pixels as (W, …, N)."""
    found = []
    while len(found) < count:
        found += [(*p, image) for p in sweep(spans, start)]
        image, start = image + image_step, None
    return found[:count]


@dataclasses.dataclass
class Box:
    """A legal transfer: the map, the instruction's arguments, and the coordinates at which each row of the box begins."""

    tm: TensorMap
    at: tuple
    rows: list
    elements: int  # or slices, of a row
    bits: int  # of one of them
    swizzle: str
    options: dict = dataclasses.field(default_factory=dict)
    step: int = 1  # element stride of dimension 0
    data: int = 16  # bytes of global memory in 16 of shared memory

    @property
    def row_bytes(self):
        return self.elements * self.bits // 8

    @property
    def pitch(self):
        return WIDTH[self.swizzle] if WIDTH[self.swizzle] and not self.tm.interleave else self.row_bytes // self.data * 16

    def model(self, smem_address, is_store=False):
        """(shared address, global address or -1) of every byte of the dense box, in order; of a store only those it
        moves.
        """
        dims, strides, out = self.tm.global_dim, self.tm.global_strides, []
        walked = self.tm.is_im2col and bool(self.tm.interleave)
        for n, row in enumerate(self.rows):
            inside = all(0 <= c < d for c, d in zip(row[1:], dims[1:], strict=True)) and (not walked or 0 <= row[0] < dims[0])
            line = self.tm.global_address + sum(c * s for c, s in zip(row[1:], strides, strict=True))
            for q in range(self.row_bytes):
                shared = place(smem_address + n * self.pitch + q // self.data * 16 + q % self.data, self.swizzle)
                if self.tm.interleave:
                    piece, byte = divmod(q, self.bits // 8)
                    c0 = row[0] + piece * self.step
                    at, known = c0 * self.bits // 8 + byte, 0 <= c0 < dims[0]
                else:
                    at = row[0] * self.bits // 8 + q
                    known = 0 <= (at // 16 * 16 if is_store and self.data == 16 else at) < dims[0] * self.bits // 8
                if inside and known:
                    out.append((shared, line + at))
                elif not is_store:
                    out.append((shared, -1))
        return out


def tile_rows(at, tile, steps):
    counts = [range(n) for n in tile[:0:-1]]
    return [(at[0], *(c + j * s for c, j, s in zip(at[1:], js[::-1], steps[1:], strict=True))) for js in itertools.product(*counts)]


@st.composite
def boxes(draw, kinds=KINDS, is_store=False, data_types=tuple(BITS)):
    """Any legal transfer of a kind, small, over an edge of its tensor or not."""
    kind = draw(st.sampled_from(kinds))
    sliced, walks = "interleaved" in kind, "im2col" in kind
    if sliced:
        return draw(interleaved_boxes(walks=walks, is_store=is_store))
    data_type = draw(
        st.sampled_from([t for t in data_types if not (is_store and t == "16U4_ALIGN16B") and not ("::" in kind and walks and BITS[t] < 8)])
    )
    bits, data = BITS[data_type], DATA_BYTES.get(data_type, 16)
    padded = data < 16
    legal = ["none", "128B", "128B_ATOM_32B"] if padded else [s for s in CELLS if not (is_store and "FLIP" in s)]
    if walks:
        legal = [s for s in legal if s != "96B"]  # tensormap.replace only changes tiled maps here
    if walks and "::" in kind:
        legal = ["64B", "128B", "128B_ATOM_32B"]
    swizzle = draw(st.sampled_from(legal))
    chunk = 128 if padded else 128 // bits  # elements at which a box may begin
    inner = 128 if padded else chunk * draw(st.integers(1, 2 if "::" in kind else min((WIDTH[swizzle] or 160) // 16, 256 // chunk)))
    rank = {"gather": 2}.get(kind) or draw(st.integers(3, 5) if walks else st.integers(1, 4))
    multiple = 128 if padded else 2 if bits == 4 else 1
    whole = kind == "tile" and draw(st.booleans())
    dims = [inner] if whole else [multiple * draw(st.integers(1, max(1, 2 * inner // multiple)))]
    strides, unit, extent = [], 32 if padded else 16, dims[0] * bits // 8
    steps = [draw(st.integers(1, 3)) for _ in range(rank)]
    for _ in range(rank - 1):
        strides.append(-(-extent // unit) * unit + unit * draw(st.integers(0, 1)))
        dims.append(draw(st.integers(10 if whole else 1, 10 if whole else 6)))
        extent = strides[-1] * dims[-1]
    low = 0 if is_store else -inner
    c0 = 0 if whole else chunk * draw(st.integers(-(-low // chunk), dims[0] // chunk))
    shape = {"data_type": data_type, "global_address": BASE, "global_dim": dims, "global_strides": strides, "element_strides": steps}
    made = {"inner": inner, "bits": bits, "swizzle": swizzle, "data": data}
    if kind == "gather":
        return gathered(draw, shape, c0, is_store=is_store, **made)
    if walks:
        walked = walked_wide if "::" in kind else walked_plain
        return walked(draw, shape, c0, kind=kind, is_store=is_store, **made)
    tile = [inner, *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    box = [inner, *(draw(st.integers((n - 1) * s + 1, n * s)) for n, s in zip(tile[1:], steps[1:], strict=True))]
    tm = tiled(swizzle, **shape, box_dim=box)
    at = (c0, *(draw(st.integers(0 if is_store or whole else -b, 0 if whole else d)) for b, d in zip(box[1:], dims[1:], strict=True)))
    return Box(tm, at, tile_rows(at, tile, steps), inner, bits, swizzle, data=data)


def gathered(draw, shape, c0, *, inner, bits, swizzle, data, is_store):
    """Four rows by their numbers."""
    rows = shape["global_dim"][1]
    named = [draw(st.integers(0 if is_store else -2, rows + 1)) for _ in range(4)]
    if is_store:
        named = [r if named.index(r) == i else rows + i for i, r in enumerate(named)]
    tm, mode = tiled(swizzle, **shape, box_dim=(inner, 1)), "tile::scatter4" if is_store else "tile::gather4"
    return Box(tm, (c0, *named), [(c0, r) for r in named], inner, bits, swizzle, {"mode": mode}, data=data)


def corners(draw, shape, axes, is_store):
    """Lower and upper corners of a bounding box of `axes` dimensions, the pixels it spans, and one of them to start at."""
    dims, steps = shape["global_dim"], shape["element_strides"]
    lower = [draw(st.integers(0 if is_store else -2, d - 1)) for d in dims[1 : 1 + axes]]
    upper = [draw(st.integers(low - d + 1, 0 if is_store else 2)) for low, d in zip(lower, dims[1 : 1 + axes], strict=True)]
    spans = [(a, d + b, s) for a, b, d, s in zip(lower, upper, dims[1:], steps[1:], strict=False)]
    return lower, upper, spans, tuple(draw(st.integers(a, b - 1)) for a, b, _ in spans)


def walked_plain(draw, shape, c0, *, kind, inner, bits, swizzle, data, is_store):
    """Pixels of im2col."""
    steps, axes = shape["element_strides"], len(shape["global_dim"]) - 2
    lower, upper, spans, start = corners(draw, shape, axes, is_store)
    first_image, count = draw(st.integers(0, shape["global_dim"][-1])), draw(st.integers(1, 24))
    tm = TensorMap.im2col(**shape, channels_per_pixel=inner, pixels_per_column=count, swizzle=swizzle, pixel_box_lower_corner=lower,
                          pixel_box_upper_corner=upper)  # fmt: skip
    offsets = tuple(draw(st.integers(0, 3)) for _ in range(axes)) if not is_store else (0,) * axes
    pixels = column(spans, start, first_image, steps[-1], count)
    rows = [(c0, *(p + o for p, o in zip(pixel[:-1], offsets, strict=True)), pixel[-1]) for pixel in pixels]
    return Box(tm, (c0, *start, first_image), rows, inner, bits, swizzle, {} if is_store else {"im2col_offsets": offsets}, data=data)


def walked_wide(draw, shape, c0, *, kind, inner, bits, swizzle, data, is_store):
    """Pixels of im2col::w and im2col::w::128."""
    dims, by_128 = shape["global_dim"], "128" in kind
    lower, upper, spans, start = corners(draw, shape, 1, is_store)
    first_image, count = draw(st.integers(0, dims[-1])), draw(st.integers(1, 24))
    steps = [*shape["element_strides"][:-1], 1]  # that of N: the PTX ISA only speaks of W
    tm = TensorMap.im2col_wide(**shape | {"element_strides": steps}, channels_per_pixel=inner, pixels_per_column=count, swizzle=swizzle,
                               pixel_box_lower_corner_width=lower[0], pixel_box_upper_corner_width=upper[0], mode="W128" if by_128 else "W")  # fmt: skip
    halo, moved = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    start = (start[0] - draw(st.integers(0, 2)),)  # the first pixel may lie left of the box
    fixed = tuple(draw(st.integers(-1, d)) for d in dims[2:-1])
    spans = [(spans[0][0] + moved, spans[0][1] + moved, spans[0][2])]
    walk = column(spans, (start[0] + moved,), first_image, 1, (128 if by_128 else count) + halo)
    if by_128:
        walk = [p for i in range(0, 128, 32) for p in walk[i : i + 32 + halo]]
    rows = [(c0, w, *fixed, n) for w, n in walk]
    return Box(tm, (c0, *start, *fixed, first_image), rows, inner, bits, swizzle, {"im2col_offsets": (halo, moved)})


@st.composite
def interleaved_boxes(draw, *, walks, is_store):
    """Slices of 16 or 32 bytes: dimensions are W, …, C (in slices), N."""
    size, rank = draw(st.sampled_from((16, 32))), draw(st.integers(3, 5))
    swizzle = draw(st.sampled_from(("none", "32B", "64B", "128B")))
    whole = not walks and draw(st.booleans())
    dims = [48 if whole else draw(st.integers(1, 12)), *(5 if whole else draw(st.integers(1, 5)) for _ in range(rank - 1))]
    steps = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides, extent = [], dims[0] * size
    for d in dims[1:]:
        strides.append(extent + size * draw(st.integers(0, 1)))
        extent = strides[-1] * d
    shape = {"data_type": "u64", "global_address": BASE, "global_dim": dims, "global_strides": strides, "element_strides": steps,
             "interleave": f"{size}B", "swizzle": swizzle}  # fmt: skip
    if not walks:
        box = [2 * draw(st.integers(1, 8)), *(draw(st.integers(1, 3)) for _ in range(rank - 1))]
        tile = [-(-b // s) for b, s in zip(box, steps, strict=True)]
        tile[rank - 2] = 1
        at = tuple(draw(st.integers(0 if is_store or whole else -2, 0 if whole else d)) for d in dims)
        return Box(TensorMap.tiled(**shape, box_dim=box), at, tile_rows(at, tile, steps), tile[0], 8 * size, swizzle, step=steps[0])
    axes = rank - 2
    lower = [draw(st.integers(0 if is_store else -2, min(d - 1, 6))) for d in dims[:axes]]
    upper = [draw(st.integers(a - d + 1, 0 if is_store else 2)) for a, d in zip(lower, dims, strict=False)]
    spans = [(a, d + b, s) for a, b, d, s in zip(lower, upper, dims, steps, strict=False)]
    start, count = tuple(draw(st.integers(a, b - 1)) for a, b, _ in spans), draw(st.integers(1, 24))
    c, n = draw(st.integers(0 if is_store else -1, dims[-2])), draw(st.integers(0, dims[-1]))
    offsets = tuple(draw(st.integers(0, 3)) for _ in range(axes)) if not is_store else (0,) * axes
    tm = TensorMap.im2col(
        **shape, pixel_box_lower_corner=lower, pixel_box_upper_corner=upper, channels_per_pixel=2, pixels_per_column=count
    )
    rows = [(*(p + o for p, o in zip(w[:-1], offsets, strict=True)), c, w[-1]) for w in column(spans, start, n, steps[-1], count)]
    return Box(tm, (*start, c, n), rows, 1, 8 * size, swizzle, {} if is_store else {"im2col_offsets": offsets}, step=steps[0])
