"""Changes of the PTX that may fix a finding of a launch: for each code those that its fix proposes.

The smallest changes come first: fewer lines of the source before more, a weaker wait before a stronger one, and the
place where the missing wait belongs before others. A change is tried by execution (`trial.py`), and the first that
helps is the fix. Nothing here reads a message. A change comes from the code, from the instructions of the finding, and
from its numbers.

T210 changes the bytes of expect_tx, or the mask of a multicast.

X003 adds fence.proxy.async after the ordinary stores, or before what orders them.

X004, X005 and X007 take a smaller N of wait_group, or add a wait_group or a commit_group. They also try .acquire for
.relaxed, and the other parity or a counted one.

X006 and X010 change the count of mbarrier.init or of a barrier. They also try the other parity, a counted one, the mask
of a multicast, and the number of a barrier.

X008 adds a wait for a copy whose source is overwritten, or takes a counted parity. It also tries a wider scope,
.release and .acquire. Between lanes it adds bar.warp.sync, between warps bar.sync. Before the end it adds
barrier.cluster.

X011 changes the member mask.

X012 adds tcgen05.wait::ld and ::st, and tcgen05.fence on both sides, also before the next arrival. If two accumulators
overlap, X012 and X017 put more columns between them.

X014 adds wgmma.fence.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from smemsim.core.finding import Finding, InLaunch, expect_words
from smemsim.core.ptx.edits import Edit, instructions, replaced_by, with_number
from smemsim.core.ptx.module import (
    MOST_OF_A_LINE,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    RegisterType,
    Special,
    lines_of,
    slots_in,
)
from smemsim.core.ptx.origins import number_of, origin
from smemsim.run.async_ops import is_bulk
from smemsim.run.sanitizer.races import LANES_APART, UPDATE

__all__ = ["Candidate", "candidates_of"]

MOST_GROUPS = 3  # smaller values of one wait_group that are tried
MOST_LINES = 4  # instructions of one kind that are changed, one after the other
MOST_NAMED = 4  # mbarriers of a ring that a sentence lists
MOST_NUMBERS = 3  # named barriers that are tried
LANES = 32  # of a warp
STAGES = (1, 2, 3, 4)  # of a ring whose wait gets a counted parity
BESIDE = ("X006", "X008", "X010", "X011")  # codes whose fixes name more than one change
ARITHMETIC = ("add", "and", "cvt", "mad", "mov", "mul", "or", "selp", "shl", "sub")  # by which addresses are computed
FULL_MASK = 0xFFFFFFFF
PARITY = 2  # the operands of a wait are a predicate, the mbarrier, the parity, and maybe a time
WAITS = {  # of asynchronous instructions whose commit groups a thread waits for: what commits, what waits
    "cp.async": ("cp.async.commit_group;", "cp.async.wait_group 0;"),
    "bulk": ("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"),
    "wgmma": ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"),
}


class Candidate(NamedTuple):
    """A change of the PTX, and its description. If `is_all` is set, the fix of the finding proposes nothing else.

    If `is_beside` is set, the text of the finding's fix is kept, since it names other changes too. If `is_other` is
    set, the text of the finding's fix names another change. What no run can show, and must hold, is `provided`.

    The waits `parities` have another parity.
    """

    edits: tuple[Edit, ...]
    text: str
    is_all: bool = True
    is_beside: bool = False
    is_other: bool = False
    parities: tuple[Instruction, ...] = ()
    provided: str = ""

    @property
    def barriers(self) -> tuple[Instruction, ...]:
        """The new barriers, of all threads of a CTA or a warp."""
        new = (i for edit in self.edits for i in edit.becomes if i.site != edit.of.site)
        return tuple(i for i in new if i.op in ("bar", "barrier"))

    @property
    def fix(self) -> str:
        """The description of a change that has helped."""
        return f"{self.text}, {self.provided}" if self.provided else self.text


def _place(i: Instruction) -> tuple[int, int]:
    """The place of an instruction in the text."""
    return i.line, i.nth


class _Code:
    """The instructions of a module in the order of the text."""

    def __init__(self, module: Module, mbarriers: Mapping[int, str]) -> None:
        self.module, self.mbarriers = module, mbarriers
        bodies = {id(f.body): f.body for f in module.functions.values() if f.body is not None}
        self.bodies = list(bodies.values())

    def at(self, *lines: int) -> str:
        """Lines in a sentence, with those of the source."""
        return lines_of([next(i for body in self.bodies for i in body if i.line == line) for line in lines])

    def named(self, *names: str) -> list[Instruction]:
        """The instructions whose name begins so."""
        return [i for body in self.bodies for i in body if i.name.startswith(names)]

    def after(self, i: Instruction, wanted: Callable[[Instruction], bool]) -> Instruction | None:
        """The first instruction of that kind after another one in the text."""
        for body in self.bodies:
            at = next((n for n, other in enumerate(body) if _place(other) == _place(i)), None)
            if at is not None:
                return next((other for other in body[at + 1 :] if wanted(other)), None)
        return None

    def has_behind(self, i: Instruction, wait: str) -> bool:
        """Does this wait for a group follow an instruction, before another commit, an arrival, or the end of the block?
        A wait for all of it counts for one for the reads.
        """
        ends = self.after(i, lambda other: other.op in ("bra", "ret", "exit", "bar", "barrier", "mbarrier") or other.name == i.name)
        name = wait.partition(" ")[0]
        found = self.after(i, lambda other: other.name in (name, name.replace(".read", "")) and other.operands[-1] == Immediate(0))
        return found is not None and (ends is None or _place(found) < _place(ends))

    def before(self, i: Instruction, wanted: Callable[[Instruction], bool]) -> Instruction | None:
        """The last instruction of that kind before another one in the text."""
        for body in self.bodies:
            at = next((n for n, other in enumerate(body) if _place(other) == _place(i)), None)
            if at is not None:
                return next((other for other in reversed(body[:at]) if wanted(other)), None)
        return None

    def with_numbers(self, i: Instruction, at: Instruction | None = None) -> Instruction | None:
        """The instruction with numbers for its registers, if the text shows them at `at`, or else where it is."""
        at = at or i
        function = self.function(at)
        found = i
        for n, operand in enumerate(i.operands):
            if isinstance(operand, Register):
                made = None if function is None or function.body is None else origin(function.body, function.labels, at, operand)
                value = made.operands[1] if made is not None and made.op == "mov" else None
                if not isinstance(value, Immediate):
                    return None
                found = with_number(found, n, value.value)
        return found

    def constant(self, i: Instruction, n: int) -> int | None:
        """The number that an operand of an instruction has, if it is one, or a register of one value."""
        operand = i.operands[n]
        if isinstance(operand, Register):
            function = self.function(i)
            made = None if function is None or function.body is None else origin(function.body, function.labels, i, operand)
            operand = made.operands[1] if made is not None and made.op == "mov" else operand
        return operand.value if isinstance(operand, Immediate) else None

    def own(self, i: Instruction) -> Instruction:
        """The instruction of the module that an instruction of a finding is, whose calls are inlined."""
        return next((other for body in self.bodies for other in body if _place(other) == _place(i)), i)

    def function(self, i: Instruction) -> Function | None:
        """The function of an instruction."""
        return next((f for f in self.module.functions.values() if f.body is not None and any(other is i for other in f.body)), None)

    def copies(self, i: Instruction) -> list[Instruction]:
        """An instruction and those of the same line of the source in its function, as of an unrolled loop. Other
        functions may have that line, too: those of the same template.
        """
        function = self.function(i)
        body = () if function is None else function.body or ()
        return [other for other in body if other is i or (i.location is not None and other.location == i.location)]

    def meeting(self, i: Instruction) -> Instruction | None:
        """Where the threads that jump over an instruction go on, by the last branch before it that does so."""
        function = self.function(i)
        body = () if function is None else function.body or ()
        if function is None or not body:
            return None
        at = next(n for n, other in enumerate(body) if other is i)
        for other in reversed(body[:at]):
            to = [function.labels.get(x.name, 0) for x in other.operands if isinstance(x, Label)] if other.op == "bra" else []
            if to and at < to[0] < len(body):
                return body[to[0]]
        return None

    def nearest(self, those: Iterable[Instruction], i: Instruction) -> list[Instruction]:
        """Instructions by how near they are: those before another one in the text, the last of them first, then those
        after it.
        """
        return sorted(those, key=lambda other: (_place(other) > _place(i), abs(i.line - other.line), abs(i.nth - other.nth)))

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

    def behind_tensor_addresses(self) -> list[Instruction]:
        """The instructions that compute the addresses of accumulators, and of what tcgen05.ld and .st access."""
        found: list[Instruction] = []
        for body in self.bodies:
            accesses = [i for i in body if i.op == "tcgen05" and i.modifiers[0] in ("mma", "ld", "st")]
            addresses = [next((one for one in i.operands if isinstance(one, Address)), None) for i in accesses]
            slots = frozenset().union(*(slots_in(one) for one in addresses if one is not None))
            before = -1
            while len(slots) != before:
                before = len(slots)
                slots = slots.union(*(i.used for i in body if i.op in ARITHMETIC and i.given & slots))
            found += [i for i in body if i.op in ARITHMETIC and i.given & slots]
        return found

    def put(self, text: str, at: Instruction, *, is_before: bool = False, has_guard: bool = False) -> Edit:
        """An edit that puts instructions before or after another one, under its guard or
        for all threads that reach it.
        """
        new = instructions(text, at, self.module)
        if not has_guard:
            new = tuple(dataclasses.replace(i, guard=None) for i in new)
        return Edit(at, (*new, at) if is_before else (at, *new))


def candidates_of(f: Finding, module: Module, mbarriers: Mapping[int, str]) -> Iterator[Candidate]:
    """The changes that may fix a finding. There are none for a code or an instruction without a known change. Argument
    `mbarriers` has the mbarriers on which TMA loads of one CTA complete, in the order of their use: their names, by
    address.
    """
    if not isinstance(f.at, InLaunch) or f.at.instruction is None or f.code not in _KINDS:
        return
    code = _Code(module, mbarriers)
    found = [*_KINDS[f.code](f, f.at, f.at.instruction, code)]
    has_more = f.code in BESIDE or (f.code == "X004" and _is_copied_after_wait(f, f.at.instruction, code))
    for candidate in sorted(found, key=lambda one: (one.is_other, len({edit.of.location or edit.of.line for edit in one.edits}))):
        yield candidate._replace(is_beside=has_more and not candidate.is_other)


# ---- numbers: the bytes of expect_tx, the count of an mbarrier


def _bytes(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """The numbers of bytes that make all phases right, in the lines that expect bytes."""
    expecting = {other.line: other for other in code.named("mbarrier") if "expect_tx" in other.modifiers}

    body: Sequence[Instruction] = next((one for one in code.bodies if any(other.line == i.line for other in one)), [])
    expected, arrive = (f.numbers.get(name) for name in ("expected", "arrive"))
    is_short = isinstance(expected, int) and isinstance(arrive, int) and expected > arrive

    def changed(numbers: Sequence[tuple[int, int]]) -> Candidate:
        return Candidate(
            tuple(Edit(expecting[line], (with_number(expecting[line], -1, size),)) for line, size in numbers),
            expect_words(numbers, number_of(body, [line for line, _ in numbers]), code.at),
            provided="if no copy is missing and each has the intended size" * is_short,
        )

    for numbers in cast("Iterable[Sequence[tuple[int, int]]]", f.numbers.get("expect", ())):
        if not all(line in expecting for line, _ in numbers):
            continue
        yield changed(numbers)
        alike = [line for line, other in expecting.items() if _expected(other, code) == f.numbers.get("was")]
        if len({size for _, size in numbers}) == 1 and len(alike) > len(numbers):
            yield changed([(line, numbers[0][1]) for line in alike])
    yield from _masks_of_ctas(f, code)


def _expected(i: Instruction, code: _Code) -> int | None:
    """The bytes that an instruction expects, if the text shows the number."""
    given = code.with_numbers(dataclasses.replace(i, operands=i.operands[-1:]), i)
    value = None if given is None else given.operands[-1]
    return value.value if isinstance(value, Immediate) else None


def _count(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Other counts: in the mbarrier.init of the mbarrier that threads wait at, then in all that have
    the same operand.
    """
    if _is_wait(i):
        if f.numbers.get("parity"):
            yield _other_parity(i)
        yield from _counted_parity(i, code, any_parity=True)
        others = code.nearest([other for other in code.named("mbarrier.") if _is_wait(other) and other.line != i.line], i)
        for other in [one for one in others if "parity" in one.modifiers and code.constant(one, PARITY) is not None][:2]:
            yield from _counted_parity(other, code)
        yield from _missing_arrival(f, code)
        yield from _masks_of_ctas(f, code)
        yield from _ranks(f, code)
    elif i.op in ("bar", "barrier") and "cluster" not in i.modifiers:
        yield from _named_barrier(f, i, code)
    made, counts = f.numbers.get("init"), f.numbers.get("counts")
    inits = code.named("mbarrier.init")
    own = next((init for init in inits if init.line == made), None)
    if own is None or not isinstance(counts, tuple):
        return
    alike = [init for init in inits if init.operands[-1] == own.operands[-1]]
    for count in counts:
        for changed in [[own], alike][: len(alike)]:
            edits = tuple(Edit(init, (with_number(init, -1, int(count)),)) for init in changed)
            yield Candidate(edits, f"mbarrier.init with {_arrivals(int(count))} in {lines_of(changed)}", is_all=False)


def _other_parity(i: Instruction) -> Candidate:
    """A wait for the other parity: a number is changed, a register only for this instruction."""
    n = PARITY
    parity = i.operands[n]
    if isinstance(parity, Immediate):
        return Candidate(
            (Edit(i, (with_number(i, n, 1 - (parity.value & 1)),)),),
            f"parity {1 - (parity.value & 1)} in {i.at}",
            is_all=False,
            parities=(i,),
        )
    flip = dataclasses.replace(i, op="xor", modifiers=("b32",), operands=(parity, parity, Immediate(1)), guard=None)
    return Candidate((Edit(i, (flip, i, flip)),), f"the other parity (xor 1) in {i.at}", is_all=False, parities=(i,))


def _counted_parity(i: Instruction, code: _Code, *, any_parity: bool = False) -> Iterator[Candidate]:
    """A parity that changes with each pass of a wait through its ring of stages, for one that is a number;
    `any_parity`: for any. The copies that a compiler made of a wait in a loop count together.
    """
    function, own = _counting(code.own(i), code), code.own(i)
    if not _decides(own, code):
        return
    waits = [other for other in code.copies(own) if _is_wait(other) and "parity" in other.modifiers]
    copies = [other for other in waits if other.guard is None]
    if len(copies) > 1 and own in copies and all(code.constant(other, PARITY) is not None for other in copies):
        yield from _parity_of_passes(copies, function, code.constant(copies[0], PARITY))
        return
    begin = code.constant(own, PARITY)
    if (begin is not None or any_parity) and i.guard is None and "parity" in i.modifiers:
        yield from _parity_of_passes([i], function, begin)


def _decides(wait: Instruction, code: _Code) -> bool:
    """Does the answer of a wait decide a branch, such as that of a loop around it? The register may have another value
    later, such as the answer of another wait.
    """
    function = code.function(wait)
    body = () if function is None else function.body or ()
    reached = dict[int, frozenset[int]]()  # by place, the registers that have the answer, or what is made of it
    pending = [(n + 1, wait.given) for n, i in enumerate(body) if i is wait]
    while pending and function is not None:
        n, slots = pending.pop()
        before = reached.get(n, frozenset())
        if n >= len(body) or slots <= before:
            continue
        i = body[n]
        reached[n] = slots = slots | before
        if i.op in ("bra", "exit", "ret") and i.guard is not None and i.guard.slot in slots:
            return True
        slots = slots | i.given if i.used & slots else slots - i.given if i.guard is None else slots
        names = [x.name for x in i.operands if isinstance(x, Label)]
        to = [function.labels[name] for those in names for name in function.targets.get(those, (those,)) if name in function.labels]
        if i.guard is not None or i.op not in ("bra", "brx", "exit", "ret", "trap"):
            to.append(n + 1)
        pending += [(place, slots) for place in to]
    return False


def _repeated(i: Instruction, code: _Code) -> Iterator[Candidate]:
    """A loop around a wait whose answer decides nothing: it may return before the phase is complete. All copies that a
    compiler made of it are changed.
    """
    own = code.own(i)
    if _decides(own, code) or own.guard is not None or not isinstance(own.operands[0], Register):
        return
    waits = [other for other in code.copies(own) if _is_wait(other) and other.guard is None]
    edits = []
    for n, wait in enumerate(waits):
        label, answer = f"smemsim_again{n}", cast("Register", wait.operands[0])
        back = dataclasses.replace(
            wait, op="bra", modifiers=(), operands=(Label(label),), guard=dataclasses.replace(answer, negated=True), text=f"bra {label}"
        )
        edits.append(Edit(wait, (wait, back), labels=((label, 0),)))
    yield Candidate(tuple(edits), f"a loop that repeats {own.name} in {lines_of(waits)} until it is true", is_all=False, is_other=True)


def _parity_of_passes(waits: Sequence[Instruction], function: Function | None, begin: int | None) -> Iterator[Candidate]:
    """The parity of some waits, by how often all of them have passed."""
    if function is None or not function.body or not all(isinstance(i.operands[0], Register) for i in waits):
        return
    first = function.body[0]
    count, parity = (Register(len(function.registers) + n, f"%smemsim{n}", "b32") for n in (0, 1))
    new = RegisterType(count.name, count.type), RegisterType(parity.name, parity.type)

    def made(i: Instruction, op: str, words: tuple[str, ...], *operands: Register | Immediate) -> Instruction:
        return dataclasses.replace(i, op=op, modifiers=words, operands=operands, guard=None)

    zero = Edit(first, (dataclasses.replace(made(waits[0], "mov", ("u32",), count, Immediate(0)), line=first.line), first))
    for stages in STAGES:
        for start in (0, 1) if begin is None else (begin & 1,):
            edits: list[Edit] = []
            for i in waits:
                becomes = (
                    made(i, "div", ("u32",), parity, count, Immediate(stages)),
                    made(i, "and", ("b32",), parity, parity, Immediate(1)),
                    made(i, "xor", ("b32",), parity, parity, Immediate(start)),
                    dataclasses.replace(i, operands=(*i.operands[:PARITY], parity, *i.operands[PARITY + 1 :])),
                    dataclasses.replace(made(i, "add", ("u32",), count, count, Immediate(1)), guard=cast("Register", i.operands[0])),
                )
                edits.append(Edit(i, becomes, () if edits else new))
            words = ("n" if stages == 1 else f"(n / {stages})") + " & 1" + " ^ 1" * start
            yield Candidate(
                (*edits, zero),
                f"parity {words} in {lines_of(waits)}, where n counts the earlier passes of this wait",
                is_all=False,
                is_other=True,
                parities=tuple(waits),
            )


def _counting(i: Instruction, code: _Code) -> Function | None:
    """The entry of an instruction, if a counter of its passes can be set to zero before the first instruction: no
    branch leads there, and it is another instruction.
    """
    f = code.function(i)
    if f is None or not f.is_entry or not f.body or f.body[0] == i:
        return None
    names = {x.name for other in f.body for x in other.operands if isinstance(x, Label)} | {
        name for those in f.targets.values() for name in those
    }
    return None if any(f.labels.get(name) == 0 for name in names) else f


def _begun(function: Function, code: _Code) -> Edit:
    """The counter of `COUNTED` begins, so that its first pass is 0: the first register that another change adds."""
    first = (function.body or ())[0]
    count = replaced_by(f"{_NEW} mov.u32 %n, -1;", first, code.module, function, is_before=True)
    return count._replace(registers=())


_NEW = ".reg .b32 %n; .reg .b32 %at; .reg .b32 %parity; .reg .pred %done; .reg .b32 %who;"
COUNTED = f"{_NEW} add.u32 %n, %n, 1;"  # %n: the pass
ADDRESS = "rem.u32 %at, %n, {stages}; mad.lo.u32 %at, %at, {apart}, {base};"  # of the mbarrier of a stage


def _missing_wait(i: Instruction, code: _Code) -> Iterator[Candidate]:
    """A wait for the mbarriers on which loads complete, one stage after the other, before a read."""
    own, those = code.own(i), list(code.mbarriers)
    function = _counting(own, code)
    steps = {b - a for a, b in itertools.pairwise(those)}
    if not those or len(steps) > 1 or function is None or own.guard is not None:
        return
    wait = "smemsim_wait: mbarrier.try_wait.parity.shared::cta.b64 %done, [%at], %parity; @!%done bra smemsim_wait;"
    names = [*code.mbarriers.values()]
    listed = ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)
    mbarrier = f"load's mbarrier {listed}" if len(names) == 1 else f"mbarrier of the load's stage ({listed})"
    said = f"mbarrier.try_wait.parity on the {mbarrier} before {own.at}"
    if len(those) == 1:
        text = f"{_NEW} mov.u32 %at, {those[0]}; mov.u32 %parity, 0;\n{wait}"
        yield Candidate((replaced_by(text, own, code.module, function, is_before=True),), f"{said}, parity 0", is_all=False, is_other=True)
    address = ADDRESS.format(stages=len(those), apart=max(steps, default=8), base=those[0])
    text = f"{COUNTED} {address} div.u32 %parity, %n, {len(those)}; and.b32 %parity, %parity, 1;\n{wait}"
    edits = replaced_by(text, own, code.module, function, is_before=True), _begun(function, code)
    parity = f"(n / {len(those)})" if len(those) > 1 else "n"
    yield Candidate(edits, f"{said}, parity {parity} & 1, where n counts its earlier passes", is_all=False, is_other=True)


def _missing_arrival(f: Finding, code: _Code) -> Iterator[Candidate]:
    """An arrival at the mbarrier that threads wait for: after a wait for wgmma, and a tcgen05.commit after products."""
    init = next((other for other in code.named("mbarrier.init") if other.line == f.numbers.get("init")), None)
    count = None if init is None else code.constant(init, -1)
    if count is None or not f.touched:
        return
    for place, text, who in (*_arrivals_after_wgmma(count, code), *_commits(count, code)):
        function = _counting(place, code)
        if function is None:
            continue
        for stages in STAGES:
            address = ADDRESS.format(stages=stages, apart=8, base=f.touched[0].begin)
            edit = replaced_by(f"{COUNTED} {address} {text}", place, code.module, function, is_before=False)
            ring = f"{stages} mbarriers in turn" if stages > 1 else "mbarrier"
            what = f"{who} after {place.at}, at the {ring} that {f.at} waits for"
            yield Candidate((edit, _begun(function, code)), what, is_all=False, is_other=True)


def _arrivals_after_wgmma(count: int, code: _Code) -> Iterator[tuple[Instruction, str, str]]:
    """(instruction, text, words) of arrivals after waits for wgmma, by so many threads."""
    arrive = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%at];"
    one = f"and.b32 %who, %who, {LANES - 1}; setp.eq.u32 %done, %who, 0; @%done {arrive}"
    text, who = {
        1: (f"mov.u32 %who, %tid.x; and.b32 %who, %who, {4 * LANES - 1}; setp.eq.u32 %done, %who, 0; @%done {arrive}", "one thread"),
    }.get(count, (f"mov.u32 %who, %tid.x; {one}", "lane 0 of each warp") if count < LANES else (arrive, "all threads"))  # fmt: skip
    for place in code.named("wgmma.wait_group")[:MOST_LINES]:
        if place.guard is None:
            yield place, text, f"mbarrier.arrive by {who}"


def _commits(count: int, code: _Code) -> Iterator[tuple[Instruction, str, str]]:
    """(instruction, text, words) of a tcgen05.commit after the last product of each part of the text, and after another
    commit.
    """
    if count != 1:
        return
    products = [i for i in code.named("tcgen05.mma") if i.guard is None]
    name = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    for place in [*products[-1:], *code.named("tcgen05.commit")][:MOST_LINES]:
        if place.guard is None:
            yield place, f"{name} [%at];", "tcgen05.commit"


def _masks_of_ctas(f: Finding, code: _Code) -> Iterator[Candidate]:
    """Other masks of multicasts: the one that the finding has, and that of all CTAs of the cluster."""
    masks = [n for n in (f.numbers.get("mask"), f.numbers.get("all_ctas")) if isinstance(n, int)]
    multicasts = [i for i in code.named("cp.async.bulk", "tcgen05.commit") if any(word.startswith("multicast") for word in i.modifiers)]
    named = {f.line, f.numbers.get("mask_line")}
    for i in sorted(multicasts, key=lambda i: i.line not in named)[:MOST_LINES]:
        n = next((n for n in range(len(i.operands) - 1, 0, -1) if isinstance(i.operands[n], (Register, Immediate))), None)
        n = n - 1 if n is not None and any("cache_hint" in word for word in i.modifiers) else n
        for mask in dict.fromkeys(masks if n is not None else ()):
            yield Candidate((Edit(i, (with_number(i, n, mask),)),), f"{mask:#x} as the mask of every CTA in {i.at}", is_all=False)  # type: ignore[arg-type]


def _ranks(f: Finding, code: _Code) -> Iterator[Candidate]:
    """Other ranks of mapa, if arrivals go to another CTA than the one that waits for them."""
    size = f.numbers.get("elsewhere")
    if not isinstance(size, int):
        return
    for i in code.named("mapa.shared::cluster.u32")[:MOST_LINES]:
        given = i.operands[0]
        ranks = {
            "%tid.x": Special("tid.x"),
            "%cluster_ctarank": Special("cluster_ctarank"),
            "%cluster_ctarank ^ 1": Special("cluster_ctarank"),
        }
        for name, rank in ranks.items():
            moved = [dataclasses.replace(i, op="mov", modifiers=("u32",), operands=(given, rank))]
            if name.endswith("^ 1"):
                moved.append(dataclasses.replace(i, op="xor", modifiers=("b32",), operands=(given, given, Immediate(1))))
            mapped = dataclasses.replace(i, operands=(*i.operands[:-1], given))
            yield Candidate((Edit(i, (*moved, mapped)),), f"mapa to rank {name} in {i.at}", is_all=False)
        for n in range(min(size, MOST_LINES)):
            yield Candidate((Edit(i, (with_number(i, -1, n),)),), f"mapa to rank {n} in {i.at}", is_all=False)


def _named_barrier(f: Finding, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Another count of threads of a barrier: as many as came; another number, of those that the module has."""
    came = f.numbers.get("came")
    if isinstance(came, int) and len(i.operands) > 1 and came:
        alike = [other for other in code.named("bar.", "barrier.") if other.operands[:1] == i.operands[:1] and len(other.operands) > 1]
        for changed in [[i], alike][: len(alike)]:
            yield Candidate(
                tuple(Edit(other, (with_number(other, -1, came),)) for other in changed),
                f"a count of {came} threads in {lines_of(changed)}",
                is_all=False,
            )
    if i.operands and isinstance(i.operands[0], Immediate):
        numbers = {
            other.operands[0].value
            for other in code.named("bar.", "barrier.")
            if other.operands and isinstance(other.operands[0], Immediate)
        }
        for number in sorted(numbers - {i.operands[0].value})[:MOST_NUMBERS]:
            yield Candidate(
                (Edit(i, (with_number(i, 0, number),)),),
                f"barrier {number} instead of {i.operands[0].value} in {i.at}",
                is_all=False,
            )


def _member_mask(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """The lanes that execute an instruction, or all lanes, as its member mask."""
    lanes = f.numbers.get("lanes")
    for mask in dict.fromkeys(n for n in (lanes, FULL_MASK) if isinstance(n, int)):
        alike = [
            other for other in code.named("shfl", "vote", "match", "redux", "bar.warp", "elect") if other.operands[-1] == i.operands[-1]
        ]
        for changed in [[i], alike][: len(alike)]:
            edits = tuple(Edit(other, (with_number(other, -1, mask),)) for other in changed)
            yield Candidate(edits, f"the member mask {mask:#x} in {lines_of(changed)}", is_all=False)


def _arrivals(count: int) -> str:
    return f"{count} arrival{'s' * (count != 1)}"


# ---- fences


def _proxy_fence(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    store = at.other
    if store is None or "map" in f.numbers or not (f.touched or at.arrays):  # a tensor map needs another fence
        return
    fence = "fence.proxy.async;" if at.arrays else "fence.proxy.async.shared::cta;"
    if store.name.startswith("cp.async") and not is_bulk(store):
        waits = code.named("cp.async.wait_group", "cp.async.wait_all")[:MOST_LINES]
        if waits:
            yield Candidate(tuple(code.put(fence, wait) for wait in waits), f"{fence[:-1]} after {lines_of(waits)}")
    else:
        yield Candidate((code.put(fence, store),), f"{fence[:-1]} after {store.at}")
        stores = [other for other in code.named("st.", "stmatrix", "red.", "atom.") if not other.name.startswith("st.local")]
        if len(stores) > 1:
            yield Candidate(tuple(code.put(fence, other) for other in stores), f"{fence[:-1]} after all ordinary stores")
    barrier = code.after(store, _orders)
    if barrier is not None:
        yield Candidate((code.put(fence, barrier, is_before=True),), f"{fence[:-1]} before {barrier.at}")


def _orders(i: Instruction) -> bool:
    return i.op in ("bar", "barrier") or i.name.startswith("mbarrier.arrive")


def _matrix_fence(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    yield Candidate((code.put("wgmma.fence.sync.aligned;", i, is_before=True),), f"wgmma.fence.sync.aligned before {i.at}")


def _tensor_memory(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Waits and fences between two accesses of tensor memory: by what the earlier one is."""
    yield from _columns_apart(f, code)
    others = [half.instruction for half in f.halves if half.instruction is not None and half.instruction is not i]
    before = others[0] if others else at.other
    if before is None or before.op != "tcgen05":
        return
    kind = before.modifiers[0]
    wait = {"ld": "tcgen05.wait::ld.sync.aligned;", "st": "tcgen05.wait::st.sync.aligned;"}.get(kind, "")
    fence, late = "tcgen05.fence::before_thread_sync;", code.put("tcgen05.fence::after_thread_sync;", i, is_before=True)
    said = f"tcgen05.fence::after_thread_sync before {i.at}"
    if wait:
        yield Candidate((code.put(wait, before),), f"{wait[:-1]} after {before.at}", is_all=False)
    yield Candidate((late,), said, is_all=False)
    if wait:
        yield Candidate(
            (code.put(f"{wait} {fence}", before), late), f"{wait[:-1]} and {fence[:-1]} after {before.at}, {said}", is_all=False
        )
        yield Candidate((code.put(fence, before), late), f"{fence[:-1]} after {before.at}, {said}", is_all=False)
        arrive = code.after(before, lambda other: other.name.startswith("mbarrier.arrive"))
        if arrive is None:
            return
        for text in (fence, wait, f"{wait} {fence}"):
            words = " and ".join(text.rstrip(";").split("; "))
            yield Candidate((code.put(text, arrive, is_before=True),), f"{words} before {arrive.at}", is_all=False)


def _columns_apart(f: Finding, code: _Code) -> Iterator[Candidate]:
    """More columns from one accumulator to the next, if two overlap. The instructions that compute the addresses are
    changed.
    """
    apart, columns = f.numbers.get("apart"), f.numbers.get("columns")
    if not isinstance(apart, int) or not isinstance(columns, int):
        return
    changes: list[tuple[Instruction, Edit]] = []
    for i in code.behind_tensor_addresses():
        for n, operand in enumerate(i.operands[1:], 1):
            wanted, given = (size.bit_length() - 1 if i.op == "shl" else size for size in (apart, columns))
            is_power = not (apart & apart - 1 or columns & columns - 1)
            if isinstance(operand, Immediate) and operand.value == wanted and (i.op != "shl" or (n == 2 and is_power)):
                changes.append((i, Edit(i, (with_number(i, n, given),))))
                break
    text = f"accumulators {columns} columns apart instead of {apart}"
    for some in ([one for one in changes if one[0].op != "add"], changes):
        if some:
            yield Candidate(tuple(edit for _, edit in some), f"{text} in {lines_of([i for i, _ in some])}")


# ---- waits


def _waits(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """The changes of a wait for an asynchronous instruction. A wait for its group may leave fewer pending, or a wait or
    a commit may be added. A wait at an mbarrier may acquire, or wait for the other parity.
    """
    if f.code == "X005" and at.kind.startswith("barrier "):  # a thread has waited
        alike = code.copies(i)
        edits = tuple(code.put("bar.sync 0;", one, is_before=True) for one in alike)
        yield Candidate(edits, f"bar.sync 0 (__syncthreads) before {lines_of(alike)}", is_all=False)
        yield from _barriers_behind_wait(f, i, code)
    earlier = [half.instruction for half in f.halves if half.instruction is not None and (half.does == "write" or f.code != "X004")]
    later = [] if f.code == "X004" else [i]
    for op in dict.fromkeys((*(other for other in earlier if other is not i), *later)):
        if kind := _group_kind(op):
            yield from _of_groups(kind, op, i, code, is_all=f.code == "X007")
            break
        if op.op == "tcgen05" and f.code == "X005":
            yield from _commits_instead(op, code)
    waits = code.nearest([other for other in code.named("mbarrier.") if _is_wait(other)], i)
    for wait in [other for other in waits if "relaxed" in other.modifiers][:MOST_LINES]:
        words = tuple("acquire" if word == "relaxed" else word for word in wait.modifiers)
        yield Candidate(
            (Edit(wait, (dataclasses.replace(wait, modifiers=words),)),), f".acquire instead of .relaxed in {wait.at}", is_all=False
        )
    for wait in [other for other in waits if "parity" in other.modifiers][:2] if f.code in ("X004", "X005") else ():
        if f.code == "X004":
            yield from _repeated(wait, code)
            yield _other_parity(wait)
        yield from _counted_parity(wait, code)
    if f.code == "X004":
        yield from _missing_wait(i, code)


def _barriers_behind_wait(f: Finding, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """A barrier where the threads that do not wait for a group meet those that do, before an access."""
    op = next((half.instruction for half in f.halves if half.instruction is not None and _group_kind(half.instruction)), None)
    wait = (
        None if op is None else code.after(op, lambda other: other.name.startswith(("cp.async.wait", "cp.async.bulk.wait", "wgmma.wait")))
    )
    if wait is None or code.function(wait) is None or code.function(wait) is not code.function(code.own(i)):
        return
    waits, accesses = [one for one in code.copies(wait) if one.operands == wait.operands], code.copies(i)
    meets = [meet for one in waits if (meet := code.meeting(one)) is not None]
    if len(meets) == len(waits):
        edits = tuple(code.put("bar.sync 0;", meet, is_before=True) for meet in meets)
        text = f"bar.sync 0 (__syncthreads) between {lines_of(waits)} and {lines_of(accesses)}"
        yield Candidate(edits, text, is_all=False)


def _is_copied_after_wait(f: Finding, i: Instruction, code: _Code) -> bool:
    """Does cp.async come after a wait for its groups, and before a read, with no other such wait between? A new wait
    may help, or the copy goes into the wrong stage.
    """
    copies = [half.instruction for half in f.halves if half.does == "write" and half.instruction is not None]
    waits = [other.line for other in code.named("cp.async.wait")]
    return any(
        _group_kind(op) == "cp.async" and any(line < op.line for line in waits) and not any(op.line < line < i.line for line in waits)
        for op in copies
        if op.line < i.line
    )


def _commits_instead(op: Instruction, code: _Code) -> Iterator[Candidate]:
    """tcgen05.commit for an arrival after an operation of tcgen05; in all copies that a compiler made of its line."""
    arrivals = [i for i in code.named("mbarrier.arrive") if "expect_tx" not in i.modifiers and i.line > op.line]
    for first in code.nearest(arrivals, op)[:1]:
        own = code.copies(first)
        alike = [i for i in arrivals if any(i is other for other in own)]
        group = next((word for word in op.modifiers if word.startswith("cta_group")), "cta_group::1")
        words = "commit", group, "mbarrier::arrive::one", "shared::cluster", "b64"
        edits = tuple(
            Edit(
                i, (dataclasses.replace(i, op="tcgen05", modifiers=words, operands=tuple(x for x in i.operands if isinstance(x, Address))),)
            )
            for i in alike
        )
        yield Candidate(edits, f"tcgen05.commit instead of {first.name} in {lines_of(alike)}")


def _is_wait(i: Instruction) -> bool:
    return i.modifiers[:1] in (("try_wait",), ("test_wait",))


def _group_kind(i: Instruction) -> str:
    """Which commit groups an asynchronous instruction belongs to; "" for none."""
    if i.op == "wgmma" and "mma_async" in i.modifiers:
        return "wgmma"
    if i.op != "cp" or "async" not in i.modifiers or "commit_group" in i.modifiers or any(word.startswith("wait_") for word in i.modifiers):
        return ""
    if not is_bulk(i):
        return "cp.async"
    return "bulk" if "bulk_group" in i.modifiers else ""


def _of_groups(kind: str, op: Instruction, access: Instruction, code: _Code, *, is_all: bool) -> Iterator[Candidate]:
    """Waits for a commit group, by place. The order: first the wait before the access, if there is one with nothing
    committed after it. Then a new wait, before the barrier before the access and after the commit of the operation.
    Then other waits.
    """
    names = {"cp.async": "cp.async.wait_group", "bulk": "cp.async.bulk.wait_group", "wgmma": "wgmma.wait_group"}[kind]
    commit, wait_all = WAITS[kind]
    commits, waits = code.named(commit.removesuffix(";")), code.nearest(code.named(names), access)
    own = code.before(access, lambda other: other in waits or other in commits)
    of_op = code.after(op, lambda other: other in waits)  # of a loop in which the access comes first in the text
    of_access = [wait for wait in waits if wait in (own, of_op)]
    yield from (candidate for wait in of_access for candidate in _fewer_pending(wait, waits, is_all=is_all))
    used = {wait.operands[-1].value for wait in waits if isinstance(wait.operands[-1], Immediate)} | {0, 1}
    texts = [f"{wait_all.removesuffix(' 0;')} {n};" for n in sorted(used, reverse=True)[:MOST_GROUPS]]
    if kind == "bulk":
        texts = [text.replace(" ", ".read ", 1) for text in texts] + [wait_all]
    barrier = code.before(access, lambda other: other.op in ("bar", "barrier"))
    after = code.after(op, lambda other: other in commits)
    if commits:
        for text in texts:
            if barrier is not None:
                yield Candidate((code.put(text, barrier, is_before=True),), f"{text[:-1]} before {barrier.at}", is_all=is_all)
        for text in texts:
            if after is not None:
                yield Candidate((code.put(text, after, has_guard=True),), f"{text[:-1]} after {after.at}", is_all=is_all)
        if after is None or code.before(after, lambda other: other in waits or other is op) is not op:
            yield Candidate((code.put(commit, op, has_guard=kind == "bulk"),), f"{commit[:-1]} after {op.at}", is_all=is_all)
    for wait in [wait for wait in waits if wait not in of_access][:MOST_LINES]:
        yield from _fewer_pending(wait, waits, is_all=is_all)
    yield from _new_groups(kind, op, access, code, is_all=is_all)


def _fewer_pending(wait: Instruction, waits: Sequence[Instruction], *, is_all: bool) -> Iterator[Candidate]:
    """The same wait with a smaller number, the largest first; in all copies that a compiler made of its source line."""
    left = wait.operands[-1]
    if not isinstance(left, Immediate):
        return
    alike = [other for other in waits if other.location == wait.location and other.operands == wait.operands] if wait.location else [wait]
    alike.sort(key=lambda i: i.line)
    for n in range(left.value - 1, max(-1, left.value - 1 - MOST_GROUPS), -1):
        edits = tuple(Edit(other, (with_number(other, -1, n),)) for other in alike)
        yield Candidate(edits, f"{wait.name} {n} instead of {left.value} in {lines_of(alike)}", is_all=is_all)


def _new_groups(kind: str, op: Instruction, access: Instruction, code: _Code, *, is_all: bool) -> Iterator[Candidate]:
    """A commit and a wait of its own; a wait after every commit."""
    commit, wait_all = WAITS[kind]
    both, new = f"{commit[:-1]} and {wait_all[:-1]}", f"{commit} {wait_all}"
    if commits := code.named(commit.removesuffix(";")):
        for text in (wait_all.replace(" 0", ".read 0"), wait_all) if kind == "bulk" else (wait_all,):
            lacking = [other for other in commits if not code.has_behind(other, text[:-1])]
            edits = tuple(code.put(text, other, has_guard=True) for other in lacking)
            if edits:
                yield Candidate(edits, f"{text[:-1]} after {lines_of(lacking)}", is_all=is_all)
    if kind == "bulk":
        every = [other for other in code.named("cp.") if _group_kind(other) == "bulk"]
        for changed in [[op], every][: len(every)]:
            edits = tuple(code.put(new, other, has_guard=True) for other in changed)
            yield Candidate(edits, f"{both} after {lines_of(changed)}", is_all=is_all)
        return
    if kind == "wgmma" and (ends := code.ends_of_products()):
        yield Candidate(tuple(code.put(new, other) for other in ends), f"{both} after {lines_of(ends)}", is_all=is_all)
    places = [access] if kind == "wgmma" else []
    for place in (*places, code.after(op, _orders)):
        if place is not None:
            yield Candidate((code.put(new, place, is_before=True),), f"{both} before {place.at}", is_all=is_all)
    if kind == "cp.async":
        yield Candidate((code.put("bar.sync 0;", access, is_before=True),), f"bar.sync 0 before {access.at}", is_all=is_all)
        edit = code.put(f"{new} bar.sync 0;", access, is_before=True)
        yield Candidate((edit,), f"{both}, then bar.sync 0 before {access.at}", is_all=is_all)


# ---- barriers


def _barrier(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    if f.operation in (UPDATE, LANES_APART):
        return
    if at.other is not None and _is_load(at.other):
        yield from _source(at.other, i, code)
    yield from _scopes(f, at, i, code)
    if f.touched and not at.within_warp:
        for wait in code.nearest([other for other in code.named("mbarrier.") if _is_wait(other)], i)[:2]:
            yield from _repeated(wait, code)
            yield from _counted_parity(wait, code)
        yield from _order_of_mbarriers(i, code)
        yield from _barrier_after_fence(at, i, code)
    if at.within_warp:
        edit = code.put("bar.warp.sync 0xffffffff;", i, is_before=True)
        yield Candidate((edit,), f"bar.warp.sync (__syncwarp) before {i.at}", is_all=False)
    elif f.touched:
        yield Candidate((code.put("bar.sync 0;", i, is_before=True),), f"bar.sync 0 (__syncthreads) before {i.at}", is_all=False)
    elif not at.arrays and (
        ends := [end for end in code.named("ret", "exit") if end.guard is None]
    ):  # shared memory of a CTA that may have ended
        edits = tuple(code.put("barrier.cluster.arrive; barrier.cluster.wait;", end, is_before=True) for end in ends)
        yield Candidate(edits, f"barrier.cluster.arrive and barrier.cluster.wait before {lines_of(ends)}", is_all=False)


def _is_load(i: Instruction) -> bool:
    """Does a copy bring bytes from global to shared memory?"""
    return _group_kind(i) == "cp.async" or (is_bulk(i) and "global" in i.modifiers and "bulk_group" not in i.modifiers)


def _source(copy: Instruction, write: Instruction, code: _Code) -> Iterator[Candidate]:
    """A wait for a copy before its source in global memory is overwritten."""
    if is_bulk(copy):
        yield from (candidate._replace(is_other=False) for candidate in _missing_wait(write, code))
    else:
        yield from _of_groups("cp.async", copy, write, code, is_all=False)


def _order_of_mbarriers(i: Instruction, code: _Code) -> Iterator[Candidate]:
    """.acquire and .release for .relaxed, and .cluster for .cta, in the waits and arrivals of mbarriers."""
    those = [other for other in code.named("mbarrier.") if _is_wait(other) or other.modifiers[:1] == ("arrive",)]
    for other in code.nearest(those, i):
        right = "acquire" if _is_wait(other) else "release"
        for word, by in (("relaxed", right), ("cta", "cluster")):
            if word in other.modifiers:
                words = tuple(by if old == word else old for old in other.modifiers)
                edit = Edit(other, (dataclasses.replace(other, modifiers=words),))
                yield Candidate((edit,), f".{by} instead of .{word} in {other.at}", is_all=False)


def _barrier_after_fence(at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """A barrier after the last proxy fence before an asynchronous access; barriers of the module, and bar.sync 0."""
    write = at.other
    fence = code.before(i, lambda other: other.name.startswith("fence.proxy.async"))
    if write is None or fence is None or _place(fence) < _place(write):
        return
    barriers = [code.with_numbers(other) for other in code.named("bar.sync", "barrier.sync") if other.guard is None]
    for other in {(one.name, one.operands): one for one in barriers if one is not None}.values():
        numbers = ", ".join(str(x.value) for x in other.operands if isinstance(x, Immediate))
        new = dataclasses.replace(other, line=fence.line, nth=MOST_OF_A_LINE)
        yield Candidate((Edit(fence, (fence, new)),), f"{other.name} {numbers} after {fence.at}", is_all=False)


def _scopes(f: Finding, at: InLaunch, i: Instruction, code: _Code) -> Iterator[Candidate]:
    """Between CTAs: .gpu for .cta, and .release or .acquire for .relaxed, in an instruction that may order the two."""
    if f.touched or at.within_warp:
        return
    orders = code.named("st.", "ld.", "atom.", "red.", "fence.", "membar.")
    both = sorted((one for one in (i, at.other) if one is not None and "cta" in one.modifiers), key=lambda one: one.line)
    if len({one.line for one in both}) > 1:
        edits = tuple(
            Edit(one, (dataclasses.replace(one, modifiers=tuple("gpu" if m == "cta" else m for m in one.modifiers)),)) for one in both
        )
        yield Candidate(edits, f".gpu instead of .cta in {lines_of(both)}", is_all=False)
    for other in code.nearest(orders, i)[: 8 * MOST_LINES]:
        if "cta" in other.modifiers and {"relaxed", "acquire", "release", "acq_rel", "sc"}.intersection(other.modifiers):
            words = tuple("gpu" if word == "cta" else word for word in other.modifiers)
            yield Candidate(
                (Edit(other, (dataclasses.replace(other, modifiers=words),)),), f".gpu instead of .cta in {other.at}", is_all=False
            )
    for other in [one for one in code.nearest(orders, i) if "relaxed" in one.modifiers][:MOST_LINES]:
        right = {"ld": "acquire", "atom": "acq_rel"}.get(other.op, "release")
        words = tuple(right if word == "relaxed" else word for word in other.modifiers)
        yield Candidate(
            (Edit(other, (dataclasses.replace(other, modifiers=words),)),),
            f".{right} instead of .relaxed in {other.at}",
            is_all=False,
        )


_Kind = Callable[[Finding, InLaunch, Instruction, _Code], Iterable[Candidate]]
_KINDS: dict[str, _Kind] = {
    "T210": _bytes, "X003": _proxy_fence, "X004": _waits, "X005": _waits, "X006": _count, "X007": _waits, "X008": _barrier, "X010": _count,
    "X011": _member_mask, "X012": _tensor_memory, "X017": lambda f, at, i, code: _columns_apart(f, code), "X014": _matrix_fence,
}  # fmt: skip
