"""Notes about how shared memory is used: transfers that nobody reads, and layouts whose chunks share their banks."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import numpy as np

from smemsim.checking.buffers import Buffer
from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import Machine, finding
from smemsim.spec.shared_memory import BANKS, CHUNK

__all__ = ["bank_notes", "usage_notes"]


def usage_notes(machine: Machine) -> Iterator[CheckFinding]:
    """Transfers of which nothing is ever read, though other bytes of the buffer are."""
    if not machine.read.any():
        return
    unread: dict[int, list[int]] = {}
    total = collections.Counter(issue.step for issue in machine.issues)
    for index, issue in enumerate(machine.issues):
        if not machine.wanted[index]:
            unread.setdefault(issue.step, []).append(index)
    for step, issues in unread.items():
        name = machine.issues[issues[0]].buffer
        buffer = machine.buffers[name]
        first, end = buffer.address // CHUNK, -(-(buffer.address + (buffer.bytes or CHUNK)) // CHUNK)
        if machine.read[first:end].any():
            what = "nothing of it is" if len(issues) == total[step] else f"{len(issues)} of its {total[step]} issues are not"
            yield finding(
                "R510", f"step[{step}]", f"step {step + 1}", f"{what} read by any later step; first {machine.issues[issues[0]].text}"
            )


def bank_notes(name: str, buffer: Buffer) -> Iterator[CheckFinding]:
    """Eight threads that each take the same 16-byte chunk of eight consecutive lines: how many of them share their banks?"""
    layout = buffer.layout
    if layout is None:
        return
    along_k = layout.k[0][1] == 1  # the contiguous axis counts bytes
    threads = BANKS.groups  # whose 16-byte accesses go together if no two share their banks
    if layout.extents()[not along_k] < threads:
        return
    lines, zeros = np.arange(threads), np.zeros(threads, np.int64)
    offset = layout.addresses(buffer.address, *((lines, zeros) if along_k else (zeros, lines)))
    ways = int(np.bincount(BANKS.group(offset)).max())
    if ways > 1:
        yield finding("P901", f"buffer.{name}.layout", f"buffer {name}",
                      f"the first 16 bytes of {threads} consecutive lines lie in the same {CHUNK // BANKS.width} banks {ways} times over: such accesses of {threads} threads take {ways} turns",
                      "a swizzle, or another pitch")  # fmt: skip
