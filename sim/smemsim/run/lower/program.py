"""A program: variables placed, every instruction a step, steps in blocks.

Threads are always at the beginning of a block. A block ends after a branch and everything else after which threads
may part or wait, and before labels and operations before which they may have to wait.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError, Unmodelled
from smemsim.base.floating_point import in_default_state
from smemsim.base.garbage import HARDLY, seldom_collected
from smemsim.base.time_limit import check_time, timed
from smemsim.core.ptx.demangle import demangled
from smemsim.core.ptx.module import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Special,
    Symbol,
    Variable,
    lines_of,
)
from smemsim.core.ptx.parser import CHECKED, read_module
from smemsim.core.ptx.sources import Sources
from smemsim.core.spec.architectures import any_architecture
from smemsim.core.spec.assumptions import remembered
from smemsim.core.spec.barriers import MBARRIER_SIZE
from smemsim.core.spec.ptx_forms import ill_formed, is_closed
from smemsim.core.spec.ptx_words import VERSION
from smemsim.core.spec.targets import TargetRule, static_shared, unsupported
from smemsim.run.isa.registers import Read, Wave, Write, bits_of, reader, storage, writer
from smemsim.run.isa.registry import (
    FOLLOWERS,
    End,
    Gate,
    NotInPtx,
    Plain,
    Step,
    UnmodelledForm,
    builder_of,
    misspelt,
    no_such_form,
    unmodelled,
)
from smemsim.run.isa.special_registers import special
from smemsim.run.lower.copied import NOTHING_COPIED, Copied, copied
from smemsim.run.lower.fused import COMPUTING, Fused, fuse
from smemsim.run.lower.inline import FRAME_ALIGN, FunctionAddresses, Inlined, inline
from smemsim.run.lower.loop_order import in_order
from smemsim.run.lower.operands import OperandTypes, check_shapes

__all__ = ["WORKSPACE", "Block", "Linker", "Place", "Places", "Program", "link", "linked", "module_of", "names_special"]


# ---- Where a program's variables and parameters lie


@dataclasses.dataclass(frozen=True)
class Place:
    """A variable's space and its first byte there.

    In shared memory it is the `.shared` address without a CTA's rank, for parameters and local memory the offset in
    the parameter bank and in the thread's memory. The addresses of global and const variables are the launch's.

    `frame` is the register with the begin of the running call's variables, for those of functions that are not
    inlined.
    """

    name: str
    space: str  # "shared", "global" (const too), "param", "local"
    offset: int
    size: int
    frame: int | None = None


class Places:
    """The places of variables: static shared ones from the begin of the CTA's window, after them the dynamic part;
    local ones from offset 0.

    An entry has the shared variables of the file that it, or a function it calls, names. The dynamic part is aligned
    for all of them (`shared.static`).
    """

    def __init__(self, module: Module, entry: Function, inlined: Inlined, arch: str) -> None:
        machine = any_architecture(arch)
        self._of: dict[str, Place] = {}
        self.parameters = entry.parameters
        self.parameter_bytes = self._lay_out("param", [(p.name, p.align, p.size) for p in entry.parameters], 0)
        used = {**{v.name: v for v in module.variables.values()}, **{v.name: v for v in inlined.variables}}
        self.declared = {p.name: "param" for p in entry.parameters} | {v.name: v.space for v in used.values() if v.space != "param"}
        shared = [v for v in used.values() if v.space == "shared"]
        named = {name for i in inlined.body for name in i.symbols} | {v.name for v in inlined.variables}
        static = [(v.name, v.align, v.size) for v in shared if v.size and v.name in named]
        self.static_end = self._lay_out("shared", static, machine.shared_begin)
        dynamic = [v for v in shared if not v.size]
        align = max((v.align for v in dynamic), default=16)
        self.dynamic_begin = -(-self.static_end // align) * align if dynamic else self.static_end
        for v in dynamic:
            self._of[v.name] = Place(v.name, "shared", self.dynamic_begin, 0)
        local = [(v.name, v.align, v.size) for v in used.values() if v.space in ("local", "param")]
        stacked = [v for frame in inlined.frames.values() for v in frame.variables]
        self.frame_align = max((FRAME_ALIGN, *(v.align for v in stacked)))
        self.local_bytes = -(-self._lay_out("local", local, 0) // self.frame_align) * self.frame_align
        self.frame_bytes: dict[str, int] = {}
        for name, frame in inlined.frames.items():
            end = self._lay_out("local", [(v.name, v.align, v.size) for v in frame.variables], 0, frame.slot)
            self.frame_bytes[name] = -(-end // self.frame_align) * self.frame_align
        in_memory = [v for v in used.values() if v.space in ("global", "const")]
        self.globals: list[Variable] = [v for v in in_memory if not v.is_extern]
        self._elsewhere = {v.name: v.line for v in in_memory if v.is_extern}
        for v in self.globals:
            self._of[v.name] = Place(v.name, "global", 0, v.size)

    def _lay_out(self, space: str, variables: list[tuple[str, int, int]], begin: int, frame: int | None = None) -> int:
        for name, align, size in variables:
            begin = -(-begin // max(align, 1)) * max(align, 1)
            self._of[name] = Place(name, space, begin, size, frame)
            begin += size
        return begin

    def shared_at(self, address: int) -> Place | None:
        """The static shared variable that has a `.shared` address; None without one."""
        return next((p for p in self._of.values() if p.space == "shared" and p.offset <= address < p.offset + p.size), None)

    def mbarrier_at(self, address: int) -> str:
        """The small variable that has an mbarrier, as the source calls it, such as "full[1]"; "" for none."""
        place = self.shared_at(address)
        if place is None or place.size > MOST_BARRIERS * MBARRIER_SIZE:
            return ""
        name = _in_source(place)
        return name + f"[{(address - place.offset) // MBARRIER_SIZE}]" * (place.size > MBARRIER_SIZE and bool(name))

    def mbarrier_named(self, address: int) -> str:
        """An mbarrier in words: "full[1] (0x408)", or its address alone."""
        name = self.mbarrier_at(address)
        return f"{name} ({address:#x})" if name else f"{address:#x}"

    def shared_named(self, first: int, last: int) -> str:
        """Bytes of shared memory in words: "tile (shared 0x400 to 0x47f)" if all are in one static variable, else
        "shared 0x400 to 0x47f".
        """
        place = self.shared_at(first)
        name = _in_source(place) if place is not None and last < place.offset + place.size else ""
        where = f"shared {first:#x}" + (f" to {last:#x}" if last > first else "")
        return f"{name} ({where})" if name else where

    def of(self, name: str) -> Place:
        """The place of a name; Unmodelled for variables of other files."""
        if name in self._elsewhere:
            raise Unmodelled(
                f"{name} is declared .extern and not in this PTX: variables of other files are not modelled",
                line=self._elsewhere[name],
            )
        if name not in self._of:
            known = ", ".join(itertools.islice(self._of, 8))
            raise InputError(f"{name}: no variable of this program ({known})")
        return self._of[name]


def _in_source(place: Place) -> str:
    """A variable as the source calls it; "" if that is not known."""
    name = demangled(place.name).rpartition("::")[2]
    return "" if name.startswith("_Z") else name


# ---- From a PTX entry to a program: calls inlined, variables placed, every instruction made a
# step, steps cut into blocks


_WORD = (1 << 64) - 1
MOST_BARRIERS = 64  # of a variable that has nothing else
WORKSPACE = ("envreg1", "envreg2")  # the special registers with the address of the grid's workspace
BRANCHING = ("bra", "ret", "exit")  # not the instruction that a finding at this line is about
# accesses of threads to memory
ACCESSES = {"read": ("ld", "ldu", "ldmatrix", "wmma.load", "atom", "red"), "write": ("st", "stmatrix", "wmma.store", "atom", "red")}
SPACES = frozenset(("shared", "shared::cta", "shared::cluster", "global", "local", "param", "const"))


@dataclasses.dataclass(eq=False)
class Block:
    """Steps that the same threads execute one after the other: `gate` first, if there is one, then `steps`, then `end`.

    The registers that its instructions name are `slots`, as a bit set. Those that instructions after the gate name are
    `behind`.
    """

    index: int
    gate: Gate | None
    steps: list[Plain]
    end: End | None  # None: on to the next block
    instructions: list[Instruction]  # of gate, steps and end in this order
    slots: int = 0
    behind: int = 0
    has_loads: bool = False  # that may read shared memory
    tier: Any = None  # how its steps run: `jit.tier.Tier`, made when the block first does


@dataclasses.dataclass(eq=False)
class Program:
    """An entry that can run: blocks by number, the storage of its registers, the places of its variables."""

    name: str
    arch: str
    blocks: list[Block]
    registers: list[np.dtype[Any]]
    wide: set[int]  # slots of .b128
    places: Places
    inlined: Inlined
    uses: frozenset[str]  # operations that occur, such as "wgmma"
    # the made-up addresses of the file's functions
    functions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    approximate: frozenset[str] = frozenset()  # of `spec.approximate`: instructions whose results are not bit-exact
    unsure: tuple[Instruction, ...] = ()  # sums into which ptxas may take a product or not, see `fused`
    readers: dict[int, set[int]] | None = None  # of each register, by identity, from the first use on
    # the numbers of registers that hold nothing else, from the first use on (`jit.constants`)
    constants: dict[int, int] | None = None
    # registers that may be read before they are written, from the first use on (`cfg.read_first`)
    read_first: frozenset[int] | None = None
    tiers: str = ""  # how its blocks run: SMEMSIM_TIERS at the last launch (`jit.tier`)
    written: frozenset[int] = frozenset()  # the slots of registers that steps write
    copied: Copied = NOTHING_COPIED  # what carries bytes of global memory to where they are asked for
    at_launch: Mapping[Any, Callable[[Any], None]] = dataclasses.field(
        default_factory=dict
    )  # what builders want done with each launch before its first instruction; equal keys once
    paces: dict[bool, float] = dataclasses.field(
        default_factory=dict
    )  # seconds per cluster in the last launch, with the sanitizer and without it

    _tested: dict[Callable[[Instruction], bool], bool] = dataclasses.field(default_factory=dict, repr=False)  # by `has`

    def has(self, test: Callable[[Instruction], bool]) -> bool:
        """Is `test`, a function of a module, true of an instruction? The answer is kept: each launch may ask."""
        if test not in self._tested:
            self._tested[test] = any(map(test, self.inlined.body))
        return self._tested[test]

    @functools.cached_property
    def starts(self) -> dict[int, int]:
        """The block of each instruction, by identity."""
        return {id(i): block.index for block in self.blocks for i in block.instructions}

    @functools.cached_property
    def comers(self) -> Mapping[int, int]:
        """The number of branches, or entries of tables of branches, to each instruction (by identity) with a label."""
        inlined = self.inlined
        places = {name: id(inlined.body[n]) for name, n in inlined.labels.items() if n < len(inlined.body)}
        found: collections.Counter[int] = collections.Counter()
        for i in inlined.body:
            for label in i.operands:
                if isinstance(label, Label):
                    found.update(places[name] for name in inlined.targets.get(label.name, (label.name,)) if name in places)
        return found

    @property
    def needs_owners(self) -> bool:
        """Is it asked throughout a launch what has written shared memory?"""
        return self.copied.has_factors or not self.uses.isdisjoint(("wgmma", "tcgen05"))

    @functools.cached_property
    def excuses(self) -> frozenset[str]:
        """Whether the sanitizer has a milder message there.

        It is "relaxed" for arrivals at a barrier of the cluster; for .cta, as it is written, "wait" at an mbarrier,
        or "arrive" at one that may be another CTA's.
        """
        found = set()
        for i in self.inlined.body:
            words = {*i.modifiers}
            if i.op in ("bar", "barrier") and {"cluster", "arrive", "relaxed"} <= words:
                found.add("relaxed")
            elif i.op == "mbarrier" and "cta" in words and "relaxed" not in words:
                if not words.isdisjoint(("try_wait", "test_wait")):
                    found.add("wait")
                elif words.isdisjoint(("shared", "shared::cta")):
                    found.add("arrive")
        return frozenset(found)

    @functools.cached_property
    def looks(self) -> bool:
        """Is there anything with which threads look what others have done in memory: a strong load, or an atomic
        operation that swaps?
        """
        strong = {"relaxed", "acquire", "volatile"}
        swaps = {"cas", "exch"}
        return any(not (strong if i.op == "ld" else swaps).isdisjoint(i.modifiers) for i in self.inlined.body if i.op in ("ld", "atom"))

    @functools.cached_property
    def lines(self) -> dict[int, Instruction]:
        """The instructions by their lines; of several on one line (inline assembly) the last one that does more than
        compute, branch and return.
        """
        found: dict[int, Instruction] = {}
        for i in self.inlined.body:
            if i.op not in BRANCHING and (i.op not in COMPUTING or found.get(i.line, i).op in (*COMPUTING, *BRANCHING)):
                found[i.line] = i
            else:
                found.setdefault(i.line, i)
        return found

    @functools.cached_property
    def sites(self) -> dict[int, Instruction]:
        """The instructions by their sites: each of several on one line (inline assembly) has its own."""
        found: dict[int, Instruction] = {}
        for i in self.inlined.body:
            if i.op in BRANCHING:
                found.setdefault(i.site, i)
            elif i.site not in found or found[i.site].op in BRANCHING:
                found[i.site] = i
        return found

    @staticmethod
    def may_access(i: Instruction, does: str, space: str) -> bool:
        """May an instruction "read" or "write" shared or global memory?"""
        return _access(i) in ACCESSES[does] and SPACES.isdisjoint({*i.modifiers} - {space, f"{space}::cta", f"{space}::cluster"})

    def named(self, i: Instruction) -> str:
        """An instruction in a sentence: its line. Its name, too, if the line has other instructions that do more than
        compute.
        """
        return f"{i.name} of {i.at}" if len(self._by_line.get(i.line, ())) > 1 else i.at

    def at(self, *lines: int) -> str:
        """Lines of the PTX, or sites, in a sentence, with those of the source."""
        found = [i for line in lines if (i := self.lines.get(line) or self.sites.get(line)) is not None]
        return lines_of(found) if len(found) == len({*lines}) else f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"

    @functools.cached_property
    def _by_line(self) -> dict[int, list[Instruction]]:
        """The instructions of each line that do more than compute and branch, each once."""
        found: dict[int, dict[str, Instruction]] = {}
        for i in self.inlined.body:
            if i.op not in BRANCHING and i.op not in COMPUTING:
                found.setdefault(i.line, {}).setdefault(i.text, i)
        return {line: [*own.values()] for line, own in found.items()}

    @functools.cached_property
    def has_scratch(self) -> bool:
        """Does the program ask where the system's scratch memory for tiles of several warps lies
        (cooperative groups)?
        """
        return self._names("reserved_smem_offset_1")

    @functools.cached_property
    def allocates(self) -> bool:
        """Does a thread ask for memory of the kernels' heap, or give some back?"""
        return any(i.op == "call" and operand in _HEAP for i in self.inlined.body for operand in i.operands)

    @functools.cached_property
    def names_multiprocessors(self) -> bool:
        """Does a CTA ask where it runs?"""
        return self._names("smid")

    @functools.cached_property
    def names_workspace(self) -> bool:
        """Does a CTA ask where the memory lies that the grid has for its barrier (`Launch.workspace`)?"""
        return self._names(*WORKSPACE)

    def _names(self, *registers: str) -> bool:
        """Is one of some special registers an operand?"""
        return not self._specials.isdisjoint(registers)

    @functools.cached_property
    def _specials(self) -> frozenset[str]:
        """The special registers that are operands."""
        return frozenset(operand.name for i in self.inlined.body for operand in i.operands if isinstance(operand, Special))

    @property
    def needs_others(self) -> bool:
        """May a CTA wait for, or add to, what another one writes to global memory?"""
        return bool(self._meeting)

    @functools.cached_property
    def _meeting(self) -> list[Instruction]:
        return [i for i in self.inlined.body if i.op in _GLOBAL and _meets_others(i)]

    @functools.cached_property
    def hears_others(self) -> bool:
        """May a CTA see what another one has written to global memory, or learn what precedes that? Relaxed sums
        (`red`) return nothing, and order nothing without a fence.
        """
        is_told = any(i.op != "red" or not _ORDERED.isdisjoint(i.modifiers) for i in self._meeting)
        return is_told or (bool(self._meeting) and not self.uses.isdisjoint(("fence", "membar")))

    @functools.cached_property
    def is_apart(self) -> bool:
        """Is a CTA independent of all others, and does nothing happen in it except what its threads do themselves?"""
        return not self.hears_others and "relaxed" not in self.excuses and self.uses.isdisjoint(_ASYNCHRONOUS)

    @functools.cached_property
    def requests(self) -> list[Instruction]:
        """The instructions with which a CTA asks for the work of others."""
        return [i for i in self.inlined.body if i.op == "clusterlaunchcontrol" and "try_cancel" in i.modifiers]


_HEAP = (Symbol("malloc"), Symbol("free"))
_GLOBAL = frozenset(("atom", "cp", "ld", "red", "st"))
_ORDERED = frozenset(("release", "acquire", "acq_rel"))
_ASYNCHRONOUS = frozenset(("cp", "mbarrier", "tcgen05", "wgmma"))


def names_special(i: Instruction, *registers: str) -> bool:
    """Is one of some special registers an operand?"""
    return any(isinstance(operand, Special) and operand.name in registers for operand in i.operands)


def _meets_others(i: Instruction) -> bool:
    where = {m.partition("::")[0] for m in i.modifiers}
    if i.op in ("atom", "red"):
        return "shared" not in where
    if i.op == "ld" and where & {"cv", "cg"}:  # past the L1, where others' stores are seen
        return True
    if i.op in ("ld", "st") and where & {"acquire", "release", "relaxed", "volatile", "mmio"}:
        return "shared" not in where
    return i.op == "cp" and i.modifiers[:1] == ("reduce",)


class Linker:
    """The answers for builders: how to read and write operands, the addresses of variables, the block of a label."""

    def __init__(self, module: Module, inlined: Inlined, places: Places, arch: str, directives: Mapping[str, tuple[int, ...]]) -> None:
        self.directives = directives  # of the entry
        self.module, self.inlined, self.places, self.arch = module, inlined, places, arch
        self.block_of: dict[int, int] = {}  # instruction index: block that begins there
        self.functions = FunctionAddresses(module)
        # what may be called through a pointer
        self.pointed = {self.functions[name]: frame for name, frame in inlined.frames.items()}
        self.approximate: set[str] = set()
        self.copied = copied(inlined.body)
        self.written: set[int] = set()  # the slots of registers that steps write
        self.at_launch: dict[Any, Callable[[Any], None]] = {}  # see `Program.at_launch`
        self.typed: OperandTypes  # of the instruction that is being built

    def read(self, operand: Operand, kind: str) -> Read:
        """A reader of an operand (`registers.reader`); InputError for an operand that no assembler accepts."""
        self.typed.check(operand, kind)
        return reader(operand, kind, self)

    def write(self, operand: Operand, kind: str) -> Write:
        """A writer of an operand (`registers.writer`); InputError for an operand that no assembler accepts."""
        self.typed.check(operand, kind)
        if isinstance(operand, Register):
            self.written.add(operand.slot)
        return writer(operand, kind)

    def special(self, name: str) -> Read:
        """The values of a special register."""
        return special(name)

    def place(self, name: str) -> Place:
        """The place of a variable or a parameter."""
        return self.places.of(name)

    def address_of(self, symbol: Symbol) -> Read:
        """The address of a variable in its own space, as `mov` gives it: a number, or for shared memory of clusters
        one for each thread.
        """
        if symbol.name in self.functions:
            value = np.uint64(self.functions[symbol.name] + symbol.offset & _WORD)
            return lambda x: value
        place = self.place(symbol.name)
        offset = place.offset + symbol.offset
        if place.frame is not None:
            slot, within = place.frame, np.uint64(offset & _WORD)
            return lambda x: x.r[slot][x.sel] + within
        if place.space == "shared":
            return lambda x: x.own_shared(offset)
        if place.space == "global":
            return lambda x: np.uint64(x.launch.addresses[place.name] + symbol.offset & _WORD)
        return lambda x: np.uint64(offset & _WORD)

    def address(self, operand: Operand) -> Read:
        """The value of `[base + offset]` as int64: of the threads that run, or one for all of them.

        A sum with a 32-bit register wraps at 2^32: state spaces that take such a register have addresses of 32 bits
        (compiled: `RULES["shared.width"]`).
        """
        if isinstance(operand, Symbol):  # of a call, a parameter's name
            operand = Address(operand)
        if not isinstance(operand, Address):
            raise InputError(f"operand {operand}: needs an address in brackets")
        offset = (operand.offset + (1 << 63) & _WORD) - (1 << 63)
        if isinstance(operand.base, Symbol):
            at = self.address_of(Symbol(operand.base.name, operand.base.offset + offset))
            return lambda x: np.asarray(at(x)).astype(np.int64)
        if isinstance(operand.base, Register):
            slot = operand.base.slot
            if bits_of(operand.base.type) <= 32:
                narrow = np.uint32(offset & 0xFFFFFFFF)
                if not narrow:
                    return lambda x: x.r[slot][x.sel].astype(np.int64)
                return lambda x: (x.r[slot][x.sel].astype(np.uint32, copy=False) + narrow).astype(np.int64)
            return lambda x: x.r[slot][x.sel].astype(np.int64) + offset
        number = np.uint64(operand.base.value + offset & _WORD).astype(np.int64)
        return lambda x: number

    def space_of(self, operand: Operand) -> str | None:
        """The state space of an address that names a variable; None for registers."""
        base = operand.base if isinstance(operand, Address) else operand
        return self.place(base.name).space if isinstance(base, Symbol) else None

    def target(self, label: str) -> Callable[[], int]:
        """The block of a label; known once everything is built."""
        index = self.inlined.labels[label]
        return lambda: self.block_of[index]


@timed("linking the program")
@seldom_collected(HARDLY)
@in_default_state
def link(module: Module, entry: str, arch: str, *, in_small_blocks: bool = False) -> Program:
    """Make a program of an entry; `in_small_blocks` begins a block with every instruction that others could see, for
    schedules.

    Raises InputError for an entry that does not exist and for what no assembler accepts for the PTX's `.target`.
    Raises Unmodelled with a line for every instruction that is not modelled.
    """
    kernel = module.functions.get(entry)
    if kernel is None or not kernel.is_entry:
        raise InputError(f"entry = {entry!r}: the PTX has {', '.join(f.name for f in module.entries) or 'no .entry at all'}")
    inlined = inline(module, kernel)
    _check_target(inlined.body, kernel.directives, module.own_target)
    fused = Fused(inlined.body) if "debug" in module.target else fuse(inlined)
    inlined.body = fused.body
    if not in_small_blocks:
        in_order(inlined)
    Sources(inlined.body).note()
    places = Places(module, kernel, inlined, arch)
    _check_static(places, module.own_target, arch)
    linker = Linker(module, inlined, places, arch, kernel.directives)
    steps = _steps(inlined.body, linker, module.version)
    blocks = _blocks(inlined, steps, linker, in_small_blocks=in_small_blocks)
    kinds = [storage(r.type) for r in inlined.registers]
    wide = {slot for slot, r in enumerate(inlined.registers) if r.type == "b128"}
    uses = frozenset(i.op for i in inlined.body)
    return Program(
        entry,
        arch,
        blocks,
        kinds,
        wide,
        places,
        inlined,
        uses,
        linker.functions,
        frozenset(linker.approximate),
        fused.unsure,
        copied=linker.copied,
        written=frozenset(linker.written),
        at_launch=linker.at_launch,
    )


# ---- What a process keeps: texts that were read, and programs, which remember no memory


MOST_MODULES = 64  # PTX texts and programs that a process keeps, whichever card they were loaded into
_modules: dict[str, Module] = {}
linked = remembered(MOST_MODULES)(link)  # the program of a module, an entry and an architecture


def module_of(ptx: str | Module, name: str = "<ptx>") -> Module:
    """A PTX text as a module, read once in a process; `name` is how messages call it. A module stays what it is."""
    if isinstance(ptx, Module):
        return ptx
    if isinstance(ptx, str) and len(ptx) < 1024 and ptx.strip().endswith(".ptx"):
        raise InputError(f"ptx = {shown(ptx)}: the name of a file; give its text: open({ptx.strip()!r}).read()")
    if not isinstance(ptx, str):
        raise InputError(f"ptx = {shown(ptx)}: needs the text of a PTX file, a str")
    module = _modules.get(ptx)
    if module is None:
        module = read_module(ptx, name=name)
        while len(_modules) >= MOST_MODULES:
            _modules.pop(next(iter(_modules)), None)
        _modules[ptx] = module
    return module


# ---- the steps of a program


def _check_target(body: Sequence[Instruction], directives: Iterable[str], target: str) -> None:
    """InputError for directives and instructions that no assembler takes for the program's `.target`, with a line for
    each kind of them.
    """
    for name in directives if target else ():
        if (rule := unsupported((name,), target)) is not None:
            raise InputError(f".{name}: not supported on .target {target}: {rule.sentence}; ptxas refuses it")
    refused: dict[TargetRule, Instruction] = {}
    for i in body:
        rule = unsupported(i.words, target) if target else None
        if rule is not None:
            refused.setdefault(rule, i)
    if refused:
        raise InputError(
            "\n".join(
                f"line {i.line}: {i.name}: not supported on .target {target}: {rule.sentence}; ptxas refuses it"
                for rule, i in refused.items()
            )
        )


def _check_static(places: Places, target: str, arch: str) -> None:
    machine = any_architecture(arch)
    size = places.static_end - machine.shared_begin
    # what no card has is refused at the launch
    if target and static_shared(target) < size <= machine.shared_end - machine.shared_begin:
        raise InputError(
            f"{size} bytes of static shared memory: ptxas takes {static_shared(target)} for .target {target}; make it dynamic (extern __shared__)"
        )


def _steps(body: Sequence[Instruction], linker: Linker, version: str) -> list[Step]:
    is_newer = tuple(map(int, version.split("."))) > VERSION
    steps: list[Step] = []
    missing: list[tuple[int, str]] = []  # lines and sentences
    for n, i in enumerate(body):
        if n % CHECKED == CHECKED - 1:
            check_time()
        try:
            steps.append(_step(i, linker, is_newer=is_newer))
        except Unmodelled as problem:
            missing.append(_missing(i, problem, version if is_newer else ""))
        except InputError as problem:
            if is_newer and isinstance(problem, NotInPtx):
                missing.append((i.line, f"{i.name}: {problem} (not modelled: .version {version} is newer)"))
                continue
            raise InputError(f"line {i.line}: {i.text}: {problem}") from None
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as problem:
            raise InputError(
                f"line {i.line}: {i.text}: {i.name} with {len(i.operands)} operands is no instruction of the PTX ISA: words or operands are missing, or of another kind"
            ) from problem
    if missing:
        raise Unmodelled("", each=tuple(dict.fromkeys(missing)))
    return steps


def _step(i: Instruction, linker: Linker, *, is_newer: bool) -> Step:
    """The step of an instruction. `is_newer`: its file is in newer PTX than is known."""
    if not is_newer and (slip := ill_formed(i.op, i.modifiers)):
        raise UnmodelledForm(i, slip)
    builder = builder_of(i)
    if builder is None:
        raise unmodelled(i)
    linker.typed = OperandTypes(i)
    step = builder(i, linker)
    for follow in FOLLOWERS if i.given & linker.copied.slots else ():
        step = follow(i, step, linker)
    check_shapes(i, linker.places.declared)
    return _guarded(i, step)


def _missing(i: Instruction, problem: Unmodelled, newer: str) -> tuple[int, str]:
    """The line and the sentence about an instruction that no builder knows; InputError if PTX does not have it.
    `newer`: the version of its file, if that is newer than the known ones.
    """
    slip = misspelt(i, f"PTX {VERSION[0]}.{VERSION[1]}" if newer else "PTX")
    if slip and not newer:
        raise InputError(f"line {i.line}: {slip}") from None
    is_form = isinstance(problem, UnmodelledForm) and not newer
    if is_form and (is_closed(i.op, i.modifiers) or ill_formed(i.op, i.modifiers)):
        raise InputError(f"line {i.line}: {i.text}: {no_such_form(i, problem.why)}") from None  # type: ignore[attr-defined]
    if slip:
        return i.line, f"{slip} (not modelled: .version {newer} is newer)"
    ((line, sentence),) = problem.each
    return (line, sentence) if line else (i.line, f"{i.name}: {sentence}")


def _guarded(i: Instruction, step: Step) -> Step:
    """The step for the threads whose guard holds."""
    if i.guard is None:
        return step
    slot, negated = i.guard.slot, i.guard.negated

    def holds(x: Wave) -> np.ndarray:
        p: np.ndarray = x.r[slot][x.sel]
        p = ~p if negated else p
        if x.events.guarded:
            x.events.guarded(x, i, p)
        return p

    if isinstance(step, End):
        return _guarded_end(holds, step)
    if isinstance(step, Gate):
        return _guarded_gate(holds, step)
    return _guarded_plain(holds, step)


def _guarded_end(holds: Callable[[Wave], np.ndarray], step: End) -> End:
    """Threads with a false guard go on after the instruction."""
    ends, target = step.run, step.target
    if target is not None:

        def parts(x: Wave, following: int) -> None:
            to, p = target(), holds(x)
            count = np.count_nonzero(p)
            if count == p.size:
                x.jump(to)
            elif not count:
                x.jump(following)
            else:
                x.pc[x.sel] = np.multiply(p, np.int32(to - following)) + np.int32(following)

        return End(parts)

    def end(x: Wave, following: int) -> None:
        p = holds(x)
        if p.all():
            ends(x, following)
            return
        threads = x.threads
        x.pc[threads[~p]] = following
        if p.any():
            x.select(threads[p])
            ends(x, following)

    return End(end, again=step.again)


def _guarded_gate(holds: Callable[[Wave], np.ndarray], step: Gate) -> End:
    """Threads with a false guard go on after the instruction, without a wait at the gate."""
    opens, run = step.opens, step.run

    def gated(x: Wave, following: int) -> None:
        p = holds(x)
        threads = x.threads
        x.pc[threads[~p]] = following
        if p.any():
            x.select(threads[p])
            if opens(x):
                run(x)
                x.pc[x.sel] = following

    return End(gated, again=True)


def _guarded_plain(holds: Callable[[Wave], np.ndarray], plain: Plain) -> Plain:
    """A step that only the threads execute whose guard holds."""

    def guarded(x: Wave) -> None:
        p = holds(x)
        count = np.count_nonzero(p)
        if count == p.size:
            plain(x)
        elif count:
            kept = x.sel
            x.select(x.threads[p])
            try:
                plain(x)
            finally:
                x.select(kept)

    return guarded


def _blocks(inlined: Inlined, steps: list[Step], linker: Linker, *, in_small_blocks: bool) -> list[Block]:
    leaders = {0, *inlined.labels.values()}
    if in_small_blocks:
        leaders |= {n for n, i in enumerate(inlined.body) if is_seen(i)}
        # what it brings may come later
        leaders |= {n + 1 for n, i in enumerate(inlined.body) if i.op == "ld" and is_seen(i)}
    for n, step in enumerate(steps):
        if isinstance(step, Gate) or (isinstance(step, End) and step.again):
            leaders.add(n)
        if isinstance(step, End):
            leaders.add(n + 1)
    starts = sorted(n for n in leaders if n < len(steps))
    linker.block_of.update({n: index for index, n in enumerate(starts)})
    linker.block_of[len(steps)] = len(starts)  # past the end: an exit
    blocks = []
    for index, (start, stop) in enumerate(itertools.pairwise([*starts, len(steps)])):
        if index % CHECKED == CHECKED - 1:
            check_time()
        own = steps[start:stop]
        gate = own.pop(0) if own and isinstance(own[0], Gate) else None
        end = own.pop() if own and isinstance(own[-1], End) else None
        plain = [step for step in own if not isinstance(step, (Gate, End))]
        body = list(inlined.body[start:stop])
        behind = _slots(body[gate is not None :])
        slots = behind | _slots(body[: gate is not None])
        gate, end = gate if isinstance(gate, Gate) else None, end if isinstance(end, End) else None
        blocks.append(Block(index, gate, plain, end, body, slots, behind, any(map(_loads, body))))
    return blocks


def _slots(body: Sequence[Instruction]) -> int:
    """The registers that instructions name, as a bit set."""
    found = 0
    for i in body:
        found |= i.slot_bits
    return found


# Whose order with those of other threads can matter.
def _access(i: Instruction) -> str:
    """The operation of an access. wmma loads and stores, too: `wmma.load`, `wmma.store`."""
    return f"wmma.{i.modifiers[0]}" if i.op == "wmma" else i.op


_ACCESSES = frozenset(("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "multimem", "tensormap", "wmma"))
_ORDERS = frozenset(
    ("fence", "membar", "mbarrier", "bar", "barrier", "tcgen05", "wgmma", "setmaxnreg", "clusterlaunchcontrol", "griddepcontrol")
)


def is_seen(i: Instruction) -> bool:
    """Can an instruction read, write or order what others see?"""
    return i.op in _ACCESSES | _ORDERS and not (
        i.op in ("ld", "st") and {m.partition("::")[0] for m in i.modifiers} & {"local", "const", "param"}
    )


def _loads(i: Instruction) -> bool:
    """Can the instruction be a load of shared or tensor memory?"""
    if i.op == "tcgen05":
        return i.modifiers[0] == "ld"
    return i.op == "ld" and not {m.partition("::")[0] for m in i.modifiers} & {"global", "local", "const", "param"}
