"""Damaged files: scenarios as text and as structures, what `show` makes of them, golden traces."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import tempfile
import tomllib
import zipfile
from typing import Any

import numpy as np

from smemsim import TilePicture, check, show_html, tile_svg
from smemsim.diagnosis.scenario import read_scenario
from smemsim.evidence.format import DATA, MANIFEST, load_suite
from smemsim.evidence.replay import replay, replay_suite
from tools.doors.damage import damaged_bytes, damaged_text, damaged_value
from tools.doors.guard import Bench, command, door

__all__ = ["SCENARIO_TEXTS", "SCENARIO_VALUES", "SHOWN", "TRACES", "TRACE_VALUES"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_STORED = 120_000  # bytes of a golden trace that is damaged: the others hold the same kinds of arrays


@functools.cache
def _scenarios() -> tuple[str, ...]:
    return tuple(path.read_text() for path in sorted((ROOT / "tests" / "scenarios").glob("*/*.toml")))


@functools.cache
def _values() -> tuple[dict[str, Any], ...]:
    return tuple({key: value for key, value in tomllib.loads(text).items() if key != "expect"} for text in _scenarios())


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None, prefix="smemsim-")


def _texts(rng: random.Random, cases: int, bench: Bench) -> None:
    """Files of TOML and of JSON, damaged as text or as bytes; a third is read only."""
    with _folder() as folder:
        for number in range(cases):
            suffix = rng.choice((".toml", ".json", ".txt"))
            text = rng.choice(_scenarios())
            if suffix == ".json":
                text = json.dumps(tomllib.loads(text), indent=rng.choice((None, 1)))
            data = damaged_bytes(rng, text.encode()) if rng.random() < 0.3 else damaged_text(rng, text).encode("utf-8", "replace")
            path = pathlib.Path(folder) / f"case{suffix}"
            path.write_bytes(data)
            case = {"suffix": suffix, "file": data}
            if number % 10 == 9:
                told = rng.choice(
                    (
                        ["check"],
                        ["check", "--json"],
                        ["show"],
                        ["show", "--svg", "--operand", "step[1].a"],
                        ["solve", "--operand", "step[1].a"],
                    )
                )
                command(bench, [*told, str(path)], case)
                continue
            door = read_scenario if number % 3 == 0 else check
            bench.through(lambda door=door, path=path: door(path), case)


def _structures(rng: random.Random, cases: int, bench: Bench) -> None:
    for _ in range(cases):
        value = damaged_value(rng, rng.choice(_values()))
        report = bench.through(lambda value=value: check(value), value)
        if report is not None:
            bench.cases -= 1
            bench.classes["answer"] -= 1
            bench.through(lambda report=report: (report.text(), report.as_dict()), value)


def _shown(rng: random.Random, cases: int, bench: Bench) -> None:
    def show(value: Any) -> None:
        report = check(value)
        show_html(report)
        report._repr_html_()
        assert report.machine is not None
        for seen in report.machine.seen[:2]:
            tile_svg(TilePicture.of_seen(report.machine, seen))

    for _ in range(cases):
        value = damaged_value(rng, rng.choice(_values()))
        bench.through(lambda value=value: show(value), value)


@functools.cache
def _traces() -> tuple[pathlib.Path, ...]:
    folders = sorted(path.parent for path in (ROOT / "golden").glob("*/*/" + MANIFEST))
    small = [folder for folder in folders if (folder / DATA).stat().st_size < MOST_STORED]
    assert small, "the golden traces are not there"
    return tuple(small)


def _replayed(folder: pathlib.Path, rng: random.Random) -> None:
    suite = load_suite(folder)
    replay_suite(suite, case=rng.randrange(max(len(suite), 1))).text()


def _files(rng: random.Random, cases: int, bench: Bench) -> None:
    """Bytes of the manifest or of the arrays' file damaged, one of them exchanged or missing, the manifest's structure
    damaged.
    """
    with _folder() as name:
        folder = pathlib.Path(name) / "trace"
        for _ in range(cases):
            source = rng.choice(_traces())
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            manifest, data = (source / MANIFEST).read_bytes(), (source / DATA).read_bytes()
            match rng.randrange(6):
                case 0 | 1:
                    manifest = damaged_bytes(rng, manifest)
                case 2 | 3:
                    manifest = json.dumps(damaged_value(rng, json.loads(manifest))).encode("utf-8", "replace")
                case 4:
                    data = damaged_bytes(rng, data)
                case 5:
                    data = (rng.choice(_traces()) / DATA).read_bytes()
            (folder / MANIFEST).write_bytes(manifest)
            (folder / DATA).write_bytes(data)
            case = {"of": source.name, "manifest": hashlib.sha256(manifest).hexdigest(), "arrays": hashlib.sha256(data).hexdigest()}
            bench.through(lambda: _replayed(folder, rng), case)
        bench.cases -= 1
        bench.through(lambda: replay(folder / "nothing"), {})


def _array(rng: random.Random, array: np.ndarray, at: int) -> np.ndarray:
    """An array with one or a few of its numbers changed, at one place or anywhere."""
    made = array.copy()
    flat = made.reshape(-1).view(np.uint8) if made.dtype.kind not in "SU" else made.reshape(-1)
    if not flat.size:
        return made
    if made.dtype.kind in "SU":
        flat[rng.randrange(flat.size)] = rng.choice(("", "x", "0", "K", "MN", "none"))
        return made
    entry = max(1, flat.size // max(len(array), 1)) if array.ndim else flat.size
    for _ in range(rng.choice((1, 1, 3, 16))):
        index = min(at, max(len(array) - 1, 0)) * entry + rng.randrange(entry) if array.ndim else rng.randrange(flat.size)
        flat[index % flat.size] = rng.choice((0, 255, 128, 1, rng.randrange(256)))
    return made


@functools.cache
def _loaded(folder: pathlib.Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    suite = load_suite(folder)
    return suite.manifest, suite.arrays


def _numbers(rng: random.Random, cases: int, bench: Bench) -> None:
    """Arrays damaged and the manifest's sums made to fit: what only the readers of each kind of trace can notice."""
    with _folder() as name:
        folder = pathlib.Path(name)
        for number in range(cases):
            source = rng.choice(_traces())
            manifest, arrays = _loaded(source)
            case = rng.randrange(int(manifest["cases"]))
            changed = dict(arrays)
            for one in rng.sample(list(arrays), min(len(arrays), rng.choice((1, 1, 2, 3)))):
                way = rng.random()
                if way < 0.7:
                    changed[one] = _array(rng, arrays[one], case)
                elif way < 0.8:
                    changed[one] = arrays[one][: rng.randrange(len(arrays[one]) + 1)] if arrays[one].ndim else arrays[one]
                elif way < 0.9:
                    changed[one] = arrays[one].astype(rng.choice((np.uint8, np.int8, np.int64, np.float64, "U4")), casting="unsafe") if arrays[one].dtype.kind not in "SU" else arrays[one]  # fmt: skip
                else:
                    changed[one] = arrays[one].reshape(rng.choice(((-1,), (1, *arrays[one].shape), (*arrays[one].shape, 1))))
            told = {
                "of": source.name,
                "case": case,
                "changed": [one for one in arrays if changed[one] is not arrays[one]],
                "number": number,
            }
            bench.through(lambda changed=changed, manifest=manifest, case=case: _written(folder, manifest, changed, case), told)


def _written(folder: pathlib.Path, manifest: dict[str, Any], arrays: dict[str, np.ndarray], case: int) -> None:
    about = {
        name: {"dtype": x.dtype.str, "shape": list(x.shape), "sha256": hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}
        for name, x in arrays.items()
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        for name, x in arrays.items():
            with bundle.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(x), allow_pickle=False)
    (folder / MANIFEST).write_text(json.dumps(manifest | {"arrays": about}))
    (folder / DATA).write_bytes(packed.getvalue())
    replay_suite(load_suite(folder), case=case).text()


SCENARIO_TEXTS = door("scenario-texts", "damaged scenario files, TOML and JSON: read, checked", 60, _texts)
SCENARIO_VALUES = door("scenario-values", "scenarios with keys removed, retyped, beyond all bounds: checked and reported", 40, _structures)
SHOWN = door("shown", "damaged scenarios: the HTML page, the notebook's view, SVG", 5, _shown)
TRACES = door("traces", "golden traces with damaged files: loaded, a case replayed", 60, _files)
TRACE_VALUES = door("trace-values", "golden traces with changed arrays whose sums fit: a case replayed", 20, _numbers)
