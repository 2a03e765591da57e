"""`ptx`: random PTX programs, run by the interpreter and by JIT-compiled blocks. Results and findings must be equal.

A program is a list of lines. A line may contain others (a loop, a branch). It uses registers of every class, words of
global memory, and words of shared memory of its thread or of neighbours, with and without a barrier. All registers are
stored at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from smemsim.base import store
from smemsim.base.errors import SmemsimError
from smemsim.base.garbage import seldom_collected
from smemsim.campaign.space import Case, ChunkResult, Space, drawn, one_by_one, shrunk
from smemsim.core.spec.ptx_words import NO_SELECTOR
from smemsim.diagnosis.gpu import Gpu
from smemsim.run.jit.objects import LEVEL
from smemsim.run.jit.tier import TIERS, begin_again

__all__ = ["SPACE", "STORED", "Program", "difference", "draw", "runs", "simpler"]


CHUNK_CASES = 32
# one of so many programs is compiled as launches compile, the others without LLVM's optimisations, which take most of a
# program's time
OPTIMISED = 8
WORDS = 4  # of 64 bits that a thread has in the array of inputs
REGISTERS = {"r": ("b32", 6), "d": ("b64", 4), "f": ("f32", 5), "g": ("f64", 3), "p": ("pred", 3), "h": ("b16", 3)}
STORED = tuple((letter, number) for letter, (_, count) in REGISTERS.items() if letter != "p" for number in range(count))

# The forms of a line. {r} {d} {f} {g} {p} {h} is a register of that class, {x} one of {w} bits, {n} that or a number,
# {y} one of the float type {t}. {s} is u or s. {u} {v} {b} is a number below 32, 33, 256, {q} a number of 16 bits.
# {c} {e} {o} is the offset of one, two, four words, {a} of a byte. {z} is nothing or .ftz, {three} three registers.
# Not drawn, because ptxas compiles it wrong (docs/found/ptxas.md): lop3 of two equal registers, bfi of 32 bits, SIMD
# video sums under a predicate.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_FORMS: dict[str, tuple[str, ...]] = {
    "integer": (
        "add.{s}{w} {x}, {x}, {n}", "sub.{s}{w} {x}, {x}, {n}", "mul.lo.{s}{w} {x}, {x}, {n}", "mul.hi.{s}{w} {x}, {x}, {n}",
        "min.{s}{w} {x}, {x}, {n}", "max.{s}{w} {x}, {x}, {n}", "and.b{w} {x}, {x}, {n}", "or.b{w} {x}, {x}, {n}", "xor.b{w} {x}, {x}, {n}",
    ),
    "float": (
        "add.rn.{t} {y}, {y}, {y}", "sub.rn.{t} {y}, {y}, {y}", "mul.rn.{t} {y}, {y}, {y}", "div.rn.{t} {y}, {y}, {y}", "min.{t} {y}, {y}, {y}",
        "max.{t} {y}, {y}, {y}", "add.rn.ftz.f32 {f}, {f}, {f}", "sub.rn.ftz.f32 {f}, {f}, {f}", "mul.rn.ftz.f32 {f}, {f}, {f}",
        "min{z}.NaN.f32 {f}, {f}, {f}", "max{z}.NaN.f32 {f}, {f}, {f}", "min.ftz.f32 {f}, {f}, {f}", "add.rz.{t} {y}, {y}, {y}", "mul.rm.{t} {y}, {y}, {y}",
        "add.rp{z}.f32 {f}, {f}, {f}", "add.rn.sat.f32 {f}, {f}, {f}",
    ),
    "one": (
        "not.b{w} {x}, {x}", "neg.s{w} {x}, {x}", "abs.s{w} {x}, {x}", "popc.b{w} {r}, {x}", "clz.b{w} {r}, {x}", "brev.b{w} {x}, {x}", "neg.{t} {y}, {y}",
        "abs.{t} {y}, {y}", "sqrt.rn.{t} {y}, {y}", "bfind.{s}{w} {r}, {x}", "rcp.rn.{t} {y}, {y}",
    ),
    "three": (
        "mad.lo.s{w} {x}, {x}, {n}, {x}", "mad.hi.{s}{w} {x}, {x}, {n}, {x}", "mad.wide.{s}32 {d}, {r}, {r}, {d}", "mul.wide.{s}32 {d}, {r}, {r}",
        "fma.rn.{t} {y}, {y}, {y}, {y}", "fma.rn.{t} {y}, {y}, {y}, {y}", "fma.rz.{t} {y}, {y}, {y}, {y}", "lop3.b32 {r}, {three}, {b}",
        "shf.l.wrap.b32 {r}, {r}, {r}, {r}", "shf.r.wrap.b32 {r}, {r}, {r}, {r}", "shf.l.clamp.b32 {r}, {r}, {r}, {r}", "shf.r.clamp.b32 {r}, {r}, {r}, {r}",
        "shl.b{w} {x}, {x}, {r}", "shr.{s}{w} {x}, {x}, {r}", "bfe.u32 {r}, {r}, {r}, {v}", "bfe.{s}32 {r}, {r}, {u}, {v}", "bfi.b32 {r}, {r}, {r}, {u}, {u}",
        "sad.{s}32 {r}, {r}, {r}, {r}", "prmt.b32 {r}, {r}, {r}, {r}", "prmt.b32 {r}, {r}, {r}, {q}", "dp4a.s32.u32 {r}, {r}, {r}, {r}", "dp2a.lo.u32.s32 {r}, {r}, {r}, {r}",
        "add.cc.u32 {r}, {r}, {r}; addc.u32 {r}, {r}, {r}", "sub.cc.u32 {r}, {r}, {r}; subc.u32 {r}, {r}, {r}", "fns.b32 {r}, {r}, {u}, {r}",
        "fns.b32 {r}, {r}, {r}, {r}", "fns.b32 {r}, {r}, {u}, -2147483648", "bfe.{s}64 {d}, {d}, {u}, {v}", "bfi.b64 {d}, {d}, {d}, {u}, {u}",
    ),
    "half": (
        "add.rn.f16x2 {r}, {r}, {r}", "mul.rn.f16x2 {r}, {r}, {r}", "fma.rn.f16x2 {r}, {r}, {r}, {r}", "fma.rn.bf16x2 {r}, {r}, {r}, {r}",
        "max.f16x2 {r}, {r}, {r}", "min.bf16x2 {r}, {r}, {r}", "add.rn.bf16 {h}, {h}, {h}", "fma.rn.f16 {h}, {h}, {h}, {h}",
        "cvt.rn.f16.f32 {h}, {f}", "cvt.rn.bf16.f32 {h}, {f}", "cvt.rn.f16x2.f32 {r}, {f}, {f}", "cvt.rn.bf16x2.f32 {r}, {f}, {f}",
        "cvt.f32.f16 {f}, {h}", "cvt.f32.bf16 {f}, {h}", "mov.b32 {{{h}, {h}}}, {r}", "cvt.rp{z}.f16.f32 {h}, {f}", "cvt.rm{z}.f16.f32 {h}, {f}",
        "cvt.rp{z}.sat.f16.f32 {h}, {f}", "cvt.rz{z}.f16.f32 {h}, {f}",
    ),
    "convert": (
        "cvt.rn.f32.s32 {f}, {r}", "cvt.rn.f32.u32 {f}, {r}", "cvt.rzi.s32.f32 {r}, {f}", "cvt.rni.u32.f32 {r}, {f}", "cvt.rmi.s32.f32 {r}, {f}",
        "cvt.rpi.u32.f32 {r}, {f}", "cvt.u64.u32 {d}, {r}", "cvt.s64.s32 {d}, {r}", "cvt.u32.u64 {r}, {d}", "mov.b32 {r}, {f}", "mov.b32 {f}, {r}",
        "cvt.s32.s8 {r}, {r}", "cvt.u32.u16 {r}, {h}", "cvt.s32.s16 {r}, {h}", "cvt.u16.u32 {h}, {r}", "cvt.sat.u16.s32 {h}, {r}", "cvt.f64.f32 {g}, {f}",
        "cvt.rn.f32.f64 {f}, {g}", "cvt.rn.f32.s64 {f}, {d}", "cvt.rn.f64.u64 {g}, {d}", "cvt.rzi.s64.f64 {d}, {g}", "mov.b64 {d}, {g}",
        "mov.b64 {d}, {{{r}, {r}}}", "mov.b64 {{{r}, {r}}}, {d}",
    ),
    "compare": (
        *(f"setp.{how}.{{s}}{{w}} {{p}}, {{x}}, {{n}}" for how in _COMPARISONS), *(f"setp.{how}.{{t}} {{p}}, {{y}}, {{y}}" for how in _COMPARISONS),
        *(f"setp.{how}{{z}}.f32 {{p}}, {{f}}, {{f}}" for how in _UNORDERED), "setp.lt.and.s{w} {p}, {x}, {n}, {p}", "setp.ge.xor.f32 {p}, {f}, {f}, {p}",
        "setp.ne.or.u{w} {p}, {x}, {n}, !{p}", "and.pred {p}, {p}, {p}", "or.pred {p}, {p}, {p}", "xor.pred {p}, {p}, {p}", "not.pred {p}, {p}",
    ),
    "select": ("selp.b{w} {x}, {x}, {n}, {p}", "selp.b{w} {x}, {x}, {n}, {p}", "selp.{t} {y}, {y}, {y}, {p}", "slct.u32.s32 {r}, {r}, {r}, {r}"),
    "memory": (
        "ld.global.b32 {r}, [%at+{c}]", "ld.global.b64 {d}, [%at+{e}]", "st.global.b32 [%at+{c}], {r}", "ld.global.u8 {r}, [%at+{a}]", "st.global.b16 [%at+{c}], {h}",
        "ld.global.s8 {r}, [%at+{a}]", "ld.global.v2.b32 {{{r}, {r}}}, [%at+{e}]", "st.global.v2.f32 [%at+{e}], {{{f}, {f}}}", "ld.global.v4.b32 {{%r0, {f}, %r1, %r2}}, [%at+{o}]",
    ),
    "shared": (
        "st.shared.b32 [%own], {r}", "st.shared.b32 [%own+4], {f}", "ld.shared.b32 {r}, [%own]", "ld.shared.b32 {r}, [%own+4]", "ld.shared.b64 {d}, [%own]",
        "st.shared.v2.b32 [%own], {{{r}, {f}}}", "ld.shared.u16 {h}, [%own+4]",
    ),
    "video": (
        "{simd}2.{s}32.{s}32.{s}32 {r}, {r}, {r}, {r}", "{simd}4.{s}32.{s}32.{s}32 {r}, {r}, {r}, {r}", "vadd2.{s}32.{s}32.{s}32.sat {r}, {r}.h{half}{half}, {r}, {r}",
        "{simd}2.{s}32.{s}32.{s}32 {r}.h{one}, {r}.h{half}{half}, {r}.h{half}{half}, {r}", "vsub4.{s}32.{s}32.{s}32.add {r}.b{some}, {r}, {r}, {r}",
        "{simd}4.{s}32.{s}32.{s}32 {r}.b{some}, {r}.b{byte}{byte}{byte}{byte}, {r}.b{byte}{byte}{byte}{byte}, {r}",
        "vset4.{s}32.{s}32.lt {r}.b{some}, {r}.b{byte}{byte}{byte}{byte}, {r}, {r}",
    ),
    "system": ("mov.u32 {r}, %nwarpid", "createpolicy.cvt.L2.b64 {d}, {d}", "createpolicy.fractional.L2::{kept}.b64 {d}, {part}"),
    "approximate": (
        "ex2.approx{z}.f32 {f}, {f}", "lg2.approx{z}.f32 {f}, {f}", "rcp.approx{z}.f32 {f}, {f}", "rsqrt.approx{z}.f32 {f}, {f}", "sqrt.approx{z}.f32 {f}, {f}",
        "div.full{z}.f32 {f}, {f}, {f}", "div.approx{z}.f32 {f}, {f}, {f}",
    ),
}  # fmt: skip
_EXACT = (
    "integer",
    "integer",
    "integer",
    "float",
    "float",
    "float",
    "one",
    "three",
    "three",
    "half",
    "convert",
    "compare",
    "select",
    "memory",
    "shared",
    "video",
    "system",
    "warp",
    "warp",
)


@dataclasses.dataclass(frozen=True)
class Program:
    """Lines; a line of several is a block: how it begins, the lines inside, how it ends. `many` threads of a CTA,
    `seed` of its inputs.
    """

    lines: tuple[Any, ...]
    threads: int
    ctas: int
    seed: int

    def text(self) -> str:
        """The PTX."""
        registers = " ".join(f".reg .{kind} %{letter}<{count}>;" for letter, (kind, count) in REGISTERS.items())
        first = [f"ld.global.b32 %r{n}, [%at+{4 * n}];" for n in range(6)] + [f"ld.global.b64 %d{n}, [%at+{8 * n}];" for n in range(4)]
        first += [f"cvt.rn.f32.s32 %f{n}, %r{n};" for n in range(5)] + [
            f"cvt.rn.f64.f32 %g{n}, %f{n};".replace(".rn", "") for n in range(3)
        ]
        first += [f"cvt.u16.u32 %h{n}, %r{n};" for n in range(3)]
        first += [f"setp.lt.s32 %p{n}, %r{n}, %r{n + 1};" for n in range(3)]
        # Blocks of their own begin and end all programs, and at the end all registers are read: so these blocks are the
        # same, and compiled once.
        last = [f"selp.b32 %t, %t, %c, %p{n};" for n in range(3)] + [f"xor.b32 %t, %t, %k{n};" for n in range(4)]
        last += ["add.u32 %t, %own, %next; add.u32 %t, %t, %b; add.u64 %at, %at, %place;"]
        last += [f"st.global.{REGISTERS[letter][0]} [%to+{8 * n}], %{letter}{number};" for n, (letter, number) in enumerate(STORED)]
        return (
            ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry random(.param .u64 in, .param .u64 out) {\n"
            f"{registers} .reg .b64 %at, %to, %place; .reg .b32 %t, %own, %next; .reg .b32 %n<9>; .reg .pred %q<9>; .reg .u32 %c, %b; .reg .b32 %k<4>;\n"
            ".shared .align 16 .b8 tile[2048];\n"
            "ld.param.u64 %at, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %b, %ntid.x;\n"
            f"mad.lo.u32 %c, %c, %b, %t; mul.wide.u32 %place, %c, {8 * WORDS}; add.u64 %at, %at, %place;\n"
            f"mul.wide.u32 %place, %c, {8 * len(STORED)}; add.u64 %to, %to, %place;\n"
            "mov.u32 %own, tile; mad.lo.u32 %own, %t, 8, %own; xor.b32 %next, %own, 8;\n"
            "mov.u32 %k0, -1; mov.b32 %k1, 31; mov.s32 %k2, 1; mov.u32 %k3, 16;\n"
            "st.shared.v2.b32 [%own], {%t, %c};\n" + "\n".join(first)
            + "\nbra BODY;\nBODY:\n" + "\n".join(_flat(self.lines)) + "\nbra END;\nEND:\n" + "\n".join(last) + "\nret;\n}\n"
        )  # fmt: skip

    @property
    def is_exact(self) -> bool:
        """Are all its results those of the PTX ISA, to the bit?"""
        return not re.search(r"\.(approx|full)", self.text())

    def inputs(self) -> np.ndarray:
        """uint64 (CTAs x threads, WORDS): any bits, and small numbers."""
        rng = np.random.default_rng(self.seed)
        shape = (self.ctas * self.threads, WORDS)
        found: np.ndarray = np.where(
            rng.integers(0, 2, shape) > 0, rng.integers(0, 1 << 64, shape, np.uint64), rng.integers(0, 40, shape, np.uint64)
        )
        return found


def _flat(lines: tuple[Any, ...]) -> list[str]:
    found: list[str] = []
    for line in lines:
        if isinstance(line, str):
            found.append(line)
        else:
            begin, inside, end = line
            found += [begin, *_flat(inside), end]
    return found


def _line(rng: random.Random, kinds: Sequence[str]) -> str:
    """One instruction, sometimes under a predicate."""
    kind = rng.choice(kinds)
    if kind == "warp":
        return _joint(rng)
    text = _filled(rng, rng.choice(_FORMS[kind]))
    guard = (
        f"@{rng.choice(('', '!'))}%p{rng.randrange(3)} "
        if ";" not in text and not (text[0] == "v" and ".add " in text) and rng.random() < 0.15
        else ""
    )
    return f"{guard}{text};"


def _filled(rng: random.Random, form: str) -> str:
    """A form with registers and numbers in it."""
    wide, double = rng.random() < 0.3, rng.random() < 0.2

    def register(letter: str) -> str:
        return f"%{letter}{rng.randrange(REGISTERS[letter][1])}"

    x, y = "d" if wide else "r", "g" if double else "f"
    number = rng.choice((str(rng.randrange(64)), str(rng.randrange(1 << 31)), register(x), register(x), register(x)))
    known: dict[str, Callable[[], str]] = {
        "w": lambda: "64" if wide else "32", "x": lambda: register(x), "n": lambda: number, "t": lambda: "f64" if double else "f32", "y": lambda: register(y),
        "s": lambda: rng.choice("us"), "u": lambda: str(rng.randrange(32)), "v": lambda: str(rng.randrange(33)), "b": lambda: str(rng.randrange(256)),
        "q": lambda: str(rng.randrange(1 << 16)), "c": lambda: str(4 * rng.randrange(8)), "e": lambda: str(8 * rng.randrange(4)), "o": lambda: str(16 * rng.randrange(2)), "a": lambda: str(rng.randrange(32)),
        "simd": lambda: rng.choice(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")), "half": lambda: str(rng.randrange(4)), "byte": lambda: str(rng.randrange(8)),
        "one": lambda: rng.choice(("0", "1", "10")), "some": lambda: "".join(str(n) for n in sorted(rng.sample(range(4), rng.randint(1, 4)), reverse=True)),
        "kept": lambda: rng.choice(("evict_last", "evict_first", "evict_normal")), "part": lambda: str(rng.randint(1, 16) / 16),
        "z": lambda: rng.choice(("", ".ftz")), "three": lambda: ", ".join(f"%r{n}" for n in rng.sample(range(6), 3)),
    }  # fmt: skip
    drawn = {letter: functools.partial(register, letter) for letter in REGISTERS} | known
    text = re.sub(r"\{(\w+)\}", lambda word: drawn[word[1]](), form).replace("{{", "{").replace("}}", "}")
    return text.replace(f".{NO_SELECTOR}", ".b1025")


def _joint(rng: random.Random) -> str:
    """An instruction of a whole warp; sometimes its lanes and its mask are in registers,
    some of which hold one number.
    """

    def numbers(letter: str) -> Callable[[], int]:
        return lambda: rng.randrange(REGISTERS[letter][1])

    r, f, p = (numbers(letter) for letter in "rfp")
    of = rng.choice((r, r, f))
    letter = "f" if of is f else "r"
    by = rng.choice((str(rng.randrange(32)), str(1 << rng.randrange(5)), str(1 << rng.randrange(5)), "%k2", "%k3", f"%r{r()}"))
    bound = rng.choice((31, 31, "%k1", 0, rng.randrange(32) << 8 | rng.randrange(32)))
    outside = rng.choice(("", f"|%p{p()}"))
    choices = (
        f"shfl.sync.{rng.choice(('bfly', 'bfly', 'up', 'down', 'idx'))}.b32 %{letter}{of()}{outside}, %{letter}{of()}, {by}, {bound}",
        f"vote.sync.{rng.choice(('all', 'any', 'uni'))}.pred %p{p()}, {rng.choice(('', '!'))}%p{p()}",
        f"vote.sync.ballot.b32 %r{r()}, {rng.choice(('', '!'))}%p{p()}",
        f"redux.sync.{rng.choice(('add', 'min', 'max'))}.{rng.choice('us')}32 %r{r()}, %r{r()}",
        f"redux.sync.{rng.choice(('and', 'or', 'xor'))}.b32 %r{r()}, %r{r()}",
        f"match.any.sync.b32 %r{r()}, %r{r()}",
    )
    return f"{rng.choice((choices[0], choices[0], *choices))}, {rng.choice(('0xffffffff', '0xffffffff', '%k0'))};"


def draw(rng: random.Random) -> Program:
    """A program."""
    labels = iter(range(8))
    lines: list[Any] = []
    kinds = (*_EXACT, "approximate", "approximate", "approximate") if rng.random() < 0.2 else _EXACT

    def some(least: int, most: int) -> tuple[str, ...]:
        return tuple(_line(rng, kinds) for _ in range(rng.randint(least, most)))

    # where not all threads are; sums of upper halves in a loop ptxas has wrong
    def together(inside: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(line for line in inside if ".sync." not in line and ".hi." not in line)

    for _ in range(rng.randint(1, 4)):
        lines += some(1, 8)
        kind, n = rng.choice(("loop", "loop", "branch", "meet", "race", "none")), next(labels)
        if kind == "loop":
            trips = rng.choice((str(rng.randrange(1, 40)), f"%n{n}"))
            begin = f"and.b32 %n{n}, %r{rng.randrange(6)}, 15; add.u32 %n{n}, %n{n}, 1;" if trips[0] == "%" else f"mov.u32 %n{n}, {trips};"
            lines.append(
                (f"{begin} L{n}:", together(some(1, 8)), f"sub.u32 %n{n}, %n{n}, 1; setp.ne.u32 %q{n}, %n{n}, 0; @%q{n} bra L{n};")
            )
        elif kind == "branch":
            lines.append((f"@%p{rng.randrange(3)} bra L{n};", together(some(1, 6)), f"L{n}:"))
        elif kind == "meet":
            lines.append(("bar.sync 0;", (f"ld.shared.b32 %r{rng.randrange(6)}, [%next+{4 * rng.randrange(2)}];",), "bar.sync 0;"))
        elif kind == "race":
            lines.append(f"ld.shared.b32 %r{rng.randrange(6)}, [%next+{4 * rng.randrange(2)}];")
    return Program(tuple(lines), rng.choice((32, 64, 128, 256)), rng.randint(1, 3), rng.randrange(1 << 30))


@contextlib.contextmanager
def _tier(mode: str, level: str) -> Iterator[None]:
    """Context manager: run programs in one tier, compiled at a level. The compiled code is not kept: no program runs
    twice.
    """
    wanted = {TIERS: mode} | ({store.MOST: "0", LEVEL: level} if mode == "compiled" else {})
    kept = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def runs(program: Program, mode: str, level: str = "1") -> Any:
    """The results of a program in its arrays, the findings, and, for half of the programs, the counters of each line.
    If it is refused, the result is the sentence. Both modes run what was linked once. LLVM optimises by `level`.
    """
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(program.inputs()), gpu.array(np.zeros((program.ctas * program.threads, len(STORED)), np.uint64))]
    with _tier(mode, level):
        try:
            kernel = gpu.kernel(program.text(), "random")
            begin_again(kernel.program)
            is_counted = program.seed % 2 == 0
            run = gpu.launch(kernel, grid=program.ctas, block=program.threads, args=arrays, progress=False, workers=1, counters=is_counted)
        except SmemsimError as e:
            return str(e)
    rows = tuple(zip(*(run.counters[name].tolist() for name in run.counters.columns), strict=True)) if is_counted else ()
    return (
        tuple(array.numpy().tobytes() for array in arrays),
        tuple((found.code, found.line, found.message) for found in run.findings),
        rows,
    )


def _differs(program: Program, level: str) -> str:
    """In what the two differ, in a sentence; "" where they do not."""
    return difference(runs(program, "closures"), runs(program, "compiled", level))


def difference(closures: Any, machine: Any, whose: str = "machine code") -> str:
    """In what two runs of a program differ, in a sentence; "" where they do not."""
    if closures == machine:
        return ""
    if isinstance(closures, str) or isinstance(machine, str):
        return f"closures say {closures if isinstance(closures, str) else 'nothing'}, machine code says {machine if isinstance(machine, str) else 'nothing'}"
    if closures[0] != machine[0]:
        number = 0 if closures[0][0] != machine[0][0] else 1
        a, b = (np.frombuffer(found[0][number], np.uint64) for found in (closures, machine))
        at = int(np.flatnonzero(a != b)[0])
        width = (WORDS, len(STORED))[number]
        what = f"word {at % width} of in" if number == 0 else "%{}{}".format(*STORED[at % width])
        return (
            f"{what} of thread {at // width} is {int(a[at]):#x} of closures, {int(b[at]):#x} of {whose}; {int((a != b).sum())} words differ"
        )
    if closures[1] == machine[1]:
        only = [sorted({*a} - {*b})[:2] for a, b in ((closures[2], machine[2]), (machine[2], closures[2]))]
        return f"closures count {only[0]}, machine code counts {only[1]}"
    return f"closures find {list(closures[1])}, machine code finds {list(machine[1])}"


def simpler(program: Program) -> Iterator[Program]:
    """Fewer lines, CTAs, threads."""
    lines = program.lines
    for n, line in enumerate(lines):
        yield dataclasses.replace(program, lines=lines[:n] + lines[n + 1 :])
        if not isinstance(line, str):
            begin, inside, end = line
            yield dataclasses.replace(program, lines=lines[:n] + inside + lines[n + 1 :])
            for k in range(len(inside)):
                yield dataclasses.replace(program, lines=(*lines[:n], (begin, inside[:k] + inside[k + 1 :], end), *lines[n + 1 :]))
    if program.ctas > 1:
        yield dataclasses.replace(program, ctas=1)
    if program.threads > 32:
        yield dataclasses.replace(program, threads=program.threads // 2)


def _case(seed: int, chunk: int, number: int) -> Case:
    program, level = draw(drawn("ptx", seed, chunk, number)), "0" if number % OPTIMISED else "1"
    closures, machine = runs(program, "closures"), runs(program, "compiled", level)
    wrong = difference(closures, machine)
    said = "refused" if isinstance(closures, str) else "with findings" if closures[1] else "silent"
    of = f"{said}, {sum(not isinstance(line, str) for line in program.lines)} loops and branches"
    if not wrong:
        return Case(of, {"ptx": program.text()})
    small = shrunk(program, simpler, lambda other: bool(_differs(other, level)))
    launch = {"grid": [small.ctas], "block": [small.threads], "args": [{"array": "in"}, {"array": "out"}]}
    arrays = [{"name": "in", "dtype": "u64", "shape": list(small.inputs().shape), "distribution": {"values": small.inputs().ravel().tolist()}},
              {"name": "out", "dtype": "u64", "shape": [small.ctas * small.threads, len(STORED)], "distribution": "zeros"}]  # fmt: skip
    return Case(f"wrong: {of}", {"kernel.ptx": small.text(), "launch.json": {**launch, "arrays": arrays}}, _differs(small, level))


def _chunk(seed: int, chunk: int) -> ChunkResult:
    """A chunk. Garbage of its programs is collected rarely."""
    with seldom_collected():
        return one_by_one("ptx", _case, CHUNK_CASES)(seed, chunk)


SPACE = Space("ptx", "random PTX programs: JIT-compiled blocks against the interpreter: bytes in memory, and findings", _chunk, CHUNK_CASES, _case)  # fmt: skip
