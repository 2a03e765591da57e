"""The result of a check: findings with their numbers, the most upstream one first."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smemsim.base.errors import InputError
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.base.terminal import in_columns
from smemsim.core.finding import Finding, Half, Path
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.grades import Grade
from smemsim.diagnosis.covered import UNMEASURED
from smemsim.diagnosis.scenario_machine import Machine

if TYPE_CHECKING:
    from smemsim.core.picture.model import Entry, Page, Picture
    from smemsim.diagnosis.filled import Filling
    from smemsim.diagnosis.tile import TilePicture

__all__ = ["Report", "cause_of", "fitting", "share_of", "share_rows", "target_of"]


def share_rows(wrong: int, of: int, what: str, first: str = "", shape: Sequence[str] = ()) -> tuple[Half, ...]:
    """The number of wrong elements of an operand, the first one, and their common pattern, as rows of a message.

    >>> [row.text for row in share_rows(3, 8, "bytes", "byte 5 is 0")]
    ['3 of 8 bytes (37.5%)', 'byte 5 is 0']
    """
    return (
        Half("wrong", f"{wrong} of {of} {what} ({wrong / of:.1%})"),
        *([Half("first", first)] if first else []),
        *(Half("seen", text) for text in shape),
    )


def share_of(wrong: int, of: int, what: str) -> str:
    """The share of wrong elements as a sentence, with which findings begin.

    >>> share_of(3, 8, "bytes")
    '3 of 8 bytes wrong (37.5%)'
    """
    return f"{wrong} of {of} {what} wrong ({wrong / of:.1%})"


CARD = "You have a card? smemsim capture measures these rules in ten minutes (docs/howto/your-card.md)."
NOTHING = (
    "the scenario has no [[step]], no [map.NAME] and no layout of a [buffer.NAME]; steps are what loads (tma_load) and what reads (mma)"
)


@in_default_state
@dataclasses.dataclass(frozen=True)
class Report(metaclass=OwnMembers):
    """The result of `check` for a scenario.

    - Findings: `findings`, the first cause first. The codes that the scenario says it should give are `expected`, or
      None.
    - Remarks: `remarks`, what needs no change, for example unused fields, unread transfers, shared banks.
    - Unchecked parts: `unchecked`.
    - Memory: `machine`, shared memory after the steps, and what every operand read.
    - Empty scenario: `is_empty` is True if it has no steps, maps or layout. Then nothing was checked.

    >>> import smemsim
    >>> report = smemsim.check({"arch": "sm_90a"})
    >>> report.findings, report.is_empty
    ((), True)
    """

    _internal: ClassVar[tuple[str, ...]] = (
        "page",
    )  # fmt: skip

    findings: tuple[Finding, ...]
    expected: tuple[str, ...] | None = None
    title: str = ""
    unchecked: tuple[str, ...] = ()
    arch: str = ""
    remarks: tuple[Finding, ...] = ()
    machine: Machine | None = dataclasses.field(default=None, repr=False, compare=False)
    is_empty: bool = False

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings in their order, each once. Notes and consequences are left out."""
        return tuple(dict.fromkeys(f.code for f in self.findings if f.severity is not Severity.NOTE and f.cause is None))

    @property
    def as_expected(self) -> bool:
        """True if exactly the expected codes were reported, or if none are expected. Notes and consequences may be
        expected, and need not be.
        """
        every = {f.code for f in (*self.findings, *self.remarks)}
        return self.expected is None or set(self.codes) <= set(self.expected) <= every

    @property
    def ok(self) -> bool:
        """True if there is no finding of severity trap or wrong. If codes are expected: true if exactly these were
        reported. The exit code of `smemsim check` is stricter: 1 for a finding of severity luck, too.
        """
        if self.expected is not None:
            return self.as_expected
        return not any(f.severity in (Severity.TRAP, Severity.WRONG) for f in self.findings)

    @property
    def answer(self) -> str:
        """OK or WRONG and one sentence; "" if there was nothing to check."""
        if self.is_empty:
            return ""
        if self.expected is not None:
            found = ", ".join(self.codes) or "no findings"
            return (
                f"OK: {found}, which the scenario expects"
                if self.as_expected
                else f"WRONG: {found}; expected were {', '.join(self.expected) or 'none'}"
            )
        if not self.codes:
            return f"OK: nothing is wrong in {'what was looked at' if self.unchecked else 'the scenario'}"
        first = next(f for f in self.findings if f.code == self.codes[0])
        count, place = len(self._roots), f"{first.code} at {first.parts.where[0]}"
        return f"{'OK, but' if self.ok else 'WRONG:'} {count} finding{f's; the first is {place}' if count > 1 else f': {place}'}"

    @property
    def _alarms(self) -> list[Finding]:
        """The findings without the notes, which the last line counts as remarks."""
        return [f for f in self.findings if f.severity is not Severity.NOTE]

    @property
    def _roots(self) -> list[Finding]:
        """Those of them that follow from no other finding."""
        return [f for f in self._alarms if f.cause is None] or self._alarms

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The findings, the remarks, and a last line that counts them."""
        lines = [str(f) for f in (*self.findings, *self.remarks)]
        count, notes = len(self._roots) or "no", len(lines) - len(self._alarms)
        more = len(self._alarms) - len(self._roots)
        follow = f", and {more} that follow{'s' * (more == 1)} from {'it' if count == 1 else 'them'}" if more else ""
        also = f", {notes} remark{'s' if notes > 1 else ''}" if notes else ""
        told = (
            "" if self.expected is None else " as expected" if self.as_expected else f", expected were {', '.join(self.expected) or 'none'}"
        )
        if self.arch and not any_architecture(self.arch).measured:
            lines.append(
                f"rules for {self.arch} are {UNMEASURED}: {any_architecture(self.arch).unmeasured}; a card would settle them: smemsim capture"
            )
        if self.is_empty:
            return "\n".join([*lines, f"nothing to check: {NOTHING}"])
        lines += [f"not looked at: {', '.join(self.unchecked)}"] if self.unchecked else []
        return in_columns("\n".join([*lines, f"{count} finding{'s' * (count != 1)}{follow}{also}{told}"]))

    # ---- as a page

    def tiles(self) -> list[TilePicture]:
        """A picture of every operand that the steps read, in their order."""
        from smemsim.diagnosis.tile import TilePicture  # what a page takes, a check does not

        machine = self.machine
        return [] if machine is None else [TilePicture.of_seen(machine, seen) for seen in machine.seen]

    def page(
        self, tiles: Sequence[TilePicture] | None = None, *, names: Mapping[int, str] = {}, unfilled: str = "nothing",
        filled: Filling | None = None,
    ) -> Page:  # fmt: skip
        """The page as a value. Argument `tiles` has the operands to draw (default: all). Argument `names` has names of
        steps other than step 1, 2, …. Bytes that no step wrote have the text `unfilled`. The function `filled` returns
        the copies of a launch that fill a range.
        """
        from smemsim.core.picture.model import Page
        from smemsim.diagnosis.tile import buffer_strips, page_data

        every = self.tiles() if tiles is None else tiles
        drawn, missing = fitting(every)
        ordered = sorted((t for t in every if not t.too_large), key=lambda tile: tile.first_wrong is None)
        undrawn = (*(t.name for t in every if t.too_large), *(t.name for t in ordered[MOST_DRAWN:]))
        return Page(
            self.title or "smemsim report", self._evidence(), self._counted(),
            tuple(_entry(f, drawn) for f in self.findings), remarks=tuple(_entry(f, ()) for f in self.remarks),
            clean="Every operand with an intended tile reads exactly that tile.", unchecked=self.unchecked,
            strips=buffer_strips(self.machine, names, unfilled, filled) if self.machine else (), strips_title="Buffers",
            data=page_data(self.machine, drawn, names, unfilled) if self.machine else {"operands": []},
            stills=_stills(ordered[:MOST_DRAWN]), undrawn=undrawn, missing=missing,
        )  # fmt: skip

    def html(self) -> str:
        """One self-contained page: the findings next to every operand's tile and shared memory."""
        from smemsim.core.picture.page import page_html

        return page_html(self.page())

    def _repr_html_(self) -> str:
        """In a notebook: the findings, and the picture of the first wrong operand."""
        from smemsim.core.picture.page import page_fragment

        return page_fragment(dataclasses.replace(self.page(), title=self.title))

    def _evidence(self) -> str:
        """The evidence of the rules of the architecture, as the last line of `text` has it."""
        if not self.arch:
            return ""
        if any_architecture(self.arch).measured:
            return f"{self.arch}: rules were measured on an H200, except those that are marked otherwise"
        return f"{self.arch}: rules are {UNMEASURED}; {any_architecture(self.arch).unmeasured}. {CARD}"

    def _counted(self) -> str:
        number = len(self._alarms)
        expected = f"; expected were {', '.join(self.expected or ()) or 'none'}" if not self.as_expected else ", as expected"
        return f"{number or 'No'} finding{'s' * (number != 1)}{'' if self.expected is None else expected}"

    def as_dict(self) -> dict[str, Any]:
        """The report as a dictionary for JSON."""
        return {
            "ok": self.ok,
            "empty": self.is_empty,
            "arch": self.arch,
            "expected": self.expected,
            "findings": [f.as_dict() for f in self.findings],
            "remarks": [f.as_dict() for f in self.remarks],
            "unchecked": list(self.unchecked),
        }


MOST_DRAWN = 12  # operands of a page for readers without scripts
MOST_CHUNKS = 16384  # of all interactive pictures together: about 1 MB of numbers


def _stills(tiles: Sequence[TilePicture]) -> tuple[tuple[str, Picture], ...]:
    """Every operand, and the atoms of the first one if they are few enough to be drawn."""
    stills = [(tile.name, tile.picture()) for tile in tiles]
    if tiles and tiles[0].shape[0]:
        with contextlib.suppress(InputError):
            stills.insert(1, (f"{tiles[0].name}, its swizzle atoms", tiles[0].atoms()))
    return tuple(stills)


def fitting(tiles: Sequence[TilePicture]) -> tuple[list[TilePicture], tuple[str, ...]]:
    """The pictures that a page has room for, wrong ones before right ones, and the names of the others."""
    ordered = sorted(range(len(tiles)), key=lambda i: (tiles[i].first_wrong is None, i))
    room, kept = MOST_CHUNKS, set[int]()
    for i in ordered:
        size = tiles[i].shape[0] * tiles[i].shape[1]
        if size <= room:
            kept.add(i)
            room -= size
    return [t for i, t in enumerate(tiles) if i in kept], tuple(t.title for i, t in enumerate(tiles) if i not in kept)


def _entry(f: Finding, tiles: Sequence[TilePicture]) -> Entry:
    """A finding on a page, with the chunk of its first wrong element where it is about one of the operands."""
    from smemsim.core.picture.model import Entry

    return Entry(
        str(f.severity), f.code, f.parts.where[0], f.what, f.printed.fix(), f.because, str(f.grade), CARD if f.grade and f.grade is not Grade.MEASURED else "", target=target_of(f, tiles), rows=f.printed.page_rows(),
        severity_says=f.severity.says, explained=cause_of(f.code),
    )  # fmt: skip


def cause_of(code: str) -> str:
    """The meaning of a code. "" for one that no table has."""
    return CODES[code].cause if code in CODES else ""


def target_of(f: Finding, tiles: Sequence[TilePicture]) -> tuple[int, int] | None:
    """The first of the operands that a finding about a scenario is about, and the chunk of its first wrong element."""
    for number, tile in enumerate(tiles):
        if tile.first_wrong and f.about.startswith(Path.parse(tile.where)):
            return number, tile.first_wrong[0] * tile.shape[1] + tile.first_wrong[1]
    return None
