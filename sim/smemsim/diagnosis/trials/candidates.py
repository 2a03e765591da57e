"""Changes of the PTX that may mend a finding of a launch: for each code those that its fix proposes, the nearest first.

A change is tried by execution (`trial.py`). Nothing here reads a message: a change comes from the code, from the
instructions of the finding, and from its numbers.

| code | change |
|---|---|
| T210 | the bytes of expect_tx |
| X003 | fence.proxy.async after the ordinary stores, or before what orders them |
| X004, X005, X007 | a smaller N of wait_group; commit_group and wait_group; .acquire for .relaxed |
| X006, X010 | the count of mbarrier.init |
| X008 | bar.warp.sync between lanes, bar.sync between warps, barrier.cluster before the end |
| X012 | tcgen05.wait::ld and ::st, tcgen05.fence on both sides |
| X014 | wgmma.fence |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from smemsim.core.finding import Finding, InLaunch, expect_words
from smemsim.core.ptx.edits import Edit, instructions, with_number
from smemsim.core.ptx.module import Immediate, Instruction, Module

__all__ = ["Candidate", "candidates_of"]

MOST_GROUPS = 3  # smaller values of one wait_group that are tried
MOST_LINES = 4  # instructions of one kind that are changed, one after the other
BESIDE = ("X006", "X008", "X010")  # codes whose fixes name more than one change
WAITS = {  # of asynchronous instructions whose commit groups a thread waits for: what commits, what waits
    "cp.async": ("cp.async.commit_group;", "cp.async.wait_group 0;"),
    "bulk": ("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"),
    "wgmma": ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"),
}


class Candidate(NamedTuple):
    """A change of the PTX, and in words what it is. `is_all`: the fix of the finding proposes nothing else.

    `is_beside`: the text of the finding's fix is kept, since it names other changes too.
    """

    edits: tuple[Edit, ...]
    text: str
    is_all: bool = True
    is_beside: bool = False


class _Code:
    """The instructions of a module in the order of the text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        bodies = {id(f.body): f.body for f in module.functions.values() if f.body is not None}
        self.bodies = list(bodies.values())

    def named(self, *names: str) -> list[Instruction]:
        """The instructions whose name begins so."""
        return [i for body in self.bodies for i in body if i.name.startswith(names)]

    def after(self, i: Instruction, wanted: Callable[[Instruction], bool]) -> Instruction | None:
        """The first instruction of that kind after another one in the text."""
        for body in self.bodies:
            at = next((n for n, other in enumerate(body) if (other.line, other.text) == (i.line, i.text)), None)
            if at is not None:
                return next((other for other in body[at + 1 :] if wanted(other)), None)
        return None

    def ends_of_products(self) -> list[Instruction]:
        """The last wgmma.mma_async of each part of the text that has no branch and no barrier."""
        found: list[Instruction] = []
        for body in self.bodies:
            last = None
            for i in body:
                if i.op == "wgmma" and "mma_async" in i.modifiers:
                    last = i
                elif last is not None and (i.op in ("bra", "ret", "exit", "mbarrier") or _orders(i)):
                    found.append(last)
                    last = None
        return found

    def put(self, text: str, at: Instruction, *, is_before: bool = False, has_guard: bool = False) -> Edit:
        """An edit that puts instructions before or after another one, under its guard or for all
        threads that come by.
        """
        new = instructions(text, at, self.module)
        if not has_guard:
            new = tuple(dataclasses.replace(i, guard=None) for i in new)
        return Edit(at, (*new, at) if is_before else (at, *new))


def candidates_of(f: Finding, module: Module) -> Iterator[Candidate]:
    """The changes that may fix a finding; none for a code or an instruction without a known change."""
    if not isinstance(f.at, InLaunch) or f.at.instruction is None or f.code not in _KINDS:
        return
    for candidate in _KINDS[f.code](f, f.at, f.at.instruction, _Code(module)):
        yield candidate._replace(is_beside=f.code in BESIDE)


# ---- numbers: the bytes of expect_tx, the count of an mbarrier


def _bytes(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """The numbers of bytes that make all phases right, in the lines that expect bytes."""
    expecting = {other.line: other for other in code.named("mbarrier") if "expect_tx" in other.modifiers}
    for numbers in f.numbers.get("expect", ()):  # type: ignore[union-attr]
        if all(line in expecting for line, _ in numbers):  # type: ignore[misc, union-attr]
            edits = tuple(Edit(expecting[line], (with_number(expecting[line], -1, size),)) for line, size in numbers)  # type: ignore[index, misc, union-attr, arg-type]
            yield Candidate(edits, expect_words(numbers))  # type: ignore[arg-type]


def _count(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Other counts: in the mbarrier.init of the mbarrier that threads wait at, then in all that have
    the same operand.
    """
    made, counts = f.numbers.get("init"), f.numbers.get("counts")
    inits = code.named("mbarrier.init")
    own = next((init for init in inits if init.line == made), None)
    if own is None or not isinstance(counts, tuple):
        return
    alike = [init for init in inits if init.operands[-1] == own.operands[-1]]
    for count in counts:
        for changed in [[own], alike][: len(alike)]:
            edits = tuple(Edit(init, (with_number(init, -1, int(count)),)) for init in changed)
            yield Candidate(edits, f"mbarrier.init with {_arrivals(int(count))} in {_lines(changed)}", is_all=False)


def _arrivals(count: int) -> str:
    return f"{count} arrival{'s' * (count != 1)}"


def _lines(those: Iterable[Instruction]) -> str:
    lines = [str(n) for n in dict.fromkeys(i.line for i in those)]
    return f"line{'s' * (len(lines) > 1)} {', '.join(lines)}"


# ---- fences


def _proxy_fence(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    store = at.other
    if store is None or not (f.touched or at.arrays):  # a tensor map in global memory needs another fence
        return
    fence = "fence.proxy.async.shared::cta;" if f.touched else "fence.proxy.async;"
    if store.name.startswith("cp.async") and "bulk" not in store.modifiers:
        waits = code.named("cp.async.wait_group", "cp.async.wait_all")[:MOST_LINES]
        if waits:
            yield Candidate(tuple(code.put(fence, wait) for wait in waits), f"{fence[:-1]} after {_lines(waits)}")
    else:
        yield Candidate((code.put(fence, store),), f"{fence[:-1]} after line {store.line}")
        stores = [other for other in code.named("st.", "stmatrix", "red.", "atom.") if not other.name.startswith("st.local")]
        if len(stores) > 1:
            yield Candidate(tuple(code.put(fence, other) for other in stores), f"{fence[:-1]} after all ordinary stores")
    barrier = code.after(store, _orders)
    if barrier is not None:
        yield Candidate((code.put(fence, barrier, is_before=True),), f"{fence[:-1]} before line {barrier.line}")


def _orders(i: Instruction) -> bool:
    return i.op in ("bar", "barrier") or i.name.startswith("mbarrier.arrive")


def _matrix_fence(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    yield Candidate((code.put("wgmma.fence.sync.aligned;", i, is_before=True),), f"wgmma.fence.sync.aligned before line {i.line}")


def _tensor_memory(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Waits and fences between two accesses of tensor memory: by what the earlier one is."""
    others = [half.instruction for half in f.halves if half.instruction is not None and half.instruction is not i]
    before = others[0] if others else at.other
    if before is None or before.op != "tcgen05":
        return
    kind = before.modifiers[0]
    wait = {"ld": "tcgen05.wait::ld.sync.aligned;", "st": "tcgen05.wait::st.sync.aligned;"}.get(kind, "")
    fence, late = "tcgen05.fence::before_thread_sync;", code.put("tcgen05.fence::after_thread_sync;", i, is_before=True)
    said = f"tcgen05.fence::after_thread_sync before line {i.line}"
    if wait:
        yield Candidate((code.put(wait, before),), f"{wait[:-1]} after line {before.line}", is_all=False)
    yield Candidate((late,), said, is_all=False)
    if wait:
        yield Candidate(
            (code.put(f"{wait} {fence}", before), late), f"{wait[:-1]} and {fence[:-1]} after line {before.line}, {said}", is_all=False
        )
        yield Candidate((code.put(fence, before), late), f"{fence[:-1]} after line {before.line}, {said}", is_all=False)


# ---- waits


def _waits(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """The group of an asynchronous instruction: a wait that leaves fewer pending, a commit and a wait of its own; a
    wait that acquires.
    """
    earlier = [half.instruction for half in f.halves if half.instruction is not None and (half.does == "write" or f.code != "X004")]
    later = [] if f.code == "X004" else [i]
    for op in dict.fromkeys((*(other for other in earlier if other is not i), *later)):
        if kind := _group_kind(op):
            yield from _of_groups(kind, op, i, code, is_all=f.code == "X007")
            break
    for wait in [other for other in code.named("mbarrier.") if "relaxed" in other.modifiers and _is_wait(other)][:MOST_LINES]:
        words = tuple("acquire" if word == "relaxed" else word for word in wait.modifiers)
        yield Candidate(
            (Edit(wait, (dataclasses.replace(wait, modifiers=words),)),), f".acquire instead of .relaxed in line {wait.line}", is_all=False
        )


def _is_wait(i: Instruction) -> bool:
    return i.modifiers[:1] in (("try_wait",), ("test_wait",))


def _group_kind(i: Instruction) -> str:
    """Which commit groups an asynchronous instruction belongs to; "" for none."""
    if i.op == "wgmma" and "mma_async" in i.modifiers:
        return "wgmma"
    if i.op != "cp" or "async" not in i.modifiers or "commit_group" in i.modifiers or any(word.startswith("wait_") for word in i.modifiers):
        return ""
    if "bulk" not in i.modifiers:
        return "cp.async"
    return "bulk" if "bulk_group" in i.modifiers else ""


def _of_groups(kind: str, op: Instruction, access: Instruction, code: _Code, *, is_all: bool) -> Iterator[Candidate]:
    names = {"cp.async": "cp.async.wait_group", "bulk": "cp.async.bulk.wait_group", "wgmma": "wgmma.wait_group"}[kind]
    for wait in code.named(names)[:MOST_LINES]:
        left = wait.operands[-1]
        if isinstance(left, Immediate) and left.value > 0:
            for n in range(left.value - 1, max(-1, left.value - 1 - MOST_GROUPS), -1):
                edit = Edit(wait, (with_number(wait, -1, n),))
                yield Candidate((edit,), f"{wait.name} {n} instead of {left.value} in line {wait.line}", is_all=is_all)
    commit, wait_all = WAITS[kind]
    both, new = f"{commit[:-1]} and {wait_all[:-1]}", f"{commit} {wait_all}"
    if commits := code.named(commit.removesuffix(";")):
        for text in (wait_all.replace(" 0", ".read 0"), wait_all) if kind == "bulk" else (wait_all,):
            edits = tuple(code.put(text, other, has_guard=True) for other in commits)
            yield Candidate(edits, f"{text[:-1]} after {_lines(commits)}", is_all=is_all)
    if kind == "bulk":
        every = [other for other in code.named("cp.") if _group_kind(other) == "bulk"]
        for changed in [[op], every][: len(every)]:
            edits = tuple(code.put(new, other, has_guard=True) for other in changed)
            yield Candidate(edits, f"{both} after {_lines(changed)}", is_all=is_all)
        return
    if kind == "wgmma" and (ends := code.ends_of_products()):
        yield Candidate(tuple(code.put(new, other) for other in ends), f"{both} after {_lines(ends)}", is_all=is_all)
    places = [access] if kind == "wgmma" else []
    for place in (*places, code.after(op, _orders)):
        if place is not None:
            yield Candidate((code.put(new, place, is_before=True),), f"{both} before line {place.line}", is_all=is_all)
    if kind == "cp.async":
        edit = code.put(f"{new} bar.sync 0;", access, is_before=True)
        yield Candidate((edit,), f"{both}, then bar.sync 0 before line {access.line}", is_all=is_all)


# ---- barriers


def _barrier(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    if at.within_warp:
        yield Candidate(
            (code.put("bar.warp.sync 0xffffffff;", i, is_before=True),), f"bar.warp.sync (__syncwarp) before line {i.line}", is_all=False
        )
    elif f.touched:
        yield Candidate((code.put("bar.sync 0;", i, is_before=True),), f"bar.sync 0 (__syncthreads) before line {i.line}", is_all=False)
    elif not at.arrays and (
        ends := [end for end in code.named("ret", "exit") if end.guard is None]
    ):  # shared memory of a CTA that may have ended
        edits = tuple(code.put("barrier.cluster.arrive; barrier.cluster.wait;", end, is_before=True) for end in ends)
        yield Candidate(edits, f"barrier.cluster.arrive and barrier.cluster.wait before {_lines(ends)}", is_all=False)


_Kind = Callable[[Finding, InLaunch, Instruction, _Code], Iterable[Candidate]]
_KINDS: dict[str, _Kind] = {
    "T210": _bytes, "X003": _proxy_fence, "X004": _waits, "X005": _waits, "X006": _count, "X007": _waits, "X008": _barrier, "X010": _count,
    "X012": _tensor_memory, "X014": _matrix_fence,
}  # fmt: skip
