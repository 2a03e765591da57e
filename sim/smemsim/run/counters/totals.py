"""The cost of a launch as a whole: matrix instructions by type and shape, bytes by kind of copy, and the CTAs that a
multiprocessor holds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from smemsim.core.ptx.module import Instruction
from smemsim.core.spec.occupancy import CtaFit
from smemsim.core.spec.tensor_memory import COLUMNS

__all__ = ["COPIES", "OTHERS", "MatrixCount", "Residence", "copy_kind", "matrix_words"]

_SHAPE = re.compile(r"m\d+n\d+k\d+")
_TYPE = re.compile(r"(?:bf|tf|ue|[bfsue])\d+(?:m\d+)?")
# Kinds of copies, by words of the instruction's name; the first that fits.
COPIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("TMA reductions", ("cp.reduce.async.bulk.tensor",)),
    ("TMA stores", ("cp.async.bulk.tensor", ".global.shared::cta")),
    ("TMA loads", ("cp.async.bulk.tensor",)),
    ("bulk reductions", ("cp.reduce.async.bulk",)),
    ("bulk copies", ("cp.async.bulk",)),
    ("cp.async", ("cp.async",)),
    ("st.async", ("st.async",)),
    ("red.async", ("red.async",)),
)
OTHERS = "other CTAs' shared memory"


class MatrixCount(NamedTuple):
    """Matrix instructions of one form: `shape` as m64n128k16, `types` of D, A and B (mma.sync: and C), how many
    there were, and their operations. A sparse product has the operations of the dense one of its shape.
    """

    instruction: str
    shape: str
    types: str
    executed: int
    flop: int


class Residence(NamedTuple):
    """The CTAs of a launch that a multiprocessor of the card holds at once.

    By resource they are `fit`. Registers of a thread are known if the kernel has `.maxnreg` (None: ptxas chooses them).
    With at most `most_registers` as many CTAs fit as the other resources allow. The card holds `clusters` clusters
    (None: no clusters). The most columns of tensor memory that a CTA has allocated at once are `tensor_columns`.
    """

    card: str
    threads: int
    shared_bytes: int
    registers: int | None
    most_registers: int
    fit: CtaFit
    cluster_size: int
    clusters: int | None
    tensor_columns: int

    @property
    def ctas(self) -> int:
        """CTAs that a multiprocessor holds at once; at most so many if ptxas chooses the registers."""
        return self.fit.most

    def text(self) -> str:
        """Two lines at most: CTAs, what limits them, registers; tensor memory."""
        many = "s" * (self.ctas != 1)
        at_most = "at most " if self.registers is None and self.ctas else ""
        found = f"occupancy: {at_most}{self.ctas} CTA{many} of {self.threads} threads and {self.shared_bytes:,} bytes of shared memory on a multiprocessor ({self.card}), limited by {' and '.join(self.fit.limits)}"
        if self.clusters is not None:
            found += f"; {self.clusters} cluster{'s' * (self.clusters != 1)} of {self.cluster_size} on the card"
        if self.registers is not None:
            found += f"; {self.registers} registers a thread"
        elif self.ctas:
            found += f"; so many fit if ptxas gives a thread at most {self.most_registers} registers"
        if self.tensor_columns:
            fits = COLUMNS // self.tensor_columns
            found += f"\ntensor memory: a CTA allocates at most {self.tensor_columns} of {COLUMNS} columns at once; {fits} such CTA{'s' * (fits != 1)} fit{'s' * (fits == 1)} on a multiprocessor"
        return found

    def as_dict(self) -> dict[str, object]:
        """The same for JSON."""
        return {
            "card": self.card, "threads": self.threads, "shared_bytes": self.shared_bytes, "registers": self.registers, "most_registers": self.most_registers,
            "ctas": self.ctas, "limits": list(self.fit.limits), "fit": self.fit._asdict(), "cluster_size": self.cluster_size, "clusters": self.clusters,
            "tensor_columns": self.tensor_columns,
        }  # fmt: skip


def copy_kind(name: str) -> str:
    """The kind of an asynchronous copy, by the instruction's name; "" for other instructions.

    >>> copy_kind("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"), copy_kind("cp.async.cg.shared.global")
    ('TMA loads', 'cp.async')
    """
    return next((kind for kind, words in COPIES if name.startswith(words[0]) and all(word in name for word in words[1:])), "")


def matrix_words(i: Instruction) -> tuple[str, str, str]:
    """Instruction, shape and types of a wgmma, mma or wmma, as its name has them."""
    shape = next(word for word in i.modifiers if _SHAPE.fullmatch(word))
    types = ".".join(word for word in i.modifiers if _TYPE.fullmatch(word))
    is_sparse = any(word == "sp" or word.startswith("sp::") for word in i.modifiers)
    return i.op + ".sp" * is_sparse, shape, types
