"""A shared-memory descriptor as a person wants to see it: the bit ruler, every field with its meaning, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smemsim.descriptors.layout import rules_in_force, weakest
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.show.plain import Line
from smemsim.show.word import field_lines, finding_json, finding_lines, ruler_lines
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Finding
from smemsim.spec.swizzles import MODES, Swizzle
from smemsim.words import Field

__all__ = ["descriptor_json", "descriptor_view"]


def _meaning(d: SmemDescriptor, name: str, major: str | None = None) -> str:
    """One line for people: what the field is and what it walks, for both major-nesses unless one is known."""
    mode = MODES.get(d.swizzle)
    swizzled = d.swizzle not in (Swizzle.NONE, Swizzle.INVALID)
    width = mode.width if mode else 0
    walks = {
        ("leading_byte_offset", True): {"K": f"used past {width} bytes of K only", "MN": f"next {width} bytes of M/N"},
        ("leading_byte_offset", False): {"K": "next 16-byte column of K", "MN": "next 8 K"},
        ("stride_byte_offset", True): {"K": "next 8 rows", "MN": f"next {mode.k_rows if mode else 8} K"},
        ("stride_byte_offset", False): {"K": "next 8 rows", "MN": "next 16-byte column of M/N"},
    }.get((name, swizzled))
    if walks and not (name == "leading_byte_offset" and d.lbo_mode):
        return walks[major] if major else "; ".join(f"{which}-major: {what}" for which, what in walks.items())
    if name == "leading_byte_offset":
        return f"address {d.leading_byte_offset:#x} of the buffer that continues the row"
    if name == "start_address":
        phase = f", {d.start_address % mode.period} B into a {mode.period} B pattern" if mode and swizzled else ""
        return f"{d.start_address:#x} in the .shared window{phase}"
    if name == "base_offset":
        return "pattern starts on its natural boundary" if not d.base_offset else f"pattern starts {d.base_offset} lines of 128 B off"
    if name == "lbo_mode":
        return "absolute: LBO is an address" if d.lbo_mode else "relative: LBO is a distance"
    if name == "layout_type":
        cute = f", {mode.cute} on byte addresses" if mode and mode.cute else ""
        return f"{d.swizzle}{cute}" if d.swizzle is not Swizzle.INVALID else "no swizzle mode has this code"
    field = d.table.fields[name]
    label = "constant" if name == "constant" else "reserved"
    return label if field.raw(d.word) == field.want else f"{label}: the manual wants {field.want:#b}"


def _fields(d: SmemDescriptor, major: str | None) -> list[Line]:
    def number(_: str, field: Field) -> str:
        return f"{field.value(d.word)}" if field.unit == "B" else ""

    return field_lines(d.table, d.word, "bytes", number, lambda name: _meaning(d, name, major))


def descriptor_view(d: SmemDescriptor, findings: Sequence[Finding], *, major: str | None, context: bool, width: int) -> list[Line]:
    """The whole view in lines; `major` where it is known, `context` says whether the findings were made with the operand known."""
    arch = architecture(d.arch)
    head = [Line([(f"{d.word:#018x}", "bold"), (f"  {d.arch} ({arch.instruction})", "")]), Line([(repr(d), "dim")])]
    rules = [] if d.swizzle is Swizzle.INVALID else rules_in_force(d, arch, major=major)
    where = "against an H200" if d.arch == "sm_90a" else "nothing is measured on Blackwell"
    lines = [*head, Line(), *ruler_lines(d.table, d.word), Line(), *_fields(d, major), Line()]
    lines += finding_lines(findings, width) if findings else [Line([("no problem found", "green")])]
    lines.append(Line())
    if not context:
        lines.append(Line([("more can be said with --dtype, --major, --rows and --k", "dim")]))
    if rules:
        names = ", ".join(rule.name for rule in rules)
        lines.append(Line([(f"address rules: {weakest(rules, arch)} ({where}); {names}", "dim")]))
    return lines


def descriptor_json(d: SmemDescriptor, findings: Sequence[Finding], *, major: str | None = None) -> dict[str, Any]:
    """The same for programs; `grade` is null where nobody knows what hardware reads."""
    arch = architecture(d.arch)
    rules = [] if d.swizzle is Swizzle.INVALID else rules_in_force(d, arch, major=major)
    return {
        "word": f"{d.word:#018x}",
        "arch": d.arch,
        "start_address": d.start_address,
        "leading_byte_offset": d.leading_byte_offset,
        "stride_byte_offset": d.stride_byte_offset,
        "base_offset": d.base_offset,
        "swizzle": str(d.swizzle),
        "layout_code": d.layout_code,
        "lbo_mode": d.lbo_mode.name.lower(),
        "fields": {
            name: {"bits": [field.high, field.low], "raw": field.raw(d.word), "value": field.value(d.word), "meaning": _meaning(d, name)}
            for name, field in d.table.fields.items()
        },
        "grade": str(weakest(rules, arch)) if rules else None,
        "rules": [rule.name for rule in rules],
        "findings": [finding_json(f) for f in findings],
    }
