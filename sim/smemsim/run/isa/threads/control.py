"""Control flow: branches, exits, calls and their stacks.

A call puts a frame (`routines.Frame`) on the thread's stack, saves the registers of a function that may already be
running, and saves the return position. Threads may be at different depths, and in different functions.

Every thread has a stack in its local memory, after the variables of the entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.finding import ranges
from smemsim.core.ptx.module import Arguments, Immediate, Instruction, Label, Operand, Parameter, Prototype, Symbol
from smemsim.core.spec.findings import Severity
from smemsim.core.spec.launches import REGISTERS
from smemsim.core.spec.ptx import L2_LINE, SETMAXNREG
from smemsim.core.spec.traps import INVALID_PC, STACK_ERROR
from smemsim.run.engine.traps import thread_name
from smemsim.run.engine.wave import EXITED, WARP, WARPGROUP, YIELDED
from smemsim.run.isa.modifiers import Modifiers
from smemsim.run.isa.registers import dtype_of
from smemsim.run.isa.registry import End, Plain, Step, implements, unmodelled
from smemsim.run.lower.inline import Frame, interface
from smemsim.run.slots import Slot

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker

__all__ = ["Stack", "check_registers"]


# ---- Branches and exits, and what has no effect here


@implements("bra")
def build_bra(i: Instruction, c: Linker) -> Step:
    """`bra target`; its guard, if any, parts the threads."""
    label = i.operands[0]
    if not isinstance(label, Label):
        raise unmodelled(i, "the target is no label")
    if not {*i.modifiers} <= {"uni"}:
        raise InputError("a branch has .uni or nothing")
    target = c.target(label.name)

    def end(x: Wave, following: int) -> None:
        x.jump(target())

    return End(end, target=target)


@implements("brx")
def build_brx(i: Instruction, c: Linker) -> Step:
    """`brx.idx index, targets`: a jump table."""
    index, labels = c.read(i.operands[0], "u32"), i.operands[1]
    if not isinstance(labels, Label) or labels.name not in c.inlined.targets:
        raise unmodelled(i, "the targets are no .branchtargets list")
    targets = [c.target(name) for name in c.inlined.targets[labels.name]]

    def end(x: Wave, following: int) -> None:
        table = np.array([target() for target in targets], np.int32)
        chosen = np.asarray(index(x))
        if (chosen >= len(table)).any():
            raise Unmodelled(f"{i.text}: index {int(chosen.max())} of a list of {len(table)} targets: undefined in PTX", line=i.line)
        x.pc[x.sel] = table[chosen]

    return End(end)


@implements("exit", "ret")
def build_exit(i: Instruction, c: Linker) -> Step:
    """`exit`, and `ret` of the entry: the threads are done."""
    words = Modifiers(i)
    words.one_of(("uni",) if i.op == "ret" else ())
    words.end()

    def end(x: Wave, following: int) -> None:
        x.jump(EXITED)
        x.launch.exited(x, x.threads)

    return End(end)


@implements("nanosleep")
def build_nanosleep(i: Instruction, c: Linker) -> Step:
    """`nanosleep.u32`: other threads run first."""
    if i.modifiers != ("u32",):
        raise unmodelled(i)

    def end(x: Wave, following: int) -> None:
        x.pc[x.sel] = following + YIELDED

    return End(end)


# Instructions that change nothing a kernel can see, with the words that they may have.
_WITHOUT_EFFECT = {
    "pmevent": ("mask",),
    "prefetch": ("global", "local", "const", "param", "tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"),
    "prefetchu": ("L1",),
    "applypriority": ("global", "L2::evict_normal"),
    "discard": ("global", "L2"),
}


@implements(*_WITHOUT_EFFECT)
def build_nothing(i: Instruction, c: Linker) -> Step:
    """Instructions without an effect on results: only their modifiers are checked."""
    unknown = [word for word in i.modifiers if word not in _WITHOUT_EFFECT[i.op]]
    if unknown:
        raise unmodelled(i, f".{unknown[0]}")
    if i.op in ("applypriority", "discard") and i.operands[1] != Immediate(L2_LINE):
        raise unmodelled(i, f"a size that is not {L2_LINE}")
    run: Plain = lambda x: None  # noqa: E731
    return run


@implements("griddepcontrol")
def build_griddepcontrol(i: Instruction, c: Linker) -> Step:
    """`griddepcontrol.launch_dependents` and `.wait` (PTX ISA 9.1 §9.7.13.13): launches run one after the other here,
    and the sanitizer knows which could overlap.
    """
    words = Modifiers(i)
    action = words.one_of(("launch_dependents", "wait"))
    words.end()
    if not action:
        raise unmodelled(i, "without .launch_dependents or .wait")

    def run(x: Wave) -> None:
        tell = x.events.dependency_waited if action == "wait" else x.events.dependents_launched
        if tell:
            tell(x, i)

    return run


@dataclasses.dataclass(eq=False)
class _Asked:
    """The registers per thread that warps of a CTA have requested last, by warp of the wave, and those at the begin:
    `alone` if the CTA has the multiprocessor alone.
    """

    at_entry: int = 0
    alone: int = 0
    of_warps: dict[int, tuple[int, Instruction]] = dataclasses.field(default_factory=dict)


_ASKED: Slot[_Asked] = Slot(lambda cta: _Asked())


@implements("setmaxnreg")
def build_setmaxnreg(i: Instruction, c: Linker) -> Step:
    """`setmaxnreg.inc|dec.sync.aligned.u32 N`: no thread waits here; the registers at the end of a CTA have to fit
    those at its begin (PTX ISA 9.1 §9.7.19.5).
    """
    words = Modifiers(i, "sync", "aligned", "u32")
    words.need("inc", "dec")
    words.end()
    (count,) = i.operands
    if not isinstance(count, Immediate) or count.value not in SETMAXNREG:
        raise InputError(f"needs a number of registers from {SETMAXNREG[0]} to {SETMAXNREG[-1]}, a multiple of {SETMAXNREG.step}")
    registers = count.value
    threads, ctas = (c.directives.get(name) or (0,) for name in ("maxntid", "minnctapersm"))
    most = (c.directives.get("maxnreg") or (0,))[0]
    at_entry, alone = (REGISTERS.at_entry(most, int(np.prod(threads)), count) for count in (ctas[0], min(ctas[0], 1)))

    def run(x: Wave) -> None:
        for first in x.threads[np.flatnonzero(np.diff(x.threads // WARP, prepend=-1))].tolist():
            asked = _ASKED(x.ctas[int(x.cta_of[first])])
            asked.at_entry, asked.alone = asked.at_entry or at_entry, asked.alone or alone
            asked.of_warps[first // WARP] = registers, i

    return run


def check_registers(x: Wave) -> None:
    """X006 where the warps of a CTA that has ended had asked for more registers than it had: an inc waits until
    others have given some back.
    """
    for cta in x.ctas.made:
        asked = _ASKED.peek(cta)
        if asked is None:
            continue
        at_entry, alone, of_warps = asked.at_entry, asked.alone, asked.of_warps
        warps = x.stride // WARP
        _check_warpgroups(x, of_warps, warps, is_ignored=not at_entry)
        if not at_entry:  # ptxas does not know it, and ignores the instruction
            continue
        total = sum(count for count, _ in of_warps.values()) + (warps - len(of_warps)) * at_entry
        most, i = max(of_warps.values(), key=lambda one: one[0])
        if total > warps * at_entry and "inc" in i.modifiers:
            x.launch.find(
                "X006", i, "setmaxnreg.inc waits for ever: the CTA has too few registers",
                why=f"with {most} registers a thread here, the {warps} warps need {WARP * total}; the CTA has {WARP * warps * at_entry}, {at_entry} a thread",
                repair=_fewer(of_warps, warps, at_entry, alone), because="PTX ISA 9.1 §9.7.19.5",
            )  # fmt: skip


def _fewer(of_warps: dict[int, tuple[int, Instruction]], warps: int, at_entry: int, alone: int) -> str:
    """The change to make if warps ask for more registers than their CTA has. A thread of a CTA that need not share the
    multiprocessor is `alone`.
    """
    counts = [count for count, _ in of_warps.values()] + [at_entry] * (warps - len(of_warps))
    pool, most = warps * at_entry, max(counts)
    if at_entry < alone and sum(counts) <= warps * alone:
        return f".minnctapersm 1 (__launch_bounds__(threads, 1)): a thread then begins with {alone} registers, and that is enough"
    asking = counts.count(most)
    here = (pool - sum(counts) + asking * most) // asking // SETMAXNREG.step * SETMAXNREG.step
    others = (pool - asking * most) // max(1, warps - asking) // SETMAXNREG.step * SETMAXNREG.step
    less = f"setmaxnreg.inc of at most {here} registers here"
    return (
        f"setmaxnreg.dec to at most {others} registers in the other warps, or {less}"
        if others >= SETMAXNREG[0] and asking < warps
        else less
    )


def _check_warpgroups(x: Wave, of_warps: dict[int, tuple[int, Instruction]], warps: int, *, is_ignored: bool) -> None:
    """X011, a remark, if some warps of a warpgroup have executed setmaxnreg and others never. The effect is undefined.

    No case is known in which it does harm. With `is_ignored` ptxas leaves the instruction out.
    """
    why = "the effect is then undefined"
    if is_ignored:
        why = "the effect is undefined as soon as ptxas does not ignore the instruction; it does here, as it knows no number of registers at entry"
    size = WARPGROUP // WARP
    groups: dict[tuple[int, int], set[int]] = {}  # the warps, by CTA and warpgroup
    for warp in of_warps:
        groups.setdefault((warp // warps, warp % warps // size), set()).add(warp % warps)
    for (cta, group), came in groups.items():
        absent = set(range(size * group, min(size * (group + 1), warps))) - came
        if absent:
            i = of_warps[cta * warps + min(came)][1]
            names = [f"warp{'s' * (len(some) > 1)} {ranges(sorted(some))}" for some in (came, absent)]
            x.launch.find(
                "X011", i, f"only {names[0]} of a warpgroup execute{'s' * (len(came) == 1)} {i.name}, and not {names[1]}", why=why, repair="let all four warps of the warpgroup execute it", because="PTX ISA 9.1 §9.7.19.5", milder=Severity.NOTE,
            )  # fmt: skip


# ---- Calls of functions that are not inlined, and `ret` out of them (PTX ISA 9.1 §7.1, 9.7.12.5)


def _bytes_of(c: Linker, operand: Operand, formal: Parameter, i: Instruction) -> Callable[[Wave], np.ndarray]:
    """The bytes that a call passes: (threads that run, bytes)."""
    if isinstance(operand, Symbol) and operand.name not in c.module.functions and c.place(operand.name).space == "local":
        if formal.size > c.place(operand.name).size:
            raise InputError(f"{operand.name} has {c.place(operand.name).size} bytes, the parameter {formal.size}")
        address, columns = c.address(operand), np.arange(formal.size)
        return lambda x: x.memories.local[x.threads[:, None], _column(x, address) + columns]
    if formal.type == "pred" or formal.size not in (1, 2, 4, 8):
        raise unmodelled(i, f"an argument of .{formal.type} that is no .param variable")
    read, kind = c.read(operand, formal.type), dtype_of(formal.type)
    return lambda x: np.ascontiguousarray(np.broadcast_to(np.asarray(read(x), kind), x.n)).view(np.uint8).reshape(x.n, -1)


def _column(x: Wave, address: Callable[[Wave], Any]) -> np.ndarray:
    found: np.ndarray = np.broadcast_to(np.asarray(address(x)), x.n)[:, None]
    return found


def _pass(x: Wave, begin: np.ndarray, given: list[tuple[int, np.ndarray]]) -> None:
    for offset, raw in given:
        x.memories.local[x.threads[:, None], begin[:, None] + offset + np.arange(raw.shape[1])] = raw


@implements("call.#enter")
def build_enter(i: Instruction, c: Linker) -> Step:
    """`call (results), f, (arguments)` of a function that is not inlined, or through a register that
    holds its address.
    """
    callee, arguments, label = cast("tuple[Operand, Arguments, Label]", i.operands)
    signature = c.inlined.signatures[label.name]
    _, offsets, _ = interface(signature.results, signature.parameters)
    reads = [_bytes_of(c, operand, formal, i) for operand, formal in zip(arguments.items, signature.parameters, strict=True)]

    def go(x: Wave, frame: Frame, following: int, given: list[tuple[int, np.ndarray]]) -> None:
        begin = Stack.of(x).enter(x, i, x.threads, frame, following)
        _pass(x, begin, given)
        x.pc[x.sel] = c.target(frame.label)()

    if isinstance(callee, Symbol):
        called = c.inlined.frames[callee.name]

        def direct(x: Wave, following: int) -> None:
            go(x, called, following, [(at, read(x)) for at, read in zip(offsets, reads, strict=True)])

        return End(direct)
    pointer = c.read(callee, "u64")

    def indirect(x: Wave, following: int) -> None:
        threads, values = x.threads, np.broadcast_to(pointer(x), x.n)
        given = [(at, read(x)) for at, read in zip(offsets, reads, strict=True)]
        for address in distinct(values).tolist():
            part = np.flatnonzero(values == address)
            frame = c.pointed.get(address)
            if frame is None or not _fits(signature, frame):
                _no_function(x, i, int(threads[part[0]]), address, frame, signature)
                return
            x.select(threads[part])
            go(x, frame, following, [(at, raw[part]) for at, raw in given])

    return End(indirect)


def _fits(signature: Prototype, frame: Frame) -> bool:
    """Does a function take and give what the call says?"""
    f = frame.function
    sizes = [[(p.size, p.align) for p in part] for part in (signature.results, signature.parameters, f.results, f.parameters)]
    return sizes[:2] == sizes[2:]


def _no_function(x: Wave, i: Instruction, thread: int, address: int, frame: Frame | None, signature: Prototype) -> None:
    who = thread_name(x, thread)
    if frame is not None:
        f = frame.function
        sentence = (
            f"{who} calls {f.name} ({len(f.parameters)} parameters, {len(f.results)} results) by a prototype of {len(signature.parameters)} and "
            f"{len(signature.results)} of other sizes"
        )
        why, repair = "what the function reads is undefined", "call it through a pointer of its own type"
    else:
        sentence = f"{who} calls address {address:#x}, where no function of this PTX begins"
        why, repair = "", "store the address of a device function, taken on the device: host addresses differ"
    x.launch.find("X015", i, sentence, repair, why=why)
    raise HardwareTrap(f"{sentence}", cuda_error=INVALID_PC)


@implements("call.#results")
def build_results(i: Instruction, c: Linker) -> Step:
    """Copy the results of a function from its frame into the caller's `.param` variables or registers."""
    results, label = cast("tuple[Arguments, Label]", i.operands)
    signature = c.inlined.signatures[label.name]
    offsets, _, _ = interface(signature.results, signature.parameters)
    puts = [_receiver(c, operand, formal, i) for operand, formal in zip(results.items, signature.results, strict=True)]
    sizes = [formal.size for formal in signature.results]

    def run(x: Wave) -> None:
        top = Stack.of(x).top[x.threads]
        for put, offset, size in zip(puts, offsets, sizes, strict=True):
            put(x, x.memories.local[x.threads[:, None], top[:, None] + offset + np.arange(size)])

    return run


def _receiver(c: Linker, operand: Operand, formal: Parameter, i: Instruction) -> Callable[[Wave, np.ndarray], None]:
    if isinstance(operand, Symbol):
        if c.place(operand.name).space != "local" or c.place(operand.name).size < formal.size:
            raise InputError(f"{operand.name} cannot take a result of {formal.size} bytes")
        address, columns = c.address(operand), np.arange(formal.size)

        def put(x: Wave, raw: np.ndarray) -> None:
            x.memories.local[x.threads[:, None], _column(x, address) + columns] = raw

        return put
    if formal.type == "pred" or formal.size not in (1, 2, 4, 8):
        raise unmodelled(i, f"a result of .{formal.type} that is no .param variable")
    write, kind = c.write(operand, formal.type), dtype_of(formal.type)
    return lambda x, raw: write(x, np.ascontiguousarray(raw).view(kind)[:, 0])


@implements("ret.#frame")
def build_ret(i: Instruction, c: Linker) -> Step:
    """`ret` of a function that is not inlined."""
    name = i.operands[0]
    if not isinstance(name, Symbol):
        raise unmodelled(i)
    frame = c.inlined.frames[name.name]

    def end(x: Wave, following: int) -> None:
        threads = x.threads
        x.pc[threads] = Stack.of(x).leave(x, threads, frame)

    return End(end)


# ---- The stacks of threads: frames of calls, kept registers, and `alloca`, `stacksave`, `stackrestore`
# (PTX ISA 9.1 §7.3, 9.7.12)


STACK_BYTES = 1 << 16  # of each thread: frames and kept registers. Hardware: 1 KiB, or what cudaLimitStackSize says
_RETURN = 8  # bytes that a call takes besides


@dataclasses.dataclass(eq=False)
class _Kept:
    """Registers of a function at every depth: arrays (depth, threads)."""

    slots: range
    depth: np.ndarray
    values: list[np.ndarray]

    def push(self, x: Wave, threads: np.ndarray) -> None:
        """Keep the registers of threads that enter the function."""
        x.materialize()
        depth = self.depth[threads]
        if len(self.values) == 0 or int(depth.max()) >= len(self.values[0]):
            rows = max(4, 2 * (int(depth.max()) + 1))
            old = self.values or [np.zeros((0, *x.r[slot].shape), x.r[slot].dtype) for slot in self.slots]
            self.values = [np.concatenate([v, np.zeros((rows - len(v), *v.shape[1:]), v.dtype)]) for v in old]
        for slot, kept in zip(self.slots, self.values, strict=True):
            kept[depth, threads] = x.r[slot][threads]
        self.depth[threads] += 1

    def pop(self, x: Wave, threads: np.ndarray) -> None:
        """Give the registers back to threads that leave it."""
        x.materialize()
        self.depth[threads] -= 1
        depth = self.depth[threads]
        for slot, kept in zip(self.slots, self.values, strict=True):
            x.r[slot][threads] = kept[depth, threads]


class Stack:
    """The stacks of the threads of a wave: `top` is the first free byte of each one's local memory, `depth` its open
    calls.
    """

    def __init__(self, x: Wave) -> None:
        self.align = x.program.places.frame_align
        self.bottom = x.program.places.local_bytes
        self.top = np.full(x.total, self.bottom, np.int64)
        self.depth = np.zeros(x.total, np.int64)
        self.registers = np.zeros(x.total, np.int64)  # bytes of kept registers
        self.back = np.zeros((8, x.total), np.int32)  # (depth, threads): the block to go on with
        self.kept: dict[str, _Kept] = {}

    @staticmethod
    def of(x: Wave) -> Stack:
        """The stacks of a wave."""
        return _STACK(x)

    def grow(self, x: Wave, i: Instruction, threads: np.ndarray, size: Any) -> np.ndarray:
        """Take bytes from the stacks of threads; returns their begins. Ends the kernel without room: X001."""
        begin: np.ndarray = self.top[threads]
        end = begin + (-(-np.asarray(size, np.int64) // self.align) * self.align)
        full = end - self.bottom + self.registers[threads] + _RETURN * self.depth[threads]
        if (full > STACK_BYTES).any() or (end < begin).any():
            self._overflow(x, i, int(threads[int(full.argmax())]))
        self.top[threads] = end
        need = int(end.max())
        if need > x.memories.local.shape[1]:
            room = -(-max(need, 2 * x.memories.local.shape[1]) // 16) * 16
            x.memories.local = np.concatenate([x.memories.local, np.zeros((x.total, room - x.memories.local.shape[1]), np.uint8)], axis=1)
            if x.taint is not None:
                x.taint.stack_grew()
        return begin

    def _overflow(self, x: Wave, i: Instruction, thread: int) -> None:
        sentence = (
            f"the stack of {thread_name(x, thread)} is full: {int(self.depth[thread])} nested calls, "
            f"{int(self.top[thread]) - self.bottom + int(self.registers[thread])} bytes of variables and kept registers"
        )
        x.launch.find(
            "X001", i, sentence, "end the recursion earlier, or use a loop with a stack of your own",
            why=f"smemsim gives a thread {STACK_BYTES} bytes, a GPU 1024 unless more is requested",
        )  # fmt: skip
        raise HardwareTrap(f"{sentence}", cuda_error=STACK_ERROR)

    def enter(self, x: Wave, i: Instruction, threads: np.ndarray, frame: Frame, back: int) -> np.ndarray:
        """Threads begin a call; where their frames begin."""
        name = frame.function.name
        begin = self.grow(x, i, threads, x.program.places.frame_bytes[name])
        if frame.recursive:
            kept = self.kept.setdefault(name, _Kept(range(frame.first, frame.first + frame.count), np.zeros(x.total, np.int64), []))
            kept.push(x, threads)
            self.registers[threads] += _register_bytes(x, frame)
        depth = self.depth[threads]
        if int(depth.max()) >= len(self.back):
            self.back = np.concatenate([self.back, np.zeros_like(self.back)])
        self.back[depth, threads] = back
        self.depth[threads] += 1
        x.r[frame.slot][threads] = begin.view(np.uint64)
        return begin

    def leave(self, x: Wave, threads: np.ndarray, frame: Frame) -> np.ndarray:
        """Threads end a call; the blocks they go on with. Their frames, now free, still hold the results."""
        self.top[threads] = x.r[frame.slot][threads].view(np.int64)
        if frame.recursive:
            self.kept[frame.function.name].pop(x, threads)
            self.registers[threads] -= _register_bytes(x, frame)
        self.depth[threads] -= 1
        back: np.ndarray = self.back[self.depth[threads], threads]
        return back


_STACK: Slot[Stack] = Slot(Stack)


def _register_bytes(x: Wave, frame: Frame) -> int:
    return sum(int(x.r[slot].nbytes) for slot in range(frame.first, frame.first + frame.count)) // x.total


# ---- room on the stack


def _width(i: Instruction) -> str:
    """The only modifier of the stack instructions: .u64 or .u32."""
    words = Modifiers(i)
    kind = words.need("u64", "u32")
    words.end()
    return kind


@implements("alloca")
def build_alloca(i: Instruction, c: Linker) -> Step:
    """`alloca.u64 p, size {, alignment}`: room on the stack until the function returns; a `.local` address."""
    kind = _width(i)
    write, size = c.write(i.operands[0], kind), c.read(i.operands[1], kind)
    align = i.operands[2] if len(i.operands) == 3 else Immediate(8)
    if not isinstance(align, Immediate) or align.value < 1 or align.value & (align.value - 1):
        raise InputError("the alignment needs to be a power of two")
    least = align.value

    def run(x: Wave) -> None:
        stack, threads = Stack.of(x), x.threads
        begin = -(-stack.top[threads] // least) * least
        stack.grow(x, i, threads, np.broadcast_to(size(x), x.n).astype(np.int64) + begin - stack.top[threads])
        write(x, begin.view(np.uint64).astype(dtype_of(kind)))

    return run


@implements("stacksave")
def build_stacksave(i: Instruction, c: Linker) -> Step:
    """`stacksave.u64 d`: the current end of the stack."""
    kind = _width(i)
    write = c.write(i.operands[0], kind)
    return lambda x: write(x, Stack.of(x).top[x.threads].view(np.uint64).astype(dtype_of(kind)))


@implements("stackrestore")
def build_stackrestore(i: Instruction, c: Linker) -> Step:
    """`stackrestore.u64 a`: the stack ends again where `stacksave` found it."""
    read = c.read(i.operands[0], _width(i))

    def run(x: Wave) -> None:
        stack, threads = Stack.of(x), x.threads
        to = np.broadcast_to(read(x), x.n).astype(np.int64)
        wrong = (to < stack.bottom) | (to > stack.top[threads])
        if wrong.any():
            n = int(np.flatnonzero(wrong)[0])
            sentence = f"{thread_name(x, int(threads[n]))} restores its stack to {int(to[n]):#x}, which is not a value of stacksave"
            x.launch.find("X015", i, sentence)
            raise HardwareTrap(f"{sentence}", cuda_error=STACK_ERROR)
        stack.top[threads] = to

    return run
