"""`concurrent`: small random kernels, whose threads share memory in all ways that PTX has.

A program is a list of steps: instructions of the table of forms (`concurrent_forms.py`), loops and branches. It has 1
to 4 warps and 1 to 4 CTAs, some with clusters, mbarriers, or a schedule. Most programs have findings. Each program runs
three times: by the interpreter, without cohorts, and by JIT-compiled blocks. Bytes, status and findings must be equal.

A deterministic program leaves the same bytes on every card, if it is right. Its threads do not write different values
to one address, every register has a value, and the results of atomics and of strong loads are not used. All its atomics
have one operation, and no strong store writes the flags that they change. `tools/capture/concurrent_programs.py` runs
such programs on a card.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from smemsim.base.garbage import seldom_collected
from smemsim.campaign.space import Case, ChunkResult, Space, drawn, one_by_one, shrunk
from smemsim.campaign.spaces.cohorts import LIMIT, difference, outcome
from smemsim.campaign.spaces.concurrent_forms import FAMILIES, Family, Form
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.gpu import Gpu
from smemsim.run.engine.launch import LaunchConfig

__all__ = ["ARRAYS", "SPACE", "STEPS", "WORDS", "Block", "Operands", "Program", "draw", "simpler", "trouble_of"]


CHUNK_CASES = 16
WORDS = 2048  # of 32 bits in each array: the largest launch has 512 threads, of 16 bytes each
ARRAYS = ("in", "out", "flags")
STEPS = "// steps\n"  # the line of the text before the steps
BOX = 16  # words of a tensor copy
BRANCH_WEIGHT, LOOP_WEIGHT = 3.0, 1.0  # of blocks, next to the weights of families
OPERATIONS = ("add.u32", "add.u32", "or.b32", "max.u32", "min.u32", "xor.b32")
OPEN_OPERATIONS = (*OPERATIONS, "and.b32", "add.s32", "min.s32", "max.s32")

# The registers of a program. %v, %w and %h (32, 64, 16 bits) hold values. Nothing reads %x, %xw and %xh. Addresses of a
# thread in shared memory: %own its word, %other that of a thread of another warp, %near that of the next lane, %own8
# and %own16 for wider accesses. In global memory: %mine, %ofwarp, %ofcta, %ofnear. %flag is a word of the CTA,
# %warpflag one of the warp. %peer is %own in another CTA of the cluster.
_BEGIN = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry concurrent(.param .align 64 .b8 map[128], .param .align 64 .b8 outmap[128], .param .u64 in, .param .u64 out, .param .u64 flags) {
.reg .pred %p<9>, %done, %more; .reg .b32 %v<8>, %n<8>, %x, %y, %t, %cta, %count, %thread, %warp, %lane;
.reg .b32 %tile, %own, %other, %near, %own8, %own16, %bars, %rank, %peer, %peer8, %peer16, %peerbars;
.reg .b64 %w<4>, %xw, %state, %to, %map, %outmap, %input, %in, %inrow, %output, %mine, %ofwarp, %ofcta, %ofnear, %mine8, %mine16, %flags, %flag, %warpflag;
.reg .b16 %h<2>, %xh;
.shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 bars[16];
ld.param.u64 %input, [in]; ld.param.u64 %output, [out]; ld.param.u64 %flags, [flags]; mov.b64 %map, map; cvta.param.u64 %map, %map; mov.b64 %outmap, outmap; cvta.param.u64 %outmap, %outmap;
mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %count, %ntid.x; mad.lo.u32 %thread, %cta, %count, %t; shr.u32 %warp, %t, 5; and.b32 %lane, %t, 31;
mov.u32 %tile, tile; mov.u32 %bars, bars; shl.b32 %y, %t, 2; add.u32 %own, %tile, %y; xor.b32 %y, %y, 128; add.u32 %other, %tile, %y;
xor.b32 %y, %t, 1; shl.b32 %y, %y, 2; add.u32 %near, %tile, %y; shl.b32 %y, %t, 3; add.u32 %own8, %tile, %y; shl.b32 %y, %t, 4; add.u32 %own16, %tile, %y;
mul.wide.u32 %to, %thread, 4; add.u64 %in, %input, %to; add.u64 %mine, %output, %to;
xor.b32 %y, %thread, 32; mul.wide.u32 %to, %y, 4; add.u64 %ofwarp, %output, %to; xor.b32 %y, %thread, %count; mul.wide.u32 %to, %y, 4; add.u64 %ofcta, %output, %to;
xor.b32 %y, %thread, 1; mul.wide.u32 %to, %y, 4; add.u64 %ofnear, %output, %to; mul.wide.u32 %to, %thread, 8; add.u64 %mine8, %output, %to;
mul.wide.u32 %to, %thread, 16; add.u64 %inrow, %input, %to; add.u64 %mine16, %output, %to;
mul.wide.u32 %to, %cta, 4; add.u64 %flag, %flags, %to; mul.wide.u32 %to, %warp, 4; add.u64 %warpflag, %flags, %to;
setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p1, %warp, 0; setp.eq.u32 %p2, %lane, 0; setp.eq.u32 %p3, %cta, 0; setp.lt.u32 %p4, %lane, 16; setp.ne.u32 %p5, %warp, 1;
setp.eq.u32 %p6, %lane, 3; setp.eq.u32 %p7, %lane, 7; setp.eq.u32 %p8, %t, 0; setp.eq.u32 %done, %t, 0;
mov.u32 %v0, %thread; mov.u32 %v1, 1; mov.u32 %v2, 2; mov.u32 %v3, 3; mov.u32 %v4, %t; mov.u64 %w0, 5; cvt.u64.u32 %w1, %thread; mov.b16 %h0, 1;
mov.u32 %x, 0; mov.u64 %state, 0;
"""
_LAST_VALUES = "mov.u32 %v5, 5; mov.u32 %v6, %lane; mov.u32 %v7, %warp; mov.u64 %w2, 2; cvt.u64.u32 %w3, %lane; mov.b16 %h1, 2;\n"
_IN_CLUSTER = """mov.u32 %rank, %cluster_ctarank; xor.b32 %rank, %rank, {across};
mapa.shared::cluster.u32 %peer, %own, %rank; mapa.shared::cluster.u32 %peer8, %own8, %rank; mapa.shared::cluster.u32 %peer16, %own16, %rank; mapa.shared::cluster.u32 %peerbars, %bars, %rank;
"""
_ENDS = (
    "add.u32 %v0, %v0, %v1; add.u32 %v0, %v0, %v2; st.global.u32 [%mine], %v0;",
    "st.global.u32 [%mine], %v3;",
    "xor.b32 %v3, %v3, %v4; add.u32 %v3, %v3, %v5; xor.b32 %v3, %v3, %v6; add.u32 %v3, %v3, %v7; st.global.u32 [%mine], %v3;",
    "add.u64 %w0, %w0, %w1; add.u64 %w0, %w0, %w2; st.global.u64 [%mine8], %w0;",
)


class Block(NamedTuple):
    """Steps inside a loop or a branch: how it begins, what is inside, how it ends."""

    begin: str
    inside: tuple[Any, ...]  # of str and Block
    end: str


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: its steps (str or Block), its launch, and the seed of its input.

    The ranks of a CTA and of its peer differ in the bits `across`. With `has_all_values`, no register begins without a
    value. With `has_zeros`, the array `out` begins with zeros. Else it is uninitialised.
    """

    box: ClassVar[int] = BOX
    steps: tuple[Any, ...]
    warps: int
    ctas: int
    cluster: int = 1
    across: int = 1
    seed: int = 0
    schedule: int | str | None = None
    has_all_values: bool = True
    has_zeros: bool = True

    def text(self) -> str:
        """The PTX."""
        begin = _BEGIN + _LAST_VALUES * self.has_all_values + (_IN_CLUSTER.format(across=self.across) if self.cluster > 1 else "")
        return begin + STEPS + "\n".join(_flat(self.steps)) + "\nret;\n}\n"

    def inputs(self) -> dict[str, np.ndarray]:
        """What the arrays hold before the launch."""
        zeros = np.zeros(WORDS, np.uint32)
        return {"in": np.random.default_rng(self.seed).integers(0, 64, WORDS).astype(np.uint32), "out": zeros, "flags": zeros}

    def maps(self, addresses: dict[str, int]) -> list[TensorMap]:
        """The tensor maps of `in` and `out`."""
        return [
            TensorMap.tiled(**_MAP, box_dim=[self.box], global_address=addresses[name], global_strides=(), arch="sm_90a")
            for name in ("in", "out")
        ]

    def config(self, args: list[Any]) -> LaunchConfig:
        """The shape of the launch."""
        cluster = (self.cluster,) if self.cluster > 1 else None
        return LaunchConfig(grid=(self.ctas,), block=(32 * self.warps,), cluster=cluster, args=args)

    def outcome(self, *, cohorts: bool = True, tiers: str = "closures") -> Any:
        """Bytes, status, findings and remarks, or the sentence with which smemsim refuses the program."""
        gpu = Gpu("sm_90a")
        arrays = [
            gpu.empty(WORDS, np.uint32) if name == "out" and not self.has_zeros else gpu.array(data) for name, data in self.inputs().items()
        ]
        maps = self.maps({name: array.address for name, array in zip(ARRAYS, arrays, strict=True)})
        return outcome(gpu, self.text(), self.config([*maps, *arrays]), arrays, cohorts=cohorts, tiers=tiers, schedule=self.schedule)

    def launch_file(self) -> dict[str, Any]:
        """A launch file for `smemsim run`."""
        recipes = {"in": {"values": self.inputs()["in"].tolist()}, "out": "zeros" if self.has_zeros else "empty", "flags": "zeros"}
        maps = [{"map": {**_MAP, "box_dim": [self.box], "global_address": name, "global_strides": []}} for name in ("in", "out")]
        return {
            "entry": "concurrent",
            "arch": "sm_90a",
            "grid": [self.ctas],
            "block": [32 * self.warps],
            **({"cluster": [self.cluster]} if self.cluster > 1 else {}),
            **({} if self.schedule is None else {"schedule": self.schedule}),
            "limit": LIMIT,
            "arrays": [{"name": name, "dtype": "u32", "shape": [WORDS], "distribution": recipe} for name, recipe in recipes.items()],
            "args": [*maps, *({"array": name} for name in ARRAYS)],
        }


_MAP: dict[str, Any] = {"data_type": "u32", "global_dim": [WORDS], "element_strides": [1], "interleave": "none", "swizzle": "none",
                        "l2_promotion": "none", "oob_fill": "zeros"}  # fmt: skip


def _flat(steps: tuple[Any, ...]) -> list[str]:
    found: list[str] = []
    for step in steps:
        found += [step] if isinstance(step, str) else [step.begin, *_flat(step.inside), step.end]
    return found


# ---- How programs are drawn


class Operands:
    """The words in angle brackets of forms, drawn for one program."""

    def __init__(self, rng: random.Random, *, warps: int, cluster: int, is_deterministic: bool) -> None:
        self.rng, self.cluster, self.is_deterministic = rng, cluster, is_deterministic
        self.labels = itertools.count()
        self.threads = 32 * warps
        one = rng.choice(OPERATIONS)
        operations = (one,) if is_deterministic else OPEN_OPERATIONS
        self.computed: dict[str, Callable[[], str]] = {
            "value": lambda: f"%v{rng.randrange(8)}",
            "wide": lambda: f"%w{rng.randrange(4)}",
            "half": lambda: f"%h{rng.randrange(2)}",
            "two": lambda: self._vector(2),
            "four": lambda: self._vector(4),
            "result": lambda: self._result("%x", "value"),
            "wide_result": lambda: self._result("%xw", "wide"),
            "half_result": lambda: self._result("%xh", "half"),
            "sum8": lambda: "%tile+1536" if is_deterministic else self.draw("shared8"),
            "global_sum8": lambda: rng.choice(("%flags+128", "%flags+136")) if is_deterministic else self.draw("word8"),
            "global_sum2": lambda: rng.choice(("%flags+160", "%flags+162")) if is_deterministic else self.draw("word"),
            "ordered": lambda: self._semantics(("", "", ".relaxed", ".acquire", ".release", ".acq_rel")),
            "released": lambda: self._semantics(("", ".relaxed", ".release")),
            "operation": lambda: rng.choice(operations),
            "operation64": lambda: rng.choice(operations).replace("32", "64").replace("add.s64", "add.u64"),
            "bulk_operation": lambda: rng.choice(operations),
            "tensor_operation": lambda: rng.choice(operations).partition(".")[0],
            "threads": lambda: str(self.threads),
            "some_threads": lambda: str(32 * max(1, warps // 2)),
            "count": lambda: str(rng.choice((1, 32, self.threads))),
            "rank": lambda: str(rng.randrange(cluster)),
            "ranks": lambda: str((1 << cluster) - 1),
        }

    def fill(self, text: str) -> str:
        """The text with all its words drawn. An mbarrier, a size and a label are the same in the whole text."""
        once: dict[str, str] = {}

        def word(found: re.Match[str]) -> str:
            name = found[1]
            if name not in ("bar", "size", "label"):
                return self.draw(name)
            return once.setdefault(name, f"L{next(self.labels)}" if name == "label" else self.draw(name))

        return re.sub(r"<(\w+)>", word, text)

    def draw(self, name: str) -> str:
        """One word."""
        return self.computed[name]() if name in self.computed else self.rng.choice(_CHOICES[name])

    def guard(self) -> str:
        """A predicate, maybe negated."""
        return self.rng.choice(("", "", "!")) + self.draw("truth")

    def _vector(self, count: int) -> str:
        return "{" + ", ".join(f"%v{n}" for n in self.rng.sample(range(8), count)) + "}"

    def _result(self, unread: str, kind: str) -> str:
        return unread if self.is_deterministic or self.rng.random() < 0.3 else self.draw(kind)

    def _semantics(self, choices: tuple[str, ...]) -> str:
        found = self.rng.choice(choices)
        return found and f"{found}.{self.draw('scope')}"


_SLOTS = ("%own", "%own", "%other", "%near")
_CELLS = ("%mine", "%mine", "%ofwarp", "%ofcta", "%ofnear")
_CHOICES: dict[str, tuple[str, ...]] = {
    "slot": _SLOTS, "slot8": ("%own8",), "slot16": ("%own16",),
    "shared": (*_SLOTS, "%own", "%tile", "%tile+64"), "shared8": ("%own8", "%tile", "%tile+64"), "shared16": ("%own16", "%tile", "%tile+64"),
    "common": ("%tile", "%tile+64", "%tile+4"), "block": ("%tile", "%tile", "%tile+64", "%tile+1024"), "box": ("%tile", "%tile+128", "%tile+1024"),
    "cell": _CELLS, "cell8": ("%mine8",), "cell16": ("%mine16",),
    "word": (*_CELLS, "%output", "%flag", "%warpflag", "%flags"), "word8": ("%mine8", "%output", "%flags"), "word16": ("%mine16", "%output", "%inrow"),
    "bar": ("%bars", "%bars", "%bars+8"), "parity": ("0", "0", "1"), "acquired": ("", "", "", ".acquire.cluster", ".relaxed.cta", ".acquire.cta"),
    "scope": ("cta", "cluster", "gpu", "gpu", "sys"), "size": ("64", "64", "128"), "mask": ("0xffff", "0xffff", "-1"),
    "truth": ("%p0", "%p1", "%p2", "%p3", "%p4", "%p5", "%p0", "%p1", "%p2", "%p3", "%p4", "%p5", "%p6", "%p7", "%p8"),
    "written_truth": ("%p4", "%p5", "%p6", "%p7", "%p8"), "leader": ("@%p0", "@%p0", "@%p2"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Draws steps: families and their forms that fit the program."""

    operands: Operands
    families: tuple[Family, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, operands: Operands, *, has_mbarriers: bool) -> _Steps:
        """The families whose forms fit."""

        def fits(form: Form) -> bool:
            return (
                (has_mbarriers or not form.needs_mbarriers)
                and (operands.cluster > 1 or not form.needs_cluster)
                and not (form.is_open and operands.is_deterministic)
            )

        found = [family._replace(forms=tuple(filter(fits, family.forms))) for family in FAMILIES.values()]
        found = [family for family in found if family.forms]
        return cls(operands, tuple(found), (*(family.weight for family in found), BRANCH_WEIGHT, LOOP_WEIGHT))

    def draw(self) -> Any:
        """One step."""
        rng = self.operands.rng
        number = rng.choices(range(len(self.weights)), self.weights)[0]
        if number == len(self.families):
            return self._branch()
        if number > len(self.families):
            return self._loop()
        family = self.families[number]
        form = rng.choices(family.forms, [form.weight for form in family.forms])[0]
        return self._guarded(self.operands.fill(form.text), family.guarded)

    def _guarded(self, text: str, how_often: float) -> str:
        """The form, sometimes under a predicate. A branch leads around several instructions."""
        if text[0] == "@" or self.operands.rng.random() >= how_often:
            return text
        guard = self.operands.guard()
        if text.count(";") == 1:
            return f"@{guard} {text}"
        label = self.operands.fill("<label>")
        return f"@{_negated(guard)} bra {label}; {text} {label}:"

    def _branch(self) -> Block:
        label = self.operands.fill("<label>")
        return Block(f"@{self.operands.guard()} bra {label};", (self.draw(), self.draw()), f"{label}:")

    def _loop(self) -> Block:
        number = next(self.operands.labels)
        counter, trips = f"%n{number % 8}", self.operands.rng.choice((2, 3))
        end = f"add.u32 {counter}, {counter}, 1; setp.lt.u32 %more, {counter}, {trips}; @%more bra L{number};"
        return Block(f"mov.u32 {counter}, 0; L{number}:", (self.draw(), self.draw(), self.draw()), end)


def _negated(guard: str) -> str:
    return guard[1:] if guard[0] == "!" else f"!{guard}"


def draw(rng: random.Random, *, is_deterministic: bool = False) -> Program:
    """A program."""
    cluster = rng.choice((2, 2, 4)) if rng.random() < 0.3 else 1
    warps = rng.choice((1, 2, 2, 4))
    ctas = rng.choice((1, 1, 2, 2, 4)) if cluster == 1 else rng.choice((cluster, 4))
    operands = Operands(rng, warps=warps, cluster=cluster, is_deterministic=is_deterministic)
    has_mbarriers = rng.random() < 0.6
    drawn_steps = _Steps.of(operands, has_mbarriers=has_mbarriers)
    steps: list[Any] = _mbarriers(rng, cluster, operands.threads) if has_mbarriers else []
    if rng.random() < 0.4:
        meets = rng.choice(("bar.sync 0;", "bar.sync 0;", "fence.proxy.async; bar.sync 0;"))
        steps.append(f"st.shared.v4.b32 [%own16], {operands.draw('four')}; {meets}")
    steps += [drawn_steps.draw() for _ in range(rng.randrange(4, 16))]
    if rng.random() < 0.6:
        steps.append("bar.sync 0;")
    if cluster > 1 and rng.random() < 0.6:
        steps.append("barrier.cluster.arrive; barrier.cluster.wait;")
    steps.append(rng.choices(_ENDS, (4, 2, 2, 1))[0])
    schedule = rng.choice(("latest", "earliest", 3, 5)) if rng.random() < 0.15 else None
    has_all_values = is_deterministic or rng.random() < 0.7
    has_zeros = is_deterministic or rng.random() < 0.7
    return Program(tuple(steps), warps, ctas, cluster, rng.randrange(1, cluster) if cluster > 1 else 1, rng.randrange(1 << 30), schedule, has_all_values, has_zeros)  # fmt: skip


def _mbarriers(rng: random.Random, cluster: int, threads: int) -> list[str]:
    """Two mbarriers begin, in most programs before all threads meet."""
    counts = rng.choice((1, 1, 32, threads)), rng.choice((1, threads))
    steps = [f"@%p0 mbarrier.init.shared.b64 [%bars], {counts[0]}; @%p0 mbarrier.init.shared.b64 [%bars+8], {counts[1]};"]
    if rng.random() < 0.85:
        in_cta = cluster == 1 or rng.random() < 0.4
        meet = rng.choice(("bar.sync 0;", "bar.sync 0;", "fence.proxy.async; bar.sync 0;"))
        steps.append(meet if in_cta else "fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;")
    return steps


def simpler(program: Program) -> Iterator[Program]:
    """Fewer steps, CTAs and warps, no schedule."""
    for steps in _fewer(program.steps):
        yield dataclasses.replace(program, steps=steps)
    if program.ctas > program.cluster:
        yield dataclasses.replace(program, ctas=program.cluster)
    if program.warps > 1:
        yield dataclasses.replace(program, warps=program.warps // 2)
    if program.schedule is not None:
        yield dataclasses.replace(program, schedule=None)


def _fewer(steps: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for n, step in enumerate(steps):
        before, after = steps[:n], steps[n + 1 :]
        yield before + after
        if isinstance(step, Block):
            yield before + step.inside + after
            for inside in _fewer(step.inside):
                yield (*before, step._replace(inside=inside), *after)


# ---- How they are compared

WAYS: dict[str, dict[str, Any]] = {"interpreter": {}, "without cohorts": {"cohorts": False}, "JIT": {"tiers": "compiled"}}


def trouble_of(program: Program) -> tuple[str, Any]:
    """In what the ways to run a program differ, or its internal error, in a sentence; "" for neither. And what the
    first way leaves.
    """
    first, *others = WAYS
    found = {way: _run(program, **options) for way, options in WAYS.items()}
    for way, result in found.items():
        if _is_internal(result):
            return f"{way}: {result}", found[first]
    told = ((way, difference(found[first], found[way], (first, way))) for way in others)
    return next((f"{first} and {way}: {what}" for way, what in told if what), ""), found[first]


def _is_internal(result: Any) -> bool:
    """Is it an internal error?"""
    return isinstance(result, str) and result.startswith(("InternalError", "raises"))


def _run(program: Program, **options: Any) -> Any:
    try:
        return program.outcome(**options)
    except Exception as e:  # an internal error is a result, too
        return f"raises {type(e).__name__}: {e}"


def _case(seed: int, chunk: int, number: int) -> Case:
    program = draw(drawn("concurrent", seed, chunk, number))
    wrong, found = trouble_of(program)
    said = "internal error" if _is_internal(found) else "refused" if isinstance(found, str) else "with findings" if found[2] else "silent"
    clusters = f"clusters of {program.cluster}" if program.cluster > 1 else "no cluster"
    of = f"{said}, {clusters}{', a schedule' * (program.schedule is not None)}"
    if not wrong:
        return Case(of, {"kernel.ptx": program.text()})
    small = shrunk(program, simpler, lambda other: bool(trouble_of(other)[0]))
    return Case(f"wrong: {of}", {"kernel.ptx": small.text(), "launch.json": small.launch_file()}, trouble_of(small)[0])


def _chunk(seed: int, chunk: int) -> ChunkResult:
    """A chunk. Garbage of its launches is collected rarely."""
    with seldom_collected():
        return one_by_one("concurrent", _case, CHUNK_CASES)(seed, chunk)


SPACE = Space("concurrent", "random programs whose threads share memory: cohorts against single CTAs, JIT-compiled blocks against the interpreter: bytes in memory, status, and findings", _chunk, CHUNK_CASES, _case)  # fmt: skip
