"""A checked scenario as one HTML page: the findings beside every operand's tile and the shared memory that it reads; nothing is fetched from anywhere."""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from smemsim.checking.report import CheckFinding, Report
from smemsim.checking.scenario import check
from smemsim.checking.simulate import Machine
from smemsim.show.operand import COLOURS
from smemsim.show.page_data import buffer_runs, finding_of, page_data
from smemsim.show.paint import rules
from smemsim.show.tile import TilePicture
from smemsim.show.tile_svg import tile_svg
from smemsim.spec.architectures import architecture

__all__ = ["report_fragment", "report_page", "show_html", "tiles_of"]

MOST_CHUNKS = 16384  # of all interactive pictures together: about 1 MB of numbers
MOST_STILLS = 450_000  # bytes of pictures for readers without scripts, and for paper
MOST_DRAWN = 12


def show_html(scenario: Any) -> str:
    """The page of a scenario: a path, a dict, or the `Report` of one that `check` has run.

    Raises what `check` raises.

    >>> page = show_html({"arch": "sm_90a", "title": "nothing <yet>"})
    >>> "<h1>nothing &lt;yet&gt;</h1>" in page, "http://" in page.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    return report_page(scenario if isinstance(scenario, Report) else check(scenario))


def tiles_of(report: Report) -> list[TilePicture]:
    """A picture of every operand that the scenario's steps read, in their order."""
    machine = report.machine
    return [] if machine is None else [TilePicture.of_seen(machine, seen) for seen in machine.seen]


def report_page(report: Report, tiles: Sequence[TilePicture] | None = None, *, about: str = "") -> str:
    """The page of a report; `tiles` are the operands to draw, all of them where it is left out. `about` says what the findings are about."""
    every = list(tiles_of(report) if tiles is None else tiles)
    drawn, left_out = _chosen(every)
    data = {"operands": []} if report.machine is None else page_data(report.machine, drawn)
    packed = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(report.title or "smemsim report")
    note = (
        f"<p class=dim>Without an interactive picture, which would make this page too large: {html.escape(', '.join(left_out))}.</p>"
        if left_out
        else ""
    )
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel=icon href="data:,"><title>{title}</title><style>{_file("page.css")}{rules()}</style></head><body>
<header><div><h1>{title}</h1><p class=dim>{html.escape(_evidence(report))}</p></div><button id=theme class=live type=button>Dark</button></header>
<main><aside><section aria-labelledby=hf><h2 id=hf>{_headed(about, _counted(report))}</h2>{_findings(report.findings, drawn)}{_remarks(report)}{_unchecked(report)}</section>
{_buffers(report.machine)}</aside>
<div class=work>{_workplace() if drawn else ""}{note}{_stills(every)}</div></main>
<footer>smemsim. Addresses are those of the CTA's .shared window; a chunk is 16 bytes, a line 128.</footer>
<script id=data type=application/json>{packed}</script><script>{_file("page.js")}</script></body></html>
"""


def report_fragment(report: Report) -> str:
    """The findings and the picture of the first wrong operand, or of the first one, as a piece of HTML for a notebook: no script."""
    tiles = sorted((t for t in tiles_of(report) if not t.too_large), key=lambda tile: tile.first_wrong is None)
    style = ".smemsim-report .wrong b,.smemsim-report .trap b{color:#cf222e}.smemsim-report .luck b{color:#9a6700}.smemsim-report li{margin:4px 0}"
    rows = [f"<li class={f.severity}><b>{f.severity} {html.escape(f.code)}</b> {html.escape(f.title or f.where)}: {html.escape(f.message)}"
            + (f"<br>repair: {html.escape(f.repair)}" if f.repair else "") for f in report.findings]  # fmt: skip
    picture = f"<div style='overflow-x:auto'>{tile_svg(tiles[0])}</div>" if tiles else ""
    head = f"<b>{html.escape(report.title)}</b> " * bool(report.title) + html.escape(f"{_counted(report)}. {_evidence(report)}")
    return f"<div class=smemsim-report><style>{style}</style><p>{head}</p><ul>{''.join(rows)}</ul>{picture}</div>"


@functools.cache
def _file(name: str) -> str:
    return resources.files("smemsim.show").joinpath(name).read_text(encoding="utf-8")


def _chosen(tiles: Sequence[TilePicture]) -> tuple[list[TilePicture], list[str]]:
    """Those that fit, wrong ones before right ones, and the names of the others."""
    ordered = sorted(range(len(tiles)), key=lambda i: (tiles[i].first_wrong is None, i))
    room, kept = MOST_CHUNKS, set[int]()
    for i in ordered:
        size = tiles[i].shape[0] * tiles[i].shape[1]
        if size <= room:
            kept.add(i)
            room -= size
    return [t for i, t in enumerate(tiles) if i in kept], [t.title for i, t in enumerate(tiles) if i not in kept]


def _evidence(report: Report) -> str:
    """What the rules rest on, as `Report.text` has it."""
    if not report.arch:
        return ""
    if architecture(report.arch).measured:
        return f"{report.arch}: a rule is measured on an H200 where its picture or finding says measured"
    return f"{report.arch}: documented, compiled or inferred; nothing measured on Blackwell"


def _counted(report: Report) -> str:
    number = len(report.findings)
    told = (
        ""
        if report.expected is None
        else ", as expected"
        if report.as_expected
        else f"; expected were {html.escape(', '.join(report.expected) or 'none')}"
    )
    return f"{number or 'No'} finding{'s' * (number != 1)}{told}"


def _headed(about: str, counted: str) -> str:
    return f"{html.escape(about)}: {counted[0].lower()}{counted[1:]}" if about else counted


def _findings(findings: Sequence[CheckFinding], tiles: list[TilePicture]) -> str:
    """A button for each finding about an operand, a box for each other one."""
    if not findings:
        return "<p class=clean>Every operand that says what it was meant to be reads exactly that.</p>"
    items = []
    for f in findings:
        at = finding_of(tiles, f)
        tag, more = "div", ""
        if at:
            number, (line, column) = at
            tag, more = (
                "button",
                f" type=button data-operand={number} data-chunk={line * tiles[number].shape[1] + column} aria-pressed=false",
            )
        grade = f" ({html.escape(f.grade)})" if f.grade else ""
        why = f"<span class=why>follows from {html.escape(f.because)}</span>" if f.because else ""
        fix = f"<span class=fix>Repair: <code>{html.escape(f.repair)}</code></span>" if f.repair else ""
        items.append(f'<li><{tag} class="finding {f.severity}"{more}><span class=head><span class=sev>{f.severity} {html.escape(f.code)}</span> '
                     f"{html.escape(f.title or f.where)}{grade}</span>{html.escape(f.message)}{fix}{why}</{tag}></li>")  # fmt: skip
    return f"<ol class=findings>{''.join(items)}</ol>"


def _remarks(report: Report) -> str:
    """What needs no change."""
    items = [
        f"<li>{html.escape(one.code)} {html.escape(one.title or one.where)}: {html.escape(one.message)}</li>" for one in report.remarks
    ]
    return f"<h3>Remarks</h3><ul class=dim>{''.join(items)}</ul>" if items else ""


def _unchecked(report: Report) -> str:
    return f"<p class=dim>Not looked at: {html.escape(', '.join(report.unchecked))}</p>" if report.unchecked else ""


def _buffers(machine: Machine | None) -> str:
    """Which issue filled which range of each buffer."""
    if machine is None or not machine.buffers:
        return ""
    parts = []
    for of in buffer_runs(machine):
        size = max(of["end"] - of["begin"], 1)
        strip, rows = [], []
        for begin, end, issue in of["runs"][:64]:
            colour = COLOURS[issue % len(COLOURS)] if issue >= 0 else "transparent"
            strip.append(f'<i style="width:{(end - begin) / size * 100:.3f}%;background:{colour}"></i>')
            text = machine.issues[issue].text if issue >= 0 else "no step wrote it"
            step = f"step {machine.issues[issue].step + 1}: " if issue >= 0 else ""
            rows.append(f"<tr><td class=mono>{begin:#x} to {end - 1:#x}<td class=mono>{end - begin:,} B<td>{html.escape(step + text)}")
        more = f"<tr><td colspan=3>{len(of['runs']) - 64} more ranges" if len(of["runs"]) > 64 else ""
        head = f"<h3>{html.escape(of['name'])} <span class='dim mono'>{of['begin']:#x}, {of['end'] - of['begin']:,} B</span></h3>"
        table = (
            f"<table><tr><th>range<th>bytes<th>written last by{''.join(rows)}{more}</table>"
            if rows
            else "<p class=dim>no step wrote it</p>"
        )
        parts.append(f"{head}<div class=strip aria-hidden=true>{''.join(strip)}</div>{table}")
    return f"<section aria-labelledby=hb><h2 id=hb>Buffers</h2>{''.join(parts)}</section>"


def _workplace() -> str:
    """What the script fills."""
    swatches = "".join(f"<li><i class=k{i}></i>{i}" for i in range(8))
    return f"""<section class=live aria-labelledby=title><h2>Operands</h2><div id=tabs class=tabs role=group aria-label="Operand"></div>
<h3 id=title></h3><p class="dim mono" id=subtitle></p>
<div class=bar id=steps role=group aria-label="Instruction; arrow keys step too"><button id=before type=button aria-label="Previous K step">◀</button>
<span class=where id=step aria-live=polite></span><button id=after type=button aria-label="Next K step">▶</button>
<span class=bar id=blocks style="margin:0"><button id=above type=button aria-label="Previous block">▲</button><span class=where id=block></span>
<button id=below type=button aria-label="Next block">▼</button></span><span class="dim mono">descriptor <span id=word></span></span></div>
<div class=bar id=strides role=group aria-label="Strides of the first descriptor"></div>
<div class=views><div class=view><p id=tilename></p><div class=grid id=tile tabindex=0 role=group aria-labelledby=tilename aria-describedby=info></div></div>
<div class=view><p id=memoryname></p><div class=grid id=memory tabindex=0 role=group aria-labelledby=memoryname aria-describedby=info></div></div></div>
<ul class=legend>{swatches} chunk column before swizzling (mod 8)<li><i class="k7 one"></i>the selected instruction reads it<li><i class="k7 bad"></i>other than was meant
<li><i class=stray></i>data of no chunk of this tile<li><i class=missed></i>meant, but read nowhere<li><i class=none></i>not read</ul>
<div class=info id=info aria-live=polite></div><p class=dim id=grade></p></section>"""


def _stills(tiles: list[TilePicture]) -> str:
    """Pictures that need no script, the first wrong operand first; the first of them is printed."""
    parts, room = list[str](), MOST_STILLS
    ordered = sorted((t for t in tiles if not t.too_large), key=lambda t: t.first_wrong is None)
    left = [tile.name for tile in tiles if tile.too_large]
    left += [tile.name for tile in ordered[MOST_DRAWN:]]
    for tile in ordered[:MOST_DRAWN]:
        picture = tile_svg(tile, style="", hover=False)
        if len(picture) > room and parts:
            left.append(tile.name)
            continue
        room -= len(picture)
        parts.append(f'<div class="still{"" if parts else " first"}">{picture}</div>')
    if not parts:
        return ""
    rest = (
        f"<p class=dim>Not drawn here: {html.escape(', '.join(left))}; <code>smemsim show --operand</code> draws one.</p>" if left else ""
    )
    return f"<details class=stills open><summary>Pictures with LBO and SBO as arrows, for slides and paper</summary>{''.join(parts)}{rest}</details>"
