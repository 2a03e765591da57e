"""`operand_addresses`: which byte does the tensor core read for element (row, k)?"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from smemsim.base.arguments import is_whole, whole
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.processors import processors
from smemsim.core.layout.swizzle import swizzle
from smemsim.core.spec.architectures import Architecture, architecture
from smemsim.core.spec.assumptions import assumed
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle, SwizzleMode
from smemsim.core.words.operand_layout import check_major, check_packing, why_unmodelled
from smemsim.core.words.smem import SmemDescriptor

__all__ = ["operand_addresses", "swizzled"]


BLOCK_ELEMENTS = 1 << 20
MAX_RESULT_BYTES = 1 << 33
MAX_OPERAND_ELEMENTS = 1 << 22  # sixty-four times what the largest instruction reads


def swizzled(addresses: np.ndarray, mode: SwizzleMode, base_offset: int = 0) -> np.ndarray:
    """Addresses after the XOR of a mode; the XOR is its own inverse, so that the same brings them back.

    >>> swizzled(np.array([128, 144]), MODES[Swizzle.B128])
    array([144, 128])
    """
    return np.asarray(swizzle(addresses, base_offset, mode.mask, mode.shift))  # type: ignore[arg-type]


def operand_addresses(
    descriptor: Any,
    *,
    arch: str,
    dtype: Any,
    major: str,
    rows: int,
    k: int,
    packing: str = "packed",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """The shared address of every element that one MMA reads through a descriptor. Returns uint32, shape
    descriptor.shape + (rows, k): the address of each element's first byte in the `.shared` window.

    - Descriptor: a raw 64-bit word, a `SmemDescriptor`, or an array of words.
    - Architecture: `arch`, "sm_90a" (wgmma), "sm_100a" or "sm_103a" (tcgen05).
    - Contiguous axis: `major`, "K" or "MN".
    - Size: `rows` elements along M or N, and `k` elements along K (the doubled K for the dense operand of a sparse
      instruction). Any size is allowed. For sizes that no instruction has, the same formulas are used.
    - Packing of 4-bit types: `packing`, "packed" or "padded".
    - Result: `out`, a preallocated array.

    Addresses are plain sums, also past the end of the window. For words that the ISA forbids the result is what
    hardware does. `SmemDescriptor.problems` reports them.

    Measured on an H200 for wgmma (traces wgmma_operands, wgmma_reserved_bits, tma_wgmma, reference_gemm). For tcgen05
    not measured: most rules are witnessed by programs that are right on a card, some are inferred. `smemsim.RULES` has
    the grade of each rule.

    Raises InputError for arguments that no kernel has, and Unmodelled for unknown behaviour (an invalid layout code).

    >>> from smemsim import operand_addresses
    >>> operand_addresses(0x4000004000010040, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)[:3, 0]
    array([1024, 1168, 1312], dtype=uint32)
    """
    machine, fmt = architecture(arch), element_format(dtype)
    rows, k = whole("rows", rows, minimum=0), whole("k", k, minimum=0)
    check_major(major)
    check_packing(packing)
    words, shape = _words(descriptor, machine)
    _check_known(words, machine, major, -(-k // fmt.elements_per_chunk(packing)) * 16)
    _check_sums(machine, rows, k, fmt, major, packing)
    result, flat = _result(out, (*shape, rows, k), len(words), rows, k)
    if flat.size:
        _run(words, machine, major == "K", fmt.bits, fmt.elements_per_chunk(packing), flat)
    return result


def _words(descriptor: Any, machine: Architecture) -> tuple[np.ndarray, tuple[int, ...]]:
    """The descriptors as a flat uint64 array, and the shape they came in."""
    if isinstance(descriptor, SmemDescriptor):
        if descriptor.arch != machine.name:
            raise InputError(
                f"the descriptor was decoded for {descriptor.arch}, arch is {machine.name}; decode its word for {machine.name}"
            )
        descriptor = descriptor.encode()
    if not isinstance(descriptor, np.ndarray) and is_whole(descriptor):
        return np.array([machine.smem_descriptor.check_range(descriptor, "descriptor")], np.uint64), ()
    if isinstance(descriptor, (list, tuple)):
        listed = [machine.smem_descriptor.check_range(d.encode() if isinstance(d, SmemDescriptor) else d, "descriptor") for d in descriptor]
        return np.array(listed, np.uint64), (len(listed),)
    if not isinstance(descriptor, np.ndarray) or descriptor.dtype.kind not in "iu":
        kind = descriptor.dtype if isinstance(descriptor, np.ndarray) else type(descriptor).__name__
        raise InputError(f"descriptor: needs a 64-bit integer or an array of uint64, not {kind}")
    words = np.ascontiguousarray(descriptor.ravel())
    return (words.astype(np.int64) if words.dtype.kind == "i" else words).astype(np.uint64), descriptor.shape


def _raw(words: np.ndarray, machine: Architecture, name: str) -> np.ndarray:
    field = machine.smem_descriptor.fields[name]
    raw: np.ndarray = (words >> np.uint64(field.low)).astype(np.uint8) & np.uint8(field.mask)
    return raw


def _check_known(words: np.ndarray, machine: Architecture, major: str, k_bytes: int) -> None:
    """Raise Unmodelled for the first descriptor of unknown behaviour."""
    codes = layout_codes(machine.smem_descriptor)
    kinds = _raw(words, machine, "layout_type") << 4
    if "lbo_mode" in machine.smem_descriptor.fields:
        absolute = _raw(words, machine, "lbo_mode")
        if absolute.any():
            kinds |= absolute << 3 | _raw(words, machine, "base_offset")
    for kind in np.flatnonzero(np.bincount(kinds, minlength=1)).tolist():
        code, absolute_mode, base_offset = kind >> 4, bool(kind & 8), kind & 7
        reason = why_unmodelled(machine, codes.get(code, Swizzle.INVALID), code, absolute_mode, base_offset, major, k_bytes)
        if reason:
            raise Unmodelled(f"descriptor {int(words[np.argmax(kinds == kind)]):#018x}: {reason}")


def _check_sums(machine: Architecture, rows: int, k: int, fmt: ElementFormat, major: str, packing: str) -> None:
    """The farthest chunk of any descriptor must fit 32 bits, and the operand a sensible size; no instruction comes
    near.
    """
    per_chunk = fmt.elements_per_chunk(packing)
    along, across = (k, rows) if major == "K" else (rows, k)
    stride = machine.smem_descriptor.fields["stride_byte_offset"]
    farthest = (stride.mask + 1) << stride.shift
    if rows * k > MAX_OPERAND_ELEMENTS or farthest * (along // per_chunk + across // 4 + 2) >= 1 << 32:
        raise InputError(f"rows = {rows}, k = {k}: too many for one operand; an instruction reads at most 256 rows and 256 of K")


def _result(out: Any, shape: tuple[int, ...], n: int, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    if out is None:
        size = 4 * n * rows * k
        if size > MAX_RESULT_BYTES:
            raise InputError(f"the result would take {size:,} bytes; ask for fewer descriptors at a time")
        try:
            out = np.empty(shape, np.uint32)
        except MemoryError:
            raise InputError(f"the result would take {size:,} bytes, more than this machine has") from None
    if not isinstance(out, np.ndarray) or out.dtype != np.uint32 or out.shape != shape or not out.flags.c_contiguous:
        given = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"out: needs a C-contiguous uint32 array of shape {shape}, not {given}")
    if not out.flags.writeable:
        raise InputError("out: the array is read-only")
    return out, out.reshape(n, rows, k)


@functools.cache
def _tables(machine: Architecture) -> tuple[np.ndarray, np.ndarray]:
    """The fields and the layout codes as tables for `loops.operand_addresses`."""
    table, codes = machine.smem_descriptor.fields, layout_codes(machine.smem_descriptor)
    names = ("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset", "layout_type", "lbo_mode")
    rows = [(table[n].low, table[n].mask, table[n].shift) if n in table else (0, 0, 0) for n in names]
    modes = np.zeros((1 << table["layout_type"].width, 4), np.int64)
    for code, name in codes.items():
        mode = MODES[name]
        modes[code] = mode.width, mode.mask, mode.shift, mode.k_rows
    return np.array(rows, np.int64), modes


def _run(words: np.ndarray, machine: Architecture, k_major: bool, bits: int, per_chunk: int, out: np.ndarray) -> None:
    """Fill `out`, in blocks that whichever thread is free takes next (the compiled loop runs without the interpreter's
    lock).
    """
    from smemsim.core.layout import loops

    fields, modes = _tables(machine)
    if machine.name != "sm_90a":
        fields, modes = assumed("operand.tables", (fields, modes), k_major)
        words = assumed("operand.words", words, k_major)
    else:
        fields, modes = assumed("wgmma.tables", (fields, modes), k_major)
        words = assumed("wgmma.words", words, k_major)
    signed = words.view(np.int64)
    size = max(1, BLOCK_ELEMENTS // (out.shape[1] * out.shape[2]))

    blocks, lock, failures = iter(range(0, len(out), size)), threading.Lock(), []

    def work() -> None:
        try:
            while True:
                with lock:
                    first = next(blocks, None)
                if first is None:
                    return
                last = first + size
                loops.operand_addresses(signed[first:last], fields, modes, k_major, bits, per_chunk, out[first:last])
        except BaseException as e:  # handed to the caller below
            failures.append(e)

    helpers = [threading.Thread(target=work) for _ in range(min(-(-len(out) // size), processors()) - 1)]
    started = []
    for helper in helpers:
        try:
            helper.start()
        except RuntimeError:  # no more threads to be had: fewer will do
            break
        started.append(helper)
    work()
    for helper in started:
        helper.join()
    if failures:
        raise failures[0]
