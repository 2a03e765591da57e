"""The verdict on an encode call: every rule that its arguments break."""

from __future__ import annotations

from typing import Any

from smemsim.descriptors.tensor_map import im2col_rules, rules
from smemsim.descriptors.tensor_map.arguments import Arguments
from smemsim.descriptors.tensor_map.rule import Call, Rule, Target, Violation
from smemsim.spec.architectures import ARCHITECTURES, architecture
from smemsim.spec.tensor_map import SWIZZLE_ARCHITECTURES

__all__ = ["TENSOR_MAP_RULES", "target", "violations"]

# By name, in the order in which they are reported.
TENSOR_MAP_RULES: dict[str, Rule] = {r.name: r for r in (*rules.RULES, *im2col_rules.RULES)}

_CALLS: tuple[Call, ...] = ("tiled", "im2col", "im2col_wide")
# Nearly all maps have whole-byte types, one of Hopper's swizzles and legal codes: most rules about the others need not be asked.
_ALL = {
    (call, encode): tuple(r for r in TENSOR_MAP_RULES.values() if call in r.calls and (encode or not r.encode_only))
    for call in _CALLS
    for encode in (True, False)
}
_USUAL = {key: tuple(r.check for r in chosen if not r.newer and r.name != "enum_code") for key, chosen in _ALL.items()}
_TARGETS = {(arch, encode): Target(arch, encode) for arch in (None, *ARCHITECTURES) for encode in (True, False)}


def target(arch: Any, *, encode: bool) -> Target:
    """What a map is judged for; the architecture by its name, None for one of them all."""
    return _TARGETS[None if arch is None else architecture(arch).name, encode]


def violations(a: Arguments, call: Call, at: Target) -> list[Violation]:
    """Every rule that is broken, as sentences; empty where the driver accepts."""
    if call == "im2col_wide" and at.arch is None:  # two sets of rules: a call may be legal by the one or by the other
        return violations(a, call, _TARGETS["sm_100a", at.encode]) if violations(a, call, _TARGETS["sm_90a", at.encode]) else []
    chosen = _ALL[call, at.encode]
    if a.unknown_codes:
        chosen = tuple(r for r in chosen if all(getattr(a, name) is not None for name in r.needs))
    elif a.type_row.itemsize and a.swizzle not in SWIZZLE_ARCHITECTURES:
        for check in _USUAL[call, at.encode]:
            if check(a, at):
                break
        else:
            return []
    found: list[Violation] = []
    for r in chosen:
        if sentences := r.check(a, at):
            found += [Violation(sentence, r.name, r.code) for sentence in sentences]
    return found
