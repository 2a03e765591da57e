"""docs/faults.md: the faults and what each tool finds of them, made of the recorded results
(tests/data/faults.json).
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from smemsim.core.spec.findings import CODES
from tools.faults.planted import Fault, Planted, all_planted

__all__ = ["DATA", "PAGE", "page", "results"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA, PAGE = ROOT / "tests" / "data" / "faults.json", ROOT / "docs" / "faults.md"
SANITIZER = ("memcheck", "racecheck", "synccheck", "initcheck")
# of the program that launches, not of the kernel
NOISE = ("cuFuncGetParamInfo", "Saved host backtrace", "CUDA API call")


@dataclasses.dataclass(frozen=True)
class Tool:
    """What a tool says of variants: whether it reports anything, and whether at one of the fault's lines."""

    name: str
    finds: Callable[[Mapping[str, Any]], bool]
    lines: Callable[[Mapping[str, Any], Fault], bool]


def results() -> dict[str, Any]:
    """The recorded results: `device`, `here` and `card`, each of the last two by variant."""
    return dict(json.loads(DATA.read_text(encoding="utf-8")))


def reports(row: Mapping[str, Any], tool: str) -> list[str]:
    """What a tool of compute-sanitizer reports of the kernel."""
    return [text for text in row.get(tool, {}).get("reports", []) if not any(word in text for word in NOISE)]


def _sanitizer(tool: str) -> Tool:
    return Tool(tool, lambda row: bool(reports(row, tool)), lambda row, fault: bool(fault.lines & {*row.get(tool, {}).get("lines", ())}))


def _row(name: str, kernels: list[Planted], rows: Mapping[str, Any], tools: list[Tool]) -> str:
    found = right = false = of = 0
    for kernel in kernels:
        clean = rows.get(f"{kernel.name}/0", {})
        false += any(tool.finds(clean) for tool in tools)
        for fault in kernel.faults:
            row = rows.get(fault.name)
            if row is None:
                continue
            hits = [tool for tool in tools if _counts(tool, row, fault, clean)]
            of += 1
            found += bool(hits)
            right += any(tool.lines(row, fault) for tool in hits)
    return f"| {name} | {found} of {of} | {right} | {false} of {len(kernels)} |"


def _counts(tool: Tool, row: Mapping[str, Any], fault: Fault, clean: Mapping[str, Any]) -> bool:
    """Does a tool find the fault? If it reports something for the correct kernel too, only a report of
    the fault's lines counts.
    """
    return tool.finds(row) and (tool.lines(row, fault) or not tool.finds(clean))


def _clean(*, card: Mapping[str, Any] | None = None, here: Mapping[str, Any]) -> str:
    """What the tools report for the correct kernel, as a paragraph, or ""."""
    alarms = [f"{tool} reports it as faulty" for tool in SANITIZER if card is not None and reports(card, tool)]
    if here["found"]:
        alarms.append(f"smemsim has the remark {_link(here['code'])}")
    return f"The correct kernel: {', '.join(alarms)}." if alarms else ""


def _link(code: str) -> str:
    return f"[{code}](../sim/smemsim/explanations/{code}.md)" if code in CODES else code


def _here() -> Tool:
    return Tool("smemsim", lambda row: bool(row["found"]), lambda row, fault: bool(row["right"]))


def page() -> str:
    """The text of docs/faults.md."""
    told = results()
    kernels, others = ([kernel for kernel in all_planted() if (kernel.shape.arch == "sm_90a") == is_hopper] for is_hopper in (True, False))
    card, here = told["card"], told["here"]
    wrong = sum(card[f.name]["plain"]["ends"] != "right" for k in kernels for f in k.faults if f.name in card)
    known = sum(f.name in card for k in kernels for f in k.faults)
    lines = [
        "# Planted faults", "",
        "This page shows which faults smemsim finds in CUDA kernels, and which ones NVIDIA's compute-sanitizer finds. Read it to see what you can rely on. A *planted* fault "
        "is one change that makes a correct kernel wrong.", "",
        f"{sum(len(k.faults) for k in kernels)} faults were planted in {len(kernels)} kernels for Hopper (`tools/faults/sources/`), one at a time. nvcc 13.0 compiled each to "
        f"PTX. smemsim ran the PTX without a GPU. An {told['device']['gpu']} (driver {told['device']['driver']}) ran the same PTX, first without a tool, then with each tool of "
        "compute-sanitizer.", "",
        f"On the card {wrong} of the {known} faults gave a wrong result, an error or a hang. With the others it computed the right numbers, as it often does with a race.", "",
        "| tool | found | right | false alarms |", "|---|---|---|---|",
        *(_row(tool, kernels, card, [_sanitizer(tool)]) for tool in SANITIZER),
        _row("all four", kernels, card, [_sanitizer(tool) for tool in SANITIZER]),
        _row("**smemsim**", kernels, here, [_here()]), "",
        "- *Found*: the tool reports something for the faulty kernel, and nothing for the correct one. "
        "If it reports something for the correct one too, a report counts only at a line of the fault.",
        "- *Right*: the tool found the fault, and reports a line of the fault or of its effect. "
        "For smemsim, the first finding must be at such a line, and its code must name the cause.",
        "- *False alarms*: correct kernels for which the tool reports something. Their sections below name the tool. "
        "A false alarm of smemsim is a remark, which does not change the exit code.",
        "- A hang counts as found only if the tool reports something. No tool of compute-sanitizer says that the kernel hangs.",
        "- *all four*: at least one of the four tools.", "",
        "Each kernel has a table below. *Found by compute-sanitizer* lists the tools that found the fault, a dash none. "
        "*Found by smemsim* is the code of its first finding:", "",
        "- A code without brackets: the fault is found and right.",
        "- A code in brackets: the fault is found, but not right. The code names another cause, or the finding is at another line.",
        "- *not found* with a code in brackets: smemsim reports this code, but not at a line of the fault. It reports something for the correct kernel too. "
        "So this report does not count, and the fault is not found.",
        "- *Unmodelled*: smemsim stops at the fault and names its line. This counts as found and as right.",
        "- The numbers have gaps. Each fault that is planted today has a row.", "",
        "The kernels:", "",
        *(f"- [{kernel.name}](#{kernel.name})" for kernel in [*kernels, *others]), "",
        "`python -m tools.faults table` makes this page from `tests/data/faults.json`. `python -m tools.faults run` (no GPU) and `python -m tools.faults card` "
        "(on a Hopper GPU) write that file.", "",
    ]  # fmt: skip
    for kernel in kernels:
        lines += [
            f"## {kernel.name}",
            "",
            kernel.says,
            "",
            *_paragraph(_clean(card=card.get(f"{kernel.name}/0"), here=here[f"{kernel.name}/0"])),
            "| number | kind of fault | the fault | result on the card | found by compute-sanitizer | found by smemsim |",
            "|---|---|---|---|---|---|",
        ]
        for fault in kernel.faults:
            lines.append(_fault(fault, card, here))
        lines.append("")
    return "\n".join(_filled(line) for line in [*lines, *_blackwell(others, here)])


def _filled(line: str) -> str:
    """A paragraph or an item of a list in lines of at most 120 characters; tables and headings stay."""
    if line.startswith(("|", "#")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _blackwell(kernels: list[Planted], here: Mapping[str, Any]) -> list[str]:
    """The faults in kernels that no card at hand runs."""
    lines = [
        "# Planted faults on Blackwell", "",
        f"{sum(len(k.faults) for k in kernels)} faults were planted in the same way in {len(kernels)} kernels for sm_100a. These kernels have tcgen05, tensor memory, pairs of CTAs and "
        "clusterlaunchcontrol. There was no Blackwell GPU, so only smemsim ran them.", "",
        "| tool | found | right | false alarms |", "|---|---|---|---|", _row("**smemsim**", kernels, here, [_here()]), "",
        "The columns mean what they mean above. The last column of each table says whether the kernel's output was right under smemsim.", "",
        "Two changes were tried that are no faults:", "",
        "- A missing `tcgen05.relinquish_alloc_permit`. The instruction only lets other CTAs of the SM allocate sooner.",
        "- `tcgen05.fence` was left out between two threads whose barrier releases and acquires. By the PTX ISA (9.7.16.6.3) such a barrier orders tcgen05 instructions too.", "",
    ]  # fmt: skip
    for kernel in kernels:
        lines += [
            f"## {kernel.name}",
            "",
            kernel.says,
            "",
            *_paragraph(_clean(here=here[f"{kernel.name}/0"])),
            "| number | kind of fault | the fault | found by smemsim | result in smemsim |",
            "|---|---|---|---|---|",
        ]
        for fault in kernel.faults:
            row = here.get(fault.name)
            ends = "not run" if row is None else "right" if row["equal"] else "wrong"
            lines.append(f"| {fault.number} | {fault.kind} | {fault.says} | {_mine(fault, here)} | {ends} |")
        lines.append("")
    return lines


def _paragraph(text: str) -> list[str]:
    return [text, ""] if text else []


def _mine(fault: Fault, here: Mapping[str, Any]) -> str:
    """What smemsim reports first."""
    row = here.get(fault.name)
    if row is None or not row["found"]:
        return "not run" if row is None else "not found"
    code = _link(row["code"])
    if not _counts(_here(), row, fault, here[f"{fault.kernel}/0"]):
        return f"not found ({code})"
    return code if row["right"] else f"({code})"


def _fault(fault: Fault, card: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    row = card.get(fault.name)
    ends, tools = "not run", "not run"
    if row is not None:
        clean = card.get(f"{fault.kernel}/0", {})
        ends, tools = row["plain"]["ends"], ", ".join(t for t in SANITIZER if _counts(_sanitizer(t), row, fault, clean)) or "–"
    return f"| {fault.number} | {fault.kind} | {fault.says} | {ends} | {tools} | {_mine(fault, here)} |"
