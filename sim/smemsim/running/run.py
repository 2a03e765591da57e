"""`Run`: what a launch did and what is wrong with it."""

from __future__ import annotations

import dataclasses
import functools
import html
import pathlib
from typing import Any

from smemsim.checking.report import Report
from smemsim.diagnose.tolerances import Rounding, Tolerance
from smemsim.errors import InputError, SmemsimError
from smemsim.gpu.arrays import DeviceArray, as_numpy
from smemsim.gpu.launch import Launch
from smemsim.ptx.demangle import demangled, shorter_name
from smemsim.running.clusters import own_ranks
from smemsim.running.contraction import mismatches, swapped, unreached
from smemsim.running.coverage import turned, unread
from smemsim.running.epilogue import exchanged_loads, stored_tiles
from smemsim.running.explained import Wrong, explained, rounding_of
from smemsim.running.findings import RunFinding, findings_of
from smemsim.running.judged import Judged, judged_of
from smemsim.running.maps import of_maps
from smemsim.running.meanings import judged
from smemsim.running.operand_reads import Reads
from smemsim.running.outputs import Output
from smemsim.running.scenario_of import Written, scenario_of
from smemsim.scenario.build import Scenario
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import CODES, Severity
from smemsim.spec.formats import element_format

__all__ = ["Run"]


class Run:
    """A launch that has run. `findings` are what is wrong, the most upstream first; `remarks` what is worth knowing; `output` printf's text.

    `approximate` names the instructions whose results are right only within the ISA's bound (`ex2.approx` ...), `unsure` the lines of sums that ptxas
    may fuse with a product or not: without any, what the kernel wrote is bit-exact as far as `evidence` says. `seconds` is how long it took,
    `ctas` how many CTAs came to their end: all of the grid, unless a part was asked for, the kernel trapped or hung, its time was over
    (`out_of_time`), or somebody interrupted it (`interrupted`).
    """

    def __init__(
        self, launch: Launch, reads: Reads | None, *, name: str = "ptx", ptx: str = "", seconds: float = 0.0, done: int | None = None,
        interrupted: bool = False, folders: tuple[pathlib.Path, ...] = (),
    ) -> None:  # fmt: skip
        self.launch, self.reads, self.name, self.seconds, self.interrupted = launch, reads, name, seconds, interrupted
        self.ptx, self.folders = ptx, folders
        self.ctas = launch.ctas if done is None else done
        self._not_judged = ""  # why check said nothing about the operands

    @functools.cached_property
    def _checked(self) -> tuple[Written | None, Report | None]:
        """The run as a scenario and its report, with the meaning of the operands that a small repair explains, if there is one.

        What check does not model is not held against the kernel: then there is none of the two, and `evidence` says why.
        """
        if self.reads is None:
            return None, None
        try:
            return judged(self.launch, self.reads)
        except SmemsimError as e:
            self._not_judged = str(e)
            return None, None

    @property
    def report(self) -> Report | None:
        """`smemsim.check` of the transfers and matrix instructions that were executed; None when there were none.

        `report.html()` is a page with every operand's tile.
        """
        return self._checked[1]

    @functools.cached_property
    def _all(self) -> list[RunFinding]:
        written, report = self._checked
        causes = []
        if self.reads is not None:
            causes = swapped(self.reads)
            causes += of_maps(self.reads, self.launch, [f.instruction.line for f in causes])
            causes = causes or turned(self.reads)
        executed = []
        others = {f.code for f in self.launch.findings.values()}
        others.discard("R507")  # what was not written may be what the instruction's shape leaves out
        if self.reads is not None and not causes and not (report and report.findings) and not others:
            executed = [*mismatches(self.reads), *unread(self.reads, self.launch.elsewhere)]
            if not executed and self.ctas == self.launch.ctas and not self.interrupted and not self.out_of_time:
                executed = unreached(self.reads, self.launch.memory)
        stored = [] if self.reads is None else stored_tiles(self.reads, self.launch)
        if self.reads is not None and not any(f.code == "R508" for f in (*causes, *executed)):  # else the load is told already
            stored = [*exchanged_loads(self.reads, self.launch), *stored]
        found = findings_of(
            causes, (*executed, *stored, *own_ranks(self.launch), *self.launch.findings.values()), written,
            (*report.findings, *report.remarks) if report else (), self.name, self.reads, self.launch.program.inlined.body,
        )  # fmt: skip
        return [dataclasses.replace(f, folders=self.folders) for f in found]

    @property
    def findings(self) -> list[RunFinding]:
        """What is wrong, the most upstream first."""
        return [f for f in self._all if f.severity in (Severity.TRAP, Severity.WRONG)]

    @property
    def remarks(self) -> list[RunFinding]:
        """What is worth knowing and needs no change."""
        return [f for f in self._all if f.severity not in (Severity.TRAP, Severity.WRONG)]

    @property
    def ok(self) -> bool:
        """Is nothing wrong?"""
        return not self.findings

    @property
    def is_strictly_ok(self) -> bool:
        """Is nothing wrong, not even what is told as a remark because nobody can act on it: a rule that the PTX breaks, and compilers break everywhere?"""
        return self.ok and not any(CODES[f.code].severity in (Severity.TRAP, Severity.WRONG) for f in self.remarks)

    @property
    def out_of_time(self) -> bool:
        """Was it ended because it ran for `limit_seconds`? Then nothing is known of what it would have done later."""
        return self.launch.out_of_time

    @property
    def output(self) -> str:
        """What printf wrote."""
        return "".join(self.launch.output)

    @property
    def approximate(self) -> tuple[str, ...]:
        """Instructions of the program whose results need not be bit-exact."""
        return tuple(sorted(self.launch.program.approximate))

    @property
    def unsure(self) -> tuple[int, ...]:
        """The lines of sums into which ptxas may take a product (one rounding) or not (two): the results may differ from the card's in the last bit."""
        return tuple(sorted({i.line for i in self.launch.program.unsure}))

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the results rest on that was not measured, in words."""
        found = sorted(self.launch.evidence)
        if not architecture(self.launch.arch).measured:
            found.insert(0, f"rules for {self.launch.arch} are documented, compiled or inferred: nothing is measured on Blackwell")
        if self.approximate:
            found.append(f"within the ISA's error bound, not bit-exact: {', '.join(self.approximate)}")
        if self._checked == (None, None) and self._not_judged:
            found.append(f"descriptors and tensor maps are not judged: {self._not_judged}")
        if self.unsure:
            lines = ", ".join(map(str, self.unsure))
            found.append(f"not surely bit-exact: whether ptxas takes a product into the sums at lines {lines} is not known")
        return tuple(found)

    def scenario(self) -> Scenario:
        """The transfers and matrix instructions that were executed, as `smemsim check` reads them; each different product once."""
        written = self._checked[0]
        if written is None and self.reads is not None:
            written = scenario_of(self.launch, self.reads)
        return written.scenario if written is not None else Scenario(self.launch.arch)

    def explain(self, array: Any, expected: Any, before: Any = None, *, dtype: str = "", rtol: float = 0.0, atol: float = 0.0) -> str:
        """The one rule that makes of `expected` what the kernel left in `array`, with what to change; "" where none is certain.

        `array` is one of `Gpu.array`, or its contents (then lines of stores are not known); `expected` and `before`, what was in it before the
        launch, are arrays of as many elements. `dtype` is the element type where an array has raw bits, `rtol` and `atol` are numpy's: how far an
        element may be off, |array - expected| <= atol + rtol * |expected|. A rule is told where it gives all wrong elements, but for edges, and no chance could: elements in other places (a swizzle, a
        box elsewhere, rows for columns, another fragment), steps of k that the sum lacks or has twice, other products of the operands, the
        other sign, a factor, a narrower type in between, nothing written. Numbers that rounding could make of each other count as equal.
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
        tolerance = Tolerance(rtol, atol)
        found = array.numpy() if isinstance(array, DeviceArray) else as_numpy("array", array)
        others = {"expected": as_numpy("expected", expected)} | ({} if before is None else {"before": as_numpy("before", before)})
        for name, other in others.items():
            if other.size != found.size:
                raise InputError(f"{name} has {other.size} elements, {other.shape}; array has {found.size}, {found.shape}")
        numbers = {
            name: Output(name, x.reshape(found.shape), dtype).numbers(found.itemsize) for name, x in {"array": found, **others}.items()
        }
        return explained(self, Wrong(
            numbers["array"], numbers["expected"], numbers.get("before"), Output("array", found, dtype).type, found.itemsize,
            array.address if isinstance(array, DeviceArray) and array.is_contiguous else None, tolerance,
        ))  # fmt: skip

    @functools.cached_property
    def judged(self) -> Judged:
        """How much of what the launch did was judged, and what was not, with its reason."""
        return judged_of(self.launch, self.reads, self._checked[0], self._not_judged)

    def rounding(self, dtype: str) -> Rounding:
        """How far an output of an element type may be from what somebody else computes, because the kernel sums in another order or another type."""
        return rounding_of(self.launch, dtype)

    def text(self) -> str:
        """Each finding and remark with its lines of PTX and source, what the results rest on, and a last line that counts.

        What is said of several instructions, as of a loop that the compiler unrolled, is one entry that names the other lines.
        """
        lines = []
        for f in (*self.findings, *self.remarks):
            lines += [str(f), *(f"      {line}" for line in f.excerpt())]
            if others := f.others():
                lines.append(f"      {others}")
        return "\n".join([*lines, *self.evidence, self.summary()])

    def summary(self) -> str:
        """One line that counts CTAs, seconds and findings, and says how much was judged."""
        of = self.launch.ctas
        ctas = f"{of} CTA{'s' * (of != 1)}" if self.ctas == of else f"{self.ctas} of {of} CTAs"
        ended = (
            ", interrupted"
            if self.interrupted
            else f", ended after the {self.launch.limit_seconds:g} s that it may run"
            if self.out_of_time
            else ""
        )
        told = (
            f"{shorter_name(self.launch.program.name)}: {ctas} in {self.seconds:.1f} s{ended}, {_counted(self.findings)}",
            str(self.judged),
        )
        return "; ".join(filter(None, told))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""

        def plain(f: RunFinding) -> dict[str, Any]:
            return {
                "code": f.code, "severity": str(f.severity), "where": f.where, "line": f.line,
                "location": str(f.place) if f.place else None, "chain": [str(place) for place in f.location.chain] if f.location else [],
                "count": f.count, "lines": list(f.lines), "locations": [place.path for place in f.places], "instruction": f.instruction, "message": f.message, "repair": f.repair,
                "because": f.because, "check": f.check.as_dict() if f.check else None,
            }  # fmt: skip

        return {
            "ok": self.ok, "entry": self.launch.program.name, "name": demangled(self.launch.program.name), "arch": self.launch.arch, "findings": [plain(f) for f in self.findings],
            "remarks": [plain(f) for f in self.remarks], "approximate": list(self.approximate),
            "unsure": list(self.unsure), "evidence": list(self.evidence),
            "judged": dataclasses.asdict(self.judged), "output": self.output, "ctas": self.ctas, "interrupted": self.interrupted,
            "out_of_time": self.out_of_time, "seconds": round(self.seconds, 3),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Run of {shorter_name(self.launch.program.name)}: {_counted(self.findings)}>"

    def html(self) -> str:
        """A self-contained page: the findings with the PTX around their lines, and every operand's tile."""
        from smemsim.show.run_page import run_page

        return run_page(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


def _counted(findings: list[RunFinding]) -> str:
    places = sum(f.count for f in findings)
    at = f" at {places} instructions" if places > len(findings) else ""
    return f"{len(findings) or 'no'} finding{'s' * (len(findings) != 1)}{at}"
