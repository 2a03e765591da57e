"""Launches that `smemsim exec --record` kept of somebody's program, on the GPU at hand: does it leave the bytes
that the virtual GPU leaves?

    python -m tools.capture.recorded_launches FOLDER --virtual --out virtual.json    # anywhere
    python -m tools.capture.recorded_launches FOLDER --out card.json                 # where the card is
    python -m tools.capture.recorded_launches --compare virtual.json card.json --out rows.json

FOLDER has launch files below it, at any depth. Everything a launch was given is placed again, all of it moved by one
distance: addresses in parameters, and in arrays of at most 4 KiB (tensor maps, tables of pointers), are moved with it.
On the card each launch runs in a process of its own, three times over fresh memory. Kept are digests: of the PTX, of
every array that changed, of all arrays together.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.evidence.launches import LaunchFile, read_launch_file

__all__ = ["compared", "main", "moved", "on_card", "virtual"]

RUNS, PATIENCE, WORKERS = 3, 120, 6
TABLE = 4096  # bytes of an array that may hold addresses
PAGE = 1 << 21


def moved(data: np.ndarray, begin: int, end: int, by: int) -> np.ndarray:
    """Bytes with every aligned 64-bit word that is an address of [begin, end) moved.

    >>> moved(np.array([5, 0x300000000100], np.uint64).view(np.uint8), 0x300000000000, 0x300000001000, 0x1000).view(np.uint64)[1] == 0x300000001100
    True
    """
    raw = np.array(data.reshape(-1).view(np.uint8))
    words = raw[: len(raw) // 8 * 8].view(np.uint64)
    words[(words >= np.uint64(begin)) & (words < np.uint64(end))] += np.uint64(by % (1 << 64))
    return raw


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _told(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, str]:
    """The digest of every array that changed."""
    return {name: _digest(after[name].tobytes()) for name, x in before.items() if not np.array_equal(x, after[name])}


def virtual(file: LaunchFile) -> dict[str, Any]:
    """What a launch leaves on the virtual GPU."""
    from smemsim.evidence.kinds.launch import run_file

    before = {name: np.array(x).reshape(-1).view(np.uint8) for name, x in file.arrays().items()}
    launch, arrays = run_file(file, str(file.about.get("arch") or "sm_90a"))
    after = {name: x.numpy().reshape(-1).view(np.uint8) for name, x in arrays.items()}
    return {"ptx_sha256": _digest(file.ptx.encode()), "status": int(launch.status), "outputs": _told(before, after)}


def _assembled(ptx: str, arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder) / "kernel.ptx", pathlib.Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        if shutil.which("ptxas") is None:
            return ptx.encode()
        done = subprocess.run(["ptxas", f"-arch={arch}", str(source), "-o", str(cubin)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SmemsimError(f"ptxas: {done.stderr[-400:]}")
        return cubin.read_bytes()


def on_card(file: LaunchFile, cubin: bytes | None = None) -> dict[str, Any]:
    """What it leaves on the card, `RUNS` times; where runs differ, that is told."""
    from smemsim.testing.recorder import Gpu

    gpu = Gpu()
    before = {name: np.array(x).reshape(-1).view(np.uint8) for name, x in file.arrays().items()}
    at = {one["name"]: int(one["address"]) for one in file.about["arrays"]}
    begin, end = min(at.values()), max(at[name] + len(x) for name, x in before.items())
    block = gpu.allocate(end - begin + 2 * PAGE, 0)
    by = (block + PAGE - 1) // PAGE * PAGE + begin % PAGE - begin
    parameters = [moved(np.frombuffer(raw, np.uint8), begin, end, by).tobytes() for raw in file.parameters(at)]
    runs, code = [], 0
    image = cubin or _assembled(file.ptx, gpu.arch)
    for _ in range(RUNS):
        kernel = gpu.load(image).kernel(file.about["entry"])
        for name, x in before.items():
            gpu.put(at[name] + by, moved(x, begin, end, by) if len(x) <= TABLE else x)
        code = gpu.execute(kernel, file.config(parameters))
        if code:
            break
        after = {name: gpu.get(at[name] + by, len(x)) for name, x in before.items()}
        runs.append(_told(before, {n: moved(x, begin + by, end + by, -by) if len(x) <= TABLE else x for n, x in after.items()}))
    stable = all(run == runs[0] for run in runs)
    return {
        "ptx_sha256": _digest(file.ptx.encode()),
        "status": code,
        "outputs": runs[0] if runs and not code else {},
        "stable": stable,
        **_card(gpu),
    }


def _card(gpu: Any) -> dict[str, Any]:
    return {key: value for key, value in gpu.describe().items() if key in ("gpu", "driver", "captured_utc")}


def _folders(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path.parent for path in root.rglob("launch.toml"))


def _one(folder: pathlib.Path, *, is_virtual: bool) -> dict[str, Any]:
    file = read_launch_file(folder)
    cubin = folder / "kernel.cubin"
    try:
        return virtual(file) if is_virtual else on_card(file, cubin.read_bytes() if cubin.exists() else None)
    except SmemsimError as e:
        return {"said": str(e)[:400]}


def _in_process(folder: pathlib.Path) -> dict[str, Any]:
    command = [sys.executable, __file__, str(folder), "--one"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"said": f"hangs: stopped after {PATIENCE} s"}
    lines = done.stdout.strip().splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines and not done.returncode else {"said": " ".join(done.stderr.split())[-400:]}
    return found


def compared(here: dict[str, Any], there: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each launch that ran in both places: which arrays hold the same bytes."""
    rows = []
    for name in sorted(here.keys() & there.keys()):
        a, b = here[name], there[name]
        if "outputs" not in a or "outputs" not in b or a["ptx_sha256"] != b["ptx_sha256"]:
            rows.append({"launch": name, "said": b.get("said") or a.get("said") or "another kernel"})
            continue
        same = [n for n in a["outputs"] if a["outputs"][n] == b["outputs"].get(n)]
        rows.append({
            "launch": name, "ptx_sha256": a["ptx_sha256"], "same": a["outputs"] == b["outputs"] and a["status"] == b["status"], "status": b["status"], "stable": b["stable"],
            "outputs": b["outputs"], "differ": sorted((a["outputs"].keys() | b["outputs"].keys()) - set(same)), **{key: b[key] for key in ("gpu", "driver", "captured_utc")},
        })  # fmt: skip
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--compare", type=pathlib.Path, nargs=2, metavar=("VIRTUAL", "CARD"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(_one(given.folder, is_virtual=False)))
        return 0
    if given.compare:
        rows = compared(*(json.loads(path.read_text(encoding="utf-8")) for path in given.compare))
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"{len(rows)} launches, {sum(bool(row.get('same')) for row in rows)} leave the same bytes")
        return 0
    folders = _folders(given.folder)
    names = [str(folder.relative_to(given.folder)) for folder in folders]
    if given.virtual:
        found = [_one(folder, is_virtual=True) for folder in folders]
    else:
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(_in_process, folders))
    given.out.write_text(json.dumps(dict(zip(names, found, strict=True)), indent=1) + "\n", encoding="utf-8")
    for name, one in zip(names, found, strict=True):
        print(f"{name}: {one.get('said') or str(len(one['outputs'])) + ' arrays changed, status ' + str(one['status'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
