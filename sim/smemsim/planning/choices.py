"""`plans`: every swizzle and stacking that a tile can have, side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

from smemsim.errors import InputError
from smemsim.planning.make import DEFAULTS, Plan, simulated
from smemsim.planning.wish import STACKS, IllegalPlan, wish_of
from smemsim.spec.architectures import architecture
from smemsim.spec.smem_descriptor import layout_codes
from smemsim.spec.tensor_map import LIMITS

__all__ = ["Choice", "plans"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """One swizzle and stacking: its plan, or None and the reason why there is none."""

    swizzle: str
    stack: str
    plan: Plan | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The row of the table as JSON has it: sizes in bytes; `conflicts` as `Conflicts` counts them."""
        row: dict[str, Any] = {"swizzle": self.swizzle, "stack": self.stack, "legal": self.plan is not None, "reason": self.reason}
        if self.plan is None:
            return row
        p, tile = self.plan, self.plan.arrangement
        data = tile.wish.rows * tile.wish.k * tile.wish.fmt.bits // 8
        return row | {
            "issues": len(p.loop.issues),
            "single_box": p.box is not None,
            "box_rank": p.box.rank if p.box else None,
            "alignment": LIMITS.smem_alignment,
            "period": tile.wish.mode.period,
            "tile_bytes": p.tile_bytes,
            "padding_bytes": p.tile_bytes - data,
            "leading_byte_offset": p.lbo.bytes,
            "leading_used": p.lbo.used,
            "stride_byte_offset": p.sbo.bytes,
            "stride_used": p.sbo.used,
            "k_advances": p.advances[0].tolist(),
            "k_uniform": p.is_uniform,
            "conflicts": dataclasses.asdict(p.conflicts),
        }


def plans(rows: int, k: int, **arguments: Any) -> tuple[Choice, ...]:
    """Every swizzle of the architecture's descriptor with both stackings, each planned and checked; arguments as those of `plan`.

    `swizzle` and `stack` are what is varied and cannot be given. Raises InputError for what is no tile at all. A stacking that lays a tile out
    like the first one is left out.

    >>> [(c.swizzle, c.stack, c.plan is not None) for c in plans(64, 64, dtype="bf16", major="K", arch="sm_90a")]
    [('none', 'strided', True), ('none', 'contiguous', True), ('32B', 'strided', True), ('32B', 'contiguous', True), ('64B', 'strided', True), \
('64B', 'contiguous', True), ('128B', 'strided', True)]
    """
    for name in ("swizzle", "stack"):
        if name in arguments:
            raise InputError(f"{name}: plans tries every one of them; plan takes it")
    found: list[Choice] = []
    for swizzle in layout_codes(architecture(arguments.get("arch")).smem_descriptor).values():
        for stack in STACKS:
            try:
                one = simulated(wish_of(rows, k, **DEFAULTS | arguments | {"swizzle": str(swizzle), "stack": stack}))
            except IllegalPlan as e:
                if stack == STACKS[0]:
                    found.append(Choice(str(swizzle), "", None, e.reason))
                continue
            if stack == STACKS[0] or 1 not in one.arrangement.grid:
                found.append(Choice(str(swizzle), stack, one, ""))
    return tuple(found)
