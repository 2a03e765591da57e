"""Small kernels for the tests of the executor: a body of PTX, registers of every width, and what it leaves in an array."""

import contextlib
import re
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from smemsim import InputError, Unmodelled
from smemsim.core.ptx import read_module
from smemsim.run import Launch, LaunchConfig, RunOptions
from smemsim.run.engine import device
from smemsim.run.engine.grid import execute
from smemsim.run.lower import link
from strategies import is_night

__all__ = ["Device", "found", "kernel", "launch", "refused", "results", "run"]

REGISTERS = ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %d<40>; .reg .f32 %f<20>; .reg .f64 %g<8>; .reg .b128 %q<4>;"
SHARED = ".shared .align 16 .b8 sm[4096];\n.shared .align 8 .b64 bar[4];\n"


def kernel(parameters: int, body: str, *, variables: str = SHARED, locals_: str = "", arch: str = "sm_90a") -> str:
    """An entry `k` of 64-bit parameters, which stand in %d20, %d21 ...; %r1 is the thread, %p9 says that it is the
    first.
    """
    names = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "\n".join(f"ld.param.u64 %d{20 + n}, [p{n}];" for n in range(parameters))
    return f"""
.version 8.7
.target {arch}
.address_size 64
{variables}
.visible .entry k({names}) {{
{REGISTERS}
{locals_}
{loads}
mov.u32 %r1, %tid.x;
setp.eq.u32 %p9, %r1, 0;
{body}
ret;
}}
"""


class Device(device.Device):
    """A simulated card without a judge; `launch` executes under the watch alone."""

    def launch(
        self,
        ptx: str,
        entry: str | None = None,
        *,
        watch_global: bool = True,
        multiprocessors: int | None = None,
        sanitize: bool = True,
        **given,
    ) -> Launch:
        options = RunOptions(sanitize=sanitize, watch_global=watch_global, multiprocessors=multiprocessors)
        launch = self.prepare(ptx, LaunchConfig(entry=entry, **given), options)
        execute(launch)
        return launch


NAMED = re.compile(r"\b(warp|CTA|line|lane)s? (\d+)(?:(?:, | and | to )(\d+))*|ptx:(\d+)")


def count(shape: int | tuple[int, ...]) -> int:
    return int(np.prod(shape))


def no_such(text: str, *, lines: int, block: int | tuple[int, ...], grid: int | tuple[int, ...] = 1) -> list[str]:
    """What a finding names and no launch of this shape has: warps, CTAs, and lines of the PTX. Lanes are those of a warp,
    or of tensor memory.
    """
    ends = {"warp": -(-count(block) // 32), "CTA": count(grid), "line": lines + 1, "lane": 128}
    text = re.sub(r"CTA \d+; the cluster has", "", text)  # the fault is the number
    named = ((found[0], found[1] or "line", int(n)) for found in NAMED.finditer(text) for n in re.findall(r"\d+", found[0]))
    return [whole for whole, what, n in named if not (what == "line") <= n < ends[what]]


def run(body, arrays, *, block=32, arch="sm_90a", text=(), **shape):
    card = Device(arch)
    placed = [card.array(a) for a in arrays]
    ptx = kernel(len(arrays), body, arch=arch, **dict(text))
    done = card.launch(ptx, "k", block=block, args=placed, **shape)
    lines = ptx.count("\n")
    for f in done.result.findings.values():
        assert no_such(f"ptx:{f.line} {f.message}", lines=lines, block=block, grid=shape.get("grid", 1)) == []
    return done, placed


# How much is remembered before something is looked at again, made anew or dropped. No answer depends on it.
ROOM_FOR = {
    "sanitizer.release_missing_reads.LEAST": 1,
    "sanitizer.release_missing_writes.LEAST": 1,
    "sanitizer.operation_sets._ROOM": 2,
    "sanitizer.epochs.MOST_TIMES": 0,
    "isa.matrix.wgmma.MOST_WORDS": 1,
    "isa.matrix.wgmma.MOST_SELECTIONS": 1,
    "isa.tcgen05.mma.MOST_WORDS": 1,
    "engine.register_pool.MOST_BYTES": 0,
}


@contextlib.contextmanager
def forgetful() -> Iterator[None]:
    """Nothing is remembered that can be made again, and every CTA is executed by itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name, room in ROOM_FOR.items():
            patch.setattr(f"smemsim.run.{name}", room)
        patch.setenv("SMEMSIM_COHORTS", "off")
        yield


# By day one body of so many is executed again in other ways, by night each.
EVERY = 1 if is_night() else 12


def messages_by_code(done: Launch) -> dict[str, str]:
    told: dict[str, list[str]] = {}
    for f in done.result.findings.values():
        told.setdefault(f.code, []).append(f.message)
    return {code: "; ".join(lines) for code, lines in told.items()}


def the_other_ways_find_the_same(body: str, arrays: tuple[np.ndarray, ...], told: dict[str, str], left: list[bytes], **given) -> None:
    """A forgetful run finds the same, and so do further CTAs of a kernel that has no arrays. Without the sanitizer
    arrays get the same bytes.
    """
    with forgetful():
        done, placed = run(body, arrays, **given)
    assert messages_by_code(done) == told
    assert [p.numpy().tobytes() for p in placed] == left
    if arrays:
        done, placed = run(body, arrays, **given, sanitize=False)
        assert [p.numpy().tobytes() for p in placed] == left
    elif "ctaid" not in body:  # CTAs that share nothing
        grid = given.get("grid", 1)
        more = {"grid": 3 * grid} if isinstance(grid, int) else {"grid": (*grid[:-1], 3 * grid[-1])}
        done, _ = run(body, arrays, **{**given, **more})
        assert messages_by_code(done).keys() == told.keys()


def found(body: str, *arrays: np.ndarray, **given) -> dict[str, str]:
    """Run a body on arrays; the messages of what is wrong, by code. Of a sample of the bodies the other ways to execute
    them find the same.
    """
    done, placed = run(body, arrays, **given)
    told = messages_by_code(done)
    if zlib.crc32(body.encode()) % EVERY == 0:
        the_other_ways_find_the_same(body, arrays, told, [p.numpy().tobytes() for p in placed], **given)
    return told


def launch(body: str, *arrays: np.ndarray, expected: tuple[str, ...] = (), **given) -> list[np.ndarray]:
    """Run a body on arrays, whose addresses stand in %d20 and so on; returns them as they are afterwards.

    Nothing may be found but the codes that are `expected`.
    """
    done, placed = run(body, arrays, **given)
    unexpected = [f"{f.code} line {f.line}: {f.message}" for f in done.result.findings.values() if f.code not in expected]
    assert unexpected == []
    return [p.numpy() for p in placed]


def results(body: str, *, block: int = 32, kind: type = np.uint32, **given) -> np.ndarray:
    """What each thread of each CTA leaves in %r2 (or for 8-byte kinds in %d2)."""
    size = np.dtype(kind).itemsize
    grid = given.get("grid", 1)
    store = f"""
mov.u32 %r50, %ctaid.x; mov.u32 %r51, %ntid.x; mad.lo.u32 %r50, %r50, %r51, %r1;
mul.wide.u32 %d30, %r50, {size}; add.u64 %d30, %d20, %d30; st.global.b{8 * size} [%d30], {"%r2" if size == 4 else "%d2"};"""
    (out,) = launch(body + store, np.zeros(block * grid, kind), block=block, **given)
    return out if grid == 1 else out.reshape(grid, block)


def refused(lines: list[str], *, arch: str = "sm_100a") -> dict[int, str]:
    """Which of these lines of a kernel the linker does not take, and why; %c are bytes, the other registers those of
    REGISTERS.
    """
    head = f".version 9.0\n.target {arch}\n.address_size 64\n.visible .entry k() {{ .reg .b8 %c<4>; {REGISTERS}\n"
    lines, found = list(lines), dict[int, str]()
    while True:  # an error is about one line: the others are tried without it
        try:
            link(read_module(head + "\n".join(lines) + "\nret;\n}\n"), "k", arch)
        except Unmodelled as problem:
            return found | {int(n) - 5: why for n, why in re.findall(r"line (\d+): (.*)", str(problem))}
        except InputError as problem:
            told = {int(n) - 5: why for n, why in re.findall(r"line (\d+): (.*)", str(problem))}
            if len(lines) == 1 or found.keys() >= told.keys():
                return found | told
            found |= told
            for n in told:
                lines[n] = ""
        else:
            return found
