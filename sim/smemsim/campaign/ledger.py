"""The ledger: which chunks are done and what they gave, in one SQLite file, a transaction a chunk: nothing is lost or done twice after a crash.

Every row carries a checksum, and one more is that of all chunks together: a ledger that something has damaged is refused, whatever it says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from smemsim.arguments import shown
from smemsim.campaign.space import ChunkResult, Trouble
from smemsim.errors import InputError

__all__ = ["Ledger"]

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
    """What a ledger says is not what was written into it."""


class Ledger:
    """The chunks that are done of one campaign; `identity` says which. In memory without a path.

    Raises InputError for a file that is no ledger, that something has damaged, that another campaign has begun, or that one is writing at this moment.

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
            told = json.loads(json.dumps(value))
            if begun and begun.get(name) != told:
                self.close()
                what = _SAYS.get(name, name)
                raise InputError(
                    f"ledger {path}: begun with {what} {_short(begun.get(name))}, asked for now is {_short(told)}; name another file, or ask for the same"
                )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it, or nothing."""
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
        """What the campaign's rows say. _Damaged where that, or any chunk, is not what was written."""
        if self._db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            raise _Damaged("its tables are those of another version")
        if (said := self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise _Damaged(shown(said)[1:-1])
        found = {}
        for name, value, checksum in self._db.execute("SELECT name, value, checksum FROM campaign"):
            if checksum != _checksum((name, value)):
                raise _Damaged(f"the checksum of {shown(name)} is another one")
            found[name] = json.loads(value)
        for *row, checksum in self._db.execute(f"SELECT {_COLUMNS}, checksum FROM chunk"):
            if checksum != _checksum(tuple(row)):
                raise _Damaged(f"the checksum of chunk {shown(row[1])} of {shown(row[0])} is another one")
            self._count(checksum)
        if found.get(_WHOLE) != self._whole:
            raise _Damaged("chunks are missing, or there are too many")
        return found

    def _count(self, checksum: str) -> None:
        """One more chunk in the sum of all: 52 bits of its checksum, which any reader of JSON can hold."""
        self._whole = [self._whole[0] + 1, self._whole[1] ^ int(checksum[:13], 16)]

    def _set(self, name: str, value: Any) -> None:
        text = json.dumps(value)
        self._db.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?, ?)", (name, text, _checksum((name, text))))

    def record(self, space: str, number: int, result: ChunkResult, seconds: float, elapsed: float = 0.0) -> None:
        """One more chunk is done, for good once this returns; `elapsed` is added to what the campaign took. InputError for a disk that is full."""
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
        """What the chunks of a space gave, in their order."""
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
