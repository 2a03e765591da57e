"""Tests of a checkout, run under many schedules, and held against what the model says and what its authors expect."""

from __future__ import annotations

import collections
import csv
import dataclasses
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import smemsim
from smemsim.run import LaunchConfig, RunOptions
from tools.litmus.kernel import STEP, Kernel, kernel_of
from tools.litmus.model import explore, has_race, trace
from tools.litmus.parse import Inexpressible, Litmus, holds, parse

__all__ = ["Result", "expectations", "judged", "tests_of"]

# findings about accesses that nothing orders
ORDER = {"X003", "X004", "X005", "X007", "X008", "X012"} | {f"X0{n}" for n in range(21, 30)}
TRACES = 300  # executions that are looked at for a race
MOST_BLOCKS = 20_000
MORE = range(1000, 2200)  # seeds, without the sanitizer, for outcomes that few interleavings have
ENOUGH = 4  # schedules, where these show all that there is


@dataclasses.dataclass
class Result:
    """A test in one space. `allowed` says whether the outcome it asks for may be seen (None: nobody has said),
    `in_turns` whether taking turns shows it, `reached` under which schedules it was; `races` what the model says of
    executions in turns, `found` the schedules under which the sanitizer reports something.
    """

    path: str
    kind: str
    space: str
    why_not: str = ""
    explained: str = ""  # why the expectation is another than the PTX ISA's
    allowed: bool | None = None
    ends: bool | None = None  # is it expected to end?
    can_end: bool = True  # by our own exploration
    in_turns: bool = False
    races: bool = False
    reached: list[int | str] = dataclasses.field(default_factory=list)
    strange: list[int | str] = dataclasses.field(default_factory=list)  # outcomes that turns do not show
    hung: list[int | str] = dataclasses.field(default_factory=list)
    found: list[int | str] = dataclasses.field(default_factory=list)
    codes: set[str] = dataclasses.field(default_factory=set)
    schedules: int = 0
    card: dict[str, Any] | None = None  # what a card showed (tools.litmus.card)

    @property
    def is_shown(self) -> bool:
        """Has everything been seen that can be, so that more schedules add nothing?"""
        is_found, has_ended = bool(self.found) or not self.races, bool(self.hung) or self.can_end
        return self.in_turns and bool(self.reached) and is_found and has_ended and self.races

    @property
    def always_hangs(self) -> bool:
        """Does it hang under every schedule, so that nobody uses what it has read (rule order.unused_read)?"""
        return len(self.hung) == self.schedules > 0

    @property
    def disagreements(self) -> Iterator[tuple[str, str]]:
        """(which law, in a sentence) for everything that is not as it should be."""
        if self.why_not:
            return
        if self.allowed is False and self.reached:
            yield "forbidden", f"an outcome that the model forbids is reached with --schedule {self.reached[0]}"
        yield from self._card_disagreements()
        if self.allowed is False and self.in_turns:
            yield "expectation", "taking turns shows an outcome that the expectation forbids"
        if self.in_turns and not self.reached:
            yield "reach", f"an outcome that taking turns shows is reached by none of {self.schedules} schedules"
        if (
            self.ends is not None and self.ends != self.can_end and not (self.can_end and self.races) and not self.explained
        ):  # who polls by weak loads may wait for ever
            yield "ending", f"it is expected {'' if self.ends else 'not '}to end, and taking turns says otherwise"
        if self.can_end and self.hung:
            yield "hang", f"it hangs with --schedule {self.hung[0]}, though some thread could always bring it to its end"
        if not self.can_end and not self.hung:
            yield "hang", f"it never hangs in {self.schedules} schedules, though it can"
        if self.races and not self.found and not self.always_hangs:
            yield "race", "it has a data race, and the sanitizer reports nothing"
        if self.found and not self.races:
            yield "silence", f"it has no data race, and the sanitizer finds {', '.join(sorted(self.codes))} with --schedule {self.found[0]}"

    def _card_disagreements(self) -> Iterator[tuple[str, str]]:
        card = self.card or {"error": "", "reached": 0, "hung": 0, "instances": 0}
        if card["error"]:
            yield "card", f"a card ends it with {card['error']}"
        if self.allowed is False and card["reached"]:
            yield "card", f"a card shows an outcome that the expectation forbids, {card['reached']} of {card['instances']} times"
        if self.ends and card["hung"]:
            yield "card", f"it hangs on a card, {card['hung']} of {card['instances']} times, though it is expected to end"


def expectations(checkout: pathlib.Path) -> tuple[dict[str, bool], dict[str, bool]]:
    """(does the condition of each test hold?, does it end?), as the checkout's own tests
    expect it of the newest model.
    """
    folder = checkout / "dartagnan/src/test/resources"
    tables = []
    for name in ("PTXv7_5-expected.csv", "PTXv7_5-Liveness-expected.csv"):
        path = folder / name
        rows = csv.reader(path.read_text().splitlines()) if path.exists() else []
        tables.append({row[0]: row[1].strip() == "1" for row in rows if len(row) > 1})
    return tables[0], tables[1]


def tests_of(checkout: pathlib.Path) -> list[pathlib.Path]:
    """The litmus files of a checkout."""
    return sorted((checkout / "litmus/PTX").rglob("*.litmus"))


def judged(
    path: str,
    text: str,
    space: str,
    schedules: list[int | str | None],
    holds_: bool | None = None,
    ends: bool | None = None,
    card: Any = None,
) -> Result:
    """A test, run in `space` under these schedules until all that can be seen was seen; and on a card, if there is one
    (`tools.litmus.card`).
    """
    result = Result(path, "/".join(path.split("/")[2:-1]) or "own", space, ends=ends)
    try:
        test = parse(text)
        kernel = kernel_of(test, space)
    except Inexpressible as e:
        result.why_not = str(e)
        return result
    outcomes = _expected(result, test, holds_)
    seen = {_named(test, dict(o)) for o in outcomes}
    shown = set(seen)
    gpu = smemsim.Gpu("sm_90a")
    loaded = gpu.kernel(kernel.ptx)
    for schedule in schedules:
        seed = "none" if schedule is None else schedule
        codes, left = _left(test, kernel, gpu, loaded, schedule)
        result.schedules += 1
        if codes & ORDER:
            result.found.append(seed)
            result.codes |= codes & ORDER
        if "X006" in codes:
            result.hung.append(seed)
            continue
        if holds(test.condition, left) == (test.quantifier != "forall"):
            result.reached.append(seed)
        shown.add(_named(test, left))
        if _named(test, left) not in seen:
            result.strange.append(seed)
        if result.is_shown and result.schedules > ENOUGH:
            break
    for schedule in MORE if result.in_turns and not result.reached else ():
        codes, left = _left(test, kernel, gpu, loaded, schedule, sanitize=False)
        result.schedules += 1
        if "X006" not in codes and holds(test.condition, left) == (test.quantifier != "forall"):
            result.reached.append(schedule)
            break
    if card is not None and result.can_end:
        result.card = _on_card(test, card(text, space), shown)
    return result


def _expected(result: Result, test: Litmus, holds_: bool | None) -> Any:
    """All outcomes of turns; what the model and its authors say of the test is put into the result."""
    outcomes, result.can_end = explore(test)
    if any(i.op == "bar" and len(i.values) > 2 for t in test.threads for i in t.body) and result.ends and not result.can_end:
        result.explained = "more threads than a barrier counts: here it begins anew with the next one (PTX ISA 9.1 §9.7.13.1), in the expectation it lets it pass"
    if holds_ is not None:
        result.allowed = holds_ == (test.quantifier == "exists")
    result.in_turns = any(holds(test.condition, dict(o)) == (test.quantifier != "forall") for o in outcomes)
    draw = random.Random(0)
    result.races = any(has_race(test, list(trace(test, draw))) for _ in range(TRACES))
    return outcomes


def _on_card(test: Litmus, told: dict[str, Any], shown: set[tuple[tuple[str, int], ...]]) -> dict[str, Any]:
    """What a card shows: how often, how often the outcome that the test asks for, and how many outcomes that no
    schedule and no turns show.
    """
    outcomes = told["outcomes"]
    counts: collections.Counter[tuple[tuple[str, int], ...]] = collections.Counter()
    reached = hung = 0
    for left, count in outcomes:
        if left.pop("hung"):
            hung += count
            continue
        counts[_named(test, left)] += count
        reached += count * (holds(test.condition, left) == (test.quantifier != "forall"))
    more = [[dict(outcome), count] for outcome, count in counts.items() if outcome not in shown]
    return {
        "name": told["name"],
        "error": told.get("error", ""),
        "instances": sum(count for _, count in outcomes),
        "outcomes": len(counts),
        "reached": reached,
        "hung": hung,
        "more": more,
    }


def _left(
    test: Litmus, kernel: Kernel, gpu: smemsim.Gpu, loaded: Any, schedule: int | str | None, *, sanitize: bool = True
) -> tuple[set[str], dict[str, int]]:
    """(the codes of what is found, what registers and locations end with) under a schedule."""
    words = np.zeros(max(1, STEP // 4 * len(kernel.locations)), np.uint32)
    for n, name in enumerate(kernel.locations):
        words[STEP // 4 * n] = test.memory[name] & 0xFFFFFFFF
    memory, out = gpu.array(words), gpu.zeros(max(1, len(kernel.results)), np.uint32)
    config = LaunchConfig(grid=kernel.ctas, block=kernel.threads, cluster=kernel.ctas if kernel.is_shared else None, args=[memory, out])
    run = gpu.run(loaded, config, RunOptions(schedule=schedule, progress=False, limit=MOST_BLOCKS, sanitize=sanitize))
    left = dict(zip(kernel.results, out.numpy().astype(np.int32).tolist(), strict=False))
    if not kernel.is_shared:
        left |= {name: int(memory.numpy().view(np.int32)[STEP // 4 * n]) for n, name in enumerate(kernel.locations)}
    return {f.code for f in (*run.findings, *run.remarks)}, left


def _named(test: Litmus, outcome: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """An outcome by the registers that the test assigns and by its locations."""
    names = {f"{t.name}:{i.to}" for t in test.threads for i in t.body if i.to} | set(test.memory)
    return tuple(sorted((name, (outcome.get(name, 0) + (1 << 31) & 0xFFFFFFFF) - (1 << 31)) for name in names))


def counted(results: list[Result]) -> dict[tuple[str, str], collections.Counter[str]]:
    """By class and space: how many tests there are of each kind, and how many agree."""
    table: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for r in results:
        row = table[r.kind, r.space]
        row["tests"] += 1
        if r.why_not:
            row["inexpressible"] += 1
            continue
        laws = {law for law, _ in r.disagreements}
        row["run"] += 1
        row["forbidden"] += r.allowed is False
        row["never seen"] += r.allowed is False and "forbidden" not in laws
        row["in turns"] += r.in_turns
        row["seen"] += r.in_turns and bool(r.reached)
        row["weaker"] += r.allowed is True and not r.in_turns
        row["weaker seen"] += r.allowed is True and not r.in_turns and bool(r.reached)
        row["race"] += r.races
        row["found"] += r.races and bool(r.found)
        row["no race"] += not r.races
        row["silent"] += not r.races and not r.found
        row["endings"] += not laws & {"hang", "ending"}
        row["agree"] += not laws
        row["explained"] += bool(r.explained)
    return table
