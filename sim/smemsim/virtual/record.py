"""What is kept of a launch: a launch file with its arrays, that `smemsim run` runs again, and a page."""

from __future__ import annotations

import dataclasses
import html
import io
import pathlib
import re
import struct
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from smemsim.errors import InputError, SmemsimError
from smemsim.evidence.launches import launch_text
from smemsim.files import write_whole
from smemsim.judge.run import Run
from smemsim.picture.model import Entry, Part
from smemsim.picture.page import program_html
from smemsim.spec.findings import CODES, Severity
from smemsim.virtual.memory import Allocation, DeviceMemory
from smemsim.virtual.policy import Launched, Policy, summary_of

__all__ = ["Recorder", "write_index", "write_page"]


MOST_BYTES = 1 << 30  # of all allocations: above it only those are kept whose addresses stand in the parameters


class Device(Protocol):
    """What a recorder needs of the device that launches."""

    arch: str
    label: str
    policy: Policy
    memory: DeviceMemory

    def view(self, address: int, size: int) -> np.ndarray:
        """The bytes there."""


class Module(Protocol):
    """What a recorder needs of the kernel's module."""

    @property
    def ptx(self) -> str:
        """Its text."""

    @property
    def variables(self) -> Mapping[str, tuple[int, int]]:
        """Address and size of its variables."""


class Kernel(Protocol):
    """What a recorder needs of the kernel."""

    name: str

    @property
    def readable(self) -> str:
        """Its name for people."""

    @property
    def module(self) -> Module:
        """Where it stands."""


class Recorder:
    """A launch's arrays as they are before it; `write` makes a folder of them with the PTX and the launch file."""

    def __init__(self, device: Device, f: Kernel, config: dict[str, Any], arguments: tuple[bytes, ...], number: int) -> None:
        assert device.policy.record is not None
        self.device, self.function, self.config, self.arguments = device, f, config, arguments
        self.folder = folder_of(device.policy.record, f"{device.label}{number:04}", f.readable)
        all_of = [a for a in device.memory if a.kind in ("device", "managed", "pinned", "registered", "mapped") and a.size]
        pointed = {a.address for raw in arguments for word in _words(raw) if (a := device.memory.at(word)) is not None}
        if sum(a.size for a in all_of) > MOST_BYTES:
            all_of = [a for a in all_of if a.address in pointed]
        self.before = [(a, device.view(a.address, a.size).copy()) for a in all_of]
        self.variables = {name: device.view(at, size).copy() for name, (at, size) in f.module.variables.items()}

    def write(self, run: Run) -> None:
        """Put the folder there. InputError where that cannot be."""
        names = {a.address: f"m{n}" for n, (a, _) in enumerate(self.before)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"{self.folder}: cannot be made: {e.strerror or e}") from None
        write_whole(self.folder / "kernel.ptx", self.function.module.ptx)
        for a, data in self.before:
            content = io.BytesIO()
            np.save(content, data)
            write_whole(self.folder / f"{names[a.address]}.npy", content.getvalue())
        for n, data in enumerate(self.variables.values()):
            content = io.BytesIO()
            np.save(content, data)
            write_whole(self.folder / f"v{n}.npy", content.getvalue())
        changed = [names[a.address] for a, data in self.before if (self.device.view(a.address, a.size) != data).any()]
        about = {
            "title": f"{self.function.readable}, recorded", "entry": self.function.name, "arch": self.device.arch, **self.config,
            "args": [self._argument(raw, names) for raw in self.arguments], "outputs": changed,
        }  # fmt: skip
        arrays = [
            {"name": names[a.address], "file": f"{names[a.address]}.npy", "address": a.address, "comment": a.told()} for a, _ in self.before
        ]
        arrays += [{"name": f"v{n}", "file": f"v{n}.npy", "variable": name} for n, name in enumerate(self.variables)]
        write_whole(self.folder / "launch.toml", launch_text(about, arrays))

    def _argument(self, raw: bytes, names: dict[int, str]) -> dict[str, Any]:
        if len(raw) == 8:
            found: Allocation | None = self.device.memory.at(struct.unpack("<Q", raw)[0])
            if found is not None and found.address in names:
                offset = struct.unpack("<Q", raw)[0] - found.address
                return {"array": names[found.address]} | ({"offset": offset} if offset else {})
        return {"bytes": raw.hex()}


def _words(raw: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8])]


def folder_of(parent: pathlib.Path, number: str, name: str) -> pathlib.Path:
    """Where a launch is kept: its number, and what of its name can be a file's."""
    return parent / f"{number}-{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:60].strip('_') or 'kernel'}"


def write_page(folder: pathlib.Path, number: str, run: Run) -> str:
    """A launch's page in the folder of the report: its name there."""
    name = f"launch-{number}.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, run.html())
    except OSError as e:
        raise InputError(f"{folder}: cannot be made: {e.strerror or e}") from None
    except SmemsimError as e:
        write_whole(folder / name, f"<!doctype html><meta charset=utf-8><pre>{html.escape(str(e))}\n\n{html.escape(run.text())}</pre>")
    return name


HEADS = ("#", "kernel", "findings", "time", "judged", "launched as")


def write_index(folder: pathlib.Path, title: str, launches: list[Launched]) -> None:
    """The page of a program: what was found, each finding once with a link to the launch that shows it, then every launch with its time, what was
    judged, and a link to its own page."""
    entries, parts = dict[tuple[str, str, str], Entry](), list[Part]()
    also: dict[tuple[str, str, str], list[str]] = {}
    for x in launches:
        told = [(f["code"], f["where"], f["message"], f) for f in (x.run or {}).get("findings", [])]
        for code, where, message, f in told:
            key = (code, where, message)
            also.setdefault(key, []).append(str(x.number))
            severity = Severity(f["severity"])
            repair = f["repair"] if isinstance(f["repair"], str) else ""
            entries.setdefault(key, Entry(str(severity), code, f"{where}, {x.name}", message, repair, f.get("because") or "", link=x.page,
                                          severity_says=severity.says, explained=CODES[code].cause if code in CODES else ""))  # fmt: skip
        remarks = len((x.run or {}).get("remarks", []))
        said = [*dict.fromkeys(code for code, *_ in told), *x.named, x.refused, f"{remarks} remark{'s' * (remarks > 1)}" if remarks else ""]
        verdict = "; ".join(filter(None, said)) or ("no findings" if x.run else x.told)
        shape = f"grid {x.grid}, block {x.block}, cluster {x.cluster}, {x.shared_bytes} B shared"
        cells = (verdict, f"{x.seconds:.1f} s", x.told.partition("; judged: ")[2] or "-", shape)
        parts.append(Part(str(x.number), x.name, x.page, cells, x.is_fine and not x.refused))
    every = [
        dataclasses.replace(e, others=f"also found in launch {', '.join(dict.fromkeys(more))}") if (more := also[key][1:]) else e
        for key, e in entries.items()
    ]
    page = program_html(title, summary_of(launches), every, HEADS, parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{folder}: cannot be made: {e.strerror or e}") from None
    write_whole(folder / "index.html", page)
