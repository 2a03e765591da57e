"""A launch that will never end: which warps wait, at which line, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smemsim.gpu.barriers.mbarrier import mbarriers
from smemsim.gpu.wave import EXITED, GATHERING, PARKED, WARP, YIELDED, Wave

if TYPE_CHECKING:
    from smemsim.gpu.launch import Launch
    from smemsim.ptx.module import Instruction

__all__ = ["count_bytes", "report_hang"]


def count_bytes(launch: Launch, wave: Wave, *, hangs: bool = False) -> None:
    """T210 for barriers that were told to expect other numbers of bytes than came; when all is over, or nothing goes on."""
    for cta in wave.ctas:
        for barrier in mbarriers(cta).values():
            barrier.check_bytes(wave, hangs=hangs)


def report_hang(launch: Launch, outside: int = 0) -> None:
    """Note a finding for every instruction at which warps wait for ever; `outside` CTAs have not begun, as the card is full."""
    alive = sum(len(wave.ctas) for wave in launch.waves)
    full = f"; {outside} of {launch.ctas} CTAs have not begun, because the {alive} that wait fill the card" if outside else ""
    repair = "launch no more CTAs than are on the card at once (cudaOccupancyMaxActiveBlocksPerMultiprocessor)" if outside else ""
    for wave in launch.waves:
        count_bytes(launch, wave, hangs=True)
        if wave.watch is not None:
            wave.watch.nothing_came()
        for wait in sorted(wave.waiting, key=lambda w: (w.suspicion()[0], w.instruction.line, int(w.threads[0]))):
            who = _who(wave, wait.threads)
            waits = "wait" if "warps" in who or ";" in who else "waits"
            launch.find("X006", wait.instruction, f"{who} {waits} for ever: {wait.what()}{full}", repair or wait.suspicion()[1])
        held = set(np.unique(np.flatnonzero((wave.key >= PARKED) & (wave.key < EXITED)) // WARP).tolist())
        for first, last, code, what in (
            (GATHERING, PARKED, "X011", "waits for the other threads of its warp (or warpgroup), which never come to this instruction"),
            (YIELDED, GATHERING, "X006", (wave.endless or "polls something that never changes") + full),
            (0, YIELDED, "X006", f"loops for ever, and nothing it does is seen by others{full}"),
        ):
            threads = np.flatnonzero((wave.key >= first) & (wave.key < last))
            if code == "X011":  # whose other threads wait elsewhere waits for the same
                threads = threads[[int(warp) not in held for warp in threads // WARP]]
            for at in np.unique(wave.key[threads]).tolist():
                who = _who(wave, threads[wave.key[threads] == at])
                launch.find(code, _instruction(wave, at - first), f"{who}: {what}", repair if code == "X006" else "")


def _instruction(wave: Wave, block: int) -> Instruction:
    blocks = wave.program.blocks
    while not blocks[block].instructions:
        block += 1
    return blocks[block].instructions[0]


def _who(wave: Wave, threads: np.ndarray) -> str:
    """Warps by CTA, as a kernel author counts them."""
    found = []
    for cta in np.unique(wave.cta_of[threads]).tolist():
        warps = np.unique(wave.tid[threads[wave.cta_of[threads] == cta]] // WARP).tolist()
        text = f"warp {warps[0]}" if len(warps) == 1 else f"warps {', '.join(map(str, warps))}"
        found.append(f"{text} of CTA {wave.ctas[cta].ctaid}")
    return "; ".join(found[:4]) + (f" and {len(found) - 4} more CTAs" if len(found) > 4 else "")
