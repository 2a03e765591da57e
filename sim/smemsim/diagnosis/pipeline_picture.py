"""The picture of a pipeline, as text, SVG and events for a trace viewer: stages, loads in flight, roles and engines
over time. Lengths are assumed.
"""

from __future__ import annotations

import bisect
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from smemsim.core.picture.svg import MARGIN, arrow, hatch, rect, svg
from smemsim.core.picture.svg import text as svg_text
from smemsim.diagnosis.rings import SAYS, SAYS_OF_TEXT, WORDS, Ring, Verdicts, shorter, warps_named
from smemsim.run.pipeline.knowledge import READERS, bits_of
from smemsim.run.pipeline.lanes import GROUP, Role

if TYPE_CHECKING:
    from smemsim.run.pipeline.lanes import Span, Stuck

__all__ = ["lanes_dict", "pipeline_svg", "pipeline_text"]

COLUMNS, NAMES = 110, 26  # of a text: in all, and for the names of rows
LEAST_LETTERS = 3  # shorter labels stand in boxes of a picture, and not between the marks of a text
ROUNDS, MOST_LOADS = 3, 16  # how often each stage is drawn, after the first filling; of many stages fewer rounds


class Bar(NamedTuple):
    """Part of a row from `begin` to `end`. The first of the `labels` that fits is drawn.

    Each `kind` belongs to one sort of rows. A stage is "load", "full", "read" or "kept" (empty without need). A role is
    "wait", "long" (a wait for more than is needed), "own", "work", "issue" (a moment) or "stuck". Loads in flight are
    "flying" or "few".
    """

    kind: str
    begin: float
    end: float
    labels: tuple[str, ...] = ()
    title: str = ""

    @property
    def label(self) -> str:
        """The longest label."""
        return self.labels[0] if self.labels else ""


class Lane(NamedTuple):
    """A row of the picture. Rows of one `group` stand together."""

    group: str
    name: str
    bars: tuple[Bar, ...]


class Drawing(NamedTuple):
    """The drawn parts: rows, arrows (time, row of the stage, row of the role, and whether the wait was too long) and
    the times between which all is.
    """

    lanes: tuple[Lane, ...]
    arrows: tuple[tuple[float, int, int, bool], ...]
    begin: float
    end: float


def drawing_of(pipeline: Verdicts) -> Drawing:
    """The rows of a pipeline."""
    begin, end = _window(pipeline)
    lanes: list[Lane] = []
    stages: dict[int, int] = {}  # the row of each filling's stage
    labels = pipeline.labels
    for ring, *alike in pipeline.different():
        group = pipeline.name(ring, *alike)
        for n, _ in enumerate(ring.stages):
            bars = (*_stage_bars(ring, n, labels, end), *_never(pipeline, ring, n, end))
            stages |= {one.number: len(lanes) for one in ring.fillings if one.stage == ring.stages[n]}
            lanes.append(Lane(group, f"{'accumulator' if ring.kind == 'accumulator' else 'stage'} {n}", bars))
        if ring.kind != "accumulator":
            lanes.append(Lane(group, f"{WORDS[ring.kind][0]}s in flight", tuple(_in_flight(ring))))
    arrows: list[tuple[float, int, int, bool]] = []
    for role in _split(pipeline):
        arrows += [(time, stages[n], len(lanes), is_long) for time, n, is_long in _learned(pipeline, role.warp) if n in stages]
        lanes.append(Lane("roles", f"{role.name}: {warps_named(role.warps)}", tuple(_role_bars(pipeline, role.warp, labels, end))))
    known = {warp for role in pipeline.lanes.roles() for warp in role.warps}
    for stuck in pipeline.lanes.stuck:
        if not known & set(stuck.warps):
            lanes.append(Lane("roles", warps_named(stuck.warps), (Bar("stuck", begin, end, _short(pipeline, stuck), stuck.why),)))
    for (engine, number), spans in sorted(pipeline.lanes.engines.items()):
        name = f"{engine} {number}" if engine == "tensor core" else "TMA stores"
        bars = tuple(
            Bar("work", s.begin, s.end, (labels.get(_number(s.label), s.label),), pipeline.place(s.instruction))
            for s in spans
            if s.begin < end
        )
        lanes += [Lane("engines", name, bars)] if bars else []
    return Drawing(tuple(lanes), tuple(arrows), begin, end)


def _split(pipeline: Verdicts) -> Iterator[Role]:
    """The roles. Warps whose arrivals a wait lacks for ever are apart from those that have arrived. In a warpgroup
    often one warp arrives for all.
    """
    overdue: set[int] = set()
    for stuck in pipeline.lanes.stuck:
        came = {warp // GROUP for warp, _ in stuck.missing.came} if stuck.missing is not None else set()
        late = set(pipeline.overdue(stuck))
        overdue |= late | {
            warp for one in late if one // GROUP not in came for warp in range(one // GROUP * GROUP, one // GROUP * GROUP + GROUP)
        }
    for role in pipeline.lanes.roles():
        behind, others = (tuple(warp for warp in role.warps if (warp in overdue) == is_late) for is_late in (True, False))
        if behind and others:
            yield role._replace(warps=others, warp=others[0])
            yield Role(f"{role.name}, overdue", behind, behind[0])
        else:
            yield role


def _notes(pipeline: Verdicts, drawing: Drawing) -> list[str]:
    """Sentences that explain the picture, if its labels do not."""
    found = []
    if pipeline.is_over and any(ring.is_late for ring in pipeline.rings):
        found.append("N stages work as M: each load is issued as late as in a ring of M stages.")
    first = next((ring for ring in pipeline.rings if ring.kind not in ("accumulator", "answer")), None)
    if first is not None and pipeline.is_over and (drawn := sum(one.at < drawing.end for one in first.fillings)) < len(first.fillings):
        load = WORDS[first.kind][0]
        found.append(f"The first {drawn} of {len(first.fillings)} {load}s are drawn.")
    return found


def _window(pipeline: Verdicts) -> tuple[float, float]:
    """From when to when is drawn: the first rounds of the first ring, or the last ones before a hang."""
    spans = [span for of in (*pipeline.lanes.warps.values(), *pipeline.lanes.engines.values()) for span in of]
    whole = max([one.intervals[3] for ring in pipeline.rings for one in ring.fillings] + [span.end for span in spans], default=1.0) or 1.0
    rings = [ring for ring in pipeline.rings if ring.kind not in ("accumulator", "answer")] or list(pipeline.rings)
    if not rings:
        return 0.0, whole
    ring = rings[0]
    count = min((ROUNDS + 1) * len(ring.stages) + 1, max(2 * len(ring.stages) + 2, MOST_LOADS))
    if pipeline.is_over and count >= len(ring.fillings):
        return 0.0, whole
    if pipeline.is_over:
        return 0.0, min(whole, max(one.intervals[3] for one in ring.fillings[:count]))
    shown = ring.fillings[-count:]
    return min(one.at for one in shown), whole * 1.25


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
        yield Bar("load", at, full, (label,), f"load {label} under way")
        if not is_followed:
            yield Bar("full", full, end if following is None else following[1].at, (), f"load {label}: full, or being read")
            continue
        yield Bar("full", full, read, (), f"load {label}: full")
        yield Bar("read", read, free, (), f"load {label}: being read")
        if following is not None and ring.is_late and following[1].at > free:
            why = held.get(following[0])
            says: tuple[str, ...] = ()
            if why is not None:
                until = labels.get(why.until, "")
                says = (f"needs {label}, waits for {until}", f"waits for {until}", until)
            yield Bar("kept", free, following[1].at, says, f"load {labels[following[1].number]} could be issued here")


def _never(pipeline: Verdicts, ring: Ring, stage: int, end: float) -> Iterator[Bar]:
    """A stage that a thread waits for ever to fill."""
    for stuck in pipeline.lanes.stuck:
        found = pipeline.awaited(stuck)
        if found is not None and found.ring is ring and found.stage == stage and found.is_issue:
            last = max(one.intervals[3] for one in ring.fillings if one.stage == ring.stages[stage])
            yield Bar("stuck", last, end, (f"never released for load {pipeline.label(ring, found.load)}", "never released"), stuck.why)


def _in_flight(ring: Ring) -> Iterator[Bar]:
    """How many loads are under way, until the last one is complete; `few` if the barriers allow no more, and a stage is
    empty that another load could fill.
    """
    starts, ends = sorted(one.at for one in ring.fillings), sorted(one.full for one in ring.fillings)
    empty = list(_empty(ring)) if ring.is_late else []
    times = sorted({*starts, *ends, *(time for span in empty for time in span)})
    times = times[: bisect.bisect_right(times, ends[-1])]
    counts = []
    for begin, end in itertools.pairwise(times):
        count = bisect.bisect_right(starts, begin) - bisect.bisect_right(ends, begin)
        counts.append((begin, end, count, count <= ring.effective and any(free <= begin < at for free, at in empty)))
    for (count, is_few), same in itertools.groupby(counts, key=lambda one: one[2:]):
        spans = list(same)
        if not count and not ring.is_late:
            continue
        says = f"{count} of at most {len(ring.stages)} in flight"
        yield Bar("few" if is_few else "flying", spans[0][0], spans[-1][1], (str(count),), says)


def _empty(ring: Ring) -> Iterator[tuple[float, float]]:
    """From when to when a stage is empty before a load."""
    free: dict[tuple[int, int], float] = {}
    for one in ring.fillings:
        if free.get(one.stage, 0.0) < one.at:
            yield free.get(one.stage, 0.0), one.at
        free[one.stage] = one.intervals[3]


def _role_bars(pipeline: Verdicts, warp: int, labels: dict[int, str], end: float) -> Iterator[Bar]:
    kinds = {"wait": "wait", "barrier": "wait", "own MMAs": "own", "tensor memory": "work"}
    last = 0.0
    for span in pipeline.lanes.warps[warp]:
        kind = kinds.get(span.kind, "issue")
        name = labels.get(_number(span.label), span.label)
        title = f"{span.kind} {name} at {pipeline.place(span.instruction)}"
        says = () if kind in ("issue", "work") else _waits_for(pipeline, span, name)
        if kind == "work" and _number(span.label) in labels:  # an accumulator of a ring
            says = (name,)
        long = _needed_until(pipeline, span)
        if long is None:
            yield Bar(kind, span.begin, span.end, says, title)
        else:
            yield Bar(kind, span.begin, long, (), title)
            yield Bar("long", long, span.end, (*says, *(one.partition(" ")[0] for one in says[3:])), title)
        last = max(last, span.end)
    for stuck in pipeline.lanes.stuck:
        if warp in stuck.warps:
            yield Bar("stuck", last, end, _short(pipeline, stuck), stuck.why)


def _waits_for(pipeline: Verdicts, span: Span, name: str) -> tuple[str, ...]:
    """The condition that a wait waits for: the barrier, and a load. This is the load that is full or read as the wait
    ends, or else the newest load that the wait covers.
    """
    loads = [n for n in bits_of(span.loads) if n in pipeline.labels]
    reads = [n for bit in bits_of(span.reads) if (n := bit // READERS) in pipeline.labels]
    if span.kind == "own MMAs" and reads:
        return (f"MMAs of {pipeline.labels[reads[-1]]}", pipeline.labels[reads[-1]])
    full, read = _ending(pipeline, span)
    found = [(n, "full") for n in full] or [(n, "read") for n in read] or [(n, "read") for n in reads] or [(n, "full") for n in loads]
    what = f"{pipeline.labels[found[-1][0]]} {found[-1][1]}" if found else ""
    barrier = name.partition(" phase")[0]
    if not what:
        return name, barrier
    until = f"until {pipeline.labels[found[-1][0]]} is {found[-1][1]}"
    return f"{name}, {until}", f"{barrier}, {until}", until, what


def _ending(pipeline: Verdicts, span: Span) -> tuple[list[int], list[int]]:
    """The fillings that a thread learns of by a wait, and that are full, or read, just as it ends."""
    of = pipeline.fillings
    full = {n for n in bits_of(span.loads) if n in of and of[n].intervals[1] == span.end}
    read = {n for bit in bits_of(span.reads) if (n := bit // READERS) in of and of[n].intervals[3] == span.end}
    return sorted(full), sorted(read)


def _needed_until(pipeline: Verdicts, span: Span) -> float | None:
    """When what a wait is needed for was complete, if the wait holds a ring back and is longer; else None."""
    for ring in pipeline.rings:
        if span.kind not in ("wait", "barrier") or span.instruction not in ring.culprits():
            continue
        if ring.kind == "cp.async":
            newest = max((n for n, one in enumerate(ring.fillings) if span.loads >> one.number & 1), default=0)
            found = ring.fillings[max(newest - (len(ring.stages) - 2 * max(ring.batch, 1)), 0)].intervals[1]
        elif not ring.is_held_back:
            found = span.begin
        else:
            following = next((n for n, one in enumerate(ring.fillings) if one.at >= span.end), len(ring.fillings))
            held = next((one for one in ring.held if one.load >= following), None)
            if held is None:
                continue
            # a load that overwrites nothing needs no wait
            found = ring.fillings[held.needs].intervals[3] if ring.overwrites[following] else span.begin
        if found < span.end:
            return float(max(found, span.begin))
    return None


def _learned(pipeline: Verdicts, warp: int) -> Iterator[tuple[float, int, bool]]:
    """The ends of a warp's waits for others, the fillings that are full or read then, which it learns by them, and
    whether the wait was longer than needed.
    """
    for span in pipeline.lanes.warps[warp]:
        if span.kind in ("wait", "barrier"):
            is_long = _needed_until(pipeline, span) is not None
            yield from ((span.end, n, is_long) for n in sorted({n for found in _ending(pipeline, span) for n in found}))


def _short(pipeline: Verdicts, stuck: Stuck) -> tuple[str, ...]:
    """The labels of a wait that never ends: the event it waits for."""
    if stuck.missing is None or stuck.barrier is None:
        return (stuck.why.partition(";")[0],)
    name = pipeline.barrier_names.get(stuck.barrier[1]) or f"{stuck.barrier[1]:#x}"
    overdue = pipeline.overdue(stuck)
    absent = "" if stuck.missing is None else "".join(f": CTA {cta} never arrived" for cta in stuck.missing.absent)
    late = f": {warps_named(overdue)} overdue" if overdue else absent
    lacks = f"{name} phase {stuck.missing.phase}: {pipeline.lacking(stuck.missing)}"
    return (f"{lacks}{late}", f"{name}{late}", lacks, name)


# ---- As text

MARKS = {"load": "-", "full": "=", "read": "#", "kept": "x", "wait": "~", "long": "x", "own": ":", "work": "#", "stuck": "!", "issue": "|"}
# The kinds of bars that are explained, in words, for each group of rows.
STAGES, ROLES, ENGINES = "stages", "roles", "engines"
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    (STAGES, "load", "load under way"), (STAGES, "full", "full"), (STAGES, "read", "being read"), (STAGES, "kept", "empty, and the next load waits for more than it needs (the number: until this load is read)"),
    (STAGES, "stuck", "never released"), (STAGES, "flying", "how many loads are in flight, by the assumed lengths"), (STAGES, "few", "in flight: too few, a stage is empty"),
    (ROLES, "issue", "issues a load, matrix instructions or a store"), (ROLES, "wait", "waits"), (ROLES, "long", "waits for more than is needed"),
    (ROLES, "own", "waits for its own MMAs"), (ROLES, "work", "reads tensor memory"), (ROLES, "stuck", "waits for ever"), (ENGINES, "work", "at work"),
)  # fmt: skip


def _explained(pipeline: Verdicts, drawing: Drawing) -> dict[str, list[tuple[str, str]]]:
    """By group of rows: the kinds of bars that are drawn, and what each means."""
    drawn = {
        (lane.group if lane.group in (ROLES, ENGINES) else STAGES, bar.kind)
        for lane in drawing.lanes
        for bar in lane.bars
        if (bar.end > bar.begin or bar.kind == "issue") and bar.begin < drawing.end and bar.end >= drawing.begin
    }
    has_sums, has_loads = (any((ring.kind == "accumulator") == is_sum for ring in pipeline.rings) for is_sum in (True, False))
    is_followed = all(one.readers for ring in pipeline.rings for one in ring.fillings[:1])
    has_groups = any(ring.kind == "cp.async" for ring in pipeline.rings)
    under_way = " or ".join(
        [f"{'group of cp.async' if has_groups else 'load'} under way"] * has_loads + ["accumulator is computed"] * has_sums
    )
    other = {"load": under_way} | ({} if is_followed else {"full": "full, or being read by threads"})
    found: dict[str, list[tuple[str, str]]] = {}
    for group, kind, says in EXPLAINED:
        if (group, kind) in drawn:
            found.setdefault(group, []).append((kind, other.get(kind, says) if group == STAGES else says))
    return found


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
    lines += [""] * bool(drawing.lanes)
    for of, kinds in _explained(pipeline, drawing).items():
        load = "group" if _many(pipeline) == "groups" else "load"
        numbers = (
            [f"a number: the {load}; in the row in flight: how many {_many(pipeline)} are under way at once"]
            if of == STAGES
            else [f"a number: the {load}"]
            if of == ENGINES
            else []
        )
        entries = [f"{MARKS[kind]} {says}" for kind, says in kinds if kind in MARKS]
        lines += textwrap.wrap(f"{of}: {'; '.join([*entries, *numbers])}", COLUMNS, subsequent_indent="  ")
    if pipeline.is_cut:
        lines.append("Later loads repeat these and were not recorded.")
    return "\n".join([*lines, "", *_notes(pipeline, drawing), SAYS_OF_TEXT])


def _many(pipeline: Verdicts) -> str:
    """The operations that fill rings, in words."""
    return " or ".join(dict.fromkeys(f"{WORDS[ring.kind][0]}s" for ring in pipeline.rings if ring.kind != "accumulator"))


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
        if bar.kind in ("load", "work", "stuck"):
            labels.append((begin, _fitting(bar.labels, end - begin) or bar.label))
        elif len(says := _fitting(bar.labels, end - begin - 3)) > LEAST_LETTERS:
            labels.append((begin + 2, says))
    issues = [(int((bar.begin - drawing.begin) * scale), MARKS["issue"]) for bar in lane.bars if bar.kind == "issue"]
    for begin, label in (*issues, *labels):
        if 0 <= begin < width:
            row[begin : min(begin + len(label), width)] = list(label[: width - begin])
    return "".join(row)


def _fitting(labels: Sequence[str], room: float) -> str:
    """The first label for which there is room."""
    return next((says for says in labels if 0 < len(says) <= room), "")


# ---- As SVG

WIDTH, LEFT, ROW, BOX = 1400, 250, 24, 18  # pixels
FILLS = {
    "load": "k1",
    "full": "k0",
    "read": "k2",
    "wait": "x",
    "long": "k3",
    "own": "k4",
    "work": "k2",
    "flying": "k1",
    "few": "e",
    "stuck": "alarm",
}
LETTER = 5.9


def pipeline_svg(pipeline: Verdicts, style: str | None = None) -> str:
    """The rows over time, light and dark. `style` "" is for a page, which has the rules and the sentences already."""
    drawing = drawing_of(pipeline)
    if style is None:
        notes = " ".join([SAYS, *_notes(pipeline, drawing)])
        parts, y = [svg_text(MARGIN, 30, "t", "Pipeline"), svg_text(MARGIN, 50, "s", notes)], 74.0
        for says, is_bad in pipeline.verdicts():
            for line in textwrap.wrap(says, 186):
                parts.append(svg_text(MARGIN, y, "s alarm" if is_bad else "s", line))
                y += 17
    else:
        parts, y = [svg_text(MARGIN, 20, "s", " ".join([SAYS, *_notes(pipeline, drawing)]))], 24.0
    tops, group, heads = [], "", []
    for lane in drawing.lanes:
        if lane.group != group:
            group = lane.group
            y += 14
            heads.append(svg_text(MARGIN, y + 8, "t b", group))
            y += 18
        tops.append(y)
        parts += _lane_svg(lane, drawing, y)
        y += ROW
    shown = [one for one in drawing.arrows if drawing.begin <= one[0] <= drawing.end]
    for time, source, target, is_long in sorted(shown, key=lambda one: one[3]):
        x = _at(time, drawing)
        parts.append(arrow(((x, tops[source] + BOX), (x, tops[target])), "late" if is_long else "dep", "alarm" if is_long else "s"))
    parts += heads
    y += 14
    explained = _explained(pipeline, drawing)
    if shown:
        explained.setdefault(ROLES, []).append(("arrow", "from the load that ended a wait"))
        if any(is_long for *_, is_long in shown):
            explained[ROLES].append(("late", "the wait was too long"))
    for of, kinds in explained.items():
        parts.append(svg_text(MARGIN, y + 13, "s", f"{of}:"))
        x = MARGIN + 66.0
        for kind, says in kinds:
            if x + 24 + 7 * len(says) > WIDTH - MARGIN:
                x, y = MARGIN + 66.0, y + ROW
            parts += _sample(kind, x, y)
            parts.append(svg_text(x + 24, y + 13, "s", says))
            x += 24 + 7 * len(says) + 18
        y += ROW
    return svg(WIDTH, y + 12, parts, " ".join(pipeline.sentences()), style)


def _sample(kind: str, x: float, y: float) -> list[str]:
    """A mark of the legend."""
    if kind in ("arrow", "late"):
        return [
            arrow(((x + 2, y + BOX / 2), (x + 18, y + BOX / 2)), "dep" if kind == "arrow" else kind, "s" if kind == "arrow" else "alarm")
        ]
    return [
        *_box(kind, x, y, 18),
        *([svg_text(x + 6, y + 13, "alarm n" if kind == "few" else "c n", "1")] if kind in ("few", "flying") else []),
    ]


def _at(time: float, drawing: Drawing) -> float:
    """Pixels from the left of a time."""
    share = (time - drawing.begin) / ((drawing.end - drawing.begin) or 1.0)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - MARGIN)


def _box(kind: str, x: float, y: float, width: float, title: str = "") -> list[str]:
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    if kind == "issue":
        return [rect(x + width / 2 - 1, y, 2, BOX, "s", inner)]
    if kind == "kept":
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
        text = _fitting(bar.labels, (right - x - 2) / LETTER) or (bar.label if bar.kind == "load" else "")
        if text and (x, text) not in drawn:
            drawn.add((x, text))
            style = {"kept": "alarm n", "few": "alarm n", "stuck": "bg n"}.get(bar.kind, "c n")
            if bar.kind == "kept":  # hatched: letters need a plate
                labels.append(rect(x + 1, y + 3, min(5.8 * len(text) + 4, right - x - 2), BOX - 6, "e"))
            labels.append(svg_text(x + 3, y + 13, style, text))
    return [*parts, *labels]


# ---- As data


def lanes_dict(pipeline: Verdicts) -> dict[str, Any]:
    """Roles, engines and waits that never end, and the rows as events of a trace (chrome://tracing, Perfetto): one
    assumed unit is a microsecond.
    """
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
