"""The record of a launch: a launch file with its arrays, which `smemsim run` runs again, and a page."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import math
import pathlib
import re
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.files import write_whole
from smemsim.core.finding import headline_of, place_of, rows_of
from smemsim.core.picture.model import Entry, Part
from smemsim.core.picture.page import program_html
from smemsim.core.ptx.demangle import pointed_types
from smemsim.core.spec.cards import Card, card_of
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.formats import FORMATS
from smemsim.diagnosis.covered import operands_checked
from smemsim.diagnosis.run import Run
from smemsim.evidence.launches import launch_text
from smemsim.run.engine.arrays import storage
from smemsim.run.engine.launch import LaunchConfig
from smemsim.virtual.code import Function
from smemsim.virtual.memory import Allocation, DeviceMemory
from smemsim.virtual.policy import Launched, Policy, summary_of

__all__ = ["Recorder", "clear", "write_index", "write_page"]


POINTER = 8  # bytes
NUMBERS = {"u8": "<B", "s8": "<b", "u16": "<H", "s16": "<h", "u32": "<I", "s32": "<i", "u64": "<Q", "s64": "<q", "f32": "<f", "f64": "<d"}
MOST_BYTES = 1 << 30  # of all allocations: above it only those are kept whose addresses stand in the parameters


class Device(Protocol):
    """The parts of the launching device that a recorder needs."""

    label: str
    policy: Policy
    memory: DeviceMemory
    card: Card

    def view(self, address: int, size: int) -> np.ndarray:
        """The bytes there."""

    @property
    def arch(self) -> str:
        """Its architecture."""

    @property
    def multiprocessors(self) -> int:
        """How many it has."""


class Recorder:
    """A launch's arrays as they are before it; `write` makes a folder of them with the PTX and the launch file."""

    def __init__(self, device: Device, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], number: int) -> None:
        assert device.policy.record is not None
        self.device, self.function, self.config, self.arguments = device, f, config, arguments
        self.folder = folder_of(device.policy.record, f"{device.label}{number:04}", f.readable)
        all_of = [a for a in device.memory if a.kind in ("device", "managed", "pinned", "registered", "mapped") and a.size]
        pointed = {a.address for raw in arguments for word in _words(raw) if (a := device.memory.at(word)) is not None}
        if sum(a.size for a in all_of) > MOST_BYTES:
            all_of = [a for a in all_of if a.address in pointed]
        self.before = [(a, device.memory.view(a.address, a.size).copy()) for a in all_of]
        self.variables = {name: device.memory.view(at, size).copy() for name, (at, size) in f.module.variables.items()}

    def write(self, run: Run) -> None:
        """Put the folder there. InputError where that cannot be; then no part of it is left."""
        try:
            self._write(run)
        except InputError:
            with contextlib.suppress(OSError):
                _remove(self.folder, _KEPT)
                self.folder.rmdir()
            raise

    def _write(self, run: Run) -> None:
        names, types = self._names(), self._types(run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"{self.folder}: cannot be made: {e.strerror or e}") from None
        write_whole(self.folder / "kernel.ptx", self.function.module.ptx)
        arrays, changed, expected = [], [], {}
        is_whole = run.ctas == run.launch.ctas and not (
            run.interrupted or run.out_of_time or any(f.severity is Severity.TRAP for f in run.findings)
        )
        for a, data in self.before:
            name, elements = names[a.address], a.elements if a.elements[0] else types.get(a.address, ("", ()))
            kind, values = _typed(elements, data)
            _save(self.folder / f"{name}.npy", values)
            arrays.append(
                {"name": name, "file": f"{name}.npy", "address": a.address, **({"dtype": kind} if kind else {}), "comment": a.told()}
            )
            if (self.device.memory.view(a.address, a.size) != data).any():
                changed.append(name)
                if is_whole:
                    expected[name] = f"{name}-after.npy"
                    _save(self.folder / expected[name], _typed(elements, self.device.memory.view(a.address, a.size))[1])
        for n, (name, data) in enumerate(self.variables.items()):
            _save(self.folder / f"v{n}.npy", data)
            arrays.append({"name": f"v{n}", "file": f"v{n}.npy", "variable": name})
        shape = {name: value for name, value in self.config.items() if value is not None}
        about = {
            "title": f"{self.function.readable}, recorded", "entry": self.function.name, "arch": self.device.arch, **shape, **self._options(),
            "args": [self._argument(n, raw, names) for n, raw in enumerate(self.arguments)], "outputs": changed, "expected": expected,
        }  # fmt: skip
        write_whole(self.folder / "launch.toml", launch_text(about, arrays))

    def _names(self) -> dict[int, str]:
        """The name of each allocation in the launch file. It is that of the parameter that points there if the source
        has named it, else m0, m1 ...
        """
        names = {a.address: f"m{n}" for n, (a, _) in enumerate(self.before)}
        for parameter, raw in zip(self.function.parameter_names, self.arguments, strict=False):
            found = self.device.memory.at(struct.unpack("<Q", raw)[0]) if len(raw) == POINTER else None
            is_free = found is not None and re.fullmatch(r"m\d+", names.get(found.address, "")) and parameter not in names.values()
            if found is not None and is_free and re.fullmatch(r"(?![mv]\d+$)[A-Za-z]\w{0,40}", parameter):
                names[found.address] = parameter
        return names

    def _types(self, run: Run) -> dict[int, tuple[str, tuple[int, ...]]]:
        """Element type and shape of the allocations of which the kernel's signature or its tensor maps say them, by
        address.
        """
        types: dict[int, tuple[str, tuple[int, ...]]] = {}
        for raw, kind in zip(self.arguments, pointed_types(self.function.name), strict=False):
            if kind and len(raw) == POINTER:
                types.setdefault(struct.unpack("<Q", raw)[0], (kind, ()))
        for event in run.reads.maps.values() if run.reads is not None else ():
            tm, names = event.tensor_map, event.tensor_map.type_row.names
            if len(names) == 1 and names[0] in FORMATS:
                types[tm.global_address] = names[0], tuple(reversed(tm.global_dim))
        return types

    def _options(self) -> dict[str, Any]:
        """The options of the policy that change the findings of a run, if they are not the defaults."""
        policy = self.device.policy
        said: dict[str, Any] = {"sanitize": policy.is_watched(self.function.name)}
        said |= {key: getattr(policy, key) for key in ("watch_global", "ctas", "limit", "cancel", "schedule", "assume", "overrun")}
        said["multiprocessors"] = (
            self.device.multiprocessors if self.device.multiprocessors != card_of(self.device.arch).named("multiprocessor_count") else None
        )
        return {key: value for key, value in said.items() if value not in (None, True, LaunchConfig.cancel)}

    def _argument(self, n: int, raw: bytes, names: dict[int, str]) -> dict[str, Any]:
        said = {"comment": self.function.parameter_names[n]} if n < len(self.function.parameter_names) else {}
        kind = self.function.source.parameters[n].type
        if len(raw) == POINTER:
            word = struct.unpack("<Q", raw)[0]
            found: Allocation | None = self.device.memory.at(word)
            if found is not None and found.address in names:
                offset = word - found.address
                return {"array": names[found.address], **({"offset": offset} if offset else {}), **said}
        if kind in NUMBERS and len(raw) == struct.calcsize(NUMBERS[kind]):
            (value,) = struct.unpack(NUMBERS[kind], raw)
            if isinstance(value, int) or math.isfinite(value):
                return {"value": value, "type": kind, **said}
        return {"bytes": raw.hex(), **said}


def _typed(elements: tuple[str, tuple[int, ...]], data: np.ndarray) -> tuple[str, np.ndarray]:
    """The element type of an allocation, and its bytes as such elements; "" and bytes where it is not known."""
    kind, shape = elements
    if not kind or data.size % storage(kind).itemsize:
        return "", data
    values = data.view(storage(kind))
    if values.dtype.kind == "V":  # of ml_dtypes: .npy files have the raw bits
        values = values.view(f"u{values.itemsize}")
    return kind, values.reshape(shape) if math.prod(shape) == values.size else values


def _save(path: pathlib.Path, values: np.ndarray) -> None:
    content = io.BytesIO()
    np.save(content, values)
    write_whole(path, content.getvalue())


def _words(raw: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8])]


def folder_of(parent: pathlib.Path, number: str, name: str) -> pathlib.Path:
    """The folder of a launch: its number, and the characters of its name that a file may have."""
    return parent / f"{number}-{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:60].strip('_') or 'kernel'}"


_OF_LAUNCH = re.compile(r"(?:\d+-)?\d{4,}-\w+")
_KEPT = re.compile(r"kernel\.ptx|launch\.toml|[\w-]+\.npy")
_PAGE = re.compile(r"index\.html|launch-(?:\d+-)?\d{4,}\.html")


def clear(policy: Policy) -> None:
    """Remove what an earlier program left in the folders of records and pages, so that all that is there is of this
    one; other files stay.
    """
    if policy.record is not None and policy.record.is_dir():
        for folder in policy.record.iterdir():
            if _OF_LAUNCH.fullmatch(folder.name) and (folder / "launch.toml").is_file():
                _remove(folder, _KEPT)
                with contextlib.suppress(OSError):
                    folder.rmdir()
    if policy.report is not None:
        for folder in (policy.report, *policy.report.glob("gw*")):  # of workers of pytest-xdist
            _remove(folder, _PAGE)


def _remove(folder: pathlib.Path, names: re.Pattern[str]) -> None:
    for file in folder.iterdir() if folder.is_dir() else ():
        if names.fullmatch(file.name) and file.is_file():
            file.unlink(missing_ok=True)


def write_page(folder: pathlib.Path, number: str, run: Run, named: Sequence[str]) -> str:
    """A launch's page in the folder of the report: its name there; `named` has a line for each allocation that findings
    name.
    """
    name = f"launch-{number}.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, run.html(named=named, back=("index.html", "all launches of the program")))
    except OSError as e:
        raise InputError(f"{folder}: cannot be made: {e.strerror or e}") from None
    except SmemsimError as e:
        write_whole(folder / name, f"<!doctype html><meta charset=utf-8><pre>{html.escape(str(e))}\n\n{html.escape(run.text())}</pre>")
    return name


HEADS = ("#", "kernel", "findings", "time", "operand layouts checked", "launched as")


def _checked(x: Launched) -> str:
    """The operands that were checked in a launch, in words; "" for none."""
    checked = (x.run or {}).get("checked")
    return operands_checked(checked["a"], checked["b"]) if checked else ""


def write_index(folder: pathlib.Path, title: str, launches: list[Launched]) -> None:
    """The page of a program. It has each finding once, with a link to a launch that shows it. Then it has every launch,
    with its time, its checks and a link to its own page.
    """
    entries, parts = dict[tuple[str, str, str], Entry](), list[Part]()
    also: dict[tuple[str, str, str], list[str]] = {}
    for x in launches:
        told = [(f["code"], place_of(f), f["what"], f) for f in (x.run or {}).get("findings", [])]
        for code, where, message, f in told:
            key = (code, where, message)
            also.setdefault(key, []).append(str(x.number))
            severity = Severity(f["severity"])
            rows = tuple(row for row in rows_of(f) if row.label != "fix")
            entries.setdefault(key, Entry(str(severity), code, f"{where}, {x.name}", message, f["fix"]["text"], f.get("because") or "", link=x.page, rows=rows,
                                          severity_says=severity.says, explained=CODES[code].cause if code in CODES else ""))  # fmt: skip
        remarks = len((x.run or {}).get("remarks", []))
        said = [
            *dict.fromkeys(headline_of(f) for *_, f in told),
            *x.named,
            x.refused,
            f"{remarks} remark{'s' * (remarks > 1)}" if remarks else "",
        ]
        verdict = "; ".join(filter(None, said)) or ("no findings" if x.run else x.told)
        shape = f"grid {x.grid}, block {x.block}, cluster {x.cluster}, {x.shared_bytes} B shared"
        cells = (verdict, f"{x.seconds:.1f} s", _checked(x) or "-", shape)
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
