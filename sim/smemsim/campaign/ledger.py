"""The ledger: which chunks are done and what they gave, in one SQLite file, a transaction a chunk: nothing is lost or done twice after a crash."""

from __future__ import annotations

import functools
import json
import pathlib
import sqlite3
from collections.abc import Mapping
from typing import Any

from smemsim.campaign.space import ChunkResult, Trouble
from smemsim.errors import InputError

__all__ = ["Ledger"]

_TABLES = """
CREATE TABLE IF NOT EXISTS campaign (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chunk (space TEXT, number INTEGER, cases INTEGER NOT NULL, classes TEXT NOT NULL, troubles TEXT NOT NULL,
                                  seconds REAL NOT NULL, PRIMARY KEY (space, number));
"""
_SAYS = {"version": "smemsim", "seed": "seed", "shard": "shard", "spaces": "spaces and their chunks"}


@functools.cache
class Ledger:
    """The chunks that are done of one campaign; `identity` says which. In memory without a path.

    Raises InputError for a file that is no ledger, that another campaign has begun, or that one is writing at this moment.

    >>> ledger = Ledger(None, {"seed": 0})
    >>> ledger.record("keys", 3, ChunkResult(8, {"fine": 8}), 0.5)
    >>> ledger.done("keys"), ledger.chunks("keys")[3].classes
    ({3}, {'fine': 8})
    """

    def __init__(self, path: pathlib.Path | None, identity: Mapping[str, Any]) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, timeout=0.5, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # given back when the process ends, however it ends
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            begun = {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM campaign")}
            if not begun:
                for name, value in identity.items():
                    self._set(name, value)
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as e:
            if "locked" in str(e):
                raise InputError(f"ledger {path}: another campaign is writing it; wait for it, or name another file") from None
            raise InputError(f"ledger {path}: cannot be opened: {e}") from None
        except (sqlite3.DatabaseError, json.JSONDecodeError) as e:
            raise InputError(f"ledger {path}: not a ledger of smemsim campaign: {e}") from None
        for name, value in identity.items():
            told = json.loads(json.dumps(value))
            if begun and begun.get(name) != told:
                self.close()
                what = _SAYS.get(name, name)
                raise InputError(
                    f"ledger {path}: begun with {what} {_short(begun.get(name))}, asked for now is {_short(told)}; name another file, or ask for the same"
                )

    def _set(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (name, json.dumps(value)))

    def record(self, space: str, number: int, result: ChunkResult, seconds: float, elapsed: float = 0.0) -> None:
        """One more chunk is done, for good once this returns; `elapsed` is added to what the campaign took."""
        troubles = [{"what": t.what, "case": dict(t.case), "reproduce": t.reproduce} for t in result.troubles]
        row = (space, number, result.cases, json.dumps(dict(result.classes)), json.dumps(troubles, default=str), seconds)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT OR IGNORE INTO chunk VALUES (?, ?, ?, ?, ?, ?)", row)
        self._set("elapsed", self.elapsed + elapsed)
        self._db.execute("COMMIT")

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
        self._db.close()


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (dict, list)) else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
