"""The register and the thread of each element of wgmma and mma.sync: accumulator, A and B in registers, sparsity
metadata.

Threads are 0 to 127 of the warpgroup. Warp w has rows 16w to 16w + 15. Thread 4g + q of it has rows g and g + 8. An
*element* is one of a thread's elements, with the names of the PTX ISA (a0, a1 ..., d0, d1 ...). A register has 32 /
bits elements, from its low bits up. A *group* is four elements of K of a sparse A (two of tf32). A stores half of a
group. Four bits of metadata select the half.

An mma.sync holds A and D of its 8 or 16 rows like the first warp of a wgmma. It holds B as in `b_k` and `b_n`
(documented: PTX ISA 9.1 §9.7.14.5).

Measured (H200): traces wgmma_f32, wgmma_f16, wgmma_s32, wgmma_sparse. Documented: PTX ISA 9.1 §9.7.15.5.1.1,
9.7.15.6.2, in figures.
"""

from __future__ import annotations

__all__ = [
    "a_column",
    "a_element",
    "a_row",
    "a_thread",
    "b_k",
    "b_n",
    "d_column",
    "d_element",
    "d_row",
    "d_thread",
    "metadata_bit",
    "metadata_group",
    "metadata_row",
    "metadata_thread",
    "sparse_k",
]


def d_row(thread: int, element: int) -> int:
    """Row of D that `element` of `thread` is; f32, s32 and f16 alike, only that an f16 register has two elements.

    >>> [d_row(5, i) for i in range(6)]
    [1, 1, 9, 9, 1, 1]
    """
    return thread // 32 * 16 + thread % 32 // 4 + element // 2 % 2 * 8


def d_column(thread: int, element: int) -> int:
    """Column of D that `element` of `thread` is.

    >>> [d_column(5, i) for i in range(6)]
    [2, 3, 2, 3, 10, 11]
    """
    return element // 4 * 8 + thread % 4 * 2 + element % 2


def d_thread(row: int, column: int) -> int:
    """The thread that holds D[row, column].

    >>> d_thread(9, 10)
    5
    """
    return row // 16 * 32 + row % 8 * 4 + column % 8 // 2


def d_element(row: int, column: int) -> int:
    """Which of that thread's elements D[row, column] is: register d_element of f32 and s32, half d_element % 2 of
    d_element / 2 of f16.

    >>> d_element(9, 10)
    6
    """
    return column // 8 * 4 + row % 16 // 8 * 2 + column % 2


def a_row(thread: int, element: int, bits: int) -> int:
    """Row of A that `element` of `thread` is, for elements of `bits` bits: odd registers have the rows 8 further down.

    >>> [a_row(5, i, 16) for i in range(8)]
    [1, 1, 9, 9, 1, 1, 9, 9]
    """
    return thread // 32 * 16 + thread % 32 // 4 + element * bits // 32 % 2 * 8


def a_column(thread: int, element: int, bits: int) -> int:
    """The column of A, as it is stored, of `element` of `thread`. A sparse A counts stored elements (`sparse_k`).

    Registers 0 and 1 have the first 16 bytes of K, registers 2 and 3 the second. Thread q of 4 has 4 bytes of them.

    >>> [a_column(5, i, 16) for i in range(8)], [a_column(5, i, 32) for i in range(4)]
    ([2, 3, 2, 3, 10, 11, 10, 11], [1, 1, 5, 5])
    """
    per_register = 32 // bits
    return (element // per_register // 2 * 4 + thread % 4) * per_register + element % per_register


def a_thread(row: int, column: int, bits: int) -> int:
    """The thread that holds A[row, column] as stored.

    >>> a_thread(9, 10, 16)
    5
    """
    return row // 16 * 32 + row % 8 * 4 + column * bits // 32 % 4


def a_element(row: int, column: int, bits: int) -> int:
    """Which of that thread's elements A[row, column] is.

    >>> a_element(9, 10, 16)
    6
    """
    per_register = 32 // bits
    return (column // (4 * per_register) * 2 + row % 16 // 8) * per_register + column % per_register


def b_k(thread: int, element: int, bits: int) -> int:
    """K of the element of B that `element` of `thread` is in mma.sync; 64-bit elements, which fill their registers,
    count as 32 bits.

    >>> [b_k(5, i, 16) for i in range(4)], [b_k(5, i, 8) for i in (0, 4)]
    ([2, 3, 10, 11], [4, 20])
    """
    per_register = 32 // bits
    return (element // per_register * 4 + thread % 4) * per_register + element % per_register


def b_n(thread: int) -> int:
    """N of all elements of B that `thread` holds in mma.sync.

    >>> b_n(5)
    1
    """
    return thread % 32 // 4


def metadata_thread(row: int, group: int, groups: int, selector: int, bits: int = 16) -> int:
    """The thread whose metadata register has the four bits of `group` in `row`. A row has `groups`: 8, or 16 for 8-bit
    types, or 4 in mma.sp.

    With 4 groups one thread of four, the selector's, has those of two rows. With 8 groups threads 0 and 1 (2 and 3 with
    sp-sel 1) have four each, of two rows. With 8 groups of 8-bit and 4-bit elements in mma.sp (`bits`) two threads, the
    selector's, have eight of one row. With 16 groups every thread has eight of one row.

    Measured (H200): trace launches, kernels mma_hard_s8 and mma_hard_s4.

    >>> metadata_thread(9, 5, 8, 0), metadata_thread(9, 5, 8, 1), metadata_thread(9, 5, 16, 0), metadata_thread(9, 3, 4, 2)
    (5, 7, 5, 6)
    """
    if groups == 16:
        return row // 16 * 32 + row % 8 * 4 + group // 8 * 2 + row % 16 // 8
    if groups == 4:
        return row // 16 * 32 + row % 8 * 4 + selector
    if bits <= 8:
        return row // 16 * 32 + row % 8 * 4 + selector * 2 + row % 16 // 8
    return row // 16 * 32 + row % 8 * 4 + selector * 2 + group // 4


def metadata_bit(row: int, group: int, groups: int, bits: int = 16) -> int:
    """The lowest of the four bits of `group` in `row`, in the register of `metadata_thread`.

    >>> metadata_bit(9, 5, 8), metadata_bit(9, 5, 16)
    (20, 20)
    """
    if groups == 16 or bits <= 8:
        return group % 8 * 4
    return row % 16 // 8 * 16 + group % 4 * 4


def metadata_row(thread: int, bit: int, groups: int, bits: int = 16) -> int:
    """The row of bit `bit` of a thread's metadata, if the selector includes this thread.

    >>> metadata_row(5, 20, 8), metadata_row(5, 20, 16)
    (9, 9)
    """
    below = thread % 2 if groups == 16 or bits <= 8 else bit // 16
    return thread // 32 * 16 + thread % 32 // 4 + 8 * below


def metadata_group(thread: int, bit: int, groups: int, bits: int = 16) -> int:
    """The group of K of bit `bit` of a thread's metadata, if the selector includes this thread.

    >>> metadata_group(5, 20, 8), metadata_group(5, 20, 16)
    (5, 5)
    """
    if groups == 16:
        return thread % 4 // 2 * 8 + bit // 4
    if bits <= 8:
        return bit // 4
    return thread % 2 * 4 + bit % 16 // 4


def sparse_k(stored: int, metadata: int) -> int:
    """The K of stored element `stored` of a row of a sparse A, from the four bits `metadata` of its group.

    K is 4 * (stored / 2) + index of stored % 2. The lower two bits are the index of the first element, the upper two
    that of the second.

    A tf32 counts as two elements, its 16-bit halves. Metadata 0b0100 names both halves of the first of two tf32, 0b1110
    those of the second. The stored element multiplies the element of B at that K. Metadata that the PTX ISA calls
    invalid does the same. Then two elements may multiply the same one. A tf32 multiplies the two halves of B that it
    names, together. Measured (H200): trace wgmma_metadata.

    >>> sparse_k(6, 0b1001), sparse_k(7, 0b1001), sparse_k(6, 0b0000), sparse_k(7, 0b0000)
    (13, 14, 12, 12)
    """
    return stored // 2 * 4 + (metadata >> stored % 2 * 2 & 3)
