"""D of a tcgen05.mma in tensor memory: which element lies in which lane and column, and which register of which thread
loads it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.layout import AccumulatorLayout
from smemsim.core.machine.tmem.memory import REPEATS, TmemAccess
from smemsim.core.picture.model import Band, Picture, Strip, colour
from smemsim.core.picture.table import Column, Line, Table
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.tensor_memory import LANES, LOAD_STORE_SHAPES, WARP_LANES
from smemsim.core.words.instr import InstrDescriptor

__all__ = ["AccumulatorMap", "Run"]


HEADS = ("CTA", "warp", "lanes", "columns", "rows m", "columns n")
LANE_STYLES = ("cyan", "green", "magenta", "yellow", "blue")  # of the rows of one warp


@dataclasses.dataclass(frozen=True)
class Run:
    """Neighbouring lanes of a CTA that hold neighbouring rows of D: lane `lane` + i has row `m` + i, columns `n` on."""

    cta: int
    lane: int
    lanes: int
    m: int
    n: int


@dataclasses.dataclass(frozen=True)
class AccumulatorMap:
    """D of one instruction in tensor memory."""

    instr: InstrDescriptor
    layout: AccumulatorLayout

    @classmethod
    def of(cls, instr: InstrDescriptor, *, cta_group: int, ws: bool, taddr: int = 0) -> AccumulatorMap:
        """The map of an instruction whose D is at `taddr`; InputError with the first rule that it breaks, where there
        is no such shape.
        """
        for finding in instr.problems(cta_group=cta_group, ws=ws):
            if finding.code == "I601" and finding.severity is Severity.TRAP:
                raise InputError(f"instruction descriptor {instr.word:#010x}: {finding.printed.sentence()}")
        at = TmemAddress.decode(taddr)
        layout = AccumulatorLayout(instr.m, instr.n, cta_group, ws=ws, sparse=instr.sparsity, lane=at.lane, column=at.column)
        return cls(instr, layout)

    @property
    def title(self) -> str:
        """The title of the picture."""
        form = f"tcgen05.mma{'.ws' if self.layout.ws else ''}{'.sp' if self.layout.sparse else ''}.cta_group::{self.layout.cta_group}"
        return f"D of {form}.kind::{self.instr.kind}: {self.layout.m} x {self.layout.n} {self.instr.d_type}"

    @property
    def subtitle(self) -> str:
        """Layout, columns and lanes."""
        d = self.layout
        half = ", 16 bits in the lower half of each cell" if self.instr.d_type == "f16" else ""
        return f"layout {d.name} ({d.datapath} data path): columns {d.column} to {d.column + d.columns - 1}{half}"

    @property
    def grade(self) -> str:
        """The grade of evidence of the layout."""
        return f"layout {self.layout.name} on {', '.join(self.instr.row.archs)}: {self.layout.grade}, not measured ({self.layout.source})"

    def runs(self) -> list[Run]:
        """The lanes of every CTA in runs, in their order."""
        d, runs = self.layout, list[Run]()
        lanes = d.lanes
        for cta in range(d.cta_group):
            m, n = d.element(np.full_like(lanes, cta), lanes, np.full_like(lanes, d.column))
            breaks = np.flatnonzero((np.diff(lanes) != 1) | (np.diff(m) != 1) | (np.diff(n) != 0) | (lanes[1:] % WARP_LANES == 0)) + 1
            for part in np.split(np.arange(len(lanes)), breaks):
                runs.append(Run(cta, int(lanes[part[0]]), len(part), int(m[part[0]]), int(n[part[0]])))
        return runs

    def loads(self, m: int, n: int) -> list[dict[str, Any]]:
        """The warp, thread and register that load an element, for each shape of tcgen05.ld at its smallest .xN that
        covers D.

        The address before the warp adds its lanes is `taddr`. Shape .16x32bx2 is left out, since its offset is free.
        """
        _, lane, column = self.layout.location(m, n)
        loads = []
        for name, shape in LOAD_STORE_SHAPES.items():
            if shape.columns * shape.most < self.layout.columns or name == "16x32bx2":
                continue
            repeat = next(r for r in REPEATS if r * shape.columns >= self.layout.columns)
            base = TmemAddress(lane % WARP_LANES // shape.lanes * shape.lanes, self.layout.column)
            warp, thread, register = TmemAccess(name, repeat, taddr=base).register(lane, column)
            form = f"{name}.x{repeat}"
            loads.append({"ld": form, "taddr": _hex(base), "warp": warp, "thread": thread, "register": register, "grade": str(shape.grade)})
        return loads

    def about(self) -> dict[str, Any]:
        """The instruction and its layout as a dictionary for JSON."""
        d = self.layout
        word = {
            "word": f"{self.instr.word:#010x}",
            "kind": self.instr.kind,
            "d_type": self.instr.d_type,
            "archs": list(self.instr.row.archs),
        }
        shape = {"cta_group": d.cta_group, "ws": d.ws, "sparse": d.sparse, "m": d.m, "n": d.n}
        place = {
            "taddr": _hex(TmemAddress(d.lane, d.column)),
            "layout": d.name,
            "datapath": d.datapath,
            "column": d.column,
            "columns": d.columns,
        }
        return {**word, **shape, **place, "grade": str(d.grade), "source": d.source}

    def describe(self, m: int, n: int) -> dict[str, Any]:
        """One element: its cell, and the registers that load it."""
        cta, lane, column = self.layout.location(m, n)
        found = {"m": m, "n": n, "cta": cta, "lane": lane, "column": column, "taddr": _hex(TmemAddress(lane, column))}
        return {"element": found, "loads": self.loads(m, n), "of": self.about()}

    def element_lines(self, m: int, n: int) -> list[Line]:
        """One element as lines of text: its cell, and the registers that load it."""
        cta, lane, column = self.layout.location(m, n)
        where = f"CTA {cta}, lane {lane}, column {column} ({_hex(TmemAddress(lane, column))})"
        lines = [Line([(f"D[{m}, {n}]", "bold"), (f"  {where}", "")])]
        for r in self.loads(m, n):
            head = f"  tcgen05.ld.{r['ld']} at {r['taddr']}: "
            lines.append(Line([(head, "dim"), (f"warp {r['warp']}, thread {r['thread']}, register {r['register']}", "")]))
        return [*lines, Line([(self.grade, "dim")])]

    def picture(self) -> Picture:
        """A strip of lanes for each CTA, with a band for every run of lanes."""
        d = self.layout
        bands: dict[int, list[Band]] = {cta: [] for cta in range(d.cta_group)}
        for run in self.runs():
            text = f"m {_span(run.m, run.lanes)}, n {_span(run.n, d.columns)}"
            cells = (str(run.cta), str(run.lane // WARP_LANES), _span(run.lane, run.lanes), _span(d.column, d.columns), _span(run.m, run.lanes),
                     _span(run.n, d.columns))  # fmt: skip
            hint, fill = f"lanes {_span(run.lane, run.lanes)}: {text}", colour(run.n // d.columns)
            bands[run.cta].append(Band(run.lane, run.lane + run.lanes, fill, text, cells, hint, LANE_STYLES[run.m // WARP_LANES % 5]))
        strips = tuple(self._strip(cta, tuple(of)) for cta, of in bands.items())
        unused = f"{LANES - len(d.lanes)} lanes of each CTA are not used" if len(d.lanes) < LANES else ""
        columns = tuple(map(Column, HEADS))
        every = [band for strip in strips for band in strip.bands]
        return Picture(
            self.title, (self.subtitle,), self.grade, strips=strips, outlined="a band: lanes of one warp's window that hold neighbouring rows; colour: which part of N",
            table=Table(columns, tuple(band.cells for band in every), tuple(band.style for band in every)), notes=(unused,) if unused else (),
            more=(repr(self.instr),),
        )  # fmt: skip

    def _strip(self, cta: int, bands: tuple[Band, ...]) -> Strip:
        """The lanes of one CTA."""
        d = self.layout
        across = f"column {d.column}", str(d.column + d.columns - 1)
        ticks = tuple((lane, str(lane)) for lane in range(0, LANES, WARP_LANES // 2))
        warps = tuple((lane + WARP_LANES // 2, f"warp {lane // WARP_LANES}") for lane in range(0, LANES, WARP_LANES))
        return Strip(f"CTA {cta}" if d.cta_group > 1 else "tensor memory", 0, LANES, bands, HEADS, "lane", across, ticks, warps)

    def csv(self) -> str:
        """m,n,cta,lane,column for every element."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("m", "n", "cta", "lane", "column"))
        m, n = (x.ravel() for x in np.meshgrid(np.arange(self.layout.m), np.arange(self.layout.n), indexing="ij"))
        writer.writerows(zip(m.tolist(), n.tolist(), *(x.tolist() for x in self.layout.location(m, n)), strict=True))
        return out.getvalue()

    def json(self) -> str:
        """The runs, with what they belong to."""
        return json.dumps({**self.about(), "runs": [dataclasses.asdict(run) for run in self.runs()]}, indent=1)


def _hex(address: TmemAddress) -> str:
    return f"{address.encode():#010x}"


def _span(first: int, count: int) -> str:
    return f"{first} to {first + count - 1}"
