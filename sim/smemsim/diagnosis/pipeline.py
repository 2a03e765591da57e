"""The pipeline of a launch: the verdict of each ring of stages, and its picture.

The verdict follows from the barriers alone. Order and dependences are exact; the lengths in the picture are assumed,
and nothing was measured.
"""

from __future__ import annotations

from typing import Any

from smemsim.diagnosis.pipeline_picture import lanes_dict, pipeline_svg, pipeline_text
from smemsim.diagnosis.rings import SAYS, Ring, Verdicts

__all__ = ["Pipeline", "Ring"]


class Pipeline(Verdicts):
    """The rings of a launch's first cluster, and what its warps and engines do over time."""

    def text(self) -> str:
        """The sentences, and a picture of stages, roles and engines over time, at most 110 columns wide."""
        return pipeline_text(self)

    def svg(self, style: str | None = None) -> str:
        """The picture, light and dark; `style` "" for a page that has the rules already."""
        return pipeline_svg(self, style)

    def as_dict(self) -> dict[str, Any]:
        """The rings as data: order, dependences and assumed times of every load; roles and engines as spans of assumed
        time.
        """
        return {
            "says": SAYS,
            "rings": [
                {
                    "says": self.sentence(ring), "kind": ring.kind, "stages": len(ring.stages), "effective": ring.effective, "in_flight": ring.depth,
                    "steady": ring.steady, "held_back": ring.is_held_back, "one_at_a_time": ring.is_one_at_a_time,
                    "loads": [
                        {
                            "load": n, "stage": ring.stages.index(one.stage), "at": self.place(one.instruction), "bytes": sum(size for _, size in one.sizes),
                            "allowed": allowed, "issue": one.at, "full": one.full, "read": max(one.read, one.full), "free": max(one.free, one.full),
                        }
                        for n, (one, allowed) in enumerate(zip(ring.fillings, ring.allowed, strict=True))
                    ],
                    "held": [{"load": h.load, "needs": h.needs, "waits_for": h.newer[-1]} for h in ring.held],
                }
                for ring in self.rings
            ],
            **lanes_dict(self),
        }  # fmt: skip
