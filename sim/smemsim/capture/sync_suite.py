"""A suite of mma.sync: how a card adds the products of one instruction, for cards whose sums are not measured (sm_80,
sm_86, sm_89, sm_120a, sm_121a).

Each case is a launch of one instruction over `TILES` tiles. Its PTX and its registers are in the trace, so that
`smemsim replay` runs the same launch. The registers are drawn from a seed without knowing which element each holds. In
A and B the second half of the registers is the second half of K. So a large term and its negative are in the two
halves, at the places of K that one thread of each four holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable

import numpy as np

from smemsim.capture.bench import Bench, ragged, settings
from smemsim.core.spec.formats import FORMATS, ElementFormat
from smemsim.core.spec.targets import unsupported
from smemsim.evidence.launches import DESCRIPTION, KERNEL
from smemsim.run.engine.device import Card
from smemsim.run.engine.launch import LaunchConfig

__all__ = ["CARDS", "FORMS", "SUITES", "Case", "Form", "answered", "captured", "cases", "kernel"]

SUITE, SEED, LANES, TILES = "mma_sync_sums", 9801, 32, 8
REGISTERS = {"a": 4, "b": 2, "c": 4, "s": 2, "d": 4}  # of a thread, 32 bits each
STYLES = ("spread", "cancel", "bits", "near")
# the version of the PTX ISA
CARDS = {"sm_80": "7.0", "sm_86": "7.1", "sm_89": "8.4", "sm_120a": "8.7", "sm_121a": "8.8"}


@dataclasses.dataclass(frozen=True)
class Form:
    """One instruction with f32 results: its types, and the bits in which a register holds an element of A or B."""

    kind: str  # after mma.sync.aligned
    shape: str
    a: str
    b: str
    bits: int
    scales: str = ""  # the type of the scale factors

    @property
    def name(self) -> str:
        kind = self.kind.removeprefix(".kind::").partition(".")[0]
        return "_".join(filter(None, (kind, self.a, self.b, self.scales)))

    def is_on(self, arch: str) -> bool:
        """Does a card have the instruction?"""
        return unsupported(tuple(self.text.split()[0].split(".")), arch) is None

    @property
    def text(self) -> str:
        """The instruction."""
        scaled = f".{self.scales}" if self.scales else ""
        ids = ", s0, {0, 0}, s1, {0, 0}" if self.scales else ""
        return (
            f"mma.sync.aligned{self.kind}.{self.shape}.row.col.f32.{self.a}.{self.b}.f32{scaled} "
            f"{{d0, d1, d2, d3}}, {{a0, a1, a2, a3}}, {{b0, b1}}, {{c0, c1, c2, c3}}{ids};"
        )


_KIND = ".kind::f8f6f4"
_MX = ".kind::mxf8f6f4.block_scale.scale_vec::1X"
FORMS = (
    Form("", "m16n8k16", "f16", "f16", 16),
    Form("", "m16n8k16", "bf16", "bf16", 16),
    Form("", "m16n8k8", "tf32", "tf32", 32),
    Form("", "m16n8k32", "e4m3", "e4m3", 8),
    Form("", "m16n8k32", "e5m2", "e4m3", 8),
    Form(_KIND, "m16n8k32", "e4m3", "e5m2", 8),
    Form(_KIND, "m16n8k32", "e3m2", "e2m3", 8),
    Form(_KIND, "m16n8k32", "e2m1", "e5m2", 8),
    Form(_MX, "m16n8k32", "e4m3", "e4m3", 8, "ue8m0"),
    Form(_MX, "m16n8k32", "e5m2", "e2m1", 8, "ue8m0"),
    Form(".kind::mxf4.block_scale.scale_vec::2X", "m16n8k64", "e2m1", "e2m1", 4, "ue8m0"),
    Form(".kind::mxf4nvf4.block_scale.scale_vec::4X", "m16n8k64", "e2m1", "e2m1", 4, "ue4m3"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """One launch: an instruction, the style of its numbers, and the registers of every thread by operand, (tiles x
    lanes, registers).
    """

    form: Form
    style: str
    registers: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        return f"{self.form.name}_{self.style}"


def kernel(form: Form, arch: str) -> str:
    """The PTX of an instruction: each warp loads its registers, multiplies once and stores D."""
    names = {x: ", ".join(f"{x}{n}" for n in range(count)) for x, count in REGISTERS.items()}
    loads = "".join(
        f"    ld.param.u64 p, [{x}];\n    mad.wide.u32 p, i, {4 * REGISTERS[x]}, p;\n    ld.global.v{REGISTERS[x]}.b32 {{{names[x]}}}, [p];\n"
        for x in "abcs"
    )
    return (
        f".version {CARDS[arch]}\n.target {arch}\n.address_size 64\n\n"
        f".visible .entry sums({', '.join(f'.param .u64 {x}' for x in REGISTERS)})\n{{\n"
        f"    .reg .b64 p;\n    .reg .b32 i, block, {', '.join(names.values())};\n"
        f"    mov.u32 i, %tid.x;\n    mov.u32 block, %ctaid.x;\n    mad.lo.u32 i, block, {LANES}, i;\n{loads}"
        f"    {_in_f32(form.text)}\n"
        f"    ld.param.u64 p, [d];\n    mad.wide.u32 p, i, {4 * REGISTERS['d']}, p;\n    st.global.v4.b32 [p], {{{names['d']}}};\n    ret;\n}}\n"
    )


def _in_f32(text: str) -> str:
    """The instruction with accumulators as .f32 registers, which ptxas wants."""
    moves = "".join(f"mov.b32 f{n}, c{n}; " for n in range(4))
    back = "".join(f" mov.b32 d{n}, f{n};" for n in range(4))
    text = text.replace("{d0, d1, d2, d3}", "{f0, f1, f2, f3}").replace("{c0, c1, c2, c3}", "{f0, f1, f2, f3}")
    return f"{{ .reg .f32 f<4>; {moves}{text}{back} }}"


# ---- What is multiplied


def cases(arch: str) -> list[Case]:
    """The launches for a card, the same each time."""
    drawn = np.random.default_rng(SEED)
    found = [Case(form, style, _registers(form, style, drawn)) for form in FORMS for style in STYLES]
    return [case for case in found if case.form.is_on(arch)]


def _registers(form: Form, style: str, drawn: np.random.Generator) -> dict[str, np.ndarray]:
    threads = TILES * LANES
    found = {x: drawn.integers(0, 1 << 32, (threads, count), np.uint32) for x, count in REGISTERS.items() if x != "d"}
    if style != "bits":
        found["c"] = (drawn.integers(96, 150, (threads, 4), np.uint32) << 23 | found["c"] & 0x807FFFFF) * (found["c"] >> 9 & 1)
        for x, kind in (("a", form.a), ("b", form.b)):
            found[x] = _finite(found[x], form, kind, style)
    if style == "cancel":
        _cancel(found, form)
    found["s"] = _scales(found["s"], form)
    return {x: np.ascontiguousarray(values) for x, values in found.items()}


def _format(kind: str) -> ElementFormat:
    """The format of the numbers that are drawn. Those of tf32 have bits below its fraction, too: a register holds an
    f32.
    """
    return FORMATS["f32" if kind == "tf32" else kind]


def _elements(words: np.ndarray, bits: int) -> np.ndarray:
    """The elements in registers, the lowest first, as another axis."""
    return words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)


def _packed(elements: np.ndarray, bits: int) -> np.ndarray:
    shifted = elements.astype(np.uint64) << np.arange(0, 32, bits, dtype=np.uint64)
    words: np.ndarray = np.bitwise_or.reduce(shifted, axis=-1).astype(np.uint32)
    return words


def _finite(words: np.ndarray, form: Form, kind: str, style: str) -> np.ndarray:
    """Numbers without infinities and NaNs: over the whole range of the type ("spread",
    "cancel"), or near 1 ("near").
    """
    drawn = _format(kind)
    exponents, fraction = drawn.exponent_bits, drawn.fraction_bits
    elements = _elements(words, form.bits)
    low = elements & np.uint32(drawn.magnitude)
    exponent = low >> np.uint32(fraction)
    middle, most = 1 << exponents - 1, (1 << exponents) - (1 if drawn.has_numbers_alone else 2)
    reach = middle if form.bits <= 8 else 6
    if style == "near":
        reach = min(reach, 2)
    exponent = np.clip(exponent.astype(np.int64) % (2 * reach) + middle - reach, 0, most).astype(np.uint32)
    low = exponent << np.uint32(fraction) | low & np.uint32((1 << fraction) - 1)
    sign = elements >> np.uint32(form.bits - 1) << np.uint32(exponents + fraction)
    found = low | sign
    if form.bits == 8 and kind == "e2m1":  # 4 bits in bits 5:2 of a byte
        found = found << np.uint32(2)
    return _packed(found, form.bits)


def _cancel(found: dict[str, np.ndarray], form: Form) -> None:
    """In the threads of one quarter of K the second half of K has the negative of the first: the products of both
    cancel.
    """
    threads = np.arange(TILES * LANES)
    chosen = threads % 4 == threads // LANES % 4
    width = 1 + _format(form.b).magnitude.bit_length() + (2 if form.bits == 8 and form.b == "e2m1" else 0)
    signs = _packed(np.full((1, 32 // form.bits), 1 << width - 1, np.uint64), form.bits)[0]
    found["a"][chosen, 2:] = found["a"][chosen, :2]
    found["b"][chosen, 1] = found["b"][chosen, 0] ^ signs


def _scales(words: np.ndarray, form: Form) -> np.ndarray:
    """Scale factors near 1, each byte another one."""
    bytes_ = _elements(words, 8)
    near = 120 + bytes_ % 15 if form.scales == "ue8m0" else 0x28 + bytes_ % 0x28
    return _packed(near, 8)


# ---- The launches


def answered(card: Card, case: Case) -> tuple[int, np.ndarray]:
    """(the CUDA error that ended the launch or 0, the bytes of D)."""
    module = card.load(kernel(case.form, card.arch))
    size = TILES * LANES * 4 * REGISTERS["d"]
    places = {x: card.allocate(values.nbytes) for x, values in case.registers.items()} | {"d": card.allocate(size, 0)}
    for x, values in case.registers.items():
        card.put(places[x], values)
    config = LaunchConfig(grid=TILES, block=LANES, args=[places[x].to_bytes(8, "little") for x in REGISTERS])
    code = card.execute(module.kernel("sums"), config)
    after = np.zeros(0, np.uint8) if code else card.get(places["d"], size)
    for place in places.values():
        card.free(place)
    return code, after


def _keep(folder: pathlib.Path, case: Case, text: str) -> None:
    """The launch as a launch file: what `smemsim run` and `replay` read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / KERNEL).write_text(text)
    arrays = []
    for x, values in case.registers.items():
        np.save(folder / f"{x}.npy", values)
        arrays.append({"name": x, "dtype": "u32", "shape": list(values.shape), "file": f"{x}.npy"})
    arrays.append({"name": "d", "dtype": "u32", "shape": [TILES * LANES, REGISTERS["d"]], "distribution": "zeros"})
    about = {
        "schema": "smemsim.launch/1", "title": f"{case.form.text.partition(' ')[0]}, numbers: {case.style}", "entry": "sums", "grid": TILES, "block": LANES,
        "exact": True, "args": [{"array": x} for x in REGISTERS], "arrays": arrays, "outputs": ["d"],
    }  # fmt: skip
    (folder / DESCRIPTION).write_text(json.dumps(about, indent=1) + "\n")


def captured(bench: Bench, out: pathlib.Path) -> None:
    """Run the suite on the card of a bench, and write it."""
    drawn = cases(settings.arch)
    answers = [answered(bench.device, case) for case in drawn]
    for case in drawn:
        _keep(out / SUITE / "kernels" / case.name, case, kernel(case.form, settings.arch))
    texts = [kernel(case.form, settings.arch).encode() for case in drawn]
    outputs = [data for _, data in answers]
    arrays = {
        "name": np.array([case.name for case in drawn]),
        "ptx_sha256": np.array([hashlib.sha256(text).hexdigest() for text in texts]),
        "status": np.array([code for code, _ in answers], np.int32),
        "output": np.array(["d"] * len(drawn)),
        "output_start": np.arange(len(drawn) + 1),
        "output_sha256": np.array([hashlib.sha256(data.tobytes()).hexdigest() for data in outputs]),
        **ragged("bytes", outputs, np.uint8),
    }
    title = "How mma.sync adds: whole instructions with large terms, their negatives and small ones"
    bench.write(out, SUITE, "launch", title, SEED, len(drawn), arrays)


SUITES: dict[str, Callable[[Bench, pathlib.Path], None]] = {SUITE: captured}
