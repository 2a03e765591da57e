"""The picture of a pipeline, as text, SVG and events for a trace viewer: stages, loads in flight, roles and engines over time. Lengths are assumed."""

from __future__ import annotations

import bisect
import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from smemsim.core.picture.svg import MARGIN, arrow, hatch, rect, svg
from smemsim.core.picture.svg import text as svg_text
from smemsim.diagnosis.rings import SAYS, Ring, Verdicts, shorter, warps_named
from smemsim.run.pipeline.knowledge import READERS, bits_of

if TYPE_CHECKING:
    from smemsim.run.pipeline.lanes import Stuck

__all__ = ["lanes_dict", "pipeline_svg", "pipeline_text"]

COLUMNS, NAMES = 110, 22  # of a text: in all, and for the names of rows
ROUNDS = 3  # how often each stage is drawn, after the first filling


class Bar(NamedTuple):
    """Part of a row from `begin` to `end`. `kind`: "load", "full", "read", "kept" (empty without need), "wait", "own", "work", "stuck", or "issue" (a moment)."""

    kind: str
    begin: float
    end: float
    label: str = ""
    title: str = ""


class Lane(NamedTuple):
    """A row of the picture. Rows of one `group` stand together."""

    group: str
    name: str
    bars: tuple[Bar, ...]


class Drawing(NamedTuple):
    """What is drawn: rows, arrows (time, row of the stage, row of the role) and the times between which all is."""

    lanes: tuple[Lane, ...]
    arrows: tuple[tuple[float, int, int], ...]
    begin: float
    end: float


def drawing_of(pipeline: Verdicts) -> Drawing:
    """The rows of a pipeline."""
    begin, end = _window(pipeline)
    lanes: list[Lane] = []
    stages: dict[int, int] = {}  # the row of each filling's stage
    labels = _labels(pipeline)
    for ring, *alike in pipeline.different():
        group = f"{labels[ring.fillings[0].number][:-1]}: {pipeline.name(ring, *alike)}".removeprefix(": ")
        for n, _ in enumerate(ring.stages):
            bars = (*_stage_bars(ring, n, labels, end), *_never(pipeline, ring, n, end))
            stages |= {one.number: len(lanes) for one in ring.fillings if one.stage == ring.stages[n]}
            lanes.append(Lane(group, f"{'accumulator' if ring.kind == 'accumulator' else 'stage'} {n}", bars))
        if ring.kind != "accumulator":
            lanes.append(Lane(group, f"loads in flight of {len(ring.stages)}", tuple(_in_flight(ring))))
    arrows: list[tuple[float, int, int]] = []
    for role in pipeline.lanes.roles():
        arrows += [(time, stages[n], len(lanes)) for time, n in _learned(pipeline, role.warp) if n in stages]
        lanes.append(Lane("roles", f"{role.name}: {warps_named(role.warps)}", tuple(_role_bars(pipeline, role.warp, labels, end))))
    known = {warp for role in pipeline.lanes.roles() for warp in role.warps}
    for stuck in pipeline.lanes.stuck:
        if not known & set(stuck.warps):
            lanes.append(Lane("roles", warps_named(stuck.warps), (Bar("stuck", begin, end, _short(pipeline, stuck), stuck.why),)))
    for (engine, number), spans in sorted(pipeline.lanes.engines.items()):
        name = f"{engine} {number}" if engine == "tensor core" else "TMA stores"
        bars = tuple(
            Bar("work", s.begin, s.end, labels.get(_number(s.label), s.label), pipeline.place(s.instruction))
            for s in spans
            if s.begin < end
        )
        lanes += [Lane("engines", name, bars)] if bars else []
    return Drawing(tuple(lanes), tuple(arrows), begin, end)


def _window(pipeline: Verdicts) -> tuple[float, float]:
    """From when to when is drawn: the first rounds of the first ring, or the last ones before a hang."""
    spans = [span for of in (*pipeline.lanes.warps.values(), *pipeline.lanes.engines.values()) for span in of]
    whole = max([one.intervals[3] for ring in pipeline.rings for one in ring.fillings] + [span.end for span in spans], default=1.0) or 1.0
    rings = [ring for ring in pipeline.rings if ring.kind not in ("accumulator", "answer")] or list(pipeline.rings)
    if not rings:
        return 0.0, whole
    ring = rings[0]
    count = (ROUNDS + 1) * len(ring.stages) + 1
    if pipeline.is_over:
        return 0.0, min(whole, max(one.intervals[3] for one in ring.fillings[:count]))
    shown = ring.fillings[-count:]
    return min(one.at for one in shown), whole * 1.25


def _labels(pipeline: Verdicts) -> dict[int, str]:
    """The label of a filling: its number in its ring, after the letter of the ring if there are several."""
    different = pipeline.different()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if len(different) > 1 else ""
    return {
        one.number: f"{letters[k % 26] if letters else ''}{n}"
        for k, rings in enumerate(different)
        for ring in rings
        for n, one in enumerate(ring.fillings)
    }


def _number(label: str) -> int:
    return int(label) if label.isdigit() else -1


def _stage_bars(ring: Ring, stage: int, labels: dict[int, str], end: float) -> Iterator[Bar]:
    """One stage over time. A stage whose readers were not followed counts as full until it is overwritten."""
    held = {one.load: one for one in ring.held} if ring.is_held_back else {}
    is_followed = any(one.readers for one in ring.fillings)
    own = [(n, one) for n, one in enumerate(ring.fillings) if one.stage == ring.stages[stage]]
    for k, (_, one) in enumerate(own):
        at, full, read, free = one.intervals
        label, following = labels[one.number], own[k + 1] if k + 1 < len(own) else None
        yield Bar("load", at, full, label, f"load {label} under way")
        if not is_followed:
            yield Bar("full", full, end if following is None else following[1].at, "", f"load {label}: full, or being read")
            continue
        yield Bar("full", full, read, "", f"load {label}: full")
        yield Bar("read", read, free, "", f"load {label}: being read")
        if following is not None and ring.is_late and following[1].at > free:
            why = held.get(following[0])
            says = "" if why is None else f"waits for {labels[ring.fillings[why.newer[-1]].number]}"
            yield Bar("kept", free, following[1].at, says, f"load {labels[following[1].number]} could be issued here")


def _never(pipeline: Verdicts, ring: Ring, stage: int, end: float) -> Iterator[Bar]:
    """A stage that a thread waits for ever to fill."""
    for stuck in pipeline.lanes.stuck:
        found = pipeline.awaited(stuck)
        if found is not None and found.ring is ring and found.stage == stage and found.is_issue:
            last = max(one.intervals[3] for one in ring.fillings if one.stage == ring.stages[stage])
            yield Bar("stuck", last, end, f"never released for load {found.load}", stuck.why)


def _in_flight(ring: Ring) -> Iterator[Bar]:
    """How many loads are under way."""
    starts, ends = sorted(one.at for one in ring.fillings), sorted(one.full for one in ring.fillings)
    times = sorted({*starts, *ends})
    for begin, end in itertools.pairwise(times):
        if count := bisect.bisect_right(starts, begin) - bisect.bisect_right(ends, begin):
            is_few = ring.is_late and count <= ring.effective
            yield Bar("few" if is_few else "flying", begin, end, str(count), f"{count} of {len(ring.stages)} in flight")


def _role_bars(pipeline: Verdicts, warp: int, labels: dict[int, str], end: float) -> Iterator[Bar]:
    kinds = {"wait": "wait", "barrier": "wait", "own MMAs": "own", "tensor memory": "work"}
    last, culprits = 0.0, {i for ring in pipeline.rings for i in ring.culprits()}
    for span in pipeline.lanes.warps[warp]:
        kind, label = "kept" if span.instruction in culprits else kinds.get(span.kind, "issue"), labels.get(_number(span.label), span.label)
        yield Bar(
            kind, span.begin, span.end, label if kind != "issue" else "", f"{span.kind} {label} at {pipeline.place(span.instruction)}"
        )
        last = max(last, span.end)
    for stuck in pipeline.lanes.stuck:
        if warp in stuck.warps:
            yield Bar("stuck", last, end, _short(pipeline, stuck), stuck.why)


def _learned(pipeline: Verdicts, warp: int) -> Iterator[tuple[float, int]]:
    """The ends of a warp's waits for others, and the fillings that are full or read then, which it learns by them."""
    of = {one.number: one for ring in pipeline.rings for one in ring.fillings}
    for span in pipeline.lanes.warps[warp]:
        if span.kind not in ("wait", "barrier"):
            continue
        full = {n for n in bits_of(span.loads) if n in of and of[n].intervals[1] == span.end}
        read = {n for bit in bits_of(span.reads) if (n := bit // READERS) in of and of[n].intervals[3] == span.end}
        yield from ((span.end, n) for n in sorted(full | read))


def _short(pipeline: Verdicts, stuck: Stuck) -> str:
    """The label of a wait that never ends: the event it waits for."""
    found = pipeline.awaited(stuck)
    return stuck.why.partition(";")[0] if found is None else f"never {found.says}"


# ---- As text

MARKS = {"load": "-", "full": "=", "read": "#", "kept": "x", "wait": "~", "own": ":", "work": "#", "stuck": "!", "issue": "|"}
LEGEND = (
    "- load under way, accumulates   = full   # being read, at work   x empty, or waits, without need",
    "~ waits   : waits for its own MMAs   | issues   ! waits for ever   the number is that of the load",
)


def pipeline_text(pipeline: Verdicts) -> str:
    """The sentences and the rows, at most 110 columns wide."""
    drawing = drawing_of(pipeline)
    lines = [line for says in pipeline.sentences() for line in textwrap.wrap(says, COLUMNS, subsequent_indent="  ")]
    group = ""
    for lane in drawing.lanes:
        if lane.group != group:
            group = lane.group
            lines += ["", *textwrap.wrap(group, COLUMNS)]
        lines.append(f"{_cut(_brief(lane.name), NAMES):<{NAMES}}{_row(lane, drawing)}".rstrip())
    lines += ["", *LEGEND] if drawing.lanes else []
    if pipeline.is_cut:
        lines.append("Later loads repeat these and were not recorded.")
    return "\n".join([*lines, "", SAYS])


def _brief(name: str) -> str:
    """The name of a row for a narrow column.

    >>> _brief("MMAs, stores: warps 4 to 11"), _brief("loads: warp 0")
    ('MMAs, stores: w4-11', 'loads: w0')
    """
    return name.replace("warps ", "w").replace("warp ", "w").replace(" to ", "-")


def _cut(name: str, most: int) -> str:
    return name if len(name) < most else f"{name[: most - 3]}.."


def _row(lane: Lane, drawing: Drawing) -> str:
    width = COLUMNS - NAMES
    scale = width / ((drawing.end - drawing.begin) or 1.0)
    row, labels = [" "] * width, []
    for bar in lane.bars:
        begin, end = (int((time - drawing.begin) * scale) for time in (bar.begin, bar.end))
        if bar.kind in ("flying", "few"):
            row[max(begin, 0) : min(end, width)] = list(bar.label[-1] * max(min(end, width) - max(begin, 0), 0))
            continue
        for k in range(max(begin, 0), min(end, width)):
            row[k] = MARKS[bar.kind]
        if bar.label and bar.kind in ("load", "work", "stuck"):
            labels.append((begin, bar.label))
        elif bar.kind in ("wait", "kept") and (says := _fitting(bar.label, end - begin - 3)):
            labels.append((begin + 2, says))
    issues = [(int((bar.begin - drawing.begin) * scale), MARKS["issue"]) for bar in lane.bars if bar.kind == "issue"]
    for begin, label in (*issues, *labels):
        if 0 <= begin < width:
            row[begin : min(begin + len(label), width)] = list(label[: width - begin])
    return "".join(row)


def _fitting(label: str, room: int) -> str:
    """A label, or its first word, if there is room for it between marks."""
    return next((says for says in (label, label.partition(" ")[0]) if 0 < len(says) <= room), "")


# ---- As SVG

WIDTH, LEFT, ROW, BOX = 1400, 250, 24, 18  # pixels
FILLS = {"load": "k1", "full": "k0", "read": "k2", "wait": "x", "own": "k4", "work": "k2", "flying": "k1", "stuck": "alarm"}
EXPLAINED = (
    ("load under way", "load"), ("stage full", "full"), ("stage being read, engine at work", "read"), ("stage empty, or warp waits, without need", "kept"),
    ("waits", "wait"), ("waits for its own MMAs", "own"), ("waits for ever", "stuck"), ("issues", "issue"),
)  # fmt: skip
LETTER = 6.2


def pipeline_svg(pipeline: Verdicts, style: str | None = None) -> str:
    """The rows over time, light and dark. `style` "" is for a page, which has the rules and the sentences already."""
    drawing = drawing_of(pipeline)
    if style is None:
        parts, y = [svg_text(MARGIN, 30, "t", "Pipeline"), svg_text(MARGIN, 50, "s", SAYS)], 74.0
        for says, is_bad in pipeline.verdicts():
            for line in textwrap.wrap(says, 186):
                parts.append(svg_text(MARGIN, y, "s alarm" if is_bad else "s", line))
                y += 17
    else:
        parts, y = [svg_text(MARGIN, 20, "s", SAYS)], 24.0
    tops, group = [], ""
    for lane in drawing.lanes:
        if lane.group != group:
            group = lane.group
            y += 14
            parts.append(svg_text(MARGIN, y + 8, "t b", group))
            y += 18
        tops.append(y)
        parts += _lane_svg(lane, drawing, y)
        y += ROW
    shown = [one for one in drawing.arrows if drawing.begin <= one[0] <= drawing.end]
    for time, source, target in shown:
        x = _at(time, drawing)
        parts.append(arrow(((x, tops[source] + BOX), (x, tops[target])), "miss", "s"))
    y += 14
    x = float(MARGIN)
    occurring = {
        "read" if bar.kind == "work" else bar.kind
        for lane in drawing.lanes
        for bar in lane.bars
        if bar.end > bar.begin or bar.kind == "issue"
    }
    sums = ", or accumulator is computed" * any(ring.kind == "accumulator" for ring in pipeline.rings)
    for words, kind in EXPLAINED:
        if kind not in occurring:
            continue
        says = words + sums * (kind == "load")
        parts += _box(kind, x, y, 18)
        parts.append(svg_text(x + 24, y + 13, "s", says))
        x += 24 + 7 * len(says) + 18
    return svg(WIDTH, y + 36, parts, " ".join(pipeline.sentences()), style)


def _at(time: float, drawing: Drawing) -> float:
    """Pixels from the left of a time."""
    share = (time - drawing.begin) / ((drawing.end - drawing.begin) or 1.0)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - MARGIN)


def _box(kind: str, x: float, y: float, width: float, title: str = "") -> list[str]:
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    if kind == "issue":
        return [rect(x + width / 2 - 1, y, 2, BOX, "s", inner)]
    if kind in ("kept", "few"):
        return [rect(x, y, width, BOX, "g e", inner), hatch(x, y, width, BOX, "hk")]
    return [rect(x, y, width, BOX, f"g {FILLS[kind]}", inner)]


def _escaped(title: str) -> str:
    return title.replace("&", "&amp;").replace("<", "&lt;")


def _lane_svg(lane: Lane, drawing: Drawing, y: float) -> list[str]:
    parts = [svg_text(LEFT - 8, y + 13, "s r", _cut(lane.name, 36)), rect(LEFT, y, WIDTH - LEFT - MARGIN, BOX, "g e")]
    labels: list[str] = []
    drawn: set[tuple[float, str]] = set()
    for bar in lane.bars:
        if bar.end < drawing.begin or bar.begin > drawing.end:
            continue
        x, right = _at(bar.begin, drawing), _at(bar.end, drawing)
        if bar.kind == "issue":
            parts += _box(bar.kind, x, y, 0, bar.title)
            continue
        if right <= x:
            continue
        parts += _box(bar.kind, x, y, right - x, bar.title)
        text = _cut(bar.label, int((right - x) / LETTER)) if bar.kind == "stuck" else bar.label
        if len(text) * LETTER >= right - x:
            text = re.split(" phase |, ", text)[0]
        if text and (len(text) * LETTER < right - x or bar.kind == "load") and (x, text) not in drawn:
            drawn.add((x, text))
            style = {"kept": "alarm n", "few": "alarm n", "stuck": "bg n"}.get(bar.kind, "c n")
            if bar.kind in ("kept", "few"):  # hatched: letters need a plate
                labels.append(rect(x + 1, y + 3, min(5.8 * len(text) + 4, right - x - 2), BOX - 6, "e"))
            labels.append(svg_text(x + 3, y + 13, style, text))
    return [*parts, *labels]


# ---- As data


def lanes_dict(pipeline: Verdicts) -> dict[str, Any]:
    """Roles, engines and waits that never end, and the rows as events of a trace (chrome://tracing, Perfetto): one assumed unit is a microsecond."""
    return {
        "roles": [
            {"name": role.name, "warps": list(role.warps), "spans": [_span(pipeline, span) for span in pipeline.lanes.warps[role.warp]]} for role in pipeline.lanes.roles()
        ],
        "engines": [
            {"name": engine, "number": n, "spans": [_span(pipeline, span) for span in spans]} for (engine, n), spans in sorted(pipeline.lanes.engines.items())
        ],
        "stuck": [{"warps": list(one.warps), "at": pipeline.place(one.instruction), "why": one.why, "overdue": list(one.overdue)} for one in pipeline.lanes.stuck],
        "traceEvents": list(_events(drawing_of(pipeline).lanes)),
    }  # fmt: skip


def _span(pipeline: Verdicts, span: Any) -> dict[str, Any]:
    return {"kind": span.kind, "begin": span.begin, "end": span.end, "label": span.label, "at": pipeline.place(span.instruction), "instruction": shorter(span.instruction.name)}  # fmt: skip


def _events(lanes: Sequence[Lane]) -> Iterator[dict[str, Any]]:
    groups = {group: n for n, group in enumerate(dict.fromkeys(lane.group for lane in lanes))}
    for group, n in groups.items():
        yield {"ph": "M", "name": "process_name", "pid": n, "args": {"name": group}}
    for number, lane in enumerate(lanes):
        yield {"ph": "M", "name": "thread_name", "pid": groups[lane.group], "tid": number, "args": {"name": lane.name}}
        for bar in lane.bars:
            if bar.end > bar.begin or bar.kind == "issue":
                yield {
                    "ph": "X", "name": f"{bar.kind} {bar.label}".strip(), "pid": groups[lane.group], "tid": number, "ts": bar.begin, "dur": bar.end - bar.begin,
                    "args": {"says": bar.title},
                }  # fmt: skip
