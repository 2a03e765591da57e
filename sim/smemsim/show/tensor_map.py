"""A tensor map as a person wants to see it: the encode call that makes it, what a transfer moves, what is odd about it, its bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smemsim.addressing.tma import row_pitch, tile_size
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import Unmodelled
from smemsim.show.descriptor import finding_lines
from smemsim.show.plain import Line
from smemsim.spec.evidence import Grade
from smemsim.spec.tensor_map import LIMITS, SWIZZLE_ARCHITECTURES, TENSOR_MAP, WIDE_IS_IM2COL, Interleave

__all__ = ["map_grades", "refused_json", "refused_view", "tensor_map_json", "tensor_map_view", "unknown_fields"]

_CALLS = {"tiled": "cuTensorMapEncodeTiled", "im2col": "cuTensorMapEncodeIm2col", "im2col_wide": "cuTensorMapEncodeIm2colWide"}
_SLICES = {Interleave.INTERLEAVE_16B: 16, Interleave.INTERLEAVE_32B: 32}


def unknown_fields(tm: TensorMap) -> list[str]:
    """Fields whose bits are not what the encoder writes for these arguments, with what they hold."""
    if not tm.unknown_bits:
        return []
    raw = int.from_bytes(bytes(tm), "little")
    fields = [(name, TENSOR_MAP.fields[name]) for name in tm.unknown_fields]
    return [f"word {f.low // 32}, bits {f.high % 32}:{f.low % 32} ({name.lstrip('_')}): {f.raw(raw):#x}" for name, f in fields]


def map_grades(tm: TensorMap, arch: str | None) -> dict[str, Grade | None]:
    """What the map's bits and the verdict on it rest on; None where nobody knows the bits."""
    newer = not tm.type_row.sm90 or tm.swizzle in SWIZZLE_ARCHITECTURES
    if tm.is_im2col_wide and arch not in WIDE_IS_IM2COL:
        return {"bits": None, "rules": Grade.DOCUMENTED}
    if newer or arch not in (None, "sm_90a"):
        return {"bits": Grade.COMPILED, "rules": Grade.DOCUMENTED}
    return {"bits": Grade.MEASURED, "rules": Grade.MEASURED}


def _grade_line(tm: TensorMap, arch: str | None) -> str:
    grades = map_grades(tm, arch)
    if grades["bits"] is Grade.MEASURED:
        return "bits and rules: measured (driver 580 on an H200)"
    bits = grades["bits"] or "in no document"
    return f"rules: {grades['rules']}, bits: {bits} (nothing is measured on Blackwell)"


def _moves(tm: TensorMap, arch: str | None) -> str:
    """One line on what a transfer moves."""
    if tm.interleave:
        return f"interleaved: dimension 0 counts slices of {_SLICES[tm.interleave]} B, not elements"
    wide = tm.is_im2col_wide and arch not in WIDE_IS_IM2COL
    elements = tm.channels_per_pixel if tm.is_im2col else tm.box_dim[0]
    if tm.is_im2col:
        rows = LIMITS.wide_pixels if wide and tm.wide_mode == "W128" else tm.pixels_per_column
    else:
        rows = math.prod(tile_size(box, step) for box, step in zip(tm.box_dim[1:], tm.element_strides[1:], strict=True))
    row = tm.type_row
    inner = elements * row.bits // 8
    shared = elements if row.swizzles else inner  # 16 elements to a 16-byte chunk, gap included
    pitch = row_pitch(shared, tm.swizzle_mode.width)
    what = f"{rows} {'pixels' if tm.is_im2col else 'rows'} of {inner} B"
    if row.swizzles:
        what += f", in shared memory {shared} B with a gap in every 16"
    pattern = f"; pattern repeats every {tm.swizzle_mode.period} B" if tm.swizzle_mode.mask else ""
    halo = ", halo pixels besides" if wide else ""
    return f"{what}, {pitch} B apart in shared memory; {inner * rows} B on the barrier{halo}{pattern}"


def _words(tm: TensorMap) -> list[Line]:
    """The 128 bytes as 32 little-endian words."""
    try:
        raw = bytes(tm)
    except Unmodelled as e:
        return [Line([(str(e), "dim")])]
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
    return [
        Line([(f"{4 * i:#04x}: ", "dim"), (" ".join(f"0x{word:08x}" for word in words[i : i + 8]), "")]) for i in range(0, len(words), 8)
    ]


def tensor_map_view(tm: TensorMap, arch: str | None = None, *, width: int = 160) -> list[Line]:
    """The whole view in lines, judged for an architecture or for all of them."""
    where = f"  {arch}" if arch else ""
    lines = [Line([(_CALLS[tm.call], "bold"), (f"  rank {tm.rank}{where}", "")]), Line([(repr(tm), "dim")]), Line()]
    names = max(map(len, tm.arguments))
    for name, value in tm.arguments.items():
        if name == "global_address":
            shown = f"{value:#x}"
        elif hasattr(value, "name"):
            shown = value.name if value in SWIZZLE_ARCHITECTURES and value.name == "SWIZZLE_96B" else f"{value.name} = {int(value)}"
        else:
            shown = str(value)
        lines.append(Line([(f"{name:<{names}}  ", "cyan"), (shown, "")]))
    lines += [Line(), Line([(_moves(tm, arch), "")])]
    lines += [Line([(f"refused: {sentence}", "red")]) for sentence in tm.broken_on(arch)]
    lines += [Line([(f"unknown bits: {field}", "yellow")]) for field in unknown_fields(tm)]
    findings = tm.problems(arch)
    if findings:
        lines += [Line(), *finding_lines(findings, width)]
    return [*lines, Line(), *_words(tm), Line(), Line([(_grade_line(tm, arch), "dim")])]


def tensor_map_json(tm: TensorMap, arch: str | None = None) -> dict[str, Any]:
    """The same for programs; `bytes` and `words` are null where nobody knows them."""
    try:
        raw = bytes(tm)
    except Unmodelled:
        raw = None
    return {
        "mode": tm.call,
        "arch": arch,
        "rank": tm.rank,
        "arguments": {name: value.name if hasattr(value, "name") else value for name, value in tm.arguments.items()},
        "codes": {name: int(value) for name, value in tm.arguments.items() if hasattr(value, "name")},
        "bytes": raw.hex() if raw else None,
        "words": [f"0x{int.from_bytes(raw[i : i + 4], 'little'):08x}" for i in range(0, len(raw), 4)] if raw else None,
        "violations": list(tm.broken_on(arch)),
        "unknown_bits": unknown_fields(tm),
        "findings": [{**vars(f), "severity": str(f.severity)} for f in tm.problems(arch)],
        "grades": {name: None if grade is None else str(grade) for name, grade in map_grades(tm, arch).items()},
    }


def refused_view(violations: Sequence[str]) -> list[Line]:
    """What a call that the driver refuses breaks, a line each."""
    return [Line([("refused: ", "red"), (sentence, "")]) for sentence in violations]


def refused_json(violations: Sequence[str]) -> dict[str, Any]:
    """The same for programs."""
    return {"violations": [str(v) for v in violations], "rules": [getattr(v, "rule", "") for v in violations]}
