"""All rows, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterable

from tools.speeds.addresses import ROWS_OF_ADDRESSES
from tools.speeds.arithmetic import ROWS_OF_ARITHMETIC
from tools.speeds.doors import ROWS_OF_DOORS
from tools.speeds.grids import ROWS_OF_GRIDS
from tools.speeds.launches import ROWS_OF_LAUNCHES
from tools.speeds.peers import ROWS_OF_PEERS
from tools.speeds.programs import ROWS_OF_PROGRAMS
from tools.speeds.questions import ROWS_OF_QUESTIONS
from tools.speeds.race import Row
from tools.speeds.starts import ROWS_OF_STARTS
from tools.speeds.sweeps import ROWS_OF_SWEEPS
from tools.speeds.transfers import ROWS_OF_TRANSFERS

GROUPS = ("addresses", "tensor maps", "TMA", "MMA", "run", "explain", "check", "plan", "solve", "campaign", "commands")
EVERY = (
    *ROWS_OF_ADDRESSES,
    *ROWS_OF_TRANSFERS,
    *ROWS_OF_ARITHMETIC,
    *ROWS_OF_PEERS,
    *ROWS_OF_QUESTIONS,
    *ROWS_OF_SWEEPS,
    *ROWS_OF_LAUNCHES,
    *ROWS_OF_PROGRAMS,
    *ROWS_OF_STARTS,
    *ROWS_OF_DOORS,
    *ROWS_OF_GRIDS,
)
ROWS = tuple(sorted(EVERY, key=lambda row: GROUPS.index(row.group)))


def chosen(words: Iterable[str]) -> list[Row]:
    """Rows that have one of the words, in upper or lower case; all where none is given."""
    wanted = [word.lower() for word in words]
    return [row for row in ROWS if not wanted or any(word in f"{row.group} {row.what} {row.against}".lower() for word in wanted)]
