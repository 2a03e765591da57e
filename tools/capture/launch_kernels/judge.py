"""What is odd about a launch's outcome: bytes outside arrays, inputs that changed, outputs
unlike numpy's expectation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.capture.launch_kernels.arrays import bf16, fp8
from tools.capture.launch_kernels.spec import Launch

__all__ = ["GUARD", "judge", "numbers"]

GUARD = 256  # bytes of 0xA5 behind every array
SCRATCH = {"global_scratch", "maps"}  # hold addresses, so they are no outputs


def numbers(dtype: str, raw: np.ndarray) -> np.ndarray:
    """Raw bits or numbers of an array as numbers."""
    return np.asarray(bf16(raw) if dtype == "bf16" else fp8(raw, {"e4m3": 4, "e5m2": 5}[dtype]) if dtype in ("e4m3", "e5m2") else raw)


def judge(launch: Any, spec: Launch | None, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """Sentences; `after` has the bytes of every array with its guard."""
    odd = []
    dtypes = {a["name"]: a["dtype"] for a in launch.about["arrays"]}
    outputs = launch.about["outputs"]
    for name, x in before.items():
        body, guard = after[name][: x.nbytes], after[name][x.nbytes :]
        if (guard != 0xA5).any():
            odd.append(f"{int((guard != 0xA5).sum())} bytes behind {name} changed")
        if name not in outputs and name not in SCRATCH and (body != x.ravel().view(np.uint8)).any():
            odd.append(f"{name} changed and is no output")
        if name in outputs and (body == x.ravel().view(np.uint8)).all():
            odd.append(f"{name} did not change")
    if spec is None or spec.expect is None:
        return odd
    for name, wanted in spec.expect(before).items():
        shape = before[name].shape
        got = numbers(dtypes[name], after[name][: before[name].nbytes].view(before[name].dtype).reshape(shape))
        for part, want in wanted if isinstance(wanted, list) else [(slice(None), wanted)]:
            odd += compared(
                name, got.reshape(-1)[part] if isinstance(wanted, list) else got, np.asarray(want), dtypes[name], launch.about["tolerance"]
            )
    return odd


def compared(name: str, got: np.ndarray, want: np.ndarray, dtype: str, tolerance: dict[str, float]) -> list[str]:
    """What is wrong with one output; numbers that the type rounds may be one rounding apart
    where a tolerance is given.
    """
    got = got.reshape(want.shape)
    if not tolerance:
        wrong = got.astype(np.float64) != want.astype(np.float64) if got.dtype.kind == "f" else got != want.astype(got.dtype)
        error = 0.0
    else:
        difference = np.abs(got.astype(np.float64) - want)
        wrong = ~(difference <= tolerance.get("absolute", 0.0) + tolerance.get("relative", 0.0) * np.abs(want))
        error = float(np.nanmax(difference)) if difference.size else 0.0
    if not wrong.any():
        return []
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return [
        f"{name} {at} is {got[at]!r}, numpy expects {want[at]!r} ({int(wrong.sum())} of {wrong.size} differ, largest error {error:.3g})"
    ]
