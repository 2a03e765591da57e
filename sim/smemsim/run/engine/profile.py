"""Profile of a launch: samples of what its thread does, by line of PTX and by part.

A second thread samples the launching one about every millisecond. It adds the processor time since the last sample to
the part that is executing. Without a profile no such thread runs. A sample waits for calls of numpy and of
JIT-compiled code, and then finds the line that called them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import threading
import time
from collections import defaultdict
from types import FrameType
from typing import Any

from smemsim.core.ptx.module import Instruction
from smemsim.run.jit.tier import CompiledChain, Loop, Segment

__all__ = ["PARTS", "Hot", "Profile", "Sampler"]


PARTS = {
    "execution": "instructions, without products",
    "products": "the arithmetic of matrix instructions",
    "sanitizer": "the order of accesses, and uninitialised memory",
    "operand check": "descriptors, tensor maps and operands",
    "compilation": "reading and linking of PTX, JIT compilation",
    "rest": "begin and end of waves, and the command itself",
}
EVERY = 0.001  # seconds between samples
MOST_LINES = 20  # of a text
_PACKAGE = pathlib.Path(__file__).resolve().parents[2]
# The part of a frame on the stack; the first one that fits counts.
_PLACES = (
    ("compilation", ("base/compiling/build.py", "run/jit/objects.py", "run/jit/segments.py")),
    ("operand check", ("diagnosis/", "planning/")),
    ("sanitizer", ("run/sanitizer/", "run/jit/shadow.py", "run/jit/stores.py")),
    ("products", ("core/arithmetic/",)),
)
_MATRICES = ("mma", "tcgen05", "wgmma", "wmma")
_LINKING = ("core/ptx/", "run/lower/", "run/isa/registry.py")
# the frame that runs a block, and the one that everything of a launch is below
_BLOCK, _LAUNCH = "run_block", "diagnosis/gpu.py"


@dataclasses.dataclass(frozen=True)
class Hot:
    """Lines `first` to `last` of the PTX, of one instruction or of a run of them that is machine code (`count`), and
    the seconds spent there by part.
    """

    first: int
    last: int
    count: int
    text: str
    parts: dict[str, float]

    @property
    def seconds(self) -> float:
        """In all parts."""
        return sum(self.parts.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "line": self.first, "last_line": self.last, "instructions": self.count, "text": self.text, "seconds": round(self.seconds, 6),
            "parts": {part: round(seconds, 6) for part, seconds in self.parts.items()},
        }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Profile:
    """Processor time of a launch by part, in seconds, and by line of PTX, the hottest first; from so many samples."""

    parts: dict[str, float]
    lines: tuple[Hot, ...]
    samples: int

    @property
    def seconds(self) -> float:
        """The seconds of all parts."""
        return sum(self.parts.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seconds": round(self.seconds, 6), "samples": self.samples, "parts": {part: round(seconds, 6) for part, seconds in self.parts.items()},
            "lines": [hot.as_dict() for hot in self.lines],
        }  # fmt: skip

    def text(self) -> str:
        """A line for each part, then one for each of the hottest lines of PTX."""
        whole = self.seconds or 1.0
        rows = [f"profile: {self.seconds:.2f} s of processor time, {self.samples} samples"]
        rows += [
            f"  {seconds:8.3f} s {seconds / whole:6.1%}  {part}: {PARTS[part]}"
            for part, seconds in sorted(self.parts.items(), key=lambda item: -item[1])
        ]
        for hot in self.lines[:MOST_LINES]:
            where = f"line {hot.first}" if hot.count == 1 else f"lines {hot.first} to {hot.last}, {hot.count} instructions, JIT-compiled"
            split = ", ".join(
                f"{part} {seconds / hot.seconds:.0%}" for part, seconds in sorted(hot.parts.items(), key=lambda item: -item[1])
            )
            rows.append(f"  {hot.seconds:8.3f} s {hot.seconds / whole:6.1%}  {where}: {hot.text} ({split})")
        if len(self.lines) > MOST_LINES:
            rows.append(f"  and {len(self.lines) - MOST_LINES} more, see --json")
        return "\n".join(rows)


class Sampler:
    """Samples the thread that enters it until it leaves."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._lines: dict[tuple[int, int, int, str], defaultdict[str, float]] = {}
        self._samples = 0
        self._over = threading.Event()
        self._switch = sys.getswitchinterval()

    def __enter__(self) -> Sampler:
        self._thread = threading.get_ident()
        self._since = time.process_time()
        sys.setswitchinterval(EVERY / 2)
        self._looks = threading.Thread(target=self._run, name="smemsim profile", daemon=True)
        self._looks.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._looks.join()
        sys.setswitchinterval(self._switch)
        self.note(None)

    @property
    def profile(self) -> Profile:
        """The recorded profile."""
        parts = {part: self._parts[part] for part in PARTS if self._parts[part]}
        lines = [Hot(*key, dict(by_part)) for key, by_part in self._lines.items()]
        return Profile(parts, tuple(sorted(lines, key=lambda hot: -hot.seconds)), self._samples)

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            self.note(sys._current_frames().get(self._thread))

    def note(self, frame: FrameType | None) -> None:
        """Count the time since the last look for what a stack does; None: for the rest."""
        now = time.process_time()
        took, self._since = now - self._since, now
        part, where = _look(frame)
        self._samples += 1
        self._parts[part] += took
        if where is not None:
            self._lines.setdefault(where, defaultdict(float))[part] += took


def _look(frame: FrameType | None) -> tuple[str, tuple[int, int, int, str] | None]:
    """The part that a stack is in, and the instructions that it executes: first and last line, how many, their text."""
    where: tuple[int, int, int, str] | None = None
    segment: Any = None
    files: list[str] = []
    while frame is not None:
        code = frame.f_code
        name = _own(code.co_filename)
        if name == _LAUNCH:
            break
        if name is not None:
            files.append(name)
            own = frame.f_locals.get("self") if name == "run/jit/tier.py" else None
            segment = own if isinstance(own, (Segment, Loop, CompiledChain)) else segment
            if code.co_name == _BLOCK and where is None:
                where = _where(frame.f_locals, segment)
        frame = frame.f_back
    for part, places in _PLACES:
        if any(name.startswith(places) for name in files) and (
            part != "products" or (where is not None and where[-1].startswith(_MATRICES))
        ):
            return part, where
    if where is not None:
        return "execution", where
    return "compilation" if any(name.startswith(_LINKING) for name in files) else "rest", None


def _own(path: str) -> str | None:
    """A file of this package, from its folder on."""
    try:
        return pathlib.PurePath(path).relative_to(_PACKAGE).as_posix()
    except ValueError:
        return None


def _where(known: dict[str, Any], segment: Any) -> tuple[int, int, int, str] | None:
    instructions: tuple[Instruction, ...] | list[Instruction]
    if isinstance(segment, Segment):
        instructions = segment.piece.instructions
    elif isinstance(segment, Loop):
        instructions = segment.block.instructions
    elif isinstance(segment, CompiledChain):
        instructions = segment.chain.instructions
    else:
        all_of = known["block"].instructions
        instructions = all_of[min(known["wave"].step, len(all_of) - 1) :][:1]
    if not instructions:
        return None
    first, last = instructions[0], instructions[-1]
    return first.line, last.line, len(instructions), first.name if len(instructions) == 1 else f"{first.name} ... {last.name}"
