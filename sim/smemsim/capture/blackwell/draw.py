"""The arguments of the tcgen05 probes, drawn from a seed. Nothing here knows what hardware does with them."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from smemsim.capture.blackwell.contents import OTHER, WINDOW_BEGIN, k_bytes, matrix_word
from smemsim.capture.blackwell.machine import WAIT, missing
from smemsim.capture.blackwell.words import (
    BLOCK_SCALED,
    ELEMENTS,
    KINDS,
    VERSION,
    WIDTHS,
    index_bits,
    instruction_descriptor,
    matrix_descriptor,
    passes,
)

Case = dict[str, Any]
CODES = (0, 2, 4, 6)
A_COLUMN, META_COLUMN, SCALE_A_COLUMN, SCALE_B_COLUMN = 256, 384, 416, 464  # of tensor memory; D lies from column 0 on
ONES_UE8M0 = 0x7F7F7F7F
# metadata that says the same everywhere: keep the lower, or the upper, half of each group
UNIFORM = (0x44444444, 0xEEEEEEEE)


def around(n: int) -> list[int]:
    """(first, count) of the columns that are copied out: those of a D of N columns, and 32 to 63 more, so that a D that
    lies elsewhere is seen.
    """
    return [0, -(-n // 32) * 32 + 32]


def kinds() -> dict[str, tuple[int, tuple[str, ...]]]:
    """The kinds of the target."""
    return {kind: about for kind, about in KINDS.items() if kind not in missing()}


@dataclasses.dataclass(frozen=True)
class Probe:
    """One tcgen05.mma whose operand `operand` is probed: `m` and `n` of the instruction, over both CTAs of a pair."""

    kind: str
    dtype: str
    operand: str
    major: str
    m: int
    n: int
    group: int = 1
    ws: bool = False
    sparse: bool = False

    @property
    def form(self) -> str:
        name = {"mxf8f6f4": "mxf8f6f4.block32", "mxf4": "mxf4.block32", "mxf4nvf4": "mxf4nvf4.block16"}.get(self.kind, self.kind)
        return f"{name}.ss{'.sp' if self.sparse else ''}{'.ws' if self.ws else ''}"

    @property
    def k(self) -> int:
        """Logical K of the instruction."""
        return KINDS[self.kind][0] * (2 if self.sparse else 1)

    @property
    def rows(self) -> int:
        """Rows of the probed operand that one CTA holds."""
        return (self.m if self.operand == "A" else self.n) // self.group

    @property
    def stored_k(self) -> int:
        """Elements of K that one row of the probed operand holds."""
        return self.k // 2 if self.sparse and self.operand == "A" else self.k

    @property
    def accumulator(self) -> str:
        return "s32" if self.kind == "i8" else "f32"

    def idesc(self, **more: Any) -> int:
        return instruction_descriptor(
            self.kind, self.dtype, self.dtype, m=self.m, n=self.n, d=self.accumulator, sparse=self.sparse,
            mn_major_a=self.major == "MN" and self.operand == "A", mn_major_b=self.major == "MN" and self.operand == "B", **more,
        )  # fmt: skip


def descriptor(
    rng: random.Random, dtype: str, rows: int, k: int, major: str, code: int, *, end: int = OTHER, base_offset: int | None = None
) -> int:
    """A descriptor whose every conceivable read stays between the window's first byte and `end`."""
    element = ELEMENTS[dtype]
    k_chunks, row_chunks = k // element.per_chunk, -(-rows // element.per_chunk)
    while True:
        width = WIDTHS[code]
        if rng.random() < 0.3:  # what kernels do: an aligned tile and an advance inside it
            start = rng.randrange(1, 48) * 1024 + rng.randrange(0, max(width // 32, 1)) * 32
        else:
            start = rng.randrange(WINDOW_BEGIN // 16, 0x2400) * 16
        style = rng.random()
        if style < 0.25:
            lbo, sbo = rng.choice((0, 16, 128, 2048, 4096, 8192)), rng.choice((128, 256, 512, 1024, 2048, 8 * width))
        elif style < 0.8:
            lbo, sbo = 16 * rng.randrange(0, 1020), 16 * rng.randrange(0, 1020)
        else:
            lbo, sbo = 16 * (2 * rng.randrange(0, 400) + 1), 16 * (2 * rng.randrange(0, 400) + 1)
        if major == "K":
            reach = (rows // 8) * sbo + k_chunks * lbo
        else:
            reach = max(row_chunks * sbo + k // 4 * lbo, row_chunks * lbo + k // 4 * sbo)
        room = end - start - 8 * 128 - 64 - 512
        if room < 0:
            continue
        if reach > room:
            scale = room / reach * rng.random()
            lbo, sbo = int(lbo * scale) // 16 * 16, int(sbo * scale) // 16 * 16
        drawn = rng.randrange(8) if rng.random() < 0.5 else 0
        return matrix_descriptor(start, lbo, sbo, code, base_offset=drawn if base_offset is None else base_offset)


def operand_probes() -> list[tuple[Probe, int]]:
    """Every (instruction, operand) that is probed, and how many descriptors it gets."""
    out: list[tuple[Probe, int]] = []

    def add(count: int, kind: str, dtype: str, operand: str, major: str, m: int, n: int, **more: Any) -> None:
        probe = Probe(kind, dtype, operand, major, m, n, **more)
        if (probe, count) not in out:
            out.append((probe, count))

    for kind, (k, types) in kinds().items():
        for dtype in types:
            element = ELEMENTS[dtype]
            majors = ("K",) if kind in ("mxf4", "mxf4nvf4") else ("K", "MN")
            few = 4 if element.bits < 8 or kind in BLOCK_SCALED else 10
            for major in majors:
                for m in (128,) if kind in BLOCK_SCALED else (64, 128):
                    add(3 * few, kind, dtype, "A", major, m, max(k, 16))
                    add(few, kind, dtype, "B", major, m, 64)
                add(few, kind, dtype, "A", major, 256, max(2 * k, 32), group=2)
                add(few, kind, dtype, "B", major, 256, 128, group=2)
                if kind not in BLOCK_SCALED:
                    add(few, kind, dtype, "A", major, 128, max(2 * k, 32), group=2)
                    add(few, kind, dtype, "B", major, 128, 64, group=2)
                    for m in (32, 64, 128):
                        add(few // 2, kind, dtype, "A", major, m, 64, ws=True)
                        add(few // 2, kind, dtype, "B", major, m, 64, ws=True)
                for m in (128,) if kind in BLOCK_SCALED else (64, 128):
                    add(few, kind, dtype, "A", major, m, 2 * k, sparse=True)
                    add(2 * few, kind, dtype, "B", major, m, 64, sparse=True)
                add(few // 2, kind, dtype, "B", major, 256, 64, group=2, sparse=True)
                add(few // 2, kind, dtype, "A", major, 256, 4 * k if 4 * k <= 256 else 256, group=2, sparse=True)
    for n in (8, 16, 24, 40, 96, 136, 192, 256):
        for major in ("K", "MN"):
            add(4, "f16", "bf16", "B", major, 128 if n % 16 == 0 else 64, n)
    return out


def codes_for(dtype: str, major: str) -> tuple[int, ...]:
    """The layout codes that the PTX ISA allows (9.7.16.10.6)."""
    return (1,) if dtype == "tf32" and major == "MN" else CODES


def operand_case(probe: Probe, word: int, **fields: Any) -> Case:
    """The machine's case that shows which element every operand element comes from; `fields` go into its step."""
    element, dtype, k = ELEMENTS[probe.dtype], probe.dtype, probe.k
    other_k = k // 2 if probe.sparse and probe.operand == "B" else k
    other_rows = (probe.m if probe.operand == "B" else probe.n) // probe.group
    other = matrix_word(OTHER, k_bytes(element, other_k))
    pair = (word, other) if probe.operand == "A" else (other, word)
    step = {
        "op": probe.form, "flags": WAIT, "d": 0, "a": pair[0], "b": pair[1], "idesc": probe.idesc(), "meta": META_COLUMN,
        "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN, "enable_d": 0, **fields,
    }  # fmt: skip
    halves = 2 if probe.sparse and probe.operand == "B" else 1

    def shared(background: list[Any], half: int) -> list[Any]:
        recipes = []
        for rank in range(probe.group):
            if probe.operand == "A":
                placed = [dtype, OTHER, "identity", other_rows, other_k, rank * other_rows]
            elif probe.sparse:
                placed = [dtype, OTHER, "sparse identity", other_rows, other_k, half]
            else:
                placed = [dtype, OTHER, "identity", other_rows, other_k, 0]
            one = [*background[:-1], background[-1][rank]] if background[0] == "value" else background
            recipes.append([one, placed])
        return recipes

    def tensor(half: int) -> list[Any]:
        scales = [[SCALE_A_COLUMN, 32, "word", ONES_UE8M0], [SCALE_B_COLUMN, 32, "word", ONES_UE8M0]] if probe.kind in BLOCK_SCALED else []
        return [[[META_COLUMN, 8, "word", UNIFORM[half]], *scales]] * probe.group

    runs = []
    for half in range(halves):
        for i in range(passes(element, index_bits(element))):
            runs.append({"shared": shared(["tags", dtype, i], half), "tensor": tensor(half)})
        if probe.group == 2:  # whose shared memory: 1 in the even CTA, 2 in the odd one
            runs.append({"shared": shared(["value", dtype, (1, 2)], half), "tensor": tensor(half)})
    return {"group": probe.group, "columns": around(probe.n), "steps": [step], "passes": runs, "halves": halves}


def operands(seed: int) -> list[tuple[Probe, int]]:
    """(probe, descriptor word) of the operand suite."""
    rng, out = random.Random(seed), []
    for probe, count in operand_probes():
        for i in range(count):
            allowed = codes_for(probe.dtype, probe.major)
            word = descriptor(rng, probe.dtype, probe.rows, probe.stored_k, probe.major, allowed[i % len(allowed)])
            out.append((probe, word))
    return out


RESERVED_BITS = (14, 15, 30, 31, 47, 48, *range(53, 61))


def edges(seed: int) -> list[tuple[str, Probe, int]]:
    """(what is odd, probe, word): words on the edge of what the PTX ISA describes."""
    rng, out = random.Random(seed), []
    bf16 = [Probe("f16", "bf16", operand, major, 128, 64) for operand in "AB" for major in ("K", "MN")]
    tf32 = [Probe("tf32", "tf32", operand, major, 128, 64) for operand in "AB" for major in ("K", "MN")]
    e4m3 = [Probe("f8f6f4", "e4m3", operand, major, 128, 64) for operand in "AB" for major in ("K", "MN")]
    sparse = [Probe(kind, dtype, "B", "K", 128, 64, sparse=True) for kind, dtype in (("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"))]

    def word(probe: Probe, code: int, **more: Any) -> int:
        return descriptor(rng, probe.dtype, probe.rows, probe.stored_k, probe.major, code, **more)

    constant = 0b111 << 46
    for probe in bf16:
        for code in CODES:
            for version in (0, 0, 2, 4, 3, 7):  # bits 46:48, of which the PTX ISA wants 0b001
                out.append(("constant bits", probe, word(probe, code) & ~constant | version << 46))
            for bit in RESERVED_BITS:
                out.append((f"bit {bit}", probe, word(probe, code) | 1 << bit))
            for _ in range(2):
                # absolute leading byte offset, which sm_103a has
                out.append(("bit 52", probe, word(probe, code) | 1 << 52))
    for probe in (*bf16, *tf32, *e4m3):
        for code in (3, 5, 7):
            out += [("layout code", probe, word(probe, code)) for _ in range(3)]
        out += [("32B atom", probe, word(probe, 1)) for _ in range(6)]
        # tf32 MN-major without the 32B atom, too
        out += [("swizzle", probe, word(probe, code)) for code in CODES for _ in range(2)]
    for probe in (*bf16, *sparse):
        for code in (2, 4, 6):
            for base_offset in range(8):
                out.append(("base offset", probe, word(probe, code, base_offset=base_offset)))
    for probe in sparse:  # the dense operand's 64 bytes are wider than the 32B pattern
        for code in CODES:
            out += [("wide row", probe, word(probe, code)) for _ in range(8)]
    for probe in bf16:  # past the end of the window, and around the end of the 2^18 bytes that a descriptor can name
        code = 2 if probe.major == "K" else 0
        for start in (0x38C00, 0x38F80, 0x39000, 0x3F000, 0x3FF00, 0x3FFF0):
            for lbo, sbo in ((128, 1024), (0x3FFF0, 0x3FFF0), (16, 0x3F000)):
                out.append(("window", probe, matrix_descriptor(start, lbo, sbo, code)))
        for start in (0, 0x10, 0x3F0):  # the first KiB, which is the system's
            out.append(("window", probe, matrix_descriptor(start, 128, 1024, code)))
        out.append(("window", probe, matrix_descriptor(0x8000, 0x3FF00, 0x3FF00, 0, version=VERSION)))
    return out
