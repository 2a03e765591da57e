"""Traces of wgmma: operands, products, dot products, whole tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from smemsim.base.errors import HardwareTrap
from smemsim.core.arithmetic.multiply import Options, multiply
from smemsim.core.layout.fragments import d_column, d_element, d_row, d_thread, sparse_k
from smemsim.core.machine.memory import GlobalMemory, Operand, SharedMemory
from smemsim.core.machine.product import MmaResult
from smemsim.core.machine.wgmma import wgmma, wgmma_registers
from smemsim.core.spec.architectures import architecture
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.formats import element_format
from smemsim.core.spec.traps import ILLEGAL_ADDRESS
from smemsim.core.spec.wgmma import WGMMA_M, WGMMA_THREADS
from smemsim.core.words.operand import operand_addresses
from smemsim.core.words.operand_layout import rules_in_force, window_reach
from smemsim.core.words.smem import SmemDescriptor
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.difference.diagnose import Diagnosis, diagnose, explain_difference
from smemsim.diagnosis.difference.sides import Product, Side
from smemsim.evidence.format import Suite
from smemsim.evidence.kinds.common import UNTOUCHED, Comparer, trapped
from smemsim.evidence.kinds.tensor_map import MAP_COLUMNS, recorded_map
from smemsim.evidence.outcome import Case, Outcome, agree, differ

__all__ = ["ReferenceGemm", "TmaWgmma", "WgmmaDots", "WgmmaMma", "WgmmaOperand"]


# ---- wgmma operands: which byte was read for every element


class WgmmaOperand(Comparer):
    """Which byte wgmma read for every element of an operand."""

    columns = {  # noqa: RUF012
        "descriptor": 1, "dtype": 1, "major": 1, "operand": 1, "sparse": 1, "rows": 1, "k": 1, "status": 1, "window_end": 1,
        "address_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare the addresses, or the trap."""
        a, machine = self.suite.arrays, architecture(self.suite.arch)
        word, rows, k = int(a["descriptor"][index]), int(a["rows"][index]), int(a["k"][index])
        dtype, major = str(a["dtype"][index]), str(a["major"][index])
        d = SmemDescriptor.decode(word, arch=machine.name)
        arguments: dict[str, Any] = {"arch": self.suite.arch, "dtype": dtype, "major": major, "rows": rows, "k": k}
        sparse = ", sparse" if a["sparse"][index] else ""

        def title() -> str:
            return f"descriptor {word:#018x}, operand {a['operand'][index]}, {dtype} {major}-major, {rows} x {k}{sparse}"

        end = int(a["window_end"][index])

        def model() -> np.ndarray:
            address = operand_addresses(word, **arguments)
            along, lines = (k, rows) if major == "K" else (rows, k)
            chunks = -(-along // element_format(dtype).elements_per_chunk())
            granted = -(-end // machine.shared_granularity) * machine.shared_granularity
            if window_reach(d, major, lines, chunks) > granted:
                raise HardwareTrap("past the window", cuda_error=ILLEGAL_ADDRESS)
            return np.where(address < end, address, 0)  # past the end no byte is coded, and zero is read

        address, outcome = trapped(int(a["status"][index]), "operand.window", model)
        if outcome:
            return Case(title, outcome)
        hardware = self.suite.ragged("address", index).reshape(rows, k)
        # What lies below the first user byte belongs to the system: hardware reads it without a fault, its contents are
        # not ours.

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware {int(hardware[at]):#x} | model {int(address[at]):#x}"

        fmt = element_format(dtype)
        rules = rules_in_force(d, machine, major=major, k_bytes=k * fmt.bits // 8, bits=fmt.bits)
        return Case(title, differ(hardware, address, rules[0], "addresses", describe, max(1, 16 // max(1, hardware.shape[1] // 8))))


# ---- Whole wgmma instructions: accumulator registers afterwards, from descriptors, registers and metadata


class WgmmaMma(Comparer):
    """D of one wgmma in every register of every thread, bit for bit."""

    columns = {  # noqa: RUF012
        "dtype_a": 1, "dtype_b": 1, "dtype_d": 1, "n": 1, "sparse": 1, "selector": 1, "satfinite": 1, "trans_a": 1, "trans_b": 1,
        "scale_a": 1, "scale_b": 1, "scale_d": 1, "a_source": 1, "a_descriptor": 1, "b_descriptor": 1, "image": 1, "a_block": 1,
        "metadata_block": 1, "c_block": 1, "d_start": 1, "status": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.memories: dict[str, SharedMemory] = {}

    def _memory(self, name: str) -> SharedMemory:
        """A window that holds the image `image_NAME`, from its first byte on."""
        if name not in self.memories:
            shared = SharedMemory(self.suite.arch)
            shared.write(shared.begin, self.suite.arrays[f"image_{name}"], label=name)
            self.memories[name] = shared
        return self.memories[name]

    def _run(self, index: int) -> MmaResult:
        a = self.suite.arrays
        n, d_type = int(a["n"][index]), str(a["dtype_d"][index])
        before = np.ascontiguousarray(a["c_blocks"][a["c_block"][index]][:, : n // 2].astype(np.uint32))
        if d_type == "f16":
            before = before[:, 0::2] | before[:, 1::2] << np.uint32(16)
        in_registers, sparse = str(a["a_source"][index]) == "registers", bool(a["sparse"][index])
        return wgmma(
            self._memory(str(a["image"][index])),
            a["a_blocks"][a["a_block"][index]] if in_registers else int(a["a_descriptor"][index]),
            int(a["b_descriptor"][index]),
            n=n,
            a_type=str(a["dtype_a"][index]),
            b_type=str(a["dtype_b"][index]),
            d_type=d_type,
            d=before,
            scale_d=bool(a["scale_d"][index]),
            imm_scale_a=int(a["scale_a"][index]),
            imm_scale_b=int(a["scale_b"][index]),
            a_major="MN" if a["trans_a"][index] else "K",
            b_major="MN" if a["trans_b"][index] else "K",
            metadata=a["metadata_blocks"][a["metadata_block"][index]] if sparse else None,
            sparsity_selector=int(a["selector"][index]),
            satfinite=bool(a["satfinite"][index]),
        )

    def case(self, index: int) -> Case:
        """Run the instruction and compare every accumulator element of every thread."""
        a = self.suite.arrays
        types = [str(a[f"dtype_{x}"][index]) for x in "dab"]
        sparse = bool(a["sparse"][index])

        def title() -> str:
            where = str(a["a_source"][index])
            return f"wgmma{'.sp' if sparse else ''} n{int(a['n'][index])} {'.'.join(types)}, A in {where}, B {int(a['b_descriptor'][index]):#018x}"

        if a["status"][index]:
            return Case(title, Outcome(1, 1, f"hardware traps with CUDA error {a['status'][index]} | model runs", (), None, "outcome"))
        result = self._run(index)
        registers = wgmma_registers(result)
        if types[0] == "f16":
            registers = np.stack([registers & np.uint32(0xFFFF), registers >> np.uint32(16)], -1).reshape(WGMMA_THREADS, -1)
        hardware = a["d_values"][self.suite.ragged("d", index)].reshape(WGMMA_THREADS, -1)

        def describe(at: tuple[int, ...]) -> str:
            thread, element = (int(x) for x in at)
            where = f"thread {thread} d{element} = D[{d_row(thread, element)}, {d_column(thread, element)}]"
            return f"{where}: hardware {int(hardware[at]):#x} | model {int(registers[at]):#x}"

        rule = RULES["wgmma.sparse" if sparse else "wgmma.fragments"]
        outcome = differ(hardware, registers, rule, "elements of D", describe, 4)
        return Case(title, outcome, lambda: explain_difference(result, _matrix(hardware), shared=self._memory(str(a["image"][index]))))


def _matrix(registers: np.ndarray) -> np.ndarray:
    """D (64, N) of what the threads hold."""
    m, n = np.meshgrid(np.arange(WGMMA_M), np.arange(registers.shape[1] * 2), indexing="ij")
    return np.asarray(registers[d_thread(m, n), d_element(m, n)])  # type: ignore[arg-type,index]


# ---- What wgmma makes of numbers: whole tiles of dot products, every bit of D


class WgmmaDots(Comparer):
    """D of one wgmma, or of two that follow each other into the same registers."""

    columns = {  # noqa: RUF012
        "style": 1, "dtype_a": 1, "dtype_b": 1, "dtype_d": 1, "n": 1, "k": 1, "a_source": 1, "sparse": 1, "scale_a": 1, "scale_b": 1,
        "satfinite": 1, "chained": 1, "scale_d": 1, "nibble": 1, "a_start": 1, "b_start": 1, "c_pool": 2, "c_start": 1, "d_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Compare every element of D."""
        a = self.suite.arrays
        given = self._given(index)
        d = given.c
        for rows, columns in zip(given.a, given.b, strict=True):
            d, _ = multiply(rows, columns, d, kind="wgmma", index=given.where, **given.options._asdict(), **given.types)
        hardware = self.suite.ragged("d", index).reshape(d.shape)

        def title() -> str:
            mnemonic = ".".join(given.types[x] for x in ("d_type", "a_type", "b_type"))
            forms = [f"A in {a['a_source'][index]}"]
            forms += [
                text for name, text in (("chained", "two in a row"), ("sparse", ".sp"), ("satfinite", ".satfinite")) if a[name][index]
            ]
            forms += [f"imm-scale-{x} -1" for x in "ab" if a[f"scale_{x}"][index] < 0]
            forms += [] if a["scale_d"][index] else ["scale-d 0"]
            return f"wgmma n{d.shape[1]} {mnemonic}, {', '.join(forms)}, numbers: {str(a['style'][index]).partition(':')[0]}"

        def describe(at: tuple[int, ...]) -> str:
            return f"D[{at[0]}, {at[1]}]: hardware {int(hardware[at]):#x} | model {int(d[at]):#x}"

        outcome = differ(hardware, d, RULES["arithmetic.wgmma"], "elements of D", describe, 4)
        return Case(title, outcome, lambda: diagnose(given.product(), hardware))

    def _given(self, index: int) -> _Given:
        a = self.suite.arrays
        n, k, sparse = int(a["n"][index]), int(a["k"][index]), bool(a["sparse"][index])
        types = {f"{x}_type": str(a[f"dtype_{x}"][index]) for x in "abd"}
        stored = k // 2 if sparse else k
        c = a["c_pool"][index][self.suite.ragged("c", index)].reshape(WGMMA_M, n) * np.uint32(a["scale_d"][index])
        where = None
        if sparse:
            s = np.arange(stored)
            # A tf32 is two of the elements that metadata is about.
            halves = types["a_type"] == "tf32"
            k_of = np.asarray(sparse_k(2 * s if halves else s, int(a["nibble"][index])))  # type: ignore[arg-type]
            where = np.broadcast_to(k_of // 2 if halves else k_of, (WGMMA_M, stored))
        options = Options(bool(a["scale_a"][index] < 0), bool(a["scale_b"][index] < 0), 0, bool(a["satfinite"][index]))
        tiles = self.suite.ragged("a", index).reshape(-1, WGMMA_M, stored), self.suite.ragged("b", index).reshape(-1, n, k)
        return _Given(types, *tiles, c.astype(np.uint32), options, where)


class _Given(NamedTuple):
    """One case: types as arguments, A (tiles, 64, stored K), B (tiles, N, K), C (64, N), the K `where` each element of
    a sparse A is.
    """

    types: dict[str, Any]
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    options: Options
    where: np.ndarray | None

    def product(self) -> Product:
        """The case as a product, a sparse A with its zeros."""
        a = self.a
        if self.where is not None:
            a = np.zeros((len(a), WGMMA_M, self.b.shape[2]), a.dtype)
            np.put_along_axis(a, np.broadcast_to(self.where, self.a.shape), self.a, axis=2)
        types = (self.types["a_type"], self.types["b_type"], self.types["d_type"])
        return Product("wgmma", types, Side(a), Side(self.b), self.c, self.options)


# ---- TMA and wgmma together: tiles on every phase, and the reference kernel


class TmaWgmma(Comparer):
    """bf16 tiles that TMA wrote and wgmma read: the tensor element each lane received."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "loads": 1, "load_address": 2, "load_coordinates": 3, "descriptor": 1, "major": 1, "element": 3,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """Run the loads into a memory with owners, read the operand, and compare what its elements are."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        word, major = int(a["descriptor"][index]), str(a["major"][index])

        def title() -> str:
            return f"descriptor {word:#018x} {major}-major over {int(a['loads'][index])} loads of {tm!r}"

        if wrong_map:
            return Case(title, wrong_map)
        pitch = tm.global_strides[0]
        world, shared = GlobalMemory(), SharedMemory(self.suite.arch)
        world.place(np.zeros(pitch * tm.global_dim[1], np.uint8), tm.global_address)
        for i in range(int(a["loads"][index])):
            at = a["load_coordinates"][index, i].tolist()
            shared.tma_load(tm, at, smem_address=int(a["load_address"][index, i]), source=world)
        operand = shared.read_operand(word, arch=self.suite.arch, dtype="bf16", major=major, rows=64, k=16)
        place = operand.coordinates()[..., :2]
        inside = ((place >= 0) & (place < tm.global_dim)).all(-1)
        model = np.where(inside, place[..., 0] + place[..., 1] * (pitch // 2), -1)
        model[operand.writer < 0] = UNTOUCHED
        hardware = a["element"][index].astype(np.int64)

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware got element {hardware[at]} | model {model[at]} (-1: fill, -2: unwritten)"

        return Case(title, differ(hardware, model, RULES["operand.base_offset"], "elements", describe, 8))


class ReferenceGemm(Comparer):
    """The reference kernel: shared memory before the first MMA, then D from the operands its descriptors read."""

    columns = {  # noqa: RUF012
        "data": 1, "major_a": 1, "major_b": 1, "map_a": 2, "map_b": 2, "boxes_a": 3, "boxes_b": 3, "descriptors": 3, "image": 2, "d": 3,
        "stage_address": 1,
    }  # fmt: skip
    tile, stage = 64, 16384  # rows and K of a stage's operands; bytes of a stage, A first

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite)
        self.stage_address = int(suite.arrays["stage_address"][0]) if len(suite) else 0

    def case(self, index: int) -> Case:
        """Load every tile with the recorded maps, compare the first image, multiply what the descriptors read, compare
        D bit for bit.
        """
        a = self.suite.arrays
        data, majors = str(a["data"][index]), (str(a["major_a"][index]), str(a["major_b"][index]))
        maps = [TensorMap.from_bytes(a[f"map_{side}"][index].tobytes()) for side in "ab"]

        def title() -> str:
            return f"{data}, A {majors[0]}-major {maps[0].swizzle.name}, B {majors[1]}-major {maps[1].swizzle.name}"

        for tm in maps:
            if tm.unknown_bits or tm.broken_rules:
                first = f"the map has {', '.join((*tm.unknown_fields, *tm.broken_rules))} | model: no encoder writes that"
                return Case(title, Outcome(1, 1, first, (), RULES["tensor_map.bits"], "map bytes"))
        world = self._global_memory(data, maps, majors)
        rows, k_extent = a[f"a_{data}"].shape
        d = np.zeros((rows, rows), np.uint32)
        for m in range(0, rows, self.tile):
            for n in range(0, rows, self.tile):
                corner = d[m : m + self.tile, n : n + self.tile]
                for tile, shared in self._stages(index, world, maps, majors, (m, n), k_extent):
                    if (m, n, tile) == (0, 0, 0):
                        outcome = self._compare_image(index, shared)
                        if outcome.differing:
                            return Case(title, outcome)
                    for a_read, b_read in self._operands(index, shared, majors, tile):
                        corner[:] = multiply(a_read.bits, b_read.bits, corner, kind="wgmma", a_type="bf16", b_type="bf16", d_type="f32")[0]
        hardware = a["d"][index]

        def describe(at: tuple[int, ...]) -> str:
            values = hardware[at].view(np.float32), d[at].view(np.float32)
            return f"D[{at[0]}, {at[1]}]: hardware {hardware[at]:#010x} = {values[0]} | model {d[at]:#010x} = {values[1]}"

        result = differ(hardware, d, RULES["arithmetic.wgmma"], "elements of D", describe, 8)

        def explain() -> Diagnosis:
            m, n = (int(x[0]) // self.tile * self.tile for x in np.nonzero(hardware != d))
            stages = self._stages(index, world, maps, majors, (m, n), k_extent)
            read = [pair for tile, shared in stages for pair in self._operands(index, shared, majors, tile)]
            a_side, b_side = (_side([pair[side] for pair in read]) for side in (0, 1))
            c = np.zeros((self.tile, self.tile), np.uint32)
            found = diagnose(Product("wgmma", ("bf16", "bf16", "f32"), a_side, b_side, c), hardware[m : m + self.tile, n : n + self.tile])
            return dataclasses.replace(found, because=(*found.because, f"counted from row {m} and column {n} of D, where its tile begins"))

        return Case(title, result if result.differing else agree(self.stage + hardware.size), explain)

    def _global_memory(self, data: str, maps: Sequence[TensorMap], majors: Sequence[str]) -> GlobalMemory:
        """A and B at the addresses of their maps."""
        memory = GlobalMemory()
        for side, tm, major in zip("ab", maps, majors, strict=True):
            matrix = self.suite.arrays[f"{side}_{data}"]
            memory.place(matrix if major == "K" else matrix.T, tm.global_address)
        return memory

    def _stages(
        self, index: int, world: GlobalMemory, maps: Any, majors: Any, corner: tuple[int, int], k_extent: int
    ) -> Iterator[tuple[int, SharedMemory]]:
        """Shared memory, every time both tiles of a stage have been loaded."""
        shared = SharedMemory(self.suite.arch)
        for tile in range(k_extent // self.tile):
            self._load(index, shared, world, maps, majors, corner, tile)
            yield tile, shared

    def _operands(self, index: int, shared: SharedMemory, majors: Any, tile: int) -> Iterator[tuple[Operand, Operand]]:
        """A and B of the instructions of a stage."""
        for step in range(4):
            words = self.suite.arrays["descriptors"][index, 4 * tile + step]
            a, b = (
                shared.read_operand(int(word), arch=self.suite.arch, dtype="bf16", major=major, rows=self.tile, k=16)
                for word, major in zip(words, majors, strict=True)
            )
            yield a, b

    def _load(self, index: int, shared: SharedMemory, world: GlobalMemory, maps: Any, majors: Any, corner: Any, tile: int) -> None:
        stage = self.stage_address + tile % 2 * self.stage
        for i, (side, tm, major) in enumerate(zip("ab", maps, majors, strict=True)):
            for offset, row, k in self.suite.arrays[f"boxes_{side}"][index].tolist():
                if offset >= 0:
                    at = (self.tile * tile + k, corner[i] + row)
                    address = stage + i * self.stage // 2 + offset
                    shared.tma_load(tm, at if major == "K" else at[::-1], smem_address=address, source=world)

    def _compare_image(self, index: int, shared: SharedMemory) -> Outcome:
        begin = self.stage_address - shared.begin
        model, hardware = shared.bytes[begin : begin + self.stage], self.suite.arrays["image"][index]

        def describe(at: tuple[int, ...]) -> str:
            return f"shared {self.stage_address + at[0]:#x}: hardware {hardware[at]:#04x} | model {model[at]:#04x}"

        return differ(hardware, model, RULES["tma.placement"], "bytes", describe, 16)


def _side(operands: Sequence[Operand]) -> Side:
    """One operand of the steps of a product, with the shared address of every element."""
    address = np.stack([one.address for one in operands]).astype(np.int64)
    return Side(np.stack([one.bits for one in operands]), address, lambda step, line, k: f"shared {int(address[step, line, k]):#x}")
