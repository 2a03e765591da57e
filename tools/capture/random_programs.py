"""Random PTX programs on the card: does it leave the bytes that closures and machine code leave?

    python -m tools.capture.random_programs --seconds 300 --jobs 16 --out rows.jsonl

The programs are those of `smemsim campaign ptx` (seed, chunk and number name one). Programs with a finding are run by the two tiers alone: what a race leaves on a
card is nothing to compare. A chunk of 32 is a line of `--out`, and is not run again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import pathlib
import sys
import time
from typing import Any

import numpy as np

from smemsim.campaign.space import drawn
from smemsim.campaign.spaces.ptx import STORED, Program, difference, draw, runs
from smemsim.errors import SmemsimError
from smemsim.processes import pool
from smemsim.program.launch import LaunchConfig

__all__ = ["chunk_on_card", "main", "on_card"]

CASES = 32


@functools.cache
def _gpu() -> Any:
    from smemsim.testing.recorder import Gpu

    return Gpu()


def on_card(program: Program) -> tuple[bytes, bytes] | str:
    """What a program leaves in its two arrays on the card, or the error."""
    gpu = _gpu()
    inputs, outputs = program.inputs(), np.zeros((program.ctas * program.threads, len(STORED)), np.uint64)
    held: list[int] = []
    try:
        kernel = gpu.load(program.text()).kernel("random")
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


def chunk_on_card(seed: int, chunk: int) -> dict[str, Any]:
    """What came of the programs of a chunk."""
    row: dict[str, Any] = {
        "seed": seed,
        "chunk": chunk,
        "programs": CASES,
        "on_card": 0,
        "with_findings": 0,
        "refused": 0,
        "other_nans": 0,
        "differ": [],
    }
    for number in range(CASES):
        program = draw(drawn("ptx", seed, chunk, number))
        closures, machine = runs(program, "closures"), runs(program, "compiled")
        told = difference(closures, machine)
        if isinstance(closures, str):
            row["refused"] += 1
        elif closures[1]:
            row["with_findings"] += 1
        elif not told:
            card = on_card(program)
            row["on_card"] += 1
            told = f"the card says {card}" if isinstance(card, str) else difference(closures, (card, closures[1]), "the card")
            if told and not isinstance(card, str) and _are_nans(closures[0], card):
                row["other_nans"] += 1
                told = ""
        if told:
            row["differ"].append({"number": number, "difference": told, "ptx": program.text()})
    return row


def _are_nans(here: tuple[bytes, bytes], card: tuple[bytes, bytes]) -> bool:
    """Do they differ in NaNs of f32 and f64 registers alone?

    `neg` and `abs` of a NaN give one that the PTX ISA leaves open (9.7.3), and ptxas makes a move of `max` and `min` of a register with itself.
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
    total = {name: sum(row[name] for row in rows) for name in ("programs", "on_card", "with_findings", "refused", "other_nans")}
    troubles = [(row["seed"], row["chunk"], one) for row in rows for one in row["differ"]]
    print(f"{total}, {len(troubles)} differ")
    for seed, at, one in troubles[:40]:
        print(f"ptx:{seed}:{at}:{one['number']}: {one['difference']}")
    return int(bool(troubles))


if __name__ == "__main__":
    sys.exit(main())
