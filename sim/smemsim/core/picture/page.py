"""Pages: one self-contained HTML file that fetches nothing, and pieces for notebooks."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Sequence
from importlib import resources

from smemsim.core.picture.model import COLOURS, Above, Entry, Excerpt, Heat, HeatLine, Page, Part, Side, Stages, Strip, Told
from smemsim.core.picture.svg import boxes_svg, grids_svg, rules

__all__ = ["page_fragment", "page_html", "program_html"]


MOST_STILLS = 450_000  # bytes of pictures for readers without scripts, and for paper
MOST_BANDS = 64  # of a strip
LONGEST_LINE = 160  # characters of a line of source


def page_html(page: Page) -> str:
    """A page as the text of an HTML file."""
    packed = json.dumps(page.data, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(page.title)
    drawn = page.data.get("operands")
    hidden = page.above is not None and not drawn
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel=icon href="data:,"><title>{title}</title><style>{_file("page.css")}{rules()}</style></head><body>
<header><div>{_back(page)}<h1>{title}</h1><p class=dim>{html.escape(page.evidence)}</p></div>{_THEME}</header>
{_above(page.above) if page.above else ""}<main{" class=narrow" if not drawn or not page.is_about_pictures else ""}><aside><section aria-labelledby=hf><h2 id=hf>{html.escape(page.counted)}</h2>{_entries(page)}{_checked(page.checked)}{_named(page.named)}{_remarks(page.remarks)}{_unchecked(page.unchecked)}</section>
{"" if hidden else _strips(page)}</aside>
<div class=work>{_drawn(page) if drawn else ""}{_missing(page.missing)}{_stills(page)}</div></main>
{_stages(page.stages) if page.stages else ""}{_heat(page.heat) if page.heat else ""}{_below(page.above) if page.above else ""}<footer>Written by smemsim{_UNITS if drawn or page.strips or page.stills else ""}</footer>
{_scripts(packed)}</body></html>
"""


_RIGHT_BUT_SLOW = "the results are right, but time is lost"
_THEME = "<button id=theme class=live type=button>Dark</button>"
_UNITS = ". In the pictures addresses are those of the CTA's .shared window; a chunk is 16 bytes, a line 128."


def _scripts(packed: str) -> str:
    return f"<script id=data type=application/json>{packed}</script><script>{_file('page.js')}</script>"


def _back(page: Page) -> str:
    link, words = page.back
    return f'<p><a href="{html.escape(link)}">← {html.escape(words)}</a></p>' if link else ""


def _drawn(page: Page) -> str:
    """The pictures of operands; closed if no entry is about them."""
    if page.is_about_pictures:
        return _workplace()
    return f"<details class=aside><summary>The operands' tiles (no finding is about them)</summary>{_workplace()}</details>"


def _checked(lines: Sequence[str]) -> str:
    """The lists of what was checked and what was not."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<h3>What was checked</h3><ul class=named>{items}</ul>" if items else ""


def _named(lines: Sequence[str]) -> str:
    """The allocations that the findings name, with the lines that made them."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<h3>Memory that findings name</h3><ul class=named>{items}</ul>" if items else ""


def page_fragment(page: Page) -> str:
    """The entries and the first still as a piece of HTML for a notebook: no script."""
    style = ".smemsim-report .wrong b,.smemsim-report .trap b{color:#cf222e}.smemsim-report .luck b{color:#9a6700}.smemsim-report li{margin:4px 0}"
    rows = [f"<li class={e.severity}><b>{e.severity} {html.escape(e.code)}</b> {html.escape(e.where)}: {html.escape(e.message)}"
            + "".join(f"<br>{html.escape(row.label)}: {html.escape(row.text)}" for row in e.rows)
            + (f"<br>fix: {html.escape(e.repair)}" if e.repair else "") for e in page.entries]  # fmt: skip
    picture = f"<div style='overflow-x:auto'>{grids_svg(page.stills[0][1])}</div>" if page.stills else ""
    head = f"<b>{html.escape(page.title)}</b> " * bool(page.title) + html.escape(f"{page.counted}. {page.evidence}")
    return f"<div class=smemsim-report><style>{style}</style><p>{head}</p><ul>{''.join(rows)}</ul>{picture}</div>"


@functools.cache
def _file(name: str) -> str:
    return resources.files("smemsim.core.picture").joinpath(name).read_text(encoding="utf-8")


# ---- Entries


def _entries(page: Page) -> str:
    """A button for each entry about a picture, a box for each other one; under it the lines of its source and what its
    code means.
    """
    if not page.entries:
        return f"<p class=clean>{html.escape(page.clean)}</p>"
    more = f"<p>and {page.more} more</p>" if page.more else ""
    items = "".join(_entry(e, f"f{n}") for n, e in enumerate(page.entries))
    return f"{_index(page.entries)}<ol class=findings>{items}</ol>{more}{_severities(page.entries)}"


def _index(entries: Sequence[Entry]) -> str:
    """A line for each entry, if there are several: its code, its line of the source, and what is wrong."""
    if len(entries) < 2:
        return ""
    rows = "".join(
        f'<li><a href="#f{n}"><b>{html.escape(e.code)}</b> <span class=mono>{html.escape(e.where)}</span></a> {html.escape(e.message)}'
        for n, e in enumerate(entries)
    )
    return f"<ul class=index>{rows}</ul>"


def _severities(entries: Sequence[Entry]) -> str:
    """The words for how grave a finding is, of those that occur."""
    told = {e.severity: _RIGHT_BUT_SLOW if e.code.startswith("P") else e.severity_says for e in entries if e.severity_says}
    told |= {e.grade: f"the grade of the rule, which was not measured. {e.card}" for e in entries if e.card and e.grade}
    words = "; ".join(f"<b>{html.escape(severity)}</b>: {html.escape(says)}" for severity, says in told.items())
    return f"<p class=dim>{words}</p>" if words else ""


def _entry(e: Entry, name: str = "") -> str:
    tag, more = "div", ""
    if e.target is not None:
        tag, more = "button", f" type=button data-operand={e.target[0]} data-chunk={e.target[1]} aria-pressed=false"
    grade = f" ({html.escape(e.grade)})" if e.grade else ""
    because = f"follows from {e.because.removeprefix('follows from ')}" if e.because and not e.rows else ""
    why = "".join(f"<span class=why>{html.escape(told)}</span>" for told in (because, e.others) if told)
    told = {access.does for side in e.sides for access in side.accesses}  # with their source, below
    rows = "".join(_row(row.label, row.text, row.right, " fix" * (row.label == "fix")) for row in e.rows if row.label not in told)
    fix = _row("fix", e.repair, "", " fix") if e.repair and all(row.label != "fix" for row in e.rows) else ""
    parts = f"<span class=parts>{rows}{fix}</span>" if rows or fix else ""
    seen = "<span class='why live'>shown in the picture</span>" if e.target is not None else ""
    head = f"<span class=head><span class=sev>{e.severity} {html.escape(e.code)}</span> {html.escape(e.where)}{grade}</span>"
    said = f'<{tag} class="finding {e.severity}{" cost" * e.code.startswith("P")}"{more}>{head}<span class=what>{html.escape(e.message)}</span>{parts}{why}{seen}</{tag}>'
    link = f'<p><a href="{html.escape(e.link)}">the page of this launch</a></p>' if e.link else ""
    anchor = f' id="{name}"' if name else ""
    return f"<li{anchor}>{said}{_sides(e.sides)}{_excerpted(e.excerpt)}{_explained(e)}{_followers(e.followers)}{link}</li>"


def _followers(entries: Sequence[Entry]) -> str:
    """The findings that follow from an entry, which a reader opens."""
    if not entries:
        return ""
    few = ", ".join(dict.fromkeys(f"{e.code} at {e.where.partition(', PTX')[0]}" for e in entries))
    count = f"{len(entries)} finding{'s follow' if len(entries) > 1 else ' follows'} from it"
    items = "".join(map(_entry, entries))
    return f"<details class=more><summary>{count}: {html.escape(few)}</summary><ol class=findings>{items}</ol></details>"


def _row(label: str, text: str, right: str, more: str = "") -> str:
    """A part of a finding: its label, what it says, and the section of a document."""
    source = f" <span class=dim>{html.escape(right)}</span>" if right else ""
    return f'<span class="part{more}"><b>{html.escape(label)}</b><span>{html.escape(text)}{source}</span></span>'


def _sides(sides: Sequence[Side]) -> str:
    """The accesses of a finding side by side, each with its source: both halves of a race."""
    if not sides:
        return ""
    figures = "".join(
        f"<figure><figcaption>{''.join(map(_access, side.accesses))}</figcaption>"
        f"<pre tabindex=0 role=region aria-label='source of the {html.escape(side.accesses[0].does)}'>{_excerpt(side.source)}</pre></figure>"
        for side in sides
    )
    return f'<div class="sides of{len(sides)}">{figures}</div>'


def _access(one: Told) -> str:
    return f"<div><b>{html.escape(one.does)}</b> {html.escape(one.text)} <span class=dim>{html.escape(one.where)}</span></div>"


def _excerpted(excerpt: Excerpt | None) -> str:
    """The line of an entry, cut if it is long, with the lines around it."""
    if excerpt is None:
        return ""
    line = next((text for number, text in excerpt.lines if number == excerpt.at), "")
    summary = html.escape(f"PTX line {excerpt.at} | {line.strip()}")
    return f"<details class=more><summary class=cut><code>{summary}</code></summary><pre tabindex=0 role=region aria-label='lines around {excerpt.at}'>{_excerpt(excerpt)}</pre></details>"


def _explained(e: Entry) -> str:
    if not e.explained:
        return ""
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(e.explained))
    return (
        f"<details class=more><summary>What {html.escape(e.code)} means</summary><p>{text}</p>"
        f"<p class=dim>Bad and repaired example: <code>smemsim explain {html.escape(e.code)}</code></p></details>"
    )


def _remarks(remarks: Sequence[Entry]) -> str:
    """The list of remarks, as HTML; "" for none."""
    items = "".join(f"<li>{html.escape(e.code)} {html.escape(e.where)}: {html.escape(e.message)}</li>" for e in remarks)
    return f"<h3>Remarks</h3><ul class=dim>{items}</ul>" if items else ""


def _unchecked(names: Sequence[str]) -> str:
    return f"<p class=dim>Not looked at: {html.escape(', '.join(names))}</p>" if names else ""


# ---- What lines cost


def _says(line: HeatLine) -> str:
    """The losses of a line, and its instructions."""
    return ": ".join(filter(None, (line.says, line.runs)))


def _heat(heat: Heat) -> str:
    """A table of source lines; the bar before each is its share of the launch's cost, coloured if it loses more than it
    needs.
    """
    heads = "".join(f"<th scope=col class=num>{html.escape(head)}</th>" for head in heat.heads)
    rows = "".join(
        f"<tr><td class=heatbar><i{'' if line.says else ' class=fine'} style='width:{line.share:.0%}'></i></td><td class=num>{line.share:.0%}</td>"
        f'<td class="mono where">{html.escape(line.where)}</td><td class=mono title="{html.escape(line.says)}">{html.escape(line.text[:LONGEST_LINE])}'
        f"{f'<br><span class=dim>{html.escape(_says(line))}</span>' if _says(line) else ''}</td>"
        f"{''.join(f'<td class=num>{html.escape(number)}</td>' for number in line.numbers)}</tr>"
        for line in heat.lines
    )
    sums = "".join(f"<li>{html.escape(line)}</li>" for line in heat.sums)
    head = f"<thead><tr><th scope=col colspan=2>share of the cost</th><th scope=col>line</th><th scope=col>source</th>{heads}</tr></thead>"
    return f"<section class=run aria-labelledby=hh><h2 id=hh>What lines cost</h2><ul class='outputs dim'>{sums}</ul><p class=dim>A bar is the line's share of the launch's cost: a wavefront counts 4, a sector 1 (32 of 128 bytes). A line with an orange bar costs more than its bytes need. The compiler's line table says which line an instruction belongs to; in optimised code it may name a line nearby.</p><div class=heat><table>{head}<tbody>{rows}</tbody></table></div></section>"


def _stages(stages: Stages) -> str:
    """The pipeline: its sentences are in the picture too, but cannot be copied from there."""
    told = "".join(f"<li>{html.escape(line)}</li>" for line in stages.sentences)
    return f"<section class=run aria-labelledby=hs><h2 id=hs>Pipeline</h2><ul class=outputs>{told}</ul><div class=heat>{stages.picture}</div></section>"


# ---- What stands before the findings, and below the pictures


def _above(above: Above) -> str:
    outputs = "".join(f"<li{'' if fine else ' class=bad-line'}>{html.escape(line)}</li>" for line, fine in above.outputs)
    parts = [f"<h3>Outputs</h3><ul class=outputs>{outputs}</ul>"] if outputs else []
    return f"<section class=run aria-labelledby=hr><h2 id=hr>{html.escape(above.heading)}</h2>{''.join(parts)}</section>"


def _below(above: Above) -> str:
    printed = f"<h3>printf</h3><pre tabindex=0 role=region aria-label=printf>{html.escape(above.printed)}</pre>" if above.printed else ""
    told = "".join(f"<li>{html.escape(line)}</li>" for line in above.sentences)
    rests = f"<h3>What the results rest on</h3><ul>{told}</ul>" if told else ""
    return f"<section class=run aria-label='More of this run'>{printed}{rests}</section>" if printed or rests else ""


def _excerpt(excerpt: Excerpt) -> str:
    lines = []
    for number, line in excerpt.lines:
        text = html.escape(f"{number:6} | {line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + '…'}")
        lines.append(f"<span class=at>{text}</span>" if number in (excerpt.at, *excerpt.also) else text)
    return "\n".join([*lines, *map(html.escape, excerpt.below)])


# ---- The page of a whole program


def program_html(title: str, summary: str, entries: Sequence[Entry], heads: Sequence[str], parts: Sequence[Part]) -> str:
    """The findings of all launches of a program, each once with a link to its picture, then a table of the launches."""
    found = Page(title, "", "", tuple(entries), clean="No findings in the launches that were checked.")
    rows = []
    for part in parts:
        name = f'<a href="{html.escape(part.link)}">{html.escape(part.name)}</a>' if part.link else html.escape(part.name)
        state = "" if part.is_fine else " class=bad-line"
        cells = [
            (html.escape(part.number), ""),
            (name, ""),
            *((html.escape(cell), "" if i else state) for i, cell in enumerate(part.cells)),
        ]
        rows.append(
            "<tr role=row>"
            + "".join(
                f'<td role=cell data-head="{html.escape(head)}"{more}><span>{cell}</span>'
                for head, (cell, more) in zip(heads, cells, strict=True)
            )
        )
    top = "".join(f"<th scope=col role=columnheader>{html.escape(head)}" for head in heads)
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"><link rel=icon href="data:,">
<title>{html.escape(title)}</title><style>{_file("page.css")}</style></head><body><header><div><h1>{html.escape(title)}</h1></div>{_THEME}</header>
<section class=run aria-labelledby=hr><h2 id=hr>{html.escape(summary)}</h2></section>
<main class=narrow><section aria-labelledby=hf><h2 id=hf>Findings</h2>{_entries(found)}</section>
<section aria-labelledby=hl><h2 id=hl>Launches</h2><div class=scroll tabindex=0 role=group aria-label='Table of launches'><table role=table><thead role=rowgroup><tr role=row>{top}</thead><tbody role=rowgroup>{"".join(rows)}</tbody></table></div></section></main>
<footer>smemsim</footer>{_scripts('{"operands":[]}')}</body></html>
"""


# ---- Strips, what the script fills, and pictures that need none


def _strips(page: Page) -> str:
    """A bar with its bands, and a table of them, for each strip."""
    if not page.strips:
        return ""
    return f"<section class=buffers aria-labelledby=hb><h2 id=hb>{html.escape(page.strips_title)}</h2>{''.join(map(_strip, page.strips))}</section>"


def _strip(strip: Strip) -> str:
    head = f"<h3>{html.escape(strip.title)} <span class='dim mono'>{html.escape(strip.subtitle)}</span></h3>"
    if not strip.bands:
        return f"{head}<div class=strip aria-hidden=true></div><p class=dim>{html.escape(strip.empty)}</p>"
    size, bar, rows = max(strip.end - strip.begin, 1), "", ""
    for band in strip.bands[:MOST_BANDS]:
        colour = COLOURS[int(band.fill[1:])] if band.fill else "transparent"
        bar += f'<i style="width:{(band.end - band.begin) / size * 100:.3f}%;background:{colour}"></i>'
        *numbers, told = map(html.escape, band.cells)
        rows += "<tr>" + "".join(f"<td class=mono>{number}" for number in numbers) + f"<td>{told}"
    heads = "".join(f"<th>{html.escape(head)}" for head in strip.heads)
    left = len(strip.bands) - MOST_BANDS
    more = f"<tr><td colspan={len(strip.heads)}>{left} more" if left > 0 else ""
    return f"{head}<div class=strip aria-hidden=true>{bar}</div><table><tr>{heads}{rows}{more}</table>"


def _workplace() -> str:
    """The empty elements of a page that its script fills, as HTML."""
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
<ul class=legend>{swatches} chunk column before swizzling (mod 8)<li><i class="k7 one"></i>the selected instruction reads it<li><i class="k7 bad"></i>wrong
<li><i class=stray></i>data of no chunk of this tile<li><i class=missed></i>needed, but not read<li><i class=none></i>not read<li><i class="k7 sel"></i>the element described below<li><i class=begins></i>a swizzle atom begins</ul>
<div class=info id=info aria-live=polite></div><p class=dim id=grade></p></section>"""


def _missing(names: Sequence[str]) -> str:
    told = html.escape(", ".join(names))
    return f"<p class=dim>Without an interactive picture, which would make this page too large: {told}.</p>" if names else ""


def _stills(page: Page) -> str:
    """The pictures as far as there is room; the first of them is printed."""
    parts, room, left = list[str](), MOST_STILLS, [*page.undrawn]
    for name, picture in page.stills:
        drawn = boxes_svg(picture, "") if picture.boxes else grids_svg(picture, "", hover=False)
        if len(drawn) > room and parts:
            left.append(name)
            continue
        room -= len(drawn)
        parts.append(f'<div class="still{"" if parts else " first"}">{drawn}</div>')
    if not parts:
        return ""
    rest = (
        f"<p class=dim>Not drawn here: {html.escape(', '.join(left))}; <code>smemsim show --operand</code> draws one.</p>" if left else ""
    )
    return f"<details class=stills open><summary>Pictures with LBO and SBO as arrows, for slides and paper</summary>{''.join(parts)}{rest}</details>"
