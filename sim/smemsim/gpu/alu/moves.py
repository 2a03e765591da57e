"""`mov`: registers, numbers, addresses, and words taken apart or put together (PTX ISA 9.7.9.2, 9.7.9.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smemsim.gpu.alu.forms import Form
from smemsim.gpu.registers import bits_of, dtype_of
from smemsim.gpu.registry import Plain, Step, implements, unmodelled
from smemsim.ptx.module import Instruction, Sink, Vector

if TYPE_CHECKING:
    from smemsim.gpu.linking.program import Linker
    from smemsim.gpu.wave import Wave

__all__: list[str] = []


@implements("mov")
def build_mov(i: Instruction, c: Linker) -> Step:
    """`mov`, all forms."""
    form = Form(i)
    kind = "b128" if form.has("b128") else form.kind()
    form.done(operands=(2,))
    to, source = i.operands
    if isinstance(to, Vector):
        return _take_apart(i, c, kind, to)
    if isinstance(source, Vector):
        return _put_together(i, c, kind, source)
    read, write = c.read(source, kind), c.write(to, kind)
    return lambda x: write(x, read(x))


def _part_bits(i: Instruction, kind: str, vector: Vector) -> int:
    """Bits of each of the registers that a word consists of."""
    count = len(vector.items)
    if count not in (2, 4):
        raise unmodelled(i, f"a vector of {count} registers; a word has 2 or 4 parts")
    return bits_of(kind) // count


def _take_apart(i: Instruction, c: Linker, kind: str, to: Vector) -> Plain:
    size = _part_bits(i, kind, to)
    part = dtype_of(f"b{size}")
    read = c.read(i.operands[1], kind)
    writes = [(n, c.write(item, f"b{size}")) for n, item in enumerate(to.items) if not isinstance(item, Sink)]

    overwrites = i.operands[1] in to.items

    def run(x: Wave) -> None:
        parts = _parts(read(x), kind, part)
        if overwrites:
            parts = parts.copy()
        for n, write in writes:
            write(x, parts[..., n])

    return run


def _parts(values: Any, kind: str, part: np.dtype[Any]) -> np.ndarray:
    whole = np.ascontiguousarray(values)
    return whole.view(part) if kind == "b128" else whole[..., None].view(part)


def _put_together(i: Instruction, c: Linker, kind: str, source: Vector) -> Plain:
    count, size = len(source.items), _part_bits(i, kind, source)
    part = dtype_of(f"b{size}")
    reads, write = [c.read(item, f"b{size}") for item in source.items], c.write(i.operands[0], kind)
    whole = np.dtype(np.uint64) if kind == "b128" else dtype_of(f"b{bits_of(kind)}")

    def run(x: Wave) -> None:
        parts = np.empty((x.n, count), part)
        for n, read in enumerate(reads):
            parts[:, n] = read(x)
        joined = parts.view(whole)
        write(x, joined if kind == "b128" else joined[:, 0])

    return run
