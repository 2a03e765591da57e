"""Pages: one self-contained HTML file for a report or a run."""

from __future__ import annotations

import functools
import html
import itertools
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from smemsim.finding import Finding, shortened, told
from smemsim.judge.check import check
from smemsim.judge.report import Report
from smemsim.judge.run import Run
from smemsim.judge.state import NAMES, Machine
from smemsim.ptx.demangle import shorter_name
from smemsim.show.operand import COLOURS
from smemsim.show.tile import Held, Place, TilePicture
from smemsim.show.tile_svg import rules, tile_svg
from smemsim.spec.architectures import architecture
from smemsim.spec.shared_memory import BANKS, CHUNK
from smemsim.spec.smem_descriptor import REACH

__all__ = ["buffer_runs", "finding_of", "operand_data", "page_data", "report_fragment", "report_page", "run_page", "show_html", "tiles_of"]


# ---- What a page knows of an operand, compact: a number or two for each 16-byte chunk, and the names to make sentences of them


def page_data(machine: Machine, tiles: list[TilePicture]) -> dict[str, Any]:
    """Everything that the page's script reads."""
    return {
        "tensors": [{"name": t.name, "axes": list(t.extent), "extent": list(t.extent.values())} for t in machine.tensors.values()],
        "issues": [f"step {issue.step + 1}: {issue.text}" for issue in machine.issues],
        "names": {str(code): text for code, text in NAMES.items()},
        "banks": [BANKS.count, BANKS.width],
        "operands": [operand_data(tile) for tile in tiles],
    }


def operand_data(tile: TilePicture) -> dict[str, Any]:
    """One operand, chunk by chunk along the lines of the tile.

    `address`, `wrong` (a mask of elements in hex, 0 for none), `lies` (where the meant data lies), `home` (the chunk whose data was read), `meant` (index
    along every axis of the tensor), `got` (1 as meant; a code of NAMES; [tensor, axis along which the elements follow, index along every axis]; or {"each":
    [...]}) and `writer` (an issue) are lists with an entry for each chunk.
    """
    lines, columns = tile.shape
    offsets = next(
        (tile.address[p] - tile.address[p][0] for p in tile.places() if tile.address[p].min() >= 0),
        tile.address[0, 0] - tile.address[0, 0, 0],
    )
    found: dict[str, Any] = {
        "where": tile.where, "name": tile.name, "title": tile.title, "subtitle": tile.subtitle, "grade": tile.grade,
        "dtype": tile.dtype, "major": tile.major, "rows": tile.rows, "k": tile.k, "axes": list(tile.axes), "lines": lines, "columns": columns,
        "blocks": tile.words.shape[0], "steps": tile.words.shape[1], "one": tile.chunks_of_one, "atom": tile.atom_lines,
        "words": [[f"{int(word):#018x}" for word in row] for row in tile.words], "offsets": [int(x) for x in offsets],
        "strides": [[s.name, s.bytes, s.begin, s.end, s.used] for s in tile.strides()], "address": tile.address[..., 0].ravel().tolist(),
    }  # fmt: skip
    partial = {i: int((tile.address[p] >= 0).sum()) for i, p in enumerate(tile.places()) if tile.address[p].min() < 0}
    found |= {"partial": partial} if partial else {}
    held = tile.held
    if held is None:
        return found
    names = list(held.tensors)
    inner = list(held.tensor.extent).index(held.axes[1] if tile.major == "K" else held.axes[0])
    home = [held.homes.get(int(held.got[p][0])) for p in tile.places()]
    return found | {
        "tensor": names.index(held.tensor.name),
        "inner": inner,
        "shown": [list(held.tensor.extent).index(axis) for axis in held.axes],
        "wrong": [_mask(held.wrong[p]) for p in tile.places()],
        "lies": held.lies.ravel().tolist(),
        "home": [-1 if place is None else place[0] * columns + place[1] for place in home],
        "meant": [list(held.meant_at(p)[1]) for p in tile.places()],
        "got": [_got(held, p, names) for p in tile.places()],
        "writer": held.writer[..., 0].ravel().tolist(),
    }


def _mask(wrong: np.ndarray) -> int | str:
    value = sum(1 << i for i, one in enumerate(wrong) if one)
    return f"{value:x}" if value else 0


def _got(held: Held, place: Place, names: list[str]) -> Any:
    """What a chunk's elements are: as meant, one run along an axis, or each by itself."""
    count = int((held.k[place] >= 0).sum())
    if (held.got[place] == held.meant[place])[:count].all() and (held.meant[place][:count] >= 0).all():
        return 1
    each = [held.got_at(place, i) for i in range(count)]
    first = each[0]
    if isinstance(first, int):
        if all(one == first for one in each):
            return first
    else:
        for axis in range(len(first[1])):
            run = [(first[0], tuple(x + i * (j == axis) for j, x in enumerate(first[1]))) for i in range(count)]
            if run == each:
                return [names.index(first[0]), axis, *first[1]]
    return {"each": [one if isinstance(one, int) else [names.index(one[0]), *one[1]] for one in each]}


def finding_of(tiles: list[TilePicture], finding: Finding) -> tuple[int, Place] | None:
    """(operand, its chunk with the first wrong element) of a finding; None where it is about something else."""
    for number, tile in enumerate(tiles):
        if (finding.title == tile.name or finding.where.startswith(tile.where)) and tile.first_wrong:
            return number, tile.first_wrong
    return None


def buffer_runs(machine: Machine) -> list[dict[str, Any]]:
    """The buffers in the order of their addresses: where each lies, and what filled which bytes of it last; what no step filled has issue -1."""
    ordered = sorted(machine.buffers.values(), key=lambda b: b.address)
    found = []
    for buffer, after in zip(ordered, [*(b.address for b in ordered[1:]), REACH], strict=True):
        end = buffer.address + buffer.bytes if buffer.bytes else after
        writer = machine.memory.of(np.arange(buffer.address, min(end, REACH)))[0].astype(np.int64) - 1
        if not buffer.bytes:
            written = np.flatnonzero(writer >= 0)
            writer = writer[: -(-(int(written[-1]) + 1) // CHUNK) * CHUNK if len(written) else 0]
        cuts = [0, *(np.flatnonzero(np.diff(writer)) + 1).tolist(), len(writer)] if len(writer) else []
        runs = [(buffer.address + a, buffer.address + b, int(writer[a])) for a, b in itertools.pairwise(cuts)]
        found.append({"name": buffer.name, "begin": buffer.address, "end": buffer.address + len(writer), "runs": runs})
    return found


# ---- A checked scenario as one HTML page: the findings beside every operand's tile and the shared memory that it reads; nothing is fetched
# from anywhere


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


def _findings(findings: Sequence[Finding], tiles: list[TilePicture]) -> str:
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


# ---- A run as one HTML page: what is wrong at which line, with the PTX around it, above the page of what was executed


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


def _of(f: Finding, ptx: list[str]) -> str:
    repair = f"<br>repair: {html.escape(told(f.repair))}" if f.repair else ""
    because = f"<br>{html.escape(f.because)}" if f.because else ""
    others = f"<br>{html.escape(f.others())}" if f.count > 1 else ""
    said = f"<div class={f.severity}><b>{f.severity} {html.escape(f.code)}</b> {html.escape(f.where)}: {html.escape(told(f.message))}{repair}{because}{others}</div>"
    return said + (f"<pre>{_excerpt(f, ptx)}</pre>" if f.line else "")


def _excerpt(f: Finding, ptx: list[str]) -> str:
    """Lines of the PTX around a finding's, and the line of its source."""
    lines = []
    for number in range(max(1, f.line - AROUND), min(len(ptx), f.line + AROUND) + 1):
        text = html.escape(f"{number:6} | {shortened(ptx[number - 1])}")
        lines.append(f"<span class=at>{text}</span>" if number == f.line else text)
    return "\n".join(lines + [html.escape(line) for line in f.excerpt()[1:]])
