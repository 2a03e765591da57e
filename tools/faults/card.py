"""The kernels with their faults on a GPU: plain, and under each tool of compute-sanitizer.

    python -m tools.faults card OUT [NAME ...]    # compiles there with ptxas

Every run is a process of its own with a time limit: a fault may hang or end the context. Writes OUT, JSON with a row
for each variant.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

from smemsim.testing.recorder import CudaError, Gpu
from tools.faults.here import is_equal
from tools.faults.planted import Planted, all_planted, planted

__all__ = ["TOOLS", "on_card", "once"]

TOOLS = {
    "plain": [],
    "memcheck": ["--tool", "memcheck"],
    "racecheck": ["--tool", "racecheck", "--racecheck-report", "all", "--racecheck-detect-level", "info"],
    "synccheck": ["--tool", "synccheck"],
    "initcheck": ["--tool", "initcheck"],
}
GUARD = 256  # bytes behind an array that belong to nobody
PATIENCE = {"plain": 8}
LONGEST, WORKERS = 14, 14
REPORT = re.compile(r"=========\s+(?:Error|Warning|Invalid|Barrier|Uninitialized|Divergent|Potential|Race|.*hazard|.*error)[^\n]*")
LINE = re.compile(r"(\w+\.cu):(\d+)")


def once(kernel: Planted, ptx: pathlib.Path) -> str:
    """Launch a variant once: "right", "wrong" or the driver's error."""
    image = ptx.with_suffix(".cubin").read_bytes()
    launch, gpu = kernel.launch(""), Gpu()
    before, loaded = launch.arrays(), gpu.load(image).kernel(kernel.name)
    addresses = {}
    for name, x in before.items():
        addresses[name] = gpu.allocate(x.nbytes)
        if name not in kernel.shape.unwritten:
            gpu.put(addresses[name], x)
    code = gpu.execute(loaded, launch.config(launch.parameters(addresses, gpu.encode)))
    if code:
        return f"error {code}"
    for name, wanted in kernel.shape.expect(before).items():
        found = gpu.get(addresses[name], wanted.nbytes).view(wanted.dtype)
        if not is_equal(found, wanted.reshape(-1), kernel.shape.rtol):
            return "wrong"
    return "right"


def _tool(kernel: str, ptx: pathlib.Path, tool: str) -> dict[str, Any]:
    own = [sys.executable, "-m", "tools.faults", "once", kernel, str(ptx)]
    command = own if tool == "plain" else ["compute-sanitizer", "--print-limit", "40", *TOOLS[tool], *own]
    limit = PATIENCE.get(tool, LONGEST)
    try:
        done = subprocess.run(
            ["timeout", "-s", "KILL", str(limit), *command], capture_output=True, text=True, timeout=limit + 5, check=False
        )
    except subprocess.TimeoutExpired:
        return {"ends": "hang"}
    ends = next(
        (line.removeprefix("ENDS ") for line in done.stdout.splitlines() if line.startswith("ENDS ")),
        "hang" if done.returncode in (137, -9) else "lost",
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("=========")]
    reports = [line.removeprefix("=========").strip() for line in said if REPORT.match(line) and "SUMMARY" not in line]
    lines = sorted({int(number) for line in said for _, number in LINE.findall(line)})
    row: dict[str, Any] = {"ends": ends}
    if tool != "plain":
        row |= {"reports": reports[:4], "lines": lines, "summary": next((line for line in said if "SUMMARY" in line), "")[9:].strip()}
    if ends == "lost":
        row["error"] = done.stderr[-300:] + done.stdout[-300:]
    return row


def _variant(kernel: Planted, number: int, folder: pathlib.Path, tools: list[str]) -> tuple[str, dict[str, Any]]:
    ptx = folder / f"{kernel.name}_{number}.ptx"
    made = subprocess.run(
        ["ptxas", "-arch=sm_90a", "-lineinfo", str(ptx), "-o", str(ptx.with_suffix(".cubin"))], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"{kernel.name}/{number}", {"ptxas": made.stderr[-300:]}
    return f"{kernel.name}/{number}", {tool: _tool(kernel.name, ptx, tool) for tool in tools}


def on_card(out: pathlib.Path, folder: pathlib.Path, names: list[str], tools: list[str]) -> None:
    """Run every variant whose PTX lies in the folder (of the kernels named), and write what was seen after each of
    them.
    """
    kernels = [kernel for kernel in all_planted() if kernel.shape.arch == "sm_90a" and (not names or kernel.name in names)]
    jobs = [
        (kernel, n)
        for kernel in kernels
        for n in (0, *(fault.number for fault in kernel.faults))
        if (folder / f"{kernel.name}_{n}.ptx").exists()
    ]
    rows: dict[str, Any] = {"device": Gpu().describe()} if "plain" in tools or tools else {}
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for done in concurrent.futures.as_completed([pool.submit(_variant, *job, folder, tools) for job in jobs]):
            name, row = done.result()
            rows[name] = row
            out.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def main_once(name: str, ptx: str) -> None:
    """The process of one run."""
    try:
        print("ENDS", once(planted(name), pathlib.Path(ptx)), flush=True)
    except CudaError as e:
        print("ENDS error", e.code, flush=True)
