"""Registers and operands of a wgmma that are used before it is known to be complete, on the card: how many words are
wrong?

    python -m tools.capture.wgmma_in_flight --out OUT [--seconds 300]

Each kernel has a twin, which waits before the use. Both run in all warpgroups of a grid, and many times over. The words
of the twin are the right ones. OUT gets `wgmma_in_flight/` (manifest.json, data.npz) and `wgmma_in_flight.txt`,
a line for each kernel.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from smemsim.evidence.format import write_suite
from smemsim.run.engine.launch import LaunchConfig
from tools.capture.launch_suite import assembler, ragged

__all__ = ["COMMIT", "FENCE", "WAIT", "Kernel", "kernels", "main", "operands"]

SUITE = "wgmma_in_flight"
TITLE = "Kernels that use registers or operands of a wgmma early, and twins that wait: how many words are wrong"
TILE = 16384  # bytes of shared memory, filled with numbers for A and B
THREADS = 256  # two warpgroups
CTAS = 528  # four for each multiprocessor
ROUNDS = 500  # in a launch
LAUNCHES = 4
KEPT = slice(0, THREADS, 51)  # the threads whose registers are kept
FENCE, COMMIT, WAIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"

HEAD = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 want, .param .u64 out, .param .u64 wrong, .param .u32 rounds) {{
.reg .pred %p<4>; .reg .b32 %r<20>, %d<COUNT>, %a<8>; .reg .b64 %l<12>, %da, %db;
.shared .align 1024 .b8 tile[{TILE}];
ld.param.u64 %l1, [in]; ld.param.u64 %l2, [want]; ld.param.u64 %l3, [out]; ld.param.u64 %l4, [wrong]; ld.param.u32 %r1, [rounds];
mov.u32 %r0, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r0, 4; cvt.u64.u32 %l5, %r3; add.u64 %l5, %l1, %l5; add.u32 %r3, %r2, %r3;
mov.u32 %r4, %ntid.x; shl.b32 %r4, %r4, 4; cvt.u64.u32 %l6, %r4; mov.u32 %r9, 0;
FILL: ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%l5]; st.shared.v4.b32 [%r3], {{%r5, %r6, %r7, %r8}};
add.u64 %l5, %l5, %l6; add.u32 %r3, %r3, %r4; add.u32 %r9, %r9, %r4; setp.lt.u32 %p1, %r9, {TILE}; @%p1 bra FILL;
fence.proxy.async; bar.sync 0;
shr.u32 %r9, %r2, 4; cvt.u64.u32 %da, %r9; or.b64 %da, %da, 0x0000001000080000; add.u64 %db, %da, 512;
mov.b64 %l9, %da; mov.b64 %l10, %db;
mul.wide.u32 %l6, %r0, 4; add.u64 %l2, %l2, %l6; add.u64 %l3, %l3, %l6; shl.b32 %r4, %r0, 2; add.u32 %r4, %r2, %r4;
mov.u32 %r10, 0; mov.u32 %r11, 0;
ROUND:
"""
TAIL = """
add.u32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, %r1; @%p1 bra ROUND;
cvt.u64.u32 %l7, %r10; red.global.add.u64 [%l4], %l7;
"""


class Kernel(NamedTuple):
    """A kernel: the registers that it gives out, the type of D, and its instructions. Between them is `between`. The
    twin has `waits` there.
    """

    registers: int
    kind: str
    steps: tuple[str, ...]
    between: str
    waits: str = f"{COMMIT} {WAIT} {FENCE}"

    def ptx(self, *, waits: bool) -> str:
        """The text, or that of the twin."""
        first = {"f32": "cvt.rn.f32.u32 %d{n}, %r12;", "f16": "add.u32 %d{n}, %r12, 0x3c003800;", "s32": "mov.b32 %d{n}, %r12;"}[self.kind]
        there = self.waits if waits else self.between
        lines = [f"add.u32 %r12, %r0, {n}; {first.format(n=n)}" for n in range(self.registers)]
        lines += [f"ld.shared.b32 %a{n}, [%r4+{4096 + 1024 * n}];" for n in range(8)]
        lines += [FENCE, f"\n{there}\n".join(self.steps).replace("BETWEEN", there), COMMIT, WAIT]
        step = 4 * THREADS
        for n in range(self.registers):
            lines.append(f"ld.global.b32 %r13, [%l2+{n * step}]; setp.ne.b32 %p1, %r13, %d{n}; @%p1 add.u32 %r10, %r10, 1;")
        stores = [f"st.global.b32 [%l3+{n * step}], %d{n};" for n in range(self.registers)]
        cta = "mov.u32 %r14, %ctaid.x; setp.ne.u32 %p2, %r14, 0; @%p2 bra END;"
        return HEAD.replace("COUNT", str(self.registers)) + "\n".join(lines) + TAIL + "\n".join([cta, *stores, "END: ret;\n}\n"])


TYPES = {  # the types of A and B, and K, by a short name
    "bf16": ("f32.bf16.bf16", 16, ", 1, 1"),
    "f16": ("f16.f16.f16", 16, ", 1, 1"),
    "tf32": ("f32.tf32.tf32", 8, ", 1, 1"),
    "s8": ("s32.s8.s8", 32, ""),
}


def listed(first: int, count: int, letter: str = "d") -> list[str]:
    """The names of some registers."""
    return [f"%{letter}{first + n}" for n in range(count)]


def product(types: str, n: int, d: list[str], a: list[str] | None = None) -> str:
    """A wgmma that adds to D. A is in shared memory, or in registers."""
    words, k, signs = TYPES[types]
    transposes = "" if types in ("tf32", "s8") else ", 0" if a else ", 0, 0"
    of_a = f"{{{', '.join(a)}}}" if a else "%da"
    return f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{words} {{{', '.join(d)}}}, {of_a}, %db, 1{signs}{transposes};"


BETWEEN = {"nothing": "", "commit": COMMIT, "fence": FENCE, "commit, fence": f"{COMMIT} {FENCE}"}


def kernels() -> dict[str, Kernel]:
    """All kernels by name."""
    made: dict[str, Kernel] = {}
    for name, kernel in (*_overlapping(), *_multiplied(), *_of_threads(), *_of_late_warps()):
        if name in made:
            raise ValueError(f"two kernels called {name}")
        made[name] = kernel
    return made


def _overlapping() -> Iterator[tuple[str, Kernel]]:
    """Two sums, in turn, whose registers are the same in part."""
    shapes = {
        "the same": (8, ("bf16", 16, listed(0, 8)), ("bf16", 16, listed(0, 8))),
        "none": (16, ("bf16", 16, listed(0, 8)), ("bf16", 16, listed(8, 8))),
        "bf16 n16, tf32 n16 at 0": (8, ("bf16", 16, listed(0, 8)), ("tf32", 16, listed(0, 8))),
        "n16, n16 at 4": (12, ("bf16", 16, listed(0, 8)), ("bf16", 16, listed(4, 8))),
        "n16, n16 at 2": (10, ("bf16", 16, listed(0, 8)), ("bf16", 16, listed(2, 8))),
        "n16, n8 at 4": (8, ("bf16", 16, listed(0, 8)), ("bf16", 8, listed(4, 4))),
        "n32, n16 at 6": (16, ("bf16", 32, listed(0, 16)), ("bf16", 16, listed(6, 8))),
        "n64, n64 at 8": (40, ("bf16", 64, listed(0, 32)), ("bf16", 64, listed(8, 32))),
        "s8 n16, n16 at 4": (12, ("s8", 16, listed(0, 8)), ("s8", 16, listed(4, 8))),
        "f16 n32, n32 at 4": (12, ("f16", 32, listed(0, 8)), ("f16", 32, listed(4, 8))),
        "n16, its halves exchanged": (8, ("bf16", 16, listed(0, 8)), ("bf16", 16, [*listed(4, 4), *listed(0, 4)])),
        "n16, reversed": (8, ("bf16", 16, listed(0, 8)), ("bf16", 16, listed(0, 8)[::-1])),
        "n16, all but the last": (9, ("bf16", 16, listed(0, 8)), ("bf16", 16, [*listed(0, 7), "%d8"])),
        "n16, n8 at 0": (8, ("bf16", 16, listed(0, 8)), ("bf16", 8, listed(0, 4))),
        "n64, n8 at 0": (32, ("bf16", 64, listed(0, 32)), ("bf16", 8, listed(0, 4))),
        "n64, n16 at 0": (32, ("bf16", 64, listed(0, 32)), ("bf16", 16, listed(0, 8))),
        "n64, n8 at 12": (32, ("bf16", 64, listed(0, 32)), ("bf16", 8, listed(12, 4))),
        "n64, n8 at 28": (32, ("bf16", 64, listed(0, 32)), ("bf16", 8, listed(28, 4))),
        "n64, n64 at 16": (48, ("bf16", 64, listed(0, 32)), ("bf16", 64, listed(16, 32))),
        "n128, n8 at 0": (64, ("bf16", 128, listed(0, 64)), ("bf16", 8, listed(0, 4))),
        "n128, n64 at 0": (64, ("bf16", 128, listed(0, 64)), ("bf16", 64, listed(0, 32))),
        "s8 n64, n8 at 0": (32, ("s8", 64, listed(0, 32)), ("s8", 8, listed(0, 4))),
        "f16 n64, n16 at 0": (16, ("f16", 64, listed(0, 16)), ("f16", 16, listed(0, 4))),
        "f16 n64, n8 at 0": (16, ("f16", 64, listed(0, 16)), ("f16", 8, listed(0, 2))),
    }  # fmt: skip
    betweens = {"nothing": "", "commit, wait": f"{COMMIT} {WAIT}", "fence": FENCE, "commit, fence": f"{COMMIT} {FENCE}"}
    for (name, (count, one, two)), (said, between) in ((a, b) for a in shapes.items() for b in betweens.items()):
        orders = ("in turn", "one first", "the other first") if name not in ("the same", "none") else ("in turn",)
        for order, times in ((order, 4 if order == "in turn" else 1) for order in orders):
            steps = (two, one) if order == "the other first" else (one, two)
            most = " ".join([product(*steps[0])] * (1 if times > 1 else 4))
            yield f"D {name}, {order}: {said}", Kernel(count, _KIND[one[0]], (most, product(*steps[1])) * times, between)


_KIND = {"bf16": "f32", "tf32": "f32", "f16": "f16", "s8": "s32"}  # the type of D
_PER = {"f16": 2, "s8": 4, "tf32": 4}  # columns of each thread's registers: N / _PER registers


def _multiplied() -> Iterator[tuple[str, Kernel]]:
    """D of a wgmma is A of the next one, or A of one is D of the next one."""
    with_others = [*listed(0, 2), *listed(0, 2, "a")]
    forms = {
        "f16 n16": ("f16", 16, listed(0, 4), listed(0, 4)),
        "s8 n8": ("s8", 8, listed(0, 4), listed(0, 4)),
        "tf32 n8": ("tf32", 8, listed(0, 4), listed(0, 4)),
        "f16 n8, then two others": ("f16", 8, listed(0, 2), with_others),
        "f16 n8, after two others": ("f16", 8, listed(0, 2), [*with_others[2:], *with_others[:2]]),
        "f16 n16, exchanged": ("f16", 16, listed(0, 4), ["%d1", "%d0", "%d3", "%d2"]),
        "f16 n32, its first registers": ("f16", 32, listed(0, 8), listed(0, 4)),
        "f16 n32, its last registers": ("f16", 32, listed(0, 8), listed(4, 4)),
        "f16 n64, its first registers": ("f16", 64, listed(0, 16), listed(0, 4)),
        "f16 n64, its second four": ("f16", 64, listed(0, 16), listed(4, 4)),
        "f16 n64, its last registers": ("f16", 64, listed(0, 16), listed(12, 4)),
        "f16 n64, the middle": ("f16", 64, listed(0, 16), listed(6, 4)),
        "f16 n64, two and two others": ("f16", 64, listed(0, 16), with_others),
        "tf32 n16, its first registers": ("tf32", 16, listed(0, 8), listed(0, 4)),
        "tf32 n16, its last registers": ("tf32", 16, listed(0, 8), listed(4, 4)),
    }
    for (name, (types, n, d, a)), (said, between) in ((x, y) for x in forms.items() for y in BETWEEN.items()):
        other = listed(len(d), 4)
        reads = product(types, 16 if types == "f16" else 8, other, a)
        if said != "commit":
            yield f"A is D, {name}: {said}", Kernel(len(d) + 4, _KIND[types], (f"{product(types, n, d)} " * 3, reads), between)
        if len(d) <= 4:
            yield f"D is A, {name}: {said}", Kernel(len(d) + 4, _KIND[types], (f"{reads} " * 3, product(types, n, d)), between)


def _of_threads() -> Iterator[tuple[str, Kernel]]:
    """Threads use registers of a wgmma in flight."""
    d, a = listed(0, 8), listed(0, 4, "a")
    of_a, of_d = product("bf16", 16, d, a), product("bf16", 16, d)
    uses = {
        "A is read": (f"{of_a} " * 6, "".join(f"add.u32 %d{8 + n}, %a{n}, 1; " for n in range(4))),
        "D is read": (f"{of_d} " * 6, "".join(f"add.f32 %d{8 + n}, %d{n}, %d{n}; " for n in range(4))),
        "D is copied": (f"{of_d} " * 6, "".join(f"mov.b32 %d{8 + n}, %d{n}; " for n in range(4))),
        "D is overwritten": (f"{of_d} " * 6, "".join(f"mov.b32 %d{n}, {n}; " for n in range(4))),
    }
    for name, (one, use) in uses.items():
        for said, between in (("nothing", ""), ("commit", COMMIT)):
            yield f"{name}: {said}", Kernel(12, "f32", (one, use), between, f"{COMMIT} {WAIT}")
    loop = 'mov.u32 %r16, 0; LOOP: .pragma "nounroll"; {} add.u32 %r16, %r16, 1; setp.lt.u32 %p3, %r16, 8; @%p3 bra LOOP;'
    loads = "shl.b32 %r17, %r16, 6; add.u32 %r17, %r4, %r17; " + "".join(
        f"ld.volatile.shared.b32 %a{n}, [%r17+{1024 * n}]; " for n in range(4)
    )
    changes = {
        "loaded": loads,
        "a constant": "".join(f"add.u32 %a{n}, %r16, {n}; " for n in range(4)),
        "added to": "".join(f"add.u32 %a{n}, %a{n}, 65537; " for n in range(4)),
    }
    for (name, change), (said, between) in (
        (x, y) for x in changes.items() for y in (("fence", FENCE), ("commit, fence", f"{COMMIT} {FENCE}"))
    ):
        yield (
            f"A in a loop, {name}: {said}",
            Kernel(8, "f32", (loop.format(f"{change} {FENCE} {of_a} BETWEEN"),), between),
        )


def _of_late_warps() -> Iterator[tuple[str, Kernel]]:
    """Warp 0 of a warpgroup has waited, and overwrites B, while another warp is late. The twin has a barrier there."""
    late = "@%p3 bra D{n}; mov.u32 %r16, 0; S{n}: ld.volatile.shared.b32 %r17, [%r4]; add.u32 %r16, %r16, 1; setp.lt.u32 %p0, %r16, 200; @%p0 bra S{n}; D{n}:"
    some = " ".join([product("bf16", 128, listed(0, 64))] * 4)
    begin = (
        "shr.u32 %r16, %r0, 7; mul.lo.u32 %r17, %r16, 128; cvt.u64.u32 %l8, %r17; add.u64 %da, %l9, %l8; mul.lo.u32 %r17, %r16, 256; cvt.u64.u32 %l8, %r17; "
        "add.u64 %db, %l10, %l8; shl.b32 %r18, %r16, 12; and.b32 %r17, %r0, 31; shl.b32 %r17, %r17, 2; add.u32 %r18, %r18, %r17; cvt.u64.u32 %l8, %r18; add.u64 %l8, %l1, %l8; "
        "add.u32 %r18, %r18, %r2; shr.u32 %r16, %r0, 5; and.b32 %r16, %r16, 3; setp.ne.u32 %p2, %r16, 0; "
    )
    overwrite = "@%p2 bra OVER; " + "".join(f"st.shared.b32 [%r18+{8192 + 128 * n}], 0; " for n in range(32)) + "OVER: bar.sync 0;"
    again = (
        "@%p2 bra AGAIN; "
        + "".join(f"ld.global.b32 %r17, [%l8+{8192 + 128 * n}]; st.shared.b32 [%r18+{8192 + 128 * n}], %r17; " for n in range(32))
        + "fence.proxy.async; AGAIN: bar.sync 0;"
    )
    for warp, (where, name) in itertools.product(
        (3, 1, 0), enumerate(("before wgmma.fence", "after wgmma.fence", "between two wgmma", "before the commit"))
    ):
        there = [late.format(n=n) if n == where else "" for n in range(4)]
        steps = f"{begin} setp.ne.u32 %p3, %r16, {warp}; {there[0]} {FENCE} {there[1]} {some} {there[2]} {some} {there[3]} {COMMIT}"
        yield (
            f"warp {warp} is late {name}, warp 0 has waited",
            Kernel(64, "f32", (f"{steps} {WAIT}", f"{overwrite} {again}"), "", "bar.sync 0;"),
        )
    steps = f"{begin} {FENCE} {some} {some} {COMMIT}"
    yield "warp 0 has not waited", Kernel(64, "f32", (steps, f"{overwrite} {WAIT} {again}"), "", f"{WAIT} bar.sync 0;")


def operands(seed: int = 1) -> np.ndarray:
    """The bytes of A and B: bf16 from 1/8 to 2 with any sign, which as f16 are from 1.25 to 2."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0x3E00, 0x4000, TILE // 2, dtype=np.uint16) | rng.integers(0, 2, TILE // 2, dtype=np.uint16) << 15
    return words.view(np.uint8)


# ---- On the card


def compiled(text: str) -> tuple[bytes, str]:
    """The cubin of a text by the toolkit's ptxas, and the codes of its warnings."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder) / "kernel.ptx", pathlib.Path(folder) / "kernel.cubin"
        source.write_text(text)
        done = subprocess.run(["ptxas", "-arch=sm_90a", str(source), "-o", str(cubin)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ptxas: {done.stderr[-500:]}")
        return cubin.read_bytes(), " ".join(sorted(set(re.findall(r"C75\d\d", done.stdout + done.stderr))))


def both(kernel: Kernel) -> tuple[tuple[bytes, str], ...]:
    """`compiled` of a kernel and of its twin."""
    return compiled(kernel.ptx(waits=False)), compiled(kernel.ptx(waits=True))


def measured(gpu: Any, kernel: Kernel, images: tuple[tuple[bytes, str], ...], launches: int, rounds: int) -> dict[str, Any]:
    """Words that are wrong of those compared, the launches with a wrong one, and the words that both leave."""
    size = 4 * THREADS * kernel.registers
    given, want, out, wrong = (gpu.allocate(n) for n in (TILE, size, size, 8))
    gpu.put(given, operands())
    found: dict[str, Any] = {"wrong": 0, "launches_wrong": 0, "words": 0}
    for name, waits, times in (("twin", True, 3), ("kernel", False, launches)):
        image, told = images[waits]
        loaded = gpu.load(image).kernel("k")
        found[f"{name}_told"] = told
        for n in range(times):
            gpu.put(wrong, np.zeros(8, np.uint8))
            args = [*(x.to_bytes(8, "little") for x in (given, want, out, wrong)), (rounds if n or not waits else 1).to_bytes(4, "little")]
            if code := gpu.execute(loaded, LaunchConfig(grid=CTAS, block=THREADS, args=args)):
                raise RuntimeError(f"CUDA error {code}")
            left, count = gpu.get(out, size), int(gpu.get(wrong, 8).view(np.uint64)[0])
            if waits and not n:
                gpu.put(want, left)
            elif waits and count:
                raise RuntimeError(f"the twin leaves other words from run to run: {count}")
            if not waits:
                found["wrong"] += count
                found["launches_wrong"] += count > 0
                found["words"] += CTAS * THREADS * kernel.registers * rounds
            if not n:
                found[name] = left.view(np.uint32)
    for address in (given, want, out, wrong):
        gpu.free(address)
    return found


def of_threads(words: np.ndarray) -> np.ndarray:
    """The registers of a few threads, a register after the other."""
    return words.reshape(-1, THREADS)[:, KEPT].reshape(-1)


def suite_arrays(made: dict[str, Kernel], rows: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """A case a kernel."""
    names = list(rows)
    return {
        "name": np.array(names),
        "ptx": np.array([made[name].ptx(waits=False).encode() for name in names]),
        "twin_ptx": np.array([made[name].ptx(waits=True).encode() for name in names]),
        "told": np.array([rows[name]["kernel_told"] for name in names]),
        "wrong": np.array([rows[name]["wrong"] for name in names], np.uint64),
        "words": np.array([rows[name]["words"] for name in names], np.uint64),
        "launches_wrong": np.array([rows[name]["launches_wrong"] for name in names], np.uint8),
        "operands": np.tile(operands(), (len(names), 1)),
        "threads": np.tile(np.arange(THREADS, dtype=np.uint16)[KEPT], (len(names), 1)),
        **ragged("twin", [of_threads(rows[name]["twin"]) for name in names], np.uint32),
        **ragged("left", [of_threads(rows[name]["kernel"]) for name in names], np.uint32),
    }


def main() -> int:
    """The command line; 1 if some kernels had no time."""
    parser = argparse.ArgumentParser(prog="python -m tools.capture.wgmma_in_flight", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0, help="begin no kernel after this time")
    parser.add_argument("--jobs", type=int, default=14, metavar="N", help="processes of ptxas")
    given = parser.parse_args()
    from smemsim.testing.recorder import Gpu

    gpu, made, rows, until, lines = Gpu(), kernels(), {}, time.monotonic() + given.seconds, []
    pool = concurrent.futures.ThreadPoolExecutor(given.jobs)
    images = {name: pool.submit(both, kernel) for name, kernel in made.items()}
    for name, kernel in made.items():
        if time.monotonic() > until:
            break
        row = rows[name] = measured(gpu, kernel, images[name].result(), LAUNCHES, ROUNDS)
        lines.append(f"{row['wrong']} of {row['words']} wrong, {row['launches_wrong']} launches | {row['kernel_told'] or '-'} | {name}")
        print(lines[-1], flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{SUITE}.txt").write_text("".join(f"{line}\n" for line in lines))
    source = {
        "command": "python -m tools.capture.wgmma_in_flight --out golden/sm_90a",
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [pathlib.Path(__file__)]},
        "ptxas": assembler(),
        "ctas": CTAS, "threads": THREADS, "launches": LAUNCHES, "rounds": ROUNDS,
    }  # fmt: skip
    write_suite(
        given.out / SUITE, suite=SUITE, kind="early_use", arch=gpu.arch, title=TITLE, device=gpu.describe(), source=source,
        cases=len(rows), arrays=suite_arrays(made, rows),
    )  # fmt: skip
    return int(len(rows) < len(made))


if __name__ == "__main__":
    sys.exit(main())
