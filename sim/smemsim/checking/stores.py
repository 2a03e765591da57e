"""What leaves shared memory: does each byte that TMA stores go to the element that lies there?"""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.checking.buffers import COMMON_SWIZZLES, swizzle_changes
from smemsim.checking.report import share_of
from smemsim.checking.run import value_at
from smemsim.checking.simulate import NAMES, UNWRITTEN, Machine, Rerun, finding, issues_of
from smemsim.errors import SmemsimError
from smemsim.machine.tma import tma_store

__all__ = ["store_step"]


def store_step(machine: Machine, raw: dict[str, Any], number: int, rerun: Rerun) -> None:
    """Compare what a tma_store or tma_reduce takes with where it brings it; the scenario's stores of threads say what lies there."""
    step = raw["step"][number]
    stored = _stored(machine, step)
    if stored is None:
        return
    source, target = stored
    tensor = machine.tensors.get(machine.raw_maps[step["map"]].get("of", ""))
    if tensor is None:
        return
    mine = (source >= tensor.address) & (source < tensor.end)
    if not mine.any():
        return  # the scenario does not say what lies there
    wrong = mine & (source != target) | (source == UNWRITTEN)
    if not wrong.any():
        return
    where, title = f"step[{number}]", f"step {number + 1} ({step['op']})"
    at = int(np.nonzero(wrong)[0][0])
    is_ = NAMES[UNWRITTEN] if source[at] == UNWRITTEN else tensor.named(int(source[at]))
    share = f"{share_of(int(wrong.sum()), wrong.size, 'bytes')}; first: {is_} goes to {tensor.named(int(target[at]))}"
    counts: dict[str, Any] = {"wrong": int(wrong.sum()), "of": wrong.size}
    buffer = machine.buffers[step["from"]]
    tried = [] if "raw" in machine.raw_maps[step["map"]] else [(f"map.{step['map']}.swizzle", {name: name for name in COMMON_SWIZZLES})]
    tried += [swizzle_changes(buffer)] if buffer.layout is not None else []
    for path, values in tried:
        for value in values.values():
            again = rerun({path: value})
            other = None if again is None else _stored(again, step)
            if other is not None and (other[0] == other[1]).all():
                machine.say(finding("R501", path, title, f"{share}; the threads wrote with another swizzle than the store reads with", f"{path} = {value}",
                                    fix=(path, value_at(raw, path), value), **counts))  # fmt: skip
                return
    phase = any(f.code == "A105" and (f.fix or ("",))[0].startswith(f"buffer.{buffer.name}.") for f in machine.findings)
    code = "R507" if (source[wrong] == UNWRITTEN).all() else "R508"
    machine.say(finding(code, where, title, share, because="A105" if phase else "", **counts))


def _stored(machine: Machine, step: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """(the global byte that lies at each stored shared byte, the global byte it goes to)."""
    tm = machine.maps.get(step["map"])
    if tm is None:
        return None
    sources, targets = [], []
    for address, at in issues_of(machine, step):
        try:
            moved = tma_store(tm, at, smem_address=address, arch=machine.arch)
        except SmemsimError:
            return None
        sources.append(machine.source[moved.shared_address.astype(np.int64)])
        targets.append(moved.global_address)
    return np.concatenate(sources), np.concatenate(targets)
