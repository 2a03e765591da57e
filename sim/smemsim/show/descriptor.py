"""A shared-memory descriptor as a person wants to see it: the bit ruler, every field with its meaning, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smemsim.descriptors.layout import rules_in_force, weakest
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Finding
from smemsim.spec.swizzles import MODES, Swizzle

__all__ = ["descriptor_json", "descriptor_view"]

SEVERITY_STYLE = {"trap": "bold red", "wrong": "red", "luck": "yellow", "note": "cyan"}
FIELD_STYLES = ("cyan", "green", "magenta", "yellow", "blue")


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


def _ruler(d: SmemDescriptor) -> Text:
    """The 64 bits in their fields, with the bit numbers above."""
    numbers, bits, marks = Text(), Text(), Text()
    ordered = sorted(d.table.fields.items(), key=lambda item: -item[1].low)
    letter = iter("abcdefghijklmnop")
    for i, (_, field) in enumerate(ordered):
        label = str(field.high) if field.width < 5 else f"{field.high}{field.low:>{field.width - len(str(field.high))}}"
        width = max(field.width, len(label))
        style = "dim" if field.want is not None else FIELD_STYLES[i % len(FIELD_STYLES)]
        numbers.append(f"{label:<{width}} ", "dim")
        bits.append(f"{field.raw(d.word):0{field.width}b}".ljust(width) + " ", style)
        marks.append(f"{next(letter):<{width}} ", style)
    return Text("\n").join([numbers, bits, marks])


def _fields(d: SmemDescriptor, major: str | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title, justify in (("", "left"), ("field", "left"), ("bits", "right"), ("raw", "right"), ("bytes", "right"), ("meaning", "left")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    letter = iter("abcdefghijklmnop")
    for i, (name, field) in enumerate(sorted(d.table.fields.items(), key=lambda item: -item[1].low)):
        raw = field.raw(d.word)
        style = "dim" if field.want is not None else FIELD_STYLES[i % len(FIELD_STYLES)]
        span = f"{field.high}:{field.low}" if field.width > 1 else str(field.high)
        in_bytes = f"{field.value(d.word)}" if field.unit == "B" else ""
        shown = name.lstrip("_") if field.want is None or name == "constant" else "reserved"
        table.add_row(Text(next(letter), style), Text(shown, style), span, f"{raw:#x}", in_bytes, _meaning(d, name, major))
    return table


def finding_lines(findings: Sequence[Finding]) -> Text:
    """One finding a paragraph: severity, code, message, what to do, the source."""
    out = Text()
    for f in findings:
        out.append(f"{f.severity:<5} {f.code}  ", SEVERITY_STYLE[f.severity])
        out.append(f.message + "\n")
        if f.repair:
            out.append(f"            {f.repair}\n", "green")
        if f.because:
            out.append(f"            {f.because}\n", "dim")
    return out


def descriptor_view(d: SmemDescriptor, findings: Sequence[Finding], *, major: str | None, context: bool) -> RenderableType:
    """The whole view; `major` where it is known, `context` says whether the findings were made with the operand known."""
    arch = architecture(d.arch)
    head = Text.assemble((f"{d.word:#018x}", "bold"), f"  {d.arch} ({arch.instruction})\n", (repr(d), "dim"))
    rules = [] if d.swizzle is Swizzle.INVALID else rules_in_force(d, arch, major=major)
    where = "against an H200" if d.arch == "sm_90a" else "nothing is measured on Blackwell"
    parts: list[RenderableType] = [head, Text(), _ruler(d), Text(), _fields(d, major), Text()]
    if findings:
        parts.append(finding_lines(findings))
    else:
        parts.append(Text("no problem found\n", "green"))
    if not context:
        parts.append(Text("more can be said with --dtype, --major, --rows and --k", "dim"))
    if rules:
        names = ", ".join(rule.name for rule in rules)
        parts.append(Text(f"address rules: {weakest(rules, arch)} ({where}); {names}", "dim"))
    return Group(*parts)


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
        "findings": [
            {
                "code": f.code,
                "severity": str(f.severity),
                "where": f.where,
                "message": f.message,
                "repair": f.repair,
                "because": f.because,
            }
            for f in findings
        ],
    }
