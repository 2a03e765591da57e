"""wgmma: what one instruction reads, computes and writes, and many of one kind at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smemsim.arguments import choice, flag, in_steps, shown, whole
from smemsim.arithmetic.multiply import Options, multiply, multiply_tiles, row_of
from smemsim.errors import InputError
from smemsim.layout import fragments
from smemsim.machine.memory import SharedMemory
from smemsim.machine.product import MmaOperand, MmaResult, from_shared, halves, shared_grade
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import Grade
from smemsim.spec.formats import element_format
from smemsim.spec.wgmma import A_REGISTERS, WGMMA_M, WGMMA_THREADS, WGMMA_TYPES, WgmmaTypes
from smemsim.words.smem import SmemDescriptor

__all__ = ["a_places", "check_immediates", "d_places", "kind_of", "types_of", "wgmma", "wgmma_many", "wgmma_registers"]


# ---- `wgmma`: one wgmma.mma_async of a warpgroup, from registers to registers, every term known by address and by tensor coordinate


REGISTER_BITS = 32


def wgmma(
    shared: SharedMemory,
    a: int | SmemDescriptor | np.ndarray,
    b: int | SmemDescriptor,
    *,
    n: int,
    a_type: str,
    b_type: str | None = None,
    d_type: str = "f32",
    d: np.ndarray | None = None,
    scale_d: bool = True,
    imm_scale_a: int = 1,
    imm_scale_b: int = 1,
    a_major: str = "K",
    b_major: str = "K",
    metadata: np.ndarray | None = None,
    sparsity_selector: int = 0,
    satfinite: bool = False,
) -> MmaResult:
    """`wgmma.mma_async.m64nNkK`: D = A * B + D, with A from shared memory or registers, B from shared memory.

    `a` is a descriptor, or the registers of A, uint32 (128 threads, 4). `d` holds the accumulator's registers before, uint32 (128, N / 2),
    for f16 (128, N / 4); None is zeros; `wgmma_registers(result)` are those after. `metadata` uint32 (128,) makes it wgmma.mma_async.sp.
    `imm_scale_a`, `imm_scale_b` are 1 or -1; `scale_d` False leaves D out; `a_major`, `b_major` "MN" are imm-trans.

    Which elements are multiplied is measured (H200): traces wgmma_f32, wgmma_f16, wgmma_s32, wgmma_sparse, wgmma_operands. What they come to
    is measured too, bit for bit: traces wgmma_dots_f32, wgmma_dots_f16, wgmma_dots_s32. `result.certain` is False where D depends on what
    nobody wrote; `result.dot(m, n)` explains one element.

    Raises InputError for an instruction that does not exist, HardwareTrap when an operand leaves the shared window.

    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.full(64 * 16, 0x3F80, np.uint16))
    >>> word = SmemDescriptor(arch="sm_90a", start_address=0x400, leading_byte_offset=128, stride_byte_offset=256)
    >>> result = wgmma(shared, word, word, n=8, a_type="bf16")
    >>> result, float(result.d.view(np.float32)[63, 7]), wgmma_registers(result).shape
    (<wgmma.m64n8k16: 64 x 8 f32; addresses measured; arithmetic measured>, 16.0, (128, 4))
    """
    if not isinstance(shared, SharedMemory) or architecture(shared.arch).instruction != "wgmma":
        raise InputError(f"shared = {shown(shared)}: needs the SharedMemory of an architecture with wgmma (sm_90a)")
    b_type = a_type if b_type is None else b_type
    row = types_of(a_type, b_type, d_type)
    n = whole("n", n)
    if n not in row.n:
        raise InputError(f"n = {n}: wgmma with {a_type} has N {in_steps(row.n)} (PTX ISA 9.7.15.2)")
    sparse = metadata is not None
    registers_a = isinstance(a, np.ndarray) and a.ndim > 0
    check_immediates(row, a_major, b_major, imm_scale_a, imm_scale_b, satfinite, sparse, sparsity_selector, registers_a)
    k, stored = row.k * (2 if sparse else 1), row.k
    scale_d, satfinite = flag("scale_d", scale_d), flag("satfinite", satfinite)

    def read(word: Any, dtype: str, major: str, rows: int, k: int) -> MmaOperand:
        return from_shared(
            dtype, [shared.read_operand(word, dtype=dtype, major=major, rows=rows, k=k)], shared_grade(word, shared.arch, dtype, major, k)
        )

    operand_b = read(b, b_type, b_major, n, k)
    operand_a = (
        _from_registers(a, a_type, stored) if isinstance(a, np.ndarray) and registers_a else read(a, a_type, a_major, WGMMA_M, stored)
    )
    index = lower = None
    if metadata is not None:
        index, lower = _index(metadata, row, stored, sparsity_selector)
    c = _matrix(d, n, d_type) if scale_d and d is not None else np.zeros((WGMMA_M, n), kind_of(d_type))
    negate = (imm_scale_a < 0, imm_scale_b < 0)

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, index: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        return multiply(
            a,
            b,
            c,
            kind="wgmma",
            a_type=a_type,
            b_type=b_type,
            d_type=d_type,
            index=index,
            negate_a=negate[0],
            negate_b=negate[1],
            saturate=satfinite,
        )

    bits_a, bits_b = operand_a.bits, operand_b.bits
    if lower is None or index is None:
        values, certain = product(bits_a, bits_b, c, index)
    else:  # every row has its own B: each tf32 put together from the halves that the metadata names
        rows = [product(bits_a[m : m + 1], halves(bits_b, lower[m]), c[m : m + 1]) for m in range(WGMMA_M)]
        values, certain = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    name = f"wgmma{'.sp' if sparse else ''}.m{WGMMA_M}n{n}k{k}"
    certain &= ~(operand_a.doubtful_rows[:, None] | operand_b.doubtful_rows[None, :])
    grade = max((operand_a.grade, operand_b.grade), key=list(Grade).index)
    counts = {name: int(operand.unwritten.sum()) for name, operand in (("A", operand_a), ("B", operand_b))}
    unwritten = {x: count for x, count in counts.items() if count}
    return MmaResult(
        name,
        (operand_a,),
        operand_b,
        c,
        values,
        d_type,
        certain,
        grade,
        index,
        arithmetic=row_of("wgmma", a_type, b_type, d_type),
        unwritten=unwritten,
        negate=negate,
        lower=lower,
        saturate=satfinite,
    )


def wgmma_registers(result: MmaResult) -> np.ndarray:
    """D of a wgmma as the threads hold it: uint32 (128, N / 2), for f16 (128, N / 4) with two elements a register."""
    if not isinstance(result, MmaResult) or not result.instruction.startswith("wgmma"):
        raise InputError(f"result = {shown(result)}: needs what wgmma returned; D of tcgen05.mma lies in tensor memory (TensorMemory.ld)")
    row, column = d_places(result.d.shape[1])
    elements: np.ndarray = result.d[row, column].astype(np.uint32)
    if result.d_type != "f16":
        return elements
    packed: np.ndarray = elements[:, 0::2] | elements[:, 1::2] << np.uint32(16)
    return packed


def types_of(a_type: Any, b_type: Any, d_type: Any) -> WgmmaTypes:
    """The row of spec for these types; InputError, with what there is, if they do not go together."""
    for name, dtype in (("a_type", a_type), ("b_type", b_type), ("d_type", d_type)):
        if not isinstance(dtype, str):
            raise InputError(f"{name} = {shown(dtype)}: needs the name of a type, such as 'bf16'")
    for row in WGMMA_TYPES:
        if a_type in row.a and b_type in row.b and d_type in row.d:
            return row
    forms = "; ".join(f"{'/'.join(row.a)} x {'/'.join(row.b)} -> {'/'.join(row.d)}" for row in WGMMA_TYPES)
    raise InputError(f"A {shown(a_type)}, B {shown(b_type)}, D {shown(d_type)}: wgmma has {forms} (PTX ISA 9.7.15.2)")


def check_immediates(
    row: WgmmaTypes, a_major: Any, b_major: Any, sign_a: Any, sign_b: Any, satfinite: Any, sparse: bool, selector: Any, registers: bool
) -> None:
    """InputError for immediates that the syntax of these types has not."""
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if choice(name, major, ("K", "MN"), "'K' or 'MN'") == "MN" and not row.transposes:
            raise InputError(f"{name} = 'MN': wgmma reads {row.a[0]} K-major only (PTX ISA 9.7.15.5.2)")
    if registers and a_major == "MN":
        raise InputError("a_major = 'MN': A in registers has no imm-trans-a (PTX ISA 9.7.15.5.2)")
    for name, sign in (("imm_scale_a", sign_a), ("imm_scale_b", sign_b)):
        if whole(name, sign) not in ((1, -1) if row.signs else (1,)):
            raise InputError(
                f"{name} = {sign}: {'needs 1 or -1' if row.signs else f'{row.a[0]} operands have no sign'} (PTX ISA 9.7.15.5.2)"
            )
    if satfinite and not row.satfinite:
        raise InputError(f"satfinite: {row.a[0]} has no .satfinite (PTX ISA 9.7.15.5.2)")
    if sparse and not row.group:
        raise InputError(f"metadata: wgmma.sp does not exist for {row.a[0]} (PTX ISA 9.7.15.6)")
    if not sparse and whole("sparsity_selector", selector):
        raise InputError(f"sparsity_selector = {selector}: only wgmma.sp has one; give the metadata too")
    if sparse and whole("sparsity_selector", selector) not in row.selectors:
        raise InputError(f"sparsity_selector = {selector}: {row.a[0]} has {' or '.join(map(str, row.selectors))} (PTX ISA 9.7.15.6.1)")


def _registers(name: str, given: Any, count: int) -> np.ndarray:
    """uint32 (128, count), or InputError."""
    shape = (WGMMA_THREADS, count) if count else (WGMMA_THREADS,)
    if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype.itemsize != 4 or given.dtype.kind not in "iuf":
        got = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
        raise InputError(f"{name}: needs 32-bit registers of shape {shape}, a row for each thread, not {got}")
    words: np.ndarray = np.ascontiguousarray(given).view(np.uint32)
    return words


@functools.lru_cache(maxsize=64)
def d_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of every element of every thread, (128, N / 2)."""
    thread, element = np.meshgrid(np.arange(WGMMA_THREADS), np.arange(n // 2), indexing="ij")
    return fragments.d_row(thread, element), fragments.d_column(thread, element)  # type: ignore[arg-type,return-value]


def kind_of(d_type: str) -> type[np.unsignedinteger[Any]]:
    """The raw bits of D."""
    return np.uint16 if d_type == "f16" else np.uint32


def _matrix(d: np.ndarray, n: int, d_type: str) -> np.ndarray:
    """The accumulator's registers as a matrix (64, N)."""
    half = d_type == "f16"
    registers = _registers("d", d, n // 4 if half else n // 2)
    if half:
        registers = np.stack([registers & np.uint32(0xFFFF), registers >> np.uint32(16)], -1).reshape(WGMMA_THREADS, n // 2)
    out: np.ndarray = np.empty((WGMMA_M, n), kind_of(d_type))
    out[d_places(n)] = registers
    return out


@functools.lru_cache(maxsize=16)
def a_places(bits: int, stored: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(thread, register, lowest bit) of every stored element, (64, stored)."""
    row, column = np.meshgrid(np.arange(WGMMA_M), np.arange(stored), indexing="ij")
    thread = fragments.a_thread(row, column, bits)  # type: ignore[arg-type]
    element = np.asarray(fragments.a_element(row, column, bits))  # type: ignore[arg-type]
    per_register = REGISTER_BITS // bits
    return np.asarray(thread), element // per_register, element % per_register * bits


def _from_registers(a: np.ndarray, a_type: str, stored: int) -> MmaOperand:
    registers, bits = _registers("a", a, A_REGISTERS), element_format(a_type).bits
    thread, register, bit = a_places(bits, stored)
    raw = registers[thread, register] >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    nobody = np.full(raw.shape, -1)
    address = (thread << 8 | register).astype(np.uint32)
    kind = {32: np.uint32, 16: np.uint16}.get(bits, np.uint8)
    rows, nowhere = np.zeros(WGMMA_M, np.int64), np.zeros(raw.shape, bool)
    return MmaOperand(a_type, "registers", raw.astype(kind), address, bit, rows, nobody, nobody, ({},), Grade.MEASURED, nowhere, nowhere)


def _index(metadata: Any, row: WgmmaTypes, stored: int, selector: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(64, stored) the K that every stored element of A meets; of a tf32 whose halves meet different ones, that of the lower halves too.

    The second is in units of 16 bits, the first K of the upper half; None where no element is torn.
    """
    registers = _registers("metadata", metadata, 0)
    groups = 2 * stored // row.group
    m, s = np.meshgrid(np.arange(WGMMA_M), np.arange(stored), indexing="ij")
    group = 2 * s // row.group
    thread, bit = _metadata_places(groups, selector)
    nibbles = (registers[thread].astype(np.int64) >> bit & 0xF)[m, group]
    if row.group != 2:
        return np.asarray(fragments.sparse_k(s, nibbles)), None  # type: ignore[arg-type]
    lower, upper = (np.asarray(fragments.sparse_k(2 * s + half, nibbles)) for half in (0, 1))  # type: ignore[arg-type]
    plain = (lower % 2 == 0) & (upper == lower + 1)
    return upper // 2, None if plain.all() else np.stack([lower, upper], -1)


@functools.lru_cache(maxsize=8)
def _metadata_places(groups: int, selector: int) -> tuple[np.ndarray, np.ndarray]:
    """(thread, lowest bit) of every group's metadata, (64, groups)."""
    places = [
        [(fragments.metadata_thread(m, g, groups, selector), fragments.metadata_bit(m, g, groups)) for g in range(groups)]
        for m in range(WGMMA_M)
    ]
    found = np.array(places)
    return found[..., 0], found[..., 1]


# ---- The wgmma of several warpgroups at once: registers in, registers out, for those who run kernels and ask nothing more about the
# operands


def wgmma_many(
    shared: Sequence[SharedMemory],
    a: Sequence[int] | np.ndarray,
    b: Sequence[int],
    d: np.ndarray,
    *,
    n: int,
    a_type: str,
    b_type: str,
    d_type: str,
    scale_d: Sequence[bool],
    negate: tuple[bool, bool] = (False, False),
    a_major: str = "K",
    b_major: str = "K",
    satfinite: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """What `wgmma` makes of the registers of every warpgroup, and which of them read something that nobody wrote: bool (groups,).

    Every warpgroup has a window and descriptors of its own; `a` may be registers, uint32 (4, groups, 128). `d` are registers,
    uint32 (R, groups, 128), R = N / 2, for f16 N / 4; so are those returned. Dense instructions only; types, N and immediates are not
    checked. Raises HardwareTrap when an operand leaves its window.

    >>> shared = SharedMemory("sm_90a", size=8192)
    >>> shared.write(0x400, np.full(64 * 16, 0x3F80, np.uint16))
    >>> zero = np.zeros((4, 2, 128), np.uint32)
    >>> word = 0x1000080040  # no swizzle, LBO 128 B, SBO 256 B
    >>> d, unwritten = wgmma_many([shared] * 2, [word] * 2, [word] * 2, zero, n=8, a_type="bf16", b_type="bf16", d_type="f32", scale_d=[True, False])
    >>> d.shape, float(d.view(np.float32)[3, 1, 127]), unwritten.tolist()
    ((4, 2, 128), 16.0, [False, False])
    """
    groups, k = len(shared), types_of(a_type, b_type, d_type).k
    unwritten = np.zeros(groups, bool)

    def read(words: Sequence[int], dtype: str, major: str, rows: int) -> np.ndarray:
        parts = []
        for group, (memory, word) in enumerate(zip(shared, words, strict=True)):
            bits, missing = memory.operand_bits(word, dtype=dtype, major=major, rows=rows, k=k)
            unwritten[group] |= missing
            parts.append(bits)
        return np.stack(parts)

    of_b = read(b, b_type, b_major, n)
    of_a = from_registers(a, a_type, k) if isinstance(a, np.ndarray) else read(a, a_type, a_major, WGMMA_M)
    c = to_matrix(d, n, d_type)
    if not all(scale_d):
        c[~np.asarray(scale_d, bool)] = 0
    options = Options(negate_a=negate[0], negate_b=negate[1], saturate=satfinite)
    row = row_of("wgmma", a_type, b_type, d_type)
    return to_registers(multiply_tiles(of_a, of_b, c, row=row, types=(a_type, b_type, d_type), options=options), d_type), unwritten


@functools.lru_cache(maxsize=64)
def _flat(n: int) -> np.ndarray:
    """Place in the row-major D of every element of every thread, (N / 2, 128)."""
    row, column = d_places(n)
    return np.ascontiguousarray((row * n + column).T)


def to_matrix(d: np.ndarray, n: int, d_type: str) -> np.ndarray:
    """The accumulators (groups, 64, N) of registers (R, groups, 128)."""
    if d_type == "f16":
        d = np.stack([d & np.uint32(0xFFFF), d >> np.uint32(16)], 1).reshape(n // 2, *d.shape[1:])
    out = np.empty((d.shape[1], WGMMA_M * n), kind_of(d_type))
    for group in range(len(out)):
        out[group, _flat(n)] = d[:, group]
    return out.reshape(-1, WGMMA_M, n)


def to_registers(d: np.ndarray, d_type: str) -> np.ndarray:
    """The registers (R, groups, 128) of accumulators (groups, 64, N)."""
    groups, _, n = d.shape
    out = np.empty((n // 2, groups, WGMMA_THREADS), np.uint32)
    for group in range(groups):
        out[:, group] = d[group].reshape(-1)[_flat(n)]
    if d_type != "f16":
        return out
    packed: np.ndarray = out[0::2] | out[1::2] << np.uint32(16)
    return packed


def from_registers(a: np.ndarray, a_type: str, k: int) -> np.ndarray:
    """The elements of A (groups, 64, K) of registers (4, groups, 128)."""
    bits = element_format(a_type).bits
    thread, register, bit = a_places(bits, k)
    raw = a[register, :, thread].transpose(2, 0, 1) >> bit.astype(np.uint32) & np.uint32((1 << bits) - 1)
    return raw.astype({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))
