"""Traces of compilers: their layouts and matrix instructions.

The compiler gives linear layouts of every buffer, which do not depend on descriptors. The model decodes the words in
the PTX. Every MMA is compared. The place and layout of D give the rows of A and B that it must multiply. Its position
among the MMAs with the same D gives K. The layouts of A, B and the scale factors give the places of those elements.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.layout.tensor_memory import copy_lane
from smemsim.core.machine.tmem.address import TmemAddress
from smemsim.core.machine.tmem.copy import copy_shape
from smemsim.core.machine.tmem.layout import AccumulatorLayout, ATmemLayout, ScaleLayout
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import Rule
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.tcgen05 import kind_of
from smemsim.core.spec.tensor_memory import CELL_BITS
from smemsim.core.words.instr import InstrDescriptor
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force
from smemsim.core.words.smem import SmemDescriptor
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, grid_map

__all__ = ["INPUTS", "NOWHERE", "CompiledMma", "LinearLayout"]


# ---- Linear layouts: the place of a tensor as an XOR of bases, one for each bit of an address


# an offset in shared memory; or a lane and a column of tensor memory
INPUTS = {"offset": 0, "lane": 1, "column": 2, "cta": 3}
NOWHERE = -1


class LinearLayout:
    """Coordinates as the XOR of one basis for every set bit of the inputs. They are the row of A, B or D, and K or the
    column of D. Inputs count units of the layout.

    Each bit has a row (input, first coordinate, second coordinate), the lowest bit first. Inputs are those of `INPUTS`.

    >>> layout = LinearLayout(np.array([[0, 0, 1], [0, 0, 2], [0, 1, 2]]))    # two rows of four, the second one swizzled
    >>> layout.coordinates(0, offset=np.arange(8)).tolist()
    [[0, 0], [0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [1, 0], [1, 1]]
    >>> layout.offsets[0].tolist(), layout.contiguous
    ([[0, 1, 2, 3], [6, 7, 4, 5]], 1)
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows.astype(np.int64)
        self.shape = tuple((1 + np.bitwise_or.reduce(self.rows[:, 1:], axis=0)).tolist())

    @functools.cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """For each input both coordinates of all its values as one number, the first one above bit 32: an XOR of these
        is the XOR of each.
        """
        out = {}
        for name, number in INPUTS.items():
            table = np.zeros(1, np.int64)
            for first, second in self.rows[self.rows[:, 0] == number, 1:]:
                table = np.concatenate([table, table ^ (first << 32 | second)])
            out[name] = table
        return out

    def coordinates(self, cta: Any, **inputs: Any) -> np.ndarray:
        """(..., 2): what lies at an offset, or at a lane and column, of a CTA; `NOWHERE` outside."""
        inside, both = np.ones((), bool), np.zeros((), np.int64)
        for name, value in {"cta": cta, **inputs}.items():
            table, at = self.tables[name], np.asarray(value)
            fits = (at >= 0) & (at < len(table))
            if not fits.all():
                inside, at = inside & fits, np.where(fits, at, 0)
            both = both ^ table[at]
        if not inside.all():
            both = np.where(inside, both, NOWHERE)
        return _apart(both)

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """int64 (CTAs, *shape): the lowest offset of each place in each CTA's memory, `NOWHERE` for what another CTA
        has.
        """
        units = len(self.tables["offset"])
        out = np.full((len(self.tables["cta"]), self.shape[0] * self.shape[1]), units, np.int64)
        for cta, shift in enumerate(self.tables["cta"]):
            row, k = _apart(self.tables["offset"] ^ shift).T
            # padding has the coordinates of what it pads
            np.minimum.at(out[cta], row * self.shape[1] + k, np.arange(units))
        return np.where(out == units, NOWHERE, out).reshape(-1, *self.shape)

    @functools.cached_property
    def contiguous(self) -> int:
        """The coordinate in which neighbours in memory differ: 0 is M or N, 1 is K; of tensor memory always K."""
        first = self.tables["offset"][1:2]
        return 1 if not len(first) else int(np.argmax(_apart(first[0]) != 0))


def _apart(both: np.ndarray) -> np.ndarray:
    """(..., 2): coordinates that lie in one number, as `LinearLayout.tables` has them."""
    out = np.empty((*both.shape, 2), np.int64)
    np.right_shift(both, 32, out=out[..., 0])
    np.right_shift(both << 32, 32, out=out[..., 1])  # its sign too
    return out


# ---- Kernels that were compiled and never run: do their words address the layouts that the compiler reports?


A, B, D, SFA, SFB, SFA_TMEM, SFB_TMEM = range(7)  # the buffers; scale factors in shared, then in tensor memory
NOTHING = -2  # no element of the operand, where NOWHERE is none of the layout: they never agree
MOST = 4096  # extent of a tile
UNKNOWN = 2  # enable-input-d: decided when the kernel runs


@dataclasses.dataclass(frozen=True)
class _Check:
    """One comparison: the compiler's array, the model's, and a sentence about an index of them."""

    what: str
    compiler: np.ndarray
    model: np.ndarray
    describe: Callable[[tuple[int, ...]], str]
    rule: Rule | None = None


@dataclasses.dataclass(frozen=True)
class _Site:
    """One MMA and what it must multiply, in coordinates of the tensors: `rows` of A, `columns` of B, K from `k` on."""

    number: int
    idesc: InstrDescriptor
    words: dict[str, int]
    rows: np.ndarray
    columns: np.ndarray
    k: np.ndarray


class CompiledMma(Comparer):
    """Every tcgen05.mma and tcgen05.cp of a compiled kernel against the compiler's own layouts."""

    columns = {  # noqa: RUF012
        "name": 1, "ptx_sha256": 1, "cta_group": 1, "a_type": 1, "b_type": 1, "d_type": 1, "scale_type": 1, "scale_block": 1,
        "a_in_tmem": 1, "saturate": 1, "tile": 2, "instruction": 2, "base": 2, "unit_bits": 2, "layout_start": 1, "mma_start": 1, "mnemonic_start": 1,
        "cp_start": 1, "copy_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Follow every instruction of one kernel up to the first thing that differs."""
        kernel, compared = _Kernel(self.suite, index), 0
        try:
            for check in kernel.checks():
                compared += int(check.compiler.size)
                wrong = check.compiler != check.model
                if wrong.any():
                    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
                    marks = grid_map(wrong, max(1, wrong.size // len(wrong) // 64))
                    return Case(kernel.title, Outcome(compared, int(wrong.sum()), check.describe(at), marks, check.rule, check.what))
        except InputError as e:
            return Case(kernel.title, Outcome(compared + 1, 1, f"compiler emits it | model refuses it: {e}", (), None, "operands"))
        return Case(kernel.title, Outcome(compared))


class _Kernel:
    """One case of a suite, and what it is checked for."""

    def __init__(self, suite: Suite, index: int) -> None:
        a, self.arch = suite.arrays, suite.arch
        self.name, self.cta_group, self.a_in_tmem = str(a["name"][index]), int(a["cta_group"][index]), bool(a["a_in_tmem"][index])
        self.types = {side: str(a[f"{side}_type"][index]) for side in ("a", "b", "d", "scale")}
        self.saturate = bool(a["saturate"][index])
        self.scale_block = int(a["scale_block"][index])
        self.m, self.n = a["instruction"][index].tolist()
        self.base, self.unit_bits = a["base"][index].tolist(), a["unit_bits"][index].tolist()
        rows = suite.ragged("layout", index)
        self.layouts = {i: LinearLayout(rows[rows[:, 0] == i, 1:]) for i in np.unique(rows[:, 0]).tolist()}
        names = ("a", "b", "idesc", "d", "enable_input_d", "scale_a", "scale_b")
        self.words = [dict(zip(names, row, strict=True)) for row in suite.ragged("mma", index).tolist()]
        self.mnemonics = [str(text).split(".") for text in suite.ragged("mnemonic", index)]
        self.copies = list(zip(suite.ragged("cp", index).tolist(), map(str, suite.ragged("copy", index)), strict=True))
        self.tile = tuple(a["tile"][index].tolist())
        self._check()

    def _check(self) -> None:
        """ValueError where the numbers cannot be a kernel's: a damaged trace must not take the machine's memory."""
        if self.cta_group not in (1, 2) or min(self.m, self.n, *self.tile) < 1 or max(self.m, self.n, *self.tile) > MOST:
            raise ValueError(f"cta_group {self.cta_group}, tile {self.tile}, instruction {self.m} x {self.n}")
        for buffer, layout in self.layouts.items():
            if not 0 <= buffer < len(self.unit_bits) or self.unit_bits[buffer] not in (8, 16, 32):
                raise ValueError(f"buffer {buffer} has a layout and no unit of 8, 16 or 32 bits")
            if max(layout.shape) > MOST or min(layout.shape) < 1 or len(layout.rows) > 2 * MOST.bit_length():
                raise ValueError(f"the layout of buffer {buffer} has shape {layout.shape}")

    def title(self) -> str:
        """The case in words, for reports."""
        return f"{self.name}, {len(self.words)} MMAs, {len(self.copies)} copies"

    def checks(self) -> Iterator[_Check]:
        """Every comparison, each resting on those before it."""
        turns: dict[int, int] = {}
        places: dict[int, _Check] = {}
        sites = []
        for number, words in enumerate(self.words):
            turn = turns[words["d"]] = turns.get(words["d"], -1) + 1
            idesc = InstrDescriptor.decode(words["idesc"], kind=self._qualifier(number, "kind"))
            yield self._instruction(number, idesc, words, turn)
            if not turn:
                places[words["d"]] = self._accumulator(number, words)
                yield places[words["d"]]
            m, n = places[words["d"]].compiler[:, 0, 0], places[words["d"]].compiler[0, :, 1]
            sites.append(_Site(number, idesc, words, m, n, turn * idesc.k + np.arange(idesc.k)))
        for site in sites:
            yield from self._tensor(site) if self.a_in_tmem else self._shared(site, A)
            yield from self._shared(site, B)
            if self.scale_block:
                yield self._scales(site, "A")
                yield self._scales(site, "B")
        yield from self._copied()
        yield from self._consumed(sites)

    def _qualifier(self, number: int, name: str) -> str:
        """The part of a mnemonic after `.name::`."""
        for part in self.mnemonics[number]:
            if part.startswith(f"{name}::"):
                return part.removeprefix(f"{name}::")
        raise ValueError(f"mnemonic {'.'.join(self.mnemonics[number])!r} of MMA {number} has no .{name}::")

    def _instruction(self, number: int, idesc: InstrDescriptor, words: dict[str, int], turn: int) -> _Check:
        """The instruction descriptor and the first accumulation."""
        majors = ["MN" if self.layouts[x].contiguous == 0 else "K" for x in (A, B)]
        expected: dict[str, Any] = {"cta_group": self.cta_group, "m": self.m, "n": self.n, "a_major": majors[0], "b_major": majors[1]}
        expected |= {f"{side}_type": self.types[side] for side in ("a", "b", "d")}
        expected |= {"scale_type": self.types["scale"] or None, "saturate": self.saturate}
        group = int(self._qualifier(number, "cta_group"))
        decoded = {"cta_group": group} | {name: getattr(idesc, name) for name in expected if name != "cta_group"}
        # then all the other bits too; the scale factors' ids are looked at with the scale factors
        if expected == decoded:
            given = {name: value for name, value in expected.items() if name not in ("cta_group", "d_type")}
            whole = InstrDescriptor(kind=idesc.kind, d_type=idesc.d_type, a_sf_id=idesc.a_sf_id, b_sf_id=idesc.b_sf_id, **given)
            expected["word"], decoded["word"] = f"{whole.word:#010x}", f"{idesc.word:#010x}"
        if words["enable_input_d"] != UNKNOWN:
            expected["enable_input_d"], decoded["enable_input_d"] = int(turn > 0), words["enable_input_d"]

        def describe(at: tuple[int, ...]) -> str:
            name = list(expected)[at[0]]
            return f"MMA {number}, idesc {idesc.word:#010x}, {name}: compiled for {expected[name]} | model decodes {decoded[name]}"

        compiler, model = (np.array([str(table[name]) for name in expected]) for table in (expected, decoded))
        return _Check("fields", compiler, model, describe)

    def _accumulator(self, number: int, words: dict[str, int]) -> _Check:
        """The compiler's content of the cells that the instruction writes: a rectangle, rows by columns, inside the
        tensor.
        """
        address = TmemAddress.decode(words["d"])
        base = TmemAddress.decode(self.base[D])
        cells = AccumulatorLayout(self.m, self.n, self.cta_group, lane=address.lane, column=address.column)
        m, n = np.meshgrid(np.arange(self.m), np.arange(self.n), indexing="ij")
        cta, lane, column = cells.location(m, n)
        unit = (column - base.column) * CELL_BITS // self.unit_bits[D]
        compiler = self.layouts[D].coordinates(cta, lane=lane - base.lane, column=unit)
        model = np.where(compiler < 0, NOTHING, np.stack(np.broadcast_arrays(compiler[:, :1, 0], compiler[:1, :, 1]), axis=-1))

        def describe(at: tuple[int, ...]) -> str:
            i, j = at[:2]
            return f"MMA {number}, D at {words['d']:#x}, row {i}, column {j}: compiler has element {compiler[i, j]} | model {model[i, j]}"

        return _Check("elements of D", compiler, model, describe)

    def _units(self, operand: int, rows: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of elements in units of the layout, which hold two of the 4-bit ones along the contiguous
        dimension.
        """
        per_unit = max(1, self.unit_bits[operand] // element_format(self.types["ab"[operand]]).bits)
        along_k = self.layouts[operand].contiguous == 1
        return rows if along_k else rows // per_unit, k // per_unit if along_k else k

    def _shared(self, site: _Site, operand: int) -> Iterator[_Check]:
        """An operand in shared memory: each CTA gives its share of the rows."""
        side, fmt = "AB"[operand], element_format(self.types["ab"[operand]])
        word, major = site.words["ab"[operand]], (site.idesc.a_major, site.idesc.b_major)[operand]
        rows = (site.rows, site.columns)[operand]
        share, layout, packing = len(rows) // self.cta_group, self.layouts[operand], kind_of(site.idesc.kind).packing
        model = operand_addresses(word, arch=self.arch, dtype=fmt, major=major, rows=share, k=len(site.k), packing=packing).astype(np.int64)
        k_bytes = len(site.k) * 16 // fmt.elements_per_chunk(packing)
        d = SmemDescriptor.decode(word, arch=self.arch)
        [rule, *_] = rules_in_force(d, architecture(self.arch), major=major, k_bytes=k_bytes, bits=fmt.bits, packing=packing)
        for cta in range(self.cta_group):
            mine = rows[cta * share : (cta + 1) * share]
            at, k = self._units(operand, mine[:, None], site.k[None, :])
            unit = layout.offsets[cta][at, k]
            compiler = np.where(unit < 0, NOWHERE, self.base[operand] + unit * self.unit_bits[operand] // 8)

            def describe(
                at: tuple[int, ...], cta: int = cta, mine: np.ndarray = mine, compiler: np.ndarray = compiler, model: np.ndarray = model
            ) -> str:
                place = f"MMA {site.number}, {side} {word:#018x}, CTA {cta}, row {mine[at[0]]}, k {site.k[at[1]]}"
                return f"{place}: compiler has it at {int(compiler[at]):#x} | model reads {int(model[at]):#x}"

            yield _Check("addresses", compiler, model, describe, rule)

    def _cells(self, what: str, buffer: int, cells: tuple[Any, ...], bit: Any, wanted: np.ndarray) -> _Check:
        """Cells of tensor memory that the model reads: what the compiler has there, and what the instruction needs."""
        cta, lane, column = cells
        base = TmemAddress.decode(self.base[buffer])
        unit = ((column - base.column) * CELL_BITS + bit) // self.unit_bits[buffer]
        compiler = self.layouts[buffer].coordinates(cta, lane=lane - base.lane, column=unit)
        model = np.broadcast_to(wanted, compiler.shape)

        def describe(at: tuple[int, ...]) -> str:
            return f"{what}: compiler has {compiler[at[:-1]]} | model reads it for {model[at[:-1]]}"

        return _Check("cells", compiler, model, describe)

    def _tensor(self, site: _Site) -> Iterator[_Check]:
        """A in tensor memory, with all its copies."""
        address = TmemAddress.decode(site.words["a"])
        layout = ATmemLayout(self.m, site.idesc.kind, self.cta_group, lane=address.lane, column=address.column)
        m, k = np.arange(self.m)[:, None], np.arange(len(site.k))[None, :]
        wanted = np.stack(np.broadcast_arrays(*self._units(A, site.rows[:, None], site.k[None, :])), axis=-1)
        for copy in range(layout.copies):
            *cells, bit = layout.location(m, k, copy)
            yield self._cells(f"MMA {site.number}, A at {site.words['a']:#x}", A, tuple(cells), bit, wanted)

    def _scales(self, site: _Site, operand: str) -> _Check:
        """The scale factors that an instruction reads."""
        buffer, word, scale_id, rows = {
            "A": (SFA_TMEM, site.words["scale_a"], site.idesc.a_sf_id, site.rows),
            "B": (SFB_TMEM, site.words["scale_b"], site.idesc.b_sf_id, site.columns),
        }[operand]
        layout = ScaleLayout(
            operand, m=self.m, n=self.n, kind=site.idesc.kind, scale_vec=f"block{self.scale_block}", cta_group=self.cta_group,
            scale_id=scale_id, column=TmemAddress.decode(word).column,
        )  # fmt: skip
        row, index, copy = np.ix_(np.arange(len(rows)), np.arange(layout.scales), np.arange(layout.copies))
        *cells, byte = layout.location(row, index, copy)
        factors = site.k[0] // self.scale_block + index
        wanted = np.stack(np.broadcast_arrays(rows[row], factors), axis=-1)
        return self._cells(f"MMA {site.number}, scales of {operand} at {word:#x}, id {scale_id}", buffer, tuple(cells), byte * 8, wanted)

    def _copied(self) -> Iterator[_Check]:
        """tcgen05.cp: every byte goes where the compiler wants that scale factor, and every cell gets one."""
        written = {SFA_TMEM: 0, SFB_TMEM: 0}
        for (word, taddr), text in self.copies:
            shape = copy_shape(*(next(iter(re.findall(form, text)), "") for form in (r"\d+x\d+b", r"warpx[\w:]+")))
            address = TmemAddress.decode(taddr)
            to = SFB_TMEM if SFB in self.layouts and address.column >= self.base[SFB_TMEM] > self.base[SFA_TMEM] else SFA_TMEM
            source, written[to] = {SFA_TMEM: SFA, SFB_TMEM: SFB}[to], written[to] + shape.columns
            row, copy, byte = np.ix_(np.arange(shape.rows), np.arange(shape.copies), np.arange(shape.row_bytes))
            lane = address.lane + copy_lane(row, copy, shape.run, shape.run_step, shape.copy_step)
            read = operand_addresses(word, arch=self.arch, dtype="u8", major="K", rows=shape.rows, k=shape.row_bytes).astype(np.int64)
            unit = (read - self.base[source]) * 8 // self.unit_bits[source]
            for cta in range(self.cta_group):
                moved = self.layouts[source].coordinates(cta, offset=unit)[:, None]
                wanted = np.where(moved < 0, NOTHING, moved)
                yield self._cells(f"{text} {word:#018x} to {taddr:#x}", to, (cta, lane, address.column + byte // 4), byte % 4 * 8, wanted)
        columns = [len(self.layouts[to].tables["column"]) * self.unit_bits[to] // CELL_BITS for to in written if to - 2 in self.layouts]
        counts = [count for to, count in written.items() if to - 2 in self.layouts]
        yield _Check("columns copied", np.array([0, *columns]), np.array([0, *counts]), lambda at: f"{columns} wanted | {counts} copied")

    def _consumed(self, sites: list[_Site]) -> Iterator[_Check]:
        """Every element of the tiles is multiplied as often as it must be, no more and no less."""
        m, n, k = self.tile
        shapes = {"A": ((m, k), n // self.n), "B": ((n, k), m // self.m), "D": ((m, n), k // max(1, len(sites[0].k) if sites else 1))}
        for side, (shape, times) in shapes.items():
            taken = [np.zeros((len(sites), extent), np.float32) for extent in shape]
            for i, site in enumerate(sites):
                first, second = {"A": (site.rows, site.k), "B": (site.columns, site.k), "D": (site.rows, site.columns)}[side]
                taken[0][i, first], taken[1][i, second] = 1, 1
            count = (taken[0].T @ taken[1]).astype(np.int64)

            def describe(at: tuple[int, ...], side: str = side, times: int = times, count: np.ndarray = count) -> str:
                return f"{side}{list(at)}: needed {times} times | multiplied {count[at]} times"

            yield _Check("elements consumed", np.full(shape, times), count, describe)
