"""Random concurrent programs on the card: does a program without findings leave the bytes that smemsim computes?

    python -m tools.capture.concurrent_programs --seed 1 --seconds 480 --jobs 16 --out rows.jsonl
    python -m tools.capture.concurrent_programs --seed 1 --only 17 --write FOLDER

The programs are the deterministic ones of `smemsim campaign concurrent`, and those of `chains`, which are right or have
one broken link; seed and number name one. Many processes run
them in smemsim. The silent ones run several times on the card, each batch in a process of its own: a trap or a hang
ends this process only. `--out` gets a line of JSON for each program that differs, traps, hangs, or is an internal
error. The last line has the totals. A program that differs in all runs is made small. `--only` with `--write` needs no
card: it writes kernel.ptx and launch.json.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import math
import multiprocessing
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import numpy as np

from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.processes import pool
from smemsim.campaign.space import drawn, shrunk
from smemsim.campaign.spaces import concurrent_chains
from smemsim.campaign.spaces.concurrent import ARRAYS, WORDS, Program, draw, simpler
from tools.alarm import at_most

__all__ = ["Silent", "main", "modelled", "on_card", "program_of", "rows_of_batch"]

CHUNK = 8  # programs that a process runs in smemsim at a time
BATCH = 256  # programs that a process runs on the card
RUNS = 12  # of a program on the card
MODEL_SECONDS = 30.0  # of a program in smemsim
CARD_SECONDS = 6.0  # of a program on the card
START_SECONDS = 25.0  # of a process of a batch, and to make a program small
CHAINS = 0.4  # of the programs: those of `chains`, half of them right
SHOWN = 4  # differing words of an array
SMALLER = 40  # programs that are tried to make one small
STARTS = 3  # of a process of a batch that ends before its first program
GRACE = 40.0  # seconds for the programs that wait for the card at the end


class Silent(NamedTuple):
    """A program without findings, and the bytes that it leaves in its arrays."""

    number: int
    program: Program
    left: tuple[bytes, ...]
    remarks: tuple[str, ...]


class Modelled(NamedTuple):
    """What smemsim makes of a program: the codes of its findings, an internal error, the program if it is silent."""

    number: int
    codes: tuple[str, ...]
    raised: str = ""
    silent: Silent | None = None


def program_of(seed: int, number: int) -> Program:
    """A program by its number. It runs without a schedule, as the card does."""
    rng = drawn("card", seed, 0, number)
    if rng.random() < CHAINS:
        return concurrent_chains.draw(rng, broken=0.5)
    return dataclasses.replace(draw(rng, is_deterministic=True), schedule=None)


# ---- In smemsim


class _Late(BaseException):
    """The time of a program is over."""


def modelled(program: Program, number: int) -> Modelled:
    """Run a program in smemsim."""
    try:
        with at_most(MODEL_SECONDS, _Late()):
            found = program.outcome(tiers="")
    except _Late:
        return Modelled(number, ("late",))
    except Exception as e:  # an internal error is a result, too
        return Modelled(number, ("raised",), f"{type(e).__name__}: {e}")
    if isinstance(found, str):
        return Modelled(number, ("refused",), found if found.startswith("InternalError") else "")
    left, status, findings, remarks = found
    codes = tuple(sorted({finding[0] for finding in findings}))
    if codes or status:
        return Modelled(number, codes or ("trapped",))
    return Modelled(number, (), silent=Silent(number, program, left, tuple(sorted({remark[0] for remark in remarks}))))


def _chunk(seed: int, numbers: range) -> list[Modelled]:
    return [modelled(program_of(seed, number), number) for number in numbers]


# ---- On the card


def on_card(gpu: Any, silent: Silent, runs: int) -> dict[str, Any]:
    """What is wrong with a program on the card, in how many runs, and the first words. Empty if nothing is."""
    program, held = silent.program, _memory(gpu)
    maps = [gpu.encode(tm, address) for tm, address in zip(program.maps(held), (held["in"], held["out"]), strict=True)]
    try:
        kernel = gpu.load(program.text()).kernel("concurrent")
    except SmemsimError as e:
        return {"refused": str(e)}
    config = program.config([*maps, *(address.to_bytes(8, "little") for address in held.values())])
    differ, run = 0, 0
    first: list[tuple[str, int, int, int]] = []
    for run in range(1, runs + 1):
        for name, data in program.inputs().items():
            gpu.put(held[name], data)
        code = gpu.execute(kernel, config)
        if code:
            return {"differs": 1, "of": run, "first": f"CUDA error {code}"}
        found = tuple(gpu.get(address, 4 * WORDS).tobytes() for address in held.values())
        if found != silent.left:
            differ += 1
            first = first or _differing(silent.left, found)
    return {"differs": differ, "of": run, "first": first} if differ else {}


@functools.lru_cache(maxsize=1)
def _memory(gpu: Any) -> dict[str, int]:
    """The arrays on the card: the same for all programs of a process."""
    return {name: gpu.allocate(4 * WORDS) for name in ARRAYS}


def _differing(model: tuple[bytes, ...], card: tuple[bytes, ...]) -> list[tuple[str, int, int, int]]:
    """(array, word, number in smemsim, number on the card) of the first differing words of each array."""
    found = []
    for name, *data in zip(ARRAYS, model, card, strict=True):
        here, there = (np.frombuffer(some, np.uint32) for some in data)
        found += [(name, int(n), int(here[n]), int(there[n])) for n in np.flatnonzero(here != there)[:SHOWN]]
    return found


def made_small(gpu: Any, silent: Silent) -> dict[str, Any]:
    """The smallest program found that is silent and differs on the card in all runs."""

    def differing(program: Program) -> dict[str, Any]:
        found = modelled(program, silent.number).silent
        told = on_card(gpu, found, 3) if found else {}
        return told if told.get("differs") == told.get("of") else {}

    small = shrunk(silent.program, simpler, lambda program: bool(differing(program)), SMALLER)
    return {"small": small.text(), "small_first": differing(small).get("first")}


def _work(connection: Any, batch: list[Silent], runs: int) -> None:
    """The process of a batch. It sends (number, None) before a program and (number, what is wrong) after it."""
    from smemsim.testing.recorder import Gpu

    gpu = Gpu()
    for silent in batch:
        connection.send((silent.number, None))
        told = on_card(gpu, silent, runs)
        connection.send((silent.number, told))
        if isinstance(told.get("first"), str):
            return  # after a trap no call succeeds
        if told and told.get("differs") == told.get("of"):
            connection.send((silent.number, made_small(gpu, silent)))


def rows_of_batch(
    batch: list[Silent],
    runs: int,
    seconds: float = CARD_SECONDS,
    work: Callable[..., None] = _work,
    method: str = "spawn",
    until: float = math.inf,
) -> dict[int, dict[str, Any]]:
    """What is wrong with the programs of a batch, by number; an empty dict for those that are right. Each process goes
    on where the one before it ended. A program whose process dies, or sends nothing for so many seconds, is left out by
    the next. No process starts after the time `until`.
    """
    context: Any = multiprocessing.get_context(method)
    left, failed = {silent.number: silent for silent in batch}, 0
    rows: dict[int, dict[str, Any]] = {}
    while left and time.monotonic() < until:
        before = len(left)
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(theirs, [*left.values()], runs), daemon=True)
        process.start()
        theirs.close()
        running: int | None = None
        is_late = True
        while ours.poll(START_SECONDS if running is None else seconds):
            try:
                number, told = ours.recv()
            except EOFError:
                is_late = False
                break
            running = number if told is None else None
            if told is not None:
                left.pop(number, None)
                rows[number] = rows.get(number, {}) | told
        process.kill()
        process.join()
        if running is not None:
            left.pop(running)
            rows[running] = {"hangs": seconds} if is_late else {"died": process.exitcode}
        failed = failed + 1 if len(left) == before else 0
        if failed == STARTS:
            raise InputError("the process of a batch ends before its first program: no card answers it")
    return rows


# ---- All of it


class Totals:
    """What came of all programs, and the file with a line for each that is wrong."""

    def __init__(self, seed: int, file: TextIO) -> None:
        self.seed, self.file = seed, file
        self.counts: dict[str, int] = dict.fromkeys(("programs", "silent", "on_card", "wrong"), 0)
        self.codes = collections.Counter[str]()
        self.following = 0  # the number after the last program

    def modelled(self, one: Modelled) -> None:
        """A program that ran in smemsim."""
        self.counts["programs"] += 1
        self.counts["silent"] += one.silent is not None
        self.codes.update(one.codes)
        if one.raised:
            self._write(one.number, {"raised": one.raised})

    def ran(self, batch: list[Silent], rows: dict[int, dict[str, Any]]) -> None:
        """A batch that ran on the card."""
        self.counts["on_card"] += len(rows)
        for silent in batch:
            if rows.get(silent.number):
                self._write(silent.number, rows[silent.number] | {"remarks": silent.remarks})

    def end(self) -> str:
        """Write the totals."""
        line = json.dumps({"seed": self.seed, "next": self.following, "total": self.counts, "codes": dict(self.codes.most_common())})
        self.file.write(line + "\n")
        return line

    def _write(self, number: int, told: dict[str, Any]) -> None:
        self.counts["wrong"] += 1
        again = f"python -m tools.capture.concurrent_programs --seed {self.seed} --only {number} --write FOLDER"
        row = {"number": number, **told, "reproduce": again, "kernel.ptx": program_of(self.seed, number).text()}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        shown = {key: value for key, value in told.items() if key != "small"}
        print(f"{self.seed}:{number}: {shown}", flush=True)


def sweep(totals: Totals, first: int, seconds: float, jobs: int, runs: int) -> None:
    """Run programs from number `first` on for so many seconds."""
    end, totals.following = time.monotonic() + seconds, first
    waiting: list[Silent] = []
    card: concurrent.futures.Future[Any] | None = None
    batch: list[Silent] = []
    with pool(jobs) as processes, concurrent.futures.ThreadPoolExecutor(1) as thread:
        busy: set[concurrent.futures.Future[Any]] = set()
        while busy or card or waiting or time.monotonic() < end:
            while time.monotonic() < end and len(busy) < 2 * jobs:
                busy.add(processes.submit(_chunk, totals.seed, range(totals.following, totals.following + CHUNK)))
                totals.following += CHUNK
            if time.monotonic() > end + GRACE:
                waiting = []
            if card is None and waiting and (len(waiting) >= BATCH or not busy):
                batch, waiting = waiting[:BATCH], waiting[BATCH:]
                card = thread.submit(functools.partial(rows_of_batch, batch, runs, until=end + GRACE))
            if not busy and card is None:
                continue
            ready, _ = concurrent.futures.wait(busy | ({card} if card else set()), return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready - {card}:
                for one in future.result():
                    totals.modelled(one)
                    waiting += [one.silent] if one.silent else []
            if card in ready:
                totals.ran(batch, card.result())
                card = None
            busy -= ready


def write(program: Program, folder: pathlib.Path) -> None:
    """Write the files of a program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(program.text(), encoding="utf-8")
    (folder / "launch.json").write_text(json.dumps(program.launch_file()), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """The command line. 1: a program is wrong; 2: there is no card."""
    parser = argparse.ArgumentParser(prog="python -m tools.capture.concurrent_programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one program")
    parser.add_argument(
        "--write", type=pathlib.Path, metavar="FOLDER", help="with --only: write kernel.ptx and launch.json, and run nothing"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no program after this time")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that run smemsim")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="runs of a program on the card")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="a line of JSON for each program that is wrong, and the totals")
    given = parser.parse_args(arguments)
    if given.write:
        if given.only is None:
            parser.error("--write: needs --only NUMBER")
        write(program_of(given.seed, given.only), given.write)
        return 0
    from smemsim.testing.recorder import why_no_gpu

    if lacks := why_no_gpu():
        print(f"concurrent_programs: {lacks}. `smemsim campaign concurrent` needs no card.", file=sys.stderr)
        return 2
    with contextlib.nullcontext(sys.stdout) if given.out is None else given.out.open("a", encoding="utf-8") as file:
        totals = Totals(given.seed, file)
        try:
            if given.only is None:
                sweep(totals, given.first, given.seconds, given.jobs, given.runs)
            else:
                totals.modelled(one := modelled(program_of(given.seed, given.only), given.only))
                batch = [one.silent] if one.silent else []
                totals.ran(batch, rows_of_batch(batch, given.runs))
                totals.following = given.only + 1
        finally:
            line = totals.end()
    if given.out is not None:
        print(line)
    return int(totals.counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
