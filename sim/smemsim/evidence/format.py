"""The trace file: a folder with `manifest.json`, which a reader can review, and `data.npz`, plain little-endian arrays.

    manifest.json   schema, suite, kind, arch, title, device {gpu, driver, ...}, source {command, seed, files: sha256},
                    cases, arrays {name: {dtype, shape, sha256, delta}}
    data.npz        the arrays: one entry for each case. Ragged data are all cases one after the other. The
                    n + 1 places where they begin are in `NAME_start`.

An array with `delta` true is stored as differences of neighbours, which shrinks address patterns tenfold. Readers add
them up. The SHA-256 covers the bytes of the array, not of the file: another zlib may compress it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.array_files import read_npz
from smemsim.base.errors import InputError, TraceError
from smemsim.base.files import read_bytes

__all__ = ["SCHEMA", "Suite", "find_suites", "load_suite", "write_suite"]


SCHEMA = "smemsim.trace/1"
MANIFEST, DATA = "manifest.json", "data.npz"
REQUIRED = {"schema": str, "suite": str, "kind": str, "arch": str, "device": dict, "source": dict, "cases": int, "arrays": dict}
MAX_ARRAY_BYTES = 1 << 30  # a damaged header must not make a reader allocate the machine away
MAX_BYTES, MAX_MANIFEST = 1 << 32, 1 << 26  # of a bundle, packed and unpacked; of a manifest


@dataclasses.dataclass(frozen=True)
class Suite:
    """One loaded trace: `arrays` by name, `manifest` as it stands in the file."""

    path: pathlib.Path
    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        return str(self.manifest["suite"])

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def arch(self) -> str:
        return str(self.manifest["arch"])

    def __len__(self) -> int:
        return int(self.manifest["cases"])

    def ragged(self, name: str, case: int) -> np.ndarray:
        """Case `case` of an array that holds all cases one after the other."""
        start = self.arrays[f"{name}_start"]
        return self.arrays[name][int(start[case]) : int(start[case + 1])]


def _said(error: Exception) -> str:
    """The message of another library, in one short line. A Python object in it has its type, not its address."""
    text = re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"\1", " ".join(str(error).split()))
    return text if len(text) <= 160 else text[:159] + "…"


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def write_suite(
    folder: pathlib.Path,
    *,
    suite: str,
    kind: str,
    arch: str,
    title: str,
    device: dict[str, Any],
    source: dict[str, Any],
    cases: int,
    arrays: dict[str, np.ndarray],
    delta: tuple[str, ...] = (),
) -> None:
    """Write one suite. Only a capture tool calls this, with what a GPU has just answered."""
    folder.mkdir(parents=True, exist_ok=True)
    stored, described = {}, {}
    for name, array in arrays.items():
        canonical = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        is_delta = name in delta
        stored[name] = np.diff(canonical.ravel(), prepend=canonical.dtype.type(0)) if is_delta else canonical
        described[name] = {
            "dtype": canonical.dtype.str,
            "shape": list(canonical.shape),
            "sha256": _sha256(canonical),
            "delta": is_delta,
        }
    np.savez_compressed(folder / DATA, allow_pickle=False, **stored)
    manifest = {
        "schema": SCHEMA,
        "suite": suite,
        "kind": kind,
        "arch": arch,
        "title": title,
        "device": device,
        "source": source,
        "cases": cases,
        "arrays": described,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _read_manifest(path: pathlib.Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_bytes(path, MAX_MANIFEST).decode("utf-8"))
    except InputError as e:
        raise TraceError(f"{e}; a trace folder holds {MANIFEST} and {DATA}") from None
    except (ValueError, RecursionError) as e:
        raise TraceError(f"{path}: not JSON ({_said(e)}); restore the file from version control") from None
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(schema, str) or not schema.startswith("smemsim.trace/"):
        raise TraceError(f"{path}: not a smemsim trace (schema is {shown(schema)}, expected {SCHEMA!r})")
    if schema != SCHEMA:
        raise TraceError(f"{path}: format {shown(schema)}, this smemsim reads {SCHEMA!r}; install a newer smemsim to read it")
    for key, kind in REQUIRED.items():
        if not isinstance(manifest.get(key), kind):
            raise TraceError(f"{path}: '{key}' is missing or not a {kind.__name__}; the manifest is damaged")
    if isinstance(manifest["cases"], bool) or not 0 <= manifest["cases"] < 1 << 31:
        raise TraceError(f"{path}: 'cases' is {shown(manifest['cases'])}, which no suite has; the manifest is damaged")
    capability = manifest["device"].get("compute_capability")
    if isinstance(capability, str) and capability.replace(".", "") != manifest["arch"].removeprefix("sm_").rstrip("a"):
        raise TraceError(
            f"{path}: arch is {shown(manifest['arch'])[1:-1]}, but the device has compute capability {shown(capability)[1:-1]}; a trace is relabelled"
        )
    return dict(manifest)


def _read_array(bundle: dict[str, Callable[[], np.ndarray]], name: str, about: Any, where: pathlib.Path) -> np.ndarray:
    try:
        dtype, shape = np.dtype(about["dtype"]), tuple(int(n) for n in about["shape"])
        digest, is_delta = str(about["sha256"]), bool(about.get("delta", False))
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        raise TraceError(f"{where}: the manifest's entry for array {shown(name)} is damaged: needs dtype, shape and sha256") from None
    if dtype.kind not in "iufbSU" or any(n < 0 for n in shape) or _size(shape) * dtype.itemsize > MAX_ARRAY_BYTES:
        raise TraceError(f"{where}: array {shown(name)} is declared as {dtype} {shown(list(shape))}, which no trace holds")
    if name not in bundle:
        raise TraceError(f"{where}: array {shown(name)} is in the manifest but not in {DATA}")
    try:
        stored = bundle[name]()
    except Exception as e:  # whatever zipfile, zlib and numpy make of a damaged file
        raise TraceError(f"{where}: array {shown(name)} cannot be unpacked ({_said(e)}); the file is damaged") from None
    if stored.dtype != dtype or stored.size != _size(shape):
        raise TraceError(f"{where}: array {shown(name)} is {stored.dtype} {stored.shape}, the manifest says {dtype} {shown(shape)}")
    flat = stored.reshape(-1)
    if is_delta:
        np.cumsum(flat, dtype=dtype, out=flat)  # in place: traces have arrays of 140 MB
    array: np.ndarray = flat.reshape(shape)
    if _sha256(array) != digest:
        raise TraceError(f"{where}: array {shown(name)} does not have the SHA-256 of the manifest: the trace was damaged or edited")
    return array


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def load_suite(folder: pathlib.Path) -> Suite:
    """Read and verify one trace folder. Raises TraceError with what is wrong."""
    folder = pathlib.Path(folder)
    manifest = _read_manifest(folder / MANIFEST)
    path = folder / DATA
    try:
        bundle = read_npz(path, MAX_BYTES)
        arrays = {name: _read_array(bundle, name, about, path) for name, about in manifest["arrays"].items()}
    except TraceError:
        raise
    except InputError as e:
        raise TraceError(str(e)) from None
    except Exception as e:  # whatever zipfile and numpy make of a damaged file
        raise TraceError(f"{path}: not a readable .npz file ({_said(e)}); restore it from version control") from None
    return Suite(folder, manifest, arrays)


def find_suites(path: pathlib.Path) -> list[pathlib.Path]:
    """The trace folders at or below `path`, sorted. A path that holds none is an error."""
    path = pathlib.Path(path)
    if "\0" in str(path):
        raise TraceError(f"{shown(str(path))}: not the name of a folder")
    if os.path.isfile(path):
        if path.name not in (MANIFEST, DATA):
            raise TraceError(f"{path}: not a trace (a trace is a folder with {MANIFEST} and {DATA})")
        path = path.parent
    if not os.path.isdir(path):
        raise TraceError(f"{path}: no such folder; a trace is a folder with manifest.json and data.npz")
    folders = sorted(p.parent for p in path.rglob(MANIFEST))
    if not folders:
        raise TraceError(f"{path}: no trace in it (a trace is a folder with {MANIFEST} and {DATA})")
    return folders
