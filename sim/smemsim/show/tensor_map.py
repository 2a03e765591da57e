"""A tensor map as a person wants to see it: the encode call that makes it, what a transfer moves, what is odd about it,
its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from smemsim.base.errors import Unmodelled
from smemsim.core.finding import Finding
from smemsim.core.layout.tma import row_pitch, tile_size
from smemsim.core.picture.table import Line
from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.fields import Field
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.tensor_map import (
    DERIVED_FIELDS,
    LIMITS,
    SWIZZLE_ARCHITECTURES,
    TENSOR_MAP,
    VERSIONS,
    WIDE_IS_IM2COL,
    Interleave,
    TensorMapSwizzle,
    grade_unread,
)
from smemsim.core.spec.transfers import ENCODE_CALLS
from smemsim.core.words.tensor_map import TensorMap
from smemsim.core.words.tensor_map.arguments import ENUMS, members
from smemsim.core.words.tensor_map.rules import target, violations
from smemsim.show.words import finding_lines

__all__ = ["map_grades", "refused_json", "refused_view", "tensor_map_json", "tensor_map_view", "unknown_fields", "verdict"]


MEASURED = "sm_90a"
# the only answer of a driver that refuses a map: traces encode_tiled, encode_im2col
REFUSED = "CUDA_ERROR_INVALID_VALUE (1)"
_SLICES = {Interleave.INTERLEAVE_16B: 16, Interleave.INTERLEAVE_32B: 32}


def unknown_fields(tm: TensorMap) -> list[str]:
    """Fields whose bits differ from the encoder's for these arguments. Each names both values and the effect.

    >>> unknown_fields(TensorMap.from_bytes(bytes(64) + bytes([0, 4]) + bytes(62)))[0]
    'derived bits: word 16, bits 31:0 (box_bytes): 0x400, the encoder writes 0x1; no effect on Hopper (measured), nor on Blackwell (compiled)'
    """
    if not tm.unknown_bits:
        return []
    raw = int.from_bytes(bytes(tm), "little")
    return [_unknown(name, TENSOR_MAP.fields[name], raw, tm.unknown_bits, tm.type_row.code.name) for name in tm.unknown_fields]


def _unknown(name: str, field: Field, raw: int, differing: int, data_type: str) -> str:
    bits = f"bit {field.high % 32}" if field.high == field.low else f"bits {field.high % 32}:{field.low % 32}"
    where = f"word {field.low // 32}, {bits} ({name.lstrip('_')}): {field.raw(raw):#x}"
    if name == "to_tf32":
        return f"stale bit: {where}, conversion to TF32, which {data_type} has not; tensormap.replace of the element type leaves it behind"
    effect = "no effect on Hopper (measured)"
    newer = grade_unread(name, field.raw(raw), "sm_100a")
    if newer is not None:
        effect += f", nor on Blackwell ({newer})"
    if name in DERIVED_FIELDS:
        return f"derived bits: {where}, the encoder writes {field.raw(raw ^ differing):#x}; {effect}"
    if name == "version" and field.raw(raw) in VERSIONS:
        return f"version: {where}, as CuTe DSL's host code writes it, the driver {field.raw(raw ^ differing):#x}; {effect}"
    if name.startswith("_") or name == "version":
        return f"unknown bits: {where}, {'the driver writes 0' if newer else 'no encoder writes them'}; {effect}"
    return f"unknown bits: {where}, the encoder writes {field.raw(raw ^ differing):#x}{'' if newer is None else '; ' + effect}"


def verdict(tm: TensorMap, arch: str | None) -> str:
    """The answer of the encode call to these arguments, on an architecture or on each of them.

    >>> tm = TensorMap.tiled(data_type="u8", global_address=64, global_dim=(64,), global_strides=(), box_dim=(64,))
    >>> verdict(tm, "sm_90a")
    'cuTensorMapEncodeTiled: accepted on sm_90a (driver 580, measured)'
    """
    call = ENCODE_CALLS[tm.call]
    if tm.swizzle is TensorMapSwizzle.SWIZZLE_96B:
        return "no encode call makes this map: tensormap.replace sets SWIZZLE_96B, on sm_103a"
    broken = {name: violations(tm, tm.call, target(name, encode=True)) for name in ([arch] if arch else ARCHITECTURES)}
    accepted = [name for name, sentences in broken.items() if not sentences]
    refused = {name: sentences for name, sentences in broken.items() if sentences}
    if not accepted:
        return f"{call}: refused on {_on(list(refused))}: {REFUSED}"
    text = f"{call}: accepted on {_on(accepted)}"
    return f"{text}; refused on {_on(list(refused))}: {next(iter(refused.values()))[0].message}" if refused else text


def _on(names: Sequence[str]) -> str:
    """
    >>> _on(["sm_90a", "sm_100a", "sm_103a"])
    'sm_90a (driver 580, measured), sm_100a and sm_103a (documented or inferred, not measured)'
    """
    newer = " and ".join(name for name in names if name != MEASURED)
    parts = [f"{MEASURED} (driver 580, measured)"] if MEASURED in names else []
    return ", ".join([*parts, *([f"{newer} (documented or inferred, not measured)"] if newer else [])])


def map_grades(tm: TensorMap, arch: str | None) -> dict[str, Grade | None]:
    """The grades of the map's bits and of the driver's answer; None if the bits are not known."""
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
        return _slices_moved(tm)
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
    what = f"{rows} {'pixel' if tm.is_im2col else 'row'}{'s' if rows != 1 else ''} of {inner} B"
    if row.swizzles:
        what += f", in shared memory {shared} B with a gap in every 16"
    pattern = f"; pattern repeats every {tm.swizzle_mode.period} B" if tm.swizzle_mode.mask else ""
    halo = ", halo pixels besides" if wide else ""
    return f"{what}, {pitch} B apart in shared memory; {inner * rows} B on the barrier{halo}{pattern}"


def _slices_moved(tm: TensorMap) -> str:
    """One line on what a transfer with interleave moves: dense rows of 16- or 32-byte slices (traces tma_interleave,
    tma_im2col_interleave).
    """
    size = _SLICES[tm.interleave]
    what = f"interleaved: dimension 0 counts slices of {size} B, not elements"
    if tm.is_im2col:
        rows, slices, unit = tm.pixels_per_column, 1, "pixels"
    else:
        tile = [tile_size(box, step) for box, step in zip(tm.box_dim, tm.element_strides, strict=True)]
        rows, slices, unit = math.prod(tile[1:-2]) * tile[-1], tile[0], f"rows (one plane of dimension {tm.rank - 2})"
    inner = slices * size
    pattern = f"; pattern repeats every {tm.swizzle_mode.period} B" if tm.swizzle_mode.mask else ""
    slices_text = f"{slices} slice{'s' if slices > 1 else ''}"
    return f"{what}; {rows} {unit} of {slices_text} = {inner} B, dense in shared memory; {inner * rows} B on the barrier{pattern}"


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


def argument_lines(arguments: Mapping[str, Any]) -> list[Line]:
    """A line for each argument, in its order."""
    names = max(map(len, arguments))
    lines = []
    for name, value in arguments.items():
        if name == "global_address" and isinstance(value, int):
            shown = f"{value:#x}"
        elif hasattr(value, "name"):
            shown = value.name if value in SWIZZLE_ARCHITECTURES and value.name == "SWIZZLE_96B" else f"{value.name} = {int(value)}"
        elif isinstance(value, list):
            shown = str(tuple(value))
        else:
            shown = str(value)
        lines.append(Line([(f"{name:<{names}}  ", "cyan"), (shown, "")]))
        if name == "data_type" and isinstance(dims := arguments.get("global_dim"), (tuple, list)):
            lines.append(Line([(f"{'rank':<{names}}  ", "cyan"), (str(len(dims)), "")]))
    return lines


def tensor_map_view(tm: TensorMap, arch: str | None = None, *, width: int = 160) -> list[Line]:
    """A tensor map as lines of text: arguments, transfer, findings and words, checked for
    one architecture or for all.
    """
    call, colon, answer = verdict(tm, arch).partition(":")
    lines = [Line([(call, "bold"), (colon + answer, "")]), Line([(repr(tm), "dim")]), Line()]
    lines += argument_lines(tm.arguments)
    lines += [Line(), Line([(_moves(tm, arch), "")])]
    lines += [Line([(f"refused: {sentence}", "red")]) for sentence in tm.broken_on(arch)]
    lines += [Line([(field, "yellow")]) for field in unknown_fields(tm)]
    findings = tm.problems(arch)
    if findings:
        lines += [Line(), *finding_lines(findings, width)]
    return [*lines, Line(), *_words(tm), Line(), Line([(_grade_line(tm, arch), "dim")])]


def tensor_map_json(tm: TensorMap, arch: str | None = None) -> dict[str, Any]:
    """A tensor map as JSON: arguments, bytes, verdict and findings. `bytes` and `words` are null where the encoding is
    unknown.
    """
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
        "verdict": verdict(tm, arch),
        "unknown_bits": unknown_fields(tm),
        "findings": [f.as_dict() for f in tm.problems(arch)],
        "grades": {name: None if grade is None else str(grade) for name, grade in map_grades(tm, arch).items()},
    }


def refused_view(
    violations: Sequence[Finding],
    *,
    call: str = "",
    arch: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    hints: Sequence[str] = (),
) -> list[Line]:
    """A call that the driver refuses: its answer, the arguments as they were read, and what they break, a line each."""
    lines = [Line([("refused: ", "red"), (refusal.message, "")]) for refusal in violations]
    lines += [Line([("hint: ", "yellow"), (sentence, "")]) for sentence in hints]
    if not call:
        return lines
    answer = f": refused on {_on([arch] if arch else list(ARCHITECTURES))}: {REFUSED}"
    read = [Line(), *argument_lines(_members(arguments)), Line()] if arguments else []
    return [Line([(ENCODE_CALLS[call], "bold"), (answer, "")]), *read, *lines]


def _members(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they were read, enums as members where they are some."""
    given = {name: value for name, value in arguments.items() if name != "arch"}
    members_found: dict[str, Any] = {}
    for name, value in given.items():
        if name in ENUMS and isinstance(value, (str, int)):
            members(members_found, {name: value})
    return given | {name: value for name, value in members_found.items() if value is not None}


def refused_json(
    violations: Sequence[Finding],
    *,
    call: str = "",
    arch: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    hints: Sequence[str] = (),
) -> dict[str, Any]:
    """A call that the driver refuses, as JSON: the call, the error code, the rules that it breaks, the arguments and
    the hints.
    """
    rules = {"violations": [refusal.message for refusal in violations], "rules": [refusal.rule for refusal in violations]}
    read = {name: getattr(value, "name", value) for name, value in _members(arguments or {}).items()}
    return {"call": ENCODE_CALLS.get(call), "arch": arch, "cuda_error": REFUSED, **rules, "arguments": read, "hints": list(hints)}
