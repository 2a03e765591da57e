"""Arrays through JSON, and what a suite prints of its answers."""

from __future__ import annotations

import base64
import collections
import sys
import zlib
from typing import Any

import numpy as np


def compressed(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 1)).decode()


def expanded(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


def report(suite: str, answers: list[dict[str, Any]]) -> None:
    late = sum(1 for a in answers if not a["status"] and not a.get("completed", 1))
    print(suite, dict(collections.Counter(a["status"] for a in answers)), f"{late} timed out" if late else "", file=sys.stderr, flush=True)
