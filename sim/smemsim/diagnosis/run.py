"""`Run`: what a launch did and what is wrong with it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.base.terminal import in_columns
from smemsim.core.finding import Finding, InLaunch, Path, Touched, folded, told
from smemsim.core.picture.message import coloured, plain
from smemsim.core.ptx.demangle import demangled, shorter_name
from smemsim.core.ptx.module import Instruction, Location
from smemsim.core.ptx.sources import Sources
from smemsim.core.spec.barriers import MBARRIER_SIZE
from smemsim.core.spec.findings import CODES, TOLD_APART, UPSTREAM, UPSTREAM_IF_MENDED, Severity
from smemsim.core.spec.formats import element_format
from smemsim.diagnosis.accumulators import with_overlaps
from smemsim.diagnosis.build import Scenario
from smemsim.diagnosis.compilers import blamed
from smemsim.diagnosis.consequences import is_lost_update, with_causes, with_trials
from smemsim.diagnosis.costs import cost_notes, heat_of, limit_findings
from smemsim.diagnosis.counted import counters_of
from smemsim.diagnosis.coverage import NOTHING_TAKEN, OF_ALL, Judged, judged_of
from smemsim.diagnosis.covered import rests_on
from smemsim.diagnosis.epilogue import stored_tiles
from smemsim.diagnosis.explained_output import Executed, Wrong, explained, rounding_of
from smemsim.diagnosis.filled import Filling
from smemsim.diagnosis.fills import exchanged_boxes
from smemsim.diagnosis.numbers import Rounding, Tolerance
from smemsim.diagnosis.operands.boxes import cut_off, loaded_twice, nan_fills, stray_boxes
from smemsim.diagnosis.operands.exchanged_steps import exchanged_steps
from smemsim.diagnosis.operands.fragment_factors import wrong_fragments
from smemsim.diagnosis.operands.looked_up import milder_if_looked_up
from smemsim.diagnosis.operands.maps import of_maps
from smemsim.diagnosis.operands.never_loaded import never_loaded
from smemsim.diagnosis.operands.ranks import own_ranks
from smemsim.diagnosis.operands.read import Issued, Product
from smemsim.diagnosis.operands.recorded import Reads, is_packed
from smemsim.diagnosis.operands.repeated import repeated_products
from smemsim.diagnosis.operands.scaled import wrong_factors
from smemsim.diagnosis.operands.steps import begun_anew, is_discarded, unreached
from smemsim.diagnosis.operands.sums import exchanged, mismatches
from smemsim.diagnosis.operands.tiles import interchanged, turned, unread
from smemsim.diagnosis.outputs import Output
from smemsim.diagnosis.pairs import halves
from smemsim.diagnosis.pipeline import Pipeline
from smemsim.diagnosis.report import Report, fitting
from smemsim.diagnosis.run_page import entry, named_by_line, stores_of
from smemsim.diagnosis.run_to_scenario import STRAYED, Written, judged, scenario_of
from smemsim.diagnosis.trials.outcome import Outcomes, with_outcome
from smemsim.diagnosis.unread_copies import unread_copies
from smemsim.diagnosis.unwritten import extents_of, with_extent
from smemsim.run.counters import Counters, Counting
from smemsim.run.engine.arrays import DeviceArray, as_numpy
from smemsim.run.engine.grid import resident, takes_over
from smemsim.run.engine.launch import Launch
from smemsim.run.engine.records import Mma
from smemsim.run.engine.sampling import Sample
from smemsim.run.followed import was_right
from smemsim.run.pipeline import PipelineRecorder
from smemsim.run.sanitizer.races import UPDATE

if TYPE_CHECKING:
    from smemsim.core.picture.model import Heat, Page, Stages
    from smemsim.diagnosis.schedules import Schedules
    from smemsim.run.engine.profile import Profile

__all__ = ["Run", "findings_of"]

MOST_ENTRIES = 40  # findings on a page


# ---- The findings of a run: those of the sanitizer and of `check` on what was executed, each with its line, the most
# upstream one first


_NUMBER = re.compile(r"0x[0-9a-f]+|%?\w*\d[\d.]*")  # or a register
OF_FUNCTIONS = ("R507", "X008")  # codes whose findings in an inlined function are one
OF_BOXES = frozenset(("R508", "T209"))  # codes after which other boxes are not looked at
STUCK = frozenset(("X006", "X010"))  # codes after which it is not known what threads would have done later
OF_OPERANDS = ("R501", "R502", "R503", "R504", "R505", "R508", "I603", "I604")  # codes whose sentences may name a k


def findings_of(
    causes: Iterable[Finding],
    executed: Iterable[Finding],
    written: Written | None,
    checked: tuple[Finding, ...],
    name: str,
    reads: Reads | None = None,
    body: Iterable[Instruction] = (),
    later: Iterable[Finding] = (),
) -> list[Finding]:
    """All findings of a run in order, `causes` first. A consequence names its cause. Equal findings are one, with a
    count.

    `body` are the instructions of the program. `later`: findings of other runs, which are no
    cause of those of this one.
    """
    upstream = [_of_sanitizer(f, name, reads) for f in causes]
    own = [_of_sanitizer(f, name, reads) for f in executed]
    own += [_with_unit(_of_check(f, written, name, reads)) for f in checked if written is not None]
    parts = [sorted(part, key=_order) for part in (own, [_of_sanitizer(f, name, reads) for f in later])]
    findings = upstream + sorted((f for part in parts for f in part), key=_is_mild)
    if not findings:
        return []
    sources = Sources(body)
    findings = [_placed(f, sources) for f in findings]
    strays = _strays(written, reads, {(f.code, f.site) for f in findings})
    return _grouped(with_causes(findings, lambda i: _touched(i, reads), strays), sources)


def _with_unit(f: Finding) -> Finding:
    """A finding of the operand check, with the unit of its k if that is not an element."""
    i = f.at.instruction if isinstance(f.at, InLaunch) else None
    if i is None or f.code not in OF_OPERANDS or not is_packed(i):
        return f
    return dataclasses.replace(f, why="; ".join(filter(None, (f.why, "k counts bytes here, of two elements each"))))


def _is_mild(f: Finding) -> bool:
    return f.severity in (Severity.NOTE, Severity.LUCK)


def _order(f: Finding) -> tuple[bool, int, bool]:
    """The key by which the findings of a run are sorted: the most upstream first."""
    return _is_mild(f), _rank(f), not is_lost_update(f)


def _placed(f: Finding, sources: Sources) -> Finding:
    """A finding with its place in the source."""
    if not isinstance(f.at, InLaunch) or f.location is None:
        return f
    other = f.at.other.location if f.at.other is not None else None
    at = f.at._replace(place=sources.place(f.location), other_place=sources.place(other) if other is not None else None)
    return dataclasses.replace(f, at=at)


def _grouped(findings: list[Finding], sources: Sources) -> list[Finding]:
    """Findings with the same gist as one: the first of them, with the places of the others.

    A race between warps includes races between lanes of one warp at the same lines: a barrier for all warps orders
    the lanes, too. Its finding stands for them, unless an update is lost: its fix repairs both.
    """
    alike: dict[tuple[object, ...], list[Finding]] = {}
    of_warps = {
        _halves(f): _gist(f, sources)
        for f in reversed(findings)
        if f.code == "X008" and not f.is_within_warp and f.severity is Severity.WRONG
    }
    for f in findings:
        gist = of_warps.get(_halves(f)) if f.is_within_warp else None
        alike.setdefault(gist or _gist(f, sources), []).append(f)
    of_each = (sorted(some, key=lambda f: f.is_within_warp and f.operation != UPDATE) for some in alike.values())
    return [dataclasses.replace(first, alike=tuple(f.at for f in others if isinstance(f.at, InLaunch))) for first, *others in of_each]


def _halves(f: Finding) -> frozenset[str]:
    """The lines of the source of both halves of a race; without .loc the forms of the two instructions."""
    at = f.at
    if not isinstance(at, InLaunch) or at.other is None:
        return frozenset()
    if f.place is not None and at.other_place is not None:
        return frozenset((str(f.place), str(at.other_place)))
    return frozenset((_form(at.instruction), _form(at.other)))


def _gist(f: Finding, sources: Sources) -> tuple[object, ...]:
    """The key of findings that are the same. Findings of one source line with the same gist are grouped.

    Without .loc: of one form of instruction. Threads that wait are reported at every place. Races and uninitialised
    values in a function that was inlined at several places have one cause, whichever of its lines are involved.
    """
    at = f.at
    assert isinstance(at, InLaunch)
    if f.code in OF_FUNCTIONS and (function := sources.function(f.place)):
        other = sources.function(at.other_place) or str(at.other_place)
        return f.code, f.severity, function, other, f.is_within_warp, at.arrays, bool(f.touched)
    apart = f.code in TOLD_APART
    if f.place is not None:
        place: object = f.place.path if apart else str(f.place)
    else:
        place = at.instruction.site if apart and at.instruction is not None else _form(at.instruction)
    accesses = tuple(half.does for half in f.halves), at.other.op if f.other is not None and at.other is not None else ""
    return f.code, f.severity, place, at.kind, accesses, f.is_within_warp, f.cause is None


def _form(i: Instruction | None) -> str:
    """The text of an instruction without its registers and numbers."""
    return "" if i is None else _NUMBER.sub("", i.text)


def _rank(f: Finding) -> int:
    """The finding's place in the order of causes; 0 is the most upstream one."""
    return UPSTREAM[UPSTREAM_IF_MENDED.get(f.code, f.code) if f.fix is not None else f.code]


def _touched(i: Instruction | None, reads: Reads | None) -> tuple[Touched, ...]:
    """The bytes of shared memory that a load or a matrix instruction touches, with the mbarriers on which the load
    completes.
    """
    if reads is None or i is None:
        return ()
    loads = (load for load in reads.loads if load.event.instruction.site == i.site)
    products = (p for p in reads.products if any(event.instruction.site == i.site for event in p.events))
    return (*_of_loads(loads), *(touched for p in products for side in ("a", "b") for touched in _of_operand(p, side, reads.arch, i.site)))


def _of_loads(loads: Iterable[Issued]) -> Iterator[Touched]:
    for load in loads:
        yield Touched(load.cta, load.transfer.smem_address, load.transfer.shared_end)
        for delivery in load.event.deliveries:
            if delivery.smem_address == load.transfer.smem_address and delivery.mbar.cta_rank == delivery.cta_rank:
                at = delivery.mbar.smem_address
                yield Touched(load.cta, at, at + MBARRIER_SIZE)


def _of_operand(p: Product, side: str, arch: str, site: int) -> Iterator[Touched]:
    """The bytes of an operand of a product's instructions at one site."""
    for event in p.events:
        operand = event.operand(side)
        if operand is None or site != event.instruction.site:
            continue
        with contextlib.suppress(SmemsimError):
            addresses = operand.addresses(arch)
            yield Touched(p.cta, int(addresses.min()), int(addresses.max()) + 1)


def _strays(written: Written | None, reads: Reads | None, found: Collection[tuple[str, int]]) -> Callable[[Finding, Finding], bool]:
    """Is a finding about bytes outside of the tile, which a later K step reads because of a wrong operand (the cause)?

    The first K step, which reads the tile, has no such finding: its tile is complete.
    """

    def find(cause: Finding, f: Finding) -> bool:
        path = cause.check.path if cause.check is not None else None
        if path is None or not path.side or path.step is None or written is None or reads is None or f.code not in STRAYED:
            return False
        item = written.steps[path.step]
        if not isinstance(item, Product) or f.site not in {event.instruction.site for event in item.events[1:]}:
            return False
        sites, first = {event.instruction.site for event in item.events}, item.events[0].instruction.site
        if (f.code, first) in found or first == f.site or not f.touched:
            return False
        tiles = (
            [read for read in (p.a[0], p.b[0]) if read is not None]
            for p in reads.products
            if sites & {e.instruction.site for e in p.events}
        )
        return any(
            side and not any(mine.meets(other) for read in side for other in _of_loads(read.loads) for mine in f.touched) for side in tiles
        )

    return find


def _of_sanitizer(f: Finding, name: str, reads: Reads | None) -> Finding:
    """A finding of the sanitizer, with the name of its launch and its bytes."""
    at = f.at if isinstance(f.at, InLaunch) else InLaunch(None)
    return dataclasses.replace(f, at=at._replace(launch=name, touched=at.touched or _touched(at.instruction, reads)))


def _of_check(f: Finding, written: Written | None, name: str, reads: Reads | None) -> Finding:
    """A finding about the scenario of a run, at the instruction that its step or its map stands for."""
    event = None if written is None else written.event(f)
    if event is None:
        return dataclasses.replace(f, at=InLaunch(None, name), check=f)
    i, operand = event.instruction, ""
    if f.path.side and isinstance(event, Mma):
        word = getattr(event, f.path.side)
        operand = f"{f.path.side.upper()}, " + (f"descriptor {word:#018x}: " if word is not None else "")
    about = [f.path.side, f.inside.field.key if f.inside is not None else "", *(path.key for path, *_ in f.changes)]
    arrays = () if written is None else written.arrays(f)
    at = InLaunch(i, name, touched=_touched(i, reads), arrays=arrays, kind=" ".join(filter(None, about)))
    has_cause = bool(f.changes or f.repair or f.why)
    why, repair = ("", "") if has_cause or reads is None or not isinstance(event, Mma) else loaded_twice(reads, event, f.path.side)
    # nothing says that an unchecked operand works
    is_note = f.severity is Severity.LUCK and written is not None and written.is_unchecked(f)
    return dataclasses.replace(
        f,
        at=at,
        severity=Severity.NOTE if is_note else f.severity,
        what=f"{operand}{f.what}",
        why=why or f.why,
        repair=_repair_of_map(f) or f.repair or repair or _WITHOUT_FIX.get(f.code, ""),
        check=f,
    )


def _breaks_rule(f: Finding) -> bool:
    """Does the kernel break a documented rule? Remarks are of another severity than their code."""
    return CODES[f.code].severity in (Severity.TRAP, Severity.WRONG) and bool(f.source)


# Findings of the check without a change that makes the operand right.
_WITHOUT_FIX = {
    "R508": "check the coordinates and destinations of the loads first, then the swizzle, LBO and SBO, then the start and the K steps"
}


def _repair_of_map(f: Finding) -> str:
    """The fix of a tensor map, which in a launch the host encodes; "" if another thing or more must change."""
    path, value = (f.changes[0].path, f.changes[0].new) if len(f.changes) == 1 else (Path(), None)
    if path.table != "map" or path != Path.of("map", path.name, path.key):
        return ""
    return f"{path.key} = {value} in the call that encodes {path.name}"


# ---- `Run`: what a launch did and what is wrong with it


@in_default_state
class Run(metaclass=OwnMembers):
    """A launch that has run.

    - Findings: `findings`, the first cause first, and `remarks`, which need no change.
    - Output: `output`, the text of printf.
    - Numbers: `approximate`, the instructions whose results are right within the ISA's bound (`ex2.approx`).
    - Sums: `unsure`, the lines of sums that ptxas may fuse with a product. If `approximate` and `unsure` are empty, the
      outputs are bit-exact as far as `evidence` says.
    - Time: `seconds`.
    - CTAs: `ctas`, the number that ended. These are all of the grid, unless a part was asked for, the kernel trapped or
      hung, or it was stopped (`out_of_time`, `interrupted` by Ctrl-C).

    >>> import smemsim
    >>> run = smemsim.Gpu("sm_90a").launch('''.version 8.0 .target sm_90a .address_size 64
    ... .visible .entry k() { .reg .b64 %d; mov.b64 %d, 16; st.global.u32 [%d], 7; ret; }''', block=1)
    >>> run.ok, [finding.code for finding in run.findings], run.launch.status
    (False, ['X001'], 700)
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "explain_output", "has_relaxed", "has_tried", "partial", "tells_stages",
    )  # fmt: skip

    def __init__(
        self, launch: Launch, reads: Reads | None, *, name: str = "ptx", ptx: str = "", seconds: float = 0.0, done: int | None = None,
        interrupted: bool = False, folders: tuple[pathlib.Path, ...] = (),
    ) -> None:  # fmt: skip
        self.launch, self.reads, self.name, self.seconds, self.interrupted = launch, reads, name, seconds, interrupted
        self.ptx, self.folders = ptx, folders
        self.ctas = launch.ctas if done is None else done
        self._schedules: Schedules | None = None
        self.profile: Profile | None = None  # the time by part, for `smemsim run --profile`
        self._not_judged = ""  # why check said nothing about the operands
        self.counting: Counting | None = None
        self.stages: PipelineRecorder | None = None
        self._needless: tuple[Finding, ...] = ()
        self._relaxed: tuple[str, ...] = ()
        self.sample: Sample | None = None  # which CTAs stand for the grid, of `ctas = "sample"`
        self.later = ""  # what the latest order leaves otherwise, of `Gpu.run_and_compare`
        self._outcomes: Outcomes = {}
        self._kept = launch.result.findings.kept  # when findings were last put together
        self._extents = extents_of([*launch.result.findings.values()], launch.memory)  # as the launch leaves its memory

    @property
    def _has_moved(self) -> bool:
        """Was there a transfer or a matrix instruction? Else the operand check has nothing to do."""
        return bool(self.launch.result.events) or (self.reads is not None and (self.reads.has_seen or self.reads.warps.has_seen))

    @functools.cached_property
    def _checked(self) -> tuple[Written | None, Report | None]:
        """The run as a scenario and its report, with the meaning of the operands that a small repair explains, if there
        is one.

        If check does not model it, there is neither, and `evidence` says why. This does not count against the kernel.
        """
        if self.reads is None or not self._has_moved:
            return None, None
        try:
            return judged(self.launch, self.reads)
        except SmemsimError as e:
            self._not_judged = str(e)
            return None, None

    @functools.cached_property
    def counters(self) -> Counters:
        """The cost of the launch by line: `Gpu.launch(counters=True)`. Raises InputError for a launch that was not
        counted.
        """
        if self.counting is None:
            raise InputError("counters: nothing was counted; launch with counters=True (--counters)")
        return counters_of(self.launch, self.counting, lambda: Sources(self.launch.program.inlined.body).place)

    def place_of(self, i: Instruction) -> str:
        """The source line and the PTX line of an instruction: "gemm.cu:91, PTX line 303"."""
        if i.location is None:
            return f"PTX line {i.line}"
        return f"{str(self._place(i.location)).rpartition('/')[2]}, PTX line {i.line}"

    @functools.cached_property
    def _place(self) -> Callable[[Location], object]:
        return Sources(self.launch.program.inlined.body).place

    @property
    def tells_stages(self) -> bool:
        """Were the stages recorded for more than a page?"""
        recording = self.launch.options.pipeline
        return self.stages is not None and not (recording and recording.only_page)

    @functools.cached_property
    def pipeline(self) -> Pipeline:
        """The stages that the loads fill, and which wait holds them back: `Gpu.launch(pipeline=True)`. InputError for
        a launch without it.
        """
        if self.stages is None:
            raise InputError("pipeline: nothing was recorded; launch with pipeline=True (--pipeline)")
        return Pipeline.of(self.stages, self.place_of, is_over=self.ctas == self.launch.ctas)

    @property
    def schedules(self) -> Schedules | None:
        """The results under other schedules, if many were tried (`schedule = "all:N"`). Else None."""
        return self._schedules

    @schedules.setter
    def schedules(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._judges_anew()

    def has_relaxed(self, notes: Sequence[Finding], lines: Sequence[str]) -> None:
        """Add notes on waits that were not needed, and a line for each wait that was weakened (`Gpu.run_relaxed`)."""
        self._needless, self._relaxed = tuple(notes), tuple(lines)
        self._judges_anew()
        self.__dict__.pop("_costs", None)

    def has_tried(self, outcomes: Outcomes) -> None:
        """Fixes were executed: findings have the results."""
        self._outcomes = outcomes
        self._judges_anew()

    def _judges_anew(self) -> None:
        """Forget the findings that were put together."""
        for name in ("_all", "_is_clean"):
            self.__dict__.pop(name, None)

    def _look_again(self) -> None:
        """A later launch may use a value that this one has stored. Then this launch has other findings
        (`run/sanitizer/stored.py`).
        """
        if self._kept != self.launch.result.findings.kept:
            self._kept = self.launch.result.findings.kept
            for name in ("_all", "_is_clean", "_watched", "_judgement"):
                self.__dict__.pop(name, None)

    @property
    def report(self) -> Report | None:
        """The result of `smemsim.check` for the transfers and matrix instructions that were executed. None if there
        were none.

        `report.html()` is a page with every operand's tile.
        """
        return self._checked[1]

    @functools.cached_property
    def _all(self) -> list[Finding]:
        return self._every(self._costs)

    @functools.cached_property
    def _is_clean(self) -> bool:
        """Is there no finding? Notes on costs are not needed for that."""
        return not any(f.severity in (Severity.TRAP, Severity.WRONG) for f in self._every([*self._broken, *self._of_stages]))

    @functools.cached_property
    def _judgement(self) -> tuple[list[Finding], list[Finding]]:
        causes, others = self._judged(self._checked[1]) if self._has_moved else ([], [])
        found = [*causes, *others, *self._watched]
        return causes, others if found or not self._has_ended else unread_copies(self.launch)

    def _every(self, costs: Sequence[Finding]) -> list[Finding]:
        """All findings, with some of those on costs."""
        written, report = self._checked
        causes, others = self._judgement
        of_schedules = self._schedules.findings if self._schedules is not None else ()
        findings = findings_of(
            causes, (*others, *own_ranks(self.launch), *self._watched, *costs), written,
            (*report.findings, *report.remarks) if report else (), self.name, self.reads, self.launch.program.inlined.body, of_schedules,
        )  # fmt: skip
        findings = with_trials([with_outcome(f, self._outcomes) for f in findings], self._outcomes)
        findings = blamed(findings, self.ptx, self.launch.program.uses, self.folders)
        return [dataclasses.replace(f, folders=self.folders) for f in findings]

    @functools.cached_property
    def _costs(self) -> list[Finding]:
        """Notes on what lines cost, of a launch that was counted, and on its rings of stages, if these
        were recorded.
        """
        counted = [] if self.counting is None else cost_notes(self.launch, self.counting)
        return [*self._broken, *counted, *self._of_stages]

    @functools.cached_property
    def _broken(self) -> list[Finding]:
        """The bounds of counters that were exceeded."""
        limits = self.launch.options.counters
        if self.counting is None or not isinstance(limits, tuple):
            return []
        return list(limit_findings(self.counters, limits, self.launch.program.inlined.body))

    @property
    def _of_stages(self) -> list[Finding]:
        return [*(self.pipeline.notes() if self.tells_stages else []), *self._needless]

    @functools.cached_property
    def _watched(self) -> list[Finding]:
        """The findings from the time while the kernel ran. A product that no instruction reads is none of them if it
        was discarded. Then a branch skipped its reader, or its overwriter is the product of another tile.
        """
        found = [dataclasses.replace(f, ctas=self.launch.result.findings.ctas(f)) for f in self.launch.result.findings.values()]
        found = with_overlaps([with_extent(f, self._extents) for f in found], self.launch)
        if not any(f.code == "X017" for f in found):
            return found
        sums = {} if self.reads is None else begun_anew(self.reads)
        return [f for f in found if f.code != "X017" or not is_discarded(self.launch.program, f, sums)]

    def _judged(self, report: Report | None) -> tuple[list[Finding], list[Finding]]:
        """The findings from loads, operands and stores: the causes, and the rest."""
        reads = self.reads
        if reads is None:
            return [], exchanged_boxes(self.launch)
        causes = exchanged(reads)
        causes += of_maps(reads, self.launch, [f.line for f in causes])
        causes = causes or turned(reads) or interchanged(reads, self.launch.arch)
        # a remark explains no wrong tile
        others = {f.code for f in self._watched if f.severity in (Severity.TRAP, Severity.WRONG)}
        # what was not written may be what the instruction's shape leaves out
        is_known = bool(causes or (report and report.findings) or others - {"R507"})
        executed = [] if is_known else self._of_parts(reads, is_missed="R507" in others or bool(self.launch.result.left_out))
        told = {f.code for f in (*causes, *executed) if f.severity is not Severity.NOTE}
        may_go_on = bool(others & STUCK) or self.interrupted or self.out_of_time  # and sums with it
        return causes, [
            *executed,
            *self._of_stores(reads, told, others),
            *cut_off(reads, self.launch.memory),
            *nan_fills(reads),
            *stray_boxes(reads),
            *exchanged_steps(reads),
            *(() if may_go_on else self._of_warps(reads)),
            *((*wrong_factors(reads.factors, self.launch), *wrong_fragments(reads.fragments, self.launch)) if self._has_ended else ()),
        ]

    def _of_parts(self, reads: Reads, *, is_missed: bool) -> list[Finding]:
        """The findings about k and rows of products that do not fit, and about parts of tiles that nothing reads."""
        found = [
            *mismatches(reads, self.launch.program, self.launch.memory),
            *unread(reads, self.launch.result.elsewhere, is_missed=is_missed),
        ]
        if not found and self._has_ended:
            found = unreached(reads, self.launch.memory)
        return [_with_unit(f) for f in found]

    def _of_stores(self, reads: Reads, told: Collection[str], others: Collection[str]) -> list[Finding]:
        """The findings about tiles that threads write, and about boxes that no finding of `told` is about. The run has
        findings with the codes `others`.
        """
        found = [milder_if_looked_up(f, self.launch.program) for f in reads.threads.found.values()]
        if "X006" not in others:  # which tiles a launch that hangs has stored is not certain
            found += stored_tiles(reads, self.launch)
        if "R508" not in told:  # else the load is reported already
            found = [*halves(reads), *found]
        if not OF_BOXES.isdisjoint((*told, *(f.code for f in found))):
            return found
        found += exchanged_boxes(self.launch)
        if found or not self._has_ended or not STUCK.isdisjoint(others):
            return found
        return repeated_products(reads, self.launch) or never_loaded(reads, self.launch)

    def _of_warps(self, reads: Reads) -> list[Finding]:
        """The findings about mma.sync. If there are none, the next such launch need not be followed."""
        found = reads.warps.found or (reads.warps.slices.found(self.launch) if self._has_ended else [])
        if not found and self._has_ended and self.launch.program.copied.fragments:
            was_right(self.launch)
        return found

    @property
    def findings(self) -> list[Finding]:
        """The findings that need a change, the first cause first."""
        self._look_again()
        if self.counting is not None and "_all" not in self.__dict__ and self._is_clean:
            return []
        return [f for f in self._all if f.severity in (Severity.TRAP, Severity.WRONG)]

    @property
    def remarks(self) -> list[Finding]:
        """The remarks: worth knowing, but nothing that must be changed."""
        self._look_again()
        return [f for f in self._all if f.severity not in (Severity.TRAP, Severity.WRONG)]

    @property
    def ok(self) -> bool:
        """True if there is no finding."""
        return not self.findings

    @property
    def is_strictly_ok(self) -> bool:
        """True if there is no finding, and no remark about a documented rule that the kernel breaks."""
        return self.ok and not self.broken

    @property
    def broken(self) -> list[Finding]:
        """The remarks about documented rules that the kernel breaks. `--strict` counts them as findings."""
        return [f for f in self.remarks if _breaks_rule(f)]

    @property
    def out_of_time(self) -> bool:
        """True if the launch ended because it ran for `limit_seconds`. Nothing is known about the rest of the
        launch.
        """
        return self.launch.result.out_of_time

    @property
    def _has_ended(self) -> bool:
        """Have all CTAs of the grid come to their end? Else it is not known what they would have done later."""
        is_stopped = self.interrupted or self.out_of_time or self.is_partial or bool(self.held_up)
        return not is_stopped and self.ctas == self.launch.ctas and not self.launch.result.status

    @property
    def held_up(self) -> str:
        """Why a launch of a part of the grid could not go on: it waits for a CTA that was left out. "" if it could go
        on.
        """
        return self.launch.result.held_up

    @property
    def is_partial(self) -> bool:
        """True if a part of the grid was left out. Then the results of the CTAs that were left out are missing in the
        outputs.
        """
        return self.launch.left_out > 0

    def partial(self) -> list[str]:
        """Sentences about a launch of a part of the grid: what ran, and what it cannot show. None for a whole grid."""
        if not self.is_partial:
            return []
        told = [self.sample.text()] if self.sample is not None else []
        told += [f"held up: {self.held_up}"] if self.held_up else []
        told.append("partial: outputs hold what these CTAs store, so a comparison with a reference means nothing")
        races = "races with CTAs that were left out"
        if takes_over(self.launch):
            races += ", work that a CTA takes over from another one"
        if self.launch.program.needs_others:
            races += ", what CTAs do when others have arrived (atomics, flags)"
        return [*told, f"not checked: {races}"]

    @property
    def output(self) -> str:
        """The text that the kernel's printf wrote. Bytes that are no UTF-8 are U+FFFD."""
        return "".join(self.launch.result.output).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    @property
    def asserted(self) -> str:
        """The text that the CUDA runtime writes to stderr: a line for each thread whose `assert` failed."""
        return "".join(self.launch.result.asserted)

    @property
    def approximate(self) -> tuple[str, ...]:
        """The instructions of the program whose results need not be exact in every bit."""
        return tuple(sorted(self.launch.program.approximate))

    @property
    def unsure(self) -> tuple[int, ...]:
        """The lines of sums that ptxas may fuse with a product. A fused sum is rounded once, else twice. So these
        results may differ from the card's in the last bit.
        """
        return tuple(sorted({i.line for i in self.launch.program.unsure}))

    @property
    def evidence(self) -> tuple[str, ...]:
        """The rules that the results depend on and that are not measured, in words."""
        grades = sorted(self.launch.result.evidence)
        if told := rests_on(self.launch.arch):
            grades.insert(0, told)
        if self.approximate:
            grades.append(f"within the ISA's error bound, not bit-exact: {', '.join(self.approximate)}")
        if self._checked == (None, None) and self._not_judged:
            grades.append(f"descriptors and tensor maps are not checked: {self._not_judged}")
        grades += self.bounds
        if self.unsure:
            lines = ", ".join(map(str, self.unsure))
            grades.append(f"may not be bit-exact: whether ptxas fuses a product into the sums at lines {lines} is not known")
        return tuple(grades)

    @property
    def bounds(self) -> tuple[str, ...]:
        """The limits that this launch has reached. After a limit, a race in global memory or a wrong tile that
        threads wrote may be missed.
        """
        return tuple(sorted(self.launch.result.bounds))

    def scenario(self) -> Scenario:
        """The transfers and matrix instructions that were executed, as a scenario for `smemsim check`. Each different
        product is in it once.
        """
        written = self._checked[0]
        if written is None and self.reads is not None:
            written = scenario_of(self.launch, self.reads)
        return Scenario(self.launch.arch) if written is None else Scenario.of(written.scenario)

    def explain(self, array: Any, expected: Any, before: Any = None, *, dtype: str = "", rtol: float = 0.0, atol: float = 0.0) -> str:
        """Which single rule turns `expected` into the kernel's `array`, and what to change. "" if no rule is certain.

        - Array: `array`, one of `Gpu.array`, or its content (then lines of stores are not known).
        - Other arrays: `expected`, and `before`, the content before the launch. They have as many elements.
        - Type: `dtype`, if an array has raw bits.
        - Tolerance: `rtol` and `atol`. Elements are right if |array - expected| <= atol + rtol * |expected|, like
          numpy.

        A rule is reported if it gives all wrong elements except those at edges, and chance could not. The rules are:
        elements in other places (a swizzle, another box, rows for columns, another fragment); missing or repeated steps
        of k; other products of the operands. There are also rules for another sign, a factor, a narrower type in
        between, and elements that are not written. Numbers that rounding could make of each other are equal.

        Raises InputError for arrays that cannot be compared.

        >>> import numpy as np, smemsim
        >>> ptx = '''.version 8.0 .target sm_90a .address_size 64
        ... .visible .entry nothing(.param .u64 d) { ret; }'''
        >>> gpu = smemsim.Gpu("sm_90a")
        >>> d = gpu.array(np.zeros((64, 8), np.float32))
        >>> gpu.launch(ptx, block=32, args=[d]).explain(d, np.ones((64, 8), np.float32)).partition(";")[0]
        'all that is wrong is 0, in rows 0 to 63, columns 0 to 7'
        """
        if dtype:
            element_format(dtype)
        address = array.address if isinstance(array, DeviceArray) and array.is_contiguous else None
        values = array.numpy() if isinstance(array, DeviceArray) else as_numpy("array", array)
        return self.explain_output(Output("array", values, dtype), expected, before, address=address, tolerance=Tolerance(rtol, atol))

    def explain_output(self, output: Output, expected: Any, before: Any, *, address: int | None, tolerance: Tolerance) -> str:
        """`explain` of an output whose first element lies at an address of global memory; None: it is
        not known where.
        """
        others = {"expected": as_numpy("expected", expected)} | ({} if before is None else {"before": as_numpy("before", before)})
        for name, other in others.items():
            if other.size != output.array.size:
                raise InputError(f"{name} has {other.size} elements, {other.shape}; array has {output.array.size}, {output.array.shape}")
        itemsize = output.array.itemsize
        numbers = {
            name: Output(name, x.reshape(output.array.shape), output.dtype).numbers(itemsize)
            for name, x in {"array": output.array, **others}.items()
        }
        wrong = Wrong(numbers["array"], numbers["expected"], numbers.get("before"), output.type, itemsize, address, tolerance)
        return explained(Executed(self.launch, self.reads, self.ctas), wrong)

    @functools.cached_property
    def judged(self) -> Judged:
        """The scope of the operand check of the launch, and the parts that it left out, with the reasons."""
        judged = judged_of(self.launch, self.reads, self._checked[0], self._not_judged)
        if self.reads is not None and self.reads.has_seen and self.ctas < self.launch.ctas:
            judged.missed[OF_ALL] = 0
        fits = self.launch.ctas <= resident(self.launch) * self.launch.cluster_size
        if self.reads is not None and takes_over(self.launch) and self.launch.config.cancel == "resident" and fits:
            judged.missed[NOTHING_TAKEN] = 0
        return judged

    @property
    def checked(self) -> Judged:
        """The coverage of the operand check: what was checked, what was not, and why. `judged` is the old name."""
        return self.judged

    def rounding(self, dtype: str) -> Rounding:
        """By how much an output of an element type may differ from another implementation, which sums in another
        order or type.
        """
        return rounding_of(self.launch, dtype)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, strict: bool = False, colour: bool = False) -> str:
        """The findings and remarks with their lines, the evidence for the results, and a last line with the counts.

        A finding of several instructions (an unrolled loop) is one entry that names the other lines.
        """
        return "\n".join(filter(None, (self.details(colour=colour), self.summary(strict=strict))))

    def entries(self, *, colour: bool = False, before: int = 0) -> list[tuple[Finding, str]]:
        """The findings and remarks of `details`, each with its text: the excerpt and what follows from it, too."""
        styled, found = coloured if colour else plain, []
        for f, followers in (*folded(self.findings), *folded(self.remarks)):
            below = (*f.printed.excerpt(), *filter(None, (f.printed.others(), followers)))
            found.append((f, "\n".join([styled(f.printed.lines(before=before)), *(f"      {line}" for line in below)])))
        return found

    def details(self, *, colour: bool = False, before: int = 0) -> str:
        """`text` without its last line, with or without the colours of a terminal. `before`: columns of
        a prefix of each message.
        """
        lines = [text for _, text in self.entries(colour=colour, before=before)]
        if unread := next(filter(None, (f.printed.unread() for f in self.findings)), ""):
            lines.append(f"source lines are not quoted: {unread} is not in the current folder or below it; --source DIR adds a folder")
        if self._schedules is not None:
            lines.append(self._schedules.text())
        if self.later:
            lines.append(told(self.later))
        profile = [] if self.profile is None else [self.profile.text()]
        counted = [] if self.counting is None else [self.counters.text()]
        counted += ["\n".join(self.pipeline.summary())] if self.tells_stages else []
        return in_columns("\n".join([*lines, *self.evidence, *self.partial(), *self._relaxed, *profile, *counted]), before)

    def summary(self, *, strict: bool = False) -> str:
        """The last lines: CTAs, seconds, findings and remarks; then what the operand check covered, and what it did
        not. `strict` counts `broken` as findings.
        """
        return in_columns("\n".join((self.verdict(strict=strict), *self.judged.lines())))

    def verdict(self, *, strict: bool = False) -> str:
        """One line with the CTAs, seconds, findings and remarks."""
        return f"{self._ran()}, {self._verdict(strict)}"

    def _ran(self) -> str:
        """The kernel, the CTAs that ran, and the seconds."""
        of = self.launch.ctas
        ctas = f"{of} CTA{'s' * (of != 1)}" if self.ctas == of else f"{self.ctas} of {of} CTAs{self._which}"
        ended = (
            ", interrupted"
            if self.interrupted
            else f", ended after the {self.launch.options.limit_seconds:g} s that it may run"
            if self.out_of_time
            else ", which could not go on: a CTA waits for one that was left out"
            if self.held_up
            else ""
        )
        return f"{shorter_name(self.launch.program.name)}: {ctas} in {self.seconds:.1f} s{ended}"

    @property
    def _which(self) -> str:
        """Which CTAs of a grid are counted, in words."""
        return " (a sample)" if self.sample is not None else "" if self.is_partial else " finished"

    def _verdict(self, strict: bool) -> str:
        """Findings and remarks, counted; the codes that `--strict` fails for are named, whether it does or not."""
        broken = self.broken
        fails = ", ".join(dict.fromkeys(f.code for f in broken))
        counted = _counted([*self.findings, *broken] if strict else self.findings)
        if strict:
            counted += f" ({fails} by --strict)" if broken else ""
            others = [f for f in self.remarks if f not in broken]
        else:
            others = self.remarks
        if not others:
            return counted
        codes = ", ".join(dict.fromkeys(f.code for f in others))
        hint = f"; --strict fails for {fails}" if broken and not strict else ""
        return f"{counted}, {len(others)} remark{'s' * (len(others) > 1)} ({codes}{hint})"

    def as_dict(self) -> dict[str, Any]:
        """The run as a dictionary for JSON."""
        return {
            "ok": self.ok, "strictly_ok": self.is_strictly_ok, "entry": self.launch.program.name, "name": demangled(self.launch.program.name), "arch": self.launch.arch, "findings": [f.as_dict() for f in self.findings],
            "remarks": [f.as_dict() for f in self.remarks], "approximate": list(self.approximate),
            "unsure": list(self.unsure), "evidence": list(self.evidence), "bounds": list(self.bounds),
            "checked": dict(vars(self.checked)), "judged": dict(vars(self.checked)), "sanitized": self.reads is not None, "output": self.output, "ctas": self.ctas, "interrupted": self.interrupted,
            "out_of_time": self.out_of_time, "seconds": round(self.seconds, 3),
            **({"relaxed": list(self._relaxed)} if self._relaxed else {}),
            **({"schedules": self._schedules.as_dict()} if self._schedules is not None else {}),
            **({"later": self.later} if self.later else {}),
            **({"partial": self.partial(), "held_up": self.held_up} if self.is_partial else {}),
            **({"profile": self.profile.as_dict()} if self.profile is not None else {}),
            **({"counters": self.counters.as_dict()} if self.counting is not None else {}),
            **({"pipeline": self.pipeline.as_dict()} if self.tells_stages else {}),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Run of {shorter_name(self.launch.program.name)}: {_counted(self.findings)}>"

    def page(self, outputs: Sequence[tuple[str, bool]] = (), *, named: Sequence[str] = (), back: tuple[str, str] = ("", "")) -> Page:
        """The report page as an object: the findings with the PTX around their lines, and the tiles of the matrix
        instructions. Its text is `html`.

        Lines for the top, and whether each is right, are `outputs`. Lines about memory that the findings name are
        `named`. A parent page is `back`, (link, words).
        """
        from smemsim.core.picture.model import Above  # what a page takes, a run does not

        report = self.report or Report((), arch=self.launch.arch, title=f"{shorter_name(self.launch.program.name)}, as it ran")
        written, ptx = self._checked[0], self.ptx.splitlines()
        place = Sources(self.launch.program.inlined.body).place
        names = written.step_names(self.name, place) if written is not None else {}
        tiles = [named_by_line(tile, names) for tile in report.tiles()]
        first, drawn = folded([*self.findings, *self.remarks]), fitting(tiles)[0]
        above = Above(self._ran(), tuple(outputs), self.output, self.evidence)
        entries = tuple(
            dataclasses.replace(entry(f, ptx, drawn), followers=tuple(entry(g, ptx, drawn) for g in self._followers(f)))
            for f, _ in first[:MOST_ENTRIES]
        )
        counted, more = _counted(self.findings), max(len(first) - MOST_ENTRIES, 0)
        on_cost = " on cost" * all(f.code.startswith("P") for f in self.remarks)
        remarks = f", {len(self.remarks)} remark{'s' * (len(self.remarks) > 1)}{on_cost}" if self.remarks else ""
        heading = counted[0].upper() + counted[1:] + remarks
        whole = report.page(
            tiles, names=names, unfilled=stores_of(self.launch.program.inlined.body, place), filled=Filling(self.launch, place)
        )
        return dataclasses.replace(
            whole, title=f"{shorter_name(self.launch.program.name)} on {self.launch.arch}", counted=heading, entries=entries, more=more,
            remarks=(), unchecked=(), clean="No findings.", above=above, named=tuple(named), back=back, heat=self._heat(), checked=self._checks(), stages=self._drawn_stages(),
        )  # fmt: skip

    def _followers(self, f: Finding) -> list[Finding]:
        """The findings that follow from one."""
        return [g for g in (*self.findings, *self.remarks) if g.cause is not None and (g.cause.code, g.cause.line) == (f.code, f.line)]

    def _checks(self) -> tuple[str, ...]:
        """The lists of what was checked and what was not, a line each."""
        what = f"{self.ctas} of {self.launch.ctas} CTAs" if self.ctas != self.launch.ctas else f"{self.ctas} CTA{'s' * (self.ctas != 1)}"
        seen = "not checked" if self.reads is None else "until the kernel stopped" if self.launch.result.status else what
        said = f"Races, waits, barriers and uninitialised values: {seen}."
        lines = (f"{line[:1].upper()}{line[1:]}." for line in self.judged.lines())
        return (said, *lines, *(f"Limit of the race detector: {bound}." for bound in self.bounds))

    def _drawn_stages(self) -> Stages | None:
        """The pipeline of a launch whose stages were recorded; nothing if it has no ring and does not hang."""
        if self.stages is None or not (self.pipeline.rings or self.pipeline.lanes.stuck):
            return None
        from smemsim.core.picture.model import Stages  # what a page takes, a run does not

        return Stages(tuple(self.pipeline.sentences()), self.pipeline.svg(style=""))

    def _heat(self) -> Heat | None:
        """The cost of lines, for a launch that was counted."""
        if self.counting is None:
            return None
        from smemsim.base.files import source_line

        ptx = self.ptx.splitlines()

        def source(place: str) -> str:
            file, _, line = place.rpartition(":")
            return source_line(file, int(line), self.folders) or ""

        return heat_of(self.counters, lambda line: ptx[line - 1] if 0 < line <= len(ptx) else "", source)

    def html(self, outputs: Sequence[tuple[str, bool]] = (), *, named: Sequence[str] = (), back: tuple[str, str] = ("", "")) -> str:
        """A self-contained page: the findings with the PTX around their lines, and every operand's tile."""
        from smemsim.core.picture.page import page_html

        return page_html(self.page(outputs, named=named, back=back))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.text())}</pre>"


def _counted(findings: list[Finding]) -> str:
    first = [f for f, _ in folded(findings)]
    places, more = sum(f.count for f in first), len(findings) - len(first)
    at = f" at {places} instructions" if places > len(first) else ""
    follow = f", and {more} that follow{'s' * (more == 1)} from {'it' if len(first) == 1 else 'them'}" if more else ""
    return f"{len(first) or 'no'} finding{'s' * (len(first) != 1)}{at}{follow}"
