"""The table as text, Markdown and JSON, and the machine it was measured on."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import os
import pathlib
import platform
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from tools.speeds.race import Result

PREFIXES = ((1e9, " G "), (1e6, " M "), (1e3, " k "), (1, " "))


def machine(load: Sequence[float] | None = None) -> dict[str, Any]:
    """Date, processor, versions, and how many processes wanted a processor in the last minute (a second time at the end
    of a run).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in ("numpy", "numba")}}
    loads = [*(load or ()), round(os.getloadavg()[0], 1)] if hasattr(os, "getloadavg") else []
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor(),
        "cores": cores,
        **versions,
        "load": loads,
    }


def processor() -> str:
    """The processor's name, as the system has it."""
    info = pathlib.Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def about(of: dict[str, Any]) -> str:
    """The machine in one sentence."""
    loads = ", then ".join(f"{x:.1f}" for x in of["load"]) or "unknown"
    return (f"{of['date']}, {of['processor']}, {of['cores']} cores, Python {of['python']}, numpy {of['numpy']}, numba {of['numba']}; "
            f"load (processes that want a core) when it began and ended: {loads}")  # fmt: skip


def duration(seconds: float) -> str:
    """Seconds with a unit, three digits.

    >>> duration(3.21e-6), duration(0.5), duration(75), duration(15000)
    ('3.21 us', '500 ms', '75 s', '4.17 h')
    """
    for scale, unit in ((3600, "h"), (1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def ratio(speed: float) -> str:
    """How a time stands to the baseline's.

    >>> ratio(83.4), ratio(0.25), ratio(1.0)
    ('83x as fast', '4.0x the time', '1.00x as fast')
    """
    x, words = (speed, "as fast") if speed >= 1 else (1 / speed, "the time")
    return f"{x:,.0f}x {words}" if x >= 10 else f"{x:.{2 if x < 2 else 1}f}x {words}"


def rate(result: Result) -> str:
    """Work a second; what sweeps do, a minute."""
    if result.rate is None or not result.unit:
        return ""
    per, count = ("min", 60 * result.rate) if result.group == "campaign" else ("s", result.rate)
    for scale, prefix in PREFIXES:
        if count >= scale:
            return f"{count / scale:.3g}{prefix}{result.unit}/{per}"
    return f"{count:.2g} {result.unit}/{per}"


HEADER = ("what", "time", "rate", "against", "its time", "ratio", "note")


def cells(result: Result) -> tuple[str, ...]:
    """One line of the table."""
    if result.ours is None or result.baseline is None or result.speed is None:
        why = f"DIFFERS: {result.differs}" if result.differs else f"left out: {result.left_out}"
        return (result.what, "", "", result.against, "", "", why)
    return (result.what, duration(result.ours), rate(result), result.against, duration(result.baseline), ratio(result.speed), result.note)


def text(of: dict[str, Any], results: Iterable[Result]) -> str:
    """For a terminal: columns as wide as their text, notes below their line."""
    rows = [cells(result) for result in results]
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER) - 1)]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()

    lines = [about(of), "", line(HEADER)]
    for row in rows:
        lines.append(line(row))
        lines += [f"    {part}" for part in textwrap.wrap(row[-1], 160)]
    return "\n".join(lines)


def markdown(of: dict[str, Any], results: Iterable[Result]) -> str:
    """For the README: the machine, then a table; what could not be run is not in it."""
    rows = [cells(result) for result in results if result.speed is not None]
    lines = [f"{about(of)}:", "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(cell.replace("|", "/") or " " for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def as_json(of: dict[str, Any], results: Iterable[Result]) -> dict[str, Any]:
    """Machine and rows; seconds."""
    rows = [{f.name: getattr(r, f.name) for f in dataclasses.fields(r) if getattr(r, f.name) != f.default} for r in results]
    return {"machine": of, "rows": rows}


def of_json(kept: dict[str, Any]) -> tuple[dict[str, Any], list[Result]]:
    """The reverse of `as_json`."""
    return kept["machine"], [Result(**row) for row in kept["rows"]]
