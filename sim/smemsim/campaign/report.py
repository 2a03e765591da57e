"""The ledger on disk of what a campaign has covered, and the report.

Every row has a checksum, and one more covers all chunks. A damaged ledger is refused.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.base.files import write_whole
from smemsim.base.members import OwnMembers
from smemsim.base.processes import version
from smemsim.base.terminal import in_columns
from smemsim.campaign.space import ChunkResult, Space, Trouble
from smemsim.diagnosis.covered import UNMEASURED

__all__ = ["CampaignReport", "Ledger", "SpaceReport", "file_trouble", "file_troubles", "folder_for", "report_of"]


# ---- The ledger: which chunks are done and what they gave, in one SQLite file, a transaction a chunk: nothing is lost
# or done twice after a crash


FORMAT = 2  # of the tables, kept as SQLite's user_version
_TABLES = """
CREATE TABLE campaign (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE chunk (space TEXT, number INTEGER, cases INTEGER NOT NULL, classes TEXT NOT NULL, troubles TEXT NOT NULL,
                    seconds REAL NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (space, number));
"""
_COLUMNS = "space, number, cases, classes, troubles, seconds"
_SAYS = {"version": "smemsim", "seed": "seed", "shard": "shard", "spaces": "spaces and their chunks"}
_WHOLE = "chunks"  # the campaign's row about all chunks: how many there are, and the exclusive or of their checksums


def _checksum(row: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(row).encode()).hexdigest()


class _Damaged(Exception):
    """A ledger does not hold what was written into it."""


class Ledger:
    """The finished chunks of one campaign, which `identity` names. In memory if there is no path.

    Raises InputError for a file that is not a ledger, is damaged, belongs to another campaign, or is being written.

    >>> ledger = Ledger(None, {"seed": 0})
    >>> ledger.record("keys", 3, ChunkResult(8, {"fine": 8}), 0.5)
    >>> ledger.done("keys"), ledger.chunks("keys")[3].classes
    ({3}, {'fine': 8})
    """

    def __init__(self, path: pathlib.Path | None, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._whole = [0, 0]  # chunks, and the exclusive or of their checksums
        begun: dict[str, Any] = {}
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, timeout=0.5, isolation_level=None)
        except sqlite3.Error as e:
            raise InputError(f"ledger {path}: cannot be opened: {e}") from None
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # given back when the process ends, however it ends
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                begun = self._begun() if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] else {}
                if not begun:
                    self._begin(identity)
        except sqlite3.OperationalError as e:
            self.close()
            if "locked" in str(e):
                raise InputError(f"ledger {path}: another campaign is writing it; wait for it, or name another file") from None
            raise InputError(f"ledger {path}: cannot be opened: {e}") from None
        except (sqlite3.Error, _Damaged, ValueError, TypeError) as e:
            self.close()
            raise InputError(
                f"ledger {path}: not a ledger of smemsim campaign, or damaged ({e}); name another file, or restore it"
            ) from None
        for name, value in identity.items():
            as_json = json.loads(json.dumps(value))
            if begun and begun.get(name) != as_json:
                self.close()
                what = _SAYS.get(name, name)
                raise InputError(
                    f"ledger {path}: begun with {what} {_short(begun.get(name))}, asked for now is {_short(as_json)}; name another file, or ask for the same"
                )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction of the database: all of it is written, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _begin(self, identity: Mapping[str, Any]) -> None:
        """A new ledger."""
        for statement in _TABLES.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")
        for name, value in {**identity, _WHOLE: self._whole}.items():
            self._set(name, value)

    def _begun(self) -> dict[str, Any]:
        """The begin of a campaign from its rows. _Damaged if the rows, or any chunk, are not what was written."""
        if self._db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            raise _Damaged("its tables are those of another version")
        if (said := self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise _Damaged(shown(said)[1:-1])
        chunks = {}
        for name, value, checksum in self._db.execute("SELECT name, value, checksum FROM campaign"):
            if checksum != _checksum((name, value)):
                raise _Damaged(f"the checksum of {shown(name)} is another one")
            chunks[name] = json.loads(value)
        for *row, checksum in self._db.execute(f"SELECT {_COLUMNS}, checksum FROM chunk"):
            if checksum != _checksum(tuple(row)):
                raise _Damaged(f"the checksum of chunk {shown(row[1])} of {shown(row[0])} is another one")
            self._count(checksum)
        if chunks.get(_WHOLE) != self._whole:
            raise _Damaged("chunks are missing, or there are too many")
        return chunks

    def _count(self, checksum: str) -> None:
        """One more chunk in the sum of all: 52 bits of its checksum, which any reader of JSON can hold."""
        self._whole = [self._whole[0] + 1, self._whole[1] ^ int(checksum[:13], 16)]

    def _set(self, name: str, value: Any) -> None:
        text = json.dumps(value)
        self._db.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?, ?)", (name, text, _checksum((name, text))))

    def record(self, space: str, number: int, result: ChunkResult, seconds: float, elapsed: float = 0.0) -> None:
        """One more chunk is done, for good once this returns; `elapsed` is added to what the campaign took. InputError
        for a disk that is full.
        """
        troubles = [{"what": t.what, "case": dict(t.case), "reproduce": t.reproduce} for t in result.troubles]
        row = (space, number, result.cases, json.dumps(dict(result.classes)), json.dumps(troubles, default=str), float(seconds))
        checksum, before = _checksum(row), self._whole
        try:
            with self._transaction():
                if self._db.execute("INSERT OR IGNORE INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, checksum)).rowcount:
                    self._count(checksum)
                self._set(_WHOLE, self._whole)
                self._set("elapsed", self.elapsed + elapsed)
        except sqlite3.Error as e:
            self._whole = before
            raise InputError(
                f"ledger {self.path}: cannot be written: {e}; all chunks that it has are kept, the same call goes on with them"
            ) from None

    @property
    def elapsed(self) -> float:
        """Seconds that the campaign took so far, of all its runs together."""
        row = self._db.execute("SELECT value FROM campaign WHERE name = 'elapsed'").fetchone()
        return float(json.loads(row[0])) if row else 0.0

    def done(self, space: str) -> set[int]:
        """The chunks of a space that are done."""
        return {number for (number,) in self._db.execute("SELECT number FROM chunk WHERE space = ?", (space,))}

    def chunks(self, space: str) -> dict[int, ChunkResult]:
        """The results of the chunks of a space, in their order."""
        rows = self._db.execute("SELECT number, cases, classes, troubles FROM chunk WHERE space = ? ORDER BY number", (space,))
        return {
            number: ChunkResult(cases, json.loads(classes), tuple(Trouble(**t) for t in json.loads(troubles)))
            for number, cases, classes, troubles in rows
        }

    def close(self) -> None:
        """Give the file back."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (dict, list)) else str(value)
    return text if len(text) <= 120 else text[:119] + "…"


# ---- What a campaign covered, class by class, and what was wrong: from the ledger alone


MOST_LINES, MOST_TROUBLES = 24, 20  # classes of a space, and troubles, that the text has; JSON has all


@dataclasses.dataclass(frozen=True)
class SpaceReport:
    """One space: cases and chunks done, `of_chunks` that there are (None: drawn for ever), cases by class, troubles in
    the order of their chunks.
    """

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
class CampaignReport(metaclass=OwnMembers):
    """A campaign: its spaces, seed, shard (number, of how many), version, the seconds that all its runs took, and
    whether this one was broken off.

    >>> from smemsim import CampaignReport
    >>> report = CampaignReport((), seed=0, shard=(1, 1), elapsed=0.0)      # as of `sweep` before its first chunk
    >>> report.cases, report.troubles, report.ok
    (0, (), True)
    """

    spaces: tuple[SpaceReport, ...]
    seed: int
    shard: tuple[int, int]
    elapsed: float
    version: str = dataclasses.field(default_factory=version)
    interrupted: bool = False

    @property
    def cases(self) -> int:
        """The number of cases in all spaces."""
        return sum(s.cases for s in self.spaces)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """The troubles of all spaces."""
        return tuple(t for s in self.spaces for t in s.troubles)

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.troubles

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """A table with the classes of each space. Then the disagreements, with the command that repeats each."""
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
        if (more := len(self.troubles) - MOST_TROUBLES) > 0:
            lines.append(f"and {more} more troubles")
        lines += in_columns(f"rules for sm_100a and sm_103a are {UNMEASURED}: nothing is measured on Blackwell").split("\n")
        shard = "" if self.shard == (1, 1) else f", shard {self.shard[0]}/{self.shard[1]}"
        lines.append(f"smemsim {self.version}, seed {self.seed}{shard}{'; broken off' if self.interrupted else ''}")
        troubles = f"{len(self.troubles) or 'no'} trouble{'s' if len(self.troubles) != 1 else ''}"
        lines.append(f"{self.cases:,} cases, {troubles if self.cases else 'nothing was tested'}")
        lines.append(f"{self.elapsed:,.1f} s, {self.cases / max(self.elapsed, 1e-9):,.0f} cases a second")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The report as a dictionary for JSON."""
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
    rows = []
    for s in spaces:
        chunks, classes = ledger.chunks(s.name), collections.Counter[str]()
        for chunk in chunks.values():
            classes.update(chunk.classes)
        troubles = tuple(t for chunk in chunks.values() for t in chunk.troubles)
        cases = sum(chunk.cases for chunk in chunks.values())
        rows.append(SpaceReport(s.name, s.says, cases, len(chunks), s.chunks, dict(sorted(classes.items())), troubles))
    return CampaignReport(tuple(rows), seed, shard, ledger.elapsed, interrupted=interrupted)


def file_troubles(folder: pathlib.Path, space: str, troubles: tuple[Trouble, ...]) -> None:
    """A JSON file for each trouble of a space, named after the command that shows it again; of an oracle's, after what
    the case is.
    """
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
        with tempfile.TemporaryFile(dir=folder):  # before hours of work
            pass
    except OSError as e:
        raise InputError(f"out = {folder}: nothing can be written there: {e.strerror or e}") from None
    return folder
