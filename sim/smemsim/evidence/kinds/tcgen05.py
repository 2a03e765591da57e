"""Traces of tcgen05: allocation, operands, products."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from smemsim.base.errors import HardwareTrap, InputError, SmemsimError, Unmodelled
from smemsim.core.arithmetic.multiply import Factors, Options, multiply
from smemsim.core.machine.cluster import commit_arrivals
from smemsim.core.machine.memory import GlobalMemory, SharedMemory
from smemsim.core.machine.tcgen05 import Tcgen05Mma, check_instruction, instruction, stored_k
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.layout import AccumulatorLayout
from smemsim.core.machine.tmem.memory import TensorMemory
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.assumptions import in_force, remembered
from smemsim.core.spec.evidence import RULES, Rule
from smemsim.core.spec.formats import ElementFormat, element_format
from smemsim.core.spec.tcgen05 import scale_modes
from smemsim.core.spec.tensor_memory import COLUMNS, LANES, METADATA
from smemsim.core.spec.traps import ILLEGAL_ADDRESS
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force, window_reach
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.difference.diagnose import Diagnosis, diagnose
from smemsim.diagnosis.difference.sides import Product, Side
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, agree, differ, grid_map

__all__ = [
    "SENTINEL",
    "UNTOUCHED",
    "Issued",
    "RefusedInstruction",
    "Tcgen05Alloc",
    "Tcgen05Commit",
    "Tcgen05Contention",
    "Tcgen05Dot",
    "Tcgen05Gemm",
    "Tcgen05Operand",
    "alone_or_pair",
    "cells_of_d",
    "fresh_tensor_memory",
    "judged",
    "put_in_cells",
    "same_zeros",
    "whose_number",
    "words_of",
]


# ---- What the comparisons of tcgen05 traces share: the instruction of a case, its outcome, the
# tags that probes leave in D


LAUNCH_TIMEOUT = 702  # the status of a kernel that had to be ended
UNTOUCHED = -2  # a place in a cell that nothing wrote
SENTINEL = 0x7FE5A5A5  # the word that tensor memory held before: a NaN that no instruction makes
LANE_0 = TmemAddress()
CTA_ROWS = 128  # probes number the rows of an operand 128 * CTA + row of that CTA


def judged(status: int, completed: int, rule: Rule, call: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    """Run the model on a case. Returns an outcome if the case is decided without data.

    An instruction that the model refuses agrees with any error: the model does not know which error an illegal
    instruction gives. A wait that timed out (`completed` 0, or a kernel that was stopped) is not an error: hardware may
    have executed it and lost its completion. Such a case is Unmodelled, like everything that the model does not know;
    the sentences have what was recorded.
    """
    late = status == LAUNCH_TIMEOUT or not (status or completed)
    ended = "never completes it" if late else f"ends with CUDA error {status}" if status else ""
    try:
        result = call()
    except InputError as e:
        if late:
            raise Unmodelled(f"no such instruction: {e}; recorded: hardware never completes it, neither an error nor a result") from None
        if ended:
            return None, agree(1)
        return None, Outcome(1, 1, f"hardware runs it | model: no such instruction: {e}", (), rule, "outcome")
    except HardwareTrap as e:
        if status == e.cuda_error:
            return None, agree(1)
        return None, Outcome(1, 1, f"hardware {ended or 'runs it'} | model traps: {e}", (), rule, "outcome")
    except Unmodelled as e:
        raise Unmodelled(f"{e}; recorded: hardware {ended or 'runs it'}") from None
    if ended:
        return None, Outcome(1, 1, f"hardware {ended} | model runs it", (), rule, "outcome")
    return result, None


class RefusedInstruction(Exception):
    """An alternative that is assumed refuses the word of the instruction descriptor."""

    def outcome(self, suite: Suite, index: int) -> Outcome:
        """The comparison of a case with that: it agrees with any error."""
        a = suite.arrays
        _, outcome = judged(
            int(a["status"][index]), int(a["completed"][index]) if "completed" in a else 1, RULES["tcgen05.idesc"], self._refuse
        )
        return outcome or agree(1)

    def _refuse(self) -> Any:
        raise InputError(str(self))


def read_descriptor(word: int, kind: str) -> InstrDescriptor:
    """The instruction descriptor as the rules read it, or the alternative that is assumed."""
    try:
        return instruction(word, kind)
    except InputError as e:
        if not in_force():  # every word has a meaning: the kind is wrong
            raise
        raise RefusedInstruction(str(e)) from None


@dataclasses.dataclass(frozen=True)
class Issued:
    """The tcgen05.mma of a case. `form` is the kit's name of it: kind, block size if any, ss or ts, sp, ws, and one
    more qualifier.
    """

    arch: str
    word: int  # of the instruction descriptor
    idesc: InstrDescriptor  # as the rules, or what is assumed, read the word
    dtype: str
    cta_group: int
    ws: bool
    is_sparse: bool  # tcgen05.mma.sp, whatever the descriptor says
    form: tuple[str, ...] = ()

    @classmethod
    def of(cls, suite: Suite, index: int) -> Issued:
        """The instruction of a case that records kind, dtype, idesc, group and perhaps ws and form."""
        a = suite.arrays
        idesc = read_descriptor(int(a["idesc"][index]), str(a["kind"][index]))
        form = tuple(str(a["form"][index]).split(".")) if "form" in a else ()
        ws = bool(a["ws"][index]) if "ws" in a else False
        is_sparse = bool(a["sparse"][index]) if "sparse" in a else "sp" in form
        return cls(
            suite.arch,
            int(a["idesc"][index]),
            idesc,
            str(a["dtype"][index]).removesuffix("x2"),
            int(a["group"][index]),
            ws,
            is_sparse,
            form,
        )

    def __str__(self) -> str:
        i = self.idesc
        name = f"tcgen05.mma{'.ws' if self.ws else ''}{'.sp' if i.sparsity else ''}.cta_group::{self.cta_group}.kind::{i.kind}"
        return f"{name}, {self.dtype}, {i.m} x {i.n} x {i.k}{f' ({self.tail})' if self.tail else ''}"

    @property
    def element(self) -> ElementFormat:
        """The type of A and B."""
        return element_format(self.dtype)

    def of_operand(self, side: int) -> tuple[str, str]:
        """(type, major) of A (0) or B (1), as the descriptor has them."""
        i = self.idesc
        return ((i.a_type, i.a_major), (i.b_type, i.b_major))[side]

    @property
    def per_chunk(self) -> int:
        """Elements of 16 bytes of shared memory."""
        return self.element.elements_per_chunk(self.idesc.row.packing)

    @property
    def tail(self) -> str:
        """The qualifier that is neither in the kind nor in the operands: mask, zero, fill, scale3 ..."""
        last = self.form[-1] if self.form else ""
        return "" if last in (*_PLAIN, *self.form[:1], self.scale_vec) else last

    @property
    def scale_vec(self) -> str | None:
        """block16 or block32, as the form has it."""
        return next((part for part in self.form if part.startswith("block")), None)

    def check(self, a: int | TmemAddress = 0, b: int = 0, d: TmemAddress = LANE_0) -> None:
        """InputError with the first rule that the instruction breaks; `a` and `b` are its operands where their swizzle
        or lane matters.
        """
        factors, sparse = (LANE_0 if self.idesc.row.block_scaled else None), (LANE_0 if self.is_sparse else None)
        given: dict[str, Any] = {"cta_group": self.cta_group, "ws": self.ws, "scale_vec": self.scale_vec}
        check_instruction(Tcgen05Mma(self.idesc, self.arch, d, a, b, scale_a=factors, scale_b=factors, metadata=sparse, **given))

    def layout(self, *, lane: int = 0, column: int = 0) -> AccumulatorLayout:
        """Where D lies; InputError for a shape or a lane that there is not."""
        i = self.idesc
        return AccumulatorLayout(i.m, i.n, self.cta_group, ws=self.ws, sparse=i.sparsity, lane=lane, column=column)

    @property
    def kept_half(self) -> np.ndarray:
        """For every logical k 0 where metadata 0x4 keeps it, 1 where 0xE does."""
        group = {4: 8, 32: 2}.get(self.element.bits if self.idesc.row.packing == "packed" else 8, 4)
        return np.arange(self.idesc.k) % group // (group // 2)


_PLAIN = ("ss", "ts", "sp", "ws", None)


@remembered(64)
def cells_of_d(layout: AccumulatorLayout) -> tuple[np.ndarray, ...]:
    """(CTA, lane, column) of every element of D, (M, N) each."""
    m, n = np.meshgrid(np.arange(layout.m), np.arange(layout.n), indexing="ij")
    return layout.location(m, n)


def put_in_cells(layout: AccumulatorLayout, d: np.ndarray, into: np.ndarray) -> None:
    """Write D (..., M, N) to `into` (..., CTA, lane, column), columns counted from 0 of tensor memory on.

    Columns that were not copied out are left away.
    """
    cta, lane, column = cells_of_d(layout)
    seen = column < into.shape[-1]
    into[..., cta[seen], lane[seen], column[seen]] = d[..., seen]


def alone_or_pair(memories: list[Any]) -> Any:
    """One memory by itself, two as a pair: as the instructions take them."""
    return tuple(memories) if len(memories) > 1 else memories[0]


def words_of(numbers: np.ndarray, kind: str) -> np.ndarray:
    """The words of D that hold whole numbers: f32, of kind i8 s32."""
    return numbers.astype(np.int32 if kind == "i8" else np.float32).view(np.uint32)


def whose_number(rows: int, cta_group: int) -> np.ndarray:
    """The number of every row of an operand of `rows` rows: 128 * CTA + its row there."""
    each = rows // cta_group
    return np.arange(rows) // each * CTA_ROWS + np.arange(rows) % each


def same_zeros(words: np.ndarray, kind: str) -> np.ndarray:
    """The words with every -0.0 as +0.0: the sign of a zero is a question of other suites (tcgen05_dots_directed)."""
    return words if kind == "i8" else np.where(words == np.uint32(1 << 31), np.uint32(0), words)


def fresh_tensor_memory(arch: str, cta_group: int, words: np.ndarray | int = SENTINEL) -> TensorMemory:
    """A tensor memory, all of it allocated, that holds these words (128, 512)."""
    memory = TensorMemory(arch)
    memory.alloc(COLUMNS, cta_group=cta_group)
    memory.cells[:] = np.asarray(words, np.uint32)
    return memory


# ---- tcgen05.alloc: the addresses that a sequence of allocations gives


ALLOC, DEALLOC, RELINQUISH = range(3)
NO_ADDRESS = 0xFFFFFFFF


class Tcgen05Alloc(Comparer):
    """Sequences of alloc, dealloc and relinquish by a CTA, or by both of a pair."""

    columns = {"what": 1, "group": 1, "ops": 3, "status": 1, "address": 3, "cycles": 3}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare the addresses; a sequence that breaks a rule, or waits for ever, must not end well."""
        a = self.suite.arrays
        group, ops = int(a["group"][index]), a["ops"][index].tolist()
        hardware = a["address"][index][:group].astype(np.int64)

        def named(op: list[int]) -> str:
            what, columns, number = op
            return {ALLOC: f"alloc {columns}", DEALLOC: f"dealloc {columns} of {number}", RELINQUISH: "relinquish"}.get(what, "")

        def title() -> str:
            return f"cta_group::{group}: {', '.join(filter(None, map(named, ops)))} ({a['what'][index]})"

        def model() -> np.ndarray:
            memory, addresses = TensorMemory(self.suite.arch), np.full(len(ops), NO_ADDRESS, np.int64)
            for at, (what, columns, number) in enumerate(ops):
                if what == ALLOC:
                    addresses[at] = TmemAddress.decode(memory.alloc(columns, cta_group=group)).encode()
                elif what == DEALLOC:
                    memory.dealloc(int(addresses[number]), columns, cta_group=group)
                elif what == RELINQUISH:
                    memory.relinquish_alloc_permit(cta_group=group)
            return np.broadcast_to(addresses, hardware.shape)

        addresses, outcome = judged(int(a["status"][index]), 1, RULES["tcgen05.alloc"], model)
        if outcome:
            return Case(title, outcome)

        def describe(at: tuple[int, ...]) -> str:
            what = f"CTA {at[0]}, operation {at[1]} ({named(ops[at[1]]) or 'none'})"
            said = ["no address" if x[at] == NO_ADDRESS else f"{int(x[at]):#x}" for x in (hardware, addresses)]
            return f"{what}: hardware gives {said[0]} | model {said[1]}"

        return Case(title, differ(hardware, addresses, RULES["tcgen05.alloc"], "addresses", describe, 1))


class Tcgen05Commit(Comparer):
    """tcgen05.commit of one CTA of a cluster: the arrivals at each CTA's mbarrier."""

    columns = {"group": 1, "size": 1, "issuer": 1, "has_mask": 1, "mask": 1, "status": 1, "arrivals": 2}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Compare the arrivals at the mbarriers of all CTAs."""
        a = self.suite.arrays
        group, size, issuer = (int(a[name][index]) for name in ("group", "size", "issuer"))
        mask = int(a["mask"][index]) if a["has_mask"][index] else None

        def title() -> str:
            named = "without a mask" if mask is None else f"with the mask {mask:#b}"
            return f"tcgen05.commit.cta_group::{group} of CTA {issuer} of {size}, {named}"

        def model() -> np.ndarray:
            given = {"cluster_size": size, "cta_rank": issuer, "cta_group": group}
            counts = commit_arrivals(mask, **given)
            return np.array([counts.get(rank, 0) for rank in range(size)])

        counts, outcome = judged(int(a["status"][index]), 1, RULES["tcgen05.commit"], model)
        if outcome:
            return Case(title, outcome)
        hardware = a["arrivals"][index][:size].astype(np.int64)

        def describe(at: tuple[int, ...]) -> str:
            return f"CTA {at[0]}: hardware arrives {hardware[at]} times at its mbarrier | model {counts[at]} times"

        return Case(title, differ(hardware, counts, RULES["tcgen05.commit"], "arrivals", describe, 1))


class Tcgen05Contention(Comparer):
    """CTAs that wait for one another's columns: recorded, not compared."""

    columns = {"sizes": 2, "ctas": 1, "status": 1, "held_start": 1}  # noqa: RUF012

    def case(self, index: int) -> Case:
        """Nothing to compare: the model has one CTA on an SM and no time."""
        a = self.suite.arrays
        sizes = [int(n) for n in a["sizes"][index] if n]
        raise Unmodelled(
            f"{int(a['ctas'][index])} CTAs that ask for {sizes} columns: recorded, not compared; who waits for whom, and who then gets which "
            "columns, is a matter of time, which is not modelled"
        )


# ---- What tcgen05.mma makes of numbers: D's bits


DOT_ROWS, DOT_COLUMNS = 128, 16


class Tcgen05Dot(Comparer):
    """128 x 16 dot products a case, bit for bit."""

    columns = {  # noqa: RUF012
        "what": 1, "kind": 1, "a": 1, "b": 1, "d": 1, "vector": 1, "ue8m0": 1, "idesc": 1, "enable_d": 1, "repeat": 1, "scale_words": 2,
        "form": 1, "group": 1, "metadata": 1, "status": 1, "completed": 1, "rows_start": 1, "columns_start": 1, "c": 3, "result": 3,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare every element; a difference says whether any datapath would have come to the model's bits."""
        a = self.suite.arrays
        i = read_descriptor(int(a["idesc"][index]), str(a["kind"][index]))
        form, group = tuple(str(a["form"][index]).split(".")), int(a["group"][index])
        issued = Issued(self.suite.arch, int(a["idesc"][index]), i, i.a_type, group, "ws" in form, "sp" in form, form)
        probes = str(a["what"][index]).split("; ")

        def title() -> str:
            what = probes[0] if len(probes) == 1 else f"{len(probes)} probes"
            name = str(issued).partition(",")[0]
            return f"{name}, {i.a_type} x {i.b_type} to {i.d_type}, {what}"

        def model() -> tuple[np.ndarray, np.ndarray]:
            issued.check()
            return self._multiplied(index, i)

        found, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        d, certain = found
        mask = np.uint32((1 << element_format(i.d_type).bits) - 1)
        hardware = a["result"][index] & mask

        def describe(at: tuple[int, ...]) -> str:
            m, n = at
            probe = f" ({probes[m]})" if m == n < len(probes) > 1 else ""
            rounding = "" if certain[at] else ", which depends on rounding"
            return f"D[{m}, {n}]{probe}: hardware {int(hardware[at]):#x} | model {int(d[at]):#x}{rounding}"

        return Case(
            title, differ(hardware, d, RULES["arithmetic.tcgen05"], "elements of D", describe, 1), lambda: self._explain(index, i, hardware)
        )

    def _explain(self, index: int, i: InstrDescriptor, hardware: np.ndarray) -> Diagnosis:
        """The difference in words, for instructions that are not sparse."""
        if i.sparsity:
            return Diagnosis("unknown", ("sparse instructions are not looked into",))
        a, times = self.suite.arrays, int(self.suite.arrays["repeat"][index])
        a_side, b_side = (
            Side(np.stack([self.suite.ragged(name, index).reshape(lines, i.k)] * times))
            for name, lines in (("rows", DOT_ROWS), ("columns", DOT_COLUMNS))
        )
        c = a["c"][index].astype(np.uint32) * np.uint32(bool(a["enable_d"][index]))
        factors = self._factors(index, i)
        options = Options(i.negate_a, i.negate_b, 0, i.saturate)
        types = (i.a_type, i.b_type, i.d_type)
        return diagnose(Product(i.kind, types, a_side, b_side, c, options, (factors,) * times if factors else None), hardware)

    def _multiplied(self, index: int, i: InstrDescriptor) -> tuple[np.ndarray, np.ndarray]:
        """D as often as it is added to, and where every step of that is certain."""
        a = self.suite.arrays
        stored = i.k // 2 if i.sparsity else i.k
        rows, columns = (
            self.suite.ragged("rows", index).reshape(DOT_ROWS, stored),
            self.suite.ragged("columns", index).reshape(DOT_COLUMNS, i.k),
        )
        c = a["c"][index].astype(np.uint32)
        given: dict[str, Any] = {name: getattr(i, name) for name in ("a_type", "b_type", "d_type", "negate_a", "negate_b", "saturate")}
        given["factors"] = self._factors(index, i)
        if i.sparsity:  # the same four bits of metadata everywhere
            nibbles = np.full(stored, int(a["metadata"][index]) & 0xF)
            given["index"] = np.broadcast_to(stored_k(np.arange(stored), nibbles, METADATA[i.kind].chunk), rows.shape)
        adds_c = bool(a["enable_d"][index])
        if not adds_c:
            c = np.zeros_like(c)
        certain = np.ones(c.shape, bool)
        for _ in range(int(a["repeat"][index])):
            c, sure = multiply(rows, columns, c, kind=i.kind, adds_c=adds_c, **given)
            adds_c = True
            certain &= sure
        return c, certain

    def _factors(self, index: int, i: InstrDescriptor) -> Factors | None:
        """Scale factors, one word in every lane and column: byte b is that of block b."""
        if not i.row.block_scaled:
            return None
        [mode] = scale_modes(i.row, wide_k=False, asked=str(self.suite.arrays["vector"][index]).removeprefix("."))
        word = self.suite.arrays["scale_words"][index].astype("<u4").view(np.uint8).reshape(2, 4)[:, : mode.scales]
        a, b = (np.broadcast_to(one, (count, mode.scales)) for one, count in zip(word, (DOT_ROWS, DOT_COLUMNS), strict=True))
        return Factors(a, b, str(i.scale_type), i.k // mode.scales)


# ---- The reference kernel of tcgen05: TMA, then every operand that its descriptors read, then D


CTAS, TILE_M, TILE_N = 2, 128, 128  # of one CTA's tile, alone or as half of a pair
STAGES, STEPS, OPERAND_BYTES = 3, 4, 16384
STAGE_BYTES = 2 * OPERAND_BYTES
K_BYTES = 128  # of K in a stage


class Tcgen05Gemm(Comparer):
    """D[256, 128] = A B^T by two CTAs or a pair: the first stage's bytes, then D bit for bit."""

    columns = {  # noqa: RUF012
        "kind": 1, "dtype": 1, "group": 1, "major_a": 1, "major_b": 1, "mode_a": 1, "mode_b": 1, "idesc": 1, "maps": 2, "boxes_a": 3,
        "boxes_b": 3, "descriptors": 3, "image": 2, "d_of": 1, "status": 1, "completed": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.products: dict[tuple[Any, ...], np.ndarray] = {}

    def case(self, index: int) -> Case:
        """Load every stage with the recorded maps, compare the first image, multiply what the descriptors read, compare
        D.
        """
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        majors, modes = ([str(a[f"{name}_{side}"][index]) for side in "ab"] for name in ("major", "mode"))

        def title() -> str:
            return f"{issued}: A {majors[0]}-major {modes[0]}, B {majors[1]}-major {modes[1]}"

        def model() -> AccumulatorLayout:
            words = a["descriptors"][index][0].tolist()
            if not a["status"][index]:
                issued.check(*words)
            else:
                issued.check()
            return issued.layout()

        layout, outcome = judged(int(a["status"][index]), int(a["completed"][index]), RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, outcome)
        return Case(title, self._run(index, issued, layout, majors))

    def _run(self, index: int, issued: Issued, layout: AccumulatorLayout, majors: list[str]) -> Outcome:
        a, group = self.suite.arrays, issued.cta_group
        maps = [TensorMap.from_bytes(raw.tobytes()) for raw in a["maps"][index].reshape(2, -1)]
        for tm in maps:
            if tm.unknown_bits or tm.broken_rules:
                first = f"the map has {', '.join((*tm.unknown_fields, *tm.broken_rules))} | model: no encoder writes that"
                return Outcome(1, 1, first, (), RULES["tensor_map.bits"], "map bytes")
        world, dtype = GlobalMemory(), str(a["dtype"][index])
        matrices = [a[f"a_{dtype}"], a[f"b_{dtype}"][:TILE_N]]
        for tm, matrix, major in zip(maps, matrices, majors, strict=True):
            world.place(matrix if major == "K" else matrix.T, tm.global_address)
        k_stage = K_BYTES // matrices[0].itemsize
        read: list[list[np.ndarray]] = [[], []]  # of A and B, (rows of both CTAs, K) each
        for stage in range(matrices[0].shape[1] // k_stage):
            shared = [SharedMemory(self.suite.arch) for _ in range(CTAS)]
            for cta, memory in enumerate(shared):
                memory.write(memory.begin, bytes(STAGES * STAGE_BYTES))
                self._load(index, memory, world, maps, majors, cta, group, stage, k_stage)
            if not stage:
                outcome = self._compare_image(index, shared[0])
                if outcome.differing:
                    return outcome
            for step in range(STEPS):
                for side, word in enumerate(a["descriptors"][index][STEPS * stage + step].tolist()):
                    rows = (TILE_M, TILE_N // group)[side]
                    dtype, major = issued.of_operand(side)
                    parts = [
                        memory.read_operand(int(word), dtype=dtype, major=major, rows=rows, k=issued.idesc.k).bits for memory in shared
                    ]
                    read[side].append(np.concatenate(parts))
        return self._compare_d(index, issued, layout, [np.concatenate(parts, axis=1) for parts in read])

    def _load(
        self, index: int, shared: SharedMemory, world: GlobalMemory, maps: Any, majors: Any, cta: int, group: int, stage: int, k_stage: int
    ) -> None:
        first_row = (cta * TILE_M, cta * (TILE_N // group) if group == 2 else 0)
        for side, (tm, major) in enumerate(zip(maps, majors, strict=True)):
            for offset, row, k in self.suite.arrays[f"boxes_{'ab'[side]}"][index].tolist():
                if offset >= 0:
                    at = (stage * k_stage + k, first_row[side] + row)
                    address = shared.begin + stage % STAGES * STAGE_BYTES + side * OPERAND_BYTES + offset
                    shared.tma_load(tm, at if major == "K" else at[::-1], smem_address=address, source=world)

    def _compare_image(self, index: int, shared: SharedMemory) -> Outcome:
        model, hardware = shared.bytes[:STAGE_BYTES], self.suite.arrays["image"][index]

        def describe(at: tuple[int, ...]) -> str:
            return f"shared {shared.begin + at[0]:#x}: hardware {hardware[at]:#04x} | model {model[at]:#04x}"

        return differ(hardware, model, RULES["tma.placement"], "bytes", describe, 16)

    def _compare_d(self, index: int, issued: Issued, layout: AccumulatorLayout, operands: list[np.ndarray]) -> Outcome:
        """D as its cells were stored: row 128 * CTA + lane, a column each. Small whole numbers, whose sums no order of
        them changes.
        """
        group = issued.cta_group
        model = np.empty((CTAS * TILE_M, TILE_N), np.uint32)
        cta, lane, column = cells_of_d(layout)
        for tile in range(CTAS // group):
            a_rows = operands[0][tile * TILE_M : tile * TILE_M + layout.m]
            b_rows = operands[1][:TILE_N] if group == 2 else operands[1][tile * TILE_N : (tile + 1) * TILE_N]
            key = (issued.idesc.word, issued.dtype, a_rows.tobytes(), b_rows.tobytes())
            if key not in self.products:
                types: dict[str, Any] = {"a_type": issued.idesc.a_type, "b_type": issued.idesc.b_type, "d_type": issued.idesc.d_type}
                self.products[key] = multiply(a_rows, b_rows, np.zeros((layout.m, TILE_N), np.uint32), kind=issued.idesc.kind, **types)[0]
            model[(tile + cta) * TILE_M + lane, column] = self.products[key]
        number = int(self.suite.arrays["d_of"][index])
        hardware = self.suite.arrays["d"][number]

        def describe(at: tuple[int, ...]) -> str:
            return f"D[{at[0]}, {at[1]}]: hardware {int(hardware[at]):#010x} | model {int(model[at]):#010x}"

        result = differ(hardware, model, RULES["arithmetic.tcgen05"], "elements of D", describe, 2)
        return result if result.differing else agree(STAGE_BYTES + model.size)


# ---- tcgen05.mma operands in shared memory: which element of the window was read for every element, and in
# which cell of D it shows


BARRIER_BYTES = 256  # at the end of the window, which hold no tags
NO_TAG = -3
UNKNOWN = -4  # in the model: the probe did not write these bytes


@dataclasses.dataclass(frozen=True)
class _Probed:
    """The operand that a case probes."""

    issued: Issued
    operand: str
    major: str
    descriptor: int
    rows: int  # of one CTA
    stored_k: int
    halves: int

    def place(self) -> np.ndarray:
        """(rows, stored k) of one CTA: chunk * per_chunk + position of each element. Raises HardwareTrap past the end
        of the window.
        """
        machine, per_chunk = architecture(self.issued.arch), self.issued.per_chunk
        address = operand_addresses(
            self.descriptor, arch=machine.name, dtype=self.issued.dtype, major=self.major, rows=self.rows, k=self.stored_k,
            packing=self.issued.idesc.row.packing,
        ).astype(np.int64)  # fmt: skip
        along, lines = (self.stored_k, self.rows) if self.major == "K" else (self.rows, self.stored_k)
        d = SmemDescriptor.decode(self.descriptor, arch=machine.name)
        if window_reach(d, self.major, lines, -(-along // per_chunk)) > machine.shared_end:
            raise HardwareTrap("the operand passes the end of the shared window", cuda_error=ILLEGAL_ADDRESS)
        position = np.arange(self.stored_k)[None, :] if self.major == "K" else np.arange(self.rows)[:, None]
        place = address // 16 * per_chunk + position % per_chunk
        past = address >= machine.shared_end
        place[past] = 0  # lines past the end that do not fault read as zero
        foreign = ~past & ((address < machine.shared_begin) | (address >= machine.shared_end - BARRIER_BYTES))
        place[foreign.any(1)] = UNKNOWN  # a NaN among them would be in every dot product of the row
        if foreign.any(1).all():
            raise Unmodelled("every row reads bytes that are not the probe's: the system's, or barriers")
        return place

    def shown(self, place: np.ndarray) -> np.ndarray:
        """(halves, M, N): which of `place` (rows of both CTAs, stored k) every element of D shows; 0 where the identity
        has no one.

        B is an identity where A is probed; where B is, A is one in each CTA, sparse ones in two halves by the metadata.
        """
        i, kept = self.issued.idesc, self.issued.kept_half
        out = np.zeros((self.halves, i.m, i.n), np.int64)
        foreign = (place == UNKNOWN).any(1)
        if self.operand == "A":
            out[:, foreign] = UNKNOWN
            logical = np.flatnonzero(kept == 0) if i.sparsity else np.arange(i.k)
            logical = logical[logical < i.n]
            out[0][:, logical] = place[:, : len(logical)]
            return out
        out[:, :, foreign] = UNKNOWN
        row = np.arange(i.m) % (i.m // self.issued.cta_group)
        for half in range(self.halves):
            seen = row < i.k
            if i.sparsity:
                seen &= kept[np.minimum(row, i.k - 1)] == half
            out[half][seen] = place[:, row[seen]].T
        return out

    @property
    def rule(self) -> Rule:
        """The rule that the addresses rest on, the most special one first."""
        machine, fmt = architecture(self.issued.arch), self.issued.element
        if any(machine.smem_descriptor.constants(self.descriptor)):
            return RULES["descriptor.reserved_bits"]
        d, packing = SmemDescriptor.decode(self.descriptor, arch=machine.name), self.issued.idesc.row.packing
        k_bytes = -(-self.stored_k // self.issued.per_chunk) * 16
        given: dict[str, Any] = {"major": self.major, "k_bytes": k_bytes, "bits": fmt.bits}
        return rules_in_force(d, machine, **given, packing=packing if fmt.bits < 8 else "packed")[0]

    def say(self, place: int) -> str:
        """A place in words."""
        if place < 0:
            return {UNTOUCHED: "nothing: the cell is untouched", NO_TAG: "no tag"}.get(place, "what is not the probe's")
        chunk, position = divmod(place, self.issued.per_chunk)
        bits = self.issued.element.bits
        return f"shared {chunk * 16 + position * bits // 8:#x}{f' bit {position * bits % 8}' if bits < 8 else ''}"


class Tcgen05Operand(Comparer):
    """The element that each element of an operand reads, and the cell of D that shows it."""

    columns = {  # noqa: RUF012
        "what": 1, "descriptor": 1, "idesc": 1, "kind": 1, "dtype": 1, "operand": 1, "major": 1, "m": 1, "n": 1, "k": 1, "stored_k": 1,
        "rows": 1, "group": 1, "ws": 1, "sparse": 1, "halves": 1, "status": 1, "completed": 1, "columns": 1, "raw_start": 1,
        "owner_start": 1, "element_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the outcome; then which cells were written, which elements were read, whose they were."""
        a = self.suite.arrays
        issued = Issued.of(self.suite, index)
        rows, stored_k, halves = (int(a[name][index]) for name in ("rows", "stored_k", "halves"))
        operand = str(a["operand"][index])
        _, major = issued.of_operand("AB".index(operand))
        p = _Probed(issued, operand, major, int(a["descriptor"][index]), rows, stored_k, halves)

        def title() -> str:
            what = str(a["what"][index])
            return f"{issued}, {p.operand} {p.major}-major through {p.descriptor:#018x}{f' ({what})' if what else ''}"

        def model() -> tuple[AccumulatorLayout, np.ndarray]:
            # the other operand has no swizzle
            issued.check(*((p.descriptor, 0) if p.operand == "A" else (0, p.descriptor)))
            return issued.layout(), p.place()

        status, completed = int(a["status"][index]), int(a["completed"][index])
        found, outcome = judged(status, completed, RULES["tcgen05.idesc"], model)
        if outcome:
            return Case(title, self._refused(index, p, outcome) if outcome.differing and not status else outcome)
        layout, place = found
        return Case(title, self._compare(index, p, layout, np.tile(place, (issued.cta_group, 1))))

    def _element(self, index: int, p: _Probed) -> np.ndarray:
        return self.suite.ragged("element", index).astype(np.int64).reshape(p.rows * p.issued.cta_group, p.stored_k)

    def _refused(self, index: int, p: _Probed, outcome: Outcome) -> Outcome:
        """Hardware runs what the model calls illegal: does it read where the formulas say?"""
        if len(self.suite.ragged("element", index)) != p.rows * p.issued.cta_group * p.stored_k:
            return outcome
        try:
            same = bool((self._element(index, p) == np.tile(p.place(), (p.issued.cta_group, 1))).all())
        except SmemsimError:  # the formulas have no answer
            return outcome
        return dataclasses.replace(outcome, first=f"{outcome.first}; it reads {'where' if same else 'elsewhere than'} the formulas say")

    def _compare(self, index: int, p: _Probed, layout: AccumulatorLayout, place: np.ndarray) -> Outcome:
        columns = int(self.suite.arrays["columns"][index])
        shape = (p.halves, p.issued.cta_group, LANES, columns)
        raw = self.suite.ragged("raw", index).astype(np.int64).reshape(shape)
        cells = np.full(shape, UNTOUCHED, np.int64)
        put_in_cells(layout, p.shown(place), cells)
        raw = np.where(cells == UNKNOWN, UNKNOWN, raw)
        where = RULES["tcgen05.accumulator"]
        written, expected = raw != UNTOUCHED, cells != UNTOUCHED
        outcome = differ(written, expected, where, "cells", self._cell(p, layout, raw, cells), max(1, columns // 64))
        if outcome.differing:
            return outcome
        element = self._element(index, p)
        element = np.where(place == UNKNOWN, UNKNOWN, element)

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware read {p.say(int(element[at]))} | model {p.say(int(place[at]))}"

        outcome = differ(element, place, p.rule, "elements", describe, max(1, p.stored_k // 64))
        if outcome.differing:
            return self._elsewhere(p, raw, cells, outcome) or outcome
        outcome = differ(raw, cells, where, "cells", self._cell(p, layout, raw, cells), max(1, columns // 64))
        if outcome.differing:
            return outcome
        compared = element.size + raw.size
        if p.issued.cta_group == 2:
            outcome = self._owners(index, p, layout, shape)
            if outcome.differing:
                return outcome
            compared += raw.size
        return agree(compared)

    @staticmethod
    def _cell(p: _Probed, layout: AccumulatorLayout, raw: np.ndarray, cells: np.ndarray) -> Callable[[tuple[int, ...]], str]:
        def describe(at: tuple[int, ...]) -> str:
            half, cta, lane, column = at
            m, n = (int(x[0]) for x in layout.element(np.array([cta]), np.array([lane]), np.array([column])))
            inside = f"D[{m}, {n}]" if m >= 0 else f"no element of layout {layout.name}"
            twice = f"metadata half {half}, " if p.halves > 1 else ""
            return f"{twice}CTA {cta} lane {lane} column {column} ({inside}): hardware shows {p.say(int(raw[at]))} | model {p.say(int(cells[at]))}"

        return describe

    @staticmethod
    def _elsewhere(p: _Probed, raw: np.ndarray, cells: np.ndarray, outcome: Outcome) -> Outcome | None:
        """The outcome where the cells hold the right elements in another order: then D lies otherwise, and the
        addresses are right.
        """
        wrong = raw != cells
        if not wrong.any() or not np.array_equal(np.sort(raw, axis=None), np.sort(cells, axis=None)):
            return None
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), raw.shape))
        there = np.argwhere((raw == cells[at]) & (cells != cells[at]))
        cta, lane, column = there[0][1:].tolist() if len(there) else at[1:]
        first = (
            f"hardware read the same elements and put them into other cells: {p.say(int(cells[at]))} shows in CTA {cta} lane {lane} column "
            f"{column} | model has it in CTA {at[1]} lane {at[2]} column {at[3]}"
        )
        return Outcome(
            raw.size, int(wrong.sum()), first, grid_map(wrong, max(1, raw.shape[-1] // 64)), RULES["tcgen05.accumulator"], "cells"
        )

    def _owners(self, index: int, p: _Probed, layout: AccumulatorLayout, shape: tuple[int, ...]) -> Outcome:
        """Compares from which CTA's shared memory each element came."""
        whose = np.repeat(np.arange(1, p.issued.cta_group + 1), p.rows)[:, None] + np.zeros(p.stored_k, np.int64)
        cells = np.full(shape, UNTOUCHED, np.int64)
        put_in_cells(layout, p.shown(whose), cells)
        owner = self.suite.ragged("owner", index).astype(np.int64).reshape(shape)

        def describe(at: tuple[int, ...]) -> str:
            names = {1: "the even CTA's memory", 2: "the odd CTA's memory", 0: "no element of the operand", UNTOUCHED: "an untouched cell"}
            said = [names.get(int(x[at]), "no tag") for x in (owner, cells)]
            return f"CTA {at[1]} lane {at[2]} column {at[3]}: hardware shows {said[0]} | model {said[1]}"

        return differ(owner, cells, RULES["tcgen05.pair"], "owners", describe, max(1, shape[-1] // 64))
