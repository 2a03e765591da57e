"""Random PTX programs on the card: does it leave the bytes that closures and machine code leave?

    python -m tools.capture.random_programs --seconds 300 --jobs 16 --out rows.jsonl

The programs are those of `smemsim campaign ptx` (seed, chunk and number name one). Programs with a finding are run by
the two tiers alone: what a race leaves on a card is nothing to compare. So are those with approximations, whose last
bits the PTX ISA leaves open. A program that differs is made small on the card, and run again as `ptxas -O0` has it. A
chunk of 32 is a line of `--out`, and is not run again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import SmemsimError
from smemsim.base.processes import pool
from smemsim.campaign.space import drawn, shrunk
from smemsim.campaign.spaces.ptx import STORED, Program, difference, draw, runs, simpler
from smemsim.run.engine.launch import LaunchConfig

__all__ = ["chunk_on_card", "main", "on_card"]

CASES = 32
COUNTED = ("programs", "on_card", "with_findings", "approximate", "refused", "other_nans")


@functools.cache
def _gpu() -> Any:
    from smemsim.testing.recorder import Gpu

    return Gpu()


def unoptimised(ptx: str) -> bytes | str:
    """The machine code that `ptxas -O0` makes of a text, or the text where there is no ptxas."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        return ptx
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "random.ptx"), pathlib.Path(folder, "random.cubin")
        source.write_text(ptx)
        done = subprocess.run([ptxas, "-arch=sm_90a", "-O0", source, "-o", cubin], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SmemsimError(f"ptxas -O0: exit code {done.returncode}: {done.stderr.strip()}")
        return cubin.read_bytes()


def on_card(program: Program, compiled: Callable[[str], bytes | str] = str) -> tuple[bytes, bytes] | str:
    """What a program leaves in its two arrays on the card, or the error; `compiled` makes
    of its text what is loaded.
    """
    gpu = _gpu()
    inputs, outputs = program.inputs(), np.zeros((program.ctas * program.threads, len(STORED)), np.uint64)
    held: list[int] = []
    try:
        kernel = gpu.load(compiled(program.text())).kernel("random")
        for array in (inputs, outputs):
            held.append(gpu.allocate(array.nbytes))
            gpu.put(held[-1], array)
        code = gpu.execute(kernel, LaunchConfig(grid=program.ctas, block=program.threads, args=[at.to_bytes(8, "little") for at in held]))
        if code:
            return f"CUDA error {code}"
        return gpu.get(held[0], inputs.nbytes).tobytes(), gpu.get(held[1], outputs.nbytes).tobytes()
    except SmemsimError as e:
        return str(e)
    finally:
        for at in held:
            gpu.free(at)


def told_by_card(program: Program, compiled: Callable[[str], bytes | str] = str) -> tuple[str, bool]:
    """In what the card differs from closures, in a sentence, and whether in NaNs alone."""
    closures = runs(program, "closures")
    if isinstance(closures, str) or closures[1]:
        return "", False
    card = on_card(program, compiled)
    if isinstance(card, str):
        return f"the card says {card}", False
    told = difference(closures, (card, *closures[1:]), "the card")
    return told, bool(told) and _are_nans(closures[0], card)


def made_small(program: Program) -> dict[str, Any]:
    """The smallest program found that the card still differs on, and what the card says of the
    machine code of `ptxas -O0`.
    """

    def differs(other: Program) -> bool:
        told, nans = told_by_card(other)
        return bool(told) and not nans

    small = shrunk(program, simpler, differs)
    return {"small": small.text(), "small_difference": told_by_card(small)[0], "small_at_O0": told_by_card(small, unoptimised)[0]}


def chunk_on_card(seed: int, chunk: int) -> dict[str, Any]:
    """What came of the programs of a chunk."""
    counts = dict.fromkeys(COUNTED, 0) | {"programs": CASES}
    row: dict[str, Any] = {"seed": seed, "chunk": chunk, **counts, "differ": []}
    for number in range(CASES):
        program = draw(drawn("ptx", seed, chunk, number))
        closures, machine = runs(program, "closures"), runs(program, "compiled")
        told, small = difference(closures, machine), {}
        if isinstance(closures, str):
            row["refused"] += 1
        elif closures[1]:
            row["with_findings"] += 1
        elif not program.is_exact:
            row["approximate"] += 1
        elif not told:
            row["on_card"] += 1
            told, nans = told_by_card(program)
            if nans:
                row["other_nans"] += 1
                told = ""
            small = made_small(program) if told else {}
        if told:
            row["differ"].append({"number": number, "difference": told, "ptx": program.text(), **small})
    return row


def _are_nans(here: tuple[bytes, bytes], card: tuple[bytes, bytes]) -> bool:
    """Do they differ in NaNs of f32 and f64 registers alone?

    `neg` and `abs` of a NaN give one that the PTX ISA leaves open (9.7.3), and ptxas makes a move of `max` and
    `min` of a register with itself.
    """
    if here[0] != card[0]:
        return False
    a, b = (np.frombuffer(found[1], np.uint64).reshape(-1, len(STORED)) for found in (here, card))
    for n, (letter, _) in enumerate(STORED):
        differ = a[:, n] != b[:, n]
        dtype = {"f": np.float32, "g": np.float64}.get(letter)
        if differ.any() and dtype is None:
            return False
        kept = [x[differ, n].astype(np.uint32 if dtype is np.float32 else np.uint64).view(dtype) for x in (a, b)] if dtype else []
        if not all(np.isnan(x).all() for x in kept):
            return False
    return True


def main() -> int:
    """The command line; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.capture.random_programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first chunk")
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no chunk after this time")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done, chunk = {(row["seed"], row["chunk"]) for row in rows}, given.first
    with pool(given.jobs) as processes, given.out.open("a", encoding="utf-8") as file:
        busy: set[concurrent.futures.Future[dict[str, Any]]] = set()
        while busy or time.monotonic() < end:
            while time.monotonic() < end and len(busy) < given.jobs:
                if (given.seed, chunk) not in done:
                    busy.add(processes.submit(chunk_on_card, given.seed, chunk))
                chunk += 1
            ready, busy = concurrent.futures.wait(busy, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                rows.append(future.result())
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    total = {name: sum(row.get(name, 0) for row in rows) for name in COUNTED}
    troubles = [(row["seed"], row["chunk"], one) for row in rows for one in row["differ"]]
    print(f"{total}, {len(troubles)} differ")
    for seed, at, one in troubles[:40]:
        again = f"; with -O0: {one['small_at_O0'] or 'right'}" if "small" in one else ""
        print(f"ptx:{seed}:{at}:{one['number']}: {one['difference']}{again}")
    return int(bool(troubles))


if __name__ == "__main__":
    sys.exit(main())
