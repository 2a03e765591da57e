"""`ptx`: random PTX programs, run by closures and by machine code: both leave the same bytes and the same findings.

A program is a list of lines, some of which hold others (a loop, a branch), over registers of every class, words of global memory, and words of shared memory
of the thread's own or of its neighbours, with and without the barrier between. All registers are stored at its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smemsim import store
from smemsim.campaign.space import Case, Space, drawn, one_by_one, shrunk
from smemsim.errors import SmemsimError
from smemsim.judge.gpu import Gpu
from smemsim.program.compiled.tier import TIERS

__all__ = ["SPACE", "STORED", "Program", "difference", "draw", "runs"]


CHUNK_CASES = 32
WORDS = 4  # of 64 bits that a thread has in the array of inputs
REGISTERS = {"r": ("b32", 6), "d": ("b64", 4), "f": ("f32", 5), "g": ("f64", 3), "p": ("pred", 3)}
STORED = tuple((letter, number) for letter, (_, count) in REGISTERS.items() if letter != "p" for number in range(count))
_INTEGERS = ("add.{s}", "sub.{s}", "mul.lo.{s}", "min.{s}", "max.{s}", "and.b{n}", "or.b{n}", "xor.b{n}")
_FLOATS = ("add.rn.{f}", "sub.rn.{f}", "mul.rn.{f}", "div.rn.{f}", "min.{f}", "max.{f}")
_CONVERSIONS = ("cvt.rn.f32.s32 %f{f}, %r{r}", "cvt.rn.f32.u32 %f{f}, %r{r}", "cvt.rzi.s32.f32 %r{r}, %f{f}", "cvt.u64.u32 %d{d}, %r{r}",
                "cvt.s64.s32 %d{d}, %r{r}", "cvt.u32.u64 %r{r}, %d{d}", "mov.b32 %r{r}, %f{f}", "mov.b32 %f{f}, %r{r}",
                "cvt.s32.s8 %r{r}, %r{r}", "cvt.f64.f32 %g{g}, %f{f}", "mov.b64 %d{d}, %g{g}")  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SIMPLE = ("integer", "integer", "float", "float", "one", "three", "convert", "compare", "select", "memory", "shared", "warp", "warp")


@dataclasses.dataclass(frozen=True)
class Program:
    """Lines; a line of several is a block: how it begins, the lines inside, how it ends. `many` threads of a CTA, `seed` of its inputs."""

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
        first += [f"setp.lt.s32 %p{n}, %r{n}, %r{n + 1};" for n in range(3)]
        # Blocks of their own begin and end all programs, and at the end all registers are read: so these blocks are the same, and compiled once.
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


def _line(rng: random.Random) -> str:
    """One instruction, sometimes under a predicate."""

    def numbers(letter: str) -> Callable[[], int]:
        return lambda: rng.randrange(REGISTERS[letter][1])

    r, d, f, g, p = (numbers(letter) for letter in REGISTERS)
    choices: tuple[str, ...]
    kind = rng.choice(_SIMPLE)
    wide = rng.random() < 0.3
    letter, bits, of = ("d", 64, d) if wide else ("r", 32, r)
    real, precision, fof = ("g", "f64", g) if rng.random() < 0.2 else ("f", "f32", f)
    number = rng.choice((str(rng.randrange(64)), str(rng.randrange(1 << 31)), f"%{letter}{of()}", f"%{letter}{of()}", f"%{letter}{of()}"))
    if kind == "integer":
        op = rng.choice(_INTEGERS).format(s=f"{rng.choice('us')}{bits}", n=bits)
        text = f"{op} %{letter}{of()}, %{letter}{of()}, {number}"
    elif kind == "float":
        text = f"{rng.choice(_FLOATS).format(f=precision)} %{real}{fof()}, %{real}{fof()}, %{real}{fof()}"
    elif kind == "one":
        choices = (f"not.b{bits} %{letter}{of()}, %{letter}{of()}", f"neg.s{bits} %{letter}{of()}, %{letter}{of()}", f"abs.s{bits} %{letter}{of()}, %{letter}{of()}",
                   f"popc.b{bits} %r{r()}, %{letter}{of()}", f"clz.b{bits} %r{r()}, %{letter}{of()}", f"brev.b{bits} %{letter}{of()}, %{letter}{of()}",
                   f"neg.{precision} %{real}{fof()}, %{real}{fof()}", f"abs.{precision} %{real}{fof()}, %{real}{fof()}",
                   f"sqrt.rn.{precision} %{real}{fof()}, %{real}{fof()}")  # fmt: skip
        text = rng.choice(choices)
    elif kind == "three":
        choices = (f"mad.lo.s{bits} %{letter}{of()}, %{letter}{of()}, {number}, %{letter}{of()}",
                   f"fma.rn.{precision} %{real}{fof()}, %{real}{fof()}, %{real}{fof()}, %{real}{fof()}",
                   f"lop3.b32 %r{r()}, %r{r()}, %r{r()}, %r{r()}, {rng.randrange(256)}",
                   f"shf.{rng.choice('lr')}.{rng.choice(('wrap', 'clamp'))}.b32 %r{r()}, %r{r()}, %r{r()}, %r{r()}",
                   f"shl.b{bits} %{letter}{of()}, %{letter}{of()}, %r{r()}", f"shr.{rng.choice('us')}{bits} %{letter}{of()}, %{letter}{of()}, %r{r()}",
                   f"bfe.u32 %r{r()}, %r{r()}, %r{r()}, {rng.randrange(33)}", f"sad.u32 %r{r()}, %r{r()}, %r{r()}, %r{r()}")  # fmt: skip
        text = rng.choice(choices)
    elif kind == "convert":
        text = rng.choice(_CONVERSIONS).format(r=r(), d=d(), f=f(), g=g())
    elif kind == "compare":
        which = rng.choice(
            (f"{rng.choice('us')}{bits} %p{p()}, %{letter}{of()}, {number}", f"{precision} %p{p()}, %{real}{fof()}, %{real}{fof()}")
        )
        text = f"setp.{rng.choice(_COMPARISONS)}.{which}"
    elif kind == "select":
        text = f"selp.b{bits} %{letter}{of()}, %{letter}{of()}, {number}, %p{p()}"
    elif kind == "memory":
        text = rng.choice((f"ld.global.b32 %r{r()}, [%at+{4 * rng.randrange(8)}]", f"ld.global.b64 %d{d()}, [%at+{8 * rng.randrange(4)}]",
                           f"st.global.b32 [%at+{4 * rng.randrange(8)}], %r{r()}", f"ld.global.u8 %r{r()}, [%at+{rng.randrange(32)}]"))  # fmt: skip
    elif kind == "warp":
        return _joint(rng, r, f, p)
    else:
        text = rng.choice((f"st.shared.b32 [%own+{4 * rng.randrange(2)}], %r{r()}", f"ld.shared.b32 %r{r()}, [%own+{4 * rng.randrange(2)}]",
                           f"ld.shared.b64 %d{d()}, [%own]"))  # fmt: skip
    guarded = rng.random() < 0.15
    guard = f"@{rng.choice(('', '!'))}%p{p()} " if guarded else ""
    return f"{guard}{text};"


def _joint(rng: random.Random, r: Callable[[], int], f: Callable[[], int], p: Callable[[], int]) -> str:
    """An instruction of a whole warp; sometimes its lanes and its mask are in registers, some of which hold one number."""
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

    def some(least: int, most: int) -> tuple[str, ...]:
        return tuple(_line(rng) for _ in range(rng.randint(least, most)))

    def together(inside: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(line for line in inside if ".sync." not in line)  # where not all threads are

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
def _tier(mode: str) -> Iterator[None]:
    """Programs run so; what they compile is not kept, since nobody runs them again."""
    wanted = {TIERS: mode} | ({store.MOST: "0"} if mode == "compiled" else {})
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


def runs(program: Program, mode: str) -> Any:
    """What a program leaves in its arrays, and what is found; or the sentence with which it is refused. The text says the mode: a program is linked once."""
    gpu = Gpu("sm_90a")
    arrays = [gpu.array(program.inputs()), gpu.array(np.zeros((program.ctas * program.threads, len(STORED)), np.uint64))]
    with _tier(mode):
        try:
            run = gpu.launch(
                f"{program.text()}// {mode}\n", "random", grid=program.ctas, block=program.threads, args=arrays, progress=False, workers=1
            )
        except SmemsimError as e:
            return str(e)
    return tuple(array.numpy().tobytes() for array in arrays), tuple((found.code, found.line, found.message) for found in run.findings)


def _differs(program: Program) -> str:
    """In what the two differ, in a sentence; "" where they do not."""
    return difference(runs(program, "closures"), runs(program, "compiled"))


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
    return f"closures find {list(closures[1])}, machine code finds {list(machine[1])}"


def _simpler(program: Program) -> Iterator[Program]:
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
    program = draw(drawn("ptx", seed, chunk, number))
    closures, machine = runs(program, "closures"), runs(program, "compiled")
    wrong = difference(closures, machine)
    said = "refused" if isinstance(closures, str) else "with findings" if closures[1] else "silent"
    of = f"{said}, {sum(not isinstance(line, str) for line in program.lines)} loops and branches"
    if not wrong:
        return Case(of, {"ptx": program.text()})
    small = shrunk(program, _simpler, lambda other: bool(_differs(other)))
    launch = {"grid": [small.ctas], "block": [small.threads], "args": [{"array": "in"}, {"array": "out"}]}
    arrays = [{"name": "in", "dtype": "u64", "shape": list(small.inputs().shape), "distribution": {"values": small.inputs().ravel().tolist()}},
              {"name": "out", "dtype": "u64", "shape": [small.ctas * small.threads, len(STORED)], "distribution": "zeros"}]  # fmt: skip
    return Case(f"wrong: {of}", {"kernel.ptx": small.text(), "launch.json": {**launch, "arrays": arrays}}, _differs(small))


SPACE = Space("ptx", "random PTX programs: machine code and closures leave the same bytes and findings", one_by_one("ptx", _case, CHUNK_CASES), CHUNK_CASES, _case)  # fmt: skip
