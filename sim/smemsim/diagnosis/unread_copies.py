"""R510 for a launch: bytes that copies bring to shared memory, and that no thread of any CTA reads."""

from __future__ import annotations

import numpy as np

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.run.engine.launch import Launch

__all__ = ["unread_copies"]

FEWEST = 64  # words: two rows of a tile of 16-bit elements and 64 k
WORD = 4
PART = 4  # 1 / PART of the words of an instruction: corners of a halo are fewer


def unread_copies(launch: Launch) -> list[Finding]:
    """At most one remark, for the first instruction of which a large part of the copied words is never read. The whole
    grid must have run.
    """
    facts = launch.result.copied_words
    if facts.ctas != launch.ctas or not facts.read.any():
        return []
    unread = (facts.sites != 0) & ~facts.read
    for site in np.unique(facts.sites[unread]).tolist():
        words = np.flatnonzero(unread & (facts.sites == site))
        i = launch.program.sites.get(site)
        if i is None or len(words) < max(FEWEST, int((facts.sites == site).sum()) // PART):
            continue
        begin, end = (facts.begin + int(words[n]) * WORD for n in (0, -1))
        return [
            at_instruction(
                "R510",
                i,
                f"{len(words) * WORD:,} bytes that this instruction copies to shared memory ({begin:#x} to {end + WORD - 1:#x}) are never read",
                "check the addresses of the loads from shared memory: the row offset of each warp, the stage; or copy less",
                why="no thread of any CTA reads them, although threads read other copied bytes",
                milder=Severity.NOTE,
            )
        ]
    return []
