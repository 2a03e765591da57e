"""tcgen05.commit in clusters: which mbarriers it arrives at, and how often."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import numpy as np

from smemsim.capture.bench import KERNELS, RUNNERS, Bench, in_processes
from smemsim.capture.blackwell import pages
from smemsim.capture.blackwell.machine import HERE, header

MODULE = "blackwell_commit"
MOST_CTAS, NO_COUNT = 4, 0xFF


def source() -> str:
    return header() + (HERE / "commit.cu").read_text()


def run_commit(bench: Bench, case: dict[str, Any]) -> dict[str, Any]:
    """The arrivals at each CTA's barrier, by rank."""
    KERNELS.setdefault(MODULE, source)
    has_mask = case["mask"] is not None
    job = bench.device.array(np.frombuffer(struct.pack("<4I", case["issuer"], has_mask, case["mask"] or 0, 0), np.uint8).copy())
    arrivals = bench.device.array(np.full(MOST_CTAS, NO_COUNT, np.uint32))
    bench.device.launch(bench.function(MODULE, f"commit_{case['group']}_{case['size']}"), case["size"], 1024, job, arrivals, threads=32)
    return {"arrivals": arrivals.read(np.uint32)[:MOST_CTAS].tolist()}


RUNNERS["blackwell_commit"] = run_commit


def cases() -> list[dict[str, Any]]:
    """Every issuer and mask of a pair, and those of a cluster of four that leave the issuer or its pair out."""
    out = []
    for group in (1, 2):
        for size, masks in ((2, (None, 1, 2, 3)), (4, (None, 1, 2, 4, 8, 5, 10, 6, 12, 14, 15))):
            out += [{"group": group, "size": size, "issuer": issuer, "mask": mask} for issuer in range(size) for mask in masks]
    return out


def tcgen05_commits(bench: Bench, out: pathlib.Path) -> None:
    suite, chosen = "tcgen05_commits", cases()
    answers = in_processes("blackwell_commit", chosen)
    pages.report(suite, answers)
    bench.write(
        out, suite, "tcgen05_commit", "tcgen05.commit in clusters of two and four, with and without a mask: how often each CTA's mbarrier was arrived at", 0, len(chosen),
        {
            **{name: np.array([c[name] for c in chosen], np.uint8) for name in ("group", "size", "issuer")},
            "has_mask": np.array([c["mask"] is not None for c in chosen], np.uint8),
            "mask": np.array([c["mask"] or 0 for c in chosen], np.uint16),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "arrivals": np.array([a.get("arrivals", [NO_COUNT] * MOST_CTAS) for a in answers], np.uint8),
        },
    )  # fmt: skip


SUITES = {"tcgen05_commits": tcgen05_commits}
