"""A run as one HTML page: what is wrong at which line, with the PTX around it, above the page of what was executed."""

from __future__ import annotations

import html

from smemsim.checking.scenario import check
from smemsim.ptx.demangle import shorter_name
from smemsim.running.findings import RunFinding, shortened, told
from smemsim.running.run import Run
from smemsim.show.page import report_page, tiles_of

__all__ = ["run_page"]

AROUND = 4  # lines of PTX before and behind a finding's
MOST = 40  # findings
STYLE = (
    "<style>.run{max-width:1560px;margin:0 auto;padding:8px 24px}.run pre{overflow-x:auto;margin:4px 0 16px;padding:6px;border:1px solid var(--line);font-size:12px}"
    ".run .at{background:#cf222e22;display:inline-block;min-width:100%}.run .trap>b,.run .wrong>b{color:var(--bad)}.run .luck>b{color:var(--luck)}</style>"
)


def run_page(run: Run) -> str:
    """The page of a run: its findings with excerpts of PTX and source, then `report_page` of the transfers and matrix instructions.

    Nothing is fetched from anywhere.
    """
    launch = run.launch
    report = run.report or check({"arch": launch.arch, "title": f"{shorter_name(launch.program.name)}, as it ran"})
    tiles = tiles_of(report)
    page = report_page(report, tiles, about="Operands and maps")
    found = [*run.findings, *run.remarks]
    parts = [_of(f, run.ptx.splitlines()) for f in found[:MOST]]
    if len(found) > MOST:
        parts.append(f"<p>and {len(found) - MOST} more</p>")
    rests = "".join(f"<li>{html.escape(line)}" for line in run.evidence)
    printed = f"<h3>printf</h3><pre>{html.escape(run.output)}</pre>" if run.output else ""
    none = "" if tiles else "<p class=dim>There is no operand of a matrix instruction to draw that came through TMA.</p>"
    section = (
        f"{STYLE}<section class=run aria-labelledby=hr><h2 id=hr>{html.escape(run.summary())}</h2>{''.join(parts)}{printed}"
        f"{f'<ul>{rests}</ul>' if rests else ''}{none}</section>"
    )
    head, main, rest = page.partition("<main>")
    return head + section + ("<main hidden>" if none else main) + rest


def _of(f: RunFinding, ptx: list[str]) -> str:
    repair = f"<br>repair: {html.escape(told(f.repair))}" if f.repair else ""
    because = f"<br>{html.escape(f.because)}" if f.because else ""
    others = f"<br>{html.escape(f.others())}" if f.count > 1 else ""
    said = f"<div class={f.severity}><b>{f.severity} {html.escape(f.code)}</b> {html.escape(f.where)}: {html.escape(told(f.message))}{repair}{because}{others}</div>"
    return said + (f"<pre>{_excerpt(f, ptx)}</pre>" if f.line else "")


def _excerpt(f: RunFinding, ptx: list[str]) -> str:
    """Lines of the PTX around a finding's, and the line of its source."""
    lines = []
    for number in range(max(1, f.line - AROUND), min(len(ptx), f.line + AROUND) + 1):
        text = html.escape(f"{number:6} | {shortened(ptx[number - 1])}")
        lines.append(f"<span class=at>{text}</span>" if number == f.line else text)
    return "\n".join(lines + [html.escape(line) for line in f.excerpt()[1:]])
