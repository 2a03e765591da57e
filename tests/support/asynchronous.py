"""Random kernels with many asynchronous readers of shared memory, and what each overwrite may still find: a list of
operations, and who has waited for which.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import smemsim

TILE, TILES, BARS, COPIES = 4096, 2, 200, 2048
BEGIN = 0x400  # of shared memory
OUT = 1 << 17  # bytes of the result of a CTA
HEAD = f""".version 8.7
.target {{arch}}
.address_size 64
.shared .align 1024 .b8 sm[{TILE * TILES}];
.shared .align 128 .b8 to[{COPIES}];
.shared .align 8 .b64 bar[{BARS}];
.shared .align 4 .b32 tp[2];
.visible .entry k(.param .u64 in, .param .u64 out) {{{{
.reg .pred %p<40>; .reg .b32 %r<80>; .reg .b64 %rd<20>; .reg .f32 %f<200>;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; shr.u32 %r4, %r1, 7;
mov.u32 %r5, sm; mov.u32 %r6, bar; mov.u32 %r7, to; mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd3, %r9, {OUT}; add.u64 %rd2, %rd2, %rd3;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0; mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, %ntid.x;
"""
DESCRIPTOR = (
    "add.u32 %r20, %r5, {at}; and.b32 %r21, %r20, 0x3ffff; shr.u32 %r21, %r21, 4; cvt.u64.u32 %rd10, %r21; or.b64 %rd10, %rd10, {bits:#x};"
)
FENCE = "fence.proxy.async;"


@dataclasses.dataclass
class Step:
    """What some threads do: its kind, who does it (a thread, a warp, a warpgroup, warps), a tile and bytes of it, a
    number, and its line once it has one.
    """

    kind: str
    who: Any = 0
    tile: int = 0
    begin: int = 0
    size: int = 0
    number: int = 0
    line: int = 0

    @property
    def warps(self) -> list[int]:
        """The warps that issue it."""
        if self.kind in ("wgmma", "wait_wgmma"):
            return [4 * self.who + n for n in range(4)]
        return [self.who] if self.kind in ("overwrite", "wait_bar") else [self.who // 32]

    def overlaps(self, other: Step) -> bool:
        """Does it touch bytes that another one touches?"""
        return self.tile == other.tile and self.begin < other.begin + other.size and other.begin < self.begin + self.size


READERS = {"store": "bulk", "reduce": "bulk", "copy": "bulk", "wgmma": "wgmma", "mma": "tcgen05.mma", "cp": "tcgen05.cp"}
GROUPS = {"store": "bulk", "reduce": "bulk", "wgmma": "wgmma"}  # which a group of their thread, or warpgroup, completes


@dataclasses.dataclass
class Oracle:
    """What each warp knows to be over, operation by operation: nothing else decides whether an overwrite is right."""

    warps: int
    known: list[set[tuple[str, int]]] = dataclasses.field(default_factory=list)
    issued: list[Step] = dataclasses.field(default_factory=list)  # an operation's number is its place
    groups: dict[tuple[str, int], list[int]] = dataclasses.field(default_factory=dict)
    bars: dict[int, set[tuple[str, int]]] = dataclasses.field(default_factory=dict)
    of_thread: dict[int, list[int]] = dataclasses.field(default_factory=dict)  # tcgen05

    def __post_init__(self) -> None:
        self.known = [set() for _ in range(self.warps)]

    def late(self, step: Step) -> list[Step]:
        """The operations that may still read, or write, what a step overwrites."""
        known = self.known[step.warps[0]]
        found = []
        for number, op in enumerate(self.issued):
            if op.overlaps(step) and ("read" if op.kind in READERS else "done", number) not in known:
                same = op.kind == step.kind == "load" and op.number == step.number  # copies of the same bytes
                found += [] if same else [op]
        return found

    def does(self, step: Step, bar: int) -> None:
        """A step is executed; `bar` is the mbarrier that it completes on, or waits for."""
        number, of_issuer = (
            len(self.issued),
            set[tuple[str, int]]().union(*(self.known[w] for w in step.warps)) if step.kind != "meet" else set(),
        )
        if step.kind in READERS or step.kind == "load":
            self.issued.append(step)
            if step.kind in GROUPS:
                self.groups.setdefault((GROUPS[step.kind], step.who), []).append(number)
            elif step.kind in ("mma", "cp"):
                self.of_thread.setdefault(step.who, []).append(number)
            else:
                self.bars[bar] = of_issuer | {("read", number), ("done", number)}
        elif step.kind == "commit":
            self.bars[bar] = of_issuer | {(what, n) for n in self.of_thread.get(step.who, ()) for what in ("read", "done")}
        elif step.kind.startswith("wait_") and step.kind != "wait_bar":
            group = self.groups.get((step.kind[5:].removesuffix(".read"), step.who), [])
            for n in group[: len(group) - step.number]:
                for warp in step.warps:
                    self.known[warp] |= {("read", n)} if step.kind.endswith(".read") else {("read", n), ("done", n)}
        elif step.kind == "wait_bar":
            self.known[step.who] |= self.bars[bar]
        elif step.kind == "meet":
            everything = set[tuple[str, int]]().union(*(self.known[w] for w in step.who))
            for warp in step.who:
                self.known[warp] |= everything


class Drawn:
    """A random kernel: steps, some of them in a loop, up to the first overwrite that comes too early, if one does."""

    def __init__(self, seed: int, cluster: int = 1) -> None:
        self.random, self.cluster = random.Random(seed), cluster
        self.arch = self.random.choice(("sm_90a", "sm_100a"))
        self.warps = 4 * self.random.choice((1, 1, 2, 3, 5))
        self.rounds, self.ctas = self.random.choice((1, 1, 2)), self.random.choice((1, 3)) * cluster
        self.apart = (
            self.random.randrange(12) if self.ctas > 1 and self.random.random() < 0.5 else -1
        )  # behind which step the last CTA does something else
        self.is_careful = self.random.random() < 0.5  # waits for all before each overwrite, but for what it forgets
        self.steps = list[Step]()
        while len(self.steps) < self.random.randrange(6, 18):
            self._draws(self._step(len(self.steps)))
        self._draws(self._overwriting())
        self.late, self.end = self._simulated()
        self.lines: list[str] = []

    # ---- drawing

    def _thread(self) -> int:
        return 32 * self.random.randrange(self.warps)

    def _draws(self, step: Step) -> None:
        """One step more; before it, where all is to be waited for, these waits, of which one is left out at times."""
        if self.is_careful and step.kind in ("overwrite", "load"):
            issued = {(GROUPS[s.kind], s.who) for s in self.steps if s.kind in GROUPS}
            waits = [Step(f"wait_{kind}{'.read' * (kind == 'bulk' and self.random.random() < 0.7)}", who) for kind, who in sorted(issued)]
            waits += [Step("commit", who) for who in sorted({s.who for s in self.steps if s.kind in ("mma", "cp")})]
            if waits and self.random.random() < 0.4:
                waits.pop(self.random.randrange(len(waits)))
            self.steps += waits
            counted = [n for n, s in enumerate(self.steps) if s.kind in ("commit", "copy", "load")]
            waits = [Step("wait_bar", self.random.randrange(self.warps), number=n) for n in counted]
            if waits and self.random.random() < 0.2:
                waits.pop(self.random.randrange(len(waits)))
            self.steps += [*waits, Step("meet", list(range(self.warps)))]
        self.steps.append(step)

    def _step(self, n: int) -> Step:
        d = self.random
        kind = d.choices(("read", "wait", "meet", "overwrite"), (5, 4, 3, 2))[0]
        if kind == "read":
            what = d.choice(("store", "store", "reduce", "copy", *(("wgmma", "wgmma") if self.arch == "sm_90a" else ("mma", "mma", "cp"))))
            tile = d.choice((0, 0, 1))
            if what == "wgmma":
                return Step(what, d.randrange(self.warps // 4), tile, 0, 2048)
            if what in ("mma", "cp"):
                return Step(what, self._thread(), tile, 0, TILE if what == "mma" else 512)
            begin, size = d.choice(((0, 256), (0, 1024), (512, 512), (256, 1024)))
            return Step(what, self._thread(), tile, begin, min(size, 512) if what == "copy" else size, n)
        if kind == "wait":
            return self._wait()
        if kind == "meet":
            some = range(self.warps) if d.random() < 0.6 else sorted(d.sample(range(self.warps), d.randrange(2, self.warps + 1)))
            return Step("meet", list(some), number=n)
        return self._overwriting()

    def _wait(self) -> Step:
        d = self.random
        what = d.choice(("bulk", "bulk.read", "bar", "bar", *(("wgmma", "wgmma") if self.arch == "sm_90a" else ("commit", "commit"))))
        if what == "commit":
            return Step("commit", self._thread())
        if what == "bar":
            return Step("wait_bar", d.randrange(self.warps), number=-1)
        return Step(f"wait_{what}", d.randrange(self.warps // 4) if what == "wgmma" else self._thread(), number=d.choice((0, 0, 1)))

    def _overwriting(self) -> Step:
        d = self.random
        if d.random() < 0.5:
            return Step("overwrite", d.randrange(self.warps), d.choice((0, 0, 1)), d.choice((0, 0, 512, 1024)), 512)
        return Step("load", self._thread(), d.choice((0, 0, 1)), *d.choice(((0, 512), (0, 1024), (512, 512))), d.choice((0, 0, 1)))

    # ---- what is right

    def _simulated(self) -> tuple[list[Step], tuple[int, int] | None]:
        """The operations that the first early overwrite does not wait for, and its round and place."""
        oracle, completing = Oracle(self.warps), [n for n, s in enumerate(self.steps) if s.kind in ("copy", "load", "commit")]
        for n, step in enumerate(self.steps):
            if step.kind == "wait_bar" and step.number < 0:
                before = [m for m in completing if m < n]
                step.number = self.random.choice(before) if before else -1
        for turn in range(self.rounds):
            for n, step in enumerate(self.steps):
                if step.kind in ("overwrite", "load") and (late := oracle.late(step)):
                    return late, (turn, n)
                if step.kind != "wait_bar" or step.number >= 0:
                    oracle.does(step, 2 * (step.number if step.kind == "wait_bar" else n) + turn)
        return [], None

    # ---- its text

    def text(self) -> str:
        """The kernel in PTX."""
        self.lines = HEAD.format(arch=self.arch).splitlines()
        self._begin()
        self._add("ROUND:")
        for n, step in enumerate(self.steps):
            self._step_text(n, step)
            if n == self.apart:
                self._add(f"setp.ne.u32 %p12, %r9, {self.ctas - 1}; setp.ne.or.u32 %p12, %r1, 0, %p12; @!%p12 st.shared.u32 [tp+4], %r1;")
            if self.end is not None and self.end[1] == n:
                self._add(f"setp.eq.u32 %p11, %r10, {self.end[0]}; @%p11 bra OUT;")
        self._add(f"add.u32 %r10, %r10, 1; setp.lt.u32 %p11, %r10, {self.rounds}; @%p11 bra ROUND;")
        self._finish()
        return "\n".join((*self.lines, "}")) + "\n"

    def _add(self, *lines: str) -> int:
        self.lines += lines
        return len(self.lines)

    def _begin(self) -> None:
        self._add(
            f"@%p1 bra INIT; bra BEGUN; INIT: {' '.join(f'mbarrier.init.shared::cta.b64 [bar+{8 * n}], 1;' for n in range(BARS))} BEGUN:"
        )
        self._add(
            f"mad.lo.u32 %r20, %r1, 4, %r5; mov.u32 %r21, %r1; FILL: st.shared.u32 [%r20], 0x3f803f80; add.u32 %r21, %r21, {32 * self.warps};"
        )
        self._add(f"add.u32 %r20, %r20, {128 * self.warps}; setp.lt.u32 %p10, %r21, {TILE * TILES // 4}; @%p10 bra FILL;")
        if self.arch == "sm_100a":
            self._add("@!%p2 bra NOALLOC; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tp], 512;")
            self._add("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; NOALLOC:")
        else:
            self._add(" ".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(4 * len(self.steps))))
        self._add(f"{FENCE} fence.mbarrier_init.release.cluster; bar.sync 0;")
        if self.arch == "sm_100a":
            self._add("ld.shared.u32 %r8, [tp];")

    def _step_text(self, n: int, step: Step) -> None:
        if step.kind == "wait_bar" and step.number < 0:
            return
        who = {"wgmma": "%r4", "wait_wgmma": "%r4", "overwrite": "%r2", "wait_bar": "%r2"}.get(step.kind, "%r1")
        if step.kind == "meet":
            mask = sum(1 << warp for warp in step.who)
            self._add(f"{FENCE} shr.u32 %r20, {mask}, %r2; and.b32 %r20, %r20, 1; setp.ne.u32 %p10, %r20, 1;")
        else:
            self._add(f"setp.ne.u32 %p10, {who}, {step.who};")
        self._add(f"@%p10 bra S{n};")
        at, own = step.tile * TILE + step.begin, f"shl.b32 %r22, %r10, 3; add.u32 %r22, %r22, %r6; add.u32 %r22, %r22, {16 * n};"
        for line in getattr(self, f"_{step.kind.replace('.', '_')}")(n, step, at, own):
            step.line = self._add(line)
        if step.kind in GROUPS:
            self._add("cp.async.bulk.commit_group;" if step.kind != "wgmma" else "wgmma.commit_group.sync.aligned;")
        self._add(f"S{n}:")

    def _rank(self, n: int) -> int:
        """How many steps of its kind are before one."""
        return sum(step.kind == self.steps[n].kind for step in self.steps[:n])

    def _store(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"add.u32 %r20, %r5, {at}; mul.wide.u32 %rd10, %r10, 1024; add.u64 %rd10, %rd10, %rd2; add.u64 %rd10, %rd10, {2048 * (n + 4)};"
        yield f"cp.async.bulk.global.shared::cta.bulk_group [%rd10], [%r20], {step.size};"

    def _reduce(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"add.u32 %r20, %r5, {at}; mul.wide.u32 %rd10, %r10, 1024; add.u64 %rd10, %rd10, %rd2; add.u64 %rd10, %rd10, {2048 * (n + 4)};"
        yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd10], [%r20], {step.size};"

    def _copy(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"{own} add.u32 %r20, %r5, {at}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r22], {step.size};"
        yield f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%r20], {step.size}, [%r22];"

    def _load(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"{own} add.u32 %r20, %r5, {at}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r22], {step.size};"
        yield f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1+{TILE * step.number + step.begin}], {step.size}, [%r22];"

    def _overwrite(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"add.u32 %r20, %r5, {at}; mad.lo.u32 %r20, %r3, 16, %r20;"
        yield "st.shared.v4.u32 [%r20], {%r1, %r1, %r2, %r2};"

    def _wgmma(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        f = ", ".join(f"%f{4 * n + k}" for k in range(4))
        yield f"wgmma.fence.sync.aligned; {DESCRIPTOR.format(at=at, bits=8 << 16 | 16 << 32)}"
        yield f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{f}}}, %rd10, %rd10, 1, 1, 1, 0, 0;"

    def _mma(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        idesc = 1 << 4 | 1 << 7 | 1 << 10 | 2 << 17 | 8 << 24
        yield f"setp.ne.u32 %p13, %r10, 0; add.u32 %r23, %r8, {16 * self._rank(n)}; {DESCRIPTOR.format(at=at, bits=8 << 16 | 16 << 32 | 1 << 46)}"
        yield f"tcgen05.mma.cta_group::1.kind::f16 [%r23], %rd10, %rd10, {idesc}, %p13;"

    def _cp(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"add.u32 %r23, %r8, {480 + 4 * (self._rank(n) % 8)}; {DESCRIPTOR.format(at=at, bits=8 << 16 | 8 << 32 | 1 << 46)}"
        yield "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r23], %rd10;"

    def _commit(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"{own} tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r22];"

    def _wait_bar(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"shl.b32 %r22, %r10, 3; add.u32 %r22, %r22, %r6; add.u32 %r22, %r22, {16 * step.number};"
        yield f"W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p11, [%r22], 0; @!%p11 bra W{n};"

    def _wait_bulk(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"cp.async.bulk.wait_group {step.number};"

    def _wait_bulk_read(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"cp.async.bulk.wait_group.read {step.number};"

    def _wait_wgmma(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        yield f"wgmma.wait_group.sync.aligned {step.number};"

    def _meet(self, n: int, step: Step, at: int, own: str) -> Iterator[str]:
        whole = len(step.who) == self.warps
        yield f"bar.sync {0 if whole else 1 + n % 15}{'' if whole else f', {32 * len(step.who)}'}; {FENCE}"

    def _finish(self) -> None:
        """All is waited for, and every product is used."""
        self._add("OUT:", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;")
        used = [n for n, step in enumerate(self.steps) if step.kind in ("wgmma", "mma")]
        if self.arch == "sm_90a":
            self._add("wgmma.wait_group.sync.aligned 0;", "bar.sync 0;", "mov.f32 %f199, 0f00000000;")
            self._add(*(f"add.f32 %f199, %f199, %f{4 * n + k};" for n in used for k in range(4)))
        else:
            self._finish_tensor(used)
        self._add("mul.wide.u32 %rd10, %r1, 4; add.u64 %rd10, %rd10, %rd2; st.global.f32 [%rd10], %f199;", "ret;")

    def _finish_tensor(self, used: Iterable[int]) -> None:
        last = BARS - self.warps  # an mbarrier of each warp
        self._add(f"setp.ne.u32 %p10, %r3, 0; shl.b32 %r22, %r2, 3; add.u32 %r22, %r22, %r6; add.u32 %r22, %r22, {8 * last};")
        self._add("@%p10 bra COMMITTED; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r22]; COMMITTED:")
        for warp in range(self.warps):
            self._add(f"V{warp}: mbarrier.try_wait.parity.shared::cta.b64 %p11, [%r6+{8 * (last + warp)}], 0; @!%p11 bra V{warp};")
        self._add("bar.sync 0; tcgen05.fence::after_thread_sync; mov.f32 %f199, 0f00000000; setp.gt.u32 %p10, %r2, 3; @%p10 bra READ;")
        for n in used:
            self._add(f"shl.b32 %r20, %r2, 21; add.u32 %r20, %r20, %r8; add.u32 %r20, %r20, {16 * self._rank(n)};")
            self._add(self._load_sums())
        self._add(
            "READ: tcgen05.fence::before_thread_sync; bar.sync 0; @!%p2 bra KEEP; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 512; KEEP:"
        )

    @staticmethod
    def _load_sums() -> str:
        r = [f"%r{40 + k}" for k in range(16)]
        sums = " ".join(f"mov.b32 %f1, {one}; add.f32 %f199, %f199, %f1;" for one in r)
        return f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{', '.join(r)}}}, [%r20]; tcgen05.wait::ld.sync.aligned; {sums}"

    # ---- what smemsim says

    def run(self, **how: Any) -> list[Any]:
        """What is found."""
        gpu = smemsim.Gpu(self.arch)
        args = [gpu.array(np.arange(2 * TILE // 4, dtype=np.uint32)), gpu.array(np.zeros(OUT // 4 * self.ctas, np.uint32))]
        return list(
            gpu.launch(
                self.text(), "k", grid=self.ctas, block=32 * self.warps, cluster=self.cluster, args=args, progress=False, workers=1, **how
            ).findings
        )

    def disagreement(self, **how: Any) -> str:
        """Where what is found is not what the oracle says; "" where it is."""
        return self.compared(self.run(**how))

    def compared(self, findings: list[Any]) -> str:
        """The same of what was found."""
        shared = [f for f in findings if f.code == "X005" and f.touched]
        found = [f for f in shared if f.halves[1].does == "read" or f.touched[0].begin < BEGIN + TILE * TILES]
        told = {(f.line, f.halves[1].instruction.line) for f in found}
        if self.end is None:
            return f"false: {[str(f) for f in found]}" if found else ""
        over, late = self.steps[self.end[1]].line, {op.line: READERS.get(op.kind, "bulk") for op in self.late}
        kinds = {late.get(line, f"line {line}") for at, line in told if at == over}
        if {at for at, _ in told} != {over} or kinds != set(late.values()):
            return f"line {over} overwrites what lines {late} have: told {sorted(told)}"
        return ""
