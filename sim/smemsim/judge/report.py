"""What a check says: findings with their numbers, the most upstream one first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from smemsim.finding import Finding
from smemsim.spec.architectures import architecture
from smemsim.spec.findings import Severity

if TYPE_CHECKING:
    from smemsim.judge.state import Machine

__all__ = ["Report", "share_of"]


def share_of(wrong: int, of: int, what: str) -> str:
    """How much is wrong, as every finding begins.

    >>> share_of(3, 8, "bytes")
    '3 of 8 bytes wrong (37.5%)'
    """
    return f"{wrong} of {of} {what} wrong ({wrong / of:.1%})"


@dataclasses.dataclass(frozen=True)
class Report:
    """The findings of a scenario, most upstream first; `expected` are the codes that it says it should give, None if it says nothing;
    `remarks` say what needs no change (unused fields, transfers that nobody reads, shared banks), `unchecked` names what nothing here looks at; `machine` is shared memory as the steps left it, and what every operand saw."""

    findings: tuple[Finding, ...]
    expected: tuple[str, ...] | None = None
    title: str = ""
    unchecked: tuple[str, ...] = ()
    arch: str = ""
    remarks: tuple[Finding, ...] = ()
    machine: Machine | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def codes(self) -> tuple[str, ...]:
        """The different codes, in order, without notes and without mere consequences."""
        return tuple(dict.fromkeys(f.code for f in self.findings if f.severity is not Severity.NOTE and f.cause is None))

    @property
    def as_expected(self) -> bool:
        """Did exactly the expected codes come? True where nothing is expected; notes and consequences may be expected, and need not be."""
        every = {f.code for f in (*self.findings, *self.remarks)}
        return self.expected is None or set(self.codes) <= set(self.expected) <= every

    @property
    def ok(self) -> bool:
        """No finding of severity trap or wrong; with expectations: exactly the expected codes came."""
        if self.expected is not None:
            return self.as_expected
        return not any(f.severity in (Severity.TRAP, Severity.WRONG) for f in self.findings)

    def text(self) -> str:
        """A line for each finding, the remarks, and a last line that counts."""
        lines = [str(f) for f in (*self.findings, *self.remarks)]
        count = len(self.findings) or "no"
        also = f", {len(self.remarks)} remark{'s' if len(self.remarks) > 1 else ''}" if self.remarks else ""
        told = (
            "" if self.expected is None else " as expected" if self.as_expected else f", expected were {', '.join(self.expected) or 'none'}"
        )
        if self.arch and not architecture(self.arch).measured:
            lines.append(f"rules for {self.arch} are documented, compiled or inferred: nothing is measured on Blackwell")
        lines += [f"not looked at: {', '.join(self.unchecked)}"] if self.unchecked else []
        return "\n".join([*lines, f"{count} finding{'s' * (count != 1)}{also}{told}"])

    def html(self) -> str:
        """One self-contained page: the findings beside every operand's tile and shared memory."""
        from smemsim.show.page import report_page

        return report_page(self)

    def _repr_html_(self) -> str:
        """In a notebook: the findings, and the picture of the first wrong operand."""
        from smemsim.show.page import report_fragment

        return report_fragment(self)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "ok": self.ok,
            "arch": self.arch,
            "expected": self.expected,
            "findings": [f.as_dict() for f in self.findings],
            "remarks": [f.as_dict() for f in self.remarks],
            "unchecked": list(self.unchecked),
        }
