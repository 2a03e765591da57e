"""Are rows and K of mma.sync multiplied with their own scale factors and metadata?

The rules are those of `scaled.py`. Only the place of the factors differs: registers of threads, named by thread-id and
byte-id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smemsim.core.finding import Finding, at_instruction
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.operands.fragments import FragmentFactors, Unselected
from smemsim.diagnosis.operands.orders import exchanged
from smemsim.diagnosis.operands.scaled import SCALES, SIDES, AllFactors, InRows, among, named, of_metadata, other_threads, union

if TYPE_CHECKING:
    from smemsim.diagnosis.operands.factors import Use
    from smemsim.run.engine.launch import Launch

__all__ = ["wrong_fragments"]

COLUMNS = 8  # of B, which one instruction has
SECTION = "PTX ISA 9.1 §9.7.14.3"


def wrong_fragments(factors: FragmentFactors, launch: Launch) -> list[Finding]:
    """S702 and R508 of a launch that has come to its end: at most one of each operand. None if only some of its factors
    were kept: others may be what seems to be unused.
    """
    factors.finish()
    if not factors.is_whole:
        return []
    metadata = of_metadata(factors, factors.registers, launch) or other_threads(factors)
    every = _Fragments(factors, factors.uses, launch, SCALES)
    unselected = [_not_selected(every, side, one) for (_, side), one in factors.unselected.items()]
    found = [f for f in unselected if f is not None][:1] or every.worst(*SIDES)
    return [*found, *metadata] or every.crossed()


class _Fragments(AllFactors):
    """All scale factors of a launch's mma.sync."""

    group = COLUMNS

    @property
    def _looks(self) -> tuple[Callable[[InRows], Finding | None], ...]:
        return self._in_tile, self._in_order_of_rows, self._across, self._of_other, self._along_k, self._along_rows

    # ---- rows of one instruction

    def _in_order_of_rows(self, x: InRows) -> Finding | None:
        """R508 where rows have factors that lie as far apart as neighbours, in another order than the rows."""
        for use, at in zip(x.uses, x.at, strict=True):
            if len(at) % COLUMNS or (at < 0).any() or not self.is_data(at):
                continue
            order = _other_order(at)
            if order is None:
                continue
            lanes = (
                "row g in lane 4 g + 2 thread-id-a, row g + 8 in the next lane"
                if x.rows.side == "a"
                else "column g in lane 4 g + thread-id-b"
            )
            return self._exchanged(x, use, order[:-1], f"load the scale factors of {lanes} ({SECTION})", is_certain=order[-1])
        return None

    def _of_other(self, x: InRows) -> Finding | None:
        """R508 where some rows have factors that the other operand's rows have."""
        other = self.used["b" if x.rows.side == "a" else "a"]
        if x.rows.tensor in {rows.tensor for rows in self.rows if rows.side != x.rows.side}:
            return None
        if among(self.used[x.rows.side], other).all():  # both may have one array
            return None
        for use, at in zip(x.uses, x.at, strict=True):
            shared = among(at, other) & (at >= 0)
            if not shared.any() or not self.is_data(at[shared]):
                continue
            a, b = x.rows.side.upper(), "B" if x.rows.side == "a" else "A"
            return at_instruction(
                "R508", use.event.instruction,
                f"{int(shared.sum())} of {len(at)} rows of {a}, the first one row {x.rows.first + int(np.argmax(shared))}, get scale factors that rows of {b} get",
                f"load the scale factors of {a} into the register that the instruction takes for {a}", arrays=self._arrays(use),
            )  # fmt: skip
        return None

    # ---- along k

    def _beside_idle(self, x: InRows, row: int, now: tuple[int, int], *, is_block: bool) -> Finding | None:
        """S702 where bytes of the same registers as the factors of two k are never used; a remark if they may be those
        of other k or other operands.
        """
        of_rows, (n, before) = x.at[:, row : row + self.group], now
        idle = self._beside_in_registers([x.uses[before], x.uses[n]], row)
        missing = of_rows.size - len(union([of_rows]))
        if (
            not len(idle)
            or not self.is_data(of_rows)
            or not self._is_like(idle, of_rows)
            or len(idle) * len(set(of_rows[:, 0].tolist())) < missing
        ):
            return None
        return self._same_byte(x, n, before, len(idle), is_block=is_block)

    def _beside_in_registers(self, uses: Sequence[Use], row: int) -> np.ndarray:
        """The bytes in the registers with the factors of 8 rows that no product uses; none if each register has one
        value.
        """
        held = [use.beside[row : row + self.group] for use in uses if use.beside is not None]
        if all((values == values[:, :1]).all() for values in map(self.values, held)):
            return np.zeros(0, np.int64)
        every = union(held)
        found: np.ndarray = every[~among(every, self.every)]
        return found

    def _same_byte(self, x: InRows, n: int, before: int, idle: int, *, is_block: bool) -> Finding:
        """S702; a remark if the bytes beside the factors may be those of k that this launch leaves out, or of other
        operands with a factor for several successive k.
        """
        use, side, end = x.uses[n], x.rows.side.upper(), x.k[-1] + x.uses[-1].elements
        has_more = use.size[1] > end
        unless = (
            f", unless they are those of k = {end} on" if has_more else ", unless a factor is meant for all of these k" if is_block else ""
        )
        return at_instruction(
            "S702", use.event.instruction,
            f"{named(x.rows)} are multiplied at k = {x.k[n]} with the scale factors of k = {x.k[before]}",
            f"a byte-id of {side} that advances with k, or other threads by its thread-id ({SECTION})", milder=Severity.NOTE if unless else None,
            why=f"{idle} bytes beside them in the same registers are never used" + unless, arrays=self._arrays(use),
        )  # fmt: skip

    def _repair_of_k(self, use: Use) -> str:
        return "load the scale factors of each k, and name their threads and bytes by thread-id and byte-id"

    def _repair_of_order(self) -> str:
        return f"byte-id and thread-id that advance with k; the low byte is the lowest k ({SECTION})"


def _not_selected(every: _Fragments, side: str, one: Unselected) -> Finding | None:
    """S702 where the selected threads' registers hold a number, and those of others loaded
    factors that are never used.
    """
    if among(one.at, every.every).any() or not every.is_data(one.at):
        return None
    lanes = " and ".join(map(str, one.threads))
    return at_instruction(
        "S702", one.event.instruction,
        f"the scale factors of {side.upper()} are taken from lane{'s' * (len(one.threads) > 1)} {lanes} of each four, whose registers hold one number",
        f"the thread-id of the lanes that have loaded the scale factors ({SECTION})", why=f"the {len(one.at)} bytes that other lanes have loaded are never used",
        arrays=(int(one.at[0]),), kind=side,
    )  # fmt: skip


def _other_order(at: np.ndarray) -> tuple[str, np.ndarray, int, bool] | None:
    """`exchanged` for 8 or 16 rows, and whether no array is made in that order."""
    found = exchanged(at)
    if found is None or found[0]:
        return found and (*found, True)
    rows, half = np.arange(len(at)), len(at) // 2
    if len(at) <= COLUMNS or not np.array_equal(found[1], 2 * (rows % half) + rows // half):
        return None
    return "so that rows g and g + 8 get those of rows 2 g and 2 g + 1", *found[1:], False
