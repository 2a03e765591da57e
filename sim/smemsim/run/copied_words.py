"""The words of shared memory that copies have brought, and whether anything has read them."""

from __future__ import annotations

import numpy as np

__all__ = ["CopiedWords"]


class CopiedWords:
    """The words of shared memory that copies have brought, from the begin of a CTA's window on, and whether any CTA
    has read them. The CTAs that have ended are counted in `ctas`.

    A word has the site of the instruction that copied it last, in `sites`; 0 if its 16 bytes are zeros, or something
    else wrote it. The flags `read` say whether anything has read the word.
    """

    def __init__(self, begin: int = 0, sites: np.ndarray | None = None, read: np.ndarray | None = None, ctas: int = 0) -> None:
        self.begin, self.ctas = begin, ctas  # the address of the window
        self.sites = np.zeros(0, np.int32) if sites is None else sites
        self.read = np.zeros(0, bool) if read is None else read

    def merge(self, other: CopiedWords) -> None:
        """Add what other CTAs have copied and read."""
        if not self.ctas:
            self.begin, self.sites, self.read = other.begin, other.sites, other.read
        elif other.ctas:
            self.sites, self.read = np.maximum(self.sites, other.sites), self.read | other.read
        self.ctas += other.ctas
