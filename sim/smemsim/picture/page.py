"""Pages: one self-contained HTML file that fetches nothing, and pieces for notebooks."""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Sequence
from importlib import resources

from smemsim.picture.model import COLOURS, Above, Entry, Excerpt, Page, Strip
from smemsim.picture.svg import grids_svg, rules

__all__ = ["page_fragment", "page_html"]


MOST_STILLS = 450_000  # bytes of pictures for readers without scripts, and for paper
MOST_BANDS = 64  # of a strip
ABOVE_STYLE = (
    "<style>.run{max-width:1560px;margin:0 auto;padding:8px 24px}.run pre{overflow-x:auto;margin:4px 0 16px;padding:6px;border:1px solid var(--line);font-size:12px}"
    ".run .at{background:#cf222e22;display:inline-block;min-width:100%}.run .trap>b,.run .wrong>b{color:var(--bad)}.run .luck>b{color:var(--luck)}</style>"
)


def page_html(page: Page) -> str:
    """A page as the text of an HTML file."""
    packed = json.dumps(page.data, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(page.title)
    drawn, hidden = page.data.get("operands"), page.above is not None and page.above.instead
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel=icon href="data:,"><title>{title}</title><style>{_file("page.css")}{rules()}</style></head><body>
<header><div><h1>{title}</h1><p class=dim>{html.escape(page.evidence)}</p></div><button id=theme class=live type=button>Dark</button></header>
{_above(page.above) if page.above else ""}<main{" hidden" if hidden else ""}><aside><section aria-labelledby=hf><h2 id=hf>{html.escape(page.counted)}</h2>{_entries(page)}{_remarks(page.remarks)}{_unchecked(page.unchecked)}</section>
{_strips(page)}</aside>
<div class=work>{_workplace() if drawn else ""}{_missing(page.missing)}{_stills(page)}</div></main>
<footer>smemsim. Addresses are those of the CTA's .shared window; a chunk is 16 bytes, a line 128.</footer>
<script id=data type=application/json>{packed}</script><script>{_file("page.js")}</script></body></html>
"""


def page_fragment(page: Page) -> str:
    """The entries and the first still as a piece of HTML for a notebook: no script."""
    style = ".smemsim-report .wrong b,.smemsim-report .trap b{color:#cf222e}.smemsim-report .luck b{color:#9a6700}.smemsim-report li{margin:4px 0}"
    rows = [f"<li class={e.severity}><b>{e.severity} {html.escape(e.code)}</b> {html.escape(e.where)}: {html.escape(e.message)}"
            + (f"<br>repair: {html.escape(e.repair)}" if e.repair else "") for e in page.entries]  # fmt: skip
    picture = f"<div style='overflow-x:auto'>{grids_svg(page.stills[0][1])}</div>" if page.stills else ""
    head = f"<b>{html.escape(page.title)}</b> " * bool(page.title) + html.escape(f"{page.counted}. {page.evidence}")
    return f"<div class=smemsim-report><style>{style}</style><p>{head}</p><ul>{''.join(rows)}</ul>{picture}</div>"


@functools.cache
def _file(name: str) -> str:
    return resources.files("smemsim.picture").joinpath(name).read_text(encoding="utf-8")


# ---- Entries


def _entries(page: Page) -> str:
    """A button for each entry about a picture, a box for each other one."""
    if not page.entries:
        return f"<p class=clean>{html.escape(page.clean)}</p>"
    return f"<ol class=findings>{''.join(map(_entry, page.entries))}</ol>"


def _entry(e: Entry) -> str:
    tag, more = "div", ""
    if e.target is not None:
        tag, more = "button", f" type=button data-operand={e.target[0]} data-chunk={e.target[1]} aria-pressed=false"
    grade = f" ({html.escape(e.grade)})" if e.grade else ""
    why = f"<span class=why>follows from {html.escape(e.because)}</span>" if e.because else ""
    fix = f"<span class=fix>Repair: <code>{html.escape(e.repair)}</code></span>" if e.repair else ""
    head = f"<span class=head><span class=sev>{e.severity} {html.escape(e.code)}</span> {html.escape(e.where)}{grade}</span>"
    return f'<li><{tag} class="finding {e.severity}"{more}>{head}{html.escape(e.message)}{fix}{why}</{tag}></li>'


def _remarks(remarks: Sequence[Entry]) -> str:
    """The list of remarks, as HTML; "" for none."""
    items = "".join(f"<li>{html.escape(e.code)} {html.escape(e.where)}: {html.escape(e.message)}</li>" for e in remarks)
    return f"<h3>Remarks</h3><ul class=dim>{items}</ul>" if items else ""


def _unchecked(names: Sequence[str]) -> str:
    return f"<p class=dim>Not looked at: {html.escape(', '.join(names))}</p>" if names else ""


# ---- What stands before the pictures: entries with excerpts of their source


def _above(above: Above) -> str:
    parts = [_excerpted(entry) for entry in above.entries]
    parts += [f"<p>and {above.more} more</p>"] if above.more else []
    parts += [f"<h3>printf</h3><pre>{html.escape(above.printed)}</pre>"] if above.printed else []
    told = "".join(f"<li>{html.escape(line)}" for line in above.sentences)
    parts += [f"<ul>{told}</ul>"] if told else []
    parts += [f"<p class=dim>{html.escape(above.instead)}</p>"] if above.instead else []
    return f"{ABOVE_STYLE}<section class=run aria-labelledby=hr><h2 id=hr>{html.escape(above.heading)}</h2>{''.join(parts)}</section>"


def _excerpted(e: Entry) -> str:
    """An entry with its lines of source."""
    more = [f"repair: {e.repair}" if e.repair else "", e.because, e.others]
    told = "".join(f"<br>{html.escape(sentence)}" for sentence in more if sentence)
    said = f"<div class={e.severity}><b>{e.severity} {html.escape(e.code)}</b> {html.escape(e.where)}: {html.escape(e.message)}{told}</div>"
    return said + (f"<pre>{_excerpt(e.excerpt)}</pre>" if e.excerpt else "")


def _excerpt(excerpt: Excerpt) -> str:
    lines = []
    for number, line in excerpt.lines:
        text = html.escape(f"{number:6} | {line}")
        lines.append(f"<span class=at>{text}</span>" if number == excerpt.at else text)
    return "\n".join([*lines, *map(html.escape, excerpt.below)])


# ---- Strips, what the script fills, and pictures that need none


def _strips(page: Page) -> str:
    """A bar with its bands, and a table of them, for each strip."""
    if not page.strips:
        return ""
    return f"<section aria-labelledby=hb><h2 id=hb>{html.escape(page.strips_title)}</h2>{''.join(map(_strip, page.strips))}</section>"


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
<ul class=legend>{swatches} chunk column before swizzling (mod 8)<li><i class="k7 one"></i>the selected instruction reads it<li><i class="k7 bad"></i>other than was meant
<li><i class=stray></i>data of no chunk of this tile<li><i class=missed></i>meant, but read nowhere<li><i class=none></i>not read</ul>
<div class=info id=info aria-live=polite></div><p class=dim id=grade></p></section>"""


def _missing(names: Sequence[str]) -> str:
    told = html.escape(", ".join(names))
    return f"<p class=dim>Without an interactive picture, which would make this page too large: {told}.</p>" if names else ""


def _stills(page: Page) -> str:
    """The pictures as far as there is room; the first of them is printed."""
    parts, room, left = list[str](), MOST_STILLS, [*page.undrawn]
    for name, picture in page.stills:
        drawn = grids_svg(picture, "", hover=False)
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
