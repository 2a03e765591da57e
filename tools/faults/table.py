"""docs/faults.md: the faults and what each tool finds of them, made of the recorded results (tests/data/faults.json)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from tools.faults.planted import Fault, Planted, all_planted

__all__ = ["DATA", "PAGE", "page", "results"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA, PAGE = ROOT / "tests" / "data" / "faults.json", ROOT / "docs" / "faults.md"
SANITIZER = ("memcheck", "racecheck", "synccheck", "initcheck")
NOISE = ("cuFuncGetParamInfo", "Saved host backtrace", "CUDA API call")  # of the program that launches, not of the kernel


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
            hits = [tool for tool in tools if tool.finds(row) and (tool.lines(row, fault) or not tool.finds(clean))]
            of += 1
            found += bool(hits)
            right += any(tool.lines(row, fault) for tool in hits)
    return f"| {name} | {found} of {of} | {right} | {false} of {len(kernels)} |"


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
        f"{sum(len(k.faults) for k in kernels)} faults in {len(kernels)} Hopper kernels (`tools/faults/sources/`). Each changes one place of a correct kernel, compiled by nvcc 13.0. smemsim runs their "
        f"PTX. An {told['device']['gpu']} (driver {told['device']['driver']}) ran the same PTX without a tool and under NVIDIA's compute-sanitizer. {wrong} of the "
        f"{known} faults gave a wrong result, an error or a hang there. With the others the card computed the right numbers.", "",
        "- *Found*: the tool reports something for the kernel, and more than for the correct one.",
        "- *Right*: a report is at a line of the fault or of its effect. For smemsim it must be the first finding, with a code that names the cause.",
        "- *False alarms*: correct kernels with a report. Those of smemsim are remarks, which do not change the exit code.", "",
        "In the tables below, the last column is the first finding of smemsim. A code in brackets names another cause than the fault: found, but not right. *Unmodelled* "
        "means that smemsim stops at the fault and says why. Numbers that are missing are not used.", "",
        "| tool | found | right | false alarms |", "|---|---|---|---|",
        *(_row(tool, kernels, card, [_sanitizer(tool)]) for tool in SANITIZER),
        _row("all four", kernels, card, [_sanitizer(tool) for tool in SANITIZER]),
        _row("**smemsim**", kernels, here, [_here()]), "",
        "A hang counts as found only if the tool reports it. No tool of compute-sanitizer ended one here.", "",
        "`python -m tools.faults table` makes this page from `tests/data/faults.json`. `python -m tools.faults run` (no GPU) and `python -m tools.faults card` "
        "(on a Hopper GPU) write that file.", "",
    ]  # fmt: skip
    for kernel in kernels:
        lines += [
            f"## {kernel.name}",
            "",
            kernel.says,
            "",
            "| | kind | fault | on the card | compute-sanitizer | smemsim |",
            "|---|---|---|---|---|---|",
        ]
        for fault in kernel.faults:
            lines.append(_fault(fault, card.get(fault.name), here.get(fault.name)))
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
        f"{sum(len(k.faults) for k in kernels)} faults in {len(kernels)} kernels with tcgen05, tensor memory, pairs of CTAs and clusterlaunchcontrol, made in the same way for sm_100a. Only "
        "smemsim has run them: there was no Blackwell GPU. So there are no results of a card, and of no other tool.", "",
        "| tool | found | right | false alarms |", "|---|---|---|---|", _row("**smemsim**", kernels, here, [_here()]), "",
        "These are no faults:", "",
        "- A missing `tcgen05.relinquish_alloc_permit`: it lets other CTAs of the SM allocate sooner.",
        "- A missing `tcgen05.fence` if the barrier between the two threads releases and acquires. In the PTX ISA (9.7.16.6.3) the ordinary memory model orders tcgen05 instructions too.", "",
    ]  # fmt: skip
    for kernel in kernels:
        lines += [f"## {kernel.name}", "", kernel.says, "", "| | kind | fault | smemsim | outputs |", "|---|---|---|---|---|"]
        for fault in kernel.faults:
            row = here.get(fault.name)
            ends = "not run" if row is None else "right" if row["equal"] else "wrong"
            lines.append(f"| {fault.number} | {fault.kind} | {fault.says} | {_mine(row)} | {ends} |")
        lines.append("")
    return lines


def _mine(row: Mapping[str, Any] | None) -> str:
    """What smemsim says first."""
    return "not run" if row is None else "–" if not row["found"] else row["code"] if row["right"] else f"({row['code']})"


def _fault(fault: Fault, card: Mapping[str, Any] | None, here: Mapping[str, Any] | None) -> str:
    tools = "not run" if card is None else ", ".join(t for t in SANITIZER if reports(card, t)) or "–"
    ends = "not run" if card is None else card["plain"]["ends"]
    return f"| {fault.number} | {fault.kind} | {fault.says} | {ends} | {tools} | {_mine(here)} |"
