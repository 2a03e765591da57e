"""The places of everything in tensor memory: lanes, columns and bits as plain arithmetic.

The formulas take whole numbers and arrays. Their constants are in `smemsim.core.spec.tensor_memory`; nothing here is
measured.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "a_column",
    "accumulator_cell",
    "accumulator_element",
    "cell_of_16x32bx2",
    "cell_of_16x64b",
    "cell_of_16x128b",
    "cell_of_16x256b",
    "cell_of_32x32b",
    "copy_lane",
    "metadata_bit",
    "metadata_element",
    "metadata_lane_and_bit",
    "metadata_row_and_k",
    "path_lane",
    "path_row",
    "register_of_16x32bx2",
    "register_of_16x64b",
    "register_of_16x128b",
    "register_of_16x256b",
    "register_of_32x32b",
    "scale_block_byte",
    "scale_cell",
    "scale_of_byte",
    "scale_row",
    "scale_slot",
    "shift_source",
    "window_lane",
]


Index = Any  # a whole number, or an array of them

# ---- what threads of a warp reach ------------------------------------------------------------------------------------


def window_lane(warp: Index, lane: Index) -> Index:
    """The lane at which a tcgen05.ld or .st of warp `warp` of the CTA begins when its address has `lane`: only bits 4:0
    of that count.

    >>> window_lane(1, 0), window_lane(1, 32), window_lane(6, 16), window_lane(6, 96)    # warps 1 and 6 reach lanes 32 to 63, 64 to 95
    (32, 32, 80, 64)
    """
    return warp % 4 * 32 + lane % 32


# ---- rows of D and A -------------------------------------------------------------------------------------------------


def path_lane(row: Index, band: Index, rows: int, block: int, first: int) -> Index:
    """Lane of row `row` of a CTA's `rows`, in band `band` of lanes; of every 32 lanes the rows take `block`, from lane
    `first` on.

    >>> path_lane(17, 0, 64, 16, 0), path_lane(17, 1, 64, 32, 0)    # layout F; layout B, upper half of N
    (33, 81)
    """
    return first + row % block + row // block * 32 + band * rows


def path_row(lane: Index, rows: int, block: int, first: int) -> tuple[Index, Index]:
    """(row, band) of a lane; row -1 where the lane holds none.

    >>> path_row(33, 64, 16, 0), path_row(16, 64, 16, 0)
    ((17, 0), (-1, 0))
    """
    inside, window = (lane - first) % 32, (lane - first) // 32
    packed = window * block + inside
    held = (inside < block) & (lane >= first)
    return held * (packed % rows + 1) - 1, packed // rows


def accumulator_cell(m: Index, n: Index, columns: int, rows: int, block: int, first: int) -> tuple[Index, Index, Index]:
    """(CTA of the pair, lane, column) of element (m, n) of D; N lies in bands of `columns` columns, each in its own
    lanes.

    >>> accumulator_cell(65, 100, 64, 64, 32, 0)    # layout B, N = 128: CTA 1, its row 1, upper half of N
    (1, 65, 36)
    """
    return m // rows, path_lane(m % rows, n // columns, rows, block, first), n % columns


def accumulator_element(
    cta: Index, lane: Index, column: Index, columns: int, rows: int, block: int, split: int, first: int
) -> tuple[Index, Index]:
    """(m, n) of the element of D in a cell; (-1, -1) where there is none.

    >>> accumulator_element(1, 65, 36, 64, 64, 32, 2, 0), accumulator_element(0, 16, 0, 8, 64, 16, 1, 0)
    ((65, 100), (-1, -1))
    """
    row, band = path_row(lane, rows, block, first)
    held = (row >= 0) & (band < split) & (column >= 0) & (column < columns)
    return held * (cta * rows + row + 1) - 1, held * (band * columns + column + 1) - 1


def a_column(k: Index, bits: int) -> tuple[Index, Index]:
    """(column, lowest bit) of element k of a row of A, whose elements have `bits` bits each in tensor memory.

    >>> a_column(5, 16)
    (2, 16)
    """
    return k * bits // 32, k * bits % 32


# ---- tcgen05.ld and tcgen05.st: thread t of a warp and its register to (lane, column), both counted from the address


def cell_of_32x32b(thread: Index, register: Index) -> tuple[Index, Index]:
    """Register i of thread t: lane t, column i."""
    return thread, register


def cell_of_16x64b(thread: Index, register: Index) -> tuple[Index, Index]:
    """Register i: lane 8 (t mod 2) + t / 4, column 2 i + t / 2 mod 2.

    >>> cell_of_16x64b(7, 0)
    (9, 1)
    """
    return 8 * (thread % 2) + thread // 4, 2 * register + thread // 2 % 2


def cell_of_16x128b(thread: Index, register: Index) -> tuple[Index, Index]:
    """Register 2 i + h: lane t / 4 + 8 h, column 4 i + t mod 4."""
    return thread // 4 + 8 * (register % 2), register // 2 * 4 + thread % 4


def cell_of_16x256b(thread: Index, register: Index) -> tuple[Index, Index]:
    """Register 4 i + 2 h + c: lane t / 4 + 8 h, column 8 i + 2 (t mod 4) + c."""
    return thread // 4 + 8 * (register // 2 % 2), register // 4 * 8 + 2 * (thread % 4) + register % 2


def cell_of_16x32bx2(thread: Index, register: Index) -> tuple[Index, Index]:
    """Register i: lane t mod 16, column i; threads 16 to 31 count from the address of the second access."""
    return thread % 16, register


def register_of_32x32b(lane: Index, column: Index) -> tuple[Index, Index]:
    """(thread, register) of a cell."""
    return lane, column


def register_of_16x64b(lane: Index, column: Index) -> tuple[Index, Index]:
    """(thread, register) of a cell.

    >>> register_of_16x64b(9, 1)
    (7, 0)
    """
    return lane // 8 + 2 * (column % 2) + 4 * (lane % 8), column // 2


def register_of_16x128b(lane: Index, column: Index) -> tuple[Index, Index]:
    """(thread, register) of a cell."""
    return lane % 8 * 4 + column % 4, column // 4 * 2 + lane // 8


def register_of_16x256b(lane: Index, column: Index) -> tuple[Index, Index]:
    """(thread, register) of a cell."""
    return lane % 8 * 4 + column % 8 // 2, column // 8 * 4 + lane // 8 * 2 + column % 2


def register_of_16x32bx2(lane: Index, column: Index) -> tuple[Index, Index]:
    """(thread, register) of a cell of the first access; those of the second belong to the thread 16 further."""
    return lane, column


# ---- tcgen05.cp, tcgen05.shift ---------------------------------------------------------------------------------------


def copy_lane(row: Index, copy: Index, run: int, run_step: int, copy_step: int) -> Index:
    """Lane that row `row` of the source goes to, for the `copy`-th time: runs of rows lie `run_step` lanes apart.

    >>> [copy_lane(40, copy, 32, 64, 32) for copy in (0, 1)]    # 64x128b.warpx2::01_23
    [72, 104]
    """
    return row % run + row // run * run_step + copy * copy_step


def shift_source(lane: Index, window: int) -> Index:
    """The lane whose contents lane `lane` has after a shift: the next one; the last of each window keeps its own.

    >>> shift_source(5, 32), shift_source(31, 32)
    (6, 31)
    """
    return lane + (lane % window < window - 1)


# ---- scale factors ---------------------------------------------------------------------------------------------------


def scale_block_byte(row: Index, index: Index) -> Index:
    """Byte of scale `index` (of 4) of row `row` in shared memory: blocks of 512 bytes for 128 rows, which
    32x128b.warpx4 copies.

    >>> scale_block_byte(33, 2)
    22
    """
    return row // 128 * 512 + row % 32 * 16 + row % 128 // 32 * 4 + index


def scale_of_byte(line: Index, byte: Index) -> tuple[Index, Index]:
    """(row, index) of the scale in a byte of a 16-byte line of those blocks; lines go on through the blocks, 32 to
    each.

    >>> scale_of_byte(1, 6), scale_of_byte(33, 0)
    ((33, 2), (129, 0))
    """
    return line % 32 + line // 32 * 128 + byte % 16 // 4 * 32, byte // 16 * 4 + byte % 4


def scale_cell(row: Index, copy: Index, band_rows: int) -> tuple[Index, Index]:
    """(lane, column) of the scales of row `row`, for the `copy`-th time; each band of rows has its own 64 lanes.

    >>> scale_cell(70, 3, 128), scale_cell(70, 1, 64)
    ((102, 2), (102, 0))
    """
    inside = row % band_rows
    return inside % 32 + row // band_rows * 64 + copy * 32, inside // 32


def scale_slot(scale_id: int, index: Index, rows: int) -> tuple[Index, Index]:
    """The place of scale `index` of a row whose first scale is byte `scale_id` of its cell. Returns (columns further,
    byte of the cell). The rows are those of the operand.

    Only the scales of K = 96 go past a cell. The next cell follows the first cells of all rows (4 columns for blocks of
    128 rows).

    >>> scale_slot(0, 3, 128), scale_slot(2, 3, 128), scale_slot(2, 3, 256)
    ((0, 3), (4, 1), (8, 1))
    """
    return (scale_id + index) // 4 * (-(-rows // 128) * 4), (scale_id + index) % 4


def scale_row(lane: Index, column: Index, band_rows: int, bands: int) -> tuple[Index, Index]:
    """(row, copy) whose scales a cell holds; (-1, -1) where it holds none.

    >>> scale_row(102, 0, 64, 2)
    (70, 1)
    """
    inside, band_lanes = column * 32 + lane % 32, 128 // bands
    held = (column >= 0) & (inside < band_rows)
    return held * (lane // band_lanes * band_rows + inside + 1) - 1, held * (lane % band_lanes // 32 + 1) - 1


# ---- sparsity metadata -----------------------------------------------------------------------------------------------


def metadata_lane_and_bit(m: Index, k: Index, k_extent: int, pair_bits: int) -> tuple[Index, Index]:
    """(lane, lowest bit) of logical element (m, k) where 16 rows share 8 lanes twice; `pair_bits` bits for two
    elements.

    >>> metadata_lane_and_bit(25, 20, 32, 2)    # kind f16: rows 17 and 25 share a cell, the second half of K is 8 lanes further
    (25, 20)
    """
    half = k_extent // 2
    return m % 8 + m // 16 * 16 + k // half * 8, m // 8 % 2 * 16 + k % half * pair_bits // 2


def metadata_row_and_k(lane: Index, bit: Index, k_extent: int, pair_bits: int) -> tuple[Index, Index]:
    """(m, k) of the first logical element that a bit belongs to, of the same organization.

    >>> metadata_row_and_k(25, 20, 32, 2)
    (25, 20)
    """
    return lane % 8 + lane // 16 * 16 + bit // 16 * 8, lane // 8 % 2 * (k_extent // 2) + bit % 16 * 2 // pair_bits


def metadata_bit(k: Index, pair_bits: int) -> tuple[Index, Index]:
    """(column, lowest bit) of logical element k where every row has its own lane.

    >>> metadata_bit(40, 2), metadata_bit(127, 1)
    ((1, 8), (1, 31))
    """
    return k * pair_bits // 2 // 32, k * pair_bits // 2 % 32


def metadata_element(column: Index, bit: Index, pair_bits: int) -> Index:
    """k of the first logical element that a bit belongs to, of the same organization.

    >>> metadata_element(1, 31, 1)
    126
    """
    return (column * 32 + bit) * 2 // pair_bits
