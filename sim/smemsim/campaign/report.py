"""What a campaign covered, class by class, and what was wrong: from the ledger alone."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

from smemsim.campaign.ledger import Ledger
from smemsim.campaign.space import Space, Trouble
from smemsim.errors import InputError
from smemsim.files import write_whole
from smemsim.processes import version

__all__ = ["CampaignReport", "SpaceReport", "file_trouble", "file_troubles", "folder_for", "report_of"]

MOST_LINES, MOST_TROUBLES = 24, 20  # classes of a space, and troubles, that the text has; JSON has all


@dataclasses.dataclass(frozen=True)
class SpaceReport:
    """One space: cases and chunks done, `of_chunks` that there are (None: drawn for ever), cases by class, troubles in the order of their chunks."""

    name: str
    says: str
    cases: int
    chunks: int
    of_chunks: int | None
    classes: dict[str, int]
    troubles: tuple[Trouble, ...]

    @property
    def is_whole(self) -> bool:
        """Was every case there is looked at?"""
        return self.chunks == self.of_chunks


@dataclasses.dataclass(frozen=True)
class CampaignReport:
    """A campaign: its spaces, seed, shard (number, of how many), version, the seconds that all its runs took, and whether this one was broken off."""

    spaces: tuple[SpaceReport, ...]
    seed: int
    shard: tuple[int, int]
    elapsed: float
    version: str = dataclasses.field(default_factory=version)
    interrupted: bool = False

    @property
    def cases(self) -> int:
        """Cases of all spaces."""
        return sum(s.cases for s in self.spaces)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Troubles of all spaces."""
        return tuple(t for s in self.spaces for t in s.troubles)

    @property
    def ok(self) -> bool:
        """Was nothing wrong?"""
        return not self.troubles

    def text(self) -> str:
        """For people: a table of each space's classes, then the troubles with the command that shows each again."""
        lines: list[str] = []
        for s in self.spaces:
            of = "" if s.of_chunks is None else f" of {s.of_chunks:,}"
            chunks = (
                f"all {s.chunks:,} chunks there are" if s.is_whole else f"{s.chunks:,}{of} chunk{'' if s.chunks == 1 and not of else 's'}"
            )
            lines.append(f"{s.name}: {s.says}")
            lines.append(f"  {s.cases:,} cases in {chunks}")
            ordered = sorted(s.classes.items(), key=lambda one: ("wrong" not in one[0], -one[1], one[0]))
            for name, count in ordered[:MOST_LINES]:
                lines.append(f"  {count / max(s.cases, 1):8.3%} {count:>15,}  {name}")
            if rest := ordered[MOST_LINES:]:
                count = sum(n for _, n in rest)
                lines.append(f"  {count / max(s.cases, 1):8.3%} {count:>15,}  {len(rest)} smaller classes (--json has them)")
        for t in self.troubles[:MOST_TROUBLES]:
            lines += [f"trouble: {t.what}", f"  {t.reproduce}"]
        if more := len(self.troubles) - MOST_TROUBLES:
            lines += [f"and {more} more troubles"] if more > 0 else []
        lines.append("what is said of sm_100a and sm_103a is documented, compiled or inferred: nothing is measured on Blackwell")
        shard = "" if self.shard == (1, 1) else f", shard {self.shard[0]}/{self.shard[1]}"
        lines.append(f"smemsim {self.version}, seed {self.seed}{shard}{'; broken off' if self.interrupted else ''}")
        lines.append(f"{self.cases:,} cases, {len(self.troubles) or 'no'} trouble{'s' if len(self.troubles) != 1 else ''}")
        lines.append(f"{self.elapsed:,.1f} s, {self.cases / max(self.elapsed, 1e-9):,.0f} cases a second")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "ok": self.ok,
            "version": self.version,
            "seed": self.seed,
            "shard": list(self.shard),
            "interrupted": self.interrupted,
            "cases": self.cases,
            "spaces": [
                {**dataclasses.asdict(s), "whole": s.is_whole, "troubles": [dataclasses.asdict(t) for t in s.troubles]} for s in self.spaces
            ],
            "elapsed_s": round(self.elapsed, 3),
            "cases_per_s": round(self.cases / max(self.elapsed, 1e-9), 1),
        }


def report_of(ledger: Ledger, spaces: list[Space], *, seed: int, shard: tuple[int, int], interrupted: bool = False) -> CampaignReport:
    """The report of what is in a ledger."""
    found = []
    for s in spaces:
        chunks, classes = ledger.chunks(s.name), collections.Counter[str]()
        for one in chunks.values():
            classes.update(one.classes)
        troubles = tuple(t for one in chunks.values() for t in one.troubles)
        cases = sum(one.cases for one in chunks.values())
        found.append(SpaceReport(s.name, s.says, cases, len(chunks), s.chunks, dict(sorted(classes.items())), troubles))
    return CampaignReport(tuple(found), seed, shard, ledger.elapsed, interrupted=interrupted)


def file_troubles(folder: pathlib.Path, space: str, troubles: tuple[Trouble, ...]) -> None:
    """A JSON file for each trouble of a space, named after the command that shows it again; of an oracle's, after what the case is."""
    for t in troubles:
        place = t.reproduce.split()[-1]
        digest = hashlib.sha256(json.dumps(dict(t.case), sort_keys=True, default=str).encode()).hexdigest()[:12]
        file_trouble(folder, place.replace(":", "-") if place.startswith(f"{space}:") else f"{space}-{digest}", t)


def file_trouble(folder: pathlib.Path, name: str, trouble: Trouble) -> pathlib.Path:
    """Write NAME.json: what is wrong, the case, the command that shows it again, the version of smemsim."""
    text = json.dumps({**dataclasses.asdict(trouble), "version": version()}, indent=1, default=str)
    path = folder / f"{name}.json"
    write_whole(path, text + "\n")
    return path


def folder_for(out: str | os.PathLike[str]) -> pathlib.Path:
    """The folder for troubles, made where there is none. InputError where it cannot be made."""
    folder = pathlib.Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"out = {folder}: no folder can be made there: {e.strerror or e}") from None
    return folder
