"""A litmus test as a PTX kernel: each thread is lane 0 of a warp of its CTA, locations lie 64 bytes apart in global or
in shared memory.

In shared memory the CTAs of a test are a cluster, and the locations lie in its first CTA; a barrier of the cluster
stands before the test, behind the initial values, and one behind it, so that no CTA is gone when others access it.
Registers, and locations of shared memory, are stored at the end.

For a card (`many`) one launch has many instances of a test, each with its own memory: threads wait for the next 8
microseconds to begin, then as long as the parameters `seed` and `skew` draw for each, and a loop that takes too long
ends with the last word of the results 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tools.litmus.model import barrier_of
from tools.litmus.parse import BRANCHES, Inexpressible, Instruction, Litmus

__all__ = ["SPACES", "Kernel", "kernel_of"]

SPACES = ("global", "shared")
STEP = 64  # bytes from one location to the next
WARP = 32
_U32 = 0xFFFFFFFF
_LONG = 1 << 26  # cycles after which a loop counts as one that never ends
_MEET = """mov.u64 %t, %globaltimer; add.u64 %until, %t, 8191; and.b64 %until, %until, -8192;
MEET: mov.u64 %t, %globaltimer; setp.lt.u64 %p, %t, %until; @%p bra MEET;
mov.u32 %v, %ctaid.x; mad.lo.u32 %v, %v, 1024, %skewed; xor.b32 %v, %v, %seed; mul.lo.u32 %v, %v, 2654435761; shr.u32 %skewed, %v, 15; xor.b32 %v, %v, %skewed;
mul.lo.u32 %v, %v, 2246822519; shr.u32 %v, %v, 8; and.b32 %v, %v, %skew; add.u32 %v, %v, 1;
SKEW: sub.u32 %v, %v, 1; setp.ne.u32 %p, %v, 0; @%p bra SKEW;
mov.u64 %began, %clock64;"""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """PTX, and what it stores where: word n of the results is register or location `results[n]`."""

    ptx: str
    ctas: int
    threads: int
    locations: tuple[str, ...]
    results: tuple[str, ...]
    is_shared: bool


def kernel_of(test: Litmus, space: str, *, many: bool = False) -> Kernel:
    """The kernel of a test, with `many` of many instances. Inexpressible says what it has that none can have."""
    ctas, shared = test.ctas, space == "shared"
    locations = tuple(test.memory)
    results: list[str] = []
    per_cta: dict[int, int] = {}
    branches, bodies = [], []
    for n, thread in enumerate(test.threads):
        place = per_cta.get(thread.cta, 0)
        per_cta[thread.cta] = place + 1
        rank = ctas.index(thread.cta)
        branches.append(f"setp.eq.u32 %p, %id, {rank * 1024 + WARP * place}; @%p bra T{n};")
        bodies.append("\n".join(_thread(test, n, shared, results, many=many)))
    setup, end = [], []
    if shared:
        size = STEP * len(locations)
        first = " ".join(f"st.shared.u32 [m+{STEP * n}], {test.memory[name] & _U32};" for n, name in enumerate(locations))
        setup = [f"setp.ne.u32 %p, %id, 0; @%p bra READY;\n{first}\nREADY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
                 "mov.u32 %at, m; mapa.shared::cluster.u32 %at, %at, 0;"]  # fmt: skip
        left = [f"ld.shared.u32 %v, [m+{STEP * n}]; st.global.u32 [%out+{4 * (len(results) + n)}], %v;" for n in range(len(locations))]
        end = ["barrier.cluster.arrive; barrier.cluster.wait;", "setp.ne.u32 %p, %id, 0; @%p bra GONE;", *left, "GONE: ret;"]
        results += locations
    if many:
        results.append("hung")
    declared = f".shared .align 16 .b8 m[{max(size, 16)}];" if shared else ""
    registers = sorted({f"%{r}" for r in _registers(test)})
    text = [
        ".version 8.0 .target sm_90a .address_size 64",
        f".visible .entry litmus(.param .u64 memory, .param .u64 out{', .param .u32 seed, .param .u32 skew' * many}) {{", declared,
        f".reg .b32 %id, %cta, %v, %at{''.join(f', {r}' for r in registers)}; .reg .b64 %m, %out; .reg .pred %p;",
        "ld.param.u64 %m, [memory]; ld.param.u64 %out, [out];",
        *(_instance(len(ctas), STEP * len(locations), 4 * len(results)) if many else ("mov.u32 %id, %tid.x; mov.u32 %cta, %ctaid.x; mad.lo.u32 %id, %cta, 1024, %id;",)),
        *setup, *((_MEET,) if many else ()), *branches, "ret;", *(["END:", *end] if shared else ()), *bodies, "}",
    ]  # fmt: skip
    return Kernel(
        "\n".join(filter(None, text)).replace("{HUNG}", str(4 * len(results) - 4)),
        len(ctas),
        WARP * max(per_cta.values()),
        locations,
        tuple(results),
        shared,
    )


def _instance(ctas: int, memory: int, out: int) -> Iterator[str]:
    """Which instance of a test a CTA belongs to, and where its memory and its results lie."""
    yield ".reg .b64 %t, %until, %began, %place; .reg .b32 %seed, %skew, %skewed, %which;"
    yield "ld.param.u32 %seed, [seed]; ld.param.u32 %skew, [skew]; mov.u32 %skewed, %tid.x;"
    yield f"mov.u32 %which, %ctaid.x; div.u32 %which, %which, {ctas}; mov.u32 %cta, %ctaid.x; rem.u32 %cta, %cta, {ctas};"
    yield f"mul.wide.u32 %place, %which, {memory}; add.u64 %m, %m, %place; mul.wide.u32 %place, %which, {out}; add.u64 %out, %out, %place;"
    yield "mov.u32 %id, %tid.x; mad.lo.u32 %id, %cta, 1024, %id;"


def _registers(test: Litmus) -> set[str]:
    named = {x for t in test.threads for i in t.body for x in (i.to, *i.values) if isinstance(x, str) and x}
    return named | {name.split(":")[1] for name in test.registers}


def _thread(test: Litmus, n: int, shared: bool, results: list[str], *, many: bool) -> Iterator[str]:
    thread = test.threads[n]
    own = {x for i in thread.body for x in (i.to, *i.values) if isinstance(x, str) and x}
    yield f"T{n}:"
    for register in sorted(own):
        yield f"mov.u32 %{register}, {test.registers.get(f'{thread.name}:{register}', 0) & _U32};"
    labels = set()
    for i in thread.body:
        labels |= {i.label} if i.op == "label" else set()
        if many and i.op != "label" and i.label in labels:
            yield f"mov.u64 %t, %clock64; sub.u64 %t, %t, %began; setp.gt.u64 %p, %t, {_LONG}; @%p bra T{n}_TOO_LONG;"
        yield _line(test, n, i, shared)
    for register in sorted(own):
        yield f"st.global.u32 [%out+{4 * len(results)}], %{register};"
        results.append(f"{thread.name}:{register}")
    gone = "bra END;" if shared else "ret;"
    yield gone
    if many:
        yield f"T{n}_TOO_LONG: mov.u32 %v, 1; st.global.u32 [%out+{{HUNG}}], %v; {gone}"


def _operand(value: int | str) -> str:
    return f"%{value}" if isinstance(value, str) else str(value & _U32)


def _line(test: Litmus, n: int, i: Instruction, shared: bool) -> str:
    values = [_operand(v) for v in i.values]
    if i.op in ("goto", "label"):
        return f"bra T{n}_{i.label};" if i.op == "goto" else f"T{n}_{i.label}:"
    if i.op in BRANCHES:
        return f"setp.{BRANCHES[i.op]}.s32 %p, {values[0] if values[0].startswith('%') else _fixed(values[0])}, {values[1]}; @%p bra T{n}_{i.label};"
    if i.op == "mov":
        return f"mov.u32 %{i.to}, {values[0]};"
    if i.op in ("add", "sub", "mul", "div"):
        return f"{i.op}{'.lo' * (i.op == 'mul')}.s32 %{i.to}, {values[0]}, {values[1]};"
    if i.op == "fence":
        return f"fence.{i.semantics}.{i.scope};"
    if i.op == "bar":
        return _barrier(test, n, i)
    at = f"[{'%at' if shared else '%m'}+{STEP * list(test.memory).index(i.location)}]"
    space = "shared::cluster" if shared else "global"
    how = f"{i.semantics}.{i.scope}" if i.scope else i.semantics
    if i.op == "ld":
        return f"ld.{how}.{space}.u32 %{i.to}, {at};"
    if i.op == "st":
        return f"st.{how}.{space}.u32 {at}, {values[0]};"
    kind = "b32" if i.operation in ("exch", "cas", "and", "or", "xor") else "u32"
    operation = "add" if i.operation == "sub" else i.operation
    given = ", ".join(_operand(-v if i.operation == "sub" and isinstance(v, int) else v) for v in i.values)
    if i.operation == "sub" and not isinstance(i.values[0], int):
        raise Inexpressible("an atomic subtraction of a register")
    if i.op == "red" and i.semantics in ("relaxed", "release"):  # .acq_rel is one of atom alone
        return f"red.{how}.{space}.{operation}.{kind} {at}, {given};"
    return f"atom.{how}.{space}.{operation}.{kind} %{i.to or 'v'}, {at}, {given};"


def _fixed(value: str) -> str:
    raise Inexpressible(f"a comparison of the number {value}")


def _barrier(test: Litmus, n: int, i: Instruction) -> str:
    number = None
    if len(i.values) > 1:
        number = i.values[1]
        if isinstance(number, str):
            if len(i.values) < 3 and any(j.to == number for j in test.threads[n].body):
                raise Inexpressible("a barrier for as many threads as name it, by a number that is computed")
            number = test.registers.get(f"{test.threads[n].name}:{number}", 0)
    (_, which), count = barrier_of(test, n, i, number)
    register = i.values[1] if len(i.values) > 1 and isinstance(i.values[1], str) else None
    if not 0 <= which < 16:
        raise Inexpressible(f"barrier {which}: a CTA has 16")
    return f"bar.{i.operation} {f'%{register}' if register else which}, {WARP * count};"
