"""How findings of tensor maps are made: their severity, and what they rest on."""

from __future__ import annotations

from smemsim.descriptors.tensor_map.rule import Target
from smemsim.spec.findings import CODES, Finding, Severity

__all__ = ["finding", "measured"]


def finding(code: str, where: str, message: str, repair: str, because: str, severity: Severity | None = None) -> Finding:
    """A finding of the severity that its code has, unless another is given."""
    return Finding(code, severity or CODES[code].severity, where, message, repair, because)


def measured(at: Target, source: str, trace: str) -> str:
    """The source of a finding, with its trace; measured is what is said of the architecture that was measured, and of no other."""
    if at.arch in (None, "sm_90a"):
        return f"{source}; measured on an H200, trace {trace}"
    return f"{source}; measured on sm_90a only (trace {trace}), for {at.arch} inferred"
